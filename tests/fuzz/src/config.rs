//! Configurations: reads any text as a YAML file of Suricata or Slips.

use crate::seeds::Seeds;
use std::sync::OnceLock;
use tempfile::TempDir;

/// Folder of the file with the text.
static FOLDER: OnceLock<TempDir> = OnceLock::new();

/// Reads the text as a configuration file, with all settings of the engines.
pub fn yaml(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    // Includes would read files of the machine.
    if text.contains("include") {
        return;
    }
    let folder =
        FOLDER.get_or_init(|| tempfile::tempdir().expect("a temporary folder can be created"));
    let file = folder.path().join("any.yaml");
    std::fs::write(&file, text.as_bytes()).expect("the temporary folder can be written");
    let read = gabion_settings::yaml::read_yaml_file(&file, &mut |_| ());
    let Ok(tree) = read else { return };
    let _ = gabion_flow::FlowConfig::from_tree(&tree);
    let _ = gabion_flow::StreamConfig::from_tree(&tree, false);
    let _ = gabion_flow::DefragConfig::from_tree(&tree);
    let _ = gabion_packet::DecodeConfig::from_tree(&tree);
    let _ = gabion_rules::RuleVars::from_config(&tree);
    let _ = gabion_behavior::Settings::from_tree(&tree);
    let _ = gabion_behavior::catalog::not_used(&tree);
    for protocol in gabion_proto::registry() {
        let _ = (protocol.configure)(
            tree.get("app-layer.protocols").and_then(|t| t.get(protocol.config_name)),
        );
    }
}

/// Small configurations of each kind, and those of the corpus.
pub fn seeds(seeds: &Seeds) -> Vec<Vec<u8>> {
    let mut all: Vec<Vec<u8>> = [
        "%YAML 1.1\n---\n",
        "%YAML 1.1\n---\nvars:\n  address-groups:\n    HOME_NET: \"[10.0.0.0/8]\"\n  port-groups:\n    HTTP_PORTS: \"80\"\n",
        "%YAML 1.1\n---\nstream:\n  memcap: 64mb\n  midstream: true\n  reassembly:\n    depth: 1mb\n    memcap: 256mb\n",
        "%YAML 1.1\n---\napp-layer:\n  protocols:\n    http:\n      enabled: yes\n      libhtp:\n        default-config:\n          request-body-limit: 100kb\n    dns:\n      tcp:\n        enabled: yes\n        detection-ports:\n          dp: 53\n",
        "%YAML 1.1\n---\noutputs:\n  - eve-log:\n      enabled: yes\n      filetype: regular\n      types:\n        - alert\n        - http:\n            extended: yes\n",
        "%YAML 1.1\n---\na: &x [1, 2]\nb: *x\nc: |\n  text\n  more\nd: >-\n  folded\n",
        "parameters:\n  time_window_width: 3600\n  client_ips: [10.0.0.0/8, fc00::/7]\ndetection:\n  evidence_detection_threshold: 0.25\nDisabledAlerts:\n  disabled_detections: [DGA_NXDOMAINS]\nanomaly_detection_https:\n  training_hours: 2\n",
        "%YAML 1.1\n---\nhost-os-policy:\n  windows: [0.0.0.0/0]\n  linux: [10.0.0.0/8, \"2001:db8::/32\"]\ndefrag:\n  max-frags: 65535\n",
    ]
    .iter()
    .map(|text| text.as_bytes().to_vec())
    .collect();
    if let Some(corpus) = &seeds.corpus {
        let tests = std::fs::read_dir(corpus.join("suricata-verify/tests"));
        let mut files: Vec<_> =
            tests.into_iter().flatten().flatten().map(|e| e.path().join("suricata.yaml")).collect();
        files.sort();
        files.push(corpus.join("flows/slips-data/slips.yaml"));
        all.extend(files.iter().filter_map(|f| std::fs::read(f).ok()).filter(|t| t.len() < 32_000));
    }
    all
}
