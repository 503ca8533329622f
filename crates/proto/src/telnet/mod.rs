//! Telnet (RFC 854): its frames. It has no transactions and no records, as in Suricata 8.0.7, whose
//! frames were measured: commands, prompts until the user is known, then lines.

use crate::detect::{PortProbe, Probe};
use crate::protocol::Protocol;
use crate::tx_list::TxTable;
use crate::{Input, Outcome, ParseContext, Parser};
use gabion_record::Direction;
use gabion_record::applayer::{ProtoTable, Transport};

/// Frames by their numbers.
mod frame {
    pub(super) const PDU: u8 = 0;
    pub(super) const CTL: u8 = 1;
    pub(super) const DATA: u8 = 2;
}

const TABLE: ProtoTable = ProtoTable {
    rule_names: &["telnet"],
    frames: &["pdu", "ctl", "data"],
    ..ProtoTable::of_requests("telnet", &[Transport::Tcp])
};

/// Telnet in the registry: whatever comes on its port.
pub const PROTOCOL: &Protocol = &Protocol {
    probes: &[PortProbe {
        transport: Transport::Tcp,
        ports: "23",
        min_bytes: 2,
        max_bytes: 0,
        probe: |_, _| Probe::Yes,
    }],
    is_logged: false,
    eve_type: "",
    auto_trigger_raw: false,
    accepts_gaps: true,
    open: |_, _| Box::<TelnetParser>::default(),
    ..Protocol::plain(TABLE)
};

/// Bytes of commands (RFC 854, RFC 855).
mod command {
    pub(super) const IAC: u8 = 0xff;
    pub(super) const SUBNEGOTIATION: u8 = 0xfa;
    pub(super) const WILL: u8 = 0xfb;
    pub(super) const DONT: u8 = 0xfe;
}

/// What the server's data ends with, one after the other; then with a line.
const PROMPTS: [&[u8]; 2] = [b"login: ", b"Password: "];

/// Parser of a Telnet session.
#[derive(Debug, Default)]
pub struct TelnetParser {
    /// Prompts that the server has shown.
    prompts: usize,
    /// Bytes in which the end of a frame was looked for in vain, by direction.
    searched: [usize; 2],
    none: (),
}

/// Bytes of the command that these begin with.
fn command_len(bytes: &[u8]) -> Option<usize> {
    match *bytes.get(1)? {
        command::SUBNEGOTIATION => {
            let parameters = bytes.get(2..)?;
            Some(2 + parameters.iter().position(|b| *b == command::IAC)?)
        }
        command::WILL..=command::DONT => (bytes.len() >= 3).then_some(3),
        _ => Some(2),
    }
}

impl TelnetParser {
    /// Bytes of the data that these begin with, as far as they end.
    fn data_len(&mut self, direction: Direction, bytes: &[u8]) -> Option<usize> {
        let prompt = match direction {
            Direction::ToServer => None,
            Direction::ToClient => PROMPTS.get(self.prompts),
        };
        let end = prompt.copied().unwrap_or(b"\n");
        // What was looked at before is not looked at again, but for what may be the beginning of the end.
        let from = self.searched[direction.index()].saturating_sub(end.len());
        let rest = bytes.get(from..).unwrap_or_default();
        let Some(at) = memchr::memmem::find(rest, end) else {
            self.searched[direction.index()] = bytes.len();
            return None;
        };
        self.prompts += usize::from(prompt.is_some());
        Some(from + at + end.len())
    }

    fn data(&mut self, cx: &mut ParseContext<'_>, bytes: &[u8], eof: bool) -> Outcome {
        let d = cx.direction;
        let mut at = 0;
        loop {
            let rest = bytes.get(at..).unwrap_or_default();
            let Some(first) = rest.first() else { return Outcome::Done };
            let is_command = *first == command::IAC;
            let len = if is_command { command_len(rest) } else { self.data_len(d, rest) };
            let len = match len {
                Some(len) => len,
                // A session may end without the end of a line, and a frame is bounded.
                None if eof || !crate::limits::reached::PENDING_BYTES_MAX.holds(rest.len()) => {
                    rest.len()
                }
                None => return Outcome::Incomplete { consumed: at, needed: rest.len() + 1 },
            };
            self.searched[d.index()] = 0;
            cx.frames.add(d, frame::PDU, at, len as u64, None);
            let kind = if is_command { frame::CTL } else { frame::DATA };
            cx.frames.add(d, kind, at, len as u64, None);
            at += len;
        }
    }
}

impl Parser for TelnetParser {
    fn parse(&mut self, cx: &mut ParseContext<'_>, input: Input<'_>) -> Outcome {
        match input {
            Input::Gap { .. } => Outcome::Done,
            Input::Data { bytes, eof } => self.data(cx, bytes, eof),
        }
    }

    fn txs(&self) -> &dyn TxTable {
        &self.none
    }

    fn txs_mut(&mut self) -> &mut dyn TxTable {
        &mut self.none
    }

    fn bytes_held(&self) -> usize {
        size_of::<TelnetParser>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Endpoints;
    use crate::frames::FrameNote;

    /// Kinds and places of the frames of a direction, however its bytes are split.
    fn frames(direction: Direction, pieces: &[&[u8]]) -> Vec<(u8, u64, u64)> {
        let ends = Endpoints::default();
        let mut parser = TelnetParser::default();
        let (mut pending, mut offset, mut found) = (Vec::new(), 0, Vec::new());
        for (n, piece) in pieces.iter().enumerate() {
            pending.extend_from_slice(piece);
            let mut cx = ParseContext::new(0, direction, &ends);
            cx.frames.wanted = u32::MAX;
            cx.frames.at[direction.index()] = offset;
            let eof = n + 1 == pieces.len();
            let outcome = parser.parse(&mut cx, Input::Data { bytes: &pending, eof });
            let used = match outcome {
                Outcome::Incomplete { consumed, .. } => consumed,
                Outcome::Done | Outcome::Error => pending.len(),
            };
            pending.drain(..used);
            offset += used as u64;
            for note in cx.frames.notes {
                if let FrameNote::Begin { kind, start, len: Some(len), .. } = note {
                    found.push((kind, start, len));
                }
            }
        }
        found.retain(|f| f.0 != frame::PDU);
        found
    }

    /// The frames of Suricata 8.0.7 of these sessions.
    #[test]
    fn sessions_have_frames() {
        let server: &[u8] =
            b"\xff\xfd\x18\xff\xfa\x18\x01\xff\xf0\r\nlogin: Password: \r\nWelcome\r\n$ ";
        let expected = [
            (1, 0, 3),
            (1, 3, 4),
            (1, 7, 2),
            (2, 9, 9),
            (2, 18, 10),
            (2, 28, 2),
            (2, 30, 9),
            (2, 39, 2),
        ];
        for at in 0..=server.len() {
            let (a, b) = server.split_at(at);
            assert_eq!(frames(Direction::ToClient, &[a, b]), expected, "{at}");
        }
        let client: &[u8] = b"\xff\xfb\x18root\r\npw\r\nxx";
        let expected = [(1, 0, 3), (2, 3, 6), (2, 9, 4), (2, 13, 2)];
        let bytes: Vec<&[u8]> = client.chunks(1).collect();
        assert_eq!(frames(Direction::ToServer, &bytes), expected);
    }
}
