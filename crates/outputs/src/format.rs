//! Records turned into lines, for whoever takes them: files at once, or a buffer that is written in
//! packet order later.

use crate::certificate_store::CertificateTexts;
use crate::eve::{EveSettings, EveWriter};
use crate::event_counts::{AlertSeen, AlertTally, EventCounts};
use crate::fast::FastWriter;
use crate::limits::reached;
use crate::packet_log::PacketLog;
use crate::packet_order::Place;
use crate::stats_log::StatsLog;
use gabion_record::eve::*;
use gabion_record::ledger::{Ledger, ShedReason};
use gabion_record::{Direction, Tree};
use gabion_runtime::output::write_whole;
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// One output's way of writing records.
pub(crate) enum Format {
    Eve(Box<EveWriter>),
    Fast(FastWriter),
    /// Files go into a folder, by their hash.
    Store(Box<Store>),
    /// Counters go into a table, at the end.
    Stats(StatsLog),
    /// Certificates go into a folder.
    Certificates(Box<CertificateTexts>),
    /// Frames go into a capture file.
    Wire(Box<PacketLog>),
    /// Records are counted as an EVE output would write them; nothing is written.
    Count(Box<EveSettings>),
}

/// The file store.
#[derive(Debug)]
pub(crate) struct Store {
    pub(crate) folder: PathBuf,
    info: Option<Box<EveWriter>>,
    pub(crate) ledger: Ledger,
}

impl Format {
    /// The same output for another worker.
    pub(crate) fn clone_for_worker(&self) -> Format {
        match self {
            Format::Eve(w) => Format::Eve(Box::new(EveWriter::new(w.settings().clone()))),
            Format::Fast(_) => Format::Fast(FastWriter::default()),
            Format::Store(s) => {
                Format::Store(Box::new(Store::new(s.folder.clone(), s.info.is_some())))
            }
            Format::Stats(s) => Format::Stats(*s),
            Format::Certificates(_) => Format::Certificates(Box::new(CertificateTexts::new())),
            Format::Wire(w) => Format::Wire(Box::new(PacketLog::new(w.settings))),
            Format::Count(s) => Format::Count(s.clone()),
        }
    }
}

/// When a line is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum When {
    Always,
    /// If the question of this number among those kept is answered by yes.
    Asked(u32),
    /// If an alert of this flow that was asked for was written, or if not.
    Alerted(u64, bool),
}

/// Takes lines.
pub(crate) trait Take {
    /// One line (its end included) of an output.
    fn line(&mut self, output: usize, line: &[u8]);
    /// A line that may hold marks of stored files ([`FileKey`]).
    fn marked(&mut self, output: usize, line: &[u8]);
    /// When the lines that follow are written. Only who keeps lines is told.
    fn when(&mut self, when: When) {
        debug_assert_eq!(when, When::Always, "lines at once can't wait for answers");
    }
    /// Keeps a question about the lines that follow.
    fn ask(&mut self, question: &Question, alert: AlertTally) {
        let _ = (question, alert);
    }
}

/// Formats records and hands the lines on.
pub(crate) struct Formatter<T> {
    pub(crate) formats: Vec<Format>,
    pub(crate) to: T,
    pub(crate) tally: EventCounts,
    /// Place of the frame at hand among all frames.
    pub(crate) at: Place,
    /// The capture that is read.
    capture: Option<Arc<str>>,
}

impl<T: Take> Formatter<T> {
    pub(crate) fn new(formats: Vec<Format>, to: T) -> Formatter<T> {
        Formatter { formats, to, tally: EventCounts::default(), at: (0, 0), capture: None }
    }

    /// What was counted, with what became of files and frames.
    pub(crate) fn sum(&self) -> EventCounts {
        let mut tally = self.tally.clone();
        for f in &self.formats {
            match f {
                Format::Store(s) => tally.store.merge(&s.ledger),
                Format::Wire(w) => {
                    tally.packet_log.merge(&w.ledger());
                    tally.packet_log_missing += w.missing;
                }
                Format::Eve(_)
                | Format::Fast(_)
                | Format::Certificates(_)
                | Format::Count(_)
                | Format::Stats(_) => {}
            }
        }
        tally
    }

    /// Names the capture read from now on.
    pub(crate) fn set_capture(&mut self, name: &str) {
        self.capture = Some(name.into());
        for f in &mut self.formats {
            if let Format::Eve(writer) = f {
                writer.set_capture(name);
            }
        }
    }
}

impl Store {
    /// A store in this folder; with the record of each file beside it when asked for.
    pub(crate) fn new(folder: PathBuf, write_fileinfo: bool) -> Store {
        let info = write_fileinfo.then(|| Box::new(EveWriter::new(EveSettings::files_only())));
        Store { folder, info, ledger: Ledger::default() }
    }

    /// Writes one file: `ab/abcdef…` of its SHA-256. What is said of it is given back: its number is
    /// known only in the order of all records.
    fn store(&mut self, r: &FileChunk<'_>) -> std::io::Result<Option<FileInfo>> {
        let file = &r.record.file;
        let Some(sha) = file.sha256 else { return Ok(None) };
        let name: String = sha.iter().map(|b| format!("{b:02x}")).collect();
        let dir = self.folder.join(&name[..2]);
        std::fs::create_dir_all(&dir)?;
        let path = dir.join(&name);
        if !path.exists() {
            write_whole(&path, r.bytes)?;
        }
        let (Some(info), Some(key)) = (self.info.as_mut(), file.file_id) else { return Ok(None) };
        let seconds = r.record.header.ts_ns / 1_000_000_000;
        Ok(info.file(&r.record).map(|line| FileInfo { sha, seconds, key, line: line.to_vec() }))
    }
}

/// What is said of a stored file, in a file beside it: `abcdef….SECONDS.NUMBER.json`.
pub(crate) struct FileInfo {
    sha: [u8; 32],
    seconds: u64,
    key: FileKey,
    line: Vec<u8>,
}

impl FileInfo {
    /// As a line on its way to who writes: hash, seconds, mark, text.
    fn encode(&self) -> Vec<u8> {
        let mut out = self.sha.to_vec();
        out.extend_from_slice(&self.seconds.to_le_bytes());
        self.key.mark(&mut out);
        out.extend_from_slice(&self.line);
        out
    }

    /// Writes the line of [`FileInfo::encode`] into its file.
    pub(crate) fn write(
        folder: &Path,
        line: &[u8],
        numbers: &mut FileNumbers,
    ) -> Option<std::io::Result<()>> {
        let (sha, rest) = line.split_first_chunk::<32>()?;
        let (seconds, rest) = rest.split_first_chunk::<8>()?;
        let (mark, text) = rest.split_at_checked(FileKey::MARK_LEN)?;
        let number = numbers.of(FileKey::read(mark)?);
        let name: String = sha.iter().map(|b| format!("{b:02x}")).collect();
        let seconds = u64::from_le_bytes(*seconds);
        let path = folder.join(&name[..2]).join(format!("{name}.{seconds}.{number}.json"));
        Some(write_whole(&path, numbers.fill(text)))
    }
}

/// Numbers of stored files, in the order in which records name them, from 1.
#[derive(Debug, Default)]
pub(crate) struct FileNumbers {
    known: HashMap<FileKey, u64>,
    last: u64,
    line: Vec<u8>,
}

impl FileNumbers {
    fn of(&mut self, key: FileKey) -> u64 {
        if !reached::FILE_NUMBERS_MAX.has_room(self.known.len()) {
            self.known.clear();
        }
        *self.known.entry(key).or_insert_with(|| {
            self.last += 1;
            self.last
        })
    }

    /// The line with numbers for its marks.
    pub(crate) fn fill<'l>(&'l mut self, line: &'l [u8]) -> &'l [u8] {
        if !line.contains(&FileKey::MARK) {
            return line;
        }
        let mut out = std::mem::take(&mut self.line);
        out.clear();
        let mut rest = line;
        while let Some(at) = rest.iter().position(|b| *b == FileKey::MARK) {
            let (before, behind) = rest.split_at(at);
            out.extend_from_slice(before);
            rest = match behind.split_at_checked(FileKey::MARK_LEN) {
                Some((mark, rest)) => {
                    let number = FileKey::read(mark).map_or(0, |key| self.of(key));
                    out.extend_from_slice(number.to_string().as_bytes());
                    rest
                }
                None => &[],
            };
        }
        out.extend_from_slice(rest);
        self.line = out;
        &self.line
    }
}

/// Whether an EVE output of these settings writes records of that event type. What is configured
/// in more detail (kinds of anomalies, tagged packets) the engine knows by what is wanted of it.
fn is_counted(settings: &EveSettings, event_type: &str) -> bool {
    let name = match event_type {
        "fileinfo" => "files",
        "packet" => "alert",
        other => other,
    };
    settings.type_node(name).is_some()
}

/// Whether a record's own settings leave anything of it: of these types they may leave nothing, and such a
/// record is not written (acknowledgements alone of DHCP, sessions of TLS that are not resumed).
fn has_members(settings: &EveSettings, r: &AppRecord<'_>) -> bool {
    if !matches!(r.event_type, "dhcp" | "tls") {
        return true;
    }
    r.object.write(
        &mut gabion_record::json::Json::new(),
        settings.type_settings(r.event_type),
        false,
    )
}

/// The sink of whoever holds a formatter: every record goes there. What stands behind the type is
/// the holder's own.
macro_rules! sink_by_formatter {
    ($holder:ty { $($own:item)* }) => {
        impl gabion_record::eve::NetSink for $holder {
            $crate::format::sink_by_formatter!(@each
                alert(AlertRecord), app(AppRecord), file(FileRecord), file_chunk(FileChunk),
                flow(FlowRecord), anomaly(AnomalyRecord), dropped(DropRecord),
                packet(PacketRecord), frame(FrameRecord), certificates(CertificateRecord),
                metadata(Header), wire(WireRecord), stream(StreamRecord));
            fn arp(&mut self, header: &Header<'_>, object: &dyn WriteObject) {
                self.formatter.arp(header, object);
            }
            fn type_config(&self, event_type: &str) -> Option<&Tree> {
                self.formatter.type_config(event_type)
            }
            $($own)*
        }
    };
    (@each $($method:ident($record:ident)),*) => {
        $(fn $method(&mut self, record: &$record<'_>) {
            self.formatter.$method(record);
        })*
    };
}
pub(crate) use sink_by_formatter;

macro_rules! each_line {
    ($self:ident, $name:expr, |$w:ident| $line:expr) => {
        each_line!($self, $name, |$w| $line, line)
    };
    ($self:ident, $name:expr, |$w:ident| $line:expr, $take:ident) => {{
        let mut any = false;
        for (n, f) in $self.formats.iter_mut().enumerate() {
            match f {
                Format::Eve($w) => {
                    if let Some(line) = $line {
                        $self.to.$take(n, line);
                        any = true;
                    }
                }
                Format::Count(settings) => any |= is_counted(settings, $name),
                _ => {}
            }
        }
        if any {
            $self.tally.record($name);
        }
    }};
}

impl<T: Take> NetSink for Formatter<T> {
    fn alert(&mut self, r: &AlertRecord<'_>) {
        let seen = AlertSeen::of(r, self.at, self.capture.as_ref());
        match &r.question {
            Some(q) => self.to.ask(q, AlertTally::of(seen, r)),
            None => self.tally.alert(r, seen),
        }
        for (n, f) in self.formats.iter_mut().enumerate() {
            match f {
                Format::Eve(writer) => match writer.alert(r) {
                    Some(line) if r.files.is_some() => self.to.marked(n, line),
                    Some(line) => self.to.line(n, line),
                    None => {}
                },
                Format::Fast(writer) => self.to.line(n, writer.alert(r)),
                Format::Wire(log) if r.header.pkt_src.ends_with("(flow timeout)") => {
                    log.alert(r.header.flow_id, &mut |line| self.to.line(n, line));
                }
                _ => {}
            }
        }
        if r.question.is_some() {
            self.to.when(When::Always);
        }
    }

    fn app(&mut self, r: &AppRecord<'_>) {
        let mut any = false;
        for (n, f) in self.formats.iter_mut().enumerate() {
            match f {
                Format::Eve(w) => {
                    if let Some(line) = w.app(r) {
                        self.to.line(n, line);
                        any = true;
                    }
                }
                Format::Count(settings) => {
                    any |= is_counted(settings, r.event_type) && has_members(settings, r);
                }
                _ => {}
            }
        }
        if any {
            self.tally.record(r.event_type);
        }
    }

    fn file(&mut self, r: &FileRecord<'_>) {
        each_line!(self, "fileinfo", |w| w.file(r), marked);
    }

    fn file_chunk(&mut self, r: &FileChunk<'_>) {
        for (n, f) in self.formats.iter_mut().enumerate() {
            if let Format::Store(s) = f {
                let len = r.bytes.len() as u64;
                s.ledger.receive(1, len);
                match s.store(r) {
                    Ok(info) => {
                        s.ledger.pass(1, len);
                        info.iter().for_each(|info| self.to.marked(n, &info.encode()));
                    }
                    Err(_) => s.ledger.shed(ShedReason::OutputFailed, 1, len),
                }
            }
        }
    }

    fn flow(&mut self, r: &FlowRecord<'_>) {
        match (r.is_alert_asked, r.header.flow_id) {
            (true, Some(id)) => {
                // Once for either answer, and counted once.
                self.to.when(When::Alerted(id, false));
                each_line!(self, "flow", |w| w.flow(r));
                self.to.when(When::Alerted(id, true));
                for (n, f) in self.formats.iter_mut().enumerate() {
                    if let Format::Eve(w) = f
                        && let Some(line) = w.flow(&FlowRecord { is_alerted: true, ..*r })
                    {
                        self.to.line(n, line);
                    }
                }
                self.to.when(When::Always);
            }
            _ => each_line!(self, "flow", |w| w.flow(r)),
        }
        for d in Direction::BOTH {
            each_line!(self, "netflow", |w| w.netflow(r, d));
        }
    }

    fn anomaly(&mut self, r: &AnomalyRecord<'_>) {
        each_line!(self, "anomaly", |w| w.anomaly(r));
    }

    fn dropped(&mut self, r: &DropRecord<'_>) {
        each_line!(self, "drop", |w| w.dropped(r));
    }

    fn packet(&mut self, r: &PacketRecord<'_>) {
        each_line!(self, "packet", |w| w.packet(r));
    }

    fn frame(&mut self, r: &FrameRecord<'_>) {
        each_line!(self, "frame", |w| w.frame(r));
    }

    fn certificates(&mut self, r: &CertificateRecord<'_>) {
        for (n, f) in self.formats.iter_mut().enumerate() {
            if let Format::Certificates(texts) = f {
                self.to.line(n, &texts.encode(r));
            }
        }
    }

    fn metadata(&mut self, h: &Header<'_>) {
        each_line!(self, "metadata", |w| w.metadata(h));
    }

    fn wire(&mut self, r: &WireRecord<'_>) {
        for (n, f) in self.formats.iter_mut().enumerate() {
            if let Format::Wire(log) = f {
                log.take(r, &mut |line| self.to.line(n, line));
            }
        }
    }

    fn stream(&mut self, r: &StreamRecord<'_>) {
        each_line!(self, "stream", |w| w.stream(r));
    }

    fn arp(&mut self, h: &Header<'_>, object: &dyn WriteObject) {
        each_line!(self, "arp", |w| w.arp(h, object));
    }

    fn type_config(&self, event_type: &str) -> Option<&Tree> {
        self.formats.iter().find_map(|f| match f {
            Format::Eve(writer) => writer.settings().type_settings(event_type),
            Format::Count(settings) => settings.type_settings(event_type),
            _ => None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_that_are_forgotten_are_counted() {
        let mut numbers = FileNumbers::default();
        let key = |n: u64| FileKey::new(n, 1);
        for n in 0..crate::limits::FILE_NUMBERS_MAX as u64 + 1 {
            numbers.of(key(n));
        }
        assert_eq!(gabion_record::limits::take().of(&reached::FILE_NUMBERS_MAX), 1);
    }

    /// A line with the marks of these files.
    fn line(keys: &[FileKey]) -> Vec<u8> {
        let mut out = b"{".to_vec();
        for key in keys {
            key.mark(&mut out);
            out.push(b',');
        }
        out.push(b'}');
        out
    }

    #[test]
    fn files_are_numbered_in_the_order_they_are_named() {
        let [a, b, c] = [(7, 1), (7, 2), (9, 1)].map(|(flow, n)| FileKey::new(flow, n));
        let mut numbers = FileNumbers::default();
        for (keys, want) in
            [(&[b][..], "{1,}"), (&[], "{}"), (&[a, b, c], "{2,1,3,}"), (&[c, c], "{3,3,}")]
        {
            assert_eq!(numbers.fill(&line(keys)), want.as_bytes());
        }
        // What is cut is not handed on.
        assert_eq!(numbers.fill(b"x\x01ff"), b"x");
    }
}
