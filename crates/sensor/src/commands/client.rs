//! One client of the command socket: Suricata's protocol of JSON objects, of which each is answered by another.
//!
//! The first object names the version of the protocol (`{"version": "0.2"}`). Since 0.2 each object ends with a line. What is
//! no object, or too long, is answered once, and the client is closed.

use crate::limits::COMMAND_BYTES_MAX;
use gabion_flowlog::json::{Value, members, unescape};
use gabion_record::json::Json;
use rustix::event::PollFlags;
use std::io::{ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

/// How long a client may leave an object unfinished, or an answer unread.
const PATIENCE: Duration = Duration::from_secs(10);

/// How long a command may take: loads of rules take longest.
const ANSWER_WAIT: Duration = Duration::from_secs(120);

/// Finds the end of a JSON object in bytes that come in pieces.
#[derive(Clone, Copy, Debug, Default)]
struct Scan {
    at: usize,
    depth: usize,
    is_text: bool,
    is_escaped: bool,
}

/// What the bytes so far are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Found {
    /// Part of an object, or none yet.
    Part,
    /// An object that ends before this place.
    Whole(usize),
    /// Something else.
    Other,
}

impl Scan {
    fn find_object_end(&mut self, bytes: &[u8]) -> Found {
        while let Some(byte) = bytes.get(self.at) {
            self.at += 1;
            match byte {
                _ if self.is_escaped => self.is_escaped = false,
                b'\\' if self.is_text => self.is_escaped = true,
                b'"' if self.depth > 0 => self.is_text = !self.is_text,
                _ if self.is_text => {}
                b'{' | b'[' if self.depth > 0 || *byte == b'{' => self.depth += 1,
                b'}' | b']' if self.depth > 0 => {
                    self.depth -= 1;
                    if self.depth == 0 {
                        return Found::Whole(self.at);
                    }
                }
                _ if self.depth > 0 || byte.is_ascii_whitespace() => {}
                _ => return Found::Other,
            }
        }
        Found::Part
    }
}

/// A request as it was read.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Request {
    /// The command's name.
    pub(super) command: String,
    /// Its arguments as the JSON object that was given.
    pub(super) arguments: Vec<u8>,
}

/// The text of a value: without quotes and escapes, of numbers and truths as they are written.
pub(super) fn text_of(value: Value<'_>) -> String {
    let mut text = Vec::new();
    match value {
        Value::Text(raw, true) => unescape(raw, &mut text),
        other => text.extend_from_slice(other.raw()),
    }
    String::from_utf8_lossy(&text).into_owned()
}

/// What is to be done with what a client has sent.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Said {
    /// Nothing yet.
    Nothing,
    /// A command.
    Request(Request),
}

/// A client.
pub(super) struct Client {
    stream: UnixStream,
    input: Vec<u8>,
    scan: Scan,
    output: Vec<u8>,
    written: usize,
    /// It has named the version of the protocol.
    is_greeted: bool,
    /// Objects end with a line.
    ends_lines: bool,
    /// A command of it is carried out, and its answer comes later.
    pub(super) is_waiting: bool,
    is_closing: bool,
    /// When it last did something.
    since: Instant,
}

impl Client {
    pub(super) fn new(stream: UnixStream) -> Client {
        Client {
            stream,
            input: Vec::new(),
            scan: Scan::default(),
            output: Vec::new(),
            written: 0,
            is_greeted: false,
            ends_lines: false,
            is_waiting: false,
            is_closing: false,
            since: gabion_runtime::clock::now(),
        }
    }

    pub(super) fn stream(&self) -> &UnixStream {
        &self.stream
    }

    /// What it waits for. One command is carried out at a time.
    pub(super) fn waits_for(&self) -> PollFlags {
        match (self.output.is_empty(), self.is_waiting) {
            (false, _) => PollFlags::OUT,
            (true, false) => PollFlags::IN,
            (true, true) => PollFlags::empty(),
        }
    }

    /// Whether something is unfinished for too long.
    pub(super) fn is_late(&self) -> bool {
        let is_unfinished = !self.input.is_empty() || !self.output.is_empty() || !self.is_greeted;
        is_unfinished && !self.is_waiting && self.since.elapsed() > PATIENCE
    }

    /// Whether it waits for an answer for so long that none will come.
    pub(super) fn is_kept_waiting(&self) -> bool {
        self.is_waiting && self.since.elapsed() > ANSWER_WAIT
    }

    /// How long it has done nothing; none where somebody works for it.
    pub(super) fn idle_since(&self) -> Option<Instant> {
        (!self.is_waiting).then_some(self.since)
    }

    /// Takes what has come. None: the client is gone.
    pub(super) fn read_said(&mut self) -> Option<Said> {
        let mut piece = [0; 4096];
        loop {
            match self.stream.read(&mut piece) {
                Ok(0) => return None,
                Ok(n) => {
                    self.since = gabion_runtime::clock::now();
                    self.input.extend_from_slice(piece.get(..n).unwrap_or_default());
                    break;
                }
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(e) if e.kind() == ErrorKind::WouldBlock => break,
                Err(_) => return None,
            }
        }
        Some(self.next_said())
    }

    /// The next request of what has come already.
    pub(super) fn next_said(&mut self) -> Said {
        if self.is_closing || self.is_waiting {
            return Said::Nothing;
        }
        match self.scan.find_object_end(&self.input) {
            Found::Part if self.input.len() > COMMAND_BYTES_MAX => {
                self.refuse("the command is too long");
                Said::Nothing
            }
            Found::Part => Said::Nothing,
            Found::Other => {
                self.refuse("the command is not a JSON object");
                Said::Nothing
            }
            Found::Whole(end) => {
                let object: Vec<u8> = self.input.drain(..end).collect();
                self.scan = Scan::default();
                if self.input.iter().all(u8::is_ascii_whitespace) {
                    self.input.clear();
                }
                if self.is_greeted {
                    self.request(&object)
                } else {
                    self.greet(&object);
                    Said::Nothing
                }
            }
        }
    }

    fn greet(&mut self, object: &[u8]) {
        let mut version = None;
        let is_read = members(object, |key, value| {
            if key == b"version" {
                version = Some(text_of(value));
            }
        });
        match (is_read, version.as_deref()) {
            (Some(()), Some(version @ ("0.1" | "0.2"))) => {
                self.ends_lines = version == "0.2";
                self.is_greeted = true;
                self.put(b"{\"return\":\"OK\"}");
            }
            _ => self.refuse("name the version of the protocol first: {\"version\":\"0.2\"}"),
        }
    }

    fn request(&mut self, object: &[u8]) -> Said {
        let (mut command, mut arguments) = (None, Vec::new());
        let is_read = members(object, |key, value| match (key, value) {
            (b"command", Value::Text(..)) => command = Some(text_of(value)),
            (b"arguments", Value::Object(raw)) => arguments = raw.to_vec(),
            _ => {}
        });
        match (is_read, command) {
            (Some(()), Some(command)) => Said::Request(Request { command, arguments }),
            _ => {
                self.refuse("the object has no command");
                Said::Nothing
            }
        }
    }

    /// Answers that what came is no command; nothing more is read of this client.
    fn refuse(&mut self, why: &str) {
        self.input = Vec::new();
        self.is_closing = true;
        self.put(&refusal(why));
    }

    /// Adds an answer.
    pub(super) fn put(&mut self, answer: &[u8]) {
        self.since = gabion_runtime::clock::now();
        self.output.extend_from_slice(answer);
        if self.ends_lines {
            self.output.push(b'\n');
        }
    }

    /// Whether something is to be written to it. Nothing further is read before that is done.
    pub(super) fn has_output(&self) -> bool {
        !self.output.is_empty()
    }

    /// Writes what can be written without waiting; whether the client stays.
    pub(super) fn write(&mut self) -> bool {
        while let Some(rest) = self.output.get(self.written..).filter(|rest| !rest.is_empty()) {
            match self.stream.write(rest) {
                Ok(0) => return false,
                Ok(n) => {
                    self.written += n;
                    self.since = gabion_runtime::clock::now();
                }
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(e) => return e.kind() == ErrorKind::WouldBlock,
            }
        }
        self.output.clear();
        self.written = 0;
        !self.is_closing
    }
}

/// An answer that says why something is not done.
pub(super) fn refusal(why: &str) -> Vec<u8> {
    let mut j = Json::new();
    j.open();
    j.field("message", why);
    j.field_plain("return", "NOK");
    j.close();
    j.take_bytes()
}

/// An answer of something that is done, with what it says as JSON.
pub(super) fn success(message: &[u8]) -> Vec<u8> {
    let mut j = Json::new();
    j.open();
    j.raw("message", message);
    j.field_plain("return", "OK");
    j.close();
    j.take_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Wherever it is cut, an object ends at its end.
    #[test]
    fn an_object_is_found_in_pieces() {
        let whole = br#" {"command":"a}\"{b","arguments":{"x":[1,{"y":"]"}]}} {"#;
        for cut in 0..whole.len() {
            let mut scan = Scan::default();
            let first = scan.find_object_end(&whole[..cut]);
            let found = if first == Found::Part { scan.find_object_end(whole) } else { first };
            assert_eq!(found, Found::Whole(whole.len() - 2), "{cut}");
        }
        for other in [&b"x"[..], b"[1]", b"\"{}\"", b"}"] {
            assert_eq!(Scan::default().find_object_end(other), Found::Other);
        }
        assert_eq!(Scan::default().find_object_end(b"{\"a\":"), Found::Part);
    }
}
