//! When domains were registered and who makes hardware: tables from files, since nothing is asked
//! over the network.

use super::indicator::bare;
use super::line::columns;
use crate::sketch::hash_text;
use foldhash::fast::FixedState;
use gabion_record::calendar::days_from_date;
use gabion_record::logs::Mac;
use hashbrown::HashMap;

/// Days since 1970 on which domains were registered.
#[derive(Debug, Default)]
pub struct Ages {
    days: HashMap<u64, i32, FixedState>,
}

impl Ages {
    /// Takes a line in: `domain,YYYY-MM-DD`, with or without a time after it.
    pub fn push(&mut self, line: &[u8]) {
        let mut parts = columns(line).map(bare);
        let (Some(name), Some(date)) = (parts.next(), parts.next()) else { return };
        if let Some(day) = day(date) {
            self.days.insert(hash_text(&name.to_ascii_lowercase()), day);
        }
    }

    /// The day on which a domain (in lower case) was registered.
    pub fn get(&self, domain: &[u8]) -> Option<i64> {
        self.days.get(&hash_text(domain)).map(|d| i64::from(*d))
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.days.is_empty()
    }
}

fn day(date: &[u8]) -> Option<i32> {
    let text = std::str::from_utf8(date.get(..10)?).ok()?;
    let part = |from: usize, to: usize| text.get(from..to)?.parse::<i64>().ok();
    let (year, month, day) = (part(0, 4)?, part(5, 7)?, part(8, 10)?);
    let is_date = (1..=12).contains(&month) && (1..=31).contains(&day);
    is_date.then(|| i32::try_from(days_from_date(year, month, day)).ok()).flatten()
}

/// Whose system a vendor's hardware runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Maker {
    /// Apple
    Apple,
    /// Microsoft
    Microsoft,
    /// Google
    Google,
    /// Any other
    Other,
}

/// Makers by the first three bytes of a hardware address.
#[derive(Debug, Default)]
pub struct Makers {
    makers: HashMap<[u8; 3], Maker, FixedState>,
}

impl Makers {
    /// Takes a line in: `08:00:27,NAME`, or the registry's `MA-L,080027,NAME,…`.
    pub fn push(&mut self, line: &[u8]) {
        let mut parts = columns(line).map(bare);
        let Some(mut first) = parts.next() else { return };
        if first.starts_with(b"MA-") {
            first = parts.next().unwrap_or_default();
        }
        let Some(prefix) = prefix(first) else { return };
        let name = parts.next().unwrap_or_default().to_ascii_lowercase();
        let has = |word: &[u8]| name.windows(word.len()).any(|w| w == word);
        let maker = match () {
            () if has(b"apple") => Maker::Apple,
            () if has(b"microsoft") => Maker::Microsoft,
            () if has(b"google") || has(b"android") => Maker::Google,
            () => Maker::Other,
        };
        self.makers.insert(prefix, maker);
    }

    /// Who made the hardware; `None` where the table does not say, or the address is one that a
    /// system made up (locally administered).
    pub fn get(&self, mac: Mac) -> Option<Maker> {
        let [a, b, c, ..] = mac.0;
        if a & 2 != 0 { None } else { self.makers.get(&[a, b, c]).copied() }
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.makers.is_empty()
    }
}

fn prefix(text: &[u8]) -> Option<[u8; 3]> {
    let mut digits = text.iter().filter(|b| !matches!(b, b':' | b'-' | b'.'));
    let mut prefix = [0; 3];
    for byte in &mut prefix {
        for _ in 0..2 {
            let digit = (*digits.next()? as char).to_digit(16)?;
            *byte = *byte << 4 | digit as u8;
        }
    }
    Some(prefix)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_are_read() {
        let mut ages = Ages::default();
        for line in
            ["domain,created", "New.example,1970-01-11T00:00:00Z", "x.example,1970-13-01", "y"]
        {
            ages.push(line.as_bytes());
        }
        assert_eq!((ages.get(b"new.example"), ages.get(b"x.example")), (Some(10), None));
        let mut makers = Makers::default();
        for line in [
            "Registry,Assignment,Organization Name",
            "MA-L,001B63,\"Apple, Inc.\",Cupertino",
            "00:15:5D,Microsoft",
            "08-00-27,PCS",
        ] {
            makers.push(line.as_bytes());
        }
        let of = |mac: &[u8]| makers.get(Mac::parse(mac).unwrap());
        assert_eq!(of(b"00:1b:63:00:00:01"), Some(Maker::Apple));
        assert_eq!(of(b"00:15:5d:00:00:01"), Some(Maker::Microsoft));
        assert_eq!(of(b"08:00:27:00:00:01"), Some(Maker::Other));
        assert_eq!((of(b"0a:00:27:00:00:01"), of(b"00:00:00:00:00:01")), (None, None));
    }
}
