//! What is reported of rules when they are loaded for a run.

use gabion_rules::{Diagnostic, Severity};
use gabion_settings::{NamedRules, fold_faults, report_never_matching};

/// How much is printed about rules that were refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LoadDetail {
    /// Only that there are some (`-q`): a quiet run still reports that a rule is not in use.
    Refused,
    /// How many, and how many have warnings.
    Counts,
    /// Each one too.
    All,
}

impl LoadDetail {
    /// As the options of a run ask for.
    pub fn from_flags(is_quiet: bool, is_verbose: bool) -> LoadDetail {
        match (is_quiet, is_verbose) {
            (true, _) => LoadDetail::Refused,
            (false, false) => LoadDetail::Counts,
            (false, true) => LoadDetail::All,
        }
    }
}

/// Wrong entries of a threshold file that are printed one by one.
const ENTRIES_NAMED: usize = 5;

/// Lines about rules that were loaded: which were refused, each one or only how many, and how many can never match.
pub fn rule_load_lines(compiled: &NamedRules, how: LoadDetail) -> Vec<String> {
    let mut lines = Vec::new();
    // Diagnostics of files other than rule files, such as that of thresholds, are printed unchanged.
    let (diagnostics, mut entries): (Vec<&Diagnostic>, Vec<&Diagnostic>) =
        compiled.diagnostics.iter().partition(|d| !d.is_about_thresholds());
    entries.retain(|d| d.line > 0);
    for d in entries.iter().take(ENTRIES_NAMED) {
        lines.push(format!("{d}: the entry is left out"));
    }
    if let Some(next) = entries.get(ENTRIES_NAMED) {
        let more = entries.len() - ENTRIES_NAMED;
        lines.push(format!("{}: {more} more entries are left out", next.file));
    }
    let of = |s: Severity| diagnostics.iter().filter(move |d| d.severity == s).count();
    let (errors, warnings) = (of(Severity::Error), of(Severity::Warning));
    if how == LoadDetail::All {
        let own: Vec<Diagnostic> = diagnostics.iter().map(|d| (*d).clone()).collect();
        let folded = fold_faults(&own);
        lines.extend(folded.said.iter().map(ToString::to_string));
        for (fault, rules) in folded.more {
            lines.push(format!("{fault}: {rules} rules more are refused for it"));
        }
    }
    if let Some(selection) = &compiled.selection {
        if how != LoadDetail::Refused {
            lines.push(format!("rules: {}", selection.counts()));
        }
        // A line that can't be read leaves rules on that were to be off.
        let all = selection.lines(how == LoadDetail::All).into_iter();
        let wanted = all.filter(|(s, _)| how != LoadDetail::Refused || *s == Severity::Error);
        lines.extend(wanted.map(|(_, line)| line));
    }
    let counts = compiled.set.counts;
    if counts.loaded + counts.failed + counts.skipped == 0 && how != LoadDetail::Refused {
        let files = compiled.set.files.join(", ");
        lines.push(format!("rules: there is no rule in {files}: name a file that holds rules"));
    }
    let mut parts = Vec::new();
    if errors > 0 {
        parts.push(format!("{errors} refused"));
    }
    if warnings > 0 && how != LoadDetail::Refused {
        parts.push(format!("{warnings} with warnings"));
    }
    parts.extend(report_never_matching(&compiled.set));
    if !parts.is_empty() {
        lines.push(format!("rules: {}: see gabion rules check", parts.join(", ")));
    }
    lines
}
