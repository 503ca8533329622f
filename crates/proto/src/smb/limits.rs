//! Limits of the SMB parser.

use gabion_record::limits;

limits! { "proto.smb";
    /// Live transactions of a flow (Suricata's default, `max-tx`).
    pub const TXS_PER_FLOW_MAX: usize = 1024,
        Counts("the rest of the flow, as event `too_many_transactions`");

    /// Live transactions of a flow, however many are configured: the engine frees those that are over only after
    /// the input they came with.
    pub const TXS_KEPT_MAX: usize = 64 * 1024,
        Loses("the oldest transaction of a flow");

    /// Bytes that a request may ask to read and a response may carry (Suricata's default, `max-read-size`).
    pub const READ_BYTES_MAX: u32 = 16 * 1024 * 1024,
        Counts("data of larger messages, as events `read_request_too_large` and `read_response_too_large`");

    /// Bytes that a request may write (Suricata's default, `max-write-size`).
    pub const WRITE_BYTES_MAX: u32 = 16 * 1024 * 1024,
        Counts("data of larger messages, as event `write_request_too_large`");

    /// Bytes of a file that wait for those before them (Suricata's default, `max-read-queue-size` and
    /// `max-write-queue-size`).
    pub const QUEUE_BYTES_MAX: u32 = 64 * 1024 * 1024,
        Counts("chunks of a file, as events `read_queue_size_exceeded` and `write_queue_size_exceeded`");

    /// Chunks of a file that wait for those before them (Suricata's default, `max-read-queue-cnt` and
    /// `max-write-queue-cnt`).
    pub const QUEUE_CHUNKS_MAX: u32 = 64,
        Counts("chunks of a file, as events `read_queue_cnt_exceeded` and `write_queue_cnt_exceeded`");

    /// Names of files that a flow knows by their identifiers (Suricata's default, `max-guid-cache-size`).
    pub const FILES_KNOWN_MAX: usize = 1024,
        Loses("the name used longest ago");

    /// Requests to read that wait for their response (Suricata's default, `max-read-offset-cache-size`).
    pub const READS_KNOWN_MAX: usize = 128,
        Loses("the request made longest ago");

    /// Trees that a flow knows (Suricata's default, `max-tree-cache-size`).
    pub const TREES_KNOWN_MAX: usize = 512,
        Loses("the tree used longest ago");

    /// Pipes whose messages a flow puts together (Suricata's default, `max-dcerpc-frag-cache-size`).
    pub const PIPES_KNOWN_MAX: usize = 128,
        Loses("the pipe used longest ago");

    /// Bytes of a message that are held until it is whole; those that carry a file's data are not held. The largest that
    /// is read for anything else is a session setup with a ticket of 64 KiB.
    pub const MESSAGE_BYTES_MAX: usize = 256 * 1024,
        Loses("the content of longer messages");

    /// Encrypted messages (MS-SMB2 2.2.41) of which the content is read: none, since the keys are not known.
    pub const ENCRYPTED_READ_MAX: usize = 0,
        Loses("the content of an encrypted message");

    /// Bytes of stub data that a call and its answer keep each (Suricata's default, `dcerpc.max-stub-size`).
    pub const STUB_BYTES_MAX: usize = 1024 * 1024,
        Loses("the end of a call's stub data");

    /// Transactions of one message number that are examined for the one that a response belongs to: a client uses a
    /// number once.
    pub const CANDIDATES_MAX: usize = 16,
        Spares("the response belongs to none");

    /// Names in the name of a Kerberos service: there are two or three.
    pub const SERVICE_NAMES_MAX: usize = 16,
        Spares("further ones are not logged");

    /// Dialects that a negotiation offers and that are kept: nine are defined.
    pub const DIALECTS_MAX: usize = 64,
        Spares("further ones are not logged");

    /// Bytes of a text that a transaction keeps: the longest path has 32,767 characters.
    pub const TEXT_BYTES_MAX: usize = 128 * 1024,
        Spares("the end of a longer text is not logged");
}
