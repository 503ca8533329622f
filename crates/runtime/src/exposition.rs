//! Metrics for Prometheus: one thread, GET only, on the machine's own address.
//!
//! Nobody waits for another: connections are looked after together, each as its bytes come, and when
//! there are too many the one that has been silent longest makes room. So a scrape is answered at once
//! however many others have begun a request and do not finish it.

use crate::limits::{REQUEST_BYTES_MAX, reached};
use crate::metrics::Metrics;
use crate::signals::StopFlag;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::collections::VecDeque;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// A client is given so long.
const PATIENCE: Duration = Duration::from_secs(5);

/// Connections taken in before those that are there are looked after.
const TURN: usize = 64;

/// How long nothing may come before it is asked whether to stop.
const LOOK: Timespec = Timespec { tv_sec: 0, tv_nsec: 200_000_000 };

/// A thread of its own that answers requests for metrics until the value is dropped.
#[derive(Debug)]
pub struct Exposition {
    stop: StopFlag,
    thread: Option<JoinHandle<()>>,
}

impl Exposition {
    /// Answers at this listener.
    ///
    /// # Errors
    /// If the thread can't be started.
    pub fn start(listener: TcpListener, metrics: &Metrics) -> io::Result<Exposition> {
        let (metrics, stop) = (metrics.clone(), StopFlag::new());
        let asked = stop.clone();
        let thread = std::thread::Builder::new().name("metrics".to_owned());
        let thread = thread.spawn(move || serve(&listener, &metrics, &asked))?;
        Ok(Exposition { stop, thread: Some(thread) })
    }
}

impl Drop for Exposition {
    fn drop(&mut self) {
        self.stop.set();
        if let Some(thread) = self.thread.take() {
            // A panic of it was printed.
            let _ = thread.join();
        }
    }
}

/// Answers requests for the metrics until it is asked to stop.
pub fn serve(listener: &TcpListener, metrics: &Metrics, stop: &StopFlag) {
    if listener.set_nonblocking(true).is_err() {
        return;
    }
    let mut clients: VecDeque<Client> = VecDeque::new();
    while !stop.is_set() {
        let mut fds = vec![PollFd::new(listener, PollFlags::IN)];
        fds.extend(clients.iter().map(|c| PollFd::new(&c.stream, c.waits_for())));
        if poll(&mut fds, Some(&LOOK)).is_err() {
            continue;
        }
        let ready: Vec<bool> = fds.iter().map(|fd| !fd.revents().is_empty()).collect();
        drop(fds);
        gabion_record::limits::publish();
        // A client that goes away, or says what is no request, is no fault of ours.
        let mut at = 0;
        clients.retain_mut(|client| {
            at += 1;
            let is_ready = ready.get(at).copied().unwrap_or(false);
            client.began.elapsed() <= PATIENCE && (!is_ready || client.advance(metrics))
        });
        if ready.first() == Some(&true) {
            take_in(listener, &mut clients);
        }
    }
}

/// Accepts the clients that wait. The oldest of too many is closed: an honest one has been answered by then.
fn take_in(listener: &TcpListener, clients: &mut VecDeque<Client>) {
    for _ in 0..TURN {
        let stream = match listener.accept() {
            Ok((stream, _)) => stream,
            Err(e) if e.kind() == ErrorKind::WouldBlock => return,
            Err(_) => {
                // No descriptors are left: those of the oldest may help.
                clients.pop_front();
                return;
            }
        };
        if stream.set_nonblocking(true).is_err() {
            continue;
        }
        make_room(clients);
        clients.push_back(Client {
            stream,
            began: crate::clock::now(),
            request: Vec::new(),
            answer: Vec::new(),
            written: 0,
        });
    }
}

/// Lets the one that has waited longest go where there is no room for one more.
fn make_room<T>(clients: &mut VecDeque<T>) {
    if !reached::SCRAPERS_MAX.has_room(clients.len()) {
        clients.pop_front();
    }
}

/// A connection.
struct Client {
    stream: TcpStream,
    began: Instant,
    request: Vec<u8>,
    /// What is to be written, once the request is whole, and how much of it is.
    answer: Vec<u8>,
    written: usize,
}

impl Client {
    fn waits_for(&self) -> PollFlags {
        if self.answer.is_empty() { PollFlags::IN } else { PollFlags::OUT }
    }

    /// Does what can be done without waiting; whether there is more to come.
    fn advance(&mut self, metrics: &Metrics) -> bool {
        let mut piece = [0; 1024];
        while self.answer.is_empty() {
            match self.stream.read(&mut piece) {
                Ok(0) => return false,
                Ok(n) => self.request.extend_from_slice(piece.get(..n).unwrap_or_default()),
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(e) => return e.kind() == ErrorKind::WouldBlock,
            }
            if self.request.windows(4).any(|w| w == b"\r\n\r\n") {
                self.answer = answer(&self.request, metrics);
            } else if self.request.len() > REQUEST_BYTES_MAX {
                return false;
            }
        }
        while let Some(rest) = self.answer.get(self.written..).filter(|rest| !rest.is_empty()) {
            match self.stream.write(rest) {
                Ok(0) => return false,
                Ok(n) => self.written += n,
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(e) => return e.kind() == ErrorKind::WouldBlock,
            }
        }
        false
    }
}

fn answer(request: &[u8], metrics: &Metrics) -> Vec<u8> {
    let (status, body) = if request.starts_with(b"GET /metrics ") {
        ("200 OK", metrics.exposition())
    } else if request.starts_with(b"GET /healthz ") {
        ("200 OK", "ok\n".to_owned())
    } else {
        ("404 Not Found", "metrics are at /metrics\n".to_owned())
    };
    let kind = "text/plain; version=0.0.4; charset=utf-8";
    let length = body.len();
    format!(
        "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{body}"
    )
    .into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::SCRAPERS_MAX;

    /// More half requests than there is room for, all before a whole one: it is answered after no more
    /// than a look at each, not after their patience.
    #[test]
    fn a_whole_request_waits_for_no_half_one() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let (metrics, stop) = (Metrics::new(), StopFlag::new());
        metrics.gauge("gabion_test", "A test", &[]).set(7);
        let (flag, counted) = (stop.clone(), metrics.clone());
        let server = std::thread::spawn(move || serve(&listener, &counted, &flag));
        let half: Vec<TcpStream> = (0..300)
            .map(|_| {
                let mut stream = TcpStream::connect(address).unwrap();
                let _ = stream.write_all(b"GET /metrics HT");
                stream
            })
            .collect();
        for (path, words) in [("metrics", "gabion_test 7"), ("healthz", "ok"), ("x", "404")] {
            let mut stream = TcpStream::connect(address).unwrap();
            // The one before alone would keep it waiting longer if they were served one by one.
            stream.set_read_timeout(Some(PATIENCE)).unwrap();
            write!(stream, "GET /{path} HTTP/1.1\r\n").unwrap();
            write!(stream, "Host: here\r\n\r\n").unwrap();
            let mut text = String::new();
            stream.read_to_string(&mut text).unwrap();
            assert!(text.contains(words), "{text}");
        }
        stop.set();
        server.join().unwrap();
        drop(half);
    }

    #[test]
    fn requests_that_have_to_go_for_others_are_counted() {
        let mut clients = VecDeque::new();
        for n in 0..SCRAPERS_MAX + 3 {
            make_room(&mut clients);
            clients.push_back(n);
        }
        assert_eq!((clients.len(), clients.front()), (SCRAPERS_MAX, Some(&3)));
        assert_eq!(gabion_record::limits::take_reached().times_reached(&reached::SCRAPERS_MAX), 3);
    }
}
