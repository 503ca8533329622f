//! A transaction: a command with its replies, or replies without a command.

use super::command::Command;
use super::tables::{buffer, mode_name};
use crate::transaction::EventList;
use crate::{Buffer, Inspect, LogOptions, Transaction};
use gabion_record::Direction::{self, ToClient, ToServer};
use gabion_record::json::Json;
use gabion_record::logs::{Body, Ftp};
use gabion_record::{TakeReport, TxReport};
use std::any::Any;

/// A line of a reply.
#[derive(Clone, Debug)]
pub struct Reply {
    /// Its code, when a blank follows it.
    pub code: Option<[u8; 3]>,
    /// What follows the code, or all of it.
    pub text: Vec<u8>,
}

/// A command with its replies.
#[derive(Debug)]
pub struct FtpTx {
    /// Number in its flow.
    pub id: u64,
    /// The command. None if there was none, or if a reply came after a command that is not known.
    pub command: Option<Command>,
    /// The line, without its line end and blanks before that.
    pub request: Vec<u8>,
    /// The line was cut.
    pub is_request_cut: bool,
    /// A reply opened it.
    pub is_reply_only: bool,
    /// Reply lines.
    pub replies: Vec<Reply>,
    /// A reply line was cut.
    pub is_reply_cut: bool,
    /// A reply came that is not preliminary.
    pub is_replied: bool,
    /// Port that was agreed upon.
    pub dynamic_port: Option<u16>,
    /// The client listens on it.
    pub is_active: bool,
    /// `PORT` names another address than the client's.
    pub is_bounce: bool,
    pub(super) reply_bytes: usize,
    pub(super) events: EventList,
    pub(super) has_ended: [bool; 2],
}

impl FtpTx {
    pub(super) fn new(id: u64) -> FtpTx {
        FtpTx {
            id,
            command: None,
            request: Vec::new(),
            is_request_cut: false,
            is_reply_only: false,
            replies: Vec::new(),
            is_reply_cut: false,
            is_replied: false,
            dynamic_port: None,
            is_active: false,
            is_bounce: false,
            reply_bytes: 0,
            events: EventList::default(),
            has_ended: [false; 2],
        }
    }

    /// What follows the command's name, counted from the beginning of the line whatever was
    /// before the name (Suricata's behaviour).
    pub fn command_data(&self) -> Option<&[u8]> {
        let from = self.command?.name.len() + 1;
        self.request.get(from..).filter(|d| !d.is_empty())
    }

    /// Bytes held.
    pub fn bytes_held(&self) -> usize {
        size_of::<FtpTx>()
            + self.request.capacity()
            + self.replies.capacity() * size_of::<Reply>()
            + self.reply_bytes
    }

    fn write(&self, json: &mut Json) {
        if let Some(command) = self.command {
            json.field_plain("command", command.name);
            if let Some(data) = self.command_data() {
                json.field("command_data", data);
                json.boolean("command_truncated", self.is_request_cut);
            }
        }
        if self.replies.iter().any(|r| r.code.is_some()) {
            json.open_array_key("completion_code");
            for code in self.replies.iter().filter_map(|r| r.code) {
                json.item(code);
            }
            json.close_array();
        }
        if !self.replies.is_empty() {
            json.open_array_key("reply");
            for r in &self.replies {
                json.item(String::from_utf8_lossy(&r.text).as_ref());
            }
            json.close_array();
        }
        if let Some(port) = self.dynamic_port {
            json.number("dynamic_port", port);
        }
        if let Some(mode) = self.command.and_then(|c| mode_name(c.kind, self.is_active)) {
            json.field_plain("mode", mode);
        }
        json.field_plain("reply_received", if self.is_replied { "yes" } else { "no" });
        json.boolean("reply_truncated", self.is_reply_cut);
    }
}

impl Transaction for FtpTx {
    fn id(&self) -> u64 {
        self.id
    }

    fn progress(&self, direction: Direction) -> u8 {
        let is_asked = direction == ToServer && self.command.is_some();
        u8::from(is_asked || self.is_replied || self.has_ended[direction.index()])
    }

    fn only(&self) -> Option<Direction> {
        self.is_reply_only.then_some(ToClient)
    }

    fn log_direction(&self, _: LogOptions<'_>) -> Direction {
        ToServer
    }

    fn buffer(
        &self,
        local: u16,
        direction: Direction,
        index: usize,
        _: Inspect,
    ) -> Option<Buffer<'_>> {
        // Suricata asks no rule about a reply that no known command has asked for.
        self.command?;
        let data = match (local, direction) {
            (buffer::COMMAND, ToServer) if index == 0 => self.command?.name.as_bytes(),
            (buffer::COMMAND_DATA, ToServer) if index == 0 => self.command_data()?,
            (buffer::REPLY, ToClient) => &self.replies.get(index)?.text,
            (buffer::COMPLETION_CODE, ToClient) => {
                self.replies.iter().filter_map(|r| r.code.as_ref()).nth(index)?
            }
            _ => return None,
        };
        Some(Buffer::whole(data))
    }

    fn integer(&self, _: u16, _: Direction, index: usize) -> Option<u64> {
        self.dynamic_port.filter(|_| index == 0).map(u64::from)
    }

    fn events(&self) -> &[u16] {
        self.events.codes()
    }

    fn log(&self, json: &mut Json, _: LogOptions<'_>) -> bool {
        self.write(json);
        true
    }

    fn report(&self, to: TakeReport<'_>) {
        let command = self.command.map_or(&[][..], |command| command.name.as_bytes());
        let ftp = Ftp { data_port: self.dynamic_port.unwrap_or(0), command };
        to(&TxReport::from_body(Body::Ftp(ftp)));
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}
