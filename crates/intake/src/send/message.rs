//! The messages that are sent: lines of a file or made up, each with its number, so that what arrives
//! can be recognized and compresses as real logs do, not as one line repeated.

use crate::error::{Error, Result};
use gabion_runtime::limits::NAMED_FILE_BYTES_MAX;
use gabion_runtime::operator_file;
use std::fmt::Write;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

/// What messages are made of.
#[derive(Debug)]
pub(crate) struct Messages {
    lines: Vec<Vec<u8>>,
    is_raw: bool,
    size: Option<usize>,
    began: u64,
}

impl Messages {
    /// With the lines of a file, or without.
    pub(crate) fn new(text: Option<&Path>, is_raw: bool, size: Option<usize>) -> Result<Messages> {
        let lines = match text {
            None => Vec::new(),
            Some(path) => {
                let wrong =
                    |e: std::io::Error| Error::file(path, e, "name a file with lines of text");
                let mut bytes = operator_file::bytes(path, NAMED_FILE_BYTES_MAX).map_err(wrong)?;
                if path.extension().is_some_and(|e| e == "zst") {
                    bytes = zstd::decode_all(bytes.as_slice()).map_err(wrong)?;
                }
                let lines: Vec<Vec<u8>> = bytes
                    .split(|b| *b == b'\n')
                    .map(|l| l.strip_suffix(b"\r").unwrap_or(l).to_vec())
                    .filter(|l| !l.is_empty())
                    .collect();
                if lines.is_empty() {
                    return Err(Error::NoLine { path: path.to_owned() });
                }
                lines
            }
        };
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
        Ok(Messages { lines, is_raw, size, began: now })
    }

    /// Writes message `number` after what `out` holds. `tag` distinguishes transports.
    pub(crate) fn write(&self, tag: &str, number: u64, out: &mut Vec<u8>) {
        let from = out.len();
        let at = usize::try_from(number).unwrap_or(usize::MAX) % self.lines.len().max(1);
        let line = self.lines.get(at);
        if self.is_raw
            && let Some(line) = line
        {
            out.extend_from_slice(line);
        } else {
            // A thousand messages a second of the senders' clock.
            let second = self.began + number / 1000;
            let (hour, minute, second) = (second / 3600 % 24, second / 60 % 60, second % 60);
            let mut head = String::with_capacity(64);
            let _ = write!(
                head,
                "<134>Jan 15 {hour:02}:{minute:02}:{second:02} host {tag}[7]: seq {number:09} "
            );
            out.extend_from_slice(head.as_bytes());
            match line {
                Some(line) => out.extend_from_slice(line),
                None => made_up(number, out),
            }
        }
        if let Some(size) = self.size {
            out.resize(from + size.max(1), b'.');
        }
    }
}

/// A line as services write it, no two alike.
fn made_up(number: u64, out: &mut Vec<u8>) {
    // Knuth's multiplicative hash: spread, repeatable.
    let spread = number.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
    let mut text = String::with_capacity(64);
    let _ = write!(
        text,
        "session {spread:08x} of user{} from 10.{}.{}.{} closed after {} ms",
        spread % 977,
        spread & 255,
        spread >> 8 & 255,
        spread >> 16 & 255,
        spread % 60_013
    );
    out.extend_from_slice(text.as_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_have_numbers_and_sizes() {
        let messages = Messages::new(None, false, Some(112)).expect("no file to read");
        let mut out = Vec::new();
        messages.write("udp", 7, &mut out);
        assert_eq!(out.len(), 112);
        assert!(String::from_utf8_lossy(&out).contains("udp[7]: seq 000000007 session "));
        let first = out.clone();
        out.clear();
        messages.write("udp", 8, &mut out);
        assert_ne!(first, out);
    }
}
