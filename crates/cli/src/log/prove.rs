//! `gabion log prove`: a proof of one record.

use super::options::Prove;
use super::{Ended, LogFault, folders};
use crate::existing::is_there;
use crate::exit::about;
use crate::standard_output;
use gabion_record::json::Json;
use gabion_runtime::files::NamedFiles;
use gabion_runtime::output::write_whole;
use gabion_seal::proof::{Wanted, prove};
use gabion_seal::reader::Reader;
use std::fmt::Display;
use std::path::Path;

pub(super) fn run(options: &Prove) -> Ended {
    if let Some(path) = &options.output {
        check_output(path, &options.reading.log)?;
    }
    let keys = folders::secret_keys(&options.reading.keys)?;
    let log = folders::open(&options.reading.log)?;
    folders::pinned(&options.reading.log, options.reading.vkey.as_deref())?;
    let mut reader =
        Reader::open(&log, &keys).map_err(|e| LogFault::from(e).about(&options.reading.log))?;
    let number = match (&options.finding, options.record) {
        (Some(id), _) => {
            let number = reader.find_finding(id, &mut |what| eprintln!("gabion: {what}"))?;
            number.ok_or_else(|| {
                LogFault::input(format!("no finding {id} in {}", options.reading.log.display()))
            })?
        }
        (None, Some(number)) => number,
        (None, None) => return Err(LogFault::usage("give --record or --finding")),
    };
    let origin = reader.identity.origin.clone();
    let wanted = Wanted { is_redacted: options.redact_bytes };
    let text = reader.locate(number, |found| prove(&log, found, &origin, wanted))?;
    match &options.output {
        None => standard_output::text(text),
        Some(path) => {
            write_whole(path, text.as_bytes())
                .map_err(|e| LogFault::environment(about(path.display(), &e)))?;
            if options.json {
                let mut json = Json::new();
                json.open();
                json.number("record", number);
                json.field("proof", path.to_string_lossy().as_ref());
                json.number("bytes", text.len());
                json.close();
                standard_output::line(String::from_utf8_lossy(json.bytes()));
            } else {
                standard_output::line(format_args!("proof of record {number}: {}", path.display()));
            }
        }
    }
    Ok(0)
}

/// Refuses to write a proof where something is, and into the log, whose folder is as it was sealed.
fn check_output(path: &Path, log: &Path) -> Result<(), LogFault> {
    let refuse = |why: &dyn Display| {
        LogFault::usage(format!("{}: {why}: name another file with -o", path.display()))
    };
    let mut named = NamedFiles::default();
    for folder in [log, &folders::state_of(log, None)] {
        named.keep_folder("belongs to the log", folder);
    }
    named.add_output(path).map_err(|e| refuse(&e))?;
    if is_there(path) {
        return Err(refuse(&"is there already, and nothing is overwritten"));
    }
    Ok(())
}
