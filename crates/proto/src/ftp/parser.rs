//! The control connection of FTP.

use super::command::{self, Command, Kind, Transfer};
use super::limits::reached;
use super::settings::Settings;
use super::tables::event;
use super::tx::{FtpTx, Reply};
use crate::ftp_data::Announcement;
use crate::tx_list::{TxList, TxTable};
use crate::{Endpoints, Expectation, Input, Outcome, ParseContext, Parser, ProtocolChange};
use gabion_record::Addr;
use gabion_record::Direction::{self, ToClient, ToServer};

/// Port whose probes are asked when TLS follows.
const TLS_PORT: u16 = 443;

/// Parser of a control connection.
#[derive(Debug)]
pub struct FtpParser {
    settings: Settings,
    txs: TxList<FtpTx>,
    /// Transactions before this one have their replies.
    first_open: u64,
    /// Transactions before this one have their replies, or count as replied.
    first_unreplied: u64,
    /// Port agreed upon for the next transfer, and whether the client listens on it.
    agreed: Option<(u16, bool)>,
    /// The last command that is known, unless one followed that is not: replies are understood by it,
    /// whichever transaction they belong to.
    last: Option<(Command, Vec<u8>)>,
    /// An `AUTH` for TLS was the last command: its reply comes after those to the transactions before this one.
    auth: Option<u64>,
    /// A line was cut: the rest of it is dropped.
    is_cut: [bool; 2],
    /// Bytes at the front of the input known to hold no line end.
    scanned: [usize; 2],
}

/// A line without its line end and the blanks before that, how many bytes it took, and whether it
/// was cut.
struct Line<'a> {
    text: &'a [u8],
    used: usize,
    is_cut: bool,
    /// What is left of a line that was cut before.
    is_rest: bool,
}

impl FtpParser {
    /// A parser.
    pub fn new(settings: Settings) -> FtpParser {
        FtpParser {
            settings,
            txs: TxList::default(),
            first_open: 0,
            first_unreplied: 0,
            agreed: None,
            last: None,
            auth: None,
            is_cut: [false; 2],
            scanned: [0; 2],
        }
    }

    fn line<'a>(&mut self, d: Direction, bytes: &'a [u8]) -> Option<Line<'a>> {
        let (i, most) = (d.index(), self.settings.line_max);
        let from = self.scanned[i].min(bytes.len());
        let end = memchr::memchr(b'\n', &bytes[from..]).map(|at| from + at + 1);
        let is_rest = self.is_cut[i];
        self.scanned[i] = 0;
        let (text, used, is_cut) = match end {
            None if bytes.len() < most => {
                self.scanned[i] = bytes.len();
                return None;
            }
            None => {
                self.is_cut[i] = true;
                (&bytes[..most], most, true)
            }
            Some(end) if end > most && !is_rest => {
                self.is_cut[i] = true;
                (&bytes[..most], most, true)
            }
            Some(end) => {
                self.is_cut[i] = false;
                (&bytes[..end], end, end >= most)
            }
        };
        Some(Line { text: text.trim_ascii_end(), used, is_cut, is_rest })
    }

    /// A transaction more. Beyond the limit there is none: the oldest that waits for its reply says so
    /// and counts as replied, and the connection is not followed any more (Suricata 8.0.7).
    fn open(&mut self) -> Option<&mut FtpTx> {
        if self.txs.next_id() - self.txs.first_id() > self.settings.txs_max {
            // What was replied to stays so: nothing before it is examined again.
            let open = |(_, tx): &(u64, &FtpTx)| !tx.is_replied;
            let oldest = self.txs.entries_from(self.first_unreplied).find(open).map(|(id, _)| id);
            self.first_unreplied = oldest.map_or(self.txs.next_id(), |id| id + 1);
            if let Some(oldest) = oldest.and_then(|id| self.txs.get_mut(id)) {
                oldest.events.add(event::TOO_MANY_TRANSACTIONS);
                oldest.is_replied = true;
            }
            return None;
        }
        self.txs.push(None, FtpTx::new);
        self.txs.last_mut()
    }

    /// Takes a command. False when the connection can't be followed any more.
    fn request(&mut self, cx: &mut ParseContext<'_>, line: &Line<'_>) -> bool {
        if line.text.is_empty() {
            return true;
        }
        // Suricata opens no transaction for a command that it does not know.
        let command = command::find(line.text);
        self.auth = (command.is_none() && is_auth(line.text)).then(|| self.txs.next_id());
        let Some(command) = command else {
            self.last = None;
            return true;
        };
        let Some(tx) = self.open() else { return false };
        tx.request = line.text.to_vec();
        tx.is_request_cut = line.is_cut;
        if line.is_cut {
            tx.events.add(event::REQUEST_COMMAND_TOO_LONG);
        }
        tx.command = Some(command);
        let id = tx.id;
        match command.kind {
            Kind::Port => tx.is_bounce = is_elsewhere(line.text, cx.endpoints),
            Kind::Transfer(transfer) => self.announce(cx, transfer, id),
            Kind::Plain | Kind::Eprt | Kind::Pasv | Kind::Epsv => {}
        }
        // Only the text of commands that name a port is needed again.
        let is_port = matches!(command.kind, Kind::Port | Kind::Eprt);
        self.last = Some((command, if is_port { line.text.to_vec() } else { Vec::new() }));
        true
    }

    /// A transfer follows: the connection it needs was agreed upon before.
    fn announce(&mut self, cx: &mut ParseContext<'_>, transfer: Transfer, id: u64) {
        let Some(tx) = self.txs.get_mut(id) else { return };
        let Some((port, is_active)) = self.agreed else {
            tx.events.add(event::FILE_BEFORE_PORT);
            return;
        };
        let name = tx.request.get(transfer.name().len() + 1..).unwrap_or_default();
        if transfer.needs_name() && name.is_empty() {
            tx.events.add(event::FILE_WITHOUT_NAME);
            return;
        }
        let name = if transfer.is_file() { name.to_vec() } else { Vec::new() };
        self.agreed = None;
        let direction = if transfer.is_upload() != is_active { ToServer } else { ToClient };
        cx.expectations.push(Expectation {
            direction: if is_active { ToClient } else { ToServer },
            client_port: is_active.then_some(port),
            server_port: (!is_active).then_some(port),
            address: None,
            proto: "ftp-data",
            payload: Announcement { transfer, direction, name }.encode(),
        });
    }

    /// The transaction a reply line belongs to: the oldest without a reply, else the last one if it
    /// is still there, else a new one. `None` when there are too many.
    fn replied(&mut self) -> Option<u64> {
        let next = self.txs.next_id();
        let id = if self.first_open < next { self.first_open } else { next.saturating_sub(1) };
        match self.txs.get(id) {
            Some(tx) => Some(tx.id),
            None => self.open().map(|tx| {
                tx.is_reply_only = true;
                tx.id
            }),
        }
    }

    /// Takes a line of a reply. False when the connection can't be followed any more.
    fn reply(&mut self, cx: &mut ParseContext<'_>, line: &Line<'_>) -> bool {
        let is_to_auth = self.auth.is_some_and(|next| self.first_open >= next);
        let Some(id) = self.replied() else { return false };
        let agreement = agreement(self.last.as_ref(), line.text);
        let Some(tx) = self.txs.get_mut(id) else { return false };
        if self.last.is_none() {
            tx.command = None;
        }
        if let Agreement::Port(port, is_active) = agreement {
            (tx.dynamic_port, tx.is_active) = (Some(port), is_active);
            self.agreed = Some((port, is_active));
        }
        let code = reply_code(line.text);
        // Suricata drops the reply to a port it could not read.
        let is_dropped = agreement == Agreement::Unreadable;
        if !line.text.is_empty() && !is_dropped {
            tx.is_reply_cut |= line.is_cut;
            let text = if code.is_some() { &line.text[4..] } else { line.text };
            if reached::REPLIES_MAX.has_room(tx.replies.len())
                && reached::REPLY_BYTES_MAX.holds(tx.reply_bytes + text.len())
            {
                tx.reply_bytes += text.len();
                tx.replies.push(Reply { code, text: text.to_vec() });
            }
        }
        if line.is_cut {
            tx.events.add(event::RESPONSE_COMMAND_TOO_LONG);
        }
        let is_preliminary = code.is_some_and(|c| c[0] == b'1');
        if is_preliminary && !is_dropped {
            return true;
        }
        tx.is_replied = true;
        self.first_open = self.first_open.max(id + 1);
        if is_to_auth {
            self.auth = None;
        }
        if is_to_auth && code == Some(*b"234") {
            cx.change =
                Some(ProtocolChange { expected: Some(crate::tls::NAME), port: Some(TLS_PORT) });
        }
        true
    }
}

/// What a reply line says of the port for the next transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Agreement {
    Nothing,
    /// Port, and whether the client listens on it.
    Port(u16, bool),
    /// The command named none that could be read.
    Unreadable,
}

/// What a reply line means after this command.
fn agreement(last: Option<&(Command, Vec<u8>)>, line: &[u8]) -> Agreement {
    let Some((command, request)) = last else { return Agreement::Nothing };
    let (port, is_active) = match command.kind {
        Kind::Port => (command::port(request).map(|(port, _)| port), true),
        Kind::Eprt => (command::eprt(request), true),
        Kind::Pasv => (command::pasv(line), false),
        Kind::Epsv => (command::epsv(line), false),
        Kind::Plain | Kind::Transfer(_) => return Agreement::Nothing,
    };
    match port {
        Some(port) => Agreement::Port(port, is_active),
        None if is_active => Agreement::Unreadable,
        None => Agreement::Nothing,
    }
}

/// The code of a reply line: three digits and a blank.
fn reply_code(line: &[u8]) -> Option<[u8; 3]> {
    let code: [u8; 3] = line.get(..3)?.try_into().ok()?;
    (code.iter().all(u8::is_ascii_digit) && line.get(3) == Some(&b' ')).then_some(code)
}

/// `AUTH` with a mechanism that is TLS (RFC 4217, and what came before it).
fn is_auth(line: &[u8]) -> bool {
    let mut words = line.split(|b| *b == b' ').filter(|w| !w.is_empty());
    let is = |word: Option<&[u8]>, names: &[&str]| {
        word.is_some_and(|w| names.iter().any(|n| w.eq_ignore_ascii_case(n.as_bytes())))
    };
    is(words.next(), &["auth"]) && is(words.next(), &["tls", "tls-c", "ssl", "tls-p"])
}

/// `PORT` names another address than the client's.
fn is_elsewhere(line: &[u8], ends: &Endpoints) -> bool {
    let Some((_, Some(address))) = command::port(line) else { return false };
    ends.ip_version == 4 && Addr::v4(address) != ends.client
}

impl Parser for FtpParser {
    fn parse(&mut self, cx: &mut ParseContext<'_>, input: Input<'_>) -> Outcome {
        let Input::Data { bytes, .. } = input else { return Outcome::Error };
        let mut rest = bytes;
        while !rest.is_empty() {
            let Some(line) = self.line(cx.direction, rest) else {
                let consumed = bytes.len() - rest.len();
                return Outcome::Incomplete { consumed, needed: rest.len() + 1 };
            };
            let is_fine = match cx.direction {
                _ if line.is_rest => true,
                ToServer => self.request(cx, &line),
                ToClient => self.reply(cx, &line),
            };
            if !is_fine {
                self.txs.iter_mut().for_each(|tx| tx.has_ended = [true; 2]);
                return Outcome::Error;
            }
            rest = rest.get(line.used..).unwrap_or_default();
            if cx.change.is_some() && !rest.is_empty() {
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
            tx.has_ended[direction.index()] = true;
        }
    }

    fn bytes_held(&self) -> usize {
        let last = self.last.as_ref().map_or(0, |(_, request)| request.capacity());
        size_of::<FtpParser>() + last + self.txs.iter().map(FtpTx::bytes_held).sum::<usize>()
    }
}
