//! Reads and compiles the rule files that a configuration or a command line names.

use gabion_condition::rules::{
    LoadResult, Loader, RuleSet, Settings, describe_all, describe_rule, list_text, results_json,
};
use gabion_runtime::operator_file;
use gabion_settings::falco::FalcoSettings;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// What is reported if no rules are named, in Falco's words.
pub const NO_RULES: &str =
    "You must specify at least one rules file/directory via -r or a rules_file entry in falco.yaml";

/// Rules, with what was reported of each file.
#[derive(Debug)]
pub struct LoadedFalcoRules {
    /// The result of each file, in order.
    pub results: Vec<LoadResult>,
    /// All rules of files without errors.
    pub rules: Arc<RuleSet>,
}

impl LoadedFalcoRules {
    /// Whether all files can be used.
    pub fn is_successful(&self) -> bool {
        self.results.iter().all(LoadResult::is_successful)
    }

    /// What `-V` prints: the result of each file, as text or JSON. With `is_verbose` each message has its place, and rules
    /// that can be used are listed.
    pub fn report(&self, is_json: bool, is_verbose: bool) -> String {
        if is_json {
            return results_json(&self.results) + "\n";
        }
        let mut out = String::new();
        for result in &self.results {
            out.push_str(&result.text(is_verbose));
            out.push('\n');
        }
        if is_verbose && self.is_successful() {
            out.push_str(&list_text(&self.rules, None));
        }
        out
    }

    /// What `-L` and `-l` print: all rules, or the one of this name, as text or JSON. None if there is no such rule.
    pub fn describe(&self, name: Option<&str>, is_json: bool) -> Option<String> {
        match (is_json, name) {
            (true, Some(name)) => describe_rule(&self.rules, name),
            (true, None) => Some(describe_all(&self.rules)),
            (false, name) => {
                let is_known = |name| self.rules.rules().iter().any(|rule| rule.name == name);
                name.is_none_or(is_known).then(|| list_text(&self.rules, name))
            }
        }
    }

    /// What is wrong with the first file that can't be used, if there is one.
    pub fn fault(&self) -> Option<String> {
        let result = self.results.iter().find(|result| !result.is_successful())?;
        Some(result.text(true))
    }

    /// The first file that can't be used, if there is one.
    pub fn failed_file(&self) -> Option<&str> {
        self.results.iter().find(|result| !result.is_successful()).map(|result| &*result.name)
    }

    /// What is reported of files with warnings.
    pub fn warnings(&self, is_verbose: bool) -> Vec<String> {
        let results = self.results.iter().filter(|result| !result.warnings.is_empty());
        results.map(|result| result.text(is_verbose)).collect()
    }
}

/// The files that names stand for: themselves, or the YAML files of a folder in the order of their names.
///
/// # Errors
/// A name does not exist or can't be listed.
pub fn rule_paths(names: &[String]) -> Result<Vec<PathBuf>, (PathBuf, io::Error)> {
    let mut paths = Vec::new();
    for name in names {
        let path = Path::new(name);
        let fault = |error| (path.to_owned(), error);
        if !std::fs::metadata(path).map_err(fault)?.is_dir() {
            paths.push(path.to_owned());
            continue;
        }
        let mut files = Vec::new();
        for entry in std::fs::read_dir(path).map_err(fault)? {
            let file = entry.map_err(fault)?.path();
            if file.extension().is_some_and(|end| end == "yaml" || end == "yml") {
                files.push(file);
            }
        }
        files.sort();
        paths.append(&mut files);
    }
    Ok(paths)
}

/// Reads and compiles rule files, and switches rules on and off as the settings say.
///
/// # Errors
/// A file can't be read.
pub fn load_falco_rules(
    paths: &[PathBuf],
    settings: &FalcoSettings,
) -> Result<LoadedFalcoRules, (PathBuf, io::Error)> {
    let mut loader = Loader::new(Settings {
        priority: settings.priority,
        append_output: settings.append_output.clone(),
        ..Settings::default()
    });
    let results = load_into(&mut loader, paths, true)?;
    let mut rules = loader.into_rules();
    rules.select(&settings.selections);
    Ok(LoadedFalcoRules { results, rules: Arc::new(rules) })
}

/// Loads files to report what is wrong with each: later ones see what earlier ones define.
///
/// # Errors
/// A file can't be read.
pub fn validate_rule_files(paths: &[PathBuf]) -> Result<LoadedFalcoRules, (PathBuf, io::Error)> {
    let mut loader = Loader::new(Settings::default());
    let results = load_into(&mut loader, paths, false)?;
    Ok(LoadedFalcoRules { results, rules: Arc::new(loader.into_rules()) })
}

fn load_into(
    loader: &mut Loader,
    paths: &[PathBuf],
    ends_at_error: bool,
) -> Result<Vec<LoadResult>, (PathBuf, io::Error)> {
    let mut results = Vec::new();
    for path in paths {
        let bytes =
            operator_file::bytes(path, gabion_condition::limits::RULE_FILE_BYTES_MAX as u64)
                .map_err(|error| (path.clone(), error))?;
        let result = loader.load(&path.display().to_string(), &String::from_utf8_lossy(&bytes));
        let is_end = ends_at_error && !result.is_successful();
        results.push(result);
        if is_end {
            break;
        }
    }
    Ok(results)
}
