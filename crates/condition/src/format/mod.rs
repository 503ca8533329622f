//! Output formats: the text of an alert with the values of fields in it.

mod alert;
mod template;

pub use alert::{AlertStyle, Clock, OutputField, OutputValue, alert_json, alert_text};
pub use template::{Format, FormatError, output_fields};
