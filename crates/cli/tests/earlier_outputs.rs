//! What a run does with what an earlier one wrote; what `--seal` and `--fail-on` do with logs of flows;
//! files that are moved away while a run lasts.

mod program;

use program::{command, demo, gabion, json_lines, ran, repository};
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

/// A log of Zeek's with a scan of some ports by each of these hosts.
fn scans(hosts: std::ops::Range<u32>) -> String {
    let line = |host: u32, n: u32| {
        format!(
            "{{\"ts\":{}.5,\"uid\":\"C{host}x{n}\",\"id.orig_h\":\"10.0.0.{host}\",\"id.orig_p\":{},\
             \"id.resp_h\":\"10.0.9.2\",\"id.resp_p\":{n},\"proto\":\"tcp\",\"conn_state\":\"S0\"}}\n",
            host * 60 + n,
            40_000 + n
        )
    };
    hosts.flat_map(|host| (1..40).map(move |n| line(host, n))).collect()
}

fn text(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap()
}

#[test]
fn an_earlier_run_s_outputs_are_neither_replaced_nor_added_to_unasked() {
    let dir = tempfile::tempdir().unwrap();
    let log = dir.path().join("conn.log");
    std::fs::write(&log, scans(1..4)).unwrap();
    let (log, rules) = (log.display().to_string(), repository("demo/gabion.rules"));
    let rules = rules.display().to_string();
    let demo = demo();
    let runs: [(&str, Vec<&str>); 3] = [
        ("eve.json", vec!["read", &demo, "-S", &rules, "-q", "-l"]),
        ("alerts.json", vec!["read", &log, "--behavior", "-q", "-l"]),
        ("alerts.json", vec!["read", &demo, "--behavior", "-q", "-l"]),
    ];
    for (n, (name, args)) in runs.iter().enumerate() {
        let out = dir.path().join(n.to_string());
        let folder = out.display().to_string();
        let run = |more: &[&str]| gabion(&[args.as_slice(), &[folder.as_str()], more].concat());
        assert_eq!(run(&[]).code, 0, "{args:?}");
        let lines = json_lines(&out.join(name));
        assert!(lines > 0, "{args:?}");
        let before = text(&out.join(name));
        run(&[]).refuses(2, &["--append", "--overwrite", "-l", &folder]);
        assert_eq!(text(&out.join(name)), before, "{args:?}");
        assert_eq!(run(&["--append"]).code, 0, "{args:?}");
        assert_eq!(json_lines(&out.join(name)), 2 * lines, "{args:?}");
        assert!(text(&out.join(name)).starts_with(&before), "{args:?}");
        assert_eq!(run(&["--overwrite"]).code, 0, "{args:?}");
        assert_eq!(json_lines(&out.join(name)), lines, "{args:?}");
        assert_eq!(run(&["--append", "--overwrite"]).code, 2, "{args:?}");
        assert!(text(&out.join("run.json")).contains("\"balanced\":true"), "{args:?}");
    }
    // A pipe is no run's output, and an empty folder holds none.
    let out = dir.path().join("empty");
    std::fs::create_dir(&out).unwrap();
    assert_eq!(gabion(&["read", &demo, "-q", "-l", &out.display().to_string()]).code, 0);
    assert_eq!(gabion(&["read", &demo, "-q", "--append"]).code, 2);
}

/// The built-in configuration says nothing else than Suricata's: outputs are added to.
#[test]
fn the_door_of_suricata_appends_as_its_configuration_says() {
    let dir = tempfile::tempdir().unwrap();
    let (out, demo) = (dir.path().display().to_string(), demo());
    let config = dir.path().join("c.yaml");
    let outputs =
        "outputs:\n  - eve-log:\n      enabled: yes\n      append: APPEND\n      types: [flow]\n";
    let run = |more: &[&str]| {
        let done = gabion(&[&["suricata", "-r", &demo, "-l", &out], more].concat());
        assert_eq!(done.code, 0, "{}", done.err);
        json_lines(&dir.path().join("eve.json"))
    };
    let once = run(&[]);
    assert_eq!(run(&[]), 2 * once);
    for (append, times) in [("no", 1), ("no", 1), ("yes", 2)] {
        std::fs::write(&config, format!("%YAML 1.1\n---\n{}", outputs.replace("APPEND", append)))
            .unwrap();
        let lines = run(&["-c", &config.display().to_string()]);
        let flows = text(&dir.path().join("eve.json")).lines().count();
        assert_eq!(lines, flows);
        assert!(lines < once * 2 && lines % times == 0, "{append}: {lines}");
    }
}

#[test]
fn the_door_of_suricata_adds_nothing_to_what_it_reads() {
    let dir = tempfile::tempdir().unwrap();
    let capture = dir.path().join("eve.json");
    std::fs::copy(demo(), &capture).unwrap();
    let before = std::fs::read(&capture).unwrap();
    let (capture_name, folder) = (capture.display().to_string(), dir.path().display().to_string());
    let ran = gabion(&["suricata", "-r", &capture_name, "-S", "/dev/null", "-l", &folder]);
    assert_eq!(ran.code, 1, "{}", ran.err);
    let line = format!("Error: output: {capture_name}: is read by this run: choose another place");
    assert!(ran.err.contains(&line), "{}", ran.err);
    assert_eq!(std::fs::read(&capture).unwrap(), before);
}

#[test]
fn evidence_of_logs_is_sealed_and_judged() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name).display().to_string();
    std::fs::write(at("conn.log"), scans(1..4)).unwrap();
    assert_eq!(gabion(&["log", "keygen", "--out", &at("r")]).code, 0);
    let (log, key) = (at("L"), at("r/recipient.key"));
    let init = ["log", "init", &log, "--origin", "h/l", "--recipient", &at("r/recipient.pub")];
    assert_eq!(gabion(&init).code, 0);
    let mut wanted: Vec<String> = Vec::new();
    for (n, workers) in ["1", "2"].iter().enumerate() {
        let out = at(&format!("out{n}"));
        let conn = at("conn.log");
        let args = ["read", &conn, "--behavior", "-l", &out, "--seal", &log, "--workers", workers];
        let done = gabion(&args);
        assert_eq!(done.code, 0, "{}", done.err);
        let lines = text(&dir.path().join(format!("out{n}/alerts.json")));
        wanted.extend(lines.lines().map(str::to_owned));
        assert!(done.err.contains(&format!("{} findings sealed", lines.lines().count())));
    }
    // Without a folder the same is sealed.
    let done = gabion(&["read", &at("conn.log"), "--behavior", "-q", "--seal", &log]);
    assert_eq!(done.code, 0, "{}", done.err);
    let shown = gabion(&["log", "show", &log, "--key", &key, "--kind", "finding"]);
    let sealed: Vec<serde_json::Value> = shown
        .out
        .lines()
        .map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap()["data"].clone())
        .collect();
    let written: Vec<serde_json::Value> =
        wanted.iter().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert!(!written.is_empty());
    assert_eq!(sealed.len(), written.len() / 2 * 3);
    assert_eq!(sealed[..written.len()], written[..]);
    // Of captures both engines' findings are sealed.
    let rules = repository("demo/gabion.rules").display().to_string();
    let args = ["read", &demo(), "-S", &rules, "--behavior", "-l", &at("both"), "--seal", &log];
    let done = gabion(&args);
    let count = |name: &str, of: &str| {
        text(&dir.path().join("both").join(name)).lines().filter(|l| l.contains(of)).count()
    };
    let both = count("alerts.json", "") + count("eve.json", "\"event_type\":\"alert\"");
    assert!(done.err.contains(&format!("{both} findings sealed")), "{both} {}", done.err);
}

#[test]
fn levels_of_evidence_make_the_exit_code_when_asked() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name).display().to_string();
    // A scan of ports is of level high; connections to a private address are info.
    std::fs::write(at("scan.log"), scans(1..2)).unwrap();
    let one = scans(1..2).lines().next().unwrap().replace("S0", "SF") + "\n";
    std::fs::write(at("quiet.log"), one).unwrap();
    for (log, level, code) in
        [("scan.log", "1", 1), ("scan.log", "3", 1), ("quiet.log", "1", 0), ("quiet.log", "3", 0)]
    {
        let args = ["read", &at(log), "--behavior", "-q", "--fail-on", level];
        assert_eq!(gabion(&args).code, code, "{log} {level}");
        assert_eq!(gabion(&[&args[..], &["--workers", "2"]].concat()).code, code, "{log} {level}");
    }
    let log = at("scan.log");
    gabion(&["read", &log, "--behavior", "--fail-on", "9"]).refuses(2, &["--fail-on", "3 (low)"]);
    // What is about packets is refused, not passed over.
    let rules = repository("demo/gabion.rules").display().to_string();
    for more in [
        &["--rules", &rules][..],
        &["--alert-pcap", &at("a.pcap")],
        &["--filter", "tcp"],
        &["--profile-rules"],
    ] {
        let args = [&["read", &log, "--behavior"], more].concat();
        gabion(&args).refuses(2, &[more[0], "logs of flows hold no packets"]);
    }
    assert!(!dir.path().join("a.pcap").exists());
}

/// `mv alerts.json alerts.json.1; kill -HUP`: a new file is made, with one worker and with two.
#[test]
fn a_run_that_follows_opens_its_files_again() {
    for workers in ["1", "2"] {
        let dir = tempfile::tempdir().unwrap();
        let (log, out) = (dir.path().join("conn.log"), dir.path().join("out"));
        std::fs::write(&log, scans(1..3)).unwrap();
        let mut run =
            command(&["read", "--behavior", "--follow", "-q", "--workers", workers, "-l"]);
        let child = run.args([&out, &log]).stderr(Stdio::piped()).spawn().unwrap();
        let (now, moved) = (out.join("alerts.json"), out.join("alerts.json.1"));
        let signal = |name: &str| {
            let done = Command::new("kill").args([name, &child.id().to_string()]).status().unwrap();
            assert!(done.success());
        };
        wait_for(|| now.exists() && text(&now).contains("10.0.0.1"));
        std::fs::rename(&now, &moved).unwrap();
        signal("-HUP");
        wait_for(|| now.exists());
        let mut file = std::fs::OpenOptions::new().append(true).open(&log).unwrap();
        file.write_all(scans(7..9).as_bytes()).unwrap();
        wait_for(|| text(&now).contains("10.0.0.7"));
        signal("-TERM");
        let done = ran(child.wait_with_output().unwrap());
        assert_eq!(done.code, 0, "{}", done.err);
        assert!(json_lines(&moved) > 0 && json_lines(&now) > 0);
        assert!(!text(&moved).contains("10.0.0.7"));
    }
}

/// Waits for another process, a bounded number of looks.
fn wait_for(is_true: impl Fn() -> bool) {
    for _ in 0..1200 {
        if is_true() {
            return;
        }
        std::thread::sleep(std::time::Duration::from_millis(25));
    }
    panic!("did not come");
}
