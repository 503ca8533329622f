//! Values of fields that several comparisons ask for: each is put together once for an event.

use super::fields::OwnedArgument;
use gabion_record::fields::{FieldId, Fields, Missing, Scratch, Value};

/// What a field is for the event at hand.
#[derive(Debug)]
struct Known {
    /// The number of that event.
    event: u64,
    kept: Kept,
    /// The bytes of a text or of a list of texts.
    texts: Scratch,
}

/// How a value is kept.
#[derive(Debug)]
enum Kept {
    Missing(Missing),
    Text,
    List,
    /// One without bytes.
    Plain(Value<'static>),
}

/// The values of one event. The space of texts is used again for the next.
#[derive(Debug, Default)]
pub(super) struct SharedValues {
    known: Vec<Known>,
    event: u64,
    scratch: Scratch,
}

impl SharedValues {
    /// Forgets the values of the last event; the number of this one is another one than those of all before.
    pub(super) fn begin_event(&mut self, event: u64) {
        self.event = event;
    }

    /// The value of the field that has this place among those that are shared.
    ///
    /// # Errors
    /// The reason why the event has none.
    pub(super) fn value(
        &mut self,
        place: u32,
        fields: &dyn Fields,
        (field, argument): (FieldId, &OwnedArgument),
    ) -> Result<Value<'_>, Missing> {
        let place = place as usize;
        while self.known.len() <= place {
            let kept = Kept::Missing(Missing::NotApplicable);
            self.known.push(Known { event: 0, kept, texts: Scratch::new() });
        }
        let Some(known) = self.known.get_mut(place) else { return Err(Missing::NotApplicable) };
        if known.event != self.event {
            known.event = self.event;
            known.kept =
                keep(fields.field(field, argument.borrow(), &mut self.scratch), &mut known.texts);
        }
        match known.kept {
            Kept::Missing(missing) => Err(missing),
            Kept::Text => Ok(known.texts.as_text()),
            Kept::List => Ok(known.texts.as_list()),
            Kept::Plain(value) => Ok(value),
        }
    }
}

fn keep(value: Result<Value<'_>, Missing>, texts: &mut Scratch) -> Kept {
    Kept::Plain(match value {
        Err(missing) => return Kept::Missing(missing),
        // Comparisons make no difference between a text and a buffer.
        Ok(Value::Text(text) | Value::Bytes(text)) => {
            texts.text().extend_from_slice(text);
            return Kept::Text;
        }
        Ok(Value::List(list)) => {
            texts.text();
            list.iter().for_each(|text| texts.push(text));
            return Kept::List;
        }
        Ok(Value::Unsigned(n)) => Value::Unsigned(n),
        Ok(Value::Signed(n)) => Value::Signed(n),
        Ok(Value::Float(n)) => Value::Float(n),
        Ok(Value::Bool(b)) => Value::Bool(b),
        Ok(Value::Ip(ip)) => Value::Ip(ip),
        Ok(Value::EitherIp(a, b)) => Value::EitherIp(a, b),
        Ok(Value::Port(port)) => Value::Port(port),
        Ok(Value::EitherPort(a, b)) => Value::EitherPort(a, b),
        Ok(Value::Time(ns)) => Value::Time(ns),
        Ok(Value::Duration(ns)) => Value::Duration(ns),
    })
}
