//! Counters of the application layer.

use gabion_record::applayer::{ProtoId, Transport};

/// Counters of the application layer of one worker.
#[derive(Clone, Debug, Default)]
pub struct AppCounters {
    /// Flows by protocol id, TCP and UDP; index 0: failed.
    pub flows: Vec<[u64; 2]>,
    /// Transactions by protocol id.
    pub txs: Vec<[u64; 2]>,
    /// Parser errors by protocol id.
    pub errors: Vec<[u64; 2]>,
    /// Gaps at which a parser had to stop.
    pub gaps: Vec<[u64; 2]>,
    /// Flows whose parser was stopped because the budget was used up.
    pub refused: Vec<[u64; 2]>,
    /// Announced flows that wait.
    pub expectations: u64,
    /// Frames beyond the limit.
    pub frames_dropped: u64,
    /// Transactions looked at to weigh what parsers hold.
    pub weighed: u64,
}

/// Adds one to a protocol's count.
pub(super) fn bump(v: &mut Vec<[u64; 2]>, id: ProtoId, transport: Transport) {
    bump_by(v, id, transport, 1);
}

/// Adds a number to a protocol's count.
pub(super) fn bump_by(v: &mut Vec<[u64; 2]>, id: ProtoId, transport: Transport, times: u64) {
    if times == 0 {
        return;
    }
    let at = if id.is_known() { usize::from(id.0) } else { 0 };
    if v.len() <= at {
        v.resize(at + 1, [0; 2]);
    }
    v[at][usize::from(transport == Transport::Udp)] += times;
}

impl AppCounters {
    /// Adds another worker's counts.
    pub fn merge(&mut self, o: &AppCounters) {
        let add = |a: &mut Vec<[u64; 2]>, b: &[[u64; 2]]| {
            if a.len() < b.len() {
                a.resize(b.len(), [0; 2]);
            }
            for (x, y) in a.iter_mut().zip(b) {
                x[0] += y[0];
                x[1] += y[1];
            }
        };
        add(&mut self.flows, &o.flows);
        add(&mut self.txs, &o.txs);
        add(&mut self.errors, &o.errors);
        add(&mut self.gaps, &o.gaps);
        add(&mut self.refused, &o.refused);
        self.expectations += o.expectations;
        self.frames_dropped += o.frames_dropped;
        self.weighed += o.weighed;
    }
}
