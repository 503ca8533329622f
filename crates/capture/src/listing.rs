//! Lists the captures of a path: a file itself, or the files in a folder, sorted by name.
//! Subfolders are followed only on request, symbolic links to folders never.

use std::fs;
use std::path::{Path, PathBuf};

use crate::error::Error;
use crate::limits;

/// The files in a folder (not in its subfolders), sorted; or the path itself if it is not a folder.
/// Hidden files are left out. Files are not opened: opening one that is not a capture fails.
///
/// # Errors
/// If the folder can't be read or has too many files.
pub fn list(path: &Path) -> Result<Vec<PathBuf>, Error> {
    listing(path, 0)
}

/// As [`list`], with all subfolders.
///
/// # Errors
/// As [`list`], or if folders are nested too deep.
pub fn list_recursive(path: &Path) -> Result<Vec<PathBuf>, Error> {
    listing(path, limits::LISTING_DEPTH_MAX)
}

fn listing(path: &Path, depth: usize) -> Result<Vec<PathBuf>, Error> {
    if path.as_os_str() == "-" || !fs::metadata(path)?.is_dir() {
        return Ok(vec![path.to_path_buf()]);
    }
    let mut files = Vec::new();
    collect(path, depth, depth > 0, &mut files)?;
    files.sort_unstable();
    Ok(files)
}

fn collect(
    folder: &Path,
    depth: usize,
    is_recursive: bool,
    files: &mut Vec<PathBuf>,
) -> Result<(), Error> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        if entry.file_name().as_encoded_bytes().starts_with(b".") {
            continue;
        }
        let path = entry.path();
        if entry.file_type()?.is_dir() {
            if !is_recursive {
                continue;
            }
            let Some(depth) = depth.checked_sub(1) else {
                return Err(Error::TooMany(format!(
                    "folders nested too deep at {}",
                    path.display()
                )));
            };
            collect(&path, depth, true, files)?;
        } else if fs::metadata(&path).is_ok_and(|m| m.is_file()) {
            if files.len() >= limits::LISTING_FILES_MAX {
                return Err(Error::TooMany(format!(
                    "more than {} files",
                    limits::LISTING_FILES_MAX
                )));
            }
            files.push(path);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_are_listed_sorted_and_without_hidden_files() {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir_all(dir.path().join("sub/deep")).unwrap();
        for name in ["b.pcap", "a.pcap", ".hidden", "sub/c.pcap", "sub/deep/d.pcap"] {
            fs::write(dir.path().join(name), b"x").unwrap();
        }
        let names = |files: Vec<PathBuf>| -> Vec<String> {
            files
                .iter()
                .map(|f| f.strip_prefix(dir.path()).unwrap().to_str().unwrap().to_owned())
                .collect()
        };
        assert_eq!(names(list(dir.path()).unwrap()), ["a.pcap", "b.pcap"]);
        assert_eq!(
            names(list_recursive(dir.path()).unwrap()),
            ["a.pcap", "b.pcap", "sub/c.pcap", "sub/deep/d.pcap"]
        );
        let file = dir.path().join("a.pcap");
        assert_eq!(list(&file).unwrap().as_slice(), std::slice::from_ref(&file));
        assert!(list(&dir.path().join("absent")).is_err());
        assert_eq!(list(Path::new("-")).unwrap(), [PathBuf::from("-")]);
    }
}
