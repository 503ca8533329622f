//! Reads the settings out of the tree of a configuration, with Falco's defaults.

use super::{
    DropAction, DropSettings, EngineKind, FalcoSettings, FileOutput, MetricSettings, ProgramOutput,
    WebSettings,
};
use crate::yaml::read_yaml_text;
use gabion_condition::rules::{AppendOutput, Matching, Priority, Selection};
use gabion_record::Tree;
use gabion_runtime::operator_file;
use std::path::{Path, PathBuf};
use thiserror::Error;

/// What is wrong with a configuration.
#[derive(Debug, Error)]
pub enum ConfigFault {
    /// A file can't be read.
    #[error("{}: {why}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// Why.
        why: String,
    },
    /// A file is no YAML.
    #[error("{0}")]
    Yaml(crate::Error),
    /// A value is not one that its key can have.
    #[error("{0}")]
    Value(String),
}

/// Reads a configuration file and the files that its `config_files` names; without a path the configuration is empty and
/// every key has its default.
///
/// # Errors
/// A file can't be read or is no YAML.
pub fn load_falco_configuration(path: Option<&Path>) -> Result<Tree, ConfigFault> {
    let Some(path) = path else { return Ok(Tree::default()) };
    let mut config = read_tree(path)?;
    let names: Vec<PathBuf> =
        texts(&config, "config_files").into_iter().map(PathBuf::from).collect();
    for name in names {
        for file in yaml_files(&name)? {
            merge(&mut config, read_tree(&file)?);
        }
    }
    Ok(config)
}

fn read_tree(path: &Path) -> Result<Tree, ConfigFault> {
    let unreadable = |error: std::io::Error| ConfigFault::Unreadable {
        path: path.to_owned(),
        why: error.to_string(),
    };
    let bytes =
        operator_file::bytes(path, crate::limits::CONFIGURATION_BYTES_MAX).map_err(unreadable)?;
    let text = String::from_utf8_lossy(&bytes);
    let mut tree = read_yaml_text(&path.display().to_string(), &text).map_err(ConfigFault::Yaml)?;
    expand(&mut tree);
    Ok(tree)
}

/// The YAML files that a name stands for: itself, or those of a folder in the order of their names.
fn yaml_files(name: &Path) -> Result<Vec<PathBuf>, ConfigFault> {
    if !name.is_dir() {
        return Ok(if name.exists() { vec![name.to_owned()] } else { Vec::new() });
    }
    let unreadable = |error: std::io::Error| ConfigFault::Unreadable {
        path: name.to_owned(),
        why: error.to_string(),
    };
    let mut files = Vec::new();
    for entry in std::fs::read_dir(name).map_err(unreadable)? {
        let path = entry.map_err(unreadable)?.path();
        if path.extension().is_some_and(|end| end == "yaml" || end == "yml") {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}

/// Puts a later file over an earlier one: lists are joined, everything else is replaced.
fn merge(into: &mut Tree, later: Tree) {
    if into.is_sequence && later.is_sequence {
        for (_, item) in later.children {
            into.children.push((into.children.len().to_string(), item));
        }
        return;
    }
    if later.value.is_some() || later.is_sequence || into.is_sequence {
        *into = later;
        return;
    }
    for (key, value) in later.children {
        match into.child_mut(&key) {
            Some(known) => merge(known, value),
            None => into.children.push((key, value)),
        }
    }
}

/// Replaces `${NAME}` by the variable of the environment.
fn expand(tree: &mut Tree) {
    if let Some(value) = tree.value.as_mut().filter(|value| value.contains("${")) {
        let mut out = String::new();
        let mut rest = value.as_str();
        while let Some((before, after)) = rest.split_once("${") {
            out.push_str(before);
            match after.split_once('}') {
                Some((name, after)) => {
                    out.push_str(&std::env::var(name).unwrap_or_default());
                    rest = after;
                }
                None => {
                    out.push_str("${");
                    rest = after;
                }
            }
        }
        out.push_str(rest);
        *value = out;
    }
    tree.children.iter_mut().for_each(|(_, child)| expand(child));
}

fn texts(tree: &Tree, path: &str) -> Vec<String> {
    let Some(node) = tree.get(path) else { return Vec::new() };
    match &node.value {
        Some(value) => vec![value.clone()],
        None => node.children.iter().filter_map(|(_, item)| item.value.clone()).collect(),
    }
}

/// Reads all settings.
///
/// # Errors
/// A value is not one that its key can have.
pub fn read_falco_settings(config: &Tree) -> Result<FalcoSettings, ConfigFault> {
    let flag = |path: &str, default: bool| config.flag(path).unwrap_or(default);
    let priority = match config.text("priority") {
        None => Priority::Debug,
        Some(text) => Priority::parse(text)
            .ok_or_else(|| ConfigFault::Value(format!("Unknown priority \"{text}\"")))?,
    };
    let matching = match config.text("rule_matching").unwrap_or("first") {
        "first" => Matching::First,
        "all" => Matching::All,
        other => {
            return Err(ConfigFault::Value(format!("Unknown rule matching strategy \"{other}\"")));
        }
    };
    let output = |name: &str| flag(&format!("{name}.enabled"), false);
    let file = output("file_output").then(|| FileOutput {
        path: config.text("file_output.filename").unwrap_or_default().into(),
        keep_alive: flag("file_output.keep_alive", false),
    });
    if file.as_ref().is_some_and(|file| file.path.as_os_str().is_empty()) {
        return Err(ConfigFault::Value("file_output: filename is not set".to_string()));
    }
    let program = output("program_output").then(|| ProgramOutput {
        command: config.text("program_output.program").unwrap_or_default().to_string(),
        keep_alive: flag("program_output.keep_alive", false),
    });
    if program.as_ref().is_some_and(|program| program.command.is_empty()) {
        return Err(ConfigFault::Value("program_output: program is not set".to_string()));
    }
    let mut rules_files = texts(config, "rules_files");
    if rules_files.is_empty() {
        rules_files = texts(config, "rules_file");
    }
    Ok(FalcoSettings {
        rules_files,
        selections: selections(config)?,
        engine: engine(config)?,
        is_iso_8601: flag("time_format_iso_8601", false),
        priority,
        is_json: flag("json_output", false),
        has_output: flag("json_include_output_property", true),
        has_message: flag("json_include_message_property", false),
        has_fields: flag("json_include_output_fields_property", true),
        has_tags: flag("json_include_tags_property", true),
        matching,
        append_output: append_output(config),
        to_stdout: output("stdout_output"),
        to_syslog: output("syslog_output"),
        file,
        program,
        web: flag("webserver.enabled", false).then(|| web(config)),
        metrics: metrics(config)?,
        log_to_stderr: flag("log_stderr", true),
        drops: drops(config)?,
        watches_files: flag("watch_config_files", true),
        thread_table_size: config.number("falco_libs.thread_table_size").unwrap_or(262_144)
            as usize,
        all_calls: flag("base_syscalls.all", false),
        unsupported: unsupported(config),
    })
}

fn selections(config: &Tree) -> Result<Vec<Selection>, ConfigFault> {
    let mut selections = Vec::new();
    for (_, item) in config.get("rules").map_or(&[][..], |list| &list.children) {
        for (key, is_on) in [("enable", true), ("disable", false)] {
            let Some(node) = item.child(key) else { continue };
            if let Some(rule) = node.text("rule") {
                selections.push(Selection::Rule(rule.to_string(), is_on));
            } else if let Some(tag) = node.text("tag") {
                selections.push(Selection::Tag(tag.to_string(), is_on));
            } else {
                return Err(ConfigFault::Value(format!(
                    "rules: {key}: neither rule nor tag is set"
                )));
            }
        }
    }
    Ok(selections)
}

fn engine(config: &Tree) -> Result<EngineKind, ConfigFault> {
    match config.text("engine.kind").unwrap_or("modern_ebpf") {
        "modern_ebpf" | "kmod" => Ok(EngineKind::Live),
        "nodriver" => Ok(EngineKind::None),
        "replay" => match config.text("engine.replay.capture_file") {
            Some(file) => Ok(EngineKind::Replay(file.into())),
            None => Err(ConfigFault::Value(
                "engine.kind is 'replay' but engine.replay.capture_file is not set".to_string(),
            )),
        },
        kind => Err(ConfigFault::Value(format!(
            "engine.kind '{kind}' is not a valid kind: one of modern_ebpf, kmod, replay, nodriver"
        ))),
    }
}

fn append_output(config: &Tree) -> Vec<AppendOutput> {
    let items = config.get("append_output").filter(|node| node.is_sequence);
    let items = items.map_or(&[][..], |list| &list.children);
    let entries = items.iter().map(|(_, item)| {
        let mut extra_fields = Vec::new();
        for (_, field) in item.get("extra_fields").map_or(&[][..], |list| &list.children) {
            match &field.value {
                Some(name) => extra_fields.push((name.clone(), name.clone())),
                None => {
                    extra_fields.extend(field.children.iter().filter_map(|(name, template)| {
                        Some((name.clone(), template.value.clone()?))
                    }))
                }
            }
        }
        AppendOutput {
            rule: item.text("match.rule").map(str::to_string),
            source: item.text("match.source").map(str::to_string),
            tags: texts(item, "match.tags"),
            extra_output: item.text("extra_output").unwrap_or_default().to_string(),
            extra_fields,
        }
    });
    entries.collect()
}

fn web(config: &Tree) -> WebSettings {
    let text = |key: &str, default: &str| {
        config.text(&format!("webserver.{key}")).unwrap_or(default).to_string()
    };
    WebSettings {
        // Falco listens on all addresses; here the operator says so.
        address: text("listen_address", "127.0.0.1"),
        port: config
            .number("webserver.listen_port")
            .and_then(|n| u16::try_from(n).ok())
            .unwrap_or(8765),
        health_path: text("k8s_healthz_endpoint", "/healthz"),
        has_metrics: config.flag("webserver.prometheus_metrics_enabled").unwrap_or(false),
    }
}

fn metrics(config: &Tree) -> Result<Option<MetricSettings>, ConfigFault> {
    if config.flag("metrics.enabled") != Some(true) {
        return Ok(None);
    }
    let interval = config.text("metrics.interval").unwrap_or("1h");
    let interval_s = seconds(interval).ok_or_else(|| {
        ConfigFault::Value(format!("metrics: interval '{interval}' is no time such as 1h or 30s"))
    })?;
    Ok(Some(MetricSettings {
        interval_s,
        as_rule: config.flag("metrics.output_rule").unwrap_or(false),
        file: config.text("metrics.output_file").filter(|path| !path.is_empty()).map(PathBuf::from),
    }))
}

/// Reads a time such as `1h`, `30m`, `2s` or `100ms`.
fn seconds(text: &str) -> Option<u64> {
    let split = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let number: u64 = text.get(..split)?.parse().ok()?;
    let factor = match text.get(split..)?.trim() {
        "ms" => return Some(number.div_ceil(1_000).max(1)),
        "s" | "" => 1,
        "m" => 60,
        "h" => 3_600,
        "d" => 86_400,
        _ => return None,
    };
    number.checked_mul(factor).filter(|n| *n > 0)
}

fn drops(config: &Tree) -> Result<DropSettings, ConfigFault> {
    let number = |key: &str, default: f64| -> Result<f64, ConfigFault> {
        match config.text(&format!("syscall_event_drops.{key}")) {
            None => Ok(default),
            Some(text) => text.parse().map_err(|_| {
                ConfigFault::Value(format!("syscall_event_drops: {key} '{text}' is no number"))
            }),
        }
    };
    let mut actions = Vec::new();
    for action in texts(config, "syscall_event_drops.actions") {
        actions.push(match action.as_str() {
            "ignore" => DropAction::Ignore,
            "log" => DropAction::Log,
            "alert" => DropAction::Alert,
            "exit" => DropAction::Exit,
            other => {
                let message = format!("syscall event drop action \"{other}\" is not valid");
                return Err(ConfigFault::Value(message));
            }
        });
    }
    if actions.is_empty() {
        actions = vec![DropAction::Log, DropAction::Alert];
    }
    if actions.contains(&DropAction::Ignore) {
        for (action, word) in [(DropAction::Log, "log"), (DropAction::Alert, "alert")] {
            if actions.contains(&action) {
                return Err(ConfigFault::Value(format!(
                    "syscall event drop action \"{word}\" does not make sense with the \"ignore\" action"
                )));
            }
        }
    }
    let threshold = number("threshold", 0.1)?;
    if !(0.0..=1.0).contains(&threshold) {
        let message = "syscall event drops threshold must be a double in the range [0, 1]";
        return Err(ConfigFault::Value(message.to_string()));
    }
    Ok(DropSettings {
        threshold,
        actions,
        rate: number("rate", 0.033_33)?,
        max_burst: number("max_burst", 1.0)?,
        simulate: config.flag("syscall_event_drops.simulate_drops").unwrap_or(false),
    })
}

/// Keys that ask for what does not exist here.
fn unsupported(config: &Tree) -> Vec<String> {
    let mut found = Vec::new();
    let mut note = |is_asked: bool, text: String| {
        if is_asked {
            found.push(text);
        }
    };
    let is_on = |path: &str| config.flag(path) == Some(true);
    note(is_on("http_output.enabled"), "http_output: alerts are not sent by HTTP".to_string());
    note(
        is_on("grpc.enabled") || is_on("grpc_output.enabled"),
        "grpc: Falco itself has removed it".to_string(),
    );
    note(is_on("capture.enabled"), "capture: alerts do not start captures".to_string());
    for plugin in texts(config, "load_plugins").iter().filter(|name| *name != "container") {
        let text = format!(
            "load_plugins: {plugin}: plugins are not loaded; the fields of container are built in"
        );
        note(true, text);
    }
    let engine = config.text("engine.kind");
    note(engine == Some("kmod"), "engine.kind: kmod: BPF programs are used".to_string());
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(text: &str) -> Result<FalcoSettings, String> {
        let tree = read_yaml_text("falco.yaml", text).unwrap();
        read_falco_settings(&tree).map_err(|fault| fault.to_string())
    }

    #[test]
    fn keys_that_are_absent_have_falcos_defaults() {
        let settings = settings("").unwrap();
        assert_eq!(settings.priority, Priority::Debug);
        assert_eq!(settings.engine, EngineKind::Live);
        assert!(settings.has_output && settings.has_fields && !settings.has_message);
        assert_eq!(settings.drops.actions, [DropAction::Log, DropAction::Alert]);
    }

    #[test]
    fn wrong_values_are_refused_in_falcos_words() {
        let message = |text: &str| settings(text).unwrap_err();
        assert!(
            message("syscall_event_drops:\n  threshold: -1\n")
                .contains("must be a double in the range")
        );
        assert!(
            message("syscall_event_drops:\n  actions: [ignore, log]\n")
                .contains("action \"log\" does not make sense with the \"ignore\" action")
        );
        assert!(message("rule_matching: some\n").contains("Unknown rule matching strategy"));
    }

    #[test]
    fn later_files_join_lists_and_replace_the_rest() {
        let mut config = read_yaml_text("a", "rules_files: [a]\npriority: debug\n").unwrap();
        merge(&mut config, read_yaml_text("b", "rules_files: [b]\npriority: error\n").unwrap());
        assert_eq!(texts(&config, "rules_files"), ["a", "b"]);
        assert_eq!(config.text("priority"), Some("error"));
        assert_eq!(seconds("2s"), Some(2));
        assert_eq!(seconds("0s"), None);
    }
}
