//! The version of the program under test and how a test's version conditions compare with it.

use std::fmt;

/// `major.minor.patch`; suffixes such as `-dev` are ignored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Version(pub [u32; 3]);

impl Version {
    /// Parses the version in the output of `-V`, or a bare number.
    #[must_use]
    pub fn find(text: &str) -> Option<Self> {
        let number = match text.find("Suricata version ") {
            Some(at) => text.get(at + "Suricata version ".len()..)?,
            None => text.trim_start(),
        };
        Self::parts(number).map(|parts| Self(parts.map(|part| part.unwrap_or(0))))
    }

    /// Whether `wanted` is a prefix of this version: `8` matches every 8.x.
    #[must_use]
    pub fn begins_with(self, wanted: &str) -> bool {
        Self::parts(wanted).is_some_and(|parts| {
            parts.iter().zip(self.0).all(|(part, have)| part.is_none_or(|part| part == have))
        })
    }

    fn parts(number: &str) -> Option<[Option<u32>; 3]> {
        let mut parts = [None; 3];
        let mut rest = number;
        for part in &mut parts {
            let end = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
            let (digits, after) = rest.split_at(end);
            *part = digits.parse().ok();
            match after.strip_prefix('.') {
                Some(after) if part.is_some() => rest = after,
                _ => break,
            }
        }
        parts[0]?;
        Some(parts)
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.0[0], self.0[1], self.0[2])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_found_and_compared() {
        let have = Version::find("This is Suricata version 8.0.7 RELEASE\n").unwrap();
        assert_eq!(have, Version([8, 0, 7]));
        assert_eq!(Version::find("9.0.0-dev (abc 2026)"), Some(Version([9, 0, 0])));
        assert_eq!(Version::find("8"), Some(Version([8, 0, 0])));
        assert_eq!(Version::find("no number"), None);
        assert!(have > Version::find("7.0.12").unwrap());
        assert!(have < Version::find("8.0.10").unwrap());
        for (wanted, holds) in
            [("8", true), ("8.0", true), ("8.0.7", true), ("8.0.6", false), ("7", false)]
        {
            assert_eq!(have.begins_with(wanted), holds, "{wanted}");
        }
    }
}
