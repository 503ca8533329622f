//! Comparisons of text: equality, sets, parts, patterns and paths.

use super::error::Fault;
use super::glob::Glob;
use super::number::compare;
use crate::lang::{Op, Quantifier};
use crate::limits::REGEX_BYTES_MAX;
use foldhash::fast::FixedState;
use hashbrown::HashSet;
use memchr::memmem::Finder;

/// Sets up to this number of texts are searched one by one, which costs less than a hash.
const SMALL_SET: usize = 4;

/// A comparison of a text with what a rule gives.
#[derive(Debug)]
pub(super) enum TextTest {
    /// An order, equality or its opposite.
    Ordered(Op, Box<[u8]>),
    /// It is one of a few texts.
    Few(Vec<Box<[u8]>>),
    /// It is one of many texts.
    Many(HashSet<Box<[u8]>, FixedState>),
    /// It contains the text.
    Contains(Box<Finder<'static>>),
    /// It contains the text without regard to case; the text is in small letters.
    ContainsAnyCase(Box<[u8]>),
    /// It begins with the text.
    StartsWith(Box<[u8]>),
    /// It ends with the text.
    EndsWith(Box<[u8]>),
    /// It matches a file name pattern.
    Glob(Glob),
    /// It matches a regular expression as a whole.
    Regex(Box<regex::bytes::Regex>),
    /// It is below one of the paths.
    Paths(Vec<PathPrefix>),
    /// Any of several comparisons holds.
    Any(Vec<TextTest>),
    /// Exactly one of several holds: `oneof`.
    One(Vec<TextTest>),
    /// All of several comparisons hold.
    All(Vec<TextTest>),
}

impl TextTest {
    /// The comparison with one text.
    pub(super) fn single(op: Op, text: &str) -> Result<TextTest, Fault> {
        let bytes = || text.as_bytes().into();
        Ok(match op {
            Op::Less | Op::LessEqual | Op::Greater | Op::GreaterEqual => {
                TextTest::Ordered(op, bytes())
            }
            Op::Equal | Op::EqualEqual | Op::NotEqual => TextTest::Ordered(op, bytes()),
            Op::Contains => contains(text.as_bytes()),
            Op::ContainsBytes => contains(&from_hex(text)?),
            Op::ContainsAnyCase => {
                TextTest::ContainsAnyCase(text.to_ascii_lowercase().into_bytes().into())
            }
            Op::StartsWith => TextTest::StartsWith(bytes()),
            Op::StartsWithBytes => TextTest::StartsWith(from_hex(text)?.into()),
            Op::EndsWith => TextTest::EndsWith(bytes()),
            Op::Glob => TextTest::Glob(Glob::new(text.as_bytes(), false)),
            Op::GlobAnyCase => TextTest::Glob(Glob::new(text.as_bytes(), true)),
            Op::Regex => TextTest::Regex(Box::new(regex(text)?)),
            Op::In | Op::Intersects | Op::PathMatch => TextTest::list(op, &[text.to_string()]),
        })
    }

    /// The comparison with a list: `in`, `intersects` or `pmatch`.
    pub(super) fn list(op: Op, texts: &[String]) -> TextTest {
        if op == Op::PathMatch {
            return TextTest::Paths(texts.iter().map(|text| PathPrefix::new(text)).collect());
        }
        let boxed = texts.iter().map(|text| Box::from(text.as_bytes()));
        let set = if texts.len() <= SMALL_SET {
            TextTest::Few(boxed.collect())
        } else {
            TextTest::Many(boxed.collect())
        };
        // All values of a list must be in a set; one that both have in common is enough for `intersects`.
        if op == Op::Intersects { TextTest::Any(vec![set]) } else { set }
    }

    /// A string operator with a quantifier and a list.
    pub(super) fn quantified(
        op: Op,
        quantifier: Quantifier,
        texts: &[String],
    ) -> Result<TextTest, Fault> {
        let tests: Result<Vec<TextTest>, Fault> =
            texts.iter().map(|text| TextTest::single(op, text)).collect();
        Ok(match quantifier {
            Quantifier::OneOf => TextTest::One(tests?),
            Quantifier::AnyOf => TextTest::Any(tests?),
            Quantifier::AllOf => TextTest::All(tests?),
        })
    }

    /// Whether it holds for the text.
    pub(super) fn holds(&self, text: &[u8]) -> bool {
        match self {
            TextTest::Ordered(op, other) => compare(text, *op, other.as_ref()),
            TextTest::Few(set) => set.iter().any(|other| other.as_ref() == text),
            TextTest::Many(set) => set.contains(text),
            TextTest::Contains(finder) => finder.find(text).is_some(),
            TextTest::ContainsAnyCase(part) => contains_any_case(text, part),
            TextTest::StartsWith(start) => text.starts_with(start),
            TextTest::EndsWith(end) => text.ends_with(end),
            TextTest::Glob(glob) => glob.matches(text),
            TextTest::Regex(regex) => regex.is_match(text),
            TextTest::Paths(paths) => paths.iter().any(|path| path.covers(text)),
            TextTest::One(tests) => tests.iter().filter(|test| test.holds(text)).count() == 1,
            TextTest::Any(tests) => tests.iter().any(|test| test.holds(text)),
            TextTest::All(tests) => !tests.is_empty() && tests.iter().all(|test| test.holds(text)),
        }
    }
}

/// Compares two texts that are both known only at run time.
pub(super) fn compare_texts(left: &[u8], op: Op, right: &[u8]) -> bool {
    match op {
        Op::Contains | Op::ContainsBytes => memchr::memmem::find(left, right).is_some(),
        Op::ContainsAnyCase => contains_any_case(left, &right.to_ascii_lowercase()),
        Op::StartsWith | Op::StartsWithBytes => left.starts_with(right),
        Op::EndsWith => left.ends_with(right),
        Op::Glob => Glob::new(right, false).matches(left),
        Op::GlobAnyCase => Glob::new(right, true).matches(left),
        Op::PathMatch => PathPrefix::new(&String::from_utf8_lossy(right)).covers(left),
        // A pattern from an event would be compiled for every event.
        Op::Regex => false,
        Op::Less | Op::LessEqual | Op::Greater | Op::GreaterEqual | Op::Equal => {
            compare(left, op, right)
        }
        Op::EqualEqual | Op::NotEqual | Op::In | Op::Intersects => compare(left, op, right),
    }
}

fn contains(part: &[u8]) -> TextTest {
    TextTest::Contains(Box::new(Finder::new(part).into_owned()))
}

fn contains_any_case(text: &[u8], part: &[u8]) -> bool {
    part.is_empty() || text.windows(part.len()).any(|window| window.eq_ignore_ascii_case(part))
}

fn from_hex(digits: &str) -> Result<Vec<u8>, Fault> {
    let bad = || Fault::NoHex(digits.to_string());
    if !digits.len().is_multiple_of(2) || digits.is_empty() {
        return Err(bad());
    }
    let pair =
        |at: usize| digits.get(at..at + 2).and_then(|pair| u8::from_str_radix(pair, 16).ok());
    (0..digits.len()).step_by(2).map(|at| pair(at).ok_or_else(bad)).collect()
}

fn regex(pattern: &str) -> Result<regex::bytes::Regex, Fault> {
    let build = |pattern: &str| {
        regex::bytes::RegexBuilder::new(pattern)
            .size_limit(REGEX_BYTES_MAX)
            .dot_matches_new_line(false)
            .build()
    };
    // The pattern must be one by itself: `a)(b` would become one inside the group.
    build(pattern)
        .and_then(|_| build(&format!(r"\A(?:{pattern})\z")))
        .map_err(|error| Fault::NoRegex(regex_message(pattern, &error)))
}

/// The reason why a pattern is none, in RE2's words where the case is common.
fn regex_message(pattern: &str, error: &regex::Error) -> String {
    let text = error.to_string();
    let reason = text.lines().last().unwrap_or_default().trim_start_matches("error: ").to_string();
    match reason.as_str() {
        "unclosed character class" => {
            let start = pattern.rfind('[').unwrap_or(0);
            format!("missing ]: {}", pattern.get(start..).unwrap_or_default())
        }
        "unclosed group" => format!("missing ): {pattern}"),
        "unopened group" => format!("unexpected ): {pattern}"),
        "repetition operator missing expression" => {
            format!(
                "no argument for repetition operator: {}",
                pattern.chars().next().unwrap_or('*')
            )
        }
        _ => reason,
    }
}

/// A path whose components may be patterns.
#[derive(Debug)]
pub(super) struct PathPrefix {
    /// The path without a slash at its end, if no component is a pattern.
    literal: Option<Box<[u8]>>,
    components: Vec<Glob>,
}

impl PathPrefix {
    fn new(path: &str) -> PathPrefix {
        let components = || path.split('/').filter(|component| !component.is_empty());
        if path.bytes().any(|b| matches!(b, b'*' | b'?' | b'[' | b'\\')) {
            let components = components().map(|c| Glob::new(c.as_bytes(), false)).collect();
            return PathPrefix { literal: None, components };
        }
        let mut literal = String::new();
        for component in components() {
            literal.push('/');
            literal.push_str(component);
        }
        PathPrefix { literal: Some(literal.into_bytes().into()), components: Vec::new() }
    }

    /// Whether the path begins with all components.
    fn covers(&self, path: &[u8]) -> bool {
        if let Some(literal) = &self.literal {
            if path.first() == Some(&b'/') && !path.windows(2).any(|pair| pair == b"//") {
                let rest = path.strip_prefix(literal.as_ref());
                return rest.is_some_and(|rest| rest.first().is_none_or(|b| *b == b'/'));
            }
            let components = |text: &[u8]| -> Vec<Vec<u8>> {
                text.split(|b| *b == b'/').filter(|c| !c.is_empty()).map(<[u8]>::to_vec).collect()
            };
            return components(path).starts_with(&components(literal));
        }
        let mut parts = path.split(|b| *b == b'/').filter(|component| !component.is_empty());
        self.components.iter().all(|glob| parts.next().is_some_and(|part| glob.matches(part)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn holds(op: Op, value: &str, text: &str) -> bool {
        TextTest::single(op, value).unwrap().holds(text.as_bytes())
    }

    #[test]
    fn paths_match_by_components() {
        let paths = TextTest::list(Op::PathMatch, &["/etc".into(), "/usr/*/x86".into()]);
        assert!(paths.holds(b"/etc/passwd") && paths.holds(b"/etc") && paths.holds(b"//etc//x"));
        assert!(!paths.holds(b"/etcetera") && !paths.holds(b"/usr/lib/arm/x86"));
        assert!(paths.holds(b"/usr/lib/x86/libc.so"));
    }

    #[test]
    fn texts_are_compared_as_the_operators_say() {
        assert!(holds(Op::ContainsAnyCase, "SH", "bash") && !holds(Op::Contains, "SH", "bash"));
        assert!(
            holds(Op::ContainsBytes, "474554", "xGETx") && holds(Op::StartsWithBytes, "47", "GET")
        );
        assert!(TextTest::single(Op::ContainsBytes, "4x").is_err());
        assert!(holds(Op::Regex, "[a-z]+", "abc") && !holds(Op::Regex, "^s", "sh"));
        let fault = TextTest::single(Op::Regex, "[").unwrap_err();
        assert_eq!(fault.to_string(), "invalid regex pattern: missing ]: [");
        assert!(TextTest::single(Op::Regex, "a)(b").is_err());
        let all = TextTest::quantified(Op::Contains, Quantifier::AllOf, &["a".into(), "e".into()]);
        assert!(all.as_ref().unwrap().holds(b"ae") && !all.unwrap().holds(b"a"));
        assert!(!TextTest::quantified(Op::Contains, Quantifier::AllOf, &[]).unwrap().holds(b"a"));
    }
}
