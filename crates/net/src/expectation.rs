//! Flows that other flows announced and that have not begun yet.
//!
//! An announcement names two addresses, and for each a port or none. Waiting announcements are indexed by
//! what they name, so that a flow is compared only with the few that fit it, however many wait; the
//! oldest is taken first.

use crate::limits::{EXPECTATION_SECONDS, EXPECTATIONS_MAX, reached};
use foldhash::fast::RandomState;
use gabion_flow::Flow;
use gabion_proto::{Endpoints, Expectation};
use gabion_record::Addr;
use gabion_record::applayer::ProtoId;
use hashbrown::HashMap;
use std::collections::VecDeque;

/// What an announcement names: two addresses, and their ports if it has them.
type Named = (Addr, Option<u16>, Addr, Option<u16>);

/// One announced flow.
#[derive(Clone, Debug)]
struct Waiting {
    named: Named,
    proto: ProtoId,
    payload: Vec<u8>,
    announced_by: u64,
    until_ns: u64,
}

/// Announced flows, oldest first.
#[derive(Debug, Default)]
pub(crate) struct Expectations {
    /// Announcements that were met are left empty until they are the oldest.
    waiting: VecDeque<Option<Waiting>>,
    /// Number of the first of `waiting`.
    first: u64,
    /// Numbers of the announcements that name this, oldest first.
    named: HashMap<Named, VecDeque<u64>, RandomState>,
    /// Whether any ever named a port of the first address, of the second, both or none.
    shapes: [bool; 4],
    /// The number of waiting announcements.
    len: usize,
    steps: u64,
}

/// Which ports it names, as a number below four.
fn shape(named: &Named) -> usize {
    usize::from(named.1.is_some()) * 2 + usize::from(named.3.is_some())
}

impl Expectations {
    pub(crate) fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Work done so far: announcements inserted, looked up, removed. Tests bound it.
    #[cfg(test)]
    pub(crate) fn steps(&self) -> u64 {
        self.steps
    }

    /// Adds a flow's announcement.
    pub(crate) fn add<T>(&mut self, e: Expectation, of: &Flow<T>, ends: &Endpoints, now_ns: u64) {
        let at = gabion_proto::registry().iter().position(|p| p.table.name == e.proto);
        let Some(at) = at else { return };
        let b = e.address.unwrap_or(ends.server);
        self.put(Waiting {
            named: (ends.client, e.client_port, b, e.server_port),
            proto: ProtoId(at as u8 + 1),
            payload: e.payload,
            announced_by: of.id,
            until_ns: now_ns.saturating_add(EXPECTATION_SECONDS * 1_000_000_000),
        });
    }

    fn put(&mut self, w: Waiting) {
        self.steps += 1;
        if self.waiting.len() >= EXPECTATIONS_MAX {
            // An announcement that was already met is not counted as lost.
            if self.waiting.front().is_some_and(Option::is_some) {
                reached::EXPECTATIONS_MAX.count();
            }
            self.forget_oldest();
        }
        let number = self.first + self.waiting.len() as u64;
        self.shapes[shape(&w.named)] = true;
        self.named.entry(w.named).or_default().push_back(number);
        self.waiting.push_back(Some(w));
        self.len += 1;
    }

    /// Removes the oldest; it is the first of those that name the same.
    fn forget_oldest(&mut self) {
        self.steps += 1;
        let Some(oldest) = self.waiting.pop_front() else { return };
        self.first += 1;
        if let Some(w) = oldest {
            self.len -= 1;
            self.unname(&w.named);
        }
    }

    /// Removes the first announcement that names this.
    fn unname(&mut self, named: &Named) {
        if let Some(list) = self.named.get_mut(named) {
            list.pop_front();
            if list.is_empty() {
                self.named.remove(named);
            }
        }
    }

    /// Removes and returns the announcement of a new flow.
    pub(crate) fn take_expected(
        &mut self,
        src: (Addr, u16),
        dst: (Addr, u16),
        now_ns: u64,
    ) -> Option<(ProtoId, Vec<u8>, u64)> {
        let is_over = |w: &Option<Waiting>| w.as_ref().is_none_or(|w| w.until_ns < now_ns);
        while self.waiting.front().is_some_and(is_over) {
            self.forget_oldest();
        }
        if self.is_empty() {
            return None;
        }
        let mut oldest: Option<u64> = None;
        for (a, b) in [(src, dst), (dst, src)] {
            for which in (0..4).filter(|which| self.shapes[*which]) {
                self.steps += 1;
                let port = |bit: usize, port: u16| (which & bit != 0).then_some(port);
                let named = (a.0, port(2, a.1), b.0, port(1, b.1));
                let first = self.named.get(&named).and_then(|list| list.front().copied());
                oldest = oldest.into_iter().chain(first).min();
            }
        }
        let at = usize::try_from(oldest?.checked_sub(self.first)?).ok()?;
        let w = self.waiting.get_mut(at)?.take()?;
        self.len -= 1;
        self.unname(&w.named);
        Some((w.proto, w.payload, w.announced_by))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn waiting(named: Named, by: u64, until_ns: u64) -> Waiting {
        Waiting { named, proto: ProtoId(1), payload: Vec::new(), announced_by: by, until_ns }
    }

    /// Against a list that is walked.
    #[test]
    fn the_oldest_makes_room_and_is_counted() {
        let mut all = Expectations::default();
        let ends = [Addr::v4([10, 0, 0, 1]), Addr::v4([10, 0, 0, 2])];
        for n in 0..EXPECTATIONS_MAX as u64 + 3 {
            all.put(waiting((ends[0], None, ends[1], Some(n as u16)), n, 1));
        }
        assert_eq!(
            gabion_record::limits::take_reached().times_reached(&reached::EXPECTATIONS_MAX),
            3
        );
        assert_eq!(all.waiting.front().and_then(|w| w.as_ref().map(|w| w.announced_by)), Some(3));
    }

    #[test]
    fn the_oldest_that_fits_is_taken() {
        let mut table = Expectations::default();
        let mut model: Vec<Waiting> = Vec::new();
        let mut seed = 9_u64;
        let mut taken = 0;
        for now in 0..30_000_u64 {
            let mut random = |below: u64| {
                seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040);
                (seed >> 33) % below
            };
            let addr = |n: u64| Addr::v4([10, 0, 0, n as u8]);
            let (a, b) = (addr(random(3)), addr(random(3)));
            let (p, q) = (random(3) as u16, random(3) as u16);
            if random(2) == 0 {
                let some = |n: u64, port: u16| (n == 0).then_some(port);
                let named = (a, some(random(2), p), b, some(random(2), q));
                // Times do not go back, so later announcements last longer.
                let w = waiting(named, now, now + 20);
                table.put(w.clone());
                model.push(w);
            } else {
                model.retain(|w| w.until_ns >= now);
                let fits = |w: &Waiting, x: (Addr, u16), y: (Addr, u16)| {
                    let port = |want: Option<u16>, is: u16| want.is_none_or(|p| p == is);
                    w.named.0 == x.0
                        && w.named.2 == y.0
                        && port(w.named.1, x.1)
                        && port(w.named.3, y.1)
                };
                let (x, y) = ((a, p), (b, q));
                let at = model.iter().position(|w| fits(w, x, y) || fits(w, y, x));
                let want = at.map(|at| model.remove(at).announced_by);
                taken += u64::from(want.is_some());
                assert_eq!(table.take_expected(x, y, now).map(|t| t.2), want, "at {now}");
                assert_eq!(table.is_empty(), model.is_empty());
            }
        }
        assert!(taken > 1_000);
    }

    #[test]
    fn looking_costs_the_same_however_many_wait() {
        let (client, server) = (Addr::v4([10, 0, 0, 1]), Addr::v4([10, 0, 0, 2]));
        let mut table = Expectations::default();
        let all = 2 * EXPECTATIONS_MAX as u64;
        for n in 0..all {
            table.put(waiting((client, None, server, Some(n as u16)), n, 1));
        }
        let before = table.steps();
        assert!(before <= 2 * all);
        let stranger = Addr::v4([10, 0, 0, 3]);
        for n in 0..1_000 {
            assert!(table.take_expected((stranger, n), (server, 1), 0).is_none());
        }
        assert!(table.steps() - before <= 2_000);
        assert!(table.named.len() <= EXPECTATIONS_MAX && table.waiting.len() <= EXPECTATIONS_MAX);
        assert!(table.take_expected((client, 1), (server, 1), 2).is_none());
        assert!(table.is_empty() && table.named.is_empty());
    }
}
