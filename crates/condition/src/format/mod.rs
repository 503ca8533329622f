//! Output formats: the text of an alert with the values of fields in it.

mod template;

pub use template::{Format, FormatError, output_fields};
