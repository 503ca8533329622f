//! The report about a recording: the lines of diagnosis, `guard.json` and a page without anything from elsewhere.

use super::events::Events;
use super::files::{files_of, read_recording};
use super::page;
use crate::error::Error;
use gabion_guard::recording::Recording;
use gabion_guard::{Diagnosis, Settings, diagnose};
use gabion_outputs::Outputs;
use gabion_record::files::FileOpener;
use gabion_record::logs::{SECOND, TimeNs};
use gabion_runtime::output::{Existing, make_folder, write_whole};
use std::path::{Path, PathBuf};

/// The page in the folder of outputs.
const PAGE: &str = "report.html";

/// What a report is made of.
#[derive(Clone, Debug)]
pub struct GuardReport {
    /// The recording: either of its files.
    pub recording: PathBuf,
    /// The folder of outputs.
    pub folder: PathBuf,
    /// The budget in percent, where the recording does not say it; the default is 30.
    pub budget_percent: Option<u8>,
}

/// What a report says.
#[derive(Clone, Debug)]
pub struct GuardReported {
    /// The line of diagnosis of each incident, or a sentence that there is none.
    pub lines: Vec<String>,
    /// What was left out of the recording, and what it does not have.
    pub warnings: Vec<String>,
    /// The page.
    pub page: PathBuf,
    /// The lines of events.
    pub events: PathBuf,
}

impl GuardReport {
    /// The files that a report writes into a folder.
    #[must_use]
    pub fn files(folder: &Path) -> [PathBuf; 2] {
        [folder.join(PAGE), gabion_outputs::guard_events::path_in(folder)]
    }

    /// Reads the recording, and writes the report, whose file of events `opener` opens.
    ///
    /// # Errors
    /// The recording can't be read, or an output can't be written.
    pub fn write(&self, opener: &FileOpener) -> Result<GuardReported, Error> {
        let files = files_of(&self.recording);
        let recording = read_recording(&files)?;
        let budget_percent = budget(self.budget_percent, &recording);
        let found = diagnose(&recording, Settings { budget_percent, ..Settings::watch() });
        let folder = &self.folder;
        make_folder(folder).map_err(|source| Error::Folder { path: folder.clone(), source })?;
        let [page_path, events_path] = GuardReport::files(folder);
        let opened = Outputs::for_guard(opener, folder, Existing::Truncate);
        let mut outputs = opened?;
        let events = Events {
            started: started(&recording),
            interface: recording.head_value("interface"),
            budget_percent,
        };
        let mut lines: Vec<String> = found.incidents.iter().map(|i| events.line(i)).collect();
        write_events(&found, &events, &mut outputs);
        let moments = |at_ms: u64| events.moment(at_ms);
        if lines.is_empty() {
            lines.push(nothing_found(&found));
        }
        let warnings = warnings(&recording, &found);
        let about = page::About {
            files: &files,
            recording: &recording,
            found: &found,
            budget_percent,
            lines: &lines,
            warnings: &warnings,
        };
        let html = page::page(&about, &moments).html();
        outputs.flush()?;
        write_whole(&page_path, html.as_bytes())
            .map_err(|source| Error::Page { path: page_path.clone(), source })?;
        Ok(GuardReported { lines, warnings, page: page_path, events: events_path })
    }
}

/// The budget in percent: what the caller says, else what the recording says, else 30.
fn budget(named: Option<u8>, recording: &Recording) -> u8 {
    let recorded = || recording.head_value("budget_percent")?.parse().ok();
    named.or_else(recorded).unwrap_or(Settings::watch().budget_percent).clamp(1, 100)
}

/// When the recording began: `started` of its head, in seconds since 1970 with up to nine decimals.
fn started(recording: &Recording) -> Option<TimeNs> {
    let text = recording.head_value("started")?;
    let (seconds, fraction) = text.split_once('.').unwrap_or((text, ""));
    let fraction: String = fraction.chars().chain("000000000".chars()).take(9).collect();
    let seconds = seconds.parse::<i64>().ok()?.checked_mul(SECOND)?;
    Some(TimeNs(seconds.checked_add(fraction.parse().ok()?)?))
}

/// Writes all events in order of time.
fn write_events(found: &Diagnosis, events: &Events<'_>, to: &mut Outputs) {
    let mut actions = found.actions.iter().peekable();
    for incident in &found.incidents {
        to.guard(&events.begin(incident).record());
        while let Some((at_ms, action)) = actions.next_if(|(at_ms, _)| *at_ms <= incident.last_ms) {
            to.guard(&events.action(*at_ms, action).record());
        }
        to.guard(&events.end(incident).record());
    }
    for (at_ms, action) in actions {
        to.guard(&events.action(*at_ms, action).record());
    }
}

/// The sentence where there is no incident. Without the instrument of packet work it claims nothing.
fn nothing_found(found: &Diagnosis) -> String {
    let seconds = found.measured as f64 * 0.008;
    match found.measured {
        0 => "packet work is not in the recording: no verdict is possible".to_owned(),
        _ => format!("no incident in the {seconds:.1} s in which packet work was measured"),
    }
}

/// What was left out, and which instruments are absent: one line each.
fn warnings(recording: &Recording, found: &Diagnosis) -> Vec<String> {
    use gabion_guard::recording::Column;
    let mut all = Vec::new();
    if recording.is_torn {
        all.push(
            "the recording ends inside a row or a compressed block: it is read up to there"
                .to_owned(),
        );
    }
    for (n, what) in [
        (recording.lines_skipped, "lines are no rows, or repeat one: they are left out"),
        (recording.rows_shed, "rows are beyond the limit: they are left out"),
    ] {
        if n > 0 {
            all.push(format!("{n} {what}"));
        }
    }
    for (column, what) in [
        (Column::RxUs, "softirqs: no cause is named"),
        (Column::UserGapUs, "gaps of user programs"),
        (Column::MembarrierUs, "grace periods"),
        (Column::BacklogDropped, "drops of the backlog"),
        (Column::Conntrack, "connection tracking"),
        (Column::Neighbours, "neighbours"),
    ] {
        if !recording.columns.has(column) {
            all.push(format!("absent instrument: {what}"));
        }
    }
    if recording.xdp.is_empty() {
        all.push("absent: counters of XDP, so new flows are not distinguished".to_owned());
    }
    let known = found.measured as f64 / found.periods.max(1) as f64;
    if found.measured > 0 && known < 0.99 {
        all.push(format!("packet work is known in {:.0} % of the periods", known * 100.0));
    }
    all
}
