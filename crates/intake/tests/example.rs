//! The example of a log server does what its page says: lines over TCP stand in a sealed log that its key opens.

use gabion_seal::reader::{Cursor, Found, Reader, Selection, Sink};
use gabion_seal::storage::Files;
use gabion_seal::{Kind, SecretKey};
use std::io::Write;
use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command};

/// The example, which is built together with the tests.
fn example() -> PathBuf {
    let test = std::env::current_exe().unwrap();
    test.parent().unwrap().parent().unwrap().join("examples/log_server")
}

/// What a log holds.
#[derive(Default)]
struct Messages(Vec<String>);

impl Sink for Messages {
    fn record(&mut self, found: &Found<'_>) -> bool {
        if found.record.kind == Kind::Message {
            self.0.push(String::from_utf8_lossy(found.record.bytes).into_owned());
        }
        true
    }

    fn unreadable(&mut self, what: &str) {
        panic!("{what}");
    }
}

fn connected(port: u16, server: &mut Child) -> TcpStream {
    loop {
        if let Ok(stream) = TcpStream::connect(("127.0.0.1", port)) {
            return stream;
        }
        assert!(server.try_wait().unwrap().is_none(), "the server ended");
        std::thread::yield_now();
    }
}

#[test]
fn lines_over_tcp_stand_in_a_sealed_log() {
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("log");
    let free = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = free.local_addr().unwrap().port();
    drop(free);
    let address = format!("127.0.0.1:{port}");
    let mut server =
        Command::new(example()).arg(&log).args([&address, "2"]).spawn().expect("the example");
    let mut stream = connected(port, &mut server);
    stream.write_all(b"<13>one\n<13>two\n9 <13>three").unwrap();
    drop(stream);
    assert!(server.wait().unwrap().success());
    let key = std::fs::read_to_string(log.with_extension("key")).unwrap();
    let keys = [SecretKey::parse_file(&key).unwrap()];
    let files = Files::open(&gabion_runtime::files::direct_opener(), &log).unwrap();
    let mut messages = Messages::default();
    let mut reader = Reader::open(&files, &keys).unwrap();
    reader.scan(Cursor::default(), &Selection::default(), &mut messages).unwrap();
    assert_eq!(messages.0, ["<13>one", "<13>two", "<13>three"]);
}
