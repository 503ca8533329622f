//! What a rule does when it matches.

/// What a rule does when it matches.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Action {
    /// `alert`
    Alert,
    /// `pass`
    Pass,
    /// `drop`
    Drop,
    /// `reject`, `rejectsrc`
    RejectSource,
    /// `rejectdst`
    RejectDestination,
    /// `rejectboth`
    RejectBoth,
    /// `config`
    Config,
    /// `accept` (firewall rules only)
    Accept,
}

impl Action {
    /// Whether the packet is dropped (rejects imply it).
    pub const fn drops(self) -> bool {
        matches!(
            self,
            Action::Drop | Action::RejectSource | Action::RejectDestination | Action::RejectBoth
        )
    }

    /// Whether a reset or unreachable message is sent.
    pub const fn rejects(self) -> bool {
        matches!(self, Action::RejectSource | Action::RejectDestination | Action::RejectBoth)
    }
}
