//! The status of a response and its name.

use std::borrow::Cow;

/// The statuses of NT that Suricata 8.0.7 names, by code: found by sending it each code (MS-ERREF 2.3.1 has
/// the same and more).
const NT_NAMES: &str = include_str!("nt_status.tsv");

/// Names of DOS errors of class 1 by code (MS-CIFS 2.2.2.4), as far as Suricata 8.0.7 names them.
const DOS_NAMES: [&str; 6] = [
    "DOS_SUCCESS",
    "DOS_BAD_FUNC",
    "DOS_BAD_FILE",
    "DOS_BAD_PATH",
    "DOS_TOO_MANY_OPEN_FILES",
    "DOS_ACCESS_DENIED",
];

/// Names of server errors, class 2, that Suricata 8.0.7 names.
const SERVER_NAMES: [(u16, &str); 5] =
    [(1, "SRV_ERROR"), (2, "SRV_BADPW"), (3, "SRV_BADTYPE"), (4, "SRV_ACCESS"), (91, "SRV_BADUID")];

/// The status of a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// A status of NT.
    Nt(u32),
    /// An error of DOS, which only SMB 1 has.
    Dos {
        /// Its class.
        class: u8,
        /// Its code.
        code: u16,
    },
}

/// Statuses of NT that the parser knows (MS-ERREF 2.3.1).
pub(super) mod nt {
    pub(crate) const SUCCESS: u32 = 0;
    pub(crate) const PENDING: u32 = 0x0000_0103;
    pub(crate) const BUFFER_OVERFLOW: u32 = 0x8000_0005;
    pub(crate) const END_OF_FILE: u32 = 0xc000_0011;
}

impl Status {
    /// As EVE writes it.
    pub(super) fn name(self) -> Cow<'static, str> {
        let (name, code) = match self {
            Status::Nt(code) => (find_name(NT_NAMES, code), code),
            Status::Dos { class: 1, code } => {
                (DOS_NAMES.get(usize::from(code)).copied(), code.into())
            }
            Status::Dos { class: 2, code } => {
                let found = SERVER_NAMES.iter().find(|(number, _)| *number == code);
                (found.map(|(_, name)| *name), code.into())
            }
            Status::Dos { class, code } => return format!("UNKNOWN_{class:02x}_{code:04x}").into(),
        };
        name.map_or_else(|| code.to_string().into(), Cow::Borrowed)
    }

    /// Whether the request did what it was for.
    pub(super) fn is_success(self) -> bool {
        matches!(self, Status::Nt(nt::SUCCESS) | Status::Dos { code: 0, .. })
    }
}

/// The name of a code in a table with a line for each: eight digits, a tab, the name. The lines are in the
/// order of the codes.
pub(super) fn find_name(table: &'static str, code: u32) -> Option<&'static str> {
    let (mut low, mut high) = (0, table.len());
    while low < high {
        // The line that holds the middle.
        let middle = low + (high - low) / 2;
        let start = table.get(low..middle)?.rfind('\n').map_or(low, |at| low + at + 1);
        let end = table.get(start..high)?.find('\n').map_or(high, |at| start + at);
        let (digits, name) = table.get(start..end)?.split_once('\t')?;
        match u32::from_str_radix(digits, 16).ok()?.cmp(&code) {
            std::cmp::Ordering::Equal => return Some(name),
            std::cmp::Ordering::Less => low = (end + 1).min(high),
            std::cmp::Ordering::Greater => high = start,
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Names that Suricata 8.0.7 wrote for these codes.
    #[test]
    fn names() {
        for (status, name) in [
            (Status::Nt(0), "STATUS_SUCCESS"),
            (Status::Nt(0xc000_0016), "STATUS_MORE_PROCESSING_REQUIRED"),
            (Status::Nt(4), "4"),
            (Status::Nt(0xffff_ffff), "4294967295"),
            (Status::Dos { class: 1, code: 5 }, "DOS_ACCESS_DENIED"),
            (Status::Dos { class: 1, code: 18 }, "18"),
            (Status::Dos { class: 2, code: 91 }, "SRV_BADUID"),
            (Status::Dos { class: 0, code: 5 }, "UNKNOWN_00_0005"),
        ] {
            assert_eq!(status.name(), name);
        }
    }

    #[test]
    fn each_line_is_found() {
        let mut codes = Vec::new();
        for line in NT_NAMES.lines() {
            let (code, name) = line.split_once('\t').unwrap();
            let code = u32::from_str_radix(code, 16).unwrap();
            assert_eq!(find_name(NT_NAMES, code), Some(name));
            codes.push(code);
        }
        assert!(codes.is_sorted() && codes.len() > 1500);
    }
}
