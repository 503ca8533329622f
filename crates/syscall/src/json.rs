//! A small reader of JSON, for what container runtimes report. Its input is one event, at most 64 KiB; it is read into
//! a tree of bounded depth, and anything that is not JSON is no value.

use crate::limits::JSON_DEPTH_MAX;

/// A value of JSON. Numbers keep their digits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Json {
    Null,
    Bool(bool),
    Number(Vec<u8>),
    Text(Vec<u8>),
    List(Vec<Json>),
    Object(Vec<(Vec<u8>, Json)>),
}

impl Json {
    /// Reads a text that holds one value and nothing else.
    pub(crate) fn parse(text: &[u8]) -> Option<Json> {
        let mut parser = Parser { rest: text };
        let value = parser.value(0)?;
        parser.skip_blanks();
        parser.rest.is_empty().then_some(value)
    }

    /// A member of an object.
    pub(crate) fn get(&self, key: &str) -> Option<&Json> {
        self.members().find(|(name, _)| *name == key.as_bytes()).map(|(_, value)| value)
    }

    /// The members of an object in their order; of anything else none.
    pub(crate) fn members(&self) -> impl Iterator<Item = (&[u8], &Json)> {
        let members: &[(Vec<u8>, Json)] =
            if let Json::Object(members) = self { members } else { &[] };
        members.iter().map(|(name, value)| (name.as_slice(), value))
    }

    /// The values of a list; of anything else none.
    pub(crate) fn values(&self) -> &[Json] {
        if let Json::List(values) = self { values } else { &[] }
    }

    /// A text that is not empty, or the digits of a number.
    pub(crate) fn text(&self) -> Option<&[u8]> {
        let (Json::Text(text) | Json::Number(text)) = self else { return None };
        Some(text.as_slice()).filter(|text| !text.is_empty())
    }

    /// Yes or no.
    pub(crate) fn bool(&self) -> Option<bool> {
        if let Json::Bool(is) = self { Some(*is) } else { None }
    }
}

struct Parser<'a> {
    rest: &'a [u8],
}

impl Parser<'_> {
    fn skip_blanks(&mut self) {
        self.rest = self.rest.trim_ascii_start();
    }

    /// Takes this byte if it is the next one after blanks.
    fn take_byte(&mut self, byte: u8) -> Option<()> {
        self.skip_blanks();
        self.rest = self.rest.strip_prefix(&[byte])?;
        Some(())
    }

    fn word(&mut self, word: &[u8], value: Json) -> Option<Json> {
        self.rest = self.rest.strip_prefix(word)?;
        Some(value)
    }

    fn value(&mut self, depth: usize) -> Option<Json> {
        if depth >= JSON_DEPTH_MAX {
            return None;
        }
        self.skip_blanks();
        match *self.rest.first()? {
            b'{' => self.object(depth),
            b'[' => self.list(depth),
            b'"' => self.text().map(Json::Text),
            b't' => self.word(b"true", Json::Bool(true)),
            b'f' => self.word(b"false", Json::Bool(false)),
            b'n' => self.word(b"null", Json::Null),
            _ => {
                let is_part = |b: &u8| b.is_ascii_digit() || b"+-.eE".contains(b);
                let len = self.rest.iter().take_while(|b| is_part(b)).count();
                let (digits, rest) = self.rest.split_at_checked(len)?;
                self.rest = rest;
                (len > 0).then(|| Json::Number(digits.to_vec()))
            }
        }
    }

    fn object(&mut self, depth: usize) -> Option<Json> {
        self.take_byte(b'{')?;
        let mut members = Vec::new();
        if self.take_byte(b'}').is_some() {
            return Some(Json::Object(members));
        }
        loop {
            self.skip_blanks();
            let name = self.text()?;
            self.take_byte(b':')?;
            members.push((name, self.value(depth + 1)?));
            if self.take_byte(b',').is_none() {
                self.take_byte(b'}')?;
                return Some(Json::Object(members));
            }
        }
    }

    fn list(&mut self, depth: usize) -> Option<Json> {
        self.take_byte(b'[')?;
        let mut values = Vec::new();
        if self.take_byte(b']').is_some() {
            return Some(Json::List(values));
        }
        loop {
            values.push(self.value(depth + 1)?);
            if self.take_byte(b',').is_none() {
                self.take_byte(b']')?;
                return Some(Json::List(values));
            }
        }
    }

    fn text(&mut self) -> Option<Vec<u8>> {
        self.rest = self.rest.strip_prefix(b"\"")?;
        let mut text = Vec::new();
        loop {
            let (byte, rest) = self.rest.split_first()?;
            self.rest = rest;
            match byte {
                b'"' => return Some(text),
                b'\\' => self.escape(&mut text)?,
                byte => text.push(*byte),
            }
        }
    }

    fn escape(&mut self, text: &mut Vec<u8>) -> Option<()> {
        let (byte, rest) = self.rest.split_first()?;
        self.rest = rest;
        text.push(match byte {
            b'n' => b'\n',
            b't' => b'\t',
            b'r' => b'\r',
            b'b' => 8,
            b'f' => 12,
            b'"' | b'\\' | b'/' => *byte,
            b'u' => {
                let (digits, rest) = self.rest.split_at_checked(4)?;
                self.rest = rest;
                let digits = std::str::from_utf8(digits).ok()?;
                let number = u32::from_str_radix(digits, 16).ok()?;
                // Halves of pairs stand for nothing that a name of a container has.
                let char = char::from_u32(number).unwrap_or(char::REPLACEMENT_CHARACTER);
                text.extend_from_slice(char.encode_utf8(&mut [0; 4]).as_bytes());
                return Some(());
            }
            _ => return None,
        });
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_read_and_anything_else_is_none() {
        let json =
            Json::parse(br#" {"a": [1, -2.5e3, "x\n\u0041\"", true, null], "b": {}} "#).unwrap();
        let list = json.get("a").unwrap().values();
        assert_eq!((list[0].text(), list[1].text()), (Some(&b"1"[..]), Some(&b"-2.5e3"[..])));
        assert_eq!((list[2].text(), list[3].bool()), (Some(&b"x\nA\""[..]), Some(true)));
        assert_eq!((list[4].text(), json.get("b").unwrap().members().count()), (None, 0));
        let deep = [b"[".repeat(100), b"]".repeat(100)].concat();
        for wrong in
            [&b""[..], b"{", b"{\"a\"}", b"[1,]", b"\"a", b"tru", b"1 2", b"\"\\x\"", &deep]
        {
            assert_eq!(Json::parse(wrong), None, "{wrong:?}");
        }
    }
}
