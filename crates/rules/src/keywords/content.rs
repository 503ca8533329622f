//! `content` and the modifiers after it.

use super::sticky;
use crate::compiler::Compiler;
use crate::content::{BufferCondition, Content, ContentFlags, Operand};
use crate::diagnostic::{Checked, Refusal};
use crate::draft::{Draft, List, mark_relative_next};
use crate::keyword::{Setup, Value};
use crate::post::PostMatch;
use crate::signature::BufferRef;

/// Keywords of this file.
pub(super) const KEYWORDS: &[(&str, Setup)] = &[
    ("content", content),
    ("uricontent", uricontent),
    ("nocase", nocase),
    ("rawbytes", rawbytes),
    ("offset", offset),
    ("depth", depth),
    ("distance", distance),
    ("within", within),
    ("startswith", startswith),
    ("endswith", endswith),
    ("fast_pattern", fast_pattern),
    ("replace", replace),
];

/// Offsets and distances go from minus to plus this: Suricata's bound.
const VALUE_MAX: i64 = 1024 * 1024;
/// Offsets and depths end at this: Suricata's bound.
const ANCHOR_MAX: i64 = 65_535;

fn content(_: &mut Compiler<'_>, d: &mut Draft<'_>, v: Value<'_>) -> Checked<()> {
    push(d, v)
}

/// `uricontent:"x"` is `content:"x"; http_uri;`.
fn uricontent(c: &mut Compiler<'_>, d: &mut Draft<'_>, v: Value<'_>) -> Checked<()> {
    if d.list != List::NotSet {
        return Err(Refusal::new(
            "detect-uricontent",
            "uricontent cannot be used with a sticky buffer still set",
        ));
    }
    push(d, v)?;
    match c.catalog.buffer_by_modifier("http_uri") {
        Some(id) => sticky::modifier(c, d, id, "http_uri"),
        None => {
            d.inert.get_or_insert("uricontent");
            sticky::inert_buffer(d, true);
            Ok(())
        }
    }
}

fn push(d: &mut Draft<'_>, v: Value<'_>) -> Checked<()> {
    let bytes = decode(v.text)?;
    let mut flags = ContentFlags::default();
    if v.negated {
        flags.set(ContentFlags::NEGATED);
    }
    d.push(BufferCondition::Content(Content { bytes, flags, ..Content::default() }))
}

/// The bytes of a content: `|41 42|` is hexadecimal, a backslash escapes `"`, `;`, `:` and itself.
pub(super) fn decode(text: &str) -> Checked<Box<[u8]>> {
    let refuse = |said: String| Refusal::new("detect-content", said);
    let bytes = text.as_bytes();
    if memchr::memchr3(b'|', b'\\', b'"', bytes).is_none() {
        return Ok(bytes.into());
    }
    let mut out = Vec::with_capacity(bytes.len());
    let mut in_hex = false;
    let mut escaped = false;
    let mut high: Option<u8> = None;
    for b in bytes {
        match *b {
            b'|' if !escaped => {
                if high.is_some() {
                    return Err(refuse(format!(
                        "Incomplete hex code in content - {text}. Invalidating signature."
                    )));
                }
                in_hex = !in_hex;
            }
            b' ' if in_hex => {}
            b if in_hex => {
                let Some(digit) = (b as char).to_digit(16) else {
                    let c = b as char;
                    return Err(refuse(format!(
                        "Invalid hex code in content - {text}, hex {c}. Invalidating signature."
                    )));
                };
                let digit = digit as u8;
                match high.take() {
                    Some(h) => out.push(h << 4 | digit),
                    None => high = Some(digit),
                }
            }
            b'\\' if !escaped => escaped = true,
            b if escaped => {
                if !matches!(b, b'"' | b';' | b':' | b'\\' | b'|') {
                    return Err(refuse("'\\' has to be escaped".to_string()));
                }
                out.push(b);
                escaped = false;
            }
            b'"' => {
                return Err(refuse(
                    "Invalid unescaped double quote within content section.".to_string(),
                ));
            }
            b => out.push(b),
        }
    }
    if in_hex {
        return Err(refuse(format!(
            "Invalid hex code assembly in content - {text}.  Invalidating signature."
        )));
    }
    if out.is_empty() {
        return Err(Refusal::silent("the content is empty"));
    }
    Ok(out.into())
}

/// The content a modifier applies to.
fn previous<'d>(
    d: &'d mut Draft<'_>,
    subsystem: &'static str,
    said: &str,
) -> Checked<&'d mut Content> {
    d.last_content().ok_or_else(|| Refusal::new(subsystem, said))
}

fn needs_content(keyword: &str) -> String {
    format!(
        "{keyword} needs preceding content, uricontent option, http_client_body, \
         http_server_body, http_header option, http_raw_header option, http_method option, \
         http_cookie, http_raw_uri, http_stat_msg, http_stat_code, http_user_agent, http_host, \
         http_raw_host or file_data/dce_stub_data sticky buffer options."
    )
}

fn nocase(_: &mut Compiler<'_>, d: &mut Draft<'_>, _: Value<'_>) -> Checked<()> {
    let content = previous(d, "detect-nocase", "nocase needs preceding content option")?;
    set_nocase(content)
}

fn set_nocase(content: &mut Content) -> Checked<()> {
    if content.is_nocase() {
        return Err(Refusal::new(
            "detect-content",
            "can't use multiple nocase modifiers with the same content",
        ));
    }
    if content.bytes.iter().any(u8::is_ascii_uppercase) {
        content.flags.set(ContentFlags::WRITTEN_UPPER);
    }
    if content.bytes.iter().any(u8::is_ascii_lowercase) {
        content.flags.set(ContentFlags::WRITTEN_LOWER);
    }
    content.bytes.make_ascii_lowercase();
    content.flags.set(ContentFlags::NOCASE);
    Ok(())
}

fn rawbytes(_: &mut Compiler<'_>, d: &mut Draft<'_>, _: Value<'_>) -> Checked<()> {
    if matches!(d.list, List::Buffer(_)) {
        return Err(Refusal::new(
            "detect-rawbytes",
            "\"rawbytes\" cannot be combined with the \"file_data\" keyword",
        ));
    }
    let said = "\"rawbytes\" needs a preceding content option";
    let content = previous(d, "detect-rawbytes", said)?;
    if content.flags.has(ContentFlags::RAWBYTES) {
        return Err(Refusal::new(
            "detect-rawbytes",
            "can't use multiple rawbytes modifiers for the same content. ",
        ));
    }
    content.flags.set(ContentFlags::RAWBYTES);
    Ok(())
}

/// The number at the beginning, as `strtoll` with base 0 reads it (`0x10`, `010` is 8), and what follows it.
fn number_like_c(text: &str) -> Option<(i64, &str)> {
    let (sign, rest) = match text.as_bytes().first()? {
        b'-' => (-1, text.get(1..)?),
        b'+' => (1, text.get(1..)?),
        _ => (1, text),
    };
    let hex = rest.strip_prefix("0x").or_else(|| rest.strip_prefix("0X"));
    let hex = hex.filter(|hex| hex.starts_with(|c: char| c.is_ascii_hexdigit()));
    let (base, digits) = match hex {
        Some(digits) => (16, digits),
        None if rest.starts_with('0') => (8, rest),
        None => (10, rest),
    };
    let end = digits.find(|c: char| !c.is_digit(base)).unwrap_or(digits.len());
    let (digits, behind) = digits.split_at_checked(end)?;
    Some((sign * i64::from_str_radix(digits, base).ok()?, behind))
}

/// A number, or the name of a byte variable.
fn operand(d: &Draft<'_>, v: Value<'_>, keyword: &str, dot: &str) -> Checked<Operand<i32>> {
    let subsystem: &'static str = match keyword {
        "offset" => "detect-offset",
        "depth" => "detect-depth",
        "distance" => "detect-distance",
        _ => "detect-within",
    };
    if v.text.starts_with(|c: char| c.is_ascii_alphabetic()) {
        return match d.byte_variable(v.text) {
            Some(n) => Ok(Operand::Variable(n)),
            None => {
                let name = v.text;
                let said = format!("unknown byte_ keyword var seen in {keyword} - {name}{dot}");
                Err(Refusal::new(subsystem, said))
            }
        };
    }
    let (number, behind) = match number_like_c(v.text) {
        Some((number, behind)) => (Some(number), behind),
        None => (None, ""),
    };
    // Suricata 8.0.7 passes over what follows the number of a distance.
    let is_anchor = matches!(keyword, "offset" | "depth");
    let (min, max) = if is_anchor { (0, ANCHOR_MAX) } else { (-VALUE_MAX, VALUE_MAX) };
    let is_whole = behind.is_empty() || !is_anchor;
    match number.filter(|n| is_whole && (min..=max).contains(n)) {
        Some(n) => Ok(Operand::Number(n as i32)),
        None => {
            let said = format!("invalid value for {keyword}: {}{dot}", v.text);
            Err(Refusal::new(subsystem, said))
        }
    }
}

const MIXED: &str = "can't use a relative keyword like within/distance with a absolute relative \
                     keyword like depth/offset for the same content.";

fn offset(_: &mut Compiler<'_>, d: &mut Draft<'_>, v: Value<'_>) -> Checked<()> {
    const WHO: &str = "detect-offset";
    let value = match d.last_content() {
        Some(content) => {
            check_anchor(content, WHO, "offset")?;
            if content.offset.is_some() {
                let said = "can't use multiple offsets for the same content. ";
                return Err(Refusal::new(WHO, said.trim_end()));
            }
            operand(d, v, "offset", ".")?
        }
        None => return Err(Refusal::new(WHO, needs_content("offset"))),
    };
    let content = previous(d, WHO, "")?;
    check_absolute(content, WHO)?;
    content.offset = Some(value);
    if let (Operand::Number(o), Some(Operand::Number(depth))) = (value, content.depth) {
        let depth = depth.max(content.bytes.len() as i32);
        content.depth = Some(Operand::Number(depth.saturating_add(o)));
    }
    Ok(())
}

fn depth(_: &mut Compiler<'_>, d: &mut Draft<'_>, v: Value<'_>) -> Checked<()> {
    const WHO: &str = "detect-depth";
    let value = match d.last_content() {
        Some(content) => {
            if content.depth.is_some() {
                let said = "can't use multiple depths for the same content.";
                return Err(Refusal::new(WHO, said));
            }
            check_absolute(content, WHO)?;
            operand(d, v, "depth", ".")?
        }
        None => return Err(Refusal::new(WHO, needs_content("depth"))),
    };
    let content = previous(d, WHO, "")?;
    if let Operand::Number(n) = value {
        let len = content.bytes.len() as i32;
        if n < len {
            let said = format!("depth:{n} smaller than content of len {len}.");
            return Err(Refusal::new(WHO, said)
                .because(format!("the content has {len} bytes, so it can never match")));
        }
        content.depth = Some(match content.offset {
            Some(Operand::Number(o)) => Operand::Number(n.saturating_add(o)),
            _ => value,
        });
    } else {
        content.depth = Some(value);
    }
    Ok(())
}

/// A position and a fast pattern, as far as they exclude each other.
fn check_fast_pattern(content: &Content, who: &'static str) -> Checked<()> {
    if content.is_negated() && content.flags.has(ContentFlags::FAST_PATTERN) {
        let said = "can't have a relative negated keyword set along with 'fast_pattern'.";
        return Err(Refusal::new(who, said));
    }
    if content.flags.has(ContentFlags::FAST_PATTERN_ONLY) {
        let said = "can't have a relative keyword set along with 'fast_pattern:only;'.";
        return Err(Refusal::new(who, said));
    }
    Ok(())
}

fn check_absolute(content: &Content, who: &'static str) -> Checked<()> {
    if content.is_relative() {
        return Err(Refusal::new(who, MIXED));
    }
    check_fast_pattern(content, who)
}

fn check_anchor(content: &Content, who: &'static str, keyword: &str) -> Checked<()> {
    if content.starts_with() {
        let said = format!("can't use {keyword} with startswith.");
        return Err(Refusal::new(who, said));
    }
    Ok(())
}

fn distance(_: &mut Compiler<'_>, d: &mut Draft<'_>, v: Value<'_>) -> Checked<()> {
    const WHO: &str = "detect-distance";
    match d.last_content() {
        Some(content) => {
            if content.distance.is_some() {
                let said = "can't use multiple distances for the same content.";
                return Err(Refusal::new(WHO, said));
            }
            check_relative(content, WHO)?;
        }
        None => {
            let said = "distance needs preceding content option";
            return Err(Refusal::new(WHO, said));
        }
    }
    let value = operand(d, v, "distance", "")?;
    let content = previous(d, WHO, "")?;
    content.distance = Some(value);
    content.flags.set(ContentFlags::DISTANCE);
    relative_to_previous(d, WHO)
}

fn within(_: &mut Compiler<'_>, d: &mut Draft<'_>, v: Value<'_>) -> Checked<()> {
    const WHO: &str = "detect-within";
    match d.last_content() {
        Some(content) => {
            if content.within.is_some() {
                let said = "can't use multiple withins for the same content.";
                return Err(Refusal::new(WHO, said));
            }
            check_relative(content, WHO)?;
        }
        None => {
            return Err(Refusal::new(WHO, "within needs preceding content option"));
        }
    }
    let value = operand(d, v, "within", "")?;
    let content = previous(d, WHO, "")?;
    if let Operand::Number(n) = value {
        let len = content.bytes.len() as i32;
        if n < len {
            let said = format!(
                "within argument \"{n}\" is less than the content length \"{len}\" which is \
                 invalid, since this will never match.  Invalidating signature"
            );
            return Err(Refusal::new(WHO, said));
        }
    }
    content.within = Some(value);
    content.flags.set(ContentFlags::WITHIN);
    relative_to_previous(d, WHO)
}

fn check_relative(content: &Content, who: &'static str) -> Checked<()> {
    if content.offset.is_some() || content.depth.is_some() {
        return Err(Refusal::new(who, MIXED));
    }
    check_fast_pattern(content, who)
}

/// Notes in the match before that the last content depends on it. The first content of a buffer is
/// relative to its start.
fn relative_to_previous(d: &mut Draft<'_>, who: &'static str) -> Checked<()> {
    let Some(place) = d.last_content_place() else { return Ok(()) };
    let Some(list) = place.list(d) else { return Ok(()) };
    let before = list.get_mut(..place.at).unwrap_or_default();
    let only = before.iter().rev().find_map(|c| {
        let content = c.condition.content();
        let is_pcre = matches!(c.condition, BufferCondition::Pcre(_));
        let only = content.map(|c| c.flags.has(ContentFlags::FAST_PATTERN_ONLY));
        only.or_else(|| is_pcre.then_some(false))
    });
    if only == Some(true) {
        return Err(Refusal::new(
            who,
            "previous keyword has a fast_pattern:only; set. Can't have relative keywords around \
             a fast_pattern only content",
        ));
    }
    mark_relative_next(before);
    Ok(())
}

fn startswith(_: &mut Compiler<'_>, d: &mut Draft<'_>, _: Value<'_>) -> Checked<()> {
    const WHO: &str = "detect-depth";
    let content = previous(d, WHO, "startswith needs a preceding content option.")?;
    if content.depth.is_some() {
        let said = "can't use multiple depth/startswith settings for the same content. ";
        return Err(Refusal::new(WHO, said.trim_end()));
    }
    if content.is_relative() {
        return Err(Refusal::new(WHO, MIXED));
    }
    if content.is_negated() && content.flags.has(ContentFlags::FAST_PATTERN) {
        let said = "can't have a relative negated keyword set along with 'fast_pattern'.";
        return Err(Refusal::new(WHO, said));
    }
    if content.flags.has(ContentFlags::FAST_PATTERN_ONLY) {
        let said = "can't have a relative keyword set along with 'fast_pattern:only;'.";
        return Err(Refusal::new(WHO, said));
    }
    if content.offset.is_some() {
        return Err(Refusal::new(WHO, "can't use offset with startswith."));
    }
    content.depth = Some(Operand::Number(content.bytes.len() as i32));
    content.flags.set(ContentFlags::STARTS_WITH);
    Ok(())
}

fn endswith(_: &mut Compiler<'_>, d: &mut Draft<'_>, _: Value<'_>) -> Checked<()> {
    const WHO: &str = "detect-endswith";
    let content = previous(d, WHO, "endswith needs preceding content option")?;
    if content.ends_with() {
        let said = "can't use multiple endswith settings for the same content";
        return Err(Refusal::new(WHO, said));
    }
    content.flags.set(ContentFlags::ENDS_WITH);
    Ok(())
}

fn fast_pattern(c: &mut Compiler<'_>, d: &mut Draft<'_>, v: Value<'_>) -> Checked<()> {
    const WHO: &str = "detect-fast-pattern";
    let refuse = |said: &str| Err(Refusal::new(WHO, said));
    let Some(place) = d.last_content_place() else {
        return refuse(
            "fast_pattern found inside the rule, without a content context.  Please use a content \
             based keyword before using fast_pattern",
        );
    };
    if place.buffer.is_none() {
        return refuse("fast_pattern cannot be used with base64_data");
    }
    if d.inert.is_none() && !supports_fast_pattern(c, d, place.buffer) {
        return refuse("fast_pattern found inside the rule, without a buffer that supports it");
    }
    let others = d.buffers.iter().flat_map(|b| &b.conditions).any(|x| {
        matches!(&x.condition, BufferCondition::Content(x) if x.flags.has(ContentFlags::FAST_PATTERN))
    });
    let content = previous(d, WHO, "")?;
    let is_bound = content.is_relative() || content.offset.is_some() || content.depth.is_some();
    if content.is_negated() && is_bound {
        return refuse(
            "fast_pattern; cannot be used with negated content, along with relative modifiers",
        );
    }
    if v.text == "only" && (content.is_negated() || is_bound) {
        return refuse(
            "fast_pattern: only; cannot be used with negated content or with any of the relative \
             modifiers like distance, within, offset, depth",
        );
    }
    if others {
        return refuse("fast_pattern can be used on only one content in a rule");
    }
    if !v.is_some {
        content.flags.set(ContentFlags::FAST_PATTERN);
        return Ok(());
    }
    if v.text == "only" {
        content.flags.set(ContentFlags::FAST_PATTERN);
        content.flags.set(ContentFlags::FAST_PATTERN_ONLY);
        return Ok(());
    }
    chop(content, v.text)
}

fn chop(content: &mut Content, text: &str) -> Checked<()> {
    const WHO: &str = "detect-fast-pattern";
    let numbers = text.split_once(',').and_then(|(offset, len)| {
        Some((offset.trim().parse::<u16>().ok()?, len.trim().parse::<u16>().ok()?))
    });
    let Some((offset, len)) = numbers else {
        let said = format!("parse error, ret -1, string {text}");
        return Err(Refusal::new(WHO, said));
    };
    let have = content.bytes.len();
    let end = usize::from(offset) + usize::from(len);
    if end > usize::from(u16::MAX) {
        let said = "Fast pattern (length + offset) exceeds limit pattern length limit".to_string();
        return Err(Refusal::new(WHO, said));
    }
    if end > have {
        let said =
            format!("Fast pattern (length + offset ({end})) exceeds pattern length ({have})");
        return Err(Refusal::new(WHO, said));
    }
    content.flags.set(ContentFlags::FAST_PATTERN);
    if offset == 0 && usize::from(len) == have {
        return Ok(());
    }
    content.chop_offset = offset;
    content.chop_len = len;
    content.flags.set(ContentFlags::FAST_PATTERN_CHOP);
    Ok(())
}

/// Every buffer with bytes of its own can serve the matcher.
fn supports_fast_pattern(c: &Compiler<'_>, d: &Draft<'_>, buffer: Option<usize>) -> bool {
    let Some(b) = buffer.and_then(|at| d.buffers.get(at)) else { return true };
    match b.buffer {
        Some(BufferRef::App(id)) => c.catalog.buffer(id).is_none_or(|b| b.def.priority != 0),
        _ => true,
    }
}

fn replace(_: &mut Compiler<'_>, d: &mut Draft<'_>, v: Value<'_>) -> Checked<()> {
    const WHO: &str = "detect-replace";
    if v.negated {
        let said = format!("Can't negate replacement string: {}", v.text);
        return Err(Refusal::new(WHO, said));
    }
    let bytes = decode(v.text)?;
    let Some(place) = d.last_content_place() else {
        let said = "replace needs preceding content option for raw sig";
        return Err(Refusal::new(WHO, said));
    };
    let Some(at) = place.buffer else {
        return Err(Refusal::new(WHO, "replace can only be used with raw payload content"));
    };
    if d.buffers.get(at).and_then(|b| b.buffer) != Some(BufferRef::Payload) {
        return Err(Refusal::new(WHO, "replace needs preceding content option for raw sig"));
    }
    let content = previous(d, WHO, "")?;
    if content.is_negated() {
        let said = "can't have a relative negated keyword set along with a replacement";
        return Err(Refusal::new(WHO, said));
    }
    if content.bytes.len() != bytes.len() {
        let said = "can't have a content length different from replace length";
        return Err(Refusal::new(WHO, said));
    }
    let (inspection, condition) =
        (u8::try_from(at).unwrap_or(u8::MAX), u8::try_from(place.at).unwrap_or(u8::MAX));
    d.post.push(PostMatch::Replace { inspection, condition, bytes });
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn contents_are_decoded() {
        for (text, wanted) in [
            ("abc", &b"abc"[..]),
            ("a|41 42|b", b"aABb"),
            ("|4142|", b"AB"),
            ("|4 1 4 2|", b"AB"),
            (r#"a\"b\;c\:d\\e"#, b"a\"b;c:d\\e"),
            ("ab||cd", b"abcd"),
        ] {
            assert_eq!(&*decode(text).unwrap(), wanted, "{text}");
        }
        for text in ["|41 4|", "|4x|", "|41", "a|", r"a\q", "a\"b"] {
            assert!(decode(text).is_err(), "{text}");
        }
    }
}
