//! Evidence and alerts as IDMEFv2 lines (`alerts.json`) and as lines for people (`alerts.log`), in
//! Slips' forms, with what its JSON leaves out: the type of evidence, its technique, how often
//! it was seen, and the state of the input.

use gabion_record::Ip;
use gabion_record::evidence::{
    Alert, Evidence, FindingId, Indicator, Measures, Party, Role, ThreatLevel,
};
use gabion_record::json::{self, Json};
use gabion_record::logs::{Proto, TimeNs};
use std::io::Write;

/// Width of the column of addresses in `alerts.log`.
const IP_WIDTH: usize = 26;

/// Appends one line of evidence. `accumulated` is the sum of its profile's window; `created` the
/// wall clock, `None` where it is to be left out.
pub fn evidence(e: &Evidence, accumulated: f64, created: Option<TimeNs>, out: &mut Vec<u8>) {
    let mut j = Json::behind(std::mem::take(out));
    head(&mut j, e.method, "Event", e.report_id);
    j.field_plain("Severity", severity(e.level));
    j.moment("StartTime", e.measures.first);
    if let Some(created) = created {
        j.moment("CreateTime", created);
    }
    j.float("Confidence", round(e.confidence));
    let mut said = Vec::new();
    e.put_description(&mut said);
    said.extend_from_slice(b" Threat level: ");
    said.extend_from_slice(e.level.name().as_bytes());
    said.push(b'.');
    j.field("Description", &said);
    j.open_array_key("Source");
    party(&mut j, &e.attacker, e.src_port, Some(e.proto));
    for ip in &e.others {
        j.open();
        j.ip("IP", *ip);
        j.close();
    }
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
    if e.ts != e.measures.first {
        j.moment("detected", e.ts);
    }
    j.field("finding", e.id.text());
    if e.why.is_end() {
        j.boolean("final", true);
    }
    measures(&mut j, &e.measures, e.ts);
    if e.kind.topic.is_call() {
        calls(&mut j, e);
    }
    if e.times > 1 {
        j.number("times", e.times);
    }
    if !e.input_state.is_empty() {
        j.field("input", &e.input_state);
    }
    j.close();
    note(&mut j, e, round(accumulated));
    j.close();
    j.push(b"\n");
    *out = j.take_bytes();
}

/// The other end of a call: the ends of the flow, whichever of them is the attacker.
fn calls(j: &mut Json, e: &Evidence) {
    let (Some(src), Some(dst)) = (e.party(Role::Source), e.party(Role::Destination)) else {
        return;
    };
    if let Some(src) = src.ip() {
        j.ip("src", src);
    }
    match &dst.what {
        Indicator::Ip(dst) => j.ip("dst", *dst),
        what => j.field("dst", what.to_string()),
    }
    if let Some(port) = e.dst_port {
        j.number("port", port);
    }
    if e.measures.threat > 0.0 {
        j.float("threat", round(e.measures.threat));
    }
}

/// What was measured; what is 0 was not. The last moment is left out where it is that of detection.
fn measures(j: &mut Json, m: &Measures, detected: TimeNs) {
    for (name, n) in [
        ("count", m.count),
        ("hosts", m.hosts),
        ("ports", m.ports),
        ("packets", m.packets),
        ("bytes", m.bytes),
    ] {
        if n > 0 {
            j.number(name, n);
        }
    }
    if m.duration_ns > 0 {
        j.float("seconds", (m.duration_ns as f64 / 1e6).round() / 1e3);
    }
    if m.score > 0.0 {
        j.float("score", round(m.score));
    }
    if m.last > m.first && m.last != detected {
        j.moment("last", m.last);
    }
}

/// The note: JSON as a text, whose own quotes are escaped therefore.
fn note(j: &mut Json, e: &Evidence, accumulated: f64) {
    if !e.uids.iter().all(|uid| json::is_plain(uid.as_bytes())) {
        let mut note = Json::new();
        note.open();
        note.open_array_key("uids");
        e.uids.iter().for_each(|uid| note.item(uid));
        note.close_array();
        note.float("accumulated_threat_level", round(accumulated));
        note.field_plain("threat_level", e.level.name());
        note.field_plain("confidence", confidence(e.confidence));
        note.number("timewindow", e.window);
        note.close();
        j.field("Note", note.take_bytes());
        return;
    }
    j.key("Note");
    j.push(br#""{\"uids\":["#);
    for (at, uid) in e.uids.iter().enumerate() {
        j.push(if at == 0 { br#"\""#.as_slice() } else { br#",\""# });
        j.push(uid.as_bytes());
        j.push(br#"\""#);
    }
    j.push(br#"],\"accumulated_threat_level\":"#);
    j.push_float(round(accumulated));
    j.push(br#",\"threat_level\":\""#);
    j.push(e.level.name().as_bytes());
    j.push(br#"\",\"confidence\":\""#);
    j.push(confidence(e.confidence).as_bytes());
    j.push(br#"\",\"timewindow\":"#);
    j.push_number(e.window);
    j.push(br#"}""#);
}

/// Appends one line of an alert.
pub fn alert(a: &Alert, created: Option<TimeNs>, out: &mut Vec<u8>) {
    let mut j = Json::behind(std::mem::take(out));
    head(&mut j, "Heuristic", "Incident", a.id);
    j.moment("StartTime", a.window_start);
    if let Some(created) = created {
        j.moment("CreateTime", created);
    }
    j.float("Confidence", round(a.confidence));
    j.open_array_key("Source");
    j.open();
    j.ip("IP", a.profile);
    j.close();
    j.close_array();
    ids(&mut j, "CorrelID", &a.evidence);
    let mut note = Json::new();
    note.open();
    note.float("accumulated_threat_level", round(a.accumulated));
    note.number("timewindow", a.window);
    note.moment("EndTime", a.window_end);
    note.close();
    j.field("Note", note.take_bytes());
    j.close();
    j.push(b"\n");
    *out = j.take_bytes();
}

fn head(j: &mut Json, method: &str, status: &str, id: FindingId) {
    j.push(
        concat!(
            r#"{"Version":"2.0.3","Analyzer":{"IP":"0.0.0.0","Name":"Gabion","Model":""#,
            env!("CARGO_PKG_VERSION"),
            r#"","Category":["NIDS"],"Data":["Flow","Network"],"Method":[""#
        )
        .as_bytes(),
    );
    j.push(method.as_bytes());
    j.push(br#""]},"Status":""#);
    j.push(status.as_bytes());
    j.push(br#"","ID":""#);
    j.push(&id.text());
    j.push(b"\"");
}

fn party(j: &mut Json, party: &Party, port: Option<u16>, proto: Option<Proto>) {
    j.open();
    match &party.what {
        Indicator::Ip(ip) => j.ip("IP", *ip),
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
    ids.iter().for_each(|id| j.item(id.text()));
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

/// Slips' words, in its spelling.
fn confidence(c: f64) -> &'static str {
    match c {
        _ if c >= 0.8 => "High",
        _ if c >= 0.55 => "Medium",
        _ => "low",
    }
}

/// A number between 0 and 1 as lines have it, with six digits.
#[must_use]
pub fn round(x: f64) -> f64 {
    (x * 1e6).round() / 1e6
}

/// Appends evidence as a line of `alerts.log`.
pub fn evidence_line(e: &Evidence, out: &mut Vec<u8>) {
    e.measures.first.iso().put_text(out);
    // Writing to memory cannot fail.
    let _ = write!(out, " (TW {}): Src IP ", e.window);
    column(e.profile, out);
    out.extend_from_slice(b". Detected ");
    e.put_description(out);
    out.extend_from_slice(b" Threat level: ");
    out.extend_from_slice(e.level.name().as_bytes());
    out.extend_from_slice(b". \n");
}

/// Appends an alert as a line of `alerts.log`.
pub fn alert_line(a: &Alert, out: &mut Vec<u8>) {
    a.ts.iso().put_text(out);
    out.extend_from_slice(b": Src IP ");
    column(a.profile, out);
    let _ = writeln!(out, ". Generated an alert given enough evidence on timewindow {}.", a.window);
}

/// An address in its column.
fn column(ip: Ip, out: &mut Vec<u8>) {
    let end = out.len() + IP_WIDTH;
    ip.put_text(out);
    out.resize(out.len().max(end), b' ');
}

#[cfg(test)]
mod tests {
    use super::*;
    use gabion_record::evidence::{EvidenceType, ReportReason};

    static TYPE: EvidenceType = EvidenceType::new("CONNECTION_TO_PRIVATE_IP", "T1021");

    fn sample() -> Evidence {
        let ip = |text: &[u8]| Ip::parse(text).unwrap();
        let ts = TimeNs(26_457_743_000);
        Evidence {
            id: FindingId([7; 16]),
            report_id: FindingId([8; 16]),
            why: ReportReason::Threshold,
            kind: &TYPE,
            says: "Connecting to private IP: {dst} on destination port: {port}".into(),
            words: vec![],
            measures: Measures { count: 1, first: ts, last: ts, ..Measures::default() },
            about: 0,
            repeat: 0,
            attacker: Party::source(ip(b"10.0.2.15")),
            victim: Some(Party::destination(ip(b"10.0.2.255"))),
            level: ThreatLevel::Info,
            confidence: 1.0,
            profile: ip(b"10.0.2.15"),
            window: 1,
            ts,
            uids: vec!["Ctnas93dsoLLE1qPZ3".into()],
            proto: Proto::Udp,
            src_port: Some(137),
            dst_port: Some(137),
            method: "Heuristic",
            related: vec![],
            times: 1,
            others: vec![],
            input_state: "complete".into(),
        }
    }

    /// The line below has the fields that Slips writes (version 1.1.21).
    #[test]
    fn a_line_has_the_fields_of_slips() {
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
        let mut line = Vec::new();
        evidence_line(&sample(), &mut line);
        let line = String::from_utf8(line).unwrap();
        assert!(line.starts_with(
            "1970-01-01T00:00:26.457743+00:00 (TW 1): Src IP 10.0.2.15                 . Detected Connecting"
        ));
    }

    /// A note is the same text however it is made: with ids that need escapes and without.
    #[test]
    fn a_note_is_json_in_json() {
        for uids in [vec![], vec!["Ca1"], vec!["Ca1", "Cb2"], vec!["C\"\\1", "é"]] {
            let mut e = sample();
            e.uids = uids.iter().map(|uid| (*uid).to_owned()).collect();
            let mut inner = Json::new();
            inner.open();
            inner.open_array_key("uids");
            uids.iter().for_each(|uid| inner.item(uid));
            inner.close_array();
            inner.push(
                br#","accumulated_threat_level":0.1,"threat_level":"info","confidence":"High","timewindow":1}"#,
            );
            let mut outer = Json::new();
            outer.field("Note", inner.take_bytes());
            let mut out = Vec::new();
            evidence(&e, 0.1, None, &mut out);
            let (line, wanted) = (String::from_utf8(out).unwrap(), outer.into_line());
            assert!(line.ends_with(&format!(",{}}}\n", wanted.trim_end())), "{line} {wanted}");
        }
    }
}
