//! LZMA as browsers and servers send it ("LZMA alone": 13 bytes of header, one stream).
//!
//! Written from the LZMA specification (I. Pavlov, 2015). What is decoded is handed on as it comes,
//! so that the caller can stop a bomb before it has cost anything, and sees the beginning of a stream that is
//! cut off. Memory grows with what is decoded, up to the dictionary's limit.

use super::limits::DECODED_PIECE_BYTES;

/// Properties, dictionary size, length.
const HEADER_BYTES: usize = 13;
/// The range decoder's first bytes after the header.
const RANGE_BYTES: usize = 5;
/// Input one symbol takes at most, rounded up: with less at hand the next bytes are waited for.
const SYMBOL_BYTES: usize = 32;
/// Bytes of the smallest dictionary.
const DICTIONARY_BYTES_MIN: usize = 4096;
/// Probabilities of the literals of one context.
const LITERAL_PROBABILITIES: usize = 0x300;
/// Where probabilities begin: as likely as not.
const HALF: u16 = 1024;

/// The state of the stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LzmaStep {
    /// It takes more.
    More,
    /// It is over.
    End,
    /// It is no such stream, is broken, or needs a larger dictionary than is allowed.
    Broken,
    /// The sink called a halt.
    Halt,
}

/// Where the next input byte comes from.
struct Input<'a> {
    data: &'a [u8],
    at: usize,
    /// Bytes were asked for that are not there.
    is_over: bool,
}

impl Input<'_> {
    #[inline]
    fn next(&mut self) -> u8 {
        let byte = self.data.get(self.at).copied();
        self.at += 1;
        self.is_over |= byte.is_none();
        byte.unwrap_or(0)
    }
}

/// The range decoder.
#[derive(Default)]
struct Coder {
    range: u32,
    code: u32,
}

impl Coder {
    #[inline]
    fn normalize(&mut self, input: &mut Input<'_>) {
        if self.range < 1 << 24 {
            self.range <<= 8;
            self.code = self.code << 8 | u32::from(input.next());
        }
    }

    #[inline]
    fn bit(&mut self, input: &mut Input<'_>, probability: &mut u16) -> usize {
        let bound = (self.range >> 11) * u32::from(*probability);
        let bit = if self.code < bound {
            self.range = bound;
            *probability += (2048 - *probability) >> 5;
            0
        } else {
            self.range -= bound;
            self.code -= bound;
            *probability -= *probability >> 5;
            1
        };
        self.normalize(input);
        bit
    }

    fn direct(&mut self, input: &mut Input<'_>, bits: u32) -> u32 {
        let mut value = 0;
        for _ in 0..bits {
            self.range >>= 1;
            let is_one = self.code >= self.range;
            if is_one {
                self.code -= self.range;
            }
            value = value << 1 | u32::from(is_one);
            self.normalize(input);
        }
        value
    }

    /// A number of `bits` bits by a tree of probabilities, the highest bit first.
    #[inline]
    fn tree(&mut self, input: &mut Input<'_>, tree: &mut [u16], bits: u32) -> usize {
        let mut m = 1;
        for _ in 0..bits {
            let Some(p) = tree.get_mut(m) else { return 0 };
            m = m << 1 | self.bit(input, p);
        }
        m - (1 << bits)
    }

    /// The same, the lowest bit first.
    fn reverse(&mut self, input: &mut Input<'_>, tree: &mut [u16], bits: u32) -> usize {
        let (mut m, mut value) = (1, 0);
        for n in 0..bits {
            let Some(p) = tree.get_mut(m) else { return 0 };
            let bit = self.bit(input, p);
            m = m << 1 | bit;
            value |= bit << n;
        }
        value
    }
}

/// Lengths of copies.
struct Lengths {
    choice: [u16; 2],
    low: [[u16; 8]; 16],
    mid: [[u16; 8]; 16],
    high: [u16; 256],
}

impl Lengths {
    const NEW: Lengths = Lengths {
        choice: [HALF; 2],
        low: [[HALF; 8]; 16],
        mid: [[HALF; 8]; 16],
        high: [HALF; 256],
    };

    fn decode(&mut self, c: &mut Coder, input: &mut Input<'_>, place: usize) -> usize {
        let place = place & 15;
        if c.bit(input, &mut self.choice[0]) == 0 {
            c.tree(input, &mut self.low[place], 3)
        } else if c.bit(input, &mut self.choice[1]) == 0 {
            8 + c.tree(input, &mut self.mid[place], 3)
        } else {
            16 + c.tree(input, &mut self.high, 8)
        }
    }
}

/// Everything that is likely or not.
struct Probabilities {
    is_match: [[u16; 16]; 12],
    is_rep: [u16; 12],
    is_rep_g0: [u16; 12],
    is_rep_g1: [u16; 12],
    is_rep_g2: [u16; 12],
    is_rep0_long: [[u16; 16]; 12],
    slots: [[u16; 64]; 4],
    distances: [u16; 128],
    align: [u16; 16],
    lengths: Lengths,
    rep_lengths: Lengths,
}

impl Probabilities {
    const NEW: Probabilities = Probabilities {
        is_match: [[HALF; 16]; 12],
        is_rep: [HALF; 12],
        is_rep_g0: [HALF; 12],
        is_rep_g1: [HALF; 12],
        is_rep_g2: [HALF; 12],
        is_rep0_long: [[HALF; 16]; 12],
        slots: [[HALF; 64]; 4],
        distances: [HALF; 128],
        align: [HALF; 16],
        lengths: Lengths::NEW,
        rep_lengths: Lengths::NEW,
    };
}

/// What was decoded last: as much as copies may reach back.
struct Dictionary {
    bytes: Vec<u8>,
    /// Size by the header; at it the oldest bytes are written over.
    size: usize,
    /// Bytes that it may take.
    room: usize,
    at: usize,
    total: u64,
}

impl Dictionary {
    fn back(&self, distance: usize) -> u8 {
        let at = match self.at.checked_sub(distance) {
            Some(at) => at,
            None => (self.at + self.bytes.len()).saturating_sub(distance),
        };
        self.bytes.get(at).copied().unwrap_or(0)
    }

    /// False when there is no space.
    fn put(&mut self, byte: u8, piece: &mut Vec<u8>) -> bool {
        if self.bytes.len() < self.size {
            if self.bytes.len() >= self.room {
                return false;
            }
            self.bytes.push(byte);
        } else {
            if self.at == self.size {
                self.at = 0;
            }
            if let Some(place) = self.bytes.get_mut(self.at) {
                *place = byte;
            }
        }
        self.at += 1;
        self.total += 1;
        piece.push(byte);
        true
    }

    fn copy(&mut self, distance: usize, len: usize, piece: &mut Vec<u8>) -> bool {
        let end = self.bytes.len() + len;
        if self.bytes.len() < self.size && end <= self.size.min(self.room) {
            // Copies that overlap repeat what they begin with.
            let from = self.bytes.len() - distance;
            if distance == 1 {
                let byte = self.back(1);
                self.bytes.resize(end, byte);
            } else {
                while self.bytes.len() < end {
                    let n = distance.min(end - self.bytes.len());
                    self.bytes.extend_from_within(from..from + n);
                }
            }
            piece.extend_from_slice(self.bytes.get(end - len..).unwrap_or_default());
            self.at = end;
            self.total += len as u64;
            return true;
        }
        (0..len).all(|_| {
            let byte = self.back(distance);
            self.put(byte, piece)
        })
    }
}

/// A decoder of one stream.
pub(crate) struct Lzma {
    head: Vec<u8>,
    is_started: bool,
    /// Input that was too little for a symbol.
    pending: Vec<u8>,
    coder: Coder,
    state: usize,
    reps: [u32; 4],
    /// Bits of the place and of the byte before that distinguish the contexts of literals.
    place_mask: usize,
    literal_place_mask: usize,
    literal_bits: u32,
    probabilities: Box<Probabilities>,
    /// By context, each made when it is first met.
    literals: Vec<Option<Box<[u16; LITERAL_PROBABILITIES]>>>,
    dictionary: Dictionary,
    /// Bytes of the whole; `None`: an end mark ends it.
    len: Option<u64>,
    /// The byte that is zero in all such streams was not: nothing of it is handed on.
    is_garbled: bool,
    piece: Vec<u8>,
}

impl Lzma {
    /// A decoder whose dictionary may take this many bytes.
    pub(crate) fn new(memlimit: usize) -> Lzma {
        Lzma {
            head: Vec::new(),
            is_started: false,
            pending: Vec::new(),
            coder: Coder::default(),
            state: 0,
            reps: [0; 4],
            place_mask: 0,
            literal_place_mask: 0,
            literal_bits: 0,
            probabilities: Box::new(Probabilities::NEW),
            literals: Vec::new(),
            dictionary: Dictionary { bytes: Vec::new(), size: 0, room: memlimit, at: 0, total: 0 },
            len: None,
            is_garbled: false,
            piece: Vec::new(),
        }
    }

    /// Bytes that it holds.
    pub(crate) fn bytes_held(&self) -> usize {
        let literals = self.literals.iter().flatten().count() * LITERAL_PROBABILITIES * 2;
        size_of::<Lzma>()
            + size_of::<Probabilities>()
            + self.literals.capacity() * size_of::<usize>()
            + literals
            + self.dictionary.bytes.capacity()
            + self.head.capacity()
            + self.pending.capacity()
            + self.piece.capacity()
    }

    /// Decodes a further piece; `is_last`: no more will come.
    pub(crate) fn decode(
        &mut self,
        mut data: &[u8],
        is_last: bool,
        out: &mut dyn FnMut(&[u8]) -> bool,
    ) -> LzmaStep {
        if !self.is_started {
            let missing = HEADER_BYTES + RANGE_BYTES - self.head.len();
            let (head, rest) = data.split_at(missing.min(data.len()));
            self.head.extend_from_slice(head);
            data = rest;
            if self.head.len() < HEADER_BYTES + RANGE_BYTES {
                return LzmaStep::More;
            }
            if !self.start() {
                return LzmaStep::Broken;
            }
        }
        let mut joined = std::mem::take(&mut self.pending);
        let step = if joined.is_empty() {
            self.symbols(data, is_last, out)
        } else {
            joined.extend_from_slice(data);
            self.symbols(&joined, is_last, out)
        };
        if step != LzmaStep::Halt && !self.hand_on(out) {
            return LzmaStep::Halt;
        }
        step
    }

    fn hand_on(&mut self, out: &mut dyn FnMut(&[u8]) -> bool) -> bool {
        let continues = self.is_garbled || self.piece.is_empty() || out(&self.piece);
        self.piece.clear();
        continues
    }

    fn start(&mut self) -> bool {
        self.is_started = true;
        let Some(head) = self.head.first_chunk::<{ HEADER_BYTES + RANGE_BYTES }>() else {
            return false;
        };
        let [props, d0, d1, d2, d3, len @ .., zero, c0, c1, c2, c3] = *head;
        if props >= 9 * 5 * 5 {
            return false;
        }
        self.is_garbled = zero != 0;
        let props = usize::from(props);
        self.literal_bits = (props % 9) as u32;
        let literal_place_bits = props / 9 % 5;
        self.literal_place_mask = (1 << literal_place_bits) - 1;
        self.place_mask = (1 << (props / 45)) - 1;
        self.literals.resize_with(1 << (literal_place_bits + props % 9), || None);
        let size = u32::from_le_bytes([d0, d1, d2, d3]) as usize;
        self.dictionary.size = size.max(DICTIONARY_BYTES_MIN);
        self.len = Some(u64::from_le_bytes(len)).filter(|len| *len != u64::MAX);
        self.coder = Coder { range: u32::MAX, code: u32::from_be_bytes([c0, c1, c2, c3]) };
        true
    }

    fn symbols(
        &mut self,
        data: &[u8],
        is_last: bool,
        out: &mut dyn FnMut(&[u8]) -> bool,
    ) -> LzmaStep {
        let mut input = Input { data, at: 0, is_over: false };
        loop {
            if self.piece.len() >= DECODED_PIECE_BYTES && !self.hand_on(out) {
                return LzmaStep::Halt;
            }
            if self.len.is_some_and(|len| self.dictionary.total >= len) {
                return LzmaStep::End;
            }
            if !is_last && data.len() - input.at.min(data.len()) < SYMBOL_BYTES {
                self.pending.extend_from_slice(data.get(input.at..).unwrap_or_default());
                return LzmaStep::More;
            }
            let made = self.piece.len();
            let step = self.symbol(&mut input);
            if input.is_over {
                // What was made of bytes that are not there is none.
                self.piece.truncate(made);
                return LzmaStep::End;
            }
            if step != LzmaStep::More {
                return step;
            }
        }
    }

    /// Decodes a literal or a copy.
    fn symbol(&mut self, input: &mut Input<'_>) -> LzmaStep {
        let (p, c) = (&mut *self.probabilities, &mut self.coder);
        let place = self.dictionary.total as usize & self.place_mask & 15;
        let state = self.state.min(11);
        let is_late = state >= 7;
        if c.bit(input, &mut p.is_match[state][place]) == 0 {
            return self.literal(input);
        }
        let len;
        if c.bit(input, &mut p.is_rep[state]) == 1 {
            if self.dictionary.total == 0 {
                return LzmaStep::Broken;
            }
            let [a, b, d, e] = self.reps;
            if c.bit(input, &mut p.is_rep_g0[state]) == 0 {
                if c.bit(input, &mut p.is_rep0_long[state][place]) == 0 {
                    self.state = if is_late { 11 } else { 9 };
                    return self.repeat(1);
                }
            } else if c.bit(input, &mut p.is_rep_g1[state]) == 0 {
                self.reps = [b, a, d, e];
            } else if c.bit(input, &mut p.is_rep_g2[state]) == 0 {
                self.reps = [d, a, b, e];
            } else {
                self.reps = [e, a, b, d];
            }
            len = p.rep_lengths.decode(c, input, place);
            self.state = if is_late { 11 } else { 8 };
        } else {
            let [a, b, d, _] = self.reps;
            len = p.lengths.decode(c, input, place);
            self.state = if is_late { 10 } else { 7 };
            let distance = distance(p, c, input, len);
            self.reps = [distance, a, b, d];
            if distance == u32::MAX {
                return LzmaStep::End;
            }
        }
        self.repeat(len + 2)
    }

    /// Copies from the last distance, not beyond the whole's length.
    fn repeat(&mut self, len: usize) -> LzmaStep {
        let distance = self.reps[0] as usize + 1;
        let dictionary = &mut self.dictionary;
        if distance > dictionary.bytes.len() {
            return LzmaStep::Broken;
        }
        let left = self.len.map_or(u64::MAX, |whole| whole.saturating_sub(dictionary.total));
        let len = usize::try_from(left).unwrap_or(usize::MAX).min(len);
        if dictionary.copy(distance, len, &mut self.piece) {
            LzmaStep::More
        } else {
            LzmaStep::Broken
        }
    }

    fn literal(&mut self, input: &mut Input<'_>) -> LzmaStep {
        let dictionary = &mut self.dictionary;
        let before = if dictionary.total == 0 { 0 } else { usize::from(dictionary.back(1)) };
        let context = ((dictionary.total as usize & self.literal_place_mask) << self.literal_bits)
            + (before >> (8 - self.literal_bits));
        let Some(literals) = self.literals.get_mut(context) else { return LzmaStep::Broken };
        let p = literals.get_or_insert_with(|| Box::new([HALF; LITERAL_PROBABILITIES]));
        let c = &mut self.coder;
        let mut symbol = 1;
        if self.state >= 7 {
            let mut matched = usize::from(dictionary.back(self.reps[0] as usize + 1));
            while symbol < 0x100 {
                let bit = matched >> 7 & 1;
                matched <<= 1;
                let Some(p) = p.get_mut(((1 + bit) << 8) + symbol) else { break };
                let is = c.bit(input, p);
                symbol = symbol << 1 | is;
                if is != bit {
                    break;
                }
            }
        }
        while symbol < 0x100 {
            let Some(p) = p.get_mut(symbol) else { break };
            symbol = symbol << 1 | c.bit(input, p);
        }
        self.state = match self.state {
            0..4 => 0,
            state @ 4..10 => state - 3,
            state => state - 6,
        };
        if dictionary.put(symbol as u8, &mut self.piece) {
            LzmaStep::More
        } else {
            LzmaStep::Broken
        }
    }
}

fn distance(p: &mut Probabilities, c: &mut Coder, input: &mut Input<'_>, len: usize) -> u32 {
    let slot = c.tree(input, &mut p.slots[len.min(3)], 6) as u32;
    if slot < 4 {
        return slot;
    }
    let bits = (slot >> 1) - 1;
    let base = (2 | (slot & 1)) << bits;
    if slot < 14 {
        let tree = p.distances.get_mut((base - slot) as usize..).unwrap_or_default();
        return base + c.reverse(input, tree, bits) as u32;
    }
    let high = c.direct(input, bits - 4) << 4;
    base.wrapping_add(high).wrapping_add(c.reverse(input, &mut p.align, 4) as u32)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One text by three settings of the reference encoder: properties, and a dictionary smaller than
    /// the text.
    const STREAMS: [&[u8]; 3] = [
        &[
            93, 0, 0, 1, 0, 255, 255, 255, 255, 255, 255, 255, 255, 0, 35, 145, 70, 203, 43, 151,
            67, 33, 183, 83, 129, 34, 206, 27, 92, 178, 17, 115, 92, 189, 146, 6, 136, 197, 47, 37,
            221, 186, 147, 15, 80, 86, 220, 226, 82, 149, 191, 104, 40, 185, 123, 168, 144, 107,
            199, 91, 122, 125, 181, 22, 7, 206, 188, 153, 126, 79, 45, 204, 60, 149, 199, 237, 191,
            70, 76, 188, 56, 68, 224, 123, 115, 187, 116, 135, 114, 194, 112, 96, 163, 193, 247,
            145, 127, 57, 37, 56, 132, 139, 41, 94, 255, 167, 68, 178, 156, 195, 90, 124, 24, 183,
            54, 109, 222, 222, 48, 206, 132, 104, 8, 13, 231, 244, 8, 177, 180, 4, 115, 17, 102,
            241, 130, 193, 181, 0, 31, 72, 201, 99, 54, 84, 136, 42, 225, 55, 230, 136, 176, 75,
            227, 194, 175, 148, 238, 147, 68, 237, 116, 138, 17, 1, 158, 180, 76, 153, 97, 175,
            145, 92, 196, 143, 59, 240, 38, 230, 35, 51, 72, 150, 76, 174, 142, 215, 217, 4, 52,
            253, 124, 193, 139, 33, 247, 52, 48, 16, 70, 171, 181, 187, 205, 185, 146, 74, 18, 141,
            215, 53, 35, 94, 230, 0, 226, 197, 157, 24, 9, 120, 246, 190, 87, 16, 170, 25, 56, 234,
            148, 3, 66, 140, 54, 65, 125, 248, 125, 73, 213, 72, 98, 143, 247, 23, 172, 87, 28, 19,
            79, 168, 97, 255, 58, 70, 67, 211, 137, 12, 91, 143, 28, 74, 229, 120, 4, 147, 63, 4,
            193, 126, 20, 159, 185, 79, 93, 138, 214, 236, 108, 226, 241, 184, 36, 27, 36, 197,
            134, 159, 29, 9, 105, 237, 95, 169, 63, 190, 80, 224, 172, 50, 213, 114, 251, 83, 170,
            108, 190, 194, 149, 123, 178, 94, 14, 64, 88, 136, 237, 189, 249, 115, 202, 124, 245,
            43, 18, 242, 219, 97, 159, 113, 153, 30, 29, 94, 250, 87, 78, 77, 204, 154, 233, 228,
            168, 139, 239, 15, 219, 61, 27, 19, 103, 30, 170, 70, 171, 106, 34, 80, 164, 245, 238,
            37, 42, 220, 238, 247, 255, 137, 238, 106, 30, 15, 159, 39, 48, 129, 41, 66, 235, 79,
            0, 107, 81, 247, 103, 32, 226, 238, 232, 5, 186, 185, 192, 215, 180, 157, 142, 182,
            105, 210, 156, 181, 103, 149, 214, 197, 47, 112, 52, 140, 205, 220, 110, 193, 107, 63,
            31, 124, 108, 216, 66, 78, 175, 42, 205, 137, 184, 75, 150, 14, 124, 110, 11, 68, 205,
            211, 50, 227, 92, 141, 166, 239, 181, 127, 16, 172, 207, 62, 183, 29, 65, 81, 137, 76,
            7, 181, 21, 4, 178, 63, 108, 2, 41, 186, 97, 1, 91, 205, 135, 195, 227, 75, 45, 137, 0,
            144, 70, 33, 34, 127, 164, 192, 67, 111, 166, 172, 243, 46, 69, 170, 253, 68, 157, 216,
            78, 255, 216, 148, 136, 167, 33, 199, 75, 191, 101, 56, 176, 225, 122, 35, 94, 248, 58,
            144, 62, 110, 18, 176, 51, 22, 67, 239, 117, 186, 185, 33, 47, 129, 208, 220, 136, 178,
            38, 163, 169, 229, 2, 210, 118, 120, 227, 84, 249, 102, 252, 206, 119, 187, 181, 32,
            206, 108, 41, 60, 26, 91, 139, 92, 157, 26, 228, 146, 246, 15, 72, 233, 120, 69, 252,
            38, 129, 143, 202, 128, 137, 221, 148, 88, 97, 141, 55, 208, 191, 167, 30, 152, 149,
            167, 18, 11, 203, 87, 157, 187, 74, 185, 236, 141, 82, 120, 71, 156, 148, 80, 14, 27,
            52, 228, 19, 59, 184, 136, 169, 146, 245, 59, 7, 226, 200, 49, 53, 107, 103, 103, 50,
            28, 97, 154, 119, 149, 164, 153, 216, 162, 124, 70, 172, 144, 95, 33, 194, 50, 49, 14,
            190, 233, 71, 200, 70, 56, 187, 221, 64, 75, 28, 190, 113, 60, 231, 128, 29, 145, 63,
            12, 223, 113, 83, 77, 182, 31, 188, 122, 237, 87, 142, 21, 186, 245, 155, 155, 237,
            197, 207, 94, 146, 54, 199, 17, 175, 84, 76, 7, 211, 79, 140, 87, 52, 102, 218, 203,
            27, 50, 44, 105, 57, 183, 92, 138, 64, 69, 60, 36, 143, 206, 74, 234, 99, 254, 121,
            185, 193, 253, 227, 242, 150, 247, 31, 153, 231, 85, 164, 57, 135, 142, 226, 0, 50, 25,
            16, 91, 121, 197, 45, 66, 183, 163, 171, 165, 22, 225, 45, 88, 105, 98, 218, 1, 25, 69,
            158, 97, 174, 119, 140, 104, 63, 177, 204, 141, 214, 98, 225, 82, 143, 144, 238, 79,
            205, 157, 41, 121, 82, 219, 174, 61, 49, 204, 203, 189, 4, 150, 95, 165, 138, 226, 242,
            175, 178, 86, 126, 140, 219, 79, 16, 201, 240, 29, 152, 77, 248, 242, 168, 174, 105,
            241, 141, 108, 239, 78, 190, 142, 52, 35, 51, 66, 33, 185, 117, 246, 226, 138, 99, 173,
            67, 229, 214, 43, 202, 44, 145, 9, 142, 252, 108, 78, 97, 172, 185, 213, 249, 210, 198,
            230, 3, 115, 22, 86, 104, 223, 38, 233, 112, 243, 90, 129, 53, 5, 140, 180, 112, 17,
            104, 182, 4, 237, 164, 131, 200, 224, 181, 29, 82, 119, 7, 59, 32, 90, 3, 187, 99, 159,
            27, 6, 211, 151, 111, 16, 67, 217, 161, 36, 238, 41, 11, 19, 180, 222, 32, 238, 48, 82,
            30, 130, 127, 253, 244, 170, 220, 181, 208, 231, 48, 238, 122, 225, 18, 40, 253, 44,
            155, 184, 61, 243, 133, 172, 129, 37, 52, 179, 44, 44, 61, 28, 16, 29, 213, 107, 247,
            145, 74, 79, 134, 203, 161, 112, 11, 143, 165, 193, 205, 237, 2, 178, 124, 86, 28, 64,
            3, 215, 179, 156, 157, 85, 39, 2, 5, 211, 68, 228, 184, 30, 16, 144, 190, 214, 82, 65,
            175, 141, 152, 83, 131, 184, 84, 224, 33, 35, 134, 173, 166, 13, 78, 54, 61, 18, 99,
            252, 189, 234, 122, 76, 16, 96, 211, 160, 155, 164, 91, 6, 189, 71, 214, 70, 103, 85,
            217, 90, 110, 3, 97, 101, 83, 12, 2, 16, 97, 202, 76, 207, 101, 28, 19, 199, 121, 216,
            136, 9, 203, 89, 146, 149, 61, 177, 200, 248, 253, 99, 151, 135, 35, 175, 143, 114, 85,
            223, 172, 75, 124, 62, 75, 56, 21, 114, 180, 128, 69, 151, 105, 176, 201, 117, 64, 20,
            237, 164, 102, 78, 155, 185, 74, 155, 181, 12, 255, 255, 233, 42, 238, 146,
        ],
        &[
            18, 0, 16, 0, 0, 255, 255, 255, 255, 255, 255, 255, 255, 0, 35, 145, 209, 128, 237, 91,
            24, 57, 32, 40, 243, 2, 67, 59, 78, 114, 25, 124, 34, 49, 68, 159, 104, 70, 153, 73,
            197, 3, 38, 187, 82, 108, 106, 9, 234, 254, 5, 243, 227, 61, 75, 70, 73, 134, 77, 100,
            157, 25, 154, 163, 145, 76, 58, 74, 218, 191, 98, 61, 122, 120, 61, 181, 111, 113, 129,
            90, 171, 234, 214, 11, 217, 165, 160, 70, 207, 80, 94, 72, 210, 165, 15, 196, 47, 161,
            9, 130, 44, 212, 20, 88, 224, 175, 243, 30, 199, 39, 93, 202, 129, 204, 71, 181, 192,
            148, 79, 206, 52, 91, 139, 122, 51, 20, 113, 27, 253, 229, 18, 138, 149, 234, 202, 59,
            68, 91, 42, 181, 201, 137, 3, 42, 112, 114, 169, 162, 52, 35, 198, 127, 248, 138, 181,
            243, 15, 253, 232, 183, 7, 211, 67, 240, 220, 67, 69, 10, 152, 45, 165, 6, 44, 64, 74,
            42, 57, 18, 160, 37, 159, 138, 39, 37, 189, 229, 141, 233, 247, 252, 46, 151, 219, 251,
            86, 226, 198, 12, 17, 132, 30, 173, 247, 125, 138, 125, 14, 71, 125, 183, 154, 214,
            112, 137, 75, 150, 109, 201, 182, 17, 91, 180, 44, 229, 253, 205, 5, 96, 166, 62, 244,
            25, 9, 32, 60, 52, 45, 23, 172, 77, 89, 5, 225, 222, 249, 104, 108, 213, 45, 34, 221,
            97, 133, 211, 129, 215, 147, 192, 235, 51, 48, 30, 98, 139, 102, 86, 129, 83, 220, 125,
            75, 126, 198, 97, 140, 213, 24, 188, 163, 26, 96, 149, 128, 71, 18, 87, 146, 255, 228,
            185, 243, 117, 238, 161, 240, 125, 127, 253, 76, 132, 64, 190, 126, 143, 188, 104, 15,
            152, 36, 25, 58, 13, 246, 3, 75, 202, 57, 40, 200, 4, 22, 198, 192, 176, 195, 175, 14,
            59, 99, 132, 58, 141, 169, 142, 245, 170, 91, 13, 20, 233, 224, 195, 154, 14, 6, 208,
            74, 181, 50, 130, 242, 55, 210, 221, 13, 179, 46, 73, 150, 125, 241, 127, 2, 235, 33,
            93, 248, 201, 202, 172, 212, 41, 183, 37, 21, 212, 85, 20, 169, 176, 17, 89, 148, 69,
            43, 35, 183, 75, 71, 25, 255, 125, 14, 161, 71, 182, 1, 183, 29, 219, 80, 208, 117, 71,
            200, 39, 219, 143, 2, 21, 82, 104, 170, 51, 34, 216, 224, 136, 200, 233, 139, 21, 206,
            116, 73, 67, 97, 7, 32, 98, 91, 207, 96, 250, 185, 31, 28, 119, 204, 219, 212, 58, 59,
            250, 78, 184, 192, 189, 89, 243, 58, 33, 177, 19, 31, 113, 85, 102, 9, 117, 230, 86,
            207, 215, 227, 40, 254, 217, 254, 199, 220, 127, 165, 188, 136, 214, 28, 126, 47, 190,
            68, 49, 144, 136, 179, 128, 146, 130, 147, 99, 137, 3, 131, 67, 69, 211, 123, 186, 176,
            209, 98, 219, 34, 188, 177, 242, 62, 52, 234, 89, 190, 103, 14, 79, 154, 237, 141, 157,
            238, 227, 116, 42, 151, 74, 240, 0, 184, 3, 190, 242, 51, 154, 232, 214, 249, 107, 151,
            39, 50, 163, 122, 211, 185, 136, 132, 163, 43, 121, 200, 160, 30, 86, 50, 98, 73, 187,
            21, 124, 166, 67, 78, 68, 21, 96, 127, 10, 55, 109, 200, 81, 3, 58, 53, 55, 215, 241,
            228, 25, 167, 80, 145, 223, 31, 208, 39, 51, 158, 178, 12, 107, 167, 48, 193, 147, 4,
            83, 217, 234, 73, 24, 2, 145, 10, 75, 247, 125, 167, 197, 141, 69, 96, 102, 101, 57,
            95, 25, 27, 12, 251, 6, 121, 238, 128, 105, 112, 236, 47, 137, 22, 0, 202, 23, 18, 59,
            183, 233, 26, 206, 98, 241, 223, 18, 46, 101, 8, 209, 100, 128, 73, 33, 157, 33, 4, 9,
            110, 244, 59, 99, 85, 29, 94, 1, 224, 54, 160, 19, 95, 234, 179, 157, 214, 208, 150,
            53, 147, 118, 162, 239, 135, 238, 179, 137, 191, 123, 207, 69, 171, 196, 12, 29, 167,
            82, 76, 44, 230, 136, 60, 148, 238, 91, 128, 61, 32, 231, 123, 139, 102, 41, 145, 172,
            129, 158, 25, 192, 106, 107, 73, 3, 81, 25, 206, 53, 82, 17, 122, 114, 229, 152, 230,
            47, 49, 251, 168, 117, 33, 154, 82, 190, 20, 163, 225, 97, 144, 20, 202, 70, 223, 152,
            79, 237, 171, 136, 106, 48, 94, 139, 64, 255, 64, 177, 194, 49, 96, 163, 135, 61, 153,
            133, 122, 25, 81, 173, 58, 146, 118, 93, 143, 159, 133, 43, 2, 163, 178, 132, 206, 117,
            215, 188, 74, 225, 195, 15, 36, 224, 29, 48, 172, 88, 167, 11, 137, 179, 44, 169, 117,
            249, 158, 128, 235, 107, 231, 67, 67, 9, 166, 57, 29, 181, 81, 175, 88, 181, 39, 172,
            95, 161, 92, 136, 44, 158, 93, 44, 135, 236, 171, 56, 23, 191, 200, 46, 181, 84, 8, 2,
            230, 134, 243, 59, 120, 69, 170, 132, 227, 11, 167, 78, 19, 60, 147, 111, 67, 139, 139,
            174, 106, 125, 60, 187, 253, 64, 244, 23, 108, 191, 85, 142, 148, 231, 224, 165, 172,
            49, 203, 102, 30, 231, 5, 81, 61, 175, 248, 52, 188, 125, 30, 196, 199, 149, 239, 46,
            117, 61, 214, 142, 167, 15, 32, 76, 180, 224, 12, 90, 67, 97, 213, 40, 19, 140, 240,
            145, 188, 0, 123, 38, 172, 88, 159, 184, 125, 232, 190, 149, 94, 123, 89, 134, 243, 10,
            190, 57, 187, 85, 59, 74, 247, 110, 0, 47, 74, 200, 25, 21, 104, 102, 198, 251, 162,
            11, 15, 23, 207, 222, 250, 197, 7, 196, 99, 71, 191, 136, 164, 232, 200, 173, 233, 157,
            122, 120, 220, 178, 163, 97, 37, 125, 121, 232, 198, 145, 133, 47, 86, 202, 77, 248,
            67, 110, 217, 123, 212, 127, 77, 62, 247, 119, 34, 240, 146, 212, 206, 166, 163, 244,
            82, 217, 161, 115, 233, 164, 213, 103, 251, 17, 89, 80, 244, 52, 150, 47, 156, 224, 4,
            141, 255, 191, 174, 70, 72, 75, 86, 35, 214, 104, 245, 172, 145, 99, 114, 66, 168, 250,
            34, 141, 8, 38, 194, 146, 111, 135, 197, 97, 154, 26, 189, 51, 244, 138, 95, 133, 123,
            59, 201, 220, 107, 141, 87, 56, 0, 90, 121, 56, 112, 144, 43, 185, 195, 151, 22, 247,
            115, 172, 162, 33, 171, 26, 131, 2, 185, 102, 48, 150, 144, 175, 43, 152, 234, 22, 117,
            13, 238, 152, 101, 163, 59, 14, 72, 225, 2, 108, 3, 183, 186, 91, 122, 9, 208, 161,
            241, 175, 172, 34, 237, 59, 141, 1, 37, 86, 160, 68, 80, 211, 253, 180, 249, 169, 236,
            27, 146, 26, 7, 19, 235, 89, 172, 61, 151, 144, 5, 195, 191, 106, 4, 216, 231, 31, 253,
            37, 108, 112, 18, 147, 123, 80, 93, 109, 89, 16, 63, 185, 0, 129, 120, 71, 229, 250,
            116, 66, 41, 5, 255, 246, 216, 125, 79,
        ],
        &[
            184, 0, 16, 0, 0, 255, 255, 255, 255, 255, 255, 255, 255, 0, 35, 145, 70, 203, 45, 160,
            77, 164, 153, 92, 235, 132, 202, 176, 92, 140, 60, 183, 175, 8, 254, 18, 166, 78, 69,
            181, 127, 155, 205, 214, 80, 241, 220, 120, 50, 31, 200, 169, 51, 196, 88, 240, 238,
            57, 108, 220, 164, 14, 101, 242, 143, 1, 153, 170, 185, 40, 3, 175, 40, 251, 90, 171,
            121, 125, 177, 161, 1, 178, 110, 4, 52, 182, 14, 106, 147, 48, 115, 135, 170, 154, 214,
            153, 45, 244, 88, 222, 145, 131, 157, 73, 121, 12, 16, 95, 56, 187, 142, 154, 85, 181,
            109, 27, 133, 163, 148, 174, 132, 45, 113, 153, 182, 44, 136, 195, 245, 42, 64, 51,
            220, 168, 1, 177, 155, 140, 135, 98, 2, 10, 179, 112, 173, 101, 95, 137, 241, 118, 77,
            238, 231, 238, 115, 14, 74, 146, 169, 147, 160, 93, 9, 172, 174, 97, 44, 219, 108, 42,
            196, 32, 202, 47, 136, 86, 214, 16, 187, 205, 90, 214, 32, 80, 166, 34, 123, 130, 255,
            140, 239, 108, 169, 169, 145, 154, 149, 177, 109, 122, 160, 72, 44, 174, 227, 11, 60,
            4, 211, 198, 149, 117, 125, 11, 88, 0, 129, 50, 174, 69, 252, 244, 115, 240, 108, 253,
            192, 48, 149, 97, 157, 167, 33, 121, 66, 126, 153, 0, 167, 162, 24, 82, 35, 83, 108,
            60, 60, 22, 98, 67, 177, 161, 245, 103, 113, 150, 96, 208, 35, 209, 168, 71, 69, 74,
            114, 195, 228, 241, 54, 217, 126, 180, 104, 246, 12, 55, 57, 193, 193, 152, 184, 157,
            198, 234, 80, 24, 60, 217, 11, 216, 32, 134, 23, 11, 52, 237, 175, 70, 95, 125, 251,
            249, 74, 127, 41, 138, 94, 231, 170, 177, 207, 234, 68, 139, 45, 19, 80, 39, 2, 85,
            215, 117, 135, 254, 144, 151, 228, 210, 117, 112, 184, 9, 218, 0, 27, 100, 70, 65, 55,
            117, 125, 108, 51, 200, 109, 84, 23, 77, 151, 7, 106, 50, 37, 94, 190, 73, 20, 92, 134,
            145, 148, 172, 120, 101, 165, 192, 121, 160, 41, 249, 71, 3, 212, 231, 96, 66, 207,
            136, 118, 160, 191, 212, 58, 17, 202, 156, 146, 166, 46, 87, 116, 91, 253, 120, 82,
            129, 40, 105, 73, 206, 173, 245, 26, 111, 206, 163, 62, 103, 215, 2, 15, 209, 154, 208,
            23, 29, 125, 100, 77, 75, 26, 127, 157, 118, 31, 65, 218, 154, 54, 159, 90, 166, 120,
            146, 66, 26, 127, 226, 129, 84, 211, 133, 199, 13, 11, 52, 46, 128, 15, 234, 74, 169,
            87, 81, 13, 88, 108, 21, 60, 133, 202, 78, 17, 161, 195, 62, 130, 193, 213, 171, 135,
            166, 229, 94, 18, 121, 119, 174, 162, 196, 134, 11, 11, 240, 245, 23, 243, 196, 199,
            53, 81, 142, 212, 182, 238, 115, 11, 216, 215, 235, 9, 96, 7, 210, 74, 118, 90, 171,
            85, 174, 234, 88, 117, 223, 123, 232, 4, 178, 232, 29, 33, 34, 215, 183, 220, 248, 73,
            15, 146, 95, 139, 252, 172, 183, 95, 179, 158, 103, 194, 205, 224, 214, 17, 154, 145,
            68, 101, 127, 153, 206, 226, 37, 56, 36, 223, 229, 202, 82, 29, 36, 77, 145, 245, 96,
            145, 171, 46, 90, 39, 192, 21, 112, 154, 39, 85, 162, 138, 3, 25, 70, 35, 0, 82, 78,
            123, 153, 2, 213, 153, 28, 86, 56, 221, 54, 10, 33, 129, 7, 254, 230, 17, 25, 30, 139,
            242, 245, 179, 125, 39, 184, 115, 144, 107, 161, 133, 201, 74, 137, 140, 122, 16, 42,
            24, 93, 145, 185, 108, 177, 242, 61, 32, 161, 155, 153, 71, 189, 123, 198, 208, 127,
            141, 195, 15, 58, 80, 171, 49, 85, 130, 108, 33, 166, 83, 177, 177, 202, 170, 192, 170,
            245, 243, 179, 70, 81, 156, 44, 60, 92, 185, 154, 77, 8, 14, 156, 106, 202, 15, 119,
            151, 187, 119, 241, 223, 56, 104, 166, 1, 64, 81, 45, 0, 221, 56, 245, 175, 73, 253,
            138, 156, 47, 24, 245, 31, 126, 201, 248, 18, 25, 73, 50, 57, 0, 186, 91, 113, 29, 164,
            238, 237, 25, 13, 179, 74, 7, 204, 115, 23, 21, 222, 20, 58, 135, 48, 131, 79, 105,
            129, 146, 183, 55, 25, 129, 154, 9, 222, 57, 167, 251, 249, 77, 190, 226, 240, 235,
            145, 81, 192, 228, 184, 89, 231, 144, 106, 48, 176, 84, 172, 178, 197, 113, 87, 80,
            208, 23, 193, 180, 5, 114, 175, 122, 85, 93, 222, 209, 240, 58, 124, 52, 24, 155, 235,
            163, 147, 6, 33, 113, 253, 63, 224, 4, 74, 205, 114, 116, 150, 224, 0, 120, 23, 57, 99,
            195, 110, 184, 176, 169, 64, 148, 198, 160, 77, 39, 109, 100, 4, 11, 66, 76, 33, 154,
            37, 12, 217, 25, 248, 19, 125, 213, 96, 225, 191, 58, 237, 238, 221, 191, 157, 158, 85,
            251, 206, 36, 80, 31, 250, 117, 100, 160, 198, 108, 24, 56, 212, 166, 181, 70, 209,
            202, 150, 131, 73, 124, 195, 82, 97, 69, 93, 130, 109, 182, 229, 53, 13, 44, 168, 223,
            156, 115, 44, 206, 46, 247, 248, 216, 162, 243, 37, 168, 77, 187, 17, 3, 54, 127, 56,
            183, 243, 221, 43, 154, 74, 39, 12, 34, 76, 62, 135, 94, 10, 178, 91, 249, 147, 210,
            130, 52, 176, 182, 109, 148, 9, 66, 148, 21, 146, 12, 93, 39, 179, 149, 121, 166, 246,
            89, 198, 254, 169, 18, 147, 120, 41, 87, 151, 128, 141, 6, 209, 251, 34, 178, 116, 94,
            12, 237, 144, 162, 152, 82, 9, 59, 153, 241, 75, 180, 111, 173, 159, 193, 54, 54, 58,
            163, 201, 10, 92, 221, 160, 249, 192, 19, 13, 65, 79, 65, 185, 65, 57, 11, 189, 38, 5,
            142, 127, 64, 43, 179, 74, 152, 20, 44, 104, 202, 126, 186, 7, 127, 148, 133, 178, 49,
            146, 216, 226, 158, 243, 94, 138, 42, 25, 106, 196, 218, 57, 47, 139, 225, 54, 180, 72,
            207, 6, 227, 193, 99, 67, 80, 194, 7, 0, 119, 142, 249, 246, 68, 200, 81, 242, 58, 190,
            12, 10, 22, 180, 199, 143, 138, 135, 21, 231, 24, 138, 204, 58, 190, 227, 187, 94, 155,
            69, 197, 226, 197, 3, 102, 55, 188, 233, 184, 218, 73, 64, 40, 25, 244, 95, 225, 18,
            142, 223, 77, 42, 250, 240, 13, 167, 172, 96, 154, 31, 111, 101, 211, 135, 3, 159, 122,
            229, 99, 238, 50, 4, 182, 116, 134, 26, 204, 77, 201, 54, 160, 41, 177, 148, 103, 214,
            82, 77, 239, 38, 232, 111, 127, 123, 212, 252, 201, 64, 93, 0, 189, 6, 65, 138, 92,
            132, 171, 155, 160, 80, 205, 63, 81, 129, 169, 206, 110, 12, 252, 105, 123, 89, 125,
            250, 212, 104, 180, 180, 81, 128, 65, 79, 255, 249, 248, 86, 131,
        ],
    ];

    fn decode(stream: &[u8], piece: usize, memlimit: usize) -> (Vec<u8>, LzmaStep) {
        let mut lzma = Lzma::new(memlimit);
        let mut text = Vec::new();
        let mut out = |piece: &[u8]| {
            text.extend_from_slice(piece);
            true
        };
        let mut step = LzmaStep::More;
        for data in stream.chunks(piece) {
            step = lzma.decode(data, false, &mut out);
            if step != LzmaStep::More {
                break;
            }
        }
        if step == LzmaStep::More {
            step = lzma.decode(&[], true, &mut out);
        }
        (text, step)
    }

    #[test]
    fn streams_are_read_as_another_decoder_reads_them() {
        for stream in STREAMS {
            let mut expected = Vec::new();
            lzma_rs::lzma_decompress(&mut &*stream, &mut expected).unwrap();
            for piece in [1, 5, 100, 10_000] {
                assert!(decode(stream, piece, 1 << 20) == (expected.clone(), LzmaStep::End));
            }
            let (part, step) = decode(&stream[..stream.len() / 2], 7, 1 << 20);
            assert_eq!(step, LzmaStep::End);
            assert!(part.len() > 1000 && expected.starts_with(&part), "what came is seen");
        }
        let (part, step) = decode(STREAMS[0], 100, 5000);
        assert_eq!((part.len() / 300, step), (5000 / 300, LzmaStep::Broken));
        assert_eq!(decode(STREAMS[1], 100, 5000).1, LzmaStep::End);
    }

    /// Whatever comes, nothing panics and nothing is made beyond what the dictionary may take.
    #[test]
    fn broken_streams_end() {
        let mut state = 7u32;
        let mut random = || {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            state >> 16
        };
        for round in 0..2_000 {
            let mut stream = STREAMS[round % 3].to_vec();
            for _ in 0..1 + random() % 4 {
                let at = random() as usize % stream.len();
                stream[at] = random() as u8;
            }
            let (_, step) = decode(&stream, 1 + round % 50, 1 << 16);
            assert_ne!(step, LzmaStep::More);
        }
    }

    #[test]
    fn literals_of_every_setting_take_little_room() {
        let mut stream = STREAMS[0].to_vec();
        stream[0] = 4 * 9 + 8;
        let mut lzma = Lzma::new(1 << 20);
        lzma.decode(&stream[..200], false, &mut |_| true);
        let made = lzma.literals.iter().flatten().count();
        assert!(lzma.literals.len() == 4096 && made < 400, "{made}");
    }
}
