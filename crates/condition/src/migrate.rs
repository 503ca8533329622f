//! Rewrites rule files that name enter events: `evt.dir` means nothing where a call is one event, and rules that ask for
//! `evt.dir = <` ask for every event.
//!
//! The text is changed where it names the field and nowhere else, so that comments and layout stay.

use crate::limits::RULE_FILE_BYTES_MAX;
use regex::Regex;
use std::sync::LazyLock;

/// A rule file without `evt.dir`, and what a person should know.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Migrated {
    /// The new text.
    pub text: String,
    /// Places that were changed.
    pub changed: usize,
    /// Lines, from 1, whose rules were for enter events: they are tried at the end of the call now.
    pub enter_events: Vec<usize>,
    /// Lines, from 1, that still name the field, because its place in the condition is not one of the usual ones.
    pub left: Vec<usize>,
}

/// `and evt.dir = <`, on one line or two.
static AFTER_AND: LazyLock<Regex> =
    LazyLock::new(|| pattern(r#"\s+and\s+evt\.dir\s*=\s*["']?[<>]["']?"#));
/// `evt.dir = < and`.
static BEFORE_AND: LazyLock<Regex> =
    LazyLock::new(|| pattern(r#"\bevt\.dir\s*=\s*["']?[<>]["']?\s+and\s+"#));

fn pattern(text: &str) -> Regex {
    Regex::new(text).expect("invariant: the pattern is one")
}

/// Removes `evt.dir` from the conditions of a rule file.
pub fn migrate_rules(text: &str) -> Migrated {
    let mut migrated = Migrated::default();
    if text.len() > RULE_FILE_BYTES_MAX {
        migrated.text = text.to_string();
        return migrated;
    }
    let mut run = String::new();
    let mut first_line = 1;
    for (at, line) in text.split_inclusive('\n').enumerate() {
        // Comments stay as they are.
        if line.trim_start().starts_with('#') {
            rewrite(&run, first_line, &mut migrated);
            run.clear();
            migrated.text.push_str(line);
            first_line = at + 2;
        } else {
            run.push_str(line);
        }
    }
    rewrite(&run, first_line, &mut migrated);
    for (at, line) in migrated.text.lines().enumerate() {
        if line.contains("evt.dir") && !line.trim_start().starts_with('#') {
            migrated.left.push(at + 1);
        }
    }
    migrated
}

/// Rewrites lines without comments between them.
fn rewrite(run: &str, first_line: usize, migrated: &mut Migrated) {
    let mut text = run.to_string();
    for pattern in [&*AFTER_AND, &*BEFORE_AND] {
        for found in pattern.find_iter(&text) {
            migrated.changed += 1;
            if found.as_str().contains('>') {
                let before = text.get(..found.start()).unwrap_or_default();
                migrated.enter_events.push(first_line + before.matches('\n').count());
            }
        }
        // A line end inside of the match stays, so that lines keep their numbers.
        text = pattern
            .replace_all(&text, |found: &regex::Captures<'_>| {
                let lines = found.get(0).map_or(0, |found| found.as_str().matches('\n').count());
                "\n".repeat(lines)
            })
            .into_owned();
    }
    migrated.text.push_str(&text);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_and_lines_stay() {
        let text = "# evt.dir=< and more\n- macro: a\n  condition: evt.type=open and evt.dir=< and fd.num>=0\n\
                    - macro: b\n  condition: >\n    evt.dir = > and evt.type=open\n- macro: c\n  condition: (evt.dir=<)\n";
        let migrated = migrate_rules(text);
        assert_eq!(
            migrated.text,
            "# evt.dir=< and more\n- macro: a\n  condition: evt.type=open and fd.num>=0\n- macro: b\n  condition: >\n    \
             evt.type=open\n- macro: c\n  condition: (evt.dir=<)\n"
        );
        assert_eq!((migrated.changed, migrated.enter_events, migrated.left), (2, vec![6], vec![8]));
        let again = migrate_rules(&migrated.text);
        assert_eq!((again.text, again.changed), (migrated.text, 0));
    }
}
