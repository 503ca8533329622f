//! `gabion log recover`: opens the log as a writer does.
//!
//! The end that a crash left is repaired, and the log records it. Any other damage is refused; with
//! `--accept-loss` the old log and its signer's state are put aside whole, as evidence, and a new log
//! begins whose first statement names the old one and its last checkpoint.

use super::options::Recover;
use super::times::now_ns;
use super::{Ended, LogFault, folders, init};
use crate::exit::about;
use crate::{direct_opener, standard_output};
use gabion_record::base64::to_base64;
use gabion_record::json::Json;
use gabion_seal::statement;
use gabion_seal::storage::{Files, Storage};
use gabion_seal::store_recipients;
use gabion_seal::{Error, Init, checkpoints};
use std::path::{Path, PathBuf};

pub(super) fn run(options: &Recover) -> Ended {
    let log = &options.folder.log;
    // A folder that others can write to may hold links or devices in place of files.
    folders::open(log)?.list().map_err(|e| LogFault::input(about(log.display(), &e)))?;
    match folders::writer(&options.folder, None) {
        Ok((writer, opened)) => {
            writer.close(now_ns())?;
            if options.output.json {
                let mut json = Json::new();
                json.open();
                json.boolean("torn", opened.was_torn());
                json.number("cut_bytes", opened.cut_bytes);
                json.field("cut_segment", &opened.cut_segment);
                json.number("cut_offset", opened.cut_offset);
                json.number("cut_note_bytes", opened.cut_note_bytes);
                json.number("unsigned_chunks", opened.unsigned_chunks);
                json.boolean("finished_epoch", opened.finished_epoch);
                json.close();
                standard_output::line(String::from_utf8_lossy(json.bytes()));
            } else if opened.was_torn() {
                standard_output::line(format_args!(
                    "recovered: {} bytes cut off {} at byte {}; everything committed is there",
                    opened.cut_bytes + opened.cut_note_bytes,
                    opened.cut_segment,
                    opened.cut_offset
                ));
            } else {
                standard_output::line("nothing to recover");
            }
            Ok(0)
        }
        Err(fault) if options.accept_loss && fault.is_contradiction() => {
            accept_loss(options, &fault)
        }
        Err(fault) => Err(fault),
    }
}

fn accept_loss(options: &Recover, fault: &LogFault) -> Ended {
    let (log, state) = (
        &options.folder.log,
        folders::state_of(&options.folder.log, options.folder.state.as_deref()),
    );
    let recipients = folders::stored_recipients(&state)?;
    let old = folders::identity_of(log)?;
    let last = checkpoints::tail(&folders::open(log)?)?.and_then(|t| t.last);
    let number =
        (1..).find(|n| !aside(log, *n).exists() && !aside(&state, *n).exists()).unwrap_or(1);
    for folder in [log, &state] {
        let moved = std::fs::rename(folder, aside(folder, number));
        moved.map_err(|e| LogFault::environment(about(folder.display(), &e)))?;
    }
    let make = |p: &Path| {
        Files::create_folder(&direct_opener(), p)
            .map_err(|e| LogFault::environment(about(p.display(), &e)))
    };
    let origin = format!("{}/after-loss-{}", old.origin, now_ns() / 1_000_000_000);
    let init = Init {
        origin: origin.clone(),
        checkpoint_chunks: old.checkpoint_chunks,
        checkpoint_seconds: old.checkpoint_seconds,
        now_ns: now_ns(),
    };
    let identity = init.create(&mut make(log)?, make(&state)?)?;
    store_recipients(&direct_opener(), &state, &recipients).map_err(init::fault)?;
    let (mut writer, _) = folders::writer(&options.folder, None)?;
    let recovery = statement("recovery", |json| {
        json.number("bytes", 0u64);
        json.field("accepted_loss", fault.text());
        json.field("old_origin", &old.origin);
        json.field("old_log", aside(log, number).to_string_lossy().as_ref());
        if let Some(last) = &last {
            json.number("old_size", last.checkpoint.size);
            json.field("old_root", to_base64(&last.checkpoint.root));
        }
    });
    writer.state(&[recovery], 0).map_err(|e: Error| LogFault::from(e))?;
    writer.close(now_ns())?;
    standard_output::line(identity.vkey);
    eprintln!(
        "gabion: the damaged log is in {}; a new one begins as {origin}",
        aside(log, number).display()
    );
    Ok(0)
}

fn aside(folder: &Path, number: u32) -> PathBuf {
    let mut name = folder.file_name().unwrap_or_default().to_os_string();
    name.push(format!(".lost-{number}"));
    folder.with_file_name(name)
}
