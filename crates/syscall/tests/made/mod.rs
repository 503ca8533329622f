//! Events that tests make themselves.

use gabion_scap::table::event_type;
use gabion_scap::{Event, Values, types};
use gabion_syscall::State;

/// An event that owns its parameters.
pub(crate) struct Made {
    kind: u16,
    lengths: Vec<u8>,
    bytes: Vec<u8>,
    tid: i64,
}

impl Made {
    /// An event of a thread with these parameters.
    pub(crate) fn new(kind: u16, tid: i64, parameters: &[Vec<u8>]) -> Made {
        let len = |p: &Vec<u8>| u16::try_from(p.len()).unwrap_or(u16::MAX).to_le_bytes();
        Made {
            kind,
            lengths: parameters.iter().flat_map(len).collect(),
            bytes: parameters.concat(),
            tid,
        }
    }

    /// Applies it at a time.
    pub(crate) fn apply(&self, state: &mut State, ts_ns: u64) {
        state.apply(&self.event(ts_ns));
    }

    /// The event at a time.
    pub(crate) fn event(&self, ts_ns: u64) -> Event<'_> {
        let values = Values::new(event_type(self.kind).unwrap(), &self.lengths, &self.bytes);
        let (tid, number) = (self.tid, ts_ns);
        Event { number, raw_number: number, ts_ns, tid, cpu: 0, flags: 0, values, enter: None }
    }
}

pub(crate) fn i64s(n: i64) -> Vec<u8> {
    n.to_le_bytes().to_vec()
}

pub(crate) fn u32s(n: u32) -> Vec<u8> {
    n.to_le_bytes().to_vec()
}

pub(crate) fn text(s: &str) -> Vec<u8> {
    [s.as_bytes(), b"\0"].concat()
}

/// The child's end of a clone.
pub(crate) fn clone_child(tid: i64, ptid: i64, comm: &str, args: &[u8]) -> Made {
    let parameters = [
        i64s(0),
        text("/bin/sh"),
        args.to_vec(),
        i64s(tid),
        i64s(tid),
        i64s(ptid),
        text("/"),
        i64s(1024),
        i64s(0),
        i64s(0),
        u32s(100),
        u32s(10),
        u32s(0),
        text(comm),
        b"cpu=/\0".to_vec(),
        u32s(0),
        u32s(0),
        u32s(0),
        i64s(tid),
        i64s(tid),
        i64s(0),
    ];
    Made::new(types::CLONE_20_X, tid, &parameters)
}

pub(crate) fn open(tid: i64, fd: i64, path: &str) -> Made {
    let parameters = [i64s(fd), text(path), u32s(1), u32s(0), u32s(0), i64s(0)];
    Made::new(types::OPEN_X, tid, &parameters)
}
