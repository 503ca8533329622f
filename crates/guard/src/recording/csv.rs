//! Lines of a recording to rows, in pieces of any size.

use super::Error;
use super::columns::{Bucket, Column, Columns, XdpColumn, XdpColumns, XdpRow};
use crate::limits::{COLUMNS_MAX, CPUS_MAX, HEAD_LINES_MAX, LINE_MAX, reached};

/// What a line holds.
pub(crate) enum Row<'a> {
    Head(&'a str, &'a str),
    BucketColumns(Columns),
    XdpColumns(XdpColumns),
    Bucket(Bucket),
    Xdp(XdpRow),
}

/// How a file ended.
#[derive(Default)]
pub(crate) struct Ended {
    pub(crate) is_torn: bool,
    pub(crate) lines_skipped: u64,
}

/// A column of the file.
#[derive(Clone, Copy)]
enum Field {
    Time,
    Cpu,
    Bucket(Column),
    Xdp(XdpColumn),
    Unknown,
}

/// What the rows of the file are.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Buckets,
    Xdp,
}

/// The lines of a file.
#[derive(Default)]
pub(crate) struct Lines {
    /// The begin of a line whose end has not come.
    begun: Vec<u8>,
    /// The line is too long: the rest of it is skipped.
    is_too_long: bool,
    kind: Option<Kind>,
    fields: Vec<Field>,
    head_lines: usize,
    skipped: u64,
}

impl Lines {
    /// Takes the next bytes.
    pub(crate) fn feed(
        &mut self,
        bytes: &[u8],
        take: &mut dyn FnMut(Row<'_>),
    ) -> Result<(), Error> {
        let mut rest = bytes;
        while let Some(end) = rest.iter().position(|byte| *byte == b'\n') {
            let (line, after) = rest.split_at(end);
            rest = after.get(1..).unwrap_or_default();
            self.keep(line);
            let whole = std::mem::take(&mut self.begun);
            let result = if std::mem::take(&mut self.is_too_long) {
                self.skip_long()
            } else {
                self.line(&whole, take)
            };
            self.begun = whole;
            self.begun.clear();
            result?;
        }
        self.keep(rest);
        Ok(())
    }

    fn skip_long(&mut self) -> Result<(), Error> {
        self.skipped += 1;
        // A first line without an end is no line of columns.
        if self.kind.is_none() { Err(Error::NoColumns) } else { Ok(()) }
    }

    /// Adds to the line that has begun. A line that is too long is not held.
    fn keep(&mut self, part: &[u8]) {
        if self.is_too_long {
            return;
        }
        if self.begun.len().saturating_add(part.len()) > LINE_MAX {
            reached::LINE_MAX.count();
            self.is_too_long = true;
            self.begun.clear();
        } else {
            self.begun.extend_from_slice(part);
        }
    }

    /// The file has ended. A last line without its end is torn, and is left out unless the file is whole.
    pub(crate) fn finish(
        &mut self,
        is_whole: bool,
        take: &mut dyn FnMut(Row<'_>),
    ) -> Result<Ended, Error> {
        let mut is_torn = self.is_too_long;
        if !self.begun.is_empty() {
            let whole = std::mem::take(&mut self.begun);
            // A row that was cut inside its last number has all fields: only a line feed shows that it is whole.
            is_torn = true;
            if self.kind.is_none() && is_whole {
                self.line(&whole, take)?;
            }
        }
        match self.kind {
            None => Err(Error::NoColumns),
            Some(_) => Ok(Ended { is_torn, lines_skipped: self.skipped }),
        }
    }

    fn line(&mut self, line: &[u8], take: &mut dyn FnMut(Row<'_>)) -> Result<(), Error> {
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        if let Some(head) = line.strip_prefix(b"#") {
            self.head(head, take);
            return Ok(());
        }
        let Some(kind) = self.kind else { return self.columns(line, take) };
        let read = match kind {
            Kind::Buckets => self.bucket(line).map(Row::Bucket),
            Kind::Xdp => self.xdp(line).map(Row::Xdp),
        };
        match read {
            Some(row) => take(row),
            None => self.skipped += 1,
        }
        Ok(())
    }

    fn head(&mut self, head: &[u8], take: &mut dyn FnMut(Row<'_>)) {
        if !reached::HEAD_LINES_MAX.has_room(self.head_lines) {
            return;
        }
        self.head_lines = (self.head_lines + 1).min(HEAD_LINES_MAX);
        let text = std::str::from_utf8(head).unwrap_or_default().trim();
        if let Some((key, value)) = text.split_once('=') {
            take(Row::Head(key.trim(), value.trim()));
        }
    }

    /// The line of column names.
    fn columns(&mut self, line: &[u8], take: &mut dyn FnMut(Row<'_>)) -> Result<(), Error> {
        let names: Vec<&[u8]> = line.split(|byte| *byte == b',').collect();
        let has = |name: &[u8]| names.contains(&name);
        let kind = if !has(b"t_ms") {
            return Err(Error::NoColumns);
        } else if has(b"cpu") {
            Kind::Buckets
        } else if has(XdpColumn::Pass.name().as_bytes()) {
            Kind::Xdp
        } else {
            return Err(Error::NoColumns);
        };
        let (mut columns, mut xdp) = (Columns::default(), XdpColumns::default());
        for (at, name) in names.iter().enumerate() {
            if at >= COLUMNS_MAX {
                reached::COLUMNS_MAX.count_times((names.len() - at) as u64);
                break;
            }
            let field = match (*name, kind) {
                (b"t_ms", _) => Field::Time,
                (b"cpu", Kind::Buckets) => Field::Cpu,
                (name, Kind::Buckets) => {
                    Column::from_name(name).map_or(Field::Unknown, Field::Bucket)
                }
                (name, Kind::Xdp) => XdpColumn::from_name(name).map_or(Field::Unknown, Field::Xdp),
            };
            match field {
                Field::Bucket(column) => columns.insert(column),
                Field::Xdp(column) => xdp.insert(column),
                Field::Time | Field::Cpu | Field::Unknown => {}
            }
            self.fields.push(field);
        }
        self.kind = Some(kind);
        match kind {
            Kind::Buckets => take(Row::BucketColumns(columns)),
            Kind::Xdp => take(Row::XdpColumns(xdp)),
        }
        Ok(())
    }

    fn bucket(&self, line: &[u8]) -> Option<Bucket> {
        let mut row = Bucket::new(0, 0);
        let mut cells = line.split(|byte| *byte == b',');
        for field in &self.fields {
            let cell = cells.next()?;
            match field {
                Field::Time => row.at_us = microseconds(cell)?,
                Field::Cpu => {
                    let cpu = u16::try_from(number(cell)?).ok()?;
                    if usize::from(cpu) >= CPUS_MAX {
                        reached::CPUS_MAX.count();
                        return None;
                    }
                    row.cpu = cpu;
                }
                Field::Bucket(column) if !cell.is_empty() => {
                    row.set(*column, u32::try_from(number(cell)?).ok()?);
                }
                Field::Bucket(_) | Field::Xdp(_) | Field::Unknown => {}
            }
        }
        Some(row)
    }

    fn xdp(&self, line: &[u8]) -> Option<XdpRow> {
        let mut row = XdpRow::new(0);
        let mut cells = line.split(|byte| *byte == b',');
        for field in &self.fields {
            let cell = cells.next()?;
            match field {
                Field::Time => row.at_us = microseconds(cell)?,
                Field::Xdp(column) if !cell.is_empty() => row.set(*column, number(cell)?),
                Field::Xdp(_) | Field::Bucket(_) | Field::Cpu | Field::Unknown => {}
            }
        }
        Some(row)
    }
}

/// A number in decimal digits. One that does not fit was not measured: it would be the largest cause of all.
fn number(cell: &[u8]) -> Option<u64> {
    if cell.is_empty() {
        return None;
    }
    cell.iter().try_fold(0u64, |sum, byte| {
        let digit = byte.checked_sub(b'0').filter(|digit| *digit < 10)?;
        sum.checked_mul(10)?.checked_add(digit.into())
    })
}

/// A time in milliseconds with up to three decimals, in microseconds.
fn microseconds(cell: &[u8]) -> Option<u64> {
    let dot = cell.iter().position(|byte| *byte == b'.');
    let (whole, fraction) = match dot {
        Some(at) => (cell.get(..at)?, cell.get(at + 1..)?),
        None => (cell, &b""[..]),
    };
    let mut us = number(whole)?.checked_mul(1000)?;
    let mut unit = 100;
    for byte in fraction {
        let digit = byte.checked_sub(b'0').filter(|digit| *digit < 10)?;
        us = us.saturating_add(u64::from(digit) * unit);
        unit /= 10;
    }
    Some(us)
}
