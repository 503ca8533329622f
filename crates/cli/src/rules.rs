//! Loads rules for a run: which files, with which variables and classes, and what is said of them.

use crate::limits::{RULE_FILE_BYTES_MAX, ZSTD_WINDOW_LOG_MAX};
use crate::operator_file;
use crate::rule_settings::{DatasetMaker, load_options, read_any, thresholds};
use crate::suricata::{EngineLog, Options};
use gabion_net::{Datasets, ScriptSetup};
use gabion_record::Tree;
use gabion_record::applayer::Catalog;
use gabion_rules::{
    Counts, Diagnostic, RuleSource, RuleType, RuleVars, Ruleset, Severity, SignatureFlags,
};
use gabion_runtime::StopFlag;
use gabion_runtime::output::write_whole;
use std::io::Read;
use std::path::{Path, PathBuf};

/// A rule set that was loaded.
pub(crate) struct Loaded {
    pub(crate) set: Ruleset,
    pub(crate) datasets: Datasets,
    pub(crate) counts: Counts,
}

/// Rules and what was found on the way.
pub(crate) struct Compiled {
    pub(crate) set: Ruleset,
    pub(crate) datasets: Datasets,
    /// About the files of classes and references.
    pub(crate) settings: Vec<Diagnostic>,
    /// About files of datasets.
    pub(crate) files: Vec<Diagnostic>,
    /// About rules.
    pub(crate) rules: Vec<Diagnostic>,
    /// About the threshold file.
    pub(crate) thresholds: Vec<Diagnostic>,
    /// A dataset ends a load that demands rules without fault.
    pub(crate) is_broken: bool,
}

/// Names of missing things that are said of rules that can never match.
const MISSING_SAID: usize = 5;

/// What is to be said of rules that can never match here, if there are any.
pub(crate) fn never_match(set: &Ruleset) -> Option<String> {
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

/// Faults of rules as they are said one by one. A variable that is not defined is said with the first
/// rule that names it; of the others only how many they are.
pub(crate) struct Folded<'d> {
    pub(crate) said: Vec<&'d Diagnostic>,
    /// The fault, and how many rules more are refused for it.
    pub(crate) more: Vec<(&'d str, usize)>,
}

/// Takes together what would be said again and again.
pub(crate) fn fold(all: &[Diagnostic]) -> Folded<'_> {
    let mut folded = Folded { said: Vec::new(), more: Vec::new() };
    for d in all {
        if d.subsystem != "rule-vars" || d.severity != Severity::Error {
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

/// A rule file's name and text.
pub(crate) struct RuleFile {
    pub(crate) name: String,
    pub(crate) text: String,
    pub(crate) is_firewall: bool,
}

/// Reads a rule file, unpacked when its name says so. A file that is not text, or is larger than any
/// rule set, is refused.
pub(crate) fn read_rule_file(path: &Path, is_firewall: bool) -> Result<RuleFile, String> {
    let shown = path.display();
    let opening = |e: std::io::Error| format!("opening rule file {shown}: {e}");
    let opened = operator_file::open(path).map_err(opening)?;
    let is_packed = path.extension().is_some_and(|e| e == "zst");
    let (is_stream, len) = (opened.is_stream, opened.file.metadata().map_or(0, |m| m.len()));
    let from = opened.reader();
    let bytes = if is_packed {
        unpack(from).map_err(|e| format!("{shown}: can't be unpacked: {e}"))?
    } else {
        read_up_to(from, RULE_FILE_BYTES_MAX, len).map_err(opening)?
    };
    if is_stream && StopFlag::of_process().is_set() {
        return Err(format!("opening rule file {shown}: asked to stop before it was read"));
    }
    if bytes.len() as u64 > RULE_FILE_BYTES_MAX {
        let how = if is_packed { " unpacked" } else { "" };
        let most = RULE_FILE_BYTES_MAX >> 20;
        return Err(format!("{shown}: is larger than {most} MiB{how}, which no rule file is"));
    }
    if bytes.iter().take(4096).any(|b| *b == 0) {
        return Err(format!("{shown}: is no rule file: it holds binary data"));
    }
    let text = String::from_utf8(bytes)
        .unwrap_or_else(|e| String::from_utf8_lossy(e.as_bytes()).into_owned());
    Ok(RuleFile { name: path.display().to_string(), text, is_firewall })
}

fn unpack(from: impl Read) -> std::io::Result<Vec<u8>> {
    let mut decoder = zstd::stream::read::Decoder::new(from)?;
    decoder.window_log_max(ZSTD_WINDOW_LOG_MAX)?;
    read_up_to(decoder, RULE_FILE_BYTES_MAX, 0)
}

/// All there is, but at most one byte more than `max`: so that the caller sees that it is too much.
/// `expected` bytes need no room beyond.
fn read_up_to(from: impl Read, max: u64, expected: u64) -> std::io::Result<Vec<u8>> {
    let room = usize::try_from(expected.min(max).saturating_add(1)).unwrap_or(0);
    let mut bytes = Vec::with_capacity(room);
    from.take(max.saturating_add(1)).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// A file that the configuration names for rules and that can't be read.
pub(crate) struct Unreadable {
    /// The key of the configuration.
    pub(crate) key: &'static str,
    /// The file.
    pub(crate) path: String,
    /// Why not.
    pub(crate) why: String,
    /// What follows of it.
    pub(crate) effect: &'static str,
}

/// The files beside rules that the configuration names and that can't be read. Rules load without
/// them, as in the peer, but mean less.
pub(crate) fn unreadable_files(config: &Tree) -> Vec<Unreadable> {
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
            found.push(Unreadable { key, path: path.to_owned(), why: e.to_string(), effect });
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

/// Loads what command line and configuration name. `Err` carries the exit code.
pub(crate) fn load(
    config: &Tree,
    o: &Options,
    is_firewall: bool,
    catalog: &Catalog,
    log: &mut EngineLog,
) -> Result<Loaded, i32> {
    let mut files = Vec::new();
    let mut missing = 0u32;
    let mut add = |path: &Path, firewall: bool, log: &mut EngineLog| {
        let list = expand(path);
        if list.is_empty() {
            log.warning("detect", &format!("No rule files match the pattern {}", path.display()));
            missing += 1;
        }
        for p in list {
            match read_rule_file(&p, firewall) {
                Ok(f) => files.push(f),
                Err(e) => {
                    log.error("detect", &e);
                    missing += 1;
                }
            }
        }
    };
    if let Some(path) = &o.firewall_rules {
        add(Path::new(path), true, log);
    } else if is_firewall {
        for path in listed(config, "firewall.rule-path", "firewall.rule-files", "") {
            add(&path, true, log);
        }
    }
    if let Some(path) = &o.rules_only {
        add(Path::new(path), false, log);
    } else if o.firewall_rules.is_none() {
        for path in listed(config, "default-rule-path", "rule-files", "/var/lib/suricata/rules") {
            add(&path, false, log);
        }
    }
    for path in &o.rules_also {
        add(Path::new(path), false, log);
    }
    let is_strict = o.init_errors_fatal || o.test;
    select(o, &mut files, is_strict, log)?;
    let scripts = scripts(config, log);
    let demands = Demands {
        is_firewall,
        is_strict,
        strict_keywords: &o.strict_keywords,
        scripts: Some(&scripts),
    };
    let c = compile(config, &files, catalog, demands);
    c.settings.iter().for_each(|d| say(d, log));
    if o.test && has_errors(&c.settings) {
        log.error("suricata", "initializing detection engine failed.");
        return Err(1);
    }
    c.files.iter().for_each(|d| say(d, log));
    if c.is_broken {
        return Err(1);
    }
    let folded = fold(&c.rules);
    folded.said.iter().for_each(|d| say(d, log));
    for (fault, rules) in &folded.more {
        log.error("rule-vars", &format!("{fault}: {rules} rules more are refused for it"));
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
    if let Some(said) = never_match(&c.set) {
        log.warning("detect", &format!("of the rules {said}: gabion rules check FILE names them"));
    }
    let is_failed = counts.failed > 0 || missing > 0;
    let is_failed = is_failed && is_strict;
    if !is_failed {
        c.thresholds.iter().for_each(|d| say(d, log));
    }
    if is_failed || (o.test && has_errors(&c.thresholds)) {
        log.error("suricata", "Loading signatures failed.");
        return Err(1);
    }
    if counts.files > 0 {
        log.info("detect", &kinds(&c.set));
    }
    Ok(Loaded { set: c.set, datasets: c.datasets, counts })
}

/// Turns rules off and on, and changes them, as the command line says. `Err` carries the exit code.
fn select(
    o: &Options,
    files: &mut [RuleFile],
    is_strict: bool,
    log: &mut EngineLog,
) -> Result<(), i32> {
    let applied = match o.selection.apply(files) {
        Ok(Some(applied)) => applied,
        Ok(None) => return Ok(()),
        Err(e) => {
            log.error("detect", &e);
            return Err(1);
        }
    };
    log.info("detect", &format!("rules: {}", applied.counts()));
    for (severity, line) in applied.lines(o.verbose > 0) {
        match severity {
            Severity::Error => log.error("detect", &line),
            Severity::Warning | Severity::Note => log.warning("detect", &line),
        }
    }
    match is_strict && !applied.faults.is_empty() {
        true => Err(1),
        false => Ok(()),
    }
}

fn say_counts(c: &Counts, log: &mut EngineLog) {
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

/// How many rules there are of each kind, as the peer says it.
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

/// What scripts need, with the engine's log as their voice.
pub(crate) fn scripts(config: &Tree, log: &EngineLog) -> ScriptSetup {
    ScriptSetup { voice: log.voice(), ..crate::scripts::setup(config) }
}

/// What is demanded of rules.
#[derive(Clone, Copy, Default)]
pub(crate) struct Demands<'a> {
    /// Firewall mode.
    pub(crate) is_firewall: bool,
    /// Files that rules name must be without fault.
    pub(crate) is_strict: bool,
    /// Keywords that refuse where they would warn.
    pub(crate) strict_keywords: &'a [String],
    /// What scripts need, when it is another than for a run without an engine's log.
    pub(crate) scripts: Option<&'a ScriptSetup>,
}

/// Compiles rule files and applies the threshold file.
pub(crate) fn compile(
    config: &Tree,
    files: &[RuleFile],
    catalog: &Catalog,
    demands: Demands<'_>,
) -> Compiled {
    let has_policies = demands.is_firewall && config.get("firewall.policies").is_some();
    let mut sources: Vec<RuleSource<'_>> = files
        .iter()
        .map(|f| RuleSource { name: &f.name, text: &f.text, is_firewall: f.is_firewall })
        .collect();
    if has_policies {
        sources.push(RuleSource { name: "", text: POLICY_RULES, is_firewall: false });
    }
    let vars = RuleVars::from_config(config);
    let maker = DatasetMaker::new(config);
    let mut settings = Vec::new();
    let open = |_, def: &gabion_rules::ruleset::DatasetDef| maker.open(def);
    let mut options = load_options(config, demands.is_firewall, &mut settings);
    options.strict_keywords = demands.strict_keywords.to_vec();
    options.open_dataset = Some(&open);
    let own;
    let scripts = match demands.scripts {
        Some(s) => s,
        None => {
            own = crate::scripts::setup(config);
            &own
        }
    };
    let inspect = |path: &str, is_transform: bool| {
        gabion_net::script::inspect(path, read_any(path), is_transform, scripts)
    };
    options.inspect_script = Some(&inspect);
    let (mut set, rules) = Ruleset::load(&sources, catalog, &vars, &options);
    if has_policies {
        stand_for_policies(&mut set, sources.len() - 1);
    }
    let (datasets, files, is_broken) = maker.finish(demands.is_strict);
    let thresholds = thresholds(config, &vars, &mut set);
    Compiled { set, datasets, settings, files, rules, thresholds, is_broken }
}

/// Why rules that stand for a firewall's policies match nothing themselves.
const POLICIES: &str = "firewall.policies";

/// Rules under which a firewall's policies alert: the peer's ids and messages.
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

fn say(d: &Diagnostic, log: &mut EngineLog) {
    if !d.message.is_empty() {
        match d.severity {
            Severity::Error => log.error(d.subsystem, &d.message),
            Severity::Warning => log.warning(d.subsystem, &d.message),
            Severity::Note => log.notice(d.subsystem, &d.message),
        }
    }
    let concerns_rule = !d.rule.is_empty()
        && !matches!(
            d.subsystem,
            "threshold-config" | "classification-config" | "reference-config"
        );
    if d.severity != Severity::Error {
        return;
    }
    if concerns_rule {
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
fn stores(config: &Tree) -> bool {
    let outputs = config.get("outputs");
    outputs.is_some_and(|o| o.items("file-store").any(|n| n.flag("enabled") == Some(true)))
}

/// Writes the reports on the rules.
pub(crate) fn analysis(
    l: &Loaded,
    catalog: &Catalog,
    config: &Tree,
    folder: &Path,
    log: &mut EngineLog,
) -> i32 {
    use gabion_rules::analysis::{
        Report, fast_pattern_report, flowbits::Flowbits, patterns_json, rule_json, rule_report,
    };
    let flowbits = Flowbits::of(&l.set);
    let report = Report { set: &l.set, catalog, flowbits: &flowbits };
    let stores = stores(config);
    let (mut rules, mut texts, mut patterns) = (Vec::new(), String::new(), String::new());
    for s in &l.set.signatures {
        rules.extend_from_slice(&rule_json(&report, s));
        rules.push(b'\n');
        texts.push_str(&rule_report(&report, s, stores));
        patterns.push_str(&fast_pattern_report(&report, s));
    }
    let files: [(&str, &[u8]); 4] = [
        ("rules.json", &rules),
        ("patterns.json", &patterns_json(&report)),
        ("rules_analysis.txt", texts.as_bytes()),
        ("rules_fast_pattern.txt", patterns.as_bytes()),
    ];
    for (name, bytes) in files {
        let path = folder.join(name);
        if let Err(e) = write_whole(&path, bytes) {
            log.error("analyzer", &format!("{}: cannot be written: {e}", path.display()));
            return 1;
        }
    }
    0
}

/// Writes which rules are looked at for which ports, when the configuration asks for it.
pub(crate) fn groups(
    set: &Ruleset,
    catalog: &Catalog,
    config: &Tree,
    folder: &Path,
    log: &mut EngineLog,
) {
    use gabion_rules::analysis::{GroupOptions, Report, flowbits::Flowbits, rule_groups};
    const SHOWN: &str = "detect.profiling.grouping";
    if config.flag(&format!("{SHOWN}.dump-to-disk")) != Some(true) {
        return;
    }
    let ports = |key: &str| -> Option<Vec<u16>> {
        let text = config.text(&format!("detect.grouping.{key}"))?;
        text.split(',').map(|p| p.trim().parse().ok()).collect()
    };
    let default = GroupOptions::default();
    let number = |key: &str, otherwise: usize| {
        let n = config.number(&format!("detect.custom-values.{key}"));
        n.and_then(|n| usize::try_from(n).ok()).unwrap_or(otherwise)
    };
    let most = match config.text("detect.profile") {
        Some("low") => [15, 2],
        Some("high") => [75, 15],
        Some("custom") => {
            [number("toserver-groups", default.most[0]), number("toclient-groups", default.most[1])]
        }
        _ => default.most,
    };
    let options = GroupOptions {
        tcp_ports: ports("tcp-priority-ports").unwrap_or(default.tcp_ports),
        udp_ports: ports("udp-priority-ports").unwrap_or(default.udp_ports),
        most,
        include_rules: config.flag(&format!("{SHOWN}.include-rules")) == Some(true),
    };
    let flowbits = Flowbits::of(set);
    let report = Report { set, catalog, flowbits: &flowbits };
    let path = folder.join("rule_group.json");
    if let Err(e) = write_whole(&path, rule_groups(&report, &options).as_ref()) {
        log.error("detect", &format!("{}: cannot be written: {e}", path.display()));
    }
}
