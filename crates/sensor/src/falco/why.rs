//! Explains why a rule matches an event of a capture file or does not.

use crate::limits::SYSCALL_STATE_BYTES;
use gabion_condition::rules::{RuleSet, explain_rule};
use gabion_record::budget::Budget;
use gabion_record::fields::{Argument, Fields, Scratch, Value, ids};
use gabion_scap::{Item, Merger, Reader};
use gabion_syscall::{Options, State};
use std::path::Path;

/// Why an explanation can't be given.
#[derive(Debug, thiserror::Error)]
pub enum WhyFault {
    /// The capture file can't be read.
    #[error("{}: {why}", path.display())]
    Unreadable {
        /// The file.
        path: std::path::PathBuf,
        /// Why.
        why: String,
    },
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
    path: &Path,
    number: u64,
) -> Result<String, WhyFault> {
    let unreadable = |why: String| WhyFault::Unreadable { path: path.to_owned(), why };
    let file = std::fs::File::open(path).map_err(|error| unreadable(error.to_string()))?;
    let mut reader = Reader::new(file).map_err(|error| unreadable(error.to_string()))?;
    let mut state =
        State::new(Options::default(), Budget::standalone("syscall state", SYSCALL_STATE_BYTES));
    let mut merger = Merger::new();
    while let Some(item) = reader.next_item().map_err(|error| unreadable(error.to_string()))? {
        match item {
            Item::Event(event) => {
                let Some(event) = merger.merge(event) else { continue };
                state.apply(&event);
                if event.number < number {
                    continue;
                }
                if event.number > number {
                    break;
                }
                let view = state.view(&event);
                let mut scratch = Scratch::new();
                let kind = match view.field(ids::EVT_TYPE, Argument::None, &mut scratch) {
                    Ok(Value::Text(text)) => String::from_utf8_lossy(text).into_owned(),
                    _ => String::new(),
                };
                let parts = explain_rule(rules, rule, &view);
                let parts = parts.ok_or_else(|| WhyFault::NoRule(rule.to_string()))?;
                return Ok(format!("{rule}: event {number}, {kind}\n{parts}"));
            }
            item => state.add(item),
        }
    }
    Err(WhyFault::NoEvent { path: path.to_owned(), number })
}
