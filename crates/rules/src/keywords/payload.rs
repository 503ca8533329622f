//! Conditions on the buffer in force that are neither literals nor arithmetic.

use super::sticky;
use crate::compiler::Compiler;
use crate::content::{Base64Decode, BufferCondition};
use crate::diagnostic::{Checked, Refusal};
use crate::draft::{Draft, List};
use crate::integer::IntegerMatch;
use crate::keyword::{Setup, Value};
use crate::signature::BufferRef;
use gabion_record::applayer::IntegerWidth;

/// Keywords of this file.
pub(super) const KEYWORDS: &[(&str, Setup)] = &[
    ("bsize", bsize),
    ("urilen", urilen),
    ("absent", absent),
    ("base64_decode", base64_decode),
    ("prefilter", prefilter),
];

fn bsize(_: &mut Compiler<'_>, d: &mut Draft<'_>, v: Value<'_>) -> Checked<()> {
    if matches!(d.list, List::NotSet) {
        return Err(Refusal::silent("`bsize` needs a sticky buffer before it"));
    }
    let Some(size) = IntegerMatch::parse(v.text, IntegerWidth::U64, &[]) else {
        return Err(Refusal::silent("`bsize` takes N, >N, <N or A<>B"));
    };
    d.push(BufferCondition::Bsize(size))
}

fn urilen<'t>(c: &mut Compiler<'_>, d: &mut Draft<'t>, v: Value<'t>) -> Checked<()> {
    let (size, kind) = match v.text.split_once(',') {
        Some((size, kind)) => (size.trim(), kind.trim()),
        None => (v.text, "norm"),
    };
    let keyword = if kind == "raw" { "http.uri.raw" } else { "http.uri" };
    let Some(size) = length(size) else {
        return Err(Refusal::silent("`urilen` takes N, >N, <N or A<>B"));
    };
    let before = d.list;
    match c.catalog.buffer_by_keyword(keyword) {
        Some(id) => {
            let protos: Vec<_> = c
                .catalog
                .buffer(id)
                .map(|b| b.hooks.iter().map(|(p, _)| *p).collect())
                .unwrap_or_default();
            super::app::bind_to(c, d, &protos, keyword)?;
            let at = d.buffer_index(BufferRef::App(id), false);
            d.list = List::Buffer(at);
        }
        None => {
            d.inert.get_or_insert("urilen");
            sticky::inert_buffer(d, false);
        }
    }
    let allowed = d.transforms_allowed;
    let pushed = d.push(BufferCondition::Urilen(size));
    d.list = before;
    d.transforms_allowed = allowed;
    pushed
}

/// A length as Suricata 8.0.7 reads it for `urilen`: what follows the comparison is passed over, and a range may hold
/// nothing.
fn length(text: &str) -> Option<IntegerMatch> {
    if let Some(size) = IntegerMatch::parse(text, IntegerWidth::U16, &[]) {
        return Some(size);
    }
    let number = |text: &str| -> Option<u64> {
        let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
        Some(u64::from(text.get(..end)?.parse::<u16>().ok()?))
    };
    if let Some(rest) = text.strip_prefix('<') {
        return number(rest).filter(|n| *n > 0).map(IntegerMatch::Less);
    }
    if let Some(rest) = text.strip_prefix('>') {
        return number(rest).filter(|n| *n < u64::from(u16::MAX)).map(IntegerMatch::Greater);
    }
    let first = number(text)?;
    match text.split_once("<>").and_then(|(_, last)| number(last)) {
        Some(last) => Some(IntegerMatch::Between(first, last)),
        None => Some(IntegerMatch::Equal(first)),
    }
}

fn absent(_: &mut Compiler<'_>, d: &mut Draft<'_>, v: Value<'_>) -> Checked<()> {
    const WHO: &str = "detect-isdataat";
    let or_else = match v.text {
        "" => false,
        "or_else" => true,
        other => {
            let said = format!("unhandled value for absent keyword: {other}");
            return Err(Refusal::new(WHO, said));
        }
    };
    let Some(buffer) = d.sticky() else {
        return Err(Refusal::new(WHO, "no buffer for absent keyword"));
    };
    if !buffer.conditions.is_empty() {
        return Err(Refusal::new(WHO, "absent must come first right after buffer"));
    }
    if matches!(buffer.buffer, Some(BufferRef::Packet(_) | BufferRef::Payload)) {
        return Err(Refusal::new(WHO, "absent does not work with packet buffers"));
    }
    d.push(BufferCondition::Absent { or_else })
}

fn base64_decode(_: &mut Compiler<'_>, d: &mut Draft<'_>, v: Value<'_>) -> Checked<()> {
    const WHO: &str = "detect-base64-decode";
    let bad = || Refusal::new(WHO, format!("Invalid argument: \"{}\"", v.text));
    let mut decode = Base64Decode::default();
    if v.text.starts_with(|c: char| c.is_ascii_punctuation() && c != '_') {
        return Err(bad());
    }
    // A transform wants a condition on what it makes.
    if let List::Buffer(at) = d.list
        && let Some(buffer) = d.buffers.get(at)
        && buffer.conditions.is_empty()
        && !buffer.transforms.is_empty()
    {
        let count = buffer.transforms.len();
        let said = format!("previous transforms not consumed (transform_cnt {count})");
        return Err(Refusal::new("detect", said));
    }
    // The options come in this order; what follows the last that is understood is ignored.
    let mut rest = v.text;
    decode.bytes = take_option(&mut rest, "bytes").ok_or_else(bad)?;
    decode.offset = take_option(&mut rest, "offset").ok_or_else(bad)?;
    let is_word = |c: char| c == '_' || c.is_ascii_alphanumeric();
    match rest.trim_start().split(|c| !is_word(c)).next() {
        None | Some("") => {}
        Some("relative") => decode.relative = true,
        Some(_) => return Err(bad()),
    }
    if decode.bytes > u32::from(u16::MAX) {
        return Err(bad());
    }
    if matches!(d.list, List::Base64) {
        return Err(Refusal::new(WHO, "base64_decode can't be nested"));
    }
    let condition = BufferCondition::Base64Decode(decode);
    // it works where the match before it was, whether relative or not
    let before = d.list;
    d.list = d.relative_list();
    let pushed = if decode.relative { d.push_relative(condition) } else { d.push(condition) };
    d.list = before;
    pushed
}

/// Takes `name N` with a comma after it off the front of a text: N, or 0 where the text begins otherwise. None: the number
/// is too large.
fn take_option(text: &mut &str, name: &str) -> Option<u32> {
    let at = text.trim_start();
    let Some(value) = at.strip_prefix(name).filter(|v| v.starts_with(char::is_whitespace)) else {
        return Some(0);
    };
    let value = value.trim_start();
    let digits = value.len() - value.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    if digits == 0 {
        return Some(0);
    }
    let (number, rest) = value.split_at(digits);
    *text = rest.strip_prefix(',').unwrap_or(rest);
    number.parse().ok()
}

/// The condition before it becomes the prefilter.
fn prefilter(_: &mut Compiler<'_>, d: &mut Draft<'_>, _: Value<'_>) -> Checked<()> {
    const WHO: &str = "detect-prefilter";
    // a content before it is asked to be the fast pattern
    let last_content = d.last_content_place().and_then(|p| {
        let list = match p.buffer {
            Some(n) => &d.buffers.get(n)?.conditions,
            None => &d.base64,
        };
        list.get(p.at).map(|x| x.order)
    });
    if d.packet.is_empty() && last_content.is_none() {
        let said = "prefilter needs preceding match";
        return Err(Refusal::new(WHO, said));
    }
    if d.prefilter.is_some() {
        return Err(Refusal::new(WHO, "prefilter already set"));
    }
    let last_is_packet = d.last_was_packet;
    if !last_is_packet {
        return match d.last_content() {
            Some(content) => {
                let has_bound =
                    content.is_relative() || content.offset.is_some() || content.depth.is_some();
                if content.is_negated() && has_bound {
                    let said = "prefilter; cannot be used with negated content, along with \
                                relative modifiers";
                    return Err(Refusal::new(WHO, said));
                }
                content.flags.set(crate::content::ContentFlags::FAST_PATTERN);
                Ok(())
            }
            None => Err(Refusal::new(WHO, "prefilter needs preceding match")),
        };
    }
    let at = d.packet.len() - 1;
    let keyword = d.packet.last().map_or("", |p| p.keyword);
    let supported = crate::known::known_keyword(keyword)
        .is_some_and(crate::known::KnownKeyword::supports_prefilter);
    if !supported {
        let said = format!("prefilter is not supported for {keyword}");
        return Err(Refusal::new(WHO, said));
    }
    d.prefilter = Some(at);
    Ok(())
}
