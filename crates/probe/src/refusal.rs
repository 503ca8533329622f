//! What the kernel refuses, in plain words: which program or map, why, and what to do.
//!
//! The kernel answers EPERM for a missing capability, for a kind of program that it was built without, and for a policy.
//! The advice to raise `ulimit -l`, which is often printed then, is wrong since Linux 5.11 and is never given here.

use crate::capability::Capability;
use crate::limits::VERIFIER_LINES_SHOWN;
use aya::EbpfError;
use aya::maps::MapError;
use aya::programs::ProgramError;
use std::io;

/// Why something live is not to be had.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The crate was built on a machine without clang.
    #[error(
        "this program was built without clang, so it has no BPF programs: install clang 14 or newer and build again"
    )]
    NotBuilt,
    /// No object or program of this name; a mistake in this project.
    #[error("{0}: no BPF object, program or map of this name")]
    Unknown(String),
    /// The programs record events of another event table than this program reads.
    #[error(
        "{name}: made for the event table {found:016x}, this program reads {own:016x}: build both from the same source"
    )]
    OtherTable {
        /// The object.
        name: String,
        /// The hash of its table.
        found: u64,
        /// The hash of the own table.
        own: u64,
    },
    /// The kernel has no type information.
    #[error("/sys/kernel/btf/vmlinux: {0}: a kernel with CONFIG_DEBUG_INFO_BTF is needed")]
    NoBtf(String),
    /// The kernel refused to load, make or attach something.
    #[error("{what}: {why}")]
    Refused {
        /// The program or map.
        what: String,
        /// The reason, and what to do.
        why: String,
        /// The kernel's answer, if there is a number.
        errno: Option<i32>,
    },
}

impl Error {
    /// The number of the kernel's answer.
    #[must_use]
    pub fn errno(&self) -> Option<i32> {
        match self {
            Self::Refused { errno, .. } => *errno,
            Self::NotBuilt | Self::Unknown(_) | Self::NoBtf(_) | Self::OtherTable { .. } => None,
        }
    }
}

/// What a program is for; it decides which capability the kernel wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// `tp_btf/…` and `tracepoint/…`.
    Tracing,
    /// `fentry/…` and `lsm/…`.
    Function,
    /// XDP and tcx.
    Packets,
    /// A map.
    Map,
    /// A private mount of tracefs.
    Mount,
}

impl Kind {
    /// The capabilities that loading needs, in the order in which the kernel asks for them.
    const fn needs(self) -> &'static [Capability] {
        match self {
            Self::Tracing | Self::Function => &[Capability::Bpf, Capability::Perfmon],
            Self::Packets => &[Capability::Bpf, Capability::NetAdmin],
            Self::Map => &[Capability::Bpf],
            Self::Mount => &[Capability::SysAdmin],
        }
    }
}

/// Explains the kernel's answer to a load.
#[must_use]
pub fn loading(what: &str, kind: Kind, error: &io::Error, log: &str) -> Error {
    let missing = kind.needs().iter().find(|c| !c.is_held()).map(ToString::to_string);
    refused(what, reason(kind, error, log, missing.as_deref()), error)
}

/// Explains an answer with a reason that is already known.
#[must_use]
pub fn refused(what: &str, why: String, error: &io::Error) -> Error {
    Error::Refused { what: what.to_owned(), why, errno: error.raw_os_error() }
}

/// An answer of the operating system that needs no explanation.
#[must_use]
pub fn io_error(what: &str, error: &io::Error) -> Error {
    refused(what, error.to_string(), error)
}

/// The reason, and what to do, in one line.
fn reason(kind: Kind, error: &io::Error, log: &str, missing: Option<&str>) -> String {
    let tail = last_lines(log);
    match (error.raw_os_error(), missing) {
        (Some(libc::EPERM), Some(capability)) => {
            format!("not permitted without {capability}: run as root or grant the capability")
        }
        (Some(libc::EPERM), None) if kind == Kind::Function && tail.is_empty() => {
            "this kernel refuses programs on functions (fentry, lsm)".to_owned()
        }
        (Some(libc::EPERM), None) if tail.is_empty() => {
            "the kernel refuses this kind of program although the capabilities are here: \
             lockdown or another policy forbids it"
                .to_owned()
        }
        (Some(libc::ENOMEM), _) => {
            "the kernel has no memory for it: the cgroup's limit counts the memory of BPF maps"
                .to_owned()
        }
        (Some(libc::E2BIG), _) => {
            format!("the program is too large for this kernel's verifier: {tail}")
        }
        (Some(libc::ENOENT), _) => "this kernel does not have it".to_owned(),
        _ if tail.is_empty() => format!("the kernel answers: {error}"),
        _ => format!("the kernel's verifier refuses it: {tail}"),
    }
}

/// The last lines of a verifier's log that are not statistics.
fn last_lines(log: &str) -> String {
    let is_reason = |line: &&str| {
        !line.is_empty()
            && !line.starts_with("processed ")
            && !line.starts_with("verification time")
            && !line.starts_with("stack depth")
    };
    let mut lines: Vec<&str> = log.lines().map(str::trim).filter(is_reason).collect();
    let from = lines.len().saturating_sub(VERIFIER_LINES_SHOWN);
    lines.split_off(from).join("; ")
}

/// Explains an error of the loader for a program or map.
#[must_use]
pub fn program(what: &str, kind: Kind, error: &ProgramError) -> Error {
    match error {
        ProgramError::LoadError { io_error, verifier_log } => {
            loading(what, kind, io_error, &verifier_log.to_string())
        }
        ProgramError::SyscallError(e) => loading(what, kind, &e.io_error, ""),
        other => plain(what, other),
    }
}

/// Explains an error of a map.
#[must_use]
pub fn map(what: &str, error: &MapError) -> Error {
    match error {
        MapError::CreateError { name, io_error } => loading(name, Kind::Map, io_error, ""),
        MapError::SyscallError(e) => loading(what, Kind::Map, &e.io_error, ""),
        other => plain(what, other),
    }
}

/// Explains an error of an object.
#[must_use]
pub fn object(what: &str, error: &EbpfError) -> Error {
    match error {
        EbpfError::MapError(e) => map(what, e),
        EbpfError::ProgramError(e) => program(what, Kind::Tracing, e),
        other => plain(what, other),
    }
}

/// An error of the loader that is not the kernel's answer, with its causes.
fn plain(what: &str, error: &dyn std::error::Error) -> Error {
    let mut why = error.to_string();
    let mut cause = error.source();
    while let Some(c) = cause {
        why = format!("{why}: {c}");
        cause = c.source();
    }
    Error::Refused { what: what.to_owned(), why, errno: None }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn why(kind: Kind, errno: i32, log: &str, missing: Option<&str>) -> String {
        reason(kind, &io::Error::from_raw_os_error(errno), log, missing)
    }

    #[test]
    fn a_missing_capability_is_named() {
        let text = why(Kind::Packets, libc::EPERM, "", Some("CAP_NET_ADMIN"));
        assert!(text.contains("CAP_NET_ADMIN"), "{text}");
    }

    #[test]
    fn programs_on_functions_are_refused_without_advice_on_memory() {
        let text = why(Kind::Function, libc::EPERM, "", None);
        assert_eq!(text, "this kernel refuses programs on functions (fentry, lsm)");
        for kind in [Kind::Tracing, Kind::Function, Kind::Packets, Kind::Map] {
            for errno in [libc::EPERM, libc::ENOMEM, libc::EINVAL, libc::EACCES] {
                assert!(!why(kind, errno, "", None).contains("ulimit"));
            }
        }
    }

    #[test]
    fn the_verifiers_reason_is_its_last_line_but_the_statistics() {
        let log = "0: (bf) r6 = r1\nR1 invalid mem access 'scalar'\nverification time 5 usec\n\
                   stack depth 0\nprocessed 9 insns (limit 1000000)\n";
        let text = why(Kind::Tracing, libc::EACCES, log, None);
        assert_eq!(
            text,
            "the kernel's verifier refuses it: 0: (bf) r6 = r1; R1 invalid mem access 'scalar'"
        );
    }
}
