//! The few calls that the loader lacks, with the unsafe code that they need: a link of a program to a tracepoint by its
//! number, and a link to an interface with a mode.
//!
//! The loader attaches XDP by netlink when the kernel answers EINVAL, and such a program outlives a crash. These
//! functions make a link or fail.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

/// `BPF_LINK_CREATE` of `enum bpf_cmd`.
const LINK_CREATE: libc::c_long = 28;
/// `BPF_XDP` of `enum bpf_attach_type`.
const ATTACH_XDP: u32 = 37;
/// `BPF_TCX_INGRESS` of `enum bpf_attach_type`.
const ATTACH_TCX_INGRESS: u32 = 46;
/// `BPF_PERF_EVENT` of `enum bpf_attach_type`.
const ATTACH_PERF_EVENT: u32 = 41;

/// The member `link_create` of `union bpf_attr`, up to the cookie of a perf event.
#[repr(C)]
#[derive(Default)]
struct LinkCreate {
    program: u32,
    target: u32,
    attach_type: u32,
    flags: u32,
    cookie: u64,
}

fn link_create(attributes: &LinkCreate) -> io::Result<OwnedFd> {
    // SAFETY: the pointer and the size describe one initialized value, which the kernel only reads.
    let fd = unsafe {
        libc::syscall(
            libc::SYS_bpf,
            LINK_CREATE,
            std::ptr::from_ref(attributes),
            size_of::<LinkCreate>(),
        )
    };
    owned(fd)
}

/// A descriptor that the kernel just returned.
fn owned(result: libc::c_long) -> io::Result<OwnedFd> {
    match i32::try_from(result) {
        // SAFETY: the kernel just made this descriptor, and no other value owns it.
        Ok(fd) if fd >= 0 => Ok(unsafe { OwnedFd::from_raw_fd(fd) }),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Links a program to an interface. `flags` is `XDP_FLAGS_DRV_MODE` or `XDP_FLAGS_SKB_MODE`.
///
/// # Errors
/// The kernel's answer.
pub(crate) fn link_xdp(program: BorrowedFd<'_>, interface: u32, flags: u32) -> io::Result<OwnedFd> {
    link_create(&LinkCreate {
        program: program.as_raw_fd().cast_unsigned(),
        target: interface,
        attach_type: ATTACH_XDP,
        flags,
        cookie: 0,
    })
}

/// Links a classifier to the packets that arrive at an interface.
///
/// # Errors
/// The kernel's answer.
pub(crate) fn link_tcx(program: BorrowedFd<'_>, interface: u32) -> io::Result<OwnedFd> {
    link_create(&LinkCreate {
        program: program.as_raw_fd().cast_unsigned(),
        target: interface,
        attach_type: ATTACH_TCX_INGRESS,
        flags: 0,
        cookie: 0,
    })
}

/// Links a program to a perf event.
///
/// # Errors
/// The kernel's answer.
pub(crate) fn link_perf_event(
    program: BorrowedFd<'_>,
    event: BorrowedFd<'_>,
) -> io::Result<OwnedFd> {
    link_create(&LinkCreate {
        program: program.as_raw_fd().cast_unsigned(),
        target: event.as_raw_fd().cast_unsigned(),
        attach_type: ATTACH_PERF_EVENT,
        flags: 0,
        cookie: 0,
    })
}

/// The head of `struct perf_event_attr`, as of its first published version.
#[repr(C)]
#[derive(Default)]
struct PerfEventAttr {
    kind: u32,
    size: u32,
    config: u64,
    sample_period: u64,
    sample_type: u64,
    read_format: u64,
    flags: u64,
    wakeup_events: u32,
    bp_type: u32,
    config1: u64,
}

/// Opens a perf event of a tracepoint; programs that are linked to it run for all CPUs and processes.
///
/// # Errors
/// The kernel's answer.
pub(crate) fn open_tracepoint(id: u64) -> io::Result<OwnedFd> {
    const PERF_TYPE_TRACEPOINT: u32 = 2;
    const PERF_SAMPLE_RAW: u64 = 1 << 10;
    const PERF_FLAG_FD_CLOEXEC: libc::c_ulong = 1 << 3;
    let attributes = PerfEventAttr {
        kind: PERF_TYPE_TRACEPOINT,
        size: 64,
        config: id,
        sample_period: 1,
        sample_type: PERF_SAMPLE_RAW,
        wakeup_events: 1,
        ..PerfEventAttr::default()
    };
    // SAFETY: `size` is the size of the first version of the structure, all of whose bytes are initialized; the kernel
    // only reads them.
    let fd = unsafe {
        libc::syscall(
            libc::SYS_perf_event_open,
            std::ptr::from_ref(&attributes),
            -1_i32,
            0_i32,
            -1_i32,
            PERF_FLAG_FD_CLOEXEC,
        )
    };
    owned(fd)
}

/// Calls `getppid`, which ignores its arguments, with one that the program in the kernel looks for.
pub(crate) fn getppid_with(argument: u64) {
    // SAFETY: the call takes no argument and only returns a number.
    unsafe { libc::syscall(libc::SYS_getppid, argument) };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_attributes_have_the_sizes_of_the_kernels_interface() {
        assert_eq!(size_of::<LinkCreate>(), 24);
        assert_eq!(size_of::<PerfEventAttr>(), 64);
    }
}
