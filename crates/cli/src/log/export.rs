//! `gabion log export`: all records for another program.

use super::options::{Export, ExportFormat};
use super::show::{complain, filter, not_behind_the_end, selection};
use super::{Ended, LogFault, folders};
use crate::standard_output::StandardOutput;
use gabion_logs::view::{MessageExporter, RecordPrinter};
use gabion_seal::reader::{Cursor, Reader};
use gabion_seal::verify::Verdict;
use std::io::{BufWriter, Write};

pub(super) fn run(options: &Export) -> Ended {
    let selection = selection(&options.select)?;
    let filter = filter(&options.select);
    let keys = folders::secret_keys(&options.reading.keys)?;
    let log = folders::open(&options.reading.log)?;
    folders::pinned(&options.reading.log, options.reading.vkey.as_deref())?;
    let mut reader =
        Reader::open(&log, &keys).map_err(|e| LogFault::from(e).about(&options.reading.log))?;
    let mut out = BufWriter::with_capacity(1 << 18, StandardOutput);
    let mut complain = complain;
    match options.format {
        ExportFormat::Json => {
            let mut printer = RecordPrinter::new(&mut out, &filter, false, &mut complain);
            reader.scan(Cursor::default(), &selection, &mut printer)?;
        }
        format => {
            let is_journal = format == ExportFormat::Journal;
            let mut exporter = MessageExporter::new(&mut out, is_journal, &filter, &mut complain);
            reader.scan(Cursor::default(), &selection, &mut exporter)?;
        }
    }
    // A failed write is reported at the end of the program.
    let _ = out.flush();
    if options.select.record.is_some() {
        not_behind_the_end(&selection, &reader, &options.reading.log)?;
    }
    if reader.is_key_missing {
        let text = format!(
            "{}: not all content was opened: give readers' keys with --key",
            options.reading.log.display()
        );
        return Err(LogFault::verdict(Verdict::KeyError, text));
    }
    Ok(0)
}
