//! Fields of the event itself: `evt.*` and `syscall.type`.

use gabion_record::fields::{Argument, FieldId, Missing, Scratch, Value, ids};
use gabion_scap::table::{Category, ParameterKind as K, Sources, TypeFlags, calls};
use gabion_scap::{Param, types};

use super::{Field, View, text};
use crate::fd::FdKind;
use crate::names;
use crate::state::open_flag;

/// Permission bits to execute a file.
const EXECUTE_BITS: u32 = 0o111;

impl View<'_> {
    /// The result of a call: the first parameter of an exit event. `None` if the event has none or it is unknown.
    pub(super) fn result(&self) -> Option<i64> {
        let kind = self.event.kind();
        if !kind.is_exit() || kind.number == types::GENERIC_X {
            return None;
        }
        self.event.param(0)?.as_i64()
    }

    /// The name of the call: generic events carry its code.
    pub(super) fn type_name(&self) -> &'static str {
        let kind = self.event.kind();
        if matches!(kind.number, types::GENERIC_X | types::GENERIC_E) {
            let code = self.event.param(0).and_then(|code| code.as_i64());
            let call = code.and_then(|code| calls().get(usize::try_from(code).ok()?));
            // Code 0 is a call that the table did not know when the file was written; its number says which.
            let native = || {
                let number = self.event.param(1)?.as_i64()?;
                calls().iter().find(|call| call.x86_64.map(i64::from) == Some(number))
            };
            let call = call.filter(|call| call.code != 0).or_else(native).or(call);
            return call.map_or(kind.name, |call| call.name);
        }
        kind.name
    }

    fn is_generic(&self) -> bool {
        matches!(self.event.kind().number, types::GENERIC_X | types::GENERIC_E)
    }

    fn category(&self) -> Result<&'static str, Missing> {
        let kind = self.event.kind();
        match kind.sources {
            s if s.has(Sources::SCHEDULER) => return Ok("scheduler"),
            s if s.has(Sources::INTERNAL) => return Ok("internal"),
            s if s.has(Sources::WAIT) => return Ok("wait"),
            _ => {}
        }
        if self.is_io() {
            self.check_fd_loss()?;
        }
        Ok(match kind.category {
            Category::Unknown => "unknown",
            Category::Other => "other",
            Category::File => "file",
            Category::Net => "net",
            Category::Ipc => "IPC",
            Category::Memory => "memory",
            Category::Process => "process",
            Category::Sleep => "sleep",
            Category::System => "system",
            Category::Signal => "signal",
            Category::User => "user",
            Category::Time => "time",
            Category::IoRead | Category::IoWrite | Category::IoOther => {
                match self.state.event_fd().map(|fd| fd.kind) {
                    Some(FdKind::File | FdKind::Directory) => "file",
                    Some(kind) if kind.is_ip() => "net",
                    Some(
                        FdKind::Pipe
                        | FdKind::Unix
                        | FdKind::Event
                        | FdKind::Signal
                        | FdKind::EventPoll
                        | FdKind::Inotify,
                    ) => "ipc",
                    _ => "unknown",
                }
            }
        })
    }

    fn is_io(&self) -> bool {
        matches!(
            self.event.kind().category,
            Category::IoRead | Category::IoWrite | Category::IoOther
        )
    }

    fn has_flag(&self, flag: TypeFlags) -> bool {
        self.event.kind().flags.has(flag)
    }

    /// The bytes that a call read or wrote.
    fn buffer_len(&self) -> Result<u64, Missing> {
        self.check_fd_loss()?;
        if !self.is_io() || self.state.event_fd().is_none() {
            return Err(Missing::NotApplicable);
        }
        let result = self.result().ok_or(Missing::NeverSeen)?;
        u64::try_from(result).map_err(|_| Missing::NotApplicable)
    }

    fn is_open(&self) -> bool {
        matches!(
            self.event.kind().number,
            types::OPEN_X | types::OPENAT_2_X | types::OPENAT2_X | types::OPEN_BY_HANDLE_AT_X
        )
    }

    /// The flags of an open.
    fn open_flags(&self) -> u32 {
        let place = self.event.kind().parameter("flags");
        let flags = place.and_then(|place| self.event.param(place)?.as_i64());
        flags.and_then(|flags| u32::try_from(flags).ok()).unwrap_or(0)
    }

    fn is_file_created(&self) -> bool {
        match self.event.kind().number {
            types::CREAT_X => true,
            _ if self.is_open() => {
                self.open_flags() & (open_flag::F_CREATED | open_flag::TMPFILE) != 0
            }
            _ => false,
        }
    }

    fn is_open_exec(&self) -> bool {
        let mode = self.event.param_named("mode").and_then(|mode| mode.as_i64()).unwrap_or(0);
        const CREATING: u32 = open_flag::CREAT | open_flag::TMPFILE;
        let may_create =
            self.is_file_created() || (self.is_open() && self.open_flags() & CREATING != 0);
        may_create && mode & i64::from(EXECUTE_BITS) != 0
    }

    /// Fields of the event itself.
    pub(super) fn event_field<'a>(
        &'a self,
        field: FieldId,
        argument: Argument<'_>,
        scratch: &'a mut Scratch,
    ) -> Field<'a> {
        let kind = self.event.kind();
        match field {
            ids::EVT_TYPE => Ok(Value::Text(self.type_name().as_bytes())),
            ids::SYSCALL_TYPE if kind.sources.has(Sources::SYSCALL) => {
                Ok(Value::Text(self.type_name().as_bytes()))
            }
            ids::EVT_TYPE_IS => match argument {
                Argument::Key(name) => Ok(Value::Unsigned(u64::from(name == self.type_name()))),
                Argument::Index(number) => {
                    Ok(Value::Unsigned(u64::from(number == u32::from(kind.number))))
                }
                Argument::None => Err(Missing::NotApplicable),
            },
            ids::EVT_DIR => Ok(Value::Text(if kind.is_exit() { b"<" } else { b">" })),
            ids::EVT_CATEGORY => Ok(Value::Text(self.category()?.as_bytes())),
            ids::EVT_CPU => Ok(Value::Signed(i64::from(self.event.cpu))),
            ids::EVT_DELTATIME | ids::EVT_DELTATIME_S | ids::EVT_DELTATIME_NS => {
                let delta = self.event.ts_ns.saturating_sub(self.state.current.previous_ns);
                Ok(Value::Duration(match field {
                    ids::EVT_DELTATIME_S => delta / 1_000_000_000,
                    ids::EVT_DELTATIME_NS => delta % 1_000_000_000,
                    _ => delta,
                }))
            }
            ids::EVT_OUTPUTTIME => self.common_field(ids::EVT_TIME, scratch),
            ids::EVT_ARGS | ids::EVT_INFO => {
                if self.is_generic() {
                    return Ok(Value::Text(b""));
                }
                self.check_arguments_loss(None)?;
                text(scratch, |to| self.put_arguments(to))
            }
            ids::EVT_ARG => self.argument(argument, scratch),
            ids::EVT_RAWARG => self.raw_argument(argument),
            ids::EVT_ABSPATH => self.absolute_path(argument, scratch),
            ids::EVT_RES => match self.result() {
                Some(result) if result >= 0 => Ok(Value::Text(b"SUCCESS")),
                Some(result) => match names::error(result) {
                    Some(name) => Ok(Value::Text(name.as_bytes())),
                    None => text(scratch, |to| super::put_number(to, result)),
                },
                None => Err(self.no_result()),
            },
            ids::EVT_RAWRES => self.result().map(Value::Signed).ok_or_else(|| self.no_result()),
            ids::EVT_FAILED => {
                self.result().map(|r| Value::Bool(r < 0)).ok_or_else(|| self.no_result())
            }
            ids::EVT_COUNT => Ok(Value::Unsigned(1)),
            ids::EVT_COUNT_EXIT if kind.is_exit() => Ok(Value::Unsigned(1)),
            ids::EVT_COUNT_PROCINFO | ids::EVT_COUNT_THREADINFO
                if kind.number == types::PROCINFO_E =>
            {
                let is_main = self.state.thread().is_some_and(|thread| thread.is_main());
                if field == ids::EVT_COUNT_THREADINFO || is_main {
                    Ok(Value::Unsigned(1))
                } else {
                    Err(Missing::NotApplicable)
                }
            }
            ids::EVT_COUNT_ERROR
            | ids::EVT_COUNT_ERROR_FILE
            | ids::EVT_COUNT_ERROR_NET
            | ids::EVT_COUNT_ERROR_MEMORY
            | ids::EVT_COUNT_ERROR_OTHER => self.error_count(field),
            _ => self.io_field(field),
        }
    }

    fn no_result(&self) -> Missing {
        let has_result = self.event.kind().is_exit() && !self.is_generic();
        if has_result { Missing::NeverSeen } else { Missing::NotApplicable }
    }

    fn error_count(&self, field: FieldId) -> Field<'_> {
        if self.result().is_none_or(|result| result >= 0) {
            return Err(Missing::NotApplicable);
        }
        self.check_fd_loss()?;
        let fd_kind = self.state.event_fd().map(|fd| fd.kind);
        let category = self.event.kind().category;
        let is_file = category == Category::File
            || fd_kind.is_some_and(|kind| matches!(kind, FdKind::File | FdKind::Directory));
        let is_net = category == Category::Net || fd_kind.is_some_and(FdKind::is_ip);
        let is_memory = category == Category::Memory;
        let is_counted = match field {
            ids::EVT_COUNT_ERROR => true,
            ids::EVT_COUNT_ERROR_FILE => is_file,
            ids::EVT_COUNT_ERROR_NET => is_net,
            ids::EVT_COUNT_ERROR_MEMORY => is_memory,
            _ => !is_file && !is_net && !is_memory,
        };
        if is_counted { Ok(Value::Unsigned(1)) } else { Err(Missing::NotApplicable) }
    }

    /// Fields of calls that read and write, and of opens.
    fn io_field(&self, field: FieldId) -> Field<'_> {
        let is_read = self.has_flag(TypeFlags::READS_FROM_FD);
        let is_write = self.has_flag(TypeFlags::WRITES_TO_FD);
        match field {
            ids::EVT_BUFFER => {
                let place = self.event.kind().parameter("data").ok_or(Missing::NotApplicable)?;
                match self.event.param(place) {
                    Some(Param::Bytes(bytes)) => Ok(Value::Bytes(bytes)),
                    _ => Err(Missing::NeverSeen),
                }
            }
            ids::EVT_BUFLEN => self.buffer_len().map(Value::Unsigned),
            ids::EVT_BUFLEN_IN
            | ids::EVT_BUFLEN_OUT
            | ids::EVT_BUFLEN_FILE
            | ids::EVT_BUFLEN_FILE_IN
            | ids::EVT_BUFLEN_FILE_OUT
            | ids::EVT_BUFLEN_NET
            | ids::EVT_BUFLEN_NET_IN
            | ids::EVT_BUFLEN_NET_OUT => {
                let is_file = self.state.event_fd().is_some_and(|fd| fd.kind == FdKind::File);
                let is_net = self.state.event_fd().is_some_and(|fd| fd.kind.is_ip());
                let applies = match field {
                    ids::EVT_BUFLEN_IN => is_read,
                    ids::EVT_BUFLEN_OUT => is_write,
                    ids::EVT_BUFLEN_FILE => is_file,
                    ids::EVT_BUFLEN_FILE_IN => is_file && is_read,
                    ids::EVT_BUFLEN_FILE_OUT => is_file && is_write,
                    ids::EVT_BUFLEN_NET => is_net,
                    ids::EVT_BUFLEN_NET_IN => is_net && is_read,
                    _ => is_net && is_write,
                };
                if applies && (is_read || is_write) {
                    self.buffer_len().map(Value::Unsigned)
                } else {
                    Err(Missing::NotApplicable)
                }
            }
            ids::EVT_IS_IO => Ok(Value::Bool(is_read || is_write)),
            ids::EVT_IS_IO_READ => Ok(Value::Bool(is_read)),
            ids::EVT_IS_IO_WRITE => Ok(Value::Bool(is_write)),
            ids::EVT_IO_DIR if is_read => Ok(Value::Text(b"read")),
            ids::EVT_IO_DIR if is_write => Ok(Value::Text(b"write")),
            ids::EVT_IS_WAIT => Ok(Value::Bool(self.has_flag(TypeFlags::WAITS))),
            ids::EVT_IS_SYSLOG => {
                self.check_fd_loss()?;
                let is_log = self.state.event_fd().is_some_and(|fd| {
                    fd.kind == FdKind::Unix && fd.name.bytes().ends_with(b"/dev/log")
                });
                Ok(Value::Bool(is_write && is_log))
            }
            ids::EVT_IS_OPEN_READ => {
                let is_read = self.open_flags() & open_flag::RDONLY != 0;
                Ok(Value::Bool(self.is_open() && is_read))
            }
            ids::EVT_IS_OPEN_WRITE => {
                let is_write = self.open_flags() & open_flag::WRONLY != 0;
                Ok(Value::Bool(self.is_open() && is_write))
            }
            ids::EVT_IS_OPEN_EXEC => Ok(Value::Bool(self.is_open_exec())),
            ids::EVT_IS_OPEN_CREATE => Ok(Value::Bool(self.is_file_created())),
            _ => Err(Missing::NotApplicable),
        }
    }

    /// A parameter as it is in the event, with its own type.
    fn raw_argument(&self, argument: Argument<'_>) -> Field<'_> {
        let place = self.argument_place(argument).ok_or(Missing::NotApplicable)?;
        let kind = self.event.kind().parameters.get(place).map(|parameter| parameter.kind);
        match self.event.param(place) {
            None => Err(Missing::NotApplicable),
            Some(Param::Unknown) => Err(Missing::NeverSeen),
            Some(Param::Malformed(bytes)) => Ok(Value::Bytes(bytes)),
            Some(Param::Signed(n, _) | Param::Result(n) | Param::Fd(n) | Param::Pid(n)) => {
                Ok(Value::Signed(n))
            }
            Some(Param::Unsigned(n, _)) => Ok(Value::Unsigned(n)),
            Some(Param::Duration(n)) => Ok(Value::Duration(n)),
            Some(Param::Time(n)) => Ok(Value::Time(n)),
            Some(Param::Text(t) | Param::Path(t) | Param::RelativePath(t, _)) => Ok(Value::Text(t)),
            Some(Param::Bytes(bytes) | Param::Texts(bytes)) => Ok(Value::Bytes(bytes)),
            Some(other) => match other.as_i64() {
                Some(n) if matches!(kind, Some(K::Port)) => Ok(Value::Port(n as u16)),
                Some(n) => Ok(Value::Unsigned(n as u64)),
                None => Ok(Value::Bytes(self.event.raw(place).unwrap_or_default())),
            },
        }
    }
}
