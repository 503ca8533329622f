//! Counts that may only fall: the size of the binary, circles of files, long lists of
//! parameters, errors that are plain text. `tests/tidy/counts.tsv` has the lowest counts so far.
//!
//! A count shows where the structure is worst; it is not a goal in itself. `UPDATE=1` lowers the
//! kept counts to the current ones and never raises one.

use crate::circles::circles;
use crate::tree::File;
use std::collections::BTreeMap;

/// The file with the kept counts.
pub const PATH: &str = "tests/tidy/counts.tsv";

/// Errors that are plain text, and the names of their counts: a caller can't decide by them without their words.
const TEXT_ERRORS: &[(&str, &str)] = &[
    ("String", "results with text as error outside cli"),
    ("&'static str", "results with a fixed text as error outside cli"),
];

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

#[cfg(test)]
mod tests {
    use super::*;

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
