//! One comparison: an operand, and what its value must be.

use super::apply::{Applied, Texts, collect_texts, collect_value, length, name_of};
use super::error::{CompileError, Fault};
use super::fields::OwnedArgument;
use super::number::{
    compare, parse_bool, parse_float, parse_ip, parse_net, parse_number, parse_port,
};
use super::shared::SharedValues;
use super::text::{TextTest, compare_texts};
use super::types::TypeSet;
use crate::lang::{Op, Operand, Quantifier, Right, Transformer};
use gabion_record::fields::{FieldId, Fields, Kind, Missing, Scratch, Value, events, ids};
use gabion_record::{Ip, Net};

/// A compiled comparison.
#[derive(Debug)]
pub(super) struct Check {
    left: Applied,
    test: Test,
    /// The place of the field's value among those that several comparisons ask for.
    place: Option<u32>,
}

#[derive(Debug)]
enum Test {
    /// It has a value.
    Exists,
    /// The event is of one of these types: comparisons of `evt.type` with names of events.
    Type(Box<TypeSet>),
    Text(TextTest),
    /// Data, by its bytes.
    Number(Op, Vec<i128>),
    Float(Op, f64),
    Bool(Op, bool),
    Ip(Op, Vec<Ip>),
    Net(Op, Vec<Net>),
    /// The type of the value is known at run time only.
    Dynamic(TextTest, Op, Option<Vec<i128>>),
    /// The other side is a field or a transformer.
    Operand(Op, Box<Applied>),
}

/// Space that evaluation uses again for each event.
#[derive(Debug, Default)]
pub(super) struct Space {
    pub(super) left: Scratch,
    pub(super) right: Scratch,
    pub(super) texts: Texts,
    pub(super) right_texts: Texts,
    pub(super) shared: SharedValues,
}

impl Check {
    pub(super) fn exists(operand: &Operand) -> Result<Check, CompileError> {
        Ok(Check { left: Applied::new(operand)?, test: Test::Exists, place: None })
    }

    pub(super) fn new(
        operand: &Operand,
        op: Op,
        quantifier: Option<Quantifier>,
        right: &Right,
    ) -> Result<Check, CompileError> {
        let left = Applied::new(operand)?;
        let at = operand.position();
        let test = match right {
            Right::Operand(other) => {
                let other_applied = Applied::new(other)?;
                check_kinds(&left, operand, &other_applied, other).map_err(|fault| fault.at(at))?;
                Test::Operand(op, Box::new(other_applied))
            }
            Right::Text(text) => {
                let texts = std::slice::from_ref(text);
                literal(&left, operand, op, quantifier, texts).map_err(|fault| fault.at(at))?
            }
            Right::List(texts) => {
                literal(&left, operand, op, quantifier, texts).map_err(|fault| fault.at(at))?
            }
        };
        Ok(Check { left, test, place: None })
    }

    /// The field whose value it compares with what the rule gives; none if it compares something else.
    pub(super) fn field(&self) -> Option<(FieldId, &OwnedArgument)> {
        match (&self.left, &self.test) {
            (Applied::Field(..), Test::Type(_) | Test::Operand(..)) => None,
            (Applied::Field(field, argument), _) => Some((*field, argument)),
            (Applied::Text(_) | Applied::List(_) | Applied::Apply(..), _) => None,
        }
    }

    /// Says at which place the value of its field is shared with other comparisons, if it is.
    pub(super) fn share(&mut self, place: Option<u32>) {
        self.place = place;
    }

    /// The types of events for which it can be true, and for which it can be false.
    pub(super) fn types(&self) -> (TypeSet, TypeSet) {
        let all = TypeSet::all();
        let Applied::Field(field, argument) = &self.left else { return (all, all) };
        match (&self.test, *field) {
            (Test::Type(types), _) => (**types, types.complement()),
            (Test::Text(test), ids::EVT_TYPE) => by_name(test),
            // No event has the number 0: shipped rules write this for conditions that never hold.
            (Test::Number(Op::Equal | Op::EqualEqual, numbers), ids::EVT_NUM)
                if numbers == &[0] =>
            {
                (TypeSet::NONE, all)
            }
            (Test::Number(Op::Equal | Op::EqualEqual, numbers), ids::EVT_TYPE_IS)
                if numbers == &[1] =>
            {
                let OwnedArgument::Key(name) = argument else { return (all, all) };
                by_name(&TextTest::list(Op::In, std::slice::from_ref(name)))
            }
            _ => (all, all),
        }
    }

    pub(super) fn holds(&self, fields: &dyn Fields, space: &mut Space) -> bool {
        if let Test::Type(types) = &self.test {
            return types.contains(fields.event_type());
        }
        if let (Some(place), Some(field)) = (self.place, self.field()) {
            let value = space.shared.value(place, fields, field);
            return value.is_ok_and(|value| self.test.holds(&value, self.left.is_list()));
        }
        self.try_holds(fields, space).unwrap_or(false)
    }

    fn try_holds(&self, fields: &dyn Fields, space: &mut Space) -> Result<bool, Missing> {
        match &self.left {
            Applied::Field(id, argument) => {
                if let Test::Operand(op, right) = &self.test {
                    let left = fields.field(*id, argument.borrow(), &mut space.left)?;
                    return compare_operands(
                        &left,
                        *op,
                        right,
                        fields,
                        &mut space.right,
                        &mut space.right_texts,
                    );
                }
                let value = fields.field(*id, argument.borrow(), &mut space.left)?;
                Ok(self.test.holds(&value, self.left.is_list()))
            }
            Applied::Apply(Transformer::Length, arguments) => {
                let value = Value::Unsigned(length(arguments, fields, &mut space.left)?);
                match &self.test {
                    Test::Operand(op, right) => compare_operands(
                        &value,
                        *op,
                        right,
                        fields,
                        &mut space.right,
                        &mut space.right_texts,
                    ),
                    test => Ok(test.holds(&value, false)),
                }
            }
            applied => {
                space.texts.clear();
                collect_texts(applied, fields, &mut space.left, &mut space.texts)?;
                let is_list = applied.is_list();
                match &self.test {
                    Test::Operand(op, right) => {
                        space.right_texts.clear();
                        collect_texts(right, fields, &mut space.right, &mut space.right_texts)?;
                        Ok(any_pair(&space.texts, *op, &space.right_texts))
                    }
                    test => Ok(test.holds_texts(space.texts.iter(), is_list)),
                }
            }
        }
    }
}

/// The types whose events can have a name for which the comparison of `evt.type` holds, and the others.
fn by_name(test: &TextTest) -> (TypeSet, TypeSet) {
    let (mut may_hold, mut may_fail) = (TypeSet::NONE, TypeSet::NONE);
    let mut add = |number: u16, name: &str| {
        if test.holds(name.as_bytes()) { may_hold.insert(number) } else { may_fail.insert(number) }
    };
    let generic = [events::GENERIC_EXIT - 1, events::GENERIC_EXIT];
    for (number, row) in events::types().iter().enumerate() {
        if !generic.contains(&(number as u16)) {
            add(number as u16, row.name);
        }
    }
    for call in events::calls().iter().filter(|call| call.is_generic()) {
        generic.into_iter().for_each(|number| add(number, call.name));
    }
    (may_hold, may_fail)
}

fn check_kinds(
    left: &Applied,
    left_text: &Operand,
    right: &Applied,
    right_text: &Operand,
) -> Result<(), Fault> {
    for applied in [left, right] {
        if let Applied::Field(id, _) = applied
            && id.field().flags.no_right_hand
        {
            return Err(Fault::NoRightHand(id.name().to_string()));
        }
    }
    let group = |kind: Kind| match kind {
        Kind::Text | Kind::Bytes => 0,
        Kind::Signed(_)
        | Kind::Unsigned(_)
        | Kind::Port
        | Kind::Time
        | Kind::Duration
        | Kind::Float => 1,
        Kind::Bool => 2,
        Kind::Ip | Kind::Net => 3,
        Kind::Dynamic => 4,
    };
    let (left_kind, right_kind) = (left.kind(), right.kind());
    if group(left_kind) == group(right_kind)
        || left_kind == Kind::Dynamic
        || right_kind == Kind::Dynamic
    {
        return Ok(());
    }
    Err(Fault::DifferentKinds {
        left: name_of(left_text),
        left_kind: left_kind.name(),
        right: name_of(right_text),
        right_kind: right_kind.name(),
    })
}

/// Compiles the comparison with values that the rule gives.
fn literal(
    left: &Applied,
    operand: &Operand,
    op: Op,
    quantifier: Option<Quantifier>,
    texts: &[String],
) -> Result<Test, Fault> {
    let kind = left.kind();
    if let Applied::Field(ids::EVT_TYPE, _) = left {
        return event_types(op, quantifier, texts);
    }
    if let Applied::Field(ids::EVT_TYPE_IS, OwnedArgument::Key(name)) = left
        && events::types_of(name).is_none()
    {
        return Err(Fault::NoEvent(name.clone()));
    }
    let no_operator =
        || Fault::NoOperator { op: op.word(), kind: kind.name(), field: name_of(operand) };
    let first = || texts.first().map(String::as_str).unwrap_or_default();
    let is_ordered = op.takes_number();
    let is_equality =
        matches!(op, Op::Equal | Op::EqualEqual | Op::NotEqual | Op::In | Op::Intersects);
    match kind {
        Kind::Text | Kind::Bytes => Ok(Test::Text(text_test(op, quantifier, texts)?)),
        _ if quantifier.is_some() && !is_equality => Err(no_operator()),
        Kind::Dynamic => {
            let numbers: Option<Vec<i128>> =
                texts.iter().map(|text| parse_number(text).ok()).collect();
            if is_ordered && numbers.is_none() {
                return Err(Fault::NoNumber(first().to_string()));
            }
            Ok(Test::Dynamic(text_test(op, quantifier, texts)?, op, numbers))
        }
        Kind::Signed(_) | Kind::Unsigned(_) | Kind::Time | Kind::Duration | Kind::Port => {
            if !is_ordered && !is_equality {
                return Err(no_operator());
            }
            let parse = if kind == Kind::Port { parse_port } else { parse_number };
            let numbers: Result<Vec<i128>, Fault> = texts.iter().map(|text| parse(text)).collect();
            Ok(Test::Number(op, numbers?))
        }
        Kind::Float if is_ordered || (is_equality && texts.len() == 1) => {
            Ok(Test::Float(op, parse_float(first())?))
        }
        Kind::Bool if is_equality && texts.len() == 1 => Ok(Test::Bool(op, parse_bool(first())?)),
        Kind::Ip if is_equality => {
            let ips: Result<Vec<Ip>, Fault> = texts.iter().map(|text| parse_ip(text)).collect();
            Ok(Test::Ip(op, ips?))
        }
        Kind::Net if is_equality => {
            let nets: Result<Vec<Net>, Fault> = texts.iter().map(|text| parse_net(text)).collect();
            Ok(Test::Net(op, nets?))
        }
        Kind::Float | Kind::Bool | Kind::Ip | Kind::Net => Err(no_operator()),
    }
}

/// Compares `evt.type`, whose names are checked, so that a mistake is not a rule that never matches.
fn event_types(op: Op, quantifier: Option<Quantifier>, texts: &[String]) -> Result<Test, Fault> {
    let test = text_test(op, quantifier, texts)?;
    let is_equality =
        matches!(op, Op::Equal | Op::EqualEqual | Op::NotEqual | Op::In | Op::Intersects);
    if !is_equality {
        return Ok(Test::Text(test));
    }
    if let Some(unknown) = texts.iter().find(|text| events::types_of(text).is_none()) {
        return Err(Fault::NoEvent(unknown.clone()));
    }
    let (may_hold, may_fail) = by_name(&test);
    // Calls without a type of their own share one: their names decide.
    Ok(if may_hold.intersection(may_fail).is_empty() {
        Test::Type(Box::new(may_hold))
    } else {
        Test::Text(test)
    })
}

fn text_test(op: Op, quantifier: Option<Quantifier>, texts: &[String]) -> Result<TextTest, Fault> {
    match (quantifier, op.takes_list()) {
        (Some(quantifier), _) => TextTest::quantified(op, quantifier, texts),
        (None, true) => Ok(TextTest::list(op, texts)),
        (None, false) => {
            TextTest::single(op, texts.first().map(String::as_str).unwrap_or_default())
        }
    }
}

/// The number of a value; for the ends of a connection see [`Test::holds`].
fn number_of(value: &Value<'_>) -> Option<i128> {
    match value {
        Value::Unsigned(n) | Value::Time(n) | Value::Duration(n) => Some(i128::from(*n)),
        Value::Signed(n) => Some(i128::from(*n)),
        Value::Port(port) => Some(i128::from(*port)),
        Value::Bool(b) => Some(i128::from(*b)),
        Value::Text(_) | Value::Bytes(_) | Value::Float(_) | Value::Ip(_) => None,
        Value::EitherIp(..) | Value::EitherPort(..) | Value::List(_) => None,
    }
}

/// Compares a value with all values of the rule: it must equal one of them, or, for `!=`, none.
fn holds_for<T>(op: Op, values: &[T], test: impl Fn(&T) -> bool) -> bool {
    match op {
        Op::NotEqual => values.iter().all(test),
        _ => values.iter().any(test),
    }
}

/// Compares the two ends of a connection: one must satisfy, or, for `!=`, both.
fn either(op: Op, first: bool, second: bool) -> bool {
    match op {
        Op::NotEqual => first && second,
        _ => first || second,
    }
}

impl Test {
    /// Whether it holds for a value. With `is_list` all values of a list must be in the list of the rule.
    fn holds(&self, value: &Value<'_>, is_list: bool) -> bool {
        match self {
            Test::Exists => !matches!(value, Value::List(list) if list.is_empty()),
            Test::Type(_) => false,
            Test::Text(test) => match value {
                Value::Text(text) | Value::Bytes(text) => test.holds(text),
                Value::List(list) => self.holds_texts(list.iter(), is_list),
                _ => false,
            },
            Test::Number(op, numbers) => {
                let holds = |n: i128| holds_for(*op, numbers, |other| compare(&n, *op, other));
                match value {
                    Value::EitherPort(a, b) => either(*op, holds((*a).into()), holds((*b).into())),
                    Value::List(list) => list
                        .iter()
                        .filter_map(|text| std::str::from_utf8(text).ok()?.parse().ok())
                        .any(holds),
                    value => number_of(value).is_some_and(holds),
                }
            }
            Test::Float(op, other) => match value {
                Value::Float(n) => compare(n, *op, other),
                value => number_of(value).is_some_and(|n| compare(&(n as f64), *op, other)),
            },
            Test::Bool(op, other) => match value {
                Value::Bool(b) => compare(b, *op, other),
                Value::Unsigned(n) => compare(&(*n != 0), *op, other),
                _ => false,
            },
            Test::Ip(op, ips) => {
                let holds = |ip: &Ip| holds_for(*op, ips, |other| compare(ip, *op, other));
                match value {
                    Value::Ip(ip) => holds(ip),
                    Value::EitherIp(a, b) => either(*op, holds(a), holds(b)),
                    _ => false,
                }
            }
            Test::Net(op, nets) => {
                let is_not = *op == Op::NotEqual;
                let holds = |ip: &Ip| holds_for(*op, nets, |net| net.contains(*ip) != is_not);
                match value {
                    Value::Ip(ip) => holds(ip),
                    Value::EitherIp(a, b) => either(*op, holds(a), holds(b)),
                    _ => false,
                }
            }
            Test::Dynamic(text_test, op, numbers) => match (value, numbers) {
                (Value::Text(text) | Value::Bytes(text), _) => text_test.holds(text),
                (value, Some(numbers)) => number_of(value)
                    .is_some_and(|n| holds_for(*op, numbers, |other| compare(&n, *op, other))),
                _ => false,
            },
            Test::Operand(..) => false,
        }
    }

    fn holds_texts<'t>(&self, mut texts: impl Iterator<Item = &'t [u8]>, is_list: bool) -> bool {
        match self {
            Test::Exists => texts.next().is_some(),
            Test::Text(test @ (TextTest::Few(_) | TextTest::Many(_))) if is_list => {
                let mut count = 0;
                let all = texts.inspect(|_| count += 1).all(|text| test.holds(text));
                all && count > 0
            }
            Test::Text(test) => texts.any(|text| test.holds(text)),
            Test::Dynamic(test, ..) => texts.any(|text| test.holds(text)),
            Test::Type(_) | Test::Number(..) | Test::Float(..) | Test::Bool(..) => false,
            Test::Ip(..) | Test::Net(..) | Test::Operand(..) => false,
        }
    }
}

fn any_pair(left: &Texts, op: Op, right: &Texts) -> bool {
    left.iter().any(|left| right.iter().any(|right| compare_texts(left, op, right)))
}

/// Compares a value with the value of a field or transformer.
fn compare_operands(
    left: &Value<'_>,
    op: Op,
    right: &Applied,
    fields: &dyn Fields,
    scratch: &mut Scratch,
    texts: &mut Texts,
) -> Result<bool, Missing> {
    let right = match right {
        Applied::Field(id, argument) => fields.field(*id, argument.borrow(), scratch)?,
        Applied::Apply(Transformer::Length, arguments) => {
            Value::Unsigned(length(arguments, fields, scratch)?)
        }
        applied => {
            texts.clear();
            collect_texts(applied, fields, scratch, texts)?;
            let mut own = Texts::default();
            collect_value(left, &mut own);
            return Ok(any_pair(&own, op, texts));
        }
    };
    Ok(match (left, &right) {
        (Value::Text(a) | Value::Bytes(a), Value::Text(b) | Value::Bytes(b)) => {
            compare_texts(a, op, b)
        }
        (Value::Text(a) | Value::Bytes(a), Value::List(list)) => {
            list.iter().any(|b| compare_texts(a, op, b))
        }
        (Value::List(list), Value::Text(b) | Value::Bytes(b)) => {
            list.iter().any(|a| compare_texts(a, op, b))
        }
        (Value::List(a), Value::List(b)) => {
            a.iter().any(|a| b.iter().any(|b| compare_texts(a, op, b)))
        }
        (Value::Ip(a), Value::Ip(b)) => compare(a, op, b),
        (Value::Bool(a), Value::Bool(b)) => compare(a, op, b),
        (Value::Float(a), Value::Float(b)) => compare(a, op, b),
        (a, b) => match (number_of(a), number_of(b)) {
            (Some(a), Some(b)) => compare(&a, op, &b),
            _ => false,
        },
    })
}
