//! Limits of NFS, each with its reason.

use gabion_record::limits;

limits! { "proto.nfs";
    /// Live transactions of a flow before one more ends the wait of the oldest (Suricata's default,
    /// `max-tx`).
    pub const OPEN_TXS_MAX: u64 = 1024,
        Counts("open transactions ended, as event `too_many_transactions`");

    /// Live transactions of a flow, done or not: the engine frees those that are done only after the
    /// piece of input they came with, and 64 KiB hold some 900 calls.
    pub const TXS_PER_FLOW_MAX: usize = 8 * 1024,
        Loses("the oldest transaction of a flow");

    /// Calls that wait for their replies (Suricata's default, `max-requests`). Clients have some dozens under way.
    pub const CALLS_MAX: usize = 4096,
        Loses("what is known of a call when its reply comes");

    /// Bytes of a file that a reply to a READ or a WRITE may carry (Suricata's defaults, `max-read-size` and
    /// `max-write-size`).
    pub const TRANSFER_BYTES_MAX: u32 = 16 * 1024 * 1024,
        Counts("the bytes of a longer one, as events `read_response_too_large` and `write_request_too_large`");

    /// Bytes of a file that wait for those before them (Suricata's default, `max-read-queue-size` and
    /// `max-write-queue-size`).
    pub const QUEUE_BYTES_MAX: u32 = 64 * 1024 * 1024,
        Counts("parts of a file, as events `read_queue_size_exceeded` and `write_queue_size_exceeded`");

    /// Parts of a file that wait for those before them (Suricata's default, `max-read-queue-cnt` and
    /// `max-write-queue-cnt`).
    pub const QUEUE_CHUNKS_MAX: u32 = 64,
        Counts("parts of a file, as events `read_queue_cnt_exceeded` and `write_queue_cnt_exceeded`");

    /// Names kept of handles (Suricata's default, `max-names`), the one that was used longest ago first to go: a listing of a
    /// directory adds one for each file.
    pub const NAMES_MAX: usize = 512,
        Loses("the name of a file in later records");

    /// Bytes of a name that are kept: file systems allow 255.
    pub const NAME_BYTES_MAX: usize = 4096,
        Loses("the message with the longer name");

    /// Bytes of a handle (RFC 7530 3.2: 128; earlier versions have fewer).
    pub const HANDLE_BYTES_MAX: usize = 128,
        Loses("the message with the longer handle");

    /// Bytes of a credential or verifier (RFC 5531 8.2).
    pub const AUTH_BYTES_MAX: usize = 400,
        Counts("the message, as event `malformed_data`");

    /// Bytes of a machine's name (RFC 5531 appendix A).
    pub const MACHINE_NAME_MAX: usize = 255,
        Counts("the message, as event `malformed_data`");

    /// Bytes of a record that is waited for whole. What it says of files is at its beginning; the rest of
    /// a longer one is passed over, and data of files is taken as it comes.
    pub const WHOLE_RECORD_BYTES_MAX: usize = 48 * 1024,
        Spares("the rest of the record is passed over");

    /// Operations of a compound that are read. A client sends a dozen.
    pub const OPERATIONS_MAX: usize = 256,
        Loses("further operations of a compound");
}
