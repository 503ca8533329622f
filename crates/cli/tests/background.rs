//! Runs that continue until they are asked to stop: over a folder into which captures come, in the
//! background, as another user.
#![allow(clippy::print_stdout, reason = "a test prints what it found on standard output")]
#![allow(clippy::disallowed_methods)] // waits for another process, by the clock

mod program;

use program::{command, demo, json_lines, ran, repository};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

fn wait_until(what: &str, mut is: impl FnMut() -> bool) {
    let end = Instant::now() + Duration::from_secs(60);
    while !is() {
        assert!(Instant::now() < end, "{what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn signal(name: &str, process: u32) {
    let done = Command::new("kill").args([&format!("-{name}"), &process.to_string()]).status();
    assert!(done.unwrap().success());
}

fn alerts(folder: &Path) -> usize {
    std::fs::read_to_string(folder.join("fast.log")).unwrap_or_default().lines().count()
}

/// Moves a capture into the folder as a capturing program does: complete, under its name.
fn put(folder: &Path, name: &str) {
    let hidden = folder.parent().unwrap().join(name);
    std::fs::copy(demo(), &hidden).unwrap();
    std::fs::rename(hidden, folder.join(name)).unwrap();
}

#[test]
fn captures_that_come_into_a_folder_are_read_until_the_run_is_asked_to_stop() {
    let rules = repository("demo/gabion.rules").display().to_string();
    for runmode in ["single", "autofp"] {
        let dir = tempfile::tempdir().unwrap();
        let (folder, out) = (dir.path().join("captures"), dir.path().join("out"));
        std::fs::create_dir(&folder).unwrap();
        std::fs::create_dir(&out).unwrap();
        put(&folder, "first.pcap");
        let (from, to) = (folder.display().to_string(), out.display().to_string());
        let args = ["suricata", "-r", &from, "-l", &to, "-S", &rules, "-k", "none"];
        let more = ["--pcap-file-continuous", "--pcap-file-delete", "--runmode", runmode];
        let soon = ["--set", "pcap-file.delay=0", "--set", "pcap-file.poll-interval=0"];
        let child = command(&[&args[..], &more, &soon].concat())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let is_empty = || std::fs::read_dir(&folder).unwrap().next().is_none();
        wait_until("the first capture is read and deleted", is_empty);
        wait_until("its alerts can be read", || alerts(&out) > 0);
        let first = alerts(&out);
        put(&folder, "second.pcap");
        wait_until("so is the second", is_empty);
        wait_until("and its alerts", || alerts(&out) > first);
        signal("TERM", child.id());
        let ended = child.wait_with_output().unwrap();
        assert_eq!(ended.status.code(), Some(0), "{}", String::from_utf8_lossy(&ended.stderr));
        assert!(json_lines(&out.join("eve.json")) > 100);
    }
}

#[test]
fn a_run_in_the_background_is_ready_when_the_call_returns() {
    let dir = tempfile::tempdir().unwrap();
    let (folder, out) = (dir.path().join("captures"), dir.path().join("out"));
    std::fs::create_dir(&folder).unwrap();
    std::fs::create_dir(&out).unwrap();
    let pid = dir.path().join("pid");
    let (from, to) = (folder.display().to_string(), out.display().to_string());
    let file = pid.display().to_string();
    let rules = repository("demo/gabion.rules").display().to_string();
    let soon = ["--set", "pcap-file.delay=0", "--set", "pcap-file.poll-interval=0"];
    let run = ["suricata", "-D", "--pcap-file-continuous", "-r", &from, "-l", &to, "-k", "none"];
    let args = [&run[..], &soon, &["--pidfile", &file, "-S", &rules]].concat();
    let started = ran(command(&args).output().unwrap());
    assert_eq!(started.code, 0, "{}", started.err);
    let process: u32 = std::fs::read_to_string(&pid).unwrap().trim().parse().unwrap();
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).unwrap();
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap().split_whitespace().collect();
    assert_eq!(fields[3], process.to_string(), "a session of its own: {stat}");
    put(&folder, "one.pcap");
    wait_until("the capture is read", || alerts(&out) > 0);
    signal("TERM", process);
    wait_until("the run has ended", || !pid.exists());
    assert!(json_lines(&out.join("eve.json")) > 50);

    // What is wrong with a run is known before the call returns.
    let missing = dir.path().join("missing.rules").display().to_string();
    let wrong = ["suricata", "-D", "-r", &from, "-l", &to, "-S", &missing, "--init-errors-fatal"];
    let refused = ran(command(&wrong).output().unwrap());
    assert_eq!(refused.code, 1, "{}", refused.out);
    assert!(format!("{}{}", refused.out, refused.err).contains("missing.rules"));
}

#[test]
fn a_run_as_another_user_writes_as_that_user() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("out");
    std::fs::create_dir(&out).unwrap();
    let to = out.display().to_string();
    let nobody = ["suricata", "--user", "no such user", "-r", &demo(), "-l", &to];
    let refused = ran(command(&nobody).output().unwrap());
    assert_eq!(refused.code, 1);
    assert!(refused.err.contains("no such user"), "{}", refused.err);
    if std::fs::metadata(dir.path()).unwrap().uid() != 0 {
        println!("skipped: only root can run as another user");
        return;
    }
    // The program may lie where only root may go.
    let program = dir.path().join("gabion");
    program::copy_program(env!("CARGO_BIN_EXE_gabion"), &program);
    let capture = dir.path().join("demo.pcap");
    std::fs::copy(demo(), &capture).unwrap();
    let open = |path: &Path| {
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o777);
        std::fs::set_permissions(path, mode).unwrap();
    };
    open(dir.path());
    open(&out);
    let args = ["suricata", "--user=nobody", "--disable-detection", "-r"];
    let mut command = Command::new(&program);
    let done = ran(command.args(args).arg(&capture).arg("-l").arg(&out).output().unwrap());
    assert_eq!(done.code, 0, "{}", done.err);
    assert_ne!(std::fs::metadata(out.join("eve.json")).unwrap().uid(), 0);
    // The same by the configuration, which only root may read.
    let (config, own) = (dir.path().join("c.yaml"), dir.path().join("own"));
    let text = "%YAML 1.1\n---\nrun-as: {user: nobody}\noutputs:\n  - eve-log: \
                {enabled: yes, filename: eve.json, types: [flow]}\n";
    std::fs::write(&config, text).unwrap();
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o600);
    std::fs::set_permissions(&config, mode).unwrap();
    std::fs::create_dir(&own).unwrap();
    open(&own);
    let mut command = Command::new(&program);
    let command = command.args(["suricata", "--disable-detection", "-c"]).arg(&config);
    let done = ran(command.arg("-r").arg(&capture).arg("-l").arg(&own).output().unwrap());
    assert_eq!(done.code, 0, "{}", done.err);
    assert_ne!(std::fs::metadata(own.join("eve.json")).unwrap().uid(), 0);
    std::fs::write(&config, text.replace("user: nobody", "user: nosuch")).unwrap();
    let mut command = Command::new(&program);
    let command = command.args(["suricata", "--disable-detection", "-c"]).arg(&config);
    let refused = ran(command.arg("-r").arg(&capture).arg("-l").arg(&own).output().unwrap());
    assert_eq!(refused.code, 1);
    assert!(refused.err.contains("unable to get the user ID"), "{}", refused.err);
}
