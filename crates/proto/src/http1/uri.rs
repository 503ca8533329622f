//! Taking a request target apart and putting the normalized URI together.
//!
//! The target comes in four forms (RFC 9112 3.2): a path, an absolute URI (to proxies), an
//! authority (CONNECT) and `*`. Rules look at path, query and fragment, decoded
//! (`super::decode`), so that a proxy's request and a direct one look the same.

use super::decode::{Decoding, decode_part, decode_path};
use super::text::{prefix, split_prefix, trim_end};

/// The parts of a URI as written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Uri<'a> {
    pub(crate) scheme: Option<&'a [u8]>,
    pub(crate) user: Option<&'a [u8]>,
    pub(crate) password: Option<&'a [u8]>,
    pub(crate) host: Option<&'a [u8]>,
    pub(crate) port: Option<&'a [u8]>,
    pub(crate) path: Option<&'a [u8]>,
    pub(crate) query: Option<&'a [u8]>,
    pub(crate) fragment: Option<&'a [u8]>,
}

/// Takes a URI apart. Never fails: what fits nowhere is path.
pub(crate) fn split(text: &[u8]) -> Uri<'_> {
    let mut uri = Uri::default();
    let mut rest = text;
    if rest.first() != Some(&b'/')
        && let Some(colon) = rest.iter().position(|b| *b == b':')
    {
        uri.scheme = Some(&rest[..colon]);
        rest = authority(&rest[colon + 1..], &mut uri);
    }
    let (path, after) = split_prefix(rest, |b| b != b'#' && b != b'?');
    uri.path = (!path.is_empty()).then_some(path);
    rest = after;
    if let [b'?', tail @ ..] = rest {
        let (query, after) = split_prefix(tail, |b| b != b'#');
        uri.query = Some(query);
        rest = after;
    }
    if let [b'#', tail @ ..] = rest {
        uri.fragment = Some(tail);
    }
    uri
}

/// Reads `[//[user[:password]@]host[:port]]` and returns what follows it.
fn authority<'a>(text: &'a [u8], uri: &mut Uri<'a>) -> &'a [u8] {
    let mut rest = text;
    let begins = rest.starts_with(b"//");
    let body = if begins { &rest[2..] } else { rest };
    if begins && body.first() != Some(&b'/') {
        let end = prefix(body, |b| !matches!(b, b'/' | b'?' | b'#'));
        if let Some(at) = body[..end].iter().position(|b| *b == b'@') {
            let credentials = &body[..at];
            match credentials.iter().position(|b| *b == b':') {
                Some(colon) => {
                    uri.user = Some(&credentials[..colon]);
                    uri.password = Some(&credentials[colon + 1..]);
                }
                None => uri.user = Some(credentials),
            }
            rest = &body[at + 1..];
        }
    }
    if let Some((host, after)) = host(rest) {
        uri.host = Some(host);
        rest = after;
        if let Some((port, after)) = port(rest) {
            uri.port = Some(port);
            rest = after;
        }
    }
    rest
}

/// Reads a host (`//` before it allowed) and returns it with what follows it.
fn host(text: &[u8]) -> Option<(&[u8], &[u8])> {
    let text = text.strip_prefix(b"//").unwrap_or(text);
    if text.first() == Some(&b'/') {
        return None;
    }
    let (_, text) = split_prefix(text, |b| b == b' ');
    let mut len = 0;
    if let [b'[', inner @ ..] = text {
        let n = prefix(inner, |b| !matches!(b, b'/' | b'?' | b']' | b'#'));
        if n > 0 {
            len = 1 + n + usize::from(inner.get(n) == Some(&b']'));
        }
    }
    if len == 0 {
        len = prefix(text, |b| !matches!(b, b'/' | b'?' | b'#' | b':'));
    }
    let (mut host, rest) = text.split_at(len);
    if host.is_empty() {
        return None;
    }
    while let [head @ .., b' '] = host {
        host = head;
    }
    Some((host, rest))
}

/// Reads `:port`.
fn port(text: &[u8]) -> Option<(&[u8], &[u8])> {
    let rest = text.strip_prefix(b":")?;
    let (_, rest) = split_prefix(rest, |b| b == b' ');
    let (port, rest) = split_prefix(rest, |b| !matches!(b, b'/' | b'?' | b'#'));
    let (port, _) = split_prefix(port, |b| b != b' ');
    (!port.is_empty()).then_some((port, rest))
}

/// The number of a port, 1 to 65,535.
pub(crate) fn port_number(port: &[u8]) -> Option<u16> {
    super::text::decimal(port).and_then(|n| u16::try_from(n).ok()).filter(|n| *n != 0)
}

/// A host with a port as in the Host field and in CONNECT's target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct HostPort<'a> {
    /// The host as written.
    pub(crate) host: &'a [u8],
    /// A port was written.
    pub(crate) has_port: bool,
    /// Its number, when it is one.
    pub(crate) port: Option<u16>,
    /// Both are as they should be.
    pub(crate) is_valid: bool,
}

/// Reads `host[:port]`.
pub(crate) fn host_port(text: &[u8]) -> Option<HostPort<'_>> {
    let (name, rest) = host(text)?;
    let mut is_valid = is_valid_host(name);
    match port(rest) {
        Some((digits, _)) => {
            let port = port_number(digits);
            is_valid &= port.is_some();
            Some(HostPort { host: name, has_port: true, port, is_valid })
        }
        None => {
            is_valid &= rest.is_empty();
            Some(HostPort { host: name, has_port: false, port: None, is_valid })
        }
    }
}

/// Whether it could be a host name (underscores allowed, they occur) or an IPv6 address in
/// brackets.
pub(crate) fn is_valid_host(host: &[u8]) -> bool {
    if host.is_empty() || host.len() > 255 {
        return false;
    }
    if let [b'[', inner @ .., b']'] = host
        && !inner.is_empty()
        && !inner.iter().any(|b| matches!(b, b'#' | b'?' | b'/' | b']'))
        && let Ok(text) = std::str::from_utf8(inner)
    {
        return text.parse::<std::net::Ipv6Addr>().is_ok();
    }
    if host[0] == b'.' || memchr::memmem::find(host, b"..").is_some() {
        return false;
    }
    host.split(|b| *b == b'.').all(|label| {
        // Latin-1 letters pass, as in Suricata.
        let fits = |b: &u8| *b == b'_' || *b == b'-' || (*b as char).is_alphanumeric();
        label.len() <= 63 && label.iter().all(fits)
    })
}

/// A normalized URI.
#[derive(Clone, Debug, Default)]
pub(crate) struct Normalized {
    /// What `http.uri` holds; `None` when there is no path, query or fragment.
    pub(crate) text: Option<Vec<u8>>,
    /// The decoded path alone (decoded once): names of files come from it.
    pub(crate) path: Option<Vec<u8>>,
    /// The decoded host, lower case, without dots at its end.
    pub(crate) host: Option<Vec<u8>>,
    /// The port, when a valid one was written.
    pub(crate) port: Option<u16>,
    /// Host or port can't be.
    pub(crate) is_host_invalid: bool,
    /// Decoding a second time changed path or query.
    pub(crate) is_double_encoded: bool,
}

/// Normalizes a URI.
pub(crate) fn normalize(uri: &Uri<'_>, how: &Decoding) -> Normalized {
    let mut n = Normalized::default();
    let decoded = |part: &[u8]| {
        let mut out = Vec::with_capacity(part.len());
        decode_part(part, how, &mut out);
        out
    };
    n.host = uri.host.map(|h| {
        let mut host = decoded(h);
        host.make_ascii_lowercase();
        while host.last() == Some(&b'.') {
            host.pop();
        }
        host
    });
    if let Some(port) = uri.port {
        n.port = port_number(port);
        n.is_host_invalid |= n.port.is_none();
    }
    n.is_host_invalid |= n.host.as_ref().is_some_and(|h| !is_valid_host(h));

    let mut text = Vec::new();
    if how.include_all {
        if let Some(scheme) = uri.scheme {
            text.extend(scheme.iter().map(u8::to_ascii_lowercase));
            text.extend_from_slice(b"://");
        }
        if uri.user.is_some() || uri.password.is_some() {
            text.extend(decoded(uri.user.unwrap_or_default()));
            text.push(b':');
            text.extend(decoded(uri.password.unwrap_or_default()));
            text.push(b'@');
        }
        text.extend_from_slice(n.host.as_deref().unwrap_or_default());
    }
    if let Some(path) = uri.path {
        let mut once = Vec::with_capacity(path.len());
        decode_path(path, how, &mut once);
        if how.double_decode_path {
            let twice = decoded(&once);
            n.is_double_encoded |= twice.len() < once.len();
            text.extend_from_slice(&twice);
        } else {
            text.extend_from_slice(&once);
        }
        n.path = Some(once);
    }
    if let Some(query) = uri.query {
        text.push(b'?');
        let once = decoded(query);
        if how.double_decode_query {
            let twice = decoded(&once);
            n.is_double_encoded |= twice.len() < once.len();
            text.extend_from_slice(&twice);
        } else {
            text.extend_from_slice(&once);
        }
    }
    if let Some(fragment) = uri.fragment {
        text.push(b'#');
        decode_part(fragment, how, &mut text);
    }
    n.text = (!text.is_empty()).then_some(text);
    n
}

/// Splits the rest of a request line after the method into target and protocol. Targets may hold
/// spaces: the protocol is what follows the last one, if anything does.
pub(crate) fn split_target(rest: &[u8], is_delimiter: impl Fn(u8) -> bool) -> (&[u8], &[u8]) {
    match rest.iter().rposition(|b| is_delimiter(*b)) {
        Some(at) => (super::text::trim(&rest[..at]), super::text::trim(&rest[at + 1..])),
        None => (trim_end(rest), &[]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn show(o: Option<&[u8]>) -> &str {
        o.map_or("-", |b| std::str::from_utf8(b).unwrap())
    }

    /// RFC 3986 and Suricata's HTTP library's own vectors.
    #[test]
    fn uris_are_taken_apart() {
        for (text, parts) in [
            (
                "http://user:pass@www.example.com:1234/path1/path2?a=b&c=d#frag",
                "http user pass www.example.com 1234 /path1/path2 a=b&c=d frag",
            ),
            ("http://host.com", "http - - host.com - - - -"),
            ("http://", "http - - - - // - -"),
            ("/path", "- - - - - /path - -"),
            ("http://user@host.com", "http user - host.com - - - -"),
            ("/p?u=http://x/", "- - - - - /p u=http://x/ -"),
            // An "@" after the authority is no credential.
            ("http://host.com/a?m=b@c", "http - - host.com - /a m=b@c -"),
            ("http://[::1]:80/x", "http - - [::1] 80 /x - -"),
        ] {
            let u = split(text.as_bytes());
            let got = [u.scheme, u.user, u.password, u.host, u.port, u.path, u.query, u.fragment]
                .map(show)
                .join(" ");
            assert_eq!(got, parts, "{text}");
        }
    }

    /// Suricata's HTTP library's own vectors.
    #[test]
    fn hosts_with_ports() {
        for (text, host, port, valid) in [
            ("www.example.com", "www.example.com", None, true),
            (" www.example.com ", "www.example.com", None, true),
            (" www.example.com:8001 ", "www.example.com", Some(8001), true),
            ("www.example.com:", "www.example.com", None, false),
            ("www.example.com:ff", "www.example.com", None, false),
            ("www.example.com:65536", "www.example.com", None, false),
            ("[::1]:8080", "[::1]", Some(8080), true),
            ("[::1]x", "[::1]", None, false),
            ("[::1", "[::1", None, false),
            ("www example com", "www example com", None, false),
            ("www..example.com", "www..example.com", None, false),
        ] {
            let h = host_port(text.as_bytes()).unwrap();
            assert_eq!((h.host, h.port, h.is_valid), (host.as_bytes(), port, valid), "{text}");
        }
    }

    #[test]
    fn double_encoding_is_noticed() {
        let how =
            Decoding { double_decode_path: true, double_decode_query: true, ..Decoding::default() };
        let n = normalize(&split(b"/%2561?%2562"), &how);
        assert_eq!(n.text.as_deref(), Some(&b"/a?b"[..]));
        assert!(n.is_double_encoded);
    }
}
