//! Metrics for Prometheus: one thread, GET only, on the machine's own address.

use gabion_runtime::StopFlag;
use gabion_runtime::metrics::Metrics;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::time::{Duration, Instant};

/// Longest request that is read.
const REQUEST_MAX: usize = 8 * 1024;

/// A client is given so long.
const PATIENCE: Duration = Duration::from_secs(5);

/// Answers until told to stop.
pub(crate) fn serve(listener: &TcpListener, metrics: &Metrics, stop: &StopFlag) {
    while !stop.is_set() {
        match listener.accept() {
            // A client that goes away is no fault of ours.
            Ok((stream, _)) => drop(answer(stream, metrics)),
            Err(_) => std::thread::sleep(Duration::from_millis(50)),
        }
    }
}

fn answer(mut stream: TcpStream, metrics: &Metrics) -> std::io::Result<()> {
    stream.set_nonblocking(false)?;
    stream.set_read_timeout(Some(Duration::from_secs(1)))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    let began = Instant::now();
    let mut request = Vec::new();
    let mut piece = [0; 1024];
    while !request.windows(4).any(|w| w == b"\r\n\r\n") {
        let n = stream.read(&mut piece)?;
        if n == 0 || request.len() > REQUEST_MAX || began.elapsed() > PATIENCE {
            return Ok(());
        }
        request.extend_from_slice(&piece[..n]);
    }
    let (status, body) = if request.starts_with(b"GET /metrics ") {
        ("200 OK", metrics.exposition())
    } else if request.starts_with(b"GET /healthz ") {
        ("200 OK", "ok\n".to_owned())
    } else {
        ("404 Not Found", "metrics are at /metrics\n".to_owned())
    };
    let kind = "text/plain; version=0.0.4; charset=utf-8";
    write!(
        stream,
        "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}",
        body.len()
    )
}
