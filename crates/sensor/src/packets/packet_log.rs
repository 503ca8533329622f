//! Capture files that a run writes: Suricata's `pcap-log` and the packets of alerts' flows.
//!
//! What goes in is decided by `outputs::packet_log`; here are the files, their names and turns, and the
//! capture filter.

use crate::Error;
use gabion_capture::filter::Filter;
use gabion_capture::{
    FileNames, Packing, PcapWriter, Resolution, RotatingPcap, RotationLimits, Written,
};
use gabion_outputs::{Destination, OutputError, Outputs, Piece, PieceKind};
use gabion_record::Tree;
use gabion_record::files::FileOpener;
use gabion_runtime::output::{Existing, OutputFile, check};
use std::io::{self, BufWriter};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};

/// Bytes of one file of a packet log, unless configured (Suricata's).
const FILE_BYTES: u64 = 1000 << 20;

/// What the packet logs of a run have written.
#[derive(Debug, Default)]
pub struct PacketLogCounts {
    written: AtomicU64,
    filtered: AtomicU64,
    failed: AtomicU64,
    /// Frames for which the configured limits leave no room.
    full: AtomicU64,
    failure: Mutex<Option<(PathBuf, Arc<io::Error>)>>,
    has_log: std::sync::atomic::AtomicBool,
}

impl PacketLogCounts {
    /// Opens what the configuration's `outputs` list asks for, as [`Outputs::open`] does; packet logs are counted here.
    ///
    /// # Errors
    /// The file that can't be written, or the setting that can't be one, and why.
    pub fn open_outputs(
        self: &Arc<Self>,
        files: &FileOpener,
        config: &Tree,
        folder: &Path,
        existing: Option<Existing>,
    ) -> Result<Outputs, OutputError> {
        Outputs::open(files, config, folder, existing, &mut |name, node| {
            self.open_output(files, name, node, folder).map_err(OutputError::of_destination)
        })
    }

    /// Opens what takes the frames of one output of that name; `files` makes its files.
    fn open_output(
        self: &Arc<Self>,
        files: &FileOpener,
        name: &str,
        node: &Tree,
        folder: &Path,
    ) -> Result<Box<dyn Destination>, Error> {
        match name {
            "alert-pcap" => {
                let path = below(folder, node.text("filename").unwrap_or("alerts.pcap"));
                alert_pcap(files, path, node, self)
            }
            _ => pcap_log(files, node, folder, self),
        }
    }

    /// Opens the packet log of alerts that a command line names; its name may hold any bytes.
    ///
    /// # Errors
    /// The path and what is wrong with it.
    pub fn open_alert_log(
        self: &Arc<Self>,
        files: &FileOpener,
        path: &Path,
        node: &Tree,
    ) -> Result<Box<dyn Destination>, Error> {
        alert_pcap(files, path.to_path_buf(), node, self)
    }

    /// Statistics of `pcap-log`, when there is one.
    pub(crate) fn stats(&self) -> Vec<(&'static str, u64)> {
        if !self.has_log.load(Relaxed) {
            return Vec::new();
        }
        let n = |c: &AtomicU64| c.load(Relaxed);
        vec![("pcap_log.written", n(&self.written)), ("pcap_log.filtered_bpf", n(&self.filtered))]
    }

    /// What a person should know: why frames could not be written, and how many.
    pub fn failure(&self) -> Option<LostFrames> {
        let frames = self.failed.load(Relaxed);
        let first = self.failure.lock().unwrap_or_else(PoisonError::into_inner).clone();
        first.map(|(path, source)| LostFrames { path, source, frames })
    }

    /// Frames left out because a file has reached the size that it may have.
    pub fn left_out(&self) -> u64 {
        self.full.load(Relaxed)
    }
}

/// Frames that a packet log could not write, and why the first could not be written.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{}: {source}: {frames} frames are lost", .path.display())]
pub struct LostFrames {
    /// The file.
    pub path: PathBuf,
    /// The error of the operating system.
    pub source: Arc<io::Error>,
    /// How many.
    pub frames: u64,
}

/// Counts the outcome of the frames of one output. A frame is written when it has left all buffers:
/// when the disk is full, what waited there is lost with it.
struct Account {
    counts: Arc<PacketLogCounts>,
    /// Where, for messages.
    path: PathBuf,
    /// Frames that were taken and not known to be in the file yet.
    waiting: u64,
}

impl Account {
    fn wrote(&mut self, written: io::Result<Written>) -> bool {
        match written {
            Ok(Written::Whole | Written::Cut) => {
                self.waiting += 1;
                self.counts.written.fetch_add(1, Relaxed);
                true
            }
            Ok(Written::Full | Written::OtherLink) => {
                self.counts.full.fetch_add(1, Relaxed);
                true
            }
            Err(e) => {
                self.fail(1, e);
                false
            }
        }
    }

    fn flushed(&mut self, done: io::Result<()>) -> bool {
        let is_done = done.is_ok();
        match done {
            Ok(()) => self.waiting = 0,
            Err(e) => self.fail(0, e),
        }
        is_done
    }

    /// This many more frames are lost, in addition to those that wait.
    fn fail(&mut self, more: u64, e: io::Error) {
        let waiting = std::mem::take(&mut self.waiting);
        self.counts.written.fetch_sub(waiting, Relaxed);
        self.counts.failed.fetch_add(waiting + more, Relaxed);
        let mut failure = self.counts.failure.lock().unwrap_or_else(PoisonError::into_inner);
        failure.get_or_insert_with(|| (self.path.clone(), Arc::new(e)));
    }
}

fn below(folder: &Path, name: &str) -> PathBuf {
    if Path::new(name).is_absolute() { name.into() } else { folder.join(name) }
}

fn alert_pcap(
    files: &FileOpener,
    path: PathBuf,
    node: &Tree,
    counts: &Arc<PacketLogCounts>,
) -> Result<Box<dyn Destination>, Error> {
    let bytes_max = node.size("limit").unwrap_or(u64::MAX);
    // An error of that kind is better reported before the run.
    check(&path).map_err(|source| Error::File { path: path.clone(), source })?;
    let account = Account { counts: Arc::clone(counts), path, waiting: 0 };
    Ok(Box::new(AlertFrames { files: files.clone(), file: AlertPcap::NotYet, account, bytes_max }))
}

/// One file with the packets of flows that had alerts, made with its first frame: a capture without
/// frames would have no link type.
struct AlertFrames {
    files: FileOpener,
    file: AlertPcap,
    account: Account,
    bytes_max: u64,
}

impl AlertFrames {
    fn begin(&mut self, link: u16) {
        let path = &self.account.path;
        let opened = OutputFile::open(&self.files, path, Existing::Truncate).and_then(|out| {
            let out = BufWriter::with_capacity(64 * 1024, out);
            PcapWriter::new(out, link, Resolution::Micro, 0, self.bytes_max)
        });
        self.file = match opened {
            Ok(begun) => AlertPcap::Begun(begun),
            Err(e) => {
                self.account.fail(0, e);
                AlertPcap::Failed
            }
        };
    }
}

impl Destination for AlertFrames {
    fn write(&mut self, piece: &Piece<'_>) {
        let PieceKind::Frame(f) = piece.kind else { return };
        if matches!(self.file, AlertPcap::NotYet) {
            self.begin(f.link);
        }
        let written = match &mut self.file {
            AlertPcap::Begun(file) => file.write(f.ts_ns, f.link, f.wire_len, piece.bytes),
            AlertPcap::NotYet | AlertPcap::Failed => Err(io::Error::other("not open")),
        };
        if !self.account.wrote(written) {
            self.file = AlertPcap::Failed;
        }
    }

    /// What could not be written is reported with its count: [`PacketLogCounts::failure`].
    fn flush(&mut self) -> Result<(), OutputError> {
        if let AlertPcap::Begun(begun) = &mut self.file
            && !self.account.flushed(begun.flush())
        {
            self.file = AlertPcap::Failed;
        }
        Ok(())
    }

    fn reopen(&mut self) {
        let is_moved = match &mut self.file {
            AlertPcap::Begun(begun) => {
                self.account.flushed(begun.flush());
                begun.out().get_ref().is_moved(&self.account.path)
            }
            AlertPcap::NotYet => false,
            AlertPcap::Failed => true,
        };
        if is_moved {
            self.file = AlertPcap::NotYet;
        }
    }
}

/// How far the file of alerts' packets has come.
enum AlertPcap {
    NotYet,
    Begun(PcapWriter<BufWriter<OutputFile>>),
    Failed,
}

fn pcap_log(
    opener: &FileOpener,
    node: &Tree,
    folder: &Path,
    counts: &Arc<PacketLogCounts>,
) -> Result<Box<dyn Destination>, Error> {
    match node.text("mode").unwrap_or("normal") {
        "normal" | "multi" => {}
        other => return Err(Error::PacketLogMode { mode: other.to_owned() }),
    }
    let packing = match node.text("compression").unwrap_or("none") {
        "none" => Packing::None,
        "lz4" => Packing::Lz4 { checksum: node.flag("lz4-checksum") == Some(true) },
        other => return Err(Error::PacketLogCompression { name: other.to_owned() }),
    };
    let folder = below(folder, node.text("dir").unwrap_or("."));
    if !folder.is_dir() {
        return Err(Error::PacketLogFolder { path: folder });
    }
    let filter = match node.text("bpf-filter") {
        Some(text) => match Filter::compile(text) {
            Ok(f) => Some(f),
            Err(e) => return Err(Error::PacketLogFilter(e)),
        },
        None => None,
    };
    let name = node.text("filename").unwrap_or("log.pcap");
    let names = FileNames::new(name, matches!(node.text("ts-format"), Some("usec")));
    // A file may be as small as Suricata lets it be: one mebibyte.
    let file_bytes = node.size("limit").unwrap_or(FILE_BYTES).max(1 << 20);
    let files = node.number("max-files").and_then(|n| usize::try_from(n).ok());
    let files = files.filter(|n| *n > 0).unwrap_or(usize::MAX);
    let limits = RotationLimits { file_bytes, files };
    let log = RotatingPcap::new(opener.clone(), &folder, names, Resolution::Micro, 0, limits);
    let log = log.packed(packing);
    counts.has_log.store(true, Relaxed);
    let account = Account { counts: Arc::clone(counts), path: folder, waiting: 0 };
    Ok(Box::new(AllFrames { log, filter, account }))
}

/// Files with all frames that the packet log chooses, as `pcap-log` writes them.
struct AllFrames {
    log: RotatingPcap,
    filter: Option<Filter>,
    account: Account,
}

impl Destination for AllFrames {
    fn write(&mut self, piece: &Piece<'_>) {
        let PieceKind::Frame(f) = piece.kind else { return };
        self.log.note_frame(f.ts_ns);
        if self.filter.as_ref().is_some_and(|x| !x.matches(f.link, f.wire_len, piece.bytes)) {
            self.account.counts.filtered.fetch_add(1, Relaxed);
            return;
        }
        self.account.wrote(self.log.write(f.ts_ns, f.link, f.wire_len, piece.bytes));
    }

    /// What could not be written is reported with its count: [`PacketLogCounts::failure`].
    fn flush(&mut self) -> Result<(), OutputError> {
        self.account.flushed(self.log.flush());
        Ok(())
    }

    fn reopen(&mut self) {
        self.account.flushed(self.log.reopen());
    }
}
