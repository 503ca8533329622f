//! A run in the background (`-D`).
//!
//! The program starts again with the rest of its command line, as a process of its own session. The one that started
//! it waits until it is ready, so that a configuration that is refused ends with its message and exit code 1.

use crate::standard_output;
use rustix::stdio::{dup2_stderr, dup2_stdout};
use std::ffi::OsString;
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};

/// Set in the environment of the process in the background.
const MARK: &str = "GABION_IN_BACKGROUND";
/// The line that it prints when it is ready.
const READY: &str = "ready";

/// The command line without an option.
fn command_line(without: &str) -> Vec<OsString> {
    std::env::args_os().skip(1).filter(|arg| arg != without).collect()
}

/// This program, called as it was, with other arguments.
fn again(args: Vec<OsString>) -> Result<Command, String> {
    let program = std::env::current_exe().map_err(|e| format!("the program is not found: {e}"))?;
    let mut command = Command::new(program);
    if let Some(name) = std::env::args_os().next() {
        command.arg0(name);
    }
    command.args(args);
    Ok(command)
}

/// Whether this process is the one in the background.
pub(super) fn is_there() -> bool {
    std::env::var_os(MARK).is_some()
}

/// Starts the run in the background and waits until it is ready; gives the exit code.
pub(super) fn start() -> Result<i32, String> {
    let mut command = again(command_line("-D"))?;
    command.env(MARK, "1").stdin(Stdio::null()).stdout(Stdio::piped());
    let mut child = command.spawn().map_err(|e| format!("cannot go into the background: {e}"))?;
    let said = child.stdout.take().map(BufReader::new);
    for line in said.into_iter().flat_map(BufRead::lines).map_while(Result::ok) {
        if line == READY { return Ok(0) } else { standard_output::line(line) }
    }
    // It ended before it was ready: with a fault, or because there was little to do.
    let ended = child.wait().map_err(|e| format!("the process in the background: {e}"))?;
    Ok(ended.code().unwrap_or(1))
}

/// In the background: detaches from the terminal.
pub(super) fn leave_session() {
    // This fails only for the leader of a process group, which is detached already.
    let _ = rustix::process::setsid();
}

/// In the background: all is open and loaded. The process that started this one continues; nothing more is
/// printed on the terminal.
pub(super) fn ready(folder: Option<&str>) -> Result<(), String> {
    if let Some(folder) = folder {
        std::env::set_current_dir(folder).map_err(|e| format!("daemon-directory {folder}: {e}"))?;
    }
    let nowhere = File::options().write(true).open("/dev/null");
    let nowhere = nowhere.map_err(|e| format!("/dev/null: {e}"))?;
    // The process that waited may be gone: that is no reason to stop.
    standard_output::line(READY);
    let done = dup2_stdout(&nowhere).and_then(|()| dup2_stderr(&nowhere));
    done.map_err(|e| format!("the terminal cannot be left: {e}"))
}
