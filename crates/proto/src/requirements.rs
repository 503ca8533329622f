//! What is asked of parsers beyond transactions: work that is not needed is left out.

/// What rules and outputs need; parsers skip all other work.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Requirements {
    /// JA3 and JA3S, for rules.
    pub ja3: bool,
    /// JA3 and JA3S in records, unless the protocol's configuration switches them off.
    pub logs_ja3: bool,
    /// hassh.
    pub hassh: bool,
    /// MD5 of files.
    pub md5: bool,
    /// SHA-1 of files.
    pub sha1: bool,
    /// SHA-256 of files.
    pub sha256: bool,
    /// What files are by their first bytes.
    pub magic: bool,
    /// Content of files kept until inspected or stored.
    pub file_data: bool,
    /// All files go to the file store.
    pub store_files: bool,
    /// Bytes of a stored file at most, where a protocol limits what it inspects to less (0: no
    /// limit).
    pub store_depth: u64,
    /// Nobody looks into bodies of messages, nor at files in them or events about them: they are
    /// measured as they were sent, and not unpacked.
    pub bodies_unseen: bool,
}
