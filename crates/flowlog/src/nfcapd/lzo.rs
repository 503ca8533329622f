//! Blocks compressed by LZO1X, as nfdump's `-z` and `-J 1` do: a decoder that writes no more than its caller allows,
//! and reads and copies nothing outside of its input and its output.
//!
//! A stream is a row of instructions. Each is a copy of what was written before, whose distance and length are in
//! it, and says how many bytes (up to three) follow as they are; longer runs of such bytes have instructions of their
//! own. What a byte below 16 means depends on how many bytes stood as they are before it.

/// What is wrong with a compressed block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Damaged;

/// The bytes that are left to read.
struct Input<'a>(&'a [u8]);

impl Input<'_> {
    fn byte(&mut self) -> Result<u8, Damaged> {
        let (first, rest) = self.0.split_first().ok_or(Damaged)?;
        self.0 = rest;
        Ok(*first)
    }

    fn short(&mut self) -> Result<usize, Damaged> {
        Ok(usize::from(u16::from_le_bytes([self.byte()?, self.byte()?])))
    }

    /// A length whose bits in the instruction were all zero: each zero that follows is 255 more.
    fn long(&mut self, base: usize) -> Result<usize, Damaged> {
        let mut length = base;
        loop {
            match self.byte()? {
                0 => length = length.checked_add(255).ok_or(Damaged)?,
                last => return length.checked_add(usize::from(last)).ok_or(Damaged),
            }
        }
    }

    /// Bytes that stand as they are.
    fn literals(&mut self, count: usize, out: &mut Output<'_>) -> Result<(), Damaged> {
        let (now, rest) = self.0.split_at_checked(count).ok_or(Damaged)?;
        self.0 = rest;
        out.room(count)?;
        out.bytes.extend_from_slice(now);
        Ok(())
    }
}

struct Output<'a> {
    bytes: &'a mut Vec<u8>,
    most: usize,
}

impl Output<'_> {
    fn room(&self, count: usize) -> Result<(), Damaged> {
        match self.bytes.len().checked_add(count) {
            Some(len) if len <= self.most => Ok(()),
            _ => Err(Damaged),
        }
    }

    /// Writes again what stands so far back; the two may overlap.
    fn copy(&mut self, distance: usize, length: usize) -> Result<(), Damaged> {
        self.room(length)?;
        let from = self.bytes.len().checked_sub(distance).ok_or(Damaged)?;
        if distance >= length {
            self.bytes.extend_from_within(from..from + length);
            return Ok(());
        }
        for at in from..from + length {
            let byte = *self.bytes.get(at).ok_or(Damaged)?;
            self.bytes.push(byte);
        }
        Ok(())
    }
}

/// Unpacks a block into an empty `out`, which takes `most` bytes.
///
/// # Errors
/// When the stream is damaged, or holds more.
pub(super) fn unpack(packed: &[u8], most: usize, out: &mut Vec<u8>) -> Result<(), Damaged> {
    let mut input = Input(packed);
    let mut out = Output { bytes: out, most };
    // The number of literal bytes before the next instruction: 4 stands for a run.
    let mut before = 0;
    if let Some(first) = packed.first().filter(|b| **b > 17) {
        let count = usize::from(*first) - 17;
        input.byte()?;
        input.literals(count, &mut out)?;
        before = count.min(4);
    }
    loop {
        let code = usize::from(input.byte()?);
        let follow = match code {
            0..16 => match before {
                0 => {
                    let length = if code == 0 { input.long(15 + 3)? } else { code + 3 };
                    input.literals(length, &mut out)?;
                    before = 4;
                    continue;
                }
                1..4 => {
                    let distance = (usize::from(input.byte()?) << 2) + (code >> 2) + 1;
                    out.copy(distance, 2)?;
                    code & 3
                }
                _ => {
                    let distance = (usize::from(input.byte()?) << 2) + (code >> 2) + 2049;
                    out.copy(distance, 3)?;
                    code & 3
                }
            },
            16..32 => {
                let length = if code & 7 == 0 { input.long(7 + 2)? } else { (code & 7) + 2 };
                let low = input.short()?;
                let distance = ((code & 8) << 11) + (low >> 2);
                if distance == 0 {
                    return if input.0.is_empty() { Ok(()) } else { Err(Damaged) };
                }
                out.copy(distance + 0x4000, length)?;
                low & 3
            }
            32..64 => {
                let length = if code & 31 == 0 { input.long(31 + 2)? } else { (code & 31) + 2 };
                let low = input.short()?;
                out.copy((low >> 2) + 1, length)?;
                low & 3
            }
            _ => {
                let length = (code >> 5) + 1;
                let distance = (usize::from(input.byte()?) << 3) + ((code >> 2) & 7) + 1;
                out.copy(distance, length)?;
                code & 3
            }
        };
        input.literals(follow, &mut out)?;
        before = follow;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn unpacked(packed: &[u8], most: usize) -> Result<Vec<u8>, Damaged> {
        let mut out = Vec::new();
        unpack(packed, most, &mut out).map(|()| out)
    }

    /// Streams made by hand of each instruction.
    #[test]
    fn each_instruction_is_followed() {
        let end = [17, 0, 0];
        let with_end = |body: &[u8]| [body, &end].concat();
        // A run at the beginning, then a copy of three that overlaps itself.
        let short = with_end(&[17 + 4, b'a', b'b', b'c', b'd', 0x40 | (3 << 2), 0]);
        assert_eq!(unpacked(&short, 100).unwrap(), b"abcdabc");
        // One byte, then a copy of 40 from one back, with two bytes after it.
        let long = with_end(&[17 + 1, b'x', 32, 40 - 33, 2, 0, b'y', b'z']);
        assert_eq!(unpacked(&long, 100).unwrap(), [&[b'x'; 41][..], b"yz"].concat());
        // A run by its own instruction, of 18 and 255 and 1 bytes.
        let run: Vec<u8> = (0..=u8::MAX).chain(0..18).collect();
        let mut packed = vec![0, 0, 1];
        packed.extend_from_slice(&run);
        assert_eq!(unpacked(&with_end(&packed), 1000).unwrap(), run);
        // Behind bytes that stand as they are, a small code copies two.
        let two = with_end(&[17 + 2, b'p', b'q', 1 << 2, 0]);
        assert_eq!(unpacked(&two, 100).unwrap(), b"pqpq");
    }

    #[test]
    fn what_is_damaged_or_too_much_is_refused() {
        let good = [17 + 4, b'a', b'b', b'c', b'd', 0x40 | (3 << 2), 0, 17, 0, 0];
        assert_eq!(unpacked(&good, 7).unwrap(), b"abcdabc");
        assert_eq!(unpacked(&good, 6), Err(Damaged));
        for cut in 0..good.len() {
            assert_eq!(unpacked(&good[..cut], 100), Err(Damaged), "{cut}");
        }
        assert_eq!(unpacked(&[&good[..], &[0]].concat(), 100), Err(Damaged));
        // A copy of what was never written.
        assert_eq!(unpacked(&[17 + 1, b'a', 32 | 1, 255, 255, 17, 0, 0], 100), Err(Damaged));
    }
}
