//! Names of files with any bytes, folders that are run as what they are, and the version.

mod program;

use program::{command, demo, gabion, ran, repository};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::process::Command;

/// All front doors that take a name open it whatever its bytes are.
#[test]
fn names_that_are_not_utf8_are_opened() {
    let dir = tempfile::tempdir().unwrap();
    let named = |ending: &str| {
        dir.path().join(OsStr::from_bytes(&[b"caf\xe9", ending.as_bytes()].concat()))
    };
    let (capture, rules, out) = (named(".pcap"), named(".rules"), named(".out"));
    std::fs::copy(demo(), &capture).unwrap();
    std::fs::copy(repository("demo/gabion.rules"), &rules).unwrap();
    let mut read = command(&["read", "-q"]);
    read.arg(&capture).arg("-S").arg(&rules).arg("-l").arg(&out);
    let r = ran(read.output().unwrap());
    assert_eq!(r.code, 0, "{}", r.err);
    let alerts = std::fs::read(out.join("fast.log")).unwrap();
    assert!(!alerts.is_empty());

    let (second, yaml, pid) = (named(".2"), named(".yaml"), named(".pid"));
    std::fs::create_dir(&second).unwrap();
    let text = "%YAML 1.1\n---\noutputs: [{fast: {enabled: yes, filename: fast.log}}]\n";
    let vars = "vars: {address-groups: {HOME_NET: any, EXTERNAL_NET: any}, port-groups: {HTTP_PORTS: 80}}\n";
    std::fs::write(&yaml, format!("{text}{vars}")).unwrap();
    let mut suricata = command(&["suricata"]);
    suricata.arg("-r").arg(&capture).arg("-S").arg(&rules).arg("-l").arg(&second);
    suricata.arg("-c").arg(&yaml).arg("--pidfile").arg(&pid);
    let r = ran(suricata.output().unwrap());
    assert_eq!(r.code, 0, "{}{}", r.out, r.err);
    assert!(!std::fs::read(second.join("fast.log")).unwrap().is_empty());

    let mut check = command(&["rules", "check"]);
    let r = ran(check.arg(&rules).output().unwrap());
    assert!(r.out.contains("rules loaded from 1 files"), "{}{}", r.out, r.err);
    // An argument that must be text is refused with this reason.
    let mut mode = command(&["suricata", "--runmode"]);
    let r = ran(mode.arg(OsStr::from_bytes(b"caf\xe9")).output().unwrap());
    assert_eq!(r.code, 1, "{}", r.err);
    assert!(r.err.contains("--runmode") && r.err.contains("UTF-8"), "{}", r.err);
}

/// A folder of Zeek's logs is not a folder of captures without any.
#[test]
fn a_folder_of_logs_is_read_as_one() {
    let dir = tempfile::tempdir().unwrap();
    let logs = dir.path().join("zeek");
    std::fs::create_dir(&logs).unwrap();
    let mut text = "#separator \\x09\n#set_separator\t,\n#path\tconn\n#fields\tts\tuid\tid.orig_h\tid.orig_p\tid.resp_h\tid.resp_p\tproto\tservice\tduration\torig_bytes\tresp_bytes\tconn_state\n".to_owned();
    for n in 0..40 {
        text += &format!(
            "{}.0\tC{n}\t10.0.0.1\t{}\t192.0.2.7\t{}\ttcp\t-\t-\t0\t0\tREJ\n",
            1_700_000_000 + n,
            40_000 + n,
            1 + n
        );
    }
    std::fs::write(logs.join("conn.log"), text).unwrap();
    std::fs::write(logs.join("README"), "what this is").unwrap();
    let run = |more: &[&str], out: &str| {
        let (folder, out) = (logs.display().to_string(), dir.path().join(out));
        let shown = out.display().to_string();
        let r = gabion(&[&["read", &folder, "-l", &shown], more].concat());
        assert_eq!(r.code, 0, "{}", r.err);
        (std::fs::read_to_string(out.join("alerts.json")).unwrap(), r.err)
    };
    let (detected, said) = run(&[], "a");
    let (as_asked, quiet) = run(&["--behavior"], "b");
    assert!(detected.contains("PORT_SCAN"), "{detected}");
    assert_eq!(detected.lines().count(), as_asked.lines().count());
    assert_eq!(said.matches("read as with --behavior").count(), 1, "{said}");
    assert!(!quiet.contains("read as with"), "{quiet}");
    // Rules are for packets.
    let (folder, rules) = (logs.display().to_string(), repository("demo/gabion.rules"));
    let r = gabion(&["read", "-q", &folder, "-S", &rules.display().to_string()]);
    r.refuses(2, &["--rules"]);
    // With a capture in the same folder, the run is one of captures.
    std::fs::copy(demo(), logs.join("demo.pcap")).unwrap();
    let r = gabion(&["read", &folder, "--json"]);
    assert_eq!(r.code, 0, "{}", r.err);
    assert!(r.out.contains("\"packets\":1264"), "{}", r.out);
}

/// The commit is named where the sources are a work tree of git, and only there.
#[test]
fn the_version_names_the_commit() {
    let git = |args: &[&str]| {
        let mut git = Command::new("git");
        let ran = git.current_dir(repository("")).args(args).output().ok()?;
        let text = String::from_utf8_lossy(&ran.stdout).trim().to_owned();
        ran.status.success().then_some(text)
    };
    let r = gabion(&["--version"]);
    let is_own = git(&["rev-parse", "--show-cdup"]).is_some_and(|up| up.is_empty());
    // The commit that the build of this test got: another one may have been checked out since.
    let expected = env!("GABION_BUILT_FROM");
    let is_given = option_env!("GABION_COMMIT").is_some_and(|given| !given.is_empty());
    if is_own && !is_given {
        let commit = expected.strip_prefix(" (").and_then(|text| text.strip_suffix(')'));
        let commit = commit.unwrap_or_else(|| panic!("no commit in {expected:?}"));
        assert!(commit.len() >= 12, "{commit}");
        let kind = git(&["cat-file", "-t", commit]);
        assert_eq!(kind.as_deref(), Some("commit"), "{commit}");
    } else if !is_given {
        assert_eq!(expected, "");
    }
    assert_eq!(r.out.trim(), format!("gabion {}{expected}", env!("CARGO_PKG_VERSION")));
    let r = gabion(&["suricata", "--build-info"]);
    assert!(
        r.out.contains(&format!("Gabion {}{expected}:", env!("CARGO_PKG_VERSION"))),
        "{}",
        r.out
    );
}
