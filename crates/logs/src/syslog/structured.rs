//! Structured data: `[id name="value" …]…`. Values stay as written; what is escaped in them (`\"`, `\\`,
//! `\]`) is the reader's to undo.

use crate::limits::reached;

/// One element.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Element<'a> {
    /// Its id.
    pub id: &'a [u8],
    params: &'a [u8],
}

impl<'a> Element<'a> {
    /// Its parameters, name and value as written.
    pub fn params(&self) -> impl Iterator<Item = (&'a [u8], &'a [u8])> + use<'a> {
        let (mut rest, mut given) = (self.params, 0);
        std::iter::from_fn(move || {
            rest = rest.trim_ascii_start();
            let (param, behind) = param(rest)?;
            if !reached::SD_PARAMS_MAX.has_room(given) {
                rest = &[];
                return None;
            }
            (rest, given) = (behind, given + 1);
            Some(param)
        })
    }
}

/// The elements of structured data that `end` has accepted.
pub fn elements(sd: &[u8]) -> impl Iterator<Item = Element<'_>> {
    let mut rest = sd;
    std::iter::from_fn(move || {
        let len = element_end(rest)?;
        let inside = &rest[1..len - 1];
        let id_len = memchr::memchr(b' ', inside).unwrap_or(inside.len());
        rest = &rest[len..];
        Some(Element { id: &inside[..id_len], params: &inside[id_len..] })
    })
}

/// Where structured data ends that begins here; `None` when it is none.
pub(super) fn end(text: &[u8]) -> Option<usize> {
    let mut at = 0;
    while text.get(at) == Some(&b'[') {
        at += element_end(&text[at..])?;
    }
    match text.get(at) {
        None | Some(b' ') if at > 0 => Some(at),
        // Text follows at once: seen, and what it is is clear.
        Some(_) if at > 0 => Some(at),
        _ => None,
    }
}

/// Length of the element at the beginning.
fn element_end(text: &[u8]) -> Option<usize> {
    let inside = text.strip_prefix(b"[")?;
    let id = inside.iter().take_while(|b| is_name(**b)).count();
    if id == 0 {
        return None;
    }
    let mut at = id;
    loop {
        match inside.get(at)? {
            b']' => return Some(at + 2),
            b' ' => {
                let spaces = inside[at..].iter().take_while(|b| **b == b' ').count();
                at += spaces;
                if inside.get(at) == Some(&b']') {
                    continue;
                }
                let (_, behind) = param(&inside[at..])?;
                at = inside.len() - behind.len();
            }
            _ => return None,
        }
    }
}

/// Name and value.
type Param<'a> = (&'a [u8], &'a [u8]);

/// Name and value at the beginning, and what follows.
fn param(text: &[u8]) -> Option<(Param<'_>, &[u8])> {
    let name = text.iter().take_while(|b| is_name(**b)).count();
    if name == 0 {
        return None;
    }
    let value = text[name..].strip_prefix(b"=\"")?;
    let mut at = 0;
    loop {
        at += memchr::memchr3(b'"', b'\\', b']', &value[at..])?;
        match value.get(at)? {
            b'"' => return Some(((&text[..name], &value[..at]), &value[at + 1..])),
            b'\\' => at += 2,
            // Not escaped: no value.
            _ => return None,
        }
        if at > value.len() {
            return None;
        }
    }
}

/// A byte of a name. Bytes above ASCII are let through: names are compared, not printed.
const fn is_name(byte: u8) -> bool {
    byte > b' ' && byte != 127 && !matches!(byte, b'=' | b'"' | b']')
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::SD_PARAMS_MAX;

    #[test]
    fn parameters_beyond_those_handed_out_are_counted() {
        let sd = format!("[x{}]", " a=\"b\"".repeat(SD_PARAMS_MAX + 9));
        let count = |sd: &str| elements(sd.as_bytes()).map(|e| e.params().count()).sum::<usize>();
        assert_eq!(count(&sd), SD_PARAMS_MAX);
        assert_eq!(gabion_record::limits::take_reached().times_reached(&reached::SD_PARAMS_MAX), 1);
        assert_eq!(count("[x a=\"b\"]"), 1);
        assert!(gabion_record::limits::take_reached().is_empty());
    }

    #[test]
    fn elements_and_parameters() {
        let sd = br#"[x@1 a="b\"c\]" d=""][y]"#;
        assert_eq!(end(sd), Some(sd.len()));
        let all: Vec<_> = elements(sd).map(|e| (e.id, e.params().collect::<Vec<_>>())).collect();
        assert_eq!(
            all,
            [
                (&b"x@1"[..], vec![(&b"a"[..], &br#"b\"c\]"#[..]), (&b"d"[..], &b""[..])]),
                (&b"y"[..], vec![])
            ]
        );
        for bad in [&b"[]"[..], b"[x a=b]", b"[x a=\"b]c\"]", b"[x", b"[x a=\"\\", b"x"] {
            assert_eq!(end(bad), None, "{}", String::from_utf8_lossy(bad));
        }
    }
}
