//! `gabion falco` on this host's own system calls. The tests need root, BTF and the programs of `bpf/`, and are skipped by
//! name where one of them is missing.
#![allow(clippy::disallowed_methods, reason = "waits for another process, by the clock")]

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
            assert!(!reason.to_string().contains("verifier"), "{test}: {reason}");
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
        Falco::start_with(rules, options, &[])
    }

    /// The same with further arguments.
    fn start_with(rules: &Path, options: &[&str], more: &[&str]) -> Falco {
        let mut command = command(&["falco", "-r", &rules.display().to_string()]);
        command.args(more);
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

    fn pid(&self) -> rustix::process::Pid {
        rustix::process::Pid::from_child(&self.child)
    }

    /// Its resident memory in KiB.
    fn rss_kb(&self) -> u64 {
        let status = fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
        line.trim().trim_end_matches(" kB").parse().unwrap()
    }

    /// Ends it; its exit code, standard output as JSON lines, and the rest of standard error.
    fn end(self) -> (Option<i32>, Vec<serde_json::Value>, Vec<String>) {
        let (code, out, errors) = self.end_as_text();
        let lines = out.lines().filter(|line| line.starts_with('{'));
        (code, lines.map(|line| serde_json::from_str(line).unwrap()).collect(), errors)
    }

    /// The same with the whole of standard output.
    fn end_as_text(mut self) -> (Option<i32>, String, Vec<String>) {
        rustix::process::kill_process(self.pid(), rustix::process::Signal::TERM).unwrap();
        let mut out = String::new();
        self.child.stdout.take().unwrap().read_to_string(&mut out).unwrap();
        let code = self.child.wait().unwrap().code();
        self.seen.extend(self.lines.iter());
        (code, out, self.seen)
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
    let run = |program: &Path, args: &[&str]| {
        Command::new(program).args(args).uid(65_534).gid(65_534).output().unwrap()
    };
    let ran = run(&program, &["-r", &rules.display().to_string()]);
    let errors = String::from_utf8_lossy(&ran.stderr).into_owned();
    let lines: Vec<&str> = errors.lines().filter(|line| line.starts_with("Error: ")).collect();
    assert_eq!((ran.status.code(), lines.len()), (Some(1), 1), "{errors}");
    assert!(!errors.contains("ulimit"), "{errors}");
    // The other commands have the code of the environment, and leave no file.
    let gabion = folder.path().join("gabion");
    program::copy_program(env!("CARGO_BIN_EXE_gabion"), &gabion);
    let everybody = std::os::unix::fs::PermissionsExt::from_mode(0o777);
    fs::set_permissions(folder.path(), everybody).unwrap();
    let file = folder.path().join("calls.scap");
    let ran = run(&gabion, &["probe", "record", &file.display().to_string(), "--seconds", "1"]);
    let errors = String::from_utf8_lossy(&ran.stderr).into_owned();
    assert_eq!((ran.status.code(), errors.lines().count()), (Some(4), 1), "{errors}");
    assert!(errors.contains("not permitted without CAP_") && !file.exists(), "{errors}");
    let ran = run(&gabion, &["probe", "check"]);
    let out = String::from_utf8_lossy(&ran.stdout).into_owned();
    assert_eq!(ran.status.code(), Some(4), "{out}");
    assert!(out.lines().any(|l| l.starts_with("no ") && l.contains("CAP_")), "{out}");
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

/// A signal loads the files again; where they have become wrong, the old rules stay.
#[test]
fn a_signal_reloads_and_a_bad_file_keeps_the_old_rules() {
    let name = "a_signal_reloads_and_a_bad_file_keeps_the_old_rules";
    let Some(_guard) = live(name) else { return };
    let folder = tempfile::tempdir().unwrap();
    let cat = cat(folder.path());
    let rules = folder.path().join("rules.yaml");
    fs::write(&rules, rule("shadow", &cat, "/etc/shadow")).unwrap();
    let mut falco = Falco::start(&rules, &["watch_config_files=false"]);
    falco.await_line("the calls of this host are read");
    let hangup = |falco: &Falco| {
        rustix::process::kill_process(falco.pid(), rustix::process::Signal::HUP).unwrap();
    };
    fs::write(&rules, "- rule: [broken\n").unwrap();
    hangup(&falco);
    falco.await_line("the new files are not used");
    let open = |file: &str| {
        Command::new(&cat).arg(file).stdout(Stdio::null()).status().unwrap();
    };
    open("/etc/shadow");
    std::thread::sleep(Duration::from_millis(300));
    fs::write(&rules, rule("hostname", &cat, "/etc/hostname")).unwrap();
    hangup(&falco);
    falco.await_line("Loaded 1 rules");
    std::thread::sleep(Duration::from_millis(500));
    open("/etc/shadow");
    open("/etc/hostname");
    let (code, alerts, errors) = falco.end();
    let found: Vec<&str> = alerts.iter().filter_map(|alert| alert["rule"].as_str()).collect();
    assert_eq!((code, found), (Some(0), vec!["shadow", "hostname"]), "{errors:?}");
}

/// The block at the end has the kernel's programs with their runs, and the recording has what the rules saw.
#[test]
fn statistics_and_a_recording_of_a_run() {
    let name = "statistics_and_a_recording_of_a_run";
    let Some(_guard) = live(name) else { return };
    let folder = tempfile::tempdir().unwrap();
    let cat = cat(folder.path());
    let rules = folder.path().join("rules.yaml");
    fs::write(&rules, rule("shadow", &cat, "/etc/shadow")).unwrap();
    let file = folder.path().join("calls.scap").display().to_string();
    let mut falco = Falco::start_with(&rules, &[], &["--stats", "-w", &file]);
    falco.await_line("the calls of this host are read");
    Command::new(&cat).arg("/etc/shadow").stdout(Stdio::null()).status().unwrap();
    std::thread::sleep(Duration::from_millis(500));
    let (code, out, errors) = falco.end_as_text();
    assert_eq!(code, Some(0), "{errors:?}");
    for part in ["time elapsed: ", "calls received: ", "sys_exit ", "events: ", "  openat: "] {
        assert!(out.contains(part), "{part} in {out}");
    }
    let filter = "evt.type in (open, openat)";
    let events = program::gabion(&["events", &file, filter, "-p", "%proc.name %fd.name"]);
    let wanted = format!("{} /etc/shadow", cat.file_name().unwrap().to_string_lossy());
    assert!(events.out.lines().any(|line| line == wanted), "{} {}", events.out, events.err);
    let again = program::gabion(&["probe", "record", "-w", &file, "--seconds", "1"]);
    assert_eq!(again.code, 4, "what is there stays: {}", again.err);
    let other = folder.path().join("other.scap").display().to_string();
    let ran = program::gabion(&["probe", "record", "-w", &other, "--seconds", "1", "--stats"]);
    assert!(ran.code == 0 && ran.out.contains("run_time_ns"), "{} {}", ran.out, ran.err);
}

/// Programs that use io_uring are reported once, by a run and by a recording.
#[test]
fn io_uring_is_reported_once() {
    let name = "io_uring_is_reported_once";
    let Some(_guard) = live(name) else { return };
    if Command::new("perl").arg("-v").output().is_err() {
        eprintln!("skipped: {name}: no perl, which makes the call");
        return;
    }
    let use_it = || {
        Command::new("perl").args(["-e", "syscall(425, 1, 0) for 1..3"]).status().unwrap();
    };
    let folder = tempfile::tempdir().unwrap();
    let rules = folder.path().join("rules.yaml");
    fs::write(&rules, rule("shadow", Path::new("no-such-program"), "/etc/shadow")).unwrap();
    let mut falco = Falco::start(&rules, &[]);
    falco.await_line("the calls of this host are read");
    use_it();
    falco.await_line("io_uring");
    use_it();
    std::thread::sleep(Duration::from_millis(300));
    let (_, _, errors) = falco.end();
    assert!(!errors.iter().any(|line| line.contains("io_uring")), "{errors:?}");
    let file = folder.path().join("calls.scap").display().to_string();
    let mut command = command(&["probe", "record", &file, "--seconds", "3"]);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    // Until its end, as a slow machine takes seconds to attach its programs.
    while child.try_wait().unwrap().is_none() {
        std::thread::sleep(Duration::from_millis(200));
        use_it();
    }
    let ran = program::ran(child.wait_with_output().unwrap());
    assert_eq!(ran.err.lines().filter(|line| line.contains("io_uring")).count(), 1, "{}", ran.err);
}

/// Without a mount of tracefs the tracepoints of calls are found all the same, and opens are verified.
#[test]
fn tracefs_that_is_not_mounted_is_reached() {
    let name = "tracefs_that_is_not_mounted_is_reached";
    let Some(_guard) = live(name) else { return };
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("calls.scap").display().to_string();
    let gabion = env!("CARGO_BIN_EXE_gabion");
    let script = format!(
        "mount --make-rprivate / && {{ umount -l /sys/kernel/tracing; umount -l /sys/kernel/debug/tracing; \
         umount -l /sys/kernel/debug; }} 2>/dev/null; [ ! -e /sys/kernel/tracing/events ] || exit 77; \
         {gabion} probe check || exit; {gabion} probe record {file} --seconds 2 --calls openat & \
         while kill -0 $! 2>/dev/null; do cat /etc/passwd > /dev/null; sleep 0.05; done; wait $!"
    );
    let ran = Command::new("unshare").args(["-m", "sh", "-c", &script]).output();
    let Ok(ran) = ran.map(program::ran) else {
        eprintln!("skipped: {name}: no unshare");
        return;
    };
    if ran.code == 77 || ran.err.contains("unshare") {
        eprintln!("skipped: {name}: tracefs can't be unmounted here: {}", ran.err);
        return;
    }
    assert_eq!(ran.code, 0, "{} {}", ran.out, ran.err);
    assert!(ran.out.contains("not mounted, reached by a private mount"), "{}", ran.out);
    // Programs are not recorded, so that nothing is known of the process.
    let filter = "evt.type=openat and fd.name=/etc/passwd";
    let events = program::gabion(&["events", &file, filter, "-p", "%evt.toctou"]);
    let outcomes: Vec<&str> = events.out.lines().collect();
    assert!(!outcomes.is_empty(), "{} {}", ran.out, events.err);
    assert!(outcomes.iter().all(|outcome| *outcome == "verified"), "{outcomes:?}");
}

/// A rule on a file alerts for an open of it through a link, once, and the alert says by which name.
#[test]
fn an_open_through_a_link_alerts_once_and_says_by_which_name() {
    let name = "an_open_through_a_link_alerts_once_and_says_by_which_name";
    let Some(_guard) = live(name) else { return };
    let folder = tempfile::tempdir().unwrap();
    let cat = cat(folder.path());
    let rules = folder.path().join("rules.yaml");
    fs::write(&rules, rule("shadow", &cat, "/etc/shadow")).unwrap();
    let link = folder.path().join("link");
    std::os::unix::fs::symlink("/etc/shadow", &link).unwrap();
    let mut falco = Falco::start(&rules, &["rule_matching=all"]);
    falco.await_line("the calls of this host are read");
    Command::new(&cat).arg(&link).stdout(Stdio::null()).status().unwrap();
    Command::new(&cat).arg("/etc/shadow").stdout(Stdio::null()).status().unwrap();
    std::thread::sleep(Duration::from_millis(500));
    let (code, alerts, errors) = falco.end();
    assert_eq!(code, Some(0), "{errors:?}");
    let texts: Vec<&str> = alerts.iter().filter_map(|alert| alert["output"].as_str()).collect();
    let is_by_opened = |text: &&str| text.ends_with(" evt.tried_name=opened");
    assert_eq!(texts.iter().map(is_by_opened).collect::<Vec<_>>(), [true, false]);
}

/// Where tracefs can't be reached, that is reported, and every open says why its name was not compared.
#[test]
fn tracefs_that_is_out_of_reach_is_reported() {
    let name = "tracefs_that_is_out_of_reach_is_reported";
    let Some(_guard) = live(name) else { return };
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("calls.scap").display().to_string();
    let gabion = env!("CARGO_BIN_EXE_gabion");
    // A mount needs the capability that is left out; programs need it not.
    let script = format!(
        "umount -l /sys/kernel/tracing /sys/kernel/debug 2>/dev/null; [ ! -e /sys/kernel/tracing/events ] || exit 77; \
         setpriv --bounding-set -sys_admin {gabion} probe record {file} --seconds 2 --calls openat & \
         while kill -0 $! 2>/dev/null; do cat /etc/passwd > /dev/null; sleep 0.05; done; wait $!"
    );
    let script = format!("mount --make-rprivate / && {{ {script}; }}");
    let ran = Command::new("unshare").args(["-m", "sh", "-c", &script]).output();
    let Ok(ran) = ran.map(program::ran) else {
        eprintln!("skipped: {name}: no unshare");
        return;
    };
    if ran.code == 77 || ran.err.contains("unshare") || ran.err.contains("setpriv") {
        eprintln!("skipped: {name}: this machine can't do it: {}", ran.err);
        return;
    }
    assert_eq!(ran.code, 0, "{} {}", ran.out, ran.err);
    let lines = ran.err.lines().filter(|line| line.contains("tracefs: not permitted"));
    assert_eq!(lines.count(), 1, "{}", ran.err);
    let filter = "evt.type=openat and fd.name=/etc/passwd";
    let format = "%evt.toctou %evt.toctou.cause";
    let events = program::gabion(&["events", &file, filter, "-q", "-p", format]);
    let mut outcomes: Vec<&str> = events.out.lines().collect();
    outcomes.dedup();
    assert_eq!(outcomes, ["exit-only the program at the entry is not attached"], "{}", ran.err);
}

/// Some seconds of nothing but processes that begin and end: the memory does not grow with their number.
#[test]
fn a_storm_of_forks_does_not_let_the_memory_grow() {
    let name = "a_storm_of_forks_does_not_let_the_memory_grow";
    let Some(_guard) = live(name) else { return };
    let folder = tempfile::tempdir().unwrap();
    let cat = cat(folder.path());
    let rules = folder.path().join("rules.yaml");
    fs::write(&rules, rule("shadow", &cat, "/etc/shadow")).unwrap();
    let mut falco = Falco::start(&rules, &["syscall_event_drops.actions=[ignore]"]);
    falco.await_line("the calls of this host are read");
    // A shell forks; the standard library's children come from vfork.
    let mut shell = Command::new("sh").args(["-c", "while :; do (exit 0); done"]).spawn().unwrap();
    let storm = |seconds| {
        let begin = std::time::Instant::now();
        let mut children = 0_u64;
        while begin.elapsed() < Duration::from_secs(seconds) {
            Command::new("/bin/true").status().unwrap();
            children += 1;
        }
        children
    };
    // The first tables and buffers take their memory; then a tenth more, and what an allocator takes at a time, is all that
    // five seconds may add. What leaks adds it in each of them.
    let mut sizes = vec![falco.rss_kb()];
    let mut children = 0;
    let is_steady = |sizes: &[u64]| matches!(sizes, [.., before, after] if *after <= before + before / 10 + 2_048);
    while !is_steady(&sizes) && sizes.len() < 8 {
        children += storm(5);
        sizes.push(falco.rss_kb());
    }
    shell.kill().unwrap();
    shell.wait().unwrap();
    let (code, _, errors) = falco.end();
    assert_eq!(code, Some(0), "the account balances: {errors:?}");
    assert!(children > 100, "{children}");
    println!("{children} children by vfork: {sizes:?} KiB");
    assert!(is_steady(&sizes), "{sizes:?} KiB");
}
