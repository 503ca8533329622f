//! The keys of Initial packets: anyone who saw the client's first one can derive them (RFC 9001 5.2).

use aws_lc_rs::aead::quic::{AES_128 as HEADER_AES_128, HeaderProtectionKey};
use aws_lc_rs::aead::{AES_128_GCM, Aad, LessSafeKey, Nonce, UnboundKey};
use aws_lc_rs::hkdf::{HKDF_SHA256, KeyType, Prk, Salt};
use gabion_record::Direction;

/// Bytes of a sample of header protection (RFC 9001 5.4.2).
const SAMPLE_LEN: usize = 16;

/// Longest packet number (RFC 9000 17.1), which the place of the sample assumes.
const NUMBER_BYTES: usize = 4;

/// Version 2 (RFC 9369 3.1).
pub(super) const VERSION_2: u32 = 0x6b33_43cf;

/// The keys of Initial packets of both sides.
pub(super) struct Keys([SideKeys; 2]);

struct SideKeys {
    packet: LessSafeKey,
    iv: [u8; 12],
    header: HeaderProtectionKey,
}

/// Length of what is derived from a secret.
struct Len(usize);

impl KeyType for Len {
    fn len(&self) -> usize {
        self.0
    }
}

/// Google's last version before it used the standard's.
const GOOGLE_50: u32 = u32::from_be_bytes(*b"Q050");

/// The version that mvfst used after draft 27.
const MVFST_27: u32 = 0xface_b002;

/// The salt of a version: of drafts 23 to 28, 29 to 32, version 1, version 2, and two that their makers numbered
/// (those that Suricata 8.0.7 opens). `None`: its Initial packets can't be opened.
fn version_salt(version: u32) -> Option<&'static [u8; 20]> {
    match version {
        1 | 0xff00_0021 | 0xff00_0022 => Some(
            b"\x38\x76\x2c\xf7\xf5\x59\x34\xb3\x4d\x17\x9a\xe6\xa4\xc8\x0c\xad\xcc\xbb\x7f\x0a",
        ),
        VERSION_2 => Some(
            b"\x0d\xed\xe3\xde\xf7\x00\xa6\xdb\x81\x93\x81\xbe\x6e\x26\x9d\xcb\xf9\xbd\x2e\xd9",
        ),
        0xff00_001d..=0xff00_0020 => Some(
            b"\xaf\xbf\xec\x28\x99\x93\xd2\x4c\x9e\x97\x86\xf1\x9c\x61\x11\xe0\x43\x90\xa8\x99",
        ),
        0xff00_0017..=0xff00_001c | MVFST_27 => Some(
            b"\xc3\xee\xf7\x12\xc7\x2e\xbb\x5a\x11\xa7\xd2\x43\x2b\xb4\x63\x65\xbe\xf9\xf5\x02",
        ),
        GOOGLE_50 => Some(
            b"\x50\x45\x74\xef\xd0\x66\xfe\x2f\x9d\x94\x5c\xfc\xdb\xd3\xa7\xf0\xd3\xb5\x6b\x45",
        ),
        _ => None,
    }
}

/// `HKDF-Expand-Label` with an empty context (RFC 8446 7.1).
fn expand_label(secret: &Prk, label: &[u8], out: &mut [u8]) -> Option<()> {
    let len = u16::try_from(out.len()).ok()?.to_be_bytes();
    let label_len = [u8::try_from(b"tls13 ".len() + label.len()).ok()?];
    let info: [&[u8]; 5] = [&len, &label_len, b"tls13 ", label, &[0]];
    secret.expand(&info, Len(out.len())).ok()?.fill(out).ok()
}

impl SideKeys {
    fn derive(initial: &Prk, version: u32, side: &[u8]) -> Option<SideKeys> {
        let mut secret = [0; 32];
        expand_label(initial, side, &mut secret)?;
        let secret = Prk::new_less_safe(HKDF_SHA256, &secret);
        let (key, iv, hp): (&[u8], &[u8], &[u8]) = match version {
            VERSION_2 => (b"quicv2 key", b"quicv2 iv", b"quicv2 hp"),
            _ => (b"quic key", b"quic iv", b"quic hp"),
        };
        let (mut packet, mut nonce, mut header) = ([0; 16], [0; 12], [0; 16]);
        expand_label(&secret, key, &mut packet)?;
        expand_label(&secret, iv, &mut nonce)?;
        expand_label(&secret, hp, &mut header)?;
        Some(SideKeys {
            packet: LessSafeKey::new(UnboundKey::new(&AES_128_GCM, &packet).ok()?),
            iv: nonce,
            header: HeaderProtectionKey::new(&HEADER_AES_128, &header).ok()?,
        })
    }
}

impl Keys {
    /// Derives the keys from the destination of the client's first packet. `None`: this version's are
    /// not known.
    pub(super) fn derive(version: u32, destination: &[u8]) -> Option<Keys> {
        let initial = Salt::new(HKDF_SHA256, version_salt(version)?).extract(destination);
        let client = SideKeys::derive(&initial, version, b"client in")?;
        let server = SideKeys::derive(&initial, version, b"server in")?;
        Some(Keys([client, server]))
    }

    /// Whether packets of this version can be opened at all.
    pub(super) fn are_known(version: u32) -> bool {
        version_salt(version).is_some()
    }

    /// The frames of a packet of that direction (RFC 9001 5.3, 5.4): `packet` is all of it, `number_at` the
    /// place of its packet number. `None`: it is not protected by these keys.
    pub(super) fn open(
        &self,
        direction: Direction,
        packet: &[u8],
        number_at: usize,
    ) -> Option<Vec<u8>> {
        let side = &self.0[direction.index()];
        let sample = packet.get(number_at.checked_add(NUMBER_BYTES)?..)?.get(..SAMPLE_LEN)?;
        let mask = side.header.new_mask(sample).ok()?;
        // Of a long header four bits are protected.
        let first = packet.first()? ^ (mask[0] & 0x0f);
        let number_len = usize::from(first & 3) + 1;
        let body_at = number_at.checked_add(number_len)?;
        let mut header = packet.get(..body_at)?.to_vec();
        *header.first_mut()? = first;
        let mut number = 0u64;
        for (byte, mask) in header.get_mut(number_at..)?.iter_mut().zip(mask.iter().skip(1)) {
            *byte ^= mask;
            number = number << 8 | u64::from(*byte);
        }
        let mut nonce = side.iv;
        for (byte, of_number) in nonce.iter_mut().skip(4).zip(number.to_be_bytes()) {
            *byte ^= of_number;
        }
        let mut payload = packet.get(body_at..)?.to_vec();
        let nonce = Nonce::assume_unique_for_key(nonce);
        let len = side.packet.open_in_place(nonce, Aad::from(&header), &mut payload).ok()?.len();
        payload.truncate(len);
        Some(payload)
    }
}

#[cfg(test)]
impl Keys {
    /// Protects a packet: `packet` ends with its packet number of one byte, and its payload follows.
    pub(super) fn seal(
        &self,
        direction: Direction,
        mut packet: Vec<u8>,
        number_at: usize,
        payload: &[u8],
    ) -> Vec<u8> {
        let side = &self.0[direction.index()];
        let mut nonce = side.iv;
        nonce[11] ^= packet[number_at];
        let mut sealed = payload.to_vec();
        let nonce = Nonce::assume_unique_for_key(nonce);
        side.packet.seal_in_place_append_tag(nonce, Aad::from(&packet), &mut sealed).unwrap();
        packet.extend(sealed);
        let mask = side.header.new_mask(&packet[number_at + 4..number_at + 20]).unwrap();
        packet[0] ^= mask[0] & 0x0f;
        packet[number_at] ^= mask[1];
        packet
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes_from_hex(text: &str) -> Vec<u8> {
        let digits: Vec<u8> =
            text.chars().filter_map(|c| c.to_digit(16)).map(|d| d as u8).collect();
        digits.chunks_exact(2).map(|pair| pair[0] << 4 | pair[1]).collect()
    }

    /// The server's Initial packet of RFC 9001 A.3 and RFC 9369 A.3: both answer the same client.
    #[test]
    fn samples_of_the_standards_are_opened() {
        let destination = bytes_from_hex("8394c8f03e515708");
        let version_1 = bytes_from_hex(
            "cf000000010008f067a5502a4262b5004075c0d95a482cd0991cd25b0aac406a5816b6394100f37a1c69797554780bb38cc5a99f5ede4c\
             f73c3ec2493a1839b3dbcba3f6ea46c5b7684df3548e7ddeb9c3bf9c73cc3f3bded74b562bfb19fb84022f8ef4cdd93795d77d06edbb7a\
             af2f58891850abbdca3d20398c276456cbc42158407dd074ee",
        );
        let keys = Keys::derive(1, &destination).unwrap();
        let opened = keys.open(Direction::ToClient, &version_1, 18).unwrap();
        // An ACK frame, then a CRYPTO frame with the server's hello.
        assert_eq!(opened.get(..10).unwrap(), b"\x02\x00\x00\x00\x00\x06\x00\x40\x5a\x02");
        assert!(keys.open(Direction::ToServer, &version_1, 18).is_none());
        for end in 0..version_1.len() {
            assert!(keys.open(Direction::ToClient, &version_1[..end], 18).is_none());
        }
        assert!(Keys::derive(0x0a0a_0a0a, &destination).is_none());
    }
}
