//! What gates, grams and inspection must know of a buffer.

use gabion_record::applayer::BufferDef;

/// What inspection must know of a buffer.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct BufferFacts {
    /// Several instances.
    pub(crate) multi: bool,
    /// Growing, inspected in windows.
    pub(crate) streaming: bool,
}

impl BufferFacts {
    /// Of a protocol's buffer.
    pub(super) fn from_def(def: &BufferDef) -> BufferFacts {
        BufferFacts { multi: def.multi, streaming: def.streaming }
    }
}
