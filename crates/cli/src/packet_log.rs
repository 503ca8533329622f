//! Capture files that a run writes: the peer's `pcap-log` and the packets of alerts' flows.
//!
//! What goes in is decided by `outputs::wire`; here are the files, their names and turns, and the
//! capture filter.

use gabion_capture::filter::Filter;
use gabion_capture::{FileNames, Packing, PcapWriter, Resolution, RotatingPcap, Written};
use gabion_outputs::files::FrameTaker;
use gabion_outputs::wire::WireLine;
use gabion_record::Tree;
use std::fs::File;
use std::io::BufWriter;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Bytes of one file of a packet log, unless configured (the peer's).
const FILE_BYTES: u64 = 1000 << 20;

/// What the packet logs of a run have written.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    written: AtomicU64,
    filtered: AtomicU64,
    failed: AtomicU64,
    has_log: std::sync::atomic::AtomicBool,
}

impl Counts {
    /// Statistics of `pcap-log`, when there is one.
    pub(crate) fn stats(&self) -> Vec<(&'static str, u64)> {
        if !self.has_log.load(Relaxed) {
            return Vec::new();
        }
        let n = |c: &AtomicU64| c.load(Relaxed);
        vec![("pcap_log.written", n(&self.written)), ("pcap_log.filtered_bpf", n(&self.filtered))]
    }

    /// Frames that could not be written.
    pub(crate) fn failed(&self) -> u64 {
        self.failed.load(Relaxed)
    }

    fn count(&self, written: std::io::Result<Written>) {
        match written {
            Ok(Written::Whole | Written::Cut) => &self.written,
            Ok(Written::Full | Written::OtherLink) | Err(_) => &self.failed,
        }
        .fetch_add(1, Relaxed);
    }
}

/// Opens what takes the frames of one output of that name.
pub(crate) fn open(
    name: &str,
    node: &Tree,
    folder: &Path,
    counts: &Arc<Counts>,
) -> Result<FrameTaker, String> {
    match name {
        "alert-pcap" => alert_pcap(node, folder, counts),
        _ => pcap_log(node, folder, counts),
    }
}

fn below(folder: &Path, name: &str) -> PathBuf {
    if Path::new(name).is_absolute() { name.into() } else { folder.join(name) }
}

/// One file with the packets of flows that had alerts, made with its first frame.
fn alert_pcap(node: &Tree, folder: &Path, counts: &Arc<Counts>) -> Result<FrameTaker, String> {
    let path = below(folder, node.text("filename").unwrap_or("alerts.pcap"));
    let most = node.size("limit").unwrap_or(u64::MAX);
    let counts = Arc::clone(counts);
    let mut file: Option<PcapWriter<BufWriter<File>>> = None;
    Ok(Box::new(move |frame| {
        let Some(f) = frame else {
            if let Some(file) = &mut file {
                let _ = file.flush();
            }
            return;
        };
        if file.is_none() {
            file = File::create(&path)
                .and_then(|out| {
                    let out = BufWriter::with_capacity(64 * 1024, out);
                    PcapWriter::new(out, f.link, Resolution::Micro, 0, most)
                })
                .ok();
        }
        match &mut file {
            Some(file) => counts.count(file.write(f.ts_ns, f.link, f.wire_len, f.data)),
            None => counts.count(Ok(Written::Full)),
        }
    }))
}

fn pcap_log(node: &Tree, folder: &Path, counts: &Arc<Counts>) -> Result<FrameTaker, String> {
    let refuse = |what: String| Err(format!("pcap-log.{what}"));
    match node.text("mode").unwrap_or("normal") {
        "normal" | "multi" => {}
        other => return refuse(format!("mode: {other} is not supported: normal or multi")),
    }
    let packing = match node.text("compression").unwrap_or("none") {
        "none" => Packing::None,
        "lz4" => Packing::Lz4 { checksum: node.flag("lz4-checksum") == Some(true) },
        other => return refuse(format!("compression: {other} is not supported: none or lz4")),
    };
    let folder = below(folder, node.text("dir").unwrap_or("."));
    if !folder.is_dir() {
        return refuse(format!("dir: {} is no folder", folder.display()));
    }
    let filter = match node.text("bpf-filter") {
        Some(text) => match Filter::compile(text) {
            Ok(f) => Some(f),
            Err(e) => return refuse(format!("bpf-filter: {e}")),
        },
        None => None,
    };
    let name = node.text("filename").unwrap_or("log.pcap");
    let names = FileNames::new(name, matches!(node.text("ts-format"), Some("usec")));
    // A file may be as small as the peer lets it be: one mebibyte.
    let bytes = node.size("limit").unwrap_or(FILE_BYTES).max(1 << 20);
    let files = node.number("max-files").and_then(|n| usize::try_from(n).ok());
    let files = files.filter(|n| *n > 0).unwrap_or(usize::MAX);
    let log = RotatingPcap::new(&folder, names, Resolution::Micro, 0, bytes, files);
    let mut log = log.packed(packing);
    let counts = Arc::clone(counts);
    counts.has_log.store(true, Relaxed);
    Ok(Box::new(move |frame: Option<WireLine<'_>>| match frame {
        Some(f) => {
            log.see(f.ts_ns);
            if filter.as_ref().is_some_and(|x| !x.matches(f.link, f.wire_len, f.data)) {
                counts.filtered.fetch_add(1, Relaxed);
                return;
            }
            counts.count(log.write(f.ts_ns, f.link, f.wire_len, f.data));
        }
        None => {
            let _ = log.flush();
        }
    }))
}
