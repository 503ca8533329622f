//! Counts that may only fall: the size of the binary, circles of files, long lists of
//! parameters, errors that are plain text. `tests/tidy/counts.tsv` has the lowest counts so far.
//!
//! A count shows where the structure is worst; it is not a goal in itself. `UPDATE=1` lowers the
//! kept counts to the current ones and never raises one.

use crate::tree::File;
use std::collections::{BTreeMap, BTreeSet};

/// The file with the kept counts.
pub const PATH: &str = "tests/tidy/counts.tsv";

/// Errors that are plain text, and the names of their counts: a caller can't decide by them without their words.
const TEXT_ERRORS: &[(&str, &str)] = &[
    ("String", "results with text as error outside cli"),
    ("&'static str", "results with a fixed text as error outside cli"),
];

/// Files that use each other in a circle, at least three of them, by crate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Circle {
    /// The crate's folder.
    pub crate_name: String,
    /// Paths below its `src`.
    pub files: Vec<String>,
}

/// Every count of the repository, by name.
#[must_use]
pub fn all(files: &[File]) -> BTreeMap<String, usize> {
    let mut counts = BTreeMap::new();
    let sources: Vec<&File> = files.iter().filter(|f| is_source(&f.path)).collect();
    let cli = sources.iter().filter(|f| f.path.starts_with("crates/cli/src/"));
    counts.insert("lines of cli/src".to_owned(), cli.map(|f| f.text.lines().count()).sum());
    for file in sources.iter().filter(|f| !f.path.starts_with("crates/cli/")) {
        for (error, name) in TEXT_ERRORS {
            let results = results_with(error, work(&file.text));
            *counts.entry((*name).to_owned()).or_default() += results;
        }
    }
    let circles = circles(files);
    counts.insert("circles of three files and more".to_owned(), circles.len());
    for circle in &circles {
        let largest = counts.entry(format!("largest circle of {}", circle.crate_name)).or_default();
        *largest = circle.files.len().max(*largest);
    }
    let long = sources.iter().map(|f| long_parameter_lists(work(&f.text)).len()).sum();
    counts.insert("functions with more than 6 parameters".to_owned(), long);
    counts
}

/// The kept counts.
#[must_use]
pub fn kept(text: &str) -> BTreeMap<String, usize> {
    let lines = text.lines().filter(|l| !l.starts_with('#'));
    lines
        .filter_map(|l| l.split_once('\t'))
        .filter_map(|(name, n)| Some((name.to_owned(), n.trim().parse().ok()?)))
        .collect()
}

/// Counts above the kept ones, one line each.
#[must_use]
pub fn risen(kept: &BTreeMap<String, usize>, now: &BTreeMap<String, usize>) -> Vec<String> {
    now.iter()
        .filter_map(|(name, n)| {
            let most = kept.get(name).copied().unwrap_or(0);
            (*n > most).then(|| format!("{name}: {n}, kept: {most}"))
        })
        .collect()
}

/// The lowered counts as the file's text.
#[must_use]
pub fn lowered(kept: &BTreeMap<String, usize>, now: &BTreeMap<String, usize>) -> String {
    let mut text = String::from(
        "# Counts that may only fall (`UPDATE=1 cargo test -p gabion-tidy` lowers them).\n",
    );
    for (name, most) in kept {
        let n = now.get(name).map_or(0, |n| *n.min(most));
        if n > 0
            || !["largest circle", "names that", "open fields of"]
                .iter()
                .any(|kind| name.starts_with(kind))
        {
            text.push_str(&format!("{name}\t{n}\n"));
        }
    }
    text
}

pub(crate) fn is_source(path: &str) -> bool {
    path.starts_with("crates/") && path.contains("/src/") && path.ends_with(".rs") && !is_test(path)
}

fn is_test(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or_default();
    path.contains("/tests/") || name == "tests.rs"
}

/// The part of a file before its unit tests. A test module of another file (`mod tests;`) ends nothing.
pub(crate) fn work(text: &str) -> &str {
    const START: &str = "\n#[cfg(test)]\nmod ";
    let is_block = |(at, start): &(usize, &str)| {
        let line = text.get(at + start.len()..).unwrap_or_default().lines().next();
        line.is_some_and(|line| line.ends_with('{'))
    };
    let end = text.match_indices(START).find(is_block).map_or(text.len(), |(at, _)| at);
    text.get(..end).unwrap_or(text)
}

/// `Result<…, ERROR>` in code.
fn results_with(error: &str, text: &str) -> usize {
    let ending = format!(", {error}");
    if !text.contains(&format!("{ending}>")) {
        return 0;
    }
    let code: String = text.lines().filter(|l| !l.trim_start().starts_with("//")).collect();
    code.match_indices("Result<")
        .filter(|(at, open)| {
            let Some(rest) = code.get(at + open.len()..) else { return false };
            let mut depth = 1usize;
            for (i, c) in rest.char_indices() {
                depth = match c {
                    '<' | '(' | '[' => depth + 1,
                    '>' if rest.get(..i).is_some_and(|b| b.ends_with('-')) => depth,
                    '>' | ')' | ']' => depth - 1,
                    _ => depth,
                };
                if depth == 0 {
                    return rest
                        .get(..i)
                        .is_some_and(|inside| inside.trim_end().ends_with(&ending));
                }
            }
            false
        })
        .count()
}

/// Names of functions with more than six parameters (`self` counts).
fn long_parameter_lists(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    for (at, _) in text.match_indices("fn ") {
        let before = text.get(..at).and_then(|b| b.chars().next_back());
        if before.is_some_and(|c| c.is_alphanumeric() || c == '_') {
            continue;
        }
        let rest = text.get(at + 3..).unwrap_or_default();
        let name: String = rest.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect();
        let Some(open) = parameters_start(rest) else { continue };
        if !name.is_empty() && parameters(rest.get(open..).unwrap_or_default()) > 6 {
            found.push(name);
        }
    }
    found
}

/// The offset of the parameters' opening parenthesis, after the generics.
fn parameters_start(text: &str) -> Option<usize> {
    let mut depth = 0usize;
    let mut last = ' ';
    for (i, c) in text.char_indices() {
        match c {
            '<' => depth += 1,
            '>' if last != '-' => depth = depth.saturating_sub(1),
            '(' if depth == 0 => return Some(i),
            '{' | ';' => return None,
            _ => {}
        }
        last = c;
    }
    None
}

/// Number of parameters of the list at the start of the text.
fn parameters(text: &str) -> usize {
    let (mut depth, mut count, mut is_empty, mut last) = (0usize, 0usize, true, ' ');
    for c in text.chars() {
        match c {
            '(' | '[' | '{' | '<' => depth += 1,
            '>' if last == '-' || last == '=' => {}
            ')' | ']' | '}' | '>' => {
                depth = depth.saturating_sub(1);
                if depth == 0 {
                    return count + usize::from(!is_empty);
                }
            }
            ',' if depth == 1 => {
                count += 1;
                is_empty = true;
            }
            c if depth == 1 && !c.is_whitespace() => is_empty = false,
            _ => {}
        }
        if depth > 1 {
            is_empty = false;
        }
        last = c;
    }
    0
}

/// Circles of at least three files by their `crate::` and `super::` paths, unit tests left out.
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
        let modules: BTreeMap<Vec<&str>, &str> =
            sources.keys().map(|path| (module(path), *path)).collect();
        let arrows: BTreeMap<&str, BTreeSet<&str>> = sources
            .iter()
            .map(|(path, text)| (*path, uses(&module(path), text, &modules, path)))
            .collect();
        for files in strongly_connected(&arrows).into_iter().filter(|files| files.len() > 2) {
            let files = files.into_iter().map(str::to_owned).collect();
            found.push(Circle { crate_name: name.to_owned(), files });
        }
    }
    found
}

/// The path of a file's module: `a/b.rs` and `a/b/mod.rs` are `[a, b]`.
fn module(path: &str) -> Vec<&str> {
    let stem = path.trim_end_matches(".rs");
    let stem = stem.strip_suffix("/mod").unwrap_or(stem);
    match stem {
        "lib" | "main" | "mod" => Vec::new(),
        stem => stem.split('/').collect(),
    }
}

/// The files that a text refers to by path.
fn uses<'a>(
    own: &[&'a str],
    text: &'a str,
    modules: &BTreeMap<Vec<&'a str>, &'a str>,
    path: &str,
) -> BTreeSet<&'a str> {
    let mut found = BTreeSet::new();
    for line in statements(text) {
        for start in ["crate::", "super::"] {
            for (at, _) in line.match_indices(start) {
                let before = line.get(..at).and_then(|b| b.chars().next_back());
                if before.is_some_and(|c| c.is_alphanumeric() || c == '_' || c == ':' || c == '$') {
                    continue;
                }
                let mut base: Vec<&str> =
                    if start == "crate::" { Vec::new() } else { own.to_vec() };
                let mut rest = line.get(at..).unwrap_or_default();
                if start == "crate::" {
                    rest = rest.get(7..).unwrap_or_default();
                }
                while let Some(after) = rest.strip_prefix("super::") {
                    base.pop();
                    rest = after;
                }
                for names in expanded(rest) {
                    let mut whole = base.clone();
                    whole.extend(names);
                    let target = deepest(&whole, modules);
                    found.extend(target.filter(|target| *target != path));
                }
            }
        }
    }
    found
}

/// The file of the longest part of a path that is a module.
fn deepest<'a>(path: &[&str], modules: &BTreeMap<Vec<&'a str>, &'a str>) -> Option<&'a str> {
    (0..=path.len()).rev().find_map(|n| modules.get(path.get(..n)?).copied())
}

/// Lines of code without comments; a `use` statement counts as one.
fn statements(text: &str) -> Vec<&str> {
    let mut found = Vec::new();
    let mut at = 0;
    while let Some(rest) = text.get(at..).filter(|rest| !rest.is_empty()) {
        let line_end = rest.find('\n').map_or(rest.len(), |n| n + 1);
        let line = rest.get(..line_end).unwrap_or_default();
        let trimmed = line.trim_start();
        let is_use = ["use ", "pub use ", "pub(crate) use ", "pub(super) use "]
            .iter()
            .any(|start| trimmed.starts_with(start));
        let end = if is_use { rest.find(';').map_or(line_end, |n| n + 1) } else { line_end };
        if !trimmed.starts_with("//") {
            found.push(rest.get(..end).unwrap_or_default());
        }
        at += end;
    }
    found
}

/// The paths of `a::{b, c::d}`: `[a, b]` and `[a, c, d]`.
fn expanded(text: &str) -> Vec<Vec<&str>> {
    let name_end = text.find(|c: char| !(c.is_alphanumeric() || c == '_')).unwrap_or(text.len());
    let name = text.get(..name_end).unwrap_or_default();
    let rest = text.get(name_end..).unwrap_or_default();
    if name.is_empty() {
        let Some(inside) = rest.strip_prefix('{') else { return vec![Vec::new()] };
        return parts(inside).into_iter().flat_map(|part| expanded(part.trim_start())).collect();
    }
    match rest.strip_prefix("::") {
        Some(below) => expanded(below)
            .into_iter()
            .map(|mut path| {
                path.insert(0, name);
                path
            })
            .collect(),
        None => vec![vec![name]],
    }
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
    fn results_with_text_are_counted() {
        let text = "fn a() -> Result<u8, String> {}\nfn b() -> Result<Vec<(u8, String)>, E> {}\n\
                    fn c() -> Result<(), String>;\n// Result<u8, String>\n";
        assert_eq!(results_with("String", text), 2);
        let text = "fn a() -> Result<Vec<u8>, &'static str> {}\nfn b(c: &'static str) -> Result<u8, E> {}\n";
        assert_eq!(results_with("&'static str", text), 1);
    }

    #[test]
    fn parameters_are_counted_with_self() {
        let text = "fn six(&self, a: u8, b: [u8; 2], c: &dyn Fn(u8, u8) -> u8, d: (u8, u8), e: T<u8, u8>) {}\n\
                    fn seven<A: Into<u8>>(\n    a: u8,\n    b: u8,\n    c: u8,\n    d: u8,\n    e: u8,\n    f: u8,\n    g: A,\n) {}\n";
        assert_eq!(long_parameter_lists(text), ["seven"]);
    }

    #[test]
    fn counts_may_only_fall() {
        let kept = kept("# x\na\t3\nb\t2\n");
        let now = BTreeMap::from([("a".to_owned(), 4), ("b".to_owned(), 1), ("c".to_owned(), 1)]);
        assert_eq!(risen(&kept, &now), ["a: 4, kept: 3", "c: 1, kept: 0"]);
        assert!(lowered(&kept, &now).ends_with("a\t3\nb\t1\n"));
    }
}
