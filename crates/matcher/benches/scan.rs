//! The cost of a scan: time per call on short buffers, bytes per second on long ones, and hostile
//! traffic, each compared with `aho-corasick`. Pattern sets are the fast patterns of the Emerging
//! Threats rules, buffers those of the bench capture; without the corpus (`GABION_CORPUS`) nothing
//! is measured.
//!
//! `cargo bench -p gabion-matcher --bench scan [-- FILTER]`
#![allow(clippy::print_stdout, reason = "the results are printed to a terminal")]

#[allow(missing_docs, unreachable_pub)]
mod corpus;

use aho_corasick::{AhoCorasick, AhoCorasickKind};
use corpus::Corpus;
use divan::counter::BytesCount;
use divan::{Bencher, black_box};
use gabion_matcher::{BufferMatcher, Matcher, NameEntry, NameKind, NameSet, Needle, Scratch};
use std::fmt;
use std::sync::OnceLock;

fn main() {
    if corpus().is_none() {
        println!("skipped: the corpus is absent (set GABION_CORPUS)");
        return;
    }
    divan::main();
}

fn corpus() -> Option<&'static Corpus> {
    static CORPUS: OnceLock<Option<Corpus>> = OnceLock::new();
    CORPUS.get_or_init(Corpus::load).as_ref()
}

/// A pattern set and the buffers that are searched for it.
#[derive(Clone, Copy)]
struct Case {
    set: &'static str,
    buffer: &'static str,
    /// Buffers are cut to this length; 0 leaves them whole.
    len: usize,
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.len {
            0 => write!(f, "{} in {}", self.set, self.buffer),
            len => write!(f, "{} in {} of {len} B", self.set, self.buffer),
        }
    }
}

impl fmt::Debug for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

const PAIRS: &[(&str, &str)] = &[
    ("http.uri", "http.uri"),
    ("http.header", "http.header"),
    ("http.user_agent", "http.user_agent"),
    ("http.host", "http.host"),
    ("dns.query", "dns.query"),
    ("tls.sni", "tls.sni"),
    ("payload", "tcp"),
    ("payload", "udp"),
    ("file_data", "tcp"),
];

fn cases(lens: &'static [usize]) -> impl Iterator<Item = Case> {
    PAIRS
        .iter()
        .flat_map(move |&(set, buffer)| lens.iter().map(move |&len| Case { set, buffer, len }))
        .filter(|case| !case.hays().is_empty())
}

impl Case {
    fn hays(&self) -> Vec<Vec<u8>> {
        let Some(all) = corpus().and_then(|corpus| corpus.buffers.get(self.buffer)) else {
            return Vec::new();
        };
        let long_enough = all.iter().filter(|hay| hay.len() >= self.len.max(1));
        let cut = |hay: &Vec<u8>| hay[..if self.len == 0 { hay.len() } else { self.len }].to_vec();
        long_enough.map(cut).take(1024).collect()
    }

    fn patterns(&self) -> &'static [gabion_matcher::Pattern] {
        corpus().and_then(|corpus| corpus.sets.get(self.set)).map_or(&[], Vec::as_slice)
    }
}

/// Measures calls of `scan`, each with the next buffer.
fn each(bencher: Bencher<'_, '_>, hays: &[Vec<u8>], mut scan: impl FnMut(&[u8])) {
    let bytes: usize = hays.iter().map(Vec::len).sum();
    let mut next = 0;
    bencher.counter(BytesCount::new(bytes / hays.len().max(1))).bench_local(|| {
        next = if next + 1 < hays.len() { next + 1 } else { 0 };
        scan(black_box(&hays[next]));
    });
}

#[divan::bench(args = cases(&[0, 30, 60, 120, 1400]), sample_size = 1024, sample_count = 20)]
fn filter(bencher: Bencher<'_, '_>, case: Case) {
    let matcher = BufferMatcher::new(case.patterns());
    let mut scratch = Scratch::new();
    each(bencher, &case.hays(), |hay| {
        black_box(matcher.scan(hay, &mut scratch, &mut |id| _ = black_box(id)));
    });
}

#[divan::bench(args = cases(&[0, 30, 60, 120, 1400]), sample_size = 1024, sample_count = 20)]
fn aho_corasick(bencher: Bencher<'_, '_>, case: Case) {
    let patterns = case.patterns();
    let matcher = AhoCorasick::builder()
        .kind(Some(AhoCorasickKind::ContiguousNFA))
        .ascii_case_insensitive(true)
        .build(patterns.iter().map(|pattern| &pattern.bytes))
        .expect("the set is within its limits");
    each(bencher, &case.hays(), |hay| {
        for found in matcher.find_overlapping_iter(hay) {
            let pattern = &patterns[found.pattern().as_usize()];
            black_box(pattern.matches_at(hay, found.start()));
        }
    });
}

/// Traffic that consists of the patterns themselves.
#[divan::bench(args = ["whole", "prefix", "suffix", "random"], consts = [0, 6], sample_size = 1024, sample_count = 20)]
fn hostile<const PAIR: usize>(bencher: Bencher<'_, '_>, kind: &str) {
    let case = Case { set: PAIRS[PAIR].0, buffer: PAIRS[PAIR].1, len: 0 };
    let (matcher, mut scratch) = (BufferMatcher::new(case.patterns()), Scratch::new());
    let hays = corpus::concatenated(case.patterns(), kind, 1400, 256);
    each(bencher, &hays, |hay| {
        black_box(matcher.scan(hay, &mut scratch, &mut |id| _ = black_box(id)));
    });
}

#[divan::bench(args = ["dns.query", "tls.sni", "http.host"], sample_size = 1024, sample_count = 20)]
fn names(bencher: Bencher<'_, '_>, set: &'static str) {
    let case = Case { set, buffer: set, len: 0 };
    let entry = |pattern: &gabion_matcher::Pattern| NameEntry {
        name: pattern.bytes.clone(),
        kind: NameKind::Suffix,
        nocase: pattern.nocase,
        id: pattern.id,
    };
    let names = NameSet::new(case.patterns().iter().map(entry));
    each(bencher, &case.hays(), |name| names.lookup(name, &mut |id| _ = black_box(id)));
}

/// A search for one content in real buffers.
#[divan::bench(args = [30, 60, 120, 1400], consts = [false, true], sample_size = 1024, sample_count = 20)]
fn needle<const NOCASE: bool>(bencher: Bencher<'_, '_>, len: usize) {
    let case = Case { set: "payload", buffer: "tcp", len };
    let needle = Needle::new(b"User-Agent: Mozilla", NOCASE);
    each(bencher, &case.hays(), |hay| _ = black_box(needle.find_in(hay, 0)));
}

/// Builds the matchers of all pattern sets.
#[divan::bench(sample_count = 20)]
fn build(bencher: Bencher<'_, '_>) {
    let Some(corpus) = corpus() else { return };
    bencher.bench(|| {
        corpus.sets.values().map(|set| BufferMatcher::new(set).pattern_count()).sum::<usize>()
    });
}
