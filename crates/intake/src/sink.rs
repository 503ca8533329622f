//! Where messages end up: a trait that the sealed log implements, and in tests something slow, stuck or broken.

use crate::error::Result;
use gabion_seal::durable::Dropped;
use gabion_seal::{Record, Source, Transport};

/// Where messages end up.
pub trait Sink {
    /// Takes a record; it need not be durable yet.
    ///
    /// # Errors
    /// When nothing can be kept any more: the server ends.
    fn append(&mut self, source: &Source, record: &Record<'_>) -> Result<()>;

    /// Makes durable all that was taken.
    ///
    /// # Errors
    /// The same.
    fn commit(&mut self) -> Result<()>;

    /// Does what is due by time: checkpoints, epochs.
    ///
    /// # Errors
    /// The same.
    fn tick(&mut self) -> Result<()>;

    /// States that this is the end, and makes it durable.
    ///
    /// # Errors
    /// The same.
    fn close(&mut self) -> Result<()>;

    /// Messages taken since the last call, and shed because nothing could store them.
    fn take_dropped(&mut self) -> Dropped {
        Dropped::default()
    }

    /// Whether nothing can be stored now.
    fn is_full(&self) -> bool {
        false
    }
}

/// The source of the sensor's own statements.
pub(crate) fn own_source() -> Source {
    Source::new(Transport::Internal, 0, "", "")
}
