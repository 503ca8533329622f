//! The toy dialect from end to end: an option of `gabion listen`, its messages sealed under its name and shown
//! as syslog, a broken one counted.

mod intake;

use intake::{GABION, Server, free_place, last_count, messages, reaches};
use std::io::{Read, Write};
use std::process::Command;

#[test]
fn a_dialect_works_from_end_to_end() {
    let metrics = free_place();
    let server = Server::start(&["--netstring", "127.0.0.1:0", "--metrics", &metrics]);
    let mut good = server.tcp("netstring");
    good.write_all(b"26:<13>Oct 11 22:14:15 h a: 1,9:<13>a: tw,").expect("sent");
    drop(good);
    let mut bad = server.tcp("netstring");
    bad.write_all(b"2020 was a year").expect("sent");
    let closed = bad.read_to_end(&mut Vec::new());
    assert!(closed.map_or(true, |n| n == 0), "closed without an answer");
    let refused = "gabion_listen_closed_total{reason=\"netstring_violation\"}";
    assert!(reaches(&metrics, refused, 1), "{refused}");
    let (said, folder) = server.stop();
    let mut got: Vec<String> =
        messages(folder.path()).iter().map(|m| String::from_utf8_lossy(m).into_owned()).collect();
    got.sort();
    assert_eq!(got, ["<13>Oct 11 22:14:15 h a: 1", "<13>a: tw"]);
    assert_eq!(last_count(&said, "seal", "passed"), 2, "{said}");

    let (log, reader) = (folder.path().join("log"), folder.path().join("reader"));
    let shown = Command::new(GABION)
        .args(["log", "show", "--json", "--key"])
        .arg(&reader)
        .arg(&log)
        .output()
        .expect("shown");
    let text = String::from_utf8_lossy(&shown.stdout).into_owned();
    assert_eq!(text.matches("\"netstring\"").count(), 2, "{text} {shown:?}");
    let help = Command::new(GABION).args(["listen", "--help"]).output().expect("help");
    assert!(String::from_utf8_lossy(&help.stdout).contains("--netstring"));
}
