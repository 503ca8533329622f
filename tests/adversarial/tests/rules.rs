//! The matcher and regular expressions with traffic crafted from the rules, and rules that are
//! designed to take long.

use gabion_matcher::limits::{REGEX_MATCH_LIMIT, VERIFY_BASE, VERIFY_BYTES_EACH};
use gabion_matcher::regex::{Flags, Found, Limits, Regex, RegexScratch};
use gabion_matcher::{BufferMatcher, Matcher, Pattern, Scratch};
use gabion_rules::limits::{LIST_DEPTH_MAX, RULE_BYTES_MAX, TRANSFORMS_MAX};
use gabion_rules::{LoadOptions, RuleSource, RuleVars, Ruleset};

/// 2,000 patterns of URIs, many of which share a start or an end.
fn patterns() -> Vec<Vec<u8>> {
    let words = ["index", "admin", "upload", "gate", "shell", "update", "config", "login"];
    (0..2_000u32)
        .map(|n| {
            let word = words[n as usize % words.len()];
            format!("/{word}{:x}.php?id={}", n / 8, n % 97).into_bytes()
        })
        .collect()
}

fn matcher(all: &[Vec<u8>]) -> BufferMatcher {
    let ids = 0u32..;
    BufferMatcher::new(
        &ids.zip(all).map(|(i, p)| Pattern::new(i, p.as_slice(), true)).collect::<Vec<_>>(),
    )
}

/// URIs that consist of the rules' own patterns: every pattern is compared at most once for each
/// position and reported at most once, and the buffer is reported as overloaded, so that the flow
/// can be marked.
#[test]
fn a_flood_of_the_rules_own_patterns_is_linear_and_reported() {
    let all = patterns();
    let (set, mut scratch) = (matcher(&all), Scratch::new());
    let flood: Vec<u8> = all.iter().step_by(7).flatten().copied().collect();
    let mut reported = 0u32;
    let scan = set.scan(&flood, &mut scratch, &mut |_| reported += 1);
    assert_eq!(reported, scan.hits);
    assert!(scan.hits as usize <= all.len());
    assert!(scan.verified as usize <= flood.len(), "{} of {}", scan.verified, flood.len());
    let allowance = VERIFY_BASE + flood.len() as u32 / VERIFY_BYTES_EACH;
    assert_eq!(scan.overload, scan.verified > allowance);
    // Twice the flood costs twice the comparisons, not four times.
    let twice = set.scan(&[&flood[..], &flood[..]].concat(), &mut scratch, &mut |_| {});
    assert!(twice.verified <= 2 * scan.verified + 16, "{} {}", twice.verified, scan.verified);
    // Common URIs cost nearly nothing.
    let plain = set.scan(b"/images/logo.png?v=3", &mut scratch, &mut |_| {});
    assert!(!plain.overload && plain.verified <= VERIFY_BASE, "{}", plain.verified);
}

/// Patterns that are prefixes of each other, on a buffer of only their byte.
#[test]
fn patterns_within_patterns_stay_linear() {
    let all: Vec<Vec<u8>> = (4..260).map(|n| vec![b'a'; n]).collect();
    let (set, mut scratch) = (matcher(&all), Scratch::new());
    let verified =
        |len: usize, s: &mut Scratch| set.scan(&vec![b'a'; len], s, &mut |_| {}).verified;
    let (short, long) = (verified(4_000, &mut scratch), verified(8_000, &mut scratch));
    assert!(long <= 2 * short + 1_024, "{short} {long}");
}

/// Expressions that never end in a naive engine stop at Suricata's limit, which is counted; if the
/// linear fallback supports the expression, the result is still correct.
#[test]
fn expressions_with_endless_backtracking_are_stopped_and_counted() {
    let cases: [(&str, Vec<u8>); 5] = [
        ("(a+)+$", vec![b'a'; 3_000]),
        ("(a|aa)+$", vec![b'a'; 3_000]),
        ("(.*a){12}$", vec![b'a'; 3_000]),
        (r"^(([a-z])+.)+[A-Z]([a-z])+$", vec![b'a'; 3_000]),
        (r"(x+x+)+\1y", vec![b'x'; 3_000]),
    ];
    for (pattern, mut hay) in cases {
        hay.push(b'!');
        for jit in [false, true] {
            let flags = Flags { jit, ..Flags::default() };
            let limits = Limits::default();
            assert_eq!(limits.match_limit, REGEX_MATCH_LIMIT, "{pattern}");
            let r = Regex::new(pattern.as_bytes(), flags, limits).unwrap();
            let found = r.find(&hay, &mut RegexScratch::new());
            assert!(!found.is_match(), "{pattern}");
            let is_stopped = r.limit_hits() > 0;
            assert!(is_stopped || found == Found::NoMatch, "{pattern}: {found:?}");
            assert!(found != Found::LimitHit || is_stopped, "a stop is counted: {pattern}");
        }
    }
}

fn load(text: &str) -> (usize, usize) {
    let source = RuleSource { name: "x.rules", text, is_firewall: false };
    let catalog = gabion_proto::registry::catalog();
    let vars = RuleVars::default();
    let (set, said) = Ruleset::load(&[source], &catalog, &vars, &LoadOptions::default());
    (set.signatures.len(), said.len())
}

/// Rules that are designed to take much time or memory are refused at a limit, with a message.
#[test]
fn endless_rules_are_refused() {
    let head = "alert tcp any any -> any any (msg:\"x\"; ";
    let long = format!("{head}content:\"{}\"; sid:1;)", "a".repeat(2 * RULE_BYTES_MAX));
    let deep = format!(
        "alert tcp {}any{} any -> any any (sid:1;)",
        "[".repeat(4 * LIST_DEPTH_MAX),
        "]".repeat(4 * LIST_DEPTH_MAX)
    );
    let chain = format!(
        "alert http any any -> any any (http.uri; {}content:\"a\"; sid:1;)",
        "to_lowercase; ".repeat(4 * TRANSFORMS_MAX)
    );
    let contents = format!("{head}{}sid:1;)", "content:\"a\"; ".repeat(4_000));
    for (what, text) in [("long", long), ("deep", deep), ("chain", chain), ("contents", contents)] {
        let (loaded, said) = load(&text);
        assert!(loaded == 0 && said >= 1, "{what}: {loaded} loaded, {said} said");
    }
    // Rules full of errors: the number of messages has a limit too.
    let (loaded, said) = load(&"alert\n".repeat(60_000));
    assert_eq!(loaded, 0);
    assert!(said <= gabion_rules::limits::DIAGNOSTICS_MAX, "{said}");
}
