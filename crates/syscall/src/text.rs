//! Strings of the state: shared between a process and its children, with a count of the bytes that they hold.
//!
//! A child has its parent's program, arguments, environment and working directory until it changes them, so all of
//! them refer to one string. [`Texts`] knows the bytes of all strings that are still in use, shared ones once; the
//! state adds them to its budget.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// The cost of one string besides its bytes: the counts of its references, its vector and the allocator's own.
const TEXT_COST: u64 = 72;

/// The bytes of one string; returns them to the count when the last reference ends.
struct Shared {
    bytes: Vec<u8>,
    held: Arc<AtomicU64>,
}

impl Drop for Shared {
    fn drop(&mut self) {
        self.held.fetch_sub(TEXT_COST.saturating_add(self.bytes.capacity() as u64), Relaxed);
    }
}

/// A string of the state: cheap to clone, never changed while another shares it. The empty string takes no memory.
#[derive(Clone, Default)]
pub struct Text(Option<Arc<Shared>>);

impl Text {
    /// The bytes, which need not be UTF-8.
    #[inline]
    pub fn bytes(&self) -> &[u8] {
        self.0.as_ref().map_or(&[], |shared| shared.bytes.as_slice())
    }

    /// Whether both refer to the same memory.
    pub(crate) fn is_shared_with(&self, other: &Text) -> bool {
        matches!((&self.0, &other.0), (Some(a), Some(b)) if Arc::ptr_eq(a, b))
    }

    /// Whether it has no bytes.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.bytes().is_empty()
    }
}

impl PartialEq for Text {
    fn eq(&self, other: &Text) -> bool {
        match (&self.0, &other.0) {
            (Some(a), Some(b)) if Arc::ptr_eq(a, b) => true,
            _ => self.bytes() == other.bytes(),
        }
    }
}

impl Eq for Text {}

impl fmt::Debug for Text {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", String::from_utf8_lossy(self.bytes()))
    }
}

/// Makes strings and knows how many bytes all of them hold.
#[derive(Clone, Debug, Default)]
pub struct Texts {
    held: Arc<AtomicU64>,
    made: Arc<AtomicU64>,
}

impl Texts {
    /// Bytes of all strings in use, with what each costs besides its bytes.
    pub fn held(&self) -> u64 {
        self.held.load(Relaxed)
    }

    /// Strings that were given memory since the start; one that used the memory of an earlier one does not count.
    pub fn made(&self) -> u64 {
        self.made.load(Relaxed)
    }

    /// A new string of these bytes.
    pub fn make(&self, bytes: &[u8]) -> Text {
        if bytes.is_empty() {
            return Text(None);
        }
        let bytes = bytes.to_vec();
        self.made.fetch_add(1, Relaxed);
        self.held.fetch_add(TEXT_COST.saturating_add(bytes.capacity() as u64), Relaxed);
        Text(Some(Arc::new(Shared { bytes, held: Arc::clone(&self.held) })))
    }

    /// Sets `text` to these bytes: it stays as it is if it has them already, its memory is used again if no other
    /// shares it and it is large enough, else it becomes a new string.
    pub fn set(&self, text: &mut Text, bytes: &[u8]) {
        if text.bytes() == bytes {
            return;
        }
        let reusable = text.0.as_mut().and_then(Arc::get_mut);
        match reusable.filter(|shared| shared.bytes.capacity() >= bytes.len() && !bytes.is_empty())
        {
            Some(shared) => {
                shared.bytes.clear();
                shared.bytes.extend_from_slice(bytes);
            }
            None => *text = self.make(bytes),
        }
    }

    /// A string of these bytes that shares the memory of `known` if that one has them.
    pub fn share(&self, known: &Text, bytes: &[u8]) -> Text {
        if known.bytes() == bytes { known.clone() } else { self.make(bytes) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shared_string_is_counted_once_until_its_last_reference_ends() {
        let texts = Texts::default();
        let parent = texts.make(b"/usr/sbin/httpd");
        let held = texts.held();
        assert_eq!(held, TEXT_COST + 15);
        let child = texts.share(&parent, b"/usr/sbin/httpd");
        assert_eq!((texts.held(), child == parent), (held, true));
        drop(parent);
        assert_eq!(texts.held(), held);
        drop(child);
        assert_eq!(texts.held(), 0);
        assert!(texts.make(b"").is_empty() && texts.held() == 0);
    }

    #[test]
    fn a_string_is_overwritten_only_where_no_other_shares_it() {
        let texts = Texts::default();
        let mut own = texts.make(b"/etc/passwd");
        let held = texts.held();
        texts.set(&mut own, b"/etc/group");
        assert_eq!((own.bytes(), texts.held()), (&b"/etc/group"[..], held), "memory used again");
        let other = own.clone();
        texts.set(&mut own, b"/tmp");
        assert_eq!((own.bytes(), other.bytes()), (&b"/tmp"[..], &b"/etc/group"[..]));
        texts.set(&mut own, b"");
        assert!(own.is_empty());
        drop((own, other));
        assert_eq!(texts.held(), 0);
    }
}
