//! One pattern in one buffer, for the inspection of contents.

use memchr::memmem;

/// A prepared search for one pattern.
#[derive(Clone, Debug)]
pub struct Needle {
    bytes: Vec<u8>,
    finder: Option<memmem::Finder<'static>>,
}

impl Needle {
    /// Prepares the search; `nocase` lets ASCII letters match in either case.
    pub fn new(bytes: &[u8], nocase: bool) -> Self {
        let nocase = nocase && bytes.iter().any(u8::is_ascii_alphabetic);
        Needle {
            bytes: bytes.to_vec(),
            finder: (!nocase).then(|| memmem::Finder::new(bytes).into_owned()),
        }
    }

    /// The bytes looked for.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Offset of the first occurrence in `hay` that begins at or behind `from`. An empty needle is
    /// found at `from` when that is within the buffer or at its end.
    pub fn find_in(&self, hay: &[u8], from: usize) -> Option<usize> {
        let rest = hay.get(from..)?;
        let at = match &self.finder {
            Some(finder) => finder.find(rest),
            None => rest
                .windows(self.bytes.len())
                .position(|window| window.eq_ignore_ascii_case(&self.bytes)),
        };
        at.map(|at| from + at)
    }
}
