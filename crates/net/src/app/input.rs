//! Input to the application layer of a flow: streams, gaps and datagrams, first to detection of the
//! protocol, then to its parser.

use super::counters::{bump, bump_by};
use super::crowd::may_be_logged;
use super::detection::{Answer, Question};
use super::{AppInput, AppLayer, Protocols, Side, Taken, Then, TxMemory};
use crate::limits::{DETECT_BYTES_MAX, PARSER_PENDING_MAX, reached};
use gabion_proto::registry::protocol;
use gabion_proto::tx_list::{TxList, YOUNGEST_KEPT};
use gabion_proto::{Endpoints, Input, Outcome, ParseContext, ProtocolChange, Transaction};
use gabion_record::Direction;
use gabion_record::applayer::{DetectionEvent, ProtoId, STREAM_FRAME, Transport};

/// What is known about the protocol of a side's data.
enum Detected {
    /// It is known. If this piece showed it: the stream depth that the protocol asks for.
    Known { depth: Option<u64> },
    /// Wait for more.
    Unknown,
    /// The sides are reversed.
    Reversed,
}

/// Source and destination port of data in a direction. `server` stands for the server's port, if it is there.
fn ports(ends: &Endpoints, d: Direction, server: Option<u16>) -> (u16, u16) {
    let server = server.unwrap_or(ends.server_port);
    match d {
        Direction::ToServer => (ends.client_port, server),
        Direction::ToClient => (server, ends.client_port),
    }
}

impl AppLayer {
    fn settle(&mut self, input: &mut AppInput<'_>, proto: ProtoId) {
        bump(&mut input.counters.flows, proto, input.transport);
        self.left = ProtoId::UNKNOWN;
        if proto == ProtoId::FAILED {
            // To rules it has failed on both sides.
            for side in self.sides.iter_mut().filter(|s| s.proto == ProtoId::UNKNOWN) {
                side.proto = proto;
            }
        }
        self.open(proto, input.transport, input.protocols);
    }

    /// Takes stream data of a direction.
    pub(crate) fn stream(
        &mut self,
        input: &mut AppInput<'_>,
        d: Direction,
        bytes: &[u8],
        eof: bool,
    ) -> Taken {
        let (i, other) = (d.index(), d.opposite());
        if self.is_off(d) {
            return Taken::used(bytes.len());
        }
        if !bytes.is_empty() {
            self.sides[i].is_seen = true;
            self.first_seen.get_or_insert(d);
        }
        if self.change.is_some() && !bytes.is_empty() {
            self.switch();
            // Who begins the next protocol counts for it, not who began the one before.
            self.first_seen = Some(self.begins_next.take().unwrap_or(d));
        } else if self.is_between_protocols() && eof && bytes.is_empty() {
            // Nothing came after the change that could show a protocol.
            self.switch();
            self.settle(input, ProtoId::FAILED);
            self.compare_with_announced(input);
            return Taken::used(0);
        }
        let was_known = self.proto.is_known();
        let was_open = self.sides[i].proto == ProtoId::UNKNOWN;
        let detected = self.detect_stream(input, d, bytes, eof);
        let Detected::Known { depth } = detected else {
            let used = if eof && self.proto == ProtoId::UNKNOWN {
                // Bytes that the other side has not sent yet may still show it.
                self.sides[other.index()].is_seen
            } else {
                self.is_off(d)
            };
            let then = match detected {
                Detected::Reversed => Then::Reversed,
                Detected::Known { .. } | Detected::Unknown => Then::Continue,
            };
            return Taken { then, ..Taken::used(if used { bytes.len() } else { 0 }) };
        };
        if !was_known && self.first_seen == Some(other) {
            // What the other side sent first (a greeting) is parsed first.
            return Taken { depth, then: Then::OtherFirst, ..Taken::used(0) };
        }
        let side = &mut self.sides[i];
        if bytes.len() < side.needed && !eof && bytes.len() < PARSER_PENDING_MAX {
            return Taken { depth, ..Taken::used(0) };
        }
        side.needed = 0;
        if bytes.is_empty() && (!eof || side.is_closed) {
            return Taken { depth, ..Taken::used(0) };
        }
        side.is_closed |= eof;
        self.is_fed = true;
        if self.parser.is_none() {
            // Suricata looks for nothing else where a protocol is recognized only.
            self.disable();
            return Taken { depth, ..Taken::used(bytes.len()) };
        }
        let taken = self.parse_stream(input, d, bytes, eof);
        if was_open && self.has_failed && self.sides[i].proto == ProtoId::FAILED {
            // The bytes that could not show the protocol ended it: then Suricata has no result for this side.
            self.sides[i].proto = self.proto;
        }
        Taken { depth, ..taken }
    }

    /// Gives stream data to the parser.
    fn parse_stream(
        &mut self,
        input: &mut AppInput<'_>,
        d: Direction,
        bytes: &[u8],
        eof: bool,
    ) -> Taken {
        match self.parse(input, d, Input::Data { bytes, eof }) {
            Outcome::Done | Outcome::Error => Taken::used(bytes.len()),
            Outcome::Incomplete { consumed, needed } => {
                let side = &mut self.sides[d.index()];
                let consumed = consumed.min(bytes.len());
                if bytes.len() - consumed >= PARSER_PENDING_MAX {
                    side.is_disabled = true;
                    return Taken { is_overflowing: true, ..Taken::used(bytes.len()) };
                }
                side.needed = needed.max(bytes.len() - consumed + 1);
                Taken::used(consumed)
            }
        }
    }

    /// Looking for the protocol has ended in one direction; UNKNOWN: nothing was found.
    fn decide(&mut self, d: Direction, proto: ProtoId) {
        let side = &mut self.sides[d.index()];
        side.is_done |= proto == ProtoId::UNKNOWN;
        side.proto = proto;
        side.decisions = side.decisions.wrapping_add(1);
    }

    /// Looks for the protocol where it is not known in this direction.
    fn detect_stream(
        &mut self,
        input: &mut AppInput<'_>,
        d: Direction,
        bytes: &[u8],
        eof: bool,
    ) -> Detected {
        let (i, o) = (d.index(), d.opposite().index());
        if self.sides[i].proto == ProtoId::UNKNOWN && !bytes.is_empty() {
            let other = self.sides[o].proto;
            let may_turn = self.is_midstream && other == ProtoId::UNKNOWN;
            let ports = ports(input.endpoints, d, self.announced_port);
            // After a change the protocol that it announced is looked for on any port.
            let follows = other == ProtoId::UNKNOWN && self.left != ProtoId::UNKNOWN;
            let likely = if follows { self.expected } else { other };
            let question = Question {
                transport: Transport::Tcp,
                direction: d,
                ports,
                other: likely,
                may_turn,
            };
            let mut answer = input.protocols.detection.detect_protocol(&question, bytes);
            if answer == Answer::Open && bytes.len() > DETECT_BYTES_MAX {
                answer = Answer::Done;
            }
            // A protocol that nothing shows is there when it was announced.
            let announced = self.expected;
            if matches!(answer, Answer::Open | Answer::Done)
                && announced.is_known()
                && (self.proto == ProtoId::UNKNOWN || self.proto == announced)
                && !input.protocols.detection.finds(announced)
            {
                answer = Answer::Found { proto: announced, reversed: false };
            }
            match answer {
                Answer::Found { proto, reversed } => {
                    self.decide(d, proto);
                    if reversed && may_turn {
                        return Detected::Reversed;
                    }
                    if other != ProtoId::UNKNOWN && other != proto {
                        input.effects.events.push(DetectionEvent::MismatchBothDirections);
                        // Before anything was parsed the client's protocol counts.
                        if !self.is_fed && d == Direction::ToServer {
                            self.proto = ProtoId::UNKNOWN;
                        }
                    }
                }
                // The end does not decide it: the protocol of the other side holds, and the bytes so far go to
                // the parser.
                Answer::Open if eof && self.proto.is_known() => self.sides[i].proto = self.proto,
                Answer::Open => return Detected::Unknown,
                Answer::Done => {
                    if !self.give_up_detection(input, d, bytes.len()) {
                        return Detected::Unknown;
                    }
                }
            }
        }
        if self.proto != ProtoId::UNKNOWN {
            if eof && self.sides[i].proto == ProtoId::UNKNOWN {
                // It has ended without a word: the protocol of the other side holds.
                self.sides[i].proto = self.proto;
            }
            return Detected::Known { depth: None };
        }
        let proto = self.sides[i].proto;
        if proto == ProtoId::UNKNOWN {
            return Detected::Unknown;
        }
        if eof && bytes.is_empty() && !self.sides.iter().any(|s| s.is_seen) {
            // An announced flow without data.
            input.effects.events.push(DetectionEvent::WrongDirectionFirstData);
            self.settle(input, ProtoId::FAILED);
            return Detected::Unknown;
        }
        self.settle(input, proto);
        self.compare_with_announced(input);
        if d == Direction::ToClient
            && !self.sides[o].is_seen
            && protocol(proto).is_some_and(|p| p.first_direction == Some(Direction::ToServer))
        {
            input.effects.events.push(DetectionEvent::WrongDirectionFirstData);
        }
        Detected::Known { depth: protocol(proto).and_then(|p| p.stream_depth) }
    }

    /// No further byte of this direction can show the protocol. Returns whether it is known nevertheless.
    fn give_up_detection(&mut self, input: &mut AppInput<'_>, d: Direction, len: usize) -> bool {
        let (i, o) = (d.index(), d.opposite().index());
        if !self.sides[i].is_done {
            self.decide(d, ProtoId::UNKNOWN);
        }
        if self.proto.is_known() {
            self.sides[i].proto = ProtoId::FAILED;
            if !self.only_one_direction_raised {
                self.only_one_direction_raised = true;
                input.effects.events.push(DetectionEvent::OnlyOneDirection);
            }
            return true;
        }
        if self.expected.is_known() && !input.protocols.detection.finds(self.expected) {
            self.sides[i].proto = self.expected;
            return true;
        }
        let is_other_done = self.sides[o].is_done;
        if is_other_done || len > DETECT_BYTES_MAX {
            if !is_other_done {
                reached::DETECT_BYTES_MAX.count();
                input.effects.events.push(DetectionEvent::Skipped);
            }
            self.settle(input, ProtoId::FAILED);
            self.compare_with_announced(input);
        }
        false
    }

    /// Raises the events of a change of protocol that led to another than announced.
    fn compare_with_announced(&self, input: &mut AppInput<'_>) {
        if !self.original.is_known() || !self.expected.is_known() || self.proto == self.expected {
            return;
        }
        input.effects.events.push(DetectionEvent::UnexpectedProtocol);
        if protocol(self.expected).is_some_and(|p| p.is_encryption) {
            input.effects.events.push(DetectionEvent::NoTlsAfterStarttls);
        }
    }

    /// Looks for the protocol in the first datagram of a direction. The first datagram of the flow
    /// decides, and the other side's first datagram if it did not. Returns the datagram's final
    /// direction.
    fn detect_datagram(
        &mut self,
        input: &mut AppInput<'_>,
        mut d: Direction,
        bytes: &[u8],
    ) -> Direction {
        let ports = ports(input.endpoints, d, None);
        let other = self.sides[d.opposite().index()].proto;
        let question =
            Question { transport: Transport::Udp, direction: d, ports, other, may_turn: false };
        let found = match input.protocols.detection.detect_protocol(&question, bytes) {
            Answer::Found { proto, reversed } => {
                if reversed {
                    // What the other side has shown goes with it.
                    if other.is_known() {
                        self.swap_directions();
                    }
                    d = d.opposite();
                }
                Some(proto)
            }
            Answer::Open | Answer::Done => None,
        };
        let proto = match (found, other) {
            (Some(proto), _) => proto,
            (None, ProtoId::UNKNOWN) => ProtoId::FAILED,
            (None, other) => other,
        };
        self.decide(d, proto);
        // What one side shows decides again for the other, too.
        for side in &mut self.sides {
            side.decisions = side.decisions.wrapping_add(1);
        }
        match found {
            Some(proto) if other.is_known() && other != proto => {
                input.effects.events.push(DetectionEvent::MismatchBothDirections);
            }
            Some(proto) if self.proto != proto => {
                self.open(proto, Transport::Udp, input.protocols);
            }
            Some(_) => {}
            None if self.proto == ProtoId::UNKNOWN => self.proto = self.sides[d.index()].proto,
            None => {}
        }
        if other == ProtoId::UNKNOWN {
            bump(&mut input.counters.flows, self.proto, Transport::Udp);
        }
        d
    }

    /// Takes one datagram; the first of a side may turn out to be the other side's. Returns its final direction.
    pub(crate) fn datagram(
        &mut self,
        input: &mut AppInput<'_>,
        mut d: Direction,
        bytes: &[u8],
    ) -> Direction {
        self.sides[d.index()].is_seen = true;
        if self.sides[d.index()].proto == ProtoId::UNKNOWN {
            d = self.detect_datagram(input, d, bytes);
        }
        if self.proto.is_known() && !self.sides[d.index()].is_disabled && !bytes.is_empty() {
            self.parse(input, d, Input::Data { bytes, eof: false });
        }
        d
    }

    /// Bytes of a direction are lost. False: the protocol can't continue after them.
    pub(crate) fn gap(&mut self, input: &mut AppInput<'_>, d: Direction, len: u64) -> bool {
        if self.is_off(d) {
            return false;
        }
        if !self.proto.is_known() {
            // Without the first bytes no protocol can be found, on either side (as in Suricata).
            self.sides[d.index()].is_done = true;
            self.disable();
            return false;
        }
        let side = &mut self.sides[d.index()];
        let accepts = protocol(self.proto).is_some_and(|p| p.accepts_gaps);
        if !accepts || self.parser.is_none() {
            // Suricata takes it for an error of the parser.
            bump(&mut input.counters.gaps, self.proto, Transport::Tcp);
            side.is_disabled = true;
            self.has_failed = true;
            input.effects.parser_error = true;
            // What the other side has sent is inspected with the packet that shows the loss.
            input.effects.sides[d.opposite().index()].trigger_raw = true;
            return false;
        }
        // The protocol that the other side showed holds for this side.
        if side.proto == ProtoId::UNKNOWN {
            side.proto = self.proto;
        }
        side.needed = 0;
        self.parse(input, d, Input::Gap { len }) != Outcome::Error
    }

    /// Gives input to the parser, and collects its effects.
    pub(super) fn parse(
        &mut self,
        input: &mut AppInput<'_>,
        d: Direction,
        piece: Input<'_>,
    ) -> Outcome {
        let Some(parser) = &mut self.parser else { return Outcome::Done };
        let transport = input.transport;
        let mut cx = ParseContext::new(input.ts_ns, d, input.endpoints);
        cx.is_changing =
            self.change.is_some() || (self.expected.is_known() && self.expected != self.proto);
        cx.requirements = input.protocols.requirements;
        cx.parsed = input.protocols.parsed();
        cx.changed_from = protocol(self.original).map(|p| p.table.eve_name);
        let frames = &input.protocols.frames;
        let wanted = frames.get(usize::from(self.proto.0)).copied().unwrap_or(0);
        if wanted != 0 {
            let frames = self.frames.get_or_insert_default();
            if transport == Transport::Udp {
                frames.clear();
            } else if wanted >> STREAM_FRAME != 0
                && matches!(piece, Input::Data { bytes: [_, ..], .. })
            {
                frames.stream(d, self.sides[d.index()].offset);
            }
            cx.frames.wanted = wanted;
            cx.frames.at = [self.sides[0].offset, self.sides[1].offset];
        }
        cx.sparing = input.protocols.sparing(self.proto, &self.records, self.sent);
        let outcome = parser.parse(&mut cx, piece);
        self.records.refuse(cx.sparing.map_or(0, |sparing| sparing.refused));
        if let Some(frames) = self.frames.as_mut()
            && wanted != 0
        {
            input.counters.frames_dropped += frames.take_notes(std::mem::take(&mut cx.frames));
        }
        let effects = &mut *input.effects;
        effects.expectations.append(&mut cx.expectations);
        effects.pieces.append(&mut cx.pieces);
        effects.stop_reassembly |= cx.stop_reassembly;
        effects.stop_payload |= cx.stop_payload_inspection;
        effects.stop_raw |= cx.stop_raw;
        effects.sides[0].trigger_raw |= cx.trigger_raw[0];
        effects.sides[1].trigger_raw |= cx.trigger_raw[1];
        effects.flush |= cx.flush;
        if cx.change.is_some() {
            self.change = cx.change;
            self.handover = cx.handover;
            let is_unused = matches!(outcome, Outcome::Incomplete { consumed: 0, .. });
            self.begins_next = is_unused.then_some(d);
            self.original = self.proto;
        }
        if let Some(name) = cx.renamed {
            self.rename(input.protocols, name);
        }
        let before = self.txs.next_id();
        self.sync(input);
        let made = self.txs.next_id().saturating_sub(before);
        let effects = &mut *input.effects;
        effects.sides[d.index()].fed |= made > 0;
        self.tx_total += made;
        bump_by(&mut input.counters.txs, self.proto, transport, made);
        if outcome == Outcome::Error {
            bump(&mut input.counters.errors, self.proto, transport);
            effects.parser_error = true;
            // A stream can't be followed any more; a datagram does not depend on earlier ones. What the other side
            // has sent before is parsed yet, if it is its turn.
            if transport == Transport::Tcp {
                self.sides[d.index()].is_disabled = true;
                self.has_failed = true;
            }
        } else if protocol(self.proto).is_some_and(|p| p.auto_trigger_raw) && made > 0 {
            effects.sides[d.index()].trigger_raw = true;
        }
        outcome
    }

    /// Remembers transactions the parser has made.
    fn sync(&mut self, input: &AppInput<'_>) {
        let Some(parser) = &mut self.parser else { return };
        if self.txs.is_empty() {
            self.txs.continue_with(parser.first_tx_id());
        }
        let next = parser.next_tx_id();
        let first_new = self.txs.next_id();
        let last =
            Direction::BOTH.map(|d| protocol(self.proto).map_or(1, |p| p.table.last_state(d)));
        let mut sparing = input.protocols.sparing(self.proto, &self.records, self.sent);
        while self.txs.next_id() < next {
            // Parsers skip the same transactions themselves, as far as they can know.
            self.txs.continue_with(parser.txs().first_from(self.txs.next_id()).min(next));
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
                // Neither a rule nor a record uses it.
                parser.free(id);
                self.txs.continue_with(id + 1);
                continue;
            }
            let silent = &self.silent_pairs;
            let no_log = !silent.is_empty()
                && tx.and_then(|t| t.pair_key()).is_some_and(|k| silent.contains(&k));
            let only = tx.and_then(Transaction::only);
            let is_news = self.crowd.is_none() || tx.is_none_or(|tx| may_be_logged(tx, last));
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

    /// The flow turned out to be of another protocol that the same parser reads.
    fn rename(&mut self, protocols: &Protocols, name: &str) {
        let at = gabion_proto::registry().iter().position(|p| p.table.name == name);
        let Some(at) = at.and_then(|at| u8::try_from(at + 1).ok()) else { return };
        let old = std::mem::replace(&mut self.proto, ProtoId(at));
        self.original = old;
        // The other side speaks the same, whether it has shown it or not.
        let is_of_old = |s: &&mut Side| s.proto == old || s.proto == ProtoId::UNKNOWN;
        for side in self.sides.iter_mut().filter(is_of_old) {
            side.proto = self.proto;
        }
        self.is_unlooked = protocols.is_unlooked(self.proto);
    }

    /// Drops the old protocol and looks for another.
    fn switch(&mut self) {
        let Some(change) = self.change.take() else { return };
        self.original = self.proto;
        self.left = self.proto;
        self.proto = ProtoId::UNKNOWN;
        for side in &mut self.sides {
            let Side { is_seen, offset, decisions, .. } = *side;
            *side = Side { is_seen, offset, decisions, ..Side::default() };
        }
        self.parser = None;
        self.frames = None;
        self.txs = TxList::default();
        self.tx_total = 0;
        self.crowd = None;
        self.only_one_direction_raised = false;
        self.is_fed = false;
        self.has_failed = false;
        self.announced_port = change.port;
        self.expected = expected_by(&change);
    }

    /// The protocol that a change announces, before the change too. What another flow announced, such as the data of
    /// FTP, is none.
    pub(crate) fn expected_next(&self) -> ProtoId {
        match &self.change {
            Some(change) => expected_by(change),
            None if self.original.is_known() => self.expected,
            None => ProtoId::UNKNOWN,
        }
    }
}

fn expected_by(change: &ProtocolChange) -> ProtoId {
    let place = |name| gabion_proto::registry().iter().position(|p| p.table.name == name);
    change.expected.and_then(place).map_or(ProtoId::UNKNOWN, |at| ProtoId(at as u8 + 1))
}
