//! Which rules a line of a selection means, and patterns of names.

use super::fault::LineFault;
use super::line::RuleLine;
use gabion_matcher::regex::{Flags, Limits, Regex, RegexScratch};
use std::collections::HashSet;

/// Which rules are meant.
pub(super) enum Which {
    All,
    /// Generator, signature, and revision where one is given.
    Ids(HashSet<(u32, u32, Option<u32>)>),
    Text(Box<Regex>),
    /// A pattern of the file's path.
    Path(String),
    /// A pattern of the file's name, with or without its ending.
    Group(String),
    /// Key and value of `metadata`, in small letters.
    Metadata(String, String),
}

impl Which {
    /// From its text.
    ///
    /// # Errors
    /// What is wrong with it.
    pub(super) fn parse(text: &str) -> Result<Which, LineFault> {
        let text = text.trim();
        if text == "*" {
            return Ok(Which::All);
        }
        if let Some(ids) = text.split(',').map(|id| read_id(id.trim())).collect::<Option<_>>() {
            return Ok(Which::Ids(ids));
        }
        if let Some(expression) = text.strip_prefix("re:") {
            return expression_of(expression.trim(), true).map(|e| Which::Text(Box::new(e)));
        }
        if let Some(pattern) = text.strip_prefix("filename:") {
            return Ok(Which::Path(pattern.trim().to_owned()));
        }
        if let Some(pattern) = text.strip_prefix("group:") {
            return Ok(Which::Group(pattern.trim().to_owned()));
        }
        if text.ends_with(".rules") {
            return Ok(Which::Group(text.to_owned()));
        }
        if let Some((key, value)) =
            text.strip_prefix("metadata:").and_then(|rest| rest.trim().split_once(' '))
        {
            return Ok(Which::Metadata(key.to_lowercase(), value.trim().to_lowercase()));
        }
        Err(LineFault::NoRules)
    }

    /// Whether a rule of that file is meant.
    pub(super) fn means(&self, rule: &RuleLine, path: &str, scratch: &mut RegexScratch) -> bool {
        match self {
            Which::All => true,
            Which::Ids(ids) => {
                ids.contains(&(rule.gid, rule.sid, None))
                    || ids.contains(&(rule.gid, rule.sid, Some(rule.rev)))
            }
            Which::Text(e) => e.find(rule.raw.as_bytes(), scratch).is_match(),
            Which::Path(pattern) => fits(pattern, path),
            Which::Group(pattern) => {
                let name = path.rsplit('/').next().unwrap_or(path);
                let stem = name.rsplit_once('.').map_or(name, |(stem, _)| stem);
                fits(pattern, name) || fits(pattern, stem)
            }
            Which::Metadata(key, value) => rule.metadata.iter().any(|entry| {
                entry.split_once(' ').is_some_and(|(k, v)| {
                    k.trim().to_lowercase() == *key && v.trim().to_lowercase() == *value
                })
            }),
        }
    }
}

/// `SID`, `GID:SID` or `GID:SID:REV`.
fn read_id(text: &str) -> Option<(u32, u32, Option<u32>)> {
    let mut numbers = text.split(':').map(|n| n.trim().parse::<u32>().ok());
    let found = match (numbers.next(), numbers.next(), numbers.next()) {
        (Some(sid), None, None) => (1, sid?, None),
        (Some(gid), Some(sid), None) => (gid?, sid?, None),
        (Some(gid), Some(sid), Some(rev)) => (gid?, sid?, Some(rev?)),
        _ => return None,
    };
    numbers.next().is_none().then_some(found)
}

/// Compiles an expression.
///
/// # Errors
/// What is wrong with it.
pub(super) fn expression_of(text: &str, caseless: bool) -> Result<Regex, LineFault> {
    let flags = Flags { caseless, ..Flags::default() };
    Regex::new(text.as_bytes(), flags, Limits::default())
        .map_err(|fault| LineFault::Expression { text: text.to_owned(), fault })
}

/// Whether a name fits a pattern of a shell: `*`, `?`, `[a-z]`, `[!a-z]`.
fn fits(pattern: &str, name: &str) -> bool {
    let (pattern, name): (Vec<char>, Vec<char>) =
        (pattern.chars().collect(), name.chars().collect());
    let (mut p, mut n) = (0, 0);
    // Where the last star is, and up to where it has taken.
    let mut star: Option<(usize, usize)> = None;
    while n < name.len() {
        let step = match pattern.get(p) {
            Some('*') => {
                star = Some((p, n));
                p += 1;
                continue;
            }
            Some('?') => Some(1),
            Some('[') => match (set(pattern.get(p..).unwrap_or_default()), name.get(n)) {
                (Some((len, is_in)), Some(c)) => is_in(*c).then_some(len),
                // Without an end it is a bracket.
                (None, Some('[')) => Some(1),
                _ => None,
            },
            Some(c) => (Some(c) == name.get(n)).then_some(1),
            None => None,
        };
        match (step, star) {
            (Some(len), _) => (p, n) = (p + len, n + 1),
            (None, Some((at, taken))) => {
                star = Some((at, taken + 1));
                (p, n) = (at + 1, taken + 1);
            }
            (None, None) => return false,
        }
    }
    pattern.get(p..).unwrap_or_default().iter().all(|c| *c == '*')
}

/// A set of characters at the beginning of a pattern: how long it is, and what is in it.
fn set(pattern: &[char]) -> Option<(usize, impl Fn(char) -> bool)> {
    let is_not = pattern.get(1) == Some(&'!');
    let from = if is_not { 2 } else { 1 };
    // A bracket that comes first is one of the set.
    let end = (from + 1..pattern.len()).find(|at| pattern.get(*at) == Some(&']'))?;
    let members: Vec<char> = pattern.get(from..end)?.to_vec();
    let is_in = move |c: char| {
        let mut rest = members.as_slice();
        let mut found = false;
        loop {
            rest = match rest {
                [low, '-', high, more @ ..] => {
                    found |= (*low..=*high).contains(&c);
                    more
                }
                [one, more @ ..] => {
                    found |= *one == c;
                    more
                }
                [] => return found != is_not,
            };
        }
    };
    Some((end + 1, is_in))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_fit_patterns_as_in_a_shell() {
        for (pattern, name, wanted) in [
            ("emerging-*.rules", "emerging-icmp.rules", true),
            ("emerging-*.rules", "emerging-icmp.rules.zst", false),
            ("*icmp*", "emerging-icmp_info", true),
            ("e?ge", "edge", true),
            ("e?ge", "ege", false),
            ("[a-c]x", "bx", true),
            ("[!a-c]x", "bx", false),
            ("[!a-c]x", "dx", true),
            ("a[", "a[", true),
            ("**", "", true),
            ("", "a", false),
            ("*a*b", "xaxxb", true),
            ("*a*b", "xaxxbc", false),
        ] {
            assert_eq!(fits(pattern, name), wanted, "{pattern} {name}");
        }
    }

    #[test]
    fn what_names_no_rules_says_what_may() {
        for text in ["nonsense", "1:2:3:4", "classtype:x", "12,x", "metadata:alone", "-5"] {
            let said = Which::parse(text).err().unwrap().to_string();
            assert!(said.contains("say SID, GID:SID"), "{text}: {said}");
        }
        assert!(Which::parse("re:(").err().unwrap().to_string().contains("can't be read"));
        for text in
            ["2019401", "1:2019401", "1:2, 1:3,4", "re:heart", "group:a", "a.rules", "*", "1:2:3"]
        {
            assert!(Which::parse(text).is_ok(), "{text}");
        }
    }
}
