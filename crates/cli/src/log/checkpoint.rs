//! `gabion log checkpoint`: the newest signed checkpoint, for mail, a second host or a witness.

use super::options::CheckpointOptions;
use super::{Ended, LogFault, folders, push_fault};
use crate::exit::about;
use crate::{direct_opener, standard_output};
use gabion_intake::{LOOK_EVERY, Pusher};
use gabion_outputs::table::thousands;
use gabion_record::base64::to_base64;
use gabion_record::json::Json;
use gabion_seal::checkpoints;
use gabion_seal::proof::{consistency_proof, leaves, root};
use gabion_seal::verify::Verdict;

pub(super) fn run(options: &CheckpointOptions) -> Ended {
    folders::pinned(&options.log, options.vkey.as_deref())?;
    if !options.push.settings().is_empty() {
        return carry(options);
    }
    if options.follow {
        return Err(LogFault::usage(
            "--follow: name a destination with --witness, --anchor-append or --anchor-cmd",
        ));
    }
    let log = folders::open(&options.log)?;
    let tail = checkpoints::tail(&log)?;
    let last = tail
        .and_then(|t| t.last)
        .ok_or_else(|| LogFault::input(format!("{}: no checkpoint", options.log.display())))?;
    let proof = match options.since {
        None => None,
        Some(since) if since > last.checkpoint.size => {
            return Err(LogFault::input(format!(
                "--since {since}: the log has {} chunks",
                last.checkpoint.size
            )));
        }
        Some(since) => {
            let all = leaves(&log, last.checkpoint.size)?;
            if root(&all) != last.checkpoint.root {
                let text =
                    format!("{}: differs from its checkpoint: verify it", options.log.display());
                return Err(LogFault::verdict(Verdict::Tampered, text));
            }
            consistency_proof(&all, usize::try_from(since).unwrap_or(usize::MAX))
        }
    };
    if options.output.json {
        let mut json = Json::new();
        json.open();
        json.field("origin", &last.checkpoint.origin);
        json.number("size", last.checkpoint.size);
        json.field("root", to_base64(&last.checkpoint.root));
        json.field("note", last.note.to_string());
        if let (Some(since), Some(proof)) = (options.since, &proof) {
            json.number("since", since);
            json.open_array_key("consistency");
            proof.iter().for_each(|h| json.item(to_base64(h)));
            json.close_array();
        }
        json.close();
        standard_output::line(String::from_utf8_lossy(json.bytes()));
        return Ok(0);
    }
    // The form that a witness takes (C2SP tlog-witness): old size, hashes, empty line, checkpoint.
    if let (Some(since), Some(proof)) = (options.since, &proof) {
        standard_output::line(format_args!("old {since}"));
        proof.iter().for_each(|h| standard_output::line(to_base64(h)));
        standard_output::line("");
    }
    standard_output::text(last.note);
    Ok(0)
}

/// Carries the newest checkpoint, or each one as it is signed until a signal ends it.
fn carry(options: &CheckpointOptions) -> Ended {
    let signals = gabion_runtime::Signals::install()
        .map_err(|e| LogFault::environment(about("signals", &e)))?;
    let settings = options.push.settings();
    let pusher = Pusher::new(&direct_opener(), &options.log, &settings, signals.stop().clone());
    // What vouches for witnesses is what was given.
    let mut pusher = pusher.map_err(|e| LogFault::input(&e))?;
    let patience = options.follow.then_some(LOOK_EVERY);
    let mut failed = None;
    loop {
        // What is signed before this is carried by this look.
        let is_last = signals.stop().is_set();
        let faults: Vec<LogFault> = pusher.push(patience).iter().map(push_fault).collect();
        if !options.follow {
            if signals.stop().is_set() && !is_last {
                faults.iter().for_each(|f| eprintln!("gabion: {}", f.text()));
                continue;
            }
            let Some(first) = faults.first().cloned() else { break };
            faults.iter().skip(1).for_each(|f| eprintln!("gabion: {}", f.text()));
            return Err(first);
        }
        faults.iter().for_each(|f| eprintln!("gabion: {}", f.text()));
        // What could not be carried at last is the answer; until then it is tried again.
        failed = match faults.into_iter().next() {
            Some(fault) => Some(fault),
            None => failed.filter(|_| !pusher.is_done()),
        };
        let next = gabion_runtime::clock::now() + LOOK_EVERY;
        while gabion_runtime::clock::now() < next && !signals.stop().is_set() {
            std::thread::sleep(LOOK_EVERY / 20);
        }
        if is_last {
            break;
        }
    }
    let log = folders::open(&options.log)?;
    let size = checkpoints::tail(&log)?.and_then(|t| t.last).map_or(0, |e| e.checkpoint.size);
    let places = settings.places();
    if options.output.json {
        let mut json = Json::new();
        json.open();
        json.number("size", size);
        json.number("places", places);
        json.boolean("carried", pusher.is_done());
        json.close();
        standard_output::line(String::from_utf8_lossy(json.bytes()));
    } else {
        let how = if failed.is_none() { "carried to" } else { "NOT carried to all of" };
        standard_output::line(format_args!("{} chunks, {how} {places} places", thousands(size)));
    }
    // The error was printed when it failed.
    Ok(failed.map_or(0, |fault| fault.exit))
}
