//! Habits of code that the pages ask for: traits with one implementation are named by `ARCHITECTURE.md`, tests sleep
//! only where they drive another process or thread, and counts that may only fall: functions whose name has no object
//! (`fn read`), matches on booleans, and wildcard arms for enums of our own in engines.

use crate::Fault;
use crate::circles::{expanded, statements, use_body};
use crate::tree::File;
use std::collections::{BTreeMap, BTreeSet};

/// Crates of engines: a variant that they forget is a packet or record that they treat wrongly.
const ENGINES: &[&str] = &[
    "behavior",
    "capture",
    "condition",
    "flow",
    "flowlog",
    "guard",
    "logs",
    "matcher",
    "net",
    "packet",
    "proto",
    "rules",
    "scap",
    "seal",
    "syscall",
];

/// Places whose tests drive another process or thread, and may wait for it: the crates that own threads, and tests
/// that run the program.
const WAITING: &[&str] = &[
    "crates/cli/",
    "crates/intake/",
    "crates/runtime/",
    "crates/sensor/",
    "crates/seal/tests/threats/",
    "tests/conformance/",
    "tests/fuzz/",
    "tests/kernel/",
];

/// The counts, by name.
#[must_use]
pub fn counts(files: &[File]) -> BTreeMap<String, usize> {
    let sources: Vec<&File> = files.iter().filter(|f| is_source(&f.path)).collect();
    let bare: usize = sources.iter().map(|f| bare_names(work(&f.text))).sum();
    let wildcards = wildcard_places(files).len();
    let rust = files.iter().filter(|f| f.path.ends_with(".rs"));
    let booleans: usize = rust.map(|f| boolean_matches(&f.text)).sum();
    BTreeMap::from([
        ("functions called take, read, of or look".to_owned(), bare),
        ("matches on booleans".to_owned(), booleans),
        ("wildcard arms for enums of our own in engines".to_owned(), wildcards),
    ])
}

/// Traits with one implementation that the page does not name.
#[must_use]
pub fn lonely_traits(files: &[File], page: &str) -> Vec<Fault> {
    let sources: Vec<&File> = files.iter().filter(|f| is_source(&f.path)).collect();
    let mut implementations: BTreeMap<&str, usize> = BTreeMap::new();
    for file in &sources {
        for line in work(&file.text).lines() {
            if let Some(name) = implemented(line) {
                // What a macro implements, it implements for each row of its table.
                *implementations.entry(name).or_default() += if line.contains('$') { 2 } else { 1 };
            }
        }
    }
    let mut faults = Vec::new();
    for file in sources {
        for (at, line) in work(&file.text).lines().enumerate() {
            let Some(name) = declared(line, "trait ") else { continue };
            if implementations.get(name) == Some(&1) && !page.contains(&format!("::{name}`")) {
                let what = format!(
                    "{name} has one implementation: use its type, or name the trait in the page"
                );
                faults.push(Fault::new(&file.path, at + 1, what));
            }
        }
    }
    faults
}

/// Tests that sleep though no other process or thread is waited for.
#[must_use]
pub fn sleeping_tests(files: &[File]) -> Vec<Fault> {
    let mut faults = Vec::new();
    for file in
        files.iter().filter(|f| f.path.ends_with(".rs") && !f.path.starts_with("tests/tidy/"))
    {
        if WAITING.iter().any(|place| file.path.starts_with(place)) {
            continue;
        }
        let work_len = if is_source(&file.path) { work(&file.text).lines().count() } else { 0 };
        for (at, line) in file.text.lines().enumerate().skip(work_len) {
            if line.contains("thread::sleep(") {
                faults.push(Fault::new(&file.path, at + 1, "a test sleeps: count steps instead"));
            }
        }
    }
    faults
}

fn is_source(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or_default();
    path.starts_with("crates/")
        && path.contains("/src/")
        && name.ends_with(".rs")
        && name != "tests.rs"
        && !path.contains("/tests/")
}

/// A file without its unit tests.
fn work(text: &str) -> &str {
    let end = text.find("\n#[cfg(test)]\nmod tests {").unwrap_or(text.len());
    text.get(..end).unwrap_or(text)
}

/// The name that a line declares with this word.
fn declared<'a>(line: &'a str, word: &str) -> Option<&'a str> {
    let line = line.trim_start();
    let line = match line.strip_prefix("pub") {
        Some(rest) => {
            rest.split_once(word)
                .filter(|(before, _)| before.trim().is_empty() || before.trim_end().ends_with(')'))?
                .1
        }
        None => line.strip_prefix(word)?,
    };
    let end = line.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(line.len());
    line.get(..end).filter(|name| !name.is_empty())
}

/// The trait that a line implements: `impl<T> a::Name<T> for …`.
fn implemented(line: &str) -> Option<&str> {
    let rest = line.trim_start().strip_prefix("impl")?;
    let (name, _) = rest.split_once(" for ")?;
    let name = name.strip_prefix('<').map_or(name, |_| after_generics(name)).trim();
    let name = name.split('<').next().unwrap_or_default();
    name.rsplit("::").next().filter(|name| !name.is_empty())
}

fn after_generics(text: &str) -> &str {
    let mut depth = 0usize;
    for (i, c) in text.char_indices() {
        match c {
            '<' => depth += 1,
            '>' => depth = depth.saturating_sub(1),
            _ => {}
        }
        if depth == 0 {
            return text.get(i + 1..).unwrap_or_default();
        }
    }
    ""
}

/// Functions whose name is only a verb or a preposition; those that a trait asks for count where it is declared.
fn bare_names(text: &str) -> usize {
    let mut is_of_trait = false;
    let mut found = 0;
    for line in text.lines() {
        if line.starts_with("impl") {
            is_of_trait = line.contains(" for ");
        } else if line.starts_with('}') {
            is_of_trait = false;
        }
        let bare = ["fn take", "fn read", "fn of", "fn look"].iter().any(|name| {
            line.find(name).is_some_and(|at| {
                let after = line.get(at + name.len()..).unwrap_or_default();
                let before = line.get(..at).and_then(|b| b.chars().next_back());
                after.starts_with(['(', '<']) && before.is_none_or(char::is_whitespace)
            })
        });
        found += usize::from(bare && !is_of_trait && !line.trim_start().starts_with("//"));
    }
    found
}

/// Matches whose arms are `true` and `false`, by the first `true` of each, with a condition or without.
fn boolean_matches(text: &str) -> usize {
    let arm = |line: &str| line.starts_with("true =>") || line.starts_with("true if ");
    let mut is_in_match = false;
    let mut found = 0;
    for line in text.lines().map(str::trim_start) {
        let is_arm = arm(line);
        found += usize::from(is_arm && !is_in_match);
        is_in_match = is_arm;
    }
    found
}

/// Names of the enums that the sources declare.
fn own_enums<'a>(sources: &[&'a File]) -> BTreeSet<&'a str> {
    sources
        .iter()
        .flat_map(|f| work(&f.text).lines())
        .filter_map(|line| declared(line, "enum "))
        .collect()
}

/// Lines of the arms `_ =>` of matches that have an arm for a variant of an own enum.
fn wildcards(text: &str, own: &BTreeSet<&str>) -> Vec<usize> {
    let lines: Vec<&str> = text.lines().collect();
    let indent = |line: &str| line.len() - line.trim_start().len();
    let mut found = Vec::new();
    for (at, line) in
        lines.iter().enumerate().filter(|(_, line)| line.trim_start().starts_with("_ =>"))
    {
        let depth = indent(line);
        let above =
            lines.iter().take(at).rev().take_while(|l| l.trim().is_empty() || indent(l) >= depth);
        let mut arms = above.filter(|l| !l.trim().is_empty() && indent(l) == depth);
        if arms.any(|arm| is_variant(arm.trim_start(), own)) {
            found.push(at + 1);
        }
    }
    found
}

/// Whether a pattern begins with a variant of one of these enums: `Own::A`, `path::Own::A`, `Self::A`.
fn is_variant(arm: &str, own: &BTreeSet<&str>) -> bool {
    let arm = arm.trim_start_matches(['|', ' ', '(', '&']);
    let end = arm.find(|c: char| !c.is_alphanumeric() && c != '_' && c != ':');
    let mut parts = arm.get(..end.unwrap_or(arm.len())).unwrap_or_default().rsplit("::");
    let (Some(variant), Some(name)) = (parts.next(), parts.next()) else { return false };
    (own.contains(name) || name == "Self")
        && !arm.starts_with("std::")
        && variant.starts_with(|c: char| c.is_uppercase())
        && variant.chars().nth(1).is_none_or(char::is_lowercase)
}

/// Names that a file takes from crates that are not ours: an enum of ours may be called the same.
fn foreign_names(text: &str) -> BTreeSet<&str> {
    const CRATES: &[&str] = &["std", "mlua", "serde_json", "rustix", "flate2", "yaml_rust2"];
    let paths = statements(text).into_iter().filter_map(use_body).flat_map(expanded);
    let is_foreign = |path: &[&str]| path.first().is_some_and(|first| CRATES.contains(first));
    paths.filter(|(path, _)| is_foreign(path)).map(|(_, known_as)| known_as).collect()
}

/// Places with wildcard arms for enums of our own in engines: path and line.
#[must_use]
pub fn wildcard_places(files: &[File]) -> Vec<(&str, usize)> {
    let sources: Vec<&File> = files.iter().filter(|f| is_source(&f.path)).collect();
    let own = own_enums(&sources);
    let is_engine =
        |f: &&File| ENGINES.iter().any(|name| f.path.starts_with(&format!("crates/{name}/")));
    let mut places = Vec::new();
    for file in sources.into_iter().filter(is_engine) {
        let text = work(&file.text);
        let foreign = foreign_names(text);
        let own = own.iter().copied().filter(|name| !foreign.contains(name)).collect();
        places.extend(wildcards(text, &own).into_iter().map(|line| (file.path.as_str(), line)));
    }
    places
}

/// The file with the places whose wildcard arms are meant: path and reason.
pub const WILDCARDS: &str = "tests/tidy/wildcards.tsv";

/// Files with wildcard arms for enums of our own that the list does not name with a reason, and rows that nothing needs.
#[must_use]
pub fn unlisted_wildcards(files: &[File], list: &str) -> Vec<Fault> {
    let rows: BTreeMap<&str, &str> = list
        .lines()
        .filter(|line| !line.starts_with('#'))
        .filter_map(|line| line.split_once('\t'))
        .filter(|(_, reason)| !reason.trim().is_empty())
        .collect();
    let places = wildcard_places(files);
    let unlisted =
        places.iter().filter(|(path, _)| !rows.contains_key(path)).map(|(path, line)| {
            Fault::new(path, *line, "name the variants, or list the file with the reason")
        });
    let needless = rows.keys().filter(|row| !places.iter().any(|(path, _)| path == *row));
    let needless = needless.map(|row| Fault::new(WILDCARDS, 0, format!("{row}: nothing needs it")));
    unlisted.chain(needless).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(path: &str, text: &str) -> File {
        File { path: path.to_owned(), text: text.to_owned() }
    }

    #[test]
    fn a_trait_with_one_implementation_is_named_by_the_page() {
        let files = [
            file(
                "crates/x/src/a.rs",
                "pub trait One {}\npub(crate) trait Two<'a> {}\ntrait Table {}\n",
            ),
            file(
                "crates/y/src/b.rs",
                "impl x::One for A {}\nimpl<'a, T: Into<u8>> Two<'a> for T {}\nimpl Two<'_> for B {}\n\
                 impl Table for $t {}\n",
            ),
        ];
        assert_eq!(lonely_traits(&files, "").len(), 1);
        assert_eq!(lonely_traits(&files, "except `x::One`").len(), 0);
    }

    #[test]
    fn names_without_an_object_are_counted() {
        let text = "fn take(a: u8) {}\n// fn read(\npub fn read<T>() {}\nfn take_all() {}\nfn look(&self) {}\nimpl A for B {\n    fn of() {}\n}\n";
        assert_eq!(bare_names(text), 3);
    }

    #[test]
    fn wildcards_for_own_enums_are_counted() {
        let text = "enum Own { A }\nmatch x {\n    Own::Alpha => 1,\n    _ => 2,\n}\nmatch y {\n    1 => 1,\n    _ => 2,\n}\n\
                    match z {\n    Foreign::Alpha => 1,\n    _ => 2,\n}\n\
                    match a {\n    Self::Alpha(_) => 1,\n    _ => 2,\n}\nmatch b {\n    x::Own::A => 1,\n    _ => 2,\n}\n";
        let files = [file("crates/net/src/a.rs", text)];
        assert_eq!(counts(&files)["wildcard arms for enums of our own in engines"], 3);
        assert_eq!(wildcard_places(&files)[0], ("crates/net/src/a.rs", 4));
        assert_eq!(unlisted_wildcards(&files, "").len(), 3);
        assert_eq!(unlisted_wildcards(&files, "crates/net/src/a.rs\twhy\n"), []);
        assert_eq!(unlisted_wildcards(&[], "crates/net/src/a.rs\twhy\n").len(), 1);
    }

    #[test]
    fn matches_on_booleans_are_counted() {
        let text = "match a {\n    true => 1,\n    false => 2,\n}\nmatch b {\n    1 => true,\n    _ => false,\n}\n";
        assert_eq!(boolean_matches(text), 1);
        let text = "match a {\n    true if b => 1,\n    true => 2,\n    false => 3,\n}\n";
        assert_eq!(boolean_matches(text), 1);
    }

    #[test]
    fn a_test_that_sleeps_is_a_fault_unless_it_drives_a_program() {
        let sleep = "fn f() { std::thread::sleep(d) }\n";
        let unit = format!("fn g() {{}}\n#[cfg(test)]\nmod tests {{\n    {sleep}}}\n");
        let files = [
            file("crates/x/src/a.rs", &unit),
            file("crates/x/tests/b.rs", sleep),
            file("crates/x/src/c.rs", sleep),
            file("crates/cli/tests/d.rs", sleep),
        ];
        assert_eq!(sleeping_tests(&files).len(), 2);
    }
}
