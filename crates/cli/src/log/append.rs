//! `gabion log append`: seals standard input.

use super::blocks::blocks;
use super::options::Append;
use super::times::now_ns;
use super::{Ended, LogFault, folders};
use crate::standard_output;
use gabion_logs::journal::{Entries, Failed, NoEntry};
use gabion_outputs::table::thousands;
use gabion_record::json::Json;
use gabion_seal::limits::RECORD_MAX;
use gabion_seal::storage::Files;
use gabion_seal::{Flags, Kind, Record, Source, Transport, Writer};
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::Duration;

pub(super) fn run(options: &Append) -> Ended {
    let class = match &options.into {
        None => 0,
        Some(name) => match options.seal.classes.iter().position(|c| c == name) {
            Some(at) => u8::try_from(at + 1).unwrap_or(u8::MAX),
            None => {
                return Err(LogFault::usage(format!("--into {name}: name it with --class too")));
            }
        },
    };
    let (writer, _) = folders::writer(&options.folder, Some(&options.seal))?;
    let transport = if options.journal_export { Transport::Journal } else { Transport::Stdin };
    let source = Source::new(transport, 0, "", "");
    let mut intake = Intake { writer, source, class, truncated: 0 };
    let blocks = blocks(std::io::stdin());
    let mut split: Box<dyn Split> = if options.journal_export {
        Box::<JournalEntries>::default()
    } else {
        Box::new(Lines { rest: Vec::new(), is_raw: options.raw })
    };
    let log = &options.folder.log;
    match take_all(&blocks, &mut *split, &mut intake) {
        Ok(()) => {}
        // What came before a fault of the input is sealed.
        Err(fault) if fault.is_input() => {
            let tally = intake.writer.close(now_ns()).map_err(|e| LogFault::from(e).about(log))?;
            let text = format!("{} ({} records before it are sealed)", fault.text, tally.records);
            return Err(LogFault { text, ..fault });
        }
        Err(fault) => {
            let sealed = intake.writer.durable().0;
            return Err(fault.with_advice(rest_of(sealed)).about(log));
        }
    }
    let sealed = intake.writer.durable().0;
    let closed = intake.writer.close(now_ns());
    let tally = closed.map_err(|e| LogFault::from(e).with_advice(rest_of(sealed)).about(log))?;
    if options.json {
        let mut json = Json::new();
        json.open();
        json.number("records", tally.records);
        json.number("bytes", tally.bytes);
        json.number("stored", tally.stored);
        json.number("truncated", intake.truncated);
        json.close();
        standard_output::line(String::from_utf8_lossy(json.bytes()));
    } else if !options.quiet {
        standard_output::line(format_args!(
            "sealed {} records, {} bytes, in {} bytes",
            thousands(tally.records),
            thousands(tally.bytes),
            thousands(tally.stored)
        ));
    }
    Ok(0)
}

/// What to do when `sealed` records were sealed and no more could be.
fn rest_of(sealed: u64) -> String {
    let sealed = thousands(sealed);
    format!("{sealed} records of this run are sealed: make space, then give the others again")
}

/// Takes what comes until the input ends.
fn take_all(
    blocks: &Receiver<std::io::Result<Vec<u8>>>,
    split: &mut dyn Split,
    intake: &mut Intake,
) -> Result<(), LogFault> {
    loop {
        match blocks.recv_timeout(Duration::from_millis(50)) {
            Ok(Ok(block)) if block.is_empty() => break,
            Ok(Ok(block)) => {
                split.push(&block, &mut |bytes, is_cut| intake.record(bytes, is_cut))?
            }
            Ok(Err(e)) => return Err(LogFault::input(format!("standard input: {e}"))),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => break,
        }
        intake.writer.tick(now_ns())?;
    }
    split.finish(&mut |bytes, is_cut| intake.record(bytes, is_cut))
}

struct Intake {
    writer: Writer<Files>,
    source: Source,
    class: u8,
    truncated: u64,
}

impl Intake {
    fn record(&mut self, bytes: &[u8], is_cut: bool) -> Result<(), LogFault> {
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
        self.writer.append_class(&record, &self.source, self.class)?;
        Ok(())
    }
}

/// Takes a record, and whether something of it had no room.
type Each<'a> = dyn FnMut(&[u8], bool) -> Result<(), LogFault> + 'a;

/// Cuts a stream into records.
trait Split {
    /// Takes bytes and gives the records that end in them.
    fn push(&mut self, bytes: &[u8], each: &mut Each<'_>) -> Result<(), LogFault>;
    /// Gives what is left at the end.
    fn finish(&mut self, each: &mut Each<'_>) -> Result<(), LogFault>;
}

/// Lines; the last may lack its end.
struct Lines {
    rest: Vec<u8>,
    is_raw: bool,
}

impl Lines {
    fn line(&self, line: &[u8], each: &mut Each<'_>) -> Result<(), LogFault> {
        let line = if self.is_raw { line } else { line.strip_suffix(b"\r").unwrap_or(line) };
        if line.is_empty() && !self.is_raw { Ok(()) } else { each(line, false) }
    }
}

impl Split for Lines {
    fn push(&mut self, bytes: &[u8], each: &mut Each<'_>) -> Result<(), LogFault> {
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

    fn finish(&mut self, each: &mut Each<'_>) -> Result<(), LogFault> {
        let rest = std::mem::take(&mut self.rest);
        if rest.is_empty() { Ok(()) } else { self.line(&rest, each) }
    }
}

/// Entries of systemd's journal.
#[derive(Default)]
struct JournalEntries(Entries);

impl Split for JournalEntries {
    fn push(&mut self, bytes: &[u8], each: &mut Each<'_>) -> Result<(), LogFault> {
        self.0.push(bytes, &mut |entry, left_out| each(entry, left_out > 0)).map_err(not_read)
    }

    fn finish(&mut self, each: &mut Each<'_>) -> Result<(), LogFault> {
        self.0.finish(&mut |entry, left_out| each(entry, left_out > 0)).map_err(not_read)
    }
}

/// What ended the reading of entries.
pub(super) fn not_read(e: Failed<LogFault>) -> LogFault {
    match e {
        Failed::Taken(fault) => fault,
        Failed::NoEntry(NoEntry { entry, why }) => LogFault::input(format!(
            "standard input, entry {entry}: {why}: this is no journal in export format: give what `journalctl -o export` \
             prints"
        )),
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
            split.push(part, &mut each).unwrap();
        }
        split.finish(&mut each).unwrap();
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
