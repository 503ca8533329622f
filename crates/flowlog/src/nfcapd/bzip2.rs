//! Blocks compressed by bzip2, as nfdump's `-j` and `-J 2` do: a decoder that writes no more than its caller allows.
//!
//! A stream is a row of blocks. A block's bytes were put in the order of what follows each of them (Burrows and
//! Wheeler), replaced by how recently each was seen, and those numbers by Huffman codes, of which there are up to six
//! that take turns every fifty symbols. Two checksums, of each block and of all, show whether it came out right.

use super::lzo::Damaged;

/// Symbols until the next code has its turn.
const TURN: usize = 50;

/// The longest code of a symbol, bits.
const CODE_BITS: usize = 20;

/// Bits of the input, the highest of a byte first.
struct Bits<'a> {
    bytes: &'a [u8],
    /// Bits taken.
    at: usize,
}

impl Bits<'_> {
    fn bit(&mut self) -> Result<u32, Damaged> {
        let byte = *self.bytes.get(self.at / 8).ok_or(Damaged)?;
        let bit = (byte >> (7 - self.at % 8)) & 1;
        self.at += 1;
        Ok(u32::from(bit))
    }

    fn take_bits(&mut self, count: usize) -> Result<u32, Damaged> {
        let mut value = 0;
        for _ in 0..count {
            value = value << 1 | self.bit()?;
        }
        Ok(value)
    }
}

/// A code of Huffman: by its length, the first code and where its symbols stand.
struct Code {
    /// Symbols in order of their codes.
    symbols: Vec<u16>,
    /// Of each length, how many there are.
    counts: [u32; CODE_BITS + 1],
}

impl Code {
    fn new(lengths: &[u8]) -> Code {
        let mut counts = [0; CODE_BITS + 1];
        let mut symbols = Vec::with_capacity(lengths.len());
        for length in 1..=CODE_BITS {
            for (symbol, _) in
                lengths.iter().enumerate().filter(|(_, l)| usize::from(**l) == length)
            {
                symbols.push(u16::try_from(symbol).unwrap_or(u16::MAX));
                if let Some(count) = counts.get_mut(length) {
                    *count += 1;
                }
            }
        }
        Code { symbols, counts }
    }

    fn next(&self, bits: &mut Bits<'_>) -> Result<u16, Damaged> {
        let (mut code, mut first, mut index) = (0_u32, 0_u32, 0_u32);
        for count in self.counts.iter().skip(1) {
            code |= bits.bit()?;
            let within = code.wrapping_sub(first);
            if code >= first && within < *count {
                return self.symbols.get((index + within) as usize).copied().ok_or(Damaged);
            }
            index += count;
            first = first.wrapping_add(*count) << 1;
            code <<= 1;
        }
        Err(Damaged)
    }
}

/// bzip2's check of bytes, the highest bit first.
fn check(mut so_far: u32, byte: u8) -> u32 {
    so_far ^= u32::from(byte) << 24;
    for _ in 0..8 {
        so_far = if so_far & 0x8000_0000 == 0 { so_far << 1 } else { so_far << 1 ^ 0x04c1_1db7 };
    }
    so_far
}

/// The same for a byte by a table.
fn table() -> Vec<u32> {
    (0..=u8::MAX).map(|byte| check(0, byte)).collect()
}

/// Unpacks a stream into an empty `out`, which takes `most` bytes.
///
/// # Errors
/// When the stream is damaged, or holds more.
pub(super) fn unpack(packed: &[u8], most: usize, out: &mut Vec<u8>) -> Result<(), Damaged> {
    let mut bits = Bits { bytes: packed, at: 0 };
    let level = match packed {
        [b'B', b'Z', b'h', level @ b'1'..=b'9', ..] => usize::from(level - b'0'),
        _ => return Err(Damaged),
    };
    bits.at = 32;
    let table = table();
    let mut all = 0_u32;
    loop {
        match (bits.take_bits(24)?, bits.take_bits(24)?) {
            (0x0031_4159, 0x0026_5359) => {
                let wanted = bits.take_bits(32)?;
                let found = block(&mut bits, level * 100_000, most, out, &table)?;
                if wanted != found {
                    return Err(Damaged);
                }
                all = all.rotate_left(1) ^ found;
            }
            (0x0017_7245, 0x0038_5090) => {
                return if bits.take_bits(32)? == all { Ok(()) } else { Err(Damaged) };
            }
            _ => return Err(Damaged),
        }
    }
}

/// Symbols that occur in a block.
fn used(bits: &mut Bits<'_>) -> Result<Vec<u8>, Damaged> {
    let groups = bits.take_bits(16)?;
    let mut found = Vec::with_capacity(256);
    for group in 0..16_u32 {
        if groups >> (15 - group) & 1 == 0 {
            continue;
        }
        let members = bits.take_bits(16)?;
        for member in (0..16_u32).filter(|m| members >> (15 - m) & 1 == 1) {
            found.push(u8::try_from(group * 16 + member).map_err(|_| Damaged)?);
        }
    }
    if found.is_empty() { Err(Damaged) } else { Ok(found) }
}

/// Which code has each turn, and the codes.
fn codes(bits: &mut Bits<'_>, symbols: usize) -> Result<(Vec<u8>, Vec<Code>), Damaged> {
    let count = bits.take_bits(3)? as usize;
    let turns = bits.take_bits(15)? as usize;
    if !(2..=6).contains(&count) || turns == 0 {
        return Err(Damaged);
    }
    let mut recent: Vec<u8> = (0..6).take(count).collect();
    let mut selected = Vec::with_capacity(turns);
    for _ in 0..turns {
        let mut at = 0;
        while bits.bit()? == 1 {
            at += 1;
            if at >= count {
                return Err(Damaged);
            }
        }
        let code = recent.remove(at);
        recent.insert(0, code);
        selected.push(code);
    }
    let mut all = Vec::with_capacity(count);
    for _ in 0..count {
        let mut length = bits.take_bits(5)?;
        let mut lengths = Vec::with_capacity(symbols);
        for _ in 0..symbols {
            while bits.bit()? == 1 {
                let is_less = bits.bit()? == 1;
                length = if is_less { length.wrapping_sub(1) } else { length + 1 };
                if !(1..=CODE_BITS as u32).contains(&length) {
                    return Err(Damaged);
                }
            }
            if !(1..=CODE_BITS as u32).contains(&length) {
                return Err(Damaged);
            }
            lengths.push(u8::try_from(length).map_err(|_| Damaged)?);
        }
        all.push(Code::new(&lengths));
    }
    Ok((selected, all))
}

/// One block; its check.
fn block(
    bits: &mut Bits<'_>,
    block_max: usize,
    most: usize,
    out: &mut Vec<u8>,
    table: &[u32],
) -> Result<u32, Damaged> {
    // Blocks "randomised" come from versions before 1.0, which no writer of flows is.
    if bits.bit()? == 1 {
        return Err(Damaged);
    }
    let origin = bits.take_bits(24)?;
    let mut recent = used(bits)?;
    let end = u16::try_from(recent.len() + 1).map_err(|_| Damaged)?;
    let (selected, codes) = codes(bits, recent.len() + 2)?;

    // Below each entry's upper 24 bits, which come later, stands its byte.
    let mut entries: Vec<u32> = Vec::new();
    let mut turns = selected.iter();
    let (mut left, mut code) = (0, codes.first().ok_or(Damaged)?);
    let (mut run, mut weight) = (0_usize, 1_usize);
    loop {
        if left == 0 {
            let selected = *turns.next().ok_or(Damaged)?;
            code = codes.get(usize::from(selected)).ok_or(Damaged)?;
            left = TURN;
        }
        left -= 1;
        let symbol = code.next(bits)?;
        if symbol < 2 {
            // The length of a run of the most recent byte, in digits 1 and 2.
            run = run.checked_add(weight << symbol).filter(|r| *r <= block_max).ok_or(Damaged)?;
            weight = weight.checked_mul(2).filter(|w| *w <= block_max * 4).ok_or(Damaged)?;
            continue;
        }
        if run > 0 {
            let byte = u32::from(*recent.first().ok_or(Damaged)?);
            let len = entries.len() + run;
            if len > block_max {
                return Err(Damaged);
            }
            entries.resize(len, byte);
            (run, weight) = (0, 1);
        }
        if symbol == end {
            break;
        }
        let at = usize::from(symbol - 1);
        recent.get_mut(..=at).ok_or(Damaged)?.rotate_right(1);
        if entries.len() >= block_max {
            return Err(Damaged);
        }
        entries.push(u32::from(*recent.first().ok_or(Damaged)?));
    }
    order(&mut entries)?;
    write(&entries, origin, most, out, table)
}

/// Puts into each entry which one follows it.
fn order(entries: &mut [u32]) -> Result<(), Damaged> {
    let mut starts = [0_u32; 257];
    for entry in &*entries {
        if let Some(count) = starts.get_mut((entry & 0xff) as usize + 1) {
            *count += 1;
        }
    }
    let mut sum = 0;
    for start in &mut starts {
        sum += *start;
        *start = sum;
    }
    for at in 0..entries.len() {
        let byte = (*entries.get(at).ok_or(Damaged)? & 0xff) as usize;
        let place = starts.get_mut(byte).ok_or(Damaged)?;
        let entry = entries.get_mut(*place as usize).ok_or(Damaged)?;
        *entry |= u32::try_from(at).map_err(|_| Damaged)? << 8;
        *place += 1;
    }
    Ok(())
}

/// Writes the bytes in their order: four of a kind are followed by how many more there are.
fn write(
    entries: &[u32],
    origin: u32,
    most: usize,
    out: &mut Vec<u8>,
    table: &[u32],
) -> Result<u32, Damaged> {
    let mut next = *entries.get(origin as usize).ok_or(Damaged)? >> 8;
    let mut found = u32::MAX;
    let (mut last, mut same) = (None, 0);
    for _ in 0..entries.len() {
        let entry = *entries.get(next as usize).ok_or(Damaged)?;
        next = entry >> 8;
        let byte = (entry & 0xff) as u8;
        let (value, times) = match last {
            Some(last) if same == 4 => {
                same = 0;
                (last, usize::from(byte))
            }
            _ => {
                same = if last == Some(byte) { same + 1 } else { 1 };
                last = Some(byte);
                (byte, 1)
            }
        };
        if out.len().saturating_add(times) > most {
            return Err(Damaged);
        }
        for _ in 0..times {
            let row = (found >> 24) as u8 ^ value;
            found = found << 8 ^ table.get(usize::from(row)).copied().unwrap_or(0);
        }
        out.resize(out.len() + times, value);
        if same == 0 {
            last = None;
        }
    }
    Ok(!found)
}
