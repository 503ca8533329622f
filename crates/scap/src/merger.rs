//! The merger: enter and exit events of files of any age become exit events alone, as today's programs record them.
//!
//! It follows Falco's converter (libs, schema 4.5.1): the event table says for each type and number of parameters what
//! an event becomes. It differs in three ways. Seven enter events that Falco passes on to its engine never leave here:
//! their values stand next to those of the exit event ([`Event::enter`]). A fault of one event ends nothing: that event
//! is shed. And the enter event of another call than the exit event's is shed, while the exit event passes.
//!
//! In the path of events nothing is allocated once the merger is warm.

use gabion_record::ledger::{Ledger, ShedReason};

use crate::event::{Event, Values, is_enter_of_falco};
use crate::limits;
use crate::live::{LiveValues, NOTE_ID, opens_by_name};
use crate::made::Made;
use crate::table::{Action, Conversion, EventType, Sources, TypeFlags, event_type, types};
use crate::waiting::Waiting;

/// See the opening of this file.
#[derive(Debug)]
pub struct Merger {
    /// Enter events that conversions of exit events take values from.
    stored: Waiting,
    /// Enter events that Falco's engine sees.
    seen: Waiting,
    /// Paths of the kernel's files that a live source noted before their calls.
    noted: Waiting,
    made: [Made; 2],
    enter: Made,
    opened: Vec<u8>,
    number: u64,
    counts: MergeCounts,
}

/// What a merger has counted. Items are raw events; `raw = passed + merged + shed + waiting`.
#[derive(Clone, Debug, Default)]
pub struct MergeCounts {
    /// Raw events, those that passed (merged ones included), those that were shed by reason, those that wait.
    pub ledger: Ledger,
    /// Enter events whose values are now with the exit event of the call.
    pub merged: u64,
    /// Merged enter events of calls whose exit event has no place for all values: they stand next to it.
    pub without_place: u64,
    /// Events that were rewritten, because an older program recorded them.
    pub converted: u64,
}

/// What happens to an event by its type and its number of parameters.
enum Decision {
    Pass,
    /// An enter event of a call whose exit event says everything.
    Merge,
    Shed(ShedReason),
    Convert(&'static Conversion),
}

/// Where the values of the event are at the moment.
#[derive(Clone, Copy)]
enum Place {
    Event,
    Made(usize),
}

/// An event that passes.
struct Passed {
    /// Where its values are.
    place: Place,
    /// The enter event of its call stands next to them.
    has_enter: bool,
    /// The path of the kernel's file stands next to them.
    has_note: bool,
}

impl Default for Merger {
    fn default() -> Self {
        Merger::new()
    }
}

impl Merger {
    /// A merger that has seen no event.
    #[must_use]
    pub fn new() -> Merger {
        Merger {
            stored: Waiting::new(),
            seen: Waiting::new(),
            noted: Waiting::new(),
            made: Default::default(),
            enter: Made::default(),
            opened: Vec::new(),
            number: 0,
            counts: MergeCounts::default(),
        }
    }

    /// What was counted so far.
    #[must_use]
    pub const fn counts(&self) -> &MergeCounts {
        &self.counts
    }

    /// Takes an event as its file has it. Returns the event to pass on; none if it waits for its exit event, or was
    /// shed.
    #[inline]
    pub fn merge<'m>(&'m mut self, event: &Event<'m>) -> Option<Event<'m>> {
        self.counts.ledger.receive(1, 0);
        let kind = event.kind();
        let place = match kind.flags.0 & HANDLED {
            0 => Some(Place::Event),
            _ => self.complete(event).or_else(|| self.convert(event)),
        };
        let passed = place.and_then(|place| self.pass(event, place));
        // What waits is stated after each event, so that the ledger balances at any time.
        let waiting = self.stored.counted() + self.seen.counted() + self.noted.counted();
        self.counts.ledger.set_in_flight(waiting, 0);
        let passed = passed?;
        let enter = if passed.has_enter { self.enter.values() } else { event.enter };
        let opened = if passed.has_note { self.opened.as_slice() } else { event.live.opened };
        let values = values(event, &self.made, passed.place)?;
        let live = LiveValues { opened, ..event.live };
        Some(Event { number: self.number, values, enter, live, ..*event })
    }

    /// Ends a section or the input: what still waits is shed, since its call had not returned.
    pub fn finish(&mut self) {
        let left = self.stored.clear() + self.seen.clear() + self.noted.clear();
        self.counts.ledger.shed(ShedReason::NoExit, left, 0);
        self.counts.ledger.set_in_flight(0, 0);
    }

    /// Does in one step what nearly all events of old files need: parameters of the enter event, or unknown ones, make the
    /// event complete. None, and nothing was done, where it is another conversion.
    #[inline]
    fn complete(&mut self, event: &Event<'_>) -> Option<Place> {
        let kind = event.kind();
        if kind.flags.0 & HANDLED != TypeFlags::CONVERTER_MANAGED.0 {
            return None;
        }
        let mut count = event.values.len();
        let mut conversion = kind.conversion(count)?;
        let [made, _] = &mut self.made;
        if let Some(from) = conversion.enter_from {
            let (place, enter) = self.stored.of_type(event.tid, kind.number.checked_sub(1)?)?;
            let is_made = kind.is_exit()
                && count + conversion.sources.len() == kind.parameters.len()
                && made.join(&event.values, &enter, from);
            if !is_made || made.values()?.is_too_long() {
                return None;
            }
            let left = self.stored.release(place);
            self.merged(left);
        } else {
            while conversion.is_empty_added {
                count += conversion.sources.len();
                if count == kind.parameters.len() && kind.is_exit() {
                    break;
                }
                conversion = kind.conversion(count)?;
            }
            let is_last = conversion.is_empty_added || conversion.action == Action::Pass;
            let is_whole = count == kind.parameters.len() && count > event.values.len();
            let is_made = is_last && is_whole && made.fill(&event.values);
            if !is_made || made.values()?.is_too_long() {
                return None;
            }
        }
        self.counts.converted += 1;
        Some(Place::Made(0))
    }

    /// Converts an event until nothing is left to do. Returns where its values are if it passes.
    fn convert(&mut self, event: &Event<'_>) -> Option<Place> {
        let mut place = Place::Event;
        for round in 0..limits::CONVERSIONS_MAX {
            let from = values(event, &self.made, place)?;
            let conversion = match decide(&from) {
                Decision::Pass => return Some(place),
                Decision::Merge => {
                    self.merged(1);
                    return None;
                }
                Decision::Shed(reason) => {
                    self.counts.ledger.shed(reason, 1, 0);
                    return None;
                }
                Decision::Convert(conversion) => conversion,
            };
            let to = match conversion.action {
                Action::Pass => return Some(place),
                Action::Store | Action::StoreAndPass => {
                    let is_counted = conversion.action == Action::Store;
                    let (replaced, evicted) = self.stored.put(event.tid, &from, is_counted);
                    self.counts.ledger.shed(ShedReason::NoExit, replaced, 0);
                    self.counts.ledger.shed(ShedReason::LimitReached, evicted, 0);
                    return (!is_counted).then_some(place);
                }
                Action::AddParams => from.kind(),
                Action::ChangeType(to) => event_type(to)?,
            };
            if round == 0 {
                self.counts.converted += 1;
            }
            place = self.rewrite(event, place, conversion, to)?;
        }
        // The table has no circle; this bounds the work if a wrong table had one.
        limits::reached::CONVERSIONS_MAX.count();
        self.counts.ledger.shed(ShedReason::NoConversion, 1, 0);
        None
    }

    /// Does one conversion and returns where the values are then.
    fn rewrite(
        &mut self,
        event: &Event<'_>,
        place: Place,
        conversion: &'static Conversion,
        to: &'static EventType,
    ) -> Option<Place> {
        let from_number = values(event, &self.made, place)?.kind().number;
        let takes_enter = conversion.takes_enter();
        if takes_enter {
            let stored = self.stored.kind(event.tid);
            if stored.is_some_and(|enter| enter.number.checked_add(1) != Some(from_number)) {
                // Its own exit event is missing: this exit event passes without values of an enter event.
                let left = self.stored.remove(event.tid);
                self.counts.ledger.shed(ShedReason::WrongEnter, left, 0);
            }
        }
        let enter = if takes_enter { self.stored.get(event.tid) } else { None };
        let (first, second) = self.made.split_at_mut(1);
        let (first, second) = (first.first_mut()?, second.first_mut()?);
        let next = match place {
            // What was made already only grows.
            Place::Made(n) if conversion.action == Action::AddParams => {
                let made = if n == 0 { first } else { second };
                made.extend(conversion, enter);
                place
            }
            Place::Event => {
                first.convert(&event.values, conversion, to, enter);
                Place::Made(0)
            }
            Place::Made(0) => {
                second.convert(&first.values()?, conversion, to, enter);
                Place::Made(1)
            }
            Place::Made(_) => {
                first.convert(&second.values()?, conversion, to, enter);
                Place::Made(0)
            }
        };
        if enter.is_some() {
            let left = self.stored.remove(event.tid);
            self.merged(left);
        }
        if values(event, &self.made, next)?.is_too_long() {
            limits::reached::CONVERTED_LEN_MAX.count();
            self.counts.ledger.shed(ShedReason::LimitReached, 1, 0);
            return None;
        }
        Some(next)
    }

    /// Passes an event on, unless it is one of the enter events that only Falco's engine sees, or a note of a live
    /// source about the next call.
    #[inline]
    fn pass(&mut self, event: &Event<'_>, place: Place) -> Option<Passed> {
        self.number += 1;
        let values = values(event, &self.made, place)?;
        let kind = values.kind();
        if is_enter_of_falco(kind.number) {
            let (replaced, evicted) = self.seen.put(event.tid, &values, true);
            self.counts.ledger.shed(ShedReason::NoExit, replaced, 0);
            self.counts.ledger.shed(ShedReason::LimitReached, evicted, 0);
            return None;
        }
        if kind.number == types::NOTIFICATION_E && values.raw(0) == Some(NOTE_ID) {
            let (replaced, evicted) = self.noted.put(event.tid, &values, true);
            self.counts.ledger.shed(ShedReason::NoExit, replaced, 0);
            self.counts.ledger.shed(ShedReason::LimitReached, evicted, 0);
            return None;
        }
        self.counts.ledger.pass(1, 0);
        if !kind.is_exit() {
            if kind.number == types::PROCEXIT_1_E {
                // No call of the thread returns any more.
                let left = self.stored.remove(event.tid)
                    + self.seen.remove(event.tid)
                    + self.noted.remove(event.tid);
                self.counts.ledger.shed(ShedReason::NoExit, left, 0);
            }
            return Some(Passed { place, has_enter: false, has_note: false });
        }
        let stored = self.stored.kind(event.tid);
        if stored.is_some_and(|enter| enter.number.checked_add(1) == Some(kind.number)) {
            // The exit event has all values itself.
            let left = self.stored.remove(event.tid);
            self.merged(left);
        }
        let has_enter =
            self.seen.kind(event.tid).is_some_and(|enter| self.attach(event, enter, kind));
        let has_note = self.noted.kind(event.tid).is_some() && self.attach_note(event, kind);
        Some(Passed { place, has_enter, has_note })
    }

    /// Puts the path of the kernel's file that was noted for a thread next to this exit event, if it opens a file.
    fn attach_note(&mut self, event: &Event<'_>, exit: &EventType) -> bool {
        let is_open = opens_by_name(exit.number);
        if is_open {
            let noted = self.noted.get(event.tid);
            let path = noted.as_ref().and_then(|values| values.raw(1)).unwrap_or_default();
            let path = path.split(|byte| *byte == 0).next().unwrap_or_default();
            let is_whole = limits::reached::OPENED_PATH_MAX.holds(path.len());
            let end = if is_whole { path.len() } else { limits::OPENED_PATH_MAX };
            self.opened.clear();
            self.opened.extend_from_slice(path.get(..end).unwrap_or_default());
            let left = self.noted.remove(event.tid);
            self.merged(left);
        } else if exit.sources.has(Sources::SYSCALL) {
            let left = self.noted.remove(event.tid);
            self.counts.ledger.shed(ShedReason::WrongEnter, left, 0);
        }
        is_open
    }

    /// Puts the enter event of a thread next to this exit event, if both are of the same call.
    fn attach(&mut self, event: &Event<'_>, enter: &EventType, exit: &EventType) -> bool {
        // A successful execveat is recorded as execve by some programs.
        let is_same = enter.number.checked_add(1) == Some(exit.number)
            || (enter.number == types::EXECVEAT_E && exit.number == types::EXECVE_19_X);
        if is_same {
            let left = self.seen.take_thread(event.tid, &mut self.enter);
            self.merged(left);
            self.counts.without_place += u64::from(enter.number == types::EXECVEAT_E);
        } else if exit.sources.has(Sources::SYSCALL) {
            let left = self.seen.remove(event.tid);
            self.counts.ledger.shed(ShedReason::WrongEnter, left, 0);
        }
        is_same
    }

    #[inline]
    fn merged(&mut self, events: u64) {
        self.counts.merged += events;
        self.counts.ledger.pass(events, 0);
    }
}

/// The flags of types that are not passed as they are.
const HANDLED: u32 =
    TypeFlags::UNUSED.0 | TypeFlags::CONVERTER_MANAGED.0 | TypeFlags::OLD_VERSION.0;

/// The values of the event at their place.
#[inline]
fn values<'a>(event: &Event<'a>, made: &'a [Made; 2], place: Place) -> Option<Values<'a>> {
    match place {
        Place::Event => Some(event.values),
        Place::Made(n) => made.get(n)?.values(),
    }
}

/// Whether an enter event of an old type has no value that the exit event lacks.
fn has_nothing_of_its_own(values: &Values<'_>) -> bool {
    // The descriptor that is copied is `oldfd` in the exit event.
    values.is_empty()
        || matches!(values.kind().number, types::DUP2_E | types::DUP3_E | types::DUP_1_E)
}

/// What Falco's converter decides about an event.
fn decide(values: &Values<'_>) -> Decision {
    let kind = values.kind();
    let is_old = kind.flags.has(TypeFlags::OLD_VERSION);
    if kind.flags.has(TypeFlags::UNUSED) {
        return Decision::Shed(ShedReason::UnusedEvent);
    }
    if !kind.flags.has(TypeFlags::CONVERTER_MANAGED) {
        return if !is_old {
            Decision::Pass
        } else if !kind.is_exit() && has_nothing_of_its_own(values) {
            Decision::Merge
        } else {
            Decision::Shed(ShedReason::UnusedEvent)
        };
    }
    let (count, count_max) = (values.len(), kind.parameters.len());
    if kind.is_exit() && count == count_max && !is_old {
        return Decision::Pass;
    }
    match kind.conversion(count) {
        Some(conversion) if count <= count_max => Decision::Convert(conversion),
        _ => Decision::Shed(ShedReason::NoConversion),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::Source;

    fn made(kind: u16, values: &[&[u8]]) -> Made {
        let mut made = Made::default();
        made.begin(event_type(kind).unwrap());
        for value in values {
            made.push(value);
        }
        made
    }

    /// An event of thread 7, and what comes out: its type, its parameters, the values of its enter event.
    type Out = Option<(u16, Vec<Vec<u8>>, Option<Vec<Vec<u8>>>)>;

    fn give(merger: &mut Merger, kind: u16, values: &[&[u8]]) -> Out {
        let made = made(kind, values);
        let event = Event {
            number: 1,
            raw_number: 1,
            ts_ns: 5,
            tid: 7,
            cpu: 0,
            flags: 0,
            values: made.values().unwrap(),
            enter: None,
            live: LiveValues::default(),
        };
        let raws = |values: Values<'_>| values.iter().map(<[u8]>::to_vec).collect::<Vec<_>>();
        let out =
            merger.merge(&event).map(|e| (e.kind().number, raws(e.values), e.enter.map(raws)));
        merger.counts().ledger.balance().unwrap();
        out
    }

    const FD: [u8; 8] = [3, 0, 0, 0, 0, 0, 0, 0];
    const ZERO: [u8; 8] = [0; 8];
    const SIZE: [u8; 4] = [80, 0, 0, 0];

    #[test]
    fn values_of_an_enter_event_are_with_its_exit_event() {
        let mut merger = Merger::new();
        assert_eq!(give(&mut merger, types::READ_E, &[&FD, &SIZE]), None);
        let (kind, values, enter) = give(&mut merger, types::READ_X, &[&ZERO, b"data"]).unwrap();
        assert_eq!((kind, enter), (types::READ_X, None));
        assert_eq!(values, [&ZERO[..], b"data", &FD, &SIZE]);
        let counts = merger.counts();
        assert_eq!((counts.merged, counts.ledger.passed().items), (1, 2));
        // Without the enter event its values are unknown or 0, as the table says.
        let (_, values, _) = give(&mut merger, types::READ_X, &[&ZERO, b"data"]).unwrap();
        assert_eq!(values[..2], [&ZERO[..], b"data"]);
        assert_ne!(values[2], FD);
    }

    #[test]
    fn the_enter_event_of_an_open_stands_next_to_its_exit_event() {
        let mut merger = Merger::new();
        assert_eq!(give(&mut merger, types::OPEN_E, &[b"/etc/shadow\0", &SIZE, &SIZE]), None);
        let exit: [&[u8]; 6] = [&FD, b"/tmp/x\0", &SIZE, &SIZE, &SIZE, &ZERO];
        let (_, values, enter) = give(&mut merger, types::OPEN_X, &exit).unwrap();
        assert_eq!(
            (&values[1][..], &enter.unwrap()[0][..]),
            (&b"/tmp/x\0"[..], &b"/etc/shadow\0"[..])
        );
        let (_, _, enter) = give(&mut merger, types::OPEN_X, &exit).unwrap();
        assert_eq!(enter, None, "it belongs to one call");
    }

    #[test]
    fn a_fault_sheds_one_event_and_the_next_ones_pass() {
        let mut merger = Merger::new();
        let shed = |merger: &Merger, reason| merger.counts().ledger.shed_for(reason).items;
        // The enter event of another call: its exit event was lost.
        assert_eq!(give(&mut merger, types::CLOSE_E, &[&FD]), None);
        assert!(give(&mut merger, types::READ_X, &[&ZERO, b"data"]).is_some());
        assert_eq!(shed(&merger, ShedReason::WrongEnter), 1);
        // More parameters than the type has, and fewer than any old program wrote.
        assert_eq!(give(&mut merger, types::CLOSE_X, &[&ZERO, &FD, &FD]), None);
        assert_eq!(give(&mut merger, types::READ_E, &[&FD]), None);
        assert_eq!(shed(&merger, ShedReason::NoConversion), 2);
        // Another enter event of the thread, the end of the thread, the end of the input.
        assert_eq!(give(&mut merger, types::READ_E, &[&FD, &SIZE]), None);
        assert_eq!(give(&mut merger, types::READ_E, &[&FD, &SIZE]), None);
        let exit: [&[u8]; 5] = [&ZERO, &ZERO, &[0], &[0], &ZERO];
        assert!(give(&mut merger, types::PROCEXIT_1_E, &exit).is_some());
        assert_eq!(shed(&merger, ShedReason::NoExit), 2);
        assert_eq!(give(&mut merger, types::READ_E, &[&FD, &SIZE]), None);
        assert_eq!(merger.counts().ledger.in_flight().items, 1);
        merger.finish();
        assert_eq!(shed(&merger, ShedReason::NoExit), 3);
        merger.counts().ledger.balance().unwrap();
    }

    #[test]
    fn an_event_that_no_block_could_hold_is_shed() {
        let mut merger = Merger::new();
        let _ = gabion_record::limits::take_reached();
        assert_eq!(give(&mut merger, types::READ_E, &[&FD, &SIZE]), None);
        let data = vec![b'x'; 65_490];
        assert_eq!(give(&mut merger, types::READ_X, &[&ZERO, &data]), None);
        let reached = gabion_record::limits::take_reached();
        assert_eq!(reached.times_reached(&limits::reached::CONVERTED_LEN_MAX), 1);
        assert_eq!(merger.counts().ledger.shed_for(ShedReason::LimitReached).items, 1);
    }

    /// Every buffer of a merger that has seen each kind of its events keeps its memory.
    #[test]
    fn a_warm_merger_makes_no_buffer() {
        let mut merger = Merger::new();
        let exit: [&[u8]; 6] = [&FD, b"/tmp/x\0", &SIZE, &SIZE, &SIZE, &ZERO];
        let events = [
            made(types::READ_E, &[&FD, &SIZE]),
            made(types::READ_X, &[&ZERO, b"data"]),
            made(types::OPEN_E, &[b"/etc/shadow\0", &SIZE, &SIZE]),
            made(types::OPEN_X, &exit),
            made(types::CLOSE_E, &[&FD]),
            made(types::CLOSE_X, &[&ZERO]),
        ];
        let mut passed = 0;
        let mut round = |merger: &mut Merger, tids: std::ops::Range<i64>| {
            for made in &events {
                for tid in tids.clone() {
                    let values = made.values().unwrap();
                    let (raw_number, ts_ns, cpu) = (1, 1, 0);
                    let event = Event {
                        number: 0,
                        raw_number,
                        ts_ns,
                        tid,
                        cpu,
                        flags: 0,
                        values,
                        enter: None,
                        live: LiveValues::default(),
                    };
                    passed += u64::from(merger.merge(&event).is_some());
                }
            }
        };
        let memory = |merger: &Merger| {
            let made: usize = merger.made.iter().map(Made::memory).sum();
            made + merger.enter.memory() + merger.stored.memory() + merger.seen.memory()
        };
        (0..10).for_each(|_| round(&mut merger, 0..64));
        let before = memory(&merger);
        (0..300).for_each(|_| round(&mut merger, 0..64));
        assert_eq!(memory(&merger), before);
        assert_eq!(passed, 310 * 3 * 64, "each call gave one event");
        assert_eq!(merger.counts().merged, passed);
    }

    #[test]
    fn events_are_numbered_as_falco_numbers_them() {
        let mut merger = Merger::new();
        let mut numbers = Vec::new();
        let close = made(types::CLOSE_X, &[&ZERO, &FD]);
        let open = made(types::OPEN_E, &[b"a\0", &SIZE, &SIZE]);
        for (raw_number, made) in [(1, &close), (2, &open), (3, &close)] {
            let values = made.values().unwrap();
            let event = Event {
                number: 0,
                raw_number,
                ts_ns: 0,
                tid: 1,
                cpu: 0,
                flags: 0,
                values,
                enter: None,
                live: LiveValues::default(),
            };
            numbers.push(merger.merge(&event).map(|e| (e.number, e.raw_number)));
        }
        assert_eq!(numbers, [Some((1, 1)), None, Some((3, 3))]);
    }

    /// Every parameter of an enter event of old files has a place in the exit event: a conversion fills it, or the
    /// exit event has a parameter of the same name. What has none is named here.
    #[test]
    fn every_value_of_an_enter_event_has_a_place_in_the_exit_event() {
        let mut without = Vec::new();
        for enter in crate::table::event_types() {
            let is_call = enter.sources.has(Sources::SYSCALL) && !enter.is_exit();
            let becomes_another =
                enter.conversions.iter().any(|c| matches!(c.action, Action::ChangeType(_)));
            if !is_call || becomes_another || enter.flags.has(TypeFlags::UNUSED) {
                continue;
            }
            let exit = event_type(enter.number + 1).unwrap();
            for (place, parameter) in enter.parameters.iter().enumerate() {
                let is_taken = exit.conversions.iter().any(|c| {
                    c.sources
                        .iter()
                        .any(|s| matches!(s, Source::Enter(n, _) if usize::from(*n) == place))
                });
                let name = if exit.name.starts_with("dup") { "oldfd" } else { parameter.name };
                if !is_taken && exit.parameter(name).is_none() {
                    without.push(format!("{}.{}", enter.constant, parameter.name));
                }
            }
        }
        // umount takes no flags: the parameter of its old enter event never had a meaning.
        let known = ["FSTAT64_E.fd", "UMOUNT_E.flags", "EXECVEAT_E.dirfd", "EXECVEAT_E.pathname"];
        assert_eq!(without, known);
    }
}
