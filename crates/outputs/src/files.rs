//! Output files: where lines go, and what a configuration's `outputs` list asks for.
//!
//! Every output is opened before the first packet is read, so that a folder that cannot be written is
//! said at once. Lines are buffered; one that cannot be written (disk full) is counted, said once and
//! never ends in half a line followed by another: the file is cut back to its last whole line.

use crate::eve::{EveSettings, EveWriter};
use crate::fast::FastWriter;
use gabion_record::Tree;
use gabion_record::eve::*;
use gabion_record::{Direction, ledger::Ledger, ledger::ShedReason};
use std::fs::{File, OpenOptions};
use std::io::{Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

/// Bytes kept before they are written.
const BUFFER_BYTES: usize = 256 * 1024;

/// A file of lines.
#[derive(Debug)]
pub struct LineFile {
    path: PathBuf,
    file: Option<File>,
    buffer: Vec<u8>,
    lines: u64,
    /// Bytes known to be in the file.
    written: u64,
    ledger: Ledger,
    failure: Option<String>,
}

impl LineFile {
    /// Creates (or continues) a file.
    pub fn create(path: &Path, append: bool) -> Result<LineFile, String> {
        let opened = OpenOptions::new()
            .create(true)
            .write(true)
            .append(append)
            .truncate(!append)
            .open(path)
            .map_err(|e| format!("{}: cannot be written: {e}", path.display()))?;
        let written = opened.metadata().map(|m| m.len()).unwrap_or(0);
        Ok(LineFile {
            path: path.to_path_buf(),
            file: Some(opened),
            buffer: Vec::with_capacity(BUFFER_BYTES + 16 * 1024),
            lines: 0,
            written,
            ledger: Ledger::default(),
            failure: None,
        })
    }

    /// Adds one line (its end included).
    pub fn line(&mut self, line: &[u8]) {
        self.ledger.receive(1, line.len() as u64);
        if self.file.is_none() {
            self.ledger.shed(ShedReason::OutputFailed, 1, line.len() as u64);
            return;
        }
        self.buffer.extend_from_slice(line);
        self.lines += 1;
        if self.buffer.len() >= BUFFER_BYTES {
            self.flush();
        }
    }

    /// Writes what is buffered.
    pub fn flush(&mut self) {
        let Some(file) = &mut self.file else { return };
        let mut done = 0;
        let mut error = None;
        while done < self.buffer.len() {
            match file.write(&self.buffer[done..]) {
                Ok(0) => {
                    error = Some("nothing could be written".to_string());
                    break;
                }
                Ok(n) => done += n,
                Err(e) if e.kind() == std::io::ErrorKind::Interrupted => {}
                Err(e) => {
                    error = Some(e.to_string());
                    break;
                }
            }
        }
        match error {
            None => {
                self.written += done as u64;
                self.ledger.pass(self.lines, done as u64);
            }
            Some(e) => self.give_up(done, e),
        }
        self.buffer.clear();
        self.lines = 0;
    }

    /// Cuts the file back to its last whole line and takes nothing more.
    fn give_up(&mut self, done: usize, error: String) {
        let whole = self.buffer[..done].iter().rposition(|b| *b == b'\n').map_or(0, |p| p + 1);
        let good = self.buffer[..whole].iter().filter(|b| **b == b'\n').count() as u64;
        if let Some(file) = &mut self.file {
            let end = self.written + whole as u64;
            if file.set_len(end).is_ok() {
                let _ = file.seek(SeekFrom::Start(end));
            }
        }
        self.ledger.pass(good, whole as u64);
        let lost = self.lines.saturating_sub(good);
        self.ledger.shed(ShedReason::OutputFailed, lost, (self.buffer.len() - whole) as u64);
        self.failure = Some(format!(
            "{}: cannot be written: {error}: make room or choose another folder with -l",
            self.path.display()
        ));
        self.file = None;
    }

    /// Why nothing is written any more.
    pub fn failure(&self) -> Option<&str> {
        self.failure.as_deref()
    }

    /// Lines and bytes.
    pub fn ledger(&self) -> &Ledger {
        &self.ledger
    }

    /// The file's path.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

enum Output {
    Eve {
        writer: Box<EveWriter>,
        file: LineFile,
    },
    Fast {
        writer: FastWriter,
        file: LineFile,
    },
    Store {
        folder: PathBuf,
        write_fileinfo: bool,
        stored: u64,
        failed: u64,
    },
    /// Records are counted as an EVE output would write them; nothing is written.
    Count {
        settings: Box<EveSettings>,
    },
}

/// All outputs of a run.
pub struct Outputs {
    outputs: Vec<Output>,
    wants: Wants,
    /// Names of output types that are not known.
    pub unknown: Vec<String>,
    /// Alerts by signature: for tables.
    pub tally: Tally,
}

/// Findings counted while they pass, for tables at the end of a run.
#[derive(Debug, Default)]
pub struct Tally {
    /// gid, sid, message, priority, alerts.
    pub alerts: Vec<AlertTally>,
    /// Records by event type.
    pub records: Vec<(String, u64)>,
    by_sid: std::collections::HashMap<(u32, u32), usize>,
}

/// Alerts of one signature.
#[derive(Clone, Debug)]
pub struct AlertTally {
    /// Generator.
    pub gid: u32,
    /// Signature.
    pub sid: u32,
    /// Message.
    pub msg: String,
    /// Priority.
    pub severity: u32,
    /// Alerts.
    pub count: u64,
    /// Source and destination of the first one.
    pub first: (String, String),
}

impl Tally {
    fn alert(&mut self, r: &AlertRecord<'_>) {
        let s = &r.signature;
        let at = *self.by_sid.entry((s.gid, s.sid)).or_insert_with(|| {
            let h = &r.header;
            let place = |a: gabion_record::Addr, p: Option<u16>| match (h.ip_version, p) {
                (0, _) => String::from("-"),
                (v, Some(p)) => format!("{}:{p}", a.text(v)),
                (v, None) => a.text(v),
            };
            self.alerts.push(AlertTally {
                gid: s.gid,
                sid: s.sid,
                msg: s.msg.to_string(),
                severity: s.severity,
                count: 0,
                first: (place(h.src, h.ports.map(|p| p.0)), place(h.dst, h.ports.map(|p| p.1))),
            });
            self.alerts.len() - 1
        });
        self.alerts[at].count += 1;
        self.record("alert");
    }

    fn record(&mut self, event_type: &str) {
        match self.records.iter_mut().find(|(n, _)| n == event_type) {
            Some(slot) => slot.1 += 1,
            None => self.records.push((event_type.to_string(), 1)),
        }
    }
}

impl Outputs {
    fn none() -> Outputs {
        Outputs {
            outputs: Vec::new(),
            wants: Wants::default(),
            unknown: Vec::new(),
            tally: Tally::default(),
        }
    }

    /// Writes nothing: counts the records that the configuration's EVE outputs would write.
    pub fn counting(config: &Tree) -> Outputs {
        let mut o = Outputs::none();
        for (_, item) in config.get("outputs").map_or(&[][..], |list| &list.children) {
            let Some((name, node)) = item.children.first() else { continue };
            if name == "eve-log" && node.flag("enabled") == Some(true) && o.outputs.is_empty() {
                let settings = EveSettings::read(node, None);
                o.wants = EveWriter::new(settings.clone()).wants();
                o.outputs.push(Output::Count { settings: Box::new(settings) });
            }
        }
        o.wants.alerts = false;
        o
    }

    /// Opens what the configuration's `outputs` list asks for, in `folder`.
    pub fn open(config: &Tree, folder: &Path) -> Result<Outputs, String> {
        let mut o = Outputs::none();
        let sensor = config.text("sensor-name");
        let Some(list) = config.get("outputs") else { return Ok(o) };
        for (_, item) in &list.children {
            let Some((name, node)) = item.children.first() else { continue };
            if node.flag("enabled") == Some(false) || node.text("enabled").is_none() {
                continue;
            }
            let path = |default: &str| {
                let file = node.text("filename").unwrap_or(default);
                if Path::new(file).is_absolute() { PathBuf::from(file) } else { folder.join(file) }
            };
            let append = node.flag("append").unwrap_or(true);
            match name.as_str() {
                "eve-log" => {
                    let kind = node.text("filetype").unwrap_or("regular");
                    if kind != "regular" {
                        o.unknown.push(format!("eve-log filetype {kind}"));
                        continue;
                    }
                    let writer = Box::new(EveWriter::new(EveSettings::read(node, sensor)));
                    let file = LineFile::create(&path("eve.json"), append)?;
                    o.wants.join(writer.wants());
                    o.outputs.push(Output::Eve { writer, file });
                }
                "fast" => {
                    let file = LineFile::create(&path("fast.log"), append)?;
                    o.wants.alerts = true;
                    o.outputs.push(Output::Fast { writer: FastWriter::default(), file });
                }
                "file-store" => {
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
                    o.outputs.push(Output::Store {
                        folder: dir,
                        write_fileinfo: node.flag("write-fileinfo").unwrap_or(false),
                        stored: 0,
                        failed: 0,
                    });
                }
                "stats" => {}
                other => {
                    if !o.unknown.iter().any(|u| u == other) {
                        o.unknown.push(other.to_string());
                    }
                }
            }
        }
        Ok(o)
    }

    /// What the outputs want together.
    pub fn wants(&self) -> Wants {
        self.wants
    }

    /// Names the capture read from now on.
    pub fn set_capture(&mut self, name: &str) {
        for o in &mut self.outputs {
            if let Output::Eve { writer, .. } = o {
                writer.set_capture(name);
            }
        }
    }

    /// Writes the statistics record.
    pub fn stats(&mut self, ts_ns: u64, json: &[u8]) {
        self.each_eve("stats", &mut |w| w.whole(ts_ns, "stats", json).map(<[u8]>::to_vec));
    }

    fn each_eve(&mut self, name: &str, f: &mut dyn FnMut(&mut EveWriter) -> Option<Vec<u8>>) {
        let mut any = false;
        for o in &mut self.outputs {
            if let Output::Eve { writer, file } = o
                && let Some(line) = f(writer)
            {
                file.line(&line);
                any = true;
            }
        }
        if any {
            self.tally.record(name);
        }
    }

    /// Writes what is buffered; the first failure, if any.
    pub fn flush(&mut self) -> Result<(), String> {
        let mut failure = None;
        for o in &mut self.outputs {
            if let Output::Eve { file, .. } | Output::Fast { file, .. } = o {
                file.flush();
                if failure.is_none() {
                    failure = file.failure().map(str::to_string);
                }
            }
        }
        failure.map_or(Ok(()), Err)
    }

    /// Files with their ledgers.
    pub fn files(&self) -> Vec<(&Path, &Ledger)> {
        self.outputs
            .iter()
            .filter_map(|o| match o {
                Output::Eve { file, .. } | Output::Fast { file, .. } => {
                    Some((file.path(), file.ledger()))
                }
                Output::Store { .. } | Output::Count { .. } => None,
            })
            .collect()
    }
}

/// Writes one file into the store: `ab/abcdef…` of its SHA-256.
fn store(folder: &Path, with_info: bool, r: &FileChunk<'_>) -> std::io::Result<()> {
    let Some(sha) = r.file.sha256 else { return Ok(()) };
    let name: String = sha.iter().map(|b| format!("{b:02x}")).collect();
    let dir = folder.join(&name[..2]);
    std::fs::create_dir_all(&dir)?;
    let path = dir.join(&name);
    if !path.exists() {
        std::fs::write(&path, r.bytes)?;
    }
    if with_info {
        let mut j = gabion_record::json::Json::new();
        j.open();
        j.open_key("fileinfo");
        r.file.write(&mut j);
        j.close();
        j.close();
        let seconds = r.header.ts_ns / 1_000_000_000;
        let id = r.file.file_id.unwrap_or(0);
        std::fs::write(dir.join(format!("{name}.{seconds}.{id}.json")), j.bytes())?;
    }
    Ok(())
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

macro_rules! each_line {
    ($self:ident, $name:expr, |$w:ident| $line:expr) => {{
        let mut any = false;
        for o in &mut $self.outputs {
            match o {
                Output::Eve { writer: $w, file } => {
                    if let Some(line) = $line {
                        file.line(line);
                        any = true;
                    }
                }
                Output::Count { settings } => any |= is_counted(settings, $name),
                Output::Fast { .. } | Output::Store { .. } => {}
            }
        }
        if any {
            $self.tally.record($name);
        }
    }};
}

impl NetSink for Outputs {
    fn alert(&mut self, r: &AlertRecord<'_>) {
        self.tally.alert(r);
        for o in &mut self.outputs {
            match o {
                Output::Eve { writer, file } => {
                    if let Some(line) = writer.alert(r) {
                        file.line(line);
                    }
                }
                Output::Fast { writer, file } => file.line(writer.alert(r)),
                Output::Store { .. } | Output::Count { .. } => {}
            }
        }
    }

    fn app(&mut self, r: &AppRecord<'_>) {
        each_line!(self, r.event_type, |w| w.app(r));
    }

    fn file(&mut self, r: &FileRecord<'_>) {
        each_line!(self, "fileinfo", |w| w.file(r));
    }

    fn file_chunk(&mut self, r: &FileChunk<'_>) {
        for o in &mut self.outputs {
            if let Output::Store { folder, write_fileinfo, stored, failed } = o {
                match store(folder, *write_fileinfo, r) {
                    Ok(()) => *stored += 1,
                    Err(_) => *failed += 1,
                }
            }
        }
    }

    fn flow(&mut self, r: &FlowRecord<'_>) {
        each_line!(self, "flow", |w| w.flow(r));
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

    fn arp(&mut self, h: &Header<'_>, object: &dyn WriteObject) {
        each_line!(self, "arp", |w| w.arp(h, object));
    }

    fn type_config(&self, event_type: &str) -> Option<&Tree> {
        self.outputs.iter().find_map(|o| match o {
            Output::Eve { writer, .. } => writer.settings().type_node(event_type),
            Output::Count { settings } => settings.type_node(event_type),
            _ => None,
        })
    }
}
