//! Paths as Falco shows them: relative ones joined to a folder, `.`, `..` and repeated slashes removed by their text.
//!
//! The file system is never asked, so links are not followed. Bytes that no terminal shows are left out, as Falco
//! does: a name cannot write control sequences into an alert.

use crate::limits::{PATH_BYTES_MAX, reached};

/// Writes `folder` joined with `path` into `to`, which is emptied first. An absolute path stands alone. The folder ends
/// with a slash; one that is not known is a word without one, to which the path is appended as it is.
pub fn join(folder: &[u8], path: &[u8], to: &mut Vec<u8>) {
    to.clear();
    if path.first() == Some(&b'/') {
        to.push(b'/');
    } else {
        to.extend_from_slice(folder);
    }
    let mut is_first = true;
    for component in path.split(|b| *b == b'/') {
        match component {
            b"" | b"." => continue,
            b".." => remove_last(to),
            _ => {
                if !is_first && to.last().is_some_and(|b| *b != b'/') {
                    to.push(b'/');
                }
                to.extend(component.iter().filter(|b| is_shown(**b)));
            }
        }
        is_first = false;
    }
    if to.len() > 1 && to.last() == Some(&b'/') {
        to.pop();
    }
    if !reached::PATH_BYTES_MAX.holds(to.len()) {
        to.truncate(PATH_BYTES_MAX);
    }
}

fn is_shown(byte: u8) -> bool {
    byte >= b' ' && byte != 0x7f
}

/// Removes the last component; the root stays the root.
fn remove_last(path: &mut Vec<u8>) {
    if path.len() > 1 && path.last() == Some(&b'/') {
        path.pop();
    }
    let at = path.iter().rposition(|b| *b == b'/');
    path.truncate(at.map_or(0, |at| at + 1));
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
        join(folder.as_bytes(), path.as_bytes(), &mut to);
        String::from_utf8(to).unwrap()
    }

    #[test]
    fn paths_are_joined_and_cleaned_by_their_text() {
        for (folder, path, expected) in [
            ("/srv/u/", "a", "/srv/u/a"),
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
