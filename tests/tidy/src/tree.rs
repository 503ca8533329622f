//! The files of the repository: every text file written by a person, with its path and text.
//!
//! The folders are walked without git, so that the checks work in an unpacked archive too.

use std::fs;
use std::path::{Path, PathBuf};

/// A file and its text.
#[derive(Clone, Debug)]
pub struct File {
    /// Path from the repository's root, with `/`.
    pub path: String,
    /// Its text.
    pub text: String,
}

/// Folders with generated or downloaded files.
const SKIPPED: &[&str] =
    &[".git", "target", "out", "dist", "fuzz/target", "fuzz/corpus", "fuzz/artifacts"];

/// Endings of files that people write.
const TEXT: &[&str] =
    &["rs", "md", "toml", "sh", "yaml", "yml", "rules", "py", "c", "h", "tsv", "service", "txt"];

/// Further files without such an ending.
const TEXT_NAMES: &[&str] = &["Makefile", ".ci/run"];

/// The repository's root.
#[must_use]
pub fn root() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.ancestors().nth(2).expect("invariant: the crate is two folders deep").to_path_buf()
}

/// All files written by people below `root`, in order of their paths.
///
/// # Panics
/// If a folder or file can't be read, as the checks would silently skip it.
#[must_use]
pub fn files(root: &Path) -> Vec<File> {
    let mut found = Vec::new();
    walk(root, root, &mut found);
    found.sort_by(|a, b| a.path.cmp(&b.path));
    found
}

fn walk(root: &Path, folder: &Path, found: &mut Vec<File>) {
    let entries = fs::read_dir(folder).unwrap_or_else(|e| panic!("{}: {e}", folder.display()));
    for entry in entries {
        let path = entry.unwrap_or_else(|e| panic!("{}: {e}", folder.display())).path();
        let name = name_of(root, &path);
        if path.is_symlink() || SKIPPED.contains(&name.as_str()) {
            continue;
        }
        if path.is_dir() {
            walk(root, &path, found);
        } else if is_text(&name) {
            let text = fs::read_to_string(&path).unwrap_or_else(|e| panic!("{name}: {e}"));
            found.push(File { path: name, text });
        }
    }
}

fn name_of(root: &Path, path: &Path) -> String {
    path.strip_prefix(root).unwrap_or(path).to_string_lossy().replace('\\', "/")
}

fn is_text(name: &str) -> bool {
    let ending = Path::new(name).extension().and_then(|e| e.to_str()).unwrap_or_default();
    TEXT.contains(&ending) || TEXT_NAMES.contains(&name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_sources_scripts_and_documents_but_nothing_built() {
        let all = files(&root());
        let has = |path: &str| all.iter().any(|f| f.path == path);
        assert!(has("tests/tidy/src/tree.rs") && has("Makefile") && has(".ci/run"));
        assert!(has("ARCHITECTURE.md") && has("crates/record/src/lib.rs"));
        assert!(!all.iter().any(|f| f.path.starts_with("target/") || f.path.contains(".git/")));
    }
}
