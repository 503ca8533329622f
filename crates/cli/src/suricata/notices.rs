//! What is said of a configuration before a run, in the peer's words (8.0.7, observed): values that
//! cannot be read, settings that mean nothing any more, combinations that end the run.

use super::EngineLog;
use gabion_record::Tree;

/// Says what is wrong; false when the run ends here.
pub(crate) fn check(config: &Tree, log: &mut EngineLog) -> bool {
    if config.get("decoder.erspan.typeI.enabled").is_some() {
        log.warning(
            "decode-erspan",
            "ERSPAN Type I is no longer configurable and it is always enabled; ignoring \
             configuration setting.",
        );
    }
    ftp(config, log);
    has_user(config, log) && has_one_anomaly_log(config, log)
}

fn ftp(config: &Tree, log: &mut EngineLog) {
    for (key, default) in [("memcap", 0), ("max-tx", 1024), ("max-line-length", 4096)] {
        let path = format!("app-layer.protocols.ftp.{key}");
        let Some(text) = config.text(&path) else { continue };
        if config.size(&path).is_none() {
            let said = format!("Invalid value {text} for ftp.{key}; defaulting to {default}");
            log.warning("ftp", &said);
        }
    }
}

/// Privileges are not dropped here; a configuration that asks for it must say for whom.
fn has_user(config: &Tree, log: &mut EngineLog) -> bool {
    let Some(node) = config.get("run-as").filter(|n| !n.children.is_empty()) else { return true };
    if node.text("user").is_some_and(|u| !u.is_empty()) {
        return true;
    }
    log.error(
        "privs",
        "no user name was provided - ensure it is specified either in the configuration file \
         (run-as.user) or in command-line arguments (--user)",
    );
    false
}

/// Anomalies are logged in one place.
fn has_one_anomaly_log(config: &Tree, log: &mut EngineLog) -> bool {
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

/// Names the files of reputations that are read.
pub(crate) fn reputation(config: &Tree, log: &mut EngineLog) {
    if config.text("reputation-categories-file").is_none() {
        return;
    }
    let base = std::path::Path::new(config.text("default-reputation-path").unwrap_or(""));
    for (_, item) in config.get("reputation-files").map_or(&[][..], |t| &t.children) {
        if let Some(name) = &item.value {
            let said = format!("Loading reputation file: {}", base.join(name).display());
            log.info("reputation", &said);
        }
    }
}
