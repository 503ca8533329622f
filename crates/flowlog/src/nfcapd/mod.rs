//! nfdump's binary files (`nfcapd.*`), of layout 1 (nfdump 1.6) and 2 (1.7), as rows of text.
//!
//! A file is a header and blocks; a block is compressed (LZO, LZ4, bzip2, Zstandard) or plain, and holds records
//! ([`mod@record`]). [`Rows`] reads one block at a time and gives a row for each flow, and for each record that can't
//! be read a row that names why, so that a binary file is read, sorted, followed and counted as a text is. A block that
//! can't be decompressed costs its own records; the next one follows it.
//!
//! Sources: the layout that nfdump 1.7.1 writes and reads, and the descriptions in its headers.

mod bytes;
mod bzip2;
mod lzo;
mod record;
#[cfg(test)]
mod tests;

use crate::field;
use crate::limits::{BLOCK_MAX, CHUNK, UNREAD_RECORDS_MAX};
use crate::skip::Skip;
use bytes::{byte, short, word};
use gabion_record::logs::{Body, Conn, ConnState, Label, Proto, Record, TimeNs};
use gabion_record::{Ip, IpProto};
use record::{Flow, Found, Maps};
use std::io::{self, Read, Write};

/// The line before all rows.
pub(crate) const HEADER: &[u8] =
    b"nfcapd: start,duration,proto,src,sp,dst,dp,flags,ipkt,ibyt,opkt,obyt";

/// An answer of RST and ACK and nothing else.
pub(crate) fn is_refused(flags: &[u8]) -> bool {
    flags.contains(&b'R') && !flags.iter().any(|b| matches!(b, b'P' | b'S' | b'F'))
}

/// Whether a file begins so.
pub(crate) fn is_binary(first: &[u8]) -> bool {
    matches!(first, [0x0c, 0xa5, 0..=15, 0] | [0xa5, 0x0c, 0, 0..=15])
}

/// How a file's blocks are compressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Packing {
    Plain,
    Lzo,
    Bzip2,
    Lz4,
    Zstd,
}

/// What is read next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Next {
    /// The first bytes of the file, which say how long its header is.
    Begin,
    /// The header of layout 1 or 2.
    Header(u16),
    /// What comes before a block.
    Block,
    /// A block of this many bytes and records.
    Body { len: usize, records: u32, kind: u16, is_plain: bool },
    /// Nothing: the file has ended.
    End,
}

/// The rows of a file.
pub(crate) struct Rows<R> {
    from: R,
    next: Next,
    layout: u16,
    packing: Packing,
    /// What has come of what is read next.
    raw: Vec<u8>,
    /// The block under way, unpacked; where its next record begins, and how many it should have.
    block: Vec<u8>,
    at: usize,
    records: u32,
    maps: Maps,
    /// Rows that were made and not given out.
    rows: Vec<u8>,
    given: usize,
    /// The error that ended the reading, reported after the rows.
    failed: Option<io::Error>,
}

fn refused(why: &str) -> io::Error {
    io::Error::other(format!("a binary file of nfdump {why}"))
}

impl<R: Read> Rows<R> {
    /// Of a stream that begins as such files do.
    pub(crate) fn new(from: R) -> Rows<R> {
        let mut rows = HEADER.to_vec();
        rows.push(b'\n');
        Rows {
            from,
            next: Next::Begin,
            layout: 0,
            packing: Packing::Plain,
            raw: Vec::new(),
            block: Vec::new(),
            at: 0,
            records: 0,
            maps: Maps::default(),
            rows,
            given: 0,
            failed: None,
        }
    }

    /// The stream.
    pub(crate) fn get_ref(&self) -> &R {
        &self.from
    }

    /// Reads until this many bytes are there; false if the stream ends before.
    fn fill(&mut self, wanted: usize) -> io::Result<bool> {
        while self.raw.len() < wanted {
            // No room is taken for what a length only claims.
            let room = (wanted - self.raw.len()).min(CHUNK) as u64;
            let read = (&mut self.from).take(room).read_to_end(&mut self.raw)?;
            if (read as u64) < room {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Reads the next piece; false at the end of the file.
    fn step(&mut self) -> io::Result<bool> {
        let wanted = match self.next {
            Next::Begin => 4,
            Next::Header(1) => 276,
            Next::Header(_) => 40,
            Next::Block => 12,
            Next::Body { len, .. } => len,
            Next::End => return Ok(false),
        };
        if !self.fill(wanted)? {
            if self.next == Next::Block && self.raw.is_empty() {
                self.next = Next::End;
                return Ok(false);
            }
            let have = self.raw.len();
            let said =
                format!("ends too early: {have} of {wanted} bytes of its last part are there");
            if let Next::Body { records, .. } = self.next {
                self.unread(Skip::BadBlock, records, have);
            }
            self.next = Next::End;
            self.raw.clear();
            return Err(refused(&said));
        }
        match self.next {
            Next::Begin => self.begin()?,
            Next::Header(_) => self.header()?,
            Next::Block => {
                self.block_begins()?;
                self.raw.clear();
            }
            Next::Body { records, kind, is_plain, .. } => {
                self.unpack(records, kind, is_plain);
                self.raw.clear();
                self.next = Next::Block;
            }
            Next::End => {}
        }
        Ok(true)
    }

    fn begin(&mut self) -> io::Result<()> {
        if byte(&self.raw, 0) == Some(0xa5) {
            self.next = Next::End;
            return Err(refused(
                "whose bytes are in the other order: write it again where it was made, as CSV: \
                 nfdump -r FILE -o csv",
            ));
        }
        self.layout = short(&self.raw, 2).unwrap_or(0);
        if !(1..=2).contains(&self.layout) {
            let said = format!(
                "of layout {}; 1 and 2 can be read: write it as CSV: nfdump -r FILE -o csv",
                self.layout
            );
            self.next = Next::End;
            return Err(refused(&said));
        }
        self.next = Next::Header(self.layout);
        Ok(())
    }

    fn header(&mut self) -> io::Result<()> {
        let (packing, is_encrypted) = if self.layout == 1 {
            let flags = word(&self.raw, 4).unwrap_or(0);
            let packing = match (flags & 1, flags & 8, flags & 16) {
                (0, 0, 0) => Some(Packing::Plain),
                (1, _, _) => Some(Packing::Lzo),
                (_, 8, _) => Some(Packing::Bzip2),
                _ => Some(Packing::Lz4),
            };
            (packing, false)
        } else {
            let packing = match byte(&self.raw, 16) {
                Some(0) => Some(Packing::Plain),
                Some(1) => Some(Packing::Lzo),
                Some(2) => Some(Packing::Bzip2),
                Some(3) => Some(Packing::Lz4),
                Some(4) => Some(Packing::Zstd),
                _ => None,
            };
            (packing, byte(&self.raw, 17) != Some(0))
        };
        self.raw.clear();
        self.next = Next::Block;
        let why = match packing {
            _ if is_encrypted => "that is encrypted: write it as CSV: nfdump -r FILE -o csv",
            None => "packed in a way that is not known: write it as CSV: nfdump -r FILE -o csv",
            Some(packing) => {
                self.packing = packing;
                return Ok(());
            }
        };
        self.next = Next::End;
        Err(refused(why))
    }

    fn block_begins(&mut self) -> io::Result<()> {
        let raw = &self.raw;
        let records = word(raw, 0).unwrap_or(0);
        let len = word(raw, 4).and_then(|l| usize::try_from(l).ok()).unwrap_or(usize::MAX);
        let (kind, flags) = (short(raw, 8).unwrap_or(0), short(raw, 10).unwrap_or(0));
        if len > BLOCK_MAX {
            self.unread(Skip::BadBlock, records, BLOCK_MAX);
            self.next = Next::End;
            return Err(refused(&format!(
                "with a block of {len} bytes, which none is: it is damaged"
            )));
        }
        self.next = Next::Body { len, records, kind, is_plain: flags & 1 == 1 };
        Ok(())
    }

    /// Takes the block that has come.
    fn unpack(&mut self, records: u32, kind: u16, is_plain: bool) {
        self.block.clear();
        (self.at, self.records) = (0, 0);
        // Other blocks of these layouts hold histograms and tables of names.
        match (self.layout, kind) {
            (1, 2) | (2, 3) => {}
            (1, 3) | (2, 4) => return,
            _ => return self.unread(Skip::UnknownBlock, records, self.raw.len()),
        }
        let (raw, out) = (&self.raw, &mut self.block);
        let is_unpacked = match self.packing {
            _ if is_plain => {
                out.extend_from_slice(raw);
                true
            }
            Packing::Plain => {
                out.extend_from_slice(raw);
                true
            }
            Packing::Lzo => lzo::unpack(raw, BLOCK_MAX, out).is_ok(),
            Packing::Bzip2 => bzip2::unpack(raw, BLOCK_MAX, out).is_ok(),
            Packing::Lz4 => lz4(raw, out),
            Packing::Zstd => zstd(raw, out).is_some(),
        };
        if is_unpacked {
            self.records = records;
        } else {
            self.block.clear();
            self.unread(Skip::BadBlock, records, self.raw.len());
        }
    }

    /// A row for each of `records` records that can't be read. Their number is only claimed: each takes a byte at least.
    fn unread(&mut self, why: Skip, records: u32, bytes: usize) {
        let most = u32::try_from(bytes).unwrap_or(u32::MAX).clamp(1, UNREAD_RECORDS_MAX);
        for _ in 0..records.clamp(1, most) {
            skipped(&mut self.rows, why);
        }
    }

    /// Makes the row of the block's next record; false at its end.
    fn row(&mut self) -> bool {
        let rest = self.block.get(self.at..).unwrap_or_default();
        if rest.is_empty() {
            return false;
        }
        let len = short(rest, 2).map_or(0, usize::from);
        let record = match rest.get(..len) {
            Some(record) if len >= 4 => record,
            _ => {
                // Where the next one begins is not known.
                let bytes = rest.len();
                self.at = self.block.len();
                self.unread(Skip::BadRecord, self.records, bytes);
                return false;
            }
        };
        self.at += len;
        self.records = self.records.saturating_sub(1);
        let (found, is_odd) = record::parse_record(record, &mut self.maps);
        match found {
            Found::Flow(flow) => write_row(&mut self.rows, &flow),
            Found::Nothing => {}
            Found::Skip(skip) => skipped(&mut self.rows, skip),
        }
        if is_odd {
            skipped(&mut self.rows, Skip::UnknownExtension);
        }
        true
    }
}

impl<R: Read> Read for Rows<R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        loop {
            let mut left = self.rows.get(self.given..).unwrap_or_default();
            if !left.is_empty() {
                let n = left.read(into)?;
                self.given += n;
                return Ok(n);
            }
            self.rows.clear();
            self.given = 0;
            if let Some(e) = self.failed.take() {
                return Err(e);
            }
            while self.rows.len() < CHUNK && self.row() {}
            if !self.rows.is_empty() {
                continue;
            }
            match self.step() {
                Ok(true) => {}
                Ok(false) => return Ok(0),
                Err(e) if self.rows.is_empty() => return Err(e),
                Err(e) => self.failed = Some(e),
            }
        }
    }
}

/// LZ4 says nothing of how much there is: room grows until it is enough.
fn lz4(raw: &[u8], out: &mut Vec<u8>) -> bool {
    // No byte stands for more than 255.
    let most = raw.len().saturating_mul(255).saturating_add(64).min(BLOCK_MAX);
    let mut room = raw.len().saturating_mul(4).clamp(64, BLOCK_MAX);
    loop {
        out.resize(room, 0);
        match lz4_flex::block::decompress_into(raw, out) {
            Ok(len) => {
                out.truncate(len);
                return true;
            }
            Err(lz4_flex::block::DecompressError::OutputTooSmall { .. }) if room < most => {
                room = room.saturating_mul(4).min(most);
            }
            Err(_) => return false,
        }
    }
}

fn zstd(raw: &[u8], out: &mut Vec<u8>) -> Option<()> {
    let mut decoder = zstd::stream::read::Decoder::with_buffer(raw).ok()?;
    // A window larger than a block has no use.
    decoder.window_log_max(BLOCK_MAX.ilog2()).ok()?;
    let most = BLOCK_MAX as u64;
    decoder.take(most + 1).read_to_end(out).ok()?;
    (out.len() <= BLOCK_MAX).then_some(())
}

/// What begins a row that says why there is none.
const SKIPPED: u8 = b'!';

fn skipped(rows: &mut Vec<u8>, why: Skip) {
    rows.push(SKIPPED);
    rows.extend_from_slice(why.name().as_bytes());
    rows.push(b'\n');
}

/// Flags of TCP as nfdump shows them.
const FLAGS: &[u8; 8] = b"CEUAPRSF";

fn write_row(rows: &mut Vec<u8>, flow: &Flow) {
    const MS: u64 = 1_000_000;
    let Some(start) = flow.first.checked_mul(MS).filter(|t| i64::try_from(*t).is_ok()) else {
        return skipped(rows, Skip::NoTime);
    };
    let lasted = flow.last.saturating_sub(flow.first).checked_mul(MS);
    let lasted = lasted.and_then(|ns| i64::try_from(ns).ok()).unwrap_or(0);
    let mut flags = [b'.'; 8];
    for (n, (shown, flag)) in flags.iter_mut().zip(FLAGS).enumerate() {
        if flow.tcp_flags << n & 0x80 != 0 {
            *shown = *flag;
        }
    }
    let (src_port, dst_port) = if Proto::from_ip(IpProto(flow.proto)).is_icmp() {
        (flow.dst_port >> 8, flow.dst_port & 0xff)
    } else {
        (flow.src_port, flow.dst_port)
    };
    // Numbers of rows have 19 digits at most.
    let number = |n: u64| n.min(i64::MAX.cast_unsigned());
    let Flow { proto, src, dst, .. } = flow;
    let (packets, bytes) = (number(flow.packets), number(flow.bytes));
    let flags = std::str::from_utf8(&flags).unwrap_or_default();
    // Into memory, which does not fail.
    let _ = write!(
        rows,
        "{start},{lasted},{proto},{src},{src_port},{dst},{dst_port},{flags},{packets},{bytes},"
    );
    let _ = match flow.back {
        Some([packets, bytes]) => writeln!(rows, "{},{}", number(packets), number(bytes)),
        None => writeln!(rows, ","),
    };
}

/// The moment of a row.
///
/// # Errors
/// Why it is none.
pub(crate) fn time(row: &[u8]) -> Result<TimeNs, Skip> {
    if let Some((&SKIPPED, why)) = row.split_first() {
        let known = Skip::ALL.iter().copied().find(|skip| skip.name().as_bytes() == why);
        return Err(known.unwrap_or(Skip::NotALog));
    }
    let start = row.split(|b| *b == b',').next().and_then(field::number).ok_or(Skip::NotALog)?;
    i64::try_from(start).map(TimeNs).map_err(|_| Skip::NoTime)
}

/// The record of a row.
///
/// # Errors
/// What is wrong with it.
pub(crate) fn record(row: &[u8]) -> Result<Record<'_>, Skip> {
    let ts = time(row)?;
    let mut columns = row.split(|b| *b == b',').skip(1);
    let mut next = || columns.next().ok_or(Skip::CutShort);
    let number = |text: &[u8]| field::number(text).ok_or(Skip::CutShort);
    let duration = number(next()?)?;
    let proto = u8::try_from(number(next()?)?).map_or(Proto::Other, |n| Proto::from_ip(IpProto(n)));
    let src = Ip::parse(next()?).ok_or(Skip::NoAddress)?;
    let src_port = field::port(next()?);
    let dst = Ip::parse(next()?).ok_or(Skip::NoAddress)?;
    let dst_port = field::port(next()?);
    let flags = next()?;
    let (orig_pkts, orig_bytes) = (number(next()?)?, number(next()?)?);
    let (resp_pkts, resp_bytes) = (field::number(next()?), field::number(next()?));
    // A record of one direction can't show whether somebody answered, and its source is not blamed.
    let is_established = if proto == Proto::Tcp {
        flags.contains(&b'A') && !is_refused(flags)
    } else {
        resp_pkts != Some(0)
    };
    Ok(Record {
        ts,
        src,
        dst,
        src_port,
        dst_port,
        proto,
        uid: &[],
        label: Label::default(),
        is_late: false,
        body: Body::Conn(Conn {
            duration_ns: i64::try_from(duration).unwrap_or(0),
            orig_bytes,
            resp_bytes: resp_bytes.unwrap_or(0),
            orig_pkts,
            resp_pkts: resp_pkts.unwrap_or(0),
            state: ConnState::from_text(flags),
            is_established,
            ..Conn::default()
        }),
    })
}
