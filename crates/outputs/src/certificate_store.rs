//! The certificate store: a PEM file with the chain, and a text file that says whose it is.

use crate::timestamp::Stamp;
use gabion_record::eve::CertificateRecord;
use gabion_record::json::base64_into;
use gabion_runtime::output::write_whole;
use std::io::Write;
use std::path::PathBuf;

/// Characters of base64 in a line of PEM (RFC 7468).
const LINE: usize = 64;

/// The folder of a certificate store. Chains are numbered in the order in which they come, so only
/// who takes them in order may write.
#[derive(Debug)]
pub(crate) struct CertificateFolder {
    pub(crate) folder: PathBuf,
    pub(crate) stored: u64,
    /// Chains that could not be written.
    pub(crate) failed: u64,
}

impl CertificateFolder {
    /// Writes what [`CertificateTexts::encode`] gave: `[client-]SECONDS.MICROSECONDS-NUMBER.pem` and
    /// `.meta`, as the peer names them.
    pub(crate) fn write(&mut self, line: &[u8]) {
        self.stored += 1;
        let mut parts = line.splitn(3, |b| *b == 0);
        let [name, pem, meta] = std::array::from_fn(|_| parts.next().unwrap_or_default());
        let name = format!("{}-{}", String::from_utf8_lossy(name), self.stored);
        let pem = write_whole(&self.folder.join(format!("{name}.pem")), pem);
        let meta = write_whole(&self.folder.join(format!("{name}.meta")), meta);
        self.failed += u64::from(pem.and(meta).is_err());
    }
}

/// Makes the texts of chains.
#[derive(Debug)]
pub(crate) struct CertificateTexts {
    stamp: Stamp,
}

impl CertificateTexts {
    pub(crate) fn new() -> CertificateTexts {
        CertificateTexts { stamp: Stamp::new() }
    }

    /// The name without its number, the chain, and what is said of it, with a null byte between (only
    /// the last may hold one).
    pub(crate) fn encode(&mut self, r: &CertificateRecord<'_>) -> Vec<u8> {
        let h = &r.header;
        let side = if r.is_client { "client-" } else { "" };
        let (s, us) = (h.ts_ns / 1_000_000_000, h.ts_ns % 1_000_000_000 / 1000);
        let mut out = format!("{side}{s}.{us:06}\0").into_bytes();
        out.extend_from_slice(&pem(r.chain));
        out.push(0);
        out.extend_from_slice(&self.meta(r));
        out
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
