//! The pieces of one datagram and who wins where fragments overlap.

use crate::policy::OsPolicy;

#[derive(Debug)]
struct Piece {
    start: u32,
    bytes: Vec<u8>,
}

impl Piece {
    fn end(&self) -> u32 {
        self.start + self.bytes.len() as u32
    }
}

/// Who keeps the bytes where old and new overlap.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Winner {
    /// The old fragment keeps the overlap.
    Old,
    /// The new one takes it.
    New,
    /// The new fragment is dropped as a whole.
    NewDropped,
}

/// Pieces in order, without overlaps.
#[derive(Debug, Default)]
pub(super) struct Pieces {
    list: Vec<Piece>,
}

impl Pieces {
    /// Puts a fragment in. True when it overlapped.
    pub(super) fn insert(&mut self, offset: u32, bytes: &[u8], policy: OsPolicy) -> bool {
        let end = offset + bytes.len() as u32;
        let first = self.list.partition_point(|p| p.end() <= offset);
        let last = self.list.partition_point(|p| p.start < end);
        if first >= last {
            self.list.insert(first, Piece { start: offset, bytes: bytes.to_vec() });
            return false;
        }
        // What is left of the new fragment, as ranges that do not overlap winners.
        let mut left = vec![(offset, end)];
        let mut replaced: Vec<(u32, u32)> = Vec::new();
        for old in &self.list[first..last] {
            let span = (old.start, old.end());
            match winner(policy, span, (offset, end)) {
                Winner::NewDropped => return true,
                Winner::Old => cut(&mut left, span),
                Winner::New => replaced.push((span.0.max(offset), span.1.min(end))),
            }
        }
        for range in replaced {
            self.erase(range);
        }
        for (a, b) in left {
            let from = (a - offset) as usize;
            let Some(part) = bytes.get(from..(b - offset) as usize) else { continue };
            let at = self.list.partition_point(|p| p.start < a);
            self.list.insert(at, Piece { start: a, bytes: part.to_vec() });
        }
        true
    }

    /// Whether everything from 0 to `end` is there.
    pub(super) fn covers(&self, end: u32) -> bool {
        let mut next = 0;
        for p in &self.list {
            if p.start > next {
                return false;
            }
            next = p.end();
            if next >= end {
                return true;
            }
        }
        next >= end
    }

    /// Appends the bytes from 0 to `end`.
    pub(super) fn copy_to(&self, out: &mut Vec<u8>, end: u32) {
        for p in self.list.iter().take_while(|p| p.start < end) {
            let len = (end - p.start).min(p.bytes.len() as u32) as usize;
            out.extend_from_slice(&p.bytes[..len]);
        }
    }

    /// Takes a range out of the pieces; a piece may fall in two.
    fn erase(&mut self, (a, b): (u32, u32)) {
        let mut at = self.list.partition_point(|p| p.end() <= a);
        while let Some(p) = self.list.get_mut(at).filter(|p| p.start < b) {
            let (start, end) = (p.start, p.end());
            let tail = (end > b).then(|| Piece {
                start: b,
                bytes: p
                    .bytes
                    .get((b - start).min(end - start) as usize..)
                    .unwrap_or_default()
                    .to_vec(),
            });
            if start < a {
                p.bytes.truncate((a - start) as usize);
                at += 1;
            } else {
                self.list.remove(at);
            }
            if let Some(tail) = tail {
                self.list.insert(at, tail);
                at += 1;
            }
        }
    }
}

/// Removes a span from ranges.
fn cut(ranges: &mut Vec<(u32, u32)>, span: (u32, u32)) {
    let mut rest = Vec::with_capacity(ranges.len() + 1);
    for (a, b) in ranges.drain(..) {
        if a < span.0.min(b) {
            rest.push((a, span.0.min(b)));
        }
        if span.1.max(a) < b {
            rest.push((span.1.max(a), b));
        }
    }
    *ranges = rest;
}

/// The peer's outcome for old A at [a0, a1) and new B at [b0, b1), which overlap.
fn winner(policy: OsPolicy, (a0, a1): (u32, u32), (b0, b1): (u32, u32)) -> Winner {
    use OsPolicy as P;
    let old_unless = |new: bool| if new { Winner::New } else { Winner::Old };
    match policy {
        P::First => Winner::Old,
        P::Last => Winner::New,
        P::Bsd | P::Hpux10 | P::Irix | P::Macos => old_unless(b0 < a0),
        P::BsdRight => old_unless(b0 >= a0),
        P::Linux | P::OldLinux => old_unless(b0 <= a0),
        P::Windows | P::Vista | P::Windows2k3 => {
            if b0 >= a0 && b1 <= a1 {
                Winner::NewDropped
            } else {
                old_unless(b0 < a0 && b1 > a1)
            }
        }
        P::Solaris | P::OldSolaris | P::Hpux11 => {
            if b0 >= a0 && b1 <= a1 {
                Winner::NewDropped
            } else {
                old_unless(b0 < a0 && b1 >= a1)
            }
        }
    }
}
