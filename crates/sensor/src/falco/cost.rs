//! What rules about system calls cost: captures are read with every trial of every rule timed.

use crate::Error;
use crate::packets::InputOpener;
use crate::syscalls::summarize_with;
use gabion_condition::rules::{RuleMatcher, RuleSet};
use gabion_runtime::{StopFlag, clock};
use std::path::PathBuf;

/// What one rule cost.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SyscallRuleCost {
    /// Its name.
    pub rule: String,
    /// How often it was tried.
    pub checks: u64,
    /// How often it matched.
    pub matches: u64,
    /// Ticks of the processor's counter in all trials.
    pub ticks: u64,
    /// The most of one trial.
    pub ticks_max: u64,
}

/// What the rules cost on these captures, which `opener` opens, the dearest first, and the number of events. What several rules share is
/// counted for the first that asks for it.
///
/// # Errors
/// A capture can't be read.
pub fn cost_of_rules(
    rules: &RuleSet,
    captures: &[PathBuf],
    opener: &InputOpener,
    stop: &StopFlag,
) -> Result<(Vec<SyscallRuleCost>, u64), Error> {
    let mut matcher = RuleMatcher::new(rules);
    let name = |rule: &gabion_condition::rules::Rule| rule.name.clone();
    let new = |rule| SyscallRuleCost { rule: name(rule), ..SyscallRuleCost::default() };
    let mut costs: Vec<SyscallRuleCost> = rules.rules().iter().map(new).collect();
    let mut events = 0;
    for path in captures {
        summarize_with(path, opener, stop, &mut |state, event| {
            if !state.is_for_rules() {
                return;
            }
            events += 1;
            matcher.try_each(rules, &state.view(event), &mut |position, holds| {
                let begin = clock::ticks();
                let is_match = holds();
                let ticks = clock::ticks().saturating_sub(begin);
                let Some(cost) = costs.get_mut(position as usize) else { return };
                cost.checks += 1;
                cost.matches += u64::from(is_match);
                cost.ticks = cost.ticks.saturating_add(ticks);
                cost.ticks_max = cost.ticks_max.max(ticks);
            });
        })?;
    }
    costs.retain(|cost| cost.checks > 0);
    costs.sort_by(|a, b| (b.ticks, &a.rule).cmp(&(a.ticks, &b.rule)));
    Ok((costs, events))
}
