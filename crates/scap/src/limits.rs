//! The limits of the reader, the merger and the writer, each with its reason. What is beyond them is counted.

use gabion_record::limits;

/// Bytes that the reader asks of its input at a time: about a thousand events.
pub const READ_LEN: usize = 128 << 10;

/// Bytes of a list after which the writer begins another block of the same kind: readers hold no more than an entry,
/// and lists of usual hosts are one block.
pub const LIST_BLOCK_LEN: usize = 4 << 20;

/// Bytes by which an input is recognized: a header with comments is shorter.
pub const BEGINNING_LEN: u64 = 64 << 10;

limits! { "scap";
    /// Most bytes of a block with one event whose lengths have 16 bits: the body that Falco's reader accepts, with
    /// the block's own words.
    pub const EVENT_BLOCK_MAX: usize = 65_535 + 12,
        Counts("the event, as `unreadable_record` with a note");

    /// Most bytes of a block with one event whose lengths have 32 bits: Falco's plugins write at most 256 KiB, and
    /// descriptions of containers are shorter.
    pub const LARGE_BLOCK_MAX: usize = 16 << 20,
        Counts("the event, as `unreadable_record` with a note");

    /// Most bytes of one entry of a list of processes, descriptors, interfaces or users: all its texts at their
    /// longest need a third of it.
    pub const ENTRY_MAX: usize = 64 << 10,
        Counts("the rest of the list, as `unreadable_record` with a note");

    /// Longest path, name or other short text in a list, bytes (Falco's `SCAP_MAX_PATH_SIZE`).
    pub const PATH_MAX: usize = 1024,
        Counts("the rest of the list, as `unreadable_record` with a note");

    /// Longest list of arguments, variables or control groups of a process, bytes (Falco's `SCAP_MAX_ARGS_SIZE`).
    pub const ARGS_MAX: usize = 4096,
        Counts("the rest of the list, as `unreadable_record` with a note");

    /// Longest name, home or shell of a user, bytes (Falco's `MAX_CREDENTIALS_STR_LEN`).
    pub const USER_TEXT_MAX: usize = 256,
        Counts("the rest of the list, as `unreadable_record` with a note");

    /// Notes kept of one input; further ones are only counted.
    pub const NOTES_MAX: usize = 16,
        Counts("further notes, by number");

    /// Different numbers of unknown event types that are counted one by one; the others are counted together.
    pub const UNKNOWN_TYPES_MAX: usize = 64,
        Counts("events of further types, together");

    /// Threads whose enter event waits for its exit event. Falco's table of threads has as many.
    pub const WAITING_MAX: usize = 262_144,
        Loses("the enter event that waits for another thread");

    /// Bytes of enter events that wait: an event has about 40 bytes, with a path a few hundred.
    pub const WAITING_BYTES_MAX: usize = 32 << 20,
        Counts("the enter event that waits for another thread, as `limit_reached`");

    /// Buffers of enter events that are kept for reuse: more than threads that are between enter and exit.
    pub const SPARE_BUFFERS_MAX: usize = 1024,
        Spares("further buffers are newly allocated");

    /// Largest buffer of an enter event that is kept for reuse.
    pub const SPARE_BUFFER_LEN_MAX: usize = 1024,
        Spares("larger buffers are newly allocated");

    /// Conversions of one event: the longest chain of the event table has eight; Falco stops at 50.
    pub const CONVERSIONS_MAX: usize = 50,
        Counts("the event, as `no_conversion`");

    /// Bytes of the path of a file that the kernel opened: the kernel's limit of a path (`PATH_MAX`).
    pub const OPENED_PATH_MAX: usize = 4096,
        Loses("the rest of the path");

    /// Longest event that a conversion makes, bytes with its head: Falco's converter has a buffer of 64 KiB, and a block
    /// holds no more.
    pub const CONVERTED_LEN_MAX: usize = 65_535 - 6,
        Loses("the event");
}
