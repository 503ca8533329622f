//! The example runs: it names the incident of a recording.

use gabion_corpus::examples;

#[test]
fn the_incident_of_the_demo_is_diagnosed() {
    let files = [examples::demo("guard/flood.csv.zst"), examples::demo("guard/flood.xdp.csv.zst")];
    let Some(printed) = examples::run("diagnose_recording", &files) else { return };
    assert!(printed.out.contains("flood"), "{printed:?}");
}
