//! Rule files that are named one by one: read, changed as the selection says, compiled, and what is wrong with them.

use crate::error::{Error, Result};
use crate::rule_file::read_rule_file;
use crate::rules::{Demands, UnreadableFile, compile_rules, unreadable_files};
use crate::selection::{AppliedSelection, SelectionFiles};
use gabion_net::Datasets;
use gabion_net::script::ScriptSetup;
use gabion_record::Tree;
use gabion_record::applayer::Catalog;
use gabion_rules::{Diagnostic, RuleVars, Ruleset, Severity};
use std::path::PathBuf;

/// Rule files that are loaded in the place of those that a configuration names.
#[derive(Clone, Debug, Default)]
pub struct NamedRuleFiles {
    /// The files, plain or packed as `.zst`.
    pub paths: Vec<PathBuf>,
    /// The rules are a firewall's.
    pub is_firewall: bool,
    /// Which of the rules are turned off, on or changed.
    pub selection: SelectionFiles,
}

/// The rules of such files.
#[derive(Debug)]
pub struct NamedRules {
    /// The compiled rules.
    pub set: Ruleset,
    /// Datasets that they name.
    pub datasets: Datasets,
    /// What is wrong with the rules and with the files next to them.
    pub diagnostics: Vec<Diagnostic>,
    /// Files next to rules that the configuration names and that can't be read: a line each, with what follows.
    pub unreadable: Vec<String>,
    /// What the selection made of the rules, if there is one.
    pub selection: Option<AppliedSelection>,
}

impl NamedRuleFiles {
    /// Reads and compiles the files.
    ///
    /// # Errors
    /// When a file can't be read, or a variable of the configuration has no value that rules could use. A rule that is
    /// refused is no error: it is in [`NamedRules::diagnostics`].
    pub fn compile(
        &self,
        config: &Tree,
        catalog: &Catalog,
        scripts: &ScriptSetup,
    ) -> Result<NamedRules> {
        let mut files = Vec::with_capacity(self.paths.len());
        for path in &self.paths {
            let file = read_rule_file(path, self.is_firewall)
                .map_err(|source| Error::NamedRuleFile { source: Box::new(source) })?;
            files.push(file);
        }
        let selection = self.selection.apply(&mut files)?;
        if let Some(fault) = RuleVars::from_config(config).faults().first() {
            return Err(Error::RuleVariable {
                key: fault.key().to_string(),
                value: fault.value.clone(),
                why: fault.why.trim().to_owned(),
            });
        }
        let demands = Demands { is_firewall: self.is_firewall, ..Demands::default() };
        let c = compile_rules(config, files, catalog, demands, scripts);
        let unreadable = unreadable_files(config);
        let mut diagnostics = c.settings;
        for more in [c.files, c.rules, c.thresholds] {
            diagnostics.extend(more);
        }
        diagnostics.retain(|d| d.line > 0 || !unreadable.iter().any(|u| u.path == d.file));
        let line = |UnreadableFile { key, path, why, effect }: UnreadableFile| {
            format!("{path}: {why}: {effect}: fix {key} in the configuration")
        };
        let unreadable = unreadable.into_iter().map(line).collect();
        Ok(NamedRules { set: c.set, datasets: c.datasets, diagnostics, unreadable, selection })
    }
}

impl NamedRules {
    /// Refuses an empty set of rules: a run without rules would look as if nothing had been found. Files that hold no
    /// rule at all are accepted.
    ///
    /// # Errors
    /// When all rules were refused or skipped.
    pub fn refuse_none_left(&self) -> Result<()> {
        let counts = self.set.counts;
        if counts.loaded > 0 {
            return Ok(());
        }
        if counts.failed == 0 {
            return match counts.skipped {
                0 => Ok(()),
                skipped => Err(Error::NoRuleLeft { files: self.set.files.join(", "), skipped }),
            };
        }
        let first = self.diagnostics.iter().find(|d| d.severity == Severity::Error);
        Err(Error::AllRulesRefused {
            refused: counts.failed,
            first: first.map(ToString::to_string),
        })
    }
}
