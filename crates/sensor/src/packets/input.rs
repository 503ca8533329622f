//! The captures and interfaces of a run: which are read, and what happened to each.

use super::before_socket::BeforeSocket;
use super::capture::NO_CAPTURE;
use super::interface::InterfaceError;
use crate::Error;
use gabion_record::eve::InputName;
use gabion_record::files::FileOpener;
use gabion_settings::InterfaceSettings;
use std::path::{Path, PathBuf};

/// A capture or an interface to read.
#[derive(Clone, Debug)]
pub struct Input {
    /// The file, a pipe, or `-` for standard input.
    pub path: PathBuf,
    /// Named by the user, rather than found in a folder.
    pub is_named: bool,
    /// Interfaces that are read together, and no capture: `path` names the first.
    pub interfaces: Vec<InterfaceSettings>,
}

/// What happened to an input.
#[derive(Debug, Default)]
pub struct InputDone {
    /// The input.
    pub path: PathBuf,
    /// Named by the user, rather than found in a folder.
    pub is_named: bool,
    /// Frames that were read.
    pub frames: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Earliest and latest event time.
    pub span_ns: Option<(u64, u64)>,
    /// What a person should know, and how many such notes there were in all.
    pub notes: Vec<String>,
    /// Why nothing could be read.
    pub error: Option<String>,
    /// What to do about it.
    pub advice: &'static str,
    /// It lies in where this runs, not in what was named.
    pub is_of_environment: bool,
    /// Of an interface: what the kernel counted.
    pub kernel: Option<KernelCounts>,
    /// Of an interface: seconds since 1970 in which frames were dropped at its socket, and how many.
    pub drops_by_second: Vec<(u64, u64)>,
}

/// What the kernel counted of an interface, or of all that are read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KernelCounts {
    /// Frames that reached the socket, those that were dropped there included.
    pub offered: u64,
    /// Frames that were dropped at the socket.
    pub dropped: u64,
    /// Frames that were lost before it.
    pub before: BeforeSocket,
}

impl KernelCounts {
    /// What was counted, by the names of records of statistics: Suricata's, and ours for what was lost before the socket.
    pub(crate) fn counters(&self) -> [(&'static str, u64); 5] {
        [
            ("capture.kernel_packets", self.offered),
            ("capture.kernel_drops", self.dropped),
            ("capture.backlog_drops", self.before.backlog),
            ("capture.interface_drops", self.before.dropped),
            ("capture.interface_missed", self.before.missed),
        ]
    }

    /// Adds those of another ring or interface. The queues of the host are one.
    pub(super) fn add(&mut self, other: &KernelCounts) {
        self.offered += other.offered;
        self.dropped += other.dropped;
        self.before.backlog = self.before.backlog.max(other.before.backlog);
        self.before.dropped += other.before.dropped;
        self.before.missed += other.before.missed;
    }
}

/// What workers with rings of their own had to do with each other.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HandedOver {
    /// Frames that came into another ring than that of their worker.
    pub frames: u64,
    /// Of them, those that came after later frames had been taken.
    pub late: u64,
    /// Uses of state across flows that did not wait for all earlier ones.
    pub early_uses: u64,
}

impl Input {
    /// A capture.
    pub fn capture(path: PathBuf, is_named: bool) -> Input {
        Input { path, is_named, interfaces: Vec::new() }
    }

    /// Interfaces that are read together; none if none is named.
    pub fn interfaces(all: &[InterfaceSettings]) -> Option<Input> {
        let path = (&all.first()?.name).into();
        Some(Input { path, is_named: true, interfaces: all.to_vec() })
    }

    /// Its name in records.
    pub(crate) fn name(&self) -> InputName {
        if self.interfaces.is_empty() {
            InputName::Capture(self.path.display().to_string())
        } else {
            InputName::Interfaces(self.interfaces.iter().map(|i| i.name.clone()).collect())
        }
    }

    /// The captures that paths stand for: files themselves, folders the files in them, and below them where `is_deep`.
    ///
    /// # Errors
    /// When a folder can't be listed.
    pub fn list_captures(
        paths: &[PathBuf],
        is_deep: bool,
    ) -> Result<Vec<Input>, gabion_capture::Error> {
        let mut all = Vec::new();
        for path in paths {
            if path.as_os_str() == "-" || !path.is_dir() {
                all.push(Input::capture(path.clone(), true));
                continue;
            }
            let list = if is_deep {
                gabion_capture::list_recursive(path)?
            } else {
                gabion_capture::list(path)?
            };
            all.extend(list.into_iter().map(|path| Input::capture(path, false)));
        }
        Ok(all)
    }

    /// The captures that paths stand for: files themselves, folders all files below them.
    ///
    /// # Errors
    /// When a folder can't be listed or holds nothing.
    pub fn list(paths: &[PathBuf]) -> Result<Vec<Input>, Error> {
        let mut all = Vec::new();
        for path in paths {
            if path.as_os_str() == "-" || !path.is_dir() {
                all.push(Input::capture(path.clone(), true));
                continue;
            }
            let list = gabion_capture::list_recursive(path)
                .map_err(|source| Error::UnreadableFolder { path: path.clone(), source })?;
            if list.is_empty() {
                return Err(Error::EmptyFolder { path: path.clone() });
            }
            all.extend(list.into_iter().map(|path| Input::capture(path, false)));
        }
        Ok(all)
    }

    /// Whether a file's name promises a capture.
    pub fn has_capture_name(path: &Path) -> bool {
        let name = path.file_name().map(|n| n.to_string_lossy().to_lowercase()).unwrap_or_default();
        let name = name.strip_suffix(".zst").or(name.strip_suffix(".gz")).unwrap_or(&name);
        [".pcap", ".pcapng", ".cap"].iter().any(|ending| name.ends_with(ending))
    }

    /// Whether a file is a capture, by the first bytes of what is in it. What can be read only once is not opened for
    /// it: its writer may be gone, and another look would wait for ever.
    pub fn is_capture(files: &FileOpener, path: &Path) -> bool {
        crate::flows::is_capture(files, path)
    }
}

impl InputDone {
    /// An interface that can't be read.
    pub(super) fn refused(
        interfaces: &[InterfaceSettings],
        n: usize,
        e: &InterfaceError,
    ) -> InputDone {
        InputDone {
            path: interfaces.get(n).map_or_else(Default::default, |i| (&i.name).into()),
            is_named: true,
            error: Some(e.to_string()),
            advice: e.advice(),
            is_of_environment: e.is_of_environment(),
            ..InputDone::default()
        }
    }

    /// Whether it can't be read because it is no capture.
    pub fn is_no_capture(&self) -> bool {
        self.advice == NO_CAPTURE
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_promise_captures() {
        for (name, is) in
            [("a.pcap", true), ("A.PCAPNG.zst", true), ("x.cap", true), ("README.md", false)]
        {
            assert_eq!(Input::has_capture_name(Path::new(name)), is, "{name}");
        }
    }
}
