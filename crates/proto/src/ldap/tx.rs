//! A transaction: a request with its responses, or a response without a request.

use super::log;
use super::message::{Message, Operation, Span};
use super::tables::{buffer, integer};
use crate::transaction::EventList;
use crate::{Buffer, Inspect, LogOptions, Transaction};
use gabion_record::Direction::{self, ToClient, ToServer};
use gabion_record::json::Json;
use std::any::Any;

/// A request with its responses.
#[derive(Debug)]
pub struct LdapTx {
    /// Number in its flow.
    pub id: u64,
    /// The request.
    pub request: Option<Message>,
    /// The responses.
    pub responses: Vec<Message>,
    /// For each response: how many attributes the responses up to it have.
    pub(super) attribute_ends: Vec<usize>,
    /// Nothing more is expected.
    pub(super) is_complete: bool,
    /// The direction has ended.
    pub(super) has_ended: [bool; 2],
    pub(super) events: EventList,
}

impl LdapTx {
    pub(super) fn new(id: u64) -> LdapTx {
        LdapTx {
            id,
            request: None,
            responses: Vec::new(),
            attribute_ends: Vec::new(),
            is_complete: false,
            has_ended: [false; 2],
            events: EventList::default(),
        }
    }

    pub(super) fn add_response(&mut self, message: Message) {
        let before = self.attribute_ends.last().copied().unwrap_or(0);
        self.attribute_ends.push(before + message.attributes().len());
        self.responses.push(message);
    }

    /// Bytes that its messages take.
    pub(super) fn message_bytes(&self) -> usize {
        self.request.iter().chain(&self.responses).map(Message::cost).sum()
    }

    /// The entry that the request is about.
    fn request_dn(&self) -> Option<&[u8]> {
        let request = self.request.as_ref()?;
        if let Operation::Search(search) = &request.operation {
            return Some(request.bytes(search.base));
        }
        let (Operation::Bind { name, .. }
        | Operation::Modify { object: name, .. }
        | Operation::Add { entry: name, .. }
        | Operation::Delete(name)
        | Operation::ModifyDn { entry: name, .. }
        | Operation::Compare { entry: name, .. }) = &request.operation
        else {
            return None;
        };
        Some(request.bytes(*name))
    }

    fn request_attribute(&self, index: usize) -> Option<&[u8]> {
        let request = self.request.as_ref()?;
        let span = if let Operation::Search(search) = &request.operation {
            *search.attributes.get(index)?
        } else if let Operation::Modify { changes, .. } = &request.operation {
            changes.get(index)?.attribute.name
        } else if let Operation::Compare { attribute, .. } = &request.operation {
            Some(*attribute).filter(|_| index == 0)?
        } else {
            request.attributes().get(index)?.name
        };
        Some(request.bytes(span))
    }

    /// Attribute `index` of all responses together.
    fn response_attribute(&self, index: usize) -> Option<&[u8]> {
        let at = self.attribute_ends.partition_point(|end| *end <= index);
        let before = at.checked_sub(1).and_then(|at| self.attribute_ends.get(at));
        let response = self.responses.get(at)?;
        let attribute = response.attributes().get(index - before.copied().unwrap_or(0))?;
        Some(response.bytes(attribute.name))
    }

    fn response_dn(&self, index: usize) -> Option<&[u8]> {
        let response = self.responses.get(index)?;
        if let Operation::Entry { name, .. } = &response.operation {
            return Some(response.bytes(*name));
        }
        Some(response.bytes(response.result().map_or(Span::default(), |r| r.matched_dn)))
    }
}

impl Transaction for LdapTx {
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
        let data = match (local, direction) {
            (buffer::REQUEST_DN, ToServer) if index == 0 => self.request_dn()?,
            (buffer::REQUEST_ATTRIBUTE, ToServer) => self.request_attribute(index)?,
            (buffer::RESPONSES_DN, ToClient) => self.response_dn(index)?,
            (buffer::RESPONSES_MESSAGE, ToClient) => {
                let response = self.responses.get(index)?;
                response.bytes(response.result().map_or(Span::default(), |r| r.message))
            }
            (buffer::RESPONSES_ATTRIBUTE, ToClient) => self.response_attribute(index)?,
            _ => return None,
        };
        Some(Buffer::whole(data))
    }

    fn integer(&self, local: u16, direction: Direction, index: usize) -> Option<u64> {
        match (local, direction) {
            (integer::REQUEST_OPERATION, ToServer) if index == 0 => {
                Some(self.request.as_ref()?.code.into())
            }
            (integer::RESPONSES_OPERATION, ToClient) => {
                Some(self.responses.get(index)?.code.into())
            }
            (integer::RESPONSES_COUNT, ToClient) if index == 0 => Some(self.responses.len() as u64),
            (integer::RESULT_CODE, ToClient) => {
                let mut results = self.responses.iter().filter_map(Message::result);
                results.nth(index).map(|r| r.code.into())
            }
            _ => None,
        }
    }

    fn events(&self) -> &[u16] {
        self.events.codes()
    }

    fn log(&self, json: &mut Json, _: LogOptions<'_>) -> bool {
        log::write(self, json);
        true
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}
