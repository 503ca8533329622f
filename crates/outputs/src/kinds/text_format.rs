//! Formats of lines that a configuration names (`customformat`), and the escapes of text from the wire, of `http-log` and
//! `tls-log` (as Suricata 8.0.7 writes them, observed).

use crate::timestamp::Stamp;
use gabion_record::Tree;
use gabion_record::eve::Header;

/// How the lines of an output look: the short form, the extended one, or the configuration's own.
#[derive(Clone, Debug, Default)]
pub(super) struct LineFormat {
    stamp: Stamp,
    pub(super) is_extended: bool,
    custom: Option<Vec<FormatPiece>>,
}

impl LineFormat {
    /// Reads the node of an output.
    pub(super) fn from_config(node: &Tree) -> LineFormat {
        let is_custom = node.flag("custom") == Some(true);
        LineFormat {
            stamp: Stamp::default(),
            is_extended: node.flag("extended") == Some(true),
            custom: node.text("customformat").filter(|_| is_custom).map(parse),
        }
    }

    /// Writes the time with which a line of the short or extended form begins.
    pub(super) fn write_time(&mut self, h: &Header<'_>, out: &mut Vec<u8>) {
        self.stamp.fast(h.ts_ns, out);
        out.push(b' ');
    }

    /// Writes a line in the configuration's own format; false if there is none. `write_field` writes the letters that only
    /// its output has, and answers false for others.
    pub(super) fn write_custom(
        &self,
        h: &Header<'_>,
        write_field: &dyn Fn(char, &str, &mut Vec<u8>) -> bool,
        out: &mut Vec<u8>,
    ) -> bool {
        let Some(pieces) = &self.custom else { return false };
        for piece in pieces {
            match piece {
                FormatPiece::Text(text) => out.extend_from_slice(text.as_bytes()),
                FormatPiece::Field(letter, argument) => {
                    let is_known = write_field(*letter, argument, out)
                        || write_common((*letter, argument), h, &self.stamp, out);
                    if !is_known {
                        out.push(b'-');
                    }
                }
            }
        }
        true
    }
}

/// A piece of a format.
#[derive(Clone, Debug, PartialEq, Eq)]
enum FormatPiece {
    /// Text that stands as it is.
    Text(String),
    /// A letter with what stands in braces before it: `%{Host}i`, `%m`.
    Field(char, String),
}

/// Reads a format: `%X` and `%{argument}X` are fields, `%%` is a percent sign.
fn parse(format: &str) -> Vec<FormatPiece> {
    let mut pieces = Vec::new();
    let mut text = String::new();
    let mut rest = format.chars();
    while let Some(c) = rest.next() {
        if c != '%' {
            text.push(c);
            continue;
        }
        let (mut letter, mut argument) = (rest.next(), String::new());
        if letter == Some('{') {
            argument = rest.by_ref().take_while(|c| *c != '}').collect();
            letter = rest.next();
        }
        match letter {
            Some('%') => text.push('%'),
            Some(letter) => {
                if !text.is_empty() {
                    pieces.push(FormatPiece::Text(std::mem::take(&mut text)));
                }
                pieces.push(FormatPiece::Field(letter, argument));
            }
            None => {}
        }
    }
    if !text.is_empty() {
        pieces.push(FormatPiece::Text(text));
    }
    pieces
}

/// Writes a field that formats of both outputs have: the time, its fraction, addresses and ports. False: it is none of
/// these.
fn write_common(
    (letter, argument): (char, &str),
    h: &Header<'_>,
    stamp: &Stamp,
    out: &mut Vec<u8>,
) -> bool {
    let (src, dst) = h.ports.unwrap_or_default();
    match letter {
        't' => {
            let format = if argument.is_empty() { "%D-%H:%M:%S" } else { argument };
            out.extend_from_slice(stamp.in_format(h.ts_ns, format).as_bytes());
        }
        'z' => out.extend_from_slice(format!("{:06}", h.ts_ns % 1_000_000_000 / 1000).as_bytes()),
        'a' => h.src.write(h.ip_version, out),
        'A' => h.dst.write(h.ip_version, out),
        'p' => out.extend_from_slice(src.to_string().as_bytes()),
        'P' => out.extend_from_slice(dst.to_string().as_bytes()),
        _ => return false,
    }
    true
}

/// `SOURCE:PORT -> DESTINATION:PORT`
pub(super) fn write_ends(h: &Header<'_>, out: &mut Vec<u8>) {
    let (src, dst) = h.ports.unwrap_or_default();
    h.src.write(h.ip_version, out);
    out.extend_from_slice(format!(":{src} -> ").as_bytes());
    h.dst.write(h.ip_version, out);
    out.extend_from_slice(format!(":{dst}").as_bytes());
}

/// Writes text from the wire: a backslash twice, quotes and what is not printable ASCII as `\xHH`.
pub(super) fn write_escaped(text: &[u8], out: &mut Vec<u8>) {
    for b in text {
        match b {
            b'\\' => out.extend_from_slice(b"\\\\"),
            b'"' => out.extend_from_slice(b"\\x22"),
            b' '..=b'~' => out.push(*b),
            _ => out.extend_from_slice(format!("\\x{b:02X}").as_bytes()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats_are_fields_and_text() {
        let field = |letter, argument: &str| FormatPiece::Field(letter, argument.to_owned());
        let text = |text: &str| FormatPiece::Text(text.to_owned());
        assert_eq!(
            parse("%{%D-%H}t.%z 100%% %{X-Y}i%m"),
            [
                field('t', "%D-%H"),
                text("."),
                field('z', ""),
                text(" 100% "),
                field('i', "X-Y"),
                field('m', "")
            ]
        );
        assert_eq!(parse("a%"), [text("a")]);
        assert_eq!(parse("%{open"), []);
    }

    /// Suricata 8.0.7 writes a target of these bytes so.
    #[test]
    fn text_is_escaped_as_in_suricata() {
        let mut out = Vec::new();
        write_escaped(b"/a\\b\"c\x80\x01d'", &mut out);
        assert_eq!(out, b"/a\\\\b\\x22c\\x80\\x01d'");
    }
}
