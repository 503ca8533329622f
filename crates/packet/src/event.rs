//! The decoder events of one packet. Their table is [`DecoderEvent`]'s.

use crate::limits::{MAX_EVENTS, reached};
use gabion_record::DecoderEvent;

/// The events of one packet in the order in which they were raised; an event may occur twice.
#[derive(Clone, Copy, Debug)]
pub struct EventList {
    events: [DecoderEvent; MAX_EVENTS],
    count: u8,
    lost: u8,
}

impl EventList {
    /// A list without events.
    pub const fn new() -> EventList {
        EventList { events: [DecoderEvent::TooManyLayers; MAX_EVENTS], count: 0, lost: 0 }
    }

    /// Empties the list.
    #[inline]
    pub fn clear(&mut self) {
        self.count = 0;
        self.lost = 0;
    }

    /// Appends an event; a full list counts it in [`EventList::lost`].
    #[inline]
    pub fn push(&mut self, event: DecoderEvent) {
        match self.events.get_mut(usize::from(self.count)) {
            Some(place) => {
                *place = event;
                self.count += 1;
            }
            None => {
                self.lost = self.lost.saturating_add(1);
                reached::MAX_EVENTS.count();
            }
        }
    }

    /// The events kept.
    #[inline]
    pub fn as_slice(&self) -> &[DecoderEvent] {
        self.events.get(..usize::from(self.count)).unwrap_or(&[])
    }

    /// Whether nothing was raised.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Whether this event was raised.
    #[inline]
    pub fn contains(&self, event: DecoderEvent) -> bool {
        self.count != 0 && self.as_slice().contains(&event)
    }

    /// Events that were raised while the list was full.
    pub fn lost(&self) -> u8 {
        self.lost
    }
}

impl Default for EventList {
    fn default() -> EventList {
        EventList::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_list_counts_what_it_loses() {
        let mut list = EventList::new();
        for _ in 0..MAX_EVENTS + 3 {
            list.push(DecoderEvent::Ipv4OptInvalid);
        }
        assert_eq!(list.as_slice().len(), MAX_EVENTS);
        assert_eq!(list.lost(), 3);
        assert_eq!(gabion_record::limits::take_reached().times_reached(&reached::MAX_EVENTS), 3);
        assert!(list.contains(DecoderEvent::Ipv4OptInvalid));
        list.clear();
        assert!(list.is_empty() && !list.contains(DecoderEvent::Ipv4OptInvalid));
    }
}
