//! Words that the glossary replaces: the table "Replaced words" of `docs/glossary.md`, refused in
//! code, comments, messages and documents.
//!
//! Names in code count too: `fn told` and `ToldOnce` are found by the word in them.

use crate::Fault;
use crate::tree::File;

/// The page that holds the table.
pub const PAGE: &str = "docs/glossary.md";

/// Files that must contain the words, with the reason.
const LEFT_OUT: &[(&str, &str)] =
    &[(PAGE, "the table itself"), ("tests/tidy/src/words.rs", "its tests")];

/// Words that a file may contain, as old names that the program still reads, with the reason.
const STILL_READ: &[(&str, &str, &str)] = &[
    ("crates/reports/src/doctor/run.rs", "joint", "in `run.json` of runs before 0.1"),
    ("crates/intake/src/live_counts.rs", "joint", "in metrics of listeners before 0.1"),
];

/// A word and what replaces it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Word {
    /// Lower case; several words are separated by one space.
    pub word: String,
    /// What to write instead.
    pub instead: String,
}

/// The words of the table whose head is `| not | but |`.
#[must_use]
pub fn read_table(page: &str) -> Vec<Word> {
    let rows = page.lines().skip_while(|line| !line.starts_with("| not | but |")).skip(2);
    let mut words = Vec::new();
    for row in rows.take_while(|line| line.starts_with('|')) {
        let cells: Vec<&str> = row.trim_matches('|').split('|').map(str::trim).collect();
        if let [forms, instead] = cells.as_slice() {
            words.extend(forms.split(',').map(|form| Word {
                word: form.trim().to_lowercase(),
                instead: (*instead).to_owned(),
            }));
        }
    }
    words
}

/// Every line of a file with such a word.
#[must_use]
pub fn check(file: &File, words: &[Word]) -> Vec<Fault> {
    const ENDINGS: &[&str] =
        &["rs", "c", "h", "md", "py", "sh", "tsv", "yaml", "toml", "service", "txt"];
    let ending = file.path.rsplit_once('.').map(|(_, ending)| ending).unwrap_or_default();
    let is_text = ENDINGS.contains(&ending) || file.path == "Makefile";
    if !is_text || LEFT_OUT.iter().any(|(path, _)| *path == file.path) {
        return Vec::new();
    }
    let is_read = |word: &str| STILL_READ.iter().any(|(p, w, _)| *p == file.path && *w == word);
    let words: Vec<&Word> = words.iter().filter(|word| !is_read(&word.word)).collect();
    let lines: Vec<String> = file.text.lines().map(plain).collect();
    let mut faults = Vec::new();
    for (at, line) in lines.iter().enumerate() {
        let next = lines.get(at + 1).map_or("", String::as_str);
        let is_here = |word: &str| has(line, word) || is_across(line, next, word);
        for word in words.iter().filter(|word| is_here(&word.word)) {
            let what = format!("\"{}\": write {}", word.word, word.instead);
            faults.push(Fault::new(&file.path, at + 1, what));
        }
    }
    faults
}

/// The line in lower case, with names split into words: `ToldOnce` and `told_once` are `told once`.
fn plain(line: &str) -> String {
    let mut plain = String::with_capacity(line.len() + 8);
    let mut last = ' ';
    for c in line.chars() {
        if c.is_uppercase() && last.is_lowercase() {
            plain.push(' ');
        }
        match c {
            '_' | '-' => plain.push(' '),
            c => plain.extend(c.to_lowercase()),
        }
        last = c;
    }
    plain
}

/// Whether several words are at the end of a line and at the start of the next, as where a comment is wrapped.
fn is_across(line: &str, next: &str, words: &str) -> bool {
    words.match_indices(' ').any(|(at, _)| {
        let (before, after) = words.split_at(at);
        let line = line.trim_end();
        let next = next.trim_start_matches(|c: char| c.is_whitespace() || "/!#*>".contains(c));
        let (first, second) = (line.strip_suffix(before), next.strip_prefix(after.trim_start()));
        first.zip(second).is_some_and(|(first, second)| {
            !first.ends_with(char::is_alphanumeric) && !second.starts_with(char::is_alphanumeric)
        })
    })
}

/// Whether the text contains the word as a whole word.
fn has(text: &str, word: &str) -> bool {
    text.match_indices(word).any(|(at, _)| {
        let before = text.get(..at).and_then(|b| b.chars().next_back());
        let after = text.get(at + word.len()..).and_then(|a| a.chars().next());
        !before.is_some_and(char::is_alphanumeric) && !after.is_some_and(char::is_alphanumeric)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_found_whole_in_prose_and_in_names() {
        let page =
            "x\n\n| not | but |\n|---|---|\n| told, so many | reported |\n| joint | stage |\n\nx\n";
        let words = read_table(page);
        assert_eq!(words.len(), 3);
        let text = "//! It is told.\nfn told_once() {}\nstruct ToldOnce;\nlet untold = jointly();\n\
                    // So  many\n// so many\n";
        let file = File { path: "a.rs".to_owned(), text: text.to_owned() };
        let found: Vec<usize> = check(&file, &words).iter().map(|f| f.line).collect();
        assert_eq!(found, [1, 2, 3, 6]);
    }

    #[test]
    fn words_are_found_where_a_comment_is_wrapped() {
        let words = read_table("| not | but |\n|---|---|\n| given up, so many | shed |\n");
        for (path, text) in [
            ("a.rs", "//! Each was given\n//! up.\n"),
            ("a.h", "/* There are so\n * many. */\n"),
            ("a.py", "# So\n# many lines\n"),
        ] {
            let file = File { path: path.to_owned(), text: text.to_owned() };
            assert_eq!(check(&file, &words).len(), 1, "{path}");
        }
        let text = "// It was forgiven\n// up to then: so\n// manyfold.\n".to_owned();
        assert_eq!(check(&File { path: "a.rs".to_owned(), text }, &words), []);
    }
}
