//! How regular the flows of a pair are: RITA's beacon score and its parts.
//!
//! How alike intervals are (skew and spread of their quartiles), how alike sizes are, how evenly flows fill the 24
//! parts of the span, and how much of the span they cover. All formulas are those of RITA v5 (2026).

/// Seconds of a day.
const DAY: i64 = 86_400;

/// A score and its parts, each 0 to 1.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Score {
    /// The mean of the four.
    pub all: f64,
    /// Of intervals.
    pub intervals: f64,
    /// Of sizes.
    pub sizes: f64,
    /// Of the histogram: how little its bins vary.
    pub evenness: f64,
    /// Of the histogram: how much of it has two heights only.
    pub bimodal: f64,
    /// How much of the span is covered.
    pub coverage: f64,
}

impl Score {
    /// The better view of the histogram.
    pub(crate) fn histogram(&self) -> f64 {
        self.evenness.max(self.bimodal)
    }
}

/// Scores flows (second, bytes) of a span, and others of which is only known how many there were at which moments;
/// `None` when there are too few.
pub(crate) fn score(
    flows: &[(u32, u32)],
    others: &[(u32, u32)],
    begin: i64,
    end: i64,
) -> Option<Score> {
    let mut times: Vec<i64> = flows.iter().map(|f| i64::from(f.0)).collect();
    times.sort_unstable();
    let mut unique = times.clone();
    unique.dedup();
    let all = others.iter().fold(flows.len(), |sum, (_, n)| sum + *n as usize);
    if unique.len() < 4 || all >= DAY as usize {
        return None;
    }
    let mut intervals: Vec<f64> =
        unique.windows(2).filter_map(|w| Some((w.get(1)? - w.first()?) as f64)).collect();
    let mut sizes: Vec<f64> = flows.iter().map(|f| f64::from(f.1)).collect();
    if intervals.len() < 3 || sizes.len() < 3 {
        return None;
    }
    let bins = histogram(&times, others, begin, end);
    let used = bins.iter().filter(|n| **n > 0).count();
    let span = (end - begin).max(1) as f64;
    let last = others.iter().map(|(at, _)| i64::from(*at)).max().max(times.last().copied())?;
    let covered = (last - times.first()?) as f64;
    let intervals = regularity(&mut intervals, 1.0);
    let sizes = regularity(&mut sizes, 0.0);
    let evenness = evenness(&bins);
    let bimodal = if used >= 11 { bimodal(&bins, used) } else { 0.0 };
    let coverage = match used {
        0..6 => 0.0,
        _ => ceil3(covered / span).min(1.0).max(ceil3(longest_run(&bins) as f64 / 12.0).min(1.0)),
    };
    let parts = intervals + sizes + coverage + evenness.max(bimodal);
    Some(Score { all: round3(parts / 4.0), intervals, sizes, evenness, bimodal, coverage })
}

/// Parts of the day.
const BINS: usize = 24;

fn histogram(times: &[i64], others: &[(u32, u32)], begin: i64, end: i64) -> [u32; BINS] {
    let mut bins = [0u32; BINS];
    let width = (end - begin).max(1) as f64 / BINS as f64;
    let others = others.iter().map(|(at, n)| (i64::from(*at), *n));
    for (t, n) in times.iter().map(|t| (*t, 1)).chain(others) {
        let at = (((t - begin) as f64) / width).clamp(0.0, (BINS - 1) as f64) as usize;
        if let Some(bin) = bins.get_mut(at) {
            *bin = bin.saturating_add(n);
        }
    }
    bins
}

/// How alike values are: by Bowley's skew of their quartiles and their median's deviation.
/// `otherwise` counts for the deviation when the median is below 1.
fn regularity(values: &mut [f64], otherwise: f64) -> f64 {
    values.sort_unstable_by(f64::total_cmp);
    let half = values.len() / 2;
    let (lower, upper) = (values.get(..half), values.get(values.len() - half..));
    let q1 = median(lower.unwrap_or_default());
    let q2 = median(values);
    let q3 = median(upper.unwrap_or_default());
    let range = q3 - q1;
    let skew =
        if range < 10.0 || q2 == q1 || q2 == q3 { 0.0 } else { (q1 + q3 - 2.0 * q2) / range };
    let mut distances: Vec<f64> = values.iter().map(|x| (x - q2).abs()).collect();
    distances.sort_unstable_by(f64::total_cmp);
    let deviation = median(&distances);
    let even = if q2 >= 1.0 { ((q2 - deviation) / q2).max(0.0) } else { otherwise };
    round3((1.0 - skew.abs() + even) / 2.0)
}

fn median(sorted: &[f64]) -> f64 {
    let half = sorted.len() / 2;
    let at = |i: usize| sorted.get(i).copied().unwrap_or(0.0);
    match sorted.len() {
        0 => 0.0,
        n if n % 2 == 1 => at(half),
        _ => (at(half - 1) + at(half)) / 2.0,
    }
}

fn evenness(bins: &[u32; BINS]) -> f64 {
    let n = BINS as f64;
    let mean = bins.iter().map(|b| f64::from(*b)).sum::<f64>() / n;
    if mean == 0.0 {
        return 0.0;
    }
    let variance = bins.iter().map(|b| (f64::from(*b) - mean).powi(2)).sum::<f64>() / n;
    round3((1.0 - variance.sqrt() / mean).max(0.0))
}

fn bimodal(bins: &[u32; BINS], used: usize) -> f64 {
    let most = bins.iter().copied().max().unwrap_or(0);
    let step = (f64::from(most) * 0.05).ceil().max(1.0) as u32;
    let mut heights: Vec<u32> = bins.iter().filter(|b| **b > 0).map(|b| b / step).collect();
    heights.sort_unstable();
    let mut counts: Vec<usize> = heights.chunk_by(|a, b| a == b).map(<[u32]>::len).collect();
    counts.sort_unstable_by(|a, b| b.cmp(a));
    let two: usize = counts.iter().take(2).sum();
    round3((two as f64 / (used - 1).max(1) as f64).min(1.0))
}

/// The longest run of used bins, the day taken as a circle.
fn longest_run(bins: &[u32; BINS]) -> usize {
    let (mut run, mut longest) = (0, 0);
    for bin in bins.iter().chain(bins.iter()) {
        run = if *bin > 0 { run + 1 } else { 0 };
        longest = longest.max(run);
    }
    longest.min(BINS)
}

fn round3(x: f64) -> f64 {
    (x * 1000.0).round() / 1000.0
}

fn ceil3(x: f64) -> f64 {
    (x * 1000.0).ceil() / 1000.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_of_the_score_are_ritas() {
        // Bowley's skew of 1..8 is 0; the median 4.5 deviates by 2.
        assert_eq!(regularity(&mut [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0], 1.0), 0.778);
        assert_eq!(evenness(&[5; BINS]), 1.0);
        assert_eq!(bimodal(&[7; BINS], 24), 1.0);
        let mut night = [0; BINS];
        night[22..].fill(1);
        night[..3].fill(1);
        assert_eq!(longest_run(&night), 5);
        assert_eq!(score(&[(1, 1), (1, 1), (2, 1)], &[], 0, 10), None);
    }
}
