//! The keys of `falco.yaml` and of rule files, each with the type of its value: JSON schemas are made of them, and keys of a
//! configuration that are not among them are named. The keys are those of Falco 0.44.

use gabion_record::Tree;
use gabion_record::json::Json;

/// What the value of a key is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Flag,
    Integer,
    Number,
    Text,
    /// A text or a number: versions.
    Version,
    /// A list of texts, numbers or further lists.
    List,
    /// One of these texts.
    OneOf(&'static [&'static str]),
    /// Anything: what other programs read.
    Any,
}

use Kind::{Any, Flag, Integer, List, Number, OneOf, Text, Version};

/// The keys of `falco.yaml`. `[]` stands for each item of a list, `*` for a name that the user gives.
const CONFIGURATION: &[(&str, Kind)] = &[
    ("append_output[].extra_fields[]", Any),
    ("append_output[].extra_output", Text),
    ("append_output[].match.rule", Text),
    ("append_output[].match.source", Text),
    ("append_output[].match.tags", List),
    ("append_output[].suggested_output", Flag),
    ("base_syscalls.all", Flag),
    ("base_syscalls.custom_set", List),
    ("base_syscalls.enabled", Flag),
    ("base_syscalls.repair", Flag),
    ("buffer_format_base64", Flag),
    ("buffered_outputs", Flag),
    ("capture.default_duration", Integer),
    ("capture.enabled", Flag),
    ("capture.mode", OneOf(&["rules", "all_rules"])),
    ("capture.path_prefix", Text),
    ("config_files", Any),
    ("engine.kind", OneOf(&["modern_ebpf", "kmod", "replay", "nodriver"])),
    ("engine.kmod.buf_size_preset", Integer),
    ("engine.kmod.drop_failed_exit", Flag),
    ("engine.modern_ebpf.buf_size_preset", Integer),
    ("engine.modern_ebpf.cpus_for_each_buffer", Integer),
    ("engine.modern_ebpf.disable_iterators", Flag),
    ("engine.modern_ebpf.drop_failed_exit", Flag),
    ("engine.replay.capture_file", Text),
    ("falco_libs.snaplen", Integer),
    ("falco_libs.thread_table_auto_purging_interval_s", Integer),
    ("falco_libs.thread_table_auto_purging_thread_timeout_s", Integer),
    ("falco_libs.thread_table_size", Integer),
    ("file_output.enabled", Flag),
    ("file_output.filename", Text),
    ("file_output.keep_alive", Flag),
    ("grpc", Any),
    ("grpc_output", Any),
    ("http_output.ca_bundle", Text),
    ("http_output.ca_cert", Text),
    ("http_output.ca_path", Text),
    ("http_output.client_cert", Text),
    ("http_output.client_key", Text),
    ("http_output.compress_uploads", Flag),
    ("http_output.echo", Flag),
    ("http_output.enabled", Flag),
    ("http_output.insecure", Flag),
    ("http_output.keep_alive", Flag),
    ("http_output.max_consecutive_timeouts", Integer),
    ("http_output.mtls", Flag),
    ("http_output.url", Text),
    ("http_output.user_agent", Text),
    ("json_include_message_property", Flag),
    ("json_include_output_fields_property", Flag),
    ("json_include_output_property", Flag),
    ("json_include_tags_property", Flag),
    ("json_output", Flag),
    ("libs_logger.enabled", Flag),
    ("libs_logger.severity", Text),
    ("load_plugins", List),
    ("log_level", Text),
    ("log_stderr", Flag),
    ("log_syslog", Flag),
    ("metrics.convert_memory_to_mb", Flag),
    ("metrics.enabled", Flag),
    ("metrics.include_empty_values", Flag),
    ("metrics.interval", Text),
    ("metrics.jemalloc_stats_enabled", Flag),
    ("metrics.kernel_event_counters_enabled", Flag),
    ("metrics.kernel_event_counters_per_cpu_enabled", Flag),
    ("metrics.libbpf_stats_enabled", Flag),
    ("metrics.output_file", Text),
    ("metrics.output_rule", Flag),
    ("metrics.plugins_metrics_enabled", Flag),
    ("metrics.resource_utilization_enabled", Flag),
    ("metrics.rules_counters_enabled", Flag),
    ("metrics.state_counters_enabled", Flag),
    ("output_timeout", Integer),
    ("outputs_queue.capacity", Integer),
    ("plugins[].init_config", Any),
    ("plugins[].library_path", Text),
    ("plugins[].name", Text),
    ("plugins[].open_params", Text),
    ("plugins_hostinfo", Flag),
    ("priority", Text),
    ("program_output.enabled", Flag),
    ("program_output.keep_alive", Flag),
    ("program_output.program", Text),
    ("rule_matching", OneOf(&["first", "all"])),
    ("rules[].disable.rule", Text),
    ("rules[].disable.tag", Text),
    ("rules[].enable.rule", Text),
    ("rules[].enable.tag", Text),
    ("rules_file", Any),
    ("rules_files", List),
    ("stdout_output.enabled", Flag),
    ("syscall_event_drops.actions", List),
    ("syscall_event_drops.max_burst", Number),
    ("syscall_event_drops.rate", Number),
    ("syscall_event_drops.simulate_drops", Flag),
    ("syscall_event_drops.threshold", Number),
    ("syscall_event_timeouts.max_consecutives", Integer),
    ("syslog_output.enabled", Flag),
    ("time_format_iso_8601", Flag),
    ("watch_config_files", Flag),
    ("webserver.enabled", Flag),
    ("webserver.k8s_healthz_endpoint", Text),
    ("webserver.listen_address", Text),
    ("webserver.listen_port", Integer),
    ("webserver.prometheus_metrics_enabled", Flag),
    ("webserver.ssl_certificate", Text),
    ("webserver.ssl_enabled", Flag),
    ("webserver.threadiness", Integer),
];

/// What an override of a rule, macro or list says of a key.
const REPLACE: Kind = OneOf(&["append", "replace"]);

/// The keys of the items of a rule file: rules, macros, lists and versions are described as one.
const RULES: &[(&str, Kind)] = &[
    ("[].append", Flag),
    ("[].capture", Flag),
    ("[].capture_duration", Integer),
    ("[].condition", Text),
    ("[].desc", Text),
    ("[].enabled", Flag),
    ("[].exceptions[].comps", Any),
    ("[].exceptions[].fields", Any),
    ("[].exceptions[].name", Text),
    ("[].exceptions[].values", List),
    ("[].items", List),
    ("[].list", Text),
    ("[].macro", Text),
    ("[].output", Text),
    ("[].override.capture", REPLACE),
    ("[].override.capture_duration", REPLACE),
    ("[].override.condition", REPLACE),
    ("[].override.desc", REPLACE),
    ("[].override.enabled", REPLACE),
    ("[].override.exceptions", REPLACE),
    ("[].override.items", REPLACE),
    ("[].override.output", REPLACE),
    ("[].override.priority", REPLACE),
    ("[].override.skip-if-unknown-filter", REPLACE),
    ("[].override.tags", REPLACE),
    ("[].override.warn_evttypes", REPLACE),
    ("[].priority", Text),
    ("[].required_engine_version", Version),
    ("[].required_plugin_versions[].alternatives[].name", Text),
    ("[].required_plugin_versions[].alternatives[].version", Version),
    ("[].required_plugin_versions[].name", Text),
    ("[].required_plugin_versions[].version", Version),
    ("[].rule", Text),
    ("[].skip-if-unknown-filter", Flag),
    ("[].source", Text),
    ("[].tags", List),
    ("[].warn_evttypes", Flag),
];

/// The JSON schema of `falco.yaml` (`--config-schema`).
#[must_use]
pub fn configuration_schema() -> String {
    schema("falco.yaml", CONFIGURATION)
}

/// The JSON schema of rule files (`--rule-schema`).
#[must_use]
pub fn rule_schema() -> String {
    schema("rules", RULES)
}

fn schema(title: &str, keys: &[(&str, Kind)]) -> String {
    let mut json = Json::new();
    json.open();
    json.field_plain("$schema", "http://json-schema.org/draft-06/schema#");
    json.field_plain("title", title);
    write_node(&mut json, keys, "");
    json.close();
    json.into_line()
}

/// Writes the members of the schema of the value at a path.
fn write_node(json: &mut Json, keys: &[(&str, Kind)], path: &str) {
    if let Some((_, kind)) = keys.iter().find(|(key, _)| *key == path) {
        write_kind(json, *kind);
        return;
    }
    let items = format!("{path}[]");
    if keys.iter().any(|(key, _)| key.starts_with(&items)) {
        json.field_plain("type", "array");
        json.open_key("items");
        write_node(json, keys, &items);
        json.close();
        return;
    }
    json.field_plain("type", "object");
    json.boolean("additionalProperties", false);
    json.open_key("properties");
    let start = if path.is_empty() { String::new() } else { format!("{path}.") };
    let mut last = "";
    for rest in keys.iter().filter_map(|(key, _)| key.strip_prefix(&start)) {
        let name = rest.split(['.', '[']).next().unwrap_or_default();
        if name != last {
            json.open_key(name);
            write_node(json, keys, &format!("{start}{name}"));
            json.close();
            last = name;
        }
    }
    json.close();
}

fn write_kind(json: &mut Json, kind: Kind) {
    match kind {
        Flag => json.field_plain("type", "boolean"),
        Integer => json.field_plain("type", "integer"),
        Number => json.field_plain("type", "number"),
        Text => json.field_plain("type", "string"),
        List => json.field_plain("type", "array"),
        Version => {
            json.open_array_key("type");
            ["string", "number"].into_iter().for_each(|kind| json.item(kind));
            json.close_array();
        }
        OneOf(texts) => {
            json.field_plain("type", "string");
            json.open_array_key("enum");
            texts.iter().for_each(|text| json.item(text));
            json.close_array();
        }
        Any => {}
    }
}

/// Lines about keys of a configuration that Falco does not have: the outermost key of each.
pub(super) fn unknown_keys(config: &Tree) -> Vec<String> {
    let mut found = Vec::new();
    add_unknown(config, "", &mut found);
    found
}

fn add_unknown(node: &Tree, path: &str, found: &mut Vec<String>) {
    for (key, child) in &node.children {
        let at = match (node.is_sequence, path) {
            (true, path) => format!("{path}[]"),
            (false, "") => key.clone(),
            (false, path) => format!("{path}.{key}"),
        };
        let is_whole = |known: &str| known == at;
        let is_begun = |known: &str| {
            known.strip_prefix(at.as_str()).is_some_and(|rest| rest.starts_with(['.', '[']))
        };
        if CONFIGURATION.iter().any(|(known, _)| is_whole(known)) {
            continue;
        }
        if CONFIGURATION.iter().any(|(known, _)| is_begun(known)) {
            add_unknown(child, &at, found);
        } else {
            let line = format!("{at}: no such key: it has no effect");
            if !found.contains(&line) {
                found.push(line);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::falco::without_effect::KEYS;
    use crate::yaml::read_yaml_text;

    #[test]
    fn keys_are_in_order_and_those_without_effect_are_among_them() {
        for table in [CONFIGURATION, RULES] {
            assert!(table.is_sorted_by(|a, b| a.0 < b.0));
        }
        for (key, _, _) in KEYS {
            assert!(CONFIGURATION.iter().any(|(known, _)| known == key), "{key}");
        }
    }

    #[test]
    fn the_schemas_describe_nested_keys_and_lists() {
        // Every JSON text is a YAML text.
        let read = |text: String| read_yaml_text("schema", &text).unwrap();
        let config = read(configuration_schema());
        let engine = "properties.engine.properties";
        let text = |path: &str| config.text(path).unwrap_or_default();
        let file = format!("{engine}.replay.properties.capture_file.type");
        assert_eq!((text(&file), text(&format!("{engine}.kind.enum.2"))), ("string", "replay"));
        assert_eq!(text("additionalProperties"), "false");
        assert_eq!(text("properties.rules.items.properties.enable.properties.tag.type"), "string");
        let rules = read(rule_schema());
        let text = |path: &str| rules.text(path).unwrap_or_default();
        let versions = "items.properties.required_plugin_versions.items.properties";
        assert_eq!(text("type"), "array");
        assert_eq!(text(&format!("{versions}.alternatives.type")), "array");
        assert_eq!(text(&format!("{versions}.version.type.1")), "number");
    }

    #[test]
    fn a_key_that_does_not_exist_is_named_once() {
        let text = "json_outputs: true\nengine: {replay: {file: x}, kind: nodriver}\n\
                    rules: [{enable: {rule: a, name: b}}, {disable: {rule: c}, enable: {name: d}}]\n\
                    plugins: [{name: json, init_config: {a: {b: 1}}}]\n";
        let config = read_yaml_text("falco.yaml", text).unwrap();
        let found = unknown_keys(&config);
        let keys: Vec<&str> = found.iter().filter_map(|line| line.split(':').next()).collect();
        assert_eq!(keys, ["json_outputs", "engine.replay.file", "rules[].enable.name"]);
    }
}
