//! Prints what hosts did in logs of flows: `evidence conn.log dns.log eve.json`.

#![allow(clippy::print_stdout, reason = "its results are for a terminal")]

use gabion_behavior::{Engine, Output, Settings};
use gabion_flowlog::{Feed, Options};
use gabion_record::files::FileOpener;
use std::fs::File;
use std::ops::ControlFlow;
use std::path::PathBuf;

/// Bytes for profiles.
const BUDGET: usize = 256 << 20;

fn main() {
    let paths: Vec<PathBuf> = std::env::args_os().skip(1).map(PathBuf::from).collect();
    let files = FileOpener::new(|path, _| File::open(path));
    let mut feed = Feed::survey(&files, &paths, Options::default());
    let mut engine = Engine::with_budget(Settings::default(), feed.start(), BUDGET);
    let mut print = |output: Output<'_>| match output {
        // Occurrences add up to alerts; what is reported of them comes as reports.
        Output::Evidence(..) => {}
        Output::Report(e, _) => {
            println!("{} {} {} {}", e.ts.seconds(), e.profile, e.kind.name, e.description());
        }
        Output::Alert(alert) => println!("alert: {} in window {}", alert.profile, alert.window),
    };
    feed.run(&mut |records| {
        for record in records {
            engine.record(record, &mut print);
        }
        ControlFlow::Continue(())
    });
    engine.finish(&mut print);
    for report in feed.reports() {
        if let Some(error) = &report.error {
            eprintln!("{}: {error}", report.path.display());
        }
    }
    let counts = engine.counts();
    eprintln!("{} records, {} findings, {} alerts", counts.records, counts.findings, counts.alerts);
}
