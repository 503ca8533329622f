//! Carries checkpoints off the host: to witnesses (C2SP tlog-witness), to a file of anchors on another
//! medium, to a program of the admin's.
//!
//! What is carried is read out of the log's folder as any reader would, by a thread or process of its
//! own: sealing knows nothing of it and waits for nobody. What could not be carried is tried again,
//! ever less often; the next checkpoint says all that the one before said.

mod post;

pub(crate) use post::Url;

use super::{LogFault, folders};
use crate::limits::{AGAIN_MAX, COMMAND_LAST, COMMAND_MAX, LEAVES_KEPT_MAX, WITNESSED_BYTES_MAX};
use clap::Args;
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
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// File in the log's folder with the newest cosigned checkpoint of each witness.
pub(crate) const WITNESSED: &str = "witnessed";
/// How often the log is looked at.
pub(crate) const LOOK_EVERY: Duration = Duration::from_secs(1);
/// A failure is followed by another try after this, doubled each time up to [`AGAIN_MAX`].
const AGAIN_AFTER: Duration = Duration::from_secs(2);

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
    #[arg(long, value_name = "COMMAND")]
    pub(crate) anchor_cmd: Option<String>,
}

impl PushOptions {
    /// Whether anything is to be carried anywhere.
    pub(crate) fn is_empty(&self) -> bool {
        self.witness.is_empty() && self.anchor_append.is_empty() && self.anchor_cmd.is_none()
    }
}

/// One of the places.
#[derive(Debug)]
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
}

/// Why something was not carried.
#[derive(Debug)]
enum Failure {
    /// It may go better next time.
    Again(String),
    /// The other side holds a signed state that excludes this one.
    Fork(String),
}

/// Carries checkpoints.
pub(crate) struct Pusher {
    path: PathBuf,
    ways: Vec<Way>,
    trusted: Option<Arc<ClientConfig>>,
    leaves: Vec<Hash>,
    /// The run ends: what is asked of others is not waited for much longer.
    is_ended: Arc<AtomicBool>,
}

impl Pusher {
    /// Of this log.
    pub(crate) fn new(path: &Path, options: &PushOptions) -> Result<Pusher, LogFault> {
        let witnesses =
            options.witness.iter().map(|u| Target::Witness { url: u.clone(), knows: 0 });
        let files = options.anchor_append.iter().cloned().map(Target::File);
        let command = options.anchor_cmd.iter().cloned().map(Target::Command);
        let is_tls = options.witness.iter().any(|u| u.to_string().starts_with("https"));
        let trusted = is_tls.then(|| post::trust(options.witness_ca.as_deref())).transpose();
        let way = |target| Way { target, done: None, failures: 0, next_try: now() };
        Ok(Pusher {
            path: path.to_owned(),
            ways: witnesses.chain(files).chain(command).map(way).collect(),
            trusted: trusted.map_err(LogFault::input)?,
            leaves: Vec::new(),
            is_ended: Arc::default(),
        })
    }

    /// Until this says that the run ends.
    pub(crate) fn until(self, is_ended: Arc<AtomicBool>) -> Pusher {
        Pusher { is_ended, ..self }
    }

    /// Looks for a newer checkpoint and carries it to every place that lacks it and whose turn it is. The
    /// faults are those of this look; all of it is repeated at the next.
    pub(crate) fn look(&mut self) -> Vec<LogFault> {
        let mut faults = Vec::new();
        let log = match folders::open(&self.path) {
            Ok(log) => log,
            Err(e) => return vec![e],
        };
        let last = match checkpoints::tail(&log) {
            Ok(tail) => tail.and_then(|t| t.last),
            Err(e) => return vec![LogFault::from(e).about(&self.path)],
        };
        let Some(last) = last else { return Vec::new() };
        let size = last.checkpoint.size;
        let mut ways = std::mem::take(&mut self.ways);
        for way in &mut ways {
            if way.done.is_some_and(|done| done >= size) || now() < way.next_try {
                continue;
            }
            match self.carry(&log, &last, &mut way.target) {
                Ok(()) => (way.done, way.failures) = (Some(size), 0),
                Err(failure) => {
                    let again = AGAIN_AFTER.saturating_mul(1 << way.failures.min(10));
                    way.next_try = now() + again.min(AGAIN_MAX);
                    way.failures = way.failures.saturating_add(1);
                    let (code, why) = match failure {
                        Failure::Again(why) => (4, why),
                        Failure::Fork(why) => (22, why),
                    };
                    let text = format!("{}: {size} chunks: {why}", way.target.name());
                    faults.push(LogFault::with_code(code, text));
                }
            }
        }
        self.ways = ways;
        if self.leaves.len() > LEAVES_KEPT_MAX {
            self.leaves = Vec::new();
        }
        faults
    }

    /// Whether everything was carried everywhere.
    pub(crate) fn is_done(&self) -> bool {
        self.ways.iter().all(|w| w.done.is_some() && w.failures == 0)
    }

    fn carry(&mut self, log: &Files, last: &Entry, target: &mut Target) -> Result<(), Failure> {
        match target {
            Target::Witness { url, knows } => {
                let url = url.clone();
                self.witness(log, last, &url, knows)
            }
            Target::File(path) => append(path, last),
            Target::Command(command) => run(command, last, &self.is_ended),
        }
    }

    /// Asks a witness to cosign; its first answer may be that it knows another size than we think.
    fn witness(
        &mut self,
        log: &Files,
        last: &Entry,
        url: &Url,
        knows: &mut u64,
    ) -> Result<(), Failure> {
        let again = |what: String| Failure::Again(what);
        for _ in 0..2 {
            let proof = self.proof(log, *knows, last)?;
            let mut body = format!("old {knows}\n");
            proof.iter().for_each(|h| body.push_str(&format!("{}\n", base64(h))));
            body.push_str(&format!("\n{}", last.note));
            let (status, answer) = post::post(url, "add-checkpoint", &body, self.trusted.as_ref())
                .map_err(|e| again(e.to_string()))?;
            match status {
                200 => {
                    *knows = last.checkpoint.size;
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
    fn proof(&mut self, log: &Files, old: u64, last: &Entry) -> Result<Vec<Hash>, Failure> {
        let size = last.checkpoint.size;
        if old == 0 || old == size {
            return Ok(Vec::new());
        }
        extend(log, &mut self.leaves, size).map_err(|e| Failure::Again(e.to_string()))?;
        let leaves = self.leaves.get(..usize::try_from(size).unwrap_or(usize::MAX));
        let leaves = leaves.ok_or_else(|| Failure::Again("chunks are missing".to_owned()))?;
        if root(leaves) != last.checkpoint.root {
            self.leaves = Vec::new();
            let text = "the log differs from its checkpoint: verify it".to_owned();
            return Err(Failure::Again(text));
        }
        consistency_proof(leaves, usize::try_from(old).unwrap_or(usize::MAX))
            .ok_or_else(|| Failure::Again(format!("no proof from {old} chunks")))
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
    let bytes = match std::fs::read(path) {
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
fn run(command: &str, last: &Entry, is_ended: &AtomicBool) -> Result<(), Failure> {
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
        if is_ended.load(Ordering::Acquire) && most > COMMAND_LAST {
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
