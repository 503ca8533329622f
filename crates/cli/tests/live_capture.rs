//! `gabion suricata --af-packet` on an interface that the test makes: the answer of a capture of the same frames, every
//! frame accounted for, timers on a quiet wire, a link that goes down and comes back, and refusals in one line.
//!
//! The tests need root and `ip`, and are skipped by name without.
#![allow(clippy::disallowed_methods, reason = "frames and signals come by the clock")]

mod program;

use gabion_runtime::sockets::packets::{bind_packet_socket, find_interface, open_packet_socket};
use program::{command, gabion, packets, repository};
use rustix::process::{Pid, Signal, kill_process};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use serde_json::Value;
use std::fs::File;
use std::io::Write;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

fn ip(arguments: &str) -> bool {
    let done = Command::new("ip").args(arguments.split(' ')).stderr(Stdio::null()).status();
    done.is_ok_and(|status| status.success())
}

fn wait_until(what: &str, mut is_true: impl FnMut() -> bool) {
    let began = Instant::now();
    while !is_true() {
        assert!(began.elapsed() < Duration::from_secs(20), "{what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// A namespace with a link: what is written to `out` arrives at `in`.
struct Wire {
    space: String,
    folder: tempfile::TempDir,
}

impl Drop for Wire {
    fn drop(&mut self) {
        ip(&format!("netns del {}", self.space));
    }
}

impl Wire {
    /// None, after a line that names the test and the reason, where this machine can't run it.
    fn new(test: &str) -> Option<Wire> {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        if !rustix::process::geteuid().is_root() {
            eprintln!("skipped: {test}: needs root");
            return None;
        }
        let n = COUNT.fetch_add(1, Ordering::Relaxed);
        let space = format!("gabion-live-{}-{n}", std::process::id());
        let wire = Wire { space, folder: tempfile::tempdir().unwrap() };
        let space = &wire.space;
        let steps = [
            format!("netns add {space}"),
            format!(
                "netns exec {space} sysctl -q -w net.ipv6.conf.default.disable_ipv6=1 \
                 net.ipv6.conf.all.disable_ipv6=1"
            ),
            format!("-n {space} link add out mtu 9000 type veth peer name in mtu 9000"),
            format!("-n {space} link set out up"),
            format!("-n {space} link set in up"),
        ];
        if let Some(step) = steps.iter().find(|step| !ip(step)) {
            eprintln!("skipped: {test}: ip {step} fails");
            return None;
        }
        Some(wire)
    }

    /// Starts the program, and waits until it reads.
    fn start(&self, more: &[&str]) -> Sensor {
        let own = command(&["suricata"]);
        let mut inside = Command::new("ip");
        inside.args(["netns", "exec", &self.space]).arg(own.get_program()).args(own.get_args());
        let log = self.folder.path().join("run");
        std::fs::create_dir_all(&log).unwrap();
        inside.arg("-l").arg(&log).args(more).stdin(Stdio::null());
        let said = log.join("said");
        inside.stdout(File::create(&said).unwrap()).stderr(File::create(log.join("err")).unwrap());
        let sensor = Sensor { child: inside.spawn().unwrap(), log };
        wait_until("the engine starts", || {
            std::fs::read_to_string(&said).unwrap().contains("engine started")
        });
        sensor
    }

    /// Writes frames to the wire.
    fn send(&self, frames: &[Vec<u8>]) {
        let space = self.space.clone();
        let frames = frames.to_vec();
        // A thread of its own, since it stays in the namespace.
        let sending = std::thread::spawn(move || {
            let space = File::open(format!("/run/netns/{space}")).unwrap();
            move_into_link_name_space(space.as_fd(), Some(LinkNameSpaceType::Network)).unwrap();
            let socket = open_packet_socket().unwrap();
            let out = find_interface(socket.as_fd(), "out").unwrap();
            bind_packet_socket(socket.as_fd(), out.index).unwrap();
            let mut to = File::from(socket);
            for frame in &frames {
                to.write_all(frame).unwrap();
            }
        });
        sending.join().unwrap();
    }
}

struct Sensor {
    child: Child,
    log: PathBuf,
}

impl Sensor {
    fn text(&self, name: &str) -> String {
        std::fs::read_to_string(self.log.join(name)).unwrap_or_default()
    }

    fn records(&self, kind: &str) -> Vec<Value> {
        records(&self.log, kind)
    }

    /// Asks it to stop; returns the exit code and what it printed.
    fn stop(mut self) -> (i32, String) {
        // `ip netns exec` replaces itself with the program.
        let pid = Pid::from_child(&self.child);
        kill_process(pid, Signal::INT).unwrap();
        let code = self.child.wait().unwrap().code().unwrap_or(-1);
        (code, self.text("said") + &self.text("err"))
    }
}

fn records(folder: &Path, kind: &str) -> Vec<Value> {
    let text = std::fs::read_to_string(folder.join("eve.json")).unwrap_or_default();
    let all = text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    all.filter(|record| record["event_type"] == kind).collect()
}

/// Records without what differs by nature: times, numbers and the reason of a flow's end.
fn comparable(folder: &Path, kind: &str) -> Vec<String> {
    let mut all: Vec<String> = records(folder, kind)
        .into_iter()
        .map(|mut record| {
            let members = record.as_object_mut().unwrap();
            for name in ["timestamp", "flow_id", "parent_id", "pcap_cnt", "in_iface"] {
                members.shift_remove(name);
            }
            if let Some(flow) = members.get_mut("flow").and_then(Value::as_object_mut) {
                for name in ["start", "end", "age", "reason", "state"] {
                    flow.shift_remove(name);
                }
            }
            record.to_string()
        })
        .collect();
    all.sort();
    all
}

/// The frames of the demonstration's capture.
fn demonstration() -> Vec<Vec<u8>> {
    let path = repository("demo/demo.pcap");
    let mut source = gabion_capture::Source::open(&path).unwrap();
    let (mut refs, mut frames) = (Vec::new(), Vec::new());
    while let Some(block) = source.next_block(256, &mut refs) {
        frames.extend(refs.drain(..).map(|r| r.frame(&block.bytes).data.to_vec()));
    }
    frames
}

#[test]
fn an_interface_gives_the_answer_of_a_capture_of_its_frames() {
    let Some(wire) = Wire::new("an_interface_gives_the_answer_of_a_capture_of_its_frames") else {
        return;
    };
    let rules = repository("demo/gabion.rules").display().to_string();
    let frames = demonstration();
    // The kernel fills frames up to the length that Ethernet asks for on no veth.
    let capture = packets::capture_of(1, wire.folder.path(), "same.pcap", &frames);
    let file = wire.folder.path().join("file");
    std::fs::create_dir_all(&file).unwrap();
    let shown = file.display().to_string();
    let ran = gabion(&["suricata", "-r", &capture, "-S", &rules, "-l", &shown, "-k", "none"]);
    assert_eq!(ran.code, 0, "{}{}", ran.out, ran.err);
    for workers in ["single", "workers"] {
        let threads = "threading.set-cpu-affinity=no";
        let arguments =
            ["--af-packet=in", "-S", &rules, "-k", "none", "--runmode", workers, "--set", threads];
        let sensor = wire.start(&arguments);
        wire.send(&frames);
        let wanted = records(&file, "alert").len();
        wait_until("alerts are written while it runs", || sensor.records("alert").len() >= wanted);
        let log = sensor.log.clone();
        let (code, said) = sensor.stop();
        assert_eq!(code, 0, "{said}");
        for kind in ["alert", "dns", "http", "tls", "fileinfo", "flow"] {
            let (ours, theirs) = (comparable(&log, kind), comparable(&file, kind));
            let differs =
                |a: &[String], b: &[String]| a.iter().find(|line| !b.contains(line)).cloned();
            let one = (differs(&ours, &theirs), differs(&theirs, &ours));
            assert_eq!((one, ours.len()), ((None, None), theirs.len()), "{workers} {kind}: {said}");
        }
        // As Suricata: live records name the interface and have no place in a capture.
        let all = records(&log, "alert").into_iter().chain(records(&log, "flow"));
        for record in all {
            assert!(record["in_iface"] == "in" && record["pcap_cnt"].is_null(), "{record}");
        }
        let stats = records(&log, "stats").pop().expect("a record of statistics");
        let offered = &stats["stats"]["capture"]["kernel_packets"];
        assert_eq!(offered.as_u64(), Some(frames.len() as u64), "{stats}");
        std::fs::remove_dir_all(&log).unwrap();
    }
}

#[test]
fn a_link_that_goes_down_is_awaited_and_a_quiet_wire_ends_flows() {
    let Some(wire) = Wire::new("a_link_that_goes_down_is_awaited_and_a_quiet_wire_ends_flows")
    else {
        return;
    };
    let timeouts = ["new", "established", "closed"]
        .map(|state| {
            [format!("flow-timeouts.default.{state}=1"), format!("flow-timeouts.udp.{state}=1")]
        })
        .concat();
    let mut arguments = vec!["--af-packet=in", "--disable-detection"];
    timeouts.iter().for_each(|set| arguments.extend(["--set", set]));
    let sensor = wire.start(&arguments);
    let frame = |id: u16| {
        let ends = [packets::CLIENT, packets::SERVER];
        let packet = packets::ipv4(17, id, 0, ends, &packets::udp([4000 + id, 9], b"datagram"));
        [&b"\x02\0\0\0\0\x01\x02\0\0\0\0\x02\x08\0"[..], &packet].concat()
    };
    wire.send(&[frame(1)]);
    // Nothing follows: the clock alone ends the flow.
    wait_until("the flow ends", || sensor.records("flow").len() == 1);
    let space = &wire.space;
    assert!(ip(&format!("-n {space} link set in down")));
    std::thread::sleep(Duration::from_millis(400));
    assert!(ip(&format!("-n {space} link set in up")));
    std::thread::sleep(Duration::from_millis(400));
    wire.send(&[frame(2)]);
    wait_until("the second flow ends", || sensor.records("flow").len() == 2);
    // Another interface with the same name.
    assert!(ip(&format!("-n {space} link del in")));
    std::thread::sleep(Duration::from_millis(300));
    assert!(ip(&format!("-n {space} link add out type veth peer name in")));
    assert!(
        ip(&format!("-n {space} link set out up")) && ip(&format!("-n {space} link set in up"))
    );
    std::thread::sleep(Duration::from_millis(400));
    wire.send(&[frame(3)]);
    wait_until("the third flow ends", || sensor.records("flow").len() == 3);
    let log = sensor.log.clone();
    let (code, said) = sensor.stop();
    assert_eq!(code, 0, "{said}");
    // Each of the three flows took more than a second of the clock.
    let stats = records(&log, "stats").pop().expect("a record of statistics");
    assert!(stats["stats"]["uptime"].as_u64() >= Some(3), "{stats}");
    let awaited = said.matches("the interface went down or away").count();
    assert_eq!((awaited, said.matches("the interface is back").count()), (2, 2), "{said}");
}

#[test]
fn tags_come_back_and_interfaces_that_cannot_be_read_are_one_line() {
    let empty = gabion(&["suricata", "--af-packet=", "--disable-detection", "-l", "/tmp"]);
    let none = gabion(&["suricata", "--af-packet=nothere0", "--disable-detection", "-l", "/tmp"]);
    let one_line = |ran: &program::Ran, words: &str| {
        assert_eq!(ran.code, 1, "{}{}", ran.out, ran.err);
        let said = format!("{}{}", ran.out, ran.err);
        let lines: Vec<&str> = said.lines().filter(|line| line.contains(words)).collect();
        assert_eq!(lines.len(), 1, "{said}");
    };
    let test = "tags_come_back_and_interfaces_that_cannot_be_read_are_one_line";
    let Some(wire) = Wire::new(test) else { return };
    one_line(&empty, "name an interface");
    one_line(&none, "there is no interface with this name");
    let both = ["suricata", "--af-packet=lo", "-r", "x.pcap", "--disable-detection", "-l", "/tmp"];
    one_line(&gabion(&both), "captures and interfaces are named");
    let sensor = wire.start(&["--af-packet=in", "--disable-detection"]);
    let ends = [packets::CLIENT, packets::SERVER];
    let packet = packets::ipv4(17, 1, 0, ends, &packets::udp([4000, 9], b"datagram"));
    let tagged = [&b"\x02\0\0\0\0\x01\x02\0\0\0\0\x02\x81\0\0\x07\x08\0"[..], &packet].concat();
    wire.send(&[tagged]);
    std::thread::sleep(Duration::from_millis(300));
    let log = sensor.log.clone();
    let (code, said) = sensor.stop();
    assert_eq!(code, 0, "{said}");
    let flows = records(&log, "flow");
    assert_eq!(flows.len(), 1, "{said}");
    assert_eq!(flows[0]["vlan"], serde_json::json!([7]), "{}", flows[0]);
}
