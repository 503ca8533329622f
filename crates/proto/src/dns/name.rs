//! Domain names on the wire (RFC 1035 4.1.4): labels, pointers and what hostile ones do.
//!
//! A name is assembled into the message's arena, labels joined with dots, letters as sent. Limits
//! and their outcomes follow Suricata: a name past 1,025 bytes is cut but parsed to its end, a
//! chain of more than 255 labels and pointers ends the name at that place if a pointer was
//! followed (so that parsing continues after the first pointer) and breaks the message if not, and a
//! pointer to itself likewise.

use super::limits::{ARENA_BYTES_MAX, NAME_BYTES_MAX, NAME_STEPS_MAX, reached};

/// A piece of the arena.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Span {
    /// First byte.
    pub start: u32,
    /// Bytes.
    pub len: u32,
}

impl Span {
    /// The bytes.
    pub fn bytes_in(self, arena: &[u8]) -> &[u8] {
        let start = self.start as usize;
        arena.get(start..start + self.len as usize).unwrap_or_default()
    }
}

/// A name in the arena.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Name {
    /// Where it stands.
    pub span: Span,
    /// It was cut.
    pub is_truncated: bool,
}

/// Irregularities met in the names of a message.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NameFlags {
    /// A name was cut.
    pub truncated: bool,
    /// A pointer pointed at itself.
    pub infinite_loop: bool,
    /// More labels and pointers than followed.
    pub label_limit: bool,
}

/// The message cannot be parsed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Malformed;

/// Names assembled so far, with a short memory of where they were: most names of a message are a
/// pointer to an earlier one and cost no bytes.
#[derive(Debug, Default)]
pub struct Names {
    /// Bytes of all names (and other data the message keeps).
    pub arena: Vec<u8>,
    /// What was met.
    pub flags: NameFlags,
    seen: [(u16, Name); 4],
    seen_next: usize,
}

impl Names {
    /// Reads the name at `pos` of `message`; its own bytes end before `end` (pointers may lead
    /// anywhere). Returns the name and the position after it.
    pub fn read_name(
        &mut self,
        message: &[u8],
        pos: usize,
        end: usize,
    ) -> Result<(Name, usize), Malformed> {
        if let Some(found) = self.recall(message, pos, end) {
            return Ok(found);
        }
        let start = self.arena.len();
        let (mut at, mut bound, mut behind) = (pos, end.min(message.len()), None);
        let (mut steps, mut is_truncated, mut is_whole) = (0usize, false, false);
        while at < bound {
            let Some(&len) = message.get(at) else { break };
            match len {
                0 => {
                    at += 1;
                    is_whole = true;
                    break;
                }
                1..=0x3f => {
                    let from = at + 1;
                    let to = from + usize::from(len);
                    let label = message.get(from..to).filter(|_| to <= bound).ok_or(Malformed)?;
                    if !is_truncated {
                        self.append(start, label);
                    }
                    at = to;
                }
                0xc0..=0xff => {
                    let low = *message.get(at + 1).filter(|_| at + 2 <= bound).ok_or(Malformed)?;
                    let to = usize::from(len & 0x3f) << 8 | usize::from(low);
                    if to > message.len() {
                        return Err(Malformed);
                    }
                    if to == at {
                        let behind = behind.ok_or(Malformed)?;
                        self.flags.infinite_loop = true;
                        return Ok((self.finish(start, is_truncated), behind));
                    }
                    behind.get_or_insert(at + 2);
                    (at, bound) = (to, message.len());
                }
                0x40..=0xbf => return Err(Malformed),
            }
            steps += 1;
            if steps > NAME_STEPS_MAX {
                let behind = behind.ok_or(Malformed)?;
                self.flags.label_limit = true;
                self.flags.truncated = true;
                return Ok((self.finish(start, true), behind));
            }
            if self.is_too_long(start) {
                if self.arena.len() > ARENA_BYTES_MAX {
                    reached::ARENA_BYTES_MAX.count();
                }
                is_truncated = true;
                self.arena.truncate((start + NAME_BYTES_MAX).min(ARENA_BYTES_MAX.max(start)));
                self.flags.truncated = true;
                if let Some(behind) = behind {
                    return Ok((self.finish(start, true), behind));
                }
            }
        }
        let name = self.finish(start, is_truncated);
        if is_whole && steps < NAME_STEPS_MAX - 1 {
            self.remember(pos, name);
        }
        Ok((name, behind.unwrap_or(at)))
    }

    /// Keeps bytes that are not a name.
    pub fn keep(&mut self, bytes: &[u8]) -> Span {
        let start = self.arena.len();
        let room = ARENA_BYTES_MAX.saturating_sub(start);
        if bytes.len() > room {
            reached::ARENA_BYTES_MAX.count();
        }
        let bytes = bytes.get(..room).unwrap_or(bytes);
        self.arena.extend_from_slice(bytes);
        Span { start: start as u32, len: bytes.len() as u32 }
    }

    fn append(&mut self, start: usize, label: &[u8]) {
        if self.arena.len() > start {
            self.arena.push(b'.');
        }
        self.arena.extend_from_slice(label);
    }

    fn is_too_long(&self, start: usize) -> bool {
        self.arena.len() - start > NAME_BYTES_MAX || self.arena.len() > ARENA_BYTES_MAX
    }

    fn finish(&self, start: usize, is_truncated: bool) -> Name {
        let len = self.arena.len() - start;
        Name { span: Span { start: start as u32, len: len as u32 }, is_truncated }
    }

    fn remember(&mut self, pos: usize, name: Name) {
        if let (Ok(pos), Some(slot)) = (u16::try_from(pos), self.seen.get_mut(self.seen_next % 4)) {
            *slot = (pos, name);
            self.seen_next += 1;
        }
    }

    /// A name that is nothing but a pointer to one that is remembered.
    fn recall(&self, message: &[u8], pos: usize, end: usize) -> Option<(Name, usize)> {
        let pair = message.get(pos..pos + 2).filter(|_| pos + 2 <= end)?;
        let to = u16::from_be_bytes(pair.try_into().ok()?).checked_sub(0xc000)?;
        // Position 0 is inside the header: no name is remembered there.
        let (_, name) = self.seen.iter().find(|(at, _)| to != 0 && *at == to)?;
        Some((*name, pos + 2))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reads the name at `pos`, returns its text, whether cut, the position after it, the flags.
    fn read_name_at(m: &[u8], pos: usize) -> Result<(Vec<u8>, bool, usize, NameFlags), Malformed> {
        let mut n = Names::default();
        let (name, behind) = n.read_name(m, pos, m.len())?;
        Ok((name.span.bytes_in(&n.arena).to_vec(), name.is_truncated, behind, n.flags))
    }

    const NONE: NameFlags =
        NameFlags { truncated: false, infinite_loop: false, label_limit: false };

    #[test]
    fn plain_and_compressed_names() {
        let m = b"\x03www\x04test\0\x01a\xc0\x04zz";
        assert_eq!(read_name_at(m, 0), Ok((b"www.test".to_vec(), false, 10, NONE)));
        assert_eq!(read_name_at(m, 10), Ok((b"a.test".to_vec(), false, 14, NONE)));
        // Without a terminating zero the name ends with the bytes (Suricata's reading).
        assert_eq!(read_name_at(b"\x03abc", 0), Ok((b"abc".to_vec(), false, 4, NONE)));
        assert_eq!(read_name_at(b"", 0), Ok((Vec::new(), false, 0, NONE)));
    }

    #[test]
    fn pointers_that_lead_nowhere() {
        // Observed in Suricata 8.0.7, each as the only question of a response.
        assert_eq!(read_name_at(b"\xc0\x09", 0), Err(Malformed));
        assert_eq!(read_name_at(b"\xc0", 0), Err(Malformed));
        assert_eq!(read_name_at(b"\x41a\0", 0), Err(Malformed));
        assert_eq!(read_name_at(b"\x05ab", 0), Err(Malformed));
        assert_eq!(read_name_at(b"\xc0\x00", 0), Err(Malformed));
        assert_eq!(read_name_at(b"\x01a\xc0\x02", 0), Err(Malformed));
        // To the very end of the message: an empty rest.
        assert_eq!(read_name_at(b"\x01a\xc0\x04", 0), Ok((b"a".to_vec(), false, 4, NONE)));
        let loops = NameFlags { infinite_loop: true, ..NONE };
        assert_eq!(
            read_name_at(b"\x01a\xc0\x06zz\xc0\x06", 0),
            Ok((b"a".to_vec(), false, 4, loops))
        );
    }

    #[test]
    fn long_names_and_chains() {
        let both = NameFlags { truncated: true, label_limit: true, ..NONE };
        let (name, cut, behind, flags) = read_name_at(b"\x01a\xc0\x00zz", 0).unwrap();
        assert_eq!((name.len(), cut, behind, flags), (255, true, 4, both));
        let (name, cut, behind, flags) = read_name_at(b"\xc0\x02\xc0\x00", 0).unwrap();
        assert_eq!((name.len(), cut, behind, flags), (0, true, 2, both));
        assert_eq!(
            read_name_at(&[b"\x01a".repeat(255), vec![0]].concat(), 0).unwrap().0.len(),
            509
        );
        assert_eq!(read_name_at(&[b"\x01a".repeat(256), vec![0]].concat(), 0), Err(Malformed));
        let label = [b"\x32".to_vec(), vec![b'b'; 50]].concat();
        for (last, len, is_cut) in [(5u8, 1025, false), (6, 1025, true)] {
            let m = [label.repeat(20), vec![last], vec![b'c'; last.into()], vec![0]].concat();
            let (name, cut, behind, flags) = read_name_at(&m, 0).unwrap();
            assert_eq!((name.len(), cut, behind), (len, is_cut, m.len()));
            assert_eq!(flags, NameFlags { truncated: is_cut, ..NONE });
        }
    }

    #[test]
    fn repeated_pointers_cost_no_room() {
        let m = b"\0\x03www\x04test\0\xc0\x01\xc0\x01";
        let mut n = Names::default();
        let (first, at) = n.read_name(m, 1, m.len()).unwrap();
        let used = n.arena.len();
        assert_eq!(n.read_name(m, at, m.len()), Ok((first, at + 2)));
        assert_eq!(n.read_name(m, at + 2, m.len()), Ok((first, at + 4)));
        assert_eq!(n.arena.len(), used);
    }
}
