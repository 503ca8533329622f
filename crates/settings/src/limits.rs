//! The limits of configurations, rule files and what they name, each with its reason.

use gabion_record::limits;

limits! { "settings";
    /// Most bytes of one block of a ring: the kernel wants it in one piece of memory.
    pub const RING_BLOCK_MAX: u32 = 4 << 20,
        Spares("a configuration that asks for more gets this many");

    /// Most bytes of the ring of one interface: a configuration that asks for more has a zero too many.
    pub const RING_BYTES_MAX: u64 = 2 << 30,
        Spares("a configuration that asks for more gets this many");

    /// Interfaces that one run reads: each has a ring and a socket, and records name them by a number of 16 bits.
    pub const INTERFACES_MAX: usize = 64,
        Refuses("the command line or the configuration");

    /// Most bytes of a rule file, unpacked when it is packed: six times the largest rule set known
    /// (40 MB), so that a packed file of nothing but zeros, or a device, is refused instead of read.
    pub const RULE_FILE_BYTES_MAX: u64 = 256 << 20,
        Refuses("the file of rules");

    /// zstd: largest window accepted for rules (2^27 = 128 MiB, the format's own recommended bound).
    pub const ZSTD_WINDOW_LOG_MAX: u32 = 27,
        Refuses("the file of rules");

    /// Most bytes of a configuration with all that it includes: Suricata's own is 100 KiB.
    pub const CONFIGURATION_BYTES_MAX: u64 = 64 << 20,
        Refuses("the configuration");

    /// Most files of a configuration, each include counted as often as it is met: files that include the
    /// next one twice would be 2^30 of them after thirty. Configurations have some ten.
    pub const CONFIGURATION_FILES_MAX: u32 = 1000,
        Refuses("the configuration");

    /// Most bytes of a database of countries: the largest in use have 250 MB.
    pub const COUNTRIES_BYTES_MAX: u64 = 1 << 30,
        Refuses("the database");

    /// Keys of a configuration without effect that are named: a file of another kind would be nothing else.
    pub const UNKNOWN_KEYS_NAMED_MAX: usize = 20,
        Spares("the number of the others is reported");

    /// Lines of `--disable-conf`, `--enable-conf` and `--modify-conf` without effect that are reported one by one.
    pub const IDLE_LINES_SAID: usize = 5,
        Spares("the number of the others is reported; -v and `rules check` name all");

    /// Processors that a list of affinities may name: Suricata's bound.
    pub const PROCESSORS_MAX: usize = 1024,
        Spares("others are not used, as by Suricata");

    /// Keys given twice in a configuration that are named one by one.
    pub const TWICE_NAMED_MAX: usize = 20,
        Spares("further ones are not named");

    /// Rules with faults that are kept for the command that lists them while a run lasts.
    pub const FAILED_RULES_KEPT: usize = 1_000,
        Spares("further ones are counted, and were in the log");

    /// Nesting of `include` in a configuration.
    pub const INCLUDE_DEPTH_MAX: usize = 128,
        Refuses("the configuration");

    /// Nesting of nodes in a configuration.
    pub const NODE_DEPTH_MAX: usize = 128,
        Refuses("the configuration");

    /// Items of a list that an option such as `-o list[9]=x` may make: more than any list of a configuration has.
    pub const OVERRIDE_INDEX_MAX: usize = 4096,
        Refuses("the option");
}
