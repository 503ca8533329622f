//! The fragments of one datagram, and which of them wins where they overlap.
//!
//! Fragments are kept whole, in order of their offset, each with a count of bytes at its front that
//! were overridden by another. A new fragment is compared with those before it, and the policy of
//! the receiving host resolves the first conflicts; the rest is resolved by order: the datagram is
//! laid out by offset, later fragments over earlier ones, and ends with the first fragment that
//! says it is the last. Suricata works this way, as sets of more than two overlapping fragments
//! show; the rules were compared with Suricata on random sets of fragments for every policy.

use crate::policy::OsPolicy;

#[derive(Debug)]
struct Piece {
    start: u32,
    bytes: Vec<u8>,
    /// Bytes at the front that were overridden.
    cut: u32,
    is_last: bool,
}

impl Piece {
    fn end(&self) -> u32 {
        self.start + self.bytes.len() as u32
    }

    /// Where the remaining bytes start.
    fn from(&self) -> u32 {
        self.start + self.cut
    }
}

/// How a policy resolves conflicts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Family {
    /// The earlier fragment wins wherever it starts before or at the new one's start.
    Bsd,
    /// Only the order of offsets decides.
    Right,
    /// The earlier fragment wins if it starts before the new one.
    Linux,
    /// Whole fragments win: a fragment inside another is dropped, one around another replaces it.
    Windows,
    /// As `Windows`, and a replaced fragment may end where the new one ends.
    Solaris,
    /// The earlier fragment wins.
    First,
}

fn family(policy: OsPolicy) -> Family {
    use OsPolicy as P;
    match policy {
        P::Bsd | P::Hpux10 | P::Irix => Family::Bsd,
        P::BsdRight | P::Last => Family::Right,
        P::Linux | P::OldLinux => Family::Linux,
        P::Windows | P::Vista | P::Windows2k3 => Family::Windows,
        P::Solaris => Family::Solaris,
        P::First | P::OldSolaris | P::Hpux11 | P::Macos => Family::First,
    }
}

/// The fragments, in order of offset.
#[derive(Debug, Default)]
pub(super) struct Pieces {
    list: Vec<Piece>,
}

impl Pieces {
    /// Inserts a fragment. Returns true if it overlapped another.
    pub(super) fn insert(
        &mut self,
        offset: u32,
        bytes: &[u8],
        is_last: bool,
        policy: OsPolicy,
    ) -> bool {
        let bytes = bytes.to_vec();
        let mut new = Piece { start: offset, bytes, cut: 0, is_last };
        if self.list.last().is_none_or(|p| p.end() <= offset) {
            self.list.push(new);
            return false;
        }
        let (overlap, keep) = self.resolve_conflicts(&mut new, family(policy));
        if keep && new.cut < new.bytes.len() as u32 {
            let at = self.list.partition_point(|p| p.from() <= new.from());
            self.list.insert(at, new);
        }
        overlap
    }

    /// Resolves conflicts with the fragments before it, up to the first that trims the new one.
    /// Returns whether there were any, and whether the new one stays.
    fn resolve_conflicts(&mut self, new: &mut Piece, family: Family) -> (bool, bool) {
        let (mut overlap, mut moved) = (false, false);
        let mut at = 0;
        while let Some(old) = self.list.get_mut(at) {
            if old.from() >= new.end() {
                break;
            }
            if old.end() <= new.start {
                at += 1;
                continue;
            }
            overlap = true;
            match conflict(family, old, new) {
                Outcome::NewGoes => return (true, false),
                Outcome::OldGoes => {
                    self.list.remove(at);
                }
                Outcome::OldCut => {
                    old.cut = old.cut.max(new.end() - old.start);
                    moved = true;
                    at += 1;
                }
                Outcome::NewCut => {
                    new.cut = new.cut.max(old.end() - new.start);
                    break;
                }
                Outcome::Both => at += 1,
            }
        }
        if moved {
            self.list.sort_by_key(Piece::from);
        }
        (overlap, true)
    }

    /// Whether all bytes up to the end of the last fragment are present.
    pub(super) fn is_complete(&self) -> bool {
        let mut next = 0;
        for p in &self.list {
            if p.from() > next {
                return false;
            }
            next = next.max(p.end());
            if p.is_last {
                return true;
            }
        }
        false
    }

    /// Appends the datagram's payload.
    pub(super) fn lay_out(&self, out: &mut Vec<u8>) {
        let base = out.len();
        for p in &self.list {
            let from = base + p.from() as usize;
            let bytes = p.bytes.get(p.cut as usize..).unwrap_or_default();
            if out.len() < from + bytes.len() {
                out.resize(from + bytes.len(), 0);
            }
            if let Some(to) = out.get_mut(from..from + bytes.len()) {
                to.copy_from_slice(bytes);
            }
            if p.is_last {
                out.truncate(base + p.end() as usize);
                break;
            }
        }
    }
}

enum Outcome {
    NewGoes,
    NewCut,
    OldGoes,
    OldCut,
    /// Undecided: the order of offsets decides.
    Both,
}

fn conflict(family: Family, old: &Piece, new: &Piece) -> Outcome {
    use std::cmp::Ordering::{Equal, Greater, Less};
    let covers = new.end() >= old.end();
    let beyond = new.end() > old.end();
    let inside = new.start >= old.from() && new.end() <= old.end();
    match (family, new.start.cmp(&old.from())) {
        (Family::First | Family::Windows, _) if inside => Outcome::NewGoes,
        (Family::Bsd | Family::Solaris, Less) if covers => Outcome::OldGoes,
        (Family::Linux | Family::Windows, Less) if beyond => Outcome::OldGoes,
        (Family::Linux | Family::Right, Equal) if covers => Outcome::OldGoes,
        (Family::Bsd | Family::Linux, Less) => Outcome::OldCut,
        (Family::Linux | Family::Right, Equal) => Outcome::OldCut,
        (Family::Windows | Family::Solaris | Family::First | Family::Right, Less) => Outcome::Both,
        (Family::Right, Greater) => Outcome::Both,
        (
            Family::Bsd | Family::Linux | Family::Windows | Family::Solaris | Family::First,
            Equal | Greater,
        ) => Outcome::NewCut,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Nine overlaps of a new fragment B with an earlier A of units 3..6, and which of them keeps
    /// the shared units, as measured with Suricata 8.0.7 for each policy of `host-os-policy`.
    #[test]
    fn nine_overlaps_for_every_policy() {
        use OsPolicy as P;
        const A: (u32, u32) = (3, 6);
        const B: [(u32, u32); 9] =
            [(3, 5), (3, 6), (3, 8), (1, 5), (1, 6), (1, 8), (4, 5), (4, 6), (4, 8)];
        let rows: [(&[P], &str); 6] = [
            (&[P::Bsd, P::Hpux10, P::Irix], "A A A B B B A A A"),
            (&[P::BsdRight], "B B B A A A B B B"),
            (&[P::Linux, P::OldLinux], "B B B B B B A A A"),
            (&[P::Solaris], "A A A A B B A A A"),
            (&[P::Windows, P::Vista, P::Windows2k3], "A A A A A B A A A"),
            (&[P::First, P::Macos, P::OldSolaris, P::Hpux11], "A A A A A A A A A"),
        ];
        for (policies, row) in rows {
            for (b, winner) in B.into_iter().zip(row.split(' ')) {
                for policy in policies {
                    let mut pieces = Pieces::default();
                    let units = |(from, to): (u32, u32)| (to - from) as usize * 8;
                    assert!(!pieces.insert(A.0 * 8, &vec![b'A'; units(A)], false, *policy));
                    assert!(pieces.insert(b.0 * 8, &vec![b'B'; units(b)], false, *policy));
                    // The units that neither covers, the end marked as the last.
                    let (from, to) = (A.0.min(b.0), A.1.max(b.1));
                    pieces.insert(0, &vec![b'.'; units((0, from))], false, *policy);
                    pieces.insert(to * 8, &vec![b'.'; units((to, 10))], true, *policy);
                    assert!(pieces.is_complete(), "{policy:?} {b:?}");
                    let mut out = Vec::new();
                    pieces.lay_out(&mut out);
                    assert_eq!(out.len(), 80);
                    let shared = A.0.max(b.0) as usize * 8..A.1.min(b.1) as usize * 8;
                    let want = winner.as_bytes()[0];
                    assert!(out[shared].iter().all(|x| *x == want), "{policy:?} {b:?}");
                }
            }
        }
    }

    #[test]
    fn fragments_without_overlaps_may_arrive_in_any_order() {
        let bytes: Vec<u8> = (0..120_u8).collect();
        let ranges = [(0, 24), (24, 48), (48, 56), (56, 96), (96, 120)];
        let mut seed = 9_u64;
        for _ in 0..200 {
            let mut order = ranges;
            for at in (1..order.len()).rev() {
                seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                order.swap(at, (seed >> 33) as usize % (at + 1));
            }
            let mut pieces = Pieces::default();
            for (n, (a, b)) in order.into_iter().enumerate() {
                assert!(!pieces.is_complete());
                let overlap = pieces.insert(a as u32, &bytes[a..b], b == 120, OsPolicy::Bsd);
                assert!(!overlap);
                assert_eq!(pieces.is_complete(), n + 1 == ranges.len());
            }
            let mut out = Vec::new();
            pieces.lay_out(&mut out);
            assert_eq!(out, bytes);
        }
    }
}
