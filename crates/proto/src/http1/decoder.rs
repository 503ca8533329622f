//! Undoing content encodings: gzip, deflate (bare and in zlib's wrapping), brotli, lzma, and
//! several of them one over the other.
//!
//! What a server says and what it sends often differ, and browsers try what works; so an encoding
//! that fails before it gave anything is tried as the others, and if none fits the body is taken
//! as it is. Check sums aren't verified, because browsers don't. Everything is handed on in small
//! pieces, so that whoever takes them can call a halt to a bomb.

use super::limits::{DECODED_PIECE_BYTES, ENCODING_HEAD_BYTES_MAX, ENCODING_RETRIES_MAX};
use brotli::enc::StandardAlloc;
use brotli::{BrotliDecompressStream, BrotliResult, BrotliState};
use flate2::{Decompress, FlushDecompress, Status};
use std::io::Write;

/// A content encoding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Encoding {
    Gzip,
    Deflate,
    Zlib,
    Brotli,
    Lzma,
}

/// Takes decoded pieces; `false` ends the decoding.
pub(crate) type Sink<'a> = dyn FnMut(&[u8]) -> bool + 'a;

/// A chain of decoders.
#[derive(Default)]
pub(crate) struct Decoder {
    /// In the order they are applied to what arrives.
    layers: Vec<Layer>,
}

impl std::fmt::Debug for Decoder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.layers.iter().map(|l| l.encoding)).finish()
    }
}

impl Decoder {
    /// Adds the encoding that was applied after those already there. `lzma_memlimit` 0: lzma passes
    /// through undone.
    pub(crate) fn add(&mut self, encoding: Encoding, lzma_memlimit: usize) {
        self.layers.insert(0, Layer::new(encoding, lzma_memlimit));
    }

    /// A decoder that drops whatever comes: the encoded stream can't be followed any more.
    pub(crate) fn ended() -> Decoder {
        let mut layer = Layer::new(Encoding::Lzma, 0);
        layer.codec = Codec::Over;
        Decoder { layers: vec![layer] }
    }

    /// No encoding is to be undone.
    pub(crate) fn is_empty(&self) -> bool {
        self.layers.is_empty()
    }

    /// Decodes a further piece. `false`: the sink called a halt.
    pub(crate) fn feed(&mut self, data: &[u8], sink: &mut Sink<'_>) -> bool {
        feed(&mut self.layers, data, sink)
    }

    /// The body is over: hands on what is left.
    pub(crate) fn finish(&mut self, sink: &mut Sink<'_>) {
        let mut layers = self.layers.as_mut_slice();
        while let Some((first, rest)) = layers.split_first_mut() {
            let last = first.finish();
            if !last.is_empty() && !feed(rest, &last, sink) {
                return;
            }
            layers = rest;
        }
    }
}

fn feed(layers: &mut [Layer], data: &[u8], sink: &mut Sink<'_>) -> bool {
    match layers.split_first_mut() {
        None => sink(data),
        Some((first, rest)) => first.write(data, &mut |piece| feed(rest, piece, sink)),
    }
}

/// How a decoder stands after a piece.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    /// It takes more.
    More,
    /// The encoded stream is over; what follows is ignored.
    End,
    /// It can't be that encoding, or is broken.
    Broken,
    /// The sink called a halt.
    Halt,
}

struct Layer {
    encoding: Encoding,
    codec: Codec,
    /// All input so far, until something came out.
    head: Vec<u8>,
    /// Output of an encoding that is only guessed, kept back until it looks right: plain text may
    /// well begin like deflate data.
    trial: Vec<u8>,
    has_output: bool,
    retries: u8,
    lzma_memlimit: usize,
}

enum Codec {
    Gzip(GzipHead, Box<Decompress>),
    Inflate(Box<Decompress>),
    Brotli(Box<Brotli>),
    Lzma(Option<Box<lzma_rs::decompress::Stream<LzmaOut>>>),
    /// What comes goes.
    Pass,
    /// What comes is dropped.
    Over,
}

impl Codec {
    fn new(encoding: Encoding, lzma_memlimit: usize) -> Codec {
        match encoding {
            Encoding::Gzip => Codec::Gzip(GzipHead::default(), Box::new(Decompress::new(false))),
            Encoding::Deflate => Codec::Inflate(Box::new(Decompress::new(false))),
            Encoding::Zlib => Codec::Inflate(Box::new(Decompress::new(true))),
            Encoding::Brotli => Codec::Brotli(Box::new(Brotli::new())),
            Encoding::Lzma if lzma_memlimit == 0 => Codec::Pass,
            Encoding::Lzma => {
                let options = lzma_rs::decompress::Options {
                    memlimit: Some(lzma_memlimit),
                    ..Default::default()
                };
                let out = LzmaOut::default();
                let stream = lzma_rs::decompress::Stream::new_with_options(&options, out);
                Codec::Lzma(Some(Box::new(stream)))
            }
        }
    }
}

impl Layer {
    fn new(encoding: Encoding, lzma_memlimit: usize) -> Layer {
        Layer {
            encoding,
            codec: Codec::new(encoding, lzma_memlimit),
            head: Vec::new(),
            trial: Vec::new(),
            has_output: false,
            retries: 0,
            lzma_memlimit,
        }
    }

    fn write(&mut self, data: &[u8], sink: &mut Sink<'_>) -> bool {
        if !self.has_output && !matches!(self.codec, Codec::Pass | Codec::Over) {
            if self.head.len() + data.len() > ENCODING_HEAD_BYTES_MAX {
                // So much input and nothing out of it: keep to what it is taken for now.
                self.has_output = true;
                self.head = Vec::new();
            } else {
                self.head.extend_from_slice(data);
            }
        }
        let mut step = self.decode(data, sink);
        while step == Step::Broken {
            if self.has_output {
                self.codec = Codec::Over;
                return true;
            }
            self.trial.clear();
            let head = std::mem::take(&mut self.head);
            if self.retries >= ENCODING_RETRIES_MAX {
                self.codec = Codec::Pass;
                return sink(&head);
            }
            self.retries += 1;
            self.encoding = match self.encoding {
                Encoding::Deflate => Encoding::Zlib,
                Encoding::Zlib => Encoding::Gzip,
                Encoding::Gzip | Encoding::Brotli | Encoding::Lzma => Encoding::Deflate,
            };
            self.codec = Codec::new(self.encoding, self.lzma_memlimit);
            step = self.decode(&head, sink);
            if !self.has_output {
                self.head = head;
            }
        }
        if step == Step::End && !self.commit(sink) {
            step = Step::Halt;
        }
        if self.has_output {
            self.head = Vec::new();
        }
        if matches!(step, Step::End | Step::Halt) {
            self.codec = Codec::Over;
        }
        step != Step::Halt
    }

    /// Hands on what was kept back.
    fn commit(&mut self, sink: &mut Sink<'_>) -> bool {
        let trial = std::mem::take(&mut self.trial);
        self.has_output |= !trial.is_empty();
        trial.is_empty() || sink(&trial)
    }

    fn decode(&mut self, data: &[u8], sink: &mut Sink<'_>) -> Step {
        let (has_output, trial) = (&mut self.has_output, &mut self.trial);
        // The other encodings have a header to be known by.
        let is_guess = self.retries > 0 && self.encoding == Encoding::Deflate;
        let mut out = |piece: &[u8]| {
            if piece.is_empty() {
                return true;
            }
            if is_guess && !*has_output {
                trial.extend_from_slice(piece);
                if trial.len() <= DECODED_PIECE_BYTES {
                    return true;
                }
                *has_output = true;
                let first = std::mem::take(trial);
                return sink(&first);
            }
            *has_output = true;
            sink(piece)
        };
        match &mut self.codec {
            Codec::Gzip(head, inflater) => match head.skip(data) {
                Some(at) => inflate(inflater, data.get(at..).unwrap_or_default(), &mut out),
                None => Step::Broken,
            },
            Codec::Inflate(inflater) => inflate(inflater, data, &mut out),
            Codec::Brotli(brotli) => brotli.decode(data, &mut out),
            Codec::Lzma(stream) => unlzma(stream, data, &mut out),
            Codec::Pass => {
                if sink(data) {
                    Step::More
                } else {
                    Step::Halt
                }
            }
            Codec::Over => Step::More,
        }
    }

    /// What is left at the end.
    fn finish(&mut self) -> Vec<u8> {
        match std::mem::replace(&mut self.codec, Codec::Over) {
            Codec::Lzma(Some(stream)) => stream.finish().map(|o| o.bytes).unwrap_or_default(),
            // A guess that came to no end was wrong.
            _ if !self.trial.is_empty() => std::mem::take(&mut self.head),
            _ => Vec::new(),
        }
    }
}

/// Decodes deflate data piece by piece.
fn inflate(inflater: &mut Decompress, mut data: &[u8], out: &mut Sink<'_>) -> Step {
    let mut buffer = [0u8; DECODED_PIECE_BYTES];
    loop {
        let (in_before, out_before) = (inflater.total_in(), inflater.total_out());
        let result = inflater.decompress(data, &mut buffer, FlushDecompress::None);
        let consumed = (inflater.total_in() - in_before) as usize;
        let made = (inflater.total_out() - out_before) as usize;
        data = data.get(consumed..).unwrap_or_default();
        if !out(buffer.get(..made).unwrap_or_default()) {
            return Step::Halt;
        }
        match result {
            Err(_) => return Step::Broken,
            Ok(Status::StreamEnd) => return Step::End,
            Ok(Status::Ok | Status::BufError) => {
                let is_stuck = consumed == 0 && made == 0;
                if is_stuck || (data.is_empty() && made < buffer.len()) {
                    return Step::More;
                }
            }
        }
    }
}

/// Where the header of a gzip stream (RFC 1952 2.3) has been read to.
#[derive(Clone, Copy, Debug, Default)]
struct GzipHead {
    part: GzipPart,
    flags: u8,
    left: u16,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum GzipPart {
    #[default]
    Fixed,
    ExtraLow,
    ExtraHigh,
    Extra,
    Name,
    Comment,
    Crc,
    Body,
}

impl GzipHead {
    /// Reads header bytes and gives the position behind them; `None`: it is no gzip header.
    fn skip(&mut self, data: &[u8]) -> Option<usize> {
        const FIXED_BYTES: u16 = 10;
        let mut at = 0;
        loop {
            let present = match self.part {
                GzipPart::Fixed => true,
                GzipPart::ExtraLow | GzipPart::ExtraHigh | GzipPart::Extra => self.flags & 4 != 0,
                GzipPart::Name => self.flags & 8 != 0,
                GzipPart::Comment => self.flags & 16 != 0,
                GzipPart::Crc => self.flags & 2 != 0,
                GzipPart::Body => return Some(at),
            };
            if !present || (self.part == GzipPart::Extra && self.left == 0) {
                self.next_part();
                continue;
            }
            let Some(&b) = data.get(at) else { return Some(at) };
            at += 1;
            match self.part {
                GzipPart::Fixed => {
                    match self.left {
                        0 if b != 0x1f => return None,
                        1 if b != 0x8b => return None,
                        2 if b != 8 => return None,
                        3 => self.flags = b,
                        _ => {}
                    }
                    self.left += 1;
                    if self.left == FIXED_BYTES {
                        self.next_part();
                    }
                }
                GzipPart::ExtraLow => {
                    self.left = u16::from(b);
                    self.part = GzipPart::ExtraHigh;
                }
                GzipPart::ExtraHigh => {
                    self.left |= u16::from(b) << 8;
                    self.part = GzipPart::Extra;
                }
                GzipPart::Extra => {
                    self.left -= 1;
                    if self.left == 0 {
                        self.next_part();
                    }
                }
                GzipPart::Name | GzipPart::Comment => {
                    if b == 0 {
                        self.next_part();
                    }
                }
                GzipPart::Crc => {
                    self.left += 1;
                    if self.left == 2 {
                        self.next_part();
                    }
                }
                GzipPart::Body => {}
            }
        }
    }

    fn next_part(&mut self) {
        self.left = 0;
        self.part = match self.part {
            GzipPart::Fixed => GzipPart::ExtraLow,
            GzipPart::ExtraLow => GzipPart::ExtraHigh,
            GzipPart::ExtraHigh => GzipPart::Extra,
            GzipPart::Extra => GzipPart::Name,
            GzipPart::Name => GzipPart::Comment,
            GzipPart::Comment => GzipPart::Crc,
            GzipPart::Crc | GzipPart::Body => GzipPart::Body,
        };
    }
}

struct Brotli(BrotliState<StandardAlloc, StandardAlloc, StandardAlloc>);

impl Brotli {
    fn new() -> Brotli {
        let a = StandardAlloc::default;
        Brotli(BrotliState::new_strict(a(), a(), a()))
    }

    fn decode(&mut self, data: &[u8], out: &mut Sink<'_>) -> Step {
        let mut buffer = [0u8; DECODED_PIECE_BYTES];
        let (mut left, mut at, mut total) = (data.len(), 0, 0);
        loop {
            let (mut room, mut made) = (buffer.len(), 0);
            let result = BrotliDecompressStream(
                &mut left,
                &mut at,
                data,
                &mut room,
                &mut made,
                &mut buffer,
                &mut total,
                &mut self.0,
            );
            if !out(buffer.get(..made).unwrap_or_default()) {
                return Step::Halt;
            }
            match result {
                BrotliResult::ResultSuccess => return Step::End,
                BrotliResult::NeedsMoreInput => return Step::More,
                BrotliResult::NeedsMoreOutput => {}
                BrotliResult::ResultFailure => return Step::Broken,
            }
        }
    }
}

/// Collects what lzma gives, at most as much as a bomb may before it is looked at.
#[derive(Debug, Default)]
struct LzmaOut {
    bytes: Vec<u8>,
}

/// Output between two looks of the sink: more is taken for a bomb and ends the decoding.
const LZMA_BURST_BYTES_MAX: usize = 4 << 20;

/// Input given to lzma at a time.
const LZMA_INPUT_BYTES: usize = 256;

impl Write for LzmaOut {
    fn write(&mut self, data: &[u8]) -> std::io::Result<usize> {
        if self.bytes.len() + data.len() > LZMA_BURST_BYTES_MAX {
            return Err(std::io::Error::other("too much output at once"));
        }
        self.bytes.extend_from_slice(data);
        Ok(data.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

fn unlzma(
    stream: &mut Option<Box<lzma_rs::decompress::Stream<LzmaOut>>>,
    data: &[u8],
    out: &mut Sink<'_>,
) -> Step {
    let Some(lzma) = stream else { return Step::More };
    for piece in data.chunks(LZMA_INPUT_BYTES) {
        if lzma.write_all(piece).is_err() {
            *stream = None;
            return Step::Broken;
        }
        if let Some(o) = lzma.get_output_mut() {
            let go_on = out(&o.bytes);
            o.bytes.clear();
            if !go_on {
                return Step::Halt;
            }
        }
    }
    Step::More
}

#[cfg(test)]
mod tests {
    use super::*;
    use flate2::Compression;

    fn decode(encodings: &[Encoding], data: &[u8], piece: usize) -> Vec<u8> {
        let mut d = Decoder::default();
        for e in encodings {
            d.add(*e, 1 << 20);
        }
        let mut out = Vec::new();
        let mut sink = |b: &[u8]| {
            out.extend_from_slice(b);
            true
        };
        for p in data.chunks(piece.max(1)) {
            d.feed(p, &mut sink);
        }
        d.finish(&mut sink);
        out
    }

    fn gzip(data: &[u8]) -> Vec<u8> {
        let mut e = flate2::GzBuilder::new()
            .filename("name")
            .extra(vec![1, 2, 3])
            .comment("c")
            .write(Vec::new(), Compression::default());
        e.write_all(data).unwrap();
        e.finish().unwrap()
    }

    fn zlib(data: &[u8]) -> Vec<u8> {
        let mut e = flate2::write::ZlibEncoder::new(Vec::new(), Compression::default());
        e.write_all(data).unwrap();
        e.finish().unwrap()
    }

    /// Whatever the encoding is called, what was sent comes out, in any pieces.
    #[test]
    fn encodings_are_undone_whatever_their_name_and_pieces() {
        let text: Vec<u8> = (0..3000u32).flat_map(|i| i.to_string().into_bytes()).collect();
        let gz = gzip(&text);
        let z = zlib(&text);
        let bare = z[2..z.len() - 4].to_vec();
        let mut lzma = Vec::new();
        lzma_rs::lzma_compress(&mut text.as_slice(), &mut lzma).unwrap();
        let twice = gzip(&zlib(&text));
        use Encoding::*;
        for piece in [1, 7, 1000, 1 << 20] {
            for named in [Gzip, Deflate] {
                assert!(decode(&[named], &gz, piece) == text, "gzip as {named:?}");
                assert!(decode(&[named], &z, piece) == text, "zlib as {named:?}");
                assert!(decode(&[named], &bare, piece) == text, "deflate as {named:?}");
            }
            assert!(decode(&[Lzma], &lzma, piece) == text);
            assert!(decode(&[Zlib, Gzip], &twice, piece) == text);
        }
        // The second begins like deflate data.
        for plain in [&b"plain text, not gzip at all"[..], b"{\"sdk_version\":\"1.0.0\",\"a\":1}"] {
            assert_eq!(decode(&[Gzip], plain, 3), plain);
        }
    }

    #[test]
    fn brotli_text_of_the_rfc() {
        // A stream of one uncompressed meta-block, by RFC 7932 9.2.
        let stream = [0x0b, 0x02, 0x80, b'h', b'e', b'l', b'l', b'o', 0x03];
        for piece in 1..stream.len() {
            assert_eq!(decode(&[Encoding::Brotli], &stream, piece), b"hello");
        }
    }

    #[test]
    fn a_halt_ends_the_decoding() {
        let bomb = gzip(&vec![0u8; 10 << 20]);
        let mut d = Decoder::default();
        d.add(Encoding::Gzip, 0);
        let mut seen = 0usize;
        let mut sink = |b: &[u8]| {
            seen += b.len();
            seen < 100_000
        };
        assert!(!d.feed(&bomb, &mut sink));
        assert!(d.feed(&bomb, &mut sink));
        assert!(seen < 110_000);
    }
}
