//! One page about a run, for people: which hosts, when, how bad, why.
//!
//! A single file without scripts and without anything from elsewhere, which fits a telephone and a wide screen.
//! It shows whichever engines ran: calls of hosts, hosts, findings and alerts of the behaviour engine; alerts,
//! hosts and records of the network engine; and the ledger of both. Links lead from a host to its findings and
//! from there to the flows they are about. All texts from outside are escaped, and the page's own policy lets
//! nothing be loaded.

mod behaviour;
mod chart;
mod network;
pub mod strips;
mod syscalls;

use crate::limits::PAGE_ROWS_MAX;
use gabion_record::evidence::ThreatLevel;
use gabion_record::logs::{SECOND, TimeNs};
use std::collections::BTreeMap;
use std::fmt::Write;

pub use syscalls::{SyscallRule, SyscallSeen};

/// Inputs named below the title.
const INPUTS_SHOWN: usize = 3;

/// A host in the table of hosts.
#[derive(Clone, Debug, Default)]
pub struct Host {
    /// Its address.
    pub ip: String,
    /// Level times confidence of its worst finding.
    pub worst: f64,
    /// The worst finding's type.
    pub kind: String,
    /// And its level.
    pub level: ThreatLevel,
    /// Kinds of findings above info.
    pub kinds: u64,
    /// Sum of threat levels by confidence.
    pub score: f64,
    /// Alerts.
    pub alerts: u64,
    /// Evidence by level, from info to critical.
    pub levels: [u64; 5],
}

/// A host and a destination that it calls.
#[derive(Clone, Debug, Default)]
pub struct Call {
    /// The host that calls.
    pub from: String,
    /// The destination: a name or an address.
    pub to: String,
    /// Its port, 0 for none.
    pub port: u16,
    /// RITA's threat.
    pub threat: f64,
    /// What it does: `beacon, long`.
    pub what: String,
    /// The worst level.
    pub level: ThreatLevel,
    /// Flows.
    pub count: u64,
    /// Bytes sent.
    pub bytes: u64,
    /// The finding that says it, when it is on the page.
    pub finding: Option<String>,
}

/// A finding as it was reported last.
#[derive(Clone, Debug)]
pub struct Finding {
    /// Its id.
    pub id: String,
    /// When it was reported last.
    pub ts: TimeNs,
    /// The first and the last moment of what was found.
    pub span: (TimeNs, TimeNs),
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
    /// The flow's ends: `10.0.0.1 → 192.0.2.1:443 tcp`; empty where it has none.
    pub ends: String,
    /// How many flows or the like it counts.
    pub count: u64,
    /// Ids of flows, the first few, as the log has them.
    pub uids: Vec<String>,
    /// When it was reported, and what it measured then.
    pub report_ids: Vec<(TimeNs, String)>,
    /// The pair whose chart shows it.
    pub pair: Option<(String, String)>,
}

/// Two hosts that talk again and again.
#[derive(Clone, Debug, Default)]
pub struct Pair {
    /// The host that begins.
    pub from: String,
    /// The other host.
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
    /// How many.
    pub count: u64,
}

/// A rule that alerted.
#[derive(Clone, Debug, Default)]
pub struct RuleAlert {
    /// Generator.
    pub gid: u32,
    /// Signature.
    pub sid: u32,
    /// Its message.
    pub msg: String,
    /// 1 is the most severe.
    pub severity: u32,
    /// How often.
    pub count: u64,
    /// The first of its alerts.
    pub flows: Vec<AlertFlow>,
}

/// An alert with its flow.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AlertFlow {
    /// When.
    pub ts: TimeNs,
    /// Source and destination.
    pub ends: (String, String),
    /// Number of its flow in `eve.json`.
    pub flow_id: Option<u64>,
    /// Number of its packet in the capture.
    pub packet: Option<u64>,
    /// The capture.
    pub capture: String,
}

/// A host in alerts of rules.
#[derive(Clone, Debug, Default)]
pub struct AlertedHost {
    /// Its address.
    pub ip: String,
    /// Alerts it was an end of.
    pub alerts: u64,
    /// The most severe of them.
    pub severity: u32,
    /// Its rules: generator, signature, how often, and the first of its alerts where that is known.
    pub rules: Vec<(u32, u32, u64, Option<AlertFlow>)>,
}

/// All that a page shows.
#[derive(Clone, Debug, Default)]
pub struct Page {
    /// What the run was asked to read.
    pub named: Vec<String>,
    /// The first and the last moment of what was read.
    pub span: Option<(TimeNs, TimeNs)>,
    /// Inputs, each with its outcome.
    pub inputs: Vec<(String, String)>,
    /// What was counted: name and number.
    pub counts: Vec<(String, u64)>,
    /// What is known of addresses: autonomous system and country.
    pub places: BTreeMap<String, String>,
    /// Destinations that hosts call, the worst first; and how many there are.
    pub calls: Vec<Call>,
    /// See above.
    pub calls_total: u64,
    /// Hosts with evidence, or the worst of them; and how many there are.
    pub hosts: Vec<Host>,
    /// See above.
    pub hosts_total: u64,
    /// Evidence by type.
    pub sorts: Vec<Sort>,
    /// Findings that are shown, those of a host together.
    pub findings: Vec<Finding>,
    /// Findings in all.
    pub findings_total: u64,
    /// All evidence over time: second, level, how many.
    pub moments: Vec<(i64, ThreatLevel, u64)>,
    /// Scans: source, port or host scanned, how many.
    pub scans: Vec<(String, String, u64)>,
    /// Beacons.
    pub pairs: Vec<Pair>,
    /// Alerts of hosts: address, window, sum.
    pub alerts: Vec<(String, i64, f64)>,
    /// The network engine ran.
    pub has_network: bool,
    /// Alerts of rules.
    pub rules: Vec<RuleAlert>,
    /// Hosts in them, or the worst of these; and how many there are.
    pub alerted: Vec<AlertedHost>,
    /// See above.
    pub alerted_total: u64,
    /// Rules were tried on system calls.
    pub has_system_calls: bool,
    /// Those that alerted, the most urgent first.
    pub syscall_rules: Vec<SyscallRule>,
    /// Alerts about system calls over time: second, level, how many.
    pub syscall_moments: Vec<(i64, ThreatLevel, u64)>,
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
            c if c.is_control() || is_reordering(c) => out.push('\u{fffd}'),
            c => out.push(c),
        }
    }
    out
}

/// Whether a character changes the order of those around it: a name with it would read as another one.
fn is_reordering(c: char) -> bool {
    matches!(c, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
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

pub(crate) const LEVELS: [ThreatLevel; 5] = ThreatLevel::ALL;

const STYLE: &str = include_str!("style.css");

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
        let mut sections = String::new();
        if self.has_behaviour() {
            self.behaviour(&mut sections);
        }
        if self.has_network {
            self.network(&mut sections);
        }
        if self.has_system_calls {
            self.system_calls(&mut sections);
        }
        self.ledgers(&mut sections);
        contents(&sections, &mut h);
        h.push_str(&sections);
        h.push_str("</body></html>\n");
        h
    }

    fn has_behaviour(&self) -> bool {
        !self.hosts.is_empty() || self.findings_total > 0 || !self.findings.is_empty()
    }

    /// What the page is about: inputs, and the time between their first and their last moment.
    fn origin(&self, h: &mut String) {
        let mut shown: Vec<String> =
            self.named.iter().take(INPUTS_SHOWN).map(|name| escaped(name)).collect();
        let more = self.named.len().saturating_sub(shown.len());
        if more > 0 {
            shown.push(format!("{more} more"));
        }
        let of =
            if shown.is_empty() { String::new() } else { format!("of {} · ", shown.join(", ")) };
        let minute = |t: TimeNs| chart::time(t.seconds());
        let when = match self.span {
            Some((a, b)) if a.seconds() / 60 == b.seconds() / 60 => format!("{} UTC · ", minute(a)),
            Some((a, b)) => {
                format!("{} to {} UTC ({}) · ", minute(a), minute(b), lasting(a, b))
            }
            None => String::new(),
        };
        let version = env!("CARGO_PKG_VERSION");
        let _ = write!(h, "<p class=\"of\">{of}{when}Gabion {version}</p>");
    }

    fn cards(&self, h: &mut String) {
        h.push_str("<div class=\"cards\">");
        for (name, n) in &self.counts {
            let _ = write!(h, "<div><b>{}</b>{}</div>", grouped(*n), escaped(name));
        }
        h.push_str("</div>");
    }

    /// What is known of an address, after it.
    fn place(&self, ip: &str) -> String {
        match self.places.get(ip) {
            Some(place) => format!(" <small>{}</small>", escaped(place)),
            None => String::new(),
        }
    }

    fn ledgers(&self, h: &mut String) {
        h.push_str("<h2 id=\"ledger\">What was read, and what was not</h2><table><tbody>");
        for (name, text) in self.ledger.iter().chain(&self.inputs).take(PAGE_ROWS_MAX) {
            let (name, text) = (escaped(name), escaped(text));
            let _ = write!(
                h,
                "<tr><td class=\"w\"><span>{name}</span></td><td class=\"w\"><span>{text}</span></td></tr>"
            );
        }
        h.push_str("</tbody></table>");
        more(self.ledger.len() + self.inputs.len(), h);
    }
}

/// Links to the sections that there are.
fn contents(sections: &str, h: &mut String) {
    h.push_str("<nav>");
    for (id, name) in [
        ("calls", "Calls out"),
        ("who", "Hosts"),
        ("when", "Time"),
        ("what", "Types"),
        ("scans", "Scans"),
        ("beacons", "Beacons"),
        ("why", "Findings"),
        ("alerted", "Hosts in alerts"),
        ("rules", "Rules"),
        ("alerted-when", "Time of alerts"),
        ("calls-of-programs", "System calls"),
        ("protocols", "Records"),
        ("ledger", "Ledger"),
    ] {
        if sections.contains(&format!("<h2 id=\"{id}\">")) {
            let _ = write!(h, "<a href=\"#{id}\">{name}</a>");
        }
    }
    h.push_str("</nav>");
}

/// A table whose columns have these names and classes.
fn table(columns: &[(&str, &str)], h: &mut String) {
    h.push_str("<table><thead><tr>");
    for (name, class) in columns {
        let class = if *class == "n" { " class=\"n\"" } else { "" };
        let _ = write!(h, "<th{class}>{name}</th>");
    }
    h.push_str("</tr></thead><tbody>");
}

/// A row of such a table, of cells that are HTML. On a narrow screen each cell is a line with its column's name.
fn row(id: &str, columns: &[(&str, &str)], cells: &[String], h: &mut String) {
    match id {
        "" => h.push_str("<tr>"),
        id => {
            let _ = write!(h, "<tr id=\"{id}\">");
        }
    }
    for ((name, class), cell) in columns.iter().zip(cells) {
        let class = match *class {
            "" => String::new(),
            class => format!(" class=\"{class}\""),
        };
        let _ = write!(h, "<td{class} data-l=\"{name}\"><span>{cell}</span></td>");
    }
    h.push_str("</tr>");
}

/// A level in its colour.
fn pill(level: ThreatLevel) -> String {
    let (name, background) = (level.name(), colour(level));
    format!("<span class=\"l {name}\" style=\"background:{background}\">{name}</span>")
}

/// A number in groups of three digits.
fn grouped(n: u64) -> String {
    crate::table::thousands(n)
}

/// A moment to the second.
fn second(ts: TimeNs) -> String {
    ts.iso().to_string().get(..19).unwrap_or_default().replace('T', " ")
}

/// How long it is from one moment to another.
fn lasting(from: TimeNs, to: TimeNs) -> String {
    match to.since(from) / SECOND {
        s @ ..120 => format!("{s} s"),
        s @ ..7200 => format!("{} min", s / 60),
        s @ ..172_800 => format!("{} h", s / 3600),
        s => format!("{} days", s / 86_400),
    }
}

/// A part of an id of the page, from a text from outside.
fn anchor(text: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | ':' | '-' | '_');
    text.chars().map(|c| if is_plain(c) { c } else { '_' }).collect()
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
mod tests;
