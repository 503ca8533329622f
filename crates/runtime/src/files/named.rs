//! The files that a command reads and writes, by which an output that would destroy one of them is refused before
//! anything is opened.
//!
//! Files are compared by device and inode, links followed, so that another name of the same file is found too. What is
//! not there yet is compared by the folder that it will be in. Pipes and devices hold nothing and are never refused.

use crate::limits::LINKS_MAX;
use std::collections::HashMap;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// The files that a command reads and writes.
#[derive(Debug, Default)]
pub struct NamedFiles {
    files: HashMap<Identity, &'static str>,
    folders: Vec<(PathBuf, &'static str)>,
}

/// What a name stands for.
#[derive(Debug, PartialEq, Eq, Hash)]
enum Identity {
    /// A file that is there: its device and inode.
    File(u64, u64),
    /// A file that is not there yet, by its name without links.
    Path(PathBuf),
}

impl NamedFiles {
    /// Keeps files from being written: `why` is what the refusal states of them. Of a folder nothing is kept.
    pub fn keep<P: AsRef<Path>>(&mut self, why: &'static str, paths: impl IntoIterator<Item = P>) {
        for path in paths {
            if let Some(identity) = Identity::of_path(path.as_ref()) {
                self.files.entry(identity).or_insert(why);
            }
        }
    }

    /// Keeps all that is in a folder, or will be, from being written.
    pub fn keep_folder(&mut self, why: &'static str, folder: &Path) {
        self.folders.push((without_links(folder), why));
    }

    /// Takes a file as an output. It is kept from then on, so that no other output may have it.
    ///
    /// # Errors
    /// The reason why the file is kept, where it is.
    pub fn add_output(&mut self, path: &Path) -> io::Result<()> {
        let Some(identity) = Identity::of_path(path) else { return Ok(()) };
        let kept = self.files.get(&identity).copied().or_else(|| {
            let path = without_links(path);
            self.folders.iter().find(|(folder, _)| path.starts_with(folder)).map(|(_, why)| *why)
        });
        match kept {
            Some(why) => Err(io::Error::other(why)),
            None => {
                self.files.insert(identity, "is another output of the same command");
                Ok(())
            }
        }
    }
}

impl Identity {
    /// `None` of what holds nothing that could be lost, and of folders.
    fn of_path(path: &Path) -> Option<Identity> {
        let path = if path.as_os_str() == "-" { Path::new("/dev/stdin") } else { path };
        match path.metadata() {
            Ok(file) => file.is_file().then(|| Identity::File(file.dev(), file.ino())),
            Err(_) => Some(Identity::Path(without_links(path))),
        }
    }
}

/// The path from the root, with links followed as far as there is something.
fn without_links(path: &Path) -> PathBuf {
    let mut path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    // A link that leads to nothing: the file will be made where it leads to.
    for _ in 0..LINKS_MAX {
        let Ok(target) = path.read_link() else { break };
        path = path.parent().unwrap_or(Path::new("/")).join(target);
    }
    let found = path.ancestors().find_map(|there| Some((there, there.canonicalize().ok()?)));
    match found {
        Some((there, real)) => match path.strip_prefix(there) {
            Ok(rest) if rest.as_os_str().is_empty() => real,
            Ok(rest) => real.join(rest),
            Err(_) => path,
        },
        None => path,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::symlink;

    fn folder() -> tempfile::TempDir {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("in"), "x").unwrap();
        symlink("in", dir.path().join("link")).unwrap();
        fs::hard_link(dir.path().join("in"), dir.path().join("hard")).unwrap();
        symlink("later", dir.path().join("dangling")).unwrap();
        fs::create_dir(dir.path().join("sub")).unwrap();
        symlink("sub", dir.path().join("sublink")).unwrap();
        dir
    }

    #[test]
    fn an_output_that_is_an_input_is_refused_by_any_name() {
        let dir = folder();
        let mut named = NamedFiles::default();
        named.keep("is read", [dir.path().join("link")]);
        for name in ["in", "link", "hard", "sub/../in"] {
            let refused = named.add_output(&dir.path().join(name)).unwrap_err();
            assert_eq!(refused.to_string(), "is read", "{name}");
        }
        assert_eq!(fs::read_to_string(dir.path().join("in")).unwrap(), "x");
        named.add_output(&dir.path().join("out")).unwrap();
    }

    #[test]
    fn two_outputs_may_not_be_one_file_even_before_it_is_there() {
        let dir = folder();
        for (one, other) in [
            ("new", "new"),
            ("dangling", "later"),
            ("sub/new", "sublink/new"),
            ("nothing/new", "sub/../nothing/new"),
            ("in", "hard"),
        ] {
            let mut named = NamedFiles::default();
            named.add_output(&dir.path().join(one)).unwrap();
            assert!(named.add_output(&dir.path().join(other)).is_err(), "{one} {other}");
            named.add_output(&dir.path().join("third")).unwrap();
        }
    }

    #[test]
    fn all_of_a_kept_folder_is_refused_and_nothing_next_to_it() {
        let dir = folder();
        let mut named = NamedFiles::default();
        named.keep_folder("belongs to the log", &dir.path().join("sublink"));
        named.keep("is read", [dir.path().join("sub")]);
        for name in ["sub/new", "sublink/deeper/new"] {
            assert!(named.add_output(&dir.path().join(name)).is_err(), "{name}");
        }
        named.add_output(&dir.path().join("sub.state")).unwrap();
    }

    #[test]
    fn devices_are_never_refused() {
        let mut named = NamedFiles::default();
        named.keep("is read", ["/dev/null", "/dev/full"]);
        for _ in 0..2 {
            named.add_output(Path::new("/dev/null")).unwrap();
        }
    }
}
