//! The internal order of signatures: which alert survives when there are too many, and what a
//! `pass` or `drop` precedes.
//!
//! By action; then for each kind of shared state those that write it before those that read it;
//! then priority, then sid. For hostbits only writers count and for xbits only readers: measured
//! with Suricata 8.0.7.

use crate::action::Action;
use crate::content::{BufferCondition, CaptureTarget};
use crate::packet::{PacketCondition, XbitsTrack};
use crate::post::PostMatch;
use crate::signature::{BufferRef, Signature, SignatureFlags};

/// Sorts by the internal order; `actions` are the actions from the highest precedence down.
pub(crate) fn sort(signatures: &mut [Signature], actions: &[Action; 4]) {
    let mut keyed: Vec<(Key, usize)> =
        signatures.iter().enumerate().map(|(at, s)| (key(s, actions), at)).collect();
    keyed.sort_unstable();
    let mut place = vec![0usize; keyed.len()];
    for (to, (_, from)) in keyed.iter().enumerate() {
        if let Some(slot) = place.get_mut(*from) {
            *slot = to;
        }
    }
    permute(signatures, &mut place);
}

/// Moves element `i` to `place[i]`, by swaps.
fn permute<T>(items: &mut [T], place: &mut [usize]) {
    for at in 0..items.len() {
        while place[at] != at {
            let to = place[at];
            items.swap(at, to);
            place.swap(at, to);
        }
    }
}

/// Rank by action, then by each kind of state in Suricata's order of comparisons.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Key {
    /// Firewall rules come first, as their files have them.
    firewall: (bool, u16, u32, bool),
    action: u8,
    flowbits: u8,
    flowint: u8,
    flowvar: u8,
    pktvar: u8,
    host: u8,
    pair: u8,
    priority: u32,
    sid: u32,
    gid: u32,
    original: bool,
}

/// Use of one kind of state.
#[derive(Default)]
struct Use {
    reads: bool,
    writes: bool,
}

impl Use {
    /// Writers, then rules that read and write, then readers, then the rest.
    fn rank(&self) -> u8 {
        match (self.reads, self.writes) {
            (false, true) => 0,
            (true, true) => 1,
            (true, false) => 2,
            (false, false) => 3,
        }
    }
}

fn key(s: &Signature, actions: &[Action; 4]) -> Key {
    let [mut flowbits, mut flowint, mut flowvar, mut pktvar, mut host, mut pair] =
        [(); 6].map(|()| Use::default());
    for p in s.packet.iter() {
        match p {
            PacketCondition::Flowbits(_) => flowbits.reads = true,
            PacketCondition::Flowint(_) => flowint.reads = true,
            PacketCondition::Variable(v) if v.of_packet => pktvar.reads = true,
            PacketCondition::Variable(_) => flowvar.reads = true,
            PacketCondition::Xbits(x) => match x.track {
                XbitsTrack::Source | XbitsTrack::Destination => host.reads = true,
                XbitsTrack::Pair => pair.reads = true,
                XbitsTrack::Transaction => {}
            },
            _ => {}
        }
    }
    for p in &s.post_match {
        match p {
            PostMatch::Flowbits { .. } => flowbits.writes = true,
            PostMatch::Flowint { .. } => flowint.writes = true,
            PostMatch::Hostbits { .. } => host.writes = true,
            PostMatch::Xbits { .. }
            | PostMatch::Tag(_)
            | PostMatch::Filestore { .. }
            | PostMatch::TlsStore
            | PostMatch::Config(_)
            | PostMatch::Bypass
            | PostMatch::NfqSetMark { .. }
            | PostMatch::Replace { .. } => {}
        }
    }
    // What is captured in other buffers changes no order.
    let payload = s.buffers.iter().filter(|b| b.buffer == BufferRef::Payload);
    for c in payload.flat_map(|b| b.conditions.iter()) {
        let BufferCondition::Pcre(p) = c else { continue };
        for capture in &p.captures {
            match capture.target {
                CaptureTarget::Flow => flowvar.writes = true,
                CaptureTarget::Packet => pktvar.writes = true,
                CaptureTarget::Alert => {}
            }
        }
    }
    let is_firewall = s.flags.has(SignatureFlags::FIREWALL);
    let firewall =
        if is_firewall { (false, s.file, s.line, s.header.swapped) } else { (true, 0, 0, false) };
    Key {
        firewall,
        action: action_rank(s.action, actions),
        flowbits: flowbits.rank(),
        flowint: flowint.rank(),
        flowvar: flowvar.rank(),
        pktvar: pktvar.rank(),
        host: host.rank(),
        pair: pair.rank(),
        priority: s.priority,
        sid: s.sid,
        gid: s.gid,
        original: !s.header.swapped,
    }
}

/// What is not among the ordered actions (`config`, `accept`) comes last.
fn action_rank(action: Action, actions: &[Action; 4]) -> u8 {
    let same = match action {
        Action::RejectDestination | Action::RejectBoth => Action::RejectSource,
        other => other,
    };
    let at = actions.iter().position(|a| *a == same);
    at.and_then(|at| u8::try_from(at).ok()).unwrap_or(u8::MAX)
}
