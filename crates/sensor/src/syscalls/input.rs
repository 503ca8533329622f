//! Opens scap files, pipes and standard input.

use crate::Error;
use crate::packets::InputOpener;
use gabion_flowlog::source::is_read_once;
use gabion_record::files::FileOpener;
use gabion_runtime::StopFlag;
use gabion_runtime::input::Stoppable;
use gabion_scap::Reader;
use std::path::{Path, PathBuf};

/// Opens an input. What may not come for long is read so that a request to stop is heard.
/// `opener` may hold the beginning of it, where that was looked into.
pub(crate) fn open(path: &Path, opener: &InputOpener, stop: &StopFlag) -> Result<Reader, Error> {
    let no_input = |source| Error::NoScap { path: path.to_owned(), source };
    let reader = if is_read_once(path) {
        match opener.take_input(path, stop) {
            Some(from) => Reader::new(from),
            None => {
                Reader::new(Stoppable::new(opener.open_once(path).map_err(no_input)?, stop.clone()))
            }
        }
    } else {
        Reader::new(opener.open_file(path).map_err(no_input)?)
    };
    reader.map_err(|source| Error::Scap { path: path.to_owned(), source })
}

/// Whether a file holds events of system calls, by its beginning. What can be read only once is not opened for it.
pub fn is_scap(files: &FileOpener, path: &Path) -> bool {
    !is_read_once(path) && path.is_file() && files.open_to_read(path).is_ok_and(Reader::recognizes)
}

/// Whether all inputs are captures of system calls.
///
/// # Errors
/// One is, and another is not.
pub fn are_scap(files: &FileOpener, inputs: &[PathBuf]) -> Result<bool, Error> {
    let mut scap = inputs.iter().filter(|path| is_scap(files, path));
    let Some(first) = scap.next() else { return Ok(false) };
    if scap.count() + 1 == inputs.len() {
        Ok(true)
    } else {
        Err(Error::ScapAndOther { path: first.clone() })
    }
}
