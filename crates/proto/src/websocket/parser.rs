//! The parser of a flow: frames of both directions, and the messages that they are parts of.

use super::inflater::{Inflater, TAIL};
use super::limits::{UNPACKED_MESSAGE_BYTES, reached};
use super::settings::Settings;
use super::tables::{event, frame};
use super::tx::WebSocketTx;
use crate::transaction::EventList;
use crate::tx_list::{TxList, TxTable};
use crate::{Input, Outcome, ParseContext, Parser};

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

    fn is_compressed(&self) -> bool {
        self.first & COMPRESSED != 0
    }
}

/// A direction.
#[derive(Debug, Default)]
struct Sender {
    /// Bytes of a payload that are not kept.
    skip: u64,
    /// The message so far, if its last frame has not come.
    message: Vec<u8>,
    /// Its first frame with a byte says that it is compressed.
    is_compressed: bool,
    inflater: Option<Box<Inflater>>,
}

impl Sender {
    /// Adds a frame to its message, whatever its opcode (as Suricata does). Returns the whole message with its last
    /// frame, else the frame's payload, and whether it is compressed.
    fn join_message(
        &mut self,
        header: Header,
        payload: Vec<u8>,
        max: usize,
        events: &mut EventList,
    ) -> (Vec<u8>, bool) {
        let is_last = header.first & FIN != 0;
        if self.message.is_empty() {
            self.is_compressed = header.is_compressed();
            if is_last {
                return (payload, self.is_compressed);
            }
        }
        let before = self.message.len();
        let room = max.saturating_sub(before).min(payload.len());
        if room < payload.len() {
            reached::PAYLOAD_BYTES_MAX.count();
        }
        self.message.extend_from_slice(payload.get(..room).unwrap_or_default());
        if before < max && self.message.len() >= max {
            events.set(event::MESSAGE_TOO_LONG);
        }
        let message = if is_last { std::mem::take(&mut self.message) } else { payload };
        (message, self.is_compressed)
    }

    /// Unpacks a whole message. What can't be unpacked, or to nothing, stays as it is, with the tail (as in Suricata).
    fn unpack(&mut self, mut message: Vec<u8>, max: usize) -> Vec<u8> {
        message.extend(TAIL);
        let inflater = self.inflater.get_or_insert_with(|| Box::new(Inflater::new()));
        inflater.unpack(&message, max.max(UNPACKED_MESSAGE_BYTES)).unwrap_or(message)
    }
}

/// Parser of a WebSocket flow.
#[derive(Debug)]
pub struct WebSocketParser {
    settings: Settings,
    txs: TxList<WebSocketTx>,
    senders: [Sender; 2],
}

impl WebSocketParser {
    /// A parser with these settings.
    pub fn new(settings: Settings) -> WebSocketParser {
        WebSocketParser { settings, txs: TxList::default(), senders: Default::default() }
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
        let (sender, max) = (&mut self.senders[d.index()], self.settings.payload_max);
        let (message, is_compressed) = if header.opcode() < CONTROL {
            sender.join_message(header, payload, max, &mut events)
        } else {
            (payload, header.is_compressed())
        };
        let is_whole = header.first & FIN != 0;
        let payload = if is_whole && is_compressed { sender.unpack(message, max) } else { message };
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
        let sender =
            |s: &Sender| s.message.capacity() + s.inflater.as_ref().map_or(0, |_| INFLATER_BYTES);
        let tx = |tx: &WebSocketTx| size_of::<WebSocketTx>() + tx.payload.capacity();
        size_of::<WebSocketParser>()
            + self.senders.iter().map(sender).sum::<usize>()
            + self.txs.iter().map(tx).sum::<usize>()
    }

    fn bytes_made(&self) -> u64 {
        let made = |s: &Sender| s.inflater.as_ref().map_or(0, |inflater| inflater.bytes_made());
        self.senders.iter().map(made).fold(0, u64::saturating_add)
    }
}

#[cfg(test)]
mod tests {
    use super::super::limits::TXS_MAX;
    use super::*;
    use crate::{Endpoints, Inspect, Transaction};
    use gabion_record::Direction;

    /// First bytes and payloads of frames.
    type Frames<'a> = &'a [(u8, &'a [u8])];

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

    /// The first bytes that Suricata 8.0.7 takes for a frame after an Upgrade: 64 of 256.
    #[test]
    fn a_first_frame_has_no_reserved_bits() {
        let probe =
            |first| super::super::probe(&[first], Direction::ToServer) == crate::detect::Probe::Yes;
        let taken = (0..=u8::MAX).filter(|first| probe(*first));
        let expected = [0, 0x40, 0x80, 0xc0].into_iter().flat_map(|flags| flags..flags + 16);
        assert!(taken.eq(expected));
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

    /// A frame whose payload is not masked.
    fn frame(first: u8, payload: &[u8]) -> Vec<u8> {
        [&[first, payload.len() as u8], payload].concat()
    }

    fn parse_frames(frames: Frames<'_>, settings: Settings) -> Vec<(Vec<u8>, Vec<u16>)> {
        let stream: Vec<u8> = frames.iter().flat_map(|(first, data)| frame(*first, data)).collect();
        let whole = parse_pieces(&[&stream], settings);
        let single: Vec<&[u8]> = stream.chunks(1).collect();
        assert_eq!(parse_pieces(&single, settings), whole);
        whole
    }

    /// "Hello" of RFC 7692 7.2.3.1.
    const HELLO: &[u8] = b"\xf2\x48\xcd\xc9\xc9\x07\x00";

    /// Payloads as Suricata 8.0.7 has them after these frames.
    #[test]
    fn frames_are_joined_as_in_suricata() {
        let cases: &[(Frames<'_>, &[&[u8]])] = &[
            // Any frame of data belongs to an open message, control frames never do.
            (&[(1, b"Hel"), (0x81, b"whole"), (0x80, b"lo")], &[b"Hel", b"Helwhole", b"lo"]),
            (&[(1, b"Hel"), (2, b"whole"), (0x80, b"lo")], &[b"Hel", b"whole", b"Helwholelo"]),
            (&[(1, b"Hel"), (0x83, b"whole"), (0x80, b"lo")], &[b"Hel", b"Helwhole", b"lo"]),
            (&[(1, b"Hel"), (9, b"ping"), (0x80, b"lo")], &[b"Hel", b"ping", b"Hello"]),
            // The first frame with a byte says whether the message is compressed.
            (&[(0x41, &HELLO[..2]), (0x80, &HELLO[2..])], &[&HELLO[..2], b"Hello"]),
            (&[(1, &HELLO[..2]), (0xc0, &HELLO[2..])], &[&HELLO[..2], HELLO]),
            (&[(1, b""), (0, b""), (0xc0, HELLO)], &[b"", b"", b"Hello"]),
            (&[(0x41, b""), (0x80, HELLO)], &[b"", HELLO]),
            // Control frames are unpacked, unless they are not whole.
            (&[(0xc9, HELLO), (0xc1, b"\xf2\0\x11\0\0")], &[b"Hello", b"Hello"]),
            (&[(0x49, HELLO)], &[HELLO]),
            (&[(1, b"ab"), (0xc9, HELLO), (0x80, b"cd")], &[b"ab", b"Hello", b"abcd"]),
            // What can't be unpacked or unpacks to nothing has the tail after it, what can't be unpacked from
            // some byte on has what came of it.
            (&[(0xc9, b"\xff\xff\xff")], &[b"\xff\xff\xff\0\0\xff\xff"]),
            (&[(0xc1, b"\0"), (0xc1, HELLO)], &[b"\0\0\0\xff\xff", b"Hello"]),
            (&[(0xc1, b"")], &[b"\0\0\xff\xff"]),
            (&[(0xc1, b"\xf2\x48\xcd\xc9\xc9\x07\0abcx")], &[b"Hello"]),
        ];
        for (frames, expected) in cases {
            let found = parse_frames(frames, Settings::default());
            let found: Vec<_> = found.iter().map(|(data, _)| data.as_slice()).collect();
            assert_eq!(found, *expected, "{frames:x?}");
        }
    }

    /// Sizes and events as Suricata 8.0.7 has them with `max-payload-size: 8`.
    #[test]
    fn a_message_reaches_its_limit_once() {
        type Found<'a> = &'a [(usize, &'a [u16])];
        let cases: &[(Frames<'_>, Found<'_>)] = &[
            (
                &[(2, b"abcde"), (0, b"fghij"), (0, b"k"), (0x80, b"l")],
                &[(5, &[]), (5, &[1]), (1, &[]), (8, &[])],
            ),
            (&[(2, b"abcde"), (0, b"fgh"), (0x80, b"l")], &[(5, &[]), (3, &[1]), (8, &[])]),
            (&[(2, b"abcde"), (0, b"fg"), (0x80, b"l")], &[(5, &[]), (2, &[]), (8, &[1])]),
            (&[(2, b"abcdefgh"), (0x80, b"")], &[(8, &[1]), (8, &[])]),
            (&[(2, b"abcdefghi"), (0x80, b"l")], &[(8, &[0, 1]), (8, &[])]),
            (&[(0x82, b"abcdefgh")], &[(8, &[])]),
            (
                &[(2, b"abcde"), (0x80, b"fghij"), (2, b"abcde"), (0x80, b"fghij")],
                &[(5, &[]), (8, &[1]), (5, &[]), (8, &[1])],
            ),
            // 20 times "a", 400 zeros: what is unpacked is not cut there.
            (&[(0xc2, b"\x4a\x4c\xc4\x04\0\0")], &[(20, &[])]),
            (&[(0xc2, b"\x62\x60\x18\x05\x83\x09\0\0")], &[(400, &[])]),
        ];
        for (frames, expected) in cases {
            let found = parse_frames(frames, Settings { payload_max: 8 });
            let found: Vec<_> = found.iter().map(|(d, events)| (d.len(), &events[..])).collect();
            assert_eq!(found, *expected, "{frames:x?}");
        }
    }

    /// What a side has unpacked is bounded by what it has sent, however the stream is cut.
    #[test]
    fn what_a_side_has_unpacked_is_bounded() {
        use super::super::limits::UNPACKED_BYTES_MAX;
        let mut packer = flate2::Compress::new(flate2::Compression::best(), false);
        let mut packed = Vec::with_capacity(1000);
        let zeros = [0; 0xffff];
        packer.compress_vec(&zeros, &mut packed, flate2::FlushCompress::Sync).unwrap();
        packed.truncate(packed.len() - TAIL.len());
        let stream = frame(0xc2, &packed).repeat(300);
        let whole = parse_pieces(&[&stream], Settings::default());
        let counts = gabion_record::limits::take_reached();
        assert_eq!(whole.len(), 300);
        // What would be sent usually is whole.
        assert!(whole[..3].iter().all(|(data, _)| *data == zeros));
        let made: usize = whole.iter().map(|(data, _)| data.len()).sum();
        let sent = (300 * (packed.len() + TAIL.len())) as u64;
        assert!(made as u64 <= UNPACKED_BYTES_MAX + 64 * sent, "{made}");
        assert!(counts.times_reached(&reached::UNPACKED_BYTES_MAX) > 200);
        for size in [1, 1000, 1460] {
            let pieces: Vec<&[u8]> = stream.chunks(size).collect();
            assert!(parse_pieces(&pieces, Settings::default()) == whole, "{size}");
        }
    }

    /// Fragments without end take no more than a message may.
    #[test]
    fn endless_fragments_are_bounded() {
        let ends = Endpoints::default();
        let mut parser = WebSocketParser::new(Settings::default());
        let bytes = b"\x00\x04abcd".repeat(50_000);
        let mut cx = ParseContext::new(0, Direction::ToServer, &ends);
        parser.parse(&mut cx, Input::Data { bytes: &bytes, eof: false });
        assert_eq!(parser.senders[0].message.len(), 0xffff);
        assert_eq!(parser.txs.len(), TXS_MAX);
        let counts = gabion_record::limits::take_reached();
        assert_eq!(counts.times_reached(&reached::TXS_MAX), 50_000 - TXS_MAX as u64);
    }
}
