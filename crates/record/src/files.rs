//! Opening files for sources and outputs, and sockets of receivers.
//!
//! A library opens no file and connects to nobody by itself: it asks the [`FileOpener`] that its caller hands in. So the
//! program decides in one place how files and sockets are opened, and a process with more rights may open them for one
//! with fewer. What opens them with the rights of this process is `gabion_runtime::files::direct_opener`.

use std::fmt;
use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// What a file is opened for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OpenMode {
    /// To read what is there.
    Read,
    /// To read a pipe or a device, without waiting for its writer; `-` is standard input.
    ReadOnce,
    /// To write after what is there. A file that is not there is made, a link that others could have made is refused, and
    /// a pipe is waited for until somebody reads it.
    Append,
    /// The same, but what is there goes.
    Truncate,
    /// To write after what is there, whatever the name leads to: links are followed.
    AppendFollowing,
    /// The same, but what is there goes.
    TruncateFollowing,
    /// To write a file that is not there yet.
    CreateNew,
    /// A folder that is there, for what is in it.
    Folder,
    /// The same; a folder that is not there is made, for its owner alone.
    CreateFolder,
}

/// Where another program takes what an output sends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Endpoint {
    /// A Unix socket of a stream at this path.
    StreamAt(PathBuf),
    /// A Unix socket of datagrams at this path.
    DatagramsAt(PathBuf),
    /// A TCP port.
    Tcp {
        /// The server's name or address.
        server: String,
        /// Its port.
        port: u16,
    },
}

/// Opens files for sources and outputs, and connects to receivers. Clones share what opens.
#[derive(Clone)]
pub struct FileOpener {
    open: Arc<OpenFile>,
    connect: Arc<Connect>,
}

type OpenFile = dyn Fn(&Path, OpenMode) -> io::Result<File> + Send + Sync;
type Connect = dyn Fn(&Endpoint) -> io::Result<OwnedFd> + Send + Sync;

impl FileOpener {
    /// Files are opened by this; there are no sockets.
    pub fn new(
        open: impl Fn(&Path, OpenMode) -> io::Result<File> + Send + Sync + 'static,
    ) -> FileOpener {
        let connect = |_: &Endpoint| Err(io::ErrorKind::Unsupported.into());
        FileOpener { open: Arc::new(open), connect: Arc::new(connect) }
    }

    /// The same, with this for sockets.
    #[must_use]
    pub fn with_sockets(
        self,
        connect: impl Fn(&Endpoint) -> io::Result<OwnedFd> + Send + Sync + 'static,
    ) -> FileOpener {
        FileOpener { connect: Arc::new(connect), ..self }
    }

    /// Opens a file.
    ///
    /// # Errors
    /// What the system says; what the mode refuses.
    pub fn open(&self, path: &Path, mode: OpenMode) -> io::Result<File> {
        (self.open)(path, mode)
    }

    /// A socket that is connected to a receiver.
    ///
    /// # Errors
    /// What the system says.
    pub fn connect(&self, to: &Endpoint) -> io::Result<OwnedFd> {
        (self.connect)(to)
    }

    /// Opens a file to read it.
    ///
    /// # Errors
    /// What the system says.
    pub fn open_to_read(&self, path: &Path) -> io::Result<File> {
        self.open(path, OpenMode::Read)
    }
}

impl fmt::Debug for FileOpener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("FileOpener")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Mutex;

    #[test]
    fn clones_ask_the_same_opener() {
        let asked = Arc::new(Mutex::new(Vec::new()));
        let seen = Arc::clone(&asked);
        let files = FileOpener::new(move |path, mode| {
            seen.lock().unwrap().push((path.to_owned(), mode));
            Err(io::ErrorKind::NotFound.into())
        });
        let (a, b) = (Path::new("a"), Path::new("b"));
        assert_eq!(files.open_to_read(a).unwrap_err().kind(), io::ErrorKind::NotFound);
        assert!(files.clone().open(b, OpenMode::CreateNew).is_err());
        let asked = asked.lock().unwrap();
        assert_eq!(*asked, [(a.to_owned(), OpenMode::Read), (b.to_owned(), OpenMode::CreateNew)]);
    }

    #[test]
    fn sockets_are_connected_by_what_was_given() {
        let none = FileOpener::new(|_, _| Err(io::ErrorKind::NotFound.into()));
        let to = Endpoint::Tcp { server: "collector".to_owned(), port: 514 };
        assert_eq!(none.connect(&to).unwrap_err().kind(), io::ErrorKind::Unsupported);
        let asked = to.clone();
        let refusing = none.with_sockets(move |endpoint| {
            assert_eq!(*endpoint, asked);
            Err(io::ErrorKind::ConnectionRefused.into())
        });
        assert_eq!(refusing.connect(&to).unwrap_err().kind(), io::ErrorKind::ConnectionRefused);
        // It still opens no file.
        let gone = refusing.open_to_read(Path::new("a")).unwrap_err();
        assert_eq!(gone.kind(), io::ErrorKind::NotFound);
    }
}
