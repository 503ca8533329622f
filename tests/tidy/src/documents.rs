//! Rules about documents: the targets of their links exist, and so do the files, modules and tests that they name.

use crate::Fault;
use crate::tree::File;
use std::collections::BTreeSet;
use std::path::Path;

/// Folders at the root whose paths pages name.
const ROOTS: &[&str] =
    &["bpf", "crates", "demo", "docs", "fuzz", "lab", "packaging", "scripts", "tests"];

/// Names in pages that are not names of the repository, with the page and the reason.
const FOREIGN: &[(&str, &str, &str)] = &[
    ("CONTRIBUTING.md", "crates/outputs/src/kinds/alerts_csv.rs", "the file of an example"),
    ("docs/from-falco.md", "ptrace_attach_or_injection", "a macro of Falco's rules"),
];

/// A name of at least this many words, joined by `_`, is that of a test, function or setting of the repository.
const WORDS_MIN: usize = 4;

/// Links to missing files of the repository. Links to other sites and to anchors in the same page
/// are not checked.
#[must_use]
pub fn dead_links(file: &File, exists: &dyn Fn(&Path) -> bool) -> Vec<Fault> {
    let folder = Path::new(&file.path).parent().unwrap_or(Path::new(""));
    let mut faults = Vec::new();
    for (at, line) in file.text.lines().enumerate() {
        for target in targets(line) {
            let path = target.split('#').next().unwrap_or_default();
            if path.is_empty() || path.contains("://") || path.starts_with("mailto:") {
                continue;
            }
            if !exists(&folder.join(path)) {
                faults.push(Fault::new(
                    &file.path,
                    at + 1,
                    format!("a link to {path}, which is missing"),
                ));
            }
        }
    }
    faults
}

/// The targets in `](…)`.
fn targets(line: &str) -> impl Iterator<Item = &str> {
    line.split("](").skip(1).filter_map(|rest| rest.split(')').next())
}

/// What the repository has, by name.
#[derive(Debug)]
pub struct Names<'a> {
    /// Everything but the pages themselves.
    files: Vec<&'a File>,
    /// The words of these files.
    words: BTreeSet<&'a str>,
    crates: BTreeSet<&'a str>,
}

impl<'a> Names<'a> {
    /// The names in these files.
    #[must_use]
    pub fn new(files: &'a [File]) -> Names<'a> {
        let files: Vec<&File> = files.iter().filter(|file| !file.path.ends_with(".md")).collect();
        let words = files.iter().flat_map(|file| words(&file.text)).collect();
        let below = files.iter().filter_map(|file| file.path.strip_prefix("crates/"));
        let crates = below.filter_map(|path| path.split('/').next()).collect();
        Names { files, words, crates }
    }

    /// Whether a crate has the item with this path: its modules are files, the rest is a word in them.
    fn has_item(&self, room: &str, path: &[&str]) -> bool {
        let mut place = format!("crates/{room}/src");
        for name in path {
            let (folder, file) = (format!("{place}/{name}/"), format!("{place}/{name}.rs"));
            if self.files.iter().any(|f| f.path.starts_with(&folder)) {
                place = format!("{place}/{name}");
            } else if self.files.iter().any(|f| f.path == file) {
                place = file;
            } else {
                let mut inside = self.files.iter().filter(|f| f.path.starts_with(&place));
                return inside.any(|f| words(&f.text).any(|word| word == *name));
            }
        }
        true
    }

    /// Whether a function has this name.
    fn has_function(&self, name: &str) -> bool {
        let declared = format!("fn {name}(");
        self.files.iter().any(|file| file.text.contains(&declared))
    }
}

/// Files, modules and long names that a page mentions and the repository does not have. `exists` looks for a path below
/// the root.
#[must_use]
pub fn missing_names(page: &File, names: &Names<'_>, exists: &dyn Fn(&Path) -> bool) -> Vec<Fault> {
    let is_foreign =
        |name: &str| FOREIGN.iter().any(|(path, n, _)| (*path, *n) == (&page.path, name));
    let mut faults = Vec::new();
    let mut say = |at: usize, what: String| faults.push(Fault::new(&page.path, at + 1, what));
    for (at, line) in page.text.lines().enumerate() {
        for path in paths(line, names).filter(|path| !is_foreign(path)) {
            let folder = Path::new(&page.path).parent().unwrap_or(Path::new(""));
            let is_there = [Path::new(""), Path::new("crates"), folder]
                .iter()
                .any(|place| exists(&place.join(path)));
            if !is_there {
                say(at, format!("names {path}, which is missing"));
            }
        }
        for name in line.split('`').skip(1).step_by(2).filter(|name| !is_foreign(name)) {
            let segments: Vec<&str> = name.trim_end_matches(['!', '(', ')']).split("::").collect();
            if !segments.iter().all(|s| !s.is_empty() && s.chars().all(is_word)) {
                continue;
            }
            let (Some(room), Some(last)) = (segments.first(), segments.last()) else { continue };
            let own = page.path.strip_prefix("crates/").and_then(|rest| rest.split('/').next());
            let rest = segments.get(1..).unwrap_or_default();
            let is_missing = if rest.is_empty() {
                is_long(name) && !names.words.contains(name)
            } else {
                names.crates.contains(room)
                    && !names.has_item(room, rest)
                    && !own.is_some_and(|own| names.has_item(own, &segments))
                    && !names.has_function(last)
            };
            if is_missing {
                say(at, format!("names {name}, which is missing"));
            }
        }
    }
    faults
}

fn is_word(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_'
}

fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c| !is_word(c)).filter(|word| !word.is_empty())
}

/// Whether a name is so long that it can only be one of the repository.
fn is_long(name: &str) -> bool {
    let is_lower = name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_');
    is_lower && name.split('_').filter(|word| !word.is_empty()).count() >= WORDS_MIN
}

/// The paths of the repository in a line; those with a placeholder (`NAME`, `*`) are left out.
fn paths<'l>(line: &'l str, names: &Names<'_>) -> impl Iterator<Item = &'l str> {
    let ends = |c: char| c.is_whitespace() || "`()[]\"'|".contains(c);
    let cut = line.split(ends).map(|word| {
        let word = word.trim_matches(['.', ',', ';', ':']);
        word.split(['#', ':']).next().unwrap_or_default()
    });
    cut.filter(move |word| {
        let segments: Vec<&str> = word.split('/').collect();
        let [first, second, ..] = segments.as_slice() else { return false };
        let is_of_crate = names.crates.contains(first)
            && ["benches", "examples", "src", "tests"].contains(second);
        let is_placeholder = |segment: &&str| {
            let name = segment.split('.').next().unwrap_or_default();
            !name.is_empty() && name.chars().all(|c| c.is_ascii_uppercase() || c == '_')
        };
        (ROOTS.contains(first) || is_of_crate)
            && !word.contains(['*', '…', '$', '<', '{', '='])
            && !segments.iter().any(is_placeholder)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_dead_links() {
        let text =
            "see [a](a.md), [b](sub/b.md#part), [c](https://x.example/c)\n[d](#d) [e](../e.md)\n";
        let file = File { path: "docs/x.md".to_owned(), text: text.to_owned() };
        let there = |path: &Path| path == Path::new("docs/a.md");
        let found: Vec<String> =
            dead_links(&file, &there).iter().map(ToString::to_string).collect();
        assert_eq!(
            found,
            [
                "docs/x.md:1: a link to sub/b.md, which is missing",
                "docs/x.md:2: a link to ../e.md, which is missing"
            ]
        );
    }

    #[test]
    fn finds_names_of_what_is_missing() {
        let file = |path: &str, text: &str| File { path: path.to_owned(), text: text.to_owned() };
        let files = [
            file("crates/net/src/lib.rs", "pub struct Worker;"),
            file("crates/net/src/detect/gates.rs", "fn of_all_rules() {}"),
            file("tests/adversarial/tests/rules.rs", "fn a_flood_of_patterns_ends() {}"),
        ];
        let page = file(
            "docs/x.md",
            "`net::Worker`, `net::detect::gates`, `net::detect::Gone`, `net::gone::Worker`\n\
             `net::a_flood_of_patterns_ends`, `a_flood_of_patterns_ends`, `a_flood_of_patterns_lasts`\n\
             `crates/net/src/lib.rs`, net/src/lib.rs, tests/gone.rs, crates/NAME/src/lib.rs, a/b\n",
        );
        let there = |path: &Path| files.iter().any(|f| Path::new(&f.path) == path);
        let found: Vec<String> = missing_names(&page, &Names::new(&files), &there)
            .iter()
            .map(ToString::to_string)
            .collect();
        assert_eq!(
            found,
            [
                "docs/x.md:1: names net::detect::Gone, which is missing",
                "docs/x.md:1: names net::gone::Worker, which is missing",
                "docs/x.md:2: names a_flood_of_patterns_lasts, which is missing",
                "docs/x.md:3: names tests/gone.rs, which is missing",
            ]
        );
    }
}
