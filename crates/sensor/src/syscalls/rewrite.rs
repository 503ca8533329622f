//! Rewrites scap files of any age with exit events alone.

use super::{ScapAccount, input};
use crate::Error;
use crate::packets::InputOpener;
use gabion_record::files::{FileOpener, OpenMode};
use gabion_runtime::StopFlag;
use gabion_runtime::files::NamedFiles;
use gabion_scap::{ConvertError, Converted, Merger, Writer, convert};
use std::fs::File;
use std::io::{self, Write};
use std::path::Path;

/// What was done to one file.
#[derive(Clone, Debug, Default)]
pub struct Rewritten {
    /// What was read, merged and shed.
    pub account: ScapAccount,
    /// What was written.
    pub written: Converted,
    /// Bytes written.
    pub bytes: u64,
}

/// Reads `from` and writes `to`, which must not exist unless it `may_replace` it; `opener` opens both.
///
/// # Errors
/// The input cannot be read, or the output not be written; whole blocks that were written before stay.
pub fn rewrite(
    from: &Path,
    to: &Path,
    may_replace: bool,
    opener: &InputOpener,
    stop: &StopFlag,
) -> Result<Rewritten, Error> {
    let output = |source: io::Error| Error::File { path: to.to_owned(), source };
    let mut named = NamedFiles::default();
    named.keep("is the same file", [from]);
    if named.add_output(to).is_err() {
        return Err(Error::SameFile { path: to.to_owned() });
    }
    let mut reader = input::open(from, opener, stop)?;
    let mut merger = Merger::new();
    let mode = if may_replace { OpenMode::TruncateFollowing } else { OpenMode::CreateNew };
    let mut blocks = WholeBlocks {
        files: opener.files(),
        path: to,
        mode,
        file: None,
        held: Vec::new(),
        written: 0,
    };
    let mut writer = Writer::new(&mut blocks);
    let done = convert(&mut reader, &mut merger, &mut writer);
    let flushed = match done {
        Ok(_) => writer.finish().map(|_| ()),
        Err(_) => Ok(()),
    };
    let bytes = blocks.written;
    let account =
        ScapAccount { read: reader.counts().clone(), merged: Some(merger.counts().clone()) };
    match done {
        Ok(written) => {
            flushed.map_err(output)?;
            Ok(Rewritten { account, written, bytes })
        }
        Err(ConvertError::Output(e)) => Err(output(e)),
        Err(ConvertError::Input(source)) => Err(Error::Scap { path: from.to_owned(), source }),
        Err(e) => Err(output(io::Error::other(e.to_string()))),
    }
}

/// Bytes of blocks that are written together.
const TOGETHER: usize = 256 << 10;

/// A file that holds whole blocks at any time: what a full disk took only a part of is cut off again. Each write is a
/// whole block. The file is made when there is something to write, so that a wrong input leaves none.
struct WholeBlocks<'p> {
    files: &'p FileOpener,
    path: &'p Path,
    mode: OpenMode,
    file: Option<File>,
    held: Vec<u8>,
    written: u64,
}

impl WholeBlocks<'_> {
    fn file(&mut self) -> io::Result<&mut File> {
        if self.file.is_none() {
            self.file = Some(self.files.open(self.path, self.mode)?);
        }
        self.file.as_mut().ok_or_else(|| io::Error::other("no file"))
    }
}

impl Write for WholeBlocks<'_> {
    fn write(&mut self, block: &[u8]) -> io::Result<usize> {
        self.held.extend_from_slice(block);
        if self.held.len() >= TOGETHER {
            self.flush()?;
        }
        Ok(block.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        let held = std::mem::take(&mut self.held);
        let (kept, len) = (self.written, held.len() as u64);
        let path = self.path;
        let file = self.file()?;
        let written = file.write_all(&held);
        if written.is_err() {
            let _ = file.set_len(kept);
            // A file with nothing in it is no capture; a device stays.
            if kept == 0 && file.metadata().is_ok_and(|metadata| metadata.is_file()) {
                let _ = std::fs::remove_file(path);
            }
        }
        self.held = held;
        self.held.clear();
        match written {
            Ok(()) => {
                self.written += len;
                Ok(())
            }
            Err(e) => Err(e),
        }
    }
}
