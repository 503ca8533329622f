//! What a server asks of a dialect that senders of logs speak over a connection: bytes in, messages and replies out.
//! One file a dialect implements it, and [`crate::dialect`] lists all; no socket, no clock.

use crate::framing::Framing;
use gabion_seal::Flags;
use std::fmt;

/// One message as a session hands it out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Message<'a> {
    /// Its bytes, cut at the limit.
    pub bytes: &'a [u8],
    /// Its length on the wire; more than `bytes` when it was cut.
    pub len_sent: u64,
    /// What is known of it: that it was cut, is incomplete, or stood in a broken frame.
    pub flags: Flags,
    /// It is an envelope, to be opened before it is kept.
    pub is_envelope: bool,
    /// Its sender waits for the word that it is durable.
    pub is_answered: bool,
}

/// Takes messages.
pub type Take<'a> = dyn FnMut(Message<'_>) + 'a;

/// A sender broke the rules of its dialect: the connection is closed without an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Violation {
    /// Which rule, in one word.
    pub rule: &'static str,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.rule)
    }
}

/// Why no more bytes come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Finish {
    /// The sender has sent its last byte.
    EndOfStream,
    /// The receiver closes the connection: its sender was silent, slow, or had to make room.
    Abandoned,
}

/// How sessions are begun.
#[derive(Clone, Copy, Debug, Default)]
pub struct SessionSettings {
    /// How lines and counted frames are cut.
    pub framing: Framing,
    /// Length of the wrapped password of an envelope, where there is a key that opens some.
    pub wrapped_len: Option<usize>,
}

/// One connection of a dialect. Any split of the input gives the same messages.
pub trait Session: fmt::Debug + Send {
    /// Takes the next bytes and hands out the messages that end in them.
    ///
    /// # Errors
    /// Close the connection; what was handed out stays valid and is never answered.
    fn feed(&mut self, input: &[u8], take: &mut Take<'_>) -> Result<(), Violation>;

    /// No more bytes come: hands out what is held, as far as it is a message.
    fn finish(&mut self, why: Finish, take: &mut Take<'_>);

    /// Bytes held of an unfinished frame.
    fn held_bytes(&self) -> usize;

    /// Whether part of a frame is held: one that does not end makes its sender a slow one.
    fn is_within_frame(&self) -> bool;

    /// Whether the sender is still to say what a session begins with.
    fn is_opening(&self) -> bool {
        false
    }

    /// Counts that can't be one, so far.
    fn framing_errors(&self) -> u64 {
        0
    }

    /// That many further messages, in their order, are durable.
    fn durable(&mut self, _messages: u64) {}

    /// Messages that wait to be durable before they are answered.
    fn unanswered(&self) -> u64 {
        0
    }

    /// Whether its sender has sent all that it will and waits for the answer alone.
    fn awaits_last_answer(&self) -> bool {
        false
    }

    /// Moves bytes that are to be sent after those in `out`.
    fn take_replies(&mut self, _out: &mut Vec<u8>) {}

    /// Whether to read on.
    fn wants_input(&self) -> bool {
        true
    }

    /// Whether the session is over once its replies are sent.
    fn is_over(&self) -> bool {
        false
    }

    /// The server ends: its sender is to know.
    fn shut(&mut self) {}
}
