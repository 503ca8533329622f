//! Budgets in bytes: process, engine, worker, table.
//!
//! Reserving fails, it never waits; the owner then evicts by its own stated order and counts each
//! eviction in its ledger. Two types make it cheap:
//!
//! * [`BudgetPool`] is shared (process, engine, worker): atomics, touched rarely.
//! * [`Budget`] is the leaf that a table owns: plain cells. It takes from its pool in chunks, so
//!   that a reservation on the packet path is a compare and an add in the owner's own memory.
//!
//! A leaf has its own limit too (Suricata's `memcap`), kept exactly; only what it holds from its
//! pool is rounded up to chunks. When the pool has no whole chunk left, the exact lack is asked
//! for before the reservation is refused, so that small budgets work to their last byte.
//!
//! [`ByteSize`] is how sizes are written in configuration and shown to people.

use std::cell::Cell;
use std::fmt;
use std::str::FromStr;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError, Weak};

/// The most a leaf takes from its pool at once: large enough to be rare, small enough that a
/// dozen tables of several workers do not hide a noticeable part of a 256 MiB process budget.
const CHUNK_MAX: u64 = 256 * 1024;
/// The least a leaf takes at once.
const CHUNK_MIN: u64 = 4 * 1024;

/// What pools and leaves report about themselves.
#[derive(Debug)]
struct Node {
    name: String,
    /// Changed by an operator only.
    limit: AtomicU64,
    /// It has no limit of its own: it follows the one above.
    inherits: bool,
    used: AtomicU64,
    peak: AtomicU64,
    refused: AtomicU64,
    /// Times bytes were taken or returned: what a shared node costs those that share it.
    moves: AtomicU64,
    parent: Option<Arc<Node>>,
    children: Mutex<Vec<Weak<Node>>>,
}

impl Node {
    fn new(name: &str, limit: Option<u64>, parent: Option<Arc<Node>>) -> Arc<Node> {
        let above = parent.as_ref().map_or(u64::MAX, |parent| parent.limit());
        let node = Arc::new(Node {
            name: name.to_owned(),
            limit: AtomicU64::new(limit.unwrap_or(above).min(above)),
            inherits: limit.is_none(),
            used: AtomicU64::new(0),
            peak: AtomicU64::new(0),
            refused: AtomicU64::new(0),
            moves: AtomicU64::new(0),
            parent,
            children: Mutex::new(Vec::new()),
        });
        if let Some(parent) = &node.parent {
            let mut children = parent.children.lock().unwrap_or_else(PoisonError::into_inner);
            children.retain(|c| c.strong_count() > 0);
            children.push(Arc::downgrade(&node));
        }
        node
    }

    fn limit(&self) -> u64 {
        self.limit.load(Relaxed)
    }

    /// Changes the limit, and with it those below that follow it.
    fn set_limit(&self, limit: u64) {
        self.limit.store(limit, Relaxed);
        let children = self.children.lock().unwrap_or_else(PoisonError::into_inner);
        for child in children.iter().filter_map(Weak::upgrade).filter(|child| child.inherits) {
            child.set_limit(limit);
        }
    }

    /// The node below this one with that name.
    fn child(&self, name: &str) -> Option<Arc<Node>> {
        let children = self.children.lock().unwrap_or_else(PoisonError::into_inner);
        children.iter().filter_map(Weak::upgrade).find(|child| child.name == name)
    }

    /// Takes `bytes` from this node and all above it, or from none. A refusal is counted where
    /// it arose, unless the caller has a smaller wish to try.
    fn reserve_bytes(&self, bytes: u64, final_wish: bool) -> bool {
        self.moves.fetch_add(1, Relaxed);
        let taken = self.used.fetch_update(Relaxed, Relaxed, |used| {
            used.checked_add(bytes).filter(|sum| *sum <= self.limit())
        });
        let Ok(before) = taken else {
            self.refused.fetch_add(u64::from(final_wish), Relaxed);
            return false;
        };
        if self.parent.as_ref().is_some_and(|parent| !parent.reserve_bytes(bytes, final_wish)) {
            self.used.fetch_sub(bytes, Relaxed);
            return false;
        }
        self.peak.fetch_max(before.saturating_add(bytes), Relaxed);
        true
    }

    /// What this node and all above it could still hand out.
    fn left(&self) -> u64 {
        let own = self.limit().saturating_sub(self.used.load(Relaxed));
        self.parent.as_ref().map_or(own, |parent| own.min(parent.left()))
    }

    /// Adds bytes that are held whatever the limits are.
    fn add_bytes(&self, bytes: u64) {
        let mut node = Some(self);
        while let Some(n) = node {
            let before = n.used.fetch_add(bytes, Relaxed);
            n.peak.fetch_max(before.saturating_add(bytes), Relaxed);
            n.moves.fetch_add(1, Relaxed);
            node = n.parent.as_deref();
        }
    }

    fn give_back(&self, bytes: u64) {
        let mut node = Some(self);
        while let Some(n) = node {
            n.used.fetch_sub(bytes, Relaxed);
            n.moves.fetch_add(1, Relaxed);
            node = n.parent.as_deref();
        }
    }

    fn report(&self) -> BudgetReport {
        let children = self.children.lock().unwrap_or_else(PoisonError::into_inner);
        BudgetReport {
            name: self.name.clone(),
            limit: self.limit(),
            used: self.used.load(Relaxed),
            peak: self.peak.load(Relaxed),
            refused: self.refused.load(Relaxed),
            moves: self.moves.load(Relaxed),
            children: children.iter().filter_map(Weak::upgrade).map(|c| c.report()).collect(),
        }
    }
}

/// A budget that others draw from: of the process, an engine, a worker. Cheap to clone; clones
/// are the same budget.
#[derive(Clone, Debug)]
pub struct BudgetPool {
    node: Arc<Node>,
}

impl BudgetPool {
    /// The root of a tree: the process's budget in bytes.
    pub fn root(name: &str, limit: u64) -> BudgetPool {
        BudgetPool { node: Node::new(name, Some(limit), None) }
    }

    /// A pool without a limit of its own, for tests and for tools that state no budget.
    pub fn unlimited() -> BudgetPool {
        BudgetPool::root("process", u64::MAX)
    }

    /// A pool below this one; `None` = no limit but those above.
    pub fn child(&self, name: &str, limit: Option<u64>) -> BudgetPool {
        BudgetPool { node: Node::new(name, limit, Some(Arc::clone(&self.node))) }
    }

    /// A leaf for one table; `None` = no limit but those above.
    pub fn leaf(&self, name: &str, limit: Option<u64>) -> Budget {
        let node = Node::new(name, limit, Some(Arc::clone(&self.node)));
        let chunk = (node.limit() / 16).clamp(CHUNK_MIN, CHUNK_MAX);
        Budget {
            node,
            chunk,
            used: Cell::new(0),
            granted: Cell::new(0),
            peak: Cell::new(0),
            refused: Cell::new(0),
        }
    }

    /// Accounts for bytes of that name that are held already and can't be refused, such as compiled rules.
    pub fn hold(&self, name: &str, bytes: u64) -> Held {
        let existing = self.node.child(name);
        let node = existing.unwrap_or_else(|| Node::new(name, None, Some(Arc::clone(&self.node))));
        node.add_bytes(bytes);
        Held { node, bytes }
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.node.name
    }

    /// Its limit in bytes.
    pub fn limit(&self) -> u64 {
        self.node.limit()
    }

    /// Changes the limit of the budget at this path of names below, such as `net/flow`, while tables use it; those below
    /// it that have no limit of their own follow. What is in use stays: a limit below that is refused. `None`: there is
    /// no such budget.
    ///
    /// # Errors
    /// Bytes in use that are more than the limit would be.
    pub fn change_limit(&self, path: &str, limit: u64) -> Option<Result<(), u64>> {
        let node = self.below(path)?;
        let used = node.used.load(Relaxed);
        if used > limit {
            return Some(Err(used));
        }
        node.set_limit(limit);
        Some(Ok(()))
    }

    /// The limit of the budget at this path of names below, if there is one.
    pub fn limit_of(&self, path: &str) -> Option<u64> {
        Some(self.below(path)?.limit())
    }

    fn below(&self, path: &str) -> Option<Arc<Node>> {
        path.split('/').try_fold(Arc::clone(&self.node), |node, name| node.child(name))
    }

    /// Bytes handed to those below (in chunks, so slightly more than they use).
    pub fn used(&self) -> u64 {
        self.node.used.load(Relaxed)
    }

    /// The tree from here on: limits, use, peaks, refusals.
    pub fn report(&self) -> BudgetReport {
        self.node.report()
    }
}

/// Bytes in the account of a pool; they are taken off it when this is dropped.
#[derive(Debug)]
pub struct Held {
    node: Arc<Node>,
    bytes: u64,
}

impl Drop for Held {
    fn drop(&mut self) {
        self.node.give_back(self.bytes);
    }
}

/// The budget that a table owns. `Send`, not `Sync`: it moves to its worker and stays there.
/// What it holds returns to its pool when it is dropped.
#[derive(Debug)]
pub struct Budget {
    node: Arc<Node>,
    chunk: u64,
    used: Cell<u64>,
    granted: Cell<u64>,
    peak: Cell<u64>,
    refused: Cell<u64>,
}

impl Budget {
    /// A leaf that belongs to no tree, for tests and stand-alone use.
    pub fn standalone(name: &str, limit: u64) -> Budget {
        BudgetPool::root(name, limit).leaf(name, None)
    }

    /// Reserves `bytes`. Returns false, and changes nothing but the count of refusals, when this
    /// budget or one above it has not that much left.
    #[inline]
    #[must_use]
    pub fn try_reserve(&self, bytes: u64) -> bool {
        let Some(want) = self.used.get().checked_add(bytes) else { return self.refuse() };
        if want > self.granted.get() && !self.grow(want) {
            return self.refuse();
        }
        self.used.set(want);
        if want > self.peak.get() {
            self.peak.set(want);
        }
        true
    }

    /// Returns what was reserved. To return more than is reserved returns all.
    #[inline]
    pub fn release(&self, bytes: u64) {
        let used = self.used.get().saturating_sub(bytes);
        self.used.set(used);
        // Two spare chunks stay: one that a table swings over, one against giving back and
        // taking again at its edge.
        if self.granted.get() - used > self.chunk.saturating_mul(3) {
            self.shrink();
        }
    }

    /// Changes a reservation from `old` to `new` bytes; false leaves `old` reserved.
    #[inline]
    #[must_use]
    pub fn try_resize(&self, old: u64, new: u64) -> bool {
        if new >= old {
            self.try_reserve(new - old)
        } else {
            self.release(old - new);
            true
        }
    }

    /// Bytes reserved now.
    pub fn used(&self) -> u64 {
        self.used.get()
    }

    /// Most bytes ever reserved at once.
    pub fn peak(&self) -> u64 {
        self.peak.get()
    }

    /// Its own limit in bytes; those above may be reached earlier.
    pub fn limit(&self) -> u64 {
        self.node.limit()
    }

    /// Bytes that could be reserved now: what is left under its own limit, as far as those above have
    /// it. Others that share a budget above may take it first.
    pub fn available(&self) -> u64 {
        let spare = self.granted.get().saturating_sub(self.used.get());
        let above = self.node.parent.as_ref().map_or(u64::MAX, |parent| parent.left());
        self.limit().saturating_sub(self.used.get()).min(spare.saturating_add(above))
    }

    /// How many reservations were refused.
    pub fn refused(&self) -> u64 {
        self.refused.get()
    }

    /// Publishes peak and refusals for [`BudgetPool::report`]; use is published at every chunk.
    pub fn publish(&self) {
        self.node.peak.store(self.peak.get(), Relaxed);
        self.node.refused.store(self.refused.get(), Relaxed);
    }

    #[cold]
    fn refuse(&self) -> bool {
        self.refused.set(self.refused.get().saturating_add(1));
        self.node.refused.store(self.refused.get(), Relaxed);
        false
    }

    /// Takes enough from above that `want` bytes are granted: whole chunks, or the exact lack.
    #[cold]
    fn grow(&self, want: u64) -> bool {
        let limit = self.limit();
        if want > limit {
            return false;
        }
        let granted = self.granted.get();
        let chunks = want.div_ceil(self.chunk).saturating_mul(self.chunk).min(limit);
        for (target, final_wish) in [(chunks, false), (want, true)] {
            if self.node.reserve_bytes(target - granted, final_wish) {
                self.granted.set(target);
                return true;
            }
        }
        false
    }

    #[cold]
    fn shrink(&self) {
        let keep = self
            .used
            .get()
            .div_ceil(self.chunk)
            .saturating_add(1)
            .saturating_mul(self.chunk)
            .min(self.granted.get());
        self.node.give_back(self.granted.get() - keep);
        self.granted.set(keep);
        self.publish();
    }
}

impl Drop for Budget {
    fn drop(&mut self) {
        self.node.give_back(self.granted.get());
    }
}

/// A budget and those below it, at a moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BudgetReport {
    /// Its name.
    pub name: String,
    /// Its limit in bytes.
    pub limit: u64,
    /// Bytes taken (in chunks).
    pub used: u64,
    /// Most bytes taken at once.
    pub peak: u64,
    /// How often it had not enough.
    pub refused: u64,
    /// Times bytes were taken or returned.
    pub moves: u64,
    /// The budgets below it.
    pub children: Vec<BudgetReport>,
}

/// An indented line a budget: `flow: 12 MiB of 128 MiB, peak 20 MiB, refused 3 times`.
impl fmt::Display for BudgetReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fn lines(r: &BudgetReport, depth: usize, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            write!(f, "{:width$}{}: {}", "", r.name, ByteSize(r.used), width = depth * 2)?;
            if r.limit != u64::MAX {
                write!(f, " of {}", ByteSize(r.limit))?;
            }
            write!(f, ", peak {}", ByteSize(r.peak))?;
            if r.refused > 0 {
                write!(f, ", refused {} times", r.refused)?;
            }
            r.children.iter().try_for_each(|child| {
                f.write_str("\n")?;
                lines(child, depth + 1, f)
            })
        }
        lines(self, 0, f)
    }
}

/// A size in bytes as configuration writes it and people read it.
///
/// Parsing follows Suricata: a number, perhaps with a fraction, perhaps a blank, and
/// `kb`/`KiB`, `mb`/`MiB`, `gb`/`GiB` in any case, all powers of 1,024; no unit means bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct ByteSize(pub u64);

const UNITS: [(&str, u64); 3] = [("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)];

/// A size that can't be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ByteSizeError(String);

impl fmt::Display for ByteSizeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{:?} is not a size: write a number of bytes or a number with KiB, MiB or GiB",
            self.0
        )
    }
}

impl std::error::Error for ByteSizeError {}

impl FromStr for ByteSize {
    type Err = ByteSizeError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        parse_size(text).map(ByteSize).ok_or_else(|| ByteSizeError(text.chars().take(64).collect()))
    }
}

fn parse_size(text: &str) -> Option<u64> {
    let text = text.trim();
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (whole, rest) = text.split_at_checked(digits)?;
    let mut scaled: u128 = whole.parse::<u64>().ok()?.into();
    let mut scale: u128 = 1;
    let mut rest = rest;
    if let Some(fraction) = rest.strip_prefix('.') {
        let digits = fraction.find(|c: char| !c.is_ascii_digit()).unwrap_or(fraction.len());
        // 12 digits are below a byte of a GiB.
        if digits == 0 || digits > 12 {
            return None;
        }
        let (places, unit) = fraction.split_at_checked(digits)?;
        for d in places.bytes() {
            scaled = scaled.checked_mul(10)?.checked_add(u128::from(d.checked_sub(b'0')?))?;
            scale = scale.checked_mul(10)?;
        }
        rest = unit;
    }
    let unit = match rest.trim_start().to_ascii_lowercase().as_str() {
        "" => 1,
        "kb" | "kib" => 1 << 10,
        "mb" | "mib" => 1 << 20,
        "gb" | "gib" => 1 << 30,
        _ => return None,
    };
    u64::try_from(scaled.checked_mul(unit)? / scale).ok()
}

impl fmt::Display for ByteSize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (name, unit) in UNITS {
            if self.0 >= unit {
                let whole = self.0 / unit;
                let tenths = (self.0 % unit) / (unit / 1024) * 10 / 1024;
                return if tenths == 0 && self.0.is_multiple_of(unit) {
                    write!(f, "{whole} {name}")
                } else {
                    write!(f, "{whole}.{tenths} {name}")
                };
            }
        }
        write!(f, "{} B", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_as_suricata_reads_them() {
        let cases: &[(&str, Option<u64>)] = &[
            ("64MiB", Some(64 << 20)),
            ("32mb", Some(32 << 20)),
            ("1gb", Some(1 << 30)),
            ("10 kb", Some(10 << 10)),
            ("1KiB", Some(1024)),
            ("1.5 GiB", Some(3 << 29)),
            ("262144", Some(262_144)),
            (" 7 ", Some(7)),
            ("0", Some(0)),
            ("", None),
            ("kb", None),
            ("10 tb", None),
            ("-1", None),
            ("1.", None),
            ("1e3", None),
            ("99999999999999999999", None),
            ("18446744073709551615", Some(u64::MAX)),
            ("18446744073709551615kb", None),
        ];
        for (text, want) in cases {
            assert_eq!(text.parse::<ByteSize>().ok().map(|b| b.0), *want, "{text:?}");
        }
        assert!("x".parse::<ByteSize>().unwrap_err().to_string().contains("\"x\" is not a size"));
    }

    #[test]
    fn sizes_are_shown_short() {
        for (bytes, want) in [
            (0, "0 B"),
            (1023, "1023 B"),
            (1024, "1 KiB"),
            (1536, "1.5 KiB"),
            (64 << 20, "64 MiB"),
            ((1 << 30) + 1, "1.0 GiB"),
            (u64::MAX, "17179869183.9 GiB"),
        ] {
            assert_eq!(ByteSize(bytes).to_string(), want);
        }
    }

    /// A table gets more, or no more than before, at once; those that share a budget follow it.
    #[test]
    fn a_limit_is_changed_while_tables_use_it() {
        let root = BudgetPool::root("process", 1 << 30);
        let shared = root.child("net", None).child("flow", Some(100_000));
        let leaves = [shared.leaf("worker 0", None), shared.leaf("worker 1", None)];
        assert!(leaves[0].try_reserve(60_000) && !leaves[1].try_reserve(60_000));
        assert_eq!(root.change_limit("net/flow", 200_000), Some(Ok(())));
        assert_eq!((root.limit_of("net/flow"), leaves[1].limit()), (Some(200_000), 200_000));
        assert!(leaves[1].try_reserve(60_000) && leaves[0].try_reserve(70_000));
        assert!(!leaves[1].try_reserve(100_000));
        let used = shared.used();
        assert_eq!(root.change_limit("net/flow", used - 1), Some(Err(used)));
        leaves[0].release(130_000);
        assert_eq!(root.change_limit("net/flow", 150_000), Some(Ok(())));
        assert!(!leaves[0].try_reserve(100_000) && leaves[0].try_reserve(50_000));
        assert_eq!(root.change_limit("net/none", 1), None);
        assert_eq!(root.limit_of("flow"), None);
    }

    /// What is held counts whatever the limit is, by its name, as long as it is held.
    #[test]
    fn what_is_held_counts_until_it_is_dropped() {
        let root = BudgetPool::root("rules", 100);
        let first = root.hold("texts", 70);
        let second = root.hold("texts", 50);
        let other = root.hold("matchers", 5);
        let rows = |root: &BudgetPool| {
            let report = root.report();
            let row = |r: &BudgetReport| (r.name.clone(), r.limit, r.used, r.peak, r.refused);
            report.children.iter().chain([&report]).map(row).collect::<Vec<_>>()
        };
        let row = |name: &str, used, peak| (name.to_owned(), 100, used, peak, 0);
        let wanted = [row("texts", 120, 120), row("matchers", 5, 5), row("rules", 125, 125)];
        assert_eq!(rows(&root), wanted);
        drop(first);
        assert_eq!(rows(&root)[0], row("texts", 50, 120));
        drop((second, other));
        assert_eq!(rows(&root), [row("rules", 0, 125)]);
    }

    #[test]
    fn a_leaf_keeps_its_limit_to_the_byte() {
        let b = Budget::standalone("table", 10_000);
        assert!(b.try_reserve(9_999));
        assert!(!b.try_reserve(2));
        assert!(b.try_reserve(1));
        assert!(!b.try_reserve(1));
        assert_eq!((b.used(), b.available(), b.refused(), b.peak()), (10_000, 0, 2, 10_000));
        b.release(10_000);
        assert_eq!(b.used(), 0);
        assert!(b.try_reserve(10_000));
        assert!(!b.try_reserve(u64::MAX));
        b.release(u64::MAX);
        assert_eq!(b.used(), 0);
    }

    #[test]
    fn the_pool_is_a_limit_too_and_works_to_its_last_byte() {
        let process = BudgetPool::root("process", 100_000);
        let engine = process.child("net", Some(90_000));
        let a = engine.leaf("a", None);
        let b = engine.leaf("b", Some(50_000));
        // a's chunks are 90,000 / 16 = 5,625 bytes: 60,000 are granted as 61,875.
        assert!(a.try_reserve(60_000));
        assert_eq!(engine.used(), 61_875);
        assert!(!b.try_reserve(28_126));
        assert!(b.try_reserve(28_125));
        assert!(!b.try_reserve(1));
        assert_eq!((process.used(), engine.used()), (90_000, 90_000));
        drop(a);
        assert!(b.try_reserve(50_000 - 28_125));
        assert!(!b.try_reserve(1));
        drop(b);
        assert_eq!((process.used(), engine.used()), (0, 0));
    }

    #[test]
    fn what_is_available_is_what_can_be_reserved() {
        for (used_by_a, used_by_b) in [(0, 0), (60_000, 10_000), (60_000, 28_125), (0, 50_000)] {
            let process = BudgetPool::root("process", 100_000);
            let engine = process.child("net", Some(90_000));
            let a = engine.leaf("a", None);
            let b = engine.leaf("b", Some(50_000));
            assert!(a.try_reserve(used_by_a) && b.try_reserve(used_by_b));
            // What the other holds counts, whatever the leaf's own limit has left.
            let n = b.available();
            assert!(b.try_reserve(n) && !b.try_reserve(1), "{n}");
            let n = a.available();
            assert!(a.try_reserve(n) && !a.try_reserve(1), "{n}");
            assert_eq!((a.available(), b.available()), (0, 0));
        }
    }

    #[test]
    fn random_use_never_exceeds_and_returns_all() {
        let process = BudgetPool::root("process", 1 << 20);
        let leaves: Vec<Budget> =
            (0..4).map(|n| process.leaf("t", if n == 0 { Some(70_001) } else { None })).collect();
        let mut held: Vec<(usize, u64)> = Vec::new();
        let mut seed = 7_u64;
        let mut refused = 0;
        for _ in 0..20_000 {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let leaf = (seed >> 33) as usize % leaves.len();
            let bytes = (seed >> 40) % 9_000;
            if seed >> 63 == 0 || held.is_empty() {
                if leaves[leaf].try_reserve(bytes) {
                    held.push((leaf, bytes));
                } else {
                    refused += 1;
                }
            } else {
                let (leaf, bytes) = held.swap_remove((seed >> 35) as usize % held.len());
                leaves[leaf].release(bytes);
            }
            for (n, leaf) in leaves.iter().enumerate() {
                let sum: u64 = held.iter().filter(|h| h.0 == n).map(|h| h.1).sum();
                assert_eq!(leaf.used(), sum);
                assert!(sum <= leaf.limit());
            }
            assert!(process.used() <= process.limit());
            assert!(process.used() >= held.iter().map(|h| h.1).sum());
        }
        assert!(refused > 0, "the test must reach the limits");
        drop(leaves);
        assert_eq!(process.used(), 0);
    }

    #[test]
    fn leaves_move_to_their_workers() {
        fn is_send<T: Send>(_: &T) {}
        let pool = BudgetPool::root("process", 1 << 30);
        let leaf = pool.leaf("flow", Some(1 << 20));
        is_send(&leaf);
        let peak = std::thread::spawn(move || {
            assert!(leaf.try_reserve(1000));
            leaf.release(1000);
            leaf.peak()
        });
        assert_eq!(peak.join().unwrap(), 1000);
        assert_eq!(pool.used(), 0);
    }

    #[test]
    fn the_report_shows_the_tree() {
        let process = BudgetPool::root("process", 1 << 30);
        let net = process.child("net", Some(1 << 28));
        let flow = net.leaf("flow", Some(1 << 20));
        assert!(flow.try_reserve(1 << 20));
        assert!(!flow.try_reserve(1));
        flow.publish();
        assert_eq!(
            process.report().to_string(),
            "process: 1 MiB of 1 GiB, peak 1 MiB\n  net: 1 MiB of 256 MiB, peak 1 MiB\n    \
             flow: 1 MiB of 1 MiB, peak 1 MiB, refused 1 times"
        );
        drop(flow);
        assert!(process.report().children[0].children.is_empty());
    }
}
