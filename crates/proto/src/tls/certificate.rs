//! X.509 certificates of a handshake: what rules and EVE take from the first of a chain.
//!
//! Names are written as the `x509-parser` crate writes them, which is also what Suricata uses, so
//! that subject and issuer compare byte for byte (`C=US, ST=…, CN=…`).

use super::limits::{ALT_NAMES_MAX, reached};
use super::tables::event;
use gabion_record::hex;
use sha1::Digest;
use std::fmt::Write;
use x509_parser::error::X509Error;
use x509_parser::extensions::GeneralName;
use x509_parser::prelude::*;

/// What is kept of a certificate.
#[derive(Clone, Debug, Default)]
pub struct Certificate {
    /// Subject.
    pub subject: Vec<u8>,
    /// Issuer.
    pub issuer: Vec<u8>,
    /// Serial number, upper-case hex pairs with colons, as encoded (a leading `00` stays).
    pub serial: Vec<u8>,
    /// SHA-1 of the certificate, lower-case hex pairs with colons.
    pub fingerprint: Vec<u8>,
    /// First second of validity since 1970.
    pub not_before: i64,
    /// Last second of validity since 1970.
    pub not_after: i64,
    /// Names of subjectAltName, as text.
    pub alt_names: Vec<Vec<u8>>,
    /// There are as many names of subjectAltName as are kept, or more: Suricata has an event for both.
    pub has_too_many_names: bool,
}

/// Reads a certificate; the error is the code of the event to raise.
pub fn parse(der: &[u8]) -> Result<Certificate, u16> {
    let (_, c) = X509Certificate::from_der(der).map_err(|e| event_of(&e))?;
    let serial = hex::to_hex_pairs(c.raw_serial(), ':').to_ascii_uppercase().into_bytes();
    let mut alt_names = Vec::new();
    let mut has_too_many_names = false;
    if let Ok(Some(names)) = c.subject_alternative_name() {
        has_too_many_names = names.value.general_names.len() >= ALT_NAMES_MAX;
        let names = names.value.general_names.iter().enumerate();
        let names = names.take_while(|(n, _)| reached::ALT_NAMES_MAX.has_room(*n));
        alt_names.extend(names.map(|(_, name)| alt_name(name)));
    }
    Ok(Certificate {
        subject: c.subject().to_string().into_bytes(),
        issuer: c.issuer().to_string().into_bytes(),
        serial,
        fingerprint: fingerprint(der),
        not_before: c.validity().not_before.timestamp(),
        not_after: c.validity().not_after.timestamp(),
        alt_names,
        has_too_many_names,
    })
}

/// SHA-1 in lower-case hex pairs with colons.
fn fingerprint(der: &[u8]) -> Vec<u8> {
    hex::to_hex_pairs(&sha1::Sha1::digest(der), ':').into_bytes()
}

/// Host names and URIs as they are, addresses as a list of bytes, all else as the crate names it
/// (measured with Suricata 8.0.7).
fn alt_name(name: &GeneralName<'_>) -> Vec<u8> {
    let mut text = String::new();
    let written = match name {
        GeneralName::DNSName(n) | GeneralName::URI(n) => write!(text, "{n}"),
        GeneralName::IPAddress(bytes) => write!(text, "{bytes:?}"),
        other => write!(text, "{other}"),
    };
    // Writing to a string does not fail; a name whose own text fails is left as far as it came.
    written.map_or_else(|_| Vec::new(), |()| text.into_bytes())
}

fn event_of(error: &x509_parser::nom::Err<X509Error>) -> u16 {
    let error = match error {
        x509_parser::nom::Err::Incomplete(_) => return event::CERTIFICATE_INVALID_LENGTH,
        x509_parser::nom::Err::Error(e) | x509_parser::nom::Err::Failure(e) => e,
    };
    match error {
        X509Error::InvalidVersion => event::CERTIFICATE_INVALID_VERSION,
        X509Error::InvalidSerial => event::CERTIFICATE_INVALID_SERIAL,
        X509Error::InvalidAlgorithmIdentifier => event::CERTIFICATE_INVALID_ALGORITHMIDENTIFIER,
        X509Error::InvalidX509Name => event::CERTIFICATE_INVALID_X509NAME,
        X509Error::InvalidDate => event::CERTIFICATE_INVALID_DATE,
        X509Error::InvalidExtensions => event::CERTIFICATE_INVALID_EXTENSIONS,
        X509Error::Der(_) => event::CERTIFICATE_INVALID_DER,
        _ => event::INVALID_CERTIFICATE,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_certificate() {
        assert_eq!(parse(b"hello world").err(), Some(event::INVALID_CERTIFICATE));
        for i in 0..=255u8 {
            assert!(parse(&[0x30, i, i, i]).is_err());
        }
    }
}
