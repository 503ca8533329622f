//! Outputs of plain text: `http-log`, `tls-log`, `tcp-data`, `http-body-data` and `alert-debug`. The files below
//! `golden/text-outputs` are what Suricata 8.0.7 wrote of the demonstration's capture with the same rules.

mod program;

use program::{demo, gabion};
use std::path::Path;

const CONFIG: &str = r#"%YAML 1.1
---
outputs:
  - http-log: {enabled: yes, extended: yes}
  - http-log:
      enabled: yes
      filename: http-custom.log
      custom: yes
      customformat: "%{%D-%H:%M:%S}t.%z %{X-Forwarded-For}i %H %m %h %u %s %B %a:%p -> %A:%P|%{Server}o|%{sid}C|%t|%%|%{5}u|%{10}h|%r"
  - tls-log: {enabled: yes, extended: yes}
  - tcp-data: {enabled: yes, type: both}
  - http-body-data: {enabled: yes, type: both}
  - alert-debug: {enabled: yes}
"#;

const RULES: &str = r#"
alert http any any -> any any (msg:"request"; http.method; content:"GET"; flowbits:set,asked; flowint:requests,+,1; threshold:type limit, track by_rule, count 1, seconds 86400; classtype:misc-activity; sid:1; rev:2;)
alert tcp-pkt any any -> any any (msg:"payload"; flow:to_client; content:"220 "; pcre:"/220 (?P<flow_name>[a-z]+)/"; threshold:type limit, track by_rule, count 1, seconds 86400; sid:2;)
alert udp any any -> any any (msg:"datagram"; dsize:>5; threshold:type limit, track by_rule, count 1, seconds 86400; priority:2; sid:3;)
"#;

const CLASSES: &str = "config classification: misc-activity,Misc activity,3\n";

/// The folder of the outputs of a run over the demonstration's capture.
fn outputs(more: &[&str]) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name).display().to_string();
    for (name, text) in [("c.yaml", CONFIG), ("r.rules", RULES), ("classes", CLASSES)] {
        std::fs::write(dir.path().join(name), text).unwrap();
    }
    std::fs::create_dir(dir.path().join("out")).unwrap();
    let classes = format!("classification-file={}", path("classes"));
    let (config, rules, out, capture) = (path("c.yaml"), path("r.rules"), path("out"), demo());
    let mut args = vec!["suricata", "-c", &config, "-r", &capture, "-S", &rules, "-l", &out];
    args.extend_from_slice(&["-k", "none", "--set", &classes]);
    args.extend_from_slice(more);
    let ran = gabion(&args);
    assert_eq!(ran.code, 0, "{}", ran.err);
    dir
}

fn written(dir: &tempfile::TempDir, name: &str) -> String {
    std::fs::read_to_string(dir.path().join("out").join(name)).unwrap()
}

fn golden(name: &str) -> String {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/text-outputs");
    std::fs::read_to_string(folder.join(name)).unwrap()
}

/// The lines in one order: flows that are left at the end of the input end in Suricata in the order of a hash table.
fn sorted(text: &str) -> Vec<String> {
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    lines.sort_unstable();
    lines
}

#[test]
fn http_logs_are_those_of_suricata() {
    let dir = outputs(&[]);
    for name in ["http.log", "http-custom.log"] {
        assert_eq!(sorted(&written(&dir, name)), sorted(&golden(name)), "{name}");
    }
}

/// Two things differ on purpose: the time, here that of the handshake's end, in Suricata that of the session's, and the serial
/// number, which Suricata 8.0.7 leaves empty.
#[test]
fn tls_logs_have_the_members_of_suricata() {
    let without = |text: &str| -> Vec<String> {
        let line = |line: &str| {
            let (before, after) = line.split_once("SERIAL='").unwrap_or((line, "'"));
            let after = after.split_once('\'').unwrap().1;
            format!("{}{after}", before.get(26..).unwrap())
        };
        let mut lines: Vec<String> = text.lines().map(line).collect();
        lines.sort_unstable();
        lines
    };
    let dir = outputs(&[]);
    assert_eq!(without(&written(&dir, "tls.log")), without(&golden("tls.log")));
}

#[test]
fn blocks_of_alerts_are_those_of_suricata() {
    let dir = outputs(&[]);
    assert_eq!(written(&dir, "alert-debug.log"), golden("alert-debug.log"));
}

/// The bytes that a dump in hex shows, by the names of their streams, in the order of these.
fn dumped(text: &str) -> Vec<(String, Vec<u8>)> {
    let mut all = std::collections::BTreeMap::<String, Vec<u8>>::new();
    let mut name = String::new();
    for line in text.lines() {
        match line.strip_prefix(' ') {
            None => name = line.trim_end_matches(':').to_owned(),
            Some(row) => {
                let hex = row.get(6..56).unwrap().split_ascii_whitespace();
                let bytes = hex.map(|byte| u8::from_str_radix(byte, 16).unwrap());
                all.entry(name.clone()).or_default().extend(bytes);
            }
        }
    }
    all.into_iter().collect()
}

#[test]
fn streams_and_bodies_are_written_in_one_file_and_in_their_own() {
    let dir = outputs(&[]);
    for (file, folder, bodies) in [("tcp-data.log", "tcp", ""), ("http-data.log", "http", "0")] {
        let all = dumped(&written(&dir, file));
        assert!(all.len() > 10, "{file}: {}", all.len());
        for (name, bytes) in &all {
            let (ends, side) = name.rsplit_once('-').unwrap();
            let own =
                dir.path().join("out").join(folder).join(format!("{ends}-{bodies}-{side}.data"));
            let own = std::fs::read(&own).unwrap_or_else(|e| panic!("{}: {e}", own.display()));
            // A session of several requests has a file for each body.
            if bodies.is_empty() {
                assert_eq!(own, *bytes, "{name}")
            } else {
                assert!(bytes.starts_with(&own), "{name}")
            }
        }
    }
    let streams = dumped(&written(&dir, "tcp-data.log"));
    let has = |part: &[u8]| streams.iter().any(|(_, s)| s.windows(part.len()).any(|w| w == part));
    assert!(has(b"GET /docs/handbook.html HTTP/1.1\r\n"));
}

/// With several workers the same lines come in the same order; what shows a packet's alerts together is written by one.
#[test]
fn workers_change_nothing() {
    let workers = ["--runmode=autofp", "--set", "threading.set-cpu-affinity=yes"];
    let two = ["--set", "threading.cpu-affinity.worker-cpu-set.threads=2"];
    let quiet = ["--set", "outputs.5.alert-debug.enabled=no"];
    let (one, several) = (outputs(&quiet), outputs(&[&workers[..], &two, &quiet].concat()));
    for name in ["http.log", "tls.log", "tcp-data.log", "http-data.log"] {
        assert!(written(&one, name) == written(&several, name), "{name}");
    }
}
