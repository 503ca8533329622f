//! The request that led from HTTP/1 to another protocol, as the engine hands it to that protocol's parser.
//!
//! A request that asks for HTTP/2 is the first stream's request there (RFC 7540 3.2), so HTTP/2 has to know it.

use super::message::Tx;

/// A request of HTTP/1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Handover<'a> {
    /// Its method.
    pub(crate) method: &'a [u8],
    /// Its target as sent.
    pub(crate) target: &'a [u8],
    fields: &'a [u8],
}

fn put_text(out: &mut Vec<u8>, text: &[u8]) {
    out.extend(u32::try_from(text.len()).unwrap_or(u32::MAX).to_be_bytes());
    out.extend_from_slice(text);
}

fn split_text(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (len, rest) = bytes.split_first_chunk::<4>()?;
    rest.split_at_checked(usize::try_from(u32::from_be_bytes(*len)).ok()?)
}

impl<'a> Handover<'a> {
    /// The request of a transaction in bytes.
    pub(super) fn encode(tx: &Tx) -> Vec<u8> {
        let mut out = Vec::new();
        put_text(&mut out, tx.method().unwrap_or_default());
        put_text(&mut out, tx.target().unwrap_or_default());
        for (name, value) in tx.request.headers.iter() {
            put_text(&mut out, name);
            put_text(&mut out, value);
        }
        out
    }

    /// Reads it again.
    pub(crate) fn decode(bytes: &'a [u8]) -> Option<Handover<'a>> {
        let (method, rest) = split_text(bytes)?;
        let (target, fields) = split_text(rest)?;
        Some(Handover { method, target, fields })
    }

    /// Names and values of its fields.
    pub(crate) fn fields(&self) -> impl Iterator<Item = (&'a [u8], &'a [u8])> {
        let mut rest = self.fields;
        std::iter::from_fn(move || {
            let (name, after) = split_text(rest)?;
            let (value, after) = split_text(after)?;
            rest = after;
            Some((name, value))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_read_again() {
        let mut bytes = Vec::new();
        for text in ["GET", "/a", "Host", "x", "A", ""] {
            put_text(&mut bytes, text.as_bytes());
        }
        let h = Handover::decode(&bytes).unwrap();
        assert_eq!((h.method, h.target), (&b"GET"[..], &b"/a"[..]));
        let fields: Vec<_> = h.fields().collect();
        assert_eq!(fields, [(&b"Host"[..], &b"x"[..]), (b"A", b"")]);
        assert_eq!(Handover::decode(&bytes[..5]), None);
    }
}
