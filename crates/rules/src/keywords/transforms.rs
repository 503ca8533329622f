//! Transforms of the sticky buffer named before.

use super::{lua, pcre};
use crate::compiler::Compiler;
use crate::diagnostic::{Checked, Refusal};
use crate::draft::{Draft, DraftBuffer, List};
use crate::keyword::{Setup, Value};
use crate::limits::TRANSFORMS_MAX;
use crate::transform::{Base64Mode, Transform};

/// Keywords of this file.
pub(super) const KEYWORDS: &[(&str, Setup)] = &[
    ("strip_whitespace", |_, d, _| add(d, Transform::StripWhitespace)),
    ("compress_whitespace", |_, d, _| add(d, Transform::CompressWhitespace)),
    ("strip_pseudo_headers", |_, d, _| add(d, Transform::StripPseudoHeaders)),
    ("to_lowercase", |_, d, _| add(d, Transform::ToLowercase)),
    ("to_uppercase", |_, d, _| add(d, Transform::ToUppercase)),
    ("to_md5", |_, d, _| add(d, Transform::ToMd5)),
    ("to_sha1", |_, d, _| add(d, Transform::ToSha1)),
    ("to_sha256", |_, d, _| add(d, Transform::ToSha256)),
    ("dotprefix", |_, d, _| add(d, Transform::DotPrefix)),
    ("url_decode", |_, d, _| add(d, Transform::UrlDecode)),
    ("header_lowercase", |_, d, _| add(d, Transform::HeaderLowercase)),
    ("domain", |_, d, _| add(d, Transform::Domain)),
    ("tld", |_, d, _| add(d, Transform::Tld)),
    ("xor", xor),
    ("pcrexform", pcrexform),
    ("luaxform", luaxform),
    ("from_base64", from_base64),
    ("gunzip", |_, d, v| decompress(d, v, |max_size| Transform::Gunzip { max_size })),
    ("zlib_deflate", |_, d, v| decompress(d, v, |max_size| Transform::ZlibDeflate { max_size })),
];

/// Adds a transform to the sticky buffer in force, which must not have contents yet.
fn add(d: &mut Draft<'_>, transform: Transform) -> Checked<()> {
    let List::Buffer(at) = d.list else {
        let said = "transforms must directly follow stickybuffers";
        return Err(Refusal::new("detect", said));
    };
    let chained = d.buffers.get(at).is_some_and(|b| !b.transforms.is_empty());
    if chained && !d.transforms_allowed {
        let said = "transforms must directly follow stickybuffers";
        return Err(Refusal::new("detect", said));
    }
    let Some(buffer) = d.buffers.get(at) else { return Ok(()) };
    let at = if buffer.conditions.is_empty() {
        at
    } else {
        // a chain after contents, or after a second naming: another buffer
        let (buffer, is_multi) = (buffer.buffer, buffer.is_multi);
        d.buffers.push(DraftBuffer {
            buffer,
            transforms: Vec::new(),
            is_multi,
            is_continued: true,
            only_to_server: false,
            only_to_client: false,
            conditions: Vec::new(),
            from_modifier: false,
        });
        d.buffers.len() - 1
    };
    d.list = List::Buffer(at);
    let Some(buffer) = d.buffers.get_mut(at) else { return Ok(()) };
    if buffer.transforms.len() >= TRANSFORMS_MAX {
        return Err(Refusal::new("detect", "too many transforms"));
    }
    buffer.transforms.push(transform);
    d.transforms_allowed = true;
    Ok(())
}

fn xor(_: &mut Compiler<'_>, d: &mut Draft<'_>, v: Value<'_>) -> Checked<()> {
    const WHO: &str = "detect-transform-xor";
    let digits = v.text.as_bytes();
    let key: Option<Vec<u8>> = (digits.len().is_multiple_of(2))
        .then(|| digits.chunks(2).map(hex_pair).collect())
        .flatten();
    match key {
        Some(key) if !key.is_empty() && key.len() <= usize::from(u8::MAX) => {
            add(d, Transform::Xor(key.into()))
        }
        _ => Err(Refusal::new(WHO, "XOR transform key is not hexadecimal digits")
            .because("the key is an even number of hex digits")),
    }
}

fn hex_pair(pair: &[u8]) -> Option<u8> {
    let [high, low] = pair else { return None };
    let digit = |b: u8| (b as char).to_digit(16).map(|d| d as u8);
    Some(digit(*high)? << 4 | digit(*low)?)
}

fn pcrexform<'t>(_: &mut Compiler<'_>, d: &mut Draft<'t>, v: Value<'t>) -> Checked<()> {
    const WHO: &str = "detect-transform-pcrexform";
    // the expression is given with or without slashes
    let (pattern, options) = match pcre::split(v) {
        Ok(e) if v.text.starts_with('/') => (e.pattern, e.options),
        _ => (v.piece(), crate::content::PcreOptions::default()),
    };
    pcre::check(pattern, options).map_err(|mut e| {
        e.subsystem = WHO;
        e
    })?;
    let groups = pcre::capture_groups(pattern.text);
    if groups > 1 {
        let said = format!("too many capture groups, {groups}");
        return Err(Refusal::new(WHO, said));
    }
    if groups == 0 {
        let said = format!("pcrexform needs one substring: \"{}\"", pattern.text);
        return Err(Refusal::new(WHO, said));
    }
    add(d, Transform::PcreXform { pattern: pattern.text.into(), options })
}

fn luaxform<'t>(c: &mut Compiler<'_>, d: &mut Draft<'t>, v: Value<'t>) -> Checked<()> {
    // Arguments keep the blanks around them.
    let mut parts = v.text.split(',');
    let name = parts.next().unwrap_or("").trim();
    let arguments: Box<[Box<str>]> = parts.map(Box::from).collect();
    let script = lua::script(c, d, name, true)?;
    add(d, Transform::LuaXform { script, arguments })
}

fn from_base64(_: &mut Compiler<'_>, d: &mut Draft<'_>, v: Value<'_>) -> Checked<()> {
    let refuse =
        || Refusal::silent("`from_base64:[bytes N,] [offset N,] mode rfc4648|rfc2045|strict`");
    let (mut bytes, mut offset, mut mode) = (None, None, None);
    for part in v.text.split(',').map(str::trim).filter(|p| !p.is_empty()) {
        let (key, value) = part.split_once(char::is_whitespace).ok_or_else(refuse)?;
        let value = value.trim();
        let number = || -> Option<u32> { value.parse().ok().filter(|n| *n <= 65_535) };
        match key {
            "bytes" if bytes.is_none() => bytes = Some(number().ok_or_else(refuse)?),
            "offset" if offset.is_none() => offset = Some(number().ok_or_else(refuse)?),
            "mode" if mode.is_none() => {
                mode = Some(match value.to_ascii_lowercase().as_str() {
                    "rfc4648" => Base64Mode::Rfc4648,
                    "rfc2045" => Base64Mode::Rfc2045,
                    "strict" => Base64Mode::Strict,
                    _ => return Err(refuse()),
                });
            }
            _ => return Err(refuse()),
        }
    }
    let (bytes, offset) = (bytes.unwrap_or(0), offset.unwrap_or(0));
    add(d, Transform::FromBase64 { bytes, offset, mode: mode.unwrap_or(Base64Mode::Rfc4648) })
}

/// Bytes of output at most unless written: Suricata's default.
const DECOMPRESSED_DEFAULT: u32 = 1024;

/// The decimal number at the beginning, alone or with a unit of one letter (`k`). Suricata 8.0.7 passes over what follows.
fn size(text: &str) -> Option<u64> {
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at_checked(end)?;
    let factor = match unit.bytes().next() {
        Some(b'k' | b'K') => 1 << 10,
        Some(b'm' | b'M') => 1 << 20,
        Some(b'g' | b'G') => 1 << 30,
        _ => 1,
    };
    number.parse::<u64>().ok()?.checked_mul(factor)
}

fn decompress(d: &mut Draft<'_>, v: Value<'_>, make: fn(u32) -> Transform) -> Checked<()> {
    const WHO: &str = "decompress";
    let mut max_size = DECOMPRESSED_DEFAULT;
    let parts = v.text.split(',').map(str::trim).filter(|_| !v.text.is_empty());
    for part in parts {
        let bad = || Refusal::new(WHO, format!("Bad key value for decompress transform {part}"));
        let (key, value) = part.split_once(char::is_whitespace).ok_or_else(bad)?;
        if key != "max-size" {
            let said = format!("Unknown key for decompress transform {key}");
            return Err(Refusal::new(WHO, said));
        }
        let n = size(value).ok_or_else(bad)?;
        if n == 0 {
            let said = "max-size 0 for decompress transform would always produce an empty buffer";
            return Err(Refusal::new(WHO, said));
        }
        if n > crate::limits::DECOMPRESSED_MAX {
            return Err(Refusal::new(WHO, format!("max-size {n} is out of bounds")));
        }
        max_size = n as u32;
    }
    add(d, make(max_size))
}
