//! Falco's own tests of its rule loader, and the shipped rule files: what each reports, and the conditions and events of
//! each rule (Falco's engine 0.63.0).

mod corpus;

use gabion_condition::rules::{LoadResult, Loader, Settings, describe_all};
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::Path;

/// Tests of `rule-loader.yaml` that pass. The number may only rise.
const LOADER_FLOOR: usize = 59;
/// Rules of the shipped files whose compiled condition and events are the same. The number may only rise.
const DESCRIBED_FLOOR: usize = 93;

#[test]
fn falcos_tests_of_its_loader_pass() {
    let test = "falcos_tests_of_its_loader_pass";
    let Some(path) = corpus::corpus(test, "falco-testing/rule-loader.yaml") else { return };
    let tests = corpus::yaml(&std::fs::read_to_string(path).unwrap());
    let tests = tests.as_array().unwrap();
    let mut failed = Vec::new();
    for test in tests {
        if let Err(reason) = run_steps(test["steps"].as_array().unwrap()) {
            failed.push(format!("{}: {reason}", test["name"]));
        }
    }
    let passed = tests.len() - failed.len();
    assert!(passed >= LOADER_FLOOR, "{passed} of {} pass:\n{}", tests.len(), failed.join("\n"));
}

fn run_steps(steps: &[Value]) -> Result<(), String> {
    let mut loader = Loader::new(Settings::default());
    let mut result = LoadResult::default();
    let check = |holds: bool, what: String| if holds { Ok(()) } else { Err(what) };
    for step in steps {
        let text = |key: &str| step[key].as_str().unwrap_or_default();
        if let Some(rules) = step.get("load") {
            result = loader.load(text("name"), rules.as_str().unwrap());
            let wanted = step["success"].as_bool().unwrap();
            let messages: Vec<&String> = result.errors.iter().map(|e| &e.message).collect();
            check(
                result.is_successful() == wanted,
                format!("success is not {wanted}: {messages:?}"),
            )?;
        } else if step.get("schema_validation").is_some() {
            let is_valid = text("schema_validation") == "validation_ok";
            let warnings = &result.schema_warnings;
            check(warnings.is_empty() == is_valid, format!("schema: {warnings:?}"))?;
        } else if step.get("warning_contains").is_some() || step.get("error_contains").is_some() {
            let is_warning = step.get("warning_contains").is_some();
            let messages = if is_warning { &result.warnings } else { &result.errors };
            let part = text(if is_warning { "warning_contains" } else { "error_contains" });
            let is_there = messages.iter().any(|message| message.message.contains(part));
            let all: Vec<&String> = messages.iter().map(|m| &m.message).collect();
            check(is_there == step["present"].as_bool().unwrap(), format!("{part:?} in {all:?}"))?;
        } else if let Some(wanted) = step.get("has_warnings").and_then(Value::as_bool) {
            check(result.warnings.is_empty() != wanted, format!("warnings {:?}", result.warnings))?;
        } else if let Some(wanted) = step.get("enabled_rules").and_then(Value::as_u64) {
            let enabled = loader.rules().enabled() as u64;
            check(enabled == wanted, format!("{enabled} rules are enabled"))?;
        } else if step.get("compiled_condition").is_some() {
            let compiled = loader.rules().described().compiled_condition(text("rule"));
            let wanted = text("compiled_condition");
            check(compiled.as_deref() == Some(wanted), format!("{compiled:?} is not {wanted}"))?;
        } else if step.get("compiled_output").is_some() {
            let rules = loader.rules().rules();
            let output = rules.iter().find(|r| r.name == text("rule")).map(|r| r.output.text());
            check(output == Some(text("compiled_output")), format!("output {output:?}"))?;
        } else if let Some(index) = step.get("described_rule_index").and_then(Value::as_u64) {
            let all: Value = serde_json::from_str(&describe_all(loader.rules())).unwrap();
            let info = &all["rules"][index as usize]["info"][text("info_key")];
            check(*info == step["equals"], format!("{info} is not {}", step["equals"]))?;
        } else {
            return Err(format!("unknown step {step}"));
        }
    }
    Ok(())
}

fn load(loader: &mut Loader, path: &Path) -> LoadResult {
    loader.load(&path.display().to_string(), &std::fs::read_to_string(path).unwrap())
}

#[test]
fn shipped_files_load_with_falcos_warnings() {
    let test = "shipped_files_load_with_falcos_warnings";
    let Some(folder) = corpus::corpus(test, "falco-rules") else { return };
    let expected = std::fs::read_to_string(folder.join("expected-load.tsv")).unwrap();
    let (mut wrong, mut files) = (Vec::new(), 0);
    for line in expected.lines().skip(1) {
        let columns: Vec<&str> = line.split('\t').collect();
        let [file, successful, errors, warnings] = columns[..] else {
            panic!("four columns: {line}")
        };
        files += 1;
        let mut loader = Loader::new(Settings::default());
        let result = load(&mut loader, &folder.join(file));
        let counts = |messages: &[gabion_condition::rules::Message]| {
            let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
            messages.iter().for_each(|m| *counts.entry(m.code.name()).or_default() += 1);
            let texts: Vec<String> =
                counts.iter().map(|(code, n)| format!("{code} x{n}")).collect();
            if texts.is_empty() { "-".to_string() } else { texts.join(" ") }
        };
        let found =
            (result.is_successful().to_string(), counts(&result.errors), counts(&result.warnings));
        if found != (successful.to_string(), errors.to_string(), warnings.to_string()) {
            let messages: Vec<_> = result.errors.iter().chain(&result.warnings).take(5).collect();
            wrong.push(format!("{file}: {found:?} instead of {warnings}: {messages:#?}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert_eq!(files, 12);
}

#[test]
fn shipped_rules_have_falcos_conditions_and_events() {
    let test = "shipped_rules_have_falcos_conditions_and_events";
    let Some(path) = corpus::corpus(test, "scap/shipped-rules-described.json.zst") else { return };
    let Some(folder) = corpus::corpus(test, "falco-rules") else { return };
    let json = zstd::stream::decode_all(std::fs::File::open(path).unwrap()).unwrap();
    let expected: Value = serde_json::from_slice(&json).unwrap();
    let mut loader = Loader::new(Settings::default());
    for file in ["falco_rules.yaml", "falco-incubating_rules.yaml", "falco-sandbox_rules.yaml"] {
        assert!(load(&mut loader, &folder.join(file)).is_successful(), "{file}");
    }
    let text = describe_all(loader.rules());
    let found: Value =
        serde_json::from_str(&text).unwrap_or_else(|e| panic!("{e}: {}", &text[..300]));
    let (mut same, mut wrong) = (0, Vec::new());
    for kind in ["rules", "macros", "lists"] {
        let wanted = expected[kind].as_array().unwrap();
        assert_eq!(wanted.len(), found[kind].as_array().unwrap().len(), "{kind}");
        for wanted in wanted {
            let name = &wanted["info"]["name"];
            let found = found[kind].as_array().unwrap().iter().find(|f| f["info"]["name"] == *name);
            let found = found.unwrap_or_else(|| panic!("no {kind} {name}"));
            let differing = differences(wanted, found);
            if differing.is_empty() {
                same += usize::from(kind == "rules");
            } else {
                wrong.push(format!("{kind} {name}: {}", differing.join("; ")));
            }
        }
    }
    assert!(wrong.is_empty(), "{} differ:\n{}", wrong.len(), wrong.join("\n"));
    assert!(same >= DESCRIBED_FLOOR, "{same} rules are the same");
}

/// What differs in the description of an item; the order of texts does not count.
fn differences(wanted: &Value, found: &Value) -> Vec<String> {
    let sorted = |value: &Value| {
        let mut texts: Vec<String> = value
            .as_array()
            .into_iter()
            .flatten()
            .map(|v| v.as_str().unwrap_or_default().to_string())
            .collect();
        texts.sort();
        texts.dedup();
        texts
    };
    let mut differing = Vec::new();
    let details = wanted["details"].as_object().unwrap();
    for (key, wanted) in details {
        let found = &found["details"][key];
        let is_same =
            if wanted.is_array() { sorted(wanted) == sorted(found) } else { wanted == found };
        if !is_same {
            differing.push(format!("{key}: {found} instead of {wanted}"));
        }
    }
    for (key, wanted) in wanted["info"].as_object().unwrap() {
        if found["info"][key] != *wanted {
            differing.push(format!("info {key}: {} instead of {wanted}", found["info"][key]));
        }
    }
    differing
}

/// The nine older files name no `evt.dir` once they are migrated, load, and warn of it no more.
#[test]
fn migrated_files_name_no_direction() {
    let test = "migrated_files_name_no_direction";
    let Some(folder) = corpus::corpus(test, "falco-rules") else { return };
    let expected = std::fs::read_to_string(folder.join("expected-load.tsv")).unwrap();
    let files = expected.lines().filter_map(|line| line.split('\t').next());
    let mut migrated_files = 0;
    for file in files.filter(|file| file.contains('/')) {
        let text = std::fs::read_to_string(folder.join(file)).unwrap();
        let migrated = gabion_condition::migrate_rules(&text);
        assert_eq!(migrated.left, Vec::<usize>::new(), "{file}");
        assert_eq!(migrated.text.lines().count(), text.lines().count(), "{file}");
        let mut loader = Loader::new(Settings::default());
        let result = loader.load(file, &migrated.text);
        assert!(result.is_successful(), "{file}: {:?}", result.errors);
        assert!(result.warnings.iter().all(|w| !w.message.contains("evt.dir")), "{file}");
        migrated_files += 1;
    }
    assert_eq!(migrated_files, 9);
}
