//! Frames against the rules that name them.
//!
//! A frame is inspected when it is whole, or in growing pieces while it is not; a rule fires once in
//! a frame.

use super::compiled::FrameProgram;
use super::content::Piece;
use super::pattern_set::PatternSet;
use super::run::Run;
use crate::frames::{Frame, PIECE_BYTES, bytes_of, is_over};
use gabion_record::Direction;
use gabion_rules::compiled::buffer::ChainId;
use gabion_rules::compiled::{BufferInspection, BufferRef};

/// Runs the rules on the frames of the packet's direction.
pub(crate) fn inspect(run: &mut Run<'_>) {
    let Some(d) = run.p.direction else { return };
    let (det, tcp) = (run.det, run.tcp());
    let Some(app) = run.app() else { return };
    let proto = app.proto;
    let Some(mut frames) = app.frames.take() else { return };
    let over = is_over(run.p, tcp);
    for f in frames.side_frames(d).iter_mut().filter(|f| !f.is_inspected) {
        let usable = tcp.map_or(run.p.payload.len() as u64, |t| t.stream(d).usable_end());
        let have = f.available(usable);
        let done = over || f.is_whole(usable);
        // Inline every new piece counts, as nothing that passed can be taken back.
        let piece = if run.txs.inline { 1 } else { PIECE_BYTES };
        if !done && have < f.inspected + piece {
            continue;
        }
        if let Some(program) = det.frames.get(&(proto, f.kind, d)) {
            let (bytes, from) = bytes_of(f, d, tcp, run.p.payload);
            if !bytes.is_empty() {
                one(run, f, program, bytes, from, done, d);
            }
        }
        f.inspected = have;
        f.is_inspected = done;
    }
    if let Some(app) = run.app() {
        app.frames = Some(frames);
    }
}

#[expect(
    clippy::too_many_arguments,
    reason = "a struct of borrowed parts would be built for each frame"
)]
fn one(
    run: &mut Run<'_>,
    f: &mut Frame,
    program: &FrameProgram,
    bytes: &[u8],
    from: u64,
    is_last: bool,
    d: Direction,
) {
    let mut candidates = std::mem::take(&mut run.scratch.tx_candidates);
    candidates.clear();
    candidates.extend_from_slice(&program.plain);
    for (chain, patterns) in &program.buffers {
        scan(run, *chain, patterns, bytes, &mut candidates);
    }
    candidates.sort_unstable();
    candidates.dedup();
    let piece = Piece { bytes, start: from, is_last, dce_little: true };
    for sig in &candidates {
        if f.matched.contains(sig) || !run.det.set.signatures[*sig as usize].inspects(d) {
            continue;
        }
        let since = run.costs.now();
        let matched = rule(run, *sig, piece);
        run.costs.add(*sig, since, matched);
        if matched {
            f.matched.push(*sig);
            run.matched(*sig, f.tx, false, f.tx.is_some());
            if let Some(hit) = run.hits().last_mut() {
                hit.frame = Some(Box::new(f.clone()));
            }
        }
    }
    run.scratch.tx_candidates = candidates;
}

fn scan(
    run: &mut Run<'_>,
    chain: ChainId,
    patterns: &PatternSet,
    bytes: &[u8],
    candidates: &mut Vec<u32>,
) {
    if chain == ChainId::NONE {
        patterns.scan(bytes, &mut run.scratch.mpm, |sig| candidates.push(sig));
        return;
    }
    let mut held = std::mem::take(&mut run.scratch.transformed);
    let steps = &run.det.set.chains[usize::from(chain.0)];
    if super::transform::apply(steps, bytes, &mut held.0, &mut held.1, &mut run.resources) {
        patterns.scan(&held.0, &mut run.scratch.mpm, |sig| candidates.push(sig));
    }
    run.scratch.transformed = held;
}

fn rule(run: &mut Run<'_>, sig: u32, piece: Piece<'_>) -> bool {
    let det = run.det;
    let s = &det.set.signatures[sig as usize];
    let hot = det.hot[sig as usize];
    if !run.header(&hot) || !run.packet_conditions(s) {
        return false;
    }
    run.scratch.notes.captured.clear();
    run.scratch.notes.context_json.clear();
    s.buffers.iter().all(|b| match b.buffer {
        BufferRef::Frame(_) => holds(run, sig, b, piece),
        BufferRef::Payload => run.payload(s, b).is_some(),
        BufferRef::Packet(which) => run.packet_buffer(s, b, which).is_some(),
        BufferRef::App(_) => false,
    })
}

fn holds(run: &mut Run<'_>, sig: u32, b: &BufferInspection, piece: Piece<'_>) -> bool {
    let det = run.det;
    let s = &det.set.signatures[sig as usize];
    if b.chain == ChainId::NONE {
        return run.conditions(s, &b.conditions, piece);
    }
    let mut held = std::mem::take(&mut run.scratch.transformed);
    let steps = &det.set.chains[usize::from(b.chain.0)];
    let ok =
        super::transform::apply(steps, piece.bytes, &mut held.0, &mut held.1, &mut run.resources)
            && run.conditions(s, &b.conditions, Piece::whole(&held.0));
    run.scratch.transformed = held;
    ok
}
