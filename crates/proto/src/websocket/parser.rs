//! The parser of a flow: frames of both directions, and the messages that they are parts of.

use super::inflater::{Inflater, TAIL};
use super::limits::reached;
use super::settings::Settings;
use super::tables::{event, frame};
use super::tx::WebSocketTx;
use crate::transaction::EventList;
use crate::tx_list::{TxList, TxTable};
use crate::{Input, Outcome, ParseContext, Parser};
use gabion_record::Direction;

/// Flags of the first byte (RFC 6455 5.2, RFC 7692 6).
const FIN: u8 = 0x80;
const COMPRESSED: u8 = 0x40;

/// Opcodes from here on are of control frames, which are no parts of messages.
const CONTROL: u8 = 8;

/// The header of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Header {
    first: u8,
    mask: Option<[u8; 4]>,
    payload_len: u64,
    header_len: usize,
}

impl Header {
    /// Reads it; `None`: more bytes are needed.
    fn parse(bytes: &[u8]) -> Option<Header> {
        let (first, second) = (*bytes.first()?, *bytes.get(1)?);
        let (payload_len, at) = match second & 0x7f {
            126 => (u16::from_be_bytes(bytes.get(2..4)?.try_into().ok()?).into(), 4),
            127 => (u64::from_be_bytes(bytes.get(2..10)?.try_into().ok()?), 10),
            n => (n.into(), 2),
        };
        let (mask, header_len) = match second & 0x80 {
            0 => (None, at),
            _ => (Some(bytes.get(at..at + 4)?.try_into().ok()?), at + 4),
        };
        Some(Header { first, mask, payload_len, header_len })
    }

    fn opcode(&self) -> u8 {
        self.first & 0x0f
    }
}

/// A direction.
#[derive(Debug, Default)]
struct Sender {
    /// Bytes of a payload that are not kept.
    skip: u64,
    /// The message so far, if its last frame has not come, and whether it is compressed.
    message: Option<(Vec<u8>, bool)>,
    inflater: Option<Box<Inflater>>,
}

/// Parser of a WebSocket flow.
#[derive(Debug)]
pub struct WebSocketParser {
    settings: Settings,
    txs: TxList<WebSocketTx>,
    senders: [Sender; 2],
    /// Bytes that compressed messages were unpacked to.
    made: u64,
}

impl WebSocketParser {
    /// A parser with these settings.
    pub fn new(settings: Settings) -> WebSocketParser {
        WebSocketParser { settings, txs: TxList::default(), senders: Default::default(), made: 0 }
    }

    fn data(&mut self, cx: &mut ParseContext<'_>, bytes: &[u8]) -> Outcome {
        let d = cx.direction;
        let mut at = 0;
        loop {
            let sender = &mut self.senders[d.index()];
            let rest = bytes.get(at..).unwrap_or_default();
            let skipped = usize::try_from(sender.skip).unwrap_or(usize::MAX).min(rest.len());
            sender.skip -= skipped as u64;
            at += skipped;
            let rest = rest.get(skipped..).unwrap_or_default();
            if rest.is_empty() {
                return Outcome::Done;
            }
            let Some(header) = Header::parse(rest) else {
                return Outcome::Incomplete { consumed: at, needed: rest.len() + 1 };
            };
            let max = self.settings.payload_max;
            let kept = usize::try_from(header.payload_len).unwrap_or(usize::MAX).min(max);
            let whole = header.header_len + kept;
            let Some(payload) = rest.get(header.header_len..whole) else {
                return Outcome::Incomplete { consumed: at, needed: whole };
            };
            self.take_frame(cx, header, payload, at);
            self.senders[d.index()].skip = header.payload_len - kept as u64;
            at += whole;
        }
    }

    fn take_frame(&mut self, cx: &mut ParseContext<'_>, header: Header, payload: &[u8], at: usize) {
        let d = cx.direction;
        let mut events = EventList::default();
        if (payload.len() as u64) < header.payload_len {
            reached::PAYLOAD_BYTES_MAX.count();
            events.set(event::SKIP_END_OF_PAYLOAD);
        }
        let mut payload = payload.to_vec();
        if let Some(mask) = header.mask {
            payload.iter_mut().zip(mask.iter().cycle()).for_each(|(byte, key)| *byte ^= key);
        }
        if header.opcode() < CONTROL {
            payload = self.join_message(d, header, payload, &mut events);
        }
        // Suricata counts the transactions of frames from 1.
        let tx = Some(self.txs.next_id() + 1);
        let (head, len) = (header.header_len, header.payload_len);
        cx.frames.add(d, frame::HEADER, at, head as u64, tx);
        cx.frames.add(d, frame::PDU, at, len.saturating_add(head as u64), tx);
        cx.frames.add(d, frame::DATA, at + head, len, tx);
        let sparing = cx.sparing.as_mut();
        self.txs.push_sparing(Some(&reached::TXS_MAX), sparing, |id| WebSocketTx {
            id,
            direction: d,
            flags: header.first & 0xf0,
            opcode: header.opcode(),
            mask: header.mask.map(u32::from_be_bytes),
            payload,
            events,
        });
    }

    /// Adds a frame to its message. Returns the whole message with its last frame, else the frame's payload.
    fn join_message(
        &mut self,
        direction: Direction,
        header: Header,
        payload: Vec<u8>,
        events: &mut EventList,
    ) -> Vec<u8> {
        let max = self.settings.payload_max;
        let sender = &mut self.senders[direction.index()];
        let is_last = header.first & FIN != 0;
        let is_compressed = header.first & COMPRESSED != 0;
        let (mut message, is_compressed) = match sender.message.take() {
            Some((mut message, is_compressed)) if header.opcode() == 0 => {
                let room = max.saturating_sub(message.len()).min(payload.len());
                if room < payload.len() {
                    reached::PAYLOAD_BYTES_MAX.count();
                    events.set(event::MESSAGE_TOO_LONG);
                }
                message.extend_from_slice(payload.get(..room).unwrap_or_default());
                (message, is_compressed)
            }
            _ if is_last => (payload.clone(), is_compressed),
            _ => {
                sender.message = Some((payload.clone(), is_compressed));
                return payload;
            }
        };
        if !is_last {
            sender.message = Some((message, is_compressed));
            return payload;
        }
        if is_compressed {
            // What can't be unpacked stays as it is, with the tail (as in Suricata).
            message.extend(TAIL);
            let inflater = sender.inflater.get_or_insert_with(|| Box::new(Inflater::new()));
            if let Some(unpacked) = inflater.unpack(&message, max) {
                self.made = self.made.saturating_add(unpacked.len() as u64);
                return unpacked;
            }
        }
        message
    }
}

impl Parser for WebSocketParser {
    fn parse(&mut self, cx: &mut ParseContext<'_>, input: Input<'_>) -> Outcome {
        match input {
            Input::Gap { .. } => Outcome::Error,
            Input::Data { bytes, .. } => self.data(cx, bytes),
        }
    }

    fn txs(&self) -> &dyn TxTable {
        &self.txs
    }

    fn txs_mut(&mut self) -> &mut dyn TxTable {
        &mut self.txs
    }

    fn bytes_held(&self) -> usize {
        /// Bytes that a decoder of deflate data takes: its window of 32 KiB, and tables.
        const INFLATER_BYTES: usize = 44 << 10;
        let sender = |s: &Sender| {
            let message = s.message.as_ref().map_or(0, |(m, _)| m.capacity());
            message + s.inflater.as_ref().map_or(0, |_| INFLATER_BYTES)
        };
        let tx = |tx: &WebSocketTx| size_of::<WebSocketTx>() + tx.payload.capacity();
        size_of::<WebSocketParser>()
            + self.senders.iter().map(sender).sum::<usize>()
            + self.txs.iter().map(tx).sum::<usize>()
    }

    fn bytes_made(&self) -> u64 {
        self.made
    }
}

#[cfg(test)]
mod tests {
    use super::super::limits::TXS_MAX;
    use super::*;
    use crate::{Endpoints, Inspect, Transaction};

    /// Payloads and events after all of these pieces.
    fn parse_pieces(pieces: &[&[u8]], settings: Settings) -> Vec<(Vec<u8>, Vec<u16>)> {
        let ends = Endpoints::default();
        let mut parser = WebSocketParser::new(settings);
        let mut pending = Vec::new();
        for piece in pieces {
            pending.extend_from_slice(piece);
            let mut cx = ParseContext::new(0, Direction::ToServer, &ends);
            match parser.parse(&mut cx, Input::Data { bytes: &pending, eof: false }) {
                Outcome::Incomplete { consumed, needed } => {
                    pending.drain(..consumed);
                    assert!(needed > pending.len());
                }
                Outcome::Done | Outcome::Error => pending.clear(),
            }
        }
        let payload = |tx: &WebSocketTx| {
            let b = tx.buffer(0, Direction::ToServer, 0, Inspect::default()).unwrap();
            (b.data.to_vec(), tx.events().to_vec())
        };
        parser.txs.iter().map(payload).collect()
    }

    /// The examples of RFC 6455 5.7: a text, the same masked, in two parts with a ping between them.
    const EXAMPLES: &[u8] = b"\x81\x05Hello\x81\x85\x37\xfa\x21\x3d\x7f\x9f\x4d\x51\x58\
        \x01\x03Hel\x89\x05Hello\x80\x02lo";

    #[test]
    fn any_split_gives_the_same_frames() {
        let expected = ["Hello", "Hello", "Hel", "Hello", "Hello"];
        for at in 0..=EXAMPLES.len() {
            let (a, b) = EXAMPLES.split_at(at);
            let found = parse_pieces(&[a, b], Settings::default());
            let texts: Vec<_> = found.iter().map(|(t, _)| t.as_slice()).collect();
            assert_eq!(texts, expected.map(str::as_bytes), "{at}");
        }
    }

    /// What is longer than the limit is cut, and the next frame is found behind it.
    #[test]
    fn payloads_are_cut() {
        let settings = Settings { payload_max: 4 };
        let stream = b"\x82\x06abcdef\x01\x03abc\x80\x03def\x81\x01x";
        for size in 1..stream.len() {
            let pieces: Vec<&[u8]> = stream.chunks(size).collect();
            let found = parse_pieces(&pieces, settings);
            let expected: [(&[u8], &[u16]); 4] =
                [(b"abcd", &[0]), (b"abc", &[]), (b"abcd", &[1]), (b"x", &[])];
            let found: Vec<_> = found.iter().map(|(t, e)| (t.as_slice(), e.as_slice())).collect();
            assert_eq!(found, expected, "{size}");
        }
        // No length makes it wait or take memory.
        let mut endless = b"\x82\x7f\xff\xff\xff\xff\xff\xff\xff\xff".to_vec();
        endless.extend([b'z'; 100_000]);
        assert_eq!(parse_pieces(&[&endless], settings), [(b"zzzz".to_vec(), vec![0])]);
    }

    /// Fragments without end take no more than a message may.
    #[test]
    fn endless_fragments_are_bounded() {
        let ends = Endpoints::default();
        let mut parser = WebSocketParser::new(Settings::default());
        let bytes = b"\x00\x04abcd".repeat(50_000);
        let mut cx = ParseContext::new(0, Direction::ToServer, &ends);
        parser.parse(&mut cx, Input::Data { bytes: &bytes, eof: false });
        assert_eq!(parser.senders[0].message.as_ref().map(|(m, _)| m.len()), Some(0xffff));
        assert_eq!(parser.txs.len(), TXS_MAX);
        let counts = gabion_record::limits::take_reached();
        assert_eq!(counts.times_reached(&reached::TXS_MAX), 50_000 - TXS_MAX as u64);
    }
}
