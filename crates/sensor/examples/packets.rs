//! Reads the demo capture with the demo rules and prints how often each rule alerted.
//!
//!     cargo run -p gabion-sensor --example packets

use gabion_outputs::Outputs;
use gabion_runtime::files::direct_opener;
use gabion_runtime::{StopFlag, memory};
use gabion_sensor::packets::{Input, InputOpener, PacketRun, RunningEngine, Unwatched};
use gabion_settings::{
    Demands, EngineMode, WorkerPlan, build_engine, built_in_configuration, compile_rules,
    read_rule_file, script_setup,
};
use std::error::Error;
use std::io::Write;
use std::path::Path;
use std::sync::Arc;

pub(crate) fn main() -> Result<(), Box<dyn Error>> {
    let alerts = alerts_of_demo(2)?;
    let mut out = std::io::stdout();
    for (sid, message, count) in alerts {
        writeln!(out, "{sid}\t{count}\t{message}")?;
    }
    Ok(())
}

/// A rule that alerted: its id, its message, how often.
pub(crate) type RuleAlerts = (u32, String, u64);

/// Rules that alert with this many workers.
pub(crate) fn alerts_of_demo(workers: usize) -> Result<Vec<RuleAlerts>, Box<dyn Error>> {
    let demo = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../demo");
    // Settings: the configuration, and rules compiled with it.
    let config = built_in_configuration();
    let catalog = gabion_proto::registry::catalog();
    let scripts = script_setup(&config, gabion_net::script::Voice::default());
    let files = vec![read_rule_file(&demo.join("gabion.rules"), false)?];
    let compiled = compile_rules(&config, files, &catalog, Demands::default(), &scripts);
    // Outputs that only count, and an engine that makes what they want.
    let mut outputs = Outputs::counting(&config);
    let counts = compiled.set.counts;
    let (rules, wants) = ((Some((compiled.set, compiled.datasets)), None), outputs.wants());
    let engine = build_engine(&config, rules, catalog, wants, EngineMode::default(), scripts)?;
    let engine = RunningEngine::new(engine, counts);
    // The run, over files that this process opens.
    let opener = InputOpener::new(direct_opener());
    let (budget, stop) = (memory::process_budget(None), StopFlag::new());
    let mut run = PacketRun::new(&engine, &budget, &stop, Arc::new(opener));
    let workers = if PacketRun::needs_one_worker(&engine.now()).is_some() { 1 } else { workers };
    run.plan = WorkerPlan::for_workers(workers);
    let captures = Input::list(&[demo.join("demo.pcap")])?;
    let done = run.read_inputs(&captures, &mut outputs, &mut Unwatched)?;
    done.check_balance()?;
    let tally = outputs.tally();
    let mut all: Vec<_> =
        tally.alerts.iter().map(|a| (a.sid, a.msg.to_string(), a.count)).collect();
    all.sort();
    Ok(all)
}
