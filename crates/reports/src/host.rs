//! What a run knows of one address, for `gabion behavior show`: its windows, its evidence in order of time, its tuples
//! as letters with their scores, and its repeated connections.

use crate::Error;
use crate::finding_list::json_of;
use crate::findings::{Line, read_findings};
use gabion_behavior::pairs::{FIRST, GROUPS, Model, Score};
use gabion_behavior::stages::Facts;
use gabion_behavior::{Profile, Settings};
use gabion_outputs::idmef::round;
use gabion_outputs::profile_store::windows_of;
use gabion_outputs::table::{Align, Table, thousands};
use gabion_record::Ip;
use gabion_record::budget::ByteSize;
use gabion_record::json::Json;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::Path;

/// Flows from which a pair gets a line.
const FLOWS_LEAST: usize = 4;
/// Number of flows from which letters are meaningful.
const LETTERS_LEAST: u32 = 3;
/// Ids of flows that a row of the timeline shows.
const UIDS_SHOWN: usize = 2;
/// Letters that a table shows; `--json` has all.
const LETTERS_SHOWN: usize = 60;
/// What the address was at the end of a window: totals since it was first seen.
#[derive(Debug, Default)]
struct Window {
    number: i64,
    records: u64,
    flows: u64,
    /// Bytes that it sent.
    bytes: u64,
    /// Findings of this window and those before.
    findings: u64,
    last: String,
}

/// A destination whose flows of the last day are kept exactly.
#[derive(Debug)]
struct Pair {
    to: String,
    port: u16,
    flows: usize,
    median_s: u32,
    spread_s: u32,
    median_bytes: u32,
}

/// A destination and port of one window: its flows as letters, and how much they are like those of a
/// program that calls its controller.
#[derive(Debug)]
struct Tuple {
    window: i64,
    to: String,
    port: u16,
    flows: u32,
    letters: String,
    score: Option<Score>,
}

/// What a run knows of one address.
#[derive(Debug)]
pub struct HostReport {
    ip: String,
    warning: Option<String>,
    windows: Vec<Window>,
    /// Findings in order of time, each as it was reported last.
    found: Vec<Line>,
    /// Alerts about it.
    alerts: Vec<Line>,
    pairs: Vec<Pair>,
    tuples: Vec<Tuple>,
}

impl HostReport {
    /// Reads the findings and profiles of an address in the folder of a run.
    ///
    /// # Errors
    /// When the folder has no findings or no profiles.
    pub fn read_folder(folder: &Path, address: Ip) -> Result<HostReport, Error> {
        let ip = address.to_string();
        let mut found = read_findings(folder, Some(&ip), &mut |_| ())?;
        found.all.sort_by(|a, b| (&a.when, &a.finding).cmp(&(&b.when, &b.finding)));
        let rows = windows_of(folder, address.to_bytes()).map_err(Error::Profiles)?;
        let mut profiles: Vec<(i64, Profile)> = rows
            .into_iter()
            .filter_map(|r| Profile::decode(&r.bytes).map(|p| (r.window, p)))
            .collect();
        // Of one flow only those detectors have seen it that may say something; what is shown is of all.
        for (_, profile) in &mut profiles {
            profile.complete(&Facts::default(), &Settings::default());
        }
        let windows = windows(&profiles, &found.all);
        let pairs = profiles.last().map(|(_, p)| pairs(p)).unwrap_or_default();
        let tuples = tuples(&profiles);
        let (alerts, warning) = (found.alerts, found.warning);
        Ok(HostReport { ip, warning, windows, found: found.all, alerts, pairs, tuples })
    }

    /// What is wrong with the file of findings.
    pub fn warning(&self) -> Option<&str> {
        self.warning.as_deref()
    }

    /// Whether nothing is known of it.
    pub fn is_empty(&self) -> bool {
        self.windows.is_empty() && self.found.is_empty() && self.alerts.is_empty()
    }

    /// For people, with up to `rows` rows of evidence, the latest. `width`: columns of the terminal, if it is one.
    pub fn text(&self, rows: usize, width: Option<u16>) -> String {
        text(self, rows, width)
    }

    /// One JSON object, with its line end.
    pub fn json(&self) -> String {
        as_json(self)
    }
}

/// The windows that profiles were kept of, and those that findings are of; the findings counted in them are those
/// that are shown.
fn windows(profiles: &[(i64, Profile)], found: &[Line]) -> Vec<Window> {
    let mut all: BTreeMap<i64, Window> = BTreeMap::new();
    for (number, p) in profiles {
        let window = Window {
            records: p.records(),
            flows: p.flows(),
            bytes: p.bytes_sent(),
            last: p.last().iso().to_string(),
            ..Window::default()
        };
        all.insert(*number, window);
    }
    for line in found {
        let window = all.entry(line.window).or_default();
        window.findings += 1;
        // Of a window whose profile was not kept nothing else is known.
        if window.records == 0 && window.last < line.when {
            window.last.clone_from(&line.when);
        }
    }
    let mut findings = 0;
    for (number, window) in &mut all {
        findings += window.findings;
        (window.number, window.findings) = (*number, findings);
    }
    all.into_values().collect()
}

/// Tuples of all windows, scored by the model that this program has; in each window those most like a
/// controller first.
fn tuples(profiles: &[(i64, Profile)]) -> Vec<Tuple> {
    let model = Model::default();
    let mut all = Vec::new();
    for (window, profile) in profiles {
        all.extend(profile.tuples().filter(|t| t.flows >= LETTERS_LEAST).map(|t| Tuple {
            window: *window,
            to: t.to.to_string(),
            port: t.port,
            flows: t.flows,
            letters: String::from_utf8_lossy(t.letters).into_owned(),
            // Of fewer the detector asks nothing either.
            score: if t.flows >= FIRST { model.score(t.letters) } else { None },
        }));
    }
    let score = |t: &Tuple| t.score.map_or(0.0, |s| s.score);
    all.sort_by(|a, b| {
        let by_score = score(b).total_cmp(&score(a));
        a.window.cmp(&b.window).then(by_score).then_with(|| (&a.to, a.port).cmp(&(&b.to, b.port)))
    });
    all
}

fn pairs(profile: &Profile) -> Vec<Pair> {
    let middle = |mut all: Vec<u32>| -> (u32, u32) {
        all.sort_unstable();
        let at = |share: usize| all.get(all.len() * share / 4).copied().unwrap_or(0);
        (at(2), at(3).saturating_sub(at(1)))
    };
    let mut pairs: Vec<Pair> = profile
        .pairs()
        .filter(|calls| calls.flows.len() >= FLOWS_LEAST)
        .map(|calls| {
            let flows = calls.flows;
            let mut seconds: Vec<u32> = flows.iter().map(|f| f.0).collect();
            seconds.sort_unstable();
            let gap = |w: &[u32]| Some(w.get(1)?.saturating_sub(*w.first()?));
            let (median_s, spread_s) = middle(seconds.windows(2).filter_map(gap).collect());
            let (median_bytes, _) = middle(flows.iter().map(|f| f.1).collect());
            Pair {
                to: calls.callee(),
                port: calls.port,
                flows: flows.len() + calls.more as usize,
                median_s,
                spread_s,
                median_bytes,
            }
        })
        .collect();
    pairs.sort_by(|a, b| b.flows.cmp(&a.flows).then_with(|| a.to.cmp(&b.to)));
    pairs
}

fn text(host: &HostReport, rows: usize, width: Option<u16>) -> String {
    let HostReport { ip, windows, found, alerts, pairs, tuples, .. } = host;
    let mut out = format!("Profile {ip}\n");
    if host.is_empty() {
        out.push_str("\nNothing was found about it, or it is not in this run.\n");
        return out;
    }
    let time = |iso: &str| iso.get(..19).unwrap_or(iso).replace('T', " ");
    out.push_str("\nWindows (totals at the end of each)\n");
    let right = Align::Right;
    let mut table = Table::new(&[
        ("WINDOW", right),
        ("RECORDS", right),
        ("FLOWS", right),
        ("SENT", right),
        ("FINDINGS", right),
        ("LAST SEEN", Align::Left),
    ]);
    for w in windows {
        let number = |n: u64| if w.records > 0 { thousands(n) } else { String::new() };
        table.row([
            w.number.to_string(),
            number(w.records),
            number(w.flows),
            if w.records > 0 { ByteSize(w.bytes).to_string() } else { String::new() },
            thousands(w.findings),
            time(&w.last),
        ]);
    }
    out.push_str(&table.render(width));
    if !alerts.is_empty() {
        let _ = writeln!(out, "\nAlerts ({})", alerts.len());
        let mut table = Table::new(&[("WINDOW", right), ("BEGAN", Align::Left)]);
        for a in alerts {
            table.row([a.window.to_string(), time(&a.start)]);
        }
        out.push_str(&table.render(width));
    }
    let left = found.len().saturating_sub(rows);
    let _ = writeln!(
        out,
        "\nTimeline ({} findings{})",
        thousands(found.len() as u64),
        match left {
            0 => String::new(),
            n => format!(", the first {} left out: --rows shows more", thousands(n as u64)),
        }
    );
    let mut table = Table::new(&[
        ("WHEN", Align::Left),
        ("WINDOW", right),
        ("LEVEL", Align::Left),
        ("WHAT", Align::Left),
        ("IN WORDS", Align::Left),
        ("FLOWS", Align::Left),
    ]);
    for f in found.iter().skip(left) {
        table.row([
            time(&f.when),
            f.window.to_string(),
            f.level.to_string(),
            f.kind.clone(),
            f.text.clone(),
            flows_of(f),
        ]);
    }
    out.push_str(&table.render(width));
    if !tuples.is_empty() {
        out.push_str("\nConnections scored for C&C (each letter is one flow)\n");
        out.push_str(&tuples_table(tuples, width));
    }
    if !pairs.is_empty() {
        out.push_str("\nRepeated connections (24 h)\n");
        out.push_str(&pairs_table(pairs, width));
    }
    out
}

/// The first ids of a finding's flows, and how many more there are here; `--json` has all.
fn flows_of(line: &Line) -> String {
    let mut text = line.uids.iter().take(UIDS_SHOWN).cloned().collect::<Vec<_>>().join(" ");
    let more = line.uids.len().saturating_sub(UIDS_SHOWN);
    if more > 0 {
        let _ = write!(text, " +{more}");
    }
    text
}

fn tuples_table(tuples: &[Tuple], width: Option<u16>) -> String {
    let right = Align::Right;
    let mut table = Table::new(&[
        ("WINDOW", right),
        ("TO", Align::Left),
        ("PORT", right),
        ("FLOWS", right),
        ("SCORE", right),
        ("MOSTLY BY", Align::Left),
        ("LETTERS", Align::Left),
    ]);
    for t in tuples {
        let mut letters: String = t.letters.chars().take(LETTERS_SHOWN).collect();
        if letters.len() < t.letters.len() {
            letters.push('…');
        }
        table.row([
            t.window.to_string(),
            t.to.clone(),
            format!("{}/tcp", t.port),
            t.flows.to_string(),
            t.score.map_or_else(String::new, |s| format!("{:.3}", s.score)),
            t.score.and_then(|s| mostly(&s)).unwrap_or_default(),
            letters,
        ]);
    }
    table.render(width)
}

/// The group of numbers that added most to a score.
fn mostly(score: &Score) -> Option<String> {
    let parts = GROUPS.iter().zip(score.parts);
    let (name, part) = parts.max_by(|a, b| a.1.total_cmp(&b.1))?;
    (part > 0.0).then(|| format!("{name} {part:+.2}"))
}

fn pairs_table(pairs: &[Pair], width: Option<u16>) -> String {
    let right = Align::Right;
    let mut table = Table::new(&[
        ("TO", Align::Left),
        ("PORT", right),
        ("FLOWS", right),
        ("MEDIAN INTERVAL", right),
        ("SPREAD (IQR)", right),
        ("BYTES", right),
    ]);
    for p in pairs {
        table.row([
            p.to.clone(),
            p.port.to_string(),
            p.flows.to_string(),
            format!("{} s", p.median_s),
            format!("{} s", p.spread_s),
            p.median_bytes.to_string(),
        ]);
    }
    table.render(width)
}

fn as_json(host: &HostReport) -> String {
    let HostReport { ip, windows, found, alerts, pairs, tuples, .. } = host;
    let mut j = Json::new();
    j.open();
    j.field_plain("profile", ip);
    j.open_array_key("windows");
    for w in windows {
        j.open();
        j.number("window", w.number);
        j.number("records", w.records);
        j.number("flows", w.flows);
        j.number("bytes_sent", w.bytes);
        j.number("findings", w.findings);
        j.field_plain("last", &w.last);
        j.close();
    }
    j.close_array();
    j.open_array_key("alerts");
    for a in alerts {
        j.open();
        j.number("window", a.window);
        j.field_plain("start", &a.start);
        j.close();
    }
    j.close_array();
    j.open_array_key("timeline");
    found.iter().for_each(|line| json_of(line, &mut j));
    j.close_array();
    j.open_array_key("tuples");
    for t in tuples {
        j.open();
        j.number("window", t.window);
        j.field_plain("to", &t.to);
        j.number("port", t.port);
        j.number("flows", t.flows);
        j.field("letters", &t.letters);
        if let Some(score) = t.score {
            j.float("score", round(score.score));
            j.open_key("parts");
            GROUPS.iter().zip(score.parts).for_each(|(name, part)| j.float(name, round(part)));
            j.close();
        }
        j.close();
    }
    j.close_array();
    j.open_array_key("pairs");
    for p in pairs {
        j.open();
        j.field_plain("to", &p.to);
        j.number("port", p.port);
        j.number("flows", p.flows as u64);
        j.number("median_s", p.median_s);
        j.number("spread_s", p.spread_s);
        j.number("median_bytes", p.median_bytes);
        j.close();
    }
    j.close_array();
    j.close();
    j.into_line()
}
