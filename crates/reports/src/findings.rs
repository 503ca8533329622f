//! `alerts.json` read again: what a run has found, as typed values.

use crate::Error;
use crate::limits::FINDING_BYTES_MAX;
use gabion_behavior::catalog::kind_of;
use gabion_flowlog::json::{self, Value, members};
use gabion_outputs::triage::{CalleeRef, Seen};
use gabion_record::Ip;
use gabion_record::evidence::{ThreatLevel, Topic};
use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;

/// One line about a finding.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Line {
    /// Identifier of the finding: repeated reports of one finding share it.
    pub(crate) finding: String,
    /// When it was reported, ISO 8601.
    pub(crate) when: String,
    /// Its type.
    pub(crate) kind: String,
    /// What the type is about.
    pub(crate) topic: Topic,
    /// How bad.
    pub(crate) level: ThreatLevel,
    /// How sure.
    pub(crate) confidence: f64,
    /// Its window.
    pub(crate) window: i64,
    /// An alert about a host: it has no finding, and of what follows a window, a time and a source.
    pub(crate) is_alert: bool,
    /// Who did it: an address or a name.
    pub(crate) source: String,
    /// Others that did the same, where one finding stands for many.
    pub(crate) others: Vec<String>,
    /// The target: an address or a name.
    pub(crate) target: String,
    /// Originator and responder of the flow, where the finding is about a pair that calls.
    pub(crate) call: Option<(Ip, String)>,
    /// Destination port, 0 for none.
    pub(crate) port: u16,
    /// RITA's threat.
    pub(crate) threat: f64,
    /// How many of what it counts.
    pub(crate) count: u64,
    /// Bytes sent.
    pub(crate) bytes: u64,
    /// Seconds it lasted.
    pub(crate) seconds: f64,
    /// How often the same was seen.
    pub(crate) times: u64,
    /// Ids of flows, as the log has them.
    pub(crate) uids: Vec<String>,
    /// In words.
    pub(crate) text: String,
    /// The first moment of what was found, ISO 8601.
    pub(crate) start: String,
}

impl Line {
    /// What its rank depends on; `None` where it is about no address.
    pub(crate) fn seen(&self) -> Option<Seen<'_>> {
        Some(Seen {
            kind: &self.kind,
            topic: self.topic,
            level: self.level,
            confidence: self.confidence,
            host: Ip::parse(self.source.as_bytes())?,
            src: self.call.as_ref().map(|c| c.0),
            dst: self.call.as_ref().filter(|c| !c.1.is_empty()).map(|c| CalleeRef::from_text(&c.1)),
            port: self.port,
            threat: self.threat,
            count: self.count,
            bytes: self.bytes,
            seconds: self.seconds,
            span: (second(&self.start), second(&self.when)),
        })
    }
}

/// Seconds since 1970 of a moment in ISO 8601.
pub(crate) fn second(iso: &str) -> i64 {
    iso.parse::<jiff::Timestamp>().map_or(0, |t| t.as_second())
}

/// The findings of a run.
#[derive(Clone, Debug, Default)]
pub(crate) struct Findings {
    /// Each finding as it was reported last, in the order of the first reports.
    pub(crate) all: Vec<Line>,
    /// Alerts about hosts.
    pub(crate) alerts: Vec<Line>,
    /// A warning about lines that were left out.
    pub(crate) warning: Option<String>,
}

/// The findings in a folder, or only those that an address is a source of, with the alerts about it. `each` receives
/// every report.
///
/// # Errors
/// When the folder has no findings.
pub(crate) fn read_findings(
    folder: &Path,
    ip: Option<&str>,
    each: &mut dyn FnMut(&Line),
) -> Result<Findings, Error> {
    let needle = ip.map(|ip| format!("\"IP\":\"{ip}\""));
    // A look before the reading: most lines are about others.
    let may_be = |line: &[u8]| {
        needle.as_ref().is_none_or(|n| line.windows(n.len()).any(|w| w == n.as_bytes()))
    };
    let is_wanted =
        |l: &Line| ip.is_none_or(|ip| l.source == ip || l.others.iter().any(|other| other == ip));
    let path = folder.join("alerts.json");
    let fault = |source: std::io::Error| Error::Findings { path: path.clone(), source };
    let mut lines = Lines::from_reader(BufReader::new(File::open(&path).map_err(fault)?));
    let mut findings = Findings::default();
    let mut places = std::collections::HashMap::new();
    let mut line = Vec::new();
    while lines.next(&mut line).map_err(fault)? {
        if !may_be(&line) {
            continue;
        }
        let Some(mut found) = one(&line).filter(is_wanted) else { continue };
        if found.is_alert {
            findings.alerts.push(found);
            continue;
        }
        each(&found);
        match places.get(&found.finding).and_then(|at: &usize| findings.all.get_mut(*at)) {
            Some(earlier) => {
                // The last report has no flows: those of the earlier reports belong to the same finding.
                if found.uids.is_empty() {
                    found.uids = std::mem::take(&mut earlier.uids);
                }
                *earlier = found;
            }
            None => {
                places.insert(found.finding.clone(), findings.all.len());
                findings.all.push(found);
            }
        }
    }
    findings.warning = lines.warning(&path);
    Ok(findings)
}

/// Lines of a file of findings; no line uses more memory than one that this program writes.
struct Lines<R> {
    from: R,
    /// Lines that were too long.
    left_out: u64,
}

impl<R: BufRead> Lines<R> {
    /// The lines of a file.
    fn from_reader(from: R) -> Lines<R> {
        Lines { from, left_out: 0 }
    }

    /// Reads the next line that is not too long; false at the end.
    ///
    /// # Errors
    /// Those of the system.
    fn next(&mut self, line: &mut Vec<u8>) -> std::io::Result<bool> {
        loop {
            line.clear();
            let most = FINDING_BYTES_MAX as u64 + 1;
            if (&mut self.from).take(most).read_until(b'\n', line)? == 0 {
                return Ok(false);
            }
            if line.len() <= FINDING_BYTES_MAX {
                return Ok(true);
            }
            self.left_out += 1;
            while line.last() != Some(&b'\n') {
                line.clear();
                if (&mut self.from).take(most).read_until(b'\n', line)? == 0 {
                    return Ok(false);
                }
            }
        }
    }

    /// How many lines were left out, where some were.
    fn warning(&self, path: &Path) -> Option<String> {
        let (n, path) = (self.left_out, path.display());
        (n > 0).then(|| {
            format!(
                "{path}: {n} lines of more than {FINDING_BYTES_MAX} bytes were left out: no finding is that long"
            )
        })
    }
}

fn own(value: Value<'_>) -> String {
    let mut text = Vec::new();
    json::unescape(value.raw(), &mut text);
    String::from_utf8_lossy(&text).into_owned()
}

fn number<T: std::str::FromStr + Default>(value: Value<'_>) -> T {
    std::str::from_utf8(value.raw()).ok().and_then(|t| t.trim().parse().ok()).unwrap_or_default()
}

/// Addresses of the objects of an array.
fn addresses(value: Value<'_>) -> Vec<String> {
    let text = String::from_utf8_lossy(value.raw());
    let parts = text.split("\"IP\":\"").skip(1);
    parts.filter_map(|p| p.split('"').next().map(str::to_owned)).collect()
}

/// The members of the first object of an array.
fn party(value: Value<'_>) -> (String, u16) {
    let (mut who, mut port) = (String::new(), 0);
    let raw = value.raw();
    let object = raw.iter().position(|b| *b == b'{').and_then(|at| raw.get(at..));
    let _ = members(object.unwrap_or_default(), |key, value| match key {
        b"IP" | b"Hostname" | b"URL" => who = own(value),
        b"Port" => {
            let digits = value.raw().iter().skip_while(|b| !b.is_ascii_digit());
            let digits: Vec<u8> = digits.copied().take_while(u8::is_ascii_digit).collect();
            port = std::str::from_utf8(&digits).ok().and_then(|t| t.parse().ok()).unwrap_or(0);
        }
        _ => {}
    });
    (who, port)
}

/// A line of evidence, or of an alert.
fn one(line: &[u8]) -> Option<Line> {
    // Left out where it is 1.
    let mut found = Line { times: 1, ..Line::default() };
    let mut is_evidence = false;
    let mut target_port = 0;
    members(line, |key, value| match key {
        b"Status" => {
            is_evidence = value.raw() == b"Event";
            found.is_alert = value.raw() == b"Incident";
        }
        b"ID" => found.finding = own(value),
        b"StartTime" => found.start = own(value),
        b"Confidence" => found.confidence = number(value),
        b"Description" => found.text = own(value),
        b"Source" => {
            found.source = party(value).0;
            found.others = addresses(value).into_iter().skip(1).collect();
        }
        b"Target" => (found.target, target_port) = party(value),
        b"_gabion" => {
            let _ = members(value.raw(), |key, value| match key {
                b"type" => {
                    found.kind = own(value);
                    found.topic = kind_of(&found.kind).map_or(Topic::Other, |kind| kind.topic);
                }
                b"detected" => found.when = own(value),
                b"finding" => found.finding = own(value),
                b"threat" => found.threat = number(value),
                b"count" => found.count = number(value),
                b"bytes" => found.bytes = number(value),
                b"seconds" => found.seconds = number(value),
                b"times" => found.times = number(value),
                b"port" => found.port = number(value),
                b"src" => {
                    let src = Ip::parse(value.raw());
                    let dst = found.call.take().map_or_else(String::new, |c| c.1);
                    found.call = src.map(|src| (src, dst));
                }
                b"dst" => {
                    if let Some(call) = &mut found.call {
                        call.1 = own(value);
                    }
                }
                _ => {}
            });
        }
        b"Note" => {
            let note = own(value);
            let _ = members(note.as_bytes(), |key, value| match key {
                b"threat_level" => {
                    found.level = ThreatLevel::from_name(value.raw()).unwrap_or_default();
                }
                b"timewindow" => found.window = number(value),
                b"uids" => {
                    let raw = String::from_utf8_lossy(value.raw()).into_owned();
                    let ids = raw.split('"').skip(1).step_by(2);
                    found.uids = ids.map(str::to_owned).collect();
                }
                _ => {}
            });
        }
        _ => {}
    })?;
    if found.port == 0 {
        found.port = target_port;
    }
    if found.is_alert {
        found.times = 0;
    }
    if found.when.is_empty() {
        found.when.clone_from(&found.start);
    }
    (is_evidence || found.is_alert).then_some(found)
}
