//! Transforms: functions on a buffer that run before its conditions.

use super::base64;
use super::resources::Resources;
use crate::script::Scene;
use gabion_matcher::regex::Found;
use gabion_rules::compiled::buffer::Transform;
use md5::Digest;
use std::io::Read;

/// Runs a chain over `input`; the result is in `out`. False if a step has no result.
pub(crate) fn apply(
    chain: &[Transform],
    input: &[u8],
    out: &mut Vec<u8>,
    scratch: &mut Vec<u8>,
    resources: &mut Resources<'_>,
) -> bool {
    out.clear();
    out.extend_from_slice(input);
    for t in chain {
        std::mem::swap(out, scratch);
        out.clear();
        // No transform makes anything of nothing, hashes neither.
        if scratch.is_empty() {
            continue;
        }
        if !step(t, scratch, out, resources) {
            return false;
        }
    }
    true
}

fn is_space(b: u8) -> bool {
    matches!(b, b' ' | b'\t' | b'\n' | 0x0b | 0x0c | b'\r')
}

fn step(t: &Transform, input: &[u8], out: &mut Vec<u8>, resources: &mut Resources<'_>) -> bool {
    match t {
        Transform::StripWhitespace => out.extend(input.iter().filter(|b| !is_space(**b))),
        Transform::CompressWhitespace => {
            let mut before = false;
            for &b in input {
                let space = is_space(b);
                if !(space && before) {
                    out.push(b);
                }
                before = space;
            }
        }
        Transform::ToLowercase => out.extend(input.iter().map(u8::to_ascii_lowercase)),
        Transform::ToUppercase => out.extend(input.iter().map(u8::to_ascii_uppercase)),
        Transform::ToMd5 => out.extend_from_slice(&md5::Md5::digest(input)),
        Transform::ToSha1 => out.extend_from_slice(&sha1::Sha1::digest(input)),
        Transform::ToSha256 => out.extend_from_slice(&sha2::Sha256::digest(input)),
        Transform::PcreXform { pattern, options } => {
            let Some(r) = resources.expressions.transform(pattern, *options) else { return false };
            if let Found::Match { .. } = r.find(input, resources.regex)
                && let Some((a, b)) = resources.regex.group(1)
                && let Some(group) = input.get(a..b)
            {
                out.extend_from_slice(group);
            }
        }
        Transform::UrlDecode => url_decode(input, out),
        Transform::Xor(key) if key.is_empty() => out.extend_from_slice(input),
        Transform::Xor(key) => {
            out.extend(input.iter().zip(key.iter().cycle()).map(|(b, k)| b ^ k));
        }
        Transform::DotPrefix => {
            out.push(b'.');
            out.extend_from_slice(input);
        }
        Transform::HeaderLowercase => header_lowercase(input, out),
        Transform::StripPseudoHeaders => {
            for line in input.split_inclusive(|b| *b == b'\n') {
                if line.first() != Some(&b':') {
                    out.extend_from_slice(line);
                }
            }
        }
        // A public suffix alone (`com`, any word without a dot) leaves nothing.
        Transform::Domain => {
            out.extend_from_slice(psl::domain(input).map_or(&[], |d| d.as_bytes()));
        }
        Transform::Tld => {
            let suffix = psl::domain(input).and_then(|_| psl::suffix(input));
            out.extend_from_slice(suffix.map_or(&[], |s| s.as_bytes()));
        }
        Transform::FromBase64 { bytes, offset, mode } => {
            let mut text = input.get(*offset as usize..).unwrap_or(&[]);
            // Suricata 8.0.7: what `bytes` takes must end before the buffer does.
            if *bytes != 0 {
                text = if (*bytes as usize) < text.len() { &text[..*bytes as usize] } else { &[] };
            }
            if !base64::decode(text, *mode, out) {
                out.extend_from_slice(input);
            }
        }
        Transform::LuaXform { script, arguments } => {
            let scene = Scene { datasets: Some(resources.datasets), ..Scene::default() };
            match resources.scripts.transform(*script, input, arguments, scene) {
                Some(v) => out.extend_from_slice(&v),
                None => out.extend_from_slice(input),
            }
        }
        Transform::Gunzip { max_size } => {
            inflate(flate2::read::MultiGzDecoder::new(input), *max_size, out);
        }
        Transform::ZlibDeflate { max_size } => {
            inflate(flate2::read::ZlibDecoder::new(input), *max_size, out);
        }
    }
    true
}

fn inflate(decoder: impl Read, max_size: u32, out: &mut Vec<u8>) {
    // The rule says how much, or the rule language's default. The bytes before an error are the
    // result.
    let _ = decoder.take(max_size.into()).read_to_end(out);
}

fn hex(b: u8) -> Option<u8> {
    char::from(b).to_digit(16).and_then(|d| u8::try_from(d).ok())
}

fn url_decode(input: &[u8], out: &mut Vec<u8>) {
    let mut i = 0;
    while let Some(&b) = input.get(i) {
        let digits =
            (input.get(i + 1).copied().and_then(hex), input.get(i + 2).copied().and_then(hex));
        match (b, digits) {
            (b'%', (Some(h), Some(l))) => {
                out.push(h << 4 | l);
                i += 3;
            }
            (b'+', _) => {
                out.push(b' ');
                i += 1;
            }
            _ => {
                out.push(b);
                i += 1;
            }
        }
    }
}

fn header_lowercase(input: &[u8], out: &mut Vec<u8>) {
    let mut in_name = true;
    for &b in input {
        match b {
            b':' if in_name => in_name = false,
            b'\n' => in_name = true,
            _ => {}
        }
        out.push(if in_name { b.to_ascii_lowercase() } else { b });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rule_has_as_much_unpacked_as_it_says() {
        use flate2::{Compression, write::ZlibEncoder};
        let mut packed = ZlibEncoder::new(Vec::new(), Compression::fast());
        std::io::Write::write_all(&mut packed, &vec![b'a'; 5 << 20]).unwrap();
        let packed = packed.finish().unwrap();
        for size in [1024, 3 << 20, 16 << 20] {
            let mut out = Vec::new();
            inflate(flate2::read::ZlibDecoder::new(&packed[..]), size, &mut out);
            assert_eq!(out.len(), (size as usize).min(5 << 20));
        }
    }

    #[test]
    fn text_transforms() {
        let mut out = Vec::new();
        url_decode(b"a%20b+c%zz", &mut out);
        assert_eq!(out, b"a b c%zz");
        out.clear();
        header_lowercase(b"Host: A\r\nX-Y: B\r\n", &mut out);
        assert_eq!(out, b"host: A\r\nx-y: B\r\n");
    }
}
