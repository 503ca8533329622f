//! Names of signatures for tables: the event of a signature, else its message.

use std::collections::HashMap;
use std::sync::LazyLock;

use regex::Regex;

static SID: LazyLock<Regex> = LazyLock::new(|| pattern(r"[;(]\s*sid\s*:\s*(\d+)\s*;"));
static EVENT: LazyLock<Regex> =
    LazyLock::new(|| pattern(r"[;(]\s*(?:decode|stream|app-layer)-event\s*:\s*([^;]+?)\s*;"));
static MESSAGE: LazyLock<Regex> =
    LazyLock::new(|| pattern(r#"[;(]\s*msg\s*:\s*"((?:\\.|[^"])*)""#));

fn pattern(text: &str) -> Regex {
    Regex::new(text).expect("invariant: the patterns are valid")
}

/// The names of the signatures in `rules`, by signature id.
#[must_use]
pub fn of_rules(rules: &str) -> HashMap<u64, String> {
    let first = |pattern: &Regex, line: &str| {
        pattern.captures(line).and_then(|found| found.get(1)).map(|text| text.as_str().to_owned())
    };
    let mut names = HashMap::new();
    for line in rules.lines().filter(|line| !line.trim_start().starts_with('#')) {
        if let Some(sid) = first(&SID, line).and_then(|text| text.parse().ok())
            && let Some(name) = first(&EVENT, line).or_else(|| first(&MESSAGE, line))
        {
            names.insert(sid, name);
        }
    }
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_are_preferred_to_messages() {
        let names = of_rules(
            "alert pkthdr any any -> any any (msg:\"too small\"; decode-event:ipv4.pkt_too_small; sid:1; rev:2;)\n\
             alert tcp any any -> any any (msg:\"a \\\"b\\\" c\"; content:\"sid:9\"; sid: 2;)\n\
             # alert tcp any any -> any any (msg:\"off\"; sid:3;)\n",
        );
        assert_eq!(names.get(&1).map(String::as_str), Some("ipv4.pkt_too_small"));
        assert_eq!(names.get(&2).map(String::as_str), Some("a \\\"b\\\" c"));
        assert_eq!(names.len(), 2);
    }
}
