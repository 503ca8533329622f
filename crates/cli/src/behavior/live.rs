//! What has no end: logs that grow and are rotated, exporters of NetFlow and IPFIX.
//!
//! Logs are read from their beginning and then as they grow. A file that is replaced by another of its
//! name is read to its end first; a renamed one is known by its inode and not read again. A folder is
//! looked into again and again for new logs. Records are given out as they come, or after `--reorder`
//! seconds of event time; what is older than what was given out is late. What can be read only once (a pipe)
//! is read until its writer closes it; when nothing else was named, the run ends with it.

use super::Lists;
use super::exporters::Exporters;
use super::team::{Seen, Source};
use gabion_flowlog::netflow::Counts;
use gabion_flowlog::source::{LineRead, Lines, is_read_once};
use gabion_flowlog::{Format, InputReport, Intake};
use gabion_record::ledger::Ledger;
use gabion_record::logs::{Record, TimeNs};
use gabion_runtime::input::{Unwaiting, open_once};
use gabion_runtime::{StopFlag, clock};
use std::collections::{BTreeMap, HashSet};
use std::fs::File;
use std::io::{self, Read};
use std::net::SocketAddr;
use std::ops::ControlFlow;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// How long one look for more waits when there was nothing: a moment, and twice as long each time that
/// there is nothing again, up to this.
const LOOK_FIRST: Duration = Duration::from_millis(5);
const LOOK: Duration = Duration::from_millis(100);
/// How often folders are looked into, and names compared with files.
const FOLDERS_EVERY: Duration = Duration::from_secs(1);
/// How often what evidence says of the input is looked at.
const STATE_EVERY: Duration = Duration::from_millis(500);
/// Lines taken from one log before the others have their turn.
const TURN: usize = 4096;
/// Bytes of lines that wait in one log.
const WAITING_MAX: usize = 16 << 20;
/// Logs followed at once.
const LOGS_MAX: usize = 1024;

/// A log that grows.
struct Followed {
    path: PathBuf,
    /// Its device and inode, where it may be replaced by another file.
    identity: Option<(u64, u64)>,
    lines: Lines,
    intake: Intake,
    /// Its name belongs to another file now: it is read to its end and let go.
    is_replaced: bool,
}

/// Bytes of a file that may grow: where it ends there are none yet.
struct Growing(File);

impl Read for Growing {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        match self.0.read(into) {
            Ok(0) => Err(io::ErrorKind::WouldBlock.into()),
            other => other,
        }
    }
}

/// All that is followed.
pub(crate) struct LiveSource {
    named: Vec<PathBuf>,
    format: Option<Format>,
    horizon_ns: i64,
    stop: StopFlag,
    logs: BTreeMap<PathBuf, Followed>,
    /// Files by device and inode that are or were read.
    known: HashSet<(u64, u64)>,
    /// What can be read only once and was opened.
    opened: HashSet<PathBuf>,
    exporters: Option<Exporters>,
    /// Of logs that are read no more.
    done: Vec<InputReport>,
    /// The moment of the last record given out.
    given: Option<TimeNs>,
    looked: Option<Instant>,
    lists: Option<Lists>,
    /// What evidence says of the input, and when that was looked at.
    state: String,
    stated: Option<Instant>,
}

impl LiveSource {
    /// Follows paths (files and folders) and listens on an address.
    pub(crate) fn new(
        named: Vec<PathBuf>,
        netflow: Option<SocketAddr>,
        format: Option<Format>,
        horizon_ns: i64,
        stop: StopFlag,
        lists: Option<Lists>,
    ) -> io::Result<LiveSource> {
        let exporters = netflow.map(Exporters::new).transpose()?;
        Ok(LiveSource {
            named,
            format,
            horizon_ns,
            stop,
            logs: BTreeMap::new(),
            known: HashSet::new(),
            opened: HashSet::new(),
            exporters,
            done: Vec::new(),
            given: None,
            looked: None,
            lists,
            state: String::new(),
            stated: None,
        })
    }

    /// Where datagrams are taken.
    pub(crate) fn address(&self) -> Option<SocketAddr> {
        self.exporters.as_ref()?.address()
    }

    /// What became of each input so far.
    pub(crate) fn reports(&self) -> Vec<&InputReport> {
        let logs = self.logs.values().map(|l| l.intake.report());
        let netflow = self.exporters.as_ref().map(Exporters::report);
        self.done.iter().chain(logs).chain(netflow).collect()
    }

    /// What was met in datagrams, and how many the kernel dropped.
    pub(crate) fn datagrams(&self) -> Option<(Counts, u64)> {
        self.exporters.as_ref().map(Exporters::counts)
    }

    /// Looks for new logs, and for names that belong to other files now.
    fn look(&mut self) {
        if self.looked.is_some_and(|at| at.elapsed() < FOLDERS_EVERY) {
            return;
        }
        self.looked = Some(clock::now());
        for log in self.logs.values_mut() {
            let Some(identity) = log.identity else { continue };
            let about = std::fs::metadata(&log.path).ok();
            log.is_replaced = about.as_ref().map(|m| (m.dev(), m.ino())) != Some(identity);
            // Cut short in its place: it begins anew.
            if about.is_some_and(|m| !log.is_replaced && m.len() < log.lines.bytes()) {
                log.is_replaced = true;
                self.known.remove(&identity);
            }
        }
        for path in super::paths(&self.named).unwrap_or_default() {
            if self.logs.contains_key(&path) || self.logs.len() >= LOGS_MAX {
                continue;
            }
            if is_read_once(&path) {
                self.open_once(path);
                continue;
            }
            let Ok(file) = File::open(&path) else { continue };
            let Ok(about) = file.metadata() else { continue };
            let identity = (about.dev(), about.ino());
            if !about.is_file() || !self.known.insert(identity) {
                continue;
            }
            self.take_in(path, Some(identity), Lines::new(Box::new(Growing(file))));
        }
    }

    /// Opens what can be read only once, the first time that it is met.
    fn open_once(&mut self, path: PathBuf) {
        if !self.opened.insert(path.clone()) {
            return;
        }
        match open_once(&path) {
            Ok(file) => {
                let lines = Lines::once(Box::new(Unwaiting::new(file)));
                self.take_in(path, None, lines);
            }
            Err(e) => {
                let error = Some(e.to_string());
                self.done.push(InputReport { error, ..InputReport::new(&path) });
            }
        }
    }

    fn take_in(&mut self, path: PathBuf, identity: Option<(u64, u64)>, lines: Lines) {
        let intake = Intake::new(&path, self.format, self.horizon_ns, WAITING_MAX);
        let log = Followed { path: path.clone(), identity, lines, intake, is_replaced: false };
        self.logs.insert(path, log);
    }

    /// Whether nothing can come any more: all that was named can be read only once, and was.
    fn is_over(&self) -> bool {
        self.exporters.is_none()
            && self.logs.is_empty()
            && self.named.iter().all(|path| self.opened.contains(path))
    }

    /// What evidence is to say of the input from now on, when that is something else than before.
    fn state(&mut self) -> Option<String> {
        if self.stated.is_some_and(|at| at.elapsed() < STATE_EVERY) {
            return None;
        }
        self.last_state()
    }

    /// The same now.
    fn last_state(&mut self) -> Option<String> {
        self.stated = Some(clock::now());
        let mut ledger = Ledger::new();
        self.reports().iter().for_each(|r| ledger.merge(&r.ledger));
        let state = format!("live, {}", ledger.completeness());
        if state == self.state {
            return None;
        }
        self.state.clone_from(&state);
        Some(state)
    }

    /// Takes what logs have grown by; whether there was anything.
    fn take_lines(&mut self, each: &mut dyn FnMut(&Record<'_>) -> ControlFlow<()>) -> bool {
        let mut any = false;
        let mut ended = Vec::new();
        for (path, log) in &mut self.logs {
            for _ in 0..TURN {
                match log.lines.next_line() {
                    LineRead::Line(start, end) => {
                        any = true;
                        let line = log.lines.text().get(start..end).unwrap_or_default();
                        if log.intake.line(line, each).is_break() {
                            return any;
                        }
                    }
                    LineRead::TooLong => log.intake.too_long(),
                    LineRead::Pending if !log.is_replaced => break,
                    LineRead::Pending | LineRead::End => {
                        ended.push(path.clone());
                        break;
                    }
                }
            }
        }
        for path in ended {
            if let Some(mut log) = self.logs.remove(&path) {
                let _ = log.intake.finish(each);
                let error = log.lines.error().map(str::to_owned);
                self.done.push(InputReport { error, ..log.intake.report().clone() });
                // Its successor is opened at the next look.
                self.looked = None;
            }
        }
        any
    }
}

impl Source for LiveSource {
    fn run(&mut self, each: &mut dyn FnMut(Seen<'_, '_>) -> ControlFlow<()>) {
        let mut is_broken = false;
        let mut wait = LOOK_FIRST;
        while !self.stop.is_set() && !is_broken && !self.is_over() {
            self.look();
            let mut given = self.given;
            let mut give = |record: &Record<'_>| {
                let mut record = *record;
                // Late is what is older than anything given out, of whatever log.
                record.is_late |= given.is_some_and(|g| record.ts < g);
                if !record.is_late {
                    given = Some(record.ts);
                }
                let flow = each(Seen::Records(std::slice::from_ref(&record)));
                is_broken |= flow.is_break();
                flow
            };
            let mut any = self.take_lines(&mut give);
            self.given = given;
            if let Some(exporters) = &mut self.exporters {
                any |= exporters.take(&mut self.given, &mut |record| {
                    let flow = each(Seen::Records(std::slice::from_ref(record)));
                    is_broken |= flow.is_break();
                    flow
                });
            }
            if let Some(intel) = self.lists.as_ref().and_then(Lists::take) {
                is_broken |= each(Seen::Lists(intel)).is_break();
            }
            if let Some(state) = self.state() {
                is_broken |= each(Seen::State(state)).is_break();
            }
            is_broken |= each(Seen::Idle).is_break();
            if any || self.exporters.is_some() {
                wait = LOOK_FIRST;
            } else {
                std::thread::sleep(wait);
                wait = (wait * 2).min(LOOK);
            }
        }
        let mut given = self.given;
        if let Some(exporters) = &mut self.exporters {
            exporters.finish(&mut given, &mut |record| {
                each(Seen::Records(std::slice::from_ref(record)))
            });
        }
        if let Some(state) = self.last_state() {
            let _ = each(Seen::State(state));
        }
        for log in self.logs.values_mut() {
            let _ = log.intake.finish(&mut |record| {
                let mut record = *record;
                record.is_late |= given.is_some_and(|g| record.ts < g);
                if !record.is_late {
                    given = Some(record.ts);
                }
                each(Seen::Records(std::slice::from_ref(&record)))
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::io::Write;
    use std::path::Path;

    fn line(second: u32) -> String {
        format!(
            "{{\"ts\":{second}.5,\"uid\":\"C{second}\",\"id.orig_h\":\"10.0.0.1\",\"id.resp_h\":\"10.0.0.2\"}}\n"
        )
    }

    fn appended(path: &Path, text: &str) {
        let mut file = fs::OpenOptions::new().append(true).create(true).open(path).unwrap();
        file.write_all(text.as_bytes()).unwrap();
    }

    /// A log grows, in halves of a line too, is renamed and made anew, and another appears beside it:
    /// each line once.
    #[test]
    fn growing_and_rotated_logs_are_read_once() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("conn.log");
        fs::write(&path, line(1)).unwrap();
        let stop = StopFlag::new();
        let mut source =
            LiveSource::new(vec![folder.path().to_owned()], None, None, 0, stop, None).unwrap();
        let mut seen = Vec::new();
        let mut round = |source: &mut LiveSource| {
            source.looked = None;
            source.look();
            source.take_lines(&mut |r| {
                seen.push(r.ts.seconds());
                ControlFlow::Continue(())
            });
            seen.len()
        };
        assert_eq!(round(&mut source), 1);
        let (first, second) = (line(2), line(3));
        appended(&path, &first[..20]);
        assert_eq!(round(&mut source), 1);
        appended(&path, &first[20..]);
        appended(&path, &second);
        assert_eq!(round(&mut source), 3);
        // Rotated: what was written last before is still read, and nothing twice.
        appended(&path, &line(4));
        fs::rename(&path, folder.path().join("conn.2026-01-01.log")).unwrap();
        fs::write(&path, line(5)).unwrap();
        fs::write(folder.path().join("dns.log"), line(6)).unwrap();
        round(&mut source);
        round(&mut source);
        assert_eq!(round(&mut source), 6);
        seen.sort_unstable();
        assert_eq!(seen, [1, 2, 3, 4, 5, 6]);
        // What evidence says of the input follows what was skipped, and is told when it changes.
        assert_eq!(source.state().as_deref(), Some("live, complete"));
        appended(&path, "nonsense\n");
        for round in 0..2 {
            (source.looked, source.stated) = (None, None);
            source.look();
            source.take_lines(&mut |_| ControlFlow::Continue(()));
            let state = (round == 0).then_some("live, 14.3 % of items shed: unreadable_record");
            assert_eq!(source.state().as_deref(), state);
        }
        for report in source.reports() {
            report.ledger.balance().unwrap();
        }
    }
}
