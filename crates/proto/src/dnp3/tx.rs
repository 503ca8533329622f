//! A transaction: one message of the application layer, or an error where there was none.

use super::limits::reached;
use super::link::LinkHeader;
use super::log;
use super::objects::{Ending, count_points};
use super::settings::Bounds;
use super::tables::event;
use crate::transaction::EventList;
use crate::{Buffer, Inspect, LogOptions, Transaction};
use gabion_record::Direction;
use gabion_record::json::Json;
use std::any::Any;

/// Bytes of a request before its objects: control and function code.
pub(super) const REQUEST_HEADER_LEN: usize = 2;

/// Bytes of a response before its objects: the same, and the internal indications.
pub(super) const RESPONSE_HEADER_LEN: usize = 4;

/// A message.
#[derive(Debug)]
pub struct Dnp3Tx {
    /// Number in its flow.
    pub id: u64,
    /// Direction of the message.
    pub direction: Direction,
    /// Link header of its first frame.
    pub link: LinkHeader,
    /// Transport header of its first frame.
    pub transport: u8,
    /// The message as far as it has come; empty where there is only an event.
    pub bytes: Vec<u8>,
    /// Group and variation of its objects.
    pub objects: Vec<(u8, u8)>,
    /// How much of it is read.
    pub bounds: Bounds,
    /// Points that its record lists; its flow had no bytes for more.
    pub listed_points: u64,
    /// Its last frame came, or it became too long.
    pub is_done: bool,
    /// All of it could be read.
    pub is_complete: bool,
    /// It will not be continued.
    pub(super) is_over: bool,
    pub(super) events: EventList,
}

impl Dnp3Tx {
    /// A message of which nothing came yet.
    pub(super) fn new(direction: Direction, link: LinkHeader, transport: u8) -> Dnp3Tx {
        Dnp3Tx {
            id: 0,
            direction,
            link,
            transport,
            bytes: Vec::new(),
            objects: Vec::new(),
            bounds: Bounds::default(),
            listed_points: 0,
            is_done: false,
            is_complete: false,
            is_over: false,
            events: EventList::default(),
        }
    }

    /// Application control: first, last, confirm, unsolicited, sequence number.
    pub fn control(&self) -> u8 {
        self.bytes.first().copied().unwrap_or(0)
    }

    /// Function code of a message.
    pub fn function(&self) -> Option<u8> {
        self.bytes.get(1).copied()
    }

    /// Internal indications of a response, the first octet in the upper half.
    pub fn indications(&self) -> Option<u16> {
        let both = self.bytes.get(REQUEST_HEADER_LEN..RESPONSE_HEADER_LEN)?.first_chunk::<2>()?;
        (self.direction == Direction::ToClient).then(|| u16::from_be_bytes(*both))
    }

    /// The objects' bytes.
    pub fn object_bytes(&self) -> &[u8] {
        let header_len = match self.direction {
            Direction::ToServer => REQUEST_HEADER_LEN,
            Direction::ToClient => RESPONSE_HEADER_LEN,
        };
        self.bytes.get(header_len..).unwrap_or_default()
    }

    /// The message came whole: its objects are read. `listed_max`: points that its record may list.
    pub(super) fn finish(&mut self, listed_max: u64) {
        let mut objects = std::mem::take(&mut self.objects);
        let (ending, points) = count_points(self.object_bytes(), self.bounds, &mut |header| {
            objects.push((header.group, header.variation));
        });
        self.listed_points = points.min(listed_max);
        reached::LISTED_POINTS_MAX.count_times(points - self.listed_points);
        self.objects = objects;
        match ending {
            Ending::Complete => self.is_complete = true,
            Ending::Cut => {}
            Ending::UnknownObject => self.events.add(event::UNKNOWN_OBJECT),
            Ending::TooManyPoints => self.events.add(event::TOO_MANY_POINTS),
            Ending::TooManyObjects => self.events.add(event::TOO_MANY_OBJECTS),
        }
        (self.is_done, self.is_over) = (true, true);
    }

    /// Bytes held.
    pub(super) fn bytes_held(&self) -> usize {
        size_of::<Dnp3Tx>() + self.bytes.capacity() + 2 * self.objects.capacity()
    }
}

impl Transaction for Dnp3Tx {
    fn id(&self) -> u64 {
        self.id
    }

    fn progress(&self, _: Direction) -> u8 {
        self.is_over.into()
    }

    fn only(&self) -> Option<Direction> {
        Some(self.direction)
    }

    fn buffer(&self, _: u16, _: Direction, index: usize, _: Inspect) -> Option<Buffer<'_>> {
        (index == 0 && !self.bytes.is_empty()).then(|| Buffer::whole(&self.bytes))
    }

    fn events(&self) -> &[u16] {
        self.events.codes()
    }

    fn log(&self, json: &mut Json, how: LogOptions<'_>) -> bool {
        log::write(self, json, how);
        // An alert has the object even where there is no message to log.
        self.is_done || how.in_alert
    }

    /// Records are from the client to the server, whichever side sent the message (Suricata 8.0.7).
    fn log_direction(&self, _: LogOptions<'_>) -> Direction {
        Direction::ToServer
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}
