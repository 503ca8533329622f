//! Transfer encodings: base64 and quoted-printable, in pieces of any size.

/// Groups of four characters; what is not of the alphabet is skipped.
#[derive(Clone, Debug, Default)]
pub struct Base64 {
    group: [u8; 4],
    len: u8,
    padding: u8,
    /// A padding character was where none can be: nothing that follows means anything.
    is_broken: bool,
}

impl Base64 {
    /// Decodes a piece after the bytes already in `out`. False when the encoding is broken: then
    /// nothing of this piece is given, nor of any later one (Suricata's behaviour).
    pub fn decode(&mut self, text: &[u8], out: &mut Vec<u8>) -> bool {
        if self.is_broken {
            return false;
        }
        let before = out.len();
        for &b in text {
            let value = match b {
                b'A'..=b'Z' => b - b'A',
                b'a'..=b'z' => b - b'a' + 26,
                b'0'..=b'9' => b - b'0' + 52,
                b'+' => 62,
                b'/' => 63,
                b'=' if self.len < 2 => {
                    self.is_broken = true;
                    out.truncate(before);
                    return false;
                }
                b'=' => {
                    self.padding = self.padding.max(4 - self.len);
                    0
                }
                _ => continue,
            };
            self.group[usize::from(self.len & 3)] = value;
            self.len += 1;
            if self.len == 4 {
                self.group_into(out);
            }
        }
        true
    }

    fn group_into(&mut self, out: &mut Vec<u8>) {
        let [a, b, c, d] = self.group;
        let bytes = [a << 2 | b >> 4, b << 4 | c >> 2, c << 6 | d];
        out.extend_from_slice(&bytes[..3 - usize::from(self.padding)]);
        (self.len, self.padding) = (0, 0);
    }
}

/// Quoted-printable (RFC 2045 6.7), hex digits in capitals only.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum QuotedPrintable {
    /// Between escapes.
    #[default]
    Text,
    /// Behind `=`.
    Equals,
    /// Behind `=` and one character.
    Digit(u8),
}

impl QuotedPrintable {
    /// Decodes a piece of a line after the bytes already in `out`; false when an escape was wrong
    /// (it is left out).
    pub fn decode(&mut self, text: &[u8], out: &mut Vec<u8>) -> bool {
        let mut is_fine = true;
        for &b in text {
            *self = match *self {
                QuotedPrintable::Text if b == b'=' => QuotedPrintable::Equals,
                QuotedPrintable::Text => {
                    out.push(b);
                    QuotedPrintable::Text
                }
                QuotedPrintable::Equals => QuotedPrintable::Digit(b),
                QuotedPrintable::Digit(first) => {
                    match (hex(first), hex(b)) {
                        (Some(high), Some(low)) => out.push(high << 4 | low),
                        _ => is_fine = false,
                    }
                    QuotedPrintable::Text
                }
            };
        }
        is_fine
    }

    /// Ends a line: whether its line end belongs to the text, and whether it ended well.
    pub fn end_line(&mut self) -> (bool, bool) {
        match std::mem::take(self) {
            QuotedPrintable::Text => (true, true),
            QuotedPrintable::Equals => (false, true),
            QuotedPrintable::Digit(_) => (true, false),
        }
    }
}

fn hex(b: u8) -> Option<u8> {
    match b {
        b'0'..=b'9' => Some(b - b'0'),
        b'A'..=b'F' => Some(b - b'A' + 10),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base64_as_suricata_decodes_it() {
        // Lines, and the file Suricata 8.0.7 made of them; it raised `mime_invalid_base64` for the
        // broken ones.
        for (lines, bytes, broken) in [
            (&["aGVsbG8="][..], &b"hello"[..], 0),
            (&["aGVs*G8=", "d29y"], b"hel\x1b", 0),
            (&["aG", "Vsb", "G8="], b"hello", 0),
            (&["aGU=aGVs"], b"hehel", 0),
            (&["aA==aGVs"], b"hhel", 0),
            (&["aG Vs bG8="], b"hello", 0),
            (&["a"], b"", 0),
            (&["aGV"], b"", 0),
            (&["aGVsbG8=!!", "abcd"], b"helloi\xb7\x1d", 0),
            (&["===="], b"", 1),
            (&["a===", "aGVs"], b"", 2),
            (&["aGVsaG==aG==", "aG=saGVs"], b"helhhhhel", 0),
            (&["aGVsa===aGVs", "aGVs", "aGVs"], b"", 3),
            (&["aGVs", "=aGVs"], b"hel", 1),
        ] {
            let (mut d, mut out, mut bad) = (Base64::default(), Vec::new(), 0);
            for line in lines {
                bad += u32::from(!d.decode(line.as_bytes(), &mut out));
            }
            assert_eq!((out.as_slice(), bad), (bytes, broken), "{lines:?}");
        }
    }

    #[test]
    fn quoted_printable_as_suricata_decodes_it() {
        // A line, its text with the line end when it has one, and whether it was fine.
        for (line, text, fine) in [
            ("a=41b", &b"aAb\n"[..], true),
            ("a=", b"a", true),
            ("a= ", b"a\n", false),
            ("a=c3=E9b", b"a\xe9b\n", false),
            ("a=zzb", b"ab\n", false),
            ("a=4", b"a\n", false),
            ("a=4zb", b"ab\n", false),
            ("=3D=", b"=", true),
            ("a==41", b"a1\n", false),
        ] {
            for split in 0..=line.len() {
                let (mut d, mut out) = (QuotedPrintable::default(), Vec::new());
                let mut ok = d.decode(&line.as_bytes()[..split], &mut out);
                ok &= d.decode(&line.as_bytes()[split..], &mut out);
                let (has_end, ended) = d.end_line();
                out.extend_from_slice(if has_end { b"\n" } else { b"" });
                assert_eq!((out.as_slice(), ok && ended), (text, fine), "{line} at {split}");
            }
        }
    }
}
