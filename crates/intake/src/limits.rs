//! Every limit of the log server and the load generator, with its reason.

use gabion_record::limits;
use std::time::Duration;

/// Longest pause of a listener after errors of accepting.
pub const PAUSE_MAX: Duration = Duration::from_secs(1);

/// The longest until a witness that failed is asked again.
pub const AGAIN_MAX: Duration = Duration::from_secs(300);

/// How long the program that `--push-command` names may take.
pub const COMMAND_MAX: Duration = Duration::from_secs(30);

/// The same when the run has been asked to end.
pub const COMMAND_LAST: Duration = Duration::from_secs(1);

/// How long listeners take in and hand on what is there when they have been asked to end, and the sealer may take to make
/// room for it: a flood does not end by itself. What is left then is shed and counted, or stays with its sender.
pub const LISTEN_LAST: Duration = Duration::from_secs(1);

/// How long all places that checkpoints are carried to are waited for when the run has been asked to end: a
/// witness on the other side of the world answers within a second, and a run ends within two.
pub const CARRY_LAST: Duration = Duration::from_millis(1500);

/// How long a witness may take for an answer, however it comes.
pub const WITNESS_MAX: Duration = Duration::from_secs(30);

/// How long those that take logs from a listener have for taking its last answers.
pub const ANSWERS_LAST: Duration = Duration::from_millis(1500);

/// How long a handshake may take: TLS, the opening of RELP, an envelope.
pub const OPENING_MAX: Duration = Duration::from_secs(10);

limits! { "intake";
    /// Bytes of a witness' answer: a few signature lines.
    pub const WITNESS_ANSWER_MAX: u64 = 64 << 10,
        Refuses("the answer: the witness is asked again");

    /// Empty batches of a listener kept for use again: as many as are under way at full speed. One that is thrown
    /// away was grown step by step in one thread and is freed in another, which costs time and leaves holes.
    pub const SPARE_BATCHES_MAX: usize = 8,
        Spares("further ones are allocated again");

    /// Rows of losses between two writings: a flood from forged addresses must not become a flood of loss
    /// records.
    pub const LOSS_ROWS_MAX: usize = 1024,
        Spares("the losses of further sources of that second are reported together");

    /// Senders of datagrams whose names are kept ready.
    pub const DATAGRAM_SENDERS_MAX: usize = 4096,
        Spares("all are forgotten and made again");

    /// Letters of the name that a client's certificate shows.
    pub const CLIENT_NAME_MAX: usize = 255,
        Loses("the end of the name");

    /// Bytes of answers of a connection that its client has not read: then it is read no further.
    pub const ANSWER_BYTES_MAX: usize = 64 << 10,
        Spares("the connection is read on when answers were taken");

    /// Bytes of a file with keys or certificates: all authorities of a system have 250 KB.
    pub const KEY_FILE_BYTES_MAX: u64 = 16 << 20,
        Refuses("the file");

    /// Bytes of the metrics of a running log server.
    pub const METRICS_BYTES_MAX: u64 = 4 << 20,
        Refuses("the answer");

    /// Bytes of unfinished frames of all connections: 16 KiB for each of a thousand, while honest ones hold part of a
    /// line. Small enough that intake as a whole stays within its 64 MiB whatever anybody sends.
    pub const HELD_BYTES_MAX: usize = 16 << 20,
        Counts("the connections whose frames are unfinished for longest, which are closed as `memory_full`");

    /// Bytes of batches that wait for the sealer, per side: some milliseconds of full speed. Connections can wait
    /// longer, and datagrams and envelopes have queues of their own.
    pub const BATCHES_WAITING_BYTES_MAX: usize = 1 << 20,
        Spares("connections wait; datagrams and envelopes go into their queues");

    /// Bytes of datagrams that wait while the sealer is behind: 20,000 short messages, after which the kernel's buffer
    /// holds as many again and more.
    pub const DATAGRAMS_WAITING_BYTES_MAX: usize = 4 << 20,
        Counts("messages of the senders that sent most, as `ring_full`");

    /// Bytes of envelopes that wait for a worker: some 7,000 of them, two seconds of one core.
    pub const ENVELOPES_WAITING_BYTES_MAX: usize = 8 << 20,
        Counts("envelopes of the senders that sent most, as `ring_full`; connections wait");
}
