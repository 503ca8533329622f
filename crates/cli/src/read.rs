//! Reads captures through a worker into outputs.

use gabion_capture::filter::Filter;
use gabion_capture::{FrameRef, Source};
use gabion_net::{FrameIn, Worker};
use gabion_record::eve::NetSink;
use gabion_record::ledger::{Ledger, ShedReason};
use std::path::{Path, PathBuf};

/// Frames taken from the reader at a time.
const BATCH: usize = 128;

/// What became of one capture.
#[derive(Debug)]
pub(crate) struct CaptureRead {
    /// Frames and bytes: read, given to the engine, shed.
    pub(crate) ledger: Ledger,
    /// Lines a person should see.
    pub(crate) notes: Vec<String>,
}

/// Reads one capture to its end. `number` counts frames over all captures of a run.
pub(crate) fn capture(
    path: &Path,
    filter: Option<&Filter>,
    worker: &mut Worker,
    sink: &mut dyn NetSink,
    progress: &mut dyn FnMut(u64, Option<u64>) -> bool,
) -> Result<CaptureRead, String> {
    let mut source = Source::open(path).map_err(|e| e.to_string())?;
    let mut frames: Vec<FrameRef> = Vec::with_capacity(BATCH);
    let mut number = 0u64;
    let mut ledger = Ledger::default();
    let mut unsupported: Option<u16> = None;
    loop {
        frames.clear();
        let Some(block) = source.next_block(BATCH, &mut frames) else { break };
        if block.frames == 0 {
            break;
        }
        for r in &frames {
            number += 1;
            let f = r.frame(&block.bytes);
            let bytes = f.data.len() as u64;
            if filter.is_some_and(|x| !x.matches(f.link, f.wire_len, f.data)) {
                number -= 1;
                ledger.receive(1, bytes);
                ledger.shed(ShedReason::Filtered, 1, bytes);
                continue;
            }
            ledger.receive(1, bytes);
            let frame = FrameIn {
                ts_ns: f.ts_ns,
                number,
                link: f.link,
                wire_len: f.wire_len,
                data: f.data,
            };
            if worker.frame(&frame, sink) {
                ledger.pass(1, bytes);
            } else {
                ledger.shed(ShedReason::UnsupportedLink, 1, bytes);
                unsupported = Some(frame.link);
            }
        }
        if !progress(source.position(), source.len_bytes()) {
            break;
        }
    }
    if let Some(link) = unsupported
        && ledger.passed().items == 0
    {
        return Err(format!("{}: link type {link} is not supported", path.display()));
    }
    let notes = source.notes().iter().map(|n| format!("{}: {}", path.display(), n.text)).collect();
    Ok(CaptureRead { ledger, notes })
}

/// The captures a path stands for: itself, or a folder's files in order of their names.
pub(crate) fn captures(path: &Path, recursive: bool) -> Result<Vec<PathBuf>, String> {
    if path != Path::new("-") && path.is_dir() {
        let list = if recursive {
            gabion_capture::list_recursive(path)
        } else {
            gabion_capture::list(path)
        };
        return list.map_err(|e| e.to_string());
    }
    Ok(vec![path.to_path_buf()])
}
