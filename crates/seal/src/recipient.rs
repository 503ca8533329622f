//! The readers of a segment: recipients' keys, and the stanzas in which a data key is wrapped for each.
//!
//! A `.keys` file is `"GABKEYS1"` and stanzas: type (1), class (1), key id (8), length (2), body. Type 1
//! is HPKE in base mode (X25519, HKDF-SHA256, AES-256-GCM), body = encapsulated key (32) and sealed data
//! key (48). Type 2 is RSA-OAEP with SHA-256. Both are bound to log, segment, class and the segment's
//! header. The file lies next to the segment and outside the tree: adding, removing and destroying
//! readers changes no hash. What keeps it honest is the commitment inside the tree.

use crate::error::{Error, Result};
use crate::format::data_key::DataKey;
use crate::format::segment;
use crate::format::tree::sha256;
use crate::format::wire::Take;
use crate::limits::STANZAS_MAX;
use crate::text::pem;
use aws_lc_rs::agreement::{PrivateKey, X25519};
use aws_lc_rs::encoding::{AsDer, Pkcs8V1Der, PublicKeyX509Der};
use aws_lc_rs::rsa::{
    KeySize, OAEP_SHA256_MGF1SHA256, OAEP_SHA512_MGF1SHA512, OaepPrivateDecryptingKey,
    OaepPublicEncryptingKey, PrivateDecryptingKey, PublicEncryptingKey,
};
use gabion_record::base64::{from_base64, to_base64};
use gabion_record::hex::to_hex;
use rustls::crypto::aws_lc_rs::hpke::DH_KEM_X25519_HKDF_SHA256_AES_256 as HPKE;
use rustls::crypto::hpke::{EncapsulatedSecret, Hpke, HpkePrivateKey, HpkePublicKey};
use zeroize::Zeroizing;

const MAGIC: &[u8; 8] = b"GABKEYS1";
const TYPE_HPKE: u8 = 1;
const TYPE_RSA: u8 = 2;
const PUBLIC_PREFIX: &str = "gabion-recipient-x25519 ";
const SECRET_PREFIX: &str = "gabion-secret-x25519 ";

/// A public key for which data keys are wrapped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Recipient {
    /// X25519, raw.
    X25519([u8; 32]),
    /// RSA, as SubjectPublicKeyInfo in DER.
    Rsa(Vec<u8>),
}

impl Recipient {
    /// Reads a key file: our own line, or a PEM public key. Several lines are several recipients.
    pub fn parse_file(text: &str) -> Result<Vec<Recipient>> {
        if let Some(der) = pem(text, "PUBLIC KEY") {
            let key = PublicEncryptingKey::from_der(&der)
                .map_err(|_| Error::key("not an RSA public key of 2048 to 8192 bits"))?;
            drop(key);
            return Ok(vec![Recipient::Rsa(der)]);
        }
        let mut found = Vec::new();
        for line in text.lines().map(str::trim).filter(|l| !l.is_empty() && !l.starts_with('#')) {
            let key = line
                .strip_prefix(PUBLIC_PREFIX)
                .and_then(|k| from_base64(k.as_bytes())?.try_into().ok());
            found.push(Recipient::X25519(
                key.ok_or_else(|| Error::key("not a recipient's public key"))?,
            ));
        }
        if found.is_empty() {
            Err(Error::key("no recipient's public key in it"))
        } else {
            Ok(found)
        }
    }

    /// The text of a key file.
    #[must_use]
    pub fn to_text(&self) -> String {
        match self {
            Recipient::X25519(key) => format!("{PUBLIC_PREFIX}{}\n", to_base64(key)),
            Recipient::Rsa(der) => crate::text::to_pem(der, "PUBLIC KEY"),
        }
    }

    /// What the key is called in stanzas and statements.
    #[must_use]
    pub fn id(&self) -> [u8; 8] {
        let hash = match self {
            Recipient::X25519(key) => sha256(key),
            Recipient::Rsa(der) => sha256(der),
        };
        let mut id = [0; 8];
        id.copy_from_slice(&hash[..8]);
        id
    }

    fn wrap(&self, data_key: &[u8; 32], info: &[u8], bound: &[u8]) -> Result<(u8, Vec<u8>)> {
        match self {
            Recipient::X25519(key) => {
                let public = HpkePublicKey(key.to_vec());
                let (encapsulated, sealed) = HPKE
                    .seal(info, bound, data_key, &public)
                    .map_err(|_| Error::key("the recipient's key can't be used"))?;
                let mut body = encapsulated.0;
                body.extend_from_slice(&sealed);
                Ok((TYPE_HPKE, body))
            }
            Recipient::Rsa(der) => {
                let wrong = |_| Error::key("the recipient's RSA key can't be used");
                let key = PublicEncryptingKey::from_der(der)
                    .map_err(|_| Error::key("the recipient's RSA key can't be used"))?;
                let key = OaepPublicEncryptingKey::new(key).map_err(wrong)?;
                let mut body = vec![0; key.ciphertext_size()];
                let label = [info, bound].concat();
                let len = key
                    .encrypt(&OAEP_SHA256_MGF1SHA256, data_key, &mut body, Some(&label))
                    .map_err(wrong)?
                    .len();
                body.truncate(len);
                Ok((TYPE_RSA, body))
            }
        }
    }
}

/// A private key that opens data keys.
pub enum SecretKey {
    /// X25519: the secret and its recipient.
    X25519(Zeroizing<[u8; 32]>, Recipient),
    /// RSA and its recipient.
    Rsa(Box<OaepPrivateDecryptingKey>, Recipient),
}

impl std::fmt::Debug for SecretKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "SecretKey({})", to_hex(&self.recipient().id()))
    }
}

impl SecretKey {
    /// A fresh X25519 key.
    pub fn generate() -> Result<SecretKey> {
        let (_, secret) = HPKE.generate_key_pair().map_err(|_| Error::Crypto("no key pair"))?;
        SecretKey::x25519(secret.secret_bytes())
    }

    /// A fresh RSA key of 4096 bits, and its PKCS#8 PEM to be stored.
    pub fn generate_rsa() -> Result<(SecretKey, Zeroizing<String>)> {
        let key = PrivateDecryptingKey::generate(KeySize::Rsa4096)
            .map_err(|_| Error::Crypto("no key pair"))?;
        let der: Pkcs8V1Der<'_> = key.as_der().map_err(|_| Error::Crypto("no key pair"))?;
        let text = Zeroizing::new(crate::text::to_pem(der.as_ref(), "PRIVATE KEY"));
        Ok((SecretKey::rsa(key)?, text))
    }

    fn x25519(secret: &[u8]) -> Result<SecretKey> {
        let wrong = || Error::key("not an X25519 secret");
        let key = PrivateKey::from_private_key(&X25519, secret).map_err(|_| wrong())?;
        let public = key.compute_public_key().map_err(|_| wrong())?;
        let public = public.as_ref().try_into().map_err(|_| wrong())?;
        let secret = Zeroizing::new(secret.try_into().map_err(|_| wrong())?);
        Ok(SecretKey::X25519(secret, Recipient::X25519(public)))
    }

    fn rsa(key: PrivateDecryptingKey) -> Result<SecretKey> {
        let wrong = || Error::key("not an RSA private key of 2048 to 8192 bits");
        let public: PublicKeyX509Der<'_> = key.public_key().as_der().map_err(|_| wrong())?;
        let recipient = Recipient::Rsa(public.as_ref().to_vec());
        let key = OaepPrivateDecryptingKey::new(key).map_err(|_| wrong())?;
        Ok(SecretKey::Rsa(Box::new(key), recipient))
    }

    /// Reads a key file: our own line, or a PEM private key in PKCS#8 or PKCS#1 (slog writes the second
    /// under the label of the first).
    pub fn parse_file(text: &str) -> Result<SecretKey> {
        for label in ["PRIVATE KEY", "RSA PRIVATE KEY"] {
            if let Some(der) = pem(text, label).map(Zeroizing::new) {
                let wrong = |_| Error::key("not an RSA private key of 2048 to 8192 bits");
                let key = PrivateDecryptingKey::from_pkcs8(&der)
                    .or_else(|_| PrivateDecryptingKey::from_pkcs8(&pkcs1_in_pkcs8(&der)));
                return SecretKey::rsa(key.map_err(wrong)?);
            }
        }
        let line = text.lines().map(str::trim).find_map(|l| l.strip_prefix(SECRET_PREFIX));
        let secret = line.and_then(|l| from_base64(l.as_bytes())).map(Zeroizing::new);
        SecretKey::x25519(&secret.ok_or_else(|| Error::key("not a recipient's private key"))?)
    }

    /// The text of a key file; `None` for RSA, whose text is made when it is generated.
    #[must_use]
    pub fn to_text(&self) -> Option<Zeroizing<String>> {
        match self {
            SecretKey::X25519(secret, _) => {
                Some(Zeroizing::new(format!("{SECRET_PREFIX}{}\n", to_base64(secret.as_ref()))))
            }
            SecretKey::Rsa(..) => None,
        }
    }

    /// The public half.
    #[must_use]
    pub const fn recipient(&self) -> &Recipient {
        match self {
            SecretKey::X25519(_, recipient) | SecretKey::Rsa(_, recipient) => recipient,
        }
    }

    fn unwrap(&self, stanza: &Stanza, info: &[u8], bound: &[u8]) -> Option<DataKey> {
        let plain = match self {
            SecretKey::X25519(secret, _) if stanza.kind == TYPE_HPKE => {
                let (encapsulated, sealed) = stanza.body.split_at_checked(32)?;
                let secret = HpkePrivateKey::from(secret.to_vec());
                let encapsulated = EncapsulatedSecret(encapsulated.to_vec());
                Zeroizing::new(HPKE.open(&encapsulated, info, bound, sealed, &secret).ok()?)
            }
            SecretKey::Rsa(key, _) if stanza.kind == TYPE_RSA => {
                let mut out = Zeroizing::new(vec![0; key.min_output_size()]);
                let label = [info, bound].concat();
                let len = key
                    .decrypt(&OAEP_SHA256_MGF1SHA256, &stanza.body, &mut out, Some(&label))
                    .ok()?
                    .len();
                out.truncate(len);
                out
            }
            SecretKey::X25519(..) | SecretKey::Rsa(..) => return None,
        };
        Some(Zeroizing::new(plain.as_slice().try_into().ok()?))
    }

    /// RSA-OAEP with SHA-512 and no label, as slog wraps its passwords. `None` when it does not open.
    #[must_use]
    pub fn decrypt_oaep_sha512(&self, wrapped: &[u8]) -> Option<Zeroizing<Vec<u8>>> {
        let SecretKey::Rsa(key, _) = self else { return None };
        let mut out = Zeroizing::new(vec![0; key.min_output_size()]);
        let len = key.decrypt(&OAEP_SHA512_MGF1SHA512, wrapped, &mut out, None).ok()?.len();
        out.truncate(len);
        Some(out)
    }
}

/// A PKCS#1 key inside the PKCS#8 frame: version 0, rsaEncryption, octet string.
fn pkcs1_in_pkcs8(der: &[u8]) -> Zeroizing<Vec<u8>> {
    const ALGORITHM: &[u8] = &[
        0x02, 0x01, 0x00, 0x30, 0x0d, 0x06, 0x09, 0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x01,
        0x01, 0x05, 0x00,
    ];
    let octets = der_element(0x04, der);
    let inner = Zeroizing::new([ALGORITHM, &octets].concat());
    der_element(0x30, &inner)
}

fn der_element(tag: u8, content: &[u8]) -> Zeroizing<Vec<u8>> {
    let mut out = Zeroizing::new(vec![tag]);
    let bytes = content.len().to_be_bytes();
    let digits = &bytes[bytes.iter().take_while(|b| **b == 0).count()..];
    if content.len() < 0x80 {
        out.push(content.len() as u8);
    } else {
        out.push(0x80 | digits.len() as u8);
        out.extend_from_slice(digits);
    }
    out.extend_from_slice(content);
    out
}

/// A data key wrapped for one recipient.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stanza {
    /// How it is wrapped.
    pub kind: u8,
    /// Which class of records it opens.
    pub class: u8,
    /// The recipient.
    pub id: [u8; 8],
    /// The wrapped key.
    pub body: Vec<u8>,
}

/// What both kinds of wrapping are bound to in addition to the header.
fn info(log_id: &[u8; 16], segment: u64, class: u8) -> Vec<u8> {
    [b"gabion/seal/v1 data key\0".as_slice(), log_id, &segment.to_be_bytes(), &[class]].concat()
}

fn bound(header: &segment::Header) -> [u8; segment::BOUND_LEN] {
    let mut bytes = [0; segment::BOUND_LEN];
    bytes.copy_from_slice(&header.encode()[..segment::BOUND_LEN]);
    bytes
}

impl Stanza {
    /// Wraps a data key.
    pub fn wrap(
        recipient: &Recipient,
        header: &segment::Header,
        class: u8,
        data_key: &[u8; 32],
    ) -> Result<Stanza> {
        let info = info(&header.log_id, header.number, class);
        let (kind, body) = recipient.wrap(data_key, &info, &bound(header))?;
        Ok(Stanza { kind, class, id: recipient.id(), body })
    }

    /// Unwraps it; `None` when this key is not for it.
    #[must_use]
    pub fn unwrap(&self, key: &SecretKey, header: &segment::Header) -> Option<DataKey> {
        (key.recipient().id() == self.id).then_some(())?;
        key.unwrap(self, &info(&header.log_id, header.number, self.class), &bound(header))
    }

    /// Reads a `.keys` file.
    pub fn parse_all(bytes: &[u8]) -> Result<Vec<Stanza>> {
        let wrong = || Error::format("not a file of recipients' stanzas");
        let mut take = Take::new(bytes);
        if take.array() != Some(*MAGIC) {
            return Err(wrong());
        }
        let mut all = Vec::new();
        while !take.rest().is_empty() {
            if all.len() == STANZAS_MAX * 256 {
                return Err(wrong());
            }
            all.push(Stanza::take_stanza(&mut take).ok_or_else(wrong)?);
        }
        Ok(all)
    }

    fn take_stanza(take: &mut Take<'_>) -> Option<Stanza> {
        let (kind, class, id, len) = (take.u8()?, take.u8()?, take.array()?, take.u16()?);
        Some(Stanza { kind, class, id, body: take.bytes(usize::from(len))?.to_vec() })
    }

    /// Writes a `.keys` file.
    #[must_use]
    pub fn encode_all(stanzas: &[Stanza]) -> Vec<u8> {
        let mut out = MAGIC.to_vec();
        for stanza in stanzas {
            out.extend_from_slice(&[stanza.kind, stanza.class]);
            out.extend_from_slice(&stanza.id);
            out.extend_from_slice(&(stanza.body.len() as u16).to_be_bytes());
            out.extend_from_slice(&stanza.body);
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::segment::tests::sample;

    #[test]
    fn a_data_key_opens_for_its_recipients_only() {
        let (a, b) = (SecretKey::generate().unwrap(), SecretKey::generate().unwrap());
        let header = sample();
        let stanza = Stanza::wrap(a.recipient(), &header, 0, &[7; 32]).unwrap();
        assert_eq!(*stanza.unwrap(&a, &header).unwrap(), [7; 32]);
        assert!(stanza.unwrap(&b, &header).is_none());
        let mut other = sample();
        other.number += 1;
        assert!(stanza.unwrap(&a, &other).is_none(), "bound to its segment");
        let mut class = stanza.clone();
        class.class = 1;
        assert!(class.unwrap(&a, &header).is_none(), "bound to its class");
        let file = Stanza::encode_all(&[stanza.clone(), class.clone()]);
        assert_eq!(Stanza::parse_all(&file).unwrap(), [stanza, class]);
        for end in 1..file.len() {
            let read = Stanza::parse_all(&file[..end]);
            assert!(read.is_err() || read.unwrap().len() < 2, "{end}");
        }
    }

    #[test]
    fn key_files_come_back() {
        let key = SecretKey::generate().unwrap();
        let again =
            SecretKey::parse_file(&format!("# comment\n{}", *key.to_text().unwrap())).unwrap();
        assert_eq!(again.recipient(), key.recipient());
        let public =
            Recipient::parse_file(&format!("# me\n{}", key.recipient().to_text())).unwrap();
        assert_eq!(&public[0], key.recipient());
        assert!(Recipient::parse_file("gabion-recipient-x25519 AAAA\n").is_err());
        assert!(Recipient::parse_file("# nothing\n").is_err());
        assert!(SecretKey::parse_file("nothing").is_err());
    }
}
