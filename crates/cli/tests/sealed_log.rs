//! `gabion log` from outside: every verb on a real log in a real folder, with exit codes.

use serde_json::Value;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

struct Place {
    folder: tempfile::TempDir,
}

impl Place {
    /// A folder with a reader's key and a log.
    fn new() -> Place {
        let place = Place { folder: tempfile::tempdir().unwrap() };
        place.ok(&["keygen", "--out", "reader"]);
        place.ok(&[
            "init",
            "log",
            "--origin",
            "host.example/log",
            "--recipient",
            "reader/recipient.pub",
        ]);
        place
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn run_with(&self, args: &[&str], input: &[u8]) -> Output {
        let mut child = Command::new(env!("CARGO_BIN_EXE_gabion"))
            .arg("log")
            .args(args)
            .current_dir(self.folder.path())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        // A verb that refuses at once does not read its input.
        let _ = child.stdin.take().unwrap().write_all(input);
        child.wait_with_output().unwrap()
    }

    fn run(&self, args: &[&str]) -> Output {
        self.run_with(args, b"")
    }

    fn code(&self, args: &[&str]) -> i32 {
        self.run(args).status.code().unwrap()
    }

    fn ok(&self, args: &[&str]) -> String {
        let output = self.run(args);
        assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    }

    fn json(&self, args: &[&str]) -> Value {
        let output = self.run(args);
        let text = String::from_utf8(output.stdout).unwrap();
        serde_json::from_str(&text).unwrap_or_else(|e| {
            panic!("{args:?}: {e}: {text} {}", String::from_utf8_lossy(&output.stderr))
        })
    }

    fn append(&self, text: &str) {
        let output = self.run_with(&["append", "log", "--json"], text.as_bytes());
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }
}

fn lines(from: usize, count: usize) -> String {
    (from..from + count)
        .map(|n| format!("<13>Nov 14 22:13:20 host app[{n}]: message {n}\n"))
        .collect()
}

#[test]
fn a_log_is_written_shown_verified_and_proven() {
    let place = Place::new();
    place.append(&lines(0, 3_000));
    place.append(&lines(3_000, 10));
    let key = "reader/recipient.key";
    let all = place.ok(&["show", "log", "--key", key, "--kind", "message"]);
    assert_eq!(all.lines().count(), 3_010);
    let first: Value = serde_json::from_str(all.lines().next().unwrap()).unwrap();
    assert_eq!(first["raw"], "<13>Nov 14 22:13:20 host app[0]: message 0");
    assert_eq!((first["host"].as_str(), first["app"].as_str()), (Some("host"), Some("app")));
    assert_eq!((first["msg"].as_str(), first["severity"].as_u64()), (Some("message 0"), Some(5)));
    assert_eq!(first["transport"], "stdin");
    let found = place.ok(&["show", "log", "--key", key, "--grep", "message 2999", "--text"]);
    assert!(found.lines().count() == 1 && found.contains("app[2999]"), "{found}");
    assert_eq!(place.code(&["show", "log", "--kind", "message"]), 24, "no key");
    // Without anything from outside the best is 10; with an anchor 0.
    let report = place.json(&["verify", "log", "--json"]);
    assert_eq!(
        (report["verdict"].as_str(), report["exit"].as_u64()),
        (Some("OK-UNANCHORED"), Some(10))
    );
    assert_eq!(place.code(&["verify", "log"]), 10);
    assert_eq!(place.code(&["verify", "log", "--allow-unanchored"]), 0);
    place.ok(&["anchor", "add", "anchors", "log"]);
    assert_eq!(place.code(&["verify", "log", "--anchor", "anchors"]), 0);
    place.append(&lines(5_000, 10));
    assert_eq!(place.code(&["verify", "log", "--anchor", "anchors", "--key", key, "--deep"]), 0);
    place.ok(&["checkpoint", "log", "--since", "3"]);
    // A proof of any record holds against the log's first key, and against no other.
    let n = first["n"].to_string();
    place.ok(&["prove", "log", "--record", &n, "--key", key, "-o", "proof"]);
    let stat = place.json(&["stat", "log", "--json"]);
    let vkey = stat["vkey"].as_str().unwrap();
    let checked = place.json(&["check-proof", "proof", "--vkey", vkey, "--json"]);
    assert_eq!(checked["msg"], first["raw"]);
    place.ok(&["keygen", "--signer", "--origin", "host.example/log", "--out", "other"]);
    let other = Place::new();
    let other_vkey = other.json(&["stat", "log", "--json"])["vkey"].as_str().unwrap().to_owned();
    assert_eq!(place.code(&["check-proof", "proof", "--vkey", &other_vkey]), 20);
    assert_eq!(place.code(&["verify", "log", "--vkey", &other_vkey]), 20);
    for verb in [
        &["show", "log", "--key", key][..],
        &["export", "log", "--key", key],
        &["prove", "log", "--key", key, "--record", &n],
        &["stat", "log"],
        &["checkpoint", "log"],
        &["anchor", "add", "other-anchors", "log"],
    ] {
        assert_eq!(place.code(&[verb, &["--vkey", &other_vkey]].concat()), 20, "{verb:?}");
        place.ok(&[verb, &["--vkey", vkey]].concat());
    }
    assert_eq!(place.code(&["verify", "log", "--vkey", vkey]), 10);
    place.ok(&["prove", "log", "--record", &n, "--key", key, "--redact-bytes", "-o", "redacted"]);
    let checked = place.json(&["check-proof", "redacted", "--vkey", vkey, "--json"]);
    assert!(checked["msg"].is_null() && checked["holds"] == true);
    // Export in each form.
    let exported = place.ok(&["export", "log", "--key", key, "--format", "rfc5424"]);
    assert!(
        exported.starts_with("42 <13>Nov 14 22:13:20 host app[0]: message 0\n"),
        "{}",
        &exported[..60]
    );
    let journal = place.ok(&["export", "log", "--key", key, "--format", "journal", "--record", &n]);
    for field in [
        "MESSAGE=message 0",
        "SYSLOG_IDENTIFIER=app",
        "_HOSTNAME=host",
        "SYSLOG_PID=0",
        "PRIORITY=5",
    ] {
        assert!(journal.contains(&format!("\n{field}\n")), "{field} in {journal}");
    }
    assert!(journal.contains("SYSLOG_RAW=<13>Nov 14 22:13:20 host app[0]: message 0\n"));
    independent(&place, vkey);
}

/// The proof is checked by a program that has nothing of this one in it.
fn independent(place: &Place, vkey: &str) {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/python/check_proof.py");
    let has_library = Command::new("python3")
        .args(["-c", "import cryptography"])
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|s| s.success());
    if !has_library {
        eprintln!("skipped: python3 with the library `cryptography` is not here");
        return;
    }
    let run = |proof: &str, vkey: &str| {
        let output = Command::new("python3")
            .arg(&script)
            .args([proof, vkey])
            .current_dir(place.folder.path())
            .output();
        let output = output.unwrap();
        (
            output.status.code(),
            String::from_utf8_lossy(&output.stdout).into_owned()
                + &String::from_utf8_lossy(&output.stderr),
        )
    };
    let (code, said) = run("proof", vkey);
    assert_eq!(code, Some(0), "{said}");
    assert!(said.contains("message 0"), "{said}");
    assert_eq!(run("redacted", vkey).0, Some(0));
    let proof = std::fs::read_to_string(place.path("proof")).unwrap();
    let (before, extra) = proof.split_once("extra ").unwrap();
    let (extra, after) = extra.split_once('\n').unwrap();
    let json = gabion_record::base64::from_base64(extra.as_bytes()).unwrap();
    let altered = String::from_utf8(json).unwrap().replace("\"flags\":0", "\"flags\":1");
    let altered =
        format!("{before}extra {}\n{after}", gabion_record::base64::to_base64(altered.as_bytes()));
    std::fs::write(place.path("altered"), altered).unwrap();
    assert_eq!(run("altered", vkey).0, Some(1));
    assert_eq!(place.code(&["check-proof", "altered", "--vkey", vkey]), 20);
}

#[test]
fn readers_change_and_content_can_be_withdrawn() {
    let place = Place::new();
    place.append(&lines(0, 10));
    place.ok(&["keygen", "--out", "auditor", "--json"]);
    assert_eq!(
        place.code(&["show", "log", "--key", "auditor/recipient.key", "--kind", "message"]),
        24
    );
    place.ok(&["rewrap", "log", "--key", "reader/recipient.key", "--add", "auditor/recipient.pub"]);
    place.append(&lines(10, 10));
    let seen = place.ok(&["show", "log", "--key", "auditor/recipient.key", "--kind", "message"]);
    assert_eq!(seen.lines().count(), 20);
    let report = place.json(&["verify", "log", "--json"]);
    assert_eq!(report["warnings"].as_array().unwrap().len(), 0, "{report}");
    // A class of its own is shredded alone.
    let output = place.run_with(
        &["append", "log", "--class", "hr", "--into", "hr", "-q"],
        b"secret of a person\n",
    );
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let secret = ["show", "log", "--key", "reader/recipient.key", "--grep", "secret of"];
    assert_eq!(place.ok(&secret).lines().count(), 1);
    place.ok(&["shred", "log", "--class", "hr"]);
    assert_eq!(String::from_utf8_lossy(&place.run(&secret).stdout).lines().count(), 0);
    let seen = place.run(&["show", "log", "--key", "reader/recipient.key", "--kind", "message"]);
    assert_eq!(String::from_utf8_lossy(&seen.stdout).lines().count(), 20);
    assert_eq!(place.code(&["verify", "log"]), 10);
    // Whole segments: withdrawn, and the tree is whole.
    place.ok(&["shred", "log", "--segment", "0"]);
    let report = place.json(&["verify", "log", "--json"]);
    assert_eq!(report["exit"], 10, "{report}");
    assert_eq!(report["withdrawn"].as_array().unwrap().len(), 1);
    // Hold and prune.
    place.ok(&["hold", "log", "--segment", "0"]);
    std::thread::sleep(std::time::Duration::from_millis(1_100));
    let pruned = place.json(&["prune", "log", "--keep", "1s", "--json"]);
    assert_eq!(pruned["held"].as_array().unwrap().len(), 1, "{pruned}");
    assert!(!pruned["pruned"].as_array().unwrap().is_empty(), "{pruned}");
    let report = place.json(&["verify", "log", "--json"]);
    assert_eq!(report["exit"], 10, "{report}");
    assert_eq!(
        report["pruned"].as_array().unwrap().len(),
        pruned["pruned"].as_array().unwrap().len()
    );
}

#[test]
fn a_second_writer_and_a_torn_end_are_distinguished_from_damage() {
    let place = Place::new();
    place.append(&lines(0, 100));
    // A writer that holds the log.
    let hold = || {
        let mut holder = Command::new(env!("CARGO_BIN_EXE_gabion"))
            .args(["log", "append", "log", "-q"])
            .current_dir(place.folder.path())
            .stdin(Stdio::piped())
            .spawn()
            .unwrap();
        holder.stdin.as_mut().unwrap().write_all(b"one\n").unwrap();
        holder
    };
    let mut holder = hold();
    let is_held = || place.code(&["recover", "log"]) == 26;
    assert!((0..100).any(|_| {
        std::thread::sleep(std::time::Duration::from_millis(20));
        // It ended if it found the log held by the question whether it is.
        if holder.try_wait().unwrap().is_some() {
            holder = hold();
            std::thread::sleep(std::time::Duration::from_millis(500));
        }
        is_held()
    }));
    holder.kill().unwrap();
    holder.wait().unwrap();
    place.ok(&["recover", "log", "--json"]);
    assert_eq!(place.code(&["verify", "log"]), 10);
    // A torn end is repaired; damage below a checkpoint is not.
    let mut segments: Vec<PathBuf> = std::fs::read_dir(place.path("log"))
        .unwrap()
        .map(|e| e.unwrap().path())
        .filter(|p| p.extension().is_some_and(|e| e == "gsl"))
        .collect();
    segments.sort();
    let last = segments.last().unwrap();
    let mut bytes = std::fs::read(last).unwrap();
    bytes.extend_from_slice(b"GCHK and what a crash leaves");
    std::fs::write(last, &bytes).unwrap();
    assert_eq!(place.code(&["verify", "log"]), 12);
    let recovered = place.json(&["recover", "log", "--json"]);
    assert_eq!(
        (recovered["torn"].as_bool(), recovered["cut_bytes"].as_u64()),
        (Some(true), Some(28))
    );
    assert_eq!(place.code(&["verify", "log"]), 10);
    let newest = {
        let mut all: Vec<PathBuf> = std::fs::read_dir(place.path("log"))
            .unwrap()
            .map(|e| e.unwrap().path())
            .filter(|p| p.extension().is_some_and(|e| e == "gsl"))
            .collect();
        all.sort();
        all.pop().unwrap()
    };
    let mut bytes = std::fs::read(&newest).unwrap();
    bytes[400] ^= 1;
    std::fs::write(&newest, &bytes).unwrap();
    assert_eq!(place.code(&["verify", "log"]), 20);
    // A writer begins after the state of its signer, and sees that chunks before it are missing.
    std::fs::write(&newest, &bytes[..300]).unwrap();
    assert!((20..=21).contains(&place.code(&["append", "log"])));
    place.ok(&["recover", "log", "--accept-loss"]);
    place.append(&lines(0, 1));
    assert_eq!(place.code(&["verify", "log"]), 10);
    assert!(place.path("log.lost-1").is_dir() && place.path("log.state.lost-1").is_dir());
    // No log at all is never a good one.
    std::fs::create_dir(place.path("empty")).unwrap();
    assert_eq!(place.code(&["verify", "empty"]), 23);
    assert_eq!(place.code(&["verify", "missing"]), 3);
}

/// A log that is damaged in many places: fifty are printed with the number of the others, and JSON has all.
#[test]
fn long_lists_of_places_say_how_many_are_left_out() {
    let place = Place::new();
    // Each run begins a segment.
    for n in 0..53 {
        place.append(&lines(n, 1));
    }
    for entry in std::fs::read_dir(place.path("log")).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|e| e == "keys") {
            std::fs::remove_file(path).unwrap();
        }
    }
    let all = place.json(&["verify", "log", "--json"])["places"].as_array().unwrap().len();
    assert_eq!(all, 53);
    let text = String::from_utf8(place.run(&["verify", "log"]).stdout).unwrap();
    assert_eq!(text.matches("keys are missing").count(), 50, "{text}");
    assert!(text.contains("\n  and 3 places more: see --json\n"), "{text}");
    // With a key each is reported a second time.
    let key = ["verify", "log", "--key", "reader/recipient.key"];
    let text = String::from_utf8(place.run(&key).stdout).unwrap();
    assert!(text.contains("\n  and 56 places more: see --json\n"), "{text}");
}

/// A pipe without a writer, or a device, in the place of a file of the log or of its state: every verb refuses
/// it in one line and waits for nothing.
#[test]
fn pipes_and_devices_in_the_place_of_files_are_refused_at_once() {
    let place = Place::new();
    place.append(&lines(0, 20));
    place.ok(&["anchor", "add", "anchors", "log"]);
    let (key, public) = ("reader/recipient.key", "reader/recipient.pub");
    let verbs: &[&[&str]] = &[
        &["verify", "log"],
        &["verify", "log", "--key", key, "--anchor", "anchors"],
        &["stat", "log"],
        &["show", "log", "--key", key],
        &["append", "log"],
        &["recover", "log"],
        &["recover", "log", "--accept-loss"],
        &["init", "log", "--origin", "host.example/log", "--recipient", public],
        &["checkpoint", "log"],
        &["prove", "log", "--record", "1", "--key", key],
        &["anchor", "add", "anchors", "log"],
        &["shred", "log", "--segment", "0"],
        &["hold", "log", "--segment", "0"],
        &["prune", "log", "--keep", "1d"],
        &["rewrap", "log", "--key", key, "--add", public],
        &["export", "log", "--key", key],
        &["import-slog", "anchors", "--priv-key", key, "--log", "log"],
    ];
    let writes = ["append", "recover", "shred", "hold", "rewrap", "import-slog"];
    for (folder, file) in [("log", "log.id"), ("log.state", "signer"), ("log.state", "recipients")]
    {
        let path = place.path(folder).join(file);
        let kept = path.with_extension("kept");
        std::fs::rename(&path, &kept).unwrap();
        for is_device in [false, true] {
            if is_device {
                std::os::unix::fs::symlink("/dev/zero", &path).unwrap();
            } else {
                let made = Command::new("mkfifo").arg(&path).status().unwrap();
                assert!(made.success());
            }
            for args in verbs.iter().filter(|a| folder == "log" || writes.contains(&a[0])) {
                let output = place.run_with(args, b"a line\n");
                let said = String::from_utf8_lossy(&output.stderr);
                let is_slog = args[0] == "import-slog";
                // Some keys are read first.
                assert_ne!(output.status.code(), Some(0), "{file}: {args:?}: {said}");
                assert!(said.lines().count() == 1, "{file}: {args:?}: {said}");
                assert!(said.contains(file) || is_slog, "{file}: {args:?}: {said}");
            }
            std::fs::remove_file(&path).unwrap();
        }
        std::fs::rename(&kept, &path).unwrap();
    }
    assert_eq!(place.code(&["verify", "log", "--anchor", "anchors"]), 0);
}

/// Wrong input ends in one line with a remedy.
#[test]
fn a_path_that_is_no_log_is_reported_as_such() {
    let place = Place::new();
    std::fs::create_dir(place.path("empty")).unwrap();
    std::fs::write(place.path("file"), b"text").unwrap();
    let key = "reader/recipient.key";
    for (args, code, words) in [
        (&["show", "missing"][..], 3, "gabion log init"),
        (&["verify", "missing"], 3, "gabion log init"),
        (&["show", "file"], 3, "a log is a folder"),
        (&["show", "empty"], 3, "log.id is missing"),
        (&["stat", "empty"], 3, "log.id is missing"),
        (&["append", "missing"], 3, "gabion log init"),
        (&["append", "empty"], 3, "log.id is missing"),
        (&["append", "log", "--into", "hr"], 2, "--class"),
        (&["keygen", "--out", "reader"], 3, "nothing is overwritten"),
        (&["show", "log", "--key", "nowhere"], 3, "name a file with a reader's private key"),
        (&["rewrap", "log", "--key", "reader/recipient.key"], 2, "--add"),
        (&["shred", "log"], 2, "--class"),
        (&["shred", "log", "--segment", "99"], 3, "no segment begins there"),
        (&["hold", "log", "--segment", "99"], 3, "no segment begins there"),
        (&["prove", "log", "--key", "reader/recipient.key"], 2, "--finding"),
        (&["stat"], 2, "--socket"),
        (&["show", "log", "--key", "reader/recipient.pub"], 3, "private"),
        (&["stat", "--socket", "127.0.0.1:1"], 4, "gabion listen --metrics"),
        (&["verify", "log", "--witness", "reader/recipient.pub"], 3, "reader/recipient.pub"),
        (&["verify", "log", "--anchor", "file"], 3, "neither a checkpoint nor a file of anchors"),
        (&["compare", "file", "file"], 3, "neither a checkpoint nor a file of anchors"),
        (&["anchor", "add", "anchors", "file"], 3, "neither a checkpoint nor a file of anchors"),
        (&["check-proof", "file", "--vkey", "file"], 3, "file"),
        (&["show", "log", "--record", "10-5", "--key", key], 2, "--record 10-5"),
        (&["show", "log", "--record", "999", "--key", key], 3, "the log holds"),
        (&["export", "log", "--record", "999", "--key", key], 3, "the log holds"),
        (&["export", "log", "--since", "2h", "--until", "3h", "--key", key], 2, "--until"),
    ] {
        let output = place.run(args);
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{args:?}: {said}");
        assert!(said.lines().count() == 1 && said.contains(words), "{args:?}: {said}");
    }
    // Of what is no log nothing is counted, and a log that nothing was written to is not of 1970.
    let said = String::from_utf8(place.run(&["verify", "empty"]).stdout).unwrap();
    assert!(
        said.starts_with("INCOMPLETE\n") && !said.contains("1970") && !said.contains(" : "),
        "{said}"
    );
    let said = String::from_utf8(place.run(&["verify", "log"]).stdout).unwrap();
    assert!(!said.contains("1970"), "{said}");
    // None of these began a segment.
    let stat = place.json(&["stat", "log", "--json"]);
    assert_eq!(stat["segments"], 0, "{stat}");
}

/// What is no proof is wrong input; what is a damaged one does not hold.
#[test]
fn a_file_that_is_no_proof_is_no_forgery() {
    let place = Place::new();
    place.append("one\ntwo\n");
    let public = place.ok(&["stat", "log", "--json"]);
    let public: Value = serde_json::from_str(&public).unwrap();
    let vkey = public["vkey"].as_str().unwrap();
    place.ok(&["prove", "log", "--record", "1", "--key", "reader/recipient.key", "-o", "proof"]);
    let proof = std::fs::read(place.path("proof")).unwrap();
    std::fs::write(place.path("cut"), &proof[..proof.len() / 2]).unwrap();
    std::fs::write(place.path("text"), "root:x:0\n\ntext\n").unwrap();
    for (file, code, words) in
        [("proof", 0, ""), ("cut", 20, "refused"), ("text", 3, "not a proof")]
    {
        let output = place.run(&["check-proof", file, "--vkey", vkey]);
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{file}: {said}");
        assert!(said.contains(words), "{file}: {said}");
    }
}

/// One line about a file that is not slog's, and about a key that is not its storage's, and nothing sealed.
#[test]
fn a_file_of_another_kind_or_key_is_reported_in_one_line() {
    let test = "a_file_of_another_kind_or_key_is_reported_in_one_line";
    let Some(folder) = gabion_corpus::find(test, "sealed/slog") else { return };
    let slog = |name: &str| folder.join(name).display().to_string();
    let good = slog("good.slog");
    let place = Place::new();
    std::fs::write(place.path("text"), "a line, of a text\n".repeat(300)).unwrap();
    let before = place.json(&["stat", "log", "--json"])["records"].clone();
    let (storage, other) = (slog("storage_rsa.slogpem"), slog("comms_rsa.slogpem"));
    for (file, key, code, words) in
        [("text", &storage, 3, "seven fields"), (good.as_str(), &other, 24, "comms_rsa.slogpem")]
    {
        let output = place.run(&["import-slog", file, "--priv-key", key, "--log", "log"]);
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{file}: {said}");
        assert!(said.lines().count() == 1 && said.contains(words), "{file}: {said}");
        assert!(output.stdout.is_empty(), "{file}");
    }
    assert_eq!(place.json(&["stat", "log", "--json"])["records"], before);
    // A single line that does not open is reported with its fault.
    let output = place.run(&["import-slog", &slog("edited-blob.slog"), "--priv-key", &storage]);
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("line 7: cipher: the blob does not open"), "{said}");
}

#[test]
fn messages_that_a_sender_lost_on_the_way_are_reported() {
    let place = Place::new();
    let numbered = |n: u32| {
        format!("<13>1 2026-01-01T00:00:00Z host app - - [meta sequenceId=\"{n}\"] text {n}\n")
    };
    place.append(&[1, 2, 5, 6, 1, 3].map(numbered).concat());
    let shown = place.ok(&["show", "log", "--key", "reader/recipient.key", "--kind", "message"]);
    let missing: Vec<u64> = shown
        .lines()
        .map(|l| serde_json::from_str::<Value>(l).unwrap()["missing_before"].as_u64().unwrap_or(0))
        .collect();
    assert_eq!(missing, [0, 0, 2, 0, 0, 1]);
    // What is filtered out is not missing.
    let args = ["show", "log", "--key", "reader/recipient.key", "--grep", "text 5", "--text"];
    let text = place.ok(&args);
    assert!(text.starts_with("# 2 messages of this sender are missing here\n"), "{text}");
    assert_eq!(text.lines().count(), 2);
}

/// A writer under load is killed at moments that nobody chose. What it leaves is never worse than a torn
/// end, the next writer repairs it, and the records are the first ones without a gap.
#[test]
fn a_killed_writer_loses_nothing_it_had_committed() {
    let place = Place::new();
    let kills = if std::env::var_os("GABION_EXHAUSTIVE").is_some() { 200 } else { 6 };
    let mut least = 0;
    for kill in 0..kills {
        let mut writer = Command::new(env!("CARGO_BIN_EXE_gabion"))
            .args(["log", "append", "log", "-q"])
            .current_dir(place.folder.path())
            .stdin(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut input = writer.stdin.take().unwrap();
        let feeding = std::thread::spawn(move || {
            let mut sent = 0;
            while input.write_all(lines(sent, 500).as_bytes()).is_ok() {
                sent += 500;
            }
        });
        // A different moment each time, from the first write to the middle of a commit.
        std::thread::sleep(std::time::Duration::from_millis(40 + (kill * 7_919) % 400));
        writer.kill().unwrap();
        writer.wait().unwrap();
        feeding.join().unwrap();
        let code = place.code(&["verify", "log"]);
        assert!(code == 10 || code == 12, "kill {kill}: {code}");
        place.ok(&["recover", "log"]);
        let report = place.json(&["verify", "log", "--json", "--key", "reader/recipient.key"]);
        assert_eq!(report["exit"], 10, "kill {kill}: {report}");
        let records = report["records"].as_u64().unwrap();
        assert!(records >= least, "kill {kill}: {records} of {least}");
        least = records;
    }
    // Each writer's messages begin at 0 and continue without a gap.
    let shown = place.ok(&["show", "log", "--key", "reader/recipient.key", "--kind", "message"]);
    let mut next = 0;
    for line in shown.lines() {
        let record: Value = serde_json::from_str(line).unwrap();
        let number: u64 = record["pid"].as_str().unwrap().parse().unwrap();
        assert!(number == next || number == 0, "{number} behind {next}");
        next = number + 1;
    }
}

#[test]
fn findings_of_captures_are_sealed_with_a_proof_of_each() {
    let place = Place::new();
    let demo = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../demo");
    let output = Command::new(env!("CARGO_BIN_EXE_gabion"))
        .args(["read", "-q", "-k", "none", "--seal", "log"])
        .arg(demo.join("demo.pcap"))
        .arg("--rules")
        .arg(demo.join("gabion.rules"))
        .current_dir(place.folder.path())
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let key = "reader/recipient.key";
    let shown = place.ok(&["show", "log", "--key", key]);
    let records: Vec<Value> = shown.lines().map(|l| serde_json::from_str(l).unwrap()).collect();
    let findings: Vec<&Value> =
        records.iter().filter(|r| r.to_string().contains("signature_id")).collect();
    assert_eq!(findings.len(), 52, "as many as the demonstration has alerts");
    let number = findings[7]["n"].to_string();
    place.ok(&["prove", "log", "--record", &number, "--key", key, "-o", "finding.tlog-proof"]);
    let stat = place.json(&["stat", "log", "--json"]);
    std::fs::write(place.path("vkey"), stat["vkey"].as_str().unwrap()).unwrap();
    assert_eq!(place.code(&["check-proof", "finding.tlog-proof", "--vkey", "vkey"]), 0);
}

/// Where a seed that is overwritten lives on in old blocks, `init` warns. A file system of that kind is
/// mounted in a name space of its own.
#[test]
fn a_file_system_that_does_not_erase_is_reported() {
    let place = Place::new();
    let script = "mkdir low up && mount -t tmpfs none up && mkdir up/a up/b merged && \
                  mount -t overlay overlay -o lowerdir=low,upperdir=up/a,workdir=up/b merged && \
                  exec \"$0\" log init merged/log --origin host.example/other --recipient reader/recipient.pub";
    let output = Command::new("unshare")
        .args(["--user", "--map-root-user", "--mount", "sh", "-c", script])
        .arg(env!("CARGO_BIN_EXE_gabion"))
        .current_dir(place.folder.path())
        .output();
    let Ok(output) = output else {
        eprintln!("skipped: no program unshare");
        return;
    };
    let said = String::from_utf8_lossy(&output.stderr);
    if !output.status.success() {
        eprintln!("skipped: no overlay can be mounted here: {said}");
        return;
    }
    for folder in ["merged/log: overlayfs", "merged/log.state: overlayfs"] {
        assert!(said.contains(folder), "{said}");
    }
    assert!(said.contains("not real here"), "{said}");
    // A plain folder is not warned of.
    let init =
        ["init", "plain", "--origin", "host.example/p", "--recipient", "reader/recipient.pub"];
    let plain = place.run(&init);
    let said = String::from_utf8_lossy(&plain.stderr);
    assert!(plain.status.success(), "{said}");
}

/// A text without its line breaks.
fn words(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Segments that one class or another has keys in: which a verb destroys is what its help says.
#[test]
fn what_help_promises_of_shred_is_so() {
    let place = Place::new();
    let help = words(&place.ok(&["shred", "--help"]));
    for promise in ["all segments", "Only this class of records", "--segment is needed"] {
        assert!(help.contains(promise), "{promise}: {help}");
    }
    let append = |class: &str, text: &str| {
        let args = ["append", "log", "--class", "hr", "--class", "it", "--into", class, "-q"];
        let output = place.run_with(&args, text.as_bytes());
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    };
    let seen = || {
        let shown =
            place.run(&["show", "log", "--key", "reader/recipient.key", "--kind", "message"]);
        let text = String::from_utf8(shown.stdout).unwrap();
        let each = text.lines().map(|l| serde_json::from_str::<Value>(l).unwrap()["msg"].clone());
        each.map(|msg| msg.as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    let segments = || {
        let names = std::fs::read_dir(place.path("log")).unwrap().flatten();
        let first = |name: &str| name.strip_prefix("seg-")?.strip_suffix(".gsl")?.parse().ok();
        let mut all: Vec<u64> =
            names.filter_map(|entry| first(entry.file_name().to_str()?)).collect();
        all.sort_unstable();
        all
    };
    append("hr", "a person\n");
    append("it", "a host\n");
    append("hr", "another person\n");
    assert_eq!(seen(), ["a person", "a host", "another person"]);
    let before = segments();
    assert!(before.len() >= 3, "{before:?}");
    // Neither a class nor a segment: everything would go, so nothing does.
    assert_eq!(place.code(&["shred", "log"]), 2);
    // One class of one segment.
    let one = before[0].to_string();
    place.ok(&["shred", "log", "--class", "hr", "--segment", &one]);
    assert_eq!(seen(), ["a host", "another person"]);
    // One class of all, the newest too.
    let now = segments();
    let said = place.json(&["shred", "log", "--class", "hr", "--json"]);
    let said: Vec<u64> =
        said["segments"].as_array().unwrap().iter().map(|s| s.as_u64().unwrap()).collect();
    assert_eq!(said, now);
    assert_eq!(seen(), ["a host"]);
    // What comes later has keys of its own.
    append("hr", "a third person\n");
    assert_eq!(seen(), ["a host", "a third person"]);
    // All classes of a segment that is named.
    let last = segments().pop().unwrap().to_string();
    place.ok(&["shred", "log", "--segment", &last]);
    assert_eq!(seen(), ["a host"]);
    assert_eq!(place.code(&["verify", "log", "--allow-unanchored"]), 0);
}

#[test]
fn what_help_promises_of_anchor_add_is_so() {
    let place = Place::new();
    let help = words(&place.ok(&["anchor", "--help"]));
    for promise in ["The word `add`", "whose newest one is taken", "not with a checkpoint alone"] {
        assert!(help.contains(promise), "{promise}: {help}");
    }
    let vkey = place.json(&["stat", "log", "--json"])["vkey"].as_str().unwrap().to_owned();
    let size = |said: &Value| said["size"].as_u64().unwrap();
    place.append(&lines(0, 10));
    let note = place.ok(&["checkpoint", "log"]);
    std::fs::write(place.path("note"), &note).unwrap();
    place.append(&lines(10, 10));
    // A checkpoint is taken as it is, of a folder the newest.
    let older = place.json(&["anchor", "add", "anchors", "note", "--json"]);
    let newer = place.json(&["anchor", "add", "anchors", "log", "--vkey", &vkey, "--json"]);
    assert!(size(&newer) > size(&older), "{newer} {older}");
    assert_eq!((&older["added"], &newer["added"]), (&true.into(), &true.into()));
    let kept = std::fs::read(place.path("anchors")).unwrap();
    assert!(String::from_utf8_lossy(&kept).contains(note.lines().nth(1).unwrap()));
    // Twice is once.
    let again = place.json(&["anchor", "add", "anchors", "note", "--json"]);
    assert_eq!(again["added"], false);
    // Another log's key, a key that comes with a checkpoint only, another word: nothing is added.
    let other = Place::new().json(&["stat", "log", "--json"])["vkey"].as_str().unwrap().to_owned();
    assert_eq!(place.code(&["anchor", "add", "anchors", "log", "--vkey", &other]), 20);
    assert_eq!(place.code(&["anchor", "add", "anchors", "note", "--vkey", &vkey]), 2);
    assert_eq!(place.code(&["anchor", "put", "anchors", "log"]), 2);
    assert_eq!(std::fs::read(place.path("anchors")).unwrap(), kept);
    assert_eq!(place.code(&["verify", "log", "--anchor", "anchors"]), 0);
}
