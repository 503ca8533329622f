//! One SSH flow: the identification line of each side, then records up to the new keys.
//!
//! Records are counted, not kept: only the key exchange is put together, and only when hassh is
//! wanted. Once both sides have sent their new keys all is encrypted and passed over.

use super::kex::{self, KeyExchange};
use super::limits::{BANNER_BYTES_MAX, KEX_BYTES_MAX, LONG_BANNER_BYTES_MAX, reached};
use super::tables::{buffer, event, frame, state};
use super::{SshSettings, log};
use crate::tls::Encryption;
use crate::transaction::EventList;
use crate::tx_list::TxTable;
use crate::{Buffer, Input, Inspect, LogOptions, Outcome, ParseContext, Parser, Transaction};
use gabion_record::json::Json;
use gabion_record::{Direction, TakeReport};
use std::any::Any;
use std::sync::Arc;

/// What is known of one side.
#[derive(Debug, Default)]
pub struct Side {
    /// Progress, see [`state`].
    pub state: u8,
    /// Protocol version, as sent.
    pub proto: Vec<u8>,
    /// Software version, as sent.
    pub software: Vec<u8>,
    /// Texts of hassh, one after the other when keys were exchanged repeatedly.
    pub hassh_string: Vec<u8>,
    /// Their MD5 in hex, likewise.
    pub hassh: Vec<u8>,
    /// Bytes of a record still to pass over.
    record_left: usize,
}

/// The transaction of an SSH flow: there is one.
#[derive(Debug, Default)]
pub struct SshTx {
    sides: [Side; 2],
    events: EventList,
    /// Hassh is computed, so the record waits for it.
    wants_hassh: bool,
}

impl SshTx {
    /// The side that sends in that direction.
    pub fn side(&self, direction: Direction) -> &Side {
        &self.sides[direction.index()]
    }

    fn is_encrypted(&self) -> bool {
        self.sides.iter().all(|s| s.state >= state::FINISHED)
    }
}

impl Transaction for SshTx {
    fn id(&self) -> u64 {
        0
    }

    fn progress(&self, direction: Direction) -> u8 {
        // A side alone does not get past its banner, and a line that is not through is no progress.
        if self.is_encrypted() {
            state::FINISHED
        } else if self.side(direction).state >= state::BANNER_DONE {
            state::BANNER_DONE
        } else {
            0
        }
    }

    fn buffer(&self, local: u16, d: Direction, index: usize, _: Inspect) -> Option<Buffer<'_>> {
        let side = self.side(d);
        let data = match (local, index) {
            (buffer::PROTO, 0) => &side.proto,
            (buffer::SOFTWARE, 0) => &side.software,
            (buffer::HASSH, 0) => &side.hassh,
            (buffer::HASSH_STRING, 0) => &side.hassh_string,
            _ => return None,
        };
        (!data.is_empty()).then(|| Buffer::whole(data))
    }

    fn events(&self) -> &[u16] {
        self.events.codes()
    }

    fn log_progress(&self) -> Option<(u8, u8)> {
        (!self.wants_hassh).then_some((state::BANNER_DONE, state::BANNER_DONE))
    }

    fn log(&self, json: &mut Json, _: LogOptions<'_>) -> bool {
        log::write(self, json)
    }

    fn report(&self, to: TakeReport<'_>) {
        log::report(self, to);
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

/// Parser of an SSH flow.
#[derive(Debug)]
pub struct SshParser {
    // Boxed, as it is taken out and put back at every call.
    tx: Option<Box<SshTx>>,
    settings: Arc<SshSettings>,
}

/// The stream can't be followed any more.
struct Dead;

/// Bytes used, and how many are needed from there on when more are awaited.
type Used = Result<(usize, Option<usize>), Dead>;

/// Bytes of a record's header: length, padding and message number.
const HEADER_LEN: usize = 6;

/// Message numbers.
mod message {
    pub(super) const KEX_INIT: u8 = 20;
    pub(super) const NEW_KEYS: u8 = 21;
}

impl SshParser {
    /// A parser with these settings.
    pub fn new(settings: Arc<SshSettings>) -> SshParser {
        SshParser { tx: Some(Box::default()), settings }
    }

    fn data(&self, cx: &mut ParseContext<'_>, tx: &mut SshTx, bytes: &[u8]) -> Used {
        let d = cx.direction;
        match tx.side(d).state {
            state::BANNER_DONE | state::FINISHED => self.records(cx, tx, bytes, 0),
            state::BANNER_WAIT_EOL => match line(bytes) {
                Line::Whole { next, .. } => {
                    tx.sides[d.index()].state = state::BANNER_DONE;
                    cx.trigger_raw[d.index()] = true;
                    self.records(cx, tx, bytes, next)
                }
                // A return at the very end may be half of an end of line.
                Line::HalfEnd { text } => Ok((text.len(), Some(2))),
                Line::Open => Ok((bytes.len(), None)),
            },
            _ => self.banner(cx, tx, bytes),
        }
    }

    fn banner(&self, cx: &mut ParseContext<'_>, tx: &mut SshTx, bytes: &[u8]) -> Used {
        let side = &mut tx.sides[cx.direction.index()];
        match line(bytes) {
            Line::Whole { text, next } => {
                if !read_banner(side, text) {
                    tx.events.set(event::INVALID_BANNER);
                    return Err(Dead);
                }
                side.state = state::BANNER_DONE;
                cx.trigger_raw[cx.direction.index()] = true;
                if text.len() >= BANNER_BYTES_MAX {
                    tx.events.set(event::LONG_BANNER);
                }
                self.records(cx, tx, bytes, next)
            }
            Line::HalfEnd { .. } | Line::Open if bytes.len() < BANNER_BYTES_MAX => {
                Ok((0, Some(bytes.len() + 1)))
            }
            unended => {
                if !read_banner(side, bytes) {
                    tx.events.set(event::INVALID_BANNER);
                    return Err(Dead);
                }
                tx.events.set(event::LONG_BANNER);
                // Read again with what comes, as far as it is kept: pieces of any size give the same.
                if bytes.len() < LONG_BANNER_BYTES_MAX {
                    return Ok((0, Some(bytes.len() + 1)));
                }
                side.state = state::BANNER_WAIT_EOL;
                match unended {
                    Line::HalfEnd { text } => Ok((text.len(), Some(2))),
                    Line::Open | Line::Whole { .. } => Ok((bytes.len(), None)),
                }
            }
        }
    }

    /// Records from `from` on.
    fn records(
        &self,
        cx: &mut ParseContext<'_>,
        tx: &mut SshTx,
        bytes: &[u8],
        from: usize,
    ) -> Used {
        let wants_hassh = self.settings.hassh || cx.requirements.hassh;
        tx.wants_hassh |= wants_hassh;
        let at = cx.direction.index();
        let is_server = cx.direction == Direction::ToClient;
        let left = bytes.len().saturating_sub(from).min(tx.sides[at].record_left);
        tx.sides[at].record_left -= left;
        let mut used = from + left;
        while let Some(rest) = bytes.get(used..).filter(|rest| !rest.is_empty()) {
            let Some(header) = rest.first_chunk::<HEADER_LEN>() else {
                return Ok((used, Some(HEADER_LEN)));
            };
            let [a, b, c, e, _, code] = *header;
            let len = u32::from_be_bytes([a, b, c, e]) as usize;
            // Length covers the padding length and the message number.
            let Some(body_len) = len.checked_sub(2) else {
                tx.events.set(event::INVALID_RECORD);
                return Err(Dead);
            };
            let body = rest.get(HEADER_LEN..HEADER_LEN + body_len);
            if code == message::KEX_INIT && wants_hassh {
                match body {
                    Some(body) => add_hassh(&mut tx.sides[at], body, is_server),
                    None if body_len < KEX_BYTES_MAX => {
                        return Ok((used, Some(HEADER_LEN + body_len)));
                    }
                    None => tx.events.set(event::LONG_KEX_RECORD),
                }
            }
            let (d, whole) = (cx.direction, (HEADER_LEN + body_len) as u64);
            cx.frames.add(d, frame::HDR, used, HEADER_LEN as u64, Some(0));
            cx.frames.add(d, frame::DATA, used + HEADER_LEN, body_len as u64, Some(0));
            cx.frames.add(d, frame::PDU, used, whole, Some(0));
            if code == message::NEW_KEYS {
                tx.sides[at].state = state::FINISHED;
                if tx.is_encrypted() {
                    self.encrypted(cx);
                    // What follows is no record that can be read, in whichever piece it comes.
                    return Ok((bytes.len(), None));
                }
            }
            let here = rest.len().min(HEADER_LEN + body_len);
            tx.sides[at].record_left = HEADER_LEN + body_len - here;
            used += here;
        }
        Ok((used, None))
    }

    fn encrypted(&self, cx: &mut ParseContext<'_>) {
        cx.stop_payload_inspection |= self.settings.encryption != Encryption::Full;
        cx.flush |= self.settings.encryption != Encryption::Full;
        cx.stop_reassembly |= self.settings.encryption == Encryption::Bypass;
    }
}

fn add_hassh(side: &mut Side, body: &[u8], is_server: bool) {
    let Some(kex) = KeyExchange::parse(body) else { return };
    let text = kex.hassh_text(is_server);
    if reached::HASSH_BYTES_MAX.holds(side.hassh_string.len() + text.len()) {
        // A further exchange lengthens the text, and its hash follows the earlier ones.
        side.hassh_string.extend_from_slice(&text);
        let hash = kex::hassh(&side.hassh_string);
        side.hassh.extend_from_slice(&hash);
    }
}

/// What a line looks like so far.
enum Line<'a> {
    /// It ended; the next one begins there.
    Whole { text: &'a [u8], next: usize },
    /// It ends with a return that a newline may follow.
    HalfEnd { text: &'a [u8] },
    /// No end in sight.
    Open,
}

/// A line ends with a newline, a return, or both.
fn line(bytes: &[u8]) -> Line<'_> {
    let Some(end) = memchr::memchr2(b'\r', b'\n', bytes) else { return Line::Open };
    let text = bytes.get(..end).unwrap_or_default();
    match bytes.get(end..end + 2) {
        Some(b"\r\n") => Line::Whole { text, next: end + 2 },
        None if bytes.get(end) == Some(&b'\r') => Line::HalfEnd { text },
        _ => Line::Whole { text, next: end + 1 },
    }
}

/// `SSH-protocol-software comment`. False when it is not that.
fn read_banner(side: &mut Side, text: &[u8]) -> bool {
    let text = text.get(..LONG_BANNER_BYTES_MAX).unwrap_or(text);
    let Some(rest) = text.strip_prefix(b"SSH-") else { return false };
    // Within what a regular line may hold, however much of a longer one is there.
    let regular = text.get(..BANNER_BYTES_MAX).unwrap_or(text).len() - b"SSH-".len();
    let dash = memchr::memchr(b'-', rest).filter(|at| (1..regular).contains(at));
    let Some(dash) = dash else { return false };
    let (proto, software) = (rest.get(..dash), rest.get(dash + 1..));
    side.proto = proto.unwrap_or_default().to_vec();
    let software = software.unwrap_or_default();
    // Up to the first space, unless it begins with one (Suricata's reading).
    let end = memchr::memchr3(b' ', b'\r', b'\n', software).filter(|at| *at > 0);
    side.software = software.get(..end.unwrap_or(software.len())).unwrap_or_default().to_vec();
    true
}

impl Parser for SshParser {
    fn parse(&mut self, cx: &mut ParseContext<'_>, input: Input<'_>) -> Outcome {
        let Input::Data { bytes, .. } = input else { return Outcome::Error };
        let Some(mut tx) = self.tx.take() else { return Outcome::Done };
        let used = if bytes.is_empty() || tx.is_encrypted() {
            Ok((bytes.len(), None))
        } else {
            self.data(cx, &mut tx, bytes)
        };
        self.tx = Some(tx);
        match used {
            Ok((_, None)) => Outcome::Done,
            Ok((consumed, Some(needed))) => Outcome::Incomplete { consumed, needed },
            Err(Dead) => Outcome::Error,
        }
    }

    fn txs(&self) -> &dyn TxTable {
        &self.tx
    }

    fn txs_mut(&mut self) -> &mut dyn TxTable {
        &mut self.tx
    }

    fn bytes_held(&self) -> usize {
        let side = |s: &Side| {
            s.proto.capacity()
                + s.software.capacity()
                + s.hassh.capacity()
                + s.hassh_string.capacity()
        };
        let sides = self.tx.as_ref().map_or(0, |tx| tx.sides.iter().map(side).sum());
        size_of::<SshParser>() + sides
    }
}
