//! `docs/detections.md` is made of the detectors' own descriptions; `UPDATE=1` writes it again.

use gabion_behavior::catalog::ALL;
use gabion_behavior::catalog::{Use, keys, use_of};
use std::fmt::Write;
use std::path::Path;

/// Text without the line ends and blanks that a literal was broken at.
fn flat(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn page() -> String {
    let mut page = String::from(
        "# Detections\n\nThis page lists what `gabion read INPUT… --behavior` finds in logs of flows and in captures. It is \
         generated from the detectors themselves;\nits types, thresholds and texts follow Slips 1.1, where it has them. Where Gabion decides otherwise, a comment\nat a test in the detector's file has the number of the [defect of Slips](slips-defects.md).\n\nA *window* is one hour of event time \
         (`parameters.time_window_width`). Evidence of a window adds up, threat level by\nconfidence \
         (info 0, low 0.2, medium 0.5, high 0.8, critical 1); at `detection.evidence_detection_threshold` \
         × minutes of the\nwindow (0.25 × 60 = 15) it becomes an alert. *At the 1st, 10th, 100th … time* \
         means that repeats of the same thing in\na window are reported at growing intervals.\n\n\
         | evidence | ATT&CK | when | level; confidence | settings |\n|---|---|---|---|---|\n",
    );
    for (_, about) in ALL {
        let names: Vec<String> = about.types.iter().map(|t| format!("`{}`", t.name)).collect();
        let mut techniques: Vec<&str> = about.types.iter().map(|t| t.technique).collect();
        techniques.sort_unstable();
        techniques.dedup();
        let settings: Vec<String> = about.settings.iter().map(|s| format!("`{s}`")).collect();
        let _ = writeln!(
            page,
            "| {} | {} | {} | {} | {} |",
            names.join(" "),
            techniques.join(" "),
            flat(about.condition),
            flat(about.level),
            settings.join(" ")
        );
    }
    page
}

#[test]
fn the_page_of_detections_is_what_the_detectors_say() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/detections.md");
    let page = page();
    if std::env::var_os("UPDATE").is_some() {
        std::fs::write(&path, &page).unwrap();
    }
    let kept = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(kept == page, "docs/detections.md is not what the detectors say: run with UPDATE=1");
}

/// Every defect of Slips has a row, and every test that a row names is there.
#[test]
fn the_page_of_defects_names_tests_that_are_there() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let page = std::fs::read_to_string(root.join("docs/slips-defects.md")).unwrap();
    let rows: Vec<Vec<&str>> = page
        .lines()
        .filter(|l| l.starts_with("| D"))
        .map(|l| l.split('|').map(|c| c.trim().trim_matches('`')).collect())
        .collect();
    let numbers: Vec<String> = rows.iter().map(|r| r[1].to_owned()).collect();
    assert_eq!(numbers, (1..=48).map(|n| format!("D{n}")).collect::<Vec<_>>());
    for row in rows.iter().filter(|r| !r[4].is_empty()) {
        let text = std::fs::read_to_string(root.join("crates").join(row[4])).unwrap();
        let test = format!("fn {}()", row[3]);
        let at =
            text.find(&test).unwrap_or_else(|| panic!("{}: {test} is not in {}", row[1], row[4]));
        let before: String = text[..at].lines().rev().take(3).collect();
        assert!(before.contains("#[test]"), "{}: {test} is no test", row[1]);
    }
}

/// Each detector has at least three tests of its own, in its file or next to it: where it reports evidence, where it
/// just does not, and where input lies to it. In addition each runs through the scripts of `src/hostile.rs`,
/// which fails for a detector without one.
#[test]
fn every_detector_has_its_cases() {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let hostile = std::fs::read_to_string(source.join("hostile.rs")).unwrap();
    for (module, _) in ALL {
        let text = std::fs::read_to_string(source.join(format!("detect/{module}.rs"))).unwrap();
        // Many tests are in a file next to it.
        let separate = std::fs::read_to_string(source.join(format!("detect/{module}/tests.rs")));
        let tests = (text + &separate.unwrap_or_default()).matches("#[test]").count();
        assert!(tests >= 3, "detect/{module}.rs: {tests} tests");
        assert!(hostile.contains(&format!("(\"{module}\", \"")), "{module} has no hostile script");
    }
}

/// The page of the configuration is the table that runs use.
#[test]
fn the_page_of_the_configuration_is_the_table() {
    let mut page = String::from(
        "# The configuration of Slips\n\nWhat Gabion does with each key of `slips.yaml` when `gabion read --behavior -c slips.yaml` reads it. A key that ends with a dot stands\nfor the rest of its section. Keys that are not known are named at \
         the start of a run. This page is generated.\n\n| key | default | use |\n|---|---|---|\n",
    );
    for (key, becomes) in keys() {
        let _ = match becomes {
            Use::Setting(row) => {
                writeln!(page, "| `{key}` | `{}` | {} |", row.default, flat(row.text))
            }
            Use::Files(what) => writeln!(page, "| `{key}` | | {what} |"),
            Use::Unused(why) => writeln!(page, "| `{key}` | | not used: {why} |"),
        };
    }
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/slips-yaml.md");
    if std::env::var_os("UPDATE").is_some() {
        std::fs::write(&path, &page).unwrap();
    }
    let kept = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(kept == page, "docs/slips-yaml.md is not the table: run with UPDATE=1");
}

/// A setting that a detector names is a key that a run knows: one that is not would be called unknown though it is
/// used.
#[test]
fn settings_of_detectors_are_known_keys() {
    for (module, about) in ALL {
        for setting in about.settings {
            let is_known = match setting.strip_suffix('*') {
                Some(section) => keys().any(|(key, _)| key.starts_with(section)),
                None => matches!(use_of(setting), Some(Use::Setting(_) | Use::Files(_))),
            };
            assert!(
                is_known,
                "{module}: {setting}: give it a row in settings.rs or settings_keys.rs"
            );
        }
    }
}
