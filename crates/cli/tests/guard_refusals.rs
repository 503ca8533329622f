//! What `gabion guard` refuses, each in one line, and what it does for signals, in a network namespace that the tests make.
//!
//! The tests need root, `ip` and BPF, and are skipped by name without.
#![allow(clippy::disallowed_methods, reason = "packets and signals come by the clock")]

mod program;

use program::command;
use rustix::process::{Pid, Signal, kill_process};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use serde_json::Value;
use std::io::{BufRead, BufReader, Read};
use std::net::UdpSocket;
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::Receiver;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

/// A namespace with both ends of a link: packets that leave `gr0` arrive at `gr1`.
struct Place {
    space: String,
    folder: tempfile::TempDir,
    _one: MutexGuard<'static, ()>,
}

impl Place {
    /// None, after a line that names the test and the reason, where this machine can't run it.
    fn new(test: &str) -> Option<Place> {
        let one = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
        let skip = |why: &str| eprintln!("skipped: {test}: {why}");
        if !rustix::process::geteuid().is_root() {
            skip("needs root");
            return None;
        }
        let features = program::gabion(&["probe", "check"]).out;
        let is_here = |name: &str| features.lines().any(|l| l.starts_with(&format!("yes {name} ")));
        if !is_here("xdp") || !is_here("softirq") {
            skip("this kernel or build has no XDP or softirq programs");
            return None;
        }
        let space = format!("gabion-refusals-{}", std::process::id());
        let place = Place { space, folder: tempfile::tempdir().unwrap(), _one: one };
        let made = place.ip_netns("add")
            && place.shell(
                "echo 1 > /proc/sys/net/ipv6/conf/all/disable_ipv6
                 ip link add gr0 type veth peer name gr1 && ip link set lo up &&
                 ip link set gr0 address 02:00:00:00:00:01 && ip link set gr0 up &&
                 ip link set gr1 address 02:00:00:00:00:02 && ip link set gr1 up &&
                 ip addr add 10.97.0.1/24 dev gr0 &&
                 ip neigh add 10.97.0.2 lladdr 02:00:00:00:00:02 dev gr0 && sleep 0.3 && echo made",
            ) == "made\n";
        if !made {
            skip("ip can't make a namespace with a link");
            return None;
        }
        Some(place)
    }

    fn ip_netns(&self, verb: &str) -> bool {
        let done = Command::new("ip").args(["netns", verb, &self.space]).status();
        done.is_ok_and(|status| status.success())
    }

    /// What a shell prints in the namespace.
    fn shell(&self, text: &str) -> String {
        let inside = ["netns", "exec", &self.space, "sh", "-c", text];
        let done = Command::new("ip").args(inside).output().unwrap();
        String::from_utf8_lossy(&done.stdout).into_owned()
    }

    /// A command of the program in the namespace, started by `prefix`.
    fn gabion(&self, prefix: &[&str], arguments: &[&str]) -> Command {
        let own = command(arguments);
        let mut inside = Command::new("ip");
        inside.args(["netns", "exec", &self.space]).args(prefix);
        inside.arg(own.get_program()).args(own.get_args());
        inside.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        inside
    }

    /// `guard enforce` on this interface, with records of undoing in the test's folder.
    fn enforce(&self, interface: &str, more: &[&str]) -> Command {
        let undo = self.folder.path().join("undo").display().to_string();
        let fixed = ["guard", "enforce", "--interface", interface, "--undo-dir", &undo, "--json"];
        let all: Vec<&str> = fixed.iter().chain(more).copied().collect();
        self.gabion(&[], &all)
    }

    fn is_attached(&self) -> bool {
        self.shell("ip link show gr1").contains("xdp")
    }

    /// Threads that send datagrams from `gr0` to port 9 behind `gr1` until they are dropped, with a pause after each
    /// `burst`.
    fn send(&self, threads: usize, burst: u64, pause: Duration) -> Senders {
        let stop = Arc::new(AtomicBool::new(false));
        let thread = |_| {
            let (space, stop) = (self.space.clone(), Arc::clone(&stop));
            std::thread::spawn(move || {
                let file = std::fs::File::open(PathBuf::from("/run/netns").join(space)).unwrap();
                move_into_link_name_space(file.as_fd(), Some(LinkNameSpaceType::Network)).unwrap();
                let socket = UdpSocket::bind("10.97.0.1:0").unwrap();
                let mut n = 0_u64;
                while !stop.load(Ordering::Relaxed) {
                    let _ = socket.send_to(&[0; 18], "10.97.0.2:9");
                    n += 1;
                    if n.is_multiple_of(burst) {
                        std::thread::sleep(pause);
                    }
                }
            })
        };
        let threads = (0..threads).map(thread).collect();
        Senders { stop, threads }
    }

    /// Some datagrams each second.
    fn trickle(&self) -> Senders {
        self.send(1, 1, Duration::from_millis(10))
    }
}

struct Senders {
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl Drop for Senders {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        self.threads.drain(..).for_each(|thread| thread.join().unwrap());
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.ip_netns("del");
    }
}

/// What ended with this exit code and one line, besides those about instruments.
fn refused(done: &Output) -> String {
    let err = String::from_utf8_lossy(&done.stderr).into_owned();
    let lines: Vec<&str> = err.lines().filter(|line| !line.contains("absent: ")).collect();
    assert_eq!((done.status.code(), lines.len()), (Some(4), 1), "{err}");
    lines[0].to_owned()
}

/// A guard that runs: the objects of its seconds, and its lines.
struct Guard {
    child: Child,
    seconds: Receiver<Value>,
    lines: Receiver<String>,
}

impl Guard {
    fn start(mut command: Command) -> Guard {
        let mut child = command.spawn().unwrap();
        let (out, err) = (child.stdout.take().unwrap(), child.stderr.take().unwrap());
        let (to, seconds) = std::sync::mpsc::channel();
        std::thread::spawn(move || {
            let lines = BufReader::new(out).lines().map_while(Result::ok);
            let mut values = lines.map(|line| serde_json::from_str(&line).unwrap());
            values.all(|value| to.send(value).is_ok())
        });
        let (to, lines) = std::sync::mpsc::channel();
        std::thread::spawn(move || {
            BufReader::new(err).lines().map_while(Result::ok).all(|line| to.send(line).is_ok())
        });
        Guard { child, seconds, lines }
    }

    fn second(&self) -> Value {
        self.seconds.recv_timeout(Duration::from_secs(120)).expect("a line each second")
    }

    /// The next line with this text.
    fn line(&self, text: &str) -> String {
        let began = Instant::now();
        let mut seen = Vec::new();
        while began.elapsed() < Duration::from_secs(60) {
            match self.lines.recv_timeout(Duration::from_secs(60)) {
                Ok(line) if line.contains(text) => return line,
                Ok(line) => seen.push(line),
                Err(_) => break,
            }
        }
        panic!("no line has {text:?}: {seen:?}");
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    /// Waits for its end: exit code, the last object, all lines that are left.
    fn end(mut self) -> (i32, Value, String) {
        let code = self.child.wait().unwrap().code().unwrap_or(-1);
        let last = self.seconds.iter().last().unwrap_or_default();
        (code, last, self.lines.iter().collect::<Vec<_>>().join("\n"))
    }
}

fn sum(value: &Value, path: &str) -> u64 {
    let all = value.pointer(path).and_then(Value::as_object);
    all.unwrap_or_else(|| panic!("{path}: {value}")).values().filter_map(Value::as_u64).sum()
}

fn number(value: &Value, path: &str) -> u64 {
    value.pointer(path).and_then(Value::as_u64).unwrap_or_else(|| panic!("{path}: {value}"))
}

/// Without the kernel's type information nothing live can be had: one line, at once.
#[test]
fn a_kernel_without_btf_is_one_line() {
    let test = "a_kernel_without_btf_is_one_line";
    let Some(place) = Place::new(test) else { return };
    let hidden = "mount -t tmpfs none /sys/kernel/btf && exec \"$@\"";
    let prefix = ["unshare", "-m", "sh", "-c", hidden, "sh"];
    let probe = place.gabion(&prefix, &["probe", "check"]).output().unwrap();
    let text = String::from_utf8_lossy(&probe.stdout);
    if text.is_empty() || text.lines().any(|line| line.starts_with("yes btf ")) {
        eprintln!("skipped: {test}: /sys/kernel/btf can't be hidden: {text}");
        return;
    }
    let undo = place.folder.path().display().to_string();
    for arguments in [
        vec!["guard", "watch", "--seconds", "1"],
        vec![
            "guard",
            "enforce",
            "--interface",
            "gr1",
            "--allow",
            "tcp/22",
            "--seconds",
            "1",
            "--undo-dir",
            &undo,
        ],
    ] {
        let line = refused(&place.gabion(&prefix, &arguments).output().unwrap());
        assert!(line.contains("BTF") && line.contains("/sys/kernel/btf/vmlinux"), "{line}");
    }
    assert!(!place.is_attached());
}

/// The program of somebody else stays where it is, and is named by number and name.
#[test]
fn a_foreign_program_on_the_interface_is_named() {
    let test = "a_foreign_program_on_the_interface_is_named";
    let Some(place) = Place::new(test) else { return };
    let object = place.folder.path().join("empty.o");
    std::fs::write(&object, gabion_probe::object::compiled("empty_xdp").unwrap()).unwrap();
    for (mode, shown) in [("xdpdrv", "xdp/id:"), ("xdpgeneric", "xdpgeneric/id:")] {
        place.shell(&format!("ip link set dev gr1 {mode} obj {} sec xdp", object.display()));
        let before = place.shell("ip link show gr1");
        let Some((_, number)) = before.split_once("prog/xdp id ") else {
            eprintln!("skipped: {test}: ip can't attach a program: {before}");
            return;
        };
        let number = number.split_whitespace().next().unwrap();
        for more in [&["--allow", "tcp/22"][..], &["--allow", "tcp/22", "--generic"]] {
            let line = refused(&place.enforce("gr1", more).output().unwrap());
            let named = format!("program {number} (empty) is attached");
            assert!(line.contains(&named), "{mode} {shown} {more:?}: {line}");
        }
        assert_eq!(place.shell("ip link show gr1"), before, "it stays as it was");
        place.shell(&format!("ip link set dev gr1 {mode} off"));
    }
    let mut guard = place.enforce("gr1", &["--allow", "tcp/22", "--seconds", "1"]);
    assert_eq!(guard.output().unwrap().status.code(), Some(0), "the way is free again");
}

/// SIGHUP reads the file again; a list with an error leaves the one in force, and is reported.
#[test]
fn sighup_reads_the_allow_list_again_and_keeps_it_over_an_error() {
    let test = "sighup_reads_the_allow_list_again_and_keeps_it_over_an_error";
    let Some(place) = Place::new(test) else { return };
    let file = place.folder.path().join("allowed");
    let write = |text: &str| std::fs::write(&file, text).unwrap();
    write("tcp/22\n");
    let path = file.display().to_string();
    let guard = Guard::start(place.enforce("gr1", &["--allow-file", &path]));
    guard.second();
    let sender = place.trickle();
    let passed = |second: &Value| {
        let of = |name: &str| number(second, &format!("/throttle/admitted/{name}"));
        (of("allowed"), of("known") + of("new"))
    };
    // Of the second that a change falls into both kinds may have some.
    let next = || (guard.second(), guard.second()).1;
    let first = passed(&next());
    assert!(first.0 == 0 && first.1 > 0, "{first:?}");
    write("tcp/22\nudp/9\n");
    guard.signal(Signal::HUP);
    guard.line("the allow-list was read again");
    let (before, after) = (passed(&next()), passed(&next()));
    assert!(after.0 > before.0 && after.1 == before.1, "{before:?} {after:?}");
    for bad in ["udp/nine\n", ""] {
        write(bad);
        guard.signal(Signal::HUP);
        guard.line("the allow-list stays as it was");
        let (before, after) = (passed(&next()), passed(&next()));
        assert!(after.0 > before.0 && after.1 == before.1, "{bad:?}: {before:?} {after:?}");
    }
    write("tcp/22\n");
    guard.signal(Signal::HUP);
    guard.line("the allow-list was read again");
    let (before, after) = (passed(&next()), passed(&next()));
    assert!(after.0 == before.0 && after.1 > before.1, "{before:?} {after:?}");
    guard.signal(Signal::TERM);
    assert_eq!(guard.end().0, 0);
    drop(sender);
}

/// SIGINT ends the guard as SIGTERM does: it undoes, detaches, accounts for each packet, and reports success.
#[test]
fn sigint_and_sigterm_detach_undo_and_balance() {
    let test = "sigint_and_sigterm_detach_undo_and_balance";
    let Some(place) = Place::new(test) else { return };
    let threaded = || place.shell("cat /sys/class/net/gr1/threaded").trim().to_owned();
    let has_threads = threaded() == "0";
    for signal in [Signal::INT, Signal::TERM] {
        let mut more = vec!["--allow", "tcp/22"];
        if has_threads {
            more.extend(["--also", "threaded"]);
        }
        let guard = Guard::start(place.enforce("gr1", &more));
        guard.second();
        assert!(place.is_attached());
        assert!(!has_threads || threaded() == "1");
        let sender = place.trickle();
        guard.second();
        guard.second();
        drop(sender);
        guard.signal(signal);
        let (code, end, lines) = guard.end();
        assert_eq!(code, 0, "{signal:?}: {lines}");
        assert_eq!(end["event"], "detached", "{signal:?}");
        let (received, passed) =
            (number(&end, "/throttle/received"), number(&end, "/throttle/passed"));
        assert!(received > 0);
        assert_eq!(received, passed + sum(&end, "/throttle/dropped"), "{end}");
        assert_eq!(passed, sum(&end, "/throttle/admitted"), "{end}");
        assert!(!place.is_attached(), "{signal:?}");
        assert!(!has_threads || threaded() == "0", "{signal:?}");
        let undo = place.folder.path().join("undo");
        assert_eq!(std::fs::read_dir(undo).map_or(0, Iterator::count), 0, "{signal:?}");
    }
}

/// Without CAP_NET_ADMIN packet heads can't be sampled: the line of an incident has place and rate, and says so.
#[test]
fn without_net_admin_an_incident_has_place_and_rate() {
    let test = "without_net_admin_an_incident_has_place_and_rate";
    let Some(place) = Place::new(test) else { return };
    // The kernel takes CAP_SYS_ADMIN for it too.
    let prefix = ["setpriv", "--bounding-set=-net_admin,-sys_admin", "--inh-caps=-all"];
    let watch = ["guard", "watch", "--interface", "gr1", "--json"];
    if Command::new("setpriv").arg("--version").output().is_err() {
        eprintln!("skipped: {test}: no setpriv");
        return;
    }
    let guard = Guard::start(place.gabion(&prefix, &watch));
    guard.line("absent: packet heads");
    guard.second();
    // A sender that never sleeps would delay grace periods by itself.
    let flood = place.send(2, 512, Duration::from_nanos(1));
    let mut incident = None;
    for _ in 0..5 {
        let second = guard.second();
        incident = second["incident"].as_str().map(str::to_owned).or(incident);
    }
    drop(flood);
    guard.signal(Signal::TERM);
    let (code, _, lines) = guard.end();
    assert_eq!(code, 0, "{lines}");
    let Some(line) = incident.filter(|line| !line.contains("not packets")) else {
        eprintln!("skipped: {test}: the flood of this machine is no incident");
        return;
    };
    assert!(line.contains("flows not sampled"), "{line}");
    assert!(line.contains("gr1 CPU") && line.contains("kpps"), "{line}");
}

/// Less than 5 % holds nothing, more than 90 % leaves nothing.
#[test]
fn budgets_from_5_to_90_are_taken() {
    for budget in ["4", "95", "0", "101", "-5", "x"] {
        let all = ["guard", "enforce", "--interface", "gr1", "--allow", "tcp/22"];
        let done = command(&all).args([format!("--budget={budget}")]).output().unwrap();
        let err = String::from_utf8_lossy(&done.stderr);
        assert_eq!(done.status.code(), Some(2), "{budget}: {err}");
        assert!(err.contains("--budget"), "{budget}: {err}");
    }
    let Some(place) = Place::new("budgets_from_5_to_90_are_taken") else { return };
    for (budget, ns) in [("5", 200_000), ("90", 3_600_000)] {
        let more = ["--allow", "tcp/22", "--seconds", "2", "--budget", budget];
        let mut child = place.enforce("gr1", &more).spawn().unwrap();
        let (mut out, mut err) = (String::new(), String::new());
        child.stdout.take().unwrap().read_to_string(&mut out).unwrap();
        child.stderr.take().unwrap().read_to_string(&mut err).unwrap();
        assert_eq!(child.wait().unwrap().code(), Some(0), "{err}");
        let first: Value = serde_json::from_str(out.lines().next().unwrap()).unwrap();
        assert_eq!(number(&first, "/throttle/budget_ns"), ns, "{first}");
    }
}
