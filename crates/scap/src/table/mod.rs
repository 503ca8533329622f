//! The event table: types of events, their parameters, flags and conversions, and the system calls of three machines
//! (Falco libs, schema 4.5.1). The build script makes it of the `.tsv` files in this folder.

mod parts;

use gabion_record::fnv;

use parts::size_or_max;
pub use parts::{
    Action, Call, Category, Conversion, EventType, FlagTable, Format, Parameter, ParameterKind,
    Source, Sources, TypeFlags,
};

include!(concat!(env!("OUT_DIR"), "/table.rs"));

/// The schema of this table. A file or a probe with another major number cannot be read.
pub const SCHEMA: &str = "4.5.1";

/// All event types; the place of each is its number.
#[must_use]
pub fn event_types() -> &'static [EventType] {
    EVENT_TYPES
}

/// The event type with this number; none if the table has no such type.
#[inline]
#[must_use]
pub fn event_type(number: u16) -> Option<&'static EventType> {
    EVENT_TYPES.get(usize::from(number))
}

/// All codes of system calls and tracepoints; the place of each is its code (`ppm_sc` in Falco's libs).
#[must_use]
pub fn calls() -> &'static [Call] {
    CALLS
}

/// All tables of flags.
#[must_use]
pub fn flag_tables() -> &'static [FlagTable] {
    FLAG_TABLES
}

/// The number on x86_64 of the call that has this number for programs of 32 bits (ia32); none if the call does not
/// exist for programs of 64 bits.
#[must_use]
pub fn x86_64_of_ia32(number: u16) -> Option<u16> {
    let place = IA32.binary_search_by_key(&number, |row| row.0).ok()?;
    IA32.get(place)?.1
}

/// Whether events of this type change what is known of threads, descriptors or users: those that a live source numbers.
#[must_use]
pub fn changes_state(kind: u16) -> bool {
    let flags = event_type(kind).map(|row| row.flags);
    flags.is_some_and(|flags| {
        flags.has(TypeFlags::MODIFIES_STATE) || flags.has(TypeFlags::CREATES_FD)
    }) || completes_lists(kind)
        || matches!(
            kind,
            types::BRK_4_X
                | types::MMAP_X
                | types::MMAP2_X
                | types::MUNMAP_X
                | types::SCHEDSWITCH_6_E
                | types::GETRLIMIT_X
                | types::SETRLIMIT_X
                | types::PRLIMIT_X
                | types::GETCWD_X
                | types::SEND_X
                | types::RECV_X
                | types::ASYNCEVENT_E
        )
}

/// Whether events of this type describe users, groups or containers that were there before.
#[must_use]
pub fn completes_lists(kind: u16) -> bool {
    matches!(
        kind,
        types::USER_ADDED_E
            | types::GROUP_ADDED_E
            | types::USER_DELETED_E
            | types::GROUP_DELETED_E
            | types::CONTAINER_JSON_2_E
    )
}

/// A hash of the whole table: programs in the kernel that were built with another table have another hash.
#[must_use]
pub fn hash() -> u64 {
    let tables = [
        include_str!("events.tsv"),
        include_str!("flags.tsv"),
        include_str!("calls.tsv"),
        include_str!("ia32.tsv"),
        include_str!("conversion.tsv"),
    ];
    tables.iter().fold(fnv::BASIS, |hash, table| fnv::add_all(hash, table.as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_has_the_rows_of_the_schema() {
        // Those of the schema come first; what is added has rows below.
        assert!(event_types().len() >= 454 && calls().len() >= 454);
        let conversions: usize = event_types().iter().map(|t| t.conversions.len()).sum();
        assert_eq!(conversions, 253);
        let open = event_type(types::OPEN_X).unwrap();
        assert_eq!((open.name, open.is_exit(), open.category), ("open", true, Category::File));
        let flags = open.parameters[2].flags.unwrap();
        assert_eq!(flags.value("O_CREAT"), Some(4));
        assert!(u16::try_from(event_types().len()).is_ok_and(|none| event_type(none).is_none()));
        assert_eq!(calls().iter().filter(|call| call.is_state).count(), 70);
        assert_eq!(calls().iter().filter(|call| call.is_simple).count(), 88);
    }

    #[test]
    fn a_call_of_32_bits_has_its_number_of_64_bits() {
        assert_eq!(x86_64_of_ia32(295), Some(257), "openat");
        assert_eq!(x86_64_of_ia32(102), None, "socketcall");
        assert_eq!(x86_64_of_ia32(9999), None);
    }

    /// Whatever makes an exit of an event reads parameters that exist, and ends in a type that has a place for them.
    #[test]
    fn conversions_stay_inside_of_the_table() {
        for from in event_types() {
            for c in from.conversions {
                let kept = match c.action {
                    Action::AddParams => usize::from(c.parameters),
                    _ => 0,
                };
                let to = match c.action {
                    Action::ChangeType(to) => event_type(to).unwrap(),
                    _ => from,
                };
                let made = kept + c.sources.len();
                assert!(made <= to.parameters.len(), "{} has no place", from.constant);
                for source in c.sources {
                    let is_there = match *source {
                        Source::Old(n) => n < c.parameters,
                        Source::Enter(n, _) => {
                            from.is_exit()
                                && event_type(from.number - 1)
                                    .is_some_and(|enter| usize::from(n) < enter.parameters.len())
                        }
                        Source::Default | Source::Empty | Source::ContainerJson => true,
                    };
                    assert!(is_there, "{}: {source:?}", from.constant);
                }
            }
        }
    }
}
