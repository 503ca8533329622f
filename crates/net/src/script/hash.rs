//! A hash that a script computes piece by piece.

use md5::Digest;

/// Which hash.
#[derive(Clone, Copy)]
pub(super) enum Kind {
    Md5,
    Sha1,
    Sha256,
}

/// A hash that is being computed.
pub(super) enum Hash {
    Md5(md5::Md5),
    Sha1(sha1::Sha1),
    Sha256(sha2::Sha256),
}

impl Hash {
    /// Begins one.
    pub(super) fn begin(kind: Kind) -> Hash {
        match kind {
            Kind::Md5 => Hash::Md5(md5::Md5::new()),
            Kind::Sha1 => Hash::Sha1(sha1::Sha1::new()),
            Kind::Sha256 => Hash::Sha256(sha2::Sha256::new()),
        }
    }

    /// Adds bytes.
    pub(super) fn update(&mut self, bytes: &[u8]) {
        match self {
            Hash::Md5(h) => h.update(bytes),
            Hash::Sha1(h) => h.update(bytes),
            Hash::Sha256(h) => h.update(bytes),
        }
    }

    /// The digest.
    pub(super) fn finish(self) -> Vec<u8> {
        match self {
            Hash::Md5(h) => h.finalize().to_vec(),
            Hash::Sha1(h) => h.finalize().to_vec(),
            Hash::Sha256(h) => h.finalize().to_vec(),
        }
    }
}
