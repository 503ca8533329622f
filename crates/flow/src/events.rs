//! The stream events of one packet. Their table is [`StreamEvent`]'s.

pub use gabion_record::StreamEvent;

/// The events of one packet, stored inline. Events beyond the capacity are dropped; see `limits`.
#[derive(Clone, Copy, Debug, Default)]
pub struct EventList {
    len: u8,
    ids: [u8; crate::limits::EVENTS_PER_PACKET],
}

impl EventList {
    /// Adds an event unless it is in the list.
    #[inline]
    pub fn push(&mut self, event: StreamEvent) {
        if self.contains(event) {
            return;
        }
        if let Some(slot) = self.ids.get_mut(usize::from(self.len)) {
            *slot = event.id();
            self.len += 1;
        } else {
            crate::limits::reached::EVENTS_PER_PACKET.count();
        }
    }

    /// Whether the event is in the list.
    pub fn contains(&self, event: StreamEvent) -> bool {
        self.iter().any(|e| e == event)
    }

    /// The events in the order in which they were found.
    pub fn iter(&self) -> impl Iterator<Item = StreamEvent> + '_ {
        self.ids
            .iter()
            .take(usize::from(self.len))
            .filter_map(|id| StreamEvent::ALL.get(usize::from(*id)).copied())
    }

    /// Whether the list has no event.
    #[inline]
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_holds_each_event_once_and_never_overflows() {
        let mut list = EventList::default();
        for event in StreamEvent::ALL.iter().chain(StreamEvent::ALL) {
            list.push(*event);
        }
        assert_eq!(list.iter().count(), crate::limits::EVENTS_PER_PACKET);
        assert!(list.contains(StreamEvent::HsAckInWrongDir));
        let counts = gabion_record::limits::take_reached();
        assert!(counts.times_reached(&crate::limits::reached::EVENTS_PER_PACKET) > 0);
    }
}
