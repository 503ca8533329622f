//! Containers as their runtimes describe them: by events of files, or by the caller that asks a runtime.

use gabion_record::fields::{Argument, FieldId, Missing, Scratch, Value};

/// Descriptions by identifier.
#[derive(Debug, Default)]
pub(crate) struct Containers {}

impl Containers {
    /// Adds what a runtime reported in JSON.
    pub(crate) fn add_json(&mut self, json: &[u8]) {
        let _ = json;
    }

    /// A field of the container of this identifier.
    pub(crate) fn field<'a>(
        &'a self,
        id: &[u8],
        field: FieldId,
        argument: Argument<'_>,
        scratch: &'a mut Scratch,
    ) -> Result<Value<'a>, Missing> {
        let _ = (id, field, argument, scratch);
        Err(Missing::LookupFailed)
    }
}
