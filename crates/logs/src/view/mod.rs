//! What a reader of a sealed log sees of its records: which of them, and how each is written.
//!
//! The log keeps the bytes of messages; they are parsed here, when somebody reads them. [`MessageFilter`] chooses by what
//! a message holds, [`RecordPrinter`] writes records as JSON lines or as text, [`MessageExporter`] messages for another
//! program, [`write_backwards`] the last ones first.

mod backwards;
mod cross_records;
mod export;
mod filter;
mod line;
mod printer;
mod times;

pub use backwards::{Backwards, first_of_last, write_backwards};
pub use export::MessageExporter;
pub use filter::{MessageCriteria, MessageFilter, Severities, SeverityError, parse_severities};
pub use printer::RecordPrinter;
pub use times::rfc3339;

use crate::dialect::Dialect;
use crate::syslog::{Message, Notes};
use gabion_seal::reader::{Found, finding_id};

/// Whether a record is a text without a header: neither a syslog message with a priority, nor one that only lacks it. A
/// line of standard input or of a file is a syslog message if it has a time; all that came by a syslog transport is one.
fn is_plain(found: &Found<'_>, message: &Message<'_>) -> bool {
    let is_syslog = found.source.transport.is_some_and(Dialect::is_syslog);
    let has_header = is_syslog || message.time.is_some();
    message.notes.has(Notes::BAD_PRI) || message.notes.has(Notes::NO_PRI) && !has_header
}
