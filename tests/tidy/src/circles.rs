//! Circles of files: files of a crate that use each other, at least three of them. A reader of one has to read all.
//!
//! A file uses another one by a path that begins with `crate` or `super`. A name that a module only passes on (`pub use
//! a::Name` in `mod.rs` or `lib.rs`) leads to the file that declares it, and so does a path that begins with an imported
//! module. That a module uses its own children does not count: a table and its rows belong together. Unit tests are left
//! out.

use crate::counts::{is_source, work};
use crate::tree::File;
use std::collections::{BTreeMap, BTreeSet};

/// Files that use each other in a circle, at least three of them, by crate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Circle {
    /// The crate's folder.
    pub crate_name: String,
    /// Paths below its `src`.
    pub files: Vec<String>,
}

/// A path from the crate's root, by its parts.
type Path<'a> = Vec<&'a str>;

/// What a name in a file stands for.
type Names<'a> = BTreeMap<&'a str, Path<'a>>;

/// How often a name may be passed on from file to file.
const PASSED_ON_MAX: usize = 8;

/// The circles of all crates.
#[must_use]
pub fn circles(files: &[File]) -> Vec<Circle> {
    let mut by_crate: BTreeMap<&str, BTreeMap<&str, &str>> = BTreeMap::new();
    for file in files.iter().filter(|f| is_source(&f.path)) {
        let Some((name, below)) = file.path.strip_prefix("crates/").and_then(|p| p.split_once('/'))
        else {
            continue;
        };
        let Some(below) = below.strip_prefix("src/") else { continue };
        by_crate.entry(name).or_default().insert(below, work(&file.text));
    }
    let mut found = Vec::new();
    for (name, sources) in by_crate {
        let tree = Tree::new(&sources);
        let arrows: BTreeMap<&str, BTreeSet<&str>> =
            sources.iter().map(|(path, text)| (*path, tree.uses(path, text))).collect();
        for files in strongly_connected(&arrows).into_iter().filter(|files| files.len() > 2) {
            let files = files.into_iter().map(str::to_owned).collect();
            found.push(Circle { crate_name: name.to_owned(), files });
        }
    }
    found
}

/// The modules of a crate, and what they pass on.
struct Tree<'a> {
    /// The file of each module.
    files: BTreeMap<Path<'a>, &'a str>,
    /// Names that files open with `pub use`.
    opened: BTreeMap<&'a str, Names<'a>>,
}

impl<'a> Tree<'a> {
    fn new(sources: &BTreeMap<&'a str, &'a str>) -> Tree<'a> {
        let files = sources.keys().map(|path| (module(path), *path)).collect();
        let opened = sources.iter().map(|(path, text)| {
            let open = statements(text).into_iter().filter(|line| is_opening(line));
            (*path, imports(&module(path), open))
        });
        Tree { files, opened: opened.collect() }
    }

    /// The files that a file uses.
    fn uses(&self, path: &'a str, text: &'a str) -> BTreeSet<&'a str> {
        let own = module(path);
        let lines = statements(text);
        let is_used =
            |name: &str| lines.iter().any(|line| use_body(line).is_none() && has_word(line, name));
        let mut imported = Names::new();
        for line in &lines {
            let bodies = use_body(line).into_iter().flat_map(expanded);
            for (names, known_as) in bodies.filter(|(names, _)| is_from_above(names)) {
                // What a file only passes on is used by those who use it from there.
                if !is_opening(line) || is_used(known_as) {
                    imported.insert(known_as, absolute(&own, &names));
                }
            }
        }
        let mut paths: Vec<Path<'a>> = imported.values().cloned().collect();
        for line in lines.iter().filter(|line| use_body(line).is_none()) {
            for (at, first) in path_starts(line) {
                for (names, _) in expanded(line.get(at..).unwrap_or_default()) {
                    if let Some(begin) = imported.get(first) {
                        paths.push(
                            begin
                                .iter()
                                .chain(names.get(1..).unwrap_or_default())
                                .copied()
                                .collect(),
                        );
                    } else if is_from_above(&names) {
                        paths.push(absolute(&own, &names));
                    }
                }
            }
        }
        let found = paths.iter().filter_map(|names| self.declaring(names, PASSED_ON_MAX));
        found.filter(|file| *file != path).collect()
    }

    /// The file that declares what a path names: that of the longest part of it that is a module, or where this one has the
    /// name from.
    fn declaring(&self, path: &[&'a str], passed_on: usize) -> Option<&'a str> {
        let longest = (0..=path.len()).rev();
        let (len, file) =
            longest.into_iter().find_map(|len| Some((len, *self.files.get(path.get(..len)?)?)))?;
        let Some((name, rest)) = path.get(len..)?.split_first() else { return Some(file) };
        match self.opened.get(file).and_then(|names| names.get(name)) {
            Some(from) if passed_on > 0 => {
                let longer: Path<'_> = from.iter().chain(rest).copied().collect();
                if longer == path { Some(file) } else { self.declaring(&longer, passed_on - 1) }
            }
            _ => Some(file),
        }
    }
}

/// The path of a file's module: `a/b.rs` and `a/b/mod.rs` are `[a, b]`.
fn module(path: &str) -> Path<'_> {
    let stem = path.trim_end_matches(".rs");
    let stem = stem.strip_suffix("/mod").unwrap_or(stem);
    match stem {
        "lib" | "main" | "mod" => Vec::new(),
        stem => stem.split('/').collect(),
    }
}

/// A path as it is written in a module, from the crate's root. One that begins with another crate becomes one that no
/// module has.
fn absolute<'a>(own: &[&'a str], names: &[&'a str]) -> Path<'a> {
    let mut path = own.to_vec();
    for name in names {
        match *name {
            "crate" => path.clear(),
            "super" => {
                path.pop();
            }
            "self" => {}
            name => path.push(name),
        }
    }
    path
}

/// Whether a path leads out of the module in which it is written, within the crate.
fn is_from_above(names: &[&str]) -> bool {
    matches!(names.first(), Some(&"crate" | &"super"))
}

/// The names that `use` statements bring into a module.
fn imports<'a>(own: &[&'a str], lines: impl Iterator<Item = &'a str>) -> Names<'a> {
    let bodies = lines.filter_map(use_body).flat_map(expanded);
    bodies.map(|(names, known_as)| (known_as, absolute(own, &names))).collect()
}

/// Whether a statement opens names of other modules.
fn is_opening(line: &str) -> bool {
    use_body(line).is_some() && line.trim_start().starts_with("pub")
}

/// What a `use` statement names.
pub(crate) fn use_body(line: &str) -> Option<&str> {
    let line = line.trim_start();
    let starts = ["use ", "pub use ", "pub(crate) use ", "pub(super) use "];
    starts.iter().find_map(|start| line.strip_prefix(start))
}

/// Where paths begin in a statement, and their first names.
fn path_starts(line: &str) -> Vec<(usize, &str)> {
    let is_letter = |c: char| c.is_alphanumeric() || c == '_';
    let mut found = Vec::new();
    for (end, _) in line.match_indices("::") {
        let before = line.get(..end).unwrap_or_default();
        let start = before.rfind(|c| !is_letter(c)).map_or(0, |at| at + 1);
        let last = before.get(..start).and_then(|b| b.chars().next_back());
        if start < end && !last.is_some_and(|c| c == ':' || c == '$' || c == '.' || c == '\'') {
            found.push((start, before.get(start..).unwrap_or_default()));
        }
    }
    found
}

/// Whether a text has the word as a whole.
fn has_word(text: &str, word: &str) -> bool {
    let is_letter = |c: char| c.is_alphanumeric() || c == '_';
    text.match_indices(word).any(|(at, _)| {
        let before = text.get(..at).and_then(|b| b.chars().next_back());
        let after = text.get(at + word.len()..).and_then(|a| a.chars().next());
        !before.is_some_and(is_letter) && !after.is_some_and(is_letter)
    })
}

/// Lines of code without comments; a `use` statement counts as one.
pub(crate) fn statements(text: &str) -> Vec<&str> {
    let mut found = Vec::new();
    let mut at = 0;
    while let Some(rest) = text.get(at..).filter(|rest| !rest.is_empty()) {
        let line_end = rest.find('\n').map_or(rest.len(), |n| n + 1);
        let line = rest.get(..line_end).unwrap_or_default();
        let is_use = use_body(line).is_some();
        let end = if is_use { rest.find(';').map_or(line_end, |n| n + 1) } else { line_end };
        if !line.trim_start().starts_with("//") {
            found.push(rest.get(..end).unwrap_or_default());
        }
        at += end;
    }
    found
}

/// The paths of `a::{b, c::d as e}` and how they are known: `[a, b]` as `b`, `[a, c, d]` as `e`.
pub(crate) fn expanded(text: &str) -> Vec<(Path<'_>, &str)> {
    let is_letter = |c: char| c.is_alphanumeric() || c == '_';
    let name_end = text.find(|c: char| !is_letter(c)).unwrap_or(text.len());
    let name = text.get(..name_end).unwrap_or_default();
    let rest = text.get(name_end..).unwrap_or_default();
    if name.is_empty() {
        let Some(inside) = rest.strip_prefix('{') else { return vec![(Vec::new(), "")] };
        return parts(inside).into_iter().flat_map(|part| expanded(part.trim_start())).collect();
    }
    let Some(below) = rest.strip_prefix("::") else {
        let other = rest.strip_prefix(" as ").unwrap_or_default();
        let other_end = other.find(|c: char| !is_letter(c)).unwrap_or(other.len());
        let other = other.get(..other_end).filter(|other| !other.is_empty());
        return vec![(vec![name], other.unwrap_or(name))];
    };
    let longer = |(mut path, known_as): (Vec<_>, _)| {
        path.insert(0, name);
        // `a::{self}` and `a::*` are known by the name of the module.
        (path, if matches!(known_as, "self" | "") { name } else { known_as })
    };
    expanded(below).into_iter().map(longer).collect()
}

/// The parts between commas up to the closing brace.
fn parts(text: &str) -> Vec<&str> {
    let (mut depth, mut from, mut found) = (0usize, 0, Vec::new());
    for (i, c) in text.char_indices() {
        match c {
            '{' => depth += 1,
            '}' if depth == 0 => {
                found.push(text.get(from..i).unwrap_or_default());
                return found;
            }
            '}' => depth -= 1,
            ',' if depth == 0 => {
                found.push(text.get(from..i).unwrap_or_default());
                from = i + 1;
            }
            _ => {}
        }
    }
    found
}

/// Strongly connected components (Tarjan, SIAM J. Comput. 1972), each sorted.
fn strongly_connected<'a>(arrows: &BTreeMap<&'a str, BTreeSet<&'a str>>) -> Vec<Vec<&'a str>> {
    let reach: BTreeMap<&str, BTreeSet<&str>> =
        arrows.keys().map(|from| (*from, reached(from, arrows))).collect();
    let mut found: Vec<Vec<&str>> = Vec::new();
    let mut placed = BTreeSet::new();
    for from in arrows.keys() {
        if placed.contains(from) {
            continue;
        }
        let own = reach.get(from);
        let circle: Vec<&str> = arrows
            .keys()
            .filter(|to| {
                *to == from
                    || own.is_some_and(|r| r.contains(*to))
                        && reach.get(*to).is_some_and(|r| r.contains(from))
            })
            .copied()
            .collect();
        placed.extend(circle.iter().copied());
        found.push(circle);
    }
    found
}

/// All files that a file reaches.
fn reached<'a>(from: &str, arrows: &BTreeMap<&'a str, BTreeSet<&'a str>>) -> BTreeSet<&'a str> {
    let mut found = BTreeSet::new();
    let mut next: Vec<&str> = arrows.get(from).into_iter().flatten().copied().collect();
    while let Some(file) = next.pop() {
        if found.insert(file) {
            next.extend(arrows.get(file).into_iter().flatten());
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(path: &str, text: &str) -> File {
        File { path: path.to_owned(), text: text.to_owned() }
    }

    #[test]
    fn files_that_use_each_other_are_a_circle() {
        let files = [
            file("crates/x/src/lib.rs", "mod a;\nmod b;\nmod c;\npub use a::A;\n"),
            file("crates/x/src/a.rs", "use crate::{\n    b::{B, D},\n};\n"),
            file("crates/x/src/b/mod.rs", "fn f() { super::c::g() }\n"),
            file("crates/x/src/c.rs", "// crate::b\nuse super::a::A;\n\n#[cfg(test)]\nmod t {}\n"),
            file(
                "crates/x/src/d.rs",
                "use crate::a::A;\n\n#[cfg(test)]\nmod t { use crate::c; }\n",
            ),
        ];
        let found = circles(&files);
        assert_eq!(found.len(), 1, "{found:?}");
        assert_eq!(found[0].files, ["a.rs", "b/mod.rs", "c.rs"]);
    }

    #[test]
    fn a_name_that_is_passed_on_leads_to_where_it_is_declared() {
        let circle = |root: &str, a: &str| {
            let files = [
                file("crates/x/src/lib.rs", root),
                file("crates/x/src/a.rs", a),
                file("crates/x/src/b/mod.rs", "mod deep;\npub(crate) use deep::{Deep as Known};\n"),
                file("crates/x/src/b/deep.rs", "use crate::c::C;\n"),
                file("crates/x/src/c.rs", "fn f() -> crate::A {}\n"),
            ];
            circles(&files).into_iter().map(|circle| circle.files).collect::<Vec<_>>()
        };
        let root = "mod a;\nmod b;\nmod c;\npub use a::{A, B};\n";
        let whole = [["a.rs", "b/deep.rs", "c.rs"]];
        assert_eq!(circle(root, "use crate::b::Known;\n"), whole);
        assert_eq!(circle(root, "use crate::b;\nfn f() { b::Known::new() }\n"), whole);
        assert_eq!(circle(root, "use crate::b;\n"), [[""; 3]; 0]);
        // A root that uses its children is no part of a circle.
        let root = "mod a;\nmod b;\nmod c;\nuse a::B;\npub struct A(B);\n";
        assert_eq!(circle(root, "use crate::b::Known;\n"), [[""; 3]; 0]);
    }
}
