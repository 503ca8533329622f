//! What each verb of the command line does.

mod read;
mod rule_files;
mod rules_test;

use crate::command_line::{CommandLine, RulesVerb, Verb};
use crate::exit::Exit;
use clap::Parser;

/// Runs with these arguments (the program's name first) and gives the exit code.
pub(crate) fn run(args: &[String]) -> u8 {
    if args.get(1..) == Some(&["help".to_string(), "exit-codes".to_string()]) {
        crate::exit::print_table();
        return Exit::Done.code();
    }
    let line = match CommandLine::try_parse_from(args) {
        Ok(line) => line,
        Err(e) => {
            // Help and version are no errors; clap says where each belongs.
            let _ = e.print();
            return u8::try_from(e.exit_code()).unwrap_or(Exit::Usage.code());
        }
    };
    let result = match line.verb {
        Verb::Read(o) => read::run(&o),
        Verb::Rules { verb: RulesVerb::Test(o) } => rules_test::run(&o),
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
