//! Opens the inputs of a run through what the front door hands in, and knows a pipe that was looked into to see what
//! comes through it: its first bytes can't be read again, so they are kept for the real reader.

use crate::limits::SECTION_BYTES_MAX;
use gabion_flowlog::source;
use gabion_record::files::{FileOpener, OpenMode};
use gabion_runtime::input::{Readiness, Stoppable};
use gabion_runtime::{Signals, StopFlag};
use std::fs::File;
use std::io::{self, Cursor, Read};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

/// Bytes that say whether it is a capture.
const FIRST: usize = 4;
/// The first bytes of pcapng and of scap, which differ in their second block.
const SECTION: [u8; FIRST] = [0x0a, 0x0d, 0x0d, 0x0a];
/// The first bytes of gzip, and how many are looked into.
const GZIP: [u8; 2] = [0x1f, 0x8b];
const GZIP_LEN: usize = 512;

/// What opens inputs, and what was opened and not yet given to its reader, if anything.
#[derive(Debug)]
pub struct InputOpener {
    files: FileOpener,
    begun: Mutex<Option<Opened>>,
}

#[derive(Debug)]
struct Opened {
    path: PathBuf,
    first: Vec<u8>,
    rest: File,
}

impl InputOpener {
    /// Inputs are opened by `files`.
    pub fn new(files: FileOpener) -> InputOpener {
        InputOpener { files, begun: Mutex::new(None) }
    }

    /// What opens files.
    pub fn files(&self) -> &FileOpener {
        &self.files
    }

    /// Opens a file to read it.
    pub(crate) fn open_file(&self, path: &Path) -> io::Result<File> {
        self.files.open_to_read(path)
    }

    /// Opens a pipe or a device without waiting for its writer; `-` is standard input.
    pub(crate) fn open_once(&self, path: &Path) -> io::Result<File> {
        self.files.open(path, OpenMode::ReadOnce)
    }

    /// Opens what can be read only once, and waits for its first bytes or a request to stop.
    ///
    /// # Errors
    /// What the system says.
    pub fn peek(files: FileOpener, path: &Path, stop: StopFlag) -> io::Result<InputOpener> {
        let opener = InputOpener::new(files);
        let mut rest = Stoppable::new(opener.open_once(path)?, stop);
        let mut first = Vec::new();
        // No more than is needed is waited for: packets may come slowly.
        let mut wanted = FIRST;
        while first.len() < wanted {
            let missing = (wanted - first.len()) as u64;
            if rest.by_ref().take(missing).read_to_end(&mut first)? < missing as usize {
                break;
            }
            wanted = wanted_len(&first);
        }
        let opened = Opened { path: path.to_owned(), first, rest: rest.into_inner() };
        Ok(InputOpener { begun: Mutex::new(Some(opened)), ..opener })
    }

    /// The same while signals are taken over, and they stay so: a request to stop ends the waiting.
    ///
    /// # Errors
    /// What the system says.
    pub fn look_into(
        files: FileOpener,
        path: &Path,
        signals: Option<&Signals>,
    ) -> io::Result<InputOpener> {
        let stop = signals.map_or_else(StopFlag::new, |s| s.stop().clone());
        signals.into_iter().for_each(Signals::begin);
        InputOpener::peek(files, path, stop)
    }

    /// Whether its first bytes are those of a capture.
    pub fn is_capture(&self) -> bool {
        let opened = self.begun.lock().unwrap_or_else(PoisonError::into_inner);
        let first = opened.as_ref().and_then(|opened| opened.first.first_chunk().copied());
        first.is_some_and(source::is_capture)
    }

    /// Whether its beginning is that of a capture of system calls.
    pub fn is_scap(&self) -> bool {
        let opened = self.begun.lock().unwrap_or_else(PoisonError::into_inner);
        let first = opened.as_ref().map(|opened| opened.first.clone());
        first.is_some_and(|first| gabion_scap::Reader::recognizes(Cursor::new(first)))
    }

    /// All of it from its beginning, if it is that; the first time it is asked for. A request to stop ends
    /// it.
    pub fn take_input(&self, path: &Path, stop: &StopFlag) -> Option<Box<dyn Read + Send>> {
        Some(self.take_watched(path, stop)?.0)
    }

    /// The same, and what knows whether more has come; that only where the system allows it.
    pub(crate) fn take_watched(
        &self,
        path: &Path,
        stop: &StopFlag,
    ) -> Option<(Box<dyn Read + Send>, Option<Readiness>)> {
        let mut opened = self.begun.lock().unwrap_or_else(PoisonError::into_inner);
        let Opened { first, rest, .. } = opened.take_if(|opened| opened.path == path)?;
        let readiness = Readiness::from_input(&rest).ok();
        let from = Box::new(Cursor::new(first).chain(Stoppable::new(rest, stop.clone())));
        Some((from, readiness))
    }
}

/// How many first bytes say what the input is, as far as those that have come can say.
fn wanted_len(first: &[u8]) -> usize {
    if first.starts_with(&GZIP) {
        return GZIP_LEN;
    }
    if !first.starts_with(&SECTION) {
        return FIRST;
    }
    match first.get(FIRST..).and_then(|rest| rest.first_chunk()) {
        None => 2 * FIRST,
        // The first block, and the type of the second.
        Some(len) => match u32::from_le_bytes(*len) as usize {
            len @ ..=SECTION_BYTES_MAX => len + FIRST,
            _ => 2 * FIRST,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_many_bytes_are_waited_for_as_show_the_kind() {
        assert_eq!(wanted_len(&[0xd4, 0xc3, 0xb2, 0xa1]), 4);
        assert_eq!(wanted_len(&SECTION), 8);
        assert_eq!(wanted_len(&[0x0a, 0x0d, 0x0d, 0x0a, 28, 0, 0, 0]), 32);
        assert_eq!(wanted_len(&[0x0a, 0x0d, 0x0d, 0x0a, 0, 0, 0, 28]), 8, "big-endian pcapng");
        assert_eq!(wanted_len(&[0x1f, 0x8b, 8, 0]), 512);
    }
}
