//! Reads the settings out of the tree of a configuration, with Falco's defaults.

use super::without_effect::unsupported;
use super::{
    BaseCalls, CaptureSettings, DropAction, DropSettings, EngineKind, FalcoSettings, FileOutput,
    HttpOutput, LiveBuffers, MetricSettings, ProgramOutput, WebSettings,
};
use crate::yaml::read_yaml_text;
use gabion_condition::rules::{AppendOutput, Matching, Priority, Selection};
use gabion_record::Tree;
use gabion_record::fields::events;
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

/// A configuration, and what it was read from.
#[derive(Debug, Default)]
pub struct FalcoConfiguration {
    /// All files, one over the other.
    pub tree: Tree,
    /// The files, and the folders of which all files are read.
    pub files: Vec<PathBuf>,
}

/// How a further file goes over what was read before it (`strategy` in `config_files`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Strategy {
    /// Lists are joined, everything else is replaced.
    Append,
    /// Keys of the first level are replaced as they are.
    Override,
    /// Keys of the first level that are there already stay.
    AddOnly,
}

impl Strategy {
    fn named(name: Option<&str>) -> Result<Strategy, ConfigFault> {
        match name {
            None | Some("append") => Ok(Strategy::Append),
            Some("override") => Ok(Strategy::Override),
            Some("add-only") => Ok(Strategy::AddOnly),
            Some(other) => Err(ConfigFault::Value(format!(
                "config_files: strategy '{other}' is not one of append, override, add-only"
            ))),
        }
    }
}

/// Reads a configuration file and the files that its `config_files` names; without a path the configuration is empty and
/// every key has its default.
///
/// # Errors
/// A file can't be read or is no YAML.
pub fn load_falco_configuration(path: Option<&Path>) -> Result<FalcoConfiguration, ConfigFault> {
    let Some(path) = path else { return Ok(FalcoConfiguration::default()) };
    let (mut tree, mut files) = (read_tree(path)?, vec![path.to_owned()]);
    for (name, strategy) in further_files(&tree)? {
        if name.is_dir() {
            files.push(name.clone());
        }
        for file in yaml_files(&name)? {
            merge(&mut tree, read_tree(&file)?, strategy);
            files.push(file);
        }
    }
    Ok(FalcoConfiguration { tree, files })
}

/// What `config_files` names: paths, or paths with their strategies.
fn further_files(config: &Tree) -> Result<Vec<(PathBuf, Strategy)>, ConfigFault> {
    let Some(node) = config.get("config_files") else { return Ok(Vec::new()) };
    if let Some(path) = &node.value {
        return Ok(vec![(PathBuf::from(path), Strategy::Append)]);
    }
    let mut found = Vec::new();
    for (_, item) in &node.children {
        let path = item.value.as_deref().or_else(|| item.text("path"));
        let path = path.ok_or_else(|| {
            ConfigFault::Value("config_files: an entry is a path, or has one".to_owned())
        })?;
        found.push((PathBuf::from(path), Strategy::named(item.text("strategy"))?));
    }
    Ok(found)
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

/// Puts a later file over an earlier one.
fn merge(into: &mut Tree, later: Tree, strategy: Strategy) {
    if strategy == Strategy::Append {
        return append(into, later);
    }
    for (key, value) in later.children {
        match into.child_mut(&key) {
            Some(known) if strategy == Strategy::Override => *known = value,
            Some(_) => {}
            None => into.children.push((key, value)),
        }
    }
}

/// Lists are joined, everything else is replaced.
fn append(into: &mut Tree, later: Tree) {
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
            Some(known) => append(known, value),
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

pub(super) fn texts(tree: &Tree, path: &str) -> Vec<String> {
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
        http: http(config)?,
        web: flag("webserver.enabled", false).then(|| web(config)),
        metrics: metrics(config)?,
        log_to_stderr: flag("log_stderr", true),
        capture: capture(config)?,
        drops: drops(config)?,
        watches_files: flag("watch_config_files", true),
        thread_table_size: config.number("falco_libs.thread_table_size").unwrap_or(262_144)
            as usize,
        base_calls: base_calls(config)?,
        live: live(config)?,
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

fn base_calls(config: &Tree) -> Result<BaseCalls, ConfigFault> {
    let mut calls = BaseCalls {
        repair: config.flag("base_syscalls.repair").unwrap_or(false),
        all: config.flag("base_syscalls.all").unwrap_or(false),
        ..BaseCalls::default()
    };
    for name in texts(config, "base_syscalls.custom_set") {
        let (to, name) = match name.strip_prefix('!') {
            Some(name) => (&mut calls.removed, name),
            None => (&mut calls.added, name.as_str()),
        };
        if events::types_of(name).is_none() {
            return Err(ConfigFault::Value(format!(
                "base_syscalls.custom_set: '{name}' is not a system call"
            )));
        }
        to.push(name.to_string());
    }
    Ok(calls)
}

fn live(config: &Tree) -> Result<LiveBuffers, ConfigFault> {
    let number = |path: &str, default: u64, most: u64| match config.text(path) {
        None => Ok(default),
        Some(text) => text.parse().ok().filter(|n| *n <= most).ok_or_else(|| {
            ConfigFault::Value(format!("{path}: '{text}' is not a number from 0 to {most}"))
        }),
    };
    let preset = number("engine.modern_ebpf.buf_size_preset", 4, 10)?.max(1);
    let cpus = number("engine.modern_ebpf.cpus_for_each_buffer", 2, 1 << 16)?;
    let snaplen = number("falco_libs.snaplen", 80, 65_535)?;
    Ok(LiveBuffers {
        cpus_per_ring: usize::try_from(cpus).unwrap_or(2),
        // Presets double from 1 MiB on (Falco 0.44).
        ring_bytes: (1 << 20) << (preset - 1),
        snaplen: u32::try_from(snaplen).unwrap_or(80),
    })
}

/// What the plugin `container` 0.7.1 suggests for the outputs of rules about system calls.
const SUGGESTED_OUTPUT: &str = "container_id=%container.id container_name=%container.name \
                                container_image_repository=%container.image.repository \
                                container_image_tag=%container.image.tag k8s_pod_name=%k8s.pod.name \
                                k8s_ns_name=%k8s.ns.name";

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
        let mut extra_output = item.text("extra_output").unwrap_or_default().to_string();
        if item.flag("suggested_output") == Some(true) {
            if !extra_output.is_empty() {
                extra_output.push(' ');
            }
            extra_output.push_str(SUGGESTED_OUTPUT);
        }
        AppendOutput {
            rule: item.text("match.rule").map(str::to_string),
            source: item.text("match.source").map(str::to_string),
            tags: texts(item, "match.tags"),
            extra_output,
            extra_fields,
        }
    });
    entries.collect()
}

fn capture(config: &Tree) -> Result<Option<CaptureSettings>, ConfigFault> {
    if config.flag("capture.enabled") != Some(true) {
        return Ok(None);
    }
    let all_rules = match config.text("capture.mode").unwrap_or("rules") {
        "rules" => false,
        "all_rules" => true,
        other => {
            let message = format!("capture.mode: '{other}' is not one of rules, all_rules");
            return Err(ConfigFault::Value(message));
        }
    };
    Ok(Some(CaptureSettings {
        path_prefix: config.text("capture.path_prefix").unwrap_or("/tmp/falco").into(),
        all_rules,
        duration_ms: config.number("capture.default_duration").unwrap_or(5_000),
    }))
}

fn http(config: &Tree) -> Result<Option<HttpOutput>, ConfigFault> {
    if config.flag("http_output.enabled") != Some(true) {
        return Ok(None);
    }
    let text =
        |key: &str| config.text(&format!("http_output.{key}")).filter(|text| !text.is_empty());
    let Some(url) = text("url") else {
        return Err(ConfigFault::Value("http_output: url is not set".to_string()));
    };
    let shown = match (config.flag("http_output.mtls"), text("client_cert"), text("client_key")) {
        (Some(true), Some(certificate), Some(key)) => Some((certificate.into(), key.into())),
        (Some(true), _, _) => {
            let message = "http_output: mtls: client_cert and client_key must be set";
            return Err(ConfigFault::Value(message.to_string()));
        }
        _ => None,
    };
    Ok(Some(HttpOutput {
        url: url.to_string(),
        user_agent: text("user_agent").unwrap_or("falcosecurity/falco").to_string(),
        authorities: text("ca_cert").or_else(|| text("ca_bundle")).map(PathBuf::from),
        shown,
    }))
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
        certificate: (config.flag("webserver.ssl_enabled") == Some(true))
            .then(|| text("ssl_certificate", "/etc/falco/falco.pem").into()),
    }
}

fn metrics(config: &Tree) -> Result<Option<MetricSettings>, ConfigFault> {
    if config.flag("metrics.enabled") != Some(true) {
        return Ok(None);
    }
    let interval = config.text("metrics.interval").unwrap_or("1h");
    let interval_s = seconds(interval).ok_or_else(|| {
        ConfigFault::Value(format!(
            "metrics: interval '{interval}' is not a time such as 1h or 30s"
        ))
    })?;
    Ok(Some(MetricSettings {
        interval_s,
        as_rule: config.flag("metrics.output_rule").unwrap_or(false),
        file: config.text("metrics.output_file").filter(|path| !path.is_empty()).map(PathBuf::from),
        has_host: config.flag("metrics.resource_utilization_enabled").unwrap_or(true),
        is_memory_in_mb: config.flag("metrics.convert_memory_to_mb").unwrap_or(true),
        has_cpus: config.flag("metrics.kernel_event_counters_per_cpu_enabled").unwrap_or(false),
        has_state: config.flag("metrics.state_counters_enabled").unwrap_or(true),
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
                ConfigFault::Value(format!("syscall_event_drops: {key} '{text}' is not a number"))
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
        assert_eq!(settings.unsupported, [""; 0]);
        assert!(settings.has_output && settings.has_fields && !settings.has_message);
        assert_eq!(settings.drops.actions, [DropAction::Log, DropAction::Alert]);
    }

    #[test]
    fn what_the_container_plugin_suggests_is_appended() {
        let text = "append_output:\n  - suggested_output: true\n    extra_output: x=%evt.num\n";
        let all = settings(text).unwrap().append_output;
        assert!(all[0].extra_output.starts_with("x=%evt.num container_id=%container.id "));
        assert_eq!(
            settings("append_output:\n  - suggested_output: false\n").unwrap().append_output[0]
                .extra_output,
            ""
        );
    }

    #[test]
    fn outputs_and_captures_have_their_settings() {
        let text = "http_output: {enabled: true, url: 'https://r.example/x', ca_cert: a.pem}\n\
                    capture: {enabled: true, mode: all_rules, path_prefix: /var/x}\n\
                    base_syscalls: {custom_set: [execve, '!ptrace'], all: true}\n\
                    engine: {modern_ebpf: {buf_size_preset: 2}}\n";
        let settings_of = settings(text).unwrap();
        assert_eq!(settings_of.unsupported, [""; 0]);
        let http = settings_of.http.unwrap();
        assert_eq!((&*http.url, http.shown), ("https://r.example/x", None));
        assert_eq!(http.authorities, Some("a.pem".into()));
        let capture = settings_of.capture.unwrap();
        assert!(capture.all_rules && capture.duration_ms == 5_000);
        let base = settings_of.base_calls;
        assert!(base.all && base.added == ["execve"] && base.removed == ["ptrace"]);
        assert_eq!(settings_of.live.ring_bytes, 2 << 20);
        for (wrong, words) in [
            ("http_output: {enabled: true}\n", "url is not set"),
            ("http_output: {enabled: true, url: 'http://x', mtls: true}\n", "client_cert"),
            ("capture: {enabled: true, mode: some}\n", "rules, all_rules"),
            ("base_syscalls: {custom_set: [opennat]}\n", "is not a system call"),
            ("engine: {modern_ebpf: {buf_size_preset: 11}}\n", "from 0 to 10"),
        ] {
            assert!(settings(wrong).unwrap_err().contains(words), "{wrong}");
        }
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
        let later = || read_yaml_text("b", "rules_files: [b]\npriority: error\nnew: 1\n").unwrap();
        merge(&mut config, later(), Strategy::AddOnly);
        assert_eq!(texts(&config, "rules_files"), ["a"]);
        assert_eq!((config.text("priority"), config.text("new")), (Some("debug"), Some("1")));
        merge(&mut config, later(), Strategy::Append);
        assert_eq!(texts(&config, "rules_files"), ["a", "b"]);
        assert_eq!(config.text("priority"), Some("error"));
        merge(&mut config, later(), Strategy::Override);
        assert_eq!(texts(&config, "rules_files"), ["b"]);
        assert_eq!(seconds("2s"), Some(2));
        assert_eq!(seconds("0s"), None);
    }

    #[test]
    fn further_files_have_strategies_and_all_are_named() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        std::fs::create_dir(at("more")).unwrap();
        std::fs::write(at("more/a.yaml"), "priority: error\n").unwrap();
        std::fs::write(at("more/notes.txt"), "not: read\n").unwrap();
        std::fs::write(at("only.yaml"), "priority: notice\njson_output: true\n").unwrap();
        let (more, only) = (at("more").display().to_string(), at("only.yaml"));
        let text = |strategy: &str| {
            let only = only.display();
            format!(
                "priority: debug\nconfig_files:\n  - {more}\n  - path: {only}\n    strategy: {strategy}\n"
            )
        };
        std::fs::write(at("falco.yaml"), text("add-only")).unwrap();
        let config = load_falco_configuration(Some(&at("falco.yaml"))).unwrap();
        assert_eq!(config.tree.text("priority"), Some("error"));
        assert_eq!(config.tree.text("json_output"), Some("true"));
        let files = ["falco.yaml", "more", "more/a.yaml", "only.yaml"].map(at);
        assert_eq!(config.files, files);
        std::fs::write(at("falco.yaml"), text("sideways")).unwrap();
        let fault = load_falco_configuration(Some(&at("falco.yaml"))).unwrap_err();
        assert!(fault.to_string().contains("'sideways'"), "{fault}");
    }
}
