//! The configuration of a run, as the command line names it.

use crate::exit::Fault;
use gabion_record::Tree;
use gabion_settings::{Error, load_configuration};
use std::path::Path;

/// The file's configuration or the built-in one, changed by `name=value` settings.
pub(crate) fn load(file: Option<&Path>, sets: &[String]) -> Result<Tree, Fault> {
    load_configuration(file, sets, &mut |line| eprintln!("gabion: {line}")).map_err(|e| match e {
        Error::NoValue { .. } => Fault::usage(format!("--set {e}")),
        e => Fault::input(format!("{e}: fix the configuration or leave out -c")),
    })
}
