//! Children of threads that tests make, and how events are applied.

use crate::made::{Made, i64s, text, u32s};
use gabion_scap::types;
use gabion_syscall::State;

impl Made {
    /// Applies it at a time.
    pub(crate) fn apply(&self, state: &mut State, ts_ns: u64) {
        state.apply(&self.event(ts_ns));
    }
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
