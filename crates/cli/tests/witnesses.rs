//! Checkpoints carried off the host: a witness as C2SP's tlog-witness describes it, which remembers what
//! it cosigned and refuses what does not follow; files of anchors; commands. And that sealing continues
//! while a witness is away.
#![allow(
    clippy::disallowed_methods,
    reason = "sockets live by the clock; this is the program's edge"
)]

#[path = "threats/host.rs"]
#[allow(dead_code, reason = "this file uses a part of it")]
mod host;
#[path = "intake/mod.rs"]
mod intake;

use aws_lc_rs::signature::{Ed25519KeyPair, KeyPair};
use gabion_record::base64::from_base64;
use gabion_seal::checkpoints::{Checkpoint, Note, Signature, SignatureKind, Vkey};
use gabion_seal::format::tree::{Hash, verify_consistency};
use host::{GABION, Host};
use intake::Certificates;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ServerConfig, ServerConnection, StreamOwned};
use std::io::{Read, Write};
use std::net::TcpListener;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

const NAME: &str = "witness.example/w1";

/// What a witness remembers of a log: its size and root.
type Memory = Arc<Mutex<Option<(u64, Hash)>>>;

/// A witness that trusts any log's key and remembers one log.
struct Witness {
    url: String,
    vkey: String,
    memory: Memory,
    answers: Arc<Mutex<Vec<u16>>>,
}

impl Witness {
    fn start() -> Witness {
        Witness::with(None)
    }

    /// One that is asked over https when it has a certificate and a key.
    fn with(tls: Option<&(String, String)>) -> Witness {
        let tls = tls.map(|(certificate, key)| tls_server(certificate, key));
        let (scheme, host) =
            if tls.is_some() { ("https", "localhost") } else { ("http", "127.0.0.1") };
        let key = Ed25519KeyPair::generate().expect("a key");
        let mut public = [0; 32];
        public.copy_from_slice(key.public_key().as_ref());
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("an address");
        let (memory, answers) = (Memory::default(), Arc::new(Mutex::new(Vec::new())));
        let (seen, said) = (Arc::clone(&memory), Arc::clone(&answers));
        // It ends with the test's process.
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let mut stream: Box<dyn Wire> = match &tls {
                    None => Box::new(stream),
                    Some(config) => {
                        let connection = ServerConnection::new(Arc::clone(config)).expect("TLS");
                        Box::new(StreamOwned::new(connection, stream))
                    }
                };
                let (status, body) = answer(&mut *stream, &key, public, &seen);
                said.lock().expect("unpoisoned").push(status);
                let _ = write!(
                    stream,
                    "HTTP/1.1 {status} x\r\nContent-Length: {}\r\n\r\n{body}",
                    body.len()
                );
                let _ = stream.flush();
            }
        });
        Witness {
            url: format!("{scheme}://{host}:{}/prefix", address.port()),
            vkey: Vkey::new(NAME, SignatureKind::Cosignature, public).to_string(),
            memory,
            answers,
        }
    }

    fn answers(&self) -> Vec<u16> {
        std::mem::take(&mut self.answers.lock().expect("unpoisoned"))
    }
}

/// A connection, clear or not.
trait Wire: Read + Write {}

impl<T: Read + Write> Wire for T {}

fn tls_server(certificate: &str, key: &str) -> Arc<ServerConfig> {
    let chain = CertificateDer::pem_file_iter(certificate)
        .and_then(Iterator::collect)
        .expect("a certificate");
    let key = PrivateKeyDer::from_pem_file(key).expect("a key");
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("versions")
        .with_no_client_auth()
        .with_single_cert(chain, key)
        .expect("they fit");
    Arc::new(config)
}

fn request(stream: &mut dyn Wire) -> Option<String> {
    let mut all = Vec::new();
    let mut piece = [0; 4096];
    loop {
        let n = stream.read(&mut piece).ok().filter(|n| *n > 0)?;
        all.extend_from_slice(&piece[..n]);
        let text = String::from_utf8(all.clone()).ok()?;
        let Some((head, body)) = text.split_once("\r\n\r\n") else { continue };
        let len: usize =
            head.lines().find_map(|l| l.strip_prefix("Content-Length: ")?.parse().ok())?;
        if body.len() >= len {
            return head
                .starts_with("POST /prefix/add-checkpoint HTTP/1.")
                .then(|| body.to_owned());
        }
    }
}

/// The rules of add-checkpoint.
fn answer(
    stream: &mut dyn Wire,
    key: &Ed25519KeyPair,
    public: [u8; 32],
    memory: &Memory,
) -> (u16, String) {
    let Some(body) = request(stream) else { return (404, String::new()) };
    let Some((proof, note)) = body.split_once("\n\n") else { return (400, String::new()) };
    let mut lines = proof.lines();
    let old = lines.next().and_then(|l| l.strip_prefix("old ")?.parse::<u64>().ok());
    let proof: Option<Vec<Hash>> =
        lines.map(|l| from_base64(l.as_bytes())?.try_into().ok()).collect();
    let note = Note::parse(note.as_bytes());
    let (Some(old), Some(proof), Ok(note)) = (old, proof, note) else {
        return (400, String::new());
    };
    let Ok(new) = Checkpoint::parse(&note.text) else { return (400, String::new()) };
    if old > new.size || proof.len() > 63 {
        return (400, String::new());
    }
    let mut memory = memory.lock().expect("unpoisoned");
    let (size, root) = memory.unwrap_or((0, [0; 32]));
    if old != size {
        return (409, format!("{size}\n"));
    }
    let follows = match old {
        0 => proof.is_empty(),
        _ => verify_consistency((old, &root), (new.size, &new.root), &proof),
    };
    if !follows {
        return (422, String::new());
    }
    *memory = Some((new.size, new.root));
    (200, Signature::cosign(NAME, key, public, 1_700_000_000, &note.text).to_string())
}

fn log(folder: &Path, args: &[&str], input: &str) -> (Option<i32>, String) {
    let mut child = Command::new(GABION)
        .arg("log")
        .args(args)
        .current_dir(folder)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program");
    let _ = child.stdin.take().expect("piped").write_all(input.as_bytes());
    let done = child.wait_with_output().expect("ended");
    let said = [done.stdout, done.stderr].concat();
    (done.status.code(), String::from_utf8_lossy(&said).into_owned())
}

fn made(folder: &Path) {
    assert_eq!(log(folder, &["keygen", "--out", "reader"], "").0, Some(0));
    let init =
        ["init", "log", "--origin", "log.example/pushed", "--recipient", "reader/recipient.pub"];
    assert_eq!(log(folder, &init, "").0, Some(0));
}

fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).expect("a folder");
    for entry in std::fs::read_dir(from).expect("a folder") {
        let path = entry.expect("an entry").path();
        std::fs::copy(&path, to.join(path.file_name().expect("a name"))).expect("copied");
    }
}

#[test]
fn a_witness_cosigns_what_follows_and_nothing_else() {
    let folder = tempfile::tempdir().expect("a folder");
    let at = folder.path();
    made(at);
    let witness = Witness::start();
    let push = ["checkpoint", "log", "--witness", &witness.url];
    let verify = ["verify", "log", "--witness", &witness.vkey];
    log(at, &["append", "log"], "one\ntwo\n");
    assert_eq!(log(at, &verify, "").0, Some(10), "nobody cosigned it yet");
    assert_eq!(log(at, &push, "").0, Some(0));
    assert_eq!(witness.answers(), [200]);
    let (code, said) = log(at, &verify, "");
    assert!(code == Some(0) && said.contains(NAME), "{said}");
    assert_eq!(log(at, &["verify", "log"], "").0, Some(10), "it counts for who trusts it alone");
    for name in ["log", "log.state"] {
        copy(&at.join(name), &at.join(format!("old-{name}")));
    }
    // Another process does not know the state of the witness, and learns it.
    for text in ["three\n", "four\n"] {
        log(at, &["append", "log"], text);
    }
    let (code, said) = log(at, &push, "");
    assert_eq!((code, witness.answers()), (Some(0), vec![409, 200]), "{said}");
    assert_eq!(log(at, &verify, "").0, Some(0));
    let known = witness.memory.lock().expect("unpoisoned").expect("a size").0;
    // An older state put back: it is shorter than what was cosigned, and if the writer continues it, it is another log.
    std::fs::remove_dir_all(at.join("log")).expect("removed");
    copy(&at.join("old-log"), &at.join("log"));
    let (code, said) = log(at, &push, "");
    assert!(code == Some(22) && said.contains(&format!("{known} chunks")), "{said}");
    std::fs::remove_dir_all(at.join("log.state")).expect("removed");
    copy(&at.join("old-log.state"), &at.join("log.state"));
    for text in ["another three\n", "another four\n", "another five\n"] {
        log(at, &["append", "log"], text);
    }
    witness.answers();
    let (code, said) = log(at, &push, "");
    assert_eq!((code, witness.answers()), (Some(22), vec![409, 422]), "{said}");
    assert_eq!(witness.memory.lock().expect("unpoisoned").expect("a size").0, known);
    // One that is not there is no verdict.
    let (code, said) = log(at, &["checkpoint", "log", "--witness", "http://127.0.0.1:1"], "");
    assert!(code == Some(4) && said.lines().count() == 1, "{said}");
    assert_eq!(log(at, &["checkpoint", "log", "--witness", "here"], "").0, Some(2));
}

/// The lines of `docs/recipes.md` for a witness and the auditor who trusts it.
#[test]
fn the_recipe_for_a_witness() {
    let folder = tempfile::tempdir().expect("a folder");
    let at = folder.path();
    made(at);
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/recipes.md");
    let page = std::fs::read_to_string(page).expect("the page");
    let witness = Witness::start();
    std::fs::write(at.join("witness.vkey"), &witness.vkey).expect("written");
    let line = |words: &str| {
        let (_, behind) = page.split_once(&format!("```sh {words}\n")).expect("the block");
        let (line, _) = behind.split_once('\n').expect("a line");
        let line = line.replace("/var/lib/gabion/log", "log");
        line.replace("https://witness.example/prefix", &witness.url)
    };
    let run = |line: &str| {
        let args: Vec<&str> = line.split(' ').skip_while(|word| *word != "log").skip(1).collect();
        log(at, &args, "")
    };
    log(at, &["append", "log"], "one\n");
    let audit = line("audit");
    let (code, said) = run(&audit);
    assert_eq!(code, Some(10), "nobody cosigned it yet: {said}");
    let (code, said) = run(&line("witness"));
    assert_eq!((code, witness.answers()), (Some(0), vec![200]), "{said}");
    let (code, said) = run(&audit);
    assert_eq!(code, Some(0), "{said}");
}

#[test]
fn a_witness_over_https_must_be_who_it_says() {
    let folder = tempfile::tempdir().expect("a folder");
    let at = folder.path();
    let Some(known) = Certificates::new(at) else {
        eprintln!("a_witness_over_https_must_be_who_it_says: skipped: no openssl");
        return;
    };
    let other = Certificates::authority(at, "other").expect("as before");
    made(at);
    let witness = Witness::with(Some(&known.server));
    let push = |authority: &str, url: &str| {
        log(at, &["checkpoint", "log", "--witness", url, "--witness-ca", authority], "")
    };
    log(at, &["append", "log"], "one\n");
    let (code, said) = push(&known.authority, &witness.url);
    assert_eq!((code, witness.answers()), (Some(0), vec![200]), "{said}");
    let verify = ["verify", "log", "--witness", &witness.vkey];
    assert_eq!(log(at, &verify, "").0, Some(0));
    // No trusted authority signed its certificate; its name is another; it does not speak TLS.
    log(at, &["append", "log"], "two\n");
    let clear = Witness::start().url.replace("http:", "https:");
    let unnamed = witness.url.replace("localhost", "127.0.0.1");
    for (authority, url) in
        [(&other, &witness.url), (&known.authority, &unnamed), (&known.authority, &clear)]
    {
        let (code, said) = push(authority, url);
        assert!(code == Some(4) && said.lines().count() == 1, "{url}: {code:?} {said}");
    }
    let (code, said) = push(&known.authority, &witness.url);
    assert_eq!(code, Some(0), "{said}");
    let (code, said) = push(&at.join("none").display().to_string(), &witness.url);
    assert!(code == Some(3) && said.contains("none"), "{code:?} {said}");
}

#[test]
fn anchors_are_appended_and_commands_are_run() {
    let folder = tempfile::tempdir().expect("a folder");
    let at = folder.path();
    made(at);
    let command = "cat >> notes; echo \"$GABION_ORIGIN $GABION_SIZE\" >> sizes";
    let push = ["checkpoint", "log", "--anchor-append", "anchors", "--anchor-cmd", command];
    for text in ["one\n", "two\n"] {
        log(at, &["append", "log"], text);
        let (code, said) = log(at, &push, "");
        assert_eq!(code, Some(0), "{said}");
    }
    // The same again adds nothing to the file.
    let before = std::fs::read(at.join("anchors")).expect("anchors");
    assert_eq!(log(at, &push, "").0, Some(0));
    assert_eq!(std::fs::read(at.join("anchors")).expect("anchors"), before);
    assert_eq!(log(at, &["verify", "log", "--anchor", "anchors"], "").0, Some(0));
    let sizes = std::fs::read_to_string(at.join("sizes")).expect("written");
    assert!(sizes.lines().count() == 3 && sizes.starts_with("log.example/pushed "), "{sizes}");
    let notes = std::fs::read_to_string(at.join("notes")).expect("written");
    assert_eq!(notes.matches("log.example/pushed\n").count(), 3, "{notes}");
    let (code, said) = log(at, &["checkpoint", "log", "--anchor-cmd", "exit 7"], "");
    assert!(code == Some(4) && said.contains("7"), "{said}");
}

/// A pipe, a device or a folder in the place of a file of anchors is refused at once by every verb that reads or writes
/// one: no verb waits for another process to open it.
#[test]
fn anchors_are_neither_pipes_nor_devices() {
    let folder = tempfile::tempdir().expect("a folder");
    let at = folder.path();
    made(at);
    log(at, &["append", "log"], "one\n");
    let made = Command::new("mkfifo").arg(at.join("pipe")).status().expect("mkfifo");
    assert!(made.success());
    std::fs::create_dir(at.join("folder")).expect("a folder");
    for name in ["pipe", "/dev/zero", "/dev/full", "folder"] {
        for args in [
            &["checkpoint", "log", "--anchor-append", name][..],
            &["anchor", "add", name, "log"],
            &["verify", "log", "--anchor", name],
            &["compare", name, name],
        ] {
            let (code, said) = log(at, args, "");
            assert!(matches!(code, Some(2..=4)), "{args:?}: {code:?} {said}");
            assert_eq!(said.lines().count(), 1, "{args:?}: {said}");
            assert!(said.contains(name), "{args:?}: {said}");
        }
    }
    // A command that reads nothing and one that reads all are judged by how they end; a pipe that a command writes to
    // is the command's own affair.
    for (command, expected) in [("true", 0), ("cat > kept", 0), ("cat; exit 3", 4)] {
        let (code, said) = log(at, &["checkpoint", "log", "--anchor-cmd", command], "");
        assert_eq!(code, Some(expected), "{command}: {said}");
    }
    assert!(std::fs::read_to_string(at.join("kept")).expect("written").contains("log.example"));
}

/// A command that does not end, and a witness that does not answer, end with the run that waits for them, which reports
/// that the checkpoint was not carried.
#[test]
fn a_request_to_stop_ends_the_wait_for_witnesses_and_commands() {
    let folder = tempfile::tempdir().expect("a folder");
    let at = folder.path();
    made(at);
    log(at, &["append", "log"], "one\n");
    let silent = TcpListener::bind("127.0.0.1:0").expect("a port");
    let url = format!("http://{}", silent.local_addr().expect("an address"));
    let began = at.join("began");
    let command = format!("cat > '{}'; exec sleep 100000", began.display());
    for more in [&[][..], &["--follow"]] {
        let _ = std::fs::remove_file(&began);
        let child = Command::new(GABION)
            .args(["log", "checkpoint", "log", "--witness", &url, "--anchor-cmd", &command])
            .args(more)
            .current_dir(at)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the program");
        let asked = silent.accept().expect("it asks the witness");
        while !began.exists() {
            std::thread::yield_now();
        }
        Command::new("kill").args(["-TERM", &child.id().to_string()]).status().expect("kill");
        let done = child.wait_with_output().expect("ended");
        let said = String::from_utf8_lossy(&done.stderr).into_owned();
        assert!(said.contains("the next run delivers it"), "{said}");
        assert!(said.contains("took longer than 1 s"), "{said}");
        assert_eq!(done.status.code(), Some(4), "{more:?}: {said}");
        drop(asked);
    }
}

#[test]
fn sealing_does_not_wait_for_a_witness() {
    // It takes connections and never answers.
    let silent = TcpListener::bind("127.0.0.1:0").expect("a port");
    let url = format!("http://{}", silent.local_addr().expect("an address"));
    let witness = Witness::start();
    let mut host = Host::start(&[
        "--relp",
        "127.0.0.1:0",
        "--witness",
        &url,
        "--witness",
        "http://127.0.0.1:1",
        "--witness",
        &witness.url,
        "--anchor-append",
        "/nowhere/anchors",
    ]);
    let mut relp = host.relp();
    let began = Instant::now();
    for n in 0..50 {
        let number = relp.send(&format!("<13>message {n}"));
        relp.answered(number);
    }
    // A silent witness would take ten seconds for each.
    assert!(began.elapsed() < Duration::from_secs(9), "{:?}", began.elapsed());
    drop(silent);
    let (code, said) = host.stop();
    assert_eq!(code, Some(0), "{said}");
    assert!(said.contains("/nowhere/anchors") && said.contains("127.0.0.1:1"), "{said}");
    // The closing checkpoint was carried to the one that answers.
    let (code, said) = host.log(&["verify", "log", "--witness", &witness.vkey, "--key", "reader"]);
    assert_eq!(code, Some(0), "{said}");
    assert_eq!(host.messages("log").len(), 50);
}
