//! Seals the entries of systemd's journal as they are written, each once.
//!
//! `journalctl --follow` writes the entries in export format, which are kept byte for byte. The entries of each
//! commit are followed by a statement of the log with the cursor of the last one, in the same commit: after a kill
//! or a crash at any moment the log ends with a commit, so that its last cursor is that of its last entry, and
//! journalctl is asked for the entries after it. Nothing is lost and nothing doubled, and no second file has to agree
//! with the log.

use crate::blocks::blocks;
use gabion_logs::journal::{Entries, Entry, Failed, NoEntry};
use gabion_runtime::clock::epoch_ns as now_ns;
use gabion_runtime::{StopFlag, clock};
use gabion_seal::limits::CHUNK_PLAIN;
use gabion_seal::reader::{Cursor, Found, Reader, Selection, Sink};
use gabion_seal::storage::{Files, Storage};
use gabion_seal::{Flags, Kind, Record, Source, Transport, Writer};
use gabion_seal::{statement, statement_member};
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::RecvTimeoutError;
use std::time::{Duration, Instant};

/// How long entries wait for others before they are made durable.
const COMMIT_AFTER: Duration = Duration::from_millis(100);
/// How long a wait for entries lasts before signals and time are looked at.
const LOOK: Duration = Duration::from_millis(50);
/// How long a cursor is valid before it is written again.
const SAY_AGAIN: Duration = Duration::from_secs(3600);
/// The type of the statement that holds a cursor.
const STATEMENT: &str = "journal";

/// Why the journal is not followed any more.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FollowError {
    /// journalctl can't be run.
    #[error("{}: {source}", .program.display())]
    NotRun {
        /// The program.
        program: PathBuf,
        /// The error of the operating system.
        source: io::Error,
    },
    /// The cursor of the last entry can't be read out of the log.
    #[error("{0}")]
    LastCursor(#[source] gabion_seal::Error),
    /// Entries can't be sealed.
    #[error("{0}")]
    Seal(#[source] gabion_seal::Error),
    /// An entry has no cursor.
    #[error("an entry without __CURSOR: not the output of `journalctl -o export`")]
    NoCursor,
    /// What journalctl writes is not in the export format.
    #[error("entry {}: {}", none.entry, none.why)]
    NoEntry {
        /// What is wrong, and with which entry.
        none: NoEntry,
    },
    /// What journalctl writes can't be read.
    #[error("journalctl: {0}")]
    Unreadable(#[source] io::Error),
    /// journalctl ended though nothing asked it to.
    #[error("{} ended ({how}) though nothing asked it to: {entries} entries are sealed", .program.display())]
    Ended {
        /// The program.
        program: PathBuf,
        /// How it ended.
        how: String,
        /// Entries that are sealed.
        entries: u64,
    },
}

impl FollowError {
    /// Whether what journalctl wrote is wrong: then what came before is sealed.
    fn is_input(&self) -> bool {
        matches!(
            self,
            FollowError::NoCursor | FollowError::NoEntry { .. } | FollowError::Unreadable(_)
        )
    }
}

/// What was sealed until a request to stop.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Followed {
    /// Entries of the journal.
    pub entries: u64,
    /// Entries that were cut at the limit of a record.
    pub cut: u64,
    /// Times that the journal no longer had the entry that was sealed last.
    pub gaps: u64,
}

/// The program that reads the journal.
#[derive(Clone, Debug)]
pub struct JournalProgram {
    /// Its name, or its path.
    pub program: PathBuf,
    /// What else it is given: matches, `--unit`, `--directory`.
    pub arguments: Vec<String>,
}

impl JournalProgram {
    /// Checks that it could be run, before anything is written to a log.
    ///
    /// # Errors
    /// When it is not there or may not be run.
    pub fn check(&self) -> Result<(), FollowError> {
        runnable(&self.program).map_err(|e| self.not_run(e))
    }

    /// Seals entries until it is asked to stop, from the entry after the last one that the log holds. `on_gap` is called
    /// if the journal no longer has that one.
    ///
    /// # Errors
    /// When the journal can't be read, or its entries can't be sealed.
    pub fn follow(
        &self,
        log: &dyn Storage,
        writer: Writer<Files>,
        stop: &StopFlag,
        on_gap: &mut dyn FnMut(),
    ) -> Result<Followed, FollowError> {
        let cursor = last_cursor(log).map_err(FollowError::LastCursor)?;
        let mut sealing = Sealing {
            writer,
            source: Source::new(Transport::Journal, 0, "", ""),
            cursor: None,
            said: (cursor.clone(), clock::now()),
            waiting: 0,
            since: None,
            done: Followed::default(),
        };
        if let Some(cursor) = &cursor
            && !self.holds(cursor)?
        {
            on_gap();
            let gap = statement("journal-gap", |json| json.field("after", cursor));
            sealing.writer.state(&[gap], 0).map_err(FollowError::Seal)?;
            sealing.writer.commit(now_ns()).map_err(FollowError::Seal)?;
            sealing.done.gaps = 1;
        }
        let mut child = self
            .command()
            .args(["--follow", "--no-tail"])
            .args(cursor.iter().map(|cursor| format!("--after-cursor={cursor}")))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|e| self.not_run(e))?;
        let taken = take_all(&mut child, stop, &mut sealing);
        // It may wait for entries: what it was asked for is over.
        let _ = child.kill();
        let ended = child.wait();
        let Sealing { writer, done, .. } = sealing;
        if taken.as_ref().map_or_else(FollowError::is_input, |()| true) {
            writer.close(now_ns()).map_err(FollowError::Seal)?;
        }
        taken?;
        if stop.is_set() {
            return Ok(done);
        }
        let how = ended.map_or_else(|e| e.to_string(), |status| status.to_string());
        Err(FollowError::Ended { program: self.program.clone(), how, entries: done.entries })
    }

    /// The program as it is asked for everything.
    fn command(&self) -> Command {
        let mut command = Command::new(&self.program);
        command.env("SYSTEMD_COLORS", "0").args([
            "--quiet",
            "--no-pager",
            "--all",
            "--output=export",
        ]);
        command.args(&self.arguments);
        command
    }

    fn not_run(&self, source: io::Error) -> FollowError {
        FollowError::NotRun { program: self.program.clone(), source }
    }

    /// Whether the journal still holds the entry of a cursor.
    fn holds(&self, cursor: &str) -> Result<bool, FollowError> {
        let asked = self
            .command()
            .args(["--lines=1", &format!("--cursor={cursor}")])
            .stdin(Stdio::null())
            .output()
            .map_err(|e| self.not_run(e))?;
        let mut is_there = false;
        let mut each = |entry: &[u8], _| -> Result<(), ()> {
            is_there |= Entry(entry).get("__CURSOR") == Some(cursor.as_bytes());
            Ok(())
        };
        let mut entries = Entries::default();
        // Its own messages go to standard error, which is shown when this fails.
        if !asked.status.success() || entries.push(&asked.stdout, &mut each).is_err() {
            return Ok(false);
        }
        let _ = entries.finish(&mut each);
        Ok(is_there)
    }
}

/// What is sealed, and what waits for its cursor.
struct Sealing {
    writer: Writer<Files>,
    source: Source,
    /// Of the last entry that is not committed.
    cursor: Option<String>,
    /// The one in the log, and when it was written last.
    said: (Option<String>, Instant),
    /// Bytes that are not committed, and since when there are some.
    waiting: usize,
    since: Option<Instant>,
    done: Followed,
}

impl Sealing {
    fn entry(&mut self, bytes: &[u8], left_out: u32) -> Result<(), FollowError> {
        let cursor = Entry(bytes).get("__CURSOR").and_then(|c| std::str::from_utf8(c).ok());
        let cursor = cursor.ok_or(FollowError::NoCursor)?;
        let mut flags = Flags::default();
        if left_out > 0 {
            flags = flags.with(Flags::TRUNCATED);
            self.done.cut += 1;
        }
        if std::str::from_utf8(bytes).is_err() {
            flags = flags.with(Flags::NOT_UTF8);
        }
        self.cursor = Some(cursor.to_owned());
        let record = Record { time_ns: now_ns(), kind: Kind::Message, flags, bytes };
        self.writer.append(&record, &self.source).map_err(FollowError::Seal)?;
        self.done.entries += 1;
        self.waiting += bytes.len();
        self.since.get_or_insert_with(clock::now);
        // A writer makes chunks durable by itself when they come to a mebibyte: the cursor comes before.
        if self.waiting >= CHUNK_PLAIN { self.commit() } else { Ok(()) }
    }

    /// Makes the received entries durable, followed by their cursor.
    fn commit(&mut self) -> Result<(), FollowError> {
        // The cursor of a quiet journal is written again, before it is lost with a pruned segment.
        let is_old = self.said.1.elapsed() >= SAY_AGAIN;
        let again = if is_old { self.said.0.clone() } else { None };
        if let Some(cursor) = self.cursor.take().or(again) {
            let cursor_statement = statement(STATEMENT, |json| json.field("cursor", &cursor));
            self.writer.state(&[cursor_statement], 0).map_err(FollowError::Seal)?;
            self.writer.commit(now_ns()).map_err(FollowError::Seal)?;
            self.said = (Some(cursor), clock::now());
        }
        (self.waiting, self.since) = (0, None);
        self.writer.tick(now_ns()).map_err(FollowError::Seal)
    }

    /// The same when what came has waited long enough.
    fn commit_if_due(&mut self) -> Result<(), FollowError> {
        if self.since.is_none_or(|since| since.elapsed() >= COMMIT_AFTER) {
            self.commit()
        } else {
            Ok(())
        }
    }
}

/// Takes entries until it is asked to stop, or journalctl ends.
fn take_all(child: &mut Child, stop: &StopFlag, sealing: &mut Sealing) -> Result<(), FollowError> {
    let Some(from) = child.stdout.take() else { return Ok(()) };
    let blocks = blocks(from);
    let mut entries = Entries::default();
    while !stop.is_set() {
        match blocks.recv_timeout(LOOK) {
            Ok(Ok(block)) if block.is_empty() => break,
            Ok(Ok(block)) => entries
                .push(&block, &mut |entry, left_out| sealing.entry(entry, left_out))
                .map_err(|failed| match failed {
                    Failed::Taken(fault) => fault,
                    Failed::NoEntry(none) => FollowError::NoEntry { none },
                })?,
            Ok(Err(e)) => return Err(FollowError::Unreadable(e)),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => break,
        }
        sealing.commit_if_due()?;
    }
    // An entry that is cut off comes again next time.
    sealing.commit()
}

/// Whether a program could be run: a name without a folder is looked up as the system does.
fn runnable(program: &Path) -> std::io::Result<()> {
    let check = |path: &Path| {
        if std::fs::metadata(path)?.is_dir() {
            return Err(rustix::io::Errno::ISDIR.into());
        }
        Ok(rustix::fs::access(path, rustix::fs::Access::EXEC_OK)?)
    };
    if program.components().count() > 1 {
        return check(program);
    }
    let folders = std::env::var_os("PATH").unwrap_or_default();
    let is_there = std::env::split_paths(&folders).any(|f| check(&f.join(program)).is_ok());
    if is_there { Ok(()) } else { Err(std::io::ErrorKind::NotFound.into()) }
}

/// Takes cursors; the last one stays.
#[derive(Default)]
struct Last(Option<String>);

impl Sink for Last {
    fn record(&mut self, found: &Found<'_>) -> bool {
        if let Some(cursor) = statement_member(found.record.bytes, STATEMENT, "cursor") {
            self.0 = Some(cursor);
        }
        true
    }

    /// Verification reports damage; messages can't be read without a key, and need not be.
    fn unreadable(&mut self, _: &str) {}
}

/// The last cursor in the log. It is not encrypted: a writer has no reader's key.
fn last_cursor(log: &dyn Storage) -> gabion_seal::Result<Option<String>> {
    let mut reader = Reader::open(log, &[])?;
    let wanted = Selection { kind: Some(Kind::System), ..Selection::default() };
    for segment in reader.segments()?.into_iter().rev() {
        let mut last = Last::default();
        reader.scan(Cursor { segment, offset: 0 }, &wanted, &mut last)?;
        if last.0.is_some() {
            return Ok(last.0);
        }
    }
    Ok(None)
}
