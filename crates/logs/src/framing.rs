//! Cuts a TCP stream into messages (RFC 6587): octet counting and lines, decided for every frame by
//! its first byte, because real senders mix them and one connection may carry several of them behind
//! a relay.
//!
//! The trap is a line that begins with a number: `2020 was a year` read as a count would swallow the
//! next 2,020 bytes. So a count that no `<` follows is text on a connection that has sent lines
//! before, and what is held when the sender falls silent or goes is handed out as text.
//!
//! Any split of the input gives the same frames. Nothing is copied that lies whole in one input.
//! At most one message is held, cut at its limit.

use crate::limits::{MESSAGE_BYTES_MAX, OCTET_COUNT_DIGITS_MAX, OCTET_COUNT_MAX};
use crate::session::{Finish, Message, Session, Take, Violation};
use gabion_seal::Flags;

/// How a connection's bytes are cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Framing {
    /// Bytes of a message that are kept.
    pub message_bytes_max: usize,
    /// NUL ends a line too (some Cisco and Java senders); else it is data.
    pub nul_ends_line: bool,
}

impl Default for Framing {
    fn default() -> Framing {
        Framing { message_bytes_max: MESSAGE_BYTES_MAX, nul_ends_line: false }
    }
}

/// One message as it stood on the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frame<'a> {
    /// Its bytes, without count and line end; a CR before the line end is kept. Cut at the limit.
    pub bytes: &'a [u8],
    /// Its length on the wire; more than `bytes` when it was cut.
    pub len_sent: u64,
    /// The stream ended or fell silent inside it.
    pub is_incomplete: bool,
    /// A count stood before it that can't be one.
    pub is_frame_error: bool,
}

impl<'a> Frame<'a> {
    /// Whether bytes were cut off.
    pub const fn is_truncated(&self) -> bool {
        self.len_sent > self.bytes.len() as u64
    }

    /// Its bytes without the CR that belongs to a line end.
    pub fn text(&self) -> &'a [u8] {
        self.bytes.strip_suffix(b"\r").unwrap_or(self.bytes)
    }
}

/// What was met that is no frame.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FramingCounts {
    /// Empty lines.
    pub empty: u64,
    /// Counts that can't be one.
    pub errors: u64,
    /// Messages cut at the limit.
    pub truncated: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Before a frame; a space may have been seen.
    Between { after_space: bool },
    /// In the digits of what may be a count; they are held.
    Count,
    /// After a count and its space.
    AfterCount,
    /// In a line.
    Line,
    /// In a counted frame.
    Octets { left: u64 },
}

/// Cuts one stream.
#[derive(Clone, Debug)]
pub struct Framer {
    framing: Framing,
    state: State,
    /// The frame so far.
    held: Vec<u8>,
    /// Bytes of it beyond the limit.
    cut: u64,
    /// The count of a counted frame with its digits and space as they came, in case it is text.
    count_text: Vec<u8>,
    has_sent_lines: bool,
    is_after_octets: bool,
    is_error: bool,
    counts: FramingCounts,
}

impl Framer {
    /// For a new connection.
    pub fn new(framing: Framing) -> Framer {
        Framer {
            framing,
            state: State::Between { after_space: false },
            held: Vec::new(),
            cut: 0,
            count_text: Vec::new(),
            has_sent_lines: false,
            is_after_octets: false,
            is_error: false,
            counts: FramingCounts::default(),
        }
    }

    /// What was met that is no frame.
    pub const fn counts(&self) -> FramingCounts {
        self.counts
    }

    /// Whether part of a frame is held.
    pub fn is_within_frame(&self) -> bool {
        !matches!(self.state, State::Between { .. })
    }

    /// Bytes held of an unfinished frame.
    pub fn held_bytes(&self) -> usize {
        self.held.len() + self.count_text.len()
    }

    /// Takes the next bytes and hands out the frames that end in them.
    pub fn feed(&mut self, input: &[u8], take: &mut impl FnMut(Frame<'_>)) {
        let mut rest = input;
        while let Some((&first, behind)) = rest.split_first() {
            match self.state {
                State::Between { after_space } => {
                    rest = self.begin(first, after_space, rest, behind);
                }
                State::Count => rest = self.count(first, rest, behind),
                State::AfterCount => self.after_count(first),
                State::Line => rest = self.line(rest, take),
                State::Octets { left } => rest = self.octets(left, rest, take),
            }
        }
    }

    /// The sender went, or fell silent for too long: hands out what is held, as text when a count
    /// before it can't have been one.
    pub fn finish(&mut self, take: &mut impl FnMut(Frame<'_>)) {
        match self.state {
            State::Between { .. } => {}
            State::Count | State::Line => self.hand_out(true, take),
            State::AfterCount => {
                self.is_error = true;
                self.counts.errors += 1;
                std::mem::swap(&mut self.held, &mut self.count_text);
                self.hand_out(true, take);
            }
            State::Octets { .. } if self.held.first() == Some(&b'<') => self.hand_out(true, take),
            State::Octets { .. } => {
                self.counts.errors += 1;
                let mut text = std::mem::take(&mut self.count_text);
                text.append(&mut self.held);
                self.cut = 0;
                let mut lines = text.split(|b| self.is_line_end(*b)).peekable();
                let mut handed = 0;
                while let Some(line) = lines.next() {
                    if line.is_empty() || line == b"\r" {
                        continue;
                    }
                    handed += 1;
                    take(Frame {
                        bytes: line.get(..self.framing.message_bytes_max).unwrap_or(line),
                        len_sent: line.len() as u64,
                        is_incomplete: lines.peek().is_none(),
                        is_frame_error: true,
                    });
                }
                self.has_sent_lines |= handed > 0;
            }
        }
        self.reset();
    }

    fn begin<'i>(
        &mut self,
        first: u8,
        after_space: bool,
        rest: &'i [u8],
        behind: &'i [u8],
    ) -> &'i [u8] {
        if after_space && first != b'<' {
            // The space belongs to the line.
            self.held.push(b' ');
            self.state = State::Line;
            return rest;
        }
        if self.is_line_end(first) {
            // The line end after a counted frame belongs to it.
            self.counts.empty += u64::from(!self.is_after_octets);
            self.is_after_octets = false;
            return behind;
        }
        match first {
            b' ' => {
                self.state = State::Between { after_space: true };
                behind
            }
            b'0'..=b'9' => {
                self.state = State::Count;
                rest
            }
            _ => {
                self.state = State::Line;
                rest
            }
        }
    }

    fn count<'i>(&mut self, first: u8, rest: &'i [u8], behind: &'i [u8]) -> &'i [u8] {
        if first.is_ascii_digit() && self.held.len() < OCTET_COUNT_DIGITS_MAX {
            self.held.push(first);
            return behind;
        }
        let count = self.held.iter().fold(0u64, |n, d| {
            n.saturating_mul(10).saturating_add(u64::from(d.wrapping_sub(b'0')))
        });
        if first == b' ' && count == 0 {
            // What follows is a line; the count is no part of it.
            self.held.clear();
            self.counts.errors += 1;
            self.is_error = true;
            self.state = State::Line;
            return behind;
        }
        if first == b' ' && count <= OCTET_COUNT_MAX {
            self.count_text.clear();
            self.count_text.append(&mut self.held);
            self.count_text.push(b' ');
            self.state = State::AfterCount;
            return behind;
        }
        // Digits that are text. On a connection of lines that is nothing special.
        if !self.has_sent_lines {
            self.counts.errors += 1;
            self.is_error = true;
        }
        self.state = State::Line;
        rest
    }

    /// Decides by the first byte of the frame; takes none.
    fn after_count(&mut self, first: u8) {
        if first != b'<' && self.has_sent_lines {
            std::mem::swap(&mut self.held, &mut self.count_text);
            self.count_text.clear();
            self.state = State::Line;
            return;
        }
        let left = self.count_text.iter().filter(|b| b.is_ascii_digit()).fold(0u64, |n, d| {
            n.saturating_mul(10).saturating_add(u64::from(d.wrapping_sub(b'0')))
        });
        self.state = State::Octets { left };
    }

    fn line<'i>(&mut self, rest: &'i [u8], take: &mut impl FnMut(Frame<'_>)) -> &'i [u8] {
        let end = if self.framing.nul_ends_line {
            memchr::memchr2(b'\n', 0, rest)
        } else {
            memchr::memchr(b'\n', rest)
        };
        let Some(end) = end else {
            self.hold(rest);
            return &[];
        };
        let (line, behind) = rest.split_at(end);
        self.has_sent_lines = true;
        if self.held.is_empty() {
            self.hand_out_slice(line, take);
            self.reset();
        } else {
            self.hold(line);
            self.hand_out(false, take);
            self.reset();
        }
        self.is_after_octets = false;
        behind.get(1..).unwrap_or_default()
    }

    fn octets<'i>(
        &mut self,
        left: u64,
        rest: &'i [u8],
        take: &mut impl FnMut(Frame<'_>),
    ) -> &'i [u8] {
        let here = usize::try_from(left).unwrap_or(usize::MAX).min(rest.len());
        let (part, behind) = rest.split_at(here);
        let left = left.saturating_sub(part.len() as u64);
        if left > 0 {
            self.hold(part);
            self.state = State::Octets { left };
            return behind;
        }
        if self.held.is_empty() {
            self.hand_out_slice(part, take);
        } else {
            self.hold(part);
            self.hand_out(false, take);
        }
        self.reset();
        self.is_after_octets = true;
        behind
    }

    fn hold(&mut self, bytes: &[u8]) {
        let room = self.framing.message_bytes_max.saturating_sub(self.held.len());
        let kept = bytes.get(..room).unwrap_or(bytes);
        self.held.extend_from_slice(kept);
        self.cut = self.cut.saturating_add((bytes.len() - kept.len()) as u64);
    }

    fn hand_out_slice(&mut self, bytes: &[u8], take: &mut impl FnMut(Frame<'_>)) {
        if bytes.is_empty() || bytes == b"\r" {
            self.counts.empty += 1;
            return;
        }
        let kept = bytes.get(..self.framing.message_bytes_max).unwrap_or(bytes);
        self.counts.truncated += u64::from(kept.len() < bytes.len());
        take(Frame {
            bytes: kept,
            len_sent: bytes.len() as u64,
            is_incomplete: false,
            is_frame_error: self.is_error,
        });
    }

    fn hand_out(&mut self, is_incomplete: bool, take: &mut impl FnMut(Frame<'_>)) {
        if self.held.is_empty() || (self.held == b"\r" && self.cut == 0) {
            self.counts.empty += 1;
            return;
        }
        self.counts.truncated += u64::from(self.cut > 0);
        take(Frame {
            bytes: &self.held,
            len_sent: self.held.len() as u64 + self.cut,
            is_incomplete,
            is_frame_error: self.is_error,
        });
    }

    fn reset(&mut self) {
        self.state = State::Between { after_space: false };
        self.held.clear();
        self.count_text.clear();
        self.cut = 0;
        self.is_error = false;
        // A message of 64 KiB must not hold its memory for the life of a silent connection.
        if self.held.capacity() > 8 * 1024 {
            self.held = Vec::new();
        }
    }

    const fn is_line_end(&self, byte: u8) -> bool {
        byte == b'\n' || (byte == 0 && self.framing.nul_ends_line)
    }
}

/// A connection of syslog: what its [`Framer`] cuts, unanswered.
#[derive(Clone, Debug)]
pub struct SyslogSession(Framer);

impl SyslogSession {
    /// For a new connection.
    #[must_use]
    pub fn new(framing: Framing) -> SyslogSession {
        SyslogSession(Framer::new(framing))
    }
}

impl<'a> From<Frame<'a>> for Message<'a> {
    fn from(frame: Frame<'a>) -> Message<'a> {
        let mut flags = Flags::default();
        for (is_so, flag) in [
            (frame.is_truncated(), Flags::TRUNCATED),
            (frame.is_incomplete, Flags::INCOMPLETE),
            (frame.is_frame_error, Flags::FRAME_ERROR),
        ] {
            if is_so {
                flags = flags.with(flag);
            }
        }
        let Frame { bytes, len_sent, .. } = frame;
        Message { bytes, len_sent, flags, is_envelope: false, is_answered: false }
    }
}

impl Session for SyslogSession {
    fn feed(&mut self, input: &[u8], take: &mut Take<'_>) -> Result<(), Violation> {
        self.0.feed(input, &mut |frame| take(frame.into()));
        Ok(())
    }

    /// The rest is handed out in any case: a sender that falls silent has sent it.
    fn finish(&mut self, _: Finish, take: &mut Take<'_>) {
        self.0.finish(&mut |frame| take(frame.into()));
    }

    fn held_bytes(&self) -> usize {
        self.0.held_bytes()
    }

    fn is_within_frame(&self) -> bool {
        self.0.is_within_frame()
    }

    fn framing_errors(&self) -> u64 {
        self.0.counts().errors
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    type Kept = (Vec<u8>, u64, bool, bool);

    fn cut(framing: Framing, pieces: &[&[u8]]) -> (Vec<Kept>, FramingCounts) {
        let mut framer = Framer::new(framing);
        let mut frames = Vec::new();
        let mut take = |f: Frame<'_>| {
            frames.push((f.bytes.to_vec(), f.len_sent, f.is_incomplete, f.is_frame_error))
        };
        for piece in pieces {
            framer.feed(piece, &mut take);
        }
        framer.finish(&mut take);
        (frames, framer.counts())
    }

    fn texts(input: &[u8]) -> Vec<String> {
        let (frames, _) = cut(Framing::default(), &[input]);
        frames.iter().map(|f| String::from_utf8_lossy(&f.0).into_owned()).collect()
    }

    #[test]
    fn a_number_at_the_start_of_a_line_does_not_swallow_what_follows() {
        assert_eq!(
            texts(b"<13>a\n2020 was a year\n<13>b\n"),
            ["<13>a", "2020 was a year", "<13>b"]
        );
        assert_eq!(texts(b"2020 was a year\nand more\n"), ["2020 was a year", "and more"]);
        assert_eq!(texts(b"99999999999 <13>a\n<13>b\n"), ["99999999999 <13>a", "<13>b"]);
    }

    #[test]
    fn what_is_held_at_the_end_is_flagged() {
        let (frames, counts) = cut(Framing::default(), &[b"100 <13>cut"]);
        assert_eq!(frames, [(b"<13>cut".to_vec(), 7, true, false)]);
        assert_eq!(counts, FramingCounts::default());
        let (frames, counts) = cut(Framing::default(), &[b"100 cut"]);
        assert_eq!(frames, [(b"100 cut".to_vec(), 7, true, true)]);
        assert_eq!(counts.errors, 1);
    }

    #[test]
    fn long_messages_are_cut_and_say_how_long_they_were() {
        let framing = Framing { message_bytes_max: 4, ..Framing::default() };
        let (frames, counts) = cut(framing, &[b"abcdefgh\n6 <34567xy\n"]);
        assert_eq!(
            frames,
            [
                (b"abcd".to_vec(), 8, false, false),
                (b"<345".to_vec(), 6, false, false),
                (b"xy".to_vec(), 2, false, false)
            ]
        );
        assert_eq!(counts.truncated, 2);
    }

    proptest! {
        #[test]
        fn any_split_gives_the_same(
            input in proptest::collection::vec(
                prop_oneof![
                    Just(b"<13>x".to_vec()), Just(b"\n".to_vec()), Just(b"5 ".to_vec()), Just(b"0 ".to_vec()),
                    Just(b"28".to_vec()), Just(b" ".to_vec()), Just(b"\r\n".to_vec()), Just(b"\0".to_vec()),
                    Just(b"12345678901 ".to_vec()), proptest::collection::vec(any::<u8>(), 0..9)
                ], 0..24),
            cuts in proptest::collection::vec(any::<proptest::sample::Index>(), 0..12),
            nul in any::<bool>(),
            max in 3usize..40,
        ) {
            let input = input.concat();
            let framing = Framing { message_bytes_max: max, nul_ends_line: nul };
            let whole = cut(framing, &[&input]);
            let mut at: Vec<usize> = cuts.iter().map(|c| c.index(input.len() + 1)).collect();
            at.sort_unstable();
            let mut pieces = Vec::new();
            let mut from = 0;
            for to in at {
                pieces.push(&input[from..to]);
                from = to;
            }
            pieces.push(&input[from..]);
            prop_assert_eq!(&cut(framing, &pieces), &whole);
            let bytes: Vec<&[u8]> = input.chunks(1).collect();
            prop_assert_eq!(&cut(framing, &bytes), &whole);
        }
    }
}
