//! `threshold` and `detection_filter`.

use crate::compiler::Compiler;
use crate::diagnostic::{Checked, Refusal};
use crate::draft::Draft;
use crate::keyword::{Setup, Value};
use crate::post::{Threshold, ThresholdKind, ThresholdTrack};

/// Keywords of this file.
pub(super) const KEYWORDS: &[(&str, Setup)] =
    &[("threshold", threshold), ("detection_filter", detection_filter)];

/// The parts `key value` of such an option.
#[derive(Default)]
struct Parts<'t> {
    kind: Option<&'t str>,
    track: Option<ThresholdTrack>,
    count: Option<u32>,
    seconds: Option<u32>,
    multiplier: Option<u32>,
}

impl<'t> Parts<'t> {
    fn parse(parts: impl Iterator<Item = &'t str>) -> Option<Parts<'t>> {
        let mut p = Parts::default();
        for part in parts {
            let (key, value) = part.trim().split_once(char::is_whitespace)?;
            let value = value.trim_start();
            match key {
                "type" if p.kind.is_none() => p.kind = Some(value),
                "track" if p.track.is_none() => p.track = Some(track(value)?),
                "count" if p.count.is_none() => p.count = Some(whole(value)?),
                "seconds" if p.seconds.is_none() => p.seconds = Some(whole(value)?),
                "multiplier" if p.multiplier.is_none() => p.multiplier = Some(whole(value)?),
                _ => return None,
            }
        }
        Some(p)
    }
}

/// Digits and no sign.
fn whole(text: &str) -> Option<u32> {
    text.parse().ok().filter(|_| !text.starts_with('+'))
}

/// The parts of a threshold.
const KEYS: [&str; 5] = ["type", "track", "count", "seconds", "multiplier"];

/// What they may name.
const WORDS: [&str; 9] =
    ["limit", "both", "threshold", "backoff", "by_dst", "by_src", "by_both", "by_rule", "by_flow"];

/// The first four parts of a threshold. Suricata 8.0.7's expression has no end: what follows the digits or the letters
/// of the fourth part is passed over.
fn threshold_parts(text: &str) -> Option<Parts<'_>> {
    let mut parts: Vec<&str> = text.splitn(6, ',').take(5).collect();
    // The expression asks for four, and takes a fifth if it is one.
    let fifth = parts.get(4).copied();
    parts.truncate(4);
    let last = parts.get_mut(3)?;
    *last = counted(last)?;
    parts.extend(fifth.and_then(counted));
    Parts::parse(parts.into_iter())
}

/// What counts of the last part of a threshold: its key, and the word or the digits after it.
fn counted(part: &str) -> Option<&str> {
    let (key, value) = part.trim_start().split_once(char::is_whitespace)?;
    let value = value.trim_start();
    let word = WORDS.iter().find(|word| value.starts_with(**word));
    let digits = || value.bytes().take_while(u8::is_ascii_digit).count();
    let length = word.map_or_else(digits, |word| word.len());
    if length == 0 || !KEYS.contains(&key) {
        return None;
    }
    part.get(..part.len() - value.len() + length)
}

/// What `track` names.
pub(crate) fn track(word: &str) -> Option<ThresholdTrack> {
    Some(match word {
        "by_src" => ThresholdTrack::Source,
        "by_dst" => ThresholdTrack::Destination,
        "by_both" => ThresholdTrack::Both,
        "by_rule" => ThresholdTrack::Rule,
        "by_flow" => ThresholdTrack::Flow,
        _ => return None,
    })
}

fn threshold(_: &mut Compiler<'_>, d: &mut Draft<'_>, v: Value<'_>) -> Checked<()> {
    const WHO: &str = "detect-threshold";
    if d.detection_filter.is_some() {
        let said = "\"detection_filter\" and \"threshold\" are not allowed in the same rule";
        return Err(Refusal::new(WHO, said));
    }
    if d.threshold.is_some() {
        let said = "multiple \"threshold\" options are not allowed in the same rule";
        return Err(Refusal::new(WHO, said));
    }
    d.threshold = Some(read_threshold(v.text).ok_or_else(|| bad(v))?);
    Ok(())
}

fn bad(v: Value<'_>) -> Refusal {
    let said = format!("pcre_exec parse error, ret -1, string {}", v.text);
    Refusal::new("detect-threshold", said)
        .because("`threshold:type limit, track by_src, count N, seconds N`")
}

fn read_threshold(text: &str) -> Option<Threshold> {
    let p = threshold_parts(text)?;
    let (track, count) = (p.track?, p.count?);
    let kind = match p.kind? {
        "limit" => ThresholdKind::Limit,
        "threshold" => ThresholdKind::Threshold,
        "both" => ThresholdKind::Both,
        "backoff" => {
            let multiplier = p.multiplier.filter(|n| (2..=65_535).contains(n))?;
            if !(1..=65_535).contains(&count) || track != ThresholdTrack::Flow {
                return None;
            }
            return Some(Threshold {
                kind: ThresholdKind::Backoff { multiplier },
                track,
                count,
                seconds: p.seconds.unwrap_or(0),
            });
        }
        _ => return None,
    };
    if p.multiplier.is_some() {
        return None;
    }
    Some(Threshold { kind, track, count, seconds: p.seconds? })
}

fn detection_filter(_: &mut Compiler<'_>, d: &mut Draft<'_>, v: Value<'_>) -> Checked<()> {
    const WHO: &str = "detect-detection-filter";
    if d.threshold.is_some() {
        let said = "\"detection_filter\" and \"threshold\" are not allowed in the same rule";
        return Err(Refusal::new(WHO, said));
    }
    if d.detection_filter.is_some() {
        let said = "At most one \"detection_filter\" is allowed per rule";
        return Err(Refusal::new(WHO, said));
    }
    let bad = || {
        let said = format!("pcre_exec parse error, ret -1, string {}", v.text);
        Refusal::new(WHO, said).because("`detection_filter:track by_src, count N, seconds N`")
    };
    let p = Parts::parse(v.text.split(',')).ok_or_else(bad)?;
    let (Some(track), Some(count), Some(seconds)) = (p.track, p.count, p.seconds) else {
        return Err(bad());
    };
    if p.kind.is_some() || p.multiplier.is_some() || count == 0 || seconds == 0 {
        return Err(bad());
    }
    d.detection_filter =
        Some(Threshold { kind: ThresholdKind::DetectionFilter, track, count, seconds });
    Ok(())
}
