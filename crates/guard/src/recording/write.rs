//! Writes a recording: the same text that the reader reads.

use super::Error;
use super::columns::{Bucket, Column, Columns, XdpColumn, XdpColumns, XdpRow};
use std::io::Write;
use zstd::stream::raw::{Encoder, InBuffer, Operation, OutBuffer};

/// Writes the lines of the head. A line feed in a value would begin a row, so it becomes a space.
pub fn write_head(head: &[(&str, &str)], out: &mut Vec<u8>) {
    for (key, value) in head {
        let _ = writeln!(out, "# {key}={}", value.replace(['\n', '\r'], " "));
    }
}

/// Writes the line of column names of rows by CPU.
pub fn write_bucket_columns(columns: Columns, out: &mut Vec<u8>) {
    out.extend_from_slice(b"t_ms,cpu");
    for column in Column::ALL.iter().filter(|column| columns.has(**column)) {
        out.push(b',');
        out.extend_from_slice(column.name().as_bytes());
    }
    out.push(b'\n');
}

/// Writes a row by CPU.
pub fn write_bucket(row: &Bucket, columns: Columns, out: &mut Vec<u8>) {
    let _ = write!(out, "{},{}", Milliseconds(row.at_us), row.cpu);
    for column in Column::ALL.iter().filter(|column| columns.has(**column)) {
        out.push(b',');
        if let Some(value) = row.get(*column) {
            let _ = write!(out, "{value}");
        }
    }
    out.push(b'\n');
}

/// Writes the line of column names of XDP counters.
pub fn write_xdp_columns(columns: XdpColumns, out: &mut Vec<u8>) {
    out.extend_from_slice(b"t_ms");
    for column in XdpColumn::ALL.iter().filter(|column| columns.has(**column)) {
        out.push(b',');
        out.extend_from_slice(column.name().as_bytes());
    }
    out.push(b'\n');
}

/// Writes a row of XDP counters.
pub fn write_xdp(row: &XdpRow, columns: XdpColumns, out: &mut Vec<u8>) {
    let _ = write!(out, "{}", Milliseconds(row.at_us));
    for column in XdpColumn::ALL.iter().filter(|column| columns.has(**column)) {
        out.push(b',');
        if let Some(value) = row.get(*column) {
            let _ = write!(out, "{value}");
        }
    }
    out.push(b'\n');
}

/// Microseconds, written in milliseconds.
struct Milliseconds(u64);

impl std::fmt::Display for Milliseconds {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.0 % 1000 {
            0 => write!(f, "{}", self.0 / 1000),
            us => write!(f, "{}.{us:03}", self.0 / 1000),
        }
    }
}

/// Compresses a recording with zstd, in pieces of any size.
pub struct Packer {
    encoder: Encoder<'static>,
    part: Vec<u8>,
}

impl Packer {
    /// A packer at the begin of a file.
    ///
    /// # Errors
    /// The compression can't be set up.
    pub fn new() -> Result<Packer, Error> {
        let encoder = Encoder::new(3).map_err(Error::Pack)?;
        Ok(Packer { encoder, part: vec![0; 64 << 10] })
    }

    /// Compresses text, and adds what is ready to `out`.
    ///
    /// # Errors
    /// The compression fails.
    pub fn pack(&mut self, text: &[u8], out: &mut Vec<u8>) -> Result<(), Error> {
        let mut input = InBuffer::around(text);
        while input.pos() < text.len() {
            let mut output = OutBuffer::around(&mut self.part[..]);
            self.encoder.run(&mut input, &mut output).map_err(Error::Pack)?;
            let written = output.pos();
            out.extend_from_slice(self.part.get(..written).unwrap_or_default());
        }
        Ok(())
    }

    /// Adds all that is held to `out`, so that a reader of the file so far finds every row.
    ///
    /// # Errors
    /// The compression fails.
    pub fn flush(&mut self, out: &mut Vec<u8>) -> Result<(), Error> {
        loop {
            let mut output = OutBuffer::around(&mut self.part[..]);
            let left = self.encoder.flush(&mut output).map_err(Error::Pack)?;
            let written = output.pos();
            out.extend_from_slice(self.part.get(..written).unwrap_or_default());
            if left == 0 {
                return Ok(());
            }
        }
    }

    /// Ends the file.
    ///
    /// # Errors
    /// The compression fails.
    pub fn finish(mut self, out: &mut Vec<u8>) -> Result<(), Error> {
        loop {
            let mut output = OutBuffer::around(&mut self.part[..]);
            let left = self.encoder.finish(&mut output, true).map_err(Error::Pack)?;
            let written = output.pos();
            out.extend_from_slice(self.part.get(..written).unwrap_or_default());
            if left == 0 {
                return Ok(());
            }
        }
    }
}
