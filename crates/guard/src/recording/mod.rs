//! Recordings: rows of 4 ms by CPU and rows of XDP counters, as CSV with an optional head, plain or compressed with zstd.
//!
//! A recording is one file of rows by CPU (`NAME.csv.zst`) and, where a throttle ran, a second one with its counters
//! (`NAME.xdp.csv.zst`). Each begins with lines of its head (`# key=value`), then a line of column names, then rows.
//! Columns may come in any order and may be missing: a missing column is a missing instrument. A file that ends in the
//! middle of a row or of a compressed block is read up to there.

mod columns;
mod csv;
mod unpack;
mod write;

pub use columns::{Bucket, Column, Columns, XdpColumn, XdpColumns, XdpRow};
pub use write::{
    Packer, write_bucket, write_bucket_columns, write_head, write_xdp, write_xdp_columns,
};

use crate::limits::{ROWS_MAX, XDP_ROWS_MAX, reached};
use csv::{Lines, Row};
use unpack::Unpacker;

/// Why a file can't be read as a recording.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// It is no text with the columns of a recording.
    #[error(
        "not a recording: its first line does not name the columns t_ms and cpu, or t_ms and pass"
    )]
    NoColumns,
    /// It is compressed, and can't be unpacked from its first block on.
    #[error("not readable as zstd: {0}")]
    Packed(std::io::Error),
    /// It has columns, and no row.
    #[error("has no rows")]
    Empty,
    /// A recording can't be compressed.
    #[error("can't be compressed: {0}")]
    Pack(std::io::Error),
}

/// A recording in memory.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Recording {
    /// Keys and values of the heads, in their order.
    pub head: Vec<(String, String)>,
    /// Rows by CPU, in order of time and CPU.
    pub buckets: Vec<Bucket>,
    /// The columns that the rows by CPU have.
    pub columns: Columns,
    /// Rows of XDP counters, in order of time.
    pub xdp: Vec<XdpRow>,
    /// The columns that these have.
    pub xdp_columns: XdpColumns,
    /// A file ended inside a row or a compressed block.
    pub is_torn: bool,
    /// Lines that are no rows, and rows for a bucket that has one.
    pub lines_skipped: u64,
    /// Rows beyond the limits.
    pub rows_shed: u64,
}

impl Recording {
    /// The value of a key of the head.
    #[must_use]
    pub fn head_value(&self, key: &str) -> Option<&str> {
        self.head.iter().find(|(k, _)| k == key).map(|(_, value)| value.as_str())
    }

    /// Drops a column, as if its instrument had been absent.
    pub fn drop_column(&mut self, column: Column) {
        self.columns.remove(column);
        self.buckets.iter_mut().for_each(|row| row.remove(column));
    }

    /// Keeps a row by CPU, within the limit.
    pub fn push_bucket(&mut self, row: Bucket) {
        if reached::ROWS_MAX.has_room(self.buckets.len()) {
            self.buckets.push(row)
        } else {
            self.rows_shed += 1
        }
    }

    /// Keeps a row of XDP counters, within the limit.
    pub fn push_xdp(&mut self, row: XdpRow) {
        if reached::XDP_ROWS_MAX.has_room(self.xdp.len()) {
            self.xdp.push(row)
        } else {
            self.rows_shed += 1
        }
    }

    /// Brings the rows in order; of several rows for a bucket the first is kept.
    pub fn sort(&mut self) {
        self.buckets.sort_by_key(|row| (row.at_us, row.cpu));
        let before = self.buckets.len();
        self.buckets.dedup_by_key(|row| (row.at_us, row.cpu));
        self.lines_skipped += (before - self.buckets.len()) as u64;
        self.xdp.sort_by_key(|row| row.at_us);
    }
}

/// Reads the files of a recording, one after the other, in pieces of any size.
#[derive(Default)]
pub struct Reader {
    recording: Recording,
    unpacker: Unpacker,
    lines: Lines,
    text: Vec<u8>,
}

impl Reader {
    /// A reader at the begin of the first file.
    #[must_use]
    pub fn new() -> Reader {
        Reader::default()
    }

    /// Takes the next bytes of the file. What follows a fault of the compression is left out.
    ///
    /// # Errors
    /// The file is no recording.
    pub fn feed(&mut self, bytes: &[u8]) -> Result<(), Error> {
        let Reader { recording, unpacker, lines, text } = self;
        let mut fault = Ok(());
        unpacker.feed(bytes, text, &mut |part| {
            if fault.is_ok() {
                fault = lines.feed(part, &mut |row| add_row(row, recording));
            }
        })?;
        fault
    }

    /// The file has ended; another may follow.
    ///
    /// # Errors
    /// The file is no recording.
    pub fn end_file(&mut self) -> Result<(), Error> {
        let Reader { recording, unpacker, lines, .. } = self;
        let mut fault = Ok(());
        let is_whole = unpacker.finish(&mut |part| {
            fault = lines.feed(part, &mut |row| add_row(row, recording));
        });
        fault?;
        let ended = lines.finish(is_whole, &mut |row| add_row(row, recording))?;
        recording.is_torn |= !is_whole || ended.is_torn;
        recording.lines_skipped += ended.lines_skipped;
        self.unpacker = Unpacker::default();
        self.lines = Lines::default();
        Ok(())
    }

    /// The recording of all files.
    ///
    /// # Errors
    /// There is no row.
    pub fn finish(mut self) -> Result<Recording, Error> {
        if self.recording.buckets.is_empty() && self.recording.xdp.is_empty() {
            return Err(Error::Empty);
        }
        self.recording.sort();
        Ok(self.recording)
    }
}

fn add_row(row: Row<'_>, recording: &mut Recording) {
    match row {
        Row::Head(key, value) => recording.head.push((key.to_owned(), value.to_owned())),
        Row::BucketColumns(columns) => recording.columns.join(columns),
        Row::XdpColumns(columns) => recording.xdp_columns.join(columns),
        Row::Bucket(row) => recording.push_bucket(row),
        Row::Xdp(row) => recording.push_xdp(row),
    }
}

/// Rows that a recording can hold: of CPUs, and of XDP counters.
pub const CAPACITY: (usize, usize) = (ROWS_MAX, XDP_ROWS_MAX);

#[cfg(test)]
mod tests;
