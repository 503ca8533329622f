//! `gabion read --seal LOG`: opens the sealed log that findings of a run go into, and reports how it ended.

use super::{LogFault, folders};
use crate::exit::Fault;
use crate::standard_error::notices;
use gabion_outputs::table::thousands;
use gabion_sensor::{Error, FindingLog, OpenedLog};
use std::path::{Path, PathBuf};

/// A log that findings of a run are sealed into.
pub(crate) struct SealedFindings {
    path: PathBuf,
    pub(crate) log: FindingLog,
}

impl SealedFindings {
    /// Opens the log for writing.
    pub(crate) fn open(log: &Path) -> Result<SealedFindings, Fault> {
        SealedFindings::open_with(log, &mut |_| Ok(()))
    }

    /// The same; `on_open` is called with what the log holds before anything is added.
    pub(crate) fn open_with(
        log: &Path,
        on_open: &mut dyn FnMut(OpenedLog) -> gabion_seal::Result<()>,
    ) -> Result<SealedFindings, Fault> {
        let mut report = |log_id, opened: &gabion_seal::Opened| {
            on_open(OpenedLog { log_id, chunks: opened.chunks })
        };
        let (writer, found) = folders::writer_reporting(log, None, None, &mut report)
            .map_err(LogFault::into_fault)?;
        let opened = OpenedLog { log_id: writer.identity().log_id(), chunks: found.chunks };
        Ok(SealedFindings {
            path: log.to_path_buf(),
            log: FindingLog::new(writer, opened, notices()),
        })
    }

    /// Makes everything durable and signed, and reports how many findings there are.
    pub(crate) fn finish(self, is_quiet: bool) -> Result<(), Fault> {
        let sealed = match self.log.finish() {
            Ok(sealed) => sealed,
            Err(Error::Seal { source, lost }) => {
                let lost = match lost {
                    0 => String::new(),
                    n => format!(": {} findings are not sealed", thousands(n)),
                };
                let mut fault = LogFault::from(source);
                fault.message.text.push_str(&lost);
                return Err(fault.about(&self.path).into_fault());
            }
            Err(e) => return Err(e.into()),
        };
        if !is_quiet {
            eprintln!(
                "gabion: {} findings sealed in {}; `gabion log show --kind finding` lists their ids, \
                 `gabion log prove --finding ID` proves one",
                thousands(sealed),
                self.path.display()
            );
        }
        Ok(())
    }
}
