//! The stage of the application layer: data that is due goes to the flow's parser, and what the
//! parser asked for is done.

use crate::account::Account;
use crate::app::{AppInput, AppLayer, Effects, Taken, Then};
use crate::context::{Common, PacketOutcome};
use crate::engine::Engine;
use crate::exception::Exception;
use crate::expectation::Expectations;
use crate::flow_state::NetFlow;
use crate::keys::endpoints;
use crate::ordered::Ordered;
use crate::ranges::{Joined, Ranges};
use crate::view::PacketView;
use gabion_flow::{AppChunk, Flow, StreamEvent, TcpSession};
use gabion_proto::FilePiece;
use gabion_record::Direction;
use gabion_record::applayer::Transport;
use gabion_record::budget::Budget;
use gabion_record::ledger::{Ledger, ShedReason};
use smallvec::{SmallVec, smallvec};

/// The application layer of a worker, but for what belongs to a flow.
pub(crate) struct ApplicationStage {
    /// What protocols may keep of flows and transactions.
    pub(crate) budget: Budget,
    expectations: Expectations,
    ranges: Ordered<Ranges>,
}

/// When data is given to a parser: the event time of its packet, and the clock.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Moment {
    pub(crate) ts_ns: u64,
    pub(crate) clock_ns: u64,
}

/// How one side's data ended.
enum Fed {
    /// All that is due was given.
    Done,
    /// The other side's data goes first, then this side's.
    OtherFirst,
    /// Client and server are the other way round: it is the other side's data now.
    Reversed,
}

impl ApplicationStage {
    /// With this budget for what protocols keep.
    pub(crate) fn new(budget: Budget, ranges: Ordered<Ranges>) -> ApplicationStage {
        ApplicationStage { budget, expectations: Expectations::default(), ranges }
    }

    /// Gives one side's data to the application layer, as far as it goes. True: client and server
    /// turned out to be the other way round, and were exchanged.
    pub(crate) fn feed(
        &mut self,
        engine: &Engine,
        account: &mut Account,
        flow: &mut Flow<NetFlow>,
        (d, at): (Direction, Moment),
        effects: &mut Effects,
    ) -> bool {
        let mut is_swapped = false;
        // Sides whose data is to be given, the next one last.
        let mut due: SmallVec<[Direction; 4]> = smallvec![d];
        while let Some(d) = due.pop() {
            // A connection may be opened before the command that says what it is for: Suricata looks
            // when there is something to find a protocol in.
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
        }
        is_swapped
    }

    /// Gives what one side has to the flow's application layer, piece by piece, until there is no more
    /// or the other side is to go on.
    fn feed_side(
        &self,
        engine: &Engine,
        account: &mut Account,
        flow: &mut Flow<NetFlow>,
        (d, at): (Direction, Moment),
        effects: &mut Effects,
    ) -> Fed {
        let Some(mut ssn) = flow.tcp.take() else { return Fed::Done };
        let ends = endpoints(flow);
        let app = &mut flow.ext.app;
        app.is_midstream = ssn.is_midstream();
        app.sent = flow.seen[0].bytes + flow.seen[1].bytes;
        let Account { counters, ledgers, costs, .. } = account;
        let (protocols, transport) = (&engine.protocols, Transport::Tcp);
        let counters = &mut counters.app;
        let mut input =
            AppInput { protocols, endpoints: &ends, ts_ns: at.ts_ns, transport, effects, counters };
        let (mut unparsed, mut is_refused) = (0, false);
        let mut fed = Fed::Done;
        loop {
            if !protocols.frames.is_empty() {
                app.note_offsets(Direction::BOTH.map(|d| ssn.stream(d).app_offset()));
            }
            let since = costs.now();
            let stream = ssn.stream_mut(d);
            match stream.app_next() {
                AppChunk::Data(bytes) => {
                    let taken = app.stream(&mut input, d, bytes, false);
                    stream.app_consume(taken.used);
                    if taken.then == Then::Reversed {
                        fed = Fed::Reversed;
                        break;
                    }
                    is_refused |= taken.is_overflowing;
                    is_refused |= !app.charge(taken.used, &self.budget, input.counters, transport);
                    if taken.used > 0 {
                        input.effects.fed[d.index()] = true;
                        unparsed += count_piece(&mut ledgers.app, taken.used, &mut is_refused);
                    }
                    match next_piece(&mut ssn, app, d, &taken) {
                        Next::Piece => {}
                        Next::OtherSide => {
                            fed = Fed::OtherFirst;
                            break;
                        }
                        Next::None => break,
                    }
                }
                AppChunk::Gap(len) => {
                    input.effects.gaps += 1;
                    if !app.gap(&mut input, d, len) {
                        stream.disable_app();
                    }
                }
                AppChunk::Eof => {
                    input.effects.fed[d.index()] = true;
                    let taken = app.stream(&mut input, d, stream.app_peek(), true);
                    stream.app_consume(taken.used);
                    is_refused |= taken.is_overflowing;
                    if taken.then == Then::Reversed {
                        fed = Fed::Reversed;
                    }
                }
                AppChunk::None => break,
            }
            costs.add_parser(app.proto.0, since);
        }
        match fed {
            Fed::Reversed => {
                app.swap_directions();
                ssn.stream_mut(d).app_again();
                ssn.swap_directions();
            }
            Fed::OtherFirst => {
                stop_what_is_of_no_use(&mut ssn, app, effects);
                ssn.stream_mut(d.opposite()).app_again();
            }
            Fed::Done => stop_what_is_of_no_use(&mut ssn, app, effects),
        }
        flow.tcp = Some(ssn);
        if unparsed > 0 {
            flow.ext.lose(ShedReason::AppMemcap, 1, unparsed);
        }
        fed
    }

    /// Gives a datagram to the application layer. Returns the direction in which it went after all.
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
        let went = app.datagram(&mut input, dir, view.payload, flow.seen[1].pkts == 0);
        let len = view.payload.len();
        let has_room = app.charge(len, &self.budget, input.counters, Transport::Udp);
        costs.add_parser(app.proto.0, since);
        if !has_room {
            ledgers.app.receive(1, len as u64);
            ledgers.app.shed(ShedReason::AppMemcap, 1, len as u64);
            flow.ext.lose(ShedReason::AppMemcap, 1, len as u64);
        }
        effects.fed = [true; 2];
        if went != dir {
            flow.swap_directions();
            flow.ext.detect = Default::default();
        }
        went
    }

    /// Carries out what input has led to. Gaps are counted by [`crate::tracking::StreamStage`].
    pub(crate) fn carry_out(
        &mut self,
        effects: Effects,
        common: &mut Common,
        flow: &mut Flow<NetFlow>,
        outcome: &mut PacketOutcome,
        clock_ns: u64,
    ) {
        outcome.detection_events.extend(effects.events);
        for _ in 0..effects.gaps {
            outcome.events.push(StreamEvent::SeqGap);
        }
        outcome.fed = effects.fed;
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
            let exception = Exception::of_parser(&common.engine.options.policies);
            common.account.counters.count_exception(exception.names());
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

    /// A flow that another has announced learns so.
    pub(crate) fn meet_expectation(&mut self, flow: &mut Flow<NetFlow>, clock_ns: u64) {
        if self.expectations.is_empty() {
            return;
        }
        let found = self.expectations.take(
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

/// What a side's data goes on with.
enum Next {
    Piece,
    OtherSide,
    None,
}

/// What comes after a piece of this side's data.
fn next_piece(ssn: &mut TcpSession, app: &AppLayer, d: Direction, taken: &Taken) -> Next {
    if let Some(depth) = taken.depth {
        ssn.set_depth(depth);
    }
    if taken.then == Then::OtherFirst {
        ssn.stream_mut(d).app_again();
        return Next::OtherSide;
    }
    if app.is_changing() {
        ssn.stream_mut(d).app_again();
        ssn.stream_mut(d.opposite()).app_again();
        if taken.used == 0 {
            return Next::None;
        }
    }
    Next::Piece
}

/// Enters a piece of stream in the ledger. Returns the bytes that were not parsed for want of room.
fn count_piece(ledger: &mut Ledger, used: usize, is_refused: &mut bool) -> u64 {
    let used = used as u64;
    ledger.receive(1, used);
    if std::mem::take(is_refused) {
        ledger.shed(ShedReason::AppMemcap, 1, used);
        return used;
    }
    ledger.pass(1, used);
    0
}

/// Stops what is of no use to the application layer any more, and inspection where it is due.
fn stop_what_is_of_no_use(ssn: &mut TcpSession, app: &AppLayer, effects: &mut Effects) {
    if app.is_all_off() || effects.parser_error {
        ssn.disable_app();
    }
    for d in Direction::BOTH {
        if effects.stop_reassembly {
            ssn.stream_mut(d).stop_reassembly();
        }
        if std::mem::take(&mut effects.trigger_raw[d.index()]) {
            ssn.stream_mut(d).trigger_raw();
        }
    }
}
