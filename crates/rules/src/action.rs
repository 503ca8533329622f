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
    /// The action as rules write it.
    pub const fn name(self) -> &'static str {
        match self {
            Action::Alert => "alert",
            Action::Pass => "pass",
            Action::Drop => "drop",
            Action::RejectSource => "reject",
            Action::RejectDestination => "rejectdst",
            Action::RejectBoth => "rejectboth",
            Action::Config => "config",
            Action::Accept => "accept",
        }
    }

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
