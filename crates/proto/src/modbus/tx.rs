//! A transaction: a request with its response, or one of them alone.

use super::function::access::{READ, WRITE};
use super::log;
use super::message::{Message, fault};
use super::tables::event;
use crate::transaction::EventList;
use crate::{Buffer, Inspect, LogOptions, Transaction};
use gabion_record::Direction::{self, ToClient, ToServer};
use gabion_record::json::Json;
use std::any::Any;

/// A request with its response.
#[derive(Debug)]
pub struct ModbusTx {
    /// Number in its flow.
    pub id: u64,
    pub(super) request: Option<Message>,
    pub(super) response: Option<Message>,
    pub(super) events: EventList,
}

impl ModbusTx {
    /// A transaction of which nothing came yet.
    pub(super) fn new(id: u64) -> ModbusTx {
        ModbusTx { id, request: None, response: None, events: EventList::default() }
    }

    /// The message of a direction.
    pub(super) fn message(&self, direction: Direction) -> Option<&Message> {
        match direction {
            ToServer => self.request.as_ref(),
            ToClient => self.response.as_ref(),
        }
    }

    /// Adds the message of a direction, with the events that its faults are.
    pub(super) fn add(&mut self, direction: Direction, mut message: Message) {
        let other = self.message(direction.opposite());
        let is_answer = match (direction, other) {
            (_, None) => true,
            (ToServer, Some(response)) => message.is_answered_by(response),
            (ToClient, Some(request)) => request.is_answered_by(&message),
        };
        if !is_answer {
            message.faults |= fault::VALUE;
        }
        let is_mismatch = direction == ToClient
            && message.access() & (READ | WRITE) != 0
            && message.faults & (fault::VALUE | fault::LENGTH) != 0;
        if is_mismatch {
            self.events.add(event::VALUE_MISMATCH);
        } else {
            for (bit, code) in [
                (fault::VALUE, event::INVALID_VALUE),
                (fault::LENGTH, event::INVALID_LENGTH),
                (fault::EXCEPTION_CODE, event::INVALID_EXCEPTION_CODE),
                (fault::FUNCTION_CODE, event::INVALID_FUNCTION_CODE),
                (fault::PROTOCOL, event::INVALID_PROTOCOL_ID),
            ] {
                if message.faults & bit != 0 {
                    self.events.add(code);
                }
            }
        }
        if direction == ToClient && self.request.is_none() {
            self.events.add(event::UNSOLICITED_RESPONSE);
        }
        match direction {
            ToServer => self.request = Some(message),
            ToClient => self.response = Some(message),
        }
    }

    /// Bytes held.
    pub(super) fn bytes_held(&self) -> usize {
        [&self.request, &self.response].into_iter().flatten().map(Message::bytes_held).sum()
    }
}

impl Transaction for ModbusTx {
    fn id(&self) -> u64 {
        self.id
    }

    fn progress(&self, _: Direction) -> u8 {
        self.response.is_some().into()
    }

    fn buffer(&self, _: u16, _: Direction, _: usize, _: Inspect) -> Option<Buffer<'_>> {
        None
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
