//! The memory of a process that holds a signing seed: kept out of core dumps and, where that is allowed, out of swap.

/// What of a process that signs is kept out of swap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Locked {
    /// All its memory.
    All,
    /// The page that holds the signing seed. Copies in the cryptographic library are not.
    Seed,
    /// Nothing.
    Nothing,
}

impl Locked {
    /// The warning with its remedy; none when all is well.
    pub const fn complaint(self) -> Option<&'static str> {
        match self {
            Locked::All => None,
            Locked::Seed => Some(
                "memory is not locked against swap, but for the signing seed's own page: raise LimitMEMLOCK (ulimit -l unlimited), or give CAP_IPC_LOCK",
            ),
            Locked::Nothing => Some(
                "memory can't be locked against swap, not even the signing seed's page: raise LimitMEMLOCK (ulimit -l unlimited), give CAP_IPC_LOCK, or do without swap",
            ),
        }
    }

    /// In one word, for JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Locked::All => "all",
            Locked::Seed => "seed",
            Locked::Nothing => "nothing",
        }
    }
}

/// A process that holds a signing seed leaves no copy of its memory on disk: neither in a core dump nor,
/// where it may lock memory, in swap. All of it is locked where that is allowed without limit, because the
/// cryptographic library keeps copies of its own. Under a limit only the page of the seed is locked: later
/// allocations would fail otherwise.
pub fn guard_secrets() -> Locked {
    use rustix::process::{DumpableBehavior, Resource, Rlimit};
    use rustix::process::{getrlimit, set_dumpable_behavior, setrlimit};
    let _ = set_dumpable_behavior(DumpableBehavior::NotDumpable);
    let _ = setrlimit(Resource::Core, Rlimit { current: Some(0), maximum: Some(0) });
    let unlimited = Rlimit { current: None, maximum: None };
    let may_lock = getrlimit(Resource::Memlock).current.is_none()
        || setrlimit(Resource::Memlock, unlimited).is_ok()
        || is_above_limits();
    lock_all(may_lock)
}

/// Whether the limit on locked memory does not bind this process (`man 2 mlock`: CAP_IPC_LOCK).
fn is_above_limits() -> bool {
    use rustix::thread::{CapabilitySet, capabilities};
    capabilities(None).is_ok_and(|c| c.effective.contains(CapabilitySet::IPC_LOCK))
}

fn lock_all(may_lock: bool) -> Locked {
    use rustix::mm::{MlockAllFlags, mlockall};
    // Pages are locked as they are used; else everything that is mapped would be read in now.
    let flags = MlockAllFlags::CURRENT | MlockAllFlags::FUTURE | MlockAllFlags::ONFAULT;
    if may_lock && mlockall(flags).is_ok() {
        return Locked::All;
    }
    if crate::locked::is_lockable() { Locked::Seed } else { Locked::Nothing }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_to_lock_memory_is_reported() {
        let locked = lock_all(false);
        assert_ne!(locked, Locked::All);
        assert!(locked.complaint().is_some_and(|c| c.contains("LimitMEMLOCK")));
        assert_eq!(Locked::All.complaint(), None);
    }
}
