//! Evidence and alerts as IDMEFv2 lines (`alerts.json`) and as lines for people (`alerts.log`), in
//! the peer's forms, with what its JSON leaves out: the type of evidence, its technique, how often
//! it was seen, and the state of the input.

use crate::line_file::LineFile;
use gabion_record::evidence::{Alert, Evidence, FindingId, Indicator, Party, ThreatLevel};
use gabion_record::json::Json;
use gabion_record::ledger::Ledger;
use gabion_record::logs::{Proto, TimeNs};
use std::fmt::Write;
use std::path::{Path, PathBuf};

/// Version of IDMEF.
const IDMEF: &str = "2.0.3";
/// Width of the column of addresses in `alerts.log`.
const IP_WIDTH: usize = 26;

/// Appends one line of evidence. `accumulated` is the sum of its profile's window; `created` the
/// wall clock, `None` where it is to be left out.
pub fn evidence(e: &Evidence, accumulated: f64, created: Option<TimeNs>, out: &mut Vec<u8>) {
    let mut j = Json::with_capacity(1024);
    head(&mut j, e.method, "Event", e.id);
    j.field_plain("Severity", severity(e.level));
    j.field_plain("StartTime", &e.start.iso().to_string());
    if let Some(created) = created {
        j.field_plain("CreateTime", &created.iso().to_string());
    }
    j.float("Confidence", e.confidence);
    j.field("Description", format!("{} Threat level: {}.", e.description, e.level));
    j.open_array_key("Source");
    party(&mut j, &e.attacker, e.src_port, Some(e.proto));
    j.close_array();
    if let Some(victim) = &e.victim {
        j.open_array_key("Target");
        party(&mut j, victim, e.dst_port, None);
        j.close_array();
    }
    ids(&mut j, "RelID", &e.related);
    j.open_key("_gabion");
    j.field_plain("type", e.kind.name);
    j.field_plain("technique", e.kind.technique);
    j.field_plain("detected", &e.ts.iso().to_string());
    j.number("flows", e.flows);
    j.number("times", e.times);
    if !e.input_state.is_empty() {
        j.field("input", &e.input_state);
    }
    j.close();
    let mut note = Json::with_capacity(256);
    note.open();
    note.open_array_key("uids");
    e.uids.iter().for_each(|uid| note.item(uid));
    note.close_array();
    note.float("accumulated_threat_level", round(accumulated));
    note.field_plain("threat_level", e.level.name());
    note.field_plain("confidence", confidence(e.confidence));
    note.number("timewindow", e.window);
    note.close();
    j.field("Note", note.take());
    j.close();
    out.extend_from_slice(&j.take());
    out.push(b'\n');
}

/// Appends one line of an alert.
pub fn alert(a: &Alert, created: Option<TimeNs>, out: &mut Vec<u8>) {
    let mut j = Json::new();
    head(&mut j, "Heuristic", "Incident", a.id);
    j.field_plain("StartTime", &a.window_start.iso().to_string());
    if let Some(created) = created {
        j.field_plain("CreateTime", &created.iso().to_string());
    }
    j.float("Confidence", round(a.confidence));
    j.open_array_key("Source");
    j.open();
    j.field_plain("IP", &a.profile.to_string());
    j.close();
    j.close_array();
    ids(&mut j, "CorrelID", &a.evidence);
    let mut note = Json::new();
    note.open();
    note.float("accumulated_threat_level", round(a.accumulated));
    note.number("timewindow", a.window);
    note.field_plain("EndTime", &a.window_end.iso().to_string());
    note.close();
    j.field("Note", note.take());
    j.close();
    out.extend_from_slice(&j.take());
    out.push(b'\n');
}

fn head(j: &mut Json, method: &str, status: &str, id: FindingId) {
    j.open();
    j.field_plain("Version", IDMEF);
    j.open_key("Analyzer");
    j.field_plain("IP", "0.0.0.0");
    j.field_plain("Name", "Gabion");
    j.field_plain("Model", env!("CARGO_PKG_VERSION"));
    j.open_array_key("Category");
    j.item("NIDS");
    j.close_array();
    j.open_array_key("Data");
    j.item("Flow");
    j.item("Network");
    j.close_array();
    j.open_array_key("Method");
    j.item(method);
    j.close_array();
    j.close();
    j.field_plain("Status", status);
    j.field_plain("ID", &id.to_string());
}

fn party(j: &mut Json, party: &Party, port: Option<u16>, proto: Option<Proto>) {
    j.open();
    match &party.what {
        Indicator::Ip(ip) => j.field_plain("IP", &ip.to_string()),
        Indicator::Domain(name) => j.field("Hostname", name),
        Indicator::Url(url) => j.field("URL", url),
        Indicator::Md5(hash) => j.field("Attachment", hash),
    }
    if let Some(port) = port {
        j.open_array_key("Port");
        j.item_number(port);
        j.close_array();
        if let Some(proto) = proto {
            j.open_array_key("Protocol");
            j.item(proto.name().to_uppercase());
            j.close_array();
        }
    }
    j.close();
}

fn ids(j: &mut Json, key: &str, ids: &[FindingId]) {
    if ids.is_empty() {
        return;
    }
    j.open_array_key(key);
    ids.iter().for_each(|id| j.item(id.to_string()));
    j.close_array();
}

/// IDMEF has no critical.
fn severity(level: ThreatLevel) -> &'static str {
    match level {
        ThreatLevel::Info => "Info",
        ThreatLevel::Low => "Low",
        ThreatLevel::Medium => "Medium",
        ThreatLevel::High | ThreatLevel::Critical => "High",
    }
}

/// The peer's words, in its spelling.
fn confidence(c: f64) -> &'static str {
    match c {
        _ if c >= 0.8 => "High",
        _ if c >= 0.55 => "Medium",
        _ => "low",
    }
}

fn round(x: f64) -> f64 {
    (x * 1e6).round() / 1e6
}

/// Appends evidence as a line of `alerts.log`.
pub fn evidence_line(e: &Evidence, out: &mut String) {
    let _ = writeln!(
        out,
        "{} (TW {}): Src IP {:IP_WIDTH$}. Detected {} Threat level: {}. ",
        e.start.iso(),
        e.window,
        e.profile,
        e.description,
        e.level
    );
}

/// Appends an alert as a line of `alerts.log`.
pub fn alert_line(a: &Alert, out: &mut String) {
    let _ = writeln!(
        out,
        "{}: Src IP {:IP_WIDTH$}. Generated an alert given enough evidence on timewindow {}.",
        a.ts.iso(),
        a.profile,
        a.window
    );
}

/// `alerts.json` and `alerts.log` of a folder.
#[derive(Debug)]
pub struct AlertFiles {
    json: LineFile,
    log: LineFile,
    bytes: Vec<u8>,
    text: String,
}

impl AlertFiles {
    /// Creates both.
    ///
    /// # Errors
    /// When one cannot be written.
    pub fn create(folder: &Path) -> Result<AlertFiles, String> {
        Ok(AlertFiles {
            json: LineFile::create(&folder.join("alerts.json"), false)?,
            log: LineFile::create(&folder.join("alerts.log"), false)?,
            bytes: Vec::new(),
            text: String::new(),
        })
    }

    /// Writes evidence.
    pub fn evidence(&mut self, e: &Evidence, accumulated: f64, created: Option<TimeNs>) {
        self.bytes.clear();
        evidence(e, accumulated, created, &mut self.bytes);
        self.text.clear();
        evidence_line(e, &mut self.text);
        self.write();
    }

    /// Writes an alert.
    pub fn alert(&mut self, a: &Alert, created: Option<TimeNs>) {
        self.bytes.clear();
        alert(a, created, &mut self.bytes);
        self.text.clear();
        alert_line(a, &mut self.text);
        self.write();
    }

    fn write(&mut self) {
        self.json.line(&self.bytes);
        self.log.line(self.text.as_bytes());
    }

    /// Writes what is held back.
    ///
    /// # Errors
    /// When something could not be written, then or before.
    pub fn flush(&mut self) -> Result<(), String> {
        for file in [&mut self.json, &mut self.log] {
            file.flush();
            if let Some(failure) = file.failure() {
                return Err(failure.to_owned());
            }
        }
        Ok(())
    }

    /// The files with their ledgers.
    pub fn ledgers(&self) -> Vec<(PathBuf, Ledger)> {
        [&self.json, &self.log].map(|file| (file.path().to_owned(), file.ledger().clone())).to_vec()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gabion_record::Ip;
    use gabion_record::evidence::EvidenceType;

    static TYPE: EvidenceType =
        EvidenceType { name: "CONNECTION_TO_PRIVATE_IP", technique: "T1021" };

    fn sample() -> Evidence {
        let ip = |text: &[u8]| Ip::parse(text).unwrap();
        Evidence {
            id: FindingId([7; 16]),
            kind: &TYPE,
            description: "Connecting to private IP: 10.0.2.255 on destination port: 137".into(),
            attacker: Party::source(ip(b"10.0.2.15")),
            victim: Some(Party::destination(ip(b"10.0.2.255"))),
            level: ThreatLevel::Info,
            confidence: 1.0,
            profile: ip(b"10.0.2.15"),
            window: 1,
            ts: TimeNs(26_457_743_000),
            start: TimeNs(26_457_743_000),
            uids: vec!["Ctnas93dsoLLE1qPZ3".into()],
            flows: 1,
            proto: Proto::Udp,
            src_port: Some(137),
            dst_port: Some(137),
            method: "Heuristic",
            related: vec![],
            times: 1,
            input_state: "complete".into(),
        }
    }

    /// Beside it the peer's own line (its version 1.1.21), whose fields these are.
    #[test]
    fn a_line_has_the_peers_fields() {
        let mut out = Vec::new();
        evidence(&sample(), 0.0, Some(TimeNs(0)), &mut out);
        let text = String::from_utf8(out).unwrap();
        for part in [
            "\"Version\":\"2.0.3\"",
            "\"Status\":\"Event\"",
            "\"Severity\":\"Info\"",
            "\"StartTime\":\"1970-01-01T00:00:26.457743+00:00\"",
            "\"Description\":\"Connecting to private IP: 10.0.2.255 on destination port: 137 Threat level: info.\"",
            "\"Source\":[{\"IP\":\"10.0.2.15\",\"Port\":[137]",
            "\"Target\":[{\"IP\":\"10.0.2.255\",\"Port\":[137]}]",
            "\\\"uids\\\":[\\\"Ctnas93dsoLLE1qPZ3\\\"]",
            "\\\"confidence\\\":\\\"High\\\",\\\"timewindow\\\":1}",
            "\"type\":\"CONNECTION_TO_PRIVATE_IP\"",
        ] {
            assert!(text.contains(part), "{part} in {text}");
        }
        let mut line = String::new();
        evidence_line(&sample(), &mut line);
        assert!(line.starts_with(
            "1970-01-01T00:00:26.457743+00:00 (TW 1): Src IP 10.0.2.15                 . Detected Connecting"
        ));
    }
}
