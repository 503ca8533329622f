//! Many logs as one stream of records in order of time.
//!
//! Of files, a pass over the times alone comes first: the least moment of all (where windows begin)
//! and how far each file is out of order. Then the files are merged by (time, kind of log, text of
//! the line); a file in order goes straight through, one that is not through a [`Sorter`]. Files are
//! opened when their time has come, so that a folder of a thousand hourly logs costs a few open
//! ones. A bad file says what is wrong with it and ends the reading of no other file.
//!
//! What can be read only once ([`is_read_once`]) is opened once, has no pass over its times, and its lines
//! wait for no earlier ones.

use crate::error::InputError;
use crate::formats::Format;
use crate::limits::{HORIZON_NS, TOGETHER};
use crate::reader::{LayoutId, Line, Reader};
use crate::skip::{Skip, Skips};
use crate::sorter::{Leaving, Sorter};
use crate::source::{LineRead, Lines, is_read_once, open_once};
use crate::survey::{RunJobs, Survey, Surveyed, in_turn, survey};
use gabion_record::files::FileOpener;
use gabion_record::ledger::{Ledger, ShedReason};
use gabion_record::logs::{LogKind, Record, TimeNs};
use gabion_record::saved;
use smallvec::SmallVec;
use std::io::{self, Read};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

/// How inputs are read.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// The format, where it is not to be found out.
    pub format: Option<Format>,
    /// The longest that lines wait for earlier ones, nanoseconds.
    pub horizon_ns: i64,
    /// Bytes of lines that wait, over all inputs.
    pub buffer_bytes: usize,
    /// Parts in which the times of a large file may be looked at before it is read.
    pub parts: usize,
    /// What looks at these parts.
    pub run: RunJobs,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            format: None,
            horizon_ns: HORIZON_NS,
            buffer_bytes: 64 << 20,
            parts: 1,
            run: in_turn,
        }
    }
}

/// The outcome of one input.
#[derive(Clone, Debug)]
pub struct InputReport {
    /// The file.
    pub path: PathBuf,
    /// Which log of Zeek it is, if it is one.
    pub kind: Option<LogKind>,
    /// Lines and bytes: read, given out as records, skipped.
    pub ledger: Ledger,
    /// Lines skipped, by reason.
    pub skips: Skips,
    /// Records that came after later ones had been given out.
    pub late: u64,
    /// Seconds that left the buffer early for want of room.
    pub cut: u64,
    /// Jumps of more than an hour ahead.
    pub jumps: u64,
    /// How far the file is out of order, nanoseconds.
    pub lateness_ns: i64,
    /// Times that a followed log was truncated and begun again in its place. What was written between the last
    /// look and that is not known, unless a copy of it is followed as well.
    pub restarts: u64,
    /// Times that a followed log was removed while it was not open, so that what was written to it last is not
    /// known.
    pub lost_ends: u64,
    /// Why it could not be read, or not to its end.
    pub error: Option<InputError>,
}

saved! {
    InputReport { path, kind, ledger, skips, late, cut, jumps, lateness_ns, restarts, lost_ends, error }
}

impl InputReport {
    /// Adds the sums of another one.
    pub fn take_in(&mut self, other: &InputReport) {
        self.ledger.merge(&other.ledger);
        self.skips.merge(&other.skips);
        self.late += other.late;
        self.cut += other.cut;
        self.jumps += other.jumps;
        self.restarts += other.restarts;
        self.lost_ends += other.lost_ends;
        self.error = self.error.take().or_else(|| other.error.clone());
    }

    /// Of an input that nothing was read of.
    pub fn new(path: &Path) -> InputReport {
        InputReport {
            path: path.to_owned(),
            kind: None,
            ledger: Ledger::new(),
            skips: Skips::default(),
            late: 0,
            cut: 0,
            jumps: 0,
            lateness_ns: 0,
            restarts: 0,
            lost_ends: 0,
            error: None,
        }
    }
}

struct Input {
    report: InputReport,
    /// It cannot be opened again.
    is_read_once: bool,
    survey: Survey,
    /// Known to hold no record.
    is_empty: bool,
    open: Option<Open>,
    is_done: bool,
    horizon_ns: i64,
}

struct Open {
    lines: Lines,
    reader: Reader,
    sorter: Option<Sorter>,
    /// The next lines of a file that is in order, all in the buffer of `lines`.
    heads: Heads,
    order: LogKind,
}

#[derive(Clone, Copy)]
struct Head {
    ts: TimeNs,
    start: usize,
    end: usize,
    layout: LayoutId,
    number: u64,
}

#[derive(Default)]
struct Heads {
    list: SmallVec<[Head; TOGETHER]>,
    /// The first of them not given out.
    next: usize,
}

impl Heads {
    #[inline]
    fn left(&self) -> &[Head] {
        self.list.get(self.next..).unwrap_or_default()
    }
}

/// Room for texts with escapes of records given out together.
type Scratch = [Vec<u8>; TOGETHER];

/// What takes records, in order, some at a time.
pub type Taker<'a> = &'a mut dyn FnMut(&[Record<'_>]) -> ControlFlow<()>;

/// Opens inputs that can be read only once. A stream that would block is abandoned there.
pub type OpenOnce = Box<dyn Fn(&Path) -> io::Result<Box<dyn Read + Send>> + Send>;

/// All inputs of a run.
pub struct Feed {
    inputs: Vec<Input>,
    files: FileOpener,
    open_once: OpenOnce,
    options: Options,
    start: Option<TimeNs>,
    /// Moment of the last record given out.
    given: Option<TimeNs>,
}

impl Feed {
    /// Looks at the times of all files, which `files` opens for that, and again when their time has come.
    pub fn survey(files: &FileOpener, paths: &[PathBuf], options: Options) -> Feed {
        let mut inputs: Vec<Input> = paths.iter().map(|path| Input::new(path, options)).collect();
        for input in &mut inputs {
            input.survey_times(files, options);
        }
        let least = |input: &Input| input.survey.least;
        let start = inputs.iter().filter_map(least).min();
        let (files, for_once) = (files.clone(), files.clone());
        let open_once: OpenOnce = Box::new(move |path| open_once(&for_once, path));
        Feed { inputs, files, open_once, options, start, given: None }
    }

    /// Inputs that can be read only once are opened by that.
    #[must_use]
    pub fn opening_once(self, open_once: OpenOnce) -> Feed {
        Feed { open_once, ..self }
    }

    /// Whether an input can be read only once.
    pub fn reads_once(&self) -> bool {
        self.inputs.iter().any(|i| i.is_read_once)
    }

    /// The least moment of all used logs; none when it is not known before reading.
    pub fn start(&self) -> Option<TimeNs> {
        self.start
    }

    /// How many inputs hold records.
    pub fn used(&self) -> usize {
        self.inputs.iter().filter(|i| !i.is_empty).count()
    }

    /// What the pass over the times says of the logs that hold records: lines, and those without a
    /// record.
    pub fn surveyed(&self) -> Ledger {
        let mut ledger = Ledger::new();
        for s in self.inputs.iter().filter(|i| !i.is_empty).map(|i| i.survey) {
            ledger.receive(s.lines, 0);
            ledger.shed(ShedReason::UnreadableRecord, s.skipped, 0);
            ledger.pass(s.lines - s.skipped, 0);
        }
        ledger
    }

    /// The outcome of each input.
    pub fn reports(&self) -> impl Iterator<Item = &InputReport> {
        self.inputs.iter().map(|i| &i.report)
    }

    /// Gives every record in order, some at a time, until `each` breaks.
    pub fn run(&mut self, each: Taker<'_>) {
        let mut scratch = Scratch::default();
        loop {
            self.open_due();
            let Some((at, rival)) = self.least_two() else { return };
            let until = self.next_opening();
            let Some(input) = self.inputs.get_mut(at) else { return };
            // As long as no other head is due, the same input continues.
            let is_next = |ts| rival.is_none_or(|r| ts < r) && until.is_none_or(|u| ts < u);
            loop {
                if input.give(&mut self.given, &is_next, &mut scratch, each).is_break() {
                    return;
                }
                if !input.head_time().is_some_and(is_next) {
                    break;
                }
            }
        }
    }

    /// Opens the files whose time has come: those that may hold a record before the least head.
    fn open_due(&mut self) {
        loop {
            let least = self.inputs.iter().filter_map(Input::head_time).min();
            let next = (0..self.inputs.len())
                .filter(|at| self.inputs.get(*at).is_some_and(Input::waits))
                .min_by_key(|at| self.inputs.get(*at).map(Input::opens_at));
            let Some(input) = next.and_then(|at| self.inputs.get_mut(at)) else { return };
            if least.is_some_and(|l| input.opens_at() > l) {
                return;
            }
            input.open(self.options, &self.files, &self.open_once);
        }
    }

    /// When the next file is to be opened.
    fn next_opening(&self) -> Option<TimeNs> {
        self.inputs.iter().filter(|i| i.waits()).map(Input::opens_at).min()
    }

    /// The input with the least head, and the moment of the second.
    fn least_two(&self) -> Option<(usize, Option<TimeNs>)> {
        let mut best: Option<(usize, TimeNs, LogKind, &[u8])> = None;
        let mut second: Option<TimeNs> = None;
        for (at, input) in self.inputs.iter().enumerate() {
            let Some((ts, kind, line)) = input.head() else { continue };
            match best {
                Some(b) if (b.1, b.2, b.3) <= (ts, kind, line) => {
                    second = Some(second.map_or(ts, |s| s.min(ts)));
                }
                _ => {
                    if let Some(b) = best {
                        second = Some(second.map_or(b.1, |s| s.min(b.1)));
                    }
                    best = Some((at, ts, kind, line));
                }
            }
        }
        best.map(|(at, ..)| (at, second))
    }
}

impl Input {
    fn new(path: &Path, options: Options) -> Input {
        let report = InputReport::new(path);
        let horizon_ns = options.horizon_ns;
        Input {
            report,
            is_read_once: is_read_once(path),
            survey: Survey::default(),
            is_empty: false,
            open: None,
            is_done: false,
            horizon_ns,
        }
    }

    fn name(&self) -> String {
        self.report.path.to_string_lossy().into_owned()
    }

    /// The pass over the times. What can be read only once goes straight through.
    fn survey_times(&mut self, files: &FileOpener, options: Options) {
        if self.is_read_once {
            self.horizon_ns = 0;
            return;
        }
        let mut reader = Reader::new(&self.name(), options.format);
        let file = Surveyed { files, path: &self.report.path };
        let survey = match survey(file, &mut reader, options.parts, options.run) {
            Ok(survey) => survey,
            Err(e) => {
                self.report.error = Some(e.into());
                (self.is_empty, self.is_done) = (true, true);
                return;
            }
        };
        self.report.lateness_ns = survey.lateness_ns;
        self.report.kind = reader.kind();
        self.is_empty = survey.first.is_none();
        self.survey = survey;
        self.horizon_ns = options.horizon_ns.min(survey.lateness_ns);
    }

    fn waits(&self) -> bool {
        self.open.is_none() && !self.is_done
    }

    /// The moment from which its records may be due.
    fn opens_at(&self) -> TimeNs {
        self.survey.first.map_or(TimeNs(i64::MIN), |first| first.plus(-self.horizon_ns))
    }

    fn open(&mut self, options: Options, files: &FileOpener, open_once: &OpenOnce) {
        let opened = if self.is_read_once {
            open_once(&self.report.path).map(Lines::once)
        } else {
            files.open_to_read(&self.report.path).map(Lines::from_file)
        };
        let lines = match opened {
            Ok(lines) => lines,
            Err(e) => {
                self.report.error = Some(e.into());
                self.is_done = true;
                return;
            }
        };
        let reader = Reader::new(&self.name(), options.format);
        let is_in_order =
            self.survey.lateness_ns == 0 && self.survey.jumps == 0 && !self.is_read_once;
        let sorter = (!is_in_order).then(|| Sorter::new(self.horizon_ns, options.buffer_bytes));
        let order = self.report.kind.unwrap_or_else(|| reader.order());
        self.open = Some(Open { lines, reader, sorter, heads: Heads::default(), order });
        self.advance();
    }

    /// Reads until the head is known.
    fn advance(&mut self) {
        let Some(open) = &mut self.open else { return };
        if !open.heads.left().is_empty() {
            return;
        }
        open.heads = Heads::default();
        loop {
            if open.sorter.as_mut().is_some_and(|s| s.advance(false)) {
                return;
            }
            let next = match open.heads.list.len() {
                0 => open.lines.next_line(),
                // Further ones only as long as those before stay where they are.
                1..TOGETHER => match open.lines.line_at_hand() {
                    Some((start, end)) => LineRead::Line(start, end),
                    None => return,
                },
                _ => return,
            };
            let (start, end) = match next {
                LineRead::Line(start, end) => (start, end),
                LineRead::TooLong(bytes) => {
                    self.report.ledger.receive(1, bytes);
                    shed(&mut self.report, Skip::TooLong, bytes, open.lines.number());
                    continue;
                }
                LineRead::End | LineRead::Pending => break,
            };
            let line = open.lines.text().get(start..end).unwrap_or_default();
            let bytes = line.len() as u64;
            match open.reader.line(line) {
                Line::Quiet => {}
                Line::Record(ts, layout) => {
                    self.report.ledger.receive(1, bytes);
                    match &mut open.sorter {
                        None => {
                            let number = open.lines.number();
                            open.heads.list.push(Head { ts, start, end, layout, number });
                        }
                        Some(sorter) => sorter.push(ts, line, layout, open.lines.number()),
                    }
                }
                Line::Skip(skip) => {
                    self.report.ledger.receive(1, bytes);
                    shed(&mut self.report, skip, bytes, open.lines.number());
                }
            }
        }
        if open.sorter.as_mut().is_some_and(|s| s.advance(true)) {
            return;
        }
        if let Some(error) = open.lines.error() {
            self.report.error = Some(error.clone());
        }
        self.report.kind = open.reader.kind().or(self.report.kind);
        if let Some(sorter) = &open.sorter {
            self.report.cut = sorter.cut;
            self.report.jumps = sorter.jumps();
        }
        self.open = None;
        self.is_done = true;
    }

    #[inline]
    fn head_time(&self) -> Option<TimeNs> {
        let open = self.open.as_ref()?;
        match &open.sorter {
            None => open.heads.left().first().map(|h| h.ts),
            Some(sorter) => sorter.head().map(|h| h.ts),
        }
    }

    fn head(&self) -> Option<(TimeNs, LogKind, &[u8])> {
        let open = self.open.as_ref()?;
        match &open.sorter {
            None => {
                let head = open.heads.left().first()?;
                let line = open.lines.text().get(head.start..head.end).unwrap_or_default();
                Some((head.ts, open.order, line))
            }
            Some(sorter) => sorter.head().map(|h| (h.ts, open.order, h.line)),
        }
    }

    /// Returns the head, with those after it that are next as well, and moves on.
    #[inline]
    fn give(
        &mut self,
        given: &mut Option<TimeNs>,
        is_next: &impl Fn(TimeNs) -> bool,
        scratch: &mut Scratch,
        each: Taker<'_>,
    ) -> ControlFlow<()> {
        let Some(open) = &mut self.open else { return ControlFlow::Continue(()) };
        let mut records: SmallVec<[Record<'_>; TOGETHER]> = SmallVec::new();
        let report = &mut self.report;
        let mut lines = 0;
        let text = open.lines.text();
        let mut scratch = scratch.iter_mut();
        let mut sorted = open.sorter.as_ref().map(Sorter::heads);
        let mut in_order = open.heads.left().iter();
        loop {
            let line = match &mut sorted {
                Some(sorted) => sorted.next(),
                None => in_order.next().map(|h| Leaving {
                    ts: h.ts,
                    line: text.get(h.start..h.end).unwrap_or_default(),
                    layout: h.layout,
                    number: h.number,
                }),
            };
            let Some(line) = line.filter(|l| lines == 0 || is_next(l.ts)) else { break };
            let Some(scratch) = scratch.next() else { break };
            lines += 1;
            match open.reader.record(line.layout, line.line, scratch) {
                Ok(mut record) => {
                    report.ledger.pass(1, line.line.len() as u64);
                    record.is_late = given.is_some_and(|g| record.ts < g);
                    if record.is_late {
                        report.late += 1;
                    } else {
                        *given = Some(record.ts);
                    }
                    records.push(record);
                }
                Err(skip) => shed(report, skip, line.line.len() as u64, line.number),
            }
        }
        let flow = if records.is_empty() { ControlFlow::Continue(()) } else { each(&records) };
        drop((records, sorted));
        match &mut open.sorter {
            Some(sorter) => sorter.pop(lines),
            None => open.heads.next += lines,
        }
        self.advance();
        flow
    }
}

pub(crate) fn shed(report: &mut InputReport, skip: Skip, bytes: u64, line: u64) {
    let is_unused = skip == Skip::UnusedEvent;
    let reason = if is_unused { ShedReason::UnusedLog } else { ShedReason::UnreadableRecord };
    report.ledger.shed(reason, 1, bytes);
    report.skips.add(skip, line);
}

#[cfg(test)]
mod tests {
    use super::*;
    use gabion_record::logs::SECOND;
    use std::fs;

    fn conn(ts: &str, uid: &str) -> String {
        format!(
            "{{\"ts\":{ts},\"uid\":\"{uid}\",\"id.orig_h\":\"1.1.1.1\",\"id.resp_h\":\"2.2.2.2\"}}\n"
        )
    }

    fn files() -> FileOpener {
        FileOpener::new(|path, _| fs::File::open(path))
    }

    fn uids(paths: &[PathBuf]) -> (Vec<String>, Feed) {
        let mut feed = Feed::survey(&files(), paths, Options::default());
        let mut all = Vec::new();
        feed.run(&mut |records| {
            all.extend(records.iter().map(|r| String::from_utf8_lossy(r.uid).into_owned()));
            ControlFlow::Continue(())
        });
        for report in feed.reports() {
            report.ledger.balance().unwrap();
        }
        (all, feed)
    }

    #[test]
    fn files_are_merged_by_time_and_bad_ones_abort_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let file = |name: &str, text: String| {
            let path = folder.path().join(name);
            fs::write(&path, text).unwrap();
            path
        };
        let a = file("conn.log", conn("1.0", "a") + &conn("5.0", "e") + &conn("3.0", "c"));
        let b = file("dns.log", conn("2.0", "b") + &conn("3.0", "d") + "{\"ts\":9,\n");
        let c = file("conn.2.log", conn("7.0", "f") + &conn("1000.0", "g"));
        let text = file("text.log", "Lorem ipsum\n".into());
        let paths = [text, folder.path().join("absent.log"), c, b, a];
        let (all, feed) = uids(&paths);
        assert_eq!(all, ["a", "b", "c", "d", "e", "f", "g"]);
        assert_eq!(feed.start(), Some(TimeNs(SECOND)));
        let errors = feed.reports().filter(|r| r.error.is_some()).count();
        let skipped: u64 = feed.reports().map(|r| r.skips.total()).sum();
        assert_eq!((errors, skipped), (1, 2));
    }

    #[test]
    fn a_shuffle_within_the_horizon_changes_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("conn.log");
        let mut order: Vec<u32> = (0..2000).collect();
        let mut seed = 7u32;
        let mut expected = None;
        for _ in 0..3 {
            let text: String =
                order.iter().map(|n| conn(&format!("{}.5", n / 10), &format!("u{n}"))).collect();
            fs::write(&path, text).unwrap();
            let (all, _) = uids(std::slice::from_ref(&path));
            assert_eq!(expected.get_or_insert(all.clone()), &all);
            for at in (1..order.len()).rev() {
                seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                // 300 lines are 30 seconds either way.
                let other = at.saturating_sub((seed >> 8) as usize % 300);
                order.swap(at, other);
            }
            order.sort_by_key(|n| (*n / 250, n.wrapping_mul(2_654_435_761)));
        }
    }
    /// What can be read only once is opened a single time, and not before its records are asked for.
    #[test]
    fn what_can_be_read_once_is_opened_once() {
        use std::sync::Arc;
        use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("conn.log");
        fs::write(&file, conn("2.0", "b")).unwrap();
        // Nothing but their columns say what the lines of a stream are.
        let conn = |ts, uid| conn(ts, uid).replace('{', "{\"conn_state\":\"SF\",");
        let text = conn("1.0", "a") + &conn("3.0", "c") + &conn("2.5", "d");
        // This ends of its own; that is cut off in the middle of a line.
        for cut in [0, 20] {
            let text = text.clone() + &conn("4.0", "e")[..cut];
            let opened = Arc::new(AtomicU32::new(0));
            let count = Arc::clone(&opened);
            let mut feed = Feed::survey(&files(), &[file.clone(), "-".into()], Options::default())
                .opening_once(Box::new(move |_| {
                    count.fetch_add(1, Relaxed);
                    let text = io::Cursor::new(text.clone().into_bytes());
                    let ends: Box<dyn Read + Send> = match cut {
                        0 => Box::new(io::empty()),
                        _ => Box::new(Blocked),
                    };
                    Ok(Box::new(text.chain(ends)))
                }));
            assert!(feed.reads_once() && opened.load(Relaxed) == 0);
            let mut all = Vec::new();
            feed.run(&mut |records| {
                all.extend(
                    records
                        .iter()
                        .map(|r| (String::from_utf8_lossy(r.uid).into_owned(), r.is_late)),
                );
                ControlFlow::Continue(())
            });
            let expected = [("a", false), ("b", false), ("c", false), ("d", true)];
            assert_eq!(all, expected.map(|(uid, is_late)| (uid.to_owned(), is_late)));
            assert_eq!(opened.load(Relaxed), 1);
            for report in feed.reports() {
                report.ledger.balance().unwrap();
                assert_eq!(report.error, None);
            }
        }
    }

    /// Nothing comes, and there is no end.
    struct Blocked;

    impl Read for Blocked {
        fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
            Err(io::ErrorKind::WouldBlock.into())
        }
    }
}
