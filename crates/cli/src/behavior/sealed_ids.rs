//! Which findings a run that follows logs has sealed since its last checkpoint, so that the run that goes on
//! after a kill seals each of the rest once.
//!
//! The sealed log can't be asked: what it holds is encrypted to its readers. So a file beside the checkpoint
//! says of each finding that was given to the log which chunk of the log it is in. A chunk is durable as a
//! whole or not at all, and the log says how many it holds when it is opened again: findings of those are
//! sealed, findings of later ones are not. The entry is written before its chunk is, so a kill at any moment
//! leaves no sealed finding without one. (The machine's own fall may lose entries, and a run that is killed
//! while it opens the log does not know them; such findings are sealed twice, with the same ID.) If another program wrote into the log between the kill and the next run, its
//! chunks are taken for the ones that were lost.
//!
//! The form: eight bytes that name it, the log's id (16), then entries of 24 bytes: the finding's ID (16) and
//! the chunk's number (little-endian).

use super::checkpoint;
use crate::log::seal_findings::Opened;
use gabion_record::evidence::FindingId;
use std::collections::HashSet;
use std::fs::File;
use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};

/// Its name in the run's folder.
pub(crate) const NAME: &str = "follow.sealed";
/// Its name while the log is opened.
const ASIDE: &str = "follow.sealed.aside";
const MAGIC: [u8; 8] = *b"GBNSEALD";
const HEAD: usize = MAGIC.len() + 16;
const ENTRY: usize = 16 + 8;

/// The file, and what of it was not found again yet.
pub(crate) struct SealedIds {
    path: PathBuf,
    log_id: [u8; 16],
    /// Gone after a failure, which is said once.
    file: Option<File>,
    known: HashSet<FindingId>,
}

/// Puts the file of a folder aside before the log is opened, which grows by that: where a run is killed before
/// [`SealedIds::open`], nobody can say any more which of the entries' chunks are those that were lost.
///
/// # Errors
/// When it can't be put aside.
pub(crate) fn put_aside(folder: &Path) -> Result<(), String> {
    let (path, aside) = (folder.join(NAME), folder.join(ASIDE));
    let moved = match std::fs::rename(&path, &aside) {
        Err(e) if e.kind() == ErrorKind::NotFound => std::fs::remove_file(&aside),
        done => done,
    };
    match moved {
        Err(e) if e.kind() != ErrorKind::NotFound => Err(format!("{}: {e}", path.display())),
        _ => Ok(()),
    }
}

impl SealedIds {
    /// Goes on with the file of a folder, or begins it. `left` is what the checkpoint says of runs before.
    ///
    /// # Errors
    /// When it can't be read or written.
    pub(crate) fn open(
        folder: &Path,
        log: Opened,
        left: Vec<FindingId>,
        goes_on: bool,
    ) -> Result<SealedIds, String> {
        let path = folder.join(NAME);
        let failed = |e: io::Error| format!("{}: {e}", path.display());
        let aside = folder.join(ASIDE);
        let before = if goes_on { sealed(&aside, log).map_err(failed)? } else { Vec::new() };
        // Written anew: entries of chunks that were lost would soon be taken for ones that are there.
        let file = write(&path, &log.log_id, &before).map_err(failed)?;
        let _ = std::fs::remove_file(aside);
        let known = before.into_iter().map(|(id, _)| id).chain(left).collect();
        Ok(SealedIds { path, log_id: log.log_id, file: Some(file), known })
    }

    /// Whether a finding was sealed before the run was cut off; it is asked about once.
    pub(crate) fn has(&mut self, id: FindingId) -> bool {
        !self.known.is_empty() && self.known.remove(&id)
    }

    /// A finding is about to be in that chunk.
    pub(crate) fn add(&mut self, id: FindingId, chunk: u64) {
        if let Some(file) = &mut self.file
            && let Err(e) = file.write_all(&entry(id, chunk))
        {
            self.failed(&e);
        }
    }

    /// What was not found again yet, for the checkpoint.
    pub(crate) fn left(&self) -> Vec<FindingId> {
        let mut left: Vec<FindingId> = self.known.iter().copied().collect();
        left.sort_unstable();
        left
    }

    /// A checkpoint is in place, and all that was sealed before it is durable.
    pub(crate) fn begin_anew(&mut self) {
        match write(&self.path, &self.log_id, &[]) {
            Ok(file) => self.file = Some(file),
            // The entries of before stay; they are of findings that are not found again.
            Err(e) => self.failed(&e),
        }
    }

    fn failed(&mut self, e: &io::Error) {
        eprintln!(
            "gabion: {}: {e}: if this run is killed, the next one seals again what came since the last \
             checkpoint: make room",
            self.path.display()
        );
        self.file = None;
    }
}

fn entry(id: FindingId, chunk: u64) -> [u8; ENTRY] {
    let mut bytes = [0; ENTRY];
    bytes[..16].copy_from_slice(&id.0);
    bytes[16..].copy_from_slice(&chunk.to_le_bytes());
    bytes
}

/// Writes the file beside the one before it and puts it in its place; it is open for more.
fn write(path: &Path, log_id: &[u8; 16], entries: &[(FindingId, u64)]) -> io::Result<File> {
    let mut bytes = MAGIC.to_vec();
    bytes.extend_from_slice(log_id);
    bytes.extend(entries.iter().flat_map(|(id, chunk)| entry(*id, *chunk)));
    let beside = path.with_extension("sealed.new");
    let mut file = checkpoint::make_new(&beside)?;
    file.write_all(&bytes)?;
    std::fs::rename(&beside, path)?;
    Ok(file)
}

/// Findings of chunks that the log holds. A last entry that is not whole was never acted upon.
fn sealed(path: &Path, log: Opened) -> io::Result<Vec<(FindingId, u64)>> {
    let bytes = match std::fs::read(path) {
        Ok(bytes) => bytes,
        Err(e) if e.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        Err(e) => return Err(e),
    };
    let Some((head, entries)) = bytes.split_at_checked(HEAD) else { return Ok(Vec::new()) };
    if head != [&MAGIC[..], &log.log_id].concat() {
        return Ok(Vec::new());
    }
    let entry = |bytes: &[u8]| {
        let (id, chunk) = bytes.split_first_chunk::<16>()?;
        let chunk = u64::from_le_bytes(*chunk.first_chunk()?);
        (chunk < log.chunks).then_some((FindingId(*id), chunk))
    };
    Ok(entries.chunks_exact(ENTRY).filter_map(entry).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(n: u8) -> FindingId {
        FindingId([n; 16])
    }

    fn at(chunks: u64) -> Opened {
        Opened { log_id: [9; 16], chunks }
    }

    #[test]
    fn findings_of_chunks_that_the_log_holds_are_known_once() {
        let folder = tempfile::tempdir().unwrap();
        let mut ids = SealedIds::open(folder.path(), at(5), vec![], false).unwrap();
        for (n, chunk) in [(1, 5), (2, 5), (3, 6)] {
            assert!(!ids.has(id(n)));
            ids.add(id(n), chunk);
        }
        drop(ids);
        // The kill took chunk 6, and half of an entry.
        let path = folder.path().join(NAME);
        let mut bytes = std::fs::read(&path).unwrap();
        bytes.extend_from_slice(&[7; 11]);
        std::fs::write(&path, bytes).unwrap();
        put_aside(folder.path()).unwrap();
        let mut ids = SealedIds::open(folder.path(), at(6), vec![id(8)], true).unwrap();
        assert_eq!([1, 2, 3, 8].map(|n| ids.has(id(n))), [true, true, false, true]);
        assert!(!ids.has(id(1)), "it is asked about once");
        drop(ids);
        // The entry of the lost chunk is gone, whatever the log has grown to since.
        put_aside(folder.path()).unwrap();
        let ids = SealedIds::open(folder.path(), at(50), vec![], true).unwrap();
        assert_eq!(ids.left(), [id(1), id(2)]);
        // A run that is killed while it opens the log leaves nothing that can be relied on.
        put_aside(folder.path()).unwrap();
        put_aside(folder.path()).unwrap();
        let ids = SealedIds::open(folder.path(), at(50), vec![], true).unwrap();
        assert_eq!(ids.left(), []);
    }

    #[test]
    fn a_checkpoint_or_another_log_begins_it_anew() {
        let folder = tempfile::tempdir().unwrap();
        let mut ids = SealedIds::open(folder.path(), at(0), vec![], true).unwrap();
        ids.add(id(1), 0);
        ids.begin_anew();
        ids.add(id(2), 1);
        drop(ids);
        let other = Opened { log_id: [8; 16], chunks: 9 };
        let known = |log, goes_on| {
            put_aside(folder.path()).unwrap();
            SealedIds::open(folder.path(), log, vec![], goes_on).unwrap().left()
        };
        assert_eq!(known(at(9), true), [id(2)]);
        assert_eq!(known(other, true), []);
        assert_eq!(known(at(9), true), []);
    }
}
