//! The shared corpus of captures, logs, rules and test vectors, for tests and benches.
//!
//! The corpus is no part of the repository. A test that needs it asks for a path or for the contents of a file
//! here, and returns if there are none; then the name of the test is printed as skipped.

#![forbid(unsafe_code)]

pub mod examples;

use std::io::Read;
use std::path::{Path, PathBuf};

/// The folder that `GABION_CORPUS` names, else `../shared/corpus` next to the repository. It may be missing.
#[must_use]
pub fn root() -> PathBuf {
    std::env::var_os("GABION_CORPUS").map_or_else(
        || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/corpus"),
        PathBuf::from,
    )
}

/// A file or folder of the corpus. If it is missing, prints that `test` is skipped.
#[must_use]
pub fn find(test: &str, below: &str) -> Option<PathBuf> {
    let path = root().join(below);
    if path.exists() {
        return Some(path);
    }
    eprintln!("{test}: skipped: no {} (set GABION_CORPUS)", path.display());
    None
}

/// The contents of a file of the corpus, decompressed if its name ends in `.zst`. If it is missing, prints that
/// `test` is skipped.
///
/// # Panics
/// If the file is there and can't be read.
#[must_use]
pub fn read(test: &str, below: &str) -> Option<Vec<u8>> {
    find(test, below).map(|path| unpack(&path, u64::MAX))
}

/// As [`read`], as text; bytes that are not UTF-8 are replaced.
///
/// # Panics
/// If the file is there and can't be read.
#[must_use]
pub fn read_text(test: &str, below: &str) -> Option<String> {
    read(test, below).map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
}

/// The first `bytes_max` bytes of a file, decompressed if its name ends in `.zst`.
///
/// # Panics
/// If the file can't be read.
#[must_use]
pub fn unpack(path: &Path, bytes_max: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    let done = std::fs::File::open(path).and_then(|file| match path.extension() {
        Some(ending) if ending == "zst" => {
            zstd::stream::read::Decoder::new(file)?.take(bytes_max).read_to_end(&mut bytes)
        }
        _ => file.take(bytes_max).read_to_end(&mut bytes),
    });
    if let Err(e) = done {
        panic!("{}: {e}", path.display());
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_decompressed_by_its_name_and_cut_to_its_bound() {
        let folder = std::env::temp_dir().join(format!("gabion-corpus-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let (packed, plain) = (folder.join("a.zst"), folder.join("a.txt"));
        std::fs::write(&packed, zstd::stream::encode_all(&b"one line"[..], 1).unwrap()).unwrap();
        std::fs::write(&plain, "one line").unwrap();
        for path in [&packed, &plain] {
            assert_eq!(unpack(path, u64::MAX), b"one line");
            assert_eq!(unpack(path, 3), b"one");
        }
        std::fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn what_is_missing_is_none() {
        assert_eq!(find("what_is_missing_is_none", "no/such/file"), None);
        assert_eq!(read_text("what_is_missing_is_none", "no/such/file"), None);
    }
}
