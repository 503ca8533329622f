//! The rules of the house over this repository: one test a rule, so that each fails by its name.

use gabion_tidy::{Fault, arrows, documents, limits, listing, manifests, protocols, sources, tree};
use std::process::Command;

/// Fails with every place that breaks the rule.
fn hold(faults: Vec<Fault>) {
    let count = faults.len();
    assert!(faults.is_empty(), "{count} places break the rule:\n{}", listing(faults));
}

fn page() -> String {
    std::fs::read_to_string(tree::root().join(arrows::PAGE)).unwrap()
}

#[test]
fn files_open_with_what_they_hold_and_have_no_forbidden_words() {
    hold(tree::files(&tree::root()).iter().flat_map(sources::check).collect());
}

#[test]
fn crates_use_whom_the_architecture_says() {
    let out = Command::new(env!("CARGO"))
        .args(["metadata", "--no-deps", "--offline", "--format-version", "1"])
        .current_dir(tree::root())
        .output()
        .unwrap();
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    let metadata = serde_json::from_slice(&out.stdout).unwrap();
    let there = arrows::read_metadata(&metadata);
    assert!(there.len() > 5, "crates are found: {there:?}");
    hold(arrows::check(&arrows::read_table(&page()), &there));
}

#[test]
fn dependencies_have_reasons_and_one_place_for_versions() {
    let files = tree::files(&tree::root());
    let mut faults = Vec::new();
    for file in files.iter().filter(|file| file.path.ends_with("Cargo.toml")) {
        match file.path.as_str() {
            "Cargo.toml" => faults.extend(manifests::reasons(file)),
            path if path.starts_with("fuzz/") => {} // a workspace of its own
            _ => faults.extend(manifests::member(file)),
        }
    }
    hold(faults);
}

#[test]
fn unsafe_code_stands_where_the_architecture_says() {
    hold(manifests::unsafe_code(&tree::files(&tree::root()), &arrows::read_table(&page())));
}

#[test]
fn a_protocol_is_one_folder_and_one_line() {
    let files = tree::files(&tree::root());
    assert!(protocols::folders(&files).len() >= 2, "protocols are found");
    hold(protocols::check(&files));
}

#[test]
fn limits_stand_in_their_tables() {
    hold(limits::outside(&tree::files(&tree::root())));
}

#[test]
fn limits_that_lose_something_are_counted_and_reached() {
    hold(limits::uncounted(&tree::files(&tree::root())));
}

#[test]
fn documents_point_to_what_is_there() {
    let root = tree::root();
    let files = tree::files(&root);
    let documents = files.iter().filter(|file| file.path.ends_with(".md"));
    hold(
        documents
            .flat_map(|f| documents::dead_links(f, &|path| root.join(path).exists()))
            .collect(),
    );
}
