//! The interfaces of an association, by the numbers (contexts) that calls name them by.
//!
//! As in Suricata 8.0.7 an offer replaces what its number stood for at once, and the decisions of an
//! answer go to all interfaces that binds of its call offered, by their places in their binds.

use super::limits::reached;
use super::pdu::{Ack, Interface};
use std::collections::HashMap;

/// An interface, and the bind that offered it.
#[derive(Clone, Copy, Debug)]
struct Offered {
    interface: Interface,
    /// Call of the bind.
    call_id: u32,
    /// Place in the bind.
    place: usize,
}

/// The contexts of an association.
#[derive(Clone, Debug, Default)]
pub struct Contexts {
    /// In the order of their first offers.
    all: Vec<Offered>,
    /// Places in `all` by the numbers of contexts.
    by_number: HashMap<u16, usize>,
}

impl Contexts {
    /// A bind or alter_context of this call offers these.
    pub fn offer(&mut self, call_id: u32, offers: &[Interface]) {
        for (place, interface) in offers.iter().enumerate() {
            let offered = Offered { interface: *interface, call_id, place };
            let number = interface.context_id;
            let known = self.by_number.get(&number).and_then(|at| self.all.get_mut(*at));
            if let Some(known) = known {
                *known = offered;
            } else if reached::CONTEXTS_MAX.has_room(self.all.len()) {
                self.by_number.insert(number, self.all.len());
                self.all.push(offered);
            }
        }
    }

    /// The answer to a bind or alter_context of this call decides.
    pub fn decide(&mut self, call_id: u32, acks: &[Ack]) {
        for offered in self.all.iter_mut().filter(|o| o.call_id == call_id) {
            if let Some(ack) = acks.get(offered.place) {
                offered.interface.ack = Some(*ack);
            }
        }
    }

    /// The interface that a number stands for.
    pub fn find(&self, context_id: u16) -> Option<&Interface> {
        let at = self.by_number.get(&context_id)?;
        self.all.get(*at).map(|offered| &offered.interface)
    }

    /// What the binds of a call offered, as far as nothing took its place since.
    pub fn offered_by(&self, call_id: u32) -> impl Iterator<Item = &Interface> {
        self.all.iter().filter(move |o| o.call_id == call_id).map(|o| &o.interface)
    }

    /// Bytes held.
    pub fn bytes_held(&self) -> usize {
        self.all.capacity() * size_of::<Offered>()
            + self.by_number.capacity() * size_of::<(u16, usize)>()
    }
}

#[cfg(test)]
mod tests {
    use super::super::limits::CONTEXTS_MAX;
    use super::super::uuid::Uuid;
    use super::*;

    fn interface(context_id: u16, of: u8) -> Interface {
        let uuid = Uuid([of; 16]);
        Interface { context_id, uuid, version: (1, 0), is_of_first_fragment: true, ack: None }
    }

    /// Each case as a run of Suricata 8.0.7 logs it.
    #[test]
    fn numbers_stand_for_what_was_offered_last() {
        let mut contexts = Contexts::default();
        let (yes, no) = (Ack { result: 0, reason: 0 }, Ack { result: 2, reason: 1 });
        let found = |contexts: &Contexts, id| {
            contexts.find(id).map(|i| (i.uuid.0[0], i.ack.map(|ack| ack.result)))
        };
        contexts.offer(1, &[interface(0, 1), interface(1, 2), interface(2, 3)]);
        contexts.decide(1, &[yes, no]);
        let expected = [Some((1, Some(0))), Some((2, Some(2))), Some((3, None)), None];
        assert_eq!([0, 1, 2, 3].map(|id| found(&contexts, id)), expected);
        // An offer takes the place at once; the answer to another call decides nothing.
        contexts.offer(2, &[interface(1, 4), interface(0, 5)]);
        contexts.decide(3, &[yes, yes]);
        assert_eq!([0, 1].map(|id| found(&contexts, id)), [Some((5, None)), Some((4, None))]);
        // Two binds of one call share the decisions.
        contexts.offer(2, &[interface(7, 6)]);
        contexts.decide(2, &[no]);
        assert_eq!([1, 7].map(|id| found(&contexts, id)), [Some((4, Some(2))), Some((6, Some(2)))]);
        assert_eq!(contexts.offered_by(2).count(), 3);
        assert_eq!(contexts.offered_by(1).count(), 1);
    }

    #[test]
    fn contexts_are_bounded() {
        let mut contexts = Contexts::default();
        for id in 0..CONTEXTS_MAX as u16 + 3 {
            contexts.offer(id.into(), &[interface(id, 1)]);
        }
        assert_eq!(contexts.all.len(), CONTEXTS_MAX);
        assert_eq!(contexts.find(CONTEXTS_MAX as u16), None);
        assert_eq!(gabion_record::limits::take_reached().times_reached(&reached::CONTEXTS_MAX), 3);
        assert!(contexts.bytes_held() < 4 * CONTEXTS_MAX * size_of::<Offered>());
    }
}
