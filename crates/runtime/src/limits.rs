//! The limits and intervals of the machinery, each with its reason.

use gabion_record::limits;
use std::time::Duration;

/// A worker that has work and did not beat for so long is taken for stalled. With the interval
/// below, a stall is noticed within two seconds of the last beat, with a margin for a busy machine.
pub const STALL_AFTER: Duration = Duration::from_millis(1500);

/// How long a stalled worker is waited for before it is abandoned, where others can take its work.
pub const STALL_GRACE: Duration = Duration::from_secs(10);

/// How often the supervisor looks.
pub const CHECK_EVERY: Duration = Duration::from_millis(250);

/// Stack of a worker's thread: as much as a program's first thread usually has, since expressions and
/// scripts recurse. Only what is used is ever in memory.
pub const WORKER_STACK_BYTES: usize = 8 << 20;

/// How often who waits for input looks whether it is asked to stop.
pub const STOP_LOOK_MS: i64 = 200;

/// Bytes for which a pipe has room whenever the system says that it has some (`PIPE_BUF` on Linux).
pub const PIPE_ROOM_BYTES: usize = 4096;

/// The process's share of the memory limit, as a divisor: a quarter leaves room for the page
/// cache, for compiled rules (which are not under budget) and for a neighbor.
pub const BUDGET_SHARE: u64 = 4;

/// The budget when neither a cgroup nor the system reports how much memory there is.
pub const BUDGET_UNKNOWN: u64 = 512 << 20;

/// A limit of version 1 from here on is none: it stands as the largest number of whole pages.
pub const NO_LIMIT: u64 = 1 << 62;

/// Receive buffer asked for: 64 MiB hold 0.8 s of 100,000 short datagrams a second.
pub const RECEIVE_BUFFER: usize = 64 * 1024 * 1024;

/// Below this a short pause of the receiver loses datagrams.
pub const RECEIVE_BUFFER_ENOUGH: usize = 4 * 1024 * 1024;

/// Milliseconds after which pages that are free go back to the system where several threads take memory.
pub const FREE_PAGES_KEPT_MS: i64 = 50;

/// Descriptors reported in one call; further ready ones are reported in the next.
pub const EVENTS_PER_CALL: usize = 256;

limits! { "runtime";
    /// Most bytes of the file with the number of a running process.
    pub const PID_FILE_BYTES_MAX: u64 = 4096,
        Refuses("the file, as one that no run has left");

    /// Bytes of lines that wait for a receiver: some seconds of a busy sensor.
    pub const SPOOL_BYTES_MAX: usize = 16 << 20,
        Counts("further lines, as `ring_full` in the output's ledger");

    /// Bytes of an answer of Redis: those to commands that add something are shorter than a line.
    pub const REDIS_REPLY_BYTES_MAX: usize = 4 << 10,
        Refuses("the connection: another is made");

    /// Most messages of one channel, whatever its items and bytes allow: the queue's slots are
    /// allocated at its beginning. Batches hold 64 to 256 frames, so this is more than enough.
    pub const CHANNEL_MESSAGES_MAX: u64 = 4096,
        Spares("the sender waits");

    /// How many such looks a writer keeps waiting for a reader once it was asked to stop: with the last
    /// look before, a second and a bit, so that a reader that is only slow gets the end of the results and
    /// the process ends within two.
    pub const LOOKS_AFTER_STOP: u32 = 5,
        Counts("the rest of the output, by an error and exit code 4");

    /// Most bytes of a panic's message that are kept.
    pub const PANIC_MESSAGE_MAX: usize = 1024,
        Spares("the end of a longer message is left out; the panic and its place are reported");

    /// Most bytes of a file under `/proc` or `/sys` that are read: `/proc/self/cgroup` is the longest.
    pub const SYSTEM_FILE_MAX: u64 = 64 * 1024,
        Spares("those files are shorter");

    /// Bytes of a datagram that are taken: UDP's own limit lies below it, and longer ones come from local sockets only.
    pub const DATAGRAM_MAX: usize = 64 * 1024,
        Counts("the rest of the datagram, which is marked and counted as cut");

    /// Most bytes of a file that a configuration or a rule names and that is read whole (classes,
    /// references, thresholds, reputation, whitelists, datasets, hashes, expected alerts): the largest known
    /// lists of hashes are some 100 MB.
    pub const NAMED_FILE_BYTES_MAX: u64 = 256 << 20,
        Refuses("the file");

    /// Bytes of a scraper's request.
    pub const REQUEST_BYTES_MAX: usize = 8 * 1024,
        Refuses("the request");

    /// Scrapers at once: some ask at the same time, and each takes a descriptor and little more.
    pub const SCRAPERS_MAX: usize = 128,
        Loses("the request that has waited longest: its client asks again");

    /// Links that are followed from one name of an output, as many as Linux follows.
    pub const LINKS_MAX: usize = 40,
        Refuses("the file, which the system can't open either");
}
