//! One page about a run, for people: who, when, how bad, why.
//!
//! A single file without scripts and without anything from elsewhere; charts are drawn as SVG. It shows
//! whichever engines ran: hosts, evidence and alerts of the behaviour engine, alerts and records of
//! the network engine, and the ledger of both. All texts from outside are escaped, and the page's own
//! policy lets nothing be loaded.

mod chart;

use crate::limits::PAGE_ROWS_MAX;
use chart::{bars, intervals, matrix, timeline};
use gabion_record::evidence::ThreatLevel;
use gabion_record::logs::TimeNs;
use std::fmt::Write;

/// Inputs named below the title.
const INPUTS_SHOWN: usize = 3;

/// A host.
#[derive(Clone, Debug, Default)]
pub struct Host {
    /// Its address.
    pub ip: String,
    /// Sum of threat levels by confidence.
    pub score: f64,
    /// Alerts.
    pub alerts: u64,
    /// Pieces of evidence by level, from info to critical.
    pub levels: [u64; 5],
}

/// A piece of evidence.
#[derive(Clone, Debug)]
pub struct Row {
    /// When.
    pub ts: TimeNs,
    /// Whose.
    pub ip: String,
    /// Its type.
    pub kind: &'static str,
    /// ATT&CK technique.
    pub technique: &'static str,
    /// How bad.
    pub level: ThreatLevel,
    /// How sure.
    pub confidence: f64,
    /// In words.
    pub text: String,
    /// Its window.
    pub window: i64,
    /// How often the same was seen.
    pub times: u64,
}

/// Two hosts that talk again and again.
#[derive(Clone, Debug, Default)]
pub struct Pair {
    /// Who begins.
    pub from: String,
    /// With whom.
    pub to: String,
    /// Seconds of its flows, in order.
    pub seconds: Vec<u32>,
}

/// Evidence of one type and level.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sort {
    /// The type.
    pub kind: &'static str,
    /// ATT&CK technique.
    pub technique: &'static str,
    /// How bad.
    pub level: ThreatLevel,
    /// How many pieces.
    pub count: u64,
}

/// A rule that alerted.
#[derive(Clone, Debug, Default)]
pub struct RuleAlert {
    /// Signature.
    pub sid: u32,
    /// Its message.
    pub msg: String,
    /// 1 is the most severe.
    pub severity: u32,
    /// How often.
    pub count: u64,
    /// Source and destination of the first one.
    pub first: (String, String),
}

/// All that a page shows.
#[derive(Clone, Debug, Default)]
pub struct Page {
    /// What the run was asked to read.
    pub named: Vec<String>,
    /// Inputs, each with what became of it.
    pub inputs: Vec<(String, String)>,
    /// What was counted: name and number.
    pub counts: Vec<(String, u64)>,
    /// Hosts with evidence, or the worst of them; and how many there are.
    pub hosts: Vec<Host>,
    /// See above.
    pub hosts_total: u64,
    /// Evidence by type.
    pub sorts: Vec<Sort>,
    /// Evidence that is shown.
    pub evidence: Vec<Row>,
    /// Evidence in all.
    pub evidence_total: u64,
    /// All evidence over time: second, level, how many.
    pub moments: Vec<(i64, ThreatLevel, u64)>,
    /// Who scanned how much: source, port or host scanned, how many.
    pub scans: Vec<(String, String, u64)>,
    /// Beacons.
    pub pairs: Vec<Pair>,
    /// Alerts of hosts: address, window, sum.
    pub alerts: Vec<(String, i64, f64)>,
    /// Alerts of rules.
    pub rules: Vec<RuleAlert>,
    /// Records of the network engine by kind.
    pub records: Vec<(String, u64)>,
    /// The ledger, a line each.
    pub ledger: Vec<(String, String)>,
}

/// Text from outside inside HTML.
#[must_use]
pub fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            c if c.is_control() => out.push('\u{fffd}'),
            c => out.push(c),
        }
    }
    out
}

/// The colour of a level, of five steps that differ in lightness too.
pub(crate) fn colour(level: ThreatLevel) -> &'static str {
    match level {
        ThreatLevel::Info => "#9fb3c8",
        ThreatLevel::Low => "#5fa8d3",
        ThreatLevel::Medium => "#e9b44c",
        ThreatLevel::High => "#d8572a",
        ThreatLevel::Critical => "#8c1c13",
    }
}

pub(crate) const LEVELS: [ThreatLevel; 5] = [
    ThreatLevel::Info,
    ThreatLevel::Low,
    ThreatLevel::Medium,
    ThreatLevel::High,
    ThreatLevel::Critical,
];

const STYLE: &str = "\
:root{color-scheme:light dark;--line:#8884;--soft:#8882}\
body{font:15px/1.45 system-ui,sans-serif;margin:2rem auto;max-width:72rem;padding:0 1rem}\
h1{font-size:1.5rem;margin:0 0 .2rem}h2{font-size:1.15rem;margin:2rem 0 .5rem}\
table{border-collapse:collapse;width:100%}td,th{padding:.25rem .5rem;text-align:left;vertical-align:top;\
border-bottom:1px solid var(--line)}th{font-weight:600}td.n,th.n{text-align:right;font-variant-numeric:tabular-nums}\
svg{width:100%;height:auto;display:block}svg text{font:12px system-ui,sans-serif;fill:currentColor}\
td.t{white-space:nowrap;font-variant-numeric:tabular-nums}\
.keys{margin:.2rem 0 .6rem}.keys .l{min-width:0;margin-right:.4rem;font-size:.85rem}p.of{margin:.1rem 0 1rem;opacity:.75;overflow-wrap:anywhere}\
.l{display:inline-block;min-width:4.5em;padding:0 .4em;border-radius:.2em;color:#000}\
.l.high,.l.critical{color:#fff}figure{margin:0}figcaption{opacity:.75}p.none{opacity:.75}\
.cards{display:flex;flex-wrap:wrap;gap:.75rem}.cards div{background:var(--soft);padding:.5rem .9rem;border-radius:.4rem}\
.cards b{display:block;font-size:1.3rem;font-variant-numeric:tabular-nums}code{overflow-wrap:anywhere}";

impl Page {
    /// The page.
    #[must_use]
    pub fn html(&self) -> String {
        let mut h = String::from(
            "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\
             <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">\
             <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\
             <title>Gabion: report of a run</title><style>",
        );
        h.push_str(STYLE);
        h.push_str("</style></head><body><h1>Report of a run</h1>");
        self.origin(&mut h);
        self.cards(&mut h);
        if !self.hosts.is_empty() || self.evidence_total > 0 {
            self.behaviour(&mut h);
        }
        if !self.rules.is_empty() || !self.records.is_empty() {
            self.network(&mut h);
        }
        self.books(&mut h);
        h.push_str("</body></html>\n");
        h
    }

    /// What the page is about: inputs, and the time between the first and the last piece of evidence.
    fn origin(&self, h: &mut String) {
        let mut told: Vec<String> =
            self.named.iter().take(INPUTS_SHOWN).map(|name| escaped(name)).collect();
        let more = self.named.len().saturating_sub(told.len());
        if more > 0 {
            told.push(format!("{more} more"));
        }
        let of = if told.is_empty() { String::new() } else { format!("of {}", told.join(", ")) };
        let times = self.moments.iter().map(|m| m.0);
        let when = match (times.clone().min(), times.max()) {
            (Some(a), Some(b)) if a == b => format!(" · evidence of {} UTC", chart::time(a)),
            (Some(a), Some(b)) => {
                format!(" · evidence from {} to {} UTC", chart::time(a), chart::time(b))
            }
            _ => String::new(),
        };
        let version = env!("CARGO_PKG_VERSION");
        let _ = write!(h, "<p class=\"of\">{of}{when} · Gabion {version}</p>");
    }

    fn cards(&self, h: &mut String) {
        h.push_str("<div class=\"cards\">");
        for (name, n) in &self.counts {
            let _ = write!(h, "<div><b>{}</b>{}</div>", grouped(*n), escaped(name));
        }
        h.push_str("</div>");
    }

    /// How much of what, the worst first.
    fn sorts(&self, h: &mut String) {
        h.push_str(
            "<h2 id=\"what\">How bad: evidence by type</h2><table><tr><th>Level</th><th>Type</th>\
             <th>Technique</th><th class=\"n\">Pieces</th></tr>",
        );
        for s in self.sorts.iter().take(PAGE_ROWS_MAX) {
            let (kind, technique, count) = (s.kind, s.technique, grouped(s.count));
            let _ = write!(
                h,
                "<tr><td>{}</td><td>{kind}</td><td>{technique}</td><td class=\"n\">{count}</td></tr>",
                pill(s.level)
            );
        }
        h.push_str("</table>");
    }

    fn behaviour(&self, h: &mut String) {
        h.push_str("<h2 id=\"who\">Who: hosts by threat</h2>");
        h.push_str("<p class=\"keys\">");
        LEVELS.iter().for_each(|level| h.push_str(&pill(*level)));
        h.push_str("</p>");
        h.push_str(&bars(&self.hosts, self.hosts_total));
        if !self.alerts.is_empty() {
            h.push_str(
                "<table><tr><th>Host alerted</th><th class=\"n\">Window</th><th class=\"n\">Sum reached</th></tr>",
            );
            for (ip, window, sum) in self.alerts.iter().take(PAGE_ROWS_MAX) {
                let ip = escaped(ip);
                let _ = write!(
                    h,
                    "<tr><td>{ip}</td><td class=\"n\">{window}</td><td class=\"n\">{sum:.1}</td></tr>"
                );
            }
            h.push_str("</table>");
            more(self.alerts.len(), h);
        }
        h.push_str("<h2 id=\"when\">When: evidence over time</h2>");
        h.push_str(&timeline(&self.moments));
        if !self.sorts.is_empty() {
            self.sorts(h);
        }
        if !self.scans.is_empty() {
            h.push_str("<h2 id=\"scans\">Scans: who, and what</h2>");
            h.push_str(&matrix(&self.scans));
        }
        if !self.pairs.is_empty() {
            h.push_str("<h2 id=\"beacons\">Beacons: time from one flow to the next</h2>");
            self.pairs.iter().for_each(|pair| h.push_str(&intervals(pair)));
        }
        h.push_str("<h2 id=\"why\">Why: the evidence</h2>");
        if self.evidence.is_empty() {
            h.push_str("<p class=\"none\">No evidence.</p>");
            return;
        }
        h.push_str(
            "<table><tr><th>When</th><th>Host</th><th>Level</th><th>What</th><th class=\"n\">Confidence</th>\
             <th class=\"n\">Times</th></tr>",
        );
        for e in self.evidence.iter().take(PAGE_ROWS_MAX) {
            let _ = write!(
                h,
                "<tr><td class=\"t\">{}</td><td>{}</td><td>{}</td><td><b>{}</b> <small>{} · window {}</small><br><code>{}</code></td><td class=\"n\">{:.2}</td>\
                 <td class=\"n\">{}</td></tr>",
                e.ts.iso().to_string().get(..19).unwrap_or_default().replace('T', " "),
                escaped(&e.ip),
                pill(e.level),
                e.kind,
                e.technique,
                e.window,
                escaped(&e.text),
                e.confidence,
                e.times
            );
        }
        h.push_str("</table>");
        more(usize::try_from(self.evidence_total).unwrap_or(usize::MAX), h);
    }

    fn network(&self, h: &mut String) {
        h.push_str("<h2 id=\"rules\">Rules that alerted</h2>");
        if self.rules.is_empty() {
            h.push_str("<p class=\"none\">None.</p>");
        } else {
            h.push_str(
                "<table><tr><th class=\"n\">Signature</th><th class=\"n\">Priority</th><th>Message</th>\
                 <th>First</th><th class=\"n\">Alerts</th></tr>",
            );
            for r in self.rules.iter().take(PAGE_ROWS_MAX) {
                let _ = write!(
                    h,
                    "<tr><td class=\"n\">{}</td><td class=\"n\">{}</td><td>{}</td><td>{} → {}</td>\
                     <td class=\"n\">{}</td></tr>",
                    r.sid,
                    r.severity,
                    escaped(&r.msg),
                    escaped(&r.first.0),
                    escaped(&r.first.1),
                    r.count
                );
            }
            h.push_str("</table>");
            more(self.rules.len(), h);
        }
        h.push_str("<h2 id=\"protocols\">Records by kind</h2>");
        h.push_str(&chart::counts(&self.records));
    }

    fn books(&self, h: &mut String) {
        h.push_str("<h2 id=\"ledger\">What was read, and what was not</h2><table>");
        for (name, text) in self.ledger.iter().chain(&self.inputs).take(PAGE_ROWS_MAX) {
            let (name, text) = (escaped(name), escaped(text));
            let _ = write!(h, "<tr><td>{name}</td><td>{text}</td></tr>");
        }
        h.push_str("</table>");
        more(self.ledger.len() + self.inputs.len(), h);
    }
}

/// A level in its colour.
fn pill(level: ThreatLevel) -> String {
    let (name, background) = (level.name(), colour(level));
    format!("<span class=\"l {name}\" style=\"background:{background}\">{name}</span>")
}

/// A number in groups of three digits.
fn grouped(n: u64) -> String {
    let digits = n.to_string();
    let mut out = String::with_capacity(digits.len() + digits.len() / 3);
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

fn more(there: usize, h: &mut String) {
    if there > PAGE_ROWS_MAX {
        let _ = write!(
            h,
            "<p class=\"none\">{PAGE_ROWS_MAX} of {there} are shown; all are in the files.</p>"
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page() -> Page {
        let row = |level, text: &str| Row {
            ts: TimeNs(1_700_000_000_000_000_000),
            ip: "10.0.0.1".into(),
            kind: "VERTICAL_PORT_SCAN",
            technique: "T1046",
            level,
            confidence: 0.5,
            text: text.into(),
            window: 1,
            times: 10,
        };
        Page {
            counts: vec![("flows".into(), 1_234_567)],
            hosts_total: 40,
            sorts: vec![Sort {
                kind: "VERTICAL_PORT_SCAN",
                technique: "T1046",
                level: ThreatLevel::High,
                count: 7,
            }],
            hosts: vec![
                Host { ip: "10.0.0.1".into(), score: 12.5, alerts: 1, levels: [1, 0, 2, 3, 0] },
                Host { ip: "2001:db8::1".into(), score: 0.5, alerts: 0, levels: [0, 1, 0, 0, 0] },
            ],
            evidence: vec![row(ThreatLevel::High, "<script>alert('x')</script> & \"more\"")],
            evidence_total: 7,
            moments: (0..200)
                .map(|n| (1_700_000_000 + n * 60, LEVELS[n as usize % 5], 1))
                .collect(),
            scans: vec![
                ("10.0.0.1".into(), "23/tcp".into(), 100),
                ("10.0.0.2".into(), "10.9.9.9".into(), 10),
            ],
            pairs: vec![Pair {
                from: "10.0.0.1".into(),
                to: "192.0.2.1".into(),
                seconds: (0..50).map(|n| n * 60 + n % 3).collect(),
            }],
            alerts: vec![("10.0.0.1".into(), 1, 15.2)],
            rules: vec![RuleAlert {
                sid: 1,
                msg: "a <rule>".into(),
                severity: 2,
                count: 3,
                first: ("a".into(), "b".into()),
            }],
            records: vec![("dns".into(), 40), ("http".into(), 4)],
            named: vec!["x.log".into()],
            inputs: vec![("x.log".into(), "5 records".into())],
            ledger: vec![("logs".into(), "received 5".into())],
        }
    }

    /// Nothing from outside becomes markup, nothing is loaded, and each tag that is opened is closed.
    #[test]
    fn a_page_is_whole_and_harmless() {
        let html = page().html();
        assert!(!html.contains("<script") && !html.contains("<rule>"));
        assert!(!html.contains("http://") && !html.contains("https://") && !html.contains("src="));
        for tag in ["table", "svg", "div", "figure", "tr", "td", "h2", "code", "span"] {
            let opened = html.matches(&format!("<{tag}>")).count()
                + html.matches(&format!("<{tag} ")).count();
            assert_eq!(opened, html.matches(&format!("</{tag}>")).count(), "{tag}");
        }
        for id in ["who", "when", "scans", "beacons", "why", "what", "rules", "protocols", "ledger"]
        {
            assert!(html.contains(&format!("id=\"{id}\"")), "{id}");
        }
        for text in ["of x.log", "evidence from 2023-11-14 22:13", "1,234,567", "2 of 40 hosts"] {
            assert!(html.contains(text), "{text}");
        }
        // A page of nothing is a page.
        assert!(Page::default().html().contains("</html>"));
    }
}
