//! Threads that nothing describes are looked up once each, bounded, and their fields say what came of it.

mod made;
mod made_children;

use gabion_record::budget::Budget;
use gabion_record::fields::{Argument, Fields as _, Missing, Scratch, Value, ids};
use gabion_scap::host::{FdEntry, FdTarget, ProcessEntry};
use gabion_scap::types;
use gabion_syscall::{LookUpCounts, Numbers, Options, State, limits};
use made::{Made, i64s, open};
use made_children::clone_child;

fn state() -> State {
    State::new(Options::default(), Budget::standalone("threads", 16 << 20))
}

fn process(tid: i64, pid: i64) -> ProcessEntry {
    let (comm, cwd) = (b"sshd".to_vec(), b"/srv".to_vec());
    ProcessEntry { tid, pid, ptid: 1, comm, cwd, ..ProcessEntry::default() }
}

/// What the event of a thread shows of its process, its descriptor, and why something is missing.
fn shown(state: &State, made: &Made) -> [Result<String, Missing>; 3] {
    let event = made.event(9);
    let (view, mut scratch) = (state.view(&event), Scratch::new());
    [
        (ids::PROC_NAME, Argument::None),
        (ids::FD_NAME, Argument::None),
        (ids::EVT_MISSING, Argument::None),
    ]
    .map(|(id, argument)| match view.field(id, argument, &mut scratch)? {
        Value::Text(text) => Ok(String::from_utf8_lossy(text).into_owned()),
        other => Ok(format!("{other:?}")),
    })
}

#[test]
fn a_thread_is_looked_up_once_and_described_by_what_was_found() {
    let mut state = state();
    state.add_process(&process(1, 1));
    let read = Made::new(types::READ_X, 8, &[i64s(4), b"data".to_vec(), i64s(5), vec![4, 0, 0, 0]]);
    assert_eq!(state.wants_look_up(&read.event(5)), Some(8));
    let target = FdTarget::File { open_flags: 1, name: b"/etc/shadow".to_vec(), dev: 1 };
    let fd = FdEntry { tid: 7, fd: 5, ino: 3, kind: 16, target };
    state.add_looked_up(&[process(7, 7), process(8, 7)], &[fd]);
    assert_eq!(state.wants_look_up(&read.event(5)), None);
    // The first number of a thread that ran before is no gap.
    let numbers = Numbers { of_source: 0, of_thread: 0 };
    state.apply_numbered(&read.event(5), numbers);
    let wanted = [Ok("sshd".into()), Ok("/etc/shadow".into()), Err(Missing::NotApplicable)];
    assert_eq!(shown(&state, &read), wanted);
    let open = open(8, 6, "a");
    state.apply_numbered(&open.event(6), Numbers { of_source: 1, of_thread: 57 });
    assert_eq!(shown(&state, &open)[1], Ok("/srv/a".into()));
    assert!(!state.loss().is_any());
    let counts = LookUpCounts { wanted: 1, found: 1, failed: 0, refused: 0 };
    assert_eq!(*state.look_ups(), counts);
}

#[test]
fn a_thread_that_is_gone_says_so() {
    let mut state = state();
    let open = open(8, 6, "/a");
    assert_eq!(state.wants_look_up(&open.event(5)), Some(8));
    state.look_up_failed(8);
    assert_eq!(state.wants_look_up(&open.event(5)), None);
    state.apply(&open.event(5));
    let [name, _, missing] = shown(&state, &open);
    assert_eq!((name, missing), (Err(Missing::LookupFailed), Ok("look-up-failed".into())));
}

#[test]
fn events_that_describe_their_thread_want_no_look_up() {
    let mut state = state();
    let child = clone_child(8, 7, "sh", b"-c\0");
    assert_eq!(state.wants_look_up(&child.event(5)), None);
    child.apply(&mut state, 5);
    assert_eq!(shown(&state, &open(8, 3, "/a"))[0], Ok("sh".into()));
    let exit = Made::new(types::PROCEXIT_1_E, 9, &[i64s(0), i64s(0), vec![0], vec![0], i64s(1)]);
    assert_eq!(state.wants_look_up(&exit.event(5)), None);
}

/// A storm of unknown threads is looked up as far as the bound, which is counted; the next second has its own.
#[test]
fn look_ups_of_a_second_are_bounded() {
    let mut state = state();
    let _ = gabion_record::limits::take_reached();
    let wanted = |state: &mut State, ns: u64| {
        let wants = |tid: &i64| state.wants_look_up(&open(*tid, 3, "/a").event(ns)).is_some();
        (1..=500_i64).filter(wants).count()
    };
    assert_eq!(wanted(&mut state, 1), limits::LOOK_UPS_PER_SECOND);
    assert_eq!(wanted(&mut state, 1_000_000_000), limits::LOOK_UPS_PER_SECOND);
    assert_eq!(state.look_ups().refused, 800);
    let reached = gabion_record::limits::take_reached();
    let limit = &limits::reached::LOOK_UPS_PER_SECOND;
    assert_eq!(
        (limit.full_name().as_str(), reached.times_reached(limit)),
        ("syscall.look_ups_per_second", 800)
    );
}

/// The reason of a field with an argument is asked for as rules write the field.
#[test]
fn the_reason_of_a_field_with_an_argument_is_known() {
    let mut state = state();
    state.add_process(&process(7, 7));
    let open = open(7, 6, "/a");
    state.apply(&open.event(5));
    let event = open.event(5);
    let (view, mut scratch) = (state.view(&event), Scratch::new());
    let mut missing = |of| match view.field(ids::EVT_MISSING, Argument::Key(of), &mut scratch) {
        Ok(Value::Text(text)) => String::from_utf8_lossy(text).into_owned(),
        other => format!("{other:?}"),
    };
    assert_eq!(missing("proc.aname[3]"), "never-seen");
    assert_eq!(missing("evt.arg.name"), "Err(NotApplicable)", "it is there");
    assert_eq!(missing("evt.arg.nosuch"), "not-applicable");
    assert_eq!(missing("fd.sip"), "not-applicable");
    assert_eq!(missing("user.name"), "Err(NotApplicable)");
}

/// Lost events of a thread that never comes back make other threads' names unsure, until a list describes all of them.
#[test]
fn a_list_of_processes_ends_the_doubt_after_a_loss() {
    const SECOND: u64 = 1_000_000_000;
    let mut state = state();
    state.add_process(&process(7, 7));
    let (open, read) = (
        open(7, 5, "/etc/shadow"),
        Made::new(types::READ_X, 7, &[i64s(4), b"data".to_vec(), i64s(5), vec![4, 0, 0, 0]]),
    );
    let numbers = |of_source, of_thread| Numbers { of_source, of_thread };
    state.apply_numbered(&open.event(SECOND), numbers(1, 1));
    state.apply_numbered(&read.event(SECOND), numbers(1, 0));
    assert_eq!(shown(&state, &read)[1], Ok("/etc/shadow".into()));
    // Another thread's events are missing.
    state.apply_numbered(&read.event(2 * SECOND), numbers(3, 0));
    assert_eq!(shown(&state, &read)[1], Err(Missing::Shed));
    assert!(!state.wants_list(), "it may show a gap soon");
    state.apply_numbered(&read.event(5 * SECOND), numbers(3, 0));
    assert!(state.wants_list());

    state.begin_list();
    state.add_process(&process(7, 7));
    let target = FdTarget::File { open_flags: 1, name: b"/etc/shadow".to_vec(), dev: 1 };
    state.add_fd(&FdEntry { tid: 7, fd: 5, ino: 3, kind: 16, target });
    state.apply_numbered(&read.event(6 * SECOND), numbers(3, 0));
    assert_eq!(shown(&state, &read)[1], Ok("/etc/shadow".into()));
    state.apply_numbered(&open.event(7 * SECOND), numbers(4, 2));
    assert!(!state.loss().is_any() && !state.wants_list());
    // A second loss is answered after some time only.
    state.apply_numbered(&read.event(8 * SECOND), numbers(9, 0));
    state.apply_numbered(&read.event(20 * SECOND), numbers(9, 0));
    assert!(!state.wants_list());
    state.apply_numbered(&read.event(40 * SECOND), numbers(9, 0));
    assert!(state.wants_list());
}
