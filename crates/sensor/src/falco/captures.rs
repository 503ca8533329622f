//! Rules over captures of system calls, as `gabion read` runs them: alerts into the files of a folder and into the sealed
//! log, and kept for summary and page.

use super::alerts::AlertCounts;
use super::findings::{Findings, RuleFindings};
use super::rule_run::RuleRun;
use crate::packets::InputOpener;
use crate::syscalls::{Summary, summarize_with};
use crate::{Error, FindingLog};
use gabion_condition::rules::{Matching, RuleSet};
use gabion_outputs::falco::{Clock, FalcoStyle, open_files, output};
use gabion_outputs::{Output, OutputError};
use gabion_record::files::FileOpener;
use gabion_record::ledger::StageLedgers;
use gabion_runtime::StopFlag;
use gabion_runtime::output::{Existing, make_folder};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Rules over captures of system calls.
pub struct CaptureRun {
    rules: RuleRun,
}

/// What a run left.
#[derive(Debug)]
pub struct CapturesDone {
    /// What is in each capture, with its account.
    pub captures: Vec<Summary>,
    /// Captures that could not be read.
    pub failed: Vec<(PathBuf, Error)>,
    /// Events that the rules were tried on.
    pub events: u64,
    /// Alerts by priority and by rule.
    pub counts: AlertCounts,
    /// The rules that alerted, the most urgent first, with their first alerts.
    pub found: Vec<RuleFindings>,
    /// Alerts by minute (in seconds since 1970) and priority.
    pub moments: Vec<(i64, &'static str, u64)>,
    /// Rules that were tried.
    pub rules: usize,
    /// What could not be written.
    pub faults: Vec<OutputError>,
    /// Somebody asked to stop.
    pub is_stopped: bool,
}

impl CapturesDone {
    /// The ledgers of all captures.
    #[must_use]
    pub fn ledgers(&self) -> StageLedgers {
        let mut all = StageLedgers::new();
        for ledgers in self.captures.iter().map(|capture| capture.account.ledgers()) {
            for entry in ledgers.entries() {
                all.add(&entry.stage, entry.worker, &entry.ledger);
            }
        }
        all
    }
}

/// How alerts of captures are written: times in UTC, the host is that of the capture, with process trees.
fn style(is_json: bool) -> FalcoStyle {
    FalcoStyle {
        is_json,
        hostname: "".into(),
        clock: Clock::Iso8601,
        has_output: true,
        has_message: false,
        has_fields: true,
        has_tags: true,
        has_context: true,
    }
}

impl CaptureRun {
    /// A run of these rules whose alerts go into files of `folder`, which `opener` opens, and into `sealed`, as far as these are given.
    ///
    /// # Errors
    /// A file of the folder can't be written.
    pub fn new(
        rules: Arc<RuleSet>,
        opener: &FileOpener,
        folder: Option<&Path>,
        existing: Existing,
        sealed: Option<&FindingLog>,
    ) -> Result<CaptureRun, Error> {
        let mut outputs: Vec<Output> = Vec::new();
        if let Some(folder) = folder {
            let no_folder = |source| Error::Folder { path: folder.to_owned(), source };
            make_folder(folder).map_err(no_folder)?;
            outputs =
                open_files(opener, folder, existing, &style(true)).map_err(Error::FolderOutput)?;
        }
        if let Some(sealed) = sealed {
            outputs.push(output(style(true), sealed.sealer("syscall")));
        }
        let mut rules = RuleRun::new(rules, Matching::First, outputs, true);
        rules.alerts.findings = Some(Findings::default());
        Ok(CaptureRun { rules })
    }

    /// Reads the captures one after the other, each with fresh state. `opener` may hold the beginning of a
    /// pipe that was looked into.
    #[must_use]
    pub fn read_captures(
        mut self,
        paths: &[PathBuf],
        opener: &InputOpener,
        stop: &StopFlag,
    ) -> CapturesDone {
        let (mut captures, mut failed) = (Vec::new(), Vec::new());
        for path in paths {
            if stop.is_set() {
                break;
            }
            let rules = &mut self.rules;
            if let Some(findings) = &mut rules.alerts.findings {
                findings.capture = path.display().to_string();
            }
            match summarize_with(path, opener, stop, &mut |state, event| {
                rules.event(state, event);
            }) {
                Ok(summary) => captures.push(summary),
                Err(error) => failed.push((path.clone(), error)),
            }
        }
        let (events, tried) = (self.rules.events, self.rules.rules().enabled());
        let mut alerts = self.rules.finish();
        let (found, moments) =
            alerts.findings.take().map_or_else(Default::default, Findings::finish);
        alerts.end();
        CapturesDone {
            captures,
            failed,
            events,
            counts: alerts.counts,
            found,
            moments,
            rules: tried,
            faults: alerts.faults,
            is_stopped: stop.is_set(),
        }
    }
}
