//! What travels with a packet through the stages, and what is decided about it on the way.

use crate::account::Account;
use crate::detect::{Findings, Hit};
use crate::engine::Engine;
use crate::flow_state::NetFlow;
use crate::pressure::Pinned;
use crate::view::PacketView;
use gabion_flow::{Flow, StreamEvent, TcpVerdict};
use gabion_record::DropReason;
use gabion_record::applayer::DetectionEvent;
use gabion_record::eve::NetSink;
use smallvec::SmallVec;
use std::sync::Arc;

/// A packet in the stages after its flow is known: the packet, what is decided about it, and where
/// its records go.
pub(crate) struct PacketContext<'a> {
    pub(crate) engine: &'a Engine,
    pub(crate) view: &'a PacketView<'a>,
    /// Its flow, if it has one.
    pub(crate) flow: Option<&'a mut Flow<NetFlow>>,
    /// The outcome of the TCP tracker.
    pub(crate) tcp: Option<&'a TcpVerdict>,
    pub(crate) outcome: &'a mut PacketOutcome,
    pub(crate) findings: &'a mut Findings,
    pub(crate) account: &'a mut Account,
    pub(crate) sink: &'a mut dyn NetSink,
}

impl PacketContext<'_> {
    /// The same context with an updated view of the packet.
    #[inline]
    pub(crate) fn with_view<'a>(&'a mut self, view: &'a PacketView<'a>) -> PacketContext<'a> {
        PacketContext {
            engine: self.engine,
            view,
            flow: self.flow.as_deref_mut(),
            tcp: self.tcp,
            outcome: self.outcome,
            findings: self.findings,
            account: self.account,
            sink: self.sink,
        }
    }
}

/// The worker's position in its input; pseudo packets take it over.
#[derive(Clone, Copy, Debug)]
pub(crate) struct InputPlace {
    /// The event time.
    pub(crate) ts_ns: u64,
    /// The clock at the frame at hand.
    pub(crate) clock_ns: u64,
    /// LINKTYPE of the capture at hand.
    pub(crate) link: u16,
}

/// The decisions about a packet, collected over its stages.
#[derive(Default)]
pub(crate) struct PacketOutcome {
    /// Dropped, with the reason.
    pub(crate) drop: Option<DropReason>,
    /// Rejected: the action, which names the receivers of the rejection.
    pub(crate) reject: Option<gabion_rules::Action>,
    pub(crate) passed: bool,
    /// No detection on it.
    pub(crate) skip_detection: bool,
    pub(crate) events: SmallVec<[StreamEvent; 4]>,
    pub(crate) detection_events: SmallVec<[DetectionEvent; 2]>,
    /// It opens a connection with the ports of an earlier one.
    pub(crate) reuses_ports: bool,
    /// The parser took bytes, by direction.
    pub(crate) fed: [bool; 2],
    /// Rules of the firewall that matched before flow or stream.
    pub(crate) early: Vec<Hit>,
    /// The firewall lets it through unless it is dropped.
    pub(crate) is_firewalled: bool,
    /// An alert about it is written, or may be written.
    pub(crate) has_alert: bool,
    /// Whether the last of its flow and hosts that was found tagged still is.
    pub(crate) is_tagged: Option<bool>,
}

/// What all stages of a worker use: the engine, what detection found last, what is counted.
pub(crate) struct Common {
    pub(crate) engine: Arc<Engine>,
    pub(crate) findings: Findings,
    pub(crate) account: Account,
    pub(crate) pinned: Pinned,
}

impl Common {
    /// The context of a packet.
    #[inline]
    pub(crate) fn context<'a>(
        &'a mut self,
        view: &'a PacketView<'a>,
        flow: Option<&'a mut Flow<NetFlow>>,
        outcome: &'a mut PacketOutcome,
        sink: &'a mut dyn NetSink,
    ) -> PacketContext<'a> {
        let Common { engine, findings, account, .. } = self;
        PacketContext { engine, view, flow, tcp: None, outcome, findings, account, sink }
    }
}
