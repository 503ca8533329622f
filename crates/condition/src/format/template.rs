//! Templates such as `file=%fd.name parent=%proc.pname`.

use crate::compile::{Applied, Fault, Texts, collect_texts, collect_value};
use crate::lang;
use crate::limits::{FORMAT_WIDTH_MAX, OUTPUT_VALUE_BYTES_MAX, reached};
use gabion_record::fields::{Fields, Kind, Scratch, Value, ids};
use gabion_record::syscall::{AlertField, AlertValue};
use thiserror::Error;

/// Text for a value that is absent.
const ABSENT: &str = "<NA>";

/// Why a template can't be used.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum FormatError {
    /// What follows the percent sign is no field.
    #[error("invalid formatting token {0}")]
    NoField(String),
    /// The field can be compared, not printed.
    #[error("field '{0}' can't be used in outputs")]
    FilterOnly(String),
    /// The field or transformer is wrong.
    #[error("{0}")]
    Field(Fault),
}

/// A compiled template.
#[derive(Clone, Debug, Default)]
pub struct Format {
    parts: Vec<Part>,
    text: String,
    has_container_info: bool,
}

#[derive(Clone, Debug)]
enum Part {
    Literal(String),
    Field { applied: Applied, name: String, width: Option<usize> },
}

impl Format {
    /// Compiles a template.
    ///
    /// # Errors
    /// A percent sign is followed by something that is no field.
    pub fn new(template: &str) -> Result<Format, FormatError> {
        let mut format = Format { text: template.to_string(), ..Format::default() };
        let mut literal = String::new();
        let mut rest = template;
        while let Some(at) = rest.find('%') {
            literal.push_str(rest.get(..at).unwrap_or_default());
            rest = rest.get(at + 1..).unwrap_or_default();
            if let Some(after) = rest.strip_prefix('%') {
                literal.push('%');
                rest = after;
                continue;
            }
            if let Some(after) = rest.strip_prefix("container.info") {
                format.has_container_info = true;
                rest = after;
                continue;
            }
            let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
            let width = rest.get(..digits).and_then(|digits| digits.parse().ok());
            rest = rest.get(digits..).unwrap_or_default();
            let bad = || {
                let word: String = rest.chars().take_while(|c| !c.is_whitespace()).collect();
                FormatError::NoField(word)
            };
            let (operand, len) = lang::parse_field(rest).map_err(|_| bad())?;
            let applied = Applied::new(&operand).map_err(|error| match error.fault {
                Fault::NoField(_) => bad(),
                fault => FormatError::Field(fault),
            })?;
            if let Some(id) = applied.first_field().filter(|id| id.field().flags.filter_only) {
                return Err(FormatError::FilterOnly(id.name().to_string()));
            }
            if !literal.is_empty() {
                format.parts.push(Part::Literal(std::mem::take(&mut literal)));
            }
            let name = rest.get(..len).unwrap_or_default().to_string();
            let width = width.map(|width: usize| width.min(FORMAT_WIDTH_MAX));
            format.parts.push(Part::Field { applied, name, width });
            rest = rest.get(len..).unwrap_or_default();
        }
        literal.push_str(rest);
        if !literal.is_empty() {
            format.parts.push(Part::Literal(literal));
        }
        Ok(format)
    }

    /// The template as it was written.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Whether it had `%container.info`, which stands for nothing and is deprecated.
    pub fn has_container_info(&self) -> bool {
        self.has_container_info
    }

    /// The names of its fields, as they are written, each once, in order.
    pub fn field_names(&self) -> Vec<&str> {
        let mut names = Vec::new();
        for part in &self.parts {
            if let Part::Field { name, .. } = part
                && !names.contains(&name.as_str())
            {
                names.push(name.as_str());
            }
        }
        names
    }

    /// The fields that Falco warns about.
    pub fn deprecated_fields(&self) -> Vec<&'static str> {
        let fields = self.parts.iter().filter_map(|part| match part {
            Part::Field { applied, .. } => applied.first_field(),
            Part::Literal(_) => None,
        });
        fields.filter(|id| id.field().flags.deprecated).map(|id| id.name()).collect()
    }

    /// Appends the text for an event. A value that is absent is written as `<NA>`.
    pub fn write(&self, fields: &dyn Fields, scratch: &mut Scratch, out: &mut Vec<u8>) {
        for part in &self.parts {
            match part {
                Part::Literal(text) => out.extend_from_slice(text.as_bytes()),
                Part::Field { applied, width, .. } => {
                    let start = out.len();
                    write_value(applied, fields, scratch, out);
                    if out.len() - start > OUTPUT_VALUE_BYTES_MAX {
                        out.truncate(start + OUTPUT_VALUE_BYTES_MAX);
                        reached::OUTPUT_VALUE_BYTES_MAX.count();
                    }
                    if let Some(width) = width {
                        out.resize(start + width, b' ');
                    }
                }
            }
        }
    }

    /// Appends the values of the fields with their types, each field once.
    pub fn values(&self, fields: &dyn Fields, scratch: &mut Scratch, out: &mut Vec<AlertField>) {
        for part in &self.parts {
            let Part::Field { applied, name, .. } = part else { continue };
            if out.iter().all(|field| field.name != *name) {
                let value = output_value(applied, fields, scratch);
                out.push(AlertField { name: name.clone(), value });
            }
        }
    }
}

/// The names of fields that a template names, without compiling it.
pub fn output_fields(template: &str) -> Vec<String> {
    let format = Format::new(template).unwrap_or_default();
    format.field_names().into_iter().map(str::to_string).collect()
}

fn write_value(applied: &Applied, fields: &dyn Fields, scratch: &mut Scratch, out: &mut Vec<u8>) {
    if let Applied::Field(id, argument) = applied {
        match fields.field(*id, argument.borrow(), scratch) {
            Ok(Value::Text(text)) => out.extend_from_slice(text),
            Ok(Value::Bytes(bytes)) => out.extend(bytes.iter().map(|b| printable(*b))),
            Ok(Value::List(list)) => {
                for (i, text) in list.iter().enumerate() {
                    if i > 0 {
                        out.push(b',');
                    }
                    out.extend_from_slice(text);
                }
            }
            Ok(value) => {
                let mut texts = Texts::default();
                collect_value(&value, &mut texts);
                texts.iter().for_each(|text| out.extend_from_slice(text));
            }
            Err(_) => out.extend_from_slice(ABSENT.as_bytes()),
        }
        return;
    }
    let mut texts = Texts::default();
    match collect_texts(applied, fields, scratch, &mut texts) {
        Ok(()) => {
            for (i, text) in texts.iter().enumerate() {
                if i > 0 {
                    out.push(b',');
                }
                out.extend_from_slice(text);
            }
        }
        Err(_) => out.extend_from_slice(ABSENT.as_bytes()),
    }
}

fn printable(b: u8) -> u8 {
    if (0x20..0x7f).contains(&b) { b } else { b'.' }
}

fn output_value(applied: &Applied, fields: &dyn Fields, scratch: &mut Scratch) -> AlertValue {
    if let Applied::Field(id, argument) = applied {
        // Falco writes the time of an event as a number whatever its format.
        if matches!(*id, ids::EVT_TIME | ids::EVT_TIME_ISO8601 | ids::EVT_DATETIME) {
            return AlertValue::Unsigned(fields.event_time());
        }
        return match fields.field(*id, argument.borrow(), scratch) {
            Ok(Value::Unsigned(n) | Value::Time(n) | Value::Duration(n)) => AlertValue::Unsigned(n),
            Ok(Value::Signed(n)) => AlertValue::Signed(n),
            Ok(Value::Float(n)) => AlertValue::Float(n),
            Ok(Value::Bool(b)) => AlertValue::Bool(b),
            Ok(Value::Port(port)) => AlertValue::Unsigned(port.into()),
            Ok(_) => {
                let mut text = Vec::new();
                write_value(applied, fields, scratch, &mut text);
                AlertValue::Text(text)
            }
            Err(_) => AlertValue::Absent,
        };
    }
    let mut texts = Texts::default();
    if collect_texts(applied, fields, scratch, &mut texts).is_err() {
        return AlertValue::Absent;
    }
    let text = texts.iter().collect::<Vec<_>>().join(&b","[..]);
    if applied.kind() == Kind::Unsigned(64) {
        let number = std::str::from_utf8(&text).ok().and_then(|text| text.parse().ok());
        return number.map_or(AlertValue::Absent, AlertValue::Unsigned);
    }
    AlertValue::Text(text)
}
