//! Limits of the rule language, each with its reason. Reaching one refuses the rule, which is
//! counted among the failed.

use gabion_record::limits;

limits! { "rules";
    /// Nesting of lists and variables in addresses and ports: Suricata allows 64 variables in a chain;
    /// a chain that names itself must end.
    pub const LIST_DEPTH_MAX: usize = 64,
        Refuses("the rule");

    /// Items of one address or port list, variables opened: far beyond any real list, small enough
    /// that a list of lists of variables can't take the machine's memory.
    pub const LIST_ITEMS_MAX: usize = 1 << 20,
        Refuses("the rule");

    /// Bytes of one rule, lines joined. Suricata cuts at 8,191 and refuses the pieces; longer rules
    /// are accepted here, but not without end.
    pub const RULE_BYTES_MAX: usize = 64 << 10,
        Refuses("the rule");

    /// Conditions on one buffer of one rule: numbered by 16 bits elsewhere, and each content may
    /// recurse once, so the stack is bounded by it as well.
    pub const CONDITIONS_PER_BUFFER_MAX: usize = 512,
        Refuses("the rule");

    /// Buffers of one rule.
    pub const BUFFERS_PER_RULE_MAX: usize = 255,
        Refuses("the rule");

    /// Countries of one `geoip`: Suricata's limit.
    pub const COUNTRIES_PER_RULE_MAX: usize = 64,
        Refuses("the rule");

    /// Byte variables of one rule: Suricata's own limit is of the same order.
    pub const BYTE_VARIABLES_MAX: u8 = 64,
        Refuses("the rule");

    /// Transforms on one buffer: Suricata's limit.
    pub const TRANSFORMS_MAX: usize = 16,
        Refuses("the rule");

    /// Capture groups kept by one `pcre`: Suricata's limit.
    pub const CAPTURES_MAX: usize = 8,
        Refuses("the rule");

    /// Diagnostics kept of one load: a wrong file must not fill the memory with complaints; what is
    /// beyond it is only counted.
    pub const DIAGNOSTICS_MAX: usize = 50_000,
        Counts("further faults of rules, by number");

    /// Hashes read from one list of `filemd5` and its like: a gigabyte of them.
    pub const HASHES_PER_LIST_MAX: usize = 32 << 20,
        Refuses("the list");

    /// Bytes that a rule may have unpacked by `gunzip` or `zlib_deflate`: Suricata's own.
    pub const DECOMPRESSED_MAX: u64 = 16 << 20,
        Refuses("the rule");

    /// Names of bits or variables, of one kind, that a run carries from one rule set to the next: each load may bring new
    /// ones, and the numbers of old ones stay taken. Far beyond what any rule set has.
    pub const CARRIED_NAMES_MAX: usize = 1 << 17,
        Refuses("to load rules again");

    /// Bytes of a dataset's name: Suricata's own.
    pub const DATASET_NAME_MAX: usize = 63,
        Refuses("the rule");
}
