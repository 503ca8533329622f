//! A transaction: a stream, or a frame that concerns the whole connection.

use super::dns::DnsExchange;
use super::frame::kind;
use super::hpack::FieldKind;
use super::side::Side;
use crate::transaction::EventList;
use gabion_record::Direction;

/// How far a stream is: the number is the progress of both directions, as in Suricata's reports on rules.
pub(crate) mod state {
    pub(crate) const IDLE: u8 = 0;
    pub(crate) const OPEN: u8 = 1;
    pub(crate) const RESERVED: u8 = 2;
    pub(crate) const DATA_CLIENT: u8 = 3;
    pub(crate) const HALF_CLOSED_CLIENT: u8 = 4;
    pub(crate) const DATA_SERVER: u8 = 5;
    pub(crate) const HALF_CLOSED_SERVER: u8 = 6;
    pub(crate) const CLOSED: u8 = 7;
}

/// The state after a frame. A server that ends a stream while the client still sends closes it once data of the
/// server has come: measured with Suricata 8.0.7.
pub(crate) fn next_state(now: u8, direction: Direction, frame: u8, is_end: bool) -> u8 {
    use state::*;
    let is_client = direction == Direction::ToServer;
    if is_end {
        let is_over = if is_client {
            now == HALF_CLOSED_SERVER
        } else {
            matches!(now, HALF_CLOSED_CLIENT | DATA_SERVER)
        };
        let half_closed = if is_client { HALF_CLOSED_CLIENT } else { HALF_CLOSED_SERVER };
        return if is_over { CLOSED } else { now.max(half_closed) };
    }
    now.max(match frame {
        kind::DATA if is_client => DATA_CLIENT,
        kind::DATA => DATA_SERVER,
        kind::PUSH_PROMISE => RESERVED,
        _ => OPEN,
    })
}

/// A stream, or a frame of the whole connection.
#[derive(Debug)]
pub struct Http2Tx {
    pub(crate) id: u64,
    /// Number of its stream; 0: the connection.
    pub(crate) stream: u32,
    pub(crate) state: u8,
    pub(crate) sides: [Side; 2],
    pub(crate) dns: Option<Box<DnsExchange>>,
    pub(crate) events: EventList,
}

impl Http2Tx {
    pub(crate) fn new(id: u64, stream: u32) -> Http2Tx {
        let state = if stream == 0 { state::CLOSED } else { state::IDLE };
        Http2Tx {
            id,
            stream,
            state,
            sides: Default::default(),
            dns: None,
            events: EventList::default(),
        }
    }

    /// What a direction brought.
    pub(crate) fn side(&self, direction: Direction) -> &Side {
        &self.sides[direction.index()]
    }

    pub(crate) fn side_mut(&mut self, direction: Direction) -> &mut Side {
        &mut self.sides[direction.index()]
    }

    /// The first value of a field: what the client sent counts, and of a stream that the server promised
    /// what the server said the client would send.
    pub(crate) fn request_header(&self, name: &[u8]) -> Option<&[u8]> {
        let [client, server] = &self.sides;
        client.header(name).or_else(|| server.header(name))
    }

    pub(crate) fn bytes_held(&self) -> usize {
        let dns = self.dns.as_ref().map_or(0, |d| d.bytes_held());
        size_of::<Http2Tx>() + self.sides.iter().map(Side::bytes_held).sum::<usize>() + dns
    }

    /// Sizes that a side announced for the table of the other.
    pub(crate) fn size_updates(&self, direction: Direction) -> impl Iterator<Item = u64> {
        let fields = self.side(direction).headers.iter().flat_map(|list| list.iter());
        fields.filter_map(|(kind, ..)| match kind {
            FieldKind::SizeUpdate(size) => Some(size),
            FieldKind::Named | FieldKind::Error(_) => None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use Direction::{ToClient, ToServer};

    /// Runs of Suricata 8.0.7 over streams of which rules and records show when they are complete.
    #[test]
    fn streams_close_as_in_suricata() {
        type Frames<'a> = &'a [(Direction, u8, bool)];
        let cases: [(Frames<'_>, u8); 6] = [
            (&[(ToServer, kind::HEADERS, true), (ToClient, kind::HEADERS, true)], state::CLOSED),
            (&[(ToServer, kind::HEADERS, false), (ToClient, kind::HEADERS, true)], 6),
            (
                &[
                    (ToServer, kind::HEADERS, false),
                    (ToServer, kind::DATA, false),
                    (ToClient, kind::HEADERS, false),
                    (ToClient, kind::DATA, false),
                    (ToServer, kind::DATA, false),
                    (ToClient, kind::DATA, true),
                ],
                state::CLOSED,
            ),
            (
                &[
                    (ToServer, kind::HEADERS, false),
                    (ToClient, kind::DATA, false),
                    (ToServer, kind::DATA, true),
                ],
                state::DATA_SERVER,
            ),
            (&[(ToClient, kind::PUSH_PROMISE, false), (ToClient, kind::DATA, true)], 6),
            (&[(ToClient, kind::HEADERS, true), (ToServer, kind::DATA, true)], state::CLOSED),
        ];
        for (frames, expected) in cases {
            let end = frames.iter().fold(0, |now, (d, kind, end)| next_state(now, *d, *kind, *end));
            assert_eq!(end, expected, "{frames:?}");
        }
    }
}
