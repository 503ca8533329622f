//! The fields of events, as Falco's rules and sysdig's filters name them: the interface between engines that know events
//! (`gabion-syscall`) and the rule language (`gabion-condition`).
//!
//! `fields.tsv` lists all 293 fields of Falco (libs, schema 4.5.1, with the plugin `container` 0.7.1) and our own, whose class
//! is `gabion`. An engine implements [`Fields`] for an event; the rule language asks for one field at a time. Plain values
//! borrow from the engine or from [`Scratch`], so that a warm engine allocates nothing.

pub mod events;
pub mod ids;
mod table;
mod value;

pub use table::{Field, FieldId, Flags, Kind};
pub use value::{Argument, List, Missing, Scratch, Value};

/// The fields of one event.
pub trait Fields {
    /// The value of `field` for this event, or the reason why it has none.
    ///
    /// `scratch` is space for values that must be put together, such as a command line. The caller keeps it from event to
    /// event. A field that has several values, such as `proc.aname` without an index, returns a [`Value::List`].
    ///
    /// # Errors
    /// The reason why the event has no such value.
    fn field<'a>(
        &'a self,
        field: FieldId,
        argument: Argument<'_>,
        scratch: &'a mut Scratch,
    ) -> Result<Value<'a>, Missing>;

    /// The number of the event's type in Falco's event table (schema 4.5.1): even for enter events, odd for exits.
    fn event_type(&self) -> u16;

    /// The number of the event in its input, as `evt.num`.
    fn event_number(&self) -> u64;

    /// The time of the event in nanoseconds since 1970.
    fn event_time(&self) -> u64;
}
