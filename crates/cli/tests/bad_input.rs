//! An error outside the program is reported in one line with the right exit code, and files that were written
//! stay valid.
#![allow(clippy::disallowed_methods)] // waits for another process, by the clock

mod program;

use program::{command, demo, gabion, json_lines, ran, repository};
use std::path::Path;
use std::time::{Duration, Instant};

/// A pcap file header without packets: little endian, Ethernet (draft-ietf-opsawg-pcap).
const EMPTY_PCAP: [u8; 24] =
    [0xd4, 0xc3, 0xb2, 0xa1, 2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 0, 0, 1, 0, 0, 0];

fn scratch() -> tempfile::TempDir {
    tempfile::tempdir().unwrap()
}

fn write(folder: &Path, name: &str, bytes: &[u8]) -> String {
    let path = folder.join(name);
    std::fs::write(&path, bytes).unwrap();
    path.display().to_string()
}

#[test]
fn captures_that_are_none_are_named_with_the_reason() {
    let dir = scratch();
    let folder = dir.path();
    let cases = [
        ("missing.pcap".to_string(), None, "No such file"),
        ("empty.pcap".to_string(), Some(&b""[..]), "empty file"),
        (
            "text.pcap".to_string(),
            Some(&b"this is no capture at all, but a text\n"[..]),
            "not a capture",
        ),
        ("torn.pcap".to_string(), Some(&EMPTY_PCAP[..10]), "torn"),
    ];
    for (name, bytes, word) in cases {
        let path = match bytes {
            Some(b) => write(folder, &name, b),
            None => folder.join(&name).display().to_string(),
        };
        let r = gabion(&["read", &path]);
        r.refuses(3, &[&name, word]);
        assert_eq!(r.out, "", "a report of nothing");
    }
}

#[test]
fn the_other_captures_are_read_all_the_same() {
    let dir = scratch();
    let bad = write(dir.path(), "a.pcap", b"");
    let r = gabion(&["read", &bad, &demo(), "--json"]);
    r.refuses(3, &["a.pcap", "empty file"]);
    let v: serde_json::Value = serde_json::from_str(&r.out).unwrap();
    assert_eq!(v["packets"], 1264);
    assert_eq!(v["exit"], 3);
}

#[test]
fn a_torn_capture_is_read_up_to_its_end_and_the_rest_is_counted() {
    let dir = scratch();
    let bytes = std::fs::read(demo()).unwrap();
    let path = write(dir.path(), "torn.pcap", &bytes[..bytes.len() - 20]);
    let r = gabion(&["read", &path, "--json"]);
    assert_eq!(r.code, 0, "{}", r.err);
    assert!(r.err.contains("ends inside a record"), "{}", r.err);
    let v: serde_json::Value = serde_json::from_str(&r.out).unwrap();
    assert_eq!(v["packets"], 1263);
    assert_eq!(v["ledger"][0]["shed"]["torn_file"]["items"], 1);
    assert_eq!(v["ledger"][0]["balanced"], true);
}

#[test]
fn an_empty_capture_is_a_success() {
    let dir = scratch();
    let path = write(dir.path(), "none.pcap", &EMPTY_PCAP);
    let r = gabion(&["read", &path]);
    assert_eq!((r.code, r.err.as_str()), (0, ""));
    let r = gabion(&["suricata", "-r", &path, "-l", &dir.path().display().to_string()]);
    assert_eq!(r.code, 0, "{}", r.err);
}

#[test]
fn rule_files_that_are_none_are_named_with_the_reason() {
    let dir = scratch();
    let demo = demo();
    for verb in ["read", "test"] {
        let run = |rules: &str| match verb {
            "read" => gabion(&["read", &demo, "-S", rules]),
            _ => gabion(&["rules", "test", &demo, "-S", rules]),
        };
        run(&demo).refuses(3, &["demo.pcap", "binary"]);
        let missing = dir.path().join("none.rules").display().to_string();
        run(&missing).refuses(3, &["none.rules", "No such file"]);
    }
}

#[test]
fn configurations_that_are_none_are_named_with_the_reason() {
    let dir = scratch();
    let yaml = write(dir.path(), "x.yaml", b"%YAML 1.1\n---\na: [1\n");
    gabion(&["read", &demo(), "-c", &yaml]).refuses(3, &["x.yaml"]);
    let missing = dir.path().join("none.yaml").display().to_string();
    gabion(&["read", &demo(), "-c", &missing]).refuses(3, &["none.yaml"]);
    gabion(&["read", &demo(), "--set", "novalue"]).refuses(2, &["--set novalue"]);
}

#[test]
fn usage_faults_exit_with_2() {
    for args in [&["read"][..], &["nonsense"], &["read", "x", "--nonsense"], &[]] {
        let r = gabion(args);
        assert_eq!(r.code, 2, "{args:?}: {}", r.err);
        assert!(r.out.is_empty());
    }
    let r = gabion(&["--help"]);
    assert_eq!(r.code, 0);
    assert!(r.out.contains("read"), "{}", r.out);
}

#[test]
fn a_folder_that_cannot_be_written_is_reported_before_anything_is_read() {
    let dir = scratch();
    // A file where a folder is needed refuses even those who may write everywhere.
    let file = write(dir.path(), "file", b"");
    let below = format!("{file}/out");
    gabion(&["read", &demo(), "-l", &below]).refuses(4, &["file/out", "-l"]);
    gabion(&["read", &demo(), "-l", &file]).refuses(4, &["is not a folder", "-l"]);
    std::fs::create_dir(dir.path().join("taken")).unwrap();
    std::fs::create_dir(dir.path().join("taken/eve.json")).unwrap();
    let taken = dir.path().join("taken").display().to_string();
    gabion(&["read", &demo(), "-l", &taken]).refuses(4, &["eve.json", "-l"]);
}

#[test]
fn a_full_disk_is_reported_and_counted() {
    let dir = scratch();
    let out = dir.path().join("out").display().to_string();
    let set = "outputs.1.eve-log.filename=/dev/full";
    let r = gabion(&["read", &demo(), "-l", &out, "--set", set, "--json"]);
    r.refuses(4, &["/dev/full", "make space"]);
    let v: serde_json::Value = serde_json::from_str(&r.out).unwrap();
    let full = v["ledger"].as_array().unwrap().iter().find(|e| e["stage"] == "full").unwrap();
    assert!(full["shed"]["output_failed"]["items"].as_u64().unwrap() > 100);
    assert_eq!(full["balanced"], true);
}

#[test]
fn outputs_are_valid_lines() {
    let dir = scratch();
    let out = dir.path().join("a/b");
    let rules = repository("demo/gabion.rules").display().to_string();
    let r = gabion(&["read", &demo(), "-S", &rules, "-l", &out.display().to_string(), "-q"]);
    assert_eq!((r.code, r.out.as_str()), (0, ""));
    assert!(json_lines(&out.join("eve.json")) > 300);
}

#[test]
fn severity_decides_the_exit_code_when_asked() {
    let rules = repository("demo/gabion.rules").display().to_string();
    for (priority, code) in [("1", 1), ("255", 1)] {
        let r = gabion(&["read", &demo(), "-S", &rules, "-q", "--fail-on", priority]);
        assert_eq!(r.code, code, "{}", r.err);
    }
}

/// A number that asks for nothing is refused, with what it may be, before anything is read.
#[test]
fn numbers_that_mean_nothing_are_refused() {
    let dir = scratch();
    let pcap = dir.path().join("out.pcap").display().to_string();
    let level = "1 (high), 2 (medium) or 3 (low)";
    for (args, says) in [
        (&["--fail-on", "0"][..], level),
        (&["--fail-on", "256"], level),
        (&["--fail-on", "high"], level),
        (&["--behavior", "--fail-on", "0"], level),
        (&["--workers", "0"], "from 1 to 1024"),
        (&["--workers", "1000000"], "from 1 to 1024"),
        (&["--budget", "0"], "such as 64MiB"),
        (&["--budget", "0KiB"], "such as 64MiB"),
        (&["--alert-pcap", &pcap, "--alert-pcap-ring", "0"], "such as 64MiB"),
    ] {
        let r = gabion(&[&["read", &demo(), "-q"], args].concat());
        assert_eq!(r.code, 2, "{args:?} {}", r.err);
        assert!(r.err.contains(says), "{args:?} {}", r.err);
        assert!(!Path::new(&pcap).exists());
    }
    let r = gabion(&["rules", "test", &demo(), "--jobs", "0"]);
    assert!(r.code == 2 && r.err.contains("from 1 to 1024"), "{}", r.err);
}

#[test]
fn standard_input_is_read() {
    let file = std::fs::File::open(demo()).unwrap();
    let r = ran(command(&["read", "-", "--json"]).stdin(file).output().unwrap());
    let v: serde_json::Value = serde_json::from_str(&r.out).unwrap();
    assert_eq!((r.code, &v["packets"]), (0, &1264.into()));
}

/// SIGINT while input still flows: what was read so far is in the outputs, and they are whole.
#[test]
fn an_interrupted_run_leaves_whole_outputs() {
    use std::io::Write;
    use std::process::Stdio;
    let dir = scratch();
    let out = dir.path().join("out");
    let shown = out.display().to_string();
    let mut child = command(&["read", "-", "-l", &shown, "--json"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut input = child.stdin.take().unwrap();
    let bytes = std::fs::read(demo()).unwrap();
    input.write_all(&bytes).unwrap();
    input.flush().unwrap();
    // Outputs are opened after signals can be taken: wait until they are there.
    let deadline = Instant::now() + Duration::from_secs(20);
    while !out.join("eve.json").exists() && Instant::now() < deadline {
        std::thread::sleep(Duration::from_millis(10));
    }
    std::thread::sleep(Duration::from_millis(200));
    let id = child.id().to_string();
    std::process::Command::new("kill").args(["-INT", &id]).status().unwrap();
    std::thread::sleep(Duration::from_millis(50));
    // The read under way is restarted: more input shows the program the request.
    let _ = input.write_all(&bytes[24..]);
    drop(input);
    let r = ran(child.wait_with_output().unwrap());
    assert_eq!(r.code, 130, "{}", r.err);
    let v: serde_json::Value = serde_json::from_str(&r.out).unwrap();
    assert_eq!((&v["stopped"], &v["exit"]), (&true.into(), &130.into()));
    json_lines(&out.join("eve.json"));
}

/// A refused rule is reported, also with `-q`; the others are used. Where none is left the run ends with 3.
#[test]
fn refused_rules_are_reported_and_a_run_without_any_ends() {
    let dir = tempfile::tempdir().unwrap();
    let good = "alert ip any any -> any any (msg:\"a\"; sid:1;)\n";
    let bad = "alert nothing any any -> any any (msg:\"b\"; sid:2;)\n";
    let some = write(dir.path(), "some.rules", format!("{good}{bad}").as_bytes());
    let none =
        write(dir.path(), "none.rules", bad.repeat(2).replacen("sid:2", "sid:3", 1).as_bytes());
    for quiet in [&[][..], &["-q"]] {
        let ran = |rules: &str| gabion(&[&["read", &demo(), "-S", rules], quiet].concat());
        let r = ran(&some);
        assert_eq!(r.code, 0, "{}", r.err);
        assert_eq!(r.err.matches("gabion: rules: 1 refused").count(), 1, "{}", r.err);
        ran(&none).refuses(3, &["rules: all 2 rules were refused", "none.rules"]);
    }
    gabion(&["rules", "test", &demo(), "-S", &none]).refuses(3, &["all 2 rules were refused"]);
    let set = ["--set", "vars.address-groups.HOME_NET=banana"];
    let home = write(dir.path(), "home.rules", good.replacen("any", "$HOME_NET", 1).as_bytes());
    gabion(&[&["read", &demo(), "-q", "-S", &home], &set[..]].concat())
        .refuses(3, &["vars.address-groups.HOME_NET", "banana"]);
    // No rule was meant: nothing was refused.
    let empty = write(dir.path(), "empty.rules", b"# nothing\n");
    assert_eq!(gabion(&["read", &demo(), "-q", "-S", &empty]).code, 0);
}

/// A packed rule file of nothing but zeros unpacks to more than any rule set: it is refused before it
/// takes the memory.
#[test]
fn packed_rules_that_burst_or_break_are_refused() {
    let dir = scratch();
    let mut bomb = zstd::stream::write::Encoder::new(Vec::new(), 1).unwrap();
    std::io::copy(&mut std::io::Read::take(std::io::repeat(b'#'), 300 << 20), &mut bomb).unwrap();
    let bomb = bomb.finish().unwrap();
    assert!(bomb.len() < 100_000);
    let path = write(dir.path(), "bomb.rules.zst", &bomb);
    gabion(&["read", &demo(), "-S", &path]).refuses(3, &["bomb.rules.zst", "256 MiB"]);
    let rules = std::fs::read(repository("demo/gabion.rules")).unwrap();
    let packed = zstd::encode_all(rules.as_slice(), 1).unwrap();
    let path = write(dir.path(), "torn.rules.zst", &packed[..packed.len() / 2]);
    gabion(&["read", &demo(), "-S", &path]).refuses(3, &["torn.rules.zst", "unpacked"]);
    let path = write(dir.path(), "plain.rules.zst", &rules);
    gabion(&["read", &demo(), "-S", &path]).refuses(3, &["plain.rules.zst", "unpacked"]);
    let path = write(dir.path(), "good.rules.zst", &packed);
    assert_eq!(gabion(&["read", &demo(), "-S", &path, "-q"]).code, 0);
    // A device that never ends.
    gabion(&["read", &demo(), "-S", "/dev/zero"]).refuses(3, &["/dev/zero", "device"]);
}

#[test]
fn folders_in_place_of_files_are_named() {
    let dir = scratch();
    let folder = dir.path().display().to_string();
    gabion(&["read", &demo(), "-S", &folder]).refuses(3, &[&folder, "directory"]);
    gabion(&["read", &demo(), "-c", &folder]).refuses(3, &[&folder, "directory"]);
    // A folder of captures is fine, one without any file is named.
    gabion(&["read", &folder]).refuses(3, &[&folder, "no files"]);
}

/// Rules load without their configuration files, but the missing files are reported.
#[test]
fn missing_configuration_files_of_rules_are_named() {
    let dir = scratch();
    let rules = repository("demo/gabion.rules").display().to_string();
    for (key, word) in [
        ("classification-file", "classtypes"),
        ("reference-config-file", "references"),
        ("threshold-file", "thresholds"),
    ] {
        let set = format!("{key}=/nonexistent/x.config");
        let r = gabion(&["read", &demo(), "-S", &rules, "-q", "--set", &set]);
        let words = ["/nonexistent/x.config", "No such file", word, key];
        let said: Vec<&str> =
            r.err.lines().filter(|l| words.iter().all(|w| l.contains(w))).collect();
        assert_eq!((r.code, said.len()), (0, 1), "{}", r.err);
        // `gabion suricata` reports it in the words of Suricata (8.0.7: `could not open`, `Error opening file`).
        let out = dir.path().display().to_string();
        let demo = demo();
        let args = ["suricata", "-r", &demo, "-S", &rules, "-l", &out, "--set", &set];
        let r = gabion(&args);
        let said = format!("{}{}", r.out, r.err);
        assert!(r.code == 0 && said.contains("\"/nonexistent/x.config\": No such file"), "{said}");
    }
}

/// A file that may not grow any further (`ulimit -f`) is a full disk: reported once, counted, and
/// what was written are whole lines.
#[test]
fn outputs_that_may_not_grow_end_in_whole_lines() {
    let dir = scratch();
    let out = dir.path().join("out");
    let shown = out.display().to_string();
    let mut c = std::process::Command::new("sh");
    c.args(["-c", "ulimit -f 40; exec \"$@\"", "sh", env!("CARGO_BIN_EXE_gabion")]);
    c.args(["read", &demo(), "-l", &shown, "--json"]).env("TZ", "UTC");
    let r = ran(c.output().unwrap());
    r.refuses(4, &["eve.json", "cannot be written", "make space"]);
    let v: serde_json::Value = serde_json::from_str(&r.out).unwrap();
    let eve =
        v["ledger"].as_array().unwrap().iter().find(|e| e["shed"]["output_failed"]["items"] != 0);
    assert_eq!(eve.unwrap()["balanced"], true);
    assert!(json_lines(&out.join("eve.json")) > 10);
}

/// A secret that was given where a path, a public key or anything else is wanted is in no error text.
#[test]
fn secrets_given_by_mistake_are_not_repeated() {
    let seed = "0123456789abcdef".repeat(4);
    let key = "gabion-secret-x25519 q83vASNFZ4mrze8BI0VniavN7wEjRWeJq83vASNFZ4k=";
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().display().to_string();
    for secret in [seed.as_str(), key] {
        for args in [
            vec!["log", "verify", &log, "--vkey", secret],
            vec!["log", "verify", &log, "--witness", secret],
            vec!["log", "show", &log, "--key", secret],
            vec!["log", "check-proof", "/nowhere", "--vkey", secret],
            vec!["log", "anchor", "add", secret, &log],
            vec!["listen", "--recipient", secret, "--log", &log],
            vec!["read", secret],
            vec!["read", "/nowhere", "-S", secret],
            vec!["read", "/nowhere", "--behavior", "--intel", secret],
            vec!["log", "show", secret],
            vec![secret],
            vec!["read", "--no-such-option", secret],
        ] {
            let said = gabion(&args);
            assert_ne!(said.code, 0, "{args:?}");
            let part = secret.rsplit(' ').next().unwrap();
            assert!(!said.err.contains(part) && !said.out.contains(part), "{args:?}: {}", said.err);
        }
    }
    let said = gabion(&[
        "log",
        "import-slog",
        "/nowhere",
        "--priv-key",
        "/nowhere",
        "--password-file",
        "hunter2",
    ]);
    assert!(!said.err.contains("hunter2"), "{}", said.err);
}

/// A link type that is not decoded is no reason to look for another kind of file, and in a folder it is reported once.
#[test]
fn hints_fit_what_is_wrong() {
    let dir = scratch();
    let folder = dir.path();
    let mut radio = EMPTY_PCAP.to_vec();
    radio[20] = 127;
    // One frame of four bytes.
    radio.extend_from_slice(&[0, 0, 0, 1, 0, 0, 0, 0, 4, 0, 0, 0, 4, 0, 0, 0, 1, 2, 3, 4]);
    std::fs::create_dir(folder.join("air")).unwrap();
    for name in ["a.pcap", "b.pcap", "c.pcap"] {
        write(&folder.join("air"), name, &radio);
    }
    let one = folder.join("air/a.pcap").display().to_string();
    let r = gabion(&["read", &one]);
    r.refuses(3, &["a.pcap", "link type 127", "Ethernet"]);
    assert!(!r.err.contains("--behavior"), "{}", r.err);
    let air = folder.join("air").display().to_string();
    gabion(&["read", &air]).refuses(3, &["link type 127", "2 more files"]);
    let missing = folder.join("nope").display().to_string();
    for args in [&["read", &demo(), &missing][..], &["read", &demo(), &missing, "--behavior"]] {
        let r = gabion(args);
        r.refuses(3, &["nope", "No such file", "name a"]);
        assert!(!r.err.contains("demo.pcap"), "{}", r.err);
    }
    gabion(&["read", &demo(), "--behavior", "--kind", "zeek"])
        .refuses(3, &["demo.pcap", "is a capture", "leave out --kind"]);
    let thresholds = write(folder, "thresholds", b"suppress gen_id 1, sig_idd 5\n");
    let set = format!("threshold-file={thresholds}");
    let rules = repository("demo/gabion.rules").display().to_string();
    let r = gabion(&["read", &demo(), "-q", "-S", &rules, "--set", &set]);
    r.refuses(0, &["thresholds:1", "gen_id N, sig_id N"]);
    assert!(!r.err.contains("refused"), "{}", r.err);
    let yaml = write(folder, "twice.yaml", b"%YAML 1.1\n---\na: 1\na: 2\n");
    gabion(&["read", &demo(), "-q", "-c", &yaml]).refuses(0, &["twice.yaml:4", "'a' redefined"]);
    gabion(&["doctor", "--root", &missing]).refuses(3, &["--root", "nope", "proc"]);
}

/// Where nothing can alert, a level to fail at would never be met.
#[test]
fn a_level_to_fail_at_needs_something_that_alerts() {
    gabion(&["read", &demo(), "--fail-on", "1"])
        .refuses(2, &["--fail-on", "--rules", "--behavior"]);
    assert_eq!(gabion(&["read", &demo(), "-q", "--behavior", "--fail-on", "1"]).code, 1);
}

/// A log of flows by itself is read as what it is, whatever its name.
#[test]
fn a_single_log_is_read_as_what_it_is() {
    let dir = scratch();
    let log = "#separator \\x09\n#path\tconn\n#fields\tts\tuid\tid.orig_h\tid.orig_p\tid.resp_h\tid.resp_p\tproto\n\
               1700000000.0\tC1\t10.0.0.1\t4000\t192.0.2.1\t80\ttcp\n";
    let path = write(dir.path(), "of-yesterday", log.as_bytes());
    let r = gabion(&["read", &path]);
    assert_eq!(r.code, 0, "{}", r.err);
    assert!(r.err.contains("read as with --behavior"), "{}", r.err);
    assert!(r.out.contains("1 record of 1 log"), "{}", r.out);
}

/// Names of any bytes, for what is read and for what is written.
#[test]
fn outputs_may_have_names_of_any_bytes() {
    use std::os::unix::ffi::OsStringExt;
    let dir = scratch();
    let name = |text: &[u8]| dir.path().join(std::ffi::OsString::from_vec(text.to_vec()));
    let rules = repository("demo/gabion.rules").display().to_string();
    let (packets, page, out) = (name(b"p\xe9.pcap"), name(b"r\xe9.html"), name(b"o\xe9"));
    let mut read = command(&["read", &demo(), "-q", "-S", &rules]);
    read.arg("--alert-pcap").arg(&packets).arg("--report").arg(&page).arg("-l").arg(&out);
    let r = ran(read.output().unwrap());
    assert_eq!(r.code, 0, "{}", r.err);
    assert!(packets.is_file() && page.is_file() && out.join("eve.json").is_file());
}
