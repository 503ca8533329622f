//! `gabion behavior show`: what a run knows of one address: its windows, its evidence in order of time,
//! its tuples as letters with their scores, and whom it talks to again and again.

use super::findings::Lines;
use crate::exit::{Exit, Fault};
use crate::standard_output;
use clap::Args;
use gabion_behavior::Profile;
use gabion_behavior::command_and_control::features::GROUPS;
use gabion_behavior::command_and_control::{Model, Score};
use gabion_behavior::detect::command_control::FIRST;
use gabion_flowlog::json::{self, Value, members};
use gabion_outputs::store::windows_of;
use gabion_outputs::table::{Align, Table};
use gabion_record::Ip;
use gabion_record::json::Json;
use std::fmt::Write;
use std::io::BufReader;
use std::path::{Path, PathBuf};

/// Options of `behavior show`.
#[derive(Debug, Args)]
pub(crate) struct ShowOptions {
    /// Folder that a run wrote (`gabion read --behavior -l OUTDIR`)
    #[arg(value_name = "OUTDIR")]
    folder: PathBuf,
    /// The address
    #[arg(long, value_name = "IP")]
    profile: String,
    /// Print one JSON object instead of tables
    #[arg(long)]
    json: bool,
    /// Rows of evidence shown, the latest [default: 100]
    #[arg(long, value_name = "N")]
    rows: Option<usize>,
}

/// Flows that make a pair worth a line.
const FLOWS_LEAST: usize = 4;
/// Flows from which on letters say something.
const LETTERS_LEAST: u32 = 3;
/// Letters that a table shows; `--json` has all.
const LETTERS_SHOWN: usize = 60;

/// One line of `alerts.json` about the address.
#[derive(Debug, Default)]
struct Found {
    when: String,
    kind: String,
    level: String,
    window: String,
    text: String,
    is_alert: bool,
}

/// What one window held.
#[derive(Debug)]
struct Window {
    number: i64,
    records: u64,
    flows: u64,
    findings: u64,
    last: String,
    bytes: usize,
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

/// All that is known of an address.
#[derive(Debug, Default)]
struct Shown {
    windows: Vec<Window>,
    found: Vec<Found>,
    pairs: Vec<Pair>,
    tuples: Vec<Tuple>,
}

/// Runs the verb.
pub(crate) fn run(o: &ShowOptions) -> Result<Exit, Fault> {
    let ip = Ip::parse(o.profile.as_bytes()).ok_or_else(|| {
        Fault::usage(format!("{}: no address: name an IPv4 or IPv6 address", o.profile))
    })?;
    let found = found(&o.folder, &ip.to_string())?;
    let rows = windows_of(&o.folder, ip.to_bytes()).map_err(|e| {
        Fault::input(format!("{e}: name a folder that `gabion read --behavior -l` wrote"))
    })?;
    let profiles: Vec<(i64, usize, Profile)> = rows
        .into_iter()
        .filter_map(|r| Profile::decode(&r.bytes).map(|p| (r.window, r.bytes.len(), p)))
        .collect();
    let windows: Vec<Window> = profiles
        .iter()
        .map(|(number, bytes, p)| Window {
            number: *number,
            records: p.records(),
            flows: p.flows(),
            findings: p.findings(),
            last: p.last().iso().to_string(),
            bytes: *bytes,
        })
        .collect();
    let pairs = profiles.last().map(|(_, _, p)| pairs(p)).unwrap_or_default();
    let tuples = tuples(&profiles);
    let shown = Shown { windows, found, pairs, tuples };
    let said = match o.json {
        true => as_json(&ip.to_string(), &shown),
        false => text(&ip.to_string(), &shown, o.rows.unwrap_or(100)),
    };
    standard_output::text(&said);
    // An address of which nothing is known is an answer too.
    Ok(if shown.is_empty() { Exit::No } else { Exit::Done })
}

impl Shown {
    fn is_empty(&self) -> bool {
        self.windows.is_empty() && self.found.is_empty()
    }
}

/// Tuples of all windows, scored by the model that this program has; in each window those most like a
/// controller first.
fn tuples(profiles: &[(i64, usize, Profile)]) -> Vec<Tuple> {
    let model = Model::default();
    let mut all = Vec::new();
    for (window, _, profile) in profiles {
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
                to: super::sink::whom(&calls),
                port: calls.port,
                flows: flows.len(),
                median_s,
                spread_s,
                median_bytes,
            }
        })
        .collect();
    pairs.sort_by(|a, b| b.flows.cmp(&a.flows).then_with(|| a.to.cmp(&b.to)));
    pairs
}

/// Lines of `alerts.json` whose source is the address, in order of time.
fn found(folder: &Path, ip: &str) -> Result<Vec<Found>, Fault> {
    let path = folder.join("alerts.json");
    let file = std::fs::File::open(&path).map_err(|e| {
        let shown = path.display();
        Fault::input(format!("{shown}: {e}: name a folder that `gabion read --behavior -l` wrote"))
    })?;
    let mut all = Vec::new();
    let mut line = Vec::new();
    let mut lines = Lines::of(BufReader::new(file));
    let needle = format!("\"IP\":\"{ip}\"");
    loop {
        match lines.next(&mut line) {
            Ok(false) => break,
            Ok(true) => {}
            Err(e) => return Err(Fault::input(format!("{}: {e}: try again", path.display()))),
        }
        // A look before the reading: most lines are about others.
        if line.windows(needle.len()).any(|w| w == needle.as_bytes())
            && let Some(found) = one(&line, &needle)
        {
            all.push(found);
        }
    }
    lines.warn(&path);
    all.sort_by(|a, b| a.when.cmp(&b.when));
    Ok(all)
}

fn one(line: &[u8], needle: &str) -> Option<Found> {
    let own = |value: Value<'_>| {
        let mut text = Vec::new();
        json::unescape(value.raw(), &mut text);
        String::from_utf8_lossy(&text).into_owned()
    };
    let mut found = Found::default();
    let mut is_source = false;
    members(line, |key, value| match key {
        b"Status" => found.is_alert = value.raw() == b"Incident",
        b"StartTime" => found.when = own(value),
        b"Description" => found.text = own(value),
        b"Source" => {
            is_source = value.raw().windows(needle.len()).any(|w| w == needle.as_bytes());
        }
        b"_gabion" => {
            let _ = members(value.raw(), |key, value| match key {
                b"type" => found.kind = own(value),
                b"detected" => found.when = own(value),
                _ => {}
            });
        }
        b"Note" => {
            let note = own(value);
            let _ = members(note.as_bytes(), |key, value| match key {
                b"threat_level" => found.level = own(value),
                b"timewindow" => found.window = own(value),
                _ => {}
            });
        }
        _ => {}
    })?;
    if found.is_alert {
        (found.kind, found.level) = ("ALERT".to_owned(), "alert".to_owned());
        found.text = "Generated an alert given enough evidence".to_owned();
    }
    is_source.then_some(found)
}

fn text(ip: &str, shown: &Shown, rows: usize) -> String {
    let Shown { windows, found, pairs, tuples } = shown;
    let mut out = format!("Profile {ip}\n");
    if shown.is_empty() {
        out.push_str("\nNothing was found about it, or it is not in this run.\n");
        return out;
    }
    let time = |iso: &str| iso.get(..19).unwrap_or(iso).replace('T', " ");
    out.push_str("\nWindows\n");
    let right = Align::Right;
    let mut table = Table::new(&[
        ("WINDOW", right),
        ("RECORDS SO FAR", right),
        ("FLOWS SO FAR", right),
        ("FINDINGS SO FAR", right),
        ("LAST SEEN", Align::Left),
        ("BYTES", right),
    ]);
    for w in windows {
        table.row([
            w.number.to_string(),
            w.records.to_string(),
            w.flows.to_string(),
            w.findings.to_string(),
            time(&w.last),
            w.bytes.to_string(),
        ]);
    }
    out.push_str(&table.render(None));
    let left = found.len().saturating_sub(rows);
    let _ = writeln!(
        out,
        "\nTimeline ({} findings{})",
        found.len(),
        match left {
            0 => String::new(),
            n => format!(", the first {n} left out: --rows shows more"),
        }
    );
    let mut table = Table::new(&[
        ("WHEN", Align::Left),
        ("WINDOW", right),
        ("LEVEL", Align::Left),
        ("WHAT", Align::Left),
        ("IN WORDS", Align::Left),
    ]);
    for f in found.iter().skip(left) {
        table.row([
            time(&f.when),
            f.window.clone(),
            f.level.clone(),
            f.kind.clone(),
            f.text.clone(),
        ]);
    }
    out.push_str(&table.render(None));
    if !tuples.is_empty() {
        out.push_str("\nTuples (letters of their flows; how much like calls to a controller)\n");
        out.push_str(&tuples_table(tuples));
    }
    if !pairs.is_empty() {
        out.push_str("\nAgain and again (flows of the last day)\n");
        out.push_str(&pairs_table(pairs));
    }
    out
}

fn tuples_table(tuples: &[Tuple]) -> String {
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
    table.render(None)
}

/// The group of numbers that added most to a score.
fn mostly(score: &Score) -> Option<String> {
    let parts = GROUPS.iter().zip(score.parts);
    let (name, part) = parts.max_by(|a, b| a.1.total_cmp(&b.1))?;
    (part > 0.0).then(|| format!("{name} {part:+.2}"))
}

fn pairs_table(pairs: &[Pair]) -> String {
    let right = Align::Right;
    let mut table = Table::new(&[
        ("TO", Align::Left),
        ("PORT", right),
        ("FLOWS", right),
        ("EVERY", right),
        ("QUARTILES APART", right),
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
    table.render(None)
}

fn as_json(ip: &str, shown: &Shown) -> String {
    let Shown { windows, found, pairs, tuples } = shown;
    let mut j = Json::new();
    j.open();
    j.field_plain("profile", ip);
    j.open_array_key("windows");
    for w in windows {
        j.open();
        j.number("window", w.number);
        j.number("records", w.records);
        j.number("flows", w.flows);
        j.number("findings", w.findings);
        j.field_plain("last", &w.last);
        j.close();
    }
    j.close_array();
    j.open_array_key("timeline");
    for f in found {
        j.open();
        j.field_plain("when", &f.when);
        j.field_plain("window", &f.window);
        j.field_plain("level", &f.level);
        j.field_plain("type", &f.kind);
        j.field("text", f.text.as_bytes());
        j.close();
    }
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
            j.float("score", score.score);
            j.open_key("parts");
            GROUPS.iter().zip(score.parts).for_each(|(name, part)| j.float(name, part));
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
        j.number("quartiles_apart_s", p.spread_s);
        j.number("median_bytes", p.median_bytes);
        j.close();
    }
    j.close_array();
    j.close();
    j.into_line()
}
