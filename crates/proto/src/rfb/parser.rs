//! One RFB session: elements of the handshake, each from the side whose turn it is.

use super::settings::Settings;
use super::tables::{PDU_FRAME, event};
use super::tx::{Framebuffer, RfbTx, Version};
use crate::tx_list::{TxList, TxTable};
use crate::{Input, Outcome, ParseContext, Parser};
use gabion_record::Direction::{self, ToClient, ToServer};

/// What comes next.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum State {
    #[default]
    ServerVersion,
    ClientVersion,
    /// The security types that a server of version 3.7 or later offers.
    SecurityTypes,
    /// The security type that a server decides on for a client of version 3.3.
    SecurityType,
    Choice,
    Challenge,
    Response,
    SecurityResult,
    FailureReason,
    ClientInit,
    ServerInit,
    /// Nothing that is read.
    Over,
}

impl State {
    /// The direction of what comes next.
    fn direction(self) -> Option<Direction> {
        match self {
            State::ServerVersion
            | State::SecurityTypes
            | State::SecurityType
            | State::Challenge
            | State::SecurityResult
            | State::FailureReason
            | State::ServerInit => Some(ToClient),
            State::ClientVersion | State::Choice | State::Response | State::ClientInit => {
                Some(ToServer)
            }
            State::Over => None,
        }
    }
}

/// The outcome for the bytes at the beginning of the input.
enum Step {
    /// An element of that many bytes was read.
    Used(usize),
    /// It takes that many.
    Needs(usize),
    /// They are not what they should be.
    Malformed,
}

/// Parser of a session.
#[derive(Debug, Default)]
pub struct RfbParser {
    settings: Settings,
    txs: TxList<RfbTx>,
    state: State,
    /// A text was cut.
    has_cut: bool,
}

/// Reads the line of a version (RFC 6143 7.1.1).
pub(super) fn parse_version(bytes: &[u8]) -> Option<Version> {
    let line: &[u8; 12] = bytes.first_chunk()?;
    let [b'R', b'F', b'B', b' ', a, b, c, b'.', d, e, f, b'\n'] = *line else { return None };
    let version = [[a, b, c], [d, e, f]];
    version.as_flattened().iter().all(u8::is_ascii_digit).then_some(version)
}

/// A number of four bytes at the beginning of `bytes`.
fn parse_u32(bytes: &[u8]) -> Option<u32> {
    bytes.first_chunk().map(|b| u32::from_be_bytes(*b))
}

/// A text with its length in front, cut at its limit: bytes that it takes, the text, and whether it was cut.
/// The error is how many bytes it takes.
fn parse_text(bytes: &[u8], text_bytes_max: usize) -> Result<(usize, &[u8], bool), usize> {
    const LEN: usize = 4;
    let len = parse_u32(bytes).ok_or(LEN)?;
    let len = usize::try_from(len).unwrap_or(usize::MAX);
    let end = LEN.saturating_add(len.min(text_bytes_max));
    let text = bytes.get(LEN..end).ok_or(end)?;
    Ok((end, text, len > text_bytes_max))
}

impl RfbParser {
    /// A parser with these settings.
    pub fn new(settings: Settings) -> RfbParser {
        RfbParser { settings, ..RfbParser::default() }
    }

    fn step(&mut self, bytes: &[u8]) -> Step {
        let text_bytes_max = self.settings.text_bytes_max;
        if self.state == State::ServerVersion {
            return self.open(bytes);
        }
        let Some(tx) = self.txs.get_mut(0) else {
            // It was freed: nobody waits for the rest.
            self.state = State::Over;
            return Step::Used(bytes.len());
        };
        match self.state {
            State::ServerVersion | State::Over => Step::Used(bytes.len()),
            State::ClientVersion => {
                if bytes.len() < VERSION_LEN {
                    return Step::Needs(VERSION_LEN);
                }
                let Some(version) = parse_version(bytes) else { return Step::Malformed };
                tx.client_version = Some(version);
                let is_old = version == [*b"003", *b"003"];
                self.state = if is_old { State::SecurityType } else { State::SecurityTypes };
                Step::Used(VERSION_LEN)
            }
            State::SecurityTypes => {
                let Some(count) = bytes.first() else { return Step::Needs(1) };
                let len = 1 + usize::from(*count);
                if bytes.len() < len {
                    return Step::Needs(len);
                }
                self.state = if *count == 0 { State::FailureReason } else { State::Choice };
                Step::Used(len)
            }
            State::SecurityType => {
                let Some(security_type) = parse_u32(bytes) else { return Step::Needs(4) };
                self.state = match security_type {
                    0 => State::FailureReason,
                    1 => State::ClientInit,
                    2 => State::Challenge,
                    _ => {
                        tx.events.set(event::UNIMPLEMENTED_SECURITY_TYPE);
                        tx.is_complete = true;
                        self.state = State::Over;
                        return Step::Used(4);
                    }
                };
                tx.security_type = Some(security_type);
                Step::Used(4)
            }
            State::Choice => {
                let Some(choice) = bytes.first() else { return Step::Needs(1) };
                tx.security_type = Some(u32::from(*choice));
                self.state = match choice {
                    1 => State::ClientInit,
                    2 => State::Challenge,
                    _ => {
                        tx.events.set(event::UNIMPLEMENTED_SECURITY_TYPE);
                        State::Over
                    }
                };
                Step::Used(1)
            }
            State::Challenge => {
                let Some(challenge) = bytes.first_chunk() else { return Step::Needs(16) };
                tx.challenge = Some(*challenge);
                self.state = State::Response;
                Step::Used(16)
            }
            State::Response => {
                let Some(response) = bytes.first_chunk() else { return Step::Needs(16) };
                tx.response = Some(*response);
                self.state = State::SecurityResult;
                Step::Used(16)
            }
            State::SecurityResult => {
                let Some(result) = parse_u32(bytes) else { return Step::Needs(4) };
                self.state = match result {
                    0 => State::ClientInit,
                    1 => State::FailureReason,
                    _ => {
                        tx.events.set(event::UNKNOWN_SECURITY_RESULT);
                        tx.is_complete = true;
                        State::Over
                    }
                };
                tx.is_accepted = result == 0;
                Step::Used(4)
            }
            State::FailureReason => match parse_text(bytes, text_bytes_max) {
                Err(needed) => Step::Needs(needed),
                Ok((len, reason, is_cut)) => {
                    tx.failure = Some(reason.to_vec());
                    if is_cut {
                        self.has_cut = true;
                        tx.events.set(event::TOO_LONG_STRING);
                    }
                    self.state = State::Over;
                    Step::Used(len)
                }
            },
            State::ClientInit => {
                let Some(shared) = bytes.first() else { return Step::Needs(1) };
                tx.is_shared = Some(*shared != 0);
                self.state = State::ServerInit;
                Step::Used(1)
            }
            State::ServerInit => {
                const SIZES_LEN: usize = 20;
                let Some(head) = bytes.first_chunk::<SIZES_LEN>() else {
                    return Step::Needs(SIZES_LEN);
                };
                match parse_text(bytes.get(SIZES_LEN..).unwrap_or_default(), text_bytes_max) {
                    Err(needed) => Step::Needs(needed.saturating_add(SIZES_LEN)),
                    Ok((len, name, is_cut)) => {
                        let mut pixel_format = [0; 16];
                        pixel_format.copy_from_slice(&head[4..]);
                        tx.framebuffer = Some(Framebuffer {
                            width: u16::from_be_bytes([head[0], head[1]]),
                            height: u16::from_be_bytes([head[2], head[3]]),
                            pixel_format,
                            name: name.to_vec(),
                        });
                        if is_cut {
                            self.has_cut = true;
                            tx.events.set(event::TOO_LONG_STRING);
                        }
                        tx.is_complete = true;
                        self.state = State::Over;
                        Step::Used(SIZES_LEN + len)
                    }
                }
            }
        }
    }

    /// Begins the session with the server's version.
    fn open(&mut self, bytes: &[u8]) -> Step {
        if bytes.len() < VERSION_LEN {
            return Step::Needs(VERSION_LEN);
        }
        let Some(version) = parse_version(bytes) else { return Step::Malformed };
        self.txs.push(None, |_| RfbTx { server_version: Some(version), ..RfbTx::default() });
        self.state = State::ClientVersion;
        Step::Used(VERSION_LEN)
    }

    /// A side sends out of turn.
    fn confuse(&mut self) {
        if let Some(tx) = self.txs.get_mut(0) {
            tx.events.set(event::CONFUSED_STATE);
            tx.is_complete = true;
        }
        self.state = State::Over;
    }
}

/// Bytes of the line of a version.
const VERSION_LEN: usize = 12;

impl Parser for RfbParser {
    fn parse(&mut self, cx: &mut ParseContext<'_>, input: Input<'_>) -> Outcome {
        let Input::Data { bytes, .. } = input else { return Outcome::Error };
        let d = cx.direction;
        let mut at = 0;
        while let Some(rest) = bytes.get(at..).filter(|rest| !rest.is_empty()) {
            let Some(turn) = self.state.direction() else { return Outcome::Done };
            if turn != d {
                self.confuse();
                return Outcome::Done;
            }
            let has_frame = self.state != State::FailureReason;
            match self.step(rest) {
                Step::Used(len) => {
                    cx.trigger_raw[d.index()] = true;
                    if has_frame {
                        // Of a name that is cut, the frame has what is left out, too.
                        let frame_len = if self.has_cut { rest.len() } else { len };
                        cx.frames.add(d, PDU_FRAME, at, frame_len as u64, None);
                    }
                    at += len;
                }
                Step::Needs(needed) => return Outcome::Incomplete { consumed: at, needed },
                Step::Malformed => return Outcome::Error,
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
        if let Some(tx) = self.txs.get_mut(0) {
            tx.has_ended[direction.index()] = true;
        }
    }

    fn bytes_held(&self) -> usize {
        let texts = |tx: &RfbTx| {
            let name = tx.framebuffer.as_ref().map_or(0, |f| f.name.capacity());
            name + tx.failure.as_ref().map_or(0, Vec::capacity)
        };
        size_of::<RfbParser>() + self.txs.bytes_held() + self.txs.iter().map(texts).sum::<usize>()
    }
}
