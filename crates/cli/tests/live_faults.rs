//! What goes wrong with interfaces: rights and memory that are missing, interfaces that are removed, moved or changed,
//! a sensor that is stopped or killed. Each is one clear line and its exit code, or a counter.
//!
//! The tests need root and `ip`, and are skipped by name without.
#![allow(clippy::disallowed_methods, reason = "frames and signals come by the clock")]

mod program;

use program::wire::{Wire, ip, ports_of_flows, records, wait_until};
use program::{command, packets, ran};
use rustix::process::Signal;
use serde_json::Value;
use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// A datagram in a frame, from this port, with this many bytes.
fn datagram(port: u16, len: usize) -> Vec<u8> {
    let ends = [packets::CLIENT, packets::SERVER];
    let packet = packets::ipv4(17, port, 0, ends, &packets::udp([port, 9], &vec![b'x'; len]));
    [&b"\x02\0\0\0\0\x01\x02\0\0\0\0\x02\x08\0"[..], &packet].concat()
}

/// The program inside of the wire's namespace, started by another program.
fn inside(wire: &Wire, by: &[&str], arguments: &[&str]) -> program::Ran {
    let own = command(arguments);
    let mut all = Command::new("ip");
    all.args(["netns", "exec", &wire.space]).args(by).arg(own.get_program()).args(own.get_args());
    ran(all.output().unwrap())
}

#[test]
fn missing_rights_and_memory_are_one_line() {
    let Some(wire) = Wire::new("missing_rights_and_memory_are_one_line") else { return };
    let log = wire.folder.path().display().to_string();
    let without = ["setpriv", "--bounding-set", "-net_raw", "--inh-caps", "-net_raw"];
    let refused = inside(&wire, &without, &["read", "--interface", "in"]);
    refused.refuses(4, &["in: its frames may not be read", "CAP_NET_RAW"]);
    let same = ["suricata", "--af-packet=in", "--disable-detection", "-l", &log];
    let refused = inside(&wire, &without, &same);
    let said = refused.out + &refused.err;
    assert_eq!((refused.code, said.matches("CAP_NET_RAW").count()), (1, 1), "{said}");
    // A ring of two gigabytes where the process may have less.
    let less = ["prlimit", "--as=1800000000"];
    let large = ["--set", "af-packet.0.interface=in", "--set", "af-packet.0.ring-size=9000000"];
    let refused = inside(&wire, &less, &[&["read", "--interface", "in"], &large[..]].concat());
    refused.refuses(4, &["in: a ring of 2147483648 bytes cannot be made", "ring-size"]);
    let copy = ["--set", "af-packet.0.interface=in", "--set", "af-packet.0.copy-mode=ips"];
    let refused = inside(&wire, &[], &[&["read", "--interface", "in"], &copy[..]].concat());
    refused.refuses(3, &["copy-mode: ips: frames are read and not passed on"]);
}

#[test]
fn an_interface_that_is_removed_or_moved_is_awaited_by_all_rings() {
    let test = "an_interface_that_is_removed_or_moved_is_awaited_by_all_rings";
    let Some(wire) = Wire::new(test) else { return };
    let other = format!("{}-other", wire.space);
    assert!(ip(&format!("netns add {other}")));
    let threads = ["--runmode", "workers", "--set", "af-packet.0.threads=2"];
    let base = ["--af-packet=in", "--disable-detection", "--set", "af-packet.0.interface=in"];
    let sensor = wire.start(&[&base[..], &threads].concat());
    wire.send(&[datagram(4001, 10)]);
    let space = &wire.space;
    assert!(ip(&format!("-n {space} link set in netns {other}")));
    wait_until("its leave is reported", || sensor.text("said").contains("down or away"));
    assert!(ip(&format!("-n {other} link set in netns {space}")));
    assert!(ip(&format!("-n {space} link set in up")));
    wait_until("its return is reported", || sensor.text("said").contains("the interface is back"));
    std::thread::sleep(Duration::from_millis(300));
    wire.send(&[datagram(4002, 10)]);
    std::thread::sleep(Duration::from_millis(300));
    let log = sensor.log.clone();
    let (code, said) = sensor.stop();
    ip(&format!("netns del {other}"));
    assert_eq!(code, 0, "{said}");
    let ports = ports_of_flows(&log);
    assert_eq!(ports, [4001, 4002], "{said}");
    assert_eq!(said.matches("down or away").count(), 1, "{said}");
}

/// Datagrams of 20 hosts, from this port: each ring of several has some of them.
fn of_hosts(port: u16) -> Vec<Vec<u8>> {
    let frame = |n: u8| {
        let ends = [[10, 9, 0, n], packets::SERVER];
        let packet = packets::ipv4(17, 1, 0, ends, &packets::udp([port, 9], b"datagram"));
        [&b"\x02\0\0\0\0\x01\x02\0\0\0\0\x02\x08\0"[..], &packet].concat()
    };
    (0..20).map(frame).collect()
}

/// Waits until all rings are read: each host's datagrams from this port raise an alert.
fn await_all_hosts(wire: &Wire, sensor: &program::wire::Sensor, port: u16) {
    wait_until("frames of all hosts are inspected", || {
        wire.send(&of_hosts(port));
        let alerts = sensor.records("alert");
        let of_port = alerts.iter().filter(|r| r["src_port"] == port);
        of_port.map(|r| r["src_ip"].to_string()).collect::<std::collections::BTreeSet<_>>().len()
            == 20
    });
}

/// A rule that alerts on these datagrams, in a file.
fn datagram_rule(wire: &Wire) -> String {
    let rules = wire.folder.path().join("my.rules");
    let rule = "alert udp any any -> any 9 (msg:\"r\"; content:\"datagram\"; sid:1;)\n";
    std::fs::write(&rules, rule).unwrap();
    rules.display().to_string()
}

/// An interface that is removed is awaited: another one with its name is read by all rings, as often as that happens.
#[test]
fn an_interface_that_is_made_again_is_read_by_all_rings() {
    let test = "an_interface_that_is_made_again_is_read_by_all_rings";
    let Some(wire) = Wire::new(test) else { return };
    let (rules, space) = (datagram_rule(&wire), wire.space.clone());
    let base = ["--af-packet=in", "-S", &rules, "-k", "none"];
    let threads = ["--set", "af-packet.0.interface=in", "--set", "af-packet.0.threads=2"];
    let sensor = wire.start(&[&base[..], &threads].concat());
    await_all_hosts(&wire, &sensor, 4000);
    for n in 1..=2 {
        // The other end goes with it.
        assert!(ip(&format!("-n {space} link del in")));
        let is_reported = || sensor.text("said").matches("down or away").count() == n;
        wait_until("its leave is reported", is_reported);
        wire.add_link("out", "in");
        let is_back = || sensor.text("said").matches("the interface is back").count() == n;
        wait_until("its return is reported", is_back);
        await_all_hosts(&wire, &sensor, 4000 + n as u16);
    }
    let (code, said) = sensor.stop();
    assert_eq!(code, 0, "{said}");
    for note in ["down or away", "the interface is back"] {
        assert_eq!(said.matches(note).count(), 2, "{said}");
    }
}

/// A link that is down when the run begins is no fault: the run says that it waits, and reads frames as soon as it is up.
#[test]
fn a_link_that_is_down_at_the_start_is_awaited() {
    let test = "a_link_that_is_down_at_the_start_is_awaited";
    let Some(wire) = Wire::new(test) else { return };
    let (rules, space) = (datagram_rule(&wire), wire.space.clone());
    for (door, threads) in [("suricata", "1"), ("suricata", "2"), ("read", "1"), ("read", "2")] {
        assert!(ip(&format!("-n {space} link set in down")));
        let set = format!("af-packet.0.threads={threads}");
        let base = ["-i", "in", "-S", &rules, "-k", "none", "--set", "af-packet.0.interface=in"];
        let sensor = wire.spawn(door, &[&base[..], &["--set", &set]].concat());
        let said = || sensor.text("said") + &sensor.text("err");
        let is_reported = || said().contains("in: the interface is down: the run waits for it");
        wait_until("it is reported", is_reported);
        assert!(!said().contains("the interface is back"));
        assert!(ip(&format!("-n {space} link set in up")));
        wait_until("its return is reported", || said().contains("in: the interface is back"));
        await_all_hosts(&wire, &sensor, 4000);
        let log = sensor.log.clone();
        let (code, said) = sensor.terminate();
        assert_eq!(code, 0, "{door} {threads}: {said}");
        for note in ["the run waits for it", "the interface is back"] {
            assert_eq!(said.matches(note).count(), 1, "{door} {threads}: {said}");
        }
        std::fs::remove_dir_all(&log).unwrap();
    }
}

/// Replaces itself with the program of its arguments, for which the kernel refuses PACKET_ADD_MEMBERSHIP.
const REFUSING: &str = r#"
import ctypes, os, platform, struct, sys
number, arch = {"x86_64": (54, 0xC000003E), "aarch64": (208, 0xC00000B7)}[platform.machine()]
load, equal, end = 0x20, 0x15, 0x06
steps = [(load, 0, 0, 4), (equal, 0, 7, arch), (load, 0, 0, 0), (equal, 0, 5, number), (load, 0, 0, 24), (equal, 0, 3, 263),
         (load, 0, 0, 32), (equal, 0, 1, 1), (end, 0, 0, 0x00050000 | 1), (end, 0, 0, 0x7FFF0000)]
filter = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *step) for step in steps))
program = ctypes.create_string_buffer(struct.pack("HxxxxxxQ", len(steps), ctypes.addressof(filter)))
libc = ctypes.CDLL(None, use_errno=True)
if libc.prctl(38, 1, 0, 0, 0) != 0 or libc.prctl(22, 2, program, 0, 0) != 0:
    sys.exit(f"seccomp: errno {ctypes.get_errno()}")
os.execvp(sys.argv[1], sys.argv[1:])
"#;

#[test]
fn promiscuity_that_is_refused_is_reported_and_frames_to_this_host_come() {
    let test = "promiscuity_that_is_refused_is_reported_and_frames_to_this_host_come";
    let Some(wire) = Wire::new(test) else { return };
    if Command::new("python3").arg("-V").output().is_err() {
        eprintln!("skipped: {test}: needs python3");
        return;
    }
    let base = ["--af-packet=in", "--disable-detection"];
    for (by, off, times) in [
        (&["python3", "-c", REFUSING][..], "no", 1),
        // What is not asked for can't be refused.
        (&["python3", "-c", REFUSING], "yes", 0),
        (&[], "no", 0),
    ] {
        let set = format!("af-packet.0.disable-promisc={off}");
        let more = ["--set", "af-packet.0.interface=in", "--set", &set];
        let sensor = wire.start_by(by, &[&base[..], &more].concat());
        wire.send(&[datagram(4001, 10)]);
        wait_until("it is in the statistics", || sensor.text("said").contains("engine started"));
        std::thread::sleep(Duration::from_millis(300));
        let log = sensor.log.clone();
        let (code, said) = sensor.stop();
        assert_eq!(code, 0, "{said}");
        assert_eq!(said.matches("in: promiscuous mode is refused").count(), times, "{said}");
        assert_eq!(records(&log, "flow").len(), 1, "{said}");
        std::fs::remove_dir_all(&log).unwrap();
    }
}

/// Another interface has the name that the rules of udev gave it: the one that is named is awaited, whatever the other one
/// brings.
#[test]
fn an_interface_that_is_renamed_is_reported_and_awaited() {
    let Some(wire) = Wire::new("an_interface_that_is_renamed_is_reported_and_awaited") else {
        return;
    };
    let space = wire.space.clone();
    for (n, threads) in ["1", "2"].into_iter().enumerate() {
        let set = format!("af-packet.0.threads={threads}");
        let base = ["--af-packet=in", "--disable-detection", "--set", "af-packet.0.interface=in"];
        let sensor = wire.start(&[&base[..], &["--set", &set]].concat());
        let port = 4000 + 10 * n as u16;
        wire.send(&[datagram(port + 1, 10)]);
        std::thread::sleep(Duration::from_millis(300));
        // Frames come without a pause, as on a wire in use, while the name changes: kernels before 6.2 want it down.
        if !ip(&format!("-n {space} link set in name else")) {
            assert!(ip(&format!("-n {space} link set in down")));
            assert!(ip(&format!("-n {space} link set in name else")));
            assert!(ip(&format!("-n {space} link set else up")));
        }
        let is_reported = || sensor.text("said").contains("its return is awaited");
        wait_until("the other name is reported", || {
            wire.send(&(0..50).map(|_| datagram(port + 2, 10)).collect::<Vec<_>>());
            is_reported()
        });
        std::thread::sleep(Duration::from_millis(300));
        // Nothing of an interface with another name is read.
        wire.send(&[datagram(port + 3, 10)]);
        std::thread::sleep(Duration::from_millis(300));
        if !ip(&format!("-n {space} link set else name in")) {
            assert!(ip(&format!("-n {space} link set else down")));
            assert!(ip(&format!("-n {space} link set else name in")));
            assert!(ip(&format!("-n {space} link set in up")));
        }
        let is_back = || sensor.text("said").contains("the interface is back");
        wait_until("its return is reported", is_back);
        std::thread::sleep(Duration::from_millis(300));
        wire.send(&[datagram(port + 4, 10)]);
        std::thread::sleep(Duration::from_millis(300));
        let log = sensor.log.clone();
        let (code, said) = sensor.stop();
        assert_eq!(code, 0, "{said}");
        let ports = ports_of_flows(&log);
        let has = |last: u64| ports.contains(&(u64::from(port) + last));
        assert_eq!((has(1), has(3), has(4)), (true, false, true), "{threads} {ports:?}: {said}");
        assert_eq!(said.matches("its return is awaited").count(), 1, "{threads}: {said}");
        std::fs::remove_dir_all(&log).unwrap();
    }
}

/// A frame that is larger than a block of the ring is cut by the kernel: that is reported once, and counted.
#[test]
fn frames_larger_than_a_block_are_reported_once() {
    let Some(wire) = Wire::new("frames_larger_than_a_block_are_reported_once") else { return };
    let small = ["--set", "af-packet.0.interface=in", "--set", "af-packet.0.block-size=4096"];
    let sensor = wire.start(&[&["--af-packet=in", "--disable-detection"][..], &small].concat());
    wire.send(&[datagram(4001, 10), datagram(4001, 8000), datagram(4001, 8000)]);
    std::thread::sleep(Duration::from_millis(500));
    let log = sensor.log.clone();
    let (code, said) = sensor.stop();
    assert_eq!(code, 0, "{said}");
    let stats = records(&log, "stats").pop().expect("a record of statistics");
    assert_eq!(stats["stats"]["capture"]["kernel_packets"], 3, "{stats}");
    assert_eq!(said.matches("block-size").count(), 1, "{said}");
    assert!(said.contains("frames of 8042 bytes do not fit"), "{said}");
}

/// Stops the thread of this process whose name begins so, as a debugger does, until its input ends.
const STOPPING: &str = r#"
import ctypes, os, sys
process, name = sys.argv[1:]
threads = [t for t in os.listdir(f"/proc/{process}/task") if open(f"/proc/{process}/task/{t}/comm").read().startswith(name)]
libc = ctypes.CDLL(None, use_errno=True)
seize, interrupt = 0x4206, 0x4207
for request in (seize, interrupt):
    if libc.ptrace(request, int(threads[0]), 0, 0) != 0:
        sys.exit(f"{threads}: errno {ctypes.get_errno()}")
os.waitpid(int(threads[0]), 0x40000000)
print("stopped", flush=True)
sys.stdin.read()
"#;

/// A thread of a program that is stopped until the value ends.
struct Stopped(std::process::Child);

impl Stopped {
    fn thread(of: &program::wire::Sensor, name: &str) -> Stopped {
        let mut stopping = Command::new("python3");
        stopping.args(["-c", STOPPING, &of.child.id().to_string(), name]);
        let mut child = stopping.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        assert_eq!(line, "stopped\n");
        Stopped(child)
    }
}

impl Drop for Stopped {
    fn drop(&mut self) {
        drop(self.0.stdin.take());
        let _ = self.0.wait();
    }
}

/// A worker that makes no progress is reported within two seconds, also where it has nothing to do; when it continues, all is
/// inspected. One that stays away is abandoned: what came for it is counted to the frame, and the others continue.
#[test]
fn a_worker_that_is_stopped_is_reported_and_its_ring_counted() {
    let test = "a_worker_that_is_stopped_is_reported_and_its_ring_counted";
    let Some(wire) = Wire::new(test) else { return };
    if Command::new("python3").arg("-V").output().is_err() {
        eprintln!("skipped: {test}: needs python3");
        return;
    }
    for (threads, returns) in [("1", true), ("2", true), ("2", false)] {
        let set = format!("af-packet.0.threads={threads}");
        let base = ["--af-packet=in", "--disable-detection", "--set", "af-packet.0.interface=in"];
        let sensor = wire.start(&[&base[..], &["--set", &set]].concat());
        // Of many hosts: each ring has those of some.
        let frame = |n: u16| {
            let ends = [[10, 9, 0, n as u8], packets::SERVER];
            let packet = packets::ipv4(17, n, 0, ends, &packets::udp([4000 + n, 9], b"datagram"));
            [&b"\x02\0\0\0\0\x01\x02\0\0\0\0\x02\x08\0"[..], &packet].concat()
        };
        let frames: Vec<Vec<u8>> = (0..200).map(frame).collect();
        wire.send(&frames);
        std::thread::sleep(Duration::from_millis(300));
        let (mut sent, mut least) = (200, Duration::MAX);
        // The least of several, since other work of this machine comes between.
        for n in 1..=3 {
            let stopped = Stopped::thread(&sensor, "worker");
            let began = Instant::now();
            wire.send(&frames);
            sent += 200;
            let is_reported = || sensor.text("said").matches(": stalled: ").count() == n;
            wait_until("it is reported", is_reported);
            least = least.min(began.elapsed());
            if !returns {
                wait_until("it is abandoned", || sensor.text("err").contains(": abandoned: "));
            }
            drop(stopped);
            if !returns {
                break;
            }
            let is_back = || sensor.text("said").matches(": recovered: ").count() == n;
            wait_until("it is back", is_back);
            if least < Duration::from_secs(2) {
                break;
            }
        }
        assert!(least < Duration::from_secs(2), "{threads}: {least:?}");
        wire.send(&frames);
        sent += 200;
        std::thread::sleep(Duration::from_millis(500));
        let log = sensor.log.clone();
        let (code, said) = sensor.stop();
        let stats = records(&log, "stats").pop().expect("a record of statistics");
        let of = |path: &str| stats["stats"].pointer(path).and_then(Value::as_u64).unwrap_or(0);
        let counted = (of("/capture/kernel_packets"), of("/capture/kernel_drops"));
        assert_eq!(counted, (sent, 0), "{threads}: {said}");
        let flows = records(&log, "flow").len();
        if returns {
            assert_eq!((code, of("/decoder/pkts"), flows), (0, sent, 200), "{said}");
        } else {
            assert_eq!(code, 1, "{said}");
            assert!(said.contains(": abandoned: ") && !said.contains(": recovered: "), "{said}");
            // All that the other ring has got is inspected.
            assert!((1..200).contains(&flows), "{flows}: {said}");
            assert_eq!(of("/decoder/pkts"), 3 * flows as u64, "{said}");
        }
        std::fs::remove_dir_all(&log).unwrap();
    }
}

/// While the worker of one ring is stopped the other one waits for it no longer than the bound. What it hands over afterwards is
/// late: it is counted, and inspected all the same.
#[test]
fn frames_that_are_handed_over_late_are_counted() {
    let test = "frames_that_are_handed_over_late_are_counted";
    let Some(wire) = Wire::new(test) else { return };
    if Command::new("python3").arg("-V").output().is_err() {
        eprintln!("skipped: {test}: needs python3");
        return;
    }
    let rules = wire.folder.path().join("my.rules");
    let rule = "alert udp any any -> any any (msg:\"marks\"; content:\"mark\"; flowbits:set,marked; noalert; sid:1;)\n\
        alert udp any any -> any any (msg:\"asks\"; content:\"ask\"; flowbits:isset,marked; sid:2;)\n";
    std::fs::write(&rules, rule).unwrap();
    let rules = rules.display().to_string();
    // Behind two tags the kernel looks for no addresses: all of these come to the first ring.
    let frame = |n: u8, text: &[u8]| {
        let ends = [[10, 3, 0, n], packets::SERVER];
        let packet = packets::ipv4(17, 1, 0, ends, &packets::udp([4000, 9], text));
        let tags = b"\x88\xa8\0\x05\x81\0\0\x64\x08\0";
        [&b"\x02\0\0\0\0\x01\x02\0\0\0\0\x02"[..], tags, &packet].concat()
    };
    let frames: Vec<Vec<u8>> =
        (0..40).flat_map(|n| [frame(n, b"mark"), frame(n, b"ask")]).collect();
    let sensor = wire.spawn("read", &["-i", "in", "-S", &rules, "-k", "none", "--workers", "2"]);
    wait_until("packets are read", || sensor.text("err").contains("in: packets are read"));
    let stopped = Stopped::thread(&sensor, "worker 0");
    wire.send(&frames);
    // By then the other one has waited long enough.
    wait_until("it is reported", || sensor.text("err").contains("worker 0: stalled: "));
    drop(stopped);
    wait_until("all are inspected", || sensor.records("alert").len() == 40);
    let log = sensor.log.clone();
    let (code, said) = sensor.terminate();
    assert_eq!(code, 0, "{said}");
    let run = run_json(&log);
    let of = |name: &str| run[name].as_u64().unwrap();
    let (handed, late) = (of("frames_handed_over"), of("frames_late"));
    assert!(handed > 0 && handed < 80 && late == handed, "{late} of {handed}: {said}");
    let stats = records(&log, "stats").pop().expect("a record of statistics");
    assert_eq!(stats["stats"]["decoder"]["pkts"], 80, "{stats}");
}

#[test]
fn frames_of_a_larger_mtu_are_read_whole_and_said_once() {
    let Some(wire) = Wire::new("frames_of_a_larger_mtu_are_read_whole_and_said_once") else {
        return;
    };
    let sensor = wire.start(&["--af-packet=in", "--disable-detection"]);
    let space = &wire.space;
    assert!(ip(&format!("-n {space} link set in mtu 60000")));
    assert!(ip(&format!("-n {space} link set out mtu 60000")));
    wire.send(&[datagram(4001, 40_000), datagram(4001, 40_000)]);
    std::thread::sleep(Duration::from_millis(500));
    let log = sensor.log.clone();
    let (code, said) = sensor.stop();
    assert_eq!(code, 0, "{said}");
    let flows = records(&log, "flow");
    assert_eq!(flows[0]["flow"]["bytes_toserver"], 2 * (40_000 + 28 + 14), "{said}");
    assert_eq!(said.matches("frames of up to 40042 bytes").count(), 1, "{said}");
}

/// While the sensor is stopped the ring runs full: what reached the socket is read or counted as dropped, to the
/// frame, and an alert of that time says what it could not be based on.
#[test]
fn what_a_full_ring_drops_is_counted_and_stands_in_alerts() {
    let Some(wire) = Wire::new("what_a_full_ring_drops_is_counted_and_stands_in_alerts") else {
        return;
    };
    let rules = wire.folder.path().join("my.rules");
    let rule = "alert udp any 4001 -> any any (msg:\"one\"; dsize:77; sid:1;)\n";
    std::fs::write(&rules, rule).unwrap();
    let rules = rules.display().to_string();
    for threads in ["1", "2"] {
        let set = format!("af-packet.0.threads={threads}");
        let ring = ["--set", "af-packet.0.interface=in", "--set", "af-packet.0.ring-size=1000"];
        let base = ["--af-packet=in", "-S", &rules, "-k", "none", "--set", &set];
        let sensor = wire.start(&[&base[..], &ring].concat());
        wire.send(&[datagram(4001, 10)]);
        std::thread::sleep(Duration::from_millis(300));
        sensor.signal(Signal::STOP);
        let flood: Vec<Vec<u8>> = (0..20_000).map(|n| datagram(5000 + n % 50, 500)).collect();
        wire.send(&flood);
        sensor.signal(Signal::CONT);
        std::thread::sleep(Duration::from_millis(500));
        wire.send(&[datagram(4001, 77)]);
        wait_until("the alert is written", || sensor.records("alert").len() == 1);
        let log = sensor.log.clone();
        let (code, said) = sensor.stop();
        assert_eq!(code, 0, "{said}");
        let stats = records(&log, "stats").pop().expect("a record of statistics");
        let of = |path: &str| stats["stats"].pointer(path).and_then(Value::as_u64).unwrap_or(0);
        let (offered, dropped) = (of("/capture/kernel_packets"), of("/capture/kernel_drops"));
        assert_eq!((offered, of("/capture/interface_drops")), (20_002, 0), "{stats}");
        assert!(dropped > 1000, "{stats}");
        assert_eq!(of("/decoder/pkts"), offered - dropped, "{stats}");
        let alert = &records(&log, "alert")[0];
        let lost = &alert["alert"]["context"]["loss"]["shed"]["kernel_drop"];
        assert!(lost.is_object() || lost.is_array(), "{threads} {alert}");
        let line = said.lines().find(|l| l.contains(&format!("dropped {dropped} of 20002 frames")));
        // When that was, by the second.
        let line = line.unwrap_or_else(|| panic!("{said}"));
        assert!(line.contains(", at 20") || line.contains(" seconds from 20"), "{line}");
        std::fs::remove_dir_all(&log).unwrap();
    }
}

/// Of two interfaces each has its own count of what was offered and dropped, and the seconds in which that was.
#[test]
fn drops_are_counted_by_interface_and_second() {
    let Some(wire) = Wire::new("drops_are_counted_by_interface_and_second") else { return };
    wire.add_link("out2", "in2");
    let rules = wire.folder.path().join("my.rules");
    let rule = "alert udp any 4000:4999 -> any any (msg:\"one\"; dsize:77; sid:1;)\n";
    std::fs::write(&rules, rule).unwrap();
    let rules = rules.display().to_string();
    let flood = |n: u16| -> Vec<Vec<u8>> { (0..n).map(|n| datagram(5000 + n % 50, 500)).collect() };
    for workers in ["1", "2"] {
        let base = ["-i", "in", "-i", "in2", "-S", &rules, "-k", "none", "--workers", workers];
        let ring = ["--set", "af-packet.0.interface=default", "--set", "af-packet.0.ring-size=500"];
        let sensor = wire.spawn("read", &[&base[..], &ring].concat());
        wait_until("packets are read", || sensor.text("err").contains("in2: packets are read"));
        let mut sent = [20_000, 9_000];
        let began = gabion_runtime::clock::since_epoch().as_secs();
        sensor.signal(Signal::STOP);
        wire.send_to("out", &flood(20_000));
        wire.send_to("out2", &flood(9_000));
        sensor.signal(Signal::CONT);
        for (at, (out, into)) in [("out", "in"), ("out2", "in2")].into_iter().enumerate() {
            wait_until("the ring is read", || {
                sent[at] += 1;
                // A flow of its own, as those that begin while the ring is full are without rules.
                wire.send_to(out, &[datagram(4000 + (sent[at] % 1000) as u16, 77)]);
                sensor.records("alert").iter().any(|r| r["in_iface"] == into)
            });
        }
        let log = sensor.log.clone();
        let (code, said) = sensor.terminate();
        assert_eq!(code, 0, "{said}");
        let ended = gabion_runtime::clock::since_epoch().as_secs();
        let run = run_json(&log);
        let number = |v: &Value| v.as_u64().unwrap_or(0);
        let mut dropped_of = Vec::new();
        for (name, sent) in ["in", "in2"].into_iter().zip(sent) {
            let inputs = run["inputs"].as_array().unwrap();
            let of = inputs.iter().find(|input| input["path"] == name).unwrap();
            let (offered, dropped) =
                (number(&of["kernel"]["offered"]), number(&of["kernel"]["dropped"]));
            assert_eq!(offered, sent, "{workers} {name}: {of}");
            assert_eq!(number(&of["packets"]) + dropped, offered, "{workers} {name}: {of}");
            let seconds = of["kernel"]["dropped_by_second"].as_array().unwrap();
            let sum: u64 = seconds.iter().map(|s| number(&s["dropped"])).sum();
            assert!(dropped > 0 && sum == dropped, "{workers} {name}: {of}");
            let is_then = |s: &Value| (began..=ended).contains(&number(&s["second"]));
            assert!(seconds.iter().all(is_then), "{workers} {name}: {began} {ended} {of}");
            let line = format!("{name}: the kernel dropped {dropped} of {sent} frames");
            assert_eq!(said.matches(&line).count(), 1, "{said}");
            dropped_of.push(dropped);
        }
        // The rings are equal, and what came to the first is more.
        assert!(dropped_of[0] > dropped_of[1] + 5_000, "{dropped_of:?}");
        std::fs::remove_dir_all(&log).unwrap();
    }
}

#[test]
fn a_killed_sensor_leaves_nothing_that_stops_the_next() {
    let Some(wire) = Wire::new("a_killed_sensor_leaves_nothing_that_stops_the_next") else {
        return;
    };
    let base = ["--af-packet=in", "--disable-detection", "--set", "af-packet.0.interface=in"];
    let pid_file = wire.folder.path().join("sensor.pid").display().to_string();
    let own = ["--set", "af-packet.0.threads=2", "--pidfile", &pid_file];
    let arguments = [&base[..], &own].concat();
    let mut first = wire.start(&arguments);
    first.signal(Signal::KILL);
    first.child.wait().unwrap();
    assert!(std::path::Path::new(&pid_file).exists());
    // Its records stay in the folder, and those of the next one are added.
    let next = wire.start(&arguments);
    wire.send(&(0..40).map(|n| datagram(4000 + n, 10)).collect::<Vec<_>>());
    std::thread::sleep(Duration::from_millis(400));
    let log = next.log.clone();
    let (code, said) = next.stop();
    assert_eq!(code, 0, "{said}");
    assert_eq!(records(&log, "flow").len(), 40, "{said}");
    let sockets = Command::new("ip")
        .args(["netns", "exec", &wire.space, "cat", "/proc/net/packet"])
        .output()
        .unwrap();
    assert_eq!(String::from_utf8_lossy(&sockets.stdout).lines().count(), 1, "only the heading");
}

/// What `gabion doctor` says of an interface is what ethtool and the kernel say, and what it says to change is what changes it.
#[test]
fn doctor_looks_at_an_interface() {
    let test = "doctor_looks_at_an_interface";
    let Some(wire) = Wire::new(test) else { return };
    let ethtool = |arguments: &str| {
        let mut asked = Command::new("ip");
        asked.args(["netns", "exec", &wire.space, "ethtool"]).args(arguments.split(' '));
        asked.output().ok().filter(|done| done.status.success())
    };
    if ethtool("-K in gro on").is_none() {
        eprintln!("skipped: {test}: ethtool -K in gro on fails");
        return;
    }
    let look = || {
        let found = inside(&wire, &[], &["doctor", "--interface", "in", "--json"]);
        let report: Value = serde_json::from_str(&found.out).unwrap();
        (found.code, report["interfaces"][0].clone(), report["advice"].to_string())
    };
    let (code, of, advice) = look();
    assert_eq!(
        (code, &of["name"], &of["up"], &of["gro"]),
        (1, &"in".into(), &true.into(), &true.into()),
        "{of}"
    );
    assert!(advice.contains("ethtool -K in gro off"), "{advice}");
    let channels = String::from_utf8_lossy(&ethtool("-l in").unwrap().stdout).into_owned();
    let wanted: Vec<u64> =
        channels.lines().filter_map(|line| line.strip_prefix("RX:")?.trim().parse().ok()).collect();
    // The most there can be, then those in use.
    assert_eq!(
        (&of["queues_max"], &of["queues"]),
        (&wanted[0].into(), &wanted[1].into()),
        "{channels}"
    );
    assert!(ethtool("-K in gro off").is_some());
    let (_, of, advice) = look();
    assert_eq!((&of["gro"], advice.contains("gro")), (&false.into(), false), "{of} {advice}");
    assert!(ip(&format!("-n {} link set in down", wire.space)));
    let (code, of, advice) = look();
    assert_eq!((code, &of["up"]), (1, &false.into()), "{of}");
    assert!(advice.contains("ip link set in up"), "{advice}");
    let absent = inside(&wire, &[], &["doctor", "--interface", "nothere0"]);
    absent.refuses(3, &["--interface nothere0", "`ip link` lists those that are there"]);
}

/// A ring that runs full sheds in a stated order, what is pinned is still inspected, each flow that is left without rules is
/// counted, and all ends when the ring is read.
#[test]
fn a_full_ring_sheds_in_order_and_recovers() {
    let Some(wire) = Wire::new("a_full_ring_sheds_in_order_and_recovers") else { return };
    let rules = wire.folder.path().join("my.rules");
    let rule = |sid, port| {
        format!("alert udp any any -> any {port} (msg:\"r{sid}\"; content:\"xx\"; sid:{sid};)\n")
    };
    std::fs::write(&rules, rule(1, "9") + &rule(2, "10")).unwrap();
    let rules = rules.display().to_string();
    let to = |from: u16, port: u16| {
        let ends = [packets::CLIENT, packets::SERVER];
        let packet = packets::ipv4(17, from, 0, ends, &packets::udp([from, port], &[b'x'; 400]));
        [&b"\x02\0\0\0\0\x01\x02\0\0\0\0\x02\x08\0"[..], &packet].concat()
    };
    for workers in ["1", "2"] {
        let base = ["-i", "in", "-S", &rules, "-k", "none", "--workers", workers];
        let ring = ["--set", "af-packet.0.interface=in", "--set", "af-packet.0.ring-size=1000"];
        let pinned = ["--set", "pinned-rules=2-3"];
        let sensor = wire.spawn("read", &[&base[..], &ring, &pinned].concat());
        wait_until("packets are read", || sensor.text("err").contains("in: packets are read"));
        sensor.signal(Signal::STOP);
        // Each flow of its own; the ring has room for about 2,500 of them.
        let flood: Vec<Vec<u8>> = (0..6000).map(|n| to(1000 + n, 9 + n % 2)).collect();
        wire.send(&flood);
        sensor.signal(Signal::CONT);
        // When the ring has been read, each flow that begins is inspected: those that came before are through by then.
        let mut later = 60_000;
        wait_until("rules run again on flows that begin", || {
            later += 1;
            wire.send(&[to(later, 9)]);
            sensor.records("alert").iter().any(|r| r["src_port"].as_u64() >= Some(60_000))
        });
        let log = sensor.log.clone();
        let (code, said) = sensor.terminate();
        assert_eq!(code, 0, "{said}");
        let alerts = records(&log, "alert");
        let of = |sid: u64| alerts.iter().filter(|r| r["alert"]["signature_id"] == sid).count();
        let flows = records(&log, "flow");
        let seen = |port: u64| flows.iter().filter(|r| r["dest_port"] == port).count();
        assert_eq!(of(2), seen(10), "what is pinned is inspected: {said}");
        assert!(of(1) < seen(9) && of(1) > 0, "{} of {}: {said}", of(1), seen(9));
        // Each flow has one packet, and each packet one alert where rules ran.
        let left_out = shed(&log, "pressure", "pressure_detection");
        assert_eq!(left_out as usize, seen(9) - of(1), "{workers}: {said}");
        std::fs::remove_dir_all(&log).unwrap();
    }
}

/// The report of a run that has ended.
fn run_json(log: &std::path::Path) -> Value {
    serde_json::from_str(&std::fs::read_to_string(log.join("run.json")).unwrap()).unwrap()
}

/// What a stage of a run has shed for this reason.
fn shed(log: &std::path::Path, stage: &str, reason: &str) -> u64 {
    let run = run_json(log);
    let all = run["ledger"].as_array().unwrap().iter();
    let of = all.filter(|e| e["stage"] == stage);
    of.map(|e| e["shed"][reason]["items"].as_u64().unwrap_or(0)).sum()
}

/// A session of TLS after its handshake: where nothing but the handshake is inspected, the rest is left out under pressure, to
/// the packet; where all is inspected (`encryption-handling: full`), nothing is left out.
#[test]
fn the_rest_of_an_encrypted_flow_is_shed_and_counted() {
    let test = "the_rest_of_an_encrypted_flow_is_shed_and_counted";
    let Some(wire) = Wire::new(test) else { return };
    // The handshake of a session of the demonstration, up to the client's first data.
    let port = 57_592_u16.to_be_bytes();
    let of_session = |frame: &&Vec<u8>| {
        let ports = [frame.get(34..36), frame.get(36..38)];
        frame.get(23) == Some(&6) && ports.contains(&Some(&port[..]))
    };
    let demonstration = packets::demonstration();
    let session: Vec<&Vec<u8>> = demonstration.iter().filter(of_session).collect();
    // The header of the segment has options.
    let header_len = |frame: &Vec<u8>| 34 + usize::from(frame[46] >> 4) * 4;
    let is_data = |frame: &Vec<u8>| {
        frame.get(header_len(frame)..).is_some_and(|data| data.starts_with(&[23, 3]))
    };
    let last = session.iter().position(|frame| is_data(frame) && frame[34..36] == port).unwrap();
    let answer = session.iter().skip(last).position(|f| is_data(f) && f[36..38] == port).unwrap();
    let handshake: Vec<Vec<u8>> = session[..=last + answer].iter().map(|f| (*f).clone()).collect();
    let data = session[last];
    let data_len =
        14 + u32::from(u16::from_be_bytes([data[16], data[17]])) - header_len(data) as u32;
    let next = u32::from_be_bytes(data[38..42].try_into().unwrap()).wrapping_add(data_len);
    let ends = [26, 30].map(|at| <[u8; 4]>::try_from(&data[at..at + 4]).unwrap());
    // A record of its own in each packet (RFC 5246, section 6.2).
    let record = [&[23, 3, 3, 1, 144][..], &[b'x'; 400]].concat();
    let rest = |n: u32| {
        let seq = next.wrapping_add(n * record.len() as u32);
        let segment = packets::tcp(seq, 1, 0x10, [57_592, 443], &record);
        [&data[..14], &packets::ipv4(6, 1, 0, ends, &segment)].concat()
    };
    for (workers, handling) in [("1", "default"), ("2", "default"), ("1", "full")] {
        let set = format!("app-layer.protocols.tls.encryption-handling={handling}");
        let base = ["-i", "in", "-k", "none", "--workers", workers, "--set", &set];
        let more = [
            "--set",
            "af-packet.0.interface=in",
            "--set",
            "af-packet.0.ring-size=1000",
            "--set",
            "stream.reassembly.depth=0",
        ];
        let sensor = wire.spawn("read", &[&base[..], &more].concat());
        wait_until("packets are read", || sensor.text("err").contains("in: packets are read"));
        wire.send(&handshake);
        wait_until("the handshake is done", || !sensor.records("tls").is_empty());
        sensor.signal(Signal::STOP);
        wire.send(&(0..6000).map(rest).collect::<Vec<_>>());
        sensor.signal(Signal::CONT);
        let log = sensor.log.clone();
        let (code, said) = sensor.terminate();
        assert_eq!(code, 0, "{said}");
        let of = |name: &str| {
            let stats = records(&log, "stats").pop().unwrap();
            stats["stats"].pointer(name).and_then(Value::as_u64).unwrap()
        };
        let (offered, dropped) = (of("/capture/kernel_packets"), of("/capture/kernel_drops"));
        assert_eq!(offered, 6000 + handshake.len() as u64, "{said}");
        assert!(dropped > 0, "the ring was full: {said}");
        let left_out = shed(&log, "pressure", "pressure_bypass");
        let rest = offered - dropped - handshake.len() as u64;
        let wanted = if handling == "full" { 0 } else { rest };
        assert_eq!(left_out, wanted, "{workers} {handling}: {said}");
        std::fs::remove_dir_all(&log).unwrap();
    }
}

/// The rest of a flow beyond the depth of reassembly, then records: each is counted with its reason, by one worker and by two,
/// and when the ring is read again all records are there.
#[test]
fn an_elephant_flow_and_records_are_shed_and_counted() {
    let test = "an_elephant_flow_and_records_are_shed_and_counted";
    let Some(wire) = Wire::new(test) else { return };
    let rules = wire.folder.path().join("my.rules");
    let rule = "alert tcp any any -> any 80 (msg:\"first\"; content:\"first\"; sid:1;)\n";
    std::fs::write(&rules, rule).unwrap();
    let rules = rules.display().to_string();
    let frame = |packet: &[u8]| [&b"\x02\0\0\0\0\x01\x02\0\0\0\0\x02\x08\0"[..], packet].concat();
    let part = |word: &[u8]| [word, &[b'x'; 400]].concat();
    let (there, to) = ([packets::CLIENT, packets::SERVER], [4000, 80]);
    let begin = packets::connection(4000, &(0..20).map(|_| part(b"first")).collect::<Vec<_>>());
    let begin: Vec<Vec<u8>> = begin.iter().map(|packet| frame(packet)).collect();
    let rest = |n: u32| {
        let seq = 1 + (20 + n) * 405;
        frame(&packets::ipv4(6, 1, 0, there, &packets::tcp(seq, 1, 0x18, to, &part(b"other"))))
    };
    let question = |n: u16| {
        let mut text =
            vec![0, 7, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0, 1, b'a' + (n % 26) as u8, 0, 0, 1, 0, 1];
        text[0..2].copy_from_slice(&n.to_be_bytes());
        frame(&packets::ipv4(17, n, 0, there, &packets::udp([10_000 + n, 53], &text)))
    };
    for workers in ["1", "2"] {
        let set = [
            "stream.reassembly.depth=2kb",
            "af-packet.0.interface=in",
            "af-packet.0.ring-size=1000",
        ];
        let mut arguments = vec![
            "--interface",
            "in",
            "--rules",
            &rules,
            "--checksums",
            "none",
            "--workers",
            workers,
        ];
        set.iter().for_each(|set| arguments.extend(["--set", set]));
        let sensor = wire.spawn("read", &arguments);
        wait_until("packets are read", || sensor.text("err").contains("in: packets are read"));
        wire.send(&begin);
        wait_until("it alerts", || !sensor.records("alert").is_empty());
        sensor.signal(Signal::STOP);
        let flood: Vec<Vec<u8>> = (0..6000)
            .flat_map(|n: u32| {
                if n.is_multiple_of(8) {
                    vec![question(n as u16 / 8), rest(n)]
                } else {
                    vec![rest(n)]
                }
            })
            .collect();
        wire.send(&flood);
        sensor.signal(Signal::CONT);
        // Time for both rings to be read.
        std::thread::sleep(Duration::from_secs(1));
        let later: Vec<Vec<u8>> = (2000..2020).map(question).collect();
        wire.send(&later);
        let asked = |sensor: &program::wire::Sensor| {
            let all = sensor.records("dns");
            all.iter().filter(|r| r["src_port"].as_u64() >= Some(12_000)).count()
        };
        wait_until("records come again", || asked(&sensor) == later.len());
        let log = sensor.log.clone();
        let (code, said) = sensor.terminate();
        assert_eq!(code, 0, "{said}");
        assert!(shed(&log, "pressure", "pressure_bypass") > 100, "{workers}: {said}");
        assert!(shed(&log, "records", "pressure_records") > 10, "{workers}: {said}");
        assert!(said.contains("pressure_bypass"), "{said}");
        std::fs::remove_dir_all(&log).unwrap();
    }
}
