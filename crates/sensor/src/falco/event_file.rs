//! The recording of a run: every event that its rules are tried on, in a scap file, after what existed before the first.

use crate::Error;
use gabion_record::files::{FileOpener, OpenMode};
use gabion_scap::{Event, Writer};
use gabion_syscall::State;
use std::fs::File;
use std::io::{self, BufWriter};
use std::path::{Path, PathBuf};

/// A file of events that is being written. One that fails takes no further event and stops nothing else.
pub(super) struct EventFile {
    path: PathBuf,
    writer: Option<Writer<BufWriter<File>>>,
    fault: Option<io::Error>,
}

impl EventFile {
    /// Makes a new file through `files` with the list of what `state` knows.
    ///
    /// # Errors
    /// Why it can't be made; it may exist already.
    pub(super) fn create(
        files: &FileOpener,
        path: &Path,
        state: &State,
    ) -> Result<EventFile, Error> {
        let fault = |source| Error::File { path: path.to_owned(), source };
        let file = files.open(path, OpenMode::CreateNew).map_err(fault)?;
        let mut writer = Writer::new(BufWriter::new(file));
        writer.section().map_err(fault)?;
        let mut written = Ok(());
        state.list(&mut |item| {
            if written.is_ok() {
                written = writer.write(&item);
            }
        });
        written.map_err(fault)?;
        Ok(EventFile { path: path.to_owned(), writer: Some(writer), fault: None })
    }

    /// Appends an event.
    pub(super) fn add(&mut self, event: &Event<'_>) {
        let Some(writer) = &mut self.writer else { return };
        if let Err(error) = writer.event(event) {
            (self.fault, self.writer) = (Some(error), None);
        }
    }

    /// Ends the file; what was wrong with it.
    pub(super) fn finish(self) -> Option<String> {
        let fault = match self.writer {
            Some(writer) => writer.finish().err(),
            None => self.fault,
        };
        fault.map(|error| format!("-w {}: {error}", self.path.display()))
    }
}
