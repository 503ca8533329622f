//! The folder of undo records: what the guard changed on this host, so that it is undone, also after a crash.
//!
//! A record is written and synced before its change. The guard that made the change holds a lock on the record's file,
//! which ends with the process: a record without a lock was left by a guard that was killed.

use crate::limits::UNDO_VALUE_BYTES_MAX;
use gabion_guard::limits::UNDO_MAX;
use gabion_guard::undo::{Present, Undo, UndoRecord, undo_order};
use rustix::fs::{FlockOperation, Mode, OFlags, flock};
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// The end of a record's name.
const END: &str = ".undo";

/// Why a change of the host was not made, or not undone.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ChangeError {
    /// The file of the value can't be read.
    #[error("{}: {source}: this kernel or interface does not have it", .path.display())]
    Unreadable {
        /// The file of the value.
        path: PathBuf,
        /// The error of the operating system.
        source: io::Error,
    },
    /// The file of the value may not be written by this user.
    #[error("{}: {source}: this user may not write it: run as root, or leave --also out", .path.display())]
    NotWritable {
        /// The file of the value.
        path: PathBuf,
        /// The error of the operating system.
        source: io::Error,
    },
    /// The kernel refused the value.
    #[error("{}: the kernel refuses {value}: {source}: it stays {stays}", .path.display())]
    Refused {
        /// The file of the value.
        path: PathBuf,
        /// The value.
        value: String,
        /// The error of the operating system.
        source: io::Error,
        /// The value that is there.
        stays: String,
    },
    /// The kernel took the value and has another one.
    #[error("{}: {value} was written, and {stays} is read back", .path.display())]
    NotTaken {
        /// The file of the value.
        path: PathBuf,
        /// The value.
        value: String,
        /// The value that is there.
        stays: String,
    },
    /// The record can't be written, so nothing was changed.
    #[error("undo record {}: {source}: nothing was changed: name another folder with --undo-dir", .path.display())]
    Record {
        /// The record.
        path: PathBuf,
        /// The error of the operating system.
        source: io::Error,
    },
    /// The change can't be written as a record.
    #[error("undo record of {}: {source}: nothing was changed", .path.display())]
    Text {
        /// The file of the value.
        path: PathBuf,
        /// What is wrong with it.
        source: gabion_guard::undo::UndoError,
    },
    /// The folder can't be listed or made.
    #[error("--undo-dir {}: {source}: name another folder", .path.display())]
    Folder {
        /// The folder.
        path: PathBuf,
        /// The error of the operating system.
        source: io::Error,
    },
}

/// A change that was made and is to be undone.
#[derive(Debug)]
pub(super) struct Made {
    pub(super) record: UndoRecord,
    file: PathBuf,
    /// Holds the lock.
    _lock: File,
}

/// What is left in the folder.
#[derive(Debug)]
pub(super) struct Left {
    /// The file of the record.
    pub(super) file: PathBuf,
    /// The record; none where it can't be read.
    pub(super) record: Option<UndoRecord>,
    /// The value that is there now.
    pub(super) value: Option<String>,
    pub(super) state: LeftState,
}

/// What was done about a record, and whether it could be.
pub(super) type Undone = (Left, Result<(), ChangeError>);

/// What is to be done about a record, or was done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LeftState {
    /// The guard that made the change runs.
    Held,
    /// The old value has to be written.
    ToUndo,
    /// The change belongs to another network namespace.
    OtherNamespace,
    /// Nothing is to be done; the record can go.
    Over(Undo),
    /// The writer was interrupted before the change was made.
    NotMade,
    /// The file is no record.
    Unreadable,
}

/// The folder, with what this process and host are.
#[derive(Clone, Debug)]
pub(super) struct UndoFolder {
    path: PathBuf,
    /// Where `proc` and `sys` are looked for.
    root: PathBuf,
    boot_id: String,
    netns: u64,
}

impl UndoFolder {
    /// The folder at a path, of the host whose `proc` and `sys` are below `root`. Nothing is made yet.
    pub(super) fn new(path: &Path, root: &Path) -> UndoFolder {
        let boot_id = std::fs::read_to_string(root.join("proc/sys/kernel/random/boot_id"));
        let netns = std::fs::metadata(root.join("proc/thread-self/ns/net"))
            .or_else(|_| std::fs::metadata(root.join("proc/self/ns/net")));
        UndoFolder {
            path: path.to_path_buf(),
            root: root.to_path_buf(),
            boot_id: boot_id.map(|text| text.trim().to_owned()).unwrap_or_default(),
            netns: netns.map_or(0, |about| about.ino()),
        }
    }

    /// Whether this process may write a value, without a change to it.
    pub(super) fn try_write(&self, what: &Path) -> Result<(), ChangeError> {
        let refused = |source: rustix::io::Errno| ChangeError::NotWritable {
            path: what.to_path_buf(),
            source: source.into(),
        };
        rustix::fs::open(what, OFlags::WRONLY | OFlags::CLOEXEC, Mode::empty()).map_err(refused)?;
        Ok(())
    }

    /// Writes the record, then the value, and reads it back. None where the value is there already.
    pub(super) fn change(&self, what: &Path, new: &str) -> Result<Option<Made>, ChangeError> {
        let unreadable = |source| ChangeError::Unreadable { path: what.to_path_buf(), source };
        let old = read_value(what).map_err(unreadable)?;
        if old == new {
            return Ok(None);
        }
        let record = UndoRecord {
            what: what.display().to_string(),
            old,
            new: new.to_owned(),
            boot_id: self.boot_id.clone(),
            netns: self.netns,
            pid: std::process::id(),
        };
        let made = self.write_record(record)?;
        let written = write_value(what, new);
        let stays = read_value(what).unwrap_or_default();
        if written.is_ok() && stays == new {
            return Ok(Some(made));
        }
        let value = new.to_owned();
        let path = what.to_path_buf();
        // A write that failed may have changed the value all the same: then its record stays until it is undone.
        if stays == made.record.old || write_value(what, &made.record.old).is_ok() {
            self.forget(&made.file);
        }
        Err(match written {
            Err(source) => ChangeError::Refused { path, value, source, stays },
            Ok(()) => ChangeError::NotTaken { path, value, stays },
        })
    }

    fn write_record(&self, record: UndoRecord) -> Result<Made, ChangeError> {
        let text = record
            .text()
            .map_err(|source| ChangeError::Text { path: PathBuf::from(&record.what), source })?;
        self.make()?;
        let mut number = 0_u32;
        loop {
            let file = self.path.join(format!("{}-{number}{END}", std::process::id()));
            let failed = |source| ChangeError::Record { path: file.clone(), source };
            let opened = std::fs::OpenOptions::new().write(true).create_new(true).open(&file);
            match opened {
                Ok(mut lock) => {
                    let done = flock(&lock, FlockOperation::NonBlockingLockExclusive)
                        .map_err(io::Error::from)
                        .and_then(|()| lock.write_all(text.as_bytes()))
                        .and_then(|()| lock.sync_all())
                        .and_then(|()| File::open(&self.path)?.sync_all());
                    done.map_err(failed)?;
                    // A guard that started at the same moment may have taken the empty file for one that was cut off.
                    if lock.metadata().map_err(failed)?.nlink() == 0 {
                        continue;
                    }
                    return Ok(Made { record, file, _lock: lock });
                }
                Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {
                    number = number.checked_add(1).ok_or_else(|| failed(e))?;
                }
                Err(e) => return Err(failed(e)),
            }
        }
    }

    /// Makes the folder, which its owner alone may write: a record decides what root writes at the next start.
    fn make(&self) -> Result<(), ChangeError> {
        use std::os::unix::fs::DirBuilderExt;
        let failed = |source| ChangeError::Folder { path: self.path.clone(), source };
        let made = std::fs::DirBuilder::new().recursive(true).mode(0o755).create(&self.path);
        made.map_err(failed)?;
        self.check_owner().map_err(failed)
    }

    /// A folder that other users may write is refused: its records could name any file.
    fn check_owner(&self) -> io::Result<()> {
        let about = std::fs::metadata(&self.path)?;
        let is_own = about.uid() == rustix::process::geteuid().as_raw() || about.uid() == 0;
        if !is_own || about.mode() & 0o022 != 0 {
            let why = "it belongs to another user, or others may write it";
            return Err(io::Error::new(io::ErrorKind::PermissionDenied, why));
        }
        Ok(())
    }

    /// Undoes a change that this process made, and reads it back.
    pub(super) fn undo(&self, made: Made) -> Result<UndoRecord, ChangeError> {
        self.write_old(&made.record)?;
        self.forget(&made.file);
        Ok(made.record)
    }

    /// Writes the old value where the new one is there.
    fn write_old(&self, record: &UndoRecord) -> Result<(), ChangeError> {
        let path = self.file_of(record);
        let value = read_value(&path).ok();
        let present =
            Present { boot_id: &self.boot_id, netns: self.netns, value: value.as_deref() };
        if record.decide(&present) != Undo::Write {
            return Ok(());
        }
        let written = write_value(&path, &record.old);
        let stays = read_value(&path).unwrap_or_default();
        let value = record.old.clone();
        match written {
            Err(source) => Err(ChangeError::Refused { path, value, source, stays }),
            Ok(()) if stays != value => Err(ChangeError::NotTaken { path, value, stays }),
            Ok(()) => Ok(()),
        }
    }

    /// The file of a record's value, below the root.
    fn file_of(&self, record: &UndoRecord) -> PathBuf {
        let what = Path::new(&record.what);
        self.root.join(what.strip_prefix("/").unwrap_or(what))
    }

    /// Removes a record.
    fn forget(&self, file: &Path) {
        let _ = std::fs::remove_file(file);
        let _ = File::open(&self.path).and_then(|folder| folder.sync_all());
    }

    /// What is left in the folder, without any change. None is left where the folder does not exist.
    pub(super) fn survey(&self) -> Result<Vec<Left>, ChangeError> {
        let shared = FlockOperation::NonBlockingLockShared;
        Ok(self.open_all(shared)?.into_iter().map(|(left, _)| left).collect())
    }

    /// Undoes what guards left that were killed. What was undone, and what could not be.
    pub(super) fn undo_left(&self) -> Result<Vec<Undone>, ChangeError> {
        let all = self.open_all(FlockOperation::NonBlockingLockExclusive)?;
        if !all.is_empty() {
            let failed = |source| ChangeError::Folder { path: self.path.clone(), source };
            self.check_owner().map_err(failed)?;
        }
        let order = undo_order(all.iter().filter_map(|(left, _)| left.record.clone()).collect());
        let place = |left: &Left| {
            let is_same = |record: &UndoRecord| left.record.as_ref() == Some(record);
            order.iter().position(is_same).unwrap_or(usize::MAX)
        };
        let mut done = Vec::new();
        let mut sorted = all;
        sorted.sort_by_key(|(left, _)| place(left));
        for (left, lock) in sorted {
            let outcome = match (left.state, &left.record) {
                (LeftState::ToUndo, Some(record)) => self.write_old(record),
                _ => Ok(()),
            };
            let can_go =
                matches!(left.state, LeftState::ToUndo | LeftState::Over(_) | LeftState::NotMade);
            if can_go && outcome.is_ok() {
                self.forget(&left.file);
            }
            drop(lock);
            done.push((left, outcome));
        }
        Ok(done)
    }

    /// All records with the lock that this process now has on them, in the order of their names.
    fn open_all(&self, lock: FlockOperation) -> Result<Vec<(Left, Option<File>)>, ChangeError> {
        let failed = |source| ChangeError::Folder { path: self.path.clone(), source };
        let listed = match std::fs::read_dir(&self.path) {
            Ok(listed) => listed,
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(e) => return Err(failed(e)),
        };
        let mut files: Vec<PathBuf> = listed
            .filter_map(|entry| Some(entry.ok()?.path()))
            .filter(|path| path.extension().is_some_and(|end| end == "undo"))
            .collect();
        files.sort();
        Ok(files.into_iter().map(|file| self.open_one(file, lock)).collect())
    }

    fn open_one(&self, file: PathBuf, operation: FlockOperation) -> (Left, Option<File>) {
        let opened = rustix::fs::open(
            &file,
            OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC,
            Mode::empty(),
        );
        let Ok(mut lock) = opened.map(File::from) else {
            return (Left { file, record: None, value: None, state: LeftState::Unreadable }, None);
        };
        let mut bytes = Vec::new();
        let _ = (&mut lock).take(UNDO_MAX as u64 + 1).read_to_end(&mut bytes);
        let is_held = flock(&lock, operation).is_err();
        let parsed = UndoRecord::parse(&bytes);
        let value = parsed.as_ref().ok().and_then(|r| read_value(&self.file_of(r)).ok());
        let state = match &parsed {
            _ if is_held => LeftState::Held,
            Err(gabion_guard::undo::UndoError::Torn) => LeftState::NotMade,
            Err(_) => LeftState::Unreadable,
            Ok(record) => {
                let present =
                    Present { boot_id: &self.boot_id, netns: self.netns, value: value.as_deref() };
                match record.decide(&present) {
                    Undo::Write => LeftState::ToUndo,
                    Undo::OtherNamespace => LeftState::OtherNamespace,
                    over => LeftState::Over(over),
                }
            }
        };
        (Left { file, record: parsed.ok(), value, state }, Some(lock))
    }
}

/// A value as its file has it, without the line's end. Masks of CPUs are read in one form.
fn read_value(path: &Path) -> io::Result<String> {
    let mut text = String::new();
    File::open(path)?.take(UNDO_VALUE_BYTES_MAX as u64).read_to_string(&mut text)?;
    let text = text.trim_end_matches('\n');
    let is_mask = path.file_name().is_some_and(|name| name == "rps_cpus");
    Ok(if is_mask { mask(text) } else { text.to_owned() })
}

/// A mask of CPUs in groups of 32, without leading zeros.
fn mask(text: &str) -> String {
    let text = text.trim_start_matches(['0', ',']);
    if text.is_empty() { "0".to_owned() } else { text.to_owned() }
}

/// The mask of these CPUs.
pub(super) fn mask_of(cpus: &[u16]) -> String {
    let groups = cpus.iter().max().map_or(1, |cpu| usize::from(*cpu) / 32 + 1);
    let mut words = vec![0_u32; groups];
    for cpu in cpus {
        if let Some(word) = words.get_mut(usize::from(*cpu) / 32) {
            *word |= 1 << (cpu % 32);
        }
    }
    let text: Vec<String> = words.iter().rev().map(|word| format!("{word:08x}")).collect();
    mask(&text.join(","))
}

/// The CPUs of a mask.
pub(super) fn cpus_of(mask: &str) -> Vec<u16> {
    let mut cpus = Vec::new();
    for (group, text) in mask.trim().rsplit(',').enumerate() {
        let bits = u32::from_str_radix(text, 16).unwrap_or(0);
        let number = |bit: usize| u16::try_from(group * 32 + bit).ok();
        cpus.extend((0..32).filter(|bit| bits >> bit & 1 == 1).filter_map(number));
    }
    cpus
}

fn write_value(path: &Path, value: &str) -> io::Result<()> {
    let mut file = std::fs::OpenOptions::new().write(true).truncate(true).open(path)?;
    file.write_all(value.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Host {
        folder: tempfile::TempDir,
        undo: UndoFolder,
    }

    impl Host {
        fn new() -> Host {
            let folder = tempfile::tempdir().unwrap();
            let undo = UndoFolder::new(&folder.path().join("undo"), Path::new("/"));
            Host { folder, undo }
        }

        fn value(&self, name: &str, value: &str) -> PathBuf {
            let path = self.folder.path().join(name);
            std::fs::write(&path, value).unwrap();
            path
        }

        fn records(&self) -> usize {
            std::fs::read_dir(self.folder.path().join("undo")).map_or(0, Iterator::count)
        }
    }

    #[test]
    fn a_change_is_recorded_made_read_back_and_undone() {
        let host = Host::new();
        let path = host.value("dev_weight", "64\n");
        let made = host.undo.change(&path, "16").unwrap().unwrap();
        assert_eq!((read_value(&path).unwrap().as_str(), host.records()), ("16", 1));
        let survey = host.undo.survey().unwrap();
        assert_eq!(survey[0].state, LeftState::Held, "the record is locked while its guard runs");
        assert!(host.undo.undo_left().unwrap()[0].1.is_ok());
        assert_eq!(read_value(&path).unwrap(), "16", "what a running guard changed stays");
        host.undo.undo(made).unwrap();
        assert_eq!((read_value(&path).unwrap().as_str(), host.records()), ("64", 0));
        assert!(host.undo.change(&path, "64").unwrap().is_none(), "the value is there already");
    }

    #[test]
    fn what_a_killed_guard_left_is_undone_at_the_next_start_and_only_then() {
        let host = Host::new();
        let (a, b) = (host.value("a", "1"), host.value("b", "1"));
        drop(host.undo.change(&a, "2").unwrap());
        drop(host.undo.change(&b, "2").unwrap());
        std::fs::write(&b, "7").unwrap(); // somebody else changed it since
        std::fs::write(host.folder.path().join("undo/1-9.undo"), "what=").unwrap();
        let states = |all: Vec<Left>| all.into_iter().map(|l| l.state).collect::<Vec<_>>();
        let mut found = states(host.undo.survey().unwrap());
        found.sort_by_key(|state| format!("{state:?}"));
        let wanted = [LeftState::NotMade, LeftState::Over(Undo::ChangedSince), LeftState::ToUndo];
        assert_eq!(found, wanted);
        assert!(host.undo.undo_left().unwrap().iter().all(|(_, done)| done.is_ok()));
        assert_eq!(
            (read_value(&a).unwrap().as_str(), read_value(&b).unwrap().as_str()),
            ("1", "7")
        );
        assert_eq!(host.records(), 0);
    }

    #[test]
    fn a_refused_write_is_an_error_with_the_value_that_stays() {
        let host = Host::new();
        // The kernel takes what is written to this file and keeps nothing.
        let e = host.undo.change(Path::new("/dev/null"), "16").unwrap_err().to_string();
        assert_eq!(e, "/dev/null: 16 was written, and  is read back");
        let e = host.undo.change(Path::new("/proc/sys/kernel/ostype"), "x").unwrap_err();
        assert!(matches!(&e, ChangeError::Refused { stays, .. } if stays == "Linux"), "{e}");
        assert!(host.undo.try_write(Path::new("/proc/sys/kernel/ostype")).is_err());
        assert_eq!(host.records(), 0);
        let e = host.undo.change(Path::new("/proc/sys/net/none"), "1").unwrap_err();
        assert!(matches!(e, ChangeError::Unreadable { .. }), "{e}");
    }

    #[test]
    fn nothing_is_changed_where_the_record_can_not_be_written() {
        let host = Host::new();
        let value = host.value("a", "1");
        let undo = UndoFolder::new(&value.join("undo"), Path::new("/"));
        let e = undo.change(&value, "2").unwrap_err();
        assert!(matches!(e, ChangeError::Folder { .. }), "{e}");
        assert_eq!(read_value(&value).unwrap(), "1");
    }

    #[test]
    fn a_change_of_another_boot_or_namespace_is_not_undone() {
        let host = Host::new();
        let value = host.value("a", "1");
        drop(host.undo.change(&value, "2").unwrap());
        let mut other = host.undo.clone();
        other.netns += 1;
        assert_eq!(other.undo_left().unwrap()[0].0.state, LeftState::OtherNamespace);
        assert_eq!((read_value(&value).unwrap().as_str(), host.records()), ("2", 1));
        other.boot_id.push('x');
        assert_eq!(other.undo_left().unwrap()[0].0.state, LeftState::Over(Undo::Gone));
        assert_eq!((read_value(&value).unwrap().as_str(), host.records()), ("2", 0));
    }

    #[test]
    fn a_folder_that_others_may_write_is_refused() {
        use std::os::unix::fs::PermissionsExt;
        let host = Host::new();
        let value = host.value("a", "1");
        drop(host.undo.change(&value, "2").unwrap());
        let folder = host.folder.path().join("undo");
        std::fs::set_permissions(&folder, std::fs::Permissions::from_mode(0o777)).unwrap();
        assert!(host.undo.undo_left().is_err());
        assert_eq!(read_value(&value).unwrap(), "2");
    }

    #[test]
    fn masks_of_cpus_have_one_form() {
        assert_eq!(
            (cpus_of("2,00000003\n"), cpus_of("0"), cpus_of("")),
            (vec![0, 1, 33], vec![], vec![])
        );
        assert_eq!(mask("00000000,00000003"), "3");
        assert_eq!(mask("00000001,00000000"), "1,00000000");
        assert_eq!((mask("0"), mask_of(&[])), ("0".to_owned(), "0".to_owned()));
        assert_eq!(
            (mask_of(&[0, 1, 33]), mask_of(&[5])),
            ("2,00000003".to_owned(), "20".to_owned())
        );
    }
}
