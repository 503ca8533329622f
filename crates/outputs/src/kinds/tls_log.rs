//! `tls.log`: one line a TLS session, as Suricata 8.0.7 writes it (observed): the short form, the extended one, and one
//! of the configuration's own.

use super::text_format::{LineFormat, write_ends};
use crate::output::{Format, Output, Piece, Pieces, Record};
use crate::output_kind::{Opened, Opening, OutputKind};
use gabion_record::TxText;
use gabion_record::applayer::LineLog;
use gabion_record::eve::{AppRecord, Wants};

pub(crate) const KIND: OutputKind = OutputKind::new("tls-log", open).with_file("tls.log");

fn open(o: &mut Opening<'_>) -> Opened {
    let file = o.line_file("tls.log")?;
    Ok(Some(Output::new(
        TlsLog { format: LineFormat::from_config(o.node), line: Vec::new() },
        file,
    )))
}

/// The members of a line by their names. Suricata 8.0.7 leaves the serial number empty; here it stands.
const SHORT: [(&str, TxText<'_>); 3] =
    [("Subject", TxText::Subject), ("Issuerdn", TxText::Issuer), ("Session", TxText::Resumed)];
const EXTENDED: [(&str, TxText<'_>); 4] = [
    ("SHA1", TxText::Fingerprint),
    ("SNI", TxText::ServerName),
    ("SERIAL", TxText::Serial),
    ("VERSION", TxText::Version),
];
const VALIDITY: [(&str, TxText<'_>); 2] =
    [("NOTBEFORE", TxText::NotBefore), ("NOTAFTER", TxText::NotAfter)];

/// Writes lines of `tls.log`.
#[derive(Clone, Debug, Default)]
struct TlsLog {
    format: LineFormat,
    line: Vec<u8>,
}

impl TlsLog {
    /// The line of a session.
    fn session(&mut self, r: &AppRecord<'_>) -> &[u8] {
        let TlsLog { format, line } = self;
        line.clear();
        let write = |letter: char, _: &str, out: &mut Vec<u8>| write_field(letter, r, out);
        if !format.write_custom(&r.header, &write, line) {
            format.write_time(&r.header, line);
            write_ends(&r.header, line);
            line.extend_from_slice(b"  TLS:");
            write_members(r, format.is_extended, line);
        }
        line.push(b'\n');
        line
    }
}

/// Whether anything of the session was seen; all that are shown have a version.
fn is_shown(r: &AppRecord<'_>) -> bool {
    let mut is_shown = false;
    r.object.text(TxText::Version, &mut |_| is_shown = true);
    is_shown
}

fn write_members(r: &AppRecord<'_>, is_extended: bool, out: &mut Vec<u8>) {
    let mut has_certificate = false;
    r.object.text(TxText::Subject, &mut |_| has_certificate = true);
    let extended = EXTENDED.iter().chain(VALIDITY.iter().filter(|_| has_certificate));
    for (name, part) in SHORT.iter().chain(extended.filter(|_| is_extended)) {
        r.object.text(*part, &mut |text| {
            let text = if *part == TxText::Resumed { b"resumed" } else { text };
            out.extend_from_slice(format!(" {name}='").as_bytes());
            write_line_of(text, out);
            out.push(b'\'');
        });
    }
}

/// Writes text of a certificate: what would end the line, or is no text, is escaped.
fn write_line_of(text: &[u8], out: &mut Vec<u8>) {
    for b in text {
        match b {
            0..b' ' | 0x7f => out.extend_from_slice(format!("\\x{b:02X}").as_bytes()),
            _ => out.push(*b),
        }
    }
}

/// Writes a field of a configuration's format; false if this output has no such letter.
fn write_field(letter: char, r: &AppRecord<'_>, out: &mut Vec<u8>) -> bool {
    let (part, name) = match letter {
        'v' => (TxText::Version, "VERSION"),
        'd' => (TxText::NotBefore, "NOTBEFORE"),
        'D' => (TxText::NotAfter, "NOTAFTER"),
        'n' => (TxText::ServerName, ""),
        's' => (TxText::Subject, ""),
        'i' => (TxText::Issuer, ""),
        'f' => (TxText::Fingerprint, ""),
        _ => return false,
    };
    let mut is_there = false;
    r.object.text(part, &mut |text| {
        is_there = true;
        if name.is_empty() {
            write_line_of(text, out);
        } else {
            out.extend_from_slice(format!("{name}='").as_bytes());
            write_line_of(text, out);
            out.push(b'\'');
        }
    });
    if !is_there {
        out.push(b'-');
    }
    true
}

impl Format for TlsLog {
    fn wants(&self) -> Wants {
        Wants { app: true, ..Wants::default() }
    }

    fn logs_transactions(&self, _: &str, line_log: Option<LineLog>) -> bool {
        line_log == Some(LineLog::Tls)
    }

    fn write_record(&mut self, record: &Record<'_>, to: &mut dyn Pieces) -> bool {
        if let Record::App(r) = record
            && r.line_log == Some(LineLog::Tls)
            && is_shown(r)
        {
            to.put(Piece::line(self.session(r)));
        }
        false
    }

    fn clone_for_worker(&self) -> Box<dyn Format> {
        Box::new(self.clone())
    }
}
