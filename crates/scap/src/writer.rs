//! The writer: scap files as today's programs write them, that is blocks of version 2 and lists of the newest versions.
//!
//! What is written depends on the items alone, so that a file that was read and written again is the same file. Lists
//! are written in blocks of bounded size: a reader takes any number of them.

use std::io::{self, Write};

use crate::block;
use crate::decoder::Item;
use crate::event::{Event, Values};
use crate::host::{
    FdEntry, FdTarget, InterfaceAddress, InterfaceEntry, Machine, ProcessEntry, UserEntry,
};
use crate::limits;
use crate::live;
use crate::table::{EventType, TypeFlags, event_type, types};

/// The minor version that is written.
const MINOR: u16 = 2;
/// Numbers of the blocks that are written.
const PROCESSES: u32 = 0x215;
const FDS: u32 = 0x218;
const INTERFACES: u32 = 0x219;
const USERS: u32 = 0x220;
const EVENT: u32 = 0x216;
const EVENT_FLAGS: u32 = 0x217;
const LARGE_EVENT: u32 = 0x221;
const LARGE_EVENT_FLAGS: u32 = 0x222;

/// Writes items to a file or pipe. Call [`finish`](Writer::finish) at the end.
#[derive(Debug)]
pub struct Writer<W> {
    to: W,
    /// The list that is not written yet: its number, for descriptors its thread, and its body.
    list: Option<(u32, i64)>,
    body: Vec<u8>,
    block: Vec<u8>,
    /// The parameters of a note.
    note: Vec<u8>,
    blocks: u64,
}

impl<W: Write> Writer<W> {
    /// Writes to `to`, which should have a buffer.
    pub const fn new(to: W) -> Writer<W> {
        Writer { to, list: None, body: Vec::new(), block: Vec::new(), note: Vec::new(), blocks: 0 }
    }

    /// Blocks written so far.
    pub const fn blocks(&self) -> u64 {
        self.blocks
    }

    /// The destination. It has whole blocks only, and not yet the list at hand.
    pub const fn get_mut(&mut self) -> &mut W {
        &mut self.to
    }

    /// Writes an item. The first one is a section.
    ///
    /// # Errors
    /// The destination refuses; what was written before is whole.
    pub fn write(&mut self, item: &Item<'_>) -> io::Result<()> {
        match item {
            Item::Section { .. } => self.section(),
            Item::Machine(machine) => self.machine(machine),
            Item::Process(entry) => self.process(entry),
            Item::Fd(entry) => self.fd(entry),
            Item::Interface(entry) => self.interface(entry),
            Item::User(entry) => self.user(entry),
            Item::Event(event) => self.event(event),
        }
    }

    /// Writes what is held, and returns the destination.
    ///
    /// # Errors
    /// The destination refuses.
    pub fn finish(mut self) -> io::Result<W> {
        self.end_list()?;
        self.to.flush()?;
        Ok(self.to)
    }

    /// Begins a section.
    ///
    /// # Errors
    /// The destination refuses.
    pub fn section(&mut self) -> io::Result<()> {
        self.end_list()?;
        let mut body = Vec::with_capacity(block::SECTION_BODY_LEN);
        put(&mut body, &block::MAGIC.to_le_bytes());
        put(&mut body, &block::MAJOR.to_le_bytes());
        put(&mut body, &MINOR.to_le_bytes());
        put(&mut body, &(-1i64).to_le_bytes());
        self.block(block::SECTION, &[&body])
    }

    fn machine(&mut self, machine: &Machine) -> io::Result<()> {
        self.end_list()?;
        let mut body = Vec::with_capacity(crate::lists::MACHINE_LEN);
        put(&mut body, &machine.cpus.to_le_bytes());
        put(&mut body, &machine.memory_bytes.to_le_bytes());
        put(&mut body, &machine.pid_max.to_le_bytes());
        let mut hostname = [0; 128];
        // The last byte stays NUL.
        for (to, from) in hostname.iter_mut().take(127).zip(&machine.hostname) {
            *to = *from;
        }
        put(&mut body, &hostname);
        put(&mut body, &machine.boot_ts_ns.to_le_bytes());
        put(&mut body, &machine.flags.to_le_bytes());
        put(&mut body, &[0; 16]);
        self.block(block::MACHINE, &[&body])
    }

    fn process(&mut self, p: &ProcessEntry) -> io::Result<()> {
        let body = self.list(PROCESSES, 0)?;
        let start = begin_entry(body);
        for id in [p.tid, p.pid, p.ptid, p.sid, p.vpgid] {
            put(body, &id.to_le_bytes());
        }
        put_path(body, &p.comm);
        put_path(body, &p.exe);
        put_path(body, &p.exepath);
        put_text(body, &p.args, limits::ARGS_MAX);
        put_path(body, &p.cwd);
        put(body, &p.fd_limit.to_le_bytes());
        for number in [p.flags, p.uid, p.gid, p.vm_size_kb, p.vm_rss_kb, p.vm_swap_kb] {
            put(body, &number.to_le_bytes());
        }
        put(body, &p.faults_major.to_le_bytes());
        put(body, &p.faults_minor.to_le_bytes());
        put_text(body, &p.env, limits::ARGS_MAX);
        put(body, &p.vtid.to_le_bytes());
        put(body, &p.vpid.to_le_bytes());
        put_text(body, &p.cgroups, limits::ARGS_MAX);
        put_path(body, &p.root);
        put(body, &p.pidns_start_ts_ns.to_le_bytes());
        put(body, &p.tty.to_le_bytes());
        put(body, &p.loginuid.to_le_bytes());
        put(body, &[u8::from(p.is_exe_writable)]);
        for capabilities in [p.cap_inheritable, p.cap_permitted, p.cap_effective] {
            put(body, &capabilities.to_le_bytes());
        }
        put(body, &[u8::from(p.is_exe_upper_layer)]);
        for number in [p.exe_ino, p.exe_ino_ctime_ns, p.exe_ino_mtime_ns] {
            put(body, &number.to_le_bytes());
        }
        put(body, &[u8::from(p.is_exe_from_memfd), u8::from(p.is_exe_lower_layer)]);
        put(body, &p.pgid.to_le_bytes());
        end_entry(body, start, 0);
        Ok(())
    }

    fn fd(&mut self, e: &FdEntry) -> io::Result<()> {
        let body = self.list(FDS, e.tid)?;
        let start = begin_entry(body);
        put(body, &e.fd.to_le_bytes());
        put(body, &e.ino.to_le_bytes());
        put(body, &[e.kind]);
        match &e.target {
            FdTarget::V4(source, destination, l4) => {
                put(body, &source.0);
                put(body, &destination.0);
                put(body, &source.1.to_le_bytes());
                put(body, &destination.1.to_le_bytes());
                put(body, &[l4.0]);
            }
            FdTarget::V6(source, destination, l4) => {
                put(body, &source.0);
                put(body, &destination.0);
                put(body, &source.1.to_le_bytes());
                put(body, &destination.1.to_le_bytes());
                put(body, &[l4.0]);
            }
            FdTarget::V4Server((ip, port), l4) => {
                put(body, ip);
                put(body, &port.to_le_bytes());
                put(body, &[l4.0]);
            }
            FdTarget::V6Server((ip, port), l4) => {
                put(body, ip);
                put(body, &port.to_le_bytes());
                put(body, &[l4.0]);
            }
            FdTarget::Unix(source, destination, path) => {
                put(body, &source.to_le_bytes());
                put(body, &destination.to_le_bytes());
                put_path(body, path);
            }
            FdTarget::File { open_flags, name, dev } => {
                put(body, &open_flags.to_le_bytes());
                put_path(body, name);
                put(body, &dev.to_le_bytes());
            }
            FdTarget::Named(name) => put_path(body, name),
        }
        end_entry(body, start, 0);
        Ok(())
    }

    fn interface(&mut self, e: &InterfaceEntry) -> io::Result<()> {
        let body = self.list(INTERFACES, 0)?;
        let start = begin_entry(body);
        let name = e.name.get(..limits::PATH_MAX).unwrap_or(&e.name);
        let kind: u16 = match e.address {
            InterfaceAddress::V4 { .. } => 1,
            InterfaceAddress::V6 { .. } => 2,
        };
        put(body, &kind.to_le_bytes());
        put(body, &(name.len() as u16).to_le_bytes());
        match &e.address {
            InterfaceAddress::V4 { address, netmask, broadcast } => {
                for part in [address, netmask, broadcast] {
                    put(body, part);
                }
            }
            InterfaceAddress::V6 { address, netmask, broadcast } => {
                for part in [address, netmask, broadcast] {
                    put(body, part);
                }
            }
        }
        put(body, &e.link_speed.to_le_bytes());
        put(body, name);
        // The length of an interface's entry does not count its own bytes.
        end_entry(body, start, 4);
        Ok(())
    }

    fn user(&mut self, e: &UserEntry) -> io::Result<()> {
        let body = self.list(USERS, 0)?;
        let start = begin_entry(body);
        match e {
            UserEntry::User { uid, gid, name, home, shell } => {
                put(body, &[0]);
                put(body, &uid.to_le_bytes());
                put(body, &gid.to_le_bytes());
                for text in [name, home, shell] {
                    put_text(body, text, limits::USER_TEXT_MAX);
                }
            }
            UserEntry::Group { gid, name } => {
                put(body, &[1]);
                put(body, &gid.to_le_bytes());
                put_text(body, name, limits::USER_TEXT_MAX);
            }
        }
        end_entry(body, start, 0);
        Ok(())
    }

    /// Writes an event: before it the path of the kernel's file and the enter event of the call, where the event has
    /// them; a [`Merger`](crate::Merger) puts them back.
    ///
    /// # Errors
    /// The destination refuses.
    pub fn event(&mut self, event: &Event<'_>) -> io::Result<()> {
        self.end_list()?;
        if let Some(path) = live::path_to_write(event)
            && let Some(kind) = event_type(types::NOTIFICATION_E)
        {
            let is_whole = limits::reached::OPENED_PATH_MAX.holds(path.len());
            let end = if is_whole { path.len() } else { limits::OPENED_PATH_MAX };
            let path = path.get(..end).unwrap_or(path);
            let mut lengths = [0; 4];
            let (id_length, path_length) = lengths.split_at_mut(2);
            id_length.copy_from_slice(&(live::NOTE_ID.len() as u16).to_le_bytes());
            path_length.copy_from_slice(&(path.len() as u16 + 1).to_le_bytes());
            let mut bytes = std::mem::take(&mut self.note);
            bytes.clear();
            put(&mut bytes, live::NOTE_ID);
            put(&mut bytes, path);
            put(&mut bytes, &[0]);
            let values = Values::new(kind, &lengths, &bytes);
            let written = self.event_block(event, values, 0);
            self.note = bytes;
            written?;
        }
        if let Some(enter) = event.enter {
            self.event_block(event, enter, 0)?;
        }
        self.event_block(event, event.values, live::join_flags(event))
    }

    /// Writes the block of one event with these values and the head of `event`.
    fn event_block(&mut self, event: &Event<'_>, values: Values<'_>, flags: u32) -> io::Result<()> {
        let kind: &EventType = values.kind();
        let (lengths, bytes) = (values.lengths(), values.bytes());
        let params: usize = values.iter().map(<[u8]>::len).sum();
        let bytes = bytes.get(..params).unwrap_or(bytes);
        let is_large = kind.flags.has(TypeFlags::LARGE_PAYLOAD);
        let number = match (is_large, flags != 0) {
            (false, false) => EVENT,
            (false, true) => EVENT_FLAGS,
            (true, false) => LARGE_EVENT,
            (true, true) => LARGE_EVENT_FLAGS,
        };
        let mut head = [0; 32];
        let mut at = 0;
        let mut add = |part: &[u8]| {
            if let Some(to) = head.get_mut(at..at + part.len()) {
                to.copy_from_slice(part);
            }
            at += part.len();
        };
        add(&event.cpu.to_le_bytes());
        if flags != 0 {
            add(&flags.to_le_bytes());
        }
        add(&event.ts_ns.to_le_bytes());
        add(&event.tid.to_le_bytes());
        add(&((HEAD_LEN + lengths.len() + bytes.len()) as u32).to_le_bytes());
        add(&kind.number.to_le_bytes());
        add(&(values.len() as u32).to_le_bytes());
        let head = head.get(..at).unwrap_or_default();
        self.block(number, &[head, lengths, bytes])
    }

    /// The body of the list with this number; a list before it, or one that is long enough, is written first.
    fn list(&mut self, number: u32, tid: i64) -> io::Result<&mut Vec<u8>> {
        if self.list != Some((number, tid)) || self.body.len() >= limits::LIST_BLOCK_LEN {
            self.end_list()?;
            self.list = Some((number, tid));
            if number == FDS {
                put(&mut self.body, &tid.to_le_bytes());
            }
        }
        Ok(&mut self.body)
    }

    fn end_list(&mut self) -> io::Result<()> {
        let Some((number, _)) = self.list.take() else { return Ok(()) };
        let body = std::mem::take(&mut self.body);
        let written = self.block(number, &[&body]);
        self.body = body;
        self.body.clear();
        written
    }

    fn block(&mut self, number: u32, parts: &[&[u8]]) -> io::Result<()> {
        let body: usize = parts.iter().map(|part| part.len()).sum();
        let padding = body.next_multiple_of(4) - body;
        let len = (block::FRAME_LEN + body + padding) as u32;
        self.block.clear();
        put(&mut self.block, &number.to_le_bytes());
        put(&mut self.block, &len.to_le_bytes());
        for part in parts {
            put(&mut self.block, part);
        }
        put(&mut self.block, [0; 3].get(..padding).unwrap_or_default());
        put(&mut self.block, &len.to_le_bytes());
        self.to.write_all(&self.block)?;
        self.blocks += 1;
        Ok(())
    }
}

/// Bytes of an event's head.
const HEAD_LEN: usize = 26;

fn put(body: &mut Vec<u8>, bytes: &[u8]) {
    body.extend_from_slice(bytes);
}

/// A text after its length; what a reader would not accept is cut.
fn put_text(body: &mut Vec<u8>, text: &[u8], len_max: usize) {
    let text = text.get(..len_max).unwrap_or(text);
    put(body, &(text.len() as u16).to_le_bytes());
    put(body, text);
}

fn put_path(body: &mut Vec<u8>, path: &[u8]) {
    put_text(body, path, limits::PATH_MAX);
}

/// Leaves space for the length of an entry and returns where the entry begins.
fn begin_entry(body: &mut Vec<u8>) -> usize {
    let start = body.len();
    put(body, &[0; 4]);
    start
}

/// Writes the length of the entry without `less` of its bytes.
fn end_entry(body: &mut [u8], start: usize, less: usize) {
    let len = (body.len() - start - less) as u32;
    if let Some(to) = body.get_mut(start..start + 4) {
        to.copy_from_slice(&len.to_le_bytes());
    }
}
