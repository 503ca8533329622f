//! Session descriptions (SDP, RFC 4566).
//!
//! Version, origin and session name must come first. What follows is taken as it comes: Suricata
//! demands the standard's order and narrow alphabets, and drops descriptions whose session name is
//! `-`, the one most telephones send. Lines of unknown kinds are passed over.

use super::limits::reached;
use super::message::Span;

/// A description.
#[derive(Debug, Default)]
pub struct Description {
    bytes: Box<[u8]>,
    /// `o=`
    pub origin: Span,
    /// `s=`
    pub session_name: Span,
    /// `u=`
    pub uri: Option<Span>,
    /// `e=`
    pub email: Option<Span>,
    /// `p=`
    pub phone_number: Option<Span>,
    /// `t=`, each with its first `r=`.
    pub times: Vec<(Span, Option<Span>)>,
    /// `z=`
    pub timezone: Option<Span>,
    /// What holds for the session.
    pub session: Section,
    /// `m=`, each with what holds for it.
    pub media: Vec<(Span, Section)>,
}

/// What may be given for the session and for each of its media.
#[derive(Debug, Default)]
pub struct Section {
    /// `i=`
    pub information: Option<Span>,
    /// `c=`
    pub connection: Option<Span>,
    /// `b=`
    pub bandwidths: Vec<Span>,
    /// `k=`
    pub key: Option<Span>,
    /// `a=`
    pub attributes: Vec<Span>,
}

impl Section {
    fn take_line(&mut self, kind: u8, value: Span) {
        let first = |slot: &mut Option<Span>| {
            slot.get_or_insert(value);
        };
        let more = |list: &mut Vec<Span>| {
            if reached::LINES_KEPT_MAX.has_room(list.len()) {
                list.push(value);
            }
        };
        match kind {
            b'i' => first(&mut self.information),
            b'c' => first(&mut self.connection),
            b'k' => first(&mut self.key),
            b'b' => more(&mut self.bandwidths),
            b'a' => more(&mut self.attributes),
            _ => {}
        }
    }

    fn bytes_held(&self) -> usize {
        (self.bandwidths.capacity() + self.attributes.capacity()) * size_of::<Span>()
    }
}

impl Description {
    /// Reads a description; `None`: the bytes are none.
    pub fn parse(bytes: &[u8]) -> Option<Description> {
        let mut lines = Lines { bytes, at: 0 };
        let (b'v', version) = lines.next()? else { return None };
        if bytes.get(version.from as usize..version.to as usize) != Some(b"0") {
            return None;
        }
        let (b'o', origin) = lines.next()? else { return None };
        let (b's', session_name) = lines.next()? else { return None };
        let mut d = Description { origin, session_name, ..Description::default() };
        for (kind, value) in lines.by_ref() {
            d.take_line(kind, value);
        }
        d.bytes = bytes.get(..lines.at).unwrap_or_default().into();
        Some(d)
    }

    fn take_line(&mut self, kind: u8, value: Span) {
        let is_session = self.media.is_empty();
        match kind {
            b'm' if reached::MEDIA_KEPT_MAX.has_room(self.media.len()) => {
                self.media.push((value, Section::default()));
            }
            _ if !is_session => {
                if let Some((_, section)) = self.media.last_mut() {
                    section.take_line(kind, value);
                }
            }
            b'u' => _ = self.uri.get_or_insert(value),
            b'e' => _ = self.email.get_or_insert(value),
            b'p' => _ = self.phone_number.get_or_insert(value),
            b'z' => _ = self.timezone.get_or_insert(value),
            b't' if reached::LINES_KEPT_MAX.has_room(self.times.len()) => {
                self.times.push((value, None))
            }
            b'r' => {
                if let Some((_, repeat)) = self.times.last_mut() {
                    repeat.get_or_insert(value);
                }
            }
            _ => self.session.take_line(kind, value),
        }
    }

    /// The bytes of a place.
    pub fn bytes(&self, span: Span) -> &[u8] {
        self.bytes.get(span.from as usize..span.to as usize).unwrap_or_default()
    }

    /// Bytes held in addition to the description itself.
    pub fn bytes_held(&self) -> usize {
        self.bytes.len()
            + self.times.capacity() * size_of::<(Span, Option<Span>)>()
            + self.media.capacity() * size_of::<(Span, Section)>()
            + self.session.bytes_held()
            + self.media.iter().map(|(_, section)| section.bytes_held()).sum::<usize>()
    }
}

/// Lines `x=value`, up to the first that is none.
struct Lines<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl Iterator for Lines<'_> {
    type Item = (u8, Span);

    fn next(&mut self) -> Option<(u8, Span)> {
        let rest = self.bytes.get(self.at..)?;
        let [kind, b'=', ..] = rest else { return None };
        let end = memchr::memchr(b'\n', rest);
        let line = rest.get(..end.unwrap_or(rest.len()))?;
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        let value = Span { from: self.at as u32 + 2, to: (self.at + line.len()) as u32 };
        self.at += end.map_or(rest.len(), |end| end + 1);
        Some((*kind, value))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The example of RFC 4566 5, with what it leaves out.
    const FULL: &[u8] = b"v=0\r\no=j 1 2 IN IP4 1.1.1.1\r\ns=-\r\ni=info\r\nu=http://x\r\ne=a@b\r\n\
        p=+1\r\nc=IN IP4 2.2.2.2\r\nb=AS:1\r\nb=CT:2\r\nt=0 0\r\nr=7d 1h 0\r\nt=1 1\r\nz=1 -1h\r\n\
        k=prompt\r\na=one\r\na=two\r\nm=audio 1 RTP/AVP 0\r\ni=mi\r\na=m1\r\nm=video 2 RTP/AVP 1\r\n\
        c=IN IP4 3.3.3.3\r\n\r\nrest";

    #[test]
    fn lines_find_their_places() {
        let d = Description::parse(FULL).unwrap();
        let text = |span: Span| String::from_utf8_lossy(d.bytes(span)).into_owned();
        let one = |span: Option<Span>| span.map(text);
        assert_eq!(
            (text(d.origin), text(d.session_name)),
            ("j 1 2 IN IP4 1.1.1.1".into(), "-".into())
        );
        assert_eq!(one(d.session.information), Some("info".into()));
        assert_eq!(one(d.session.connection), Some("IN IP4 2.2.2.2".into()));
        assert_eq!(one(d.timezone), Some("1 -1h".into()));
        let times: Vec<_> = d.times.iter().map(|(t, r)| (text(*t), one(*r))).collect();
        assert_eq!(times, [("0 0".into(), Some("7d 1h 0".into())), ("1 1".into(), None)]);
        assert_eq!(
            d.session.attributes.iter().map(|a| text(*a)).collect::<Vec<_>>(),
            ["one", "two"]
        );
        let media: Vec<_> = d
            .media
            .iter()
            .map(|(m, s)| (text(*m), one(s.information), one(s.connection)))
            .collect();
        assert_eq!(
            media,
            [
                ("audio 1 RTP/AVP 0".into(), Some("mi".into()), None),
                ("video 2 RTP/AVP 1".into(), None, Some("IN IP4 3.3.3.3".into()))
            ]
        );
    }

    #[test]
    fn what_is_no_description() {
        for bytes in
            [&b""[..], b"v=1\r\no=x\r\ns=y\r\n", b"v=0\r\ns=y\r\no=x\r\n", b"hello", b"v=0"]
        {
            assert!(Description::parse(bytes).is_none(), "{bytes:?}");
        }
    }
}
