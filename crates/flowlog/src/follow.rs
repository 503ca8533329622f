//! Logs that grow: found in folders, followed through rotation, and given out as records by time.
//!
//! A look ([`Follow::look_at_logs`]) finds out what there is: new logs, logs that have grown, were renamed, removed,
//! truncated in their place or compressed. What was there at the look is then returned ([`Follow::take_records`]), the
//! least moment of all logs first, before the next look: so what is given out depends on what looks saw, and
//! not on how fast it was read. A log is known by its device and inode and by the bytes before the place
//! that it was read up to; a copy of it, compressed or not, by its bytes up to its first record. So a
//! log that is renamed, copied and truncated, or compressed loses and doubles nothing; a copy waits until the log
//! that it copies is truncated or gone, and continues where that one was read up to.
//!
//! All of it is saved in a checkpoint ([`Follow::save`]), and a later run continues from there.

use crate::feed::InputReport;
use crate::folders::{Folders, changed_ns};
use crate::formats::Format;
use crate::growing::{Content, Next, Place};
use crate::intake::{Each, Intake};
use crate::limits::{
    FOLLOWED_MAX, MERGED_MAX, OPEN_MAX, PLACES_MAX, REPORTS_MAX, WAITING_MAX, reached,
};
use crate::reader::LayoutId;
use crate::source::is_packed;
use foldhash::fast::FixedState;
use gabion_record::files::FileOpener;
use gabion_record::logs::TimeNs;
use gabion_record::saved;
use gabion_record::saved::Saved;
use hashbrown::HashMap;
use std::collections::{BTreeMap, VecDeque};
use std::fs::{File, Metadata};
use std::ops::ControlFlow;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Device and inode.
type Identity = (u64, u64);

type Map<K, V> = HashMap<K, V, FixedState>;

/// A log that is followed.
struct Log {
    path: PathBuf,
    identity: Identity,
    content: Content,
    is_packed: bool,
    intake: Intake,
    /// What it begins with up to its first record, when that is known.
    head: Option<u64>,
    /// Bytes, and when it was changed last, at the last look.
    stated: (u64, i64),
    /// The next line holds a record of that moment.
    next: Option<(TimeNs, LayoutId)>,
    /// It is nowhere any more: it is read to its end and forgotten.
    is_gone: bool,
    /// It begins as another log does, and is not read before it is known where that one ends.
    is_held: bool,
}

/// All that is followed.
pub struct Follow {
    files: FileOpener,
    named: Vec<PathBuf>,
    format: Option<Format>,
    horizon_ns: i64,
    folders: Folders,
    logs: BTreeMap<u64, Log>,
    /// The number of the next log.
    fresh: u64,
    by_identity: Map<Identity, u64>,
    /// Logs by what they begin with; a copy of one is held and not in here.
    owners: Map<u64, u64>,
    /// Up to where logs were read that are gone, by what they begin with; the oldest are forgotten.
    places: Map<u64, Place>,
    placed: VecDeque<u64>,
    /// Logs that have more, or are to be forgotten.
    due: VecDeque<u64>,
    /// Reports of logs that are gone; the oldest are put together.
    done: VecDeque<InputReport>,
    earlier: Option<InputReport>,
    /// A log was forgotten, truncated or followed under another name since the last call.
    is_rotated: bool,
    /// Files beyond the limit.
    beyond: u64,
}

/// What [`Follow::take_records`] did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Taken {
    /// Something was given out.
    pub any: bool,
    /// All that the last look saw was given out: it is time for another.
    pub is_drained: bool,
}

impl Follow {
    /// Follows files and folders, whose files `files` opens, again and again as they grow; lines wait so long for
    /// earlier ones.
    pub fn new(
        files: FileOpener,
        named: Vec<PathBuf>,
        format: Option<Format>,
        horizon_ns: i64,
    ) -> Follow {
        Follow {
            files,
            named,
            format,
            horizon_ns,
            folders: Folders::default(),
            logs: BTreeMap::new(),
            fresh: 0,
            by_identity: Map::default(),
            owners: Map::default(),
            places: Map::default(),
            placed: VecDeque::new(),
            due: VecDeque::new(),
            done: VecDeque::new(),
            earlier: None,
            is_rotated: false,
            beyond: 0,
        }
    }

    /// How many logs are followed.
    pub fn count(&self) -> usize {
        self.logs.len()
    }

    /// Files that are not followed for want of room, at the last look.
    pub fn beyond(&self) -> u64 {
        self.beyond
    }

    /// Whether a log was forgotten, truncated or renamed since the last call: what was read of it may be nowhere
    /// else soon, so that it is time for a checkpoint.
    pub fn take_rotated(&mut self) -> bool {
        std::mem::take(&mut self.is_rotated)
    }

    /// The outcome of each log so far.
    pub fn reports(&self) -> impl Iterator<Item = &InputReport> {
        let logs = self.logs.values().filter(|l| !l.is_held).map(|l| l.intake.report());
        self.earlier.iter().chain(&self.done).chain(logs)
    }

    /// Looks at what there is. Nothing may be left of what the look before saw. By the clock on the wall it is
    /// `now_ns`, nanoseconds since 1970: folders that have not changed for a while are not listed again.
    pub fn look_at_logs(&mut self, now_ns: i64) {
        let found = self.folders.list(&self.named, now_ns);
        let mut stated: Map<u64, PathBuf> = Map::default();
        let mut strange: Vec<(PathBuf, Metadata)> = Vec::new();
        for path in found {
            let Ok(about) = std::fs::metadata(&path) else { continue };
            if !about.is_file() {
                continue;
            }
            match self.by_identity.get(&identity(&about)) {
                Some(&number) => {
                    // A file of two names is one log, under the name it is known by while it has that.
                    let is_its = self.logs.get(&number).is_some_and(|l| l.path == path);
                    if is_its || !stated.contains_key(&number) {
                        stated.insert(number, path);
                    }
                    self.grown(number, &about);
                }
                None => strange.push((path, about)),
            }
        }
        for (number, log) in &mut self.logs {
            match stated.remove(number) {
                Some(path) if path != log.path => {
                    log.intake.rename(&path);
                    log.path = path;
                    self.is_rotated = true;
                }
                Some(_) => {}
                None if !log.is_gone => {
                    log.is_gone = true;
                    self.due.push_back(*number);
                }
                None => {}
            }
        }
        self.beyond = 0;
        for (path, about) in strange {
            self.take_up(path, &about);
        }
        let held: Vec<u64> = self.logs.iter().filter(|l| l.1.is_held).map(|l| *l.0).collect();
        held.into_iter().for_each(|number| self.look_at_copy(number));
    }

    /// A known file was seen again.
    fn grown(&mut self, number: u64, about: &Metadata) {
        let Some(log) = self.logs.get_mut(&number) else { return };
        let stated = stated(about);
        log.is_gone = false;
        if log.stated == stated && !log.content.is_cut() {
            return;
        }
        log.stated = stated;
        if log.is_held {
            return;
        }
        if !log.open(&self.files) {
            // Not there any more, or not readable: the next look decides.
            log.stated = (0, 0);
            return;
        }
        if log.content.is_cut() || !log.content.stands() {
            self.restart(number);
        }
        self.close(number);
        self.settle(number);
    }

    /// A log was truncated and begun again in its place.
    fn restart(&mut self, number: u64) {
        self.is_rotated = true;
        let Some(log) = self.logs.get_mut(&number) else { return };
        let place = log.content.place();
        log.intake.restart();
        log.content = Content::at(Place::default(), 0);
        log.next = None;
        let head = log.head.take();
        log.open(&self.files);
        self.disown(head, number);
        self.leave(head, place);
    }

    /// A log begins so no more.
    fn disown(&mut self, head: Option<u64>, number: u64) {
        if let Some(head) = head
            && self.owners.get(&head) == Some(&number)
        {
            self.owners.remove(&head);
        }
    }

    /// Remembers up to where a log was read that is there no more.
    fn leave(&mut self, head: Option<u64>, place: Place) {
        let Some(head) = head else { return };
        if self.places.insert(head, place).is_none() {
            self.placed.push_back(head);
        }
        while self.placed.len() > PLACES_MAX
            && let Some(oldest) = self.placed.pop_front()
        {
            reached::PLACES_MAX.count();
            self.places.remove(&oldest);
        }
    }

    /// A file that is not known: a new log, one that was known under another inode, or a copy.
    fn take_up(&mut self, path: PathBuf, about: &Metadata) {
        if self.logs.len() >= FOLLOWED_MAX {
            self.beyond += 1;
            return;
        }
        let Ok(mut file) = self.files.open_to_read(&path) else { return };
        let Ok(is_packed) = is_packed(&mut file) else { return };
        let number = self.fresh;
        self.fresh += 1;
        let intake = Intake::new(&path, self.format, self.horizon_ns, WAITING_MAX);
        let log = Log {
            path,
            identity: identity(about),
            content: Content::open(file, is_packed),
            is_packed,
            intake,
            head: None,
            stated: stated(about),
            next: None,
            is_gone: false,
            is_held: false,
        };
        self.by_identity.insert(log.identity, number);
        self.logs.insert(number, log);
        self.close(number);
        self.settle(number);
    }

    /// Of more logs than may stay open, one is opened again when its turn to be read comes.
    fn close(&mut self, number: u64) {
        if self.logs.len() > OPEN_MAX
            && let Some(log) = self.logs.get_mut(&number)
        {
            log.content.rest(true);
        }
    }

    /// Finds out what a log begins with, when that is not known yet, and whether it is a copy.
    fn settle(&mut self, number: u64) {
        let Some(log) = self.logs.get_mut(&number) else { return };
        if log.head.is_none() {
            log.head = self.files.open_to_read(&log.path).ok().and_then(|file| {
                Content::head(file, log.is_packed, &log.path, self.format, log.stated.0)
            });
            if let Some(head) = log.head {
                if self.places.contains_key(&head) || self.owners.contains_key(&head) {
                    log.is_held = true;
                    return;
                }
                self.owners.insert(head, number);
            }
        }
        self.due.push_back(number);
    }

    /// A log that begins as another one does: it continues where that one was read up to, once that is known.
    fn look_at_copy(&mut self, number: u64) {
        let Some(head) = self.logs.get(&number).and_then(|l| l.head) else { return };
        if let Some(&other) = self.owners.get(&head) {
            // Gone with nothing of it left to be read: this is the same log under another inode.
            if self.logs.get(&other).is_some_and(|l| l.is_gone && !l.content.is_open()) {
                self.adopt(number, other);
            }
            return;
        }
        let Some(place) = self.places.get(&head).copied() else {
            // The log that it was a copy of is forgotten, or was another copy.
            return self.release(number);
        };
        let format = self.format;
        let horizon_ns = self.horizon_ns;
        let Some(log) = self.logs.get_mut(&number) else { return };
        if !log.open_again(&self.files) {
            return;
        }
        let intake = &mut log.intake;
        match log.content.go_to(place, log.stated.0, &mut |line| intake.pass_over(line)) {
            // Not so long yet.
            None => {
                log.content = Content::at(Place::default(), 0);
                log.intake = Intake::new(&log.path, format, horizon_ns, WAITING_MAX);
            }
            Some(true) => {
                self.places.remove(&head);
                self.placed.retain(|h| *h != head);
                self.release(number);
                self.is_rotated = true;
            }
            // It continues with other bytes: another log.
            Some(false) => {
                log.content = Content::at(Place::default(), 0);
                log.intake = Intake::new(&log.path, format, horizon_ns, WAITING_MAX);
                self.release(number);
            }
        }
    }

    fn release(&mut self, number: u64) {
        if let Some(log) = self.logs.get_mut(&number) {
            log.is_held = false;
            log.open(&self.files);
            if let Some(head) = log.head {
                self.owners.insert(head, number);
            }
            self.due.push_back(number);
        }
    }

    /// A log that is gone is found as another file.
    fn adopt(&mut self, number: u64, gone: u64) {
        let Some(place) = self.logs.get(&gone).map(|l| l.content.place()) else { return };
        let Some(log) = self.logs.get_mut(&number) else { return };
        if !log.open_again(&self.files) {
            return;
        }
        match log.content.go_to(place, log.stated.0, &mut |_| {}) {
            None => log.content = Content::at(Place::default(), 0),
            Some(false) => {
                log.content = Content::at(Place::default(), 0);
                self.release(number);
            }
            Some(true) => {
                let Some(gone) = self.remove(gone) else { return };
                if let Some(log) = self.logs.get_mut(&number) {
                    log.intake = gone.intake;
                    log.intake.rename(&log.path);
                }
                self.is_rotated = true;
                self.release(number);
            }
        }
    }

    fn remove(&mut self, number: u64) -> Option<Log> {
        let log = self.logs.remove(&number)?;
        if self.by_identity.get(&log.identity) == Some(&number) {
            self.by_identity.remove(&log.identity);
        }
        self.disown(log.head, number);
        Some(log)
    }

    /// Returns what the last look saw, by time; at most about this many lines.
    pub fn take_records(&mut self, most: usize, each: Each<'_>) -> Taken {
        let mut taken = Taken { any: false, is_drained: false };
        let mut group: Vec<u64> = Vec::new();
        while group.len() < MERGED_MAX
            && let Some(number) = self.due.pop_front()
        {
            let Some(log) = self.logs.get_mut(&number) else { continue };
            if !log.is_held && !log.open(&self.files) {
                // What can't be opened now is tried again at the next look.
                log.stated = (0, 0);
            }
            if !group.contains(&number) {
                group.push(number);
            }
        }
        let mut left = most;
        loop {
            // The least head, and the moment of the second.
            let mut best: Option<(TimeNs, u64)> = None;
            let mut second: Option<TimeNs> = None;
            for number in &group {
                let Some(log) = self.logs.get_mut(number).filter(|l| !l.is_held) else { continue };
                let Some(ts) = log.head_time() else { continue };
                match best {
                    Some((b, _)) if b <= ts => second = Some(second.map_or(ts, |s| s.min(ts))),
                    _ => {
                        second = best.map(|b| b.0).or(second);
                        best = Some((ts, *number));
                    }
                }
            }
            let Some((_, number)) = best else { break };
            let Some(log) = self.logs.get_mut(&number) else { break };
            while let Some((ts, layout)) = log.next.filter(|n| second.is_none_or(|s| n.0 <= s)) {
                taken.any = true;
                let flow = log.intake.push(ts, layout, log.content.line(), each);
                log.content.pass();
                log.next = None;
                left = left.saturating_sub(1);
                if flow.is_break() || left == 0 {
                    group.into_iter().rev().for_each(|n| self.due.push_front(n));
                    return taken;
                }
                log.head_time();
            }
        }
        for number in group {
            self.drained(number, each);
        }
        taken.is_drained = self.due.is_empty();
        taken
    }

    /// All of a log that the last look saw was given out.
    fn drained(&mut self, number: u64, each: Each<'_>) {
        let is_crowded = self.logs.len() > OPEN_MAX;
        let Some(log) = self.logs.get_mut(&number) else { return };
        if log.is_held {
            return;
        }
        if !log.is_gone {
            log.rest(is_crowded);
            return;
        }
        self.is_rotated = true;
        let Some(mut log) = self.remove(number) else { return };
        let _ = log.intake.finish(each);
        self.leave(log.head, log.content.place());
        let mut report = log.intake.report().clone();
        if !log.content.is_open() && !log.is_packed {
            report.lost_ends += 1;
        }
        self.done.push_back(report);
        if self.done.len() > REPORTS_MAX
            && let Some(oldest) = self.done.pop_front()
        {
            let earlier =
                self.earlier.get_or_insert_with(|| InputReport::new(Path::new("earlier logs")));
            earlier.take_in(&oldest);
        }
    }

    /// No line will follow: what waits goes out.
    pub fn finish(&mut self, each: Each<'_>) {
        for log in self.logs.values_mut() {
            if log.intake.finish(each) == ControlFlow::Break(()) {
                return;
            }
        }
    }

    /// Appends all it knows, for a checkpoint.
    pub fn save(&self, out: &mut Vec<u8>) {
        self.logs.len().save(out);
        for (number, log) in &self.logs {
            let skipped = log.content.skipped();
            (*number, log.identity.0, log.identity.1).save(out);
            log.path.save(out);
            (log.content.place(), skipped, log.is_packed).save(out);
            // A line that was looked at is looked at again.
            let mut intake = Vec::new();
            log.intake.save(&mut intake);
            saved::save_bytes(&intake, out);
            (log.next.is_some(), log.head, log.is_held).save(out);
        }
        self.fresh.save(out);
        self.places.save(out);
        self.placed.save(out);
        self.done.save(out);
        self.earlier.save(out);
    }

    /// Takes in what [`Follow::save`] wrote; `None` when it is none. Logs are looked for at the next look.
    pub fn restore(&mut self, from: &mut &[u8]) -> Option<()> {
        for _ in 0..usize::load(from)? {
            let (number, dev, ino) = <(u64, u64, u64)>::load(from)?;
            let path = PathBuf::load(from)?;
            let (place, skipped, is_packed) = <(Place, u64, bool)>::load(from)?;
            let mut intake = Intake::load(&mut saved::load_bytes(from)?)?;
            let (was_looked_at, head, is_held) = <(bool, Option<u64>, bool)>::load(from)?;
            if was_looked_at {
                intake.unlook();
            }
            intake.set_horizon(self.horizon_ns, WAITING_MAX);
            let log = Log {
                path,
                identity: (dev, ino),
                content: Content::at(place, skipped),
                is_packed,
                intake,
                head,
                stated: (0, 0),
                next: None,
                is_gone: false,
                is_held,
            };
            self.by_identity.insert(log.identity, number);
            if let (Some(head), false) = (head, is_held) {
                self.owners.insert(head, number);
            }
            self.logs.insert(number, log);
        }
        self.fresh = Saved::load(from)?;
        self.places = Saved::load(from)?;
        self.placed = Saved::load(from)?;
        self.done = Saved::load(from)?;
        self.earlier = Saved::load(from)?;
        Some(())
    }
}

impl Log {
    /// Makes sure that it can be read where it was read up to; false when it can't.
    fn open(&mut self, files: &FileOpener) -> bool {
        if self.content.is_open() {
            return true;
        }
        let place = self.content.place();
        let Some(file) = self.file(files) else { return false };
        if self.is_packed {
            self.content = Content::open(file, true);
            // What can't be found again has become something else.
            if place.offset > 0 && self.content.go_to(place, 0, &mut |_| {}) != Some(true) {
                self.intake.restart();
                return self.open_again(files);
            }
        } else {
            self.content.reopen(file)
        }
        true
    }

    /// Opens it at its beginning.
    fn open_again(&mut self, files: &FileOpener) -> bool {
        let Some(file) = self.file(files) else { return false };
        self.content = Content::open(file, self.is_packed);
        true
    }

    fn file(&mut self, files: &FileOpener) -> Option<File> {
        let mut file = files.open_to_read(&self.path).ok()?;
        let about = file.metadata().ok()?;
        if identity(&about) != self.identity {
            return None;
        }
        if self.content.place().offset == 0 {
            self.is_packed = is_packed(&mut file).ok()?;
        }
        Some(file)
    }

    /// The moment of the next record; lines that hold none are done with.
    #[inline]
    fn head_time(&mut self) -> Option<TimeNs> {
        if let Some((ts, _)) = self.next {
            return Some(ts);
        }
        loop {
            match self.content.next(self.stated.0) {
                Next::Line => {
                    self.next = self.intake.begin_line(self.content.line());
                    match self.next {
                        Some((ts, _)) => return Some(ts),
                        None => self.content.pass(),
                    }
                }
                Next::TooLong(bytes) => self.intake.too_long(bytes),
                Next::None => return None,
            }
        }
    }

    /// Nothing comes at the moment.
    fn rest(&mut self, is_crowded: bool) {
        self.content.rest(is_crowded);
        self.intake.rest();
    }
}

fn identity(about: &Metadata) -> Identity {
    (about.dev(), about.ino())
}

/// Bytes, and when it was changed last.
fn stated(about: &Metadata) -> (u64, i64) {
    (about.len(), changed_ns(about))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn logs_gone_longest_are_forgotten_and_counted() {
        let files = FileOpener::new(|path, _| File::open(path));
        let mut follow = Follow::new(files, Vec::new(), None, 0);
        for head in 0..PLACES_MAX as u64 + 7 {
            follow.leave(Some(head), Place::default());
            follow.leave(Some(head), Place::default());
        }
        assert_eq!((follow.places.len(), follow.placed.len()), (PLACES_MAX, PLACES_MAX));
        assert_eq!(gabion_record::limits::take_reached().times_reached(&reached::PLACES_MAX), 7);
    }
}
