//! Watches the files that a run was made from: configuration and rules.

use std::path::PathBuf;
use std::time::SystemTime;

/// Files with what they were when the run began.
#[derive(Debug)]
pub(super) struct Watched {
    files: Vec<(PathBuf, Option<(SystemTime, u64)>)>,
}

impl Watched {
    pub(super) fn new(paths: &[PathBuf]) -> Watched {
        Watched { files: paths.iter().map(|path| (path.clone(), state_of(path))).collect() }
    }

    /// Whether a file has changed since the last call. A file that is gone for a moment, as when an editor replaces it,
    /// counts when it is back.
    pub(super) fn has_changed(&mut self) -> bool {
        let mut changed = false;
        for (path, known) in &mut self.files {
            let now = state_of(path);
            if now.is_some() && now != *known {
                *known = now;
                changed = true;
            }
        }
        changed
    }
}

fn state_of(path: &PathBuf) -> Option<(SystemTime, u64)> {
    let metadata = std::fs::metadata(path).ok()?;
    Some((metadata.modified().ok()?, metadata.len()))
}
