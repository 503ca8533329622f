//! `pcre`: expression, options, buffer letters, captures.

use super::sticky;
use crate::compiler::Compiler;
use crate::content::{BufferCondition, Capture, CaptureTarget, Pcre, PcreOptions};
use crate::diagnostic::{Checked, Refusal};
use crate::draft::{Draft, List, mark_relative_next};
use crate::keyword::{Setup, Value};
use crate::lexer::Piece;
use crate::limits::CAPTURES_MAX;
use gabion_matcher::regex::{Flags, Limits, Regex};

/// Keywords of this file.
pub(super) const KEYWORDS: &[(&str, Setup)] = &[("pcre", pcre)];

const WHO: &str = "detect-pcre";

/// An expression between slashes and what follows it.
pub(super) struct Expression<'t> {
    pub(super) pattern: Piece<'t>,
    pub(super) options: PcreOptions,
    relative: bool,
    override_limits: bool,
    rawbytes: bool,
    buffer: Option<u8>,
    captures: &'t str,
}

/// Splits `/pattern/letters, captures`.
pub(super) fn split<'t>(v: Value<'t>) -> Checked<Expression<'t>> {
    let (pattern, tail) = slashes(v).ok_or_else(|| {
        Refusal::new(WHO, format!("pcre parse error: {}", v.text))
            .because("an expression is written between slashes")
    })?;
    let (letters, captures) = match tail.split_once(',') {
        Some((letters, captures)) if is_capture(captures) => (letters, captures),
        _ => (tail, ""),
    };
    let mut e = Expression {
        pattern,
        options: PcreOptions::default(),
        relative: false,
        override_limits: false,
        rawbytes: false,
        buffer: None,
        captures,
    };
    for letter in letters.chars() {
        match letter {
            'i' => e.options.caseless = true,
            'm' => e.options.multiline = true,
            's' => e.options.dot_all = true,
            'x' => e.options.extended = true,
            'A' => e.options.anchored = true,
            'E' => e.options.dollar_end_only = true,
            'G' => e.options.ungreedy = true,
            'R' => e.relative = true,
            'O' => e.override_limits = true,
            // without effect
            'B' => e.rawbytes = true,
            'U' | 'I' | 'P' | 'Q' | 'H' | 'D' | 'M' | 'C' | 'S' | 'Y' | 'V' | 'W' | 'Z' => {
                let letter = letter as u8;
                if e.buffer.is_some_and(|b| b != letter) {
                    let said = "only one pcre option to specify a buffer type is allowed";
                    return Err(Refusal::new(WHO, said));
                }
                e.buffer = Some(letter);
            }
            other => {
                return Err(Refusal::new(WHO, format!("unknown regex modifier '{other}'")));
            }
        }
    }
    Ok(e)
}

fn is_capture(text: &str) -> bool {
    let t = text.trim_start();
    ["flow:", "pkt:", "alert:"].iter().any(|p| t.starts_with(p))
}

/// The pattern from the first slash to the last one that no backslash escapes, and what follows.
fn slashes(v: Value<'_>) -> Option<(Piece<'_>, &str)> {
    let bytes = v.text.as_bytes();
    let start = v.text.find('/')? + 1;
    let mut end = bytes.len();
    loop {
        end = v.text.get(..end)?.rfind('/')?;
        if end < start {
            return None;
        }
        let backslashes = bytes.get(start..end)?.iter().rev().take_while(|b| **b == b'\\').count();
        if backslashes % 2 == 0 {
            break;
        }
    }
    let pattern = Piece { text: v.text.get(start..end)?, at: v.at + start };
    Some((pattern, v.text.get(end + 1..)?))
}

fn pcre<'t>(c: &mut Compiler<'_>, d: &mut Draft<'t>, v: Value<'t>) -> Checked<()> {
    let e = split(v)?;
    check(e.pattern, e.options)?;
    let captures = captures(c, e.pattern.text, e.captures)?;
    if let Some(letter) = e.buffer {
        return in_letter_buffer(c, d, v, letter, e, captures);
    }
    push(c, d, v, e, captures)
}

fn push(
    c: &mut Compiler<'_>,
    d: &mut Draft<'_>,
    v: Value<'_>,
    e: Expression<'_>,
    captures: Box<[Capture]>,
) -> Checked<()> {
    // in a sticky buffer the first expression is relative to its start
    let is_sticky = matches!(d.list, List::Buffer(_)) && e.buffer.is_none();
    if e.relative && !mark_relative_next(d.conditions()) && !is_sticky {
        let said = "pcre with /R (relative) needs preceding match in the same buffer";
        return Err(Refusal::new(WHO, said));
    }
    d.push(BufferCondition::Pcre(Box::new(Pcre {
        pattern: c.text(e.pattern),
        options: e.options,
        negated: v.negated,
        relative: e.relative,
        relative_next: false,
        override_limits: e.override_limits,
        rawbytes: e.rawbytes,
        captures,
    })))
}

/// The expression goes to the buffer of its letter, as a content with the legacy modifier would.
fn in_letter_buffer(
    c: &mut Compiler<'_>,
    d: &mut Draft<'_>,
    v: Value<'_>,
    letter: u8,
    e: Expression<'_>,
    captures: Box<[Capture]>,
) -> Checked<()> {
    let before = d.list;
    if matches!(before, List::Buffer(_)) {
        // the sticky buffer wins over the letter, as with Suricata
        return push(c, d, v, e, captures);
    }
    if letter == b'W' && !e.options.caseless && has_capital(e.pattern.text) {
        let said = "pcre host(\"W\") specified has an uppercase char.  Since the hostname buffer \
                    we match against is actually lowercase, please specify an all lowercase based \
                    pcre.";
        return Err(Refusal::new(WHO, said));
    }
    match c.catalog.buffer_by_pcre_flag(letter) {
        Some(id) => {
            sticky::restrict_to_letter(c, d, id, letter)?;
            let at = d.buffer_index(crate::signature::BufferRef::App(id), false);
            d.list = List::Buffer(at);
        }
        None => {
            d.inert.get_or_insert("pcre with a letter of http");
            sticky::inert_buffer(d, false);
        }
    }
    let pushed = push(c, d, v, e, captures);
    d.list = before;
    pushed
}

/// A capital that is not part of an escape.
fn has_capital(pattern: &str) -> bool {
    let mut escaped = false;
    pattern.bytes().any(|b| {
        let literal = !escaped;
        escaped = b == b'\\' && literal;
        literal && b.is_ascii_uppercase()
    })
}

/// Compiles the expression once to see that it is one.
pub(super) fn check(pattern: Piece<'_>, options: PcreOptions) -> Checked<()> {
    let flags = Flags { jit: false, ..flags(options) };
    match Regex::new(pattern.text.as_bytes(), flags, Limits::default()) {
        Ok(_) => Ok(()),
        Err(e) => {
            let said = format!(
                "pcre2 compile of \"/{}/\" failed at offset {}: {}",
                pattern.text, e.offset, e.message
            );
            Err(Refusal::new(WHO, said).at(pattern.at + e.offset.min(pattern.text.len()), 1))
        }
    }
}

/// The options in the words of the expression compiler.
pub(crate) fn flags(o: PcreOptions) -> Flags {
    Flags {
        caseless: o.caseless,
        multiline: o.multiline,
        dotall: o.dot_all,
        extended: o.extended,
        anchored: o.anchored,
        dollar_endonly: o.dollar_end_only,
        ungreedy: o.ungreedy,
        ..Flags::default()
    }
}

/// Named captures: after the letters (`,flow:a,pkt:b` for groups 1 and 2), or in the expression
/// (`(?P<flow_a>…)`).
fn captures(c: &mut Compiler<'_>, pattern: &str, names: &str) -> Checked<Box<[Capture]>> {
    let mut out = Vec::new();
    let groups = capture_groups(pattern);
    if names.is_empty() {
        for (at, prefix, target) in [
            ("(?P<flow_", CaptureTarget::Flow),
            ("(?P<pkt_", CaptureTarget::Packet),
            ("(?P<alert_", CaptureTarget::Alert),
        ]
        .iter()
        .flat_map(|(p, t)| pattern.match_indices(p).map(|(at, p)| (at, p, *t)))
        {
            let name = pattern.get(at + prefix.len()..).unwrap_or("");
            let name = name.split('>').next().unwrap_or("");
            let group = u8::try_from(count_groups(pattern, at) + 1).unwrap_or(u8::MAX);
            let name = c.set.variables.intern(name);
            out.push(Capture { group, target, name });
        }
        return Ok(out.into());
    }
    for (n, entry) in (1u8..).zip(names.split(',').map(str::trim)) {
        let (target, name) = match entry.split_once(':') {
            Some(("flow", name)) => (CaptureTarget::Flow, name),
            Some(("pkt", name)) => (CaptureTarget::Packet, name),
            Some(("alert", name)) => (CaptureTarget::Alert, name),
            _ => {
                let said = format!("unknown capture \"{entry}\"");
                return Err(Refusal::new(WHO, said));
            }
        };
        if usize::from(n) > groups || out.len() >= CAPTURES_MAX {
            let said = "more pkt/flow var capture names than capturing substrings";
            return Err(Refusal::new(WHO, said));
        }
        let name = c.set.variables.intern(name);
        out.push(Capture { group: n, target, name });
    }
    Ok(out.into())
}

/// Capture groups of an expression.
pub(super) fn capture_groups(pattern: &str) -> usize {
    count_groups(pattern, pattern.len())
}

/// Capture groups that open before a position.
fn count_groups(pattern: &str, until: usize) -> usize {
    let bytes = pattern.as_bytes();
    let mut count = 0;
    let mut in_class = false;
    let mut at = 0;
    while at < until.min(bytes.len()) {
        match bytes[at] {
            b'\\' => at += 1,
            b'[' => in_class = true,
            b']' => in_class = false,
            b'(' if !in_class => {
                let rest = pattern.get(at + 1..).unwrap_or("");
                let named = rest.starts_with("?P<")
                    || rest.starts_with("?'")
                    || (rest.starts_with("?<")
                        && !rest.starts_with("?<=")
                        && !rest.starts_with("?<!"));
                if named || !rest.starts_with(['?', '*']) {
                    count += 1;
                }
            }
            _ => {}
        }
        at += 1;
    }
    count
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(text: &str) -> Value<'_> {
        Value { text, at: 0, negated: false, is_some: true }
    }

    #[test]
    fn expressions_are_split() {
        let e = split(value(r"/a\/b/Ui")).unwrap();
        assert_eq!((e.pattern.text, e.buffer, e.options.caseless), (r"a\/b", Some(b'U'), true));
        let e = split(value("/a/b/R")).unwrap();
        assert_eq!((e.pattern.text, e.relative), ("a/b", true));
        let e = split(value("/(a)/i,flow:x,pkt:y")).unwrap();
        assert_eq!(e.captures, "flow:x,pkt:y");
        for bad in ["a", "/a/q", "/a/UH", "/a"] {
            assert!(split(value(bad)).is_err(), "{bad}");
        }
    }

    #[test]
    fn groups_are_counted() {
        for (pattern, n) in [("(a)(?:b)(?P<x>c)", 2), (r"\((a)", 1), ("[(]((a))", 2), ("(?i)a", 0)]
        {
            assert_eq!(count_groups(pattern, pattern.len()), n, "{pattern}");
        }
    }
}
