//! Entries of systemd's journal in a sealed log: sealed, searched, returned byte for byte, and followed through
//! kills without one lost or doubled.

mod program;

use program::{command, gabion};
use serde_json::Value;
use std::fmt::Write as _;
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Output, Stdio};
use std::time::Duration;

/// A log with a reader's key, in folders that `init` makes.
struct Place {
    folder: tempfile::TempDir,
}

impl Place {
    fn new() -> Place {
        let place = Place { folder: tempfile::tempdir().unwrap() };
        place.ok(&["log", "keygen", "--out", &place.at("keys")]);
        place.ok(&[
            "log",
            "init",
            &place.log(),
            "--origin",
            "here.example/log",
            "--recipient",
            &place.at("keys/recipient.pub"),
        ]);
        place
    }

    fn at(&self, name: &str) -> String {
        self.folder.path().join(name).display().to_string()
    }

    /// Its parents are not there before `init`.
    fn log(&self) -> String {
        self.at("var/log/gabion/log")
    }

    #[track_caller]
    fn ok(&self, args: &[&str]) -> String {
        let ran = gabion(args);
        assert_eq!(ran.code, 0, "{args:?}: {}", ran.err);
        ran.out
    }

    fn append(&self, input: &[u8]) -> Output {
        let args = ["log", "append", &self.log(), "--journal-export"];
        let piped = command(&args)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn();
        let mut child = piped.unwrap();
        child.stdin.take().unwrap().write_all(input).unwrap();
        child.wait_with_output().unwrap()
    }

    fn key(&self) -> String {
        self.at("keys/recipient.key")
    }

    fn show(&self, more: &[&str]) -> Vec<Value> {
        let (log, key) = (self.log(), self.key());
        let mut args = vec!["log", "show", &log, "--key", &key, "--kind", "message"];
        args.extend(more);
        let ran = gabion(&args);
        assert_eq!(ran.code, 0, "{more:?}: {}", ran.err);
        ran.out.lines().map(|l| serde_json::from_str(l).unwrap()).collect()
    }

    fn export(&self, format: &str) -> Vec<u8> {
        let (log, key) = (self.log(), self.key());
        let out =
            command(&["log", "export", &log, "--key", &key, "--format", format]).output().unwrap();
        assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
        out.stdout
    }
}

/// Numbers that are the same each time (splitmix64).
struct Chance(u64);

impl Chance {
    fn below(&mut self, n: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ z >> 31) % n
    }
}

fn field(name: &str, value: &[u8], out: &mut Vec<u8>) {
    gabion_logs::journal::put_field(name, value, out);
}

/// An entry as journald writes it.
fn entry(n: usize, unit: &str, priority: u8, message: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    field("__CURSOR", format!("s=5d0c;i={n:x};b=b0;m=1;t=2;x=3").as_bytes(), &mut out);
    field(
        "__REALTIME_TIMESTAMP",
        (1_700_000_000_000_000 + n as u64 * 1_000).to_string().as_bytes(),
        &mut out,
    );
    field("__MONOTONIC_TIMESTAMP", n.to_string().as_bytes(), &mut out);
    field("_HOSTNAME", b"web1.example", &mut out);
    field("_SYSTEMD_UNIT", unit.as_bytes(), &mut out);
    field("SYSLOG_IDENTIFIER", unit.split('.').next().unwrap().as_bytes(), &mut out);
    field("_PID", b"4711", &mut out);
    field("PRIORITY", priority.to_string().as_bytes(), &mut out);
    field("SYSLOG_FACILITY", b"3", &mut out);
    field("MESSAGE", message, &mut out);
    out.push(b'\n');
    out
}

/// Ten thousand entries with binary fields, line ends in them, fields that come twice, and a hundred fields.
#[test]
fn entries_come_back_byte_for_byte() {
    let mut chance = Chance(1);
    let mut input = Vec::new();
    for n in 0..10_000 {
        let bytes: Vec<u8> = (0..chance.below(60)).map(|_| chance.below(256) as u8).collect();
        let mut one = entry(n, "a.service", 6, &bytes);
        one.pop();
        field("TWICE", b"one", &mut one);
        field("TWICE", format!("{n}\nand more\n\n").as_bytes(), &mut one);
        if n % 1000 == 0 {
            (0..100).for_each(|f| field(&format!("FIELD_{f}"), &vec![f as u8; 300], &mut one));
        }
        one.push(b'\n');
        input.extend(one);
    }
    let place = Place::new();
    let ran = place.append(&input);
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
    assert!(place.export("journal") == input);
    let shown = place.show(&["-n", "1"]);
    let fields = &shown[0]["fields"];
    assert_eq!(fields["TWICE"][0], "one");
    assert_eq!(
        (&shown[0]["unit"], &shown[0]["host"]),
        (&"a.service".into(), &"web1.example".into())
    );
}

/// What is shown of an entry, to programs, to people and as syslog.
#[test]
fn entries_say_who_wrote_what() {
    let place = Place::new();
    let input = [
        entry(1, "nginx.service", 4, b"upstream timed out"),
        entry(2, "sshd.service", 6, b"two\nlines \x1b[31m"),
    ];
    assert!(place.append(&input.concat()).status.success());
    let shown = place.show(&[]);
    let first = &shown[0];
    for (key, wanted) in [
        ("host", "web1.example"),
        ("unit", "nginx.service"),
        ("app", "nginx"),
        ("pid", "4711"),
        ("msg", "upstream timed out"),
        ("transport", "journal"),
        ("stated", "2023-11-14T22:13:20.001000000Z"),
    ] {
        assert_eq!(first[key], wanted, "{key}");
    }
    assert_eq!((&first["severity"], &first["facility"]), (&4.into(), &3.into()));
    let text = place.ok(&[
        "log",
        "show",
        &place.log(),
        "--key",
        &place.key(),
        "--kind",
        "message",
        "--text",
    ]);
    assert!(text.contains(" web1.example nginx[4711]: upstream timed out\n"), "{text}");
    assert!(text.contains("sshd[4711]: two\\x0alines \\x1b[31m\n"), "{text}");
    let syslog = String::from_utf8(place.export("rfc5424")).unwrap();
    let said = "<28>1 2023-11-14T22:13:20.001000Z web1.example nginx 4711 - - upstream timed out";
    assert!(syslog.starts_with(&format!("{} {said}\n", said.len())), "{syslog}");
}

/// What is no journal is refused where it is; what came before it is sealed.
#[test]
fn what_is_no_journal_is_refused() {
    let place = Place::new();
    let refused = |input: &[u8], what: &str| {
        let ran = place.append(input);
        let said = String::from_utf8_lossy(&ran.stderr).into_owned();
        assert!(
            ran.status.code() == Some(3)
                && said.contains(what)
                && said.contains("journalctl -o export"),
            "{said}"
        );
    };
    refused(b"Nov 23 10:00:00 host app: text\n", "entry 1: ");
    refused(&[entry(1, "a.service", 6, b"good"), b"{\"a\":1}\n".to_vec()].concat(), "entry 2: ");
    refused(&entry(2, "a.service", 6, b"half")[..40], "ends within a field");
    let shown = place.show(&[]);
    assert_eq!((shown.len(), &shown[0]["msg"]), (1, &"good".into()));
}

/// Host, unit, program, severity, text, the last ones and the newest first, over the journal's entries and the
/// messages of syslog in the same log.
#[test]
fn a_log_is_searched_as_with_journalctl() {
    let place = Place::new();
    let mut input = Vec::new();
    for n in 0..20_000 {
        let unit = ["nginx.service", "sshd.service", "cron.service"][n % 3];
        input.extend(entry(n, unit, (n % 8) as u8, format!("number {n}").as_bytes()));
    }
    assert!(place.append(&input).status.success());
    let mut child =
        command(&["log", "append", &place.log(), "-q"]).stdin(Stdio::piped()).spawn().unwrap();
    let lines = b"<11>1 2026-11-23T10:00:00Z db1 postgres 7 - - number 20000\n<14>Nov 23 10:00:00 db2 cron[8]: number 20001\n";
    child.stdin.take().unwrap().write_all(lines).unwrap();
    assert!(child.wait().unwrap().success());
    let count = |more: &[&str]| place.show(more).len();
    assert_eq!(count(&[]), 20_002);
    assert_eq!(
        (count(&["-u", "nginx"]), count(&["--unit", "nginx.service", "--unit", "cron"])),
        (6_667, 13_333)
    );
    assert_eq!(
        (count(&["--host", "WEB1.example"]), count(&["--host", "db1", "--host", "db2"])),
        (20_000, 2)
    );
    assert_eq!((count(&["-t", "cron"]), count(&["-t", "postgres"])), (6_667, 1));
    // 0 to 3 of each eight, and the error of syslog.
    assert_eq!((count(&["-p", "err"]), count(&["-p", "3..3"])), (10_001, 2_501));
    assert_eq!((count(&["-u", "sshd", "-p", "emerg"]), count(&["-g", "number 1999"])), (833, 11));
    let numbers = |more: &[&str]| -> Vec<String> {
        let shown = place.show(more);
        shown
            .iter()
            .map(|r| r["msg"].as_str().unwrap().rsplit(' ').next().unwrap().to_owned())
            .collect()
    };
    assert_eq!(numbers(&["-n", "3"]), ["19999", "20000", "20001"]);
    assert_eq!(numbers(&["-n", "3", "-r"]), ["20001", "20000", "19999"]);
    assert_eq!(numbers(&["-u", "sshd", "-n", "2"]), ["19996", "19999"].map(String::from)[..]);
    assert_eq!(numbers(&["-n", "0"]).len(), 0);
    let mut all = numbers(&["--reverse"]);
    all.reverse();
    assert_eq!((all.len(), all == numbers(&[])), (20_002, true));
    assert_eq!(count(&["--since", "yesterday"]), 20_002);
    assert_eq!(
        (count(&["--since", "2026-01-01 04:00"]), count(&["--until", "2020-01-01"])),
        (20_002, 0)
    );
    let (log, key) = (place.log(), place.key());
    let refused = |more: &[&str], code: i32, what: &str| {
        let mut args = vec!["log", "show", &log, "--key", &key];
        args.extend(more);
        gabion(&args).refuses(code, &[what]);
    };
    refused(&["--since", "today", "--until", "yesterday"], 2, "is not before --until");
    refused(&["--since", "soon"], 2, "not a time");
    refused(&["--record", "10-5"], 2, "the first is after the last");
    refused(&["--record", "999999"], 3, "the log holds ");
    refused(&["-p", "loud"], 2, "is not a severity");
}

/// On a full disk the error names the place and how much is sealed, and that much can be shown; the same holds when the
/// journal is followed.
#[test]
fn a_full_disk_says_what_is_sealed() {
    let place = Place::new();
    let disk = place.at("disk");
    std::fs::create_dir(&disk).unwrap();
    let mounted = std::process::Command::new("mount")
        .args(["-t", "tmpfs", "-o", "size=3m", "none", &disk])
        .status();
    if !mounted.is_ok_and(|status| status.success()) {
        eprintln!("a_full_disk_says_what_is_sealed: skipped: no file system can be mounted here");
        return;
    }
    let _gone = Unmounted(disk.clone());
    let log = format!("{disk}/log");
    place.ok(&[
        "log",
        "init",
        &log,
        "--origin",
        "full.example/log",
        "--recipient",
        &place.at("keys/recipient.pub"),
    ]);
    // Bytes that can't be packed.
    let mut chance = Chance(3);
    let mut input = Vec::new();
    for n in 0..400 {
        let bytes: Vec<u8> = (0..10_000).map(|_| chance.below(256) as u8).collect();
        input.extend(entry(n, "a.service", 6, &bytes));
    }
    let piped = command(&["log", "append", &log, "--journal-export"])
        .stdin(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn();
    let mut child = piped.unwrap();
    let _ = child.stdin.take().unwrap().write_all(&input);
    let ran = program::ran(child.wait_with_output().unwrap());
    ran.refuses(4, &[&log, "No space left", "make space"]);
    let sealed: usize = ran
        .err
        .split(": ")
        .find_map(|part| part.strip_suffix(" records of this run are sealed")?.parse().ok())
        .unwrap();
    let shown = gabion(&["log", "show", &log, "--key", &place.key(), "--kind", "message"]);
    assert!(sealed > 0 && shown.out.lines().count() >= sealed, "{sealed}");
    let journal = place.folder.path().join("journal.export");
    std::fs::write(&journal, &input).unwrap();
    let cat = place.folder.path().join("cat");
    std::fs::write(&cat, format!("#!/bin/sh\ncat '{}'\n", journal.display())).unwrap();
    std::fs::set_permissions(&cat, std::fs::Permissions::from_mode(0o755)).unwrap();
    let followed =
        gabion(&["log", "follow-journal", &log, "--journalctl", &cat.display().to_string()]);
    assert_eq!(followed.code, 4, "{}", followed.err);
    let last = followed.err.lines().last().unwrap();
    assert!(
        last.contains(&log) && last.contains("free disk space and start it again"),
        "{}",
        followed.err
    );
}

/// A file system that goes with the test.
struct Unmounted(String);

impl Drop for Unmounted {
    fn drop(&mut self) {
        let _ = std::process::Command::new("umount").arg(&self.0).status();
    }
}

/// A failed `init` leaves no files.
#[test]
fn a_failed_init_leaves_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name).display().to_string();
    gabion(&["log", "keygen", "--out", &at("keys")]);
    std::fs::write(at("file"), "x").unwrap();
    let (log, state) = (at("a/b/log"), at("file/state"));
    let args = [
        "log",
        "init",
        &log,
        "--state",
        &state,
        "--origin",
        "x.example/log",
        "--recipient",
        &at("keys/recipient.pub"),
    ];
    let ran = gabion(&args);
    assert_eq!(ran.code, 4, "{}", ran.err);
    assert!(!Path::new(&at("a")).exists(), "{}", ran.err);
}

/// Lines of each entry of the made journal.
const LINES: usize = 11;

/// A program that reads a made journal as journalctl does: all entries after a cursor, or the entry of one.
fn made_journalctl(folder: &Path, journal: &Path) -> PathBuf {
    let path = folder.join("journalctl");
    let text = format!(
        "#!/bin/sh\n\
         begin=1; follow=; lines=\n\
         number() {{ printf '%d' \"0x$(printf '%s' \"$1\" | sed 's/.*;i=\\([0-9a-f]*\\);.*/\\1/')\"; }}\n\
         for a in \"$@\"; do case $a in\n\
           --follow) follow=-f ;;\n\
           --after-cursor=*) begin=$((($(number \"$a\") + 1) * {LINES} + 1)) ;;\n\
           --cursor=*) begin=$(($(number \"$a\") * {LINES} + 1)) ;;\n\
           --lines=*) lines=$((${{a#*=}} * {LINES})) ;;\n\
         esac; done\n\
         if [ \"$lines\" ]; then tail -n +$begin '{0}' | head -n $lines; else exec tail -n +$begin $follow '{0}'; fi\n",
        journal.display()
    );
    std::fs::write(&path, text).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
    path
}

/// A run of `follow-journal`, that is killed when the test ends.
struct Following(Child);

impl Drop for Following {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn follow(place: &Place, journalctl: &Path) -> Following {
    let journalctl = journalctl.display().to_string();
    let args = ["log", "follow-journal", &place.log(), "--journalctl", &journalctl, "--json"];
    Following(command(&args).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap())
}

fn stop(mut following: Following) -> (Option<i32>, String, String) {
    let pid = rustix::process::Pid::from_child(&following.0);
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
    let code = following.0.wait().unwrap().code();
    let read = |from: Option<&mut dyn std::io::Read>| {
        let mut text = String::new();
        from.map(|f| f.read_to_string(&mut text));
        text
    };
    let out = read(following.0.stdout.as_mut().map(|o| o as &mut dyn std::io::Read));
    let err = read(following.0.stderr.as_mut().map(|o| o as &mut dyn std::io::Read));
    (code, out, err)
}

/// Waits until something is so.
#[track_caller]
fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let begin = gabion_runtime::clock::now();
    while !is_so() {
        assert!(begin.elapsed() < Duration::from_secs(60), "{what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// Chunks of records in a log, by its files.
fn size(log: &str) -> u64 {
    let files = std::fs::read_dir(log).unwrap().flatten();
    files
        .filter(|f| f.path().extension().is_some_and(|e| e == "gsl"))
        .map(|f| f.metadata().map_or(0, |m| m.len()))
        .sum()
}

/// Killed twenty times while entries come: none is lost, none is there twice.
#[test]
fn a_journal_is_followed_through_kills() {
    let place = Place::new();
    let journal = place.folder.path().join("journal.export");
    std::fs::write(&journal, "").unwrap();
    let journalctl = made_journalctl(place.folder.path(), &journal);
    let mut file = std::fs::OpenOptions::new().append(true).open(&journal).unwrap();
    let (mut written, mut chance) = (0, Chance(7));
    let mut write = |count: usize| {
        for _ in 0..count {
            let one = entry(written, "a.service", 6, format!("number {written}").as_bytes());
            assert_eq!(one.iter().filter(|b| **b == b'\n').count(), LINES);
            file.write_all(&one).unwrap();
            written += 1;
        }
    };
    write(500);
    for kill in 0..20 {
        let mut following = follow(&place, &journalctl);
        let before = size(&place.log());
        // Behind the begin of a segment, entries are being sealed.
        until("nothing is sealed", || {
            write(5);
            size(&place.log()) > before + 2_000 + chance.below(3_000)
        });
        (0..chance.below(20)).for_each(|_| write(50));
        following.0.kill().unwrap();
        following.0.wait().unwrap();
        let mut err = String::new();
        let _ = std::io::Read::read_to_string(following.0.stderr.as_mut().unwrap(), &mut err);
        assert!(err.lines().all(|l| l.contains("recovered after a crash")), "kill {kill}: {err}");
    }
    let following = follow(&place, &journalctl);
    let all = std::fs::read(&journal).unwrap();
    until("not all is sealed", || place.export("journal").len() >= all.len());
    let (code, out, err) = stop(following);
    assert_eq!(code, Some(0), "{err}");
    assert!(out.contains("\"gaps\":0"), "{out}");
    assert!(place.export("journal") == all, "lost or doubled");
    let verified = gabion(&["log", "verify", &place.log(), "--allow-unanchored", "-q"]);
    assert_eq!(verified.code, 0, "{}", verified.err);
}

/// The journal has pruned the last sealed entry: this is reported, and recorded in the log.
#[test]
fn a_gap_of_the_journal_is_reported() {
    let place = Place::new();
    let journal = place.folder.path().join("journal.export");
    let mut text = Vec::new();
    (0..10).for_each(|n| text.extend(entry(n, "a.service", 6, b"x")));
    std::fs::write(&journal, &text).unwrap();
    let journalctl = made_journalctl(place.folder.path(), &journal);
    let following = follow(&place, &journalctl);
    until("not all is sealed", || place.export("journal").len() >= text.len());
    assert_eq!(stop(following).0, Some(0));
    std::fs::write(&journal, "").unwrap();
    let following = follow(&place, &journalctl);
    let mut said = String::new();
    until("no gap is reported", || {
        let (log, key) = (place.log(), place.key());
        said = gabion(&["log", "show", &log, "--key", &key, "--kind", "system"]).out;
        said.contains("journal-gap")
    });
    let (code, out, err) = stop(following);
    assert_eq!(code, Some(0), "{err}");
    assert!(err.contains("has deleted the entry") && out.contains("\"gaps\":1"), "{err}{out}");
}

/// A journalctl that is not there, or ends.
#[test]
fn a_journalctl_that_fails_is_reported() {
    let place = Place::new();
    let run =
        |program: &str| gabion(&["log", "follow-journal", &place.log(), "--journalctl", program]);
    run("/nonexistent/journalctl").refuses(4, &["/nonexistent/journalctl", "--journalctl"]);
    run("false").refuses(4, &["false ended (exit status: 1)"]);
    let text = place.folder.path().join("text");
    std::fs::write(&text, "#!/bin/sh\necho no journal\n").unwrap();
    std::fs::set_permissions(&text, std::fs::Permissions::from_mode(0o755)).unwrap();
    run(&text.display().to_string()).refuses(3, &["other letters"]);
}

/// journalctl of systemd, over a journal of its own, where the programs are there.
#[test]
fn entries_of_systemd_come_back() {
    let remote = Path::new("/lib/systemd/systemd-journal-remote");
    if !remote.exists() {
        eprintln!(
            "entries_of_systemd_come_back: skipped: no {} (systemd-journal-remote)",
            remote.display()
        );
        return;
    }
    let place = Place::new();
    let mut input = String::new();
    for n in 0..300 {
        let one = entry(n, "b.service", 5, format!("entry {n}").as_bytes());
        let one = String::from_utf8(one).unwrap();
        let boot = "_BOOT_ID=0123456789abcdef0123456789abcdef\n";
        let one: String =
            one.lines().filter(|l| !l.starts_with("__CURSOR")).fold(String::new(), |mut all, l| {
                let _ = writeln!(all, "{l}");
                if l.starts_with("_HOSTNAME") {
                    all.push_str(boot);
                }
                all
            });
        input.push_str(&one);
    }
    let made = place.at("made.journal");
    let mut child = std::process::Command::new(remote)
        .args(["-o", &made, "-"])
        .stdin(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    child.wait().unwrap();
    let all = std::process::Command::new("journalctl")
        .args(["--quiet", "--all", "--output=export", &format!("--file={made}")])
        .output()
        .unwrap();
    assert!(place.append(&all.stdout).status.success());
    assert_eq!(place.show(&[]).len(), 300);
    assert!(place.export("journal") == all.stdout);
}
