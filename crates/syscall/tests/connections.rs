//! A connection is found by its network namespace and its two ends, for as long as its descriptor has them.

mod made;

use gabion_record::Ip;
use gabion_record::budget::Budget;
use gabion_scap::host::ProcessEntry;
use gabion_scap::{Event, LiveValues, types};
use gabion_syscall::fd::{End, L4Proto};
use gabion_syscall::{ConnectionKey, Options, State};
use made::{Made, i64s, open, u32s};

fn tuple() -> Vec<u8> {
    let mut tuple = vec![2, 10, 0, 0, 1];
    tuple.extend(5000_u16.to_le_bytes());
    tuple.extend([10, 0, 0, 2, 80, 0]);
    tuple
}

#[test]
fn a_connection_has_its_thread_until_it_is_closed() {
    let mut state = State::new(Options::default(), Budget::standalone("threads", 1 << 20));
    for tid in [7, 9] {
        state.add_process(&ProcessEntry { tid, pid: tid, ..ProcessEntry::default() });
    }
    let apply = |state: &mut State, made: &Made, netns| {
        let live = LiveValues { netns, ..LiveValues::default() };
        state.apply(&Event { live, ..made.event(1) });
    };
    apply(&mut state, &open(7, 3, "/etc/hosts"), 0);
    let socket = [i64s(4), u32s(2), u32s(1), u32s(0), u32s(0)];
    apply(&mut state, &Made::new(types::SOCKET_X, 7, &socket), 0);
    let connect = [i64s(0), tuple(), i64s(4), vec![]];
    apply(&mut state, &Made::new(types::CONNECT_X, 7, &connect), 55);
    let accept = [i64s(5), tuple(), vec![0], u32s(0), u32s(128)];
    apply(&mut state, &Made::new(types::ACCEPT_5_X, 9, &accept), 66);

    let client = End { ip: Ip::v4(0x0a00_0001), port: 5000 };
    let server = End { ip: Ip::v4(0x0a00_0002), port: 80 };
    let key = |netns, local, remote| ConnectionKey { netns, l4proto: L4Proto::Tcp, local, remote };
    let tid = |state: &State, key| state.thread_of_connection(&key).map(|thread| thread.tid);
    assert_eq!(tid(&state, key(55, client, server)), Some(7));
    assert_eq!(tid(&state, key(66, server, client)), Some(9));
    assert_eq!(tid(&state, key(66, client, server)), None, "another namespace");
    assert_eq!(tid(&state, key(55, server, client)), None, "the other end");

    let close = Made::new(types::CLOSE_X, 7, &[i64s(0), i64s(4)]);
    apply(&mut state, &close, 0);
    apply(&mut state, &close, 0);
    assert_eq!(tid(&state, key(55, client, server)), None, "it was closed");
    let exit = Made::new(types::PROCEXIT_1_E, 9, &[i64s(0), i64s(0), vec![0], vec![0], i64s(1)]);
    apply(&mut state, &exit, 0);
    apply(&mut state, &close, 0);
    assert_eq!(tid(&state, key(66, server, client)), None, "its process ended");
}
