//! The end of a log: what everything that was seen means together.

use super::judge::Judge;
use super::report::{Place, Pruned, Report, Verdict};
use super::state::Unknown;
use super::{Anchor, Options};
use crate::checkpoints;
use crate::error::{Error, Result};
use crate::format::segment::{self, file_name};
use crate::format::tree::sha256;
use crate::limits::KEYS_FILE_MAX;
use crate::note::{SignatureKind, Vkey};
use crate::recipient::Stanza;
use gabion_record::hex::to_hex;
use std::collections::BTreeMap;

impl Judge<'_> {
    /// The end of the log: what everything together means.
    pub(super) fn finish(mut self, options: &Options<'_>) -> Result<Report> {
        self.report.epochs = self.signed.epochs.len() as u64;
        self.rest_of_notes()?;
        self.unknown_notes();
        let covered = self.extent.covered;
        // The end of a log that is being written is often in the middle of a write.
        let is_live = self.log.is_locked().unwrap_or(false);
        for damage in std::mem::take(&mut self.segments.damages) {
            if damage.chunk < self.extent.settled {
                self.report.place(Verdict::Tampered, damage.place);
            } else {
                self.torn(damage.place, is_live);
            }
        }
        if let Some(offset) = self.signed.torn_note {
            let mut place = Place::file(checkpoints::FILE, "the last note is cut short");
            place.offset = Some(offset);
            self.torn(place, is_live);
        }
        if self.position.chunk > covered && !self.position.is_cut && self.position.range.is_some() {
            let name =
                self.position.current.as_ref().map(segment::Header::file_name).unwrap_or_default();
            let mut place = Place::file(&name, "no valid commit mark covers the end");
            place.chunk = Some(covered);
            if !self.report.verdicts.contains(&Verdict::TornTail) {
                self.torn(place, is_live);
            }
        }
        self.unsigned_tail(covered)?;
        self.say_missing(is_live);
        self.open_epochs();
        self.check_readers()?;
        self.check_prunes();
        self.check_anchors();
        self.report.checked_signatures = self.expected.checked.get();
        self.report.is_closed = self.extent.has_stop;
        if !self.extent.has_stop {
            self.report.notes.push("not closed cleanly: a writer is running, or it crashed".into());
        }
        let has_damage = self.report.verdicts.iter().any(|v| *v != Verdict::KeyError);
        self.report.is_whole =
            (self.position.range.is_some() && !self.position.is_cut) || (is_live && !has_damage);
        Ok(self.report.finished(options))
    }

    /// Damage after everything signed: what a crash leaves, or a writer that is at it.
    fn torn(&mut self, place: Place, is_live: bool) {
        if is_live {
            self.report.notes.push(format!("being written: {}", place.describe()));
        } else {
            self.report.place(Verdict::TornTail, place);
        }
    }

    /// Notes of sizes that the log does not have.
    fn rest_of_notes(&mut self) -> Result<()> {
        while let Some(entry) = self.signed.next_note.take() {
            let size = entry.checkpoint.size;
            if self.is_note_again(&entry) {
                self.advance()?;
                continue;
            }
            let signed = self.signatures(&entry.note, size);
            if matches!(signed, Some(Ok(_)) | None) && !self.position.is_cut {
                let mut place = Place::file(
                    checkpoints::FILE,
                    format!("{size} chunks were signed, {} are there", self.position.chunk),
                );
                place.note = Some(entry.number);
                place.chunk = Some(self.position.chunk);
                self.report.place(Verdict::Rollback, place);
            }
            if let Some(Err(e)) = &signed {
                self.expected.wrong_note();
                let mut place = Place::file(checkpoints::FILE, e.to_string());
                place.note = Some(entry.number);
                self.report.place(Verdict::Tampered, place);
            }
            if matches!(signed, Some(Ok(_))) {
                self.extent.covered = self.extent.covered.max(size);
                self.extent.settled = self.extent.settled.max(size);
            }
            self.signed.last_note = Some(entry);
            self.advance()?;
        }
        Ok(())
    }

    /// Notes without signature of the key of their epoch: perhaps a later one made it.
    fn unknown_notes(&mut self) {
        for Unknown { entry, epoch } in std::mem::take(&mut self.signed.unknown) {
            let by = self.signed.epochs.iter().find(|e| {
                let id = Vkey::new(&self.signed.identity.origin, SignatureKind::Ed25519, e.key).id;
                entry.note.signatures.iter().any(|s| s.id == id)
            });
            let reason = match by {
                Some(by) => format!(
                    "key of epoch {} on size {} of epoch {epoch}",
                    by.number, entry.checkpoint.size
                ),
                None if self.position.range.is_none() => continue,
                None => format!(
                    "size {} is not signed by the key of its epoch {epoch}",
                    entry.checkpoint.size
                ),
            };
            let mut place = Place::file(checkpoints::FILE, reason);
            place.note = Some(entry.number);
            self.report.place(Verdict::Tampered, place);
        }
    }

    /// Chunks after the last checkpoint: how many there may be, and what they say of it.
    fn unsigned_tail(&mut self, covered: u64) -> Result<()> {
        self.report.unsigned_chunks = self.position.chunk.saturating_sub(self.report.signed_size);
        self.report.unsigned_records =
            self.position.record.saturating_sub(self.extent.records_signed);
        let mut last = self.signed.signed_file_size;
        let most = self.chunks_unsigned_max();
        let end = self.position.chunk.min(covered);
        let is_behind = |last: u64| end.saturating_sub(last) > most;
        if self.extent.named > last || is_behind(last) {
            // Chunks written since this look began name checkpoints written since: this is where they are looked for.
            last = last.max(self.signed_by_now()?);
        }
        let mut place = Place::file(checkpoints::FILE, "");
        place.chunk = Some(last);
        if self.extent.named > last {
            place.reason = format!(
                "a chunk names a checkpoint of {} chunks, the last there is has {last}",
                self.extent.named
            );
            self.report.place(Verdict::Incomplete, place);
        } else if is_behind(last) {
            place.reason = format!(
                "{} chunks after the last checkpoint: one is signed every {}",
                self.position.chunk.saturating_sub(last),
                self.signed.identity.checkpoint_chunks
            );
            self.report.place(Verdict::Incomplete, place);
        }
        if self.report.unsigned_chunks > 0 {
            self.report.notes.push(format!(
                "{} chunks after the last checkpoint: their truncation cannot be detected (up to {} chunks or {} s)",
                self.report.unsigned_chunks, self.signed.identity.checkpoint_chunks, self.signed.identity.checkpoint_seconds,
            ));
        }
        Ok(())
    }

    /// Size of the last checkpoint there is now.
    fn signed_by_now(&mut self) -> Result<u64> {
        let last = checkpoints::tail(self.log)?.and_then(|t| t.last);
        let Some(entry) = last.filter(|e| e.checkpoint.origin == self.signed.identity.origin)
        else {
            return Ok(0);
        };
        // No key known here made it: an epoch that began meanwhile.
        let is_ours = !matches!(self.signatures(&entry.note, entry.checkpoint.size), Some(Err(_)));
        Ok(if is_ours { entry.checkpoint.size } else { 0 })
    }

    /// An epoch that ended is closed by both keys.
    fn open_epochs(&mut self) {
        for epoch in &self.signed.epochs {
            let Some(end) = epoch.end else { continue };
            if !epoch.is_closed
                && end <= self.signed.signed_file_size.saturating_sub(1)
                && self.position.range.is_some()
            {
                let reason = format!(
                    "epoch {} ends at {end} chunks without a checkpoint signed by both keys",
                    epoch.number
                );
                self.report.place(Verdict::Tampered, Place::file(checkpoints::FILE, reason));
            }
        }
    }

    fn check_readers(&mut self) -> Result<()> {
        for (first, name) in std::mem::take(&mut self.segments.present) {
            let Some(readers) = self.segments.readers.get(&first) else { continue };
            let keys_name = file_name(first, "keys");
            let bytes = self
                .log
                .read_file(&keys_name, KEYS_FILE_MAX)
                .map_err(|e| Error::storage(&keys_name, e))?;
            let stanzas =
                bytes.as_deref().and_then(|b| Stanza::parse_all(b).ok()).unwrap_or_default();
            let announced = stanzas.iter().filter(|s| readers.ids.contains(&s.id)).count();
            if self.segments.shredded.contains(&first) {
                self.report.withdrawn.push(name);
                continue;
            }
            if announced == 0 && self.log.len(&name).is_ok_and(|l| l.is_some()) {
                let place = Place::file(
                    &keys_name,
                    "keys are missing, and no record says they were shredded",
                );
                self.report.place(Verdict::Incomplete, place);
                continue;
            }
            if bytes.as_deref().map(sha256) != readers.keys {
                self.report
                    .warn(format!("{keys_name} differs from the record that names who can read"));
            }
            for stanza in stanzas.iter().filter(|s| !readers.ids.contains(&s.id)) {
                let id = to_hex(&stanza.id);
                self.report.warn(format!("{keys_name} has an unannounced recipient {id}"));
            }
        }
        Ok(())
    }

    /// A stub needs a signed statement that covers it.
    fn check_prunes(&mut self) {
        for (first, stub, hash) in &self.segments.stubs {
            let name = file_name(*first, "pruned");
            let last = stub.header.first_record.saturating_add(stub.records).saturating_sub(1);
            let by = self
                .segments
                .prunes
                .iter()
                .rev()
                .find(|(_, p)| p.first_chunk == *first && p.stub == *hash);
            match by {
                Some((record, _)) => {
                    self.report.pruned.push(Pruned {
                        first: stub.header.first_record,
                        last,
                        by: *record,
                    });
                    self.report.notes.push(format!(
                        "records {} to {last} pruned by record {record}",
                        stub.header.first_record
                    ));
                }
                None => {
                    let mut place = Place::file(&name, "no prune record covers it");
                    place.records = Some((stub.header.first_record, last));
                    self.report.place(Verdict::Incomplete, place);
                }
            }
        }
    }

    fn check_anchors(&mut self) {
        let options = self.options;
        let mut by_size: BTreeMap<u64, &Anchor> = BTreeMap::new();
        for anchor in &options.anchors {
            let size = anchor.checkpoint.size;
            let place =
                |reason: String| Place { chunk: Some(size), ..Place::file(&anchor.from, reason) };
            if anchor.checkpoint.origin != self.signed.identity.origin {
                self.report.anchored(anchor, false, "of another log");
                continue;
            }
            match self.signatures(&anchor.note, size) {
                Some(Err(e)) => {
                    self.report.anchored(anchor, false, &e.to_string());
                    continue;
                }
                // Of a size that the log has, the key that signed it is known.
                None if size <= self.position.chunk
                    && self.position.range.is_some()
                    && anchor.note.verify(&options.witnesses).is_err() =>
                {
                    self.report.anchored(anchor, false, "not signed by the log's key");
                    continue;
                }
                Some(Ok(_)) | None => {}
            }
            if let Some(other) =
                by_size.insert(size, anchor).filter(|o| o.checkpoint.root != anchor.checkpoint.root)
            {
                let what = place(format!("two signed roots for {size} chunks"));
                self.report.fork(what, &other.note, Some(&anchor.note));
            }
            let root = self.signed.anchors.get(&size).copied().flatten();
            match root {
                Some(root) if root == anchor.checkpoint.root => {
                    self.report.anchored(anchor, true, "agrees")
                }
                Some(_) => {
                    let last = self.signed.last_note.as_ref().map(|e| e.note.clone());
                    self.report.fork(
                        place(format!("the log has another root at {size} chunks")),
                        &anchor.note,
                        last.as_ref(),
                    );
                    self.report.anchored(anchor, false, "another root");
                }
                None if size > self.position.chunk && !self.position.is_cut => {
                    let what = place(format!(
                        "{size} chunks were signed, {} are there",
                        self.position.chunk
                    ));
                    self.report.place(Verdict::Rollback, what);
                    self.report.anchored(anchor, false, "the log is shorter");
                }
                None => self.report.anchored(anchor, false, "could not be compared"),
            }
        }
    }
}
