//! `gabion log import-slog`: reads slog's own file with its checks, prints its summary line next to ours,
//! and seals the records when a log is named.

use super::options::ImportSlog;
use super::times::now_ns;
use super::{Ended, LogFault, folders};
use crate::exit::about;
use crate::standard_output;
use gabion_outputs::table::thousands;
use gabion_record::hex::to_hex;
use gabion_record::json::Json;
use gabion_seal::limits::SLOG_LINE_MAX;
use gabion_seal::slog::{Fault, Import};
use gabion_seal::slog::{SlogRecord, unix_ns};
use gabion_seal::storage::Files;
use gabion_seal::verify::Verdict;
use gabion_seal::{Flags, Kind, Record, SecretKey, Source, Transport, Writer};
use std::collections::VecDeque;
use std::io::{BufRead, BufReader, Read};

pub(super) fn run(options: &ImportSlog) -> Ended {
    let key = &folders::secret_key(&options.priv_key, "slog's private storage key")?;
    let password = match &options.password_file {
        Some(path) => {
            Some(folders::read_text(path)?.trim_end_matches(['\n', '\r']).as_bytes().to_vec())
        }
        None => None,
    };
    if let Some(log) = &options.log {
        folders::check_writable(log, options.state.as_deref())?;
    }
    let file = std::fs::File::open(&options.file)
        .map_err(|e| LogFault::input(about(options.file.display(), &e)))?;
    let mut input = BufReader::with_capacity(1 << 18, file);
    // Nothing is opened to write before it is known that this is slog's file and its key.
    let mut ahead = VecDeque::new();
    check_head(options, key, &mut input, &mut ahead)?;
    let mut writer = match &options.log {
        Some(log) => Some(folders::writer_at(log, options.state.as_deref(), None)?.0),
        None => None,
    };
    let mut import = Import::new(key, password, options.check_wraps);
    let mut shown = 0;
    loop {
        let line = match ahead.pop_front() {
            Some(line) => line,
            None => next_line(options, &mut input)?,
        };
        if line.is_empty() {
            break;
        }
        let text = line.strip_suffix(b"\n").unwrap_or(&line);
        let imported = import.line(text);
        if !imported.faults.is_empty() {
            shown += 1;
            if shown <= 20 {
                let said: Vec<String> = imported
                    .faults
                    .iter()
                    .map(|f| format!("{}: {}", f.name(), f.meaning()))
                    .collect();
                let (file, line) = (options.file.display(), import.summary.lines);
                eprintln!("gabion: {file}: line {line}: {}", said.join("; "));
            }
        }
        if let Some(writer) = &mut writer {
            let is_suspicious = !imported.faults.is_empty();
            match &imported.record {
                Some(record) => seal(writer, record, is_suspicious)?,
                None => seal_raw(writer, text)?,
            }
        }
    }
    if shown > 20 {
        let more = shown - 20;
        eprintln!("gabion: {}: and {more} lines more like these", options.file.display());
    }
    if let Some(writer) = writer {
        writer.close(now_ns())?;
    }
    finish(options, &import)
}

/// The next line with its end, as much of it as is read; empty at the end.
fn next_line(options: &ImportSlog, input: &mut impl BufRead) -> Result<Vec<u8>, LogFault> {
    let mut line = Vec::new();
    let read = input.take(SLOG_LINE_MAX as u64 + 1).read_until(b'\n', &mut line);
    read.map_err(|e| LogFault::input(about(options.file.display(), &e)))?;
    Ok(line)
}

/// Checks by the first line or two whether this is a file of slog and the key is that of its storage: one message about
/// the whole file is more useful than one about each of its lines. The lines that were read are in `ahead`.
fn check_head(
    options: &ImportSlog,
    key: &SecretKey,
    input: &mut impl BufRead,
    ahead: &mut VecDeque<Vec<u8>>,
) -> Result<(), LogFault> {
    let mut is_opened = true;
    // If only the first line does not open, it is damaged, and is reported as such.
    for _ in 0..2 {
        let line = next_line(options, input)?;
        let text = line.strip_suffix(b"\n").unwrap_or(&line);
        if line.is_empty() {
            break;
        }
        let faults = Import::new(key, None, false).line(text).faults;
        if ahead.is_empty() && faults.contains(&Fault::Fields) {
            return Err(LogFault::input(
                "line 1 does not have the seven fields, with commas between, of a file that slog's server writes",
            )
            .about(&options.file));
        }
        ahead.push_back(line);
        is_opened = !faults.contains(&Fault::Wrap);
        if is_opened {
            break;
        }
    }
    if is_opened {
        return Ok(());
    }
    let text = format!(
        "{} does not open the passwords of its first lines: name slog's private storage key (KEY-ERROR)",
        options.priv_key.display()
    );
    Err(LogFault::verdict(Verdict::KeyError, text).about(&options.file))
}

fn seal(
    writer: &mut Writer<Files>,
    record: &SlogRecord,
    is_suspicious: bool,
) -> Result<(), LogFault> {
    let is_opened = !record.is_syslog && !record.is_suspicious;
    let bytes = if is_opened { &record.decrypted } else { &record.data };
    let mut flags = if is_opened { Flags::OPENED } else { Flags::default() };
    if is_suspicious || record.is_suspicious {
        flags = flags.with(Flags::SUSPICIOUS);
    }
    let identity = format!("slog {} {}", record.server, record.protocol);
    let source = Source::new(Transport::Import, 0, &record.source_ip, &identity);
    let time_ns = unix_ns(&record.received_at).unwrap_or_else(now_ns);
    writer.append(
        &Record { time_ns, kind: Kind::Message, flags, bytes: bytes.as_bytes() },
        &source,
    )?;
    Ok(())
}

/// A line that could not be opened is kept as it is.
fn seal_raw(writer: &mut Writer<Files>, line: &[u8]) -> Result<(), LogFault> {
    let source = Source::new(Transport::Import, 0, "", "slog");
    let bytes = &line[..line.len().min(gabion_seal::limits::RECORD_MAX)];
    let mut flags = Flags::SUSPICIOUS;
    if bytes.len() < line.len() {
        flags = flags.with(Flags::TRUNCATED);
    }
    let record = Record { time_ns: now_ns(), kind: Kind::Message, flags, bytes };
    writer.append(&record, &source)?;
    Ok(())
}

fn finish(options: &ImportSlog, import: &Import<'_>) -> Ended {
    let summary = import.summary;
    let last = import.last_hash().map(|h| to_hex(&h)).unwrap_or_default();
    let missing = options.expect_lines.is_some_and(|n| n != summary.lines)
        || options.expect_last.as_ref().is_some_and(|h| !h.eq_ignore_ascii_case(&last));
    let is_good = summary.suspicious == 0 && !missing;
    if options.output.json {
        let mut json = Json::new();
        json.open();
        json.number("lines", summary.lines);
        json.number("suspicious", summary.suspicious);
        json.number("suspicious_in", summary.suspicious_in);
        json.number("spliced", summary.spliced);
        json.number("unwrapped", summary.unwrapped);
        json.boolean("truncated", missing);
        json.field("last", &last);
        json.field("slog", summary.slog_line());
        json.close();
        standard_output::line(String::from_utf8_lossy(json.bytes()));
    } else {
        standard_output::line(summary.slog_line());
        standard_output::line(format_args!(
            "{} lines, {} suspicious, {} spliced starts{}; last line {last}",
            thousands(summary.lines),
            thousands(summary.suspicious),
            thousands(summary.spliced),
            if missing { ", NOT the expected end" } else { "" }
        ));
    }
    Ok(if is_good { 0 } else { 1 })
}
