//! The names of event types and system calls, by which rules say what they apply to: the part of Falco's event table
//! (schema 4.5.1) that the rule language needs, read from the rows of the crate `scap`, which has the whole of it.

use std::collections::HashMap;
use std::sync::LazyLock;

/// The rows of event types, and of system calls. Lines that begin with `#` are none.
const TYPE_ROWS: &str = include_str!("../../../scap/src/table/events.tsv");
const CALL_ROWS: &str = include_str!("../../../scap/src/table/calls.tsv");

/// The number of event types in the table.
pub const TYPES: usize = count_rows(TYPE_ROWS.as_bytes());

const fn count_rows(text: &[u8]) -> usize {
    let (mut rest, mut rows, mut is_begin) = (text, 0, true);
    while let [byte, after @ ..] = rest {
        if is_begin && *byte != b'#' {
            rows += 1;
        }
        is_begin = *byte == b'\n';
        rest = after;
    }
    rows
}

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
    let types: Vec<EventType> = rows(TYPE_ROWS).map(parse_type).collect();
    let mut calls: Vec<Call> = rows(CALL_ROWS).map(parse_call).collect();
    let mut by_name: HashMap<&'static str, Vec<u16>> = HashMap::new();
    for (number, row) in types.iter().enumerate().filter(|(_, row)| row.is_used) {
        by_name.entry(row.name).or_default().push(number as u16);
    }
    for call in &mut calls {
        let numbers = by_name.entry(call.name).or_default();
        // A call whose own types are new has not named them in its row.
        if call.is_generic() && numbers.iter().any(|number| !number.is_multiple_of(2)) {
            call.types.clone_from(numbers);
        }
        for number in &call.types {
            if !numbers.contains(number) {
                numbers.push(*number);
            }
        }
    }
    by_name.retain(|_, numbers| !numbers.is_empty());
    Table { types, calls, by_name }
});

fn rows(text: &'static str) -> impl Iterator<Item = Vec<&'static str>> {
    text.lines().filter(|line| !line.starts_with('#')).map(|line| line.split('\t').collect())
}

/// The cell of a row; empty if it is absent.
fn cell(row: &[&'static str], place: usize) -> &'static str {
    row.get(place).copied().filter(|cell| *cell != "-").unwrap_or_default()
}

fn parse_type(row: Vec<&'static str>) -> EventType {
    EventType {
        name: row.get(2).copied().unwrap_or_default(),
        is_exit: !number(cell(&row, 0)).is_multiple_of(2),
        category: cell(&row, 3),
        sources: cell(&row, 4),
        is_used: cell(&row, 5).split(',').all(|flag| flag != "UNUSED"),
    }
}

fn parse_call(row: Vec<&'static str>) -> Call {
    let types = cell(&row, 8).split(',').filter(|text| !text.is_empty()).map(number).collect();
    Call { code: number(cell(&row, 0)), name: cell(&row, 1), types }
}

fn number(text: &str) -> u16 {
    text.parse().expect("the build of scap has read the table")
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
