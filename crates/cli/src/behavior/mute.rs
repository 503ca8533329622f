//! `gabion behavior mute`: adds an entry to the whitelist, with its end and its reason, and shows beforehand which
//! findings of a run it would have hidden.

use crate::exit::{Exit, Fault};
use crate::{configuration, direct_opener, moments, operator_file, standard_output, values};
use clap::Args;
use gabion_behavior::whitelist::{Whitelist, known_type};
use gabion_record::Ip;
use gabion_record::json::Json;
use gabion_record::logs::SECOND;
use gabion_reports::MutePreview;
use gabion_runtime::limits::NAMED_FILE_BYTES_MAX;
use gabion_runtime::output::append_synced;
use std::fmt::Write as _;
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

/// Runs the verb.
pub(crate) fn run(o: &MuteOptions) -> Result<Exit, Fault> {
    let now = i64::try_from(gabion_runtime::clock::epoch_ns()).unwrap_or(i64::MAX) / SECOND;
    let entry = entry(o, now)?;
    // What is written is what will be read: a line that is none would be left out of the next run.
    let (list, wrong) = Whitelist::parse(&entry, &|_| None);
    if let Some(why) = wrong.first() {
        let forms =
            "write an address (10.0.0.5), a network (10.0.0.0/8), a name or a pair of these";
        return Err(Fault::usage(format!("{}: {}: {forms}", o.what, why.error)));
    }
    if let Some(folder) = &o.preview {
        return preview(&entry, list, folder, o.json);
    }
    let path = file(o)?;
    let line = append(&path, &entry)?;
    let said = if o.json {
        let mut j = Json::new();
        j.open();
        j.field("whitelist", path.to_string_lossy().as_bytes());
        j.number("line", line);
        j.field("entry", &entry);
        j.close();
        j.into_line()
    } else {
        format!(
            "{}: line {line}: {entry}\nRuns with this file as --whitelist suppress such findings from their next start on; a # \
             before the line turns it off.\n",
            path.display()
        )
    };
    standard_output::text(&said);
    Ok(Exit::Done)
}

/// Seconds of a duration.
fn duration(text: &str) -> Result<i64, String> {
    let is_back = text.starts_with('-') || text.ends_with("ago");
    let seconds = moments::age(text.trim()).filter(|s| *s > 0 && !is_back);
    seconds.ok_or_else(|| "not a duration: write 90s, 30m, 12h, 7d or 2w".to_owned())
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
                "{what}: is not a host, type of findings or pair: {meant}{forms}"
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
            Fault::usage("--for: it ends after the year 2199: write --for-good for no end")
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
    let hint = "name the whitelist of your runs with --whitelist FILE";
    let Some(config) = &o.config else {
        return Err(Fault::usage(format!("no whitelist to write to: {hint}")));
    };
    let tree = configuration::read_tree(config)?;
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
    let before = if path.exists() {
        operator_file::text(path, NAMED_FILE_BYTES_MAX)
            .map_err(|e| Fault::input(format!("whitelist: {shown}: {e}: name another file")))?
    } else {
        String::new()
    };
    let fault = |e: std::io::Error| {
        Fault::environment(format!(
            "whitelist: {shown}: {e}: nothing was muted: fix it and try again"
        ))
    };
    let is_open = !before.is_empty() && !before.ends_with('\n');
    // In one write, so that two processes that mute at once don't mix their lines.
    let line = format!("{}{entry}\n", if is_open { "\n" } else { "" });
    append_synced(&direct_opener(), path, line.as_bytes()).map_err(fault)?;
    Ok(before.lines().count() as u64 + 1)
}

fn preview(entry: &str, list: Whitelist, folder: &Path, is_json: bool) -> Result<Exit, Fault> {
    let hidden = MutePreview::read_folder(folder, entry, list)?;
    hidden.warning().iter().for_each(|warning| eprintln!("gabion: {warning}"));
    standard_output::report(is_json, || hidden.json(), |width| hidden.text(width));
    Ok(if hidden.is_empty() { Exit::No } else { Exit::Done })
}
