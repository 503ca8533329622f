//! Reads the files of datasets: one value a line (strings in base64, hashes in hex, addresses as
//! text), perhaps with a reputation behind a comma.

use crate::datasets::Entry;
use gabion_rules::ruleset::{DatasetDef, DatasetType};
use std::net::IpAddr;

/// Gives each value of the file to `add`. An error names the line.
pub(crate) fn parse(
    def: &DatasetDef,
    text: &[u8],
    add: &mut dyn FnMut(Box<[u8]>, Entry),
) -> Result<(), String> {
    for (n, line) in text.split(|b| *b == b'\n').enumerate() {
        let line = line.trim_ascii();
        if line.is_empty() || line.starts_with(b"#") {
            continue;
        }
        let mut parts = line.splitn(2, |b| *b == b',');
        let value = parts.next().unwrap_or(&[]);
        let score = match parts.next() {
            Some(s) if def.has_reputation => std::str::from_utf8(s)
                .ok()
                .and_then(|s| s.trim().parse().ok())
                .ok_or_else(|| format!("line {}: bad reputation", n + 1))?,
            _ => 0,
        };
        let value = decode(def.kind, value).ok_or_else(|| format!("line {}: bad value", n + 1))?;
        add(value, Entry { score, context_json: Box::default() });
    }
    Ok(())
}

/// A value in its text form.
pub(crate) fn decode(kind: DatasetType, text: &[u8]) -> Option<Box<[u8]>> {
    match kind {
        DatasetType::String => {
            let mut out = Vec::new();
            crate::detect::base64::decode_lenient(text, &mut out);
            (!out.is_empty()).then(|| out.into())
        }
        DatasetType::Md5 => hex(text, 16),
        DatasetType::Sha256 => hex(text, 32),
        DatasetType::Ipv4 | DatasetType::Ip => {
            match std::str::from_utf8(text).ok()?.trim().parse().ok()? {
                IpAddr::V4(a) => Some(a.octets().into()),
                IpAddr::V6(a) => match a.to_ipv4_mapped() {
                    Some(v4) => Some(v4.octets().into()),
                    None => Some(a.octets().into()),
                },
            }
        }
    }
}

fn hex(text: &[u8], n: usize) -> Option<Box<[u8]>> {
    if text.len() != 2 * n {
        return None;
    }
    let digit = |b: u8| char::from(b).to_digit(16);
    text.chunks(2)
        .map(|p| u8::try_from(digit(p[0])? << 4 | digit(p[1])?).ok())
        .collect::<Option<Vec<u8>>>()
        .map(Into::into)
}
