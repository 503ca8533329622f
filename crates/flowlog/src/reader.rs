//! One log: which format its lines have, and each line's moment and record.
//!
//! Reading is in two steps, so that lines can be put into order of time before they are read in
//! full: [`Reader::line`] says what a line is and when, [`Reader::record`] makes its record. Between
//! the two a line carries the number of the header it stood under ([`LayoutId`]).

use crate::format::Seen;
use crate::formats::zeek;
use crate::formats::{Format, Layout};
use crate::limits::{LAYOUTS_MAX, LINE_MAX};
use crate::skip::Skip;
use gabion_record::logs::{LogKind, Record, TimeNs};
use gabion_record::saved;
use gabion_record::saved::Saved;

/// The header that a line stood under.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct LayoutId(u32);

/// What a line is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Line {
    /// A header, a comment or nothing.
    Quiet,
    /// A record of that moment.
    Record(TimeNs, LayoutId),
    /// No record, and why.
    Skip(Skip),
}

/// Reads the lines of one log.
#[derive(Clone, Debug)]
pub struct Reader {
    format: Option<Format>,
    /// The kind by the file's name.
    named: Option<LogKind>,
    layouts: Vec<Layout>,
    current: Option<u32>,
    /// What lines that begin with `#` have said.
    header: zeek::Header,
}

impl Saved for LayoutId {
    fn save(&self, out: &mut Vec<u8>) {
        self.0.save(out);
    }
    fn load(from: &mut &[u8]) -> Option<Self> {
        Saved::load(from).map(LayoutId)
    }
}

saved! { Reader { format, named, layouts, current, header } }

impl Reader {
    /// A reader of a log of that file name; `format` where the user names it.
    pub fn new(name: &str, format: Option<Format>) -> Reader {
        Reader {
            format,
            named: zeek::kind_of(name),
            layouts: Vec::new(),
            current: None,
            header: zeek::Header::default(),
        }
    }

    /// The columns in force.
    #[inline]
    fn layout(&self) -> Option<(u32, &Layout)> {
        let at = self.current?;
        self.layouts.get(at as usize).map(|layout| (at, layout))
    }

    /// Which log of Zeek it is, when it is one and that is known.
    pub fn kind(&self) -> Option<LogKind> {
        self.layout().and_then(|(_, layout)| layout.kind())
    }

    /// The order of this log's records among records of the same moment.
    pub fn order(&self) -> LogKind {
        self.kind().or(self.named).unwrap_or(LogKind::Conn)
    }

    /// Says what a line (without its end) is.
    #[inline]
    pub fn line(&mut self, line: &[u8]) -> Line {
        if let Some((at, layout)) = self.layout()
            && let Some(time) = layout.quick_time(line)
        {
            return Self::found(at, time);
        }
        self.any_line(line)
    }

    fn found(at: u32, ts: Result<TimeNs, Skip>) -> Line {
        match ts {
            Ok(ts) => Line::Record(ts, LayoutId(at)),
            Err(skip) => Line::Skip(skip),
        }
    }

    /// A line that is not the usual next one.
    fn any_line(&mut self, line: &[u8]) -> Line {
        if line.len() > LINE_MAX {
            return Line::Skip(Skip::TooLong);
        }
        let trimmed = line.trim_ascii();
        match trimmed.first() {
            None => return Line::Quiet,
            Some(b'#') => return self.comment(line),
            // A line of JSON says by itself what it is.
            Some(b'{') => return self.json(trimmed),
            Some(_) => {}
        }
        if self.header.is_unused {
            return Line::Skip(Skip::UnusedEvent);
        }
        if let Some((at, layout)) = self.layout() {
            let time = layout.time(line);
            if time.is_err() && self.header(line) {
                return Line::Quiet;
            }
            return Self::found(at, time);
        }
        if self.header(line) {
            return Line::Quiet;
        }
        match Layout::from_record(self.seen(line)) {
            Some(layout) => self.first_line(line, layout),
            None => Line::Skip(if self.named.is_some() { Skip::NoHeader } else { Skip::NotALog }),
        }
    }

    fn seen<'a>(&self, line: &'a [u8]) -> Seen<'a> {
        Seen { line, chosen: self.format.map(Format::name), named: self.named.or(self.header.path) }
    }

    /// Takes a line that names columns.
    fn header(&mut self, line: &[u8]) -> bool {
        let layout = Layout::from_header(line, self.format);
        layout.is_some_and(|layout| self.push(layout).is_ok())
    }

    /// A record without a header before it.
    fn first_line(&mut self, line: &[u8], layout: Layout) -> Line {
        let time = layout.time(line);
        match (time, self.push(layout)) {
            (Ok(ts), Ok(at)) => Line::Record(ts, LayoutId(at)),
            (Err(skip), _) | (_, Err(skip)) => Line::Skip(skip),
        }
    }

    fn push(&mut self, layout: Layout) -> Result<u32, Skip> {
        let at = match self.layouts.iter().rposition(|l| *l == layout) {
            Some(at) => at,
            None if self.layouts.len() >= LAYOUTS_MAX => {
                self.current = None;
                return Err(Skip::TooManyHeaders);
            }
            None => {
                self.layouts.push(layout);
                self.layouts.len() - 1
            }
        };
        let at = u32::try_from(at).map_err(|_| Skip::TooManyHeaders)?;
        self.current = Some(at);
        Ok(at)
    }

    /// A line of a Zeek header, or a comment.
    fn comment(&mut self, line: &[u8]) -> Line {
        match self.header.comment(line, self.named) {
            zeek::Comment::Quiet => {}
            zeek::Comment::NoColumns => self.current = None,
            zeek::Comment::Columns(layout) => {
                if let Err(skip) = self.push(Layout::Zeek(zeek::Log::Tsv(layout))) {
                    return Line::Skip(skip);
                }
            }
        }
        Line::Quiet
    }

    fn json(&mut self, line: &[u8]) -> Line {
        match Layout::from_record(self.seen(line)) {
            Some(layout) => self.first_line(line, layout),
            None => {
                // Zeek has more logs than detectors have use for.
                let is_zeek = self.format != Some(Format::Eve) && zeek::json_time(line).is_ok();
                Line::Skip(if is_zeek { Skip::UnusedEvent } else { Skip::NotALog })
            }
        }
    }

    /// The record of a line that [`Reader::line`] called one. `scratch` is lent for texts with
    /// escapes.
    ///
    /// # Errors
    /// What is wrong with the line.
    #[inline]
    pub fn record<'a>(
        &self,
        layout: LayoutId,
        line: &'a [u8],
        scratch: &'a mut Vec<u8>,
    ) -> Result<Record<'a>, Skip> {
        match self.layouts.get(layout.0 as usize) {
            Some(layout) => layout.record(line, scratch),
            None => Err(Skip::NoHeader),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A header may change where rotated files were put together.
    #[test]
    fn a_header_in_the_middle_changes_the_columns() {
        let text = "#separator \\x09\n#path\tconn\n#fields\tts\tuid\tid.orig_h\tid.resp_h\n\
            1.5\tA\t1.1.1.1\t2.2.2.2\nnonsense\n#fields\tuid\tts\tid.resp_h\tid.orig_h\n\
            B\t2.5\t2.2.2.2\t1.1.1.1\n#close\n";
        let mut reader = Reader::new("x.txt", None);
        let mut seen = Vec::new();
        for line in text.lines() {
            if let Line::Record(ts, at) = reader.line(line.as_bytes()) {
                seen.push((ts.0, at, line));
            }
        }
        let mut scratch = Vec::new();
        let read: Vec<_> = seen
            .iter()
            .map(|(ts, at, line)| {
                let r = reader.record(*at, line.as_bytes(), &mut scratch).unwrap();
                assert_eq!(r.ts.0, *ts);
                (String::from_utf8_lossy(r.uid).into_owned(), r.src.to_string())
            })
            .collect();
        assert_eq!(read, [("A".into(), "1.1.1.1".into()), ("B".into(), "1.1.1.1".into())]);
        assert_eq!(reader.line(b"nonsense"), Line::Skip(Skip::NotALog));
    }

    #[test]
    fn json_below_a_header_of_tsv() {
        let mut reader = Reader::new("conn.log", None);
        assert_eq!(reader.line(b"#separator \\x09"), Line::Quiet);
        let line = br#"{"ts":1.5,"id.orig_h":"1.1.1.1","id.resp_h":"2.2.2.2"}"#;
        assert!(matches!(reader.line(line), Line::Record(..)));
        assert_eq!(reader.kind(), Some(LogKind::Conn));
    }
}
