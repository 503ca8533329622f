//! Lines for a receiver outside of this process, as a destination of outputs: `filetype` of EVE.

use crate::error::{OutputError, SettingError};
use crate::output::{Destination, Piece, PieceKind};
use crate::output_kind::Opening;
use gabion_record::Tree;
use gabion_record::ledger::{Ledger, ShedReason};
use gabion_runtime::receivers::{
    Receive, RedisMode, RedisReceiver, RedisSettings, Spool, SpoolCounts, SyslogReceiver,
    TcpReceiver, UnixReceiver, syslog_priority,
};
use jiff::Timestamp;
use jiff::tz::TimeZone;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Lines for a receiver.
#[derive(Debug)]
pub(crate) struct Receiver {
    /// What stands for it in the ledger and in messages.
    name: PathBuf,
    spool: Spool,
    ledger: Ledger,
    /// What of the spool's counts is in the ledger.
    entered: SpoolCounts,
    /// Stands before each line.
    prefix: Vec<u8>,
    line: Vec<u8>,
}

/// Where lines go, as the node of an output says it.
enum Target {
    Unix { path: PathBuf, is_stream: bool },
    Syslog { priority: u8, identity: String },
    Redis(RedisSettings),
    Tcp { server: String, port: u16 },
}

/// The server of Redis, or behind a port, where none is named.
const SERVER: &str = "127.0.0.1";
/// Redis' port, and Suricata's defaults.
const REDIS_PORT: u16 = 6379;
const REDIS_KEY: &str = "suricata";
const REDIS_BATCH: usize = 10;
const REDIS_STREAM_LEN: u64 = 100_000;
/// Suricata 8.0.7 writes to local0 where no facility is given, as an emergency where no level is: that would be shown to
/// all who are logged in, so the level here is that of its manual.
const SYSLOG_FACILITY: &str = "local0";

/// Whether this `filetype` names a receiver.
pub(crate) fn is_receiver(filetype: &str) -> bool {
    matches!(filetype, "unix_dgram" | "unix_stream" | "syslog" | "redis" | "tcp")
}

/// What is wrong with the settings of a receiver, if the node names one.
///
/// # Errors
/// The value that can't be one.
pub(crate) fn check(node: &Tree) -> Result<(), SettingError> {
    target(node, Path::new("")).map(|_| ())
}

/// Where the lines of a node go; none where they go into a file.
fn target(node: &Tree, folder: &Path) -> Result<Option<Target>, SettingError> {
    Ok(Some(match node.text("filetype").unwrap_or("regular") {
        kind @ ("unix_dgram" | "unix_stream") => {
            let path = folder.join(node.text("filename").unwrap_or("eve.json"));
            Target::Unix { path, is_stream: kind == "unix_stream" }
        }
        "syslog" => {
            let facility = node.text("facility").unwrap_or(SYSLOG_FACILITY);
            let level = node.text("level").unwrap_or("Info");
            let priority = syslog_priority(facility, level)
                .ok_or_else(|| SettingError::Syslog(format!("{facility}.{level}")))?;
            let identity = node.text("identity").unwrap_or("suricata").to_owned();
            Target::Syslog { priority, identity }
        }
        "redis" => Target::Redis(redis(node.get("redis").unwrap_or(&Tree::default()))?),
        "tcp" => {
            let port = node.text("tcp.port").unwrap_or_default();
            let port = port.parse().map_err(|_| SettingError::TcpPort(port.to_owned()))?;
            let server = node.text("tcp.server").unwrap_or(SERVER).to_owned();
            Target::Tcp { server, port }
        }
        _ => return Ok(None),
    }))
}

fn redis(node: &Tree) -> Result<RedisSettings, SettingError> {
    let mode = match node.text("mode").unwrap_or("list") {
        "list" | "lpush" => RedisMode::PushFirst,
        "rpush" => RedisMode::PushLast,
        "channel" | "publish" => RedisMode::Publish,
        "stream" | "xadd" => RedisMode::Stream {
            len_max: node.number("stream-maxlen").unwrap_or(REDIS_STREAM_LEN),
            is_exact: node.flag("stream-trim-exact") == Some(true),
        },
        other => return Err(SettingError::RedisMode(other.to_owned())),
    };
    let port = match node.text("port") {
        None => REDIS_PORT,
        Some(text) => text.parse().map_err(|_| SettingError::RedisPort(text.to_owned()))?,
    };
    let pipelined = node.get("pipelining").filter(|p| p.flag("enabled") == Some(true));
    let batch = pipelined.map_or(1, |p| {
        let size = p.number("batch-size").and_then(|n| usize::try_from(n).ok());
        size.unwrap_or(REDIS_BATCH).clamp(1, crate::limits::REDIS_BATCH_MAX)
    });
    Ok(RedisSettings {
        server: node.text("server").unwrap_or(SERVER).to_owned(),
        port,
        mode,
        key: node.text("key").unwrap_or(REDIS_KEY).to_owned(),
        batch,
    })
}

/// A moment as messages of syslog show it.
fn stamp(seconds: u64) -> String {
    let at = Timestamp::from_second(i64::try_from(seconds).unwrap_or_default());
    let at = at.unwrap_or_default().to_zoned(TimeZone::system());
    jiff::fmt::strtime::format("%b %e %H:%M:%S", &at).unwrap_or_default()
}

impl Receiver {
    /// The receiver that the node of an output names; none where it writes a file.
    ///
    /// # Errors
    /// The value that can't be one; that no thread can be started.
    pub(crate) fn open(o: &Opening<'_>) -> Result<Option<Receiver>, OutputError> {
        let shown = PathBuf::from(o.name);
        let target = target(o.node, o.folder)
            .map_err(|source| OutputError::Setting { path: shown.clone(), source })?;
        let files = o.files.clone();
        let (name, receiver): (PathBuf, Box<dyn Receive>) = match target {
            None => return Ok(None),
            Some(Target::Unix { path, is_stream: true }) => {
                (path.clone(), Box::new(UnixReceiver::stream(files, path)))
            }
            Some(Target::Unix { path, is_stream: false }) => {
                (path.clone(), Box::new(UnixReceiver::datagrams(files, path)))
            }
            Some(Target::Syslog { priority, identity }) => {
                ("syslog".into(), Box::new(SyslogReceiver::new(files, priority, &identity, stamp)))
            }
            Some(Target::Redis(settings)) => {
                let name = if settings.server.starts_with('/') {
                    format!("redis {}", settings.server.replace('/', "_"))
                } else {
                    format!("redis {}:{}", settings.server, settings.port)
                };
                (name.into(), Box::new(RedisReceiver::new(files, settings)))
            }
            Some(Target::Tcp { server, port }) => (
                format!("tcp {server}:{port}").into(),
                Box::new(TcpReceiver::new(files, server, port)),
            ),
        };
        let spool = Spool::start(o.name, receiver)
            .map_err(|e| OutputError::NotWritable { path: name.clone(), source: Arc::new(e) })?;
        let prefix = o.node.text("prefix").unwrap_or_default().as_bytes().to_vec();
        let (ledger, entered) = (Ledger::default(), SpoolCounts::default());
        Ok(Some(Receiver { name, spool, ledger, entered, prefix, line: Vec::new() }))
    }

    /// Enters what the spool has counted since the last time.
    fn settle(&mut self) {
        let (now, before) = (self.spool.counts(), self.entered);
        self.ledger.pass(now.sent.0 - before.sent.0, now.sent.1 - before.sent.1);
        let (lines, bytes) = (now.failed.0 - before.failed.0, now.failed.1 - before.failed.1);
        self.ledger.shed(ShedReason::OutputFailed, lines, bytes);
        self.entered = now;
    }

    fn put(&mut self, line: &[u8]) {
        let line = if self.prefix.is_empty() {
            line
        } else {
            self.line.clear();
            self.line.extend_from_slice(&self.prefix);
            self.line.extend_from_slice(line);
            &self.line
        };
        let bytes = line.len() as u64;
        self.ledger.receive(1, bytes);
        if !self.spool.push(line) {
            self.ledger.shed(ShedReason::RingFull, 1, bytes);
        }
    }
}

impl Destination for Receiver {
    fn write(&mut self, piece: &Piece<'_>) {
        match piece.kind {
            PieceKind::Line | PieceKind::Finding(_) => self.put(piece.bytes),
            PieceKind::FlowRecord(_)
            | PieceKind::Frame(_)
            | PieceKind::FileRecord(_)
            | PieceKind::StreamBytes(_)
            | PieceKind::Certificates(_) => {}
        }
    }

    fn flush(&mut self) -> Result<(), OutputError> {
        self.spool.finish();
        self.settle();
        match self.spool.fault() {
            Some(why) => Err(OutputError::Receiver { name: self.name.clone(), why }),
            None => Ok(()),
        }
    }

    fn flush_lines(&mut self) {
        self.settle();
    }

    fn never_wait(&mut self) {
        self.spool.never_wait();
    }

    fn line_file(&self) -> Option<(&Path, &Ledger)> {
        Some((&self.name, &self.ledger))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(keys: &[(&str, &str)]) -> Tree {
        let mut node = Tree::default();
        keys.iter().for_each(|(key, value)| node.set(key, value));
        node
    }

    #[test]
    fn keys_are_those_of_suricata() {
        let of = |keys: &[(&str, &str)]| redis(&node(keys)).unwrap();
        let plain = of(&[]);
        assert_eq!((plain.server.as_str(), plain.port, plain.batch), ("127.0.0.1", 6379, 1));
        assert_eq!((plain.mode, plain.key.as_str()), (RedisMode::PushFirst, "suricata"));
        let batched = of(&[("pipelining.enabled", "yes"), ("pipelining.batch-size", "25")]);
        assert_eq!(batched.batch, 25);
        let stream = of(&[("mode", "stream"), ("stream-maxlen", "100"), ("key", "eve")]);
        assert_eq!(stream.mode, RedisMode::Stream { len_max: 100, is_exact: false });
        let (usual, endless) =
            (of(&[("mode", "xadd")]), of(&[("mode", "xadd"), ("stream-maxlen", "0")]));
        assert_eq!(usual.mode, RedisMode::Stream { len_max: 100_000, is_exact: false });
        assert_eq!(endless.mode, RedisMode::Stream { len_max: 0, is_exact: false });
        assert!(redis(&node(&[("mode", "heap")])).is_err());
        assert!(redis(&node(&[("port", "99999")])).is_err());
    }

    #[test]
    fn what_cannot_be_is_refused() {
        for (keys, is_good) in [
            (&[("filetype", "syslog")][..], true),
            (&[("filetype", "syslog"), ("facility", "local9")], false),
            (&[("filetype", "syslog"), ("level", "loud")], false),
            (&[("filetype", "redis"), ("redis.mode", "publish")], true),
            (&[("filetype", "redis"), ("redis.mode", "x")], false),
            (&[("filetype", "tcp"), ("tcp.port", "5140")], true),
            (&[("filetype", "tcp")], false),
            (&[("filetype", "tcp"), ("tcp.port", "99999")], false),
            (&[("filetype", "regular")], true),
        ] {
            assert_eq!(check(&node(keys)).is_ok(), is_good, "{keys:?}");
        }
    }
}
