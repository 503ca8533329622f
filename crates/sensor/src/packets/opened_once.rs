//! A pipe that was looked into to see what comes through it. Its first bytes can't be read again, so they
//! are kept for the real reader.

use gabion_flowlog::source;
use gabion_runtime::StopFlag;
use gabion_runtime::input::{Stoppable, open_once};
use std::fs::File;
use std::io::{self, Cursor, Read};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

/// Bytes that say whether it is a capture.
const FIRST: usize = 4;

/// What was opened and not yet given to its reader, if anything.
#[derive(Debug, Default)]
pub struct OpenedOnce(Mutex<Option<Opened>>);

#[derive(Debug)]
struct Opened {
    path: PathBuf,
    first: Vec<u8>,
    rest: File,
}

impl OpenedOnce {
    /// Opens what can be read only once, and waits for its first bytes or a request to stop.
    ///
    /// # Errors
    /// What the system says.
    pub fn peek(path: &Path, stop: StopFlag) -> io::Result<OpenedOnce> {
        let mut rest = Stoppable::new(open_once(path)?, stop);
        let mut first = Vec::new();
        rest.by_ref().take(FIRST as u64).read_to_end(&mut first)?;
        let opened = Opened { path: path.to_owned(), first, rest: rest.into_inner() };
        Ok(OpenedOnce(Mutex::new(Some(opened))))
    }

    /// Whether its first bytes are those of a capture.
    pub fn is_capture(&self) -> bool {
        let opened = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let first = opened.as_ref().and_then(|opened| opened.first.first_chunk().copied());
        first.is_some_and(source::is_capture)
    }

    /// All of it from its beginning, if it is that; the first time it is asked for. A request to stop ends
    /// it.
    pub fn take(&self, path: &Path, stop: &StopFlag) -> Option<Box<dyn Read + Send>> {
        let mut opened = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let Opened { first, rest, .. } = opened.take_if(|opened| opened.path == path)?;
        Some(Box::new(Cursor::new(first).chain(Stoppable::new(rest, stop.clone()))))
    }
}
