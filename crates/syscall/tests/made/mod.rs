//! Events that tests make themselves.

use gabion_scap::table::event_type;
use gabion_scap::{Event, LiveValues, Values, types};

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

    /// The event at a time.
    pub(crate) fn event(&self, ts_ns: u64) -> Event<'_> {
        let values = Values::new(event_type(self.kind).unwrap(), &self.lengths, &self.bytes);
        let (tid, number) = (self.tid, ts_ns);
        Event {
            number,
            raw_number: number,
            ts_ns,
            tid,
            cpu: 0,
            flags: 0,
            values,
            enter: None,
            live: LiveValues::default(),
        }
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

pub(crate) fn open(tid: i64, fd: i64, path: &str) -> Made {
    let parameters = [i64s(fd), text(path), u32s(1), u32s(0), u32s(0), i64s(0)];
    Made::new(types::OPEN_X, tid, &parameters)
}
