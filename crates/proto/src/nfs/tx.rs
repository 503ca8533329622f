//! A transaction: a call with its reply, or a file that calls read or write.

use super::log;
use super::procedure::{common_number, v3};
use super::rpc::Credentials;
use super::tables::buffer;
use crate::chunks::Chunks;
use crate::files::{File, FileList, FileState, Windows};
use crate::transaction::EventList;
use crate::{Buffer, Inspect, LogOptions, Transaction};
use gabion_record::Direction::{self, ToClient, ToServer};
use gabion_record::json::Json;
use std::any::Any;

/// When file data is due: Suricata has no settings for NFS.
const WINDOWS: Windows = Windows { content_limit: 100_000, min_size: 32_768, window: 4_096 };

/// A file that calls read or write.
#[derive(Debug)]
pub struct Transfer {
    /// Direction of its bytes.
    pub direction: Direction,
    /// The last part came.
    pub is_last: bool,
    /// Call of the last part.
    pub last_xid: u32,
    /// Parts after the first one, or replies that brought one.
    pub chunks: u64,
    /// The last part did not end at a multiple of four bytes: Suricata 8.0.7 can't follow it by another.
    pub(super) is_uneven: bool,
    /// A part came.
    pub(super) has_parts: bool,
    pub(super) parts: Chunks,
    pub(super) files: FileList,
}

/// A call with its reply, or a file.
#[derive(Debug)]
pub struct NfsTx {
    /// Number in its flow.
    pub id: u64,
    /// Number of the (first) call.
    pub xid: u32,
    /// Version of NFS.
    pub version: u32,
    /// Procedure, as version 3 numbers it where it has the same.
    pub procedure: u32,
    /// Who calls.
    pub credentials: Credentials,
    /// Name of the file, as far as it is known.
    pub name: Vec<u8>,
    /// Its handle, or that of its directory.
    pub handle: Vec<u8>,
    /// The new name of a file.
    pub new_name: Option<Vec<u8>>,
    /// State that the reply says.
    pub state: u32,
    /// A file is read or written.
    pub transfer: Option<Box<Transfer>>,
    pub(super) is_done: [bool; 2],
    pub(super) events: EventList,
}

impl NfsTx {
    pub(super) fn new(id: u64, xid: u32, version: u32, procedure: u32) -> NfsTx {
        NfsTx {
            id,
            xid,
            version,
            procedure: common_number(version, procedure),
            credentials: Credentials::default(),
            name: Vec::new(),
            handle: Vec::new(),
            new_name: None,
            state: 0,
            transfer: None,
            is_done: [true, false],
            events: EventList::default(),
        }
    }

    /// Changes the file, while it is open.
    pub(super) fn with_file(&mut self, change: impl FnOnce(&mut Chunks, &mut File)) {
        if let Some(transfer) = self.transfer.as_mut()
            && let Some(file) = transfer.files.current()
        {
            change(&mut transfer.parts, file);
        }
    }

    /// Ends the file, if it is open.
    pub(super) fn close_file(&mut self, state: FileState) {
        self.with_file(|parts, file| parts.close(state, file));
    }

    /// Bytes held.
    pub fn bytes_held(&self) -> usize {
        let transfer = self.transfer.as_ref();
        size_of::<NfsTx>()
            + self.name.capacity()
            + self.handle.capacity()
            + transfer
                .map_or(0, |t| size_of::<Transfer>() + t.files.bytes_held() + t.parts.bytes_held())
    }
}

impl Transaction for NfsTx {
    fn id(&self) -> u64 {
        self.id
    }

    fn progress(&self, direction: Direction) -> u8 {
        self.is_done[direction.index()].into()
    }

    fn buffer(
        &self,
        local: u16,
        direction: Direction,
        index: usize,
        how: Inspect,
    ) -> Option<Buffer<'_>> {
        let file = self.files(direction)?.files.get(index)?;
        match local {
            buffer::FILE_NAME => Some(Buffer::whole(&file.name)),
            buffer::FILE_MAGIC => file.magic_window(how),
            buffer::FILE_DATA => {
                let at_end = how.at_end || how.inline;
                let (data, start) = file.window(how.inspected, at_end, WINDOWS)?;
                let is_complete = file.state != FileState::Open || how.at_end;
                Some(Buffer { data, start, is_complete })
            }
            _ => None,
        }
    }

    fn events(&self) -> &[u16] {
        self.events.codes()
    }

    fn files(&self, direction: Direction) -> Option<&FileList> {
        self.transfer.as_ref().filter(|t| t.direction == direction).map(|t| &t.files)
    }

    fn files_mut(&mut self, direction: Direction) -> Option<&mut FileList> {
        self.transfer.as_mut().filter(|t| t.direction == direction).map(|t| &mut t.files)
    }

    fn log(&self, json: &mut Json, how: LogOptions<'_>) -> bool {
        // Suricata 8.0.7 has no records of these, but shows them in alerts.
        let is_silent = self.procedure == v3::GETATTR && !how.in_alert;
        if !is_silent {
            log::write_nfs(self, json);
        }
        !is_silent
    }

    fn companion(&self) -> Option<&'static str> {
        Some("rpc")
    }

    fn log_companion(&self, json: &mut Json, _: LogOptions<'_>) -> bool {
        log::write_rpc(self, json);
        true
    }

    fn is_logged_as_packet(&self) -> bool {
        true
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

/// The direction in which a procedure moves the bytes of a file.
pub(super) const fn transfer_direction(procedure: u32) -> Direction {
    match procedure {
        v3::READ => ToClient,
        _ => ToServer,
    }
}
