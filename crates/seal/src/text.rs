//! Keys and hashes as text: PEM blocks, and hashes in base64.

use gabion_record::base64::{from_base64, to_base64};

/// Base64 of exactly 32 bytes.
pub(crate) fn unbase64_hash(text: &str) -> Option<[u8; 32]> {
    from_base64(text.as_bytes())?.try_into().ok()
}

/// The base64 of a PEM block with this label, read to DER.
pub(crate) fn pem(text: &str, label: &str) -> Option<Vec<u8>> {
    let begin = format!("-----BEGIN {label}-----");
    let end = format!("-----END {label}-----");
    let (_, rest) = text.split_once(&begin)?;
    let (body, _) = rest.split_once(&end)?;
    let packed: Vec<u8> = body.bytes().filter(|b| !b.is_ascii_whitespace()).collect();
    from_base64(&packed)
}

/// DER as a PEM block, lines of 64.
pub(crate) fn to_pem(der: &[u8], label: &str) -> String {
    let mut out = format!("-----BEGIN {label}-----\n");
    let body = to_base64(der);
    let mut rest = body.as_str();
    while !rest.is_empty() {
        let (line, tail) = rest.split_at(rest.len().min(64));
        out.push_str(line);
        out.push('\n');
        rest = tail;
    }
    out.push_str(&format!("-----END {label}-----\n"));
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pem_opens() {
        let der = vec![7u8; 100];
        assert_eq!(pem(&to_pem(&der, "PUBLIC KEY"), "PUBLIC KEY"), Some(der));
    }
}
