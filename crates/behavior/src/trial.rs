//! What tests of detectors are made with: records written in a line, and an engine that keeps what
//! it says.

use crate::engine::{Engine, Output};
use crate::settings::Settings;
use gabion_record::Ip;
use gabion_record::evidence::{Alert, Evidence, EvidenceType};
use gabion_record::logs::{
    Body, Conn, ConnState, Label, Mac, Proto, Record, SECOND, Service, TimeNs,
};

/// An engine with default thresholds.
pub(crate) struct Trial {
    pub(crate) engine: Engine,
    /// What counts and adds up.
    pub(crate) said: Vec<Evidence>,
    /// What is written.
    pub(crate) reported: Vec<Evidence>,
    pub(crate) alerts: Vec<Alert>,
}

impl Trial {
    pub(crate) fn new() -> Trial {
        Trial::with(Settings::default())
    }

    pub(crate) fn with(settings: Settings) -> Trial {
        Trial {
            engine: Engine::new(settings, None),
            said: Vec::new(),
            reported: Vec::new(),
            alerts: Vec::new(),
        }
    }

    pub(crate) fn with_budget(bytes: usize) -> Trial {
        let engine = Engine::with_budget(Settings::default(), None, bytes);
        Trial { engine, said: Vec::new(), reported: Vec::new(), alerts: Vec::new() }
    }

    pub(crate) fn of_settings(settings: Settings, start: Option<TimeNs>, bytes: usize) -> Trial {
        let engine = Engine::with_budget(settings, start, bytes);
        Trial { engine, said: Vec::new(), reported: Vec::new(), alerts: Vec::new() }
    }

    pub(crate) fn give(&mut self, c: &Flow) {
        self.record(&c.record());
    }

    pub(crate) fn record(&mut self, r: &Record<'_>) {
        let (said, reported, alerts) = (&mut self.said, &mut self.reported, &mut self.alerts);
        self.engine.record(r, &mut |f| keep(f, said, reported, alerts));
    }

    pub(crate) fn end(&mut self) {
        let (said, reported, alerts) = (&mut self.said, &mut self.reported, &mut self.alerts);
        self.engine.finish(&mut |f| keep(f, said, reported, alerts));
    }

    pub(crate) fn evidence_of(&self, kind: &EvidenceType) -> Vec<Evidence> {
        self.said.iter().filter(|e| e.kind == kind).cloned().collect()
    }

    /// All reports, last numbers too.
    pub(crate) fn reported_of(&self, kind: &EvidenceType) -> Vec<Evidence> {
        self.reported.iter().filter(|e| e.kind == kind).cloned().collect()
    }

    pub(crate) fn profile_bytes(&mut self, ip: &str) -> usize {
        self.engine.profile(at(ip)).map_or(0, |p| p.bytes())
    }
}

fn keep(
    f: Output<'_>,
    said: &mut Vec<Evidence>,
    reported: &mut Vec<Evidence>,
    alerts: &mut Vec<Alert>,
) {
    match f {
        Output::Evidence(e, _) => said.push(e.clone()),
        Output::Report(e, _) => reported.push(e.clone()),
        Output::Alert(a) => alerts.push(a.clone()),
    }
}

/// An address.
pub(crate) fn at(ip: &str) -> Ip {
    Ip::parse(ip.as_bytes()).unwrap()
}

/// A flow: established TCP, unless noted otherwise.
#[derive(Clone)]
pub(crate) struct Flow {
    pub(crate) ts: i64,
    pub(crate) src: Ip,
    pub(crate) dst: Ip,
    pub(crate) src_port: u16,
    pub(crate) dst_port: u16,
    pub(crate) proto: Proto,
    pub(crate) uid: String,
    pub(crate) state: &'static str,
    pub(crate) is_established: bool,
    pub(crate) history: &'static str,
    pub(crate) service: &'static str,
    pub(crate) seconds: f64,
    pub(crate) bytes: u64,
    pub(crate) reply_bytes: u64,
    pub(crate) src_mac: Option<Mac>,
    pub(crate) dst_mac: Option<Mac>,
    pub(crate) is_late: bool,
}

pub(crate) fn conn(second: i64, src: &str, dst: &str, dst_port: u16) -> Flow {
    Flow {
        ts: second * SECOND,
        src: at(src),
        dst: at(dst),
        src_port: 40_000,
        dst_port,
        proto: Proto::Tcp,
        uid: format!("C{second}{src}{dst_port}"),
        state: "SF",
        is_established: true,
        history: "ShADadFf",
        service: "",
        seconds: 0.1,
        bytes: 100,
        reply_bytes: 100,
        src_mac: None,
        dst_mac: None,
        is_late: false,
    }
}

impl Flow {
    pub(crate) fn refused(mut self) -> Flow {
        self.is_established = false;
        (self.state, self.history, self.bytes, self.reply_bytes) = ("S0", "S", 0, 0);
        self
    }

    pub(crate) fn udp(mut self) -> Flow {
        self.proto = Proto::Udp;
        self
    }

    pub(crate) fn lasting(mut self, seconds: f64) -> Flow {
        self.seconds = seconds;
        self
    }

    pub(crate) fn sending(mut self, bytes: u64) -> Flow {
        self.bytes = bytes;
        self
    }

    pub(crate) fn record(&self) -> Record<'_> {
        Record {
            ts: TimeNs(self.ts),
            src: self.src,
            dst: self.dst,
            src_port: self.src_port,
            dst_port: self.dst_port,
            proto: self.proto,
            uid: self.uid.as_bytes(),
            label: Label::None,
            is_late: self.is_late,
            body: Body::Conn(Conn {
                service: Service::from_name(self.service.as_bytes()),
                knows_service: true,
                duration_ns: (self.seconds * SECOND as f64) as i64,
                orig_bytes: self.bytes,
                resp_bytes: self.reply_bytes,
                orig_pkts: 2,
                resp_pkts: if self.is_established { 2 } else { 0 },
                state: ConnState::from_text(self.state.as_bytes()),
                is_established: self.is_established,
                history: self.history.as_bytes(),
                src_mac: self.src_mac,
                dst_mac: self.dst_mac,
                ..Conn::default()
            }),
        }
    }
}

/// A record of any kind.
pub(crate) fn log<'a>(second: i64, src: &str, dst: &str, body: Body<'a>) -> Record<'a> {
    Record {
        ts: TimeNs(second * SECOND),
        src: at(src),
        dst: at(dst),
        src_port: 40_000,
        dst_port: 0,
        proto: Proto::Tcp,
        uid: b"Clog",
        label: Label::None,
        is_late: false,
        body,
    }
}

/// Whether a description names all these values, in whatever sentence: numbers, addresses and names without the marks
/// around them.
pub(crate) fn has_values(evidence: &Evidence, values: &[&str]) -> bool {
    let text = evidence.description();
    let marks = |c: char| !c.is_alphanumeric() && c != '-';
    let words: Vec<&str> = text.split_whitespace().map(|word| word.trim_matches(marks)).collect();
    let is_named = |value: &&str| {
        words.iter().any(|word| word == value || word.rsplit('=').next() == Some(value))
    };
    values.iter().all(is_named)
}
