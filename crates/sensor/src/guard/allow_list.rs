//! The allow-list of the throttle: what its packets are recognized by, from the command line and from a file.

use crate::error::Error;
use crate::limits::ALLOW_LIST_BYTES_MAX;
use gabion_probe::throttle::Allowed;
use gabion_runtime::operator_file;
use std::fmt;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::str::FromStr;

/// Why an allow-list can't be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AllowError {
    /// An entry is neither a prefix nor a port.
    #[error("{0}: write an address, a prefix (10.0.0.0/8) or a port (tcp/22, udp/53, sctp/2905)")]
    Entry(String),
    /// The list is empty.
    #[error(
        "the allow-list is empty: name with --allow what must never be dropped, such as tcp/22"
    )]
    Empty,
    /// Its file can't be read.
    #[error("{}: {source}", .path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// The error of the operating system.
        source: std::io::Error,
    },
    /// A line of its file is wrong.
    #[error("{}:{line}: {source}", .path.display())]
    Line {
        /// The file.
        path: PathBuf,
        /// The line, from 1.
        line: usize,
        /// What is wrong.
        source: Box<AllowError>,
    },
}

/// An entry of the allow-list: a prefix of source or destination, or a port at either end.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct GuardAllowed(pub(super) Allowed);

impl fmt::Debug for GuardAllowed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl FromStr for GuardAllowed {
    type Err = AllowError;

    fn from_str(text: &str) -> Result<GuardAllowed, AllowError> {
        let wrong = || AllowError::Entry(text.to_owned());
        for (name, number) in [("tcp/", 6), ("udp/", 17), ("sctp/", 132)] {
            if let Some(port) = text.strip_prefix(name) {
                let port = port.parse().map_err(|_| wrong())?;
                return Ok(GuardAllowed(Allowed::Port(number, port)));
            }
        }
        let (address, bits) = text.split_once('/').map_or((text, None), |(a, b)| (a, Some(b)));
        let address: IpAddr = address.parse().map_err(|_| wrong())?;
        let most = if address.is_ipv4() { 32 } else { 128 };
        let bits = bits.map_or(Ok(most), str::parse).map_err(|_| wrong())?;
        // A prefix of no bits would allow everything.
        if bits == 0 || bits > most {
            Err(wrong())
        } else {
            Ok(GuardAllowed(Allowed::Prefix(address, bits)))
        }
    }
}

/// Reads a file of entries: one a line, with `#` before comments.
pub(super) fn read_allow_file(path: &Path) -> Result<Vec<GuardAllowed>, Error> {
    let text = operator_file::text(path, ALLOW_LIST_BYTES_MAX)
        .map_err(|source| AllowError::File { path: path.to_path_buf(), source })?;
    Ok(parse(&text, path)?)
}

fn parse(text: &str, path: &Path) -> Result<Vec<GuardAllowed>, AllowError> {
    let lines = text.lines().enumerate();
    let entries =
        lines.map(|(at, line)| (at + 1, line.split('#').next().unwrap_or_default().trim()));
    entries
        .filter(|(_, entry)| !entry.is_empty())
        .map(|(line, entry)| {
            entry.parse().map_err(|e| AllowError::Line {
                path: path.to_path_buf(),
                line,
                source: Box::new(e),
            })
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_are_addresses_prefixes_and_ports() {
        let of = |text: &str| text.parse::<GuardAllowed>().map(|entry| entry.0);
        assert_eq!(of("tcp/22").unwrap(), Allowed::Port(6, 22));
        assert_eq!(of("10.0.0.0/8").unwrap(), Allowed::Prefix("10.0.0.0".parse().unwrap(), 8));
        assert_eq!(of("::1").unwrap(), Allowed::Prefix("::1".parse().unwrap(), 128));
        for wrong in ["", "tcp/", "tcp/70000", "10.0.0.0/33", "0.0.0.0/0", "::/0", "host", "icmp/1"]
        {
            assert!(of(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_wrong_line_of_a_file_is_named() {
        let path = Path::new("list");
        assert_eq!(parse("# c\n\n tcp/22 # ssh\n10.0.0.1\n", path).unwrap().len(), 2);
        let e = parse("tcp/22\nssh\n", path).unwrap_err().to_string();
        assert!(e.starts_with("list:2: ssh: write an address"), "{e}");
    }
}
