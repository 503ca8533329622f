//! `gabion log verify`: what the log's files prove.

use super::options::Verify;
use super::times::now_ns;
use super::{Ended, LogFault, folders};
use crate::progress::Progress;
use crate::standard_output;
use gabion_logs::view::rfc3339;
use gabion_outputs::table::thousands;
use gabion_seal::checkpoints::Vkey;
use gabion_seal::limits::ANCHORS_BYTES_MAX;
use gabion_seal::verify::{Anchor, Options, Report, Verdict, verify};
use gabion_seal::witness::cosigned_anchors;
use std::io::IsTerminal;
use std::path::PathBuf;

/// Reads anchor files.
pub(super) fn anchors(paths: &[PathBuf]) -> Result<Vec<Anchor>, LogFault> {
    let mut all = Vec::new();
    for path in paths {
        let bytes = folders::read_bytes(path, ANCHORS_BYTES_MAX)?;
        let read = Anchor::parse_file(&path.to_string_lossy(), &bytes);
        let read = read.map_err(|e| {
            let LogFault { exit, message } = LogFault::from(e);
            LogFault { exit, message: message.about("neither a checkpoint nor a file of anchors") }
                .about(path)
        })?;
        all.extend(read);
    }
    Ok(all)
}

pub(super) fn run(options: &Verify) -> Ended {
    let keys = folders::secret_keys(&options.keys)?;
    let jobs = options
        .jobs
        .map(usize::from)
        .or_else(|| std::thread::available_parallelism().ok().map(usize::from))
        .unwrap_or(1);
    let log = folders::open(&options.log)?;
    let witnesses: Vec<Vkey> =
        options.witnesses.iter().map(|w| folders::vkey(w)).collect::<Result<_, _>>()?;
    let own = folders::identity_of(&options.log).ok();
    if own.is_some_and(|own| witnesses.iter().any(|w| w.name == own.origin)) {
        let text = "--witness: that is the log's own key: a witness is another party";
        return Err(LogFault::usage(text));
    }
    let mut anchors = anchors(&options.anchors)?;
    anchors.extend(cosigned_anchors(&log, &witnesses));
    let given = Options {
        vkey: options.vkey.as_deref().map(folders::vkey).transpose()?,
        anchors,
        witnesses,
        keys: &keys,
        max_age: options.max_age.map(|a| (a, now_ns())),
        is_deep: options.deep,
        jobs,
    };
    let start = gabion_runtime::clock::now();
    let is_watched = std::io::stderr().is_terminal() && !options.quiet && !options.output.json;
    let mut bar = is_watched.then(|| Progress::new(None));
    let report = verify(&log, &given, &mut |done, total| {
        if let Some(bar) = &mut bar {
            bar.at(done, Some(total));
        }
    })
    .map_err(|e| LogFault::from(e).about(&options.log))?;
    if let Some(bar) = bar {
        bar.end();
    }
    // With six digits: more are noise.
    let seconds = (start.elapsed().as_secs_f64() * 1e6).round() / 1e6;
    if options.output.json {
        standard_output::line(String::from_utf8_lossy(&report.to_json(seconds)));
    } else {
        print(&report, options.quiet, !keys.is_empty(), seconds);
    }
    let verdict = report.verdict();
    Ok(if verdict == Verdict::Unanchored && options.allow_unanchored { 0 } else { verdict.code() })
}

fn counted(n: u64, what: &str) -> String {
    if n == 1 { format!("1 {what}") } else { format!("{} {what}s", thousands(n)) }
}

/// Places that are printed; more of them don't help a person.
const PLACES_SHOWN: usize = 50;

/// Notes that are printed.
const NOTES_SHOWN: usize = 20;

/// Prints how many of all were not printed.
fn say_left(all: usize, shown: usize, what: &str) {
    if all > shown {
        standard_output::line(format_args!(
            "  and {} {what} more: see --json",
            thousands((all - shown) as u64)
        ));
    }
}

fn print(report: &Report, is_quiet: bool, has_keys: bool, seconds: f64) {
    standard_output::line(report.verdict().name());
    if is_quiet {
        return;
    }
    if report.verdict() == Verdict::Unanchored {
        standard_output::line(
            "  consistent, but not compared with any copy kept elsewhere: add --anchor",
        );
    }
    for (verdict, place) in report.places.iter().take(PLACES_SHOWN) {
        standard_output::line(format_args!("  {}: {}", verdict.name(), place.describe()));
    }
    say_left(report.places.len(), PLACES_SHOWN, "places");
    for anchor in &report.anchors {
        standard_output::line(format_args!(
            "  anchor {} ({} chunks): {}",
            anchor.from,
            thousands(anchor.size),
            anchor.outcome
        ));
    }
    for warning in &report.warnings {
        standard_output::line(format_args!("  warning: {warning}"));
    }
    for note in report.notes.iter().take(NOTES_SHOWN) {
        standard_output::line(format_args!("  {note}"));
    }
    say_left(report.notes.len(), NOTES_SHOWN, "notes");
    for name in &report.withdrawn {
        standard_output::line(format_args!("  {name}: content withdrawn"));
    }
    // Without a key only the log's own statements are opened, which proves nothing about the rest.
    let opened = if has_keys && report.opened_records > 0 {
        format!(", {} opened and compared", thousands(report.opened_records))
    } else {
        String::new()
    };
    if report.origin.is_empty() {
        // No file here names the log, so there is nothing to count.
        return;
    }
    let signed = if report.signed_time == 0 {
        "nothing of it signed".to_owned()
    } else {
        let time = rfc3339(report.signed_time.saturating_mul(1_000_000_000));
        format!("signed up to chunk {} at {time}", report.signed_size)
    };
    standard_output::line(format_args!(
        "  {}: {}, {}, {}, {} bytes{opened}; {signed}; {seconds:.1} s",
        report.origin,
        counted(report.records, "record"),
        counted(report.chunks, "chunk"),
        counted(report.epochs, "epoch"),
        thousands(report.bytes)
    ));
    for note in &report.evidence {
        standard_output::line(note);
    }
}
