//! Limits are in the tables of `limits.rs`; a limit that loses something is counted, and a test
//! reaches it.
//!
//! A constant is recognized as a limit by its name. Constants that only have such a name are in
//! `NO_LIMITS` with the reason.

use crate::Fault;
use crate::tree::File;

/// Crates whose limits are all in their tables.
const CRATES: &[&str] = &[
    "behavior",
    "capture",
    "cli",
    "condition",
    "flow",
    "flowlog",
    "guard",
    "intake",
    "logs",
    "matcher",
    "net",
    "outputs",
    "packet",
    "probe",
    "proto",
    "record",
    "reports",
    "rules",
    "runtime",
    "scap",
    "seal",
    "sensor",
    "settings",
    "syscall",
];

/// Words in the name of a constant that bounds work or memory.
const WORDS: &[&str] = &[
    "MAX", "LIMIT", "CAP", "CAPACITY", "DEPTH", "ROOM", "ROOMS", "MOST", "LONGEST", "LARGEST",
    "BUDGET", "SPARE", "SPARES", "STEPS",
];

/// Number types.
const NUMBERS: &[&str] =
    &["usize", "u8", "u16", "u32", "u64", "u128", "i32", "i64", "Duration", "f64"];

/// Constants that are not limits: file, name, reason.
const NO_LIMITS: &[(&str, &str, &str)] = &[
    ("crates/record/src/applayer.rs", "FRAME_KINDS_MAX", "a check of tables at compile time"),
    ("crates/record/src/budget.rs", "CHUNK_MAX", "the part of a budget that moves at a time"),
    ("crates/record/src/ip.rs", "V4_TEXT_MAX", "the longest text of an address"),
    ("crates/rules/src/keywords/content.rs", "ANCHOR_MAX", "a range of the rule language"),
    ("crates/rules/src/keywords/content.rs", "VALUE_MAX", "a range of the rule language"),
    ("crates/net/src/script/pattern.rs", "STEPS_PER_INSTRUCTION", "the charge of one step"),
    ("crates/behavior/src/save_and_restore.rs", "ROOM", "the budget of a test"),
    ("crates/behavior/src/rita.rs", "REASONS_MAX", "the number of reasons"),
    ("crates/behavior/src/hostile.rs", "ROOM", "the budget of a test"),
    ("crates/behavior/src/step_floods.rs", "ROOM", "the budget of a test"),
    (
        "crates/behavior/src/sketch/hyperloglog.rs",
        "RANK_MAX",
        "the largest rank of a hash of 64 bits",
    ),
    ("crates/syscall/src/state/process.rs", "FD_LIMIT", "the place of a parameter"),
    ("crates/net/src/datasets.rs", "ROOM", "what the memory account of a dataset starts with"),
];

/// The words for the effect of reaching a limit of a table.
const LOSES: &str = "Loses(";

/// Limits outside of `limits.rs`.
#[must_use]
pub fn outside(files: &[File]) -> Vec<Fault> {
    let mut faults = Vec::new();
    for file in files.iter().filter(|f| is_source(&f.path) && !f.path.ends_with("/limits.rs")) {
        for (number, line) in work(file).lines().enumerate() {
            let Some(name) = constant(line).filter(|name| is_limit(name)) else { continue };
            let is_known = NO_LIMITS.iter().any(|(path, n, _)| *path == file.path && *n == name);
            if !is_known {
                let what = format!("{name} is a limit: move it to the table of limits.rs");
                faults.push(Fault::new(&file.path, number + 1, what));
            }
        }
    }
    faults
}

/// Limits of tables that lose something and are not counted, or not reached by a test.
#[must_use]
pub fn uncounted(files: &[File]) -> Vec<Fault> {
    let mut faults = Vec::new();
    for table in files.iter().filter(|f| is_source(&f.path) && f.path.ends_with("/limits.rs")) {
        let folder = table.path.trim_end_matches("limits.rs");
        // The table of a whole crate may be tested by the crate's own tests, too.
        let tests_folder = folder.strip_suffix("/src/").map(|name| format!("{name}/tests/"));
        let lines = work(table);
        let name_of_table = table_name(lines).unwrap_or_default();
        for (number, name) in losing(lines) {
            let counts = format!("reached::{name}");
            let full = format!("{name_of_table}.{}", name.to_lowercase());
            let is_counted = files.iter().any(|f| {
                f.path.starts_with(folder) && f.path != table.path && has(work(f), &counts)
            });
            let is_tested = files.iter().any(|f| {
                let tests = tests_of(f);
                let is_near = f.path.starts_with(folder)
                    || tests_folder.as_ref().is_some_and(|tests| f.path.starts_with(tests));
                let own = is_near && has(tests, &counts);
                own || tests.contains(&format!("\"{full}\""))
            });
            let mut fault = |what: &str| {
                faults.push(Fault::new(&table.path, number, format!("{name} {what}")));
            };
            if !is_counted {
                fault("loses something and is not counted (reached::NAME.count())");
            }
            if !is_tested {
                fault("loses something and no test reaches it");
            }
        }
    }
    faults
}

fn is_source(path: &str) -> bool {
    CRATES.iter().any(|name| path.starts_with(&format!("crates/{name}/src/")))
}

/// Whether the text contains the word as a whole word.
fn has(text: &str, word: &str) -> bool {
    text.match_indices(word).any(|(at, _)| {
        let next = text.get(at + word.len()..).and_then(|rest| rest.chars().next());
        !next.is_some_and(|c| c.is_alphanumeric() || c == '_')
    })
}

/// The part of a file before its tests.
fn work(file: &File) -> &str {
    if is_test(&file.path) { "" } else { split(&file.text).0 }
}

/// The tests of a file.
fn tests_of(file: &File) -> &str {
    if is_test(&file.path) {
        &file.text
    } else if file.path.ends_with(".rs") {
        split(&file.text).1
    } else {
        ""
    }
}

/// Whether the file has only tests.
fn is_test(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or_default();
    path.contains("/tests/") || matches!(name, "tests.rs" | "model.rs")
}

/// Splits a file at its tests, which are at its end.
fn split(text: &str) -> (&str, &str) {
    let forms = ["#[cfg(test)]\nmod ", "#[cfg(test)]\npub(crate) mod "];
    let at = forms.iter().filter_map(|form| text.find(form)).min();
    at.map_or((text, ""), |at| text.split_at(at))
}

/// The name of the number constant that a line declares.
fn constant(line: &str) -> Option<&str> {
    let mut line = line.trim_start();
    for before in ["pub(crate) ", "pub(super) ", "pub "] {
        line = line.strip_prefix(before).unwrap_or(line);
    }
    let (name, rest) = line.strip_prefix("const ")?.split_once(": ")?;
    let kind = rest.split_once(" =")?.0.rsplit("::").next()?;
    NUMBERS.contains(&kind).then_some(name)
}

fn is_limit(name: &str) -> bool {
    name.split('_').any(|word| WORDS.contains(&word))
}

/// The name under which a table's limits are counted.
fn table_name(text: &str) -> Option<&str> {
    let (_, rest) = text.split_once("limits! { \"")?;
    rest.split_once('"').map(|(name, _)| name)
}

/// Lines and names of the limits that lose something.
fn losing(text: &str) -> Vec<(usize, &str)> {
    let mut found = Vec::new();
    let mut last = None;
    for (at, line) in text.lines().enumerate() {
        last = constant(line).map(|name| (at + 1, name)).or(last);
        if line.contains(LOSES) {
            found.extend(last);
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

    fn texts(faults: &[Fault]) -> Vec<String> {
        faults.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_limit_outside_of_its_table_is_found() {
        let text = "//! A.\nconst PIECES_MAX: usize = 7;\npub(super) const LEN: usize = 2;\n\
                    fn f() {\n    const WAIT_MOST: std::time::Duration = W;\n}\n\
                    #[cfg(test)]\nmod tests {\n    const N_MAX: usize = 1;\n}\n";
        let files = [
            file("crates/net/src/a.rs", text),
            file("crates/net/src/limits.rs", text),
            file("crates/record/src/ip.rs", "const V4_TEXT_MAX: usize = 15;\n"),
        ];
        let found = texts(&outside(&files));
        assert_eq!(found.len(), 2, "{found:?}");
        assert!(found[0].starts_with("crates/net/src/a.rs:2: PIECES_MAX"), "{found:?}");
        assert!(found[1].starts_with("crates/net/src/a.rs:5: WAIT_MOST"), "{found:?}");
    }

    #[test]
    fn losing_limits_must_be_counted_and_reached() {
        let table = "limits! { \"net\";\n    pub const A_MAX: usize = 1,\n        Loses(\"a\");\n    \
                     pub const B_MAX: usize = 1, Spares(\"b\");\n    pub const C_MAX: usize = 1, \
                     Loses(\"c\");\n}\n";
        let source = "fn f() { reached::A_MAX.count(); reached::C_MAX_OF_ALL.count() }\n\
                      #[cfg(test)]\nmod tests { fn t() { of(&reached::C_MAX) } }\n";
        let mut files =
            vec![file("crates/net/src/limits.rs", table), file("crates/net/src/a.rs", source)];
        let found = texts(&uncounted(&files));
        assert_eq!(found.len(), 2, "{found:?}");
        assert!(found[0].starts_with("crates/net/src/limits.rs:2: A_MAX loses"), "{found:?}");
        assert!(found[1].contains("C_MAX loses something and is not counted"), "{found:?}");
        files.push(file("crates/cli/tests/limits.rs", "times(&report, \"net.a_max\")"));
        assert_eq!(uncounted(&files).len(), 1);
    }
}
