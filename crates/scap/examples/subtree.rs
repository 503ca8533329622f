//! Cuts a recording down to one process and its descendants: `subtree IN OUT NAME` keeps the processes that are named NAME
//! when they execute a program, and all that they start.
#![allow(clippy::print_stdout, reason = "its result is for a terminal")]

use gabion_scap::{Event, Item, Merger, Reader, Writer, types};
use std::collections::HashSet;
use std::fs::File;
use std::io::BufWriter;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut args = std::env::args().skip(1);
    let (Some(from), Some(to), Some(name)) = (args.next(), args.next(), args.next()) else {
        return Err("subtree IN OUT NAME".into());
    };
    let number = |event: &Event<'_>, name: &str| {
        event.param_named(name).and_then(|param| param.as_i64()).unwrap_or(-1)
    };
    let mut kept: HashSet<i64> = HashSet::new();
    let mut reader = Reader::new(File::open(&from)?)?;
    let mut merger = Merger::new();
    let mut writer = Writer::new(BufWriter::new(File::create(&to)?));
    let mut written = 0;
    while let Some(item) = reader.next_item()? {
        match item {
            Item::Event(event) => {
                let Some(event) = merger.merge(&event) else { continue };
                let kind = event.kind().number;
                let is_start = matches!(kind, types::EXECVE_19_X | types::EXECVEAT_X);
                let is_root = is_start
                    && event.param_named("comm").and_then(|p| p.as_text()) == Some(name.as_bytes());
                if is_root {
                    kept.insert(event.tid);
                }
                let is_clone = matches!(
                    kind,
                    types::CLONE_20_X | types::CLONE3_X | types::FORK_20_X | types::VFORK_20_X
                );
                let child = number(&event, "res");
                // A child may come before its parent's call returns.
                if is_clone && child == 0 && kept.contains(&number(&event, "ptid")) {
                    kept.insert(event.tid);
                }
                if !kept.contains(&event.tid) {
                    continue;
                }
                if is_clone && child > 0 {
                    kept.insert(child);
                }
                writer.event(&event)?;
                written += 1;
            }
            // Other processes and the users of the host are not what the recording is about.
            Item::Process(_) | Item::Fd(_) | Item::User(_) => {}
            item => writer.write(&item)?,
        }
    }
    writer.finish()?;
    println!("{written} events of {} threads", kept.len());
    Ok(())
}
