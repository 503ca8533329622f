//! `gabion log`: the sealed log's verbs, one file each.
//!
//! Verdicts of `verify` are exit codes of their own (10 to 26); everything else answers by the program's
//! table. A writer's refusal to open a log has the verdict's code too: it is the same finding.

mod anchor;
mod append;
mod backwards;
mod blocks;
mod check_proof;
mod checkpoint;
mod compare;
mod export;
pub(crate) mod folders;
mod follow_journal;
mod hold;
mod import_slog;
pub(crate) mod init;
mod keygen;
pub(crate) mod options;
mod prove;
mod prune;
pub(crate) mod push;
mod recover;
mod rewrap;
mod running;
pub(crate) mod seal_findings;
mod show;
mod shred;
mod stat;
mod times;
mod together;
mod verify;
mod wanted;

use crate::exit::Fault;
use gabion_seal::{Error, Mismatch};
use options::LogVerb;

/// Why a verb ends before its time.
#[derive(Clone, Debug)]
pub(crate) struct LogFault {
    code: u8,
    text: String,
}

impl LogFault {
    /// Something is wrong with what was given.
    pub(crate) fn input(text: impl Into<String>) -> LogFault {
        LogFault { code: 3, text: text.into() }
    }

    /// With an exit code of its own: a verdict's.
    pub(crate) fn with_code(code: u8, text: impl Into<String>) -> LogFault {
        LogFault { code, text: text.into() }
    }

    /// What is wrong, for people.
    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    /// The command line asks for something that can't be.
    pub(crate) fn usage(text: impl Into<String>) -> LogFault {
        LogFault { code: 2, text: text.into() }
    }

    /// Something is wrong with where this runs.
    pub(crate) fn environment(text: impl Into<String>) -> LogFault {
        LogFault { code: 4, text: text.into() }
    }

    /// The same of a writer that can't go on for want of room: how much is sealed, and what to do.
    pub(crate) fn with_advice(self, advice: impl std::fmt::Display) -> LogFault {
        match self.code {
            4 => LogFault { text: format!("{}: {advice}", self.text), ..self },
            _ => self,
        }
    }

    /// The same, about this file or folder.
    pub(crate) fn about(self, what: &std::path::Path) -> LogFault {
        LogFault { code: self.code, text: format!("{}: {}", what.display(), self.text) }
    }

    /// For a verb that has no verdicts: what is wrong with a log is wrong input.
    pub(crate) fn into_fault(self) -> Fault {
        match self.code {
            2 => Fault::usage(self.text),
            4 => Fault::environment(self.text),
            5 => Fault::internal(self.text),
            _ => Fault::input(self.text),
        }
    }
}

impl From<Error> for LogFault {
    fn from(e: Error) -> LogFault {
        let code = match &e {
            Error::Storage { source, .. } if source.kind() == std::io::ErrorKind::NotFound => 3,
            Error::Storage { source, .. } if source.to_string().contains("not a regular file") => 3,
            Error::Storage { .. } | Error::Stopped => 4,
            Error::Unsupported { .. } => 25,
            Error::Key { .. } => 24,
            Error::Locked { .. } => 26,
            Error::Mismatch(m) => match m {
                Mismatch::Rollback { .. } => 21,
                Mismatch::Fork { .. } | Mismatch::OldSigner { .. } => 22,
                Mismatch::CheckpointsGone { .. } => 23,
                Mismatch::Damage { .. } => 20,
                _ => 3,
            },
            Error::Crypto(_) => 5,
            _ => 3,
        };
        let mut text = e.to_string();
        if text.ends_with("log.id is missing") {
            text.push_str(": name the folder of a log, or make one with `gabion log init`");
        }
        LogFault { code, text }
    }
}

/// How a verb ends.
pub(crate) type Ended = Result<u8, LogFault>;

/// Runs a verb and gives the exit code.
pub(crate) fn run(verb: &LogVerb) -> u8 {
    // Most verbs are over in milliseconds: clearing pages of 2 MiB would be half of that.
    gabion_runtime::memory::take_small_pages();
    let ended = match verb {
        LogVerb::Keygen(o) => keygen::run(o),
        LogVerb::Init(o) => init::run(o),
        LogVerb::Append(o) => append::run(o),
        LogVerb::FollowJournal(o) => follow_journal::run(o),
        LogVerb::Show(o) => show::run(o),
        LogVerb::Verify(o) => verify::run(o),
        LogVerb::Prove(o) => prove::run(o),
        LogVerb::CheckProof(o) => check_proof::run(o),
        LogVerb::Checkpoint(o) => checkpoint::run(o),
        LogVerb::Anchor(o) => anchor::run(o),
        LogVerb::Compare(o) => compare::run(o),
        LogVerb::Export(o) => export::run(o),
        LogVerb::ImportSlog(o) => import_slog::run(o),
        LogVerb::Recover(o) => recover::run(o),
        LogVerb::Stat(o) => stat::run(o),
        LogVerb::Prune(o) => prune::run(o),
        LogVerb::Rewrap(o) => rewrap::run(o),
        LogVerb::Shred(o) => shred::run(o),
        LogVerb::Hold(o) => hold::run(o),
    };
    match ended {
        Ok(code) => code,
        Err(fault) => {
            let text = crate::exit::one_line(&fault.text);
            eprintln!("gabion: {}", crate::secrets::redacted(&text));
            fault.code
        }
    }
}
