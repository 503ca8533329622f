//! A folder in memory that knows what a crash would leave of it.
//!
//! Each file has what was written and what was synced; names likewise. Operations are counted, and one
//! of them can be made to fail, after doing nothing, half or all of its work. After that every
//! operation fails, as on a machine that is gone, and `after_crash` gives the folder found when it is
//! back: with the writes that were not synced lost, kept, cut short, zero-filled or out of order.

use super::Storage;
use std::collections::BTreeMap;
use std::io::{Error, ErrorKind, Result};
use std::sync::{Arc, Mutex, PoisonError};

/// How the chosen operation fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// It does nothing.
    Nothing,
    /// A write is cut in the middle; anything else does nothing.
    Half,
    /// It does its work and the answer is lost.
    After,
}

/// What is left of writes that were not synced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Left {
    /// None.
    Lost,
    /// All, and all names.
    Kept,
    /// The first half of each.
    Cut,
    /// The file is as long as written, its end reads as zeros.
    Zeros,
    /// The second half of each arrived, the first reads as zeros.
    Reordered,
}

impl Left {
    /// All of them.
    pub const ALL: [Left; 5] = [Left::Lost, Left::Kept, Left::Cut, Left::Zeros, Left::Reordered];
}

#[derive(Clone, Debug, Default)]
struct FileState {
    written: Vec<u8>,
    synced: Vec<u8>,
}

#[derive(Clone, Debug, Default)]
struct Folder {
    files: Vec<FileState>,
    names: BTreeMap<String, usize>,
    synced_names: BTreeMap<String, usize>,
    operations: u64,
    fail_at: Option<(u64, Fault)>,
    is_gone: bool,
    is_locked: bool,
}

/// A folder in memory; clones are the same folder, the lock stays with the one that took it.
#[derive(Debug, Default)]
pub struct Memory {
    folder: Arc<Mutex<Folder>>,
    holds_lock: bool,
}

impl Clone for Memory {
    fn clone(&self) -> Memory {
        Memory { folder: Arc::clone(&self.folder), holds_lock: false }
    }
}

impl Memory {
    /// An empty folder.
    #[must_use]
    pub fn new() -> Memory {
        Memory::default()
    }

    /// Fails at this operation (counted from 1), and at all after it.
    pub fn fail_at(&self, operation: u64, fault: Fault) {
        self.with(|f| f.fail_at = Some((operation, fault)));
    }

    /// Operations so far that change something.
    #[must_use]
    pub fn operations(&self) -> u64 {
        self.with(|f| f.operations)
    }

    /// Whether the chosen operation came.
    #[must_use]
    pub fn is_gone(&self) -> bool {
        self.with(|f| f.is_gone)
    }

    /// What is found after the crash: a folder of its own, unlocked, that works.
    #[must_use]
    pub fn after_crash(&self, left: Left) -> Memory {
        let folder = self.with(|f| f.clone());
        let names = if left == Left::Lost { &folder.synced_names } else { &folder.names };
        let mut after = Folder::default();
        for (name, id) in names {
            let bytes = folder.files.get(*id).map(|f| survive(f, left)).unwrap_or_default();
            after.names.insert(name.clone(), after.files.len());
            after.files.push(FileState { synced: bytes.clone(), written: bytes });
        }
        after.synced_names = after.names.clone();
        Memory { folder: Arc::new(Mutex::new(after)), holds_lock: false }
    }

    /// A copy of everything as it is, as a backup or a snapshot is.
    #[must_use]
    pub fn snapshot(&self) -> Memory {
        self.after_crash(Left::Kept)
    }

    /// Puts a file there or replaces it, as somebody does who can write to the disk.
    pub fn put(&self, name: &str, bytes: &[u8]) {
        self.with(|f| {
            let state = FileState { written: bytes.to_vec(), synced: bytes.to_vec() };
            f.names.insert(name.to_owned(), f.files.len());
            f.synced_names.insert(name.to_owned(), f.files.len());
            f.files.push(state);
        });
    }

    /// Takes a file away, as somebody does who can write to the disk.
    pub fn delete(&self, name: &str) {
        self.with(|f| {
            f.names.remove(name);
            f.synced_names.remove(name);
        });
    }

    /// A file's bytes.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<Vec<u8>> {
        self.with(|f| f.names.get(name).and_then(|id| f.files.get(*id)).map(|f| f.written.clone()))
    }

    /// Bytes of all files.
    #[must_use]
    pub fn total_len(&self) -> u64 {
        self.with(|f| {
            f.names.values().filter_map(|id| f.files.get(*id)).map(|f| f.written.len() as u64).sum()
        })
    }

    fn with<T>(&self, f: impl FnOnce(&mut Folder) -> T) -> T {
        f(&mut self.folder.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Counts an operation and does it, unless it is the one that fails.
    fn change(&self, work: impl FnOnce(&mut Folder, bool) -> Result<()>) -> Result<()> {
        let gone = || Error::other("the machine is gone");
        self.with(|f| {
            if f.is_gone {
                return Err(gone());
            }
            f.operations += 1;
            match f.fail_at {
                Some((at, fault)) if at == f.operations => {
                    match fault {
                        Fault::Nothing => {}
                        Fault::Half => work(f, true)?,
                        Fault::After => work(f, false)?,
                    }
                    f.is_gone = true;
                    Err(gone())
                }
                _ => work(f, false),
            }
        })
    }
}

fn survive(file: &FileState, left: Left) -> Vec<u8> {
    let (written, synced) = (&file.written, &file.synced);
    let same = written.iter().zip(synced).take_while(|(a, b)| a == b).count();
    // What was overwritten in place ends where old and new agree again.
    let end = if written.len() == synced.len() {
        let tail = written.iter().rev().zip(synced.iter().rev()).take_while(|(a, b)| a == b);
        written.len() - tail.count().min(written.len() - same)
    } else {
        written.len()
    };
    let middle = same + (end - same) / 2;
    let is_in_place = written.len() == synced.len();
    let old = |range: std::ops::Range<usize>| match synced.get(range.clone()) {
        Some(bytes) if is_in_place => bytes.to_vec(),
        _ => vec![0; range.len()],
    };
    match left {
        Left::Lost => synced.clone(),
        Left::Kept => written.clone(),
        _ if written == synced => synced.clone(),
        Left::Cut if is_in_place => [&written[..middle], &synced[middle..]].concat(),
        Left::Cut => written[..middle].to_vec(),
        Left::Zeros => [&written[..middle], &vec![0; end - middle], &written[end..]].concat(),
        Left::Reordered => [&written[..same], &old(same..middle), &written[middle..]].concat(),
    }
}

impl Folder {
    fn file(&mut self, name: &str) -> Result<&mut FileState> {
        let id = self.names.get(name).copied();
        id.and_then(|id| self.files.get_mut(id)).ok_or_else(|| ErrorKind::NotFound.into())
    }
}

impl Storage for Memory {
    fn lock(&mut self) -> Result<bool> {
        let holds = self.holds_lock;
        let taken = self.with(|f| holds || !std::mem::replace(&mut f.is_locked, true));
        self.holds_lock = taken;
        Ok(taken)
    }

    fn is_locked(&self) -> Result<bool> {
        Ok(self.with(|f| f.is_locked))
    }

    fn list(&self) -> Result<Vec<String>> {
        Ok(self.with(|f| f.names.keys().cloned().collect()))
    }

    fn len(&self, name: &str) -> Result<Option<u64>> {
        Ok(self.with(|f| f.file(name).ok().map(|f| f.written.len() as u64)))
    }

    fn read_at(&self, name: &str, offset: u64, buffer: &mut [u8]) -> Result<usize> {
        self.with(|f| {
            let bytes = &f.file(name)?.written;
            let rest =
                usize::try_from(offset).ok().and_then(|o| bytes.get(o..)).unwrap_or_default();
            let n = rest.len().min(buffer.len());
            buffer[..n].copy_from_slice(&rest[..n]);
            Ok(n)
        })
    }

    fn write_new(&mut self, name: &str, bytes: &[u8]) -> Result<()> {
        self.change(|f, is_half| {
            let len = if is_half { bytes.len() / 2 } else { bytes.len() };
            f.names.insert(name.to_owned(), f.files.len());
            f.files.push(FileState { written: bytes[..len].to_vec(), synced: Vec::new() });
            Ok(())
        })
    }

    fn append(&mut self, name: &str, bytes: &[u8]) -> Result<()> {
        self.change(|f, is_half| {
            let len = if is_half { bytes.len() / 2 } else { bytes.len() };
            f.file(name)?.written.extend_from_slice(&bytes[..len]);
            Ok(())
        })
    }

    fn write_at(&mut self, name: &str, offset: u64, bytes: &[u8]) -> Result<()> {
        self.change(|f, is_half| {
            let file = f.file(name)?;
            let start = offset as usize;
            let len = if is_half { bytes.len() / 2 } else { bytes.len() };
            if file.written.len() < start + len {
                file.written.resize(start + len, 0);
            }
            file.written[start..start + len].copy_from_slice(&bytes[..len]);
            Ok(())
        })
    }

    fn truncate(&mut self, name: &str, len: u64) -> Result<()> {
        self.change(|f, is_half| {
            if !is_half {
                f.file(name)?.written.truncate(len as usize);
            }
            Ok(())
        })
    }

    fn sync(&mut self, name: &str) -> Result<()> {
        self.change(|f, is_half| {
            let file = f.file(name)?;
            if !is_half {
                file.synced.clone_from(&file.written);
            }
            Ok(())
        })
    }

    fn rename(&mut self, from: &str, to: &str, replace: bool) -> Result<()> {
        self.change(|f, is_half| {
            if !replace && f.names.contains_key(to) {
                return Err(ErrorKind::AlreadyExists.into());
            }
            if !is_half {
                let id = f.names.remove(from).ok_or_else(|| Error::from(ErrorKind::NotFound))?;
                f.names.insert(to.to_owned(), id);
            }
            Ok(())
        })
    }

    fn remove(&mut self, name: &str) -> Result<()> {
        self.change(|f, is_half| {
            if !is_half {
                f.names.remove(name).ok_or_else(|| Error::from(ErrorKind::NotFound))?;
            }
            Ok(())
        })
    }

    fn sync_names(&mut self) -> Result<()> {
        self.change(|f, is_half| {
            if !is_half {
                f.synced_names = f.names.clone();
            }
            Ok(())
        })
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        if self.holds_lock {
            self.with(|f| f.is_locked = false);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_crash_leaves_what_was_synced_and_perhaps_more() {
        let mut memory = Memory::new();
        memory.create("a", b"12").unwrap();
        memory.append("a", b"3456").unwrap();
        let after = |left| memory.after_crash(left).get("a");
        assert_eq!(after(Left::Lost).unwrap(), b"12");
        assert_eq!(after(Left::Kept).unwrap(), b"123456");
        assert_eq!(after(Left::Cut).unwrap(), b"1234");
        assert_eq!(after(Left::Zeros).unwrap(), b"1234\0\0");
        assert_eq!(after(Left::Reordered).unwrap(), b"12\0\x0056");
    }

    #[test]
    fn the_chosen_operation_fails_and_all_after_it() {
        let mut memory = Memory::new();
        memory.create("a", b"12").unwrap();
        assert_eq!(memory.operations(), 4);
        memory.fail_at(5, Fault::Half);
        assert!(memory.append("a", b"3456").is_err());
        assert!(memory.sync("a").is_err() && memory.is_gone());
        assert_eq!(memory.after_crash(Left::Kept).get("a").unwrap(), b"1234");
        assert_eq!(memory.after_crash(Left::Lost).get("a").unwrap(), b"12");
    }
}
