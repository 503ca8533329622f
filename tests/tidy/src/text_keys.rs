//! Texts that crates decide by, and errors that are nothing but a text: a sentence or a name can be changed only where
//! nothing compares it. The counts are kept in `counts.tsv` and may only fall.

use crate::Fault;
use crate::counts::{is_source, work};
use crate::tree::File;
use std::collections::BTreeSet;

/// Where evidence has its names.
const DETECTORS: &str = "crates/behavior/src/";

/// Lines of code outside of `behavior` with the name of a type of evidence in quotes: what such a line decides is a
/// field of the type.
#[must_use]
pub fn evidence_names(files: &[File]) -> Vec<Fault> {
    let mut names = BTreeSet::new();
    for file in files.iter().filter(|f| f.path.starts_with(DETECTORS)) {
        for rest in work(&file.text).split("EvidenceType::new(").skip(1) {
            let name = rest.split('"').nth(1).unwrap_or_default();
            names.insert(format!("\"{name}\""));
        }
    }
    let others = files.iter().filter(|f| is_source(&f.path) && !f.path.starts_with(DETECTORS));
    lines_with(others, |line| names.iter().any(|name| line.contains(name.as_str())))
}

/// Comparisons of a subsystem or of a stage with a text in quotes: the owner has a constant or a question for it.
#[must_use]
pub fn compared_names(files: &[File]) -> Vec<Fault> {
    const FORMS: [&str; 4] =
        [".subsystem == \"", ".subsystem != \"", ".stage == \"", ".stage != \""];
    let sources = files.iter().filter(|f| is_source(&f.path));
    lines_with(sources, |line| FORMS.iter().any(|form| line.contains(form)))
}

/// Variants of errors outside of `cli` that carry a sentence and nothing else.
#[must_use]
pub fn errors_of_text(files: &[File]) -> Vec<Fault> {
    let mut found = Vec::new();
    for file in files.iter().filter(|f| is_source(&f.path) && !f.path.starts_with("crates/cli/")) {
        let lines: Vec<&str> = work(&file.text).lines().map(str::trim).collect();
        for (at, pair) in lines.windows(2).enumerate() {
            let [attribute, variant] = pair else { continue };
            let is_text = match *attribute {
                "#[error(\"{0}\")]" => {
                    variant.ends_with("(String),") || variant.ends_with("(&'static str),")
                }
                other => other == "#[error(\"{what}\")]",
            };
            if is_text {
                found.push(Fault::new(&file.path, at + 2, "an error that is a text alone"));
            }
        }
    }
    found
}

fn lines_with<'f>(
    files: impl Iterator<Item = &'f File>,
    is_one: impl Fn(&str) -> bool,
) -> Vec<Fault> {
    let mut found = Vec::new();
    for file in files {
        for (at, line) in work(&file.text).lines().enumerate() {
            if !line.trim_start().starts_with("//") && is_one(line) {
                found.push(Fault::new(&file.path, at + 1, "decides by a text of another crate"));
            }
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

    fn places(found: Vec<Fault>) -> Vec<(String, usize)> {
        found.into_iter().map(|fault| (fault.path, fault.line)).collect()
    }

    #[test]
    fn names_and_sentences_between_crates_are_found() {
        let files = [
            file("crates/behavior/src/detect/a.rs", "EvidenceType::new(\"BEACON\", \"T1\")\n"),
            file("crates/outputs/src/a.rs", "// \"BEACON\"\nif kind == \"BEACON\" {}\n"),
            file("crates/reports/src/a.rs", "d.subsystem != \"rule-vars\"\n"),
            file(
                "crates/net/src/a.rs",
                "    #[error(\"{0}\")]\n    Policy(String),\n    #[error(\"{0}\")]\n    Log(#[from] Error),\n",
            ),
        ];
        assert_eq!(places(evidence_names(&files)), [("crates/outputs/src/a.rs".to_owned(), 2)]);
        assert_eq!(places(compared_names(&files)), [("crates/reports/src/a.rs".to_owned(), 1)]);
        assert_eq!(places(errors_of_text(&files)), [("crates/net/src/a.rs".to_owned(), 2)]);
    }
}
