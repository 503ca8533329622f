//! Counts the calls of scap files by name: `cargo run -p gabion-scap --example calls -- FILE…`.
#![allow(clippy::print_stdout, reason = "the results are printed to a terminal")]

use std::collections::BTreeMap;
use std::error::Error;
use std::fs::File;

use gabion_scap::{Item, Merger, Reader};

fn main() -> Result<(), Box<dyn Error>> {
    for path in std::env::args().skip(1) {
        let mut reader = Reader::new(File::open(&path)?)?;
        let mut merger = Merger::new();
        let mut calls: BTreeMap<&str, u64> = BTreeMap::new();
        let mut processes = 0;
        while let Some(item) = reader.next_item()? {
            match item {
                Item::Process(_) => processes += 1,
                Item::Event(event) => {
                    if let Some(event) = merger.merge(&event) {
                        *calls.entry(event.kind().name).or_default() += 1;
                    }
                }
                _ => {}
            }
        }
        merger.finish();
        println!("{path}: {processes} processes");
        for (name, count) in calls {
            println!("{count:9} {name}");
        }
        let counts = merger.counts();
        println!("raw events: {}, merged: {}", counts.ledger, counts.merged);
        for note in reader.counts().notes.first() {
            println!("at byte {}: {}", note.offset, note.what);
        }
    }
    Ok(())
}
