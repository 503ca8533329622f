//! Epoch keys: the log is signed by a key that lives for an hour or so, and the next one's public half is
//! announced inside the tree before the old secret is erased.
//!
//! A thief of the host's secret can sign only what the current epoch may hold. A seed advances by a hash
//! with fresh random bytes, so that a seed out of an old backup does not yield the keys that were really
//! announced after it.

use crate::error::{Error, Result};
use crate::format::tree::Hash;
use crate::locked::Seed;
use crate::note::{Checkpoint, Note, Signature, SignatureKind, Vkey};
use aws_lc_rs::hkdf::{HKDF_SHA256, KeyType, Prk, Salt};
use aws_lc_rs::rand::{SecureRandom, SystemRandom};
use aws_lc_rs::signature::{Ed25519KeyPair, KeyPair};
use zeroize::Zeroizing;

/// Length of an HKDF output.
pub(crate) struct Len(pub(crate) usize);

impl KeyType for Len {
    fn len(&self) -> usize {
        self.0
    }
}

/// 32 bytes of HKDF-Expand under this info.
pub(crate) fn expand(prk: &Prk, info: &[&[u8]]) -> Result<Zeroizing<[u8; 32]>> {
    let mut out = Zeroizing::new([0; 32]);
    let okm = prk.expand(info, Len(32)).map_err(|_| Error::Crypto("HKDF"))?;
    okm.fill(out.as_mut()).map_err(|_| Error::Crypto("HKDF"))?;
    Ok(out)
}

/// Fresh random bytes.
pub fn random<const N: usize>() -> Result<Zeroizing<[u8; N]>> {
    let mut out = Zeroizing::new([0; N]);
    SystemRandom::new().fill(out.as_mut()).map_err(|_| Error::Crypto("no random bytes"))?;
    Ok(out)
}

/// The signing key of one epoch.
pub struct EpochKey {
    number: u64,
    seed: Seed,
    pair: Ed25519KeyPair,
    public: [u8; 32],
}

impl EpochKey {
    /// A fresh key for epoch 0.
    pub fn generate() -> Result<EpochKey> {
        EpochKey::from_seed(0, random()?)
    }

    /// From its seed.
    pub fn from_seed(number: u64, seed: Zeroizing<[u8; 32]>) -> Result<EpochKey> {
        let seed = Seed::new(seed);
        let prk = Prk::new_less_safe(HKDF_SHA256, seed.bytes());
        let secret = expand(&prk, &[b"gabion/epoch/sign"])?;
        let pair = Ed25519KeyPair::from_seed_unchecked(secret.as_ref())
            .map_err(|_| Error::Crypto("Ed25519"))?;
        let mut public = [0; 32];
        public.copy_from_slice(pair.public_key().as_ref());
        Ok(EpochKey { number, seed, pair, public })
    }

    /// The key of the next epoch: this seed and fresh random bytes.
    pub fn next(&self) -> Result<EpochKey> {
        let fresh: Zeroizing<[u8; 32]> = random()?;
        let prk = Salt::new(HKDF_SHA256, fresh.as_ref()).extract(self.seed.bytes());
        let seed = expand(&prk, &[b"gabion/epoch/next"])?;
        EpochKey::from_seed(self.number.saturating_add(1), seed)
    }

    /// Which epoch.
    #[must_use]
    pub const fn number(&self) -> u64 {
        self.number
    }

    /// The seed, to be stored by the signer alone.
    #[must_use]
    pub fn seed(&self) -> &[u8; 32] {
        self.seed.bytes()
    }

    /// Public half.
    #[must_use]
    pub const fn public(&self) -> [u8; 32] {
        self.public
    }

    /// How the key verifies notes of this origin.
    #[must_use]
    pub fn vkey(&self, origin: &str) -> Vkey {
        Vkey::new(origin, SignatureKind::Ed25519, self.public)
    }

    /// Signs bytes.
    #[must_use]
    pub fn sign(&self, bytes: &[u8]) -> [u8; 64] {
        let mut out = [0; 64];
        out.copy_from_slice(self.pair.sign(bytes).as_ref());
        out
    }

    /// The two lines under a checkpoint: signature, and time as a cosignature.
    #[must_use]
    pub fn sign_checkpoint(&self, checkpoint: &Checkpoint, time_s: u64) -> [Signature; 2] {
        let (origin, text) = (&checkpoint.origin, checkpoint.text());
        [
            Signature::sign(origin, &self.pair, self.public, &text),
            Signature::cosign(origin, &self.pair, self.public, time_s, &text),
        ]
    }

    /// A note with any text, signed by this key under a name.
    #[must_use]
    pub fn sign_note(&self, name: &str, text: String) -> Note {
        let signature = Signature::sign(name, &self.pair, self.public, &text);
        Note { text, signatures: vec![signature] }
    }
}

impl std::fmt::Debug for EpochKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("EpochKey").field("number", &self.number).finish_non_exhaustive()
    }
}

/// What a commit mark's signature covers.
#[must_use]
pub fn mark_text(log_id: &[u8; 16], size: u64, root: &Hash) -> Vec<u8> {
    let mut out = Vec::with_capacity(80);
    out.extend_from_slice(b"gabion/commit/v1\n");
    out.extend_from_slice(log_id);
    out.extend_from_slice(&size.to_be_bytes());
    out.extend_from_slice(root);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn epochs_advance_and_never_the_same_way_twice() {
        let first = EpochKey::generate().unwrap();
        let (a, b) = (first.next().unwrap(), first.next().unwrap());
        assert_eq!((a.number(), b.number()), (1, 1));
        assert_ne!(a.public(), b.public());
        let again = EpochKey::from_seed(0, Zeroizing::new(*first.seed())).unwrap();
        assert_eq!(again.public(), first.public());
    }

    #[test]
    fn a_checkpoint_is_signed_and_timed_by_its_epoch() {
        let key = EpochKey::generate().unwrap();
        let checkpoint = Checkpoint { origin: "log.example/a".into(), size: 7, root: [3; 32] };
        let note = Note {
            text: checkpoint.text(),
            signatures: key.sign_checkpoint(&checkpoint, 1_700_000_000).to_vec(),
        };
        let read = Note::parse(note.to_string().as_bytes()).unwrap();
        assert_eq!(read, note);
        let vkey = key.vkey("log.example/a");
        let keys = [vkey.clone(), vkey.of_kind(SignatureKind::Cosignature)];
        let verified = read.verify(&keys).unwrap();
        assert_eq!(verified.len(), 2);
        assert_eq!(verified[1].time, Some(1_700_000_000));
        assert_eq!(Checkpoint::parse(&read.text).unwrap(), checkpoint);
        assert_eq!(Vkey::parse(&vkey.to_string()).unwrap(), vkey);
    }
}
