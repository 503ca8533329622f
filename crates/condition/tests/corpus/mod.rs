//! Finds the shared corpus, and skips a test by name where there is none.

use std::path::PathBuf;

/// A file or folder of the corpus: `GABION_CORPUS`, else `../shared/corpus` next to the repository.
pub fn corpus(test: &str, path: &str) -> Option<PathBuf> {
    let root = std::env::var_os("GABION_CORPUS").map(PathBuf::from).unwrap_or_else(|| {
        PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../shared/corpus")
    });
    let found = root.join(path);
    if !found.exists() {
        eprintln!("skipped: {test}: no corpus");
        return None;
    }
    Some(found)
}
