//! Versions of three numbers, as rule files ask for them.

use std::fmt;

/// A version such as 0.63.0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Version {
    /// Changes when something is not compatible.
    pub major: u32,
    /// Changes when something is added.
    pub minor: u32,
    /// Changes when something is fixed.
    pub patch: u32,
}

impl Version {
    /// The version of these numbers.
    pub const fn new(major: u32, minor: u32, patch: u32) -> Version {
        Version { major, minor, patch }
    }

    /// Reads `x.y.z`; what follows a dash or a plus sign is ignored.
    pub fn parse(text: &str) -> Option<Version> {
        let core = text.split(['-', '+']).next()?;
        let mut parts = core.split('.').map(|part| part.parse().ok());
        let version = Version::new(parts.next()??, parts.next()??, parts.next()??);
        parts.next().is_none().then_some(version)
    }

    /// Whether something that needs `needed` works with this version.
    pub fn serves(self, needed: Version) -> bool {
        self.major == needed.major && self >= needed
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.major, self.minor, self.patch)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_have_three_numbers() {
        assert_eq!(Version::parse("0.57.0"), Some(Version::new(0, 57, 0)));
        assert_eq!(Version::parse("seven"), None);
        assert_eq!(Version::parse("1.2"), None);
        assert_eq!(Version::parse("1.2.3.4"), None);
        assert!(Version::new(0, 7, 1).serves(Version::new(0, 4, 0)));
        assert!(!Version::new(1, 0, 0).serves(Version::new(0, 4, 0)));
    }
}
