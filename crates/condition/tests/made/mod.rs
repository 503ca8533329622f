//! Events that tests make: a few fields with values, everything else absent.
#![allow(dead_code, reason = "each test file uses a part")]

use gabion_condition::compile::resolve_field;
use gabion_condition::lang;
use gabion_record::Ip;
use gabion_record::fields::{Argument, FieldId, Fields, Missing, Scratch, Value};

/// The value of a field of a made event.
#[derive(Clone, Debug)]
pub(crate) enum Made {
    Text(&'static str),
    List(Vec<&'static str>),
    Unsigned(u64),
    Signed(i64),
    Bool(bool),
    Ip(&'static str),
    Ports(u16, u16),
    Missing(Missing),
}

/// An event of the type `openat` unless it is given another.
#[derive(Clone, Debug)]
pub(crate) struct MadeEvent {
    pub(crate) event_type: u16,
    pub(crate) values: Vec<(FieldId, String, Made)>,
}

impl MadeEvent {
    pub(crate) fn new(values: &[(&str, Made)]) -> MadeEvent {
        let values = values.iter().map(|(name, value)| {
            let (operand, _) = lang::parse_field(name).unwrap();
            let lang::Operand::Field(field, _) = operand else { panic!("a field") };
            let (id, argument) = resolve_field(&field).unwrap();
            (id, format!("{:?}", argument.borrow()), value.clone())
        });
        MadeEvent { event_type: 307, values: values.collect() }
    }
}

impl Fields for MadeEvent {
    fn field<'a>(
        &'a self,
        field: FieldId,
        argument: Argument<'_>,
        scratch: &'a mut Scratch,
    ) -> Result<Value<'a>, Missing> {
        let argument = format!("{argument:?}");
        let found = self.values.iter().find(|(id, key, _)| *id == field && *key == argument);
        let (_, _, made) = found.ok_or(Missing::NotApplicable)?;
        Ok(match made {
            Made::Text(text) => Value::Text(text.as_bytes()),
            Made::List(texts) => {
                scratch.text();
                texts.iter().for_each(|text| scratch.push(text.as_bytes()));
                scratch.as_list()
            }
            Made::Unsigned(n) => Value::Unsigned(*n),
            Made::Signed(n) => Value::Signed(*n),
            Made::Bool(b) => Value::Bool(*b),
            Made::Ip(text) => Value::Ip(Ip::parse(text.as_bytes()).unwrap()),
            Made::Missing(reason) => return Err(*reason),
            Made::Ports(a, b) => Value::EitherPort(*a, *b),
        })
    }

    fn event_type(&self) -> u16 {
        self.event_type
    }

    fn event_number(&self) -> u64 {
        1
    }

    fn event_time(&self) -> u64 {
        1_470_327_477_881_785_348
    }
}
