//! Witnesses (C2SP tlog-witness) and files of anchors, without a socket: what is asked of a witness, what its answer
//! says, and whether an anchor agrees with a checkpoint.
//!
//! In: the newest checkpoint of a log, answers and anchors as they came. Out: requests as text, cosigned notes, and
//! faults that distinguish a log that was cut back from a witness that may answer better next time.
//!
//! ```
//! use gabion_seal::witness::Answer;
//!
//! // A witness that has cosigned 17 chunks already asks for the proof from there.
//! assert_eq!(Answer::parse(409, "17\n"), Some(Answer::Knows(17)));
//! ```

use crate::checkpoints::{Entry, frame};
use crate::error::Error;
use crate::format::tree::{Hash, consistency_proof, root};
use crate::leaves::extend;
use crate::limits::{LEAVES_KEPT_MAX, WITNESSED_BYTES_MAX};
use crate::note::{Checkpoint, Note, Vkey};
use crate::storage::Storage;
use crate::verify::Anchor;
use gabion_record::base64::to_base64;

/// File in the log's folder with the newest cosigned checkpoint of each witness.
pub const WITNESSED: &str = "witnessed";

/// Where a witness takes requests, below its address.
pub const ADD_CHECKPOINT: &str = "add-checkpoint";

/// Why a checkpoint was not cosigned or anchored.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WitnessFault {
    /// The witness has cosigned more chunks than the log has.
    #[error("it has cosigned {size} chunks already: this log was cut back")]
    CosignedMore {
        /// What it has cosigned.
        size: u64,
    },
    /// The witness has cosigned another log.
    #[error("it refuses the proof from {from} chunks: it has cosigned another log than this")]
    ProofRefused {
        /// Where the proof began.
        from: u64,
    },
    /// The file of anchors holds more chunks than the log has.
    #[error("it holds {size} chunks: this log was cut back")]
    AnchoredMore {
        /// What it holds.
        size: u64,
    },
    /// The file of anchors holds another root.
    #[error("it holds another root of that size")]
    OtherRoot,
    /// The witness does not know the log.
    #[error("it does not know this log's origin")]
    UnknownOrigin,
    /// The witness does not trust the log's key.
    #[error("it does not trust this log's key")]
    UntrustedKey,
    /// The witness answers with a status that says nothing.
    #[error("it answers {status}")]
    Status {
        /// The status of HTTP.
        status: u16,
    },
    /// The witness says that it knows another size, and not which.
    #[error("it has no size")]
    NoSize,
    /// The witness names another size each time.
    #[error("its size keeps changing")]
    SizeChanges,
    /// The witness answers without a cosignature.
    #[error("it answers without a cosignature")]
    NoCosignature,
    /// The witness' cosignature is none.
    #[error("its cosignature: {0}")]
    Cosignature(Error),
    /// The log does not hold the chunks that its checkpoint signs.
    #[error("chunks are missing")]
    ChunksMissing,
    /// The log's chunks have another root than its checkpoint.
    #[error("the log differs from its checkpoint: verify it")]
    LogDiffers,
    /// The tree has no proof from there.
    #[error("no proof from {from} chunks")]
    NoProof {
        /// Where it would begin.
        from: u64,
    },
    /// The log could not be read.
    #[error("{0}")]
    Log(#[from] Error),
}

impl WitnessFault {
    /// Whether two signed states exclude each other, which another try does not fix.
    #[must_use]
    pub const fn is_fork(&self) -> bool {
        matches!(
            self,
            WitnessFault::CosignedMore { .. }
                | WitnessFault::ProofRefused { .. }
                | WitnessFault::AnchoredMore { .. }
                | WitnessFault::OtherRoot
        )
    }
}

/// Short form used here.
type Result<T> = std::result::Result<T, WitnessFault>;

/// What is asked of a witness: to cosign a checkpoint that continues what it has cosigned.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// Chunks that the witness has cosigned, as far as is known.
    pub old: u64,
    /// Hashes that show those chunks to be the beginning of the log.
    pub proof: Vec<Hash>,
    /// The checkpoint.
    pub note: Note,
}

impl Request {
    /// The body of the request: old size, hashes, an empty line, the checkpoint.
    #[must_use]
    pub fn body(&self) -> String {
        let mut body = format!("old {}\n", self.old);
        self.proof.iter().for_each(|h| body.push_str(&format!("{}\n", to_base64(h))));
        body.push_str(&format!("\n{}", self.note));
        body
    }
}

/// What a witness answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// It has cosigned: its signature lines.
    Cosigned(String),
    /// It has cosigned another number of chunks than the request says.
    Knows(u64),
    /// It refuses the proof.
    ProofRefused,
    /// It does not know the log's origin.
    UnknownOrigin,
    /// It does not trust the log's key.
    UntrustedKey,
    /// A status that says nothing.
    Status(u16),
}

impl Answer {
    /// Reads an answer by its status and body; `None` when it should name a size and does not.
    #[must_use]
    pub fn parse(status: u16, body: &str) -> Option<Answer> {
        Some(match status {
            200 => Answer::Cosigned(body.to_owned()),
            409 => Answer::Knows(body.trim().parse().ok()?),
            422 => Answer::ProofRefused,
            404 => Answer::UnknownOrigin,
            403 => Answer::UntrustedKey,
            other => Answer::Status(other),
        })
    }
}

/// The talk with one witness about one checkpoint: a request, and after an answer that names another size a second one.
#[derive(Debug)]
pub struct Session<'a> {
    last: &'a Entry,
    knows: u64,
    requests: u32,
}

/// What to do after an answer.
#[derive(Debug)]
pub enum Step {
    /// Ask again: [`Session::request`] says what.
    Again,
    /// It is done: the checkpoint with the witness' signatures.
    Done(Note),
}

impl<'a> Session<'a> {
    /// About the checkpoint `last` with a witness that is thought to have cosigned that many chunks.
    #[must_use]
    pub const fn new(last: &'a Entry, knows: u64) -> Session<'a> {
        Session { last, knows, requests: 0 }
    }

    /// Chunks that the witness has cosigned, as far as is known.
    #[must_use]
    pub const fn knows(&self) -> u64 {
        self.knows
    }

    /// What to ask next.
    ///
    /// # Errors
    /// When the log holds no proof, or when it was asked often enough.
    pub fn request(&mut self, log: &dyn Storage, leaves: &mut Leaves) -> Result<Request> {
        if self.requests == 2 {
            return Err(WitnessFault::SizeChanges);
        }
        self.requests += 1;
        let proof = leaves.proof(log, self.knows, self.last)?;
        Ok(Request { old: self.knows, proof, note: self.last.note.clone() })
    }

    /// Takes the answer to the last request.
    ///
    /// # Errors
    /// When the witness has not cosigned and another request would not change that.
    pub fn take_answer(&mut self, status: u16, body: &str) -> Result<Step> {
        let size = self.last.checkpoint.size;
        match Answer::parse(status, body).ok_or(WitnessFault::NoSize)? {
            Answer::Cosigned(lines) => {
                self.knows = size;
                cosigned(&self.last.note, &lines).map(Step::Done)
            }
            Answer::Knows(more) if more > size => Err(WitnessFault::CosignedMore { size: more }),
            Answer::Knows(other) => {
                self.knows = other;
                Ok(Step::Again)
            }
            Answer::ProofRefused => Err(WitnessFault::ProofRefused { from: self.knows }),
            Answer::UnknownOrigin => Err(WitnessFault::UnknownOrigin),
            Answer::UntrustedKey => Err(WitnessFault::UntrustedKey),
            Answer::Status(status) => Err(WitnessFault::Status { status }),
        }
    }
}

/// Leaves of a log that were read for a proof and may be needed for the next.
#[derive(Debug, Default)]
pub struct Leaves(Vec<Hash>);

impl Leaves {
    /// Hashes that show the tree of `old` chunks to be the beginning of what this checkpoint signs.
    ///
    /// # Errors
    /// When the log's chunks are not those that the checkpoint signs.
    pub fn proof(&mut self, log: &dyn Storage, old: u64, last: &Entry) -> Result<Vec<Hash>> {
        let size = last.checkpoint.size;
        if old == 0 || old == size {
            return Ok(Vec::new());
        }
        extend(log, &mut self.0, size)?;
        let leaves = self.0.get(..usize::try_from(size).unwrap_or(usize::MAX));
        let leaves = leaves.ok_or(WitnessFault::ChunksMissing)?;
        if root(leaves) != last.checkpoint.root {
            self.0 = Vec::new();
            return Err(WitnessFault::LogDiffers);
        }
        let proof = consistency_proof(leaves, usize::try_from(old).unwrap_or(usize::MAX))
            .ok_or(WitnessFault::NoProof { from: old });
        if self.0.len() > LEAVES_KEPT_MAX {
            self.0 = Vec::new();
        }
        proof
    }
}

/// A checkpoint with a witness' signature lines.
fn cosigned(note: &Note, lines: &str) -> Result<Note> {
    let lines: Vec<&str> = lines.lines().filter(|l| !l.is_empty()).collect();
    if lines.is_empty() || !lines.iter().all(|l| l.starts_with("\u{2014} ")) {
        return Err(WitnessFault::NoCosignature);
    }
    let text = format!("{note}{}\n", lines.join("\n"));
    Note::parse(text.as_bytes()).map_err(WitnessFault::Cosignature)
}

/// Keeps a cosigned checkpoint in the log's folder: the newest of each witness. `own` signatures at the front of each
/// note are the log's.
///
/// # Errors
/// What the storage says.
pub fn keep_cosigned(log: &mut dyn Storage, note: Note, own: usize) -> std::io::Result<()> {
    let by = |note: &Note| -> Vec<_> {
        note.signatures.iter().skip(own).map(|s| (s.name.clone(), s.id)).collect()
    };
    let mut notes = read_cosigned(log);
    let is_older = |n: &Note| by(n).iter().any(|s| by(&note).contains(s));
    notes.retain(|n| !is_older(n));
    notes.push(note);
    let all: Vec<u8> = notes.iter().flat_map(|n| frame(&n.to_string())).collect();
    log.replace(WITNESSED, &all)
}

/// Cosigned checkpoints in the log's folder.
#[must_use]
pub fn read_cosigned(log: &dyn Storage) -> Vec<Note> {
    let bytes = log.read_file(WITNESSED, WITNESSED_BYTES_MAX).ok().flatten().unwrap_or_default();
    let read = Anchor::parse_file(WITNESSED, &bytes);
    read.unwrap_or_default().into_iter().map(|a| a.note).collect()
}

/// Checkpoints in the log's folder that a trusted witness cosigned. An attacker with write access can remove
/// the newest, so they vouch for the log up to their size and no more.
#[must_use]
pub fn cosigned_anchors(log: &dyn Storage, witnesses: &[Vkey]) -> Vec<Anchor> {
    let by = |note: &Note| {
        let signed = note.verify(witnesses).unwrap_or_default();
        signed.iter().find(|s| s.time.is_some()).and_then(|s| witnesses.get(s.key))
    };
    let notes = read_cosigned(log).into_iter();
    notes
        .filter_map(|note| {
            let from = format!("cosigned by {}", by(&note)?.name);
            let checkpoint = Checkpoint::parse(&note.text).ok()?;
            Some(Anchor { from, note, checkpoint })
        })
        .collect()
}

/// Whether a file of anchors, as it was read, lacks a checkpoint: then its framed note is to be appended.
///
/// # Errors
/// When an anchor excludes the checkpoint.
pub fn lacks_anchor(kept: &[Anchor], checkpoint: &Checkpoint) -> Result<bool> {
    for anchor in kept.iter().filter(|a| a.checkpoint.origin == checkpoint.origin) {
        if anchor.checkpoint.size > checkpoint.size {
            return Err(WitnessFault::AnchoredMore { size: anchor.checkpoint.size });
        }
        if anchor.checkpoint.size == checkpoint.size {
            return if anchor.checkpoint.root == checkpoint.root {
                Ok(false)
            } else {
                Err(WitnessFault::OtherRoot)
            };
        }
    }
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn checkpoint(size: u64, root: u8) -> Checkpoint {
        Checkpoint { origin: "log.example/x".to_owned(), size, root: [root; 32] }
    }

    fn entry(size: u64) -> Entry {
        let checkpoint = checkpoint(size, 7);
        let text = format!("log.example/x\n{size}\n{}\n", to_base64(&checkpoint.root));
        let signed = format!("{text}\n\u{2014} log.example/x {}\n", to_base64(&[1; 68]));
        let note = Note::parse(signed.as_bytes()).expect("a note");
        Entry { number: 0, offset: 0, note, checkpoint }
    }

    #[test]
    fn a_witness_that_knows_another_size_is_asked_once_more() {
        let last = entry(5);
        let log = crate::storage::Memory::new();
        let mut leaves = Leaves::default();
        let mut session = Session::new(&last, 0);
        let request = session.request(&log, &mut leaves).expect("nothing to prove");
        assert!(request.body().starts_with("old 0\n\nlog.example/x\n5\n"));
        assert!(matches!(session.take_answer(409, "5\n"), Ok(Step::Again)));
        assert_eq!(session.request(&log, &mut leaves).expect("nothing to prove").old, 5);
        assert!(matches!(session.take_answer(409, "4"), Ok(Step::Again)));
        let often = session.request(&log, &mut leaves).expect_err("twice is enough");
        assert!(matches!(often, WitnessFault::SizeChanges) && !often.is_fork());
    }

    #[test]
    fn what_a_witness_answers_decides() {
        for (status, body, text, is_fork) in [
            (409, "6", "it has cosigned 6 chunks already: this log was cut back", true),
            (409, "x", "it has no size", false),
            (
                422,
                "",
                "it refuses the proof from 0 chunks: it has cosigned another log than this",
                true,
            ),
            (404, "", "it does not know this log's origin", false),
            (403, "", "it does not trust this log's key", false),
            (500, "", "it answers 500", false),
            (200, "no signature", "it answers without a cosignature", false),
        ] {
            let last = entry(5);
            let fault = Session::new(&last, 0).take_answer(status, body).expect_err(text);
            assert_eq!((fault.to_string().as_str(), fault.is_fork()), (text, is_fork));
        }
        let last = entry(5);
        let lines = format!("\u{2014} witness.example {}\n", to_base64(&[2; 76]));
        let step = Session::new(&last, 0).take_answer(200, &lines).expect("a cosignature");
        assert!(matches!(step, Step::Done(note) if note.signatures.len() == 2));
    }

    #[test]
    fn anchors_agree_or_exclude() {
        let anchor = |size, root| Anchor {
            from: String::new(),
            note: entry(size).note,
            checkpoint: checkpoint(size, root),
        };
        let now = checkpoint(5, 7);
        assert!(lacks_anchor(&[], &now).expect("nothing excludes it"));
        assert!(lacks_anchor(&[anchor(4, 1)], &now).expect("an older one"));
        assert!(!lacks_anchor(&[anchor(5, 7)], &now).expect("the same"));
        for (size, root) in [(6, 7), (5, 8)] {
            assert!(lacks_anchor(&[anchor(size, root)], &now).expect_err("excluded").is_fork());
        }
    }
}
