//! A folder of the machine. Its caller has it opened, and may hand it over; all files in it are opened below it.
//!
//! A log may be recovered by root in a folder that others can write to, so no symbolic link is followed
//! and nothing but regular files is opened.

use super::{FolderFault, NotRegularFile, Storage};
use crate::identity;
use crate::limits::{LISTINGS, LOCK_TRIES, OPEN_FILES_MAX};
use gabion_record::files::{FileOpener, OpenMode};
use rustix::fs::{
    AtFlags, Dir, FileType, FlockOperation, Mode, OFlags, RenameFlags, fdatasync, flock, fstat,
    fsync, ftruncate, openat, renameat_with, statat, unlinkat,
};
use std::collections::HashMap;
use std::fs::File;
use std::io::{Error, ErrorKind, Result};
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

/// How long after each try a lock is tried for again.
const LOCK_PAUSE: std::time::Duration = std::time::Duration::from_millis(10);

/// A folder of the machine.
#[derive(Debug)]
pub struct Files {
    folder: OwnedFd,
    lock: Option<OwnedFd>,
    writing: HashMap<String, File>,
    reading: Mutex<HashMap<String, Arc<File>>>,
}

impl Files {
    /// Opens a folder that is there, through `opener`.
    pub fn open(opener: &FileOpener, path: &Path) -> Result<Files> {
        Ok(Files::from_folder(opener.open(path, OpenMode::Folder)?.into()))
    }

    /// What is in a folder that was opened.
    pub fn from_folder(folder: OwnedFd) -> Files {
        Files { folder, lock: None, writing: HashMap::new(), reading: Mutex::new(HashMap::new()) }
    }

    /// Makes the folder, for its owner alone, and opens it, through `opener`.
    pub fn create_folder(opener: &FileOpener, path: &Path) -> Result<Files> {
        Ok(Files::from_folder(opener.open(path, OpenMode::CreateFolder)?.into()))
    }

    /// Opens the folder of a log. A pipe or device in the place of its identity is refused, also for those that need
    /// not read it.
    ///
    /// # Errors
    /// What the system says, with what to do about it.
    pub fn open_log(opener: &FileOpener, path: &Path) -> std::result::Result<Files, FolderFault> {
        let path = path.to_owned();
        let files = match Files::open(opener, &path) {
            Ok(files) => files,
            Err(source) => return Err(FolderFault::NotOpened { path, source }),
        };
        match files.len(identity::FILE) {
            Ok(_) => Ok(files),
            Err(source) => Err(FolderFault::NoLog { path, source }),
        }
    }

    /// The kind of file system, by its magic number.
    #[must_use]
    pub fn file_system(&self) -> Option<i64> {
        rustix::fs::fstatfs(&self.folder).ok().map(|s| s.f_type)
    }

    fn open_file(&self, name: &str, flags: OFlags) -> Result<File> {
        let flags = flags | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK;
        let file = openat(&self.folder, name, flags, Mode::RUSR | Mode::WUSR | Mode::RGRP)?;
        let stat = fstat(&file)?;
        if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
            return Err(NotRegularFile { name: name.to_owned() }.into());
        }
        // Anybody who can write into the folder could have given a file of somebody else's this name, too.
        let is_written = flags.intersects(OFlags::RDWR | OFlags::WRONLY);
        if is_written && stat.st_nlink > 1 && self.is_shared()? {
            let text = format!("{name} is a link in a folder that others may write");
            return Err(Error::other(text));
        }
        Ok(File::from(file))
    }

    /// Whether others than this user and the machine's administrator may put files into the folder.
    fn is_shared(&self) -> Result<bool> {
        let folder = fstat(&self.folder)?;
        let me = rustix::process::geteuid().as_raw();
        Ok(folder.st_mode & 0o022 != 0 || ![me, 0].contains(&folder.st_uid))
    }

    fn for_writing(&mut self, name: &str) -> Result<&File> {
        if !self.writing.contains_key(name) {
            let file = self.open_file(name, OFlags::RDWR)?;
            self.writing.insert(name.to_owned(), file);
        }
        self.writing.get(name).ok_or_else(|| Error::other("unreachable"))
    }

    fn forget(&mut self, name: &str) {
        self.writing.remove(name);
        self.reading.lock().unwrap_or_else(PoisonError::into_inner).remove(name);
    }
}

impl Files {
    /// The names of the log's files at one look.
    fn names(&self) -> Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in Dir::read_from(&self.folder)? {
            let entry = entry?;
            let Ok(name) = entry.file_name().to_str() else { continue };
            if name == "." || name == ".." {
                continue;
            }
            let kind = match entry.file_type() {
                FileType::Unknown => FileType::from_raw_mode(
                    statat(&self.folder, name, AtFlags::SYMLINK_NOFOLLOW)?.st_mode,
                ),
                known => known,
            };
            if kind == FileType::RegularFile {
                names.push(name.to_owned());
            } else if crate::format::segment::parse_file_name(name).is_some()
                || name == "checkpoints"
                || name == "log.id"
            {
                return Err(NotRegularFile { name: name.to_owned() }.into());
            }
        }
        names.sort();
        Ok(names)
    }
}

impl Storage for Files {
    fn lock(&mut self) -> Result<bool> {
        if self.lock.is_some() {
            return Ok(true);
        }
        let file = self.open_file("lock", OFlags::RDWR | OFlags::CREATE)?;
        // A program that asks whether the folder is locked holds it shared for a moment.
        let mut tries = 0;
        while let Err(e) = flock(&file, FlockOperation::NonBlockingLockExclusive) {
            tries += 1;
            if e != rustix::io::Errno::WOULDBLOCK {
                return Err(e.into());
            }
            if tries == LOCK_TRIES {
                return Ok(false);
            }
            std::thread::sleep(LOCK_PAUSE);
        }
        file.set_len(0)?;
        file.write_all_at(format!("pid {}\n", std::process::id()).as_bytes(), 0)?;
        self.lock = Some(file.into());
        Ok(true)
    }

    fn is_locked(&self) -> Result<bool> {
        if self.len("lock")?.is_none() {
            return Ok(false);
        }
        let file = self.open_file("lock", OFlags::RDONLY)?;
        match flock(&file, FlockOperation::NonBlockingLockShared) {
            Ok(()) => Ok(false),
            Err(e) if e == rustix::io::Errno::WOULDBLOCK => Ok(true),
            Err(e) => Err(e.into()),
        }
    }

    fn list(&self) -> Result<Vec<String>> {
        // While it is read a folder may change such that neither a name nor the one in its place is seen.
        let mut before = self.names()?;
        for _ in 0..LISTINGS {
            let names = self.names()?;
            if names == before {
                break;
            }
            before = names;
        }
        Ok(before)
    }

    fn len(&self, name: &str) -> Result<Option<u64>> {
        match statat(&self.folder, name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) if FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile => {
                Ok(Some(u64::try_from(stat.st_size).unwrap_or(0)))
            }
            Ok(_) => Err(NotRegularFile { name: name.to_owned() }.into()),
            Err(e) if e == rustix::io::Errno::NOENT => Ok(None),
            Err(e) => Err(e.into()),
        }
    }

    fn read_at(&self, name: &str, offset: u64, buffer: &mut [u8]) -> Result<usize> {
        let file = {
            let mut open = self.reading.lock().unwrap_or_else(PoisonError::into_inner);
            match open.get(name) {
                Some(file) => Arc::clone(file),
                None => {
                    if open.len() >= OPEN_FILES_MAX {
                        open.clear();
                    }
                    let file = Arc::new(self.open_file(name, OFlags::RDONLY)?);
                    open.insert(name.to_owned(), Arc::clone(&file));
                    file
                }
            }
        };
        let mut read = 0;
        while let Some(rest) = buffer.get_mut(read..).filter(|r| !r.is_empty()) {
            match file.read_at(rest, offset.saturating_add(read as u64)) {
                Ok(0) => break,
                Ok(n) => read += n,
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(e) => return Err(e),
            }
        }
        Ok(read)
    }

    fn write_new(&mut self, name: &str, bytes: &[u8]) -> Result<()> {
        self.forget(name);
        let file = self.open_file(name, OFlags::RDWR | OFlags::CREATE)?;
        file.set_len(0)?;
        file.write_all_at(bytes, 0)?;
        self.writing.insert(name.to_owned(), file);
        Ok(())
    }

    fn append(&mut self, name: &str, bytes: &[u8]) -> Result<()> {
        let file = self.for_writing(name)?;
        let end = file.metadata()?.len();
        file.write_all_at(bytes, end)
    }

    fn write_at(&mut self, name: &str, offset: u64, bytes: &[u8]) -> Result<()> {
        self.for_writing(name)?.write_all_at(bytes, offset)
    }

    fn truncate(&mut self, name: &str, len: u64) -> Result<()> {
        Ok(ftruncate(self.for_writing(name)?, len)?)
    }

    fn sync(&mut self, name: &str) -> Result<()> {
        Ok(fdatasync(self.for_writing(name)?)?)
    }

    fn rename(&mut self, from: &str, to: &str, replace: bool) -> Result<()> {
        self.forget(to);
        let flags = if replace { RenameFlags::empty() } else { RenameFlags::NOREPLACE };
        renameat_with(&self.folder, from, &self.folder, to, flags)?;
        self.reading.lock().unwrap_or_else(PoisonError::into_inner).remove(from);
        if let Some(file) = self.writing.remove(from) {
            self.writing.insert(to.to_owned(), file);
        }
        Ok(())
    }

    fn remove(&mut self, name: &str) -> Result<()> {
        self.forget(name);
        Ok(unlinkat(&self.folder, name, AtFlags::empty())?)
    }

    fn sync_names(&mut self) -> Result<()> {
        Ok(fsync(&self.folder)?)
    }

    fn is_there(&self) -> Result<()> {
        // By descriptor: a folder that was moved on its disk is still the log's.
        if fstat(&self.folder)?.st_nlink == 0 {
            return Err(Error::other("the folder was deleted while it was written"));
        }
        for (name, file) in &self.writing {
            if fstat(file)?.st_nlink == 0 {
                return Err(Error::other(format!("{name} was deleted while it was written")));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gabion_runtime::files::direct_opener;

    #[test]
    fn what_is_deleted_is_missed_and_what_is_moved_is_not() {
        let place = tempfile::tempdir().unwrap();
        let (folder, moved) = (place.path().join("log"), place.path().join("moved"));
        let mut files = Files::create_folder(&direct_opener(), &folder).unwrap();
        files.create("a", b"one").unwrap();
        files.append("a", b" two").unwrap();
        std::fs::rename(&folder, &moved).unwrap();
        files.is_there().unwrap();
        std::fs::rename(moved.join("a"), moved.join("b")).unwrap();
        files.is_there().unwrap();
        std::fs::remove_file(moved.join("b")).unwrap();
        assert!(files.is_there().unwrap_err().to_string().starts_with("a was deleted"));
        let files = Files::open(&direct_opener(), &moved).unwrap();
        files.is_there().unwrap();
        std::fs::remove_dir(&moved).unwrap();
        assert!(files.is_there().unwrap_err().to_string().starts_with("the folder was deleted"));
    }

    #[test]
    fn a_folder_keeps_what_is_written_and_refuses_links() {
        let folder = tempfile::tempdir().unwrap();
        let mut files = Files::open(&direct_opener(), folder.path()).unwrap();
        files.create("a", b"one").unwrap();
        assert!(files.create("a", b"two").is_err(), "a name that is taken");
        files.append("a", b" two").unwrap();
        files.write_at("a", 0, b"O").unwrap();
        files.sync("a").unwrap();
        assert_eq!(files.read_file("a", 100).unwrap().unwrap(), b"One two");
        files.truncate("a", 3).unwrap();
        assert_eq!(files.len("a").unwrap(), Some(3));
        files.replace("a", b"three").unwrap();
        assert_eq!(files.read_file("a", 100).unwrap().unwrap(), b"three");
        assert!(files.read_file("a", 4).is_err());
        assert_eq!(files.read_file("b", 4).unwrap(), None);
        std::os::unix::fs::symlink("a", folder.path().join("checkpoints")).unwrap();
        assert!(files.list().is_err());
        assert!(files.read_file("checkpoints", 100).is_err());
        assert!(files.append("checkpoints", b"x").is_err());
        files.remove("checkpoints").unwrap();
        files.remove("a.tmp").unwrap_err();
        assert!(files.lock().unwrap() && files.lock().unwrap());
        assert!(!Files::open(&direct_opener(), folder.path()).unwrap().lock().unwrap());
        assert!(Files::open(&direct_opener(), folder.path()).unwrap().is_locked().unwrap());
        assert_eq!(files.list().unwrap(), ["a", "lock"]);
    }

    /// A name of somebody else's file is written in one's own folder alone.
    #[test]
    fn another_s_file_is_not_written_where_others_could_have_linked_it() {
        use std::os::unix::fs::PermissionsExt;
        let folder = tempfile::tempdir().unwrap();
        let (log, victim) = (folder.path().join("log"), folder.path().join("victim"));
        std::fs::create_dir(&log).unwrap();
        std::fs::write(&victim, "precious").unwrap();
        std::fs::hard_link(&victim, log.join("reserve")).unwrap();
        for (mode, is_good) in [(0o1777, false), (0o700, true)] {
            std::fs::set_permissions(&log, PermissionsExt::from_mode(mode)).unwrap();
            let written = Files::open(&direct_opener(), &log).unwrap().write_at("reserve", 0, b"P");
            assert_eq!(written.is_ok(), is_good, "{mode:o}");
        }
        assert_eq!(std::fs::read(&victim).unwrap(), b"Precious");
    }

    /// A folder that somebody else has opened is enough: nothing is opened by its path.
    #[test]
    fn a_folder_is_taken_open() {
        let place = tempfile::tempdir().unwrap();
        let (folder, moved) = (place.path().join("log"), place.path().join("moved"));
        std::fs::create_dir(&folder).unwrap();
        let mut files = Files::from_folder(File::open(&folder).unwrap().into());
        std::fs::rename(&folder, &moved).unwrap();
        files.create("a", b"one").unwrap();
        assert_eq!(std::fs::read(moved.join("a")).unwrap(), b"one");
        let refused = FileOpener::new(|_, _| Err(ErrorKind::PermissionDenied.into()));
        for opened in [Files::open(&refused, &moved), Files::create_folder(&refused, &folder)] {
            assert_eq!(opened.unwrap_err().kind(), ErrorKind::PermissionDenied);
        }
        assert!(!folder.exists());
    }
}
