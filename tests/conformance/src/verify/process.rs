//! Runs one command to its end or to a time limit, in a process group of its own so that a command
//! is killed together with its children.

use std::fmt;
use std::fs::File;
use std::io::{self, Read, Seek};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process_group};

/// How a command ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// It ended by itself with this exit code.
    Exit(i32),
    /// This signal ended it.
    Signal(i32),
    /// It ran past the limit and was killed.
    TimedOut,
}

impl fmt::Display for Ending {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exit(code) => write!(f, "exit code {code}"),
            Self::Signal(signal) => write!(f, "crash {}", signal_name(*signal)),
            Self::TimedOut => f.write_str("timeout"),
        }
    }
}

/// The name of a signal that kills programs, else its number.
#[must_use]
pub fn signal_name(signal: i32) -> String {
    match signal {
        4 => "SIGILL".to_owned(),
        6 => "SIGABRT".to_owned(),
        7 => "SIGBUS".to_owned(),
        8 => "SIGFPE".to_owned(),
        9 => "SIGKILL".to_owned(),
        11 => "SIGSEGV".to_owned(),
        13 => "SIGPIPE".to_owned(),
        15 => "SIGTERM".to_owned(),
        other => format!("signal {other}"),
    }
}

/// The longest pause between two checks of a running command.
const LOOK_EVERY_MAX: Duration = Duration::from_millis(20);

/// Runs `command` with an empty standard input.
///
/// # Errors
/// The command can't be started or waited for.
pub fn run(command: &mut Command, limit: Duration) -> io::Result<Ending> {
    let start = Instant::now();
    let mut child = command.stdin(Stdio::null()).process_group(0).spawn()?;
    let mut pause = Duration::from_millis(1);
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(match status.code() {
                Some(code) => Ending::Exit(code),
                None => Ending::Signal(status.signal().unwrap_or(0)),
            });
        }
        if start.elapsed() >= limit {
            if let Some(group) = i32::try_from(child.id()).ok().and_then(Pid::from_raw) {
                let _ = kill_process_group(group, Signal::KILL);
            }
            child.wait()?;
            return Ok(Ending::TimedOut);
        }
        std::thread::sleep(pause);
        pause = (pause * 2).min(LOOK_EVERY_MAX);
    }
}

/// Runs shell lines in `folder`; returns how they ended and their standard output and, if
/// `with_errors`, standard error.
///
/// # Errors
/// The shell can't be started, or its output can't be stored.
pub fn shell(
    lines: &str,
    folder: &Path,
    env: &[(String, String)],
    limit: Duration,
    with_errors: bool,
) -> io::Result<(Ending, Vec<u8>)> {
    let mut output: File = tempfile::tempfile()?;
    let errors = if with_errors { output.try_clone()?.into() } else { Stdio::null() };
    let mut command = Command::new("/bin/sh");
    command.arg("-c").arg(lines).current_dir(folder);
    command.envs(env.iter().map(|(name, value)| (name, value)));
    command.stdout(output.try_clone()?).stderr(errors);
    let ending = run(&mut command, limit)?;
    output.rewind()?;
    let mut bytes = Vec::new();
    output.read_to_end(&mut bytes)?;
    Ok((ending, bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn endings_are_distinguished() {
        let limit = Duration::from_secs(20);
        let run = |lines| shell(lines, Path::new("/"), &[], limit, true).unwrap();
        assert_eq!(run("echo out; echo err >&2; exit 3"), (Ending::Exit(3), b"out\nerr\n".into()));
        assert_eq!(run("kill -ABRT $$").0, Ending::Signal(6));
        let short = Duration::from_millis(50);
        let (ending, _) = shell("sleep 60 & sleep 60", Path::new("/"), &[], short, true).unwrap();
        assert_eq!(ending, Ending::TimedOut);
    }
}
