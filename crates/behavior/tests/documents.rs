//! `docs/detections.md` is what the detectors say of themselves; `UPDATE=1` writes it anew.

use gabion_behavior::detect::ALL;
use std::fmt::Write;
use std::path::Path;

/// Text without the line ends and blanks that a literal was broken at.
fn flat(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn page() -> String {
    let mut page = String::from(
        "# Detections\n\nWhat `gabion read INPUT… --behavior` finds in logs of flows. This page is \
         generated from the detectors themselves;\nits types, thresholds and texts follow the peer \
         (Slips 1.1), where it has them. Where ours decides otherwise, the test that\nsays so is named \
         after the peer's defect in the detector's file.\n\nA *window* is one hour of event time \
         (`parameters.time_window_width`). Evidence of a window adds up, threat level by\nconfidence \
         (info 0, low 0.2, medium 0.5, high 0.8, critical 1); at `detection.evidence_detection_threshold` \
         × minutes of the\nwindow (0.25 × 60 = 15) it becomes an alert. *At the 1st, 10th, 100th … time* \
         means that repeats of the same thing in\na window are said with growing distance.\n\n\
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
