//! Loads rules for a run.

use crate::suricata::{EngineLog, Options};
use gabion_record::Tree;
use gabion_record::applayer::Catalog;
use gabion_rules::{Counts, Ruleset};
use std::path::Path;

/// A rule set that was loaded.
pub(crate) struct Loaded {
    pub(crate) set: Ruleset,
    pub(crate) counts: Counts,
}

/// Loads what command line and configuration name. `Err` carries the exit code.
pub(crate) fn load(
    _config: &Tree,
    _o: &Options,
    _catalog: &Catalog,
    _log: &mut EngineLog,
) -> Result<Loaded, i32> {
    Ok(Loaded { set: Ruleset::default(), counts: Counts::default() })
}

/// Writes the reports on the rules.
pub(crate) fn analysis(
    _l: &Loaded,
    _catalog: &Catalog,
    _folder: &Path,
    _log: &mut EngineLog,
) -> i32 {
    0
}

/// Lists the keywords.
pub(crate) fn print_keywords(_form: Option<&str>, _catalog: &Catalog) {}
