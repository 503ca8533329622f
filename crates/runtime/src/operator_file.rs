//! Files that the operator names: configurations, lists, thresholds, databases. They are read whole, so
//! each has a most; a device, which has no end, is refused. A pipe is as good as a file (`-c <(…)`).

use crate::input::{Stoppable, open_once};
use crate::signals::StopFlag;
use std::fs::File;
use std::io::{Error, IsTerminal, Read, Result};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::Path;

/// Major and minor number of `/dev/null`, the device that is empty: what is named to say "none".
const DEV_NULL: (u32, u32) = (1, 3);

/// A file that was opened, of which it is known that it has an end.
#[derive(Debug)]
pub struct Opened {
    /// The file.
    pub file: File,
    /// It can be read only once: a pipe.
    pub is_stream: bool,
}

/// Opens a file or a pipe, without waiting for its writer.
///
/// # Errors
/// What the system says; that it is a device or a folder.
pub fn open(path: &Path) -> Result<Opened> {
    let file = open_once(path)?;
    let about = file.metadata()?;
    let kind = about.file_type();
    if kind.is_dir() {
        return Err(rustix::io::Errno::ISDIR.into());
    }
    let is_device = kind.is_block_device() || kind.is_char_device();
    if is_device
        && rustix::fs::makedev(DEV_NULL.0, DEV_NULL.1) != about.rdev()
        && !file.is_terminal()
    {
        return Err(Error::other("is a device, which has no end: name a file"));
    }
    Ok(Opened { file, is_stream: !kind.is_file() })
}

/// Whether a file could be read. A pipe is not opened for it: its writer would take the end
/// of the look for the end of its reader.
///
/// # Errors
/// Those of [`open`].
pub fn check(path: &Path) -> Result<()> {
    if path.metadata()?.file_type().is_fifo() {
        return Ok(());
    }
    open(path).map(drop)
}

/// The bytes of a file of at most that many.
///
/// # Errors
/// What the system says; that it is larger, a device or a folder.
pub fn bytes(path: &Path, most: u64) -> Result<Vec<u8>> {
    open(path)?.bytes(most)
}

impl Opened {
    /// What is in it, to be read as it comes; a pipe is waited for until somebody asks to stop.
    pub fn reader(self) -> Box<dyn Read> {
        if self.is_stream {
            Box::new(Stoppable::new(self.file, StopFlag::of_process().clone()))
        } else {
            Box::new(self.file)
        }
    }

    /// The rest of it, of at most that many bytes.
    ///
    /// # Errors
    /// What the system says; that it is larger.
    pub fn bytes(self, most: u64) -> Result<Vec<u8>> {
        let Opened { file, is_stream } = self;
        let length = file.metadata()?.len();
        let too_large =
            || Error::other(format!("is larger than {} MiB, which is not read", most >> 20));
        if length > most {
            return Err(too_large());
        }
        let mut bytes = Vec::with_capacity(usize::try_from(length).unwrap_or(0));
        let stop = StopFlag::of_process();
        if is_stream {
            Stoppable::new(file, stop.clone()).take(most + 1).read_to_end(&mut bytes)?;
            if stop.is_set() {
                return Err(Error::other("asked to stop before it was read"));
            }
        } else {
            file.take(most + 1).read_to_end(&mut bytes)?;
        }
        if bytes.len() as u64 > most {
            return Err(too_large());
        }
        Ok(bytes)
    }
}

/// The same as text.
///
/// # Errors
/// Those of [`bytes`]; that it is no text.
pub fn text(path: &Path, most: u64) -> Result<String> {
    String::from_utf8(bytes(path, most)?).map_err(|_| Error::other("is not UTF-8 text"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_and_pipes_are_read_and_devices_are_not() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("list");
        std::fs::write(&path, "abc").unwrap();
        assert_eq!(text(&path, 3).unwrap(), "abc");
        assert!(text(&path, 2).unwrap_err().to_string().contains("larger"));
        assert_eq!(text(Path::new("/dev/null"), 3).unwrap(), "");
        for device in ["/dev/zero", "/dev/urandom", "/dev/full"] {
            assert!(bytes(Path::new(device), 3).unwrap_err().to_string().contains("device"));
        }
        assert!(bytes(dir.path(), 3).is_err());
        let pipe = dir.path().join("pipe");
        let mode = rustix::fs::Mode::from_raw_mode(0o600);
        let kind = rustix::fs::FileType::Fifo;
        rustix::fs::mknodat(rustix::fs::CWD, &pipe, kind, mode, 0).unwrap();
        for (most, is_good) in [(3, true), (2, false)] {
            check(&pipe).unwrap();
            let to = pipe.clone();
            let writer = std::thread::spawn(move || std::fs::write(to, "abc"));
            assert_eq!(text(&pipe, most).is_ok_and(|t| t == "abc"), is_good);
            let _ = writer.join().unwrap();
        }
    }
}
