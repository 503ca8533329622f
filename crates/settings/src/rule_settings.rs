//! What a load of rules needs from the configuration: classes, systems of references, thresholds,
//! files that rules name. What is wrong with them is reported in Suricata's words.

use crate::error::{Error, Result};
use crate::reputation::category_names;
use gabion_net::{DatasetFault, DatasetNote, Datasets};
use gabion_record::Tree;
use gabion_rules::compiled::{DatasetDef, DatasetType};
use gabion_rules::{Classification, Diagnostic, LoadOptions, RuleVars, Ruleset, Severity};
use gabion_runtime::limits::NAMED_FILE_BYTES_MAX;
use gabion_runtime::operator_file;
use std::cell::{Cell, RefCell};
use std::path::{Path, PathBuf};

/// Settings of a load that the configuration holds.
pub(crate) fn load_options<'a>(
    config: &Tree,
    is_firewall: bool,
    said: &mut Vec<Diagnostic>,
) -> LoadOptions<'a> {
    let categories = config.text("reputation-categories-file").and_then(|p| read_text(p).ok());
    let flag = |key: &str| config.flag(key);
    let mut disabled = Vec::new();
    for p in gabion_proto::registry() {
        let on = p.table.transports.iter().any(|t| gabion_net::is_detected(p, config, *t));
        if !on {
            disabled.push(p.table.name.to_string());
        }
    }
    LoadOptions {
        classes: classes(config, said),
        references: references(config, said),
        rule_path: config.text("default-rule-path").unwrap_or("").to_string(),
        disabled_protocols: disabled,
        features: list_features(config),
        allow_lua: flag("security.lua.allow-rules") != Some(false),
        allow_absolute_filenames: flag("datasets.rules.allow-absolute-filenames") == Some(true),
        allow_dataset_write: flag("datasets.rules.allow-write").unwrap_or(true),
        auto_prefilter: config.text("detect.prefilter.default") == Some("auto"),
        is_firewall,
        action_order: action_order(config),
        datasets: configured_datasets(config),
        reputation_categories: category_names(&categories.unwrap_or_default()),
        no_geoip: crate::countries::missing(config),
        read_file: Some(&|path| read_any(path).map_err(|e| reason(&e).into())),
        ..LoadOptions::default()
    }
}

/// Datasets below `datasets`, each under its name.
fn configured_datasets(config: &Tree) -> Vec<DatasetDef> {
    let mut out = Vec::new();
    for (name, node) in config.get("datasets").map(|t| t.children.as_slice()).unwrap_or(&[]) {
        let Some(kind) = node.text("type").and_then(DatasetType::from_name) else { continue };
        let path = |key: &str| node.text(key).or(node.text("state")).map(str::to_string);
        out.push(DatasetDef {
            kind,
            load: path("load"),
            save: path("save"),
            memcap: node.size("memcap").unwrap_or(0),
            hashsize: node.number("hashsize").and_then(|n| n.try_into().ok()).unwrap_or(0),
            ..DatasetDef::new(name)
        });
    }
    out
}

/// What `requires: feature` finds: fingerprints that are not switched off.
fn list_features(config: &Tree) -> Vec<String> {
    let mut features = Vec::new();
    for protocol in gabion_proto::registry() {
        for (name, key) in protocol.features {
            let key = format!("app-layer.protocols.{}.{key}", protocol.config_name);
            if config.flag(&key) != Some(false) {
                features.push((*name).to_string());
            }
        }
    }
    features
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

/// Reads a file that a rule names.
pub(crate) fn read_any(path: &str) -> std::io::Result<Vec<u8>> {
    operator_file::bytes(Path::new(path), NAMED_FILE_BYTES_MAX)
}

fn read_text(path: &str) -> std::io::Result<String> {
    let bytes = operator_file::bytes(Path::new(path), NAMED_FILE_BYTES_MAX);
    bytes.map(|b| String::from_utf8_lossy(&b).into_owned())
}

/// A finding about a file as a whole.
fn finding(file: &str, severity: Severity, subsystem: &'static str, message: String) -> Diagnostic {
    Diagnostic {
        file: file.to_string(),
        line: 0,
        column: 0,
        len: 0,
        severity,
        subsystem,
        message,
        reason: None,
        rule: String::new(),
        sid: None,
    }
}

/// The system's words for an error, without its number.
pub(crate) fn reason(e: &std::io::Error) -> String {
    let text = e.to_string();
    let number = e.raw_os_error().map(|errno| format!(" (os error {errno})"));
    let words = number.and_then(|number| text.strip_suffix(&number).map(str::to_owned));
    words.unwrap_or(text)
}

fn classes(config: &Tree, said: &mut Vec<Diagnostic>) -> Vec<Classification> {
    const WHO: &str = Diagnostic::CLASSES;
    let Some(path) = config.text("classification-file") else { return crate::classes::built_in() };
    let text = match read_text(path) {
        Ok(text) => text,
        Err(e) => {
            let what = format!("could not open: \"{path}\": {}", reason(&e));
            said.push(finding(path, Severity::Warning, WHO, what));
            let hint = "please check the \"classification-file\" option in your suricata.yaml file";
            said.push(finding(path, Severity::Error, WHO, hint.to_string()));
            return Vec::new();
        }
    };
    let (classes, faults) = gabion_rules::parse_classification(&text, path);
    if !faults.is_empty() {
        said.extend(faults);
        let what = format!("Error loading classification configuration from {path}");
        said.push(finding(path, Severity::Warning, WHO, what));
    }
    classes
}

fn references(config: &Tree, said: &mut Vec<Diagnostic>) -> Vec<(String, String)> {
    const WHO: &str = Diagnostic::REFERENCES;
    let Some(path) = config.text("reference-config-file") else {
        return crate::classes::built_in_references();
    };
    match read_text(path) {
        Ok(text) => {
            let (systems, faults) = gabion_rules::read_references(&text, path);
            said.extend(faults);
            systems
        }
        Err(e) => {
            let what = format!("Error opening file: \"{path}\": {}", reason(&e));
            said.push(finding(path, Severity::Error, WHO, what));
            let hint =
                "please check the \"reference-config-file\" option in your suricata.yaml file";
            said.push(finding(path, Severity::Error, WHO, hint.to_string()));
            Vec::new()
        }
    }
}

/// Reads and applies the threshold file; how many entries it has, if it could be read.
pub(crate) fn thresholds(
    config: &Tree,
    vars: &RuleVars,
    set: &mut Ruleset,
) -> (Vec<Diagnostic>, Option<usize>) {
    const WHO: &str = Diagnostic::THRESHOLDS;
    let Some(path) = config.text("threshold-file") else { return Default::default() };
    let text = match read_text(path) {
        Ok(text) => text,
        Err(e) => {
            let what = format!("Error opening file: \"{path}\": {}", reason(&e));
            return (vec![finding(path, Severity::Warning, WHO, what)], None);
        }
    };
    let (entries, mut said) = gabion_rules::parse_thresholds(&text, path, vars);
    if !said.is_empty() {
        let what = format!("Error loading threshold configuration from {path}");
        said.push(finding(path, Severity::Warning, WHO, what));
    }
    said.extend(set.apply_thresholds(&entries, path));
    (said, Some(entries.len()))
}

/// Datasets as they are made while rules are read.
pub(crate) struct DatasetMaker {
    sets: RefCell<Datasets>,
    notes: RefCell<Vec<(String, DatasetNote)>>,
    data_folder: PathBuf,
    rule_path: PathBuf,
    defaults: Defaults,
    /// What is wrong with the settings.
    warned: Vec<String>,
    /// Rows of all sets so far.
    rows: Cell<u64>,
}

/// What holds for datasets that say nothing themselves, and what all of them may have: Suricata's
/// `datasets.defaults` and `datasets.limits`, with its values.
struct Defaults {
    memcap: u64,
    hashsize: u32,
    rows_max: u64,
    all_rows_max: u64,
}

impl Defaults {
    /// Reads them; what can't be read is reported in Suricata's words.
    fn from_config(config: &Tree, warned: &mut Vec<String>) -> Defaults {
        let mut size = |key: &str, otherwise: u64, meant: &str| {
            let text = config.text(key)?;
            let known = config.size(key);
            if known.is_none() {
                let name = key.rsplit('.').next().unwrap_or(key);
                warned.push(format!(
                    "{name} value cannot be deduced: {text}, resetting to default{meant}"
                ));
            }
            Some(known.unwrap_or(otherwise))
        };
        let memcap = size("datasets.defaults.memcap", 0, "").unwrap_or(0);
        let hashsize = size("datasets.defaults.hashsize", 4096, ": 4096").unwrap_or(0);
        Defaults {
            memcap,
            hashsize: u32::try_from(hashsize).unwrap_or(u32::MAX),
            rows_max: config.size("datasets.limits.single-hashsize").unwrap_or(262_144),
            all_rows_max: config.size("datasets.limits.total-hashsizes").unwrap_or(67_108_864),
        }
    }
}

impl DatasetMaker {
    /// Files are looked for where the configuration says.
    pub(crate) fn new(config: &Tree) -> DatasetMaker {
        let mut warned = Vec::new();
        let defaults = Defaults::from_config(config, &mut warned);
        DatasetMaker {
            sets: RefCell::default(),
            notes: RefCell::default(),
            defaults,
            warned,
            rows: Cell::new(0),
            data_folder: config.text("default-data-dir").unwrap_or_default().into(),
            rule_path: config.text("default-rule-path").unwrap_or_default().into(),
        }
    }

    /// A file that is written too is in the data folder and need not be there yet; others are
    /// next to the rule file or in the folder of rules.
    fn path(&self, def: &DatasetDef, name: &str) -> PathBuf {
        if def.save.as_deref() == Some(name) {
            return self.data_folder.join(name);
        }
        let folder = if def.rule_folder.is_empty() { "." } else { &def.rule_folder };
        let sibling =
            if name.starts_with('/') { name.into() } else { Path::new(folder).join(name) };
        if sibling.exists() { sibling } else { self.rule_path.join(name) }
    }

    /// Makes one set.
    pub(crate) fn open(&self, def: &DatasetDef) -> Result<()> {
        let mut def = def.clone();
        if def.memcap == 0 {
            def.memcap = self.defaults.memcap;
        }
        if def.hashsize == 0 {
            def.hashsize = self.defaults.hashsize;
        }
        let def = &def;
        self.check_rows(def)?;
        let mut file = None;
        if let Some(name) = &def.load {
            let path = self.path(def, name);
            match operator_file::bytes(&path, NAMED_FILE_BYTES_MAX) {
                Ok(bytes) => file = Some((path.display().to_string(), bytes)),
                Err(_) if def.save.as_ref() == Some(name) => {}
                Err(source) => return Err(Error::Dataset { path, source }),
            }
        }
        let mut notes = Vec::new();
        let read = file.as_ref().map(|(path, bytes)| (path.as_str(), bytes.as_slice()));
        let is_made = self.sets.borrow_mut().open(def, read, &mut notes);
        let path = file.map(|(path, _)| path).unwrap_or_default();
        self.notes.borrow_mut().extend(notes.into_iter().map(|n| (path.clone(), n)));
        if is_made { Ok(()) } else { Err(Error::LargeDataset) }
    }

    /// Rules must not ask for tables without end.
    fn check_rows(&self, def: &DatasetDef) -> Result<()> {
        let rows = if def.hashsize == 0 { 4096 } else { u64::from(def.hashsize) };
        let all = self.rows.get().saturating_add(rows);
        let limits = &self.defaults;
        let said = if rows > limits.rows_max {
            format!(
                "hashsize {rows} in dataset '{}' exceeds configured 'single-hashsize' limit ({})",
                def.name, limits.rows_max
            )
        } else if all > limits.all_rows_max {
            format!(
                "hashsize {rows} in dataset '{}' exceeds configured 'total-hashsizes' limit ({}, \
                 in use {})",
                def.name,
                limits.all_rows_max,
                self.rows.get()
            )
        } else {
            self.rows.set(all);
            return Ok(());
        };
        for message in [said, format!("dataset {} creation failed", def.name)] {
            let fault = DatasetFault::Set;
            let note = DatasetNote { fault, subsystem: "datasets", message };
            self.notes.borrow_mut().push((String::new(), note));
        }
        Err(Error::DatasetRows)
    }

    /// The sets; what was found, and whether a run that demands rules without fault must end.
    pub(crate) fn finish(self, is_strict: bool) -> (Datasets, Vec<Diagnostic>, bool) {
        let warn = |m: String| finding("", Severity::Warning, "datasets", m);
        let mut said: Vec<Diagnostic> = self.warned.into_iter().map(warn).collect();
        for (path, note) in self.notes.into_inner() {
            let is_fatal = is_strict && note.fault == DatasetFault::Value;
            let severity = match note.fault {
                DatasetFault::Value if !is_strict => Severity::Warning,
                _ => Severity::Error,
            };
            said.push(finding(&path, severity, note.subsystem, note.message));
            if is_fatal {
                return (self.sets.into_inner(), said, true);
            }
        }
        (self.sets.into_inner(), said, false)
    }
}
