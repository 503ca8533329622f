//! slog's formats: the envelope its clients send, and the files its server stores.
//!
//! slog wraps a fresh password for each message with RSA-OAEP (SHA-512), encrypts with AES-256-GCM under
//! SHA-256 of the password, and splits what comes out at commas. Ours opens what slog opens, and lines
//! with commas too, which slog never does; what can't be opened is kept with the reason.

pub mod envelope;
pub mod file;

pub use envelope::{Envelope, Suspicious};
pub use file::{Fault, Import, Imported, Summary};
