//! Verification: what a log's files prove, to which reader, and where they contradict each other.
//!
//! Without any private key: every head, every hash, both trees' roots as far as they are public, every
//! signature, the chain of epochs, the statements in clear. With a recipient's key also every record.
//! Segments are read once, in order; workers hash and decrypt batches of chunks, one judge takes their
//! results in order and holds no more than the roots of the tree's full subtrees.

mod compare;
mod conclude;
mod facts;
mod indexed;
mod judge;
mod missing;
mod read;
mod report;
mod state;

pub use compare::{CompareError, Comparison, compare};
pub use report::{Anchored, LOCKED_CODE, Place, Pruned, Report, Verdict};

use crate::checkpoints;
use crate::error::{Error, Result};
use crate::format::segment::parse_file_name;
use crate::identity::{self, Identity};
use crate::limits::LOOKS;
use crate::note::{Checkpoint, Note, Vkey};
use crate::recipient::SecretKey;
use crate::storage::Storage;
use judge::Judge;

/// A note from outside, kept by the verifier.
#[derive(Clone, Debug)]
pub struct Anchor {
    /// Where it is from, for messages.
    pub from: String,
    /// The note.
    pub note: Note,
    /// What it says.
    pub checkpoint: Checkpoint,
}

impl Anchor {
    /// Reads all notes of an anchor file: framed as in `checkpoints`, or one bare note.
    pub fn parse_file(from: &str, bytes: &[u8]) -> Result<Vec<Anchor>> {
        let mut memory = crate::storage::Memory::new();
        let read = |note: Note| -> Result<Anchor> {
            let checkpoint = Checkpoint::parse(&note.text)?;
            Ok(Anchor { from: from.to_owned(), note, checkpoint })
        };
        if bytes.get(8) != Some(&b' ') || !bytes.iter().take(8).all(u8::is_ascii_hexdigit) {
            return Ok(vec![read(Note::parse(bytes)?)?]);
        }
        memory.create(checkpoints::FILE, bytes).map_err(|e| Error::storage(from, e))?;
        let mut all = Vec::new();
        let Some(mut reader) = checkpoints::Reader::new(&memory)? else { return Ok(all) };
        loop {
            match reader.step()? {
                checkpoints::Next::Entry(entry) => all.push(read(entry.note)?),
                checkpoints::Next::End | checkpoints::Next::Torn { .. } => return Ok(all),
                checkpoints::Next::Damaged { error, .. } => return Err(error),
            }
        }
    }
}

/// What to verify with.
#[derive(Debug, Default)]
pub struct Options<'a> {
    /// The log's first key, kept off the host.
    pub vkey: Option<Vkey>,
    /// Notes from outside.
    pub anchors: Vec<Anchor>,
    /// Keys of witnesses that are trusted.
    pub witnesses: Vec<Vkey>,
    /// Keys that open content.
    pub keys: &'a [SecretKey],
    /// The newest signed time may be no older, ns; with the time it is now.
    pub max_age: Option<(u64, u64)>,
    /// Check the signature of every commit mark.
    pub is_deep: bool,
    /// Threads; at least one.
    pub jobs: usize,
}

/// Verifies a log, which may be written, rotated and pruned meanwhile. `progress` receives the bytes read and in all.
pub fn verify(
    log: &dyn Storage,
    options: &Options<'_>,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<Report> {
    for _ in 1..LOOKS {
        match verify_once(log, options, progress) {
            Ok(report) if report.has_vanished => {}
            Err(Error::Storage { source, .. }) if source.kind() == std::io::ErrorKind::NotFound => {
            }
            judged => return judged,
        }
    }
    verify_once(log, options, progress)
}

fn verify_once(
    log: &dyn Storage,
    options: &Options<'_>,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<Report> {
    let mut report = Report::default();
    let bytes =
        log.read_file(identity::FILE, 1 << 16).map_err(|e| Error::storage(identity::FILE, e))?;
    let Some(bytes) = bytes else {
        report.place(
            Verdict::Incomplete,
            Place::file(identity::FILE, "missing: no log, or one without its name"),
        );
        return Ok(report.finished(options));
    };
    let identity = match Identity::parse(&bytes) {
        Ok(identity) => identity,
        Err(Error::Unsupported { what }) => {
            report.place(Verdict::Unsupported, Place::file(identity::FILE, what));
            return Ok(report.finished(options));
        }
        Err(e) => {
            report.place(Verdict::Tampered, Place::file(identity::FILE, e.to_string()));
            return Ok(report.finished(options));
        }
    };
    report.origin.clone_from(&identity.origin);
    if options.vkey.as_ref().is_some_and(|pinned| *pinned != identity.vkey) {
        report
            .place(Verdict::Tampered, Place::file(identity::FILE, "not signed by the pinned key"));
        return Ok(report.finished(options));
    }
    let Some(tail) = checkpoints::tail(log)? else {
        report.place(
            Verdict::Incomplete,
            Place::file(
                checkpoints::FILE,
                "missing: even a fresh log has the checkpoint of size 0",
            ),
        );
        return Ok(report.finished(options));
    };
    if tail.count == 0 {
        report.place(
            Verdict::Incomplete,
            Place::file(checkpoints::FILE, "empty: even a fresh log has the checkpoint of size 0"),
        );
        return Ok(report.finished(options));
    }
    // Checkpoints before segments: what is signed later than this look began is not missed in them.
    let mut judge = Judge::new(log, options, &identity, &tail, report)?;
    let names = log.list().map_err(|e| Error::storage("log", e))?;
    judge.files(&names);
    let mut segments: Vec<(u64, bool)> = Vec::new();
    for name in &names {
        match parse_file_name(name) {
            Some((first, "gsl")) => segments.push((first, true)),
            Some((first, "pruned"))
                if !names.contains(&crate::format::segment::file_name(first, "gsl")) =>
            {
                segments.push((first, false));
            }
            _ => {}
        }
    }
    segments.sort_unstable();
    read::run(log, options, &segments, judge, progress)
}
