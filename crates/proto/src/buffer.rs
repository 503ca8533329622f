//! How the engine asks a transaction for the bytes of a buffer, and what it is given.

/// The bytes of a buffer, or of the window of a streaming buffer that is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Buffer<'a> {
    /// The bytes.
    pub data: &'a [u8],
    /// Position of the first byte in the whole buffer (0 unless streaming).
    pub start: u64,
    /// No further bytes will come.
    pub is_complete: bool,
}

impl<'a> Buffer<'a> {
    /// A buffer that is whole.
    pub const fn whole(data: &'a [u8]) -> Buffer<'a> {
        Buffer { data, start: 0, is_complete: true }
    }
}

/// How the engine asks for a buffer.
#[derive(Clone, Copy, Debug, Default)]
pub struct Inspect {
    /// Bytes of a streaming buffer that were inspected before (end of the last window).
    pub inspected: u64,
    /// The flow or direction has ended: what is there is all there is.
    pub at_end: bool,
    /// Inline mode: inspect every piece at once.
    pub inline: bool,
}
