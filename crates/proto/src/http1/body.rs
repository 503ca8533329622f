//! A message body as rules inspect it: in windows, while it passes.
//!
//! A body is first examined when enough of it is there (or it has ended), then each time more
//! comes, with some of what was seen before in front, so that patterns across the border are
//! found. Bytes that no window can reach any more are released.

use super::limits::UNREAD_BODY_BYTES_MAX;
use super::settings::BodyLimits;
use crate::{Buffer, Inspect};
use std::cell::Cell;

/// A body, decoded.
#[derive(Clone, Debug, Default)]
pub(crate) struct Body {
    /// What came of it: many messages have none.
    taken: Option<Box<Taken>>,
    /// Which readers asked before any of it came.
    early: [Cell<bool>; READERS],
}

/// What came of a body.
#[derive(Clone, Debug, Default)]
struct Taken {
    kept: Vec<u8>,
    /// Position of the first byte kept.
    start: u64,
    /// Bytes so far, up to the limit.
    total: u64,
    /// The limit that held for the last piece; 0: none.
    limit: u64,
    /// The limit was reached: nothing more is taken.
    is_cut: bool,
    /// How far each reader has come: `u64::MAX` for one that never asked.
    readers: [Cell<u64>; READERS],
}

/// Buffers over one body that may be read at their own pace.
pub(crate) const READERS: usize = 2;

impl Taken {
    /// Nothing yet, of a body that these readers have asked for.
    fn new(early: [bool; READERS]) -> Taken {
        let readers = early.map(|has_asked| Cell::new(if has_asked { 0 } else { u64::MAX }));
        Taken { readers, ..Taken::default() }
    }

    /// Empties it and keeps the memory.
    fn clear(&mut self) {
        let mut kept = std::mem::take(&mut self.kept);
        kept.clear();
        *self = Taken { kept, ..Taken::new([false; READERS]) };
    }

    /// Releases what no window will reach.
    fn prune(&mut self, limits: &BodyLimits) {
        let read = self.readers.iter().map(Cell::get).filter(|r| *r != u64::MAX).min();
        let keep_from = match read {
            Some(inspected) if inspected > limits.inspect_min => {
                inspected.saturating_sub(limits.window)
            }
            Some(_) => return,
            None => self.total.saturating_sub(UNREAD_BODY_BYTES_MAX as u64),
        };
        let n = usize::try_from(keep_from.saturating_sub(self.start)).unwrap_or(usize::MAX);
        let n = n.min(self.kept.len());
        // Moving memory each time would be quadratic: wait until it is worth it.
        if n > self.kept.len() / 2 {
            self.kept.drain(..n);
            self.start += n as u64;
        }
    }
}

impl Body {
    /// Empties it and keeps the memory.
    pub(crate) fn clear(&mut self) {
        self.early = Default::default();
        if let Some(taken) = &mut self.taken {
            taken.clear();
        }
    }

    /// Bytes taken so far.
    pub(crate) fn total(&self) -> u64 {
        self.taken.as_ref().map_or(0, |taken| taken.total)
    }

    /// There was more than the limit.
    pub(crate) fn is_cut(&self) -> bool {
        self.taken.as_ref().is_some_and(|taken| taken.is_cut)
    }

    /// Bytes that may still be taken of `len` more.
    pub(crate) fn room(&self, len: usize, limits: &BodyLimits) -> usize {
        if limits.limit == 0 {
            return len;
        }
        let left = limits.limit.saturating_sub(self.total());
        usize::try_from(left).unwrap_or(usize::MAX).min(len)
    }

    /// Appends what there is space for and returns its length.
    pub(crate) fn append(&mut self, bytes: &[u8], limits: &BodyLimits) -> usize {
        let n = self.room(bytes.len(), limits);
        let early = self.early.each_ref().map(Cell::get);
        let taken = self.taken.get_or_insert_with(|| Box::new(Taken::new(early)));
        taken.limit = limits.limit;
        taken.is_cut |= n < bytes.len();
        taken.prune(limits);
        taken.kept.extend_from_slice(&bytes[..n]);
        taken.total += n as u64;
        n
    }

    /// What is kept, for logs.
    pub(crate) fn kept(&self) -> &[u8] {
        self.taken.as_ref().map_or(&[], |taken| &taken.kept)
    }

    /// Bytes held.
    pub(crate) fn bytes_held(&self) -> usize {
        self.taken.as_ref().map_or(0, |taken| size_of::<Taken>() + taken.kept.capacity())
    }

    /// The window due for `reader`, if any.
    pub(crate) fn window(
        &self,
        reader: usize,
        how: Inspect,
        is_over: bool,
        limits: &BodyLimits,
    ) -> Option<Buffer<'_>> {
        let Some(taken) = &self.taken else {
            if let Some(has_asked) = self.early.get(reader) {
                has_asked.set(true);
            }
            return None;
        };
        if let Some(r) = taken.readers.get(reader) {
            r.set(how.inspected);
        }
        let (total, limit) = (taken.total, taken.limit);
        let at_limit = taken.is_cut || (limit != 0 && total >= limit);
        let is_complete = is_over || how.at_end || at_limit;
        let is_inline = limits.inline.unwrap_or(how.inline);
        if total == 0 || (how.inspected >= total && !is_complete) {
            return None;
        }
        if !is_inline && !is_complete && total < limits.inspect_min {
            return None;
        }
        let from = window_start(how.inspected, total, limits).max(taken.start);
        let skip = usize::try_from(from - taken.start).unwrap_or(usize::MAX);
        let data = taken.kept.get(skip..).unwrap_or_default();
        Some(Buffer { data, start: from, is_complete })
    }
}

/// Where the window over new bytes begins: `window` bytes at least, a quarter of it before them.
pub(crate) fn window_start(inspected: u64, total: u64, limits: &BodyLimits) -> u64 {
    if inspected <= limits.inspect_min {
        return 0;
    }
    let new = total.saturating_sub(inspected);
    if new < limits.window {
        inspected.saturating_sub(limits.window - new)
    } else {
        inspected.saturating_sub(limits.window / 4)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: BodyLimits =
        BodyLimits { limit: 1000, inspect_min: 100, window: 40, inline: Some(false) };

    /// The windows of Suricata (documented in its user guide): first at the least size, then with
    /// the window's size around what is new, at the limit whatever is there.
    #[test]
    fn windows_follow_the_body() {
        let mut b = Body::default();
        let how = |inspected| Inspect { inspected, ..Inspect::default() };
        b.append(&[b'a'; 60], &LIMITS);
        assert_eq!(b.window(0, how(0), false, &LIMITS), None);
        b.append(&[b'b'; 60], &LIMITS);
        let w = b.window(0, how(0), false, &LIMITS).unwrap();
        assert_eq!((w.start, w.data.len(), w.is_complete), (0, 120, false));
        assert_eq!(b.window(0, how(120), false, &LIMITS), None);
        b.append(&[b'c'; 10], &LIMITS);
        let w = b.window(0, how(120), false, &LIMITS).unwrap();
        assert_eq!((w.start, w.data.len()), (90, 40));
        b.append(&[b'd'; 100], &LIMITS);
        let w = b.window(0, how(130), false, &LIMITS).unwrap();
        assert_eq!((w.start, w.data.len()), (120, 110));
        assert_eq!(b.append(&[b'e'; 900], &LIMITS), 770);
        let w = b.window(0, how(230), false, &LIMITS).unwrap();
        assert_eq!((w.start + w.data.len() as u64, w.is_complete), (1000, true));
        assert_eq!(b.total(), 1000);
    }

    #[test]
    fn an_unlimited_body_nobody_reads_stays_small() {
        let unlimited = BodyLimits { limit: 0, ..LIMITS };
        let mut b = Body::default();
        for _ in 0..100 {
            b.append(&[0; 64 * 1024], &unlimited);
        }
        assert!(b.kept().len() <= 3 * UNREAD_BODY_BYTES_MAX);
        assert_eq!(b.total(), 6_553_600);
    }
}
