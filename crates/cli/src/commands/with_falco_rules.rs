//! Rule files of Falco for commands that read captures of system calls.

use crate::exit::Fault;
use gabion_sensor::falco::{LoadedFalcoRules, validate_rule_files};
use std::path::{Path, PathBuf};

/// Falco's files are YAML, Suricata's are not.
pub(crate) fn is_falco_rules(path: &Path) -> bool {
    path.extension().is_some_and(|end| end == "yaml" || end == "yml")
}

/// Loads rule files, none of which may have errors. Warnings are printed where more is asked for.
pub(crate) fn load(files: &[PathBuf], is_verbose: bool) -> Result<LoadedFalcoRules, Fault> {
    let loaded = validate_rule_files(files).map_err(|(path, error)| {
        Fault::input(format!("{}: {error}: name a rule file of Falco", path.display()))
    })?;
    if let Some(path) = loaded.failed_file() {
        return Err(Fault::input(format!(
            "{path}: cannot be used as rules: gabion rules check {path} shows why and where"
        )));
    }
    if is_verbose {
        loaded.warnings(true).iter().for_each(|text| eprintln!("{}", text.trim_end()));
    }
    Ok(loaded)
}
