//! Counts the events of a scap file for which a condition holds, as `gabion events` finds them without the program around
//! it: `cargo run --release -p gabion-syscall --example filter -- FILE CONDITION`. With the names of rule files instead
//! of a condition it counts the alerts of all their rules. Profilers read the whole path of an event here.

#![allow(clippy::print_stdout, reason = "the results are printed to a terminal")]

use std::fs::File;

use gabion_condition::compile::Filter;
use gabion_condition::rules::{Loader, Matching, RuleMatcher, Settings};
use gabion_record::budget::Budget;
use gabion_scap::{Item, Merger, Reader};
use gabion_syscall::{Options, State};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut args = std::env::args().skip(1);
    let usage = "usage: filter FILE CONDITION | filter FILE RULES.yaml…";
    let path = args.next().ok_or(usage)?;
    let asked: Vec<String> = args.collect();
    let mut filter = None;
    let mut loader = Loader::new(Settings::default());
    match asked.as_slice() {
        [] => return Err(usage.into()),
        files if files.iter().all(|file| file.ends_with(".yaml")) => {
            for file in files {
                println!("{}", loader.load(file, &std::fs::read_to_string(file)?).text(false));
            }
        }
        words => filter = Some(Filter::new(&words.join(" "))?),
    }
    let rules = loader.into_rules();
    let (mut matcher, mut matched) = (RuleMatcher::new(&rules), Vec::new());
    let mut reader = Reader::new(File::open(path)?)?;
    let mut merger = Merger::new();
    let mut state = State::new(Options::default(), Budget::standalone("threads", 256 << 20));
    let (mut events, mut found) = (0_u64, 0);
    while let Some(item) = reader.next_item()? {
        let event = match item {
            Item::Event(event) => merger.merge(&event),
            item => {
                state.add(item);
                None
            }
        };
        let Some(event) = event else { continue };
        state.apply(&event);
        events += 1;
        let view = state.view(&event);
        match &mut filter {
            Some(filter) => found += usize::from(filter.matches(&view)),
            None => {
                matcher.matches(&rules, &view, Matching::All, &mut matched);
                found += matched.len();
            }
        }
    }
    println!("{events} events, {found} matches");
    Ok(())
}
