//! One log: which format its lines have, and each line's moment and record.
//!
//! Reading is in two steps, so that lines can be put into order of time before they are read in
//! full: [`Reader::line`] says what a line is and when, [`Reader::record`] makes its record. Between
//! the two a line carries the number of the header it stood under ([`LayoutId`]).

use crate::limits::{COLUMNS_MAX, LAYOUTS_MAX, LINE_MAX, reached};
use crate::skip::Skip;
use crate::zeek::{self, Separator};
use crate::{argus, eve, nfcapd, nfdump};
use gabion_record::logs::{LogKind, Record, TimeNs};
use gabion_record::saved;
use gabion_record::saved::Saved;

/// The format of a log, as the user may name it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// Zeek's logs, TSV or JSON
    Zeek,
    /// Suricata's EVE
    Eve,
    /// Argus's flows by columns
    Argus,
    /// nfdump's CSV, text or binary files
    Nfdump,
}

impl Format {
    /// All formats with their names.
    pub const ALL: [(&'static str, Format); 4] = [
        ("zeek", Format::Zeek),
        ("eve", Format::Eve),
        ("argus", Format::Argus),
        ("nfdump", Format::Nfdump),
    ];
}

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

#[derive(Clone, Debug, PartialEq, Eq)]
enum Layout {
    Zeek(zeek::Layout),
    ZeekJson(LogKind),
    Eve,
    Argus(argus::Layout),
    Nfdump(nfdump::Layout),
    Nfcapd,
}

/// Reads the lines of one log.
#[derive(Clone, Debug)]
pub struct Reader {
    format: Option<Format>,
    /// The kind by the file's name.
    named: Option<LogKind>,
    layouts: Vec<Layout>,
    current: Option<u32>,
    /// `#separator`, `#unset_field` and `#path` of the header being read.
    separator: Separator,
    unset: Vec<u8>,
    path: Option<LogKind>,
    /// A log of Zeek that is not used (`stats`, `weird_stats`, …).
    is_unused: bool,
}

impl Saved for LayoutId {
    fn save(&self, out: &mut Vec<u8>) {
        self.0.save(out);
    }
    fn load(from: &mut &[u8]) -> Option<Self> {
        Saved::load(from).map(LayoutId)
    }
}

impl Saved for Format {
    fn save(&self, out: &mut Vec<u8>) {
        out.push(*self as u8);
    }
    fn load(from: &mut &[u8]) -> Option<Self> {
        Format::ALL.get(usize::from(u8::load(from)?)).map(|(_, format)| *format)
    }
}

impl Saved for Layout {
    fn save(&self, out: &mut Vec<u8>) {
        match self {
            Layout::Zeek(layout) => {
                out.push(0);
                layout.save(out);
            }
            Layout::ZeekJson(kind) => {
                out.push(1);
                kind.save(out);
            }
            Layout::Eve => out.push(2),
            Layout::Argus(layout) => {
                out.push(3);
                layout.save(out);
            }
            Layout::Nfdump(layout) => {
                out.push(4);
                layout.save(out);
            }
            Layout::Nfcapd => out.push(5),
        }
    }
    fn load(from: &mut &[u8]) -> Option<Self> {
        Some(match u8::load(from)? {
            0 => Layout::Zeek(Saved::load(from)?),
            1 => Layout::ZeekJson(Saved::load(from)?),
            2 => Layout::Eve,
            3 => Layout::Argus(Saved::load(from)?),
            4 => Layout::Nfdump(Saved::load(from)?),
            5 => Layout::Nfcapd,
            _ => return None,
        })
    }
}

saved! { Reader { format, named, layouts, current, separator, unset, path, is_unused } }

impl Reader {
    /// A reader of a log of that file name; `format` where the user says it.
    pub fn new(name: &str, format: Option<Format>) -> Reader {
        Reader {
            format,
            named: kind_of(name),
            layouts: Vec::new(),
            current: None,
            separator: Separator::Byte(b'\t'),
            unset: b"-".to_vec(),
            path: None,
            is_unused: false,
        }
    }

    /// Which log of Zeek it is, when it is one and that is known.
    pub fn kind(&self) -> Option<LogKind> {
        match self.layouts.get(self.current? as usize)? {
            Layout::Zeek(layout) => Some(layout.kind),
            Layout::ZeekJson(kind) => Some(*kind),
            _ => None,
        }
    }

    /// The order of this log's records among records of the same moment.
    pub fn order(&self) -> LogKind {
        self.kind().or(self.named).unwrap_or(LogKind::Conn)
    }

    /// Says what a line (without its end) is.
    #[inline]
    pub fn line(&mut self, line: &[u8]) -> Line {
        if let Some(at) = self.current {
            match self.layouts.get(at as usize) {
                Some(Layout::Zeek(layout)) => {
                    if let Some(byte) = layout.leads_with_time()
                        && let Some(ts) = zeek::leading_time(line, byte)
                    {
                        return Line::Record(ts, LayoutId(at));
                    }
                }
                Some(Layout::ZeekJson(_)) if line.first() == Some(&b'{') => {
                    return Self::found(at, zeek::json_time(line));
                }
                _ => {}
            }
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
            Some(b'{') => return self.json(trimmed),
            Some(_) => {}
        }
        if self.is_unused {
            return Line::Skip(Skip::UnusedEvent);
        }
        if let Some(at) = self.current
            && let Some(layout) = self.layouts.get(at as usize)
        {
            let time = match layout {
                Layout::Zeek(layout) => layout.time(line),
                Layout::Argus(layout) => layout.time(line),
                Layout::Nfdump(layout) => layout.time(line),
                Layout::Nfcapd => nfcapd::time(line),
                Layout::ZeekJson(_) | Layout::Eve => Err(Skip::NotALog),
            };
            if time.is_err() && self.header(line) {
                return Line::Quiet;
            }
            return match (time, layout_is_zeek(self.layouts.get(at as usize))) {
                // Text among columns is no line with a bad time.
                (Err(_), true) if !line.contains(&b'\t') => Line::Skip(Skip::NotALog),
                (time, _) => Self::found(at, time),
            };
        }
        if self.header(line) {
            return Line::Quiet;
        }
        // nfdump's text may come without a header.
        if let Some(layout) = nfdump::Layout::from_line(line)
            && matches!(self.format, None | Some(Format::Nfdump))
        {
            return match self.push(Layout::Nfdump(layout.clone())) {
                Ok(at) => Self::found(at, layout.time(line)),
                Err(skip) => Line::Skip(skip),
            };
        }
        Line::Skip(if self.named.is_some() { Skip::NoHeader } else { Skip::NotALog })
    }

    /// Takes a line that names columns.
    fn header(&mut self, line: &[u8]) -> bool {
        let may = |format| self.format.is_none() || self.format == Some(format);
        if line == nfcapd::HEADER && may(Format::Nfdump) {
            return self.push(Layout::Nfcapd).is_ok();
        }
        let layout = match argus::Layout::from_header(line) {
            Some(layout) if may(Format::Argus) => Some(Layout::Argus(layout)),
            _ => None,
        };
        let layout = layout.or_else(|| match nfdump::Layout::from_header(line) {
            Some(layout) if may(Format::Nfdump) => Some(Layout::Nfdump(layout)),
            _ => None,
        });
        layout.is_some_and(|layout| self.push(layout).is_ok())
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

    /// A line of a Zeek header.
    fn comment(&mut self, line: &[u8]) -> Line {
        let Some(rest) = line.trim_ascii_end().strip_prefix(b"#") else { return Line::Quiet };
        let end = rest.iter().position(|b| b.is_ascii_whitespace()).unwrap_or(rest.len());
        let (word, value) = rest.split_at(end);
        let value = match (value.first(), value.get(1)) {
            (Some(b' '), Some(b' ')) => {
                self.separator = Separator::Spaces;
                value.trim_ascii_start()
            }
            _ => value.get(1..).unwrap_or_default(),
        };
        match word {
            b"separator" => {
                self.separator = separator(value);
                self.path = None;
            }
            b"unset_field" => self.unset = value.to_vec(),
            b"path" => {
                self.path = kind_of_path(value);
                self.is_unused = self.path.is_none();
            }
            b"fields" => {
                let Some(kind) = self.path.or(self.named) else {
                    self.is_unused = true;
                    self.current = None;
                    return Line::Quiet;
                };
                self.is_unused = false;
                match zeek::Layout::new(kind, self.separator, value, &self.unset) {
                    Ok(layout) => {
                        if let Err(skip) = self.push(Layout::Zeek(layout)) {
                            return Line::Skip(skip);
                        }
                    }
                    Err(_) => self.current = None,
                }
            }
            _ => {}
        }
        Line::Quiet
    }

    fn json(&mut self, line: &[u8]) -> Line {
        let layout = match self.format {
            Some(Format::Eve) => Some(Layout::Eve),
            Some(Format::Argus | Format::Nfdump) => None,
            Some(Format::Zeek) | None if eve::is_eve(line) => Some(Layout::Eve),
            Some(Format::Zeek) | None => {
                let stated = self.named.or(self.path).or_else(|| json_kind(line));
                stated.map(Layout::ZeekJson)
            }
        };
        let Some(layout) = layout else {
            // Zeek has more logs than detectors have use for.
            let is_zeek = self.format != Some(Format::Eve) && zeek::json_time(line).is_ok();
            return Line::Skip(if is_zeek { Skip::UnusedEvent } else { Skip::NotALog });
        };
        let time = match layout {
            Layout::Eve => eve::time(line),
            _ => zeek::json_time(line),
        };
        match (time, self.push(layout)) {
            (Ok(ts), Ok(at)) => Line::Record(ts, LayoutId(at)),
            (Err(skip), _) | (_, Err(skip)) => Line::Skip(skip),
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
            Some(Layout::Zeek(layout)) => layout.record(line),
            Some(Layout::ZeekJson(kind)) => zeek::json_record(*kind, line, scratch),
            Some(Layout::Eve) => eve::record(line, scratch),
            Some(Layout::Argus(layout)) => layout.record(line),
            Some(Layout::Nfdump(layout)) => layout.record(line, scratch),
            Some(Layout::Nfcapd) => nfcapd::record(line),
            None => Err(Skip::NoHeader),
        }
    }
}

fn layout_is_zeek(layout: Option<&Layout>) -> bool {
    matches!(layout, Some(Layout::Zeek(_)))
}

/// `\x09` or the byte itself.
fn separator(text: &[u8]) -> Separator {
    let text = text.trim_ascii();
    let hex = text.strip_prefix(b"\\x").and_then(|t| std::str::from_utf8(t).ok());
    match hex.and_then(|t| u8::from_str_radix(t, 16).ok()) {
        Some(byte) => Separator::Byte(byte),
        None => Separator::Byte(text.first().copied().unwrap_or(b'\t')),
    }
}

/// The kind that a file name says: `conn.log`, `conn.log.labeled`, `conn.00:00:00-01:00:00.log.gz`,
/// `conn_red.log`.
pub fn kind_of(name: &str) -> Option<LogKind> {
    let base = name.rsplit(['/', '\\']).next()?;
    if !base.contains(".log") {
        return None;
    }
    let stem = base.split(['.', '-']).next()?;
    open_or(stem.as_bytes(), stem.split('_').next()?.as_bytes())
}

/// The kind by a whole stem or by its first word: `open_conn` is a log of its own, `conn_red` is not.
fn open_or(stem: &[u8], word: &[u8]) -> Option<LogKind> {
    let found = LogKind::from_name(stem).or_else(|| LogKind::from_name(word));
    // Alerts come out of EVE, never as a log of their own.
    found.filter(|kind| *kind != LogKind::RuleAlert)
}

/// The kind that `#path` says.
fn kind_of_path(path: &[u8]) -> Option<LogKind> {
    let stem = path.split(|b| matches!(b, b'-' | b'.')).next()?;
    open_or(stem, stem.split(|b| *b == b'_').next()?)
}

/// The kind of a JSON line by its `_path` or by columns that only one log has.
fn json_kind(line: &[u8]) -> Option<LogKind> {
    let mut by_path = None;
    let mut by_column = None;
    crate::json::members(line, |key, value| {
        let kind = match key {
            b"_path" => {
                by_path = kind_of_path(value.raw());
                return;
            }
            b"conn_state" => LogKind::Conn,
            b"qtype_name" | b"rcode_name" => LogKind::Dns,
            b"status_code" | b"user_agent" => LogKind::Http,
            b"cipher" | b"validation_status" => LogKind::Ssl,
            b"auth_attempts" => LogKind::Ssh,
            b"tx_hosts" => LogKind::Files,
            b"note" => LogKind::Notice,
            b"software_type" => LogKind::Software,
            b"tunnel_type" => LogKind::Tunnel,
            b"last_reply" => LogKind::Smtp,
            b"requested_addr" | b"lease_time" => LogKind::Dhcp,
            b"operation" => LogKind::Arp,
            _ => return,
        };
        by_column = Some(kind);
    })?;
    by_path.or(by_column)
}

/// The columns of a header, as far as they are looked at.
pub(crate) fn columns<'a>(mut all: impl Iterator<Item = &'a [u8]>) -> Vec<&'a [u8]> {
    let columns = all.by_ref().take(COLUMNS_MAX).collect();
    reached::COLUMNS_MAX.count_times(all.count() as u64);
    columns
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_files_say_the_kind() {
        for (name, kind) in [
            ("a/conn.log", Some(LogKind::Conn)),
            ("conn.log.labeled", Some(LogKind::Conn)),
            ("dns.00:00:00-01:00:00.log.gz", Some(LogKind::Dns)),
            ("conn-summary.log", Some(LogKind::Conn)),
            ("open_conn.log", Some(LogKind::OpenConn)),
            ("open_conn.17_32_32-18_00_00.log.gz", Some(LogKind::OpenConn)),
            ("open_http.log", None),
            ("stats.log", None),
            ("x.pcap", None),
        ] {
            assert_eq!(kind_of(name), kind, "{name}");
        }
    }

    #[test]
    fn columns_beyond_those_looked_at_are_counted() {
        let header = vec!["ts"; COLUMNS_MAX + 44].join(",");
        assert_eq!(columns(header.as_bytes().split(|b| *b == b',')).len(), COLUMNS_MAX);
        assert_eq!(gabion_record::limits::take().of(&reached::COLUMNS_MAX), 44);
        assert_eq!(columns(b"a,b".split(|b| *b == b',')), [b"a", b"b"]);
        assert!(gabion_record::limits::take().is_empty());
    }

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
