//! `gabion falco` on this host's own system calls. The tests need root, BTF and the programs of `bpf/`, and are skipped by
//! name where one of them is missing.

mod program;

use program::command;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Attached programs see the whole machine: one test after the other.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

/// Waits for the other tests. None, after a line with the test and the reason, if this machine can't run it.
fn live(test: &str) -> Option<MutexGuard<'static, ()>> {
    let guard = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    for name in ["programs", "btf", "sys_exit", "sys_enter"] {
        let failed = gabion_probe::features::one(name).and_then(|feature| feature.result.err());
        if let Some(reason) = failed {
            eprintln!("skipped: {test}: {reason}");
            return None;
        }
    }
    Some(guard)
}

/// A running `gabion falco`, whose lines of standard error arrive one by one.
struct Falco {
    child: Child,
    lines: Receiver<String>,
    seen: Vec<String>,
}

impl Falco {
    fn start(rules: &Path, options: &[&str]) -> Falco {
        let mut command = command(&["falco", "-r", &rules.display().to_string()]);
        for option in ["json_output=true", "stdout_output.enabled=true"].iter().chain(options) {
            command.args(["-o", option]);
        }
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let errors = BufReader::new(child.stderr.take().unwrap());
        let (to, lines) = channel();
        std::thread::spawn(move || {
            for line in errors.lines().map_while(Result::ok) {
                let _ = to.send(line);
            }
        });
        Falco { child, lines, seen: Vec::new() }
    }

    /// Waits for a line of standard error with this text.
    #[track_caller]
    fn await_line(&mut self, text: &str) -> String {
        loop {
            match self.lines.recv_timeout(Duration::from_secs(120)) {
                Ok(line) if line.contains(text) => return line,
                Ok(line) => self.seen.push(line),
                Err(_) => panic!("no line with {text:?} came, but {:?}", self.seen),
            }
        }
    }

    /// Ends it; its exit code, standard output as JSON lines, and the rest of standard error.
    fn end(mut self) -> (Option<i32>, Vec<serde_json::Value>, Vec<String>) {
        let pid = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
        let mut out = String::new();
        self.child.stdout.take().unwrap().read_to_string(&mut out).unwrap();
        let code = self.child.wait().unwrap().code();
        self.seen.extend(self.lines.iter());
        let lines = out.lines().filter(|line| line.starts_with('{'));
        (code, lines.map(|line| serde_json::from_str(line).unwrap()).collect(), self.seen)
    }
}

/// `cat` under a name that nothing else on this machine has.
fn cat(folder: &Path) -> PathBuf {
    let path = folder.join(format!("kat{}", std::process::id()));
    program::copy_program("/bin/cat", &path);
    path
}

fn rule(name: &str, program: &Path, file: &str) -> String {
    let program = program.file_name().unwrap().to_string_lossy();
    format!(
        "- rule: {name}\n  desc: d\n  condition: evt.type in (open, openat, openat2) and proc.name={program} and \
         fd.name={file}\n  output: opened %proc.name %proc.pid %proc.ppid %fd.name %proc.cmdline\n  priority: WARNING\n"
    )
}

#[test]
fn a_forbidden_open_gives_one_alert_with_process_parent_and_file() {
    let Some(_guard) = live("a_forbidden_open_gives_one_alert_with_process_parent_and_file") else {
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let cat = cat(folder.path());
    let rules = folder.path().join("rules.yaml");
    fs::write(&rules, rule("shadow", &cat, "/etc/shadow")).unwrap();
    let mut falco = Falco::start(&rules, &[]);
    falco.await_line("the calls of this host are read");
    let run = |file: &str| {
        let mut child = Command::new(&cat).arg(file).stdout(Stdio::null()).spawn().unwrap();
        child.wait().unwrap();
        child.id()
    };
    let pid = run("/etc/shadow");
    run("/etc/passwd");
    // The run continues with other rules, without a gap.
    let mut file = fs::File::options().append(true).open(&rules).unwrap();
    file.write_all(rule("hostname", &cat, "/etc/hostname").as_bytes()).unwrap();
    drop(file);
    falco.await_line("Loaded 2 rules");
    // The worker takes the rules with its next look at the rings.
    std::thread::sleep(Duration::from_millis(500));
    let second = run("/etc/hostname");
    let (code, alerts, errors) = falco.end();
    assert_eq!(code, Some(0), "{errors:?}");
    let found: Vec<(&str, u64, u64, &str)> = alerts
        .iter()
        .map(|alert| {
            let fields = &alert["output_fields"];
            (
                alert["rule"].as_str().unwrap_or_default(),
                fields["proc.pid"].as_u64().unwrap_or(0),
                fields["proc.ppid"].as_u64().unwrap_or(0),
                fields["fd.name"].as_str().unwrap_or_default(),
            )
        })
        .collect();
    let parent = u64::from(std::process::id());
    assert_eq!(
        found,
        [
            ("shadow", u64::from(pid), parent, "/etc/shadow"),
            ("hostname", u64::from(second), parent, "/etc/hostname")
        ],
        "{errors:?}"
    );
    let command = format!("{} /etc/shadow", cat.file_name().unwrap().to_string_lossy());
    assert_eq!(alerts[0]["output_fields"]["proc.cmdline"], command);
    let account =
        errors.iter().find(|line| line.contains("system calls: ") && line.contains("received"));
    assert!(account.is_some(), "{errors:?}");
}

#[test]
fn without_permission_live_says_so_in_one_line() {
    let Some(_guard) = live("without_permission_live_says_so_in_one_line") else { return };
    let folder = tempfile::tempdir().unwrap();
    // Not every build folder is open to another user.
    let program = folder.path().join("falco");
    program::copy_program(env!("CARGO_BIN_EXE_gabion"), &program);
    let rules = folder.path().join("rules.yaml");
    fs::write(&rules, rule("shadow", &program, "/etc/shadow")).unwrap();
    let open = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    fs::set_permissions(folder.path(), open).unwrap();
    let ran =
        Command::new(&program).arg("-r").arg(&rules).uid(65_534).gid(65_534).output().unwrap();
    let errors = String::from_utf8_lossy(&ran.stderr).into_owned();
    let lines: Vec<&str> = errors.lines().filter(|line| line.starts_with("Error: ")).collect();
    assert_eq!((ran.status.code(), lines.len()), (Some(1), 1), "{errors}");
    assert!(!errors.contains("ulimit"), "{errors}");
}

/// An output that blocks holds up the reader, so that a storm of writes fills the rings: the stall is noticed, and what is
/// lost is logged, alerted and counted by its class.
#[test]
fn a_real_loss_behind_a_blocked_output_is_noticed_and_counted() {
    let name = "a_real_loss_behind_a_blocked_output_is_noticed_and_counted";
    let Some(_guard) = live(name) else { return };
    let folder = tempfile::tempdir().unwrap();
    let cat = cat(folder.path());
    let rules = folder.path().join("rules.yaml");
    // The second rule never matches; writes are recorded for it.
    let writes = "- rule: writes\n  desc: d\n  condition: evt.type=write and proc.name=no-such-name\n  output: o\n  \
                  priority: NOTICE\n";
    fs::write(&rules, rule("shadow", &cat, "/etc/shadow") + writes).unwrap();
    let options = [
        "base_syscalls.all=true",
        "engine.modern_ebpf.buf_size_preset=1",
        "program_output.enabled=true",
        "program_output.program=sleep 3",
        "syscall_event_drops.threshold=0",
        "syscall_event_drops.max_burst=10",
    ];
    let mut falco = Falco::start(&rules, &options);
    falco.await_line("the calls of this host are read");
    Command::new(&cat).arg("/etc/shadow").stdout(Stdio::null()).status().unwrap();
    let storm = ["if=/dev/zero", "of=/dev/null", "bs=1", "count=300000"];
    let status = Command::new("dd").args(storm).stderr(Stdio::null()).status().unwrap();
    assert!(status.success());
    let line = falco.await_line("system calls dropped in last second");
    assert!(line.starts_with("Falco internal: syscall event drop. "), "{line}");
    let (code, alerts, errors) = falco.end();
    assert_eq!(code, Some(0), "{errors:?}");
    let lost = alerts.iter().find(|a| a["rule"] == "Falco internal: syscall event drop").unwrap();
    let number = |name: &str| {
        lost["output_fields"][name].as_str().and_then(|n| n.parse::<u64>().ok()).unwrap_or(0)
    };
    assert!(number("n_drops") > 0 && number("n_drops_buffer_io_exit") > 0, "{lost}");
    // Nothing is read for seconds: in the end there is no room for anything, but programs are shed last.
    assert!(number("n_drops_buffer_proc_exit") * 100 < number("n_drops_buffer_io_exit"), "{lost}");
    let has = |text: &str| errors.iter().any(|line| line.contains(text));
    assert!(has("did not beat") && has("the worker stalled"), "{errors:?}");
    assert!(has(" shed: io "), "{errors:?}");
}
