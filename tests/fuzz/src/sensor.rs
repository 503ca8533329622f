//! Whole runs with their threads: any bytes as a capture, and as a log of flows. One worker and three find the same, and all
//! that was read is accounted for.

use crate::flowlog::NAMES;
use crate::seeds::{Seeds, repository};
use gabion_behavior::Settings;
use gabion_outputs::Outputs;
use gabion_record::Tree;
use gabion_runtime::{StopFlag, memory};
use gabion_sensor::Notices;
use gabion_sensor::flows::{FlowInputs, FlowRun, ListFiles, Lists, Sink};
use gabion_sensor::packets::{Input, InputOpener, PacketRun, RunningEngine, Unwatched};
use gabion_settings::{
    Demands, EngineMode, WorkerPlan, build_engine, built_in_configuration, compile_rules,
    read_rule_file, script_setup,
};
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use tempfile::TempDir;

/// Bytes that findings about hosts may take.
const BUDGET: usize = 64 << 20;

/// Folder of the inputs.
static FOLDER: OnceLock<TempDir> = OnceLock::new();

/// A file with these bytes.
fn written(name: &str, bytes: &[u8]) -> PathBuf {
    let folder = FOLDER.get_or_init(|| tempfile::tempdir().expect("a temporary folder"));
    let path = folder.path().join(name);
    std::fs::write(&path, bytes).expect("the temporary folder can be written");
    path
}

/// What a run found: alerts by rule, records by type.
#[derive(Debug, PartialEq, Eq)]
struct Findings {
    alerts: Vec<(u32, u64)>,
    records: Vec<(String, u64)>,
}

fn opener() -> Arc<InputOpener> {
    Arc::new(InputOpener::new(gabion_runtime::files::direct_opener()))
}

/// Runs over a capture; none if it can't be read.
fn findings(config: &Tree, capture: &Path, workers: usize) -> Option<Findings> {
    let catalog = gabion_proto::registry::catalog();
    let scripts = script_setup(config, gabion_net::script::Voice::default());
    let rules = repository().join("demo/gabion.rules");
    let files = vec![read_rule_file(&rules, false).expect("the demonstration's rules")];
    let compiled = compile_rules(config, files, &catalog, Demands::default(), &scripts);
    let mut outputs = Outputs::counting(config);
    let counts = compiled.set.counts;
    let (rules, wants) = ((Some((compiled.set, compiled.datasets)), None), outputs.wants());
    let engine = build_engine(config, rules, catalog, wants, EngineMode::default(), scripts);
    let engine = RunningEngine::new(engine.expect("the built-in configuration"), counts);
    let (budget, stop) = (memory::process_budget(None), StopFlag::new());
    let mut run = PacketRun::new(&engine, &budget, &stop, opener());
    run.plan = WorkerPlan::for_workers(workers);
    let inputs = Input::list(&[capture.to_owned()]).ok()?;
    let done = run.read_inputs(&inputs, &mut outputs, &mut Unwatched).ok()?;
    done.check_balance().expect("the ledger balances");
    let tally = outputs.tally();
    let mut found = Findings {
        alerts: tally.alerts.iter().map(|a| (a.sid, a.count)).collect(),
        records: tally.records.clone(),
    };
    found.alerts.sort_unstable();
    found.records.sort_unstable();
    Some(found)
}

/// Reads any bytes as a capture.
pub fn packets(data: &[u8]) {
    // Packed data may expand to 1,000 times its size, which would only test the decompressor.
    if data.starts_with(&[0x1f, 0x8b]) || data.starts_with(&[0x28, 0xb5, 0x2f, 0xfd]) {
        return;
    }
    let capture = written("input.pcap", data);
    let config = built_in_configuration();
    let (one, three) = (findings(&config, &capture, 1), findings(&config, &capture, 3));
    assert_eq!(one, three, "workers agree");
}

/// Evidence in a log by type.
fn evidence(log: &Path, workers: usize) -> Option<Vec<(String, u64)>> {
    let paths = FlowInputs::list_logs(&[log.to_owned()]).ok()?;
    let run = FlowRun {
        inputs: FlowInputs::Files { paths, opener: opener() },
        format: None,
        settings: Settings::default(),
        lists: Lists::watch(ListFiles::default(), None, Notices::default()),
        stop: StopFlag::new(),
        workers,
        budget: BUDGET,
        earlier: None,
        notices: Notices::default(),
        news: Notices::default(),
    };
    let mut sink = Sink::default();
    run.read_logs(&mut sink).ok()?.ran.sources.balance().expect("lines balance");
    let found = sink.finish().found;
    Some(found.evidence.each().map(|(kind, _, count)| (kind.to_owned(), count)).collect())
}

/// Reads any bytes as a log of flows of any name.
pub fn flows(data: &[u8]) {
    let [name, text @ ..] = data else { return };
    let name = NAMES.get(usize::from(*name) % NAMES.len()).copied().unwrap_or("x");
    let log = written(name, text);
    assert_eq!(evidence(&log, 1), evidence(&log, 3), "workers agree");
}

/// Logs of flows.
pub fn flow_seeds(seeds: &Seeds) -> Vec<Vec<u8>> {
    crate::flowlog::line_seeds(seeds)
}
