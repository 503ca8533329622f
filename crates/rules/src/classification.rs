//! `classification.config` and `reference.config`: classes of rules with their priorities, and
//! what reference names stand for.

use crate::diagnostic::{Diagnostic, Severity};
use crate::ruleset::Classification;

/// Reads `config classification: name,text,priority` lines. Of several with one name the first
/// holds.
pub fn parse(text: &str, file: &str) -> (Vec<Classification>, Vec<Diagnostic>) {
    let mut classes: Vec<Classification> = Vec::new();
    let said = lines(text, file, |line| {
        let Some(class) = class(line) else {
            return Some((
                Diagnostic::CLASSES,
                format!("Invalid Classtype in classification.config file {file}: \"{line}\""),
                "`config classification: name,text,priority`",
            ));
        };
        if !classes.iter().any(|k| k.name.eq_ignore_ascii_case(&class.name)) {
            classes.push(class);
        }
        None
    });
    (classes, said)
}

/// Reads `config reference: system prefix` lines into pairs.
pub fn read_references(text: &str, file: &str) -> (Vec<(String, String)>, Vec<Diagnostic>) {
    let mut systems: Vec<(String, String)> = Vec::new();
    let said = lines(text, file, |line| {
        let Some((name, prefix)) = reference(line) else {
            return Some((
                Diagnostic::REFERENCES,
                "Invalid Reference Config in reference.config file".to_string(),
                "`config reference: system prefix`",
            ));
        };
        if !systems.iter().any(|(n, _)| n.eq_ignore_ascii_case(&name)) {
            systems.push((name, prefix));
        }
        None
    });
    (systems, said)
}

/// Hands over each line that is neither blank nor a comment; what it returns is what is wrong.
fn lines(
    text: &str,
    file: &str,
    mut each: impl FnMut(&str) -> Option<(&'static str, String, &'static str)>,
) -> Vec<Diagnostic> {
    let mut said = Vec::new();
    for (number, line) in (1u32..).zip(text.lines()) {
        let trimmed = line.trim();
        if trimmed.is_empty() || trimmed.starts_with('#') {
            continue;
        }
        if let Some((subsystem, message, reason)) = each(trimmed) {
            said.push(Diagnostic {
                file: file.to_string(),
                line: number,
                column: 1,
                len: u32::try_from(line.len()).unwrap_or(0),
                severity: Severity::Error,
                subsystem,
                message,
                reason: Some(reason.to_string()),
                rule: line.to_string(),
                sid: None,
            });
        }
    }
    said
}

fn after<'t>(line: &'t str, word: &str) -> Option<&'t str> {
    let rest = line.strip_prefix("config")?;
    let rest = rest.trim_start().strip_prefix(word)?;
    Some(rest.trim_start().strip_prefix(':')?.trim())
}

fn class(line: &str) -> Option<Classification> {
    let rest = after(line, "classification")?;
    let mut parts = rest.split(',');
    let name = parts.next()?.trim();
    let text = parts.next()?.trim();
    let priority = parts.next()?.trim().parse().ok()?;
    let plain = |b: u8| b.is_ascii_alphanumeric() || b == b'-' || b == b'_';
    let first_ok = name.starts_with(|c: char| c.is_ascii_alphabetic());
    if parts.next().is_some() || !first_ok || !name.bytes().all(plain) {
        return None;
    }
    Some(Classification { name: name.to_string(), text: text.to_string(), priority })
}

fn reference(line: &str) -> Option<(String, String)> {
    let rest = after(line, "reference")?;
    let (name, prefix) = rest.split_once(char::is_whitespace)?;
    let plain = |b: u8| b.is_ascii_alphanumeric() || b == b'-' || b == b'_';
    if name.is_empty() || !name.bytes().all(plain) {
        return None;
    }
    Some((name.to_string(), prefix.trim().to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_and_references_are_read() {
        let text =
            "# c\n\nconfig classification: bad-unknown,Potentially Bad Traffic, 2\nnonsense\n";
        let (classes, said) = parse(text, "f");
        assert_eq!(classes.len(), 1);
        assert_eq!((classes[0].text.as_str(), classes[0].priority), ("Potentially Bad Traffic", 2));
        assert_eq!((said.len(), said[0].line), (1, 4));
        let (systems, said) = read_references("config reference: cve   https://x?name=\nx", "f");
        assert_eq!(systems, [("cve".to_string(), "https://x?name=".to_string())]);
        assert_eq!(said.len(), 1);
    }
}
