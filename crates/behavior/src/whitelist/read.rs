//! The text of a whitelist: Slips' format, and what is Gabion's own in it.

use super::{Entry, Side, Whitelist};
use crate::intel::indicator::bare;
use crate::intel::ranges::bounds;
use crate::limits::{NAME_BYTES_MAX, WHITELIST_ENTRIES_MAX, WHITELIST_NARROW_RANGES_MAX};
use crate::organizations::ORGANIZATIONS;
use gabion_record::Ip;
use gabion_record::calendar::days_from_date;
use gabion_record::logs::{Mac, SECOND, TimeNs};

/// What is wrong with an entry.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EntryError {
    /// It has too few columns.
    #[error("not four columns: write type,value,direction,ignore")]
    Columns,
    /// Its direction, or what it ignores, is no known word.
    #[error("direction must be src, dst or both; ignore must be flows, alerts or both")]
    Sides,
    /// It is about flows of a type of findings.
    #[error("flows have no type: write alerts in the fourth column")]
    TypeOfFlows,
    /// The whitelist is full.
    #[error("too many entries")]
    TooMany,
    /// No list is there of that organization.
    #[error("nothing is known of the organization `{0}`")]
    Organization(String),
    /// Its value is not of its type.
    #[error("`{value}` is not a valid {what}")]
    Value {
        /// The value.
        value: String,
        /// What it should be, and how that is written.
        what: &'static str,
    },
    /// There are too many networks that are narrowed.
    #[error("more than {WHITELIST_NARROW_RANGES_MAX} networks with a type or an end")]
    Networks,
    /// It is of no known type.
    #[error("unknown type `{0}`: write ip, domain, mac, asn, organization, evidence or pair")]
    Kind(String),
    /// It names no type of findings.
    #[error("type={0}: not a type of findings: docs/detections.md lists them all")]
    Type(String),
    /// It names no moment.
    #[error("until={0}: not a moment in time: write it as 2026-11-30T12:00:00Z")]
    Until(String),
    /// A further column is none that is known.
    #[error("column `{0}`: write type=TYPE, until=MOMENT or because=TEXT, or leave it out")]
    Column(String),
}

/// A line of a whitelist that is no entry.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {error}")]
pub struct WrongLine {
    /// Its number from 1.
    pub line: usize,
    /// What is wrong with it.
    pub error: EntryError,
}

/// The columns of a line after the four that Slips knows.
#[derive(Debug, Default, PartialEq, Eq)]
struct Further {
    kind: Option<String>,
    until: Option<TimeNs>,
}

impl Whitelist {
    /// Reads Slips' format (`type,value,direction,ignore`) with Gabion's own columns after it (`type=`, `until=`,
    /// `because=`); `lists` gives the text of an organization's list by its name (`google_domains`). Also what could
    /// not be used.
    pub fn parse(
        text: &str,
        lists: &dyn Fn(&str) -> Option<String>,
    ) -> (Whitelist, Vec<WrongLine>) {
        let mut made = Whitelist::default();
        let mut wrong = Vec::new();
        let mut organizations = Vec::new();
        for (at, raw) in text.lines().enumerate() {
            let line = raw.trim();
            // `#` switches an entry off, `;` is a comment.
            if line.is_empty() || line.starts_with(['#', ';']) || line.contains("IoCType") {
                continue;
            }
            let columns: Vec<&str> =
                line.splitn(5, ',').map(|c| c.trim().trim_matches('"').trim()).collect();
            let [kind, value, side, ignore, rest @ ..] = columns.as_slice() else {
                wrong.push(WrongLine { line: at + 1, error: EntryError::Columns });
                continue;
            };
            let (Some(side), Some((flows, alerts))) = (side_of(side), ignored(ignore)) else {
                wrong.push(WrongLine { line: at + 1, error: EntryError::Sides });
                continue;
            };
            let further = match further(rest.first().copied().unwrap_or_default()) {
                Ok(further) => further,
                Err(error) => {
                    wrong.push(WrongLine { line: at + 1, error });
                    continue;
                }
            };
            let is_of_evidence = *kind == "evidence" || further.kind.is_some();
            if flows && is_of_evidence {
                wrong.push(WrongLine { line: at + 1, error: EntryError::TypeOfFlows });
                continue;
            }
            if made.entries.len() >= WHITELIST_ENTRIES_MAX {
                wrong.push(WrongLine { line: at + 1, error: EntryError::TooMany });
                break;
            }
            let number = made.entries.len() as u32;
            made.entries.push(Entry {
                line: at as u32 + 1,
                text: crate::text::text(line.as_bytes()),
                side,
                ignores_flows: flows,
                ignores_alerts: alerts,
                kind: further.kind,
                until: further.until,
                older: None,
            });
            if *kind == "organization" {
                organizations.push((number, value.to_ascii_lowercase()));
            } else if let Err(error) = made.one(kind, value, number) {
                made.entries.pop();
                wrong.push(WrongLine { line: at + 1, error });
            }
        }
        for (number, name) in organizations {
            if !made.organization(&name, number, lists) {
                let line = made.entries.get(number as usize).map_or(0, |e| e.line) as usize;
                wrong.push(WrongLine { line, error: EntryError::Organization(name) });
            }
        }
        made.ranges.close();
        (made, wrong)
    }

    /// Enters what an entry is about. Of entries with the same value the last one counts; before one that is narrowed
    /// the others still do.
    fn one(&mut self, kind: &str, value: &str, number: u32) -> Result<(), EntryError> {
        let is_narrowed = self.entries.get(number as usize).is_some_and(Entry::is_narrowed);
        let no = |what| Err(EntryError::Value { value: value.to_owned(), what });
        let older = match kind {
            "ip" | "range" => match bounds(value.as_bytes()) {
                Some((first, last)) if first == last => self.ips.insert(first, number),
                Some((first, last)) if is_narrowed => {
                    if self.narrow_ranges.len() >= WHITELIST_NARROW_RANGES_MAX {
                        return Err(EntryError::Networks);
                    }
                    self.narrow_ranges.push((first, last, number));
                    None
                }
                Some((first, last)) => {
                    self.ranges.add(first, last, number);
                    None
                }
                None => return no("address, network or range"),
            },
            "domain" => match name_of(value) {
                Some(name) => self.names.insert(name, number),
                None => return no("name"),
            },
            "mac" => match Mac::parse(value.as_bytes()) {
                Some(mac) => self.macs.insert(mac, number),
                None => return no("hardware address"),
            },
            "asn" => match value.trim_start_matches(['A', 'S', 'a', 's']).parse() {
                Ok(asn) => self.asns.insert(asn, number),
                Err(_) => return no("number of an autonomous system"),
            },
            "evidence" => match known_type(value) {
                Some(name) => self.kinds.insert(name.into(), number),
                None => return no("type of findings: docs/detections.md has them all"),
            },
            "pair" => {
                let mut ends = value.split_ascii_whitespace();
                let (from, to, rest) = (ends.next(), ends.next(), ends.next());
                let from = from.and_then(|ip| Ip::parse(ip.as_bytes()));
                match (from, to, rest) {
                    (Some(from), Some(to), None) => match Ip::parse(to.as_bytes()) {
                        Some(to) => self.pairs.insert((from, to), number),
                        None => match name_of(to) {
                            Some(name) => self.pairs_by_name.insert((from, name), number),
                            None => {
                                return no(
                                    "pair: write an address, a blank, and an address or a name",
                                );
                            }
                        },
                    },
                    _ => return no("pair: write an address, a blank, and an address or a name"),
                }
            }
            _ => return Err(EntryError::Kind(kind.to_owned())),
        };
        if let Some(entry) = self.entries.get_mut(number as usize).filter(|_| is_narrowed) {
            entry.older = older;
        }
        Ok(())
    }

    /// What an organization's lists name, where no entry of its own does.
    fn organization(
        &mut self,
        name: &str,
        number: u32,
        lists: &dyn Fn(&str) -> Option<String>,
    ) -> bool {
        let mut is_known = false;
        let own = ORGANIZATIONS.iter().find(|(n, _)| *n == name).map_or(&[][..], |o| o.1);
        for domain in own {
            self.names.entry(domain.as_bytes().into()).or_insert(number);
            is_known = true;
        }
        let each = |list: &str, take: &mut dyn FnMut(&[u8])| {
            let Some(text) = lists(&format!("{name}_{list}")) else { return false };
            let lines = text.lines().map(|l| bare(l.as_bytes()));
            lines.filter(|l| !l.is_empty() && !l.starts_with(b"#")).for_each(take);
            true
        };
        is_known |= each("domains", &mut |l| {
            let name = l.to_ascii_lowercase();
            if name.contains(&b'.') {
                self.names.entry(name.into()).or_insert(number);
            }
        });
        is_known |= each("ip_ranges", &mut |l| {
            if let Some((first, last)) = bounds(l) {
                self.ranges.add(first, last, number);
            }
        });
        is_known |= each("asn", &mut |l| {
            let digits = l.strip_prefix(b"AS").unwrap_or(l);
            if let Some(asn) = crate::intel::indicator::number(digits) {
                self.asns.entry(asn).or_insert(number);
            }
        });
        is_known
    }
}

/// A name as it is compared.
fn name_of(text: &str) -> Option<Box<[u8]>> {
    let name = text.strip_prefix("*.").unwrap_or(text).trim_end_matches('.');
    let is_name = !name.is_empty() && name.len() <= NAME_BYTES_MAX && !name.contains(' ');
    is_name.then(|| name.to_ascii_lowercase().into_bytes().into())
}

/// The name of a type of findings, in whatever case it is written.
pub fn known_type(text: &str) -> Option<&'static str> {
    let all = crate::detect::ALL.iter().flat_map(|(_, about)| about.types);
    all.map(|kind| kind.name).find(|name| name.eq_ignore_ascii_case(text))
}

/// Reads `type=TYPE`, `until=MOMENT` and `because=TEXT`, of which the last takes all that follows.
fn further(mut rest: &str) -> Result<Further, EntryError> {
    let mut made = Further::default();
    while !rest.trim().is_empty() {
        if rest.trim_start().starts_with("because=") {
            break;
        }
        let (column, behind) = rest.split_once(',').unwrap_or((rest, ""));
        rest = behind;
        match column.trim().split_once('=') {
            Some(("type", name)) => {
                let known = known_type(name.trim());
                let known = known.ok_or_else(|| EntryError::Type(name.to_owned()))?;
                made.kind = Some(known.to_owned());
            }
            Some(("until", moment)) => {
                let known = second_of(moment.trim()).map(|s| TimeNs(s.saturating_mul(SECOND)));
                made.until = Some(known.ok_or_else(|| EntryError::Until(moment.to_owned()))?);
            }
            _ => {
                return Err(EntryError::Column(column.trim().to_owned()));
            }
        }
    }
    Ok(made)
}

/// Seconds since 1970 of a moment as `2026-11-30T12:00:00Z`, or of a day's begin (RFC 3339, in UTC).
pub(super) fn second_of(text: &str) -> Option<i64> {
    let (date, time) = text.split_once('T').unwrap_or((text, "00:00:00Z"));
    let numbers = |text: &str, mark: char| -> Option<[i64; 3]> {
        let parts: Vec<&str> = text.split(mark).collect();
        let [a, b, c] = parts.as_slice() else { return None };
        let is_number = |t: &&str| !t.is_empty() && t.bytes().all(|b| b.is_ascii_digit());
        let all = [a, b, c];
        if !all.iter().all(|t| is_number(t) && t.len() <= 4) {
            return None;
        }
        Some([a.parse().ok()?, b.parse().ok()?, c.parse().ok()?])
    };
    let [year, month, day] = numbers(date, '-')?;
    let [hour, minute, second] = numbers(time.strip_suffix('Z')?, ':')?;
    let days_of = match month {
        2 if year % 4 == 0 && (year % 100 != 0 || year % 400 == 0) => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    };
    let is_date =
        (1970..=2200).contains(&year) && (1..=12).contains(&month) && (1..=days_of).contains(&day);
    let is_time = hour < 24 && minute < 60 && second < 61;
    (is_date && is_time)
        .then(|| days_from_date(year, month, day) * 86_400 + hour * 3_600 + minute * 60 + second)
}

fn side_of(text: &str) -> Option<Side> {
    match text {
        "src" => Some(Side::Src),
        "dst" => Some(Side::Dst),
        "both" => Some(Side::Both),
        _ => None,
    }
}

fn ignored(text: &str) -> Option<(bool, bool)> {
    match text {
        "flows" => Some((true, false)),
        "alerts" => Some((false, true)),
        "both" => Some((true, true)),
        _ => None,
    }
}
