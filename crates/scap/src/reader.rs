//! The reader: scap files from anything that returns bytes, plain or inside of gzip.

use std::io::{ErrorKind, Read};

use flate2::bufread::MultiGzDecoder;

use crate::block::is_scap;
use crate::decoder::{Counts, Decoder, Item};
use crate::error::Error;
use crate::limits;

/// The first bytes of gzip.
const GZIP: [u8; 2] = [0x1f, 0x8b];

/// Reads the items of a scap file, pipe or standard input.
pub struct Reader {
    input: Box<dyn Read + Send>,
    decoder: Decoder,
    is_ended: bool,
}

impl std::fmt::Debug for Reader {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Reader").field("decoder", &self.decoder).finish_non_exhaustive()
    }
}

impl Reader {
    /// Reads from an input, which it recognizes as plain or gzip by its first bytes.
    ///
    /// # Errors
    /// The input fails before its second byte.
    pub fn new(input: impl Read + Send + 'static) -> Result<Reader, Error> {
        Ok(Reader { input: unpacked(input)?, decoder: Decoder::new(), is_ended: false })
    }

    /// Whether an input is a scap file and no pcapng file, by its beginning; see [`is_scap`]. The header of the first
    /// section must be shorter than 64 KiB.
    pub fn recognizes(input: impl Read + Send + 'static) -> bool {
        let Ok(input) = unpacked(input) else { return false };
        let mut beginning = Vec::new();
        // What a damaged file has before its fault is enough.
        let _ = input.take(limits::BEGINNING_LEN).read_to_end(&mut beginning);
        is_scap(&beginning)
    }

    /// What was counted so far.
    #[must_use]
    pub const fn counts(&self) -> &Counts {
        self.decoder.counts()
    }

    /// The next item; none at the end. An input that fails ends there, with a note.
    ///
    /// # Errors
    /// The input is not scap, or of a version that cannot be read.
    #[inline]
    pub fn next_item(&mut self) -> Result<Option<Item<'_>>, Error> {
        if let Some((raw, at)) = self.decoder.whole_event() {
            return Ok(Some(Item::Event(self.decoder.event(&raw, at))));
        }
        while !self.decoder.advance()? {
            if self.is_ended {
                return Ok(None);
            }
            self.fill_buffer()?;
        }
        Ok(self.decoder.take_item())
    }

    fn fill_buffer(&mut self) -> Result<(), Error> {
        let space = self.decoder.space(limits::READ_LEN);
        match self.input.read(space) {
            Ok(0) => {
                self.is_ended = true;
                self.decoder.finish();
            }
            Ok(len) => self.decoder.filled(len),
            Err(e) if e.kind() == ErrorKind::Interrupted => {}
            Err(e) => {
                self.is_ended = true;
                self.decoder.add_note(format!("the input could not be read to its end: {e}"));
                self.decoder.finish();
            }
        }
        Ok(())
    }
}

/// The input without gzip, if it begins as gzip does.
fn unpacked(mut input: impl Read + Send + 'static) -> Result<Box<dyn Read + Send>, Error> {
    let mut first = [0; 2];
    let mut len = 0;
    while let Some(space) = first.get_mut(len..).filter(|space| !space.is_empty()) {
        match input.read(space) {
            Ok(0) => break,
            Ok(n) => len += n,
            Err(e) if e.kind() == ErrorKind::Interrupted => {}
            Err(e) => return Err(Error::Unreadable(e.to_string())),
        }
    }
    let beginning = first.get(..len).unwrap_or_default().to_vec();
    let is_gzip = beginning == GZIP;
    let whole = std::io::Cursor::new(beginning).chain(input);
    Ok(if is_gzip {
        let packed = std::io::BufReader::with_capacity(limits::READ_LEN, whole);
        Box::new(MultiGzDecoder::new(packed))
    } else {
        Box::new(whole)
    })
}
