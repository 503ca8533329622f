//! `threshold.config`: thresholds, suppressions and rate filters that are kept apart from rules.
//!
//! Entries apply to a rule by gid and sid; 0 stands for all. A threshold of the file takes the
//! place of the rule's own unless the entry is for all rules, which leaves rules that have their
//! own alone. Lines may be continued with a backslash.

use crate::action::Action;
use crate::address::{AddressId, AddressSet};
use crate::diagnostic::{Checked, Diagnostic, Refusal, Severity};
use crate::post::{Suppression, Threshold, ThresholdKind, ThresholdTrack};
use crate::ruleset::Ruleset;
use crate::signature::Signature;
use crate::vars::RuleVars;

/// An entry of the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Generator; 0: all.
    pub gid: u32,
    /// Signature; 0: all.
    pub sid: u32,
    /// What it does.
    pub kind: EntryKind,
    /// Line in the file.
    pub line: u32,
}

/// What an entry does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EntryKind {
    /// `threshold`, `event_filter`
    Threshold(Threshold),
    /// `rate_filter`
    Rate(Threshold),
    /// `suppress`: whose address, and which.
    Suppress(Option<(ThresholdTrack, AddressSet)>),
}

/// Reads the file.
pub fn parse(text: &str, file: &str, vars: &RuleVars) -> (Vec<Entry>, Vec<Diagnostic>) {
    let mut entries = Vec::new();
    let mut said = Vec::new();
    for rule in crate::lexer::rules(text) {
        let line = rule.text.trim();
        match entry(line, rule.line, vars) {
            Ok(entry) => entries.push(entry),
            Err((message, reason)) => said.push(Diagnostic {
                file: file.to_string(),
                line: rule.line,
                column: 1,
                len: u32::try_from(line.len()).unwrap_or(0),
                severity: Severity::Error,
                subsystem: Diagnostic::THRESHOLDS,
                message,
                reason: Some(reason),
                rule: line.to_string(),
                sid: None,
            }),
        }
    }
    (entries, said)
}

type Fault = (String, String);

fn entry(line: &str, number: u32, vars: &RuleVars) -> Result<Entry, Fault> {
    let (word, rest) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
    let bad = |reason: &str| {
        (format!("pcre2_match parse error, ret -1, string {line}"), reason.to_string())
    };
    let mut gid = None;
    let mut sid = None;
    let mut parts: Vec<(&str, &str)> = Vec::new();
    for part in split(rest) {
        let (key, value) = part.trim().split_once(char::is_whitespace).unwrap_or((part.trim(), ""));
        let value = value.trim();
        match key {
            "gen_id" => gid = value.parse().ok(),
            "sig_id" => sid = value.parse().ok(),
            _ => parts.push((key, value)),
        }
    }
    let (Some(gid), Some(sid)) = (gid, sid) else {
        return Err(bad("an entry names `gen_id N, sig_id N`"));
    };
    let get = |key: &str| parts.iter().find(|(k, _)| *k == key).map(|(_, v)| *v);
    let number_of = |key: &str| get(key).and_then(|v| v.parse::<u32>().ok());
    let kind = match word {
        "threshold" | "event_filter" => {
            let threshold = threshold(&get, &number_of)
                .ok_or_else(|| bad("`type`, `track`, `count` and `seconds` are needed"))?;
            EntryKind::Threshold(threshold)
        }
        "rate_filter" => {
            let rate = rate(&get, &number_of).ok_or_else(|| {
                bad("`track`, `count`, `seconds`, `new_action` and `timeout` are needed")
            })?;
            EntryKind::Rate(rate)
        }
        "suppress" => EntryKind::Suppress(suppress(&get, vars).map_err(|e| bad(&e.message))?),
        _ => {
            return Err(bad(
                "an entry is `threshold`, `event_filter`, `rate_filter` or `suppress`",
            ));
        }
    };
    if gid == 0 && sid != 0 {
        let said = format!(
            "Can't use a event config that has sid > 0 and gid == 0. Please fix this entry: gen_id {gid}, sig_id {sid}"
        );
        return Err((said, "gen_id 0 stands for all and needs sig_id 0".to_string()));
    }
    Ok(Entry { gid, sid, kind, line: number })
}

/// Splits at commas outside brackets.
fn split(text: &str) -> impl Iterator<Item = &str> {
    let mut depth = 0i32;
    text.split(move |c: char| {
        match c {
            '[' => depth += 1,
            ']' => depth -= 1,
            _ => {}
        }
        c == ',' && depth <= 0
    })
}

fn track(word: &str) -> Option<ThresholdTrack> {
    crate::keywords::threshold_track(word)
}

fn threshold<'t>(
    get: &impl Fn(&str) -> Option<&'t str>,
    number: &impl Fn(&str) -> Option<u32>,
) -> Option<Threshold> {
    let kind = match get("type")? {
        "limit" => ThresholdKind::Limit,
        "threshold" => ThresholdKind::Threshold,
        "both" => ThresholdKind::Both,
        "backoff" => ThresholdKind::Backoff { multiplier: number("multiplier")? },
        _ => return None,
    };
    let seconds = number("seconds");
    let seconds = if let ThresholdKind::Backoff { .. } = kind {
        seconds.unwrap_or(0)
    } else {
        seconds.filter(|n| *n > 0)?
    };
    let count = number("count").filter(|n| *n > 0)?;
    Some(Threshold { kind, track: track(get("track")?)?, count, seconds })
}

fn rate<'t>(
    get: &impl Fn(&str) -> Option<&'t str>,
    number: &impl Fn(&str) -> Option<u32>,
) -> Option<Threshold> {
    let new_action = match get("new_action")? {
        "alert" => Action::Alert,
        "drop" => Action::Drop,
        "pass" => Action::Pass,
        "reject" => Action::RejectSource,
        "sdrop" => Action::Drop,
        "log" => Action::Alert,
        _ => return None,
    };
    Some(Threshold {
        kind: ThresholdKind::Rate { new_action, timeout_s: number("timeout")? },
        track: track(get("track")?)?,
        count: number("count").filter(|n| *n > 0)?,
        seconds: number("seconds").filter(|n| *n > 0)?,
    })
}

fn suppress<'t>(
    get: &impl Fn(&str) -> Option<&'t str>,
    vars: &RuleVars,
) -> Checked<Option<(ThresholdTrack, AddressSet)>> {
    let refuse = |said: &str| Refusal::new("threshold", said);
    let Some(word) = get("track") else {
        return Ok(None);
    };
    let track = match word {
        "by_src" => ThresholdTrack::Source,
        "by_dst" => ThresholdTrack::Destination,
        "by_either" => ThresholdTrack::Either,
        _ => return Err(refuse("`track` is `by_src`, `by_dst` or `by_either`")),
    };
    let Some(text) = get("ip") else {
        return Err(refuse("`track` needs `ip`"));
    };
    let set = AddressSet::parse(text, vars)?;
    Ok(Some((track, set)))
}

impl Ruleset {
    /// Applies the entries of a threshold file to the rules they name. Returns warnings: entries
    /// that name no rule.
    pub fn apply_thresholds(&mut self, entries: &[Entry], file: &str) -> Vec<Diagnostic> {
        let mut said = Vec::new();
        for entry in entries {
            let addresses = match &entry.kind {
                EntryKind::Suppress(Some((_, set))) => Some(self.shared_addresses(set)),
                EntryKind::Suppress(None) | EntryKind::Threshold(_) | EntryKind::Rate(_) => None,
            };
            let mut any = false;
            for s in &mut self.signatures {
                let fits = (entry.gid == 0 || entry.gid == s.gid)
                    && (entry.sid == 0 || entry.sid == s.sid);
                if fits {
                    any = true;
                    apply(entry, addresses, s);
                }
            }
            if !any && entry.sid != 0 {
                said.push(Diagnostic {
                    file: file.to_string(),
                    line: entry.line,
                    column: 1,
                    len: 0,
                    severity: Severity::Warning,
                    subsystem: Diagnostic::THRESHOLDS,
                    message: format!(
                        "can't find signature for threshold: signature {}:{} not found",
                        entry.gid, entry.sid
                    ),
                    reason: None,
                    rule: String::new(),
                    sid: Some(entry.sid),
                });
            }
        }
        said
    }

    fn shared_addresses(&mut self, set: &AddressSet) -> AddressId {
        let at = self.addresses.iter().position(|s| s == set).unwrap_or_else(|| {
            self.addresses.push(set.clone());
            self.addresses.len() - 1
        });
        AddressId(u32::try_from(at).unwrap_or(u32::MAX))
    }
}

fn apply(entry: &Entry, addresses: Option<AddressId>, s: &mut Signature) {
    match &entry.kind {
        EntryKind::Threshold(t) => {
            // an entry for all rules leaves those with one of their own alone
            let has_own = s.threshold.is_some() || s.detection_filter.is_some();
            if entry.sid == 0 && has_own {
                return;
            }
            s.threshold = Some(*t);
            s.detection_filter = None;
        }
        EntryKind::Rate(t) => {
            if entry.sid == 0 && s.rate_filter.is_some() {
                return;
            }
            s.rate_filter = Some(*t);
        }
        EntryKind::Suppress(scope) => {
            let track = scope.as_ref().map(|(track, _)| *track);
            let mut list = std::mem::take(&mut s.suppressions).into_vec();
            list.push(Suppression { track, addresses });
            s.suppressions = list.into();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // The forms are those of Suricata's own threshold.config.
    #[test]
    fn entries_are_read() {
        let text = "\
threshold gen_id 1, sig_id 2404000, type limit, track by_dst, count 1, seconds 10
event_filter gen_id 0, sig_id 0, type both, track by_src, count 10, seconds 5
suppress gen_id 1, sig_id 2009557, track by_src, ip 217.110.97.128/25
suppress gen_id 1, sig_id 2
rate_filter gen_id 1, sig_id 3, track by_rule, count 5, seconds 60, \\
  new_action drop, timeout 10
this string is not correct
";
        let (entries, said) = parse(text, "t", &RuleVars::default());
        assert_eq!(entries.len(), 5);
        assert_eq!((said.len(), said[0].line), (1, 7));
        assert!(matches!(entries[3].kind, EntryKind::Suppress(None)));
        assert!(matches!(
            entries[4].kind,
            EntryKind::Rate(Threshold { kind: ThresholdKind::Rate { timeout_s: 10, .. }, .. })
        ));
    }
}
