//! SMB 2 and 3: requests and responses (MS-SMB2 2.2).

use super::body2::*;
use super::header::Header2;
use super::ids::{FileId, Ids};
use super::limits::{DIALECTS_MAX, TEXT_BYTES_MAX};
use super::names::{Dialect, PIPE_TRANSCEIVE, command2};
use super::rpc::looks_like_message;
use super::security::Token;
use super::session::{Chunk, Opening, PipeMessage, Read, Session, Tree};
use super::status::{Status, nt};
use super::tables::event;
use super::tx::*;
use super::wire::{text_without_zeros, unix_seconds};
use crate::ParseContext;
use gabion_record::Direction::{ToClient, ToServer};
use std::sync::Arc;

/// Bytes that show whether data are a message of DCE/RPC.
pub(super) const PEEK_BYTES: usize = 16;

/// The data of a READ or WRITE: where they are in the body, and where they go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Data {
    /// Nowhere.
    Ignored,
    /// To a pipe that carries DCE/RPC.
    Pipe { at: usize, len: usize },
    /// To a file, in this transaction.
    File { at: usize, len: usize, tx: u64 },
}

/// The place and length of the data of a WRITE request or a READ response in a body of which the beginning
/// is there. `None`: it has none.
pub(super) fn find_data(header: &Header2, body: &[u8]) -> Option<(usize, u32)> {
    match (header.command, header.is_response) {
        (command2::WRITE, false) => WriteRequest::from_body(body).map(|w| (w.data_at, w.len)),
        (command2::READ, true) if is_readable(header.status) => {
            ReadResponse::from_body(body).map(|r| (r.data_at, r.len))
        }
        _ => None,
    }
}

/// Bytes of the body before the data of such a message; `None`: it has none.
pub(super) fn data_head_len(header: &Header2) -> Option<usize> {
    match (header.command, header.is_response, header.next) {
        (command2::WRITE, false, 0) => Some(WriteRequest::LEN),
        (command2::READ, true, 0) if is_readable(header.status) => Some(ReadResponse::LEN),
        _ => None,
    }
}

/// The first bytes of data, by which a message of DCE/RPC is known.
pub(super) fn peek_data(bytes: &[u8], at: usize, len: usize) -> &[u8] {
    let rest = bytes.get(at..).unwrap_or_default();
    rest.get(..len.min(PEEK_BYTES)).unwrap_or(rest)
}

/// Whether a response of that status has data.
fn is_readable(status: u32) -> bool {
    matches!(status, nt::SUCCESS | nt::BUFFER_OVERFLOW)
}

fn ids_of(header: &Header2) -> Ids {
    Ids { session: header.session_id, tree: header.tree_id, message: header.message_id }
}

fn bounded_text(bytes: &[u8]) -> Vec<u8> {
    let mut text = text_without_zeros(bytes);
    text.truncate(TEXT_BYTES_MAX);
    text
}

impl Session {
    /// Where the data of a WRITE request or READ response go. `body_len` is the length of the body, of
    /// which the beginning and [`PEEK_BYTES`] of the data are there.
    pub(super) fn place_data2(
        &mut self,
        cx: &ParseContext<'_>,
        header: &Header2,
        body: &[u8],
        body_len: usize,
    ) -> Data {
        if header.is_response {
            self.place_read2(cx, header, body, body_len)
        } else {
            self.place_write2(cx, header, body, body_len)
        }
    }

    /// Whether the data of such a message go to a pipe that carries DCE/RPC: they have to be whole.
    pub(super) fn is_piped2(
        &mut self,
        header: &Header2,
        body: &[u8],
        (at, len): (usize, u32),
    ) -> bool {
        let file = if header.is_response {
            let asked = self.reads.peek((header.session_id, header.message_id));
            asked.map(|asked| asked.file)
        } else {
            WriteRequest::from_body(body).map(|write| FileId::Long(write.file))
        };
        let direction = if header.is_response { ToClient } else { ToServer };
        file.is_some_and(|file| {
            self.find_file(direction, file).is_none()
                && self.pipe_kind(header.tree_id, file, peek_data(body, at, len as usize))
                    == Some(true)
        })
    }

    fn place_write2(
        &mut self,
        cx: &ParseContext<'_>,
        header: &Header2,
        body: &[u8],
        body_len: usize,
    ) -> Data {
        let Some(write) = WriteRequest::from_body(body) else {
            self.raise(event::MALFORMED_DATA);
            return Data::Ignored;
        };
        let (at, len) = (write.data_at, write.len as usize);
        if at.saturating_add(len) > body_len
            || is_beyond(write.len, self.sizes_max[1], self.settings.write_max)
        {
            self.raise(event::WRITE_REQUEST_TOO_LARGE);
            return Data::Ignored;
        }
        let file = FileId::Long(write.file);
        let chunk = Chunk {
            version: 2,
            command: header.command,
            ids: ids_of(header),
            file,
            offset: write.offset,
            len: u64::from(write.len),
        };
        let is_open = self.find_file(cx.direction, file).is_some();
        if !is_open {
            match self.pipe_kind(header.tree_id, file, peek_data(body, at, len)) {
                Some(true) => return Data::Pipe { at, len },
                Some(false) => return Data::Ignored,
                None => {}
            }
        }
        Data::File { at, len, tx: self.begin_chunk(cx, chunk, b"", b"") }
    }

    fn place_read2(
        &mut self,
        cx: &ParseContext<'_>,
        header: &Header2,
        body: &[u8],
        body_len: usize,
    ) -> Data {
        let asked = self.reads.remove((header.session_id, header.message_id));
        let Some(read) = ReadResponse::from_body(body) else {
            self.raise(event::MALFORMED_DATA);
            return Data::Ignored;
        };
        let (at, len) = (read.data_at, read.len as usize);
        if at.saturating_add(len) > body_len
            || is_beyond(read.len, self.sizes_max[0], self.settings.read_max)
        {
            self.raise(event::READ_RESPONSE_TOO_LARGE);
            return Data::Ignored;
        }
        let Some(asked) = asked else { return Data::Ignored };
        let is_open = self.find_file(cx.direction, asked.file).is_some();
        if !is_open {
            match self.pipe_kind(header.tree_id, asked.file, peek_data(body, at, len)) {
                Some(true) => {
                    // The file is asked for again when the data are there.
                    self.reads.insert((header.session_id, header.message_id), asked);
                    return Data::Pipe { at, len };
                }
                Some(false) => return Data::Ignored,
                None => {}
            }
        }
        let share = self.trees.find(&header.tree_id).map(|tree| tree.name.clone());
        let chunk = Chunk {
            version: 2,
            command: header.command,
            ids: ids_of(header),
            file: asked.file,
            offset: asked.offset,
            len: u64::from(read.len),
        };
        let share = share.unwrap_or_default();
        Data::File { at, len, tx: self.begin_chunk(cx, chunk, &share, b"<unknown>") }
    }

    /// Takes a message with its header.
    pub(super) fn take_message2(&mut self, cx: &ParseContext<'_>, header: &Header2, body: &[u8]) {
        let is_data = match (header.command, header.is_response) {
            (command2::WRITE, false) => true,
            (command2::READ, true) => is_readable(header.status),
            _ => false,
        };
        if is_data {
            match self.place_data2(cx, header, body, body.len()) {
                Data::Ignored => {}
                Data::Pipe { at, len } => {
                    let bytes = body.get(at..).and_then(|b| b.get(..len)).unwrap_or_default();
                    let write = WriteRequest::from_body(body).filter(|_| !header.is_response);
                    let written = write.map(|write| FileId::Long(write.file));
                    self.take_pipe_data2(header, bytes, written);
                }
                Data::File { at, len, tx } => {
                    let bytes = body.get(at..).and_then(|b| b.get(..len)).unwrap_or_default();
                    self.add_bytes(tx, bytes);
                    self.end_chunk(tx);
                }
            }
        } else if header.is_response {
            self.take_response2(header, body);
        } else {
            self.take_request2(header, body);
        }
    }

    fn take_pipe_data2(&mut self, header: &Header2, bytes: &[u8], written: Option<FileId>) {
        let mut message = PipeMessage {
            version: 2,
            command: header.command,
            ids: ids_of(header),
            pipe: None,
            status: None,
            bytes,
        };
        if let Some(file) = written {
            message.pipe = Some(file);
            self.add_call(&message);
            return;
        }
        let asked = self.reads.remove((header.session_id, header.message_id));
        let Some(asked) = asked else { return };
        message.pipe = Some(asked.file);
        let key = (header.session_id, asked.file);
        let mut whole = self.parts.remove(key).unwrap_or_default();
        let is_part = header.status == nt::BUFFER_OVERFLOW;
        if is_part || !whole.is_empty() {
            whole.extend_from_slice(bytes);
            if is_part {
                // The rest is read by the next request.
                whole.truncate(TEXT_BYTES_MAX);
                self.parts.insert(key, whole);
                return;
            }
            message.bytes = &whole;
        }
        message.status = Some(Status::Nt(header.status));
        self.add_answer(&message);
    }

    fn take_request2(&mut self, header: &Header2, body: &[u8]) {
        let ids = ids_of(header);
        let command = header.command;
        let kind = match command {
            command2::NEGOTIATE => self.negotiate_request2(body),
            command2::SESSION_SETUP => return self.session_setup_request2(header, body),
            command2::TREE_CONNECT => tree_connect_path(body).map(|path| {
                Some(Kind::TreeConnect(Box::new(TreeConnect {
                    name: bounded_text(path),
                    ..TreeConnect::default()
                })))
            }),
            command2::CREATE => CreateRequest::from_body(body).map(|create| {
                let name = match bounded_text(create.name) {
                    name if name.is_empty() => b"<share_root>".to_vec(),
                    name => name,
                };
                Some(Kind::Create(Box::new(Create {
                    name,
                    disposition: create.disposition,
                    is_deleted_on_close: create.options & 0x1000 != 0,
                    is_directory: create.options & 1 != 0 && !create.name.is_empty(),
                    ..Create::default()
                })))
            }),
            command2::CLOSE => close_file(body).map(|file| {
                self.close_file(FileId::Long(file), Some(Status::Nt(nt::SUCCESS)));
                Some(Kind::Generic)
            }),
            command2::READ => {
                self.read_request2(header, body);
                return;
            }
            command2::IOCTL => self.ioctl_request2(header, body),
            command2::SET_INFO => {
                Some(SetInfo::from_body(body).and_then(|set| self.set_info_kind(&set)))
            }
            command2::GET_INFO => return,
            _ => Some(Some(Kind::Generic)),
        };
        match kind {
            Some(Some(kind)) => {
                self.open_request(Opening { version: 2, command, ids, kind });
            }
            Some(None) => {}
            None => {
                let id = self.open_generic(2, command, ids);
                self.raise_in(id, event::MALFORMED_DATA);
            }
        }
    }

    fn negotiate_request2(&mut self, body: &[u8]) -> Option<Option<Kind>> {
        let request = NegotiateRequest::from_body(body, DIALECTS_MAX)?;
        if self.has_negotiation(2) {
            self.raise(event::DUPLICATE_NEGOTIATE);
            return Some(None);
        }
        Some(Some(Kind::Negotiate(Box::new(Negotiate {
            dialect_numbers: request.dialects,
            client_guid: Some(request.client_guid),
            ..Negotiate::default()
        }))))
    }

    fn session_setup_request2(&mut self, header: &Header2, body: &[u8]) {
        let Some(token) = session_setup_token(body) else { return };
        let Token { kerberos, ntlmssp } = Token::from_bytes(token);
        let is_unusual = ntlmssp.as_ref().is_some_and(|n| n.is_order_unusual);
        let setup = SessionSetup { kerberos, ntlmssp, ..SessionSetup::default() };
        let id = self.open_request(Opening {
            version: 2,
            command: header.command,
            ids: ids_of(header),
            kind: Kind::SessionSetup(Box::new(setup)),
        });
        if is_unusual {
            self.raise_in(id, event::UNUSUAL_NTLMSSP_ORDER);
        }
    }

    fn read_request2(&mut self, header: &Header2, body: &[u8]) {
        let Some(read) = ReadRequest::from_body(body) else { return };
        if is_beyond(read.len, self.sizes_max[0], self.settings.read_max) {
            self.raise(event::READ_REQUEST_TOO_LARGE);
            return;
        }
        let file = FileId::Long(read.file);
        let key = (header.session_id, header.message_id);
        self.reads.insert(key, Read { file, offset: read.offset });
    }

    fn ioctl_request2(&mut self, header: &Header2, body: &[u8]) -> Option<Option<Kind>> {
        let ioctl = Ioctl::from_request(body)?;
        let kind = Kind::Ioctl { function: ioctl.function };
        if ioctl.function != PIPE_TRANSCEIVE {
            return Some(Some(kind));
        }
        let file = FileId::Long(ioctl.file);
        let is_rpc = match self.pipe_kind(header.tree_id, file, ioctl.data) {
            Some(is_rpc) => is_rpc,
            None => looks_like_message(ioctl.data),
        };
        if !is_rpc {
            return Some(Some(kind));
        }
        self.add_call(&PipeMessage {
            version: 2,
            command: header.command,
            ids: ids_of(header),
            pipe: None,
            status: None,
            bytes: ioctl.data,
        });
        Some(None)
    }

    fn set_info_kind(&mut self, set: &SetInfo<'_>) -> Option<Kind> {
        const FILE: u8 = 1;
        const RENAME: u8 = 10;
        const DISPOSITION: u8 = 13;
        let file = FileId::Long(set.file);
        let name = self.names.find(&file).map(|name| name.to_vec());
        let name = name.unwrap_or_else(|| b"<unknown>".to_vec());
        match (set.class, set.level) {
            (FILE, RENAME) => {
                let to = bounded_text(rename_path(set.data)?);
                Some(Kind::Rename(Box::new(Rename {
                    from: name,
                    to,
                    file: Some(file),
                    has_info: true,
                })))
            }
            (FILE, DISPOSITION) => Some(Kind::SetDisposition(Box::new(SetDisposition {
                name,
                is_deleted: set.data.first()? & 1 != 0,
                file: Some(file),
                sub_command: None,
            }))),
            _ => None,
        }
    }

    fn take_response2(&mut self, header: &Header2, body: &[u8]) {
        let ids = ids_of(header);
        let status = Status::Nt(header.status);
        match header.command {
            command2::NEGOTIATE => self.negotiate_response2(header, body),
            command2::READ | command2::WRITE | command2::GET_INFO => {
                if header.command == command2::READ && header.status != nt::PENDING {
                    let asked = self.reads.remove((header.session_id, header.message_id));
                    if header.status == nt::END_OF_FILE
                        && let Some(asked) = asked
                    {
                        self.end_content(ToClient, asked.file, status);
                    }
                }
            }
            command2::IOCTL => self.ioctl_response2(header, body),
            command if header.status == nt::PENDING => self.note_pending2(header, command),
            command => {
                let is_setup = command == command2::SESSION_SETUP;
                let Some(id) = self.find_request(2, command, ids, is_setup) else { return };
                if self.complete_kind2(id, header, body) {
                    self.close_request(id, status);
                }
            }
        }
    }

    /// The response to a request comes later.
    fn note_pending2(&mut self, header: &Header2, command: u16) {
        let found = self.find_request(2, command, ids_of(header), false);
        if let Some(tx) = found.and_then(|id| self.txs.get_mut(id)) {
            tx.status = Some(Status::Nt(nt::PENDING));
        }
    }

    /// Notes what the response to a request says. Whether it can be read.
    fn complete_kind2(&mut self, id: u64, header: &Header2, body: &[u8]) -> bool {
        let is_success = header.status == nt::SUCCESS;
        let Some(tx) = self.txs.get_mut(id) else { return false };
        match &mut tx.kind {
            Kind::SessionSetup(_) => {
                tx.ids.session = header.session_id;
                tx.ids.tree = header.tree_id;
                true
            }
            Kind::TreeConnect(tree) => {
                if !is_success {
                    return true;
                }
                tx.ids.tree = header.tree_id;
                if let Some(share_type) = tree_connect_type(body) {
                    tree.share_type = share_type;
                    tree.is_pipe = share_type == 2;
                    let opened = Tree { name: tree.name.as_slice().into(), is_pipe: tree.is_pipe };
                    self.trees.insert(header.tree_id, opened);
                } else {
                    tx.events.add(event::MALFORMED_DATA);
                }
                true
            }
            Kind::Create(create) if is_success => {
                let Some(response) = CreateResponse::from_body(body) else { return false };
                let file = FileId::Long(response.file);
                create.times = response.times.map(unix_seconds);
                create.size = response.size;
                create.file = Some(file);
                let name: Arc<[u8]> = create.name.as_slice().into();
                self.names.insert(file, name);
                true
            }
            Kind::Generic if header.command == command2::CREATE && is_success => {
                CreateResponse::from_body(body).is_some()
            }
            Kind::Generic if header.command == command2::TREE_CONNECT && is_success => {
                if tree_connect_type(body).is_none() {
                    tx.events.add(event::MALFORMED_DATA);
                }
                true
            }
            Kind::Generic => {
                if is_success && matches!(header.command, command2::TREE_DISCONNECT) {
                    self.trees.remove(header.tree_id);
                }
                true
            }
            Kind::Create(_)
            | Kind::Negotiate(_)
            | Kind::File(_)
            | Kind::Rename(_)
            | Kind::SetDisposition(_)
            | Kind::Ioctl { .. }
            | Kind::Rpc(_) => true,
        }
    }

    fn negotiate_response2(&mut self, header: &Header2, body: &[u8]) {
        let response = NegotiateResponse::from_body(body);
        // A negotiation may have begun in SMB 1, with a number of its own.
        let open = |tx: &&SmbTx| matches!(tx.kind, Kind::Negotiate(_)) && tx.is_done != [true; 2];
        let found = self.txs.iter().rev().find(open).map(|tx| tx.id);
        let found = match found {
            None if response.is_none() => {
                self.find_request(2, header.command, ids_of(header), false)
            }
            found => found,
        };
        let Some(id) = found else { return };
        if let Some(response) = &response
            && header.status == nt::SUCCESS
        {
            self.set_dialect(Dialect::Two(response.dialect));
            self.sizes_max = [response.read_max, response.write_max];
            for (size, max, code) in [
                (response.read_max, self.settings.read_max, event::NEGOTIATED_READ_SIZE_TOO_LARGE),
                (
                    response.write_max,
                    self.settings.write_max,
                    event::NEGOTIATED_WRITE_SIZE_TOO_LARGE,
                ),
            ] {
                if max > 0 && size > max {
                    self.raise_in(id, code);
                }
            }
        } else if header.status == nt::SUCCESS {
            self.raise_in(id, event::MALFORMED_DATA);
        }
        if let Some(tx) = self.txs.get_mut(id)
            && let Kind::Negotiate(negotiate) = &mut tx.kind
            && let Some(response) = response
        {
            negotiate.server_guid = Some(response.server_guid);
            let sizes = (response.read_max, response.write_max);
            negotiate.sizes_max = Some(sizes).filter(|sizes| *sizes != (0, 0));
        }
        self.close_request(id, Status::Nt(header.status));
    }

    /// The answer to a call that was not seen.
    fn lost_ioctl2(&mut self, header: &Header2, body: &[u8]) {
        let Some(ioctl) = Ioctl::from_response(body).filter(|_| is_readable(header.status)) else {
            return;
        };
        let file = FileId::Long(ioctl.file);
        if ioctl.function == PIPE_TRANSCEIVE
            && self.pipe_kind(header.tree_id, file, ioctl.data) == Some(true)
        {
            self.add_answer(&PipeMessage {
                version: 2,
                command: header.command,
                ids: ids_of(header),
                pipe: None,
                status: Some(Status::Nt(header.status)),
                bytes: ioctl.data,
            });
        }
    }

    fn ioctl_response2(&mut self, header: &Header2, body: &[u8]) {
        let ids = ids_of(header);
        let status = Status::Nt(header.status);
        let Some(id) = self.find_request(2, header.command, ids, false) else {
            return self.lost_ioctl2(header, body);
        };
        if header.status == nt::PENDING && header.is_async {
            return self.note_pending2(header, header.command);
        }
        let is_call = self.txs.get(id).is_some_and(|tx| matches!(tx.kind, Kind::Rpc(_)));
        if !is_call {
            if Ioctl::from_response(body).is_none() && is_readable(header.status) {
                self.raise_in(id, event::MALFORMED_DATA);
            }
            if header.status != nt::PENDING {
                self.close_request(id, status);
            }
            return;
        }
        let data = Ioctl::from_response(body).map(|ioctl| ioctl.data).filter(|d| !d.is_empty());
        match data.filter(|_| is_readable(header.status)) {
            Some(bytes) => self.add_answer(&PipeMessage {
                version: 2,
                command: header.command,
                ids,
                pipe: None,
                status: Some(status),
                bytes,
            }),
            None => self.close_request(id, status),
        }
    }
}

/// Whether a message has more data than the server or the configuration allows (0: any number).
fn is_beyond(len: u32, negotiated: u32, configured: u32) -> bool {
    negotiated > 0 && len > negotiated || configured > 0 && len > configured
}
