//! Charts that fit any width: bars as HTML, a timeline and intervals as SVG that is stretched, with their
//! labels as HTML next to it so that no letter is stretched. The matrix of scans needs space; a narrow screen shows
//! a list of the same in its place.

use super::{LEVELS, Pair, colour, escaped, grouped};
use gabion_record::evidence::ThreatLevel;
use gabion_record::logs::{SECOND, TimeNs};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

/// Width of all drawings, in their own units.
pub(super) const WIDTH: f64 = 1000.0;
/// Rows and columns of the matrix, and rows of its list.
const SOURCES: usize = 24;
const TARGETS: usize = 24;
const SCANS_LISTED: usize = 40;
/// Bars of the timeline.
const BINS: usize = 96;
/// Dots of a beacon.
const DOTS: usize = 1024;
/// Rows of counts.
const COUNTS: usize = 30;

fn figure(attributes: &str, caption: &str, body: &str) -> String {
    format!("<figure{attributes}>{body}<figcaption>{}</figcaption></figure>", escaped(caption))
}

/// A drawing that is stretched to the space there is.
pub(super) fn drawing(height: f64, caption: &str, body: &str) -> String {
    let caption = escaped(caption);
    format!(
        "<svg viewBox=\"0 0 {WIDTH} {height:.0}\" preserveAspectRatio=\"none\" role=\"img\" \
         aria-label=\"{caption}\">{body}</svg>"
    )
}

/// A moment to the minute.
pub(super) fn time(second: i64) -> String {
    let text = TimeNs(second.saturating_mul(SECOND)).iso().to_string();
    text.get(..16).unwrap_or_default().replace('T', " ")
}

/// The moments from the first to the last, below a drawing.
fn moments_below(first: i64, last: i64) -> String {
    // A short time has no need of three marks.
    let marks: &[f64] = match last.saturating_sub(first) {
        0 => &[0.0],
        1..240 => &[0.0, 1.0],
        _ => &[0.0, 0.25, 0.5, 0.75, 1.0],
    };
    let mut h = String::from("<div class=\"x\">");
    for mark in marks {
        let class = if *mark > 0.0 && *mark < 1.0 { " class=\"m\"" } else { "" };
        let second = first.saturating_add((last.saturating_sub(first) as f64 * mark) as i64);
        let _ = write!(h, "<span{class}>{}</span>", time(second));
    }
    h.push_str("</div>");
    h
}

/// The findings of a host by level, as long as its share of the highest score.
pub(super) fn level_bar(levels: &[u64; 5], share: f64) -> String {
    let weight = |at: usize| LEVELS.get(at).map_or(0.0, |l| l.weight()).max(0.02);
    let sum: f64 = levels.iter().enumerate().map(|(at, n)| *n as f64 * weight(at)).sum();
    let whole = (share * 100.0).clamp(1.0, 100.0);
    let mut h = String::from("<span class=\"bar\">");
    for (at, n) in levels.iter().enumerate().filter(|(_, n)| **n > 0) {
        let Some(level) = LEVELS.get(at) else { continue };
        let width = whole * (*n as f64 * weight(at)) / sum.max(1e-9);
        let (fill, name, n) = (colour(*level), level.name(), grouped(*n));
        let _ =
            write!(h, "<i style=\"width:{width:.2}%;background:{fill}\" title=\"{n} {name}\"></i>");
    }
    h.push_str("</span>");
    h
}

/// A list of bars: a name, its bar, its number.
fn bar_list(rows: &[(String, f64, u64)], fill: &str) -> String {
    let mut h = String::from("<ul class=\"bars\">");
    for (name, share, n) in rows {
        let _ = write!(
            h,
            "<li><span>{}</span><span class=\"bar\"><i style=\"width:{:.2}%;background:{fill}\"></i></span>\
             <span class=\"n\">{}</span></li>",
            escaped(name),
            (share * 100.0).clamp(0.5, 100.0),
            grouped(*n)
        );
    }
    h.push_str("</ul>");
    h
}

/// Evidence over time, stacked by level; heights are logarithmic, so that one critical finding is visible
/// next to a thousand small ones.
pub(super) fn timeline(moments: &[(i64, ThreatLevel, u64)]) -> String {
    let first = moments.iter().map(|m| m.0).min().unwrap_or(0);
    let last = moments.iter().map(|m| m.0).max().unwrap_or(0);
    let span = last.saturating_sub(first).max(1) as f64 + 1.0;
    // Minutes have a bar each: a short run has fewer bars, of more width.
    let count = usize::try_from(last.saturating_sub(first) / 60 + 1).unwrap_or(BINS).min(BINS);
    let mut bins = vec![[0u64; 5]; count];
    for (second, level, times) in moments {
        let at = (second.saturating_sub(first) as f64 / span * count as f64) as usize;
        let place = LEVELS.iter().position(|l| l == level).unwrap_or(0);
        if let Some(n) = bins.get_mut(at).and_then(|b| b.get_mut(place)) {
            *n += times;
        }
    }
    let height = |n: u64| (n as f64 + 1.0).log2() * 10.0;
    let of = |bin: &[u64; 5]| bin.iter().map(|n| height(*n)).sum::<f64>();
    let most = bins.iter().map(of).fold(10.0, f64::max);
    let mut body = String::new();
    let width = WIDTH / count as f64;
    for (at, bin) in bins.iter().enumerate() {
        let mut y = 180.0;
        for (place, n) in bin.iter().enumerate().filter(|(_, n)| **n > 0) {
            let tall = height(*n) / most * 176.0;
            y -= tall;
            let Some(level) = LEVELS.get(place) else { continue };
            let begin = first.saturating_add((at as f64 * span / count as f64) as i64);
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
    let caption = "Evidence over event time (UTC), by level; heights are logarithmic";
    let drawn = format!("<div class=\"plot\">{}</div>", drawing(180.0, caption, &body));
    figure("", caption, &(drawn + &moments_below(first, last)))
}

/// Scans by source, with ports or hosts and how much of each: a matrix where there is space, else a list.
pub(super) fn scans(scans: &[(String, String, u64)]) -> String {
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
    let caption = format!(
        "Hosts tried on a port, or ports tried on a host, as last reported: {} of {} sources, {} of {} targets",
        rows.len(),
        sources.len(),
        columns.len(),
        targets.len()
    );
    let matrix = matrix(&cells, (&rows, &columns), most, &caption);
    let mut all: Vec<_> = cells.iter().collect();
    all.sort_by(|a, b| b.1.cmp(a.1).then(a.0.cmp(b.0)));
    let listed: Vec<_> = all
        .into_iter()
        .take(SCANS_LISTED)
        .map(|((from, to), n)| (format!("{from} → {to}"), (*n as f64).ln_1p() / most.ln_1p(), *n))
        .collect();
    let said = format!(
        "Hosts tried on a port, or ports tried on a host, as last reported: {} of {} pairs",
        listed.len(),
        cells.len()
    );
    let list = bar_list(&listed, colour(ThreatLevel::High));
    figure(" class=\"wide\"", &caption, &matrix) + &figure(" class=\"narrow\"", &said, &list)
}

fn matrix(
    cells: &BTreeMap<(&str, &str), u64>,
    (rows, columns): (&[String], &[String]),
    most: f64,
    caption: &str,
) -> String {
    let width = ((WIDTH - 280.0) / columns.len().max(1) as f64).min(120.0);
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
                    "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>",
                    x + width / 2.0,
                    y + 16.0,
                    grouped(*count)
                );
            }
        }
    }
    let height = 116.0 + rows.len() as f64 * 24.0;
    let caption = escaped(caption);
    format!(
        "<svg viewBox=\"0 0 {WIDTH} {height:.0}\" role=\"img\" aria-label=\"{caption}\">{body}</svg>"
    )
}

/// Time from one flow of a pair to the next, over time: a beacon is a line. `id` is what links name.
pub(super) fn intervals(pair: &Pair, id: usize) -> String {
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
    let (mut body, mut labels) = (String::new(), String::new());
    let y = |gap: f64| 144.0 - (gap / top).min(1.0) * 138.0;
    // Nothing, the median and the top of the scale.
    for (gap, is_median) in [(0.0, false), (f64::from(median), true), (top, false)] {
        let is_close = !is_median && (y(gap) - y(f64::from(median))).abs() < 18.0;
        let strength = if is_median { 0.5 } else { 0.15 };
        let _ = write!(
            body,
            "<path d=\"M0 {:.1}H{WIDTH}\" class=\"g\" stroke-opacity=\"{strength}\"/>",
            y(gap)
        );
        if !is_close {
            let _ = write!(
                labels,
                "<span style=\"top:{:.1}%\">{gap:.0} s</span>",
                y(gap) / 150.0 * 100.0
            );
        }
    }
    // Dots are ends of lines of no length, which stay round however the drawing is stretched.
    let mut drawn = BTreeSet::new();
    body.push_str("<path class=\"d\" d=\"");
    for (second, gap) in gaps.iter().take(DOTS) {
        let x = 6.0 + f64::from(second.saturating_sub(first)) / span * (WIDTH - 12.0);
        let y = y(f64::from(*gap));
        if drawn.insert((x as u32, y as u32)) {
            let _ = write!(body, "M{x:.1} {y:.1}h.01");
        }
    }
    body.push_str("\"/>");
    let (from, to, n) = (&pair.from, &pair.to, grouped(pair.seconds.len() as u64));
    let caption = format!(
        "{from} → {to}: {n} flows from {} to {}, median interval {median} s",
        time(first.into()),
        time(last.into())
    );
    let plot = format!(
        "<div class=\"plot\"><div class=\"y\">{labels}</div>{}</div>",
        drawing(150.0, &caption, &body)
    );
    figure(&format!(" id=\"b-{id}\""), &caption, &plot)
}

/// Numbers by name.
pub(super) fn counts(all: &[(String, u64)]) -> String {
    let mut sorted: Vec<&(String, u64)> = all.iter().collect();
    sorted.sort_by(|a, b| b.1.cmp(&a.1).then(a.0.cmp(&b.0)));
    let most = sorted.first().map_or(1, |r| r.1).max(1) as f64;
    let rows: Vec<_> = sorted
        .into_iter()
        .take(COUNTS)
        .map(|(name, n)| (name.clone(), (*n as f64).ln_1p() / most.ln_1p(), *n))
        .collect();
    let list = bar_list(&rows, colour(ThreatLevel::Low));
    figure("", "Records written, by kind; lengths are logarithmic", &list)
}
