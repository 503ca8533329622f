//! Why a capture can't be opened or written. Trouble inside a capture that opened is no error but
//! a [`Note`](crate::Note) and a count.

use std::io;

/// One clear line each; the caller puts the path before it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Not a single byte.
    #[error("empty file: not even a capture's header")]
    Empty,
    /// The first bytes belong to no format that is read here.
    #[error("not a capture: {0}")]
    NotACapture(String),
    /// A capture format in a variant that is not read.
    #[error("unsupported capture: {0}")]
    Unsupported(String),
    /// The system or the decompressor refused.
    #[error("unreadable: {0}")]
    Unreadable(#[source] io::Error),
    /// The file ends inside its own header.
    #[error("unreadable: the capture's header is torn after {0} bytes")]
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
