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
    /// How many frames there were.
    pub(crate) frames: u64,
    /// Kinds of its frames that the standard names, one bit each.
    kinds: u16,
    /// What few sides send.
    extras: Option<Box<Extras>>,
    pub(crate) files: FileList,
    pub(crate) body: BodyState,
    has_body: bool,
    /// Made when one of them is first asked for: of most sides that have not answered none is.
    views: OnceCell<Box<Views>>,
}

/// What few sides of a stream send: a client may open thousands of streams, so it takes room where it came only.
#[derive(Debug, Default)]
struct Extras {
    /// All kinds of frames, one bit each.
    kinds: [u64; 4],
    settings: Option<Vec<(u16, u32)>>,
    priority: Option<u8>,
    /// The first error with its frame's kind.
    error: Option<(u32, u8)>,
    /// The member of its record that came more than once.
    has_multiple: Option<&'static str>,
    windows: Vec<u32>,
    /// Errors and weights after the first, for rules.
    more: Vec<(u8, u32)>,
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

    /// Notes that data came. True: it is the first.
    pub(crate) fn begin_body(&mut self) -> bool {
        !std::mem::replace(&mut self.has_body, true)
    }

    fn extras_mut(&mut self) -> &mut Extras {
        self.extras.get_or_insert_default()
    }

    /// Whether a frame of that kind came.
    pub(crate) fn has_kind(&self, kind: u8) -> bool {
        let bits = self.extras.as_ref().and_then(|e| e.kinds.get(usize::from(kind / 64)));
        match 1_u16.checked_shl(kind.into()) {
            Some(bit) => self.kinds & bit != 0,
            None => bits.is_some_and(|bits| bits >> (kind % 64) & 1 != 0),
        }
    }

    /// Notes a frame's kind.
    pub(crate) fn note_kind(&mut self, kind: u8) {
        match 1_u16.checked_shl(kind.into()) {
            Some(bit) => self.kinds |= bit,
            None => {
                if let Some(bits) = self.extras_mut().kinds.get_mut(usize::from(kind / 64)) {
                    *bits |= 1 << (kind % 64);
                }
            }
        }
    }

    /// Its settings, if frames brought some.
    pub(crate) fn settings(&self) -> Option<&[(u16, u32)]> {
        self.extras.as_ref()?.settings.as_deref()
    }

    /// The first weight of a priority.
    pub(crate) fn priority(&self) -> Option<u8> {
        self.extras.as_ref()?.priority
    }

    /// The first error with its frame's kind.
    pub(crate) fn error(&self) -> Option<(u32, u8)> {
        self.extras.as_ref()?.error
    }

    /// The member of its record that came more than once.
    pub(crate) fn has_multiple(&self) -> Option<&'static str> {
        self.extras.as_ref()?.has_multiple
    }

    /// Sizes of window updates, each once.
    pub(crate) fn windows(&self) -> &[u32] {
        self.extras.as_ref().map_or(&[], |e| &e.windows)
    }

    /// Errors and weights after the first, with the kind of their frame.
    pub(crate) fn more(&self) -> &[(u8, u32)] {
        self.extras.as_ref().map_or(&[], |e| &e.more)
    }

    /// Notes an error.
    pub(crate) fn note_error(&mut self, code: u32, kind: u8) {
        let extras = self.extras_mut();
        if extras.error.is_none() {
            extras.error = Some((code, kind));
            return;
        }
        extras.has_multiple = Some("error_code");
        if reached::WINDOWS_MAX.has_room(extras.more.len()) {
            extras.more.push((kind, code));
        }
    }

    /// Notes the weight of a priority.
    pub(crate) fn note_priority(&mut self, weight: u8) {
        let extras = self.extras_mut();
        if extras.priority.is_none() {
            extras.priority = Some(weight);
            return;
        }
        extras.has_multiple = Some("priority");
        if reached::WINDOWS_MAX.has_room(extras.more.len()) {
            extras.more.push((kind::PRIORITY, weight.into()));
        }
    }

    /// Notes settings.
    pub(crate) fn note_settings(&mut self, settings: impl Iterator<Item = (u16, u32)>) {
        let extras = self.extras_mut();
        if extras.settings.is_some() {
            extras.has_multiple = Some("settings");
        }
        let list = extras.settings.get_or_insert_default();
        for pair in settings {
            if !reached::SETTINGS_MAX.has_room(list.len()) {
                break;
            }
            list.push(pair);
        }
    }

    /// Notes a window update.
    pub(crate) fn note_window(&mut self, size: u32) {
        let windows = &mut self.extras_mut().windows;
        if !windows.contains(&size) && reached::WINDOWS_MAX.has_room(windows.len()) {
            windows.push(size);
        }
    }

    /// Whether there is anything to log of it but its fields.
    pub(crate) fn has_members(&self) -> bool {
        let has_settings = self.settings().is_some_and(|all| !all.is_empty());
        has_settings || self.priority().is_some() || self.error().is_some()
    }

    pub(crate) fn bytes_held(&self) -> usize {
        let headers = self.headers.as_ref().map_or(0, |list| list.bytes_held());
        headers
            + self.extras.as_ref().map_or(0, |extras| extras.bytes_held())
            + self.files.bytes_held()
            + self.body.bytes_held()
            + self.views.get().map_or(0, |views| views.bytes_held())
    }
}

impl Extras {
    fn bytes_held(&self) -> usize {
        let settings = self.settings.as_ref().map_or(0, Vec::capacity);
        size_of::<Extras>()
            + settings * size_of::<(u16, u32)>()
            + self.windows.capacity() * size_of::<u32>()
            + self.more.capacity() * size_of::<(u8, u32)>()
    }
}

#[cfg(test)]
mod tests {
    use super::super::limits::{SETTINGS_MAX, WINDOWS_MAX};
    use super::*;

    /// Any kind is known again, those that the standard does not name too.
    #[test]
    fn kinds_are_known_again() {
        for kind in 0..=u8::MAX {
            let mut side = Side::default();
            assert!(!side.has_kind(kind));
            side.note_kind(kind);
            let known: Vec<u8> = (0..=u8::MAX).filter(|k| side.has_kind(*k)).collect();
            assert_eq!(known, [kind]);
        }
    }

    /// What a side says over and over takes no more than the limits.
    #[test]
    fn what_is_kept_is_bounded() {
        let mut side = Side::default();
        side.note_settings((0..SETTINGS_MAX as u32 + 5).map(|n| (1, n)));
        (0..WINDOWS_MAX as u32 + 5).for_each(|n| side.note_window(n));
        (0..WINDOWS_MAX as u32 + 5).for_each(|n| side.note_error(n, kind::RST_STREAM));
        (0..9).for_each(|n| side.note_priority(n));
        assert_eq!(side.settings().map(<[_]>::len), Some(SETTINGS_MAX));
        assert_eq!((side.windows().len(), side.more().len()), (WINDOWS_MAX, WINDOWS_MAX));
        let counts = gabion_record::limits::take_reached();
        assert_eq!(counts.times_reached(&reached::SETTINGS_MAX), 1);
        assert!(counts.times_reached(&reached::WINDOWS_MAX) > 0);
    }
}
