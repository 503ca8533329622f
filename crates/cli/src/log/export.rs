//! `gabion log export`: all records for another program.

use super::options::{Export, ExportFormat};
use super::show::{Printer, selection};
use super::times::rfc3339;
use super::{Ended, LogFault, folders};
use crate::standard_output::StandardOutput;
use gabion_seal::Kind;
use gabion_seal::reader::{Cursor, Found, Reader, Sink};
use std::io::{BufWriter, Write};

/// Messages alone, in a form of their own.
struct Raw<W> {
    out: W,
    is_journal: bool,
    is_closed: bool,
}

impl<W: Write> Raw<W> {
    fn write(&mut self, found: &Found<'_>) -> std::io::Result<()> {
        let bytes = found.record.bytes;
        if !self.is_journal {
            // Octet counting keeps line ends inside messages apart from those between them.
            write!(self.out, "{} ", bytes.len())?;
            self.out.write_all(bytes)?;
            return self.out.write_all(b"\n");
        }
        writeln!(self.out, "__REALTIME_TIMESTAMP={}", found.record.time_ns / 1_000)?;
        writeln!(self.out, "_TRANSPORT={}", found.source.transport_name())?;
        writeln!(self.out, "GABION_RECORD={}", found.number)?;
        writeln!(self.out, "GABION_TIME={}", rfc3339(found.record.time_ns))?;
        self.field("GABION_SOURCE", found.source.peer)?;
        self.field("MESSAGE", bytes)?;
        self.out.write_all(b"\n")
    }

    fn field(&mut self, name: &str, bytes: &[u8]) -> std::io::Result<()> {
        self.out.write_all(name.as_bytes())?;
        if bytes.iter().any(|c| *c < 0x20 && *c != b'\t') || std::str::from_utf8(bytes).is_err() {
            self.out.write_all(b"\n")?;
            self.out.write_all(&(bytes.len() as u64).to_le_bytes())?;
        } else {
            self.out.write_all(b"=")?;
        }
        self.out.write_all(bytes)?;
        self.out.write_all(b"\n")
    }
}

impl<W: Write> Sink for Raw<W> {
    fn record(&mut self, found: &Found<'_>) -> bool {
        if found.record.kind == Kind::Message {
            self.is_closed = self.write(found).is_err();
        }
        !self.is_closed
    }

    fn unreadable(&mut self, what: &str) {
        eprintln!("gabion: {what}");
    }
}

pub(super) fn run(options: &Export) -> Ended {
    let (selection, grep) = selection(&options.select)?;
    if grep.is_some() && options.format != ExportFormat::Json {
        return Err(LogFault::usage("--grep works with --format json"));
    }
    let keys = folders::secret_keys(&options.reading.keys)?;
    let log = folders::open(&options.reading.log)?;
    folders::pinned(&options.reading.log, options.reading.vkey.as_deref())?;
    let mut reader =
        Reader::open(&log, &keys).map_err(|e| LogFault::from(e).about(&options.reading.log))?;
    let mut out = BufWriter::with_capacity(1 << 18, StandardOutput);
    match options.format {
        ExportFormat::Json => {
            let mut printer = Printer::new(&mut out, grep.as_deref(), false);
            reader.scan(Cursor::default(), &selection, &mut printer)?;
        }
        format => {
            let is_journal = format == ExportFormat::Journal;
            let mut raw = Raw { out: &mut out, is_journal, is_closed: false };
            reader.scan(Cursor::default(), &selection, &mut raw)?;
        }
    }
    // What could not be written is said at the end of the program.
    let _ = out.flush();
    if reader.is_key_missing {
        let text = format!(
            "{}: not all content was opened: give readers' keys with --key",
            options.reading.log.display()
        );
        return Err(LogFault { code: 24, text });
    }
    Ok(0)
}
