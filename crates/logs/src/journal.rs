//! The export format of systemd's journal, as `journalctl -o export` writes it and `systemd-journal-remote` reads it
//! ([its description](https://systemd.io/JOURNAL_EXPORT_FORMATS/)).
//!
//! An entry is a run of fields that an empty line ends. A field is `NAME=value` and a line end; one whose value is no
//! plain line is its name, a line end, eight bytes of length (lowest first), the value, and a line end. Entries are kept
//! as they came, so that they can be returned byte for byte, and are parsed again each time.

use crate::limits::{JOURNAL_ENTRY_MAX, reached};

/// What comes next in a stream of entries.
#[derive(Clone, Copy, Debug, Default)]
enum Expects {
    /// A name, or the empty line at an entry's end.
    #[default]
    Name,
    /// The rest of a line after `=`.
    Text,
    /// This many bytes of a length that was begun.
    Length(usize, [u8; 8]),
    /// This many bytes of a value, and its line end.
    Value(u64),
}

/// Why a stream is none of the journal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoEntry {
    /// The entry, from 1 on.
    pub entry: u64,
    /// What is wrong with it.
    pub why: &'static str,
}

/// Cuts a stream into entries, whatever pieces it comes in, in the room of one entry.
#[derive(Debug, Default)]
pub struct Entries {
    /// The entry so far, as it is to be kept.
    entry: Vec<u8>,
    /// Where its last field begins there.
    field: usize,
    expects: Expects,
    /// What of the last field has no room is passed over.
    is_passed_over: bool,
    /// Fields of this entry that had no room.
    left_out: u32,
    count: u64,
}

/// Takes entries, and how many fields of each had no room; an error of its own ends the reading.
type Each<'a, E> = dyn FnMut(&[u8], u32) -> Result<(), E> + 'a;

/// How reading ends early.
#[derive(Debug, PartialEq, Eq)]
pub enum Failed<E> {
    /// The stream is none of the journal.
    NoEntry(NoEntry),
    /// The answer of the function that takes entries.
    Taken(E),
}

impl Entries {
    /// Takes bytes, and gives the entries that end in them. An entry has its fields, without the empty line.
    ///
    /// # Errors
    /// When it is no stream of entries, or `each` fails.
    pub fn push<E>(&mut self, bytes: &[u8], each: &mut Each<'_, E>) -> Result<(), Failed<E>> {
        let mut rest = bytes;
        while let Some(byte) = rest.first() {
            match self.expects {
                Expects::Name => {
                    let end = rest.iter().position(|b| matches!(b, b'\n' | b'='));
                    let (name, behind) = rest.split_at(end.unwrap_or(rest.len()));
                    self.name(name)?;
                    rest = behind;
                    let Some((end, behind)) = behind.split_first() else { continue };
                    rest = behind;
                    let len = self.entry.len() - self.field;
                    match (end, len) {
                        (b'\n', 0) => self.give(each)?,
                        (b'=', 0) => return Err(self.wrong("a field without a name")),
                        (b'=', _) => {
                            self.keep(b"=");
                            self.expects = Expects::Text;
                        }
                        _ => {
                            self.keep(b"\n");
                            self.expects = Expects::Length(0, [0; 8]);
                        }
                    }
                }
                Expects::Text => {
                    let end = memchr::memchr(b'\n', rest).map(|at| at + 1);
                    let (part, behind) = rest.split_at(end.unwrap_or(rest.len()));
                    self.keep(part);
                    rest = behind;
                    if end.is_some() {
                        self.end_field();
                    }
                }
                Expects::Length(have, mut length) => {
                    if let Some(place) = length.get_mut(have) {
                        *place = *byte;
                    }
                    rest = rest.get(1..).unwrap_or_default();
                    self.expects = Expects::Length(have + 1, length);
                    if have + 1 == length.len() {
                        self.keep(&length);
                        // With the line end after the value.
                        let value = u64::from_le_bytes(length).checked_add(1);
                        let value = value.ok_or_else(|| self.wrong("a length that can't be"))?;
                        self.expects = Expects::Value(value);
                    }
                }
                Expects::Value(left) => {
                    let len = usize::try_from(left).unwrap_or(usize::MAX).min(rest.len());
                    let (part, behind) = rest.split_at(len);
                    self.keep(part);
                    rest = behind;
                    let left = left - len as u64;
                    self.expects = Expects::Value(left);
                    if left == 0 {
                        if part.last() != Some(&b'\n') {
                            return Err(self.wrong("a value that is longer than its length says"));
                        }
                        self.end_field();
                    }
                }
            }
        }
        Ok(())
    }

    /// The stream is over: gives a last entry without an empty line, when its fields are whole.
    ///
    /// # Errors
    /// When it ends within a field, or `each` fails.
    pub fn finish<E>(&mut self, each: &mut Each<'_, E>) -> Result<(), Failed<E>> {
        match self.expects {
            Expects::Name if self.entry.len() == self.field => self.give(each),
            Expects::Name | Expects::Text | Expects::Length(..) | Expects::Value(_) => {
                Err(self.wrong("the input ends within a field"))
            }
        }
    }

    /// Takes a part of a name.
    fn name<E>(&mut self, part: &[u8]) -> Result<(), Failed<E>> {
        // Letter by letter: the first error is reported, however the bytes are split. A name alone is never too
        // much for an entry: what is skipped begins after it.
        for byte in part {
            if !(byte.is_ascii_uppercase() || byte.is_ascii_digit() || *byte == b'_') {
                return Err(self.wrong("a name with other letters than A to Z, 0 to 9 and _"));
            }
            if !reached::JOURNAL_NAME_MAX.has_room(self.entry.len() - self.field) {
                return Err(self.wrong("a name of more than 64 letters"));
            }
            self.entry.push(*byte);
        }
        Ok(())
    }

    fn keep(&mut self, bytes: &[u8]) {
        self.is_passed_over |= self.entry.len() + bytes.len() > JOURNAL_ENTRY_MAX;
        if !self.is_passed_over {
            self.entry.extend_from_slice(bytes);
        }
    }

    fn end_field(&mut self) {
        if std::mem::take(&mut self.is_passed_over) {
            self.entry.truncate(self.field);
            self.left_out += 1;
            reached::JOURNAL_ENTRY_MAX.count();
        }
        self.field = self.entry.len();
        self.expects = Expects::Name;
    }

    fn give<E>(&mut self, each: &mut Each<'_, E>) -> Result<(), Failed<E>> {
        let given = if self.entry.is_empty() && self.left_out == 0 {
            // Empty lines between entries say nothing.
            Ok(())
        } else {
            self.count += 1;
            each(&self.entry, self.left_out).map_err(Failed::Taken)
        };
        self.entry.clear();
        (self.field, self.left_out, self.expects) = (0, 0, Expects::Name);
        given
    }

    fn wrong<E>(&self, why: &'static str) -> Failed<E> {
        Failed::NoEntry(NoEntry { entry: self.count + 1, why })
    }
}

/// An entry as it is kept.
#[derive(Clone, Copy, Debug)]
pub struct Entry<'a>(pub &'a [u8]);

impl<'a> Entry<'a> {
    /// Its fields in their order, name and value. It ends at what is no field.
    pub fn fields(self) -> impl Iterator<Item = (&'a [u8], &'a [u8])> {
        let mut rest = self.0;
        std::iter::from_fn(move || {
            let end = rest.iter().position(|b| matches!(b, b'\n' | b'='))?;
            let (name, behind) = rest.split_at_checked(end)?;
            let (mark, behind) = behind.split_first()?;
            let (value, after) = match mark {
                b'=' => behind.split_at_checked(memchr::memchr(b'\n', behind)?)?,
                _ => {
                    let (len, behind) = behind.split_first_chunk::<8>()?;
                    behind.split_at_checked(usize::try_from(u64::from_le_bytes(*len)).ok()?)?
                }
            };
            rest = after.get(1..)?;
            Some((name, value))
        })
    }

    /// The first value of a field.
    #[must_use]
    pub fn get(self, name: &str) -> Option<&'a [u8]> {
        self.fields().find(|(n, _)| *n == name.as_bytes()).map(|(_, value)| value)
    }

    /// All of its fields, read once for a caller that needs several of them.
    #[must_use]
    pub fn read_fields(self) -> Fields<'a> {
        let mut all = Vec::with_capacity(32);
        all.extend(self.fields());
        Fields { all }
    }
}

/// The fields of an entry.
#[derive(Clone, Debug)]
pub struct Fields<'a> {
    /// In their order, name and value.
    pub all: Vec<(&'a [u8], &'a [u8])>,
}

impl<'a> Fields<'a> {
    /// The first value of a field.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&'a [u8]> {
        self.all.iter().find(|(n, _)| *n == name.as_bytes()).map(|(_, value)| *value)
    }

    /// The first of these fields that there is.
    #[must_use]
    pub fn first_of(&self, names: &[&str]) -> Option<&'a [u8]> {
        names.iter().find_map(|name| self.get(name))
    }

    /// Its host.
    #[must_use]
    pub fn host(&self) -> Option<&'a [u8]> {
        self.get("_HOSTNAME")
    }

    /// The program, as it calls itself or as the system does.
    #[must_use]
    pub fn program(&self) -> Option<&'a [u8]> {
        self.first_of(&["SYSLOG_IDENTIFIER", "_COMM"])
    }

    /// The process.
    #[must_use]
    pub fn process(&self) -> Option<&'a [u8]> {
        self.first_of(&["_PID", "SYSLOG_PID"])
    }

    /// Severity, 0 (emergency) to 7 (debug).
    #[must_use]
    pub fn priority(&self) -> Option<u8> {
        self.get("PRIORITY").and_then(priority)
    }

    /// Facility of syslog.
    #[must_use]
    pub fn facility(&self) -> Option<u8> {
        self.number("SYSLOG_FACILITY").and_then(|n| u8::try_from(n).ok()).filter(|n| *n < 24)
    }

    /// When it was written, microseconds since 1970: by the journal, else by the sender's own stamp.
    #[must_use]
    pub fn time_us(&self) -> Option<u64> {
        self.number("__REALTIME_TIMESTAMP").or_else(|| self.number("_SOURCE_REALTIME_TIMESTAMP"))
    }

    fn number(&self, name: &str) -> Option<u64> {
        std::str::from_utf8(self.get(name)?).ok()?.parse().ok()
    }
}

/// The severity that a value of `PRIORITY` states.
#[must_use]
pub fn priority(value: &[u8]) -> Option<u8> {
    std::str::from_utf8(value).ok()?.parse().ok().filter(|n| *n < 8)
}

/// Appends a field: as a line where its value is one, with its length otherwise.
pub fn put_field(name: &str, value: &[u8], out: &mut Vec<u8>) {
    out.extend_from_slice(name.as_bytes());
    let is_plain = |c: &u8| *c >= 0x20 || *c == b'\t';
    if value.iter().all(is_plain) && std::str::from_utf8(value).is_ok() {
        out.push(b'=');
    } else {
        out.push(b'\n');
        out.extend_from_slice(&(value.len() as u64).to_le_bytes());
    }
    out.extend_from_slice(value);
    out.push(b'\n');
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::convert::Infallible;

    type Read = Result<Vec<(Vec<u8>, u32)>, Failed<Infallible>>;

    fn read_entries(input: &[u8], step: usize) -> Read {
        let mut out = Vec::new();
        let mut entries = Entries::default();
        let mut each = |entry: &[u8], left_out| {
            out.push((entry.to_vec(), left_out));
            Ok(())
        };
        for part in input.chunks(step) {
            entries.push(part, &mut each)?;
        }
        entries.finish(&mut each)?;
        Ok(out)
    }

    #[test]
    fn any_split_of_the_input_gives_the_same_entries() {
        let one = b"MESSAGE\n\x05\0\0\0\0\0\0\0a\n\nbc\n_PID=2\n";
        let input = [&b"\nMESSAGE=a=b\n_PID=1\n\n"[..], one, b"\n\n\nMESSAGE=last\n"].concat();
        for step in 1..input.len() {
            let found = read_entries(&input, step).unwrap();
            let entries: Vec<&[u8]> = found.iter().map(|(entry, _)| &entry[..]).collect();
            assert_eq!(entries, [&b"MESSAGE=a=b\n_PID=1\n"[..], one, b"MESSAGE=last\n"]);
        }
        let entry = Entry(one).read_fields();
        assert_eq!(entry.all, [(&b"MESSAGE"[..], &b"a\n\nbc"[..]), (b"_PID", b"2")]);
        assert_eq!((entry.process(), entry.get("X")), (Some(&b"2"[..]), None));
    }

    #[test]
    fn what_is_no_journal_is_refused_where_it_is() {
        for (input, entry, why) in [
            (&b"Nov 23 10:00:00 host app: text\n"[..], 1, "other letters"),
            (b"A=1\n\n{\"a\":1}\n", 2, "other letters"),
            (b"A=1\n\n=x\n", 2, "without a name"),
            (b"A=1", 1, "ends within"),
            (b"A\n\x05\0\0\0\0\0\0\0abc", 1, "ends within"),
            (b"A\n\x02\0\0\0\0\0\0\0abc\n", 1, "longer than its length"),
            (b"A\n\xff\xff\xff\xff\xff\xff\xff\xffabc\n", 1, "can't be"),
            (&[b'A'; 65], 1, "64 letters"),
        ] {
            for step in [1, 3, 100] {
                let Err(Failed::NoEntry(wrong)) = read_entries(input, step) else {
                    panic!("{input:?}")
                };
                assert!(wrong.entry == entry && wrong.why.contains(why), "{input:?} {wrong:?}");
            }
        }
    }

    /// A field that has no room is left out, and the entry says so; its room is bounded.
    #[test]
    fn fields_without_room_are_left_out() {
        let mut input = b"A=1\nCOREDUMP\n".to_vec();
        let len = 2 * JOURNAL_ENTRY_MAX;
        input.extend_from_slice(&(len as u64).to_le_bytes());
        input.extend(std::iter::repeat_n(7, len));
        input.extend_from_slice(b"\nB=");
        input.extend(std::iter::repeat_n(b'x', len));
        input.extend_from_slice(b"\nC=3\n\nD=4\n\n");
        gabion_record::limits::take_reached();
        let found = read_entries(&input, 1 << 16).unwrap();
        assert_eq!(found, [(b"A=1\nC=3\n".to_vec(), 2), (b"D=4\n".to_vec(), 0)]);
        let limits = gabion_record::limits::take_reached();
        assert!(limits.iter().any(|(limit, n)| limit.name == "JOURNAL_ENTRY_MAX" && n == 2));
    }

    #[test]
    fn fields_that_were_put_are_read_back() {
        let values: [&[u8]; 6] =
            [b"", b"a b\tc", b"a\nb", b"\xff\x00", "ä=".as_bytes(), b"\x1b[0m"];
        let mut entry = Vec::new();
        values.iter().for_each(|value| put_field("X", value, &mut entry));
        let read: Vec<&[u8]> = Entry(&entry).fields().map(|(_, value)| value).collect();
        assert_eq!(read, values);
    }
}
