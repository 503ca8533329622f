//! What has no end: logs that grow and are rotated, exporters of NetFlow and IPFIX.
//!
//! Logs are read from their beginning and then as they grow ([`Follow`]); what is older than what was given
//! out is late. What can be read only once (a pipe) is read until its writer closes it; when nothing else was
//! named, the run ends with it. At each window's end, when a log was rotated, and when the run is stopped, a
//! checkpoint is asked for, from which the next run continues.

use super::exporters::Exporters;
use super::lists::Lists;
use super::source::{Seen, Source};
use crate::Notices;
use crate::limits::PIPE_WAITING_MAX;
use gabion_flowlog::netflow::Counts;
use gabion_flowlog::source::{LineRead, Lines, is_read_once};
use gabion_flowlog::{Follow, Format, InputReport, Intake};
use gabion_record::files::{FileOpener, OpenMode};
use gabion_record::ledger::Ledger;
use gabion_record::logs::{Record, TimeNs};
use gabion_record::saved::Saved;
use gabion_runtime::input::Unwaiting;
use gabion_runtime::{StopFlag, clock};
use std::collections::{BTreeMap, HashSet};
use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// How long one look for more waits when there was nothing: a moment, and twice as long each time that
/// there is nothing again, up to this.
const LOOK_FIRST: Duration = Duration::from_millis(5);
const LOOK: Duration = Duration::from_millis(100);
/// A look at very many logs takes a while; it is this many times as long until the next one.
const LOOK_SHARE: u32 = 20;
/// How often what evidence says of the input is looked at.
const STATE_EVERY: Duration = Duration::from_millis(500);
/// Lines taken from one pipe before the others have their turn.
const TURN: usize = 4096;
/// Lines taken from followed logs before what was found is written.
const LINES_TURN: usize = 1 << 16;
/// While very much is read at once, records between two checkpoints: saving a large site takes as long as
/// reading some hundred thousand.
const RECORDS_LEAST: u64 = 1 << 20;

/// What can be read only once.
struct Piped {
    lines: Lines,
    intake: Intake,
}

/// When to save all: nothing is saved where there is no folder for it.
#[derive(Debug, Default)]
struct Saving {
    window_ns: i64,
    /// The first moment, where windows begin, and the latest window.
    start: Option<TimeNs>,
    newest: i64,
    /// A window has ended, or a log was rotated, since all was saved.
    is_due: bool,
    /// Somebody asked for it.
    is_asked: Arc<AtomicBool>,
    records: u64,
}

impl Saving {
    #[inline]
    fn see(&mut self, ts: TimeNs) {
        self.records += 1;
        let start = *self.start.get_or_insert(ts);
        let window = ts.since(start).div_euclid(self.window_ns.max(1));
        if window > self.newest {
            self.newest = window;
            self.is_due = true;
        }
    }
}

/// All that is followed.
pub(crate) struct LiveSource {
    files: FileOpener,
    named: Vec<PathBuf>,
    format: Option<Format>,
    horizon_ns: i64,
    stop: StopFlag,
    follow: Follow,
    /// What the last look saw was given out.
    is_drained: bool,
    piped: BTreeMap<PathBuf, Piped>,
    /// What can be read only once and was opened.
    opened: HashSet<PathBuf>,
    exporters: Option<Exporters>,
    /// Of pipes that are read no more.
    done: Vec<InputReport>,
    /// The moment of the last record given out.
    given: Option<TimeNs>,
    lists: Option<Lists>,
    /// What evidence says of the input, and when that was looked at.
    state: String,
    stated: Option<(Instant, Duration)>,
    saving: Option<Saving>,
}

impl LiveSource {
    /// Follows paths (files and folders), whose files `files` opens, and listens on an address.
    pub(crate) fn new(
        (files, named): (FileOpener, Vec<PathBuf>),
        netflow: Option<UdpSocket>,
        format: Option<Format>,
        horizon_ns: i64,
        stop: StopFlag,
        (lists, notices): (Option<Lists>, &Notices),
    ) -> io::Result<LiveSource> {
        let exporters = netflow.map(|socket| Exporters::new(socket, notices)).transpose()?;
        Ok(LiveSource {
            follow: Follow::new(files.clone(), named.clone(), format, horizon_ns),
            files,
            named,
            format,
            horizon_ns,
            stop,
            is_drained: true,
            piped: BTreeMap::new(),
            opened: HashSet::new(),
            exporters,
            done: Vec::new(),
            given: None,
            lists,
            state: String::new(),
            stated: None,
            saving: None,
        })
    }

    /// Has all saved at each end of a window of this many nanoseconds, when somebody asks, and when it is
    /// stopped.
    pub(crate) fn save_windows(&mut self, window_ns: i64, is_asked: Arc<AtomicBool>) {
        self.saving = Some(Saving { window_ns, is_asked, ..Saving::default() });
    }

    /// Where it stands, for a checkpoint.
    fn save(&self) -> Vec<u8> {
        let mut out = Vec::new();
        self.follow.save(&mut out);
        self.given.save(&mut out);
        self.exporters.as_ref().map(|e| e.report().clone()).save(&mut out);
        let saving = self.saving.as_ref();
        (saving.and_then(|s| s.start), saving.map_or(0, |s| s.newest)).save(&mut out);
        out
    }

    /// Continues from what [`LiveSource::save`] gave; `None` when it is none.
    pub(crate) fn restore(&mut self, saved: &[u8]) -> Option<()> {
        let from = &mut { saved };
        self.follow.restore(from)?;
        self.given = Saved::load(from)?;
        // Where it listens may be another address now.
        self.done.extend(Option::<InputReport>::load(from)?);
        let (start, newest) = Saved::load(from)?;
        if let Some(saving) = &mut self.saving {
            (saving.start, saving.newest) = (start, newest);
        }
        from.is_empty().then_some(())
    }

    /// All that is to be saved, when it is time for that.
    fn checkpoint(&mut self) -> Option<Vec<u8>> {
        let is_rotated = self.follow.take_rotated();
        let is_drained = self.is_drained;
        let saving = self.saving.as_mut()?;
        saving.is_due |= is_rotated | saving.is_asked.swap(false, Ordering::Relaxed);
        if !saving.is_due || !(is_drained || saving.records >= RECORDS_LEAST) {
            return None;
        }
        (saving.is_due, saving.records) = (false, 0);
        Some(self.save())
    }

    /// Where datagrams are taken.
    pub(crate) fn address(&self) -> Option<SocketAddr> {
        self.exporters.as_ref()?.address()
    }

    /// Files that are not followed for want of room.
    pub(crate) fn beyond(&self) -> u64 {
        self.follow.beyond()
    }

    /// What happened to each input so far.
    pub(crate) fn reports(&self) -> Vec<&InputReport> {
        let piped = self.piped.values().map(|l| l.intake.report());
        let netflow = self.exporters.as_ref().map(Exporters::report);
        self.done.iter().chain(self.follow.reports()).chain(piped).chain(netflow).collect()
    }

    /// What was met in datagrams, and how many the kernel dropped.
    pub(crate) fn datagrams(&self) -> Option<(Counts, u64)> {
        self.exporters.as_ref().map(Exporters::counts)
    }

    /// Looks for new logs, and for what known ones have become.
    fn look_for_logs(&mut self) {
        self.follow.look_at_logs(i64::try_from(clock::epoch_ns()).unwrap_or(i64::MAX));
        self.is_drained = false;
        for path in self.named.clone() {
            if is_read_once(&path) {
                self.open_once(path);
            }
        }
    }

    /// Opens what can be read only once, the first time that it is met.
    fn open_once(&mut self, path: PathBuf) {
        if !self.opened.insert(path.clone()) {
            return;
        }
        match self.files.open(&path, OpenMode::ReadOnce) {
            Ok(file) => {
                let lines = Lines::once(Box::new(Unwaiting::new(file)));
                let intake = Intake::new(&path, self.format, self.horizon_ns, PIPE_WAITING_MAX);
                self.piped.insert(path, Piped { lines, intake });
            }
            Err(e) => {
                let error = Some(e.into());
                self.done.push(InputReport { error, ..InputReport::new(&path) });
            }
        }
    }

    /// Whether nothing can come any more: all that was named can be read only once, and was.
    fn is_over(&self) -> bool {
        self.exporters.is_none()
            && self.piped.is_empty()
            && self.named.iter().all(|path| self.opened.contains(path))
    }

    /// What evidence is to say of the input from now on, when that is something else than before.
    fn state(&mut self) -> Option<String> {
        if self.stated.is_some_and(|(at, pause)| at.elapsed() < pause) {
            return None;
        }
        self.last_state()
    }

    /// The same now.
    fn last_state(&mut self) -> Option<String> {
        let begun = clock::now();
        let mut ledger = Ledger::new();
        self.reports().iter().for_each(|r| ledger.merge(&r.ledger));
        // Very many logs are not summed up all the time.
        self.stated = Some((clock::now(), STATE_EVERY.max(begun.elapsed() * LOOK_SHARE)));
        let state = format!("live, {}", ledger.completeness());
        if state == self.state {
            return None;
        }
        self.state.clone_from(&state);
        Some(state)
    }

    /// Takes what logs and pipes have grown by; whether there was anything.
    fn take_lines(&mut self, each: &mut dyn FnMut(&Record<'_>) -> ControlFlow<()>) -> bool {
        let taken = self.follow.take_records(LINES_TURN, each);
        self.is_drained = taken.is_drained;
        let mut any = taken.any;
        let mut ended = Vec::new();
        for (path, log) in &mut self.piped {
            for _ in 0..TURN {
                match log.lines.next_line() {
                    LineRead::Line(start, end) => {
                        any = true;
                        let line = log.lines.text().get(start..end).unwrap_or_default();
                        if log.intake.line(line, each).is_break() {
                            return any;
                        }
                    }
                    LineRead::TooLong(bytes) => log.intake.too_long(bytes),
                    LineRead::Pending => break,
                    LineRead::End => {
                        ended.push(path.clone());
                        break;
                    }
                }
            }
        }
        for path in ended {
            if let Some(mut log) = self.piped.remove(&path) {
                let _ = log.intake.finish(each);
                let error = log.lines.error().cloned();
                self.done.push(InputReport { error, ..log.intake.report().clone() });
            }
        }
        any
    }
}

impl Source for LiveSource {
    fn run(&mut self, each: &mut dyn FnMut(Seen<'_, '_>) -> ControlFlow<()>) {
        let mut is_broken = false;
        let mut wait = LOOK_FIRST;
        let mut looked: Option<(Instant, Duration)> = None;
        while !self.stop.is_set() && !is_broken && !self.is_over() {
            let is_time = looked.is_none_or(|(at, pause)| at.elapsed() >= pause);
            if self.is_drained && is_time {
                let begun = clock::now();
                self.look_for_logs();
                looked = Some((clock::now(), begun.elapsed() * LOOK_SHARE));
            }
            let mut given = self.given;
            let mut saving = self.saving.take();
            let mut give = |record: &Record<'_>| {
                let mut record = *record;
                // Late is what is older than anything given out, of whatever log.
                record.is_late |= given.is_some_and(|g| record.ts < g);
                if !record.is_late {
                    given = Some(record.ts);
                }
                if let Some(saving) = &mut saving {
                    saving.see(record.ts);
                }
                let flow = each(Seen::Records(std::slice::from_ref(&record)));
                is_broken |= flow.is_break();
                flow
            };
            let mut any = self.take_lines(&mut give);
            self.given = given;
            if let Some(exporters) = &mut self.exporters {
                any |= exporters.take_datagrams(&mut self.given, &mut |record| {
                    if let Some(saving) = &mut saving {
                        saving.see(record.ts);
                    }
                    let flow = each(Seen::Records(std::slice::from_ref(record)));
                    is_broken |= flow.is_break();
                    flow
                });
            }
            self.saving = saving;
            if let Some(intel) = self.lists.as_ref().and_then(Lists::take_intel) {
                is_broken |= each(Seen::Lists(intel)).is_break();
            }
            if let Some(state) = self.state() {
                is_broken |= each(Seen::State(state)).is_break();
            }
            if let Some(saved) = self.checkpoint() {
                is_broken |= each(Seen::Checkpoint(saved, false)).is_break();
            }
            is_broken |= each(Seen::Idle).is_break();
            if any || self.exporters.is_some() || !self.is_drained {
                wait = LOOK_FIRST;
            } else {
                std::thread::sleep(wait);
                wait = (wait * 2).min(LOOK);
            }
        }
        // The run that continues from here decides what waits.
        if self.saving.is_some() && !self.is_over() && !is_broken {
            let _ = each(Seen::Checkpoint(self.save(), true));
            return;
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
        let mut last = |record: &Record<'_>| {
            let mut record = *record;
            record.is_late |= given.is_some_and(|g| record.ts < g);
            if !record.is_late {
                given = Some(record.ts);
            }
            each(Seen::Records(std::slice::from_ref(&record)))
        };
        self.follow.finish(&mut last);
        for log in self.piped.values_mut() {
            let _ = log.intake.finish(&mut last);
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

    /// Evidence's notes about the input follow what was skipped, and are reported when they change.
    #[test]
    fn what_was_skipped_is_reported() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("conn.log");
        fs::write(&path, line(1) + &line(2)).unwrap();
        let stop = StopFlag::new();
        let mut source = LiveSource::new(
            (gabion_runtime::files::direct_opener(), vec![folder.path().to_owned()]),
            None,
            None,
            0,
            stop,
            (None, &Notices::default()),
        )
        .unwrap();
        for (text, state) in [
            ("", Some("live, complete")),
            ("nonsense\n", Some("live, 33.4 % of items shed: unreadable_record")),
            ("", None),
        ] {
            appended(&path, text);
            source.stated = None;
            source.look_for_logs();
            source.take_lines(&mut |_| ControlFlow::Continue(()));
            assert_eq!(source.state().as_deref(), state);
        }
        for report in source.reports() {
            report.ledger.balance().unwrap();
        }
    }
}
