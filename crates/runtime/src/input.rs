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
use std::os::fd::AsFd;
use std::path::Path;

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

/// Opens what is no regular file without waiting for whoever writes into it.
///
/// # Errors
/// What the system says.
pub fn open_pipe(path: &Path) -> io::Result<File> {
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
    Ok(File::from(rustix::fs::open(path, flags, Mode::empty())?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    #[test]
    fn what_comes_is_read_and_a_request_to_stop_is_heard() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("pipe");
        rustix::fs::mknodat(
            rustix::fs::CWD,
            &path,
            rustix::fs::FileType::Fifo,
            Mode::RUSR | Mode::WUSR,
            0,
        )
        .unwrap();
        let stop = StopFlag::new();
        let mut reader = Stoppable::new(open_pipe(&path).unwrap(), stop.clone());
        let mut writer = std::fs::OpenOptions::new().write(true).open(&path).unwrap();
        writer.write_all(b"abc").unwrap();
        let mut buf = [0; 8];
        assert_eq!(reader.read(&mut buf).unwrap(), 3);
        let thread = std::thread::spawn(move || reader.read(&mut buf).unwrap());
        stop.set();
        assert_eq!(thread.join().unwrap(), 0);
        drop(writer);
    }
}
