//! Prints the records of logs of flows in order of time, and what was skipped: `records conn.log dns.log`.

#![allow(clippy::print_stdout, reason = "its results are for a terminal")]

use gabion_flowlog::{Feed, Options};
use gabion_record::files::FileOpener;
use std::fs::File;
use std::ops::ControlFlow;
use std::path::PathBuf;

fn main() {
    let paths: Vec<PathBuf> = std::env::args_os().skip(1).map(PathBuf::from).collect();
    let files = FileOpener::new(|path, _| File::open(path));
    let mut feed = Feed::survey(&files, &paths, Options::default());
    feed.run(&mut |records| {
        for r in records {
            let kind = r.body.kind().name();
            println!(
                "{} {kind} {}:{} -> {}:{}",
                r.ts.seconds(),
                r.src,
                r.src_port,
                r.dst,
                r.dst_port
            );
        }
        ControlFlow::Continue(())
    });
    for report in feed.reports() {
        eprintln!("{}: {}", report.path.display(), report.ledger);
        for (skip, count, lines) in report.skips.iter() {
            eprintln!("  {count} lines skipped: {} (first {lines:?})", skip.description());
        }
        if let Some(error) = &report.error {
            eprintln!("  {error}");
        }
    }
}
