//! A transaction: a request with what the server answers to it.

use super::limits::reached;
use super::log;
use super::tables::{buffer, event};
use crate::transaction::EventList;
use crate::{Buffer, Inspect, LogOptions, Transaction};
use gabion_record::Direction;
use gabion_record::json::Json;
use std::any::Any;

/// A text of a message.
pub(super) type Text = Box<[u8]>;

/// A name and its value.
pub(super) type Parameter = (Text, Text);

/// A startup message.
#[derive(Debug)]
pub(super) struct Startup {
    /// Major and minor version of the protocol.
    pub(super) version: (u16, u16),
    pub(super) user: Text,
    pub(super) parameters: Box<[Parameter]>,
}

/// What a client asked. A member is that of the last message that has it.
#[derive(Debug, Default)]
pub(super) struct Request {
    /// What the record's `message` says.
    pub(super) message: Option<&'static str>,
    pub(super) startup: Option<Startup>,
    pub(super) query: Option<Text>,
    pub(super) password: Option<Text>,
    /// Mechanism, and what it was started with.
    pub(super) sasl: Option<(&'static str, Text)>,
    pub(super) sasl_response: Option<Text>,
    /// Process and key of the session that is to be cancelled.
    pub(super) cancel: Option<(u32, u32)>,
    /// Messages of a copy, and their bytes.
    pub(super) copied: Option<(u64, u64)>,
    pub(super) copy_fail: Option<Text>,
}

/// What the server answered. A member is that of the last message that has it.
#[derive(Debug, Default)]
pub(super) struct Response {
    pub(super) message: Option<Message>,
    pub(super) ssl_accepted: Option<bool>,
    pub(super) salt: Option<Text>,
    pub(super) sasl_final: Option<Text>,
    pub(super) parameters: Vec<Parameter>,
    /// Process and key.
    pub(super) key: Option<(u32, u32)>,
    /// Columns, and whether the description is malformed.
    pub(super) fields: Option<(u16, bool)>,
    pub(super) rows: Option<(u64, u64)>,
    pub(super) command: Option<Text>,
    /// Columns, and whether the message is malformed.
    pub(super) copy_in: Option<(u16, bool)>,
    pub(super) copy_out: Option<(u16, bool)>,
    pub(super) copied: Option<(u64, u64)>,
    /// Fields of errors by type, but for their message.
    pub(super) error: Vec<(u8, Text)>,
}

/// `message` of a response.
#[derive(Debug)]
pub(super) enum Message {
    Plain(&'static str),
    OfError(Text),
}

/// A request with its response.
#[derive(Debug)]
pub struct PgsqlTx {
    /// Number in its flow.
    pub id: u64,
    pub(super) request: Option<Box<Request>>,
    pub(super) response: Option<Box<Response>>,
    /// Messages of the response that are kept.
    pub(super) responses: u64,
    /// Rows or messages of a copy since the last that summed them up, and their bytes.
    pub(super) rows: (u64, u64),
    /// Bytes of its texts.
    pub(super) text_bytes: usize,
    pub(super) is_complete: bool,
    pub(super) has_ended: [bool; 2],
    pub(super) events: EventList,
}

impl PgsqlTx {
    pub(super) fn new(id: u64) -> PgsqlTx {
        PgsqlTx {
            id,
            request: None,
            response: None,
            responses: 0,
            rows: (0, 0),
            text_bytes: 0,
            is_complete: false,
            has_ended: [false; 2],
            events: EventList::default(),
        }
    }

    pub(super) fn request(&mut self) -> &mut Request {
        self.request.get_or_insert_default()
    }

    /// The response for one more of its messages; `None` if it has as many as are kept.
    pub(super) fn next_response(&mut self, responses_max: u64) -> Option<&mut Response> {
        self.take_places(1, responses_max)?;
        Some(self.response.get_or_insert_default())
    }

    /// The same for a message that sums up the rows before it: with the sum, which has a place of its own among the
    /// messages. The rows wait for the next such message if there is no place for both.
    pub(super) fn sum_rows(
        &mut self,
        responses_max: u64,
    ) -> Option<(&mut Response, Option<(u64, u64)>)> {
        let has_rows = self.rows.0 > 0;
        self.take_places(1 + u64::from(has_rows), responses_max)?;
        let rows = has_rows.then(|| std::mem::take(&mut self.rows));
        Some((self.response.get_or_insert_default(), rows))
    }

    fn take_places(&mut self, places: u64, responses_max: u64) -> Option<()> {
        let responses = self.responses + places;
        if responses > responses_max {
            reached::RESPONSES_MAX.count();
            self.events.set(event::TOO_MANY_RESPONSES);
            return None;
        }
        self.responses = responses;
        Some(())
    }

    pub(super) fn add_row(&mut self, size: u64) {
        self.rows = (self.rows.0.saturating_add(1), self.rows.1.saturating_add(size));
    }

    /// Bytes held.
    pub(super) fn bytes_held(&self) -> usize {
        let boxes = self.request.as_ref().map_or(0, |_| size_of::<Request>())
            + self.response.as_ref().map_or(0, |_| size_of::<Response>());
        size_of::<PgsqlTx>() + boxes + self.text_bytes
    }
}

impl Transaction for PgsqlTx {
    fn id(&self) -> u64 {
        self.id
    }

    fn progress(&self, direction: Direction) -> u8 {
        u8::from(self.is_complete || self.has_ended[direction.index()])
    }

    fn buffer(
        &self,
        local: u16,
        direction: Direction,
        index: usize,
        _: Inspect,
    ) -> Option<Buffer<'_>> {
        let query = self.request.as_ref()?.query.as_ref()?;
        let is_it = local == buffer::QUERY && direction == Direction::ToServer && index == 0;
        is_it.then(|| Buffer::whole(query))
    }

    fn events(&self) -> &[u16] {
        self.events.codes()
    }

    fn log(&self, json: &mut Json, how: LogOptions<'_>) -> bool {
        log::write(self, json, how);
        true
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}
