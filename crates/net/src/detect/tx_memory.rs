//! What detection remembers of a transaction, in one direction: of rules that wait or are decided, and of the firewall.

use smallvec::SmallVec;

/// A rule with some of its conditions met, or one that is decided.
#[derive(Clone, Copy, Debug)]
pub(super) struct Kept {
    pub(super) sig: u32,
    /// Engines met, one bit each.
    pub(super) met: u64,
    pub(super) state: KeptState,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum KeptState {
    Waiting,
    /// The packets so far did not meet what the rule asks of packets.
    Unmet,
    /// One side of a transactional rule has matched.
    HalfDone,
    Done,
    Never,
}

/// What detection remembers of a transaction in one direction. Most are inspected once and are done
/// then, so this holds little; what is to be remembered of other transactions is in [`TxNotes`].
#[derive(Debug, Default)]
pub(crate) struct TxDetect {
    /// Nothing more will match.
    pub(crate) is_done: bool,
    /// How far it was when it was inspected.
    pub(super) seen: Seen,
    /// What the firewall knows of it.
    pub(super) filter: Option<Box<TxFilter>>,
    pub(super) notes: Option<Box<TxNotes>>,
}

impl TxDetect {
    /// Bytes of what it remembers, without its own.
    pub(crate) fn bytes_held(&self) -> usize {
        self.notes.as_deref().map_or(0, |notes| size_of::<TxNotes>() + notes.bytes_held())
    }

    /// Rules were loaded again: what is known of those before is forgotten.
    pub(crate) fn forget_rules(&mut self) {
        self.filter = None;
        self.notes = None;
        self.seen = Seen::default();
    }

    /// What is remembered of a rule.
    pub(super) fn kept(&self, sig: u32) -> Option<&Kept> {
        let kept = &self.notes.as_deref()?.kept;
        kept.binary_search_by_key(&sig, |k| k.sig).ok().and_then(|at| kept.get(at))
    }
}

/// How far a transaction was when it was inspected.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Seen {
    /// Something was inspected already.
    pub(super) started: bool,
    pub(super) progress: u8,
    pub(super) events: u16,
}

/// What detection remembers of a transaction in one direction while more rules may match.
#[derive(Clone, Debug, Default)]
pub(crate) struct TxNotes {
    pub(super) seen: Seen,
    /// Packets with which it was not inspected again, although it was in their turn, since its state is what it is.
    pub(super) put_off: u32,
    /// Buffers scanned, one bit a buffer of the program.
    pub(super) scanned: u128,
    /// Rules that wait or are decided, by number. The application layer's budget is charged for them: a
    /// rule is forgotten only when the budget is used up, and that is counted.
    pub(super) kept: SmallVec<[Kept; 2]>,
    /// End of the last window of growing buffers, by local number and instance.
    pub(super) windows: Vec<WindowEnd>,
}

/// End of the last window of an instance of a growing buffer.
pub(super) type WindowEnd = ((u16, u32), u64);

/// Places of windows that notes keep for the next transaction: most have the bodies of a message.
const WINDOWS_SPARED: usize = 4;

impl TxNotes {
    /// Forgets everything and keeps hardly more capacity than a new one has.
    pub(super) fn clear(&mut self) {
        self.seen = Seen::default();
        self.put_off = 0;
        self.scanned = 0;
        if self.kept.spilled() {
            self.kept = SmallVec::new();
        }
        self.kept.clear();
        if self.windows.capacity() > WINDOWS_SPARED {
            self.windows = Vec::new();
        }
        self.windows.clear();
    }

    /// There is no more in it than how far the transaction was.
    pub(super) fn is_plain(&self) -> bool {
        self.scanned == 0 && self.put_off == 0 && self.kept.is_empty() && self.windows.is_empty()
    }

    /// A rule waits for later data.
    pub(super) fn has_waiting(&self) -> bool {
        self.kept.iter().any(|k| matches!(k.state, KeptState::Waiting | KeptState::Unmet))
    }

    /// Bytes of what it remembers, without its own.
    pub(super) fn bytes_held(&self) -> usize {
        let kept = if self.kept.spilled() { self.kept.capacity() } else { 0 };
        kept * size_of::<Kept>() + self.windows.capacity() * size_of::<WindowEnd>()
    }

    pub(super) fn window(&self, local: u16, index: usize) -> u64 {
        let key = (local, index as u32);
        self.windows.iter().find(|(k, _)| *k == key).map_or(0, |(_, e)| *e)
    }

    /// Notes new ends of windows.
    pub(super) fn note_windows(&mut self, ends: &[WindowEnd]) {
        for (key, end) in ends {
            match self.windows.iter_mut().find(|(k, _)| k == key) {
                Some(slot) => slot.1 = *end,
                None => self.windows.push((*key, *end)),
            }
        }
    }
}

/// A transaction and the firewall, in one direction.
#[derive(Clone, Debug, Default)]
pub(crate) struct TxFilter {
    /// State of the transaction when it was last filtered.
    pub(super) progress: u8,
    /// It is accepted as a whole.
    pub(super) is_accepted: bool,
    /// Rules on more than the state that matched: they do so silently from then on.
    pub(super) matched: SmallVec<[u32; 4]>,
}
