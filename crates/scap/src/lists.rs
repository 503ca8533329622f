//! The lists before the first event: one entry of each kind and version, from bytes to values.
//!
//! An entry that ends too early is a fault only when its block has no more bytes: the caller decides that.

use crate::fields::{Fault, Fields};
use crate::host::{
    FdEntry, FdTarget, InterfaceAddress, InterfaceEntry, L4, Machine, ProcessEntry, UserEntry,
};
use crate::limits;

/// The bytes of a machine's description.
pub(crate) const MACHINE_LEN: usize = 180;

/// The kind and version of a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ListKind {
    /// Processes, versions 1 to 9.
    Processes(u8),
    /// Descriptors of one thread, versions 1 and 2.
    Fds(u8),
    /// Interfaces, versions 1 and 2.
    Interfaces(u8),
    /// Users and groups, versions 1 and 2.
    Users(u8),
}

pub(crate) fn machine(bytes: &[u8]) -> Result<Machine, Fault> {
    let mut f = Fields::new(bytes);
    let (cpus, memory_bytes, pid_max) = (f.u32()?, f.u64()?, f.u64()?);
    let hostname = until_nul(f.bytes(128)?).to_vec();
    Ok(Machine { cpus, memory_bytes, pid_max, hostname, boot_ts_ns: f.u64()?, flags: f.u64()? })
}

fn until_nul(bytes: &[u8]) -> &[u8] {
    bytes.split(|byte| *byte == 0).next().unwrap_or_default()
}

/// Reads one process; returns it with the bytes that its entry takes.
pub(crate) fn process(bytes: &[u8], version: u8) -> Result<(Box<ProcessEntry>, usize), Fault> {
    let mut f = Fields::new(bytes);
    let end = if version >= 9 { Some(end_of_entry(&mut f)?) } else { None };
    let mut p = Box::<ProcessEntry>::default();
    (p.tid, p.pid, p.ptid) = (f.i64()?, f.i64()?, f.i64()?);
    if version >= 6 {
        p.sid = f.i64()?;
    }
    if version >= 8 {
        p.vpgid = f.i64()?;
    }
    p.comm = f.path("comm")?;
    p.exe = f.path("exe")?;
    if version >= 7 {
        p.exepath = f.path("exepath")?;
    }
    p.args = f.text("args", limits::ARGS_MAX)?.to_vec();
    if p.args.last().is_some_and(|byte| *byte != 0) {
        p.args.push(0);
    }
    p.cwd = f.path("cwd")?;
    (p.fd_limit, p.flags, p.uid, p.gid) = (f.i64()?, f.u32()?, f.u32()?, f.u32()?);
    if version >= 2 {
        (p.vm_size_kb, p.vm_rss_kb, p.vm_swap_kb) = (f.u32()?, f.u32()?, f.u32()?);
        (p.faults_major, p.faults_minor) = (f.u64()?, f.u64()?);
    }
    if version >= 3 {
        p.env = f.text("env", limits::ARGS_MAX)?.to_vec();
        (p.vtid, p.vpid) = (f.i64()?, f.i64()?);
    }
    if version >= 4 {
        p.cgroups = f.text("cgroups", limits::ARGS_MAX)?.to_vec();
    }
    if version >= 5 {
        p.root = f.path("root")?;
    }
    let Some(end) = end else { return Ok((p, f.at())) };
    process_tail(&mut f, end, &mut p)?;
    finish_entry(&f, end)?;
    Ok((p, end))
}

/// Bytes of the tail of files that older versions wrote: these lack the two values with which it begins today.
const OLD_TAIL_LEN: usize = 29;

/// Reads the values that newer versions appended, as far as the entry has them.
fn process_tail(f: &mut Fields<'_>, end: usize, p: &mut ProcessEntry) -> Result<(), Fault> {
    let has = |f: &Fields<'_>, size: usize| f.at().saturating_add(size) <= end;
    let is_old = end.saturating_sub(f.at()) <= OLD_TAIL_LEN;
    if !is_old {
        (p.pidns_start_ts_ns, p.tty) = (f.u64()?, f.u32()?);
    }
    macro_rules! next {
        ($($field:ident: $size:literal, $value:expr;)+) => {
            $(
                if !has(f, $size) {
                    return Ok(());
                }
                p.$field = $value;
            )+
        };
    }
    next! {
        loginuid: 4, f.u32()?;
        is_exe_writable: 1, f.u8()? != 0;
        cap_inheritable: 8, f.u64()?;
        cap_permitted: 8, f.u64()?;
        cap_effective: 8, f.u64()?;
        is_exe_upper_layer: 1, f.u8()? != 0;
        exe_ino: 8, f.u64()?;
        exe_ino_ctime_ns: 8, f.u64()?;
        exe_ino_mtime_ns: 8, f.u64()?;
        is_exe_from_memfd: 1, f.u8()? != 0;
        is_exe_lower_layer: 1, f.u8()? != 0;
        pgid: 8, f.i64()?;
    }
    Ok(())
}

/// Reads the length of an entry and returns where the entry ends.
fn end_of_entry(f: &mut Fields<'_>) -> Result<usize, Fault> {
    let len = f.u32()? as usize;
    end_at(f, len)
}

/// Reads the length of the rest of an entry and returns where the entry ends.
fn end_of_rest(f: &mut Fields<'_>) -> Result<usize, Fault> {
    let len = f.u32()? as usize;
    end_at(f, len.saturating_add(f.at()))
}

fn end_at(f: &Fields<'_>, len: usize) -> Result<usize, Fault> {
    if len > limits::ENTRY_MAX {
        return Err(Fault::TooLong { what: "entry ", len });
    }
    // The rest must be there, or a field that is absent could be taken from the next entry.
    let mut rest = *f;
    rest.bytes(len.saturating_sub(f.at()))?;
    Ok(len)
}

/// Checks that the fields end inside of the entry; newer versions may have more of them.
fn finish_entry(f: &Fields<'_>, end: usize) -> Result<(), Fault> {
    if f.at() > end { Err(Fault::WrongLength { read: f.at(), len: end }) } else { Ok(()) }
}

/// Reads one descriptor of a thread.
pub(crate) fn fd(bytes: &[u8], version: u8, tid: i64) -> Result<(FdEntry, usize), Fault> {
    let mut f = Fields::new(bytes);
    let end = if version >= 2 { Some(end_of_entry(&mut f)?) } else { None };
    let (fd, ino, kind) = (f.i64()?, f.u64()?, f.u8()?);
    let target = match kind {
        3 => {
            let (source, destination) = (f.array()?, f.array()?);
            let (from, to, l4) = (f.u16()?, f.u16()?, L4(f.u8()?));
            FdTarget::V4((source, from), (destination, to), l4)
        }
        4 => {
            let (source, destination) = (f.array()?, f.array()?);
            let (from, to, l4) = (f.u16()?, f.u16()?, L4(f.u8()?));
            FdTarget::V6((source, from), (destination, to), l4)
        }
        5 => FdTarget::V4Server((f.array()?, f.u16()?), L4(f.u8()?)),
        6 => FdTarget::V6Server((f.array()?, f.u16()?), L4(f.u8()?)),
        8 => FdTarget::Unix(f.u64()?, f.u64()?, f.path("unix path ")?),
        16 => {
            let (open_flags, name) = (f.u32()?, f.path("file name ")?);
            let has_dev = end.is_some_and(|end| f.at().saturating_add(4) <= end);
            FdTarget::File { open_flags, name, dev: if has_dev { f.u32()? } else { 0 } }
        }
        1 | 2 | 7 | 9..=15 | 17..=21 => FdTarget::Named(f.path("file name ")?),
        other => return Err(Fault::Unknown { what: "fd type", number: other.into() }),
    };
    let entry = FdEntry { tid, fd, ino, kind, target };
    let Some(end) = end else { return Ok((entry, f.at())) };
    finish_entry(&f, end)?;
    Ok((entry, end))
}

/// Reads one interface.
pub(crate) fn interface(bytes: &[u8], version: u8) -> Result<(InterfaceEntry, usize), Fault> {
    let mut f = Fields::new(bytes);
    // The length of an interface's entry does not count its own four bytes, unlike those of other lists.
    let end = if version >= 2 { Some(end_of_rest(&mut f)?) } else { None };
    let (kind, name_len) = (f.u16()?, usize::from(f.u16()?));
    if name_len > limits::PATH_MAX {
        return Err(Fault::TooLong { what: "interface name ", len: name_len });
    }
    let address = match kind {
        1 | 3 => {
            InterfaceAddress::V4 { address: f.array()?, netmask: f.array()?, broadcast: f.array()? }
        }
        2 | 4 => {
            InterfaceAddress::V6 { address: f.array()?, netmask: f.array()?, broadcast: f.array()? }
        }
        other => return Err(Fault::Unknown { what: "interface type", number: other.into() }),
    };
    let link_speed = if kind <= 2 { f.u64()? } else { 0 };
    let name = until_nul(f.bytes(name_len)?).to_vec();
    let entry = InterfaceEntry { name, address, link_speed };
    let Some(end) = end else { return Ok((entry, f.at())) };
    finish_entry(&f, end)?;
    Ok((entry, end))
}

/// Reads one user or group.
pub(crate) fn user(bytes: &[u8], version: u8) -> Result<(UserEntry, usize), Fault> {
    let mut f = Fields::new(bytes);
    let end = if version >= 2 { Some(end_of_entry(&mut f)?) } else { None };
    let entry = match f.u8()? {
        0 => {
            let (uid, gid) = (f.u32()?, f.u32()?);
            let name = f.text("user name ", limits::USER_TEXT_MAX)?.to_vec();
            let home = f.text("home ", limits::USER_TEXT_MAX)?.to_vec();
            let shell = f.text("shell ", limits::USER_TEXT_MAX)?.to_vec();
            UserEntry::User { uid, gid, name, home, shell }
        }
        1 => {
            let gid = f.u32()?;
            UserEntry::Group { gid, name: f.text("group name ", limits::USER_TEXT_MAX)?.to_vec() }
        }
        other => return Err(Fault::Unknown { what: "user type", number: other.into() }),
    };
    let Some(end) = end else { return Ok((entry, f.at())) };
    finish_entry(&f, end)?;
    Ok((entry, end))
}
