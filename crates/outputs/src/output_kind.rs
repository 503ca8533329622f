//! What a row of the table of outputs says, and what an output is opened with.

use crate::error::OutputError;
use crate::line_file::LineFile;
use crate::output::{Destination, Output};
use gabion_record::Tree;
use gabion_record::files::FileOpener;
use gabion_runtime::output::Existing;
use std::path::{Path, PathBuf};

/// What opens an output gives: none for one that is not written here.
pub(crate) type Opened = Result<Option<Output>, OutputError>;

/// A kind of output: a row of [`crate::kinds::OUTPUTS`].
#[derive(Clone, Copy, Debug)]
pub struct OutputKind {
    /// Its name in the configuration's `outputs` list; of an output of findings that of its file.
    pub name: &'static str,
    /// The file of lines that it writes, unless its `filename` names another.
    pub file: Option<&'static str>,
    /// What opens it.
    open: fn(&mut Opening<'_>) -> Opened,
    /// Names a variant that is not supported, out of the output's node.
    unsupported: fn(&Tree) -> Option<String>,
    /// Whether it is opened for every run over behaviour that has a folder.
    pub(crate) is_for_findings: bool,
}

impl OutputKind {
    /// An output that the configuration names.
    pub(crate) const fn new(
        name: &'static str,
        open: fn(&mut Opening<'_>) -> Opened,
    ) -> OutputKind {
        OutputKind { name, file: None, open, unsupported: |_| None, is_for_findings: false }
    }

    /// The same, into a file of lines of that name.
    pub(crate) const fn with_file(self, file: &'static str) -> OutputKind {
        OutputKind { file: Some(file), ..self }
    }

    /// The same, where not every variant is supported: `unsupported` names one that is not.
    pub(crate) const fn with_variant(self, unsupported: fn(&Tree) -> Option<String>) -> OutputKind {
        OutputKind { unsupported, ..self }
    }

    /// An output of evidence and alerts about hosts into a file of that name.
    pub(crate) const fn for_findings(
        file: &'static str,
        open: fn(&mut Opening<'_>) -> Opened,
    ) -> OutputKind {
        let kind = OutputKind::new(file, open).with_file(file);
        OutputKind { is_for_findings: true, ..kind }
    }

    /// Opens it.
    pub(crate) fn open(&self, opening: &mut Opening<'_>) -> Opened {
        (self.open)(opening)
    }

    /// The variant of a node that is not supported.
    pub(crate) fn unsupported(&self, node: &Tree) -> Option<String> {
        (self.unsupported)(node)
    }
}

/// Opens the capture files of packet logs, given the output's name and node.
pub(crate) type OpenFrames<'a> =
    dyn FnMut(&str, &Tree) -> Result<Box<dyn Destination>, OutputError> + 'a;

/// What an output is opened with.
pub(crate) struct Opening<'a> {
    /// Its name in the configuration.
    pub name: &'a str,
    /// Its node in the configuration; an empty one for an output of findings.
    pub node: &'a Tree,
    /// What opens its files.
    pub files: &'a FileOpener,
    /// The run's folder.
    pub folder: &'a Path,
    /// What is done with files that are there already.
    pub existing: Existing,
    /// The sensor's name, where the configuration has one.
    pub sensor_name: Option<&'a str>,
    pub(crate) frames: &'a mut OpenFrames<'a>,
}

impl Opening<'_> {
    /// A path of the configuration: below the folder, unless it is absolute.
    pub(crate) fn below(&self, path: &str) -> PathBuf {
        if Path::new(path).is_absolute() { PathBuf::from(path) } else { self.folder.join(path) }
    }

    /// The output's file of lines: `filename`, or else `default`.
    ///
    /// # Errors
    /// Why it can't be written; a setting that can't be one.
    pub(crate) fn line_file(&self, default: &str) -> Result<LineFile, OutputError> {
        let path = self.below(self.node.text("filename").unwrap_or(default));
        LineFile::create(self.files, &path, self.existing)?.configured(self.node)
    }
}
