//! The limits of runs: of what is under way between threads, waits to be put in order, or is kept for summary and page,
//! each with its reason.

use gabion_record::limits;
use std::time::Duration;

/// Bytes that are read of a file of the kernel: a line of 160 bytes for each of 1,024 CPUs.
pub const HOST_FILE_BYTES_MAX: usize = 256 << 10;

/// Bytes of the first block of a pcapng or scap file after which the type of the second one is looked for: it has a version,
/// and perhaps some comments.
pub const SECTION_BYTES_MAX: usize = 4096;

/// Findings that are left for a page when there are [`EVIDENCE_ROWS_MAX`].
pub const FINDINGS_KEPT_MAX: usize = 1_500;

limits! { "sensor";
    /// Frames under way to one worker that a configuration may ask for: Suricata's bound.
    pub const PENDING_FRAMES_MAX: u64 = 65_534,
        Spares("a configuration that asks for more gets this many");

    /// Bytes of one command on the command socket: those with a long value of a dataset are the longest.
    pub const COMMAND_BYTES_MAX: usize = 16 << 10,
        Refuses("the command, and its client is closed");

    /// Clients of the command socket at a time.
    pub const COMMAND_CLIENTS_MAX: usize = 1_024,
        Refuses("the client that has been silent longest, which is closed");

    /// Things that other threads have handed to one worker and that it has not done yet.
    pub const TASKS_MAX: usize = 1_024,
        Refuses("the command that asks for a further one");

    /// Rules whose cost a scrape of metrics shows first, the most expensive ones.
    pub const RULES_EXPOSED_AT_ONCE: usize = 20,
        Spares("of others the cost is in the table of `--profile-rules`");

    /// Rules whose cost is shown by metrics over a whole run: each is a series of its own for Prometheus.
    pub const RULES_EXPOSED_MAX: usize = 200,
        Spares("of others the cost is in the table of `--profile-rules`");

    /// Notes kept of one interface: a link that goes up and down all day would fill the report.
    pub const INTERFACE_NOTES_MAX: usize = 64,
        Counts("nothing further: the last state is in the log");

    /// Parts of blocks of a worker's own ring that wait for frames of other rings: the ring has more room then.
    pub const RING_WAITING_PARTS_MAX: usize = 256,
        Spares("workers no longer wait for one another");

    /// How much of a ring may be full, in percent, before workers no longer wait for one another.
    pub const RING_HELD_PERCENT: u32 = 50,
        Spares("frames of other rings that come later are counted as late");

    /// Seconds with drops of an interface that are kept one by one: ten hours of nothing else.
    pub const DROP_SECONDS_MAX: usize = 36_000,
        Spares("further drops are entered in the last one");

    /// Batches under way to one worker of the network engine: some have no frame of its own.
    pub const FRAME_BATCHES_MAX: u64 = 256,
        Spares("the reader waits, or sheds and counts in a live run");

    /// Emptied batches of lines kept.
    pub const SPARE_LINES_MAX: usize = 16,
        Spares("further ones are allocated again");

    /// The largest of them, bytes.
    pub const SPARE_LINES_BYTES_MAX: usize = 512 << 10,
        Spares("a larger one is freed");

    /// Batches of records under way to one worker of the behaviour engine.
    pub const RECORD_BATCHES_MAX: u64 = 4,
        Spares("the reader waits, or sheds and counts in a live run");

    /// Bytes for seeds and profiles unless configured otherwise: half a million sources seen once, and some fifteen
    /// thousand hosts that do something. The allocator needs up to as much again under a flood of constantly new
    /// sources, and each worker some 15 MiB; the whole program then stays below 256 MiB with up to four workers.
    pub const DEFAULT_BUDGET_MAX: usize = 80 << 20,
        Counts("profiles, as `profile_folded`: a larger site names a larger `--budget`");

    /// Bytes of records of a capture that wait for earlier ones: flows are reported when they end.
    pub const CAPTURE_WAITING_MAX: usize = 64 << 20,
        Counts("order: the earliest records are passed on early, as `reorder_cut` and, after later ones, as late");

    /// Bytes of lines of a pipe that wait for earlier ones.
    pub const PIPE_WAITING_MAX: usize = 16 << 20,
        Counts("order: the earliest lines are passed on early, as `reorder_cut` and, after later ones, as late");

    /// Most bytes of a list of indicators in a file: larger than all that is known to be bad by a factor of
    /// ten, so that a file without an end is one that is cut off and reported.
    pub const LIST_BYTES_MAX: u64 = 16 << 30,
        Counts("the rest of the list, by a warning");

    /// Most bytes of a list of indicators that comes through a pipe, which is kept in memory; files are read
    /// piece by piece.
    pub const PIPED_LIST_BYTES_MAX: u64 = 256 << 20,
        Counts("the list, by a warning");

    /// Most bytes of a file of what the throttle never drops: its entries are some tens of bytes, and the kernel's
    /// tables hold some thousands.
    pub const ALLOW_LIST_BYTES_MAX: u64 = 1 << 20,
        Refuses("the file, by an error");

    /// Events of the guard that wait to be written: an incident has some five, so these are hundreds of incidents.
    pub const GUARD_EVENTS_MAX: u64 = 1024,
        Counts("further events, as `ring_full` of the stage `guard events`");

    /// Their bytes.
    pub const GUARD_EVENTS_BYTES_MAX: u64 = 4 << 20,
        Counts("further events, as `ring_full` of the stage `guard events`");

    /// Rows of a recording under way to the thread that writes it: a second of 100 CPUs.
    pub const GUARD_ROWS_MAX: u64 = 1 << 15,
        Spares("further rows wait in the history, whose oldest go when that is full");

    /// Lists of indicators kept open to read entries again: half of the 1,024 descriptors that a process has by
    /// default.
    pub const OPEN_LISTS_MAX: usize = 512,
        Counts("what entries of further lists say in addition to their level, by a warning");

    /// Nesting of folders that lists are looked for in.
    pub const LIST_FOLDERS_MAX: usize = 8,
        Counts("folders below, by a warning");

    /// Hosts of which scores are kept for the page: some 6 MiB.
    pub const SCORED_HOSTS_MAX: usize = 1 << 16,
        Loses("scores of a further host on the page");

    /// Alerts of hosts that are reported in `run.json` and on the page.
    pub const REPORTED_ALERTS_MAX: usize = 1 << 16,
        Loses("further alerts there: all are in the files");

    /// Findings in `--json`, the weightiest.
    pub const REPORTED_FINDINGS_MAX: usize = 1_000,
        Counts("further findings, by `findings_left`: all are in the files");

    /// Rows of evidence that are held for the page before the least informative go.
    pub const EVIDENCE_ROWS_MAX: usize = 4_000,
        Counts("the least informative rows of the page, which says how many there are");

    /// Minutes of a run that the page's chart distinguishes: 45 days.
    pub const CHARTED_MINUTES_MAX: usize = 1 << 16,
        Loses("evidence of a further minute in the chart of the page");

    /// Scans that the page draws.
    pub const CHARTED_SCANS_MAX: usize = 1 << 12,
        Loses("a further scan in the chart of the page");

    /// Pairs that call again and again of which flows are kept for the page.
    pub const CHARTED_BEACONS_MAX: usize = 64,
        Loses("a further pair in the charts of the page");

    /// Charts of such pairs, those with the most flows.
    pub const CHARTED_PAIRS_MAX: usize = 12,
        Spares("further pairs are in the tables");

    /// Bytes for threads and descriptors of system calls: 262,144 threads, the most that Falco keeps, with their texts;
    /// and at most a quarter of the memory that the control group or the machine has.
    pub const SYSCALL_STATE_BYTES: u64 = 512 << 20,
        Counts("the threads, as `evicted` by the table of threads");

    /// Ancestors of a process that an alert names: deeper trees are made by programs that start each other.
    pub const ANCESTORS_MAX: u32 = 16,
        Spares("the farthest ancestors are not listed with the alert: the fields of rules know them");

    /// Alerts of one rule that summary and page show in full.
    pub const ALERTS_OF_RULE_KEPT: usize = 20,
        Counts("further alerts, in the number of the rule's alerts: all are in the files");

    /// Bytes of a text of such an alert.
    pub const FINDING_TEXT_MAX: usize = 2 << 10,
        Spares("the text is cut there: it is whole in the files");

    /// Alerts that wait for a receiver by HTTP: an hour of a busy host.
    pub const HTTP_QUEUE_ALERTS: usize = 1_024,
        Counts("alerts, as falco.outputs_queue_num_drops and at the end of the run");

    /// Bytes of the last events that are kept for captures which alerts start: some seconds of a busy host.
    pub const CAPTURE_RING_BYTES: usize = 16 << 20,
        Counts("the oldest events, at the end of the run: a capture begins later");

    /// Bytes of the file of a capture that an alert starts.
    pub const CAPTURE_FILE_BYTES_MAX: u64 = 1 << 30,
        Counts("further events of the capture, at the end of the run");

    /// Causes for which alerts could not be written that are reported at the end of a run.
    pub const OUTPUT_FAULTS_KEPT: usize = 16,
        Spares("further causes are not listed");

    /// Bytes of a request to the listener for health and metrics.
    pub const WEB_REQUEST_BYTES_MAX: usize = 8 << 10,
        Refuses("the request");

    /// Clients of the listener at a time: each has a thread, an honest one for some milliseconds.
    pub const WEB_CLIENTS_MAX: usize = 64,
        Refuses("the client that has waited longest, which is closed");

    /// Seconds after which a client of the listener is closed.
    pub const WEB_WAIT_S: u64 = 5,
        Refuses("the request");

    /// Bytes of the answer of a guard that is asked for its status: that of 1,024 CPUs has some 600 KiB.
    pub const STATUS_ANSWER_BYTES_MAX: usize = 4 << 20,
        Refuses("the answer");

    /// Bytes of a value of the host that the guard changes: masks of CPUs are the longest, some 2,300 for 8,192 CPUs.
    pub const UNDO_VALUE_BYTES_MAX: usize = 4096,
        Refuses("the change, as the value that is read back is another one");

    /// Bytes of rows of the guard that wait for an incident: 10 s of 90 CPUs.
    pub const HISTORY_BYTES_MAX: usize = 32 << 20,
        Loses("the oldest rows before an incident, which its recording does not have");

    /// Bytes of findings of a batch of flow records whose memory is used again: twice the bytes of such a batch.
    pub(crate) const FOUND_KEPT_BYTES_MAX: usize = 1 << 20,
        Spares("a larger one is freed");
}

/// How long the end of a run waits for a receiver by HTTP to take what is in its queue (Falco's `output_timeout`).
pub const HTTP_WAIT_AT_END: Duration = Duration::from_secs(2);
