//! The name that a request is for: TLS's server name, HTTP's `Host`, and what `CONNECT` asks a proxy for.
//!
//! A program that calls home behind a content network, or through a proxy, changes the address it talks to but not
//! the name. So names are pairs of their own, as in RITA 5.

use crate::limits::NAME_BYTES_MAX;
use crate::sketch::{hash_text, mix};
use gabion_record::Ip;
use gabion_record::logs::Body;

/// Where a hash of a name goes: the site's table of addresses has names too, in the unassigned eighth that begins
/// with 111.
const AS_IP: u8 = 0xe0;

/// The host that a request is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Called<'a> {
    /// The name, as it was written, without a port and a dot at its end.
    pub name: &'a [u8],
    /// It goes through a proxy, so that the destination is not the one that is called.
    pub is_proxied: bool,
    /// The port at the destination of a proxied request, 0 if it is not given. Without a proxy
    /// it is the port of the flow, and 0 here.
    pub port: u16,
}

impl Called<'_> {
    /// A hash of the name that does not depend on capitals.
    pub(crate) fn hash(&self) -> u64 {
        let mut lower = [0; NAME_BYTES_MAX];
        let Some(place) = lower.get_mut(..self.name.len()) else { return hash_text(self.name) };
        place.copy_from_slice(self.name);
        place.make_ascii_lowercase();
        hash_text(place)
    }

    /// A number of an address' size, for tables by address.
    pub(crate) fn as_ip(&self) -> Ip {
        let hash = self.hash();
        let mut bytes = [0; 16];
        bytes[..8].copy_from_slice(&hash.to_be_bytes());
        bytes[8..].copy_from_slice(&mix(hash).to_be_bytes());
        bytes[0] = AS_IP | bytes[0] >> 3;
        Ip::from_bytes(bytes)
    }
}

/// The name of a request or a handshake, where it has one. An address is a name only behind a proxy: otherwise it
/// is the flow's own end.
pub(crate) fn called<'a>(body: &Body<'a>) -> Option<Called<'a>> {
    let (text, is_proxied) = match body {
        Body::Ssl(s) => (s.server_name, false),
        Body::Http(h) if h.method == b"CONNECT" => {
            (if h.uri.is_empty() { h.host } else { h.uri }, true)
        }
        Body::Http(h) => {
            (h.host, h.uri.get(..7).is_some_and(|u| u.eq_ignore_ascii_case(b"http://")))
        }
        _ => return None,
    };
    let name = without_port(text);
    let name = name.strip_suffix(b".").unwrap_or(name);
    let is_word = |b: &u8| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'-' | b'_' | b':');
    if name.is_empty() || name.len() > NAME_BYTES_MAX || !name.iter().all(is_word) {
        return None;
    }
    let port = if let (Body::Http(h), true) = (body, is_proxied) {
        let default_port = if h.method == b"CONNECT" { 0 } else { 80 };
        port_of(text).unwrap_or(default_port)
    } else {
        0
    };
    (is_proxied || Ip::parse(name).is_none()).then_some(Called { name, is_proxied, port })
}

/// The port after a name or an address.
fn port_of(text: &[u8]) -> Option<u16> {
    let port = text.strip_prefix(with_brackets(text))?.strip_prefix(b":")?;
    std::str::from_utf8(port).ok()?.parse().ok()
}

/// A name or an address with its brackets, without the port.
fn with_brackets(text: &[u8]) -> &[u8] {
    match text.iter().position(|b| *b == b']') {
        Some(end) if text.starts_with(b"[") => text.get(..=end).unwrap_or_default(),
        _ => without_port(text),
    }
}

fn without_port(text: &[u8]) -> &[u8] {
    // An address of IPv6 is in brackets.
    if let Some(rest) = text.strip_prefix(b"[") {
        return rest.split(|b| *b == b']').next().unwrap_or_default();
    }
    let mut parts = text.split(|b| *b == b':');
    match (parts.next(), parts.next(), parts.next()) {
        (Some(name), Some(_), None) => name,
        _ => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gabion_record::logs::{Http, Ssl};

    #[test]
    fn names_are_those_that_requests_are_for() {
        let http = |method: &'static str, host: &'static str, uri: &'static str| {
            let (method, host, uri) = (method.as_bytes(), host.as_bytes(), uri.as_bytes());
            called(&Body::Http(Http { method, host, uri, ..Http::default() }))
                .map(|c| (String::from_utf8_lossy(c.name).into_owned(), c.is_proxied))
        };
        let some = |name: &str, is_proxied| Some((name.to_owned(), is_proxied));
        assert_eq!(http("GET", "a.example:8080", "/"), some("a.example", false));
        assert_eq!(http("GET", "a.example.", "http://a.example/x"), some("a.example", true));
        assert_eq!(http("CONNECT", "proxy", "b.example:443"), some("b.example", true));
        assert_eq!(http("CONNECT", "b.example:443", ""), some("b.example", true));
        assert_eq!(http("CONNECT", "", "192.0.2.1:443"), some("192.0.2.1", true));
        assert_eq!(http("CONNECT", "", "[2001:db8::1]:443"), some("2001:db8::1", true));
        let port = |method: &'static str, host: &'static str, uri: &'static str| {
            let (method, host, uri) = (method.as_bytes(), host.as_bytes(), uri.as_bytes());
            called(&Body::Http(Http { method, host, uri, ..Http::default() })).map(|c| c.port)
        };
        assert_eq!(port("CONNECT", "proxy:3128", "b.example:8443"), Some(8443));
        assert_eq!(port("CONNECT", "", "[2001:db8::1]:443"), Some(443));
        assert_eq!(port("CONNECT", "", "b.example"), Some(0));
        assert_eq!(port("GET", "a.example", "http://a.example/x"), Some(80));
        assert_eq!(port("GET", "a.example:81", "http://a.example:81/x"), Some(81));
        assert_eq!(port("GET", "a.example:81", "/x"), Some(0));
        assert_eq!(http("GET", "192.0.2.1", "/"), None);
        assert_eq!(http("GET", "", "/"), None);
        assert_eq!(http("GET", "a b", "/"), None);
        let ssl = Ssl { server_name: b"C.Example", ..Ssl::default() };
        let named = called(&Body::Ssl(ssl)).unwrap();
        let lower = Called { name: b"c.example", is_proxied: false, port: 0 };
        assert_eq!((named.hash(), named.as_ip()), (lower.hash(), lower.as_ip()));
        assert!(!named.as_ip().is_v4());
    }
}
