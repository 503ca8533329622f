//! Literals and regular expressions: the fast result compared with the naive one.

use crate::script::{Script, put_text};
use crate::seeds::Seeds;
use gabion_matcher::regex::{Flags, Limits, Regex, RegexScratch};
use gabion_matcher::{Anchor, BufferMatcher, Matcher, Pattern, Scratch};
use std::collections::BTreeSet;

/// Most patterns in a set.
const PATTERNS_MAX: usize = 200;

/// A set of patterns and a buffer: the matcher reports the patterns that `Pattern::matches_at`
/// finds.
pub fn naive(data: &[u8]) {
    let mut script = Script::new(data);
    let count = usize::from(script.u8()) % PATTERNS_MAX;
    let mut patterns = Vec::new();
    for id in 0..count as u32 {
        let head = script.u8();
        let len = usize::from(script.u8() & 31);
        let mut pattern = Pattern::new(id, script.bytes(len), head & 1 != 0);
        pattern.anchor = match head & 14 {
            0 | 2 | 4 => Anchor::None,
            6 => Anchor::Start,
            8 => Anchor::End,
            10 => Anchor::Exact,
            _ => Anchor::Label,
        };
        if head & 16 != 0 {
            pattern = pattern.between(u32::from(script.u8()), u32::MAX);
        }
        if head & 32 != 0 {
            let min = pattern.min_start;
            pattern = pattern.between(min, min.saturating_add(u32::from(script.u8())));
        }
        patterns.push(pattern);
    }
    let matcher = BufferMatcher::new(&patterns);
    let mut scratch = Scratch::new();
    // Two buffers in turn: the state that the first leaves in the scratch must have no effect.
    for hay in [script.text(), script.all()] {
        let mut found = Vec::new();
        let scan = matcher.scan(hay, &mut scratch, &mut |id| found.push(id));
        let unique: BTreeSet<u32> = found.iter().copied().collect();
        assert_eq!(unique.len(), found.len(), "each pattern is reported once");
        assert_eq!(scan.hits as usize, found.len(), "the count of hits is correct");
        let expected: BTreeSet<u32> = patterns
            .iter()
            .filter(|pattern| (0..=hay.len()).any(|start| pattern.matches_at(hay, start)))
            .map(|pattern| pattern.id)
            .collect();
        assert_eq!(unique, expected, "in {hay:?}");
    }
}

/// Sets of words over text that holds some of them.
pub fn naive_seeds(_: &Seeds) -> Vec<Vec<u8>> {
    let words: &[&[u8]] = &[
        b"GET ",
        b"User-Agent",
        b"example.com",
        b"a",
        b"ab",
        b"\0\0\x01",
        b"/index.php?id=",
        b".exe",
        b"cmd.exe",
        b"aaaaaaa",
        b"aaa",
        b"evil.example",
        b"xyz",
    ];
    let hays: &[&[u8]] = &[
        b"GET /index.php?id=1 HTTP/1.1\r\nHost: example.com\r\nUser-Agent: cmd.exe\r\n\r\n",
        b"www.evil.example",
        b"evil.example",
        b"AAAAAAAAAAAAAAAAAAAAAAaaaaaaaaaaa\0\0\x01xyz",
        b"",
    ];
    let mut seeds = Vec::new();
    for head in [0u8, 1, 6, 8, 10, 13, 17, 49] {
        for hay in hays {
            let mut out = vec![words.len() as u8];
            for (at, word) in words.iter().enumerate() {
                out.push(if at % 2 == 0 { head } else { head & 1 });
                out.push(word.len() as u8);
                out.extend_from_slice(word);
                let bounds = if at % 2 == 0 { (head >> 4 & 1) + (head >> 5 & 1) } else { 0 };
                out.extend(std::iter::repeat_n(at as u8, usize::from(bounds)));
            }
            put_text(&mut out, hay);
            out.extend_from_slice(b"GET /a.exe");
            seeds.push(out);
        }
    }
    seeds
}

/// An expression and a buffer under Suricata's limits: the search ends, groups lie within the
/// buffer, and the results with and without compiled code agree unless a limit is reached.
pub fn regex(data: &[u8]) {
    let mut script = Script::new(data);
    let head = script.u8();
    let flags = Flags {
        caseless: head & 1 != 0,
        multiline: head & 2 != 0,
        dotall: head & 4 != 0,
        extended: head & 8 != 0,
        anchored: head & 16 != 0,
        dollar_endonly: head & 32 != 0,
        ungreedy: head & 64 != 0,
        jit: true,
    };
    let pattern = script.text();
    if pattern.len() > 200 {
        return;
    }
    let hay = script.all();
    let Ok(compiled) = Regex::new(pattern, flags, Limits::default()) else { return };
    let plain = Regex::new(pattern, Flags { jit: false, ..flags }, Limits::default())
        .expect("an expression that compiles with machine code compiles without");
    let (mut one, mut two) = (RegexScratch::new(), RegexScratch::new());
    let found = compiled.find(hay, &mut one);
    let second = plain.find(hay, &mut two);
    let is_free = compiled.limit_hits() == 0 && plain.limit_hits() == 0;
    if is_free {
        assert_eq!(found.is_match(), second.is_match(), "{}", pattern.escape_ascii());
    }
    if found.is_match() {
        for group in 0..=compiled.group_count() {
            let Some((start, end)) = one.group(group) else { continue };
            assert!(start <= hay.len() && end <= hay.len(), "group {group}: {start}..{end}");
            if is_free {
                assert_eq!(two.group(group), Some((start, end)), "{}", pattern.escape_ascii());
            }
        }
    }
}

/// Expressions as in rules, and some that are designed to take long.
pub fn regex_seeds(_: &Seeds) -> Vec<Vec<u8>> {
    let pairs: &[(&str, &str)] = &[
        ("^/[a-z]{5,10}\\.php\\?id=\\d+$", "/gatexx.php?id=1234"),
        ("(a+)+$", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaab"),
        ("(?P<user>\\w+):(?P<pass>\\w+)", "root:toor"),
        ("^(?=.*cmd)(?!.*safe).*exe", "run cmd.exe"),
        ("(.)\\1{3,}", "abcccccd"),
        ("\\x2f\\x2e\\x2e(?:\\x2f|\\x5c)", "/../etc"),
        ("(?i)user-agent\\x3a[^\\r\\n]+bot", "User-Agent: a bot\r\n"),
        ("a.{1,400}b.{1,400}c", "a___b____c"),
    ];
    let mut seeds = Vec::new();
    for (pattern, hay) in pairs {
        for head in [0u8, 1, 7, 64] {
            let mut out = vec![head];
            put_text(&mut out, pattern.as_bytes());
            out.extend_from_slice(hay.as_bytes());
            seeds.push(out);
        }
    }
    seeds
}
