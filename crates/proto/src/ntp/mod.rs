//! NTP over UDP (RFC 5905 7.3): version, mode, stratum and reference identifier of each message.

mod tables;

use crate::datagrams::{Message, Refused, one_datagram, protocol};
use crate::detect::{PortProbe, Probe};
use crate::protocol::Protocol;
use crate::transaction::EventList;
use crate::{Buffer, Inspect, LogOptions, Transaction};
use gabion_record::Direction;
use gabion_record::applayer::Transport;
use gabion_record::json::Json;
use tables::{event, integer};

/// Bytes of a header.
const HEADER_LEN: usize = 48;

/// A message.
#[derive(Debug)]
pub struct NtpTx {
    id: u64,
    direction: Direction,
    /// Leap indicator, version and mode.
    first: u8,
    /// Distance from a reference clock.
    pub stratum: u8,
    /// The clock or server that is followed.
    pub reference_id: [u8; 4],
    events: EventList,
}

impl NtpTx {
    /// Version.
    pub fn version(&self) -> u8 {
        self.first >> 3 & 7
    }

    /// Mode: 3 is a client's, 4 a server's.
    pub fn mode(&self) -> u8 {
        self.first & 7
    }
}

impl Message for NtpTx {
    fn parse_datagram(id: u64, direction: Direction, bytes: &[u8]) -> Result<NtpTx, Refused> {
        let header: &[u8; HEADER_LEN] = bytes.first_chunk().ok_or(Refused::Wrong)?;
        let [first, stratum, ..] = *header;
        let reference_id = [header[12], header[13], header[14], header[15]];
        Ok(NtpTx { id, direction, first, stratum, reference_id, events: EventList::default() })
    }

    fn refuse(&mut self) {
        self.events.add(event::MALFORMED_DATA);
    }

    fn bytes_held(&self) -> usize {
        size_of::<NtpTx>()
    }
}

impl Transaction for NtpTx {
    one_datagram!();

    fn buffer(&self, _: u16, _: Direction, index: usize, _: Inspect) -> Option<Buffer<'_>> {
        (index == 0).then(|| Buffer::whole(&self.reference_id))
    }

    fn integer(&self, local: u16, _: Direction, index: usize) -> Option<u64> {
        let value = match local {
            integer::VERSION => self.version(),
            integer::MODE => self.mode(),
            integer::STRATUM => self.stratum,
            _ => return None,
        };
        (index == 0).then(|| value.into())
    }

    fn log(&self, json: &mut Json, _: LogOptions<'_>) -> bool {
        json.number("version", self.version());
        json.number("mode", self.mode());
        json.number("stratum", self.stratum);
        let [a, b, c, d] = self.reference_id;
        json.field_plain("reference_id", &format!("{a:02x}:{b:02x}:{c:02x}:{d:02x}"));
        true
    }
}

/// NTP in the registry.
pub const PROTOCOL: &Protocol = &Protocol {
    // Suricata's default configuration has no `ntp` among its types.
    is_logged: false,
    ..protocol::<NtpTx>(
        tables::TABLE,
        &[PortProbe {
            transport: Transport::Udp,
            ports: "123",
            min_bytes: 1,
            max_bytes: 16,
            probe,
        }],
    )
};

/// The version in the first byte, and the length.
fn probe(bytes: &[u8], _: Direction) -> Probe {
    match bytes {
        [first, ..] if bytes.len() >= 12 && matches!(first >> 3 & 7, 3 | 4) => Probe::Yes,
        _ => Probe::No,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_as_suricata_logs_it() {
        let mut bytes = [0u8; HEADER_LEN];
        (bytes[0], bytes[1], bytes[12], bytes[15]) = (0x23, 2, 0x4c, 0xff);
        let tx = NtpTx::parse_datagram(0, Direction::ToServer, &bytes).unwrap();
        let mut json = Json::new();
        json.open();
        tx.log(&mut json, LogOptions::default());
        json.close();
        let expected = b"{\"version\":4,\"mode\":3,\"stratum\":2,\"reference_id\":\"4c:00:00:ff\"}";
        assert_eq!(json.bytes(), expected);
        assert_eq!(probe(&bytes, Direction::ToServer), Probe::Yes);
        // Versions 3 and 4 in any mode.
        let versions = (0..8_u8).filter(|v| {
            (0..8).all(|mode| probe(&[v << 3 | mode; 12], Direction::ToServer) == Probe::Yes)
        });
        assert_eq!(versions.collect::<Vec<_>>(), [3, 4]);
        assert!(NtpTx::parse_datagram(0, Direction::ToServer, &bytes[..47]).is_err());
    }
}
