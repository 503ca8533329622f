//! What scripts need of the program: limits of the configuration, a voice, times as text.

use gabion_net::script::{OutputScript, ScriptLimits, ScriptSetup, Severity, Voice};
use gabion_outputs::timestamp::Stamp;
use gabion_record::Tree;
use gabion_runtime::limits::NAMED_FILE_BYTES_MAX;
use gabion_runtime::operator_file;
use std::cell::RefCell;
use std::path::Path;

/// Settings for the scripts of a configuration, whose messages go to this voice.
pub fn script_setup(config: &Tree, voice: Voice) -> ScriptSetup {
    ScriptSetup {
        limits: ScriptLimits::from_config(config),
        voice,
        outputs: Vec::new(),
        module_path: String::new(),
        log_folder: config.text("default-log-dir").unwrap_or_default().to_string(),
        stamp,
    }
}

thread_local! {
    static STAMP: RefCell<Stamp> = RefCell::new(Stamp::new());
}

/// An event time as EVE writes it, or as Suricata's older logs do.
fn stamp(ts_ns: u64, is_iso: bool) -> String {
    let mut out = Vec::new();
    STAMP
        .with_borrow_mut(|s| if is_iso { s.iso(ts_ns, &mut out) } else { s.fast(ts_ns, &mut out) });
    String::from_utf8_lossy(&out).into_owned()
}

fn node(config: &Tree) -> Option<&Tree> {
    let node = config.get("outputs")?.item("lua")?;
    (node.flag("enabled") == Some(true)).then_some(node)
}

/// Loads the scripts that are outputs of this configuration, which write into that folder. One that
/// can't be loaded is reported by the setup's voice and left out.
pub fn load_output_scripts(mut setup: ScriptSetup, config: &Tree, folder: &Path) -> ScriptSetup {
    setup.log_folder = folder.display().to_string();
    let path = node(config).and_then(|n| n.text("path"));
    setup.module_path = path.unwrap_or_default().to_string();
    setup.outputs = outputs(config, &setup);
    setup
}

fn outputs(config: &Tree, setup: &ScriptSetup) -> Vec<OutputScript> {
    let Some(node) = node(config) else { return Vec::new() };
    let folder = Path::new(node.text("scripts-dir").unwrap_or(""));
    let names = node.get("scripts").map(|t| t.children.as_slice()).unwrap_or(&[]);
    let mut out = Vec::new();
    for name in names.iter().filter_map(|(_, n)| n.value.as_deref()) {
        let path = folder.join(name).display().to_string();
        let source = operator_file::bytes(Path::new(&path), NAMED_FILE_BYTES_MAX)
            .map_err(|e| format!("couldn't load file: {e}"));
        let load = |source| OutputScript::load(&path, source, setup).map_err(|e| e.to_string());
        match source.and_then(load) {
            Ok(script) => out.push(script),
            Err(e) => {
                setup.voice.send_message(Severity::Error, "lua-output", &format!("{path}: {e}"))
            }
        }
    }
    out
}
