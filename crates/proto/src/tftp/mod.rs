//! TFTP over UDP (RFC 1350): requests to read and to write. What is transferred goes over other
//! ports.

use crate::datagrams::{Message, Refused, protocol};
use crate::detect::{PortProbe, Probe};
use crate::protocol::Protocol;
use crate::{Buffer, Inspect, LogOptions, Transaction};
use gabion_record::Direction;
use gabion_record::applayer::{ProtoTable, Transport};
use gabion_record::json::Json;
use std::any::Any;

/// A request.
#[derive(Debug)]
pub struct TftpTx {
    id: u64,
    is_write: bool,
    /// Name of the file.
    pub file: Box<[u8]>,
    /// Mode, in lower case.
    pub mode: &'static str,
}

impl Message for TftpTx {
    fn parse_datagram(id: u64, _: Direction, bytes: &[u8]) -> Result<TftpTx, Refused> {
        let (is_write, rest) = match bytes {
            [0, 1, rest @ ..] => (false, rest),
            [0, 2, rest @ ..] => (true, rest),
            _ => return Err(Refused::Ignored),
        };
        let mut texts = rest.split(|b| *b == 0);
        let file = texts.next().ok_or(Refused::Ignored)?;
        // Both end with a zero: something follows the mode, if only nothing.
        let mode = texts.next().filter(|_| texts.next().is_some()).ok_or(Refused::Ignored)?;
        let known = ["netascii", "octet", "mail"];
        let is_it = |m: &&str| mode.eq_ignore_ascii_case(m.as_bytes());
        let mode = known.into_iter().find(is_it).ok_or(Refused::Ignored)?;
        Ok(TftpTx { id, is_write, file: file.into(), mode })
    }

    fn bytes_held(&self) -> usize {
        size_of::<TftpTx>() + self.file.len()
    }
}

impl Transaction for TftpTx {
    fn id(&self) -> u64 {
        self.id
    }

    fn progress(&self, _: Direction) -> u8 {
        1
    }

    fn only(&self) -> Option<Direction> {
        Some(Direction::ToServer)
    }

    fn buffer(&self, _: u16, _: Direction, _: usize, _: Inspect) -> Option<Buffer<'_>> {
        None
    }

    fn events(&self) -> &[u16] {
        &[]
    }

    fn log(&self, json: &mut Json, _: LogOptions<'_>) -> bool {
        json.field_plain("packet", if self.is_write { "write" } else { "read" });
        json.field("file", &self.file);
        json.field_plain("mode", self.mode);
        true
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

const TABLE: ProtoTable =
    ProtoTable { rule_names: &["tftp"], ..ProtoTable::of_requests("tftp", &[Transport::Udp]) };

/// TFTP in the registry.
pub const PROTOCOL: &Protocol = &protocol::<TftpTx>(
    TABLE,
    &[PortProbe { transport: Transport::Udp, ports: "69", min_bytes: 4, max_bytes: 0, probe }],
);

/// An operation code that is assigned.
fn probe(bytes: &[u8], _: Direction) -> Probe {
    match bytes {
        [0, 1..=5, ..] => Probe::Yes,
        _ => Probe::No,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests() {
        let read = |bytes: &[u8]| TftpTx::parse_datagram(0, Direction::ToServer, bytes);
        let tx = read(b"\0\x02a.txt\0OCTET\0blksize\x00512\0").unwrap();
        assert_eq!((&*tx.file, tx.mode, tx.is_write), (&b"a.txt"[..], "octet", true));
        assert_eq!(&*read(b"\0\x01\0octet\0").unwrap().file, b"");
        for bytes in [&b"\0\x03\0\x01data"[..], b"\0\x01a", b"\0\x01a\0octet", b"\0\x01a\0x\0"] {
            assert_eq!(read(bytes).err(), Some(Refused::Ignored), "{bytes:?}");
        }
    }
}
