//! `gabion log`: the sealed log's verbs, one file each.
//!
//! Verdicts of `verify` are exit codes of their own (10 to 26); everything else answers by the program's
//! table. A writer's refusal to open a log has the verdict's code too: it is the same finding.

mod anchor;
mod append;
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
pub(crate) mod seal_findings;
mod show;
mod shred;
mod stat;
mod times;
mod verify;

use crate::exit::{Exit, Fault, FaultWith, Message};
use gabion_intake::PushError;
use gabion_seal::storage::StorageFault;
use gabion_seal::verify::{LOCKED_CODE, Verdict};
use gabion_seal::{Error, Mismatch};
use options::LogVerb;

/// Why a verb ends before its time: with a code of the table, or with a verdict.
pub(crate) type LogFault = FaultWith<u8>;

impl LogFault {
    /// A fault with the verdict that verification would give.
    pub(crate) fn verdict(verdict: Verdict, message: impl Into<Message>) -> LogFault {
        LogFault { exit: verdict.code(), message: message.into() }
    }

    /// Whether the log contradicts what was signed.
    fn is_contradiction(&self) -> bool {
        let verdicts = [Verdict::Tampered, Verdict::Rollback, Verdict::Fork, Verdict::Incomplete];
        verdicts.iter().any(|verdict| verdict.code() == self.exit)
    }

    /// The same for a writer that can't continue because the disk is full: how much is sealed, and what to do.
    pub(crate) fn with_advice(self, advice: impl std::fmt::Display) -> LogFault {
        if self.exit == Exit::Environment.code() {
            let message = format!("{}: {advice}", self.message.text).into();
            LogFault { message, ..self }
        } else {
            self
        }
    }

    /// The same, about this file or folder.
    pub(crate) fn about(self, what: &std::path::Path) -> LogFault {
        LogFault { message: self.message.about(what.display()), ..self }
    }

    /// For a verb that has no verdicts: what is wrong with a log is wrong input.
    pub(crate) fn into_fault(self) -> Fault {
        let known = [Exit::Usage, Exit::Environment, Exit::Internal];
        let exit = known.into_iter().find(|exit| exit.code() == self.exit);
        Fault { exit: exit.unwrap_or(Exit::Input), message: self.message }
    }

    /// The exit code that goes with an error of a log.
    fn code_of(e: &Error) -> u8 {
        match e {
            Error::Storage { source, .. } => match StorageFault::from_io(source) {
                StorageFault::NotFound | StorageFault::NotRegularFile => Exit::Input.code(),
                _ => Exit::Environment.code(),
            },
            Error::Stopped => Exit::Environment.code(),
            Error::Unsupported { .. } => Verdict::Unsupported.code(),
            Error::Key { .. } => Verdict::KeyError.code(),
            Error::Locked { .. } => LOCKED_CODE,
            Error::Mismatch(m) => match m {
                Mismatch::Rollback { .. } => Verdict::Rollback.code(),
                Mismatch::Fork { .. } | Mismatch::OldSigner { .. } => Verdict::Fork.code(),
                Mismatch::CheckpointsGone { .. } => Verdict::Incomplete.code(),
                Mismatch::Damage { .. } => Verdict::Tampered.code(),
                _ => Exit::Input.code(),
            },
            Error::Crypto(_) => Exit::Internal.code(),
            _ => Exit::Input.code(),
        }
    }
}

impl From<Error> for LogFault {
    fn from(e: Error) -> LogFault {
        let code = LogFault::code_of(&e);
        let message: Message = match &e {
            Error::NoLog => {
                format!("{e}: name the folder of a log, or make one with `gabion log init`").into()
            }
            e => e.into(),
        };
        LogFault { exit: code, message }
    }
}

/// Why a checkpoint was not carried, and the exit code that goes with it.
pub(crate) fn push_fault(e: &PushError) -> LogFault {
    let code = match e {
        PushError::Folder(_) => Exit::Input.code(),
        PushError::Log { source, .. } => LogFault::code_of(source),
        PushError::Place { fault, .. } if fault.is_fork() => Verdict::Fork.code(),
        _ => Exit::Environment.code(),
    };
    LogFault { exit: code, message: e.into() }
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
            eprintln!("{fault}");
            fault.exit
        }
    }
}
