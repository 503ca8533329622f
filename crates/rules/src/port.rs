//! Port sets of rule headers: sorted ranges, negation resolved, shared between rules.

use crate::diagnostic::{Checked, Refusal};
use crate::list::{Items, ListReader};
use crate::ranges::{normalize, subtract};
use crate::vars::RuleVars;

/// Number of a port set in [`crate::Ruleset::ports`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PortId(pub u32);

impl PortId {
    /// The set that holds every port; it is always there.
    pub const ANY: PortId = PortId(0);
}

/// A set of ports as sorted, disjoint, inclusive ranges.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct PortSet {
    /// The ranges.
    pub ranges: Vec<(u16, u16)>,
}

impl PortSet {
    /// Every port.
    pub fn any() -> PortSet {
        PortSet { ranges: vec![(0, u16::MAX)] }
    }

    /// Whether it holds every port.
    pub fn is_any(&self) -> bool {
        self.ranges == [(0, u16::MAX)]
    }

    /// Whether it holds the port.
    #[inline]
    pub fn contains(&self, port: u16) -> bool {
        let at = self.ranges.partition_point(|r| r.1 < port);
        self.ranges.get(at).is_some_and(|r| r.0 <= port)
    }

    /// Reads the text of a header's port part.
    pub(crate) fn parse(text: &str, vars: &RuleVars) -> Checked<PortSet> {
        let items = PortItems { vars };
        let ranges = ListReader::new(&items).read_list(text)?;
        Ok(PortSet { ranges })
    }
}

struct PortItems<'v> {
    vars: &'v RuleVars,
}

impl Items for PortItems<'_> {
    type Set = Vec<(u16, u16)>;

    fn add(&self, text: &str, set: &mut Vec<(u16, u16)>) -> Checked<()> {
        let text = text.trim();
        match range(text) {
            Some(r) => set.push(r),
            None => {
                let said = format!(" failed to parse port \"{text}\"");
                return Err(Refusal::new("detect", said));
            }
        }
        Ok(())
    }

    fn variable(&self, name: &str) -> Option<&str> {
        self.vars.port(name)
    }

    fn resolve(
        &self,
        positive: Vec<(u16, u16)>,
        negative: &Vec<(u16, u16)>,
    ) -> Checked<Vec<(u16, u16)>> {
        let no = normalize(negative.clone());
        if no == [(0, u16::MAX)] {
            return Err(Refusal::new("detect", "Complete port space is negated"));
        }
        let mut yes = normalize(positive);
        if yes.is_empty() && !no.is_empty() {
            yes = vec![(0, u16::MAX)];
        }
        let left = subtract(&yes, &no);
        if left.is_empty() {
            return Err(Refusal::new(
                "detect",
                "no ports left after merging ports with negated ports",
            ));
        }
        Ok(left)
    }

    fn join(&self, from: Vec<(u16, u16)>, to: &mut Vec<(u16, u16)>) {
        to.extend(from);
    }
}

/// `any`, a port, or a range that may be open at either end.
fn range(text: &str) -> Option<(u16, u16)> {
    if text.eq_ignore_ascii_case("any") {
        return Some((0, u16::MAX));
    }
    let number = |s: &str| {
        let s = s.trim();
        let s = s.strip_prefix('+').unwrap_or(s);
        s.bytes().all(|b| b.is_ascii_digit()).then(|| s.parse::<u16>().ok()).flatten()
    };
    let Some((from, to)) = text.split_once(':') else {
        return number(text).map(|n| (n, n));
    };
    let from = if from.trim().is_empty() { 0 } else { number(from)? };
    let to = if to.trim().is_empty() { u16::MAX } else { number(to)? };
    (from <= to).then_some((from, to))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn vars() -> RuleVars {
        RuleVars { addresses: vec![], ports: vec![("HTTP_PORTS".into(), "[80,8080]".into())] }
    }

    // Accepted and refused forms were measured with Suricata 8.0.7.
    #[test]
    fn lists_ranges_and_variables() {
        for (text, port, wanted) in [
            ("any", 0, true),
            ("80", 80, true),
            ("80:90", 91, false),
            (":1024", 1024, true),
            ("65535:", 65535, true),
            ("[80:,!8080]", 8080, false),
            ("!$HTTP_PORTS", 80, false),
            ("!$HTTP_PORTS", 81, true),
            ("[!80,!81]", 82, true),
            ("[80,]", 80, true),
            ("[5060, 5061]", 5061, true),
        ] {
            assert_eq!(PortSet::parse(text, &vars()).unwrap().contains(port), wanted, "{text}");
        }
        for text in ["90:80", "[80,!80]", "!any", "!0:65535", "80-90", "[80", "-1", "65536", "$X"] {
            assert!(PortSet::parse(text, &vars()).is_err(), "{text}");
        }
    }
}
