//! SMB 1: requests and responses (MS-CIFS 2.2.4).

use super::body1::*;
use super::header::Header1;
use super::ids::{FileId, Ids};
use super::limits::{DIALECTS_MAX, TEXT_BYTES_MAX};
use super::names::{Dialect, command1};
use super::security::Token;
use super::session::{Chunk, Opening, PipeMessage, Read, Session, Tree};
use super::smb2::{Data, peek_data};
use super::status::{Status, nt};
use super::tables::event;
use super::tx::*;
use super::wire::{text_without_zeros, u16_at, u32_at, unix_seconds};
use crate::ParseContext;
use gabion_record::Direction::{ToClient, ToServer};
use std::sync::Arc;

/// The function of a transaction that writes to a pipe and reads its answer (MS-CIFS 2.2.5.6).
const TRANSACT_PIPE: u16 = 0x26;

/// Sub-commands of TRANSACTION2 (MS-CIFS 2.2.6).
const SET_PATH_INFO: u16 = 6;
const SET_FILE_INFO: u16 = 8;

/// Levels of both: those of SET_INFO of SMB 2, from 1,000 on (MS-SMB 2.2.2.3.5).
const LEVEL_RENAME: u16 = 1010;
const LEVEL_DISPOSITION: u16 = 1013;

/// The status in a header.
fn status_of(header: &Header1) -> Status {
    if header.is_nt_status {
        return Status::Nt(header.status);
    }
    let [class, _, low, high] = header.status.to_le_bytes();
    Status::Dos { class, code: u16::from_le_bytes([low, high]) }
}

fn ids_of(header: &Header1) -> Ids {
    Ids {
        session: u64::from(header.user_id),
        tree: u32::from(header.tree_id),
        message: u64::from(header.multiplex_id),
    }
}

/// Whether a response of that status has data.
fn is_readable(status: Status) -> bool {
    status.is_success() || status == Status::Nt(nt::BUFFER_OVERFLOW)
}

/// Whether a command has no response.
fn is_unanswered(command: u8) -> bool {
    matches!(command, command1::LOCKING_ANDX | command1::TRANS2_SECONDARY | command1::NT_CANCEL)
}

/// Whether a message that begins with this command has a transaction of its own.
fn is_transaction(command: u8) -> bool {
    !matches!(
        command,
        command1::READ_ANDX | command1::WRITE_ANDX | command1::TRANS | command1::TRANS2
    )
}

fn bounded_text(bytes: &[u8]) -> Vec<u8> {
    let mut text = text_without_zeros(bytes);
    text.truncate(TEXT_BYTES_MAX);
    text
}

/// What a request comes to.
enum Taken {
    /// A transaction about this.
    Tx(Kind),
    /// A transaction of its own is there, or none is wanted.
    Done,
    /// None: the message's first command may have one.
    Nothing,
    /// It can't be read.
    Malformed,
}

impl Session {
    /// Where the data of a READ_ANDX response or a WRITE_ANDX request go. Of the message the head and the first
    /// bytes of the data are there.
    pub(super) fn place_data1(
        &mut self,
        cx: &ParseContext<'_>,
        header: &Header1,
        data: Data1,
        message: (&[u8], usize),
    ) -> Data {
        let (bytes, message_len) = message;
        let (at, len) = (data.at, data.len as usize);
        let key = (u64::from(header.user_id), u64::from(header.multiplex_id));
        let asked = if header.is_response { self.reads.remove(key) } else { None };
        let (max, code) = if header.is_response {
            (self.settings.read_max, event::READ_RESPONSE_TOO_LARGE)
        } else {
            (self.settings.write_max, event::WRITE_REQUEST_TOO_LARGE)
        };
        if at.saturating_add(len) > message_len || max > 0 && data.len > max {
            self.raise(code);
            return Data::Ignored;
        }
        let (file, offset) = match (header.is_response, asked) {
            (true, None) => return Data::Ignored,
            (true, Some(asked)) => (asked.file, asked.offset),
            (false, _) => (FileId::Short(data.file), data.offset),
        };
        let tree = u32::from(header.tree_id);
        if self.find_file(cx.direction, file).is_none() {
            match self.pipe_kind(tree, file, peek_data(bytes, at, len)) {
                Some(true) => {
                    if let Some(asked) = asked {
                        // The file is asked for again when the data are there.
                        self.reads.insert(key, asked);
                    }
                    return Data::Pipe { at, len };
                }
                Some(false) => return Data::Ignored,
                None => {}
            }
        }
        let share = self.trees.find(&tree).map(|tree| tree.name.clone()).unwrap_or_default();
        let command = if header.is_response { command1::READ_ANDX } else { command1::WRITE_ANDX };
        let chunk = Chunk {
            version: 1,
            command: command.into(),
            ids: Ids::default(),
            file,
            offset,
            len: u64::from(data.len),
        };
        let unknown = if header.is_response { &b""[..] } else { b"<unknown>" };
        Data::File { at, len, tx: self.begin_chunk(cx, chunk, &share, unknown) }
    }

    /// Whether the data of such a message go to a pipe that carries DCE/RPC: they have to be whole.
    pub(super) fn is_piped1(&mut self, header: &Header1, data: &Data1, message: &[u8]) -> bool {
        let key = (u64::from(header.user_id), u64::from(header.multiplex_id));
        let (file, direction) = if header.is_response {
            (self.reads.peek(key).map(|asked| asked.file), ToClient)
        } else {
            (Some(FileId::Short(data.file)), ToServer)
        };
        let bytes = peek_data(message, data.at, data.len as usize);
        file.is_some_and(|file| {
            self.find_file(direction, file).is_none()
                && self.pipe_kind(u32::from(header.tree_id), file, bytes) == Some(true)
        })
    }

    /// Takes a message of one or several commands.
    pub(super) fn take_message1(
        &mut self,
        cx: &ParseContext<'_>,
        header: &Header1,
        message: &[u8],
    ) {
        let mut command = Command { message, at: Header1::LEN, is_unicode: header.is_unicode };
        let mut code = header.command;
        loop {
            let next = if is_chained(code) { command.next() } else { None };
            if header.is_response {
                self.take_response1(cx, header, code, &command, next.is_none());
            } else {
                self.take_request1(cx, header, code, &command);
            }
            let Some((next, at)) = next else { return };
            if at >= message.len() {
                return;
            }
            (code, command.at) = (next, at);
        }
    }

    fn take_request1(
        &mut self,
        cx: &ParseContext<'_>,
        header: &Header1,
        code: u8,
        command: &Command<'_>,
    ) {
        let mut ids = ids_of(header);
        if matches!(code, command1::TREE_CONNECT_ANDX | command1::NEGOTIATE) {
            // The tree is the response's, or there is none.
            ids.tree = 0;
        }
        if code == command1::NEGOTIATE {
            ids.session = 0;
        }
        match self.read_request1(cx, header, code, command) {
            Taken::Tx(kind) => {
                let command = u16::from(code);
                let id = self.open_request(Opening { version: 1, command, ids, kind });
                if is_unanswered(code)
                    && let Some(tx) = self.txs.get_mut(id)
                {
                    tx.complete();
                }
            }
            Taken::Done => {}
            Taken::Nothing if is_transaction(header.command) => {
                self.open_generic(1, header.command.into(), ids);
            }
            Taken::Nothing => {}
            Taken::Malformed => {
                let id = self.open_generic(1, code.into(), ids_of(header));
                self.raise_in(id, event::MALFORMED_DATA);
            }
        }
    }

    fn read_request1(
        &mut self,
        cx: &ParseContext<'_>,
        header: &Header1,
        code: u8,
        command: &Command<'_>,
    ) -> Taken {
        let or_malformed = |kind: Option<Kind>| kind.map_or(Taken::Malformed, Taken::Tx);
        match code {
            command1::NEGOTIATE => {
                let Some(names) = negotiate_dialects(command, DIALECTS_MAX) else {
                    return Taken::Malformed;
                };
                if self.has_negotiation(1) {
                    self.raise(event::DUPLICATE_NEGOTIATE);
                    return Taken::Done;
                }
                let negotiate = Negotiate { dialect_names: names, ..Negotiate::default() };
                Taken::Tx(Kind::Negotiate(Box::new(negotiate)))
            }
            command1::SESSION_SETUP_ANDX => {
                let Some(request) = SessionSetupRequest::from_command(command) else {
                    return Taken::Done;
                };
                let Token { kerberos, ntlmssp } = Token::from_bytes(request.token);
                let is_unusual = ntlmssp.as_ref().is_some_and(|n| n.is_order_unusual);
                let setup = SessionSetup {
                    kerberos,
                    ntlmssp,
                    request_systems: Some(request.systems),
                    response_systems: None,
                };
                let id = self.open_request(Opening {
                    version: 1,
                    command: code.into(),
                    ids: Ids { tree: 0, ..ids_of(header) },
                    kind: Kind::SessionSetup(Box::new(setup)),
                });
                if is_unusual {
                    self.raise_in(id, event::UNUSUAL_NTLMSSP_ORDER);
                }
                Taken::Done
            }
            command1::TREE_CONNECT_ANDX => {
                or_malformed(tree_connect(command).map(|(name, asked)| {
                    let service = Some((asked, None));
                    Kind::TreeConnect(Box::new(TreeConnect {
                        name,
                        service,
                        ..TreeConnect::default()
                    }))
                }))
            }
            command1::NT_CREATE_ANDX => {
                or_malformed(CreateRequest1::from_command(command).map(|create| {
                    let name = match bounded_text(create.name) {
                        name if name.is_empty() => b"<share_root>".to_vec(),
                        name => name,
                    };
                    Kind::Create(Box::new(Create {
                        name,
                        disposition: create.disposition,
                        is_deleted_on_close: create.options & 0x1000 != 0,
                        is_directory: create.options & 1 != 0 && !create.name.is_empty(),
                        ..Create::default()
                    }))
                }))
            }
            command1::READ_ANDX => {
                if let Some((file, offset, len)) = read_request(command) {
                    if self.settings.read_max > 0 && len > self.settings.read_max {
                        self.raise(event::READ_REQUEST_TOO_LARGE);
                    } else {
                        let key = (u64::from(header.user_id), u64::from(header.multiplex_id));
                        self.reads.insert(key, Read { file: FileId::Short(file), offset });
                    }
                }
                Taken::Done
            }
            command1::WRITE_ANDX => match write_andx(command) {
                Some(data) => {
                    if self.take_data1(cx, header, data, command) {
                        Taken::Nothing
                    } else {
                        Taken::Done
                    }
                }
                None => Taken::Malformed,
            },
            command1::WRITE | command1::WRITE_AND_CLOSE => {
                let is_closing = code == command1::WRITE_AND_CLOSE;
                let Some(data) = write_plain(command, is_closing) else { return Taken::Malformed };
                self.take_data1(cx, header, data, command);
                if is_closing {
                    self.close_file(FileId::Short(data.file), None);
                }
                Taken::Tx(Kind::Generic)
            }
            command1::CLOSE => {
                // Suricata 8.0.7 closes the file only where the message begins with this.
                if let Some(file) = close_file1(command).filter(|_| header.command == code) {
                    let file = FileId::Short(file);
                    self.close_content(ToServer, file, None);
                    // What is read from it ends with the response.
                    let key = (u64::from(header.user_id), u64::from(header.multiplex_id));
                    self.reads.insert(key, Read { file, offset: 0 });
                }
                Taken::Tx(Kind::Generic)
            }
            command1::TRANS => self.trans_request1(header, command),
            command1::TRANS2 => match self.trans2_kind(command) {
                Some(kind) => Taken::Tx(kind),
                None => Taken::Nothing,
            },
            command1::RENAME => or_malformed(rename_paths(command).map(|(from, to)| {
                Kind::Rename(Box::new(Rename { from, to, file: None, has_info: false }))
            })),
            _ => Taken::Tx(Kind::Generic),
        }
    }

    /// Takes the data of a message that is whole. Whether they went somewhere.
    fn take_data1(
        &mut self,
        cx: &ParseContext<'_>,
        header: &Header1,
        data: Data1,
        command: &Command<'_>,
    ) -> bool {
        let message = command.message;
        let part =
            |at: usize, len| message.get(at..).and_then(|b| b.get(..len)).unwrap_or_default();
        match self.place_data1(cx, header, data, (message, message.len())) {
            Data::Ignored => return false,
            Data::Pipe { at, len } => {
                let written = (!header.is_response).then_some(FileId::Short(data.file));
                self.take_pipe_data1(header, part(at, len), written);
            }
            Data::File { at, len, tx } => {
                self.add_bytes(tx, part(at, len));
                self.end_chunk(tx);
            }
        }
        true
    }

    fn take_pipe_data1(&mut self, header: &Header1, bytes: &[u8], written: Option<FileId>) {
        let status = status_of(header);
        let mut message = PipeMessage {
            version: 1,
            command: header.command.into(),
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
        let asked = self.reads.remove((message.ids.session, message.ids.message));
        let Some(asked) = asked else { return };
        message.pipe = Some(asked.file);
        let key = (message.ids.session, asked.file);
        let mut whole = self.parts.remove(key).unwrap_or_default();
        let is_part = status == Status::Nt(nt::BUFFER_OVERFLOW);
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
        message.status = Some(status);
        self.add_answer(&message);
    }

    fn trans_request1(&mut self, header: &Header1, command: &Command<'_>) -> Taken {
        let Some(transaction) = Transaction1::from_command(command) else {
            return Taken::Malformed;
        };
        let [function, file] = transaction.setup;
        let tree = u32::from(header.tree_id);
        if function == TRANSACT_PIPE
            && self.pipe_kind(tree, FileId::Short(file), transaction.data) == Some(true)
        {
            self.add_call(&PipeMessage {
                version: 1,
                command: command1::TRANS.into(),
                ids: ids_of(header),
                pipe: None,
                status: None,
                bytes: transaction.data,
            });
        }
        Taken::Nothing
    }

    fn trans2_kind(&mut self, command: &Command<'_>) -> Option<Kind> {
        let Transaction1 { setup: [sub_command, _], parameters, data } =
            Transaction1::from_command(command)?;
        let (name, file, level, text) = match sub_command {
            SET_FILE_INFO => {
                let file = FileId::Short(u16_at(parameters, 0)?);
                let name = self.names.find(&file).map(|name| name.to_vec());
                let name = name.unwrap_or_else(|| b"<unknown>".to_vec());
                (name, Some(file), u16_at(parameters, 2)?, "SET_FILE_INFO")
            }
            SET_PATH_INFO => {
                let name = bounded_text(parameters.get(6..)?);
                (name, None, u16_at(parameters, 0)?, "SET_PATH_INFO")
            }
            _ => return None,
        };
        match level {
            LEVEL_RENAME => {
                let len = usize::try_from(u32_at(data, 8)?).ok()?;
                let to = bounded_text(super::wire::part_at(data, 12, len)?);
                Some(Kind::Rename(Box::new(Rename { from: name, to, file, has_info: false })))
            }
            LEVEL_DISPOSITION => Some(Kind::SetDisposition(Box::new(SetDisposition {
                name,
                is_deleted: data.first()? & 1 != 0,
                file,
                sub_command: Some(text),
            }))),
            _ => None,
        }
    }

    fn take_response1(
        &mut self,
        cx: &ParseContext<'_>,
        header: &Header1,
        code: u8,
        command: &Command<'_>,
        is_last: bool,
    ) {
        let (ids, status) = (ids_of(header), status_of(header));
        match code {
            command1::NEGOTIATE => self.negotiate_response1(header, status, command),
            command1::READ_ANDX if is_readable(status) => match read_response(command) {
                Some(data) => {
                    self.take_data1(cx, header, data, command);
                }
                None => {
                    let id = self.open_tx(Opening {
                        version: 1,
                        command: code.into(),
                        ids,
                        kind: Kind::Generic,
                    });
                    self.raise_in(id, event::MALFORMED_DATA);
                    if let Some(tx) = self.txs.get_mut(id) {
                        tx.status = Some(status);
                        tx.complete();
                    }
                }
            },
            command1::READ_ANDX => {
                self.reads.remove((ids.session, ids.message));
            }
            command1::WRITE_ANDX => {}
            command1::CLOSE if header.command == code => {
                if let Some(closed) = self.reads.remove((ids.session, ids.message)) {
                    self.close_file(closed.file, None);
                }
                if let Some(id) = self.find_request(1, code.into(), ids, false) {
                    self.close_request(id, status);
                }
            }
            command1::TRANS => self.trans_response1(header, command),
            command1::SESSION_SETUP_ANDX
            | command1::TREE_CONNECT_ANDX
            | command1::NT_CREATE_ANDX => {
                let is_setup = code == command1::SESSION_SETUP_ANDX;
                if let Some(id) = self.find_request(1, code.into(), ids, is_setup) {
                    self.complete_kind1(id, header, command);
                    self.close_request(id, status);
                }
            }
            _ if is_last => {
                if let Some(id) = self.find_request(1, code.into(), ids, false) {
                    self.close_request(id, status);
                }
            }
            _ => {}
        }
    }

    /// Notes what the response to a request says.
    fn complete_kind1(&mut self, id: u64, header: &Header1, command: &Command<'_>) {
        let is_success = status_of(header).is_success();
        let Some(tx) = self.txs.get_mut(id) else { return };
        match &mut tx.kind {
            Kind::SessionSetup(setup) => {
                tx.ids.session = u64::from(header.user_id);
                tx.ids.tree = u32::from(header.tree_id);
                setup.response_systems = Some(session_setup_systems(command));
            }
            Kind::TreeConnect(tree) => {
                if !is_success {
                    return;
                }
                tx.ids.tree = u32::from(header.tree_id);
                let Some(found) = tree_connect_service(command) else {
                    tx.events.add(event::MALFORMED_DATA);
                    return;
                };
                tree.is_pipe = found == b"IPC";
                let opened = Tree { name: tree.name.as_slice().into(), is_pipe: tree.is_pipe };
                if let Some((_, slot)) = &mut tree.service {
                    *slot = Some(found);
                }
                self.trees.insert(u32::from(header.tree_id), opened);
            }
            Kind::Create(create) if is_success => {
                let Some(response) = CreateResponse1::from_command(command) else {
                    tx.events.add(event::MALFORMED_DATA);
                    return;
                };
                let file = FileId::Short(response.file);
                create.times = response.times.map(unix_seconds);
                create.size = response.allocated;
                create.file = Some(file);
                let name: Arc<[u8]> = create.name.as_slice().into();
                self.names.insert(file, name);
            }
            Kind::Generic if is_success => {
                let is_read = match header.command {
                    command1::TREE_CONNECT_ANDX => tree_connect_service(command).is_some(),
                    command1::NT_CREATE_ANDX => CreateResponse1::from_command(command).is_some(),
                    _ => true,
                };
                if !is_read {
                    tx.events.add(event::MALFORMED_DATA);
                }
            }
            Kind::Create(_)
            | Kind::Generic
            | Kind::Negotiate(_)
            | Kind::File(_)
            | Kind::Rename(_)
            | Kind::SetDisposition(_)
            | Kind::Ioctl { .. }
            | Kind::Rpc(_) => {}
        }
    }

    fn negotiate_response1(&mut self, header: &Header1, status: Status, command: &Command<'_>) {
        let Some((index, guid)) = negotiate_response(command) else {
            let code = command1::NEGOTIATE.into();
            let found = self.find_request(1, code, ids_of(header), false);
            let is_generic =
                |id: &u64| self.txs.get(*id).is_some_and(|tx| matches!(tx.kind, Kind::Generic));
            if let Some(id) = found.filter(is_generic) {
                self.close_request(id, status);
            }
            return;
        };
        let open = |tx: &&mut SmbTx| {
            tx.version == 1 && matches!(tx.kind, Kind::Negotiate(_)) && tx.is_done != [true; 2]
        };
        let Some(tx) = self.txs.iter_mut().find(open) else { return };
        let Kind::Negotiate(negotiate) = &mut tx.kind else { return };
        negotiate.server_guid = guid;
        let chosen = negotiate.dialect_names.get(usize::from(index));
        let chosen = chosen.map(|name| Dialect::One(name.as_slice().into()));
        if chosen.is_none() {
            tx.events.add(event::NEGOTIATE_MALFORMED_DIALECTS);
        }
        let id = tx.id;
        if let Some(dialect) = chosen {
            self.set_dialect(dialect);
        }
        self.close_request(id, status);
    }

    fn trans_response1(&mut self, header: &Header1, command: &Command<'_>) {
        let (ids, status) = (ids_of(header), status_of(header));
        let Some(id) = self.find_request(1, command1::TRANS.into(), ids, false) else { return };
        let data = transaction_data(command).filter(|_| is_readable(status));
        let is_call = self.txs.get(id).is_some_and(|tx| matches!(tx.kind, Kind::Rpc(_)));
        match data.filter(|data| is_call && !data.is_empty()) {
            Some(bytes) => self.add_answer(&PipeMessage {
                version: 1,
                command: command1::TRANS.into(),
                ids,
                pipe: None,
                status: Some(status),
                bytes,
            }),
            None => self.close_request(id, status),
        }
    }
}

/// Whether further commands may follow in the message (MS-CIFS 2.2.3.4).
fn is_chained(command: u8) -> bool {
    matches!(
        command,
        command1::LOCKING_ANDX
            | command1::OPEN_ANDX
            | command1::READ_ANDX
            | command1::WRITE_ANDX
            | command1::SESSION_SETUP_ANDX
            | command1::LOGOFF_ANDX
            | command1::TREE_CONNECT_ANDX
            | command1::NT_CREATE_ANDX
    )
}
