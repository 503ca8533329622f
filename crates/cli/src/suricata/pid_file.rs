//! The file with the number of the running process, there as long as the run lasts. Its messages are
//! Suricata's.

use crate::limits::PID_FILE_BYTES_MAX;
use crate::operator_file;
use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};

/// A file that goes with the run.
#[derive(Debug)]
pub(crate) struct PidFile {
    path: PathBuf,
}

impl PidFile {
    /// Writes the file, which must not be there.
    pub(crate) fn create(path: &Path) -> Result<PidFile, String> {
        let opened = OpenOptions::new().write(true).create_new(true).open(path);
        let mut file: File = match opened {
            Ok(file) => file,
            Err(e) if e.kind() == ErrorKind::AlreadyExists => return Err(there(path)),
            Err(e) => {
                return Err(format!("unable to set pidfile '{}': {e}", path.display()));
            }
        };
        writeln!(file, "{}", std::process::id())
            .map_err(|e| format!("unable to write pid to '{}': {e}", path.display()))?;
        Ok(PidFile { path: path.to_path_buf() })
    }
}

/// What is wrong with a file that is there.
fn there(path: &Path) -> String {
    let shown = path.display();
    // What is no file (a pipe, a device) holds no number, and is not waited for.
    let is_file = path.metadata().is_ok_and(|about| about.is_file());
    let text = is_file.then(|| operator_file::text(path, PID_FILE_BYTES_MAX).ok()).flatten();
    let pid = text.and_then(|t| t.trim().parse::<u32>().ok());
    match pid.is_some_and(|pid| Path::new(&format!("/proc/{pid}")).exists()) {
        true => format!("pid file '{shown}' exists and Suricata appears to be running. Aborting!"),
        false => format!(
            "pid file '{shown}' exists but appears stale. Make sure Suricata is not running and \
             then remove {shown}. Aborting!"
        ),
    }
}

impl Drop for PidFile {
    fn drop(&mut self) {
        // A run that is through does not fail for want of cleaning up.
        let _ = std::fs::remove_file(&self.path);
    }
}
