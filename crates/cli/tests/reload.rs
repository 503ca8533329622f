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

/// What is known of hosts (`gabion read --behavior`) stays over loads of rules: a scan of which each part alone would not be one is
/// found as without a load.
#[test]
fn profiles_of_hosts_stay_over_a_load() {
    let syn = |n: u16| {
        let segment = program::packets::tcp(1, 0, 2, [40_000 + n, 100 + n], &[]);
        ipv4(6, n, 0, [CLIENT, SERVER], &segment)
    };
    // Further packets end the flows of the scan by their time.
    let late = |n: u16| ipv4(17, n, 0, [[10, 0, 0, 9], SERVER], &udp([2000 + n, 9], b"late"));
    let described = |folder: &Path| -> Vec<String> {
        let text = std::fs::read_to_string(folder.join("alerts.json")).unwrap();
        let all = text.lines().map(|l| serde_json::from_str::<serde_json::Value>(l).unwrap());
        let mut all: Vec<String> = all.map(|v| v["Description"].to_string()).collect();
        all.sort();
        all
    };
    // Each part begins a quarter of an hour after the one before, in the same hour.
    let timed = |parts: &[std::ops::Range<u16>]| -> Vec<(u64, Vec<u8>)> {
        let part = |ports: &std::ops::Range<u16>| {
            let begin = 1_700_000_000_000 + u64::from(ports.start) * 200_000;
            let scan = ports.clone().map(|n| (begin + u64::from(n) * 1000, syn(n)));
            let rest = (0..5).map(|n| (begin + 400_000 + u64::from(n) * 1000, late(n)));
            scan.chain(rest).collect::<Vec<_>>()
        };
        parts.iter().flat_map(part).collect()
    };
    for workers in ["1", "2"] {
        let dir = tempfile::tempdir().unwrap();
        let place = |name: &str| dir.path().join(name).display().to_string();
        std::fs::write(place("rules"), BEFORE).unwrap();
        let run = |input: &str, out: &str| {
            let (rules, out) = (place("rules"), place(out));
            let args = ["read", input, "--behavior", "-q", "-S", &rules, "-l", &out, "-k", "none"];
            command(&[&args[..], &["--workers", workers]].concat())
        };
        let parts = [0..6, 6..14];
        let whole = capture_at(101, dir.path(), "whole.pcap", timed(&parts));
        let done = ran(run(&whole, "one").output().unwrap());
        assert_eq!(done.code, 0, "{}", done.err);
        let wanted = described(&dir.path().join("one"));
        let front = capture_at(101, dir.path(), "front.pcap", timed(&parts[..1]));
        let done = ran(run(&front, "front").output().unwrap());
        assert_eq!(done.code, 0, "{}", done.err);
        let is_scan = |line: &&String| line.contains("port scan");
        assert!(described(&dir.path().join("front")).iter().find(is_scan).is_none());
        assert!(wanted.iter().find(is_scan).is_some(), "{wanted:?}");

        shell(&format!("mkfifo '{}'", place("pipe")));
        let mut running = run(&place("pipe"), "two");
        let err = File::create(place("err")).unwrap();
        let mut child = running.stdout(Stdio::null()).stderr(err).spawn().unwrap();
        let mut pipe = std::fs::OpenOptions::new().write(true).open(place("pipe")).unwrap();
        pipe.write_all(&std::fs::read(&front).unwrap()).unwrap();
        // The first datagrams are in the records of flows once they were inspected.
        program::wire::wait_until("the first part is read", || {
            std::fs::read_to_string(place("two/eve.json")).is_ok_and(|t| t.contains("\"flow\""))
        });
        std::fs::write(place("rules"), AFTER).unwrap();
        shell(&format!("kill -USR2 {}", child.id()));
        // The new set is in use when its rule alerts.
        let mut n = 0;
        program::wire::wait_until("the new rules alert", || {
            n += 1;
            let new = says(5000 + n, 9, b"new");
            let at = 1_700_000_410_000 + u64::from(n);
            let name = capture_at(101, dir.path(), "new.pcap", [(at, new)]);
            pipe.write_all(&std::fs::read(name).unwrap()[24..]).unwrap();
            std::fs::read_to_string(place("two/fast.log")).is_ok_and(|t| t.contains("[1:11:"))
        });
        let rest = capture_at(101, dir.path(), "rest.pcap", timed(&parts[1..]));
        pipe.write_all(&std::fs::read(&rest).unwrap()[24..]).unwrap();
        drop(pipe);
        let code = child.wait().unwrap().code();
        assert_eq!(code, Some(0), "{}", std::fs::read_to_string(place("err")).unwrap());
        let found = described(&dir.path().join("two"));
        let scans = |all: &[String]| all.iter().filter(is_scan).cloned().collect::<Vec<_>>();
        assert_eq!(scans(&found), scans(&wanted), "{workers} workers");
    }
}

/// Of files without a rule Suricata 8.0.7 makes a run without rules; here that is taken for a fault of who wrote them.
#[test]
fn a_set_without_rules_changes_nothing() {
    for by in BY {
        let mut run = Run::start(BEFORE, false, by);
        run.send(&[says(1, 9, b"old")]);
        run.wait_for_alert(1);
        for (n, nothing) in ["", "# none\n", "alert nothing\n"].into_iter().enumerate() {
            run.load(nothing, FAILED, n + 1);
            run.send(&[says(2 + n as u16, 9, b"old")]);
            run.wait_for("out/fast.log", |text| text.matches("[1:1:").count() == n + 2);
        }
        let said = run.text("said");
        assert_eq!(
            said.matches("no rule was loaded: the previous rules stay in use").count(),
            3,
            "{said}"
        );
        let (done, _) = run.end();
        assert_eq!(done.code, 0, "{}", done.out);
    }
}

/// A file that is being written is read once its writer has stopped; one that is written without an end changes nothing.
#[test]
fn a_file_that_is_being_written_is_awaited() {
    let mut run = Run::start(BEFORE, false, BY[1]);
    run.send(&[says(1, 9, b"old")]);
    run.wait_for_alert(1);
    let pause = || std::thread::sleep(Duration::from_millis(40));
    let rule =
        |sid| format!("alert udp any any -> any any (msg:\"x\"; content:\"n{sid}\"; sid:{sid};)\n");
    let text: String = (30..40).map(rule).collect();
    let mut file = File::create(run.path("rules")).unwrap();
    for (n, part) in text.as_bytes().chunks(text.len() / 12).enumerate() {
        file.write_all(part).unwrap();
        if n == 2 {
            // Two rules and a half are there.
            run.signal();
        }
        pause();
    }
    run.wait_for("said", |text| text.contains(COMPLETE));
    run.send(&[says(1, 9, b"n30 n39")]);
    run.wait_for_alert(39);
    assert_eq!(run.alerts(30), 1);
    let stays = std::sync::atomic::AtomicBool::new(true);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while stays.load(std::sync::atomic::Ordering::Relaxed) {
                file.write_all(rule(50).as_bytes()).unwrap();
                pause();
            }
        });
        run.signal();
        run.wait_for("said", |text| text.contains(FAILED));
        stays.store(false, std::sync::atomic::Ordering::Relaxed);
    });
    assert!(run.text("said").contains("rules is being written: the previous rules stay in use"));
    run.send(&[says(1, 9, b"n31 n50")]);
    run.wait_for_alert(31);
    assert_eq!(run.alerts(50), 0);
    // A time to come, as of a file of a host whose clock is ahead, stops nothing.
    let text = rule(60);
    std::fs::write(run.path("rules"), &text).unwrap();
    let ahead = std::time::SystemTime::now() + Duration::from_secs(3600);
    File::options().write(true).open(run.path("rules")).unwrap().set_modified(ahead).unwrap();
    run.signal();
    run.wait_for("said", |text| text.matches(COMPLETE).count() == 2);
    let (done, dir) = run.end();
    assert_eq!(done.code, 0, "{}", done.out);
    let stats = std::fs::read_to_string(dir.path().join("out/eve.json")).unwrap();
    let last = stats.lines().last().unwrap();
    assert!(last.contains("\"rules_loaded\":1,\"rules_failed\":0"), "{last}");
}

/// Messages of which a part came before a load are inspected by the new rules from their beginning. Bodies that nobody wanted
/// before are inspected from the load on, and wholly on the next message of the connection.
#[test]
fn messages_under_way_are_inspected_by_the_new_rules() {
    let before =
        "alert http any any -> any any (msg:\"a\"; http.uri; content:\"/first\"; sid:9;)\n";
    let after = r#"
alert http any any -> any any (msg:"of a head that came before"; http.uri; content:"/second"; sid:1;)
alert http any any -> any any (msg:"of a body that came before"; http.request_body; content:"begun"; sid:2;)
alert http any any -> any any (msg:"of its rest"; http.request_body; content:"ended"; sid:3;)
alert http any any -> any any (msg:"of the next"; http.request_body; content:"whole"; sid:4;)
alert http any any -> any any (msg:"of one that was complete"; http.uri; content:"/first"; sid:5;)
alert tcp any any -> any 80 (msg:"of a stream"; flow:established,to_server; content:"/last"; sid:6;)
"#;
    let said = [
        &b"POST /first HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\n\r\nnone"[..],
        b"POST /second HTTP/1.1\r\nHost: a\r\nContent-Length: 30\r\n\r\nbegun..........",
        b"..........ended",
        b"POST /third HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nwhole",
        b"GET /last HTTP/1.1\r\nHost: a\r\n\r\n",
        b"GET /end HTTP/1.1\r\nHost: a\r\n\r\n",
    ];
    let packets = program::packets::connection(4000, &said.map(<[u8]>::to_vec));
    let (first, rest) = packets.split_at(3 + 2 * 2);
    for by in BY {
        // Records of files look into bodies, too.
        for looks in ["yes", "no"] {
            let set = format!("outputs.1.eve-log.enabled={looks}");
            let mut run = Run::start(before, false, &[by, &["--set", &set]].concat());
            run.send(first);
            run.wait_for_alert(9);
            run.load(after, COMPLETE, 1);
            run.send(rest);
            run.wait_for_alert(6);
            let found: Vec<usize> = (1..=6).map(|sid| run.alerts(sid)).collect();
            let has_begin = usize::from(looks == "yes");
            assert_eq!(found, [1, has_begin, 1, 1, 0, 1], "{by:?} {looks}");
            let (done, _) = run.end();
            assert_eq!(done.code, 0, "{}", done.out);
        }
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
