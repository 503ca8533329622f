//! Netstrings over TCP: each message is `LENGTH:BYTES,`. Nothing is answered.

use crate::framing::Framing;
use crate::limits::{OCTET_COUNT_DIGITS_MAX, OCTET_COUNT_MAX};
use crate::session::{Finish, Message, Session, Take, Violation};
use gabion_seal::Flags;

/// What comes next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Expected {
    /// A digit of a length, or the colon after it.
    Length { digits: usize, value: u64 },
    /// This many bytes of a message.
    Bytes(u64),
    /// The comma after a message.
    Comma,
}

const START: Expected = Expected::Length { digits: 0, value: 0 };

/// One connection.
#[derive(Debug)]
pub struct NetstringSession {
    framing: Framing,
    expected: Expected,
    /// The message so far, cut at the limit, and its length on the wire.
    held: Vec<u8>,
    len_sent: u64,
}

impl NetstringSession {
    /// For a new connection.
    #[must_use]
    pub fn new(framing: Framing) -> NetstringSession {
        NetstringSession { framing, expected: START, held: Vec::new(), len_sent: 0 }
    }

    /// Takes a byte of a length.
    fn count(&self, byte: u8, digits: usize, value: u64) -> Result<Expected, Violation> {
        match byte {
            b':' if digits > 0 && value == 0 => Ok(Expected::Comma),
            b':' if digits > 0 => Ok(Expected::Bytes(value)),
            b'0'..=b'9' if digits < OCTET_COUNT_DIGITS_MAX => {
                let value = value.saturating_mul(10).saturating_add(u64::from(byte - b'0'));
                match value {
                    0..=OCTET_COUNT_MAX => Ok(Expected::Length { digits: digits + 1, value }),
                    _ => Err(Violation { rule: "length" }),
                }
            }
            _ => Err(Violation { rule: "length" }),
        }
    }

    fn hold(&mut self, bytes: &[u8]) {
        let free = self.framing.message_bytes_max.saturating_sub(self.held.len());
        self.held.extend_from_slice(bytes.get(..free).unwrap_or(bytes));
        self.len_sent = self.len_sent.saturating_add(bytes.len() as u64);
    }

    fn hand_out(&mut self, mut flags: Flags, take: &mut Take<'_>) {
        let (bytes, len_sent) = (std::mem::take(&mut self.held), self.len_sent);
        (self.expected, self.len_sent) = (START, 0);
        if bytes.is_empty() {
            return;
        }
        if len_sent > bytes.len() as u64 {
            flags = flags.with(Flags::TRUNCATED);
        }
        take(Message { bytes: &bytes, len_sent, flags, is_envelope: false, is_answered: false });
    }
}

impl Session for NetstringSession {
    fn feed(&mut self, input: &[u8], take: &mut Take<'_>) -> Result<(), Violation> {
        let mut rest = input;
        while let Some((&first, after)) = rest.split_first() {
            match self.expected {
                Expected::Length { digits, value } => {
                    self.expected = self.count(first, digits, value)?;
                    rest = after;
                }
                Expected::Bytes(left) => {
                    let here = usize::try_from(left).unwrap_or(usize::MAX).min(rest.len());
                    let (part, after) = rest.split_at(here);
                    self.hold(part);
                    self.expected = match left.saturating_sub(here as u64) {
                        0 => Expected::Comma,
                        left => Expected::Bytes(left),
                    };
                    rest = after;
                }
                Expected::Comma if first == b',' => {
                    self.hand_out(Flags::default(), take);
                    rest = after;
                }
                Expected::Comma => return Err(Violation { rule: "comma" }),
            }
        }
        Ok(())
    }

    fn finish(&mut self, _: Finish, take: &mut Take<'_>) {
        self.hand_out(Flags::default().with(Flags::INCOMPLETE), take);
    }

    fn held_bytes(&self) -> usize {
        self.held.len()
    }

    fn is_within_frame(&self) -> bool {
        self.expected != START
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Bytes and flags of each message, and whether the input was refused.
    fn read(pieces: &[&[u8]], bytes_max: usize) -> (Vec<(Vec<u8>, Flags)>, bool) {
        let framing = Framing { message_bytes_max: bytes_max, ..Framing::default() };
        let mut session = NetstringSession::new(framing);
        let mut messages = Vec::new();
        let mut take = |m: Message<'_>| messages.push((m.bytes.to_vec(), m.flags));
        let is_good = pieces.iter().all(|piece| session.feed(piece, &mut take).is_ok());
        if is_good {
            session.finish(Finish::EndOfStream, &mut take);
        }
        assert_eq!(session.held_bytes().min(bytes_max), session.held_bytes());
        (messages, !is_good)
    }

    #[test]
    fn any_split_gives_the_same_messages() {
        let input = b"3:one,0:,12:a longer one,5:hal";
        let whole = read(&[input], 8);
        let flags = [Flags::default(), Flags::TRUNCATED, Flags::INCOMPLETE];
        assert_eq!(whole.0.iter().map(|m| m.1).collect::<Vec<_>>(), flags);
        for at in 0..input.len() {
            let (a, b) = input.split_at(at);
            assert_eq!(read(&[a, b], 8), whole, "{at}");
        }
    }

    #[test]
    fn what_is_no_netstring_ends_the_session() {
        for bad in [&b"x"[..], b":", b"3:oneX", b"9999999:", b"-1:", b"00000000001:"] {
            assert!(read(&[bad], 8).1, "{}", String::from_utf8_lossy(bad));
        }
    }
}
