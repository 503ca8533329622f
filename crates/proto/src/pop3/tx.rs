//! A transaction: a command with its response, or a response that nobody asked for.

use super::command::{Lines, Request};
use super::log;
use crate::transaction::EventList;
use crate::{Buffer, Inspect, LogOptions, Transaction};
use gabion_record::Direction;
use gabion_record::json::Json;
use std::any::Any;

/// A response.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Response {
    /// It is positive.
    pub is_positive: bool,
    /// What follows the status in the first line.
    pub header: Vec<u8>,
    /// Further lines.
    pub lines: Vec<Vec<u8>>,
}

/// A command with its response.
#[derive(Debug)]
pub struct Pop3Tx {
    /// Number in its flow.
    pub id: u64,
    /// The command.
    pub request: Option<Request>,
    /// The response, if it is kept.
    pub response: Option<Response>,
    /// What a positive response looks like.
    pub(super) lines: Lines,
    /// The response is complete, or nobody waits for it.
    pub(super) is_complete: bool,
    pub(super) has_ended: [bool; 2],
    pub(super) events: EventList,
}

impl Pop3Tx {
    pub(super) fn new(id: u64, request: Option<Request>, lines: Lines) -> Pop3Tx {
        Pop3Tx {
            id,
            request,
            response: None,
            lines,
            is_complete: false,
            has_ended: [false; 2],
            events: EventList::default(),
        }
    }

    /// Bytes held.
    pub(super) fn bytes_held(&self) -> usize {
        let of = |lines: &[Vec<u8>]| -> usize {
            lines.iter().map(|l| l.capacity() + size_of::<Vec<u8>>()).sum()
        };
        let request = self.request.as_ref().map_or(0, |r| r.command.len() + of(&r.arguments));
        let response = self.response.as_ref().map_or(0, |r| r.header.len() + of(&r.lines));
        size_of::<Pop3Tx>() + request + response
    }
}

impl Transaction for Pop3Tx {
    fn id(&self) -> u64 {
        self.id
    }

    fn progress(&self, direction: Direction) -> u8 {
        u8::from(self.is_complete || self.has_ended[direction.index()])
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
