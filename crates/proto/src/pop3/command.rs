//! Commands of POP3 and the lines that carry them.

/// A command line.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Request {
    /// The command as it was sent.
    pub command: Vec<u8>,
    /// Its arguments.
    pub arguments: Vec<Vec<u8>>,
}

/// How many lines a positive response to a command has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Lines {
    /// One.
    One,
    /// Several, up to a line with a dot.
    Several,
    /// Several, which are not kept: a message.
    Message,
    /// Several if they are there.
    Unknown,
}

/// What is known of a command.
struct Command {
    name: &'static [u8],
    /// Least and most arguments.
    arguments: (usize, usize),
    lines: fn(usize) -> Lines,
}

const fn command(
    name: &'static [u8],
    least: usize,
    most: usize,
    lines: fn(usize) -> Lines,
) -> Command {
    Command { name, arguments: (least, most), lines }
}

fn one(_: usize) -> Lines {
    Lines::One
}

fn several(_: usize) -> Lines {
    Lines::Several
}

/// Of all messages without an argument, of one with it.
fn listing(arguments: usize) -> Lines {
    if arguments == 0 { Lines::Several } else { Lines::One }
}

fn message(_: usize) -> Lines {
    Lines::Message
}

/// Commands of RFC 1939, 2449, 2595 and 5034 in capitals: Suricata 8.0.7 knows no others.
const COMMANDS: &[Command] = &[
    command(b"USER", 1, 1, one),
    command(b"PASS", 1, 1, one),
    command(b"APOP", 2, 2, one),
    command(b"STAT", 0, 0, one),
    command(b"LIST", 0, 1, listing),
    command(b"RETR", 1, 1, message),
    command(b"DELE", 1, 1, one),
    command(b"NOOP", 0, 0, one),
    command(b"RSET", 0, 0, one),
    command(b"TOP", 2, 2, several),
    command(b"UIDL", 0, 1, listing),
    command(b"QUIT", 0, 0, one),
    command(b"CAPA", 0, 0, several),
    command(b"STLS", 0, 0, one),
    command(b"AUTH", 1, 2, listing),
];

/// What is wrong with a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Oddity {
    /// Too few or too many arguments.
    ArgumentCount,
    /// No such command.
    UnknownCommand,
}

/// Reads a line without its end; `None`: it is no command.
pub(super) fn parse_request(line: &[u8]) -> Option<Request> {
    let mut words = line.split(|b| *b == b' ');
    let name = words.next().filter(|w| !w.is_empty() && w.iter().all(u8::is_ascii_alphanumeric))?;
    let arguments = words.filter(|w| !w.is_empty()).map(<[u8]>::to_vec).collect();
    Some(Request { command: name.to_vec(), arguments })
}

/// Whether a line is data of an authentication (RFC 5034 4): base64, or a lone `=`.
pub(super) fn is_base64(line: &[u8]) -> bool {
    let body = line.strip_suffix(b"==").or(line.strip_suffix(b"=")).unwrap_or(line);
    let is_digit = |b: &u8| b.is_ascii_alphanumeric() || matches!(b, b'+' | b'/');
    !line.is_empty() && line.len().is_multiple_of(4) && body.iter().all(is_digit)
}

/// What is odd about a request, and what a positive response to it looks like.
pub(super) fn examine(request: &Request) -> (Option<Oddity>, Lines) {
    let Some(known) = COMMANDS.iter().find(|c| c.name == request.command) else {
        return (Some(Oddity::UnknownCommand), Lines::Unknown);
    };
    let (count, (least, most)) = (request.arguments.len(), known.arguments);
    let oddity = (count < least || count > most).then_some(Oddity::ArgumentCount);
    (oddity, (known.lines)(count))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As Suricata 8.0.7 takes the same lines.
    #[test]
    fn lines() {
        let words = |line: &[u8]| {
            let r = parse_request(line)?;
            Some((r.command.escape_ascii().to_string(), r.arguments.len(), examine(&r).0))
        };
        let known = |name: &str, n, oddity| Some((name.to_owned(), n, oddity));
        for (line, expected) in [
            (&b"USER a"[..], known("USER", 1, None)),
            (b"USER  a  b", known("USER", 2, Some(Oddity::ArgumentCount))),
            (b"STAT ", known("STAT", 0, None)),
            (b"quit", known("quit", 0, Some(Oddity::UnknownCommand))),
            (b"USER a\tb", known("USER", 1, None)),
            (b"US-ER a", None),
            (b" STAT", None),
            (b"", None),
            (b"*", None),
        ] {
            assert_eq!(words(line), expected, "{line:?}");
        }
        assert!(is_base64(b"AGJvYgBwdw==") && is_base64(b"STAT"));
        assert!(!is_base64(b"AUTH PLAIN") && !is_base64(b"*") && !is_base64(b""));
    }
}
