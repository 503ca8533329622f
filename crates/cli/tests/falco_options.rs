//! Falco's options that print something and end, options that Falco has removed, and captures that are none.

mod program;

use program::gabion;
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::Stdio;
use std::sync::mpsc::channel;
use std::time::Duration;

fn rules(folder: &Path) -> String {
    let path = folder.join("rules.yaml");
    let text = "- rule: closed\n  desc: a descriptor was closed\n  condition: evt.type=close\n  output: closed %fd.num\n  \
                priority: NOTICE\n";
    fs::write(&path, text).unwrap();
    path.display().to_string()
}

#[test]
fn removed_options_are_refused_with_what_replaces_them() {
    for (option, instead) in [
        ("-A", "base_syscalls.all=true"),
        ("-D", "rules[].disable.rule="),
        ("-t", "rules[].disable.tag="),
        ("-T", "rules[].enable.tag="),
        ("-e", "engine.replay.capture_file="),
        ("-u", "no longer exist"),
        ("-k", "is not asked"),
        ("-m", "is not asked"),
        ("--cri", "control groups"),
    ] {
        let joined = if option.len() == 2 { format!("{option}x") } else { format!("{option}=x") };
        for args in [&["falco", option, "x"][..], &["falco", &joined]] {
            let ran = gabion(args);
            let words = format!("option {option} was removed from Falco");
            assert!(ran.err.contains(&words) && ran.err.contains(instead), "{args:?}: {}", ran.err);
            assert_eq!((ran.code, ran.err.lines().count()), (1, 1), "{args:?}: {}", ran.err);
        }
    }
    let ran = gabion(&["falco", "--nosuch"]);
    assert!(ran.code == 1 && ran.err.contains("'--nosuch' does not exist"), "{}", ran.err);
}

#[test]
fn what_is_removed_from_falco_is_named_once_in_its_configuration() {
    let folder = tempfile::tempdir().unwrap();
    let config = folder.path().join("falco.yaml");
    let text = "grpc:\n  enabled: true\ngrpc_output:\n  enabled: true\nno_such_key: 1\nengine:\n  kind: nodriver\n";
    fs::write(&config, text).unwrap();
    let (config, rules) = (config.display().to_string(), rules(folder.path()));
    let ran = gabion(&["falco", "-c", &config, "-r", &rules, "--dry-run"]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    for key in ["grpc: ", "grpc_output: ", "no_such_key: "] {
        let lines = ran.err.lines().filter(|line| line.contains(&format!("Warning: {key}")));
        assert_eq!(lines.count(), 1, "{key}: {}", ran.err);
    }
    let ran = gabion(&["falco", "-c", &config, "-r", &rules, "-o", "engine.kind=gvisor"]);
    assert!(ran.code == 1 && ran.err.contains("'gvisor'"), "{}", ran.err);
    assert_eq!(ran.err.lines().count(), 1, "{}", ran.err);
}

#[test]
fn lists_have_every_event_field_and_rule() {
    let events = gabion(&["falco", "--list-events"]).out;
    assert_eq!(events.lines().count(), gabion_scap::table::event_types().len() + 1);
    assert!(events.contains("\n< execve(") && events.contains("\n> open("), "{events}");
    let names = gabion(&["falco", "--list", "-N"]).out;
    assert!(names.lines().count() >= 293 && names.lines().any(|name| name == "k8s.ns.name"));
    let calls = gabion(&["falco", "-i"]).out;
    assert!(calls.starts_with("Ignored syscall(s):\n- ") && calls.contains("- write\n"), "{calls}");
    for schema in ["--config-schema", "--rule-schema"] {
        let ran = gabion(&["falco", schema]);
        let json: serde_json::Value = serde_json::from_str(&ran.out).unwrap();
        assert!(ran.code == 0 && json["type"].is_string(), "{schema}");
    }
    for args in [&["falco", "--list-events", "--format", "json"][..], &["falco", "--support"]] {
        let ran = gabion(args);
        let json: Result<serde_json::Value, _> = serde_json::from_str(&ran.out);
        assert!(ran.code == 0 && json.is_ok_and(|json| json.is_object()), "{args:?}");
    }
    let size = gabion(&["falco", "--page-size"]).out;
    assert!(size.contains("page size is"), "{size}");
    let folder = tempfile::tempdir().unwrap();
    let rules = rules(folder.path());
    let one = gabion(&["falco", "-l", "closed", "-r", &rules]);
    assert!(
        one.code == 0 && one.out.contains("a descriptor was closed"),
        "{} {}",
        one.out,
        one.err
    );
    assert_ne!(gabion(&["falco", "-l", "no such rule", "-r", &rules]).code, 0);
}

#[test]
fn the_number_of_the_process_is_in_its_file_and_text_is_added_to_outputs() {
    let folder = tempfile::tempdir().unwrap();
    let rules = rules(folder.path());
    let file = folder.path().join("falco.pid");
    let shown = file.display().to_string();
    let args = ["falco", "-r", &rules, "-P", &shown, "-M", "1", "-o", "engine.kind=nodriver"];
    let child = program::command(&args).spawn().unwrap();
    let number = child.id().to_string();
    let ran = program::ran(child.wait_with_output().unwrap());
    assert_eq!(ran.code, 0, "{}", ran.err);
    assert_eq!(fs::read_to_string(&file).unwrap().trim(), number);
    let capture = program::repository("demo/demo.scap").display().to_string();
    let input = format!("engine.replay.capture_file={capture}");
    let ran = gabion(&[
        "falco",
        "-r",
        &rules,
        "-o",
        "engine.kind=replay",
        "-o",
        &input,
        "-p",
        "added %evt.type",
    ]);
    assert!(ran.out.contains(" added close\n"), "{}", ran.out);
    assert_eq!(ran.err.lines().filter(|line| line.contains("-p is deprecated")).count(), 1);
}

/// What is no capture of system calls is refused in one line, with the code of Falco's errors.
#[test]
fn captures_that_are_none_are_refused_in_a_line() {
    let folder = tempfile::tempdir().unwrap();
    let rules = rules(folder.path());
    let text = folder.path().join("text.scap");
    fs::write(&text, "no capture at all, but long enough to be read").unwrap();
    let missing = folder.path().join("missing.scap");
    for (file, words) in [
        (text.display().to_string(), "invalid magic number"),
        (program::demo(), "invalid magic number"),
        (missing.display().to_string(), "No such file"),
        (folder.path().display().to_string(), "Is a directory"),
    ] {
        let input = format!("engine.replay.capture_file={file}");
        let ran = gabion(&["falco", "-r", &rules, "-o", "engine.kind=replay", "-o", &input]);
        let lines = ran.err.lines().filter(|line| !line.starts_with("Loaded "));
        let lines: Vec<&str> = lines.collect();
        assert_eq!((ran.code, lines.len()), (1, 1), "{file}: {}", ran.err);
        assert!(lines[0].starts_with("Error: ") && lines[0].contains(words), "{}", ran.err);
    }
}

/// Files of the configuration and rules are watched, and so are the folders that hold them: a file that comes is read.
#[test]
fn files_that_come_into_folders_are_read() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    for name in ["rules", "more"] {
        fs::create_dir(at(name)).unwrap();
    }
    let first = rules(&at("rules"));
    let config = at("falco.yaml");
    let (rules, more) = (at("rules").display().to_string(), at("more").display().to_string());
    let text =
        format!("engine:\n  kind: nodriver\nrules_files: [{rules}]\nconfig_files: [{more}]\n");
    fs::write(&config, text).unwrap();
    let mut command = program::command(&["falco", "-c", &config.display().to_string()]);
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let errors = BufReader::new(child.stderr.take().unwrap());
    let (to, lines) = channel();
    std::thread::spawn(move || {
        for line in errors.lines().map_while(Result::ok) {
            let _ = to.send(line);
        }
    });
    let mut seen = Vec::new();
    let mut await_line = |text: &str| {
        loop {
            match lines.recv_timeout(Duration::from_secs(60)) {
                Ok(line) if line == text => return true,
                Ok(line) => seen.push(line),
                Err(_) => {
                    eprintln!("no line {text:?} after {seen:?}");
                    return false;
                }
            }
        }
    };
    let mut are_read = await_line("Loaded 1 rules");
    // The watcher begins when the rules are there.
    std::thread::sleep(Duration::from_millis(500));
    let second = fs::read_to_string(&first).unwrap().replace("rule: closed", "rule: second");
    fs::write(at("rules/second.yaml"), second).unwrap();
    are_read = are_read && await_line("Loaded 2 rules");
    fs::write(at("more/priority.yaml"), "priority: warning\n").unwrap();
    are_read = are_read && await_line("Loaded 0 rules");
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(are_read);
}
