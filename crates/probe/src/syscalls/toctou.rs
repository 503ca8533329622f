//! Whether the name in an open, or the address in a connect, can be trusted.
//!
//! Another thread can change a name between the moment at which the kernel reads it and the moment at which a program
//! like this one reads it. Two reads that agree prove nothing: of 40,000 opens of a name that another thread flips, 1 to
//! 3 % read the same twice while the kernel opened the other file. Therefore the test rests on the path of the file that
//! the kernel opened.

/// What is known of the name of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Toctou {
    /// Both reads agree and, if the call succeeded, the kernel opened that path.
    Verified,
    /// Both reads agree, and the kernel opened another path: a link, or a change in between.
    Linked,
    /// The reads differ.
    Mismatch,
    /// There is no read at the entry.
    ExitOnly(Cause),
}

/// Why there is no read at the entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// The program at the entry could not be attached.
    NotAttached,
    /// The call began before the program was attached.
    NotSeen,
    /// The call used the table of 32 bits, whose entry has no tracepoint of its own.
    Ia32,
    /// The page of the name was not in memory, or there was no memory for it.
    NotReadable,
    /// The name is longer than what is kept of it.
    TooLong,
    /// Another call of a signal handler came in between.
    OtherCall,
}

impl Toctou {
    /// The value of the field `evt.toctou`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Verified => "verified",
            Self::Linked => "linked",
            Self::Mismatch => "mismatch",
            Self::ExitOnly(_) => "exit-only",
        }
    }
}

impl Cause {
    /// The reason for a person.
    #[must_use]
    pub const fn text(self) -> &'static str {
        match self {
            Self::NotAttached => "the program at the entry is not attached",
            Self::NotSeen => "the call began before the program was attached",
            Self::Ia32 => "calls of 32-bit programs have no tracepoint at their entry",
            Self::NotReadable => "the name was not in memory at the entry",
            Self::TooLong => "the name is longer than 1023 bytes",
            Self::OtherCall => "a signal's call came in between",
        }
    }

    /// The cause with a number of `bpf/syscalls.h`.
    pub(crate) const fn from_number(number: u8) -> Self {
        match number {
            1 => Self::NotAttached,
            3 => Self::Ia32,
            4 => Self::NotReadable,
            5 => Self::TooLong,
            6 => Self::OtherCall,
            _ => Self::NotSeen,
        }
    }
}

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
}

/// Whether the kernel opened the path that the name says, by text alone: `.`, `..` and `//` are resolved, links are not.
pub(crate) fn names_opened(name: &[u8], opened: &Opened<'_>) -> bool {
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
            };
            assert_eq!(names_opened(name.as_bytes(), &opened), *answer, "{name} as {path}");
            assert!(!names_opened(name.as_bytes(), &Opened { is_whole: false, ..opened }));
        }
    }
}
