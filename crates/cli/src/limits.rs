//! Limits of the program's own readers; those of the engines stand in their crates.

use gabion_record::limits;
use std::time::Duration;

/// Longest pause of a listener after errors of accepting.
pub(crate) const PAUSE_MAX: Duration = Duration::from_secs(1);

/// The longest until a witness that failed is asked again.
pub(crate) const AGAIN_MAX: Duration = Duration::from_secs(300);

/// How long the program that `--push-command` names may take.
pub(crate) const COMMAND_MAX: Duration = Duration::from_secs(30);

/// The same when the run has been asked to end.
pub(crate) const COMMAND_LAST: Duration = Duration::from_secs(1);

/// How long listeners take in and hand on what is there when they have been asked to end, and the sealer may take to make
/// room for it: a flood does not end by itself. What is left then is shed and counted, or stays with its sender.
pub(crate) const LISTEN_LAST: Duration = Duration::from_secs(1);

/// How long all places that checkpoints are carried to are waited for when the run has been asked to end: a
/// witness on the other side of the world answers within a second, and a run ends within two.
pub(crate) const CARRY_LAST: Duration = Duration::from_millis(1500);

/// How long a witness may take for an answer, however it comes.
pub(crate) const WITNESS_MAX: Duration = Duration::from_secs(30);

/// How long those that take logs from a listener have for taking its last answers.
pub(crate) const ANSWERS_LAST: Duration = Duration::from_millis(1500);

limits! { "cli";
    /// Most bytes of a file with keys or certificates: all authorities of a system have 250 KB.
    pub(crate) const KEY_FILE_BYTES_MAX: u64 = 16 << 20,
        Refuses("the file");

    /// Most bytes of the file with the number of a running process.
    pub(crate) const PID_FILE_BYTES_MAX: u64 = 4096,
        Refuses("the file, as one that is there");

    /// Bytes of an anchor file.
    pub(crate) const ANCHORS_BYTES_MAX: u64 = 1 << 30,
        Refuses("the file");

    /// Bytes of a listener's metrics.
    pub(crate) const METRICS_BYTES_MAX: u64 = 4 << 20,
        Refuses("the answer");

    /// Bytes of a witness' answer: a few signature lines.
    pub(crate) const WITNESS_ANSWER_MAX: u64 = 64 << 10,
        Refuses("the answer: the witness is asked again");

    /// Bytes of the file with the newest cosigned checkpoint of each witness.
    pub(crate) const WITNESSED_BYTES_MAX: u64 = 1 << 20,
        Refuses("the file: the log is judged as if no witness had answered");

    /// Leaves kept between two pushes to witnesses: 32 MiB.
    pub(crate) const LEAVES_KEPT_MAX: usize = 1 << 20,
        Spares("more are read again each time");

    /// Bytes of a file with a capture filter: Suricata's bound.
    pub(crate) const FILTER_BYTES_MAX: u64 = 128 << 10,
        Refuses("the filter");

    /// Most seconds that an option may ask for: ten years, beyond which a clock of 64 bits could not count on.
    pub(crate) const SECONDS_MAX: u64 = 10 * 366 * 86_400,
        Refuses("the command line");

    /// Connections that `gabion send` opens over each transport: each is a thread.
    pub(crate) const SEND_CONNECTIONS_MAX: u64 = 10_000,
        Refuses("the command line");

    /// Bytes of a message that `gabion send` makes: more than any listener takes.
    pub(crate) const SEND_BYTES_MAX: u64 = 64 << 20,
        Refuses("the command line");

    /// Empty batches of a listener kept for use again: as many as are under way at full speed. One that is thrown
    /// away was grown step by step in one thread and is freed in another, which costs time and leaves holes.
    pub(crate) const SPARE_BATCHES_MAX: usize = 8,
        Spares("further ones are made anew");

    /// Bytes of a scraper's request.
    pub(crate) const REQUEST_BYTES_MAX: usize = 8 * 1024,
        Refuses("the request");

    /// Scrapers at once: some ask at the same time, and each takes a descriptor and little more.
    pub(crate) const SCRAPERS_MAX: usize = 128,
        Loses("the request that has waited longest: whoever sent it asks again");

    /// Rows of losses between two writings: a flood from forged addresses must not become a flood of loss
    /// records.
    pub(crate) const LOSS_ROWS_MAX: usize = 1024,
        Spares("the losses of further sources of that second are told together");

    /// Senders of datagrams whose names are kept ready.
    pub(crate) const DATAGRAM_SENDERS_MAX: usize = 4096,
        Spares("all are forgotten and made again");

    /// Sources whose messages that were given up are counted apart.
    pub(crate) const GIVEN_UP_SOURCES_MAX: usize = 4096,
        Spares("those of further sources are counted together");

    /// Letters of the name that a client's certificate shows.
    pub(crate) const CLIENT_NAME_MAX: usize = 255,
        Loses("the end of the name");

    /// Bytes of a line of a file of findings: what is longer was not written by this program.
    pub(crate) const FINDING_BYTES_MAX: usize = 1 << 20,
        Counts("the line, by a warning");

    /// Rows of each of the tables *calls out* and *hosts* in `run.json` and `--json`.
    pub(crate) const RANKED_ROWS_MAX: usize = 1_000,
        Counts("further rows, by `calls_out_left` and `hosts_left`");

    /// Bytes of a `run.json` that `gabion behavior list` reads: what is longer was not written by this program.
    pub(crate) const RUN_BYTES_MAX: u64 = 64 << 20,
        Counts("the run's own tables: those of the lines of alerts.json are shown");

    /// Files of which nothing was used that are named.
    pub(crate) const UNUSED_NAMED_MAX: usize = 8,
        Spares("the number of the others is said");
}
