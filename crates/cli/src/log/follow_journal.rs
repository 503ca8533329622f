//! `gabion log follow-journal`: seals the entries of systemd's journal as they are written, each once.

use super::append::no_entry;
use super::options::FollowJournal;
use super::{Ended, LogFault, folders};
use crate::exit::about;
use crate::standard_output;
use gabion_intake::{FollowError, JournalProgram};
use gabion_outputs::table::thousands;
use gabion_record::json::Json;
use gabion_runtime::Signals;

pub(super) fn run(options: &FollowJournal) -> Ended {
    let signals = Signals::install().map_err(|e| LogFault::environment(about("signals", &e)))?;
    let journal =
        JournalProgram { program: options.journalctl.clone(), arguments: options.args.clone() };
    // Before the log is opened, whose opening may write to it.
    journal.check().map_err(|e| fault(e, options))?;
    let (writer, _) = folders::writer(&options.folder, Some(&options.seal))?;
    let log = folders::open(&options.folder.log)?;
    let mut on_gap = || {
        eprintln!(
            "gabion: {}: the journal has deleted the entry that was sealed last: entries after it may be deleted, too: \
             give the journal more room (SystemMaxUse=), or run this without a pause",
            options.folder.log.display()
        );
    };
    let followed = journal.follow(&log, writer, signals.stop(), &mut on_gap);
    let done = followed.map_err(|e| fault(e, options))?;
    if options.json {
        let mut json = Json::new();
        json.open();
        json.number("entries", done.entries);
        json.number("truncated", done.cut);
        json.number("gaps", done.gaps);
        json.close();
        standard_output::line(String::from_utf8_lossy(json.bytes()));
    } else if !options.quiet {
        let entries = thousands(done.entries);
        standard_output::line(format_args!("sealed {entries} entries of the journal"));
    }
    Ok(0)
}

fn fault(e: FollowError, options: &FollowJournal) -> LogFault {
    let log = &options.folder.log;
    match e {
        FollowError::NotRun { .. } => LogFault::environment(format!(
            "{e}: install systemd, or name it with --journalctl"
        )),
        FollowError::Ended { .. } => {
            LogFault::environment(format!("{e}: its messages are above"))
        }
        FollowError::LastCursor(source) => LogFault::from(source).about(log),
        FollowError::Seal(source) => LogFault::from(source)
            .with_advice(
                "free disk space and start it again: it continues with the entry after the last one sealed",
            )
            .about(log),
        FollowError::NoEntry { none } => no_entry(&none),
        e => LogFault::input(&e),
    }
}
