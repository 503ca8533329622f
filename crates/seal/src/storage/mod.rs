//! What a log lies on: one folder of flat names, with the few operations the format needs and nothing
//! that lacks a clear meaning for durability.
//!
//! `Files` is a folder of the machine. `Memory` holds everything in memory, knows what was synced and
//! what was not, and can fail at a chosen operation and then show what a crash may leave: every
//! argument about crashes in the format's description is tested on it.

mod files;
mod memory;

pub use files::Files;
pub use memory::{Fault, Left, Memory};

use std::io::Result;

/// Something that is no regular file stands under the name of one.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{name} is not a regular file")]
pub struct NotRegularFile {
    /// The name.
    pub name: String,
}

impl From<NotRegularFile> for std::io::Error {
    fn from(e: NotRegularFile) -> std::io::Error {
        std::io::Error::other(e)
    }
}

/// A folder that should hold a log can't be read.
#[derive(Debug, thiserror::Error)]
pub enum FolderFault {
    /// It can't be opened.
    #[error("{}: {source}: {}", path.display(), folder_advice(source))]
    NotOpened {
        /// The folder.
        path: std::path::PathBuf,
        /// What the system says.
        source: std::io::Error,
    },
    /// What stands in it as the log's identity can't be that.
    #[error("{}: {source}", path.display())]
    NoLog {
        /// The folder.
        path: std::path::PathBuf,
        /// What is wrong.
        source: std::io::Error,
    },
}

fn folder_advice(e: &std::io::Error) -> &'static str {
    match e.kind() {
        std::io::ErrorKind::NotFound => {
            "name the folder of a log, or make one with `gabion log init`"
        }
        std::io::ErrorKind::NotADirectory => "a log is a folder: name the one that holds log.id",
        std::io::ErrorKind::PermissionDenied => "run this as a user who may read it",
        _ => "name the folder of a log",
    }
}

/// What kind of failure a storage reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum StorageFault {
    /// What was asked for is not there.
    NotFound,
    /// [`NotRegularFile`].
    NotRegularFile,
    /// There is no room, or none for this user.
    Full,
    /// Anything else.
    Other,
}

impl StorageFault {
    /// The kind of an error that a storage gave.
    #[must_use]
    pub fn from_io(e: &std::io::Error) -> StorageFault {
        use std::io::ErrorKind::{FileTooLarge, NotFound, QuotaExceeded, StorageFull};
        match e.kind() {
            NotFound => StorageFault::NotFound,
            StorageFull | QuotaExceeded | FileTooLarge => StorageFault::Full,
            _ if e.get_ref().is_some_and(|e| e.is::<NotRegularFile>()) => {
                StorageFault::NotRegularFile
            }
            _ => StorageFault::Other,
        }
    }
}

/// A folder of files.
pub trait Storage: Send + Sync {
    /// Takes the folder for writing; `false` when another has it. Held until the storage is dropped.
    fn lock(&mut self) -> Result<bool>;

    /// Whether somebody holds the folder for writing now.
    fn is_locked(&self) -> Result<bool>;

    /// Names of all regular files; an error when something else stands among those that are ours.
    fn list(&self) -> Result<Vec<String>>;

    /// Length of a file; `None` when there is none.
    fn len(&self, name: &str) -> Result<Option<u64>>;

    /// Reads from this offset until the buffer is full or the file ends; gives the bytes read.
    fn read_at(&self, name: &str, offset: u64, buffer: &mut [u8]) -> Result<usize>;

    /// Makes a file with these bytes, or an empty one that had others. Not durable.
    fn write_new(&mut self, name: &str, bytes: &[u8]) -> Result<()>;

    /// Appends to a file that is there. Not durable.
    fn append(&mut self, name: &str, bytes: &[u8]) -> Result<()>;

    /// Overwrites within a file that is there. Not durable.
    fn write_at(&mut self, name: &str, offset: u64, bytes: &[u8]) -> Result<()>;

    /// Cuts a file. Not durable.
    fn truncate(&mut self, name: &str, len: u64) -> Result<()>;

    /// Makes the content of a file durable.
    fn sync(&mut self, name: &str) -> Result<()>;

    /// Gives a file another name; without `replace`, fails when that is taken. Not durable.
    fn rename(&mut self, from: &str, to: &str, replace: bool) -> Result<()>;

    /// Removes a file. Not durable.
    fn remove(&mut self, name: &str) -> Result<()>;

    /// Makes names durable.
    fn sync_names(&mut self) -> Result<()>;

    /// Whether the folder, and the files in it that were written, still have a name. What is written into
    /// files without one is on the disk until they are closed, and then nowhere. An error names what is gone.
    fn is_there(&self) -> Result<()> {
        Ok(())
    }

    /// A new file, durable when this returns; fails when the name is taken.
    fn create(&mut self, name: &str, bytes: &[u8]) -> Result<()> {
        let temporary = format!("{name}.tmp");
        self.write_new(&temporary, bytes)?;
        self.sync(&temporary)?;
        self.rename(&temporary, name, false)?;
        self.sync_names()
    }

    /// A file with other content, durable when this returns; at every moment it has the old or the new.
    fn replace(&mut self, name: &str, bytes: &[u8]) -> Result<()> {
        let temporary = format!("{name}.tmp");
        self.write_new(&temporary, bytes)?;
        self.sync(&temporary)?;
        self.rename(&temporary, name, true)?;
        self.sync_names()
    }

    /// A whole file of at most this many bytes; `None` when there is none.
    fn read_file(&self, name: &str, most: u64) -> Result<Option<Vec<u8>>> {
        let Some(len) = self.len(name)? else { return Ok(None) };
        if len > most {
            return Err(std::io::Error::other(format!("{name}: {len} bytes, {most} are the most")));
        }
        let mut bytes = vec![0; len as usize];
        let read = self.read_at(name, 0, &mut bytes)?;
        bytes.truncate(read);
        Ok(Some(bytes))
    }
}
