//! Compiled rules, and the matcher that tries them on events.

use super::described::Described;
use super::items::Priority;
use crate::compile::{Evaluator, NodeId, Program, TypeSet};
use crate::format::Format;
use gabion_record::fields::events::TYPES;
use gabion_record::fields::{Argument, FieldId, Fields, Missing, Scratch, Value};
use std::cell::RefCell;

/// A compiled rule.
#[derive(Clone, Debug)]
pub struct Rule {
    /// Its name.
    pub name: String,
    /// The source of its events.
    pub source: String,
    /// What it is about.
    pub description: String,
    /// How urgent its alerts are.
    pub priority: Priority,
    /// Its tags.
    pub tags: Vec<String>,
    /// Whether it is tried.
    pub is_enabled: bool,
    /// The template of its alerts.
    pub output: Format,
    /// Further fields of its alerts, each with its template.
    pub extra_fields: Vec<(String, Format)>,
    /// Whether an alert starts a capture.
    pub capture: bool,
    /// How long the capture lasts, in milliseconds; 0 for the default.
    pub capture_duration_ms: u64,
    /// The types of events on which it is tried.
    pub types: TypeSet,
    pub(super) condition: NodeId,
}

/// Which of the rules that match an event give an alert.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Matching {
    /// The first in the order of the files.
    #[default]
    First,
    /// All.
    All,
}

/// Switches rules on or off.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Selection {
    /// Rules whose name matches, with `*` as wildcard.
    Rule(String, bool),
    /// Rules that have the tag.
    Tag(String, bool),
}

/// All compiled rules. It is read-only and can be shared between threads.
#[derive(Debug)]
pub struct RuleSet {
    pub(super) program: Program,
    pub(super) rules: Vec<Rule>,
    /// For each type of event the enabled rules that are tried on it, in order.
    by_type: Vec<Vec<u32>>,
    pub(super) described: Described,
}

impl Default for RuleSet {
    fn default() -> RuleSet {
        RuleSet::new(Program::default(), Vec::new(), Described::default())
    }
}

impl RuleSet {
    pub(super) fn new(program: Program, rules: Vec<Rule>, described: Described) -> RuleSet {
        let mut set = RuleSet { program, rules, by_type: Vec::new(), described };
        set.index();
        set
    }

    fn index(&mut self) {
        self.by_type = vec![Vec::new(); TYPES];
        for (number, rule) in self.rules.iter().enumerate().filter(|(_, rule)| rule.is_enabled) {
            for event_type in rule.types.iter() {
                if let Some(rules) = self.by_type.get_mut(event_type as usize) {
                    rules.push(number as u32);
                }
            }
        }
    }

    /// The rules in the order of the files.
    pub fn rules(&self) -> &[Rule] {
        &self.rules
    }

    /// The number of rules that are tried.
    pub fn enabled(&self) -> usize {
        self.rules.iter().filter(|rule| rule.is_enabled).count()
    }

    /// The types of events that enabled rules are tried on.
    pub fn types(&self) -> TypeSet {
        let enabled = self.rules.iter().filter(|rule| rule.is_enabled);
        enabled.fold(TypeSet::NONE, |types, rule| types.union(rule.types))
    }

    /// Switches rules on or off, one selection after the other.
    pub fn select(&mut self, selections: &[Selection]) {
        for selection in selections {
            for rule in &mut self.rules {
                let (is_selected, is_enabled) = match selection {
                    Selection::Rule(pattern, on) => (matches_wildcard(pattern, &rule.name), *on),
                    Selection::Tag(tag, on) => (rule.tags.contains(tag), *on),
                };
                if is_selected {
                    rule.is_enabled = is_enabled;
                }
            }
        }
        self.index();
    }

    /// What is shown of the rules by `-L` and `-l`.
    pub fn described(&self) -> &Described {
        &self.described
    }
}

/// Whether a name matches a pattern in which `*` stands for any text and nothing else is special.
fn matches_wildcard(pattern: &str, name: &str) -> bool {
    let mut parts = pattern.split('*');
    let first = parts.next().unwrap_or_default();
    let Some(mut rest) = name.strip_prefix(first) else { return false };
    let mut parts: Vec<&str> = parts.collect();
    let Some(last) = parts.pop() else { return rest.is_empty() };
    for part in parts {
        match rest.find(part) {
            Some(at) => rest = rest.get(at + part.len()..).unwrap_or_default(),
            None => return false,
        }
    }
    rest.ends_with(last)
}

/// A rule that matches an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Match {
    /// Its position in the set.
    pub rule: u32,
    /// It matches only by the second view of the event.
    pub is_by_second: bool,
}

/// Tries rules on events; each thread has its own.
#[derive(Debug)]
pub struct RuleMatcher {
    evaluator: Evaluator,
    /// For the second view of an event.
    second: Evaluator,
    scratch: Scratch,
    text: Vec<u8>,
    tried: u64,
}

impl RuleMatcher {
    /// For a set of rules.
    pub fn new(rules: &RuleSet) -> RuleMatcher {
        RuleMatcher {
            evaluator: Evaluator::new(&rules.program),
            second: Evaluator::new(&rules.program),
            scratch: Scratch::new(),
            text: Vec::new(),
            tried: 0,
        }
    }

    /// As [`RuleMatcher::matches`] for an event of which there may be a second view: an open by the path of the file
    /// that the kernel opened. A rule that matches by either view is written once.
    pub fn matches_either(
        &mut self,
        rules: &RuleSet,
        (first, second): (&dyn Fields, Option<&dyn Fields>),
        matching: Matching,
        matched: &mut Vec<Match>,
    ) {
        matched.clear();
        let Some(candidates) = rules.by_type.get(first.event_type() as usize) else { return };
        if candidates.is_empty() {
            return;
        }
        self.evaluator.begin_event();
        self.second.begin_event();
        for number in candidates {
            let Some(rule) = rules.rules.get(*number as usize) else { continue };
            self.tried += 1;
            let is_by_first = self.evaluator.holds(&rules.program, rule.condition, first);
            let is_by_second = !is_by_first
                && second.is_some_and(|second| {
                    self.second.holds(&rules.program, rule.condition, second)
                });
            if is_by_first || is_by_second {
                matched.push(Match { rule: *number, is_by_second });
                if matching == Matching::First {
                    return;
                }
            }
        }
    }

    /// Writes the fields that a rule's condition or output asked of this event and that are missing, each with the
    /// reason, to `missing`; fields that do not apply to the event are not missing. An alert with such a field has only a
    /// part of its context. For rules that match: it evaluates the condition again.
    pub fn missing(
        &mut self,
        rules: &RuleSet,
        rule: u32,
        fields: &dyn Fields,
        missing: &mut Vec<(FieldId, Missing)>,
    ) {
        missing.clear();
        let Some(rule) = rules.rules.get(rule as usize) else { return };
        let watched = Watched { fields, missing: RefCell::new(missing) };
        self.second.begin_event();
        self.second.holds(&rules.program, rule.condition, &watched);
        self.text.clear();
        rule.output.write(&watched, &mut self.scratch, &mut self.text);
    }

    /// Tries all rules on an event, one after the other: `each` is called with a rule's position and a function that tries
    /// it. For the costs of rules; what several rules share is evaluated by the first that asks for it.
    pub fn try_each(
        &mut self,
        rules: &RuleSet,
        fields: &dyn Fields,
        each: &mut dyn FnMut(u32, &mut dyn FnMut() -> bool),
    ) {
        let Some(candidates) = rules.by_type.get(fields.event_type() as usize) else { return };
        self.evaluator.begin_event();
        for number in candidates {
            let Some(rule) = rules.rules.get(*number as usize) else { continue };
            self.tried += 1;
            let evaluator = &mut self.evaluator;
            each(*number, &mut || evaluator.holds(&rules.program, rule.condition, fields));
        }
    }

    /// Writes the positions of the rules that match the event to `matched`, in order.
    pub fn matches(
        &mut self,
        rules: &RuleSet,
        fields: &dyn Fields,
        matching: Matching,
        matched: &mut Vec<u32>,
    ) {
        matched.clear();
        let Some(candidates) = rules.by_type.get(fields.event_type() as usize) else { return };
        if candidates.is_empty() {
            return;
        }
        self.evaluator.begin_event();
        for number in candidates {
            let Some(rule) = rules.rules.get(*number as usize) else { continue };
            self.tried += 1;
            if self.evaluator.holds(&rules.program, rule.condition, fields) {
                matched.push(*number);
                if matching == Matching::First {
                    return;
                }
            }
        }
    }

    /// Rules tried so far.
    pub fn tried(&self) -> u64 {
        self.tried
    }

    /// Comparisons made so far.
    pub fn comparisons(&self) -> u64 {
        self.evaluator.comparisons()
    }
}

/// The fields of an event, with a list of those that were asked for and are missing.
struct Watched<'a> {
    fields: &'a dyn Fields,
    missing: RefCell<&'a mut Vec<(FieldId, Missing)>>,
}

impl Fields for Watched<'_> {
    fn field<'a>(
        &'a self,
        field: FieldId,
        argument: Argument<'_>,
        scratch: &'a mut Scratch,
    ) -> Result<Value<'a>, Missing> {
        let value = self.fields.field(field, argument, scratch);
        if let Err(reason) = value
            && reason != Missing::NotApplicable
        {
            let mut missing = self.missing.borrow_mut();
            if missing.iter().all(|(known, _)| *known != field) {
                missing.push((field, reason));
            }
        }
        value
    }

    fn event_type(&self) -> u16 {
        self.fields.event_type()
    }

    fn event_number(&self) -> u64 {
        self.fields.event_number()
    }

    fn event_time(&self) -> u64 {
        self.fields.event_time()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wildcards_stand_for_any_text() {
        assert!(
            matches_wildcard("*", "open_from_cat") && matches_wildcard("open*cat", "open_from_cat")
        );
        assert!(!matches_wildcard("open_from", "open_from_cat"));
        assert!(!matches_wildcard("open*dog", "open_from_cat") && !matches_wildcard("", "x"));
        assert!(matches_wildcard("a.b", "a.b") && !matches_wildcard("a.b", "axb"));
    }
}
