//! What a run over logs that grow continues from: the checkpoint of its folder, and what was written and sealed
//! after it.

use super::checkpoint::{Checkpoint, Tag, Writing, path_in};
use super::sealed_ids::{self, SealedIds, lock_ids};
use super::sink::{self, Before, Sink};
use crate::sealed_findings::OpenedLog;
use crate::{Error, Notices};
use gabion_outputs::AlreadyWritten;
use gabion_runtime::output::{clear, make_folder, refuse_link};
use std::io;
use std::path::{Path, PathBuf};

/// What a run continues from.
pub struct Resumed {
    folder: PathBuf,
    earlier: Option<Checkpoint>,
    before: Before,
}

impl Resumed {
    /// Whether a checkpoint lies in a folder, from which a run continues.
    pub fn has_checkpoint(folder: &Path) -> bool {
        std::fs::symlink_metadata(path_in(folder)).is_ok()
    }

    /// Takes out of a folder's file about sealed findings what stands in chunks that the log does not hold: it was lost
    /// in a kill. The log has been recovered and nothing was added yet; once it has grown, nobody could say any more
    /// which chunks were lost. A file of another log stays as it is.
    ///
    /// # Errors
    /// When it can't be read or written.
    pub fn settle_sealed_ids(folder: &Path, log: OpenedLog) -> gabion_seal::Result<()> {
        sealed_ids::settle_sealed_ids(folder, log)
    }

    /// Reads the checkpoint of a folder; with `is_overwriting` it is taken away. Where there is none, one that
    /// holds nothing is left before anything is written, so that a run that is killed at once can
    /// continue too.
    ///
    /// # Errors
    /// When it is damaged or of another version, or the folder can't be read or written.
    pub fn prepare(folder: &Path, is_overwriting: bool) -> Result<Resumed, Error> {
        let earlier = earlier(folder, is_overwriting)?;
        let before = before(folder, earlier.as_ref())?;
        Ok(Resumed { folder: folder.to_owned(), earlier, before })
    }

    /// Has a sink continue with what was written and sealed before; gives the checkpoint, if it holds anything.
    ///
    /// # Errors
    /// When the file about sealed findings can't be read or written.
    pub fn attach(
        self,
        sink: &mut Sink,
        sealed: Option<OpenedLog>,
        notices: &Notices,
    ) -> Result<Option<Checkpoint>, Error> {
        let Resumed { folder, earlier, before } = self;
        sink.outputs.resume(&before.already_written);
        if let Some(log) = sealed {
            let continues = earlier.is_some();
            let ids = SealedIds::open(&folder, log, before.sealed, continues, notices.clone())?;
            *lock_ids(&sink.sealed_ids) = Some(ids);
        }
        sink.folder = Some(folder);
        // One that was killed before it had read anything starts again.
        Ok(earlier.filter(|e| e.sections().next().is_some()))
    }
}

fn failed(path: &Path, source: io::Error) -> Error {
    Error::Folder { path: path.to_owned(), source }
}

fn earlier(folder: &Path, is_overwriting: bool) -> Result<Option<Checkpoint>, Error> {
    let path = path_in(folder);
    if !folder.is_dir() {
        return Ok(None);
    }
    for path in [&path, &folder.join(sealed_ids::NAME)] {
        refuse_link(path).map_err(|e| failed(path, e))?;
    }
    if !is_overwriting {
        return Checkpoint::from_folder(folder);
    }
    clear(&path).map(|()| None).map_err(|e| failed(&path, e))
}

/// What a run that was cut off had written and sealed; where there is no checkpoint, one is left.
fn before(folder: &Path, earlier: Option<&Checkpoint>) -> Result<Before, Error> {
    let Some(earlier) = earlier else {
        make_folder(folder).map_err(|e| failed(folder, e))?;
        let written = Writing::begin(folder).and_then(Writing::finish);
        written.map_err(|e| failed(&path_in(folder), e))?;
        return Ok(Before::default());
    };
    let saved = match earlier.section(Tag::Sink) {
        Some(saved) => sink::before(saved),
        None => Some(Before::default()),
    };
    let Some(before) = saved else { return Ok(Before::default()) };
    let mut already_written = AlreadyWritten::from_folder(folder, before.marks)?;
    already_written.join(before.already_written);
    Ok(Before { already_written, ..before })
}
