//! The place of a piece among those of all workers, and what it depends on.

/// A place in the order of pieces: twice the number of the frame and one more at the frame itself;
/// then the first packet of a flow that ends.
pub(crate) type Place = (u64, u64);

/// When a piece is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum When {
    /// In any case.
    Always,
    /// If the question of this number among those kept is answered by yes.
    Asked(u32),
    /// If an alert of this flow that was asked for was written, or if not.
    Alerted(u64, bool),
}
