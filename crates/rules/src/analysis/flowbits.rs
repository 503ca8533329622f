//! Rules that set, clear and ask flowbits: bits that are asked but never set are mistakes, and readers
//! on packets that depend on writers on transactions are inspected after those.

use crate::packet::PacketCondition;
use crate::post::{BitCommand, PostMatch};
use crate::ruleset::Ruleset;
use crate::signature::{RuleType, Signature};

/// Use of one flowbit: indexes of signatures, in internal order.
#[derive(Clone, Debug, Default)]
pub struct BitUse {
    /// `set`
    pub set: Vec<u32>,
    /// `unset`
    pub unset: Vec<u32>,
    /// `toggle`
    pub toggle: Vec<u32>,
    /// `isset`
    pub isset: Vec<u32>,
    /// `isnotset`
    pub isnotset: Vec<u32>,
}

/// Use of all flowbits; position is the bit's number.
#[derive(Clone, Debug, Default)]
pub struct Flowbits {
    /// The bits.
    pub bits: Vec<BitUse>,
}

/// A bit that rules ask for and none sets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NeverSet {
    /// Number in [`Ruleset::flowbits`].
    pub bit: u32,
    /// Id of the first rule that asks.
    pub sid: u32,
    /// How many more ask.
    pub others: usize,
}

impl Flowbits {
    /// Collects the use of flowbits in a set.
    pub fn from_ruleset(set: &Ruleset) -> Flowbits {
        let mut bits = vec![BitUse::default(); set.flowbits.len()];
        for s in &set.signatures {
            for p in s.packet.iter() {
                if let PacketCondition::Flowbits(test) = p {
                    for bit in &test.bits {
                        let Some(b) = bits.get_mut(*bit as usize) else { continue };
                        if test.isset { &mut b.isset } else { &mut b.isnotset }.push(s.index);
                    }
                }
            }
            for p in &s.post_match {
                if let PostMatch::Flowbits { bit, command } = p {
                    let Some(b) = bits.get_mut(*bit as usize) else { continue };
                    match command {
                        BitCommand::Set => b.set.push(s.index),
                        BitCommand::Unset => b.unset.push(s.index),
                        BitCommand::Toggle => b.toggle.push(s.index),
                    }
                }
            }
        }
        Flowbits { bits }
    }

    /// Bits that are asked for but never set or toggled, in order of their numbers.
    pub fn never_set(&self, set: &Ruleset) -> Vec<NeverSet> {
        let mut out = Vec::new();
        for (bit, used) in (0u32..).zip(&self.bits) {
            if !used.set.is_empty() || !used.toggle.is_empty() || used.isset.is_empty() {
                continue;
            }
            let sid = used.isset.first().and_then(|i| set.signatures.get(*i as usize));
            out.push(NeverSet { bit, sid: sid.map_or(0, |s| s.sid), others: used.isset.len() - 1 });
        }
        out
    }

    /// Suricata's warning about such a bit.
    pub fn warning(set: &Ruleset, n: &NeverSet) -> String {
        format!(
            "flowbit '{}' is checked but not set. Checked in {} and {} other sigs",
            set.flowbits.get(n.bit),
            n.sid,
            n.others
        )
    }

    /// For a rule that asks for bits and is not on transactions itself: ids of the rules that set
    /// those bits which no rule on transactions asks for and some rule on transactions sets, and the
    /// names of these bits; both in the order of the bits, empty when there is none. Such a rule is
    /// inspected after the transactions.
    pub fn dependencies(&self, set: &Ruleset, s: &Signature) -> (Vec<u32>, Vec<String>) {
        let mut bits: Vec<u32> = Vec::new();
        if s.kind != RuleType::AppTx {
            for p in s.packet.iter() {
                let PacketCondition::Flowbits(test) = p else { continue };
                let waiting =
                    test.bits.iter().filter(|b| test.isset && self.waits_for_tx(set, **b));
                bits.extend(waiting);
            }
        }
        bits.sort_unstable();
        bits.dedup();
        let mut sids = Vec::new();
        for bit in &bits {
            for index in self.bits.get(*bit as usize).map_or(&[][..], |b| &b.set) {
                let sid = set.signatures.get(*index as usize).map_or(0, |s| s.sid);
                if !sids.contains(&sid) {
                    sids.push(sid);
                }
            }
        }
        let names = bits.iter().map(|b| set.flowbits.get(*b).to_string()).collect();
        (sids, names)
    }

    /// Set by a rule on transactions, asked for only by others.
    fn waits_for_tx(&self, set: &Ruleset, bit: u32) -> bool {
        let Some(used) = self.bits.get(bit as usize) else { return false };
        let on_tx = |index: &u32| {
            set.signatures.get(*index as usize).is_some_and(|s| s.kind == RuleType::AppTx)
        };
        used.set.iter().any(on_tx) && !used.isset.iter().any(on_tx)
    }
}
