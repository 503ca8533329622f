//! Exit codes and the one line that goes with them.
//!
//! `gabion suricata` ends with Suricata's exit codes; everything else uses this table.

use crate::standard_output;
use gabion_outputs::table::thousands;
use gabion_runtime::message::SystemError;
pub(crate) use gabion_runtime::message::{Message, about, one_line};
use std::fmt;
use std::process::ExitCode;

macro_rules! exit_codes {
    ($($name:ident, $code:literal, $meaning:literal;)+) => {
        /// How a run ended.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub(crate) enum Exit {
            $(#[doc = $meaning] $name,)+
        }

        impl Exit {
            /// All of them with their meaning, in order.
            pub(crate) const ALL: &'static [(Exit, &'static str)] = &[$((Exit::$name, $meaning),)+];

            /// The number the system sees.
            pub(crate) const fn code(self) -> u8 {
                match self { $(Exit::$name => $code,)+ }
            }
        }
    };
}

// The one table: name, code, meaning.
exit_codes! {
    Done, 0, "done; the ledger balances";
    No, 1, "ran to its end and the answer is no: rules with errors, expectation not met, --fail-on reached";
    Usage, 2, "usage: unknown option, missing argument";
    Input, 3, "input: not found, unreadable, not a capture, configuration or rule file wrong";
    Environment, 4, "environment: output not writable, disk full, privilege missing";
    Internal, 5, "internal: ledger out of balance, a worker was lost";
    Interrupted, 130, "stopped early by SIGINT; what was written is valid";
}

impl From<Exit> for u8 {
    fn from(exit: Exit) -> u8 {
        exit.code()
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> ExitCode {
        ExitCode::from(exit.code())
    }
}

/// Why a run ends before its time: the code, and `thing: what: what to do`. `Exit` is the code of most commands; verbs of
/// the sealed log end with verdicts too, which are numbers of their own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FaultWith<C> {
    pub(crate) exit: C,
    pub(crate) message: Message,
}

/// A fault of a command that ends by the table.
pub(crate) type Fault = FaultWith<Exit>;

impl<C: From<Exit>> FaultWith<C> {
    /// Something is wrong with what was given.
    pub(crate) fn input(message: impl Into<Message>) -> FaultWith<C> {
        FaultWith { exit: Exit::Input.into(), message: message.into() }
    }

    /// Something is wrong with where this runs.
    pub(crate) fn environment(message: impl Into<Message>) -> FaultWith<C> {
        FaultWith { exit: Exit::Environment.into(), message: message.into() }
    }

    /// Something is wrong with the program.
    pub(crate) fn internal(message: impl Into<Message>) -> FaultWith<C> {
        FaultWith { exit: Exit::Internal.into(), message: message.into() }
    }

    /// The command line asks for something that can't be.
    pub(crate) fn usage(message: impl Into<Message>) -> FaultWith<C> {
        FaultWith { exit: Exit::Usage.into(), message: message.into() }
    }
}

impl From<gabion_sensor::Error> for Fault {
    fn from(e: gabion_sensor::Error) -> Fault {
        use gabion_sensor::Error;
        let mut text = Message::from(&e);
        if let Error::Probe(refused) = &e {
            text.system = refused.errno().map(SystemError::from_number);
        }
        match e {
            Error::NoInput { .. }
            | Error::NoScap { .. }
            | Error::Scap { .. }
            | Error::ScapAndOther { .. }
            | Error::UnreadableFolder { .. }
            | Error::UnreadableLogs { .. }
            | Error::EmptyFolder { .. }
            | Error::NoList { .. }
            | Error::UnreadableList { .. }
            | Error::PackedList { .. }
            | Error::Whitelist { .. }
            | Error::Countries(_)
            | Error::AllowList(_)
            | Error::UnreadableCheckpoint { .. }
            | Error::DamagedCheckpoint { .. }
            | Error::OtherCheckpoint { .. }
            | Error::UnfitCheckpoint { .. }
            | Error::UnreadableRecording { .. }
            | Error::Recording { .. } => Fault::input(text),
            Error::CaptureAndLog { .. }
            | Error::NamedTwice { .. }
            | Error::Filter { .. }
            | Error::Format { .. } => Fault::usage(text),
            Error::Folder { .. } | Error::FolderOutput(_) => {
                Fault::environment(format!("{}: choose another folder with -l", text.text))
            }
            Error::Threads(_) => {
                Fault::environment(format!("{}: use fewer with --workers", text.text))
            }
            Error::Guarded { .. }
            | Error::Probe(_)
            | Error::HostChange(_)
            | Error::Namespace { .. }
            | Error::RecordingFile { .. }
            | Error::Output(_)
            | Error::File { .. }
            | Error::Page { .. }
            | Error::SameFile { .. }
            | Error::PacketLogMode { .. }
            | Error::PacketLogCompression { .. }
            | Error::PacketLogFolder { .. }
            | Error::PacketLogFilter(_)
            | Error::Seal { .. }
            | Error::Listen { .. }
            | Error::Thread { .. } => Fault::environment(text),
            _ => Fault::internal(text),
        }
    }
}

impl From<gabion_reports::Error> for Fault {
    fn from(e: gabion_reports::Error) -> Fault {
        let text = Message::from(&e);
        match e {
            gabion_reports::Error::RuleCosts { .. } => Fault::environment(text),
            _ => Fault::input(text),
        }
    }
}

impl Fault {
    /// Files of folders are no captures: a fault of the input only if that is all that there is.
    pub(crate) fn no_captures(others: usize, all: usize) -> Fault {
        if others < all {
            let others = thousands(others as u64);
            let said = format!(
                "files of the folders that are not captures, by name and content: {others}"
            );
            return Fault { exit: Exit::Done, message: said.into() };
        }
        Fault::input(
            "no file of the folders is a capture, by name and content: name a capture or a folder of captures",
        )
    }
}

impl<C> FaultWith<C> {
    /// What is wrong, and where, without advice.
    pub(crate) fn text(&self) -> &str {
        &self.message.text
    }
}

impl<C> fmt::Display for FaultWith<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = self.message.line();
        let text = crate::secrets::redacted(&text);
        write!(f, "gabion: {text}")
    }
}

/// Prints the table (`gabion help exit-codes`).
pub(crate) fn print_table() {
    for (exit, meaning) in Exit::ALL {
        standard_output::line(format_args!("{:>3}  {meaning}", exit.code()));
    }
    standard_output::line(
        "     `gabion suricata` and `gabion falco` end as Suricata and Falco do: 0 for success, 1 for failure.\n     \
         `gabion log` also ends with 10 to 12 and 20 to 25, its verdicts on a log: docs/exit-codes.md.",
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_ascend_and_messages_are_one_line() {
        assert!(Exit::ALL.is_sorted_by_key(|(e, _)| e.code()));
        let fault = Fault::input("a\nb: is not a capture: name another");
        assert_eq!(fault.to_string(), "gabion: a b: is not a capture: name another");
        assert_eq!(fault.exit.code(), 3);
    }
}
