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

    /// Most bytes of a list of indicators that comes through a pipe, which is kept in memory; files are read
    /// piece by piece.
    pub(crate) const PIPED_LIST_BYTES_MAX: u64 = 256 << 20,
        Counts("the list, by a warning");

    /// Most bytes of a list of indicators in a file: larger than all that is known to be bad by a factor of
    /// ten, so that a file without an end is one that is cut off and said.
    pub(crate) const LIST_BYTES_MAX: u64 = 16 << 30,
        Counts("the rest of the list, by a warning");

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

    /// Frames under way to one worker that a configuration may ask for: Suricata's bound.
    pub(crate) const PENDING_FRAMES_MAX: u64 = 65_534,
        Spares("a configuration that asks for more gets so many");

    /// Batches under way to one worker of the network engine: some have no frame of its own.
    pub(crate) const FRAME_BATCHES_MAX: u64 = 256,
        Spares("the reader waits, or sheds and counts in a live run");

    /// Emptied batches of lines kept.
    pub(crate) const SPARE_LINES_MAX: usize = 16,
        Spares("further ones are made anew");

    /// The largest of them, bytes.
    pub(crate) const SPARE_LINES_BYTES_MAX: usize = 512 << 10,
        Spares("a larger one is freed");

    /// Batches of records under way to one worker of the behaviour engine.
    pub(crate) const RECORD_BATCHES_MAX: u64 = 4,
        Spares("the reader waits, or sheds and counts in a live run");

    /// Bytes for seeds and profiles where nobody says otherwise: half a million sources seen once, and some fifteen
    /// thousand hosts that do something. The allocator needs up to as much again under a flood of ever new
    /// sources, and each worker some 15 MiB; the whole program then stays below 256 MiB with up to four workers.
    pub(crate) const DEFAULT_BUDGET_MAX: usize = 80 << 20,
        Counts("profiles, as `profile_folded`: a larger site names a larger `--budget`");

    /// Bytes of records of a capture that wait for earlier ones: flows are told when they end.
    pub(crate) const CAPTURE_WAITING_MAX: usize = 64 << 20,
        Counts("order: the earliest records go on early, as `reorder_cut` and, behind others, as late");

    /// Bytes of lines of a pipe that wait for earlier ones.
    pub(crate) const PIPE_WAITING_MAX: usize = 16 << 20,
        Counts("order: the earliest lines go on early, as `reorder_cut` and, behind others, as late");

    /// Lists of indicators kept open to read entries again: half of the 1,024 descriptors that a process has by
    /// default.
    pub(crate) const OPEN_LISTS_MAX: usize = 512,
        Counts("what entries of further lists say beside their level, by a warning");

    /// Nesting of folders that lists are looked for in.
    pub(crate) const LIST_FOLDERS_MAX: usize = 8,
        Counts("folders below, by a warning");

    /// Bytes of a line of a file of findings: what is longer was not written by this program.
    pub(crate) const FINDING_BYTES_MAX: usize = 1 << 20,
        Counts("the line, by a warning");

    /// Hosts of which scores are kept for the page: some 6 MiB.
    pub(crate) const SCORED_HOSTS_MAX: usize = 1 << 16,
        Loses("scores of a further host on the page");

    /// Alerts of hosts that are told in `run.json` and on the page.
    pub(crate) const TOLD_ALERTS_MAX: usize = 1 << 16,
        Loses("further alerts there: all are in the files");

    /// Findings in `--json`, the weightiest.
    pub(crate) const TOLD_FINDINGS_MAX: usize = 1_000,
        Counts("further findings, by `findings_left`: all are in the files");

    /// Rows of each of the tables *calls out* and *hosts* in `run.json` and `--json`.
    pub(crate) const RANKED_ROWS_MAX: usize = 1_000,
        Counts("further rows, by `calls_out_left` and `hosts_left`");

    /// Bytes of a `run.json` that `gabion behavior list` reads: what is longer was not written by this program.
    pub(crate) const RUN_BYTES_MAX: u64 = 64 << 20,
        Counts("the run's own tables: those of the lines of alerts.json are shown");

    /// Rows of evidence that are held for the page before the least telling go.
    pub(crate) const EVIDENCE_ROWS_MAX: usize = 4_000,
        Counts("the least telling rows of the page, which says how many there are");

    /// Minutes of a run that the page's chart tells apart: 45 days.
    pub(crate) const CHARTED_MINUTES_MAX: usize = 1 << 16,
        Loses("evidence of a further minute in the chart of the page");

    /// Scans that the page draws.
    pub(crate) const CHARTED_SCANS_MAX: usize = 1 << 12,
        Loses("a further scan in the chart of the page");

    /// Pairs that call again and again of which flows are kept for the page.
    pub(crate) const CHARTED_BEACONS_MAX: usize = 64,
        Loses("a further pair in the charts of the page");

    /// Charts of such pairs, those with the most flows.
    pub(crate) const CHARTED_PAIRS_MAX: usize = 12,
        Spares("further pairs stand in the tables");

    /// Files of which nothing was used that are named.
    pub(crate) const UNUSED_NAMED_MAX: usize = 8,
        Spares("the number of the others is said");
}
