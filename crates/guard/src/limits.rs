//! Every limit of this crate, each with its reason.

use gabion_record::limits;

limits! { "guard";
    /// Rows of a recording that are held, of 136 bytes each: 71 MB. The ring of 10 minutes that the guard writes out has
    /// 300,000 rows on 2 CPUs.
    pub const ROWS_MAX: usize = 1 << 19,
        Loses("further rows of the recording");

    /// Rows of XDP counters that are held, one for each control period of 8 ms: over an hour.
    pub const XDP_ROWS_MAX: usize = 1 << 19,
        Loses("further rows of XDP counters");

    /// Longest line of a recording, bytes. The longest line of the guard's own recordings has 300 bytes.
    pub const LINE_MAX: usize = 4096,
        Counts("the line, as `lines_skipped` of the recording");

    /// Columns of a recording that are looked at. The guard's own recordings have 32.
    pub const COLUMNS_MAX: usize = 64,
        Loses("further columns of the recording");

    /// Lines of a recording's head. The guard's own recordings have a dozen.
    pub const HEAD_LINES_MAX: usize = 64,
        Loses("further lines of the head");

    /// CPUs that are distinguished. The largest machines that Linux supports without special configuration have 8,192.
    pub const CPUS_MAX: usize = 8192,
        Loses("CPUs beyond it, which are left out");

    /// Incidents that a diagnosis keeps. One incident lasts 0.5 s at the least, so these cover over an hour.
    pub const INCIDENTS_MAX: usize = 10_000,
        Loses("further incidents of the diagnosis");

    /// Memory that a compressed recording may ask for, as the power of two of its window: 8 MB, which is what zstd asks
    /// for up to level 19.
    pub const WINDOW_LOG_MAX: u32 = 23,
        Refuses("the recording");

    /// Gaps of user programs that a diagnosis keeps. A gap of more than 0.5 ms on each of 16 CPUs every 4 ms for a
    /// minute.
    pub const GAPS_MAX: usize = 250_000,
        Loses("further gaps of the diagnosis");

    /// Bins of a strip in a report: more than a screen has columns.
    pub const BINS_MAX: usize = 4096,
        Spares("the bins become longer");

    /// Longest undo record, bytes: a path, two values and the place that they belong to.
    pub const UNDO_MAX: usize = 8192,
        Refuses("the undo record");
}
