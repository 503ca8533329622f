//! The priority of the guard's controller: before all ordinary tasks, so that it does not starve with the programs that
//! it protects.

use crate::capability::Capability;
use crate::refusal::Error;
use std::io;

/// The lowest real-time priority is above every ordinary task.
const PRIORITY: libc::c_int = 1;

/// `SCHED_DEADLINE` of `linux/sched.h`.
const SCHED_DEADLINE: u32 = 6;
/// `SCHED_FLAG_RESET_ON_FORK` of `linux/sched.h`.
const RESET_ON_FORK: u64 = 1;
/// What the controller gets of each period of 8 ms, in nanoseconds.
const RUNTIME_NS: u64 = 2_000_000;
/// The control period, in nanoseconds.
const PERIOD_NS: u64 = 8_000_000;

/// `struct sched_attr` of `linux/sched/types.h`, in its first published version.
#[repr(C)]
#[derive(Default)]
struct SchedAttr {
    size: u32,
    policy: u32,
    flags: u64,
    nice: i32,
    priority: u32,
    runtime: u64,
    deadline: u64,
    period: u64,
}

/// How a thread is scheduled before all ordinary ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RealTime {
    /// Under `SCHED_FIFO`.
    Fifo,
    /// Under `SCHED_DEADLINE`.
    Deadline,
}

impl RealTime {
    /// The kernel's name of it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            RealTime::Fifo => "SCHED_FIFO",
            RealTime::Deadline => "SCHED_DEADLINE",
        }
    }
}

/// Puts this thread under `SCHED_FIFO`; where the kernel refuses that in control groups, under `SCHED_DEADLINE`, whose
/// time belongs to no group. Threads that it starts later are ordinary ones.
///
/// # Errors
/// The kernel refuses both; then the thread has the highest ordinary priority where that is allowed, and the error says
/// which.
pub fn become_real_time() -> Result<RealTime, Error> {
    let parameters = libc::sched_param { sched_priority: PRIORITY };
    let policy = libc::SCHED_FIFO | libc::SCHED_RESET_ON_FORK;
    // SAFETY: 0 is this thread, and the kernel only reads the parameters.
    let answer = unsafe { libc::sched_setscheduler(0, policy, &raw const parameters) };
    if answer == 0 {
        return Ok(RealTime::Fifo);
    }
    let refused = io::Error::last_os_error();
    if become_deadline().is_ok() {
        return Ok(RealTime::Deadline);
    }
    let why = if Capability::SysNice.is_held() {
        "the kernel refuses it in this control group or with this set of CPUs"
    } else {
        "CAP_SYS_NICE is missing"
    };
    let has_nice = rustix::process::setpriority_process(None, -20).is_ok();
    let instead = if has_nice {
        "it has the highest ordinary priority"
    } else {
        "it is an ordinary task and may starve with others of its control group"
    };
    Err(Error::Refused {
        what: "real-time priority of the controller".to_owned(),
        why: format!("{refused}: {why}: {instead}"),
        errno: refused.raw_os_error(),
    })
}

/// Reserves a part of each control period for this thread.
fn become_deadline() -> io::Result<()> {
    let attributes = SchedAttr {
        size: u32::try_from(size_of::<SchedAttr>()).unwrap_or(0),
        policy: SCHED_DEADLINE,
        flags: RESET_ON_FORK,
        runtime: RUNTIME_NS,
        deadline: PERIOD_NS,
        period: PERIOD_NS,
        ..SchedAttr::default()
    };
    // SAFETY: 0 is this thread, and `size` bytes are initialized; the kernel only reads them.
    let answer = unsafe {
        libc::syscall(libc::SYS_sched_setattr, 0_i32, std::ptr::from_ref(&attributes), 0_u32)
    };
    if answer == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_attributes_have_the_size_of_the_kernels_interface() {
        assert_eq!(size_of::<SchedAttr>(), 48);
    }

    /// In a thread of its own, which takes its priority with it.
    #[test]
    fn a_thread_is_in_real_time_or_the_refusal_says_why_not() {
        let done = std::thread::spawn(become_real_time).join().expect("it does not panic");
        if let Err(e) = done {
            let text = e.to_string();
            assert!(text.contains("CAP_SYS_NICE") || text.contains("control group"), "{text}");
        }
        let deadline = std::thread::spawn(become_deadline).join().expect("it does not panic");
        assert!(deadline.is_ok() || deadline.is_err_and(|e| e.raw_os_error() == Some(libc::EPERM)));
    }
}
