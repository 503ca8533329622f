//! A transaction: a request with its answers, or a message that is not answered.

use super::log;
use super::message::{Body, Connect, Message, Span};
use super::tables::{buffer, integer};
use crate::transaction::EventList;
use crate::{Buffer, Inspect, LogOptions, Transaction};
use gabion_record::Direction;
use gabion_record::json::Json;
use smallvec::SmallVec;
use std::any::Any;

/// Messages that belong together.
#[derive(Debug)]
pub struct MqttTx {
    /// Number in its flow.
    pub id: u64,
    /// Direction in which it began.
    pub direction: Direction,
    /// Its messages; none when they can't be read.
    pub messages: SmallVec<[Message; 1]>,
    /// Version of the session's last CONNECT, 0 before it.
    pub version: u8,
    /// Topics that rules look at, of a SUBSCRIBE and of an UNSUBSCRIBE.
    pub(super) matched_max: [u32; 2],
    /// Nothing more is expected.
    pub(super) is_complete: bool,
    pub(super) events: EventList,
}

impl MqttTx {
    fn connect(&self) -> Option<(&Message, &Connect)> {
        self.messages.iter().find_map(|m| {
            let Body::Connect(c) = &m.body else { return None };
            Some((m, c.as_ref()))
        })
    }

    fn of_connect(&self, pick: impl Fn(&Connect) -> Option<Span>) -> Option<&[u8]> {
        let (message, connect) = self.connect()?;
        Some(message.bytes(pick(connect)?))
    }

    fn topic(&self, index: usize) -> Option<&[u8]> {
        let max = self.matched_max[0] as usize;
        let mut all = self.messages.iter().flat_map(|m| {
            let topics = if let Body::Subscribe { topics, .. } = &m.body { &**topics } else { &[] };
            topics.iter().take(max).map(|(span, _)| m.bytes(*span))
        });
        all.nth(index)
    }

    fn dropped_topic(&self, index: usize) -> Option<&[u8]> {
        let max = self.matched_max[1] as usize;
        let mut all = self.messages.iter().flat_map(|m| {
            let topics =
                if let Body::Unsubscribe { topics, .. } = &m.body { &**topics } else { &[] };
            topics.iter().take(max).map(|span| m.bytes(*span))
        });
        all.nth(index)
    }

    fn code(&self, mut index: usize) -> Option<u8> {
        for codes in self.messages.iter().map(Message::codes) {
            match codes.get(index) {
                Some(code) => return Some(*code),
                None => index -= codes.len(),
            }
        }
        None
    }

    fn of_publish(&self, wants_topic: bool) -> Option<&[u8]> {
        self.messages.iter().find_map(|m| {
            let Body::Publish { topic, message, .. } = &m.body else { return None };
            Some(m.bytes(if wants_topic { *topic } else { *message }))
        })
    }

    /// All values of an integer.
    pub(super) fn values(&self, local: u16) -> impl Iterator<Item = u64> {
        (0..).map_while(move |i| self.integer(local, self.direction, i))
    }

    /// Bytes that its messages take, as the limit of a flow counts them.
    pub(super) fn message_bytes(&self) -> usize {
        self.messages.iter().map(Message::cost).sum()
    }
}

impl Transaction for MqttTx {
    fn id(&self) -> u64 {
        self.id
    }

    fn progress(&self, _: Direction) -> u8 {
        self.is_complete.into()
    }

    fn only(&self) -> Option<Direction> {
        Some(self.direction)
    }

    fn buffer(&self, local: u16, _: Direction, index: usize, _: Inspect) -> Option<Buffer<'_>> {
        let data = match (local, index) {
            (buffer::SUBSCRIBE_TOPIC, _) => self.topic(index)?,
            (buffer::UNSUBSCRIBE_TOPIC, _) => self.dropped_topic(index)?,
            (_, 1..) => return None,
            (buffer::CLIENT_ID, _) => self.of_connect(|c| Some(c.client_id))?,
            (buffer::PROTOCOL, _) => self.of_connect(|c| Some(c.protocol))?,
            (buffer::USERNAME, _) => self.of_connect(|c| c.username)?,
            (buffer::PASSWORD, _) => self.of_connect(|c| c.password)?,
            (buffer::WILL_TOPIC, _) => self.of_connect(|c| c.will.map(|(topic, _)| topic))?,
            (buffer::WILL_MESSAGE, _) => self.of_connect(|c| c.will.map(|(_, message)| message))?,
            (buffer::PUBLISH_TOPIC, _) => self.of_publish(true)?,
            (buffer::PUBLISH_MESSAGE, _) => self.of_publish(false)?,
            _ => return None,
        };
        // What is empty is not there, for Suricata.
        (!data.is_empty()).then(|| Buffer::whole(data))
    }

    fn integer(&self, local: u16, _: Direction, index: usize) -> Option<u64> {
        let header = || self.messages.get(index).map(|m| m.header);
        Some(match local {
            integer::TYPE => header()?.kind().into(),
            integer::QOS => header()?.qos().into(),
            // Dup and retain stay where they are in the header.
            integer::FLAGS => u64::from(header()?.first & 0x09),
            integer::CONNECT_FLAGS if index == 0 => self.connect()?.1.flags.into(),
            integer::VERSION if index == 0 => self.version.into(),
            integer::REASON_CODE => self.code(index)?.into(),
            integer::SESSION_PRESENT => {
                let mut answers = self.messages.iter().filter_map(|m| {
                    let Body::Connack { session_present, .. } = m.body else { return None };
                    Some(session_present)
                });
                answers.nth(index)?.into()
            }
            _ => return None,
        })
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
