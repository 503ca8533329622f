//! What can go wrong, by what the caller can do about it.

use std::io;

/// Why something could not be done.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The disk, or whatever lies beneath the storage, refused.
    #[error("{name}: {source}")]
    Storage {
        /// File.
        name: String,
        /// The error of the operating system.
        source: io::Error,
    },
    /// The folder holds no log.
    #[error("no log here: log.id is missing")]
    NoLog,
    /// Bytes that are not what their place promises.
    #[error("{what}")]
    Format {
        /// What is wrong.
        what: String,
    },
    /// A newer format than this program knows.
    #[error("{what}")]
    Unsupported {
        /// Version or flag.
        what: String,
    },
    /// A key does not fit, is weak or is not there.
    #[error("{what}")]
    Key {
        /// What is wrong.
        what: String,
    },
    /// Another writer holds the log.
    #[error("another writer holds the log{holder}")]
    Locked {
        /// Who, when it is known: ` (pid 12)`.
        holder: String,
    },
    /// The log and the signer's state contradict each other.
    #[error("{0}")]
    Mismatch(Mismatch),
    /// The writer stopped at an earlier failure; open the log again.
    #[error("the writer stopped at an earlier failure")]
    Stopped,
    /// A record that can't be sealed.
    #[error("{what}")]
    Record {
        /// Which limit it breaks.
        what: String,
    },
    /// The system gave no random bytes, or the cryptography failed where it can't.
    #[error("cryptography failed: {0}")]
    Crypto(&'static str),
}

/// How a log and its signer differ when a writer opens them. To continue would make the host itself sign
/// the fork.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Mismatch {
    /// The log ends before a size that was signed.
    #[error("ROLLBACK: the log has {present} chunks, its signer signed {signed}")]
    Rollback {
        /// Chunks the signer knows of.
        signed: u64,
        /// Chunks there are.
        present: u64,
    },
    /// The log has another root at a size that was signed.
    #[error("FORK: at {size} chunks the log has another root than its signer signed")]
    Fork {
        /// Size.
        size: u64,
    },
    /// The log announces an epoch its signer does not know: the signer's state is old.
    #[error("FORK: the log is in epoch {log}, its signer in {signer}: an old signer state")]
    OldSigner {
        /// Of the log.
        log: u64,
        /// Of the signer.
        signer: u64,
    },
    /// The signer belongs to another log.
    #[error("the signer belongs to another log")]
    OtherLog,
    /// Checkpoints that the signer wrote are missing.
    #[error("INCOMPLETE: the signer's last checkpoint ({size} chunks) is not in `checkpoints`")]
    CheckpointsGone {
        /// Size of the last one signed.
        size: u64,
    },
    /// Damage where a crash can't have made it.
    #[error("TAMPERED: {what}")]
    Damage {
        /// What and where.
        what: String,
    },
}

/// Short form used everywhere here.
pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    /// Bytes are not what they should be.
    pub(crate) fn format(what: impl Into<String>) -> Error {
        Error::Format { what: what.into() }
    }

    /// A key is not usable.
    pub(crate) fn key(what: impl Into<String>) -> Error {
        Error::Key { what: what.into() }
    }

    /// The storage refused.
    pub(crate) fn storage(name: &str, source: io::Error) -> Error {
        Error::Storage { name: name.to_owned(), source }
    }
}
