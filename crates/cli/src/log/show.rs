//! `gabion log show`: records as JSON lines, or as text that is safe on a terminal.

use super::options::{Select, Show};
use super::{Ended, LogFault, folders};
use crate::standard_output::StandardOutput;
use gabion_logs::view::{
    Backwards, MessageCriteria, MessageFilter, RecordPrinter, first_of_last, rfc3339,
    write_backwards,
};
use gabion_seal::reader::{Cursor, Reader, Selection};
use gabion_seal::verify::Verdict;
use std::io::{BufWriter, Write};
use std::path::Path;
use std::time::Duration;

/// How long `--follow` waits between two looks.
const FOLLOW: Duration = Duration::from_millis(50);

/// Prints what could not be read.
pub(super) fn complain(what: &str) {
    eprintln!("gabion: {what}");
}

/// Reads the options that choose by the contents of messages.
pub(super) fn filter(select: &Select) -> MessageFilter {
    MessageFilter::new(&MessageCriteria {
        hosts: select.hosts.clone(),
        units: select.units.clone(),
        programs: select.identifiers.clone(),
        severities: select.priority,
        text: select.grep.clone(),
    })
}

/// Reads the options that let whole chunks be skipped; [`filter`] looks at the contents of messages.
pub(super) fn selection(select: &Select) -> Result<Selection, LogFault> {
    let (since_ns, until_ns) = (select.since, select.until);
    if let (Some(since), Some(until)) = (since_ns, until_ns)
        && since >= until
    {
        let [since, until] = [since, until].map(rfc3339);
        let text =
            format!("--since {since} is not before --until {until}: no record can be between");
        return Err(LogFault::usage(text));
    }
    let source = select.source.as_ref().map(|s| s.clone().into_bytes());
    Ok(Selection { since_ns, until_ns, records: select.record, source, kind: select.kind })
}

/// Refuses a range of records that begins where the log has ended.
pub(super) fn not_behind_the_end(
    selection: &Selection,
    reader: &Reader<'_>,
    log: &Path,
) -> Result<(), LogFault> {
    let Some((first, last)) = selection.records else { return Ok(()) };
    let next = reader.next_record()?;
    if first < next {
        return Ok(());
    }
    let text = format!("no record {first} to {last}: the log holds {next}, from 0 on");
    Err(LogFault::input(text).about(log))
}

pub(super) fn run(options: &Show) -> Ended {
    let mut selection = selection(&options.select)?;
    let filter = filter(&options.select);
    let keys = folders::secret_keys(&options.reading.keys)?;
    let log = folders::open(&options.reading.log)?;
    folders::pinned(&options.reading.log, options.reading.vkey.as_deref())?;
    let mut reader =
        Reader::open(&log, &keys).map_err(|e| LogFault::from(e).about(&options.reading.log))?;
    let mut out = BufWriter::with_capacity(1 << 16, StandardOutput);
    let mut complain_now = complain;
    let (shown, is_closed);
    if options.reverse {
        let how = Backwards {
            filter: &filter,
            is_text: options.text,
            most: options.lines.unwrap_or(u64::MAX),
            complain: &mut complain_now,
        };
        (shown, is_closed) = write_backwards(&mut reader, &selection, how, &mut out)?;
    } else {
        if let Some(lines) = options.lines {
            let first = first_of_last(&mut reader, &selection, &filter, lines)?;
            let (asked, last) = selection.records.unwrap_or((0, u64::MAX));
            selection.records = Some((asked.max(first), last));
        }
        let mut printer = RecordPrinter::new(out, &filter, options.text, &mut complain_now);
        let mut cursor = Cursor::default();
        loop {
            cursor = reader.scan(cursor, &selection, &mut printer)?;
            if printer.out.flush().is_err() || printer.is_closed || !options.follow {
                break;
            }
            std::thread::sleep(FOLLOW);
        }
        (shown, is_closed) = (printer.shown, printer.is_closed);
    }
    let has_nothing = shown == 0 || keys.is_empty();
    if reader.is_key_missing && has_nothing && !is_closed {
        let what = if !keys.is_empty() {
            "no key given opens what was asked for"
        } else if shown == 0 {
            "give a reader's key with --key"
        } else {
            "only the log's own statements are shown: give a reader's key with --key"
        };
        let text = format!("{}: {what}", options.reading.log.display());
        return Err(LogFault::verdict(Verdict::KeyError, text));
    }
    if shown == 0 && options.select.record.is_some() {
        not_behind_the_end(&selection, &reader, &options.reading.log)?;
    }
    Ok(if reader.is_key_missing && !keys.is_empty() { Verdict::KeyError.code() } else { 0 })
}
