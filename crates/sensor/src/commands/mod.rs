//! The command socket of a run: Suricata's `unix-command`, which `suricatasc` and suricata-update talk to.
//!
//! One thread looks after the socket and all its clients, so that nobody waits for another: a command that takes a while is
//! carried out elsewhere, and its answer comes when it is done. Of too many clients the one that has been silent longest
//! makes room. What a command asks of workers is done by them between two batches.

mod ask;
mod client;
mod configured;
mod refusal;
mod table;

pub use configured::serve_configured;
pub use table::CommandContext;

use crate::limits::reached;
use client::{Client, Said, refusal, success};
use gabion_runtime::StopFlag;
use refusal::Refusal;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::collections::BTreeMap;
use std::io::{self, ErrorKind};
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;

/// How long nothing may come before answers of others and the end are looked for.
const LOOK: Timespec = Timespec { tv_sec: 0, tv_nsec: 20_000_000 };
/// The same when nobody works for a client.
const LONG_LOOK: Timespec = Timespec { tv_sec: 0, tv_nsec: 200_000_000 };
/// Clients taken in before those that are there are looked after.
const TURN: usize = 64;
/// Who may send commands: the user and the group of the process.
const MODE: u32 = 0o660;

/// A socket for commands, bound but not served yet.
#[derive(Debug)]
pub(crate) struct CommandSocket {
    listener: UnixListener,
    path: PathBuf,
}

impl CommandSocket {
    /// Binds it. What a run before left there is replaced, another run's socket is not.
    ///
    /// # Errors
    /// What the system says; that another program listens there, or that something else than a socket is there.
    pub(crate) fn bind(path: &Path) -> io::Result<CommandSocket> {
        if let Some(folder) = path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
            std::fs::create_dir_all(folder)?;
        }
        match std::fs::symlink_metadata(path) {
            Ok(found) if !found.file_type().is_socket() => {
                return Err(io::Error::new(ErrorKind::AlreadyExists, "it is not a socket"));
            }
            Ok(_) if UnixStream::connect(path).is_ok() => {
                return Err(io::Error::new(ErrorKind::AddrInUse, "another program listens there"));
            }
            Ok(_) => std::fs::remove_file(path)?,
            Err(e) if e.kind() == ErrorKind::NotFound => {}
            Err(e) => return Err(e),
        }
        let listener = UnixListener::bind(path)?;
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(MODE))?;
        listener.set_nonblocking(true)?;
        Ok(CommandSocket { listener, path: path.to_owned() })
    }

    /// Serves it on a thread of its own until the returned value is dropped.
    ///
    /// # Errors
    /// If the thread can't be started.
    pub(crate) fn serve(self, context: CommandContext) -> io::Result<CommandServer> {
        let stop = StopFlag::new();
        let asked = stop.clone();
        let path = self.path.clone();
        let thread = std::thread::Builder::new().name("commands".to_owned());
        let thread = thread.spawn(move || Server::new(context).run(&self.listener, &asked))?;
        Ok(CommandServer { stop, thread: Some(thread), path })
    }
}

/// A socket that is served. When it is dropped its clients are closed and its file is removed.
#[derive(Debug)]
pub struct CommandServer {
    stop: StopFlag,
    thread: Option<JoinHandle<()>>,
    path: PathBuf,
}

impl Drop for CommandServer {
    fn drop(&mut self) {
        self.stop.set();
        if let Some(thread) = self.thread.take() {
            // A panic of it was printed; the run continues.
            let _ = thread.join();
        }
        let _ = std::fs::remove_file(&self.path);
    }
}

/// What a command comes to.
pub(crate) enum Answer {
    /// It is done, and says this JSON.
    Done(Vec<u8>),
    /// It is not done, and why.
    Refused(Refusal),
    /// It is being done: the answer comes by what the command was given for that.
    Later,
}

impl Answer {
    pub(crate) fn text(text: &str) -> Answer {
        let mut j = gabion_record::json::Json::new();
        j.quoted(text.as_bytes());
        Answer::Done(j.take_bytes())
    }

    fn bytes(&self) -> Option<Vec<u8>> {
        match self {
            Answer::Done(message) => Some(success(message)),
            Answer::Refused(why) => Some(refusal(&why.to_string())),
            Answer::Later => None,
        }
    }
}

/// Brings the answer of a command that took a while to its client.
#[derive(Clone)]
pub(crate) struct Reply {
    client: u64,
    to: Sender<(u64, Answer)>,
}

impl Reply {
    /// Answers. A client that is gone is not missed.
    pub(crate) fn send(&self, answer: Answer) {
        let _ = self.to.send((self.client, answer));
    }
}

struct Server {
    context: CommandContext,
    clients: BTreeMap<u64, Client>,
    next: u64,
    replies: Receiver<(u64, Answer)>,
    reply_to: Sender<(u64, Answer)>,
}

impl Server {
    fn new(context: CommandContext) -> Server {
        let (reply_to, replies) = channel();
        Server { context, clients: BTreeMap::new(), next: 0, replies, reply_to }
    }

    fn run(mut self, listener: &UnixListener, stop: &StopFlag) {
        while !stop.is_set() {
            let mut fds = vec![PollFd::new(listener, PollFlags::IN)];
            let ids: Vec<u64> = self.clients.keys().copied().collect();
            fds.extend(self.clients.values().map(|c| PollFd::new(c.stream(), c.waits_for())));
            let is_busy = self.clients.values().any(|c| c.is_waiting);
            if poll(&mut fds, Some(if is_busy { &LOOK } else { &LONG_LOOK })).is_err() {
                continue;
            }
            let ready: Vec<bool> = fds.iter().map(|fd| !fd.revents().is_empty()).collect();
            drop(fds);
            gabion_record::limits::publish();
            while let Ok((id, answer)) = self.replies.try_recv() {
                self.answer(id, &answer);
            }
            for (id, is_ready) in ids.iter().zip(ready.iter().skip(1)) {
                if *is_ready {
                    self.look_after(*id);
                }
            }
            let late: Vec<u64> = self
                .clients
                .iter()
                .filter(|(_, c)| c.is_kept_waiting())
                .map(|(id, _)| *id)
                .collect();
            for id in late {
                self.answer(id, &Answer::Refused(Refusal::TooLate));
            }
            self.clients.retain(|_, client| !client.is_late());
            if ready.first() == Some(&true) {
                self.take_in(listener);
            }
        }
    }

    /// Accepts the clients that wait.
    fn take_in(&mut self, listener: &UnixListener) {
        for _ in 0..TURN {
            let stream = match listener.accept() {
                Ok((stream, _)) => stream,
                Err(e) if e.kind() == ErrorKind::WouldBlock => return,
                Err(_) => {
                    // No descriptors are left: those of the most silent may help.
                    self.make_room();
                    return;
                }
            };
            if stream.set_nonblocking(true).is_err() {
                continue;
            }
            if !reached::COMMAND_CLIENTS_MAX.has_room(self.clients.len()) {
                self.make_room();
            }
            self.clients.insert(self.next, Client::new(stream));
            self.next += 1;
        }
    }

    fn make_room(&mut self) {
        let silent = self.clients.iter().filter_map(|(id, c)| Some((c.idle_since()?, *id)));
        if let Some((_, id)) = silent.min() {
            self.clients.remove(&id);
        }
    }

    /// Reads of a client and writes to it what can be without waiting.
    fn look_after(&mut self, id: u64) {
        let Some(client) = self.clients.get_mut(&id) else { return };
        let is_writing = client.waits_for() == PollFlags::OUT;
        let said = match (is_writing, client.is_waiting) {
            (true, _) => Some(Said::Nothing),
            // Only its end can have come.
            (false, true) => None,
            (false, false) => client.read_said(),
        };
        match said {
            None => {
                self.clients.remove(&id);
            }
            Some(said) => self.take_said(id, said),
        }
    }

    /// Carries out what a client has said, and all that it has said after it.
    fn take_said(&mut self, id: u64, mut said: Said) {
        loop {
            let Some(client) = self.clients.get_mut(&id) else { return };
            if let Said::Request(request) = &said {
                let reply = Reply { client: id, to: self.reply_to.clone() };
                client.is_waiting = true;
                let answer = self.context.carry_out(request, reply);
                if let Some(bytes) = answer.bytes() {
                    client.is_waiting = false;
                    client.put(&bytes);
                }
            }
            if !client.write() {
                self.clients.remove(&id);
                return;
            }
            if client.has_output() {
                return;
            }
            said = client.next_said();
            if said == Said::Nothing && !client.has_output() {
                return;
            }
        }
    }

    /// Brings an answer to a client that waits for it.
    fn answer(&mut self, id: u64, answer: &Answer) {
        let Some(client) = self.clients.get_mut(&id).filter(|client| client.is_waiting) else {
            return;
        };
        if let Some(bytes) = answer.bytes() {
            client.is_waiting = false;
            client.put(&bytes);
            self.take_said(id, Said::Nothing);
        }
    }
}
