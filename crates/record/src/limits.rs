//! Limits: each crate's table of what bounds its work and memory, and the count of what reached one.
//!
//! A crate writes its table once, in its `limits.rs`, with [`limits!`](crate::limits!): a line gives
//! name, reason, value and what reaching it means. From it come the constant, the row of
//! `docs/limits.md` and the counter. Code that reaches a limit which loses something says
//! `reached::NAME.count()`; `tests/tidy` fails where a limit is defined elsewhere, is not counted, or is
//! reached by no test.
//!
//! Counting writes to the thread that counts and to nothing shared. A worker of the network engine
//! takes its counts up after each packet ([`take_reached`]), so that it knows whose they are; what any other
//! thread counted goes into the sums of the process when it ends or says so ([`publish`]), from where
//! the program reports it ([`take_all`]).

use std::cell::{Cell, RefCell};
use std::sync::Mutex;

/// What it means that a limit is reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Meaning {
    /// Something is shed: what. It is counted by [`Limit::count`] and shed as `limit_reached`.
    Loses(&'static str),
    /// Something is shed and counted under another name: by which counter, event or reason.
    Counts(&'static str),
    /// The input is refused as a whole and the error says why: what is refused.
    Refuses(&'static str),
    /// Nothing is shed: what happens instead.
    Spares(&'static str),
}

impl Meaning {
    /// What is shed, or what happens instead.
    pub const fn text(self) -> &'static str {
        match self {
            Meaning::Loses(what)
            | Meaning::Counts(what)
            | Meaning::Refuses(what)
            | Meaning::Spares(what) => what,
        }
    }
}

/// One limit. Made by [`limits!`](crate::limits!).
#[derive(Debug)]
pub struct Limit {
    /// The crate it belongs to, without `gabion-`.
    pub room: &'static str,
    /// The constant's name.
    pub name: &'static str,
    /// The bound, in the unit that the reason names.
    pub value: u64,
    /// What it bounds, why it has this value, and where the value is from.
    pub reason: &'static str,
    /// What reaching it means.
    pub meaning: Meaning,
}

impl Limit {
    /// Counts that it was reached once.
    #[cold]
    pub fn count(&'static self) {
        self.count_times(1);
    }

    /// Counts that it was reached `times` times: as many items were shed.
    #[cold]
    pub fn count_times(&'static self, times: u64) {
        if times > 0 {
            // A thread that is just ending has no counts left to add to.
            let _ = COUNTS.try_with(|counts| counts.borrow_mut().0.add(self, times));
            let _ = IS_REACHED.try_with(|is| is.set(true));
        }
    }

    /// Whether there is space for one more in addition to `held`; counted where not.
    #[inline]
    pub fn has_room(&'static self, held: usize) -> bool {
        let has_room = (held as u64) < self.value;
        if !has_room {
            self.count();
        }
        has_room
    }

    /// Whether `wanted` is within it; counted where not.
    #[inline]
    pub fn holds(&'static self, wanted: usize) -> bool {
        let holds = wanted as u64 <= self.value;
        if !holds {
            self.count();
        }
        holds
    }

    /// The name in outputs, e.g. `net.tags_max`.
    pub fn full_name(&self) -> String {
        format!("{}.{}", self.room, self.name.to_lowercase())
    }
}

/// Limits that were reached, and how often each.
#[derive(Clone, Debug, Default)]
pub struct Reached(Vec<(&'static Limit, u64)>);

impl Reached {
    /// None.
    pub const fn new() -> Reached {
        Reached(Vec::new())
    }

    /// Adds what was counted of one.
    pub fn add(&mut self, limit: &'static Limit, times: u64) {
        match self.0.iter_mut().find(|(l, _)| std::ptr::eq(*l, limit)) {
            Some((_, n)) => *n = n.saturating_add(times),
            None => self.0.push((limit, times)),
        }
    }

    /// Adds another thread's.
    pub fn merge(&mut self, other: &Reached) {
        for (limit, times) in &other.0 {
            self.add(limit, *times);
        }
    }

    /// Whether none was reached.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// How often any was reached.
    pub fn total(&self) -> u64 {
        self.0.iter().map(|(_, n)| n).sum()
    }

    /// How often one was reached.
    pub fn times_reached(&self, limit: &'static Limit) -> u64 {
        self.0.iter().find(|(l, _)| std::ptr::eq(*l, limit)).map_or(0, |(_, n)| *n)
    }

    /// Each with its count, ordered by name.
    pub fn iter(&self) -> impl Iterator<Item = (&'static Limit, u64)> + '_ {
        let mut all = self.0.clone();
        all.sort_by_key(|(l, _)| (l.room, l.name));
        all.into_iter()
    }
}

/// A thread's counts; they go into the process's sums when it ends.
struct Own(Reached);

impl Drop for Own {
    fn drop(&mut self) {
        add_to_process(&self.0);
    }
}

thread_local! {
    static COUNTS: RefCell<Own> = const { RefCell::new(Own(Reached::new())) };
    /// Whether there is something to take: looked at for every packet.
    static IS_REACHED: Cell<bool> = const { Cell::new(false) };
}

/// Counts of threads that were not taken yet.
static PROCESS: Mutex<Reached> = Mutex::new(Reached::new());

fn add_to_process(counts: &Reached) {
    if !counts.is_empty() {
        PROCESS.lock().unwrap_or_else(std::sync::PoisonError::into_inner).merge(counts);
    }
}

/// Whether this thread has reached a limit since its counts were taken.
#[inline]
pub fn is_any() -> bool {
    IS_REACHED.get()
}

/// Takes up what this thread counted.
pub fn take_reached() -> Reached {
    IS_REACHED.set(false);
    COUNTS.with_borrow_mut(|counts| std::mem::take(&mut counts.0))
}

/// Adds what this thread counted to the process's sums: for threads that run on.
pub fn publish() {
    if is_any() {
        add_to_process(&take_reached());
    }
}

/// Takes up what this thread and all those counted that have ended or published.
pub fn take_all() -> Reached {
    let mut all = take_reached();
    let process = &mut *PROCESS.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    all.merge(&std::mem::take(process));
    all
}

/// Writes a crate's table of limits. Each line: what it bounds and why (the documentation), the
/// constant, and what reaching it means with a text that says so (see
/// [`Meaning`]).
///
/// ```
/// mod limits {
///     gabion_record::limits! { "demo";
///         /// Rooms of a house: as many as the demonstration needs.
///         pub const ROOMS_MAX: usize = 3, Loses("further rooms");
///     }
/// }
/// use limits::{ROOMS_MAX, TABLE, reached};
///
/// assert_eq!(ROOMS_MAX, 3);
/// reached::ROOMS_MAX.count();
/// assert_eq!(gabion_record::limits::take_reached().times_reached(&reached::ROOMS_MAX), 1);
/// assert_eq!(TABLE[0].full_name(), "demo.rooms_max");
/// ```
#[macro_export]
macro_rules! limits {
    ($room:literal; $(
        $(#[doc = $doc:literal])+
        $vis:vis const $name:ident: $type:ty = $value:expr, $meaning:ident($what:literal);
    )+) => {
        $( $(#[doc = $doc])+ $vis const $name: $type = $value; )+

        /// The same limits with their reasons: here reaching one is counted.
        #[allow(unreachable_pub, reason = "tables of private modules are made the same way")]
        pub mod reached {
            $( $(#[doc = $doc])+
            pub static $name: $crate::limits::Limit = $crate::limits::Limit {
                room: $room,
                name: stringify!($name),
                value: super::$name as u64,
                reason: concat!($($doc),+),
                meaning: $crate::limits::Meaning::$meaning($what),
            }; )+
        }

        /// All limits of this table, in the order of its file.
        #[allow(unreachable_pub, reason = "tables of private modules are made the same way")]
        pub static TABLE: &[&$crate::limits::Limit] = &[$(&reached::$name),+];
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    limits! { "record";
        /// Things of a test.
        const THINGS_MAX: usize = 2, Loses("further things");
        /// Others, of another: for its order.
        const OTHERS_MAX: u32 = 7, Spares("nothing");
    }

    #[test]
    fn what_is_reached_is_counted_by_limit_and_taken_once() {
        assert!(!is_any() && take_reached().is_empty());
        for n in 0..5 {
            if n >= THINGS_MAX {
                reached::THINGS_MAX.count();
            }
        }
        reached::OTHERS_MAX.count_times(u64::from(OTHERS_MAX));
        reached::OTHERS_MAX.count_times(0);
        assert!(is_any());
        let mut counts = take_reached();
        counts.merge(&counts.clone());
        let listed: Vec<_> = counts.iter().map(|(l, n)| (l.full_name(), n)).collect();
        let expected = [("record.others_max".to_owned(), 14), ("record.things_max".to_owned(), 6)];
        assert_eq!(listed, expected);
        assert_eq!((counts.total(), counts.times_reached(&reached::THINGS_MAX)), (20, 6));
        assert!(!is_any() && take_reached().is_empty());
        assert_eq!((TABLE.len(), TABLE[0].value, TABLE[0].reason), (2, 2, " Things of a test."));
    }

    #[test]
    fn what_a_thread_counted_is_there_when_it_has_ended() {
        std::thread::spawn(|| reached::THINGS_MAX.count()).join().unwrap();
        std::thread::spawn(|| {
            reached::THINGS_MAX.count();
            publish();
            assert!(take_reached().is_empty());
        })
        .join()
        .unwrap();
        assert_eq!(take_all().times_reached(&reached::THINGS_MAX), 2);
    }
}
