//! Paths as Falco shows them: relative ones joined to a folder, `.`, `..` and repeated slashes removed by their text.
//!
//! The file system is never asked, so links are not followed. Bytes that no terminal shows are left out, as Falco
//! does: a name cannot write control sequences into an alert.

use crate::limits::{PATH_BYTES_MAX, reached};

/// A folder that paths are joined with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Folder<'a> {
    /// A path; a slash at its end is added where it has none.
    Path(&'a [u8]),
    /// A text that stands for a folder that is not known: a path is appended as it is.
    Word(&'a [u8]),
}

/// Writes `folder` joined with `path` into `to`, which is emptied first. An absolute path stands alone.
pub fn join(folder: Folder<'_>, path: &[u8], to: &mut Vec<u8>) {
    to.clear();
    append_joined(folder, path, to);
}

/// Appends `folder` joined with `path` to `to`.
pub fn append_joined(folder: Folder<'_>, path: &[u8], to: &mut Vec<u8>) {
    let base = to.len();
    let (folder, has_slash) = match folder {
        Folder::Path(folder) => (folder, true),
        Folder::Word(word) => (word, false),
    };
    if path.first() == Some(&b'/') {
        to.push(b'/');
    } else {
        to.extend_from_slice(folder);
        if has_slash && !folder.is_empty() && folder.last() != Some(&b'/') {
            to.push(b'/');
        }
    }
    let mut is_first = true;
    for component in path.split(|b| *b == b'/') {
        match component {
            b"" | b"." => continue,
            b".." => remove_last(to, base),
            _ => {
                if !is_first && to.len() > base && to.last() != Some(&b'/') {
                    to.push(b'/');
                }
                to.extend(component.iter().filter(|b| is_shown(**b)));
            }
        }
        is_first = false;
    }
    if to.len() > base + 1 && to.last() == Some(&b'/') {
        to.pop();
    }
    if !reached::PATH_BYTES_MAX.holds(to.len() - base) {
        to.truncate(base + PATH_BYTES_MAX);
    }
}

fn is_shown(byte: u8) -> bool {
    byte >= b' ' && byte != 0x7f
}

/// Removes the last component of what begins at `base`; the root stays the root.
fn remove_last(path: &mut Vec<u8>, base: usize) {
    if path.len() > base + 1 && path.last() == Some(&b'/') {
        path.pop();
    }
    let own = path.get(base..).unwrap_or_default();
    let kept = own.iter().rposition(|b| *b == b'/').map_or(0, |at| at + 1);
    path.truncate(base + kept);
}

/// The folder of a path: of `/a/b` it is `/a`, of `/a` it is `/`. `None` if the path has no slash.
pub fn directory(path: &[u8]) -> Option<&[u8]> {
    match path.iter().rposition(|b| *b == b'/')? {
        0 => path.get(..1),
        at => path.get(..at),
    }
}

/// The last component of a path. `None` if the path has no slash.
pub fn filename(path: &[u8]) -> Option<&[u8]> {
    let at = path.iter().rposition(|b| *b == b'/')?;
    path.get(at + 1..)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn joined(folder: &str, path: &str) -> String {
        let mut to = b"old".to_vec();
        let word = folder.starts_with('<');
        let folder = folder.as_bytes();
        join(
            if word { Folder::Word(folder) } else { Folder::Path(folder) },
            path.as_bytes(),
            &mut to,
        );
        String::from_utf8(to).unwrap()
    }

    #[test]
    fn paths_are_joined_and_cleaned_by_their_text() {
        for (folder, path, expected) in [
            ("/srv/u/", "a", "/srv/u/a"),
            ("/srv/u", "a", "/srv/u/a"),
            ("/srv/u/", "/etc//passwd", "/etc/passwd"),
            ("/srv/u/", "../../..", "/"),
            ("/srv/u/", "../../../etc/./x", "/etc/x"),
            ("/", ".", "/"),
            ("/", "a/", "/a"),
            ("", "a/../b", "b"),
            ("<UNKNOWN>", "a", "<UNKNOWN>a"),
            ("./", "a", "./a"),
            ("/tmp/", "a\x1b[2Jb\x7f", "/tmp/a[2Jb"),
        ] {
            assert_eq!(joined(folder, path), expected, "{folder} {path}");
        }
    }

    #[test]
    fn folder_and_name_are_split_at_the_last_slash() {
        assert_eq!(directory(b"/a/b"), Some(&b"/a"[..]));
        assert_eq!(directory(b"/a"), Some(&b"/"[..]));
        assert_eq!(directory(b"a"), None);
        assert_eq!((filename(b"/a/b"), filename(b"/a/")), (Some(&b"b"[..]), Some(&b""[..])));
    }
}
