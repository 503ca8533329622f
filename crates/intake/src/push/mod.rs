//! Carries checkpoints off the host: to witnesses (C2SP tlog-witness), to a file of anchors on another
//! medium, to a program of the admin's.
//!
//! What is carried is read out of the log's folder as any reader would, by a thread or process of its
//! own: sealing knows nothing of it and waits for nobody. What could not be carried is tried again,
//! ever less often; the next checkpoint contains all that the one before contained.
//!
//! Each place is served by a thread of its own, so that one that is silent keeps no other waiting, and so that the
//! end of a run can be bounded: names are looked up, connections made and disks written by system calls that
//! nothing else can cut short. What is not carried by then is reported, and carried by the next run.

pub(crate) mod http;

use http::trust;
pub use http::{HttpClient, Url, UrlError};

use crate::error::{Error, Result};
use crate::limits::{AGAIN_MAX, CARRY_LAST, COMMAND_LAST, COMMAND_MAX};
use crate::notice::{Notice, Report};
use gabion_record::files::FileOpener;
use gabion_runtime::StopFlag;
use gabion_runtime::clock::now;
use gabion_runtime::operator_file;
use gabion_runtime::output::append_synced;
use gabion_seal::checkpoints::{self, Entry};
use gabion_seal::limits::ANCHORS_BYTES_MAX;
use gabion_seal::storage::{Files, FolderFault};
use gabion_seal::verify::Anchor;
use gabion_seal::witness::{
    ADD_CHECKPOINT, Leaves, Session, Step, WITNESSED, WitnessFault, keep_cosigned, lacks_anchor,
};
use rustls::ClientConfig;
use std::fmt;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// How often the log is looked at.
pub const LOOK_EVERY: Duration = Duration::from_secs(1);
/// A failure is followed by another try after this, doubled each time up to [`AGAIN_MAX`].
const AGAIN_AFTER: Duration = Duration::from_secs(2);
/// How often it is looked whether the run ends.
const CARRY_LOOK: Duration = Duration::from_millis(20);

/// Where checkpoints are carried.
#[derive(Clone, Debug, Default)]
pub struct PushSettings {
    /// Witnesses that cosign each checkpoint.
    pub witnesses: Vec<Url>,
    /// Authorities that vouch for witnesses over https; the system's where it is left open.
    pub authorities: Option<PathBuf>,
    /// Files of anchors that each checkpoint is appended to.
    pub anchor_files: Vec<PathBuf>,
    /// A command of the shell that each checkpoint is given to.
    pub command: Option<String>,
}

impl PushSettings {
    /// Whether nothing is to be carried anywhere.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.places() == 0
    }

    /// Places that checkpoints are carried to.
    #[must_use]
    pub fn places(&self) -> usize {
        self.witnesses.len() + self.anchor_files.len() + usize::from(self.command.is_some())
    }

    /// Refuses what checkpoints can never be carried to, before a run begins. A file of anchors that is not
    /// there is accepted: its medium may come later.
    ///
    /// # Errors
    /// A file of authorities without a certificate, and a file of anchors that is something else.
    pub fn check(&self) -> Result<()> {
        if let Some(authorities) = &self.authorities {
            trust(Some(authorities))?;
        }
        self.anchor_files.iter().try_for_each(|path| {
            let refused = |why: &dyn fmt::Display| {
                Error::file(path, why, "--anchor-append: name a file of anchors, or a new one")
            };
            match std::fs::metadata(path) {
                Ok(found) if found.is_file() => {
                    read_anchors(path).map(drop).map_err(|e| refused(&e))
                }
                Ok(_) => Err(refused(&"not a regular file")),
                Err(e) => match e.kind() {
                    io::ErrorKind::NotADirectory | io::ErrorKind::InvalidFilename => {
                        Err(refused(&e))
                    }
                    _ => Ok(()),
                },
            }
        })
    }
}

/// Why a checkpoint was not carried.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PushError {
    /// The log can't be opened.
    #[error(transparent)]
    Folder(#[from] FolderFault),
    /// The log's checkpoints can't be read.
    #[error("{}: {source}", log.display())]
    Log {
        /// The log.
        log: PathBuf,
        /// Why not.
        source: gabion_seal::Error,
    },
    /// A place did not take it.
    #[error("{place}: {chunks} chunks: {fault}")]
    Place {
        /// Which.
        place: String,
        /// Chunks that the checkpoint signs.
        chunks: u64,
        /// Why not.
        #[source]
        fault: CarryFault,
    },
}

/// Why a place did not take a checkpoint.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CarryFault {
    /// A witness or a file of anchors says so, or there is no proof for a witness.
    #[error(transparent)]
    Witness(#[from] WitnessFault),
    /// The log can't be opened.
    #[error(transparent)]
    Folder(#[from] FolderFault),
    /// The witness can't be reached, a file or a command can't be written to.
    #[error("{0}")]
    Io(#[from] io::Error),
    /// The cosigned checkpoint can't be kept.
    #[error("{}: {source}", path.display())]
    NotKept {
        /// Where.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// What should be a file of anchors is none.
    #[error("not a regular file: name a file that anchors can be read from again")]
    NotRegularFile,
    /// The file of anchors can't be read.
    #[error(transparent)]
    Anchors(gabion_seal::Error),
    /// The command failed.
    #[error("{0}")]
    Command(ExitStatus),
    /// The command took too long.
    #[error("took longer than {seconds:.0} s")]
    CommandTooLong {
        /// What it may take.
        seconds: f64,
    },
    /// There is no thread for it.
    #[error("the thread cannot be started: {0}")]
    NoThread(#[source] io::Error),
    /// The run ends before it was carried.
    #[error("asked to stop before it was delivered: the next run delivers it")]
    Stopped,
}

impl CarryFault {
    /// Whether two signed states exclude each other, which another try does not fix.
    #[must_use]
    pub const fn is_fork(&self) -> bool {
        matches!(self, CarryFault::Witness(fault) if fault.is_fork())
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

/// What a thread has done for a place.
struct Carried {
    way: usize,
    size: u64,
    target: Target,
    result: std::result::Result<(), CarryFault>,
}

/// Carries checkpoints.
pub struct Pusher {
    carrier: Arc<Carrier>,
    ways: Vec<Way>,
    done: (Sender<Carried>, Receiver<Carried>),
}

/// What all threads that carry share.
struct Carrier {
    files: FileOpener,
    path: PathBuf,
    trusted: Option<Arc<ClientConfig>>,
    leaves: Mutex<Leaves>,
    /// One at a time writes the file of cosigned checkpoints.
    witnessed: Mutex<()>,
    /// The run ends: what is asked of others is not waited for much longer.
    is_ended: StopFlag,
}

impl fmt::Debug for Pusher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pusher").field("ways", &self.ways).finish_non_exhaustive()
    }
}

impl Pusher {
    /// Of this log, until the flag says that the run ends. The log and files of anchors are opened by `files`.
    ///
    /// # Errors
    /// What [`PushSettings::check`] refuses, and authorities of the system that can't be read.
    pub fn new(
        files: &FileOpener,
        path: &Path,
        settings: &PushSettings,
        is_ended: StopFlag,
    ) -> Result<Pusher> {
        settings.check()?;
        let witness = |url: &Url| Target::Witness { url: url.clone(), knows: 0 };
        let witnesses = settings.witnesses.iter().map(witness);
        let anchors = settings.anchor_files.iter().cloned().map(Target::File);
        let command = settings.command.iter().cloned().map(Target::Command);
        let is_tls = settings.witnesses.iter().any(Url::is_tls);
        let trusted = is_tls.then(|| trust(settings.authorities.as_deref())).transpose()?;
        let way = |target| Way { target, done: None, failures: 0, next_try: now(), busy: None };
        let carrier = Carrier {
            files: files.clone(),
            path: path.to_owned(),
            trusted,
            leaves: Mutex::default(),
            witnessed: Mutex::default(),
            is_ended,
        };
        Ok(Pusher {
            carrier: Arc::new(carrier),
            ways: witnesses.chain(anchors).chain(command).map(way).collect(),
            done: channel(),
        })
    }

    /// Looks for a newer checkpoint and carries it to every place that lacks it and whose turn it is, waiting for
    /// them that long, or until all are through. When the run ends, it is every place's turn, once, and a moment is
    /// left. The faults are those that have shown since the last look; all is repeated at the next.
    pub fn push(&mut self, patience: Option<Duration>) -> Vec<PushError> {
        let is_last = self.carrier.is_ended.is_set();
        let log = match Files::open_log(&self.carrier.files, &self.carrier.path) {
            Ok(log) => log,
            Err(e) => return vec![e.into()],
        };
        let last = match checkpoints::tail(&log) {
            Ok(tail) => tail.and_then(|t| t.last),
            Err(source) => {
                return vec![PushError::Log { log: self.carrier.path.clone(), source }];
            }
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
                faults.extend(self.failed(n, size, CarryFault::NoThread(e)));
            }
        }
        let patience = if is_last { Some(CARRY_LAST) } else { patience };
        self.collect(patience.map(|p| now() + p), is_last, &mut faults);
        let left = if is_last { self.ways.len() } else { 0 };
        for n in 0..left {
            if let Some(size) = self.ways.get(n).and_then(|way| way.busy) {
                faults.extend(self.failed(n, size, CarryFault::Stopped));
            }
        }
        faults
    }

    fn begin(&self, way: usize, target: Target, last: Arc<Entry>) -> io::Result<()> {
        let (carrier, done) = (Arc::clone(&self.carrier), self.done.0.clone());
        let work = move || {
            let mut target = target;
            let result = carrier.carry(&last, &mut target);
            // Nobody asks any more when the run has ended.
            let _ = done.send(Carried { way, size: last.checkpoint.size, target, result });
        };
        thread::Builder::new().name("carry".to_owned()).spawn(work).map(drop)
    }

    /// Takes what threads have done, until all are through, the time is over or a run ends that had not ended before.
    fn collect(&mut self, until: Option<Instant>, is_last: bool, faults: &mut Vec<PushError>) {
        while self.ways.iter().any(|way| way.busy.is_some()) {
            let is_asked = !is_last && self.carrier.is_ended.is_set();
            if is_asked || until.is_some_and(|until| now() >= until) {
                return;
            }
            let Ok(carried) = self.done.1.recv_timeout(CARRY_LOOK) else { continue };
            let Some(way) = self.ways.get_mut(carried.way) else { continue };
            way.target = carried.target;
            // A thread of an earlier look may come late, after one that carries more.
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

    fn failed(&mut self, way: usize, chunks: u64, fault: CarryFault) -> Option<PushError> {
        let way = self.ways.get_mut(way)?;
        way.busy = None;
        let again = AGAIN_AFTER.saturating_mul(1 << way.failures.min(10));
        way.next_try = now() + again.min(AGAIN_MAX);
        way.failures = way.failures.saturating_add(1);
        Some(PushError::Place { place: way.target.name(), chunks, fault })
    }

    /// Whether everything was carried everywhere.
    #[must_use]
    pub fn is_done(&self) -> bool {
        self.ways.iter().all(|w| w.done.is_some() && w.failures == 0)
    }
}

/// How carrying to one place ends.
type Carry = std::result::Result<(), CarryFault>;

impl Carrier {
    fn carry(&self, last: &Entry, target: &mut Target) -> Carry {
        match target {
            Target::Witness { url, knows } => {
                let url = url.clone();
                self.ask_witness(last, &url, knows)
            }
            Target::File(path) => append_anchor(&self.files, path, last),
            Target::Command(command) => run_command(command, last, &self.is_ended),
        }
    }

    /// Asks a witness to cosign; its first answer may be that it knows another size than we think.
    fn ask_witness(&self, last: &Entry, url: &Url, knows: &mut u64) -> Carry {
        let mut log = Files::open_log(&self.files, &self.path)?;
        let mut session = Session::new(last, *knows);
        let cosigned = loop {
            let request = {
                let mut leaves = self.leaves.lock().unwrap_or_else(PoisonError::into_inner);
                session.request(&log, &mut leaves)?
            };
            let body = request.body();
            let (status, answer) = http::post(url, ADD_CHECKPOINT, &body, self.trusted.as_ref())?;
            let step = session.take_answer(status, &answer);
            *knows = session.knows();
            match step? {
                Step::Again => {}
                Step::Done(note) => break note,
            }
        };
        let _one = self.witnessed.lock().unwrap_or_else(PoisonError::into_inner);
        keep_cosigned(&mut log, cosigned, last.note.signatures.len())
            .map_err(|source| CarryFault::NotKept { path: self.path.join(WITNESSED), source })
    }
}

/// The anchors of a file; a file that is not there holds none.
fn read_anchors(path: &Path) -> std::result::Result<Vec<Anchor>, CarryFault> {
    let bytes = match operator_file::bytes(path, ANCHORS_BYTES_MAX) {
        Ok(bytes) => bytes,
        Err(e) if e.kind() == io::ErrorKind::NotFound => Vec::new(),
        Err(e) => return Err(e.into()),
    };
    if bytes.is_empty() {
        return Ok(Vec::new());
    }
    Anchor::parse_file(&path.to_string_lossy(), &bytes).map_err(CarryFault::Anchors)
}

/// Appends to a file of anchors, once.
fn append_anchor(files: &FileOpener, path: &Path, last: &Entry) -> Carry {
    // The reader of a pipe waits for a writer.
    if std::fs::metadata(path).is_ok_and(|m| !m.is_file()) {
        return Err(CarryFault::NotRegularFile);
    }
    let kept = read_anchors(path)?;
    if !lacks_anchor(&kept, &last.checkpoint)? {
        return Ok(());
    }
    Ok(append_synced(files, path, &checkpoints::frame(&last.note.to_string()))?)
}

/// Runs the admin's command with the note on its standard input. When the run ends it has a moment more.
fn run_command(command: &str, last: &Entry, is_ended: &StopFlag) -> Carry {
    let mut child = Command::new("sh")
        .args(["-c", command])
        .env("GABION_ORIGIN", &last.checkpoint.origin)
        .env("GABION_SIZE", last.checkpoint.size.to_string())
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()?;
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
        match child.try_wait()? {
            Some(status) if status.success() => return Ok(()),
            Some(status) => return Err(CarryFault::Command(status)),
            None if now() >= end => {
                let _ = child.kill();
                let _ = child.wait();
                return Err(CarryFault::CommandTooLong { seconds: most.as_secs_f64() });
            }
            None => thread::sleep(Duration::from_millis(20)),
        }
    }
}

/// A thread that carries checkpoints as they are signed. It reads the log as anybody does and holds up nobody.
#[derive(Debug)]
pub struct Pushing {
    is_ended: StopFlag,
    thread: JoinHandle<()>,
}

impl Pushing {
    /// Begins, where there is a place to carry them to.
    ///
    /// # Errors
    /// Those of [`Pusher::new`]; when there is no thread.
    pub fn start(
        files: &FileOpener,
        log: &Path,
        settings: &PushSettings,
        report: Report,
    ) -> Result<Option<Pushing>> {
        if settings.is_empty() {
            return Ok(None);
        }
        let is_ended = StopFlag::new();
        let flag = is_ended.clone();
        let mut pusher = Pusher::new(files, log, settings, is_ended.clone())?;
        let work = move || {
            loop {
                // What is signed before this is carried by this look.
                let is_last = flag.is_set();
                for fault in pusher.push(Some(LOOK_EVERY)) {
                    report(&Notice::Push(fault));
                }
                let next = now() + LOOK_EVERY;
                while now() < next && !flag.is_set() {
                    thread::sleep(Duration::from_millis(50));
                }
                if is_last {
                    return;
                }
            }
        };
        let spawned = thread::Builder::new().name("push".to_owned()).spawn(work);
        let thread =
            spawned.map_err(|source| Error::NoThread { thread: "push".to_owned(), source })?;
        Ok(Some(Pushing { is_ended, thread }))
    }

    /// The closing checkpoint is there: it is carried too.
    ///
    /// # Errors
    /// When the thread panicked.
    pub fn end(self) -> Result<()> {
        self.is_ended.set();
        self.thread.join().map_err(|_| Error::Panicked { thread: "push".to_owned() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gabion_runtime::files::direct_opener;
    use std::net::TcpListener;

    /// A log with a checkpoint, in a folder.
    fn log(folder: &Path) -> PathBuf {
        let (path, state) = (folder.join("log"), folder.join("state"));
        let mut log = Files::create_folder(&direct_opener(), &path).unwrap();
        let state = Files::create_folder(&direct_opener(), &state).unwrap();
        gabion_seal::Init::new("log.example/x", 1).create(&mut log, state).unwrap();
        path
    }

    /// A witness that takes the connection and says nothing, a command that does not end, a file in a folder that is
    /// not there: when the run ends, each is named, with the outcome, and nothing waits for them.
    #[test]
    fn the_end_of_a_run_waits_for_no_place_and_says_what_was_not_carried() {
        let folder = tempfile::tempdir().unwrap();
        let path = log(folder.path());
        let silent = TcpListener::bind("127.0.0.1:0").unwrap();
        let url: Url = format!("http://{}", silent.local_addr().unwrap()).parse().unwrap();
        let settings = PushSettings {
            witnesses: vec![url.clone(), url],
            anchor_files: vec![folder.path().join("none/anchors")],
            ..PushSettings::default()
        };
        let ended = StopFlag::new();
        let mut pusher = Pusher::new(&direct_opener(), &path, &settings, ended.clone()).unwrap();
        // A look in the middle of the run does not wait for the silent ones; they stay under way.
        let faults = pusher.push(Some(Duration::ZERO));
        assert!(faults.len() <= 1 && !pusher.is_done());
        ended.set();
        let said: Vec<String> = pusher.push(None).iter().map(|f| f.to_string()).collect();
        let left = said.iter().filter(|s| s.contains("the next run delivers it")).count();
        assert_eq!((left, said.len()), (2, 3), "{said:?}");
        assert!(!pusher.is_done());
        // The next run delivers it.
        let anchors = folder.path().join("anchors");
        let settings =
            PushSettings { anchor_files: vec![anchors.clone()], ..PushSettings::default() };
        let mut pusher = Pusher::new(&direct_opener(), &path, &settings, StopFlag::new()).unwrap();
        assert!(pusher.push(None).is_empty() && pusher.is_done());
        assert!(!std::fs::read(anchors).unwrap().is_empty());
    }
}
