//! The command line, read; and one line about what is wrong with it: which command, which option, which value,
//! and what to write instead.

use crate::command_line::CommandLine;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Command, CommandFactory, FromArgMatches};
use std::error::Error;
use std::ffi::OsString;

/// The command line that these arguments are, the program's name first.
///
/// # Errors
/// What is wrong with them; that help or the version is asked for.
pub(crate) fn parse_arguments(args: &[OsString]) -> Result<CommandLine, clap::Error> {
    let matches = tree().try_get_matches_from(args)?;
    CommandLine::from_arg_matches(&matches)
}

/// All commands. A number below zero is a value, which the option refuses by its name.
fn tree() -> Command {
    fn numbers(command: Command) -> Command {
        let takes = |arg: &clap::Arg| arg.get_action().takes_values() && !arg.is_positional();
        let command = command
            .mut_args(|arg| if takes(&arg) { arg.allow_negative_numbers(true) } else { arg });
        command.mut_subcommands(numbers)
    }
    numbers(CommandLine::command())
}

/// What is wrong with these arguments, in one line.
pub(crate) fn fault(e: &clap::Error, args: &[OsString]) -> String {
    let (path, command) = commands(args);
    let help = format!(
        "{} --help",
        ["gabion"].into_iter().chain(path.iter().copied()).collect::<Vec<_>>().join(" ")
    );
    let what = what(e, args, &command, &help);
    let thing = path.join(" ");
    let of = if thing.is_empty() { thing } else { format!("{thing}: ") };
    crate::exit::one_line(&format!("gabion: {of}{what}"))
}

/// The names of the commands that the arguments begin with, and the last of them.
fn commands(args: &[OsString]) -> (Vec<&str>, Command) {
    let mut command = tree();
    let mut path = Vec::new();
    for arg in args.iter().skip(1).filter_map(|arg| arg.to_str()) {
        let Some(next) = command.find_subcommand(arg) else { break };
        command = next.clone();
        path.push(arg);
    }
    (path, command)
}

fn what(e: &clap::Error, args: &[OsString], command: &Command, help: &str) -> String {
    let one = |kind| text(e.get(kind)).unwrap_or_default();
    let option = name(&one(ContextKind::InvalidArg));
    let value = one(ContextKind::InvalidValue);
    let meant = |kind| match one(kind) {
        near if near.is_empty() => String::new(),
        near => format!("did you mean {near}? "),
    };
    match e.kind() {
        ErrorKind::InvalidValue if value.is_empty() => {
            let wanted = wanted(&one(ContextKind::InvalidArg), &one(ContextKind::ValidValue));
            match behind(args, command, &option) {
                Some(next) if next.is_empty() => format!("{option}: the value is empty: {wanted}"),
                Some(next) if next.starts_with('-') => {
                    format!("{option}: has no value, {next} is an option: {wanted}")
                }
                _ => format!("{option}: has no value: {wanted}"),
            }
        }
        ErrorKind::InvalidValue => {
            let (near, valid) = (meant(ContextKind::SuggestedValue), one(ContextKind::ValidValue));
            format!("{option} {value}: no such value: {near}it is one of {valid}")
        }
        ErrorKind::ValueValidation => {
            let why = e.source().map_or_else(|| "no such value".to_owned(), ToString::to_string);
            // Errors that begin with the value repeat it, or begin with nothing.
            let why = why.strip_prefix(&format!("{value}: ")).unwrap_or(&why);
            if value.is_empty() {
                format!("{option}: the value is empty: {why}")
            } else {
                format!("{option} {value}: {why}")
            }
        }
        ErrorKind::UnknownArgument if option.starts_with('-') => {
            if let Some(before) = without_value(args, command, &option) {
                return format!(
                    "{before}: has no value, and {option} is not an option: write {before} and its value"
                );
            }
            let near = match one(ContextKind::SuggestedArg) {
                near if near.is_empty() => elsewhere(&option).unwrap_or_default(),
                near => format!("did you mean {near}? "),
            };
            format!("{option}: no such option: {near}{help} lists them")
        }
        ErrorKind::UnknownArgument => {
            format!("{option}: one argument too many: {help} says what is taken")
        }
        ErrorKind::InvalidSubcommand => {
            let given = one(ContextKind::InvalidSubcommand);
            let near = meant(ContextKind::SuggestedSubcommand);
            format!("{given}: no such command: {near}{help} lists them")
        }
        ErrorKind::MissingRequiredArgument => missing(e, args, command, help),
        ErrorKind::ArgumentConflict => match name(&one(ContextKind::PriorArg)) {
            prior if prior == option => format!("{option}: is given twice: give it once"),
            prior => format!("{option}: does not go with {prior}: leave one of them out"),
        },
        ErrorKind::TooManyValues => {
            format!("{option} {value}: takes no value: write {option} alone")
        }
        ErrorKind::InvalidUtf8 => no_utf8(args, help),
        _ => {
            let text = e.render().to_string();
            let first = text.lines().next().unwrap_or_default();
            format!("{}: see {help}", first.trim_start_matches("error: "))
        }
    }
}

/// An option as it is written, without its value.
fn name(shown: &str) -> String {
    match shown.split_once([' ', '=']) {
        Some((name, _)) if shown.starts_with('-') => name.to_owned(),
        _ => shown.to_owned(),
    }
}

/// The values that an option may have.
fn wanted(shown: &str, valid: &str) -> String {
    match valid {
        "" if shown.starts_with('-') => format!("write {shown}"),
        "" => "write one, or leave it out".to_owned(),
        valid => format!("it is one of {valid}"),
    }
}

/// The argument after an option, which may be written short or with `=`.
fn behind(args: &[OsString], command: &Command, option: &str) -> Option<String> {
    let short = command
        .get_arguments()
        .find(|a| a.get_long().is_some_and(|long| option.strip_prefix("--") == Some(long)))
        .and_then(|a| Some(format!("-{}", a.get_short()?)));
    let mut args = args.iter().map(|arg| arg.to_string_lossy());
    args.by_ref().find(|arg| *arg == option || Some(&**arg) == short.as_deref())?;
    args.next().map(|next| next.into_owned())
}

/// The option before an argument, if it needs a value and the argument took its place.
fn without_value(args: &[OsString], command: &Command, given: &str) -> Option<String> {
    let is_given = |arg: &OsString| {
        let arg = arg.to_string_lossy();
        arg == given || arg.split_once('=').is_some_and(|(name, _)| name == given)
    };
    let at = args.iter().position(is_given)?;
    let before = args.get(at.checked_sub(1)?)?.to_str()?;
    let takes = command.get_arguments().any(|a| {
        let is_long = a.get_long().is_some_and(|long| before.strip_prefix("--") == Some(long));
        let is_short = a
            .get_short()
            .is_some_and(|short| before.strip_prefix('-') == Some(&*short.to_string()));
        (is_long || is_short) && a.get_action().takes_values()
    });
    takes.then(|| before.to_owned())
}

/// That something is missing; where it is an option that others need, which.
fn missing(e: &clap::Error, args: &[OsString], command: &Command, help: &str) -> String {
    let all = match e.get(ContextKind::InvalidArg) {
        Some(ContextValue::Strings(all)) => all.clone(),
        _ => Vec::new(),
    };
    let shown = all.join(" and ");
    let (is, them) = if all.len() > 1 { ("are", "them") } else { ("is", "it") };
    let option = all.first().map(|first| name(first)).filter(|name| name.starts_with('-'));
    match option.and_then(|option| needs(args, command, &option)) {
        Some(option) => format!("{option}: needs {shown}: add {them}"),
        None => format!("{shown}: {is} missing: {help} says what is taken"),
    }
}

/// The option among those given that needs this one: asked of each by itself.
fn needs(args: &[OsString], command: &Command, wanted: &str) -> Option<String> {
    let given = args.iter().filter_map(|arg| arg.to_str());
    let given: Vec<&str> = given
        .filter(|arg| arg.starts_with('-'))
        .map(|arg| arg.split('=').next().unwrap_or(arg))
        .collect();
    let alone = command.clone().mut_args(|arg| arg.required(false));
    command.get_arguments().filter(|a| !a.is_positional()).find_map(|arg| {
        let long = format!("--{}", arg.get_long()?);
        let short = arg.get_short().map(|short| format!("-{short}"));
        if !given.iter().any(|g| *g == long || Some(*g) == short.as_deref()) {
            return None;
        }
        // Whatever its value is: only what it needs is asked for.
        let parser = clap::builder::ValueParser::os_string();
        let alone = alone.clone().mut_arg(arg.get_id(), |a| {
            if a.get_action().takes_values() { a.value_parser(parser) } else { a }
        });
        let mut words = vec!["gabion", long.as_str()];
        if arg.get_action().takes_values() {
            words.push("x");
        }
        let refused = alone.try_get_matches_from(words).err()?;
        match refused.get(ContextKind::InvalidArg) {
            Some(ContextValue::Strings(all))
                if refused.kind() == ErrorKind::MissingRequiredArgument =>
            {
                all.iter().any(|one| name(one) == wanted).then_some(long)
            }
            _ => None,
        }
    })
}

/// Which commands have an option that this one has not.
fn elsewhere(option: &str) -> Option<String> {
    fn collect(command: &Command, path: &str, long: &str, out: &mut Vec<String>) {
        for sub in command.get_subcommands() {
            let path = format!("{path} {}", sub.get_name());
            if sub.get_arguments().any(|a| a.get_long() == Some(long)) {
                out.push(path.clone());
            }
            collect(sub, &path, long, out);
        }
    }
    let long = option.strip_prefix("--")?;
    let mut found = Vec::new();
    collect(&tree(), "gabion", long, &mut found);
    match found.as_slice() {
        [] => None,
        [one] => Some(format!("{one} has it; ")),
        [one, ..] => Some(format!("{one} and others have it; ")),
    }
}

/// The argument that is no text where text is wanted. Names of files may hold any bytes, so they are not among these.
fn no_utf8(args: &[OsString], help: &str) -> String {
    let at = args.iter().position(|arg| arg.to_str().is_none());
    let (before, arg) = match at {
        Some(at) => (at.checked_sub(1).and_then(|n| args.get(n)), args.get(at)),
        None => (None, None),
    };
    let arg = arg.map_or_else(String::new, |arg| arg.display().to_string());
    let option = before.map(|b| b.to_string_lossy()).filter(|b| b.starts_with('-'));
    match option {
        Some(option) if !arg.starts_with("--") => {
            format!("{option} {arg}: must be text in UTF-8")
        }
        _ => format!("{arg}: must be text in UTF-8: see {help}"),
    }
}

/// The text of an error of clap.
fn text(value: Option<&ContextValue>) -> Option<String> {
    Some(match value? {
        ContextValue::String(one) => one.clone(),
        ContextValue::Strings(all) => all.join(", "),
        ContextValue::StyledStr(one) => one.to_string(),
        ContextValue::StyledStrs(all) => {
            all.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
        }
        ContextValue::Number(n) => n.to_string(),
        _ => return None,
    })
}

#[cfg(test)]
mod tests;
