//! A network namespace with links that a test writes frames to and the program reads from.

use super::command;
use gabion_runtime::sockets::packets::{bind_packet_socket, find_interface, open_packet_socket};
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

/// Runs `ip` with these arguments.
pub fn ip(arguments: &str) -> bool {
    let done = Command::new("ip").args(arguments.split(' ')).stderr(Stdio::null()).status();
    done.is_ok_and(|status| status.success())
}

/// Waits for something that another process does.
#[track_caller]
#[allow(clippy::disallowed_methods, reason = "waits for another process, by the clock")]
pub fn wait_until(what: &str, mut is_true: impl FnMut() -> bool) {
    let began = Instant::now();
    while !is_true() {
        assert!(began.elapsed() < Duration::from_secs(60), "{what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// A namespace with a link: what is written to `out` arrives at `in`.
pub struct Wire {
    pub space: String,
    pub folder: tempfile::TempDir,
}

impl Drop for Wire {
    fn drop(&mut self) {
        ip(&format!("netns del {}", self.space));
    }
}

impl Wire {
    /// None, after a line that names the test and the reason, where this machine can't run it.
    pub fn new(test: &str) -> Option<Wire> {
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

    /// Adds a link: what is written to the first name arrives at the second.
    pub fn add_link(&self, out: &str, into: &str) {
        let space = &self.space;
        for step in [
            format!("link add {out} mtu 9000 type veth peer name {into} mtu 9000"),
            format!("link set {out} up"),
            format!("link set {into} up"),
        ] {
            assert!(ip(&format!("-n {space} {step}")), "{step}");
        }
    }

    /// Starts the program inside, with this verb.
    pub fn spawn(&self, verb: &str, more: &[&str]) -> Sensor {
        self.spawn_by(&[], verb, more)
    }

    /// The same, started by another program, which replaces itself with it.
    pub fn spawn_by(&self, by: &[&str], verb: &str, more: &[&str]) -> Sensor {
        let own = command(&[verb]);
        let mut inside = Command::new("ip");
        inside.args(["netns", "exec", &self.space]).args(by).arg(own.get_program());
        inside.args(own.get_args());
        let log = self.folder.path().join("run");
        std::fs::create_dir_all(&log).unwrap();
        inside.arg("-l").arg(&log).args(more).stdin(Stdio::null());
        let said = File::create(log.join("said")).unwrap();
        inside.stdout(said).stderr(File::create(log.join("err")).unwrap());
        Sensor { child: inside.spawn().unwrap(), log }
    }

    /// Starts the program with Suricata's options, and waits until it reads.
    pub fn start(&self, more: &[&str]) -> Sensor {
        self.start_by(&[], more)
    }

    /// The same, started by another program, which replaces itself with it.
    pub fn start_by(&self, by: &[&str], more: &[&str]) -> Sensor {
        let sensor = self.spawn_by(by, "suricata", more);
        wait_until("the engine starts", || sensor.text("said").contains("engine started"));
        sensor
    }

    /// Writes frames to the wire.
    pub fn send(&self, frames: &[Vec<u8>]) {
        self.send_to("out", frames);
    }

    /// Writes frames to this link.
    pub fn send_to(&self, link: &str, frames: &[Vec<u8>]) {
        let link = link.to_owned();
        let space = self.space.clone();
        let frames = frames.to_vec();
        // A thread of its own, since it stays in the namespace.
        let sending = std::thread::spawn(move || {
            let space = File::open(format!("/run/netns/{space}")).unwrap();
            move_into_link_name_space(space.as_fd(), Some(LinkNameSpaceType::Network)).unwrap();
            let socket = open_packet_socket().unwrap();
            let out = find_interface(socket.as_fd(), &link).unwrap();
            bind_packet_socket(socket.as_fd(), out.index).unwrap();
            let mut to = File::from(socket);
            for frame in &frames {
                to.write_all(frame).unwrap();
            }
        });
        sending.join().unwrap();
    }
}

/// The program that reads.
pub struct Sensor {
    pub child: Child,
    pub log: PathBuf,
}

impl Sensor {
    pub fn text(&self, name: &str) -> String {
        std::fs::read_to_string(self.log.join(name)).unwrap_or_default()
    }

    pub fn records(&self, kind: &str) -> Vec<Value> {
        records(&self.log, kind)
    }

    /// Asks it to stop; returns the exit code and what it printed.
    pub fn stop(self) -> (i32, String) {
        self.end_by(Signal::INT)
    }

    /// Asks it to stop as a service manager does.
    pub fn terminate(self) -> (i32, String) {
        self.end_by(Signal::TERM)
    }

    /// Sends it a signal.
    pub fn signal(&self, signal: Signal) {
        // `ip netns exec` replaces itself with the program.
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    fn end_by(mut self, signal: Signal) -> (i32, String) {
        self.signal(signal);
        let code = self.child.wait().unwrap().code().unwrap_or(-1);
        (code, self.text("said") + &self.text("err"))
    }
}

/// The records of this kind in a folder.
pub fn records(folder: &Path, kind: &str) -> Vec<Value> {
    let text = std::fs::read_to_string(folder.join("eve.json")).unwrap_or_default();
    let all = text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    all.filter(|record| record["event_type"] == kind).collect()
}

/// Source ports of a run's flows, sorted.
pub fn ports_of_flows(folder: &Path) -> Vec<u64> {
    let flows = records(folder, "flow");
    let mut ports: Vec<u64> = flows.iter().map(|r| r["src_port"].as_u64().unwrap_or(0)).collect();
    ports.sort_unstable();
    ports
}
