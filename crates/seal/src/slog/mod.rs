//! slog's formats: the files its server stores, and the blob they share with what its clients send.
//!
//! slog encrypts with AES-256-GCM under SHA-256 of a password, and splits what comes out at commas. Ours
//! opens what slog opens, and lines with commas too, which slog never does; what can't be opened is kept
//! with the reason. The envelope on the wire, in which RSA wraps a fresh password for each message, is the
//! intake's: `logs::envelope`.

mod blob;
mod file;

pub use blob::{NONCE_LEN, TAG_LEN, open as open_blob, seal as seal_blob};
pub use file::{Fault, Import, Imported, SlogRecord, Summary, line_hash, unix_ns};
