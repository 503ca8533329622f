//! Every limit of this crate, each with its reason. Reaching one is a counted skip.

use gabion_record::limits;

/// Bytes in which a part of a file that is looked at by itself finds its first line's begin; where it finds none,
/// the file is looked at line by line.
pub const LINE_ROOM: u64 = 64 << 10;

/// Bytes taken from a file at a time: large enough that a system call a chunk costs nothing, small
/// enough that hundreds of open files fit into any budget.
pub const CHUNK: usize = 128 << 10;

/// Templates that can be held at the most, as each counts as 8 fields at least.
pub const TEMPLATES_MAX: usize = FIELDS_MAX / 8;

/// Records that are returned together if they are in order already: enough that the caller
/// can look at all their sources before the first is worked on, and few enough to stay in the nearest
/// cache.
pub const TOGETHER: usize = 8;

/// The longest that lines of a file wait for earlier ones, unless configured otherwise. Zeek writes a flow of UDP a
/// minute after its last packet, so that a question that lasted some seconds comes after its answers: a minute
/// would make it late. Two hold 33,000 lines of a log of a million an hour, some 5 MB.
pub const HORIZON_NS: i64 = 120 * gabion_record::logs::SECOND;

limits! { "flowlog";
    /// Longest line read, bytes. Zeek's longest real lines (x509.log with hundreds of names) are below
    /// 64 KiB; a "line" of more is no log.
    pub const LINE_MAX: usize = 1 << 20,
        Counts("the line, as `too_long` among those skipped");

    /// Headers of one file. A rotated file that was put together of a day's parts has a few dozen.
    pub const LAYOUTS_MAX: usize = 4096,
        Counts("lines after a further header, as `too_many_headers` among those skipped");

    /// Columns of a header that are looked at. The widest log of Zeek (notice.log) has 28.
    pub const COLUMNS_MAX: usize = 256,
        Loses("further columns of a header");

    /// Nesting of JSON that is walked; EVE needs 3.
    pub const JSON_DEPTH_MAX: usize = 64,
        Counts("the line, as `cut_short` among those skipped");

    /// Skips of which line numbers are kept per file and reason, so that a person finds them; the rest
    /// is counted.
    pub const SKIP_LINES_KEPT: usize = 3,
        Spares("their number is reported with them");

    /// Bytes that a compressed log may become for each of its own read so far, beyond the first mebibyte;
    /// logs pack 10 to 30 fold, so more is a bomb.
    pub const EXPANSION_MAX: u64 = 2_000,
        Refuses("the rest of the log");

    /// Bytes of a block of nfdump's binary files, packed and unpacked. nfdump writes blocks of some megabytes.
    pub const BLOCK_MAX: usize = 32 << 20,
        Refuses("the rest of the file, or the block where only what is unpacked is larger");

    /// Records of a block of nfdump's binary files that can't be read, as far as they are counted: their number is
    /// only claimed then, and is no more than the block has bytes. A block of some megabytes has this many.
    pub const UNREAD_RECORDS_MAX: u32 = 1 << 16,
        Spares("the block counts as this many");

    /// Extension maps of one of nfdump's binary files of layout 1: a collector has one for each template it met.
    pub const EXTENSION_MAPS_MAX: usize = 4096,
        Loses("records that refer to a further map, as `no_map` among those skipped");

    /// Extensions that a map names, of the 50 there are.
    pub const EXTENSIONS_MAX: usize = 64,
        Loses("packets and bytes of the other direction, where a map names them after this many others");

    /// Addresses that send NetFlow or IPFIX and of which something is kept. A busy collector hears some hundred;
    /// beyond it the one that was used least is let go.
    pub const EXPORTERS_MAX: usize = 4096,
        Loses("templates and sequence numbers of the address that was used least");

    /// Fields of all templates of one address, each of 8 bytes; a template and a domain count as 8 more. Real
    /// exporters have 20 templates of 20 to 60 fields, a chassis with 20 cards has 20 times as many. Beyond it the
    /// address's own least used template is evicted, and no other address's.
    pub const FIELDS_PER_ADDRESS: usize = 32 << 10,
        Loses("the template of that address that was used least");

    /// The same of all addresses together: 16 MiB, so 64 addresses at their bound, or 4,096 of 512 fields.
    pub const FIELDS_MAX: usize = 2 << 20,
        Loses("templates and sequence numbers of the address that was used least");

    /// Observation domains of an address whose sequence numbers are kept: one a line card, or a virtual router.
    /// Beyond it the least used is let go, and a gap in its numbers may be missed.
    pub const DOMAINS_PER_ADDRESS: usize = 256,
        Loses("the sequence number of that address that was used least: a gap may be missed");

    /// Fields of a template. Real ones have up to 60.
    pub const TEMPLATE_FIELDS_MAX: usize = 512,
        Counts("the template, as `malformed`");

    /// Logs followed at once. Each takes about a kilobyte; what is beyond is counted and reported. A site that
    /// writes a log for each of its machines has thousands.
    pub const FOLLOWED_MAX: usize = 1 << 17,
        Counts("further logs, by their number at the end");

    /// Followed logs up to which all stay open between two looks, so that one that is moved away and removed is
    /// still read to its end: half of the 1,024 descriptors that a process has by default. Of more, each is
    /// opened when it has grown.
    pub const OPEN_MAX: usize = 512,
        Spares("each is opened when it has grown; one that is removed before is reported");

    /// Followed logs with something new whose lines are put together by time: each has a buffer of 128 KiB
    /// then, 8 MiB in all. More are taken in turns of this number.
    pub const MERGED_MAX: usize = 64,
        Spares("the next ones follow");

    /// Logs that are gone of which it is known up to where they were read, so that a copy or a packed form of one
    /// is not read again. The oldest are forgotten; then their copies count as new logs. Some 4 MiB.
    pub const PLACES_MAX: usize = 1 << 16,
        Loses("up to where the log was read that is gone longest: a copy of it would be read again");

    /// Reports of logs that are gone; of the oldest beyond, only the sums are kept.
    pub const REPORTS_MAX: usize = 1024,
        Spares("the counts of earlier ones are in one report");

    /// Bytes of lines that wait for earlier ones in one followed log.
    pub const WAITING_MAX: usize = 16 << 20,
        Counts("order: the earliest lines are passed on early, as `reorder_cut` and, after others, as late");

    /// Deepest folders that are looked into.
    pub const FOLDER_DEPTH_MAX: usize = 16,
        Loses("folders below");

    /// Uses of a template, a domain or an address that are remembered: an entry in use outlives this many rounds of
    /// others being evicted.
    pub const TEMPLATE_USES_MAX: u8 = 200,
        Spares("an entry that was used as often stays as long");
}
