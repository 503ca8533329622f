//! What crates open: a crate's root opens at most 40 names, an open module counting as one, and an open module opens
//! at most 40 of its own. A reader of a crate's page sees what it is for; the rest is closed or in a module by topic.
//!
//! `limits` is not counted: every crate opens it for the page of limits. Places with more names are in `counts.tsv`, and
//! their counts may only fall.

use crate::tree::File;
use std::collections::BTreeMap;

/// Most names of a root or an open module.
pub const NAMES_MAX: usize = 40;

/// Names that a crate opens.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Surface {
    /// At its root, an open module counting as one.
    pub root: usize,
    /// In each open module, by its path below the root.
    pub modules: BTreeMap<String, usize>,
}

/// The names that every crate with a library opens.
#[must_use]
pub fn surfaces(files: &[File]) -> BTreeMap<String, Surface> {
    let by_path: BTreeMap<&str, &str> =
        files.iter().map(|f| (f.path.as_str(), f.text.as_str())).collect();
    let mut found = BTreeMap::new();
    for path in by_path.keys() {
        let Some(name) = path.strip_prefix("crates/").and_then(|p| p.strip_suffix("/src/lib.rs"))
        else {
            continue;
        };
        let mut surface = Surface::default();
        let root = format!("crates/{name}/src");
        surface.root = descend(&by_path, &root, "lib.rs", "", &mut surface.modules);
        found.insert(name.to_owned(), surface);
    }
    found
}

/// Roots and open modules with more names than they may have.
#[must_use]
pub fn crowded(files: &[File]) -> BTreeMap<String, usize> {
    let mut found = BTreeMap::new();
    for (name, surface) in surfaces(files) {
        let modules = surface.modules.iter().map(|(module, n)| (format!("{name}::{module}"), *n));
        for (place, n) in modules.chain([(name.clone(), surface.root)]) {
            if n > NAMES_MAX {
                found.insert(format!("names that {place} opens"), n);
            }
        }
    }
    found
}

/// Counts the names of a module's file and of the open modules below it; returns those of the file.
fn descend(
    files: &BTreeMap<&str, &str>,
    folder: &str,
    file: &str,
    path: &str,
    modules: &mut BTreeMap<String, usize>,
) -> usize {
    let Some(text) = files.get(format!("{folder}/{file}").as_str()) else { return 0 };
    let (mut names, open) = opened(text);
    for module in open.into_iter().filter(|module| *module != "limits") {
        names += 1;
        let below = if path.is_empty() { module.to_owned() } else { format!("{path}::{module}") };
        let (inner, inner_file) = if files.contains_key(format!("{folder}/{module}.rs").as_str()) {
            (folder.to_owned(), format!("{module}.rs"))
        } else {
            (format!("{folder}/{module}"), "mod.rs".to_owned())
        };
        // Modules below `a.rs` are in the folder `a`; a file that has none opens none.
        let n = descend(files, &inner, &inner_file, &below, modules);
        modules.insert(below, n);
    }
    names
}

/// Number of names that a file opens, without its open modules, and those modules.
fn opened(text: &str) -> (usize, Vec<&str>) {
    const ITEMS: &[&str] = &[
        "fn ",
        "const fn ",
        "unsafe fn ",
        "struct ",
        "enum ",
        "trait ",
        "type ",
        "const ",
        "static ",
        "union ",
    ];
    let (mut names, mut modules, mut is_hidden) = (0, Vec::new(), false);
    let mut at = 0;
    while let Some(rest) = text.get(at..).filter(|rest| !rest.is_empty()) {
        let line = rest.lines().next().unwrap_or_default();
        at += line.len() + 1;
        if line.starts_with("#[cfg(test)]") {
            is_hidden = true; // the next item is for tests only
            continue;
        }
        if line.starts_with("#[doc(hidden)]") {
            is_hidden = true;
            continue;
        }
        let Some(item) = line.strip_prefix("pub ") else {
            let is_between = line.is_empty() || line.starts_with("//") || line.starts_with('#');
            is_hidden &= is_between;
            continue;
        };
        if std::mem::take(&mut is_hidden) {
            continue;
        }
        if let Some(module) = item.strip_prefix("mod ") {
            modules.extend(module.split([';', ' ', '{']).next());
        } else if item.starts_with("use ") {
            let statement = rest.split(';').next().unwrap_or_default();
            names += used_names(statement.strip_prefix("pub use ").unwrap_or_default());
        } else if ITEMS.iter().any(|start| item.starts_with(start)) {
            names += 1;
        }
    }
    (names, modules)
}

/// Number of names in the tree of a `use`.
fn used_names(tree: &str) -> usize {
    let Some((_, inside)) = tree.split_once('{') else { return 1 };
    let (mut depth, mut names, mut is_name) = (0usize, 0, false);
    for c in inside.chars() {
        match c {
            '{' => {
                depth += 1;
                is_name = false; // what came before is a path
            }
            ',' | '}' => {
                names += usize::from(is_name);
                is_name = false;
                if c == '}' {
                    if depth == 0 {
                        break;
                    }
                    depth -= 1;
                }
            }
            c if c.is_whitespace() => {}
            _ => is_name = true,
        }
    }
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(path: &str, text: &str) -> File {
        File { path: path.to_owned(), text: text.to_owned() }
    }

    #[test]
    fn names_are_counted_where_they_are_opened() {
        let files = [
            file(
                "crates/x/src/lib.rs",
                "mod a;\npub mod b;\n#[doc(hidden)]\npub mod c;\npub mod limits;\npub(crate) fn f() {}\n\
                 pub use a::{\n    A,\n    B as C, d::{D, E},\n};\npub use a::F;\npub const fn g() {}\n",
            ),
            file(
                "crates/x/src/b/mod.rs",
                "pub mod inner;\npub struct S {\n    pub field: u8,\n}\n",
            ),
            file(
                "crates/x/src/b/inner.rs",
                "pub enum E {}\n#[cfg(test)]\npub fn only_for_tests() {}\n",
            ),
        ];
        let found = surfaces(&files);
        let modules = BTreeMap::from([("b".to_owned(), 2), ("b::inner".to_owned(), 1)]);
        assert_eq!(found["x"], Surface { root: 7, modules });
    }

    #[test]
    fn places_with_too_many_names_are_counted() {
        let many: String = (0..=NAMES_MAX).map(|n| format!("pub struct S{n};\n")).collect();
        let files = [file("crates/x/src/lib.rs", "pub mod a;\n"), file("crates/x/src/a.rs", &many)];
        let counts = BTreeMap::from([("names that x::a opens".to_owned(), NAMES_MAX + 1)]);
        assert_eq!(crowded(&files), counts);
        let root = [file("crates/x/src/lib.rs", &many)];
        assert_eq!(crowded(&root)["names that x opens"], NAMES_MAX + 1);
    }
}
