//! A line of a rule file as suricata-update reads it: on or off (commented out), and what its options name.

/// Actions that make a commented line a rule that is off, and not a remark.
const ACTIONS: [&str; 14] = [
    "alert",
    "log",
    "pass",
    "activate",
    "dynamic",
    "drop",
    "reject",
    "sdrop",
    "rejectsrc",
    "rejectdst",
    "rejectboth",
    "accept",
    "config",
    "bypass",
];

/// A rule of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct RuleLine {
    /// It is not commented out.
    pub(super) is_enabled: bool,
    /// The rule without the comment's sign, lines joined.
    pub(super) raw: String,
    pub(super) gid: u32,
    pub(super) sid: u32,
    pub(super) rev: u32,
    /// `key value` as they are in `metadata`.
    pub(super) metadata: Vec<String>,
    /// `command,name` as they are in `flowbits`.
    pub(super) flowbits: Vec<String>,
    /// It is not to alert.
    pub(super) is_silent: bool,
}

impl RuleLine {
    /// Of a line, or lines that were joined; none where it holds no rule.
    pub(super) fn parse(text: &str) -> Option<RuleLine> {
        let text = text.trim();
        let is_enabled = !text.starts_with('#');
        let raw = text.trim_start_matches(|c: char| c == '#' || c.is_whitespace());
        let (header, options) = raw.split_once('(')?;
        let options = options.strip_suffix(')')?;
        let words = header_words(header.trim())?;
        let action = words.first()?;
        if !ACTIONS.contains(action) || !(words.len() == 1 || words.len() == 7) {
            return None;
        }
        let mut rule = RuleLine {
            is_enabled,
            raw: raw.to_owned(),
            gid: 1,
            sid: 0,
            rev: 0,
            metadata: Vec::new(),
            flowbits: Vec::new(),
            is_silent: false,
        };
        for option in split_options(options) {
            let (name, value) = match option.split_once(':') {
                Some((name, value)) => (name.trim(), value.trim()),
                None => (option, ""),
            };
            match name {
                "gid" => rule.gid = value.parse().ok()?,
                "sid" => rule.sid = value.parse().ok()?,
                "rev" => rule.rev = value.parse().ok()?,
                "metadata" => {
                    rule.metadata.extend(value.split(',').map(|entry| entry.trim().to_owned()));
                }
                "flowbits" => {
                    rule.is_silent |= value.contains("noalert");
                    rule.flowbits.push(value.to_owned());
                }
                "noalert" => rule.is_silent = true,
                _ => {}
            }
        }
        (rule.sid > 0).then_some(rule)
    }

    /// As it is in a file: `noalert` is written where it is not to alert, and a sign before it where it is off.
    pub(super) fn text(&self) -> String {
        let sign = if self.is_enabled { "" } else { "# " };
        if !self.is_silent || self.raw.contains("noalert;") {
            return format!("{sign}{}", self.raw);
        }
        match sid_option(&self.raw) {
            Some(at) => {
                let (before, after) = self.raw.split_at(at);
                format!("{sign}{before} noalert;{after}")
            }
            None => format!("{sign}{}", self.raw),
        }
    }
}

/// Where `sid:N;` begins in a rule, with the blanks before it.
fn sid_option(raw: &str) -> Option<usize> {
    let found = raw.match_indices("sid").find(|(at, _)| {
        let rest = raw.get(at + 3..).unwrap_or_default().trim_start_matches(' ');
        let number = rest.strip_prefix(':').unwrap_or_default().trim_start_matches(' ');
        let digits = number.trim_start_matches(|c: char| c.is_ascii_digit());
        digits.len() < number.len() && digits.starts_with(';')
    });
    let (at, _) = found?;
    Some(raw.get(..at)?.trim_end_matches(' ').len())
}

/// Action, protocol, addresses and ports; a list in brackets is one word. None where a bracket has no end.
fn header_words(mut rest: &str) -> Option<Vec<&str>> {
    let mut words = Vec::new();
    while !rest.is_empty() && words.len() < 8 {
        let end = if rest.starts_with('[') {
            // Lists contain lists.
            let mut depth = 0;
            let closing = rest.char_indices().find(|(_, c)| {
                depth += match c {
                    '[' => 1,
                    ']' => -1,
                    _ => 0,
                };
                depth == 0
            });
            closing?.0 + 1
        } else {
            rest.find(char::is_whitespace).unwrap_or(rest.len())
        };
        let (word, behind) = rest.split_at_checked(end)?;
        words.push(word);
        rest = behind.trim_start();
    }
    Some(words)
}

/// Options, each without its semicolon; one after a backslash ends nothing.
fn split_options(text: &str) -> impl Iterator<Item = &str> {
    let mut rest = text;
    std::iter::from_fn(move || {
        if rest.trim().is_empty() {
            return None;
        }
        let bytes = rest.as_bytes();
        let ends = |at: &usize| {
            bytes.get(*at) == Some(&b';') && (*at == 0 || bytes.get(at - 1) != Some(&b'\\'))
        };
        let end = (0..bytes.len()).find(ends).unwrap_or(bytes.len());
        let option = rest.get(..end).unwrap_or_default().trim();
        rest = rest.get(end + 1..).unwrap_or_default();
        Some(option)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_that_are_on_and_off() {
        let rule = RuleLine::parse(
            "alert tcp [$HOME_NET, [!10.0.0.1]] any -> any [80,443] (msg:\"a \\; b\"; flowbits:set,x; \
             metadata:tag Foo, created_at 2020; gid:3; sid:12; rev:4;)",
        )
        .unwrap();
        assert!(rule.is_enabled && !rule.is_silent);
        assert_eq!((rule.gid, rule.sid, rule.rev), (3, 12, 4));
        assert_eq!(rule.metadata, ["tag Foo", "created_at 2020"]);
        assert_eq!(rule.flowbits, ["set,x"]);
        let off = RuleLine::parse("##  # alert ip any any -> any any (msg:\"x\"; sid:5;)").unwrap();
        assert!(!off.is_enabled);
        assert_eq!(off.text(), "# alert ip any any -> any any (msg:\"x\"; sid:5;)");
        for none in [
            "",
            "# a remark (which is none; sid:5;)",
            "# alert me (please)",
            "alert tcp any any -> any any (msg:\"no id\";)",
            "alert tcp [any any -> any any (sid:1;)",
            "alert tcp any any -> any any (sid:1;",
        ] {
            assert_eq!(RuleLine::parse(none), None, "{none}");
        }
    }

    #[test]
    fn what_is_silent_says_so_before_its_id() {
        let mut rule =
            RuleLine::parse("alert ip any any -> any any (msg:\"x\";  sid: 5; rev:1;)").unwrap();
        rule.is_silent = true;
        assert_eq!(
            rule.text(),
            "alert ip any any -> any any (msg:\"x\"; noalert;  sid: 5; rev:1;)"
        );
        let said =
            RuleLine::parse("alert ip any any -> any any (flowbits:noalert; sid:5;)").unwrap();
        assert_eq!(said.text(), said.raw);
    }
}
