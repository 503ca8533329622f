//! `threshold.config`: thresholds, suppressions and rate filters that are kept apart from rules.
//!
//! Entries apply to a rule by gid and sid; 0 stands for all. A threshold of the file takes the
//! place of the rule's own unless the entry is for all rules, which leaves rules that have their
//! own alone. Lines may be continued with a backslash.

use crate::action::Action;
use crate::address::{AddressId, AddressSet};
use crate::diagnostic::{Diagnostic, Severity};
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

/// What is wrong with a line, in Suricata's words.
fn unlike(rest: &str, reason: &str) -> Fault {
    (format!("pcre2_match parse error, ret -1, string {rest}"), reason.to_string())
}

/// An entry. Its parts have one order, and nothing else may be in the line: a part that is passed over would leave an
/// entry that does more than its author meant.
fn entry(line: &str, number: u32, vars: &RuleVars) -> Result<Entry, Fault> {
    let Some((word, gid, sid, parts)) = head(line) else {
        let said = "an entry is `threshold`, `event_filter`, `rate_filter` or `suppress` with \
                    `gen_id N, sig_id N`";
        return Err(unlike(line, said));
    };
    let rest = parts.0;
    let (Ok(gid), Ok(sid)) = (gid.parse(), sid.parse()) else {
        return Err(unlike(line, "an id is a number below 4294967296"));
    };
    let kind = match word {
        "rate_filter" => EntryKind::Rate(rate(parts)?),
        "suppress" if rest.is_empty() => EntryKind::Suppress(None),
        "suppress" => EntryKind::Suppress(Some(suppress(parts, vars)?)),
        _ => EntryKind::Threshold(threshold(parts)?),
    };
    if gid == 0 && sid != 0 {
        let said = format!(
            "Can't use a event config that has sid > 0 and gid == 0. Please fix this entry: gen_id {gid}, sig_id {sid}"
        );
        return Err((said, "gen_id 0 stands for all and needs sig_id 0".to_string()));
    }
    Ok(Entry { gid, sid, kind, line: number })
}

/// The words that entries begin with.
const WORDS: [&str; 4] = ["threshold", "event_filter", "rate_filter", "suppress"];

/// The word that an entry begins with, its ids, and what follows.
fn head(line: &str) -> Option<(&'static str, &str, &str, Parts<'_>)> {
    let line = line.trim();
    let word = WORDS.into_iter().find(|word| line.starts_with(word))?;
    let mut parts = Parts(line.get(word.len()..)?.trim_start());
    parts.skip("gen_id")?;
    let gid = parts.digits()?;
    parts.skip(",")?;
    parts.skip("sig_id")?;
    let sid = parts.digits()?;
    Some((word, gid, sid, parts))
}

/// What is left of a line. Blanks count nowhere.
#[derive(Clone, Copy)]
struct Parts<'t>(&'t str);

impl<'t> Parts<'t> {
    fn skip(&mut self, text: &str) -> Option<()> {
        self.0 = self.0.strip_prefix(text)?.trim_start();
        Some(())
    }

    fn until(&mut self, is_end: impl Fn(char) -> bool) -> Option<&'t str> {
        let (found, rest) = self.0.split_at(self.0.find(is_end).unwrap_or(self.0.len()));
        self.0 = rest.trim_start();
        (!found.is_empty()).then_some(found)
    }

    fn digits(&mut self) -> Option<&'t str> {
        self.until(|c| !c.is_ascii_digit())
    }

    /// The word of the next part, which has that key.
    fn word(&mut self, key: &str) -> Option<&'t str> {
        self.skip(",")?;
        self.skip(key)?;
        self.until(|c| !c.is_ascii_lowercase() && c != '_')
    }

    /// The number of the next part, which has that key.
    fn number(&mut self, key: &str) -> Option<u32> {
        self.skip(",")?;
        self.skip(key)?;
        self.digits()?.parse().ok()
    }

    fn end(self) -> Option<()> {
        self.0.is_empty().then_some(())
    }
}

/// A count; none of 0 is meant.
fn counted(count: u32) -> Result<u32, Fault> {
    if count > 0 {
        return Ok(count);
    }
    Err(("rate filter count should be > 0".to_string(), "`count` is at least 1".to_string()))
}

fn threshold(parts: Parts<'_>) -> Result<Threshold, Fault> {
    let read = |mut parts: Parts<'_>| {
        let kind = match parts.word("type")? {
            "limit" => ThresholdKind::Limit,
            "threshold" => ThresholdKind::Threshold,
            "both" => ThresholdKind::Both,
            _ => return None,
        };
        let track = crate::keywords::threshold_track(parts.word("track")?)?;
        let (count, seconds) = (parts.number("count")?, parts.number("seconds")?);
        parts.end()?;
        Some(Threshold { kind, track, count, seconds })
    };
    let wanted = "`type limit|threshold|both, track by_src|by_dst|by_both|by_rule|by_flow, count N, \
                  seconds N` is needed, in this order";
    let t = read(parts).ok_or_else(|| unlike(parts.0, wanted))?;
    Ok(Threshold { count: counted(t.count)?, ..t })
}

fn rate(parts: Parts<'_>) -> Result<Threshold, Fault> {
    let read = |mut parts: Parts<'_>| {
        let track = crate::keywords::threshold_track(parts.word("track")?)?;
        let (count, seconds) = (parts.number("count")?, parts.number("seconds")?);
        let new_action = match parts.word("new_action")? {
            "drop" => Action::Drop,
            "pass" => Action::Pass,
            "reject" => Action::RejectSource,
            // Suricata 8.0.7 reads these two and alerts as before.
            "alert" | "log" | "sdrop" => Action::Alert,
            _ => return None,
        };
        let kind = ThresholdKind::Rate { new_action, timeout_s: parts.number("timeout")? };
        parts.end()?;
        Some(Threshold { kind, track, count, seconds })
    };
    let wanted = "`track by_src|by_dst|by_both|by_rule|by_flow, count N, seconds N, new_action \
                  alert|drop|pass|reject, timeout N` is needed, in this order";
    let t = read(parts).ok_or_else(|| unlike(parts.0, wanted))?;
    Ok(Threshold { count: counted(t.count)?, ..t })
}

fn suppress(parts: Parts<'_>, vars: &RuleVars) -> Result<(ThresholdTrack, AddressSet), Fault> {
    let read = |mut parts: Parts<'_>| {
        let track = match parts.word("track")? {
            "by_src" => ThresholdTrack::Source,
            "by_dst" => ThresholdTrack::Destination,
            "by_either" => ThresholdTrack::Either,
            _ => return None,
        };
        parts.skip(",")?;
        parts.skip("ip")?;
        Some((track, parts.0.to_string()))
    };
    let wanted = "nothing, or `track by_src|by_dst|by_either, ip ADDRESSES`, follows the ids";
    let (track, text) = read(parts).ok_or_else(|| unlike(parts.0, wanted))?;
    let found = AddressSet::parse(&text, vars);
    let set = found.map_err(|e| (format!("failed to parse {text}"), e.message))?;
    Ok((track, set))
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

    fn refusal(line: &str) -> String {
        let (entries, said) = parse(line, "t", &RuleVars::default());
        assert_eq!(entries.len() + said.len(), 1, "{line}");
        said.into_iter().next().map(|d| d.message).unwrap_or_default()
    }

    // What Suricata 8.0.7 refuses, and its words: what follows the ids, in one order and with nothing else.
    #[test]
    fn parts_that_do_not_belong_are_refused() {
        for rest in [
            ", ip 10.0.0.1",
            ", ip 10.0.0.1, track by_src",
            ", track by_src",
            ", foo bar",
            ",",
            "foo",
            ", track by_rule, ip 10.0.0.1",
            ", track by_src ip 10.0.0.1",
        ] {
            let said = refusal(&format!("suppress gen_id 1, sig_id 12{rest}"));
            assert_eq!(said, format!("pcre2_match parse error, ret -1, string {rest}"));
        }
        for rest in [
            ", track by_src, type limit, count 1, seconds 60",
            ", type limit, track by_src, seconds 60, count 1",
            ", type limit, track by_src, count 1, seconds 60, ip 10.0.0.1",
            ", type limit, track by_src, count 1, seconds 60, multiplier 3",
            ", type limit, track by_src, count 1, seconds 60,",
            ", type limit, type both, track by_src, count 1, seconds 60",
            ", type backoff, track by_src, count 1, multiplier 3",
            ", type limit, track by_either, count 1, seconds 60",
            ", type limit, track by_src, count 1, seconds 1m",
        ] {
            let said = refusal(&format!("threshold gen_id 1, sig_id 12{rest}"));
            assert_eq!(said, format!("pcre2_match parse error, ret -1, string {rest}"));
        }
        for rest in [
            ", track by_dst, count 2, seconds 60, timeout 10, new_action drop",
            ", track by_dst, count 2, seconds 60, new_action drop",
            ", track by_dst, count 2, seconds 60, new_action drop, timeout 10, foo 1",
            ", track by_dst, count 2, seconds 60, new_action foo, timeout 10",
        ] {
            let said = refusal(&format!("rate_filter gen_id 1, sig_id 12{rest}"));
            assert_eq!(said, format!("pcre2_match parse error, ret -1, string {rest}"));
        }
        for (line, said) in [
            (
                "suppress gen_id 1, sig_id 12, track by_src, ip 10.0.0.1, count 1",
                "failed to parse 10.0.0.1, count 1",
            ),
            (
                "suppress gen_id 1, sig_id 12, track by_src, ip 10.0.0.1 foo",
                "failed to parse 10.0.0.1 foo",
            ),
            (
                "threshold gen_id 1, sig_id 12, type limit, track by_src, count 0, seconds 60",
                "rate filter count should be > 0",
            ),
            (
                "rate_filter gen_id 1, sig_id 12, track by_dst, count 0, seconds 60, new_action drop, timeout 10",
                "rate filter count should be > 0",
            ),
            (
                "suppress sig_id 12, gen_id 1",
                "pcre2_match parse error, ret -1, string suppress sig_id 12, gen_id 1",
            ),
            (
                "threshold gen_id 1, sig_id 12x, type limit, track by_src, count 1, seconds 60",
                "pcre2_match parse error, ret -1, string x, type limit, track by_src, count 1, seconds 60",
            ),
        ] {
            assert_eq!(refusal(line), said);
        }
    }

    // What Suricata 8.0.7 takes.
    #[test]
    fn blanks_count_nowhere_and_windows_may_be_empty() {
        for line in [
            "suppress   gen_id 1 ,   sig_id 12",
            "suppressgen_id1,sig_id12",
            "suppress gen_id 1, sig_id 12, trackby_src,ip10.0.0.1",
            "threshold gen_id1,sig_id12,typelimit,trackby_rule,count1,seconds60",
            "threshold gen_id 1, sig_id 12, type limit, track by_src, count 1, seconds 0",
            "event_filter gen_id 1, sig_id 12, type limit, track by_flow, count 1, seconds 60",
            "rate_filter gen_id 1, sig_id 12, track by_rule, count 2, seconds 0, new_action log, timeout 0",
        ] {
            assert_eq!(refusal(line), "");
        }
    }
}
