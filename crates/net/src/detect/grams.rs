//! What a rule requires of a buffer besides its fast pattern, in a few bits.
//!
//! The fast pattern of a candidate was found, but usually another of its contents is missing. Three bytes of
//! such a content (a gram) are looked up in the set of all grams of the buffer, which is made once per
//! transaction as a small bitmap: if a gram is not in it, its content can't be either, and the rule is not
//! inspected. A gram that is there by chance costs the inspection that would have been made anyway.
//!
//! Bitmaps are made only where many rules are candidates, so that common traffic does not pay for them.

use super::buffer_facts::BufferFacts;
use super::by_rule::ByRule;
use super::gates;
use crate::limits::GRAM_BYTES_MAX;
use foldhash::fast::FixedState;
use gabion_record::Direction;
use gabion_record::applayer::ProtoId;
use gabion_rules::Ruleset;
use gabion_rules::compiled::buffer::BufferCondition;
use std::collections::HashMap;

/// Buffers of a protocol and direction with grams.
const SLOTS: usize = 8;
/// Grams kept of a rule.
const PER_RULE: usize = 4;
/// Bits of a gram's hash, and of the bitmap's size.
const HASH_BITS: u32 = 13;
/// 64-bit words of a bitmap: 1 KiB.
const WORDS: usize = 1 << (HASH_BITS - 6);
/// Candidates of a transaction from which bitmaps pay.
pub(crate) const CANDIDATES_MIN: usize = 8;
// A longer buffer's bitmap would be too full to exclude anything.
const _: () = assert!(GRAM_BYTES_MAX == 1 << (HASH_BITS - 1));

/// No gram: a slot that does not exist is never looked up.
const NONE: u16 = u16::MAX;

/// The grams of the rules of one protocol and direction.
#[derive(Debug, Default)]
pub(crate) struct RuleGrams {
    /// The protocol's number of each slot's buffer, and the state whose end settles it.
    slots: Vec<(u16, u8)>,
    /// Of each rule that has any: slot in the upper three bits, hash in the lower 13.
    of_rule: ByRule<[u16; PER_RULE]>,
}

/// Bitmaps of the buffers of the current transaction.
#[derive(Debug, Default)]
pub(crate) struct Bitmaps {
    /// Slots whose bitmap is made or can't be had, and those that can't refuse.
    known: u8,
    open: u8,
    words: Vec<[u64; WORDS]>,
}

impl Bitmaps {
    /// Forgets the transaction before.
    pub(crate) fn clear(&mut self) {
        (self.known, self.open) = (0, 0);
    }

    fn make(&mut self, slot: usize, bytes: Option<&[u8]>) {
        self.known |= 1 << slot;
        if bytes.is_some_and(|b| b.len() > GRAM_BYTES_MAX) {
            self.open |= 1 << slot;
            return;
        }
        if self.words.is_empty() {
            self.words.resize(SLOTS, [0; WORDS]);
        }
        let Some(map) = self.words.get_mut(slot) else { return };
        map.fill(0);
        let mut last = 0u32;
        for (at, byte) in bytes.unwrap_or_default().iter().enumerate() {
            last = (last << 8 | u32::from(byte.to_ascii_lowercase())) & 0x00ff_ffff;
            if at >= 2 {
                let hash = hash(last);
                map[usize::from(hash >> 6) % WORDS] |= 1 << (hash & 63);
            }
        }
    }

    fn holds(&self, slot: usize, hash: u16) -> bool {
        self.open & (1 << slot) != 0
            || self
                .words
                .get(slot)
                .is_none_or(|map| map[usize::from(hash >> 6) % WORDS] & (1 << (hash & 63)) != 0)
    }
}

/// Hash of three folded bytes.
#[inline]
fn hash(gram: u32) -> u16 {
    (gram.wrapping_mul(0x9e37_79b1) >> (32 - HASH_BITS)) as u16
}

impl RuleGrams {
    /// Whether a gram of the rule is missing. `bytes` calls back with a buffer's bytes (none: it is
    /// not there), or answers false when its state lasts.
    #[inline]
    pub(crate) fn refuse(
        &self,
        sig: u32,
        maps: &mut Bitmaps,
        mut bytes: impl FnMut(u16, u8, &mut dyn FnMut(Option<&[u8]>)) -> bool,
    ) -> bool {
        let Some(grams) = self.of_rule.get(sig) else { return false };
        for gram in grams {
            if *gram == NONE {
                break;
            }
            let slot = usize::from(gram >> HASH_BITS);
            if maps.known & (1 << slot) == 0 {
                let Some(&(local, progress)) = self.slots.get(slot) else { continue };
                if !bytes(local, progress, &mut |b| maps.make(slot, b)) {
                    continue;
                }
            }
            if !maps.holds(slot, gram & ((1 << HASH_BITS) - 1)) {
                return true;
            }
        }
        false
    }

    /// Bytes held.
    pub(crate) fn memory_bytes(&self) -> usize {
        self.of_rule.memory_bytes()
    }
}

/// A place rules inspect: protocol, direction, the protocol's number of the buffer, its progress.
type Place = (ProtoId, Direction, u16, u8);

/// The grams of a rule set, by protocol and direction.
pub(crate) fn collect(
    set: &Ruleset,
    facts: &[BufferFacts],
) -> HashMap<(ProtoId, Direction), RuleGrams, FixedState> {
    let mut used: HashMap<Place, u32, FixedState> = HashMap::default();
    for s in &set.signatures {
        gates::each_inspection(s, facts, |e, b, fact| {
            if !fact.multi && b.conditions.iter().any(|c| grams_of(c).next().is_some()) {
                *used.entry((e.proto, e.direction, e.local, e.progress)).or_default() += 1;
            }
        });
    }
    let mut ranked: Vec<_> = used.into_iter().collect();
    ranked.sort_unstable_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
    let mut all: HashMap<(ProtoId, Direction), RuleGrams, FixedState> = HashMap::default();
    for ((proto, direction, local, progress), _) in ranked {
        let grams = all.entry((proto, direction)).or_default();
        if grams.slots.len() < SLOTS {
            grams.slots.push((local, progress));
        }
    }
    /// Grams of rules in their order.
    type OfRule = Vec<(u32, [u16; PER_RULE])>;
    let mut of_rules: HashMap<(ProtoId, Direction), OfRule, FixedState> = HashMap::default();
    for s in &set.signatures {
        gates::each_inspection(s, facts, |e, b, _| {
            let Some(grams) = all.get(&(e.proto, e.direction)) else { return };
            let place = grams.slots.iter().position(|p| *p == (e.local, e.progress));
            let Some(slot) = place else { return };
            let mut found = b.conditions.iter().flat_map(grams_of).peekable();
            if found.peek().is_none() {
                return;
            }
            let of_rule = of_rules.entry((e.proto, e.direction)).or_default();
            if of_rule.last().is_none_or(|(rule, _)| *rule != s.index) {
                of_rule.push((s.index, [NONE; PER_RULE]));
            }
            let Some((_, kept)) = of_rule.last_mut() else { return };
            for (free, hash) in kept.iter_mut().filter(|g| **g == NONE).zip(found) {
                *free = (slot as u16) << HASH_BITS | hash;
            }
        });
    }
    for (place, of_rule) in of_rules {
        if let Some(grams) = all.get_mut(&place) {
            grams.of_rule = ByRule::new(of_rule);
        }
    }
    all
}

/// Grams that must be in the buffer: of each content that is not its rule's fast pattern, the
/// last and the one in the middle.
fn grams_of(c: &BufferCondition) -> impl Iterator<Item = u16> {
    let bytes = c.content().filter(|c| gates::is_wanted(c)).map_or(&[][..], |c| &c.bytes[..]);
    let last = bytes.len().checked_sub(3);
    let middle = last.filter(|l| *l > 1).map(|l| l / 2);
    [last, middle].into_iter().flatten().map(move |at| {
        let gram =
            bytes[at..at + 3].iter().fold(0u32, |g, b| g << 8 | u32::from(b.to_ascii_lowercase()));
        hash(gram)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn grams(text: &[u8]) -> Vec<u16> {
        text.windows(3)
            .map(|w| hash(w.iter().fold(0, |g, b| g << 8 | u32::from(b.to_ascii_lowercase()))))
            .collect()
    }

    #[test]
    fn a_bitmap_holds_every_gram_of_its_bytes_whatever_their_case() {
        let mut maps = Bitmaps::default();
        maps.make(3, Some(b"GET /Index.html"));
        for gram in grams(b"get /iNDEX.HTML") {
            assert!(maps.holds(3, gram));
        }
        let missing = grams(b"0123456789abcdefghijklmnopqrstuvwxyz");
        let by_chance = missing.iter().filter(|g| maps.holds(3, **g)).count();
        assert!(by_chance <= 2, "{by_chance} of {}", missing.len());
    }

    #[test]
    fn a_rule_is_refused_only_when_a_gram_is_missing() {
        let want = |text: &[u8]| {
            let mut kept = [NONE; PER_RULE];
            for (slot, gram) in kept.iter_mut().zip(grams(text)) {
                *slot = gram;
            }
            kept
        };
        let rules = RuleGrams {
            slots: vec![(7, 1)],
            of_rule: ByRule::new(vec![(0, want(b"ind")), (1, want(b"zzz")), (2, [NONE; PER_RULE])]),
        };
        let long = vec![b'a'; GRAM_BYTES_MAX + 1];
        for (bytes, settled, refused) in [
            (Some(&b"/index"[..]), true, [false, true, false, false]),
            (Some(&b"/index"[..]), false, [false; 4]),
            (None, true, [true, true, false, false]),
            (Some(&long[..]), true, [false; 4]),
        ] {
            let mut maps = Bitmaps::default();
            let got = [0, 1, 2, 9].map(|sig| {
                rules.refuse(sig, &mut maps, |local, progress, take| {
                    assert_eq!((local, progress), (7, 1));
                    if settled {
                        take(bytes);
                    }
                    settled
                })
            });
            assert_eq!(got, refused, "{bytes:?} {settled}");
        }
    }
}
