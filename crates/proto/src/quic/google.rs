//! Google's QUIC before its handshake became TLS's: the client's hello (`CHLO`) is a list of tags, from which
//! CYU is made, which says about the client what JA3 says about one of TLS.
//!
//! The forms are those of Google's public documents (QUIC Crypto, QUIC Wire Layout Specification). As in Suricata, a
//! hello with a tag that is not known is none, and CYU is made of versions 43 to 46, where 45 counts as 44.

use super::limits::reached;
use crate::tls::fingerprint::write_hex;
use md5::Digest;

/// CYU of a hello.
#[derive(Debug)]
pub(super) struct Cyu {
    pub(super) text: Vec<u8>,
    pub(super) hash: [u8; 32],
}

/// What the hellos of a packet say.
#[derive(Debug, Default)]
pub(super) struct GoogleHello {
    /// Server name (`SNI`).
    pub(super) sni: Option<Box<[u8]>>,
    /// User agent (`UAID`).
    pub(super) ua: Option<Box<[u8]>>,
    /// One for each hello.
    pub(super) cyus: Vec<Cyu>,
}

/// Tags that Suricata 8.0.7 knows.
const TAGS: &[&[u8; 4]] = &[
    b"AEAD", b"CCRT", b"CCS\0", b"CETV", b"CFCW", b"COPT", b"CSCT", b"CTIM", b"ICSL", b"IRTT",
    b"KEXS", b"MIDS", b"MSPC", b"NONC", b"NONP", b"PAD\0", b"PDMD", b"PUBS", b"SCID", b"SCLS",
    b"SFCW", b"SMHL", b"SNI\0", b"SNO\0", b"STK\0", b"TCID", b"UAID", b"VER\0", b"XLCT",
];

/// How CYU writes a version; `None`: of this version it is not made.
fn version_text(version: u32) -> Option<&'static str> {
    match &version.to_be_bytes() {
        b"Q043" => Some("43"),
        b"Q044" | b"Q045" => Some("44"),
        b"Q046" => Some("46"),
        _ => None,
    }
}

/// Whether EVE writes a version as text.
pub(super) fn is_named(version: [u8; 4]) -> bool {
    matches!(&version, b"Q039" | b"Q043" | b"Q044" | b"Q045" | b"Q046")
}

/// Takes what a hello says: `CHLO`, count of tags, two bytes of padding, then each tag with the end of its value,
/// then the values. `None`: it is no hello.
pub(super) fn read_hello(
    version: u32,
    data: &[u8],
    found: &mut Option<Box<GoogleHello>>,
) -> Option<()> {
    let (count, rest) = data.strip_prefix(b"CHLO")?.split_first_chunk::<2>()?;
    let count = usize::from(u16::from_le_bytes(*count));
    let (table, mut values) = rest.get(2..)?.split_at_checked(count.checked_mul(8)?)?;
    let (mut text, mut sni, mut ua, mut start) = (Vec::new(), None, None, 0);
    for row in table.chunks_exact(8) {
        let (tag, end) = row.split_first_chunk::<4>()?;
        let end = u32::from_le_bytes(end.try_into().ok()?);
        let len = usize::try_from(end.checked_sub(start)?).ok()?;
        let (value, rest) = values.split_at_checked(len)?;
        (start, values) = (end, rest);
        if !TAGS.contains(&tag) {
            return None;
        }
        if !text.is_empty() {
            text.push(b'-');
        }
        text.extend(tag.iter().filter(|b| **b != 0));
        match tag {
            b"SNI\0" => sni = Some(value.into()),
            b"UAID" => ua = Some(value.into()),
            _ => {}
        }
    }
    let found = found.get_or_insert_default();
    found.sni = sni.or_else(|| found.sni.take());
    found.ua = ua.or_else(|| found.ua.take());
    if let Some(version) = version_text(version) {
        let text = [version.as_bytes(), b",", &text].concat();
        let mut hash = [0; 32];
        write_hex(&md5::Md5::digest(&text), &mut hash);
        if reached::GOOGLE_HELLOS_MAX.has_room(found.cyus.len()) {
            found.cyus.push(Cyu { text, hash });
        }
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::quic::limits::GOOGLE_HELLOS_MAX;

    fn chlo(tags: &[(&[u8; 4], &[u8])]) -> Vec<u8> {
        let (mut table, mut values) = (Vec::new(), Vec::new());
        for (tag, value) in tags {
            values.extend_from_slice(value);
            table.extend_from_slice(*tag);
            table.extend((values.len() as u32).to_le_bytes());
        }
        [&b"CHLO"[..], &(tags.len() as u16).to_le_bytes(), b"\0\0", &table, &values].concat()
    }

    fn parse_hello(version: &[u8; 4], data: &[u8]) -> Option<Box<GoogleHello>> {
        let mut found = None;
        read_hello(u32::from_be_bytes(*version), data, &mut found);
        found
    }

    /// Hashes and texts are Suricata's (8.0.7) for the same hello.
    #[test]
    fn cyu_of_each_version() {
        let hello = chlo(&[(b"PAD\0", b"----"), (b"SNI\0", b"a.bc"), (b"UAID", b"agent x")]);
        for (version, cyu) in [
            (b"Q043", Some(("43,PAD-SNI-UAID", "e0dd10b160a76e30cc0479aed27c4325"))),
            (b"Q045", Some(("44,PAD-SNI-UAID", "38b51a3ce188bba87bede0c0f72b3cc9"))),
            (b"Q046", Some(("46,PAD-SNI-UAID", "bc252431df58411cd2ea00eba190964f"))),
            (b"Q039", None),
        ] {
            let found = parse_hello(version, &hello).unwrap();
            assert_eq!(
                (found.sni.as_deref(), found.ua.as_deref()),
                (Some(&b"a.bc"[..]), Some(&b"agent x"[..]))
            );
            let is = found.cyus.first().map(|c| (c.text.as_slice(), c.hash.as_slice()));
            assert_eq!(is, cyu.map(|(text, hash)| (text.as_bytes(), hash.as_bytes())));
        }
        assert_eq!(parse_hello(b"Q043", &chlo(&[])).unwrap().cyus[0].text, b"43,");
    }

    #[test]
    fn what_is_no_hello_says_nothing() {
        let hello = chlo(&[(b"PAD\0", b"----"), (b"SNI\0", b"a.bc")]);
        assert!((0..hello.len()).all(|end| parse_hello(b"Q043", &hello[..end]).is_none()));
        assert!(parse_hello(b"Q043", &chlo(&[(b"PAD\0", b"-"), (b"ABCD", b"x")])).is_none());
        assert!(parse_hello(b"Q043", b"REJ\0\0\0\0\0").is_none());
        assert!(
            parse_hello(b"Q043", b"CHLO\x02\0\0\0SNI\0\x03\0\0\0UAID\x01\0\0\0abcdef").is_none()
        );
    }

    #[test]
    fn hellos_of_a_packet_are_bounded() {
        let mut found = None;
        for _ in 0..GOOGLE_HELLOS_MAX + 3 {
            read_hello(u32::from_be_bytes(*b"Q043"), b"CHLO\0\0\0\0", &mut found);
        }
        assert_eq!(found.unwrap().cyus.len(), GOOGLE_HELLOS_MAX);
        assert_eq!(
            gabion_record::limits::take_reached().times_reached(&reached::GOOGLE_HELLOS_MAX),
            3
        );
    }
}
