//! Numbers that a string of letters is judged by: the same, in the same order, as in
//! `scripts/train_c2.py`.

use super::letters::Token;

/// How many there are.
pub(crate) const COUNT: usize = 72;
/// What they are about.
pub const GROUPS: [&str; 4] = ["periodicity", "sizes", "span", "letters"];
const P: usize = 0;
const S: usize = 1;
const T: usize = 2;
const L: usize = 3;
/// The group of each.
pub(crate) const GROUP_OF: [usize; COUNT] = [
    L, P, P, P, P, S, S, S, S, S, S, T, T, T, T, T, T, T, T, T, T, L, S, S, T, P, L, S, S, T, S, L,
    L, L, S, S, S, S, S, S, S, S, S, S, L, S, T, S, S, S, S, S, S, S, S, S, S, S, S, S, T, T, T, T,
    P, P, P, P, L, S, S, S,
];

/// Typical seconds of each kind of gap.
const SECONDS: [f64; 5] = [2.0, 20.0, 150.0, 1200.0, 0.0];

type Tokens<'a> = &'a [Token];

fn share(t: Tokens<'_>, test: impl Fn(&Token) -> bool) -> f64 {
    t.iter().filter(|x| test(x)).count() as f64 / t.len() as f64
}

/// How often a key is the same as `by` tokens before.
fn same<K: PartialEq>(t: Tokens<'_>, by: usize, key: impl Fn(&Token) -> K) -> f64 {
    let pairs = t.iter().zip(t.iter().skip(by));
    let alike = pairs.filter(|(a, b)| key(a) == key(b)).count();
    alike as f64 / t.len().saturating_sub(by).max(1) as f64
}

/// How often each value of a key (below 128) comes.
fn counts(t: Tokens<'_>, key: impl Fn(&Token) -> u8) -> [u32; 128] {
    let mut counts = [0; 128];
    for x in t {
        if let Some(n) = counts.get_mut(usize::from(key(x) & 127)) {
            *n += 1;
        }
    }
    counts
}

fn entropy(t: Tokens<'_>, key: impl Fn(&Token) -> u8) -> f64 {
    let n = t.len() as f64;
    let part = |c: &u32| {
        let p = f64::from(*c) / n;
        p * p.log2()
    };
    -counts(t, key).iter().filter(|c| **c > 0).map(part).sum::<f64>()
}

fn most(t: Tokens<'_>, key: impl Fn(&Token) -> u8) -> f64 {
    f64::from(counts(t, key).into_iter().max().unwrap_or(0))
}

fn longest(t: Tokens<'_>, key: impl Fn(&Token) -> u8) -> f64 {
    let (mut best, mut run, mut last) = (0u32, 0, None);
    for x in t {
        run = if last == Some(key(x)) { run + 1 } else { 1 };
        last = Some(key(x));
        best = best.max(run);
    }
    f64::from(best)
}

fn mean(values: impl Iterator<Item = u8>) -> f64 {
    let (sum, n) = values.fold((0u32, 0u32), |(sum, n), v| (sum + u32::from(v), n + 1));
    if n == 0 { -1.0 } else { f64::from(sum) / f64::from(n) }
}

fn both(x: &Token) -> u8 {
    x.size * 3 + x.duration
}

/// Runs of flows at gaps of seconds: how many, their sum and the longest.
fn bursts(t: Tokens<'_>) -> (f64, f64, f64) {
    let (mut count, mut sum, mut best) = (0u32, 0u32, 0u32);
    for run in t.chunk_by(|a, b| (a.gap == 0) == (b.gap == 0)) {
        if run.first().is_some_and(|x| x.gap == 0) {
            let len = run.len() as u32;
            (count, sum, best) = (count + 1, sum + len, best.max(len));
        }
    }
    (f64::from(count), f64::from(sum), f64::from(best))
}

/// The numbers of a string; `None` when it has no letter.
pub(crate) fn from_tokens(t: &[Token]) -> Option<[f64; COUNT]> {
    let (first, last) = (t.first()?, t.last()?);
    let n = t.len() as f64;
    let mut f: Vec<f64> = Vec::with_capacity(COUNT);
    f.push(n.ln());
    f.extend((1..5).map(|p| share(t, |x| x.class == p)));
    f.extend((0..3).map(|p| share(t, |x| x.size == p)));
    f.extend((0..3).map(|p| share(t, |x| x.duration == p)));
    f.extend((0..5).map(|p| share(t, |x| x.gap == p)));
    let hours: f64 = t.iter().map(|x| f64::from(x.hours)).sum();
    let seconds = |x: &Token| SECONDS.get(usize::from(x.gap)).copied().unwrap_or(0.0);
    let span = (1.0 + t.iter().map(|x| seconds(x) + 3600.0 * f64::from(x.hours)).sum::<f64>()).ln();
    f.extend([
        hours / n,
        t.iter().map(|x| x.hours).max().map_or(0.0, f64::from),
        share(t, |x| x.hours > 0),
        span,
        span - n.ln(),
        same(t, 1, |x| x.letter),
        same(t, 1, |x| x.size),
        same(t, 1, |x| x.duration),
        same(t, 1, |x| x.gap),
        same(t, 1, |x| x.class),
        entropy(t, |x| x.letter),
        entropy(t, |x| x.size),
        entropy(t, |x| x.duration),
        entropy(t, |x| x.gap),
        entropy(t, both),
    ]);
    let distinct = counts(t, |x| x.letter).iter().filter(|c| **c > 0).count() as f64;
    f.extend([distinct, distinct / n, most(t, |x| x.letter) / n, most(t, both) / n]);
    f.extend((0..9).map(|k| share(t, |x| both(x) == k)));
    let in_burst = t.windows(2).filter(|w| w.iter().all(|x| x.gap == 0)).count() as f64;
    f.extend([
        longest(t, |x| x.letter) / n,
        longest(t, both) / n,
        in_burst / (n - 1.0).max(1.0),
        f64::from(first.size),
        f64::from(first.duration),
        f64::from(last.size),
        f64::from(last.duration),
    ]);
    for g in 0..4 {
        f.push(mean(t.iter().filter(|x| x.gap == g).map(|x| x.size)));
        f.push(mean(t.iter().filter(|x| x.gap == g).map(|x| x.duration)));
    }
    let slow: Vec<Token> = t.iter().copied().filter(|x| x.gap != 0).collect();
    let (count, sum, best) = bursts(t);
    f.extend([
        most(&slow, both) / (slow.len() as f64).max(1.0),
        slow.len() as f64 / n,
        count / n,
        sum / count.max(1.0),
        best,
    ]);
    f.extend((1..5).map(|p| mean(t.iter().filter(|x| x.class == p).map(|x| x.size))));
    f.extend([
        same(t, 2, |x| x.letter),
        same(t, 2, both),
        mean(t.iter().map(|x| x.size)),
        mean(t.iter().map(|x| x.duration)),
    ]);
    f.try_into().ok()
}
