//! The Huffman code of HPACK (RFC 7541 appendix B).
//!
//! The code is canonical: within a length, codes count up in the order of the symbols. So the lengths
//! say all of it, and a decoder needs the first code and the number of codes of each length.

/// Symbols: all bytes, and the one for the end of a string.
const SYMBOLS: usize = 257;

/// Bits of the longest code.
const CODE_BITS: usize = 30;

/// Bits of each symbol's code.
const LENGTHS: [u8; SYMBOLS] = [
    13, 23, 28, 28, 28, 28, 28, 28, 28, 24, 30, 28, 28, 30, 28, 28, 28, 28, 28, 28, 28, 28, 30, 28,
    28, 28, 28, 28, 28, 28, 28, 28, 6, 10, 10, 12, 13, 6, 8, 11, 10, 10, 8, 11, 8, 6, 6, 6, 5, 5,
    5, 6, 6, 6, 6, 6, 6, 6, 7, 8, 15, 6, 12, 10, 13, 6, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7,
    7, 7, 7, 7, 7, 7, 7, 7, 8, 7, 8, 13, 19, 13, 14, 6, 15, 5, 6, 5, 6, 5, 6, 6, 6, 5, 7, 7, 6, 6,
    6, 5, 6, 7, 6, 5, 5, 6, 7, 7, 7, 7, 7, 15, 11, 14, 13, 28, 20, 22, 20, 20, 22, 22, 22, 23, 22,
    23, 23, 23, 23, 23, 24, 23, 24, 24, 22, 23, 24, 23, 23, 23, 23, 21, 22, 23, 22, 23, 23, 24, 22,
    21, 20, 22, 22, 23, 23, 21, 23, 22, 22, 24, 21, 22, 23, 23, 21, 21, 22, 21, 23, 22, 23, 23, 20,
    22, 22, 22, 23, 22, 22, 23, 26, 26, 20, 19, 22, 23, 22, 25, 26, 26, 26, 27, 27, 26, 24, 25, 19,
    21, 26, 27, 27, 26, 27, 24, 21, 21, 26, 26, 28, 27, 27, 27, 20, 24, 20, 21, 22, 21, 21, 23, 22,
    22, 25, 25, 24, 24, 26, 23, 26, 27, 26, 26, 27, 27, 27, 27, 27, 28, 27, 27, 27, 27, 27, 26, 30,
];

/// What a decoder needs: by length, the first code, the number of codes, and where their symbols are.
struct Table {
    first: [u32; CODE_BITS + 1],
    count: [u32; CODE_BITS + 1],
    offset: [u32; CODE_BITS + 1],
    symbols: [u16; SYMBOLS],
}

static TABLE: Table = canonical_table();

const fn canonical_table() -> Table {
    let mut table = Table {
        first: [0; CODE_BITS + 1],
        count: [0; CODE_BITS + 1],
        offset: [0; CODE_BITS + 1],
        symbols: [0; SYMBOLS],
    };
    let (mut code, mut at, mut bits) = (0, 0, 1);
    while bits <= CODE_BITS {
        code <<= 1;
        table.first[bits] = code;
        table.offset[bits] = at;
        let mut symbol = 0;
        while symbol < SYMBOLS {
            if LENGTHS[symbol] as usize == bits {
                table.symbols[at as usize] = symbol as u16;
                at += 1;
                code += 1;
            }
            symbol += 1;
        }
        table.count[bits] = at - table.offset[bits];
        bits += 1;
    }
    table
}

/// Appends what these bytes are the code of. What is left at the end is padding; what comes behind the symbol
/// for the end is ignored, as Suricata ignores it (8.0.7 raises no event for either).
pub(super) fn decode_huffman(bytes: &[u8], out: &mut Vec<u8>) {
    let (mut code, mut bits) = (0_u32, 0_usize);
    for byte in bytes {
        for shift in (0..8).rev() {
            code = code << 1 | u32::from(byte >> shift & 1);
            bits += 1;
            let (Some(first), Some(count), Some(offset)) =
                (TABLE.first.get(bits), TABLE.count.get(bits), TABLE.offset.get(bits))
            else {
                return;
            };
            let Some(place) = code.checked_sub(*first).filter(|place| place < count) else {
                continue;
            };
            let symbol = TABLE.symbols.get((offset + place) as usize).copied().unwrap_or_default();
            match u8::try_from(symbol) {
                Ok(byte) => out.push(byte),
                Err(_) => return,
            }
            (code, bits) = (0, 0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decoded(bytes: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        decode_huffman(bytes, &mut out);
        out
    }

    /// The examples of RFC 7541 C.4 and C.6.
    #[test]
    fn strings_are_decoded() {
        let examples: [(&[u8], &str); 5] = [
            (b"\xf1\xe3\xc2\xe5\xf2\x3a\x6b\xa0\xab\x90\xf4\xff", "www.example.com"),
            (b"\xa8\xeb\x10\x64\x9c\xbf", "no-cache"),
            (b"\x25\xa8\x49\xe9\x5b\xa9\x7d\x7f", "custom-key"),
            (b"\x25\xa8\x49\xe9\x5b\xb8\xe8\xb4\xbf", "custom-value"),
            (b"\x64\x02", "302"),
        ];
        for (bytes, text) in examples {
            assert_eq!(decoded(bytes), text.as_bytes());
        }
    }

    /// A complete code: each sequence of bits means something, and only one thing. Codes of appendix B at
    /// the ends of some lengths.
    #[test]
    fn the_code_is_complete() {
        let sum: u64 = LENGTHS.iter().map(|n| 1_u64 << (CODE_BITS - usize::from(*n))).sum();
        assert_eq!(sum, 1 << CODE_BITS);
        assert_eq!(TABLE.symbols[SYMBOLS - 1], 256);
        for (symbol, code, bits) in
            [(b'0', 0, 5), (b'A', 0x21, 6), (b'Z', 0xfd, 8), (0, 0x1ff8, 13), (255, 0x3ff_ffee, 26)]
        {
            assert_eq!(usize::from(LENGTHS[usize::from(symbol)]), bits);
            let place = code - TABLE.first[bits];
            assert_eq!(TABLE.symbols[(TABLE.offset[bits] + place) as usize], u16::from(symbol));
        }
    }

    /// Padding of more than seven bits is the beginning of the symbol for the end.
    #[test]
    fn the_end_ends_a_string() {
        assert_eq!(decoded(b"\xff\xff"), b"");
        assert_eq!(decoded(b"\x07\xff\xff\xff\xff"), b"0");
    }
}
