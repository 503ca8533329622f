//! Charts as SVG text: bars of hosts, a timeline, a matrix of scans, intervals of a beacon.

use super::{Host, LEVELS, Pair, colour, escaped};
use gabion_record::evidence::ThreatLevel;
use gabion_record::logs::{SECOND, TimeNs};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

/// Width of all charts, in their own units.
const WIDTH: f64 = 1000.0;
/// Bars shown.
const HOSTS: usize = 20;
/// Rows and columns of the matrix.
const SOURCES: usize = 24;
const TARGETS: usize = 24;
/// Bars of the timeline.
const BINS: usize = 96;
/// Dots of a beacon.
const DOTS: usize = 1024;

fn figure(height: f64, caption: &str, body: &str) -> String {
    let caption = escaped(caption);
    format!(
        "<figure><svg viewBox=\"0 0 {WIDTH} {height:.0}\" role=\"img\" aria-label=\"{caption}\">{body}</svg>\
         <figcaption>{caption}</figcaption></figure>"
    )
}

/// A moment to the minute.
pub(super) fn time(second: i64) -> String {
    let text = TimeNs(second.saturating_mul(SECOND)).iso().to_string();
    text.get(..16).unwrap_or_default().replace('T', " ")
}

/// Hosts by score; the parts of a bar are their evidence by level.
pub(super) fn bars(hosts: &[Host], there: u64) -> String {
    let most = hosts.iter().map(|h| h.score).fold(1e-9, f64::max);
    let mut body = String::new();
    for (n, host) in hosts.iter().take(HOSTS).enumerate() {
        let y = n as f64 * 24.0;
        let whole = (host.score / most * 640.0).max(2.0);
        let weight = |at: usize| LEVELS.get(at).map_or(0.0, |l| l.weight()).max(0.02);
        let sum: f64 = host.levels.iter().enumerate().map(|(at, n)| *n as f64 * weight(at)).sum();
        let _ = write!(body, "<text x=\"0\" y=\"{}\">{}</text>", y + 16.0, escaped(&host.ip));
        let mut x = 270.0;
        for (at, n) in host.levels.iter().enumerate().filter(|(_, n)| **n > 0) {
            let width = whole * (*n as f64 * weight(at)) / sum.max(1e-9);
            let Some(level) = LEVELS.get(at) else { continue };
            let _ = write!(
                body,
                "<rect x=\"{x:.1}\" y=\"{:.1}\" width=\"{width:.1}\" height=\"16\" fill=\"{}\"><title>{n} {}</title></rect>",
                y + 4.0,
                colour(*level),
                level.name()
            );
            x += width;
        }
        let alerts = match host.alerts {
            0 => String::new(),
            1 => ", 1 alert".to_owned(),
            n => format!(", {n} alerts"),
        };
        let _ = write!(
            body,
            "<text x=\"{:.1}\" y=\"{}\">{:.1}{alerts}</text>",
            x + 6.0,
            y + 16.0,
            host.score
        );
    }
    let shown = hosts.len().min(HOSTS);
    let caption = format!(
        "{shown} of {} hosts with evidence, by the sum of threat level times confidence",
        there.max(hosts.len() as u64)
    );
    figure((shown.max(1) * 24) as f64, &caption, &body)
}

/// Evidence over time, stacked by level; heights are logarithmic, so that one critical finding stands
/// beside a thousand small ones.
pub(super) fn timeline(moments: &[(i64, ThreatLevel, u64)]) -> String {
    let first = moments.iter().map(|m| m.0).min().unwrap_or(0);
    let last = moments.iter().map(|m| m.0).max().unwrap_or(0);
    let span = last.saturating_sub(first).max(1) as f64 + 1.0;
    let mut bins = vec![[0u64; 5]; BINS];
    for (second, level, times) in moments {
        let at = (second.saturating_sub(first) as f64 / span * BINS as f64) as usize;
        let place = LEVELS.iter().position(|l| l == level).unwrap_or(0);
        if let Some(n) = bins.get_mut(at).and_then(|b| b.get_mut(place)) {
            *n += times;
        }
    }
    let height = |n: u64| (n as f64 + 1.0).log2() * 10.0;
    let of = |bin: &[u64; 5]| bin.iter().map(|n| height(*n)).sum::<f64>();
    let most = bins.iter().map(of).fold(10.0, f64::max);
    let mut body = String::new();
    let width = WIDTH / BINS as f64;
    for (at, bin) in bins.iter().enumerate() {
        let mut y = 180.0;
        for (place, n) in bin.iter().enumerate().filter(|(_, n)| **n > 0) {
            let tall = height(*n) / most * 170.0;
            y -= tall;
            let Some(level) = LEVELS.get(place) else { continue };
            let begin = first.saturating_add((at as f64 * span / BINS as f64) as i64);
            let _ = write!(
                body,
                "<rect x=\"{:.1}\" y=\"{y:.1}\" width=\"{:.1}\" height=\"{tall:.1}\" fill=\"{}\"><title>{} {}: {n}</title></rect>",
                at as f64 * width,
                width - 1.0,
                colour(*level),
                time(begin),
                level.name()
            );
        }
    }
    // A short time has no need of three marks.
    let marks: &[f64] = match last.saturating_sub(first) {
        0 => &[0.0],
        1..240 => &[0.0, 1.0],
        _ => &[0.0, 0.25, 0.5, 0.75, 1.0],
    };
    for mark in marks {
        let anchor = match *mark {
            m if m <= 0.0 => "start",
            m if m >= 1.0 => "end",
            _ => "middle",
        };
        let second = first.saturating_add((last.saturating_sub(first) as f64 * mark) as i64);
        let _ = write!(
            body,
            "<text x=\"{:.1}\" y=\"198\" text-anchor=\"{anchor}\">{}</text>",
            mark * WIDTH,
            time(second)
        );
    }
    figure(
        204.0,
        "Pieces of evidence over event time (UTC), by level; heights are logarithmic",
        &body,
    )
}

/// Who scanned which port or host, and how much of it.
pub(super) fn matrix(scans: &[(String, String, u64)]) -> String {
    let mut cells: BTreeMap<(&str, &str), u64> = BTreeMap::new();
    let (mut sources, mut targets): (BTreeMap<&str, u64>, BTreeMap<&str, u64>) = Default::default();
    for (source, target, n) in scans {
        let cell = cells.entry((source.as_str(), target.as_str())).or_default();
        *cell = (*cell).max(*n);
        *sources.entry(source).or_default() += n;
        *targets.entry(target).or_default() += n;
    }
    let top = |all: &BTreeMap<&str, u64>, most: usize| -> Vec<String> {
        let mut by: Vec<(&str, u64)> = all.iter().map(|(k, n)| (*k, *n)).collect();
        by.sort_by(|a, b| b.1.cmp(&a.1).then(a.0.cmp(b.0)));
        by.into_iter().take(most).map(|(k, _)| k.to_owned()).collect()
    };
    let (rows, columns) = (top(&sources, SOURCES), top(&targets, TARGETS));
    let most = cells.values().copied().max().unwrap_or(1).max(2) as f64;
    let width = (WIDTH - 280.0) / columns.len().max(1) as f64;
    let mut body = String::new();
    for (n, column) in columns.iter().enumerate() {
        let x = 280.0 + (n as f64 + 0.5) * width;
        let _ = write!(
            body,
            "<text transform=\"translate({x:.1} 104) rotate(-60)\">{}</text>",
            escaped(column)
        );
    }
    for (at, row) in rows.iter().enumerate() {
        let y = 110.0 + at as f64 * 24.0;
        let _ = write!(body, "<text x=\"0\" y=\"{:.1}\">{}</text>", y + 16.0, escaped(row));
        for (n, column) in columns.iter().enumerate() {
            let Some(count) = cells.get(&(row.as_str(), column.as_str())) else { continue };
            let shade = 0.15 + 0.85 * (*count as f64).ln().max(0.0) / most.ln();
            let x = 280.0 + n as f64 * width;
            let _ = write!(
                body,
                "<rect x=\"{x:.1}\" y=\"{y:.1}\" width=\"{:.1}\" height=\"22\" fill=\"{}\" fill-opacity=\"{shade:.2}\">\
                 <title>{} → {}: {count}</title></rect>",
                width - 2.0,
                colour(ThreatLevel::High),
                escaped(row),
                escaped(column)
            );
            if width > 34.0 {
                let _ = write!(
                    body,
                    "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{count}</text>",
                    x + width / 2.0,
                    y + 16.0
                );
            }
        }
    }
    let caption = format!(
        "Hosts tried on a port, or ports tried on a host, as last reported: {} of {} sources, {} of {} targets",
        rows.len(),
        sources.len(),
        columns.len(),
        targets.len()
    );
    figure(116.0 + rows.len() as f64 * 24.0, &caption, &body)
}

/// Time from one flow of a pair to the next, over time: a beacon is a line.
pub(super) fn intervals(pair: &Pair) -> String {
    let gaps: Vec<(u32, u32)> = pair
        .seconds
        .windows(2)
        .filter_map(|w| Some((*w.get(1)?, w.get(1)?.saturating_sub(*w.first()?))))
        .collect();
    let mut sorted: Vec<u32> = gaps.iter().map(|g| g.1).collect();
    sorted.sort_unstable();
    let at = |share: f64| sorted.get((sorted.len() as f64 * share) as usize).copied().unwrap_or(0);
    let (median, top) = (at(0.5), f64::from(at(0.98).max(1)) * 1.15);
    let (first, last) =
        (pair.seconds.first().copied().unwrap_or(0), pair.seconds.last().copied().unwrap_or(1));
    let span = f64::from(last.saturating_sub(first).max(1));
    let mut body = String::new();
    let y = |gap: f64| 140.0 - (gap / top).min(1.0) * 130.0;
    // Nothing, the median and the top of the scale.
    for (gap, is_median) in [(0.0, false), (f64::from(median), true), (top, false)] {
        let is_beside = !is_median && (y(gap) - y(f64::from(median))).abs() < 14.0;
        let strength = if is_median { 0.5 } else { 0.15 };
        let _ = write!(
            body,
            "<line x1=\"70\" x2=\"{WIDTH}\" y1=\"{0:.1}\" y2=\"{0:.1}\" stroke=\"currentColor\" \
             stroke-opacity=\"{strength}\"/>",
            y(gap)
        );
        if !is_beside {
            let _ = write!(body, "<text x=\"0\" y=\"{:.1}\">{gap:.0} s</text>", y(gap) + 4.0);
        }
    }
    let mut drawn = BTreeSet::new();
    for (second, gap) in gaps.iter().take(DOTS) {
        let x = 70.0 + f64::from(second.saturating_sub(first)) / span * (WIDTH - 76.0);
        let y = y(f64::from(*gap));
        if drawn.insert((x as u32, y as u32)) {
            let fill = colour(ThreatLevel::High);
            let _ = write!(body, "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"2.5\" fill=\"{fill}\"/>");
        }
    }
    let (from, to, n) = (&pair.from, &pair.to, pair.seconds.len());
    let caption = format!(
        "{from} → {to}: {n} flows from {} to {}, median interval {median} s",
        time(first.into()),
        time(last.into())
    );
    figure(150.0, &caption, &body)
}

/// Numbers by name.
pub(super) fn counts(all: &[(String, u64)]) -> String {
    let mut sorted: Vec<&(String, u64)> = all.iter().collect();
    sorted.sort_by(|a, b| b.1.cmp(&a.1).then(a.0.cmp(&b.0)));
    let most = sorted.first().map_or(1, |r| r.1).max(1) as f64;
    let mut body = String::new();
    for (n, (name, count)) in sorted.iter().take(30).enumerate() {
        let y = n as f64 * 22.0;
        let width = (*count as f64).ln_1p() / most.ln_1p() * 600.0;
        let _ = write!(
            body,
            "<text x=\"0\" y=\"{:.0}\">{}</text><rect x=\"200\" y=\"{:.0}\" width=\"{width:.1}\" height=\"14\" fill=\"{}\"/>\
             <text x=\"{:.1}\" y=\"{:.0}\">{count}</text>",
            y + 14.0,
            escaped(name),
            y + 3.0,
            colour(ThreatLevel::Low),
            206.0 + width,
            y + 14.0
        );
    }
    figure(
        (sorted.len().clamp(1, 30) * 22) as f64,
        "Records written, by kind; lengths are logarithmic",
        &body,
    )
}
