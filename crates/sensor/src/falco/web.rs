//! The listener for health, versions and metrics: GET only, small requests, short waits. Each client has a thread for as
//! long as it is answered, so that one that is silent keeps nobody waiting.

use super::listing::version_json;
use crate::limits::{WEB_CLIENTS_MAX, WEB_REQUEST_BYTES_MAX, WEB_WAIT_S};
use gabion_intake::ServerTls;
use gabion_probe::syscalls::Class;
use gabion_record::ledger::{Ledger, ShedReason};
use gabion_runtime::clock;
use gabion_settings::falco::WebSettings;
use std::collections::VecDeque;
use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// What the worker shows of itself to those who watch it, and the listener of the run.
#[derive(Debug, Default)]
pub(super) struct Shown {
    /// Events for rules that the worker took, and those that it has tried them on.
    pub(super) taken: AtomicU64,
    pub(super) tried: AtomicU64,
    /// How often it had work and did not continue.
    pub(super) stalls: AtomicU64,
    pub(super) events: AtomicU64,
    pub(super) alerts: AtomicU64,
    pub(super) dropped: AtomicU64,
    pub(super) rules: AtomicU64,
    /// Calls that were shed because a ring was full, for each class.
    pub(super) shed: [AtomicU64; 7],
    /// Readings at the entry of a call for which the kernel had no memory.
    pub(super) storage_failed: AtomicU64,
    /// Calls of 32 bits that programs of 64 bits do not have.
    pub(super) unmapped_ia32: AtomicU64,
}

impl Shown {
    /// The account of the events for rules; what was taken and not tried was shed for `reason`.
    pub(super) fn ledger(&self, reason: ShedReason) -> Ledger {
        let (taken, tried) = (self.taken.load(Relaxed), self.tried.load(Relaxed));
        let mut ledger = Ledger::new();
        ledger.receive(taken.max(tried), 0);
        ledger.pass(tried, 0);
        ledger.shed(reason, taken.saturating_sub(tried), 0);
        ledger
    }
}

/// A listener that ends when it is dropped.
#[derive(Debug)]
pub(super) struct Web {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Web {
    /// Answers clients of `listener`, which is bound to the address of the settings.
    pub(super) fn start(
        listener: TcpListener,
        settings: &WebSettings,
        shown: Arc<Shown>,
    ) -> io::Result<Web> {
        // One file has both, as Falco wants it.
        let tls = settings.certificate.as_ref().map(|file| ServerTls {
            certificates: file.clone(),
            key: file.clone(),
            client_authorities: None,
            is_client_required: false,
        });
        let tls = tls.map(|tls| tls.answering()).transpose().map_err(io::Error::other)?;
        let tls = tls.map(Arc::new);
        listener.set_nonblocking(true)?;
        let stop = Arc::new(AtomicBool::new(false));
        let (settings, flag) = (Arc::new(settings.clone()), stop.clone());
        let thread =
            std::thread::Builder::new().name("webserver".to_string()).spawn(move || {
                let mut clients: VecDeque<Client> = VecDeque::new();
                while !flag.load(Relaxed) {
                    clients.retain(Client::is_waiting);
                    let Ok((stream, _)) = listener.accept() else {
                        std::thread::sleep(Duration::from_millis(50));
                        continue;
                    };
                    if clients.len() >= WEB_CLIENTS_MAX {
                        clients.pop_front();
                    }
                    let (tls, settings, shown) = (tls.clone(), settings.clone(), shown.clone());
                    // A client that goes away takes nothing with it.
                    clients.extend(Client::begin(stream, move |stream| {
                        let mut reply = |from: &mut dyn Read| answer_to(from, &settings, &shown);
                        match tls {
                            Some(answer) => answer(stream, &mut reply),
                            None => answer_plainly(stream, &mut reply),
                        }
                    }));
                }
            })?;
        Ok(Web { stop, thread: Some(thread) })
    }
}

/// A client that a thread of its own answers. Its connection is closed with the value.
struct Client {
    stream: TcpStream,
    began: Instant,
    is_done: Arc<AtomicBool>,
}

impl Client {
    /// Starts the thread.
    fn begin(
        stream: TcpStream,
        answer: impl FnOnce(TcpStream) -> io::Result<()> + Send + 'static,
    ) -> io::Result<Client> {
        limit_wait(&stream)?;
        let is_done = Arc::new(AtomicBool::new(false));
        let client =
            Client { stream: stream.try_clone()?, began: clock::now(), is_done: is_done.clone() };
        std::thread::Builder::new().name("web client".to_string()).spawn(move || {
            let _ = answer(stream);
            is_done.store(true, Relaxed);
        })?;
        Ok(client)
    }

    /// Whether it waits for its answer, and may wait longer.
    fn is_waiting(&self) -> bool {
        !self.is_done.load(Relaxed) && self.began.elapsed() <= Duration::from_secs(WEB_WAIT_S)
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        let _ = self.stream.shutdown(Shutdown::Both);
    }
}

impl Drop for Web {
    fn drop(&mut self) {
        self.stop.store(true, Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn limit_wait(stream: &TcpStream) -> io::Result<()> {
    stream.set_nonblocking(false)?;
    stream.set_read_timeout(Some(Duration::from_secs(WEB_WAIT_S)))?;
    stream.set_write_timeout(Some(Duration::from_secs(WEB_WAIT_S)))
}

fn answer_plainly(
    mut stream: TcpStream,
    reply: &mut dyn FnMut(&mut dyn Read) -> io::Result<Vec<u8>>,
) -> io::Result<()> {
    let answer = reply(&mut stream)?;
    stream.write_all(&answer)?;
    stream.shutdown(Shutdown::Write)
}

/// Reads a request; the bytes of its answer.
fn answer_to(from: &mut dyn Read, settings: &WebSettings, shown: &Shown) -> io::Result<Vec<u8>> {
    let mut request = vec![0; WEB_REQUEST_BYTES_MAX];
    let mut len = 0;
    while !request.get(..len).unwrap_or_default().windows(4).any(|end| end == b"\r\n\r\n") {
        let Some(space) = request.get_mut(len..).filter(|space| !space.is_empty()) else { break };
        match from.read(space)? {
            0 => break,
            n => len += n,
        }
    }
    let text = String::from_utf8_lossy(request.get(..len).unwrap_or_default());
    let path = text.strip_prefix("GET ").and_then(|rest| rest.split([' ', '?']).next());
    let (status, kind, body) = match path {
        Some(path) if path == settings.health_path => {
            ("200 OK", "application/json", "{\"status\": \"ok\"}".to_string())
        }
        Some("/versions") => ("200 OK", "application/json", version_json()),
        Some("/metrics") if settings.has_metrics => {
            ("200 OK", "text/plain; version=0.0.4; charset=utf-8", exposition(shown))
        }
        Some(_) => ("404 Not Found", "text/plain", "not found\n".to_string()),
        None => ("405 Method Not Allowed", "text/plain", "only GET\n".to_string()),
    };
    let len = body.len();
    Ok(format!(
        "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {len}\r\nConnection: close\r\n\r\n{body}"
    )
    .into_bytes())
}

/// The metrics in Prometheus' text form, under Falco's names.
fn exposition(shown: &Shown) -> String {
    let mut out = String::new();
    let counters = [
        ("falcosecurity_falco_rules_matches_total", "alerts of all rules", &shown.alerts),
        ("falcosecurity_scap_n_evts_total", "events that were processed", &shown.events),
        ("falcosecurity_scap_n_drops_total", "events that were dropped", &shown.dropped),
        ("falcosecurity_falco_rules_loaded_total", "rules that are tried", &shown.rules),
        ("falcosecurity_falco_worker_stalls_total", "stalls of the worker", &shown.stalls),
        (
            "falcosecurity_scap_n_enter_storage_failed_total",
            "readings at the entry of a call without memory",
            &shown.storage_failed,
        ),
        (
            "falcosecurity_scap_n_ia32_unmapped_total",
            "calls of 32 bits that programs of 64 bits do not have",
            &shown.unmapped_ia32,
        ),
    ];
    for (name, help, value) in counters {
        let value = value.load(Relaxed);
        out.push_str(&format!("# HELP {name} {help}\n# TYPE {name} counter\n{name} {value}\n"));
    }
    let name = "falcosecurity_scap_n_drops_buffer_total";
    out.push_str(&format!(
        "# HELP {name} events that found no space, by class\n# TYPE {name} counter\n"
    ));
    for (class, value) in Class::ALL.into_iter().zip(&shown.shed) {
        let (class, value) = (class.name(), value.load(Relaxed));
        out.push_str(&format!("{name}{{dir=\"exit\",drop=\"{class}\"}} {value}\n"));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    /// More clients that say nothing than have a place, all before one that asks: it is answered at once, not after their
    /// patience.
    #[test]
    fn silent_clients_keep_nobody_waiting() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let settings = WebSettings {
            address: "127.0.0.1".to_owned(),
            port,
            health_path: "/healthz".to_owned(),
            has_metrics: true,
            certificate: None,
        };
        let web = Web::start(listener, &settings, Arc::default()).unwrap();
        let connect = || TcpStream::connect(("127.0.0.1", port)).unwrap();
        let silent: Vec<TcpStream> = (0..WEB_CLIENTS_MAX + 40).map(|_| connect()).collect();
        for (path, words) in [("healthz", "\"ok\""), ("metrics", "falcosecurity_"), ("x", "404")] {
            let mut stream = connect();
            stream.set_read_timeout(Some(Duration::from_secs(WEB_WAIT_S - 1))).unwrap();
            stream.write_all(format!("GET /{path} HTTP/1.1\r\n\r\n").as_bytes()).unwrap();
            let mut answer = String::new();
            stream.read_to_string(&mut answer).unwrap();
            assert!(answer.contains(words), "{path}: {answer}");
        }
        drop(web);
        // Nothing stays open.
        for mut stream in silent {
            assert!(matches!(stream.read(&mut [0]), Ok(0) | Err(_)));
        }
    }
}
