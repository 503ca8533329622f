//! `gabion log anchor add`: keeps a checkpoint in a file of them.

use super::options::Anchor;
use super::{Ended, LogFault, folders, verify};
use crate::exit::about;
use crate::{direct_opener, standard_output};
use gabion_outputs::table::thousands;
use gabion_record::json::Json;
use gabion_runtime::output::append_synced;
use gabion_seal::checkpoints;
use gabion_seal::checkpoints::{Checkpoint, Note};
use gabion_seal::verify::Verdict;

pub(super) fn run(options: &Anchor) -> Ended {
    let (note, checkpoint) =
        if options.note.is_dir() { of_log(options)? } else { of_file(options)? };
    let kept = if options.anchors.exists() {
        verify::anchors(std::slice::from_ref(&options.anchors))?
    } else {
        Vec::new()
    };
    let mut is_new = true;
    for anchor in kept.iter().filter(|a| a.checkpoint.origin == checkpoint.origin) {
        if anchor.checkpoint.size == checkpoint.size {
            if anchor.checkpoint.root != checkpoint.root {
                standard_output::line(format_args!("{}\n{note}", anchor.note));
                let text = format!(
                    "FORK: two signed roots for {} chunks of {}",
                    checkpoint.size, checkpoint.origin
                );
                return Err(LogFault::verdict(Verdict::Fork, text));
            }
            is_new = false;
        }
    }
    if is_new {
        let failed =
            |e: std::io::Error| LogFault::environment(about(options.anchors.display(), &e));
        let bytes = checkpoints::frame(&note.to_string());
        append_synced(&direct_opener(), &options.anchors, &bytes).map_err(failed)?;
    }
    if options.output.json {
        let mut json = Json::new();
        json.open();
        json.field("origin", &checkpoint.origin);
        json.number("size", checkpoint.size);
        json.boolean("added", is_new);
        json.close();
        standard_output::line(String::from_utf8_lossy(json.bytes()));
    } else {
        standard_output::line(format_args!(
            "{} {} chunks{}",
            checkpoint.origin,
            thousands(checkpoint.size),
            if is_new { "" } else { ", kept already" }
        ));
    }
    Ok(0)
}

/// The newest checkpoint of a log, whose first key must be the pinned one.
fn of_log(options: &Anchor) -> Result<(Note, Checkpoint), LogFault> {
    let log = folders::open(&options.note)?;
    folders::pinned(&options.note, options.vkey.as_deref())?;
    let last = checkpoints::tail(&log)?.and_then(|t| t.last);
    let last =
        last.ok_or_else(|| LogFault::input(format!("{}: no checkpoint", options.note.display())))?;
    Ok((last.note, last.checkpoint))
}

fn of_file(options: &Anchor) -> Result<(Note, Checkpoint), LogFault> {
    if options.vkey.is_some() {
        let note = options.note.display();
        return Err(LogFault::usage(format!(
            "--vkey: {note} is not the folder of a log, so its first key is unknown: name the folder, or leave --vkey out"
        )));
    }
    let read = verify::anchors(std::slice::from_ref(&options.note))?;
    let newest = read.into_iter().max_by_key(|a| a.checkpoint.size);
    let newest = newest
        .ok_or_else(|| LogFault::input(format!("{}: no checkpoint", options.note.display())))?;
    Ok((newest.note, newest.checkpoint))
}
