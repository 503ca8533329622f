//! Loads rules for a run: which files, with which variables and classes, and what is reported of them.

use crate::limits::FAILED_RULES_KEPT;
use crate::messages::Messages;
use crate::reputation::report_reputation;
use crate::rule_file::{RuleFile, read_rule_file};
use crate::rule_settings::{DatasetMaker, load_options, read_any, reason, thresholds};
use crate::selection::SelectionFiles;
use gabion_net::Datasets;
use gabion_net::script::ScriptSetup;
use gabion_record::Tree;
use gabion_record::applayer::Catalog;
use gabion_rules::{
    CarriedNames, Counts, Diagnostic, RuleParts, RuleType, RuleVars, Ruleset, Severity,
    SignatureFlags, SkippedRule,
};
use gabion_runtime::memory::SmallPages;
use gabion_runtime::operator_file;
use std::path::{Path, PathBuf};

/// A rule set that was loaded.
#[derive(Debug)]
pub struct LoadedRules {
    /// The rules.
    pub set: Ruleset,
    /// Datasets that they name.
    pub datasets: Datasets,
    /// How many were loaded, refused and skipped.
    pub counts: Counts,
    /// Those that were refused, the first of many.
    pub failed: Vec<Diagnostic>,
}

fn failed_rules(all: &[Diagnostic]) -> Vec<Diagnostic> {
    let failed = all.iter().filter(|d| d.severity == Severity::Error && !d.rule.is_empty());
    failed.take(FAILED_RULES_KEPT).cloned().collect()
}

/// Which rules a run loads in addition to those of the configuration, and what is demanded of them.
#[derive(Clone, Debug, Default)]
pub struct RuleRequest {
    /// A file in the place of those that the configuration names (`-S`).
    pub only: Option<PathBuf>,
    /// Files in addition to those (`-s`).
    pub also: Vec<PathBuf>,
    /// A file of firewall rules in the place of those that the configuration names.
    pub firewall_only: Option<PathBuf>,
    /// The run is in firewall mode.
    pub is_firewall: bool,
    /// A rule or file with a fault ends the load (`--init-errors-fatal`).
    pub is_strict: bool,
    /// The configuration is only tested (`-T`): then a fault of its other files ends the load, too.
    pub is_test: bool,
    /// Keywords that refuse where they would warn.
    pub strict_keywords: Vec<String>,
    /// Which rules are turned off, on or changed.
    pub selection: SelectionFiles,
    /// Every line of those files without effect is reported, not only the first few.
    pub is_verbose: bool,
    /// Names of bits and variables whose numbers stay, of a run that has loaded rules before.
    pub carried: CarriedNames,
    /// Files of the rules that the run has: a load without one of them that is still named, or without any rule, fails.
    pub loaded_files: Vec<String>,
}

/// Rules and what was found while they were compiled.
#[derive(Debug)]
pub struct CompiledRules {
    /// The rules.
    pub set: Ruleset,
    /// Datasets that they name.
    pub datasets: Datasets,
    /// About the files of classes and references.
    pub settings: Vec<Diagnostic>,
    /// About files of datasets.
    pub files: Vec<Diagnostic>,
    /// About rules.
    pub rules: Vec<Diagnostic>,
    /// About the threshold file.
    pub thresholds: Vec<Diagnostic>,
    /// How many entries it has, if it could be read.
    pub threshold_entries: Option<usize>,
    /// A dataset ends a load that demands rules without fault.
    pub is_broken: bool,
}

/// Names of missing things that are reported for rules that can never match.
const MISSING_SAID: usize = 5;

/// A line about rules that can never match here, if there are any.
pub fn report_never_matching(set: &Ruleset) -> Option<String> {
    // Rules that stand for a firewall's policies match nothing themselves, on purpose.
    let mut all = gabion_rules::analysis::missing(set);
    all.retain(|(what, _)| *what != POLICIES);
    let rules: usize = all.iter().map(|(_, rules)| rules).sum();
    if rules == 0 {
        return None;
    }
    let mut named: Vec<String> =
        all.iter().take(MISSING_SAID).map(|(what, rules)| format!("{what} {rules}")).collect();
    if all.len() > MISSING_SAID {
        named.push(format!("and {} more", all.len() - MISSING_SAID));
    }
    let named = named.join(", ");
    Some(format!("{rules} can never match, for want of what this sensor does not have ({named})"))
}

/// Faults of rules without repetitions. A variable that is not defined is reported with the first rule that
/// names it; the others are counted.
#[derive(Debug)]
pub struct FoldedFaults<'d> {
    /// Faults to report one by one.
    pub said: Vec<&'d Diagnostic>,
    /// The fault, and how many rules more are refused for it.
    pub more: Vec<(&'d str, usize)>,
}

/// Joins faults that would be reported again and again.
pub fn fold_faults(all: &[Diagnostic]) -> FoldedFaults<'_> {
    let mut folded = FoldedFaults { said: Vec::new(), more: Vec::new() };
    for d in all {
        if !d.refuses_variable() {
            folded.said.push(d);
            continue;
        }
        match folded.more.iter_mut().find(|(message, _)| *message == d.message) {
            Some((_, rules)) => *rules += 1,
            None => {
                folded.said.push(d);
                folded.more.push((&d.message, 0));
            }
        }
    }
    folded.more.retain(|(_, rules)| *rules > 0);
    folded
}

fn has_errors(said: &[Diagnostic]) -> bool {
    said.iter().any(|d| d.severity == Severity::Error)
}

/// A file that the configuration names for rules and that can't be read.
#[derive(Debug)]
pub(crate) struct UnreadableFile {
    /// The key of the configuration.
    pub(crate) key: &'static str,
    /// The file.
    pub(crate) path: String,
    /// Why not.
    pub(crate) why: String,
    /// What follows from it.
    pub(crate) effect: &'static str,
}

/// The files next to rules that the configuration names and that can't be read. Rules load without
/// them, as in Suricata, but mean less.
pub(crate) fn unreadable_files(config: &Tree) -> Vec<UnreadableFile> {
    let files = [
        ("classification-file", "classtypes have neither text nor priority of their own"),
        ("reference-config-file", "references have no addresses"),
        ("threshold-file", "its thresholds and suppressions do not hold"),
    ];
    let mut found = Vec::new();
    for (key, effect) in files {
        if let Some(path) = config.text(key)
            && let Err(e) = operator_file::check(Path::new(path))
        {
            found.push(UnreadableFile { key, path: path.to_owned(), why: e.to_string(), effect });
        }
    }
    found
}

/// Files that a pattern with `*` in its last part stands for, sorted.
fn expand(path: &Path) -> Vec<PathBuf> {
    let name = path.file_name().map(|n| n.to_string_lossy().into_owned()).unwrap_or_default();
    let Some((front, back)) = name.split_once('*') else { return vec![path.to_path_buf()] };
    let folder = path.parent().unwrap_or(Path::new("."));
    let mut found: Vec<PathBuf> = std::fs::read_dir(folder)
        .into_iter()
        .flatten()
        .flatten()
        .map(|e| e.path())
        .filter(|p| {
            let n = p.file_name().map(|n| n.to_string_lossy().into_owned()).unwrap_or_default();
            n.starts_with(front) && n.ends_with(back) && n.len() >= front.len() + back.len()
        })
        .collect();
    found.sort();
    found
}

/// The files of a list in the configuration, those without a folder in this one.
fn listed(config: &Tree, folder: &str, files: &str, otherwise: &str) -> Vec<PathBuf> {
    let folder = Path::new(config.text(folder).unwrap_or(otherwise));
    let items = config.get(files).map(|t| t.children.as_slice()).unwrap_or(&[]);
    // an absolute name stays as it is
    items.iter().filter_map(|(_, item)| Some(folder.join(item.value.as_deref()?))).collect()
}

/// Loads the rules that a request and the configuration name; `before` are those that a run has already. None when the run
/// ends for what is wrong with them: then the last messages say why.
pub fn load_rules(
    config: &Tree,
    o: &RuleRequest,
    catalog: &Catalog,
    scripts: &ScriptSetup,
    before: Option<&Ruleset>,
    log: &mut Messages<'_>,
) -> Option<LoadedRules> {
    // Half of what a load takes is freed at its end: in pages of 2 MiB it would stay.
    let _small_pages = SmallPages::begin();
    let is_firewall = o.is_firewall;
    let mut files = Vec::new();
    let mut missing = 0u32;
    let mut is_incomplete = false;
    let mut add = |path: &Path, firewall: bool, log: &mut Messages<'_>| {
        let list = expand(path);
        if list.is_empty() {
            log.warning("detect", &format!("No rule files match the pattern {}", path.display()));
            missing += 1;
        }
        for p in list {
            match read_rule_file(&p, firewall) {
                Ok(f) => files.push(f),
                Err(e) => {
                    log.error("detect", &e.to_string());
                    missing += 1;
                    let name = p.display().to_string();
                    is_incomplete |= o.loaded_files.contains(&name);
                }
            }
        }
    };
    if let Some(path) = &o.firewall_only {
        add(path, true, log);
    } else if is_firewall {
        for path in listed(config, "firewall.rule-path", "firewall.rule-files", "") {
            add(&path, true, log);
        }
    }
    if let Some(path) = &o.only {
        add(path, false, log);
    } else if o.firewall_only.is_none() {
        for path in listed(config, "default-rule-path", "rule-files", "/var/lib/suricata/rules") {
            add(&path, false, log);
        }
    }
    for path in &o.also {
        add(path, false, log);
    }
    let is_strict = o.is_strict || o.is_test;
    if !select(o, &mut files, is_strict, log) {
        return None;
    }
    let demands = Demands {
        is_firewall,
        is_strict,
        strict_keywords: &o.strict_keywords,
        carried: Some(&o.carried),
        before,
    };
    let c = compile_rules(config, files, catalog, demands, scripts);
    c.settings.iter().for_each(|d| say(d, log));
    if o.is_test && has_errors(&c.settings) {
        log.error("suricata", "initializing detection engine failed.");
        return None;
    }
    c.files.iter().for_each(|d| say(d, log));
    if c.is_broken {
        return None;
    }
    for skipped in &c.set.skipped {
        say_skipped(skipped, &c.set, log);
    }
    let folded = fold_faults(&c.rules);
    folded.said.iter().for_each(|d| say(d, log));
    for (fault, rules) in &folded.more {
        log.error(
            Diagnostic::VARIABLES,
            &format!("{fault}: {rules} rules more are refused for it"),
        );
    }
    if c.set.signatures.iter().any(|s| s.flags.has(SignatureFlags::FILESTORE)) && !stores(config) {
        log.warning(
            "detect-filestore",
            "One or more rule(s) depends on the file-store output log which is not enabled. \
             Enable the output \"file-store\".",
        );
    }
    let counts = c.set.counts;
    say_counts(&counts, log);
    if let Some(said) = report_never_matching(&c.set) {
        log.warning("detect", &format!("of the rules {said}: gabion rules check FILE names them"));
    }
    let is_failed = counts.failed > 0 || missing > 0;
    is_incomplete |= counts.loaded == 0 && !o.loaded_files.is_empty();
    let is_failed = is_failed && is_strict || is_incomplete;
    if !is_failed {
        c.thresholds.iter().for_each(|d| say(d, log));
        if let Some(entries) = c.threshold_entries {
            let said = format!("Threshold config parsed: {entries} rule(s) found");
            log.info(Diagnostic::THRESHOLDS, &said);
        }
    }
    if is_failed || (o.is_test && has_errors(&c.thresholds)) {
        log.error("suricata", "Loading signatures failed.");
        return None;
    }
    if counts.files > 0 {
        log.info("detect", &kinds(&c.set));
    }
    report_reputation(config, log);
    let failed = failed_rules(&c.rules);
    Some(LoadedRules { set: c.set, datasets: c.datasets, counts, failed })
}

/// Turns rules off and on, and changes them, as the request's files say; false when the run ends for them.
fn select(
    o: &RuleRequest,
    files: &mut [RuleFile],
    is_strict: bool,
    log: &mut Messages<'_>,
) -> bool {
    let applied = match o.selection.apply(files) {
        Ok(Some(applied)) => applied,
        Ok(None) => return true,
        Err(e) => {
            log.error("detect", &e.to_string());
            return false;
        }
    };
    log.info("detect", &format!("rules: {}", applied.counts()));
    for (severity, line) in applied.lines(o.is_verbose) {
        match severity {
            Severity::Error => log.error("detect", &line),
            Severity::Warning | Severity::Note => log.warning("detect", &line),
        }
    }
    !is_strict || applied.faults.is_empty()
}

fn say_skipped(skipped: &SkippedRule, set: &Ruleset, log: &mut Messages<'_>) {
    let file = set.files.get(usize::from(skipped.file)).map_or("", String::as_str);
    let unmet = format!("Suricata did not meet the rule requirements: {}", skipped.unmet);
    log.info("detect-requires", &unmet);
    let said = format!(
        "Skipping signature due to missing requirements: {} from file {file} at line {}",
        skipped.text, skipped.line
    );
    log.info("detect", &said);
}

fn say_counts(c: &Counts, log: &mut Messages<'_>) {
    match (c.loaded, c.files) {
        (0, 0) => log.info("detect", "No signatures supplied."),
        (0, n) => {
            let said = format!("{n} rule files specified, but no rules were loaded!");
            log.warning("detect", &said);
        }
        (loaded, files) => log.info(
            "detect",
            &format!(
                "{files} rule files processed. {loaded} rules successfully loaded, {} rules \
                 failed, {} rules skipped",
                c.failed, c.skipped
            ),
        ),
    }
}

/// How many rules there are of each kind, as Suricata says it.
fn kinds(set: &Ruleset) -> String {
    let (mut ip, mut payload, mut app, mut event) = (0, 0, 0, 0);
    for s in &set.signatures {
        match s.kind {
            RuleType::IpOnly => ip += 1,
            RuleType::DeOnly => event += 1,
            RuleType::AppTx | RuleType::AppLayer => app += 1,
            _ if s.flags.has(SignatureFlags::PAYLOAD) => payload += 1,
            _ => {}
        }
    }
    format!(
        "{} signatures processed. {ip} are IP-only rules, {payload} are inspecting packet payload, \
         {app} inspect application layer, {event} are decoder event only",
        set.signatures.len()
    )
}

/// What is demanded of rules.
#[derive(Clone, Copy, Debug, Default)]
pub struct Demands<'a> {
    /// Firewall mode.
    pub is_firewall: bool,
    /// Files that rules name must be without fault.
    pub is_strict: bool,
    /// Keywords that refuse where they would warn.
    pub strict_keywords: &'a [String],
    /// Names whose numbers stay, of a run that has loaded rules before.
    pub carried: Option<&'a CarriedNames>,
    /// The rules of such a run: what is the same in both is shared.
    pub before: Option<&'a Ruleset>,
}

/// Compiles rule files and applies the threshold file.
pub fn compile_rules(
    config: &Tree,
    files: Vec<RuleFile>,
    catalog: &Catalog,
    demands: Demands<'_>,
    scripts: &ScriptSetup,
) -> CompiledRules {
    let has_policies = demands.is_firewall && config.get("firewall.policies").is_some();
    let named = files.len();
    let policies = has_policies.then(|| RuleParts {
        name: String::new(),
        parts: vec![POLICY_RULES.to_owned()],
        is_firewall: false,
    });
    let parts = files.into_iter().map(|RuleFile { name, parts, is_firewall }| RuleParts {
        name,
        parts,
        is_firewall,
    });
    let sources = parts.chain(policies);
    let vars = RuleVars::from_config(config);
    let maker = DatasetMaker::new(config);
    let mut settings = Vec::new();
    let open = |_, def: &gabion_rules::compiled::DatasetDef| Ok(maker.open(def)?);
    let mut options = load_options(config, demands.is_firewall, &mut settings);
    options.strict_keywords = demands.strict_keywords.to_vec();
    options.open_dataset = Some(&open);
    options.carried = demands.carried.cloned().unwrap_or_default();
    options.before = demands.before;
    let inspect = |path: &str, is_transform: bool| {
        let source =
            read_any(path).map_err(|e| gabion_net::script::unreadable(path, &reason(&e)))?;
        Ok(gabion_net::script::inspect(path, &source, is_transform, scripts)?)
    };
    options.inspect_script = Some(&inspect);
    let (mut set, rules) = Ruleset::load_parts(sources, catalog, &vars, &options);
    if has_policies {
        stand_for_policies(&mut set, named);
    }
    let (datasets, files, is_broken) = maker.finish(demands.is_strict);
    let (thresholds, threshold_entries) = thresholds(config, &vars, &mut set);
    CompiledRules {
        set,
        datasets,
        settings,
        files,
        rules,
        thresholds,
        threshold_entries,
        is_broken,
    }
}

/// Why rules that stand for a firewall's policies match nothing themselves.
const POLICIES: &str = "firewall.policies";

/// Rules under which a firewall's policies alert: Suricata's ids and messages.
const POLICY_RULES: &str = "\
alert ip any any -> any any (msg:\"SURICATA FW default packet policy\"; sid:2201000; rev:1;)
alert ip any any -> any any (msg:\"SURICATA FW default app policy\"; sid:2201001; rev:1;)
";

/// The rules of this file match nothing themselves and are not counted.
fn stand_for_policies(set: &mut Ruleset, file: usize) {
    let own = set.signatures.iter_mut().filter(|s| usize::from(s.file) == file);
    let mut count = 0;
    for s in own {
        s.inert = Some(POLICIES);
        count += 1;
    }
    set.counts.loaded = set.counts.loaded.saturating_sub(count);
    set.counts.files = set.counts.files.saturating_sub(1);
}

fn say(d: &Diagnostic, log: &mut Messages<'_>) {
    if !d.message.is_empty() {
        match d.severity {
            Severity::Error => log.error(d.subsystem, &d.message),
            Severity::Warning => log.warning(d.subsystem, &d.message),
            Severity::Note => log.notice(d.subsystem, &d.message),
        }
    }
    if d.severity != Severity::Error {
        return;
    }
    if d.concerns_rule() {
        let said = format!(
            "error parsing signature \"{}\" from file {} at line {}",
            d.rule, d.file, d.line
        );
        log.error("detect", &said);
    }
    if let Some(reason) = &d.reason {
        log.info("rules", &format!("{}:{}:{}: {reason}", d.file, d.line, d.column));
    }
}

/// Whether files are stored.
pub(crate) fn stores(config: &Tree) -> bool {
    let outputs = config.get("outputs");
    outputs.is_some_and(|o| o.items("file-store").any(|n| n.flag("enabled") == Some(true)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use gabion_rules::{LoadOptions, RuleSource};

    /// Rules with keywords of a protocol that the catalog lacks: they load, and are reported with what is missing.
    #[test]
    fn rules_without_their_protocol_are_counted() {
        let text = "alert tcp any any -> any any (sid:1;)\n\
            alert tcp any any -> any any (modbus: function 8; sid:2;)\n\
            alert tcp any any -> any any (ftpbounce; sid:3;)\n\
            alert tcp any any -> any any (modbus: unit 10; sid:4;)\n";
        let source = RuleSource { name: "a.rules", text, is_firewall: false };
        let load = |catalog: &Catalog| {
            Ruleset::load(&[source], catalog, &RuleVars::default(), &LoadOptions::default()).0
        };
        let said =
            "3 can never match, for want of what this sensor does not have (modbus 2, ftpbounce 1)";
        assert_eq!(report_never_matching(&load(&Catalog::default())).as_deref(), Some(said));
        assert_eq!(report_never_matching(&load(&gabion_proto::registry::catalog())), None);
    }
}
