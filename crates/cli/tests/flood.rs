//! A flood of spoofed sources in a memory cgroup of 256 MiB that the test makes: the run ends well, the
//! kernel kills nobody, every ledger balances, and the scanner that hides in the flood is found.
//!
//! Where no memory cgroup can be made (no root, none mounted) the test says so and passes. A million
//! flows by default, enough to fold profiles; `GABION_FLOOD=10000000` for as many as the published bar
//! names (`make lab-behavior` reads as many with the release build).

mod program;

use serde_json::Value;
use std::fs;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Bytes that all of the program may use, page cache included.
const LIMIT: u64 = 256 << 20;
/// The scanner that hides in the flood, on port 23, and the number of its flows to each target.
const SCANNER: &str = "203.0.113.9";
const SCANS_EACH: u64 = 5000;

/// A memory cgroup, of version 2 or 1, removed with the test.
struct Cgroup {
    folder: PathBuf,
    is_v2: bool,
}

impl Cgroup {
    fn make(name: &str) -> Option<Cgroup> {
        let base = Path::new("/sys/fs/cgroup");
        let places = [
            (base.to_owned(), true, "memory.max"),
            (base.join("memory"), false, "memory.limit_in_bytes"),
        ];
        places.into_iter().find_map(|(base, is_v2, limit)| {
            let made = Cgroup { folder: base.join(name), is_v2 };
            fs::create_dir(&made.folder).ok()?;
            if is_v2 && !made.folder.join(limit).exists() {
                // Children of the root may have the controller when the root says so.
                let _ = fs::write(base.join("cgroup.subtree_control"), "+memory");
            }
            // What is no cgroup would take any file: here it has to be there already.
            let is_there = made.folder.join(limit).exists();
            (is_there && fs::write(made.folder.join(limit), LIMIT.to_string()).is_ok())
                .then_some(made)
        })
    }

    fn read(&self, v2: &str, v1: &str) -> String {
        fs::read_to_string(self.folder.join(if self.is_v2 { v2 } else { v1 })).unwrap_or_default()
    }

    fn kills(&self) -> u64 {
        let text = self.read("memory.events", "memory.oom_control");
        let number = |l: &str| l.strip_prefix("oom_kill ")?.trim().parse().ok();
        text.lines().find_map(number).expect("the kernel counts kills")
    }

    fn peak(&self) -> u64 {
        self.read("memory.peak", "memory.max_usage_in_bytes").trim().parse().unwrap_or(0)
    }

    /// `gabion` with these arguments as a member: it enters before it becomes the program.
    fn gabion(&self, args: &[&str]) -> program::Ran {
        let mut shell = Command::new("sh");
        shell.args(["-c", "echo $$ > \"$0\" && exec \"$@\""]);
        shell.arg(self.folder.join("cgroup.procs")).arg(env!("CARGO_BIN_EXE_gabion")).args(args);
        program::ran(shell.output().unwrap())
    }
}

impl Drop for Cgroup {
    fn drop(&mut self) {
        // Empty once its last process is reaped, which may take the kernel a moment.
        for _ in 0..100 {
            if fs::remove_dir(&self.folder).is_ok() {
                return;
            }
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
    }
}

/// Flows that get no answer, each of another source but those of the scanner, over one hour.
fn flood(path: &Path, count: u64) {
    let mut file = BufWriter::new(fs::File::create(path).unwrap());
    let fields = "#fields\tts\tuid\tid.orig_h\tid.orig_p\tid.resp_h\tid.resp_p\tproto\tservice\tduration\torig_bytes\t\
        resp_bytes\tconn_state\torig_pkts\tresp_pkts";
    writeln!(file, "#separator \\x09\n#unset_field\t-\n#path\tconn\n{fields}").unwrap();
    for n in 0..count {
        let ms = n * 3_600_000 / count;
        let (s, ms) = (1_700_000_000 + ms / 1000, ms % 1000);
        write!(file, "{s}.{ms:03}\tC{n:x}\t").unwrap();
        if n % SCANS_EACH == 77 {
            let at = n / SCANS_EACH;
            let (a, b) = (at >> 8 & 255, at & 255);
            write!(file, "{SCANNER}\t40000\t198.51.{a}.{b}\t23").unwrap();
        } else {
            // Public addresses, each once.
            let [a, b, c, d] =
                (0x2000_0000 | (n * 2_654_435_761 + 12_345) as u32 & 0x1fff_ffff).to_be_bytes();
            write!(file, "{a}.{b}.{c}.{d}\t40000\t192.0.2.80\t80").unwrap();
        }
        writeln!(file, "\ttcp\t-\t-\t0\t0\tS0\t1\t0").unwrap();
    }
    file.flush().unwrap();
}

#[test]
fn a_flood_in_a_small_cgroup_ends_well_and_hides_nobody() {
    let test = "a_flood_in_a_small_cgroup_ends_well_and_hides_nobody";
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("conn.log");
    let count = std::env::var("GABION_FLOOD").ok().and_then(|n| n.parse().ok());
    let count = count.unwrap_or(1_000_000);
    let mut is_made = false;
    for workers in ["1", "2"] {
        let name = format!("gabion-flood-{}-{workers}", std::process::id());
        let Some(cgroup) = Cgroup::make(&name) else {
            eprintln!("{test}: skipped: no memory cgroup can be made here (needs root)");
            return;
        };
        if !std::mem::replace(&mut is_made, true) {
            flood(&log, count);
        }
        let out = folder.path().join(workers);
        let (input, shown) = (log.display().to_string(), out.display().to_string());
        let ran = cgroup.gabion(&[
            "read",
            &input,
            "--behavior",
            "--json",
            "-q",
            "-l",
            &shown,
            "--workers",
            workers,
        ]);
        assert_eq!((ran.code, cgroup.kills()), (0, 0), "{workers} workers: {}", ran.err);
        let peak = cgroup.peak();
        assert!(peak > 0 && peak <= LIMIT, "{peak}");
        let summary: Value = serde_json::from_str(&ran.out).unwrap();
        assert_eq!(summary["counts"]["records"], count);
        for ledger in ["ledger", "sources"] {
            assert_eq!(summary[ledger]["balanced"], true, "{}", summary[ledger]);
        }
        // All were seen, the most of them had to be folded, and that is counted.
        let sources = count - count.div_ceil(SCANS_EACH) + 1;
        assert_eq!(summary["sources"]["received"]["items"], sources);
        assert!(summary["sources"]["shed"]["profile_folded"]["items"].as_u64() > Some(0));
        let found = fs::read_to_string(out.join("alerts.log")).unwrap();
        let scans = found.lines().filter(|l| l.contains(&format!("From {SCANNER} to")));
        assert!(scans.count() > 0, "{workers} workers: {}", found.len());
        // One command, run inside the group, reports what an operator would look up by hand afterwards.
        let doctor = cgroup.gabion(&["doctor", "--json", &shown]);
        let said: Value = serde_json::from_str(&doctor.out).unwrap();
        assert_eq!(said["memory"]["limit"], LIMIT, "{}", doctor.out);
        assert_eq!(said["memory"]["oom_kills"], 0);
        assert!(said["shed"]["profile_folded"].as_u64() > Some(0), "{}", doctor.out);
    }
}
