//! Limits of the readers of what runs leave in their folders, and of the tables that reports write.

use gabion_record::limits;

limits! { "reports";
    /// Bytes of a line of a file of findings: what is longer was not written by this program.
    pub const FINDING_BYTES_MAX: usize = 1 << 20,
        Counts("the line, by a warning");

    /// Rows of each of the tables *calls out* and *hosts* in `run.json` and `--json`.
    pub const RANKED_ROWS_MAX: usize = 1_000,
        Counts("further rows, by `calls_out_left` and `hosts_left`");

    /// Bytes of a `run.json` that `gabion behavior list` reads: what is longer was not written by this program.
    pub const RUN_BYTES_MAX: u64 = 64 << 20,
        Counts("the run's own tables: those of the lines of alerts.json are shown");

    /// Files of which nothing was used that are named.
    pub const UNUSED_NAMED_MAX: usize = 8,
        Spares("the number of the others is printed");

    /// Names of calls in the text about a capture of system calls; its JSON has all of them.
    pub const CALLS_SHOWN_MAX: usize = 15,
        Spares("the number of the others is printed");
}
