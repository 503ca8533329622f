//! Which outputs a run may have.

use super::*;
use crate::arguments::parse_arguments;
use crate::command_line::Verb;
use std::ffi::OsString;

#[test]
fn a_run_over_interfaces_adds_to_what_it_wrote_before_it_was_killed() {
    let folder = tempfile::tempdir().unwrap();
    let eve = folder.path().join("eve.json");
    std::fs::write(&eve, "{}\n").unwrap();
    let log = folder.path().display().to_string();
    let decided = |args: &[&str]| {
        let args: Vec<OsString> = args.iter().map(OsString::from).collect();
        let Verb::Read(options) = parse_arguments(&args).unwrap().verb else { panic!() };
        outputs(&options, std::slice::from_ref(&eve)).ok()
    };
    let live = ["gabion", "read", "--interface", "eth0", "-l", &log];
    assert_eq!(decided(&live), Some(Existing::Append));
    assert_eq!(decided(&[&live[..], &["--overwrite"]].concat()), Some(Existing::Truncate));
    assert_eq!(decided(&["gabion", "read", "a.pcap", "-l", &log]), None);
}

/// Files of a run, each with content, and how `read` refuses arguments that name them; `None` where it takes them.
/// What is refused changes none of them.
fn refusal(args: &str) -> Option<String> {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    for sub in ["in", "out", "log", "log.state"] {
        std::fs::create_dir(at(sub)).unwrap();
    }
    for name in ["a.pcap", "r.rules", "c.yaml", "in/b.pcap", "in/page.html", "log/seg"] {
        std::fs::write(at(name), name).unwrap();
    }
    std::os::unix::fs::symlink("a.pcap", at("link")).unwrap();
    let root = folder.path().display().to_string();
    let args = args.replace('@', &format!("{root}/"));
    let args: Vec<OsString> =
        ["gabion", "read"].into_iter().chain(args.split(' ')).map(Into::into).collect();
    let Verb::Read(options) = parse_arguments(&args).unwrap().verb else { panic!() };
    let files = options.log_dir.as_deref().map(|dir| dir.join("eve.json"));
    let refused = outputs(&options, files.as_slice()).err()?;
    for name in ["a.pcap", "r.rules", "c.yaml", "in/b.pcap", "log/seg"] {
        assert_eq!(std::fs::read_to_string(at(name)).unwrap(), name);
    }
    Some(refused.to_string().replace(&root, ""))
}

#[test]
fn outputs_that_would_destroy_inputs_or_each_other_are_refused() {
    for (args, refused) in [
        ("@a.pcap --report @a.pcap", Some("/a.pcap: is read by this run")),
        ("@a.pcap --report @link", Some("/link: is read by this run")),
        ("@a.pcap --alert-pcap @a.pcap", Some("/a.pcap: is read by this run")),
        ("@link --alert-pcap @a.pcap", Some("/a.pcap: is read by this run")),
        ("@a.pcap --rules @r.rules --report @r.rules", Some("/r.rules: is read by this run")),
        ("@a.pcap -c @c.yaml --report @c.yaml", Some("/c.yaml: is read by this run")),
        ("@in --report @in/b.pcap", Some("/in/b.pcap: is read by this run")),
        ("@in --report @in/page.html", None),
        ("@a.pcap -l @out --report @out/eve.json", Some("/out/eve.json: is another output")),
        ("@a.pcap -l @out --alert-pcap @out/run.json", Some("/out/run.json: is another output")),
        ("@a.pcap -l @out --report @out/page.html --alert-pcap @out/b.pcap", None),
        ("@a.pcap --report @same --alert-pcap @same", Some("/same: is another output")),
        ("@a.pcap --seal @log --report @log/seg", Some("/log/seg: belongs to the sealed log")),
        ("@a.pcap --seal @log --report @log.state/x", Some("/log.state/x: belongs to the sealed")),
        ("@a.pcap --report /dev/null --alert-pcap /dev/null", None),
    ] {
        let found = refusal(args);
        match refused {
            Some(refused) => {
                let found = found.unwrap_or_else(|| panic!("{args}: not refused"));
                assert!(found.contains(refused), "{args}: {found}");
            }
            None => assert_eq!(found, None, "{args}"),
        }
    }
}
