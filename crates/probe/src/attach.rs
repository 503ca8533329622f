//! Links of programs to tracepoints of system calls and to interfaces.
//!
//! Tracepoints below `syscalls` are found by a number in tracefs, which is not mounted on every machine; a private mount
//! that no path leads to is enough to read it.

use crate::bpf_call;
use crate::interface::Attached;
use crate::object::Link;
use crate::refusal::{self, Error, Kind};
use rustix::fs::{Mode, OFlags, open, openat};
use rustix::mount::{FsMountFlags, FsOpenFlags, MountAttrFlags, fsconfig_create, fsmount, fsopen};
use std::io;
use std::io::Read;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// The root of tracefs.
pub struct Tracefs {
    root: OwnedFd,
    is_private: bool,
}

impl Tracefs {
    /// Opens tracefs where it is mounted, else in a private mount.
    ///
    /// # Errors
    /// If the kernel has no tracefs or refuses a mount of it.
    pub fn open() -> Result<Self, Error> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        for path in ["/sys/kernel/tracing", "/sys/kernel/debug/tracing"] {
            let Ok(root) = open(path, flags, Mode::empty()) else { continue };
            if openat(&root, "events/syscalls", flags, Mode::empty()).is_ok() {
                return Ok(Self { root, is_private: false });
            }
        }
        Self::mount().map_err(|e| refusal::loading("tracefs", Kind::Mount, &e, ""))
    }

    fn mount() -> io::Result<Self> {
        let context = fsopen("tracefs", FsOpenFlags::FSOPEN_CLOEXEC)?;
        fsconfig_create(&context)?;
        let attributes = MountAttrFlags::MOUNT_ATTR_NOSUID | MountAttrFlags::MOUNT_ATTR_NOEXEC;
        let root = fsmount(&context, FsMountFlags::FSMOUNT_CLOEXEC, attributes)?;
        Ok(Self { root, is_private: true })
    }

    /// Whether tracefs was not mounted.
    #[must_use]
    pub fn is_private(&self) -> bool {
        self.is_private
    }

    /// The number of the tracepoint at which a system call enters the kernel.
    ///
    /// # Errors
    /// If the kernel has no such tracepoint.
    pub fn enter_id(&self, call: &str) -> Result<u64, Error> {
        let path = format!("events/syscalls/sys_enter_{call}/id");
        let mut text = String::new();
        let read =
            openat(&self.root, path.as_str(), OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())
                .map_err(io::Error::from)
                .and_then(|fd| std::fs::File::from(fd).take(32).read_to_string(&mut text));
        read.map_err(|e| refusal::loading(&path, Kind::Tracing, &e, ""))?;
        text.trim().parse().map_err(|_| Error::Refused {
            what: path,
            why: format!("{:?} is not a number", text.trim()),
            errno: None,
        })
    }
}

/// Attaches a `tracepoint` program to the entry of a system call.
///
/// # Errors
/// The kernel's refusal in plain words.
pub fn syscall_enter(
    program: BorrowedFd<'_>,
    tracefs: &Tracefs,
    call: &str,
) -> Result<Link, Error> {
    let what = format!("tracepoint sys_enter_{call}");
    let explain = |e: io::Error| refusal::loading(&what, Kind::Tracing, &e, "");
    let event = bpf_call::open_tracepoint(tracefs.enter_id(call)?).map_err(explain)?;
    // The link holds the event; the descriptor is not needed further.
    Ok(bpf_call::link_perf_event(program, event.as_fd()).map_err(explain)?.into())
}

/// How XDP is attached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum XdpMode {
    /// In the driver, before the packet has a buffer of the kernel.
    Native,
    /// After the packet has its buffer; works on every interface, and is half as effective.
    Generic,
}

impl XdpMode {
    /// The name that messages and options use.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Native => "native",
            Self::Generic => "generic",
        }
    }

    /// `XDP_FLAGS_*` of `linux/if_link.h`. Without a flag the kernel takes generic where native is not to be had.
    const fn flags(self) -> u32 {
        match self {
            Self::Native => 1 << 2,
            Self::Generic => 1 << 1,
        }
    }
}

/// Attaches an XDP program to an interface by a link, which ends with the process, and reads the mode back from the kernel.
///
/// # Errors
/// The kernel's refusal in plain words, with the next step, or that the mode is another one.
pub fn xdp(program: BorrowedFd<'_>, interface: u32, mode: XdpMode) -> Result<Link, Error> {
    linked(program, interface, mode, mode.flags())
}

/// Links with these flags, and refuses what is another mode then: the kernel takes generic for native without a word.
fn linked(
    program: BorrowedFd<'_>,
    interface: u32,
    mode: XdpMode,
    flags: u32,
) -> Result<Link, Error> {
    let link = bpf_call::link_xdp(program, interface, flags);
    let link = link.map_err(|e| xdp_refused(interface, mode, &e))?.into();
    let found = xdp_mode(interface)?;
    if found == Some(mode) {
        return Ok(link);
    }
    Err(Error::Refused {
        what: format!("{} XDP on interface {interface}", mode.name()),
        why: format!("the kernel attached it as {}", found.map_or("nothing", XdpMode::name)),
        errno: None,
    })
}

/// How an interface's program is attached; none if it has none.
///
/// # Errors
/// If the interface does not exist.
pub fn xdp_mode(interface: u32) -> Result<Option<XdpMode>, Error> {
    Attached::query_interface(interface).map(|attached| attached.mode)
}

fn xdp_refused(interface: u32, mode: XdpMode, error: &io::Error) -> Error {
    let what = format!("{} XDP on interface {interface}", mode.name());
    let why = match error.raw_os_error() {
        Some(libc::EOPNOTSUPP) if mode == XdpMode::Native => {
            "this kind of interface has no native XDP: attach to its lower device, or use generic XDP, \
             which is half as effective"
        }
        Some(libc::ERANGE) => {
            "the MTU is too large for XDP: set the MTU of both ends to 3498 or less"
        }
        Some(libc::EBUSY | libc::EEXIST) => {
            let other = Attached::query_interface(interface).unwrap_or_default();
            let why = format!("{} is attached: detach it first", other.describe());
            return refusal::refused(&what, why, error);
        }
        Some(libc::EINVAL) if Attached::query_interface(interface).is_err() => {
            "the interface does not exist"
        }
        Some(libc::EINVAL) => "this kernel makes no link for XDP: Linux 5.9 or newer is needed",
        Some(libc::ENODEV) => "the interface does not exist",
        _ => return refusal::loading(&what, Kind::Packets, error, ""),
    };
    refusal::refused(&what, why.to_owned(), error)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::object::Object;

    /// Native by name only: without mode flags the loopback interface, which has no native XDP, takes a program as
    /// generic, and the kernel reports success.
    #[test]
    fn a_link_without_mode_flags_is_read_back_as_generic() {
        const LOOPBACK: u32 = 1;
        let tried = std::thread::spawn(|| {
            // Only this thread, which ends with the test, has the new network namespace.
            crate::namespace::leave_network().map_err(|e| e.to_string())?;
            let mut object = Object::open("empty_xdp", |_| {}).map_err(|e| e.to_string())?;
            let program = object.load_xdp("empty").map_err(|e| e.to_string())?;
            let fd = program.fd().map_err(|e| e.to_string())?.as_fd();
            let link = linked(fd, LOOPBACK, XdpMode::Generic, 0).map(|_| ());
            let refused = linked(fd, LOOPBACK, XdpMode::Native, 0).map(|_| ());
            Ok::<_, String>((link, refused, xdp_mode(LOOPBACK)))
        });
        match tried.join().unwrap() {
            Err(why) => {
                let test = "a_link_without_mode_flags_is_read_back_as_generic";
                eprintln!("skipped: {test}: {why}");
            }
            Ok((link, refused, left)) => {
                link.unwrap();
                let text = refused.unwrap_err().to_string();
                assert!(text.contains("the kernel attached it as generic"), "{text}");
                assert_eq!(left.unwrap(), None, "nothing stays attached");
            }
        }
    }
}
