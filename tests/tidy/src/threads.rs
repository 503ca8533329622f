//! Threads, clocks and sockets belong to `runtime`, `sensor`, `intake` and `cli`: engines and libraries know none.
//!
//! A library that reads a clock or starts a thread decides for its caller. The exceptions stand here with their
//! reasons; one that is not needed any more is a fault, too.

use crate::Fault;
use crate::tree::File;

/// Crates that may know threads, clocks and sockets.
const OWNERS: &[&str] = &["cli", "intake", "runtime", "sensor"];

/// What they are recognised by.
const WORDS: &[&str] = &[
    "std::thread",
    "Instant::now",
    "SystemTime::now",
    "TcpListener",
    "TcpStream::",
    "UdpSocket",
    "UnixListener",
    "UnixDatagram",
    "UnixStream",
    "rustix::event",
    "rustix::net",
    "rustix::time",
];

/// Files that may all the same: path and reason.
const EXCEPTIONS: &[(&str, &str)] = &[
    (
        "crates/capture/src/live/mod.rs",
        "frames are waited for at the sockets that the caller has opened",
    ),
    (
        "crates/outputs/src/profile_store.rs",
        "the database of profiles is written by a thread of its own, so that findings do not wait for it",
    ),
    (
        "crates/probe/src/netlink.rs",
        "what the kernel knows of interfaces and neighbours is read through a socket of its own kind",
    ),
    (
        "crates/probe/src/syscalls/session.rs",
        "the kernel's clock of the records shows which of them can't be overtaken by others any more",
    ),
    (
        "crates/seal/src/storage/files.rs",
        "a log that another process is about to leave is waited for",
    ),
    ("crates/seal/src/verify/read.rs", "segments are read and verified on several threads"),
];

/// Places that use a thread, a clock or a socket and may not, and exceptions that nothing needs.
#[must_use]
pub fn check(files: &[File]) -> Vec<Fault> {
    let mut faults = Vec::new();
    for file in files.iter().filter(|f| is_library(&f.path)) {
        let found = uses(file);
        let is_listed = EXCEPTIONS.iter().any(|(path, _)| *path == file.path);
        if !is_listed {
            faults.extend(found);
        } else if found.is_empty() {
            let what = "knows no thread, clock or socket any more: take it out of the exceptions";
            faults.push(Fault::new(&file.path, 0, what));
        }
    }
    faults
}

fn is_library(path: &str) -> bool {
    let Some((name, rest)) = path.strip_prefix("crates/").and_then(|p| p.split_once('/')) else {
        return false;
    };
    let is_test = rest.contains("/tests/") || rest.ends_with("tests.rs");
    rest.starts_with("src/") && rest.ends_with(".rs") && !is_test && !OWNERS.contains(&name)
}

fn uses(file: &File) -> Vec<Fault> {
    let end = file.text.find("\n#[cfg(test)]\nmod ").unwrap_or(file.text.len());
    let work = file.text.get(..end).unwrap_or(&file.text);
    let lines = work.lines().enumerate().filter(|(_, l)| !l.trim_start().starts_with("//"));
    lines
        .filter_map(|(at, line)| {
            let word = WORDS.iter().find(|word| line.contains(**word))?;
            let what =
                format!("{word}: threads, clocks and sockets belong to {}", OWNERS.join(", "));
            Some(Fault::new(&file.path, at + 1, what))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(path: &str, text: &str) -> File {
        File { path: path.to_owned(), text: text.to_owned() }
    }

    #[test]
    fn a_thread_in_an_engine_is_found_and_one_in_its_tests_is_not() {
        let text = "//! A.\n// std::thread is named.\nfn f() { std::thread::yield_now() }\n\
                    #[cfg(test)]\nmod tests { use std::thread; }\n";
        let found = check(&[
            file("crates/net/src/a.rs", text),
            file("crates/runtime/src/a.rs", text),
            file("crates/net/tests/a.rs", text),
        ]);
        let said: Vec<String> = found.iter().map(ToString::to_string).collect();
        assert_eq!(said.len(), 1, "{said:?}");
        assert!(said[0].starts_with("crates/net/src/a.rs:3: std::thread"), "{said:?}");
    }

    #[test]
    fn an_exception_that_nothing_needs_is_found() {
        let found = check(&[file("crates/seal/src/verify/read.rs", "//! A.\n")]);
        assert_eq!(found.len(), 1);
    }
}
