//! What can go wrong with outputs.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Why an output can't be opened, or what it could not write. The text names the file first.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OutputError {
    /// A file or folder that can't be read, written or synced.
    #[error("{}: {source}", path.display())]
    Io {
        /// Which.
        path: PathBuf,
        /// The error of the system.
        source: Arc<io::Error>,
    },
    /// A file that can't be opened for writing.
    #[error("{}: cannot be written: {source}", path.display())]
    NotWritable {
        /// Which.
        path: PathBuf,
        /// The error of the system.
        source: Arc<io::Error>,
    },
    /// A file that could be written until now.
    #[error("{}: cannot be written: {source}: make space or choose another folder with -l", path.display())]
    Lost {
        /// Which.
        path: PathBuf,
        /// The error of the system.
        source: Arc<io::Error>,
    },
    /// A folder that can't be made.
    #[error("{}: cannot be made: {source}", path.display())]
    NotMade {
        /// Which.
        path: PathBuf,
        /// The error of the system.
        source: Arc<io::Error>,
    },
    /// Permissions of a file that can't be set.
    #[error("{}: filemode {mode:o}: {source}", path.display())]
    Permissions {
        /// Which file.
        path: PathBuf,
        /// What was asked for.
        mode: u32,
        /// The error of the system.
        source: Arc<io::Error>,
    },
    /// A setting of the output that writes this file.
    #[error("{}: {source}", path.display())]
    Setting {
        /// Which file.
        path: PathBuf,
        /// What is wrong with it.
        source: SettingError,
    },
    /// A file store of the first version.
    #[error(
        "output module \"file-store\": setup failed: version 1 no longer exists: write version: 2"
    )]
    FileStoreVersion,
    /// A choice of packets that a `pcap-log` does not have.
    #[error("pcap-log.conditional: {0}: all, alerts or tag")]
    PacketChoice(String),
    /// The database of profiles.
    #[error("{}: {source}", path.display())]
    Database {
        /// Its file.
        path: PathBuf,
        /// The error of the database.
        source: Arc<rusqlite::Error>,
    },
    /// A database of profiles in another form than this program's.
    #[error("{}: is a database of another version of gabion (form {form})", path.display())]
    DatabaseForm {
        /// Its file.
        path: PathBuf,
        /// The number of its form.
        form: i64,
    },
    /// Profiles that were lost, and why the first was.
    #[error("{why}: {rows} profiles were not kept")]
    ProfilesLost {
        /// Why.
        #[source]
        why: Box<OutputError>,
        /// How many.
        rows: u64,
    },
    /// The thread that writes profiles can't be started.
    #[error("profiles: {0}")]
    ProfileThread(#[source] Arc<io::Error>),
    /// The thread that writes profiles has panicked.
    #[error("profiles: the writer failed")]
    ProfileWriter,
    /// A file that is full and can't be renamed.
    #[error("{}: cannot be renamed, and grows: {source}", path.display())]
    NotRotated {
        /// Its name.
        path: PathBuf,
        /// The error of the system.
        source: Arc<io::Error>,
    },
    /// A receiver outside of this process that takes no lines.
    #[error("{}: takes no lines: {why}", name.display())]
    Receiver {
        /// Which.
        name: PathBuf,
        /// The error of the system.
        why: String,
    },
    /// A destination outside of this crate.
    #[error("{0}")]
    Destination(#[source] Arc<dyn std::error::Error + Send + Sync>),
}

/// A value of a setting that can't be one.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SettingError {
    /// `filemode`.
    #[error("filemode {0}: not an octal number")]
    FileMode(String),
    /// `facility` and `level` of syslog.
    #[error("{0}: no facility and level of syslog: write local5 and Info, or others of syslog(3)")]
    Syslog(String),
    /// `redis.mode`.
    #[error("redis mode {0}: write list, rpush, channel or stream")]
    RedisMode(String),
    /// `redis.port`.
    #[error("redis.port {0:?} is not a port: write a number from 1 to 65535")]
    RedisPort(String),
    /// `tcp.port`.
    #[error(
        "tcp.port {0:?} is not a port: write a number from 1 to 65535 below tcp, next to server"
    )]
    TcpPort(String),
    /// `rotate-size`.
    #[error(
        "rotate-size: {0}: not a size: write a number of bytes, or one with kb, mb or gb, as 100mb"
    )]
    RotateSize(String),
    /// `rotate-interval`.
    #[error(
        "rotate-interval: {0}: not an interval: write minute, hour, day, or a number that \
         s, m, h, d or w follows, as 30m"
    )]
    RotateInterval(String),
}

impl OutputError {
    /// The error of a file or folder.
    pub(crate) fn io(path: &Path) -> impl Fn(io::Error) -> OutputError + '_ {
        move |source| OutputError::Io { path: path.to_owned(), source: Arc::new(source) }
    }

    /// The error of a database.
    pub(crate) fn database(path: &Path) -> impl Fn(rusqlite::Error) -> OutputError + '_ {
        move |source| OutputError::Database { path: path.to_owned(), source: Arc::new(source) }
    }

    /// An error of a destination outside of this crate.
    pub fn of_destination(
        source: impl Into<Box<dyn std::error::Error + Send + Sync>>,
    ) -> OutputError {
        OutputError::Destination(source.into().into())
    }
}
