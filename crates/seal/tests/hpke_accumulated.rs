//! The accumulated vectors of HPKE (RFC 9180): a thousand messages, whose ciphertexts are known by one
//! digest.
//!
//! The corpus' `sealed/crypto/hpke-rfc9180-x25519-base.json` gives a recipient's key, an encapsulated key and the
//! first 16 bytes of SHAKE128 over all ciphertexts; associated data and plaintexts come out of a second
//! SHAKE128 that took in nothing. The program seals with fresh ephemeral keys only, so a sender with the
//! vector's keys is put together here from RFC 9180, section 5, on the same primitives. Its digest shows
//! that it is the vector's sender, and the library that opens stanzas has to open each message of it.

use aws_lc_rs::aead::{
    AES_128_GCM, AES_256_GCM, Aad, Algorithm, CHACHA20_POLY1305, LessSafeKey, Nonce, UnboundKey,
};
use aws_lc_rs::agreement::{PrivateKey, UnparsedPublicKey, X25519, agree};
use aws_lc_rs::hmac;
use gabion_record::hex::{from_hex, to_hex};
use rustls::crypto::aws_lc_rs::hpke::ALL_SUPPORTED_SUITES;
use rustls::crypto::hpke::{EncapsulatedSecret, HpkePrivateKey};
use serde_json::Value;

/// SHAKE128 (FIPS 202): takes bytes in, then gives bytes out.
#[derive(Default)]
struct Shake128 {
    state: [u64; 25],
    at: usize,
    is_squeezing: bool,
}

impl Shake128 {
    const RATE: usize = 168;

    fn absorb(&mut self, bytes: &[u8]) {
        assert!(!self.is_squeezing);
        for byte in bytes {
            self.xor(self.at, *byte);
            self.at += 1;
            if self.at == Self::RATE {
                permute(&mut self.state);
                self.at = 0;
            }
        }
    }

    fn squeeze<const N: usize>(&mut self) -> [u8; N] {
        let mut out = [0; N];
        self.fill(&mut out);
        out
    }

    fn fill(&mut self, out: &mut [u8]) {
        if !self.is_squeezing {
            self.xor(self.at, 0x1f);
            self.xor(Self::RATE - 1, 0x80);
            permute(&mut self.state);
            (self.at, self.is_squeezing) = (0, true);
        }
        for byte in out {
            if self.at == Self::RATE {
                permute(&mut self.state);
                self.at = 0;
            }
            *byte = self.state[self.at / 8].to_le_bytes()[self.at % 8];
            self.at += 1;
        }
    }

    fn xor(&mut self, at: usize, byte: u8) {
        self.state[at / 8] ^= u64::from(byte) << (8 * (at % 8));
    }
}

/// Keccak-f[1600]; its constants come out of the shift register and the walk of FIPS 202, 3.2.
fn permute(a: &mut [u64; 25]) {
    let mut register = 1u8;
    for _ in 0..24 {
        let column: [u64; 5] = std::array::from_fn(|x| (0..5).fold(0, |c, y| c ^ a[x + 5 * y]));
        for (i, lane) in a.iter_mut().enumerate() {
            *lane ^= column[(i % 5 + 4) % 5] ^ column[(i % 5 + 1) % 5].rotate_left(1);
        }
        let (mut x, mut y, mut last) = (1, 0, a[1]);
        for t in 0..24 {
            (x, y) = (y, (2 * x + 3 * y) % 5);
            last =
                std::mem::replace(&mut a[x + 5 * y], last.rotate_left((t + 1) * (t + 2) / 2 % 64));
        }
        for y in 0..5 {
            let row: [u64; 5] = std::array::from_fn(|x| a[x + 5 * y]);
            for x in 0..5 {
                a[x + 5 * y] = row[x] ^ (!row[(x + 1) % 5] & row[(x + 2) % 5]);
            }
        }
        for j in 0..7 {
            a[0] ^= u64::from(register & 1) << ((1 << j) - 1);
            register = (register << 1) ^ if register >> 7 == 1 { 0x71 } else { 0 };
        }
    }
}

/// LabeledExtract and LabeledExpand of RFC 9180, section 4, with HKDF-SHA256.
fn extract(salt: &[u8], suite: &[u8], label: &[u8], ikm: &[u8]) -> Vec<u8> {
    let text = [b"HPKE-v1", suite, label, ikm].concat();
    hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, salt), &text).as_ref().to_vec()
}

fn expand(prk: &[u8], suite: &[u8], label: &[u8], info: &[u8], len: u16) -> Vec<u8> {
    let text = [&len.to_be_bytes()[..], b"HPKE-v1", suite, label, info, &[1]].concat();
    assert!(len <= 32, "one block of HMAC is enough here");
    let block = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, prk), &text);
    block.as_ref()[..usize::from(len)].to_vec()
}

/// Key and first nonce of a context, from the recipient's side of the exchange.
fn schedule(aead: u16, key_len: u16, enc: &[u8], vector: &Value) -> (Vec<u8>, Vec<u8>) {
    let kem = b"KEM\x00\x20";
    let suite = [b"HPKE\x00\x20\x00\x01", &aead.to_be_bytes()[..]].concat();
    let secret = PrivateKey::from_private_key(&X25519, &bytes(vector, "skRm")).unwrap();
    let shared = agree(&secret, UnparsedPublicKey::new(&X25519, enc), (), |dh| Ok(dh.to_vec()));
    let prk = extract(b"", kem, b"eae_prk", &shared.unwrap());
    let context = [enc, &bytes(vector, "pkRm")].concat();
    let shared = expand(&prk, kem, b"shared_secret", &context, 32);
    let id = extract(b"", &suite, b"psk_id_hash", b"");
    let info = extract(b"", &suite, b"info_hash", &bytes(vector, "info"));
    let context = [&[0][..], &id, &info].concat();
    let secret = extract(&shared, &suite, b"secret", b"");
    (
        expand(&secret, &suite, b"key", &context, key_len),
        expand(&secret, &suite, b"base_nonce", &context, 12),
    )
}

fn bytes(vector: &Value, key: &str) -> Vec<u8> {
    from_hex(vector[key].as_str().unwrap().as_bytes()).unwrap()
}

#[test]
fn shake_is_the_standards() {
    // The first bytes of SHAKE128 of nothing, and of 200 bytes A3 (NIST's examples of FIPS 202).
    assert_eq!(to_hex(&Shake128::default().squeeze::<16>()), "7f9c2ba4e88f827d616045507605853e");
    let mut shake = Shake128::default();
    shake.absorb(&[0xa3; 200]);
    assert_eq!(to_hex(&shake.squeeze::<16>()), "131ab8d2b594946b9c81333f9bb6e0ce");
}

#[test]
fn a_thousand_messages_of_each_suite_open() {
    let test = "a_thousand_messages_of_each_suite_open";
    let path = "sealed/crypto/hpke-rfc9180-x25519-base.json";
    let Some(text) = gabion_corpus::read_text(test, path) else { return };
    let vectors: Vec<Value> = serde_json::from_str(&text).unwrap();
    let mut checked = Vec::new();
    for vector in &vectors {
        // HKDF-SHA512 is in the vectors, and in no stanza.
        let (kdf, aead) = (vector["kdf_id"].as_u64().unwrap(), vector["aead_id"].as_u64().unwrap());
        let (algorithm, key_len): (&Algorithm, u16) = match (kdf, aead) {
            (1, 1) => (&AES_128_GCM, 16),
            (1, 2) => (&AES_256_GCM, 32),
            (1, 3) => (&CHACHA20_POLY1305, 32),
            _ => continue,
        };
        let aead = aead as u16;
        let enc = bytes(vector, "enc");
        let (key, base) = schedule(aead, key_len, &enc, vector);
        let key = LessSafeKey::new(UnboundKey::new(algorithm, &key).unwrap());
        let suite = ALL_SUPPORTED_SUITES.iter().find(|s| {
            let suite = s.suite();
            (u16::from(suite.kem), u16::from(suite.sym.kdf_id)) == (0x20, 1)
                && u16::from(suite.sym.aead_id) == aead
        });
        let mut opener = suite
            .unwrap()
            .setup_opener(
                &EncapsulatedSecret(enc),
                &bytes(vector, "info"),
                &HpkePrivateKey::from(bytes(vector, "skRm")),
            )
            .unwrap();
        let (mut source, mut sink) = (Shake128::default(), Shake128::default());
        for number in 0..1_000u64 {
            let mut draw = || {
                let mut drawn = vec![0; usize::from(source.squeeze::<1>()[0])];
                source.fill(&mut drawn);
                drawn
            };
            let (aad, plain) = (draw(), draw());
            let mut nonce: [u8; 12] = base.clone().try_into().unwrap();
            nonce[4..].iter_mut().zip(number.to_be_bytes()).for_each(|(n, b)| *n ^= b);
            let mut sealed = plain.clone();
            let nonce = Nonce::assume_unique_for_key(nonce);
            key.seal_in_place_append_tag(nonce, Aad::from(&aad), &mut sealed).unwrap();
            sink.absorb(&sealed);
            assert_eq!(opener.open(&aad, &sealed).unwrap(), plain, "suite {aead}, {number}");
        }
        let want = vector["encryptions_accumulated"].as_str().unwrap();
        assert_eq!(to_hex(&sink.squeeze::<16>()), want, "suite {aead}");
        checked.push(aead);
    }
    assert_eq!(checked, [1, 2, 3]);
}
