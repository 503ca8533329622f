//! YAML as in PyYAML's safe loader: builds a small tree from the parser's events and resolves plain
//! scalars by the rules of YAML 1.1.
//!
//! The tests were written against that loader, so `yes` is a boolean, `010` is eight and `8.0` is a
//! float here too. A YAML 1.2 loader would read some tests differently and pass or fail wrongly.

use std::collections::HashMap;
use std::sync::LazyLock;

use anyhow::{Context, Result, bail};
use regex::Regex;
use saphyr_parser::{Event, Parser, ScalarStyle};

/// Nesting beyond this is refused; the deepest test description has eight levels.
const DEPTH_MAX: usize = 64;

/// One value of a description, in Python's types.
#[derive(Clone, Debug, PartialEq)]
pub enum Node {
    /// `None`.
    Null,
    /// `bool`.
    Bool(bool),
    /// `int`; values beyond 64 bits do not occur in tests.
    Int(i64),
    /// `float`.
    Float(f64),
    /// `str`.
    Str(String),
    /// `datetime`: equal to nothing that JSON can hold; the text as written.
    Time(String),
    /// `list`.
    List(Vec<Node>),
    /// `dict`, in the order written; a key occurs once, its last value wins.
    Map(Vec<(Node, Node)>),
}

impl Node {
    /// Reads the first document of `text`; an empty one is [`Node::Null`].
    ///
    /// # Errors
    /// Text that is not YAML, an unknown alias, too deep nesting.
    pub fn parse(text: &str) -> Result<Self> {
        let mut builder = Builder::default();
        for event in Parser::new_from_str(text) {
            let (event, _) = event.context("not YAML")?;
            if matches!(event, Event::DocumentEnd) {
                break;
            }
            builder.take(event)?;
        }
        Ok(builder.root.unwrap_or(Self::Null))
    }

    /// The value under the string key `key`, when this is a map that has it.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<&Self> {
        match self {
            Self::Map(entries) => entries
                .iter()
                .find(|(name, _)| matches!(name, Self::Str(name) if name == key))
                .map(|(_, value)| value),
            _ => None,
        }
    }

    /// The elements of a list; anything else is a list of itself.
    #[must_use]
    pub fn items(&self) -> &[Self] {
        match self {
            Self::List(items) => items,
            other => std::slice::from_ref(other),
        }
    }

    /// The entries of a map; anything else has none.
    #[must_use]
    pub fn entries(&self) -> &[(Self, Self)] {
        match self {
            Self::Map(entries) => entries,
            _ => &[],
        }
    }

    /// The text of Python's `str()` of this value.
    #[must_use]
    pub fn python_str(&self) -> String {
        match self {
            Self::Str(text) | Self::Time(text) => text.clone(),
            other => other.python_repr(),
        }
    }

    /// The text of Python's `repr()` of this value, with strings in plain single quotes.
    #[must_use]
    pub fn python_repr(&self) -> String {
        match self {
            Self::Null => "None".to_owned(),
            Self::Bool(true) => "True".to_owned(),
            Self::Bool(false) => "False".to_owned(),
            Self::Int(value) => value.to_string(),
            Self::Float(value) => python_float(*value),
            Self::Str(text) | Self::Time(text) => format!("'{text}'"),
            Self::List(items) => {
                let items: Vec<_> = items.iter().map(Self::python_repr).collect();
                format!("[{}]", items.join(", "))
            }
            Self::Map(entries) => {
                let entries: Vec<_> = entries
                    .iter()
                    .map(|(key, value)| format!("{}: {}", key.python_repr(), value.python_repr()))
                    .collect();
                format!("{{{}}}", entries.join(", "))
            }
        }
    }
}

/// Python's `repr` of a float: the shortest digits that read back, exponents below -4 and from 16
/// on.
fn python_float(value: f64) -> String {
    if value.is_nan() {
        return "nan".to_owned();
    }
    if value.is_infinite() {
        return if value > 0.0 { "inf" } else { "-inf" }.to_owned();
    }
    let magnitude = value.abs();
    if magnitude != 0.0 && !(1e-4..1e16).contains(&magnitude) {
        let text = format!("{value:e}");
        let (digits, exponent) = text.split_once('e').unwrap_or((&text, "0"));
        let (sign, exponent) = match exponent.strip_prefix('-') {
            Some(rest) => ('-', rest),
            None => ('+', exponent),
        };
        return format!("{digits}e{sign}{exponent:0>2}");
    }
    format!("{value:?}")
}

/// A collection that is still open, with the anchor it was given (0 for none).
enum Open {
    List(Vec<Node>, usize),
    Map { entries: Vec<(Node, Node)>, merged: Vec<Node>, key: Option<Node>, anchor: usize },
}

#[derive(Default)]
struct Builder {
    open: Vec<Open>,
    anchors: HashMap<usize, Node>,
    root: Option<Node>,
}

impl Builder {
    fn take(&mut self, event: Event<'_>) -> Result<()> {
        match event {
            Event::Scalar(text, style, anchor, tag) => {
                let core = tag.filter(|tag| tag.is_yaml_core_schema());
                let node = match core.as_ref().map(|tag| tag.suffix.as_str()) {
                    Some("str") => Node::Str(text.into_owned()),
                    Some(_) => resolve(&text),
                    None if style == ScalarStyle::Plain => resolve(&text),
                    None => Node::Str(text.into_owned()),
                };
                self.place(node, anchor)
            }
            Event::SequenceStart(anchor, _) => self.start(Open::List(Vec::new(), anchor)),
            Event::MappingStart(anchor, _) => {
                self.start(Open::Map { entries: Vec::new(), merged: Vec::new(), key: None, anchor })
            }
            Event::SequenceEnd | Event::MappingEnd => match self.open.pop() {
                Some(Open::List(items, anchor)) => self.place(Node::List(items), anchor),
                Some(Open::Map { entries, merged, anchor, .. }) => {
                    self.place(Node::Map(merge(entries, &merged)), anchor)
                }
                None => bail!("the end of a collection without its start"),
            },
            Event::Alias(anchor) => {
                let node = self.anchors.get(&anchor).cloned().context("unknown alias")?;
                self.place(node, 0)
            }
            Event::Nothing
            | Event::StreamStart
            | Event::StreamEnd
            | Event::DocumentStart(_)
            | Event::DocumentEnd => Ok(()),
        }
    }

    fn start(&mut self, open: Open) -> Result<()> {
        if self.open.len() >= DEPTH_MAX {
            bail!("nested deeper than {DEPTH_MAX}");
        }
        self.open.push(open);
        Ok(())
    }

    fn place(&mut self, node: Node, anchor: usize) -> Result<()> {
        if anchor != 0 {
            self.anchors.insert(anchor, node.clone());
        }
        match self.open.last_mut() {
            None => self.root = Some(node),
            Some(Open::List(items, _)) => items.push(node),
            Some(Open::Map { entries, merged, key, .. }) => match key.take() {
                None => *key = Some(node),
                Some(Node::Str(name)) if name == "<<" => merged.push(node),
                Some(name) => set(entries, name, node),
            },
        }
        Ok(())
    }
}

/// Sets `value` under `name` and replaces an earlier one.
fn set(entries: &mut Vec<(Node, Node)>, name: Node, value: Node) {
    match entries.iter_mut().find(|(present, _)| *present == name) {
        Some(entry) => entry.1 = value,
        None => entries.push((name, value)),
    }
}

/// The merge key `<<`: entries of the merged maps come first, and explicit entries override them.
fn merge(entries: Vec<(Node, Node)>, merged: &[Node]) -> Vec<(Node, Node)> {
    if merged.is_empty() {
        return entries;
    }
    let mut all = Vec::new();
    for source in merged.iter().flat_map(Node::items).rev() {
        for (name, value) in source.entries() {
            set(&mut all, name.clone(), value.clone());
        }
    }
    for (name, value) in entries {
        set(&mut all, name, value);
    }
    all
}

/// The implicit resolvers of YAML 1.1 as in PyYAML.
static INT: LazyLock<Regex> = LazyLock::new(|| {
    pattern(
        r"^(?:[-+]?0b[0-1_]+|[-+]?0[0-7_]+|[-+]?(?:0|[1-9][0-9_]*)|[-+]?0x[0-9a-fA-F_]+|[-+]?[1-9][0-9_]*(?::[0-5]?[0-9])+)$",
    )
});
static FLOAT: LazyLock<Regex> = LazyLock::new(|| {
    pattern(
        r"^(?:[-+]?(?:[0-9][0-9_]*)\.[0-9_]*(?:[eE][-+][0-9]+)?|\.[0-9][0-9_]*(?:[eE][-+][0-9]+)?|[-+]?[0-9][0-9_]*(?::[0-5]?[0-9])+\.[0-9_]*|[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN))$",
    )
});
static TIME: LazyLock<Regex> = LazyLock::new(|| {
    pattern(
        r"^(?:[0-9]{4}-[0-9]{2}-[0-9]{2}|[0-9]{4}-[0-9]{1,2}-[0-9]{1,2}(?:[Tt]|[ \t]+)[0-9]{1,2}:[0-9]{2}:[0-9]{2}(?:\.[0-9]*)?(?:[ \t]*(?:Z|[-+][0-9]{1,2}(?::[0-9]{2})?))?)$",
    )
});

fn pattern(text: &str) -> Regex {
    Regex::new(text).expect("invariant: the resolver patterns are valid")
}

/// The value of a plain scalar.
fn resolve(text: &str) -> Node {
    match text {
        "" | "~" | "null" | "Null" | "NULL" => return Node::Null,
        "yes" | "Yes" | "YES" | "true" | "True" | "TRUE" | "on" | "On" | "ON" => {
            return Node::Bool(true);
        }
        "no" | "No" | "NO" | "false" | "False" | "FALSE" | "off" | "Off" | "OFF" => {
            return Node::Bool(false);
        }
        _ => {}
    }
    if INT.is_match(text) {
        return int(text).map_or_else(|| Node::Str(text.to_owned()), Node::Int);
    }
    if FLOAT.is_match(text) {
        return float(text).map_or_else(|| Node::Str(text.to_owned()), Node::Float);
    }
    if TIME.is_match(text) {
        return Node::Time(text.to_owned());
    }
    Node::Str(text.to_owned())
}

fn sign_and_digits(text: &str) -> (bool, String) {
    let bare = text.replace('_', "");
    match bare.strip_prefix(['-', '+']) {
        Some(rest) => (bare.starts_with('-'), rest.to_owned()),
        None => (false, bare),
    }
}

fn int(text: &str) -> Option<i64> {
    let (negative, digits) = sign_and_digits(text);
    let value = if let Some(bits) = digits.strip_prefix("0b") {
        i64::from_str_radix(bits, 2).ok()?
    } else if let Some(hex) = digits.strip_prefix("0x") {
        i64::from_str_radix(hex, 16).ok()?
    } else if digits.contains(':') {
        let mut value = 0i64;
        for part in digits.split(':') {
            value = value.checked_mul(60)?.checked_add(part.parse().ok()?)?;
        }
        value
    } else if digits.len() > 1 && digits.starts_with('0') {
        i64::from_str_radix(&digits, 8).ok()?
    } else {
        digits.parse().ok()?
    };
    Some(if negative { value.wrapping_neg() } else { value })
}

fn float(text: &str) -> Option<f64> {
    let (negative, digits) = sign_and_digits(text);
    let lower = digits.to_ascii_lowercase();
    let value = match lower.as_str() {
        ".inf" => f64::INFINITY,
        ".nan" => f64::NAN,
        _ if lower.contains(':') => {
            let mut value = 0.0;
            for part in lower.split(':') {
                value = value * 60.0 + part.parse::<f64>().ok()?;
            }
            value
        }
        _ => lower.parse().ok()?,
    };
    Some(if negative { -value } else { value })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn s(text: &str) -> Node {
        Node::Str(text.to_owned())
    }

    /// Expected values: PyYAML 6.0.3 `safe_load`.
    #[test]
    fn plain_scalars_resolve_as_in_pyyaml() {
        let table = [
            ("yes", Node::Bool(true)),
            ("Off", Node::Bool(false)),
            ("y", s("y")),
            ("tRUE", s("tRUE")),
            ("~", Node::Null),
            ("nULL", s("nULL")),
            ("010", Node::Int(8)),
            ("0o10", s("0o10")),
            ("08", s("08")),
            ("0x1F", Node::Int(31)),
            ("0b101", Node::Int(5)),
            ("1_000", Node::Int(1000)),
            ("-12", Node::Int(-12)),
            ("1:30", Node::Int(90)),
            ("22:22:22", Node::Int(80542)),
            ("8.0", Node::Float(8.0)),
            ("1e3", s("1e3")),
            ("1.5e3", s("1.5e3")),
            ("1.5e+3", Node::Float(1500.0)),
            (".5", Node::Float(0.5)),
            ("8.0.7", s("8.0.7")),
            ("2020-01-02", Node::Time("2020-01-02".into())),
            ("10.0.0.1", s("10.0.0.1")),
            ("'010'", s("010")),
            ("\"yes\"", s("yes")),
        ];
        for (text, expected) in table {
            assert_eq!(Node::parse(text).unwrap(), expected, "{text}");
        }
    }

    #[test]
    fn anchors_and_merge_keys() {
        let node =
            Node::parse("a: &x {k: 1, m: 2}\nb:\n  <<: *x\n  m: 3\nc: *x\nk: 1\nk: 2\n").unwrap();
        let b = node.get("b").unwrap();
        assert_eq!(b.get("k"), Some(&Node::Int(1)));
        assert_eq!(b.get("m"), Some(&Node::Int(3)));
        assert_eq!(node.get("c").and_then(|c| c.get("m")), Some(&Node::Int(2)));
        assert_eq!(node.get("k"), Some(&Node::Int(2)));
        assert!(Node::parse("a: *nowhere").is_err());
    }

    /// Expected values: Python 3.11 `str()`.
    #[test]
    fn text_is_that_of_python() {
        let table = [
            ("1.0", "1.0"),
            ("true", "True"),
            ("~", "None"),
            ("1.0e+16", "1e+16"),
            ("0.00001", "1e-05"),
            ("[1, a, no]", "[1, 'a', False]"),
            ("{a: 1}", "{'a': 1}"),
        ];
        for (text, expected) in table {
            assert_eq!(Node::parse(text).unwrap().python_str(), expected, "{text}");
        }
    }
}
