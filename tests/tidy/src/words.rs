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

/// Old names that the program still reads, with the file that does and the reason.
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
    let endings = [".rs", ".md", ".py", ".sh", ".tsv", ".yaml", ".toml", ".service", ".txt"];
    let is_text = endings.iter().any(|e| file.path.ends_with(e)) || file.path == "Makefile";
    if !is_text || LEFT_OUT.iter().any(|(path, _)| *path == file.path) {
        return Vec::new();
    }
    let is_read = |word: &str| STILL_READ.iter().any(|(p, w, _)| *p == file.path && *w == word);
    let words: Vec<&Word> = words.iter().filter(|word| !is_read(&word.word)).collect();
    let mut faults = Vec::new();
    for (at, line) in file.text.lines().enumerate() {
        let plain = plain(line);
        for word in words.iter().filter(|word| has(&plain, &word.word)) {
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
}
