//! Best-fit mapping of Unicode characters to one byte, as Windows servers do it.
//!
//! Source: Microsoft's best-fit table for code page 1252 ("bestfit1252", published by the Unicode
//! consortium). Characters above U+00FF only: below, a code point is its own byte. The table is a
//! list of runs of consecutive code points with one output byte each.

/// What a character without a counterpart becomes.
pub(crate) const REPLACEMENT: u8 = b'?';

/// The byte for a code point, or `replacement`.
pub(crate) fn best_fit(code_point: u32, replacement: u8) -> u8 {
    let Ok(code_point) = u16::try_from(code_point) else { return replacement };
    let at = RUNS.partition_point(|(first, _)| *first <= code_point);
    let Some((first, bytes)) = at.checked_sub(1).and_then(|i| RUNS.get(i)) else {
        return replacement;
    };
    bytes.get(usize::from(code_point - first)).copied().unwrap_or(replacement)
}

#[rustfmt::skip]
const RUNS: &[(u16, &[u8])] = &[
    (0x0100, b"AaAaAaCcCcCcCcDd"),
    (0x0111, b"dEeEeEeEeEeGgGgGgGgHhHhIiIiIiIiIi"),
    (0x0134, b"JjKk"),
    (0x0139, b"LlLlLl"),
    (0x0141, b"LlNnNnNn"),
    (0x014c, b"OoOoOo"),
    (0x0154, b"RrRrRrSsSsSs"),
    (0x0162, b"TtTtTtUuUuUuUuUuUuWwYy"),
    (0x0179, b"Z"),
    (0x017b, b"Zz"),
    (0x0180, b"b"),
    (0x0197, b"I"),
    (0x019a, b"l"),
    (0x019f, b"OOo"),
    (0x01ab, b"t"),
    (0x01ae, b"TUu"),
    (0x01b6, b"z"),
    (0x01c0, b"|"),
    (0x01c3, b"!"),
    (0x01cd, b"AaIiOoUuUuUuUuUu"),
    (0x01de, b"Aa"),
    (0x01e4, b"GgGgKkOoOo"),
    (0x01f0, b"j"),
    (0x0261, b"g"),
    (0x02b9, b"'\""),
    (0x02bc, b"'"),
    (0x02c4, b"^"),
    (0x02c8, b"'"),
    (0x02cb, b"`"),
    (0x02cd, b"_"),
    (0x0300, b"`"),
    (0x0302, b"^~"),
    (0x030e, b"\""),
    (0x0331, b"__"),
    (0x037e, b";"),
    (0x0393, b"G"),
    (0x0398, b"T"),
    (0x03a3, b"S"),
    (0x03a6, b"F"),
    (0x03a9, b"O"),
    (0x03b1, b"a"),
    (0x03b4, b"de"),
    (0x03c0, b"p"),
    (0x03c3, b"st"),
    (0x03c6, b"f"),
    (0x04bb, b"h"),
    (0x0589, b":"),
    (0x066a, b"%"),
    (0x2000, b"       "),
    (0x2010, b"--"),
    (0x2017, b"="),
    (0x2032, b"'"),
    (0x2035, b"`"),
    (0x2044, b"/"),
    (0x2074, b"45678"),
    (0x207f, b"n0123456789"),
    (0x20a7, b"P"),
    (0x2102, b"C"),
    (0x2107, b"E"),
    (0x210a, b"gHHHh"),
    (0x2110, b"IILl"),
    (0x2115, b"N"),
    (0x2118, b"PPQRRR"),
    (0x2124, b"Z"),
    (0x2128, b"Z"),
    (0x212a, b"K"),
    (0x212c, b"BCeeEF"),
    (0x2133, b"Mo"),
    (0x2212, b"-"),
    (0x2215, b"/\\*"),
    (0x221a, b"v"),
    (0x221e, b"8"),
    (0x2223, b"|"),
    (0x2229, b"n"),
    (0x2236, b":"),
    (0x223c, b"~"),
    (0x2261, b"="),
    (0x2264, b"=="),
    (0x2303, b"^"),
    (0x2320, b"()"),
    (0x2329, b"<>"),
    (0x2500, b"-"),
    (0x250c, b"+"),
    (0x2510, b"+"),
    (0x2514, b"+"),
    (0x2518, b"+"),
    (0x251c, b"+"),
    (0x252c, b"-"),
    (0x2534, b"-"),
    (0x253c, b"+"),
    (0x2550, b"-"),
    (0x2552, b"++++++++++++"),
    (0x2564, b"------+++"),
    (0x2584, b"_"),
    (0x2758, b"|"),
    (0x3000, b" "),
    (0x3008, b"<>"),
    (0x301a, b"[]"),
    (0xff01, b"!\"#$%&'()*+,-./0123456789:;<=>"),
    (0xff20, b"@ABCDEFGHIJKLMNOPQRSTUVWXYZ[\\]^_`abcdefghijklmnopqrstuvwxyz{|}~"),
];

#[cfg(test)]
mod tests {
    use super::*;

    /// Values of bestfit1252: letters lose their accents, full-width forms become ASCII.
    #[test]
    fn characters_map_to_their_best_fit() {
        for (c, byte) in [('Ā', b'A'), ('ł', b'l'), ('／', b'/'), ('｝', b'}'), ('中', b'?')] {
            assert_eq!(best_fit(c as u32, REPLACEMENT), byte, "{c}");
        }
        assert!(RUNS.windows(2).all(|w| w[0].0 as usize + w[0].1.len() <= w[1].0 as usize));
    }
}
