//! Captures into the behaviour engine: the network engine's flows and what protocols said become
//! records without a file between.
//!
//! The engine is given one more output, whose lines stay in memory. A flow is told when it ends and
//! stamped with its begin, so lines wait for earlier ones, up to an hour of event time and a bound of
//! bytes. With several workers the network engine merges their lines by packet first; what comes here
//! is always in the same order.

use super::{Beside, Configured, Ran, Sink, budget, end, settings, sink};
use crate::command_line::ReadOptions;
use crate::exit::{Exit, Fault};
use crate::limits::CAPTURE_WAITING_MAX;
use crate::log::seal_findings::FindingLog;
use gabion_behavior::Engine;
use gabion_flowlog::source::{self, is_read_once};
use gabion_flowlog::{Format, Intake};
use gabion_outputs::files::{ForLines, Outputs};
use gabion_record::logs::SECOND;
use gabion_runtime::output::Existing;
use gabion_settings::read_yaml_text;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

/// What the engine is asked to tell.
const EVENTS: &str = "\
ethernet: yes
metadata: no
types:
  - flow
  - alert
  - dns
  - http:
      extended: yes
  - tls:
      custom: [subject, issuer, session_resumed, serial, fingerprint, sni, version, ja3, ja3s]
  - ssh
  - files:
      force-hash: [md5, sha1]
  - ftp
  - dhcp:
      extended: yes
  - arp:
      enabled: yes
";

/// The longest that a record waits for earlier ones: captures are finite, and a flow is told when it
/// ends.
const HORIZON_NS: i64 = 3600 * SECOND;

/// Whether inputs are captures: all that are named, or a folder that holds captures and no logs.
pub(crate) fn are_captures(inputs: &[PathBuf]) -> Result<bool, Fault> {
    let mut captures = None;
    let mut others = None;
    for path in inputs {
        // What is not there is neither.
        if path.as_os_str() != "-"
            && let Err(e) = path.metadata()
        {
            let said =
                format!("{}: {e}: name a capture, a log or a folder of them", path.display());
            return Err(Fault::input(said));
        }
        match is_capture_input(path) {
            true => captures = Some(path),
            false => others = Some(path),
        }
    }
    match (captures, others) {
        (Some(capture), Some(other)) => {
            let (capture, other) = (capture.display(), other.display());
            let said = format!(
                "{capture} is a capture, {other} is read as a log: read one after the other"
            );
            Err(Fault::usage(said))
        }
        (capture, _) => Ok(capture.is_some()),
    }
}

fn is_capture_input(path: &Path) -> bool {
    // Its first bytes are looked at when it is read.
    if is_read_once(path) {
        return false;
    }
    if !path.is_dir() {
        return is_capture(path);
    }
    let Ok(files) = gabion_capture::list_recursive(path) else { return false };
    let has_logs = files.iter().any(|f| gabion_flowlog::kind_of(&f.to_string_lossy()).is_some());
    !has_logs && files.iter().any(|f| is_capture(f))
}

/// By the first bytes of what is in it. What can be read only once is not opened for it: whoever writes there may be
/// gone, and another look would wait for ever.
pub(crate) fn is_capture(path: &Path) -> bool {
    !is_read_once(path) && source::magic(path).is_some_and(source::is_capture)
}

struct Taken {
    intake: Intake,
    engine: Engine,
    sink: Sink,
}

/// What listens to the network engine.
pub(crate) struct Tap(Arc<Mutex<Taken>>);

impl Tap {
    /// Listens to all that outputs are told from now on.
    pub(crate) fn attach(
        o: &ReadOptions,
        outputs: &mut Outputs,
        existing: Existing,
        sealed: Option<&FindingLog>,
    ) -> Result<Tap, Fault> {
        let node = read_yaml_text("events", EVENTS)
            .map_err(|e| Fault::internal(format!("events: {e}: report it")))?;
        let Configured { settings, known, .. } = settings(o)?;
        let bytes = budget(o);
        let name = o.inputs.first().cloned().unwrap_or_default();
        let mut sink = sink(o, existing, sealed)?;
        sink.known = known;
        let mut engine = Engine::with_budget(settings, None, bytes);
        if sink.keeps_windows() {
            engine.keep_windows();
        }
        let taken = Arc::new(Mutex::new(Taken {
            intake: Intake::new(
                &name,
                Some(Format::Eve),
                HORIZON_NS,
                CAPTURE_WAITING_MAX.min(bytes / 8),
            ),
            engine,
            sink,
        }));
        let tap = Arc::clone(&taken);
        outputs.add_events(
            &node,
            Box::new(move |what| {
                let mut taken = tap.lock().unwrap_or_else(PoisonError::into_inner);
                let Taken { intake, engine, sink } = &mut *taken;
                let line = match what {
                    ForLines::Line(line) => line,
                    ForLines::Reopen => return sink.reopen(),
                };
                let _ = intake.line(line.trim_ascii_end(), &mut |record| {
                    engine.record(record, &mut |finding| sink.take(finding));
                    if engine.has_kept() {
                        sink.keep(engine.take_kept());
                    }
                    ControlFlow::Continue(())
                });
            }),
        );
        Ok(Tap(taken))
    }

    /// All is read; `beside` holds what the network engine has to say of the run.
    pub(crate) fn finish(self, o: &ReadOptions, is_stopped: bool, beside: Beside) -> Exit {
        let mut taken = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let Taken { intake, engine, sink } = &mut *taken;
        let _ = intake.finish(&mut |record| {
            engine.record(record, &mut |finding| sink.take(finding));
            ControlFlow::Continue(())
        });
        engine.finish(&mut |finding| sink.take(finding));
        engine.keep_rest(&mut |kept| sink.keep(kept));
        let ran = Ran::of(engine, budget(o));
        end(&[intake.report()], &ran, o, sink, is_stopped, beside)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_asked_of_the_engine_is_known_to_it() {
        let node = read_yaml_text("events", EVENTS).unwrap();
        let settings = gabion_outputs::eve::EveSettings::read(&node, None);
        for name in ["flow", "alert", "dns", "http", "tls", "ssh", "files", "ftp", "dhcp", "arp"] {
            assert!(settings.type_node(name).is_some(), "{name}");
        }
        assert!(settings.ethernet);
    }

    #[test]
    fn captures_are_known_by_their_first_bytes() {
        let folder = tempfile::tempdir().unwrap();
        let file = |name: &str, bytes: &[u8]| {
            let path = folder.path().join(name);
            std::fs::write(&path, bytes).unwrap();
            path
        };
        let pcap = file("a.bin", &[0xd4, 0xc3, 0xb2, 0xa1, 2, 0, 4, 0]);
        let log = file("conn.log", b"#separator \\x09\n");
        assert!(are_captures(std::slice::from_ref(&pcap)).unwrap());
        assert!(!are_captures(std::slice::from_ref(&log)).unwrap());
        assert!(are_captures(&[pcap, log]).is_err());
        // A folder with logs is one of logs.
        assert!(!are_captures(&[folder.path().to_owned()]).unwrap());
    }
}
