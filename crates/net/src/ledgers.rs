//! The ledgers of a worker's stages: what each received, what it passed on, what it shed and why.

use gabion_record::ledger::{Ledger, ShedReason, stages};

/// One worker's ledgers, in the order of a packet's stages.
#[derive(Clone, Debug, Default)]
pub struct WorkerLedgers {
    /// Frames into decoders; passed are those whose headers make sense.
    pub decode: Ledger,
    /// Fragments into the defragmenter.
    pub defrag: Ledger,
    /// Packets that belong to flows into the flow table.
    pub flow: Ledger,
    /// Flows; shed are those evicted from a full table before their timeout.
    pub flows: Ledger,
    /// TCP packets with payload, and those with a wrong checksum, into streams.
    pub stream: Ledger,
    /// Pieces of stream into protocols.
    pub app: Ledger,
    /// Alerts into outputs.
    pub alerts: Ledger,
    /// What was shed because a fixed limit was reached.
    pub limits: Ledger,
    /// What was left out while a ring ran full.
    pub pressure: Ledger,
    /// Frames that the kernel dropped before they came here; they are in the reader's ledger.
    pub kernel_dropped: u64,
}

impl WorkerLedgers {
    /// Each ledger with the name of its stage.
    pub fn each(&self, f: &mut dyn FnMut(&'static str, &Ledger)) {
        f(stages::DECODE, &self.decode);
        f(stages::DEFRAG, &self.defrag);
        f(stages::FLOW, &self.flow);
        f(stages::FLOWS, &self.flows);
        f(stages::STREAM, &self.stream);
        f(stages::APP, &self.app);
        f(stages::ALERTS, &self.alerts);
        f(stages::LIMITS, &self.limits);
        if self.pressure.received().items > 0 {
            f(stages::PRESSURE, &self.pressure);
        }
    }
}

/// What a worker sheds without knowing the flow.
pub(crate) const OF_WORKER: [ShedReason; 4] = [
    ShedReason::DefragMemcap,
    ShedReason::FlowMemcap,
    ShedReason::StreamMemcap,
    ShedReason::KernelDrop,
];

/// How much of each kind a worker had shed at some time.
pub(crate) type ShedSoFar = [u32; 4];

impl WorkerLedgers {
    /// How much was shed so far without knowing its flow.
    pub(crate) fn shed_so_far(&self) -> ShedSoFar {
        let count = |l: &Ledger, r| l.shed_for(r).items as u32;
        [
            count(&self.defrag, OF_WORKER[0]),
            count(&self.flow, OF_WORKER[1]),
            count(&self.stream, OF_WORKER[2]),
            self.kernel_dropped as u32,
        ]
    }
}
