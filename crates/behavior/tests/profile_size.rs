//! How large profiles are: over the corpus' logs of flows and over logs made here, in memory and encoded.
//!
//! What a profile may take is 2 KiB at the median and 16 KiB at the 99th percentile; what is kept of
//! pairs (flows of beacons, letters) has a budget of its own. The distribution is printed, and is in
//! `docs/behavior.md`.
#![allow(clippy::print_stdout, reason = "a test prints what it found")]

mod inputs;

use gabion_behavior::limits::BUDGET;
use gabion_behavior::{Engine, Settings};
use std::ops::ControlFlow;
use std::path::PathBuf;

/// Bytes of profiles at the end of an input: in memory without pairs, of pairs, encoded.
fn sizes(paths: &[PathBuf]) -> [Vec<usize>; 3] {
    let mut feed = inputs::feed(paths);
    let mut engine = Engine::with_budget(Settings::default(), feed.start(), BUDGET);
    feed.run(&mut |records| {
        engine.records(records, &mut |_| {});
        ControlFlow::Continue(())
    });
    let mut sizes = [const { Vec::new() }; 3];
    for profile in engine.profiles() {
        let mut bytes = Vec::new();
        profile.encode(&mut bytes);
        let pairs = profile.pair_bytes();
        for (list, size) in sizes.iter_mut().zip([profile.bytes() - pairs, pairs, bytes.len()]) {
            list.push(size);
        }
    }
    sizes.iter_mut().for_each(|list| list.sort_unstable());
    sizes
}

fn at(sorted: &[usize], share: f64) -> usize {
    let last = sorted.len().saturating_sub(1);
    sorted.get((last as f64 * share).round() as usize).copied().unwrap_or(0)
}

/// Prints a row and holds it against the bounds.
fn hold(name: &str, [own, pairs, encoded]: &[Vec<usize>; 3]) {
    println!(
        "| {name} | {} | {} / {} / {} | {} / {} | {} / {} |",
        own.len(),
        at(own, 0.5),
        at(own, 0.99),
        at(own, 1.0),
        at(pairs, 0.5),
        at(pairs, 0.99),
        at(encoded, 0.5),
        at(encoded, 0.99),
    );
    assert!(!own.is_empty(), "{name}");
    assert!(at(own, 0.5) <= 2 << 10, "{name}: median {}", at(own, 0.5));
    assert!(at(own, 0.99) <= 16 << 10, "{name}: 99th percentile {}", at(own, 0.99));
}

#[test]
fn profiles_of_made_logs_are_small() {
    let folder = tempfile::tempdir().unwrap();
    hold("made", &sizes(&[inputs::usual(folder.path())]));
}

#[test]
fn profiles_of_the_corpus_are_small() {
    let Some(flows) = inputs::corpus("profiles_of_the_corpus_are_small") else { return };
    let mut all = [const { Vec::new() }; 3];
    for name in [
        "slips/test9-mixed-zeek-dir",
        "slips/test14-malicious-zeek-dir",
        "slips/test15-malicious-zeek-dir",
        "slips/test18-malicious-ctu-sme-11-win/zeek-labeled",
        "slips/test4-malicious.binetflow",
        "slips/test5-mixed.binetflow",
        "netflowlabeler/test.binetflow",
        "rita/missing_host",
    ] {
        let sizes = sizes(&inputs::files(&flows.join(name)));
        all.iter_mut().zip(sizes).for_each(|(list, more)| list.extend(more));
    }
    all.iter_mut().for_each(|list| list.sort_unstable());
    hold("the corpus", &all);
}
