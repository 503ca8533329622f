//! Signed notes (C2SP signed-note), checkpoints (C2SP tlog-checkpoint) and cosignatures (C2SP
//! tlog-cosignature).
//!
//! A note is text, an empty line, and signature lines. A key that is not known is passed over; a
//! signature under a known key that fails condemns the note. The time of a checkpoint stands in a
//! cosignature line of the log's own key (type 4), because extension lines are advised against.

use crate::error::{Error, Result};
use crate::format::tree::{Hash, sha256_parts};
use crate::format::wire::Take;
use crate::limits::{NOTE_MAX, NOTE_SIGNATURES_MAX};
use crate::text::unbase64_hash;
use aws_lc_rs::signature::{ED25519, Ed25519KeyPair, UnparsedPublicKey};
use gabion_record::base64::{from_base64, to_base64};
use gabion_record::hex::to_hex;

/// What opens a signature line: an em dash and a space.
const DASH: &str = "\u{2014} ";

/// What a key signs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SignatureKind {
    /// Ed25519 over the note's text.
    Ed25519,
    /// Ed25519 over time and text: a cosignature.
    Cosignature,
}

impl SignatureKind {
    /// The byte that stands for it in key ids.
    #[must_use]
    pub const fn byte(self) -> u8 {
        match self {
            SignatureKind::Ed25519 => 1,
            SignatureKind::Cosignature => 4,
        }
    }
}

/// A key that verifies notes: `name+id+base64(type ‖ public key)`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Vkey {
    /// Name that stands in signature lines.
    pub name: String,
    /// First bytes of a hash over name, type and key.
    pub id: [u8; 4],
    /// What it signs.
    pub kind: SignatureKind,
    /// Ed25519 public key.
    pub key: [u8; 32],
}

impl Vkey {
    /// For a key of this name and kind.
    #[must_use]
    pub fn new(name: &str, kind: SignatureKind, key: [u8; 32]) -> Vkey {
        let digest = sha256_parts(&[name.as_bytes(), b"\n", &[kind.byte()], &key]);
        let mut id = [0; 4];
        id.copy_from_slice(&digest[..4]);
        Vkey { name: name.to_owned(), id, kind, key }
    }

    /// Reads the text form; the id must be the one of the key.
    pub fn parse(text: &str) -> Result<Vkey> {
        let wrong = || Error::format("not a verification key (NAME+ID+KEY)");
        let mut parts = text.trim_end().splitn(3, '+');
        let (Some(name), Some(id), Some(key)) = (parts.next(), parts.next(), parts.next()) else {
            return Err(wrong());
        };
        let bytes = from_base64(key.as_bytes()).ok_or_else(wrong)?;
        let (kind, key) = match bytes.split_first() {
            Some((1, key)) => (SignatureKind::Ed25519, key),
            Some((4, key)) => (SignatureKind::Cosignature, key),
            Some(_) => {
                return Err(Error::Unsupported { what: "unknown type of verification key".into() });
            }
            None => return Err(wrong()),
        };
        if !is_name(name) {
            return Err(wrong());
        }
        let vkey = Vkey::new(name, kind, key.try_into().map_err(|_| wrong())?);
        if to_hex(&vkey.id) == id {
            Ok(vkey)
        } else {
            Err(Error::format("verification key: its id is another's"))
        }
    }

    /// The same key for the other kind of signature.
    #[must_use]
    pub fn of_kind(&self, kind: SignatureKind) -> Vkey {
        Vkey::new(&self.name, kind, self.key)
    }

    /// Whether this signature is by this key over the text; for a cosignature the time too.
    #[must_use]
    pub fn verify(&self, text: &str, signature: &Signature) -> bool {
        let key = UnparsedPublicKey::new(&ED25519, self.key);
        match self.kind {
            SignatureKind::Ed25519 => key.verify(text.as_bytes(), &signature.bytes).is_ok(),
            SignatureKind::Cosignature => match signature.time() {
                Some(time) => signature
                    .bytes
                    .get(8..)
                    .is_some_and(|s| key.verify(cosigned(time, text).as_bytes(), s).is_ok()),
                None => false,
            },
        }
    }
}

impl std::fmt::Display for Vkey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut key = vec![self.kind.byte()];
        key.extend_from_slice(&self.key);
        write!(f, "{}+{}+{}", self.name, to_hex(&self.id), to_base64(&key))
    }
}

/// Whether a text may name a key: not empty, no space, no plus, nothing that a terminal would act on.
#[must_use]
pub(crate) fn is_name(name: &str) -> bool {
    !name.is_empty()
        && name.len() <= 255
        && name.chars().all(|c| c != '+' && !c.is_whitespace() && !c.is_control())
}

fn cosigned(time: u64, text: &str) -> String {
    format!("cosignature/v1\ntime {time}\n{text}")
}

/// One signature line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Signature {
    /// Name of the key.
    pub name: String,
    /// Id of the key.
    pub id: [u8; 4],
    /// What follows the id.
    pub bytes: Vec<u8>,
}

impl Signature {
    /// Seconds since 1970 that a cosignature states.
    #[must_use]
    pub fn time(&self) -> Option<u64> {
        (self.bytes.len() == 72).then(|| Take::new(&self.bytes).u64()).flatten()
    }

    /// By this key (of type 1) over the text.
    #[must_use]
    pub fn sign(name: &str, key: &Ed25519KeyPair, public: [u8; 32], text: &str) -> Signature {
        let id = Vkey::new(name, SignatureKind::Ed25519, public).id;
        Signature { name: name.to_owned(), id, bytes: key.sign(text.as_bytes()).as_ref().to_vec() }
    }

    /// A cosignature by this key at this time, in seconds since 1970.
    #[must_use]
    pub fn cosign(
        name: &str,
        key: &Ed25519KeyPair,
        public: [u8; 32],
        time: u64,
        text: &str,
    ) -> Signature {
        let id = Vkey::new(name, SignatureKind::Cosignature, public).id;
        let mut bytes = time.to_be_bytes().to_vec();
        bytes.extend_from_slice(key.sign(cosigned(time, text).as_bytes()).as_ref());
        Signature { name: name.to_owned(), id, bytes }
    }

    fn parse(line: &str) -> Option<Signature> {
        let (name, coded) = line.strip_prefix(DASH)?.split_once(' ')?;
        let bytes = from_base64(coded.as_bytes())?;
        let (id, rest) = bytes.split_at_checked(4)?;
        (is_name(name) && !rest.is_empty()).then(|| Signature {
            name: name.to_owned(),
            id: [id[0], id[1], id[2], id[3]],
            bytes: rest.to_vec(),
        })
    }
}

impl std::fmt::Display for Signature {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut bytes = self.id.to_vec();
        bytes.extend_from_slice(&self.bytes);
        writeln!(f, "{DASH}{} {}", self.name, to_base64(&bytes))
    }
}

/// A text with its signatures.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Note {
    /// What is signed, with its last line feed.
    pub text: String,
    /// Signature lines in order.
    pub signatures: Vec<Signature>,
}

/// A signature that was made by a known key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Verified {
    /// Index in the list of keys.
    pub key: usize,
    /// Seconds since 1970, when it is a cosignature.
    pub time: Option<u64>,
}

impl Note {
    /// Reads a note's form; nothing is verified.
    pub fn parse(bytes: &[u8]) -> Result<Note> {
        let wrong = |what: &str| Error::format(format!("signed note: {what}"));
        if bytes.len() > NOTE_MAX {
            return Err(wrong("too long"));
        }
        let whole = std::str::from_utf8(bytes).map_err(|_| wrong("not UTF-8"))?;
        if whole.bytes().any(|b| b < 0x20 && b != b'\n') {
            return Err(wrong("control characters"));
        }
        let at = whole.rfind("\n\n").ok_or_else(|| wrong("no empty line before the signatures"))?;
        let (text, rest) = whole.split_at(at + 1);
        let lines = rest.get(1..).unwrap_or_default();
        let body = lines.strip_suffix('\n').ok_or_else(|| wrong("the last line has no end"))?;
        let mut signatures = Vec::new();
        for line in body.split('\n') {
            if signatures.len() == NOTE_SIGNATURES_MAX {
                return Err(wrong("too many signatures"));
            }
            signatures
                .push(Signature::parse(line).ok_or_else(|| wrong("a signature line is invalid"))?);
        }
        Ok(Note { text: text.to_owned(), signatures })
    }

    /// The signatures by known keys. A failing one, or none at all, is an error.
    pub fn verify(&self, keys: &[Vkey]) -> Result<Vec<Verified>> {
        let mut verified: Vec<Verified> = Vec::new();
        for signature in &self.signatures {
            let known = keys.iter().position(|k| k.id == signature.id && k.name == signature.name);
            let Some(index) = known else { continue };
            let key = &keys[index];
            if verified.iter().any(|v| v.key == index) {
                continue;
            }
            if !key.verify(&self.text, signature) {
                return Err(Error::format(format!(
                    "signature of {} ({}) is wrong",
                    key.name,
                    to_hex(&key.id)
                )));
            }
            let time = (key.kind == SignatureKind::Cosignature).then(|| signature.time()).flatten();
            verified.push(Verified { key: index, time });
        }
        if verified.is_empty() {
            Err(Error::format("no signature of a known key"))
        } else {
            Ok(verified)
        }
    }
}

impl std::fmt::Display for Note {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        writeln!(f, "{}", self.text)?;
        self.signatures.iter().try_for_each(|s| write!(f, "{s}"))
    }
}

/// A signed tree head: what a note of a log says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Checkpoint {
    /// Which log.
    pub origin: String,
    /// Chunks in the tree.
    pub size: u64,
    /// Its root.
    pub root: Hash,
}

impl Checkpoint {
    /// Reads the text of a note.
    pub fn parse(text: &str) -> Result<Checkpoint> {
        let wrong = |what: &str| Error::format(format!("checkpoint: {what}"));
        let mut lines = text.split('\n');
        let (Some(origin), Some(size), Some(root)) = (lines.next(), lines.next(), lines.next())
        else {
            return Err(wrong("three lines wanted"));
        };
        if !is_origin(origin) {
            return Err(wrong("no origin"));
        }
        if size.is_empty()
            || (size.len() > 1 && size.starts_with('0'))
            || !size.bytes().all(|b| b.is_ascii_digit())
        {
            return Err(wrong("size is not a decimal number"));
        }
        let size = size.parse().map_err(|_| wrong("size is too large"))?;
        let root = unbase64_hash(root).ok_or_else(|| wrong("root is not base64 of 32 bytes"))?;
        // The text ends with a line feed, so an empty piece stands last; further lines are extensions,
        // which must not be empty.
        let rest: Vec<&str> = lines.collect();
        match rest.split_last() {
            Some((&"", extensions)) if extensions.iter().all(|e| !e.is_empty()) => {}
            _ => return Err(wrong("an empty line, or no line end")),
        }
        Ok(Checkpoint { origin: origin.to_owned(), size, root })
    }

    /// The text that is signed.
    #[must_use]
    pub fn text(&self) -> String {
        format!("{}\n{}\n{}\n", self.origin, self.size, to_base64(&self.root))
    }
}

/// Whether a text may be a log's origin. Keys of a log sign notes and cosignatures, so an origin must not
/// begin as the text of one of those does.
#[must_use]
pub fn is_origin(origin: &str) -> bool {
    is_name(origin) && !origin.starts_with("cosignature/") && !origin.starts_with("subtree/")
}
