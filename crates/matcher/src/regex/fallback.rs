//! The linear-time fallback: a Perl-compatible expression translated for the `regex` crate.
//!
//! Both dialects agree on the syntax that rules use, with a few exceptions. These are translated or
//! refused here, so that the fallback never differs from PCRE2: `\<` and `\>` are literal in PCRE2
//! and word boundaries in `regex`; `\v` is a class in PCRE2; set operators (`&&`, `~~`, `--`) and
//! nested classes exist only in `regex`; white space in classes under `x` is literal in PCRE2; `$`
//! matches before a last line end in PCRE2.

use super::Flags;
use crate::limits::REGEX_FALLBACK_BYTES_MAX;
use regex::bytes::{Regex, RegexBuilder};

#[derive(Debug)]
pub(super) struct Fallback {
    free: Regex,
    anchored: Regex,
    /// `$` may also match before a line end that is the last byte.
    dollar_before_newline: bool,
}

impl Fallback {
    /// `None` if the expression has no exact counterpart.
    pub(super) fn new(pattern: &[u8], flags: Flags) -> Option<Fallback> {
        let text = translate(pattern, flags)?;
        let build = |text: &str| {
            RegexBuilder::new(text)
                .unicode(false)
                .case_insensitive(flags.caseless)
                .multi_line(flags.multiline)
                .dot_matches_new_line(flags.dotall)
                .ignore_whitespace(flags.extended)
                .swap_greed(flags.ungreedy)
                .size_limit(REGEX_FALLBACK_BYTES_MAX)
                .dfa_size_limit(REGEX_FALLBACK_BYTES_MAX)
                .build()
                .ok()
        };
        // A comment under `x` may run to the end of the expression: the line end closes it.
        let anchored = format!("\\A(?:{text}\n)");
        let anchored = if flags.extended { anchored } else { format!("\\A(?:{text})") };
        Some(Fallback {
            free: build(&text)?,
            anchored: build(&anchored)?,
            dollar_before_newline: !flags.dollar_endonly && !flags.multiline && text.contains('$'),
        })
    }

    /// Searches from `start` and fills `groups` with the bounds of all groups.
    pub(super) fn search(
        &self,
        hay: &[u8],
        start: usize,
        anchored: bool,
        start_max: usize,
        groups: &mut Vec<Option<(usize, usize)>>,
    ) -> bool {
        let whole = self.search_in(hay, start, anchored, groups);
        let mut found = whole;
        if let (true, Some((b'\n', before))) = (self.dollar_before_newline, hay.split_last()) {
            let mut other = Vec::new();
            let first = |groups: &[Option<(usize, usize)>]| groups.first().copied().flatten();
            if start <= before.len() && self.search_in(before, start, anchored, &mut other) {
                let earlier = match (first(&other), first(groups)) {
                    (Some(other), Some(this)) => other.0 < this.0,
                    _ => true,
                };
                if !whole || earlier {
                    *groups = other;
                }
                found = true;
            }
        }
        found && groups.first().copied().flatten().is_some_and(|(from, _)| from <= start_max)
    }

    fn search_in(
        &self,
        hay: &[u8],
        start: usize,
        anchored: bool,
        groups: &mut Vec<Option<(usize, usize)>>,
    ) -> bool {
        groups.clear();
        let (captures, base) = if anchored {
            let Some(rest) = hay.get(start..) else { return false };
            (self.anchored.captures(rest), start)
        } else {
            if start > hay.len() {
                return false;
            }
            (self.free.captures_at(hay, start), 0)
        };
        let Some(captures) = captures else { return false };
        groups.extend(captures.iter().map(|g| g.map(|g| (g.start() + base, g.end() + base))));
        true
    }
}

/// Rewrites syntax in which the two dialects differ; `None` if it can't be rewritten.
fn translate(pattern: &[u8], flags: Flags) -> Option<String> {
    if !pattern.is_ascii() || pattern.starts_with(b"(*") {
        return None;
    }
    let mut out = String::with_capacity(pattern.len() + 16);
    let mut rest = pattern.iter().copied().peekable();
    while let Some(byte) = rest.next() {
        match byte {
            b'\\' => escape(rest.next()?, false, &mut out)?,
            b'[' => {
                if flags.extended {
                    return None;
                }
                class(&mut rest, &mut out)?;
            }
            // Inline `x` would change how classes are parsed; comment groups exist only in PCRE2.
            b'(' if rest.peek() == Some(&b'?') => {
                let ahead: Vec<u8> = rest.clone().skip(1).take(8).collect();
                let letters = ahead.iter().take_while(|b| b.is_ascii_alphabetic() || **b == b'-');
                if ahead.first() == Some(&b'#') || letters.clone().any(|&b| b == b'x') {
                    return None;
                }
                out.push('(');
            }
            _ => out.push(char::from(byte)),
        }
    }
    Some(out)
}

fn escape(byte: u8, in_class: bool, out: &mut String) -> Option<()> {
    match byte {
        // These mean something else in PCRE2: vertical space, escapes, end of string, case and
        // quoting.
        b'v' | b'Q' | b'E' | b'G' | b'Z' | b'K' | b'C' | b'N' | b'R' | b'X' | b'p' | b'P'
        | b'u' | b'U' | b'o' | b'c' | b'g' | b'k' | b'l' | b'L' | b'h' | b'H' | b'V' => None,
        b'b' if in_class => None,
        b'0'..=b'9' => None,
        // A punctuation mark after a backslash is literal in PCRE2; in `regex` it may be special.
        b'<' | b'>' | b'"' | b'\'' | b'/' | b':' | b',' | b';' | b'=' | b'!' | b'@' | b'%'
        | b'_' | b'`' | b' ' => {
            out.push_str(&format!("\\x{byte:02x}"));
            Some(())
        }
        _ => {
            out.push('\\');
            out.push(char::from(byte));
            Some(())
        }
    }
}

fn class(
    rest: &mut core::iter::Peekable<impl Iterator<Item = u8> + Clone>,
    out: &mut String,
) -> Option<()> {
    out.push('[');
    if rest.next_if_eq(&b'^').is_some() {
        out.push('^');
    }
    if rest.next_if_eq(&b']').is_some() {
        out.push_str("\\]");
    }
    loop {
        match rest.next()? {
            b']' => {
                out.push(']');
                return Some(());
            }
            b'\\' => escape(rest.next()?, true, out)?,
            b'[' if rest.peek() == Some(&b':') => {
                let name: Vec<u8> = rest.clone().take(16).collect();
                let end = name.windows(2).position(|pair| pair == b":]")? + 2;
                out.push('[');
                rest.take(end).for_each(|byte| out.push(char::from(byte)));
            }
            b'[' if matches!(rest.peek(), Some(b'.' | b'=')) => return None,
            b'-' if rest.peek() == Some(&b'-') => return None,
            byte @ (b'[' | b'&' | b'~') => {
                out.push('\\');
                out.push(char::from(byte));
            }
            byte => out.push(char::from(byte)),
        }
    }
}
