//! How much a worker leaves out while its ring runs full.

/// How much is left out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Pressure {
    /// Nothing.
    #[default]
    None,
    /// Packets of flows that can hardly alert any more.
    Bypass,
    /// Records too.
    Records,
    /// Rules on new flows too.
    Detection,
}
