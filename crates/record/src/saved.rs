//! Values that a checkpoint holds: written as bytes, and read back as they were.
//!
//! A run that continues where another one ended needs all of that one's state. [`saved!`](crate::saved!) writes a struct
//! field by field and names every field of it, so that a new field that is not saved does not compile.
//! The form is little-endian and without names; the caller that writes a whole checkpoint puts a version before it
//! and a checksum after it. Reading ends in `None` rather than in wrong values, and a count is compared
//! with the bytes that are left before memory is asked for.

use crate::evidence::{FindingId, Indicator, Measures, Party, Role, ThreatLevel};
use crate::ledger::{Ledger, ShedReason, Tally};
use crate::logs::{LogKind, Mac, Proto, TimeNs};
use crate::{Ip, Net};
use hashbrown::{HashMap, HashSet};
use std::collections::{BTreeMap, VecDeque};
use std::ffi::OsStr;
use std::hash::{BuildHasher, Hash};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

/// A value that a checkpoint holds.
pub trait Saved: Sized {
    /// Appends its bytes.
    fn save(&self, out: &mut Vec<u8>);
    /// Reads it back; `from` is after it then. `None` when the bytes are none of its.
    fn load(from: &mut &[u8]) -> Option<Self>;
}

/// The next bytes.
pub fn take_bytes<'a>(from: &mut &'a [u8], len: usize) -> Option<&'a [u8]> {
    let (head, rest) = from.split_at_checked(len)?;
    *from = rest;
    Some(head)
}

/// Appends bytes with their length before them.
pub fn save_bytes(bytes: &[u8], out: &mut Vec<u8>) {
    (bytes.len() as u64).save(out);
    out.extend_from_slice(bytes);
}

/// Reads what [`save_bytes`] wrote.
pub fn load_bytes<'a>(from: &mut &'a [u8]) -> Option<&'a [u8]> {
    let len = usize::try_from(u64::load(from)?).ok()?;
    take_bytes(from, len)
}

/// Appends how many there are, and each.
fn save_all<'a, T: Saved + 'a>(items: impl ExactSizeIterator<Item = &'a T>, out: &mut Vec<u8>) {
    (items.len() as u64).save(out);
    items.for_each(|item| item.save(out));
}

/// How many follow: never more than there are bytes.
fn count(from: &mut &[u8]) -> Option<usize> {
    let n = usize::try_from(u64::load(from)?).ok()?;
    (n <= from.len()).then_some(n)
}

macro_rules! numbers {
    ($($t:ty),+) => {$(
        impl Saved for $t {
            fn save(&self, out: &mut Vec<u8>) {
                out.extend_from_slice(&self.to_le_bytes());
            }
            fn load(from: &mut &[u8]) -> Option<Self> {
                Some(<$t>::from_le_bytes(take_bytes(from, size_of::<$t>())?.try_into().ok()?))
            }
        }
    )+};
}

numbers!(u8, u16, u32, u64, i64, f64);

impl Saved for usize {
    fn save(&self, out: &mut Vec<u8>) {
        (*self as u64).save(out);
    }
    fn load(from: &mut &[u8]) -> Option<Self> {
        usize::try_from(u64::load(from)?).ok()
    }
}

impl Saved for bool {
    fn save(&self, out: &mut Vec<u8>) {
        out.push(u8::from(*self));
    }
    fn load(from: &mut &[u8]) -> Option<Self> {
        match u8::load(from)? {
            0 => Some(false),
            1 => Some(true),
            _ => None,
        }
    }
}

impl Saved for String {
    fn save(&self, out: &mut Vec<u8>) {
        save_bytes(self.as_bytes(), out);
    }
    fn load(from: &mut &[u8]) -> Option<Self> {
        String::from_utf8(load_bytes(from)?.to_vec()).ok()
    }
}

/// As the bytes that the system knows it by.
impl Saved for PathBuf {
    fn save(&self, out: &mut Vec<u8>) {
        save_bytes(self.as_os_str().as_bytes(), out);
    }
    fn load(from: &mut &[u8]) -> Option<Self> {
        Some(PathBuf::from(OsStr::from_bytes(load_bytes(from)?)))
    }
}

impl<T: Saved> Saved for Option<T> {
    fn save(&self, out: &mut Vec<u8>) {
        self.is_some().save(out);
        if let Some(value) = self {
            value.save(out);
        }
    }
    fn load(from: &mut &[u8]) -> Option<Self> {
        if bool::load(from)? { T::load(from).map(Some) } else { Some(None) }
    }
}

impl<T: Saved> Saved for Box<T> {
    fn save(&self, out: &mut Vec<u8>) {
        T::save(self, out);
    }
    fn load(from: &mut &[u8]) -> Option<Self> {
        T::load(from).map(Box::new)
    }
}

impl<T: Saved> Saved for Vec<T> {
    fn save(&self, out: &mut Vec<u8>) {
        save_all(self.iter(), out);
    }
    fn load(from: &mut &[u8]) -> Option<Self> {
        (0..count(from)?).map(|_| T::load(from)).collect()
    }
}

impl<T: Saved> Saved for VecDeque<T> {
    fn save(&self, out: &mut Vec<u8>) {
        save_all(self.iter(), out);
    }
    fn load(from: &mut &[u8]) -> Option<Self> {
        (0..count(from)?).map(|_| T::load(from)).collect()
    }
}

impl<T: Saved + Copy + Default, const N: usize> Saved for [T; N] {
    fn save(&self, out: &mut Vec<u8>) {
        self.iter().for_each(|item| item.save(out));
    }
    fn load(from: &mut &[u8]) -> Option<Self> {
        let mut all = [T::default(); N];
        for place in &mut all {
            *place = T::load(from)?;
        }
        Some(all)
    }
}

impl<K: Saved + Ord, V: Saved> Saved for BTreeMap<K, V> {
    fn save(&self, out: &mut Vec<u8>) {
        (self.len() as u64).save(out);
        for (key, value) in self {
            key.save(out);
            value.save(out);
        }
    }
    fn load(from: &mut &[u8]) -> Option<Self> {
        (0..count(from)?).map(|_| Some((K::load(from)?, V::load(from)?))).collect()
    }
}

// The entries have no order: a reader may not depend on one, nor may any user of such a table.
impl<K: Saved + Eq + Hash, V: Saved, S: BuildHasher + Default> Saved for HashMap<K, V, S> {
    fn save(&self, out: &mut Vec<u8>) {
        (self.len() as u64).save(out);
        for (key, value) in self {
            key.save(out);
            value.save(out);
        }
    }
    fn load(from: &mut &[u8]) -> Option<Self> {
        (0..count(from)?).map(|_| Some((K::load(from)?, V::load(from)?))).collect()
    }
}

impl<K: Saved + Eq + Hash, S: BuildHasher + Default> Saved for HashSet<K, S> {
    fn save(&self, out: &mut Vec<u8>) {
        (self.len() as u64).save(out);
        self.iter().for_each(|key| key.save(out));
    }
    fn load(from: &mut &[u8]) -> Option<Self> {
        (0..count(from)?).map(|_| K::load(from)).collect()
    }
}

macro_rules! tuples {
    ($(($($name:ident $at:tt),+))+) => {$(
        impl<$($name: Saved),+> Saved for ($($name,)+) {
            fn save(&self, out: &mut Vec<u8>) {
                $(self.$at.save(out);)+
            }
            fn load(from: &mut &[u8]) -> Option<Self> {
                Some(($($name::load(from)?,)+))
            }
        }
    )+};
}

tuples! { (A 0, B 1) (A 0, B 1, C 2) }

impl Saved for Ip {
    fn save(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.to_bytes());
    }
    fn load(from: &mut &[u8]) -> Option<Self> {
        Some(Ip::from_bytes(take_bytes(from, 16)?.try_into().ok()?))
    }
}

impl Saved for Net {
    fn save(&self, out: &mut Vec<u8>) {
        self.base().save(out);
        self.len_mapped().save(out);
    }
    fn load(from: &mut &[u8]) -> Option<Self> {
        Some(Net::new(Ip::load(from)?, u8::load(from)?))
    }
}

impl Saved for Mac {
    fn save(&self, out: &mut Vec<u8>) {
        self.0.save(out);
    }
    fn load(from: &mut &[u8]) -> Option<Self> {
        Saved::load(from).map(Mac)
    }
}

impl Saved for TimeNs {
    fn save(&self, out: &mut Vec<u8>) {
        self.0.save(out);
    }
    fn load(from: &mut &[u8]) -> Option<Self> {
        i64::load(from).map(TimeNs)
    }
}

impl Saved for FindingId {
    fn save(&self, out: &mut Vec<u8>) {
        self.0.save(out);
    }
    fn load(from: &mut &[u8]) -> Option<Self> {
        Saved::load(from).map(FindingId)
    }
}

impl Saved for Proto {
    fn save(&self, out: &mut Vec<u8>) {
        out.push(*self as u8);
    }
    fn load(from: &mut &[u8]) -> Option<Self> {
        Proto::from_kept(u8::load(from)?)
    }
}

impl Saved for LogKind {
    fn save(&self, out: &mut Vec<u8>) {
        out.push(*self as u8);
    }
    fn load(from: &mut &[u8]) -> Option<Self> {
        LogKind::ALL.get(usize::from(u8::load(from)?)).copied()
    }
}

impl Saved for ThreatLevel {
    fn save(&self, out: &mut Vec<u8>) {
        out.push(*self as u8);
    }
    fn load(from: &mut &[u8]) -> Option<Self> {
        ThreatLevel::ALL.get(usize::from(u8::load(from)?)).copied()
    }
}

impl Saved for Measures {
    fn save(&self, out: &mut Vec<u8>) {
        let Measures {
            count,
            hosts,
            ports,
            packets,
            bytes,
            duration_ns,
            score,
            threat,
            first,
            last,
        } = self;
        count.save(out);
        hosts.save(out);
        ports.save(out);
        packets.save(out);
        bytes.save(out);
        duration_ns.save(out);
        score.save(out);
        threat.save(out);
        first.save(out);
        last.save(out);
    }
    fn load(from: &mut &[u8]) -> Option<Self> {
        Some(Measures {
            count: Saved::load(from)?,
            hosts: Saved::load(from)?,
            ports: Saved::load(from)?,
            packets: Saved::load(from)?,
            bytes: Saved::load(from)?,
            duration_ns: Saved::load(from)?,
            score: Saved::load(from)?,
            threat: Saved::load(from)?,
            first: Saved::load(from)?,
            last: Saved::load(from)?,
        })
    }
}

impl Saved for Party {
    fn save(&self, out: &mut Vec<u8>) {
        (self.role == Role::Destination).save(out);
        let (sort, text) = match &self.what {
            Indicator::Ip(ip) => {
                out.push(0);
                return ip.save(out);
            }
            Indicator::Domain(text) => (1, text),
            Indicator::Url(text) => (2, text),
            Indicator::Md5(text) => (3, text),
        };
        out.push(sort);
        text.save(out);
    }
    fn load(from: &mut &[u8]) -> Option<Self> {
        let role = if bool::load(from)? { Role::Destination } else { Role::Source };
        let what = match u8::load(from)? {
            0 => Indicator::Ip(Saved::load(from)?),
            1 => Indicator::Domain(Saved::load(from)?),
            2 => Indicator::Url(Saved::load(from)?),
            3 => Indicator::Md5(Saved::load(from)?),
            _ => return None,
        };
        Some(Party { role, what })
    }
}

impl Saved for Tally {
    fn save(&self, out: &mut Vec<u8>) {
        self.items.save(out);
        self.bytes.save(out);
    }
    fn load(from: &mut &[u8]) -> Option<Self> {
        Some(Tally::new(u64::load(from)?, u64::load(from)?))
    }
}

/// Reasons are written by name: a later version may know more of them.
impl Saved for Ledger {
    fn save(&self, out: &mut Vec<u8>) {
        self.received().save(out);
        self.passed().save(out);
        self.in_flight().save(out);
        let sheds: Vec<(String, Tally)> =
            self.sheds().map(|(r, t)| (r.name().to_owned(), t)).collect();
        sheds.save(out);
    }
    fn load(from: &mut &[u8]) -> Option<Self> {
        let mut ledger = Ledger::new();
        let (received, passed, held) = <(Tally, Tally, Tally)>::load(from)?;
        ledger.receive(received.items, received.bytes);
        ledger.pass(passed.items, passed.bytes);
        ledger.set_in_flight(held.items, held.bytes);
        for (name, tally) in Vec::<(String, Tally)>::load(from)? {
            ledger.shed(ShedReason::from_name(&name)?, tally.items, tally.bytes);
        }
        Some(ledger)
    }
}

/// Structs whose fields are all saved, in the order they are named. One that is left out does not compile;
/// a field with `=` is not saved and begins again with that value.
#[macro_export]
macro_rules! saved {
    ($($name:ident { $($field:ident),* $(,)? $(; $($fresh:ident = $value:expr),+ $(,)?)? })+) => {$(
        impl $crate::saved::Saved for $name {
            fn save(&self, out: &mut Vec<u8>) {
                let $name { $($field,)* $($($fresh: _,)+)? } = self;
                let _ = &out;
                $($crate::saved::Saved::save($field, out);)*
            }
            fn load(from: &mut &[u8]) -> Option<Self> {
                let _ = &from;
                Some($name {
                    $($field: $crate::saved::Saved::load(from)?,)*
                    $($($fresh: $value,)+)?
                })
            }
        }
    )+};
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, Default, PartialEq)]
    struct One {
        a: u64,
        b: Vec<Option<String>>,
        c: BTreeMap<i64, (Ip, TimeNs)>,
        fresh: u8,
    }

    saved! { One { a, b, c; fresh = 9 } }

    #[test]
    fn what_is_saved_is_read_back_and_nothing_else_is() {
        let one = One {
            a: 7,
            b: vec![None, Some("x".into())],
            c: BTreeMap::from([(-1, (Ip::v4(1), TimeNs(2)))]),
            fresh: 3,
        };
        let mut out = Vec::new();
        one.save(&mut out);
        let mut from = out.as_slice();
        assert_eq!(One::load(&mut from), Some(One { fresh: 9, ..one }));
        assert!(from.is_empty());
        for cut in 0..out.len() {
            assert_eq!(One::load(&mut &out[..cut]), None, "{cut}");
        }
        // A count of more than there are bytes asks for no memory.
        assert_eq!(Vec::<u64>::load(&mut [0xff; 8].as_slice()), None);
    }

    #[test]
    fn a_ledger_is_read_back() {
        let mut ledger = Ledger::new();
        ledger.receive(10, 100);
        ledger.pass(7, 70);
        ledger.shed(ShedReason::UnusedLog, 2, 20);
        ledger.set_in_flight(1, 10);
        let mut out = Vec::new();
        ledger.save(&mut out);
        assert_eq!(Ledger::load(&mut out.as_slice()), Some(ledger));
    }
}
