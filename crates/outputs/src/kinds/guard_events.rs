//! `guard.json`: a line for each incident of the guard, its cause, each change of rung, and its end.

use crate::error::OutputError;
use crate::line_file::LineFile;
use crate::output::{Destination, Format, GuardRecord, Output, Piece, PieceKind, Pieces, Record};
use gabion_record::eve::Wants;
use gabion_record::files::FileOpener;
use gabion_runtime::output::Existing;
use std::path::{Path, PathBuf};

/// The name of the file.
const NAME: &str = "guard.json";

/// The file in a folder.
pub fn path_in(folder: &Path) -> PathBuf {
    folder.join(NAME)
}

/// Opens the file in a folder.
pub(crate) fn open(
    files: &FileOpener,
    folder: &Path,
    existing: Existing,
) -> Result<Output, OutputError> {
    Ok(Output::new(GuardEvents, LineFile::create(files, &path_in(folder), existing)?))
}

/// An output of the guard's events into `to`, such as a sealed log.
pub fn output(to: impl Destination + 'static) -> Output {
    Output::new(GuardEvents, to)
}

/// Events of the guard as lines of JSON.
struct GuardEvents;

impl Format for GuardEvents {
    fn wants(&self) -> Wants {
        Wants::default()
    }

    fn write_record(&mut self, record: &Record<'_>, to: &mut dyn Pieces) -> bool {
        if let Record::Guard(GuardRecord { id, json }) = record {
            to.put(Piece { kind: PieceKind::Finding(*id), bytes: json, later: &[] });
        }
        false
    }

    fn clone_for_worker(&self) -> Box<dyn Format> {
        Box::new(GuardEvents)
    }
}
