//! The log of the system, through the socket at which its daemon listens, as syslog(3) writes to it (RFC 3164).

use super::unix::send_datagrams;
use super::{Lines, PATIENCE, Receive, Sent};
use crate::clock;
use gabion_record::files::{Endpoint, FileOpener};
use std::io::{self, ErrorKind, Write};
use std::os::unix::net::UnixDatagram;

/// Where the daemon listens.
const SOCKET: &str = "/dev/log";

/// Facilities by name (RFC 5424, section 6.2.1; syslog.conf(5)).
const FACILITIES: [(&str, u8); 21] = [
    ("kern", 0),
    ("user", 1),
    ("mail", 2),
    ("daemon", 3),
    ("auth", 4),
    ("security", 4),
    ("syslog", 5),
    ("lpr", 6),
    ("news", 7),
    ("uucp", 8),
    ("cron", 9),
    ("authpriv", 10),
    ("ftp", 11),
    ("local0", 16),
    ("local1", 17),
    ("local2", 18),
    ("local3", 19),
    ("local4", 20),
    ("local5", 21),
    ("local6", 22),
    ("local7", 23),
];

/// Levels by name.
const LEVELS: [(&str, u8); 8] = [
    ("emergency", 0),
    ("alert", 1),
    ("critical", 2),
    ("error", 3),
    ("warning", 4),
    ("notice", 5),
    ("info", 6),
    ("debug", 7),
];

fn number_of(name: &str, all: &[(&str, u8)]) -> Option<u8> {
    all.iter().find(|(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, n)| *n)
}

/// The number that stands before a message of this facility and level; none where one of the names is not known.
pub fn priority(facility: &str, level: &str) -> Option<u8> {
    Some(number_of(facility, &FACILITIES)? * 8 + number_of(level, &LEVELS)?)
}

/// Lines to the system's log.
#[derive(Debug)]
pub struct SyslogReceiver {
    files: FileOpener,
    endpoint: Endpoint,
    priority: u8,
    identity: String,
    /// Writes a moment, in seconds since 1970, in local time: `Nov 28 04:00:01`.
    stamp: fn(u64) -> String,
    socket: Option<UnixDatagram>,
}

impl SyslogReceiver {
    /// Messages of this priority (see [`priority`]) by this name. `stamp` writes a moment, in seconds since 1970, in
    /// local time: `Nov 28 04:00:01`. `files` connects to the daemon.
    pub fn new(
        files: FileOpener,
        priority: u8,
        identity: &str,
        stamp: fn(u64) -> String,
    ) -> SyslogReceiver {
        let endpoint = Endpoint::DatagramsAt(SOCKET.into());
        let identity = identity.to_owned();
        SyslogReceiver { files, endpoint, priority, identity, stamp, socket: None }
    }

    /// The socket's path.
    pub fn path() -> &'static str {
        SOCKET
    }
}

impl Receive for SyslogReceiver {
    fn connect(&mut self) -> io::Result<()> {
        if self.socket.is_none() {
            let socket = UnixDatagram::from(self.files.connect(&self.endpoint)?);
            socket.set_write_timeout(Some(PATIENCE))?;
            self.socket = Some(socket);
        }
        Ok(())
    }

    fn send(&mut self, lines: &Lines) -> (Sent, io::Result<()>) {
        let Some(socket) = &self.socket else {
            return (Sent::default(), Err(ErrorKind::NotConnected.into()));
        };
        let stamp = (self.stamp)(clock::since_epoch().as_secs());
        let head =
            format!("<{}>{stamp} {}[{}]: ", self.priority, self.identity, std::process::id());
        send_datagrams(socket, lines, |line, to| {
            // Writing to memory does not fail.
            let _ = to.write_all(head.as_bytes());
            to.extend_from_slice(line.strip_suffix(b"\n").unwrap_or(line));
        })
    }

    fn close(&mut self) {
        self.socket = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_have_numbers() {
        assert_eq!(priority("local5", "Info"), Some(21 * 8 + 6));
        assert_eq!(priority("daemon", "Error"), Some(27));
        assert_eq!(priority("local9", "Info"), None);
        assert_eq!(priority("local5", "loud"), None);
    }

    /// `<174>Nov 28 04:00:01 suricata[12]: {…}`
    #[test]
    fn a_message_has_its_head() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log");
        let daemon = UnixDatagram::bind(&path).unwrap();
        let stamp = |_| "Nov 28 04:00:01".to_owned();
        let mut sender = SyslogReceiver::new(crate::files::direct_opener(), 174, "suricata", stamp);
        sender.endpoint = Endpoint::DatagramsAt(path);
        sender.connect().unwrap();
        let (sent, result) = sender.send(&Lines::from_list(&[b"{\"a\":1}\n"]));
        assert!(sent.lines == 1 && result.is_ok());
        let mut bytes = [0; 256];
        let n = daemon.recv(&mut bytes).unwrap();
        let text = String::from_utf8_lossy(&bytes[..n]).into_owned();
        let head = "<174>Nov 28 04:00:01 suricata";
        assert_eq!(text, format!("{head}[{}]: {{\"a\":1}}", std::process::id()));
    }
}
