//! RITA's own test data, `missing_host`: a beacon of three days, with the numbers that RITA's tests have.

mod inputs;

use gabion_behavior::limits::BUDGET;
use gabion_behavior::{Engine, Output, Settings};
use gabion_record::{Ip, Net};
use std::ops::ControlFlow;

/// 331 connections of the last day with a beacon score of 0.963, which the only inside host (−0.15) has had
/// for less than a week (+0.15), asked without a `Host` (+0.10). Two of its connections, still open, last
/// longer than a day: high (0.8) when they are first seen, before any request. RITA's own score of the pair
/// at the end, 0.8 with these three, is a test of `rita.rs`.
#[test]
fn the_beacon_of_missing_host_scores_as_in_rita() {
    let test = "the_beacon_of_missing_host_scores_as_in_rita";
    let Some(flows) = inputs::corpus(test) else { return };
    let paths = inputs::files(&flows.join("rita/missing_host"));
    let mut feed = inputs::feed(&paths);
    let inside = Net::parse(b"64.225.56.201/32").unwrap();
    let settings = Settings { client_ips: vec![inside], ..Settings::default() };
    let mut engine = Engine::with_budget(settings, feed.start(), BUDGET);
    let who = Ip::parse(b"73.54.23.243").unwrap();
    let mut said: Vec<(&str, String)> = Vec::new();
    let mut keep = |finding: Output<'_>| {
        if let Output::Evidence(e, _) | Output::Report(e, _) = finding
            && e.profile == who
            && e.description().contains("64.225.56.201")
        {
            said.push((e.kind.name, e.description()));
        }
    };
    feed.run(&mut |records| {
        engine.records(records, &mut keep);
        ControlFlow::Continue(())
    });
    engine.finish(&mut keep);
    let last = |kind: &str| {
        said.iter().rev().find(|s| s.0 == kind).map(|s| s.1.clone()).unwrap_or_default()
    };
    let beacon = last("BEACON");
    assert!(beacon.contains("331 connections. Score: 0.963 "), "{beacon}");
    assert!(beacon.contains("intervals 0.852, sizes 1.000"), "{beacon}");
    // 0.963 is at 0.726 between its thresholds.
    assert!(beacon.contains("Threat 0.826 (0.726, 1 of 1 hosts -0.15"), "{beacon}");
    let long = last("LONG_TOTAL_CONNECTION");
    assert!(long.contains("Threat 0.800 (0.800, 1 of 1 hosts -0.15, first seen"), "{long}");
}
