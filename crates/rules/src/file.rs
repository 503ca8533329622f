//! Conditions on files that transactions carry.

use crate::integer::IntegerMatch;

/// One condition on a file; a rule's conditions must hold for the same file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FileCondition {
    /// `filename`: the name contains these bytes (case ignored).
    Name {
        /// Bytes in lower case.
        bytes: Box<[u8]>,
        /// Must not.
        negated: bool,
    },
    /// `fileext`: the name ends with a dot and these bytes (case ignored).
    Extension {
        /// Bytes in lower case.
        bytes: Box<[u8]>,
        /// Must not.
        negated: bool,
    },
    /// `filemagic`: the type's description contains these bytes (case ignored).
    Magic {
        /// Bytes in lower case.
        bytes: Box<[u8]>,
        /// Must not.
        negated: bool,
    },
    /// `filesize`.
    Size(IntegerMatch),
    /// `filemd5`, `filesha1`, `filesha256`: number in [`crate::Ruleset::hash_lists`].
    Hash {
        /// The list.
        list: u32,
        /// Must not be in it.
        negated: bool,
    },
    /// `filestore`: always true, says that files are wanted.
    Store,
}

/// Which hash a list holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum HashKind {
    /// MD5, 16 bytes.
    Md5,
    /// SHA-1, 20 bytes.
    Sha1,
    /// SHA-256, 32 bytes.
    Sha256,
}

impl HashKind {
    /// Bytes of a hash.
    pub const fn bytes(self) -> usize {
        match self {
            HashKind::Md5 => 16,
            HashKind::Sha1 => 20,
            HashKind::Sha256 => 32,
        }
    }
}

/// A list of hashes that a rule names: sorted, for binary search.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HashList {
    /// Which hash.
    pub kind: HashKind,
    /// The file's name as written.
    pub name: String,
    /// The hashes, sorted; only the first [`HashKind::bytes`] bytes of each count.
    pub hashes: Vec<[u8; 32]>,
}

impl HashList {
    /// Whether the list holds the hash.
    pub fn contains(&self, hash: &[u8]) -> bool {
        let n = self.kind.bytes();
        self.hashes.binary_search_by(|h| h[..n].cmp(hash)).is_ok()
    }
}
