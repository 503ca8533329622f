//! A second opinion on compiled conditions: a walk over the tree of a condition, without program, sets, indexes or values
//! that comparisons share. What it has no opinion on (regular expressions, classes in patterns, some transformers) is none.

use gabion_condition::compile::resolve_field;
use gabion_condition::lang::{self, Expr, Op, Operand, Quantifier, Right, Transformer};
use gabion_record::fields::{Argument, FieldId, Fields, Kind, Missing, Scratch, Value, ids};
use gabion_record::{Ip, Net};

const TEXTS: [&[u8]; 8] = [
    b"bash",
    b"/etc/passwd",
    b"",
    b"cat -n x",
    b"/usr/bin/Python3",
    b"httpd",
    b"O_RDONLY",
    b"\xffx",
];

/// An event whose fields have values of their kinds; another salt gives other values.
pub struct TypedEvent {
    /// Goes into the choice of each value.
    pub salt: usize,
}

impl Fields for TypedEvent {
    fn field<'a>(
        &'a self,
        field: FieldId,
        argument: Argument<'_>,
        scratch: &'a mut Scratch,
    ) -> Result<Value<'a>, Missing> {
        let extra = match argument {
            Argument::None => 0,
            Argument::Index(n) => n as usize,
            Argument::Key(key) => key.len(),
        };
        let n = field.index().wrapping_mul(7).wrapping_add(extra).wrapping_add(self.salt);
        let number = n as u64 % 6;
        match field {
            // What says of which type the event is agrees with `event_type`, as with real events.
            ids::EVT_TYPE => return Ok(Value::Text(b"openat")),
            ids::EVT_TYPE_IS => {
                return Ok(Value::Unsigned(u64::from(argument == Argument::Key("openat"))));
            }
            ids::EVT_NUM => return Ok(Value::Unsigned(number + 1)),
            _ => {}
        }
        if n % 5 == 4 {
            return Err(Missing::NeverSeen);
        }
        let ip = Ip::v4(0x0a00_0000 + number as u32);
        let text = |n: usize| TEXTS.get(n % TEXTS.len()).copied().unwrap_or_default();
        Ok(match field.field().kind {
            Kind::Text | Kind::Bytes if n.is_multiple_of(3) || field.field().flags.list => {
                scratch.text();
                (0..n % 4).for_each(|more| scratch.push(text(n + more)));
                scratch.as_list()
            }
            Kind::Text | Kind::Bytes | Kind::Dynamic => Value::Text(text(n)),
            Kind::Signed(_) => Value::Signed(number as i64 - 1),
            Kind::Unsigned(_) => Value::Unsigned(number),
            Kind::Float => Value::Float(number as f64 / 2.0),
            Kind::Bool => Value::Bool(n.is_multiple_of(2)),
            Kind::Ip | Kind::Net if n.is_multiple_of(2) => Value::EitherIp(ip, Ip::v4(0x7f00_0001)),
            Kind::Ip | Kind::Net => Value::Ip(ip),
            Kind::Port if n.is_multiple_of(2) => Value::EitherPort(22, number as u16),
            Kind::Port => Value::Port(number as u16),
            Kind::Time => Value::Time(number),
            Kind::Duration => Value::Duration(number),
        })
    }

    fn event_type(&self) -> u16 {
        gabion_scap::types::OPENAT_2_X
    }

    fn event_number(&self) -> u64 {
        1
    }

    fn event_time(&self) -> u64 {
        1_700_000_000_000_000_000
    }
}

/// The values of an operand.
enum Values {
    /// It is absent.
    Missing,
    Texts(Vec<Vec<u8>>),
    /// One number, or those of both ends of a connection.
    Numbers(Vec<i128>),
    Float(f64),
    Bool(bool),
    /// One address, or those of both ends.
    Ips(Vec<Ip>),
}

/// Whether the condition holds; none where there is no opinion.
pub fn holds(expr: &Expr, event: &TypedEvent) -> Option<bool> {
    Some(match expr {
        Expr::And(parts) => {
            let all: Option<Vec<bool>> = parts.iter().map(|part| holds(part, event)).collect();
            all?.into_iter().all(|holds| holds)
        }
        Expr::Or(parts) => {
            let all: Option<Vec<bool>> = parts.iter().map(|part| holds(part, event)).collect();
            all?.into_iter().any(|holds| holds)
        }
        Expr::Not(inner) => !holds(inner, event)?,
        Expr::Exists(operand, _) => match values(operand, event)? {
            Values::Missing => false,
            Values::Texts(texts) => !texts.is_empty(),
            Values::Numbers(_) | Values::Float(_) | Values::Bool(_) | Values::Ips(_) => true,
        },
        Expr::Compare { left, op, quantifier, right, .. } => {
            let found = values(left, event)?;
            if matches!(found, Values::Missing) {
                return Some(false);
            }
            match right {
                Right::Operand(other) => compare_operands(&found, *op, &values(other, event)?)?,
                Right::Text(text) => {
                    literal(left, &found, (*op, *quantifier), std::slice::from_ref(text))?
                }
                Right::List(texts) => literal(left, &found, (*op, *quantifier), texts)?,
            }
        }
        Expr::Macro(..) | Expr::Expanded(..) => return None,
    })
}

fn values(operand: &Operand, event: &TypedEvent) -> Option<Values> {
    match operand {
        Operand::Field(field, _) => {
            let (id, argument) = resolve_field(field).ok()?;
            if id.field().kind == Kind::Dynamic || id.field().flags.table_only {
                return None;
            }
            let mut scratch = Scratch::new();
            Some(match event.field(id, argument.borrow(), &mut scratch) {
                Err(_) => Values::Missing,
                Ok(Value::Text(text) | Value::Bytes(text)) => Values::Texts(vec![text.to_vec()]),
                Ok(Value::List(list)) => Values::Texts(list.iter().map(<[u8]>::to_vec).collect()),
                Ok(Value::Signed(n)) => Values::Numbers(vec![n.into()]),
                Ok(Value::Unsigned(n) | Value::Time(n) | Value::Duration(n)) => {
                    Values::Numbers(vec![n.into()])
                }
                Ok(Value::Port(port)) => Values::Numbers(vec![port.into()]),
                Ok(Value::EitherPort(a, b)) => Values::Numbers(vec![a.into(), b.into()]),
                Ok(Value::Float(n)) => Values::Float(n),
                Ok(Value::Bool(is)) => Values::Bool(is),
                Ok(Value::Ip(ip)) => Values::Ips(vec![ip]),
                Ok(Value::EitherIp(a, b)) => Values::Ips(vec![a, b]),
            })
        }
        Operand::Apply(transformer, arguments, _) => {
            let [lang::Argument::Operand(inner)] = &arguments[..] else { return None };
            let found = values(inner, event)?;
            let Values::Texts(texts) = found else {
                return match transformer {
                    Transformer::Val => Some(found),
                    _ if matches!(found, Values::Missing) => Some(Values::Missing),
                    _ => None,
                };
            };
            let change: fn(&[u8]) -> Vec<u8> = match transformer {
                Transformer::Val => <[u8]>::to_vec,
                Transformer::ToLower => <[u8]>::to_ascii_lowercase,
                Transformer::ToUpper => <[u8]>::to_ascii_uppercase,
                Transformer::BaseName => {
                    |text| text.rsplit(|b| *b == b'/').next().unwrap_or_default().to_vec()
                }
                Transformer::Base64 | Transformer::Length | Transformer::Join => return None,
                Transformer::Concat | Transformer::GetOption => return None,
            };
            Some(Values::Texts(texts.iter().map(|text| change(text)).collect()))
        }
    }
}

/// Compares with what the rule gives.
fn literal(
    left: &Operand,
    found: &Values,
    (op, quantifier): (Op, Option<Quantifier>),
    texts: &[String],
) -> Option<bool> {
    match found {
        Values::Missing => Some(false),
        Values::Texts(values) => {
            let one = |value: &Vec<u8>| quantified(value, op, quantifier, texts);
            let each: Option<Vec<bool>> = values.iter().map(one).collect();
            let each = each?;
            let is_list = matches!(left, Operand::Field(field, _)
                if resolve_field(field).is_ok_and(|(id, _)| id.field().flags.list));
            Some(match op {
                // All values of a list are in the list of the rule.
                Op::In if is_list && quantifier.is_none() => {
                    !each.is_empty() && each.into_iter().all(|holds| holds)
                }
                _ => each.into_iter().any(|holds| holds),
            })
        }
        // Quantifiers are for texts.
        _ if quantifier.is_some() => None,
        Values::Numbers(numbers) => {
            let wanted: Option<Vec<i128>> = texts.iter().map(|text| text.parse().ok()).collect();
            let wanted = wanted?;
            ends(op, numbers.iter().map(|n| wanted.iter().any(|other| ordered(n, op, other))))
        }
        Values::Float(n) => Some(ordered(n, op, &texts.first()?.parse().ok()?)),
        Values::Bool(is) => {
            let wanted = matches!(texts.first()?.as_str(), "true" | "1");
            Some((*is == wanted) != (op == Op::NotEqual))
        }
        Values::Ips(ips) => {
            let is_net = matches!(left, Operand::Field(field, _)
                if resolve_field(field).is_ok_and(|(id, _)| id.field().kind == Kind::Net));
            let one = |ip: &Ip| {
                let equal = |text: &String| {
                    if is_net {
                        Some(Net::parse(text.as_bytes())?.contains(*ip))
                    } else {
                        Some(Ip::parse(text.as_bytes())? == *ip)
                    }
                };
                let all: Option<Vec<bool>> = texts.iter().map(equal).collect();
                Some(all?.into_iter().any(|equal| equal) != (op == Op::NotEqual))
            };
            let all: Option<Vec<bool>> = ips.iter().map(one).collect();
            ends(op, all?.into_iter())
        }
    }
}

/// One end of a connection must satisfy, or, for `!=`, both.
fn ends(op: Op, mut ends: impl Iterator<Item = bool>) -> Option<bool> {
    Some(match op {
        Op::NotEqual => ends.all(|holds| holds),
        _ => ends.any(|holds| holds),
    })
}

fn quantified(
    value: &[u8],
    op: Op,
    quantifier: Option<Quantifier>,
    texts: &[String],
) -> Option<bool> {
    let each: Option<Vec<bool>> =
        texts.iter().map(|text| compare(value, op, text.as_bytes(), true)).collect();
    let count = each?.into_iter().filter(|holds| *holds).count();
    Some(match quantifier {
        Some(Quantifier::OneOf) => count == 1,
        Some(Quantifier::AllOf) => count > 0 && count == texts.len(),
        Some(Quantifier::AnyOf) | None => count > 0,
    })
}

fn compare_operands(left: &Values, op: Op, right: &Values) -> Option<bool> {
    match (left, right) {
        (Values::Missing, _) | (_, Values::Missing) => Some(false),
        (Values::Texts(left), Values::Texts(right)) => {
            let mut holds = false;
            for a in left {
                for b in right {
                    holds |= compare(a, op, b, false)?;
                }
            }
            Some(holds)
        }
        (Values::Bool(a), Values::Bool(b)) => Some(ordered(a, op, b)),
        (Values::Float(a), Values::Float(b)) => Some(ordered(a, op, b)),
        (Values::Numbers(a), Values::Numbers(b)) => match (&a[..], &b[..]) {
            ([a], [b]) => Some(ordered(a, op, b)),
            _ => None,
        },
        _ => None,
    }
}

fn ordered<T: PartialOrd + ?Sized>(left: &T, op: Op, right: &T) -> bool {
    match op {
        Op::Less => left < right,
        Op::LessEqual => left <= right,
        Op::Greater => left > right,
        Op::GreaterEqual => left >= right,
        Op::NotEqual => left != right,
        Op::Equal | Op::EqualEqual | Op::In | Op::Intersects => left == right,
        _ => false,
    }
}

/// Compares two texts. A rule gives bytes in digits, a field gives them as they are.
fn compare(left: &[u8], op: Op, right: &[u8], is_given: bool) -> Option<bool> {
    let bytes = || if is_given { from_hex(right) } else { Some(right.to_vec()) };
    let part = |part: &[u8]| {
        (0..=left.len()).any(|at| left.get(at..).is_some_and(|rest| rest.starts_with(part)))
    };
    Some(match op {
        Op::Contains => part(right),
        Op::ContainsBytes => part(&bytes()?),
        Op::ContainsAnyCase => {
            let (left, right) = (left.to_ascii_lowercase(), right.to_ascii_lowercase());
            (0..=left.len()).any(|at| left.get(at..).is_some_and(|rest| rest.starts_with(&right)))
        }
        Op::StartsWith => left.starts_with(right),
        Op::StartsWithBytes => left.starts_with(&bytes()?),
        Op::EndsWith => left.ends_with(right),
        Op::Glob => glob(right, left)?,
        Op::GlobAnyCase => glob(&right.to_ascii_lowercase(), &left.to_ascii_lowercase())?,
        Op::Regex => return None,
        Op::PathMatch => {
            let right = String::from_utf8_lossy(right).into_owned();
            let mut parts = components(left);
            let mut holds = true;
            for pattern in components(right.as_bytes()) {
                holds &= match parts.next() {
                    Some(part) => glob(pattern, part)?,
                    None => false,
                };
            }
            holds
        }
        _ => ordered(left, op, right),
    })
}

fn components(path: &[u8]) -> impl Iterator<Item = &[u8]> {
    path.split(|b| *b == b'/').filter(|part| !part.is_empty())
}

fn from_hex(digits: &[u8]) -> Option<Vec<u8>> {
    let digit = |b: &u8| char::from(*b).to_digit(16);
    let pair = |pair: &[u8]| match pair {
        [high, low] => Some((digit(high)? * 16 + digit(low)?) as u8),
        _ => None,
    };
    digits.chunks(2).map(pair).collect()
}

/// Patterns with classes and backslashes have no second opinion. The rows of a table are the lengths of the pattern's
/// beginnings that match a beginning of the text.
fn glob(pattern: &[u8], text: &[u8]) -> Option<bool> {
    if pattern.iter().any(|b| matches!(b, b'[' | b'\\')) {
        return None;
    }
    let mut ends = vec![false; pattern.len() + 1];
    ends[0] = true;
    let through_stars = |ends: &mut Vec<bool>| {
        for (at, b) in pattern.iter().enumerate() {
            ends[at + 1] |= ends[at] && *b == b'*';
        }
    };
    through_stars(&mut ends);
    for byte in text {
        let mut next = vec![false; pattern.len() + 1];
        for (at, b) in pattern.iter().enumerate() {
            match b {
                // A star has taken the byte, and may take more.
                b'*' => next[at + 1] |= ends[at + 1],
                b'?' => next[at + 1] |= ends[at],
                b => next[at + 1] |= ends[at] && b == byte,
            }
        }
        through_stars(&mut next);
        ends = next;
    }
    ends.last().copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_match_whole_texts() {
        for (pattern, text, holds) in [
            ("*", "", true),
            ("", "", true),
            ("a*c", "abc", true),
            ("a*c", "ab", false),
            ("?b*", "ab", true),
            ("**a", "bba", true),
            ("a", "ab", false),
        ] {
            assert_eq!(glob(pattern.as_bytes(), text.as_bytes()), Some(holds), "{pattern} {text}");
        }
        assert_eq!(glob(b"[a]", b"a"), None);
    }

    /// The second opinion is one on most conditions of the seeds, and both answers are among them.
    #[test]
    fn conditions_of_the_seeds_have_a_second_opinion() {
        let (mut with, mut without, mut answers) = (0, 0, [false; 2]);
        for seed in crate::condition::condition_seeds(&crate::seeds::Seeds::new(None)) {
            let text = String::from_utf8(seed).unwrap();
            let Ok(expr) = lang::parse(&text) else { continue };
            for salt in 0..crate::condition::SALTS {
                match holds(&expr, &TypedEvent { salt }) {
                    Some(holds) => {
                        with += 1;
                        answers[usize::from(holds)] = true;
                    }
                    None => without += 1,
                }
            }
        }
        assert!(with > without && answers == [true; 2], "{with} with, {without} without");
    }
}
