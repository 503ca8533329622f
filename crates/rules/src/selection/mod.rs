//! Which rules of a file are on, as the users of suricata-update say it: `disable.conf`, `enable.conf` and
//! `modify.conf`, in their formats and in their order.
//!
//! A rule that is commented out in its file is off. Lines of `disable.conf` turn rules off, those of `enable.conf` on
//! again, those of `modify.conf` change their text. Then, as in suricata-update, a rule that is off and sets a flowbit
//! that a rule asks for which is on, is turned on without alert. What comes out is the files' text, in which every
//! rule stays at the line that it was at.
//!
//! Source: suricata-update 1.3.3.

mod change;
mod fault;
mod line;
mod pattern;
#[cfg(test)]
mod tests;

use crate::diagnostic::{Diagnostic, Severity};
use change::Change;
use gabion_matcher::regex::RegexScratch;
use line::RuleLine;
use pattern::Which;
use std::collections::HashSet;

/// One of the three files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Rules to turn off
    Disable,
    /// Rules to turn on
    Enable,
    /// Rules to change
    Modify,
}

impl Kind {
    /// As it is named.
    pub const fn name(self) -> &'static str {
        match self {
            Kind::Disable => "disable-conf",
            Kind::Enable => "enable-conf",
            Kind::Modify => "modify-conf",
        }
    }
}

/// A line of one of the files.
struct Entry<T> {
    what: T,
    file: String,
    line: u32,
    text: String,
    /// Rules that it means.
    rules: u64,
}

/// The lines of all three.
#[derive(Default)]
pub struct Selection {
    disable: Vec<Entry<Which>>,
    enable: Vec<Entry<Which>>,
    modify: Vec<Entry<Change>>,
}

/// The outcomes of the rules.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Selected {
    /// Rules that were on and are off.
    pub disabled: u64,
    /// Rules that were off and are on, because a line says so.
    pub enabled: u64,
    /// Rules whose text a line changed.
    pub modified: u64,
    /// Rules that are on, without alert, for the flowbits that they set.
    pub for_flowbits: u64,
    /// Lines that mean no rule, and changes that leave no rule.
    pub said: Vec<Diagnostic>,
}

/// Where a rule is.
struct Place {
    file: usize,
    line: usize,
    /// Lines of the file that it covers.
    lines: usize,
}

impl Selection {
    /// Adds the lines of a file; what is wrong with some of them.
    pub fn add(&mut self, kind: Kind, text: &str, file: &str) -> Vec<Diagnostic> {
        let mut said = Vec::new();
        for (line, number) in text.lines().zip(1..) {
            let line = line.trim();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let line = line.split(" #").next().unwrap_or_default().trim_end();
            let entry = |text: &str| (file.to_owned(), number, text.to_owned());
            let done = match kind {
                Kind::Disable => {
                    Which::parse(line).map(|which| push(&mut self.disable, which, entry(line)))
                }
                Kind::Enable => {
                    Which::parse(line).map(|which| push(&mut self.enable, which, entry(line)))
                }
                Kind::Modify => {
                    Change::parse(line).map(|change| push(&mut self.modify, change, entry(line)))
                }
            };
            if let Err(why) = done {
                said.push(finding(kind, (file, number, line), Severity::Error, why.to_string()));
            }
        }
        said
    }

    /// Applies it to files of rules, each by its path and text.
    pub fn apply(&mut self, files: &mut [(&str, &mut String)]) -> Selected {
        let mut scratch = RegexScratch::new();
        let mut selected = Selected::default();
        let mut rules = Vec::new();
        for (at, (_, text)) in files.iter().enumerate() {
            read_rules(at, text, &mut rules);
        }
        let before: Vec<RuleLine> = rules.iter().map(|(_, rule)| rule.clone()).collect();
        for (place, rule) in &mut rules {
            let path = files.get(place.file).map_or("", |(path, _)| path);
            // As in suricata-update a packed file has the name of what is in it.
            let path = path.strip_suffix(".zst").unwrap_or(path);
            for entry in &mut self.disable {
                if entry.what.means(rule, path, &mut scratch) {
                    entry.rules += 1;
                    rule.is_enabled = false;
                }
            }
            for entry in &mut self.enable {
                if entry.what.means(rule, path, &mut scratch) {
                    entry.rules += 1;
                    rule.is_enabled = true;
                }
            }
            let mut is_modified = false;
            for entry in &mut self.modify {
                if !entry.what.which.means(rule, path, &mut scratch) {
                    continue;
                }
                entry.rules += 1;
                let text = entry.what.text(rule, &mut scratch);
                match RuleLine::parse(&text).filter(|_| !text.contains('\n')) {
                    Some(changed) => {
                        is_modified |= changed != *rule;
                        *rule = changed;
                    }
                    None => {
                        let why = format!(
                            "would make no rule of {}:{}: the rule stays as it is",
                            rule.gid, rule.sid
                        );
                        let at = (&*entry.file, entry.line, &*entry.text);
                        selected.said.push(finding(Kind::Modify, at, Severity::Warning, why));
                    }
                }
            }
            selected.modified += u64::from(is_modified);
        }
        for ((_, rule), before) in rules.iter().zip(&before) {
            selected.disabled += u64::from(before.is_enabled && !rule.is_enabled);
            selected.enabled += u64::from(!before.is_enabled && rule.is_enabled);
        }
        let is_wanted = enable_for_flowbits(&mut rules);
        for ((_, before), was_off) in before.iter().enumerate().zip(&is_wanted) {
            if *was_off {
                selected.for_flowbits += 1;
                // What a line turned off and a flowbit turned on again is counted once.
                selected.disabled -= u64::from(before.is_enabled);
            }
        }
        for (at, (_, text)) in files.iter_mut().enumerate() {
            let own = rules.iter().zip(&before).filter(|((place, _), _)| place.file == at);
            let changed: Vec<_> = own
                .filter(|((_, rule), before)| rule != *before)
                .map(|((place, rule), _)| (place, rule))
                .collect();
            if !changed.is_empty() {
                **text = rewritten(text, &changed);
            }
        }
        self.idle(&mut selected.said);
        selected
    }

    /// Lines that mean no rule.
    fn idle(&self, said: &mut Vec<Diagnostic>) {
        let mut add = |kind, file: &str, line, text: &str, rules| {
            if rules == 0 {
                let why = "means no rule of the files that are loaded".to_owned();
                said.push(finding(kind, (file, line, text), Severity::Warning, why));
            }
        };
        for e in &self.disable {
            add(Kind::Disable, &e.file, e.line, &e.text, e.rules);
        }
        for e in &self.enable {
            add(Kind::Enable, &e.file, e.line, &e.text, e.rules);
        }
        for e in &self.modify {
            add(Kind::Modify, &e.file, e.line, &e.text, e.rules);
        }
    }
}

fn push<T>(to: &mut Vec<Entry<T>>, what: T, (file, line, text): (String, u32, String)) {
    to.push(Entry { what, file, line, text, rules: 0 });
}

fn finding(
    kind: Kind,
    (file, line, text): (&str, u32, &str),
    severity: Severity,
    why: String,
) -> Diagnostic {
    Diagnostic {
        file: file.to_owned(),
        line,
        column: 1,
        len: u32::try_from(text.len()).unwrap_or(0),
        severity,
        subsystem: kind.name(),
        message: format!("{text}: {why}"),
        reason: None,
        rule: text.to_owned(),
        sid: None,
    }
}

/// The rules of a file, on or off; lines that end in a backslash are joined with the next.
fn read_rules(file: usize, text: &str, rules: &mut Vec<(Place, RuleLine)>) {
    let mut lines = text.lines().enumerate();
    while let Some((at, first)) = lines.next() {
        let (mut joined, mut now, mut count) = (String::new(), first, 1);
        while let Some(part) = now.trim_end().strip_suffix('\\') {
            joined.push_str(part);
            joined.push(' ');
            now = match lines.next() {
                Some((_, next)) => {
                    count += 1;
                    next
                }
                None => "",
            };
        }
        joined.push_str(now);
        if let Some(rule) = RuleLine::parse(&joined) {
            rules.push((Place { file, line: at, lines: count }, rule));
        }
    }
}

/// A file's text with these rules where they were, in the order of their lines.
fn rewritten(text: &str, changed: &[(&Place, &RuleLine)]) -> String {
    let mut out = String::with_capacity(text.len());
    let mut changed = changed.iter().peekable();
    let mut lines = text.split_inclusive('\n').enumerate();
    while let Some((at, line)) = lines.next() {
        let Some((place, rule)) = changed.next_if(|(place, _)| place.line == at) else {
            out.push_str(line);
            continue;
        };
        out.push_str(&rule.text());
        let last = (1..place.lines).fold(line, |_, _| {
            // What follows keeps its place.
            out.push('\n');
            lines.next().map_or("", |(_, line)| line)
        });
        out.push_str(last.get(last.trim_end_matches(['\n', '\r']).len()..).unwrap_or_default());
    }
    out
}

/// Turns on, without alert, what sets flowbits that rules ask for which are on; says of each whether it was.
fn enable_for_flowbits(rules: &mut [(Place, RuleLine)]) -> Vec<bool> {
    let mut was_off = vec![false; rules.len()];
    loop {
        let asked: HashSet<String> = rules
            .iter()
            .filter(|(_, rule)| rule.is_enabled)
            .flat_map(|(_, rule)| &rule.flowbits)
            .filter_map(|bit| bit.split_once(','))
            .filter(|(command, _)| matches!(*command, "isset" | "isnotset"))
            .map(|(_, name)| name.to_owned())
            .collect();
        let mut any = false;
        for ((_, rule), was_off) in rules.iter_mut().zip(&mut was_off) {
            let sets = |bit: &String| {
                bit.split_once(',').is_some_and(|(command, name)| {
                    matches!(command, "set" | "setx" | "unset" | "toggle") && asked.contains(name)
                })
            };
            if !rule.is_enabled && rule.flowbits.iter().any(sets) {
                (rule.is_enabled, rule.is_silent) = (true, true);
                *was_off = true;
                any = true;
            }
        }
        if !any {
            return was_off;
        }
    }
}
