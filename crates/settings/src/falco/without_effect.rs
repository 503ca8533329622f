//! Keys of `falco.yaml` that ask for something that does not exist here or is always so: each that is set to another value
//! than its default is named once at the start, with the reason.

use super::read::texts;
use super::schema::unknown_keys;
use gabion_record::Tree;

/// Keys without effect: the key, Falco's default (0.44), and why.
pub(super) const KEYS: &[(&str, &str, &str)] = &[
    ("buffered_outputs", "false", "alerts are written as soon as they are found"),
    ("outputs_queue.capacity", "0", "alerts are written by the thread that finds them"),
    ("output_timeout", "2000", "only http_output waits for its receiver, in a thread of its own"),
    ("log_level", "info", "there is one level of log lines"),
    ("log_syslog", "true", "log lines go to standard error"),
    ("libs_logger.enabled", "false", "there is no further logger"),
    ("buffer_format_base64", "false", "evt.buffer is printed as text"),
    ("plugins_hostinfo", "true", "plugins are not loaded"),
    ("syscall_event_timeouts.max_consecutives", "1000", "a source without events is no fault"),
    ("engine.modern_ebpf.drop_failed_exit", "false", "failed calls are recorded"),
    ("engine.modern_ebpf.disable_iterators", "false", "what existed before is read from /proc"),
    ("http_output.insecure", "false", "certificates are always checked"),
    ("http_output.ca_path", "", "name one file with ca_cert or ca_bundle"),
    ("http_output.echo", "false", "answers are not printed"),
    ("http_output.compress_uploads", "false", "alerts are posted as they are"),
    ("http_output.keep_alive", "false", "each alert has a connection of its own"),
    ("http_output.max_consecutive_timeouts", "5", "a receiver that is gone stops nothing"),
    ("webserver.threadiness", "0", "one thread answers"),
    ("metrics.rules_counters_enabled", "true", "rules that alerted are always counted"),
    ("metrics.kernel_event_counters_enabled", "true", "events are always counted, by class"),
    ("metrics.libbpf_stats_enabled", "true", "programs in the kernel are not timed"),
    ("metrics.plugins_metrics_enabled", "true", "plugins are not loaded"),
    ("metrics.jemalloc_stats_enabled", "false", "there is another allocator"),
    ("metrics.include_empty_values", "false", "rules without alerts are left out"),
    ("falco_libs.thread_table_auto_purging_interval_s", "300", "threads go when they end"),
    ("falco_libs.thread_table_auto_purging_thread_timeout_s", "300", "threads go when they end"),
    ("base_syscalls.enabled", "true", "the base set is always recorded"),
];

/// Lines about keys without effect, and keys that do not exist.
pub(super) fn unsupported(config: &Tree) -> Vec<String> {
    let mut found = unknown_keys(config);
    for (key, default, why) in KEYS {
        if let Some(value) = config.text(key).filter(|value| value != default) {
            found.push(format!("{key}: {value}: has no effect: {why}"));
        }
    }
    for key in ["grpc", "grpc_output"] {
        if config.flag(&format!("{key}.enabled")) == Some(true) {
            found.push(format!("{key}: Falco itself has removed it"));
        }
    }
    for plugin in texts(config, "load_plugins").iter().filter(|name| *name != "container") {
        found.push(format!(
            "load_plugins: {plugin}: plugins are not loaded; the fields of container are built in"
        ));
    }
    if config.text("engine.kind") == Some("kmod") {
        found.push("engine.kind: kmod: BPF programs are used".to_string());
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::falco::apply_override;

    #[test]
    fn keys_without_effect_are_named_once_and_defaults_are_not() {
        let mut config = Tree::default();
        for (key, default, _) in KEYS {
            apply_override(&mut config, &format!("{key}={default}")).unwrap();
        }
        assert_eq!(unsupported(&config), [""; 0]);
        for option in ["buffered_outputs=true", "grpc.enabled=true", "load_plugins[]=json"] {
            apply_override(&mut config, option).unwrap();
        }
        let found = unsupported(&config);
        assert_eq!(found.len(), 3, "{found:?}");
        assert_eq!(
            found[0],
            "buffered_outputs: true: has no effect: alerts are written as soon as they are found"
        );
    }
}
