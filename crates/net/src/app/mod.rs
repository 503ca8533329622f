//! The application layer of a flow: finds the protocol, feeds its parser, keeps account of its
//! transactions until they are inspected, logged and free.

mod allowance;
mod charge;
mod crowd;
mod detection;

pub(crate) use allowance::RecordAllowance;
use charge::Charge;
use crowd::Crowd;
pub(crate) use detection::{Answer, Detection};
pub use detection::{is_detected, is_parsed};

use crate::bits::Bits;
use crate::detect::TxDetect;
use crate::frames::FlowFrames;
use crate::limits::{CROWD_MIN, DETECT_BYTES_MAX, PARSER_PENDING_MAX, reached};
use gabion_proto::registry::protocol;
use gabion_proto::tx_list::{TxList, YOUNGEST_KEPT};
use gabion_proto::{
    Endpoints, Expectation, FilePiece, Input, Outcome, ParseContext, Parser, Protocol,
    ProtocolChange, Requirements, Settings, Sparing, Transaction,
};
use gabion_record::applayer::{ProtoId, STREAM_FRAME, Transport};
use gabion_record::eve::Wants;
use gabion_record::{Direction, Tree};
use smallvec::SmallVec;

/// Protocols as configured: shared by all workers.
pub struct Protocols {
    pub(crate) detection: Detection,
    settings: Vec<Option<Settings>>,
    pub(crate) requirements: Requirements,
    /// Frames that are wanted, one bit a kind, by protocol id; empty: none of any protocol.
    pub(crate) frames: Vec<u32>,
    /// Protocols, by id, at whose transactions no rule looks.
    unlooked: Vec<bool>,
    /// What records are written of them.
    wants: Wants,
}

impl Protocols {
    /// Reads every protocol's part of the configuration.
    pub fn new(config: &Tree, requirements: Requirements) -> Result<Protocols, String> {
        let registry: Vec<&'static Protocol> = gabion_proto::registry().to_vec();
        let detection = Detection::new(&registry, config);
        let mut settings = Vec::with_capacity(registry.len());
        for p in &registry {
            let parsed = p.table.transports.iter().any(|t| is_parsed(p, config, *t));
            settings.push(match parsed {
                true => {
                    let node = config.get(&format!("app-layer.protocols.{}", p.config_name));
                    Some((p.configure)(node)?)
                }
                false => None,
            });
        }
        let (frames, unlooked, wants) = (Vec::new(), Vec::new(), Wants::default());
        Ok(Protocols { detection, settings, requirements, frames, unlooked, wants })
    }

    /// Names the frames that are wanted: kinds as bits by protocol id, or all.
    pub fn want_frames(&mut self, mut kinds: Vec<u32>, all: bool) {
        if all {
            kinds = vec![u32::MAX; gabion_proto::registry().len() + 1];
        }
        if kinds.iter().any(|k| *k != 0) {
            self.frames = kinds;
        }
    }

    /// Says at whose transactions no rule looks, by protocol id, and what is written of them.
    pub fn leave(&mut self, unlooked: Vec<bool>, wants: Wants) {
        (self.unlooked, self.wants) = (unlooked, wants);
    }

    fn open(&self, id: ProtoId, transport: Transport) -> Option<Box<dyn Parser>> {
        let p = protocol(id)?;
        let settings = self.settings.get(usize::from(id.0) - 1)?.as_ref()?;
        Some((p.open)(settings, transport))
    }
}

impl Protocols {
    /// What need not be kept of transactions of a protocol, where no rule looks at them, of a flow that
    /// had these records and whose packets have so many bytes.
    fn sparing(&self, proto: ProtoId, had: &RecordAllowance, sent: u64) -> Option<Sparing> {
        let is_unlooked = self.unlooked.get(usize::from(proto.0)) == Some(&true);
        is_unlooked.then(|| Sparing {
            last: Direction::BOTH.map(|d| protocol(proto).map_or(1, |p| p.table.last_state(d))),
            has_records: self.wants.app,
            has_event_records: self.wants.anomaly_app,
            left: had.left(sent),
            refused: 0,
        })
    }
}

impl std::fmt::Debug for Protocols {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Protocols").finish_non_exhaustive()
    }
}

/// What a piece of input did beside advancing the parser.
#[derive(Debug, Default)]
pub(crate) struct Effects {
    /// Events of protocol detection.
    pub(crate) events: SmallVec<[&'static str; 2]>,
    /// Flows announced.
    pub(crate) expectations: Vec<Expectation>,
    /// Ranges of files that ended.
    pub(crate) pieces: Vec<FilePiece>,
    /// Nothing of this flow is of use any more.
    pub(crate) stop_reassembly: bool,
    /// Payload is not to be inspected any more.
    pub(crate) stop_payload: bool,
    /// What is left of both directions is to be inspected at once.
    pub(crate) flush: bool,
    /// Bytes were used, transactions were made or the end was met, by direction.
    pub(crate) fed: [bool; 2],
    /// Raw stream inspection is due.
    pub(crate) trigger_raw: [bool; 2],
    /// The parser gave up in this direction.
    pub(crate) parser_error: bool,
    /// The sides turned out to be the other way round.
    pub(crate) reversed: bool,
    /// Gaps the application layer was told of.
    pub(crate) gaps: u32,
    /// Flow and session were turned round.
    pub(crate) swapped: bool,
    /// The protocol became known with this input; the other side's data should be looked at.
    pub(crate) found: bool,
    /// Nothing was used: data of the other direction, which came before, is to be parsed first.
    pub(crate) other_first: bool,
    /// The protocol cannot be followed from here.
    pub(crate) disabled: bool,
    /// A parser wanted more bytes at once than are kept for it.
    pub(crate) overflowed: bool,
    /// Stream depth the protocol asks for.
    pub(crate) depth: Option<u64>,
}

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
    /// Frames there was no room for.
    pub frames_dropped: u64,
    /// Transactions looked at to weigh what parsers hold.
    pub weighed: u64,
}

fn bump(v: &mut Vec<[u64; 2]>, id: ProtoId, transport: Transport) {
    bump_by(v, id, transport, 1);
}

fn bump_by(v: &mut Vec<[u64; 2]>, id: ProtoId, transport: Transport, times: u64) {
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
    /// Adds another worker's.
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

/// What the engine remembers of a transaction.
#[derive(Debug, Default)]
pub(crate) struct TxMemory {
    pub(crate) detect: [TxDetect; 2],
    pub(crate) is_logged: bool,
    /// Events that anomaly records were written for.
    pub(crate) events_logged: u32,
    /// A `config` rule switched its record off.
    pub(crate) no_log: bool,
    /// `xbits` of the transaction.
    pub(crate) bits: Option<Box<Bits>>,
    /// It stands in the lists of a [`Crowd`]: to be inspected, by direction, and as news.
    is_due: [bool; 2],
    is_news: bool,
    /// See [`Transaction::only`].
    only: Option<Direction>,
    /// There was something of it to be told when it was made, or it has changed since.
    is_begun: bool,
}

/// Whether there may be something to be written of a transaction, or it may be over (with this progress),
/// whichever directions the flow has.
fn may_be_told(tx: &dyn Transaction, last: [u8; 2]) -> bool {
    let is = tx.standing();
    let wanted = is.log_progress.map_or(last, |(to_server, to_client)| [to_server, to_client]);
    let seen = [None, Some(Direction::ToServer), Some(Direction::ToClient)];
    is.events > 0 || is.has_files || seen.iter().any(|seen| is.has_reached(wanted, *seen))
}

/// The application layer of one flow.
#[derive(Default)]
pub(crate) struct AppLayer {
    /// The protocol.
    pub(crate) proto: ProtoId,
    by_direction: [ProtoId; 2],
    /// Before a change.
    pub(crate) original: ProtoId,
    /// Announced by a change.
    pub(crate) expected: ProtoId,
    pub(crate) parser: Option<Box<dyn Parser>>,
    /// Frames that are neither inspected nor logged yet.
    pub(crate) frames: Option<Box<FlowFrames>>,
    /// Stream offsets of what was not parsed yet; kept up only where frames are wanted.
    pub(crate) offsets: [u64; 2],
    done: [bool; 2],
    seen: [bool; 2],
    /// Direction of the flow's first data.
    first_seen: Option<Direction>,
    /// Bytes to wait for before the parser is asked again.
    pub(crate) needed: [usize; 2],
    disabled: [bool; 2],
    pub(crate) eof: [bool; 2],
    change: Option<ProtocolChange>,
    announced: Option<Vec<u8>>,
    txs: TxList<TxMemory>,
    /// Which of them are to be looked at, where they are many.
    crowd: Option<Box<Crowd>>,
    /// Records of its transactions so far.
    pub(crate) records: RecordAllowance,
    /// Bytes of the flow's packets so far.
    pub(crate) sent: u64,
    /// Transactions seen, those before a change of protocol too.
    pub(crate) tx_total: u64,
    only_one_direction_raised: bool,
    /// The session was picked up in the middle: its sides may be the wrong way round.
    pub(crate) is_midstream: bool,
    /// The parser was given something.
    is_fed: bool,
    /// No rule looks at transactions of its protocol.
    is_unlooked: bool,
    /// Transactions with these keys are not logged either.
    silent_pairs: SmallVec<[u64; 1]>,
    charge: Charge,
}

impl AppLayer {
    /// Protocol as seen in one direction.
    pub(crate) fn proto_in(&self, d: Direction) -> ProtoId {
        self.by_direction[d.index()]
    }

    /// Whether the question of the protocol is settled in one direction.
    pub(crate) fn is_detected(&self, d: Direction) -> bool {
        self.by_direction[d.index()] != ProtoId::UNKNOWN || self.done[d.index()]
    }

    /// Nothing of it was parsed and nobody has said what it is.
    pub(crate) fn is_undetected(&self) -> bool {
        self.proto == ProtoId::UNKNOWN && self.announced.is_none()
    }

    /// Whether data of a direction is of any use still.
    pub(crate) fn is_off(&self, d: Direction) -> bool {
        self.proto == ProtoId::FAILED || self.disabled[d.index()]
    }

    /// Whether no data of either direction is of use.
    pub(crate) fn is_all_off(&self) -> bool {
        self.proto == ProtoId::FAILED || self.disabled == [true; 2]
    }

    /// Transactions seen, where there is or was a parser.
    pub(crate) fn tx_count(&self) -> Option<u64> {
        (self.parser.is_some() || self.tx_total > 0).then_some(self.tx_total)
    }

    /// Client and server turned out to be the other way round.
    pub(crate) fn swap_directions(&mut self) {
        self.by_direction.swap(0, 1);
        self.done.swap(0, 1);
        self.seen.swap(0, 1);
        self.needed.swap(0, 1);
        self.disabled.swap(0, 1);
        self.eof.swap(0, 1);
        self.first_seen = self.first_seen.map(Direction::opposite);
    }

    /// Progress at which a transaction is complete.
    pub(crate) fn last_state(&self, d: Direction) -> u8 {
        protocol(self.proto).map_or(1, |p| p.table.last_state(d))
    }

    /// The flow was announced by another: its protocol is known before its first byte.
    pub(crate) fn announce(&mut self, proto: ProtoId, payload: Vec<u8>) {
        self.by_direction = [proto; 2];
        self.expected = proto;
        self.announced = Some(payload);
    }

    fn settle(
        &mut self,
        proto: ProtoId,
        transport: Transport,
        protocols: &Protocols,
        counters: &mut AppCounters,
    ) {
        bump(&mut counters.flows, proto, transport);
        self.open(proto, transport, protocols);
    }

    fn open(&mut self, proto: ProtoId, transport: Transport, protocols: &Protocols) {
        self.proto = proto;
        self.is_unlooked = protocols.unlooked.get(usize::from(proto.0)) == Some(&true);
        if proto.is_known() {
            self.parser = protocols.open(proto, transport).filter(|p| p.follows());
            if let (Some(p), Some(payload)) = (&mut self.parser, self.announced.take()) {
                p.expect(&payload);
            }
        }
    }

    /// Takes stream data of a direction; returns how many bytes are done with.
    #[expect(clippy::too_many_arguments, reason = "one call site; a struct would be filled once")]
    pub(crate) fn stream(
        &mut self,
        protocols: &Protocols,
        endpoints: &Endpoints,
        ts_ns: u64,
        d: Direction,
        bytes: &[u8],
        eof: bool,
        effects: &mut Effects,
        counters: &mut AppCounters,
    ) -> usize {
        let i = d.index();
        if self.is_off(d) {
            return bytes.len();
        }
        if !bytes.is_empty() {
            self.seen[i] = true;
            self.first_seen.get_or_insert(d);
        }
        if self.change.is_some() && !bytes.is_empty() {
            self.switch();
        }
        let was_known = self.proto.is_known();
        if !self.detect_stream(protocols, endpoints, d, bytes, eof, effects, counters) {
            if eof && self.proto == ProtoId::UNKNOWN {
                // What the other side has not said yet may still tell.
                return if self.seen[d.opposite().index()] { bytes.len() } else { 0 };
            }
            return if self.is_off(d) { bytes.len() } else { 0 };
        }
        if !was_known && self.first_seen == Some(d.opposite()) {
            // What the other side said first (a greeting) is parsed first.
            effects.other_first = true;
            return 0;
        }
        if bytes.len() < self.needed[i] && !eof && bytes.len() < PARSER_PENDING_MAX {
            return 0;
        }
        self.needed[i] = 0;
        if bytes.is_empty() && (!eof || self.eof[i]) {
            return 0;
        }
        self.eof[i] |= eof;
        self.is_fed = true;
        if self.parser.is_none() {
            // The other side is looked at until it is known what it says.
            let other = d.opposite();
            self.disabled[i] = true;
            self.disabled[other.index()] |= self.is_detected(other);
            effects.disabled = true;
            return bytes.len();
        }
        let input = Input::Data { bytes, eof };
        match self.parse(protocols, endpoints, ts_ns, d, input, effects, counters, Transport::Tcp) {
            Outcome::Done => bytes.len(),
            Outcome::Incomplete { consumed, needed } => {
                let consumed = consumed.min(bytes.len());
                if bytes.len() - consumed >= PARSER_PENDING_MAX {
                    self.disabled[i] = true;
                    effects.disabled = true;
                    effects.overflowed = true;
                    return bytes.len();
                }
                self.needed[i] = needed.max(bytes.len() - consumed + 1);
                consumed
            }
            Outcome::Error => bytes.len(),
        }
    }

    /// Looks for the protocol where it is not known in this direction. False: wait for more.
    fn detect_stream(
        &mut self,
        protocols: &Protocols,
        endpoints: &Endpoints,
        d: Direction,
        bytes: &[u8],
        eof: bool,
        effects: &mut Effects,
        counters: &mut AppCounters,
    ) -> bool {
        let (i, o) = (d.index(), d.opposite().index());
        if self.by_direction[i] == ProtoId::UNKNOWN && !bytes.is_empty() {
            let ports = match d {
                Direction::ToServer => (endpoints.client_port, endpoints.server_port),
                Direction::ToClient => (endpoints.server_port, endpoints.client_port),
            };
            let other = self.by_direction[o];
            let turn = self.is_midstream && other == ProtoId::UNKNOWN;
            let mut answer = protocols.detection.look(Transport::Tcp, d, bytes, ports, other, turn);
            if answer == Answer::Open && bytes.len() > DETECT_BYTES_MAX {
                answer = Answer::Done;
            }
            match answer {
                Answer::Found { proto, reversed } => {
                    self.by_direction[i] = proto;
                    if reversed && turn {
                        effects.reversed = true;
                        return false;
                    }
                    if other != ProtoId::UNKNOWN && other != proto {
                        effects.events.push("applayer_mismatch_protocol_both_directions");
                        // Before anything was parsed the client's word counts.
                        if !self.is_fed && d == Direction::ToServer {
                            self.proto = ProtoId::UNKNOWN;
                        }
                    }
                }
                // The end leaves the question open; what there is goes to the parser.
                Answer::Open if eof && self.proto.is_known() => {}
                Answer::Open => return false,
                Answer::Done => {
                    self.done[i] = true;
                    if self.proto.is_known() {
                        self.by_direction[i] = ProtoId::FAILED;
                        if !self.only_one_direction_raised {
                            self.only_one_direction_raised = true;
                            effects.events.push("applayer_detect_protocol_only_one_direction");
                        }
                    } else if self.expected.is_known() && !protocols.detection.finds(self.expected)
                    {
                        self.by_direction[i] = self.expected;
                    } else if self.done[o] || bytes.len() > DETECT_BYTES_MAX {
                        if !self.done[o] {
                            reached::DETECT_BYTES_MAX.count();
                        }
                        self.settle(ProtoId::FAILED, Transport::Tcp, protocols, counters);
                        self.compare_with_announced(effects);
                        effects.disabled = true;
                        return false;
                    } else {
                        return false;
                    }
                }
            }
        }
        if self.proto == ProtoId::UNKNOWN {
            let proto = self.by_direction[i];
            if proto == ProtoId::UNKNOWN {
                return false;
            }
            if eof && bytes.is_empty() && self.seen == [false; 2] {
                // An announced flow in which nothing came.
                effects.events.push("applayer_wrong_direction_first_data");
                self.settle(ProtoId::FAILED, Transport::Tcp, protocols, counters);
                effects.disabled = true;
                return false;
            }
            self.settle(proto, Transport::Tcp, protocols, counters);
            self.compare_with_announced(effects);
            effects.found = true;
            effects.depth = protocol(proto).and_then(|p| p.stream_depth);
            if d == Direction::ToClient
                && !self.seen[o]
                && protocol(proto).is_some_and(|p| p.first_direction == Some(Direction::ToServer))
            {
                effects.events.push("applayer_wrong_direction_first_data");
            }
        }
        true
    }

    /// Raises the events of a change of protocol that led to another than announced.
    fn compare_with_announced(&self, effects: &mut Effects) {
        if !self.original.is_known() || !self.expected.is_known() || self.proto == self.expected {
            return;
        }
        effects.events.push("applayer_unexpected_protocol");
        if protocol(self.expected).is_some_and(|p| p.is_encryption) {
            effects.events.push("applayer_no_tls_after_starttls");
        }
    }

    /// Looks for the protocol in the first datagram of a direction. What the first one of the flow
    /// says counts, and what the other side says if that was nothing. Returns the direction in which
    /// the datagram went after all.
    fn detect_datagram(
        &mut self,
        protocols: &Protocols,
        endpoints: &Endpoints,
        d: Direction,
        bytes: &[u8],
        may_swap: bool,
        effects: &mut Effects,
        counters: &mut AppCounters,
    ) -> Direction {
        let ports = match d {
            Direction::ToServer => (endpoints.client_port, endpoints.server_port),
            Direction::ToClient => (endpoints.server_port, endpoints.client_port),
        };
        let other = self.by_direction[d.opposite().index()];
        let mut d = d;
        let found = match protocols.detection.look(Transport::Udp, d, bytes, ports, other, false) {
            Answer::Found { proto, reversed } => {
                if reversed && may_swap {
                    effects.reversed = true;
                    d = d.opposite();
                }
                Some(proto)
            }
            Answer::Open | Answer::Done => None,
        };
        self.by_direction[d.index()] = match (found, other) {
            (Some(proto), _) => proto,
            (None, ProtoId::UNKNOWN) => ProtoId::FAILED,
            (None, other) => other,
        };
        match found {
            Some(proto) if other.is_known() && other != proto => {
                effects.events.push("applayer_mismatch_protocol_both_directions");
            }
            Some(proto) if self.proto != proto => {
                self.open(proto, Transport::Udp, protocols);
                effects.found = true;
            }
            Some(_) => {}
            None if self.proto == ProtoId::UNKNOWN => self.proto = self.by_direction[d.index()],
            None => {}
        }
        if other == ProtoId::UNKNOWN {
            bump(&mut counters.flows, self.proto, Transport::Udp);
        }
        d
    }

    /// Takes one datagram. `may_swap`: it may turn out to be one of the server.
    #[expect(clippy::too_many_arguments, reason = "the parts of a worker, borrowed one by one")]
    pub(crate) fn datagram(
        &mut self,
        protocols: &Protocols,
        endpoints: &Endpoints,
        ts_ns: u64,
        d: Direction,
        bytes: &[u8],
        may_swap: bool,
        effects: &mut Effects,
        counters: &mut AppCounters,
    ) {
        self.seen[d.index()] = true;
        let mut d = d;
        if self.by_direction[d.index()] == ProtoId::UNKNOWN {
            d = self.detect_datagram(protocols, endpoints, d, bytes, may_swap, effects, counters);
        }
        let i = d.index();
        if self.proto.is_known() && !self.disabled[i] {
            let input = Input::Data { bytes, eof: false };
            self.parse(protocols, endpoints, ts_ns, d, input, effects, counters, Transport::Udp);
        }
    }

    /// Tells that bytes of a direction are lost. False: the protocol can't go on behind it.
    pub(crate) fn gap(
        &mut self,
        protocols: &Protocols,
        endpoints: &Endpoints,
        ts_ns: u64,
        d: Direction,
        len: u64,
        effects: &mut Effects,
        counters: &mut AppCounters,
    ) -> bool {
        if self.is_off(d) {
            return false;
        }
        if !self.proto.is_known() {
            // Without its first bytes nothing is to be found, on either side (as in the peer).
            self.done[d.index()] = true;
            self.disabled = [true; 2];
            return false;
        }
        let accepts = protocol(self.proto).is_some_and(|p| p.accepts_gaps);
        if !accepts || self.parser.is_none() {
            bump(&mut counters.gaps, self.proto, Transport::Tcp);
            self.disabled[d.index()] = true;
            return false;
        }
        // What the other side showed holds for this one.
        if self.by_direction[d.index()] == ProtoId::UNKNOWN {
            self.by_direction[d.index()] = self.proto;
        }
        self.needed[d.index()] = 0;
        let input = Input::Gap { len };
        self.parse(protocols, endpoints, ts_ns, d, input, effects, counters, Transport::Tcp)
            != Outcome::Error
    }

    #[expect(clippy::too_many_arguments, reason = "the three callers differ in all of them")]
    fn parse(
        &mut self,
        protocols: &Protocols,
        endpoints: &Endpoints,
        ts_ns: u64,
        d: Direction,
        input: Input<'_>,
        effects: &mut Effects,
        counters: &mut AppCounters,
        transport: Transport,
    ) -> Outcome {
        let Some(parser) = &mut self.parser else { return Outcome::Done };
        let mut cx = ParseContext::new(ts_ns, d, endpoints);
        cx.is_changing =
            self.change.is_some() || (self.expected.is_known() && self.expected != self.proto);
        cx.requirements = protocols.requirements;
        cx.changed_from = gabion_proto::registry::protocol(self.original).map(|p| p.table.eve_name);
        let wanted = protocols.frames.get(usize::from(self.proto.0)).copied().unwrap_or(0);
        if wanted != 0 {
            let frames = self.frames.get_or_insert_default();
            if transport == Transport::Udp {
                frames.clear();
            } else if wanted >> STREAM_FRAME != 0
                && matches!(input, Input::Data { bytes: [_, ..], .. })
            {
                frames.stream(d, self.offsets[d.index()]);
            }
            cx.frames.wanted = wanted;
            cx.frames.at = self.offsets;
        }
        cx.sparing = protocols.sparing(self.proto, &self.records, self.sent);
        let outcome = parser.parse(&mut cx, input);
        self.records.refuse(cx.sparing.map_or(0, |sparing| sparing.refused));
        if let Some(frames) = self.frames.as_mut()
            && wanted != 0
        {
            counters.frames_dropped += frames.take(std::mem::take(&mut cx.frames));
        }
        effects.expectations.append(&mut cx.expectations);
        effects.pieces.append(&mut cx.pieces);
        effects.stop_reassembly |= cx.stop_reassembly;
        effects.stop_payload |= cx.stop_payload_inspection;
        effects.trigger_raw[0] |= cx.trigger_raw[0];
        effects.trigger_raw[1] |= cx.trigger_raw[1];
        if cx.change.is_some() {
            self.change = cx.change;
        }
        let before = self.txs.next_id();
        self.sync(protocols);
        let after = self.txs.next_id();
        effects.fed[d.index()] |= after > before;
        effects.flush |= cx.flush;
        let made = after.saturating_sub(before);
        self.tx_total += made;
        bump_by(&mut counters.txs, self.proto, transport, made);
        if outcome == Outcome::Error {
            bump(&mut counters.errors, self.proto, transport);
            effects.parser_error = true;
            // A stream can't be followed any more; the next datagram is as good as any.
            if transport == Transport::Tcp {
                self.disabled = [true; 2];
            }
        } else if protocol(self.proto).is_some_and(|p| p.auto_trigger_raw) && after > before {
            effects.trigger_raw[d.index()] = true;
        }
        outcome
    }

    /// Remembers transactions the parser has made.
    fn sync(&mut self, protocols: &Protocols) {
        let Some(parser) = &mut self.parser else { return };
        if self.txs.is_empty() {
            self.txs.go_on_with(parser.first_tx_id());
        }
        let next = parser.next_tx_id();
        let first_new = self.txs.next_id();
        let last =
            Direction::BOTH.map(|d| protocol(self.proto).map_or(1, |p| p.table.last_state(d)));
        let mut sparing = protocols.sparing(self.proto, &self.records, self.sent);
        while self.txs.next_id() < next {
            // Parsers spare the same themselves, as far as they know of it.
            self.txs.go_on_with(parser.txs().first_from(self.txs.next_id()).min(next));
            let id = self.txs.next_id();
            if id == next {
                break;
            }
            let tx = parser.txs().at(id);
            // The youngest stay: alerts of the packet name them.
            if id + (YOUNGEST_KEPT as u64) < next
                && let Some(sparing) = &mut sparing
                && let Some(is) = tx.map(Transaction::standing)
                && !sparing.keeps(&is)
            {
                // Nobody sees it: neither a rule nor who reads the records.
                parser.free(id);
                self.txs.go_on_with(id + 1);
                continue;
            }
            let silent = &self.silent_pairs;
            let no_log = !silent.is_empty()
                && tx.and_then(|t| t.pair_key()).is_some_and(|k| silent.contains(&k));
            let only = tx.and_then(Transaction::only);
            let is_news = self.crowd.is_none() || tx.is_none_or(|tx| may_be_told(tx, last));
            self.txs.push(None, |_| TxMemory {
                no_log,
                only,
                is_begun: is_news,
                ..TxMemory::default()
            });
        }
        self.records.refuse(sparing.map_or(0, |sparing| sparing.refused));
        self.note_changes(first_new);
    }

    /// Gives the old protocol up and looks for another.
    fn switch(&mut self) {
        let Some(change) = self.change.take() else { return };
        self.original = self.proto;
        self.proto = ProtoId::UNKNOWN;
        self.by_direction = [ProtoId::UNKNOWN; 2];
        self.done = [false; 2];
        self.needed = [0; 2];
        self.disabled = [false; 2];
        self.eof = [false; 2];
        self.parser = None;
        self.frames = None;
        self.txs = TxList::default();
        self.crowd = None;
        self.only_one_direction_raised = false;
        self.is_fed = false;
        self.expected = change
            .expected
            .and_then(|name| {
                let at = gabion_proto::registry().iter().position(|p| p.table.name == name)?;
                Some(ProtoId(at as u8 + 1))
            })
            .unwrap_or_default();
    }

    /// Whether a change of protocol waits for the next data.
    pub(crate) fn is_changing(&self) -> bool {
        self.change.is_some()
    }

    /// The first transaction from an id on that is not wholly inspected in a direction.
    pub(crate) fn next_uninspected(&self, from: u64, d: Direction) -> Option<u64> {
        let mut all = self.txs.entries_from(from);
        all.find(|(_, t)| !t.detect[d.index()].is_done).map(|(id, _)| id)
    }

    /// Ids of the transactions that are remembered.
    pub(crate) fn tx_ids(&self) -> std::ops::Range<u64> {
        self.txs.first_id()..self.txs.next_id()
    }

    /// Takes the transactions' memories out, for [`AppLayer::put_back_txs`].
    pub(crate) fn take_txs(&mut self) -> TxList<TxMemory> {
        std::mem::take(&mut self.txs)
    }

    pub(crate) fn put_back_txs(&mut self, txs: TxList<TxMemory>) {
        self.txs = txs;
    }

    pub(crate) fn tx_known(&self, id: u64) -> Option<&TxMemory> {
        self.txs.get(id)
    }

    pub(crate) fn tx_memory(&mut self, id: u64) -> Option<&mut TxMemory> {
        self.txs.get_mut(id)
    }

    pub(crate) fn tx_detect(&mut self, id: u64, d: Direction) -> Option<&mut TxDetect> {
        self.tx_memory(id).map(|t| &mut t.detect[d.index()])
    }

    /// A `config` rule switched a transaction's record off.
    pub(crate) fn silence(&mut self, id: u64) {
        let pair = |a: &AppLayer, id| a.parser.as_deref().and_then(|p| p.tx(id)?.pair_key());
        let key = pair(self, id);
        if let Some(m) = self.tx_memory(id) {
            m.no_log = true;
        }
        if let Some(key) = key {
            self.silent_pairs.push(key);
        }
    }

    /// Whether a transaction is left that was not inspected in this direction or not logged.
    pub(crate) fn has_open_work(&self, d: Direction, detection: bool) -> bool {
        self.txs.iter().any(|t| !t.is_logged || (detection && !t.detect[d.index()].is_done))
            || (detection && self.has_unasked(d))
    }

    /// The youngest transaction, if it goes in that direction.
    pub(crate) fn newest_tx(&self, d: Direction) -> Option<u64> {
        let id = self.txs.next_id().checked_sub(1)?;
        let tx = self.parser.as_deref()?.tx(id)?;
        tx.only().is_none_or(|only| only == d).then_some(id)
    }

    /// The one transaction that is there, if it is one only.
    pub(crate) fn only_live_tx(&self) -> Option<u64> {
        (self.txs.len() == 1).then(|| self.txs.first_id())
    }

    /// Frees transactions that are complete, inspected and logged. `seen`: the only direction there
    /// is of a one-sided flow.
    pub(crate) fn free_finished(&mut self, detection: bool, wants: Wants, seen: Option<Direction>) {
        let logging = wants.app;
        let detection = detection && !self.is_uninspected();
        let files = wants.files || wants.file_store;
        let Some(parser) = &mut self.parser else { return };
        if self.txs.is_empty() {
            return;
        }
        let last = [
            protocol(self.proto).map_or(1, |p| p.table.last_state(Direction::ToServer)),
            protocol(self.proto).map_or(1, |p| p.table.last_state(Direction::ToClient)),
        ];
        let is_told = |tx: &dyn Transaction| {
            let all =
                |d: &Direction| tx.files(*d).is_none_or(|l| l.files.iter().all(|f| f.is_logged));
            !files || Direction::BOTH.iter().all(all)
        };
        let is_over = |tx: &dyn Transaction, t: &TxMemory| {
            let is = tx.standing();
            let is_inspected =
                |d: &Direction| is.is_without(*d, seen) || t.detect[d.index()].is_done;
            (t.is_logged || !logging)
                && is.has_reached(last, seen)
                && (!detection || Direction::BOTH.iter().all(is_inspected))
                && (!is.has_files || is_told(tx))
        };
        let Some(crowd) = self.crowd.as_deref_mut() else {
            self.txs.free_where(|id, t| {
                let is_over = parser.txs().at(id).is_none_or(|tx| is_over(tx, t));
                if is_over {
                    parser.free(id);
                }
                is_over
            });
            return;
        };
        crowd.news.retain(|id| {
            let Some(t) = self.txs.get_mut(*id) else { return false };
            t.is_news = false;
            match parser.txs().at(*id) {
                Some(tx) if !is_over(tx, t) => {
                    // A file is told of with a packet of its own direction.
                    t.is_news = !is_told(tx);
                    t.is_news
                }
                _ => {
                    parser.free(*id);
                    self.txs.discard(*id);
                    false
                }
            }
        });
        if self.txs.len() < CROWD_MIN / 2 {
            self.leave_crowd();
        } else {
            crowd.prune(&self.txs);
        }
    }
}
