//! The outputs of a run: what a configuration's `outputs` list asks for, and the files of findings about hosts.
//!
//! Every output is opened before the first packet is read, so that a folder that cannot be written is
//! reported at once.

use crate::already_written::AlreadyWritten;
use crate::dispatch::{Dispatcher, Take};
use crate::error::{OutputError, SettingError};
use crate::event_counts::EventCounts;
use crate::file_numbers::FileNumbers;
use crate::idmef;
use crate::kinds;
use crate::limits::reached;
use crate::output::{
    Destination, EvidenceRecord, Format, GuardRecord, HostAlertRecord, Output, Piece, Pieces,
    Record, StatsTexts,
};
use crate::output_kind::{OpenFrames, Opening, OutputKind};
use crate::packet_order::{self, InOrder, LineBatch, WorkerOutputs};
use gabion_record::Tree;
use gabion_record::applayer::LineLog;
use gabion_record::eve::{Question, Wants};
use gabion_record::evidence::{Alert, Evidence};
use gabion_record::files::FileOpener;
use gabion_record::ledger::Ledger;
use gabion_record::logs::TimeNs;
use gabion_runtime::output::Existing;
use std::collections::HashSet;
use std::path::Path;

/// All outputs of a run.
pub type Outputs = Dispatcher<Written>;

/// Outputs whose pieces are written as they are made.
#[derive(Default)]
pub struct Written {
    outputs: Vec<Output>,
    numbers: FileNumbers,
    wants: Wants,
    /// Flows with alerts in doubt that were written.
    alerted: HashSet<u64>,
    /// Names of outputs that the configuration asks for and that are not written.
    unsupported: Vec<String>,
    /// The finding at hand as a line of JSON.
    finding: Vec<u8>,
}

impl Written {
    fn add(&mut self, output: Output) {
        self.wants.join(output.format.wants());
        self.outputs.push(output);
    }
}

/// Hands pieces on to a destination, with their numbers put in.
struct WriteAtOnce<'a> {
    to: &'a mut dyn Destination,
    numbers: &'a mut FileNumbers,
}

impl Pieces for WriteAtOnce<'_> {
    #[inline]
    fn put(&mut self, piece: Piece<'_>) {
        self.numbers.hand_on(&piece, self.to);
    }
}

impl Take for Written {
    const KEEPS_ORDER: bool = false;

    #[inline]
    fn take_record(&mut self, record: &Record<'_>) -> bool {
        let numbers = &mut self.numbers;
        let mut is_counted = false;
        for Output { format, to } in &mut self.outputs {
            is_counted |= format.write_record(record, &mut WriteAtOnce { to: &mut **to, numbers });
        }
        is_counted
    }

    fn formats(&mut self) -> impl Iterator<Item = &mut dyn Format> {
        self.outputs.iter_mut().map(|output| &mut *output.format as &mut dyn Format)
    }

    fn logs_transactions(&self, event_type: &str, line_log: Option<LineLog>) -> bool {
        self.outputs.iter().any(|output| output.format.logs_transactions(event_type, line_log))
    }

    fn type_config(&self, event_type: &str) -> Option<&Tree> {
        self.outputs.iter().find_map(|output| output.format.type_config(event_type))
    }
}

impl Written {
    /// Takes the next step of a merge of workers' pieces; `decide` returns whether an alert is written.
    fn take_in_order(
        &mut self,
        step: InOrder<'_>,
        counts: &mut EventCounts,
        decide: &mut dyn FnMut(&Question) -> bool,
    ) -> bool {
        match step {
            InOrder::Ask(question, alert) => {
                let is_written = decide(question);
                if is_written {
                    counts.kept(alert);
                    if let Some(flow) = question.flow {
                        note_alerted(&mut self.alerted, flow);
                    }
                }
                is_written
            }
            InOrder::IsAlerted { flow, is_last: true } => self.alerted.remove(&flow),
            InOrder::IsAlerted { flow, is_last: false } => self.alerted.contains(&flow),
            InOrder::Write(output, piece) => {
                if let Some(output) = self.outputs.get_mut(output) {
                    self.numbers.hand_on(piece, &mut *output.to);
                }
                true
            }
        }
    }
}

/// Keeps in mind that a flow had an alert. Beyond the limit (flows' records are not written, or late) its
/// record may say that it had none.
fn note_alerted(alerted: &mut HashSet<u64>, flow: u64) {
    if alerted.contains(&flow) || reached::ALERTED_FLOWS_MAX.has_room(alerted.len()) {
        alerted.insert(flow);
    }
}

/// What is wrong with the settings of an output's file of lines, after the file's name.
fn wrong_setting<'a>(
    kind: &OutputKind,
    name: &'a str,
    node: &'a Tree,
) -> Option<(&'a str, SettingError)> {
    kind.file?;
    let wrong = crate::line_file::settings(node).err()?;
    Some((node.text("filename").unwrap_or(name), wrong))
}

/// Outputs of a configuration that are switched on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Survey {
    /// How many are written.
    pub supported: usize,
    /// Names of those that are not supported: nothing is written for them.
    pub unsupported: Vec<String>,
    /// What can't be a value, with the output's name: it can't be opened.
    pub faults: Vec<String>,
}

impl Outputs {
    /// Writes nothing: counts the records that the configuration's first EVE output would write.
    pub fn counting(config: &Tree) -> Outputs {
        let mut all = Outputs::default();
        let mut eve = kinds::switched_on(config).filter(|(name, node)| {
            *name == crate::eve::output::NAME && node.flag("enabled") == Some(true)
        });
        if let Some((_, node)) = eve.next() {
            all.add(crate::eve::output::counting(node));
        }
        all
    }

    /// Opens what the configuration's `outputs` list asks for, in `folder`. What is done with files that
    /// are there already is `existing`, else as the configuration says (`append`, which is yes unless it
    /// says no). `files` opens all files but the capture files of packet logs; these `frames` opens, given the output's
    /// name and node.
    ///
    /// # Errors
    /// The file that can't be written, and why.
    pub fn open(
        files: &FileOpener,
        config: &Tree,
        folder: &Path,
        existing: Option<Existing>,
        frames: &mut OpenFrames<'_>,
    ) -> Result<Outputs, OutputError> {
        // All settings are looked at before the first file is made: a run that can't begin leaves none.
        for (name, node) in kinds::switched_on(config) {
            if let Some(kind) = kinds::configured(name)
                && kind.unsupported(node).is_none()
                && let Some((file, source)) = wrong_setting(kind, name, node)
            {
                return Err(OutputError::Setting { path: folder.join(file), source });
            }
        }
        let mut all = Outputs::default();
        for (name, node) in kinds::switched_on(config) {
            let Some(kind) = kinds::configured(name) else {
                if !all.to.unsupported.iter().any(|known| known == name) {
                    all.to.unsupported.push(name.to_owned());
                }
                continue;
            };
            if let Some(variant) = kind.unsupported(node) {
                all.to.unsupported.push(variant);
                continue;
            }
            let existing = existing.unwrap_or(if node.flag("append") == Some(false) {
                Existing::Truncate
            } else {
                Existing::Append
            });
            let opened = kind.open(&mut Opening {
                name,
                node,
                files,
                folder,
                existing,
                sensor_name: config.text("sensor-name"),
                frames: &mut *frames,
            })?;
            opened.into_iter().for_each(|output| all.add(output));
        }
        Ok(all)
    }

    /// Opens the outputs of evidence and alerts about hosts in `folder`.
    ///
    /// # Errors
    /// The file that can't be written, and why.
    pub fn for_findings(
        files: &FileOpener,
        folder: &Path,
        existing: Existing,
    ) -> Result<Outputs, OutputError> {
        let mut all = Outputs::default();
        let node = Tree::default();
        for kind in kinds::of_findings() {
            let opened = kind.open(&mut Opening {
                name: kind.name,
                node: &node,
                files,
                folder,
                existing,
                sensor_name: None,
                frames: &mut |_, _| Ok(Box::new(crate::output::Nowhere)),
            })?;
            opened.into_iter().for_each(|output| all.add(output));
        }
        Ok(all)
    }

    /// Opens the output of the guard's events in `folder`.
    ///
    /// # Errors
    /// The file that can't be written, and why.
    pub fn for_guard(
        files: &FileOpener,
        folder: &Path,
        existing: Existing,
    ) -> Result<Outputs, OutputError> {
        let mut all = Outputs::default();
        all.add(kinds::guard_events::open(files, folder, existing)?);
        Ok(all)
    }

    /// What would be opened for a configuration, without opening anything.
    pub fn survey(config: &Tree) -> Survey {
        let mut found = Survey::default();
        for (name, node) in kinds::switched_on(config) {
            let Some(kind) = kinds::configured(name) else {
                if !found.unsupported.iter().any(|known| known == name) {
                    found.unsupported.push(name.to_owned());
                }
                continue;
            };
            if let Some((file, e)) = wrong_setting(kind, name, node) {
                found.faults.push(format!("{file}: {e}"));
            }
            if let Err(e) = crate::receiver::check(node) {
                found.faults.push(format!("{name}: {e}"));
            }
            match kind.unsupported(node) {
                Some(variant) => found.unsupported.push(variant),
                None => found.supported += 1,
            }
        }
        found
    }

    /// Adds an output to those that are there.
    pub fn add(&mut self, output: Output) {
        self.to.add(output);
    }

    /// What the outputs want together.
    pub fn wants(&self) -> Wants {
        self.to.wants
    }

    /// Names of outputs that the configuration asks for and that are not written.
    pub fn unsupported(&self) -> &[String] {
        &self.to.unsupported
    }

    /// All that was counted, by workers too, with the outcomes of stored files and logged frames.
    pub fn sum(&self) -> EventCounts {
        let mut sum = self.counts.clone();
        for Output { format, to } in &self.to.outputs {
            format.add_counts(&mut sum);
            to.add_counts(&mut sum);
        }
        sum
    }

    /// Counters of these outputs for the statistics.
    pub fn counters(&self) -> Vec<(&'static str, u64)> {
        let sum = self.sum();
        let mut all = Vec::new();
        for (name, value) in self.to.outputs.iter().flat_map(|o| o.format.counters(&sum)) {
            if !all.iter().any(|(known, _)| *known == name) {
                all.push((name, value));
            }
        }
        all
    }

    /// Findings counted so far.
    pub fn tally(&self) -> &EventCounts {
        &self.counts
    }

    /// Puts the name of its capture into each EVE record, for a run that reads several; an output whose
    /// configuration says `pcap-file: no` does without.
    pub fn name_captures(&mut self) {
        self.to.formats().for_each(Format::name_captures);
    }

    /// Writes the statistics.
    pub fn stats(&mut self, ts_ns: u64, texts: &StatsTexts) {
        self.dispatch(&Record::Stats(ts_ns, texts), "stats");
    }

    /// Writes evidence. `accumulated` is the sum of its profile's window, `created` the machine's clock.
    pub fn evidence(&mut self, evidence: &Evidence, accumulated: f64, created: Option<TimeNs>) {
        if !self.to.wants.evidence {
            return;
        }
        let mut json = std::mem::take(&mut self.to.finding);
        json.clear();
        idmef::evidence(evidence, accumulated, created, &mut json);
        let record = EvidenceRecord { evidence, accumulated, created, json: &json };
        let _ = self.to.take_record(&Record::Evidence(&record));
        self.to.finding = json;
    }

    /// Writes an alert about a host; `created` is the machine's clock.
    pub fn host_alert(&mut self, alert: &Alert, created: Option<TimeNs>) {
        if !self.to.wants.evidence {
            return;
        }
        let mut json = std::mem::take(&mut self.to.finding);
        json.clear();
        idmef::alert(alert, created, &mut json);
        let record = HostAlertRecord { alert, created, json: &json };
        let _ = self.to.take_record(&Record::HostAlert(&record));
        self.to.finding = json;
    }

    /// Writes an event of the guard.
    pub fn guard(&mut self, record: &GuardRecord<'_>) {
        let _ = self.to.take_record(&Record::Guard(record));
    }

    /// Writes what is buffered; the first failure, if any.
    ///
    /// # Errors
    /// What could not be written, now or before.
    pub fn flush(&mut self) -> Result<(), OutputError> {
        let mut done = Ok(());
        for output in &mut self.to.outputs {
            let flushed = output.to.flush();
            if done.is_ok() {
                done = flushed;
            }
        }
        done
    }

    /// Writes the lines that are buffered, while more may come.
    pub fn flush_lines(&mut self) {
        self.to.outputs.iter_mut().for_each(|output| output.to.flush_lines());
    }

    /// Opens all files by their names again, after a program has rotated logs.
    pub fn reopen(&mut self) {
        self.to.outputs.iter_mut().for_each(|output| output.to.reopen());
    }

    /// The source of the records can't wait, as an interface can't: a receiver without room sheds at once.
    pub fn never_wait(&mut self) {
        self.to.outputs.iter_mut().for_each(|output| output.to.never_wait());
    }

    /// Writes what is buffered to the disk; returns the lengths of the files that a later run can continue,
    /// in their order.
    ///
    /// # Errors
    /// What could not be written.
    pub fn sync_findings(&mut self) -> Result<Vec<u64>, OutputError> {
        let mut marks = Vec::new();
        let resumed = self.to.outputs.iter_mut().filter(|o| o.to.already_written().is_some());
        for output in resumed {
            marks.extend(output.to.sync()?);
        }
        Ok(marks)
    }

    /// Continues where a run was cut off: what that run wrote is not written again.
    pub fn resume(&mut self, earlier: &AlreadyWritten) {
        self.to.outputs.iter_mut().for_each(|output| output.to.resume(earlier));
    }

    /// Lines of an earlier run that this one has not found again yet.
    pub fn already_written(&self) -> AlreadyWritten {
        let mut all = AlreadyWritten::default();
        let left = self.to.outputs.iter().filter_map(|output| output.to.already_written());
        left.for_each(|left| all.join(left.clone()));
        all
    }

    /// Files of lines with their ledgers.
    pub fn files(&self) -> Vec<(&Path, &Ledger)> {
        self.to.outputs.iter().filter_map(|output| output.to.line_file()).collect()
    }

    /// The same outputs for one of several workers: lines are kept for [`Outputs::write`].
    pub fn for_worker(&self) -> WorkerOutputs {
        let formats = self.to.outputs.iter().map(|output| output.format.clone_for_worker());
        WorkerOutputs::new(formats.collect())
    }

    /// Writes the lines that workers have for one batch of frames, in packet order. They are taken
    /// out of the batches. `decide` is asked, in that order too, whether alerts in doubt are written.
    pub fn write(&mut self, batches: &mut [LineBatch], decide: &mut dyn FnMut(&Question) -> bool) {
        let (to, counts) = (&mut self.to, &mut self.counts);
        packet_order::merge(batches, &mut |step| to.take_in_order(step, counts, decide));
    }

    /// Adds what a worker counted.
    pub fn add_tally(&mut self, counts: &EventCounts) {
        self.counts.merge(counts);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flows_with_alerts_beyond_the_limit_are_counted() {
        let mut alerted = HashSet::default();
        for flow in 0..crate::limits::ALERTED_FLOWS_MAX as u64 + 2 {
            note_alerted(&mut alerted, flow);
            note_alerted(&mut alerted, 0);
        }
        assert_eq!(
            gabion_record::limits::take_reached().times_reached(&reached::ALERTED_FLOWS_MAX),
            2
        );
    }
}
