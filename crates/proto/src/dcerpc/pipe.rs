//! DCE/RPC inside a pipe of another protocol (MS-SMB2 3.2.4.20): a state machine that its parser keeps
//! for each pipe and feeds with what is written and read, in pieces of any size.
//!
//! It holds the message that is not complete yet and the pipe's interfaces, nothing of the calls: what
//! a message says is handed out at once, as [`Fact`].

use super::contexts::Contexts;
use super::limits::PIPE_MESSAGE_BYTES_MAX;
use super::pdu::{self, Fragment, HEADER_BYTES, Header, Interface, kind};
use gabion_record::Direction;

/// What a message in a pipe says. Its header has the number of the call, its type and byte order, and
/// whether it is the first or last fragment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fact<'a> {
    /// A bind or alter_context offers these interfaces.
    Bind(Header, &'a [Interface]),
    /// Its answer: the same interfaces with the server's decisions.
    BindAck(Header, &'a [Interface]),
    /// A fragment of a call, and the interface that its context stands for.
    Request(Header, Fragment<'a>, Option<Interface>),
    /// A fragment of an answer to a call.
    Response(Header, Fragment<'a>),
    /// A message of another type, or one whose body can't be read.
    Other(Header),
}

/// What is in the pipe is not DCE/RPC: it is not followed in that direction any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotDcerpc;

/// The state of one pipe.
#[derive(Clone, Debug, Default)]
pub struct PipeState {
    /// The beginning of a message of each direction.
    pending: [Vec<u8>; 2],
    contexts: Contexts,
    /// A direction carries something else.
    is_other: [bool; 2],
}

impl PipeState {
    /// Takes the next bytes of a direction (to the server: what is written) and hands out what the
    /// messages say that end in them.
    pub fn feed(
        &mut self,
        direction: Direction,
        bytes: &[u8],
        mut hand_out: impl FnMut(Fact<'_>),
    ) -> Result<(), NotDcerpc> {
        let at = direction.index();
        if self.is_other[at] {
            return Err(NotDcerpc);
        }
        let mut rest = bytes;
        // A message that began earlier comes first, with as much as completes it.
        while !self.pending[at].is_empty() && !rest.is_empty() {
            let held = &mut self.pending[at];
            let wanted = match Header::parse(held) {
                Some(header) => usize::from(header.len),
                None => HEADER_BYTES,
            };
            let missing = wanted.saturating_sub(held.len());
            let (head, behind) = rest.split_at_checked(missing).unwrap_or((rest, &[]));
            held.extend_from_slice(head);
            rest = behind;
            let held = std::mem::take(&mut self.pending[at]);
            match message_len(&held) {
                Ok(Some(len)) if held.len() >= len => self.say(&held, &mut hand_out),
                Ok(_) => self.pending[at] = held,
                Err(wrong) => {
                    self.is_other[at] = true;
                    return Err(wrong);
                }
            }
        }
        while !rest.is_empty() {
            match message_len(rest) {
                Ok(Some(len)) if rest.len() >= len => {
                    let (message, behind) = rest.split_at(len);
                    self.say(message, &mut hand_out);
                    rest = behind;
                }
                Ok(_) => {
                    debug_assert!(rest.len() <= PIPE_MESSAGE_BYTES_MAX, "a length has 16 bits");
                    self.pending[at] = rest.to_vec();
                    break;
                }
                Err(wrong) => {
                    self.is_other[at] = true;
                    return Err(wrong);
                }
            }
        }
        Ok(())
    }

    /// Bytes of a direction are lost: the message that they were in is dropped.
    pub fn lose(&mut self, direction: Direction) {
        self.pending[direction.index()] = Vec::new();
    }

    /// The interface that a context stands for.
    pub fn interface(&self, context_id: u16) -> Option<&Interface> {
        self.contexts.find(context_id)
    }

    /// Bytes held.
    pub fn bytes_held(&self) -> usize {
        let pending = self.pending.iter().map(Vec::capacity).sum::<usize>();
        size_of::<PipeState>() + pending + self.contexts.bytes_held()
    }

    /// Hands out what one message says.
    fn say(&mut self, message: &[u8], hand_out: &mut impl FnMut(Fact<'_>)) {
        let Some(header) = Header::parse(message) else { return };
        match header.kind {
            kind::BIND | kind::ALTER_CONTEXT => {
                if let Some(offers) = pdu::parse_offers(&header, message) {
                    self.contexts.offer(header.call_id, &offers);
                    return hand_out(Fact::Bind(header, &offers));
                }
            }
            kind::BIND_ACK | kind::ALTER_CONTEXT_RESP => {
                if let Some(acks) = pdu::parse_acks(&header, message) {
                    self.contexts.decide(header.call_id, &acks);
                    let decided: Vec<Interface> =
                        self.contexts.offered_by(header.call_id).copied().collect();
                    return hand_out(Fact::BindAck(header, &decided));
                }
            }
            kind::REQUEST => {
                if let Some(call) = pdu::parse_request(&header, message) {
                    let interface = self.contexts.find(call.context_id).copied();
                    return hand_out(Fact::Request(header, call, interface));
                }
            }
            kind::RESPONSE => {
                if let Some(answer) = pdu::parse_response(&header, message) {
                    return hand_out(Fact::Response(header, answer));
                }
            }
            _ => {}
        }
        hand_out(Fact::Other(header));
    }
}

/// Bytes of the message that begins here; `None`: its header is not all there.
fn message_len(bytes: &[u8]) -> Result<Option<usize>, NotDcerpc> {
    // Version 5.0 or 5.1 (C706 12.6.3.1).
    let is_ours = bytes.first().is_none_or(|v| *v == 5) && bytes.get(1).is_none_or(|v| *v <= 1);
    if !is_ours {
        return Err(NotDcerpc);
    }
    let Some(header) = Header::parse(bytes) else { return Ok(None) };
    match usize::from(header.len) {
        len if len < HEADER_BYTES => Err(NotDcerpc),
        len => Ok(Some(len)),
    }
}

#[cfg(test)]
mod tests {
    use super::super::pdu::Ack;
    use super::super::uuid::Uuid;
    use super::*;
    use Direction::{ToClient, ToServer};

    const EPM: &str = "e1af8308-5d1f-11c9-91a4-08002b14a0fa";

    /// A message by C706 12.6.3.1 and 12.6.4.
    fn message(is_little: bool, kind: u8, call_id: u32, body: &[u8]) -> Vec<u8> {
        let len = (HEADER_BYTES + body.len()) as u16;
        let mut m = vec![5, 0, kind, 3, if is_little { 0x10 } else { 0 }, 0, 0, 0];
        if is_little {
            m.extend_from_slice(&len.to_le_bytes());
            m.extend_from_slice(&[0, 0]);
            m.extend_from_slice(&call_id.to_le_bytes());
        } else {
            m.extend_from_slice(&len.to_be_bytes());
            m.extend_from_slice(&[0, 0]);
            m.extend_from_slice(&call_id.to_be_bytes());
        }
        m.extend_from_slice(body);
        m
    }

    fn session(is_little: bool) -> Vec<(Direction, Vec<u8>)> {
        let order = |n: u16| if is_little { n.to_le_bytes() } else { n.to_be_bytes() };
        let mut uuid = Uuid::from_text(EPM).unwrap().0;
        if is_little {
            for field in [0..4, 4..6, 6..8] {
                uuid[field].reverse();
            }
        }
        let mut bind = vec![0; 8];
        bind.extend_from_slice(&[1, 0, 0, 0]);
        bind.extend_from_slice(&order(7));
        bind.extend_from_slice(&[1, 0]);
        bind.extend_from_slice(&uuid);
        bind.extend_from_slice(&order(3));
        bind.extend_from_slice(&order(0));
        bind.extend_from_slice(&[0; 20]);
        let mut ack = vec![0; 8];
        ack.extend_from_slice(&order(4));
        ack.extend_from_slice(b"135\0\0\0");
        ack.extend_from_slice(&[1, 0, 0, 0]);
        ack.extend_from_slice(&[0; 24]);
        let mut call = vec![0; 4];
        call.extend_from_slice(&order(7));
        call.extend_from_slice(&order(42));
        call.extend_from_slice(b"stub");
        let mut answer = vec![0; 4];
        answer.extend_from_slice(&order(7));
        answer.extend_from_slice(b"\0\0ok");
        vec![
            (ToServer, message(is_little, kind::BIND, 1, &bind)),
            (ToClient, message(is_little, kind::BIND_ACK, 1, &ack)),
            (ToServer, message(is_little, kind::REQUEST, 2, &call)),
            (ToClient, message(is_little, kind::RESPONSE, 2, &answer)),
        ]
    }

    fn facts(input: &[(Direction, Vec<u8>)], piece: usize) -> Vec<String> {
        let (mut pipe, mut said) = (PipeState::default(), Vec::new());
        for (direction, bytes) in input {
            for part in bytes.chunks(piece) {
                pipe.feed(*direction, part, |fact| said.push(format!("{fact:?}"))).unwrap();
            }
        }
        assert!(pipe.pending.iter().all(Vec::is_empty));
        said
    }

    #[test]
    fn facts_are_the_same_however_the_bytes_are_split() {
        for is_little in [true, false] {
            let input = session(is_little);
            let whole = facts(&input, usize::MAX);
            assert_eq!(whole.len(), 4);
            for piece in [1, 2, 3, 15, 16, 17, 29] {
                assert_eq!(facts(&input, piece), whole, "in pieces of {piece}");
            }
        }
    }

    #[test]
    fn a_session() {
        for is_little in [true, false] {
            let (mut pipe, mut n) = (PipeState::default(), 0);
            let interface = |ack| Interface {
                context_id: 7,
                uuid: Uuid::from_text(EPM).unwrap(),
                version: (3, 0),
                is_of_first_fragment: true,
                ack,
            };
            let accepted = interface(Some(Ack { result: 0, reason: 0 }));
            for (direction, bytes) in session(is_little) {
                let result = pipe.feed(direction, &bytes, |fact| {
                    match (n, fact) {
                        (0, Fact::Bind(h, offers)) => {
                            assert_eq!((h.call_id, offers), (1, &[interface(None)][..]));
                        }
                        (1, Fact::BindAck(_, decided)) => assert_eq!(decided, [accepted]),
                        (2, Fact::Request(h, call, of)) => {
                            assert_eq!((h.call_id, call.opnum, of), (2, Some(42), Some(accepted)));
                            assert_eq!(
                                (call.stub, h.is_first(), h.is_last()),
                                (&b"stub"[..], true, true)
                            );
                        }
                        (3, Fact::Response(_, answer)) => {
                            assert_eq!(answer.stub.get(8..), Some(&b"ok"[..]))
                        }
                        (n, fact) => panic!("{n}: {fact:?}"),
                    }
                    n += 1;
                });
                assert_eq!(result, Ok(()));
            }
            assert_eq!(n, 4);
            assert_eq!(pipe.interface(7), Some(&accepted));
        }
    }

    /// A message whose end never comes holds what came of it, and no more than a message has.
    #[test]
    fn what_is_held_is_bounded() {
        let mut pipe = PipeState::default();
        let mut message = message(true, kind::REQUEST, 1, &[]);
        message[8..10].copy_from_slice(&u16::MAX.to_le_bytes());
        pipe.feed(ToServer, &message, |_| panic!("nothing is complete")).unwrap();
        for _ in 0..65_535 - 17 {
            pipe.feed(ToServer, b"x", |_| panic!("nothing is complete")).unwrap();
        }
        assert!(pipe.bytes_held() < 4 * PIPE_MESSAGE_BYTES_MAX);
        let mut n = 0;
        pipe.feed(ToServer, b"x", |_| n += 1).unwrap();
        assert_eq!(n, 1);
        pipe.feed(ToServer, &message, |_| {}).unwrap();
        pipe.lose(ToServer);
        assert_eq!(pipe.feed(ToServer, b"GET /", |_| {}), Err(NotDcerpc));
        assert_eq!(pipe.feed(ToServer, &message, |_| {}), Err(NotDcerpc));
        assert_eq!(pipe.feed(ToClient, b"\x05\0", |_| {}), Ok(()));
    }
}
