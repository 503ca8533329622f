//! The lines of a Zeek header, each of which says something of those that follow.

use super::kind::kind_of_path;
use super::{Layout, Separator};
use gabion_record::logs::LogKind;
use gabion_record::saved;

/// `#separator`, `#unset_field` and `#path` of the header that is being read.
#[derive(Clone, Debug)]
pub(crate) struct Header {
    separator: Separator,
    unset: Vec<u8>,
    pub(crate) path: Option<LogKind>,
    /// A log of Zeek that is not used (`stats`, `weird_stats`, …).
    pub(crate) is_unused: bool,
}

saved! { Header { separator, unset, path, is_unused } }

impl Default for Header {
    fn default() -> Header {
        Header {
            separator: Separator::Byte(b'\t'),
            unset: b"-".to_vec(),
            path: None,
            is_unused: false,
        }
    }
}

/// What such a line changes.
pub(crate) enum Comment {
    /// Nothing about columns.
    Quiet,
    /// Lines stand under these columns from now on.
    Columns(Layout),
    /// They stand under none that can be used.
    NoColumns,
}

impl Header {
    /// Takes in a line that begins with `#`, of a log of that kind by its file name.
    pub(crate) fn comment(&mut self, line: &[u8], named: Option<LogKind>) -> Comment {
        let Some(rest) = line.trim_ascii_end().strip_prefix(b"#") else { return Comment::Quiet };
        let end = rest.iter().position(|b| b.is_ascii_whitespace()).unwrap_or(rest.len());
        let (word, value) = rest.split_at(end);
        let value = match (value.first(), value.get(1)) {
            (Some(b' '), Some(b' ')) => {
                self.separator = Separator::Spaces;
                value.trim_ascii_start()
            }
            _ => value.get(1..).unwrap_or_default(),
        };
        match word {
            b"separator" => {
                self.separator = separator(value);
                self.path = None;
            }
            b"unset_field" => self.unset = value.to_vec(),
            b"path" => {
                self.path = kind_of_path(value);
                self.is_unused = self.path.is_none();
            }
            b"fields" => {
                let Some(kind) = self.path.or(named) else {
                    self.is_unused = true;
                    return Comment::NoColumns;
                };
                self.is_unused = false;
                return match Layout::new(kind, self.separator, value, &self.unset) {
                    Ok(layout) => Comment::Columns(layout),
                    Err(_) => Comment::NoColumns,
                };
            }
            _ => {}
        }
        Comment::Quiet
    }
}

/// `\x09` or the byte itself.
fn separator(text: &[u8]) -> Separator {
    let text = text.trim_ascii();
    let hex = text.strip_prefix(b"\\x").and_then(|t| std::str::from_utf8(t).ok());
    match hex.and_then(|t| u8::from_str_radix(t, 16).ok()) {
        Some(byte) => Separator::Byte(byte),
        None => Separator::Byte(text.first().copied().unwrap_or(b'\t')),
    }
}
