//! Carries checkpoints off the host: to witnesses (C2SP tlog-witness), to a file of anchors on another
//! medium, to a program of the admin's.
//!
//! What is carried is read out of the log's folder as any reader would, by a thread or process of its
//! own: sealing knows nothing of it and waits for nobody. What could not be carried is tried again,
//! ever less often; the next checkpoint says all that the one before said.
//!
//! Each place is served by a thread of its own, so that one that is silent keeps no other waiting, and so that the
//! end of a run can be bounded: names are looked up, connections made and disks written by system calls that
//! nothing else can cut short. What is not carried by then is said, and carried by the next run.

mod post;

pub(crate) use post::{Url, trust};

use super::{LogFault, folders};
use crate::limits::{
    AGAIN_MAX, ANCHORS_BYTES_MAX, CARRY_LAST, COMMAND_LAST, COMMAND_MAX, LEAVES_KEPT_MAX,
    WITNESSED_BYTES_MAX,
};
use crate::operator_file;
use clap::Args;
use gabion_runtime::StopFlag;
use gabion_runtime::clock::now;
use gabion_runtime::output::{Existing, OutputFile};
use gabion_seal::checkpoints::{self, Entry};
use gabion_seal::leaves::extend;
use gabion_seal::note::{Checkpoint, Note};
use gabion_seal::storage::{Files, Storage};
use gabion_seal::text::base64;
use gabion_seal::tree::{Hash, consistency_proof, root};
use rustls::ClientConfig;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// File in the log's folder with the newest cosigned checkpoint of each witness.
pub(crate) const WITNESSED: &str = "witnessed";
/// How often the log is looked at.
pub(crate) const LOOK_EVERY: Duration = Duration::from_secs(1);
/// A failure is followed by another try after this, doubled each time up to [`AGAIN_MAX`].
const AGAIN_AFTER: Duration = Duration::from_secs(2);
/// How often it is looked whether the run ends.
const CARRY_LOOK: Duration = Duration::from_millis(20);

/// Where checkpoints are carried.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct PushOptions {
    /// Have each checkpoint cosigned by this C2SP witness (repeatable); sealing never waits for it
    #[arg(long, value_name = "URL")]
    pub(crate) witness: Vec<Url>,
    /// Authorities that vouch for witnesses over https [default: the system's]
    #[arg(long, value_name = "FILE", requires = "witness")]
    pub(crate) witness_ca: Option<PathBuf>,
    /// Append each checkpoint to this file of anchors, on a medium of its own (repeatable)
    #[arg(long, value_name = "FILE")]
    pub(crate) anchor_append: Vec<PathBuf>,
    /// Give each checkpoint to this command of the shell, on its standard input
    #[arg(long, value_name = "COMMAND", value_parser = crate::values::text())]
    pub(crate) anchor_cmd: Option<String>,
}

impl PushOptions {
    /// Whether anything is to be carried anywhere.
    pub(crate) fn is_empty(&self) -> bool {
        self.witness.is_empty() && self.anchor_append.is_empty() && self.anchor_cmd.is_none()
    }
}

/// One of the places.
#[derive(Clone, Debug)]
enum Target {
    Witness { url: Url, knows: u64 },
    File(PathBuf),
    Command(String),
}

impl Target {
    fn name(&self) -> String {
        match self {
            Target::Witness { url, .. } => format!("witness {url}"),
            Target::File(path) => format!("anchors {}", path.display()),
            Target::Command(command) => format!("command {command}"),
        }
    }
}

/// A place and how far it is.
#[derive(Debug)]
struct Way {
    target: Target,
    /// Size of the last checkpoint carried there.
    done: Option<u64>,
    failures: u32,
    next_try: Instant,
    /// Size of the checkpoint that a thread is carrying there.
    busy: Option<u64>,
}

/// Why something was not carried.
#[derive(Debug)]
enum Failure {
    /// It may go better next time.
    Again(String),
    /// The other side holds a signed state that excludes this one.
    Fork(String),
}

/// What a thread has done for a place.
struct Carried {
    way: usize,
    size: u64,
    target: Target,
    result: Result<(), Failure>,
}

/// Carries checkpoints.
pub(crate) struct Pusher {
    carrier: Arc<Carrier>,
    ways: Vec<Way>,
    done: (Sender<Carried>, Receiver<Carried>),
}

/// What all threads that carry share.
struct Carrier {
    path: PathBuf,
    trusted: Option<Arc<ClientConfig>>,
    leaves: Mutex<Vec<Hash>>,
    /// One at a time writes the file of cosigned checkpoints.
    witnessed: Mutex<()>,
    /// The run ends: what is asked of others is not waited for much longer.
    is_ended: StopFlag,
}

impl Pusher {
    /// Of this log, until the flag says that the run ends.
    pub(crate) fn new(
        path: &Path,
        options: &PushOptions,
        is_ended: StopFlag,
    ) -> Result<Pusher, LogFault> {
        let witnesses =
            options.witness.iter().map(|u| Target::Witness { url: u.clone(), knows: 0 });
        let files = options.anchor_append.iter().cloned().map(Target::File);
        let command = options.anchor_cmd.iter().cloned().map(Target::Command);
        let is_tls = options.witness.iter().any(|u| u.to_string().starts_with("https"));
        let trusted = is_tls.then(|| post::trust(options.witness_ca.as_deref())).transpose();
        let way = |target| Way { target, done: None, failures: 0, next_try: now(), busy: None };
        let carrier = Carrier {
            path: path.to_owned(),
            trusted: trusted.map_err(LogFault::input)?,
            leaves: Mutex::default(),
            witnessed: Mutex::default(),
            is_ended,
        };
        Ok(Pusher {
            carrier: Arc::new(carrier),
            ways: witnesses.chain(files).chain(command).map(way).collect(),
            done: channel(),
        })
    }

    /// Looks for a newer checkpoint and carries it to every place that lacks it and whose turn it is, waiting for
    /// them that long, or until all are through. When the run ends, it is every place's turn, once, and a moment is
    /// left. The faults are those that have shown since the last look; all is repeated at the next.
    pub(crate) fn look(&mut self, patience: Option<Duration>) -> Vec<LogFault> {
        let is_last = self.carrier.is_ended.is_set();
        let log = match folders::open(&self.carrier.path) {
            Ok(log) => log,
            Err(e) => return vec![e],
        };
        let last = match checkpoints::tail(&log) {
            Ok(tail) => tail.and_then(|t| t.last),
            Err(e) => return vec![LogFault::from(e).about(&self.carrier.path)],
        };
        let Some(last) = last else { return Vec::new() };
        let (size, last) = (last.checkpoint.size, Arc::new(last));
        let mut faults = Vec::new();
        for n in 0..self.ways.len() {
            let Some(way) = self.ways.get_mut(n) else { continue };
            let is_free = match way.busy {
                None => is_last || now() >= way.next_try,
                // One that hangs since an earlier checkpoint does not keep the last one from its try.
                Some(busy) => is_last && busy < size,
            };
            if !is_free || way.done.is_some_and(|done| done >= size) {
                continue;
            }
            let target = way.target.clone();
            way.busy = Some(size);
            if let Err(e) = self.begin(n, target, Arc::clone(&last)) {
                faults.extend(self.failed(n, size, Failure::Again(format!("no thread: {e}"))));
            }
        }
        let patience = if is_last { Some(CARRY_LAST) } else { patience };
        self.collect(patience.map(|p| now() + p), is_last, &mut faults);
        let left = if is_last { self.ways.len() } else { 0 };
        for n in 0..left {
            if let Some(size) = self.ways.get(n).and_then(|way| way.busy) {
                let why = "asked to stop before it was carried: the next run carries it";
                faults.extend(self.failed(n, size, Failure::Again(why.to_owned())));
            }
        }
        faults
    }

    fn begin(&self, way: usize, target: Target, last: Arc<Entry>) -> std::io::Result<()> {
        let (carrier, done) = (Arc::clone(&self.carrier), self.done.0.clone());
        let work = move || {
            let mut target = target;
            let result = carrier.carry(&last, &mut target);
            // Nobody asks any more when the run has ended.
            let _ = done.send(Carried { way, size: last.checkpoint.size, target, result });
        };
        std::thread::Builder::new().name("carry".to_owned()).spawn(work).map(drop)
    }

    /// Takes what threads have done, until all are through, the time is over or a run ends that had not ended before.
    fn collect(&mut self, until: Option<Instant>, is_last: bool, faults: &mut Vec<LogFault>) {
        while self.ways.iter().any(|way| way.busy.is_some()) {
            let is_asked = !is_last && self.carrier.is_ended.is_set();
            if is_asked || until.is_some_and(|until| now() >= until) {
                return;
            }
            let Ok(carried) = self.done.1.recv_timeout(CARRY_LOOK) else { continue };
            let Some(way) = self.ways.get_mut(carried.way) else { continue };
            way.target = carried.target;
            // A thread of an earlier look may come late, behind one that carries more.
            let is_newest = way.busy == Some(carried.size);
            match carried.result {
                Ok(()) => {
                    way.done = way.done.max(Some(carried.size));
                    way.failures = 0;
                    way.busy = way.busy.filter(|_| !is_newest);
                }
                Err(failure) if is_newest => {
                    faults.extend(self.failed(carried.way, carried.size, failure));
                }
                Err(_) => {}
            }
        }
    }

    fn failed(&mut self, way: usize, size: u64, failure: Failure) -> Option<LogFault> {
        let way = self.ways.get_mut(way)?;
        way.busy = None;
        let again = AGAIN_AFTER.saturating_mul(1 << way.failures.min(10));
        way.next_try = now() + again.min(AGAIN_MAX);
        way.failures = way.failures.saturating_add(1);
        let (code, why) = match failure {
            Failure::Again(why) => (4, why),
            Failure::Fork(why) => (22, why),
        };
        let text = format!("{}: {size} chunks: {why}", way.target.name());
        Some(LogFault::with_code(code, text))
    }

    /// Whether everything was carried everywhere.
    pub(crate) fn is_done(&self) -> bool {
        self.ways.iter().all(|w| w.done.is_some() && w.failures == 0)
    }
}

impl Carrier {
    fn carry(&self, last: &Entry, target: &mut Target) -> Result<(), Failure> {
        match target {
            Target::Witness { url, knows } => {
                let url = url.clone();
                self.witness(last, &url, knows)
            }
            Target::File(path) => append(path, last),
            Target::Command(command) => run(command, last, &self.is_ended),
        }
    }

    /// Asks a witness to cosign; its first answer may be that it knows another size than we think.
    fn witness(&self, last: &Entry, url: &Url, knows: &mut u64) -> Result<(), Failure> {
        let again = |what: String| Failure::Again(what);
        let log = folders::open(&self.path).map_err(|e| again(e.text().to_string()))?;
        for _ in 0..2 {
            let proof = self.proof(&log, *knows, last)?;
            let mut body = format!("old {knows}\n");
            proof.iter().for_each(|h| body.push_str(&format!("{}\n", base64(h))));
            body.push_str(&format!("\n{}", last.note));
            let (status, answer) = post::post(url, "add-checkpoint", &body, self.trusted.as_ref())
                .map_err(|e| again(e.to_string()))?;
            match status {
                200 => {
                    *knows = last.checkpoint.size;
                    let _one = self.witnessed.lock().unwrap_or_else(PoisonError::into_inner);
                    return keep(&self.path, last, &answer).map_err(again);
                }
                409 => {
                    let size = answer.trim().parse::<u64>();
                    let size = size.map_err(|_| again("it names no size".to_owned()))?;
                    if size > last.checkpoint.size {
                        return Err(Failure::Fork(format!(
                            "it has cosigned {size} chunks already: this log was cut back"
                        )));
                    }
                    *knows = size;
                }
                422 => {
                    return Err(Failure::Fork(format!(
                        "it refuses the proof from {knows} chunks: it has cosigned another log than this"
                    )));
                }
                404 => return Err(again("it does not know this log's origin".to_owned())),
                403 => return Err(again("it does not trust this log's key".to_owned())),
                other => return Err(again(format!("it answers {other}"))),
            }
        }
        Err(again("its size goes on changing".to_owned()))
    }

    /// Hashes that show the tree of `old` chunks to be the beginning of what this checkpoint signs.
    fn proof(&self, log: &Files, old: u64, last: &Entry) -> Result<Vec<Hash>, Failure> {
        let size = last.checkpoint.size;
        if old == 0 || old == size {
            return Ok(Vec::new());
        }
        let mut kept = self.leaves.lock().unwrap_or_else(PoisonError::into_inner);
        extend(log, &mut kept, size).map_err(|e| Failure::Again(e.to_string()))?;
        let leaves = kept.get(..usize::try_from(size).unwrap_or(usize::MAX));
        let leaves = leaves.ok_or_else(|| Failure::Again("chunks are missing".to_owned()))?;
        if root(leaves) != last.checkpoint.root {
            *kept = Vec::new();
            let text = "the log differs from its checkpoint: verify it".to_owned();
            return Err(Failure::Again(text));
        }
        let proof = consistency_proof(leaves, usize::try_from(old).unwrap_or(usize::MAX))
            .ok_or_else(|| Failure::Again(format!("no proof from {old} chunks")));
        if kept.len() > LEAVES_KEPT_MAX {
            *kept = Vec::new();
        }
        proof
    }
}

/// Keeps a cosigned checkpoint in the log's folder: the newest of each witness.
fn keep(path: &Path, last: &Entry, answer: &str) -> Result<(), String> {
    let lines = answer.lines().filter(|l| !l.is_empty());
    if lines.clone().count() == 0 || !lines.clone().all(|l| l.starts_with("\u{2014} ")) {
        return Err("it answers without a cosignature".to_owned());
    }
    let text = format!("{}{}\n", last.note, lines.collect::<Vec<_>>().join("\n"));
    let note = Note::parse(text.as_bytes()).map_err(|e| format!("its cosignature: {e}"))?;
    let own = last.note.signatures.len();
    let by = |note: &Note| -> Vec<_> {
        note.signatures.iter().skip(own).map(|s| (s.name.clone(), s.id)).collect()
    };
    let failed = |e: std::io::Error| format!("{}: {e}", path.join(WITNESSED).display());
    let mut log = Files::open(path).map_err(failed)?;
    let mut notes = of_witnesses(&log);
    let is_older = |n: &Note| by(n).iter().any(|s| by(&note).contains(s));
    notes.retain(|n| !is_older(n));
    notes.push(note);
    let all: Vec<u8> = notes.iter().flat_map(|n| checkpoints::frame(&n.to_string())).collect();
    log.replace(WITNESSED, &all).map_err(failed)
}

/// Cosigned checkpoints in the log's folder.
pub(crate) fn of_witnesses(log: &Files) -> Vec<Note> {
    let bytes = log.read(WITNESSED, WITNESSED_BYTES_MAX).ok().flatten().unwrap_or_default();
    let read = gabion_seal::verify::Anchor::parse_file(WITNESSED, &bytes);
    read.unwrap_or_default().into_iter().map(|a| a.note).collect()
}

/// Appends to a file of anchors, once.
fn append(path: &Path, last: &Entry) -> Result<(), Failure> {
    let failed = |e: &dyn std::fmt::Display| Failure::Again(e.to_string());
    // Whoever reads a pipe waits for a writer.
    if std::fs::metadata(path).is_ok_and(|m| !m.is_file()) {
        return Err(failed(&"not a regular file: name a file that anchors can be read from again"));
    }
    let bytes = match operator_file::bytes(path, ANCHORS_BYTES_MAX) {
        Ok(bytes) => bytes,
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => Vec::new(),
        Err(e) => return Err(failed(&e)),
    };
    let kept = if bytes.is_empty() {
        Vec::new()
    } else {
        gabion_seal::verify::Anchor::parse_file(&path.to_string_lossy(), &bytes)
            .map_err(|e| failed(&e))?
    };
    let Checkpoint { origin, size, root } = &last.checkpoint;
    let same = kept.iter().filter(|a| a.checkpoint.origin == *origin);
    for anchor in same {
        if anchor.checkpoint.size > *size {
            let text = format!("it holds {} chunks: this log was cut back", anchor.checkpoint.size);
            return Err(Failure::Fork(text));
        }
        if anchor.checkpoint.size == *size {
            return match anchor.checkpoint.root == *root {
                true => Ok(()),
                false => Err(Failure::Fork("it holds another root of that size".to_owned())),
            };
        }
    }
    let mut file = OutputFile::open(path, Existing::Append).map_err(|e| failed(&e))?;
    file.write_all(&checkpoints::frame(&last.note.to_string()))
        .and_then(|()| file.file().sync_all())
        .map_err(|e| failed(&e))
}

/// Runs the admin's command with the note on its standard input. When the run ends it has a moment more.
fn run(command: &str, last: &Entry, is_ended: &StopFlag) -> Result<(), Failure> {
    let failed = |e: std::io::Error| Failure::Again(e.to_string());
    let mut child = Command::new("sh")
        .args(["-c", command])
        .env("GABION_ORIGIN", &last.checkpoint.origin)
        .env("GABION_SIZE", last.checkpoint.size.to_string())
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()
        .map_err(failed)?;
    if let Some(mut input) = child.stdin.take() {
        // A command that does not read it is judged by its exit code.
        let _ = input.write_all(last.note.to_string().as_bytes());
    }
    let mut end = now() + COMMAND_MAX;
    let mut most = COMMAND_MAX;
    loop {
        if is_ended.is_set() && most > COMMAND_LAST {
            (end, most) = (end.min(now() + COMMAND_LAST), COMMAND_LAST);
        }
        match child.try_wait().map_err(failed)? {
            Some(status) if status.success() => return Ok(()),
            Some(status) => return Err(Failure::Again(status.to_string())),
            None if now() >= end => {
                let _ = child.kill();
                let _ = child.wait();
                let text = format!("took longer than {:.0} s", most.as_secs_f64());
                return Err(Failure::Again(text));
            }
            None => std::thread::sleep(Duration::from_millis(20)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    /// A log with a checkpoint, in a folder.
    fn log(folder: &Path) -> PathBuf {
        let (path, state) = (folder.join("log"), folder.join("state"));
        let mut log = Files::create_folder(&path).unwrap();
        let state = Files::create_folder(&state).unwrap();
        gabion_seal::Init::new("log.example/x", 1).create(&mut log, state).unwrap();
        path
    }

    /// A witness that takes the connection and says nothing, a command that does not end, a file in a folder that is
    /// not there: when the run ends, each is named, with what becomes of it, and nothing waits for them.
    #[test]
    fn the_end_of_a_run_waits_for_no_place_and_says_what_was_not_carried() {
        let folder = tempfile::tempdir().unwrap();
        let path = log(folder.path());
        let silent = TcpListener::bind("127.0.0.1:0").unwrap();
        let url: Url = format!("http://{}", silent.local_addr().unwrap()).parse().unwrap();
        let options = PushOptions {
            witness: vec![url.clone(), url],
            anchor_append: vec![folder.path().join("none/anchors")],
            ..PushOptions::default()
        };
        let ended = StopFlag::new();
        let mut pusher = Pusher::new(&path, &options, ended.clone()).unwrap();
        // A look in the middle of the run does not wait for the silent ones; they stay under way.
        let faults = pusher.look(Some(Duration::ZERO));
        assert!(faults.len() <= 1 && !pusher.is_done());
        ended.set();
        let said: Vec<String> = pusher.look(None).iter().map(|f| f.text().to_owned()).collect();
        let left = said.iter().filter(|s| s.contains("the next run carries it")).count();
        assert_eq!((left, said.len()), (2, 3), "{said:?}");
        assert!(!pusher.is_done());
        // The next run carries it.
        let anchors = folder.path().join("anchors");
        let options =
            PushOptions { anchor_append: vec![anchors.clone()], ..PushOptions::default() };
        let mut pusher = Pusher::new(&path, &options, StopFlag::new()).unwrap();
        assert!(pusher.look(None).is_empty() && pusher.is_done());
        assert!(!std::fs::read(anchors).unwrap().is_empty());
    }
}
