//! `alerts.json` and `alerts.log` of a folder: evidence and alerts about hosts, for programs and for people.

use crate::already_written::{AlreadyWritten, LinesKnownBy};
use crate::error::OutputError;
use crate::idmef;
use crate::line_file::LineFile;
use crate::output::{Destination, Format, Output, Piece, PieceKind, Pieces, Record};
use crate::output_kind::{Opened, Opening, OutputKind};
use crate::triage;
use gabion_record::eve::Wants;
use gabion_record::ledger::Ledger;
use std::path::Path;

/// Evidence and alerts as IDMEFv2.
pub(crate) const ALERTS_JSON: OutputKind =
    OutputKind::for_findings("alerts.json", |o| open(o, FindingJson, LinesKnownBy::Id));

/// Evidence and alerts as lines for people.
pub(crate) const ALERTS_LOG: OutputKind =
    OutputKind::for_findings("alerts.log", |o| open(o, FindingText::default(), LinesKnownBy::Text));

fn open(o: &mut Opening<'_>, format: impl Format + 'static, by: LinesKnownBy) -> Opened {
    let file = LineFile::create(o.files, &o.folder.join(o.name), o.existing)?;
    let earlier = AlreadyWritten::default();
    Ok(Some(Output::new(format, ResumedFile { file, earlier, by })))
}

/// Evidence and alerts about hosts, into a destination that takes their JSON.
pub fn output(to: impl Destination + 'static) -> Output {
    Output::new(FindingJson, to)
}

/// Findings as the line of JSON that all outputs share.
struct FindingJson;

impl Format for FindingJson {
    fn wants(&self) -> Wants {
        Wants { evidence: true, ..Wants::default() }
    }

    fn write_record(&mut self, record: &Record<'_>, to: &mut dyn Pieces) -> bool {
        if let Record::Evidence(r) = record {
            put(PieceKind::Finding(r.evidence.report_id), r.json, to);
        } else if let Record::HostAlert(r) = record {
            put(PieceKind::Finding(r.alert.id), r.json, to);
        }
        false
    }

    fn clone_for_worker(&self) -> Box<dyn Format> {
        Box::new(FindingJson)
    }
}

/// Findings as lines for people. What is faint ([`triage::is_faint`]) has none.
#[derive(Default)]
struct FindingText {
    line: Vec<u8>,
}

impl Format for FindingText {
    fn wants(&self) -> Wants {
        Wants { evidence: true, ..Wants::default() }
    }

    fn write_record(&mut self, record: &Record<'_>, to: &mut dyn Pieces) -> bool {
        self.line.clear();
        if let Record::Evidence(r) = record {
            if !triage::is_faint(r.evidence.kind.topic, r.evidence.confidence) {
                idmef::evidence_line(r.evidence, &mut self.line);
            }
        } else if let Record::HostAlert(r) = record {
            idmef::alert_line(r.alert, &mut self.line);
        }
        if !self.line.is_empty() {
            put(PieceKind::Line, &self.line, to);
        }
        false
    }

    fn clone_for_worker(&self) -> Box<dyn Format> {
        Box::new(FindingText::default())
    }
}

fn put(kind: PieceKind, bytes: &[u8], to: &mut dyn Pieces) {
    to.put(Piece { kind, bytes, later: &[] });
}

/// A file that continues where a run was cut off: what that run wrote is not written again.
struct ResumedFile {
    file: LineFile,
    earlier: AlreadyWritten,
    by: LinesKnownBy,
}

impl Destination for ResumedFile {
    fn write(&mut self, piece: &Piece<'_>) {
        if !self.earlier.has(self.by, piece.bytes) {
            self.file.write(piece);
        }
    }

    fn flush(&mut self) -> Result<(), OutputError> {
        Destination::flush(&mut self.file)
    }

    fn flush_lines(&mut self) {
        self.file.flush_lines();
    }

    fn reopen(&mut self) {
        self.file.reopen();
    }

    fn sync(&mut self) -> Result<Option<u64>, OutputError> {
        self.file.sync()
    }

    fn line_file(&self) -> Option<(&Path, &Ledger)> {
        self.file.line_file()
    }

    fn resume(&mut self, earlier: &AlreadyWritten) {
        self.earlier = earlier.known_by(self.by);
    }

    fn already_written(&self) -> Option<&AlreadyWritten> {
        Some(&self.earlier)
    }
}
