//! Checks the layout of protocols: a protocol is one folder in `proto` and one line of `protocols!`
//! in its `lib.rs`.
//!
//! Counts the lines outside of a protocol's folder that name it. There may be one: the line of
//! `protocols!`, which declares the module too. Tests may name the protocols they test, and a
//! protocol may use another by name (mail bodies are MIME in every protocol). The library of
//! scripts has one file per protocol, as scripts use objects of protocols by Suricata's names.

use crate::Fault;
use crate::counts::{is_source, work};
use crate::tree::File;
use std::collections::BTreeSet;

const SRC: &str = "crates/proto/src/";
const SCRIPT_LIBRARY: &str = "crates/net/src/script/library/";

/// The protocols: folders of `proto` whose `mod.rs` has a `PROTOCOL`.
#[must_use]
pub fn folders(files: &[File]) -> BTreeSet<String> {
    let mods = files.iter().filter(|file| file.text.contains("PROTOCOL: &"));
    mods.filter_map(|file| file.path.strip_prefix(SRC)?.strip_suffix("/mod.rs"))
        .filter(|name| !name.contains('/'))
        .map(str::to_owned)
        .collect()
}

/// Each protocol has exactly one line in the registry, and no crate other than `proto` names it.
#[must_use]
pub fn check(files: &[File]) -> Vec<Fault> {
    let mut faults = Vec::new();
    let registry = format!("{SRC}lib.rs");
    let folders = folders(files);
    for name in &folders {
        let entry = format!("{name}: PROTOCOL;");
        let lines = files
            .iter()
            .filter(|file| file.path == registry)
            .flat_map(|file| file.text.lines())
            .filter(|line| line.trim() == entry)
            .count();
        if lines != 1 {
            let what = format!("`{entry}` occurs {lines} times instead of once");
            faults.push(Fault::new(&registry, 0, what));
        }
    }
    for file in files.iter().filter(|file| is_elsewhere(&file.path)) {
        for (at, line) in file.text.lines().enumerate() {
            for name in folders.iter().filter(|name| names(line, name)) {
                let what = format!("names the protocol {name} outside its folder and the registry");
                faults.push(Fault::new(&file.path, at + 1, what));
            }
        }
    }
    faults
}

/// Whether a file is a source of another crate, or one of `proto` outside of the protocols.
fn is_elsewhere(path: &str) -> bool {
    let is_source = path.starts_with("crates/") && path.contains("/src/") && path.ends_with(".rs");
    let is_source = is_source && !path.starts_with(SCRIPT_LIBRARY);
    let of_proto = path.strip_prefix(SRC);
    let is_shared = of_proto.is_none_or(|below| !below.contains('/'));
    is_source && is_shared
}

/// Places whose names of protocols are not ours: lists that Suricata or Zeek wrote, and what scripts call objects.
const FOREIGN_LISTS: &[&str] = &[
    // Suricata's numbers of protocols.
    "crates/outputs/src/kinds/alert_debug.rs",
    // Suricata's names of inspections, and the states that it does not list.
    "crates/rules/src/analysis/engine_names.rs",
    "crates/rules/src/analysis/firewall.rs",
    // Names of IP protocols.
    "crates/rules/src/keywords/ip_protocols.rs",
    // Zeek's names of logs and services.
    "crates/record/src/logs.rs",
    // Names of detectors, and IANA's names of services.
    "crates/behavior/src/hostile.rs",
    "crates/behavior/src/services.rs",
    SCRIPT_LIBRARY,
];

/// The crates that know protocols by their tables only.
const BY_TABLE: &[&str] = &[
    "crates/behavior/",
    "crates/net/",
    "crates/outputs/",
    "crates/record/",
    "crates/rules/",
    "crates/sensor/",
    "crates/settings/",
];

/// Lines of code outside `proto` with a protocol's name in quotes, alone, in bytes or in a path of its configuration:
/// what such a line decides should be a field of the protocol's table.
#[must_use]
pub fn quoted(files: &[File]) -> Vec<Fault> {
    let names: Vec<String> = names_of_protocols(files).iter().flat_map(|n| forms(n)).collect();
    let sources = files.iter().filter(|f| {
        is_source(&f.path)
            && BY_TABLE.iter().any(|folder| f.path.starts_with(folder))
            && !FOREIGN_LISTS.iter().any(|list| f.path.starts_with(list))
    });
    let mut found = Vec::new();
    for file in sources {
        let lines = work(&file.text).lines().enumerate();
        for (at, line) in lines.filter(|(_, line)| !line.trim_start().starts_with("//")) {
            if let Some(name) = names.iter().find(|name| line.contains(name.as_str())) {
                let what = format!("has the protocol's name as {name}: a field of its table?");
                found.push(Fault::new(&file.path, at + 1, what));
            }
        }
    }
    found
}

/// How a line of code may name a protocol. Bytes in quotes have the first form, too.
fn forms(name: &str) -> [String; 4] {
    [
        format!("\"{name}\""),
        format!("\"{name}.mem"),
        format!("protocols.{name}."),
        format!("protocols.{name}\""),
    ]
}

/// The names of protocols: of their folders, and those that their tables give them.
fn names_of_protocols(files: &[File]) -> BTreeSet<String> {
    let mut names = folders(files);
    for file in files.iter().filter(|f| f.path.starts_with(SRC)) {
        for start in ["of_requests(\"", "eve_name: \""] {
            let after = file.text.split(start).skip(1);
            names.extend(after.filter_map(|rest| rest.split('"').next()).map(str::to_owned));
        }
    }
    names
}

/// Whether a line of code has a path into the protocol's folder.
fn names(line: &str, name: &str) -> bool {
    let code = line.split("//").next().unwrap_or_default();
    [
        format!("gabion_proto::{name}::"),
        format!("crate::{name}::PROTOCOL"),
        format!("proto::{name}::"),
    ]
    .iter()
    .any(|path| code.contains(path.as_str()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(path: &str, text: &str) -> File {
        File { path: path.to_owned(), text: text.to_owned() }
    }

    #[test]
    fn names_in_quotes_are_found_outside_the_folder() {
        let files = [
            file("crates/proto/src/http1/mod.rs", "PROTOCOL: &X\n    eve_name: \"http\",\n"),
            file(
                "crates/net/src/a.rs",
                "// \"http\"\nif name == \"http\" {}\nlet x = \"https\";\n",
            ),
            file("crates/behavior/src/a.rs", "c.service == b\"http\"\n"),
            file("crates/settings/src/a.rs", "config.get(\"app-layer.protocols.http.x\")\n"),
            file("crates/net/src/script/library/http.rs", "name: \"http\",\n"),
            file("crates/flowlog/src/eve.rs", "\"http\" => 1,\n"),
        ];
        let found: Vec<String> = quoted(&files).iter().map(ToString::to_string).collect();
        let places = [
            "crates/net/src/a.rs:2: ",
            "crates/behavior/src/a.rs:1: ",
            "crates/settings/src/a.rs:1: ",
        ];
        assert_eq!(found.len(), places.len(), "{found:?}");
        assert!(found.iter().zip(places).all(|(line, place)| line.starts_with(place)), "{found:?}");
    }

    #[test]
    fn a_protocol_is_in_its_folder_and_once_in_the_registry() {
        let mut files = vec![
            file("crates/proto/src/dns/mod.rs", "pub const PROTOCOL: &Protocol = …"),
            file("crates/proto/src/mime/mod.rs", "pub fn decode() {}"),
            file("crates/proto/src/lib.rs", "protocols! {\n    dns: PROTOCOL;\n}"),
        ];
        assert_eq!(folders(&files), BTreeSet::from(["dns".to_owned()]));
        assert_eq!(check(&files), []);
        files.push(file("crates/net/src/worker.rs", "use gabion_proto::dns::Parser;"));
        files.push(file("crates/proto/src/ssh/mod.rs", "pub const PROTOCOL: &Protocol = …"));
        let found: Vec<String> = check(&files).iter().map(ToString::to_string).collect();
        assert_eq!(
            found,
            [
                "crates/proto/src/lib.rs: `ssh: PROTOCOL;` occurs 0 times instead of once",
                "crates/net/src/worker.rs:1: names the protocol dns outside its folder and the registry"
            ]
        );
    }
}
