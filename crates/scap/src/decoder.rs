//! The decoder: bytes in pieces of any size, items out in the order of the file. Any split of the bytes gives the same
//! items, notes and counts.
//!
//! The decoder holds one block of an event or one entry of a list at most. A fault inside of one event sheds that
//! event, a fault inside of an entry the rest of its list; a wrong length of a block ends the reading, since nothing
//! says where the next block begins. In the path of events nothing is allocated.

use gabion_record::ledger::{Ledger, ShedReason};

use crate::block::{self, BlockKind, EventBlock};
use crate::error::Error;
use crate::event::{Event, Values};
use crate::fields::{Fault, Fields};
use crate::host::{FdEntry, InterfaceEntry, Machine, ProcessEntry, UserEntry};
use crate::limits;
use crate::lists::{self, ListKind};
use crate::live::{LiveValues, split_flags};
use crate::notes::{Note, Notes, UnknownTypes};
use crate::raw_event::{self, NoEvent, RawEvent};

/// One thing that a scap file holds.
#[derive(Debug)]
pub enum Item<'a> {
    /// A section begins: what was read of an earlier section no longer holds.
    Section {
        /// The minor version of its format.
        minor: u16,
    },
    /// The machine.
    Machine(Machine),
    /// A thread that existed before the first event.
    Process(Box<ProcessEntry>),
    /// A descriptor that was open before the first event.
    Fd(FdEntry),
    /// An interface.
    Interface(InterfaceEntry),
    /// A user or group.
    User(UserEntry),
    /// An event as the file has it; see [`Merger`](crate::Merger).
    Event(Event<'a>),
}

/// Where the decoder is in the file.
#[derive(Clone, Copy, Debug)]
enum State {
    /// Before a block.
    Between,
    /// Inside of a list: the bytes that its body still has, and its thread for descriptors.
    List { kind: ListKind, left: usize, len: u32, tid: Option<i64> },
    /// Before the second length of a block.
    Trailer { len: u32 },
    /// Inside of bytes that are passed over, or shed.
    Skip { left: usize, is_shed: bool },
    /// After a fault that nothing can be read after.
    Stopped,
}

/// What one step found.
enum Step {
    /// The buffer must hold this number of bytes.
    Needs(usize),
    /// These bytes were read, and perhaps something was found in them.
    Read(usize, Option<Found>),
}

/// What a step found. It is small, as each step moves it: what is not an event is in [`Decoder::listed`].
#[derive(Debug)]
enum Found {
    /// An event, and where the body of its block begins.
    Event(RawEvent, usize),
    Listed,
}

/// What is not an event.
#[derive(Debug)]
enum Listed {
    Section { minor: u16 },
    Machine(Machine),
    Process(Box<ProcessEntry>),
    Fd(FdEntry),
    Interface(InterfaceEntry),
    User(UserEntry),
}

/// See the opening of this file.
#[derive(Debug)]
pub struct Decoder {
    buffer: Vec<u8>,
    start: usize,
    end: usize,
    is_ended: bool,
    has_section: bool,
    /// Whether a list or the machine's description was read: the input is no capture of packets.
    has_list: bool,
    is_after_event: bool,
    state: State,
    /// What was found and not taken yet, and where its block begins in the buffer.
    found: Option<(Found, usize)>,
    listed: Option<Listed>,
    /// The place in the input of the first byte of the buffer that was not read.
    offset: u64,
    events: u64,
    counts: Counts,
}

/// What a decoder has counted.
#[derive(Clone, Debug, Default)]
pub struct Counts {
    /// Events and their blocks' bytes.
    pub events: Ledger,
    /// Entries of lists and the bytes of all blocks that hold no event.
    pub lists: Ledger,
    /// Events of types that the table does not have, by type.
    pub unknown_types: UnknownTypes,
    /// What was wrong, in the order of the input.
    pub notes: Notes,
}

impl Default for Decoder {
    fn default() -> Self {
        Decoder::new()
    }
}

impl Decoder {
    /// A decoder that has seen nothing.
    #[must_use]
    pub fn new() -> Decoder {
        Decoder {
            buffer: Vec::new(),
            start: 0,
            end: 0,
            is_ended: false,
            has_section: false,
            has_list: false,
            is_after_event: false,
            state: State::Between,
            found: None,
            listed: None,
            offset: 0,
            events: 0,
            counts: Counts::default(),
        }
    }

    /// What was counted so far. Both ledgers balance when [`next_item`](Decoder::next_item) has returned none after
    /// [`finish`](Decoder::finish).
    #[must_use]
    pub const fn counts(&self) -> &Counts {
        &self.counts
    }

    /// Adds a note of the program that reads the input, for example that it could not be decompressed to its end.
    pub fn add_note(&mut self, what: impl Into<String>) {
        let offset = self.offset;
        self.counts.notes.add(|| Note { offset, what: what.into() });
    }

    /// Takes bytes of the input.
    pub fn push(&mut self, bytes: &[u8]) {
        let space = self.space(bytes.len());
        if let Some(to) = space.get_mut(..bytes.len()) {
            to.copy_from_slice(bytes);
        }
        self.filled(bytes.len());
    }

    /// Space for at least `len` bytes of the input; [`filled`](Decoder::filled) says how many were written.
    pub fn space(&mut self, len: usize) -> &mut [u8] {
        if self.start == self.end {
            (self.start, self.end) = (0, 0);
        }
        if self.buffer.len() - self.end < len && self.start > 0 {
            self.buffer.copy_within(self.start..self.end, 0);
            (self.start, self.end) = (0, self.end - self.start);
        }
        let wanted = self.end.saturating_add(len);
        if self.buffer.len() < wanted {
            self.buffer.resize(wanted, 0);
        }
        self.buffer.get_mut(self.end..).unwrap_or_default()
    }

    /// Says how many bytes of [`space`](Decoder::space) are bytes of the input.
    pub fn filled(&mut self, len: usize) {
        self.end = self.end.saturating_add(len).min(self.buffer.len());
    }

    /// Says that the input has no more bytes.
    pub fn finish(&mut self) {
        self.is_ended = true;
    }

    /// The next item; none if more bytes are needed, or after the last item.
    ///
    /// # Errors
    /// The input is not scap, or of a version that cannot be read.
    #[inline]
    pub fn next_item(&mut self) -> Result<Option<Item<'_>>, Error> {
        if let Some((raw, at)) = self.whole_event() {
            return Ok(Some(Item::Event(self.event(&raw, at))));
        }
        Ok(if self.advance()? { self.take_item() } else { None })
    }

    /// Looks for the next item, which [`take_item`](Decoder::take_item) then returns; `false` if more bytes are
    /// needed, or after the last item.
    #[inline]
    pub(crate) fn advance(&mut self) -> Result<bool, Error> {
        loop {
            let available = self.end - self.start;
            let step = match self.state {
                State::Between => between(self)?,
                State::List { .. }
                | State::Trailer { .. }
                | State::Skip { .. }
                | State::Stopped => inside(self),
            };
            match step {
                Step::Read(len, found) => {
                    let from = self.start;
                    self.start += len;
                    self.offset += len as u64;
                    if found.is_some() {
                        self.found = found.map(|found| (found, from));
                        return Ok(true);
                    }
                }
                Step::Needs(len) if !self.is_ended => {
                    debug_assert!(
                        len > available,
                        "invariant: a step with enough bytes reads them"
                    );
                    return Ok(false);
                }
                Step::Needs(_) => {
                    self.end_of_input(available)?;
                    return Ok(false);
                }
            }
        }
    }

    /// The next event and where its body begins, if its whole block is next and nothing is wrong with it, as nearly always in the middle of a file;
    /// where not, nothing was read and [`advance`](Decoder::advance) says what is there.
    #[inline]
    pub(crate) fn whole_event(&mut self) -> Option<(RawEvent, usize)> {
        if !matches!(self.state, State::Between) || !self.is_after_event {
            return None;
        }
        let bytes = self.buffer.get(self.start..self.end)?;
        let head = bytes.first_chunk::<{ block::HEAD_LEN }>()?;
        let number = u32::from_le_bytes([head[0], head[1], head[2], head[3]]);
        let len = u32::from_le_bytes([head[4], head[5], head[6], head[7]]) as usize;
        let block = block::usual_event(number)?;
        if len > limits::EVENT_BLOCK_MAX || len > bytes.len() {
            return None;
        }
        let body = bytes.get(block::HEAD_LEN..len.checked_sub(4)?)?;
        let raw = raw_event::decode(body, block).ok()?;
        let from = self.start;
        self.counts.events.receive(1, len as u64);
        self.counts.events.pass(1, len as u64);
        self.events += 1;
        self.start += len;
        self.offset += len as u64;
        Some((raw, from + block::HEAD_LEN))
    }

    /// The item that was found last.
    #[inline]
    pub(crate) fn take_item(&mut self) -> Option<Item<'_>> {
        let (found, from) = self.found.take()?;
        match found {
            Found::Event(raw, body_at) => Some(Item::Event(self.event(&raw, from + body_at))),
            Found::Listed => self.listed.take().map(Listed::item),
        }
    }

    /// Holds what was found until it is taken.
    fn hold(&mut self, listed: Option<Listed>) -> Option<Found> {
        self.listed = listed;
        self.listed.is_some().then_some(Found::Listed)
    }

    #[inline]
    pub(crate) fn event(&self, raw: &RawEvent, body_at: usize) -> Event<'_> {
        let part = |from: usize, to: usize| {
            self.buffer.get(body_at + from..body_at + to).unwrap_or_default()
        };
        let values = Values::new(
            raw.kind,
            part(raw.lengths_at, raw.values_at),
            part(raw.values_at, raw.end),
        );
        let (flags, toctou, netns) = split_flags(raw.flags);
        Event {
            number: self.events,
            raw_number: self.events,
            ts_ns: raw.ts_ns,
            tid: raw.tid,
            cpu: raw.cpu,
            flags,
            values,
            enter: None,
            live: LiveValues { toctou, netns, ..LiveValues::default() },
        }
    }

    fn unread(&self) -> &[u8] {
        self.buffer.get(self.start..self.end).unwrap_or_default()
    }

    fn note(&mut self, what: impl FnOnce() -> String) {
        let offset = self.offset;
        self.counts.notes.add(|| Note { offset, what: what() });
    }

    /// The input ended while more bytes were needed: between blocks that is its end, else it is torn.
    fn end_of_input(&mut self, available: usize) -> Result<(), Error> {
        if !self.has_section {
            return Err(if available == 0 { Error::Empty } else { Error::TornHeader(available) });
        }
        let is_between = matches!(self.state, State::Between);
        let is_stopped = matches!(self.state, State::Stopped);
        if !is_stopped && (available > 0 || !is_between) {
            let number = self.unread().first_chunk().map(|b| u32::from_le_bytes(*b));
            let is_event =
                is_between && number.is_some_and(|n| matches!(block::kind(n), BlockKind::Event(_)));
            let bytes = available as u64;
            if is_event {
                self.counts.events.receive(1, bytes);
                self.counts.events.shed(ShedReason::TornFile, 1, bytes);
            } else {
                self.counts.lists.receive(0, bytes);
                self.counts.lists.shed(ShedReason::TornFile, 0, bytes);
            }
            self.note(|| {
                format!("the input ends inside of a block, after {available} of its bytes")
            });
        }
        self.start = self.end;
        self.state = State::Stopped;
        Ok(())
    }

    /// Ends the reading: what follows is counted and not read.
    fn stop(&mut self, what: impl FnOnce() -> String) -> Step {
        self.note(what);
        self.state = State::Stopped;
        Step::Read(0, None)
    }
}

impl Listed {
    fn item(self) -> Item<'static> {
        match self {
            Listed::Section { minor } => Item::Section { minor },
            Listed::Machine(machine) => Item::Machine(machine),
            Listed::Process(entry) => Item::Process(entry),
            Listed::Fd(entry) => Item::Fd(entry),
            Listed::Interface(entry) => Item::Interface(entry),
            Listed::User(entry) => Item::User(entry),
        }
    }
}

/// Reads the head of a block, or the whole block of an event.
#[inline]
fn between(decoder: &mut Decoder) -> Result<Step, Error> {
    let bytes = decoder.unread();
    let available = bytes.len();
    let Some(head) = bytes.first_chunk::<{ block::HEAD_LEN }>() else {
        return Ok(Step::Needs(block::HEAD_LEN));
    };
    let number = u32::from_le_bytes([head[0], head[1], head[2], head[3]]);
    let len = u32::from_le_bytes([head[4], head[5], head[6], head[7]]);
    let kind = block::kind(number);
    if !decoder.has_section && kind != BlockKind::Section {
        return Err(Error::NotScap);
    }
    if (len as usize) < block::FRAME_LEN {
        return Ok(
            decoder.stop(|| format!("a block of {len} bytes, too short for its own lengths"))
        );
    }
    match kind {
        BlockKind::Event(block) => Ok(event_block(decoder, block, len, available)),
        BlockKind::Section => section(decoder, len),
        _ if decoder.is_after_event => {
            decoder.note(|| format!("unexpected block type {number}"));
            decoder.counts.lists.receive(0, block::HEAD_LEN as u64);
            decoder.counts.lists.shed(ShedReason::UnreadableRecord, 0, block::HEAD_LEN as u64);
            decoder.state = State::Skip { left: len as usize - block::HEAD_LEN, is_shed: true };
            Ok(Step::Read(block::HEAD_LEN, None))
        }
        BlockKind::Machine => {
            decoder.has_list = true;
            Ok(machine(decoder, len))
        }
        BlockKind::List(kind) => {
            decoder.has_list = true;
            let left = len as usize - block::FRAME_LEN;
            decoder.counts.lists.receive(0, block::HEAD_LEN as u64);
            decoder.counts.lists.pass(0, block::HEAD_LEN as u64);
            decoder.state = State::List { kind, left, len, tid: None };
            Ok(Step::Read(block::HEAD_LEN, None))
        }
        BlockKind::Unknown
            if block::is_of_packets(number)
                && !decoder.has_list
                && decoder.counts.events.received().items == 0 =>
        {
            Err(Error::Packets)
        }
        BlockKind::Unknown => {
            decoder.counts.lists.receive(0, block::HEAD_LEN as u64);
            decoder.counts.lists.pass(0, block::HEAD_LEN as u64);
            decoder.state = State::Skip { left: len as usize - block::HEAD_LEN, is_shed: false };
            Ok(Step::Read(block::HEAD_LEN, None))
        }
    }
}

/// Reads the block of one event.
#[inline]
fn event_block(decoder: &mut Decoder, block: EventBlock, len: u32, available: usize) -> Step {
    let len = len as usize;
    let len_max = if block.is_large { limits::LARGE_BLOCK_MAX } else { limits::EVENT_BLOCK_MAX };
    decoder.is_after_event = true;
    if len > len_max {
        decoder.note(|| format!("an event of {len} bytes, more than {len_max}"));
        decoder.events += 1;
        decoder.counts.events.receive(1, block::HEAD_LEN as u64);
        decoder.counts.events.shed(ShedReason::UnreadableRecord, 1, block::HEAD_LEN as u64);
        decoder.state = State::Skip { left: len - block::HEAD_LEN, is_shed: true };
        return Step::Read(block::HEAD_LEN, None);
    }
    if available < len {
        return Step::Needs(len);
    }
    let body = decoder.unread().get(block::HEAD_LEN..len - 4).unwrap_or_default();
    let decoded = raw_event::decode(body, block);
    let ledger = &mut decoder.counts.events;
    ledger.receive(1, len as u64);
    match decoded {
        Ok(raw) => {
            ledger.pass(1, len as u64);
            decoder.events += 1;
            Step::Read(len, Some(Found::Event(raw, block::HEAD_LEN)))
        }
        Err(NoEvent::UnknownType(number)) => {
            ledger.shed(ShedReason::UnknownEvent, 1, len as u64);
            decoder.counts.unknown_types.add(number);
            Step::Read(len, None)
        }
        Err(why) => {
            ledger.shed(ShedReason::UnreadableRecord, 1, len as u64);
            decoder.events += 1;
            decoder.note(|| why.to_string());
            Step::Read(len, None)
        }
    }
}

/// Reads the header of a section.
fn section(decoder: &mut Decoder, len: u32) -> Result<Step, Error> {
    let needed = block::HEAD_LEN + block::SECTION_BODY_LEN;
    let Some(body) = decoder.unread().get(block::HEAD_LEN..needed) else {
        return Ok(Step::Needs(needed));
    };
    let mut f = Fields::new(body);
    let (magic, major, minor) = (f.u32(), f.u16().unwrap_or(0), f.u16().unwrap_or(0));
    let fault = match magic {
        Ok(block::MAGIC) if major == block::MAJOR => None,
        Ok(block::MAGIC) => Some(Error::Newer { major }),
        _ => Some(Error::NotScap),
    };
    let Some(left) = (len as usize).checked_sub(block::FRAME_LEN + block::SECTION_BODY_LEN) else {
        return Ok(decoder.stop(|| format!("a section's header of {len} bytes")));
    };
    match fault {
        Some(fault) if decoder.has_section => return Ok(decoder.stop(|| fault.to_string())),
        Some(fault) => return Err(fault),
        None => {}
    }
    decoder.has_section = true;
    decoder.is_after_event = false;
    decoder.counts.lists.receive(0, needed as u64);
    decoder.counts.lists.pass(0, needed as u64);
    // Options follow: comments and the like.
    decoder.state = match left {
        0 => State::Trailer { len },
        left => State::Skip { left: left + 4, is_shed: false },
    };
    let found = decoder.hold(Some(Listed::Section { minor }));
    Ok(Step::Read(needed, found))
}

/// Reads the description of the machine.
fn machine(decoder: &mut Decoder, len: u32) -> Step {
    let needed = block::HEAD_LEN + lists::MACHINE_LEN;
    if (len as usize) < block::FRAME_LEN + lists::MACHINE_LEN {
        return decoder
            .stop(|| format!("wrong block total length, header={len}: no machine fits in"));
    }
    let Some(body) = decoder.unread().get(block::HEAD_LEN..needed) else {
        return Step::Needs(needed);
    };
    let read = lists::machine(body);
    decoder.counts.lists.receive(1, needed as u64);
    decoder.counts.lists.pass(1, needed as u64);
    decoder.state = match len as usize - block::FRAME_LEN - lists::MACHINE_LEN {
        0 => State::Trailer { len },
        left => State::Skip { left: left + 4, is_shed: false },
    };
    let found = decoder.hold(read.ok().map(Listed::Machine));
    Step::Read(needed, found)
}

/// Reads what is not the head of a block.
fn inside(decoder: &mut Decoder) -> Step {
    match decoder.state {
        State::Between => Step::Needs(block::HEAD_LEN),
        State::List { kind, left, len, tid } => entry(decoder, kind, left, (len, tid)),
        State::Trailer { len } => {
            let Some(trailer) = decoder.unread().first_chunk().map(|b| u32::from_le_bytes(*b))
            else {
                return Step::Needs(4);
            };
            decoder.counts.lists.receive(0, 4);
            decoder.counts.lists.pass(0, 4);
            if trailer == len {
                decoder.state = State::Between;
            } else {
                let _ = decoder
                    .stop(|| format!("wrong block total length, header={len}, trailer={trailer}"));
            }
            Step::Read(4, None)
        }
        State::Skip { left, is_shed } => {
            let skipped = left.min(decoder.unread().len());
            if skipped == 0 {
                return Step::Needs(1);
            }
            let ledger = &mut decoder.counts.lists;
            ledger.receive(0, skipped as u64);
            if is_shed {
                ledger.shed(ShedReason::UnreadableRecord, 0, skipped as u64)
            } else {
                ledger.pass(0, skipped as u64)
            }
            decoder.state = match left - skipped {
                0 => State::Between,
                left => State::Skip { left, is_shed },
            };
            Step::Read(skipped, None)
        }
        State::Stopped => {
            let rest = decoder.unread().len();
            if rest == 0 {
                return Step::Needs(1);
            }
            decoder.counts.lists.receive(0, rest as u64);
            decoder.counts.lists.shed(ShedReason::UnreadableRecord, 0, rest as u64);
            Step::Read(rest, None)
        }
    }
}

/// Reads the next entry of a list.
fn entry(
    decoder: &mut Decoder,
    kind: ListKind,
    left: usize,
    (len, tid): (u32, Option<i64>),
) -> Step {
    let available = decoder.unread().len();
    if left < 4 {
        // Padding.
        if available < left {
            return Step::Needs(left);
        }
        decoder.counts.lists.receive(0, left as u64);
        decoder.counts.lists.pass(0, left as u64);
        decoder.state = State::Trailer { len };
        return Step::Read(left, None);
    }
    let bytes = decoder.unread();
    let bytes = bytes.get(..left.min(available)).unwrap_or_default();
    let read = match (kind, tid) {
        (ListKind::Processes(version), _) => {
            lists::process(bytes, version).map(|(entry, n)| (Some(Listed::Process(entry)), n))
        }
        (ListKind::Fds(_), None) => {
            let tid = Fields::new(bytes).i64();
            tid.map(|tid| {
                decoder.state = State::List { kind, left, len, tid: Some(tid) };
                (None, 8)
            })
        }
        (ListKind::Fds(version), Some(tid)) => {
            lists::fd(bytes, version, tid).map(|(entry, n)| (Some(Listed::Fd(entry)), n))
        }
        (ListKind::Interfaces(version), _) => {
            lists::interface(bytes, version).map(|(entry, n)| (Some(Listed::Interface(entry)), n))
        }
        (ListKind::Users(version), _) => {
            lists::user(bytes, version).map(|(entry, n)| (Some(Listed::User(entry)), n))
        }
    };
    let items = if matches!(read, Ok((None, _))) { 0 } else { 1 };
    match read {
        Ok((found, read)) => {
            decoder.counts.lists.receive(items, read as u64);
            decoder.counts.lists.pass(items, read as u64);
            if let State::List { left, .. } = &mut decoder.state {
                *left = left.saturating_sub(read);
            }
            let found = decoder.hold(found);
            Step::Read(read, found)
        }
        Err(Fault::Short) if available < left && available < limits::ENTRY_MAX => {
            Step::Needs(available + 1)
        }
        Err(fault) => {
            decoder.note(|| format!("{fault} (in a list of {})", name_of(kind)));
            decoder.counts.lists.receive(1, 0);
            decoder.counts.lists.shed(ShedReason::UnreadableRecord, 1, 0);
            decoder.state = State::Skip { left: left.saturating_add(4), is_shed: true };
            Step::Read(0, None)
        }
    }
}

const fn name_of(kind: ListKind) -> &'static str {
    match kind {
        ListKind::Processes(_) => "processes",
        ListKind::Fds(_) => "descriptors",
        ListKind::Interfaces(_) => "interfaces",
        ListKind::Users(_) => "users",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::{event_type, types};
    use crate::writer::Writer;

    /// However long a file is, the decoder holds a piece of the input and the block that it cuts.
    #[test]
    fn a_warm_decoder_keeps_its_buffer() {
        let mut writer = Writer::new(Vec::new());
        writer.section().unwrap();
        let kind = event_type(types::CLOSE_X).unwrap();
        let values = Values::new(kind, &[8, 0, 8, 0], &[1; 16]);
        let (number, raw_number, cpu) = (0, 0, 0);
        for ts_ns in 0..100_000 {
            let event = Event {
                number,
                raw_number,
                ts_ns,
                tid: 7,
                cpu,
                flags: 0,
                values,
                enter: None,
                live: LiveValues::default(),
            };
            writer.event(&event).unwrap();
        }
        let file = writer.finish().unwrap();
        let mut decoder = Decoder::new();
        let (mut events, mut warm) = (0, None);
        for piece in file.chunks(10_000) {
            decoder.push(piece);
            while let Some(item) = decoder.next_item().unwrap() {
                events += u64::from(matches!(item, Item::Event(_)));
            }
            if events > 1000 {
                let capacity = *warm.get_or_insert(decoder.buffer.capacity());
                assert_eq!(decoder.buffer.capacity(), capacity);
            }
        }
        assert_eq!(events, 100_000);
        assert!(warm.is_some_and(|capacity| capacity < 64 << 10), "{warm:?}");
    }
}
