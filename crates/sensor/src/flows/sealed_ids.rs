//! Which findings a run that follows logs has sealed since its last checkpoint, so that the run that continues
//! after a kill seals each of the rest once.
//!
//! The sealed log can't be asked: what it holds is encrypted to its readers. So a file next to the checkpoint
//! says of each finding that was given to the log which chunk of the log it is in. A chunk is durable as a
//! whole or not at all, and the log says how many it holds when it is opened again: findings of those are
//! sealed, findings of later ones are not. The entry is written before its chunk is, and entries of chunks that
//! were lost are taken out before the log grows again ([`settle_sealed_ids`]), so that after a kill at any moment each entry
//! is true. (The machine's own fall may lose entries; such findings are sealed twice, with the same ID.)
//! If another program wrote into the log between the kill and the next run, its chunks are taken for the ones
//! that were lost.
//!
//! The form: eight bytes that name it, the log's id (16), then entries of 24 bytes: the finding's ID (16) and
//! the chunk's number (little-endian).

use crate::sealed_findings::{OpenedLog, Sealer};
use crate::{Error, Notices};
use gabion_outputs::{Destination, Output, Piece, PieceKind, finding_files};
use gabion_record::evidence::FindingId;
use gabion_runtime::output::{Replacement, read_earlier};
use std::collections::HashSet;
use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Its name in the run's folder.
pub(crate) const NAME: &str = "follow.sealed";
const MAGIC: [u8; 8] = *b"GBNSEALD";
const HEAD: usize = MAGIC.len() + 16;
const ENTRY: usize = 16 + 8;

/// The file, and what of it was not found again yet.
pub(crate) struct SealedIds {
    path: PathBuf,
    log_id: [u8; 16],
    /// Gone after a failure, which is reported once.
    file: Option<File>,
    known: HashSet<FindingId>,
    notices: Notices,
}

/// Takes out what stands in chunks that the log does not hold: it was lost in a kill. The log has been recovered
/// and nothing was added yet; once it has grown, nobody could say any more which chunks were lost. A file of
/// another log stays as it is.
///
/// # Errors
/// When it can't be read or written.
pub(super) fn settle_sealed_ids(folder: &Path, log: OpenedLog) -> gabion_seal::Result<()> {
    let path = folder.join(NAME);
    let failed =
        |e: io::Error| gabion_seal::Error::Storage { name: path.display().to_string(), source: e };
    let Some(all) = entries(&path, &log.log_id).map_err(failed)? else { return Ok(()) };
    let held: Vec<_> = all.iter().copied().filter(|(_, chunk)| *chunk < log.chunks).collect();
    if held.len() < all.len() {
        write(&path, &log.log_id, &held).map_err(failed)?;
    }
    Ok(())
}

impl SealedIds {
    /// Continues with the file of a folder, which was settled, or begins it. `left` is what the checkpoint holds of
    /// runs before.
    ///
    /// # Errors
    /// When it can't be read or written.
    pub(super) fn open(
        folder: &Path,
        log: OpenedLog,
        left: Vec<FindingId>,
        continues: bool,
        notices: Notices,
    ) -> Result<SealedIds, Error> {
        let path = folder.join(NAME);
        let failed = |source: io::Error| Error::File { path: path.clone(), source };
        let before = if continues { entries(&path, &log.log_id).map_err(failed)? } else { None };
        let before = before.unwrap_or_default();
        // Written again: what a kill left of a last entry is gone, and it is open for more.
        let file = write(&path, &log.log_id, &before).map_err(failed)?;
        let known = before.into_iter().map(|(id, _)| id).chain(left).collect();
        Ok(SealedIds { path, log_id: log.log_id, file: Some(file), known, notices })
    }

    /// Whether a finding was sealed before the run was cut off; it is asked about once.
    pub(super) fn has(&mut self, id: FindingId) -> bool {
        !self.known.is_empty() && self.known.remove(&id)
    }

    /// A finding is about to be in that chunk.
    pub(super) fn add(&mut self, id: FindingId, chunk: u64) {
        if let Some(file) = &mut self.file
            && let Err(e) = file.write_all(&entry(id, chunk))
        {
            self.failed(&e);
        }
    }

    /// What was not found again yet, for the checkpoint.
    pub(super) fn left(&self) -> Vec<FindingId> {
        let mut left: Vec<FindingId> = self.known.iter().copied().collect();
        left.sort_unstable();
        left
    }

    /// A checkpoint is in place, and all that was sealed before it is durable.
    pub(super) fn start_again(&mut self) {
        match write(&self.path, &self.log_id, &[]) {
            Ok(file) => self.file = Some(file),
            // The entries of before stay; they are of findings that are not found again.
            Err(e) => self.failed(&e),
        }
    }

    fn failed(&mut self, e: &io::Error) {
        self.notices.report(&format!(
            "{}: {e}: if this run is killed, the next one seals again what came since the last \
             checkpoint: make space",
            self.path.display()
        ));
        self.file = None;
    }
}

fn entry(id: FindingId, chunk: u64) -> [u8; ENTRY] {
    let mut bytes = [0; ENTRY];
    bytes[..16].copy_from_slice(&id.0);
    bytes[16..].copy_from_slice(&chunk.to_le_bytes());
    bytes
}

/// Writes the file next to the one before it and puts it in its place; it is open for more.
fn write(path: &Path, log_id: &[u8; 16], entries: &[(FindingId, u64)]) -> io::Result<File> {
    let mut bytes = MAGIC.to_vec();
    bytes.extend_from_slice(log_id);
    bytes.extend(entries.iter().flat_map(|(id, chunk)| entry(*id, *chunk)));
    let fresh = Replacement::begin(path)?;
    fresh.file().write_all(&bytes)?;
    fresh.take_place()
}

/// What the file says, where it is of this log. A last entry that is not whole was never acted upon.
fn entries(path: &Path, log_id: &[u8; 16]) -> io::Result<Option<Vec<(FindingId, u64)>>> {
    let Some(bytes) = read_earlier(path)? else { return Ok(None) };
    let Some((head, entries)) = bytes.split_at_checked(HEAD) else { return Ok(None) };
    if head != [&MAGIC[..], log_id].concat() {
        return Ok(None);
    }
    let entry = |bytes: &[u8]| {
        let (id, chunk) = bytes.split_first_chunk::<16>()?;
        Some((FindingId(*id), u64::from_le_bytes(*chunk.first_chunk()?)))
    };
    Ok(Some(entries.chunks_exact(ENTRY).filter_map(entry).collect()))
}

/// The ids that a run shares with its output.
pub(super) type SharedIds = Arc<Mutex<Option<SealedIds>>>;

/// The ids, for a moment.
pub(super) fn lock_ids(ids: &SharedIds) -> MutexGuard<'_, Option<SealedIds>> {
    ids.lock().unwrap_or_else(PoisonError::into_inner)
}

/// An output that seals evidence and alerts about hosts, but not what `ids` says is sealed.
pub(super) fn sealing_output(to: Sealer, ids: SharedIds) -> Output {
    finding_files::output(SealedOnce { to, ids })
}

/// Seals each finding that an earlier run has not sealed.
struct SealedOnce {
    to: Sealer,
    ids: SharedIds,
}

impl Destination for SealedOnce {
    fn write(&mut self, piece: &Piece<'_>) {
        let PieceKind::Finding(id) = piece.kind else { return };
        match &mut *lock_ids(&self.ids) {
            None => {
                self.to.seal(piece.bytes);
            }
            Some(ids) => {
                if !ids.has(id)
                    && let Some(chunk) = self.to.seal(piece.bytes)
                {
                    ids.add(id, chunk);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gabion_seal::storage::{Fault, Left, Memory};
    use gabion_seal::{Flags, Init, Kind, Policy, Record, SecretKey, Source, Transport, Writer};

    fn id(n: u8) -> FindingId {
        FindingId([n; 16])
    }

    fn at(chunks: u64) -> OpenedLog {
        OpenedLog { log_id: [9; 16], chunks }
    }

    fn reopened(folder: &Path, log: OpenedLog, left: Vec<FindingId>, continues: bool) -> SealedIds {
        settle_sealed_ids(folder, log).unwrap();
        SealedIds::open(folder, log, left, continues, Notices::default()).unwrap()
    }

    #[test]
    fn findings_of_chunks_that_the_log_holds_are_known_once() {
        let folder = tempfile::tempdir().unwrap();
        let mut ids = reopened(folder.path(), at(5), vec![], false);
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
        let mut ids = reopened(folder.path(), at(6), vec![id(8)], true);
        assert_eq!([1, 2, 3, 8].map(|n| ids.has(id(n))), [true, true, false, true]);
        assert!(!ids.has(id(1)), "it is asked about once");
        drop(ids);
        // The entry of the lost chunk is gone, whatever the log has grown to since.
        assert_eq!(reopened(folder.path(), at(50), vec![], true).left(), [id(1), id(2)]);
    }

    #[test]
    fn a_checkpoint_or_another_log_starts_it_again() {
        let folder = tempfile::tempdir().unwrap();
        let mut ids = reopened(folder.path(), at(0), vec![], true);
        ids.add(id(1), 0);
        ids.start_again();
        ids.add(id(2), 1);
        drop(ids);
        let other = OpenedLog { log_id: [8; 16], chunks: 9 };
        let known = |log, continues| reopened(folder.path(), log, vec![], continues).left();
        assert_eq!(known(at(9), true), [id(2)]);
        assert_eq!(known(other, true), []);
        assert_eq!(known(at(9), true), []);
    }

    const NOW: u64 = 1_700_000_000_000_000_000;

    /// A run over a log in memory, and a folder: its files, and the numbers of findings that are in the log.
    struct Run<'a> {
        log: &'a Memory,
        state: &'a Memory,
        key: &'a SecretKey,
        folder: &'a Path,
    }

    impl Run<'_> {
        fn open(&self) -> gabion_seal::Result<(Writer<Memory>, SealedIds)> {
            let (log, state) = (self.log.clone(), self.state.clone());
            let recipients = vec![self.key.recipient().clone()];
            let mut settle = |log_id, opened: &gabion_seal::Opened| {
                settle_sealed_ids(self.folder, OpenedLog { log_id, chunks: opened.chunks })
            };
            let policy = Policy { chunk_plain: 64, ..Policy::default() };
            let (writer, opened) =
                Writer::open_reporting(log, state, recipients, policy, NOW, &mut settle)?;
            let log = OpenedLog { log_id: writer.identity().log_id(), chunks: opened.chunks };
            let ids = SealedIds::open(self.folder, log, vec![], true, Notices::default()).unwrap();
            Ok((writer, ids))
        }

        fn seal(
            writer: &mut Writer<Memory>,
            ids: &mut SealedIds,
            n: u8,
        ) -> gabion_seal::Result<()> {
            let bytes = [n; 40];
            let (kind, flags) = (Kind::Finding, Flags::default());
            let record = Record { time_ns: NOW, kind, flags, bytes: &bytes };
            writer.append(&record, &Source::new(Transport::Finding, 0, "test", ""))?;
            ids.add(id(n), writer.size());
            Ok(())
        }
    }

    fn copied(from: &Path) -> tempfile::TempDir {
        let to = tempfile::tempdir().unwrap();
        std::fs::copy(from.join(NAME), to.path().join(NAME)).unwrap();
        to
    }

    /// A run is killed with findings that are in the log and findings that are not, the next one at each step of
    /// opening the log, in three ways, and the one after that as well: those that are in the log are known, and no
    /// others.
    #[test]
    fn a_kill_while_the_log_is_opened_loses_and_doubles_nothing() {
        let (mut log, state) = (Memory::new(), Memory::new());
        Init::new("log.example/test", NOW).create(&mut log, state.clone()).unwrap();
        let key = SecretKey::generate().unwrap();
        let folder = tempfile::tempdir().unwrap();
        let first = Run { log: &log, state: &state, key: &key, folder: folder.path() };
        let (mut writer, mut ids) = first.open().unwrap();
        for n in 1..=5 {
            Run::seal(&mut writer, &mut ids, n).unwrap();
        }
        writer.commit(NOW).unwrap();
        // Eight more, of which none is durable: their chunks have numbers that the log will have soon.
        for n in 6..=13 {
            Run::seal(&mut writer, &mut ids, n).unwrap();
        }
        drop((writer, ids));
        let expected: Vec<FindingId> = (1..=5).map(id).collect();
        let (log, state) = (log.after_crash(Left::Kept), state.after_crash(Left::Kept));
        let kills =
            |log: &Memory, state: &Memory, folder: &Path, each: &mut dyn FnMut(&Run<'_>)| {
                for fault in [Fault::Nothing, Fault::Half, Fault::After] {
                    for is_state in [false, true] {
                        for step in 1.. {
                            let folder = copied(folder);
                            let (log, state) = (log.snapshot(), state.snapshot());
                            let failing = if is_state { &state } else { &log };
                            failing.fail_at(step, fault);
                            let run =
                                Run { log: &log, state: &state, key: &key, folder: folder.path() };
                            let opened = run.open();
                            if opened.is_ok() {
                                break;
                            }
                            drop(opened);
                            let (log, state) = (log.snapshot(), state.snapshot());
                            each(&Run { log: &log, state: &state, ..run });
                        }
                    }
                }
            };
        let mut killed = 0;
        kills(&log, &state, folder.path(), &mut |run| {
            killed += 1;
            kills(run.log, run.state, run.folder, &mut |run| {
                let (_, ids) = run.open().unwrap();
                assert_eq!(ids.left(), expected);
            });
            let (_, ids) = run.open().unwrap();
            assert_eq!(ids.left(), expected);
        });
        assert!(killed > 20, "{killed}");
    }
}
