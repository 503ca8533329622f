//! From the bytes of a ring to events of the event table.
//!
//! `bpf/syscalls.h` has the layout: a head of 24 bytes, the lengths of the values, the values. A record that does not
//! match its recipe is counted, never trusted. Nothing is allocated for an event once the buffers are warm.

use super::recipes::{Further, Recipe};
use super::toctou::{Cause, Opened, Toctou, names_opened};
use super::translate::Translation;
use gabion_scap::table::{EventType, ParameterKind, event_type, event_types};
use gabion_scap::{Address, Event, LiveValues, Numbers, Param, Tuple, Values};

/// Bytes of the head.
pub(crate) const HEAD: usize = 24;
const FLAG_IA32: u8 = 1;
const FLAG_PATH_CUT: u8 = 2;
const FLAG_PSEUDO: u8 = 4;

/// A system call as the probe saw it.
#[derive(Clone, Copy, Debug)]
pub struct Call<'a> {
    /// The event, as a file would have it, with what the kernel's file or socket says in
    /// [`live`](gabion_scap::Event::live).
    pub event: Event<'a>,
    /// Whether the call used the table of 32 bits.
    pub is_ia32: bool,
    /// Its numbers, whose gaps mean that a change was shed.
    pub numbers: Numbers,
}

/// What the decoder knows of an event type.
#[derive(Clone, Debug)]
struct Layout {
    kind: &'static EventType,
    translations: Vec<Option<Translation>>,
    /// What follows the values of the table.
    further: Further,
    changes_state: bool,
    /// Whether the values are those of the table already.
    is_plain: bool,
}

/// Decodes records, with buffers that are used again.
pub struct Decoder {
    layouts: Vec<Option<Layout>>,
    /// Nanoseconds from 1970 to the boot.
    boot_ns: u64,
    count: u64,
    /// Records that change state: those that came, and those that were lost.
    came: u64,
    lost: u64,
    lengths: Vec<u8>,
    bytes: Vec<u8>,
    enter_lengths: Vec<u8>,
    enter_bytes: Vec<u8>,
    opened: Vec<u8>,
    base: Vec<u8>,
}

impl Decoder {
    /// A decoder for records of these recipes.
    pub(crate) fn new(recipes: &[Recipe], boot_ns: u64) -> Self {
        let mut layouts = vec![None; event_types().len()];
        for recipe in recipes {
            if let Some(layout) = layouts.get_mut(usize::from(recipe.kind.number)) {
                *layout = Some(Layout {
                    kind: recipe.kind,
                    translations: recipe.translations.clone(),
                    further: recipe.further(),
                    changes_state: recipe.changes_state(),
                    is_plain: recipe.translations.iter().all(Option::is_none)
                        && recipe.ops.len() == recipe.kind.parameters.len(),
                });
            }
        }
        Self {
            layouts,
            boot_ns,
            count: 0,
            came: 0,
            lost: 0,
            lengths: Vec::new(),
            bytes: Vec::new(),
            enter_lengths: Vec::new(),
            enter_bytes: Vec::new(),
            opened: Vec::new(),
            base: Vec::new(),
        }
    }

    /// Sets how many records that change state were shed up to now.
    pub(crate) fn set_lost(&mut self, lost: u64) {
        self.lost = lost;
    }

    /// Decodes one record; none if its bytes contradict its recipe.
    pub fn decode<'a>(&'a mut self, record: &'a [u8]) -> Option<Call<'a>> {
        let (head, rest) = record.split_at_checked(HEAD)?;
        let ts_ns = u64::from_le_bytes(*head.first_chunk()?);
        let tid = u32::from_le_bytes(*head.get(8..)?.first_chunk()?);
        let sequence = u32::from_le_bytes(*head.get(12..)?.first_chunk()?);
        let number = u16::from_le_bytes(*head.get(16..)?.first_chunk()?);
        let cpu = u16::from_le_bytes(*head.get(18..)?.first_chunk()?);
        let [values, toctou, cause, flags] = *head.get(20..)?.first_chunk()?;
        let layout = self.layouts.get(usize::from(number))?.as_ref()?;
        if usize::from(values) != layout.translations.len() {
            return None;
        }
        let (lengths, bytes) = rest.split_at_checked(usize::from(values) * 2)?;
        self.opened.clear();
        self.base.clear();
        self.count += 1;
        self.came += u64::from(layout.changes_state);
        let of_source = self.came.saturating_add(self.lost);
        let mut call = Call {
            event: Event {
                number: self.count,
                raw_number: self.count,
                ts_ns: self.boot_ns.saturating_add(ts_ns),
                tid: i64::from(tid),
                cpu,
                flags: 0,
                values: Values::new(layout.kind, lengths, bytes),
                enter: None,
                live: LiveValues::default(),
            },
            is_ia32: flags & FLAG_IA32 != 0,
            numbers: Numbers { of_source, of_thread: u64::from(sequence) },
        };
        if layout.is_plain {
            return Some(call);
        }

        let parameters = layout.kind.parameters;
        let mut raws: [&[u8]; 48] = [&[]; 48];
        let mut at = bytes;
        for (to, length) in raws.iter_mut().zip(lengths.chunks_exact(2)) {
            let length = usize::from(u16::from_le_bytes(*length.first_chunk()?));
            (*to, at) = at.split_at_checked(length)?;
        }
        self.lengths.clear();
        self.bytes.clear();
        for (place, parameter) in parameters.iter().enumerate() {
            let raw = *raws.get(place)?;
            let from = self.bytes.len();
            match layout.translations.get(place)? {
                None => self.bytes.extend_from_slice(raw),
                Some(t) => {
                    let before = raws.get(..place)?;
                    t.apply(raw, before, Some(parameter), self.boot_ns, &mut self.bytes);
                }
            }
            let length = u16::try_from(self.bytes.len() - from).ok()?;
            self.lengths.extend_from_slice(&length.to_le_bytes());
        }
        let more = raws.get(parameters.len()..usize::from(values))?;
        let netns = |raw: Option<&&[u8]>| raw.map_or(0, |raw| super::translate::number32(raw));
        match layout.further {
            Further::None | Further::Open => {}
            Further::Connect => call.event.live.netns = netns(more.get(1)),
            Further::Netns => call.event.live.netns = netns(more.first()),
        }
        if matches!(layout.further, Further::Open | Further::Connect) {
            let is_open = layout.further == Further::Open;
            let enter_name = more.first().copied().unwrap_or_default();
            let path_of = |place: usize, to: &mut Vec<u8>| {
                if let Some(raw) = more.get(place).filter(|raw| is_open && !raw.is_empty()) {
                    super::translate::path(raw, to);
                    to.pop(); // the NUL
                }
            };
            path_of(1, &mut self.opened);
            path_of(2, &mut self.base);
            let is_cut = flags & FLAG_PATH_CUT != 0;
            if is_cut && !self.opened.is_empty() {
                // Without its beginning it must not look like another path.
                self.opened.splice(..0, *b"...");
            }
            let below = more.get(3).and_then(|raw| raw.first()).copied();
            let opened = Opened {
                path: &self.opened,
                base: &self.base,
                below_base: below.filter(|n| *n != 255).map(usize::from),
                is_whole: flags & (FLAG_PATH_CUT | FLAG_PSEUDO) == 0,
                is_cut,
            };
            let name_place = parameters
                .iter()
                .position(|p| matches!(p.kind, ParameterKind::Fspath | ParameterKind::Fsrelpath));
            let name = name_place.and_then(|place| raws.get(place)).copied().unwrap_or_default();
            call.event.live.toctou = state(toctou, cause, name, name_place.is_some(), &opened);
            if call.event.live.toctou == Some(Toctou::Verified) && !is_open {
                let values = Values::new(layout.kind, &self.lengths, &self.bytes);
                if connected_elsewhere(&values) {
                    call.event.live.toctou = Some(Toctou::Linked);
                }
            }
            if call.event.live.toctou == Some(Toctou::Mismatch)
                && let Some(kind) = event_type(number - 1)
            {
                self.enter_lengths.clear();
                self.enter_bytes.clear();
                for parameter in kind.parameters {
                    let from = self.enter_bytes.len();
                    let is_name = matches!(
                        parameter.kind,
                        ParameterKind::Fspath | ParameterKind::Fsrelpath | ParameterKind::Sockaddr
                    );
                    if is_name {
                        self.enter_bytes.extend_from_slice(enter_name);
                    } else if let Some(place) = layout.kind.parameter(parameter.name) {
                        let values = Values::new(layout.kind, &self.lengths, &self.bytes);
                        self.enter_bytes.extend_from_slice(values.raw(place).unwrap_or_default());
                    }
                    let length = u16::try_from(self.enter_bytes.len() - from).ok()?;
                    self.enter_lengths.extend_from_slice(&length.to_le_bytes());
                }
                call.event.enter = Some(Values::new(kind, &self.enter_lengths, &self.enter_bytes));
            }
            call.event.live.opened = &self.opened;
        }
        call.event.values = Values::new(layout.kind, &self.lengths, &self.bytes);
        Some(call)
    }
}

/// Whether the kernel's socket has another end than the address of the call says.
fn connected_elsewhere(connect: &Values<'_>) -> bool {
    match (connect.param(1), connect.param(3)) {
        (
            Some(Param::Tuple(Tuple::V4(_, (ip, port)))),
            Some(Param::Address(Address::V4(to, of))),
        ) => (ip, port) != (to, of),
        (
            Some(Param::Tuple(Tuple::V6(_, (ip, port)))),
            Some(Param::Address(Address::V6(to, of))),
        ) => (ip, port) != (to, of),
        // Of other families the kernel's ends have no address that can be compared.
        _ => false,
    }
}

/// What the kernel's program found, with the opened path.
fn state(
    toctou: u8,
    cause: u8,
    name: &[u8],
    has_path: bool,
    opened: &Opened<'_>,
) -> Option<Toctou> {
    let name = name.strip_suffix(&[0]).unwrap_or(name);
    match toctou {
        1 if !has_path || opened.path.is_empty() || names_opened(name, opened) => {
            Some(Toctou::Verified)
        }
        // The beginning of the path may differ or not.
        1 | 4 if opened.is_cut && !names_opened(name, opened) => {
            Some(Toctou::ExitOnly(Cause::PathCut))
        }
        1 => Some(Toctou::Linked),
        // A name that could not be read at the exit was taken from the entry: there is nothing to compare it with but
        // the opened file.
        4 if !opened.path.is_empty() && names_opened(name, opened) => Some(Toctou::Verified),
        2 | 4 => Some(Toctou::Mismatch),
        3 => Some(Toctou::ExitOnly(Cause::from_number(cause))),
        _ => None,
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::super::recipes;
    use super::*;
    use gabion_scap::{Param, types};

    /// A record with these values.
    pub(crate) fn record(number: u16, toctou: u8, values: &[&[u8]]) -> Vec<u8> {
        let mut bytes = Vec::new();
        bytes.extend(7_u64.to_le_bytes());
        bytes.extend(42_u32.to_le_bytes());
        bytes.extend(3_u32.to_le_bytes());
        bytes.extend(number.to_le_bytes());
        bytes.extend(1_u16.to_le_bytes());
        bytes.extend([u8::try_from(values.len()).unwrap(), toctou, 0, 0]);
        for value in values {
            bytes.extend(u16::try_from(value.len()).unwrap().to_le_bytes());
        }
        bytes.extend(values.concat());
        bytes
    }

    fn open(toctou: u8, name: &[u8], enter: &[u8], path: &[u8]) -> Vec<u8> {
        let fd = 5_i64.to_le_bytes();
        let folder = (-100_i64).to_le_bytes();
        let flags = 0_u32.to_le_bytes();
        let ino = 9_u64.to_le_bytes();
        let values: [&[u8]; 11] =
            [&fd, &folder, name, &flags, &flags, &flags, &ino, enter, path, &[], &[255]];
        record(types::OPENAT_2_X, toctou, &values)
    }

    fn decoder() -> Decoder {
        Decoder::new(&recipes::all().unwrap(), 1_000)
    }

    #[test]
    fn an_open_that_the_kernel_confirms_is_verified() {
        let mut decoder = decoder();
        let bytes = open(1, b"/a/b\0", b"", b"b\0a\0\0");
        let call = decoder.decode(&bytes).unwrap();
        assert_eq!((call.event.ts_ns, call.event.tid, call.event.cpu), (1_007, 42, 1));
        assert_eq!((call.event.live.toctou, call.numbers.of_thread), (Some(Toctou::Verified), 3));
        assert_eq!(call.event.live.opened, b"/a/b");
        assert_eq!(call.event.param(0), Some(Param::Fd(5)));
        assert_eq!(call.event.param_named("name").unwrap().as_text(), Some(&b"/a/b"[..]));
        assert_eq!(call.event.param_named("flags").unwrap().as_i64(), Some(1), "O_RDONLY");
        assert!(call.event.enter.is_none());
    }

    #[test]
    fn reads_that_agree_on_another_file_are_linked() {
        let mut decoder = decoder();
        let bytes = open(1, b"/a/b\0", b"", b"c\0a\0\0");
        let call = decoder.decode(&bytes).unwrap();
        let live = call.event.live;
        assert_eq!((live.toctou, live.opened), (Some(Toctou::Linked), &b"/a/c"[..]));
    }

    #[test]
    fn both_names_of_a_mismatch_are_there() {
        let mut decoder = decoder();
        let bytes = open(2, b"/exit\0", b"/enter\0", b"exit\0\0");
        let call = decoder.decode(&bytes).unwrap();
        assert_eq!(call.event.live.toctou, Some(Toctou::Mismatch));
        assert_eq!(call.event.param_named("name").unwrap().as_text(), Some(&b"/exit"[..]));
        let enter = call.event.enter.unwrap();
        assert_eq!(enter.kind().number, types::OPENAT_2_E);
        let name = enter.kind().parameter("name").unwrap();
        assert_eq!(enter.param(name).unwrap().as_text(), Some(&b"/enter"[..]));
    }

    #[test]
    fn records_that_contradict_their_recipe_are_refused() {
        let mut decoder = decoder();
        let whole = open(1, b"/a\0", b"", b"a\0\0");
        assert!(decoder.decode(&whole).is_some());
        for end in 0..whole.len() {
            assert!(decoder.decode(&whole[..end]).is_none(), "cut at {end}");
        }
        assert!(decoder.decode(&record(types::OPENAT_2_X, 0, &[&[1]])).is_none(), "one value");
        assert!(decoder.decode(&record(9999, 0, &[])).is_none(), "no such type");
    }
}
