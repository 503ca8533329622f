//! Lines of EVE for other programs: Debian's Redis and rsyslog get the same lines as a file of the same run, and a
//! receiver that hangs, comes late or is not there stops nothing and is counted.
//!
//! The tests of Redis and rsyslog are skipped by name where these are not installed.
#![allow(clippy::disallowed_methods, reason = "waits for other processes, by the clock")]

mod program;

use program::wire::{Wire, wait_until};
use program::{Ran, command, demo, gabion, packets, ran, repository};
use serde_json::Value;
use std::io::Read;
use std::net::TcpListener;
use std::os::unix::net::{UnixDatagram, UnixListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// What both outputs write.
const TYPES: &str = "types: [alert, anomaly, dns, http, tls, files, smtp, ssh, flow]";

/// A configuration with a file, and another output with these keys.
fn configuration(folder: &Path, keys: &str) -> String {
    let path = folder.join("suricata.yaml");
    let text = format!(
        "%YAML 1.1\n---\nvars:\n  address-groups:\n    HOME_NET: any\n    EXTERNAL_NET: any\noutputs:\n  \
         - eve-log: {{ enabled: yes, filename: eve.json, {TYPES} }}\n  \
         - eve-log: {{ enabled: yes, {keys}, {TYPES} }}\n"
    );
    std::fs::write(&path, text).unwrap();
    path.display().to_string()
}

/// The arguments of a run over the demonstration's capture, with such a configuration.
fn arguments(folder: &Path, keys: &str) -> Vec<String> {
    let rules = repository("demo/gabion.rules").display().to_string();
    let (yaml, out) = (configuration(folder, keys), folder.join("out").display().to_string());
    let words = ["read", "-q", "--json", "-k", "none", "-c", &yaml, "-S", &rules, "-l", &out];
    words.map(str::to_owned).into_iter().chain([demo()]).collect()
}

fn run(folder: &Path, keys: &str) -> Ran {
    let all = arguments(folder, keys);
    gabion(&all.iter().map(String::as_str).collect::<Vec<_>>())
}

fn file_lines(folder: &Path) -> Vec<String> {
    let text = std::fs::read_to_string(folder.join("out/eve.json")).unwrap();
    text.lines().map(str::to_owned).collect()
}

/// The row of the ledger whose stage begins so.
fn row(ran: &Ran, stage: &str) -> Value {
    let report: Value =
        serde_json::from_str(&ran.out).unwrap_or_else(|e| panic!("{e}: {}", ran.err));
    let all = report["ledger"].as_array().unwrap();
    let found = all.iter().find(|e| e["stage"].as_str().unwrap().starts_with(stage));
    found.unwrap_or_else(|| panic!("{stage}: {all:?}")).clone()
}

/// Whether a program is installed; a line names the test that is skipped without it.
fn has(program: &str, test: &str) -> bool {
    let is_there = Command::new(program).arg("-v").output().is_ok();
    if !is_there {
        eprintln!("skipped: {test}: needs {program}");
    }
    is_there
}

/// A program that ends with the value.
struct Server(Child);

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Redis behind a socket and a port.
struct Redis {
    server: Server,
    port: u16,
    socket: PathBuf,
}

impl Redis {
    fn start(folder: &Path) -> Redis {
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let socket = folder.join("redis.sock");
        let mut started = Command::new("redis-server");
        started.args(["--save", "", "--bind", "127.0.0.1", "--dir"]).arg(folder);
        started.args(["--port", &port.to_string(), "--unixsocket"]).arg(&socket);
        let server = Server(started.stdout(Stdio::null()).spawn().unwrap());
        let redis = Redis { server, port, socket };
        wait_until("Redis answers", || redis.ask(&["ping"]) == ["PONG"]);
        redis
    }

    fn command(&self, words: &[&str]) -> Command {
        let mut asked = Command::new("redis-cli");
        asked.args(["--raw", "-s"]).arg(&self.socket).args(words).stderr(Stdio::null());
        asked
    }

    fn ask(&self, words: &[&str]) -> Vec<String> {
        let done = self.command(words).output().unwrap();
        String::from_utf8_lossy(&done.stdout).lines().map(str::to_owned).collect()
    }
}

#[test]
fn redis_has_the_lines_of_a_file() {
    let test = "redis_has_the_lines_of_a_file";
    if !has("redis-server", test) || !has("redis-cli", test) {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let redis = Redis::start(dir.path());
    let (port, socket) = (redis.port, redis.socket.display());
    let by_port = format!("server: 127.0.0.1, port: {port}");
    let by_socket = format!("server: {socket}");
    for (n, (mode, server, batch)) in [
        ("list", &by_port, "no"),
        ("lpush", &by_socket, "no"),
        ("rpush", &by_port, "yes"),
        ("stream", &by_socket, "yes"),
        ("xadd", &by_port, "no"),
    ]
    .into_iter()
    .enumerate()
    {
        let folder = dir.path().join(n.to_string());
        std::fs::create_dir(&folder).unwrap();
        let key = format!("eve{n}");
        let keys = format!(
            "filetype: redis, redis: {{ {server}, mode: {mode}, key: {key}, pipelining: {{ enabled: {batch}, batch-size: 7 }} }}"
        );
        let ran = run(&folder, &keys);
        assert_eq!(ran.code, 0, "{mode}: {}", ran.err);
        let wanted = file_lines(&folder);
        let found: Vec<String> = match mode {
            "list" | "lpush" => redis.ask(&["lrange", &key, "0", "-1"]).into_iter().rev().collect(),
            "rpush" => redis.ask(&["lrange", &key, "0", "-1"]),
            // Of each entry its number, the name of its field and the line.
            _ => redis.ask(&["xrange", &key, "-", "+"]).chunks(3).map(|e| e[2].clone()).collect(),
        };
        assert!(wanted.len() > 100, "{}", wanted.len());
        assert!(found == wanted, "{mode}: {} of {}", found.len(), wanted.len());
        let row = row(&ran, "redis ");
        assert_eq!(row["passed"]["items"], wanted.len(), "{row}");
    }

    // A channel has the lines for its listeners.
    let folder = dir.path().join("channel");
    std::fs::create_dir(&folder).unwrap();
    let heard = folder.join("heard");
    let to = std::fs::File::create(&heard).unwrap();
    let listening = Server(redis.command(&["subscribe", "eves"]).stdout(to).spawn().unwrap());
    wait_until("somebody listens", || redis.ask(&["pubsub", "numsub", "eves"]) == ["eves", "1"]);
    let keys = format!("filetype: redis, redis: {{ {by_port}, mode: channel, key: eves }}");
    let ran = run(&folder, &keys);
    assert_eq!(ran.code, 0, "{}", ran.err);
    let wanted = file_lines(&folder);
    let text = || std::fs::read_to_string(&heard).unwrap();
    let last = wanted.last().unwrap();
    wait_until("the last line is heard", || text().contains(last));
    let all = text();
    let found: Vec<&str> = all.lines().filter(|line| line.starts_with('{')).collect();
    assert!(found == wanted, "{} of {}", found.len(), wanted.len());
    drop(listening);
}

/// Redis refuses what it has no memory for: those lines are counted as failed, the others are there, and the run continues.
#[test]
fn what_redis_refuses_or_never_takes_is_counted() {
    let test = "what_redis_refuses_or_never_takes_is_counted";
    if !has("redis-server", test) || !has("redis-cli", test) {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let mut redis = Redis::start(dir.path());
    let (port, key) = (redis.port, "eve");
    // A key of another kind: every line is refused.
    redis.ask(&["set", key, "text"]);
    let keys = format!("filetype: redis, redis: {{ port: {port}, key: {key} }}");
    let ran = run(dir.path(), &keys);
    let wanted = file_lines(dir.path()).len();
    let of = row(&ran, "redis ");
    assert_eq!(
        (&of["shed"]["output_failed"]["items"], &of["balanced"]),
        (&wanted.into(), &true.into())
    );
    redis.server.0.kill().unwrap();
    redis.server.0.wait().unwrap();
    std::fs::remove_dir_all(dir.path().join("out")).unwrap();
    let ran = run(dir.path(), &keys);
    assert_eq!(ran.code, 4, "{}", ran.err);
    assert_eq!(file_lines(dir.path()).len(), wanted, "the file has all");
    let of = row(&ran, "redis ");
    assert_eq!(
        (&of["shed"]["output_failed"]["items"], &of["balanced"]),
        (&wanted.into(), &true.into())
    );
    assert!(ran.err.contains(&format!("redis 127.0.0.1:{port}")), "{}", ran.err);
}

/// In a mount namespace with a `/dev` of its own rsyslog listens at `/dev/log`, and the program writes there.
#[test]
fn rsyslog_has_the_lines_of_a_file() {
    let test = "rsyslog_has_the_lines_of_a_file";
    if !rustix::process::geteuid().is_root() {
        eprintln!("skipped: {test}: needs root");
        return;
    }
    if !has("rsyslogd", test) || !has("unshare", test) {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let place = |name: &str| dir.path().join(name).display().to_string();
    let log = format!(
        "global(workDirectory=\"{}\" maxMessageSize=\"64k\" parser.escapeControlCharactersOnReceive=\"off\")\n\
         module(load=\"imuxsock\" SysSock.RateLimit.Interval=\"0\")\n\
         template(name=\"all\" type=\"string\" string=\"%syslogfacility-text%.%syslogseverity-text% %programname%[%procid%]%msg%\\n\")\n\
         action(type=\"omfile\" file=\"{}\" template=\"all\")\n",
        place(""),
        place("messages")
    );
    std::fs::write(place("rsyslog.conf"), log).unwrap();
    std::fs::create_dir(place("dev")).unwrap();
    let keys = "filetype: syslog, facility: local5, level: Notice, identity: eve";
    let arguments = arguments(dir.path(), keys);
    let own = command(&arguments.iter().map(String::as_str).collect::<Vec<_>>());
    // The test's own command is `$@`.
    let script = format!(
        "set -e; dev={dev}; mount -t tmpfs none $dev; \
         for n in null zero full random urandom; do touch $dev/$n; mount --bind /dev/$n $dev/$n; done; \
         mount --move $dev /dev; \
         rsyslogd -n -f {conf} -i {pid} & \
         for n in $(seq 200); do [ -S /dev/log ] && break; sleep 0.05; done; \
         code=0; \"$@\" || code=$?; sleep 0.5; kill -TERM $(cat {pid}); wait; exit $code",
        dev = place("dev"),
        conf = place("rsyslog.conf"),
        pid = place("pid"),
    );
    let mut inside = Command::new("unshare");
    inside.args(["--mount", "--propagation", "private", "/bin/sh", "-c", &script, "sh"]);
    inside.arg(own.get_program()).args(own.get_args()).env("TZ", "UTC");
    let ran = ran(inside.output().unwrap());
    assert_eq!(ran.code, 0, "{}", ran.err);
    let text = std::fs::read_to_string(place("messages")).unwrap_or_default();
    let ours = text.lines().filter(|line| line.contains(" eve["));
    let found: Vec<&str> = ours
        .map(|line| {
            assert!(line.starts_with("local5.notice eve["), "{line}");
            let (number, message) = line["local5.notice eve[".len()..].split_once(']').unwrap();
            assert!(number.parse::<u32>().is_ok(), "{line}");
            // The blank after the colon is part of the message (RFC 3164, section 5.3).
            message.strip_prefix(' ').unwrap_or(message)
        })
        .collect();
    let wanted = file_lines(dir.path());
    assert!(found == wanted, "{} of {}: {:?}", found.len(), wanted.len(), text.lines().next());
    assert_eq!(row(&ran, "syslog")["passed"]["items"], wanted.len());
}

#[test]
fn sockets_have_the_lines_of_a_file() {
    for kind in ["unix_dgram", "unix_stream", "tcp"] {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join("out")).unwrap();
        let path = dir.path().join("out/eve.sock");
        let mut keys = format!("filetype: {kind}, filename: eve.sock");
        let reading = match kind {
            "unix_stream" => {
                let listener = UnixListener::bind(&path).unwrap();
                std::thread::spawn(move || {
                    let mut text = String::new();
                    listener.accept().unwrap().0.read_to_string(&mut text).unwrap();
                    text
                })
            }
            "tcp" => {
                let listener = TcpListener::bind("127.0.0.1:0").unwrap();
                let port = listener.local_addr().unwrap().port();
                keys = format!("filetype: tcp, tcp: {{ server: localhost, port: {port} }}");
                std::thread::spawn(move || {
                    let mut text = String::new();
                    listener.accept().unwrap().0.read_to_string(&mut text).unwrap();
                    text
                })
            }
            _ => {
                let socket = UnixDatagram::bind(&path).unwrap();
                socket.set_read_timeout(Some(Duration::from_secs(3))).unwrap();
                std::thread::spawn(move || {
                    let (mut text, mut bytes) = (String::new(), vec![0; 1 << 16]);
                    while let Ok(n) = socket.recv(&mut bytes) {
                        // Each is a line of its own.
                        assert_eq!(bytes[..n].iter().filter(|b| **b == b'\n').count(), 1);
                        text += &String::from_utf8_lossy(&bytes[..n]);
                    }
                    text
                })
            }
        };
        let ran = run(dir.path(), &keys);
        assert_eq!(ran.code, 0, "{kind}: {}", ran.err);
        let wanted = file_lines(dir.path());
        let text = reading.join().unwrap();
        let found: Vec<&str> = text.lines().collect();
        assert!(found == wanted, "{kind}: {} of {}", found.len(), wanted.len());
    }
}

/// A receiver that reads nothing, or is not there: the run ends in seconds, the file is whole, and what was not taken is in
/// the ledger.
#[test]
fn a_receiver_that_hangs_stops_nothing() {
    for is_there in [true, false] {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join("out")).unwrap();
        let path = dir.path().join("out/eve.sock");
        let listener = is_there.then(|| UnixListener::bind(&path).unwrap());
        let began = Instant::now();
        // More than the socket takes.
        let mut all = arguments(dir.path(), "filetype: unix_stream, filename: eve.sock");
        all.extend((0..4).map(|_| demo()));
        let ran = gabion(&all.iter().map(String::as_str).collect::<Vec<_>>());
        assert!(began.elapsed() < Duration::from_secs(20), "{:?}", began.elapsed());
        assert_eq!(ran.code, 4, "{}", ran.err);
        assert!(ran.err.contains("eve.sock"), "{}", ran.err);
        let wanted = file_lines(dir.path()).len() as u64;
        let of = row(&ran, "eve.sock");
        let number = |v: &Value| v["items"].as_u64().unwrap_or(0);
        let (received, passed) = (number(&of["received"]), number(&of["passed"]));
        let shed = number(&of["shed"]["output_failed"]);
        assert_eq!(
            (received, passed + shed, &of["balanced"]),
            (wanted, wanted, &true.into()),
            "{of}"
        );
        assert!(shed > 0 && (is_there || passed == 0), "{of}");
        drop(listener);
    }
}

/// A receiver that is far too slow, and one that accepts and reads nothing, while an interface is read: no frame is lost, the
/// file has all alerts while the run lasts, and of a receiver's lines those are counted that its spool of 16 MiB had no room for,
/// and those that it never took.
#[test]
fn receivers_that_hang_cost_no_frame_of_an_interface() {
    let Some(wire) = Wire::new("receivers_that_hang_cost_no_frame_of_an_interface") else { return };
    let place = |name: &str| wire.folder.path().join(name);
    // Ten alerts a frame, each of more than 4,000 bytes: more than the spool holds.
    let note = "n".repeat(4_000);
    let rule = |sid| {
        format!(
            "alert udp any any -> any 9 (msg:\"r\"; content:\"x\"; metadata:note {note}; sid:{sid};)\n"
        )
    };
    std::fs::write(place("my.rules"), (1..=10).map(rule).collect::<String>()).unwrap();
    let yaml = format!(
        "%YAML 1.1\n---\noutputs:\n  \
         - eve-log: {{ enabled: yes, filename: eve.json, types: [alert, stats] }}\n  \
         - eve-log: {{ enabled: yes, filetype: unix_dgram, filename: {}, types: [alert] }}\n  \
         - eve-log: {{ enabled: yes, filetype: redis, redis: {{ server: {} }}, types: [alert] }}\n",
        place("eve.sock").display(),
        place("redis.sock").display()
    );
    std::fs::write(place("suricata.yaml"), yaml).unwrap();
    let hanging = UnixListener::bind(place("redis.sock")).unwrap();
    // Connections stay open, and nobody reads.
    std::thread::spawn(move || {
        let mut open = Vec::new();
        for connection in hanging.incoming() {
            open.push(connection);
        }
    });
    let slow = UnixDatagram::bind(place("eve.sock")).unwrap();
    let is_ending = Arc::new(AtomicBool::new(false));
    let is_over = Arc::clone(&is_ending);
    std::thread::spawn(move || {
        // Ten lines a second, of thousands.
        while slow.recv(&mut [0; 8_192]).is_ok() {
            std::thread::sleep(Duration::from_millis(100));
            while is_over.load(Ordering::Relaxed) {
                std::thread::sleep(Duration::from_millis(100));
            }
        }
    });
    let frames: Vec<Vec<u8>> = (0..500)
        .map(|n| {
            let ends = [packets::CLIENT, packets::SERVER];
            let packet = packets::ipv4(17, n, 0, ends, &packets::udp([1000 + n, 9], b"x"));
            [&b"\x02\0\0\0\0\x01\x02\0\0\0\0\x02\x08\0"[..], &packet].concat()
        })
        .collect();
    let (rules, yaml) = (place("my.rules"), place("suricata.yaml"));
    let [rules, yaml] = [rules, yaml].map(|path| path.display().to_string());
    for (door, threads) in [("suricata", "1"), ("suricata", "2"), ("read", "1"), ("read", "2")] {
        let set = format!("af-packet.0.threads={threads}");
        let base = ["-i", "in", "-S", &rules, "-c", &yaml, "-k", "none"];
        let more = ["--set", "af-packet.0.interface=in", "--set", &set];
        let sensor = wire.spawn(door, &[&base[..], &more].concat());
        let said = || sensor.text("said") + &sensor.text("err");
        let is_read =
            || said().contains("in: packets are read") || said().contains("engine started");
        wait_until("packets are read", is_read);
        wire.send(&frames);
        wait_until("all alerts are in the file", || {
            sensor.text("eve.json").matches("\"event_type\":\"alert\"").count() == 5_000
        });
        let log = sensor.log.clone();
        // The end would be waited for as long as it reads.
        is_ending.store(true, Ordering::Relaxed);
        let (code, said) = sensor.terminate();
        is_ending.store(false, Ordering::Relaxed);
        assert_eq!(code, if door == "read" { 4 } else { 1 }, "{door} {threads}: {said}");
        assert!(said.contains("eve.sock") || said.contains("redis"), "{said}");
        let text = std::fs::read_to_string(log.join("eve.json")).unwrap();
        let last = text.lines().last().unwrap();
        let stats: Value = serde_json::from_str(last).unwrap();
        let of = |name: &str| stats["stats"].pointer(name).and_then(Value::as_u64).unwrap();
        let counted = (of("/capture/kernel_packets"), of("/capture/kernel_drops"));
        assert_eq!((counted, of("/decoder/pkts")), ((500, 0), 500), "{door} {threads}: {said}");
        if door == "suricata" {
            let warned = said.lines().filter(|line| line.contains("ring_full")).count();
            assert_eq!(warned, 2, "each of the receivers: {said}");
        } else {
            let run = std::fs::read_to_string(log.join("run.json")).unwrap();
            let run = Ran { code, out: run, err: said };
            for name in ["eve.sock", "redis"] {
                let of = row(&run, name);
                let number = |v: &Value, what: &str| v[what].as_u64().unwrap_or(0);
                let shed = |reason: &str, what| number(&of["shed"][reason], what);
                let (full, failed) = ("ring_full", "output_failed");
                assert_eq!(number(&of["received"], "items"), 5_000, "{of}");
                assert_eq!(of["balanced"], true, "{of}");
                assert!(shed(full, "items") > 500 && shed(failed, "items") > 500, "{of}");
                // What the system keeps for a socket is in addition to it.
                let held = number(&of["passed"], "bytes") + shed(failed, "bytes");
                assert!(held <= (16 << 20) + (1 << 20), "{of}");
            }
        }
        std::fs::remove_dir_all(&log).unwrap();
    }
}
