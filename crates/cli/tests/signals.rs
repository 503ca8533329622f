//! Requests from outside while captures are read from a pipe that stays open: to stop, to open outputs
//! again, to load rules again. Both doors, one worker and several.

mod program;

use program::{Ran, command, demo, json_lines, ran, repository};
use std::io::Write;
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// A run that reads from a pipe, which holds the demonstration's capture and stays open.
struct Reading {
    child: Child,
    dir: tempfile::TempDir,
    pipe: std::fs::File,
}

fn shell(line: &str) {
    assert!(Command::new("/bin/sh").args(["-c", line]).status().unwrap().success(), "{line}");
}

impl Reading {
    /// Starts it. Of `args`, `OUT` and `PIPE` are replaced. When this returns, more than a pipe holds
    /// was read.
    fn start(args: &[&str]) -> Reading {
        let dir = tempfile::tempdir().unwrap();
        let (out, path) = (dir.path().join("out"), dir.path().join("pipe"));
        std::fs::create_dir(&out).unwrap();
        shell(&format!("mkfifo '{}'", path.display()));
        let rules = repository("demo/gabion.rules").display().to_string();
        let args: Vec<String> = args
            .iter()
            .map(|a| match *a {
                "OUT" => out.display().to_string(),
                "PIPE" => path.display().to_string(),
                "RULES" => rules.clone(),
                "PID" => dir.path().join("pid").display().to_string(),
                other => other.to_string(),
            })
            .collect();
        let names: Vec<&str> = args.iter().map(String::as_str).collect();
        let mut command = command(&names);
        let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut pipe = std::fs::OpenOptions::new().write(true).open(&path).unwrap();
        let capture = std::fs::read(demo()).unwrap();
        assert!(capture.len() > 100 << 10, "more than a pipe holds");
        pipe.write_all(&capture).unwrap();
        Reading { child, dir, pipe }
    }

    fn out(&self, name: &str) -> std::path::PathBuf {
        self.dir.path().join("out").join(name)
    }

    fn signal(&self, name: &str) {
        shell(&format!("kill -{name} {}", self.child.id()));
    }

    /// Waits for its end; its files stay until the returned folder is dropped.
    fn end(self) -> (Ran, tempfile::TempDir) {
        let done = ran(self.child.wait_with_output().unwrap());
        drop(self.pipe);
        (done, self.dir)
    }
}

/// What was written is whole: lines of JSON, the last a record of statistics.
#[track_caller]
fn is_whole(eve: &Path) {
    assert!(json_lines(eve) > 50, "{}", eve.display());
    let text = std::fs::read_to_string(eve).unwrap();
    assert!(text.lines().last().unwrap().contains("\"event_type\":\"stats\""));
}

const SURICATA: [&str; 7] = ["suricata", "-r", "PIPE", "-l", "OUT", "-S", "RULES"];
const TWO: [&str; 5] = [
    "--runmode=autofp",
    "--set",
    "threading.set-cpu-affinity=yes",
    "--set",
    "threading.cpu-affinity.worker-cpu-set.threads=2",
];

#[test]
fn a_request_to_stop_ends_a_run_with_what_there_is() {
    let read = ["read", "PIPE", "-l", "OUT", "-S", "RULES"];
    let read_by_two = ["read", "PIPE", "-l", "OUT", "-S", "RULES", "--workers", "2"];
    let by_two = [&SURICATA[..], &TWO[..]].concat();
    for (args, signal, code, says) in [
        (&SURICATA[..], "INT", 0, "Signal Received.  Stopping engine."),
        (&SURICATA, "TERM", 0, "Signal Received.  Stopping engine."),
        (&by_two, "INT", 0, "Signal Received.  Stopping engine."),
        (&read, "INT", 130, "stopped before the end"),
        (&read_by_two, "TERM", 0, "stopped before the end"),
    ] {
        let run = Reading::start(args);
        run.signal(signal);
        let (done, dir) = run.end();
        assert_eq!(done.code, code, "{args:?} {}", done.err);
        assert!(done.out.contains(says), "{args:?} {}", done.out);
        assert!(done.out.to_lowercase().contains("ledger"), "{args:?} {}", done.out);
        is_whole(&dir.path().join("out/eve.json"));
    }
}

/// A capture that has not begun yet: nothing was read, and the report must not call it complete.
#[test]
fn a_run_that_is_stopped_before_the_first_packet_claims_nothing() {
    for (workers, signal, code) in [("1", "INT", 130), ("2", "INT", 130), ("1", "TERM", 0)] {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("pipe");
        shell(&format!("mkfifo '{}'", path.display()));
        let mut command = command(&["read", &path.display().to_string(), "--workers", workers]);
        let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut pipe = std::fs::OpenOptions::new().write(true).open(&path).unwrap();
        pipe.write_all(&std::fs::read(demo()).unwrap()[..24]).unwrap();
        shell(&format!("kill -{signal} {}", child.id()));
        let done = ran(child.wait_with_output().unwrap());
        drop(pipe);
        assert_eq!(done.code, code, "{}{}", done.out, done.err);
        assert!(done.out.contains("stopped before the end"), "{}", done.out);
        assert!(
            done.out.contains("Ledger: of what was read until the run was stopped"),
            "{}",
            done.out
        );
        assert!(!done.out.contains("complete"), "{}", done.out);
    }
}

#[test]
fn outputs_are_opened_again() {
    let by_two = [&SURICATA[..], &TWO[..]].concat();
    let read = ["read", "PIPE", "-l", "OUT", "-S", "RULES"];
    let without = ["read", "PIPE", "-l", "OUT"];
    for args in [&SURICATA[..], &by_two, &read, &without] {
        let run = Reading::start(args);
        let (eve, moved) = (run.out("eve.json"), run.out("eve.json.1"));
        std::fs::rename(&eve, &moved).unwrap();
        run.signal("HUP");
        if args == without {
            run.signal("USR2");
        }
        run.signal("TERM");
        let (done, _dir) = run.end();
        assert_eq!(done.code, 0, "{}", done.err);
        let says_not = done.err.contains("rules: this run was started without any");
        assert_eq!(says_not, args == without, "{}{}", done.out, done.err);
        json_lines(&moved);
        assert!(json_lines(&eve) > 0, "{args:?}");
        let text = std::fs::read_to_string(&eve).unwrap();
        assert!(text.lines().last().unwrap().contains("\"event_type\":\"stats\""));
    }
}

#[test]
fn the_pid_file_is_there_as_long_as_the_run() {
    let args = [&SURICATA[..], &["--pidfile", "PID"]].concat();
    let run = Reading::start(&args);
    let pid_file = run.dir.path().join("pid");
    assert_eq!(std::fs::read_to_string(&pid_file).unwrap(), format!("{}\n", run.child.id()));
    let again = command(&["suricata", "-r", &demo(), "--pidfile"])
        .arg(&pid_file)
        .arg("-l")
        .arg(run.dir.path())
        .output();
    let again = ran(again.unwrap());
    assert_eq!(again.code, 1);
    assert!(again.err.contains("exists and Suricata appears to be running"), "{}", again.err);
    // A pipe or a device under its name holds no number, and nobody waits for it.
    let pipe = run.dir.path().join("other.pid");
    shell(&format!("mkfifo '{}'", pipe.display()));
    for path in [pipe.as_path(), Path::new("/dev/zero")] {
        let other = command(&["suricata", "-r", &demo(), "--pidfile"])
            .arg(path)
            .arg("-l")
            .arg(run.dir.path())
            .output();
        let other = ran(other.unwrap());
        assert!(other.code == 1 && other.err.contains("appears stale"), "{}", other.err);
    }
    run.signal("INT");
    let (done, _dir) = run.end();
    assert_eq!(done.code, 0, "{}", done.err);
    assert!(!pid_file.exists());
}

/// Keys, certificates and readers that come through a pipe nobody writes to: a request to stop ends the wait for
/// them at once.
#[test]
fn a_listener_that_waits_for_a_file_stops_at_once() {
    use std::os::unix::process::ExitStatusExt;
    let waits: [&[&str]; 3] = [
        &["--tls", "127.0.0.1:0", "--tls-key", "none", "--recipient", "unread", "--tls-cert"],
        &["--slog-tcp", "127.0.0.1:0", "--recipient", "unread", "--slog-key"],
        &["--tcp", "127.0.0.1:0", "--recipient"],
    ];
    for (number, args) in waits.iter().enumerate() {
        let dir = tempfile::tempdir().unwrap();
        let path = |name: &str| dir.path().join(name).display().to_string();
        shell(&format!("mkfifo '{}'", path("pipe")));
        let mut argv = vec!["listen".to_owned(), "--log".to_owned(), path("log")];
        argv.extend(args.iter().map(|a| (*a).to_owned()).chain([path("pipe")]));
        let names: Vec<&str> = argv.iter().map(String::as_str).collect();
        let mut child =
            command(&names).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        // This opens when the program does.
        let pipe = std::fs::OpenOptions::new().write(true).open(path("pipe")).unwrap();
        shell(&format!("kill -TERM {}", child.id()));
        drop(pipe);
        assert_eq!(child.wait().unwrap().signal(), Some(15), "{number}");
    }
}

/// Runs with one more argument, the path of a pipe, and gives the pipe's writing side: who has that knows that the
/// program waits for what comes through it.
fn waits_for_a_pipe(args: &[&str], prefix: &str) -> (Child, std::fs::File, tempfile::TempDir) {
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name).display().to_string();
    shell(&format!("mkfifo '{}'", path("pipe")));
    let log = path("conn.log");
    std::fs::write(&log, "").unwrap();
    let rules = repository("demo/gabion.rules").display().to_string();
    let demo = demo();
    let mut argv: Vec<String> = args
        .iter()
        .map(|a| match *a {
            "DEMO" => demo.clone(),
            "RULES" => rules.clone(),
            "LOG" => log.clone(),
            "OUT" => dir.path().display().to_string(),
            other => other.to_owned(),
        })
        .collect();
    argv.push(format!("{prefix}{}", path("pipe")));
    let names: Vec<&str> = argv.iter().map(String::as_str).collect();
    let child = command(&names).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    // This opens when the program does.
    let pipe = std::fs::OpenOptions::new().write(true).open(path("pipe")).unwrap();
    (child, pipe, dir)
}

/// Configurations, rules, lists and whatever else the operator names may come through a pipe. While nobody writes into
/// it, a request to stop ends the program.
#[test]
fn a_request_to_stop_ends_the_wait_for_every_file_of_the_operator() {
    use std::os::unix::process::ExitStatusExt;
    let waits: &[(&[&str], &str)] = &[
        (&["read", "DEMO", "-q", "-c"], ""),
        (&["read", "DEMO", "-q", "-S"], ""),
        (&["read", "DEMO", "-q", "-S", "RULES", "--set"], "classification-file="),
        (&["read", "DEMO", "-q", "-S", "RULES", "--set"], "reference-config-file="),
        (&["read", "DEMO", "-q", "-S", "RULES", "--set"], "threshold-file="),
        (&["read", "LOG", "--behavior", "-q", "-c"], ""),
        (&["read", "LOG", "--behavior", "-q", "--intel"], ""),
        (&["read", "LOG", "--behavior", "-q", "--whitelist"], ""),
        (&["read", "LOG", "--behavior", "-q", "--follow", "--intel"], ""),
        (&["rules", "check"], ""),
        (&["rules", "check", "RULES", "-c"], ""),
        (&["rules", "test", "DEMO", "-S", "RULES", "--expect"], ""),
        (&["rules", "cost", "DEMO", "-S"], ""),
        (&["suricata", "-T", "-l", "OUT", "-c"], ""),
        (&["suricata", "-T", "-l", "OUT", "-S"], ""),
    ];
    for (args, prefix) in waits {
        let (mut child, pipe, _dir) = waits_for_a_pipe(args, prefix);
        shell(&format!("kill -TERM {}", child.id()));
        let end = child.wait().unwrap();
        assert_eq!(end.signal(), Some(15), "{args:?} {prefix}: {end}");
        drop(pipe);
    }
}

/// Whether a process has taken over SIGTERM.
fn has_taken_over(child: &Child) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap();
    let caught = status.lines().find_map(|l| l.strip_prefix("SigCgt:")).unwrap().trim();
    u64::from_str_radix(caught, 16).unwrap() & 1 << 14 != 0
}

/// Outputs that are pipes: while nobody opens them, and while nobody reads them, a request to stop ends the program.
#[test]
fn a_request_to_stop_ends_the_wait_for_every_output() {
    use std::os::unix::fs::OpenOptionsExt;
    let log = tempfile::tempdir().unwrap();
    let flows = log.path().join("conn.log");
    let mut text = String::new();
    for n in 0..20_000 {
        text += &format!(
            "{{\"ts\":{n}.5,\"uid\":\"C{n}\",\"id.orig_h\":\"10.0.{}.{}\",\"id.orig_p\":1,\"id.resp_h\":\"1.2.3.4\",\
             \"id.resp_p\":4444,\"proto\":\"tcp\",\"conn_state\":\"SF\"}}\n",
            n / 250,
            n % 250
        );
    }
    std::fs::write(&flows, text).unwrap();
    let (flows, demo) = (flows.display().to_string(), demo());
    let rules = repository("demo/gabion.rules").display().to_string();
    // Each run, its pipe, and whether it gives more than the pipe holds.
    let runs: &[(&[&str], &str, bool)] = &[
        (&["read", &demo, "-S", &rules, "-q", "-l", "OUT"], "eve.json", true),
        (&["read", &demo, "-S", &rules, "-q", "-l", "OUT"], "fast.log", false),
        (&["read", &demo, "-S", &rules, "-q", "-l", "OUT", "--workers", "2"], "eve.json", true),
        (&["read", &demo, "-S", &rules, "-q", "-l", "OUT"], "run.json", false),
        (&["read", &demo, "-S", &rules, "-q", "--report", "OUT/page"], "page", false),
        (&["read", &demo, "-S", &rules, "-q", "--alert-pcap", "OUT/pcap"], "pcap", false),
        (&["suricata", "-r", &demo, "-S", &rules, "-l", "OUT"], "eve.json", true),
        (&["read", &flows, "--behavior", "-q", "-l", "OUT"], "alerts.json", true),
        (&["read", &flows, "--behavior", "-q", "-l", "OUT"], "alerts.log", true),
        (&["read", &flows, "--behavior", "-q", "-l", "OUT", "--workers", "2"], "alerts.json", true),
        (&["read", &flows, "--behavior", "-q", "--follow", "-l", "OUT"], "alerts.json", true),
    ];
    for (args, name, is_much) in runs {
        for is_opened in [false, true] {
            if is_opened && !is_much {
                continue;
            }
            let dir = tempfile::tempdir().unwrap();
            let out = dir.path().display().to_string();
            let pipe = dir.path().join(name);
            shell(&format!("mkfifo '{}'", pipe.display()));
            let args: Vec<String> = args.iter().map(|a| a.replace("OUT", &out)).collect();
            let names: Vec<&str> = args.iter().map(String::as_str).collect();
            let mut child =
                command(&names).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
            let reader = is_opened.then(|| {
                let no_wait = rustix::fs::OFlags::NONBLOCK.bits() as i32;
                std::fs::OpenOptions::new().read(true).custom_flags(no_wait).open(&pipe).unwrap()
            });
            loop {
                let is_full = |reader| rustix::io::ioctl_fionread(reader).unwrap() >= 60 << 10;
                match &reader {
                    // The door of Suricata takes the signals over later; until then they end it as any program.
                    None if has_taken_over(&child) || dir.path().join("fast.log").is_file() => {
                        break;
                    }
                    Some(reader) if is_full(reader) => break,
                    _ => std::thread::yield_now(),
                }
                assert!(child.try_wait().unwrap().is_none(), "{args:?} {name} ended before");
            }
            shell(&format!("kill -TERM {}", child.id()));
            // It ends, though the pipe is neither read nor closed.
            let end = child.wait().unwrap();
            if is_opened {
                let code = if args[0] == "suricata" { 1 } else { 4 };
                assert_eq!(end.code(), Some(code), "{args:?} {name}: lost output is reported");
            }
            drop(reader);
        }
    }
}

/// A device has no end: keys, certificates, texts and summaries are not read from one.
#[test]
fn devices_in_the_place_of_keys_and_texts_are_refused_at_once() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().display().to_string();
    std::os::unix::fs::symlink("/dev/zero", dir.path().join("run.json")).unwrap();
    let listen = ["listen", "--log", "/nowhere/log", "--tcp", "127.0.0.1:0"];
    let send = ["send", "--tls", "127.0.0.1:1", "--count", "1"];
    let tls = ["--tls", "127.0.0.1:0", "--recipient", "none"];
    let zero = "/dev/zero";
    for args in [
        [&listen[..], &["--recipient", zero]].concat(),
        [&listen[..], &["--recipient", "none", "--slog-config", zero]].concat(),
        [&listen[..], &["--recipient", "none", "--slog-tcp", "127.0.0.1:0", "--slog-key", zero]]
            .concat(),
        [&listen[..], &tls, &["--tls-cert", zero, "--tls-key", zero]].concat(),
        [&send[..], &["--tls-ca", zero]].concat(),
        vec!["send", "--tcp", "127.0.0.1:1", "--count", "1", "--text", zero],
        vec!["doctor", &out],
    ] {
        let done = ran(command(&args).output().unwrap());
        assert_eq!(done.code, 3, "{args:?} {}", done.err);
        assert!(done.err.contains("is a device, which has no end"), "{args:?} {}", done.err);
    }
}

/// Rules that come through a pipe, whose writer takes its time, are those of the file.
#[test]
fn rules_may_come_through_a_pipe() {
    use std::io::Write;
    let rules = std::fs::read(repository("demo/gabion.rules")).unwrap();
    let (half, rest) = rules.split_at(rules.len() / 2);
    let (child, mut pipe, _dir) = waits_for_a_pipe(&["read", "DEMO", "--json", "-q", "-S"], "");
    pipe.write_all(half).unwrap();
    std::thread::sleep(std::time::Duration::from_millis(300));
    pipe.write_all(rest).unwrap();
    drop(pipe);
    let piped = child.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&piped.stderr).into_owned();
    assert!(piped.status.success(), "{said}");
    assert!(!said.contains("refused"), "{said}");
}
