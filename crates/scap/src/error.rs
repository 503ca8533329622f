//! Why an input is not read as scap. Faults inside of an input that was recognized are not errors but notes with
//! counts: see [`Note`](crate::Note).

/// Each error is one line; the caller adds the path before it. The words are Falco's where it has some.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The input has no bytes.
    #[error("empty file: no header of a section")]
    Empty,
    /// The input does not begin as scap files do.
    #[error("invalid magic number")]
    NotScap,
    /// The input is a pcapng file, which begins with the same block.
    #[error("a capture of packets (pcapng), which has no system calls")]
    Packets,
    /// The input ends inside of its first header.
    #[error("the header of the first section is truncated after {0} bytes")]
    TornHeader(usize),
    /// A newer program wrote the input, in a format that this reader does not know.
    #[error("cannot correctly parse the capture. Upgrade your version.")]
    Newer {
        /// The major version of the format.
        major: u16,
    },
    /// The input or its decompressor failed.
    #[error("unreadable: {0}")]
    Unreadable(String),
}
