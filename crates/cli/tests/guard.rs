//! `gabion guard report`: the recordings in `demo`, torn files, files that are no recordings.

mod program;

use program::{gabion, repository};
use serde_json::Value;
use std::path::Path;

fn demo(name: &str) -> String {
    repository("demo/guard").join(name).display().to_string()
}

fn below(folder: &Path, name: &str) -> String {
    folder.join(name).display().to_string()
}

fn events(folder: &str) -> Vec<Value> {
    let text = std::fs::read_to_string(Path::new(folder).join("guard.json")).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// The line names place, time, cause, rate, share, harm and what to do.
#[test]
fn a_flood_has_a_line_events_and_a_page() {
    let dir = tempfile::tempdir().unwrap();
    let out = below(dir.path(), "out");
    let run = gabion(&["guard", "report", &demo("flood.csv.zst"), "-l", &out]);
    assert_eq!(run.code, 0, "{}", run.err);
    let line = run.out.lines().next().unwrap();
    for part in [
        "CPU1 incident 1 at 3.296 s",
        "flood of new flows",
        "kpps",
        "% of CPU1 in packet work",
        "user gaps to",
        "gabion guard enforce",
    ] {
        assert!(line.contains(part), "{part}: {line}");
    }
    let events = events(&out);
    let kinds: Vec<&str> = events.iter().map(|e| e["event"].as_str().unwrap()).collect();
    assert_eq!(kinds, ["incident", "cause", "end"]);
    assert_eq!(events[1]["cause"], "new-flows");
    assert_eq!(events[2]["verdict"], "packet-work");
    assert!(events.iter().all(|e| e["id"].as_str().unwrap().len() == 36));
    let page = std::fs::read_to_string(Path::new(&out).join("report.html")).unwrap();
    assert!(page.contains("flood of new flows") && page.contains("<svg"));
    for strip in [
        "Longest grace period",
        "Runs of NET_RX",
        "1. Packet work",
        "2. Packets",
        "3. ",
        "4. ",
        "5. ",
        "6. ",
    ] {
        assert!(page.contains(strip), "{strip}");
    }
    for outside in ["http://", "https://", "<script", "url(", "src="] {
        assert!(!page.contains(outside), "{outside}");
    }
}

/// The same recording gives the same ids, also named by its other file; a held flood is no incident of packet work.
#[test]
fn a_guarded_flood_is_held_and_ids_stay() {
    let dir = tempfile::tempdir().unwrap();
    let (a, b) = (below(dir.path(), "a"), below(dir.path(), "b"));
    gabion(&["guard", "report", &demo("flood-guarded.csv.zst"), "-l", &a]);
    gabion(&["guard", "report", &demo("flood-guarded.xdp.csv.zst"), "-l", &b]);
    assert_eq!(events(&a), events(&b));
    let last = events(&a).pop().unwrap();
    assert_eq!((last["verdict"].as_str(), last["effective"].as_bool()), (Some("held"), Some(true)));
}

#[test]
fn a_report_is_replaced_only_if_asked_for() {
    let dir = tempfile::tempdir().unwrap();
    let out = below(dir.path(), "out");
    let recording = demo("flood.csv.zst");
    assert_eq!(gabion(&["guard", "report", &recording, "-l", &out]).code, 0);
    gabion(&["guard", "report", &recording, "-l", &out])
        .refuses(2, &["report.html", "--overwrite"]);
    let again = gabion(&["guard", "report", &recording, "-l", &out, "--overwrite"]);
    assert_eq!(again.code, 0, "{}", again.err);
}

#[test]
fn a_torn_recording_is_read_and_other_files_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let out = below(dir.path(), "out");
    let whole = std::fs::read(demo("flood.csv.zst")).unwrap();
    let torn = below(dir.path(), "torn.csv.zst");
    std::fs::write(&torn, &whole[..whole.len() * 3 / 4]).unwrap();
    let run = gabion(&["guard", "report", &torn, "-l", &out]);
    assert_eq!(run.code, 0, "{}", run.err);
    assert!(run.err.contains("ends inside a row or a compressed block"), "{}", run.err);
    // Rows are by CPU in this file, so that the flooded CPU has rows for a part of the time only.
    assert!(run.err.contains("packet work is known in"), "{}", run.err);
    assert!(run.out.contains("in which packet work was measured"), "{}", run.out);
    let missing = below(dir.path(), "none.csv");
    gabion(&["guard", "report", &missing, "-l", &out, "--overwrite"])
        .refuses(3, &["none.csv", "name a recording"]);
    let capture = repository("demo/demo.pcap").display().to_string();
    gabion(&["guard", "report", &capture, "-l", &out, "--overwrite"])
        .refuses(3, &["demo.pcap", "not a recording"]);
    let file = below(dir.path(), "file");
    std::fs::write(&file, "").unwrap();
    gabion(&["guard", "report", &demo("flood.csv.zst"), "-l", &file]).refuses(4, &["file"]);
}

/// What must not happen by mistake is refused before anything is attached.
#[test]
fn a_throttle_needs_an_allow_list_and_an_interface() {
    gabion(&["guard", "enforce", "--interface", "lo"]).refuses(2, &["--allow", "never be dropped"]);
    gabion(&["guard", "enforce", "--interface", "lo", "--allow", "ssh"])
        .refuses(2, &["--allow ssh: write an address", "tcp/22"]);
    gabion(&["guard", "enforce", "--interface", "lo", "--allow", ""])
        .refuses(2, &["--allow: the value is empty: write an address"]);
    gabion(&["guard", "enforce", "--interface", "lo", "--allow", "tcp/22", "--budget", "95"])
        .refuses(2, &["--budget", "95"]);
    let run = gabion(&["guard", "enforce", "--interface", "no-such0", "--allow", "tcp/22"]);
    run.refuses(4, &["--interface no-such0", "no such interface"]);
    let missing = ["guard", "watch", "--netns", "/nonexistent/netns", "--seconds", "1"];
    gabion(&missing).refuses(4, &["--netns /nonexistent/netns"]);
}

/// A record as a guard leaves it that was killed: a value that is still the guard's.
fn left_behind(folder: &Path, boot_id: &str, netns: u64) -> std::path::PathBuf {
    let value = folder.join("value");
    std::fs::write(&value, "16\n").unwrap();
    let record = format!(
        "what={}\nold=64\nnew=16\nboot_id={boot_id}\nnetns={netns}\npid=7\nend\n",
        value.display()
    );
    let undo = folder.join("undo");
    std::fs::create_dir_all(&undo).unwrap();
    std::fs::write(undo.join("7-0.undo"), record).unwrap();
    value
}

#[test]
fn status_without_a_guard_shows_what_is_left_to_undo() {
    use std::os::unix::fs::MetadataExt;
    let dir = tempfile::tempdir().unwrap();
    let undo = below(dir.path(), "undo");
    let status = ["guard", "status", "--metrics", "127.0.0.1:1", "--undo-dir", &undo];
    let run = gabion(&status);
    assert_eq!(run.code, 0, "{}", run.err);
    assert!(run.out.contains("no guard answers at 127.0.0.1:1"), "{}", run.out);
    assert!(run.out.contains("nothing is left to undo"), "{}", run.out);
    let boot_id = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap();
    let netns = std::fs::metadata("/proc/self/ns/net").unwrap().ino();
    let value = left_behind(dir.path(), boot_id.trim(), netns);
    let run = gabion(&status);
    assert_eq!(run.code, 1, "{}", run.out);
    assert!(run.out.contains("64 before, 16 by the guard, now 16"), "{}", run.out);
    let run = gabion(&[&status[..], &["--json"]].concat());
    let found: Value = serde_json::from_str(&run.out).unwrap();
    assert_eq!(
        (found["is_live"].as_bool(), found["left_to_undo"].as_bool()),
        (Some(false), Some(true))
    );
    // Somebody else changed it since: it is not the guard's any more.
    std::fs::write(value, "32\n").unwrap();
    assert_eq!(gabion(&status).code, 0);
}

#[test]
fn doctor_reports_tables_and_what_is_left_to_undo_below_its_root() {
    let root = tempfile::tempdir().unwrap();
    let put = |path: &str, text: &str| {
        let path = root.path().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    };
    put("proc/meminfo", "MemTotal:       16000000 kB\n");
    put("proc/sys/kernel/random/boot_id", "b1\n");
    put("proc/sys/net/netfilter/nf_conntrack_count", "10\n");
    put("proc/sys/net/netfilter/nf_conntrack_max", "1000\n");
    let doctor = || gabion(&["doctor", "--json", "--root", &root.path().display().to_string()]);
    let run = doctor();
    assert_eq!(run.code, 0, "{} {}", run.out, run.err);
    let found: Value = serde_json::from_str(&run.out).unwrap();
    assert_eq!(found["guard"]["tables"][0]["entries"], 10);
    assert_eq!(
        found["guard"]["instruments"].as_array().map(Vec::len),
        Some(0),
        "of another machine"
    );
    put("proc/sys/net/core/dev_weight", "16\n");
    let record =
        "what=/proc/sys/net/core/dev_weight\nold=64\nnew=16\nboot_id=b1\nnetns=0\npid=7\nend\n";
    put("run/gabion-guard/7-0.undo", record);
    let run = doctor();
    assert_eq!(run.code, 1, "{}", run.out);
    assert!(run.out.contains("left by a guard that was killed"), "{}", run.out);
}
