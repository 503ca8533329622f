//! `behavior mute`: a muted finding is not reported by the next run, and a preview shows this beforehand.

use serde_json::Value;
use std::path::Path;
use std::process::{Command, Output};

const GABION: &str = env!("CARGO_BIN_EXE_gabion");

fn run(arguments: &[&str]) -> Output {
    Command::new(GABION).args(arguments).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// A log in which a host scans ports and another calls home in a rhythm, and the folder of a run over it.
fn log(folder: &Path) -> String {
    let mut log = String::from(
        "#separator \\x09\n#path\tconn\n#fields\tts\tuid\tid.orig_h\tid.orig_p\tid.resp_h\tid.resp_p\tproto\tservice\t\
         duration\torig_bytes\tresp_bytes\tconn_state\tlocal_orig\tlocal_resp\tmissed_bytes\thistory\torig_pkts\t\
         orig_ip_bytes\tresp_pkts\tresp_ip_bytes\ttunnel_parents\n#types\ttime\tstring\taddr\tport\taddr\tport\tenum\t\
         string\tinterval\tcount\tcount\tstring\tbool\tbool\tcount\tstring\tcount\tcount\tcount\tcount\tset[string]\n",
    );
    let mut flows: Vec<(f64, String)> = Vec::new();
    for n in 0..60 {
        let rest = "tcp\t-\t0.0\t0\t0\tS0\tT\tT\t0\tS\t1\t40\t0\t0\t-";
        let port = n + 1;
        flows.push((f64::from(n), format!("10.0.0.5\t40000\t10.0.0.9\t{port}\t{rest}")));
    }
    for n in 0..100 {
        let rest = "tcp\tssl\t0.1\t100\t100\tSF\tT\tF\t0\tShADadFf\t5\t300\t5\t300\t-";
        flows.push((f64::from(n * 60), format!("10.0.0.7\t40001\t198.51.100.34\t8443\t{rest}")));
    }
    flows.sort_by(|a, b| a.0.total_cmp(&b.0));
    for (n, (at, flow)) in flows.iter().enumerate() {
        log += &format!("{:.6}\tC{n}\t{flow}\n", 1_700_000_000.0 + at);
    }
    let path = folder.join("conn.log");
    std::fs::write(&path, log).unwrap();
    path.to_string_lossy().into_owned()
}

/// The findings of a run: their types and hosts.
fn findings(log: &str, folder: &Path, whitelist: Option<&str>) -> Vec<(String, String)> {
    let out = folder.to_string_lossy();
    let mut arguments = vec!["read", log, "--behavior", "-q", "-l", &out, "--overwrite"];
    if let Some(list) = whitelist {
        arguments.extend(["--whitelist", list]);
    }
    let ran = run(&arguments);
    assert!(ran.status.success(), "{}", text(&ran.stderr));
    let listed = run(&["behavior", "list", &out, "--json"]);
    let listed: Value = serde_json::from_slice(&listed.stdout).unwrap();
    let word = |f: &Value, key: &str| f[key].as_str().unwrap().to_owned();
    let all = listed["findings"].as_array().unwrap().iter();
    all.map(|f| (word(f, "type"), word(f, "source"))).collect()
}

#[test]
fn what_a_preview_says_is_what_the_next_run_keeps_back() {
    let folder = tempfile::tempdir().unwrap();
    let log = log(folder.path());
    let (before, after) = (folder.path().join("before"), folder.path().join("after"));
    let all = findings(&log, &before, None);
    assert!(all.iter().any(|f| f.0 == "VERTICAL_PORT_SCAN"), "{all:?}");
    assert!(all.iter().any(|f| f.1 == "10.0.0.7"), "{all:?}");
    let before = before.to_string_lossy();
    for (n, what) in [
        &["10.0.0.5"][..],
        &["10.0.0.0/29"],
        &["vertical_port_scan"],
        &["10.0.0.7,198.51.100.34"],
        &["10.0.0.5", "--type", "VERTICAL_PORT_SCAN"],
    ]
    .iter()
    .enumerate()
    {
        let list = folder.path().join(format!("list{n}"));
        let list = list.to_str().unwrap();
        let mut arguments = vec!["behavior", "mute"];
        arguments.extend(*what);
        arguments.extend([
            "--for",
            "7d",
            "--because",
            "tests, of this",
            "--whitelist",
            list,
            "--json",
        ]);
        let preview = [&arguments[..], &["--preview", &before]].concat();
        let preview = run(&preview);
        assert!(preview.status.success(), "{what:?}: {}", text(&preview.stderr));
        assert!(!Path::new(list).exists(), "{what:?}");
        let preview: Value = serde_json::from_slice(&preview.stdout).unwrap();
        let hidden = preview["kept_back"].as_u64().unwrap();
        assert!(hidden > 0, "{what:?}");
        let muted = run(&arguments);
        assert!(muted.status.success(), "{what:?}: {}", text(&muted.stderr));
        let entry = std::fs::read_to_string(list).unwrap();
        assert!(
            entry.contains(",until=") && entry.ends_with(",because=tests, of this\n"),
            "{entry}"
        );
        let left = findings(&log, &after, Some(list));
        assert_eq!((left.len() as u64) + hidden, all.len() as u64, "{what:?}: {left:?}");
    }
}

#[test]
fn entries_are_added_at_the_end_and_nothing_is_written_for_what_is_none() {
    let folder = tempfile::tempdir().unwrap();
    let list = folder.path().join("whitelist.conf");
    std::fs::write(&list, "; ours\nip,10.0.0.1,both,alerts").unwrap();
    let shown = list.to_string_lossy().into_owned();
    let config = folder.path().join("slips.yaml");
    std::fs::write(&config, format!("whitelists:\n  local_whitelist_path: {shown}\n")).unwrap();
    let config = config.to_string_lossy().into_owned();
    let ran = run(&[
        "behavior",
        "mute",
        "example.com",
        "--for-good",
        "--because",
        "known",
        "-c",
        &config,
    ]);
    assert!(ran.status.success(), "{}", text(&ran.stderr));
    assert!(
        text(&ran.stdout).contains("line 3: domain,example.com,both,alerts,because=known"),
        "{}",
        text(&ran.stdout)
    );
    let want = "; ours\nip,10.0.0.1,both,alerts\ndomain,example.com,both,alerts,because=known\n";
    assert_eq!(std::fs::read_to_string(&list).unwrap(), want);
    for (wrong, word) in [
        (
            &["BEACONN", "--for", "7d", "--because", "x"][..],
            "is not a host, type of findings or pair",
        ),
        (&["10.0.0.300", "--for", "7d", "--because", "x"], "is not a valid address"),
        (&["10.0.0.1,,", "--for", "7d", "--because", "x"], "10.0.0.1"),
        (&["10.0.0.1", "--for", "soon", "--because", "x"], "--for soon: not a duration"),
        (&["10.0.0.1", "--for", "0s", "--because", "x"], "--for 0s: not a duration"),
        (&["10.0.0.1", "--for", "9999999999d", "--because", "x"], "ends after the year 2199"),
        (&["10.0.0.1", "--for", "7d", "--because", " "], "--because"),
        (&["10.0.0.1", "--for", "7d", "--because", "a\nb"], "--because"),
        (&["10.0.0.1", "--for", "7d", "--because", "x", "--type", "NOTHING"], "--type NOTHING"),
        (&["BEACON", "--for", "7d", "--because", "x", "--type", "BEACON"], "is a type already"),
    ] {
        let arguments = [&["behavior", "mute", "--whitelist", &shown][..], wrong].concat();
        let ran = run(&arguments);
        assert_eq!(ran.status.code(), Some(2), "{wrong:?}: {}", text(&ran.stderr));
        assert!(text(&ran.stderr).contains(word), "{wrong:?}: {}", text(&ran.stderr));
        assert_eq!(std::fs::read_to_string(&list).unwrap(), want, "{wrong:?}");
    }
    let ran = run(&["behavior", "mute", "10.0.0.1", "--for", "7d", "--because", "x"]);
    assert_eq!(ran.status.code(), Some(2));
    assert!(text(&ran.stderr).contains("--whitelist FILE"), "{}", text(&ran.stderr));
    let ran = run(&["behavior", "mute", "10.0.0.1", "--because", "x", "--whitelist", &shown]);
    assert_eq!(ran.status.code(), Some(2), "an end has to be given, or that there is none");
}
