//! Verdicts, their order, and the report.

use super::{Anchor, Options};
use crate::limits::REPORT_LINES_MAX;
use crate::note::Note;
use gabion_record::calendar::iso_second;
use gabion_record::json::Json;

macro_rules! verdicts {
    ($($name:ident = $code:literal, $text:literal, $meaning:literal;)+) => {
        /// What verification says; several may hold at once.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum Verdict { $(#[doc = $meaning] $name,)+ }

        impl Verdict {
            /// All with their meaning, in the order in which one is chosen as exit code.
            pub const ALL: &'static [(Verdict, &'static str)] = &[$((Verdict::$name, $meaning),)+];

            /// Exit code.
            #[must_use]
            pub const fn code(self) -> u8 { match self { $(Verdict::$name => $code,)+ } }

            /// As it stands in output.
            #[must_use]
            pub const fn name(self) -> &'static str { match self { $(Verdict::$name => $text,)+ } }
        }
    };
}

// The one table, gravest first: name, exit code, name in output, meaning.
verdicts! {
    Fork = 22, "FORK", "two signed states that exclude each other";
    Tampered = 20, "TAMPERED", "content, order or signature contradicts the tree";
    Rollback = 21, "ROLLBACK", "shorter than a size that was signed";
    Incomplete = 23, "INCOMPLETE", "segments, checkpoints, keys or prune records are missing";
    Unsupported = 25, "UNSUPPORTED", "written by a newer format";
    KeyError = 24, "KEY-ERROR", "content cannot be opened with the given key";
    TornTail = 12, "TORN-TAIL", "the unsigned end is damaged, all before it is good";
    Stale = 11, "STALE", "the newest signed time is too old";
    Unanchored = 10, "OK-UNANCHORED", "consistent, but not compared with any copy kept elsewhere: add --anchor";
    Ok = 0, "OK", "everything signed is there and agrees with an anchor from outside";
}

/// Exit code of what would write a log that another writer has. It is no verdict, and stands here so that no other gets
/// its number.
pub const LOCKED_CODE: u8 = 26;

/// Where something is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Place {
    /// File.
    pub segment: String,
    /// Byte in it.
    pub offset: Option<u64>,
    /// Chunk.
    pub chunk: Option<u64>,
    /// First and last record.
    pub records: Option<(u64, u64)>,
    /// Note of the file of checkpoints.
    pub note: Option<u64>,
    /// What is wrong there.
    pub reason: String,
}

impl Place {
    /// A whole file.
    #[must_use]
    pub fn file(name: &str, reason: impl Into<String>) -> Place {
        Place { segment: name.to_owned(), reason: reason.into(), ..Place::default() }
    }

    /// For people.
    #[must_use]
    pub fn describe(&self) -> String {
        let mut out = self.segment.clone();
        if let Some(offset) = self.offset {
            out.push_str(&format!(" at byte {offset}"));
        }
        if let Some(note) = self.note {
            out.push_str(&format!(", note {note}"));
        }
        if let Some(chunk) = self.chunk {
            out.push_str(&format!(", chunk {chunk}"));
        }
        match self.records {
            Some((a, b)) if a == b => out.push_str(&format!(", record {a}")),
            Some((a, b)) => out.push_str(&format!(", records {a} to {b}")),
            None => {}
        }
        out.push_str(": ");
        out.push_str(&self.reason);
        out
    }

    fn write_json(&self, verdict: Verdict, json: &mut Json) {
        json.open();
        json.field("verdict", verdict.name());
        json.field("segment", &self.segment);
        if let Some(offset) = self.offset {
            json.number("offset", offset);
        }
        if let Some(chunk) = self.chunk {
            json.number("chunk", chunk);
        }
        if let Some((a, b)) = self.records {
            json.open_array_key("records");
            json.item_number(a);
            json.item_number(b);
            json.close_array();
        }
        if let Some(note) = self.note {
            json.number("note", note);
        }
        json.field("reason", &self.reason);
        json.close();
    }
}

/// What came of an anchor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Anchored {
    /// Where the note is from.
    pub from: String,
    /// Its size.
    pub size: u64,
    /// What came of it: `agrees`, or why not.
    pub outcome: String,
    /// Whether the log agrees with it.
    pub agrees: bool,
}

/// Records that were pruned, and the record that says so.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pruned {
    /// First record.
    pub first: u64,
    /// Last record.
    pub last: u64,
    /// Record of the statement.
    pub by: u64,
}

/// What verification found.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// Of the log.
    pub origin: String,
    /// What holds, in any order.
    pub verdicts: Vec<Verdict>,
    /// Where and why.
    pub places: Vec<(Verdict, Place)>,
    /// What should be looked at though no record is altered or missing by it.
    pub warnings: Vec<String>,
    /// Places beyond those kept.
    pub(crate) places_beyond: u64,
    /// Warnings beyond those kept.
    pub(crate) warnings_beyond: u64,
    /// What is to be known.
    pub notes: Vec<String>,
    /// Chunks below the last good checkpoint,
    pub signed_size: u64,
    /// and when it was signed, seconds since 1970.
    pub signed_time: u64,
    /// Chunks and records after it.
    pub unsigned_chunks: u64,
    /// Records after it.
    pub unsigned_records: u64,
    /// Epochs there were.
    pub epochs: u64,
    /// What came of each anchor.
    pub anchors: Vec<Anchored>,
    /// What was pruned.
    pub pruned: Vec<Pruned>,
    /// Segments whose keys were destroyed on purpose.
    pub withdrawn: Vec<String>,
    /// The two notes of a fork.
    pub evidence: Vec<String>,
    /// Bytes of segments read.
    pub bytes: u64,
    /// Chunks seen.
    pub chunks: u64,
    /// Records seen.
    pub records: u64,
    /// Records whose content was opened and compared.
    pub opened_records: u64,
    /// Notes and commit marks whose signatures were checked: the dear part of a verification without key.
    pub checked_signatures: u64,
    /// Whether the last writer stated its end.
    pub is_closed: bool,
    /// Whether the walk reached the end of the log.
    pub is_whole: bool,
    /// Whether a segment went away while it was read.
    pub(crate) has_vanished: bool,
}

impl Report {
    /// Adds a place to a verdict; long lists are cut, the verdict stays, and the number left out is reported.
    pub(crate) fn place(&mut self, verdict: Verdict, place: Place) {
        if !self.verdicts.contains(&verdict) {
            self.verdicts.push(verdict);
        }
        if self.places.len() < REPORT_LINES_MAX {
            self.places.push((verdict, place));
        } else {
            self.places_beyond += 1;
        }
    }

    /// Adds a warning; long lists are cut, and the number left out is reported.
    pub(crate) fn warn(&mut self, warning: String) {
        if self.warnings.len() < REPORT_LINES_MAX {
            self.warnings.push(warning);
        } else {
            self.warnings_beyond += 1;
        }
    }

    /// Draws the last conclusions.
    #[must_use]
    pub(crate) fn finished(mut self, options: &Options<'_>) -> Report {
        if let Some((age, now)) = options.max_age {
            let oldest = now.saturating_sub(age) / 1_000_000_000;
            if self.signed_time < oldest {
                let reason = format!(
                    "newest signed time {}Z is older than asked for",
                    iso_second(i64::try_from(self.signed_time).unwrap_or(i64::MAX))
                );
                self.place(Verdict::Stale, Place::file(crate::checkpoints::FILE, reason));
            }
        }
        if self.places_beyond > 0 {
            self.warnings.push(format!("and {} places more", self.places_beyond));
        }
        if self.warnings_beyond > 0 {
            self.warnings.push(format!("and {} warnings more", self.warnings_beyond));
        }
        if self.is_whole && !self.anchors.iter().any(|a| a.agrees) {
            self.verdicts.push(Verdict::Unanchored);
        }
        self
    }

    /// The gravest verdict.
    #[must_use]
    pub fn verdict(&self) -> Verdict {
        Verdict::ALL
            .iter()
            .map(|(v, _)| *v)
            .find(|v| self.verdicts.contains(v))
            .unwrap_or(Verdict::Ok)
    }

    /// One JSON object. `seconds` is how long it took.
    #[must_use]
    pub fn to_json(&self, seconds: f64) -> Vec<u8> {
        let mut json = Json::new();
        json.open();
        json.field("verdict", self.verdict().name());
        json.number("exit", self.verdict().code());
        json.open_array_key("verdicts");
        for (verdict, _) in Verdict::ALL {
            if self.verdicts.contains(verdict) {
                json.item(verdict.name());
            }
        }
        json.close_array();
        json.open_array_key("places");
        for (verdict, place) in &self.places {
            place.write_json(*verdict, &mut json);
        }
        json.close_array();
        json.field("origin", &self.origin);
        json.number("signed_size", self.signed_size);
        json.number("signed_time", self.signed_time);
        json.number("unsigned_chunks", self.unsigned_chunks);
        json.number("unsigned_records", self.unsigned_records);
        json.boolean("closed", self.is_closed);
        json.number("epochs", self.epochs);
        json.open_array_key("anchors");
        for anchor in &self.anchors {
            json.open();
            json.field("from", &anchor.from);
            json.number("size", anchor.size);
            json.boolean("agrees", anchor.agrees);
            json.field("outcome", &anchor.outcome);
            json.close();
        }
        json.close_array();
        json.open_array_key("pruned");
        for pruned in &self.pruned {
            json.open();
            json.number("first", pruned.first);
            json.number("last", pruned.last);
            json.number("by", pruned.by);
            json.close();
        }
        json.close_array();
        for (key, list) in [
            ("withdrawn", &self.withdrawn),
            ("warnings", &self.warnings),
            ("notes", &self.notes),
            ("evidence", &self.evidence),
        ] {
            json.open_array_key(key);
            list.iter().for_each(|text| json.item(text));
            json.close_array();
        }
        json.number("bytes", self.bytes);
        json.number("chunks", self.chunks);
        json.number("records", self.records);
        json.number("opened_records", self.opened_records);
        json.float("seconds", seconds);
        json.close();
        json.take_bytes()
    }

    /// Two notes that exclude each other.
    pub(crate) fn fork(&mut self, place: Place, one: &Note, other: Option<&Note>) {
        self.place(Verdict::Fork, place);
        if self.evidence.is_empty() {
            self.evidence.push(one.to_string());
            self.evidence.extend(other.map(ToString::to_string));
        }
    }

    /// Notes what came of an anchor.
    pub(crate) fn anchored(&mut self, anchor: &Anchor, agrees: bool, outcome: &str) {
        self.anchors.push(Anchored {
            from: anchor.from.clone(),
            size: anchor.checkpoint.size,
            outcome: outcome.to_owned(),
            agrees,
        });
    }
}
