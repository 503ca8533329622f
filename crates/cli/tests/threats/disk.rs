//! Disks that fail. A small file system of its own is filled to its end: that needs the right to mount
//! one, in a name space of its own if nowhere else.

use super::Threat;
use super::host::{Host, Relp};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

pub(crate) fn rows() -> Vec<Threat> {
    vec![Threat {
        number: 47,
        attack: "the disk is full (on an error of a write or a sync: rows 31 and 32, for every operation)",
        by: "C",
        verdict: "what was acknowledged is there; `block`: senders wait, and continue when there is space; `drop`: \
                      counted by source, not acknowledged; `--spill`: another log takes over, and this one states its end",
        place: "`full`, `room`, `loss` and `spill` records",
        exit: "0; 4 when asked to stop while full",
        residual: "",
        run: full,
    }]
}

/// A file system of two MiB, and a process that keeps it mounted.
struct Small {
    keeper: Child,
    path: PathBuf,
    scratch: tempfile::TempDir,
}

impl Small {
    fn mounted() -> Result<Small, &'static str> {
        let scratch = tempfile::tempdir().expect("a folder");
        std::fs::create_dir(scratch.path().join("disk")).expect("a folder");
        let script = "mount -t tmpfs -o size=2m none disk && echo mounted && exec sleep 600";
        let mut keeper = Command::new("unshare")
            .args(["--user", "--map-root-user", "--mount", "sh", "-c", script])
            .current_dir(scratch.path())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .map_err(|_| "no program unshare")?;
        let mut said = [0; 7];
        let mut out = keeper.stdout.take().expect("piped");
        if std::io::Read::read_exact(&mut out, &mut said).is_err() {
            let _ = keeper.wait();
            return Err("no file system can be mounted here");
        }
        // What is mounted there is seen by others through the process that sees it.
        let path = PathBuf::from(format!("/proc/{}/cwd", keeper.id()));
        let path = path.join("disk");
        let small = Small { keeper, path, scratch };
        if std::fs::write(small.path.join("probe"), b"x").is_err() {
            return Err("what is mounted in another name space can't be written to");
        }
        let is_small =
            rustix::fs::statvfs(&small.path).is_ok_and(|s| s.f_blocks * s.f_frsize <= 2 << 20);
        if !is_small { Err("the mounted file system is not seen") } else { Ok(small) }
    }

    fn log(&self) -> String {
        self.path.join("log").display().to_string()
    }

    /// Fills it to the last byte with a file next to the log.
    fn fill(&self) {
        let ballast = vec![b'x'; 4 << 20];
        let path = self.path.join("ballast");
        assert!(std::fs::write(path, ballast).is_err(), "the disk is full now");
    }

    fn clear(&self) {
        std::fs::remove_file(self.path.join("ballast")).expect("removed");
    }
}

impl Drop for Small {
    fn drop(&mut self) {
        let _ = self.keeper.kill();
        let _ = self.keeper.wait();
    }
}

/// Text that does not compress.
fn noise(number: u64) -> String {
    let mut x = number.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut text = format!("<13>host app: {number} ");
    while text.len() < 8_000 {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        text.push_str(&format!("{x:016x}"));
    }
    text
}

/// Sends until no answer comes for two seconds; numbers that were answered, and one that was not.
fn send_until_silent(relp: &mut Relp, from: u64) -> (Vec<u64>, u64) {
    let mut answered = Vec::new();
    for number in from..from + 10_000 {
        let frame = relp.send(&noise(number));
        if !relp.is_answered(frame, Duration::from_secs(2)) {
            return (answered, frame);
        }
        answered.push(number);
    }
    panic!("the disk was never full");
}

/// Which numbers a log holds.
fn numbers(host: &Host, log: &str) -> Vec<u64> {
    let texts = host.messages(log).into_iter();
    texts
        .filter_map(|t| t.strip_prefix("<13>host app: ")?.split(' ').next()?.parse().ok())
        .collect()
}

fn statements(host: &Host, log: &str, kind: &str) -> Vec<Value> {
    let all = host.records(log, "system").into_iter().map(|mut r| r["data"].take());
    all.filter(|d| d["type"] == kind).collect()
}

fn start(small: &Small, folder: &Path, options: &[&str]) -> Host {
    let all = [&["--relp", "127.0.0.1:0", "--udp", "127.0.0.1:0"], options].concat();
    Host::at(folder, &small.log(), &all)
}

fn full() -> Result<(), &'static str> {
    blocked()?;
    dropped()?;
    spilled()
}

fn blocked() -> Result<(), &'static str> {
    let small = Small::mounted()?;
    let mut host = start(&small, small.scratch.path(), &[]);
    let mut relp = host.relp();
    let first = relp.send(&noise(0));
    relp.answered(first);
    small.fill();
    let (answered, waiting) = send_until_silent(&mut relp, 1);
    assert!(host.is_running());
    // With room again, the message that waited is sealed and answered.
    small.clear();
    relp.answered(waiting);
    let last = relp.send(&noise(20_000));
    relp.answered(last);
    let (code, said) = host.stop();
    assert_eq!(code, Some(0), "{said}");
    let there = numbers(&host, &small.log());
    assert!(
        [0, 20_000].iter().chain(&answered).all(|n| there.contains(n)),
        "{answered:?} {there:?}"
    );
    assert_eq!(statements(&host, &small.log(), "full").len(), 1, "{said}");
    assert_eq!(statements(&host, &small.log(), "room").len(), 1, "{said}");
    assert_eq!(host.log(&["verify", &small.log(), "--key", "reader", "--deep"]).0, Some(10));
    // Asked to stop while it is full: exit code 4, and nothing acknowledged is missing.
    let mut host = start(&small, small.scratch.path(), &[]);
    let mut relp = host.relp();
    small.fill();
    let (more, _) = send_until_silent(&mut relp, 30_000);
    let (code, said) = host.stop();
    assert_eq!(code, Some(4), "{said}");
    small.clear();
    let there = numbers(&host, &small.log());
    assert!(answered.iter().chain(&more).all(|n| there.contains(n)), "{more:?} {there:?}");
    let (code, said) = host.log(&["verify", &small.log()]);
    assert!(code == Some(10) || code == Some(12), "{said}");
    Ok(())
}

fn dropped() -> Result<(), &'static str> {
    let small = Small::mounted()?;
    let mut host = start(&small, small.scratch.path(), &["--on-full", "drop"]);
    let mut relp = host.relp();
    small.fill();
    let (answered, _) = send_until_silent(&mut relp, 0);
    let udp = std::net::UdpSocket::bind("127.0.0.1:0").expect("a socket");
    for number in 0..50 {
        udp.send_to(format!("<13>shed {number}").as_bytes(), host.address("udp")).expect("sent");
    }
    std::thread::sleep(Duration::from_millis(500));
    small.clear();
    std::thread::sleep(Duration::from_millis(1_500));
    let mut again = host.relp();
    let last = again.send(&noise(20_000));
    again.answered(last);
    let (code, said) = host.stop();
    assert_eq!(code, Some(0), "{said}");
    let there = numbers(&host, &small.log());
    assert!([20_000].iter().chain(&answered).all(|n| there.contains(n)), "{answered:?} {there:?}");
    let losses = statements(&host, &small.log(), "loss");
    let lost: u64 = losses
        .iter()
        .filter(|l| l["reason"] == "disk_full" && l["peer"] == "127.0.0.1")
        .filter_map(|l| l["messages"].as_u64())
        .sum();
    let stored = host.messages(&small.log()).iter().filter(|m| m.contains("shed ")).count();
    // The fifty of UDP, and what was sent over RELP and never answered.
    assert_eq!(lost, 50 - stored as u64 + 1, "{losses:?} {said}");
    let room = statements(&host, &small.log(), "room");
    assert_eq!(room.first().and_then(|r| r["shed"].as_u64()), Some(lost), "{room:?}");
    assert_eq!(host.log(&["verify", &small.log(), "--key", "reader"]).0, Some(10));
    Ok(())
}

fn spilled() -> Result<(), &'static str> {
    let small = Small::mounted()?;
    let mut host = start(&small, small.scratch.path(), &["--spill", "aside"]);
    let mut relp = host.relp();
    small.fill();
    // More than what is left: all of it is answered.
    for number in 0..400 {
        let frame = relp.send(&noise(number));
        relp.answered(frame);
    }
    small.clear();
    std::thread::sleep(Duration::from_millis(1_500));
    let last = relp.send(&noise(20_000));
    relp.answered(last);
    let (code, said) = host.stop();
    assert_eq!(code, Some(0), "{said}");
    let (first, aside) = (numbers(&host, &small.log()), numbers(&host, "aside"));
    assert!(!aside.is_empty() && first.contains(&20_000), "{said}");
    let missing: Vec<u64> = (0..400).filter(|n| !first.contains(n) && !aside.contains(n)).collect();
    assert!(missing.is_empty(), "{missing:?}: {said}");
    // The first log holds the end of the second, so both stand and fall together.
    let spilled = statements(&host, &small.log(), "spill");
    let (_, note) = host.log(&["checkpoint", "aside"]);
    let mut lines = note.lines();
    assert_eq!(spilled.last().and_then(|t| t["origin"].as_str()), lines.next(), "{spilled:?}");
    assert_eq!(spilled.last().map(|t| t["size"].to_string()).as_deref(), lines.next());
    assert_eq!(spilled.last().and_then(|t| t["root"].as_str()), lines.next());
    for log in [small.log().as_str(), "aside"] {
        assert_eq!(host.log(&["verify", log, "--key", "reader"]).0, Some(10), "{log}");
    }
    Ok(())
}
