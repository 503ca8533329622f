//! Reassembles files that come in ranges over several flows (RFC 9110 14).
//!
//! A client that asks for a file in pieces, each over a connection of its own, shows no flow the
//! whole file. Pieces are kept by their file until no hole is left; the flow that
//! brings the last one gets the whole file as a further file of its transaction, which is inspected,
//! logged and stored as any other. Where pieces overlap, the first byte seen counts.

use crate::lapsing::Lapsing;
use crate::limits::RANGES_LOOKED_AT;
use gabion_proto::{FilePiece, registry};
use gabion_record::Tree;
use std::collections::BTreeMap;

/// The limits of memory and time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RangeOptions {
    /// Bytes of all pieces together (`app-layer.protocols.http.byterange.memcap`).
    pub memcap: u64,
    /// Nanoseconds after which a file that got no further piece is abandoned.
    pub timeout_ns: u64,
}

impl Default for RangeOptions {
    /// Suricata's defaults.
    fn default() -> RangeOptions {
        RangeOptions { memcap: 100 << 20, timeout_ns: 60_000_000_000 }
    }
}

impl RangeOptions {
    /// As configured.
    pub fn from_tree(config: &Tree) -> RangeOptions {
        let default = RangeOptions::default();
        let node = registry().iter().find_map(|protocol| {
            config.get(&format!("app-layer.protocols.{}.byterange", protocol.config_name))
        });
        let seconds = node.and_then(|n| n.number("timeout"));
        RangeOptions {
            memcap: node.and_then(|n| n.size("memcap")).unwrap_or(default.memcap),
            timeout_ns: seconds.map_or(default.timeout_ns, |s| s.saturating_mul(1_000_000_000)),
        }
    }
}

/// What a file is charged in addition to its bytes.
const FILE_COST: u64 = 256;
/// What a piece is charged in addition to its bytes.
const PIECE_COST: u64 = 64;

/// A file with some of its pieces.
#[derive(Debug, Default)]
struct Parts {
    size: u64,
    /// Bytes by their place, without overlaps.
    parts: BTreeMap<u64, Vec<u8>>,
    have: u64,
    cost: u64,
    last_ns: u64,
}

/// The outcome of adding a piece.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Joined {
    /// It is kept; the file still has holes.
    Kept,
    /// It was the last one: all bytes of the file.
    Whole(Vec<u8>),
    /// The budget does not allow it.
    Refused,
}

/// Files that are not complete yet.
#[derive(Debug, Default)]
pub(crate) struct Ranges {
    files: Lapsing<Vec<u8>, Parts>,
    used: u64,
}

impl Ranges {
    /// Adds a piece.
    pub(crate) fn add(&mut self, p: &FilePiece, now_ns: u64, o: &RangeOptions) -> Joined {
        let len = p.bytes.len() as u64;
        if len == 0 || p.start.checked_add(len).is_none_or(|end| end > p.whole) {
            return Joined::Refused;
        }
        let cost = len + FILE_COST + PIECE_COST + p.key.len() as u64;
        if self.used + cost > o.memcap {
            self.expire(now_ns, o);
        }
        let old = self.files.get(p.key.as_slice()).filter(|f| f.size == p.whole);
        let is_stale = old.is_none_or(|f| now_ns > f.last_ns.saturating_add(o.timeout_ns));
        if is_stale {
            self.forget(&p.key);
        }
        if self.used + cost > o.memcap {
            return Joined::Refused;
        }
        let cost = FILE_COST + p.key.len() as u64;
        let new = || Parts { size: p.whole, cost, ..Parts::default() };
        let file = self.files.entry(p.key.clone(), usize::MAX, |_| false, new);
        let Some((file, is_new)) = file else { return Joined::Refused };
        self.used += if is_new { cost } else { 0 };
        file.last_ns = now_ns;
        let added = file.insert(p.start, &p.bytes);
        self.used += added;
        if file.have < file.size {
            return Joined::Kept;
        }
        let whole = file.parts.values().flatten().copied().collect();
        self.forget(&p.key);
        Joined::Whole(whole)
    }

    /// Work done so far.
    #[cfg(test)]
    pub(crate) fn steps(&self) -> u64 {
        self.files.steps()
    }

    /// Bytes held.
    pub(crate) fn used(&self) -> u64 {
        self.used
    }

    fn forget(&mut self, key: &[u8]) {
        if let Some(f) = self.files.remove(key) {
            self.used = self.used.saturating_sub(f.cost);
        }
    }

    fn expire(&mut self, now_ns: u64, o: &RangeOptions) {
        let mut freed = 0;
        let is_over = |f: &Parts| now_ns > f.last_ns.saturating_add(o.timeout_ns);
        self.files.sweep(RANGES_LOOKED_AT, is_over, |f| freed += f.cost);
        self.used = self.used.saturating_sub(freed);
    }
}

impl Parts {
    /// Adds the bytes that are missing; returns their cost.
    fn insert(&mut self, start: u64, bytes: &[u8]) -> u64 {
        let end = start + bytes.len() as u64;
        let mut at = start;
        let mut cost = 0;
        if let Some((before, part)) = self.parts.range(..=at).next_back() {
            at = at.max(before + part.len() as u64);
        }
        while at < end {
            let next = self.parts.range(at..).next().map(|(n, part)| (*n, part.len() as u64));
            let until = next.map_or(end, |(n, _)| n.min(end));
            if let Some(fresh) = bytes.get((at - start) as usize..(until - start) as usize)
                && !fresh.is_empty()
            {
                cost += fresh.len() as u64 + PIECE_COST;
                self.have += fresh.len() as u64;
                self.parts.insert(at, fresh.to_vec());
            }
            at = next.map_or(end, |(n, len)| n + len);
        }
        self.cost += cost;
        cost
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn piece(start: u64, bytes: &[u8], whole: u64) -> FilePiece {
        FilePiece {
            tx: 0,
            key: b"host/file".to_vec(),
            name: b"/file".to_vec(),
            start,
            whole,
            bytes: bytes.to_vec(),
        }
    }

    const O: RangeOptions = RangeOptions { memcap: 4096, timeout_ns: 60 };

    #[test]
    fn pieces_come_in_any_order_and_overlap() {
        let text = b"a file in several ranges";
        let cuts: [&[(usize, usize)]; 4] = [
            &[(0, 24)],
            &[(10, 24), (0, 10)],
            &[(4, 8), (12, 16), (2, 20), (20, 24), (0, 6)],
            &[(0, 6), (0, 6), (5, 7), (6, 24)],
        ];
        for order in cuts {
            let mut r = Ranges::default();
            for (n, (from, to)) in order.iter().enumerate() {
                let joined = r.add(&piece(*from as u64, &text[*from..*to], 24), 1, &O);
                if n + 1 == order.len() {
                    assert_eq!(joined, Joined::Whole(text.to_vec()), "{order:?}")
                } else {
                    assert_eq!(joined, Joined::Kept, "{order:?}")
                }
            }
            assert_eq!((r.used(), r.files.len()), (0, 0));
        }
    }

    #[test]
    fn the_first_bytes_seen_count() {
        let mut r = Ranges::default();
        r.add(&piece(2, b"BB", 6), 1, &O);
        r.add(&piece(0, b"aaaa", 6), 1, &O);
        assert_eq!(r.add(&piece(3, b"ccc", 6), 1, &O), Joined::Whole(b"aaBBcc".to_vec()));
    }

    #[test]
    fn pieces_that_wait_too_long_or_do_not_fit_are_shed() {
        let mut r = Ranges::default();
        assert_eq!(r.add(&piece(5, b"too far", 10), 1, &O), Joined::Refused);
        assert_eq!(r.add(&piece(0, b"", 10), 1, &O), Joined::Refused);
        r.add(&piece(0, b"12345", 10), 1, &O);
        // Too late: the second half begins a new file.
        assert_eq!(r.add(&piece(5, b"67890", 10), 100, &O), Joined::Kept);
        // With another size it is another file.
        assert_eq!(r.add(&piece(0, b"12345", 11), 100, &O), Joined::Kept);
        for n in 0..100 {
            let p = FilePiece { key: vec![n; 9], ..piece(0, &[0; 100], 200) };
            r.add(&p, 101, &O);
            assert!(r.used() <= O.memcap);
        }
        let full = FilePiece { key: b"more".to_vec(), ..piece(0, &[0; 100], 200) };
        assert_eq!(r.add(&full, 101, &O), Joined::Refused);
        // Later the budget has space again.
        assert_eq!(r.add(&full, 1000, &O), Joined::Kept);
        assert_eq!(r.files.len(), 1);
    }
}
