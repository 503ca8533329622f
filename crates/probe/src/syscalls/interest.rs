//! Which system calls are recorded.

use super::recipes::{CALLS, NATIVE};
use gabion_scap::table::{calls, x86_64_of_ia32};

/// The number in the table of 32 bits of the one call that makes all calls of sockets.
const SOCKETCALL: usize = 102;
/// The calls that it makes.
const SOCKETCALLS: [&str; 18] = [
    "socket",
    "bind",
    "connect",
    "listen",
    "accept",
    "getsockname",
    "getpeername",
    "socketpair",
    "sendto",
    "recvfrom",
    "shutdown",
    "setsockopt",
    "getsockopt",
    "sendmsg",
    "recvmsg",
    "accept4",
    "recvmmsg",
    "sendmmsg",
];

/// A set of system calls by their numbers on `x86_64`.
#[derive(Clone, PartialEq, Eq)]
pub struct Interest {
    numbers: Vec<bool>,
    /// Whether ends of threads are recorded.
    pub exits: bool,
}

impl Interest {
    /// No call at all.
    #[must_use]
    pub fn none() -> Self {
        Self { numbers: vec![false; CALLS], exits: false }
    }

    /// The calls that change what is known of threads and descriptors, and ends of threads.
    #[must_use]
    pub fn state() -> Self {
        let mut set = Self::none();
        for call in calls().iter().filter(|call| call.is_state) {
            set.add_number(call.x86_64);
        }
        set.exits = true;
        set
    }

    /// Those of [`Interest::state`] and those that Falco records by default.
    #[must_use]
    pub fn simple() -> Self {
        let mut set = Self::state();
        for call in calls().iter().filter(|call| call.is_simple) {
            set.add_number(call.x86_64);
        }
        set
    }

    /// Every call.
    #[must_use]
    pub fn all() -> Self {
        let mut set = Self::none();
        for call in calls() {
            set.add_number(call.x86_64);
        }
        set.exits = true;
        set
    }

    /// The calls whose records have code of their own in the kernel; the records of others are written by a recipe.
    #[must_use]
    pub fn native() -> Self {
        let mut set = Self::none();
        for name in NATIVE {
            set.add(name);
        }
        set
    }

    /// Adds a call by its name; false if this machine has no such call.
    pub fn add(&mut self, name: &str) -> bool {
        let number = calls().iter().find(|call| call.name == name).and_then(|call| call.x86_64);
        self.exits |= matches!(name, "procexit" | "sched_process_exit");
        self.add_number(number)
    }

    /// Removes a call by its name; false if this machine has no such call.
    pub fn remove(&mut self, name: &str) -> bool {
        let number = calls().iter().find(|call| call.name == name).and_then(|call| call.x86_64);
        let slot = number.and_then(|n| self.numbers.get_mut(usize::from(n)));
        slot.map(|slot| *slot = false).is_some()
    }

    fn add_number(&mut self, number: Option<u16>) -> bool {
        let slot = number.and_then(|n| self.numbers.get_mut(usize::from(n)));
        slot.map(|slot| *slot = true).is_some()
    }

    /// Whether a call is in the set.
    #[must_use]
    pub fn has(&self, name: &str) -> bool {
        let number = calls().iter().find(|call| call.name == name).and_then(|call| call.x86_64);
        number.and_then(|n| self.numbers.get(usize::from(n))).copied().unwrap_or(false)
    }

    /// The byte of each number in the kernel's table: bit 0 for programs of 64 bits, bit 1 for those of 32.
    pub(crate) fn table(&self) -> [u8; CALLS] {
        let mut table = [0; CALLS];
        for (to, is_wanted) in table.iter_mut().zip(&self.numbers) {
            *to = u8::from(*is_wanted);
        }
        for (ia32, to) in table.iter_mut().enumerate() {
            let number = u16::try_from(ia32).ok().and_then(x86_64_of_ia32);
            let is_wanted = number.and_then(|n| self.numbers.get(usize::from(n)));
            *to |= u8::from(is_wanted.copied().unwrap_or(false)) << 1;
        }
        let sockets = calls().iter().filter(|call| SOCKETCALLS.contains(&call.name));
        let mut numbers = sockets.filter_map(|call| self.numbers.get(usize::from(call.x86_64?)));
        if numbers.any(|is_wanted| *is_wanted) {
            table[SOCKETCALL] |= 2;
        }
        table
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_is_wanted_by_both_of_its_numbers() {
        let mut set = Interest::none();
        assert!(set.add("openat") && !set.add("nonsense"));
        let table = set.table();
        assert_eq!((table[257], table[295]), (1, 2), "295 is preadv in the table of 64 bits");
        assert_eq!(table[SOCKETCALL], 0);
        assert!(set.add("connect") && set.table()[SOCKETCALL] == 2 && set.remove("connect"));
        assert!(set.remove("openat") && set.table().iter().all(|byte| *byte == 0));
    }

    #[test]
    fn the_sets_have_their_calls() {
        let wanted = |set: &Interest| set.numbers.iter().filter(|w| **w).count();
        let (state, simple, all) = (Interest::state(), Interest::simple(), Interest::all());
        assert!(wanted(&state) < wanted(&simple) && wanted(&simple) < wanted(&all));
        assert!(state.has("execve") && !state.has("read") && all.has("read"));
        assert!(state.exits && all.exits);
    }
}
