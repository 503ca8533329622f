//! Explains why a rule matches an event of a capture file or does not.

use crate::packets::InputOpener;
use crate::syscalls::Calls;
use gabion_condition::rules::{RuleSet, explain_rule};
use gabion_record::fields::{Argument, Fields, Scratch, Value, ids};
use gabion_runtime::StopFlag;
use gabion_syscall::Options;
use std::ops::ControlFlow;
use std::path::Path;

/// Why an explanation can't be given.
#[derive(Debug, thiserror::Error)]
pub enum WhyFault {
    /// The capture file can't be read.
    #[error("{0}")]
    Unreadable(Box<crate::Error>),
    /// No event of the file has the number.
    #[error("{}: no event has the number {number}: the numbers are those of evt.num", path.display())]
    NoEvent {
        /// The file.
        path: std::path::PathBuf,
        /// The number.
        number: u64,
    },
    /// There is no such rule.
    #[error("no rule named {0}")]
    NoRule(String),
}

/// Each part of the rule's condition with its answer for the event of this number (`evt.num`).
///
/// # Errors
/// The file can't be read, or has no such event, or there is no such rule.
pub fn explain_event(
    rules: &RuleSet,
    rule: &str,
    (opener, path): (&InputOpener, &Path),
    number: u64,
) -> Result<String, WhyFault> {
    let unreadable = |source: crate::Error| WhyFault::Unreadable(Box::new(source));
    let stop = StopFlag::new();
    let mut calls = Calls::open(path, opener, Options::default(), &stop).map_err(unreadable)?;
    let mut found = None;
    calls
        .for_each(|state, event| {
            if event.number < number {
                return ControlFlow::Continue(());
            }
            if event.number == number {
                let view = state.view(event);
                let mut scratch = Scratch::new();
                let kind = match view.field(ids::EVT_TYPE, Argument::None, &mut scratch) {
                    Ok(Value::Text(text)) => String::from_utf8_lossy(text).into_owned(),
                    _ => String::new(),
                };
                found = Some((kind, explain_rule(rules, rule, &view)));
            }
            ControlFlow::Break(())
        })
        .map_err(unreadable)?;
    let (kind, parts) = found.ok_or_else(|| WhyFault::NoEvent { path: path.to_owned(), number })?;
    let parts = parts.ok_or_else(|| WhyFault::NoRule(rule.to_string()))?;
    Ok(format!("{rule}: event {number}, {kind}\n{parts}"))
}
