//! What a log is: `log.id`, a note signed by its first key, written once and copied off the host.
//!
//! ```text
//! gabion/sealed-log/v1
//! origin log.example/host
//! created 1700000000000000000
//! key log.example/host+6d1f...
//! checkpoint every 64 chunks
//! checkpoint every 10 seconds
//! ```

use crate::error::{Error, Result};
use crate::format::epoch::EpochKey;
use crate::format::segment;
use crate::note::{Note, Vkey, is_origin};

/// Name of the file.
pub const FILE: &str = "log.id";

const FIRST_LINE: &str = "gabion/sealed-log/v1";

/// What a log is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// Name of the log in its checkpoints.
    pub origin: String,
    /// When it was made, nanoseconds since 1970.
    pub created_ns: u64,
    /// Key of epoch 0.
    pub vkey: Vkey,
    /// A checkpoint is signed after this many chunks at the latest,
    pub checkpoint_chunks: u64,
    /// and after this many seconds.
    pub checkpoint_seconds: u64,
}

impl Identity {
    /// Of a new log whose first key is this.
    pub fn new(
        origin: &str,
        key: &EpochKey,
        created_ns: u64,
        chunks: u64,
        seconds: u64,
    ) -> Result<Identity> {
        if !is_origin(origin) {
            return Err(Error::format(
                "an origin is a name without spaces, `+` and control characters",
            ));
        }
        Ok(Identity {
            origin: origin.to_owned(),
            created_ns,
            vkey: key.vkey(origin),
            checkpoint_chunks: chunks,
            checkpoint_seconds: seconds,
        })
    }

    /// The id that stands in every segment.
    #[must_use]
    pub fn log_id(&self) -> [u8; 16] {
        segment::log_id(&self.origin, &self.vkey.key)
    }

    /// The file, signed by the first key.
    #[must_use]
    pub fn sign(&self, key: &EpochKey) -> String {
        let text = format!(
            "{FIRST_LINE}\norigin {}\ncreated {}\nkey {}\ncheckpoint every {} chunks\ncheckpoint every {} seconds\n",
            self.origin,
            self.created_ns,
            self.vkey,
            self.checkpoint_chunks,
            self.checkpoint_seconds,
        );
        key.sign_note(&self.origin, text).to_string()
    }

    /// Reads and verifies the file by the key it names itself. Whether that is the right key is for a
    /// pinned one to say.
    pub fn parse(bytes: &[u8]) -> Result<Identity> {
        let note = Note::parse(bytes)?;
        let identity = Identity::read_text(&note.text)?;
        note.verify(std::slice::from_ref(&identity.vkey))?;
        Ok(identity)
    }

    fn read_text(text: &str) -> Result<Identity> {
        let wrong = || Error::format("log.id: not as this program writes it");
        let mut lines = text.lines();
        match lines.next() {
            Some(FIRST_LINE) => {}
            Some(other) if other.starts_with("gabion/sealed-log/") => {
                return Err(Error::Unsupported { what: format!("log.id: {other}") });
            }
            _ => return Err(wrong()),
        }
        let mut field = |before: &str, after: &str| {
            lines
                .next()
                .and_then(|l| l.strip_prefix(before))
                .and_then(|l| l.strip_suffix(after))
                .ok_or_else(wrong)
        };
        let origin = field("origin ", "")?;
        let created_ns = field("created ", "")?;
        let vkey = Vkey::parse(field("key ", "")?)?;
        let chunks = field("checkpoint every ", " chunks")?;
        let seconds = field("checkpoint every ", " seconds")?;
        let number = |text: &str| text.parse().map_err(|_| wrong());
        if !is_origin(origin) || vkey.name != origin {
            return Err(wrong());
        }
        Ok(Identity {
            origin: origin.to_owned(),
            created_ns: number(created_ns)?,
            checkpoint_chunks: number(chunks)?,
            checkpoint_seconds: number(seconds)?,
            vkey,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_comes_back_and_altered_ones_are_refused() {
        let key = EpochKey::generate().unwrap();
        let identity = Identity::new("log.example/host", &key, 7, 64, 10).unwrap();
        let text = identity.sign(&key);
        assert_eq!(Identity::parse(text.as_bytes()).unwrap(), identity);
        assert!(Identity::parse(text.replace("every 64", "every 65").as_bytes()).is_err());
        assert!(matches!(
            Identity::parse(text.replace("log/v1", "log/v2").as_bytes()),
            Err(Error::Unsupported { .. })
        ));
        for origin in ["", "a b", "a+b", "cosignature/v1", "subtree/v1", "a\nb"] {
            assert!(Identity::new(origin, &key, 0, 1, 1).is_err(), "{origin:?}");
        }
    }
}
