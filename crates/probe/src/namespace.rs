//! Network namespaces: this thread enters one, and sees its devices in `/sys`.

use rustix::mount::{MountFlags, MountPropagationFlags, mount, mount_change};
use rustix::thread::{LinkNameSpaceType, UnshareFlags, move_into_link_name_space, unshare_unsafe};
use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::path::Path;

/// Moves this thread, and the threads that it starts, into the network namespace of a file.
///
/// # Errors
/// The file is no network namespace, or this process may not enter it (CAP_SYS_ADMIN).
pub fn enter_network(path: &Path) -> io::Result<()> {
    let file = File::open(path)?;
    move_into_link_name_space(file.as_fd(), Some(LinkNameSpaceType::Network))?;
    Ok(())
}

/// Shows this thread, and the threads that it starts, the devices of its network namespace in `/sys`, as `ip netns exec`
/// does: a mount belongs to the namespace in which it was made. Other threads and programs see `/sys` as before.
///
/// # Errors
/// This process may not mount (CAP_SYS_ADMIN).
pub fn show_devices() -> io::Result<()> {
    // SAFETY: only the mount namespace becomes the thread's own, and with it the working folder. Descriptors stay shared,
    // so no thread loses one.
    unsafe { unshare_unsafe(UnshareFlags::NEWNS) }?;
    mount_change("/", MountPropagationFlags::DOWNSTREAM | MountPropagationFlags::REC)?;
    mount(
        "gabion",
        "/sys",
        "sysfs",
        MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC,
        None,
    )?;
    Ok(())
}

/// Gives the calling thread an empty network namespace of its own, for tests.
#[cfg(test)]
pub(crate) fn leave_network() -> io::Result<()> {
    // SAFETY: descriptors stay as they are; only the thread's view of the network changes.
    unsafe { unshare_unsafe(UnshareFlags::NEWNET) }?;
    Ok(())
}
