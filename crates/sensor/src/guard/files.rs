//! Reads the files of a recording: the rows by CPU, and the counters of XDP where there are some.

use crate::error::Error;
use gabion_guard::recording::{Reader, Recording};
use gabion_runtime::operator_file;
use std::io::Read;
use std::path::{Path, PathBuf};

/// Bytes that are read at a time.
const PART: usize = 128 << 10;

/// What the names of the two files of a recording end in, with and without compression.
const ENDS: [(&str, &str); 2] = [(".csv.zst", ".xdp.csv.zst"), (".csv", ".xdp.csv")];

/// The files of the recording that a path names: the path itself, and its counterpart if it is there. The rows by CPU
/// come first.
pub(super) fn files_of(path: &Path) -> Vec<PathBuf> {
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    for (rows, counters) in ENDS {
        if let Some(stem) = name.strip_suffix(counters) {
            let other = path.with_file_name(format!("{stem}{rows}"));
            let mut files: Vec<PathBuf> = other.is_file().then_some(other).into_iter().collect();
            files.push(path.to_path_buf());
            return files;
        }
        if let Some(stem) = name.strip_suffix(rows) {
            let other = path.with_file_name(format!("{stem}{counters}"));
            let mut files = vec![path.to_path_buf()];
            files.extend(other.is_file().then_some(other));
            return files;
        }
    }
    vec![path.to_path_buf()]
}

/// The file of XDP's counters that belongs to a file of rows by CPU.
pub(super) fn counters_of(path: &Path) -> PathBuf {
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let of = |(rows, counters)| Some(format!("{}{counters}", name.strip_suffix(rows)?));
    let named = ENDS.into_iter().find_map(of);
    path.with_file_name(named.unwrap_or_else(|| format!("{name}.xdp.csv.zst")))
}

/// Reads the files of a recording.
pub(super) fn read_recording(files: &[PathBuf]) -> Result<Recording, Error> {
    let mut reader = Reader::new();
    let mut part = vec![0; PART];
    for path in files {
        let unreadable = |source| Error::UnreadableRecording { path: path.clone(), source };
        let refused = |source| Error::Recording { path: path.clone(), source };
        let mut file = operator_file::open(path).map_err(unreadable)?.reader();
        loop {
            let n = match file.read(&mut part) {
                Ok(0) => break,
                Ok(n) => n,
                Err(e) if e.kind() == std::io::ErrorKind::Interrupted => continue,
                Err(e) => return Err(unreadable(e)),
            };
            reader.feed(part.get(..n).unwrap_or_default()).map_err(refused)?;
        }
        reader.end_file().map_err(refused)?;
    }
    let path = files.first().cloned().unwrap_or_default();
    reader.finish().map_err(|source| Error::Recording { path, source })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_recording_is_found_by_either_of_its_files() {
        let folder = tempfile::tempdir().unwrap();
        let of = |name: &str| folder.path().join(name);
        for name in ["a.csv.zst", "a.xdp.csv.zst", "b.csv", "c.xdp.csv"] {
            std::fs::write(of(name), "").unwrap();
        }
        let both = [of("a.csv.zst"), of("a.xdp.csv.zst")];
        assert_eq!(files_of(&both[0]), both);
        assert_eq!(files_of(&both[1]), both);
        assert_eq!(files_of(&of("b.csv")), [of("b.csv")]);
        assert_eq!(files_of(&of("c.xdp.csv")), [of("c.xdp.csv")]);
        assert_eq!(files_of(&of("other")), [of("other")]);
    }
}
