//! Rules that are loaded again while packets come (SIGUSR2): what hosts and flows were marked with stays, what can't be
//! loaded changes nothing, and one load follows the other. By one worker and by several.
#![allow(clippy::disallowed_methods, reason = "signals come by the clock")]

mod program;

use program::packets::{CLIENT, SERVER, capture_at, ipv4, udp};
use program::{Ran, command, ran};
use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

fn shell(line: &str) {
    assert!(Command::new("/bin/sh").args(["-c", line]).status().unwrap().success(), "{line}");
}

/// A datagram of a client with this text.
fn says(port: u16, server_port: u16, text: &[u8]) -> Vec<u8> {
    ipv4(17, 1, 0, [CLIENT, SERVER], &udp([port, server_port], text))
}

/// A question for the address of a name.
fn asks(name: &[&str]) -> Vec<u8> {
    let mut text = vec![0, 7, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0];
    for label in name {
        text.push(label.len() as u8);
        text.extend_from_slice(label.as_bytes());
    }
    text.extend_from_slice(&[0, 0, 1, 0, 1]);
    says(5353, 53, &text)
}

/// A run that reads from a pipe.
struct Run {
    child: Child,
    dir: tempfile::TempDir,
    pipe: File,
    sent: u64,
}

const BY: [&[&str]; 3] = [
    &[],
    &[
        "--runmode=autofp",
        "--set",
        "threading.set-cpu-affinity=yes",
        "--set",
        "threading.cpu-affinity.worker-cpu-set.threads=2",
    ],
    &[
        "--runmode=autofp",
        "--set",
        "threading.set-cpu-affinity=yes",
        "--set",
        "threading.cpu-affinity.worker-cpu-set.threads=4",
    ],
];

impl Run {
    /// Starts it with these rules, in a file or in a pipe.
    fn start(rules: &str, is_pipe: bool, more: &[&str]) -> Run {
        let dir = tempfile::tempdir().unwrap();
        let place = |name: &str| dir.path().join(name);
        std::fs::create_dir(place("out")).unwrap();
        shell(&format!("mkfifo '{}'", place("pipe").display()));
        let file = place("rules");
        if is_pipe {
            shell(&format!("mkfifo '{}'", file.display()));
        } else {
            std::fs::write(&file, rules).unwrap();
        }
        let [pipe, out, named] =
            [place("pipe"), place("out"), file.clone()].map(|p| p.display().to_string());
        let all =
            [&["suricata", "-r", &pipe, "-l", &out, "-S", &named, "-k", "none"], more].concat();
        let said = File::create(place("said")).unwrap();
        let mut command = command(&all);
        let child = command.stdout(said.try_clone().unwrap()).stderr(said);
        let child = child.stdin(Stdio::null()).spawn().unwrap();
        if is_pipe {
            std::fs::write(&file, rules).unwrap();
        }
        let pipe = std::fs::OpenOptions::new().write(true).open(place("pipe")).unwrap();
        Run { child, dir, pipe, sent: 0 }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn send(&mut self, packets: &[Vec<u8>]) {
        let first = self.sent;
        self.sent += packets.len() as u64;
        let times = (first..).map(|n| 1_700_000_000_000 + n);
        let name =
            capture_at(101, self.dir.path(), "part.pcap", times.zip(packets.iter().cloned()));
        let bytes = std::fs::read(name).unwrap();
        self.pipe.write_all(if first == 0 { &bytes } else { &bytes[24..] }).unwrap();
    }

    fn text(&self, name: &str) -> String {
        std::fs::read_to_string(self.path(name)).unwrap_or_default()
    }

    fn wait_for(&mut self, name: &str, is_enough: impl Fn(&str) -> bool) {
        let began = Instant::now();
        while !is_enough(&self.text(name)) {
            if let Some(status) = self.child.try_wait().unwrap() {
                panic!("ended by itself: {status}: {}", self.text("said"));
            }
            let said = self.text("said");
            assert!(began.elapsed() < Duration::from_secs(30), "{said}{}", self.text(name));
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    fn wait_for_alert(&mut self, sid: u32) {
        self.wait_for("out/fast.log", |text| text.contains(&format!("[1:{sid}:")));
    }

    fn alerts(&self, sid: u32) -> usize {
        self.text("out/fast.log").matches(&format!("[1:{sid}:")).count()
    }

    fn signal(&self) {
        shell(&format!("kill -USR2 {}", self.child.id()));
    }

    /// Loads these rules, and waits until the log has this line the n-th time.
    fn load(&mut self, rules: &str, said: &str, times: usize) {
        std::fs::write(self.path("rules"), rules).unwrap();
        self.signal();
        self.wait_for("said", |text| text.matches(said).count() >= times);
    }

    fn end(mut self) -> (Ran, tempfile::TempDir) {
        shell(&format!("kill -TERM {}", self.child.id()));
        let status = self.child.wait().unwrap();
        let mut done = ran(std::process::Output { status, stdout: Vec::new(), stderr: Vec::new() });
        done.out = self.text("said");
        (done, self.dir)
    }
}

const COMPLETE: &str = "rule reload complete";
const FAILED: &str = "rule reload failed";

const BEFORE: &str = r#"
alert udp any any -> any any (msg:"old"; content:"old"; sid:1;)
alert udp any any -> any any (msg:"marks a flow"; content:"mark"; flowbits:set,marked; noalert; sid:2;)
alert udp any any -> any any (msg:"marks hosts"; content:"mark"; xbits:set,seen,track ip_src,expire 3600; noalert; sid:3;)
alert udp any any -> any any (msg:"marks a host"; content:"mark"; hostbits:set,host,src; noalert; sid:5;)
alert udp any any -> any any (msg:"counts"; content:"count"; threshold:type limit,track by_src,count 2,seconds 3600; sid:4;)
alert udp any any -> any any (msg:"counts flows"; content:"mark"; flowint:times,+,1; noalert; sid:6;)
alert dns any any -> any any (msg:"notes"; dns.query; dataset:set,names,type string; noalert; sid:7;)
alert udp any any -> any any (msg:"counts again"; content:"count"; threshold:type limit,track by_src,count 1,seconds 3600; sid:18; rev:1;)
"#;

/// Other bits first, so that numbers given in order would be other ones.
const AFTER: &str = r#"
alert udp any any -> any any (msg:"others"; content:"never"; flowbits:set,aaa; flowint:bbb,+,1; noalert; sid:20;)
alert udp any any -> any any (msg:"others"; content:"never"; xbits:set,ccc,track ip_src; hostbits:set,ddd,src; noalert; sid:21;)
alert udp any any -> any any (msg:"new"; content:"new"; sid:11;)
alert udp any any -> any any (msg:"marked"; content:"ask"; flowbits:isset,marked; sid:12;)
alert udp any any -> any any (msg:"aaa"; content:"ask"; flowbits:isset,aaa; sid:22;)
alert udp any any -> any any (msg:"seen"; content:"ask"; xbits:isset,seen,track ip_src; sid:13;)
alert udp any any -> any any (msg:"host"; content:"ask"; hostbits:isset,host,src; sid:15;)
alert udp any any -> any any (msg:"times"; content:"ask"; flowint:times,==,1; sid:16;)
alert udp any any -> any any (msg:"counts"; content:"count"; threshold:type limit,track by_src,count 2,seconds 3600; sid:4;)
alert udp any any -> any any (msg:"counts again"; content:"count"; threshold:type limit,track by_src,count 1,seconds 3600; sid:18; rev:2;)
alert dns any any -> any any (msg:"known"; dns.query; dataset:isset,names,type string; sid:17;)
"#;

#[test]
fn what_was_marked_before_a_reload_is_known_after_it() {
    for by in BY {
        let mut run = Run::start(BEFORE, false, by);
        run.send(&[
            says(1000, 9, b"mark"),
            asks(&["one", "example"]),
            says(2000, 9, b"count"),
            says(1000, 9, b"old"),
        ]);
        run.wait_for_alert(1);
        run.load(AFTER, COMPLETE, 1);
        run.send(&[
            says(1000, 9, b"old"),
            says(1000, 9, b"ask"),
            says(2000, 9, b"count"),
            says(2000, 9, b"count"),
            asks(&["one", "example"]),
            asks(&["two", "example"]),
            says(3000, 9, b"new"),
        ]);
        run.wait_for_alert(11);
        for (sid, times) in
            [(1, 1), (12, 1), (22, 0), (13, 1), (15, 1), (16, 1), (4, 2), (18, 2), (17, 1), (11, 1)]
        {
            assert_eq!(run.alerts(sid), times, "{by:?}: {sid}: {}", run.text("out/fast.log"));
        }
        let (done, dir) = run.end();
        assert_eq!(done.code, 0, "{}", done.out);
        let stats = std::fs::read_to_string(dir.path().join("out/eve.json")).unwrap();
        let last = stats.lines().last().unwrap();
        assert!(last.contains("\"rules_loaded\":11,\"rules_failed\":0"), "{last}");
        assert!(last.contains("\"last_reload\":\"20"), "{last}");
    }
}

/// A flow that is under way when rules are loaded is inspected by the new ones: also its transactions.
#[test]
fn flows_under_way_continue_with_the_new_rules() {
    for by in BY {
        let before = "alert udp any any -> any any (msg:\"a\"; content:\"first\"; sid:9;)";
        let mut run = Run::start(before, false, by);
        run.send(&[says(1, 2, b"first")]);
        run.wait_for_alert(9);
        run.load(
            "alert udp any any -> any any (msg:\"x\"; content:\"second\"; sid:1;)",
            COMPLETE,
            1,
        );
        run.send(&[says(1, 2, b"first, second")]);
        run.wait_for_alert(1);
        assert_eq!(run.alerts(9), 1);
        assert_eq!(run.end().0.code, 0);
    }
}

#[test]
fn rules_that_cannot_be_loaded_change_nothing() {
    for by in BY {
        let mut run = Run::start(BEFORE, false, by);
        run.send(&[says(1, 9, b"old")]);
        run.wait_for_alert(1);
        let rules = run.path("rules");
        std::fs::remove_file(&rules).unwrap();
        std::fs::create_dir(&rules).unwrap();
        run.signal();
        run.wait_for("said", |text| text.contains(FAILED));
        run.send(&[says(2, 9, b"old"), says(3, 9, b"old")]);
        run.wait_for("out/fast.log", |text| text.matches("[1:1:").count() == 3);
        std::fs::remove_dir(&rules).unwrap();
        run.load(AFTER, COMPLETE, 1);
        run.send(&[says(2, 9, b"new")]);
        run.wait_for_alert(11);
        let (done, _) = run.end();
        assert_eq!(done.code, 0, "{}", done.out);
    }
}

/// Packets are inspected by the rules before while others are being loaded, however long that takes, and requests that come
/// meanwhile are carried out together after it.
#[test]
fn requests_during_a_load_come_after_it() {
    for by in BY {
        let mut run = Run::start(BEFORE, true, by);
        run.send(&[says(1, 9, b"old")]);
        run.wait_for_alert(1);
        run.signal();
        run.wait_for("said", |text| text.contains("rule reload starting"));
        run.signal();
        run.wait_for("said", |text| text.contains("they are loaded again after that"));
        run.signal();
        run.wait_for("said", |text| text.matches("they are loaded again after that").count() == 2);
        run.send(&[says(2, 9, b"old")]);
        run.wait_for("out/fast.log", |text| text.matches("[1:1:").count() == 2);
        let rules = run.path("rules");
        give(&rules, BEFORE);
        run.wait_for("said", |text| text.contains(COMPLETE));
        give(&rules, AFTER);
        run.wait_for("said", |text| text.matches(COMPLETE).count() == 2);
        run.send(&[says(2, 9, b"new")]);
        run.wait_for_alert(11);
        let (done, _) = run.end();
        assert_eq!(done.code, 0, "{}", done.out);
        assert_eq!(done.out.matches("rule reload starting").count(), 2, "{}", done.out);
    }
}

/// Writes into the pipe that the rules come from, once for each reader.
fn give(pipe: &Path, rules: &str) {
    std::fs::write(pipe, rules).unwrap();
}
