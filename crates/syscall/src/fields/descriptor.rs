//! Fields of the descriptor that an event is about: `fd.*` and `fdlist.*`.

use gabion_record::Ip;
use gabion_record::fields::{Argument, FieldId, Missing, Scratch, Value, ids};
use gabion_scap::{Param, types};

use super::{Field, View, put_number, text};
use crate::fd::{Connection, End, Ends, Fd, FdKind, L4Proto, Role};
use crate::path;

/// The bits of a device's number that are its minor one.
const MINOR_BITS: u32 = 20;

/// One of the four ways to name an end of a connection.
#[derive(Clone, Copy)]
enum Which {
    Client,
    Server,
    Local,
    Remote,
}

impl View<'_> {
    fn fd(&self) -> Result<&Fd, Missing> {
        match self.state.event_fd() {
            Some(_) if self.is_loss_open() => Err(Missing::Shed),
            Some(fd) => Ok(fd),
            None => Err(self.no_fd()),
        }
    }

    /// Refuses what depends on whether a descriptor is known, where events that concern it may be lost.
    pub(super) fn check_fd_loss(&self) -> Result<(), Missing> {
        let is_shed = self.is_any_lost()
            && self.state.current.fd_number.is_some()
            && (self.is_loss_open() || self.state.event_fd().is_none());
        if is_shed { Err(Missing::Shed) } else { Ok(()) }
    }

    /// Why the event has no known descriptor.
    fn no_fd(&self) -> Missing {
        if self.state.current.fd_number.is_none() {
            return Missing::NotApplicable;
        }
        match self.state.main_thread() {
            _ if self.is_any_lost() => Missing::Shed,
            Some(main) if main.is_doubtful => Missing::Shed,
            _ => Missing::NeverSeen,
        }
    }

    /// The character of a descriptor that the state does not know, by the event that failed to create it.
    fn typechar_of_event(&self) -> char {
        match self.event.kind().number {
            types::OPENAT_2_X | types::OPENAT2_X | types::CREAT_X => 'f',
            types::ACCEPT_5_X | types::ACCEPT4_6_X => '4',
            _ => 'o',
        }
    }

    fn end(&self, fd: &Fd, which: Which) -> Option<End> {
        match fd.ends {
            Ends::Both { source, dest } if fd.role != Role::None => {
                let is_source = match which {
                    Which::Client => true,
                    Which::Server => false,
                    Which::Local => self.state.interfaces.is_local(source.ip),
                    Which::Remote => !self.state.interfaces.is_local(source.ip),
                };
                Some(if is_source { source } else { dest })
            }
            Ends::Server(end) => matches!(which, Which::Server).then_some(end),
            Ends::Both { .. } | Ends::Unix { .. } | Ends::None => None,
        }
    }

    fn end_of(&self, which: Which) -> Result<End, Missing> {
        self.end(self.fd()?, which).ok_or(Missing::NotApplicable)
    }

    /// Both ends of a connection, the only one of a server twice.
    fn both_ends(&self) -> Result<(End, End), Missing> {
        match self.fd()?.ends {
            Ends::Both { source, dest } => Ok((source, dest)),
            Ends::Server(end) => Ok((end, end)),
            Ends::None if self.state.options.as_falco && self.fd()?.kind.is_ip() => {
                let nothing = End { ip: Ip::v4(0), port: 0 };
                Ok((nothing, nothing))
            }
            Ends::Unix { .. } | Ends::None => Err(Missing::NotApplicable),
        }
    }

    /// Whether the process is the server of the connection.
    fn is_server(&self, fd: &Fd) -> bool {
        match (fd.kind, fd.ends) {
            (FdKind::Ipv4Server | FdKind::Ipv6Server, _) => true,
            (FdKind::Ipv4 | FdKind::Ipv6, Ends::Both { dest, .. }) => {
                self.state.interfaces.is_local(dest.ip)
            }
            // Falco takes the address of nothing for one of the host.
            (FdKind::Ipv6, Ends::None) => self.state.options.as_falco,
            _ => fd.role == Role::Server,
        }
    }

    /// The name of a descriptor as fields show it.
    fn fd_name(&self) -> Result<&[u8], Missing> {
        if let Some(opened) = self.opened_name() {
            return Ok(opened);
        }
        match self.state.event_fd() {
            Some(fd) => Ok(fd.name.bytes()),
            None if self.state.current.fd_number.is_some() => Ok(b""),
            None => Err(Missing::NotApplicable),
        }
    }

    /// The name of the opened file, if no event is missing that it depends on.
    pub(super) fn fd_field_name(&self) -> Field<'_> {
        self.check_fd_loss()?;
        self.fd_name().map(Value::Text)
    }

    fn named(&self, at: usize, field: FieldId) -> Field<'_> {
        let fd = self.state.main_thread().and_then(|main| main.fds.get(at as i64));
        let no_fd = if self.is_any_lost() { Missing::Shed } else { Missing::NeverSeen };
        let fd = fd.filter(|_| !self.is_loss_open()).ok_or(no_fd)?;
        let is_type =
            matches!(field, ids::PROC_STDIN_TYPE | ids::PROC_STDOUT_TYPE | ids::PROC_STDERR_TYPE);
        if is_type {
            fd.kind.name().map(|name| Value::Text(name.as_bytes())).ok_or(Missing::NotApplicable)
        } else {
            Ok(Value::Text(fd.name.bytes()))
        }
    }

    /// The fields of standard input, output and error.
    pub(super) fn standard_field(&self, field: FieldId) -> Field<'_> {
        self.named(
            match field {
                ids::PROC_STDIN_TYPE | ids::PROC_STDIN_NAME => 0,
                ids::PROC_STDOUT_TYPE | ids::PROC_STDOUT_NAME => 1,
                _ => 2,
            },
            field,
        )
    }

    /// Fields of descriptors.
    pub(super) fn fd_field<'a>(
        &'a self,
        field: FieldId,
        argument: Argument<'_>,
        scratch: &'a mut Scratch,
    ) -> Field<'a> {
        if field != ids::FD_NUM {
            self.check_fd_loss()?;
        }
        let ip = |end: End| Value::Ip(end.ip);
        let port = |end: End| Value::Port(end.port);
        let known = |name: &'static str| Ok(Value::Text(name.as_bytes()));
        match field {
            ids::FD_NUM => {
                let number = self.state.current.fd_number.ok_or(Missing::NotApplicable)?;
                Ok(Value::Signed(number))
            }
            ids::FD_TYPE => match self.fd()?.kind.name() {
                Some(name) => known(name),
                None => Err(Missing::NotApplicable),
            },
            ids::FD_TYPECHAR => {
                self.state.current.fd_number.ok_or(Missing::NotApplicable)?;
                let char = match self.state.event_fd() {
                    Some(fd) if self.state.is_fd_in_table() => fd.kind.char(),
                    _ => self.typechar_of_event(),
                };
                text(scratch, |to| to.push(char as u8))
            }
            ids::FD_NAME => Ok(Value::Text(self.fd_name()?)),
            ids::FD_NAMERAW => match self.state.event_fd() {
                Some(fd) if !self.is_by_opened() => Ok(Value::Text(fd.raw_name.bytes())),
                _ => Ok(Value::Text(self.fd_name()?)),
            },
            ids::FD_DIRECTORY | ids::FD_CONTAINERDIRECTORY => {
                let is_file = self.state.event_fd().is_none_or(|fd| {
                    matches!(fd.kind, FdKind::File | FdKind::Directory | FdKind::Unknown)
                });
                if !is_file {
                    return Err(Missing::NotApplicable);
                }
                let is_directory =
                    self.state.event_fd().is_some_and(|fd| fd.kind == FdKind::Directory);
                let name = self.fd_name()?;
                let directory =
                    if is_directory { name } else { path::directory(name).unwrap_or(b"/") };
                if field == ids::FD_DIRECTORY {
                    return Ok(Value::Text(directory));
                }
                let mut id = Vec::new();
                self.container_id(&mut id)?;
                text(scratch, |to| {
                    to.extend_from_slice(&id);
                    to.push(b':');
                    to.extend_from_slice(directory);
                })
            }
            ids::FD_FILENAME => {
                let fd = self.fd()?;
                if !self.state.is_fd_in_table() || fd.kind != FdKind::File {
                    return Err(Missing::NotApplicable);
                }
                Ok(Value::Text(path::filename(self.fd_name()?).unwrap_or(b"/")))
            }
            ids::FD_CONTAINERNAME => {
                let name = self.fd_name()?;
                let mut id = Vec::new();
                self.container_id(&mut id)?;
                text(scratch, |to| {
                    to.extend_from_slice(&id);
                    to.push(b':');
                    to.extend_from_slice(name);
                })
            }
            ids::FD_UID => {
                let number = self.state.current.fd_number.ok_or(Missing::NotApplicable)?;
                text(scratch, |to| {
                    put_number(to, self.event.tid);
                    put_number(to, number);
                })
            }
            ids::FD_IP | ids::FD_NET => {
                let (source, dest) = self.both_ends()?;
                Ok(Value::EitherIp(source.ip, dest.ip))
            }
            ids::FD_PORT | ids::FD_PROTO => {
                let (source, dest) = self.both_ends()?;
                Ok(Value::EitherPort(source.port, dest.port))
            }
            ids::FD_CIP | ids::FD_CNET => self.end_of(Which::Client).map(ip),
            ids::FD_SIP | ids::FD_SNET => self.end_of(Which::Server).map(ip),
            ids::FD_LIP | ids::FD_LNET => self.end_of(Which::Local).map(ip),
            ids::FD_RIP | ids::FD_RNET => self.end_of(Which::Remote).map(ip),
            ids::FD_CPORT => self.end_of(Which::Client).map(port),
            ids::FD_SPORT => self.end_of(Which::Server).map(port),
            ids::FD_LPORT => self.end_of(Which::Local).map(port),
            ids::FD_RPORT => self.end_of(Which::Remote).map(port),
            ids::FD_CPROTO => self.end_of(Which::Client).map(|end| service(end.port, scratch)),
            ids::FD_SPROTO => self.end_of(Which::Server).map(|end| service(end.port, scratch)),
            ids::FD_LPROTO => self.end_of(Which::Local).map(|end| service(end.port, scratch)),
            ids::FD_RPROTO => self.end_of(Which::Remote).map(|end| service(end.port, scratch)),
            // A look-up would wait for the network: names of addresses are never known.
            ids::FD_CIP_NAME => self.end_of(Which::Client).and(Err(Missing::LookupFailed)),
            ids::FD_SIP_NAME => self.end_of(Which::Server).and(Err(Missing::LookupFailed)),
            ids::FD_LIP_NAME => self.end_of(Which::Local).and(Err(Missing::LookupFailed)),
            ids::FD_RIP_NAME => self.end_of(Which::Remote).and(Err(Missing::LookupFailed)),
            ids::FD_L4PROTO => {
                let fd = self.fd()?;
                if !fd.kind.is_ip() || (fd.role == Role::None && !fd.kind.is_ip_server()) {
                    return Err(Missing::NotApplicable);
                }
                match fd.l4proto {
                    L4Proto::Unknown | L4Proto::NotApplicable => Err(Missing::NeverSeen),
                    proto => known(proto.name()),
                }
            }
            ids::FD_SOCKFAMILY => match self.fd()?.kind {
                FdKind::Unix => known("unix"),
                kind if kind.is_ip() => known("ip"),
                _ => Err(Missing::NotApplicable),
            },
            ids::FD_TYPES => self.types_of_fds(argument, scratch),
            _ => self.fd_detail(field, scratch),
        }
    }

    fn fd_detail<'a>(&'a self, field: FieldId, scratch: &'a mut Scratch) -> Field<'a> {
        if field.index() >= ids::FDLIST_NUMS.index() {
            return self.list_field(field, scratch);
        }
        let fd = self.fd()?;
        if !self.state.is_fd_in_table() {
            return Err(Missing::NotApplicable);
        }
        match field {
            ids::FD_IS_SERVER => Ok(Value::Bool(self.is_server(fd))),
            ids::FD_CONNECTED => Ok(Value::Bool(fd.connection == Connection::Connected)),
            ids::FD_NAME_CHANGED => Ok(Value::Bool(self.state.current.is_name_changed)),
            ids::FD_DEV => Ok(Value::Signed(i64::from(fd.dev))),
            ids::FD_DEV_MAJOR => Ok(Value::Signed(i64::from(fd.dev >> MINOR_BITS))),
            ids::FD_DEV_MINOR => Ok(Value::Signed(i64::from(fd.dev & ((1 << MINOR_BITS) - 1)))),
            ids::FD_INO => Ok(Value::Signed(fd.ino as i64)),
            ids::FD_IS_UPPER_LAYER => Ok(Value::Bool(fd.is_upper_layer)),
            ids::FD_IS_LOWER_LAYER => Ok(Value::Bool(fd.is_lower_layer)),
            _ => Err(Missing::NotApplicable),
        }
    }

    /// The kinds of all descriptors of the process, or of one.
    fn types_of_fds<'a>(&'a self, argument: Argument<'_>, scratch: &'a mut Scratch) -> Field<'a> {
        self.state.current.fd_number.ok_or(Missing::NotApplicable)?;
        if self.is_rest_doubtful() {
            return Err(Missing::Shed);
        }
        let main = self.main_or_self()?;
        scratch.text();
        let number = match argument {
            Argument::Index(number) => Some(number),
            Argument::None | Argument::Key(_) => None,
        };
        if let Some(number) = number {
            let fd = main.fds.get(i64::from(number)).ok_or(Missing::NeverSeen)?;
            scratch.push(fd.kind.name().unwrap_or_default().as_bytes());
            return Ok(scratch.as_list());
        }
        let mut seen = 0u32;
        for (_, fd) in main.fds.iter() {
            let bit = 1u32.checked_shl(fd.kind as u32).unwrap_or(0);
            if seen & bit == 0
                && let Some(name) = fd.kind.name()
            {
                seen |= bit;
                scratch.push(name.as_bytes());
            }
        }
        Ok(scratch.as_list())
    }

    /// The descriptors that poll and its relatives wait for.
    fn list_field<'a>(&'a self, field: FieldId, scratch: &'a mut Scratch) -> Field<'a> {
        let Some(Param::Fds(fds)) = self.event.param(1) else {
            return Err(Missing::NotApplicable);
        };
        if self.is_rest_doubtful() && field != ids::FDLIST_NUMS {
            return Err(Missing::Shed);
        }
        let to = scratch.text();
        for (number, _) in fds.iter() {
            let fd = self.state.main_thread().and_then(|main| main.fds.get(number));
            let end = |which: Which| fd.and_then(|fd| self.end(fd, which));
            let start = to.len();
            match field {
                ids::FDLIST_NUMS => put_number(to, number),
                ids::FDLIST_NAMES => {
                    to.extend_from_slice(fd.map_or(&b"<NA>"[..], |fd| match fd.name.bytes() {
                        b"" => b"<NA>",
                        name => name,
                    }));
                }
                ids::FDLIST_CIPS | ids::FDLIST_SIPS => {
                    let is_client = field == ids::FDLIST_CIPS;
                    let end = end(if is_client { Which::Client } else { Which::Server });
                    match end {
                        Some(end) => Ip::put_text(end.ip, to),
                        None => to.extend_from_slice(b"<NA>"),
                    }
                }
                _ => {
                    let is_client = field == ids::FDLIST_CPORTS;
                    let end = end(if is_client { Which::Client } else { Which::Server });
                    match end {
                        Some(end) => put_number(to, i64::from(end.port)),
                        None => to.extend_from_slice(b"<NA>"),
                    }
                }
            }
            if to.len() > start {
                to.push(b',');
            }
        }
        if to.is_empty() {
            return Err(Missing::NotApplicable);
        }
        to.pop();
        Ok(scratch.as_text())
    }
}

/// The service of a port: its number, since names come from a file that the engine does not read.
fn service(port: u16, scratch: &mut Scratch) -> Value<'_> {
    put_number(scratch.text(), i64::from(port));
    scratch.as_text()
}
