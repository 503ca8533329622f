//! `gabion log append`: seals standard input.

use super::options::Append;
use super::{Ended, LogFault, folders};
use crate::standard_output;
use gabion_intake::{InputForm, SealInputError, seal_input};
use gabion_logs::journal::NoEntry;
use gabion_outputs::table::thousands;
use gabion_record::json::Json;
use std::path::Path;

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
    let form = match (options.journal_export, options.raw) {
        (true, _) => InputForm::JournalEntries,
        (false, true) => InputForm::RawLines,
        (false, false) => InputForm::Lines,
    };
    let sealed = seal_input(std::io::stdin(), form, writer, class);
    let sealed = sealed.map_err(|e| fault(e, &options.folder.log))?;
    let tally = sealed.tally;
    if options.json {
        let mut json = Json::new();
        json.open();
        json.number("records", tally.records);
        json.number("bytes", tally.bytes);
        json.number("stored", tally.stored);
        json.number("truncated", sealed.truncated);
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

/// What ended it; what came before a fault of the input is sealed, and reported.
fn fault(e: SealInputError, log: &Path) -> LogFault {
    let after = |fault: LogFault, records: u64| {
        let text = format!("{} ({records} records before it are sealed)", fault.text());
        LogFault { message: text.into(), ..fault }
    };
    match e {
        SealInputError::Unreadable { source, records } => {
            after(LogFault::input(format!("standard input: {source}")), records)
        }
        SealInputError::NoEntry { none, records } => after(no_entry(&none), records),
        SealInputError::Log { source, sealed } => {
            let fault = LogFault::from(source);
            let fault = match sealed.map(thousands) {
                Some(sealed) => fault.with_advice(format_args!(
                    "{sealed} records of this run are sealed: make space, then give the others again"
                )),
                None => fault,
            };
            fault.about(log)
        }
        e => LogFault::input(&e),
    }
}

/// That an input is not in the journal's export format.
pub(super) fn no_entry(none: &NoEntry) -> LogFault {
    let NoEntry { entry, why } = none;
    LogFault::input(format!(
        "standard input, entry {entry}: {why}: this is not a journal in export format: give what `journalctl -o export` \
         prints"
    ))
}
