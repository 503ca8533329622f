//! A recorded live stream without every k-th record gives in each cell the value of the full run or none, never another.

use gabion_kernel_tests::live;
use gabion_probe::host::{self, Before};
use gabion_probe::syscalls::{Interest, Session, Settings};
use gabion_record::budget::Budget;
use gabion_record::fields::{Argument, FieldId, Fields, Scratch, ids};
use gabion_scap::{Event, Item, Merger, Numbers, Reader, Writer};
use gabion_syscall::{Options, State};
use std::path::Path;
use std::process::Command;

const NEEDED: &[&str] = &["programs", "btf", "sys_exit"];

/// Processes, folders and files, so that names depend on what came before.
const SCRIPT: &str = "cd /tmp && for i in 1 2 3 4 5 6 7 8 9 10; do \
    (cd /etc && cat hosts passwd >/dev/null; cd /usr && ls lib >/dev/null); \
    cat /etc/hostname | wc -c >/dev/null; sh -c 'exec 5</etc/hosts; cat <&5 >/dev/null; cd /; :'; done; true";

/// A file, and the numbers of its events.
fn recorded() -> (Vec<u8>, Vec<Numbers>) {
    let mut set = Interest::simple();
    for call in ["read", "write"] {
        assert!(set.add(call));
    }
    let mut session = Session::start(&Settings::new(set)).expect("it is here");
    let mut writer = Writer::new(Vec::new());
    writer.section().expect("memory takes everything");
    host::read_host(Path::new("/"), &mut |before| {
        let item = match before {
            Before::Machine(machine) => Item::Machine(machine),
            Before::Thread(entry) => Item::Process(entry),
            Before::Fd(entry) => Item::Fd(entry),
            Before::Interface(entry) => Item::Interface(entry),
            Before::User(entry) => Item::User(entry),
        };
        writer.write(&item).expect("memory takes everything");
    });
    let mut child = Command::new("sh").args(["-c", SCRIPT]).spawn().expect("sh is everywhere");
    let mut numbers = Vec::new();
    loop {
        let is_over = child.try_wait().expect("it is our child").is_some();
        if is_over {
            session.set_interest(&Interest::none());
        }
        let sink = &mut |call: &gabion_probe::syscalls::Call<'_>| {
            numbers.push(call.numbers);
            writer.event(&call.event).expect("memory takes everything");
        };
        if is_over {
            session.drain(sink);
            break;
        }
        session.poll(sink);
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
    assert_eq!(session.counts().shed_state, 0, "{:?}", session.counts());
    (writer.finish().expect("memory takes everything"), numbers)
}

/// All fields that depend on this event and the state alone.
fn columns() -> Vec<(FieldId, Argument<'static>)> {
    let skipped = [
        ids::EVT_DELTATIME,
        ids::EVT_DELTATIME_S,
        ids::EVT_DELTATIME_NS,
        ids::EVT_RELTIME,
        ids::EVT_RELTIME_S,
        ids::EVT_RELTIME_NS,
        ids::EVT_MISSING,
    ];
    let names = ids::NAMES.iter().filter_map(|name| FieldId::by_name(name));
    let mut all: Vec<_> = names
        .filter(|field| !skipped.contains(field) && !field.field().flags.argument_required)
        .map(|field| (field, Argument::None))
        .collect();
    all.extend((0..4).map(|distance| (ids::PROC_ANAME, Argument::Index(distance))));
    all.extend((0..8).map(|place| (ids::EVT_ARG, Argument::Index(place))));
    all
}

type Row = Vec<Option<String>>;

/// Applies all events but every k-th, and calls `then` with the place and the values of each.
fn replay(
    (file, numbers): &(Vec<u8>, Vec<Numbers>),
    k: Option<usize>,
    mut then: impl FnMut(usize, &Event<'_>, Row),
) -> State {
    let columns = columns();
    let mut state = State::new(Options::default(), Budget::standalone("threads", 256 << 20));
    let mut reader = Reader::new(std::io::Cursor::new(file.clone())).expect("it was written");
    let (mut merger, mut place) = (Merger::new(), 0);
    while let Some(item) = reader.next_item().expect("it was written") {
        let Item::Event(event) = item else {
            state.add(item);
            continue;
        };
        let Some(event) = merger.merge(&event) else { continue };
        let at = place;
        place += 1;
        if k.is_some_and(|k| place % k == 0) {
            continue;
        }
        state.apply_numbered(&event, numbers[at]);
        let (view, mut scratch) = (state.view(&event), Scratch::new());
        let value = |(field, argument): &(FieldId, Argument<'static>)| {
            view.field(*field, *argument, &mut scratch).ok().map(|value| format!("{value:?}"))
        };
        let row = columns.iter().map(value).collect();
        then(at, &event, row);
    }
    assert_eq!(place, numbers.len());
    state
}

#[test]
fn a_live_stream_with_gaps_gives_the_full_runs_values_or_none() {
    let name = "a_live_stream_with_gaps_gives_the_full_runs_values_or_none";
    let Some(_guard) = live(name, NEEDED) else { return };
    let recorded = recorded();
    let mut full: Vec<Row> = Vec::new();
    let state = replay(&recorded, None, |_, _, row| full.push(row));
    assert!(!state.loss().is_any(), "nothing was lost: {:?}", state.loss());
    assert!(full.len() > 1_000, "{} events", full.len());
    let columns = columns();
    for k in [2, 3, 7, 50, 333] {
        let (mut given, mut of, mut wrong) = (0_u64, 0_u64, Vec::new());
        let state = replay(&recorded, Some(k), |at, event, row| {
            for ((got, wanted), (field, argument)) in row.iter().zip(&full[at]).zip(&columns) {
                of += u64::from(wanted.is_some());
                given += u64::from(got.is_some());
                if got.is_some() && got != wanted {
                    let (kind, field) = (event.kind().constant, field.name());
                    let line = format!("{at} {kind} {field} {argument:?}: {got:?} for {wanted:?}");
                    wrong.push(line.chars().take(400).collect::<String>());
                }
            }
        });
        eprintln!("k={k}: {given} of {of} values, {:?}", state.loss());
        assert!(
            wrong.is_empty(),
            "{} values are others: {:#?}",
            wrong.len(),
            &wrong[..wrong.len().min(5)]
        );
        assert!(state.loss().is_any() && given * 5 > of, "{given} of {of} values");
    }
}
