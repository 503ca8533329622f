//! Header values: parameters, addresses.
//!
//! Read as Suricata 8.0.7 reads them (measured), not as the standards would have it: names of
//! parameters are matched in lower case only, nothing is unescaped, comments are text.

use super::super::limits::{PARAMETERS_MAX, reached};

/// The parameter `name` of a header value (`attachment; filename="a"`): the last one of that name,
/// or the pieces `name*0`, `name*1`… (RFC 2231) joined.
pub fn parameter(value: &[u8], name: &[u8]) -> Option<Vec<u8>> {
    let mut whole: Option<&[u8]> = None;
    let mut pieces: Vec<(usize, &[u8])> = Vec::new();
    for (key, text) in parameters(value) {
        let Some(rest) = key.strip_prefix(name) else { continue };
        if rest.is_empty() {
            whole = Some(text);
        } else if let Some(n) = rest.strip_prefix(b"*").and_then(piece_number) {
            match pieces.iter_mut().find(|(at, _)| *at == n) {
                Some(slot) => slot.1 = text,
                None => pieces.push((n, text)),
            }
        }
    }
    if let Some(text) = whole {
        return Some(text.to_vec());
    }
    pieces.sort_unstable_by_key(|(at, _)| *at);
    let in_order = pieces.iter().enumerate().take_while(|(i, (at, _))| i == at);
    let text: Vec<u8> = in_order.flat_map(|(_, (_, text))| text.iter().copied()).collect();
    (!text.is_empty()).then_some(text)
}

fn piece_number(text: &[u8]) -> Option<usize> {
    if text.first() == Some(&b'0') && text.len() > 1 {
        return None;
    }
    std::str::from_utf8(text).ok()?.parse().ok().filter(|n| *n < PARAMETERS_MAX)
}

/// What follows the first semicolon, in pairs.
fn parameters(value: &[u8]) -> impl Iterator<Item = (&[u8], &[u8])> {
    let mut rest = memchr::memchr(b';', value).map(|at| &value[at + 1..]);
    let mut count = 0;
    let next = move || {
        let text = rest.filter(|_| reached::PARAMETERS_MAX.has_room(count))?;
        count += 1;
        let at = text.iter().position(|b| !is_blank(*b)).unwrap_or(text.len());
        let text = &text[at..];
        let end = end_of_parameter(text);
        rest = text.get(end + 1..);
        let part = text.get(..end).unwrap_or(text);
        let (key, value) = match memchr::memchr(b'=', part) {
            Some(at) => (&part[..at], &part[at + 1..]),
            None => (part, &part[part.len()..]),
        };
        Some((key, unquoted(value)))
    };
    std::iter::from_fn(next)
}

fn is_blank(b: u8) -> bool {
    matches!(b, b' ' | b'\t')
}

/// Position of the semicolon that ends a parameter: one outside of a value in quotes.
fn end_of_parameter(text: &[u8]) -> usize {
    let mut from = 0;
    let equals = memchr::memchr2(b'=', b';', text);
    if let Some(at) = equals.filter(|at| text[*at] == b'=')
        && let Some(close) = closing_quote(&text[at + 1..])
    {
        from = at + 1 + close;
    }
    memchr::memchr(b';', &text[from..]).map_or(text.len(), |at| from + at)
}

/// Position of the quote that closes the one a text begins with.
fn closing_quote(text: &[u8]) -> Option<usize> {
    if text.first() != Some(&b'"') {
        return None;
    }
    let mut is_escaped = false;
    text.iter().enumerate().skip(1).find_map(|(i, b)| {
        let closes = *b == b'"' && !is_escaped;
        is_escaped = *b == b'\\' && !is_escaped;
        closes.then_some(i)
    })
}

fn unquoted(value: &[u8]) -> &[u8] {
    match closing_quote(value) {
        Some(close) => &value[1..close],
        None => {
            let end = value.iter().rposition(|b| !is_blank(*b)).map_or(0, |at| at + 1);
            &value[..end]
        }
    }
}

/// What precedes the first semicolon.
pub fn main_value(value: &[u8]) -> &[u8] {
    memchr::memchr(b';', value).map_or(value, |at| &value[..at])
}

/// The items of a list of addresses: apart at commas outside of quotes. An item is never empty, so
/// that a second comma in a row begins the next one.
pub fn addresses(value: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut rest = value;
    std::iter::from_fn(move || {
        let at = rest.iter().position(|b| !is_blank(*b))?;
        let text = &rest[at..];
        let mut in_quotes = text[0] == b'"';
        let end = text.iter().enumerate().skip(1).find_map(|(i, b)| {
            in_quotes ^= *b == b'"';
            (*b == b',' && !in_quotes).then_some(i)
        });
        rest = end.map_or(&[][..], |end| &text[end + 1..]);
        Some(&text[..end.unwrap_or(text.len())])
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_as_suricata_reads_them() {
        // File names Suricata 8.0.7 logged for these values of Content-Disposition.
        for (value, name) in [
            ("attachment; filename=a.b", "a.b"),
            ("attachment; filename=\"a b;c.d\"", "a b;c.d"),
            ("attachment;filename=\"a.b\";size=3", "a.b"),
            ("attachment; FILENAME=\"a.b\"", ""),
            ("attachment; filename = \"a.b\" ; x=y", ""),
            ("attachment; filename= a.b ; x=y", " a.b"),
            ("attachment; filename='a.b'", "'a.b'"),
            ("attachment; filename=\"a\\\"b.c\"", "a\\\"b.c"),
            ("attachment; filename=\"a.b", "\"a.b"),
            ("attachment; filename=\"\"", ""),
            ("attachment; filename=", ""),
            ("attachment; filename*=utf-8''a%20b.c", ""),
            ("attachment; filename*0=\"abc\"; filename*1=\"def.txt\"", "abcdef.txt"),
            ("attachment; filename*1=\"def.txt\"; filename*0=\"abc\"", "abcdef.txt"),
            ("attachment; filename*0=\"abc\"; filename*2=\"def.txt\"", "abc"),
            ("attachment; filename*0*=utf-8''abc%20; filename*1*=def.txt", ""),
            ("attachment; filename*=utf-8''x.y; filename=a.b", "a.b"),
            ("attachment; filename=a.b; filename=c.d", "c.d"),
            ("attachment; xfilename=a.b", ""),
            ("attachment; filenamex=a.b", ""),
            ("filename=a.b", ""),
            ("attachment; x=\"filename=q.r;filename=s.t\"; filename=a.b", "a.b"),
            ("attachment filename=a.b", ""),
            ("attachment; filename=\"a.b\"junk; y=z", "a.b"),
            ("attachment; filename=a,b.c", "a,b.c"),
        ] {
            let got = parameter(value.as_bytes(), b"filename").unwrap_or_default();
            assert_eq!(String::from_utf8_lossy(&got), name, "{value}");
        }
    }

    #[test]
    fn addresses_as_suricata_splits_them() {
        // `email.to` of Suricata 8.0.7.
        for (value, list) in [
            ("a,b", &["a", "b"][..]),
            ("a ,b , c", &["a ", "b ", "c"]),
            ("a,,b", &["a", ",b"]),
            ("a,b,", &["a", "b"]),
            (",a", &[",a"]),
            ("a,b,,", &["a", "b", ","]),
            ("\"a,b\",c", &["\"a,b\"", "c"]),
            ("\"a,b", &["\"a,b"]),
            ("(a,b) <c>", &["(a", "b) <c>"]),
            ("\"a\\\",b\",c", &["\"a\\\"", "b\",c"]),
            (",", &[","]),
            ("x\"a,b\",c", &["x\"a,b\"", "c"]),
            ("a , , b", &["a ", ", b"]),
            ("a,,,b,,", &["a", ",", "b", ","]),
            ("", &[]),
        ] {
            let got: Vec<_> = addresses(value.as_bytes()).map(String::from_utf8_lossy).collect();
            assert_eq!(got, list, "{value}");
        }
    }
}
