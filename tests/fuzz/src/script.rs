//! Reads an input as a script: numbers and byte strings, one after the other, until it is used up.
//! Past its end every number is 0 and every string empty, so that any input is a script.

/// The rest of an input.
#[derive(Clone, Copy, Debug)]
pub struct Script<'a> {
    rest: &'a [u8],
}

impl<'a> Script<'a> {
    /// The whole input.
    #[must_use]
    pub fn new(data: &'a [u8]) -> Script<'a> {
        Script { rest: data }
    }

    /// Whether nothing is left.
    #[must_use]
    pub fn is_done(&self) -> bool {
        self.rest.is_empty()
    }

    /// At most `len` bytes.
    pub fn bytes(&mut self, len: usize) -> &'a [u8] {
        let (now, rest) = self.rest.split_at(len.min(self.rest.len()));
        self.rest = rest;
        now
    }

    /// One byte.
    pub fn u8(&mut self) -> u8 {
        self.bytes(1).first().copied().unwrap_or(0)
    }

    /// Two bytes, little endian.
    pub fn u16(&mut self) -> u16 {
        u16::from(self.u8()) | u16::from(self.u8()) << 8
    }

    /// Four bytes, little endian.
    pub fn u32(&mut self) -> u32 {
        u32::from(self.u16()) | u32::from(self.u16()) << 16
    }

    /// A length and that many bytes.
    pub fn text(&mut self) -> &'a [u8] {
        let len = self.u16();
        self.bytes(usize::from(len))
    }

    /// All that is left.
    pub fn all(&mut self) -> &'a [u8] {
        self.bytes(self.rest.len())
    }
}

/// Appends a text in the form that [`Script::text`] reads. Longer texts are cut.
pub fn put_text(out: &mut Vec<u8>, text: &[u8]) {
    let len = u16::try_from(text.len()).unwrap_or(u16::MAX);
    out.extend_from_slice(&len.to_le_bytes());
    out.extend_from_slice(text.get(..usize::from(len)).unwrap_or(text));
}
