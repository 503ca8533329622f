//! Splits rule files into rules, and a rule into header words and options.
//!
//! All of it works on borrowed text: an option's keyword and value are slices of the rule, so that
//! diagnostics can point at the column and nothing is copied. Only a rule that covers several
//! lines is joined first.

use std::borrow::Cow;

/// A rule as it is in its file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RuleText<'t> {
    /// Line of its first character, from 1.
    pub line: u32,
    /// The rule, lines joined, without its line end.
    pub text: Cow<'t, str>,
    /// The line begins with white space: Suricata skips such lines without a word.
    pub is_indented: bool,
}

/// Rules of a file in order: comments and empty lines are left out, lines that end in a backslash
/// are joined with the next.
pub fn rules(text: &str) -> impl Iterator<Item = RuleText<'_>> {
    rules_from(text, 1)
}

/// The same of a part of a file that begins with this line.
pub(crate) fn rules_from(text: &str, first_line: u32) -> impl Iterator<Item = RuleText<'_>> {
    let mut lines = text.split('\n').zip(first_line..);
    std::iter::from_fn(move || {
        loop {
            let (line, number) = lines.next()?;
            let line = line.strip_suffix('\r').unwrap_or(line);
            if matches!(line.as_bytes().first(), None | Some(b'#')) {
                continue;
            }
            let is_indented = line.starts_with([' ', '\t']);
            if is_indented && line.trim().is_empty() {
                continue;
            }
            let mut joined: Cow<'_, str> = Cow::Borrowed(line);
            while let Some(part) = continued(&joined) {
                let mut whole = part.to_string();
                let Some((next, _)) = lines.next() else {
                    joined = Cow::Owned(whole);
                    break;
                };
                whole.push_str(next.strip_suffix('\r').unwrap_or(next));
                joined = Cow::Owned(whole);
            }
            return Some(RuleText { line: number, text: joined, is_indented });
        }
    })
}

impl RuleText<'_> {
    /// How many of these bytes of a rule file, from their start, are lines that no rule continues beyond: with these a part
    /// of the file may end. 0 where there are none.
    pub fn end_of_whole_rules(bytes: &[u8]) -> usize {
        let is_whole = |end: &usize| {
            let mut line = bytes[..*end].iter().rev();
            line.find(|byte| !matches!(byte, b' ' | b'\t' | b'\r')) != Some(&b'\\')
        };
        memchr::memrchr_iter(b'\n', bytes).find(is_whole).map_or(0, |end| end + 1)
    }
}

/// Lines that are no comments: there are hardly fewer rules.
pub(crate) fn count_lines(text: &str) -> usize {
    let bytes = text.as_bytes();
    let starts = memchr::memchr_iter(b'\n', bytes).map(|end| end + 1);
    let is_rule = |at: &usize| bytes.get(*at).is_some_and(|first| !matches!(first, b'#' | b'\n'));
    [0].into_iter().chain(starts).filter(is_rule).count()
}

/// The text before a backslash that ends the line (white space may follow it).
fn continued(line: &str) -> Option<&str> {
    line.trim_end_matches([' ', '\t', '\r']).strip_suffix('\\')
}

/// A piece of a rule with its position in it, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub(crate) struct Piece<'t> {
    /// The text.
    pub text: &'t str,
    /// Where it starts.
    pub at: usize,
}

/// The words before the options, and the options' text without the parentheses.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub(crate) struct Parts<'t> {
    /// Action.
    pub action: Piece<'t>,
    /// Protocol, perhaps with a hook.
    pub proto: Piece<'t>,
    /// Source addresses.
    pub src: Piece<'t>,
    /// Source ports.
    pub src_ports: Piece<'t>,
    /// Direction.
    pub direction: Piece<'t>,
    /// Destination addresses.
    pub dst: Piece<'t>,
    /// Destination ports.
    pub dst_ports: Piece<'t>,
    /// Everything after it, parentheses taken off.
    pub options: Piece<'t>,
    /// Something followed the header, were it only parentheses.
    pub has_options: bool,
}

/// Splits a rule. Missing parts are empty.
pub(crate) fn split(rule: &str) -> Parts<'_> {
    let mut at = 0;
    let action = word(rule, &mut at);
    let proto = word(rule, &mut at);
    let src = list(rule, &mut at);
    let src_ports = list(rule, &mut at);
    let direction = word(rule, &mut at);
    let dst = list(rule, &mut at);
    let dst_ports = list(rule, &mut at);
    let rest = rule.get(at..).unwrap_or("");
    let opened = rest.trim_start_matches(|c: char| c.is_ascii_whitespace() || c == '(');
    let at = at + (rest.len() - opened.len());
    let options = opened.trim_end_matches(|c: char| c.is_ascii_whitespace() || c == ')');
    Parts {
        action,
        proto,
        src,
        src_ports,
        direction,
        dst,
        dst_ports,
        options: Piece { text: options, at },
        has_options: !rest.trim_ascii().is_empty(),
    }
}

fn skip_space(rule: &str, at: &mut usize) {
    let bytes = rule.as_bytes();
    while bytes.get(*at).is_some_and(u8::is_ascii_whitespace) {
        *at += 1;
    }
}

fn word<'t>(rule: &'t str, at: &mut usize) -> Piece<'t> {
    skip_space(rule, at);
    let start = *at;
    let bytes = rule.as_bytes();
    while bytes.get(*at).is_some_and(|b| !b.is_ascii_whitespace()) {
        *at += 1;
    }
    Piece { text: rule.get(start..*at).unwrap_or(""), at: start }
}

/// A word in which white space between brackets does not end it.
fn list<'t>(rule: &'t str, at: &mut usize) -> Piece<'t> {
    skip_space(rule, at);
    let start = *at;
    let bytes = rule.as_bytes();
    let mut depth = 0usize;
    while let Some(b) = bytes.get(*at) {
        match b {
            b'[' => depth += 1,
            b']' => depth = depth.saturating_sub(1),
            b if b.is_ascii_whitespace() && depth == 0 => break,
            _ => {}
        }
        *at += 1;
    }
    Piece { text: rule.get(start..*at).unwrap_or(""), at: start }
}

/// An option: keyword and the text after its colon, white space around both taken off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RuleOption<'t> {
    /// Keyword.
    pub keyword: Piece<'t>,
    /// Value; `None` without a colon.
    pub value: Option<Piece<'t>>,
}

/// The options of a rule in order; an error is the place where a `;` is missing.
pub(crate) fn options<'t>(
    all: Piece<'t>,
) -> impl Iterator<Item = Result<RuleOption<'t>, Piece<'t>>> {
    let mut rest = all;
    std::iter::from_fn(move || {
        rest = trim_start(rest);
        if rest.text.is_empty() {
            return None;
        }
        let Some(end) = unescaped_semicolon(rest.text) else {
            let lost = rest;
            rest = Piece { text: "", at: lost.at };
            return Some(Err(lost));
        };
        let option = Piece { text: rest.text.get(..end).unwrap_or(""), at: rest.at };
        rest = Piece { text: rest.text.get(end + 1..).unwrap_or(""), at: rest.at + end + 1 };
        Some(Ok(match option.text.find(':') {
            None => RuleOption { keyword: trim(option), value: None },
            Some(colon) => RuleOption {
                keyword: trim(Piece {
                    text: option.text.get(..colon).unwrap_or(""),
                    at: option.at,
                }),
                value: Some(trim(Piece {
                    text: option.text.get(colon + 1..).unwrap_or(""),
                    at: option.at + colon + 1,
                })),
            },
        }))
    })
}

fn unescaped_semicolon(text: &str) -> Option<usize> {
    memchr::memchr_iter(b';', text.as_bytes())
        .find(|at| *at == 0 || text.as_bytes().get(at - 1) != Some(&b'\\'))
}

/// Without white space in front.
pub(crate) fn trim_start(p: Piece<'_>) -> Piece<'_> {
    let text = p.text.trim_start_matches(|c: char| c.is_ascii_whitespace());
    Piece { text, at: p.at + (p.text.len() - text.len()) }
}

/// Without white space around.
pub(crate) fn trim(p: Piece<'_>) -> Piece<'_> {
    let p = trim_start(p);
    Piece { text: p.text.trim_end_matches(|c: char| c.is_ascii_whitespace()), at: p.at }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_joined_and_comments_left_out() {
        let text = "# c\n\nalert a \\\n b \\\r\nc\r\n#x\n drop y\nlast";
        let got: Vec<_> =
            rules(text).map(|r| (r.line, r.text.into_owned(), r.is_indented)).collect();
        assert_eq!(
            got,
            [
                (3, "alert a  b c".to_string(), false),
                (7, " drop y".to_string(), true),
                (8, "last".to_string(), false),
            ]
        );
    }

    /// Wherever a file is cut at such a place, its parts have the rules of the whole, with their lines.
    #[test]
    fn parts_of_a_file_have_the_rules_of_the_whole() {
        let text = "# c\n\nalert a \\\n b \\ \t\r\nc\r\n#x \\\n drop y\n\n\\\nz\nlast";
        let whole: Vec<_> = rules(text).collect();
        assert_eq!(whole.iter().map(|r| r.line).collect::<Vec<_>>(), [3, 7, 9, 11]);
        assert!(count_lines(text) >= whole.len());
        let mut cuts = std::collections::BTreeSet::new();
        for len in 0..=text.len() {
            let cut = RuleText::end_of_whole_rules(&text.as_bytes()[..len]);
            cuts.insert(cut);
            let (first, second) = text.split_at(cut);
            let line = 1 + u32::try_from(first.matches('\n').count()).unwrap();
            let parts: Vec<_> = rules(first).chain(rules_from(second, line)).collect();
            assert_eq!(parts, whole, "{first:?}");
        }
        let ends = |part: &str| text.find(part).unwrap() + part.len();
        let wanted = [0, 4, 5, ends("\nc\r\n"), ends("drop y\n"), ends("drop y\n\n"), ends("z\n")];
        assert_eq!(cuts.into_iter().collect::<Vec<_>>(), wanted);
    }

    #[test]
    fn a_rule_is_split_with_positions() {
        let rule =
            r#"alert tcp [ 1.1.1.1, 2.2.2.2 ] any -> any 80 (msg:"a\;b"; content : "x" ;nocase;)"#;
        let p = split(rule);
        assert_eq!(p.src.text, "[ 1.1.1.1, 2.2.2.2 ]");
        assert_eq!(p.dst_ports.text, "80");
        let got: Vec<_> = options(p.options).map(Result::unwrap).collect();
        let texts: Vec<_> = got.iter().map(|o| (o.keyword.text, o.value.map(|v| v.text))).collect();
        assert_eq!(
            texts,
            [("msg", Some(r#""a\;b""#)), ("content", Some(r#""x""#)), ("nocase", None)]
        );
        let v = got[1].value.unwrap();
        assert_eq!(&rule[v.at..v.at + v.text.len()], v.text);
    }

    #[test]
    fn a_missing_semicolon_is_reported_once() {
        let p = split("alert tcp any any -> any any (sid:1)");
        let got: Vec<_> = options(p.options).collect();
        assert_eq!(got.len(), 1);
        assert!(got[0].is_err());
    }
}
