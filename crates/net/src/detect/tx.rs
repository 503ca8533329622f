//! Transactions against the rules.
//!
//! A transaction has a progress in each direction. A buffer with fast patterns is scanned once, when
//! its progress is reached (windows of growing buffers each once); rules without a pattern are looked
//! at when progress or events change. A rule whose conditions are partly met waits with the
//! transaction; one that has matched is not looked at again in that direction.

use super::buffer_facts::BufferFacts;
use super::compiled::{TxBuffer, TxProgram};
use super::content::Piece;
use super::gates::{Answers, Gate};
use super::grams;
use super::run::{Run, Scratch};
use super::tx_memory::{Kept, KeptState, Seen, TxNotes, WindowEnd};
use crate::app::AppLayer;
use crate::limits::{INSPECTION_BYTES, reached};
use gabion_proto::tx_list::TxTable;
use gabion_proto::{Buffer, Inspect, Transaction};
use gabion_record::Direction;
use gabion_record::applayer::{BufferId, Instances, ProtoId};
use gabion_rules::Signature;
use gabion_rules::compiled::buffer::{BufferCondition, ChainId, FileCondition, IntegerMatch};
use gabion_rules::compiled::{BufferRef, Engine, EngineRun, TxTest};
use smallvec::SmallVec;

/// Outcome of one engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outcome {
    Yes,
    No,
    /// Not yet: more may come.
    Wait,
}

/// Runs the rules on all transactions of the packet's direction.
pub(crate) fn inspect(run: &mut Run<'_>) {
    let (Some(parser), Some(direction)) = (run.parser(), run.p.direction) else { return };
    let det = run.det;
    let Some(app) = run.app() else { return };
    let proto = app.proto;
    let Some(program) = det.tx.get(usize::from(proto.0)).map(|p| &p[direction.index()]) else {
        return;
    };
    let has_payload = !run.scratch.payload_tx.is_empty();
    let has_rules = !program.is_empty || has_payload;
    let of = Inspected { txs: parser.txs(), proto, direction, has_rules };
    // What is found in the payload concerns all of them, and so do the end and the firewall.
    let (wants_all, run_filters) =
        (has_payload || run.txs.filters || run.txs.at_end, run.txs.filters);
    let takes_due = |app: &&mut AppLayer| !wants_all || (app.is_uninspected() && !run_filters);
    match run.app().filter(takes_due).and_then(|app| app.take_due(direction)) {
        Some(due) => due.into_iter().for_each(|id| {
            of.transaction(run, id);
        }),
        None => {
            let mut from = 0;
            while let Some(id) = run.app().and_then(|a| a.next_uninspected(from, direction)) {
                from = id + 1;
                if !of.transaction(run, id) {
                    break;
                }
            }
        }
    }
    run.txs.current = None;
}

/// The transactions that a packet's rules look at.
struct Inspected<'a> {
    txs: &'a dyn TxTable,
    proto: ProtoId,
    direction: Direction,
    /// Some rules look at transactions of this protocol and direction.
    has_rules: bool,
}

impl Inspected<'_> {
    /// Runs the rules on one of them. False: its packet is dropped.
    fn transaction(&self, run: &mut Run<'_>, id: u64) -> bool {
        let (det, direction) = (run.det, self.direction);
        let is_looked_at = run.txs.filters || (run.txs.detects && self.has_rules);
        let Some(app) = run.app() else { return false };
        let last = app.last_state(direction);
        let Some(tx) = self.txs.at(id) else { return true };
        let is = tx.standing();
        let is_other = is.is_without(direction, None);
        let is_done = is_other || is.progress[direction.index()] >= last;
        if is_other || !is_looked_at {
            app.pass_over(id, direction, is_done);
            return true;
        }
        let Some(memory) = app.begin_inspection(id, direction) else { return true };
        let mut memory = std::mem::take(memory);
        // Notes that held no more than how far it was were spared.
        let mut notes = memory.notes.take().unwrap_or_else(|| {
            let mut spare = run.scratch.spare_notes.pop().unwrap_or_default();
            spare.seen = memory.seen;
            spare
        });
        run.txs.current = Some(id);
        let mut passes = true;
        if run.txs.filters
            && let Some(firewall) = &det.firewall
        {
            let known = &mut memory.filter;
            passes = run.tx_tables(firewall, tx, self.proto, direction, known, &notes);
            run.txs.filters &= !(run.filtered.accept_flow || run.filtered.accept_packet);
            run.txs.detects &= !run.filtered.pass;
        }
        let mut is_put_off = false;
        if passes && run.txs.detects && self.has_rules {
            is_put_off = one(run, tx, self.proto, direction, &mut notes) == Look::PutOff;
        }
        memory.is_done = is_done;
        let waits = !is_done && !is_put_off && notes.has_waiting();
        memory.seen = notes.seen;
        // A rule on both sides needs the results of this side's rules for its other side.
        if notes.is_plain() || (is_done && notes.kept.is_empty()) {
            run.scratch.spare(notes);
        } else {
            memory.notes = Some(notes);
        }
        if let Some(app) = run.app() {
            if let Some(slot) = app.tx_detect(id, direction) {
                *slot = memory;
            }
            app.inspected(id, direction, waits);
        }
        passes
    }
}

/// Evaluates one step of a rule's inspection.
pub(super) fn engine_holds(
    run: &mut Run<'_>,
    tx: &dyn Transaction,
    s: &Signature,
    e: &Engine,
    memory: &TxNotes,
) -> bool {
    engine(run, tx, s, e, e.direction, memory) == Outcome::Yes
}

/// Whether a transaction was inspected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Look {
    Made,
    /// Its flow has had as much inspected again as its bytes allow.
    PutOff,
}

/// Whether a transaction is not inspected again, whose state is the one in which it was inspected. A message that
/// continues in one state for many packets would be searched from its beginning with each of them, and a packet can
/// continue dozens of them. So what a flow has inspected again is bounded by its bytes; beyond them it is put off until
/// the state is left, a window of a body is due, or the flow ends, and but for the packets whose number is a power of two.
fn is_put_off(
    run: &mut Run<'_>,
    tx: &dyn Transaction,
    (program, direction): (&TxProgram, Direction),
    how: Inspect,
    memory: &mut TxNotes,
) -> bool {
    if run.app().is_none_or(|app| app.may_inspect_again()) {
        return false;
    }
    let is_due = |b: &TxBuffer| {
        (0..instances(tx, b.local, direction, b.multi, true)).any(|index| {
            let inspected = memory.window(b.local, index);
            let window = tx.buffer(b.local, direction, index, Inspect { inspected, ..how });
            window.is_some_and(|w| w.start + w.data.len() as u64 > inspected)
        })
    };
    let mut bodies =
        program.buffers.iter().filter(|b| b.streaming && b.progress <= memory.seen.progress);
    if bodies.any(is_due) {
        return false;
    }
    memory.put_off = memory.put_off.saturating_add(1);
    let is_put_off = !memory.put_off.is_power_of_two();
    if is_put_off {
        reached::INSPECTED_AGAIN_BYTES_MAX.count();
    }
    is_put_off
}

fn one(
    run: &mut Run<'_>,
    tx: &dyn Transaction,
    proto: ProtoId,
    direction: Direction,
    memory: &mut TxNotes,
) -> Look {
    let det = run.det;
    let program = &det.tx[usize::from(proto.0)][direction.index()];
    let progress = tx.progress(direction);
    let how = |inspected| Inspect { inspected, at_end: run.txs.at_end, inline: run.txs.inline };
    let how_whole = how(0);
    let is_again = memory.seen.started
        && memory.seen.progress == progress
        && usize::from(memory.seen.events) == tx.events().len()
        && run.scratch.payload_tx.is_empty()
        && !run.txs.at_end;
    if !is_again {
        memory.put_off = 0;
    } else if is_put_off(run, tx, (program, direction), how_whole, memory) {
        return Look::PutOff;
    }
    let has_begun = tx.has_begun(direction);
    let mut searched = 0;
    let mut candidates = std::mem::take(&mut run.scratch.tx_candidates);
    candidates.clear();
    let since = run.costs.now();
    for (i, b) in program.buffers.iter().enumerate() {
        if b.progress > progress {
            break;
        }
        let bit = 1u128.checked_shl(i as u32).unwrap_or(0);
        if memory.scanned & bit != 0 && !b.streaming && bit != 0 {
            continue;
        }
        // While a state lasts its buffers may still change: they count as scanned once it is left.
        if progress > b.progress || b.streaming {
            memory.scanned |= bit;
        }
        // Of hundreds of requests that are never answered no answer is searched.
        if !has_begun {
            continue;
        }
        let bytes = scan(run, tx, b, direction, how_whole, memory, &mut candidates);
        if !b.streaming {
            searched += bytes;
        }
    }
    run.costs.add_prefilter(2, since);
    for (at, sig) in &program.plain {
        let is_new = !memory.seen.started || (*at > memory.seen.progress);
        if *at <= progress && is_new {
            candidates.push(*sig);
        }
    }
    let events = tx.events();
    if !program.events.is_empty() {
        for code in events.iter().skip(usize::from(memory.seen.events)) {
            if let Some(l) = program.events.get(code) {
                candidates.extend_from_slice(l);
            }
        }
    }
    candidates.extend_from_slice(&run.scratch.payload_tx);
    for k in &memory.kept {
        if matches!(k.state, KeptState::Waiting | KeptState::Unmet) {
            candidates.push(k.sig);
        }
    }
    candidates.sort_unstable();
    candidates.dedup();
    if is_again && let Some(app) = run.app() {
        app.count_inspected_again(searched + INSPECTION_BYTES * candidates.len() as u64);
    }
    let ended = run.txs.at_end || run.app().is_some_and(|a| progress >= a.last_state(direction));
    let settled = |of: u8| ended || progress > of;
    let mut answers = Answers::default();
    let mut bitmaps = std::mem::take(&mut run.scratch.bitmaps);
    bitmaps.clear();
    let many = candidates.len() >= grams::CANDIDATES_MIN;
    // Candidates come by number, each once: new rules are appended to those already known.
    let mut seen = Walk { memory, known: 0 };
    seen.known = seen.memory.kept.len();
    for sig in &candidates {
        let since = run.costs.now();
        let refused = program.gates.refuse(*sig, &mut answers, |gate| {
            settled(gate.progress).then(|| is_open(run, tx, gate, direction))
        }) || many
            && program.grams.refuse(*sig, &mut bitmaps, |local, of, take| {
                if settled(of) {
                    take(tx.buffer(local, direction, 0, how_whole).map(|b| b.data));
                }
                settled(of)
            });
        if refused && seen.at(*sig).is_none() {
            run.costs.add(*sig, since, false);
            continue;
        }
        let matched = rule(run, tx, *sig, proto, direction, progress, &mut seen);
        run.costs.add(*sig, since, matched);
    }
    let Walk { memory, known } = seen;
    if known > 0 && memory.kept.len() > known {
        memory.kept.sort_unstable_by_key(|k| k.sig);
    }
    run.scratch.bitmaps = bitmaps;
    let events = u16::try_from(events.len()).unwrap_or(u16::MAX);
    memory.seen = Seen { started: true, progress, events };
    // Windows that were due are inspected now, whether or not a rule looked at them. Their ends are noted once all are
    // known: buffers that differ in their transforms have one window.
    let mut ends: SmallVec<[WindowEnd; 4]> = SmallVec::new();
    let grown = |b: &&TxBuffer| has_begun && b.streaming && b.progress <= progress;
    for b in program.buffers.iter().filter(grown) {
        for index in 0..instances(tx, b.local, direction, b.multi, true) {
            let inspect = Inspect { inspected: memory.window(b.local, index), ..how_whole };
            if let Some(w) = tx.buffer(b.local, direction, index, inspect) {
                let (key, end) = ((b.local, index as u32), w.start + w.data.len() as u64);
                match ends.iter_mut().find(|(k, _)| *k == key) {
                    Some(known) => known.1 = known.1.max(end),
                    None => ends.push((key, end)),
                }
            }
        }
    }
    memory.note_windows(&ends);
    run.scratch.tx_candidates = candidates;
    Look::Made
}

/// Whether an instance of the gate's buffer meets its condition.
fn is_open(run: &mut Run<'_>, tx: &dyn Transaction, gate: &Gate, direction: Direction) -> bool {
    let det = run.det;
    let s = &det.set.signatures[gate.sig as usize];
    let conditions = std::slice::from_ref(&gate.condition);
    let how = Inspect { inspected: 0, at_end: run.txs.at_end, inline: run.txs.inline };
    (0..instances(tx, gate.local, direction, gate.multi, false))
        .map_while(|index| tx.buffer(gate.local, direction, index, how))
        .any(|buffer| {
            let is_little = tx.is_little_endian();
            buffer_matches(run, s, conditions, ChainId::NONE, &buffer, is_little)
        })
}

/// The memory of a transaction while its candidates are looked at one after the other.
struct Walk<'m> {
    memory: &'m mut TxNotes,
    /// How many of its rules were known before; these are in order, and the later ones
    /// are of this packet.
    known: usize,
}

impl Walk<'_> {
    /// The place of a rule that was known before.
    fn at(&self, sig: u32) -> Option<usize> {
        self.memory.kept.get(..self.known)?.binary_search_by_key(&sig, |k| k.sig).ok()
    }

    /// Remembers a rule. A rule that the budget does not allow is counted as shed.
    fn keep(&mut self, run: &mut Run<'_>, kept: Kept) {
        let list = &mut self.memory.kept;
        if list.len() == list.capacity() {
            let more = list.capacity();
            let held = if list.spilled() { more } else { 0 };
            let bytes = (list.len() + more - held) * size_of::<Kept>();
            if !run.reserve(bytes) {
                run.scratch.forgotten += 1;
                return;
            }
            list.reserve_exact(more);
        }
        list.push(kept);
    }
}

/// The highest number of instances of a buffer that are inspected.
fn instances(
    tx: &dyn Transaction,
    local: u16,
    direction: Direction,
    multi: bool,
    streaming: bool,
) -> usize {
    match (multi, streaming) {
        (false, _) => 1,
        // Until no instance is left: the budget bounds what a transaction holds.
        (true, false) => usize::MAX,
        (true, true) => tx.streams(local, direction),
    }
}

/// Searches a buffer for fast patterns. Returns the bytes that this is worth, see [`INSPECTION_BYTES`].
#[expect(
    clippy::too_many_arguments,
    reason = "a struct of borrowed parts would be built for each buffer"
)]
fn scan(
    run: &mut Run<'_>,
    tx: &dyn Transaction,
    b: &TxBuffer,
    direction: Direction,
    how: Inspect,
    memory: &TxNotes,
    candidates: &mut Vec<u32>,
) -> u64 {
    let mut searched = 0;
    for index in 0..instances(tx, b.local, direction, b.multi, b.streaming) {
        let inspected = if b.streaming { memory.window(b.local, index) } else { 0 };
        let how = Inspect { inspected, ..how };
        let Some(buffer) = tx.buffer(b.local, direction, index, how) else {
            if b.streaming {
                continue;
            }
            break;
        };
        searched += INSPECTION_BYTES + buffer.data.len() as u64;
        if b.chain == ChainId::NONE && !b.streaming {
            let Scratch { mpm, recent_scans, .. } = &mut *run.scratch;
            recent_scans.scan(b.number, &b.patterns, buffer.data, mpm, candidates);
        } else if b.chain == ChainId::NONE {
            b.patterns.scan(buffer.data, &mut run.scratch.mpm, |sig| candidates.push(sig));
        } else {
            let mut held = std::mem::take(&mut run.scratch.transformed);
            let chain = &run.det.set.chains[usize::from(b.chain.0)];
            if super::transform::apply(
                chain,
                buffer.data,
                &mut held.0,
                &mut held.1,
                &mut run.resources,
            ) {
                b.patterns.scan(&held.0, &mut run.scratch.mpm, |sig| candidates.push(sig));
            }
            run.scratch.transformed = held;
        }
    }
    searched
}

/// Inspects one rule; true when it matched now.
#[expect(
    clippy::too_many_arguments,
    reason = "a struct of borrowed parts would be built for each rule"
)]
fn rule(
    run: &mut Run<'_>,
    tx: &dyn Transaction,
    sig: u32,
    proto: ProtoId,
    direction: Direction,
    progress: u8,
    seen: &mut Walk<'_>,
) -> bool {
    let det = run.det;
    let s = &det.set.signatures[sig as usize];
    let kept = seen.at(sig);
    let known = kept.map(|k| seen.memory.kept[k]);
    let met = known.map_or(0, |k| k.met);
    let is_first = match known.map(|k| k.state) {
        None | Some(KeptState::Unmet) => true,
        Some(KeptState::Waiting) => false,
        Some(KeptState::HalfDone | KeptState::Done | KeptState::Never) => return false,
    };
    let mut met = met;
    if is_first {
        if !run.header(&det.hot[sig as usize]) {
            return false;
        }
        if !run.packet_conditions(s) {
            // What no pattern finds is asked again with the next packet.
            if kept.is_none() && !super::compiled::is_scanned(s) {
                seen.keep(run, Kept { sig, met: 0, state: KeptState::Unmet });
            }
            return false;
        }
    }
    run.scratch.notes.captured.clear();
    run.scratch.notes.context_json.clear();
    if is_first {
        for b in s.buffers.iter() {
            let holds = match b.buffer {
                BufferRef::Packet(which) => run.packet_buffer(s, b, which).is_some(),
                // Payload is an engine of its own: it may come before or after the rest.
                BufferRef::Payload | BufferRef::App(_) | BufferRef::Frame(_) => true,
            };
            if !holds {
                return false;
            }
        }
        if !run.packet_scripts(s) {
            return false;
        }
    }
    let last = run.app().map_or(0, |a| a.last_state(direction));
    let (mut any, mut wait, mut fail) = (false, false, false);
    // Its fast pattern is searched again, so that the match need not be remembered.
    let mut rescanned = false;
    for (i, e) in s.engines.iter().enumerate() {
        if e.direction != direction || (e.proto != proto && e.proto != ProtoId::UNKNOWN) {
            continue;
        }
        any = true;
        let bit = 1u64.checked_shl(i as u32).unwrap_or(0);
        if met & bit != 0 {
            continue;
        }
        if e.progress > progress {
            wait = true;
            break;
        }
        match engine(run, tx, s, e, direction, seen.memory) {
            Outcome::Yes => met |= bit,
            Outcome::Wait => {
                wait = true;
                break;
            }
            // The state of this buffer is not over: more data may come.
            Outcome::No if e.progress == progress && progress < last && !run.txs.at_end => {
                wait = true;
                rescanned = met == 0 && e.is_fast_pattern && super::compiled::is_scanned(s);
                break;
            }
            Outcome::No => {
                fail = true;
                break;
            }
        }
    }
    let is_hook = s.engines.is_empty() && s.hook.is_some();
    let state = if fail {
        KeptState::Never
    } else if wait {
        KeptState::Waiting
    } else if any || is_hook {
        KeptState::Done
    } else {
        return false;
    };
    let alerts = state == KeptState::Done && both_sides(run, s, tx, direction);
    let state = match state {
        KeptState::Done if !alerts => KeptState::HalfDone,
        other => other,
    };
    match kept {
        Some(k) => seen.memory.kept[k] = Kept { sig, met, state },
        // A rule that fails at its first look need not be remembered: its pattern won't come again.
        None if state == KeptState::Never || (wait && rescanned) => {}
        None => seen.keep(run, Kept { sig, met, state }),
    }
    if alerts {
        run.matched(sig, Some(tx.id()), false, true);
    }
    alerts
}

/// A transactional rule (`=>`) alerts once both of its sides have matched.
fn both_sides(
    run: &mut Run<'_>,
    s: &Signature,
    tx: &dyn Transaction,
    direction: Direction,
) -> bool {
    if !s.header.transactional || !s.engines.iter().any(|e| e.direction != direction) {
        return true;
    }
    let (sig, id) = (s.index, tx.id());
    let Some(other) = run.app().and_then(|a| a.tx_detect(id, direction.opposite())) else {
        return false;
    };
    other.kept(sig).is_some_and(|k| k.state == KeptState::HalfDone)
}

fn engine(
    run: &mut Run<'_>,
    tx: &dyn Transaction,
    s: &Signature,
    e: &Engine,
    direction: Direction,
    memory: &TxNotes,
) -> Outcome {
    match e.run {
        EngineRun::Buffer(b) => {
            let Some(b) = s.buffers.get(usize::from(b)) else { return Outcome::No };
            if b.buffer == BufferRef::Payload {
                let last = run.app().map_or(0, |a| a.last_state(direction));
                return match run.payload(s, b) {
                    Some(_) => Outcome::Yes,
                    None if tx.progress(direction) >= last || run.txs.at_end => Outcome::No,
                    None => Outcome::Wait,
                };
            }
            let facts = |id: BufferId| run.det.buffer_facts.get(usize::from(id.0)).copied();
            let def = b.buffer.app().and_then(facts);
            let BufferFacts { multi, streaming } = def.unwrap_or_default();
            let mut seen = false;
            let mut growing = false;
            for index in 0..instances(tx, e.local, direction, multi, streaming) {
                let how = Inspect {
                    inspected: if streaming { memory.window(e.local, index) } else { 0 },
                    at_end: run.txs.at_end,
                    inline: run.txs.inline,
                };
                let Some(buffer) = tx.buffer(e.local, direction, index, how) else {
                    if streaming {
                        continue;
                    }
                    break;
                };
                // Suricata looks at no empty instance of several.
                if multi && buffer.data.is_empty() {
                    continue;
                }
                seen = true;
                growing |= !buffer.is_complete;
                let is_little = tx.is_little_endian();
                if buffer_matches(run, s, &b.conditions, b.chain, &buffer, is_little) {
                    return Outcome::Yes;
                }
            }
            let last = run.app().map_or(0, |a| a.last_state(direction));
            let ended = tx.progress(direction) >= last || run.txs.at_end;
            if !seen {
                if streaming && !ended {
                    return Outcome::Wait;
                }
                let absent =
                    b.conditions.iter().any(|c| matches!(c, BufferCondition::Absent { .. }));
                // That it is not there is known only behind the progress at which it may come (Suricata 8.0.7). Messages
                // of DNS have none behind it. An answer that began is over with its flow, a request that changes the
                // protocol is not.
                let parsed = tx.parsed_progress(direction);
                let is_behind = match direction {
                    Direction::ToServer => parsed > e.progress,
                    Direction::ToClient => parsed > 0 && tx.progress(direction) > e.progress,
                };
                return if !absent {
                    Outcome::No
                } else if is_behind {
                    Outcome::Yes
                } else if ended {
                    Outcome::No
                } else {
                    Outcome::Wait
                };
            }
            if streaming && growing && !ended { Outcome::Wait } else { Outcome::No }
        }
        EngineRun::Tx(t) => {
            let Some(t) = s.tx.get(usize::from(t)) else { return Outcome::No };
            test(run, tx, s, &t.test, e, direction)
        }
    }
}

fn buffer_matches(
    run: &mut Run<'_>,
    s: &Signature,
    conditions: &[BufferCondition],
    chain: ChainId,
    buffer: &Buffer<'_>,
    dce_little: bool,
) -> bool {
    if chain == ChainId::NONE {
        let piece = Piece {
            bytes: buffer.data,
            start: buffer.start,
            is_last: buffer.is_complete,
            dce_little,
        };
        return run.conditions(s, conditions, piece);
    }
    let mut held = std::mem::take(&mut run.scratch.transformed);
    let steps = &run.det.set.chains[usize::from(chain.0)];
    let ok =
        super::transform::apply(steps, buffer.data, &mut held.0, &mut held.1, &mut run.resources)
            && run.conditions(s, conditions, Piece { dce_little, ..Piece::whole(&held.0) });
    run.scratch.transformed = held;
    ok
}

fn test(
    run: &mut Run<'_>,
    tx: &dyn Transaction,
    s: &Signature,
    t: &TxTest,
    e: &Engine,
    direction: Direction,
) -> Outcome {
    let yes = |b: bool| if b { Outcome::Yes } else { Outcome::No };
    match t {
        TxTest::Integer(m, which) => {
            let value = |index| tx.integer(e.local, direction, index);
            yes(compare_instances(*m, *which, value))
        }
        TxTest::Condition(c) => yes(c.matches(tx.as_any(), direction)),
        TxTest::Event(code) => yes(tx.events().contains(code)),
        TxTest::State(m) => yes(m.matches(u64::from(tx.progress(direction)))),
        TxTest::Lua { script, negated } => yes(run.script(s, *script, *negated)),
        TxTest::Files(conditions) => files(run, tx, conditions, direction),
        TxTest::Reached => Outcome::Yes,
    }
}

/// Whether the values that the rule names meet its comparison.
fn compare_instances(
    m: IntegerMatch,
    which: Instances,
    value: impl Fn(usize) -> Option<u64>,
) -> bool {
    let mut values = (0..).map_while(&value);
    match which {
        Instances::Any => values.any(|v| m.matches(v)),
        Instances::All => {
            values.next().is_some_and(|v| m.matches(v)) && values.all(|v| m.matches(v))
        }
        Instances::At(place) => {
            let at = match usize::try_from(place) {
                Ok(at) => Some(at),
                Err(_) => values.count().checked_sub(place.unsigned_abs() as usize),
            };
            at.and_then(value).is_some_and(|v| m.matches(v))
        }
    }
}

/// One file of the transaction meets all conditions.
fn files(
    run: &Run<'_>,
    tx: &dyn Transaction,
    conditions: &[FileCondition],
    direction: Direction,
) -> Outcome {
    let Some(list) = tx.files(direction) else {
        return if run.txs.at_end { Outcome::No } else { Outcome::Wait };
    };
    let mut wait = list.files.is_empty();
    for f in &list.files {
        let open = f.state == gabion_proto::files::FileState::Open;
        let mut all = true;
        for c in conditions {
            match file_condition(run, f, c, open) {
                Outcome::Yes => {}
                Outcome::Wait => {
                    wait = true;
                    all = false;
                    break;
                }
                Outcome::No => {
                    all = false;
                    break;
                }
            }
        }
        if all {
            return Outcome::Yes;
        }
    }
    if wait && !run.txs.at_end { Outcome::Wait } else { Outcome::No }
}

fn file_condition(
    run: &Run<'_>,
    f: &gabion_proto::files::File,
    c: &FileCondition,
    open: bool,
) -> Outcome {
    let yes = |b: bool| if b { Outcome::Yes } else { Outcome::No };
    match c {
        FileCondition::Name { bytes, negated } => {
            yes(super::literal::find(&f.name, bytes, true, 0).is_some() != *negated)
        }
        FileCondition::Extension { bytes, negated } => {
            let has = f
                .name
                .rsplit(|b| *b == b'.')
                .next()
                .is_some_and(|e| e.len() < f.name.len() && e.eq_ignore_ascii_case(bytes));
            yes(has != *negated)
        }
        FileCondition::Magic { .. } => Outcome::No,
        // Suricata 8.0.7 waits for the file's end, also where its size is above the number already.
        FileCondition::Size(_) if open => Outcome::Wait,
        FileCondition::Size(m) => yes(m.matches(f.size)),
        FileCondition::Hash { list, negated } => {
            if open {
                return Outcome::Wait;
            }
            let Some(l) = run.det.set.hash_lists.get(*list as usize) else { return Outcome::No };
            let d = f.digests();
            use gabion_rules::compiled::buffer::HashKind;
            let found = match l.kind {
                HashKind::Md5 => d.md5.is_some_and(|h| l.contains(&h)),
                HashKind::Sha1 => d.sha1.is_some_and(|h| l.contains(&h)),
                HashKind::Sha256 => d.sha256.is_some_and(|h| l.contains(&h)),
            };
            yes(found != *negated)
        }
        FileCondition::Store => Outcome::Yes,
    }
}
