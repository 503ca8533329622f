//! Loads rules for a run: which files, with which variables and classes, and what is said of them.

use crate::suricata::{EngineLog, Options};
use gabion_record::Tree;
use gabion_record::applayer::Catalog;
use gabion_rules::{Counts, Diagnostic, LoadOptions, RuleSource, RuleVars, Ruleset, Severity};
use std::path::{Path, PathBuf};

/// A rule set that was loaded.
pub(crate) struct Loaded {
    pub(crate) set: Ruleset,
    pub(crate) counts: Counts,
}

/// A rule file's name and text.
pub(crate) struct RuleFile {
    pub(crate) name: String,
    pub(crate) text: String,
    pub(crate) is_firewall: bool,
}

/// Reads a rule file, unpacked when its name says so. A file that is not text is refused.
pub(crate) fn read_rule_file(path: &Path, is_firewall: bool) -> Result<RuleFile, String> {
    let shown = path.display();
    let mut bytes = std::fs::read(path).map_err(|e| format!("opening rule file {shown}: {e}"))?;
    if path.extension().is_some_and(|e| e == "zst") {
        bytes = zstd::decode_all(bytes.as_slice()).map_err(|e| format!("{shown}: {e}"))?;
    }
    if bytes.iter().take(4096).any(|b| *b == 0) {
        return Err(format!("{shown}: is no rule file: it holds binary data"));
    }
    let text = String::from_utf8(bytes)
        .unwrap_or_else(|e| String::from_utf8_lossy(e.as_bytes()).into_owned());
    Ok(RuleFile { name: path.display().to_string(), text, is_firewall })
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

/// Settings of a load that the configuration holds.
pub(crate) fn load_options<'a>(config: &Tree, is_firewall: bool) -> LoadOptions<'a> {
    let read_text = |key: &str| -> String {
        config
            .text(key)
            .and_then(|p| std::fs::read(p).ok())
            .map(|b| String::from_utf8_lossy(&b).into_owned())
            .unwrap_or_default()
    };
    let flag = |key: &str| config.flag(key);
    let mut disabled = Vec::new();
    for p in gabion_proto::registry() {
        let on = p.table.transports.iter().any(|t| gabion_net::is_parsed(p, config, *t));
        if !on {
            disabled.push(p.table.name.to_string());
        }
    }
    LoadOptions {
        classes: match config.text("classification-file") {
            Some(_) => classes(&read_text("classification-file")),
            None => crate::classes::built_in(),
        },
        references: match config.text("reference-config-file") {
            Some(_) => references(&read_text("reference-config-file")),
            None => crate::classes::built_in_references(),
        },
        rule_path: config.text("default-rule-path").unwrap_or("").to_string(),
        disabled_protocols: disabled,
        features: Vec::new(),
        allow_lua: flag("security.lua.allow-rules") == Some(true),
        allow_absolute_filenames: flag("datasets.rules.allow-absolute-filenames") == Some(true),
        allow_dataset_write: flag("datasets.rules.allow-write").unwrap_or(true),
        auto_prefilter: config.text("detect.prefilter.default") == Some("auto"),
        is_firewall,
        action_order: action_order(config),
        reputation_categories: read_text("reputation-categories-file")
            .lines()
            .filter_map(|l| Some(l.split(',').nth(1)?.trim().to_string()))
            .collect(),
        read_file: Some(&read_any),
        ..LoadOptions::default()
    }
}

/// `config classification: name, text, priority` lines.
fn classes(text: &str) -> Vec<gabion_rules::ruleset::Classification> {
    let mut out: Vec<gabion_rules::ruleset::Classification> = Vec::new();
    for line in text.lines() {
        let Some(rest) = line.trim().strip_prefix("config classification:") else { continue };
        let mut parts = rest.splitn(3, ',').map(str::trim);
        let (Some(name), Some(text), Some(priority)) = (parts.next(), parts.next(), parts.next())
        else {
            continue;
        };
        let Ok(priority) = priority.parse() else { continue };
        let name = name.to_ascii_lowercase();
        if !out.iter().any(|c| c.name == name) {
            out.push(gabion_rules::ruleset::Classification {
                name,
                text: text.to_string(),
                priority,
            });
        }
    }
    out
}

/// `config reference: name prefix` lines.
fn references(text: &str) -> Vec<(String, String)> {
    text.lines()
        .filter_map(|l| l.trim().strip_prefix("config reference:"))
        .filter_map(|l| l.trim().split_once(char::is_whitespace))
        .map(|(n, p)| (n.to_string(), p.trim().to_string()))
        .collect()
}

/// `action-order`: precedence of actions, first is highest.
fn action_order(config: &Tree) -> [gabion_rules::Action; 4] {
    use gabion_rules::Action;
    let default = LoadOptions::default().action_order;
    let Some(list) = config.get("action-order") else { return default };
    let mut order: Vec<Action> = Vec::new();
    for (_, item) in &list.children {
        let action = match item.value.as_deref() {
            Some("pass") => Action::Pass,
            Some("drop") => Action::Drop,
            Some("reject") => Action::RejectSource,
            Some("alert") => Action::Alert,
            _ => continue,
        };
        if !order.contains(&action) {
            order.push(action);
        }
    }
    order.try_into().unwrap_or(default)
}

fn read_any(path: &str) -> Result<Vec<u8>, String> {
    std::fs::read(path).map_err(|e| e.to_string())
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
    if missing > 0 && o.init_errors_fatal {
        return Err(1);
    }
    let (set, diagnostics) = compile(config, &files, catalog, is_firewall);
    let counts = set.counts;
    for d in &diagnostics {
        say(d, log);
    }
    log.info(
        "detect",
        &format!(
            "{} rule files processed. {} rules successfully loaded, {} rules failed, {} rules skipped",
            counts.files, counts.loaded, counts.failed, counts.skipped
        ),
    );
    if counts.failed > 0 && (o.init_errors_fatal || o.test) {
        log.error("suricata", "Loading signatures failed.");
        return Err(1);
    }
    Ok(Loaded { set, counts })
}

/// Compiles rule files and applies the threshold file.
pub(crate) fn compile(
    config: &Tree,
    files: &[RuleFile],
    catalog: &Catalog,
    is_firewall: bool,
) -> (Ruleset, Vec<Diagnostic>) {
    let sources: Vec<RuleSource<'_>> = files
        .iter()
        .map(|f| RuleSource { name: &f.name, text: &f.text, is_firewall: f.is_firewall })
        .collect();
    let vars = RuleVars::from_config(config);
    let options = load_options(config, is_firewall);
    let (mut set, mut diagnostics) = Ruleset::load(&sources, catalog, &vars, &options);
    if let Some(path) = config.text("threshold-file")
        && let Ok(text) = std::fs::read_to_string(path)
    {
        let (entries, mut found) = gabion_rules::threshold_file::read(&text, path, &vars);
        found.extend(set.apply_thresholds(&entries, path));
        diagnostics.append(&mut found);
    }
    (set, diagnostics)
}

fn say(d: &Diagnostic, log: &mut EngineLog) {
    if !d.message.is_empty() {
        match d.severity {
            Severity::Error => log.error(d.subsystem, &d.message),
            Severity::Warning => log.warning(d.subsystem, &d.message),
            Severity::Note => log.info(d.subsystem, &d.message),
        }
    }
    if d.severity == Severity::Error {
        let said = format!(
            "error parsing signature \"{}\" from file {} at line {}",
            d.rule, d.file, d.line
        );
        log.error("detect", &said);
        if let Some(reason) = &d.reason {
            log.info("detect", &format!("{}:{}:{}: {reason}", d.file, d.line, d.column));
        }
    }
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
    let stores = config
        .get("outputs")
        .is_some_and(|o| o.items("file-store").any(|n| n.flag("enabled") == Some(true)));
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
        if let Err(e) = std::fs::write(&path, bytes) {
            log.error("analyzer", &format!("{}: cannot be written: {e}", path.display()));
            return 1;
        }
    }
    0
}

/// Lists the keywords.
pub(crate) fn print_keywords(_form: Option<&str>, _catalog: &Catalog) {}
