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

    /// From now on these files. Of those that were watched before, what is known stays, so that a change during a load is
    /// noticed.
    pub(super) fn follow(&mut self, paths: &[PathBuf]) {
        let known = std::mem::take(&mut self.files);
        let state = |path: &PathBuf| match known.iter().find(|(other, _)| other == path) {
            Some((_, state)) => *state,
            None => state_of(path),
        };
        self.files = paths.iter().map(|path| (path.clone(), state(path))).collect();
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_during_a_load_is_noticed() {
        let folder = tempfile::tempdir().unwrap();
        let paths = ["kept", "new"].map(|name| folder.path().join(name));
        std::fs::write(&paths[0], "1").unwrap();
        let mut watched = Watched::new(&paths[..1]);
        assert!(!watched.has_changed());
        // While rules are loaded, a file changes and another one comes.
        std::fs::write(&paths[0], "22").unwrap();
        std::fs::write(&paths[1], "1").unwrap();
        watched.follow(&paths);
        assert!(watched.has_changed());
        assert!(!watched.has_changed());
    }
}
