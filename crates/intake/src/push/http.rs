//! One HTTP POST to a witness or another receiver: over TCP or TLS, with a bound on time and on what is read.

use crate::error::{Error as Fault, Result};
use crate::limits::{KEY_FILE_BYTES_MAX, WITNESS_ANSWER_MAX, WITNESS_MAX};
use crate::tls::{read_certificates, read_key};
use gabion_runtime::clock::now;
use gabion_runtime::operator_file;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};
use std::io::{self, Error, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// A witness answers within this, for each read and write.
const PATIENCE: Duration = Duration::from_secs(10);
/// Where the system keeps the certificates of authorities.
const SYSTEM_ROOTS: &str = "/etc/ssl/certs/ca-certificates.crt";

/// An address of the web, as far as a witness needs one: `http[s]://host[:port][/path]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Url {
    is_tls: bool,
    host: String,
    port: u16,
    path: String,
}

/// Why a text is no address of a witness.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UrlError {
    /// It has another scheme.
    #[error("write an address that begins with https:// or http://")]
    Scheme,
    /// Its port is none.
    #[error("{0} is not a port")]
    Port(String),
    /// It has no host, or what no host has.
    #[error("write an address with a host, without a user and without spaces")]
    Host,
}

impl Url {
    /// Whether it is reached over TLS.
    pub(crate) const fn is_tls(&self) -> bool {
        self.is_tls
    }
}

impl std::str::FromStr for Url {
    type Err = UrlError;

    fn from_str(text: &str) -> std::result::Result<Url, UrlError> {
        let (is_tls, rest) = match (text.strip_prefix("https://"), text.strip_prefix("http://")) {
            (Some(rest), _) => (true, rest),
            (_, Some(rest)) => (false, rest),
            _ => return Err(UrlError::Scheme),
        };
        let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
        let (host, port) = match authority.strip_prefix('[').and_then(|a| a.split_once(']')) {
            Some((host, port)) => (host, port.strip_prefix(':')),
            None => authority.split_once(':').map_or((authority, None), |(h, p)| (h, Some(p))),
        };
        let port = match port {
            Some(port) => port.parse().map_err(|_| UrlError::Port(port.to_owned()))?,
            None if is_tls => 443,
            None => 80,
        };
        if host.is_empty() || text.bytes().any(|b| b <= b' ' || b == 0x7f || b == b'@') {
            return Err(UrlError::Host);
        }
        let path = path.trim_end_matches('/').to_owned();
        Ok(Url { is_tls, host: host.to_owned(), port, path })
    }
}

impl std::fmt::Display for Url {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let scheme = if self.is_tls { "https" } else { "http" };
        write!(f, "{scheme}://{}:{}{}", self.host, self.port, self.path)
    }
}

/// Trust in certificates of these authorities, or of the system's.
///
/// # Errors
/// When they can't be read.
pub(super) fn trust(authorities: Option<&Path>) -> Result<Arc<ClientConfig>> {
    trust_and_show(authorities, None)
}

/// The same; `shown` is a certificate, with its key, that the other side may ask for.
fn trust_and_show(
    authorities: Option<&Path>,
    shown: Option<(&Path, &Path)>,
) -> Result<Arc<ClientConfig>> {
    const WANTED: &str = "name a PEM file with certificates of authorities";
    let path = authorities.unwrap_or(Path::new(SYSTEM_ROOTS));
    let wrong = |e: &dyn std::fmt::Display| Fault::file(path, e, WANTED);
    let mut roots = RootCertStore::empty();
    let pem = operator_file::bytes(path, KEY_FILE_BYTES_MAX).map_err(|e| wrong(&e))?;
    for certificate in CertificateDer::pem_slice_iter(&pem) {
        // One of the system's that this library does not take is no reason to trust none.
        let added = roots.add(certificate.map_err(|e| wrong(&e))?);
        if authorities.is_some() {
            added.map_err(|e| wrong(&e))?;
        }
    }
    if authorities.is_some() && roots.is_empty() {
        return Err(wrong(&"holds no certificate"));
    }
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let builder = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|e| wrong(&e))?;
    let builder = builder.with_root_certificates(roots);
    let Some((certificate, key)) = shown else {
        return Ok(Arc::new(builder.with_no_client_auth()));
    };
    let chain = read_certificates(certificate)?;
    let config = builder.with_client_auth_cert(chain, read_key(key)?);
    config.map(Arc::new).map_err(|e| Fault::file(certificate, e, "name the certificate of the key"))
}

/// Posts to one receiver, each time over a connection of its own.
#[derive(Clone, Debug)]
pub struct HttpClient {
    url: Url,
    trusted: Option<Arc<ClientConfig>>,
    user_agent: String,
}

impl HttpClient {
    /// A client of the receiver at `url`, whose certificate must come from one of `authorities` (the system's, if none are
    /// named); `shown` is the client's own certificate with its key.
    ///
    /// # Errors
    /// A file of certificates can't be used.
    pub fn new(
        url: Url,
        authorities: Option<&Path>,
        shown: Option<(&Path, &Path)>,
        user_agent: &str,
    ) -> Result<HttpClient> {
        let trusted = if url.is_tls { Some(trust_and_show(authorities, shown)?) } else { None };
        Ok(HttpClient { url, trusted, user_agent: user_agent.to_owned() })
    }

    /// Posts a body of this type; the status of the answer.
    ///
    /// # Errors
    /// The receiver can't be reached, or does not answer in time.
    pub fn post(&self, body: &[u8], content_type: &str) -> io::Result<u16> {
        let path = if self.url.path.is_empty() { "/" } else { &self.url.path };
        let user_agent: String = self.user_agent.chars().filter(|c| !c.is_control()).collect();
        let headers = format!("User-Agent: {user_agent}\r\nContent-Type: {content_type}\r\n");
        let request = Request { path, headers: &headers, body };
        exchange(&self.url, &request, self.trusted.as_ref()).map(|(status, _)| status)
    }
}

/// What is posted.
struct Request<'a> {
    path: &'a str,
    /// Headers of its own, each with its line end.
    headers: &'a str,
    body: &'a [u8],
}

/// A connection that is closed when its time is over, however slowly bytes go and come.
struct Bounded {
    stream: TcpStream,
    end: Instant,
}

impl Bounded {
    /// What is left of the time for one read or write.
    fn left(&self) -> io::Result<Option<Duration>> {
        match self.end.saturating_duration_since(now()) {
            Duration::ZERO => Err(io::ErrorKind::TimedOut.into()),
            left => Ok(Some(left.min(PATIENCE))),
        }
    }
}

impl Read for Bounded {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        self.stream.set_read_timeout(self.left()?)?;
        self.stream.read(buf)
    }
}

impl Write for Bounded {
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        self.stream.set_write_timeout(self.left()?)?;
        self.stream.write(buf)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.stream.flush()
    }
}

/// Posts a body to a path below the address; status and body of the answer.
pub(crate) fn post(
    url: &Url,
    below: &str,
    body: &str,
    trusted: Option<&Arc<ClientConfig>>,
) -> io::Result<(u16, String)> {
    let headers = "Content-Type: text/plain; charset=utf-8\r\n";
    let path = format!("{}/{below}", url.path);
    exchange(url, &Request { path: &path, headers, body: body.as_bytes() }, trusted)
}

/// Sends a request; status and body of the answer.
fn exchange(
    url: &Url,
    request: &Request<'_>,
    trusted: Option<&Arc<ClientConfig>>,
) -> io::Result<(u16, String)> {
    let end = now() + WITNESS_MAX;
    let mut last = Error::other("the name has no address");
    for address in (url.host.as_str(), url.port).to_socket_addrs()? {
        match TcpStream::connect_timeout(&address, PATIENCE) {
            Ok(stream) => {
                let stream = Bounded { stream, end };
                let Some(trusted) = trusted.filter(|_| url.is_tls) else {
                    return speak(stream, url, request);
                };
                let name = ServerName::try_from(url.host.clone()).map_err(Error::other)?;
                let session =
                    ClientConnection::new(Arc::clone(trusted), name).map_err(Error::other)?;
                return speak(StreamOwned::new(session, stream), url, request);
            }
            Err(e) => last = e,
        }
    }
    Err(last)
}

fn speak(
    mut stream: impl Read + Write,
    url: &Url,
    request: &Request<'_>,
) -> io::Result<(u16, String)> {
    let host = if url.host.contains(':') { format!("[{}]", url.host) } else { url.host.clone() };
    // In the older version of the protocol an answer is never cut into chunks.
    let mut bytes = format!(
        "POST {} HTTP/1.0\r\nHost: {host}:{}\r\n{}Content-Length: {}\r\nConnection: close\r\n\r\n",
        request.path,
        url.port,
        request.headers,
        request.body.len()
    )
    .into_bytes();
    bytes.extend_from_slice(request.body);
    stream.write_all(&bytes)?;
    stream.flush()?;
    let mut answer = Vec::new();
    match stream.take(WITNESS_ANSWER_MAX).read_to_end(&mut answer) {
        // Some servers end a session of TLS without saying so; what came is judged by its form.
        Err(e) if e.kind() == io::ErrorKind::UnexpectedEof => {}
        other => drop(other?),
    }
    read_answer(&answer).ok_or_else(|| Error::other("the answer does not follow HTTP"))
}

fn read_answer(answer: &[u8]) -> Option<(u16, String)> {
    let text = std::str::from_utf8(answer).ok()?;
    let (head, body) = text.split_once("\r\n\r\n")?;
    let status = head.strip_prefix("HTTP/1.")?.get(2..5)?.parse().ok()?;
    let len = head.lines().find_map(|l| {
        let (name, value) = l.split_once(':')?;
        name.eq_ignore_ascii_case("content-length").then(|| value.trim().parse::<usize>().ok())?
    });
    Some((status, body.get(..len.unwrap_or(body.len()))?.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read() {
        for (text, shown) in [
            ("https://witness.example/w/1/", "https://witness.example:443/w/1"),
            ("http://127.0.0.1:8080", "http://127.0.0.1:8080"),
            ("http://[::1]:9/x", "http://::1:9/x"),
        ] {
            assert_eq!(text.parse::<Url>().unwrap().to_string(), shown);
        }
        for wrong in
            ["", "ftp://a", "witness.example", "http://", "http://a:b", "http://u@h/", "http://a b"]
        {
            assert!(wrong.parse::<Url>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn answers_are_read_whole_or_not_at_all() {
        let answer =
            b"HTTP/1.0 409 Conflict\r\nContent-type: x\r\nContent-LENGTH: 3\r\n\r\n17\nrest";
        assert_eq!(read_answer(answer), Some((409, "17\n".to_owned())));
        assert_eq!(read_answer(b"HTTP/1.1 200 OK\r\n\r\nall"), Some((200, "all".to_owned())));
        for wrong in [
            &b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nall"[..],
            b"",
            b"SSH-2.0-x\r\n\r\n",
            b"HTTP/1.1 2",
        ] {
            assert_eq!(read_answer(wrong), None);
        }
    }
}
