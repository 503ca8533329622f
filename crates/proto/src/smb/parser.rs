//! The stream of one direction: NetBIOS messages, in them SMB, in that the content of files, which is not
//! held until the message is whole.

use super::body1::{self, Command};
use super::framing::{Family, HEADER_LEN, Header};
use super::header::{Header1, Header2};
use super::limits::{MESSAGE_BYTES_MAX, reached};
use super::names::command1;
use super::session::Session;
use super::settings::Settings;
use super::smb2::{self, Data, PEEK_BYTES};
use super::tables::{event, frame};
use crate::tx_list::TxTable;
use crate::{Input, Outcome, ParseContext, Parser};
use gabion_record::Direction::{self, ToClient};

/// Bytes that show that a message begins: the NetBIOS header and what SMB begins with.
const START_LEN: usize = HEADER_LEN + 4;

/// Content of a file that comes with a message.
#[derive(Clone, Copy, Debug)]
struct Incoming {
    tx: u64,
    left: u64,
}

/// One direction.
#[derive(Debug, Default)]
struct Side {
    /// Content of a file comes next.
    incoming: Option<Incoming>,
    /// Bytes that are passed over, after the content.
    skip: u64,
    /// Bytes were lost: the next message is looked for.
    is_lost: bool,
}

/// The outcome of the bytes at hand.
enum Step {
    /// This many were used.
    Used(usize),
    /// This many are needed.
    Wait(usize),
    /// The flow can't be followed.
    Failed,
}

/// Parser of an SMB flow.
#[derive(Debug)]
pub struct SmbParser {
    session: Session,
    sides: [Side; 2],
}

impl SmbParser {
    /// A parser.
    pub fn new(settings: Settings) -> SmbParser {
        SmbParser { session: Session::new(settings), sides: Default::default() }
    }

    /// Takes content of a file, or bytes that are passed over.
    fn take_rest(&mut self, d: Direction, bytes: &[u8]) -> usize {
        let side = &mut self.sides[d.index()];
        if let Some(incoming) = &mut side.incoming {
            let n = usize::try_from(incoming.left).unwrap_or(usize::MAX).min(bytes.len());
            incoming.left -= n as u64;
            let Incoming { tx, left } = *incoming;
            if left == 0 {
                side.incoming = None;
            }
            self.session.add_bytes(tx, bytes.get(..n).unwrap_or_default());
            if left == 0 {
                self.session.end_chunk(tx);
            }
            return n;
        }
        let n = usize::try_from(side.skip).unwrap_or(usize::MAX).min(bytes.len());
        side.skip -= n as u64;
        n
    }

    /// Bytes are lost: those of a file leave a gap in it.
    fn take_gap(&mut self, d: Direction, len: u64) {
        let side = &mut self.sides[d.index()];
        let mut len = len;
        if let Some(incoming) = &mut side.incoming {
            let n = incoming.left.min(len);
            incoming.left -= n;
            len -= n;
            let Incoming { tx, left } = *incoming;
            if left == 0 {
                side.incoming = None;
            }
            self.session.lose_bytes(tx, n);
            if left == 0 {
                self.session.end_chunk(tx);
            }
        }
        let side = &mut self.sides[d.index()];
        let n = side.skip.min(len);
        side.skip -= n;
        // Nothing is known of the message in which the loss ends.
        side.is_lost |= len > n || (side.incoming.is_none() && side.skip == 0);
    }

    /// Looks for the next message after a loss.
    fn find_start(&mut self, d: Direction, bytes: &[u8]) -> Step {
        let is_start = |at: &usize| {
            let bytes = bytes.get(*at..).unwrap_or_default();
            Header::from_bytes(bytes).is_some_and(Header::is_message)
                && bytes.get(HEADER_LEN..).and_then(Family::from_bytes).is_some()
        };
        let mut found = memchr::memmem::find_iter(bytes, b"SMB").filter_map(|at| at.checked_sub(5));
        match found.find(is_start) {
            Some(at) => {
                self.sides[d.index()].is_lost = false;
                Step::Used(at)
            }
            None => match bytes.len().saturating_sub(START_LEN - 1) {
                0 => Step::Wait(bytes.len() + 1),
                unused => Step::Used(unused),
            },
        }
    }

    /// Takes a message, or what is there of it.
    fn take_message(&mut self, cx: &mut ParseContext<'_>, bytes: &[u8], at: usize) -> Step {
        let Some(header) = Header::from_bytes(bytes) else { return Step::Wait(HEADER_LEN) };
        let total = header.total_len();
        if !header.is_message() {
            note_frames(cx, frame::NBSS, at, total, HEADER_LEN);
            self.sides[cx.direction.index()].skip = u64::from(header.len);
            return Step::Used(HEADER_LEN);
        }
        if header.len < 4 {
            self.session.raise(event::MALFORMED_DATA);
            return Step::Failed;
        }
        let Some(start) = bytes.get(HEADER_LEN..START_LEN) else { return Step::Wait(START_LEN) };
        let Some(family) = Family::from_bytes(start) else {
            self.session.raise(event::MALFORMED_DATA);
            return Step::Failed;
        };
        // Longer ones are treated alike however much of them is there.
        let is_short = total <= MESSAGE_BYTES_MAX;
        let Some(message) = bytes.get(HEADER_LEN..total).filter(|_| is_short) else {
            return self.take_part(cx, family, bytes, (at, total));
        };
        self.note_message(cx, family, at, total);
        let is_fine = match family {
            Family::One => self.take_family1(cx, message),
            Family::Two => self.take_family2(cx, message),
            Family::Encrypted => {
                let is_fine = message.len() >= super::header::TRANSFORM_LEN;
                if is_fine {
                    reached::ENCRYPTED_READ_MAX.count();
                } else {
                    self.session.raise(event::MALFORMED_DATA);
                }
                is_fine
            }
        };
        if is_fine { Step::Used(total) } else { Step::Failed }
    }

    fn note_message(&self, cx: &mut ParseContext<'_>, family: Family, at: usize, total: usize) {
        note_frames(cx, frame::NBSS, at, total, HEADER_LEN);
        let (kind, header_len) = match family {
            Family::One => (frame::SMB1, Header1::LEN),
            Family::Two => (frame::SMB2, Header2::LEN),
            Family::Encrypted => (frame::SMB3, super::header::TRANSFORM_LEN),
        };
        note_frames(cx, kind, at + HEADER_LEN, total - HEADER_LEN, header_len);
    }

    /// Takes what is there of a message that is not whole: the content of a file need not wait.
    fn take_part(
        &mut self,
        cx: &mut ParseContext<'_>,
        family: Family,
        bytes: &[u8],
        (at, total): (usize, usize),
    ) -> Step {
        let message = bytes.get(HEADER_LEN..).unwrap_or_default();
        let placed = match family {
            Family::One => self.place_part1(cx, message, total - HEADER_LEN),
            Family::Two => self.place_part2(cx, message, total - HEADER_LEN),
            Family::Encrypted if message.len() >= super::header::TRANSFORM_LEN => {
                reached::ENCRYPTED_READ_MAX.count();
                Some((super::header::TRANSFORM_LEN, Data::Ignored))
            }
            Family::Encrypted => None,
        };
        match placed {
            Some((used, Data::File { len, tx, .. })) => {
                self.note_message(cx, family, at, total);
                let side = &mut self.sides[cx.direction.index()];
                let left = len as u64;
                side.incoming = Some(Incoming { tx, left });
                side.skip = ((total - HEADER_LEN).saturating_sub(used) as u64).saturating_sub(left);
                Step::Used(HEADER_LEN + used)
            }
            Some((used, Data::Ignored)) => {
                self.note_message(cx, family, at, total);
                self.sides[cx.direction.index()].skip = (total - HEADER_LEN - used) as u64;
                Step::Used(HEADER_LEN + used)
            }
            _ if bytes.len() >= MESSAGE_BYTES_MAX => {
                reached::MESSAGE_BYTES_MAX.count();
                self.note_message(cx, family, at, total);
                let head = message.get(..MESSAGE_BYTES_MAX - HEADER_LEN).unwrap_or(message);
                let is_fine = match family {
                    Family::One => self.take_family1(cx, head),
                    Family::Two => self.take_family2(cx, head),
                    Family::Encrypted => true,
                };
                if !is_fine {
                    return Step::Failed;
                }
                let used = HEADER_LEN + head.len();
                self.sides[cx.direction.index()].skip = (total - used) as u64;
                Step::Used(used)
            }
            _ => Step::Wait(self.next_needed(family, message, total)),
        }
    }

    /// Bytes with which the message can be taken further.
    fn next_needed(&self, family: Family, message: &[u8], total: usize) -> usize {
        let most = total.min(MESSAGE_BYTES_MAX);
        let needed = match family {
            Family::Two => match Header2::from_bytes(message) {
                Some(header) => content_needed2(&header, message).unwrap_or(most),
                None => Header2::LEN,
            },
            Family::One => match Header1::from_bytes(message) {
                Some(header) => content_needed1(&header, message).unwrap_or(most),
                None => Header1::LEN + 1,
            },
            Family::Encrypted => super::header::TRANSFORM_LEN,
        };
        let held = HEADER_LEN + message.len();
        match HEADER_LEN.saturating_add(needed) {
            needed if needed <= held => most.max(held + 1),
            needed => needed.min(most).max(held + 1),
        }
    }

    /// Where the data go of an SMB 2 message that is not whole, and the bytes before them.
    fn place_part2(
        &mut self,
        cx: &ParseContext<'_>,
        message: &[u8],
        len: usize,
    ) -> Option<(usize, Data)> {
        let header = Header2::from_bytes(message)?;
        let is_ours = header.next == 0 && header.is_response == (cx.direction == ToClient);
        let body = message.get(Header2::LEN..).filter(|_| is_ours)?;
        let (at, data_len) = smb2::find_data(&header, body)?;
        let peeked = PEEK_BYTES.min(usize::try_from(data_len).unwrap_or(PEEK_BYTES));
        if body.len() < at.checked_add(peeked)? {
            return None;
        }
        // A pipe's message has to be whole.
        if self.session.is_piped2(&header, body, (at, data_len)) {
            return None;
        }
        let data = self.session.place_data2(cx, &header, body, len - Header2::LEN);
        match data {
            Data::File { at, .. } => Some((Header2::LEN + at, data)),
            Data::Ignored => Some((Header2::LEN, data)),
            Data::Pipe { .. } => None,
        }
    }

    /// The same of an SMB 1 message of one command.
    fn place_part1(
        &mut self,
        cx: &ParseContext<'_>,
        message: &[u8],
        len: usize,
    ) -> Option<(usize, Data)> {
        let header = Header1::from_bytes(message)?;
        let is_ours = header.is_response == (cx.direction == ToClient);
        let data = find_data1(&header, message).filter(|_| is_ours)?;
        let peeked = PEEK_BYTES.min(usize::try_from(data.len).unwrap_or(PEEK_BYTES));
        if message.len() < data.at.checked_add(peeked)? || data.at < Header1::LEN {
            return None;
        }
        if self.session.is_piped1(&header, &data, message) {
            return None;
        }
        let placed = self.session.place_data1(cx, &header, data, (message, len));
        match placed {
            Data::File { at, .. } => Some((at, placed)),
            Data::Ignored => Some((Header1::LEN, placed)),
            Data::Pipe { .. } => None,
        }
    }

    /// Takes an SMB 1 message. False: the flow can't be followed.
    fn take_family1(&mut self, cx: &mut ParseContext<'_>, message: &[u8]) -> bool {
        let Some(header) = Header1::from_bytes(message) else {
            self.session.raise(event::MALFORMED_DATA);
            return false;
        };
        if self.is_wrong_way(cx, header.is_response) {
            return true;
        }
        self.session.take_message1(cx, &header, message);
        !self.session.is_over()
    }

    /// Takes an SMB 2 message: one or several in a compound. False: the flow can't be followed.
    fn take_family2(&mut self, cx: &mut ParseContext<'_>, message: &[u8]) -> bool {
        let mut rest = message;
        loop {
            let Some(header) = Header2::from_bytes(rest) else {
                self.session.raise(event::MALFORMED_DATA);
                return false;
            };
            let next = usize::try_from(header.next).unwrap_or(usize::MAX);
            let end = match next {
                0 => rest.len(),
                next if next > rest.len() => {
                    self.session.raise(event::MALFORMED_DATA);
                    return false;
                }
                next => next.max(Header2::LEN),
            };
            let body = rest.get(Header2::LEN..end).unwrap_or_default();
            if !self.is_wrong_way(cx, header.is_response) {
                self.session.take_message2(cx, &header, body);
            }
            if self.session.is_over() {
                return false;
            }
            rest = rest.get(end..).unwrap_or_default();
            if next == 0 || Family::from_bytes(rest) != Some(Family::Two) {
                return true;
            }
        }
    }

    /// Whether a message travels in the direction that it does not belong to: it is passed over.
    fn is_wrong_way(&self, cx: &ParseContext<'_>, is_response: bool) -> bool {
        // Suricata 8.0.7 has events of this, but does not raise them.
        is_response != (cx.direction == ToClient)
    }

    fn take_bytes(&mut self, cx: &mut ParseContext<'_>, bytes: &[u8], at: usize) -> Step {
        let d = cx.direction;
        let side = &self.sides[d.index()];
        if side.incoming.is_some() || side.skip > 0 {
            Step::Used(self.take_rest(d, bytes))
        } else if side.is_lost {
            self.find_start(d, bytes)
        } else {
            self.take_message(cx, bytes, at)
        }
    }
}

/// Notes the app-layer frames of a message: the whole, its header and the rest.
fn note_frames(cx: &mut ParseContext<'_>, kind: u8, at: usize, len: usize, header_len: usize) {
    let d = cx.direction;
    let header_len = header_len.min(len);
    cx.frames.add(d, kind, at, len as u64, None);
    cx.frames.add(d, kind + frame::HEADER, at, header_len as u64, None);
    cx.frames.add(d, kind + frame::DATA, at + header_len, (len - header_len) as u64, None);
}

/// The data of an SMB 1 message that carries nothing but the content of a file.
fn find_data1(header: &Header1, message: &[u8]) -> Option<body1::Data1> {
    let command = Command { message, at: Header1::LEN, is_unicode: header.is_unicode };
    if command.next().is_some() {
        return None;
    }
    match (header.command, header.is_response) {
        (command1::WRITE_ANDX, false) => body1::write_andx(&command),
        (command1::READ_ANDX, true) if header.status == 0 => body1::read_response(&command),
        _ => None,
    }
}

/// Bytes of an SMB 1 message with which the place of its data is known; `None`: it has to be whole.
fn content_needed1(header: &Header1, message: &[u8]) -> Option<usize> {
    if !matches!(header.command, command1::WRITE_ANDX | command1::READ_ANDX) {
        return None;
    }
    let head = body1::head_len(message).unwrap_or(Header1::LEN + 1);
    if message.len() < head {
        return Some(head);
    }
    let data = find_data1(header, message)?;
    data.at.checked_add(PEEK_BYTES.min(usize::try_from(data.len).unwrap_or(PEEK_BYTES)))
}

/// The same of an SMB 2 message.
fn content_needed2(header: &Header2, message: &[u8]) -> Option<usize> {
    let head = smb2::data_head_len(header)?;
    if message.len() < Header2::LEN + head {
        return Some(Header2::LEN + head);
    }
    let (at, len) = smb2::find_data(header, message.get(Header2::LEN..)?)?;
    let peeked = PEEK_BYTES.min(usize::try_from(len).unwrap_or(PEEK_BYTES));
    (Header2::LEN + at).checked_add(peeked)
}

impl Parser for SmbParser {
    fn parse(&mut self, cx: &mut ParseContext<'_>, input: Input<'_>) -> Outcome {
        let (bytes, eof) = match input {
            Input::Data { bytes, eof } => (bytes, eof),
            Input::Gap { len } => {
                self.take_gap(cx.direction, len);
                return Outcome::Done;
            }
        };
        let mut at = 0;
        while let Some(rest) = bytes.get(at..).filter(|rest| !rest.is_empty()) {
            match self.take_bytes(cx, rest, at) {
                Step::Used(n) => at += n,
                Step::Wait(_) if eof => break,
                Step::Wait(needed) => return Outcome::Incomplete { consumed: at, needed },
                Step::Failed => {
                    self.session.txs.iter_mut().for_each(super::tx::SmbTx::complete);
                    return Outcome::Error;
                }
            }
        }
        if eof {
            self.session.cut_files(cx.direction);
        }
        Outcome::Done
    }

    fn txs(&self) -> &dyn TxTable {
        &self.session.txs
    }

    fn txs_mut(&mut self) -> &mut dyn TxTable {
        &mut self.session.txs
    }

    fn free(&mut self, id: u64) {
        self.session.free_tx(id);
    }

    fn bytes_held(&self) -> usize {
        size_of::<SmbParser>() + self.session.bytes_held()
    }
}
