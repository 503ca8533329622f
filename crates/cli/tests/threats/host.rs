//! A listener to attack, in a folder with its reader's key; what it wrote, by the program's own verbs.

use gabion_seal::SecretKey;
use serde_json::Value;
use std::collections::HashMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

pub(crate) const GABION: &str = env!("CARGO_BIN_EXE_gabion");

/// The first frame of a RELP client.
pub(crate) const OPEN: &[u8] =
    b"1 open 86 relp_version=0\nrelp_software=librelp,1.11.0,http://librelp.adiscon.com\ncommands=syslog\n";

pub(crate) struct Host {
    pub(crate) folder: PathBuf,
    _scratch: Option<tempfile::TempDir>,
    child: Option<Child>,
    places: HashMap<String, String>,
    saying: Option<std::thread::JoinHandle<String>>,
}

#[allow(dead_code, reason = "each test file uses its part")]
impl Host {
    pub(crate) fn start(options: &[&str]) -> Host {
        let scratch = tempfile::tempdir().expect("a folder");
        let mut host = Host::at(scratch.path(), "log", options);
        host._scratch = Some(scratch);
        host
    }

    /// In a folder that is there; `log` is where the log goes, seen from it.
    pub(crate) fn at(folder: &Path, log: &str, options: &[&str]) -> Host {
        if !folder.join("reader").exists() {
            let key = SecretKey::generate().expect("a key");
            let text = key.to_text().expect("an X25519 key");
            std::fs::write(folder.join("reader"), text.as_bytes()).expect("written");
            std::fs::write(folder.join("recipient"), key.recipient().to_text()).expect("written");
        }
        let mut child = Command::new(GABION)
            .args(["listen", "--log", log, "--state", "state", "--recipient", "recipient"])
            .args(options)
            .current_dir(folder)
            .stderr(Stdio::piped())
            .spawn()
            .expect("the listener");
        let mut stderr = BufReader::new(child.stderr.take().expect("piped"));
        let (mut all, mut places) = (String::new(), HashMap::new());
        while places.is_empty() {
            let mut line = String::new();
            assert!(stderr.read_line(&mut line).expect("text") > 0, "no listener: {all}");
            if let Some(list) = line.trim_end().strip_prefix("gabion: listening: ") {
                let pairs = list.split(", ").filter_map(|e| e.split_once(' '));
                places = pairs.map(|(k, p)| (k.to_owned(), p.to_owned())).collect();
            }
            all.push_str(&line);
        }
        let saying = std::thread::spawn(move || {
            let _ = stderr.read_to_string(&mut all);
            all
        });
        Host {
            folder: folder.to_owned(),
            _scratch: None,
            child: Some(child),
            places,
            saying: Some(saying),
        }
    }

    pub(crate) fn address(&self, kind: &str) -> SocketAddr {
        self.places[kind].parse().expect("an address")
    }

    pub(crate) fn tcp(&self, kind: &str) -> TcpStream {
        let stream = TcpStream::connect(self.address(kind)).expect("it listens");
        stream.set_read_timeout(Some(Duration::from_secs(60))).expect("an option");
        stream
    }

    /// A session of RELP, opened.
    pub(crate) fn relp(&self) -> Relp {
        let mut relp = Relp { stream: self.tcp("relp"), number: 1, heard: Vec::new() };
        relp.stream.write_all(OPEN).expect("sent");
        relp.answered(1);
        relp
    }

    /// Asks it to stop; returns its exit code and its messages.
    pub(crate) fn stop(&mut self) -> (Option<i32>, String) {
        let mut child = self.child.take().expect("running");
        Command::new("kill").args(["-TERM", &child.id().to_string()]).status().expect("kill");
        let status = child.wait().expect("ended");
        (status.code(), self.saying.take().expect("once").join().expect("read"))
    }

    /// Ends it as a power cut does.
    pub(crate) fn kill(&mut self) {
        let mut child = self.child.take().expect("running");
        child.kill().expect("killed");
        child.wait().expect("ended");
    }

    pub(crate) fn is_running(&mut self) -> bool {
        self.child.as_mut().is_some_and(|c| c.try_wait().expect("asked").is_none())
    }

    /// A verb on the log: exit code and output.
    pub(crate) fn log(&self, args: &[&str]) -> (Option<i32>, String) {
        let done = Command::new(GABION).arg("log").args(args).current_dir(&self.folder).output();
        let done = done.expect("run");
        (done.status.code(), String::from_utf8_lossy(&done.stdout).into_owned())
    }

    /// All records that are no statement of the log about itself in clear, or all.
    pub(crate) fn records(&self, log: &str, kind: &str) -> Vec<Value> {
        let (code, shown) = self.log(&["show", log, "--key", "reader", "--kind", kind]);
        assert_eq!(code, Some(0), "{shown}");
        shown.lines().map(|l| serde_json::from_str(l).expect("JSON")).collect()
    }

    /// Original bytes of all messages.
    pub(crate) fn messages(&self, log: &str) -> Vec<String> {
        let texts = self.records(log, "message").into_iter();
        texts
            .map(|r| {
                r.get("raw").or(r.get("msg")).and_then(Value::as_str).expect("text").to_owned()
            })
            .collect()
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        if let Some(child) = &mut self.child {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// A client that counts what was acknowledged.
pub(crate) struct Relp {
    stream: TcpStream,
    number: u64,
    heard: Vec<u8>,
}

impl Relp {
    /// Sends one message.
    pub(crate) fn send(&mut self, text: &str) -> u64 {
        self.number += 1;
        let frame = format!("{} syslog {} {text}\n", self.number, text.len());
        self.stream.write_all(frame.as_bytes()).expect("sent");
        self.number
    }

    /// Waits until a frame is acknowledged.
    pub(crate) fn answered(&mut self, number: u64) {
        assert!(self.is_answered(number, Duration::from_secs(60)), "{number} has no answer");
    }

    pub(crate) fn is_answered(&mut self, number: u64, within: Duration) -> bool {
        let wanted = format!("\n{number} rsp ");
        let mut piece = [0; 4096];
        self.stream.set_read_timeout(Some(within)).expect("an option");
        loop {
            let text = [b"\n", self.heard.as_slice()].concat();
            if memchr::memmem::find(&text, wanted.as_bytes()).is_some() {
                return true;
            }
            match self.stream.read(&mut piece) {
                Ok(n) if n > 0 => self.heard.extend_from_slice(&piece[..n]),
                _ => return false,
            }
        }
    }
}
