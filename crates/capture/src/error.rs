//! Why a capture can't be opened or written. Problems inside a capture that was opened are not
//! errors but [`Note`](crate::Note)s with counts.

use std::io;

/// Each error is one line; the caller adds the path before it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The file has no bytes.
    #[error("empty file: no capture header")]
    Empty,
    /// The first bytes do not belong to a supported format.
    #[error("not a capture: {0}")]
    NotACapture(String),
    /// A capture format in an unsupported variant.
    #[error("unsupported capture: {0}")]
    Unsupported(String),
    /// The system or the decompressor refused.
    #[error("unreadable: {0}")]
    Unreadable(#[source] io::Error),
    /// The file ends inside its own header.
    #[error("unreadable: the capture's header is truncated after {0} bytes")]
    TornHeader(usize),
    /// A folder has more files or levels than are followed.
    #[error("too many files: {0}")]
    TooMany(String),
}

impl From<io::Error> for Error {
    fn from(error: io::Error) -> Self {
        Error::Unreadable(error)
    }
}
