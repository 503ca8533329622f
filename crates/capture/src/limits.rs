//! The limits of the readers, each with its reason. Reaching one ends the reading with a note and a
//! count in the ledger, or cuts frames where the format itself demands it.

use gabion_record::limits;

/// Bytes of a block read from a file or stream: enough for hundreds of frames, small enough that a block stays in the
/// processor's cache until its frames are looked at, and that a dozen of them can be in flight.
pub const STREAM_BLOCK: usize = 256 << 10;

/// Bytes ahead of the cursor that are prefetched. The start of a record is only known from the one
/// before it, so without a prefetch every record waits for memory: 54 ns per frame instead of 11
/// (measured on frames of 250 bytes; 2 to 8 KiB make no difference).
pub const PREFETCH_AHEAD: usize = 4096;

/// Nanoseconds by which one frame may advance the clock of a run without another frame that agrees:
/// less than any usual timeout, more than the pauses in a busy capture.
pub const STEP_NS: u64 = 1_000_000_000;

/// Nanoseconds by which a frame may be earlier than the clock and still be just late, as frames of
/// several queues are; a frame that is even earlier may be from another clock.
pub const LATE_NS: u64 = 60_000_000_000;

/// Advance of the clock in nanoseconds that is counted as a leap, with the flows it ended: the
/// shortest timeout of flows that were seen in one direction.
pub const LEAP_NS: u64 = 30_000_000_000;

/// Number of frames that must agree with a frame whose time is far off before it is accepted. Two,
/// so that a frame sent twice does not confirm itself.
pub const AGREEING_FRAMES: usize = 2;

/// Clocks that one run distinguishes, the latest in use; one capture does not have more.
pub const CLOCKS_KNOWN: usize = 4;

/// The bound on captured bytes for a link type.
pub const fn caplen_max(link: u16) -> u32 {
    match link {
        // USB (Linux, mmapped, USBPcap, Darwin) and D-Bus.
        189 | 220 | 249 | 266 | 231 => CAPLEN_MAX_BUS,
        279 => CAPLEN_MAX_EBHSCR,
        _ => CAPLEN_MAX,
    }
}

/// How far a frame of an interface may be ahead of the time that has passed before the machine's clock counts as set: its
/// slow corrections stay below.
pub const LIVE_AHEAD_NS: u64 = 2_000_000_000;

/// How far it may stay behind: frames wait in the ring while the program is stopped or has no processor.
pub const LIVE_BEHIND_NS: u64 = 60_000_000_000;

/// How long after the machine's clock was set frames from before that may still come: they wait in a ring, which is read
/// within seconds unless the program is stopped.
pub const LIVE_BEFORE_STEP_NS: u64 = 10_000_000_000;

limits! { "capture";
    /// Most captured bytes of one frame, except for the links below. libpcap's `MAXIMUM_SNAPLEN`: a
    /// record that claims more is treated as garbage, as in libpcap.
    pub const CAPLEN_MAX: u32 = 262_144,
        Counts("the rest of the capture, as `unreadable_record` with a note");

    /// Most captured bytes of a frame on USB and D-Bus links, whose messages are larger than
    /// packets.
    pub const CAPLEN_MAX_BUS: u32 = 128 << 20,
        Counts("the rest of the capture, as `unreadable_record` with a note");

    /// Most captured bytes of a frame on EBHSCR links (as in libpcap).
    pub const CAPLEN_MAX_EBHSCR: u32 = 8 << 20,
        Counts("the rest of the capture, as `unreadable_record` with a note");

    /// Largest pcapng block that holds no frame of a bus link. libpcap's initial bound: no block of
    /// names, statistics or secrets is nearly as large.
    pub const NG_BLOCK_MAX: u32 = 16 << 20,
        Counts("the rest of the capture, as `unreadable_record` with a note");

    /// Most interfaces of one pcapng section: their numbers are kept in 16 bits.
    pub const NG_INTERFACES_MAX: usize = 1 << 16,
        Counts("frames of further interfaces, as `unreadable_record` with a note");

    /// Blocks of a stream kept for reuse while consumers may still hold them; further ones are
    /// allocated and freed.
    pub const STREAM_BLOCKS_KEPT: usize = 16,
        Spares("further blocks are newly allocated");

    /// Notes kept of one source; further ones are only counted.
    pub const NOTES_MAX: usize = 16,
        Counts("further notes, by number");

    /// zstd: largest window accepted (2^27 = 128 MiB, the format's own recommended bound).
    pub const ZSTD_WINDOW_LOG_MAX: u32 = 27,
        Refuses("the capture");

    /// Deepest folder nesting that a recursive listing follows.
    pub const LISTING_DEPTH_MAX: usize = 32,
        Refuses("the folder");

    /// Most files that a listing returns.
    pub const LISTING_FILES_MAX: usize = 1_000_000,
        Refuses("the folder");

    /// Nodes of a capture filter: far beyond any that people write.
    pub const FILTER_NODES_MAX: usize = 4096,
        Refuses("the filter");

    /// Instructions of a filter that the kernel runs (`BPF_MAXINSNS` of linux/bpf_common.h).
    pub const CLASSIC_INSTRUCTIONS_MAX: usize = 4096,
        Spares("the frames are filtered after they were copied");

    /// Depth of parentheses and negations of a capture filter, which bounds the stack.
    pub const FILTER_DEPTH_MAX: usize = 64,
        Refuses("the filter");
}
