//! Undoing content encodings: gzip, deflate (bare and in zlib's wrapping), brotli, lzma, and
//! several of them one over the other.
//!
//! What a server says and what it sends often differ, and browsers try what works; so an encoding
//! that fails before it gave anything is tried as the others, and if none fits the body is taken
//! as it is. Checksums aren't verified, because browsers don't. Everything is handed on in small pieces, so that the
//! caller can stop a bomb; what all layers of a flow give is bounded by what it has sent (see [`Unpacking`]).

use super::gzip::GzipHead;
use super::limits::{
    BROTLI_KEPT_BYTES_MAX, BROTLI_STATE_BYTES, BROTLI_WINDOW_BITS_MAX, BROTLI_WINDOW_BITS_MIN,
    DECODED_PIECE_BYTES, ENCODING_HEAD_BYTES_MAX, ENCODING_RETRIES_MAX, INFLATE_BYTES,
    UNPACKED_BYTES_FROM_ONE, UNPACKED_BYTES_MAX,
};
use super::lzma::{Lzma, LzmaStep};
use brotli_decompressor::{BrotliDecompressStream, BrotliResult, BrotliState, StandardAlloc};
use flate2::{Decompress, FlushDecompress, Status};
use std::cell::Cell;

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

/// What a flow has sent packed, and what was made of it. A flow may be given some bytes for nothing,
/// and n more for each byte sent: no answer, and no number of answers, costs more than that.
#[derive(Clone, Debug, Default)]
pub(crate) struct Unpacking {
    sent: u64,
    made: Cell<u64>,
    /// Bytes that decoders took to begin with.
    held: u64,
}

impl Unpacking {
    /// Packed bytes have come.
    pub(crate) fn send(&mut self, bytes: usize) {
        self.sent = self.sent.saturating_add(bytes as u64);
    }

    /// A decoder was made that takes this many bytes.
    pub(crate) fn hold(&mut self, bytes: usize) {
        self.held = self.held.saturating_add(bytes as u64);
    }

    /// All bytes that were made, and that decoders took to make them.
    pub(crate) fn bytes_made(&self) -> u64 {
        self.made.get().saturating_add(self.held)
    }

    /// Bytes that may be made yet; `free` of them are given for nothing.
    fn left(&self, free: u64) -> u64 {
        let earned = self.sent.saturating_mul(UNPACKED_BYTES_FROM_ONE);
        free.max(UNPACKED_BYTES_MAX).saturating_add(earned).saturating_sub(self.made.get())
    }

    /// Takes a piece into account and returns how much of it there is space for.
    fn take_allowance(&self, free: u64, bytes: usize) -> usize {
        let room = usize::try_from(self.left(free)).unwrap_or(usize::MAX).min(bytes);
        self.made.set(self.made.get().saturating_add(bytes as u64));
        room
    }
}

/// A chain of decoders.
#[derive(Default)]
pub(crate) struct Decoder {
    /// In the order they are applied to what arrives.
    layers: Vec<Layer>,
}

/// Why a decoder handed on no more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fed {
    /// It takes more.
    All,
    /// The sink called a halt.
    Halted,
    /// More than the flow may have unpacked.
    Exhausted,
}

impl std::fmt::Debug for Decoder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.layers.iter().map(|l| l.encoding)).finish()
    }
}

impl Decoder {
    /// Adds the encoding that was applied after those already there.
    pub(crate) fn add(&mut self, encoding: Encoding, bounds: Bounds) {
        // What is packed once more may be a little larger than what it packs.
        let wanted = if self.layers.is_empty() { bounds.wanted } else { 2 * bounds.wanted };
        self.layers.insert(0, Layer::new(encoding, Bounds { wanted, ..bounds }));
    }

    /// A decoder that drops whatever comes: the encoded stream can't be followed any more.
    pub(crate) fn ended() -> Decoder {
        let mut layer = Layer::new(Encoding::Lzma, Bounds::default());
        layer.codec = Codec::Over;
        Decoder { layers: vec![layer] }
    }

    /// Bytes that it holds.
    pub(crate) fn bytes_held(&self) -> usize {
        self.layers.iter().map(Layer::bytes_held).sum()
    }

    /// What came is not packed as announced, where that is not tried in other ways.
    pub(crate) fn has_failed(&self) -> bool {
        self.layers.iter().any(|l| l.has_failed)
    }

    /// No encoding is to be undone.
    pub(crate) fn is_empty(&self) -> bool {
        self.layers.is_empty()
    }

    /// Decodes a further piece.
    pub(crate) fn feed(&mut self, data: &[u8], budget: &Unpacking, sink: &mut Sink<'_>) -> Fed {
        self.run(budget, &mut |layers| feed(layers, data, budget, sink))
    }

    /// The body is over: hands on what is left.
    pub(crate) fn finish(&mut self, budget: &Unpacking, sink: &mut Sink<'_>) -> Fed {
        self.run(budget, &mut |mut layers| {
            while let Some((first, rest)) = layers.split_first_mut() {
                if !first.finish(budget, &mut |last| feed(rest, last, budget, sink)) {
                    return false;
                }
                layers = rest;
            }
            true
        })
    }

    fn run(&mut self, budget: &Unpacking, run: &mut dyn FnMut(&mut [Layer]) -> bool) -> Fed {
        let free = self.layers.first().map_or(0, |l| l.bounds.free);
        // Not one more is begun with unless there is space for what it makes at a time.
        let needed = self.layers.iter().map(|l| l.codec.makes_at_once()).max();
        let has_room = needed.is_none_or(|needed| budget.left(free) >= needed);
        if has_room && run(&mut self.layers) {
            return Fed::All;
        }
        let is_exhausted = !has_room || self.layers.iter().any(|l| l.is_exhausted);
        *self = Decoder::ended();
        if is_exhausted { Fed::Exhausted } else { Fed::Halted }
    }
}

fn feed(layers: &mut [Layer], data: &[u8], budget: &Unpacking, sink: &mut Sink<'_>) -> bool {
    match layers.split_first_mut() {
        None => sink(data),
        Some((first, rest)) => {
            first.write(data, budget, &mut |piece| feed(rest, piece, budget, sink))
        }
    }
}

/// What decoders may take and give.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Bounds {
    /// Bytes of an lzma dictionary; 0: lzma passes through undone.
    pub(crate) lzma_memlimit: usize,
    /// Bytes that a flow may unpack for nothing, where its limits say more than the least.
    pub(crate) free: u64,
    /// Bytes of the body that are inspected; 0: all.
    pub(crate) wanted: u64,
    /// What is not packed as announced is not tried in other ways.
    pub(crate) is_strict: bool,
}

/// The state of a decoder after a piece.
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
    /// The stream continues, but no more of it is wanted.
    Cut,
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
    bounds: Bounds,
    /// It gave all that the flow may have unpacked.
    is_exhausted: bool,
    has_failed: bool,
}

enum Codec {
    Gzip(GzipHead, Box<Decompress>),
    Inflate(Box<Decompress>),
    Brotli(Box<Brotli>),
    Lzma(Box<Lzma>),
    /// Input is dropped.
    Pass,
    /// What comes is dropped.
    Over,
}

impl Codec {
    fn new(encoding: Encoding, bounds: Bounds) -> Codec {
        match encoding {
            Encoding::Gzip => Codec::Gzip(GzipHead::default(), Box::new(Decompress::new(false))),
            Encoding::Deflate => Codec::Inflate(Box::new(Decompress::new(false))),
            Encoding::Zlib => Codec::Inflate(Box::new(Decompress::new(true))),
            Encoding::Brotli => Codec::Brotli(Box::new(Brotli::new(bounds.wanted))),
            Encoding::Lzma if bounds.lzma_memlimit == 0 => Codec::Pass,
            Encoding::Lzma => Codec::Lzma(Box::new(Lzma::new(bounds.lzma_memlimit))),
        }
    }
}

impl Codec {
    /// Bytes that are made before the caller can stop the decoder; 0 where nothing is made.
    fn makes_at_once(&self) -> u64 {
        match self {
            Codec::Pass | Codec::Over => 0,
            // No smaller window is made, whatever is wanted.
            Codec::Brotli(brotli) if !brotli.is_started => {
                brotli_window(BROTLI_WINDOW_BITS_MIN) as u64
            }
            Codec::Brotli(_) | Codec::Gzip(..) | Codec::Inflate(_) | Codec::Lzma(_) => 1,
        }
    }

    /// Bytes that it holds.
    fn bytes_held(&self) -> usize {
        match self {
            Codec::Pass | Codec::Over => 0,
            Codec::Gzip(..) | Codec::Inflate(_) => INFLATE_BYTES,
            Codec::Brotli(brotli) => brotli.bytes_held(),
            Codec::Lzma(lzma) => lzma.bytes_held(),
        }
    }
}

impl Layer {
    fn new(encoding: Encoding, bounds: Bounds) -> Layer {
        Layer {
            encoding,
            codec: Codec::new(encoding, bounds),
            head: Vec::new(),
            trial: Vec::new(),
            has_output: false,
            retries: 0,
            bounds,
            is_exhausted: false,
            has_failed: false,
        }
    }

    fn bytes_held(&self) -> usize {
        size_of::<Layer>() + self.head.capacity() + self.trial.capacity() + self.codec.bytes_held()
    }

    fn write(&mut self, data: &[u8], budget: &Unpacking, sink: &mut Sink<'_>) -> bool {
        if !self.has_output && !matches!(self.codec, Codec::Pass | Codec::Over) {
            if self.head.len() + data.len() > ENCODING_HEAD_BYTES_MAX {
                // So much input and nothing out of it: keep to what it is taken for now.
                self.has_output = true;
                self.head = Vec::new();
            } else {
                self.head.extend_from_slice(data);
            }
        }
        let mut step = self.decode(data, budget, sink);
        self.drop_header();
        while step == Step::Broken {
            self.has_failed = self.bounds.is_strict;
            if self.has_output || self.has_failed {
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
            self.codec = Codec::new(self.encoding, self.bounds);
            step = self.decode(&head, budget, sink);
            self.head = head;
            self.drop_header();
        }
        if step == Step::End && !self.commit(sink) {
            step = Step::Halt;
        }
        if self.has_output {
            self.head = Vec::new();
        }
        if step == Step::Cut {
            self.is_exhausted = true;
            step = Step::Halt;
        }
        if matches!(step, Step::End | Step::Halt) {
            self.codec = Codec::Over;
        }
        step != Step::Halt
    }

    /// The header of a gzip stream is read: what follows it is tried in other ways, without it (as in Suricata).
    fn drop_header(&mut self) {
        if let Codec::Gzip(header, _) = &mut self.codec
            && header.is_read()
        {
            let bytes = std::mem::take(&mut header.len).min(self.head.len());
            self.head.drain(..bytes);
        }
    }

    /// Hands on what was kept back.
    fn commit(&mut self, sink: &mut Sink<'_>) -> bool {
        let trial = std::mem::take(&mut self.trial);
        self.has_output |= !trial.is_empty();
        trial.is_empty() || sink(&trial)
    }

    fn decode(&mut self, data: &[u8], budget: &Unpacking, sink: &mut Sink<'_>) -> Step {
        let (has_output, trial) = (&mut self.has_output, &mut self.trial);
        let (is_exhausted, free) = (&mut self.is_exhausted, self.bounds.free);
        // The other encodings have a header to be known by.
        let is_guess = self.retries > 0 && self.encoding == Encoding::Deflate;
        let mut out = |made: &[u8]| {
            let piece = made.get(..budget.take_allowance(free, made.len())).unwrap_or(made);
            *is_exhausted |= piece.len() < made.len();
            if piece.is_empty() {
                return made.is_empty();
            }
            if is_guess && !*has_output {
                trial.extend_from_slice(piece);
                if trial.len() <= DECODED_PIECE_BYTES {
                    return !*is_exhausted;
                }
                *has_output = true;
                let first = std::mem::take(trial);
                return sink(&first) && !*is_exhausted;
            }
            *has_output = true;
            sink(piece) && !*is_exhausted
        };
        match &mut self.codec {
            Codec::Gzip(head, inflater) => match head.skip(data) {
                Some(at) => inflate(inflater, data.get(at..).unwrap_or_default(), &mut out),
                None => Step::Broken,
            },
            Codec::Inflate(inflater) => inflate(inflater, data, &mut out),
            Codec::Brotli(brotli) => {
                let mut step = brotli.decode(data, budget.left(free), &mut out);
                while step == Step::Cut
                    && let Some(again) = brotli.grow(budget.left(free))
                {
                    // What was handed on is made a second time.
                    budget.take_allowance(free, again);
                    step = brotli.replay(&mut out);
                }
                if step == Step::Cut && brotli.may_wait() {
                    step = Step::More;
                }
                if step == Step::Halt {
                    // What is in the window was made, though it was not handed on.
                    budget.take_allowance(free, brotli.untaken());
                }
                step
            }
            Codec::Lzma(lzma) => unlzma(lzma, data, false, &mut out),
            Codec::Pass => {
                let may_continue = sink(data);
                if may_continue { Step::More } else { Step::Halt }
            }
            Codec::Over => Step::More,
        }
    }

    /// The end: hands on what is left. `false`: the sink called a halt.
    fn finish(&mut self, budget: &Unpacking, sink: &mut Sink<'_>) -> bool {
        let free = self.bounds.free;
        match std::mem::replace(&mut self.codec, Codec::Over) {
            Codec::Lzma(mut lzma) => {
                let is_exhausted = &mut self.is_exhausted;
                let mut out = |made: &[u8]| {
                    let piece = made.get(..budget.take_allowance(free, made.len())).unwrap_or(made);
                    *is_exhausted |= piece.len() < made.len();
                    sink(piece) && !*is_exhausted
                };
                unlzma(&mut lzma, &[], true, &mut out) != Step::Halt
            }
            // It waited for space to the end.
            Codec::Brotli(brotli) if brotli.is_waiting => {
                self.is_exhausted = true;
                false
            }
            // A guess that came to no end was wrong.
            Codec::Brotli(_) | Codec::Gzip(..) | Codec::Inflate(_) | Codec::Pass | Codec::Over => {
                self.trial.is_empty() || sink(&std::mem::take(&mut self.head))
            }
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

/// Brotli. The library may decode a whole window before it hands anything on, and the stream chooses
/// the window, up to 16 MiB: a stream of a dozen bytes would cost as much. Up to the window's size
/// the stream reads the same with a smaller window. So the window is made as small as what is wanted, where
/// less than the stream's is examined, and the stream ends with it; and it is made no larger than what the flow
/// may have unpacked at the moment. Then what came is kept, and read again with a larger one when the flow has
/// sent enough for that.
struct Brotli {
    state: BrotliState<StandardAlloc, StandardAlloc, StandardAlloc>,
    is_started: bool,
    /// Bits of the largest window wanted.
    bits: u8,
    /// Bits of the stream's window and of the one that is made, once known.
    stream_bits: u8,
    window_bits: u8,
    /// Bytes handed on, or passed over, since the window was made.
    handed: usize,
    /// Bytes to pass over: they were handed on before.
    again: usize,
    /// The window was made smaller: the stream ends with it.
    is_cut: bool,
    /// What came, where a larger window is wanted than there was space for.
    kept: Option<Vec<u8>>,
    /// The window is full, and the flow has not sent enough for a larger one yet.
    is_waiting: bool,
}

impl Brotli {
    fn new(wanted: u64) -> Brotli {
        let fits = |bits: &u8| wanted != 0 && brotli_window(*bits) as u64 >= wanted;
        let bits = (BROTLI_WINDOW_BITS_MIN..BROTLI_WINDOW_BITS_MAX).find(fits);
        Brotli {
            state: brotli_state(),
            is_started: false,
            bits: bits.unwrap_or(BROTLI_WINDOW_BITS_MAX),
            stream_bits: 16,
            window_bits: 16,
            handed: 0,
            again: 0,
            is_cut: false,
            kept: None,
            is_waiting: false,
        }
    }

    /// The library takes memory for the whole window with the first byte.
    fn bytes_held(&self) -> usize {
        let window = if self.is_started { brotli_window(self.window_bits) } else { 0 };
        BROTLI_STATE_BYTES + window + self.kept.as_ref().map_or(0, Vec::capacity)
    }

    /// Bytes of the window that may have been made and were not handed on.
    fn untaken(&self) -> usize {
        let window = brotli_window(self.window_bits);
        window - self.handed % window
    }

    /// Decodes a further piece, of which at most `room` bytes may be made.
    fn decode(&mut self, data: &[u8], room: u64, out: &mut Sink<'_>) -> Step {
        let Some(&first) = data.first() else { return Step::More };
        if self.is_started {
            if let Some(kept) = &mut self.kept {
                kept.extend_from_slice(data);
                let is_much = kept.len() > BROTLI_KEPT_BYTES_MAX;
                if (self.is_waiting || is_much) && largest_window(room) > self.window_bits {
                    // The caller makes the window larger and reads all of it again.
                    return Step::Cut;
                }
                if is_much {
                    // Behind so much input any window has been earned, or it was used for something else.
                    self.kept = None;
                }
                if self.is_waiting {
                    return Step::Cut;
                }
            }
            return self.decode_more(data, out);
        }
        self.is_started = true;
        // RFC 7932 9.1: a set lowest bit and three others that are not zero are 17 and the bits.
        let is_long = first & 1 == 1 && first & 0b1110 != 0;
        self.stream_bits = if is_long { 17 + (first >> 1 & 7) } else { 16 };
        self.set_window(largest_window(room));
        if self.wants_more() {
            self.kept = Some(data.to_vec());
        }
        self.decode_first(data, out)
    }

    /// Makes a window of at most this many bits.
    fn set_window(&mut self, most: u8) {
        self.window_bits = self.stream_bits.min(self.bits).min(most);
        self.is_cut = self.window_bits < self.stream_bits;
    }

    /// Whether there was no space for the window that is wanted.
    fn wants_more(&self) -> bool {
        self.window_bits < self.stream_bits.min(self.bits)
    }

    /// Decodes the beginning of a stream; its first byte says the window.
    fn decode_first(&mut self, data: &[u8], out: &mut Sink<'_>) -> Step {
        let Some((&first, rest)) = data.split_first() else { return Step::More };
        let first = match self.stream_bits {
            17.. => first & 0xf0 | (self.window_bits - 17) << 1 | 1,
            _ => first,
        };
        match self.decode_more(&[first], out) {
            Step::More => self.decode_more(rest, out),
            step => step,
        }
    }

    /// Makes the window larger where there is space for it by now; how many bytes are made again for that.
    fn grow(&mut self, room: u64) -> Option<usize> {
        let before = self.window_bits;
        let most = largest_window(room);
        if self.kept.is_none() || most <= before {
            return None;
        }
        self.set_window(most);
        self.is_waiting = false;
        self.state = brotli_state();
        self.again = std::mem::take(&mut self.handed);
        Some(self.again)
    }

    /// The window is full: whether the stream may continue when the flow has sent more.
    fn may_wait(&mut self) -> bool {
        self.is_waiting = self.kept.is_some();
        self.is_waiting
    }

    /// Reads what was kept again.
    fn replay(&mut self, out: &mut Sink<'_>) -> Step {
        let kept = self.kept.take().unwrap_or_default();
        let step = self.decode_first(&kept, out);
        if self.wants_more() && kept.len() <= BROTLI_KEPT_BYTES_MAX {
            self.kept = Some(kept);
        }
        step
    }

    fn decode_more(&mut self, data: &[u8], out: &mut Sink<'_>) -> Step {
        let mut buffer = [0u8; DECODED_PIECE_BYTES];
        let (mut input_left, mut at, mut total) = (data.len(), 0, 0);
        loop {
            let (mut room, mut made) = (buffer.len(), 0);
            let result = BrotliDecompressStream(
                &mut input_left,
                &mut at,
                data,
                &mut room,
                &mut made,
                &mut buffer,
                &mut total,
                &mut self.state,
            );
            let mut piece = buffer.get(..made).unwrap_or_default();
            if self.is_cut {
                let left = brotli_window(self.window_bits) - self.handed;
                piece = piece.get(..left).unwrap_or(piece);
            }
            self.handed += piece.len();
            let again = self.again.min(piece.len());
            self.again -= again;
            if !out(piece.get(again..).unwrap_or_default()) {
                return Step::Halt;
            }
            let is_full = self.is_cut && self.handed == brotli_window(self.window_bits);
            match result {
                _ if is_full && !matches!(result, BrotliResult::ResultSuccess) => return Step::Cut,
                BrotliResult::ResultSuccess => return Step::End,
                BrotliResult::NeedsMoreInput => return Step::More,
                BrotliResult::NeedsMoreOutput => {}
                BrotliResult::ResultFailure => return Step::Broken,
            }
        }
    }
}

fn brotli_state() -> BrotliState<StandardAlloc, StandardAlloc, StandardAlloc> {
    let a = StandardAlloc::default;
    BrotliState::new_strict(a(), a(), a())
}

/// Bits of the largest window of at most that many bytes, or of the smallest that is made.
fn largest_window(bytes: u64) -> u8 {
    let fits = |bits: &u8| brotli_window(*bits) as u64 <= bytes;
    let found = (BROTLI_WINDOW_BITS_MIN..=BROTLI_WINDOW_BITS_MAX).rev().find(fits);
    found.unwrap_or(BROTLI_WINDOW_BITS_MIN)
}

/// Bytes that a window of this many bits holds (RFC 7932 9.1).
fn brotli_window(bits: u8) -> usize {
    (1usize << bits) - 16
}

fn unlzma(lzma: &mut Lzma, data: &[u8], is_last: bool, out: &mut Sink<'_>) -> Step {
    match lzma.decode(data, is_last, out) {
        LzmaStep::More => Step::More,
        LzmaStep::End => Step::End,
        LzmaStep::Broken => Step::Broken,
        LzmaStep::Halt => Step::Halt,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use flate2::Compression;
    use std::io::Write;

    fn decode(encodings: &[Encoding], data: &[u8], piece: usize) -> Vec<u8> {
        let mut d = Decoder::default();
        for e in encodings {
            d.add(*e, Bounds { lzma_memlimit: 1 << 20, ..Bounds::default() });
        }
        let mut budget = Unpacking::default();
        budget.send(data.len());
        let mut out = Vec::new();
        let mut sink = |b: &[u8]| {
            out.extend_from_slice(b);
            true
        };
        for p in data.chunks(piece.max(1)) {
            d.feed(p, &budget, &mut sink);
        }
        d.finish(&budget, &mut sink);
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

    /// A distance that leads before the first byte (RFC 1951 3.2.3) is an error, as browsers have it, and what follows a
    /// gzip header that nothing packed follows passes without the header.
    #[test]
    fn broken_streams_give_what_came_before_the_error() {
        // A fixed block: "ab", then a copy from 24,577 bytes back, which is before the first byte.
        let bits = [(1, 1), (1, 2), (0x30 + 0x61, 8), (0x30 + 0x62, 8), (1, 7), (29, 5), (0, 13)];
        let (mut stream, mut at) = (vec![0u8; 8], 0);
        for (n, (value, len)) in bits.into_iter().enumerate() {
            for bit in 0..len {
                // Codes come with the highest bit first, the type of the block with the lowest.
                let bit = if n < 2 { bit } else { len - 1 - bit };
                stream[at / 8] |= ((value >> bit & 1) as u8) << (at % 8);
                at += 1;
            }
        }
        assert_eq!(decode(&[Encoding::Deflate], &stream, 100), b"ab");
        let mut gz = b"\x1f\x8b\x08\0\0\0\0\0\0\0".to_vec();
        gz.extend_from_slice(b"\xff\xff plain");
        assert_eq!(decode(&[Encoding::Gzip], &gz, 100), b"\xff\xff plain");
        assert_eq!(decode(&[Encoding::Gzip], &gz, 1), b"\xff\xff plain");
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
        let mut budget = Unpacking::default();
        budget.send(bomb.len());
        let mut d = Decoder::default();
        d.add(Encoding::Gzip, Bounds::default());
        let mut seen = 0usize;
        let mut sink = |b: &[u8]| {
            seen += b.len();
            seen < 100_000
        };
        assert_eq!(d.feed(&bomb, &budget, &mut sink), Fed::Halted);
        assert_eq!(d.feed(&bomb, &budget, &mut sink), Fed::All);
        assert!(seen < 110_000);
    }

    /// 64 MiB of zeros as brotli with a window of 16 MiB, and 1 MiB of them as lzma (both written by
    /// the reference encoders).
    const BROTLI_BOMB: &[u8] = &[
        207, 255, 255, 127, 248, 39, 0, 226, 177, 64, 32, 247, 254, 159, 255, 255, 255, 240, 79, 0,
        196, 97, 1, 128, 238, 253, 63, 255, 255, 255, 225, 159, 0, 136, 195, 34, 0, 221, 251, 127,
        254, 255, 255, 195, 63, 1, 16, 135, 5, 0, 186, 247, 255, 3,
    ];
    const LZMA_BOMB: &[u8] = &[
        93, 0, 0, 128, 0, 255, 255, 255, 255, 255, 255, 255, 255, 0, 0, 111, 253, 255, 255, 163,
        183, 255, 71, 62, 72, 21, 114, 57, 97, 81, 184, 146, 40, 230, 163, 134, 7, 249, 238, 228,
        30, 130, 211, 47, 197, 58, 60, 1, 75, 177, 126, 201, 138, 138, 77, 47, 163, 13, 217, 127,
        166, 227, 140, 35, 17, 83, 224, 89, 24, 197, 117, 138, 226, 119, 248, 182, 148, 127, 12,
        106, 192, 222, 116, 73, 100, 226, 233, 92, 83, 178, 4, 216, 247, 68, 12, 171, 95, 13, 109,
        70, 233, 229, 195, 118, 136, 183, 150, 87, 172, 182, 77, 225, 105, 29, 111, 251, 75, 136,
        16, 108, 66, 203, 136, 63, 92, 0, 143, 208, 78, 175, 38, 40, 148, 113, 31, 61, 143, 36,
        225, 112, 158, 167, 35, 95, 236, 40, 203, 133, 209, 149, 152, 138, 126, 42, 145, 242, 39,
        117, 247, 25, 192, 6, 152, 77, 152, 253, 216, 175, 213, 144, 15, 196, 37, 83, 248, 245,
        145, 54, 49, 5, 165, 176, 238, 111, 193, 112, 77, 71, 12, 209, 145, 17, 170, 173, 96, 29,
        186, 206, 177, 39, 24, 92, 89, 134, 233, 102, 82, 88, 190, 233, 118, 172, 89, 228, 229, 91,
        5, 8, 249, 199, 218, 173, 252, 251, 82, 42, 247, 229, 28, 220, 207, 255, 255, 130, 22, 0,
        0,
    ];

    /// What a flow has unpacked is bounded by what it has sent, whatever the encodings and however
    /// many bodies: bytes are counted that all layers made.
    #[test]
    fn what_is_unpacked_is_bounded_by_what_was_sent() {
        let zeros = gzip(&vec![0u8; 10 << 20]);
        let twice = gzip(&gzip(&vec![0u8; 100 << 20]));
        use Encoding::*;
        for (encodings, packed) in [
            (&[Brotli][..], BROTLI_BOMB),
            (&[Lzma], LZMA_BOMB),
            (&[Gzip], &zeros),
            (&[Gzip, Gzip], &twice),
        ] {
            let mut budget = Unpacking::default();
            let mut exhausted = 0;
            let mut seen = 0;
            for _ in 0..20 {
                let mut d = Decoder::default();
                for e in encodings {
                    let bounds =
                        Bounds { lzma_memlimit: 1 << 20, wanted: 100 << 10, ..Bounds::default() };
                    d.add(*e, bounds);
                }
                budget.send(packed.len());
                let mut sink = |b: &[u8]| {
                    seen += b.len() as u64;
                    true
                };
                exhausted += usize::from(d.feed(packed, &budget, &mut sink) == Fed::Exhausted);
                exhausted += usize::from(d.finish(&budget, &mut sink) == Fed::Exhausted);
            }
            let bound = UNPACKED_BYTES_MAX + 20 * packed.len() as u64 * UNPACKED_BYTES_FROM_ONE;
            // One piece more may be made, and is not handed on.
            let overrun = 20 * DECODED_PIECE_BYTES as u64;
            assert!(budget.made.get() <= bound + overrun, "{encodings:?} {budget:?}");
            assert!(seen <= bound && exhausted >= 10, "{encodings:?} {seen} {exhausted}");
        }
    }

    /// Where bodies are examined whole, the stream says the window: none is made that the flow may not have unpacked,
    /// neither its bytes nor its memory, and what the flow sends later makes space for it.
    #[test]
    fn a_window_is_weighed_before_it_is_made() {
        let bounds = Bounds { free: 1 << 20, ..Bounds::default() };
        for piece in [1, 7, BROTLI_BOMB.len()] {
            let mut budget = Unpacking::default();
            let mut d = Decoder::default();
            d.add(Encoding::Brotli, bounds);
            let mut seen = 0;
            let mut sink = |b: &[u8]| {
                seen += b.len();
                true
            };
            for part in BROTLI_BOMB.chunks(piece) {
                budget.send(part.len());
                assert_eq!(d.feed(part, &budget, &mut sink), Fed::All);
                assert!(d.bytes_held() < (1 << 20) + (128 << 10), "{}", d.bytes_held());
                assert!(budget.made.get() <= 1 << 20, "{budget:?}");
            }
            assert_eq!(d.finish(&budget, &mut sink), Fed::Exhausted);
            assert_eq!(seen, brotli_window(20), "the first MiB is seen");
        }
        // The same where the flow sends more: all of it is seen.
        let mut budget = Unpacking::default();
        let mut d = Decoder::default();
        d.add(Encoding::Brotli, bounds);
        let mut seen = 0;
        let mut sink = |b: &[u8]| {
            seen += b.len();
            true
        };
        let (head, tail) = BROTLI_BOMB.split_at(BROTLI_BOMB.len() - 1);
        budget.send(head.len());
        assert_eq!(d.feed(head, &budget, &mut sink), Fed::All);
        budget.send(2 << 20);
        assert_eq!(d.feed(tail, &budget, &mut sink), Fed::All);
        assert_eq!(d.finish(&budget, &mut sink), Fed::All);
        assert_eq!(seen, 64 << 20);
    }

    /// A body of ordinary bytes in a stream of the largest window comes out whole, in any pieces.
    #[test]
    fn a_larger_window_reads_on_where_a_smaller_one_ended() {
        // Uncompressed meta-blocks of 64 KiB, by RFC 7932 9.2; the window has 24 bits.
        let block: Vec<u8> = (0..1u32 << 16).map(|i| ((i * i) >> 7) as u8).collect();
        // The head of the first comes after four bits of the window.
        let (text, mut stream) = (block.repeat(40), vec![0x8f, 0xff, 0xff]);
        stream.extend_from_slice(&block);
        for _ in 1..40 {
            stream.extend_from_slice(&[0xf8, 0xff, 0x0f]);
            stream.extend_from_slice(&block);
        }
        stream.push(3);
        for piece in [1400, 100_000, 1 << 22] {
            let mut budget = Unpacking::default();
            let mut d = Decoder::default();
            d.add(Encoding::Brotli, Bounds { free: 1 << 20, ..Bounds::default() });
            let mut out = Vec::new();
            let mut sink = |b: &[u8]| {
                out.extend_from_slice(b);
                true
            };
            for part in stream.chunks(piece) {
                budget.send(part.len());
                assert_eq!(d.feed(part, &budget, &mut sink), Fed::All);
            }
            assert_eq!(d.finish(&budget, &mut sink), Fed::All);
            assert!(out == text, "{piece}: {} of {}", out.len(), text.len());
            // What is made a second time is less than what was made once.
            assert!(budget.made.get() <= 2 * text.len() as u64, "{budget:?}");
        }
    }

    /// A window that is made smaller changes nothing of what is wanted.
    #[test]
    fn a_smaller_window_reads_the_same() {
        let bounds = |wanted| Bounds { wanted, ..Bounds::default() };
        for (wanted, expected) in [(1000, brotli_window(18)), (500_000, brotli_window(19))] {
            let mut budget = Unpacking::default();
            budget.send(1 << 20);
            let mut d = Decoder::default();
            d.add(Encoding::Brotli, bounds(wanted));
            let mut seen = 0;
            let mut sink = |b: &[u8]| {
                assert!(b.iter().all(|b| *b == 0));
                seen += b.len();
                true
            };
            assert_eq!(d.feed(BROTLI_BOMB, &budget, &mut sink), Fed::Exhausted);
            assert_eq!(seen, expected);
        }
    }
}
