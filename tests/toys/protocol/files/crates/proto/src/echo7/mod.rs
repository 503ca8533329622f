//! Echo over UDP (RFC 862): each datagram is sent back as it came.

mod tables;

use crate::datagrams::{Message, Refused, one_datagram, protocol};
use crate::detect::{PortProbe, Probe};
use crate::protocol::Protocol;
use crate::{Buffer, EventList, Inspect, LogOptions, Transaction};
use gabion_record::Direction;
use gabion_record::applayer::Transport;
use gabion_record::json::Json;
use tables::event;

/// Bytes of a text that are kept.
const TEXT_BYTES_MAX: usize = 256;

/// A datagram.
#[derive(Debug)]
pub struct Echo7Tx {
    id: u64,
    direction: Direction,
    text: Vec<u8>,
    events: EventList,
}

impl Message for Echo7Tx {
    fn parse_datagram(id: u64, direction: Direction, bytes: &[u8]) -> Result<Echo7Tx, Refused> {
        let mut events = EventList::default();
        if bytes.len() > TEXT_BYTES_MAX {
            events.set(event::LONG_TEXT);
        }
        let text = bytes[..bytes.len().min(TEXT_BYTES_MAX)].to_vec();
        Ok(Echo7Tx { id, direction, text, events })
    }

    fn bytes_held(&self) -> usize {
        size_of::<Echo7Tx>() + self.text.capacity()
    }
}

impl Transaction for Echo7Tx {
    one_datagram!();

    fn buffer(&self, _: u16, _: Direction, index: usize, _: Inspect) -> Option<Buffer<'_>> {
        (index == 0).then(|| Buffer::whole(&self.text))
    }

    fn log(&self, json: &mut Json, _: LogOptions<'_>) -> bool {
        json.field("text", &self.text);
        true
    }
}

/// Echo in the registry.
pub const PROTOCOL: &Protocol = &protocol::<Echo7Tx>(
    tables::TABLE,
    &[PortProbe {
        transport: Transport::Udp,
        ports: "7",
        min_bytes: 1,
        max_bytes: 0,
        probe: |_, _| Probe::Yes,
    }],
);
