//! Exit codes and the one line that goes with them.
//!
//! `gabion suricata` ends with Suricata's exit codes; everything else uses this table.

use crate::standard_output;
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

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> ExitCode {
        ExitCode::from(exit.code())
    }
}

/// Why a run ends before its time: the code, and `thing: what: what to do`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Fault {
    pub(crate) exit: Exit,
    text: String,
}

impl Fault {
    /// Something is wrong with what was given.
    pub(crate) fn input(text: impl Into<String>) -> Fault {
        Fault { exit: Exit::Input, text: text.into() }
    }

    /// Something is wrong with where this runs.
    pub(crate) fn environment(text: impl Into<String>) -> Fault {
        Fault { exit: Exit::Environment, text: text.into() }
    }

    /// Something is wrong with the program.
    pub(crate) fn internal(text: impl Into<String>) -> Fault {
        Fault { exit: Exit::Internal, text: text.into() }
    }

    /// The command line asks for something that can't be.
    pub(crate) fn usage(text: impl Into<String>) -> Fault {
        Fault { exit: Exit::Usage, text: text.into() }
    }
}

impl From<gabion_sensor::Error> for Fault {
    fn from(e: gabion_sensor::Error) -> Fault {
        use gabion_sensor::Error;
        let text = e.to_string();
        match e {
            Error::NoInput { .. }
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
                Fault::environment(format!("{text}: choose another folder with -l"))
            }
            Error::Threads(_) => Fault::environment(format!("{text}: use fewer with --workers")),
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
        let text = e.to_string();
        match e {
            gabion_reports::Error::RuleCosts { .. } => Fault::environment(text),
            _ => Fault::input(text),
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = one_line(&self.text);
        let text = crate::secrets::redacted(&text);
        write!(f, "gabion: {text}")
    }
}

/// A message is one line, and moves nothing on a terminal: names of files and values may hold anything.
pub(crate) fn one_line(text: &str) -> String {
    let plain = |c: char| match c {
        '\n' | '\r' | '\t' => ' ',
        c if c.is_control() => '.',
        c => c,
    };
    let mut line: String = text.chars().map(plain).collect();
    if let Some((_, does)) = ADVICE.iter().find(|(end, _)| line.ends_with(end)) {
        line.push_str(": ");
        line.push_str(does);
    }
    line
}

/// What to do about an error of the system (errno(3)), where the caller gives no better advice.
const ADVICE: &[(&str, &str)] = &[
    ("(os error 2)", "name one that is there"),
    ("(os error 13)", "run this as a user who may, or name another"),
    ("(os error 17)", "name another"),
    ("(os error 20)", "name another: a file is in the place of a folder"),
    ("(os error 21)", "name a file"),
    ("(os error 28)", "make space, or name another place"),
];

/// Prints the table (`gabion help exit-codes`).
pub(crate) fn print_table() {
    for (exit, meaning) in Exit::ALL {
        standard_output::line(format_args!("{:>3}  {meaning}", exit.code()));
    }
    standard_output::line("     `gabion suricata` ends as Suricata does: 0 good, 1 bad.");
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
