//! Events that are made of others: the space that a conversion writes into, and its parts one by one. The space is
//! reused, so that a warm merger allocates nothing.

use crate::event::{Values, sum_of};
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

    /// Makes a whole exit event with parameters of its enter event at its end, from the one with this place on. `false`,
    /// and nothing that can be used, if a parameter is missing or has to be cut.
    #[inline]
    pub(crate) fn join(&mut self, exit: &Values<'_>, enter: &Values<'_>, from: usize) -> bool {
        self.try_join(exit, enter, from).is_some()
    }

    #[inline]
    fn try_join(&mut self, exit: &Values<'_>, enter: &Values<'_>, from: usize) -> Option<()> {
        let kind = exit.kind();
        if kind.is_large() || enter.kind().is_large() {
            return None;
        }
        let first = exit.lengths();
        let sizes = kind.sizes.get(first.len() / 2..)?;
        let (before, second) = enter.lengths().split_at_checked(2 * from)?;
        let second = second.get(..2 * sizes.len())?;
        let start = sum_of(before);
        let added = enter.bytes().get(start..start.checked_add(len_of(second, sizes)?)?)?;
        if len_of(first, kind.sizes)? != exit.bytes().len() {
            return None;
        }
        self.begin(kind);
        self.lengths.extend_from_slice(first);
        self.lengths.extend_from_slice(second);
        self.bytes.extend_from_slice(exit.bytes());
        self.bytes.extend_from_slice(added);
        Some(())
    }

    /// Makes a whole event with unknown parameters at its end. `false`, and nothing that can be used, if a parameter has
    /// to be cut.
    #[inline]
    pub(crate) fn fill(&mut self, from: &Values<'_>) -> bool {
        let kind = from.kind();
        if kind.is_large() || !is_whole(from) {
            return false;
        }
        self.begin(kind);
        self.lengths.extend_from_slice(from.lengths());
        self.lengths.resize(2 * kind.sizes.len(), 0);
        self.bytes.extend_from_slice(from.bytes());
        true
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
    let kind = values.kind();
    if !kind.is_large() {
        return len_of(values.lengths(), kind.sizes) == Some(values.bytes().len());
    }
    let (mut sum, mut sizes) = (0, kind.sizes.iter());
    let mut lengths = values.lengths().chunks_exact(4);
    let fits = lengths.all(|len| {
        let len = len.first_chunk().map_or(0, |b| u32::from_le_bytes(*b)) as usize;
        sum += len;
        sizes.next().is_none_or(|size| *size == u16::MAX || len <= usize::from(*size))
    });
    fits && sum == values.bytes().len()
}

/// The sum of lengths of 16 bits, if none is longer than its place; further places have no size.
#[inline]
fn len_of(lengths: &[u8], sizes: &[u16]) -> Option<usize> {
    let (mut sum, mut sizes) = (0, sizes.iter());
    let fits = lengths.chunks_exact(2).all(|len| {
        let len = len.first_chunk().map_or(0, |b| u16::from_le_bytes(*b));
        sum += usize::from(len);
        sizes.next().is_none_or(|size| len <= *size)
    });
    fits.then_some(sum)
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
