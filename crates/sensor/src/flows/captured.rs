//! Captures into the behaviour engine: the network engine's flows and the records of protocols become
//! flow records without a file between.
//!
//! The engine gets one more output, whose pieces are packed records ([`super::capture_records`]). A flow is reported
//! when it ends and stamped with its begin, so records wait for earlier ones, up to an hour of event time and a bound
//! of bytes. With several workers the network engine merges their pieces by packet first; what comes here is always in
//! the same order.

use super::capture_records::{FlowRecords, ORDER_LEN};
use super::outcome::Ran;
use super::sink::Sink;
use crate::Error;
use crate::limits::CAPTURE_WAITING_MAX;
use gabion_behavior::{Engine, Settings};
use gabion_flowlog::source::{self, is_read_once};
use gabion_flowlog::{InputReport, RecordIntake, Skip};
use gabion_outputs::{Destination, FlowRecordHead, Output, Outputs, Piece, PieceKind};
use gabion_record::files::FileOpener;
use gabion_record::logs::SECOND;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

/// The longest that a record waits for earlier ones: captures are finite, and a flow is reported when it
/// ends.
const HORIZON_NS: i64 = 3600 * SECOND;

/// Whether inputs are captures: all that are named, or a folder that holds captures and no logs.
///
/// # Errors
/// When one is not there, or captures and logs are named together.
pub(super) fn are_captures(files: &FileOpener, inputs: &[PathBuf]) -> Result<bool, Error> {
    let mut captures = None;
    let mut others = None;
    for path in inputs {
        // What is not there is neither.
        if path.as_os_str() != "-"
            && let Err(source) = path.metadata()
        {
            return Err(Error::NoInput { path: path.clone(), source });
        }
        if is_capture_input(files, path) { captures = Some(path) } else { others = Some(path) }
    }
    match (captures, others) {
        (Some(capture), Some(other)) => {
            Err(Error::CaptureAndLog { capture: capture.clone(), log: other.clone() })
        }
        (capture, _) => Ok(capture.is_some()),
    }
}

fn is_capture_input(opener: &FileOpener, path: &Path) -> bool {
    // Its first bytes are looked at when it is read.
    if is_read_once(path) {
        return false;
    }
    if !path.is_dir() {
        return is_capture(opener, path);
    }
    let Ok(files) = gabion_capture::list_recursive(path) else { return false };
    let has_logs = files.iter().any(|f| gabion_flowlog::kind_of(&f.to_string_lossy()).is_some());
    !has_logs && files.iter().any(|f| is_capture(opener, f))
}

/// By the first bytes of what is in it. What can be read only once is not opened for it: its writer may be
/// gone, and another look would wait for ever.
pub(crate) fn is_capture(files: &FileOpener, path: &Path) -> bool {
    !is_read_once(path)
        && files
            .open_to_read(path)
            .is_ok_and(|file| source::magic(file).is_some_and(source::is_capture))
}

struct Taken {
    intake: RecordIntake,
    engine: Engine,
    sink: Sink,
}

/// The behaviour engine as one more output of the network engine.
pub struct CaptureTap(Arc<Mutex<Taken>>, usize);

/// What the behaviour engine made of captures.
pub struct TappedDone {
    /// What the engine did.
    pub ran: Ran,
    /// What happened to the records.
    pub report: InputReport,
    /// Where findings went.
    pub sink: Sink,
}

impl CaptureTap {
    /// Takes all that outputs write from now on. The engine has `bytes` bytes for profiles; `name` stands for
    /// the captures in its report.
    pub fn attach(
        outputs: &mut Outputs,
        settings: Settings,
        name: &Path,
        bytes: usize,
        sink: Sink,
    ) -> CaptureTap {
        let mut engine = Engine::with_budget(settings, None, bytes);
        if sink.keeps_windows() {
            engine.keep_windows();
        }
        let taken = Arc::new(Mutex::new(Taken {
            intake: RecordIntake::new(
                name,
                ORDER_LEN,
                HORIZON_NS,
                CAPTURE_WAITING_MAX.min(bytes / 8),
            ),
            engine,
            sink,
        }));
        outputs.add(Output::new(FlowRecords::default(), Records(Arc::clone(&taken))));
        CaptureTap(taken, bytes)
    }

    /// All is read: decides what waits.
    pub fn finish(self) -> TappedDone {
        let mut taken = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let Taken { intake, engine, sink } = &mut *taken;
        let _ = intake.finish(&mut |record| {
            engine.record(record, &mut |finding| sink.take_finding(finding));
            ControlFlow::Continue(())
        });
        engine.finish(&mut |finding| sink.take_finding(finding));
        engine.keep_rest(&mut |kept| sink.keep(kept));
        let ran = Ran::from_engine(engine, self.1);
        TappedDone { ran, report: intake.report().clone(), sink: std::mem::take(sink) }
    }
}

/// Takes the records of the network engine.
struct Records(Arc<Mutex<Taken>>);

impl Destination for Records {
    fn write(&mut self, piece: &Piece<'_>) {
        let PieceKind::FlowRecord(head) = piece.kind else { return };
        let mut taken = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let Taken { intake, engine, sink } = &mut *taken;
        let ts = match head {
            FlowRecordHead::At(ts) => ts,
            FlowRecordHead::NoAddress => return intake.skip(Skip::NoAddress, 0),
            FlowRecordHead::NoTime => return intake.skip(Skip::NoTime, 0),
        };
        let _ = intake.take_record(ts, piece.bytes, &mut |record| {
            engine.record(record, &mut |finding| sink.take_finding(finding));
            if engine.has_kept() {
                sink.keep(engine.take_kept());
            }
            ControlFlow::Continue(())
        });
    }

    fn reopen(&mut self) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).sink.reopen();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn captures_are_known_by_their_first_bytes() {
        let folder = tempfile::tempdir().unwrap();
        let file = |name: &str, bytes: &[u8]| {
            let path = folder.path().join(name);
            std::fs::write(&path, bytes).unwrap();
            path
        };
        let files = gabion_runtime::files::direct_opener();
        let pcap = file("a.bin", &[0xd4, 0xc3, 0xb2, 0xa1, 2, 0, 4, 0]);
        let log = file("conn.log", b"#separator \\x09\n");
        assert!(are_captures(&files, std::slice::from_ref(&pcap)).unwrap());
        assert!(!are_captures(&files, std::slice::from_ref(&log)).unwrap());
        assert!(are_captures(&files, &[pcap, log]).is_err());
        // A folder with logs is one of logs.
        assert!(!are_captures(&files, &[folder.path().to_owned()]).unwrap());
    }
}
