//! `gabion log follow-journal`: seals the entries of systemd's journal as they are written, each once.
//!
//! `journalctl --follow` writes the entries in export format, which are kept byte for byte. The entries of each
//! commit are followed by a statement of the log with the cursor of the last one, in the same commit: after a kill
//! or a crash at any moment the log ends with a commit, so that its last cursor is that of its last entry, and
//! journalctl is asked for the entries after it. Nothing is lost and nothing doubled, and no second file has to agree with the log.

use super::append::not_read;
use super::blocks::blocks;
use super::options::FollowJournal;
use super::times::now_ns;
use super::{Ended, LogFault, folders};
use crate::standard_output;
use gabion_logs::journal::{Entries, Entry};
use gabion_outputs::table::thousands;
use gabion_record::json::Json;
use gabion_runtime::{Signals, clock};
use gabion_seal::limits::CHUNK_PLAIN;
use gabion_seal::reader::{Cursor, Found, Reader, Selection, Sink};
use gabion_seal::statement::statement;
use gabion_seal::storage::Files;
use gabion_seal::{Flags, Kind, Record, Source, Transport, Writer};
use serde_json::Value;
use std::path::Path;
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

pub(super) fn run(options: &FollowJournal) -> Ended {
    let signals = Signals::install().map_err(|e| LogFault::environment(format!("signals: {e}")))?;
    // Before the log is opened, whose opening may write to it.
    runnable(&options.journalctl).map_err(|e| not_run(options, &e))?;
    let (writer, _) = folders::writer(&options.folder, Some(&options.seal))?;
    let cursor = last_cursor(&options.folder.log)?;
    let mut sealing = Sealing {
        writer,
        source: Source::new(Transport::Journal, 0, "", ""),
        cursor: None,
        said: (cursor.clone(), clock::now()),
        waiting: 0,
        since: None,
        entries: 0,
        cut: 0,
        gaps: 0,
    };
    if let Some(cursor) = &cursor
        && !is_there(options, cursor)?
    {
        eprintln!(
            "gabion: {}: the journal has let go of the entry that was sealed last: entries behind it may have gone with it: \
             give the journal more room (SystemMaxUse=), or run this without a pause",
            options.folder.log.display()
        );
        let gap = statement("journal-gap", |json| json.field("after", cursor));
        sealing.writer.state(&[gap], 0)?;
        sealing.writer.commit(now_ns())?;
        sealing.gaps = 1;
    }
    let mut child = journalctl(options)
        .args(["--follow", "--no-tail"])
        .args(cursor.iter().map(|cursor| format!("--after-cursor={cursor}")))
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .map_err(|e| not_run(options, &e))?;
    let taken = take_all(&mut child, &signals, &mut sealing);
    // It may wait for entries: what it was asked for is over.
    let _ = child.kill();
    let ended = child.wait();
    let Sealing { writer, entries, cut, gaps, .. } = sealing;
    let is_input = taken.as_ref().is_err_and(LogFault::is_input);
    let advice =
        "free disk space and start it again: it continues with the entry after the last one sealed";
    let stopped = |fault: LogFault| fault.with_advice(advice).about(&options.folder.log);
    if taken.is_ok() || is_input {
        writer.close(now_ns()).map_err(|e| stopped(LogFault::from(e)))?;
    }
    taken.map_err(|fault| if is_input { fault } else { stopped(fault) })?;
    if !signals.stop().is_set() {
        let how = ended.map_or_else(|e| e.to_string(), |status| status.to_string());
        return Err(LogFault::environment(format!(
            "{} ended ({how}) though nothing asked it to: {entries} entries are sealed: see what it says above",
            options.journalctl.display()
        )));
    }
    if options.json {
        let mut json = Json::new();
        json.open();
        json.number("entries", entries);
        json.number("truncated", cut);
        json.number("gaps", gaps);
        json.close();
        standard_output::line(String::from_utf8_lossy(json.bytes()));
    } else if !options.quiet {
        standard_output::line(format_args!("sealed {} entries of the journal", thousands(entries)));
    }
    Ok(0)
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
    entries: u64,
    cut: u64,
    gaps: u64,
}

impl Sealing {
    fn entry(&mut self, bytes: &[u8], left_out: u32) -> Result<(), LogFault> {
        let cursor = Entry(bytes).get("__CURSOR").and_then(|c| std::str::from_utf8(c).ok());
        let cursor = cursor.ok_or_else(|| {
            LogFault::input("an entry without __CURSOR: not the output of `journalctl -o export`")
        })?;
        let mut flags = Flags::default();
        if left_out > 0 {
            flags = flags.with(Flags::TRUNCATED);
            self.cut += 1;
        }
        if std::str::from_utf8(bytes).is_err() {
            flags = flags.with(Flags::NOT_UTF8);
        }
        self.cursor = Some(cursor.to_owned());
        let record = Record { time_ns: now_ns(), kind: Kind::Message, flags, bytes };
        self.writer.append(&record, &self.source)?;
        self.entries += 1;
        self.waiting += bytes.len();
        self.since.get_or_insert_with(clock::now);
        // A writer makes chunks durable by itself when they come to a mebibyte: the cursor comes before.
        if self.waiting >= CHUNK_PLAIN { self.commit() } else { Ok(()) }
    }

    /// Makes the received entries durable, followed by their cursor.
    fn commit(&mut self) -> Result<(), LogFault> {
        // The cursor of a quiet journal is written again, before it is lost with a pruned segment.
        let is_old = self.said.1.elapsed() >= SAY_AGAIN;
        let again = if is_old { self.said.0.clone() } else { None };
        if let Some(cursor) = self.cursor.take().or(again) {
            let cursor_statement = statement(STATEMENT, |json| json.field("cursor", &cursor));
            self.writer.state(&[cursor_statement], 0)?;
            self.writer.commit(now_ns())?;
            self.said = (Some(cursor), clock::now());
        }
        (self.waiting, self.since) = (0, None);
        Ok(self.writer.tick(now_ns())?)
    }

    /// The same when what came has waited long enough.
    fn commit_if_due(&mut self) -> Result<(), LogFault> {
        if self.since.is_none_or(|since| since.elapsed() >= COMMIT_AFTER) {
            self.commit()
        } else {
            Ok(())
        }
    }
}

/// Takes entries until a signal ends it, or journalctl does.
fn take_all(child: &mut Child, signals: &Signals, sealing: &mut Sealing) -> Result<(), LogFault> {
    let Some(from) = child.stdout.take() else { return Ok(()) };
    let blocks = blocks(from);
    let mut entries = Entries::default();
    while !signals.stop().is_set() {
        match blocks.recv_timeout(LOOK) {
            Ok(Ok(block)) if block.is_empty() => break,
            Ok(Ok(block)) => entries
                .push(&block, &mut |entry, left_out| sealing.entry(entry, left_out))
                .map_err(not_read)?,
            Ok(Err(e)) => return Err(LogFault::input(format!("journalctl: {e}"))),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => break,
        }
        sealing.commit_if_due()?;
    }
    // An entry that is cut off comes again next time.
    sealing.commit()
}

/// journalctl as it is asked for everything.
fn journalctl(options: &FollowJournal) -> Command {
    let mut command = Command::new(&options.journalctl);
    command.env("SYSTEMD_COLORS", "0").args(["--quiet", "--no-pager", "--all", "--output=export"]);
    command.args(&options.args);
    command
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

fn not_run(options: &FollowJournal, e: &std::io::Error) -> LogFault {
    let program = options.journalctl.display();
    LogFault::environment(format!("{program}: {e}: install systemd, or name it with --journalctl"))
}

/// Whether the journal still holds the entry of a cursor.
fn is_there(options: &FollowJournal, cursor: &str) -> Result<bool, LogFault> {
    let asked = journalctl(options)
        .args(["--lines=1", &format!("--cursor={cursor}")])
        .stdin(Stdio::null())
        .output()
        .map_err(|e| not_run(options, &e))?;
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

/// Takes cursors; the last one stays.
#[derive(Default)]
struct Last(Option<String>);

impl Sink for Last {
    fn record(&mut self, found: &Found<'_>) -> bool {
        if let Ok(said) = serde_json::from_slice::<Value>(found.record.bytes)
            && said["type"] == STATEMENT
            && let Some(cursor) = said["cursor"].as_str()
        {
            self.0 = Some(cursor.to_owned());
        }
        true
    }

    /// Verification reports damage; messages can't be read without a key, and need not be.
    fn unreadable(&mut self, _: &str) {}
}

/// The last cursor in the log. It is not encrypted: a writer has no reader's key.
fn last_cursor(path: &Path) -> Result<Option<String>, LogFault> {
    let log = folders::open(path)?;
    let mut reader = Reader::open(&log, &[]).map_err(|e| LogFault::from(e).about(path))?;
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
