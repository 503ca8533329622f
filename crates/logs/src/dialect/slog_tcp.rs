//! slog's envelopes over TCP: one a connection, answered `OK` when it is durable.
//!
//! Its end is known by its length (a comma, and the wrapped password after it), by a line end, or by the end of the
//! stream.

use crate::limits::ENVELOPE_BYTES_MAX;
use crate::session::{Finish, Message, Session, Take, Violation};
use gabion_seal::Flags;

/// How far a connection is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// The envelope is coming.
    Coming,
    /// It was handed out and waits for its answer.
    Waiting,
    /// It was answered.
    Answered,
}

/// One connection.
#[derive(Debug)]
pub struct SlogSession {
    held: Vec<u8>,
    wrapped_len: usize,
    state: State,
    replies: Vec<u8>,
}

impl SlogSession {
    /// For a new connection; the length of a wrapped password is known where there is a key.
    #[must_use]
    pub fn new(wrapped_len: Option<usize>) -> SlogSession {
        SlogSession {
            held: Vec::new(),
            wrapped_len: wrapped_len.unwrap_or(usize::MAX),
            state: State::Coming,
            replies: Vec::new(),
        }
    }

    fn is_whole(&self) -> bool {
        let held = &self.held;
        held.len() >= ENVELOPE_BYTES_MAX
            || held.ends_with(b"\n")
            || memchr::memchr(b',', held).is_some_and(|comma| {
                let wrapped = held.get(comma + 1..).unwrap_or_default();
                wrapped.iter().filter(|b| !b.is_ascii_whitespace()).count() >= self.wrapped_len
            })
    }

    fn hand_out(&mut self, take: &mut Take<'_>) {
        let bytes = std::mem::take(&mut self.held);
        self.state = State::Waiting;
        take(Message {
            bytes: &bytes,
            len_sent: bytes.len() as u64,
            flags: Flags::default(),
            is_envelope: true,
            is_answered: true,
        });
    }
}

impl Session for SlogSession {
    fn feed(&mut self, input: &[u8], take: &mut Take<'_>) -> Result<(), Violation> {
        if self.state != State::Coming {
            return Ok(());
        }
        let room = ENVELOPE_BYTES_MAX.saturating_sub(self.held.len());
        self.held.extend_from_slice(input.get(..room).unwrap_or(input));
        if !self.held.is_empty() && self.is_whole() {
            self.hand_out(take);
        }
        Ok(())
    }

    fn finish(&mut self, why: Finish, take: &mut Take<'_>) {
        match why {
            Finish::EndOfStream if !self.held.is_empty() => self.hand_out(take),
            // Half an envelope can't be opened, and its sender knows that it was not answered.
            Finish::EndOfStream | Finish::Abandoned => {}
        }
    }

    fn held_bytes(&self) -> usize {
        self.held.len()
    }

    fn is_within_frame(&self) -> bool {
        !self.held.is_empty()
    }

    fn is_opening(&self) -> bool {
        self.state == State::Coming
    }

    fn durable(&mut self, messages: u64) {
        if messages > 0 && self.state == State::Waiting {
            self.state = State::Answered;
            self.replies.extend_from_slice(b"OK");
        }
    }

    fn unanswered(&self) -> u64 {
        u64::from(self.awaits_last_answer())
    }

    fn awaits_last_answer(&self) -> bool {
        self.state == State::Waiting
    }

    fn take_replies(&mut self, out: &mut Vec<u8>) {
        out.append(&mut self.replies);
    }

    fn wants_input(&self) -> bool {
        self.state == State::Coming
    }

    fn is_over(&self) -> bool {
        self.state == State::Answered
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The envelopes of a stream in pieces, and what was replied once they were durable.
    fn run(pieces: &[&[u8]], end: Finish) -> (Vec<Vec<u8>>, Vec<u8>) {
        let mut session = SlogSession::new(Some(4));
        let mut envelopes = Vec::new();
        let mut take = |m: Message<'_>| envelopes.push(m.bytes.to_vec());
        for piece in pieces {
            session.feed(piece, &mut take).expect("no rules");
        }
        session.finish(end, &mut take);
        session.durable(1);
        let mut replies = Vec::new();
        session.take_replies(&mut replies);
        (envelopes, replies)
    }

    #[test]
    fn an_envelope_ends_by_its_length_a_line_end_or_the_end_of_the_stream() {
        let answered = |text: &[u8]| (vec![text.to_vec()], b"OK".to_vec());
        assert_eq!(run(&[b"ab,cd", b"ef"], Finish::Abandoned), answered(b"ab,cdef"));
        assert_eq!(run(&[b"ab,c\n"], Finish::Abandoned), answered(b"ab,c\n"));
        assert_eq!(run(&[b"ab,", b"c"], Finish::EndOfStream), answered(b"ab,c"));
        assert_eq!(run(&[b"ab,c"], Finish::Abandoned), (vec![], vec![]));
        assert_eq!(run(&[], Finish::EndOfStream), (vec![], vec![]));
    }

    #[test]
    fn nothing_is_read_behind_an_envelope_and_the_answer_is_the_end() {
        let mut session = SlogSession::new(None);
        assert!(session.is_opening() && session.wants_input());
        session.feed(b"ab,c\n", &mut |_| {}).expect("no rules");
        assert!(!session.wants_input() && session.awaits_last_answer() && !session.is_over());
        session.feed(b"more\n", &mut |_| panic!("one a connection")).expect("no rules");
        session.durable(1);
        assert!(session.is_over() && session.unanswered() == 0);
    }
}
