//! The server's certificates in the TLS handshake that follows the negotiation.

use super::limits::reached;
use x509_parser::prelude::{FromDer, X509Certificate};

/// Bytes of a TLS record's header (RFC 8446 5.1).
const RECORD_HEADER_BYTES: usize = 5;

/// Kinds of records and handshake messages (RFC 8446 5.1 and 4).
mod kind {
    pub(super) const CHANGE_CIPHER: u8 = 20;
    pub(super) const ALERT: u8 = 21;
    pub(super) const HANDSHAKE: u8 = 22;
    pub(super) const APPLICATION_DATA: u8 = 23;
    pub(super) const CERTIFICATE: u8 = 11;
}

/// Whether TLS may begin with a record of this kind. Suricata 8.0.7 takes handshakes only, so that an alert before them
/// hides the certificates.
pub(super) fn may_begin_with(first: u8) -> bool {
    matches!(first, kind::CHANGE_CIPHER | kind::ALERT | kind::HANDSHAKE)
}

/// A direction of a handshake.
#[derive(Debug, Default)]
pub(super) struct Handshake {
    /// The handshake message so far, of which more is to come.
    message: Vec<u8>,
    /// The certificates were found, or the rest is encrypted.
    pub(super) is_over: bool,
}

/// The outcome of a piece of a stream of records.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Taken {
    /// Bytes of whole records.
    pub(super) used: usize,
    /// Numbers of the certificates that were found.
    pub(super) serials: Option<Vec<Vec<u8>>>,
}

impl Handshake {
    /// Takes whole records.
    pub(super) fn take_records(&mut self, bytes: &[u8]) -> Taken {
        let mut used = 0;
        while !self.is_over {
            let rest = bytes.get(used..).unwrap_or_default();
            let Some(head) = rest.first_chunk::<RECORD_HEADER_BYTES>() else { break };
            let len = usize::from(u16::from_be_bytes([head[3], head[4]]));
            let end = RECORD_HEADER_BYTES + len;
            let Some(record) = rest.get(RECORD_HEADER_BYTES..end) else { break };
            used += end;
            match head[0] {
                kind::HANDSHAKE => {
                    if let Some(serials) = self.take_handshake(record) {
                        self.is_over = true;
                        self.message = Vec::new();
                        return Taken { used, serials: Some(serials) };
                    }
                }
                kind::APPLICATION_DATA => self.is_over = true,
                _ => {}
            }
        }
        Taken { used, serials: None }
    }

    /// Takes a record of handshake messages; returns the certificates' numbers when they are whole.
    fn take_handshake(&mut self, record: &[u8]) -> Option<Vec<Vec<u8>>> {
        if !crate::limits::reached::PENDING_BYTES_MAX.holds(self.message.len() + record.len()) {
            self.is_over = true;
            self.message = Vec::new();
            return None;
        }
        self.message.extend_from_slice(record);
        loop {
            let head = self.message.first_chunk::<4>()?;
            let len = u32::from_be_bytes([0, head[1], head[2], head[3]]);
            let end = 4 + usize::try_from(len).ok()?;
            let body = self.message.get(4..end)?;
            if head[0] == kind::CERTIFICATE {
                return Some(certificate_numbers(body));
            }
            self.message.drain(..end);
        }
    }
}

/// Numbers of a chain's certificates (RFC 5246 7.4.2) in hexadecimal.
fn certificate_numbers(body: &[u8]) -> Vec<Vec<u8>> {
    let mut numbers = Vec::new();
    let mut rest = body.get(3..).unwrap_or_default();
    let mut count = 0;
    while let Some(([a, b, c], after)) = rest.split_first_chunk::<3>() {
        let len = u32::from_be_bytes([0, *a, *b, *c]) as usize;
        let Some((der, after)) = after.split_at_checked(len) else { break };
        rest = after;
        if !reached::CERTIFICATES_MAX.has_room(count) {
            break;
        }
        count += 1;
        if let Ok((_, certificate)) = X509Certificate::from_der(der) {
            let text = gabion_record::hex::to_hex(certificate.raw_serial());
            let digits = text.trim_start_matches('0');
            numbers.push(if digits.is_empty() { b"0".to_vec() } else { digits.into() });
        }
    }
    numbers
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A handshake without certificates ends with the first encrypted record, whatever its pieces.
    #[test]
    fn records_are_taken_whole() {
        let stream = b"\x16\x03\x03\0\x06\x02\0\0\x02ab\x14\x03\x03\0\x01\x01\x17\x03\x03\0\x01x";
        let mut handshake = Handshake::default();
        assert_eq!(handshake.take_records(&stream[..10]).used, 0);
        assert_eq!(handshake.take_records(stream).used, stream.len());
        assert!(handshake.is_over);
        let mut handshake = Handshake::default();
        let empty = b"\x16\x03\x03\0\x07\x0b\0\0\x03\0\0\0";
        assert_eq!(handshake.take_records(empty).serials, Some(Vec::new()));
    }

    #[test]
    fn handshakes_and_chains_are_bounded() {
        let mut handshake = Handshake::default();
        let record = [&b"\x16\x03\x03\x40\0"[..], &[1; 0x4000]].concat();
        (0..10).for_each(|_| {
            handshake.take_records(&record);
        });
        assert!(handshake.is_over && handshake.message.is_empty());
        let one = b"\0\0\0".repeat(40);
        certificate_numbers(&[b"\0\0\0", &one[..]].concat());
        assert_eq!(
            gabion_record::limits::take_reached().times_reached(&reached::CERTIFICATES_MAX),
            1
        );
    }
}
