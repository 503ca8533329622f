//! Rule files named on the command line: read, compiled, and what is printed about them.

use crate::command_line::RuleOptions;
use crate::exit::Fault;
use crate::{configuration, standard_error};
use gabion_net::Datasets;
use gabion_record::Tree;
use gabion_record::applayer::Catalog;
use gabion_rules::{Diagnostic, RuleVars, Ruleset, Severity};
use gabion_settings::{
    AppliedSelection, Demands, SelectionFiles, UnreadableFile, compile_rules, fold_faults,
    read_rule_file, report_never_matching, unreadable_files,
};
use std::path::PathBuf;

/// Rules that were read.
pub(crate) struct Compiled {
    pub(crate) set: Ruleset,
    pub(crate) datasets: Datasets,
    pub(crate) diagnostics: Vec<Diagnostic>,
    /// What `--disable-conf` and its like made of the rules.
    pub(crate) selection: Option<AppliedSelection>,
}

/// Reads and compiles the files. A file that can't be read ends the run.
pub(crate) fn compile(
    paths: &[PathBuf],
    config: &Tree,
    catalog: &Catalog,
    is_firewall: bool,
    selection: &SelectionFiles,
) -> Result<Compiled, Fault> {
    let mut files = Vec::with_capacity(paths.len());
    for path in paths {
        let file = read_rule_file(path, is_firewall).map_err(|e| {
            Fault::input(format!("{e}: name a text file of rules, plain or packed as .zst"))
        })?;
        files.push(file);
    }
    let selection = selection.apply(&mut files).map_err(|e| Fault::input(e.to_string()))?;
    if let Some(fault) = RuleVars::from_config(config).faults().first() {
        let (key, value, why) = (fault.key(), &fault.value, fault.why.trim());
        return Err(Fault::input(format!(
            "configuration: {key}: \"{value}\": {why}: give it another value in the configuration or \
             with --set"
        )));
    }
    let demands = Demands { is_firewall, ..Demands::default() };
    let c = compile_rules(config, &files, catalog, demands, &standard_error::script_setup(config));
    let unreadable = unreadable_files(config);
    for UnreadableFile { key, path, why, effect } in &unreadable {
        eprintln!("gabion: {path}: {why}: {effect}: fix {key} in the configuration");
    }
    let mut diagnostics = c.settings;
    for more in [c.files, c.rules, c.thresholds] {
        diagnostics.extend(more);
    }
    diagnostics.retain(|d| d.line > 0 || !unreadable.iter().any(|u| u.path == d.file));
    Ok(Compiled { set: c.set, datasets: c.datasets, diagnostics, selection })
}

/// Loads rule files with the configuration that the options name, for verbs that only look at rules.
pub(crate) fn load(o: &RuleOptions, files: &[PathBuf]) -> Result<(Compiled, Catalog), Fault> {
    let config = configuration::load(o.config.as_deref(), &o.sets)?;
    let catalog = gabion_proto::registry::catalog();
    let compiled = compile(files, &config, &catalog, o.firewall, &o.selection.files())?;
    Ok((compiled, catalog))
}

/// How much is printed about rules that were refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Say {
    /// Only that there are some (`-q`): a quiet run still reports that a rule is not in use.
    Refused,
    /// How many, and how many have warnings.
    Counts,
    /// Each one too.
    All,
}

impl Say {
    /// As the options of a run ask for.
    pub(crate) fn of(is_quiet: bool, is_verbose: bool) -> Say {
        match (is_quiet, is_verbose) {
            (true, _) => Say::Refused,
            (false, false) => Say::Counts,
            (false, true) => Say::All,
        }
    }
}

/// Wrong entries of a threshold file that are printed one by one.
const ENTRIES_NAMED: usize = 5;

/// Says on standard error which rules were refused, each one or only how many, and how many can never
/// match.
pub(crate) fn say(compiled: &Compiled, how: Say) {
    // Diagnostics of files other than rule files, such as that of thresholds, are printed unchanged.
    let (diagnostics, mut entries): (Vec<&Diagnostic>, Vec<&Diagnostic>) =
        compiled.diagnostics.iter().partition(|d| d.subsystem != "threshold-config");
    entries.retain(|d| d.line > 0);
    for d in entries.iter().take(ENTRIES_NAMED) {
        eprintln!("gabion: {d}: the entry is left out");
    }
    if let Some(next) = entries.get(ENTRIES_NAMED) {
        let more = entries.len() - ENTRIES_NAMED;
        eprintln!("gabion: {}: {more} more entries are left out", next.file);
    }
    let of = |s: Severity| diagnostics.iter().filter(move |d| d.severity == s).count();
    let (errors, warnings) = (of(Severity::Error), of(Severity::Warning));
    if how == Say::All {
        let own: Vec<Diagnostic> = diagnostics.iter().map(|d| (*d).clone()).collect();
        let folded = fold_faults(&own);
        folded.said.iter().for_each(|d| eprintln!("gabion: {d}"));
        for (fault, rules) in folded.more {
            eprintln!("gabion: {fault}: {rules} rules more are refused for it");
        }
    }
    if let Some(selection) = &compiled.selection {
        if how != Say::Refused {
            eprintln!("gabion: rules: {}", selection.counts());
        }
        // A line that can't be read leaves rules on that were to be off.
        let lines = selection.lines(how == Say::All).into_iter();
        for (_, line) in lines.filter(|(s, _)| how != Say::Refused || *s == Severity::Error) {
            eprintln!("gabion: {line}");
        }
    }
    let counts = compiled.set.counts;
    if counts.loaded + counts.failed + counts.skipped == 0 && how != Say::Refused {
        let files = compiled.set.files.join(", ");
        eprintln!("gabion: rules: there is no rule in {files}: name a file that holds rules");
    }
    let mut parts = Vec::new();
    if errors > 0 {
        parts.push(format!("{errors} refused"));
    }
    if warnings > 0 && how != Say::Refused {
        parts.push(format!("{warnings} with warnings"));
    }
    parts.extend(report_never_matching(&compiled.set));
    if !parts.is_empty() {
        eprintln!("gabion: rules: {}: see gabion rules check", parts.join(", "));
    }
}

/// Refuses an empty set of rules: a run without rules would look as if nothing had been found.
///
/// # Errors
/// When all rules were refused or skipped.
pub(crate) fn is_any_left(compiled: &Compiled) -> Result<(), Fault> {
    let counts = compiled.set.counts;
    if counts.loaded > 0 {
        return Ok(());
    }
    if counts.failed == 0 {
        let files = compiled.set.files.join(", ");
        return match counts.skipped {
            // The files hold no rule; `say` has printed this.
            0 => Ok(()),
            n => Err(Fault::input(format!(
                "rules: {files}: {n} skipped for what they require, none is left: see gabion rules check"
            ))),
        };
    }
    let refused = match counts.failed {
        1 => "the only rule was refused".to_owned(),
        n => format!("all {n} rules were refused"),
    };
    let first = compiled.diagnostics.iter().find(|d| d.severity == Severity::Error);
    let first = first.map_or_else(String::new, |d| format!(", first {d}"));
    Err(Fault::input(format!("rules: {refused}{first}: gabion rules check lists each")))
}
