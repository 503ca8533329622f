//! The certificate store: a PEM file with the chain, and a text file that says whose it is.

use crate::timestamp::Stamp;
use gabion_record::eve::CertificateRecord;
use gabion_record::json::base64_into;
use std::io::Write;
use std::path::{Path, PathBuf};

/// Characters of base64 in a line of PEM (RFC 7468).
const LINE: usize = 64;

/// A certificate store.
#[derive(Debug)]
pub(crate) struct CertificateStore {
    pub(crate) folder: PathBuf,
    stored: u64,
    stamp: Stamp,
    /// Chains that could not be written.
    pub(crate) failed: u64,
}

impl CertificateStore {
    pub(crate) fn new(folder: &Path) -> CertificateStore {
        let (folder, stamp) = (folder.to_path_buf(), Stamp::new());
        CertificateStore { folder, stored: 0, stamp, failed: 0 }
    }

    /// Stores a chain: `[client-]SECONDS.MICROSECONDS-NUMBER.pem` and `.meta`, as the peer names them.
    pub(crate) fn store(&mut self, r: &CertificateRecord<'_>) {
        self.stored += 1;
        let h = &r.header;
        let name = format!(
            "{}{}.{:06}-{}",
            if r.is_client { "client-" } else { "" },
            h.ts_ns / 1_000_000_000,
            h.ts_ns % 1_000_000_000 / 1000,
            self.stored
        );
        let pem = std::fs::write(self.folder.join(format!("{name}.pem")), pem(r.chain));
        let text = self.meta(r);
        let meta = std::fs::write(self.folder.join(format!("{name}.meta")), text);
        self.failed += u64::from(pem.and(meta).is_err());
    }

    fn meta(&mut self, r: &CertificateRecord<'_>) -> Vec<u8> {
        let h = &r.header;
        let mut out = b"TIME:              ".to_vec();
        self.stamp.fast(h.ts_ns, &mut out);
        out.push(b'\n');
        let ip = |a: gabion_record::Addr| a.text(h.ip_version);
        if let Some(n) = h.pcap_cnt {
            let _ = writeln!(out, "PCAP PKT NUM:      {n}");
        }
        let (src, dst) = h.ports.unwrap_or_default();
        let _ = writeln!(out, "SRC IP:            {}", ip(h.src));
        let _ = writeln!(out, "DST IP:            {}", ip(h.dst));
        let _ = writeln!(out, "PROTO:             {}", h.ip_proto);
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
