//! Limits of outputs, each with its reason.

use gabion_record::limits;

limits! { "outputs";
    /// Lines that Redis is given before its answers are awaited.
    pub const REDIS_BATCH_MAX: usize = 1_024,
        Spares("a configuration that asks for more gets this many");

    /// Flows of which packets are followed after an alert: as many as have alerts at a time in any
    /// network seen, some 4 MiB.
    pub const FOLLOWED_FLOWS_MAX: usize = 65_536,
        Loses("packets of a flow after its alert");

    /// Numbers of stored files that are known at a time: some 64 MiB.
    pub const FILE_NUMBERS_MAX: usize = 1 << 20,
        Loses("numbers of all files so far: one that is named again gets a new one");

    /// Flows with alerts in doubt that were written, until their own record comes: some 16 MiB.
    pub const ALERTED_FLOWS_MAX: usize = 1 << 20,
        Loses("`alerted` in a flow's record");

    /// Rows of a table of the page.
    pub const PAGE_ROWS_MAX: usize = 500,
        Spares("the page says how many there are; all are in the files");

    /// Alerts of a rule that the page shows with their flows.
    pub const ALERTS_SHOWN_MAX: usize = 8,
        Spares("the page says how many there are; all are in eve.json");

    /// Hosts in alerts with the rules of each, for the page: some 2 MiB a worker.
    pub const ALERTED_HOSTS_MAX: usize = 1 << 14,
        Spares("the page's table has those that came first; all alerts are in eve.json");

    /// Batches of profiles that wait for the disk.
    pub const STORE_BATCHES_MAX: usize = 16,
        Spares("the worker that hands one over waits");

    /// Bytes of profiles kept: some weeks of a large site.
    pub const STORE_BYTES_MAX: u64 = 2 << 30,
        Counts("the oldest windows, reported at the end of the run");

    /// Rows of each table of hosts and calls that are left when a run has found twice as many.
    pub const RANK_ROWS_MAX: usize = 1 << 13,
        Counts("the last rows, counted under the tables; all findings are in the files");

    /// Kinds of findings of a host that are counted apart: there are some seventy.
    pub const RANKED_KINDS_MAX: usize = 128,
        Spares("there are fewer kinds than that");
}
