//! The file with the number of a running process, there as long as the run lasts. Its messages are
//! Suricata's, but for one: a run that was killed leaves its file, and must not stop the next, so that a file whose
//! process is gone is replaced. Suricata asks for it to be removed.

use crate::limits::PID_FILE_BYTES_MAX;
use rustix::fs::{FlockOperation, OFlags, flock};
use rustix::process::{Pid, geteuid, test_kill_process};
use std::ffi::OsStr;
use std::fmt;
use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind, Read, Seek, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// Why there is no such file.
#[derive(Debug)]
pub enum PidFileError {
    /// The process that the file names may be a run of this program.
    Running(PathBuf),
    /// There is a file that no run may have left.
    Stale(PathBuf),
    /// It can't be made.
    NotMade(PathBuf, io::Error),
    /// It can't be written.
    NotWritten(PathBuf, io::Error),
}

impl fmt::Display for PidFileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PidFileError::Running(path) => {
                let shown = path.display();
                write!(f, "pid file '{shown}' exists and Suricata appears to be running. Aborting!")
            }
            PidFileError::Stale(path) => {
                let shown = path.display();
                write!(
                    f,
                    "pid file '{shown}' exists but appears stale. Make sure Suricata is not running \
                     and then remove {shown}. Aborting!"
                )
            }
            PidFileError::NotMade(path, e) => {
                write!(f, "unable to set pidfile '{}': {e}", path.display())
            }
            PidFileError::NotWritten(path, e) => {
                write!(f, "unable to write pid to '{}': {e}", path.display())
            }
        }
    }
}

impl std::error::Error for PidFileError {}

/// A file that goes with the run.
#[derive(Debug)]
pub struct PidFile {
    path: PathBuf,
    /// What there is to report: the file of a process that is gone was replaced.
    pub note: Option<String>,
}

/// What is known about the process that a file names.
#[derive(Debug, PartialEq, Eq)]
enum Named {
    /// It lives, and may be a run of this program.
    Running,
    /// There is no such process.
    Gone,
    /// The number belongs to another program now.
    Other(String),
}

impl PidFile {
    /// Writes the file. One that is there is replaced if the process that it names is gone.
    ///
    /// # Errors
    /// The file names a process that may be a run of this program, or is none that a run has left; it can't be written.
    pub fn create(path: &Path) -> Result<PidFile, PidFileError> {
        let opened = OpenOptions::new().write(true).create_new(true).open(path);
        let (mut file, note) = match opened {
            Ok(file) => (file, None),
            Err(e) if e.kind() == ErrorKind::AlreadyExists => {
                let (file, note) = take_over(path)?;
                (file, Some(note))
            }
            Err(e) => return Err(PidFileError::NotMade(path.to_path_buf(), e)),
        };
        writeln!(file, "{}", std::process::id())
            .map_err(|e| PidFileError::NotWritten(path.to_path_buf(), e))?;
        Ok(PidFile { path: path.to_path_buf(), note })
    }
}

/// Empties a file that a process left which is gone. Returns it and what there is to report.
fn take_over(path: &Path) -> Result<(File, String), PidFileError> {
    let shown = path.display();
    let running = || PidFileError::Running(path.to_path_buf());
    let stale = || PidFileError::Stale(path.to_path_buf());
    let mut file = open_left(path).ok_or_else(stale)?;
    // Of two runs that start at once, the second must read what the first wrote.
    flock(&file, FlockOperation::NonBlockingLockExclusive).map_err(|_| running())?;
    let mut text = String::new();
    let read = (&mut file).take(PID_FILE_BYTES_MAX).read_to_string(&mut text);
    let pid = text.trim().parse().ok().filter(|pid| *pid > 0).and_then(Pid::from_raw);
    let (Ok(_), Some(pid)) = (read, pid) else { return Err(stale()) };
    let number = pid.as_raw_nonzero();
    let why = match look_up(pid, path) {
        Named::Running => return Err(running()),
        Named::Gone => format!("process {number}, which it names, is gone"),
        Named::Other(program) => format!("process {number}, which it names, is {program} now"),
    };
    file.set_len(0)
        .and_then(|()| file.rewind())
        .map_err(|e| PidFileError::NotWritten(path.to_path_buf(), e))?;
    Ok((file, format!("pid file '{shown}' is replaced: {why}")))
}

/// Opens a file that a run may have left: a plain one with one name that belongs to this user. Others could choose with
/// a link which file is emptied; a pipe and a device hold no number, and are not waited for.
fn open_left(path: &Path) -> Option<File> {
    let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK;
    let mut options = OpenOptions::new();
    options.read(true).write(true).custom_flags(flags.bits() as i32);
    let is_left = |about: &std::fs::Metadata| {
        about.is_file() && about.nlink() == 1 && about.uid() == geteuid().as_raw()
    };
    // Before it is opened, too: opening a device may do something.
    path.symlink_metadata().ok().filter(is_left)?;
    let file = options.open(path).ok()?;
    file.metadata().ok().filter(is_left)?;
    Some(file)
}

/// Finds out about a process. In doubt it is running: two runs at once are worse than one that must be started by hand.
fn look_up(pid: Pid, path: &Path) -> Named {
    if pid == rustix::process::getpid() {
        return Named::Other("this one".to_owned());
    }
    if test_kill_process(pid) == Err(rustix::io::Errno::SRCH) {
        return Named::Gone;
    }
    let about = PathBuf::from(format!("/proc/{}", pid.as_raw_nonzero()));
    let program = match about.join("exe").read_link() {
        Ok(program) => program,
        // A process that has ended, but that its parent has not asked about.
        Err(e) if e.kind() == ErrorKind::NotFound && has_ended(&about) => return Named::Gone,
        Err(_) => return Named::Running,
    };
    let own = std::env::current_exe().unwrap_or_default();
    let command_line = std::fs::read(about.join("cmdline")).unwrap_or_default();
    if is_another(&program, &own, &command_line, path) {
        Named::Other(program.display().to_string())
    } else {
        Named::Running
    }
}

/// Whether a process is a zombie.
fn has_ended(about: &Path) -> bool {
    let text = std::fs::read_to_string(about.join("stat")).unwrap_or_default();
    text.rsplit_once(") ").is_some_and(|(_, rest)| rest.starts_with('Z'))
}

/// Whether a process with this executable and command line is another program: neither this one, perhaps under its name
/// before an update, nor Suricata, nor one that was started with a pid file of this name.
fn is_another(program: &Path, own: &Path, command_line: &[u8], path: &Path) -> bool {
    let name = |path: &Path| {
        let name = path.file_name().unwrap_or_default().as_bytes();
        name.strip_suffix(b" (deleted)").unwrap_or(name).to_ascii_lowercase()
    };
    let of_program = name(program);
    let is_sensor = of_program.is_empty()
        || of_program == name(own)
        || [&b"gabion"[..], b"suricata"].iter().any(|known| of_program.starts_with(known));
    let names_file = command_line.split(|byte| *byte == 0).any(|argument| {
        let value = argument.rsplit(|byte| *byte == b'=').next().unwrap_or(argument);
        Path::new(OsStr::from_bytes(value)).file_name() == path.file_name()
    });
    !is_sensor && !names_file
}

impl Drop for PidFile {
    fn drop(&mut self) {
        // A run that is through does not fail for want of cleaning up.
        let _ = std::fs::remove_file(&self.path);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    /// A folder, and a file in it that holds this.
    fn left(text: &str) -> (tempfile::TempDir, PathBuf) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("sensor.pid");
        std::fs::write(&path, text).unwrap();
        (folder, path)
    }

    #[test]
    fn a_file_of_a_process_that_is_gone_or_another_program_is_replaced() {
        let mut child = Command::new("sleep").arg("60").spawn().unwrap();
        let number = child.id();
        let (_folder, path) = left(&format!("{number}\n"));
        let file = PidFile::create(&path).unwrap();
        let note = file.note.clone().unwrap();
        assert!(
            note.contains(&format!("is replaced: process {number}, which it names, is ")),
            "{note}"
        );
        let text = std::fs::read_to_string(&path).unwrap();
        assert_eq!(text, format!("{}\n", std::process::id()));
        drop(file);
        assert!(!path.exists());
        child.kill().unwrap();
        // It has ended, and nobody has asked about it yet; then nothing of it is left.
        for _ in 0..2 {
            std::fs::write(&path, format!("{number}")).unwrap();
            while look_up(Pid::from_child(&child), &path) != Named::Gone {
                std::thread::yield_now();
            }
            let file = PidFile::create(&path).unwrap();
            assert!(file.note.as_ref().unwrap().contains("is gone"), "{:?}", file.note);
            drop(file);
            child.wait().unwrap();
        }
        assert_eq!(PidFile::create(&path).unwrap().note, None);
    }

    #[test]
    fn what_may_be_a_run_or_is_no_file_of_a_run_is_kept() {
        let parent = std::os::unix::process::parent_id().to_string();
        let (folder, path) = left(&parent);
        let is_same = |program: &str, command_line: &str| {
            let own = Path::new("/usr/bin/gabion");
            !is_another(Path::new(program), own, command_line.as_bytes(), &path)
        };
        assert!(is_same("/opt/gabion-2", "") && is_same("/usr/bin/suricata (deleted)", ""));
        assert!(is_same("/opt/sensor", "sensor\0--pidfile\0/run/sensor.pid\0"));
        assert!(is_same("/opt/sensor", "sensor\0--pidfile=sensor.pid"));
        assert!(!is_same("/usr/sbin/cron", "cron\0-f\0"));
        for text in ["", "0", "-1", "4294967296", "none"] {
            std::fs::write(&path, text).unwrap();
            let refused = PidFile::create(&path).unwrap_err().to_string();
            assert!(refused.contains("appears stale"), "{refused}");
            assert_eq!(std::fs::read_to_string(&path).unwrap(), text);
        }
        // Another could have made the link.
        std::fs::write(&path, "999999999").unwrap();
        let link = folder.path().join("link");
        std::os::unix::fs::symlink(&path, &link).unwrap();
        assert!(matches!(PidFile::create(&link), Err(PidFileError::Stale(_))));
        std::fs::hard_link(&path, folder.path().join("second")).unwrap();
        assert!(matches!(PidFile::create(&path), Err(PidFileError::Stale(_))));
    }
}
