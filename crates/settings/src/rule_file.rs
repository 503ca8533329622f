//! Rule files: read whole, plain or packed, up to a limit, and kept in parts.

use crate::error::{Error, Result};
use crate::limits::{RULE_FILE_BYTES_MAX, ZSTD_WINDOW_LOG_MAX};
use gabion_rules::RuleText;
use gabion_runtime::{StopFlag, operator_file};
use std::io::Read;
use std::path::Path;
use std::string::FromUtf8Error;

/// Bytes of a file that are read into one part.
const PART_BYTES: usize = 128 << 10;

/// The text of these parts.
pub(crate) fn joined(parts: Vec<String>) -> String {
    match <[String; 1]>::try_from(parts) {
        Ok([whole]) => whole,
        Err(parts) => parts.concat(),
    }
}

/// A rule file that was read.
#[derive(Clone, Debug)]
pub struct RuleFile {
    /// Its name in messages.
    pub name: String,
    /// Its text, in parts of whole rules: a part is freed once its rules are compiled, so that a large file is not held
    /// in addition to its rules. A text that is short may be one part.
    pub parts: Vec<String>,
    /// Its rules are a firewall's.
    pub is_firewall: bool,
}

/// Reads a rule file, unpacked when its name says so. A file that is not text, or is larger than any
/// rule set, is refused.
///
/// # Errors
/// When it can't be read or unpacked, is no text, or is too large.
pub fn read_rule_file(path: &Path, is_firewall: bool) -> Result<RuleFile> {
    let opening = |e: std::io::Error| Error::rule_file(path, e);
    let opened = operator_file::open(path).map_err(opening)?;
    let is_packed = path.extension().is_some_and(|e| e == "zst");
    let is_stream = opened.is_stream;
    let from = opened.reader();
    let found = if is_packed {
        unpack(from).map_err(|source| Error::PackedRuleFile { path: path.to_owned(), source })?
    } else {
        read_up_to(from, RULE_FILE_BYTES_MAX).map_err(opening)?
    };
    if is_stream && StopFlag::of_process().is_set() {
        return Err(opening(std::io::Error::other("asked to stop before it was read")));
    }
    if found.bytes > RULE_FILE_BYTES_MAX {
        let (path, most_mib) = (path.to_owned(), RULE_FILE_BYTES_MAX >> 20);
        return Err(Error::LargeRuleFile { path, most_mib, is_packed });
    }
    if found.is_binary {
        return Err(Error::BinaryRuleFile { path: path.to_owned() });
    }
    Ok(RuleFile { name: path.display().to_string(), parts: found.parts, is_firewall })
}

fn unpack(from: impl Read) -> std::io::Result<Found> {
    let mut decoder = zstd::stream::read::Decoder::new(from)?;
    decoder.window_log_max(ZSTD_WINDOW_LOG_MAX)?;
    read_up_to(decoder, RULE_FILE_BYTES_MAX)
}

/// What was read of a file.
#[derive(Default)]
struct Found {
    parts: Vec<String>,
    /// How many bytes it has.
    bytes: u64,
    /// Its first bytes are no text's.
    is_binary: bool,
}

/// Bytes at the start of a file that show whether it is a text.
const JUDGED_BYTES: u64 = 4096;

/// All there is, but at most one byte more than `max`: so that the caller sees that it is too much.
fn read_up_to(from: impl Read, max: u64) -> std::io::Result<Found> {
    let mut from = from.take(max.saturating_add(1));
    let mut found = Found::default();
    let mut bytes = Vec::with_capacity(PART_BYTES);
    loop {
        let before = bytes.len();
        // Without a line end a part becomes as long as the file, and is searched in steps that grow with it.
        let step = PART_BYTES.max(before) as u64;
        let read = from.by_ref().take(step).read_to_end(&mut bytes)?;
        let judged = usize::try_from(JUDGED_BYTES.saturating_sub(found.bytes)).unwrap_or(0);
        found.is_binary |= bytes[before..].iter().take(judged).any(|byte| *byte == 0);
        found.bytes += read as u64;
        let end = if read == 0 { bytes.len() } else { RuleText::end_of_whole_rules(&bytes) };
        if end > 0 {
            // A character is never cut by a line's end.
            let after = bytes.split_off(end);
            found.parts.push(text_of(std::mem::replace(&mut bytes, after)));
        }
        if read == 0 {
            return Ok(found);
        }
    }
}

/// These bytes as a text: a replacement character stands for bytes that are not UTF-8.
fn text_of(bytes: Vec<u8>) -> String {
    // Nearly all rule files are UTF-8, and a check alone is faster than the search for what must be replaced.
    let replaced = |e: FromUtf8Error| String::from_utf8_lossy(e.as_bytes()).into_owned();
    String::from_utf8(bytes).unwrap_or_else(replaced)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A file in parts is the file, and no part ends within a rule or a character.
    #[test]
    fn parts_are_the_whole() {
        let rule =
            |n: usize| format!("alert ip any any -> any any (msg:\"\u{e9}{n}\"; \\\n  sid:{n};)\n");
        let text: String = (0..20_000).map(rule).collect();
        let found = read_up_to(text.as_bytes(), u64::MAX).unwrap();
        assert_eq!((found.bytes, found.is_binary), (text.len() as u64, false));
        assert!(found.parts.len() > 5, "{}", found.parts.len());
        assert!(found.parts.iter().all(|part| part.starts_with("alert") && part.ends_with(";)\n")));
        assert_eq!(joined(found.parts), text);
        let last = read_up_to(&b"one\ntwo \xff"[..], u64::MAX).unwrap().parts;
        assert_eq!(last, ["one\n", "two \u{fffd}"]);
        assert_eq!(joined(read_up_to(&b""[..], 9).unwrap().parts), "");
    }

    /// One line is one part, too much is seen, and zeros count at the start only.
    #[test]
    fn long_lines_and_limits() {
        let line = vec![b'x'; 3 * PART_BYTES];
        let found = read_up_to(&line[..], u64::MAX).unwrap();
        assert_eq!((found.parts.len(), found.bytes), (1, line.len() as u64));
        assert_eq!(read_up_to(&line[..], 9).unwrap().bytes, 10);
        let with_zero = |at: usize| {
            let mut line = line.clone();
            line[at] = 0;
            read_up_to(&line[..], u64::MAX).unwrap().is_binary
        };
        assert_eq!([0, 4_095, 4_096, 2 * PART_BYTES].map(with_zero), [true, true, false, false]);
    }
}
