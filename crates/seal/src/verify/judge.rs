//! The judge: takes what was found of each item in order and decides what it means.
//!
//! It holds the tree's subtree roots, the epochs announced so far, the next checkpoint of the file, and
//! the damage seen. What damage means is decided at the end: below a checkpoint or a valid commit mark
//! it is tampering, after all of them it is what a crash leaves.

use super::facts::{ChunkFacts, Facts, SegmentFacts, is_padded};
use super::missing::Expected;
use super::report::{Place, Report, Verdict};
use super::state::{Damage, Epoch, Extent, Position, Segments, Signed, Unknown};
use super::{Anchor, Options};
use crate::checkpoints::{self, Entry, Next, Tail};
use crate::error::{Error, Result};
use crate::format::chunk::{Header, Mark, correct_bit};
use crate::format::data_key::ClassKeys;
use crate::format::epoch::mark_text;
use crate::format::retain::Stub;
use crate::format::segment::{self, Parsed, file_name};
use crate::format::tree::{Range, sha256};
use crate::format::walk::{Item, marks_behind, read_header};
use crate::identity::Identity;
use crate::limits::{KEYS_FILE_MAX, MARKS_BEHIND_MAX, REPORT_LINES_MAX, STUB_MAX};
use crate::note::{Note, SignatureKind, Verified, Vkey};
use crate::recipient::Stanza;
use crate::statement::Statement;
use crate::storage::Storage;
use crate::unlock::{commitments, open_classes};
use aws_lc_rs::signature::{ED25519, UnparsedPublicKey};

/// Takes items in order.
pub(super) struct Judge<'a> {
    pub(super) log: &'a dyn Storage,
    pub(super) options: &'a Options<'a>,
    log_id: [u8; 16],
    pub(super) report: Report,
    pub(super) position: Position,
    pub(super) signed: Signed<'a>,
    pub(super) extent: Extent,
    pub(super) segments: Segments,
    /// What must be there in addition to chunks.
    pub(super) expected: Expected,
}

impl<'a> Judge<'a> {
    pub(super) fn new(
        log: &'a dyn Storage,
        options: &'a Options<'a>,
        identity: &Identity,
        tail: &Tail,
        report: Report,
    ) -> Result<Judge<'a>> {
        let notes = checkpoints::Reader::new(log)?.ok_or(Error::Stopped)?;
        let first =
            Epoch { number: 0, key: identity.vkey.key, start: 0, end: None, is_closed: false };
        let signed = Signed {
            identity: identity.clone(),
            notes,
            next_note: None,
            last_note: None,
            signed_file_size: tail.last.as_ref().map_or(0, |e| e.checkpoint.size),
            torn_note: tail.torn,
            epochs: vec![first],
            unknown: Vec::new(),
            anchors: options.anchors.iter().map(|a| (a.checkpoint.size, None)).collect(),
        };
        let mut judge = Judge {
            log,
            options,
            log_id: identity.log_id(),
            report,
            position: Position { range: Some(Range::new()), ..Position::default() },
            signed,
            extent: Extent::default(),
            segments: Segments::default(),
            expected: Expected::default(),
        };
        judge.advance()?;
        judge.at_size()?;
        Ok(judge)
    }

    /// Begins a segment: its header against what came before. `None` when it can't be gone through.
    pub(super) fn segment(&mut self, first: u64) -> Result<Option<SegmentFacts>> {
        let name = file_name(first, "gsl");
        if self.position.is_cut {
            // After damage that ended the log: a segment is begun when the one before is durable, so
            // whatever was committed here shows that no crash made the damage.
            if self.look_for_marks(&name, 0)? {
                self.extent.settled = self.extent.settled.max(first);
            }
            return Ok(None);
        }
        let (header, hash) = match read_header(self.log, &name) {
            Ok((Parsed::Known(header), hash)) => (header, hash),
            Ok((Parsed::Unsupported(what), _)) => {
                self.report.place(Verdict::Unsupported, Place::file(&name, what));
                self.position.is_cut = true;
                return Ok(None);
            }
            Err(Error::Format { what }) => {
                self.damage(first.max(self.position.chunk), Place::file(&name, what));
                self.position.is_cut = true;
                self.look_for_marks(&name, 0)?;
                return Ok(None);
            }
            Err(e) => return Err(e),
        };
        let what = if header.log_id != self.log_id {
            Some("a segment of another log")
        } else if header.first_chunk != first {
            Some("a segment under another's name")
        } else if header.first_chunk < self.position.chunk {
            Some("chunks that were there already")
        } else {
            None
        };
        if let Some(what) = what {
            self.report.place(Verdict::Tampered, Place::file(&name, what));
            self.lose();
            return Ok(None);
        }
        self.segment_ended();
        self.follows(&name, &header);
        self.report.bytes += segment::HEADER_LEN as u64;
        self.position.reached = segment::HEADER_LEN as u64;
        (self.position.chunk, self.position.record) = (header.first_chunk, header.first_record);
        self.position.segment_number = header.number;
        self.extent.has_stop = false;
        self.position.heads.clear();
        self.segments.present.push((first, name.clone()));
        let keys = self.unwrap(&name, &header)?;
        let facts = SegmentFacts { name, hash, is_padded: is_padded(&header), keys };
        self.position.current = Some(header);
        Ok(Some(facts))
    }

    /// Whether a segment continues where the one before ended.
    fn follows(&mut self, name: &str, header: &segment::Header) {
        let expected = if self.position.current.is_some() || !self.segments.stubs.is_empty() {
            self.position.segment_number + 1
        } else {
            0
        };
        if header.first_chunk > self.position.chunk {
            let mut place = Place::file(
                name,
                format!(
                    "chunks {} to {} are missing before it",
                    self.position.chunk,
                    header.first_chunk - 1
                ),
            );
            place.chunk = Some(self.position.chunk);
            if header.first_record > self.position.record {
                place.records = Some((self.position.record, header.first_record - 1));
            }
            let verdict =
                if header.number > expected { Verdict::Incomplete } else { Verdict::Tampered };
            self.report.place(verdict, place);
            self.lose();
        } else if header.number != expected {
            let reason = format!("segment number {}, {expected} follows", header.number);
            self.report.place(Verdict::Tampered, Place::file(name, reason));
            self.lose();
        } else if header.first_record != self.position.record {
            self.report
                .place(Verdict::Tampered, Place::file(name, "its first record is another's"));
        } else if self.position.range.as_ref().is_some_and(|r| r.root() != header.root) {
            let mut place = Place::file(name, "its root differs from the tree before it");
            place.chunk = Some(self.extent.agreed);
            if self.segments.damages.is_empty() {
                self.report.place(Verdict::Tampered, place);
            }
            self.lose();
        }
    }

    /// An item of the current segment.
    pub(super) fn item(
        &mut self,
        segment: &SegmentFacts,
        at: u64,
        item: Item,
        facts: Facts,
        head: &[u8],
    ) -> Result<()> {
        if self.position.is_cut {
            return Ok(());
        }
        self.report.bytes += item.len();
        match (item, facts) {
            (Item::Chunk(header), Facts::Chunk(facts)) => {
                self.take_chunk(segment, at, &header, facts)
            }
            (Item::Mark(mark), _) => self.mark(segment, at, &mark),
            (Item::Index(len), Facts::Index(facts)) => {
                self.index(segment, at, len, &facts);
                Ok(())
            }
            (Item::Damage(error), _) => self.broken(segment, at, &error, head),
            (Item::Chunk(_) | Item::Index(_), _) => Ok(()),
        }
    }

    fn take_chunk(
        &mut self,
        segment: &SegmentFacts,
        at: u64,
        header: &Header,
        facts: ChunkFacts,
    ) -> Result<()> {
        let place = |reason: &str| Place {
            segment: segment.name.clone(),
            offset: Some(at),
            chunk: Some(header.index),
            records: records_of(header),
            reason: reason.to_owned(),
            ..Place::default()
        };
        if header.index != self.position.chunk || header.first_record != self.position.record {
            let mut place = place(&format!(
                "chunk {} is where chunk {} should be",
                header.index, self.position.chunk
            ));
            place.chunk = Some(self.position.chunk);
            place.records = (header.first_record > self.position.record)
                .then(|| (self.position.record, header.first_record - 1));
            self.report.place(Verdict::Tampered, place);
            self.lose();
        }
        if !facts.is_body_good {
            self.damage(header.index, place("its content differs from its hash"));
        } else if let Some(why) = &facts.content {
            let is_ours = header.is_clear() || segment.keys.is_some();
            if is_ours {
                self.damage(header.index, place(why));
            }
        }
        self.keep_head(segment, at, header, &facts);
        self.named_checkpoint(&segment.name, at, header);
        self.position.chunk = header.index.saturating_add(1);
        self.position.record = header.next_record();
        self.report.chunks += 1;
        self.report.records += u64::from(header.records);
        self.report.opened_records += u64::from(facts.opened);
        self.extent.named = self.extent.named.max(header.checkpoint);
        self.expected.chunk(header);
        self.extent.has_stop = false;
        if let Some(range) = &mut self.position.range {
            range.push(facts.leaf);
        }
        if facts.is_body_good {
            for (record, statement) in facts.statements {
                self.statement(record, statement);
            }
        }
        self.epoch_bits(header, &place);
        self.at_size()
    }

    /// The head names the epoch that signs it.
    fn epoch_bits(&mut self, header: &Header, place: &dyn Fn(&str) -> Place) {
        let size = header.index.saturating_add(1);
        let epoch = self.epoch_of(size).map(|e| e.number);
        if self.position.range.is_some() && epoch.is_some_and(|n| n as u16 != header.epoch) {
            self.damage(header.index, place("it names another epoch than the one it is in"));
        }
    }

    fn statement(&mut self, record: u64, statement: Statement) {
        match statement {
            Statement::Epoch { epoch, key, end } => {
                let size = self.position.chunk;
                let Some(last) = self.signed.epochs.last_mut() else { return };
                if epoch != last.number + 1 || end != size {
                    let mut place = Place::file(
                        "",
                        format!("epoch gap: epoch {epoch} announced after epoch {}", last.number),
                    );
                    place.records = Some((record, record));
                    place.chunk = Some(size - 1);
                    self.report.place(Verdict::Tampered, place);
                    return;
                }
                last.end = Some(end);
                self.signed.epochs.push(Epoch {
                    number: epoch,
                    key,
                    start: end,
                    end: None,
                    is_closed: false,
                });
            }
            Statement::Prune(list) => {
                self.segments.prunes.extend(list.into_iter().map(|s| (record, s)))
            }
            Statement::Shred { segments, class: None } => self.segments.shredded.extend(segments),
            Statement::Shred { segments, class: Some(class) } => self.report.notes.push(format!(
                "class {class} of {} segments withdrawn by record {record}",
                segments.len()
            )),
            Statement::Recipients { segment, keys, ids, classes } => {
                let readers = self.segments.readers.entry(segment).or_default();
                readers.keys = Some(keys);
                readers.ids = ids.into_iter().collect();
                readers.classes = classes;
            }
            Statement::Recovery { bytes } => {
                self.report
                    .notes
                    .push(format!("record {record}: {bytes} bytes were cut off after a crash"));
            }
            Statement::Clock => {
                self.extent.has_clock = true;
                self.report.notes.push(format!("record {record}: the clock was set"));
            }
            Statement::Stop => self.extent.has_stop = true,
            Statement::Start | Statement::Rotate | Statement::Other(_) => {}
        }
    }

    fn mark(&mut self, segment: &SegmentFacts, at: u64, mark: &Mark) -> Result<()> {
        let place = |reason: &str| Place {
            segment: segment.name.clone(),
            offset: Some(at),
            chunk: Some(mark.size),
            reason: reason.to_owned(),
            ..Place::default()
        };
        let Some(range) = &self.position.range else {
            if self.is_signed(mark) {
                self.cover(mark.size);
            }
            return Ok(());
        };
        let is_here = mark.log_id == self.log_id && mark.size == range.size();
        let agrees = is_here && mark.root == range.root();
        if self.is_mark_again(&segment.name, at, mark) {
            return Ok(());
        }
        let must_check =
            mark.size > self.signed.signed_file_size || self.options.is_deep || !agrees;
        if must_check && !self.is_signed(mark) {
            if self.position.chunk <= self.signed.signed_file_size {
                self.report.warn(place("commit mark with a wrong signature").describe());
            } else {
                self.damage(
                    self.position.chunk.saturating_sub(1),
                    place("commit mark with a wrong signature"),
                );
            }
            return Ok(());
        }
        if !agrees {
            // Signed by the log's key over another tree than the one that stands here.
            let chunk = self.extent.agreed;
            let mut place = place(&format!(
                "chunks {chunk} to {} are not the ones that were signed",
                self.position.chunk.saturating_sub(1)
            ));
            place.chunk = Some(chunk);
            if self.segments.damages.iter().all(|d| d.chunk < chunk) {
                self.report.place(Verdict::Tampered, place);
            }
            self.cover(mark.size.min(self.position.chunk));
            self.extent.settled = self.extent.covered;
            self.lose();
            return Ok(());
        }
        self.extent.agreed = mark.size;
        if must_check {
            self.cover(mark.size);
        }
        Ok(())
    }

    /// Bytes that are no item: the walk of this segment ends.
    fn broken(
        &mut self,
        segment: &SegmentFacts,
        at: u64,
        error: &Error,
        head: &[u8],
    ) -> Result<()> {
        let mut place = Place {
            segment: segment.name.clone(),
            offset: Some(at),
            chunk: Some(self.position.chunk),
            reason: error.to_string(),
            ..Place::default()
        };
        if matches!(error, Error::Unsupported { .. }) {
            self.report.place(Verdict::Unsupported, place);
            self.position.is_cut = true;
            return Ok(());
        }
        // One flipped bit: its check value gives the head back, and with it the records it is about.
        if let Some(header) = correct_bit(head).and_then(|m| Header::parse(&m).ok()) {
            place.records = records_of(&header);
        }
        self.damage(self.position.chunk, place);
        self.look_for_marks(&segment.name, at)?;
        self.position.is_cut = true;
        self.lose();
        Ok(())
    }

    /// Valid marks after damage show that what is damaged was signed.
    fn look_for_marks(&mut self, name: &str, at: u64) -> Result<bool> {
        let behind = marks_behind(self.log, name, &self.log_id, at)?;
        // The last two say how far what was signed goes, and how far without the last group.
        let looked = behind.iter().rev().take(MARKS_BEHIND_MAX).filter(|m| self.is_signed(m));
        let last: Vec<u64> = looked.take(2).map(|m| m.size).collect();
        if last.len() < 2 && behind.len() > MARKS_BEHIND_MAX {
            let more = behind.len() - MARKS_BEHIND_MAX;
            self.report
                .warn(format!("{name}: {more} further commit marks after damage were not checked"));
        }
        last.iter().rev().for_each(|size| self.cover(*size));
        Ok(!last.is_empty())
    }

    pub(super) fn reached(&mut self, at: u64) {
        self.position.reached = at;
    }

    pub(super) fn segment_end(&mut self, _len: u64) -> Result<()> {
        Ok(())
    }

    /// A segment went away, or grew, while it was read.
    pub(super) fn vanished(&mut self, name: &str, error: &Error) {
        self.report.warn(format!("{name} changed while it was read: {error}"));
        self.report.has_vanished = true;
        self.lose();
    }

    /// A stub in the place of a pruned segment.
    pub(super) fn stub(&mut self, first: u64) -> Result<()> {
        if self.position.is_cut {
            return Ok(());
        }
        let name = file_name(first, "pruned");
        let bytes = self
            .log
            .read_file(&name, STUB_MAX)
            .map_err(|e| Error::storage(&name, e))?
            .unwrap_or_default();
        let stub = match Stub::parse(&bytes) {
            Ok(stub) => stub,
            Err(e) => {
                self.report.place(Verdict::Tampered, Place::file(&name, e.to_string()));
                self.lose();
                return Ok(());
            }
        };
        let header = stub.header.clone();
        if header.log_id != self.log_id
            || header.first_chunk != first
            || header.first_chunk < self.position.chunk
        {
            self.report
                .place(Verdict::Tampered, Place::file(&name, "a stub of another log or place"));
            self.lose();
            return Ok(());
        }
        self.segment_ended();
        self.follows(&name, &header);
        self.position.segment_number = header.number;
        self.expected.stub(header.first_chunk, stub.leaves.len() as u64);
        (self.position.chunk, self.position.record) = (header.first_chunk, header.first_record);
        self.report.bytes += bytes.len() as u64;
        for index in 0..stub.leaves.len() {
            if let Some(range) = &mut self.position.range {
                range.push(stub.leaves[index]);
            }
            self.position.chunk += 1;
            self.report.chunks += 1;
            if let Some((header, statements)) = stub.clear.get(&(self.position.chunk - 1)) {
                self.named_checkpoint(&name, 0, header);
                self.position.record = header.next_record();
                for (record, statement) in statements.clone() {
                    self.statement(record, statement);
                }
            }
            self.at_size()?;
        }
        self.position.record = header.first_record.saturating_add(stub.records);
        self.segments.stubs.push((first, stub, sha256(&bytes)));
        self.extent.has_stop = false;
        Ok(())
    }

    /// The tree's roots can't be computed any more.
    fn lose(&mut self) {
        self.position.range = None;
    }

    /// A valid commit mark of this size.
    fn cover(&mut self, size: u64) {
        if size > self.extent.covered {
            self.extent.settled = self.extent.covered;
            self.extent.covered = size;
        }
    }

    fn damage(&mut self, chunk: u64, place: Place) {
        if self.segments.damages.len() < REPORT_LINES_MAX {
            self.segments.damages.push(Damage { chunk, place });
        } else {
            self.report.places_beyond += 1;
        }
    }

    fn epoch_of(&self, size: u64) -> Option<&Epoch> {
        self.signed.epochs.iter().rev().find(|e| size > e.start || e.number == 0)
    }

    fn is_signed(&self, mark: &Mark) -> bool {
        self.expected.checked.set(self.expected.checked.get() + 1);
        let text = mark_text(&self.log_id, mark.size, &mark.root);
        let by = |key: &[u8; 32]| {
            UnparsedPublicKey::new(&ED25519, key).verify(&text, &mark.signature).is_ok()
        };
        mark.log_id == self.log_id && self.epoch_of(mark.size).is_some_and(|e| by(&e.key))
    }

    /// The next note of the file.
    pub(super) fn advance(&mut self) -> Result<()> {
        loop {
            match self.signed.notes.step()? {
                Next::Entry(entry) => {
                    self.signed.next_note = Some(entry);
                    return Ok(());
                }
                Next::End | Next::Torn { .. } => {
                    self.signed.next_note = None;
                    return Ok(());
                }
                Next::Damaged { number, error } => {
                    let mut place = Place::file(checkpoints::FILE, error.to_string());
                    place.note = Some(number);
                    self.report.place(Verdict::Tampered, place);
                }
            }
        }
    }

    /// The tree has another size: checkpoints and anchors of this size are compared.
    fn at_size(&mut self) -> Result<()> {
        let size = self.position.chunk;
        if let (Some(root), Some(range)) =
            (self.signed.anchors.get_mut(&size), &self.position.range)
        {
            *root = Some(range.root());
        }
        while let Some(entry) = self.signed.next_note.take_if(|e| e.checkpoint.size <= size) {
            self.checkpoint(entry);
            self.advance()?;
        }
        Ok(())
    }

    fn checkpoint(&mut self, entry: Box<Entry>) {
        let size = entry.checkpoint.size;
        let mut place = Place::file(checkpoints::FILE, "");
        place.note = Some(entry.number);
        let mut say = |judge: &mut Judge<'_>, verdict, reason: String| {
            place.reason = reason;
            judge.report.place(verdict, place.clone());
        };
        if entry.checkpoint.origin != self.signed.identity.origin {
            say(self, Verdict::Tampered, format!("of another log: {}", entry.checkpoint.origin));
            return;
        }
        if self.is_note_again(&entry) {
            return;
        }
        let Some(verified) = self.signatures(&entry.note, size) else {
            let epoch = self.epoch_of(size).map_or(0, |e| e.number);
            if self.signed.unknown.len() < REPORT_LINES_MAX {
                self.signed.unknown.push(Unknown { entry, epoch });
            } else {
                let what = "checkpoints by keys that are not known: no more of them are judged";
                if self.report.warnings.last().is_none_or(|last| last != what) {
                    self.report.warn(what.to_owned());
                }
            }
            return;
        };
        let verified = match verified {
            Ok(verified) => verified,
            Err(e) => {
                self.expected.wrong_note();
                say(self, Verdict::Tampered, e.to_string());
                return;
            }
        };
        if let Some(last) = &self.signed.last_note {
            if last.checkpoint.size == size && last.checkpoint.root != entry.checkpoint.root {
                let last = last.note.clone();
                let mut place =
                    Place::file(checkpoints::FILE, format!("two signed roots for {size} chunks"));
                place.note = Some(entry.number);
                self.report.fork(place, &last, Some(&entry.note));
                return;
            }
            if last.checkpoint.size > size {
                say(
                    self,
                    Verdict::Tampered,
                    format!("size {size} after size {}", last.checkpoint.size),
                );
                return;
            }
        }
        let time = verified.iter().find(|v| v.key == 1).and_then(|v| v.time).unwrap_or(0);
        if time < self.report.signed_time && !self.extent.has_clock {
            say(
                self,
                Verdict::Tampered,
                format!(
                    "signed at {time}, before the note before it, and no record says that the clock was set"
                ),
            );
        }
        match &self.position.range {
            Some(range) if range.size() == size && range.root() == entry.checkpoint.root => {
                self.extent.agreed = size;
                self.report.signed_size = size;
                self.extent.records_signed = self.position.record;
            }
            Some(range) if range.size() == size => {
                if self.segments.damages.iter().all(|d| d.chunk < self.extent.agreed) {
                    let place = Place {
                        segment: self
                            .position
                            .current
                            .as_ref()
                            .map(segment::Header::file_name)
                            .unwrap_or_default(),
                        chunk: Some(self.extent.agreed),
                        note: Some(entry.number),
                        reason: format!(
                            "chunks {} to {} are not the ones that note {} signed",
                            self.extent.agreed,
                            size.saturating_sub(1),
                            entry.number
                        ),
                        ..Place::default()
                    };
                    self.report.place(Verdict::Tampered, place);
                }
                self.lose();
            }
            _ => {}
        }
        self.gap_in_pruned(&entry);
        self.expected.signed();
        self.report.signed_time = time;
        self.extent.has_clock = false;
        self.extent.newest_ns = self.extent.newest_ns.max(time.saturating_mul(1_000_000_000));
        self.extent.covered = self.extent.covered.max(size);
        self.extent.settled = self.extent.settled.max(size);
        self.cosigned(&entry);
        self.signed.last_note = Some(entry);
    }

    /// Signatures of a checkpoint of this size by the keys that must have made them. `None` when no key
    /// known so far did.
    pub(super) fn signatures(&mut self, note: &Note, size: u64) -> Option<Result<Vec<Verified>>> {
        let origin = self.signed.identity.origin.clone();
        let index = self.signed.epochs.iter().rposition(|e| size > e.start || e.number == 0)?;
        let epoch = self.signed.epochs.get(index)?;
        let ends_here = epoch.end == Some(size);
        let mut keys = keys_of(&origin, &epoch.key);
        if ends_here && let Some(next) = self.signed.epochs.get(index + 1) {
            keys.extend(keys_of(&origin, &next.key));
        }
        let known = note.signatures.iter().any(|s| s.name == keys[0].name && s.id == keys[0].id);
        if !known {
            return None;
        }
        self.expected.checked.set(self.expected.checked.get() + 1);
        let verified = match note.verify(&keys) {
            Ok(verified) => verified,
            Err(e) => return Some(Err(e)),
        };
        if !verified.iter().any(|v| v.key == 1) {
            return Some(Err(Error::format("without the time that its signer puts under it")));
        }
        if ends_here && verified.iter().any(|v| v.key == 2) {
            self.signed.epochs[index].is_closed = true;
        }
        Some(Ok(verified))
    }

    /// Cosignatures of trusted witnesses are anchors.
    pub(super) fn cosigned(&mut self, entry: &Entry) {
        if self.options.witnesses.is_empty() || self.position.range.is_none() {
            return;
        }
        let Ok(verified) = entry.note.verify(&self.options.witnesses) else { return };
        if !verified.is_empty() {
            let anchor = Anchor {
                from: format!("witness {}", self.options.witnesses[verified[0].key].name),
                note: entry.note.clone(),
                checkpoint: entry.checkpoint.clone(),
            };
            self.report.anchored(&anchor, true, "cosigned");
        }
    }

    /// Opens the data keys of a segment, when there are keys to open them with.
    fn unwrap(
        &mut self,
        name: &str,
        header: &segment::Header,
    ) -> Result<Option<Vec<Option<ClassKeys>>>> {
        if self.options.keys.is_empty() {
            return Ok(None);
        }
        let keys_name = file_name(header.first_chunk, "keys");
        let bytes = self
            .log
            .read_file(&keys_name, KEYS_FILE_MAX)
            .map_err(|e| Error::storage(&keys_name, e))?;
        let Some(bytes) = bytes else {
            // Pruning takes the segment away before its keys: without it, it was pruned while we look.
            let is_there = self.log.len(name).map_err(|e| Error::storage(name, e))?.is_some();
            if is_there {
                self.report.place(Verdict::KeyError, Place::file(name, "its keys are not there"));
            } else {
                self.vanished(
                    name,
                    &Error::storage(&keys_name, std::io::ErrorKind::NotFound.into()),
                );
            }
            return Ok(None);
        };
        let stanzas = match Stanza::parse_all(&bytes) {
            Ok(stanzas) => stanzas,
            Err(e) => {
                self.report.place(Verdict::KeyError, Place::file(&keys_name, e.to_string()));
                return Ok(None);
            }
        };
        let commitments = commitments(self.log, name, header);
        match open_classes(&stanzas, header, self.options.keys, &commitments) {
            Ok(keys) => Ok(Some(keys)),
            Err(e) => {
                self.report.place(Verdict::KeyError, Place::file(&keys_name, e.to_string()));
                Ok(None)
            }
        }
    }
}

pub(super) fn keys_of(origin: &str, key: &[u8; 32]) -> Vec<Vkey> {
    vec![
        Vkey::new(origin, SignatureKind::Ed25519, *key),
        Vkey::new(origin, SignatureKind::Cosignature, *key),
    ]
}

fn records_of(header: &Header) -> Option<(u64, u64)> {
    (header.records > 0).then(|| (header.first_record, header.next_record().saturating_sub(1)))
}
