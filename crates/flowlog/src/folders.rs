//! The files below folders that are looked into again and again.
//!
//! A folder's entries are read again only when the folder has changed since, by its time of change; folders
//! of very many logs would cost more to list than their logs to read. What changed in the same moments as it
//! was read is read once more.

use crate::limits::{FOLDER_DEPTH_MAX, reached};
use foldhash::fast::FixedState;
use hashbrown::HashMap;
use std::fs::{FileType, Metadata};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// How long a folder may change without a new time of change: file systems count that in steps.
const STEP_NS: i64 = 2_000_000_000;

/// Folders that were looked into.
#[derive(Default)]
pub(crate) struct Folders {
    known: HashMap<PathBuf, Listed, FixedState>,
}

struct Listed {
    /// When it changed last, nanoseconds since 1970.
    changed: i64,
    /// It had not changed for a while when it was listed.
    is_settled: bool,
    files: Vec<PathBuf>,
    folders: Vec<PathBuf>,
}

impl Folders {
    /// The files that are named, and those below folders that are named, in order of their names; by the
    /// clock on the wall it is `now_ns`.
    pub(crate) fn list(&mut self, named: &[PathBuf], now_ns: i64) -> Vec<PathBuf> {
        let mut all = Vec::new();
        let mut seen = Vec::new();
        for path in named {
            match path.metadata() {
                Ok(about) if about.is_dir() => self.below(path, (0, now_ns), &mut all, &mut seen),
                Ok(about) if about.is_file() => all.push(path.clone()),
                _ => {}
            }
        }
        if self.known.len() > seen.len() {
            seen.sort_unstable();
            self.known.retain(|path, _| seen.binary_search(path).is_ok());
        }
        all
    }

    fn below(
        &mut self,
        folder: &Path,
        (depth, now_ns): (usize, i64),
        all: &mut Vec<PathBuf>,
        seen: &mut Vec<PathBuf>,
    ) {
        let Ok(about) = folder.metadata() else { return };
        let changed = changed_ns(&about);
        let is_known = |l: &Listed| l.is_settled && l.changed == changed;
        if !self.known.get(folder).is_some_and(is_known) {
            let Some((files, folders)) = entries(folder) else { return };
            if depth >= FOLDER_DEPTH_MAX {
                reached::FOLDER_DEPTH_MAX.count_times(folders.len() as u64);
            }
            let is_settled = now_ns.saturating_sub(changed) > STEP_NS;
            let listed = Listed { changed, is_settled, files, folders };
            self.known.insert(folder.to_owned(), listed);
        }
        seen.push(folder.to_owned());
        let Some(listed) = self.known.get(folder) else { return };
        all.extend(listed.files.iter().cloned());
        if depth < FOLDER_DEPTH_MAX {
            for folder in listed.folders.clone() {
                self.below(&folder, (depth + 1, now_ns), all, seen);
            }
        }
    }
}

/// When a file changed last, nanoseconds since 1970.
pub(crate) fn changed_ns(about: &Metadata) -> i64 {
    about.mtime().saturating_mul(1_000_000_000).saturating_add(about.mtime_nsec())
}

/// Files and folders in a folder; what is neither is not waited for.
fn entries(folder: &Path) -> Option<(Vec<PathBuf>, Vec<PathBuf>)> {
    let (mut files, mut folders) = (Vec::new(), Vec::new());
    for entry in std::fs::read_dir(folder).ok()?.flatten() {
        let Ok(kind) = entry.file_type() else { continue };
        let path = entry.path();
        let kind: FileType = if kind.is_symlink() {
            match path.metadata() {
                Ok(about) => about.file_type(),
                Err(_) => continue,
            }
        } else {
            kind
        };
        if kind.is_dir() {
            folders.push(path);
        } else if kind.is_file() {
            files.push(path);
        }
    }
    files.sort_unstable();
    folders.sort_unstable();
    Some((files, folders))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_too_deep_are_counted_once() {
        let dir = tempfile::tempdir().unwrap();
        let mut path = dir.path().to_owned();
        for depth in 0..=FOLDER_DEPTH_MAX {
            std::fs::write(path.join("conn.log"), "x").unwrap();
            path.push(format!("d{depth}"));
            std::fs::create_dir(&path).unwrap();
        }
        std::fs::write(path.join("conn.log"), "x").unwrap();
        let mut folders = Folders::default();
        for look in 0..3 {
            let found = folders.list(&[dir.path().to_owned()], i64::MAX);
            assert_eq!(found.len(), FOLDER_DEPTH_MAX + 1);
            let counted =
                gabion_record::limits::take_reached().times_reached(&reached::FOLDER_DEPTH_MAX);
            assert_eq!(counted, u64::from(look == 0));
        }
        // What is gone is forgotten.
        std::fs::remove_dir_all(dir.path().join("d0")).unwrap();
        assert_eq!(folders.list(&[dir.path().to_owned()], i64::MAX).len(), 1);
        assert_eq!(folders.known.len(), 1);
    }
}
