//! Outputs in a folder that others may write, as `/tmp` is: a link there is refused with 4, whatever
//! output it stands for, and what it leads to stays as it was. In one's own folder links are followed.

mod program;

use program::{demo, gabion, repository};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};

struct Places {
    dir: tempfile::TempDir,
    victim: PathBuf,
}

impl Places {
    fn new() -> Places {
        let dir = tempfile::tempdir().unwrap();
        let victim = dir.path().join("victim");
        std::fs::write(&victim, "precious").unwrap();
        std::fs::create_dir(dir.path().join("own")).unwrap();
        Places { dir, victim }
    }

    /// A new folder with the rights of `/tmp`.
    fn shared(&self) -> PathBuf {
        let path = self.dir.path().join("shared");
        let _ = std::fs::remove_dir_all(&path);
        std::fs::create_dir(&path).unwrap();
        std::fs::set_permissions(&path, PermissionsExt::from_mode(0o1777)).unwrap();
        path
    }

    fn is_untouched(&self) -> bool {
        std::fs::read(&self.victim).unwrap() == b"precious"
    }
}

/// Runs, each with the files that it writes.
fn runs(folder: &Path, log: &str) -> Vec<(Vec<String>, Vec<&'static str>)> {
    let (at, out) = (|name: &str| folder.join(name).display().to_string(), folder.display());
    let rules = repository("demo/gabion.rules").display().to_string();
    let demo = demo();
    let words = |line: &str| line.split(' ').map(str::to_owned).collect::<Vec<_>>();
    vec![
        (
            words(&format!("read {demo} -S {rules} -q -l {out} --overwrite --profile-rules")),
            vec!["eve.json", "fast.log", "run.json", "rule_perf.log"],
        ),
        (
            words(&format!("read {log} --behavior -q -l {out} --overwrite")),
            vec!["alerts.json", "alerts.log", "profiles.sqlite", "run.json"],
        ),
        (
            words(&format!("read {log} --behavior --follow -q -l {out} --overwrite")),
            vec![
                "alerts.json",
                "alerts.log",
                "profiles.sqlite",
                "profiles.sqlite-journal",
                "run.json",
                "follow.checkpoint",
            ],
        ),
        (
            words(&format!("read {log} --behavior -q -l {out} --append")),
            vec![
                "alerts.json",
                "alerts.log",
                "profiles.sqlite",
                "profiles.sqlite-journal",
                "run.json",
            ],
        ),
        (
            words(&format!("read {demo} -S {rules} -q --report {}", at("page.html"))),
            vec!["page.html"],
        ),
        (
            words(&format!("read {demo} -S {rules} -q --alert-pcap {}", at("alerts.pcap"))),
            vec!["alerts.pcap"],
        ),
        (words(&format!("suricata -r {demo} -S {rules} -l {out}")), vec!["eve.json", "fast.log"]),
    ]
}

#[test]
fn links_of_others_are_refused_and_one_s_own_are_followed() {
    let places = Places::new();
    let log = places.dir.path().join("conn.log");
    let line = "{\"ts\":1.5,\"uid\":\"C1\",\"id.orig_h\":\"10.0.0.1\",\"id.orig_p\":1,\
                \"id.resp_h\":\"1.2.3.4\",\"id.resp_p\":4444,\"proto\":\"tcp\",\"conn_state\":\"SF\"}\n";
    std::fs::write(&log, line).unwrap();
    let log = log.display().to_string();
    let count = runs(Path::new(""), &log).len();
    for n in 0..count {
        let names = runs(Path::new(""), &log)[n].1.clone();
        for name in names {
            for is_symbolic in [true, false] {
                let folder = places.shared();
                let link = folder.join(name);
                if is_symbolic {
                    symlink(&places.victim, &link).unwrap()
                } else {
                    std::fs::hard_link(&places.victim, &link).unwrap()
                }
                let args = runs(&folder, &log)[n].0.clone();
                let args: Vec<&str> = args.iter().map(String::as_str).collect();
                let done = gabion(&args);
                let code = if args[0] == "suricata" { 1 } else { 4 };
                assert!(places.is_untouched(), "{args:?} {name}");
                assert_eq!(done.code, code, "{args:?} {name} {}", done.err);
                assert!(done.err.contains("link in a folder that others may"), "{}", done.err);
                // It is neither followed nor replaced.
                use std::os::unix::fs::MetadataExt;
                let left = link.symlink_metadata().unwrap();
                assert!(left.is_symlink() == is_symbolic && (is_symbolic || left.nlink() == 2));
                std::fs::remove_file(link).unwrap();
            }
        }
        // Nothing of all that is refused where nobody has put a link.
        let folder = places.shared();
        let args = runs(&folder, &log)[n].0.clone();
        if args.iter().any(|arg| arg == "--follow") {
            continue; // It would not end.
        }
        let done = gabion(&args.iter().map(String::as_str).collect::<Vec<_>>());
        assert_eq!(done.code, 0, "{args:?} {}", done.err);
    }
    // A folder that is a link somebody else could have made.
    let folder = places.shared();
    symlink(places.dir.path().join("own"), folder.join("out")).unwrap();
    let out = folder.join("out").display().to_string();
    assert_eq!(gabion(&["read", &demo(), "-q", "-l", &out]).code, 4);
    assert_eq!(std::fs::read_dir(places.dir.path().join("own")).unwrap().count(), 0);
    // One's own folder, and standard output by its name.
    let own = places.dir.path().join("own");
    let kept = places.dir.path().join("kept.json");
    symlink(&kept, own.join("eve.json")).unwrap();
    let out = own.display().to_string();
    let summary = places.dir.path().join("summary.json");
    symlink(&summary, own.join("run.json")).unwrap();
    for more in [&[][..], &["--overwrite"]] {
        let done = gabion(&[&["read", &demo(), "-q", "-l", &out], more].concat());
        assert_eq!(done.code, 0, "{}", done.err);
        assert!(program::json_lines(&kept) > 0 && program::json_lines(&summary) == 1);
        assert!(own.join("run.json").is_symlink());
        std::fs::remove_file(&kept).unwrap();
        std::fs::write(&kept, "").unwrap();
    }
    let done = gabion(&["read", &demo(), "-q", "--report", "/dev/stdout"]);
    assert!(done.code == 0 && done.out.contains("<html"), "{}", done.err);
}
