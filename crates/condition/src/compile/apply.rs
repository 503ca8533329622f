//! Operands at run time: fields, and transformers over fields.

use super::error::{CompileError, Fault};
use super::fields::{OwnedArgument, kind_of, resolve_field, text_of};
use crate::lang::{Argument, Operand, Position, Transformer};
use gabion_record::fields::{FieldId, Fields, Kind, Missing, Scratch, Value};

/// A compiled operand.
#[derive(Debug, PartialEq, Eq, Hash, Clone)]
pub(crate) enum Applied {
    /// A field.
    Field(FieldId, OwnedArgument),
    /// A text.
    Text(Vec<u8>),
    /// Several operands.
    List(Vec<Applied>),
    /// A transformer.
    Apply(Transformer, Vec<Applied>),
}

impl Applied {
    /// Compiles an operand.
    pub(crate) fn new(operand: &Operand) -> Result<Applied, CompileError> {
        match operand {
            Operand::Field(field, position) => {
                let (id, argument) = resolve_field(field).map_err(|fault| fault.at(*position))?;
                Ok(Applied::Field(id, argument))
            }
            Operand::Apply(transformer, arguments, position) => {
                let arguments: Result<Vec<Applied>, CompileError> =
                    arguments.iter().map(Applied::argument).collect();
                let arguments = arguments?;
                check_arguments(*transformer, &arguments, *position)?;
                Ok(match (transformer, arguments) {
                    (Transformer::Val, mut arguments) => arguments.swap_remove(0),
                    (_, arguments) => Applied::Apply(*transformer, arguments),
                })
            }
        }
    }

    fn argument(argument: &Argument) -> Result<Applied, CompileError> {
        Ok(match argument {
            Argument::Operand(operand) => Applied::new(operand)?,
            Argument::Text(text) => Applied::Text(text.clone().into_bytes()),
            Argument::List(inner) => {
                let inner: Result<Vec<Applied>, CompileError> =
                    inner.iter().map(Applied::argument).collect();
                Applied::List(inner?)
            }
        })
    }

    /// The type of its values.
    pub(crate) fn kind(&self) -> Kind {
        match self {
            Applied::Field(id, _) => kind_of(*id),
            Applied::Apply(Transformer::Length, _) => Kind::Unsigned(64),
            Applied::Text(_) | Applied::List(_) | Applied::Apply(..) => Kind::Text,
        }
    }

    /// Whether all of its values must be in a list, not just one: fields that are lists, and transformers that make
    /// lists.
    pub(crate) fn is_list(&self) -> bool {
        match self {
            Applied::Field(id, _) => id.field().flags.list,
            Applied::Apply(Transformer::GetOption, _) => true,
            Applied::Text(_) | Applied::List(_) | Applied::Apply(..) => false,
        }
    }

    /// The first field in it, for messages.
    pub(crate) fn first_field(&self) -> Option<FieldId> {
        match self {
            Applied::Field(id, _) => Some(*id),
            Applied::Text(_) => None,
            Applied::List(inner) | Applied::Apply(_, inner) => {
                inner.iter().find_map(Applied::first_field)
            }
        }
    }
}

/// The name of an operand in messages: that of its first field.
pub(super) fn name_of(operand: &Operand) -> String {
    match operand {
        Operand::Field(field, _) => text_of(field),
        Operand::Apply(_, arguments, _) => {
            arguments.iter().find_map(argument_name).unwrap_or_default()
        }
    }
}

fn argument_name(argument: &Argument) -> Option<String> {
    match argument {
        Argument::Operand(operand) => Some(name_of(operand)),
        Argument::Text(_) => None,
        Argument::List(inner) => inner.iter().find_map(argument_name),
    }
}

/// Whether the transformer takes these arguments.
fn check_arguments(
    transformer: Transformer,
    arguments: &[Applied],
    position: Position,
) -> Result<(), CompileError> {
    let wrong = |takes: &'static str| Err(Fault::Arguments(transformer.word(), takes).at(position));
    match transformer {
        Transformer::Val if !matches!(arguments, [Applied::Field(..)]) => {
            return wrong("one field");
        }
        Transformer::Val => return Ok(()),
        Transformer::ToLower | Transformer::ToUpper | Transformer::Base64
            if arguments.len() != 1 =>
        {
            return wrong("one value");
        }
        Transformer::BaseName | Transformer::Length if arguments.len() != 1 => {
            return wrong("one value");
        }
        Transformer::Join if arguments.len() != 2 => return wrong("a separator and a list"),
        Transformer::Concat if arguments.len() < 2 => return wrong("two values or more"),
        Transformer::GetOption if arguments.len() < 2 => {
            return wrong("a list and the names of options");
        }
        Transformer::ToLower | Transformer::ToUpper | Transformer::Base64 => {}
        Transformer::BaseName | Transformer::Length => {}
        Transformer::Join | Transformer::Concat | Transformer::GetOption => {}
    }
    arguments.iter().try_for_each(|argument| check_argument(transformer, argument, position))
}

fn check_argument(
    transformer: Transformer,
    argument: &Applied,
    position: Position,
) -> Result<(), CompileError> {
    if let Applied::List(inner) = argument {
        return inner
            .iter()
            .try_for_each(|argument| check_argument(transformer, argument, position));
    }
    let field = argument.first_field().map_or(String::new(), |id| id.name().to_string());
    if let Applied::Field(id, _) = argument
        && id.field().flags.no_transformer
    {
        return Err(Fault::NoTransformer(field).at(position));
    }
    match argument.kind() {
        Kind::Text => Ok(()),
        Kind::Bytes if transformer != Transformer::GetOption => Ok(()),
        kind => {
            let (kind, transformer) = (kind.name(), transformer.word());
            Err(Fault::NoTransformerForKind { kind, transformer, field }.at(position))
        }
    }
}

/// Texts that transformers work on, one after the other in one buffer.
#[derive(Debug, Default)]
pub(crate) struct Texts {
    bytes: Vec<u8>,
    ends: Vec<usize>,
}

impl Texts {
    pub(crate) fn clear(&mut self) {
        self.bytes.clear();
        self.ends.clear();
    }

    pub(crate) fn push(&mut self, text: &[u8]) {
        self.bytes.extend_from_slice(text);
        self.ends.push(self.bytes.len());
    }

    pub(crate) fn len(&self) -> usize {
        self.ends.len()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &[u8]> {
        (0..self.ends.len()).map(|i| {
            let start = if i == 0 { 0 } else { self.ends[i - 1] };
            self.bytes.get(start..self.ends[i]).unwrap_or_default()
        })
    }

    /// Replaces every text by what `change` makes of it.
    fn map(&mut self, change: impl Fn(&[u8], &mut Vec<u8>)) {
        let old = std::mem::take(self);
        for text in old.iter() {
            change(text, &mut self.bytes);
            self.ends.push(self.bytes.len());
        }
    }
}

/// Appends the texts of an operand.
///
/// # Errors
/// The reason why a field in it has no value.
pub(crate) fn collect_texts(
    applied: &Applied,
    fields: &dyn Fields,
    scratch: &mut Scratch,
    out: &mut Texts,
) -> Result<(), Missing> {
    match applied {
        Applied::Field(id, argument) => {
            collect_value(&fields.field(*id, argument.borrow(), scratch)?, out);
            Ok(())
        }
        Applied::Text(text) => {
            out.push(text);
            Ok(())
        }
        Applied::List(inner) => {
            inner.iter().try_for_each(|each| collect_texts(each, fields, scratch, out))
        }
        Applied::Apply(transformer, arguments) => {
            let mut texts = Texts::default();
            arguments
                .iter()
                .try_for_each(|each| collect_texts(each, fields, scratch, &mut texts))?;
            apply(*transformer, arguments, texts, out)
        }
    }
}

/// The length that `len` returns.
///
/// # Errors
/// The reason why a field in it has no value.
pub(super) fn length(
    arguments: &[Applied],
    fields: &dyn Fields,
    scratch: &mut Scratch,
) -> Result<u64, Missing> {
    let mut texts = Texts::default();
    arguments.iter().try_for_each(|each| collect_texts(each, fields, scratch, &mut texts))?;
    let is_list = arguments.iter().any(|each| matches!(each, Applied::List(_)) || each.is_list());
    Ok(if is_list { texts.len() } else { texts.bytes.len() } as u64)
}

/// Appends the text of a value, and each text of a list.
pub(crate) fn collect_value(value: &Value<'_>, out: &mut Texts) {
    match value {
        Value::Text(text) | Value::Bytes(text) => out.push(text),
        Value::List(list) => list.iter().for_each(|text| out.push(text)),
        Value::Unsigned(n) | Value::Time(n) | Value::Duration(n) => {
            out.push(n.to_string().as_bytes())
        }
        Value::Signed(n) => out.push(n.to_string().as_bytes()),
        Value::Float(n) => out.push(n.to_string().as_bytes()),
        Value::Bool(b) => out.push(if *b { b"true" } else { b"false" }),
        Value::Ip(ip) => out.push(ip.to_string().as_bytes()),
        Value::EitherIp(a, b) => {
            out.push(a.to_string().as_bytes());
            out.push(b.to_string().as_bytes());
        }
        Value::Port(port) => out.push(port.to_string().as_bytes()),
        Value::EitherPort(a, b) => {
            out.push(a.to_string().as_bytes());
            out.push(b.to_string().as_bytes());
        }
    }
}

fn apply(
    transformer: Transformer,
    arguments: &[Applied],
    mut texts: Texts,
    out: &mut Texts,
) -> Result<(), Missing> {
    match transformer {
        Transformer::Val => {}
        Transformer::ToLower => {
            texts.map(|text, out| out.extend(text.iter().map(u8::to_ascii_lowercase)))
        }
        Transformer::ToUpper => {
            texts.map(|text, out| out.extend(text.iter().map(u8::to_ascii_uppercase)))
        }
        Transformer::BaseName => texts.map(|text, out| {
            let start = text.iter().rposition(|b| *b == b'/').map_or(0, |slash| slash + 1);
            out.extend_from_slice(text.get(start..).unwrap_or_default());
        }),
        Transformer::Base64 => {
            let old = std::mem::take(&mut texts);
            for text in old.iter() {
                texts.push(&decode_base64(text).ok_or(Missing::NotApplicable)?);
            }
        }
        Transformer::Length => {
            let is_list =
                arguments.iter().any(|each| matches!(each, Applied::List(_)) || each.is_list());
            let length = if is_list { texts.len() } else { texts.bytes.len() };
            texts.clear();
            texts.push(length.to_string().as_bytes());
        }
        Transformer::Join => {
            let old = std::mem::take(&mut texts);
            let mut parts = old.iter();
            let separator = parts.next().unwrap_or_default();
            for (i, part) in parts.enumerate() {
                if i > 0 {
                    texts.bytes.extend_from_slice(separator);
                }
                texts.bytes.extend_from_slice(part);
            }
            texts.ends.push(texts.bytes.len());
        }
        Transformer::Concat => texts.ends = vec![texts.bytes.len()],
        Transformer::GetOption => {
            let names: Vec<&[u8]> = arguments.iter().skip(1).filter_map(literal).collect();
            let old = std::mem::take(&mut texts);
            let count = old.len().saturating_sub(names.len());
            let words: Vec<&[u8]> = old.iter().take(count).collect();
            option_values(&words, &names, &mut texts);
            if texts.len() == 0 {
                return Err(Missing::NotApplicable);
            }
        }
    }
    texts.iter().for_each(|text| out.push(text));
    Ok(())
}

fn literal(applied: &Applied) -> Option<&[u8]> {
    match applied {
        Applied::Text(text) => Some(text),
        Applied::Field(..) | Applied::List(_) | Applied::Apply(..) => None,
    }
}

/// The values of the options of these names in a command line: `-o value`, `-ovalue`, `--option value` and
/// `--option=value`. Names are with or without their dashes.
fn option_values(words: &[&[u8]], names: &[&[u8]], out: &mut Texts) {
    for (i, word) in words.iter().enumerate() {
        for name in names {
            let dashes = name.iter().take_while(|b| **b == b'-').count();
            let bare = name.get(dashes..).unwrap_or_default();
            let prefix: &[u8] = if bare.len() > 1 { b"--" } else { b"-" };
            let Some(rest) = word.strip_prefix(prefix).and_then(|word| word.strip_prefix(bare))
            else {
                continue;
            };
            match rest {
                [] => out.push(words.get(i + 1).copied().unwrap_or_default()),
                [b'=', value @ ..] => out.push(value),
                value if bare.len() == 1 => out.push(value),
                _ => {}
            }
        }
    }
}

/// What base64 text (RFC 4648, padding optional) stands for.
fn decode_base64(text: &[u8]) -> Option<Vec<u8>> {
    let text = text.strip_suffix(b"==").or_else(|| text.strip_suffix(b"=")).unwrap_or(text);
    let mut out = Vec::with_capacity(text.len() / 4 * 3 + 2);
    for chunk in text.chunks(4) {
        let mut bits = 0u32;
        for b in chunk {
            let value = match b {
                b'A'..=b'Z' => b - b'A',
                b'a'..=b'z' => b - b'a' + 26,
                b'0'..=b'9' => b - b'0' + 52,
                b'+' => 62,
                b'/' => 63,
                _ => return None,
            };
            bits = bits << 6 | u32::from(value);
        }
        match chunk.len() {
            4 => out.extend_from_slice(bits.to_be_bytes().get(1..)?),
            // Bits that belong to no byte must be zero, or the text was not made by an encoder.
            3 if bits & 3 == 0 => out.extend_from_slice((bits >> 2).to_be_bytes().get(2..)?),
            2 if bits & 15 == 0 => out.push((bits >> 4) as u8),
            _ => return None,
        }
    }
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base64_is_decoded_with_and_without_padding() {
        assert_eq!(decode_base64(b"aGVsbG8="), Some(b"hello".to_vec()));
        assert_eq!(decode_base64(b"aGVsbG8"), Some(b"hello".to_vec()));
        assert_eq!(decode_base64(b"YQ=="), Some(b"a".to_vec()));
        assert_eq!(decode_base64(b"bash!"), None);
        assert_eq!(decode_base64(b"a"), None);
        assert_eq!((decode_base64(b"cat"), decode_base64(b"docker")), (None, None));
    }

    #[test]
    fn options_have_their_values() {
        let mut out = Texts::default();
        let words: [&[u8]; 6] = [b"-c", b"id", b"--user=root", b"-xv", b"--host", b"h"];
        option_values(&words, &[b"c", b"--user", b"x", b"host"], &mut out);
        assert_eq!(out.iter().collect::<Vec<_>>(), [&b"id"[..], b"root", b"v", b"h"]);
    }
}
