//! The pass over the times of a log before it is read: when it begins, and how far it is out of order.
//!
//! A large file that is not compressed may be looked at in parts at once, by the threads of the caller
//! ([`RunJobs`]). Times are judged by the latest one before them ([`LogClock`]), so a part counts
//! only if what came before it changes no judgement in it: every line of it a record of the
//! layout that the file begins with, and no jump. From the first part on for which that does not hold,
//! the file is looked at line by line, so that what is
//! found is the same with any number of parts.

use crate::limits::LINE_ROOM;
use crate::reader::{LayoutId, Line, Reader};
use crate::skip::Skip;
use crate::sorter::LogClock;
use crate::source::{LineRead, Lines, is_packed};
use gabion_record::files::FileOpener;
use gabion_record::logs::TimeNs;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::Path;

/// Bytes that are worth a part.
const PART_LEAST: u64 = 8 << 20;

/// What the pass over the times found of one file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Survey {
    pub(crate) first: Option<TimeNs>,
    pub(crate) least: Option<TimeNs>,
    pub(crate) lateness_ns: i64,
    pub(crate) jumps: u64,
    pub(crate) lines: u64,
    pub(crate) skipped: u64,
}

/// A part of some work.
pub type Job<'a> = Box<dyn FnOnce() + Send + 'a>;

/// What works jobs off, at once or one after the other, and comes back when all are done. One that is lost, for want
/// of a thread, is made up for.
pub type RunJobs = for<'a> fn(Vec<Job<'a>>);

/// Works jobs off one after the other.
pub fn in_turn(jobs: Vec<Job<'_>>) {
    jobs.into_iter().for_each(|job| job());
}

/// A file that is looked at, and what opens it: once for each part.
#[derive(Clone, Copy)]
pub(crate) struct Surveyed<'a> {
    pub(crate) files: &'a FileOpener,
    pub(crate) path: &'a Path,
}

/// Looks at the times of a file, in at most this many parts at once.
///
/// # Errors
/// When it cannot be opened.
pub(crate) fn survey(
    file: Surveyed<'_>,
    reader: &mut Reader,
    parts: usize,
    run: RunJobs,
) -> io::Result<Survey> {
    in_parts(file, reader, parts, PART_LEAST, run)
}

fn in_parts(
    file: Surveyed<'_>,
    reader: &mut Reader,
    parts: usize,
    least: u64,
    run: RunJobs,
) -> io::Result<Survey> {
    let mut pass = Pass::default();
    let cuts = file.cuts(parts, least)?;
    let Some(&end) = cuts.first() else {
        pass.rest(&mut Lines::from_file(file.open()?), reader);
        return Ok(pass.done());
    };
    let mut head = file.lines(0, end)?;
    let mut layout = None;
    while layout.is_none() && pass.next(&mut head, reader, &mut layout) {}
    let ends = cuts.iter().skip(1).copied().chain([u64::MAX]);
    let mut found: Vec<Option<Pass>> = vec![None; cuts.len()];
    let mut jobs: Vec<Job<'_>> = Vec::new();
    for ((&from, to), found) in cuts.iter().zip(ends).zip(&mut found) {
        let reader = reader.clone();
        jobs.push(Box::new(move || {
            *found = layout.and_then(|layout| Pass::of_part(file, (from, to), reader, layout));
        }));
    }
    jobs.push(Box::new(|| pass.rest(&mut head, reader)));
    run(jobs);
    for (&from, part) in cuts.iter().zip(found) {
        // When the part cannot be appended, the rest is read line by line.
        if !part.is_some_and(|part| pass.continue_with(&part)) {
            pass.rest(&mut file.lines(from, u64::MAX)?, reader);
            break;
        }
    }
    Ok(pass.done())
}

impl Surveyed<'_> {
    fn open(&self) -> io::Result<File> {
        self.files.open_to_read(self.path)
    }

    /// Where parts begin, except the first one: after line ends. None where a file is to be read as a whole.
    fn cuts(&self, parts: usize, least: u64) -> io::Result<Vec<u64>> {
        let mut file = self.open()?;
        let about = file.metadata()?;
        let parts = (parts as u64).min(about.len() / least.max(1));
        if parts < 2 || !about.is_file() || is_packed(&mut file)? {
            return Ok(Vec::new());
        }
        let mut cuts = Vec::new();
        let mut near = Vec::new();
        for part in 1..parts {
            let at = about.len() / parts * part;
            near.clear();
            file.seek(SeekFrom::Start(at))?;
            Read::by_ref(&mut file).take(LINE_ROOM).read_to_end(&mut near)?;
            if let Some(line_end) = memchr::memchr(b'\n', &near) {
                let cut = at + line_end as u64 + 1;
                if cuts.last().is_none_or(|last| cut > *last) {
                    cuts.push(cut);
                }
            }
        }
        Ok(cuts)
    }

    /// The lines between two offsets.
    fn lines(&self, from: u64, to: u64) -> io::Result<Lines> {
        let mut file = self.open()?;
        file.seek(SeekFrom::Start(from))?;
        Ok(Lines::new(Box::new(file.take(to - from))))
    }
}

/// A pass that is under way.
#[derive(Clone, Copy, Debug, Default)]
struct Pass {
    clock: LogClock,
    survey: Survey,
}

impl Pass {
    /// Surveys a part; `None` if its times alone do not give its meaning.
    fn of_part(
        file: Surveyed<'_>,
        (from, to): (u64, u64),
        mut reader: Reader,
        layout: LayoutId,
    ) -> Option<Pass> {
        let mut pass = Pass::default();
        let mut lines = file.lines(from, to).ok()?;
        loop {
            let (start, end) = match lines.next_line() {
                LineRead::Line(start, end) => (start, end),
                LineRead::End => break,
                LineRead::TooLong(_) | LineRead::Pending => return None,
            };
            match reader.line(lines.text().get(start..end).unwrap_or_default()) {
                Line::Record(ts, of) if of == layout => pass.record(ts),
                Line::Record(..) | Line::Quiet | Line::Skip(_) => return None,
            }
        }
        (lines.error().is_none() && pass.clock.jumps == 0).then_some(pass)
    }

    /// Continues with a part that follows. False when it is to be looked at line by line.
    fn continue_with(&mut self, part: &Pass) -> bool {
        let (Some(first), Some(least)) = (part.survey.first, part.survey.least) else {
            // It is empty.
            return part.survey == Survey::default();
        };
        let Some(lateness) = self.clock.continue_with(&part.clock, first, least) else {
            return false;
        };
        let all = &mut self.survey;
        all.first = all.first.or(Some(first));
        all.least = Some(all.least.map_or(least, |l| l.min(least)));
        all.lateness_ns = all.lateness_ns.max(part.survey.lateness_ns).max(lateness);
        all.lines += part.survey.lines;
        true
    }

    fn rest(&mut self, lines: &mut Lines, reader: &mut Reader) {
        while self.next(lines, reader, &mut None) {}
    }

    /// Takes the next line; false after the last one. A record says its layout.
    #[inline]
    fn next(
        &mut self,
        lines: &mut Lines,
        reader: &mut Reader,
        layout: &mut Option<LayoutId>,
    ) -> bool {
        let (start, end) = match lines.next_line() {
            LineRead::Line(start, end) => (start, end),
            LineRead::TooLong(_) => {
                self.survey.lines += 1;
                self.survey.skipped += 1;
                return true;
            }
            LineRead::End | LineRead::Pending => return false,
        };
        match reader.line(lines.text().get(start..end).unwrap_or_default()) {
            Line::Quiet => {}
            Line::Skip(Skip::UnusedEvent) => self.survey.lines += 1,
            Line::Skip(_) => {
                self.survey.lines += 1;
                self.survey.skipped += 1;
            }
            Line::Record(ts, of) => {
                *layout = Some(of);
                self.record(ts);
            }
        }
        true
    }

    #[inline]
    fn record(&mut self, ts: TimeNs) {
        let behind = self.clock.take_time(ts);
        let s = &mut self.survey;
        s.first = s.first.or(Some(ts));
        s.least = Some(s.least.map_or(ts, |l| l.min(ts)));
        s.lateness_ns = s.lateness_ns.max(behind);
        s.lines += 1;
    }

    fn done(&self) -> Survey {
        Survey { jumps: self.clock.jumps, ..self.survey }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fmt::Write;

    const HEAD: &str = "#separator \\x09\n#path\tconn\n#fields\tts\tuid\tid.orig_h\tid.resp_h\n";

    /// A thread for each job but the last, which is lost.
    fn losing_the_last(mut jobs: Vec<Job<'_>>) {
        // The last job is the head's, which is never lost.
        let head = jobs.pop();
        drop(jobs.pop());
        jobs.extend(head);
        at_once(jobs);
    }

    fn at_once(jobs: Vec<Job<'_>>) {
        std::thread::scope(|scope| {
            for job in jobs {
                scope.spawn(job);
            }
        });
    }

    fn files() -> FileOpener {
        FileOpener::new(|path, _| File::open(path))
    }

    /// A log of six hundred lines whose moments and odd lines are given.
    fn log(ts: impl Fn(i64) -> f64, odd: impl Fn(i64) -> &'static str) -> String {
        let mut text = HEAD.to_owned();
        for n in 0..600 {
            let _ = writeln!(text, "{:.6}\tC{n}\t10.0.0.1\t10.0.0.2", 1_700_000_000.0 + ts(n));
            text.push_str(odd(n));
        }
        text
    }

    /// Any number of parts finds what the whole finds, whatever stands wherever.
    #[test]
    fn parts_find_what_the_whole_finds() {
        let none = |_: i64| "";
        let logs = [
            log(|n| n as f64, none),
            log(|n| (n * 7919 % 600) as f64 / 10.0, none),
            log(|n| if n == 400 { -5000.0 } else { n as f64 }, none),
            log(|n| if n == 410 { 9e6 } else { n as f64 }, none),
            log(|n| n as f64 + if n > 333 { 9e5 } else { 0.0 }, none),
            log(|n| n as f64 * 60.0 * if n % 31 == 0 { 3.0 } else { 1.0 }, none),
            log(|n| n as f64, |n| if n == 450 { "\n" } else { "" }),
            log(|n| n as f64, |n| if n == 450 { "no record\n" } else { "" }),
            log(|n| n as f64, |n| if n == 300 { "#fields\tuid\tts\n" } else { "" }),
            log(|n| n as f64, |n| if n == 500 { "#close\t2024\n" } else { "" }),
            log(|n| n as f64, |n| if n % 2 == 0 { "\r\n" } else { "" }),
            log(|n| n as f64, none).trim_end().to_owned(),
            HEAD.repeat(300),
            "{\"ts\":1.5,\"uid\":\"C\",\"id.orig_h\":\"1.2.3.4\"}\n".repeat(400),
            "no log at all\n".repeat(900),
        ];
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("conn.log");
        let file = Surveyed { files: &files(), path: &path };
        let mut parted = 0;
        for (at, text) in logs.iter().enumerate() {
            std::fs::write(&path, text).unwrap();
            let look = |parts| {
                let mut reader = Reader::new("conn.log", None);
                let run = if parts % 2 == 0 { at_once } else { in_turn };
                let found = in_parts(file, &mut reader, parts, 1 << 10, run).unwrap();
                (found, reader.kind())
            };
            let whole = look(1);
            let mut reader = Reader::new("conn.log", None);
            let made_up = in_parts(file, &mut reader, 4, 1 << 10, losing_the_last).unwrap();
            assert_eq!((made_up, reader.kind()), whole, "log {at} with a part lost");
            for parts in 2..12 {
                assert_eq!(look(parts), whole, "log {at} in {parts}");
                parted += file.cuts(parts, 1 << 10).unwrap().len();
            }
        }
        assert!(parted > 500, "{parted}");
    }

    #[test]
    fn a_packed_file_is_looked_at_as_a_whole() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("conn.log.zst");
        let file = Surveyed { files: &files(), path: &path };
        let text = log(|n| n as f64, |_| "");
        std::fs::write(&path, zstd::encode_all(text.as_bytes(), 1).unwrap()).unwrap();
        assert!(file.cuts(4, 1 << 8).unwrap().is_empty());
        let found = in_parts(file, &mut Reader::new("conn.log", None), 4, 1 << 8, in_turn).unwrap();
        assert_eq!(found.lines, 600);
    }
}
