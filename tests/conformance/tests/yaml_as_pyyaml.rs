//! Differential test: every test description and configuration of the shared tests is parsed as by
//! PyYAML's safe loader. The test is skipped if Python, PyYAML or the tests are absent.

use std::path::PathBuf;
use std::process::Command;

use gabion_conformance::corpus;
use gabion_conformance::verify::case::find_all;
use gabion_conformance::verify::yaml::Node;
use serde_json::{Map, Value};

/// Prints one JSON value per file; dates as text, keys as text.
const LOADER: &str = r#"
import json, sys, yaml, datetime
def plain(v):
    if isinstance(v, dict): return {str(k): plain(x) for k, x in v.items()}
    if isinstance(v, list): return [plain(x) for x in v]
    if isinstance(v, (datetime.date, datetime.datetime)): return str(v)
    return v
for path in sys.stdin.read().split("\n"):
    if not path: continue
    try: print(json.dumps(plain(yaml.load(open(path), yaml.CSafeLoader if hasattr(yaml, "CSafeLoader") else yaml.SafeLoader))))
    except yaml.YAMLError: print('"refused"')
"#;

fn json(node: &Node) -> Value {
    match node {
        Node::Null => Value::Null,
        Node::Bool(value) => Value::from(*value),
        Node::Int(value) => Value::from(*value),
        Node::Float(value) => Value::from(*value),
        Node::Str(text) | Node::Time(text) => Value::from(text.as_str()),
        Node::List(items) => Value::from(items.iter().map(json).collect::<Vec<_>>()),
        Node::Map(entries) => Value::Object(
            entries
                .iter()
                .map(|(key, value)| (key.python_str(), json(value)))
                .collect::<Map<_, _>>(),
        ),
    }
}

#[test]
fn descriptions_read_as_in_pyyaml() {
    let has_pyyaml = Command::new("python3").args(["-c", "import yaml"]).output();
    if !has_pyyaml.is_ok_and(|output| output.status.success()) {
        eprintln!("skipped: no PyYAML here");
        return;
    }
    let Ok(tests) = find_all(&corpus().join("suricata-verify/tests")) else {
        eprintln!("skipped: no shared tests");
        return;
    };
    let paths: Vec<PathBuf> = tests
        .iter()
        .flat_map(|(_, folder)| [folder.join("test.yaml"), folder.join("suricata.yaml")])
        .filter(|path| path.exists())
        .collect();
    let list = tempfile::NamedTempFile::new().unwrap();
    let names: Vec<_> = paths.iter().map(|path| path.to_string_lossy()).collect();
    std::fs::write(list.path(), names.join("\n")).unwrap();
    let output = Command::new("python3")
        .args(["-c", LOADER])
        .stdin(std::fs::File::open(list.path()).unwrap())
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let lines: Vec<_> = std::str::from_utf8(&output.stdout).unwrap().lines().collect();
    assert_eq!(lines.len(), paths.len());
    let mut different = Vec::new();
    for (path, line) in paths.iter().zip(lines) {
        let wanted: Value = serde_json::from_str(line).unwrap();
        let text = String::from_utf8_lossy(&std::fs::read(path).unwrap()).into_owned();
        let found = Node::parse(&text).map_or_else(|_| Value::from("refused"), |node| json(&node));
        if found != wanted {
            different.push(path.display().to_string());
        }
    }
    assert!(different.is_empty(), "{} differ: {different:#?}", different.len());
}
