//! Reads logs of flows and prints the evidence in them by type; without a file, a log of a port scan:
//! `cargo run -p gabion-sensor --example flows -- conn.log`

use gabion_behavior::Settings;
use gabion_runtime::{StopFlag, files::direct_opener};
use gabion_sensor::flows::{FlowInputs, FlowRun, ListFiles, Lists, Sink};
use gabion_sensor::{Notices, packets::InputOpener};
use std::fmt::Write as _;
use std::io::Write as _;
use std::path::PathBuf;

pub(crate) fn main() -> Result<(), Box<dyn std::error::Error>> {
    let made = std::env::temp_dir().join(format!("gabion-scan-{}.log", std::process::id()));
    let mut logs: Vec<PathBuf> = std::env::args().skip(1).map(PathBuf::from).collect();
    if logs.is_empty() {
        std::fs::write(&made, scan())?;
        logs.push(made);
    }
    for (kind, count) in evidence_of(logs, 2)? {
        writeln!(std::io::stdout(), "{count}\t{kind}")?;
    }
    Ok(())
}

/// A log as Zeek writes it in JSON: one host tries a thousand ports of another.
pub(crate) fn scan() -> String {
    (1..1000).fold(String::new(), |mut log, n| {
        let _ = writeln!(
            log,
            "{{\"ts\":{n}.0,\"uid\":\"C{n}\",\"id.orig_h\":\"10.0.0.1\",\"id.orig_p\":4000,\
             \"id.resp_h\":\"10.0.0.2\",\"id.resp_p\":{n},\"proto\":\"tcp\",\"conn_state\":\"REJ\"}}"
        );
        log
    })
}

/// Evidence in logs by type, found by this many workers.
pub(crate) fn evidence_of(
    logs: Vec<PathBuf>,
    workers: usize,
) -> Result<Vec<(String, u64)>, Box<dyn std::error::Error>> {
    let paths = FlowInputs::list_logs(&logs)?;
    let opener = InputOpener::new(direct_opener()).into();
    let run = FlowRun {
        inputs: FlowInputs::Files { paths, opener },
        format: None,
        settings: Settings::default(),
        lists: Lists::watch(ListFiles::default(), None, Notices::default()),
        stop: StopFlag::new(),
        workers,
        budget: 64 << 20,
        earlier: None,
        notices: Notices::default(),
        news: Notices::default(),
    };
    let mut sink = Sink::default();
    run.read_logs(&mut sink)?.ran.sources.balance()?;
    let evidence = sink.finish().found.evidence;
    Ok(evidence.each().map(|(kind, _, count)| (kind.to_owned(), count)).collect())
}
