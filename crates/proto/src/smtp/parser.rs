//! One SMTP flow: lines become commands, replies and mails.
//!
//! Commands wait in a list for their replies, each with the transaction it belongs to. A mail's
//! lines end with CRLF, LF or a lone CR: servers differ, and a dot between any two of them may end
//! the mail. Lines too long to be held are taken in pieces; the limits make pieces fall at the same
//! places however the stream was cut into segments.

use super::limits::*;
use super::mime::{Mime, Piece, Sink};
use super::settings::Settings;
use super::tables::{event, frame, progress};
use super::tx::SmtpTx;
use crate::files::{FileState, FileWants};
use crate::tx_list::{TxList, TxTable};
use crate::{Input, Outcome, ParseContext, Parser, ProtocolChange};
use gabion_record::Direction::{self, ToClient, ToServer};
use std::collections::VecDeque;
use std::sync::Arc;

/// Name of the file that is a mail's raw text.
const RAW_NAME: &[u8] = b"rawmsg";

/// Port whose probes are asked when TLS follows.
const TLS_PORT: u16 = 443;

/// What a reply is awaited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Command {
    /// HELO or EHLO after a mail has begun.
    Greeting,
    StartTls,
    Data,
    /// The end of a mail: its last line, or its last chunk.
    MailEnd,
    Rset,
    Quit,
    Other,
}

/// What the client's bytes are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    Commands,
    /// Lines of a mail.
    Mail,
    /// That many bytes of a chunk (RFC 3030).
    Chunk {
        left: u32,
        is_last: bool,
    },
}

/// The outcome of the bytes at hand.
enum Step {
    /// This many were used.
    Used(usize),
    /// More are needed.
    Wait,
    /// The flow can't be followed.
    Failed,
}

/// Parser of an SMTP flow.
#[derive(Debug)]
pub struct SmtpParser {
    settings: Arc<Settings>,
    txs: TxList<SmtpTx>,
    /// Transaction that commands belong to.
    current: Option<u64>,
    helo: Option<Arc<[u8]>>,
    waiting: VecDeque<(Command, u64)>,
    mode: Mode,
    /// The mail's lines come at once after DATA, unless it is refused.
    is_data_asked: bool,
    has_greeting: bool,
    in_multiline: bool,
    has_pipelining: bool,
    /// A line was cut: the rest of it is dropped.
    is_cut: [bool; 2],
    /// Bytes at the front of the input known to hold no line end.
    scanned: [usize; 2],
    /// A piece of the mail's present line was taken.
    in_line: bool,
    last_file_id: u32,
    /// The frame of the mail has begun.
    in_data_frame: bool,
}

impl SmtpParser {
    /// A parser.
    pub fn new(settings: Arc<Settings>) -> SmtpParser {
        SmtpParser {
            settings,
            txs: TxList::default(),
            current: None,
            helo: None,
            waiting: VecDeque::new(),
            mode: Mode::Commands,
            is_data_asked: false,
            has_greeting: false,
            in_multiline: false,
            has_pipelining: false,
            is_cut: [false; 2],
            scanned: [0; 2],
            in_line: false,
            last_file_id: 0,
            in_data_frame: false,
        }
    }

    fn tx_now(&mut self) -> Option<&mut SmtpTx> {
        self.txs.get_mut(self.current?)
    }

    fn raise(&mut self, code: u16) {
        if let Some(tx) = self.tx_now() {
            tx.events.add(code);
        }
    }

    fn enter(&mut self, mode: Mode) {
        self.mode = mode;
        self.in_line = false;
        self.scanned[ToServer.index()] = 0;
        self.is_cut[ToServer.index()] = false;
    }

    /// The next line up to LF, without its line end, cut at the limit; how many bytes it took.
    fn line<'a>(&mut self, d: Direction, bytes: &'a [u8]) -> Option<(&'a [u8], usize, bool)> {
        let i = d.index();
        let from = self.scanned[i].min(bytes.len());
        let Some(at) = memchr::memchr(b'\n', &bytes[from..]).map(|at| from + at) else {
            self.scanned[i] = bytes.len();
            if bytes.len() < LINE_BYTES_MAX {
                return None;
            }
            self.scanned[i] = 0;
            let cut = std::mem::replace(&mut self.is_cut[i], true);
            return Some((&bytes[..LINE_BYTES_MAX], LINE_BYTES_MAX, cut));
        };
        self.scanned[i] = 0;
        if at >= LINE_BYTES_MAX && !self.is_cut[i] {
            self.is_cut[i] = true;
            return Some((&bytes[..LINE_BYTES_MAX], LINE_BYTES_MAX, false));
        }
        let is_rest = std::mem::take(&mut self.is_cut[i]);
        let text = &bytes[..at];
        Some((text.strip_suffix(b"\r").unwrap_or(text), at + 1, is_rest))
    }

    fn client(&mut self, cx: &mut ParseContext<'_>, bytes: &[u8], at: usize, eof: bool) -> Step {
        match self.mode {
            Mode::Commands => {
                let Some((line, used, is_rest)) = self.line(ToServer, bytes) else {
                    return Step::Wait;
                };
                if !is_rest {
                    let is_cut = self.is_cut[ToServer.index()];
                    cx.frames.add(ToServer, frame::COMMAND_LINE, at, used as u64, None);
                    let tx = self.command(line);
                    cx.trigger_raw[ToServer.index()] = true;
                    cx.frames.add(ToServer, frame::COMMAND_LINE, at, line.len() as u64, tx);
                    if is_cut {
                        self.raise(event::TRUNCATED_LINE);
                        self.is_cut[ToServer.index()] = true;
                    }
                }
                Step::Used(used)
            }
            Mode::Mail => {
                let start = cx.frames.at[ToServer.index()] + at as u64;
                if !self.in_data_frame {
                    self.in_data_frame = true;
                    cx.frames.begin(ToServer, frame::DATA, start, self.current);
                }
                let step = self.mail(cx, bytes, eof);
                if self.mode != Mode::Mail {
                    self.in_data_frame = false;
                    cx.frames.end(ToServer, frame::DATA, start);
                }
                step
            }
            Mode::Chunk { left, is_last } => {
                let n = usize::try_from(left).unwrap_or(usize::MAX).min(bytes.len());
                let left = left - n as u32;
                self.mode = Mode::Chunk { left, is_last };
                if left == 0 {
                    self.end_chunk(is_last);
                }
                Step::Used(n)
            }
        }
    }

    fn end_chunk(&mut self, is_last: bool) {
        self.enter(Mode::Commands);
        if is_last && let Some(tx) = self.tx_now() {
            tx.reach(ToServer, progress::COMPLETE);
        }
    }

    /// Takes a command; the transaction it belongs to.
    fn command(&mut self, line: &[u8]) -> Option<u64> {
        let is = |word: &[u8]| line.get(..word.len()).is_some_and(|w| w.eq_ignore_ascii_case(word));
        let is_over = self.tx_now().is_none_or(|t| t.progress[0] == progress::COMPLETE);
        let ends_only = is(b"quit") || is(b"rset");
        if self.current.is_none() || (is_over && !ends_only) {
            let (helo, settings) = (self.helo.clone(), self.settings.clone());
            self.current = Some(self.txs.next_id());
            self.txs.push(Some(&reached::TXS_PER_FLOW_MAX), |id| SmtpTx::new(id, helo, settings));
        }
        let tx = self.current.filter(|_| !(is_over && ends_only));
        // Events of a transaction that has ended are lost.
        if !self.has_greeting && self.tx_now().is_none_or(|tx| !tx.is_done()) {
            self.raise(event::NO_SERVER_WELCOME_MESSAGE);
        }
        let command = if is(b"starttls") {
            Command::StartTls
        } else if is(b"data") {
            match self.data() {
                Some(command) => command,
                None => return tx,
            }
        } else if is(b"bdat") {
            self.chunk(line)
        } else if is(b"helo") || is(b"ehlo") {
            let has_mail = |tx: &mut SmtpTx| tx.mail_from.is_some() || !tx.rcpt_to.is_empty();
            let is_again = self.tx_now().is_some_and(has_mail);
            self.greeting(argument(line, 4));
            if is_again { Command::Greeting } else { Command::Other }
        } else if is(b"mail from") {
            match self.tx_now() {
                Some(tx) if tx.mail_from.is_some() => tx.events.add(event::DUPLICATE_FIELDS),
                Some(tx) => tx.mail_from = Some(argument(line, 9).to_vec()),
                None => {}
            }
            Command::Other
        } else if is(b"rcpt to") {
            if let Some(tx) = self.tx_now() {
                tx.add_recipient(argument(line, 7));
            }
            Command::Other
        } else if is(b"rset") {
            Command::Rset
        } else if is(b"quit") {
            Command::Quit
        } else {
            Command::Other
        };
        self.wait_for(command);
        tx
    }

    /// Remembers that a reply is due.
    fn wait_for(&mut self, command: Command) {
        if matches!(self.waiting.back(), Some((Command::StartTls | Command::Data, _))) {
            self.raise(event::INVALID_PIPELINED_SEQUENCE);
        }
        if reached::COMMANDS_WAITING_MAX.has_room(self.waiting.len())
            && let Some(id) = self.current
        {
            self.waiting.push_back((command, id));
        }
    }

    fn greeting(&mut self, name: &[u8]) {
        if self.helo.is_some() {
            self.raise(event::DUPLICATE_FIELDS);
            return;
        }
        let name: Arc<[u8]> = name.into();
        self.helo = Some(name.clone());
        if let Some(tx) = self.tx_now() {
            tx.helo = Some(name);
        }
    }

    /// DATA; `None` when no reply is to be matched with it.
    fn data(&mut self) -> Option<Command> {
        let settings = self.settings.clone();
        let has_pipelining = self.has_pipelining;
        let tx = self.tx_now()?;
        // Suricata does not follow DATA that comes again, whether or not it was refused before; we
        // do after a refusal.
        if tx.is_data || tx.mime.is_some() {
            tx.events.add(event::UNPARSABLE_CONTENT);
            if tx.is_data {
                return None;
            }
        }
        tx.is_data = true;
        tx.reach(ToServer, progress::DATA);
        if settings.decode_mime {
            tx.mime = Some(Box::new(Mime::new(&settings.mime)));
        }
        self.is_data_asked = true;
        if has_pipelining {
            self.enter(Mode::Mail);
        }
        Some(Command::Data)
    }

    fn chunk(&mut self, line: &[u8]) -> Command {
        let Some((len, is_last)) = chunk_size(line.get(4..).unwrap_or_default()) else {
            self.raise(event::INVALID_BDAT);
            return Command::Other;
        };
        if let Some(tx) = self.tx_now() {
            tx.reach(ToServer, progress::DATA);
        }
        self.mode = Mode::Chunk { left: len, is_last };
        if len == 0 {
            self.end_chunk(is_last);
        }
        if is_last { Command::MailEnd } else { Command::Other }
    }

    /// Takes a line of a mail, or a piece of one.
    fn mail(&mut self, cx: &mut ParseContext<'_>, bytes: &[u8], eof: bool) -> Step {
        let in_headers =
            self.tx_now().is_some_and(|tx| tx.mime.as_ref().is_some_and(|m| m.is_in_headers()));
        if in_headers {
            let Some((line, used, is_rest)) = self.line(ToServer, bytes) else {
                return if eof { Step::Used(bytes.len()) } else { Step::Wait };
            };
            if is_rest {
                return Step::Used(used);
            }
            if self.is_cut[ToServer.index()] {
                self.raise(event::TRUNCATED_LINE);
            } else if line == b"." {
                self.end_mail(cx);
                return Step::Used(used);
            }
            let eol = &bytes[line.len()..used];
            self.give(cx, Piece { text: line, eol, is_first: true, is_last: true });
            return Step::Used(used);
        }
        let from = self.scanned[ToServer.index()].min(bytes.len());
        let at = memchr::memchr2(b'\r', b'\n', &bytes[from..]).map(|at| from + at);
        let is_first = !self.in_line;
        if bytes.len() >= LINE_BYTES_MAX && at.is_none_or(|at| at >= LINE_BYTES_MAX) {
            self.scanned[ToServer.index()] = 0;
            self.in_line = true;
            let text = &bytes[..LINE_BYTES_MAX];
            self.give(cx, Piece { text, eol: b"", is_first, is_last: false });
            return Step::Used(LINE_BYTES_MAX);
        }
        let (text, eol) = match at {
            Some(at) => match (bytes[at], bytes.get(at + 1)) {
                (b'\r', Some(b'\n')) => (&bytes[..at], &bytes[at..at + 2]),
                (b'\r', None) if !eof => {
                    self.scanned[ToServer.index()] = at;
                    return Step::Wait;
                }
                _ => (&bytes[..at], &bytes[at..=at]),
            },
            None if eof => (bytes, &b""[..]),
            None => {
                self.scanned[ToServer.index()] = bytes.len();
                return Step::Wait;
            }
        };
        self.scanned[ToServer.index()] = 0;
        self.in_line = false;
        if is_first && text == b"." && !eol.is_empty() {
            self.end_mail(cx);
        } else {
            self.give(cx, Piece { text, eol, is_first, is_last: true });
        }
        Step::Used(text.len() + eol.len())
    }

    /// Gives a piece to the mail. A boundary that ends a file makes the stream due for inspection.
    fn give(&mut self, cx: &mut ParseContext<'_>, piece: Piece<'_>) {
        let wants = FileWants::from(cx.requirements);
        let has_greeting = self.has_greeting;
        let Some(tx) = self.current.and_then(|id| self.txs.get_mut(id)) else { return };
        if !has_greeting && piece.is_first {
            tx.events.add(event::NO_SERVER_WELCOME_MESSAGE);
        }
        let SmtpTx { mime, files, events, settings, .. } = tx;
        let last_file_id = &mut self.last_file_id;
        let mut sink = Sink { files, events, last_file_id, wants };
        if let Some(mime) = mime {
            let had_file = sink.files.current().is_some();
            mime.piece(piece, &settings.mime, &mut sink);
            cx.trigger_raw[ToServer.index()] |= had_file && sink.files.current().is_none();
        } else if settings.raw_extraction {
            if sink.files.files.is_empty() {
                sink.open(RAW_NAME);
            }
            if let Some(f) = sink.files.current() {
                f.append(piece.text);
                f.append(piece.eol);
            }
        }
    }

    /// The mail has ended.
    fn end_mail(&mut self, cx: &mut ParseContext<'_>) {
        let wants = FileWants::from(cx.requirements);
        if !self.has_greeting {
            self.raise(event::NO_SERVER_WELCOME_MESSAGE);
        }
        if let Some(tx) = self.current.and_then(|id| self.txs.get_mut(id)) {
            let SmtpTx { mime, files, events, settings, .. } = tx;
            let last_file_id = &mut self.last_file_id;
            let mut sink = Sink { files, events, last_file_id, wants };
            if let Some(mime) = mime {
                mime.finish(&settings.mime, &mut sink);
            }
            if let Some(f) = sink.files.current() {
                f.close(FileState::Closed);
            }
            tx.reach(ToServer, progress::COMPLETE);
        }
        self.is_data_asked = false;
        self.enter(Mode::Commands);
        self.wait_for(Command::MailEnd);
    }

    fn server(&mut self, cx: &mut ParseContext<'_>, bytes: &[u8], at: usize) -> Step {
        let Some((line, used, is_rest)) = self.line(ToClient, bytes) else { return Step::Wait };
        if is_rest {
            return Step::Used(used);
        }
        if self.is_cut[ToClient.index()] {
            self.raise(event::TRUNCATED_LINE);
        }
        if line.is_empty() && used == 1 {
            return Step::Used(used);
        }
        cx.frames.add(ToClient, frame::RESPONSE_LINE, at, used as u64, self.current);
        if self.reply(cx, line) {
            Step::Used(used)
        } else {
            self.raise(event::INVALID_REPLY);
            Step::Failed
        }
    }

    /// Takes a line of a reply; false when it is none.
    fn reply(&mut self, cx: &mut ParseContext<'_>, line: &[u8]) -> bool {
        let Some(code) = reply_code(line) else { return false };
        self.in_multiline = line.get(3) == Some(&b'-');
        let Some(&(command, id)) = self.waiting.front() else {
            // There was no command: the greeting, or an unknown reply.
            if !self.has_greeting {
                self.has_greeting = !self.in_multiline;
                if code != 220 {
                    self.raise(event::INVALID_REPLY);
                }
            }
            return true;
        };
        let word = line.get(4..14).unwrap_or_default();
        self.has_pipelining |= word.eq_ignore_ascii_case(b"pipelining");
        cx.trigger_raw[ToClient.index()] = true;
        if self.in_multiline {
            return true;
        }
        self.waiting.pop_front();
        match (command, code) {
            (Command::StartTls, 220) => {
                cx.change =
                    Some(ProtocolChange { expected: Some(crate::tls::NAME), port: Some(TLS_PORT) });
                self.complete(id);
            }
            (Command::StartTls, _) => self.raise(event::TLS_REJECTED),
            (Command::Data, 354) => {
                if let Some(tx) = self.txs.get_mut(id) {
                    tx.reach(ToClient, progress::DATA);
                }
                if std::mem::take(&mut self.is_data_asked) && self.mode == Mode::Commands {
                    self.enter(Mode::Mail);
                }
            }
            (Command::Data, _) => {
                self.raise(event::DATA_COMMAND_REJECTED);
                if let Some(tx) = self.txs.get_mut(id) {
                    tx.is_data = false;
                }
                if std::mem::take(&mut self.is_data_asked) {
                    self.enter(Mode::Commands);
                }
            }
            // A new greeting resets what is known of a mail (RFC 5321 4.1.4).
            (Command::MailEnd, _)
            | (Command::Rset | Command::Greeting, 250)
            | (Command::Quit, 221) => self.complete(id),
            _ => {}
        }
        true
    }

    fn complete(&mut self, id: u64) {
        if let Some(tx) = self.txs.get_mut(id) {
            tx.complete();
        }
    }
}

/// What follows a command's name and the character that follows it, up to a blank.
fn argument(line: &[u8], name: usize) -> &[u8] {
    let text = line.get(name + 1..).unwrap_or_default();
    let from = text.iter().position(|b| *b != b' ').unwrap_or(text.len());
    let text = &text[from..];
    let end = memchr::memchr(b' ', text).unwrap_or(text.len());
    &text[..end]
}

/// Length of a chunk and whether it is the last one, from what follows `BDAT`.
fn chunk_size(text: &[u8]) -> Option<(u32, bool)> {
    let text = std::str::from_utf8(text).ok()?.strip_prefix(' ')?.trim_matches(' ');
    let (number, rest) = text.split_once(' ').unwrap_or((text, ""));
    let rest = rest.trim_start_matches(' ');
    let is_last = rest.eq_ignore_ascii_case("last");
    (is_last || rest.is_empty()).then_some(())?;
    Some((number.parse().ok()?, is_last))
}

/// Codes Suricata 8.0.7 takes for replies: measured with all from 000 to 999.
const REPLY_CODES: &[u16] = &[
    211, 214, 220, 221, 235, 250, 251, 252, 334, 354, 401, 402, 421, 435, 450, 451, 452, 454, 455,
    500, 501, 502, 503, 504, 511, 521, 522, 525, 530, 534, 535, 541, 543, 550, 551, 552, 553, 554,
    555,
];

fn reply_code(line: &[u8]) -> Option<u16> {
    let digits = line.get(..3).filter(|d| d.iter().all(u8::is_ascii_digit))?;
    let code = digits.iter().fold(0, |n, d| n * 10 + u16::from(d - b'0'));
    REPLY_CODES.binary_search(&code).is_ok().then_some(code)
}

impl Parser for SmtpParser {
    fn parse(&mut self, cx: &mut ParseContext<'_>, input: Input<'_>) -> Outcome {
        let Input::Data { bytes, eof } = input else { return Outcome::Error };
        let mut rest = bytes;
        while !rest.is_empty() {
            let step = match cx.direction {
                ToServer => self.client(cx, rest, bytes.len() - rest.len(), eof),
                ToClient => self.server(cx, rest, bytes.len() - rest.len()),
            };
            match step {
                Step::Used(n) => rest = rest.get(n..).unwrap_or_default(),
                Step::Wait => {
                    let consumed = bytes.len() - rest.len();
                    return Outcome::Incomplete { consumed, needed: rest.len() + 1 };
                }
                Step::Failed => {
                    self.txs.iter_mut().for_each(SmtpTx::complete);
                    return Outcome::Error;
                }
            }
            if cx.change.is_some() && !rest.is_empty() {
                // What follows is TLS.
                let consumed = bytes.len() - rest.len();
                return Outcome::Incomplete { consumed, needed: rest.len() + 1 };
            }
        }
        Outcome::Done
    }

    fn txs(&self) -> &dyn TxTable {
        &self.txs
    }

    fn txs_mut(&mut self) -> &mut dyn TxTable {
        &mut self.txs
    }

    fn finish(&mut self, direction: Direction) {
        for tx in self.txs.iter_mut() {
            tx.reach(direction, progress::COMPLETE);
        }
    }

    fn bytes_held(&self) -> usize {
        size_of::<SmtpParser>()
            + self.waiting.capacity() * size_of::<(Command, u64)>()
            + self.helo.as_ref().map_or(0, |h| h.len())
            + self.txs.iter().map(SmtpTx::bytes_held).sum::<usize>()
    }
}
