//! Opens files for sources and outputs, and sockets of receivers, with the rights of this process. Libraries get this from the front door, as a
//! [`FileOpener`], and open nothing by themselves.

mod named;

pub use named::NamedFiles;

use crate::input::open_once;
use crate::output::{Existing, open_file};
use crate::sockets::connect;
use gabion_record::files::{FileOpener, OpenMode};
use rustix::fs::{Mode, OFlags};
use std::fs::{DirBuilder, File};
use std::io::{self, ErrorKind};
use std::os::unix::fs::DirBuilderExt;
use std::path::Path;

/// What opens files and connects to receivers with the rights of this process.
pub fn direct_opener() -> FileOpener {
    FileOpener::new(open).with_sockets(connect)
}

fn open(path: &Path, mode: OpenMode) -> io::Result<File> {
    match mode {
        OpenMode::Read => File::open(path),
        OpenMode::ReadOnce => open_once(path),
        OpenMode::Append => open_file(path, Existing::Append),
        OpenMode::Truncate => open_file(path, Existing::Truncate),
        OpenMode::AppendFollowing => File::options().append(true).create(true).open(path),
        OpenMode::TruncateFollowing => File::create(path),
        OpenMode::CreateNew => File::options().write(true).create_new(true).open(path),
        OpenMode::Folder => open_folder(path),
        OpenMode::CreateFolder => {
            match DirBuilder::new().mode(0o700).create(path) {
                Err(e) if e.kind() != ErrorKind::AlreadyExists => return Err(e),
                _ => {}
            }
            open_folder(path)
        }
    }
}

fn open_folder(path: &Path) -> io::Result<File> {
    let flags = OFlags::DIRECTORY | OFlags::RDONLY | OFlags::CLOEXEC;
    Ok(File::from(rustix::fs::open(path, flags, Mode::empty())?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::os::unix::fs::{PermissionsExt, symlink};

    /// What each mode does to a file that is there, one that is not, and a folder.
    #[test]
    fn each_mode_opens_what_it_says() {
        let files = direct_opener();
        let writes = [
            (OpenMode::Append, Ok("one two"), true),
            (OpenMode::AppendFollowing, Ok("one two"), true),
            (OpenMode::Truncate, Ok(" two"), true),
            (OpenMode::TruncateFollowing, Ok(" two"), true),
            (OpenMode::CreateNew, Err(ErrorKind::AlreadyExists), true),
            (OpenMode::Read, Ok("one"), false),
            (OpenMode::ReadOnce, Ok("one"), false),
        ];
        for (mode, expected, makes) in writes {
            let dir = tempfile::tempdir().unwrap();
            let path = dir.path().join("file");
            assert_eq!(files.open(&path, mode).is_ok(), makes, "{mode:?}");
            assert_eq!(path.exists(), makes, "{mode:?}");
            std::fs::write(&path, "one").unwrap();
            let opened = files.open(&path, mode);
            match expected {
                Ok(text) => {
                    let is_written = opened.unwrap().write_all(b" two").is_ok();
                    assert_eq!(is_written, makes, "{mode:?}");
                    assert_eq!(std::fs::read_to_string(&path).unwrap(), text, "{mode:?}");
                }
                Err(kind) => assert_eq!(opened.unwrap_err().kind(), kind, "{mode:?}"),
            }
            assert!(files.open(&path, OpenMode::Folder).is_err());
            assert!(files.open(&path, OpenMode::CreateFolder).is_err());
        }
    }

    #[test]
    fn a_folder_is_made_for_its_owner_alone() {
        let files = direct_opener();
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("folder");
        assert_eq!(files.open(&path, OpenMode::Folder).unwrap_err().kind(), ErrorKind::NotFound);
        for _ in 0..2 {
            let folder = files.open(&path, OpenMode::CreateFolder).unwrap();
            assert_eq!(folder.metadata().unwrap().permissions().mode() & 0o777, 0o700);
        }
        assert!(files.open(&path, OpenMode::Folder).unwrap().metadata().unwrap().is_dir());
    }

    /// Falco's files of alerts follow links anywhere; the outputs of a run do not where others may write.
    #[test]
    fn links_of_others_are_followed_only_by_the_modes_that_say_so() {
        let files = direct_opener();
        let dir = tempfile::tempdir().unwrap();
        let shared = dir.path().join("shared");
        std::fs::create_dir(&shared).unwrap();
        std::fs::set_permissions(&shared, PermissionsExt::from_mode(0o1777)).unwrap();
        std::fs::write(dir.path().join("victim"), "x").unwrap();
        let link = shared.join("link");
        symlink(dir.path().join("victim"), &link).unwrap();
        let is_open = |mode| files.open(&link, mode).is_ok();
        assert!(!is_open(OpenMode::Append) && !is_open(OpenMode::Truncate));
        assert!(is_open(OpenMode::AppendFollowing) && is_open(OpenMode::TruncateFollowing));
    }
}
