//! Beginning and ending segments.

use super::{Current, Writer};
use crate::error::{Error, Result};
use crate::format::chunk::FLAG_LAST;
use crate::format::data_key::{ClassKeys, DataKey};
use crate::format::epoch::random;
use crate::format::index;
use crate::format::segment::{FLAG_PADDED, FLAG_TIMES_ROUNDED, FLAG_ZSTD, Header, file_name};
use crate::format::tree::sha256;
use crate::limits::INDEX_MAX;
use crate::recipient::Stanza;
use crate::statement;
use crate::storage::Storage;

impl<S: Storage> Writer<S> {
    pub(super) fn rotate_if_due(&mut self) -> Result<()> {
        let Some(current) = &self.current else { return Err(Error::Stopped) };
        let age = self.now_ns.saturating_sub(current.header.created_ns);
        let has_chunks = self.range.size() > current.header.first_chunk.saturating_add(1);
        if current.len >= self.policy.segment_bytes
            || (age >= self.policy.segment_after_ns && has_chunks)
        {
            self.rotate()?;
        }
        Ok(())
    }

    /// Ends the segment and begins the next.
    pub(super) fn rotate(&mut self) -> Result<()> {
        let rotate = statement::statement("rotate", |_| {});
        self.state(&[rotate], FLAG_LAST)?;
        self.flush()?;
        self.write_index()?;
        self.begin_segment(Vec::new())
    }

    /// Makes a segment with fresh keys; these statements and who can read it are its first chunk.
    pub(super) fn begin_segment(&mut self, mut statements: Vec<Vec<u8>>) -> Result<()> {
        let made = self.make_segment();
        let recipients = self.stopping(made)?;
        statements.push(recipients);
        self.state(&statements, 0)?;
        self.flush()
    }

    /// Writes header and stanzas; gives the statement of who can read it.
    fn make_segment(&mut self) -> Result<Vec<u8>> {
        let manner = self.policy.manner;
        let mut flags = 0;
        for (is_on, flag) in [
            (manner.level.is_some(), FLAG_ZSTD),
            (manner.is_padded, FLAG_PADDED),
            (manner.is_rounded, FLAG_TIMES_ROUNDED),
        ] {
            flags |= if is_on { flag } else { 0 };
        }
        let first_chunk = self.range.size();
        let number =
            self.current.as_ref().map_or(self.next_segment, |c| c.header.number.saturating_add(1));
        let mut header = Header {
            minor: 0,
            flags,
            log_id: self.log_id,
            number,
            first_chunk,
            first_record: self.next_record,
            created_ns: self.now_ns,
            root: self.range.root(),
            aead: self.policy.aead,
            salt: *random()?,
            commitment: [0; 32],
        };
        let classes = 1 + self.policy.classes.len();
        let mut keys = Vec::with_capacity(classes);
        let mut stanzas = Vec::new();
        for class in 0..classes {
            let class = u8::try_from(class).map_err(|_| Error::key("255 classes are the most"))?;
            let data_key: DataKey = random()?;
            let derived = ClassKeys::derive(
                &data_key,
                &header.salt,
                &self.log_id,
                number,
                class,
                header.aead,
            )?;
            if class == 0 {
                header.commitment = derived.commitment;
            }
            for recipient in &self.recipients {
                stanzas.push(Stanza::wrap(recipient, &header, class, &data_key)?);
            }
            keys.push(derived);
        }
        let (keys_name, name) = (file_name(first_chunk, "keys"), header.file_name());
        let keys_file = Stanza::encode_all(&stanzas);
        let bytes = header.encode();
        self.log.create(&keys_name, &keys_file).map_err(|e| Error::storage(&keys_name, e))?;
        self.log.create(&name, &bytes).map_err(|e| Error::storage(&name, e))?;
        let ids: Vec<[u8; 8]> = self.recipients.iter().map(|r| r.id()).collect();
        let named: Vec<(u8, String, [u8; 32])> = keys
            .iter()
            .enumerate()
            .skip(1)
            .map(|(i, k)| (i as u8, self.policy.classes[i - 1].clone(), k.commitment))
            .collect();
        let statement = statement::recipients(first_chunk, &sha256(&keys_file), &ids, &named);
        self.current = Some(Current {
            hash: sha256(&bytes),
            header,
            name,
            keys,
            len: bytes.len() as u64,
            index: Vec::new(),
        });
        self.tally.stored += bytes.len() as u64;
        Ok(statement)
    }

    /// Writes the index after the last chunk. It is a help for readers and nothing rests on it.
    pub(super) fn write_index(&mut self) -> Result<()> {
        let Some(current) = &self.current else { return Err(Error::Stopped) };
        let Some(keys) = current.keys.first() else { return Err(Error::Stopped) };
        if index::len(current.index.len()) > INDEX_MAX {
            return Ok(());
        }
        let bytes = index::encode(&current.index, current.len, keys, &current.hash)?;
        let name = current.name.clone();
        let written = self.log.append(&name, &bytes).and_then(|()| self.log.sync(&name));
        self.tally.stored += bytes.len() as u64;
        self.stopping(written.map_err(|e| Error::storage(&name, e)))
    }
}
