//! Rules that are tried on one event after the other, with what their alerts go to.

use super::alerts::{Alerts, Matched};
use gabion_condition::rules::{Match, Matching, RuleMatcher, RuleSet};
use gabion_outputs::Output;
use gabion_record::fields::{FieldId, Fields, Missing};
use gabion_scap::Event;
use gabion_syscall::State;
use std::sync::Arc;

/// Rules, the matcher that tries them, and their alerts.
pub(super) struct RuleRun {
    rules: Arc<RuleSet>,
    matching: Matching,
    matcher: RuleMatcher,
    matched: Vec<Match>,
    missing: Vec<(FieldId, Missing)>,
    /// Their alerts.
    pub(super) alerts: Alerts,
    /// Events that the rules were tried on.
    pub(super) events: u64,
}

/// What the rules found in an event.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Found {
    /// A rule alerted.
    pub(super) is_any: bool,
    /// One of them asks for a capture: of this many milliseconds, 0 for the default.
    pub(super) capture_ms: Option<u64>,
}

impl RuleRun {
    /// Rules whose alerts go to `outputs`; `wants_fields` where one of them writes JSON.
    pub(super) fn new(
        rules: Arc<RuleSet>,
        matching: Matching,
        outputs: Vec<Output>,
        wants_fields: bool,
    ) -> RuleRun {
        RuleRun {
            matcher: RuleMatcher::new(&rules),
            rules,
            matching,
            matched: Vec::new(),
            missing: Vec::new(),
            alerts: Alerts::new(outputs, wants_fields),
            events: 0,
        }
    }

    /// The rules.
    pub(super) fn rules(&self) -> &RuleSet {
        &self.rules
    }

    /// From now on these rules are tried.
    pub(super) fn set_rules(&mut self, rules: Arc<RuleSet>, matching: Matching) {
        self.alerts.leave(&self.rules);
        (self.matcher, self.matching) = (RuleMatcher::new(&rules), matching);
        self.rules = rules;
    }

    /// Tries the rules on an event, unless it only completes the lists of the input.
    pub(super) fn event(&mut self, state: &State, event: &Event<'_>) -> Found {
        let mut found = Found::default();
        if !state.is_for_rules() {
            return found;
        }
        self.events += 1;
        let view = state.view(event);
        let opened = view.by_opened();
        let views = (&view as &dyn Fields, opened.as_ref().map(|view| view as &dyn Fields));
        self.matcher.matches_either(&self.rules, views, self.matching, &mut self.matched);
        for Match { rule: position, is_by_second } in self.matched.iter().copied() {
            let fields = views.1.filter(|_| is_by_second).unwrap_or(views.0);
            self.matcher.missing(&self.rules, position, fields, &mut self.missing);
            let is_partial = !self.missing.is_empty();
            let matched = Matched { position, is_by_opened: is_by_second, is_partial };
            self.alerts.of_rule(&self.rules, matched, fields);
            found.is_any = true;
            let rule = self.rules.rules().get(position as usize);
            if let Some(rule) = rule.filter(|rule| rule.capture) {
                found.capture_ms = found.capture_ms.max(Some(rule.capture_duration_ms));
            }
        }
        found
    }

    /// Nothing more is tried: counts are complete.
    pub(super) fn finish(mut self) -> Alerts {
        self.alerts.leave(&self.rules);
        self.alerts
    }
}
