//! The choice of records by the contents of their messages: host, unit, program, severity, text.
//!
//! Numbers, times, sources and kinds are the reader's ([`gabion_seal::reader::Selection`]), which passes over whole
//! chunks by them.

use super::is_plain;
use crate::journal::{Entry, priority};
use crate::syslog::{self, Received};
use gabion_record::near::nearest;
use gabion_seal::reader::Found;
use gabion_seal::{Kind, Transport};
use memchr::memmem::Finder;

/// Names of severities, by their numbers.
const SEVERITIES: [&[&str]; 8] = [
    &["emerg", "panic"],
    &["alert"],
    &["crit"],
    &["err", "error"],
    &["warning", "warn"],
    &["notice"],
    &["info"],
    &["debug"],
];

/// Least and most severity, by the numbers of RFC 5424: 0 is the worst.
pub type Severities = (u8, u8);

/// What a message must have to be shown; an empty list or `None` takes all.
#[derive(Clone, Debug, Default)]
pub struct MessageCriteria {
    /// One of these hosts, as the message names it, or its sender's address where it names none.
    pub hosts: Vec<String>,
    /// One of these units of systemd; a name without an ending is a service.
    pub units: Vec<String>,
    /// One of these programs: the tag of a syslog message, or the journal's identifier.
    pub programs: Vec<String>,
    /// A severity of this range.
    pub severities: Option<Severities>,
    /// This text.
    pub text: Option<String>,
}

/// Decides which records meet criteria.
#[derive(Debug, Default)]
pub struct MessageFilter {
    hosts: Vec<String>,
    units: Vec<String>,
    programs: Vec<String>,
    severities: Option<Severities>,
    text: Option<Finder<'static>>,
}

/// What is known of a message, as far as somebody may ask for it.
#[derive(Debug, Default)]
struct Said<'a> {
    host: Option<&'a [u8]>,
    units: [Option<&'a [u8]>; 3],
    program: Option<&'a [u8]>,
    severity: Option<u8>,
}

impl MessageFilter {
    /// By these criteria.
    pub fn new(criteria: &MessageCriteria) -> MessageFilter {
        let unit = |name: &String| {
            if name.contains('.') {
                name.clone()
            } else {
                // As systemd's programs do.
                format!("{name}.service")
            }
        };
        let finder = |text: &String| Finder::new(text.as_bytes()).into_owned();
        MessageFilter {
            hosts: criteria.hosts.clone(),
            units: criteria.units.iter().map(unit).collect(),
            programs: criteria.programs.clone(),
            severities: criteria.severities,
            text: criteria.text.as_ref().map(finder),
        }
    }

    /// Whether a record is one of them.
    pub fn takes(&self, found: &Found<'_>) -> bool {
        if self.text.as_ref().is_some_and(|text| text.find(found.record.bytes).is_none()) {
            return false;
        }
        let asks = !self.hosts.is_empty() || !self.units.is_empty() || !self.programs.is_empty();
        if !asks && self.severities.is_none() {
            return true;
        }
        if found.record.kind != Kind::Message {
            return false;
        }
        match found.source.transport {
            Some(Transport::Journal) => self.takes_said(&entry(Entry(found.record.bytes)), found),
            _ => {
                let bytes = syslog::unpacked(found.record.bytes);
                let received = Received { time_ns: found.record.time_ns, zone_seconds: 0 };
                let message = syslog::parse(&bytes, &received);
                // As `show` prints it.
                let is_plain = is_plain(found, &message);
                let said = Said {
                    host: message.host.filter(|_| !is_plain),
                    units: [None; 3],
                    program: message.app.filter(|_| !is_plain),
                    severity: Some(message.severity()),
                };
                self.takes_said(&said, found)
            }
        }
    }

    fn takes_said(&self, said: &Said<'_>, found: &Found<'_>) -> bool {
        let is_one = |all: &[String], value: Option<&[u8]>| {
            value.is_some_and(|v| all.iter().any(|one| v.eq_ignore_ascii_case(one.as_bytes())))
        };
        // A message that names no host has its sender as host.
        let peer = found.source.peer;
        let address = peer.rsplitn(2, |b| *b == b':').last().unwrap_or(peer);
        let is_host = || {
            is_one(&self.hosts, said.host)
                || said.host.is_none()
                    && (is_one(&self.hosts, Some(peer)) || is_one(&self.hosts, Some(address)))
        };
        (self.hosts.is_empty() || is_host())
            && (self.units.is_empty() || said.units.iter().any(|unit| is_one(&self.units, *unit)))
            && (self.programs.is_empty() || is_one(&self.programs, said.program))
            && self.severities.is_none_or(|(least, most)| {
                said.severity.is_some_and(|s| (least..=most).contains(&s))
            })
    }
}

/// The fields of an entry of the journal, read once.
fn entry(entry: Entry<'_>) -> Said<'_> {
    let mut said = Said::default();
    let mut command = None;
    for (name, value) in entry.fields() {
        match name {
            b"_HOSTNAME" => said.host = Some(value),
            b"PRIORITY" => said.severity = said.severity.or_else(|| priority(value)),
            // The unit of the entry, the unit that a manager reports on, and the unit of a user.
            b"_SYSTEMD_UNIT" => said.units[0] = Some(value),
            b"UNIT" => said.units[1] = Some(value),
            b"_SYSTEMD_USER_UNIT" => said.units[2] = Some(value),
            b"SYSLOG_IDENTIFIER" => said.program = Some(value),
            b"_COMM" => command = Some(value),
            _ => {}
        }
    }
    said.program = said.program.or(command);
    said
}

/// Why a text names no severity.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SeverityError {
    /// There is no such severity.
    #[error(
        "{text} is not a severity: {}write emerg, alert, crit, err, warning, notice, info, debug, 0 to 7, or a range such as err..alert",
        meant(.text)
    )]
    Unknown {
        /// The text.
        text: String,
    },
}

fn meant(text: &str) -> String {
    nearest(text, SEVERITIES.concat())
        .map_or_else(String::new, |near| format!("did you mean {near}? "))
}

/// A severity and all that is worse, or a range, by names or numbers, as journalctl's `--priority`.
///
/// # Errors
/// When there is no severity of that name or number.
pub fn parse_severities(text: &str) -> Result<Severities, SeverityError> {
    let one = |text: &str| {
        let by_name = || {
            SEVERITIES.iter().position(|names| names.iter().any(|n| text.eq_ignore_ascii_case(n)))
        };
        let number = text.parse::<usize>().ok().filter(|n| *n < SEVERITIES.len());
        number
            .or_else(by_name)
            .and_then(|n| u8::try_from(n).ok())
            .ok_or_else(|| SeverityError::Unknown { text: text.to_owned() })
    };
    match text.split_once("..") {
        None => Ok((0, one(text)?)),
        Some((a, b)) => {
            let (a, b) = (one(a)?, one(b)?);
            Ok((a.min(b), a.max(b)))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn severities_are_those_of_journalctl() {
        for (text, wanted) in [
            ("err", (0, 3)),
            ("3", (0, 3)),
            ("WARN", (0, 4)),
            ("err..alert", (1, 3)),
            ("debug", (0, 7)),
            ("2..2", (2, 2)),
        ] {
            assert_eq!(parse_severities(text).unwrap(), wanted, "{text}");
        }
        for wrong in ["", "8", "loud", "err..", "..", "1...3"] {
            assert!(parse_severities(wrong).is_err(), "{wrong}");
        }
    }
}
