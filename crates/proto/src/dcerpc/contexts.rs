//! The interfaces of an association: those that were offered and accepted, by the numbers that calls
//! name them by.

use super::limits::reached;
use super::pdu::{Ack, Interface};
use std::collections::VecDeque;

/// The contexts of an association.
#[derive(Clone, Debug, Default)]
pub struct Contexts {
    /// Offered and not decided yet.
    offered: Vec<Interface>,
    /// Decided, oldest first, each number once.
    decided: VecDeque<Interface>,
}

impl Contexts {
    /// A bind or alter_context offers these.
    pub fn offer(&mut self, offers: &[Interface]) {
        self.offered = offers.to_vec();
    }

    /// The answer to the last offer decides in its order. Returns what was offered, with the decisions.
    pub fn decide(&mut self, acks: &[Ack]) -> Vec<Interface> {
        let mut offered = std::mem::take(&mut self.offered);
        for (interface, ack) in offered.iter_mut().zip(acks) {
            interface.ack = Some(*ack);
            self.add(*interface);
        }
        offered
    }

    fn add(&mut self, interface: Interface) {
        let number = interface.context_id;
        if let Some(known) = self.decided.iter_mut().find(|known| known.context_id == number) {
            // A number that was refused does not take an accepted one's place.
            if interface.is_accepted() || !known.is_accepted() {
                *known = interface;
            }
            return;
        }
        if !reached::CONTEXTS_MAX.has_room(self.decided.len()) {
            self.decided.pop_front();
        }
        self.decided.push_back(interface);
    }

    /// The interface that a number stands for, decided or offered.
    pub fn find(&self, context_id: u16) -> Option<&Interface> {
        let is_it = |i: &&Interface| i.context_id == context_id;
        self.decided.iter().find(is_it).or_else(|| self.offered.iter().find(is_it))
    }

    /// All that were decided, oldest first.
    pub fn decided(&self) -> impl Iterator<Item = &Interface> {
        self.decided.iter()
    }

    /// Bytes held.
    pub fn bytes_held(&self) -> usize {
        (self.offered.capacity() + self.decided.capacity()) * size_of::<Interface>()
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

    #[test]
    fn numbers_stand_for_what_was_accepted_last() {
        let mut contexts = Contexts::default();
        let (yes, no) = (Ack { result: 0, reason: 0 }, Ack { result: 2, reason: 1 });
        contexts.offer(&[interface(0, 1), interface(1, 2), interface(2, 3)]);
        assert_eq!(contexts.find(0).map(|i| i.ack), Some(None));
        assert_eq!(contexts.decide(&[yes, no]).len(), 3);
        assert_eq!(contexts.decided().count(), 2);
        let found =
            |contexts: &Contexts, id| contexts.find(id).map(|i| (i.uuid.0[0], i.is_accepted()));
        assert_eq!(
            [0, 1, 2].map(|id| found(&contexts, id)),
            [Some((1, true)), Some((2, false)), None]
        );
        contexts.offer(&[interface(0, 4), interface(1, 5)]);
        contexts.decide(&[no, yes]);
        assert_eq!([0, 1].map(|id| found(&contexts, id)), [Some((1, true)), Some((5, true))]);
    }

    #[test]
    fn contexts_are_bounded() {
        let mut contexts = Contexts::default();
        for id in 0..CONTEXTS_MAX as u16 + 3 {
            contexts.offer(&[interface(id, 1)]);
            contexts.decide(&[Ack { result: 0, reason: 0 }]);
        }
        assert_eq!(contexts.decided().count(), CONTEXTS_MAX);
        assert_eq!(contexts.find(2), None);
        assert_eq!(gabion_record::limits::take().of(&reached::CONTEXTS_MAX), 3);
        assert!(contexts.bytes_held() < 4 * CONTEXTS_MAX * size_of::<Interface>());
    }
}
