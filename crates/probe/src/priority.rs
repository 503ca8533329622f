//! The priority of the guard's controller: before all ordinary tasks, so that it does not starve with the programs that
//! it protects.

use crate::capability::Capability;
use crate::refusal::Error;
use std::io;

/// The lowest real-time priority is above every ordinary task.
const PRIORITY: libc::c_int = 1;

/// Puts this thread under `SCHED_FIFO`. Threads that it starts later are ordinary ones.
///
/// # Errors
/// The kernel refuses it; then the thread has the highest ordinary priority where that is allowed, and the error says
/// which.
pub fn become_real_time() -> Result<(), Error> {
    let parameters = libc::sched_param { sched_priority: PRIORITY };
    // SAFETY: 0 is this thread, and the kernel only reads the parameters.
    let answer = unsafe {
        libc::sched_setscheduler(
            0,
            libc::SCHED_FIFO | libc::SCHED_RESET_ON_FORK,
            &raw const parameters,
        )
    };
    if answer == 0 {
        return Ok(());
    }
    let refused = io::Error::last_os_error();
    let why = match Capability::SysNice.is_held() {
        false => "CAP_SYS_NICE is missing",
        true => "the kernel has real-time groups, and this control group has no real-time budget",
    };
    let has_nice = rustix::process::setpriority_process(None, -20).is_ok();
    let instead = match has_nice {
        true => "it has the highest ordinary priority",
        false => "it is an ordinary task and may starve with others of its control group",
    };
    Err(Error::Refused {
        what: "real-time priority of the controller".to_owned(),
        why: format!("{refused}: {why}: {instead}"),
        errno: refused.raw_os_error(),
    })
}
