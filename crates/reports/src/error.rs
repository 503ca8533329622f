//! Why a report can't be made.

use gabion_outputs::OutputError;
use std::io;
use std::path::PathBuf;

/// Why a report can't be made: what a run should have left in its folder is not there or is something else.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The findings of a run can't be read.
    #[error("{}: {source}: name a folder that `gabion read --behavior -l` wrote", .path.display())]
    Findings {
        /// The file.
        path: PathBuf,
        /// The error of the operating system.
        source: io::Error,
    },
    /// The profiles of a run can't be read.
    #[error("{0}: name a folder that `gabion read --behavior -l` wrote")]
    Profiles(#[source] OutputError),
    /// The summary of a run can't be read.
    #[error("{}: {source}: name a folder that `gabion read -l` wrote", .path.display())]
    Summary {
        /// The file.
        path: PathBuf,
        /// The error of the operating system.
        source: io::Error,
    },
    /// The summary of a run is not one.
    #[error("{}: not a JSON object: name a folder of a run that ended", .path.display())]
    NoSummary {
        /// The file.
        path: PathBuf,
    },
    /// What rules cost can't be written into a folder.
    #[error("{}: cannot be written: {source}: choose another folder with -l", .path.display())]
    RuleCosts {
        /// The file.
        path: PathBuf,
        /// The error of the operating system.
        source: io::Error,
    },
}
