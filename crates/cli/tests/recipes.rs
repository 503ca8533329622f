//! The recipes of `docs/recipes.md`, taken out of that page and run with the programs they are for: rsyslog, syslog-ng,
//! systemd's journal programs, openssl. One whose program is not here is skipped by name.
#![allow(
    clippy::disallowed_methods,
    reason = "processes live by the clock; this is the program's edge"
)]

#[path = "intake/mod.rs"]
mod intake;

use intake::{Certificates, GABION, Server};
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Folders that the page names.
const FOLDERS: &[&str] =
    &["/var/lib/", "/var/log/", "/etc/gabion/", "/etc/rsyslog.d/", "/etc/syslog-ng/", "/srv/"];

/// A block of the page, by the two words after its fence.
fn block(words: &str) -> String {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/recipes.md");
    let page = std::fs::read_to_string(page).expect("the page");
    let (_, behind) = page.split_once(&format!("```{words}\n")).expect("the block is there");
    behind.split_once("\n```").expect("it ends").0.to_owned() + "\n"
}

/// The block with folders below `root` and a name that leads here.
fn local(words: &str, root: &Path) -> String {
    let mut text = block(words).replace("logs.example.net", "localhost");
    for folder in FOLDERS {
        let below = format!("{}{folder}", root.display());
        std::fs::create_dir_all(&below).expect("a folder");
        text = text.replace(folder, &below);
    }
    text
}

/// Runs the lines of a block; those for the service manager are given to `service`.
fn run(text: &str, root: &Path, mut service: impl FnMut(&str)) {
    let programs = Path::new(GABION).parent().expect("a folder").display().to_string();
    let path = format!("{programs}:{}", std::env::var("PATH").expect("a path"));
    for line in text.lines() {
        if let Some(what) = line.strip_prefix("systemctl ") {
            service(what);
            continue;
        }
        let done = Command::new("sh")
            .args(["-ec", line])
            .env("PATH", &path)
            .current_dir(root)
            .output()
            .expect("a shell");
        let said = [done.stdout, done.stderr].concat();
        assert!(done.status.success(), "{line}: {}", String::from_utf8_lossy(&said));
    }
}

/// A program of this machine.
fn find(name: &str) -> Option<PathBuf> {
    let mut places = ["/usr/sbin", "/lib/systemd", "/usr/lib/systemd"].map(PathBuf::from).to_vec();
    places.extend(std::env::split_paths(&std::env::var_os("PATH")?));
    places.into_iter().map(|p| p.join(name)).find(|p| p.is_file())
}

/// syslog-ng, which can't be installed together with rsyslog: from the folder into which `scripts/log_servers.sh` unpacked it, or from
/// this machine.
fn find_syslog_ng() -> Option<PathBuf> {
    let target = Path::new(GABION).parent()?.parent()?;
    let unpacked = target.join("log-servers/usr/sbin/syslog-ng");
    if unpacked.is_file() { Some(unpacked) } else { find("syslog-ng") }
}

fn skipped(test: &str, why: &str) {
    eprintln!("{test}: skipped: {why}");
}

/// Waits for what must come; 30 seconds are much more than it takes.
#[track_caller]
fn wait_for(what: &str, mut is_there: impl FnMut() -> bool) {
    let until = Instant::now() + Duration::from_secs(30);
    while !is_there() {
        assert!(Instant::now() < until, "waited in vain for {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// A process that ends with the test.
struct Running(Child);

impl Running {
    fn start(command: &mut Command) -> Running {
        let quiet = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        Running(quiet.spawn().expect("the program"))
    }

    fn stop(&mut self) {
        let pid = self.0.id().to_string();
        let _ = Command::new("kill").args(["-TERM", &pid]).status();
        let _ = self.0.wait();
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The records of a log with this text, as `log show` prints them.
fn shown(log: &Path, key: &Path, text: &str) -> Vec<serde_json::Value> {
    let done = Command::new(GABION)
        .args(["log", "show", "--kind", "message", "--grep", text, "--key"])
        .args([key, log])
        .output()
        .expect("the program");
    let lines = String::from_utf8_lossy(&done.stdout).into_owned();
    lines.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
}

/// A listener by the page's line, its certificates, and what belongs to them.
struct Listener {
    server: Server,
    certificates: Certificates,
    folder: tempfile::TempDir,
}

impl Listener {
    /// None without openssl.
    fn start() -> Option<Listener> {
        let folder = tempfile::tempdir().expect("a folder");
        let root = folder.path();
        let certificates = Certificates::new(root)?;
        let line = local("sh listen", root);
        for (from, name) in
            [(&certificates.server.0, "tls.pem"), (&certificates.server.1, "tls.key")]
        {
            std::fs::copy(from, root.join("etc/gabion").join(name)).expect("copied");
        }
        for place in ["etc/rsyslog.d", "etc/syslog-ng"] {
            let to = root.join(place).join("gabion-ca.pem");
            std::fs::copy(&certificates.authority, to).expect("copied");
        }
        // Log and reader are the server's own here, and ports are free ones.
        let words: Vec<&str> = line.split_whitespace().skip(2).collect();
        let mut options = Vec::new();
        for pair in words.chunks(2) {
            match pair[0] {
                "--log" | "--state" | "--recipient" => {}
                option => {
                    options.extend([option.to_owned(), pair[1].replace("0.0.0.0:", "127.0.0.1:0#")])
                }
            }
        }
        for option in &mut options {
            if let Some(at) = option.find('#') {
                option.truncate(at);
            }
        }
        let options: Vec<&str> = options.iter().map(String::as_str).collect();
        Some(Listener { server: Server::start(&options), certificates, folder })
    }

    fn root(&self) -> &Path {
        self.folder.path()
    }

    fn shown(&self, text: &str) -> Vec<serde_json::Value> {
        let folder = self.server.folder.as_ref().expect("running").path();
        shown(&folder.join("log"), &folder.join("reader"), text)
    }

    /// The block with the ports of this listener.
    fn local(&self, words: &str) -> String {
        let mut text = local(words, self.root());
        for (port, kind) in [("2514", "relp"), ("1514", "tcp"), ("6514", "tls")] {
            text = text.replace(port, &self.server.address(kind).port().to_string());
        }
        text
    }

    /// Sends to a program that takes local messages at `root/in`, until one of them is sealed here.
    fn arrives(&self, test: &str) {
        let socket = self.root().join("in");
        wait_for("the program's socket", || {
            UnixDatagram::unbound()
                .and_then(|s| {
                    s.send_to(format!("<13>Oct 11 22:14:15 app[7]: by {test}").as_bytes(), &socket)
                })
                .is_ok()
        });
        let mut rows = Vec::new();
        wait_for("the message in the log", || {
            rows = self.shown(&format!("by {test}"));
            !rows.is_empty()
        });
        assert_eq!((&rows[0]["app"], &rows[0]["pid"]), (&"app".into(), &"7".into()), "{rows:?}");
    }
}

fn rsyslog(test: &str, module: &str, words: &str) {
    let Some(program) = find("rsyslogd") else {
        return skipped(test, "no rsyslogd");
    };
    if !Path::new("/usr/lib/x86_64-linux-gnu/rsyslog").join(module).exists() {
        return skipped(test, &format!("rsyslogd has no {module}"));
    }
    let Some(listener) = Listener::start() else { return skipped(test, "no openssl") };
    let root = listener.root();
    let own = format!(
        "global(workDirectory=\"{0}\")\nmodule(load=\"imuxsock\" SysSock.Use=\"off\")\n\
         input(type=\"imuxsock\" Socket=\"{0}/in\")\n",
        root.display()
    );
    std::fs::write(root.join("conf"), own + &listener.local(words)).expect("written");
    let mut command = Command::new(program);
    command.arg("-n").arg("-f").arg(root.join("conf")).arg("-i").arg(root.join("pid"));
    let mut running = Running::start(&mut command);
    listener.arrives(test);
    running.stop();
}

#[test]
fn rsyslog_over_relp() {
    rsyslog("rsyslog_over_relp", "omrelp.so", "rsyslog relp");
}

#[test]
fn rsyslog_over_tls() {
    rsyslog("rsyslog_over_tls", "lmnsd_gtls.so", "rsyslog tls");
}

fn syslog_ng(test: &str, words: &str) {
    let Some(program) = find_syslog_ng() else {
        return skipped(
            test,
            "no syslog-ng (scripts/log_servers.sh TARGET/log-servers unpacks it)",
        );
    };
    let Some(listener) = Listener::start() else { return skipped(test, "no openssl") };
    let root = listener.root();
    let own =
        format!("@version: 3.35\nsource s_src {{ unix-dgram(\"{}/in\"); }};\n", root.display());
    std::fs::write(root.join("conf"), own + &listener.local(words)).expect("written");
    let mut command = Command::new(&program);
    command.args(["-F", "--no-caps", "-f"]).arg(root.join("conf"));
    for (option, name) in [("-R", "persist"), ("-p", "pid"), ("-c", "control")] {
        command.arg(option).arg(root.join(name));
    }
    // Unpacked, not installed: modules and libraries are in the same folder tree.
    let unpacked = program.ancestors().nth(3).expect("a folder");
    let libraries =
        ["usr/lib/x86_64-linux-gnu", "usr/lib", "lib/x86_64-linux-gnu", "usr/lib/syslog-ng"]
            .map(|l| unpacked.join(l));
    let modules = std::fs::read_dir(unpacked.join("usr/lib/syslog-ng"))
        .into_iter()
        .flatten()
        .filter_map(|e| e.ok().map(|e| e.path()))
        .chain([unpacked.join("usr/lib/syslog-ng")])
        .find(|d| d.join("libafsocket.so").exists());
    if let (Some(modules), false) = (modules, unpacked == Path::new("/")) {
        command.arg("--module-path").arg(modules);
        let all = libraries.iter().map(|l| l.display().to_string()).collect::<Vec<_>>().join(":");
        command.env("LD_LIBRARY_PATH", all);
    }
    let mut running = Running::start(&mut command);
    listener.arrives(test);
    running.stop();
}

#[test]
fn syslog_ng_over_tcp() {
    syslog_ng("syslog_ng_over_tcp", "syslog-ng tcp");
}

#[test]
fn syslog_ng_over_tls() {
    syslog_ng("syslog_ng_over_tls", "syslog-ng tls");
}

/// A log where the page has it, its reader's key and its public key.
struct Made {
    folder: tempfile::TempDir,
}

impl Made {
    fn new() -> Made {
        let made = Made { folder: tempfile::tempdir().expect("a folder") };
        local("sh listen", made.root());
        let root = made.root().display().to_string();
        let recipients = format!("{root}/etc/gabion/recipients");
        let init = format!(
            "gabion log keygen --out reader\ncp reader/recipient.pub {recipients}\n\
             gabion log init {root}/var/lib/gabion/log --state {root}/var/lib/gabion-signer --origin localhost/log \
             --recipient {recipients} > host.vkey\n"
        );
        run(&init, made.root(), |_| {});
        made
    }

    fn root(&self) -> &Path {
        self.folder.path()
    }

    fn log(&self) -> PathBuf {
        self.root().join("var/lib/gabion/log")
    }

    fn append(&self, log: &str, state: &str, text: &str) {
        let root = self.root().display();
        let line = format!("echo '{text}' | gabion log append {root}{log} --state {root}{state}");
        run(&line, self.root(), |_| {});
    }

    fn shown(&self, log: &str, text: &str) -> usize {
        let log = self.root().join(log.trim_start_matches('/'));
        shown(&log, &self.root().join("reader/recipient.key"), text).len()
    }

    /// `gabion log follow-journal` by the page's line.
    fn follows(&self, words: &str, more: &[&str]) -> Running {
        let line = local(words, self.root());
        let args: Vec<&str> = line.split_whitespace().skip(1).collect();
        Running::start(Command::new(GABION).args(args).args(more))
    }
}

/// A journal's file with one entry in a folder, made by systemd's own program.
fn journal(folder: &Path, text: &str) -> Option<()> {
    std::fs::create_dir_all(folder).ok()?;
    let export = format!(
        "__CURSOR=s=1\n__REALTIME_TIMESTAMP=1700000000000000\n__MONOTONIC_TIMESTAMP=1\n\
         _BOOT_ID=11111111111111111111111111111111\n_MACHINE_ID=22222222222222222222222222222222\n\
         _HOSTNAME=gate\nSYSLOG_IDENTIFIER=app\nPRIORITY=6\nMESSAGE={text}\n\n"
    );
    let input = folder.join("export");
    std::fs::write(&input, export).ok()?;
    let done = Command::new(find("systemd-journal-remote")?)
        .arg("-o")
        .arg(folder.join("remote-gate.journal"))
        .arg(&input)
        .output()
        .ok()?;
    std::fs::remove_file(input).ok()?;
    done.status.success().then_some(())
}

#[test]
fn journals_of_this_host_and_of_others() {
    let test = "journals_of_this_host_and_of_others";
    let made = Made::new();
    let root = made.root();
    let own = root.join("journal");
    if find("journalctl").is_none() || journal(&own, "an entry here").is_none() {
        return skipped(test, "no journalctl or systemd-journal-remote");
    }
    // The journal of the machine may be anybody's; the recipe follows one that the test made.
    let mut follows =
        made.follows("sh journal", &["--", "--directory", &own.display().to_string()]);
    wait_for("the entry in the log", || made.shown("/var/lib/gabion/log", "an entry here") == 1);
    follows.stop();

    // A log of its own: a cursor belongs to one folder of journals.
    let made = Made::new();
    let root = made.root();
    let (Some(upload), Some(remote)) =
        (find("systemd-journal-upload"), find("systemd-journal-remote"))
    else {
        return skipped(test, "no systemd-journal-upload");
    };
    let port = std::net::TcpListener::bind("127.0.0.1:0")
        .and_then(|l| l.local_addr())
        .expect("a port")
        .port();
    let url = local("ini upload", root)
        .replace("19532", &port.to_string())
        .replace("localhost", "127.0.0.1");
    let url = url.lines().find_map(|l| l.strip_prefix("URL=")).expect("a URL").to_owned();
    let into = root.join("var/log/journal/remote");
    std::fs::create_dir_all(&into).expect("a folder");
    let mut receives = Running::start(
        Command::new(remote)
            .arg(format!("--listen-http=127.0.0.1:{port}"))
            .arg("--output")
            .arg(&into),
    );
    wait_for("the receiver", || std::net::TcpStream::connect(("127.0.0.1", port)).is_ok());
    let there = root.join("there");
    journal(&there, "an entry there").expect("as before");
    let state = format!("--save-state={}", root.join("upload.state").display());
    let mut uploads = Running::start(
        Command::new(upload).arg(format!("--url={url}")).arg("--directory").arg(&there).arg(state),
    );
    wait_for("a journal of the other host", || {
        std::fs::read_dir(&into).expect("a folder").next().is_some()
    });
    let mut follows = made.follows("sh remote", &[]);
    wait_for("its entry in the log", || made.shown("/var/lib/gabion/log", "an entry there") == 1);
    for running in [&mut follows, &mut uploads, &mut receives] {
        running.stop();
    }
}

#[test]
fn another_signers_key() {
    let made = Made::new();
    made.append("/var/lib/gabion/log", "/var/lib/gabion-signer", "of the old log");
    let mut services = Vec::new();
    run(&local("sh signer", made.root()), made.root(), |what| services.push(what.to_owned()));
    assert_eq!(services, ["stop gabion-listen", "start gabion-listen"]);
    made.append("/var/lib/gabion/log", "/var/lib/gabion-signer", "of the new log");
    assert_eq!(made.shown("/var/lib/gabion/log.1", "of the old log"), 1);
    assert_eq!(made.shown("/var/lib/gabion/log", "of the new log"), 1);
    // The old one's name and signature are records of the new one.
    assert!(made.shown("/var/lib/gabion/log", "localhost/log") >= 2);
    let root = made.root().display();
    let verify =
        format!("gabion log verify {root}/var/lib/gabion/log.1 --anchor {root}/etc/gabion/anchors");
    run(&verify, made.root(), |_| {});
    let keys = ["log", "log.1"].map(|l| {
        std::fs::read(made.root().join("var/lib/gabion").join(l).join("log.id")).expect("an id")
    });
    assert_ne!(keys[0], keys[1]);
}

#[test]
fn a_log_that_moves() {
    let made = Made::new();
    made.append("/var/lib/gabion/log", "/var/lib/gabion-signer", "before");
    std::fs::create_dir_all(made.root().join("srv/gabion")).expect("a folder");
    run(&local("sh move", made.root()), made.root(), |_| {});
    made.append("/srv/gabion/log", "/srv/gabion/signer", "behind");
    assert_eq!(
        made.shown("/srv/gabion/log", "before") + made.shown("/srv/gabion/log", "behind"),
        2
    );
    let root = made.root().display();
    let verify =
        format!("gabion log verify {root}/srv/gabion/log --anchor {root}/etc/gabion/anchors");
    run(&verify, made.root(), |_| {});
    assert!(!made.root().join("var/lib/gabion-signer").exists());
    assert!(made.log().exists());
}

#[test]
fn another_certificate_of_the_listener() {
    let test = "another_certificate_of_the_listener";
    let Some(listener) = Listener::start() else { return skipped(test, "no openssl") };
    let root = listener.root().to_path_buf();
    let other = Certificates::authority(&root, "other").expect("as before");
    let (pem, key) = Certificates::signed(&root, "other", "next", "localhost").expect("as before");
    std::fs::copy(pem, root.join("new.pem")).expect("copied");
    std::fs::copy(key, root.join("new.key")).expect("copied");
    let before = listener.certificates.authority.clone();
    let sends = |authority: &str, port: u16| {
        let to = format!("localhost:{port}");
        let send = [
            "send",
            "--count",
            "1",
            "--tls-ca",
            authority,
            "--tls-name",
            "localhost",
            "--tls",
            &to,
        ];
        Command::new(GABION).args(send).output().expect("the program").status.success()
    };
    let port = listener.server.address("tls").port();
    assert!(sends(&before, port) && !sends(&other, port));
    let Listener { server, folder, .. } = listener;
    let mut server = Some(server);
    let mut kept = None;
    run(&local("sh certificate", &root), &root, |what| {
        assert_eq!(what, "restart gabion-listen");
        kept = Some(server.take().expect("once").stop());
        let [pem, key] =
            ["tls.pem", "tls.key"].map(|f| root.join("etc/gabion").join(f).display().to_string());
        server =
            Some(Server::start(&["--tls", "127.0.0.1:0", "--tls-cert", &pem, "--tls-key", &key]));
    });
    let server = server.expect("started again");
    let port = server.address("tls").port();
    assert!(sends(&other, port) && !sends(&before, port));
    // A key of another certificate stops the recipe before anything is overwritten.
    std::fs::copy(folder.path().join("server.key"), root.join("new.key")).expect("copied");
    let check = local("sh certificate", &root);
    let check = check.lines().take(2).collect::<Vec<_>>().join(" && ");
    let done =
        Command::new("sh").args(["-ec", &check]).current_dir(&root).output().expect("a shell");
    assert!(!done.status.success());
    drop(kept);
}
