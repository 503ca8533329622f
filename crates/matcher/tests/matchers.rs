//! Every structure that finds patterns, compared with a naive reference: a table of named cases,
//! and random sets over small alphabets, where patterns overlap, repeat, are prefixes of each other
//! and hold zero bytes.
#![allow(clippy::print_stdout, reason = "a test prints its counts")]

use gabion_matcher::{
    Anchor, BufferMatcher, ExactSet, Matcher, NameEntry, NameKind, NameSet, Needle, Pattern,
    Scratch,
};
use proptest::prelude::*;

/// The definition: a pattern is found if it matches at any position.
fn reference(patterns: &[Pattern], hay: &[u8]) -> Vec<u32> {
    let matches = |p: &&Pattern| (0..=hay.len()).any(|start| p.matches_at(hay, start));
    let mut ids: Vec<u32> = patterns.iter().filter(matches).map(|p| p.id).collect();
    ids.sort_unstable();
    ids
}

fn scanned(matcher: &impl Matcher, scratch: &mut Scratch, hay: &[u8]) -> Vec<u32> {
    let mut ids = Vec::new();
    let scan = matcher.scan(hay, scratch, &mut |id| ids.push(id));
    assert_eq!(scan.hits as usize, ids.len());
    ids.sort_unstable();
    ids
}

/// Adds patterns that never match, so that a small set uses the gram filter.
fn with_fillers(patterns: &[Pattern]) -> Vec<Pattern> {
    let filler = (0..40u32).map(|n| Pattern::new(9_000 + n, format!("~~never {n}~~"), false));
    patterns.iter().cloned().chain(filler).collect()
}

fn check(patterns: &[Pattern], hays: &[&[u8]]) {
    let crowded = with_fillers(patterns);
    let matchers = [
        ("as it is", BufferMatcher::new(patterns)),
        ("crowded", BufferMatcher::with_seed(&crowded, 1, false)),
        ("crowded, portable", BufferMatcher::with_seed(&crowded, 2, true)),
    ];
    let mut scratch = Scratch::new();
    for hay in hays {
        let expected = reference(patterns, hay);
        for (name, matcher) in &matchers {
            let got = scanned(matcher, &mut scratch, hay);
            assert_eq!(got, expected, "{name}: {patterns:?} in {:?}", hay.escape_ascii());
        }
    }
}

fn plain(bytes: &[u8]) -> Pattern {
    Pattern::new(1, bytes, false)
}

fn nocase(bytes: &[u8]) -> Pattern {
    Pattern::new(1, bytes, true)
}

/// A matcher serves another set of patterns only where that is the same in all that it reports.
#[test]
fn a_matcher_is_of_the_same_patterns_only() {
    let long = "a pattern that is longer than two words of eight bytes";
    let patterns: Vec<Pattern> = (0..60)
        .map(|n| Pattern::new(n, format!("{n} {long}"), n % 2 == 0).between(n, 500))
        .chain([Pattern::new(60, "/x", false).anchored(Anchor::Start)])
        .collect();
    let matcher = BufferMatcher::new(&patterns);
    assert!(matcher.is_of(&patterns));
    assert_eq!(matcher.fingerprint(), BufferMatcher::fingerprint_of(&patterns));
    let changes: [fn(&mut Vec<Pattern>); 9] = [
        |p| p[3].id = 99,
        |p| p[3].bytes[20] = b'X',
        |p| p[2].nocase = false,
        |p| p[3].anchor = Anchor::End,
        |p| p[3].min_start += 1,
        |p| p[3].max_end -= 1,
        |p| p.swap(0, 1),
        |p| p.truncate(60),
        |p| p.push(Pattern::new(61, "y", false)),
    ];
    for (n, change) in changes.into_iter().enumerate() {
        let mut changed = patterns.clone();
        change(&mut changed);
        assert!(!matcher.is_of(&changed), "{n}");
        assert_ne!(matcher.fingerprint(), BufferMatcher::fingerprint_of(&changed), "{n}");
    }
}

#[test]
fn each_case_is_found_or_not() {
    let zeros = [0u8; 300];
    let spaces = [b' '; 300];
    let mut padded = zeros.to_vec();
    padded.extend_from_slice(b"\x01evil\0\0\0\0\0\x02");
    padded.extend_from_slice(&zeros);
    let long: Vec<u8> = (0..5000u32).map(|n| ((n * n) >> 3) as u8).collect();
    type Case<'a> = (&'static str, Vec<Pattern>, Vec<&'a [u8]>);
    let table: Vec<Case<'_>> = vec![
        ("empty set", vec![], vec![b"", b"x"]),
        ("empty pattern", vec![plain(b"")], vec![b"", b"x"]),
        ("one byte", vec![plain(b"x"), nocase(b"Y")], vec![b"x", b"y", b"Y", b"X", b""]),
        ("two bytes at both ends", vec![plain(b"ab")], vec![b"ab", b"xab", b"abx", b"a", b"ba"]),
        ("three bytes at both ends", vec![plain(b"abc")], vec![b"abc", b"xabc", b"abcx", b"ab"]),
        ("case counts", vec![plain(b"Evil.exe")], vec![b"/Evil.exe", b"/evil.exe"]),
        ("case doesn't count", vec![nocase(b"Evil.exe")], vec![b"/EVIL.EXE", b"/evil.exe"]),
        ("folding is for letters", vec![nocase(b"@[evil]^_")], vec![b"@[EVIL]^_", b"`{evil}~\x7f"]),
        ("zero isn't space", vec![plain(b"\0\0\0\0\0\0")], vec![&zeros, &spaces]),
        ("runs end", vec![plain(b"\x01\0\0\0\0\0"), plain(b"\0\0\0\0\0\x01")], vec![&padded]),
        ("short runs", vec![plain(b"\0\0\0"), plain(b"\0\0\0\0\x02")], vec![&padded, b"\0\0"]),
        (
            "zeros within bounds",
            vec![
                plain(b"\0\0\0").between(4, 8),
                plain(b"\0\0\0\0").between(4, 8),
                plain(b"\0\0\0\0\0\0\0\0").between(0, 9),
            ],
            vec![
                &zeros[..7],
                &zeros[..8],
                b"\0\0\0\0\x01\0\0\0",
                b"\0\0\0\x01\0\0\0\0",
                b"\x01\0\0\0\0\0\0\0\0",
                b"\x01\x01\0\0\0\0\0\0\0\0",
            ],
        ),
        ("long run", vec![plain(&zeros[..300]), plain(&zeros[..299])], vec![&padded, &zeros]),
        ("after a run", vec![plain(b"evil\0\0")], vec![&padded]),
        ("case in runs", vec![plain(b"aaaaaa"), nocase(b"AAAAAAA")], vec![b"AAAAaaaaAAAAaaaaaa"]),
        ("long patterns", vec![plain(&long[..4999]), plain(&long[1..])], vec![&long, &long[1..]]),
        ("starts", vec![nocase(b"GET ").anchored(Anchor::Start)], vec![b"get /", b" GET /"]),
        ("ends", vec![plain(b".exe").anchored(Anchor::End)], vec![b"a.exe", b"a.exe "]),
        ("whole", vec![plain(b"GET").anchored(Anchor::Exact)], vec![b"GET", b"GETS", b"GGET"]),
        (
            "label",
            vec![nocase(b"evil.com").anchored(Anchor::Label)],
            vec![b"evil.com", b"a.EVIL.com", b"notevil.com", b"evil.com."],
        ),
        (
            "bounds",
            vec![plain(b"evil!").between(2, 9), plain(b"e").between(1, 3)],
            vec![b"..evil!", b".evil!", b"....evil!", b".....evil!", b"evil!..evil!", b"e"],
        ),
        ("bounds too tight", vec![plain(b"evil").between(1, 4)], vec![b".evil"]),
        (
            "patterns that share a start are found by other bytes",
            (0..40)
                .map(|n| {
                    Pattern::new(n, format!("{}{n:02}", "x".repeat(70)), false)
                        .anchored(Anchor::Start)
                })
                .collect(),
            vec![
                b"xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx17 tail",
                b"xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx17",
            ],
        ),
    ];
    for (story, patterns, hays) in &table {
        println!("{story}");
        check(patterns, hays);
    }
}

#[test]
fn duplicates_and_prefixes_are_all_reported_once() {
    let patterns: Vec<Pattern> = ["evil", "evil", "evi", "ev", "e", "evil.", "vil", "devil"]
        .iter()
        .enumerate()
        .flat_map(|(n, text)| {
            [Pattern::new(n as u32, *text, false), Pattern::new(100 + n as u32, *text, true)]
        })
        .collect();
    check(&patterns, &[b"devil. devil. EVIL", b"EVIL", b"evi", b"evil.evil.evil.evil.evil."]);
}

#[test]
fn one_id_may_begin_at_for_two_patterns() {
    let patterns = [Pattern::new(7, "alpha", false), Pattern::new(7, "beta", false)];
    check(&patterns, &[b"alpha beta", b"beta"]);
}

#[test]
fn hostile_buffers_are_marked_and_bounded() {
    let patterns: Vec<Pattern> =
        (0..200).map(|n| Pattern::new(n, format!("GET /gate.php?id={n:03}&x"), true)).collect();
    let matcher = BufferMatcher::new(&patterns);
    let mut scratch = Scratch::new();
    let (mut whole, mut almost) = (Vec::new(), Vec::new());
    for n in 0..200 {
        whole.extend_from_slice(format!("GET /gate.php?id={n:03}&x").as_bytes());
        almost.extend_from_slice(format!("GET /gate.php?id={n:03}&y").as_bytes());
    }
    let mut hits = 0;
    let scan = matcher.scan(&whole, &mut scratch, &mut |_| hits += 1);
    assert_eq!(hits, 200);
    let positions = whole.len() as u32;
    assert!(scan.verified <= positions, "no position is verified repeatedly: {scan:?}");
    let again = matcher.scan(&whole, &mut scratch, &mut |_| {});
    assert_eq!(scan, again, "the cost depends only on the buffer");
    let scan = matcher.scan(&almost, &mut scratch, &mut |_| {});
    assert_eq!(scan.hits, 0);
    assert!(scan.verified <= positions);
    let calm = matcher.scan(b"GET /index.html HTTP/1.1", &mut scratch, &mut |_| {});
    assert!(!calm.overload);
}

#[test]
fn a_scan_that_ended_with_a_panic_does_not_affect_the_next() {
    let patterns = with_fillers(&[plain(b"evil.exe")]);
    let matcher = BufferMatcher::new(&patterns);
    let mut scratch = Scratch::new();
    let left = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        matcher.scan(b"/evil.exe", &mut scratch, &mut |_| std::panic::resume_unwind(Box::new(0)));
    }));
    assert!(left.is_err());
    assert_eq!(scanned(&matcher, &mut scratch, b"/evil.exe"), [1]);
}

#[test]
fn composition_counts_each_pattern_once() {
    let mut patterns = with_fillers(&[plain(b"x"), plain(b"xy"), plain(b"xyz")]);
    for anchor in [Anchor::Start, Anchor::End, Anchor::Label, Anchor::Exact] {
        patterns.push(plain(b"anchored").anchored(anchor));
    }
    let matcher = BufferMatcher::new(&patterns);
    let parts = matcher.composition();
    assert_eq!((parts.exact, parts.prefix, parts.suffix), (1, 1, 2));
    assert_eq!((parts.direct, parts.short, parts.filter), (2, 1, 40));
    assert_eq!(matcher.pattern_count(), 47);
    assert!(parts.memory_bytes > 0);
}

fn names(name: &[u8], entries: &[(&str, NameKind, bool)]) -> Vec<u32> {
    let set = NameSet::new(entries.iter().zip(0..).map(|(&(name, kind, nocase), id)| NameEntry {
        name: name.into(),
        kind,
        nocase,
        id,
    }));
    let mut ids = Vec::new();
    set.lookup(name, &mut |id| ids.push(id));
    ids.sort_unstable();
    ids
}

#[test]
fn names_match_themselves_or_names_below() {
    use NameKind::{Exact, Suffix};
    let entries = [
        ("evil.com", Exact, true),
        ("evil.com", Suffix, true),
        (".evil.com", Suffix, false),
        ("com", Suffix, true),
        ("", Suffix, true),
        ("a.very-long-name.with-many-labels.of-an-evil.example.com", Suffix, true),
    ];
    assert_eq!(names(b"evil.com", &entries), [0, 1, 2, 3]);
    assert_eq!(names(b"Evil.com", &entries), [0, 1, 3]);
    assert_eq!(names(b"a.b.evil.com", &entries), [1, 2, 3]);
    assert_eq!(names(b"notevil.com", &entries), [3]);
    assert_eq!(names(b"evil.com.", &entries), []);
    assert_eq!(names(b"", &entries), []);
    assert_eq!(
        names(b"x.a.very-long-name.with-many-labels.of-an-evil.example.com", &entries),
        [3, 5]
    );
    assert_eq!(names(b"x-a.very-long-name.with-many-labels.of-an-evil.example.com", &entries), [3]);
}

#[test]
fn exact_values_match_only_equal_values() {
    let set = ExactSet::new([
        (&b"GET"[..], false, 1),
        (b"get", true, 2),
        (b"GET", false, 3),
        (b"", false, 4),
        (b"e7d705a3286e19ea42f587b344ee6865", true, 5),
    ]);
    let ids = |value: &[u8]| {
        let mut ids = Vec::new();
        set.lookup(value, &mut |id| ids.push(id));
        ids.sort_unstable();
        ids
    };
    assert_eq!(ids(b"GET"), [1, 2, 3]);
    assert_eq!(ids(b"Get"), [2]);
    assert_eq!(ids(b"GETS"), []);
    assert_eq!(ids(b""), []);
    assert_eq!(ids(b"E7D705A3286E19EA42F587B344EE6865"), [5]);
}

fn bytes_of(alphabet: &'static [u8], len: core::ops::Range<usize>) -> BoxedStrategy<Vec<u8>> {
    prop::collection::vec(prop::sample::select(alphabet), len).boxed()
}

fn any_pattern(alphabet: &'static [u8], len: core::ops::Range<usize>) -> BoxedStrategy<Pattern> {
    let anchor = prop_oneof![
        8 => Just(Anchor::None),
        1 => Just(Anchor::Start),
        1 => Just(Anchor::End),
        1 => Just(Anchor::Exact),
        1 => Just(Anchor::Label),
    ];
    let bounds = prop_oneof![
        6 => Just((0, u32::MAX)),
        1 => (0u32..20, 0u32..60),
    ];
    (bytes_of(alphabet, len), any::<bool>(), anchor, bounds, 0u32..1000)
        .prop_map(|(bytes, nocase, anchor, (from, to), id)| {
            Pattern::new(id, bytes, nocase).anchored(anchor).between(from, to)
        })
        .boxed()
}

/// Slices of the haystack itself with random case and sometimes one byte changed.
fn pieces(hay: &[u8], cuts: &[(usize, usize, bool, Option<u8>)]) -> Vec<Pattern> {
    let piece = |(n, &(at, len, nocase, change)): (usize, &(usize, usize, bool, Option<u8>))| {
        let at = at % hay.len();
        let mut bytes = hay[at..hay.len().min(at + len)].to_vec();
        if let (Some(change), Some(last)) = (change, bytes.last_mut()) {
            *last = change;
        }
        Pattern::new(n as u32, bytes, nocase)
    };
    cuts.iter().enumerate().map(piece).collect()
}

const SMALL: &[u8] = b"abAB\0. \xff";
const TINY: &[u8] = b"aA\0";

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn random_sets_agree_with_the_reference(
        patterns in prop::collection::vec(any_pattern(SMALL, 0..9), 0..30),
        hay in bytes_of(SMALL, 0..150),
    ) {
        check(&patterns, &[&hay]);
    }

    #[test]
    fn runs_agree_with_the_reference(
        patterns in prop::collection::vec(any_pattern(TINY, 0..14), 0..12),
        runs in prop::collection::vec((prop::sample::select(TINY), 1usize..40), 0..12),
    ) {
        let hay: Vec<u8> = runs.iter().flat_map(|&(byte, len)| vec![byte; len]).collect();
        check(&patterns, &[&hay]);
    }

    #[test]
    fn zeros_agree_with_the_reference(
        zeros in prop::collection::vec((2usize..10, 0u32..40, 0u32..40), 1..8),
        runs in prop::collection::vec((0u8..2, 1usize..11), 0..16),
    ) {
        let pattern = |(id, &(len, from, room)): (usize, &(usize, u32, u32))| {
            let pattern = Pattern::new(id as u32, vec![0; len], false);
            if room < 30 { pattern.between(from, from + room) } else { pattern }
        };
        let patterns: Vec<Pattern> = zeros.iter().enumerate().map(pattern).collect();
        let hay: Vec<u8> = runs.iter().flat_map(|&(byte, len)| vec![byte; len]).collect();
        check(&patterns, &[&hay]);
    }

    #[test]
    fn pieces_of_long_buffers_are_found(
        hay in prop::collection::vec(any::<u8>(), 1..3000),
        cuts in prop::collection::vec(
            (any::<usize>(), 1usize..40, any::<bool>(), prop::option::of(any::<u8>())), 1..40),
    ) {
        check(&pieces(&hay, &cuts), &[&hay]);
    }

    #[test]
    fn names_agree_with_their_patterns(
        entries in prop::collection::vec(
            (bytes_of(b"abA.", 0..40), any::<bool>(), any::<bool>()), 0..30),
        name in bytes_of(b"abA.", 0..60),
    ) {
        let patterns: Vec<Pattern> = entries.iter().zip(0..).map(|((bytes, below, nocase), id)| {
            let anchor = if *below { Anchor::Label } else { Anchor::Exact };
            let bytes = if *below { bytes.strip_prefix(b".").unwrap_or(bytes) } else { bytes };
            Pattern::new(id, bytes, *nocase).anchored(anchor)
        }).collect();
        let set = NameSet::new(entries.iter().zip(0..).map(|((bytes, below, nocase), id)| NameEntry {
            name: bytes.clone(),
            kind: if *below { NameKind::Suffix } else { NameKind::Exact },
            nocase: *nocase,
            id,
        }));
        let mut ids = Vec::new();
        set.lookup(&name, &mut |id| ids.push(id));
        ids.sort_unstable();
        prop_assert_eq!(ids, reference(&patterns, &name));
    }

    #[test]
    fn needles_find_the_first_occurrence(
        needle in bytes_of(SMALL, 0..12),
        hay in bytes_of(SMALL, 0..120),
        nocase in any::<bool>(),
        from in 0usize..130,
    ) {
        let same = |window: &[u8]| {
            if nocase { window.eq_ignore_ascii_case(&needle) } else { window == needle }
        };
        let expected = (from..hay.len() + 1)
            .find(|&at| hay.get(at..at + needle.len()).is_some_and(same));
        prop_assert_eq!(Needle::new(&needle, nocase).find_in(&hay, from), expected);
    }
}
