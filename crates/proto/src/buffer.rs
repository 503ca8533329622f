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

/// The enum `Local` of a protocol's buffers, numbered in the order in which they are written here.
macro_rules! local_buffers {
    ($($name:ident,)*) => {
        /// Numbers of the buffers within the protocol.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[repr(u16)]
        pub(super) enum Local { $($name,)* }

        impl Local {
            /// The buffer of a number.
            pub(super) fn from_number(n: u16) -> Option<Local> {
                [$(Local::$name,)*].get(usize::from(n)).copied()
            }
        }
    };
}
pub(crate) use local_buffers;
