//! What Falco's shipped rules forbid is done in a place of its own, recorded, and replayed with these rules: each alert
//! has the process, the parent and the file that did it.

mod shipped_rules;

use gabion_condition::format::Format;
use gabion_condition::rules::{Matching, RuleMatcher, RuleSet};
use gabion_kernel_tests::{Program, live};
use gabion_probe::host::{self, Before};
use gabion_probe::syscalls::{Interest, Session, Settings};
use gabion_record::budget::Budget;
use gabion_record::fields::Scratch;
use gabion_scap::{Item, Merger, Reader, Writer};
use gabion_syscall::{Options, State};
use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::Stdio;

const NEEDED: &[&str] = &["programs", "btf", "sys_exit", "sys_enter"];
/// Rules that alert with the right process, parent and file, of those below. The count only rises.
const FLOOR: usize = 72;

/// A rule, and the scene that breaks it.
struct Scene {
    rule: &'static str,
    /// The line for `programs/forbidden.c`: flags, parent, process, arguments.
    line: String,
    parent: &'static str,
    process: &'static str,
    /// What the file's name or the call's arguments contain.
    file: String,
}

/// The scenes of `programs/forbidden.tsv`. First comes the one that waits for 5 s.
fn scenes() -> Vec<Scene> {
    let text = include_str!("../programs/forbidden.tsv");
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    let mut scenes: Vec<Scene> = lines
        .map(|line| {
            let fields: Vec<&str> = line.split('\t').collect();
            let [rule, flags, parent, process, file, arguments @ ..] = fields.as_slice() else {
                panic!("{line}: a scene has five fields and more");
            };
            let mut played = vec![*flags, *parent, *process];
            played.extend_from_slice(arguments);
            Scene {
                rule,
                line: at_home(&played.join("\t")),
                parent,
                process: process.rsplit('/').next().unwrap_or(process),
                file: at_home(file.trim_start_matches('-')),
            }
        })
        .collect();
    scenes.sort_by_key(|scene| !scene.line.contains("late-read"));
    scenes
}

/// The folder of root for `~`.
fn at_home(text: &str) -> String {
    text.replace('~', "/root")
}

/// A control group whose name is that of a container; it is removed again.
struct Container(PathBuf);

impl Container {
    fn new(test: &str) -> Option<Container> {
        let name = format!("docker-{:064x}.scope", std::process::id());
        for base in ["/sys/fs/cgroup/memory", "/sys/fs/cgroup/cpuset", "/sys/fs/cgroup"] {
            let folder = Path::new(base).join(&name);
            if std::fs::create_dir(&folder).is_ok() {
                if folder.join("cgroup.procs").exists() {
                    return Some(Container(folder));
                }
                let _ = std::fs::remove_dir(&folder);
            }
        }
        eprintln!("skipped: {test}: no control group can be made");
        None
    }
}

impl Drop for Container {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir(&self.0);
    }
}

/// Plays the scenes and records every call meanwhile, as a scap file.
fn recorded(program: &Program, container: &Container, scenes: &[Scene]) -> Vec<u8> {
    let mut command = program.command("stage");
    command.arg(container.0.join("cgroup.procs"));
    let mut child =
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("the program starts");
    let mut ready = String::new();
    BufReader::new(child.stdout.take().expect("it has an output"))
        .read_line(&mut ready)
        .expect("it is text");
    let place = ready.strip_prefix("ready ").expect("the place is made").trim().to_owned();
    let settings = Settings { ring_bytes: 32 << 20, ..Settings::new(Interest::all()) };
    let mut session = Session::start(&settings).expect("it is here");
    let mut writer = Writer::new(Vec::new());
    writer.section().expect("memory");
    host::read_host(Path::new("/"), &mut |before| {
        let item = match before {
            Before::Machine(machine) => Item::Machine(machine),
            Before::Thread(entry) => Item::Process(entry),
            Before::Fd(entry) => Item::Fd(entry),
            Before::Interface(entry) => Item::Interface(entry),
            Before::User(entry) => Item::User(entry),
        };
        writer.write(&item).expect("memory");
    });
    let mut input = child.stdin.take().expect("it has an input");
    let lines: Vec<String> = scenes.iter().map(|scene| scene.line.clone()).collect();
    let player = std::thread::spawn(move || {
        for line in lines {
            writeln!(input, "{line}").expect("the program reads");
        }
    });
    let status = loop {
        let events = session.poll(&mut |call| writer.event(&call.event).expect("memory"));
        if events == 0 {
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
        if let Some(status) = child.try_wait().expect("it is our child") {
            break status;
        }
    };
    while session.poll(&mut |call| writer.event(&call.event).expect("memory")) > 0 {}
    player.join().expect("all scenes are written");
    let _ = std::fs::remove_dir(place);
    assert!(status.success(), "{status}");
    let total = session.counts().total();
    assert_eq!(total.received, total.passed, "nothing is shed: {:?}", session.counts());
    writer.finish().expect("memory")
}

/// An alert: rule, process, parent, and the texts in which the file stands.
type Alert = (String, String, String, String);

fn alerts(recording: Vec<u8>, rules: &RuleSet) -> BTreeSet<Alert> {
    let format = Format::new("%proc.name\t%proc.pname\t%fd.name %evt.args").expect("it is right");
    let mut state = State::new(Options::default(), Budget::standalone("threads", 256 << 20));
    let (mut matcher, mut matched) = (RuleMatcher::new(rules), Vec::new());
    let (mut scratch, mut out) = (Scratch::new(), Vec::new());
    let mut reader = Reader::new(std::io::Cursor::new(recording)).expect("we wrote it");
    let (mut merger, mut found) = (Merger::new(), BTreeSet::new());
    while let Some(item) = reader.next_item().expect("we wrote it") {
        let Item::Event(event) = item else {
            state.add(item);
            continue;
        };
        let Some(event) = merger.merge(&event) else { continue };
        state.apply(&event);
        if !state.is_for_rules() {
            continue;
        }
        let view = state.view(&event);
        matcher.matches(rules, &view, Matching::All, &mut matched);
        for rule in matched.iter().filter_map(|number| rules.rules().get(*number as usize)) {
            out.clear();
            format.write(&view, &mut scratch, &mut out);
            let text = String::from_utf8_lossy(&out).into_owned();
            let mut parts = text.splitn(3, '\t').map(str::to_owned);
            let mut next = || parts.next().unwrap_or_default();
            found.insert((rule.name.clone(), next(), next(), next()));
        }
    }
    found
}

#[test]
fn what_shipped_rules_forbid_is_found_with_its_process_parent_and_file() {
    let name = "what_shipped_rules_forbid_is_found_with_its_process_parent_and_file";
    let Some(folder) = gabion_corpus::find(name, "falco-rules") else { return };
    let Some(_guard) = live(name, NEEDED) else { return };
    let Some(program) = Program::built_static("forbidden", name) else { return };
    let Some(container) = Container::new(name) else { return };
    let rules = shipped_rules::load(&folder);
    assert_eq!(rules.enabled(), 81);
    let scenes = scenes();
    let found = alerts(recorded(&program, &container, &scenes), &rules);
    let mut right = 0;
    for scene in &scenes {
        assert!(rules.rules().iter().any(|r| r.name == scene.rule), "{}: no such rule", scene.rule);
        // A program that runs from memory has the number of its descriptor as name.
        let is_its = |alert: &&Alert| {
            alert.0 == scene.rule
                && (alert.1 == scene.process || scene.process == "ghost")
                && alert.2 == scene.parent
                && alert.3.contains(&scene.file)
        };
        if found.iter().any(|alert| is_its(&alert)) {
            right += 1;
            continue;
        }
        let others: Vec<_> = found.iter().filter(|alert| alert.0 == scene.rule).take(2).collect();
        println!("{}: {:?}, {:?}: instead {others:?}", scene.rule, scene.line, scene.file);
    }
    println!("{right} of {} rules alert with the right process, parent and file", scenes.len());
    assert!(right >= FLOOR, "{right} of {}", scenes.len());
}
