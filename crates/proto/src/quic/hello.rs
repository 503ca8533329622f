//! Hellos of TLS that came in CRYPTO frames (RFC 8446 4.1), as Suricata reads those of QUIC: differently from those
//! of TLS over TCP. Extensions end with the first one that can't be read, the text of JA3 has reserved values too
//! (RFC 8701), those of extensions as one number, and a text is always followed by its hash.

use super::limits::reached;
use crate::tls::fingerprint::{Hello, Ja3};
use std::cell::OnceCell;

/// Handshake messages (RFC 8446 4).
pub(super) mod message {
    pub(crate) const CLIENT_HELLO: u8 = 1;
    pub(crate) const SERVER_HELLO: u8 = 2;
}

/// A hello. What it says beyond its form is read when something asks for it: rules look into few, and without a record
/// nothing asks for its extensions and fingerprints.
#[derive(Debug, Default)]
pub(super) struct TlsHello {
    /// A client's message.
    is_client: bool,
    /// The client sent it.
    is_from_client: bool,
    body: Box<[u8]>,
    lists: OnceCell<Box<Reading>>,
    ja3: OnceCell<Ja3>,
    ja4: OnceCell<[u8; 36]>,
}

impl TlsHello {
    /// Server name.
    pub(super) fn sni(&self) -> Option<&[u8]> {
        self.lists().sni.as_deref()
    }

    /// JA3 of a client, JA3S of a server.
    pub(super) fn ja3(&self) -> &Ja3 {
        self.ja3.get_or_init(|| self.make_ja3())
    }

    /// JA4 of a client.
    pub(super) fn ja4(&self) -> Option<&[u8; 36]> {
        let is_one = self.is_client && self.is_from_client;
        is_one.then(|| self.ja4.get_or_init(|| self.lists().ja4.ja4(b'q')))
    }

    /// Its extensions in order, with what they say.
    pub(super) fn extensions(&self) -> Vec<Extension> {
        let mut reading = Reading { wants_texts: true, ..Reading::default() };
        reading.read_extensions(self.fixed().extensions.unwrap_or_default());
        reading.extensions
    }

    /// Bytes held.
    pub(super) fn bytes_held(&self) -> usize {
        let lists = self.lists.get().map_or(0, |lists| lists.bytes_held());
        let text = self.ja3.get().map_or(0, |ja3| ja3.text.capacity());
        size_of::<TlsHello>() + self.body.len() + lists + text
    }

    /// What comes before the extensions, which was there when the hello was taken.
    fn fixed(&self) -> Fixed<'_> {
        Fixed::from_body(&self.body, self.is_client).unwrap_or_default()
    }

    fn lists(&self) -> &Reading {
        self.lists.get_or_init(|| {
            let fixed = self.fixed();
            let mut reading = Reading::default();
            list_numbers(fixed.ciphers).for_each(|cipher| reading.ja4.add_cipher(cipher));
            reading.read_extensions(fixed.extensions.unwrap_or_default());
            // A version that has no name in JA4 is none, however high it is.
            if !matches!(reading.ja4.version, Some(0x0300..=0x0304)) {
                reading.ja4.version = None;
            }
            Box::new(reading)
        })
    }

    fn make_ja3(&self) -> Ja3 {
        let (fixed, lists) = (self.fixed(), self.lists());
        let ciphers: Vec<u16> = list_numbers(fixed.ciphers).collect();
        let mut ja3 = Ja3::begin(fixed.version);
        ja3.field(&ciphers);
        ja3.field(&lists.kinds);
        if self.is_client && fixed.extensions.is_some() {
            ja3.field(&lists.groups);
            ja3.field(&lists.formats);
        }
        ja3.finish();
        ja3
    }
}

/// An extension of a hello.
#[derive(Debug)]
pub(super) struct Extension {
    pub(super) kind: u16,
    /// What it says, as texts, for those that Suricata looks into.
    pub(super) values: Vec<Box<[u8]>>,
}

/// Why a message is no hello.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NoHello {
    /// It ends too early.
    Short,
    /// It is something else.
    Wrong,
}

/// Extensions that are looked into.
mod kind {
    pub(super) const SERVER_NAME: u16 = 0;
    pub(super) const FRAGMENT_LENGTH: u16 = 1;
    pub(super) const GROUPS: u16 = 10;
    pub(super) const FORMATS: u16 = 11;
    pub(super) const ALGORITHMS: u16 = 13;
    pub(super) const HEARTBEAT: u16 = 15;
    pub(super) const ALPN: u16 = 16;
    pub(super) const ENCRYPT_THEN_MAC: u16 = 22;
    pub(super) const EXTENDED_SECRET: u16 = 23;
    pub(super) const RECORD_SIZE: u16 = 28;
    pub(super) const EARLY_DATA: u16 = 42;
    pub(super) const VERSIONS: u16 = 43;
    pub(super) const PSK_MODES: u16 = 45;
    pub(super) const OID_FILTERS: u16 = 48;
    pub(super) const POST_HANDSHAKE: u16 = 49;
    pub(super) const NEXT_PROTOCOL: u16 = 13172;
    pub(super) const RENEGOTIATION: u16 = 65281;
    pub(super) const ENCRYPTED_NAME: u16 = 65486;
    /// What stands for all reserved ones.
    pub(super) const RESERVED: u16 = 0xfafa;
}

/// Longest session id (RFC 8446 4.1.2).
const SESSION_ID_BYTES: usize = 32;

/// Draft 18 of TLS 1.3 has server hellos of another form.
const DRAFT_18: u16 = 0x7f12;

/// Reads a handshake message; `is_from_client` says who sent it, whichever it is.
pub(super) fn read_message(
    kind: u8,
    body: &[u8],
    is_from_client: bool,
) -> Result<TlsHello, NoHello> {
    let is_client = match kind {
        message::CLIENT_HELLO => true,
        message::SERVER_HELLO => false,
        _ => return Err(NoHello::Wrong),
    };
    Fixed::from_body(body, is_client)?;
    Ok(TlsHello { is_client, is_from_client, body: body.into(), ..TlsHello::default() })
}

/// A hello up to its extensions.
#[derive(Clone, Copy, Debug, Default)]
struct Fixed<'a> {
    version: u16,
    ciphers: &'a [u8],
    /// The list of extensions, if it is whole.
    extensions: Option<&'a [u8]>,
}

impl Fixed<'_> {
    fn from_body(body: &[u8], is_client: bool) -> Result<Fixed<'_>, NoHello> {
        let mut rest = body;
        let version = take_u16(&mut rest).ok_or(NoHello::Short)?;
        rest = rest.get(32..).ok_or(NoHello::Short)?;
        if !is_client && version == DRAFT_18 {
            return Err(NoHello::Wrong);
        }
        let session_id = take_vector_8(&mut rest).ok_or(NoHello::Short)?;
        if session_id.len() > SESSION_ID_BYTES {
            return Err(NoHello::Wrong);
        }
        let ciphers = if is_client {
            let ciphers = take_vector_16(&mut rest).ok_or(NoHello::Short)?;
            take_vector_8(&mut rest).ok_or(NoHello::Short)?;
            ciphers
        } else {
            let (cipher, tail) = rest.split_at_checked(2).ok_or(NoHello::Short)?;
            rest = tail.get(1..).ok_or(NoHello::Short)?;
            cipher
        };
        if ciphers.len() % 2 != 0 {
            return Err(NoHello::Wrong);
        }
        Ok(Fixed { version, ciphers, extensions: take_vector_16(&mut rest) })
    }
}

/// What extensions say.
#[derive(Debug, Default)]
struct Reading {
    /// Extensions are listed with what they say; else they are counted into lists only.
    wants_texts: bool,
    ja4: Hello,
    kinds: Vec<u16>,
    groups: Vec<u16>,
    formats: Vec<u16>,
    sni: Option<Box<[u8]>>,
    extensions: Vec<Extension>,
}

impl Reading {
    fn bytes_held(&self) -> usize {
        let Hello { ciphers, extensions, algorithms, .. } = &self.ja4;
        let lists = [ciphers, extensions, algorithms, &self.kinds, &self.groups, &self.formats];
        size_of::<Reading>()
            + lists.iter().map(|list| size_of::<u16>() * list.capacity()).sum::<usize>()
            + self.sni.as_ref().map_or(0, |name| name.len())
    }

    fn read_extensions(&mut self, mut all: &[u8]) {
        while self.read_extension(&mut all).is_some() {}
    }

    /// Reads the next extension. `None`: there is none that can be read.
    fn read_extension(&mut self, all: &mut &[u8]) -> Option<()> {
        let kind = take_u16(all)?;
        let body = take_vector_16(all)?;
        let kind = if kind & 0x0f0f == 0x0a0a { kind::RESERVED } else { kind };
        let mut values = Vec::new();
        self.read_body(kind, body, &mut values)?;
        self.ja4.add_extension(kind);
        self.kinds.push(kind);
        if self.wants_texts && reached::EXTENSIONS_MAX.has_room(self.extensions.len()) {
            self.extensions.push(Extension { kind, values });
        }
        Some(())
    }

    fn read_body(&mut self, kind: u16, mut body: &[u8], values: &mut Vec<Box<[u8]>>) -> Option<()> {
        match kind {
            kind::SERVER_NAME if !body.is_empty() => {
                let mut list = take_vector_16(&mut body)?;
                let mut first = None;
                while let Some(name) = list.get(1..).and_then(|mut tail| {
                    let name = take_vector_16(&mut tail)?;
                    list = tail;
                    Some(name)
                }) {
                    first = first.or(Some(name));
                    self.add_text(values, || name.into());
                }
                self.sni = first.map(Box::from).or_else(|| self.sni.take());
            }
            kind::ALPN => {
                let mut list = take_vector_16(&mut body)?;
                let mut first = None;
                while let Some(name) = take_vector_8(&mut list) {
                    first = first.or(Some(name));
                    self.add_text(values, || name.into());
                }
                if let Some(first) = first.filter(|_| self.ja4.alpn.is_none()) {
                    self.ja4.set_alpn(first);
                }
            }
            kind::ALGORITHMS => {
                for algorithm in list_numbers(take_vector_16(&mut body)?) {
                    self.ja4.add_algorithm(algorithm);
                    self.add_text(values, || {
                        itoa::Buffer::new().format(algorithm).as_bytes().into()
                    });
                }
            }
            kind::VERSIONS => {
                // A server names one; the length of a client's list is not looked at.
                let list = if body.len() == 2 { body } else { body.get(1..)? };
                if list.len() % 2 != 0 {
                    return None;
                }
                for version in list_numbers(list) {
                    self.ja4.add_version(version);
                    self.add_text(values, || version_text(version).as_bytes().into());
                }
            }
            kind::GROUPS => {
                let list = take_vector_16(&mut body)?;
                if list.len() % 2 != 0 {
                    return None;
                }
                self.groups.extend(list_numbers(list));
            }
            kind::FORMATS => {
                self.formats.extend(take_vector_8(&mut body)?.iter().map(|f| u16::from(*f)));
            }
            _ => return is_well_formed(kind, body).then_some(()),
        }
        Some(())
    }

    /// Adds a value, which is made only where texts are wanted.
    fn add_text(&self, values: &mut Vec<Box<[u8]>>, make: impl FnOnce() -> Box<[u8]>) {
        if self.wants_texts && reached::VALUES_MAX.has_room(values.len()) {
            values.push(make());
        }
    }
}

/// Whether an extension that nobody looks into has its form.
fn is_well_formed(kind: u16, mut body: &[u8]) -> bool {
    match kind {
        kind::FRAGMENT_LENGTH | kind::HEARTBEAT => !body.is_empty(),
        kind::RECORD_SIZE => body.len() >= 2,
        kind::ENCRYPT_THEN_MAC
        | kind::EXTENDED_SECRET
        | kind::POST_HANDSHAKE
        | kind::NEXT_PROTOCOL => body.is_empty(),
        kind::EARLY_DATA => body.is_empty() || body.len() >= 4,
        kind::PSK_MODES | kind::RENEGOTIATION => take_vector_8(&mut body).is_some(),
        kind::OID_FILTERS => take_vector_16(&mut body).is_some(),
        // Cipher suite, group, then three texts (draft-ietf-tls-esni-02).
        kind::ENCRYPTED_NAME => body
            .get(4..)
            .is_some_and(|mut rest| (0..3).all(|_| take_vector_16(&mut rest).is_some())),
        _ => true,
    }
}

fn list_numbers(list: &[u8]) -> impl Iterator<Item = u16> {
    list.chunks_exact(2).map(|pair| u16::from_be_bytes([pair[0], pair[1]]))
}

/// A version of TLS as Suricata writes it in the list of extensions.
fn version_text(version: u16) -> std::borrow::Cow<'static, str> {
    let name = match version {
        0x0300 => "Ssl30",
        0x0301 => "Tls10",
        0x0302 => "Tls11",
        0x0303 => "Tls12",
        0x0304 => "Tls13",
        0x7f12 => "Tls13Draft18",
        0x7f13 => "Tls13Draft19",
        0x7f14 => "Tls13Draft20",
        0x7f15 => "Tls13Draft21",
        0x7f16 => "Tls13Draft22",
        0x7f17 => "Tls13Draft23",
        0xfeff => "DTls10",
        0xfefd => "DTls12",
        _ => return format!("TlsVersion({version} / {version:#x})").into(),
    };
    name.into()
}

fn take_u16(rest: &mut &[u8]) -> Option<u16> {
    let (pair, tail) = rest.split_first_chunk::<2>()?;
    *rest = tail;
    Some(u16::from_be_bytes(*pair))
}

fn take_vector_8<'a>(rest: &mut &'a [u8]) -> Option<&'a [u8]> {
    let (&len, tail) = rest.split_first()?;
    let (body, tail) = tail.split_at_checked(len.into())?;
    *rest = tail;
    Some(body)
}

fn take_vector_16<'a>(rest: &mut &'a [u8]) -> Option<&'a [u8]> {
    let mut tail = *rest;
    let len = take_u16(&mut tail)?;
    let (body, tail) = tail.split_at_checked(len.into())?;
    *rest = tail;
    Some(body)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::quic::limits::{EXTENSIONS_MAX, VALUES_MAX};

    fn hello_with(extensions: &[u8]) -> Vec<u8> {
        let len = (extensions.len() as u16).to_be_bytes();
        [&[3, 3][..], &[7; 32], b"\0\0\x02\x13\x01\x01\0", &len, extensions].concat()
    }

    fn list(extensions: &[u8]) -> (Vec<u16>, String) {
        let body = hello_with(extensions);
        let hello = read_message(message::CLIENT_HELLO, &body, true).expect("a hello");
        let kinds = hello.extensions().iter().map(|e| e.kind).collect();
        (kinds, String::from_utf8(hello.ja3().text.clone()).expect("text"))
    }

    /// What is read and what is not is Suricata's (8.0.7), of one hello for each body.
    #[test]
    fn extensions_end_with_the_first_that_can_not_be_read() {
        for (kind, good, bad) in [
            (0u16, &b"\0\x02\0\x01"[..], &b"\x01\0"[..]),
            (1, b"\x01", b""),
            (10, b"\0\x02\0\x1d", b"\0\x03\0\x1d\0"),
            (11, b"\x01\0", b"\x01"),
            (15, b"\x01", b""),
            (16, b"\0\x02\0\x01", b"\0\x05\x02h3"),
            (22, b"", b"\x01"),
            (28, b"\0\x01", b"\x01"),
            (42, b"\0\0\0\0", b"\0\x01"),
            (43, b"\x04\x03\x04", b"\x02\x03\x04\x01"),
            (45, b"\x01\x01", b"\x01"),
            (48, b"\0\0", b"\x01"),
            (65281, b"\0", b""),
            (65486, &[0; 20], b"\0\0"),
            (60, b"any", b""),
        ] {
            let one = |body: &[u8]| {
                let len = (body.len() as u16).to_be_bytes();
                [&kind.to_be_bytes()[..], &len, body, b"\0\x33\0\0"].concat()
            };
            assert_eq!(list(&one(good)).0, [kind, 51]);
            let expected: &[u16] = if kind == 60 { &[60, 51] } else { &[] };
            assert_eq!(list(&one(bad)).0, expected, "{kind}");
        }
    }

    #[test]
    fn reserved_values_are_in_the_text_of_ja3() {
        let extensions = b"\x2a\x3a\0\0\x0a\x0b\0\0\0\x0a\0\x06\0\x04\x0a\x0a\0\x1d";
        let expected = (vec![64250, 2571, 10], "771,4865,64250-2571-10,2570-29,".to_string());
        assert_eq!(list(extensions), expected);
    }

    /// What nothing asks for is not made.
    #[test]
    fn fingerprints_are_made_when_something_asks_for_them() {
        let name = b"\0\0\0\x07\0\x05\0\0\x02ab\0\x2b\0\x03\x02\x03\x04";
        let body = hello_with(name);
        let hello = read_message(message::CLIENT_HELLO, &body, true).unwrap();
        let made = |hello: &TlsHello| {
            [hello.lists.get().is_some(), hello.ja3.get().is_some(), hello.ja4.get().is_some()]
        };
        assert_eq!(made(&hello), [false; 3]);
        let bare = hello.bytes_held();
        assert_eq!(hello.sni(), Some(&b"ab"[..]));
        assert_eq!((made(&hello), hello.lists().extensions.len()), ([true, false, false], 0));
        assert_eq!(hello.ja4().unwrap().len(), 36);
        assert_eq!(made(&hello), [true, false, true]);
        assert_eq!(hello.ja3().text, b"771,4865,0-43,,");
        assert_eq!(made(&hello), [true; 3]);
        let values = hello.extensions().into_iter().map(|e| e.values.concat());
        assert_eq!(values.collect::<Vec<_>>(), [&b"ab"[..], b"Tls13"]);
        assert!(hello.bytes_held() > bare + 15);
        // One of a server has none.
        let hello = read_message(message::SERVER_HELLO, &body, true).unwrap();
        assert_eq!(hello.ja4(), None);
    }

    #[test]
    fn lists_of_records_are_bounded() {
        let (kinds, text) = list(&b"\0\x33\0\0".repeat(EXTENSIONS_MAX + 5));
        assert_eq!(kinds.len(), EXTENSIONS_MAX);
        assert_eq!(text.matches("51").count(), EXTENSIONS_MAX + 5);
        let names = vec![0; VALUES_MAX + 7];
        let len = (names.len() as u16).to_be_bytes();
        let outer = (names.len() as u16 + 2).to_be_bytes();
        list(&[&b"\0\x10"[..], &outer, &len, &names].concat());
        let counts = gabion_record::limits::take_reached();
        assert_eq!(counts.times_reached(&reached::EXTENSIONS_MAX), 5);
        assert_eq!(counts.times_reached(&reached::VALUES_MAX), 7);
    }
}
