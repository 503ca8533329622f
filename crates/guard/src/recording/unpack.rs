//! Unpacks a recording that may be compressed with zstd, in pieces of any size and with bounded memory.

use super::Error;
use crate::limits::WINDOW_LOG_MAX;
use zstd::stream::raw::{DParameter, Decoder, InBuffer, Operation, OutBuffer};

/// The first bytes of a file of zstd (RFC 8878).
const MAGIC: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];
/// Bytes that are unpacked at a time.
const PART: usize = 64 << 10;
/// Bytes of a block's header, which zstd counts to the block before it when it says how much it takes next.
const BLOCK_HEADER: usize = 3;

/// What the bytes of the file are.
#[derive(Default)]
enum Form {
    /// Fewer than four bytes are there.
    #[default]
    Unknown,
    Plain,
    Packed(Decoder<'static>),
    /// The rest can't be unpacked.
    Broken,
}

/// Unpacks one file.
#[derive(Default)]
pub(super) struct Unpacker {
    form: Form,
    first: Vec<u8>,
    /// A compressed frame has begun and not ended.
    is_inside: bool,
    /// Bytes that the decoder takes next, see [`next_step`].
    step: usize,
    has_text: bool,
}

impl Unpacker {
    /// Takes the next bytes and hands on their text. `text` is memory that is used again.
    pub(super) fn feed(
        &mut self,
        bytes: &[u8],
        text: &mut Vec<u8>,
        take: &mut dyn FnMut(&[u8]),
    ) -> Result<(), Error> {
        if let Form::Unknown = self.form {
            self.first.extend_from_slice(bytes);
            let Some(begin) = self.first.get(..MAGIC.len()) else { return Ok(()) };
            self.form = if begin == MAGIC {
                self.step = next_step(0);
                Form::Packed(decoder().map_err(Error::Packed)?)
            } else {
                Form::Plain
            };
            let first = std::mem::take(&mut self.first);
            return self.unpack(&first, text, take);
        }
        self.unpack(bytes, text, take)
    }

    fn unpack(
        &mut self,
        bytes: &[u8],
        text: &mut Vec<u8>,
        take: &mut dyn FnMut(&[u8]),
    ) -> Result<(), Error> {
        let decoder = match &mut self.form {
            Form::Plain => {
                take(bytes);
                return Ok(());
            }
            Form::Packed(decoder) => decoder,
            Form::Unknown | Form::Broken => return Ok(()),
        };
        text.resize(PART, 0);
        let mut at = 0_usize;
        loop {
            let end = at.saturating_add(self.step).min(bytes.len());
            let mut input = InBuffer::around(bytes.get(at..end).unwrap_or_default());
            let mut output = OutBuffer::around(&mut text[..]);
            let left = match decoder.run(&mut input, &mut output) {
                Ok(left) => left,
                Err(e) if !self.has_text => return Err(Error::Packed(e)),
                // What was unpacked so far stays, as with a file that ends early.
                Err(_) => {
                    self.form = Form::Broken;
                    self.is_inside = true;
                    return Ok(());
                }
            };
            let used = input.pos();
            at += used;
            self.is_inside = left != 0;
            self.step = next_step(left);
            let written = output.pos();
            let is_full = written == PART;
            if let Some(part) = text.get(..written).filter(|part| !part.is_empty()) {
                self.has_text = true;
                take(part);
            }
            let is_stuck = used == 0 && written == 0;
            if (at >= bytes.len() && !is_full) || is_stuck {
                return Ok(());
            }
        }
    }

    /// The file has ended. Hands on text that is still held, and returns whether the file is whole.
    pub(super) fn finish(&mut self, take: &mut dyn FnMut(&[u8])) -> bool {
        if let Form::Unknown = self.form {
            take(&self.first);
            self.first.clear();
        }
        !self.is_inside
    }
}

/// Bytes to give to the decoder when it says that it takes `left` next, 0 between frames: no more than the rest of one block,
/// or of one header. A decoder that is given several fails with the last of them and hands out none, so what is unpacked of a
/// damaged file would depend on the pieces in which it comes.
fn next_step(left: usize) -> usize {
    match left {
        // It unpacks a frame at once whose beginning and end it is given.
        0 => MAGIC.len(),
        1..=BLOCK_HEADER => left,
        _ => left - BLOCK_HEADER,
    }
}

fn decoder() -> std::io::Result<Decoder<'static>> {
    let mut decoder = Decoder::new()?;
    decoder.set_parameter(DParameter::WindowLogMax(WINDOW_LOG_MAX))?;
    Ok(decoder)
}
