//! `tcp-data` and `http-body-data`: the bytes of TCP streams and of HTTP's bodies, as they are reassembled and decoded, in one
//! file for people, in a file of each direction, or in both (`type: file`, `dir`, `both`), as Suricata 8.0.7 writes
//! them (observed).

use super::hex_dump::write_hex_dump;
use crate::error::OutputError;
use crate::event_counts::EventCounts;
use crate::line_file::LineFile;
use crate::output::{
    Destination, Format, Output, Piece, PieceKind, Pieces, Record, StreamBytesHead,
};
use crate::output_kind::{Opened, Opening, OutputKind};
use gabion_record::Direction;
use gabion_record::eve::{StreamDataRecord, Wants};
use gabion_record::files::FileOpener;
use gabion_record::ledger::{Ledger, ShedReason};
use gabion_runtime::output::{Existing, OutputFile};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;

pub(crate) const TCP: OutputKind =
    OutputKind::new("tcp-data", |o| open(o, false)).with_file("tcp-data.log");
pub(crate) const HTTP: OutputKind =
    OutputKind::new("http-body-data", |o| open(o, true)).with_file("http-data.log");

fn open(o: &mut Opening<'_>, is_of_bodies: bool) -> Opened {
    let kind = o.node.text("type").unwrap_or("file");
    let (has_file, has_folder) = (matches!(kind, "file" | "both"), matches!(kind, "dir" | "both"));
    let default = if is_of_bodies { "http-data.log" } else { "tcp-data.log" };
    let folder = default.trim_end_matches("-data.log");
    let lines = has_file.then(|| o.line_file(default)).transpose()?;
    let folder = has_folder.then(|| o.folder.join(folder));
    if let Some(folder) = &folder {
        gabion_runtime::output::make_folder(folder)
            .map_err(|e| OutputError::NotMade { path: folder.clone(), source: Arc::new(e) })?;
    }
    let format = StreamTexts { is_of_bodies, has_file, has_folder };
    Ok(Some(Output::new(format, StreamFiles { lines, folder, files: o.files.clone(), failed: 0 })))
}

/// Makes pieces of the bytes of streams.
#[derive(Clone, Copy, Debug)]
struct StreamTexts {
    is_of_bodies: bool,
    has_file: bool,
    has_folder: bool,
}

/// `CLIENT_PORT-SERVER_PORT`, with `middle` between it and the direction.
fn name_of(r: &StreamDataRecord<'_>, middle: &str) -> Vec<u8> {
    let h = &r.header;
    let (client, server) = h.ports.unwrap_or_default();
    let mut name = Vec::new();
    h.src.write(h.ip_version, &mut name);
    name.extend_from_slice(format!("_{client}-").as_bytes());
    h.dst.write(h.ip_version, &mut name);
    let side = if r.direction == Direction::ToServer { "ts" } else { "tc" };
    name.extend_from_slice(format!("_{server}-{middle}{side}").as_bytes());
    name
}

impl Format for StreamTexts {
    fn wants(&self) -> Wants {
        let is = self.is_of_bodies;
        Wants { stream_data: !is, body_data: is, bodies: is, file_data: is, ..Wants::default() }
    }

    fn write_record(&mut self, record: &Record<'_>, to: &mut dyn Pieces) -> bool {
        let Record::StreamData(r) = record else { return false };
        if r.tx_id.is_some() != self.is_of_bodies {
            return false;
        }
        if self.has_file {
            let mut text = name_of(r, "");
            text.extend_from_slice(b":\n");
            write_hex_dump(r.bytes, &mut text);
            to.put(Piece::line(&text));
        }
        if self.has_folder {
            let tx = r.tx_id.map_or_else(String::new, |id| id.to_string());
            let mut named = name_of(r, &format!("{tx}-"));
            named.extend_from_slice(b".data");
            let kind = PieceKind::StreamBytes(StreamBytesHead { name_len: named.len() });
            named.extend_from_slice(r.bytes);
            to.put(Piece { kind, bytes: &named, later: &[] });
        }
        false
    }

    fn clone_for_worker(&self) -> Box<dyn Format> {
        Box::new(*self)
    }
}

/// The file of all streams, and the folder with files of their own.
#[derive(Debug)]
struct StreamFiles {
    lines: Option<LineFile>,
    folder: Option<PathBuf>,
    files: FileOpener,
    /// Pieces that could not be written into files of their own.
    failed: u64,
}

impl StreamFiles {
    /// Adds bytes to the file of a direction. It is opened for each piece: there are as many files as streams.
    fn append(&mut self, head: StreamBytesHead, bytes: &[u8]) {
        let Some(folder) = &self.folder else { return };
        let Some((name, bytes)) = bytes.split_at_checked(head.name_len) else { return };
        let path = folder.join(&*String::from_utf8_lossy(name));
        let written = OutputFile::open(&self.files, &path, Existing::Append)
            .and_then(|opened| opened.file().write_all(bytes));
        self.failed += u64::from(written.is_err());
    }
}

impl Destination for StreamFiles {
    fn write(&mut self, piece: &Piece<'_>) {
        match (piece.kind, &mut self.lines) {
            (PieceKind::StreamBytes(head), _) => self.append(head, piece.bytes),
            (_, Some(lines)) => lines.write(piece),
            (_, None) => {}
        }
    }

    fn flush(&mut self) -> Result<(), OutputError> {
        self.lines.as_mut().map_or(Ok(()), Destination::flush)
    }

    fn flush_lines(&mut self) {
        self.lines.iter_mut().for_each(Destination::flush_lines);
    }

    fn reopen(&mut self) {
        self.lines.iter_mut().for_each(Destination::reopen);
    }

    fn line_file(&self) -> Option<(&Path, &Ledger)> {
        self.lines.as_ref().and_then(Destination::line_file)
    }

    fn add_counts(&self, counts: &mut EventCounts) {
        counts.store.receive(self.failed, 0);
        counts.store.shed(ShedReason::OutputFailed, self.failed, 0);
    }
}
