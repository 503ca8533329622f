//! What scripts need of the program: limits of the configuration, a voice, times as text.

use crate::suricata::EngineLog;
use gabion_net::{OutputScript, ScriptLimits, ScriptSetup, Severity, Voice};
use gabion_outputs::timestamp::Stamp;
use gabion_record::Tree;
use std::cell::RefCell;
use std::path::Path;

/// Settings for the scripts of a configuration; messages go to standard error.
pub(crate) fn setup(config: &Tree) -> ScriptSetup {
    ScriptSetup {
        limits: ScriptLimits::from_config(config),
        voice: Voice::new(|severity, who, text| match severity {
            Severity::Info | Severity::Debug => {}
            Severity::Error | Severity::Warning | Severity::Notice => {
                eprintln!("gabion: {who}: {text}");
            }
            Severity::Print => eprintln!("{text}"),
        }),
        outputs: Vec::new(),
        module_path: String::new(),
        log_folder: config.text("default-log-dir").unwrap_or_default().to_string(),
        stamp,
    }
}

thread_local! {
    static STAMP: RefCell<Stamp> = RefCell::new(Stamp::new());
}

/// An event time as EVE writes it, or as the peer's older logs do.
fn stamp(ts_ns: u64, is_iso: bool) -> String {
    let mut out = Vec::new();
    STAMP.with_borrow_mut(|s| match is_iso {
        true => s.iso(ts_ns, &mut out),
        false => s.fast(ts_ns, &mut out),
    });
    String::from_utf8_lossy(&out).into_owned()
}

fn node(config: &Tree) -> Option<&Tree> {
    let node = config.get("outputs")?.item("lua")?;
    (node.flag("enabled") == Some(true)).then_some(node)
}

/// Where output scripts look for modules.
pub(crate) fn module_path(config: &Tree) -> String {
    node(config).and_then(|n| n.text("path")).unwrap_or_default().to_string()
}

/// The scripts that are outputs.
pub(crate) fn outputs(config: &Tree, log: &mut EngineLog) -> Vec<OutputScript> {
    let Some(node) = node(config) else { return Vec::new() };
    let folder = Path::new(node.text("scripts-dir").unwrap_or(""));
    let names = node.get("scripts").map(|t| t.children.as_slice()).unwrap_or(&[]);
    let mut out = Vec::new();
    for name in names.iter().filter_map(|(_, n)| n.value.as_deref()) {
        let path = folder.join(name).display().to_string();
        let source = std::fs::read(&path).map_err(|e| format!("couldn't load file: {e}"));
        let setup =
            ScriptSetup { module_path: module_path(config), ..crate::rules::scripts(config, log) };
        match source.and_then(|source| OutputScript::load(&path, source, &setup)) {
            Ok(script) => out.push(script),
            Err(e) => log.error("lua-output", &format!("{path}: {e}")),
        }
    }
    out
}
