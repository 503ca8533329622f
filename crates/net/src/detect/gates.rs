//! Conditions that many rules share, evaluated once per transaction.
//!
//! Thousands of rules want `POST` as the method or no `Referer` in the headers. Traffic made to hit
//! fast patterns makes all of them candidates, and each would evaluate the condition again, after
//! fetching its parts from memory. The most frequent of these conditions of a protocol and direction get
//! a number here (a gate); a rule has its gates in one word. The result of a gate is kept while a transaction's
//! candidates are looked at, so a rule with a shut gate costs a few instructions.
//!
//! Only independent conditions are gates: one `content` with fixed place in a buffer that does not
//! grow and has no transforms. They are necessary for their rule, so a shut gate never hides a match;
//! they are evaluated once their buffer's state is over, when the result cannot change any more.

use super::buffer_facts::BufferFacts;
use super::by_rule::ByRule;
use crate::limits::GATES_MAX;
use foldhash::fast::FixedState;
use gabion_record::Direction;
use gabion_record::applayer::ProtoId;
use gabion_rules::compiled::buffer::{BufferCondition, ChainId, Content, ContentFlags, Operand};
use gabion_rules::compiled::{BufferInspection, BufferRef, Engine, EngineRun, TxTest};
use gabion_rules::{Ruleset, Signature};
use std::collections::HashMap;
use std::hash::BuildHasher;

/// Rules that must share a condition before it is worth a gate.
const SHARED_MIN: u32 = 8;

/// One shared condition.
#[derive(Clone, Debug)]
pub(crate) struct Gate {
    /// The protocol's number of the buffer.
    pub(crate) local: u16,
    /// State whose end settles the buffer.
    pub(crate) progress: u8,
    /// The buffer may have several instances.
    pub(crate) multi: bool,
    /// A rule that has the condition.
    pub(crate) sig: u32,
    /// The condition without its rule.
    pub(crate) condition: BufferCondition,
}

/// The gates of one protocol and direction.
#[derive(Debug, Default)]
pub(crate) struct Gates {
    list: Vec<Gate>,
    /// The gates of each rule that has any.
    of_rule: ByRule<u64>,
}

/// The known results of the gates for the current transaction.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Answers {
    known: u64,
    shut: u64,
}

impl Gates {
    /// Whether a gate of the rule is shut. `ask` evaluates one gate; `None`: not decided yet.
    #[inline]
    pub(crate) fn refuse(
        &self,
        sig: u32,
        answers: &mut Answers,
        mut ask: impl FnMut(&Gate) -> Option<bool>,
    ) -> bool {
        let Some(&wanted) = self.of_rule.get(sig) else { return false };
        if wanted & answers.shut != 0 {
            return true;
        }
        let mut unknown = wanted & !answers.known;
        while unknown != 0 {
            let bit = unknown & unknown.wrapping_neg();
            unknown &= !bit;
            let Some(gate) = self.list.get(bit.trailing_zeros() as usize) else { break };
            match ask(gate) {
                Some(true) => answers.known |= bit,
                Some(false) => {
                    answers.known |= bit;
                    answers.shut |= bit;
                    return true;
                }
                None => {}
            }
        }
        false
    }

    /// Bytes held.
    pub(crate) fn memory_bytes(&self) -> usize {
        self.of_rule.memory_bytes() + self.list.capacity() * size_of::<Gate>()
    }
}

/// What makes two conditions the same.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
struct Key<'s> {
    local: u16,
    progress: u8,
    flags: u16,
    offset: Option<i32>,
    depth: Option<i32>,
    bytes: &'s [u8],
}

/// Properties of a content that its outcome depends on.
const DECIDING_FLAGS: u16 = ContentFlags::NOCASE.0
    | ContentFlags::NEGATED.0
    | ContentFlags::STARTS_WITH.0
    | ContentFlags::ENDS_WITH.0;

fn fixed(operand: Option<Operand<i32>>) -> Result<Option<i32>, ()> {
    match operand {
        None => Ok(None),
        Some(Operand::Number(n)) => Ok(Some(n)),
        Some(Operand::Variable(_)) => Err(()),
    }
}

/// Whether the rule's conditions may change something even if the rule does not match in the end: then
/// all are evaluated in the order written.
fn has_side_effects(s: &Signature) -> bool {
    let by_buffer = s
        .buffers
        .iter()
        .flat_map(|b| &b.conditions)
        .any(|c| matches!(c, BufferCondition::Dataset(_) | BufferCondition::Lua { .. }));
    by_buffer || s.tx.iter().any(|t| matches!(t.test, TxTest::Lua { .. }))
}

/// Calls `each` for every inspection of the rule that may be judged apart from the rest: of a buffer
/// that does not grow, has no transforms and must be there.
pub(crate) fn each_inspection<'s>(
    s: &'s Signature,
    facts: &[BufferFacts],
    mut each: impl FnMut(&Engine, &'s BufferInspection, BufferFacts),
) {
    if s.inert.is_some() || s.firewall.is_some() || has_side_effects(s) {
        return;
    }
    for e in s.engines.iter().filter(|e| e.proto != ProtoId::UNKNOWN) {
        let EngineRun::Buffer(b) = e.run else { continue };
        let Some(b) = s.buffers.get(usize::from(b)) else { continue };
        let BufferRef::App(id) = b.buffer else { continue };
        let Some(fact) = facts.get(usize::from(id.0)) else { continue };
        let may_be_absent =
            b.conditions.iter().any(|c| matches!(c, BufferCondition::Absent { .. }));
        if b.chain == ChainId::NONE && !fact.streaming && !may_be_absent {
            each(e, b, *fact);
        }
    }
}

/// Whether the content must be found and is not known to be, as the rule's fast pattern is.
pub(crate) fn is_wanted(c: &Content) -> bool {
    !c.is_negated() && !c.flags.has(ContentFlags::IS_FAST_PATTERN)
}

/// Calls `each` for every condition of the rule that could be a gate, with protocol and direction.
fn each_condition<'s>(
    s: &'s Signature,
    facts: &[BufferFacts],
    mut each: impl FnMut((ProtoId, Direction), Key<'s>, &'s Content, bool),
) {
    each_inspection(s, facts, |e, b, fact| {
        for c in &b.conditions {
            let BufferCondition::Content(c) = c else { continue };
            if c.is_relative() || !(c.is_negated() || is_wanted(c)) {
                continue;
            }
            let (Ok(offset), Ok(depth)) = (fixed(c.offset), fixed(c.depth)) else { continue };
            let (local, progress, flags) = (e.local, e.progress, c.flags.0 & DECIDING_FLAGS);
            let key = Key { local, progress, flags, offset, depth, bytes: &c.bytes };
            each((e.proto, e.direction), key, c, fact.multi);
        }
    });
}

/// The gates of a rule set, by protocol and direction.
pub(crate) fn collect(
    set: &Ruleset,
    facts: &[BufferFacts],
) -> HashMap<(ProtoId, Direction), Gates, FixedState> {
    // Most conditions are of one rule alone: they are counted by a hash first, which takes less memory.
    let mut frequent: HashMap<u64, u32, FixedState> = HashMap::default();
    let hasher = FixedState::default();
    for s in &set.signatures {
        each_condition(s, facts, |(proto, direction), key, _, _| {
            *frequent.entry(hasher.hash_one((proto, direction, key))).or_default() += 1;
        });
    }
    frequent.retain(|_, times| *times >= SHARED_MIN);
    let mut shared: HashMap<(ProtoId, Direction, Key<'_>), u32, FixedState> = HashMap::default();
    for s in &set.signatures {
        each_condition(s, facts, |(proto, direction), key, _, _| {
            let name = (proto, direction, key);
            if frequent.contains_key(&hasher.hash_one(&name)) {
                *shared.entry(name).or_default() += 1;
            }
        });
    }
    drop(frequent);
    shared.retain(|_, times| *times >= SHARED_MIN);
    let mut ranked: Vec<_> = shared.into_iter().collect();
    ranked.sort_unstable_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
    let mut numbers: HashMap<(ProtoId, Direction, Key<'_>), u32, FixedState> = HashMap::default();
    let mut taken: HashMap<(ProtoId, Direction), u32, FixedState> = HashMap::default();
    for (name, _) in ranked {
        let next = taken.entry((name.0, name.1)).or_default();
        if (*next as usize) < GATES_MAX {
            numbers.insert(name, *next);
            *next += 1;
        }
    }
    /// Gates of rules in their order.
    type OfRule = Vec<(u32, u64)>;
    let mut of_rules: HashMap<(ProtoId, Direction), OfRule, FixedState> = HashMap::default();
    let mut found: Vec<((ProtoId, Direction), u32, Gate)> = Vec::new();
    for s in &set.signatures {
        each_condition(s, facts, |place, key, content, multi| {
            let (local, progress) = (key.local, key.progress);
            let Some(&number) = numbers.get(&(place.0, place.1, key)) else { return };
            let bit = 1u64.checked_shl(number).unwrap_or(0);
            let of_rule = of_rules.entry(place).or_default();
            match of_rule.last_mut() {
                Some((rule, gates)) if *rule == s.index => *gates |= bit,
                _ => of_rule.push((s.index, bit)),
            }
            if !found.iter().any(|(p, n, _)| *p == place && *n == number) {
                let flags = ContentFlags(content.flags.0 & DECIDING_FLAGS);
                let condition = BufferCondition::Content(Content { flags, ..content.clone() });
                found.push((
                    place,
                    number,
                    Gate { local, progress, multi, sig: s.index, condition },
                ));
            }
        });
    }
    found.sort_by_key(|(_, number, _)| *number);
    let of_rules = of_rules.into_iter();
    let mut all: HashMap<(ProtoId, Direction), Gates, FixedState> = of_rules
        .map(|(place, of_rule)| {
            let list = Vec::with_capacity(taken.get(&place).map_or(0, |times| *times as usize));
            (place, Gates { list, of_rule: ByRule::new(of_rule) })
        })
        .collect();
    for (place, _, gate) in found {
        if let Some(gates) = all.get_mut(&place) {
            gates.list.push(gate);
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gates(of_rule: &[u64], number: usize) -> Gates {
        let gate = |local| Gate {
            local,
            progress: 0,
            multi: false,
            sig: 0,
            condition: BufferCondition::Content(Content::default()),
        };
        let of_rule = ByRule::new((0..).zip(of_rule.iter().copied()).collect());
        Gates { list: (0..number as u16).map(gate).collect(), of_rule }
    }

    #[test]
    fn each_gate_is_asked_once_and_a_shut_one_refuses_all_its_rules() {
        let gates = gates(&[0b001, 0b011, 0b110, 0], 3);
        let (mut answers, mut asked) = (Answers::default(), Vec::new());
        let mut refuse = |sig| {
            gates.refuse(sig, &mut answers, |g| {
                asked.push(g.local);
                Some(g.local != 1)
            })
        };
        assert_eq!([0, 1, 2, 3, 9].map(&mut refuse), [false, true, true, false, false]);
        assert_eq!(asked, [0, 1]);
    }

    #[test]
    fn what_is_not_settled_refuses_nothing_and_is_asked_again() {
        let gates = gates(&[1, 1], 1);
        let (mut answers, mut asked) = (Answers::default(), 0);
        for (answer, refused) in [(None, false), (None, false), (Some(false), true)] {
            let got = gates.refuse(0, &mut answers, |_| {
                asked += 1;
                answer
            });
            assert_eq!(got, refused);
        }
        assert!(gates.refuse(1, &mut answers, |_| unreachable!()));
        assert_eq!(asked, 3);
    }
}
