//! Rule files: read whole, plain or packed, up to a limit.

use crate::error::{Error, Result};
use crate::limits::{RULE_FILE_BYTES_MAX, ZSTD_WINDOW_LOG_MAX};
use gabion_runtime::{StopFlag, operator_file};
use std::io::Read;
use std::path::Path;

/// A rule file that was read.
#[derive(Clone, Debug)]
pub struct RuleFile {
    /// Its name in messages.
    pub name: String,
    /// Its text.
    pub text: String,
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
    let (is_stream, len) = (opened.is_stream, opened.file.metadata().map_or(0, |m| m.len()));
    let from = opened.reader();
    let bytes = if is_packed {
        unpack(from).map_err(|source| Error::PackedRuleFile { path: path.to_owned(), source })?
    } else {
        read_up_to(from, RULE_FILE_BYTES_MAX, len).map_err(opening)?
    };
    if is_stream && StopFlag::of_process().is_set() {
        return Err(opening(std::io::Error::other("asked to stop before it was read")));
    }
    if bytes.len() as u64 > RULE_FILE_BYTES_MAX {
        let (path, most_mib) = (path.to_owned(), RULE_FILE_BYTES_MAX >> 20);
        return Err(Error::LargeRuleFile { path, most_mib, is_packed });
    }
    if bytes.iter().take(4096).any(|b| *b == 0) {
        return Err(Error::BinaryRuleFile { path: path.to_owned() });
    }
    let text = String::from_utf8(bytes)
        .unwrap_or_else(|e| String::from_utf8_lossy(e.as_bytes()).into_owned());
    Ok(RuleFile { name: path.display().to_string(), text, is_firewall })
}

fn unpack(from: impl Read) -> std::io::Result<Vec<u8>> {
    let mut decoder = zstd::stream::read::Decoder::new(from)?;
    decoder.window_log_max(ZSTD_WINDOW_LOG_MAX)?;
    read_up_to(decoder, RULE_FILE_BYTES_MAX, 0)
}

/// All there is, but at most one byte more than `max`: so that the caller sees that it is too much.
/// `expected` bytes need no room beyond.
fn read_up_to(from: impl Read, max: u64, expected: u64) -> std::io::Result<Vec<u8>> {
    let room = usize::try_from(expected.min(max).saturating_add(1)).unwrap_or(0);
    let mut bytes = Vec::with_capacity(room);
    from.take(max.saturating_add(1)).read_to_end(&mut bytes)?;
    Ok(bytes)
}
