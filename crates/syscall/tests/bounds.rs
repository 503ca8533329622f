//! Bounds: a million processes in a small budget, long arguments, chains and loops of ancestors.

mod made;
mod made_children;

use gabion_record::budget::Budget;
use gabion_record::fields::{Argument, Fields as _, Missing, Scratch, Value, ids};
use gabion_scap::host::ProcessEntry;
use gabion_syscall::{Options, State, limits};
use made::open;
use made_children::clone_child;

fn state(threads_max: usize, bytes: u64) -> State {
    let options = Options { threads_max, ..Options::default() };
    State::new(options, Budget::standalone("threads", bytes))
}

fn process(tid: i64, ptid: i64) -> ProcessEntry {
    let comm = format!("p{tid}").into_bytes();
    ProcessEntry { tid, pid: tid, ptid, vtid: tid, vpid: tid, comm, ..ProcessEntry::default() }
}

/// One process after the other is cloned and opens a file; none ends. The shell at the end is known with its file.
#[test]
fn a_million_processes_stay_within_the_budget() {
    const BUDGET: u64 = 16 << 20;
    let mut state = state(limits::THREADS_DEFAULT, BUDGET);
    state.add_process(&process(1, 0));
    let mut most = 0;
    for n in 0..1_000_000 {
        let tid = 2 + n;
        clone_child(tid, 1, "sleep", b"1\0").apply(&mut state, 10 + n as u64);
        most = most.max(state.threads().held());
    }
    clone_child(2_000_000, 1, "shell", b"-i\0").apply(&mut state, 2_000_000);
    let open = open(2_000_000, 3, "/etc/shadow");
    open.apply(&mut state, 2_000_001);
    assert!(most <= BUDGET && state.threads().peak() <= BUDGET, "{most} bytes");
    let counts = state.threads().counts;
    let known = state.threads().len() as u64;
    let gone = counts.ended + counts.replaced + counts.shed_dead + counts.shed_idle;
    assert_eq!(counts.added, gone + known);
    assert!(counts.shed_idle > 900_000 && counts.refused == 0);
    let event = open.event(2_000_001);
    let (view, mut scratch) = (state.view(&event), Scratch::new());
    let value = view.field(ids::FD_NAME, Argument::None, &mut scratch);
    assert_eq!(value, Ok(Value::Text(b"/etc/shadow")));
    assert_eq!(view.field(ids::PROC_NAME, Argument::None, &mut scratch), Ok(Value::Text(b"shell")));
}

/// One process alone opens more files than the budget holds: its descriptors are forgotten and counted.
#[test]
fn one_process_cannot_use_more_than_the_budget() {
    const BUDGET: u64 = 1 << 20;
    let mut state = state(10, BUDGET);
    state.add_process(&process(7, 1));
    for fd in 0..20_000 {
        open(7, fd, &format!("/srv/{fd}/{}", "x".repeat(200))).apply(&mut state, 1);
        assert!(state.threads().held() <= BUDGET);
    }
    let counts = state.threads().counts;
    let known = state.threads().get(7).unwrap().fds.len() as u64;
    assert_eq!(counts.shed_fds + known, 20_000);
    assert!(counts.shed_fds > 0 && counts.shed_idle == 0);
}

/// A thread that was removed to save memory says so when its next event comes.
#[test]
fn a_thread_that_was_shed_says_so() {
    let mut state = state(10, 1 << 20);
    for tid in 1..=20 {
        clone_child(tid, 0, "worker", b"").apply(&mut state, tid as u64);
    }
    let open = open(3, 4, "/tmp/a");
    open.apply(&mut state, 100);
    let event = open.event(100);
    let (view, mut scratch) = (state.view(&event), Scratch::new());
    assert_eq!(view.field(ids::PROC_NAME, Argument::None, &mut scratch), Err(Missing::Shed));
    let missing = view.field(ids::EVT_MISSING, Argument::Key("proc.name"), &mut scratch);
    assert_eq!(missing, Ok(Value::Text(b"shed")));
    assert_eq!(state.threads().counts.shed_idle, 11);
}

/// Lists may hold more than the kernel allows: what is kept of a text has a limit, which is counted.
#[test]
fn long_arguments_are_cut_and_counted() {
    let mut state = state(10, 64 << 20);
    state.add_process(&ProcessEntry { args: vec![b'a'; 1 << 20], ..process(7, 1) });
    let thread = state.threads().get(7).unwrap();
    assert_eq!(thread.args.bytes().len(), limits::PROCESS_TEXT_MAX);
    let reached = gabion_record::limits::take_reached();
    assert_eq!(reached.times_reached(&limits::reached::PROCESS_TEXT_MAX), 1);
}

/// A field of all ancestors looks at a bounded number of them, also where they are a loop.
#[test]
fn chains_and_loops_of_ancestors_are_bounded() {
    let mut state = state(20_000, 256 << 20);
    for tid in 1..=10_000 {
        state.add_process(&process(tid, tid - 1));
    }
    state.add_process(&process(20_001, 20_002));
    state.add_process(&process(20_002, 20_001));
    let names = |state: &mut State, tid: i64| {
        let event = open(tid, 3, "/tmp/a");
        event.apply(state, 1);
        let event = event.event(1);
        let mut scratch = Scratch::new();
        let view = state.view(&event);
        match view.field(ids::PROC_ANAME, Argument::None, &mut scratch) {
            Ok(Value::List(list)) => list.len(),
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(names(&mut state, 10_000), limits::ANCESTORS_MAX);
    let reached = gabion_record::limits::take_reached();
    assert_eq!(reached.times_reached(&limits::reached::ANCESTORS_MAX), 1);
    assert!(names(&mut state, 20_001) < 10, "a loop ends");
    let event = open(10_000, 3, "/tmp/a");
    event.apply(&mut state, 2);
    let event = event.event(2);
    let mut scratch = Scratch::new();
    let view = state.view(&event);
    let far = view.field(ids::PROC_ANAME, Argument::Index(5_000), &mut scratch);
    assert_eq!(far, Err(Missing::Shed));
    let near = view.field(ids::PROC_ANAME, Argument::Index(2), &mut scratch);
    assert_eq!(near, Ok(Value::Text(b"p9998")));
}

/// A path is as long as the kernel's paths at most.
#[test]
fn long_paths_are_cut_and_counted() {
    let mut state = state(10, 64 << 20);
    state.add_process(&process(7, 1));
    open(7, 3, &"/abcdefg".repeat(1_000)).apply(&mut state, 1);
    let fd = state.threads().get(7).unwrap().fds.get(3).unwrap();
    assert_eq!(fd.name.bytes().len(), limits::PATH_BYTES_MAX);
    assert_eq!(
        gabion_record::limits::take_reached().times_reached(&limits::reached::PATH_BYTES_MAX),
        1
    );
}
