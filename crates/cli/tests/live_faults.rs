//! What goes wrong with interfaces: rights and memory that are missing, interfaces that are removed, moved or changed,
//! a sensor that is stopped or killed. Each is one clear line and its exit code, or a counter.
//!
//! The tests need root and `ip`, and are skipped by name without.
#![allow(clippy::disallowed_methods, reason = "frames and signals come by the clock")]

mod program;

use program::wire::{Wire, ip, records, wait_until};
use program::{command, packets, ran};
use rustix::process::Signal;
use serde_json::Value;
use std::process::Command;
use std::time::Duration;

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
    refused.refuses(4, &["in: no ring of 2147483648 bytes", "ring-size"]);
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
    let flows = records(&log, "flow");
    let mut ports: Vec<u64> = flows.iter().map(|r| r["src_port"].as_u64().unwrap_or(0)).collect();
    ports.sort_unstable();
    assert_eq!(ports, [4001, 4002], "{said}");
    assert_eq!(said.matches("down or away").count(), 1, "{said}");
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
        assert!(said.contains(&format!("the kernel dropped {dropped} of 20002 frames")), "{said}");
        std::fs::remove_dir_all(&log).unwrap();
    }
}

#[test]
fn a_killed_sensor_leaves_nothing_that_stops_the_next() {
    let Some(wire) = Wire::new("a_killed_sensor_leaves_nothing_that_stops_the_next") else {
        return;
    };
    let base = ["--af-packet=in", "--disable-detection", "--set", "af-packet.0.interface=in"];
    let arguments = [&base[..], &["--set", "af-packet.0.threads=2"]].concat();
    let mut first = wire.start(&arguments);
    first.signal(Signal::KILL);
    first.child.wait().unwrap();
    std::fs::remove_dir_all(&first.log).unwrap();
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

/// A ring that runs full sheds in a stated order, what is pinned is still inspected, and all ends when it is read.
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
    let base = ["--af-packet=in", "-S", &rules, "-k", "none", "--set", "pinned-rules=2-3"];
    let ring = ["--set", "af-packet.0.interface=in", "--set", "af-packet.0.ring-size=1000"];
    let sensor = wire.start(&[&base[..], &ring].concat());
    sensor.signal(Signal::STOP);
    // Each flow of its own; the ring has room for about 2,500 of them.
    let flood: Vec<Vec<u8>> = (0..6000).map(|n| to(1000 + n, 9 + n % 2)).collect();
    wire.send(&flood);
    sensor.signal(Signal::CONT);
    std::thread::sleep(Duration::from_millis(800));
    let before = sensor.records("alert").len();
    wire.send(&[to(60_000, 9), to(60_001, 10)]);
    wire_alerts(&sensor, before + 2);
    let log = sensor.log.clone();
    let (code, said) = sensor.stop();
    assert_eq!(code, 0, "{said}");
    let alerts = records(&log, "alert");
    let of = |sid: u64| alerts.iter().filter(|r| r["alert"]["signature_id"] == sid).count();
    let flows = records(&log, "flow");
    let seen = |port: u64| flows.iter().filter(|r| r["dest_port"] == port).count();
    assert_eq!(of(2), seen(10), "what is pinned is inspected: {said}");
    assert!(of(1) < seen(9) && of(1) > 0, "{} of {}: {said}", of(1), seen(9));
    assert!(said.contains("ledger"), "{said}");
}

fn wire_alerts(sensor: &program::wire::Sensor, wanted: usize) {
    wait_until("alerts come again", || sensor.records("alert").len() >= wanted);
}
