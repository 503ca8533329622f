//! The example runs: it prints every frame of a capture, and the account of the file.

use gabion_corpus::examples;

#[test]
fn every_frame_of_the_demo_is_printed_and_accounted_for() {
    let Some(printed) = examples::run("frames", &[examples::demo("demo.pcap")]) else { return };
    assert_eq!(printed.out.lines().count(), 1264);
    assert!(printed.out.lines().all(|line| line.contains(" link 1 ")), "Ethernet");
    assert!(printed.err.contains("1264 frames") && printed.err.contains("shed 0"), "{printed:?}");
}
