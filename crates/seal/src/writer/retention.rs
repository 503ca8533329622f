//! Pruning, changing who can read, and destroying keys: each is stated in the log, signed and durable,
//! before anything is changed on the disk.

use super::Writer;
use crate::error::{Error, Result};
use crate::format::retain::Stub;
use crate::format::segment::{Parsed, file_name, parse_file_name};
use crate::format::tree::sha256;
use crate::format::walk::read_header;
use crate::limits::{KEYS_FILE_MAX, STANZAS_MAX};
use crate::recipient::{Recipient, SecretKey, Stanza};
use crate::statement::{recipients, statement};
use crate::storage::Storage;
use crate::unlock::commitments;
use gabion_record::hex::to_hex;

/// Name of the file of segments that may not be pruned: a first chunk a line.
pub const HOLD_FILE: &str = "hold";

/// A segment that is there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Summary {
    /// Its first chunk.
    pub first_chunk: u64,
    /// Its first record.
    pub first_record: u64,
    /// When it was begun, ns.
    pub created_ns: u64,
    /// When the next was begun: nothing in it was received later, ns.
    pub ended_ns: Option<u64>,
    /// Bytes.
    pub bytes: u64,
}

/// The segments of a log, oldest first.
pub fn segments(log: &dyn Storage) -> Result<Vec<Summary>> {
    let names = log.list().map_err(|e| Error::storage("log", e))?;
    let mut all: Vec<Summary> = Vec::new();
    for name in &names {
        let Some((first_chunk, "gsl")) = parse_file_name(name) else { continue };
        let Ok((Parsed::Known(header), _)) = read_header(log, name) else { continue };
        let bytes = log.len(name).map_err(|e| Error::storage(name, e))?.unwrap_or(0);
        all.push(Summary {
            first_chunk,
            first_record: header.first_record,
            created_ns: header.created_ns,
            ended_ns: None,
            bytes,
        });
    }
    all.sort_by_key(|s| s.first_chunk);
    let next: Vec<u64> = all.iter().skip(1).map(|s| s.created_ns).collect();
    all.iter_mut().zip(next).for_each(|(s, ended)| s.ended_ns = Some(ended));
    Ok(all)
}

/// Segments (by first chunk) that may not be pruned.
pub fn held(log: &dyn Storage) -> Result<Vec<u64>> {
    let bytes = log
        .read_file(HOLD_FILE, 1 << 24)
        .map_err(|e| Error::storage(HOLD_FILE, e))?
        .unwrap_or_default();
    Ok(String::from_utf8_lossy(&bytes).lines().filter_map(|l| l.trim().parse().ok()).collect())
}

impl<S: Storage> Writer<S> {
    /// The storage of the log.
    pub const fn log(&self) -> &S {
        &self.log
    }

    /// Removes whole segments, leaving stubs. Those on hold and the current one are refused.
    pub fn prune(&mut self, first_chunks: &[u64], now_ns: u64) -> Result<()> {
        self.alive()?;
        self.now_ns = now_ns;
        let held = held(&self.log)?;
        let mut stubs = Vec::new();
        for first in first_chunks {
            let name = file_name(*first, "gsl");
            if held.contains(first) {
                return Err(Error::format(format!("{name} is on hold")));
            }
            if self.current.as_ref().is_some_and(|c| c.header.first_chunk == *first) {
                return Err(Error::format(format!("{name} is being written")));
            }
            stubs.push((*first, Stub::of_segment(&self.log, &name)?));
        }
        if stubs.is_empty() {
            return Ok(());
        }
        let mut parsed = Vec::new();
        for (first, bytes) in &stubs {
            parsed.push((*first, Stub::parse(bytes)?, sha256(bytes)));
        }
        let prune = statement("prune", |json| {
            json.open_array_key("segments");
            for (first, stub, hash) in &parsed {
                json.open();
                json.number("segment", *first);
                json.number("chunks", stub.leaves.len());
                json.number("first_record", stub.header.first_record);
                json.number("records", stub.records);
                json.field("stub", to_hex(hash));
                json.close();
            }
            json.close_array();
        });
        self.signed(prune)?;
        for (first, bytes) in stubs {
            let done = self.put_stub(first, &bytes);
            self.stopping(done)?;
        }
        Ok(())
    }

    /// States something and signs it, so that it is durable and under a checkpoint before it is done.
    fn signed(&mut self, statement: Vec<u8>) -> Result<()> {
        self.state(&[statement], 0)?;
        self.flush()?;
        self.checkpoint(false)
    }

    fn put_stub(&mut self, first: u64, bytes: &[u8]) -> Result<()> {
        let (stub, segment, keys) =
            (file_name(first, "pruned"), file_name(first, "gsl"), file_name(first, "keys"));
        self.log.replace(&stub, bytes).map_err(|e| Error::storage(&stub, e))?;
        self.log.remove(&segment).map_err(|e| Error::storage(&segment, e))?;
        if self.log.len(&keys).map_err(|e| Error::storage(&keys, e))?.is_some() {
            self.log.remove(&keys).map_err(|e| Error::storage(&keys, e))?;
        }
        self.log.sync_names().map_err(|e| Error::storage("log", e))
    }

    /// Changes who can read segments: opens each data key with one of `keys`, adds and removes stanzas.
    /// What a removed recipient has read, or copied, is not taken back.
    pub fn rewrap(
        &mut self,
        first_chunks: &[u64],
        keys: &[SecretKey],
        add: &[Recipient],
        remove: &[[u8; 8]],
        now_ns: u64,
    ) -> Result<()> {
        self.alive()?;
        self.now_ns = now_ns;
        for first in first_chunks {
            let (name, keys_name) = (file_name(*first, "gsl"), file_name(*first, "keys"));
            let (Parsed::Known(header), _) = read_header(&self.log, &name)? else {
                return Err(Error::Unsupported { what: name });
            };
            let mut stanzas = self.stanzas(&keys_name)?;
            let mut classes: Vec<u8> = stanzas.iter().map(|s| s.class).collect();
            classes.dedup();
            for class in classes {
                let data_key = stanzas
                    .iter()
                    .filter(|s| s.class == class)
                    .find_map(|s| keys.iter().find_map(|k| s.unwrap(k, &header)))
                    .ok_or_else(|| {
                        Error::key(format!("{keys_name}: no key given opens class {class}"))
                    })?;
                for recipient in add {
                    if !stanzas.iter().any(|s| s.class == class && s.id == recipient.id()) {
                        stanzas.push(Stanza::wrap(recipient, &header, class, &data_key)?);
                    }
                }
            }
            stanzas.retain(|s| !remove.contains(&s.id));
            if stanzas.is_empty() || stanzas.iter().filter(|s| s.class == 0).count() > STANZAS_MAX {
                return Err(Error::key(format!(
                    "{keys_name}: 1 to {STANZAS_MAX} recipients must remain"
                )));
            }
            stanzas.sort_by_key(|s| s.class);
            let bytes = Stanza::encode_all(&stanzas);
            let record = self.readers(*first, &name, &header, &stanzas, &bytes);
            self.signed(record)?;
            let replaced =
                self.log.replace(&keys_name, &bytes).map_err(|e| Error::storage(&keys_name, e));
            self.stopping(replaced)?;
        }
        Ok(())
    }

    /// Destroys the keys of segments, of one class or all: their content can never be read again.
    pub fn shred(&mut self, first_chunks: &[u64], class: Option<u8>, now_ns: u64) -> Result<()> {
        self.alive()?;
        self.now_ns = now_ns;
        let shred = statement("shred", |json| {
            json.open_array_key("segments");
            first_chunks.iter().for_each(|f| json.item_number(*f));
            json.close_array();
            if let Some(class) = class {
                json.number("class", class);
            }
        });
        self.signed(shred)?;
        for first in first_chunks {
            let (name, keys_name) = (file_name(*first, "gsl"), file_name(*first, "keys"));
            let stanzas = self.stanzas(&keys_name)?;
            let kept: Vec<Stanza> =
                stanzas.into_iter().filter(|s| class.is_some_and(|c| s.class != c)).collect();
            let bytes = Stanza::encode_all(&kept);
            if !kept.is_empty() {
                let (Parsed::Known(header), _) = read_header(&self.log, &name)? else {
                    return Err(Error::Unsupported { what: name });
                };
                let record = self.readers(*first, &name, &header, &kept, &bytes);
                self.signed(record)?;
            }
            let erased = self.erase(&keys_name, if kept.is_empty() { None } else { Some(&bytes) });
            self.stopping(erased)?;
        }
        Ok(())
    }

    /// Overwrites a file of stanzas in place, then puts what is to remain. That is durable next to it
    /// before the overwriting begins; a start finishes what a crash interrupts.
    fn erase(&mut self, name: &str, remaining: Option<&[u8]>) -> Result<()> {
        let failed = |e| Error::storage(name, e);
        let temporary = format!("{name}.tmp");
        let len = self.log.len(name).map_err(failed)?.unwrap_or(0);
        if let Some(bytes) = remaining {
            self.log
                .write_new(&temporary, bytes)
                .and_then(|()| self.log.sync(&temporary))
                .map_err(failed)?;
            self.log.sync_names().map_err(failed)?;
        }
        self.log
            .write_at(name, 0, &vec![0; len as usize])
            .and_then(|()| self.log.sync(name))
            .map_err(failed)?;
        match remaining {
            Some(_) => self.log.rename(&temporary, name, true).map_err(failed)?,
            None => self.log.remove(name).map_err(failed)?,
        }
        self.log.sync_names().map_err(failed)
    }

    /// Puts segments on hold, or takes them off.
    pub fn hold_segments(
        &mut self,
        first_chunks: &[u64],
        is_held: bool,
        now_ns: u64,
    ) -> Result<()> {
        self.alive()?;
        self.now_ns = now_ns;
        let mut all = held(&self.log)?;
        all.retain(|s| !first_chunks.contains(s));
        if is_held {
            all.extend_from_slice(first_chunks);
        }
        all.sort_unstable();
        let record = statement("hold", |json| {
            json.boolean("held", is_held);
            json.open_array_key("segments");
            first_chunks.iter().for_each(|f| json.item_number(*f));
            json.close_array();
        });
        self.signed(record)?;
        let text: String = all.iter().map(|s| format!("{s}\n")).collect();
        let put =
            self.log.replace(HOLD_FILE, text.as_bytes()).map_err(|e| Error::storage(HOLD_FILE, e));
        self.stopping(put)
    }

    fn stanzas(&self, keys_name: &str) -> Result<Vec<Stanza>> {
        let bytes = self
            .log
            .read_file(keys_name, KEYS_FILE_MAX)
            .map_err(|e| Error::storage(keys_name, e))?;
        Stanza::parse_all(&bytes.ok_or_else(|| Error::key(format!("{keys_name} is not there")))?)
    }

    fn readers(
        &self,
        first: u64,
        name: &str,
        header: &crate::format::segment::Header,
        stanzas: &[Stanza],
        bytes: &[u8],
    ) -> Vec<u8> {
        let mut ids: Vec<[u8; 8]> = stanzas.iter().map(|s| s.id).collect();
        ids.sort_unstable();
        ids.dedup();
        let classes: Vec<_> = commitments(&self.log, name, header)
            .into_iter()
            .map(|(c, k)| (c, String::new(), k))
            .collect();
        recipients(first, &sha256(bytes), &ids, &classes)
    }
}
