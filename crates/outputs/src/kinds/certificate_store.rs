//! The certificate store: a PEM file with the chain, and a text file that names the flow and the certificate.

use crate::error::OutputError;
use crate::event_counts::EventCounts;
use crate::output::{
    CertificatesHead, Destination, Format, Output, Piece, PieceKind, Pieces, Record,
};
use crate::output_kind::{Opened, Opening, OutputKind};
use crate::timestamp::Stamp;
use gabion_record::applayer::LineLog;
use gabion_record::eve::{CertificateRecord, InputName, Wants};
use gabion_record::json::base64_into;
use gabion_record::ledger::ShedReason;
use gabion_runtime::output::{make_store_folder, write_whole};
use std::io::Write;
use std::path::PathBuf;
use std::sync::Arc;

/// Characters of base64 in a line of PEM (RFC 7468).
const LINE: usize = 64;

pub(crate) const KIND: OutputKind = OutputKind::new("tls-store", open);

fn open(o: &mut Opening<'_>) -> Opened {
    let folder = o.folder.join(o.node.text("certs-log-dir").unwrap_or("."));
    make_store_folder(&folder)
        .map_err(|e| OutputError::NotMade { path: folder.clone(), source: Arc::new(e) })?;
    let to = CertificateFolder { folder, stored: 0, failed: 0 };
    Ok(Some(Output::new(CertificateTexts::new(), to)))
}

/// The folder of a certificate store. Chains are numbered in the order in which they come.
#[derive(Debug)]
struct CertificateFolder {
    folder: PathBuf,
    stored: u64,
    /// Chains that could not be written.
    failed: u64,
}

impl Destination for CertificateFolder {
    /// Writes `[client-]SECONDS.MICROSECONDS-NUMBER.pem` and `.meta`, as Suricata names them.
    fn write(&mut self, piece: &Piece<'_>) {
        let PieceKind::Certificates(head) = piece.kind else { return };
        self.stored += 1;
        let side = if head.is_client { "client-" } else { "" };
        let (s, us) = (head.ts_ns / 1_000_000_000, head.ts_ns % 1_000_000_000 / 1000);
        let name = format!("{side}{s}.{us:06}-{}", self.stored);
        let (pem, meta) = piece.bytes.split_at_checked(head.pem_len).unwrap_or_default();
        let pem = write_whole(&self.folder.join(format!("{name}.pem")), pem);
        let meta = write_whole(&self.folder.join(format!("{name}.meta")), meta);
        self.failed += u64::from(pem.and(meta).is_err());
    }

    fn add_counts(&self, counts: &mut EventCounts) {
        counts.store.receive(self.failed, 0);
        counts.store.shed(ShedReason::OutputFailed, self.failed, 0);
    }
}

/// Makes the texts of chains.
#[derive(Debug)]
struct CertificateTexts {
    stamp: Stamp,
    /// Frames of an interface have no place in a capture.
    is_of_interface: bool,
}

impl Format for CertificateTexts {
    fn wants(&self) -> Wants {
        Wants { certificates: true, ..Wants::default() }
    }

    fn logs_transactions(&self, _: &str, line_log: Option<LineLog>) -> bool {
        line_log == Some(LineLog::Tls)
    }

    fn write_record(&mut self, record: &Record<'_>, to: &mut dyn Pieces) -> bool {
        let Record::Certificates(r) = record else { return false };
        let mut texts = pem(r.chain);
        let pem_len = texts.len();
        texts.extend_from_slice(&self.meta(r));
        let (is_client, ts_ns) = (r.is_client, r.header.ts_ns);
        let kind = PieceKind::Certificates(CertificatesHead { is_client, ts_ns, pem_len });
        to.put(Piece { kind, bytes: &texts, later: &[] });
        false
    }

    fn clone_for_worker(&self) -> Box<dyn Format> {
        Box::new(CertificateTexts::new())
    }

    fn set_input(&mut self, name: &InputName) {
        self.is_of_interface = matches!(name, InputName::Interfaces(_));
    }
}

impl CertificateTexts {
    fn new() -> CertificateTexts {
        CertificateTexts { stamp: Stamp::new(), is_of_interface: false }
    }

    fn meta(&mut self, r: &CertificateRecord<'_>) -> Vec<u8> {
        let h = &r.header;
        let mut out = b"TIME:              ".to_vec();
        self.stamp.fast(h.ts_ns, &mut out);
        out.push(b'\n');
        let ip = |a: gabion_record::Addr| a.text(h.ip_version);
        if let (Some(n), false) = (h.pcap_cnt, self.is_of_interface) {
            let _ = writeln!(out, "PCAP PKT NUM:      {n}");
        }
        let (src, dst) = h.ports.unwrap_or_default();
        let _ = writeln!(out, "SRC IP:            {}", ip(h.src));
        let _ = writeln!(out, "DST IP:            {}", ip(h.dst));
        let _ = writeln!(out, "PROTO:             {}", h.ip_proto.0);
        let _ = writeln!(out, "SRC PORT:          {src}");
        let _ = writeln!(out, "DST PORT:          {dst}");
        for (key, text) in [
            ("TLS SUBJECT:       ", r.subject),
            ("TLS ISSUERDN:      ", r.issuer),
            ("TLS FINGERPRINT:   ", r.fingerprint),
        ] {
            out.extend_from_slice(key.as_bytes());
            out.extend_from_slice(text);
            out.push(b'\n');
        }
        out
    }
}

fn pem(chain: &[Vec<u8>]) -> Vec<u8> {
    let mut out = Vec::new();
    let mut text = Vec::new();
    for der in chain {
        out.extend_from_slice(b"-----BEGIN CERTIFICATE-----\n");
        text.clear();
        base64_into(der, &mut text);
        for line in text.chunks(LINE) {
            out.extend_from_slice(line);
            out.push(b'\n');
        }
        out.extend_from_slice(b"-----END CERTIFICATE-----\n");
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_64_characters() {
        let text = String::from_utf8(pem(&[vec![0; 60], vec![1]])).unwrap();
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 7);
        assert_eq!((lines[1].len(), lines[2].len(), lines[5]), (64, 16, "AQ=="));
    }
}
