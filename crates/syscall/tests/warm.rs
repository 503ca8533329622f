//! A warm state gives no memory to the strings and descriptors of an event: it uses that of closed ones again.

mod made;
mod made_children;

use gabion_condition::compile::Filter;
use gabion_record::budget::Budget;
use gabion_scap::host::ProcessEntry;
use gabion_scap::types;
use gabion_syscall::{Options, State};
use made::{Made, i64s, open, text, u32s};
use made_children::clone_child;

/// Strings and entries of descriptors that were given memory.
fn made(state: &State) -> (u64, u64) {
    (state.threads().texts.made(), state.threads().fd_pool.made())
}

fn tuple(port: u16) -> Vec<u8> {
    let mut tuple = vec![2, 10, 0, 0, 1];
    tuple.extend(port.to_le_bytes());
    tuple.extend([10, 0, 0, 2, 80, 0]);
    tuple
}

fn close(tid: i64, fd: i64) -> Made {
    Made::new(types::CLOSE_X, tid, &[i64s(0), i64s(fd)])
}

/// What a server does for a request, again and again.
fn request() -> Vec<Made> {
    let tid = 7;
    let socket = [i64s(4), u32s(2), u32s(1), u32s(0), u32s(0)];
    let connect = [i64s(0), tuple(5000), i64s(4), vec![]];
    let accept = [i64s(5), tuple(6000), vec![0], u32s(0), u32s(128)];
    let openat = [i64s(6), i64s(-100), text("index.html"), u32s(1), u32s(0), u32s(8), i64s(99)];
    let read = [i64s(4), b"data".to_vec(), i64s(6), u32s(4)];
    let write = [i64s(4), b"data".to_vec(), i64s(5), u32s(4)];
    vec![
        open(tid, 3, "/etc/hosts"),
        Made::new(types::SOCKET_X, tid, &socket),
        Made::new(types::CONNECT_X, tid, &connect),
        Made::new(types::ACCEPT_5_X, tid, &accept),
        Made::new(types::OPENAT_2_X, tid, &openat),
        Made::new(types::READ_X, tid, &read),
        Made::new(types::WRITE_X, tid, &write),
        close(tid, 6),
        close(tid, 5),
        close(tid, 4),
        close(tid, 3),
    ]
}

#[test]
fn warm_events_without_a_match_make_nothing() {
    let mut state = State::new(Options::default(), Budget::standalone("threads", 1 << 20));
    let cwd = b"/srv/www".to_vec();
    state.add_process(&ProcessEntry { tid: 1, pid: 1, ..ProcessEntry::default() });
    state.add_process(&ProcessEntry {
        tid: 7,
        pid: 7,
        ptid: 1,
        comm: b"httpd".to_vec(),
        cwd,
        ..ProcessEntry::default()
    });
    let condition = "proc.name=sshd or proc.cmdline contains nosuch or fd.name startswith /root \
                     or fd.sip=10.9.9.9 or proc.aname=sshd or container.id!=host \
                     or evt.arg.name endswith shadow or user.name=nobody or proc.pcmdline contains x \
                     or fd.directory=/root or fs.path.name contains secret";
    let mut filter = Filter::new(condition).unwrap();
    let events = request();
    let mut ts_ns = 0;
    let mut replay = |state: &mut State, events_max: u64| {
        let until = ts_ns + events_max;
        while ts_ns < until {
            for made in &events {
                ts_ns += 1;
                let event = made.event(ts_ns);
                state.apply(&event);
                assert!(!filter.matches(&state.view(&event)));
            }
        }
    };
    replay(&mut state, 1_000);
    let (before, held) = (made(&state), state.threads().held());
    replay(&mut state, 100_000);
    assert_eq!((made(&state), state.threads().held()), (before, held));
}

/// A child shares the strings and descriptors of its parent: its entry uses the memory of one that ended.
#[test]
fn a_warm_fork_makes_no_strings_and_no_descriptors() {
    let mut state = State::new(Options::default(), Budget::standalone("threads", 1 << 20));
    clone_child(7, 1, "sh", b"-c\0").apply(&mut state, 1);
    for fd in 0..100 {
        open(7, fd, "/dev/null").apply(&mut state, 2);
    }
    let child = clone_child(8, 7, "sh", b"-c\0");
    let exit = Made::new(types::PROCEXIT_1_E, 8, &[i64s(0), i64s(0), vec![0], vec![0], i64s(1)]);
    let replay = |state: &mut State, times: u64| {
        for n in 0..times {
            child.apply(state, 10 + n);
            exit.apply(state, 10 + n);
        }
    };
    replay(&mut state, 10);
    let (before, held) = (made(&state), state.threads().held());
    replay(&mut state, 1_000);
    assert_eq!((made(&state), state.threads().held()), (before, held));
}
