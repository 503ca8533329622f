//! What a configuration's `outputs` list asks for, opened and written.
//!
//! Every output is opened before the first packet is read, so that a folder that cannot be written is
//! said at once.

use crate::certificate_store::{CertificateFolder, CertificateTexts};
use crate::eve::{EveSettings, EveWriter};
pub use crate::event_counts::{AlertSeen, AlertTally, EventCounts, HostAlerts};
use crate::fast::FastWriter;
use crate::format::{FileInfo, FileNumbers, Format, Formatter, Store, Take, sink_by_formatter};
use crate::limits::reached;
pub use crate::line_file::LineFile;
use crate::packet_log::{FrameLine, PacketLog, PacketLogSettings};
use crate::packet_order::{self, Judge, LineBatch, WorkerOutputs};
use crate::stats_log::StatsLog;
use gabion_record::Tree;
use gabion_record::eve::*;
use gabion_record::ledger::{Ledger, ShedReason};
use gabion_runtime::output::Existing;
use std::collections::HashSet;
use std::path::{Path, PathBuf};

/// What the taker of a packet log is given.
pub enum ForFrames<'a> {
    /// A frame to be written.
    Frame(FrameLine<'a>),
    /// What is buffered is to be written.
    Flush,
    /// Files are to be opened by their names again: somebody may have moved them away.
    Reopen,
}

/// Takes the frames of a packet log.
pub type FrameTaker = Box<dyn FnMut(ForFrames<'_>) + Send>;

/// What the taker of an output without a file is given.
pub enum ForLines<'a> {
    /// A line, with its end.
    Line(&'a [u8]),
    /// Files are to be opened by their names again: somebody may have moved them away.
    Reopen,
}

/// Takes the lines of an output that has no file.
pub type LineTaker = Box<dyn FnMut(ForLines<'_>) + Send>;

/// Where the lines of an output go.
enum Slot {
    Nowhere,
    Taken(LineTaker),
    Lines(Box<LineFile>),
    Frames(FrameTaker),
    /// The folder of stored files, and how often what is said of one could not be written.
    Infos(PathBuf, u64),
    Certificates(CertificateFolder),
}

/// The file of each output that has one.
struct Files(Vec<Slot>, FileNumbers);

impl Files {
    fn lines(&self) -> impl Iterator<Item = &LineFile> {
        self.0.iter().filter_map(|s| match s {
            Slot::Lines(f) => Some(&**f),
            Slot::Nowhere
            | Slot::Taken(_)
            | Slot::Frames(_)
            | Slot::Infos(..)
            | Slot::Certificates(_) => None,
        })
    }
}

impl Take for Files {
    fn line(&mut self, output: usize, line: &[u8]) {
        match self.0.get_mut(output) {
            Some(Slot::Lines(file)) => file.line(line),
            Some(Slot::Taken(take)) => take(ForLines::Line(line)),
            Some(Slot::Frames(take)) => {
                if let Some(frame) = FrameLine::decode(line) {
                    take(ForFrames::Frame(frame));
                }
            }
            Some(Slot::Certificates(folder)) => folder.write(line),
            Some(Slot::Nowhere | Slot::Infos(..)) | None => {}
        }
    }

    fn marked(&mut self, output: usize, line: &[u8]) {
        match self.0.get_mut(output) {
            Some(Slot::Lines(file)) => file.line(self.1.fill(line)),
            Some(Slot::Taken(take)) => take(ForLines::Line(self.1.fill(line))),
            Some(Slot::Infos(folder, failed)) => {
                let written = FileInfo::write(folder, line, &mut self.1);
                *failed += u64::from(!matches!(written, Some(Ok(()))));
            }
            Some(Slot::Nowhere | Slot::Frames(_) | Slot::Certificates(_)) | None => {}
        }
    }
}

/// All outputs of a run.
pub struct Outputs {
    formatter: Formatter<Files>,
    wants: Wants,
    alerted: HashSet<u64>,
    /// Names of output types that are not known.
    pub unknown: Vec<String>,
}

/// The `stats` object of a run, as JSON.
#[derive(Clone, Debug, Default)]
pub struct StatsTexts {
    /// With all counters.
    pub all: Vec<u8>,
    /// Without those at zero.
    pub without_zeros: Vec<u8>,
    /// With all counters, and beside each by how much it grew since the last record.
    pub deltas: Vec<u8>,
    /// The same without those at zero.
    pub deltas_without_zeros: Vec<u8>,
    /// Names with dots and values of all counters, for the table.
    pub counters: Vec<(String, u64)>,
}

/// Lines of workers on their way into files.
struct Writing<'a> {
    to: &'a mut Formatter<Files>,
    alerted: &'a mut HashSet<u64>,
    decide: &'a mut dyn FnMut(&Question) -> bool,
}

impl Judge for Writing<'_> {
    fn ask(&mut self, question: &Question, alert: &AlertTally) -> bool {
        let is_written = (self.decide)(question);
        if is_written {
            self.to.tally.kept(alert);
            if let Some(flow) = question.flow {
                note_alerted(self.alerted, flow);
            }
        }
        is_written
    }

    fn is_alerted(&mut self, flow: u64, is_last: bool) -> bool {
        if is_last { self.alerted.remove(&flow) } else { self.alerted.contains(&flow) }
    }

    fn line(&mut self, output: usize, line: &[u8], is_marked: bool) {
        match is_marked {
            true => self.to.to.marked(output, line),
            false => self.to.to.line(output, line),
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

/// Outputs being opened.
#[derive(Default)]
struct Opening {
    formats: Vec<Format>,
    files: Vec<Slot>,
    wants: Wants,
    unknown: Vec<String>,
}

impl Opening {
    fn add(&mut self, format: Format, file: Option<LineFile>) {
        self.formats.push(format);
        self.files.push(file.map_or(Slot::Nowhere, |f| Slot::Lines(Box::new(f))));
    }

    fn add_frames(&mut self, settings: PacketLogSettings, taker: FrameTaker) {
        self.formats.push(Format::Wire(Box::new(PacketLog::new(settings))));
        self.files.push(Slot::Frames(taker));
        self.wants.wire = true;
        // Without an alert written there is none to the packet.
        self.wants.alerts = true;
    }

    fn done(self) -> Outputs {
        Outputs {
            formatter: Formatter::new(self.formats, Files(self.files, FileNumbers::default())),
            wants: self.wants,
            alerted: HashSet::new(),
            unknown: self.unknown,
        }
    }
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

/// Outputs that are written, beside `eve-log` into regular files.
const SUPPORTED: [&str; 7] =
    ["fast", "file-store", "tls-store", "pcap-log", "alert-pcap", "stats", "lua"];

impl Outputs {
    /// Writes nothing: counts the records that the configuration's EVE outputs would write.
    pub fn counting(config: &Tree) -> Outputs {
        let mut o = Opening::default();
        for (_, item) in config.get("outputs").map_or(&[][..], |list| &list.children) {
            let Some((name, node)) = item.children.first() else { continue };
            if name == "eve-log" && node.flag("enabled") == Some(true) && o.formats.is_empty() {
                let settings = EveSettings::read(node, None);
                o.wants = EveWriter::new(settings.clone()).wants();
                o.add(Format::Count(Box::new(settings)), None);
            }
        }
        o.wants.alerts = false;
        o.done()
    }

    /// Opens what the configuration's `outputs` list asks for, in `folder`. What is done with files that
    /// are there already is `existing`, else as the configuration says (`append`, which is yes unless it
    /// says no). `frames` opens the capture files of packet logs, given the output's name and node.
    ///
    /// # Errors
    /// The file that can't be written, and why.
    pub fn open(
        config: &Tree,
        folder: &Path,
        existing: Option<Existing>,
        frames: &mut dyn FnMut(&str, &Tree) -> Result<FrameTaker, String>,
    ) -> Result<Outputs, String> {
        let mut o = Opening::default();
        let sensor = config.text("sensor-name");
        let Some(list) = config.get("outputs") else { return Ok(o.done()) };
        for (_, item) in &list.children {
            let Some((name, node)) = item.children.first() else { continue };
            if node.flag("enabled") == Some(false) || node.text("enabled").is_none() {
                continue;
            }
            let path = |default: &str| {
                let file = node.text("filename").unwrap_or(default);
                if Path::new(file).is_absolute() { PathBuf::from(file) } else { folder.join(file) }
            };
            let existing = existing.unwrap_or(match node.flag("append") {
                Some(false) => Existing::Truncate,
                Some(true) | None => Existing::Append,
            });
            match name.as_str() {
                "eve-log" => {
                    let kind = node.text("filetype").unwrap_or("regular");
                    if kind != "regular" {
                        o.unknown.push(format!("eve-log filetype {kind}"));
                        continue;
                    }
                    let writer = Box::new(EveWriter::new(EveSettings::read(node, sensor)));
                    let file = LineFile::create(&path("eve.json"), existing)?.configured(node)?;
                    o.wants.join(writer.wants());
                    o.add(Format::Eve(writer), Some(file));
                }
                "fast" => {
                    let file = LineFile::create(&path("fast.log"), existing)?.configured(node)?;
                    o.wants.alerts = true;
                    o.add(Format::Fast(FastWriter::default()), Some(file));
                }
                "file-store" => {
                    if node.number("version") != Some(2) {
                        return Err("output module \"file-store\": setup failed: version 1 is \
                                    gone: say version: 2"
                            .to_string());
                    }
                    let dir = node.text("dir").unwrap_or("filestore");
                    let dir = if Path::new(dir).is_absolute() {
                        PathBuf::from(dir)
                    } else {
                        folder.join(dir)
                    };
                    std::fs::create_dir_all(&dir)
                        .map_err(|e| format!("{}: cannot be made: {e}", dir.display()))?;
                    o.wants.file_store = true;
                    o.wants.store_all_files |= node.flag("force-filestore") == Some(true);
                    o.wants.sha256 = true;
                    o.wants.magic |= node.flag("force-magic") == Some(true);
                    let forced = node.child("force-hash").map(|t| t.children.as_slice());
                    for (_, hash) in forced.unwrap_or(&[]) {
                        match hash.value.as_deref() {
                            Some("md5") => o.wants.md5 = true,
                            Some("sha1") => o.wants.sha1 = true,
                            _ => {}
                        }
                    }
                    let with_info = node.flag("write-fileinfo").unwrap_or(false);
                    let store = Store::new(dir.clone(), with_info);
                    o.formats.push(Format::Store(Box::new(store)));
                    o.files.push(Slot::Infos(dir, 0));
                }
                "tls-store" => {
                    let dir = folder.join(node.text("certs-log-dir").unwrap_or("."));
                    std::fs::create_dir_all(&dir)
                        .map_err(|e| format!("{}: cannot be made: {e}", dir.display()))?;
                    o.wants.certificates = true;
                    o.formats.push(Format::Certificates(Box::new(CertificateTexts::new())));
                    let folder = CertificateFolder { folder: dir, stored: 0, failed: 0 };
                    o.files.push(Slot::Certificates(folder));
                }
                "pcap-log" => {
                    o.add_frames(PacketLogSettings::pcap_log(node)?, frames(name, node)?);
                }
                "alert-pcap" => {
                    o.add_frames(PacketLogSettings::alert_pcap(node), frames(name, node)?);
                }
                "stats" => {
                    let file = LineFile::create(&path("stats.log"), existing)?.configured(node)?;
                    o.add(Format::Stats(StatsLog::read(node)), Some(file));
                }
                // Scripts are run by the engine.
                "lua" => {}
                other => {
                    if !o.unknown.iter().any(|u| u == other) {
                        o.unknown.push(other.to_string());
                    }
                }
            }
        }
        Ok(o.done())
    }

    /// What would be opened for a configuration, without opening anything.
    pub fn survey(config: &Tree) -> Survey {
        let mut found = Survey::default();
        for (_, item) in config.get("outputs").map_or(&[][..], |list| &list.children) {
            let Some((name, node)) = item.children.first() else { continue };
            if node.flag("enabled") == Some(false) || node.text("enabled").is_none() {
                continue;
            }
            if matches!(name.as_str(), "eve-log" | "fast" | "stats")
                && let Err(e) = crate::line_file::settings(node)
            {
                let file = node.text("filename").unwrap_or(name);
                found.faults.push(format!("{file}: {e}"));
            }
            match (name.as_str(), node.text("filetype").unwrap_or("regular")) {
                ("eve-log", "regular") => found.supported += 1,
                ("eve-log", kind) => found.unsupported.push(format!("eve-log filetype {kind}")),
                (name, _) if SUPPORTED.contains(&name) => found.supported += 1,
                (other, _) if found.unsupported.iter().any(|u| u == other) => {}
                (other, _) => found.unsupported.push(other.to_owned()),
            }
        }
        found
    }

    /// What the outputs want together.
    pub fn wants(&self) -> Wants {
        self.wants
    }

    /// Adds an EVE output of alerts alone, whose lines are given to a taker.
    pub fn add_alerts(&mut self, taker: LineTaker) {
        let writer = Box::new(EveWriter::new(EveSettings::alerts_only()));
        self.wants.join(writer.wants());
        self.formatter.formats.push(Format::Eve(writer));
        self.formatter.to.0.push(Slot::Taken(taker));
    }

    /// Adds an EVE output with the settings of an `eve-log` node, whose lines are given to a taker.
    pub fn add_events(&mut self, node: &Tree, taker: LineTaker) {
        let writer = Box::new(EveWriter::new(EveSettings::read(node, None)));
        self.wants.join(writer.wants());
        self.formatter.formats.push(Format::Eve(writer));
        self.formatter.to.0.push(Slot::Taken(taker));
    }

    /// Adds a packet log to what is there.
    pub fn add_packet_log(&mut self, settings: PacketLogSettings, taker: FrameTaker) {
        self.formatter.formats.push(Format::Wire(Box::new(PacketLog::new(settings))));
        self.formatter.to.0.push(Slot::Frames(taker));
        self.wants.wire = true;
    }

    /// All that was counted, by workers too, with what became of stored files and logged frames.
    pub fn sum(&self) -> EventCounts {
        let mut sum = self.formatter.sum();
        for slot in &self.formatter.to.0 {
            let failed = match slot {
                Slot::Infos(_, failed) => *failed,
                Slot::Certificates(folder) => folder.failed,
                _ => 0,
            };
            sum.store.receive(failed, 0);
            sum.store.shed(ShedReason::OutputFailed, failed, 0);
        }
        sum
    }

    /// Counters of these outputs for the statistics.
    pub fn counters(&self) -> Vec<(&'static str, u64)> {
        let has_store = self.formatter.formats.iter().any(|f| matches!(f, Format::Store(_)));
        match has_store {
            true => vec![
                ("file_store.open_files_max_hit", 0),
                ("file_store.fs_errors", self.sum().store.shed_total().items),
                ("file_store.open_files", 0),
            ],
            false => Vec::new(),
        }
    }

    /// Findings counted so far.
    pub fn tally(&self) -> &EventCounts {
        &self.formatter.tally
    }

    /// Puts the name of its capture into each EVE record, for a run that reads several; an output whose
    /// configuration says `pcap-file: no` does without.
    pub fn name_captures(&mut self) {
        for format in &mut self.formatter.formats {
            if let Format::Eve(writer) = format {
                writer.name_captures();
            }
        }
    }

    /// Names the capture read from now on.
    pub fn set_capture(&mut self, name: &str) {
        self.formatter.set_capture(name);
    }

    /// Writes the statistics record.
    pub fn stats(&mut self, ts_ns: u64, texts: &StatsTexts) {
        let f = &mut self.formatter;
        let mut any = false;
        for (n, format) in f.formats.iter_mut().enumerate() {
            if let Format::Stats(log) = format {
                log.table(ts_ns, &texts.counters, &mut |line| f.to.line(n, line));
            }
            if let Format::Eve(writer) = format
                && let Some(line) = writer.whole(ts_ns, "stats", |node| {
                    let deltas = node.flag("deltas") == Some(true);
                    match (node.flag("null-values"), deltas) {
                        (Some(false), false) => texts.without_zeros.as_slice(),
                        (Some(false), true) => &texts.deltas_without_zeros,
                        (_, false) => &texts.all,
                        (_, true) => &texts.deltas,
                    }
                })
            {
                f.to.line(n, line);
                any = true;
            }
        }
        if any {
            f.tally.record("stats");
        }
    }

    /// Writes what is buffered; the first failure, if any.
    pub fn flush(&mut self) -> Result<(), String> {
        let mut failure = None;
        for slot in &mut self.formatter.to.0 {
            let file = match slot {
                Slot::Lines(file) => file,
                Slot::Frames(take) => {
                    take(ForFrames::Flush);
                    continue;
                }
                Slot::Nowhere | Slot::Taken(_) | Slot::Infos(..) | Slot::Certificates(_) => {
                    continue;
                }
            };
            file.flush();
            if failure.is_none() {
                failure = file.failure().map(str::to_string);
            }
        }
        failure.map_or(Ok(()), Err)
    }

    /// Writes the lines that are buffered, while more may come.
    pub fn flush_lines(&mut self) {
        for slot in &mut self.formatter.to.0 {
            if let Slot::Lines(file) = slot {
                file.flush();
            }
        }
    }

    /// Opens all files by their names again, for who rotates logs.
    pub fn reopen(&mut self) {
        for slot in &mut self.formatter.to.0 {
            match slot {
                Slot::Lines(file) => file.reopen(),
                Slot::Frames(take) => take(ForFrames::Reopen),
                Slot::Taken(take) => take(ForLines::Reopen),
                Slot::Nowhere | Slot::Infos(..) | Slot::Certificates(_) => {}
            }
        }
    }

    /// Files with their ledgers.
    pub fn files(&self) -> Vec<(&Path, &Ledger)> {
        self.formatter.to.lines().map(|f| (f.path(), f.ledger())).collect()
    }

    /// The same outputs for one of several workers: lines are kept for [`Outputs::write`].
    pub fn for_worker(&self) -> WorkerOutputs {
        WorkerOutputs::new(self.formatter.formats.iter().map(Format::clone_for_worker).collect())
    }

    /// Writes the lines that workers have for one batch of frames, in packet order. They are taken
    /// out of the batches. `decide` is asked, in that order too, whether alerts in doubt are written.
    pub fn write(&mut self, batches: &mut [LineBatch], decide: &mut dyn FnMut(&Question) -> bool) {
        let mut writing = Writing { to: &mut self.formatter, alerted: &mut self.alerted, decide };
        packet_order::merge(batches, &mut writing);
    }

    /// Adds what a worker counted.
    pub fn add_tally(&mut self, tally: &EventCounts) {
        self.formatter.tally.merge(tally);
    }
}

sink_by_formatter!(Outputs {});

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
        assert_eq!(gabion_record::limits::take().of(&reached::ALERTED_FLOWS_MAX), 2);
    }
}
