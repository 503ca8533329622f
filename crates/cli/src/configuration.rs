//! The configuration of a run, as the command line names it.

use crate::exit::Fault;
use crate::operator_file;
use gabion_record::Tree;
use gabion_settings::limits::CONFIGURATION_BYTES_MAX;
use gabion_settings::yaml::read_yaml_text;
use gabion_settings::{Error, load_configuration};
use std::path::Path;

/// The file's configuration or the built-in one, changed by `name=value` settings.
pub(crate) fn load(file: Option<&Path>, sets: &[String]) -> Result<Tree, Fault> {
    load_configuration(file, sets, &mut |line| eprintln!("gabion: {line}")).map_err(|e| match e {
        Error::NoValue { .. } => Fault::usage(format!("--set {e}")),
        e => Fault::input(format!("{e}: fix the configuration or leave out -c")),
    })
}

/// A configuration of the behaviour engine.
pub(crate) fn read_tree(path: &Path) -> Result<Tree, Fault> {
    let shown = path.display();
    let text = operator_file::text(path, CONFIGURATION_BYTES_MAX)
        .map_err(|e| Fault::input(format!("{shown}: {e}: name a configuration with -c")))?;
    read_yaml_text(&shown.to_string(), &text)
        .map_err(|e| Fault::input(format!("{e}: fix the configuration or leave out -c")))
}
