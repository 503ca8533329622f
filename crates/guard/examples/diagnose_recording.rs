//! Prints the line of diagnosis of each incident in a recording.

use gabion_guard::recording::Reader;
use gabion_guard::{Settings, diagnose};
use std::io::Write;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut reader = Reader::new();
    for path in std::env::args().skip(1) {
        reader.feed(&std::fs::read(path)?)?;
        reader.end_file()?;
    }
    let found = diagnose(&reader.finish()?, Settings::watch());
    let mut out = std::io::stdout().lock();
    for incident in &found.incidents {
        let moment = format!("{:.3} s", incident.began_ms as f64 / 1000.0);
        writeln!(out, "{}", incident.line(&moment, None, 30))?;
    }
    if found.incidents.is_empty() {
        writeln!(out, "no incident in {} periods of 8 ms", found.periods)?;
    }
    Ok(())
}
