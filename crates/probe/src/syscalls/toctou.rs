//! Whether the name in an open, or the address in a connect, can be trusted.
//!
//! Another thread can change a name between the moment at which the kernel reads it and the moment at which a program
//! like this one reads it. Two reads that agree prove nothing: of 40,000 opens of a name that another thread flips, 1 to
//! 3 % read the same twice while the kernel opened the other file. Therefore the test rests on the path of the file that
//! the kernel opened.

pub use gabion_scap::{Cause, Toctou};

/// The file that the kernel opened, and the folder that a relative name begins in.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Opened<'a> {
    /// Its path from the process' root, with `/` in front.
    pub(crate) path: &'a [u8],
    /// The folder's path, if the file is not below it.
    pub(crate) base: &'a [u8],
    /// How many of the path's components are below the folder, if it is.
    pub(crate) below_base: Option<usize>,
    /// Whether the path is whole.
    pub(crate) is_whole: bool,
    /// Whether the path is without its beginning, as it has more components than are kept.
    pub(crate) is_cut: bool,
}

/// Whether the kernel opened the path that the name says, by text alone: `.`, `..` and `//` are resolved, links are not.
pub(crate) fn names_opened(name: &[u8], opened: &Opened<'_>) -> bool {
    if opened.is_cut {
        return names_below(name, opened);
    }
    if !opened.is_whole {
        return false;
    }
    let found: Vec<&[u8]> = components(opened.path).collect();
    let mut wanted: Vec<&[u8]> = Vec::new();
    if !name.starts_with(b"/") {
        match opened.below_base {
            Some(below) => {
                let base = found.len().saturating_sub(below);
                wanted.extend(found.iter().take(base));
            }
            None if opened.base.is_empty() => return false,
            None => wanted.extend(components(opened.base)),
        }
    }
    for component in components(name) {
        if component == b".." {
            wanted.pop();
        } else {
            wanted.push(component);
        }
    }
    wanted == found
}

/// The same for a path without its beginning: a name that stays below a folder which is in what is left of the path.
fn names_below(name: &[u8], opened: &Opened<'_>) -> bool {
    let Some(below) = opened.below_base.filter(|_| !name.starts_with(b"/")) else { return false };
    let found: Vec<&[u8]> = components(opened.path).collect();
    let mut wanted: Vec<&[u8]> = Vec::new();
    for component in components(name) {
        if component != b".." {
            wanted.push(component);
        } else if wanted.pop().is_none() {
            return false;
        }
    }
    found.len().checked_sub(below).and_then(|from| found.get(from..)) == Some(&wanted)
}

/// The components of a path but `.`.
fn components(path: &[u8]) -> impl Iterator<Item = &[u8]> {
    path.split(|byte| *byte == b'/').filter(|part| !part.is_empty() && *part != b".")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_compared_with_the_opened_path() {
        // name, opened path, folder if the file is not below it, components below the folder, answer
        let rows: &[(&str, &str, &str, Option<usize>, bool)] = &[
            ("/etc/passwd", "/etc/passwd", "", None, true),
            ("/etc//./passwd", "/etc/passwd", "", None, true),
            ("/etc/../etc/passwd", "/etc/passwd", "", None, true),
            ("/etc/passwd", "/etc/shadow", "", None, false),
            ("/etc/mtab", "/proc/7/mounts", "", None, false),
            ("passwd", "/etc/passwd", "", Some(1), true),
            ("x/passwd", "/etc/passwd", "", Some(1), false),
            ("etc/passwd", "/etc/passwd", "", Some(2), true),
            ("../etc/passwd", "/etc/passwd", "/usr", None, true),
            ("../passwd", "/etc/passwd", "/usr", None, false),
            ("..", "/", "", None, false),
            ("..", "/", "/usr", None, true),
            (".", "/usr", "", Some(0), true),
            ("passwd", "/etc/passwd", "", None, false),
            ("/", "/", "", None, true),
        ];
        for (name, path, base, below_base, answer) in rows {
            let opened = Opened {
                path: path.as_bytes(),
                base: base.as_bytes(),
                below_base: *below_base,
                is_whole: true,
                is_cut: false,
            };
            assert_eq!(names_opened(name.as_bytes(), &opened), *answer, "{name} as {path}");
            assert!(!names_opened(name.as_bytes(), &Opened { is_whole: false, ..opened }));
        }
    }

    /// What is left of a deep path says something of names below a folder that is in it, and nothing of others.
    #[test]
    fn names_of_deep_paths_are_compared_below_their_folder() {
        let path = b".../d/e/f".as_slice();
        for (name, below_base, answer) in [
            ("e/f", Some(2), true),
            ("./e/../e/f", Some(2), true),
            ("e/g", Some(2), false),
            ("../d/e/f", Some(2), false),
            ("/a/b/c/d/e/f", None, false),
            ("e/f", None, false),
        ] {
            let opened = Opened { path, base: b"", below_base, is_whole: false, is_cut: true };
            assert_eq!(names_opened(name.as_bytes(), &opened), answer, "{name}");
        }
    }
}
