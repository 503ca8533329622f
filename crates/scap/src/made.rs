//! Events that are made of others: the space that a conversion writes into, and its parts one by one. The space is
//! reused, so that a warm merger allocates nothing.

use crate::event::Values;
use crate::table::{Action, Conversion, EventType, ParameterKind, Source};

/// The space for one event.
#[derive(Debug, Default)]
pub(crate) struct Made {
    kind: Option<&'static EventType>,
    lengths: Vec<u8>,
    bytes: Vec<u8>,
}

impl Made {
    /// What was made last.
    pub(crate) fn values(&self) -> Option<Values<'_>> {
        Some(Values::new(self.kind?, &self.lengths, &self.bytes))
    }

    /// Bytes of memory of the space.
    #[cfg(test)]
    pub(crate) fn memory(&self) -> usize {
        self.lengths.capacity() + self.bytes.capacity()
    }

    /// Begins an event of this type.
    pub(crate) fn begin(&mut self, kind: &'static EventType) {
        self.kind = Some(kind);
        self.lengths.clear();
        self.bytes.clear();
    }

    /// Appends a parameter. What its place cannot hold is cut, as Falco's converter does.
    #[inline]
    pub(crate) fn push(&mut self, value: &[u8]) {
        let Some(kind) = self.kind else { return };
        let is_large = kind.is_large();
        let place = self.lengths.len() / if is_large { 4 } else { 2 };
        let size = kind.parameters.get(place).and_then(|p| p.kind.size());
        let len_max = size.unwrap_or(if is_large { usize::MAX } else { u16::MAX.into() });
        let value = value.get(..len_max).unwrap_or(value);
        if is_large {
            self.lengths.extend_from_slice(&(value.len() as u32).to_le_bytes());
        } else {
            self.lengths.extend_from_slice(&(value.len() as u16).to_le_bytes());
        }
        // Most values are numbers, for which a call of memcpy costs more than the copy.
        match <[u8; 8]>::try_from(value) {
            Ok(number) => self.bytes.extend_from_slice(&number),
            Err(_) => self.bytes.extend_from_slice(value),
        }
    }

    /// Makes a copy of an event.
    pub(crate) fn copy(&mut self, from: &Values<'_>) {
        self.begin(from.kind());
        self.push_all(from);
    }

    /// Appends all parameters of an event of the same type.
    #[inline]
    fn push_all(&mut self, from: &Values<'_>) {
        if self.lengths.is_empty() && is_whole(from) {
            self.lengths.extend_from_slice(from.lengths());
            self.bytes.extend_from_slice(from.bytes());
            return;
        }
        for value in from.iter() {
            self.push(value);
        }
    }

    /// Appends the default value of the next parameter: zeros, for a user or group the number that means none, and
    /// nothing for what has no fixed size.
    fn push_default(&mut self) {
        const ZEROS: [u8; 16] = [0; 16];
        let Some(kind) = self.kind else { return };
        let width = if kind.is_large() { 4 } else { 2 };
        let parameter = kind.parameters.get(self.lengths.len() / width).map(|p| p.kind);
        match parameter {
            Some(ParameterKind::Uid | ParameterKind::Gid) => self.push(&[0xff; 4]),
            Some(kind) => self.push(ZEROS.get(..kind.size().unwrap_or(0)).unwrap_or_default()),
            None => self.push(&[]),
        }
    }

    /// Appends what a conversion adds to the event that was made last.
    pub(crate) fn extend(&mut self, conversion: &Conversion, enter: Option<Values<'_>>) {
        for source in conversion.sources {
            match *source {
                Source::Old(place) => {
                    let value = self.values().and_then(|values| values.raw(usize::from(place)));
                    let value = value.unwrap_or_default().to_vec();
                    self.push(&value);
                }
                Source::ContainerJson => {
                    let json = self.values().map(|values| container_json(&values));
                    self.push(&json.unwrap_or_default());
                }
                Source::Enter(..) | Source::Default | Source::Empty => {
                    self.push_new(*source, enter.as_ref());
                }
            }
        }
    }

    /// Appends a parameter that is not one of the event's own.
    #[inline]
    fn push_new(&mut self, source: Source, enter: Option<&Values<'_>>) {
        match source {
            Source::Enter(place, has_default) => match enter {
                Some(enter) => self.push(enter.raw(usize::from(place)).unwrap_or_default()),
                None if has_default => self.push_default(),
                None => self.push(&[]),
            },
            Source::Default => self.push_default(),
            Source::Empty | Source::Old(_) | Source::ContainerJson => self.push(&[]),
        }
    }

    /// Makes the event that a conversion describes.
    pub(crate) fn convert(
        &mut self,
        from: &Values<'_>,
        conversion: &Conversion,
        to: &'static EventType,
        enter: Option<Values<'_>>,
    ) {
        self.begin(to);
        if conversion.action == Action::AddParams {
            self.push_all(from);
        }
        for source in conversion.sources {
            match *source {
                Source::Old(place) => {
                    self.push(from.raw(usize::from(place)).unwrap_or_default());
                }
                Source::ContainerJson => {
                    let json = container_json(from);
                    self.push(&json);
                }
                Source::Enter(..) | Source::Default | Source::Empty => {
                    self.push_new(*source, enter.as_ref());
                }
            }
        }
    }
}

/// Whether no parameter has to be cut, as nearly always: none is longer than its place, and all bytes belong to one.
#[inline]
fn is_whole(values: &Values<'_>) -> bool {
    let mut left = values.bytes().len();
    let mut places = values.kind().parameters.iter();
    let fits = |len: usize, left: &mut usize, size: Option<usize>| {
        *left = left.wrapping_sub(len);
        *left <= values.bytes().len() && size.is_none_or(|most| len <= most)
    };
    let size = |parameter: Option<&crate::table::Parameter>| parameter.and_then(|p| p.kind.size());
    let is_whole = if values.kind().is_large() {
        let mut lengths = values.lengths().chunks_exact(4);
        lengths.all(|len| {
            let len = len.first_chunk().map_or(0, |b| u32::from_le_bytes(*b)) as usize;
            fits(len, &mut left, size(places.next()))
        })
    } else {
        let mut lengths = values.lengths().chunks_exact(2);
        lengths.all(|len| {
            let len = len.first_chunk().map_or(0, |b| u16::from_le_bytes(*b)).into();
            fits(len, &mut left, size(places.next()))
        })
    };
    is_whole && left == 0
}

/// The text by which newer files describe a container, made of the parameters of an old event: id, type, name, image.
fn container_json(from: &Values<'_>) -> Vec<u8> {
    let text = |place: usize| {
        let raw = from.raw(place).unwrap_or_default();
        raw.split(|byte| *byte == 0).next().unwrap_or_default()
    };
    let kind = from.raw(1).and_then(|raw| raw.first_chunk()).map_or(0, |b| u32::from_le_bytes(*b));
    let mut json = Vec::new();
    json.extend_from_slice(b"{\"id\":\"");
    escape(&mut json, text(0));
    json.extend_from_slice(b"\",\"type\":");
    json.extend_from_slice(kind.to_string().as_bytes());
    json.extend_from_slice(b",\"name\":\"");
    escape(&mut json, text(2));
    json.extend_from_slice(b"\",\"image\":\"");
    escape(&mut json, text(3));
    json.extend_from_slice(b"\"}\0");
    json
}

/// Appends text of a JSON string.
fn escape(json: &mut Vec<u8>, text: &[u8]) {
    for byte in text {
        match byte {
            b'"' | b'\\' => json.extend_from_slice(&[b'\\', *byte]),
            0..0x20 => json.extend_from_slice(format!("\\u{byte:04x}").as_bytes()),
            byte => json.push(*byte),
        }
    }
}
