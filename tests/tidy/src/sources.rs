//! Rules about single files: their first lines, their length, and forbidden content.

use crate::Fault;
use crate::tree::File;

/// Most lines of a source file; a longer one has more than one subject.
pub const LINES_MAX: usize = 1_000;

/// Runs every check of this module over one file.
#[must_use]
pub fn check(file: &File) -> Vec<Fault> {
    let mut faults = places_of_work(file);
    if file.path.ends_with(".rs") {
        faults.extend(opening(file));
        faults.extend(length(file));
        faults.extend(words(file));
        faults.extend(safety(file));
        faults.extend(name(file));
    } else if file.text.starts_with("#!") {
        faults.extend(script(file));
    }
    faults
}

/// A Rust file begins with a description of its content.
fn opening(file: &File) -> Option<Fault> {
    let first = file.text.lines().next().unwrap_or_default();
    let says = first.strip_prefix("//!").is_some_and(|rest| rest.trim().len() > 3);
    (!says).then(|| Fault::new(&file.path, 1, "the first line does not describe the file (//!)"))
}

fn length(file: &File) -> Option<Fault> {
    let lines = file.text.lines().count();
    let what = format!("{lines} lines, more than {LINES_MAX}: split the file by subject");
    (lines > LINES_MAX).then(|| Fault::new(&file.path, 0, what))
}

/// Macros and notes that mean unfinished work, and lints that hide it.
fn words(file: &File) -> Vec<Fault> {
    const HALVES: &[(&str, &str)] = &[
        ("to", "do!("),
        ("unimple", "mented!("),
        ("db", "g!("),
        ("TO", "DO"),
        ("FIX", "ME"),
        ("XX", "X:"),
        ("allow(dead_", "code"),
    ];
    let words: Vec<String> = HALVES.iter().map(|(a, b)| format!("{a}{b}")).collect();
    let mut faults = Vec::new();
    for (number, line) in numbered(file) {
        for word in words.iter().filter(|word| has_word(line, word)) {
            if line.contains("reason = ") {
                continue; // an attribute with a reason is not unfinished work
            }
            faults.push(Fault::new(&file.path, number, format!("{word} marks unfinished work")));
        }
    }
    faults
}

/// Whether `line` contains `word`, and not only as the end of a longer word.
fn has_word(line: &str, word: &str) -> bool {
    line.match_indices(word).any(|(at, _)| {
        let before = line.get(..at).and_then(|b| b.chars().next_back());
        !before.is_some_and(|c| c.is_alphanumeric() || c == '_')
    })
}

/// Every unsafe block, impl and trait has a comment above it that explains why it is sound.
fn safety(file: &File) -> Vec<Fault> {
    let lines: Vec<&str> = file.text.lines().collect();
    let mut faults = Vec::new();
    for (at, line) in lines.iter().enumerate() {
        if is_unsafe(line) && !is_explained(&lines, at) {
            let what = "no // SAFETY: comment above it naming the invariant and who keeps it";
            faults.push(Fault::new(&file.path, at + 1, what));
        }
    }
    faults
}

/// Whether the line has an unsafe block or implementation (comments do not count).
#[must_use]
pub fn is_unsafe(line: &str) -> bool {
    let code = code_of(line);
    ["unsafe {", "unsafe impl", "unsafe extern"].iter().any(|form| has_word(&code, form))
}

/// A line without its comment and without the text in its strings.
fn code_of(line: &str) -> String {
    let mut code = String::new();
    let (mut is_text, mut is_escaped) = (false, false);
    for (at, c) in line.char_indices() {
        if !is_text && line.get(at..).is_some_and(|rest| rest.starts_with("//")) {
            break;
        }
        let is_quote =
            c == '"' && !is_escaped && !line.get(..at).is_some_and(|b| b.ends_with('\''));
        is_escaped = is_text && c == '\\' && !is_escaped;
        is_text ^= is_quote;
        if !is_text {
            code.push(c);
        }
    }
    code
}

/// Whether a comment explains the unsafe code in a line. Lines of the same statement may be between
/// the comment and the line.
fn is_explained(lines: &[&str], at: usize) -> bool {
    /// Lines that a statement may have before its unsafe block.
    const REACH: usize = 6;
    let mut above = lines.iter().take(at).rev().map(|line| line.trim());
    for _ in 0..REACH {
        match above.next() {
            Some(line) if line.contains("SAFETY:") => return true,
            Some(line) if line.starts_with("//") => {
                return above.take_while(|l| l.starts_with("//")).any(|l| l.contains("SAFETY:"));
            }
            Some(line) if line.ends_with(';') || line.ends_with('}') => return false,
            Some(_) => {}
            None => return false,
        }
    }
    false
}

/// File names without meaning.
fn name(file: &File) -> Option<Fault> {
    const EMPTY: &[&str] =
        &["util", "utils", "helper", "helpers", "manager", "common", "misc", "data", "info"];
    let stem = file.path.rsplit('/').next().unwrap_or_default().trim_end_matches(".rs");
    let stem = match stem {
        "mod" => file.path.rsplit('/').nth(1).unwrap_or_default(),
        other => other,
    };
    EMPTY.contains(&stem).then(|| Fault::new(&file.path, 0, "the name does not describe the file"))
}

/// A script describes itself in its second line and stops at the first error.
fn script(file: &File) -> Vec<Fault> {
    let mut faults = Vec::new();
    if !file.text.lines().nth(1).is_some_and(|line| line.starts_with("# ")) {
        faults.push(Fault::new(&file.path, 2, "the second line does not describe the script"));
    }
    if file.text.starts_with("#!/usr/bin/env bash") && !file.text.contains("\nset -euo pipefail") {
        faults.push(Fault::new(&file.path, 0, "no `set -euo pipefail`"));
    }
    faults
}

/// Absolute paths of a person's or a machine's folders, which exist only there.
fn places_of_work(file: &File) -> Vec<Fault> {
    const HALVES: &[(&str, &str)] =
        &[("/ho", "me/"), ("/ro", "ot/"), ("/wo", "rk/"), ("/tm", "p/g/"), ("/Us", "ers/")];
    // Rules and their tests contain paths that attackers use.
    if file.path.ends_with(".rules") {
        return Vec::new();
    }
    let mut faults = Vec::new();
    for (number, line) in numbered(file) {
        for (a, b) in HALVES {
            let place = format!("{a}{b}");
            if starts_a_path(line, &place) {
                faults.push(Fault::new(
                    &file.path,
                    number,
                    format!("names a folder below {place}"),
                ));
            }
        }
    }
    faults
}

/// Whether a path in `line` starts with `place`, and not only a later part of a URL or path.
fn starts_a_path(line: &str, place: &str) -> bool {
    line.match_indices(place).any(|(at, _)| {
        let before = line.get(..at).and_then(|b| b.chars().next_back());
        !before.is_some_and(|c| c.is_alphanumeric() || "_-./~)}%".contains(c))
    })
}

fn numbered(file: &File) -> impl Iterator<Item = (usize, &str)> {
    file.text.lines().enumerate().map(|(at, line)| (at + 1, line))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn faults(path: &str, text: &str) -> Vec<String> {
        let file = File { path: path.to_owned(), text: text.to_owned() };
        check(&file).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_good_file_has_no_faults() {
        let text = "//! Holds an example.\n\n// SAFETY: nobody else has the pointer.\nlet x = unsafe { f() };\n";
        assert_eq!(faults("a/good.rs", text), Vec::<String>::new());
    }

    #[test]
    fn each_rule_finds_its_violation() {
        let opening = "//! Holds something.\n";
        let cases: &[(&str, String, &str)] = &[
            ("a.rs", "use std::fs;\n".to_owned(), "a.rs:1: the first line"),
            ("a.rs", "//!\n".to_owned(), "a.rs:1: the first line"),
            ("a.rs", format!("{opening}{}", "\n".repeat(LINES_MAX)), "a.rs: 1001 lines"),
            ("a.rs", format!("{opening}let x = {}!();\n", concat!("to", "do")), "marks unfinished"),
            ("a.rs", format!("{opening}// {}: later\n", concat!("FIX", "ME")), "marks unfinished"),
            ("a.rs", format!("{opening}let x = unsafe {{ f() }};\n"), "a.rs:2: no // SAFETY"),
            (
                "a.rs",
                format!("{opening}// SAFETY: one.\nlet x = 1;\nunsafe {{ f() }};\n"),
                "a.rs:4: no",
            ),
            ("a/utils.rs", opening.to_owned(), "the name does not describe"),
            ("a/helper/mod.rs", opening.to_owned(), "the name does not describe"),
            ("x.sh", "#!/usr/bin/env bash\nset -e\n".to_owned(), "x.sh:2: the second line"),
            ("x.md", format!("see `{}me/x`\n", "/ho"), "x.md:1: names a folder"),
        ];
        for (path, text, expected) in cases {
            let found = faults(path, text);
            assert!(found.iter().any(|f| f.contains(expected)), "{path}: {text}: {found:?}");
        }
    }

    #[test]
    fn words_inside_others_are_allowed() {
        let text =
            format!("//! Holds something.\nlet mastodon = x.{}(1); // a/{}me/b\n", "autodo", "ho");
        assert_eq!(faults("a.rs", &text), Vec::<String>::new());
    }

    #[test]
    fn a_safety_comment_may_be_before_the_statement() {
        let text = "//! Holds something.\n// SAFETY: the map is ours,\n// and stays.\nlet x =\n    unsafe { f() };\n";
        assert_eq!(faults("a.rs", text), Vec::<String>::new());
    }

    #[test]
    fn words_in_strings_and_comments_are_not_code() {
        assert_eq!(code_of(r#"f("a // \" b", '"') // c"#), r#"f(", '"') "#);
        let word = concat!("un", "safe");
        assert!(!is_unsafe(&format!("let x = \"{word} {{ f() }}\"; // {word} {{ g() }}")));
        assert!(is_unsafe(&format!("g(\"x\", {word} {{ f() }});")));
    }
}
