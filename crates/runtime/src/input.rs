//! Input that may not come for a long time: pipes and standard input, read so that a request to stop
//! is heard while nothing comes.
//!
//! A system call that waits is restarted after a signal, so a plain read of a pipe would not hear it.
//! Here is asked first whether there is something to read, a moment at a time.

use crate::limits;
use crate::signals::StopFlag;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{Mode, OFlags};
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::FileTypeExt;
use std::path::Path;
use std::time::Duration;

/// A reader that ends when it is asked to stop.
#[derive(Debug)]
pub struct Stoppable<R> {
    from: R,
    stop: StopFlag,
}

impl<R: Read + AsFd> Stoppable<R> {
    /// Reads from there until it ends or somebody asks to stop.
    pub fn new(from: R, stop: StopFlag) -> Stoppable<R> {
        Stoppable { from, stop }
    }

    /// What it reads from.
    pub fn into_inner(self) -> R {
        self.from
    }

    /// Waits until there is something to read, or the end; false when asked to stop.
    fn wait(&self) -> io::Result<bool> {
        let moment = Timespec { tv_sec: 0, tv_nsec: limits::STOP_LOOK_MS * 1_000_000 };
        while !self.stop.is_set() {
            let mut fds = [PollFd::new(&self.from, PollFlags::IN)];
            match poll(&mut fds, Some(&moment)) {
                Ok(0) | Err(rustix::io::Errno::INTR) => {}
                Ok(_) => return Ok(true),
                Err(e) => return Err(e.into()),
            }
        }
        Ok(false)
    }
}

impl<R: Read + AsFd> Read for Stoppable<R> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        while self.wait()? {
            match self.from.read(buf) {
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => {}
                done => return done,
            }
        }
        Ok(0)
    }
}

/// Knows whether something has come through a pipe that somebody else reads.
#[derive(Debug)]
pub struct Readiness(OwnedFd);

impl Readiness {
    /// Of what can be read from there.
    ///
    /// # Errors
    /// What the system says.
    pub fn from_input(from: &impl AsFd) -> io::Result<Readiness> {
        Ok(Readiness(from.as_fd().try_clone_to_owned()?))
    }

    /// Whether there is something to read, or the end, within this time. What is wrong with it its reader learns.
    pub fn is_ready(&self, within: Duration) -> bool {
        let mut fds = [PollFd::new(&self.0, PollFlags::IN)];
        let within = Timespec::try_from(within).unwrap_or(Timespec { tv_sec: 0, tv_nsec: 0 });
        !matches!(poll(&mut fds, Some(&within)), Ok(0) | Err(rustix::io::Errno::INTR))
    }
}

/// A reader that never waits: where nothing has come it says that it would block.
#[derive(Debug)]
pub struct Unwaiting<R>(R);

impl<R: Read + AsFd> Unwaiting<R> {
    /// Reads from there.
    pub fn new(from: R) -> Unwaiting<R> {
        Unwaiting(from)
    }
}

impl<R: Read + AsFd> Read for Unwaiting<R> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        // Asked first, since a pipe that nobody has opened for writing yet would say that it is at its end.
        let mut fds = [PollFd::new(&self.0, PollFlags::IN)];
        match poll(&mut fds, Some(&Timespec { tv_sec: 0, tv_nsec: 0 }))? {
            0 => Err(io::ErrorKind::WouldBlock.into()),
            _ => self.0.read(buf),
        }
    }
}

/// Opens what can be read only once, without waiting for its writer; `-` is standard input.
///
/// # Errors
/// What the system says.
pub(crate) fn open_once(path: &Path) -> io::Result<File> {
    if path.as_os_str() == "-" {
        return Ok(File::from(io::stdin().as_fd().try_clone_to_owned()?));
    }
    if path.metadata()?.file_type().is_socket() {
        return Err(io::Error::other(
            "a socket can't be opened by its name, only given as standard input",
        ));
    }
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
    Ok(File::from(rustix::fs::open(path, flags, Mode::empty())?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    fn fifo(folder: &Path) -> std::path::PathBuf {
        let path = folder.join("pipe");
        let (kind, mode) = (rustix::fs::FileType::Fifo, Mode::RUSR | Mode::WUSR);
        rustix::fs::mknodat(rustix::fs::CWD, &path, kind, mode, 0).unwrap();
        path
    }

    #[test]
    fn what_comes_is_read_and_a_request_to_stop_is_heard() {
        let dir = tempfile::tempdir().unwrap();
        let path = fifo(dir.path());
        let stop = StopFlag::new();
        let file = open_once(&path).unwrap();
        let readiness = Readiness::from_input(&file).unwrap();
        let mut reader = Stoppable::new(file, stop.clone());
        assert!(!readiness.is_ready(Duration::ZERO));
        let mut writer = std::fs::OpenOptions::new().write(true).open(&path).unwrap();
        writer.write_all(b"abc").unwrap();
        assert!(readiness.is_ready(Duration::from_secs(10)));
        let mut buf = [0; 8];
        assert_eq!(reader.read(&mut buf).unwrap(), 3);
        assert!(!readiness.is_ready(Duration::from_millis(1)));
        let thread = std::thread::spawn(move || reader.read(&mut buf).unwrap());
        stop.set();
        assert_eq!(thread.join().unwrap(), 0);
        drop(writer);
    }
    /// A pipe without a writer is not at its end before there was one.
    #[test]
    fn a_reader_that_never_waits_learns_that_nothing_came() {
        let dir = tempfile::tempdir().unwrap();
        let path = fifo(dir.path());
        let mut reader = Unwaiting::new(open_once(&path).unwrap());
        let mut buf = [0; 8];
        let mut blocks = |reader: &mut Unwaiting<File>| {
            reader.read(&mut buf).is_err_and(|e| e.kind() == io::ErrorKind::WouldBlock)
        };
        assert!(blocks(&mut reader));
        let mut writer = std::fs::OpenOptions::new().write(true).open(&path).unwrap();
        assert!(blocks(&mut reader));
        writer.write_all(b"abc").unwrap();
        drop(writer);
        let mut text = String::new();
        assert_eq!(reader.read_to_string(&mut text).unwrap(), 3);
    }

    #[test]
    fn a_socket_is_refused_by_its_name() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("socket");
        let _socket = std::os::unix::net::UnixListener::bind(&path).unwrap();
        assert!(open_once(&path).is_err_and(|e| e.to_string().contains("socket")));
    }
}
