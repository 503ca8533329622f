//! The security tokens of session setups: SPNEGO (RFC 4178), in it Kerberos (RFC 4121) or NTLMSSP, or
//! NTLMSSP alone (MS-NLMP).

use super::limits::SERVICE_NAMES_MAX;
use super::ntlmssp::Ntlmssp;
use crate::ber::Reader;

/// Tags of the tokens.
mod tag {
    pub(super) const SEQUENCE: u8 = 0x30;
    pub(super) const OCTETS: u8 = 0x04;
    pub(super) const OID: u8 = 0x06;
    pub(super) const GENERAL_STRING: u8 = 0x1b;
    /// The initial token of a mechanism (RFC 2743 3.1).
    pub(super) const INITIAL: u8 = 0x60;
    /// The ticket of an AP-REQ (RFC 4120 5.3).
    pub(super) const TICKET: u8 = 0x61;
    /// An AP-REQ (RFC 4120 5.5.1).
    pub(super) const AP_REQ: u8 = 0x6e;
    /// The field of a structure by its number.
    pub(super) const fn field(number: u8) -> u8 {
        0xa0 | number
    }
}

/// The mechanism Kerberos 5, 1.2.840.113554.1.2.2 (RFC 4121).
const KERBEROS: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x12, 0x01, 0x02, 0x02];

/// The service that a Kerberos ticket is for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Kerberos {
    /// The realm.
    pub realm: Vec<u8>,
    /// The parts of the service's name.
    pub service_names: Vec<Vec<u8>>,
}

/// The content of a security token.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Token {
    pub(super) kerberos: Option<Kerberos>,
    pub(super) ntlmssp: Option<Ntlmssp>,
}

impl Token {
    /// Reads a token.
    pub(super) fn from_bytes(bytes: &[u8]) -> Token {
        let kerberos = spnego_token(bytes).and_then(kerberos_ticket);
        let ntlmssp = if kerberos.is_none() { Ntlmssp::from_bytes(bytes) } else { None };
        Token { kerberos, ntlmssp }
    }
}

/// The mechanism's token in one of SPNEGO.
fn spnego_token(bytes: &[u8]) -> Option<&[u8]> {
    let outer = Reader::new(bytes).next()?;
    let negotiation = match outer.tag {
        tag::INITIAL => {
            let mut inner = Reader::new(outer.value);
            inner.expect(tag::OID)?;
            inner.next()?
        }
        _ => outer,
    };
    let fields = match negotiation.tag {
        t if t == tag::field(0) || t == tag::field(1) => {
            Reader::new(negotiation.value).expect(tag::SEQUENCE)?
        }
        _ => return None,
    };
    // The token has the same number in the first message and in those that answer it.
    Reader::new(find_field(fields, tag::field(2))?).expect(tag::OCTETS)
}

/// The first element of that tag.
fn find_field(bytes: &[u8], wanted: u8) -> Option<&[u8]> {
    let mut fields = Reader::new(bytes);
    std::iter::from_fn(|| fields.next()).find(|field| field.tag == wanted).map(|field| field.value)
}

/// The service that the ticket in an initial token of Kerberos is for.
fn kerberos_ticket(bytes: &[u8]) -> Option<Kerberos> {
    let initial = Reader::new(bytes).expect(tag::INITIAL)?;
    let mut parts = Reader::new(initial);
    if parts.expect(tag::OID)? != KERBEROS {
        return None;
    }
    // Two bytes are the type of the token (RFC 4121 4.1).
    let request = initial.get(2 + KERBEROS.len() + 2..)?;
    let request = Reader::new(request).expect(tag::AP_REQ)?;
    let fields = Reader::new(request).expect(tag::SEQUENCE)?;
    let ticket = Reader::new(find_field(fields, tag::field(3))?).expect(tag::TICKET)?;
    let fields = Reader::new(ticket).expect(tag::SEQUENCE)?;
    let realm = Reader::new(find_field(fields, tag::field(1))?).expect(tag::GENERAL_STRING)?;
    let name = Reader::new(find_field(fields, tag::field(2))?).expect(tag::SEQUENCE)?;
    let names = Reader::new(find_field(name, tag::field(1))?).expect(tag::SEQUENCE)?;
    let mut names = Reader::new(names);
    let service_names = std::iter::from_fn(|| names.expect(tag::GENERAL_STRING))
        .take(SERVICE_NAMES_MAX)
        .map(<[u8]>::to_vec)
        .collect();
    Some(Kerberos { realm: realm.to_vec(), service_names })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn element(tag: u8, parts: &[&[u8]]) -> Vec<u8> {
        let value = parts.concat();
        let mut out = vec![tag];
        match value.len() {
            len @ 0..0x80 => out.push(len as u8),
            len => out.extend([0x82, (len >> 8) as u8, len as u8]),
        }
        out.extend(value);
        out
    }

    /// An AP-REQ for a service (RFC 4120 5.5.1, 5.3), as the initial token of Kerberos (RFC 4121 4.1).
    fn kerberos_token(mechanism: &[u8], realm: &[u8], names: &[&[u8]]) -> Vec<u8> {
        let names: Vec<u8> =
            names.iter().flat_map(|n| element(tag::GENERAL_STRING, &[n])).collect();
        let name = element(
            tag::SEQUENCE,
            &[
                &element(tag::field(0), &[b"\x02\x01\x02"]),
                &element(tag::field(1), &[&element(tag::SEQUENCE, &[&names])]),
            ],
        );
        let ticket = element(
            tag::SEQUENCE,
            &[
                &element(tag::field(0), &[b"\x02\x01\x05"]),
                &element(tag::field(1), &[&element(tag::GENERAL_STRING, &[realm])]),
                &element(tag::field(2), &[&name]),
                &element(tag::field(3), &[&element(tag::SEQUENCE, &[&[0; 200]])]),
            ],
        );
        let request = element(
            tag::SEQUENCE,
            &[
                &element(tag::field(0), &[b"\x02\x01\x05"]),
                &element(tag::field(1), &[b"\x02\x01\x0e"]),
                &element(tag::field(2), &[b"\x03\x05\0\x20\0\0\0"]),
                &element(tag::field(3), &[&element(tag::TICKET, &[&ticket])]),
            ],
        );
        let mechanism = element(tag::OID, &[mechanism]);
        element(tag::INITIAL, &[&mechanism, b"\x01\0", &element(tag::AP_REQ, &[&request])])
    }

    /// The first token of SPNEGO (RFC 4178 4.2.1) around one of a mechanism, and the ones that follow it.
    fn spnego(token: &[u8]) -> [Vec<u8>; 2] {
        let token = element(tag::field(2), &[&element(tag::OCTETS, &[token])]);
        let mechanisms = element(tag::SEQUENCE, &[&element(tag::OID, &[KERBEROS])]);
        let first = element(tag::SEQUENCE, &[&element(tag::field(0), &[&mechanisms]), &token]);
        let first = element(tag::field(0), &[&first]);
        let first = element(tag::INITIAL, &[b"\x06\x06\x2b\x06\x01\x05\x05\x02", &first]);
        [first, element(tag::field(1), &[&element(tag::SEQUENCE, &[&token])])]
    }

    /// The service and the realm of a ticket are found in the first token and in one that follows.
    #[test]
    fn tickets_in_spnego_name_their_service() {
        let token = kerberos_token(KERBEROS, b"EX.COM", &[b"cifs", b"srv.ex.com"]);
        let expected = Kerberos {
            realm: b"EX.COM".to_vec(),
            service_names: vec![b"cifs".to_vec(), b"srv.ex.com".to_vec()],
        };
        for bytes in spnego(&token) {
            let found = Token::from_bytes(&bytes);
            assert_eq!(found, Token { kerberos: Some(expected.clone()), ntlmssp: None });
            for end in 0..bytes.len() {
                assert_eq!(Token::from_bytes(&bytes[..end]), Token::default());
            }
        }
    }

    /// A token of another mechanism has none, and of many names only some are kept.
    #[test]
    fn other_tokens_name_no_service() {
        let other = kerberos_token(b"\x2a\x03", b"EX.COM", &[b"cifs"]);
        for bytes in spnego(&other).iter().chain([&other, &b"\x60\0".to_vec(), &Vec::new()]) {
            assert_eq!(Token::from_bytes(bytes), Token::default());
        }
        let many = vec![&b"n"[..]; SERVICE_NAMES_MAX + 3];
        let [first, _] = spnego(&kerberos_token(KERBEROS, b"R", &many));
        let found = Token::from_bytes(&first).kerberos.expect("a ticket");
        assert_eq!(found.service_names.len(), SERVICE_NAMES_MAX);
    }
}
