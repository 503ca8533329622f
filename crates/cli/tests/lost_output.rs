//! Results that can't be written are never lost silently: every command that gives results, with its
//! standard output on a full disk (`/dev/full`) and into a pipe that nobody reads any more. On a full
//! disk it ends with 4 and one line (the door of Suricata with 1, as that program), into a closed pipe
//! quietly and with its own exit code. Files in a full folder are reported, too.

mod program;

use program::{Ran, command, demo, ran, repository};
use std::path::Path;
use std::process::{Command, Stdio};

/// A folder with all that the commands below read: a log of some records, a run of both engines, a
/// proof, flows.
struct Prepared {
    dir: tempfile::TempDir,
    /// Names that were given out.
    names: std::cell::Cell<u32>,
}

impl Prepared {
    fn new() -> Prepared {
        let prepared =
            Prepared { dir: tempfile::tempdir().unwrap(), names: std::cell::Cell::new(0) };
        std::fs::write(prepared.dir.path().join("lines"), "one\ntwo\nthree\n").unwrap();
        std::fs::write(prepared.dir.path().join("conn.log"), flows()).unwrap();
        std::fs::create_dir(prepared.dir.path().join("out2")).unwrap();
        for line in [
            "log keygen --out r",
            "log init L --origin h/l --recipient r/recipient.pub",
            "log append L -q",
            "log checkpoint L",
            "log prove L --key r/recipient.key --record 2 -o proof",
            "log checkpoint L --json",
            "read DEMO -l out --behavior -q",
        ] {
            let done = prepared.run(line);
            assert_eq!(done.code, 0, "{line}: {}", done.err);
            if line.starts_with("log init") {
                std::fs::write(prepared.dir.path().join("vkey"), &done.out).unwrap();
            }
            if line == "log checkpoint L" {
                std::fs::write(prepared.dir.path().join("anchors"), &done.out).unwrap();
            }
        }
        prepared
    }

    /// The words of a line, with `DEMO` and `RULES` for the demonstration's files.
    fn command(&self, line: &str) -> Command {
        let rules = repository("demo/gabion.rules").canonicalize().unwrap().display().to_string();
        let demo = Path::new(&demo()).canonicalize().unwrap().display().to_string();
        let words: Vec<String> = line
            .split(' ')
            .map(|w| match w {
                "DEMO" => demo.clone(),
                "RULES" => rules.clone(),
                "VKEY" => "vkey".to_owned(),
                "NEW" => {
                    self.names.set(self.names.get() + 1);
                    format!("new{}", self.names.get())
                }
                other => other.to_owned(),
            })
            .collect();
        let mut command = command(&words.iter().map(String::as_str).collect::<Vec<_>>());
        let lines = std::fs::File::open(self.dir.path().join("lines")).unwrap();
        command.current_dir(self.dir.path()).stdin(lines);
        command
    }

    fn run(&self, line: &str) -> Ran {
        ran(self.command(line).output().unwrap())
    }

    fn run_into(&self, line: &str, out: impl Into<Stdio>) -> Ran {
        let mut command = self.command(line);
        ran(command.stdout(out).stderr(Stdio::piped()).spawn().unwrap().wait_with_output().unwrap())
    }
}

/// A log of Zeek's with a scan of twelve ports.
fn flows() -> String {
    let line = |n: u32| {
        format!(
            "{{\"ts\":{n}.5,\"uid\":\"C{n}\",\"id.orig_h\":\"10.0.0.1\",\"id.orig_p\":{},\
             \"id.resp_h\":\"10.0.0.2\",\"id.resp_p\":{n},\"proto\":\"tcp\",\"conn_state\":\"S0\"}}\n",
            40_000 + n
        )
    };
    (1..40).map(line).collect()
}

/// Commands that answer something on standard output. `NEW` is another name each time.
const COMMANDS: &[&str] = &[
    "--help",
    "--version",
    "read --help",
    "help exit-codes",
    "read DEMO",
    "read DEMO --json",
    "read DEMO --rules RULES --fail-on 3",
    "read DEMO --rules RULES --profile-rules --profile-memory",
    "read DEMO --workers 2",
    "read DEMO --behavior",
    "read DEMO --behavior --json",
    "read conn.log --behavior",
    "read conn.log --behavior --json",
    "read conn.log --behavior --workers 2",
    "read conn.log --behavior --fail-on 1",
    "rules check RULES",
    "rules check RULES --json",
    "rules list RULES",
    "rules list RULES --json",
    "rules why 9000002 -S RULES",
    "rules why 9000002 -S RULES --json",
    "rules cost DEMO -S RULES",
    "rules cost DEMO -S RULES --json",
    "rules test DEMO -S RULES",
    "rules test DEMO -S RULES --tsv",
    "behavior show out --profile 192.168.100.10",
    "behavior show out --profile 192.168.100.10 --json",
    "doctor out",
    "doctor out --json",
    "log keygen --out NEW",
    "log init NEW --origin h/m --recipient r/recipient.pub",
    "log init NEW --origin h/m --recipient r/recipient.pub --json",
    "log show L --key r/recipient.key",
    "log show L --key r/recipient.key --text",
    "log export L --key r/recipient.key --format json",
    "log export L --key r/recipient.key --format rfc5424",
    "log export L --key r/recipient.key --format journal",
    "log verify L",
    "log verify L --json",
    "log verify L --anchor anchors",
    "log stat L",
    "log stat L --json",
    "log checkpoint L",
    "log checkpoint L --json",
    "log prove L --key r/recipient.key --record 2",
    "log prove L --key r/recipient.key --record 2 -o NEW",
    "log prove L --key r/recipient.key --record 2 -o NEW --json",
    "log check-proof proof --vkey VKEY",
    "log anchor add NEW L",
    "log anchor add NEW L --json",
    "log compare anchors anchors",
    "log recover L",
    "suricata --help",
    "suricata -V",
    "suricata --build-info",
    "suricata --dump-config",
    "suricata --dump-features",
    "suricata --list-keywords",
    "suricata --list-keywords=csv",
    "suricata --list-runmodes",
    "suricata --list-app-layer-protos",
    "suricata --list-app-layer-hooks",
    "suricata --list-app-layer-frames",
    "suricata -r DEMO -S RULES -l out2 -v",
    "suricata -T -S RULES -l out2 -v",
];

#[test]
fn every_command_reports_results_that_cannot_be_written() {
    let prepared = Prepared::new();
    let lost = |err: &str| err.lines().filter(|l| l.starts_with("gabion: standard output")).count();
    for line in COMMANDS {
        let usual = prepared.run(line);
        assert!(!usual.out.is_empty(), "{line}: {} {}", usual.code, usual.err);
        assert!(![2, 101, -1].contains(&usual.code), "{line}: {} {}", usual.code, usual.err);
        let full = std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
        let done = prepared.run_into(line, full);
        let code = if line.starts_with("suricata") { 1 } else { 4 };
        assert_eq!((done.code, lost(&done.err)), (code, 1), "{line}: {}", done.err);
        // The message names the exit code that the run would have had.
        let would = format!("the exit code would have been {}", usual.code);
        assert_eq!(done.err.contains(&would), usual.code != 0, "{line}: {}", done.err);
        let (from, to) = std::io::pipe().unwrap();
        drop(from);
        let done = prepared.run_into(line, to);
        assert_eq!((done.code, lost(&done.err)), (usual.code, 0), "{line}: {}", done.err);
        assert!(!done.err.contains("panicked"), "{line}: {}", done.err);
    }
}

/// Messages are lost then, but not the exit code.
#[test]
fn an_exit_code_outlives_standard_error() {
    let prepared = Prepared::new();
    for (line, code) in [("read nosuch", 3), ("read DEMO -v", 0), ("log verify L", 10), ("read", 2)]
    {
        let full = std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
        let status = prepared.command(line).stdout(Stdio::null()).stderr(full).status().unwrap();
        assert_eq!(status.code(), Some(code), "{line}");
    }
}

/// A file system of 64 KiB, full but for some pages; none where this user may not mount one.
struct SmallDisk(std::path::PathBuf);

impl SmallDisk {
    fn mount(folder: &Path) -> Option<SmallDisk> {
        let path = folder.join("disk");
        std::fs::create_dir(&path).unwrap();
        let mut mount = Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", "size=64k", "none"]).arg(&path).stderr(Stdio::null());
        if mount.status().is_ok_and(|s| s.success()) {
            return Some(SmallDisk(path));
        }
        eprintln!("skipped: no file system can be mounted here");
        None
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(&self.0).status();
    }
}

/// Whatever a run writes: on a full disk it ends with 4, `run.json` is whole or not there, and lines are
/// whole.
#[test]
fn a_full_disk_is_reported_and_leaves_no_half_files() {
    let prepared = Prepared::new();
    let Some(disk) = SmallDisk::mount(prepared.dir.path()) else { return };
    std::fs::write(disk.0.join("ballast"), vec![0; 56 << 10]).unwrap();
    let many: String =
        (0..30).map(|n| flows().replace("10.0.0.1", &format!("10.0.1.{n}"))).collect();
    std::fs::write(prepared.dir.path().join("many.log"), many).unwrap();
    for line in [
        "read DEMO --rules RULES -l disk/out",
        "read DEMO --rules RULES -l disk/out --workers 2",
        "read DEMO --rules RULES -l disk/out --behavior",
        "read many.log --behavior -l disk/out",
        "read many.log --behavior -l disk/out --workers 2",
        "read DEMO --report disk/out/page.html",
        "read many.log --behavior --report disk/out/page.html",
        "read DEMO --rules RULES --alert-pcap disk/out/alerts.pcap",
        "log export L --key r/recipient.key --format json",
    ] {
        std::fs::create_dir(disk.0.join("out")).unwrap();
        if !line.contains("-l ") {
            // These write little: nothing is left for them.
            std::fs::write(disk.0.join("more"), vec![0; 64 << 10]).unwrap_err();
        }
        let out = std::fs::File::create(disk.0.join("out/stdout")).unwrap();
        let to: Stdio = if line.contains("export") { out.into() } else { Stdio::null() };
        let done = prepared.run_into(line, to);
        assert_eq!(done.code, 4, "{line}: {}", done.err);
        assert!(
            ["No space left", "disk is full"].iter().any(|w| done.err.contains(w)),
            "{line}: {}",
            done.err
        );
        let run = disk.0.join("out/run.json");
        if let Ok(text) = std::fs::read(&run) {
            serde_json::from_slice::<serde_json::Value>(&text).expect(line);
        }
        for name in ["eve.json", "alerts.json"] {
            let path = disk.0.join("out").join(name);
            if path.exists() {
                program::json_lines(&path);
            }
        }
        let page = disk.0.join("out/page.html");
        assert!(!page.exists(), "{line}: half a page");
        std::fs::remove_dir_all(disk.0.join("out")).unwrap();
        let _ = std::fs::remove_file(disk.0.join("more"));
    }
}

/// Profiles that can't be kept, because another process locks the database in the middle of a run, are reported at
/// once and counted at the end; findings are written all the same.
#[test]
fn a_database_that_is_locked_in_a_run_is_reported_and_findings_continue() {
    use std::io::Write;
    let dir = tempfile::tempdir().unwrap();
    let (pipe, out) = (dir.path().join("pipe"), dir.path().join("out"));
    assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    for workers in ["1", "2"] {
        let mut child = program::command(&["read", "--behavior", "--workers", workers, "-q", "-l"])
            .arg(&out)
            .arg(&pipe)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut writer = std::fs::OpenOptions::new().write(true).open(&pipe).unwrap();
        let flow = |second: u64| {
            format!(
                "{{\"ts\":{second}.5,\"uid\":\"C{second}\",\"id.orig_h\":\"10.0.0.1\",\"id.orig_p\":40000,\
                 \"id.resp_h\":\"10.0.0.2\",\"id.resp_p\":{},\"proto\":\"tcp\",\"conn_state\":\"S0\"}}\n",
                second / 100 % 60_000 + 1
            )
        };
        // The first bytes of a pipe show its format; then outputs are made.
        writer.write_all(flow(0).as_bytes()).unwrap();
        // Made, with its table and the table's index: three pages of 16 KiB.
        let database = out.join("profiles.sqlite");
        while database.metadata().map_or(0, |m| m.len()) < 48 << 10 {
            std::thread::yield_now();
        }
        let held = std::fs::OpenOptions::new().read(true).write(true).open(&database).unwrap();
        let how = rustix::fs::FlockOperation::LockExclusive;
        rustix::fs::fcntl_lock(&held, how).unwrap();
        // Windows are an hour long, and profiles are handed over when theirs has ended. Flows are sent until the
        // lock is reported.
        let (said, heard) = std::sync::mpsc::channel();
        let stderr = std::io::BufReader::new(child.stderr.take().unwrap());
        let hearing = std::thread::spawn(move || {
            for line in std::io::BufRead::lines(stderr) {
                said.send(line.unwrap()).unwrap();
            }
        });
        let mut second = 100;
        let first = loop {
            writer.write_all(flow(second).as_bytes()).unwrap();
            second += 100;
            if let Ok(line) = heard.try_recv() {
                break line;
            }
        };
        assert!(
            first.contains("profiles.sqlite: database is locked: the run continues"),
            "{first}"
        );
        drop(held);
        drop(writer);
        let code = child.wait().unwrap().code();
        hearing.join().unwrap();
        let rest: Vec<String> = heard.iter().collect();
        assert_eq!(code, Some(4), "{rest:?}");
        assert!(rest.iter().any(|line| line.contains("profiles were not kept")), "{rest:?}");
        assert!(program::json_lines(&out.join("alerts.json")) > 0);
        std::fs::remove_dir_all(&out).unwrap();
    }
}

/// A database that may only be read ends a run before it begins, with one line; what earlier runs found stays.
#[test]
fn a_read_only_database_is_reported_at_once() {
    use std::os::unix::fs::PermissionsExt;
    let dir = tempfile::tempdir().unwrap();
    let (log, out) = (dir.path().join("conn.log"), dir.path().join("out"));
    let flow = "{\"ts\":1.5,\"uid\":\"C1\",\"id.orig_h\":\"10.0.0.1\",\"id.orig_p\":40000,\
        \"id.resp_h\":\"10.0.0.2\",\"id.resp_p\":23,\"proto\":\"tcp\",\"conn_state\":\"S0\"}\n";
    std::fs::write(&log, flow).unwrap();
    // Root may write files of any mode, unless it drops that right.
    let program = env!("CARGO_BIN_EXE_gabion");
    let mut command = std::process::Command::new("setpriv");
    command.args(["--bounding-set=-dac_override,-dac_read_search", program]);
    if !rustix::process::geteuid().is_root() {
        command = std::process::Command::new(program);
    }
    let arguments = ["read", "--behavior", "-q", "--append", "-l"];
    let first = std::process::Command::new(program).args(arguments).arg(&out).arg(&log).output();
    assert_eq!(first.unwrap().status.code(), Some(0));
    let database = out.join("profiles.sqlite");
    std::fs::set_permissions(&database, std::fs::Permissions::from_mode(0o444)).unwrap();
    let before =
        (std::fs::read(&database).unwrap(), std::fs::read(out.join("alerts.json")).unwrap());
    let ran = match command.args(arguments).arg(&out).arg(&log).output() {
        Ok(ran) => ran,
        Err(e) => {
            println!("skipped: setpriv: {e}");
            return;
        }
    };
    let said = String::from_utf8_lossy(&ran.stderr).into_owned();
    assert_eq!(ran.status.code(), Some(4), "{said}");
    assert!(said.lines().count() == 1 && said.contains("profiles.sqlite"), "{said}");
    let after =
        (std::fs::read(&database).unwrap(), std::fs::read(out.join("alerts.json")).unwrap());
    assert!(before == after);
}
