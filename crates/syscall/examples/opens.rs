//! Prints which process opened which file in a scap file: `cargo run -p gabion-syscall --example opens -- FILE`.

#![allow(clippy::print_stdout, reason = "the results are printed to a terminal")]

use std::fs::File;

use gabion_record::budget::Budget;
use gabion_record::fields::{Argument, FieldId, Fields, Missing, Scratch, Value, ids};
use gabion_scap::{Item, Merger, Reader};
use gabion_syscall::{Options, State, View};

/// The text of a field, or why there is none.
fn text(view: View<'_>, field: FieldId) -> String {
    match view.field(field, Argument::None, &mut Scratch::new()) {
        Ok(Value::Text(bytes)) => String::from_utf8_lossy(bytes).into_owned(),
        Ok(other) => format!("{other:?}"),
        Err(Missing::NotApplicable) => "-".to_owned(),
        Err(missing) => format!("({})", missing.name()),
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let path = std::env::args_os().nth(1).ok_or("usage: opens FILE")?;
    let mut reader = Reader::new(File::open(path)?)?;
    let mut merger = Merger::new();
    let mut state = State::new(Options::default(), Budget::standalone("threads", 256 << 20));
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
        let view = state.view(&event);
        if text(view, ids::EVT_TYPE).starts_with("open") && state.is_for_rules() {
            let parent = text(view, ids::PROC_PNAME);
            let result = text(view, ids::EVT_RES);
            println!(
                "{parent} > {}: {} {result}",
                text(view, ids::PROC_NAME),
                text(view, ids::FD_NAME)
            );
        }
    }
    let counts = state.threads().counts;
    println!("{} threads known, {} ended", state.threads().len(), counts.ended);
    Ok(())
}
