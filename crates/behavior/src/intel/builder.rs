//! Takes files in, line by line or object by object, as their bytes come.

use super::index::Place;
use super::indicator::{self, Class, Indicator};
use super::line::{self, Line};
use super::objects::{self, Objects, is_no_target};
use super::{AsnTable, Intel, Source, Texts};
use crate::limits::{LIST_LINE_MAX, LIST_OFFSET_MAX, LISTS_MAX, WRONG_LINES_MAX};
use gabion_record::Ip;
use gabion_record::evidence::ThreatLevel;

/// What a file is read for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Purpose {
    /// What is bad
    #[default]
    Indicators,
    /// Addresses of relays that traffic leaves Tor by
    TorExits,
    /// Hashes of files that are harmless though lists name them
    Harmless,
    /// Which range of addresses belongs to which autonomous system
    Systems,
    /// On which day domains were registered
    Ages,
    /// Who makes hardware, by the first bytes of its address
    Makers,
}

/// What was read of a file, and what not.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FileCounts {
    /// Lines, or objects of JSON.
    pub entries: u64,
    /// Indicators taken.
    pub indicators: u64,
    /// Addresses that are private or of no single host.
    pub private: u64,
    /// Kinds that no log carries (JARM), patterns that one look-up cannot answer.
    pub unsupported: u64,
    /// Lines and objects that could not be read.
    pub wrong: u64,
    /// Numbers of the first of these.
    pub wrong_lines: Vec<u64>,
}

/// Makes an [`Intel`].
#[derive(Debug, Default)]
pub struct Builder {
    made: Intel,
    purpose: Purpose,
    /// A line that has not ended yet.
    held: Vec<u8>,
    held_len: u64,
    is_too_long: bool,
    objects: Option<Objects>,
    has_begun: bool,
    offset: u64,
    line: u64,
}

impl Builder {
    /// Begins a file; `level` is that of entries without a level. False when there are too many.
    pub fn file(&mut self, name: &str, level: ThreatLevel, purpose: Purpose) -> bool {
        self.end_file();
        if self.made.sources.len() >= LISTS_MAX {
            return false;
        }
        self.purpose = purpose;
        self.made.sources.push(Source {
            name: name.to_owned(),
            level,
            counts: FileCounts::default(),
            is_json: false,
            header: None,
        });
        true
    }

    /// Takes bytes of that file in, in any pieces.
    pub fn push(&mut self, bytes: &[u8]) {
        if self.has_begun {
            return self.feed(bytes);
        }
        // What kind of file it is shows at its begin, which may come in pieces too.
        self.held.extend_from_slice(bytes);
        if objects::is_enough(&self.held) {
            self.begin();
        }
    }

    /// Takes in what was held until the file's kind was known.
    fn begin(&mut self) {
        let held = std::mem::take(&mut self.held);
        self.feed(&held);
    }

    fn feed(&mut self, bytes: &[u8]) {
        if !self.has_begun {
            self.has_begun = true;
            if self.purpose == Purpose::Indicators && objects::is_json(bytes) {
                self.objects = Some(Objects::default());
                if let Some(source) = self.made.sources.last_mut() {
                    source.is_json = true;
                }
            }
        }
        if let Some(mut objects) = self.objects.take() {
            objects.push(bytes, &mut |at, object| self.object(at, object));
            self.objects = Some(objects);
            return;
        }
        let mut rest = bytes;
        while let Some(at) = rest.iter().position(|b| *b == b'\n') {
            let (line, after) = rest.split_at(at);
            rest = after.get(1..).unwrap_or_default();
            if self.held_len == 0 {
                self.line(line);
                self.offset += line.len() as u64 + 1;
            } else {
                self.hold(line);
                self.end_held();
            }
        }
        if !rest.is_empty() {
            self.hold(rest);
        }
    }

    fn hold(&mut self, part: &[u8]) {
        self.held_len += part.len() as u64;
        let room = LIST_LINE_MAX.saturating_sub(self.held.len());
        self.is_too_long |= part.len() > room;
        self.held.extend_from_slice(part.get(..part.len().min(room)).unwrap_or_default());
    }

    fn end_held(&mut self) {
        let mut held = std::mem::take(&mut self.held);
        if std::mem::take(&mut self.is_too_long) {
            self.line += 1;
            self.wrong();
        } else {
            self.line(&held);
        }
        self.offset += std::mem::take(&mut self.held_len) + 1;
        held.clear();
        self.held = held;
    }

    fn end_file(&mut self) {
        if !self.has_begun {
            self.begin();
        }
        if self.held_len > 0 {
            self.end_held();
        }
        if let Some(objects) = self.objects.take()
            && let Some(source) = self.made.sources.last_mut()
        {
            source.counts.wrong += objects.too_long;
        }
        (self.has_begun, self.offset, self.line) = (false, 0, 0);
    }

    fn counts(&mut self) -> Option<&mut FileCounts> {
        self.made.sources.last_mut().map(|s| &mut s.counts)
    }

    fn wrong(&mut self) {
        let line = self.line;
        if let Some(counts) = self.counts() {
            counts.wrong += 1;
            if counts.wrong_lines.len() < WRONG_LINES_MAX {
                counts.wrong_lines.push(line);
            }
        }
    }

    fn line(&mut self, line: &[u8]) {
        self.line += 1;
        let offset = self.offset;
        match self.purpose {
            Purpose::Systems => return self.made.asns.push(line),
            Purpose::Ages => return self.made.ages.push(line.trim_ascii()),
            Purpose::Makers => return self.made.makers.push(line.trim_ascii()),
            Purpose::Indicators | Purpose::TorExits | Purpose::Harmless => {}
        }
        if self.line <= 16 && line.contains(&b',') {
            self.header(line);
        }
        match line::parse_line(line) {
            Line::None => {}
            Line::Bad => {
                if let Some(counts) = self.counts() {
                    counts.entries += 1;
                }
                self.wrong();
            }
            Line::Entry(found, level) => {
                if let Some(counts) = self.counts() {
                    counts.entries += 1;
                }
                self.take_indicator(&found, level, offset);
            }
        }
    }

    /// Remembers a line that names columns, for descriptions.
    fn header(&mut self, line: &[u8]) {
        let text = line.to_ascii_lowercase();
        let has = |word: &[u8]| indicator::find(&text, word).is_some();
        let is_header = (has(b"desc") || has(b"malware") || has(b"tags_str") || has(b"collect"))
            && matches!(
                line::parse_line(line.strip_prefix(b"#").unwrap_or(line)),
                Line::None | Line::Bad
            );
        if is_header && let Some(source) = self.made.sources.last_mut() {
            source.header = Some(line.into());
        }
    }

    fn object(&mut self, at: u64, bytes: &[u8]) {
        self.line += 1;
        if let Some(counts) = self.counts() {
            counts.entries += 1;
        }
        let Some(object) = objects::read_object(bytes) else { return self.wrong() };
        if object.is_unsupported {
            if let Some(counts) = self.counts() {
                counts.unsupported += 1;
            }
            return;
        }
        if object.is_other {
            return;
        }
        for text in &object.indicators {
            match Indicator::parse(text.as_bytes()) {
                Some(found) => self.take_indicator(&found, object.level, at),
                None => self.wrong(),
            }
        }
    }

    fn take_indicator(&mut self, found: &Indicator<'_>, level: Option<ThreatLevel>, offset: u64) {
        let file = self.made.sources.len().saturating_sub(1);
        let level = level.or_else(|| self.made.sources.last().map(|s| s.level)).unwrap_or_default();
        let Ok(number) = u16::try_from(file) else { return };
        let place = Place::new(number, offset.min(LIST_OFFSET_MAX - 1), level as u8);
        let is_taken = match (self.purpose, found) {
            (Purpose::TorExits, Indicator::Ip(ip)) => {
                self.add(Class::TorExit, indicator::of_ip(Class::TorExit, *ip), place);
                true
            }
            (Purpose::Harmless, Indicator::Hash(hex)) => {
                self.add(Class::Harmless, indicator::of_text(Class::Harmless, hex), place);
                true
            }
            (Purpose::Indicators, found) => return self.bad(found, place),
            _ => false,
        };
        if let Some(counts) = self.counts() {
            counts.indicators += u64::from(is_taken);
            counts.unsupported += u64::from(!is_taken);
        }
    }

    fn bad(&mut self, found: &Indicator<'_>, place: Place) {
        let is_private = |first: &Ip, last: &Ip| is_no_target(*first) && is_no_target(*last);
        match found {
            Indicator::Ip(ip) if is_no_target(*ip) => return self.private(),
            Indicator::Range(first, last) if is_private(first, last) => return self.private(),
            Indicator::Jarm(_) => {
                if let Some(counts) = self.counts() {
                    counts.unsupported += 1;
                }
                return;
            }
            Indicator::Ip(ip) => self.add(Class::Ip, indicator::of_ip(Class::Ip, *ip), place),
            Indicator::Range(first, last) => {
                let at = u32::try_from(self.made.range_places.len()).unwrap_or(u32::MAX);
                self.made.ranges.add(*first, *last, at);
                self.made.range_places.push(place);
            }
            Indicator::Domain(name) => {
                self.add(Class::Domain, indicator::of_name(name), place);
                self.made.index.add_end(indicator::of_end(name));
            }
            Indicator::Url(url) => {
                self.add(Class::Url, indicator::of_text(Class::Url, url), place);
            }
            Indicator::Hash(hex) => {
                self.add(Class::Hash, indicator::of_text(Class::Hash, hex), place);
            }
            Indicator::Asn(n) => self.add(Class::Asn, indicator::of_number(Class::Asn, *n), place),
        }
        if let Some(counts) = self.counts() {
            counts.indicators += 1;
        }
    }

    fn private(&mut self) {
        if let Some(counts) = self.counts() {
            counts.private += 1;
        }
    }

    fn add(&mut self, class: Class, hash: u64, place: Place) {
        self.made.has |= 1 << class as u8;
        self.made.index.add(hash, place);
    }

    /// Makes it ready to be asked; `texts` reads the files again.
    pub fn finish(mut self, texts: Option<Box<dyn Texts>>) -> Intel {
        self.end_file();
        let asns: &mut AsnTable = &mut self.made.asns;
        asns.close();
        self.made.index.close();
        self.made.ranges.close();
        self.made.range_places.shrink_to_fit();
        self.made.texts = texts;
        self.made
    }
}
