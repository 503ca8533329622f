//! Seals what comes from one input, such as standard input: a record a line, or a record an entry of systemd's journal.

use crate::blocks::blocks;
use gabion_logs::journal::{Entries, Failed, NoEntry};
use gabion_runtime::clock::epoch_ns as now_ns;
use gabion_seal::limits::RECORD_MAX;
use gabion_seal::storage::Files;
use gabion_seal::{Flags, Kind, Record, Source, Tally, Transport, Writer};
use std::io::{self, Read};
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::Duration;

/// How an input is cut into records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InputForm {
    /// Lines; empty ones are left out, and a carriage return at the end.
    Lines,
    /// Lines as they are.
    RawLines,
    /// Entries of systemd's journal in its export format.
    JournalEntries,
}

/// What was sealed of an input that came to its end.
#[derive(Clone, Copy, Debug)]
pub struct SealedInput {
    /// Records and bytes.
    pub tally: Tally,
    /// Records that were cut at the limit of a record.
    pub truncated: u64,
}

/// Why an input was not sealed to its end.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SealInputError {
    /// The input can't be read.
    #[error("{source}")]
    Unreadable {
        /// The error of the operating system.
        source: io::Error,
        /// Records before it, which are sealed.
        records: u64,
    },
    /// The input is not in the journal's export format.
    #[error("entry {}: {}", none.entry, none.why)]
    NoEntry {
        /// What is wrong, and with which entry.
        none: NoEntry,
        /// Records before it, which are sealed.
        records: u64,
    },
    /// The log can't be written.
    #[error("{source}")]
    Log {
        /// The error of the log.
        source: gabion_seal::Error,
        /// Records that are sealed, where that is known.
        sealed: Option<u64>,
    },
}

/// What ended the reading.
enum InputFault {
    Unreadable(io::Error),
    NoEntry(NoEntry),
    Log(gabion_seal::Error),
}

impl InputFault {
    fn of_entries(failed: Failed<InputFault>) -> InputFault {
        match failed {
            Failed::Taken(fault) => fault,
            Failed::NoEntry(none) => InputFault::NoEntry(none),
        }
    }
}

/// Seals an input to its end and closes the log. What came before a fault of the input is sealed too.
///
/// # Errors
/// When the input can't be read or is in another form; when the log can't be written.
pub fn seal_input(
    from: impl Read + Send + 'static,
    form: InputForm,
    writer: Writer<Files>,
    class: u8,
) -> Result<SealedInput, SealInputError> {
    let mut split: Box<dyn Split> = match form {
        InputForm::JournalEntries => Box::<JournalEntries>::default(),
        InputForm::Lines => Box::new(Lines { rest: Vec::new(), is_raw: false }),
        InputForm::RawLines => Box::new(Lines { rest: Vec::new(), is_raw: true }),
    };
    let transport = match form {
        InputForm::JournalEntries => Transport::Journal,
        InputForm::Lines | InputForm::RawLines => Transport::Stdin,
    };
    let source = Source::new(transport, 0, "", "");
    let mut sealing = Sealing { writer, source, class, truncated: 0 };
    let taken = take_all(&blocks(from), &mut *split, &mut sealing);
    let log = |source, sealed| SealInputError::Log { source, sealed };
    let sealed = sealing.writer.durable().0;
    match taken {
        Ok(()) => {}
        Err(InputFault::Log(source)) => return Err(log(source, Some(sealed))),
        Err(InputFault::Unreadable(source)) => {
            let records = sealing.close().map_err(|e| log(e, None))?.records;
            return Err(SealInputError::Unreadable { source, records });
        }
        Err(InputFault::NoEntry(none)) => {
            let records = sealing.close().map_err(|e| log(e, None))?.records;
            return Err(SealInputError::NoEntry { none, records });
        }
    }
    let truncated = sealing.truncated;
    let tally = sealing.close().map_err(|e| log(e, Some(sealed)))?;
    Ok(SealedInput { tally, truncated })
}

/// Takes what comes until the input ends.
fn take_all(
    blocks: &Receiver<io::Result<Vec<u8>>>,
    split: &mut dyn Split,
    sealing: &mut Sealing,
) -> Result<(), InputFault> {
    loop {
        match blocks.recv_timeout(Duration::from_millis(50)) {
            Ok(Ok(block)) if block.is_empty() => break,
            Ok(Ok(block)) => {
                split.push(&block, &mut |bytes, is_cut| sealing.record(bytes, is_cut))?
            }
            Ok(Err(e)) => return Err(InputFault::Unreadable(e)),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => break,
        }
        sealing.writer.tick(now_ns()).map_err(InputFault::Log)?;
    }
    split.finish(&mut |bytes, is_cut| sealing.record(bytes, is_cut))
}

struct Sealing {
    writer: Writer<Files>,
    source: Source,
    class: u8,
    truncated: u64,
}

impl Sealing {
    fn record(&mut self, bytes: &[u8], is_cut: bool) -> Result<(), InputFault> {
        let mut flags = Flags::default();
        let mut bytes = bytes;
        if is_cut || bytes.len() > RECORD_MAX {
            bytes = bytes.get(..RECORD_MAX).unwrap_or(bytes);
            flags = flags.with(Flags::TRUNCATED);
            self.truncated += 1;
        }
        if std::str::from_utf8(bytes).is_err() {
            flags = flags.with(Flags::NOT_UTF8);
        }
        let record = Record { time_ns: now_ns(), kind: Kind::Message, flags, bytes };
        let appended = self.writer.append_class(&record, &self.source, self.class);
        appended.map(drop).map_err(InputFault::Log)
    }

    fn close(self) -> gabion_seal::Result<Tally> {
        self.writer.close(now_ns())
    }
}

/// Takes a record, and whether something of it had no room.
type Each<'a> = dyn FnMut(&[u8], bool) -> Result<(), InputFault> + 'a;

/// Cuts a stream into records.
trait Split {
    /// Takes bytes and gives the records that end in them.
    fn push(&mut self, bytes: &[u8], each: &mut Each<'_>) -> Result<(), InputFault>;
    /// Gives what is left at the end.
    fn finish(&mut self, each: &mut Each<'_>) -> Result<(), InputFault>;
}

/// Lines; the last may lack its end.
struct Lines {
    rest: Vec<u8>,
    is_raw: bool,
}

impl Lines {
    fn line(&self, line: &[u8], each: &mut Each<'_>) -> Result<(), InputFault> {
        let line = if self.is_raw { line } else { line.strip_suffix(b"\r").unwrap_or(line) };
        if line.is_empty() && !self.is_raw { Ok(()) } else { each(line, false) }
    }
}

impl Split for Lines {
    fn push(&mut self, bytes: &[u8], each: &mut Each<'_>) -> Result<(), InputFault> {
        let mut rest = std::mem::take(&mut self.rest);
        rest.extend_from_slice(bytes);
        let mut start = 0;
        while let Some(len) = rest.get(start..).and_then(|r| r.iter().position(|c| *c == b'\n')) {
            self.line(&rest[start..start + len], each)?;
            start += len + 1;
        }
        rest.drain(..start);
        // A line without end is cut at the limit of a record, and marked as cut.
        if rest.len() > RECORD_MAX {
            self.line(&rest, each)?;
            rest.clear();
        }
        self.rest = rest;
        Ok(())
    }

    fn finish(&mut self, each: &mut Each<'_>) -> Result<(), InputFault> {
        let rest = std::mem::take(&mut self.rest);
        if rest.is_empty() { Ok(()) } else { self.line(&rest, each) }
    }
}

/// Entries of systemd's journal.
#[derive(Default)]
struct JournalEntries(Entries);

impl Split for JournalEntries {
    fn push(&mut self, bytes: &[u8], each: &mut Each<'_>) -> Result<(), InputFault> {
        self.0
            .push(bytes, &mut |entry, left_out| each(entry, left_out > 0))
            .map_err(InputFault::of_entries)
    }

    fn finish(&mut self, each: &mut Each<'_>) -> Result<(), InputFault> {
        self.0
            .finish(&mut |entry, left_out| each(entry, left_out > 0))
            .map_err(InputFault::of_entries)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn records(mut split: impl Split, input: &[u8], step: usize) -> Vec<Vec<u8>> {
        let mut out = Vec::new();
        let mut each = |r: &[u8], _: bool| {
            out.push(r.to_vec());
            Ok(())
        };
        for part in input.chunks(step) {
            assert!(split.push(part, &mut each).is_ok());
        }
        assert!(split.finish(&mut each).is_ok());
        out
    }

    #[test]
    fn any_split_of_the_input_gives_the_same_records() {
        let lines = b"one\r\n\ntwo\nthree";
        for step in 1..lines.len() {
            assert_eq!(
                records(Lines { rest: Vec::new(), is_raw: false }, lines, step),
                [&b"one"[..], b"two", b"three"]
            );
            assert_eq!(
                records(Lines { rest: Vec::new(), is_raw: true }, lines, step),
                [&b"one\r"[..], b"", b"two", b"three"]
            );
        }
    }
}
