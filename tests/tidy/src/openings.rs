//! Who opens files and sockets: libraries get them from their caller, open or as a `FileOpener`, so that a process with
//! more rights can open them for one with fewer.
//!
//! `runtime` opens them, and `cli` decides that it does. The other places stand here with their reasons; one that is not
//! needed any more is a fault, too.

use crate::Fault;
use crate::tree::File;

/// Crates that open files and sockets.
const OWNERS: &[&str] = &["cli", "runtime"];

/// Opening a file, in a file that uses those of the standard library.
const FILE_WORDS: &[&str] =
    &["File::open(", "File::create(", "File::create_new(", "File::options("];

/// Opening a file or a socket.
const WORDS: &[&str] = &[
    "OpenOptions::new(",
    "TcpListener::bind(",
    "TcpStream::connect(",
    "TcpStream::connect_timeout(",
    "UdpSocket::bind(",
    "UnixListener::bind(",
    "UnixStream::connect(",
    "UnixDatagram::bind(",
    "UnixDatagram::unbound(",
    "Connection::open",
    "openat(CWD",
    "fs::open(",
    "direct_opener(",
];

/// Files that may all the same: path and reason.
const EXCEPTIONS: &[(&str, &str)] = &[
    (
        "crates/intake/src/live_counts.rs",
        "the counts of a running server are asked for by a command, which is no source of a run",
    ),
    ("crates/intake/src/push/http.rs", "a witness is connected to for each checkpoint"),
    ("crates/intake/src/send/mod.rs", "the load generator is a sender"),
    (
        "crates/intake/src/sockets.rs",
        "listeners are bound here, apart from the server, which takes them open",
    ),
    (
        "crates/intake/src/streams.rs",
        "/dev/null is held open, so that there is a descriptor to refuse a connection with",
    ),
    ("crates/outputs/src/profile_store.rs", "SQLite opens the database and its journal by name"),
    ("crates/probe/src/host.rs", "files of /proc are read when programs are seen"),
    ("crates/probe/src/namespace.rs", "the network namespace to enter is named by its file"),
    ("crates/reports/src/findings.rs", "findings that an earlier run left are read"),
    ("crates/reports/src/run_tables.rs", "tables that an earlier run left are read"),
    (
        "crates/sensor/src/commands/mod.rs",
        "the command socket takes the place of one that a run before has left",
    ),
    ("crates/sensor/src/flows/checkpoint.rs", "the folder of a saved state is synced"),
    ("crates/sensor/src/guard/host.rs", "counters of the kernel in /proc"),
    ("crates/sensor/src/guard/status.rs", "the metrics of a guard that runs are asked for"),
    (
        "crates/sensor/src/guard/undo_folder.rs",
        "changes of the host are made, recorded and undone by the names of what is changed",
    ),
    (
        "crates/sensor/src/packets/interface_health.rs",
        "interfaces are asked about through any socket",
    ),
];

/// Places that open a file or a socket and may not, and exceptions that nothing needs.
#[must_use]
pub fn check(files: &[File]) -> Vec<Fault> {
    let mut faults = Vec::new();
    for file in files.iter().filter(|f| is_library(&f.path)) {
        let found = uses(file);
        let is_listed = EXCEPTIONS.iter().any(|(path, _)| *path == file.path);
        if !is_listed {
            faults.extend(found);
        } else if found.is_empty() {
            let what = "opens nothing any more: take it out of the exceptions";
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
    let files = if work.contains("std::fs") { FILE_WORDS } else { &[] };
    let lines = work.lines().enumerate().filter(|(_, l)| !l.trim_start().starts_with("//"));
    lines
        .filter_map(|(at, line)| {
            let word = files.iter().chain(WORDS).find(|word| has_name(line, word))?;
            let what = format!(
                "{word}: the caller hands in what is open, or a FileOpener: {} open files and sockets",
                OWNERS.join(", ")
            );
            Some(Fault::new(&file.path, at + 1, what))
        })
        .collect()
}

/// Whether a line has a word that is not the end of a longer name.
fn has_name(line: &str, word: &str) -> bool {
    line.match_indices(word).any(|(at, _)| {
        let before = line.get(..at).and_then(|text| text.chars().next_back());
        !before.is_some_and(|c| c.is_alphanumeric() || c == '_')
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(path: &str, text: &str) -> File {
        File { path: path.to_owned(), text: text.to_owned() }
    }

    #[test]
    fn a_library_that_opens_a_file_is_found_and_its_tests_and_other_types_are_not() {
        let text = "//! A.\nuse std::fs::File;\n// File::open(path) is named.\n\
                    fn f() { OutputFile::open(a) }\nfn g() { File::open(a) }\n\
                    fn h() { std::net::UdpSocket::bind(a) }\n\
                    #[cfg(test)]\nmod tests { use std::fs; fn f() { fs::File::open(a) } }\n";
        let own = "//! A.\nuse crate::File;\nfn f() { File::open(1) }\n";
        let found = check(&[
            file("crates/seal/src/a.rs", text),
            file("crates/runtime/src/a.rs", text),
            file("crates/seal/tests/a.rs", text),
            file("crates/proto/src/a.rs", own),
        ]);
        let lines: Vec<String> = found.iter().map(ToString::to_string).collect();
        assert_eq!(lines.len(), 2, "{lines:?}");
        assert!(lines[0].starts_with("crates/seal/src/a.rs:5: File::open("), "{lines:?}");
        assert!(lines[1].starts_with("crates/seal/src/a.rs:6: UdpSocket::bind("), "{lines:?}");
    }

    #[test]
    fn an_exception_that_nothing_needs_is_found() {
        let found = check(&[file("crates/reports/src/findings.rs", "//! A.\n")]);
        assert_eq!(found.len(), 1);
    }
}
