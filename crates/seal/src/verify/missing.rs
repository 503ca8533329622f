//! What a log shows of itself in addition to its records: checkpoints that chunks name, the index of a segment that
//! ended in order, each note and mark once, and no segment but its own.
//!
//! No record is altered or hidden by what is found here, so each finding is a warning with its place. The
//! head of every chunk states the size of the checkpoint before it, and heads are in the signed tree: a
//! checkpoint that was taken out of the middle is therefore named by the chunks after it. After the last
//! checkpoint, and where only a pruned segment's stub is left, the promise in `log.id` decides: one is signed
//! after N chunks or T seconds at the latest.

use super::judge::Judge;
use super::report::Place;
use crate::checkpoints::{self, Entry};
use crate::format::chunk::{FLAG_LAST, Header, Mark};
use crate::format::index;
use crate::format::segment::{file_name, parse_file_name};
use crate::limits::{INDEX_MAX, NOTES_AGAIN_MAX};
use crate::note::{Note, Signature};
use std::cell::Cell;

/// Seconds between the chunks that say that nothing came. A checkpoint may be as much later.
const IDLE_SECONDS: u64 = 60;
/// Nanoseconds of a second.
const SECOND: u64 = 1_000_000_000;

/// What was met so far of what must be there.
#[derive(Debug, Default)]
pub(super) struct Expected {
    /// Size of the newest note met, good or not.
    newest: Option<u64>,
    /// Size of the last checkpoint that was reported as missing.
    reported_missing: Option<u64>,
    /// First chunk of the last run of stubs, and the one after it.
    stubs: (u64, u64),
    /// Earliest and latest time of chunks after the newest note.
    since_note: Option<(u64, u64)>,
    /// Chunks of the current segment, whether the last one says that it ends there, and its index.
    chunks: usize,
    is_last: bool,
    has_index: bool,
    /// The last mark met, and how often it stood there again.
    mark: Option<Mark>,
    marks_again: u64,
    /// The note that stood there again: its number, its size, and how often.
    note_again: Option<(u64, u64, u64)>,
    /// Notes that brought nothing new, and those whose signatures were wrong.
    again: u32,
    wrong: u32,
    /// Notes and marks whose signatures were checked.
    pub(super) checked: Cell<u64>,
    /// Notes that were not looked at any more.
    passed_over: u64,
    /// Files whose names begin as a segment's do, and those that belong to no segment.
    strange: Vec<String>,
    /// Files of keys and stubs by first chunk whose segment is not there, or is.
    keys_alone: Vec<u64>,
    stubs_next_to_segment: Vec<u64>,
}

impl Expected {
    /// Sorts out which of the folder's files are no part of this log.
    fn sort(&mut self, names: &[String]) {
        // Names are in order, as `list` gives them.
        let has = |first, ending| names.binary_search(&file_name(first, ending)).is_ok();
        // What a crash left half made is removed at the next start and read by nobody.
        for name in names.iter().filter(|n| n.starts_with("seg-") && !n.ends_with(".tmp")) {
            match parse_file_name(name) {
                Some((_, "gsl")) => {}
                Some((first, "keys")) if has(first, "gsl") || has(first, "pruned") => {}
                Some((first, "keys")) => self.keys_alone.push(first),
                Some((first, "pruned")) if has(first, "gsl") => {
                    self.stubs_next_to_segment.push(first);
                }
                Some((_, "pruned")) => {}
                _ => self.strange.push(name.clone()),
            }
        }
    }

    /// A chunk of a segment.
    pub(super) fn chunk(&mut self, header: &Header) {
        self.chunks += 1;
        self.is_last = header.flags & FLAG_LAST != 0;
        self.has_index = false;
        self.mark = None;
        if header.records > 0 {
            let (earliest, latest) =
                self.since_note.unwrap_or((header.earliest_ns, header.latest_ns));
            let span = (earliest.min(header.earliest_ns), latest.max(header.latest_ns));
            self.since_note = Some(span);
        }
    }

    /// A stub stands for these chunks.
    pub(super) fn stub(&mut self, first: u64, chunks: u64) {
        let is_next = self.stubs.1 == first;
        self.stubs = (if is_next { self.stubs.0 } else { first }, first.saturating_add(chunks));
    }

    /// A good note, of a size that was not signed before or that both keys of an epoch sign.
    pub(super) fn signed(&mut self) {
        self.since_note = None;
    }

    /// A note whose signature is wrong.
    pub(super) fn wrong_note(&mut self) {
        self.wrong = self.wrong.saturating_add(1);
    }
}

/// Whether two notes say the same under the same signatures of the log itself. Anybody can add lines of keys
/// that nobody knows.
fn is_same(one: &Note, other: &Note, origin: &str) -> bool {
    fn own<'a>(note: &'a Note, origin: &'a str) -> impl Iterator<Item = &'a Signature> {
        note.signatures.iter().filter(move |s| s.name == origin)
    }
    one.text == other.text && own(one, origin).eq(own(other, origin))
}

impl Judge<'_> {
    /// Takes the names of the folder's files.
    pub(super) fn files(&mut self, names: &[String]) {
        self.expected.sort(names);
    }

    /// The head of a chunk names the checkpoint before it. Those after the file's last are for the end to
    /// judge.
    pub(super) fn named_checkpoint(&mut self, name: &str, at: u64, header: &Header) {
        let named = header.checkpoint;
        let is_there = self.expected.newest.is_some_and(|n| n >= named);
        if is_there
            || self.position.range.is_none()
            || named > self.signed.signed_file_size
            || self.expected.reported_missing == Some(named)
        {
            return;
        }
        self.expected.reported_missing = Some(named);
        let reason = format!(
            "the checkpoint of {named} chunks is missing: chunk {} names it ({name} at byte {at})",
            header.index
        );
        let place = Place { chunk: Some(named), ..Place::file(checkpoints::FILE, reason) };
        self.report.warn(place.describe());
    }

    /// Whether a note brings nothing that was not looked at before. Notes whose signatures have to be checked
    /// all the same are bounded.
    pub(super) fn is_note_again(&mut self, entry: &Entry) -> bool {
        let size = entry.checkpoint.size;
        self.expected.newest = self.expected.newest.max(Some(size));
        if let Some(last) = &self.signed.last_note
            && is_same(&last.note, &entry.note, &self.signed.identity.origin)
        {
            match &mut self.expected.note_again {
                Some((_, of, times)) if *of == size => *times += 1,
                _ => {
                    self.say_note_again();
                    self.expected.note_again = Some((entry.number, size, 1));
                }
            }
            self.expected.again = self.expected.again.saturating_add(1);
            if self.expected.again <= NOTES_AGAIN_MAX {
                self.cosigned(entry);
            }
            return true;
        }
        let is_new = self.signed.last_note.as_ref().is_none_or(|last| size > last.checkpoint.size);
        self.expected.again = self.expected.again.saturating_add(u32::from(!is_new));
        let is_passed_over = (!is_new && self.expected.again > NOTES_AGAIN_MAX)
            || self.expected.wrong > NOTES_AGAIN_MAX;
        self.expected.passed_over += u64::from(is_passed_over);
        is_passed_over
    }

    fn say_note_again(&mut self) {
        let Some((number, size, times)) = self.expected.note_again.take() else { return };
        let times = if times == 1 { "once".to_owned() } else { format!("{times} times") };
        let reason = format!("the checkpoint of {size} chunks is there again, {times} more");
        let place = Place { note: Some(number), ..Place::file(checkpoints::FILE, reason) };
        self.report.warn(place.describe());
    }

    /// Whether a commit mark is the one before it once more.
    pub(super) fn is_mark_again(&mut self, name: &str, at: u64, mark: &Mark) -> bool {
        if self.expected.mark.as_ref() != Some(mark) {
            self.expected.mark = Some(mark.clone());
            return false;
        }
        if self.expected.marks_again == 0 {
            let place = Place {
                offset: Some(at),
                chunk: Some(mark.size),
                ..Place::file(name, "a commit mark is there again")
            };
            self.report.warn(place.describe());
        }
        self.expected.marks_again += 1;
        true
    }

    /// An index stands in the current segment.
    pub(super) fn index_seen(&mut self, name: &str, at: u64) {
        let what = if self.expected.has_index {
            "a second index of the segment"
        } else if !self.expected.is_last {
            "an index where the segment does not end"
        } else {
            ""
        };
        self.expected.has_index = true;
        if !what.is_empty() {
            let place = Place { offset: Some(at), ..Place::file(name, what) };
            self.report.warn(place.describe());
        }
    }

    /// Whether an index of this length is one of the chunks that the current segment has.
    pub(super) fn is_index_len(&self, len: u64) -> bool {
        len == index::len(self.expected.chunks)
    }

    /// The current segment is over: one that ended in order has an index.
    pub(super) fn segment_ended(&mut self) {
        let expected = &mut self.expected;
        let chunks = std::mem::take(&mut expected.chunks);
        let is_over = std::mem::take(&mut expected.is_last);
        let has_index = std::mem::take(&mut expected.has_index);
        (expected.mark, expected.marks_again) = (None, 0);
        let Some(current) = &self.position.current else { return };
        if is_over && !has_index && index::len(chunks) <= INDEX_MAX && !self.position.is_cut {
            let place = Place {
                offset: Some(self.position.reached),
                ..Place::file(
                    &current.file_name(),
                    "the index is missing: cut off, or the writer was killed just before it",
                )
            };
            self.report.warn(place.describe());
        }
    }

    /// A good note after a stub, in which heads can't be asked: how far the note before it may be away.
    pub(super) fn gap_in_pruned(&mut self, entry: &Entry) {
        let (first, end) = self.expected.stubs;
        let size = entry.checkpoint.size;
        let before = self.signed.last_note.as_ref().map_or(0, |e| e.checkpoint.size);
        let behind = size.min(end).saturating_sub(before.max(first));
        if behind > self.chunks_unsigned_max() && self.position.range.is_some() {
            let reason = format!(
                "no checkpoint between {before} and {size} chunks, of which records were pruned: one is signed every {}",
                self.signed.identity.checkpoint_chunks
            );
            let place = Place {
                note: Some(entry.number),
                chunk: Some(before),
                ..Place::file(checkpoints::FILE, reason)
            };
            self.report.warn(place.describe());
        }
    }

    /// Chunks that a writer leaves without a checkpoint at the most.
    pub(super) fn chunks_unsigned_max(&self) -> u64 {
        self.signed.identity.checkpoint_chunks.saturating_mul(2).saturating_add(2)
    }

    /// Chunks after the last checkpoint that came so far apart that one was due between them.
    pub(super) fn late_tail(&mut self) {
        let Some((earliest, latest)) = self.expected.since_note else { return };
        let span = latest.saturating_sub(earliest) / SECOND;
        let due = self.signed.identity.checkpoint_seconds.saturating_add(IDLE_SECONDS);
        if span <= due || self.position.range.is_none() {
            return;
        }
        let reason = format!(
            "chunks after the last checkpoint span {span} s: one is signed every {} s",
            self.signed.identity.checkpoint_seconds
        );
        let last = self.signed.last_note.as_ref().map_or(0, |e| e.checkpoint.size);
        let place = Place { chunk: Some(last), ..Place::file(checkpoints::FILE, reason) };
        self.report.warn(place.describe());
    }

    /// What only the end can say.
    pub(super) fn say_missing(&mut self, is_live: bool) {
        self.say_note_again();
        if self.expected.passed_over > 0 {
            let reason = format!(
                "{} notes that sign nothing new were not looked at: cut the file back to its good part",
                self.expected.passed_over
            );
            self.report.warn(Place::file(checkpoints::FILE, reason).describe());
        }
        if !is_live {
            self.segment_ended();
            self.late_tail();
        }
        for name in std::mem::take(&mut self.expected.strange) {
            let what = "no segment of this log has such a name: it was not looked at";
            self.report.warn(Place::file(&name, what).describe());
        }
        for first in std::mem::take(&mut self.expected.keys_alone) {
            // After the end a crash left them, before their segment was begun.
            if first < self.position.chunk {
                let what = "keys of no segment of this log";
                self.report.warn(Place::file(&file_name(first, "keys"), what).describe());
            }
        }
        for first in std::mem::take(&mut self.expected.stubs_next_to_segment) {
            if !is_live && !self.segments.prunes.iter().any(|(_, p)| p.first_chunk == first) {
                let what = "a stub next to its segment, and no prune record covers it: it was not looked at";
                self.report.warn(Place::file(&file_name(first, "pruned"), what).describe());
            }
        }
    }
}
