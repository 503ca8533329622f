//! Matches a JSON record with the keys of a check: paths, operators and Python's typed equality.
//!
//! A missing path is null, which equals only null. `1 == 1.0 == True`, but `1 != "1"`.

use std::cmp::Ordering;

use serde_json::{Number, Value};

use super::yaml::Node;

/// The first condition of a check that a record does not meet.
#[derive(Clone, Debug, PartialEq)]
pub struct Mismatch {
    /// The key of the condition as written.
    pub key: String,
    /// The value that the test requires, as JSON-like text.
    pub wanted: String,
    /// The value of the record, as JSON text.
    pub found: String,
}

/// Compares all conditions of `wanted` with `record`; returns those that do not hold, in order.
#[must_use]
pub fn mismatches(wanted: &Node, record: &Value) -> Vec<Mismatch> {
    wanted.entries().iter().filter_map(|(key, value)| mismatch(key, value, record)).collect()
}

/// Whether every condition of `wanted` holds for `record`.
#[must_use]
pub fn matches(wanted: &Node, record: &Value) -> bool {
    wanted.entries().iter().all(|(key, value)| mismatch(key, value, record).is_none())
}

fn mismatch(key: &Node, wanted: &Node, record: &Value) -> Option<Mismatch> {
    let key = key.python_str();
    let fault = |found: String| {
        Some(Mismatch { key: key.clone(), wanted: brief(&wanted.python_repr()), found })
    };
    match key.as_str() {
        "has-key" | "not-has-key" => {
            let present = key == "has-key";
            wanted.items().iter().map(Node::python_str).find_map(|path| {
                let found = find(&path, record).filter(|value| !value.is_null());
                (found.is_some() != present).then(|| Mismatch {
                    key: format!("{key}: {path}"),
                    wanted: if present { "present" } else { "absent" }.to_owned(),
                    found: found.map_or_else(|| "absent".to_owned(), |v| brief(&v.to_string())),
                })
            })
        }
        path => {
            let (path, operator) = split_operator(path);
            let found = find(path, record);
            if holds(operator, found, wanted) {
                None
            } else {
                fault(found.map_or_else(|| "nothing".to_owned(), |v| brief(&v.to_string())))
            }
        }
    }
}

/// Most characters of a value in a cause.
const SHOWN_MAX: usize = 80;

fn brief(text: &str) -> String {
    let mut short: String = text.chars().take(SHOWN_MAX).collect();
    if short.len() < text.len() {
        short.push('…');
    }
    short
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Operator {
    Equal,
    Len,
    Find,
    Contains,
    StartsWith,
    EndsWith,
    Greater,
    GreaterOrEqual,
    Less,
    LessOrEqual,
    Unknown,
}

fn split_operator(path: &str) -> (&str, Operator) {
    let (head, last) = path.rsplit_once('.').unwrap_or(("", path));
    let operator = match last {
        "__len" => Operator::Len,
        "__find" => Operator::Find,
        "__contains" => Operator::Contains,
        "__startswith" => Operator::StartsWith,
        "__endswith" => Operator::EndsWith,
        "__gt" => Operator::Greater,
        "__gte" => Operator::GreaterOrEqual,
        "__lt" => Operator::Less,
        "__lte" => Operator::LessOrEqual,
        name if name.starts_with("__") => Operator::Unknown,
        _ => return (path, Operator::Equal),
    };
    (head, operator)
}

fn holds(operator: Operator, found: Option<&Value>, wanted: &Node) -> bool {
    let found = found.unwrap_or(&Value::Null);
    let order = |accept: fn(Ordering) -> bool| number_order(found, wanted).is_some_and(accept);
    match operator {
        Operator::Equal => equal(wanted, found),
        Operator::Len => length(found).is_some_and(|len| equal(wanted, &Value::from(len))),
        Operator::Find => text_of(found, wanted).is_some_and(|(text, part)| text.contains(part)),
        Operator::Contains => match found {
            Value::Array(items) => items.iter().any(|item| equal(wanted, item)),
            _ => text_of(found, wanted).is_some_and(|(text, part)| text.contains(part)),
        },
        Operator::StartsWith => {
            text_of(found, wanted).is_some_and(|(text, part)| text.starts_with(part))
        }
        Operator::EndsWith => {
            text_of(found, wanted).is_some_and(|(text, part)| text.ends_with(part))
        }
        Operator::Greater => order(Ordering::is_gt),
        Operator::GreaterOrEqual => order(Ordering::is_ge),
        Operator::Less => order(Ordering::is_lt),
        Operator::LessOrEqual => order(Ordering::is_le),
        Operator::Unknown => false,
    }
}

fn text_of<'a>(found: &'a Value, wanted: &'a Node) -> Option<(&'a str, &'a str)> {
    match (found, wanted) {
        (Value::String(text), Node::Str(part)) => Some((text, part)),
        _ => None,
    }
}

/// The length of a list or object, or of a string in characters.
fn length(value: &Value) -> Option<usize> {
    match value {
        Value::String(text) => Some(text.chars().count()),
        Value::Array(items) => Some(items.len()),
        Value::Object(map) => Some(map.len()),
        Value::Null | Value::Bool(_) | Value::Number(_) => None,
    }
}

fn number_order(found: &Value, wanted: &Node) -> Option<Ordering> {
    match (found, wanted) {
        (Value::Number(found), Node::Int(wanted)) => compare_int(found, *wanted),
        (Value::Number(found), Node::Float(wanted)) => found.as_f64()?.partial_cmp(wanted),
        _ => None,
    }
}

fn compare_int(found: &Number, wanted: i64) -> Option<Ordering> {
    if let Some(found) = found.as_i64() {
        Some(found.cmp(&wanted))
    } else if found.is_u64() {
        Some(Ordering::Greater)
    } else {
        #[expect(clippy::cast_precision_loss, reason = "floats are compared as floats")]
        let wanted = wanted as f64;
        found.as_f64()?.partial_cmp(&wanted)
    }
}

/// Python's `==` between a value of a description and a value of a record.
#[must_use]
pub fn equal(wanted: &Node, found: &Value) -> bool {
    match (wanted, found) {
        (Node::Null, Value::Null) => true,
        (Node::Bool(wanted), Value::Bool(found)) => wanted == found,
        (Node::Bool(wanted), Value::Number(found)) => {
            compare_int(found, i64::from(*wanted)) == Some(Ordering::Equal)
        }
        (Node::Int(wanted), Value::Bool(found)) => *wanted == i64::from(*found),
        (Node::Float(wanted), Value::Bool(found)) => *wanted == f64::from(u8::from(*found)),
        (Node::Int(_) | Node::Float(_), Value::Number(_)) => {
            number_order(found, wanted) == Some(Ordering::Equal)
        }
        (Node::Str(wanted), Value::String(found)) => wanted == found,
        (Node::List(wanted), Value::Array(found)) => {
            wanted.len() == found.len() && wanted.iter().zip(found).all(|(w, f)| equal(w, f))
        }
        (Node::Map(wanted), Value::Object(found)) => {
            wanted.len() == found.len()
                && wanted.iter().all(|(key, wanted)| match key {
                    Node::Str(key) => found.get(key).is_some_and(|found| equal(wanted, found)),
                    _ => false,
                })
        }
        _ => false,
    }
}

/// The value at `path` (`a.b[0].c`); `None` if a step is missing. The empty path is the whole
/// record.
#[must_use]
pub fn find<'a>(path: &str, record: &'a Value) -> Option<&'a Value> {
    let mut here = record;
    for step in path.split('.').filter(|_| !path.is_empty()) {
        let (name, indexes) = step.split_at(step.find('[').unwrap_or(step.len()));
        if !name.is_empty() {
            here = here.as_object()?.get(name)?;
        }
        for index in indexes.split('[').skip(1) {
            here = here.as_array()?.get(index.strip_suffix(']')?.parse::<usize>().ok()?)?;
        }
    }
    Some(here)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// Expected values: Python 3.11 `==`, and the operators as documented for the tests.
    #[test]
    fn conditions_hold_as_in_python() {
        let record = json!({
            "n": 1, "f": 1.0, "big": 18446744073709551615u64, "s": "abc", "t": true, "z": null,
            "l": [1, "x", {"k": 2}], "o": {"a": 1, "b": [1, 2]}
        });
        let table = [
            ("n: 1", true),
            ("n: '1'", false),
            ("n: 1.0", true),
            ("n: true", true),
            ("n: 2", false),
            ("f: 1", true),
            ("t: 1", true),
            ("t: 1.0", true),
            ("t: yes", true),
            ("t: 0", false),
            ("t: 'true'", false),
            ("z: ~", true),
            ("missing: ~", true),
            ("missing: 0", false),
            ("z: false", false),
            ("l[0]: 1", true),
            ("l[2].k: 2", true),
            ("l[3]: ~", true),
            ("l[3]: 1", false),
            ("n[0]: 1", false),
            ("n.x: ~", true),
            ("s: abc", true),
            ("o: {b: [1, 2], a: 1}", true),
            ("o: {a: 1}", false),
            ("o.b: [1, 2]", true),
            ("o.b: [2, 1]", false),
            ("l.__len: 3", true),
            ("s.__len: 3", true),
            ("o.__len: 2", true),
            ("n.__len: 1", false),
            ("missing.__len: 0", false),
            ("s.__find: bc", true),
            ("s.__find: cb", false),
            ("n.__find: 1", false),
            ("l.__contains: x", true),
            ("l.__contains: 1.0", true),
            ("l.__contains: y", false),
            ("s.__contains: b", true),
            ("s.__startswith: ab", true),
            ("s.__endswith: ab", false),
            ("s.__endswith: bc", true),
            ("n.__gt: 0", true),
            ("n.__gt: 1", false),
            ("n.__gte: 1", true),
            ("n.__lt: 1.5", true),
            ("n.__lte: 0", false),
            ("t.__gt: 0", false),
            ("big.__gt: 1", true),
            ("s.__gt: 0", false),
            ("s.__nonsense: abc", false),
            ("has-key: n", true),
            ("has-key: [n, o.a]", true),
            ("has-key: [n, o.c]", false),
            ("has-key: z", false),
            ("not-has-key: z", true),
            ("not-has-key: [q, n]", false),
            ("not-has-key: o.c", true),
        ];
        for (text, expected) in table {
            let wanted = Node::parse(text).unwrap();
            assert_eq!(matches(&wanted, &record), expected, "{text}");
            assert_eq!(mismatches(&wanted, &record).is_empty(), expected, "{text}");
        }
    }
}
