//! Records by which changes of the host are undone, as data: the caller writes them, and reads and writes the values.
//!
//! A record is written and synced before the change. It is undone when the guard ends, or when it is started again after
//! a crash. A change of another boot is gone, and one of another network namespace can't be reached from this one.

use crate::limits::{UNDO_MAX, reached};
use std::fmt::Write;

/// A change of the host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UndoRecord {
    /// What was changed: the path of the file that holds the value.
    pub what: String,
    /// Its value before the change.
    pub old: String,
    /// Its value after the change.
    pub new: String,
    /// The boot in which it was changed (`/proc/sys/kernel/random/boot_id`).
    pub boot_id: String,
    /// The inode of the network namespace in which it was changed.
    pub netns: u64,
    /// The process that changed it.
    pub pid: u32,
}

/// Why bytes are no undo record.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum UndoError {
    /// It is longer than any record.
    #[error("longer than {UNDO_MAX} bytes")]
    TooLong,
    /// It does not end as records do: the writer was interrupted before the change was made.
    #[error("it is cut off, so the change was not made")]
    Torn,
    /// A line is not `key=value`, or a value is no number.
    #[error("line {0} is not readable")]
    Line(usize),
    /// A key is missing.
    #[error("the key {0} is missing")]
    Missing(&'static str),
    /// A value has a line feed, and can't be written.
    #[error("the value of {0} has a line feed")]
    LineFeed(&'static str),
}

/// The host as it is now.
#[derive(Clone, Copy, Debug)]
pub struct Present<'a> {
    /// This boot.
    pub boot_id: &'a str,
    /// The network namespace of this process.
    pub netns: u64,
    /// The value that is there now; none where it can't be read, as when its interface is gone.
    pub value: Option<&'a str>,
}

/// What is to be done about a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Undo {
    /// Write the old value, and read it back.
    Write,
    /// The old value is there: nothing is left to undo.
    Done,
    /// The change did not outlive the boot, or what was changed is gone.
    Gone,
    /// The value belongs to another network namespace: undo it there.
    OtherNamespace,
    /// The value is neither the old nor the new one: it was changed after the guard, and stays.
    ChangedSince,
}

/// The line by which a record ends.
const END: &str = "end\n";

impl UndoRecord {
    /// The record as text.
    ///
    /// # Errors
    /// A value has a line feed, or the record is too long.
    pub fn text(&self) -> Result<String, UndoError> {
        let mut text = String::new();
        let texts = [
            ("what", &self.what),
            ("old", &self.old),
            ("new", &self.new),
            ("boot_id", &self.boot_id),
        ];
        for (key, value) in texts {
            if value.contains('\n') {
                return Err(UndoError::LineFeed(key));
            }
            let _ = writeln!(text, "{key}={value}");
        }
        let _ = writeln!(text, "netns={}\npid={}", self.netns, self.pid);
        text.push_str(END);
        if text.len() > UNDO_MAX { Err(UndoError::TooLong) } else { Ok(text) }
    }

    /// Reads a record.
    ///
    /// # Errors
    /// It is no whole record.
    pub fn parse(bytes: &[u8]) -> Result<UndoRecord, UndoError> {
        if !reached::UNDO_MAX.holds(bytes.len()) {
            return Err(UndoError::TooLong);
        }
        let text = String::from_utf8_lossy(bytes);
        let lines = text.strip_suffix(END).ok_or(UndoError::Torn)?;
        let mut found: [Option<&str>; KEYS.len()] = [None; KEYS.len()];
        for (at, line) in lines.lines().enumerate() {
            let (key, value) = line.split_once('=').ok_or(UndoError::Line(at + 1))?;
            let place = KEYS.iter().position(|known| *known == key);
            if let Some(place) = place.and_then(|place| found.get_mut(place)) {
                *place = Some(value);
            }
        }
        let get = |key: &'static str| {
            let place = KEYS.iter().position(|known| *known == key);
            place.and_then(|at| found.get(at).copied().flatten()).ok_or(UndoError::Missing(key))
        };
        Ok(UndoRecord {
            what: get("what")?.to_owned(),
            old: get("old")?.to_owned(),
            new: get("new")?.to_owned(),
            boot_id: get("boot_id")?.to_owned(),
            netns: get("netns")?.parse().map_err(|_| UndoError::Missing("netns"))?,
            pid: get("pid")?.parse().map_err(|_| UndoError::Missing("pid"))?,
        })
    }

    /// What is to be done about the change on the host as it is now.
    #[must_use]
    pub fn decide(&self, now: &Present<'_>) -> Undo {
        if now.boot_id != self.boot_id {
            return Undo::Gone;
        }
        if now.netns != self.netns {
            return Undo::OtherNamespace;
        }
        match now.value {
            None => Undo::Gone,
            Some(value) if value == self.old => Undo::Done,
            Some(value) if value == self.new => Undo::Write,
            Some(_) => Undo::ChangedSince,
        }
    }

    /// Whether it has to be undone before XDP is detached: `threaded` can only be written while the interface has a
    /// NAPI, which on veth comes and goes with XDP. A value that stays would act again at the next start.
    #[must_use]
    pub fn is_before_detaching(&self) -> bool {
        self.what.ends_with("/threaded")
    }
}

/// The keys of a record.
const KEYS: [&str; 6] = ["what", "old", "new", "boot_id", "netns", "pid"];

/// The order in which records are undone: those before XDP is detached first, then the newest first.
#[must_use]
pub fn undo_order(records: Vec<UndoRecord>) -> Vec<UndoRecord> {
    let (mut first, mut rest): (Vec<_>, Vec<_>) =
        records.into_iter().rev().partition(UndoRecord::is_before_detaching);
    first.append(&mut rest);
    first
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn record() -> UndoRecord {
        UndoRecord {
            what: "/proc/sys/net/core/dev_weight".to_owned(),
            old: "64".to_owned(),
            new: "16".to_owned(),
            boot_id: "b1".to_owned(),
            netns: 4_026_531_840,
            pid: 7,
        }
    }

    #[test]
    fn what_is_written_is_read_and_what_is_cut_off_is_not() {
        let text = record().text().unwrap();
        assert_eq!(UndoRecord::parse(text.as_bytes()), Ok(record()));
        for end in 0..text.len() {
            let torn = UndoRecord::parse(&text.as_bytes()[..end]);
            assert_eq!(torn, Err(UndoError::Torn), "{end}");
        }
        assert_eq!(UndoRecord::parse(b"what=x\nend\n"), Err(UndoError::Missing("old")));
        assert_eq!(UndoRecord::parse(b"what\nend\n"), Err(UndoError::Line(1)));
        assert_eq!(UndoRecord::parse(&[b'x'; UNDO_MAX + 1]), Err(UndoError::TooLong));
        let broken = UndoRecord { old: "1\n2".to_owned(), ..record() };
        assert_eq!(broken.text(), Err(UndoError::LineFeed("old")));
    }

    #[test]
    fn a_change_is_undone_only_where_it_is_still_the_guards() {
        let now = |boot_id, netns, value| record().decide(&Present { boot_id, netns, value });
        let here = 4_026_531_840;
        assert_eq!(now("b1", here, Some("16")), Undo::Write);
        assert_eq!(now("b1", here, Some("64")), Undo::Done);
        assert_eq!(now("b1", here, Some("32")), Undo::ChangedSince);
        assert_eq!(now("b1", here, None), Undo::Gone);
        assert_eq!(now("b2", here, Some("16")), Undo::Gone);
        assert_eq!(now("b1", 1, Some("16")), Undo::OtherNamespace);
    }

    #[test]
    fn threaded_is_undone_before_all_and_the_newest_change_first() {
        let of = |what: &str| UndoRecord { what: what.to_owned(), ..record() };
        let order = undo_order(vec![of("a"), of("/sys/class/net/vr/threaded"), of("b")]);
        let names: Vec<&str> = order.iter().map(|r| r.what.as_str()).collect();
        assert_eq!(names, ["/sys/class/net/vr/threaded", "b", "a"]);
    }

    proptest! {
        #[test]
        fn no_bytes_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = UndoRecord::parse(&bytes);
            let mut whole = bytes;
            whole.extend_from_slice(END.as_bytes());
            let _ = UndoRecord::parse(&whole);
        }
    }
}
