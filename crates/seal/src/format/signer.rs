//! The signer's state: one file of four slots of 4 KiB, written in place.
//!
//! Two slots by turns hold an epoch's seed, two by turns the last checkpoint with the subtree roots at
//! its size. A seed is overwritten with zeros only after the next is durable. From the second pair a
//! start continues without hashing the whole log again, and sees when the log is not the one it signed.

use crate::error::{Error, Result};
use crate::format::epoch::EpochKey;
use crate::format::tree::{Hash, Range, sha256};
use crate::format::wire::Take;
use crate::storage::Storage;
use zeroize::Zeroizing;

/// Name of the file.
pub const FILE: &str = "signer";
/// Bytes of a slot: a page, so that one write is not torn on the disks there are, and if it is, its hash
/// shows it.
const SLOT: usize = 4096;
const KEY_MAGIC: &[u8; 8] = b"GABSIGN1";
const HEAD_MAGIC: &[u8; 8] = b"GABHEAD1";

/// An epoch as the signer holds it.
#[derive(Debug)]
pub struct SignerKey {
    /// The key.
    pub key: EpochKey,
    /// Size after which it signs: its epoch begins after this many chunks.
    pub start: u64,
    /// When it was made, nanoseconds since 1970.
    pub since_ns: u64,
}

/// The last checkpoint that was signed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SignedHead {
    /// Counts heads, so that the newer of two slots is known.
    pub sequence: u64,
    /// When it was signed, nanoseconds since 1970.
    pub time_ns: u64,
    /// Subtree roots of the tree that was signed.
    pub range: Range,
    /// Number of the first record after it.
    pub next_record: u64,
}

/// The file.
#[derive(Debug)]
pub struct SignerState<S> {
    storage: S,
    log_id: [u8; 16],
    /// Keys there are, oldest epoch first: one, or two in the middle of a switch.
    pub keys: Vec<SignerKey>,
    /// The last checkpoint.
    pub head: SignedHead,
}

impl<S: Storage> SignerState<S> {
    /// Writes a new state for a log; fails when there is one.
    pub fn create(
        mut storage: S,
        log_id: [u8; 16],
        key: EpochKey,
        now_ns: u64,
    ) -> Result<SignerState<S>> {
        let first = SignerKey { key, start: 0, since_ns: now_ns };
        let mut bytes = Zeroizing::new(vec![0; 4 * SLOT]);
        bytes[..SLOT].copy_from_slice(key_slot(&log_id, &first).as_ref());
        let head = SignedHead::default();
        bytes[2 * SLOT..3 * SLOT].copy_from_slice(head_slot(&log_id, &head).as_ref());
        storage.create(FILE, &bytes).map_err(|e| Error::storage(FILE, e))?;
        Ok(SignerState { storage, log_id, keys: vec![first], head })
    }

    /// Reads the state of a log.
    pub fn open(storage: S, log_id: [u8; 16]) -> Result<SignerState<S>> {
        let bytes =
            storage.read_file(FILE, 4 * SLOT as u64).map_err(|e| Error::storage(FILE, e))?;
        let bytes =
            Zeroizing::new(bytes.ok_or_else(|| Error::key("the signer's state is not there"))?);
        let mut keys = Vec::new();
        let mut heads = Vec::new();
        let mut is_other = false;
        for (i, slot) in bytes.chunks(SLOT).enumerate().take(4) {
            let Some(mut take) = checked(slot, if i < 2 { KEY_MAGIC } else { HEAD_MAGIC }) else {
                continue;
            };
            if take.array() != Some(log_id) {
                is_other = true;
                continue;
            }
            if i < 2 {
                keys.extend(read_key(&mut take)?);
            } else {
                heads.extend(read_head(&mut take));
            }
        }
        if keys.is_empty() && is_other {
            return Err(Error::Mismatch(crate::error::Mismatch::OtherLog));
        }
        keys.sort_by_key(|k| k.key.number());
        let head = heads.into_iter().max_by_key(|h: &SignedHead| h.sequence);
        let head = head.ok_or_else(|| Error::key("the signer's state is damaged"))?;
        if keys.is_empty() {
            return Err(Error::key("the signer's state holds no key"));
        }
        Ok(SignerState { storage, log_id, keys, head })
    }

    /// The key that signs now: the oldest there is, until a switch is finished.
    #[must_use]
    pub fn current(&self) -> Option<&SignerKey> {
        self.keys.first()
    }

    /// Whether what holds the state still has a name.
    pub fn is_there(&self) -> Result<()> {
        self.storage.is_there().map_err(|e| Error::storage("the signer's state", e))
    }

    /// Makes the next epoch's key durable next to the current one.
    pub fn prepare(&mut self, start: u64, now_ns: u64) -> Result<()> {
        let next = match self.keys.last() {
            Some(last) => SignerKey { key: last.key.next()?, start, since_ns: now_ns },
            None => return Err(Error::key("the signer's state holds no key")),
        };
        self.write(next.key.number() % 2, &key_slot(&self.log_id, &next))?;
        self.keys.push(next);
        Ok(())
    }

    /// Erases all keys but the newest.
    pub fn finish(&mut self) -> Result<()> {
        while self.keys.len() > 1 {
            self.write(self.keys[0].key.number() % 2, &[0; SLOT])?;
            self.keys.remove(0);
        }
        Ok(())
    }

    /// Erases a prepared key that was never announced.
    pub fn abandon(&mut self) -> Result<()> {
        while self.keys.len() > 1 {
            let Some(last) = self.keys.last() else { break };
            self.write(last.key.number() % 2, &[0; SLOT])?;
            self.keys.pop();
        }
        Ok(())
    }

    /// Notes the checkpoint that was just made durable.
    pub fn note_head(&mut self, range: &Range, next_record: u64, time_ns: u64) -> Result<()> {
        let sequence = self.head.sequence.saturating_add(1);
        self.head = SignedHead { sequence, time_ns, range: range.clone(), next_record };
        self.write(2 + sequence % 2, &head_slot(&self.log_id, &self.head))
    }

    fn write(&mut self, slot: u64, bytes: &[u8; SLOT]) -> Result<()> {
        let at = slot * SLOT as u64;
        self.storage.write_at(FILE, at, bytes).map_err(|e| Error::storage(FILE, e))?;
        self.storage.sync(FILE).map_err(|e| Error::storage(FILE, e))
    }
}

fn finished(mut content: Zeroizing<Vec<u8>>) -> Zeroizing<[u8; SLOT]> {
    content.resize(SLOT - 32, 0);
    let hash = sha256(&content);
    content.extend_from_slice(&hash);
    let mut slot = Zeroizing::new([0; SLOT]);
    slot.copy_from_slice(&content);
    slot
}

fn key_slot(log_id: &[u8; 16], key: &SignerKey) -> Zeroizing<[u8; SLOT]> {
    let mut out = Zeroizing::new(Vec::with_capacity(SLOT));
    out.extend_from_slice(KEY_MAGIC);
    out.extend_from_slice(log_id);
    out.extend_from_slice(&key.key.number().to_be_bytes());
    out.extend_from_slice(&key.start.to_be_bytes());
    out.extend_from_slice(&key.since_ns.to_be_bytes());
    out.extend_from_slice(key.key.seed());
    finished(out)
}

fn head_slot(log_id: &[u8; 16], head: &SignedHead) -> Zeroizing<[u8; SLOT]> {
    let mut out = Zeroizing::new(Vec::with_capacity(SLOT));
    out.extend_from_slice(HEAD_MAGIC);
    out.extend_from_slice(log_id);
    for n in [head.sequence, head.time_ns, head.next_record, head.range.size()] {
        out.extend_from_slice(&n.to_be_bytes());
    }
    head.range.nodes().iter().for_each(|n| out.extend_from_slice(n));
    finished(out)
}

/// What follows the magic of a slot whose hash is right.
fn checked<'a>(slot: &'a [u8], magic: &[u8; 8]) -> Option<Take<'a>> {
    let (content, hash) = slot.split_at_checked(SLOT - 32)?;
    (sha256(content) == hash && content.starts_with(magic)).then(|| Take::new(&content[8..]))
}

fn read_key(take: &mut Take<'_>) -> Result<Option<SignerKey>> {
    let (Some(number), Some(start), Some(since_ns)) = (take.u64(), take.u64(), take.u64()) else {
        return Ok(None);
    };
    let Some(seed) = take.array() else { return Ok(None) };
    let key = EpochKey::from_seed(number, Zeroizing::new(seed))?;
    Ok(Some(SignerKey { key, start, since_ns }))
}

fn read_head(take: &mut Take<'_>) -> Option<SignedHead> {
    let (sequence, time_ns, next_record, size) =
        (take.u64()?, take.u64()?, take.u64()?, take.u64()?);
    let mut nodes: Vec<Hash> = Vec::new();
    for _ in 0..size.count_ones() {
        nodes.push(take.array()?);
    }
    Some(SignedHead { sequence, time_ns, next_record, range: Range::from_parts(size, nodes)? })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::tree::leaf_hash;
    use crate::storage::Memory;

    #[test]
    fn keys_advance_and_the_old_one_is_gone() {
        let memory = Memory::new();
        let first = EpochKey::generate().unwrap();
        let old_seed = *first.seed();
        let mut state = SignerState::create(memory.clone(), [1; 16], first, 0).unwrap();
        state.prepare(5, 0).unwrap();
        assert_eq!(SignerState::open(memory.clone(), [1; 16]).unwrap().keys.len(), 2);
        state.finish().unwrap();
        let bytes = memory.get(FILE).unwrap();
        assert!(!bytes.windows(32).any(|w| w == old_seed), "the old seed is erased");
        let again = SignerState::open(memory.clone(), [1; 16]).unwrap();
        assert_eq!((again.keys.len(), again.keys[0].key.number(), again.keys[0].start), (1, 1, 5));
        assert_eq!(again.keys[0].key.public(), state.keys[0].key.public());
        assert!(matches!(
            SignerState::open(memory, [2; 16]),
            Err(Error::Mismatch(crate::error::Mismatch::OtherLog))
        ));
    }

    #[test]
    fn the_newer_head_counts_and_a_torn_one_falls_back() {
        let memory = Memory::new();
        let mut state =
            SignerState::create(memory.clone(), [1; 16], EpochKey::generate().unwrap(), 0).unwrap();
        let mut range = Range::new();
        for i in 0..3u8 {
            range.push(leaf_hash(&[i]));
            state.note_head(&range, u64::from(i), 100).unwrap();
        }
        assert_eq!(SignerState::open(memory.clone(), [1; 16]).unwrap().head.range, range);
        let mut bytes = memory.get(FILE).unwrap();
        bytes[(2 + 3 % 2) * SLOT + 40] ^= 1;
        memory.put(FILE, &bytes);
        assert_eq!(SignerState::open(memory, [1; 16]).unwrap().head.range.size(), 2);
    }
}
