//! What a side of a stream has sent.

use super::frame::kind;
use super::hpack::HeaderList;
use super::limits::reached;
use super::views::Views;
use crate::files::FileList;
use crate::http1::decoder::Decoder;
use std::cell::OnceCell;

/// How the data of a direction is taken.
#[derive(Debug, Default)]
pub(crate) enum BodyState {
    /// None came.
    #[default]
    NotBegun,
    /// As it is.
    Plain,
    /// It is unpacked.
    Packed(Box<Decoder>),
}

impl BodyState {
    /// Bytes held.
    fn bytes_held(&self) -> usize {
        match self {
            BodyState::NotBegun | BodyState::Plain => 0,
            BodyState::Packed(decoder) => decoder.bytes_held(),
        }
    }
}

/// What a side of a stream has sent.
#[derive(Debug, Default)]
pub(crate) struct Side {
    /// Its fields; `None` until a frame brought some.
    pub(crate) headers: Option<Box<HeaderList>>,
    /// Kinds of its frames, one bit each.
    pub(crate) kinds: [u64; 4],
    /// How many frames there were.
    pub(crate) frames: u64,
    pub(crate) settings: Option<Vec<(u16, u32)>>,
    pub(crate) priority: Option<u8>,
    /// The first error with its frame's kind.
    pub(crate) error: Option<(u32, u8)>,
    /// The member of its record that came more than once.
    pub(crate) has_multiple: Option<&'static str>,
    pub(crate) windows: Vec<u32>,
    /// Errors and weights after the first, for rules.
    pub(crate) more: Vec<(u8, u32)>,
    pub(crate) files: FileList,
    pub(crate) body: BodyState,
    /// Made when one of them is first asked for: of most sides that have not answered none is.
    views: OnceCell<Box<Views>>,
}

impl Side {
    /// What is made of its fields when a rule asks.
    pub(crate) fn views(&self) -> &Views {
        self.views.get_or_init(Box::default)
    }

    /// Its fields have grown, or were inspected: views are made again.
    pub(crate) fn forget_views(&mut self) {
        self.views = OnceCell::new();
    }

    /// The first value of a field.
    pub(crate) fn header(&self, name: &[u8]) -> Option<&[u8]> {
        self.headers.as_ref()?.first(name)
    }

    /// Whether a frame of that kind came.
    pub(crate) fn has_kind(&self, kind: u8) -> bool {
        self.kinds.get(usize::from(kind / 64)).is_some_and(|bits| bits >> (kind % 64) & 1 != 0)
    }

    /// Notes a frame's kind.
    pub(crate) fn note_kind(&mut self, kind: u8) {
        if let Some(bits) = self.kinds.get_mut(usize::from(kind / 64)) {
            *bits |= 1 << (kind % 64);
        }
    }

    /// Notes an error.
    pub(crate) fn note_error(&mut self, code: u32, kind: u8) {
        if self.error.is_none() {
            self.error = Some((code, kind));
            return;
        }
        self.has_multiple = Some("error_code");
        if reached::WINDOWS_MAX.has_room(self.more.len()) {
            self.more.push((kind, code));
        }
    }

    /// Notes the weight of a priority.
    pub(crate) fn note_priority(&mut self, weight: u8) {
        if self.priority.is_none() {
            self.priority = Some(weight);
            return;
        }
        self.has_multiple = Some("priority");
        if reached::WINDOWS_MAX.has_room(self.more.len()) {
            self.more.push((kind::PRIORITY, weight.into()));
        }
    }

    /// Notes settings.
    pub(crate) fn note_settings(&mut self, settings: impl Iterator<Item = (u16, u32)>) {
        if self.settings.is_some() {
            self.has_multiple = Some("settings");
        }
        let list = self.settings.get_or_insert_default();
        for pair in settings {
            if !reached::SETTINGS_MAX.has_room(list.len()) {
                break;
            }
            list.push(pair);
        }
    }

    /// Notes a window update.
    pub(crate) fn note_window(&mut self, size: u32) {
        if !self.windows.contains(&size) && reached::WINDOWS_MAX.has_room(self.windows.len()) {
            self.windows.push(size);
        }
    }

    /// Whether there is anything to log of it but its fields.
    pub(crate) fn has_members(&self) -> bool {
        let has_settings = self.settings.as_ref().is_some_and(|all| !all.is_empty());
        has_settings || self.priority.is_some() || self.error.is_some()
    }

    pub(crate) fn bytes_held(&self) -> usize {
        let headers = self.headers.as_ref().map_or(0, |list| list.bytes_held());
        let settings = self.settings.as_ref().map_or(0, Vec::capacity) * 8;
        headers
            + settings
            + self.windows.capacity() * 4
            + self.files.bytes_held()
            + self.body.bytes_held()
            + self.views.get().map_or(0, |views| views.bytes_held())
    }
}

#[cfg(test)]
mod tests {
    use super::super::limits::{SETTINGS_MAX, WINDOWS_MAX};
    use super::*;

    /// What a side says over and over takes no more than the limits.
    #[test]
    fn what_is_kept_is_bounded() {
        let mut side = Side::default();
        side.note_settings((0..SETTINGS_MAX as u32 + 5).map(|n| (1, n)));
        (0..WINDOWS_MAX as u32 + 5).for_each(|n| side.note_window(n));
        (0..WINDOWS_MAX as u32 + 5).for_each(|n| side.note_error(n, kind::RST_STREAM));
        (0..9).for_each(|n| side.note_priority(n));
        assert_eq!(side.settings.as_ref().map(Vec::len), Some(SETTINGS_MAX));
        assert_eq!((side.windows.len(), side.more.len()), (WINDOWS_MAX, WINDOWS_MAX));
        let counts = gabion_record::limits::take_reached();
        assert_eq!(counts.times_reached(&reached::SETTINGS_MAX), 1);
        assert!(counts.times_reached(&reached::WINDOWS_MAX) > 0);
    }
}
