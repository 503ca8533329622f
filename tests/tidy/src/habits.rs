//! Habits of code that the pages ask for: traits with one implementation are named by `ARCHITECTURE.md`, tests sleep
//! only where they drive another process or thread, and counts that may only fall: functions whose name has no object
//! (`fn read`), matches on booleans, and wildcard arms for enums of our own in engines.

use crate::Fault;
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
    let own = own_enums(&sources);
    let engines = sources
        .iter()
        .filter(|f| ENGINES.iter().any(|name| f.path.starts_with(&format!("crates/{name}/"))));
    let bare: usize = sources.iter().map(|f| bare_names(work(&f.text))).sum();
    let wildcards: usize = engines.map(|f| wildcards(work(&f.text), &own)).sum();
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

/// Arms `_ =>` of matches that have an arm for a variant of an own enum.
fn wildcards(text: &str, own: &BTreeSet<&str>) -> usize {
    let lines: Vec<&str> = text.lines().collect();
    let indent = |line: &str| line.len() - line.trim_start().len();
    let mut found = 0;
    for (at, line) in
        lines.iter().enumerate().filter(|(_, line)| line.trim_start().starts_with("_ =>"))
    {
        let depth = indent(line);
        let above =
            lines.iter().take(at).rev().take_while(|l| l.trim().is_empty() || indent(l) >= depth);
        let mut arms = above.filter(|l| !l.trim().is_empty() && indent(l) == depth);
        found += usize::from(arms.any(|arm| is_variant(arm.trim_start(), own)));
    }
    found
}

/// Whether a pattern begins with a variant of one of these enums.
fn is_variant(arm: &str, own: &BTreeSet<&str>) -> bool {
    let arm = arm.trim_start_matches(['|', ' ', '(', '&']);
    let Some((name, rest)) = arm.split_once("::") else { return false };
    own.contains(name)
        && rest.starts_with(|c: char| c.is_uppercase())
        && rest.chars().nth(1).is_some_and(char::is_lowercase)
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
                    match z {\n    Foreign::Alpha => 1,\n    _ => 2,\n}\n";
        let files = [file("crates/net/src/a.rs", text)];
        assert_eq!(counts(&files)["wildcard arms for enums of our own in engines"], 1);
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
