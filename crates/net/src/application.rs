//! The stage of the application layer: data that is due goes to the flow's parser, and the
//! requests of the parser are carried out.

use crate::account::Account;
use crate::app::{AppInput, AppLayer, Effects, Taken, Then};
use crate::context::{Common, PacketOutcome};
use crate::engine::Engine;
use crate::exception::Exception;
use crate::expectation::Expectations;
use crate::flow_state::{NetFlow, endpoints};
use crate::ordered::Ordered;
use crate::ranges::{Joined, Ranges};
use crate::view::PacketView;
use gabion_flow::{AppChunk, ExceptionTrigger, Flow, StreamEvent, TcpSession};
use gabion_proto::FilePiece;
use gabion_record::Direction;
use gabion_record::applayer::Transport;
use gabion_record::budget::Budget;
use gabion_record::ledger::{Ledger, ShedReason};
use smallvec::{SmallVec, smallvec};

/// The application layer of a worker, without the state of single flows.
pub(crate) struct ApplicationStage {
    /// What protocols may keep of flows and transactions.
    pub(crate) budget: Budget,
    expectations: Expectations,
    ranges: Ordered<Ranges>,
}

/// The time at which a parser gets data: the event time of its packet, and the clock.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Moment {
    pub(crate) ts_ns: u64,
    pub(crate) clock_ns: u64,
}

/// How one side's data ended.
#[derive(Clone, Copy)]
enum Fed {
    /// All data that was due was parsed.
    Done,
    /// The other side's data goes first, then this side's.
    OtherFirst,
    /// Client and server are reversed: it is the other side's data now.
    Reversed,
}

impl ApplicationStage {
    /// A stage with this budget for what protocols keep.
    pub(crate) fn new(budget: Budget, ranges: Ordered<Ranges>) -> ApplicationStage {
        ApplicationStage { budget, expectations: Expectations::default(), ranges }
    }

    /// Gives one side's data to the application layer, as far as possible. True: client and server
    /// turned out to be reversed, and were exchanged.
    pub(crate) fn feed(
        &mut self,
        engine: &Engine,
        account: &mut Account,
        flow: &mut Flow<NetFlow>,
        (d, at): (Direction, Moment),
        effects: &mut Effects,
    ) -> bool {
        let mut is_swapped = false;
        let was_changing = flow.ext.app.is_changing();
        // Sides with data to parse, the next one last.
        let mut due: SmallVec<[Direction; 4]> = smallvec![d];
        while let Some(d) = due.pop() {
            // A connection may be opened before the command that announces its purpose: Suricata looks
            // for the announcement when there is data to find a protocol in.
            if !self.expectations.is_empty() && flow.ext.app.is_undetected() {
                self.meet_expectation(flow, at.clock_ns);
            }
            match self.feed_side(engine, account, flow, (d, at), effects) {
                Fed::Done => {}
                Fed::OtherFirst => due.extend([d, d.opposite()]),
                Fed::Reversed => {
                    flow.swap_directions();
                    flow.ext.detect = Default::default();
                    is_swapped = true;
                    due.push(d.opposite());
                }
            }
            if !was_changing && flow.ext.app.is_changing() {
                break;
            }
        }
        if effects.parser_error {
            flow.ext.app.settle_failure();
            if let Some(ssn) = &mut flow.tcp {
                ssn.disable_app();
            }
        }
        is_swapped
    }

    /// Gives what one side has to the flow's application layer, piece by piece, until nothing is left
    /// or the other side is to continue.
    fn feed_side(
        &self,
        engine: &Engine,
        account: &mut Account,
        flow: &mut Flow<NetFlow>,
        (d, at): (Direction, Moment),
        effects: &mut Effects,
    ) -> Fed {
        let Some(mut ssn) = flow.tcp.take() else {
            return Fed::Done;
        };
        let ends = endpoints(flow);
        let app = &mut flow.ext.app;
        app.is_midstream = ssn.is_midstream();
        app.sent = flow.seen[0].bytes + flow.seen[1].bytes;
        let Account { counters, ledgers, costs, .. } = account;
        let (protocols, transport) = (&engine.protocols, Transport::Tcp);
        let counters = &mut counters.app;
        let input =
            AppInput { protocols, endpoints: &ends, ts_ns: at.ts_ns, transport, effects, counters };
        let mut side = SideFeed {
            d,
            ssn: &mut ssn,
            app,
            input,
            budget: &self.budget,
            ledger: &mut ledgers.app,
            fed: Fed::Done,
            is_refused: false,
            unparsed: 0,
        };
        loop {
            side.note_offsets();
            let since = costs.now();
            if !side.give_piece() {
                break;
            }
            costs.add_parser(side.app.proto.0, since);
        }
        side.settle();
        let SideFeed { fed, unparsed, .. } = side;
        flow.tcp = Some(ssn);
        if unparsed > 0 {
            flow.ext.lose(ShedReason::AppMemcap, 1, unparsed);
        }
        fed
    }

    /// Gives a datagram to the application layer. Returns its final direction.
    pub(crate) fn datagram(
        &mut self,
        engine: &Engine,
        account: &mut Account,
        flow: &mut Flow<NetFlow>,
        view: &PacketView<'_>,
        effects: &mut Effects,
    ) -> Direction {
        let dir = view.direction.unwrap_or(Direction::ToServer);
        let ends = endpoints(flow);
        let Account { counters, ledgers, costs, .. } = account;
        let since = costs.now();
        let app = &mut flow.ext.app;
        app.sent = flow.seen[0].bytes + flow.seen[1].bytes;
        let mut input = AppInput {
            protocols: &engine.protocols,
            endpoints: &ends,
            ts_ns: view.ts_ns,
            transport: Transport::Udp,
            effects,
            counters: &mut counters.app,
        };
        let went = app.datagram(&mut input, dir, view.payload);
        let len = view.payload.len();
        let has_room = app.charge(len, &self.budget, input.counters, Transport::Udp);
        costs.add_parser(app.proto.0, since);
        if !has_room {
            ledgers.app.receive(1, len as u64);
            ledgers.app.shed(ShedReason::AppMemcap, 1, len as u64);
            flow.ext.lose(ShedReason::AppMemcap, 1, len as u64);
        }
        effects.sides.iter_mut().for_each(|side| side.fed = true);
        if went != dir {
            flow.swap_directions();
            flow.ext.detect = Default::default();
        }
        went
    }

    /// Carries out the effects of input. Gaps are counted by [`crate::tracking::StreamStage`].
    pub(crate) fn carry_out(
        &mut self,
        effects: Effects,
        common: &mut Common,
        flow: &mut Flow<NetFlow>,
        outcome: &mut PacketOutcome,
        clock_ns: u64,
    ) {
        outcome.fed = effects.sides.map(|side| side.fed);
        if effects.is_only_input() {
            return;
        }
        outcome.detection_events.extend(effects.events);
        for _ in 0..effects.gaps {
            outcome.events.push(StreamEvent::SeqGap);
        }
        if effects.stop_payload {
            flow.ext.flags.no_payload = true;
        }
        for piece in &effects.pieces {
            self.join(piece, common, flow, clock_ns);
        }
        let ends = endpoints(flow);
        for e in effects.expectations {
            common.account.counters.app.expectations += 1;
            self.expectations.add(e, flow, &ends, clock_ns);
        }
        if effects.parser_error {
            let exception = Exception::from_policies(
                &common.engine.options.policies,
                ExceptionTrigger::AppLayerError,
            );
            common.account.counters.count_exception(exception.cause());
            exception.on_flow(&common.engine, flow, outcome);
        }
    }

    /// Joins a range of a file with those that other flows have brought.
    fn join(
        &mut self,
        piece: &FilePiece,
        common: &mut Common,
        flow: &mut Flow<NetFlow>,
        now_ns: u64,
    ) {
        let options = common.engine.options.ranges;
        let (joined, used) = self.ranges.write(|r| (r.add(piece, now_ns, &options), r.used()));
        let counters = &mut common.account.counters;
        counters.ranges_peak = counters.ranges_peak.max(used);
        match joined {
            Joined::Kept => {}
            Joined::Refused => counters.ranges_refused += 1,
            Joined::Whole(content) => {
                if let Some(parser) = &mut flow.ext.app.parser {
                    parser.add_whole(piece, &content);
                }
            }
        }
    }

    /// Marks a flow that another flow has announced.
    pub(crate) fn meet_expectation(&mut self, flow: &mut Flow<NetFlow>, clock_ns: u64) {
        if self.expectations.is_empty() {
            return;
        }
        let found = self.expectations.take_expected(
            (flow.client.addr, flow.client.port),
            (flow.server.addr, flow.server.port),
            clock_ns,
        );
        if let Some((proto, payload, by)) = found {
            flow.ext.app.announce(proto, payload);
            flow.ext.announced_by = Some(by);
            flow.parent_id = Some(by);
        }
    }
}

/// One side's data on its way into the application layer.
struct SideFeed<'a> {
    d: Direction,
    ssn: &'a mut TcpSession,
    app: &'a mut AppLayer,
    input: AppInput<'a>,
    budget: &'a Budget,
    ledger: &'a mut Ledger,
    /// How it ends, as far as is known.
    fed: Fed,
    /// The budget did not allow what the parser holds.
    is_refused: bool,
    /// Bytes that were not parsed because the budget was used up.
    unparsed: u64,
}

impl SideFeed<'_> {
    /// Notes the beginnings of frames in the streams, if frames are wanted.
    fn note_offsets(&mut self) {
        if !self.input.protocols.frames.is_empty() {
            self.app.note_offsets(Direction::BOTH.map(|d| self.ssn.stream(d).app_offset()));
        }
    }

    /// Gives the next piece. False: there is none, or the other side continues.
    fn give_piece(&mut self) -> bool {
        let d = self.d;
        let stream = self.ssn.stream_mut(d);
        match stream.app_next() {
            AppChunk::Data(bytes) => {
                let taken = self.app.stream(&mut self.input, d, bytes, false);
                stream.app_consume(taken.used);
                // What a message lacks may never come: then the hole is passed over.
                stream.app_needs(self.app.needed_bytes(d));
                if taken.then == Then::Reversed {
                    self.fed = Fed::Reversed;
                    return false;
                }
                self.count(&taken);
                self.continues_after(&taken)
            }
            AppChunk::Gap(len) => {
                self.input.effects.gaps += 1;
                if !self.app.gap(&mut self.input, d, len) {
                    stream.disable_app();
                }
                true
            }
            AppChunk::Eof => {
                self.input.effects.sides[d.index()].fed = true;
                let taken = self.app.stream(&mut self.input, d, stream.app_peek(), true);
                stream.app_consume(taken.used);
                self.is_refused |= taken.is_overflowing;
                if taken.then == Then::Reversed {
                    self.fed = Fed::Reversed;
                }
                true
            }
            AppChunk::None => false,
        }
    }

    /// Charges the flow for what its parser holds now, and enters the piece in the ledger.
    fn count(&mut self, taken: &Taken) {
        let (used, counters) = (taken.used as u64, &mut *self.input.counters);
        let has_room = self.app.charge(taken.used, self.budget, counters, Transport::Tcp);
        self.is_refused |= taken.is_overflowing || !has_room;
        if used == 0 {
            return;
        }
        self.input.effects.sides[self.d.index()].fed = true;
        self.ledger.receive(1, used);
        if std::mem::take(&mut self.is_refused) {
            self.ledger.shed(ShedReason::AppMemcap, 1, used);
            self.unparsed += used;
        } else {
            self.ledger.pass(1, used);
        }
    }

    /// Whether this side's data continues after this piece.
    fn continues_after(&mut self, taken: &Taken) -> bool {
        let d = self.d;
        if let Some(depth) = taken.depth {
            self.ssn.set_depth(depth);
        }
        if taken.then == Then::OtherFirst {
            self.ssn.stream_mut(d).app_again();
            self.fed = Fed::OtherFirst;
            return false;
        }
        if self.app.is_changing() {
            // What is left of both sides is inspected first, the next protocol begins with the packet after.
            self.ssn.stream_mut(d).app_again();
            self.ssn.stream_mut(d.opposite()).app_again();
            return false;
        }
        true
    }

    /// Leaves the session ready for the next side or packet.
    fn settle(&mut self) {
        let (ssn, d) = (&mut *self.ssn, self.d);
        match self.fed {
            Fed::Reversed => {
                // The streams are swapped with the flow.
                self.app.swap_directions();
                ssn.stream_mut(d).app_again();
                return;
            }
            Fed::OtherFirst => ssn.stream_mut(d.opposite()).app_again(),
            Fed::Done => {}
        }
        let effects = &mut *self.input.effects;
        if self.app.is_all_off() {
            ssn.disable_app();
        }
        for d in Direction::BOTH {
            if effects.stop_reassembly {
                ssn.stream_mut(d).stop_reassembly();
            }
            if std::mem::take(&mut effects.sides[d.index()].trigger_raw) {
                ssn.stream_mut(d).trigger_raw();
            }
        }
        if std::mem::take(&mut effects.stop_raw) {
            Direction::BOTH.into_iter().for_each(|d| ssn.stream_mut(d).end_raw());
        }
    }
}
