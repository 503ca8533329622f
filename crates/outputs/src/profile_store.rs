//! Past windows of profiles in an embedded database: what hosts were, long after memory let them go.
//!
//! One row a profile and window, with the profile's own encoding; nothing here looks into it. Rows come
//! in batches through a bounded queue and are written by a thread of their own, a transaction a batch,
//! so that only the queue waits for a disk.

use crate::error::OutputError;
use crate::limits::{STORE_BATCHES_MAX, STORE_BYTES_MAX};
use gabion_record::files::FileOpener;
use gabion_runtime::output::{Existing, check, create_empty, refuse_link};
use rusqlite::{Connection, OpenFlags, params};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

/// Bytes of profiles that end a batch: with those that wait some 4 MiB.
const BATCH_BYTES: usize = 256 << 10;

/// Bytes of a page of the database, which takes some profiles as a whole.
const PAGE_BYTES: usize = 16 << 10;
/// What the database keeps in memory, KiB.
const CACHE_KIB: usize = 4 << 10;

/// How long one that reads the database is waited for.
const BUSY: Duration = Duration::from_millis(500);

/// The form of the tables; another is refused.
const FORM: i64 = 1;

/// A profile at the end of a window.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredProfile {
    /// Its address, 16 bytes.
    pub ip: [u8; 16],
    /// Number of the window.
    pub window: i64,
    /// Its encoding.
    pub bytes: Vec<u8>,
}

/// The database's file in a run's folder.
pub fn path_in(folder: &Path) -> PathBuf {
    folder.join("profiles.sqlite")
}

/// What was written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Written {
    /// Rows written.
    pub rows: u64,
    /// Windows that were removed because the database was full.
    pub windows_gone: u64,
}

/// What the thread is given.
enum Work {
    Rows(Vec<StoredProfile>),
    /// To be answered when all before is written.
    Settle(SyncSender<()>),
}

/// Writes profiles, off the path of records.
#[derive(Debug)]
pub struct ProfileWriter {
    rows: Option<SyncSender<Work>>,
    /// The first error, until the caller asks for it.
    trouble: Arc<Mutex<Option<OutputError>>>,
    thread: Option<JoinHandle<Result<Written, OutputError>>>,
}

impl ProfileWriter {
    /// Makes a new database in a folder, or continues the one that is there, and starts the thread that
    /// writes it.
    ///
    /// # Errors
    /// When either cannot be made; when the database is a link in a folder that others may write, or
    /// another than ours.
    pub fn create(
        files: &FileOpener,
        folder: &Path,
        existing: Existing,
    ) -> Result<ProfileWriter, OutputError> {
        ProfileWriter::bounded(files, folder, existing, STORE_BYTES_MAX)
    }

    /// The same with another bound, in bytes.
    fn bounded(
        files: &FileOpener,
        folder: &Path,
        existing: Existing,
        bytes_max: u64,
    ) -> Result<ProfileWriter, OutputError> {
        let path = path_in(folder);
        check(&path).map_err(OutputError::io(&path))?;
        // What the database undoes a batch with is written under this name.
        let journal = path.with_extension("sqlite-journal");
        refuse_link(&journal).map_err(OutputError::io(&journal))?;
        let is_there = existing == Existing::Append && path.metadata().is_ok_and(|m| m.len() > 0);
        if !is_there {
            match std::fs::remove_file(&path) {
                Err(e) if e.kind() != std::io::ErrorKind::NotFound => {
                    return Err(OutputError::io(&path)(e));
                }
                _ => {}
            }
            // Made here, so that what the database opens is no link that another process put there meanwhile.
            create_empty(&path).map_err(OutputError::io(&path))?;
        }
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let mut database =
            Connection::open_with_flags(&path, flags).map_err(OutputError::database(&path))?;
        if is_there {
            check_form(&database, &path)?;
        }
        let mut held =
            Held::load_held(&database, is_there).map_err(OutputError::database(&path))?;
        // A process that reads the database meanwhile is waited for a moment, no longer: the run continues.
        database.busy_timeout(BUSY).map_err(OutputError::database(&path))?;
        // What a run that is cut off loses is its last batch; the journal is a file, or a cut in the middle of
        // a batch would leave half of it. Rows are in the order they come in, each
        // after the one before it, and only the small index is written here and there.
        database
            .execute_batch(&format!(
                "PRAGMA page_size = {PAGE_BYTES}; PRAGMA cache_size = -{CACHE_KIB};
                 PRAGMA journal_mode = TRUNCATE; PRAGMA synchronous = OFF; PRAGMA user_version = {FORM};
                 CREATE TABLE IF NOT EXISTS profiles (ip BLOB NOT NULL, time_window INTEGER NOT NULL, profile BLOB NOT NULL,
                     PRIMARY KEY (ip, time_window));"
            ))
            .map_err(OutputError::database(&path))?;
        let (rows, batches) = sync_channel::<Work>(STORE_BATCHES_MAX);
        let trouble = Arc::new(Mutex::new(None));
        let said = Arc::clone(&trouble);
        let files = files.clone();
        let thread = std::thread::Builder::new()
            .name("profiles".to_owned())
            .spawn(move || {
                let mut written = Written::default();
                let mut lost = Lost::default();
                for work in batches {
                    let batch = match work {
                        Work::Rows(batch) => batch,
                        Work::Settle(done) => {
                            // The caller may be gone, and what can't be flushed is as it was before.
                            let _ = files.open_to_read(&path).and_then(|file| file.sync_all());
                            let _ = done.send(());
                            continue;
                        }
                    };
                    let kept = keep(&mut database, &batch, &mut held, bytes_max);
                    match kept.map_err(OutputError::database(&path)) {
                        Ok(windows_gone) => {
                            written.rows += batch.len() as u64;
                            written.windows_gone += windows_gone;
                        }
                        Err(e) => {
                            // Said as it happens; the next batch may fare better.
                            if lost.rows == 0 {
                                let mut place = said.lock().unwrap_or_else(PoisonError::into_inner);
                                *place = Some(e.clone());
                                lost.why = Some(Box::new(e));
                            }
                            lost.rows += batch.len() as u64;
                        }
                    }
                }
                match lost.why {
                    Some(why) => Err(OutputError::ProfilesLost { why, rows: lost.rows }),
                    None => Ok(written),
                }
            })
            .map_err(|e| OutputError::ProfileThread(Arc::new(e)))?;
        Ok(ProfileWriter { rows: Some(rows), thread: Some(thread), trouble })
    }

    /// Hands profiles over, waiting when the disk is far behind.
    pub fn put(&self, profiles: impl IntoIterator<Item = StoredProfile>) {
        let Some(rows) = &self.rows else { return };
        let (mut batch, mut bytes) = (Vec::new(), 0);
        for row in profiles {
            bytes += row.bytes.len();
            batch.push(row);
            if bytes >= BATCH_BYTES {
                // Without the thread there was a failure, which the end reports.
                let _ = rows.send(Work::Rows(std::mem::take(&mut batch)));
                bytes = 0;
            }
        }
        if !batch.is_empty() {
            let _ = rows.send(Work::Rows(batch));
        }
    }

    /// What could not be written, once, when it happens: the rows are lost and counted, and the run continues.
    pub fn trouble(&self) -> Option<OutputError> {
        self.trouble.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// Waits until all that was put in is written, for a checkpoint.
    pub fn settle(&self) {
        let Some(rows) = &self.rows else { return };
        let (done, all) = sync_channel(1);
        if rows.send(Work::Settle(done)).is_ok() {
            // Without an answer there was a failure, which the end reports.
            let _ = all.recv();
        }
    }

    /// Waits until all is written.
    ///
    /// # Errors
    /// What could not be written.
    pub fn finish(mut self) -> Result<Written, OutputError> {
        self.rows = None;
        match self.thread.take().map(JoinHandle::join) {
            Some(Ok(result)) => result,
            Some(Err(_)) | None => Err(OutputError::ProfileWriter),
        }
    }
}

impl Drop for ProfileWriter {
    fn drop(&mut self) {
        self.rows = None;
        if let Some(thread) = self.thread.take() {
            // Its result is for the caller that finishes.
            let _ = thread.join();
        }
    }
}

/// Bytes written by window. A profile that is written again counts again: the bound errs downwards.
#[derive(Default)]
struct Held {
    windows: BTreeMap<i64, u64>,
    bytes: u64,
}

impl Held {
    /// What a database holds when a run continues it.
    fn load_held(database: &Connection, is_there: bool) -> Result<Held, rusqlite::Error> {
        let mut held = Held::default();
        if !is_there {
            return Ok(held);
        }
        let sums = "SELECT time_window, SUM(LENGTH(profile)) FROM profiles GROUP BY time_window";
        let mut select = database.prepare(sums)?;
        let rows =
            select.query_map([], |row| Ok((row.get::<_, i64>(0)?, row.get::<_, i64>(1)?)))?;
        for row in rows {
            let (window, bytes) = row?;
            let bytes = u64::try_from(bytes).unwrap_or(0);
            held.bytes += bytes;
            held.windows.insert(window, bytes);
        }
        Ok(held)
    }

    fn add(&mut self, row: &StoredProfile) {
        let bytes = row.bytes.len() as u64;
        *self.windows.entry(row.window).or_default() += bytes;
        self.bytes += bytes;
    }

    /// The oldest window when there are too many bytes, unless it is the only one.
    fn surplus(&mut self, most: u64) -> Option<i64> {
        if self.bytes <= most || self.windows.len() < 2 {
            return None;
        }
        let (window, bytes) = self.windows.pop_first()?;
        self.bytes = self.bytes.saturating_sub(bytes);
        Some(window)
    }
}

/// Rows that could not be written, and why the first could not.
#[derive(Default)]
struct Lost {
    rows: u64,
    why: Option<Box<OutputError>>,
}

/// Writes a batch and lets the oldest windows go; how many.
fn keep(
    database: &mut Connection,
    batch: &[StoredProfile],
    held: &mut Held,
    bytes_max: u64,
) -> Result<u64, rusqlite::Error> {
    write(database, batch)?;
    batch.iter().for_each(|row| held.add(row));
    let mut gone = 0;
    while let Some(window) = held.surplus(bytes_max) {
        database.execute("DELETE FROM profiles WHERE time_window = ?1", [window])?;
        gone += 1;
    }
    Ok(gone)
}

fn write(database: &mut Connection, batch: &[StoredProfile]) -> Result<(), rusqlite::Error> {
    let transaction = database.transaction()?;
    {
        let mut insert =
            transaction.prepare("INSERT OR REPLACE INTO profiles VALUES (?1, ?2, ?3)")?;
        for row in batch {
            insert.execute(params![row.ip.as_slice(), row.window, row.bytes])?;
        }
    }
    transaction.commit()
}

/// Refuses a database that is not ours.
fn check_form(database: &Connection, path: &Path) -> Result<(), OutputError> {
    let form: i64 = database
        .query_row("PRAGMA user_version", [], |row| row.get(0))
        .map_err(OutputError::database(path))?;
    if form != FORM {
        return Err(OutputError::DatabaseForm { path: path.to_owned(), form });
    }
    Ok(())
}

/// The windows of one address, in order.
///
/// # Errors
/// When there is no database, or another than ours.
pub fn windows_of(folder: &Path, ip: [u8; 16]) -> Result<Vec<StoredProfile>, OutputError> {
    let path = path_in(folder);
    let database = Connection::open_with_flags(&path, OpenFlags::SQLITE_OPEN_READ_ONLY)
        .map_err(OutputError::database(&path))?;
    check_form(&database, &path)?;
    let mut select = database
        .prepare("SELECT time_window, profile FROM profiles WHERE ip = ?1 ORDER BY time_window")
        .map_err(OutputError::database(&path))?;
    let rows = select
        .query_map(params![ip.as_slice()], |row| {
            Ok(StoredProfile { ip, window: row.get(0)?, bytes: row.get(1)? })
        })
        .map_err(OutputError::database(&path))?;
    rows.collect::<Result<Vec<_>, _>>().map_err(OutputError::database(&path))
}

#[cfg(test)]
mod tests {
    use super::*;
    use gabion_runtime::files::direct_opener;

    #[test]
    fn what_is_put_in_is_found_again_by_window() {
        let folder = tempfile::tempdir().unwrap();
        let writer =
            ProfileWriter::create(&direct_opener(), folder.path(), Existing::Truncate).unwrap();
        let row = |ip: u8, window: i64, bytes: &[u8]| StoredProfile {
            ip: [ip; 16],
            window,
            bytes: bytes.to_vec(),
        };
        for window in [2, 1] {
            writer.put((0..200).map(|n| row(n, window, &[n, window as u8])));
        }
        // A profile that comes twice with one window is its later self.
        writer.put([row(7, 2, b"later")]);
        assert_eq!(writer.finish().unwrap(), Written { rows: 401, windows_gone: 0 });
        let found = windows_of(folder.path(), [7; 16]).unwrap();
        assert_eq!(found, [row(7, 1, &[7, 1]), row(7, 2, b"later")]);
        assert_eq!(windows_of(folder.path(), [201; 16]).unwrap(), []);
        // A run continues with what is there, or begins again.
        let writer =
            ProfileWriter::create(&direct_opener(), folder.path(), Existing::Append).unwrap();
        writer.put([row(7, 3, b"more")]);
        writer.finish().unwrap();
        assert_eq!(windows_of(folder.path(), [7; 16]).unwrap().len(), 3);
        ProfileWriter::create(&direct_opener(), folder.path(), Existing::Truncate)
            .unwrap()
            .finish()
            .unwrap();
        assert_eq!(windows_of(folder.path(), [7; 16]).unwrap(), []);
        std::fs::write(path_in(folder.path()), b"no database at all, but some text").unwrap();
        assert!(windows_of(folder.path(), [7; 16]).is_err());
        assert!(windows_of(&folder.path().join("none"), [7; 16]).is_err());
    }

    /// A database that another process holds for long, or that can be written no more: this is reported and counted,
    /// and the run continues; what comes later is written.
    #[test]
    fn a_locked_database_is_reported_and_counted() {
        let folder = tempfile::tempdir().unwrap();
        let writer =
            ProfileWriter::create(&direct_opener(), folder.path(), Existing::Truncate).unwrap();
        let row = |window| StoredProfile { ip: [7; 16], window, bytes: vec![1] };
        writer.put([row(1)]);
        writer.settle();
        assert!(writer.trouble().is_none());
        let other = Connection::open(path_in(folder.path())).unwrap();
        other.execute_batch("BEGIN EXCLUSIVE").unwrap();
        writer.put([row(2)]);
        writer.settle();
        assert!(writer.trouble().is_some_and(|e| e.to_string().contains("locked")));
        other.execute_batch("COMMIT").unwrap();
        writer.put([row(3)]);
        writer.settle();
        assert!(writer.trouble().is_none());
        let lost = writer.finish().unwrap_err();
        assert!(lost.to_string().contains("1 profiles were not kept"), "{lost}");
        let left: Vec<i64> =
            windows_of(folder.path(), [7; 16]).unwrap().iter().map(|r| r.window).collect();
        assert_eq!(left, [1, 3]);
    }

    /// A database that is full lets the oldest windows go and keeps the latest whole.
    #[test]
    fn the_oldest_windows_go_first() {
        let folder = tempfile::tempdir().unwrap();
        let writer =
            ProfileWriter::bounded(&direct_opener(), folder.path(), Existing::Append, 10_000)
                .unwrap();
        for window in 1..=20 {
            let rows = (0..10).map(|n| StoredProfile { ip: [n; 16], window, bytes: vec![0; 100] });
            writer.put(rows);
        }
        assert_eq!(writer.finish().unwrap(), Written { rows: 200, windows_gone: 10 });
        let left: Vec<i64> =
            windows_of(folder.path(), [7; 16]).unwrap().iter().map(|r| r.window).collect();
        assert_eq!(left, (11..=20).collect::<Vec<_>>());
    }
}
