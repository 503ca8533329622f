//! Bencoding (BEP 3): numbers, byte strings, lists and dictionaries, read without copies and to a bounded depth.

use super::limits::reached;

/// A value. Of lists and dictionaries the bytes between their `l` or `d` and their `e`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Value<'a> {
    /// Its digits: a number may be of any size.
    Number(&'a [u8]),
    Bytes(&'a [u8]),
    List(&'a [u8]),
    Dictionary(&'a [u8]),
}

/// The bytes are not bencoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Malformed;

/// Values, one after the other.
#[derive(Clone, Copy, Debug)]
pub(super) struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    pub(super) fn from_bytes(rest: &'a [u8]) -> Reader<'a> {
        Reader { rest }
    }

    /// The next value; `None` at the end.
    pub(super) fn next_value(&mut self) -> Result<Option<Value<'a>>, Malformed> {
        let Some(&first) = self.rest.first() else { return Ok(None) };
        let value = match first {
            b'l' | b'd' => {
                let (content, rest) = split_nest(self.rest)?;
                self.rest = rest;
                if first == b'l' { Value::List(content) } else { Value::Dictionary(content) }
            }
            _ => {
                let (value, rest) = split_scalar(self.rest)?;
                self.rest = rest;
                value
            }
        };
        Ok(Some(value))
    }
}

/// The entries of a dictionary, whose keys must ascend (BEP 3).
pub(super) struct Entries<'a> {
    reader: Reader<'a>,
    last: Option<&'a [u8]>,
}

impl<'a> Entries<'a> {
    pub(super) fn from_content(content: &'a [u8]) -> Entries<'a> {
        Entries { reader: Reader::from_bytes(content), last: None }
    }

    /// The next one; `None` at the end.
    pub(super) fn next_entry(&mut self) -> Result<Option<(&'a [u8], Value<'a>)>, Malformed> {
        let key = match self.reader.next_value()? {
            None => return Ok(None),
            Some(Value::Bytes(key)) if self.last.is_none_or(|last| last < key) => key,
            Some(_) => return Err(Malformed),
        };
        self.last = Some(key);
        let value = self.reader.next_value()?.ok_or(Malformed)?;
        Ok(Some((key, value)))
    }
}

/// A number or a byte string, and what follows it.
fn split_scalar(bytes: &[u8]) -> Result<(Value<'_>, &[u8]), Malformed> {
    match bytes {
        [b'i', rest @ ..] => {
            let end = rest.iter().position(|b| *b == b'e').ok_or(Malformed)?;
            let (digits, rest) = rest.split_at_checked(end).ok_or(Malformed)?;
            if !is_number(digits.strip_prefix(b"-").unwrap_or(digits)) || digits == b"-0" {
                return Err(Malformed);
            }
            Ok((Value::Number(digits), rest.get(1..).unwrap_or_default()))
        }
        [b'0'..=b'9', ..] => {
            let end = bytes.iter().position(|b| *b == b':').ok_or(Malformed)?;
            let (digits, rest) = bytes.split_at_checked(end).ok_or(Malformed)?;
            let len = Some(digits).filter(|digits| is_number(digits)).and_then(to_number);
            let len = len.ok_or(Malformed)?;
            let (string, rest) =
                rest.get(1..).unwrap_or_default().split_at_checked(len).ok_or(Malformed)?;
            Ok((Value::Bytes(string), rest))
        }
        _ => Err(Malformed),
    }
}

/// Digits without leading zeros (BEP 3).
fn is_number(digits: &[u8]) -> bool {
    let is_plain = !digits.is_empty() && digits.iter().all(u8::is_ascii_digit);
    is_plain && (digits.len() == 1 || digits.first() != Some(&b'0'))
}

/// The value of digits, if it fits.
pub(super) fn to_number<T: std::str::FromStr>(digits: &[u8]) -> Option<T> {
    std::str::from_utf8(digits).ok()?.parse().ok()
}

/// The content of a list or dictionary, and what follows it. A step for each value in it, none for a level.
fn split_nest(bytes: &[u8]) -> Result<(&[u8], &[u8]), Malformed> {
    let (mut rest, mut depth) = (bytes, 0);
    loop {
        match rest.first() {
            Some(b'l' | b'd') => {
                if !reached::DEPTH_MAX.has_room(depth) {
                    return Err(Malformed);
                }
                depth += 1;
                rest = rest.get(1..).ok_or(Malformed)?;
            }
            Some(b'e') => {
                depth -= 1;
                if depth == 0 {
                    let end = bytes.len() - rest.len();
                    let content = bytes.get(1..end).ok_or(Malformed)?;
                    return Ok((content, rest.get(1..).ok_or(Malformed)?));
                }
                rest = rest.get(1..).ok_or(Malformed)?;
            }
            Some(_) => rest = split_scalar(rest)?.1,
            None => return Err(Malformed),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bittorrent_dht::limits::DEPTH_MAX;

    #[test]
    fn values_as_the_format_has_them() {
        let mut reader = Reader::from_bytes(b"i-5e3:abcld1:ai0eei7ee0:");
        let mut values = Vec::new();
        while let Ok(Some(value)) = reader.next_value() {
            values.push(value);
        }
        let expected = [
            Value::Number(b"-5"),
            Value::Bytes(b"abc"),
            Value::List(b"d1:ai0eei7e"),
            Value::Bytes(b""),
        ];
        assert_eq!(values, expected);
        for broken in [
            &b"i-0e"[..],
            b"i03e",
            b"ie",
            b"i5",
            b"5:abc",
            b"-1:a",
            b"l",
            b"d1:a",
            b"e",
            b"x",
            b"03:abc",
            b"99999999999999999999:a",
            b"i1-e",
            b"i+1e",
        ] {
            assert_eq!(Reader::from_bytes(broken).next_value(), Err(Malformed), "{broken:?}");
        }
        let five = Value::Number(b"5");
        for rest in [&b"1:bl"[..], b"1:ai6e", b"0:i6e", b"i1ei6e", b"1:b"] {
            let content = [b"1:ai5e", rest].concat();
            let mut entries = Entries::from_content(&content);
            assert_eq!(entries.next_entry(), Ok(Some((&b"a"[..], five))));
            assert_eq!(entries.next_entry(), Err(Malformed), "{rest:?}");
        }
    }

    /// Lists in lists are read to a bounded depth, without recursion.
    #[test]
    fn depth_is_bounded() {
        let nest = |n: usize| [b"l".repeat(n), b"e".repeat(n)].concat();
        assert!(Reader::from_bytes(&nest(DEPTH_MAX)).next_value().is_ok());
        assert_eq!(Reader::from_bytes(&nest(DEPTH_MAX + 1)).next_value(), Err(Malformed));
        assert_eq!(Reader::from_bytes(&b"l".repeat(60_000)).next_value(), Err(Malformed));
        assert_eq!(gabion_record::limits::take_reached().times_reached(&reached::DEPTH_MAX), 2);
        // However long a list is, each of its values is a step.
        let flat = [b"l", b"i1e".repeat(20_000).as_slice(), b"e"].concat();
        assert!(Reader::from_bytes(&flat).next_value().is_ok());
    }
}
