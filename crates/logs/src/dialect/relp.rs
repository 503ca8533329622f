//! The server's side of RELP, the protocol in which a sender keeps a message until the receiver says
//! that it has it: `TXNR SP COMMAND SP DATALEN [SP DATA] LF`, answered by `TXNR rsp …` in order.
//!
//! The one promise: a message is answered only when its owner has reported that it is durable
//! ([`RelpServer::durable`]). Any violation of the framing ends the connection at once without an
//! answer; the sender repeats what was not answered, so a message may be stored twice and is never
//! lost. Cases: librelp 1.11 as it behaves on the wire; its document speaks of version 1, its
//! software of 0, so both are taken.

use crate::framing::Framing;
use crate::limits::{
    RELP_COMMAND_MAX, RELP_DATA_MAX, RELP_NUMBER_DIGITS_MAX, RELP_TXNR_MAX, RELP_WINDOW,
};
use crate::session::{self, Finish, Message, Session, Take};
use gabion_seal::Flags;
use std::collections::VecDeque;
use std::fmt;

/// Why a connection must be closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Violation {
    /// The transaction number is no number of 1 to 9 digits.
    BadNumber,
    /// The command is empty, too long, or holds other bytes than letters.
    BadCommand,
    /// The length is no number, or above the limit.
    BadLength,
    /// The frame does not end in LF.
    NoTrailer,
    /// A transaction number that does not follow the one before.
    Gap,
    /// A message before `open`, or anything after `close`.
    OutOfPlace,
    /// An `open` that lacks a version or the command `syslog`.
    BadOffer,
}

impl Violation {
    /// A word for counters and records.
    pub const fn name(self) -> &'static str {
        match self {
            Violation::BadNumber => "bad_number",
            Violation::BadCommand => "bad_command",
            Violation::BadLength => "bad_length",
            Violation::NoTrailer => "no_trailer",
            Violation::Gap => "gap",
            Violation::OutOfPlace => "out_of_place",
            Violation::BadOffer => "bad_offer",
        }
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// One frame of either side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RelpFrame<'a> {
    /// The transaction number; 0 for hints.
    pub txnr: u32,
    /// The command.
    pub command: &'a [u8],
    /// Its data.
    pub data: &'a [u8],
    /// Bytes of the whole frame.
    pub len: usize,
}

/// Reads the frame at the beginning of `input`; nothing when it is not all there.
///
/// # Errors
/// What violates the framing.
pub fn read_frame(input: &[u8]) -> Result<Option<RelpFrame<'_>>, Violation> {
    let Some((txnr, at)) = number(input, 0, Violation::BadNumber)? else { return Ok(None) };
    if input.get(at) != Some(&b' ') {
        return if input.len() == at { Ok(None) } else { Err(Violation::BadNumber) };
    }
    let letters = &input[at + 1..];
    let len =
        letters.iter().take(RELP_COMMAND_MAX + 1).take_while(|b| b.is_ascii_alphabetic()).count();
    if len > RELP_COMMAND_MAX {
        return Err(Violation::BadCommand);
    }
    let command = &letters[..len];
    match letters.get(len) {
        None => return Ok(None),
        Some(b' ') if len > 0 => {}
        Some(_) => return Err(Violation::BadCommand),
    }
    let Some((data_len, at)) = number(input, at + 1 + len + 1, Violation::BadLength)? else {
        return Ok(None);
    };
    let data_len = usize::try_from(data_len).unwrap_or(usize::MAX);
    if data_len > RELP_DATA_MAX {
        return Err(Violation::BadLength);
    }
    let from = match input.get(at) {
        None => return Ok(None),
        // librelp sends a space after a length of 0 too, at times.
        Some(b' ') => at + 1,
        Some(b'\n') if data_len == 0 => at,
        Some(_) => return Err(Violation::BadLength),
    };
    let end = from + data_len;
    match input.get(end) {
        None => Ok(None),
        Some(b'\n') => Ok(Some(RelpFrame {
            txnr: u32::try_from(txnr).unwrap_or(u32::MAX),
            command,
            data: &input[from..end],
            len: end + 1,
        })),
        Some(_) => Err(Violation::NoTrailer),
    }
}

/// The number at `from` and where it ends; nothing when it may yet begin.
fn number(input: &[u8], from: usize, wrong: Violation) -> Result<Option<(u64, usize)>, Violation> {
    let digits = input.get(from..).unwrap_or_default();
    let len =
        digits.iter().take(RELP_NUMBER_DIGITS_MAX + 1).take_while(|b| b.is_ascii_digit()).count();
    if len > RELP_NUMBER_DIGITS_MAX || (len == 0 && !digits.is_empty()) {
        return Err(wrong);
    }
    if len == 0 {
        return Ok(None);
    }
    let value = digits[..len].iter().fold(0u64, |n, d| n * 10 + u64::from(d - b'0'));
    Ok(Some((value, from + len)))
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Nothing but `open` may come.
    AwaitOpen,
    /// Messages may come.
    Open,
    /// `close` came; answers may yet go out.
    Closing,
    /// Everything was sent.
    Closed,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Answer {
    /// When one more message is durable.
    Message,
    /// A command we don't know.
    Unknown,
    /// The end.
    Close,
}

/// One connection.
#[derive(Clone, Debug)]
pub struct RelpServer {
    state: State,
    last_txnr: Option<u32>,
    held: Vec<u8>,
    waiting: VecDeque<(u32, Answer)>,
    durable: u64,
    replies: Vec<u8>,
}

impl Default for RelpServer {
    fn default() -> RelpServer {
        RelpServer::new()
    }
}

impl RelpServer {
    /// For a new connection.
    pub fn new() -> RelpServer {
        RelpServer {
            state: State::AwaitOpen,
            last_txnr: None,
            held: Vec::new(),
            waiting: VecDeque::new(),
            durable: 0,
            replies: Vec::new(),
        }
    }

    /// Takes the next bytes and hands out the messages that end in them, each without the one LF
    /// that the usual template ends it with.
    ///
    /// # Errors
    /// Close the connection; what was handed out stays valid and is never answered.
    pub fn feed(&mut self, input: &[u8], take: &mut impl FnMut(&[u8])) -> Result<(), Violation> {
        let mut own = std::mem::take(&mut self.held);
        let is_held = !own.is_empty();
        if is_held {
            own.extend_from_slice(input);
        }
        let bytes = if is_held { own.as_slice() } else { input };
        let mut at = 0;
        while let Some(frame) = read_frame(&bytes[at..])? {
            at += frame.len;
            self.take_frame(&frame, take)?;
        }
        if is_held && at < own.len() {
            own.drain(..at);
            self.held = own;
        } else if !is_held {
            self.held.extend_from_slice(&input[at..]);
        }
        self.answer();
        Ok(())
    }

    /// This many further messages, in their order, are durable.
    pub fn durable(&mut self, messages: u64) {
        self.durable += messages;
        self.answer();
    }

    /// Bytes to send; the caller removes what it has sent.
    pub fn replies(&mut self) -> &mut Vec<u8> {
        &mut self.replies
    }

    /// Whether the session is over once [`RelpServer::replies`] are sent.
    pub fn is_closed(&self) -> bool {
        self.state == State::Closed
    }

    /// Whether `open` was answered.
    pub fn is_open(&self) -> bool {
        self.state != State::AwaitOpen
    }

    /// Whether to read on: not after too many unanswered frames.
    pub fn wants_input(&self) -> bool {
        self.waiting.len() < RELP_WINDOW && self.replies.len() < 64 * 1024
    }

    /// Messages that wait to be durable.
    pub fn unanswered(&self) -> usize {
        self.waiting.len()
    }

    /// Whether part of a frame is held.
    pub fn is_within_frame(&self) -> bool {
        !self.held.is_empty()
    }

    /// Bytes held of an unfinished frame.
    pub fn held_bytes(&self) -> usize {
        self.held.len()
    }

    /// The server stops: it informs the client, which then repeats elsewhere what was not answered.
    pub fn shut(&mut self) {
        if self.state == State::Open {
            self.replies.extend_from_slice(b"0 serverclose 0\n");
            self.state = State::Closed;
        }
    }

    fn take_frame(
        &mut self,
        frame: &RelpFrame<'_>,
        take: &mut impl FnMut(&[u8]),
    ) -> Result<(), Violation> {
        let follows = match self.last_txnr {
            None => frame.txnr > 0,
            Some(RELP_TXNR_MAX) => frame.txnr == 1,
            Some(last) => frame.txnr == last + 1,
        };
        if !follows {
            return Err(Violation::Gap);
        }
        self.last_txnr = Some(frame.txnr);
        match (self.state, frame.command) {
            (State::AwaitOpen, b"open") => {
                let Some(version) = offer_taken(frame.data) else {
                    return Err(Violation::BadOffer);
                };
                self.state = State::Open;
                let offer = format!(
                    "200 OK\nrelp_version={version}\nrelp_software=gabion,1\ncommands=syslog"
                );
                self.reply(frame.txnr, offer.as_bytes());
            }
            (State::Open, b"syslog") => {
                take(frame.data.strip_suffix(b"\n").unwrap_or(frame.data));
                self.waiting.push_back((frame.txnr, Answer::Message));
            }
            (State::Open, b"close") => {
                self.state = State::Closing;
                self.waiting.push_back((frame.txnr, Answer::Close));
            }
            (State::Open, _) => self.waiting.push_back((frame.txnr, Answer::Unknown)),
            (State::AwaitOpen | State::Closing | State::Closed, _) => {
                return Err(Violation::OutOfPlace);
            }
        }
        Ok(())
    }

    fn answer(&mut self) {
        while let Some(&(txnr, answer)) = self.waiting.front() {
            match answer {
                Answer::Message if self.durable == 0 => break,
                Answer::Message => {
                    self.durable -= 1;
                    self.reply(txnr, b"200 OK");
                }
                Answer::Unknown => self.reply(txnr, b"500 command not known"),
                Answer::Close => {
                    self.reply(txnr, b"");
                    self.replies.extend_from_slice(b"0 serverclose 0\n");
                    self.state = State::Closed;
                }
            }
            self.waiting.pop_front();
        }
    }

    fn reply(&mut self, txnr: u32, data: &[u8]) {
        write_frame(&mut self.replies, txnr, b"rsp", data);
    }
}

impl Session for RelpServer {
    fn feed(&mut self, input: &[u8], take: &mut Take<'_>) -> Result<(), session::Violation> {
        let most = Framing::default().message_bytes_max;
        let fed = RelpServer::feed(self, input, &mut |message| {
            let bytes = message.get(..most).unwrap_or(message);
            let is_cut = bytes.len() < message.len();
            take(Message {
                bytes,
                len_sent: message.len() as u64,
                flags: if is_cut { Flags::TRUNCATED } else { Flags::default() },
                is_envelope: false,
                is_answered: true,
            });
        });
        fed.map_err(|violation| session::Violation { rule: violation.name() })
    }

    /// What is held was never whole, is not answered, and comes again.
    fn finish(&mut self, _: Finish, _: &mut Take<'_>) {}

    fn held_bytes(&self) -> usize {
        RelpServer::held_bytes(self)
    }

    fn is_within_frame(&self) -> bool {
        RelpServer::is_within_frame(self)
    }

    fn is_opening(&self) -> bool {
        !self.is_open()
    }

    fn durable(&mut self, messages: u64) {
        RelpServer::durable(self, messages);
    }

    fn unanswered(&self) -> u64 {
        RelpServer::unanswered(self) as u64
    }

    fn take_replies(&mut self, out: &mut Vec<u8>) {
        out.append(self.replies());
    }

    fn wants_input(&self) -> bool {
        RelpServer::wants_input(self)
    }

    fn is_over(&self) -> bool {
        self.is_closed()
    }

    fn shut(&mut self) {
        RelpServer::shut(self);
    }
}

/// Appends one frame.
pub fn write_frame(out: &mut Vec<u8>, txnr: u32, command: &[u8], data: &[u8]) {
    push_number(out, u64::from(txnr));
    out.push(b' ');
    out.extend_from_slice(command);
    out.push(b' ');
    push_number(out, data.len() as u64);
    if !data.is_empty() {
        out.push(b' ');
        out.extend_from_slice(data);
    }
    out.push(b'\n');
}

fn push_number(out: &mut Vec<u8>, value: u64) {
    let mut digits = [0u8; 20];
    let mut at = digits.len();
    let mut value = value;
    loop {
        at -= 1;
        digits[at] = b'0' + (value % 10) as u8;
        value /= 10;
        if value == 0 {
            break;
        }
    }
    out.extend_from_slice(&digits[at..]);
}

/// The version of an offer that can be taken.
fn offer_taken(data: &[u8]) -> Option<u8> {
    let mut version = None;
    let mut has_syslog = false;
    for line in data.split(|b| *b == b'\n') {
        if let Some(value) = line.strip_prefix(b"relp_version=") {
            version = match value {
                b"0" => Some(0),
                b"1" => Some(1),
                _ => None,
            };
        } else if let Some(commands) = line.strip_prefix(b"commands=") {
            has_syslog |= commands.split(|b| *b == b',').any(|c| c == b"syslog");
        }
    }
    version.filter(|_| has_syslog)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const OPEN: &[u8] =
        b"1 open 86 relp_version=0\nrelp_software=librelp,1.11.0,http://librelp.adiscon.com\ncommands=syslog\n";

    fn run(pieces: &[&[u8]]) -> (Vec<Vec<u8>>, Vec<u8>, Result<(), Violation>) {
        let mut server = RelpServer::new();
        let mut messages = Vec::new();
        for piece in pieces {
            if let Err(e) = server.feed(piece, &mut |m| messages.push(m.to_vec())) {
                return (messages, server.replies().clone(), Err(e));
            }
        }
        (messages, server.replies().clone(), Ok(()))
    }

    #[test]
    fn nothing_is_answered_before_it_is_durable() {
        let mut server = RelpServer::new();
        let mut messages = 0;
        let input = [OPEN, b"2 syslog 3 one\n3 syslog 4 two\n\n4 close 0\n"].concat();
        server.feed(&input, &mut |_| messages += 1).expect("a good session");
        assert_eq!(messages, 2);
        assert!(server.replies().ends_with(b"commands=syslog\n"));
        server.replies().clear();
        server.durable(1);
        assert_eq!(server.replies(), b"2 rsp 6 200 OK\n");
        assert!(!server.is_closed());
        server.durable(1);
        assert_eq!(server.replies(), b"2 rsp 6 200 OK\n3 rsp 6 200 OK\n4 rsp 0\n0 serverclose 0\n");
        assert!(server.is_closed());
    }

    #[test]
    fn violations_end_the_session() {
        for (input, violation) in [
            (&b"1 syslog 3 one\n"[..], Violation::OutOfPlace),
            (b"x open", Violation::BadNumber),
            (b"1234567890 open", Violation::BadNumber),
            (b"1 aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", Violation::BadCommand),
            (b"1  4", Violation::BadCommand),
            (b"1 open 999999999 ", Violation::BadLength),
            (b"1 open x", Violation::BadLength),
            (b"1 open 3 abcd", Violation::NoTrailer),
            (b"1 open 3 abc\n", Violation::BadOffer),
            (b"0 open 0\n", Violation::Gap),
        ] {
            assert_eq!(run(&[input]).2, Err(violation), "{}", String::from_utf8_lossy(input));
        }
    }

    #[test]
    fn numbers_wrap_to_one() {
        let mut server = RelpServer::new();
        let mut count = 0;
        let open = [b"999999998".as_slice(), &OPEN[1..]].concat();
        let input = [&open, b"999999999 syslog 1 a\n1 syslog 1 b\n".as_slice()].concat();
        server.feed(&input, &mut |_| count += 1).expect("numbers follow");
        assert_eq!(count, 2);
    }

    proptest! {
        #[test]
        fn any_split_gives_the_same(
            tail in proptest::collection::vec(any::<u8>(), 0..20),
            cuts in proptest::collection::vec(0usize..200, 0..10),
        ) {
            let input = [OPEN, b"2 syslog 3 one\n3 other 1 x\n4 syslog 0\n5 close 0\n", &tail].concat();
            let whole = run(&[&input]);
            let mut at: Vec<usize> = cuts.into_iter().map(|c| c.min(input.len())).collect();
            at.sort_unstable();
            let mut pieces = Vec::new();
            let mut from = 0;
            for to in at { pieces.push(&input[from..to]); from = to; }
            pieces.push(&input[from..]);
            prop_assert_eq!(&run(&pieces), &whole);
            let bytes: Vec<&[u8]> = input.chunks(1).collect();
            prop_assert_eq!(&run(&bytes), &whole);
        }
    }
}
