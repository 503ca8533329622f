//! What is reported of a configuration before a run, in Suricata's words (8.0.7, observed): values that
//! cannot be read, settings that mean nothing any more, combinations that end the run.

use crate::engine_log::EngineLog;
use crate::error::{Error, Result};
use crate::eve_options::{NO_TYPE, check_eve_options};
use crate::messages::Messages;
use crate::rules::stores as stores_files;
use crate::unknown_keys::unknown_keys_line;
use crate::values::check_values;
use gabion_flow::ExceptionPolicy;
use gabion_net::script::Severity;
use gabion_outputs::Outputs;
use gabion_record::Tree;
use gabion_rules::{RuleVars, Ruleset, Signature, SignatureFlags, VarFault};

impl EngineLog {
    /// Warns of settings of the file store without effect, and of rules that store files without it.
    pub fn report_file_store(&mut self, config: &Tree, rules: Option<&Ruleset>) {
        let store = config.get("outputs").and_then(|o| o.item("file-store"));
        // Files are stored at least as far as their streams are reassembled.
        if let Some(depth) = store.and_then(|s| s.size("stream-depth"))
            && (1..=config.size("stream.reassembly.depth").unwrap_or(0)).contains(&depth)
        {
            let said = format!(
                "file-store.stream-depth value {depth} has no effect since it's less than \
                 stream.reassembly.depth value."
            );
            self.warning("output-filestore", &said);
        }
        let stores = |s: &Signature| s.flags.has(SignatureFlags::FILESTORE);
        if rules.is_some_and(|set| set.signatures.iter().any(stores)) && !stores_files(config) {
            let said = "One or more rule(s) depends on the file-store output log which is not \
                        enabled. Enable the output \"file-store\".";
            self.warning("detect-filestore", said);
        }
    }
}

/// Reports settings that mean nothing any more or contradict each other; false when the run ends for one.
pub fn check_configuration(config: &Tree, is_inline: bool, log: &mut Messages<'_>) -> bool {
    if config.get("decoder.erspan.typeI.enabled").is_some() {
        log.warning(
            "decode-erspan",
            "ERSPAN Type I is no longer configurable and it is always enabled; ignoring \
             configuration setting.",
        );
    }
    report_sizes_of_protocols(config, log);
    let is_good = check_values(config, log) && has_one_anomaly_log(config, log);
    if is_good {
        report_exception_policy(config, is_inline, log);
    }
    is_good
}

/// What a run of the program's own verbs reports of a configuration: keys that nothing is made of, values whose defaults
/// hold, and `run-as`.
///
/// # Errors
/// When a value can't be used with which Suricata ends too.
pub fn check_settings(config: &Tree, say: &mut dyn FnMut(&str)) -> Result<()> {
    if let Some(said) = unknown_keys_line(config) {
        say(&said);
    }
    if config.get("run-as").is_some() {
        say("run-as has no effect here: start this as that user, or use gabion suricata");
    }
    let mut wrong = None;
    let mut report = |severity, _: &str, text: &str| {
        if matches!(severity, Severity::Error) {
            wrong.get_or_insert_with(|| text.to_owned());
        } else {
            say(text);
        }
    };
    if check_values(config, &mut Messages::new(&mut report)) {
        return Ok(());
    }
    Err(Error::RefusedValue { what: wrong.unwrap_or_default() })
}

/// Reports the policy that holds where none is set (`exception-policy`): one that drops means nothing to a sensor.
fn report_exception_policy(config: &Tree, is_inline: bool, log: &mut Messages<'_>) {
    let Some(text) = config.text("exception-policy") else { return };
    let policy = match ExceptionPolicy::from_name(text) {
        Some(ExceptionPolicy::DropFlow | ExceptionPolicy::DropPacket) if !is_inline => "ignore",
        Some(policy) => policy.name(),
        None => return,
    };
    log.info("exception-policy", &format!("master exception-policy set to: {policy}"));
}

/// Reports sizes of protocols that are none: their defaults hold.
fn report_sizes_of_protocols(config: &Tree, log: &mut Messages<'_>) {
    for protocol in gabion_proto::registry() {
        let name = protocol.config_name;
        for (key, default) in protocol.sizes {
            let path = format!("app-layer.protocols.{name}.{key}");
            let Some(text) = config.text(&path) else { continue };
            if config.size(&path).is_none() {
                let said =
                    format!("Invalid value {text} for {name}.{key}; defaulting to {default}");
                log.warning(name, &said);
            }
        }
    }
}

/// Anomalies are logged in one place.
fn has_one_anomaly_log(config: &Tree, log: &mut Messages<'_>) -> bool {
    let Some(outputs) = config.get("outputs") else { return true };
    let logs = outputs
        .items("eve-log")
        .filter(|eve| eve.flag("enabled") == Some(true))
        .filter_map(|eve| eve.get("types")?.item("anomaly"))
        .filter(|anomaly| anomaly.flag("enabled") != Some(false));
    if logs.count() <= 1 {
        return true;
    }
    log.error("output-json-anomaly", "only one 'anomaly' logger can be enabled");
    log.error("runmodes", "unable to initialize sub-module eve-log.anomaly");
    false
}

/// Reports which variables for rules can't be read; false when the run ends for one, as in Suricata also
/// without rules. `file` is the configuration's name in messages.
pub fn check_rule_variables(config: &Tree, file: &str, log: &mut Messages<'_>) -> bool {
    let faults = RuleVars::from_config(config).faults();
    let Some(VarFault { kind, name, value, subsystem, why }) = faults.first() else { return true };
    log.error(subsystem, why.trim());
    let said = format!(
        "failed to parse {kind} var \"{name}\" with value \"{value}\". Please check its syntax"
    );
    log.error("detect", &said);
    log.error(
        "suricata",
        &format!("basic {kind} vars test failed. Please check {file} for errors"),
    );
    false
}

/// Outputs that Suricata knows and that are not written here, in addition to kinds of files of EVE: a
/// configuration with them is right.
const KNOWN_OUTPUTS: [&str; 4] = ["syslog", "unified2-alert", "dns-log", "file-log"];

/// Reports what is wrong with outputs and their options; false when the run ends for it. Types of records
/// and outputs that nobody knows end a strict one (`-T`, `--init-errors-fatal`).
pub fn check_outputs(config: &Tree, is_strict: bool, log: &mut Messages<'_>) -> bool {
    let mut is_right = true;
    let checked = check_eve_options(config, &mut |module, text| {
        if is_strict && text.starts_with(NO_TYPE) {
            is_right = false;
            log.error(module, text);
        } else {
            log.warning(module, text);
        }
    });
    for (module, text) in checked.as_ref().err().into_iter().flatten() {
        log.error(module, text);
    }
    checked.is_ok() && are_outputs_written(config, is_strict, log) && is_right
}

/// Reports which outputs are not written, and which are not known; false when the run ends here: none is
/// left, or a strict one names one that nobody knows.
fn are_outputs_written(config: &Tree, is_strict: bool, log: &mut Messages<'_>) -> bool {
    let found = Outputs::survey(config);
    let is_known = |name: &str| name.starts_with("eve-log ") || KNOWN_OUTPUTS.contains(&name);
    let mut is_right = true;
    // A run that opens its outputs says so itself.
    for fault in found.faults.iter().filter(|_| is_strict) {
        log.error("output", fault);
        is_right = false;
    }
    for name in found.unsupported.iter().filter(|name| is_strict && !is_known(name)) {
        log.error("runmodes", &format!("No output module named {name}"));
        is_right = false;
    }
    let mut left = found.unsupported;
    left.retain(|name| !is_strict || is_known(name));
    if left.is_empty() {
        return is_right;
    }
    let names = left.join(", ");
    if found.supported == 0 {
        let said = format!(
            "not supported: {names}: no output is left that would be written: configure another, such \
             as eve-log with filetype: regular"
        );
        log.error("output", &said);
        return false;
    }
    log.warning("output", &format!("not supported, nothing is written: {names}"));
    is_right
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_of_our_own_verbs_names_settings_too() {
        let mut config = Tree::default();
        config.set("run-as.user", "nobody");
        config.set("packet-alert-max", "abc");
        config.set("nonsense", "x");
        let mut said = Vec::new();
        check_settings(&config, &mut |line| said.push(line.to_owned())).unwrap();
        let [keys, user, value] = said.as_slice() else { panic!("{said:?}") };
        assert!(keys.ends_with(": nonsense") && user.starts_with("run-as has no effect"));
        assert!(value.starts_with("Invalid value for packet-alert-max: \"abc\": "), "{value}");
        config.set("mpm-algo", "foo");
        let refused = check_settings(&config, &mut |_| ()).unwrap_err().to_string();
        assert!(
            refused.starts_with("configuration: Invalid value for mpm-algo: \"foo\": "),
            "{refused}"
        );
    }
}
