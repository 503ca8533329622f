//! Keys of one segment and class, derived from one random data key: encryption, nonces, salts, index;
//! and the commitment that makes a data key the only one that fits.
//!
//! Nonces are synthetic: a hash over everything that is encrypted. A counter would be used twice when a
//! machine continues from a snapshot or a torn chunk is written again, and AES-GCM breaks at the second
//! use. AES-GCM alone would also let a chunk be made that opens differently under two keys; the
//! commitment rules that out.

use crate::error::{Error, Result};
use crate::format::chunk::{NONCE_LEN, TAG_LEN};
use crate::format::epoch::expand;
use crate::format::segment::{Aead, Header};
use crate::format::tree::{Hash, sha256};
use aws_lc_rs::aead::{AES_256_GCM, Aad, CHACHA20_POLY1305, LessSafeKey, Nonce, Tag, UnboundKey};
use aws_lc_rs::cipher::{AES_256, EncryptingKey, UnboundCipherKey};
use aws_lc_rs::hkdf::{HKDF_SHA256, Salt};
use aws_lc_rs::{constant_time, hmac};
use zeroize::Zeroizing;

/// 32 random bytes from which everything of a segment's class is derived.
pub type DataKey = Zeroizing<[u8; 32]>;

/// What is derived from a data key.
pub struct ClassKeys {
    chunk: LessSafeKey,
    nonce: hmac::Key,
    salt: EncryptingKey,
    index: LessSafeKey,
    /// Commitment to the data key.
    pub commitment: [u8; 32],
}

impl std::fmt::Debug for ClassKeys {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ClassKeys").finish_non_exhaustive()
    }
}

impl ClassKeys {
    /// Derives all keys for a segment and class.
    pub fn derive(
        data_key: &[u8; 32],
        salt: &[u8; 32],
        log_id: &[u8; 16],
        segment: u64,
        class: u8,
        aead: Aead,
    ) -> Result<ClassKeys> {
        let prk = Salt::new(HKDF_SHA256, salt).extract(data_key);
        let number = segment.to_be_bytes();
        let derive =
            |what: &[u8]| expand(&prk, &[b"gabion/seal/v1 ", what, log_id, &number, &[class]]);
        let algorithm = match aead {
            Aead::Aes256Gcm => &AES_256_GCM,
            Aead::ChaCha20Poly1305 => &CHACHA20_POLY1305,
        };
        let chunk = UnboundKey::new(algorithm, derive(b"chunk")?.as_ref())
            .map_err(|_| Error::Crypto("AEAD"))?;
        let index = UnboundKey::new(algorithm, derive(b"index")?.as_ref())
            .map_err(|_| Error::Crypto("AEAD"))?;
        let salt = UnboundCipherKey::new(&AES_256, derive(b"salt")?.as_ref())
            .map_err(|_| Error::Crypto("AES"))?;
        Ok(ClassKeys {
            chunk: LessSafeKey::new(chunk),
            nonce: hmac::Key::new(hmac::HMAC_SHA256, derive(b"nonce")?.as_ref()),
            salt: EncryptingKey::ecb(salt).map_err(|_| Error::Crypto("AES"))?,
            index: LessSafeKey::new(index),
            commitment: *derive(b"commit")?,
        })
    }

    /// Derives the keys of class 0 and compares the header's commitment.
    pub fn of_segment(header: &Header, data_key: &[u8; 32]) -> Result<ClassKeys> {
        ClassKeys::of_class(header, data_key, 0, &header.commitment)
    }

    /// Derives the keys of a class and compares its commitment.
    pub fn of_class(
        header: &Header,
        data_key: &[u8; 32],
        class: u8,
        commitment: &[u8; 32],
    ) -> Result<ClassKeys> {
        let keys = ClassKeys::derive(
            data_key,
            &header.salt,
            &header.log_id,
            header.number,
            class,
            header.aead,
        )?;
        constant_time::verify_slices_are_equal(&keys.commitment, commitment)
            .map_err(|_| Error::key("the data key does not fit the segment's commitment"))?;
        Ok(keys)
    }

    /// The nonce for an AEAD input under a chunk header.
    #[must_use]
    pub fn nonce(&self, header: &[u8], input_hash: &Hash) -> [u8; NONCE_LEN] {
        let mut context = hmac::Context::with_key(&self.nonce);
        context.update(header);
        context.update(input_hash);
        let mut nonce = [0; NONCE_LEN];
        nonce.copy_from_slice(&context.sign().as_ref()[..NONCE_LEN]);
        nonce
    }

    /// Encrypts in place and gives the tag.
    pub fn seal(
        &self,
        nonce: [u8; NONCE_LEN],
        aad: &[u8],
        in_out: &mut [u8],
    ) -> Result<[u8; TAG_LEN]> {
        let nonce = Nonce::assume_unique_for_key(nonce);
        let tag: Tag = self
            .chunk
            .seal_in_place_separate_tag(nonce, Aad::from(aad), in_out)
            .map_err(|_| Error::Crypto("AEAD"))?;
        let mut bytes = [0; TAG_LEN];
        bytes.copy_from_slice(tag.as_ref());
        Ok(bytes)
    }

    /// Decrypts in place; the nonce must be the one that these bytes have.
    pub fn open<'a>(&self, header: &[u8], aad: &[u8], body: &'a mut [u8]) -> Option<&'a [u8]> {
        let (nonce, in_out) = body.split_at_mut_checked(NONCE_LEN)?;
        let stored: [u8; NONCE_LEN] = (&*nonce).try_into().ok()?;
        let plain = self
            .chunk
            .open_in_place(Nonce::assume_unique_for_key(stored), Aad::from(aad), in_out)
            .ok()?;
        (self.nonce(header, &sha256(plain)) == stored).then_some(&*plain)
    }

    /// Salts of `count` records from this number on.
    pub fn salts(&self, first: u64, count: usize, out: &mut Vec<u8>) -> Result<()> {
        out.clear();
        for i in 0..count as u64 {
            out.extend_from_slice(&[0; 8]);
            out.extend_from_slice(&first.wrapping_add(i).to_be_bytes());
        }
        if out.is_empty() {
            return Ok(());
        }
        self.salt.encrypt(out).map(|_| ()).map_err(|_| Error::Crypto("AES"))
    }

    /// Encrypts a segment's index in place; gives nonce and tag.
    pub fn seal_index(
        &self,
        segment_hash: &Hash,
        in_out: &mut [u8],
    ) -> Result<([u8; NONCE_LEN], [u8; TAG_LEN])> {
        let nonce = self.nonce(b"index", &sha256(in_out));
        let tag = self
            .index
            .seal_in_place_separate_tag(
                Nonce::assume_unique_for_key(nonce),
                Aad::from(segment_hash),
                in_out,
            )
            .map_err(|_| Error::Crypto("AEAD"))?;
        let mut bytes = [0; TAG_LEN];
        bytes.copy_from_slice(tag.as_ref());
        Ok((nonce, bytes))
    }

    /// Decrypts a segment's index.
    #[must_use]
    pub fn open_index(
        &self,
        nonce: [u8; NONCE_LEN],
        segment_hash: &Hash,
        sealed: &[u8],
    ) -> Option<Vec<u8>> {
        let mut plain = sealed.to_vec();
        let nonce = Nonce::assume_unique_for_key(nonce);
        let len = self.index.open_in_place(nonce, Aad::from(segment_hash), &mut plain).ok()?.len();
        plain.truncate(len);
        Some(plain)
    }
}

/// Salts as arrays.
#[must_use]
pub fn salt_list(bytes: &[u8]) -> &[[u8; 16]] {
    bytes.as_chunks().0
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::segment::tests::sample;

    #[test]
    fn a_chunk_opens_only_as_it_was_sealed() {
        for aead in [Aead::Aes256Gcm, Aead::ChaCha20Poly1305] {
            let mut header = sample();
            header.aead = aead;
            let keys =
                ClassKeys::derive(&[1; 32], &header.salt, &header.log_id, 3, 0, aead).unwrap();
            header.commitment = keys.commitment;
            assert!(ClassKeys::of_segment(&header, &[1; 32]).is_ok());
            assert!(matches!(ClassKeys::of_segment(&header, &[2; 32]), Err(Error::Key { .. })));
            let plain = b"compressed records".to_vec();
            let nonce = keys.nonce(b"head", &sha256(&plain));
            let mut sealed = plain.clone();
            let tag = keys.seal(nonce, b"aad", &mut sealed).unwrap();
            let mut body = nonce.to_vec();
            body.extend_from_slice(&sealed);
            body.extend_from_slice(&tag);
            assert_eq!(keys.open(b"head", b"aad", &mut body.clone()), Some(&plain[..]));
            assert_eq!(keys.open(b"other", b"aad", &mut body.clone()), None, "synthetic nonce");
            assert_eq!(keys.open(b"head", b"other", &mut body.clone()), None);
            for at in 0..body.len() {
                let mut body = body.clone();
                body[at] ^= 1;
                assert_eq!(keys.open(b"head", b"aad", &mut body), None, "byte {at}");
            }
            assert_eq!(keys.open(b"head", b"aad", &mut [0; 11]), None);
        }
    }

    #[test]
    fn salts_depend_on_the_number_alone() {
        let keys = ClassKeys::derive(&[1; 32], &[2; 32], &[3; 16], 4, 0, Aead::Aes256Gcm).unwrap();
        let (mut all, mut one) = (Vec::new(), Vec::new());
        keys.salts(10, 5, &mut all).unwrap();
        keys.salts(13, 1, &mut one).unwrap();
        assert_eq!(salt_list(&all)[3], salt_list(&one)[0]);
        assert_ne!(salt_list(&all)[3], salt_list(&all)[4]);
        keys.salts(0, 0, &mut all).unwrap();
        assert!(all.is_empty());
    }
}
