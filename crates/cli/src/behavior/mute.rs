//! `gabion behavior mute`: adds an entry to the whitelist, with its end and its reason, and shows beforehand which
//! findings of a run it would have hidden.

use super::findings::{Line, read, second};
use crate::exit::{Exit, Fault};
use crate::{moments, operator_file, standard_output, values};
use clap::Args;
use gabion_behavior::whitelist::{Whitelist, known_type};
use gabion_outputs::table::{Align, Table, thousands};
use gabion_record::Ip;
use gabion_record::json::Json;
use gabion_record::logs::{SECOND, TimeNs};
use gabion_runtime::limits::NAMED_FILE_BYTES_MAX;
use gabion_runtime::output::{Existing, OutputFile};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::io::Write as _;
use std::path::{Path, PathBuf};

/// Options of `behavior mute`.
#[derive(Debug, Args)]
pub(crate) struct MuteOptions {
    /// An address, a network, a name, a type of findings (BEACON), or a pair: an address, a comma, and an address or
    /// a name (10.0.0.5,198.51.100.3)
    #[arg(value_name = "HOST|TYPE|PAIR", value_parser = values::text())]
    what: String,
    /// Only findings of this type
    #[arg(long = "type", value_name = "TYPE", value_parser = super::list::kind)]
    kind: Option<String>,
    /// For how long from now on: 30m, 12h, 7d, 2w
    #[arg(long = "for", value_name = "DURATION", allow_hyphen_values = true, value_parser = duration, required_unless_present = "for_good")]
    duration: Option<i64>,
    /// Without an end
    #[arg(long, conflicts_with = "duration")]
    for_good: bool,
    /// Why, for the person who reads the whitelist later
    #[arg(long, value_name = "TEXT", value_parser = values::text())]
    because: String,
    /// The whitelist to write to [default: the one that the configuration names]
    #[arg(long, value_name = "FILE")]
    whitelist: Option<PathBuf>,
    /// The configuration that names the whitelist (whitelists.local_whitelist_path)
    #[arg(short = 'c', long, value_name = "YAML")]
    config: Option<PathBuf>,
    /// Write nothing: print which findings of this run it would have suppressed
    #[arg(long, value_name = "OUTDIR")]
    preview: Option<PathBuf>,
    /// Print one JSON object instead of a table
    #[arg(long)]
    json: bool,
}

/// Findings that a preview shows singly.
const ROWS: usize = 10;

/// Runs the verb.
pub(crate) fn run(o: &MuteOptions) -> Result<Exit, Fault> {
    let now = i64::try_from(gabion_runtime::clock::epoch_ns()).unwrap_or(i64::MAX) / SECOND;
    let entry = entry(o, now)?;
    // What is written is what will be read: a line that is none would be left out of the next run.
    let (list, wrong) = Whitelist::read(&entry, &|_| None);
    if let Some(why) = wrong.first() {
        let forms =
            "write an address (10.0.0.5), a network (10.0.0.0/8), a name or a pair of these";
        return Err(Fault::usage(format!("{}: {}: {forms}", o.what, why.error)));
    }
    if let Some(folder) = &o.preview {
        return preview(o, &entry, &list, folder);
    }
    let path = file(o)?;
    let line = append(&path, &entry)?;
    let said = match o.json {
        true => {
            let mut j = Json::new();
            j.open();
            j.field("whitelist", path.to_string_lossy().as_bytes());
            j.number("line", line);
            j.field("entry", &entry);
            j.close();
            j.into_line()
        }
        false => format!(
            "{}: line {line}: {entry}\nA run that is given this file by --whitelist keeps it back from its next start \
             on; a # before the line switches it off.\n",
            path.display()
        ),
    };
    standard_output::text(&said);
    Ok(Exit::Done)
}

/// Seconds of a duration.
fn duration(text: &str) -> Result<i64, String> {
    let is_back = text.starts_with('-') || text.ends_with("ago");
    let seconds = moments::age(text.trim()).filter(|s| *s > 0 && !is_back);
    seconds.ok_or_else(|| "no duration: write 90s, 30m, 12h, 7d or 2w".to_owned())
}

/// The line of the whitelist.
fn entry(o: &MuteOptions, now: i64) -> Result<String, Fault> {
    let what = o.what.trim();
    let mut line = match about(what) {
        Some((kind, value)) => format!("{kind},{value},both,alerts"),
        None => {
            let forms = "write an address, a network, a name with a dot, a type of findings (docs/detections.md), or \
                         ADDRESS,ADDRESS for a pair";
            let meant = values::meant(&what.to_ascii_uppercase(), &super::list::kinds());
            return Err(Fault::usage(format!(
                "{what}: neither host nor type nor pair: {meant}{forms}"
            )));
        }
    };
    if let Some(kind) = &o.kind {
        if line.starts_with("evidence,") {
            return Err(Fault::usage(format!(
                "--type {kind}: {what} is a type already: leave one out"
            )));
        }
        let _ = write!(line, ",type={kind}");
    }
    if let Some(seconds) = o.duration {
        let end = now.checked_add(seconds).and_then(|s| jiff::Timestamp::from_second(s).ok());
        let end = end.filter(|t| t.as_second() < LAST).ok_or_else(|| {
            Fault::usage(
                "--for: no duration that ends before the year 2200: write --for-good for no end",
            )
        })?;
        let _ = write!(line, ",until={}", end.strftime("%Y-%m-%dT%H:%M:%SZ"));
    }
    let because = o.because.trim();
    if because.is_empty() || because.contains(char::is_control) {
        let why = "write a reason of one line for the person who reads the whitelist later";
        return Err(Fault::usage(format!("--because {because:?}: {why}")));
    }
    let _ = write!(line, ",because={because}");
    Ok(line)
}

/// The year 2200, after which the whitelist accepts no moments.
const LAST: i64 = 7_258_118_400;

/// The type of an entry, and its value.
fn about(what: &str) -> Option<(&'static str, String)> {
    if let Some((from, to)) = what.split_once([',', ' ']) {
        let from = Ip::parse(from.trim().as_bytes())?;
        let to = to.trim();
        let to = Ip::parse(to.as_bytes()).map_or_else(|| to.to_owned(), |ip| ip.to_string());
        return (!to.is_empty()).then(|| ("pair", format!("{from} {to}")));
    }
    if let Some(kind) = known_type(what) {
        return Some(("evidence", kind.to_owned()));
    }
    if let Some(ip) = Ip::parse(what.as_bytes()) {
        return Some(("ip", ip.to_string()));
    }
    // Digits and slashes are a network or a mistake; the whitelist decides which.
    if what.contains('/') || what.bytes().all(|b| b.is_ascii_digit() || b".-:".contains(&b)) {
        return Some(("ip", what.to_owned()));
    }
    what.contains('.').then(|| ("domain", what.to_owned()))
}

/// The whitelist that is meant.
fn file(o: &MuteOptions) -> Result<PathBuf, Fault> {
    if let Some(path) = &o.whitelist {
        return Ok(path.clone());
    }
    let hint = "name the whitelist by --whitelist FILE, the one that runs are given";
    let Some(config) = &o.config else {
        return Err(Fault::usage(format!("no whitelist to write to: {hint}")));
    };
    let tree = super::tree(config)?;
    let named = tree.text("whitelists.local_whitelist_path").map(str::trim);
    let named = named.filter(|path| !path.is_empty()).ok_or_else(|| {
        let config = config.display();
        Fault::input(format!("{config}: has no whitelists.local_whitelist_path: {hint}"))
    })?;
    Ok(PathBuf::from(named))
}

/// Appends a line; its number.
fn append(path: &Path, entry: &str) -> Result<u64, Fault> {
    let shown = path.display();
    if std::fs::metadata(path).is_ok_and(|about| !about.is_file()) {
        let why = "not a regular file: name the whitelist that runs use";
        return Err(Fault::input(format!("whitelist: {shown}: {why}")));
    }
    let before = match path.exists() {
        true => operator_file::text(path, NAMED_FILE_BYTES_MAX)
            .map_err(|e| Fault::input(format!("whitelist: {shown}: {e}: name another file")))?,
        false => String::new(),
    };
    let fault = |e: std::io::Error| {
        Fault::environment(format!(
            "whitelist: {shown}: {e}: nothing was muted: fix it and try again"
        ))
    };
    let is_open = !before.is_empty() && !before.ends_with('\n');
    // In one write, so that two processes that mute at once don't mix their lines.
    let line = format!("{}{entry}\n", if is_open { "\n" } else { "" });
    let out = OutputFile::open(path, Existing::Append).map_err(fault)?;
    let mut file = out.file();
    file.write_all(line.as_bytes()).and_then(|()| file.sync_data()).map_err(fault)?;
    Ok(before.lines().count() as u64 + 1)
}

/// What an entry would have suppressed of a run.
#[derive(Debug, Default)]
struct Hidden<'l> {
    /// Of each type: how many, of how many.
    kinds: BTreeMap<&'l str, (u64, u64)>,
    lines: Vec<&'l Line>,
    /// Hosts of which nothing is left.
    gone: BTreeSet<&'l str>,
    /// Alerts about hosts rest on sums, which would be smaller.
    hosts: BTreeSet<&'l str>,
}

impl<'l> Hidden<'l> {
    fn of(all: &'l [Line], list: &Whitelist) -> Hidden<'l> {
        let mut hidden = Hidden::default();
        let mut left = BTreeSet::new();
        for line in all {
            let of = hidden.kinds.entry(&line.kind).or_default();
            of.1 += 1;
            let ts = TimeNs(second(&line.when).saturating_mul(SECOND));
            if list.ignores(&line.kind, &line.source, &line.target, ts) {
                of.0 += 1;
                hidden.lines.push(line);
                hidden.hosts.insert(&line.source);
            } else {
                left.insert(line.source.as_str());
            }
        }
        hidden.kinds.retain(|_, of| of.0 > 0);
        hidden.gone = hidden.hosts.difference(&left).copied().collect();
        hidden
    }
}

fn preview(o: &MuteOptions, entry: &str, list: &Whitelist, folder: &Path) -> Result<Exit, Fault> {
    let all = read(folder, &mut |_| ())?;
    let hidden = Hidden::of(&all, list);
    let said = match o.json {
        true => as_json(entry, &hidden, all.len()),
        false => text(entry, &hidden, all.len()),
    };
    standard_output::text(&said);
    Ok(if hidden.lines.is_empty() { Exit::No } else { Exit::Done })
}

fn text(entry: &str, hidden: &Hidden<'_>, all: usize) -> String {
    let mut out = format!("{entry}\nNothing was written: this is a preview.\n");
    let count = hidden.lines.len();
    if count == 0 {
        let _ =
            writeln!(out, "It would have kept back none of {} findings.", thousands(all as u64));
        return out;
    }
    let _ = writeln!(
        out,
        "It would have kept back {} of {} findings; of {} hosts nothing would be left.\n",
        thousands(count as u64),
        thousands(all as u64),
        thousands(hidden.gone.len() as u64)
    );
    let right = Align::Right;
    let mut table = Table::new(&[("TYPE", Align::Left), ("KEPT BACK", right), ("OF", right)]);
    for (kind, of) in &hidden.kinds {
        table.row([(*kind).to_owned(), thousands(of.0), thousands(of.1)]);
    }
    out.push_str(&table.render(crate::commands::terminal_width()));
    out.push('\n');
    let left = Align::Left;
    let mut table = Table::new(&[("WHEN", left), ("LEVEL", left), ("IN WORDS", left)]);
    for line in hidden.lines.iter().take(ROWS) {
        let when = line.when.get(..19).unwrap_or(&line.when).replace('T', " ");
        table.row([when, line.level.to_string(), line.text.clone()]);
    }
    out.push_str(&table.render(crate::commands::terminal_width()));
    if count > ROWS {
        let _ = writeln!(out, "{} more: --json has them all", thousands((count - ROWS) as u64));
    }
    out
}

fn as_json(entry: &str, hidden: &Hidden<'_>, all: usize) -> String {
    let mut j = Json::new();
    j.open();
    j.field("entry", entry);
    j.number("findings", all as u64);
    j.number("kept_back", hidden.lines.len() as u64);
    j.open_array_key("hosts_without_findings");
    hidden.gone.iter().for_each(|host| j.item(host));
    j.close_array();
    j.open_array_key("kept_back_findings");
    hidden.lines.iter().for_each(|line| super::list::json_of(line, &mut j));
    j.close_array();
    j.close();
    j.into_line()
}
