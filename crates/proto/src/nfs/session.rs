//! A session: calls and replies become transactions, and parts of files that calls read or write are
//! joined.
//!
//! Each call is a transaction, but those that read, write or commit a file: these share the transaction of
//! their file in that direction (as in Suricata 8.0.7).

use super::arguments::{self, Arguments, Part};
use super::compound::{self, Operation};
use super::frames::Body;
use super::limits::{TXS_PER_FLOW_MAX, reached};
use super::procedure::{common_number, v3};
use super::rpc::{Call, Credentials, Reply};
use super::settings::Settings;
use super::tables::event;
use super::tx::{NfsTx, Transfer, transfer_direction};
use crate::cache::Cache;
use crate::chunks::Chunks;
use crate::files::{File, FileList, FileState, FileWants};
use crate::tx_list::TxList;
use gabion_record::Direction::{self, ToClient, ToServer};
use std::collections::HashMap;

/// A message that can't be read.
#[derive(Debug)]
pub(super) struct Malformed;

/// The bytes of a part that are still to come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Rest {
    pub(super) tx: u64,
    pub(super) len: usize,
    /// The file ends with them, in that state.
    end: Option<FileState>,
}

/// The transaction of bytes that no transaction takes.
const NO_TX: u64 = u64::MAX;

/// A call that waits for its reply.
#[derive(Clone, Debug)]
struct Waiting {
    version: u32,
    /// As version 3 numbers it.
    procedure: u32,
    tx: Option<u64>,
    handle: Vec<u8>,
    name: Vec<u8>,
    offset: u64,
}

/// Calls, replies and files of a flow.
#[derive(Debug)]
pub(super) struct Session {
    pub(super) txs: TxList<NfsTx>,
    settings: Settings,
    calls: Cache<u32, Waiting>,
    names: Cache<Vec<u8>, Vec<u8>>,
    /// What replies have of frames, by the number of their calls; only if somebody wants frames.
    bodies: Cache<u32, Body>,
    /// Transactions of open files, by handle and direction of the bytes.
    open_files: HashMap<(Vec<u8>, Direction), u64>,
    files: u32,
    done_before: u64,
    /// Version of the last call.
    version: u32,
    wants: FileWants,
}

impl Session {
    pub(super) fn new(settings: Settings) -> Session {
        Session {
            txs: TxList::default(),
            settings,
            calls: Cache::new(settings.calls_max, &reached::CALLS_MAX),
            names: Cache::new(settings.names_max, &reached::NAMES_MAX),
            bodies: Cache::new(settings.calls_max, &reached::CALLS_MAX),
            open_files: HashMap::new(),
            files: 0,
            done_before: 0,
            version: 3,
            wants: FileWants::default(),
        }
    }

    /// What is wanted of files from now on.
    pub(super) fn want(&mut self, wants: FileWants) {
        self.wants = wants;
    }

    /// Whether a reply brings a part of a file.
    pub(super) fn is_read(&self, xid: u32) -> bool {
        self.calls.peek(xid).is_some_and(|call| call.procedure == v3::READ)
    }

    /// Whether a reply answers a WRITE of version 3.
    pub(super) fn is_write(&self, xid: u32) -> bool {
        let is_it = |call: &Waiting| (call.version, call.procedure) == (3, v3::WRITE);
        self.calls.peek(xid).is_some_and(is_it)
    }

    /// Keeps what the reply to a call has of frames.
    pub(super) fn keep_body(&mut self, xid: u32, body: Body) {
        self.bodies.insert(xid, body);
    }

    /// What a reply has of frames.
    pub(super) fn take_body(&mut self, xid: u32) -> Body {
        self.bodies.remove(xid).unwrap_or(Body::Unknown)
    }

    /// An event of the youngest transaction, since what is wrong belongs to none.
    pub(super) fn add_event(&mut self, code: u16) {
        if let Some(tx) = self.txs.last_mut() {
            tx.events.add(code);
        }
    }

    /// A datagram that can't be read is a transaction of its own.
    pub(super) fn add_malformed(&mut self) {
        let id = self.add_tx(0, self.version, 0);
        if let Some(tx) = self.txs.get_mut(id) {
            tx.is_done = [true; 2];
            tx.events.add(event::MALFORMED_DATA);
        }
    }

    /// Takes a call. Returns what is still to come of a part of a file.
    pub(super) fn take_call(&mut self, call: &Call<'_>) -> Result<Option<Rest>, Malformed> {
        match call.version {
            2 | 3 => self.take_procedure(call),
            4 => {
                self.version = 4;
                // Procedure 1 is a compound (RFC 7530 16.2).
                Ok(if call.procedure == 1 { self.take_compound(call) } else { None })
            }
            _ => Ok(None),
        }
    }

    fn take_procedure(&mut self, call: &Call<'_>) -> Result<Option<Rest>, Malformed> {
        self.version = call.version;
        let procedure = common_number(call.version, call.procedure);
        let parsed = match call.version {
            2 => arguments::parse_v2_arguments(procedure, call.arguments),
            _ => arguments::parse_v3_arguments(procedure, call.arguments),
        };
        if parsed.is_none() && procedure == v3::WRITE {
            return Err(Malformed);
        }
        if parsed.is_none() {
            self.add_event(event::MALFORMED_DATA);
        }
        let a = parsed.unwrap_or_default();
        let is_v3 = call.version == 3;
        let mut rest = None;
        let tx = match procedure {
            v3::WRITE if is_v3 => {
                let id;
                (id, rest) = self.write_part(call.xid, a.handle, a.offset, a.written);
                Some(id)
            }
            v3::READ if is_v3 => {
                let who = Some(&call.credentials);
                let known = self.open_file(a.handle, ToClient);
                Some(known.unwrap_or_else(|| self.new_file_tx(call.xid, procedure, a.handle, who)))
            }
            v3::READ => None,
            v3::COMMIT if is_v3 => {
                self.commit(call.xid, a.handle);
                None
            }
            _ => Some(self.add_call(call, procedure, &a)),
        };
        self.wait(
            call.xid,
            Waiting {
                version: call.version,
                procedure,
                tx,
                handle: a.handle.to_vec(),
                name: a.name.to_vec(),
                offset: a.offset,
            },
        );
        Ok(rest)
    }

    fn add_call(&mut self, call: &Call<'_>, procedure: u32, a: &Arguments<'_>) -> u64 {
        let name = if a.name.is_empty() {
            self.names.find(a.handle).cloned().unwrap_or_default()
        } else {
            a.name.to_vec()
        };
        let id = self.add_tx(call.xid, call.version, call.procedure);
        if let Some(tx) = self.txs.get_mut(id) {
            tx.procedure = procedure;
            tx.credentials = call.credentials.clone();
            tx.name = name;
            tx.handle = a.handle.to_vec();
            tx.new_name = a.new_name.map(<[u8]>::to_vec);
        }
        id
    }

    fn take_compound(&mut self, call: &Call<'_>) -> Option<Rest> {
        let mut rest = None;
        for operation in compound::parse_operations(call.arguments) {
            let mut waits = None;
            match operation {
                Operation::Write { handle, offset, part } => {
                    rest = self.write_part(call.xid, handle, offset, Some(part)).1;
                }
                Operation::Read { handle, offset } => {
                    waits = Some((v3::READ, None, handle, offset))
                }
                Operation::Commit { handle } => self.commit(call.xid, handle),
                Operation::Close { handle } => self.end_file(call.xid, handle),
                Operation::Remove { name } => {
                    let a = Arguments { name, ..Arguments::default() };
                    let id = self.add_call(call, v3::REMOVE, &a);
                    waits = Some((v3::REMOVE, Some(id), &[][..], 0));
                }
            }
            if let Some((procedure, tx, handle, offset)) = waits {
                self.wait(
                    call.xid,
                    Waiting {
                        version: 4,
                        procedure,
                        tx,
                        handle: handle.to_vec(),
                        name: Vec::new(),
                        offset,
                    },
                );
            }
        }
        rest
    }

    fn wait(&mut self, xid: u32, mut call: Waiting) {
        // The reply to a number that is used twice answers the first of them.
        if let Some(first) = self.calls.peek(xid) {
            call.tx = first.tx.or(call.tx);
        }
        self.calls.insert(xid, call);
    }

    /// Takes a reply. Returns what is still to come of a part of a file.
    pub(super) fn take_reply(&mut self, reply: &Reply<'_>) -> Option<Rest> {
        let call = self.calls.remove(reply.xid)?;
        let results = match call.version {
            2 => arguments::parse_v2_results(call.procedure, reply.results),
            3 => arguments::parse_v3_results(call.procedure, reply.results),
            _ => compound::parse_reply(reply.results).map(|(state, read)| arguments::Results {
                state,
                read,
                ..arguments::Results::default()
            }),
        };
        let Some(results) = results else {
            self.complete(call.tx.filter(|_| call.procedure != v3::READ), 0, &[]);
            self.add_event(event::MALFORMED_DATA);
            return None;
        };
        if call.procedure == v3::READ {
            let part = results.read?;
            let id = match call.version {
                2 => self.new_file_tx(reply.xid, v3::READ, &call.handle, None),
                _ => self.file_tx(reply.xid, v3::READ, &call.handle, None),
            };
            return self.add_part(id, reply.xid, call.offset, part);
        }
        let makes_a_file = matches!(call.procedure, v3::LOOKUP | v3::CREATE);
        if makes_a_file && !results.handle.is_empty() && !call.name.is_empty() {
            self.keep_name(results.handle, &call.name);
        }
        for (handle, name) in results.entries {
            self.keep_name(handle, name);
        }
        let handle = if call.procedure == v3::LOOKUP { results.handle } else { &[] };
        self.complete(
            call.tx.filter(|_| call.version != 3 || call.procedure != v3::WRITE),
            results.state,
            handle,
        );
        None
    }

    fn keep_name(&mut self, handle: &[u8], name: &[u8]) {
        self.names.insert(handle.to_vec(), name.to_vec());
    }

    fn complete(&mut self, tx: Option<u64>, state: u32, handle: &[u8]) {
        let Some(tx) = tx.and_then(|id| self.txs.get_mut(id)) else { return };
        tx.state = state;
        tx.is_done = [true; 2];
        if !handle.is_empty() {
            tx.handle = handle.to_vec();
        }
    }

    fn open_file(&self, handle: &[u8], direction: Direction) -> Option<u64> {
        // Flows have few open files, and a copy of the handle is what the table is searched by.
        self.open_files.get(&(handle.to_vec(), direction)).copied()
    }

    /// The transaction of a file: a further part of it, or the first one.
    fn file_tx(
        &mut self,
        xid: u32,
        procedure: u32,
        handle: &[u8],
        who: Option<&Credentials>,
    ) -> u64 {
        match self.open_file(handle, transfer_direction(procedure)) {
            Some(id) => {
                let transfer = self.txs.get_mut(id).and_then(|tx| tx.transfer.as_mut());
                if let Some(transfer) = transfer {
                    transfer.chunks += 1;
                }
                id
            }
            None => self.new_file_tx(xid, procedure, handle, who),
        }
    }

    fn new_file_tx(
        &mut self,
        xid: u32,
        procedure: u32,
        handle: &[u8],
        who: Option<&Credentials>,
    ) -> u64 {
        let direction = transfer_direction(procedure);
        let version = self.version;
        let name = match version {
            3 => self.names.find(handle).cloned().unwrap_or_default(),
            _ => Vec::new(),
        };
        self.files = self.files.wrapping_add(1);
        let file = File::open(self.files, &name, direction, self.wants);
        let id = self.add_tx(xid, version, procedure);
        if let Some(tx) = self.txs.get_mut(id) {
            tx.procedure = procedure;
            tx.credentials = who.cloned().unwrap_or_default();
            (tx.name, tx.handle) = (name, handle.to_vec());
            tx.is_done = [direction == ToClient, false];
            tx.transfer = Some(Box::new(Transfer {
                direction,
                is_last: false,
                last_xid: 0,
                chunks: 0,
                is_uneven: false,
                has_parts: false,
                parts: Chunks::default(),
                files: FileList { files: vec![file] },
            }));
        }
        self.open_files.insert((handle.to_vec(), direction), id);
        id
    }

    /// Adds a part of a file that a client writes, if it could be read: its transaction, and what is still to come of it.
    fn write_part(
        &mut self,
        xid: u32,
        handle: &[u8],
        offset: u64,
        part: Option<Part<'_>>,
    ) -> (u64, Option<Rest>) {
        let too_large = part.filter(|part| self.settings.is_too_large(ToServer, part.len));
        let Some(part) = too_large else {
            let id = self.file_tx(xid, v3::WRITE, handle, None);
            return (id, part.and_then(|part| self.add_part(id, xid, offset, part)));
        };
        // It is a transaction of its own, and the file that is open continues (measured with Suricata 8.0.7).
        let open = self.open_file(handle, ToServer);
        let id = self.new_file_tx(xid, v3::WRITE, handle, None);
        let rest = self.refuse_part(id, part);
        if let Some(open) = open {
            self.open_files.insert((handle.to_vec(), ToServer), open);
        }
        (id, rest)
    }

    /// Adds a part of a file, or lets it wait for those before it.
    fn add_part(&mut self, id: u64, xid: u32, offset: u64, part: Part<'_>) -> Option<Rest> {
        let tx = self.txs.get_mut(id)?;
        let direction = tx.transfer.as_ref()?.direction;
        if self.settings.is_too_large(direction, part.len) {
            return self.refuse_part(id, part);
        }
        let transfer = tx.transfer.as_mut()?;
        let is_uneven = !part.len.is_multiple_of(4);
        if std::mem::replace(&mut transfer.is_uneven, is_uneven) {
            tx.close_file(FileState::Truncated);
        }
        let transfer = tx.transfer.as_mut()?;
        let direction = transfer.direction;
        let limits = self.settings.queue(direction);
        // A last part that does not follow the others, nor is the only one, cuts the file (Suricata 8.0.7).
        let follows = transfer.parts.next() == offset || !transfer.has_parts;
        let end = if follows { FileState::Closed } else { FileState::Truncated };
        let irregular = transfer.parts.begin_chunk(offset, part.len as u64, limits);
        let [size_exceeded, cnt_exceeded] = match direction {
            ToServer => [event::WRITE_QUEUE_SIZE_EXCEEDED, event::WRITE_QUEUE_CNT_EXCEEDED],
            ToClient => [event::READ_QUEUE_SIZE_EXCEEDED, event::READ_QUEUE_CNT_EXCEEDED],
        };
        if irregular.has_too_many_bytes {
            tx.events.add(size_exceeded);
        }
        if irregular.has_too_many_chunks {
            tx.events.add(cnt_exceeded);
        }
        // Suricata 8.0.7 does not count those that may not wait.
        let is_dropped = irregular.has_too_many_bytes || irregular.has_too_many_chunks;
        transfer.chunks = transfer.chunks.saturating_sub(is_dropped.into());
        transfer.has_parts = true;
        if part.is_last {
            (transfer.is_last, transfer.last_xid) = (true, xid);
        }
        tx.with_file(|parts, file| parts.add_bytes(part.bytes, file));
        let len = part.len.saturating_sub(part.bytes.len());
        let rest = Rest { tx: id, len, end: part.is_last.then_some(end) };
        if len == 0 {
            self.end_part(&rest);
            return None;
        }
        Some(rest)
    }

    /// A message carries more of a file than it may: nothing of it is taken, and its transaction is over at once (measured
    /// with Suricata 8.0.7). Returns what is still to come of it.
    fn refuse_part(&mut self, id: u64, part: Part<'_>) -> Option<Rest> {
        reached::TRANSFER_BYTES_MAX.count();
        let tx = self.txs.get_mut(id)?;
        let transfer = tx.transfer.as_mut()?;
        let direction = transfer.direction;
        transfer.is_last = direction == ToClient;
        transfer.chunks = transfer.chunks.saturating_sub(1);
        if !transfer.has_parts {
            transfer.files = FileList::default();
        }
        tx.events.set(match direction {
            ToServer => event::WRITE_REQUEST_TOO_LARGE,
            ToClient => event::READ_RESPONSE_TOO_LARGE,
        });
        self.end_transfer(id, FileState::Truncated);
        if let Some(tx) = self.txs.get_mut(id) {
            tx.is_done = [true; 2];
        }
        let len = part.len.saturating_sub(part.bytes.len());
        (len > 0).then_some(Rest { tx: NO_TX, len, end: None })
    }

    /// Adds more of a part.
    pub(super) fn add_rest(&mut self, rest: &mut Rest, bytes: &[u8]) {
        rest.len = rest.len.saturating_sub(bytes.len());
        if let Some(tx) = self.txs.get_mut(rest.tx) {
            tx.with_file(|parts, file| parts.add_bytes(bytes, file));
        }
        if rest.len == 0 {
            self.end_part(rest);
        }
    }

    /// Bytes of a part are lost.
    pub(super) fn lose_rest(&mut self, rest: &mut Rest, len: usize) {
        rest.len = rest.len.saturating_sub(len);
        if let Some(tx) = self.txs.get_mut(rest.tx) {
            tx.with_file(|parts, file| parts.lose_bytes(len as u64, file));
        }
        if rest.len == 0 {
            self.end_part(rest);
        }
    }

    fn end_part(&mut self, rest: &Rest) {
        if let Some(tx) = self.txs.get_mut(rest.tx) {
            tx.with_file(Chunks::end_chunk);
        }
        if let Some(state) = rest.end {
            self.end_transfer(rest.tx, state);
        }
    }

    /// The file of a transaction is over.
    fn end_transfer(&mut self, id: u64, state: FileState) {
        let Some(tx) = self.txs.get_mut(id) else { return };
        tx.close_file(state);
        let Some(direction) = tx.transfer.as_ref().map(|t| t.direction) else { return };
        // The reply to a call that writes does not complete the transaction of its file: the end of the
        // flow does (Suricata 8.0.7).
        tx.is_done = [true, direction == ToClient];
        let handle = tx.handle.clone();
        self.open_files.remove(&(handle, direction));
    }

    fn commit(&mut self, xid: u32, handle: &[u8]) {
        let Some(id) = self.open_file(handle, ToServer) else { return };
        if let Some(transfer) = self.txs.get_mut(id).and_then(|tx| tx.transfer.as_mut()) {
            transfer.chunks += u64::from(self.version == 3);
            (transfer.is_last, transfer.last_xid) = (true, xid);
        }
        self.end_transfer(id, FileState::Closed);
    }

    /// A client closes a file.
    fn end_file(&mut self, xid: u32, handle: &[u8]) {
        for direction in Direction::BOTH {
            let Some(id) = self.open_file(handle, direction) else { continue };
            if let Some(transfer) = self.txs.get_mut(id).and_then(|tx| tx.transfer.as_mut()) {
                (transfer.is_last, transfer.last_xid) = (true, xid);
            }
            self.end_transfer(id, FileState::Closed);
        }
    }

    /// Adds a transaction. If as many wait as may, the oldest of them waits no more.
    fn add_tx(&mut self, xid: u32, version: u32, procedure: u32) -> u64 {
        if self.txs.len() as u64 > self.settings.txs_max {
            let mut waiting = self.txs.entries_from(self.done_before);
            let oldest = waiting.find(|(_, tx)| tx.is_done != [true; 2]).map(|(id, _)| id);
            drop(waiting);
            if let Some(id) = oldest {
                self.done_before = id + 1;
                self.forget(id);
                reached::OPEN_TXS_MAX.count();
                if let Some(tx) = self.txs.get_mut(id) {
                    tx.close_file(FileState::Truncated);
                    tx.is_done = [true; 2];
                    tx.events.add(event::TOO_MANY_TRANSACTIONS);
                }
            }
        }
        if self.txs.len() >= TXS_PER_FLOW_MAX {
            self.forget(self.txs.first_id());
        }
        let id = self.txs.next_id();
        self.txs
            .push(Some(&reached::TXS_PER_FLOW_MAX), |id| NfsTx::new(id, xid, version, procedure));
        id
    }

    /// A transaction is gone: its file is not looked for any more.
    pub(super) fn forget(&mut self, id: u64) {
        let Some(tx) = self.txs.get(id) else { return };
        if let Some(transfer) = &tx.transfer {
            let key = (tx.handle.clone(), transfer.direction);
            if self.open_files.get(&key) == Some(&id) {
                self.open_files.remove(&key);
            }
        }
    }

    /// Nothing more comes in a direction.
    pub(super) fn end(&mut self, direction: Direction) {
        for tx in self.txs.iter_mut() {
            if tx.transfer.as_ref().is_some_and(|t| t.direction == direction) {
                tx.close_file(FileState::Truncated);
            }
            tx.is_done[direction.index()] = true;
        }
    }

    pub(super) fn bytes_held(&self) -> usize {
        let calls = self.calls.len() * (size_of::<Waiting>() + 128)
            + self.bodies.len() * 2 * size_of::<(u32, Body)>();
        let names = self.names.len() * (2 * size_of::<Vec<u8>>() + 256);
        size_of::<Session>() + calls + names + self.txs.iter().map(NfsTx::bytes_held).sum::<usize>()
    }
}
