//! The names of event types and system calls, by which rules say what they apply to: the part of Falco's event table
//! (schema 4.5.1) that the rule language needs. The whole table is in `gabion-scap`.

use std::collections::HashMap;
use std::sync::LazyLock;

/// The number of event types in the table.
pub const TYPES: usize = 454;

/// The exit of a system call that has no type of its own.
pub const GENERIC_EXIT: u16 = 1;

/// The event that carries what other threads of the sensor found out. Every rule sees it, as in Falco.
pub const ASYNC_EVENT: u16 = 402;

/// One event type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventType {
    /// The name, such as `openat`. Old and new versions of a call share it.
    pub name: &'static str,
    /// Whether it is the event at the end of a call.
    pub is_exit: bool,
    /// The category, such as `file`.
    pub category: &'static str,
    /// Where it comes from: `syscall`, `tracepoint`, `metaevent`, separated by commas.
    pub sources: &'static str,
    /// Whether events of the type exist.
    pub is_used: bool,
}

/// One system call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Call {
    /// Falco's code for the call, the same on all architectures.
    pub code: u16,
    /// The name.
    pub name: &'static str,
    /// The event types that report it; the generic ones if it has none of its own.
    pub types: Vec<u16>,
}

impl Call {
    /// Whether the call has no event type of its own.
    pub fn is_generic(&self) -> bool {
        self.types.contains(&GENERIC_EXIT)
    }
}

/// All event types, by number.
pub fn types() -> &'static [EventType] {
    &TABLE.types
}

/// All system calls, by code.
pub fn calls() -> &'static [Call] {
    &TABLE.calls
}

/// The event types that `name` stands for, generic ones if it is a call without a type of its own. None if no event and no
/// call has the name.
pub fn types_of(name: &str) -> Option<&'static [u16]> {
    TABLE.by_name.get(name).map(Vec::as_slice)
}

struct Table {
    types: Vec<EventType>,
    calls: Vec<Call>,
    by_name: HashMap<&'static str, Vec<u16>>,
}

static TABLE: LazyLock<Table> = LazyLock::new(|| {
    let types: Vec<EventType> =
        include_str!("events.tsv").lines().skip(1).map(parse_type).collect();
    let calls: Vec<Call> = include_str!("calls.tsv").lines().skip(1).map(parse_call).collect();
    let mut by_name: HashMap<&'static str, Vec<u16>> = HashMap::new();
    for (number, row) in types.iter().enumerate().filter(|(_, row)| row.is_used) {
        by_name.entry(row.name).or_default().push(number as u16);
    }
    for call in &calls {
        let numbers = by_name.entry(call.name).or_default();
        for number in &call.types {
            if !numbers.contains(number) {
                numbers.push(*number);
            }
        }
    }
    by_name.retain(|_, numbers| !numbers.is_empty());
    Table { types, calls, by_name }
});

fn parse_type(line: &'static str) -> EventType {
    let mut columns = line.split('\t').skip(1);
    let mut next = || columns.next().expect("events.tsv has six columns");
    EventType {
        name: next(),
        is_exit: next() == "<",
        category: next(),
        sources: next(),
        is_used: next() == "yes",
    }
}

fn parse_call(line: &'static str) -> Call {
    let mut columns = line.split('\t');
    let mut next = || columns.next().expect("calls.tsv has three columns");
    let number = |text: &str| text.parse().expect("calls.tsv has numbers");
    let (code, name, types) = (number(next()), next(), next());
    Call {
        code,
        name,
        types: types.split(',').filter(|text| !text.is_empty()).map(number).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_stand_for_all_versions_of_a_call() {
        assert_eq!(types().len(), TYPES);
        assert_eq!(types()[ASYNC_EVENT as usize].name, "asyncevent");
        assert!(types()[307].is_exit && types()[307].name == "openat");
        let openat = types_of("openat").expect("openat is an event");
        assert!(openat.contains(&306) && openat.contains(&307));
        assert_eq!(types_of("getppid"), Some(&[0, 1][..]));
        assert_eq!(types_of("nosuchevent"), None);
        assert!(calls().iter().any(|call| call.name == "getppid" && call.is_generic()));
    }
}
