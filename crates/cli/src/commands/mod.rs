//! What each verb of the command line does.

pub(crate) mod doctor;
pub(crate) mod probe;
pub(crate) mod read;
mod read_scap;
mod rules;
mod rules_cost;
mod rules_test;
pub(crate) mod scap;
mod with_falco_rules;
mod with_rules;

use crate::arguments;
use crate::command_line::{BehaviorVerb, RulesVerb, Verb};
use crate::exit::Exit;
use crate::standard_output;
use clap::error::ErrorKind;
use std::ffi::OsString;
use std::io::IsTerminal;

/// Runs with these arguments (the program's name first) and gives the exit code.
pub(crate) fn run(args: &[OsString]) -> u8 {
    if args.iter().skip(1).eq(["help", "exit-codes"]) {
        crate::exit::print_table();
        return Exit::Done.code();
    }
    let line = match arguments::parse_arguments(args) {
        Ok(line) => line,
        Err(e) => {
            say(&e, args);
            return u8::try_from(e.exit_code()).unwrap_or(Exit::Usage.code());
        }
    };
    let result = match line.verb {
        Verb::Read(mut o) => {
            read::take_as_what_it_is(&mut o);
            read::run(&o)
        }
        Verb::Rules { verb } => match verb {
            RulesVerb::Check(o) => rules::check(&o),
            RulesVerb::List(o) => rules::list(&o),
            RulesVerb::Why(o) => rules::why(&o),
            RulesVerb::Cost(o) => rules_cost::run(&o),
            RulesVerb::Test(o) => rules_test::run(&o),
        },
        Verb::Behavior { verb: BehaviorVerb::Show(o) } => crate::behavior::show::run(&o),
        Verb::Behavior { verb: BehaviorVerb::List(o) } => crate::behavior::list::run(&o),
        Verb::Behavior { verb: BehaviorVerb::Mute(o) } => crate::behavior::mute::run(&o),
        Verb::Guard { verb } => crate::guard::run(&verb),
        Verb::Events(o) => scap::events(&o),
        Verb::Convert(o) => scap::convert(&o),
        Verb::Probe { verb } => probe::run(&verb),
        Verb::Doctor(o) => doctor::run(&o),
        Verb::Listen(o) => crate::listen::run(&o),
        Verb::Log { verb } => return crate::log::run(&verb),
        Verb::Send(o) => crate::send::run(&o),
        Verb::Falco { arguments } => {
            return u8::try_from(crate::falco::run(&arguments)).unwrap_or(1);
        }
        Verb::Suricata { arguments } => {
            return u8::try_from(crate::suricata::run(&arguments)).unwrap_or(1);
        }
    };
    match result {
        Ok(exit) => exit.code(),
        Err(fault) => {
            eprintln!("{fault}");
            fault.exit.code()
        }
    }
}

/// Says what the command line asks for (help and version are no errors) or what is wrong with it.
fn say(e: &clap::Error, args: &[OsString]) {
    let is_help = matches!(
        e.kind(),
        ErrorKind::DisplayHelp
            | ErrorKind::DisplayVersion
            | ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand
    );
    if !is_help {
        eprintln!("{}", crate::secrets::redacted(&arguments::fault(e, args)));
        return;
    }
    let text = e.render();
    let is_colored = if e.use_stderr() {
        std::io::stderr().is_terminal()
    } else {
        std::io::stdout().is_terminal()
    } && std::env::var_os("NO_COLOR").is_none_or(|v| v.is_empty());
    let text = if is_colored { text.ansi().to_string() } else { text.to_string() };
    if e.use_stderr() {
        eprintln!("{}", crate::secrets::redacted(text.trim_end()))
    } else {
        standard_output::text(text)
    }
}
