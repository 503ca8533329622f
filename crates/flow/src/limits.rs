//! Every fixed bound of this crate, with its reason. Configurable limits (memcaps, depths, queue
//! lengths) stand in `config`; here are those that guard the cost of a single packet.

use gabion_record::limits;

/// Islands farther apart than this count as regions of their own (the peer's region gap), which
/// `stream.reassembly.max-regions` bounds.
pub const REGION_GAP: u64 = 256 * 1024;

/// Capacity in bytes that a stream's buffer may keep for the next one. Small flows then never
/// allocate; a large one gives its memory back.
pub const KEPT_BUFFER: usize = 16 * 1024;

/// The same of its list of segments.
pub const KEPT_SEGMENTS: usize = 256;

/// Buffers kept for streams that get something to keep: more than are emptied at a time, so that
/// hardly one is allocated, and with a few KiB each a megabyte or two.
pub const KEPT_ROOMS: usize = 512;

/// Finished sessions kept for reuse.
pub const KEPT_SESSIONS: usize = 4_096;

/// Bytes charged to the reassembly budget for one remembered segment besides its data.
pub const SEGMENT_COST: u64 = 24;

/// Windows never count for more than this: 65,535 shifted by 14 (RFC 7323 2.3).
pub const WSCALE_MAX: u8 = 14;

/// Slots of the timing wheel, one second each: the longest usual timeout (600 s) fits without
/// filing a flow twice.
pub const WHEEL_SLOTS: usize = 1_024;

/// Flows filed under the short timeouts of emergency mode for each flow that is made in it: all of them
/// soon, and never all at once. With two, a flood of new flows costs at most twice what it costs where
/// there is room.
pub const REFILE_PER_FLOW: usize = 2;

limits! { "flow";
    /// Segments whose boundaries one stream remembers. Boundaries only decide overlaps; above this the
    /// oldest neighbours are joined, which costs nothing but the finest grain of that decision. Where they
    /// do not touch, half as many more come before it is tried again. 8,192 full-size segments are 11 MiB
    /// in flight, more than windows in use.
    pub const SEGMENTS_MAX: usize = 8_192,
        Spares("the oldest neighbours are joined");

    /// Runs of bytes behind holes that one stream keeps: as many as segments whose boundaries it remembers.
    /// Suricata bounds them by its budget alone; here each one more makes a further one dearer to put in its
    /// place, and a window of the usual size with as many holes would be bytes in turns.
    pub const ISLANDS_MAX: usize = 8_192,
        Loses("segments behind so many holes");

    /// Events a single packet can carry. The state machine sets at most four; one slot each for
    /// retransmission, overlap and depth.
    pub const EVENTS_PER_PACKET: usize = 8,
        Loses("stream events of a packet");

    /// Flows the table looks at, at most, to make room for one new flow. One is enough, unless packets
    /// came for those that would have ended first: they are filed anew and the next is looked at.
    pub const EVICT_PER_PACKET: usize = 16,
        Counts("the packet, as `flow_memcap`");

    /// Fragments of one datagram, whatever its size: 8-byte fragments of a full datagram.
    pub const FRAGMENTS_PER_DATAGRAM: usize = 8_192,
        Loses("fragments of a datagram");

    /// Largest reassembled IP datagram (RFC 791: 16-bit total length).
    pub const DATAGRAM_MAX: usize = 65_535,
        Counts("the fragment, as event `frag_pkt_too_large`");
}
