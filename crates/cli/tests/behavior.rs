//! What hosts do over time, by whole runs: captures, several workers, bad inputs.

mod program;

use program::gabion;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::time::Duration;

/// The folder of logs of flows, when the corpus is there.
fn flows(test: &str) -> Option<PathBuf> {
    gabion_corpus::find(test, "flows")
}

/// Runs over inputs; lines of `alerts.json` without creation times, and `alerts.log`.
fn read(inputs: &[&Path], more: &[&str]) -> (Vec<String>, String) {
    let out = tempfile::tempdir().unwrap();
    let folder = out.path().display().to_string();
    let shown: Vec<String> = inputs.iter().map(|p| p.display().to_string()).collect();
    let mut args = vec!["read", "--behavior", "-q", "-l", &folder];
    args.extend(shown.iter().map(String::as_str));
    args.extend(more);
    let ran = gabion(&args);
    assert_eq!(ran.code, 0, "{}", ran.err);
    let text = |name: &str| std::fs::read_to_string(out.path().join(name)).unwrap();
    let lines = text("alerts.json").lines().map(without_creation).collect();
    (lines, text("alerts.log"))
}

fn without_creation(line: &str) -> String {
    let at = line.find("\"CreateTime\"").unwrap_or(line.len());
    let end = line[at..].find(',').map_or(line.len(), |n| at + n);
    format!("{}{}", &line[..at], &line[end..])
}

/// A capture's flows and protocols go the way of logs: an ARP scan, and a host that is called again
/// and again.
#[test]
fn captures_go_through_our_own_flows() {
    let Some(flows) = flows("captures_go_through_our_own_flows") else { return };
    let (found, log) = read(&[&flows.join("slips/test8-malicious.pcap")], &[]);
    assert!(log.contains("performing an arp scan"), "{log}");
    assert!(found.iter().any(|l| l.contains("ARP_SCAN")));
    // Together with the rule engine's outputs, and the same with several workers.
    let beacon = flows.join("slips/test-cc-capture-1.pcap.zst");
    let (one, log) = read(&[&beacon], &[]);
    assert!(!one.is_empty() && !log.is_empty());
    assert_eq!(read(&[&beacon], &["--workers", "3"]).0, one);
}

/// Logs of all formats: the same bytes in the same order with any number of workers.
#[test]
fn any_number_of_workers_writes_the_same() {
    let Some(flows) = flows("any_number_of_workers_writes_the_same") else { return };
    for input in [
        "slips/test9-mixed-zeek-dir",
        "slips/test4-malicious.binetflow",
        "slips/test14-malicious-zeek-dir",
        "slips/test18-malicious-ctu-sme-11-win",
        "netflowlabeler/test.binetflow",
    ] {
        let path = flows.join(input);
        let (one, log) = read(&[&path], &[]);
        assert!(!one.is_empty(), "{input}");
        for workers in ["2", "4"] {
            let (got, theirs) = read(&[&path], &["--workers", workers]);
            assert!(got == one, "{input}: {workers} workers: {} for {}", got.len(), one.len());
            assert_eq!(theirs.lines().count(), log.lines().count(), "{input}");
        }
    }
}

/// Lines of an ordered log shuffled by less than a minute: the same findings.
#[test]
fn a_shuffle_within_a_minute_changes_nothing() {
    let Some(flows) = flows("a_shuffle_within_a_minute_changes_nothing") else { return };
    let path = flows.join("slips/test18-malicious-ctu-sme-11-win/zeek-labeled/conn.log.labeled");
    let text = std::fs::read_to_string(path).unwrap();
    let (header, mut lines): (Vec<&str>, Vec<&str>) =
        text.lines().partition(|l| l.starts_with('#'));
    let time = |l: &&str| l.split('\t').next().and_then(|t| t.parse::<f64>().ok()).unwrap_or(0.0);
    lines.sort_by(|a, b| time(a).total_cmp(&time(b)));
    let folder = tempfile::tempdir().unwrap();
    let mut runs = Vec::new();
    for seed in [0u64, 7, 1_000_003] {
        let jitter = |l: &&str| {
            let hash =
                l.bytes().fold(seed, |h, b| (h ^ u64::from(b)).wrapping_mul(0x100_0000_01b3));
            if seed == 0 { 0.0 } else { (hash >> 20) as f64 % 59_900.0 / 1000.0 }
        };
        let mut shuffled = lines.clone();
        shuffled.sort_by(|a, b| (time(a) + jitter(a)).total_cmp(&(time(b) + jitter(b))));
        let log = folder.path().join(format!("{seed}")).join("conn.log");
        std::fs::create_dir_all(log.parent().unwrap()).unwrap();
        std::fs::write(&log, [header.join("\n"), shuffled.join("\n")].join("\n")).unwrap();
        let mut found = read(&[&log], &[]).0;
        found.sort();
        runs.push(found);
    }
    assert!(!runs[0].is_empty() && runs[1] == runs[0] && runs[2] == runs[0]);
}

/// D44 of Slips: when every flow fails, the ledger and the exit code report it; when some fail,
/// they are counted.
#[test]
fn flows_that_fail_are_counted_and_set_the_exit_code() {
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("conn.log");
    let out = folder.path().join("out").display().to_string();
    let head = "#separator \\x09\n#path\tconn\n\
        #fields\tts\tuid\tid.orig_h\tid.orig_p\tid.resp_h\tid.resp_p\tproto\n";
    let bad = "1.5\tC\tnobody\t1\tnowhere\t80\ttcp\n".repeat(5);
    let shown = log.display().to_string();
    std::fs::write(&log, format!("{head}{bad}")).unwrap();
    gabion(&["read", &shown, "--behavior", "-l", &out]).refuses(3, &["no flow record"]);
    let good = "2.5\tC\t10.0.0.1\t1\t1.2.3.4\t4444\ttcp\n";
    std::fs::write(&log, format!("{head}{bad}{good}")).unwrap();
    let ran = gabion(&["read", &shown, "--behavior", "-l", &out, "--overwrite"]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    let run = std::fs::read_to_string(folder.path().join("out/run.json")).unwrap();
    assert!(run.contains("\"no_address\":5") && run.contains("\"balanced\":true"), "{run}");
    let alerts = std::fs::read_to_string(folder.path().join("out/alerts.json")).unwrap();
    assert!(alerts.contains("UNKNOWN_PORT"), "{alerts}");
}

/// Flows that have not ended yet: the hourly logs of open ones are read, and a long one is reported before it
/// ends, once however often the log has it, and again with its last numbers when its window is over.
#[test]
fn open_flows_are_reported_before_they_end() {
    let Some(flows) = flows("open_flows_are_reported_before_they_end") else { return };
    let (found, _) = read(&[&flows.join("rita/open_sni")], &[]);
    let long: Vec<&String> = found.iter().filter(|l| l.contains("\"LONG_CONNECTION\"")).collect();
    assert!(!long.is_empty(), "{}", found.len());
    let uid =
        |line: &str| line.split("uids").nth(1).map(|t| t.split(']').next().unwrap().to_owned());
    // The final reports, which count how often the log had each flow, are not compared.
    let first = long.iter().filter(|l| !l.contains("\"final\":true"));
    let mut uids: Vec<_> = first.map(|l| uid(l)).collect();
    let count = uids.len();
    uids.sort();
    uids.dedup();
    assert_eq!(uids.len(), count);
}

/// D46 of Slips: whatever follows `.log` in a name, the log is read, and the run ends.
#[test]
fn labelled_logs_are_read_and_a_run_ends() {
    let folder = tempfile::tempdir().unwrap();
    let head = "#separator \\x09\n#path\tconn\n\
        #fields\tts\tuid\tid.orig_h\tid.orig_p\tid.resp_h\tid.resp_p\tproto\tlabel\tdetailedlabel\n";
    let flow = "2.5\tC\t10.0.0.1\t1\t1.2.3.4\t4444\ttcp\tMalicious\tFrom_x\n";
    for name in ["conn.log.labeled", "conn.log.old", "conn.00:00:00-01:00:00.log"] {
        let below = folder.path().join(name.replace(':', "_"));
        std::fs::create_dir(&below).unwrap();
        std::fs::write(below.join(name), format!("{head}{flow}")).unwrap();
        let (found, _) = read(&[&below], &[]);
        assert!(found.iter().any(|l| l.contains("UNKNOWN_PORT")), "{name}: {found:?}");
    }
}

#[test]
fn what_holds_no_flow_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("noise");
    std::fs::write(&path, [0xd3; 5000]).unwrap();
    let shown = path.display().to_string();
    gabion(&["read", &shown, "--behavior"]).refuses(3, &[&shown, "no flow record"]);
    let log = folder.path().join("conn.log");
    std::fs::write(
        &log,
        "{\"ts\":1.5,\"uid\":\"C\",\"id.orig_h\":\"10.0.0.1\",\"id.resp_h\":\"10.0.0.2\"}\nnonsense\n",
    )
    .unwrap();
    let ran = gabion(&["read", &log.display().to_string(), "--behavior"]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    assert!(ran.err.contains("1 line skipped") && ran.err.contains("(line 2)"), "{}", ran.err);
}

/// When another log is read, a file that should have been read is named with line and reason, and types without
/// detectors are named together in one line; when no log is read, one line reports why.
#[test]
fn files_of_which_nothing_is_used_are_named_with_the_reason() {
    let folder = tempfile::tempdir().unwrap();
    let put = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).unwrap();
    let flow = "{\"ts\":1.5,\"uid\":\"C\",\"id.orig_h\":\"10.0.0.1\",\"id.resp_h\":\"10.0.0.2\"}\n";
    put("conn.log", flow);
    put("conn.cut.log", "1.5\tC1\t10.0.0.1\n1.6\tC2\t10.0.0.1\n");
    for hour in ["00", "01"] {
        put(&format!("stats.{hour}.log"), "{\"ts\":1.5,\"peer\":\"zeek\",\"mem\":71}\n");
    }
    let shown = folder.path().display().to_string();
    let ran = gabion(&["read", &shown, "--behavior"]);
    let lines: Vec<&str> = ran.err.lines().collect();
    assert_eq!((ran.code, lines.len()), (0, 2), "{}", ran.err);
    for words in ["conn.cut.log: nothing of it was used: 2 lines skipped", "(lines 1, 2)"] {
        assert!(lines[0].contains(words), "{}", lines[0]);
    }
    assert!(lines[1].contains("2 logs of types without detectors, skipped: stats"), "{}", lines[1]);
    assert!(ran.out.starts_with("1 record of 1 log: 1 flow (0 established)"), "{}", ran.out);
    let empty = folder.path().join("empty");
    std::fs::create_dir(&empty).unwrap();
    let shown = empty.display().to_string();
    gabion(&["read", &shown, "--behavior"]).refuses(3, &["empty: no file in it", "name logs"]);
    // A page that cannot be written is reported before anything is read.
    let page = empty.join("none/x.html").display().to_string();
    let log = folder.path().join("conn.log").display().to_string();
    let ran = gabion(&["read", &log, "--behavior", "--report", &page]);
    assert!(ran.out.is_empty(), "{}", ran.out);
    ran.refuses(4, &["x.html", "choose another place"]);
}

/// The page about a run as a browser shows it, both engines in it, nothing loaded from elsewhere.
#[test]
fn the_page_about_a_run_is_shown_by_a_browser() {
    let test = "the_page_about_a_run_is_shown_by_a_browser";
    let Some(flows) = flows(test) else { return };
    let folder = tempfile::tempdir().unwrap();
    let page = folder.path().join("report.html");
    let out = folder.path().join("out").display().to_string();
    let shown = page.display().to_string();
    let input = flows.join("slips/test-cc-capture-1.pcap.zst").display().to_string();
    let ran = gabion(&["read", &input, "--behavior", "-q", "-l", &out, "--report", &shown]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    let html = std::fs::read_to_string(&page).unwrap();
    for id in ["who", "when", "why", "protocols", "ledger"] {
        assert!(html.contains(&format!("id=\"{id}\"")), "{id}");
    }
    assert!(folder.path().join("out/run.json").is_file());
    let browser = ["/usr/bin/chromium", "/usr/bin/chromium-browser", "/usr/bin/google-chrome"];
    let Some(browser) = browser.iter().find(|b| Path::new(b).exists()) else {
        eprintln!("{test}: skipped from here on: no Chromium");
        return;
    };
    // A network service that cannot be reached shows anything that is loaded as an error.
    let said = std::process::Command::new(browser)
        .args([
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--dump-dom",
            "--enable-logging=stderr",
        ])
        .args(["--host-resolver-rules=MAP * ~NOTFOUND", "--virtual-time-budget=2000"])
        .arg(format!("--user-data-dir={}", folder.path().join("profile").display()))
        .arg(format!("file://{shown}"))
        .output()
        .unwrap();
    let dom = String::from_utf8_lossy(&said.stdout);
    let log = String::from_utf8_lossy(&said.stderr);
    let drawn: usize =
        ["<rect", "<i style", "h.01"].map(|part| dom.matches(part).count()).iter().sum();
    assert!(dom.matches("<svg").count() >= 2 && drawn > 20, "{drawn}: {log}");
    assert!(!log.contains("CONSOLE") && !log.contains("ERR_"), "{log}");
}

/// What a run left is looked at by doctor.
#[test]
fn doctor_reads_what_a_run_left() {
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("conn.log");
    std::fs::write(
        &log,
        "{\"ts\":1.5,\"uid\":\"C\",\"id.orig_h\":\"10.0.0.1\",\"id.resp_h\":\"10.0.0.2\"}\nnonsense\n",
    )
    .unwrap();
    let (log, out) = (log.display().to_string(), folder.path().join("out").display().to_string());
    assert_eq!(gabion(&["read", &log, "--behavior", "-q", "-l", &out]).code, 0);
    let said = gabion(&["doctor", &out]);
    assert_eq!(said.code, 1, "{}", said.err);
    assert!(
        said.out.contains("unreadable_record") && said.out.contains("What to change"),
        "{}",
        said.out
    );
    let json = gabion(&["doctor", "--json", &out]).out;
    assert!(json.contains("\"unreadable_record\":1") && json.contains("\"limit\":"), "{json}");
    gabion(&["doctor", &format!("{out}/none")]).refuses(3, &["run.json", "name a folder"]);
}

/// A log that grows and is rotated, followed until SIGTERM.
#[test]
fn growing_logs_are_followed_until_the_end() {
    use std::io::Write;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("conn.log");
    let line = |n: u32| {
        format!(
            "{{\"ts\":{}.0,\"uid\":\"C{n}\",\"id.orig_h\":\"10.0.0.1\",\"id.orig_p\":5,\"id.resp_h\":\"192.0.2.{}\",\"id.resp_p\":23,\"proto\":\"tcp\",\"conn_state\":\"S0\",\"orig_pkts\":1}}\n",
            1000 + n,
            n % 250
        )
    };
    std::fs::write(&path, (0..5).map(line).collect::<String>()).unwrap();
    let out = folder.path().join("out");
    let mut child = program::command(&["read", "--behavior", "--follow", "--workers", "2", "-l"])
        .arg(&out)
        .arg(&path)
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let append = |text: String| {
        let mut file = std::fs::OpenOptions::new().append(true).create(true).open(&path).unwrap();
        file.write_all(text.as_bytes()).unwrap();
    };
    append((5..8).map(line).collect());
    std::fs::rename(&path, folder.path().join("conn.old.log")).unwrap();
    append((8..30).map(line).collect());
    let log = out.join("alerts.log");
    let mut found = false;
    for _ in 0..400 {
        found = std::fs::read_to_string(&log).is_ok_and(|t| t.contains("to 10 unique"));
        if found || child.try_wait().unwrap().is_some() {
            break;
        }
        std::thread::sleep(std::time::Duration::from_millis(25));
    }
    // Evidence is written during the run; the run ends when it is asked to.
    let _ = std::process::Command::new("kill").args(["-TERM", &child.id().to_string()]).status();
    let end = child.wait_with_output().unwrap();
    let (text, err) = (String::from_utf8_lossy(&end.stdout), String::from_utf8_lossy(&end.stderr));
    assert!(found, "{text} {err}");
    assert!(end.status.success(), "{text} {err}");
}

/// Three days of `missing_host` (29 MiB of logs) are reported in at most 15,000 findings and 16 MB.
fn is_bounded(out: &Path) {
    let len = |name: &str| std::fs::metadata(out.join(name)).map_or(0, |file| file.len());
    let bytes = len("alerts.json") + len("alerts.log");
    assert!((1_000_000..=16_000_000).contains(&bytes), "{bytes}");
    let alerts = std::fs::read_to_string(out.join("alerts.json")).unwrap();
    let lines = alerts.lines().map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap());
    let ids: std::collections::HashSet<String> =
        lines.filter_map(|e| e["_gabion"]["finding"].as_str().map(str::to_owned)).collect();
    assert!(ids.len() <= 15_000, "{}", ids.len());
}

/// What a run knows of a host: windows, evidence in order of time, its repeated connections; the
/// same with several workers.
#[test]
fn a_profile_is_shown_after_the_run() {
    let Some(flows) = flows("a_profile_is_shown_after_the_run") else { return };
    let folder = tempfile::tempdir().unwrap();
    let input = flows.join("rita/missing_host").display().to_string();
    let mut shown = Vec::new();
    for workers in ["1", "2"] {
        let out = folder.path().join(workers).display().to_string();
        let argv = ["read", &input, "--behavior", "-q", "--json", "-l", &out, "--workers", workers];
        let ran = gabion(&argv);
        assert_eq!(ran.code, 0, "{}", ran.err);
        is_bounded(Path::new(&out));
        // What is not among the findings of `--json` is a number there.
        let run: serde_json::Value = serde_json::from_str(&ran.out).unwrap();
        let there = run["findings"].as_array().unwrap().len() as u64;
        let all = run["findings_left"].as_u64().map(|left| left + there);
        assert!(there == 1000 && all == run["counts"]["findings"].as_u64(), "{there} {all:?}");
        let said = gabion(&["behavior", "show", &out, "--profile", "73.54.23.243"]);
        assert_eq!(said.code, 0, "{}", said.err);
        let mut words = said.out.split_whitespace();
        assert!(
            words.any(|w| w == "BEACON") && words.any(|w| w == "64.225.56.201"),
            "{}",
            said.out
        );
        let json = gabion(&["behavior", "show", &out, "--profile", "73.54.23.243", "--json"]).out;
        assert!(
            json.contains("\"to\":\"64.225.56.201\"") && json.contains("\"type\":\"BEACON\""),
            "{json}"
        );
        // Its calls in letters, each window's scored on its own.
        let profile: serde_json::Value = serde_json::from_str(&json).unwrap();
        let tuples = profile["tuples"].as_array().unwrap();
        assert!(tuples.len() > 3, "{json}");
        for t in tuples {
            // Each flow is a letter or a digit; zeros and signs are extra.
            let letters = t["letters"].as_str().unwrap();
            let flows = letters.bytes().filter(|b| b.is_ascii_alphanumeric() && *b != b'0');
            assert_eq!(Some(flows.count() as u64), t["flows"].as_u64(), "{letters}");
            // Five flows are the least that is scored.
            let score = t["score"].as_f64();
            assert_eq!(score.is_some(), t["flows"].as_u64() >= Some(5), "{t}");
            assert!(score.is_none_or(|s| (0.0..=1.0).contains(&s)));
            assert_eq!(t["parts"].is_object(), score.is_some());
        }
        assert!(said.out.contains("LETTERS") && said.out.contains("/tcp"), "{}", said.out);
        shown.push((said.out, json));
        assert_eq!(gabion(&["behavior", "show", &out, "--profile", "192.0.2.77"]).code, 1);
        gabion(&["behavior", "show", &out, "--profile", "nobody"]).refuses(2, &["nobody"]);
    }
    assert_eq!(shown[0], shown[1]);
}

/// A host that nothing was found about is shown too: what it was in each window.
#[test]
fn a_quiet_profile_is_shown_too() {
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("dns.log");
    let line = |n: i64| {
        format!(
            "{{\"ts\":{}.0,\"uid\":\"C{n}\",\"id.orig_h\":\"10.0.0.1\",\"id.orig_p\":5353,\"id.resp_h\":\"10.0.0.2\",\"id.resp_p\":53,\"proto\":\"udp\",\"query\":\"printer.local\"}}\n",
            1_700_000_000 + n * 600
        )
    };
    std::fs::write(&log, (0..12).map(line).collect::<String>()).unwrap();
    let (log, out) = (log.display().to_string(), folder.path().join("out").display().to_string());
    let ran = gabion(&["read", &log, "--behavior", "--json", "-q", "-l", &out]);
    assert!(ran.code == 0 && ran.out.contains("\"evidence\":[]"), "{}{}", ran.out, ran.err);
    let said = gabion(&["behavior", "show", &out, "--profile", "10.0.0.1", "--json"]);
    let profile: serde_json::Value = serde_json::from_str(&said.out).unwrap();
    let windows: Vec<_> = profile["windows"]
        .as_array()
        .unwrap()
        .iter()
        .map(|w| w["window"].as_i64().unwrap())
        .collect();
    assert_eq!((said.code, windows), (0, vec![1, 2]));
}

/// A named pipe in a folder.
fn pipe(folder: &Path) -> PathBuf {
    let path = folder.join("pipe");
    assert!(std::process::Command::new("mkfifo").arg(&path).status().unwrap().success());
    path
}

/// Starts a run; its standard input is a pipe.
fn start(input: &Path, out: &Path, more: &[&str]) -> Child {
    program::command(&["read", "--behavior", "-q"])
        .args(more)
        .arg("-l")
        .args([out, input])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap()
}

/// Waits for the end of a run, which may not take longer than that.
fn end(mut child: Child) -> program::Ran {
    for _ in 0..1200 {
        if child.try_wait().unwrap().is_some() {
            return program::ran(child.wait_with_output().unwrap());
        }
        std::thread::sleep(Duration::from_millis(25));
    }
    let _ = child.kill();
    panic!("no end: {}", program::ran(child.wait_with_output().unwrap()).err);
}

/// Runs over bytes that come through a pipe: a named one, or what `-` and `/dev/stdin` stand for.
fn piped(input: &Path, bytes: &[u8], out: &Path, more: &[&str]) -> program::Ran {
    let mut child = start(input, out, more);
    let stdin = child.stdin.take();
    // Who reads may have had enough before the end.
    let _ = if input.starts_with("/dev") || input == Path::new("-") {
        stdin.unwrap().write_all(bytes)
    } else {
        std::fs::OpenOptions::new()
            .write(true)
            .open(input)
            .and_then(|mut pipe| pipe.write_all(bytes))
    };
    end(child)
}

/// Connections of a host to many others on one port, some of them out of order.
fn scan() -> String {
    let line = |n: u32| {
        let n = if n % 50 == 7 { n - 5 } else { n };
        format!(
            "{{\"ts\":{}.5,\"uid\":\"C{n}\",\"id.orig_h\":\"10.0.0.1\",\"id.orig_p\":5,\"id.resp_h\":\"192.0.{}.{}\",\"id.resp_p\":23,\"proto\":\"tcp\",\"conn_state\":\"S0\",\"orig_pkts\":1}}\n",
            1_700_000_000 + n,
            n / 250,
            n % 250
        )
    };
    (0..2000).map(line).collect()
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut packed = Vec::new();
    let mut packing = flate2::read::GzEncoder::new(bytes, flate2::Compression::fast());
    packing.read_to_end(&mut packed).unwrap();
    packed
}

/// A log through a pipe, plain and packed, by one worker and two: what standard input gives.
#[test]
fn a_log_through_a_pipe_is_read_like_standard_input() {
    let folder = tempfile::tempdir().unwrap();
    let (fifo, log) = (pipe(folder.path()), scan());
    assert!(log.len() > 200 << 10, "more than a pipe holds");
    let plain = log.as_bytes();
    let mut expected = None;
    let mut at = 0;
    for bytes in [plain.to_vec(), gzip(plain), zstd::encode_all(plain, 1).unwrap()] {
        for input in [Path::new("-"), &fifo, Path::new("/dev/stdin")] {
            for workers in ["1", "2"] {
                at += 1;
                let out = folder.path().join(at.to_string());
                let ran = piped(input, &bytes, &out, &["--workers", workers]);
                assert_eq!((ran.code, ran.err.as_str()), (0, ""), "{}", input.display());
                let text = |name: &str| std::fs::read_to_string(out.join(name)).unwrap();
                let found: Vec<String> =
                    text("alerts.json").lines().map(without_creation).collect();
                assert!(found.iter().any(|l| l.contains("HORIZONTAL_PORT_SCAN")), "{found:?}");
                let expected = expected.get_or_insert(found.clone());
                assert!(found == *expected, "{}, {workers} workers", input.display());
                assert!(text("run.json").contains("\"balanced\":true"));
            }
        }
    }
}

/// What comes through a pipe and is no log is named in one line; so is a pipe that is named twice.
#[test]
fn what_a_pipe_holds_that_is_no_log_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let (fifo, out) = (pipe(folder.path()), folder.path().join("out"));
    let shown = fifo.display().to_string();
    let capture = std::fs::read(program::demo()).unwrap();
    for (bytes, is_packed) in [(gzip(&capture), true), (capture, false)] {
        for more in [&[][..], &["--workers", "2"], &["--follow"]] {
            if !is_packed && !more.contains(&"--follow") {
                continue;
            }
            let more = &[more, &["--overwrite"]].concat();
            for (input, shown) in [(fifo.as_path(), shown.as_str()), (Path::new("-"), "-: ")] {
                let ran = piped(input, &bytes, &out, more);
                ran.refuses(3, &[shown, "it is a capture", "write it into a file"]);
            }
        }
    }
    let cut = gzip(scan().as_bytes());
    let cut = &cut[..cut.len() / 2];
    piped(&fifo, cut, &out, &["--overwrite"]).refuses(3, &[&shown, "name a log of flows"]);
    piped(&fifo, b"", &out, &["--overwrite"]).refuses(3, &[&shown, "no flow record (empty)"]);
    piped(&fifo, b"noise\n", &out, &["--overwrite"]).refuses(3, &[&shown, "no flow record"]);
    gabion(&["read", &shown, &shown, "--behavior"]).refuses(2, &[&shown, "only once"]);
    // A folder is read without what nobody named.
    std::fs::write(folder.path().join("conn.log"), scan()).unwrap();
    assert!(!read(&[folder.path()], &[]).0.is_empty());
}

/// Whether a process has taken over SIGTERM.
fn takes_term(process: u32) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).unwrap_or_default();
    let caught = status.lines().find_map(|l| l.strip_prefix("SigCgt:")).unwrap_or("0");
    u64::from_str_radix(caught.trim(), 16).is_ok_and(|mask| mask >> 14 & 1 == 1)
}

/// Who waits for a pipe, before there is a writer or between its lines, is heard when it asks to stop.
#[test]
fn a_run_that_waits_for_a_pipe_can_be_ended() {
    let folder = tempfile::tempdir().unwrap();
    let (fifo, log) = (pipe(folder.path()), scan());
    let half = log.len() / 2;
    for (at, more) in [&[][..], &["--workers", "2"], &["--follow"]].iter().enumerate() {
        for bytes in [None, Some(log.as_bytes()[..half].to_vec()), Some(gzip(log.as_bytes()))] {
            let out = folder.path().join(format!("out{at}"));
            let child = start(&fifo, &out, more);
            // More than a pipe holds was read then, enough of it to be reported; compressed input may still wait.
            // A service manager ends services by SIGTERM, and that is no failure.
            let (signal, code) = match (bytes.is_none(), more.contains(&"--follow")) {
                (true, _) => ("-TERM", 0),
                (false, true) => ("-INT", 0),
                (false, false) => ("-INT", 130),
            };
            let is_reported = match &bytes {
                None => Some(false),
                Some(bytes) => (bytes.len() > 100 << 10).then_some(true),
            };
            let writer = bytes.map(|bytes| {
                let mut pipe = std::fs::OpenOptions::new().write(true).open(&fifo).unwrap();
                pipe.write_all(&bytes[..bytes.len() - 20]).unwrap();
                pipe
            });
            // The signals are taken over before the folder is made.
            for _ in 0..400 {
                // What comes through the pipe is looked at before the folder is made, unless it is followed.
                let is_waiting = is_reported == Some(false)
                    && !more.contains(&"--follow")
                    && takes_term(child.id());
                if is_waiting || out.join("alerts.json").exists() {
                    break;
                }
                std::thread::sleep(Duration::from_millis(25));
            }
            std::thread::sleep(Duration::from_millis(100));
            let sent =
                std::process::Command::new("kill").args([signal, &child.id().to_string()]).status();
            assert!(sent.unwrap().success());
            let (ran, found) = (end(child), std::fs::read_to_string(out.join("alerts.json")));
            assert_eq!(ran.code, code, "{more:?} {signal}: {}", ran.err);
            let said = ran.err.replace("gabion: no flow record was received\n", "");
            assert_eq!(said, "", "{more:?}");
            let found = found.unwrap().contains("PORT_SCAN");
            assert!(is_reported.is_none_or(|expected| expected == found), "{more:?}");
            drop(writer);
            std::fs::remove_dir_all(&out).unwrap();
        }
    }
}

/// A pipe is followed until its writer closes it; evidence is out before.
#[test]
fn a_pipe_is_followed_until_it_is_closed() {
    let folder = tempfile::tempdir().unwrap();
    let (fifo, log) = (pipe(folder.path()), scan());
    for (at, workers) in ["1", "2"].iter().enumerate() {
        let out = folder.path().join(at.to_string());
        let child = start(&fifo, &out, &["--follow", "--workers", workers]);
        let mut pipe = std::fs::OpenOptions::new().write(true).open(&fifo).unwrap();
        let cut = log.len() / 2;
        pipe.write_all(&log.as_bytes()[..cut]).unwrap();
        let mut found = false;
        for _ in 0..800 {
            found = std::fs::read_to_string(out.join("alerts.json"))
                .is_ok_and(|t| t.contains("HORIZONTAL_PORT_SCAN"));
            if found {
                break;
            }
            std::thread::sleep(Duration::from_millis(25));
        }
        assert!(found);
        pipe.write_all(&log.as_bytes()[cut..]).unwrap();
        drop(pipe);
        let ran = end(child);
        assert_eq!((ran.code, ran.err.as_str()), (0, ""));
        let run = std::fs::read_to_string(out.join("run.json")).unwrap();
        assert!(run.contains("\"balanced\":true") && run.contains("2000"), "{run}");
    }
}
