//! What the files of a run that was cut off hold after its last checkpoint.
//!
//! A run that continues from a checkpoint finds again what was found after it. It does not write again the events
//! whose ID is in `alerts.json`, nor the lines whose text is in `alerts.log`. A
//! last line without an end, which the cut has left, is taken away.

use crate::error::OutputError;
use gabion_record::saved::Saved;
use gabion_runtime::output::open_earlier;
use std::collections::{HashMap, HashSet};
use std::io::{ErrorKind, Read, Seek, SeekFrom};
use std::path::Path;

/// Lines that are there already.
#[derive(Clone, Debug, Default)]
pub struct AlreadyWritten {
    ids: HashSet<Vec<u8>>,
    /// Lines of `alerts.log`, and how often.
    lines: HashMap<Vec<u8>, u32>,
}

/// By what a line of an earlier run is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LinesKnownBy {
    /// By the ID of its finding.
    Id,
    /// By its text.
    Text,
}

/// A run that continues may be stopped before it has found all of it again: the rest goes into its checkpoint.
impl Saved for AlreadyWritten {
    fn save(&self, out: &mut Vec<u8>) {
        self.ids.iter().cloned().collect::<Vec<_>>().save(out);
        self.lines.iter().map(|(line, n)| (line.clone(), *n)).collect::<Vec<_>>().save(out);
    }
    fn load(from: &mut &[u8]) -> Option<Self> {
        let ids = Vec::<Vec<u8>>::load(from)?.into_iter().collect();
        let lines = Vec::<(Vec<u8>, u32)>::load(from)?.into_iter().collect();
        Some(AlreadyWritten { ids, lines })
    }
}

/// Stands before the ID of a line of `alerts.json`.
const ID: &[u8] = b"\"ID\":\"";

impl AlreadyWritten {
    /// Reads `alerts.json` and `alerts.log` of a folder from these offsets on. A file that is
    /// shorter was moved away meanwhile: all of the new one is read.
    ///
    /// # Errors
    /// What can't be read, or cut.
    pub fn from_folder(folder: &Path, marks: [u64; 2]) -> Result<AlreadyWritten, OutputError> {
        let [json, log] = marks;
        let mut written = AlreadyWritten::default();
        for line in behind(&folder.join("alerts.json"), json)?.split(|b| *b == b'\n') {
            written.ids.extend(id_of(line).map(<[u8]>::to_vec));
        }
        for line in behind(&folder.join("alerts.log"), log)?.split(|b| *b == b'\n') {
            if !line.is_empty() {
                *written.lines.entry(line.to_vec()).or_default() += 1;
            }
        }
        Ok(written)
    }

    /// Adds what an earlier run had not found again when it was stopped.
    pub fn join(&mut self, left: AlreadyWritten) {
        self.ids.extend(left.ids);
        for (line, n) in left.lines {
            *self.lines.entry(line).or_default() += n;
        }
    }

    /// Those lines that are known in this way.
    pub(crate) fn known_by(&self, by: LinesKnownBy) -> AlreadyWritten {
        match by {
            LinesKnownBy::Id => AlreadyWritten { ids: self.ids.clone(), lines: HashMap::new() },
            LinesKnownBy::Text => AlreadyWritten { ids: HashSet::new(), lines: self.lines.clone() },
        }
    }

    /// Whether a line is there already; it is asked about once.
    pub(crate) fn has(&mut self, by: LinesKnownBy, line: &[u8]) -> bool {
        match by {
            LinesKnownBy::Id => self.has_event(line),
            LinesKnownBy::Text => self.has_line(line),
        }
    }

    /// Whether a line of `alerts.json` is there already; it is asked about once.
    fn has_event(&mut self, line: &[u8]) -> bool {
        !self.ids.is_empty() && id_of(line).is_some_and(|id| self.ids.remove(id))
    }

    /// Whether a line of `alerts.log` is there already; it is asked about once.
    fn has_line(&mut self, line: &[u8]) -> bool {
        if self.lines.is_empty() {
            return false;
        }
        let line = line.strip_suffix(b"\n").unwrap_or(line);
        match self.lines.get_mut(line) {
            Some(times) if *times > 1 => {
                *times -= 1;
                true
            }
            Some(_) => self.lines.remove(line).is_some(),
            None => false,
        }
    }
}

fn id_of(line: &[u8]) -> Option<&[u8]> {
    let at = line.windows(ID.len()).position(|w| w == ID)? + ID.len();
    let rest = line.get(at..)?;
    rest.get(..rest.iter().position(|b| *b == b'"')?)
}

/// What a file holds after an offset; a last line without its end is cut off.
fn behind(path: &Path, mark: u64) -> Result<Vec<u8>, OutputError> {
    let failed = OutputError::io(path);
    let mut file = match open_earlier(path, true) {
        Ok(file) => file,
        Err(e) if e.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        Err(e) => return Err(failed(e)),
    };
    let len = file.metadata().map_err(&failed)?.len();
    let from = if len < mark { 0 } else { mark };
    file.seek(SeekFrom::Start(from)).map_err(&failed)?;
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes).map_err(&failed)?;
    let whole = bytes.iter().rposition(|b| *b == b'\n').map_or(0, |at| at + 1);
    if whole < bytes.len() {
        file.set_len(from + whole as u64).map_err(&failed)?;
        bytes.truncate(whole);
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_stands_behind_the_mark_is_known_once_and_half_a_line_is_cut_off() {
        let folder = tempfile::tempdir().unwrap();
        let (json, log) = (folder.path().join("alerts.json"), folder.path().join("alerts.log"));
        std::fs::write(&json, "{\"ID\":\"a\"}\n{\"ID\":\"b\"}\n{\"ID\":\"c\"}\n{\"ID\":\"d")
            .unwrap();
        std::fs::write(&log, "one\ntwo\ntwo\nthr").unwrap();
        let mut written = AlreadyWritten::from_folder(folder.path(), [11, 4]).unwrap();
        let asked = ["a", "b", "b", "c", "d"].map(|id| {
            written.has_event(format!("{{\"Version\":\"2\",\"ID\":\"{id}\",\"x\":1}}\n").as_bytes())
        });
        assert_eq!(asked, [false, true, false, true, false]);
        let asked = ["one\n", "two\n", "two\n", "two\n"].map(|l| written.has_line(l.as_bytes()));
        assert_eq!(asked, [false, true, true, false]);
        assert!(std::fs::read_to_string(&json).unwrap().ends_with("\"c\"}\n"));
        assert_eq!(std::fs::read_to_string(&log).unwrap(), "one\ntwo\ntwo\n");
        // What was not found again yet is known to the run after the next, too.
        let mut written = AlreadyWritten::from_folder(folder.path(), [22, 8]).unwrap();
        assert!(written.has_line(b"two\n"));
        let mut saved = Vec::new();
        written.save(&mut saved);
        let mut next = AlreadyWritten::from_folder(folder.path(), [33, 12]).unwrap();
        assert!(!next.clone().has_event(b"{\"ID\":\"c\"}"));
        next.join(AlreadyWritten::load(&mut saved.as_slice()).unwrap());
        assert!(next.has_event(b"{\"ID\":\"c\"}") && !next.has_line(b"two\n"));
        // A file that was moved away is read whole.
        let mut written = AlreadyWritten::from_folder(folder.path(), [1 << 20, 1 << 20]).unwrap();
        assert!(written.has_event(b"{\"ID\":\"a\"}") && written.has_line(b"one\n"));
        let empty = tempfile::tempdir().unwrap();
        assert!(!AlreadyWritten::from_folder(empty.path(), [5, 5]).unwrap().has_line(b"one\n"));
    }
}
