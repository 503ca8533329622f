//! Parameters of an event as text: `evt.args`, `evt.arg` and `evt.abspath`.
//!
//! A parameter has a plain text and sometimes a resolved one: `fd=3(<f>/etc/passwd)`. `evt.args` shows both, `evt.arg`
//! the resolved one where there is one. The forms are those of Falco's libs, schema 4.5.1.

use gabion_record::fields::{Argument, Missing, Scratch, Value};
use gabion_scap::table::{Format, ParameterKind};
use gabion_scap::{Address, Event, Param, Tuple, types};

use super::{Field, View, put_number, text};
use crate::fd::{self, End, Ends, L4Proto};
use crate::names;
use crate::path;
use crate::state::AT_FDCWD;

impl View<'_> {
    /// Refuses parameters whose text depends on what may have been lost: descriptors, threads, relative paths.
    pub(super) fn check_arguments_loss(&self, only: Option<usize>) -> Result<(), Missing> {
        if !self.is_any_lost() {
            return Ok(());
        }
        for place in 0..self.event.values.len() {
            if only.is_some_and(|only| only != place) {
                continue;
            }
            let main = self.state.main_thread();
            let is_fd_known = |fd: i64| {
                fd < 0
                    || (!self.is_loss_open() && main.is_some_and(|main| main.fds.get(fd).is_some()))
            };
            let is_sure = match self.event.param(place) {
                Some(Param::Fd(fd)) => is_fd_known(fd),
                Some(Param::Fds(fds)) => fds.iter().all(|(fd, _)| is_fd_known(fd)),
                Some(Param::Pid(tid)) => {
                    tid < 0 || self.other(tid).is_ok_and(|thread| thread.is_some())
                }
                Some(Param::Uid(_) | Param::Gid(_)) => !self.is_loss_open(),
                Some(Param::Path(path)) => self.is_path_sure(path, AT_FDCWD),
                Some(Param::RelativePath(path, directory)) => {
                    let fd = self.event.param(usize::from(directory)).and_then(|fd| fd.as_i64());
                    self.is_path_sure(path, fd.unwrap_or(-1))
                }
                _ => true,
            };
            if !is_sure {
                return Err(Missing::Shed);
            }
        }
        Ok(())
    }

    /// Whether the full path of a name does not depend on what may have been lost.
    pub(super) fn is_path_sure(&self, name: &[u8], dirfd: i64) -> bool {
        name.is_empty() || name.first() == Some(&b'/') || !self.state.is_directory_doubtful(dirfd)
    }

    /// Writes all parameters: `name=plain(resolved) …`.
    pub(super) fn put_arguments(&self, to: &mut Vec<u8>) {
        for (place, parameter) in self.event.kind().parameters.iter().enumerate() {
            if place >= self.event.values.len() {
                break;
            }
            if place > 0 {
                to.push(b' ');
            }
            to.extend_from_slice(parameter.name.as_bytes());
            to.push(b'=');
            let resolved = self.put_argument(place, to);
            if resolved < to.len() {
                to.insert(resolved, b'(');
                to.push(b')');
            }
        }
    }

    /// Writes the plain text of a parameter and then the resolved one; returns where that begins.
    fn put_argument(&self, place: usize, to: &mut Vec<u8>) -> usize {
        let Some(param) = self.event.param(place) else { return to.len() };
        match param {
            Param::Unknown => {
                to.extend_from_slice(self.unknown(place));
                to.len()
            }
            Param::Malformed(_) => {
                to.extend_from_slice(b"INVALID");
                to.len()
            }
            Param::Signed(n, Format::Hex) => put_hex(to, n as u64),
            Param::Signed(n, Format::Oct) => put_octal(to, n as u64),
            Param::Signed(n, _) => put_decimal(to, n),
            Param::Unsigned(n, Format::Hex) => put_hex(to, n),
            Param::Unsigned(n, Format::Oct) => put_octal(to, n),
            // Falco prints 64 bits as a signed number: offsets may be negative.
            Param::Unsigned(n, _) => put_decimal(to, n as i64),
            Param::Result(n) => {
                let at = put_decimal(to, n);
                to.extend_from_slice(names::error(n).unwrap_or_default().as_bytes());
                at
            }
            Param::Fd(n) => self.put_fd(n, to),
            Param::Pid(n) => {
                let at = put_decimal(to, n);
                if n >= 0
                    && let Some(thread) = self.state.threads.get(n)
                {
                    let is_na = thread.is_unseen() && self.state.options.as_falco;
                    to.extend_from_slice(if is_na { b"<NA>" } else { thread.comm.bytes() });
                }
                at
            }
            Param::Uid(None) | Param::Gid(None) => {
                let at = put_decimal(to, -1);
                to.extend_from_slice(b"<NONE>");
                at
            }
            Param::Uid(Some(id)) => {
                let at = put_decimal(to, i64::from(id));
                to.extend_from_slice(self.user_name(id).unwrap_or_default());
                at
            }
            Param::Gid(Some(id)) => {
                let at = put_decimal(to, i64::from(id));
                to.extend_from_slice(self.group_name(id).unwrap_or_default());
                at
            }
            Param::Mode(n, table) => {
                let at = put_octal_mode(to, n);
                put_flags(to, n, table.values);
                at
            }
            Param::Flags(n, table) => {
                let at = put_unsigned(to, u64::from(n));
                put_flags(to, n, table.map_or(&[], |table| table.values));
                at
            }
            Param::Name(n, table) => {
                let at = put_unsigned(to, u64::from(n));
                let all = table.into_iter().flat_map(|table| table.values.iter());
                put_names(to, all.filter(|(_, value)| *value == n).map(|(name, _)| *name));
                at
            }
            Param::Text(bytes) => {
                to.extend_from_slice(bytes);
                to.len()
            }
            Param::Path(bytes) => self.put_path(bytes, AT_FDCWD, to),
            Param::RelativePath(bytes, directory) => {
                let dirfd = self.event.param(usize::from(directory)).and_then(|fd| fd.as_i64());
                self.put_path(bytes, dirfd.unwrap_or(-1), to)
            }
            Param::Bytes(bytes) => {
                put_printable(to, bytes);
                to.len()
            }
            Param::Texts(bytes) => {
                put_joined(to, bytes);
                to.len()
            }
            Param::Address(address) => put_address(to, &address),
            Param::Tuple(tuple) => put_tuple(to, &tuple),
            Param::Fds(fds) => {
                use std::io::Write as _;
                for (at, (number, flags)) in fds.iter().enumerate() {
                    if at > 0 {
                        to.push(b' ');
                    }
                    put_number(to, number);
                    to.push(b':');
                    let fd = self.state.main_thread().and_then(|main| main.fds.get(number));
                    if let Some(fd) = fd {
                        to.push(fd.kind.char() as u8);
                    }
                    // Writing to a vector never fails.
                    let _ = write!(to, "{flags:x}");
                }
                to.len()
            }
            Param::Call(code) => {
                let at = put_unsigned(to, u64::from(code));
                let call = gabion_scap::table::calls().get(usize::from(code));
                to.extend_from_slice(call.map_or("<UNKNOWN>", |call| call.name).as_bytes());
                at
            }
            Param::Signal(n) => {
                let at = put_unsigned(to, u64::from(n));
                to.extend_from_slice(names::signal(n).unwrap_or_default().as_bytes());
                at
            }
            Param::Port(n) => put_unsigned(to, u64::from(n)),
            Param::Ipv4(ip) => {
                crate::state::v4(ip).put_text(to);
                to.len()
            }
            Param::Ipv6(ip) => {
                gabion_record::Ip::from_bytes(ip).put_text(to);
                to.len()
            }
            Param::Duration(ns) => {
                let at = put_unsigned(to, ns);
                put_duration(to, ns);
                at
            }
            Param::Time(ns) => put_unsigned(to, ns),
        }
    }

    /// The text of a parameter without bytes.
    fn unknown(&self, place: usize) -> &'static [u8] {
        use ParameterKind as K;
        match self.event.kind().parameters.get(place).map(|parameter| parameter.kind) {
            Some(K::Bytebuf | K::Socktuple) => b"NULL",
            Some(K::Fdlist | K::Charbufarray | K::CharbufPairArray) => b"",
            _ => b"<NA>",
        }
    }

    /// A descriptor: `3(<f>/etc/passwd)`.
    fn put_fd(&self, number: i64, to: &mut Vec<u8>) -> usize {
        let at = put_decimal(to, number);
        if number < 0 {
            let name =
                if number == AT_FDCWD { "AT_FDCWD" } else { names::error(number).unwrap_or("") };
            to.extend_from_slice(name.as_bytes());
            return at;
        }
        let Some(fd) = self.state.main_thread().and_then(|main| main.fds.get(number)) else {
            return at;
        };
        to.push(b'<');
        to.push(fd.kind.char() as u8);
        let is_known_role = fd.role != crate::fd::Role::None || fd.kind.is_ip_server();
        if fd.kind.is_ip() && is_known_role {
            match fd.l4proto {
                L4Proto::Tcp => to.push(b't'),
                L4Proto::Udp => to.push(b'u'),
                L4Proto::Icmp => to.push(b'i'),
                L4Proto::Raw => to.push(b'r'),
                L4Proto::Unknown | L4Proto::NotApplicable => {}
            }
        }
        to.push(b'>');
        to.extend(fd.name.bytes().iter().filter(|byte| **byte >= b' ' && **byte != 0x7f));
        at
    }

    /// A path, and the full one if it is relative.
    fn put_path(&self, name: &[u8], dirfd: i64, to: &mut Vec<u8>) -> usize {
        to.extend_from_slice(name);
        let at = to.len();
        if name.is_empty() || name == b"<NA>" || name.first() == Some(&b'/') {
            return at;
        }
        path::append_joined(self.state.directory_of(dirfd), name, to);
        at
    }

    /// The place of the parameter that an argument names. Generic events have no parameters to show.
    pub(super) fn argument_place(&self, argument: Argument<'_>) -> Option<usize> {
        let kind = self.event.kind();
        let place = match argument {
            Argument::Index(index) => usize::try_from(index).ok()?,
            Argument::Key(name) => kind.parameter(name)?,
            Argument::None => return None,
        };
        (place < self.event.values.len()).then_some(place)
    }

    /// One parameter as text.
    pub(super) fn argument<'a>(
        &'a self,
        argument: Argument<'_>,
        scratch: &'a mut Scratch,
    ) -> Field<'a> {
        let place = self.argument_place(argument).ok_or(Missing::NotApplicable)?;
        if is_empty(self.event, place) {
            return Err(Missing::NeverSeen);
        }
        if let (Some(opened), Some(Param::Path(_) | Param::RelativePath(..))) =
            (self.opened_name(), self.event.param(place))
        {
            return Ok(Value::Text(opened));
        }
        self.check_arguments_loss(Some(place))?;
        text(scratch, |to| {
            let resolved = self.put_argument(place, to);
            if resolved < to.len() {
                to.drain(..resolved);
            }
        })
    }

    /// The full path of a parameter: the only one, or with `src` or `dst` one of two.
    pub(super) fn absolute_path<'a>(
        &'a self,
        argument: Argument<'_>,
        scratch: &'a mut Scratch,
    ) -> Field<'a> {
        if let Some(opened) = self.opened_name() {
            return Ok(Value::Text(opened));
        }
        let which = match argument {
            Argument::Key(name) => Some(name),
            Argument::None | Argument::Index(_) => None,
        };
        let (dirfd, name) = match (self.event.kind().number, which) {
            (types::RENAMEAT_X | types::RENAMEAT2_X | types::LINKAT_2_X, None | Some("src")) => {
                (1, 2)
            }
            (types::RENAMEAT_X | types::RENAMEAT2_X | types::LINKAT_2_X, Some("dst")) => (3, 4),
            (types::SYMLINKAT_X, None | Some("dst")) => (2, 3),
            (
                types::OPENAT_2_X
                | types::OPENAT2_X
                | types::MKDIRAT_X
                | types::UNLINKAT_2_X
                | types::FCHMODAT_X
                | types::FCHOWNAT_X
                | types::MKNODAT_X,
                None,
            ) => (1, 2),
            _ => return Err(Missing::NotApplicable),
        };
        let name = self.event.param(name).and_then(|name| name.as_text());
        let name = name.ok_or(Missing::NeverSeen)?;
        let dirfd = self.event.param(dirfd).and_then(|fd| fd.as_i64()).unwrap_or(-1);
        if !self.is_path_sure(name, dirfd) {
            return Err(Missing::Shed);
        }
        text(scratch, |to| path::append_joined(self.state.directory_of(dirfd), name, to))
    }
}

fn is_empty(event: &Event<'_>, place: usize) -> bool {
    event.raw(place).is_none_or(<[u8]>::is_empty)
}

fn put_decimal(to: &mut Vec<u8>, number: i64) -> usize {
    put_number(to, number);
    to.len()
}

fn put_unsigned(to: &mut Vec<u8>, number: u64) -> usize {
    use std::io::Write as _;
    // Writing to a vector never fails.
    let _ = write!(to, "{number}");
    to.len()
}

fn put_hex(to: &mut Vec<u8>, number: u64) -> usize {
    use std::io::Write as _;
    // Writing to a vector never fails.
    let _ = write!(to, "{number:X}");
    to.len()
}

fn put_octal(to: &mut Vec<u8>, number: u64) -> usize {
    use std::io::Write as _;
    // Writing to a vector never fails.
    let _ = if number == 0 { write!(to, "0") } else { write!(to, "0{number:o}") };
    to.len()
}

fn put_octal_mode(to: &mut Vec<u8>, number: u32) -> usize {
    put_octal(to, u64::from(number))
}

fn put_names<'a>(to: &mut Vec<u8>, names: impl Iterator<Item = &'a str>) {
    for (at, name) in names.enumerate() {
        if at > 0 {
            to.push(b'|');
        }
        to.extend_from_slice(name.as_bytes());
    }
}

/// Names of bits in the order of the table; bits that a name covered do not name a further one.
fn put_flags(to: &mut Vec<u8>, value: u32, names: &[(&str, u32)]) {
    let mut left = value;
    let is_named = |flag: u32, left: u32| match value {
        0 => flag == 0,
        _ => flag != 0 && left & flag == flag,
    };
    let named = names.iter().filter_map(|(name, flag)| {
        let is = is_named(*flag, left);
        left &= if is { !flag } else { u32::MAX };
        is.then_some(*name)
    });
    put_names(to, named);
}

/// Bytes of data; those that no terminal shows are dots.
fn put_printable(to: &mut Vec<u8>, bytes: &[u8]) {
    to.extend(bytes.iter().map(|b| if (b' '..=b'~').contains(b) { *b } else { b'.' }));
}

/// Texts with a zero byte at the end of each, with blanks between them.
fn put_joined(to: &mut Vec<u8>, bytes: &[u8]) {
    let bytes = bytes.strip_suffix(b"\0").unwrap_or(bytes);
    to.extend(bytes.iter().map(|b| if *b == 0 { b' ' } else { *b }));
}

pub(super) fn put_address(to: &mut Vec<u8>, address: &Address<'_>) -> usize {
    match *address {
        Address::V4(ip, port) => {
            fd::write_ends(&Ends::Server(End { ip: crate::state::v4(ip), port }), to);
        }
        Address::V6(ip, port) => {
            let ip = gabion_record::Ip::from_bytes(ip);
            fd::write_ends(&Ends::Server(End { ip, port }), to);
        }
        Address::Unix(path) => to.extend_from_slice(path),
        Address::Other(family) => {
            to.extend_from_slice(b"family ");
            put_number(to, i64::from(family));
        }
    }
    to.len()
}

fn put_tuple(to: &mut Vec<u8>, tuple: &Tuple<'_>) -> usize {
    match *tuple {
        Tuple::V4(..) | Tuple::V6(..) => {
            if let Some((source, dest)) = crate::state::ends_of(tuple) {
                fd::write_ends(&Ends::Both { source, dest }, to);
            }
        }
        Tuple::Unix(source, dest, path) => {
            fd::write_ends(&Ends::Unix { source, dest }, to);
            if !path.is_empty() {
                to.push(b' ');
                to.extend_from_slice(path);
            }
        }
        Tuple::Other(family) => {
            to.extend_from_slice(b"family ");
            put_number(to, i64::from(family));
        }
    }
    to.len()
}

/// A span of time for people: `1s`, `2.5ms`.
fn put_duration(to: &mut Vec<u8>, ns: u64) {
    use std::io::Write as _;
    let (unit, name) = match ns {
        0 => (1_000_000_000, "s"),
        1_000_000_000.. => (1_000_000_000, "s"),
        1_000_000.. => (1_000_000, "ms"),
        1_000.. => (1_000, "us"),
        _ => (1, "ns"),
    };
    let rest = ns % unit;
    // Writing to a vector never fails.
    let _ = if rest == 0 {
        write!(to, "{}{name}", ns / unit)
    } else {
        let digits = unit.ilog10() as usize;
        let fraction = format!("{rest:0digits$}");
        write!(to, "{}.{}{name}", ns / unit, fraction.trim_end_matches('0'))
    };
}
