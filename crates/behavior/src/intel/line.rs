//! Lines of lists: CSV with any of four separators, plain, and in the style of a hosts file.
//!
//! The first column that is an indicator is taken; a threat level, where a column names one, is its
//! level. What else a line says is read when somebody asks for it.

use super::indicator::{Indicator, bare};
use crate::limits::LIST_COLUMNS_MAX;
use gabion_record::Ip;
use gabion_record::evidence::ThreatLevel;

/// Names of columns that say what an entry is, in parts and lower case.
const DESCRIPTIONS: [&str; 7] =
    ["desc", "collect", "malware", "tags_str", "source", "threat", "family"];

/// What a line says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Line<'a> {
    /// Nothing, a comment or the names of columns
    None,
    /// An indicator, and its level if the line has one
    Entry(Indicator<'a>, Option<ThreatLevel>),
    /// Something that no list of indicators has
    Bad,
}

/// The separator of a line: the first one in it, so that a comma in front outweighs a `#` in words
/// behind.
fn separator(line: &[u8]) -> Option<u8> {
    line.iter().copied().find(|b| matches!(b, b'#' | b',' | b';' | b'\t'))
}

/// Cuts a line at separators outside of quotes.
pub(crate) fn columns(line: &[u8]) -> impl Iterator<Item = &[u8]> {
    let separator = separator(line);
    let mut rest = Some(line);
    std::iter::from_fn(move || {
        let text = rest?;
        let mut is_quoted = false;
        let end = text.iter().position(|b| {
            is_quoted ^= *b == b'"';
            !is_quoted && Some(*b) == separator
        });
        match end {
            Some(at) => {
                rest = text.get(at + 1..);
                text.get(..at)
            }
            None => rest.take(),
        }
    })
    .take(LIST_COLUMNS_MAX)
}

fn is_comment(line: &[u8]) -> bool {
    line.is_empty() || matches!(line.first(), Some(b'#' | b';' | b'!')) || line.starts_with(b"//")
}

/// `0.0.0.0 name`, as files of hosts block names.
fn blocked(line: &[u8]) -> Option<Indicator<'_>> {
    let end = line.iter().position(|b| matches!(b, b' ' | b'\t'))?;
    let ip = Ip::parse(line.get(..end)?)?;
    if !ip.is_unspecified() && !ip.is_loopback() {
        return None;
    }
    let rest = line.get(end..)?.trim_ascii();
    let to = rest.iter().position(|b| b.is_ascii_whitespace() || *b == b'#').unwrap_or(rest.len());
    match Indicator::parse(rest.get(..to)?)? {
        name @ Indicator::Domain(_) => Some(name),
        _ => None,
    }
}

/// Reads a line.
pub(crate) fn parse_line(line: &[u8]) -> Line<'_> {
    let line = line.trim_ascii();
    if is_comment(line) {
        return Line::None;
    }
    if let Some(name) = blocked(line) {
        return Line::Entry(name, None);
    }
    let mut found = None;
    let mut level = None;
    let mut count = 0;
    for column in columns(line) {
        count += 1;
        if found.is_none() {
            found = Indicator::parse(column);
        } else {
            level = ThreatLevel::from_name(bare(column));
        }
        if level.is_some() {
            break;
        }
    }
    match found {
        Some(found) => Line::Entry(found, level),
        // A plain list with words after a blank.
        None => {
            let word = line.split(u8::is_ascii_whitespace).next().unwrap_or_default();
            match Indicator::parse(word) {
                Some(_) if is_local_name(line) => Line::None,
                Some(found) => Line::Entry(found, None),
                None if is_header(line, count) => Line::None,
                None => Line::Bad,
            }
        }
    }
}

/// The names of columns: several short words without digits in front.
fn is_header(line: &[u8], columns: usize) -> bool {
    let text = line.to_ascii_lowercase();
    let has = |word: &str| super::indicator::find(&text, word.as_bytes()).is_some();
    columns > 1
        && ["ioc", "ip", "domain", "url", "host", "hash", "md5", "sha", "indicator", "asn"]
            .iter()
            .any(|w| has(w))
        && !text.first().is_some_and(u8::is_ascii_digit)
}

/// Lines of a hosts file that name the machine itself or all of a link.
fn is_local_name(line: &[u8]) -> bool {
    let end = line.iter().position(u8::is_ascii_whitespace);
    let ip = end.and_then(|at| line.get(..at)).and_then(Ip::parse);
    ip.is_some_and(|ip| ip.is_loopback() || ip.is_unspecified() || ip.is_multicast())
}

/// What a line says in addition to its indicator: a description, and tags.
pub(crate) fn details(line: &[u8], header: Option<&[u8]>) -> (String, String) {
    let text = |b: &[u8]| crate::text::text(bare(b));
    let all: Vec<&[u8]> = columns(line.trim_ascii()).collect();
    let of = |at: usize| all.get(at).map(|c| text(c)).unwrap_or_default();
    if all.len() < 2 {
        return (String::new(), String::new());
    }
    let level = all.iter().position(|c| ThreatLevel::from_name(bare(c)).is_some());
    if let Some(header) = header {
        let header = header.to_ascii_lowercase();
        let at = columns(header.strip_prefix(b"#").unwrap_or(&header)).position(|name| {
            let name = String::from_utf8_lossy(name);
            DESCRIPTIONS.iter().any(|d| name.contains(d))
        });
        if let Some(at) = at.filter(|at| *at < all.len()) {
            let tags = if level.is_some_and(|l| l + 1 == at) { of(at + 1) } else { String::new() };
            return (of(at), tags);
        }
    }
    // `indicator, level, description[, tag]`
    match level {
        Some(at) => (of(at + 1), of(at + 2)),
        None => (of(all.len() - 1), String::new()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ip(text: &str) -> Indicator<'_> {
        Indicator::Ip(Ip::parse(text.as_bytes()).unwrap())
    }

    /// Lines of the lists that Slips ships and of the feeds that it names.
    #[test]
    fn lines_of_all_forms() {
        let high = Some(ThreatLevel::High);
        for (text, line) in [
            ("# Format of this file:", Line::None),
            ("", Line::None),
            ("23.253.126.58,high,Simda CC", Line::Entry(ip("23.253.126.58"), high)),
            // D17 of Slips: the blank before the level made it medium.
            ("54.192.46.116, high, FusionCore", Line::Entry(ip("54.192.46.116"), high)),
            ("\"1\",\"191.101.31.25\",\"100\",\"NSO IP\"", Line::Entry(ip("191.101.31.25"), None)),
            ("AS39770, high, ELITETEAM", Line::Entry(Indicator::Asn(39_770), high)),
            ("0.0.0.0 evil.example # bad", Line::Entry(Indicator::Domain(b"evil.example"), None)),
            ("127.0.0.1\tevil.example", Line::Entry(Indicator::Domain(b"evil.example"), None)),
            ("127.0.0.1 localhost", Line::None),
            ("5.6.7.8;x;y", Line::Entry(ip("5.6.7.8"), None)),
            ("5.6.7.8\tx", Line::Entry(ip("5.6.7.8"), None)),
            ("5.6.7.8 # abc", Line::Entry(ip("5.6.7.8"), None)),
            ("5.6.7.8, high, in C# and more", Line::Entry(ip("5.6.7.8"), high)),
            ("5.6.7.8 words behind", Line::Entry(ip("5.6.7.8"), None)),
            ("first_seen,dst_ip,dst_port", Line::None),
            ("nothing at all", Line::Bad),
            ("x,y,z", Line::Bad),
        ] {
            assert_eq!(parse_line(text.as_bytes()), line, "{text}");
        }
    }

    #[test]
    fn details_are_found_by_the_header_or_by_place() {
        let of =
            |line: &str, header: Option<&str>| details(line.as_bytes(), header.map(str::as_bytes));
        assert_eq!(of("1.2.3.4, high, Simda CC, bot", None), ("Simda CC".into(), "bot".into()));
        assert_eq!(of("1.2.3.4,x,\"a, b\"", None).0, "a, b");
        assert_eq!(of("1.2.3.4,Emotet,9", Some("# ip,malware,n")).0, "Emotet");
        assert_eq!(of("1.2.3.4", None), (String::new(), String::new()));
    }
}
