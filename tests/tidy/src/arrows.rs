//! Which crate may use which: the table in `ARCHITECTURE.md` compared with the manifests, as parsed
//! by cargo.
//!
//! The table is exact in both directions. A dependency in the table that no crate has is as wrong
//! as one that the table lacks. Dependencies of tests only are not in the table.

use crate::Fault;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

/// The page with the table.
pub const PAGE: &str = "ARCHITECTURE.md";

/// The row of a crate in the table.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Row {
    /// Crates it uses.
    pub uses: BTreeSet<String>,
    /// Files below its `src` that may hold unsafe code.
    pub unsafe_files: BTreeSet<String>,
}

/// Rows by the name of the crate (its folder in `crates`).
pub type Table = BTreeMap<String, Row>;

/// Parses the table with the head `| crate | holds | uses | unsafe |`.
#[must_use]
pub fn read_table(page: &str) -> Table {
    let rows =
        page.lines().skip_while(|line| !line.starts_with("| crate | holds | uses | unsafe |"));
    let mut table = Table::new();
    for line in rows.skip(2).take_while(|line| line.starts_with('|')) {
        let cells: Vec<&str> = line.trim_matches('|').split('|').map(str::trim).collect();
        if let [name, _, uses, unsafe_files] = cells.as_slice() {
            table.insert(plain(name), Row { uses: names(uses), unsafe_files: names(unsafe_files) });
        }
    }
    table
}

fn names(cell: &str) -> BTreeSet<String> {
    cell.split(',').map(plain).filter(|name| !name.is_empty() && name != "–").collect()
}

fn plain(cell: &str) -> String {
    cell.trim().trim_matches('`').to_owned()
}

/// The dependencies of each crate, from the output of `cargo metadata --no-deps`.
#[must_use]
pub fn read_metadata(metadata: &Value) -> BTreeMap<String, BTreeSet<String>> {
    let mut arrows = BTreeMap::new();
    for package in list(metadata, "packages") {
        let Some(name) = crate_name(text(package, "manifest_path")) else { continue };
        let uses = list(package, "dependencies")
            .iter()
            .filter(|dependency| dependency.get("kind").is_none_or(Value::is_null))
            .filter_map(|dependency| crate_name(text(dependency, "path")))
            .collect();
        arrows.insert(name, uses);
    }
    arrows
}

/// The name of the crate of a path in `crates/NAME`.
fn crate_name(path: &str) -> Option<String> {
    let (_, below) = path.rsplit_once("/crates/")?;
    below.split('/').next().map(str::to_owned)
}

fn list<'a>(value: &'a Value, key: &str) -> &'a [Value] {
    value.get(key).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

fn text<'a>(value: &'a Value, key: &str) -> &'a str {
    value.get(key).and_then(Value::as_str).unwrap_or_default()
}

/// Compares table and dependencies.
#[must_use]
pub fn check(table: &Table, arrows: &BTreeMap<String, BTreeSet<String>>) -> Vec<Fault> {
    let fault = |what: String| Fault::new(PAGE, 0, what);
    let mut faults = Vec::new();
    for name in table.keys().filter(|name| !arrows.contains_key(*name)) {
        faults.push(fault(format!("there is no crate {name}")));
    }
    for (name, uses) in arrows {
        let Some(row) = table.get(name) else {
            faults.push(fault(format!("the table has no row for {name}")));
            continue;
        };
        for other in uses.difference(&row.uses) {
            faults.push(fault(format!("{name} uses {other}, which its row does not have")));
        }
        for other in row.uses.difference(uses) {
            faults.push(fault(format!("{name} does not use {other}, which its row has")));
        }
    }
    faults
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    const TABLE: &str = "text\n\n| crate | holds | uses | unsafe |\n|---|---|---|---|\n\
        | `record` | types | – | – |\n| `flow` | flows | record | `a.rs`, `b/c.rs` |\n\nmore\n";

    fn metadata(flow_uses: &[&str]) -> Value {
        let uses: Vec<Value> = flow_uses
            .iter()
            .map(|name| json!({"name": name, "kind": null, "path": format!("/r/crates/{name}")}))
            .chain([
                json!({"name": "serde", "kind": null}),
                json!({"name": "x", "kind": "dev", "path": "/r/crates/x"}),
            ])
            .collect();
        json!({"packages": [
            {"manifest_path": "/r/crates/record/Cargo.toml", "dependencies": []},
            {"manifest_path": "/r/crates/flow/Cargo.toml", "dependencies": uses},
            {"manifest_path": "/r/tests/tidy/Cargo.toml", "dependencies": []},
        ]})
    }

    #[test]
    fn reads_rows() {
        let table = read_table(TABLE);
        assert_eq!(table.keys().map(String::as_str).collect::<Vec<_>>(), ["flow", "record"]);
        let flow = table.get("flow").unwrap();
        assert_eq!(
            flow.unsafe_files.iter().map(String::as_str).collect::<Vec<_>>(),
            ["a.rs", "b/c.rs"]
        );
        assert_eq!(table.get("record"), Some(&Row::default()));
    }

    #[test]
    fn finds_extra_and_missing_dependencies() {
        let faults = |uses: &[&str]| {
            let faults = check(&read_table(TABLE), &read_metadata(&metadata(uses)));
            faults.into_iter().map(|f| f.what).collect::<Vec<_>>()
        };
        assert_eq!(faults(&["record"]), Vec::<String>::new());
        assert_eq!(faults(&[]), ["flow does not use record, which its row has"]);
        assert_eq!(faults(&["record", "net"]), ["flow uses net, which its row does not have"]);
    }

    #[test]
    fn finds_crates_without_row_and_rows_without_crate() {
        let all = read_table(TABLE);
        let arrows = BTreeMap::from([("flow".to_owned(), BTreeSet::from(["record".to_owned()]))]);
        assert_eq!(
            check(&all, &arrows).first().map(|f| f.what.as_str()),
            Some("there is no crate record")
        );
        let faults = check(&Table::new(), &arrows);
        assert_eq!(faults.first().map(|f| f.what.as_str()), Some("the table has no row for flow"));
    }
}
