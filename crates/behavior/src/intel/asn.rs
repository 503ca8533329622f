//! Which autonomous system an address belongs to, from a table in a file: `first,last,number,name`,
//! `network,number,name`, commas or tabs (the forms of iptoasn.com and of GeoLite's CSV).

use super::indicator::{bare, number};
use super::line::columns;
use super::ranges::{Ranges, bounds};
use crate::limits::WRONG_LINES_MAX;
use gabion_record::Ip;

/// The table.
#[derive(Debug, Default)]
pub struct AsnTable {
    ranges: Ranges,
    /// Number, name and country (two letters, blanks for none).
    systems: Vec<(u32, Box<str>, [u8; 2])>,
    by_number: std::collections::BTreeMap<u32, u32>,
    /// Numbers of the first lines that could not be read.
    pub wrong: Vec<u64>,
    line: u64,
    /// Ranges read.
    pub count: u64,
}

impl AsnTable {
    /// Takes a line in.
    pub fn push(&mut self, line: &[u8]) {
        self.line += 1;
        let line = line.trim_ascii();
        if line.is_empty() || line.starts_with(b"#") {
            return;
        }
        match parse_line(line) {
            // Ranges that nobody has are announced as number 0.
            Some(Line { number: 0, .. }) => {}
            Some(Line { first, last, number, name, country }) => {
                let system = *self.by_number.entry(number).or_insert_with(|| {
                    self.systems.push((number, crate::text::text(bare(name)).into(), country));
                    self.systems.len() as u32 - 1
                });
                self.ranges.add(first, last, system);
                self.count += 1;
            }
            None if self.line == 1 => {}
            None if self.wrong.len() < WRONG_LINES_MAX => self.wrong.push(self.line),
            None => {}
        }
    }

    /// Makes it ready to be asked.
    pub fn close(&mut self) {
        self.ranges.close();
        self.by_number.clear();
    }

    /// Number and name of the system that an address belongs to.
    #[inline]
    pub fn get(&self, ip: Ip) -> Option<(u32, &str)> {
        let (number, name, _) = self.systems.get(self.ranges.get(ip)? as usize)?;
        Some((*number, name))
    }

    /// The country of the system that an address belongs to.
    pub fn country(&self, ip: Ip) -> Option<&str> {
        let (_, _, country) = self.systems.get(self.ranges.get(ip)? as usize)?;
        std::str::from_utf8(country).ok().filter(|c| *c != "  ")
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }

    /// Bytes it takes.
    pub fn bytes(&self) -> usize {
        let names: usize = self.systems.iter().map(|(_, name, _)| name.len() + 32).sum();
        self.ranges.bytes() + names
    }
}

/// What a line says.
struct Line<'a> {
    first: Ip,
    last: Ip,
    number: u32,
    name: &'a [u8],
    country: [u8; 2],
}

fn parse_line(line: &[u8]) -> Option<Line<'_>> {
    let all: Vec<&[u8]> = columns(line).collect();
    let at = |n: usize| all.get(n).copied().map(bare);
    let system = |text: &[u8]| number(text.strip_prefix(b"AS").unwrap_or(text));
    let country = |text: Option<&[u8]>| {
        let code = text.and_then(|text| <[u8; 2]>::try_from(text).ok());
        code.filter(|code| code.iter().all(u8::is_ascii_uppercase)).unwrap_or(*b"  ")
    };
    let first = at(0)?;
    if first.contains(&b'/') {
        let (first, last) = bounds(first)?;
        let (number, name) = (system(at(1)?)?, at(2).unwrap_or_default());
        return Some(Line { first, last, number, name, country: country(at(3)) });
    }
    let (first, last) = (Ip::parse(first)?, Ip::parse(at(1)?)?);
    let name = at(4).or_else(|| at(3)).unwrap_or_default();
    let country = if all.len() > 4 { country(at(3)) } else { *b"  " };
    let number = system(at(2)?)?;
    (first <= last).then_some(Line { first, last, number, name, country })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_forms_are_read() {
        let mut table = AsnTable::default();
        for line in [
            "network,autonomous_system_number,autonomous_system_organization",
            "198.51.100.0/24,64500,\"EXAMPLE, Inc\"",
            "203.0.113.0\t203.0.113.127\t64501\tCZ\tOTHER",
            "2001:db8::/32,64502,SIX",
            "1.0.0.0,1.0.0.255,0,None,Not routed",
            "rubbish",
        ] {
            table.push(line.as_bytes());
        }
        table.close();
        let of = |ip: &str| table.get(Ip::parse(ip.as_bytes()).unwrap());
        assert_eq!(of("198.51.100.9"), Some((64_500, "EXAMPLE, Inc")));
        assert_eq!(of("203.0.113.127"), Some((64_501, "OTHER")));
        assert_eq!(of("203.0.113.128"), None);
        assert_eq!(of("2001:db8::9"), Some((64_502, "SIX")));
        let country = |ip: &str| table.country(Ip::parse(ip.as_bytes()).unwrap());
        assert_eq!((country("203.0.113.9"), country("198.51.100.9")), (Some("CZ"), None));
        assert_eq!((of("1.0.0.1"), table.wrong.as_slice()), (None, &[6][..]));
    }
}
