//! A transaction: a request with its response, or a file that several of them carry.

use super::ids::{FileId, Ids};
use super::log;
use super::names::Dialect;
use super::ntlmssp::Ntlmssp;
use super::rpc::Call;
use super::security::Kerberos;
use super::status::Status;
use super::tables::Local;
use crate::files::{FileList, FileState, Windows};
use crate::transaction::EventList;
use crate::{Buffer, Inspect, LogOptions, Transaction};
use gabion_record::Direction::{self, ToServer};
use gabion_record::json::Json;
use std::any::Any;

/// When file data is due: Suricata has no settings for these files.
const WINDOWS: Windows = Windows { content_limit: 100_000, min_size: 32_768, window: 4_096 };

/// What a transaction is about.
#[derive(Clone, Debug, Default)]
pub enum Kind {
    /// Nothing that is read.
    #[default]
    Generic,
    /// The dialect is chosen.
    Negotiate(Box<Negotiate>),
    /// A user logs on.
    SessionSetup(Box<SessionSetup>),
    /// A share is opened.
    TreeConnect(Box<TreeConnect>),
    /// A file is opened.
    Create(Box<Create>),
    /// A file's content is read or written.
    File(Box<FileContent>),
    /// A file is renamed.
    Rename(Box<Rename>),
    /// A file is to be deleted when it is closed, or not.
    SetDisposition(Box<SetDisposition>),
    /// A device or the file system is controlled.
    Ioctl {
        /// The function's code.
        function: u32,
    },
    /// A call of DCE/RPC in a pipe.
    Rpc(Box<Call>),
}

/// A negotiation.
#[derive(Clone, Debug, Default)]
pub struct Negotiate {
    /// Dialects of an SMB 1 request: their names.
    pub dialect_names: Vec<Vec<u8>>,
    /// Dialects of an SMB 2 request: their numbers.
    pub dialect_numbers: Vec<u16>,
    /// The client's identifier.
    pub client_guid: Option<[u8; 16]>,
    /// The server's identifier.
    pub server_guid: Option<[u8; 16]>,
    /// Bytes that the server lets a client read and write at once.
    pub sizes_max: Option<(u32, u32)>,
}

/// A session setup.
#[derive(Clone, Debug, Default)]
pub struct SessionSetup {
    /// Kerberos's ticket.
    pub kerberos: Option<Kerberos>,
    /// NTLM's message.
    pub ntlmssp: Option<Ntlmssp>,
    /// The client's system and LAN manager.
    pub request_systems: Option<(Vec<u8>, Vec<u8>)>,
    /// The server's.
    pub response_systems: Option<(Vec<u8>, Vec<u8>)>,
}

/// A tree connect.
#[derive(Clone, Debug, Default)]
pub struct TreeConnect {
    /// The share's path.
    pub name: Vec<u8>,
    /// It is for pipes.
    pub is_pipe: bool,
    /// The share's type, of SMB 2.
    pub share_type: u8,
    /// The service asked for and the service found, of SMB 1.
    pub service: Option<(Vec<u8>, Option<Vec<u8>>)>,
}

/// A file is opened.
#[derive(Clone, Debug, Default)]
pub struct Create {
    /// Its path.
    pub name: Vec<u8>,
    /// What to do if there is such a file, or none.
    pub disposition: u32,
    /// It is deleted when it is closed.
    pub is_deleted_on_close: bool,
    /// It is a folder.
    pub is_directory: bool,
    /// Times of its creation, last access, last write and last change, in seconds since 1970.
    pub times: [u64; 4],
    /// Its size.
    pub size: u64,
    /// The identifier that the server gave it.
    pub file: Option<FileId>,
}

/// A file's content.
#[derive(Clone, Debug)]
pub struct FileContent {
    /// Direction in which it travels.
    pub direction: Direction,
    /// Its path.
    pub name: Vec<u8>,
    /// The share's path.
    pub share: Vec<u8>,
    /// Its identifier.
    pub file: FileId,
    /// The file.
    pub files: FileList,
}

/// A file is renamed.
#[derive(Clone, Debug)]
pub struct Rename {
    /// The path it has.
    pub from: Vec<u8>,
    /// The path it gets.
    pub to: Vec<u8>,
    /// Its identifier, if it was asked for by this.
    pub file: Option<FileId>,
    /// It was asked for by SET_INFO, of SMB 2.
    pub has_info: bool,
}

/// A file is to be deleted when it is closed, or not.
#[derive(Clone, Debug)]
pub struct SetDisposition {
    /// Its path.
    pub name: Vec<u8>,
    /// It is to be deleted.
    pub is_deleted: bool,
    /// Its identifier, if it was asked for by this.
    pub file: Option<FileId>,
    /// The sub-command that asked for it, of SMB 1.
    pub sub_command: Option<&'static str>,
}

/// A request with its response.
#[derive(Debug)]
pub struct SmbTx {
    /// Number in its flow.
    pub id: u64,
    /// 1, or 2 for SMB 2 and 3.
    pub version: u8,
    /// The command.
    pub command: u16,
    /// Session, tree and message, as the record has them.
    pub ids: Ids,
    /// The response's status.
    pub status: Option<Status>,
    /// The dialect that the session speaks.
    pub dialect: Dialect,
    /// What it is about.
    pub kind: Kind,
    /// The request, the response is over.
    pub(super) is_done: [bool; 2],
    pub(super) events: EventList,
}

impl SmbTx {
    /// Both sides are over.
    pub(super) fn complete(&mut self) {
        self.is_done = [true; 2];
    }

    /// The file it carries.
    pub(super) fn content(&self) -> Option<&FileContent> {
        let Kind::File(content) = &self.kind else { return None };
        Some(content)
    }

    /// The same, to be changed.
    pub(super) fn content_mut(&mut self) -> Option<&mut FileContent> {
        let Kind::File(content) = &mut self.kind else { return None };
        Some(content)
    }

    /// The call it is about.
    pub(super) fn call(&self) -> Option<&Call> {
        let Kind::Rpc(call) = &self.kind else { return None };
        Some(call)
    }

    fn tree_name(&self, is_pipe: bool) -> Option<&[u8]> {
        let Kind::TreeConnect(tree) = &self.kind else { return None };
        (tree.is_pipe == is_pipe).then_some(tree.name.as_slice())
    }

    fn ntlmssp(&self) -> Option<&Ntlmssp> {
        let Kind::SessionSetup(setup) = &self.kind else { return None };
        setup.ntlmssp.as_ref()
    }

    /// Bytes held.
    pub fn bytes_held(&self) -> usize {
        size_of::<SmbTx>()
            + match &self.kind {
                Kind::Generic | Kind::Ioctl { .. } => 0,
                Kind::Negotiate(n) => {
                    let names = n.dialect_names.iter().map(|d| d.capacity() + size_of::<Vec<u8>>());
                    size_of::<Negotiate>() + names.sum::<usize>() + 2 * n.dialect_numbers.len()
                }
                Kind::SessionSetup(s) => {
                    let names = s.kerberos.iter().flat_map(|k| &k.service_names);
                    let systems = s.request_systems.iter().chain(&s.response_systems);
                    size_of::<SessionSetup>()
                        + names.map(|n| n.capacity() + size_of::<Vec<u8>>()).sum::<usize>()
                        + systems.map(|(os, lm)| os.capacity() + lm.capacity()).sum::<usize>()
                        + s.ntlmssp.as_ref().map_or(0, |n| {
                            n.domain.capacity() + n.user.capacity() + n.host.capacity()
                        })
                }
                Kind::TreeConnect(t) => {
                    let service = t.service.as_ref();
                    size_of::<TreeConnect>()
                        + t.name.capacity()
                        + service.map_or(0, |(asked, found)| {
                            asked.capacity() + found.as_ref().map_or(0, Vec::capacity)
                        })
                }
                Kind::Create(c) => size_of::<Create>() + c.name.capacity(),
                Kind::File(f) => {
                    let names = f.name.capacity() + f.share.capacity();
                    size_of::<FileContent>() + names + f.files.bytes_held()
                }
                Kind::Rename(r) => size_of::<Rename>() + r.from.capacity() + r.to.capacity(),
                Kind::SetDisposition(s) => size_of::<SetDisposition>() + s.name.capacity(),
                Kind::Rpc(call) => size_of::<Call>() + call.bytes_held(),
            }
    }
}

/// The call of a transaction, for the keywords of DCE/RPC.
pub(crate) fn call_in(tx: &dyn Any) -> Option<crate::dcerpc::Call<'_>> {
    let call = tx.downcast_ref::<SmbTx>()?.call()?;
    let is_call = call.request.kind == Some(crate::dcerpc::pdu::kind::REQUEST);
    is_call.then(|| crate::dcerpc::Call { opnum: call.opnum, interface: call.interfaces.first() })
}

impl Transaction for SmbTx {
    fn id(&self) -> u64 {
        self.id
    }

    fn progress(&self, direction: Direction) -> u8 {
        u8::from(self.is_done[direction.index()])
    }

    fn buffer(
        &self,
        local: u16,
        direction: Direction,
        index: usize,
        how: Inspect,
    ) -> Option<Buffer<'_>> {
        let local = Local::from_number(local)?;
        let file = || {
            let content = self.content().filter(|c| c.direction == direction)?;
            content.files.files.get(index)
        };
        let data = match local {
            Local::FileName => &file()?.name,
            Local::FileMagic => return file()?.magic_window(how),
            Local::FileData => {
                let file = file()?;
                let (data, start) =
                    file.window(how.inspected, how.at_end || how.inline, WINDOWS)?;
                let is_complete = file.state != FileState::Open || how.at_end;
                return Some(Buffer { data, start, is_complete });
            }
            Local::StubData => {
                let side = self.call()?.side(direction);
                return (index == 0 && !side.stub.is_empty()).then(|| Buffer::whole(&side.stub));
            }
            _ if index > 0 || direction != ToServer => return None,
            Local::NamedPipe => self.tree_name(true)?,
            Local::Share => self.tree_name(false)?,
            Local::NtlmsspUser => &self.ntlmssp()?.user,
            Local::NtlmsspDomain => &self.ntlmssp()?.domain,
        };
        Some(Buffer::whole(data))
    }

    fn streams(&self, local: u16, direction: Direction) -> usize {
        let is_content =
            matches!(Local::from_number(local), Some(Local::FileMagic | Local::FileData));
        let Some(content) = self.content().filter(|_| is_content) else { return 1 };
        if content.direction == direction { content.files.files.len() } else { 0 }
    }

    fn events(&self) -> &[u16] {
        self.events.codes()
    }

    fn files(&self, direction: Direction) -> Option<&FileList> {
        self.content().filter(|c| c.direction == direction).map(|c| &c.files)
    }

    fn files_mut(&mut self, direction: Direction) -> Option<&mut FileList> {
        self.content_mut().filter(|c| c.direction == direction).map(|c| &mut c.files)
    }

    fn log(&self, json: &mut Json, how: LogOptions<'_>) -> bool {
        log::write(self, json, how)
    }

    fn is_little_endian(&self) -> bool {
        self.call().is_none_or(|call| call.request.is_little || call.response.is_little)
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}
