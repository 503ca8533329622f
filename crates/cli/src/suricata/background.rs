//! A run in the background (`-D`) and as another user (`--user`, `--group`).
//!
//! Both start the program again with the rest of its command line: as that user from the first line of
//! the configuration on, so that nothing is opened with more rights than the run has; and for the
//! background as a process of its own session, which reports when it is ready. Until then the process that
//! started it waits, so that a configuration that is refused ends with its message and exit code 1.

use crate::standard_output;
use rustix::stdio::{dup2_stderr, dup2_stdout};
use std::ffi::OsString;
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};

/// Set in the environment of the process in the background.
const MARK: &str = "GABION_IN_BACKGROUND";
/// The line that it prints when it is ready.
const READY: &str = "ready";

/// The command line without some options, those with a value together with it.
fn command_line(without: &[(&str, bool)]) -> Vec<OsString> {
    let mut kept = Vec::new();
    let mut args = std::env::args_os().skip(1);
    while let Some(arg) = args.next() {
        let text = arg.to_string_lossy();
        let name = text.split_once('=').map_or(&*text, |(name, _)| name);
        match without.iter().find(|(option, _)| *option == name) {
            Some((_, true)) if name == text => drop(args.next()),
            Some(_) => {}
            None => kept.push(arg),
        }
    }
    kept
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

/// Continues as that user and group; returns only with an error.
pub(super) fn as_user(user: Option<&str>, group: Option<&str>) -> String {
    let prepared = again(command_line(&[("--user", true), ("--group", true)])).and_then(|mut c| {
        let found = user.map(find_user).transpose()?;
        let own = found.map(|(_, group)| group);
        if let Some(id) = group.map(find_group).transpose()?.or(own) {
            c.gid(id);
        }
        if let Some((id, _)) = found {
            c.uid(id);
        }
        Ok(c)
    });
    match prepared {
        Ok(mut command) => {
            let e = command.exec();
            format!("cannot run as another user: {e}: only root can, leave --user and --group out")
        }
        Err(e) => e,
    }
}

/// Number of a user and of its group.
fn find_user(name: &str) -> Result<(u32, u32), String> {
    let found = entry(Path::new("/etc/passwd"), name).map_err(|e| format!("--user {e}"))?;
    let number = |at: usize| found.get(at).and_then(|text| text.parse().ok());
    number(2).zip(number(3)).ok_or_else(|| format!("unable to get the user ID of {name}"))
}

/// Number of a group.
fn find_group(name: &str) -> Result<u32, String> {
    let found = entry(Path::new("/etc/group"), name).map_err(|e| format!("--group {e}"))?;
    let number = found.get(2).and_then(|text| text.parse().ok());
    number.ok_or_else(|| format!("unable to get the group ID of {name}"))
}

/// The fields of the line whose name (the first field) or number (the third) that is.
fn entry(file: &Path, name: &str) -> Result<Vec<String>, String> {
    let text = std::fs::read_to_string(file).map_err(|e| format!("{}: {e}", file.display()))?;
    let mut lines = text.lines().map(|line| line.split(':').collect::<Vec<_>>());
    let found = lines.find(|f| f.first() == Some(&name) || f.get(2) == Some(&name));
    found.map(|fields| fields.into_iter().map(str::to_string).collect()).ok_or_else(|| {
        format!("\"{name}\" does not exist in {}: name one that does", file.display())
    })
}

/// Whether this process is the one in the background.
pub(super) fn is_there() -> bool {
    std::env::var_os(MARK).is_some()
}

/// Starts the run in the background and waits until it is ready; gives the exit code.
pub(super) fn start() -> Result<i32, String> {
    let mut command = again(command_line(&[("-D", false)]))?;
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
