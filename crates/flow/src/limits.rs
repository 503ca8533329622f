//! Every fixed bound of this crate, with its reason. Configurable limits (memcaps, depths, queue
//! lengths) are in `config`; the limits here bound the cost of a single packet.

use gabion_record::limits;

/// Islands farther apart than this count as regions of their own (Suricata's region gap), which
/// `stream.reassembly.max-regions` bounds.
pub const REGION_GAP: u64 = 256 * 1024;

/// Capacity in bytes up to which a stream's buffer is kept for the next stream. Small flows then
/// never allocate, and a large one returns its memory.
pub const BUFFER_CAPACITY_KEPT: usize = 16 * 1024;

/// Capacity in bytes of the smallest buffers of streams.
pub const SMALL_BUFFER_BYTES: usize = 512;

/// Capacity up to which a stream's list of segments is kept for the next stream.
pub const SEGMENT_CAPACITY_KEPT: usize = 256;

/// Free buffers of each size kept for streams that receive data: more than are emptied at a time, so that new
/// ones are hardly ever allocated. The largest take two megabytes.
pub const KEPT_BUFFERS: usize = 128;

/// Finished sessions kept for reuse.
pub const KEPT_SESSIONS: usize = 4_096;

/// Bytes charged to the reassembly budget for one remembered segment besides its data.
pub const SEGMENT_COST: u64 = 24;

/// Largest window: 65,535 shifted by 14 (RFC 7323 2.3).
pub const WSCALE_MAX: u8 = 14;

/// Slots of the timing wheel, one second each: a flow with the longest usual timeout (600 s) is
/// inserted only once.
pub const WHEEL_SLOTS: usize = 1_024;

/// Existing flows that get the short timeouts of emergency mode for each flow created in it: all of
/// them soon, but never all at once. With two, a flood of new flows costs at most twice as much as
/// outside of emergency mode.
pub const SHORTEN_PER_FLOW: usize = 2;

limits! { "flow";
    /// Segments whose boundaries one stream remembers. Boundaries only decide overlaps; above this
    /// the oldest neighbours are merged, which only makes that decision coarser. If none of them
    /// touch, the next attempt comes after half as many more. 8,192 full-size segments are 11 MiB
    /// in flight, more than usual windows.
    pub const SEGMENTS_MAX: usize = 8_192,
        Spares("the oldest neighbours are merged");

    /// Runs of bytes after holes that one stream keeps: as many as segments whose boundaries it
    /// remembers. Suricata bounds them by its memcap alone; here each run makes the insertion of a
    /// further one more expensive, and only a stream that skips every second byte has that many
    /// holes in a usual window.
    pub const ISLANDS_MAX: usize = 8_192,
        Loses("segments after more holes");

    /// Inspections of a stream for rules that begin before the same hole again, since it is acknowledged in part:
    /// those of all holes of the stream together. Each looks once more at what follows the hole, so that without a
    /// limit the cost would be the square of that.
    pub const HOLE_LOOKS_MAX: u8 = 16,
        Spares("what follows the hole is inspected once more when all of the hole is acknowledged");

    /// Events a single packet can carry. The state machine sets at most four; one slot each for
    /// retransmission, overlap and depth.
    pub const EVENTS_PER_PACKET: usize = 8,
        Loses("stream events of a packet");

    /// Flows that the table examines to free space for one new flow. One is enough, unless packets
    /// have arrived for the flows that would have ended first: then these are inserted again with
    /// their new deadlines, and the next one is examined.
    pub const EVICT_PER_PACKET: usize = 16,
        Counts("the packet, as `flow_memcap`");

    /// Fragments of one datagram, whatever its size: 8-byte fragments of a full datagram.
    pub const FRAGMENTS_PER_DATAGRAM: usize = 8_192,
        Loses("fragments of a datagram");

    /// Largest reassembled IP datagram (RFC 791: 16-bit total length).
    pub const DATAGRAM_MAX: usize = 65_535,
        Counts("the fragment, as event `frag_pkt_too_large`");
}
