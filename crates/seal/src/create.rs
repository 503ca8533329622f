//! A new log in folders of the file system: makes them, with those above them, and undoes that where it fails.

use crate::error::Error;
use crate::format::epoch::EpochKey;
use crate::identity::Identity;
use crate::recipient::Recipient;
use crate::storage::{Files, Storage};
use crate::writer::Init;
use gabion_record::files::FileOpener;
use gabion_record::hex::from_hex;
use std::fs::DirBuilder;
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use zeroize::Zeroizing;

/// File of a signer's first seed in its state, until a log is made with it.
pub const SEED_FILE: &str = "seed";

/// File of the readers' public keys in the signer's state: in the log's folder, anybody with write access to
/// the disk could add a key.
pub const RECIPIENTS_FILE: &str = "recipients";

/// File systems by the magic number of `statfs`: where writing in place does not overwrite, or where a
/// lock does not hold for other machines.
const FILE_SYSTEMS: &[(i64, &str, bool)] = &[
    (0x9123_683e, "btrfs", false),
    (0x2fc1_2fc1, "ZFS", false),
    (0xca45_1a4e, "bcachefs", false),
    (0xf2f5_2010, "f2fs", false),
    (0x794c_7630, "overlayfs", false),
    (0x6969, "NFS", true),
    (0xff53_4d42, "CIFS", true),
    (0xfe53_4d42, "SMB", true),
    (0x6573_5546, "FUSE", true),
    (0x5346_414f, "AFS", true),
    (0x00c3_6400, "Ceph", true),
];

/// A log to make.
#[derive(Clone, Copy, Debug)]
pub struct NewLog<'a> {
    /// What opens its folders.
    pub files: &'a FileOpener,
    /// The log's folder.
    pub log: &'a Path,
    /// The folder of its signer's state.
    pub state: &'a Path,
    /// Its name in checkpoints.
    pub origin: &'a str,
    /// Its readers.
    pub recipients: &'a [Recipient],
    /// A checkpoint is signed after this many chunks at most,
    pub checkpoint_chunks: u64,
    /// or seconds.
    pub checkpoint_seconds: u64,
    /// It may be where locks do not hold for other machines.
    pub allows_network: bool,
    /// Now, nanoseconds since 1970.
    pub now_ns: u64,
}

/// Why a log can't be made.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CreateError {
    /// A folder can't be made.
    #[error("{}: {source}: name a folder that can be written", .path.display())]
    Folder {
        /// The folder.
        path: PathBuf,
        /// The error of the operating system.
        source: io::Error,
    },
    /// Locks may not hold for other machines there.
    #[error("{}: {file_system}: locks of a network file system may not keep a second writer out", .path.display())]
    Network {
        /// The folder.
        path: PathBuf,
        /// The name of the file system.
        file_system: &'static str,
    },
    /// The seed that was prepared can't be read.
    #[error("{}: {source}", .path.display())]
    UnreadableSeed {
        /// The folder of the signer's state.
        path: PathBuf,
        /// The error of the operating system.
        source: io::Error,
    },
    /// What should be a seed is none.
    #[error("{}: not a seed", .path.display())]
    NoSeed {
        /// The file.
        path: PathBuf,
    },
    /// The signer's state can't be written.
    #[error("{}: {source}", .path.display())]
    State {
        /// The file or folder.
        path: PathBuf,
        /// The error of the operating system.
        source: io::Error,
    },
    /// The key of a seed can't be made.
    #[error("{0}")]
    Key(#[source] Error),
    /// The log can't be written.
    #[error("{}: {source}", .path.display())]
    Log {
        /// Its folder.
        path: PathBuf,
        /// The error of the log.
        source: Error,
    },
}

/// A log that was made, and the folders that were made for it.
#[derive(Debug)]
pub struct Created {
    /// What the log is.
    pub identity: Identity,
    folders: Folders,
}

impl Created {
    /// Removes the folders that were made: a log that nothing was written to holds nothing.
    pub fn remove(&self) {
        self.folders.remove();
    }
}

/// Folders that were made for a log.
#[derive(Debug, Default)]
struct Folders {
    /// Those above its own.
    parents: Vec<PathBuf>,
    /// Its own that were not there.
    own: Vec<PathBuf>,
}

impl Folders {
    /// Makes what is missing above a folder.
    fn above(&mut self, path: &Path) -> Result<(), CreateError> {
        let is_missing = |p: &&Path| !p.as_os_str().is_empty() && !p.exists();
        let mut missing: Vec<&Path> = path.ancestors().take_while(is_missing).collect();
        missing.reverse();
        for folder in missing {
            if folder == path {
                self.own.push(folder.to_path_buf());
                continue;
            }
            DirBuilder::new()
                .mode(0o755)
                .create(folder)
                .map_err(|source| CreateError::Folder { path: folder.to_owned(), source })?;
            self.parents.push(folder.to_path_buf());
        }
        Ok(())
    }

    fn remove(&self) {
        for folder in &self.own {
            let _ = std::fs::remove_dir_all(folder);
        }
        for folder in self.parents.iter().rev() {
            // Only where nobody else has put something there meanwhile.
            let _ = std::fs::remove_dir(folder);
        }
    }
}

impl NewLog<'_> {
    /// Makes the log. `warn` receives what the operator should know of the file system.
    ///
    /// # Errors
    /// When it can't be made; then nothing of it stays.
    pub fn create(&self, warn: &mut dyn FnMut(String)) -> Result<Created, CreateError> {
        let mut folders = Folders::default();
        match self.create_in(&mut folders, warn) {
            Ok(identity) => Ok(Created { identity, folders }),
            Err(e) => {
                folders.remove();
                Err(e)
            }
        }
    }

    fn create_in(
        &self,
        folders: &mut Folders,
        warn: &mut dyn FnMut(String),
    ) -> Result<Identity, CreateError> {
        folders.above(self.log)?;
        folders.above(self.state)?;
        let folder = |path: &Path| {
            Files::create_folder(self.files, path)
                .map_err(|source| CreateError::Folder { path: path.to_owned(), source })
        };
        let (mut log, state) = (folder(self.log)?, folder(self.state)?);
        for (files, path) in [(&log, self.log), (&state, self.state)] {
            self.check_file_system(files, path, warn)?;
        }
        let init = Init {
            origin: self.origin.to_owned(),
            checkpoint_chunks: self.checkpoint_chunks.max(1),
            checkpoint_seconds: self.checkpoint_seconds.max(1),
            now_ns: self.now_ns,
        };
        let key = prepared_key(&state, self.state)?;
        let is_prepared = key.is_some();
        let made = match key {
            Some(key) => init.create_with_key(&mut log, state, key),
            None => init.create(&mut log, state),
        };
        let identity =
            made.map_err(|source| CreateError::Log { path: self.log.to_owned(), source })?;
        store_recipients(self.files, self.state, self.recipients)?;
        if is_prepared {
            erase_seed(self.files, self.state)?;
        }
        Ok(identity)
    }

    fn check_file_system(
        &self,
        files: &Files,
        path: &Path,
        warn: &mut dyn FnMut(String),
    ) -> Result<(), CreateError> {
        let Some(kind) = files.file_system() else { return Ok(()) };
        let found = FILE_SYSTEMS.iter().find(|(k, _, _)| *k == kind & 0xffff_ffff);
        let (name, is_network) = match found {
            Some((_, name, is_network)) => (*name, *is_network),
            None if keeps_data_in_journal(path) => ("ext4 with data=journal", false),
            None => return Ok(()),
        };
        if is_network && !self.allows_network {
            return Err(CreateError::Network { path: path.to_owned(), file_system: name });
        }
        warn(format!(
            "{}: {name}: what is overwritten lives on in old blocks, so erasing an epoch's key is not real here: put --state on ext4 or xfs",
            path.display()
        ));
        Ok(())
    }
}

/// Stores the readers' public keys with the signer, for those who write later.
///
/// # Errors
/// When the file can't be written.
pub fn store_recipients(
    files: &FileOpener,
    state: &Path,
    recipients: &[Recipient],
) -> Result<(), CreateError> {
    let text: String = recipients.iter().map(|r| r.to_text()).collect();
    // Atomically, and with any umask: an attacker who could write here would be able to read the log from then on.
    Files::open(files, state)
        .and_then(|mut f| f.replace(RECIPIENTS_FILE, text.as_bytes()))
        .map_err(|source| CreateError::State { path: state.join(RECIPIENTS_FILE), source })
}

/// The key that was prepared in the state folder.
fn prepared_key(state: &Files, path: &Path) -> Result<Option<EpochKey>, CreateError> {
    let bytes = state
        .read_file(SEED_FILE, 64)
        .map_err(|source| CreateError::UnreadableSeed { path: path.to_owned(), source })?;
    let Some(bytes) = bytes.map(Zeroizing::new) else { return Ok(None) };
    let seed: [u8; 32] = from_hex(&bytes)
        .and_then(|s| s.try_into().ok())
        .ok_or_else(|| CreateError::NoSeed { path: path.join(SEED_FILE) })?;
    EpochKey::from_seed(0, Zeroizing::new(seed)).map(Some).map_err(CreateError::Key)
}

/// Overwrites the seed that the signer's state now holds.
fn erase_seed(files: &FileOpener, path: &Path) -> Result<(), CreateError> {
    let failed = |source: io::Error| CreateError::State { path: path.to_owned(), source };
    let mut state = Files::open(files, path).map_err(failed)?;
    state
        .write_at(SEED_FILE, 0, &[b'0'; 64])
        .and_then(|()| state.sync(SEED_FILE))
        .and_then(|()| state.remove(SEED_FILE))
        .and_then(|()| state.sync_names())
        .map_err(failed)
}

/// Whether what is written there goes through a journal first: old blocks of that live on.
fn keeps_data_in_journal(path: &Path) -> bool {
    use std::os::unix::fs::MetadataExt;
    let Ok(device) = std::fs::metadata(path).map(|m| m.dev()) else { return false };
    let device = format!("{}:{}", rustix::fs::major(device), rustix::fs::minor(device));
    let mounts = std::fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    is_journaled(&mounts, &device)
}

/// The same by the list of mounts (proc(5)): device in the third field, its options in the last.
fn is_journaled(mounts: &str, device: &str) -> bool {
    mounts.lines().any(|line| {
        let is_here = line.split(' ').nth(2) == Some(device);
        let options = line.rsplit(' ').next().unwrap_or_default();
        is_here && options.split(',').any(|o| o == "data=journal")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn data_in_the_journal_is_seen_in_the_list_of_mounts() {
        let mounts = "25 1 254:1 / / rw,relatime shared:1 - ext4 /dev/vda1 rw,errors=remount-ro\n\
                      31 25 254:17 / /var rw,relatime - ext4 /dev/vdb1 rw,data=journal\n\
                      32 25 254:18 / /srv rw - ext4 /dev/vdb2 rw,data=ordered\n";
        let found: Vec<bool> =
            ["254:1", "254:17", "254:18"].map(|d| is_journaled(mounts, d)).to_vec();
        assert_eq!(found, [false, true, false]);
    }
}
