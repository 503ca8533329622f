//! What a flow knows: its transactions, and tables of the files, trees and pipes that its messages name.

use super::ids::{CallKey, FileId, Ids};
use super::limits::{CANDIDATES_MAX, reached};
use super::names::Dialect;
use super::rpc::{self, Call, Message};
use super::settings::Settings;
use super::status::{Status, nt};
use super::tables::event;
use super::tx::{FileContent, Kind, SmbTx};
use crate::ParseContext;
use crate::cache::Cache;
use crate::chunks::{Chunks, QueueLimits};
use crate::dcerpc::contexts::Contexts;
use crate::dcerpc::pdu::kind;
use crate::files::{File, FileList, FileState, FileWants};
use crate::transaction::EventList;
use crate::tx_list::TxList;
use gabion_record::Direction::{self, ToClient, ToServer};
use smallvec::SmallVec;
use std::collections::HashMap;
use std::sync::Arc;

/// A tree that was opened.
#[derive(Clone, Debug)]
pub(super) struct Tree {
    pub(super) name: Arc<[u8]>,
    pub(super) is_pipe: bool,
}

/// A request to read that waits for its response.
#[derive(Clone, Copy, Debug)]
pub(super) struct Read {
    pub(super) file: FileId,
    pub(super) offset: u64,
}

/// The number of a request: version, command and message.
type RequestKey = (u8, u16, u64);

/// What a new transaction is like.
pub(super) struct Opening {
    pub(super) version: u8,
    pub(super) command: u16,
    pub(super) ids: Ids,
    pub(super) kind: Kind,
}

/// What a pipe's message came with.
pub(super) struct PipeMessage<'a> {
    pub(super) version: u8,
    pub(super) command: u16,
    pub(super) ids: Ids,
    /// The pipe, where it is written and read by messages of their own.
    pub(super) pipe: Option<FileId>,
    /// Status of a response.
    pub(super) status: Option<Status>,
    pub(super) bytes: &'a [u8],
}

/// A chunk of a file's content.
#[derive(Clone, Copy, Debug)]
pub(super) struct Chunk {
    pub(super) version: u8,
    pub(super) command: u16,
    pub(super) ids: Ids,
    pub(super) file: FileId,
    pub(super) offset: u64,
    pub(super) len: u64,
}

/// State of a flow.
#[derive(Debug)]
pub(super) struct Session {
    pub(super) settings: Settings,
    pub(super) txs: TxList<SmbTx>,
    dialect: Dialect,
    /// Bytes that the server lets a client read and write at once; 0: not known.
    pub(super) sizes_max: [u32; 2],
    pub(super) names: Cache<FileId, Arc<[u8]>>,
    pub(super) reads: Cache<(u64, u64), Read>,
    pub(super) trees: Cache<u32, Tree>,
    /// Parts of messages that were read from pipes, by session and file.
    pub(super) parts: Cache<(u64, FileId), Vec<u8>>,
    pub(super) contexts: Contexts,
    /// Calls that were begun: a bind is known by this number.
    binds: u32,
    /// Requests without a response.
    requests: HashMap<RequestKey, SmallVec<[u64; 1]>>,
    /// Calls without an answer, or with part of one.
    calls: HashMap<CallKey, u64>,
    /// Files that are open, by direction.
    files: [HashMap<FileId, u64>; 2],
    chunks: HashMap<u64, Chunks>,
    last_file_id: u32,
    /// A limit that ends the flow was reached.
    is_over: bool,
}

impl Session {
    /// Whether a limit that ends the flow was reached.
    pub(super) fn is_over(&self) -> bool {
        self.is_over
    }

    pub(super) fn new(settings: Settings) -> Session {
        Session {
            txs: TxList::default(),
            dialect: Dialect::Unknown,
            sizes_max: [0; 2],
            names: Cache::new(settings.guid_cache_max, &reached::FILES_KNOWN_MAX),
            reads: Cache::new(settings.read_offset_cache_max, &reached::READS_KNOWN_MAX),
            trees: Cache::new(settings.tree_cache_max, &reached::TREES_KNOWN_MAX),
            parts: Cache::new(settings.pipe_cache_max, &reached::PIPES_KNOWN_MAX),
            contexts: Contexts::default(),
            binds: 0,
            requests: HashMap::new(),
            calls: HashMap::new(),
            files: [HashMap::new(), HashMap::new()],
            chunks: HashMap::new(),
            last_file_id: 0,
            is_over: false,
            settings,
        }
    }

    /// Raises an event of no transaction in particular: the youngest has it.
    pub(super) fn raise(&mut self, code: u16) {
        if let Some(tx) = self.txs.last_mut() {
            tx.events.add(code);
        }
    }

    /// Raises an event of a transaction.
    pub(super) fn raise_in(&mut self, id: u64, code: u16) {
        if let Some(tx) = self.txs.get_mut(id) {
            tx.events.add(code);
        }
    }

    /// Adds a transaction.
    pub(super) fn open_tx(&mut self, opening: Opening) -> u64 {
        let id = self.txs.next_id();
        let dialect = self.dialect.clone();
        let Opening { version, command, ids, kind } = opening;
        self.txs.push(Some(&reached::TXS_KEPT_MAX), |id| SmbTx {
            id,
            version,
            command,
            ids,
            status: None,
            dialect,
            kind,
            is_done: [false; 2],
            events: EventList::default(),
        });
        if self.txs.len() > self.settings.txs_max {
            // Suricata 8.0.7 stops with the flow.
            self.raise_in(id, event::TOO_MANY_TRANSACTIONS);
            self.is_over = true;
        }
        id
    }

    /// Adds a transaction that waits for a response: nothing more comes of its request. Where only requests are
    /// seen, that is all of it.
    pub(super) fn open_request(&mut self, opening: Opening) -> u64 {
        let key = (opening.version, opening.command, opening.ids.message);
        let id = self.open_tx(opening);
        if let Some(tx) = self.txs.get_mut(id) {
            tx.is_done[ToServer.index()] = true;
        }
        self.requests.entry(key).or_default().push(id);
        id
    }

    /// Adds a transaction of which nothing is read.
    pub(super) fn open_generic(&mut self, version: u8, command: u16, ids: Ids) -> u64 {
        self.open_request(Opening { version, command, ids, kind: Kind::Generic })
    }

    /// The transaction that a response belongs to: it has the same number, command and session, which a
    /// session setup may not know yet.
    pub(super) fn find_request(
        &mut self,
        version: u8,
        command: u16,
        ids: Ids,
        is_session_free: bool,
    ) -> Option<u64> {
        let all = self.requests.get(&(version, command, ids.message))?;
        all.iter().copied().take(CANDIDATES_MAX).find(|id| {
            self.txs.get(*id).is_some_and(|tx| {
                tx.ids.session == ids.session
                    || is_session_free && (version == 1 || tx.ids.session == 0)
            })
        })
    }

    /// A request has its response.
    pub(super) fn close_request(&mut self, id: u64, status: Status) {
        let Some(tx) = self.txs.get_mut(id) else { return };
        tx.status = Some(status);
        tx.complete();
        let key = (tx.version, tx.command, tx.ids.message);
        let call = tx.call().map(|call| call.key);
        self.forget_request(key, id);
        if let Some(call) = call {
            self.forget_call(&call, id);
        }
    }

    fn forget_call(&mut self, key: &CallKey, id: u64) {
        if self.calls.get(key) == Some(&id) {
            self.calls.remove(key);
        }
    }

    fn forget_request(&mut self, key: RequestKey, id: u64) {
        if let Some(all) = self.requests.get_mut(&key) {
            all.retain(|other| *other != id);
            if all.is_empty() {
                self.requests.remove(&key);
            }
        }
    }

    /// Frees a transaction and what names it.
    pub(super) fn free_tx(&mut self, id: u64) {
        let Some(tx) = self.txs.get(id) else { return };
        let key = (tx.version, tx.command, tx.ids.message);
        let file = tx.content().map(|content| (content.direction, content.file));
        let call = tx.call().map(|call| call.key);
        self.forget_request(key, id);
        if let Some((direction, file)) = file
            && self.files[direction.index()].get(&file) == Some(&id)
        {
            self.files[direction.index()].remove(&file);
        }
        if let Some(key) = call {
            self.forget_call(&key, id);
        }
        self.chunks.remove(&id);
        self.txs.discard(id);
    }

    /// The negotiation is over: all transactions that are alive show the dialect.
    pub(super) fn set_dialect(&mut self, dialect: Dialect) {
        if dialect != self.dialect {
            self.txs.iter_mut().for_each(|tx| tx.dialect = dialect.clone());
            self.dialect = dialect;
        }
    }

    /// Whether a negotiation of that version is alive.
    pub(super) fn has_negotiation(&self, version: u8) -> bool {
        let is_it = |tx: &SmbTx| tx.version == version && matches!(tx.kind, Kind::Negotiate(_));
        self.txs.iter().any(is_it)
    }

    /// The transaction that carries a file in that direction.
    pub(super) fn find_file(&self, direction: Direction, file: FileId) -> Option<u64> {
        let id = self.files[direction.index()].get(&file).copied()?;
        self.txs.get(id).map(|tx| tx.id)
    }

    /// A chunk begins: of a file that is open, or of a new one. Returns its transaction.
    pub(super) fn begin_chunk(
        &mut self,
        cx: &ParseContext<'_>,
        chunk: Chunk,
        share: &[u8],
        unknown: &[u8],
    ) -> u64 {
        let direction = cx.direction;
        let id = match self.find_file(direction, chunk.file) {
            Some(id) => id,
            None => {
                let name = self.names.find(&chunk.file).map(|name| name.to_vec());
                let name = name.unwrap_or_else(|| unknown.to_vec());
                self.last_file_id = self.last_file_id.wrapping_add(1);
                let wants = FileWants::from(cx.requirements);
                let file = File::open(self.last_file_id, &name, direction, wants);
                let content = FileContent {
                    direction,
                    name,
                    share: share.to_vec(),
                    file: chunk.file,
                    files: FileList { files: vec![file] },
                };
                let id = self.open_tx(Opening {
                    version: chunk.version,
                    command: chunk.command,
                    ids: chunk.ids,
                    kind: Kind::File(Box::new(content)),
                });
                self.files[direction.index()].insert(chunk.file, id);
                id
            }
        };
        let (limits, codes) = self.queue_limits(direction);
        let irregular =
            self.chunks.entry(id).or_default().begin_chunk(chunk.offset, chunk.len, limits);
        for (is_raised, code) in [
            (irregular.is_overlap, event::FILE_OVERLAP),
            (irregular.has_too_many_bytes, codes[0]),
            (irregular.has_too_many_chunks, codes[1]),
        ] {
            if is_raised {
                self.raise_in(id, code);
            }
        }
        id
    }

    fn queue_limits(&self, direction: Direction) -> (QueueLimits, [u16; 2]) {
        let s = &self.settings;
        match direction {
            ToServer => (
                QueueLimits {
                    bytes_max: s.write_queue_bytes_max,
                    chunks_max: s.write_queue_chunks_max,
                },
                [event::WRITE_QUEUE_SIZE_EXCEEDED, event::WRITE_QUEUE_CNT_EXCEEDED],
            ),
            ToClient => (
                QueueLimits {
                    bytes_max: s.read_queue_bytes_max,
                    chunks_max: s.read_queue_chunks_max,
                },
                [event::READ_QUEUE_SIZE_EXCEEDED, event::READ_QUEUE_CNT_EXCEEDED],
            ),
        }
    }

    fn with_file(&mut self, id: u64, change: impl FnOnce(&mut Chunks, &mut File)) {
        if let Some(chunks) = self.chunks.get_mut(&id)
            && let Some(content) = self.txs.get_mut(id).and_then(SmbTx::content_mut)
            && let Some(file) = content.files.current()
        {
            change(chunks, file);
        }
    }

    /// The next bytes of the chunk.
    pub(super) fn add_bytes(&mut self, id: u64, bytes: &[u8]) {
        self.with_file(id, |chunks, file| chunks.add_bytes(bytes, file));
    }

    /// Bytes of the chunk are lost.
    pub(super) fn lose_bytes(&mut self, id: u64, len: u64) {
        self.with_file(id, |chunks, file| chunks.lose_bytes(len, file));
    }

    /// The chunk is over.
    pub(super) fn end_chunk(&mut self, id: u64) {
        self.with_file(id, Chunks::end_chunk);
    }

    /// A file is closed: so are the transactions that carry it.
    pub(super) fn close_file(&mut self, file: FileId, status: Option<Status>) {
        for direction in Direction::BOTH {
            self.close_content(direction, file, status);
        }
        self.names.remove(file);
    }

    /// The same of one direction.
    pub(super) fn close_content(&mut self, d: Direction, file: FileId, status: Option<Status>) {
        let Some(id) = self.files[d.index()].remove(&file) else { return };
        self.with_file(id, |chunks, file| chunks.close(FileState::Closed, file));
        self.chunks.remove(&id);
        if let Some(tx) = self.txs.get_mut(id) {
            tx.status = status;
            tx.complete();
        }
    }

    /// A file is whole, but its transaction continues until it is closed.
    pub(super) fn end_content(&mut self, d: Direction, file: FileId, status: Status) {
        let Some(id) = self.files[d.index()].get(&file).copied() else { return };
        self.with_file(id, |chunks, file| chunks.close(FileState::Closed, file));
        if let Some(tx) = self.txs.get_mut(id) {
            tx.status = Some(status);
        }
    }

    /// Nothing comes in a direction any more: its files end early.
    pub(super) fn cut_files(&mut self, direction: Direction) {
        for tx in self.txs.iter_mut() {
            if let Some(content) = tx.content_mut().filter(|c| c.direction == direction)
                && let Some(file) = content.files.current()
            {
                file.close(FileState::Truncated);
            }
        }
    }

    /// Whether what is read from or written to a file is DCE/RPC, if its tree is one of pipes; `None`: it
    /// is no pipe.
    pub(super) fn pipe_kind(&mut self, tree: u32, file: FileId, bytes: &[u8]) -> Option<bool> {
        match self.trees.find(&tree).map(|tree| tree.is_pipe) {
            Some(true) => {
                let name = self.names.find(&file);
                Some(name.is_some_and(|name| rpc::is_known_pipe(name)))
            }
            Some(false) => None,
            None if rpc::looks_like_message(bytes) => {
                // From now on it is known.
                let name: Arc<[u8]> = b"svcctl"[..].into();
                self.trees.insert(tree, Tree { name: Arc::default(), is_pipe: true });
                self.names.insert(file, name);
                Some(true)
            }
            None => None,
        }
    }

    /// A message of DCE/RPC to the server. `None`: there is none.
    pub(super) fn add_call(&mut self, message: &PipeMessage<'_>) -> Option<()> {
        let Some(pdu) = Message::from_bytes(message.bytes) else {
            self.raise(event::MALFORMED_DATA);
            return None;
        };
        let key = call_key(message, pdu.header.call_id);
        let open = self.calls.get(&key).copied().filter(|id| self.txs.get(*id).is_some());
        if let Some(tx) = open.and_then(|id| self.txs.get_mut(id))
            && let Kind::Rpc(call) = &mut tx.kind
            && call.request.kind.is_some()
        {
            if !call.request.is_done {
                call.add_message(ToServer, &pdu, &mut self.contexts);
                tx.is_done[ToServer.index()] = call.request.is_done;
            }
            return Some(());
        }
        if pdu.is_later_fragment() {
            return Some(());
        }
        self.binds = self.binds.wrapping_add(1);
        let call = Call::new(ToServer, &pdu, &mut self.contexts, self.binds);
        self.open_call(message, key, call, pdu.is_malformed());
        Some(())
    }

    fn open_call(
        &mut self,
        message: &PipeMessage<'_>,
        key: CallKey,
        call: Call,
        is_malformed: bool,
    ) {
        let is_done = [call.request.is_done, call.response.is_done];
        let id = self.open_request(Opening {
            version: message.version,
            command: message.command,
            ids: message.ids,
            kind: Kind::Rpc(Box::new(Call { key, ..call })),
        });
        self.calls.insert(key, id);
        if let Some(tx) = self.txs.get_mut(id) {
            tx.is_done = is_done;
            tx.status = message.status;
            if is_malformed {
                tx.events.add(event::MALFORMED_DATA);
            }
        }
    }

    /// A message of DCE/RPC to the client.
    pub(super) fn add_answer(&mut self, message: &PipeMessage<'_>) {
        let Some(pdu) = Message::from_bytes(message.bytes) else {
            self.raise(event::MALFORMED_DATA);
            return;
        };
        let key = call_key(message, pdu.header.call_id);
        let open = self.calls.get(&key).copied();
        let is_malformed = pdu.is_malformed();
        if is_malformed && message.status == Some(Status::Nt(nt::BUFFER_OVERFLOW)) {
            // The rest is read by another request, and Suricata 8.0.7 does not join them.
            return;
        }
        if let Some(tx) = open.and_then(|id| self.txs.get_mut(id))
            && let Kind::Rpc(call) = &mut tx.kind
        {
            call.add_message(ToClient, &pdu, &mut self.contexts);
            tx.status = message.status;
            tx.is_done[ToClient.index()] |= call.response.is_done || is_malformed;
            if is_malformed {
                tx.events.add(event::MALFORMED_DATA);
                tx.complete();
            } else if tx.is_done[ToClient.index()] && call.request.kind != Some(kind::REQUEST) {
                tx.complete();
            }
            if tx.is_done == [true; 2] {
                self.calls.remove(&key);
            }
            return;
        }
        if pdu.header.kind == kind::BIND_ACK {
            return;
        }
        let call = Call::new(ToClient, &pdu, &mut self.contexts, self.binds);
        self.open_call(message, key, call, is_malformed);
    }

    /// Bytes held.
    pub(super) fn bytes_held(&self) -> usize {
        size_of::<Session>()
            + self.txs.bytes_held()
            + self.txs.iter().map(SmbTx::bytes_held).sum::<usize>()
            + self.chunks.values().map(Chunks::bytes_held).sum::<usize>()
            + self.names.bytes_held()
            + self.names.values().map(|name| name.len()).sum::<usize>()
            + self.trees.bytes_held()
            + self.trees.values().map(|tree| tree.name.len()).sum::<usize>()
            + self.reads.bytes_held()
            + self.parts.bytes_held()
            + self.parts.values().map(Vec::capacity).sum::<usize>()
            + self.contexts.bytes_held()
            + self.requests.capacity() * size_of::<(RequestKey, SmallVec<[u64; 1]>)>()
            + self.calls.capacity() * size_of::<(CallKey, u64)>()
    }
}

fn call_key(message: &PipeMessage<'_>, call_id: u32) -> CallKey {
    (message.ids.session, message.pipe.map_or(Ok(message.ids.message), Err), call_id)
}
