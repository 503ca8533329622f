//! The file store: content of files in a folder, by its hash, and the record of each next to it.

use crate::error::OutputError;
use crate::eve::{EveSettings, EveWriter};
use crate::event_counts::EventCounts;
use crate::output::{
    Destination, FileRecordHead, Format, Output, Piece, PieceKind, Pieces, Record,
};
use crate::output_kind::{Opened, Opening, OutputKind};
use gabion_record::Tree;
use gabion_record::eve::{FileChunk, Wants};
use gabion_record::hex::to_hex;
use gabion_record::ledger::{Ledger, ShedReason};
use gabion_runtime::output::{make_store_folder, write_whole};
use std::path::{Path, PathBuf};
use std::sync::Arc;

pub(crate) const KIND: OutputKind = OutputKind::new("file-store", open);

fn open(o: &mut Opening<'_>) -> Opened {
    if o.node.number("version") != Some(2) {
        return Err(OutputError::FileStoreVersion);
    }
    let folder = o.below(o.node.text("dir").unwrap_or("filestore"));
    make_store_folder(&folder)
        .map_err(|e| OutputError::NotMade { path: folder.clone(), source: Arc::new(e) })?;
    let with_records = o.node.flag("write-fileinfo").unwrap_or(false);
    let format = FileStore::new(folder.clone(), with_records, read_wants(o.node));
    Ok(Some(Output::new(format, FileRecords { folder, failed: 0 })))
}

fn read_wants(node: &Tree) -> Wants {
    let mut wants = Wants {
        file_store: true,
        store_all_files: node.flag("force-filestore") == Some(true),
        sha256: true,
        magic: node.flag("force-magic") == Some(true),
        ..Wants::default()
    };
    let forced = node.child("force-hash").map(|t| t.children.as_slice());
    for (_, hash) in forced.unwrap_or(&[]) {
        match hash.value.as_deref() {
            Some("md5") => wants.md5 = true,
            Some("sha1") => wants.sha1 = true,
            _ => {}
        }
    }
    wants
}

/// Writes the content of files. That needs no order, since their names are their hashes: each worker does it.
#[derive(Debug)]
struct FileStore {
    folder: PathBuf,
    record: Option<Box<EveWriter>>,
    wants: Wants,
    ledger: Ledger,
}

impl FileStore {
    fn new(folder: PathBuf, with_records: bool, wants: Wants) -> FileStore {
        let record = with_records.then(|| Box::new(EveWriter::new(EveSettings::files_only())));
        FileStore { folder, record, wants, ledger: Ledger::default() }
    }

    /// Writes one file: `ab/abcdef…` of its SHA-256. Its record is passed on: its number is known only in the order
    /// of all records.
    fn store(&mut self, r: &FileChunk<'_>, to: &mut dyn Pieces) -> std::io::Result<()> {
        let file = &r.record.file;
        let Some(sha256) = file.sha256 else { return Ok(()) };
        let path = path_of(&self.folder, &sha256, "");
        make_store_folder(path.parent().unwrap_or(&self.folder))?;
        if !path.exists() {
            write_whole(&path, r.bytes)?;
        }
        let (Some(record), Some(file)) = (self.record.as_mut(), file.file_id) else {
            return Ok(());
        };
        let seconds = r.record.header.ts_ns / 1_000_000_000;
        if let Some(line) = record.file(&r.record) {
            let head = FileRecordHead { sha256, seconds, file, number: 0 };
            to.put(Piece { kind: PieceKind::FileRecord(head), ..line });
        }
        Ok(())
    }
}

/// Where the content of that hash lies, or what belongs to it.
fn path_of(folder: &Path, sha256: &[u8; 32], end: &str) -> PathBuf {
    let name = to_hex(sha256);
    folder.join(name.get(..2).unwrap_or_default()).join(name + end)
}

impl Format for FileStore {
    fn wants(&self) -> Wants {
        self.wants
    }

    fn write_record(&mut self, record: &Record<'_>, to: &mut dyn Pieces) -> bool {
        let Record::FileChunk(r) = record else { return false };
        let len = r.bytes.len() as u64;
        self.ledger.receive(1, len);
        match self.store(r, to) {
            Ok(()) => self.ledger.pass(1, len),
            Err(_) => self.ledger.shed(ShedReason::OutputFailed, 1, len),
        }
        false
    }

    fn clone_for_worker(&self) -> Box<dyn Format> {
        Box::new(FileStore::new(self.folder.clone(), self.record.is_some(), self.wants))
    }

    fn add_counts(&self, counts: &mut EventCounts) {
        counts.store.merge(&self.ledger);
    }

    fn counters(&self, counts: &EventCounts) -> Vec<(&'static str, u64)> {
        vec![
            ("file_store.open_files_max_hit", 0),
            ("file_store.fs_errors", counts.store.shed_total().items),
            ("file_store.open_files", 0),
        ]
    }
}

/// Writes the record of each stored file into a file next to it: `abcdef….SECONDS.NUMBER.json`.
struct FileRecords {
    folder: PathBuf,
    failed: u64,
}

impl Destination for FileRecords {
    fn write(&mut self, piece: &Piece<'_>) {
        let PieceKind::FileRecord(FileRecordHead { sha256, seconds, number, .. }) = piece.kind
        else {
            return;
        };
        let path = path_of(&self.folder, &sha256, &format!(".{seconds}.{number}.json"));
        self.failed += u64::from(write_whole(&path, piece.bytes).is_err());
    }

    fn add_counts(&self, counts: &mut EventCounts) {
        counts.store.receive(self.failed, 0);
        counts.store.shed(ShedReason::OutputFailed, self.failed, 0);
    }
}
