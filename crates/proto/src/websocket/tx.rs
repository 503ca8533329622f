//! A transaction: a frame.

use super::tables::{OPCODES, buffer, integer};
use crate::transaction::EventList;
use crate::{Buffer, Inspect, LogOptions, Transaction};
use gabion_record::Direction;
use gabion_record::json::Json;
use std::any::Any;

/// A frame.
#[derive(Debug)]
pub struct WebSocketTx {
    pub(super) id: u64,
    pub(super) direction: Direction,
    /// The first four bits: the last frame of a message, a compressed message.
    pub(super) flags: u8,
    pub(super) opcode: u8,
    pub(super) mask: Option<u32>,
    /// Its payload, or the message that ends with it.
    pub(super) payload: Vec<u8>,
    pub(super) events: EventList,
}

impl Transaction for WebSocketTx {
    fn id(&self) -> u64 {
        self.id
    }

    fn progress(&self, _: Direction) -> u8 {
        1
    }

    fn only(&self) -> Option<Direction> {
        Some(self.direction)
    }

    fn buffer(&self, local: u16, _: Direction, index: usize, _: Inspect) -> Option<Buffer<'_>> {
        (local == buffer::PAYLOAD && index == 0).then(|| Buffer::whole(&self.payload))
    }

    fn integer(&self, local: u16, _: Direction, index: usize) -> Option<u64> {
        if index > 0 {
            return None;
        }
        match local {
            integer::OPCODE => Some(self.opcode.into()),
            integer::MASK => self.mask.map(u64::from),
            integer::FLAGS => Some(self.flags.into()),
            _ => None,
        }
    }

    fn events(&self) -> &[u16] {
        self.events.codes()
    }

    fn log(&self, json: &mut Json, how: LogOptions<'_>) -> bool {
        json.boolean("fin", self.flags & 0x80 != 0);
        if let Some(mask) = self.mask {
            json.number("mask", mask);
        }
        match OPCODES.iter().find(|(_, code)| *code == u64::from(self.opcode)) {
            Some((name, _)) => json.field_plain("opcode", name),
            None => json.field_plain("opcode", &format!("unknown-{}", self.opcode)),
        }
        let wants = |key| how.in_alert && how.config.and_then(|c| c.flag(key)) == Some(true);
        if wants("websocket-payload-printable") {
            json.field("payload_printable", &self.payload);
        }
        if wants("websocket-payload") {
            json.base64("payload_base64", &self.payload);
        }
        true
    }

    fn is_logged_as_packet(&self) -> bool {
        true
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}
