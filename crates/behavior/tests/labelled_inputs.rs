//! `docs/labelled-inputs.md`: inputs whose flows somebody labelled, and what is reported of each of their
//! addresses; `UPDATE=1` writes the page again.

mod inputs;

use gabion_behavior::limits::BUDGET;
use gabion_behavior::{Engine, Output, Settings};
use gabion_record::Ip;
use gabion_record::evidence::{Indicator, ThreatLevel};
use gabion_record::logs::{Body, Label};
use std::collections::BTreeMap;
use std::fmt::Write;
use std::ops::ControlFlow;
use std::path::Path;

/// An input below `corpus/flows`, and what Slips reported of it by source, if that is known.
const INPUTS: &[(&str, &[SlipsReport])] = &[
    (
        "slips/test5-mixed.binetflow",
        &[SlipsReport {
            source: "10.0.2.15",
            reported: Some(false),
            alerts: Some(0),
            said: "6 info CONNECTION_TO_PRIVATE_IP, 2 low LONG_CONNECTION, 81 low \
                NON_HTTP_PORT_80_CONNECTION (and 81 medium of its destinations)",
        }],
    ),
    ("netflowlabeler/test5.tabs.binetflow.zst", &[]),
    (
        "slips/test18-malicious-ctu-sme-11-win",
        &[SlipsReport {
            source: "192.168.1.107",
            reported: Some(false),
            alerts: Some(0),
            said: "nothing: it stops at the labelled log's name (D46)",
        }],
    ),
    ("netflowlabeler/nfcapd.sample1.labeled", &[]),
];

/// What Slips reported of a source.
struct SlipsReport {
    source: &'static str,
    /// Evidence from medium on.
    reported: Option<bool>,
    alerts: Option<u32>,
    said: &'static str,
}

/// Flows by their label.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Flows {
    malicious: u64,
    benign: u64,
    unlabelled: u64,
}

impl Flows {
    fn add(&mut self, label: Label) {
        *match label {
            Label::Malicious => &mut self.malicious,
            Label::Benign => &mut self.benign,
            Label::None => &mut self.unlabelled,
        } += 1;
    }

    /// Bad with one malicious flow, good with benign ones alone; what is not labelled says nothing.
    fn is_bad(self) -> Option<bool> {
        match self {
            Flows { malicious: 1.., .. } => Some(true),
            Flows { benign: 1.., .. } => Some(false),
            Flows { .. } => None,
        }
    }

    fn columns(self) -> String {
        format!("{} | {} | {}", self.malicious, self.benign, self.unlabelled)
    }
}

/// One address of one input.
#[derive(Debug, Default)]
struct Host {
    /// That it began, and that others began with it.
    from: Flows,
    to: Flows,
    /// Evidence that names it as attacker, worst first, by type.
    evidence: BTreeMap<(std::cmp::Reverse<ThreatLevel>, &'static str), u64>,
    /// The most that evidence of one window added up to; 15 are an alert.
    sum: f64,
    alerts: u32,
}

impl Host {
    fn is_reported(&self) -> bool {
        self.evidence.keys().any(|(level, _)| level.0 >= ThreatLevel::Medium)
    }

    fn says(&self) -> String {
        let each = self.evidence.iter().map(|((l, kind), n)| format!("{n} {} {kind}", l.0.name()));
        let all: Vec<String> = each.collect();
        if all.is_empty() { "nothing".to_owned() } else { all.join(", ") }
    }
}

fn verdict(is_bad: Option<bool>, is_reported: bool) -> &'static str {
    match (is_bad, is_reported) {
        (Some(true), true) => "TP",
        (Some(true), false) => "FN",
        (Some(false), true) => "FP",
        (Some(false), false) => "TN",
        (None, true) => "reported",
        (None, false) => "silent",
    }
}

fn hosts(path: &Path) -> BTreeMap<Ip, Host> {
    let paths = inputs::files(path);
    let mut feed = inputs::feed(&paths);
    let mut engine = Engine::with_budget(Settings::default(), feed.start(), BUDGET);
    let mut found: BTreeMap<Ip, Host> = BTreeMap::new();
    let mut said: BTreeMap<Ip, Host> = BTreeMap::new();
    let mut keep = |finding: Output<'_>| match finding {
        Output::Evidence(e, sum) => {
            let own = said.entry(e.profile).or_default();
            own.sum = own.sum.max(sum);
            if let Indicator::Ip(ip) = &e.attacker.what {
                let kind = (std::cmp::Reverse(e.level), e.kind.name);
                *said.entry(*ip).or_default().evidence.entry(kind).or_default() += 1;
            }
        }
        Output::Report(..) => {}
        Output::Alert(a) => said.entry(a.profile).or_default().alerts += 1,
    };
    feed.run(&mut |records| {
        for r in records.iter().filter(|r| matches!(r.body, Body::Conn(_))) {
            found.entry(r.src).or_default().from.add(r.label);
            found.entry(r.dst).or_default().to.add(r.label);
        }
        engine.records(records, &mut keep);
        ControlFlow::Continue(())
    });
    engine.finish(&mut keep);
    for (ip, host) in said {
        let own = found.entry(ip).or_default();
        (own.evidence, own.sum, own.alerts) = (host.evidence, host.sum, host.alerts);
    }
    found
}

/// Sums of verdicts.
#[derive(Default)]
struct Sums(BTreeMap<&'static str, u32>);

impl Sums {
    fn row(&self, name: &str) -> String {
        let of = |verdict: &str| self.0.get(verdict).copied().unwrap_or(0);
        let columns = ["TP", "FP", "FN", "TN", "reported", "silent"].map(|v| of(v).to_string());
        format!("| {name} | {} |\n", columns.join(" | "))
    }
}

fn page(flows: &Path) -> String {
    let (mut sources, mut others) = (String::new(), String::new());
    let (mut evidence, mut alerts) = (Sums::default(), Sums::default());
    let (mut theirs, mut their_alerts) = (Sums::default(), Sums::default());
    let count = |sums: &mut Sums, verdict: &'static str| {
        *sums.0.entry(verdict).or_default() += 1;
        verdict
    };
    for (input, slips) in INPUTS {
        for (ip, host) in hosts(&flows.join(input)) {
            let name = ip.to_string();
            if host.from == Flows::default() {
                if !host.evidence.is_empty() {
                    let (flows, says) = (host.to.columns(), host.says());
                    let by_evidence = verdict(host.to.is_bad(), host.is_reported());
                    let _ =
                        writeln!(others, "| {input} | {name} | {flows} | {says} | {by_evidence} |");
                }
                continue;
            }
            let is_bad = host.from.is_bad();
            let by_evidence = count(&mut evidence, verdict(is_bad, host.is_reported()));
            let by_alert = count(&mut alerts, verdict(is_bad, host.alerts > 0));
            let by_slips = slips.iter().find(|p| p.source == name).map(|p| {
                let their_evidence = p.reported.map(|t| count(&mut theirs, verdict(is_bad, t)));
                let alert = p.alerts.map(|n| count(&mut their_alerts, verdict(is_bad, n > 0)));
                format!("{}; {}, {}", p.said, their_evidence.unwrap_or("?"), alert.unwrap_or("?"))
            });
            let _ = writeln!(
                sources,
                "| {input} | {name} | {} | {} | {:.1} | {} | {by_evidence} | {by_alert} | {} |",
                host.from.columns(),
                host.says(),
                host.sum,
                host.alerts,
                by_slips.unwrap_or_else(|| "not known".to_owned())
            );
        }
    }
    format!(
        "{HEAD}{}{}{}{}{SOURCES}{sources}{OTHERS}{others}{READING}",
        evidence.row("ours, by evidence"),
        alerts.row("ours, by alert"),
        theirs.row("Slips, by evidence"),
        their_alerts.row("Slips, by alert"),
    )
}

const HEAD: &str = "# Labelled inputs\n\n\
    This page shows inputs whose flows somebody labelled by hand, and what is reported of each of their addresses. The tables are written by \
    the test\n`labelled_inputs` of `gabion-behavior` with default settings and no lists, and compared with every run of it; the \
    labels are in the\ninputs (netflowlabeler's and CTU's).\n\n\
    **The rule.** A flow is malicious or benign where its label says so (`Malicious`, `Malware`, `Botnet`; `Benign`, `Normal`); \
    all other\nlabels (`Background`, `Unknown`, `Test-Label`, none) say nothing. A source is bad when at least one flow it began \
    is malicious, and\ngood when it began benign ones and no malicious one; one without a label is not judged: evidence about it \
    counts as *reported*, none as *silent*. *By\nevidence*: at least one finding of level medium or above names it as attacker. *By \
    alert*: its evidence added up to an alert (15 in\nan hour).\nTP and FN are of bad sources, FP and TN of good ones.\n\n\
    | | TP | FP | FN | TN | reported | silent |\n|---|---|---|---|---|---|---|\n";

const SOURCES: &str = "\n## Sources\n\n\
    | input | source | malicious flows | benign | unlabelled | evidence that names it | adds up to | alerts | by evidence | by \
    alert | Slips: its evidence; by evidence, by alert |\n|---|---|---|---|---|---|---|---|---|---|---|\n";

const OTHERS: &str = "\n## Ends that begin no flow\n\nDestinations that evidence names as attackers, judged by the flows that \
    others began with them.\n\n\
    | input | destination | malicious flows | benign | unlabelled | evidence that names it | by evidence |\n|---|---|---|---|---|---|---|\n";

const READING: &str = "\n## Reading\n\n\
    These are few hosts, and they were labelled by address: one infected host in each of three inputs, two quiet \
    neighbours; in the\nfourth no host is known to be either. They show which mistakes there are, not how often.\n\n\
    **False positives.** None, by evidence or by alert. This page found two kinds, which are fixed. A television set (192.168.1.135)
answers a search for devices (SSDP) from a new port each time to the port that asked: each is a flow to a port without a service
that is not answered, and Slips' rule reports it. A bounded memory of which host asked which, and from which port, recognizes it as an answer; the
source port is not considered, so a scan from port 53 or 1900 is found as before. And nfdump reports the two halves of a conversation as two
flows of one moment, in any order: of formats that have no field for the application, what comes one-way from a port with a service is
taken for an answer to an unknown port, unless it is an attempt of TCP.

**False negatives.** None by evidence; two by alert: 10.0.2.15 is found, and seven of its servers are named, \
    all of them malicious, but\na channel is reported when it is found and not again, and Slips' arithmetic, which is kept, wants fifteen in an hour: nineteen times high\nat full confidence. For hosts that mostly call home look at the evidence, \
    or lower `detection.evidence_detection_threshold`\n(Slips' sensitive preset of 0.08 wants 4.8).\n\n\
    **Slips.** Its counts are of the whole input; where one source began nearly all of it they are that source's. Its model \
    of letters was\noff in these runs, its rule for a port 80 without HTTP reports every flow of an input that has no field for it \
    ([D47](slips-defects.md)).\nNo run of Slips on test5.tabs and nfcapd.sample1 is known.\n";

#[test]
fn the_page_of_labelled_inputs_is_up_to_date() {
    let test = "the_page_of_labelled_inputs_is_up_to_date";
    let Some(flows) = inputs::corpus(test) else { return };
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/labelled-inputs.md");
    let page = page(&flows);
    if std::env::var_os("UPDATE").is_some() {
        std::fs::write(&path, &page).unwrap();
    }
    let kept = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(kept == page, "docs/labelled-inputs.md is not up to date: run with UPDATE=1");
}
