//! JA3, JA3S and JA4: what a hello says about the software that sent it. QUIC uses them too.
//!
//! JA4 follows its publication (FoxIO, 2023) with Suricata's readings: lists add up over repeated
//! hellos, an empty list is hashed as an empty text, and the last part always has its underscore.

use super::limits::reached;
use super::version::is_grease;
use gabion_record::hex;
use md5::Digest;

/// What JA4 and the handshake records take from hellos of one side.
#[derive(Clone, Debug, Default)]
pub struct Hello {
    /// Highest version named.
    pub version: Option<u16>,
    /// Cipher suites in order, without reserved values.
    pub ciphers: Vec<u16>,
    /// Extensions in order, without reserved values.
    pub extensions: Vec<u16>,
    /// Signature algorithms in order, without reserved values.
    pub algorithms: Vec<u16>,
    /// A server name was asked for.
    pub has_sni: bool,
    /// First protocol of ALPN.
    pub alpn: Option<[u8; 2]>,
}

impl Hello {
    /// Adds a version; the highest counts.
    pub fn add_version(&mut self, version: u16) {
        if !is_grease(version) {
            self.version = Some(self.version.unwrap_or(0).max(version));
        }
    }

    /// Adds a cipher suite.
    pub fn add_cipher(&mut self, cipher: u16) {
        add(&mut self.ciphers, cipher);
    }

    /// Adds an extension.
    pub fn add_extension(&mut self, extension: u16) {
        add(&mut self.extensions, extension);
        self.has_sni |= extension == 0;
    }

    /// Adds a signature algorithm.
    pub fn add_algorithm(&mut self, algorithm: u16) {
        add(&mut self.algorithms, algorithm);
    }

    /// Sets the two letters that stand for the first protocol of ALPN.
    pub fn set_alpn(&mut self, protocol: &[u8]) {
        let (Some(&first), Some(&last)) = (protocol.first(), protocol.last()) else { return };
        if let [a, b] = protocol
            && is_grease(u16::from_be_bytes([*a, *b]))
        {
            return;
        }
        self.alpn = Some(if first.is_ascii_alphanumeric() && last.is_ascii_alphanumeric() {
            [first, last]
        } else {
            [hex::digits(first)[0], hex::digits(last)[1]]
        });
    }

    /// Nothing was seen.
    pub fn is_empty(&self) -> bool {
        self.version.is_none()
            && self.ciphers.is_empty()
            && self.extensions.is_empty()
            && self.algorithms.is_empty()
    }

    /// The JA4 fingerprint; `transport` is `t` for TLS over TCP, `q` for QUIC.
    pub fn ja4(&self, transport: u8) -> [u8; 36] {
        let mut out = [b'_'; 36];
        out[0] = transport;
        out[1..3].copy_from_slice(ja4_version(self.version.unwrap_or(0)));
        out[3] = if self.has_sni { b'd' } else { b'i' };
        out[4..6].copy_from_slice(&two_digits(self.ciphers.len()));
        out[6..8].copy_from_slice(&two_digits(self.extensions.len()));
        out[8..10].copy_from_slice(&self.alpn.unwrap_or(*b"00"));
        let mut ciphers = self.ciphers.clone();
        ciphers.sort_unstable();
        hash_start(&hex_list(&ciphers), &mut out[11..23]);
        let mut extensions = self.extensions.clone();
        extensions.retain(|e| !matches!(e, 0 | 16));
        extensions.sort_unstable();
        let mut text = hex_list(&extensions);
        text.push(b'_');
        text.extend_from_slice(&hex_list(&self.algorithms));
        hash_start(&text, &mut out[24..36]);
        out
    }
}

fn add(list: &mut Vec<u16>, value: u16) {
    if !is_grease(value) && reached::HELLO_LIST_MAX.has_room(list.len()) {
        list.push(value);
    }
}

fn ja4_version(version: u16) -> &'static [u8; 2] {
    match version {
        0x0304 => b"13",
        0x0303 => b"12",
        0x0302 => b"11",
        0x0301 => b"10",
        0x0300 => b"s3",
        0x0002 => b"s2",
        0xfeff => b"d1",
        0xfefd => b"d2",
        0xfefc => b"d3",
        _ => b"00",
    }
}

fn two_digits(n: usize) -> [u8; 2] {
    let n = n.min(99) as u8;
    [b'0' + n / 10, b'0' + n % 10]
}

fn hex_list(values: &[u16]) -> Vec<u8> {
    let mut out = Vec::with_capacity(values.len() * 5);
    for (i, v) in values.iter().enumerate() {
        if i > 0 {
            out.push(b',');
        }
        gabion_record::hex::push_hex(&mut out, &v.to_be_bytes());
    }
    out
}

/// First digits of the SHA-256 of a text.
fn hash_start(text: &[u8], out: &mut [u8]) {
    let digest = sha2::Sha256::digest(text);
    write_hex(&digest, out);
}

/// Lower-case hex of as many bytes as `out` has space for.
pub fn write_hex(bytes: &[u8], out: &mut [u8]) {
    for (pair, b) in out.chunks_exact_mut(2).zip(bytes) {
        pair.copy_from_slice(&gabion_record::hex::digits(*b));
    }
}

/// A JA3 or JA3S text under construction, and its hash once it is complete.
#[derive(Clone, Debug, Default)]
pub struct Ja3 {
    /// The text.
    pub text: Vec<u8>,
    /// MD5 of the text in hex; none while the hello is not through.
    pub hash: Option<[u8; 32]>,
}

impl Ja3 {
    /// A text that begins with the version.
    pub fn begin(version: u16) -> Ja3 {
        let mut ja3 = Ja3::default();
        ja3.push(version);
        ja3
    }

    fn push(&mut self, value: u16) {
        self.text.extend_from_slice(itoa::Buffer::new().format(value).as_bytes());
    }

    /// Adds a field: a comma and the values joined with dashes.
    pub fn field(&mut self, values: &[u16]) {
        self.text.push(b',');
        for (i, value) in values.iter().enumerate() {
            if i > 0 {
                self.text.push(b'-');
            }
            self.push(*value);
        }
    }

    /// Computes the hash.
    pub fn finish(&mut self) {
        let mut hex = [0; 32];
        write_hex(&md5::Md5::digest(&self.text), &mut hex);
        self.hash = Some(hex);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_beyond_the_limit_are_counted() {
        let mut list = Vec::new();
        for _ in 0..super::super::limits::HELLO_LIST_MAX + 4 {
            add(&mut list, 5);
        }
        assert_eq!(
            gabion_record::limits::take_reached().times_reached(&reached::HELLO_LIST_MAX),
            4
        );
    }

    #[test]
    fn ja4_as_suricata_writes_it() {
        // From records of 8.0.7: no hello at all (SSL 2.0 form), and a hello with nothing but
        // ciphers c02f and 1301.
        let mut h = Hello::default();
        assert_eq!(&h.ja4(b't'), b"t00i000000_e3b0c44298fc_d2e2adf7177b");
        h.add_version(0x0303);
        h.add_version(0x0a0a);
        for c in [0xc02f, 0x4a4a, 0x1301] {
            h.add_cipher(c);
        }
        assert_eq!(&h.ja4(b't'), b"t12i020000_c1929292aa6b_d2e2adf7177b");
        h.add_version(0x0304);
        h.add_extension(43);
        h.add_extension(0x1a1a);
        assert_eq!(&h.ja4(b't'), b"t13i020100_c1929292aa6b_9b00d4eb1ff0");
    }

    #[test]
    fn alpn_letters() {
        // The same source: `ab 78 cd` gives "ad", one letter is doubled, a reserved pair gives none.
        for (protocol, letters) in [
            (&b"http/1.1"[..], Some(*b"h1")),
            (b"h2", Some(*b"h2")),
            (b"q", Some(*b"qq")),
            (b"\xabx\xcd", Some(*b"ad")),
            (b"\x0a\x0a", None),
            (b"", None),
        ] {
            let mut h = Hello::default();
            h.set_alpn(protocol);
            assert_eq!(h.alpn, letters, "{protocol:?}");
        }
    }

    #[test]
    fn ja3_text_and_hash() {
        // Published with JA3S in Suricata's record of its test bug-8336-01.
        let mut j = Ja3::begin(771);
        j.field(&[4866]);
        j.field(&[51, 43]);
        j.finish();
        assert_eq!(j.text, b"771,4866,51-43");
        assert_eq!(&j.hash.unwrap(), b"907bf3ecef1c987c889946b737b43de8");
    }
}
