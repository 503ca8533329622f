//! `gabion log checkpoint`: the newest signed checkpoint, for mail, a second host or a witness.

use super::options::CheckpointOptions;
use super::{Ended, LogFault, folders};
use gabion_record::json::Json;
use gabion_seal::checkpoints;
use gabion_seal::leaves::leaves;
use gabion_seal::text::base64;
use gabion_seal::tree::{consistency_proof, root};

pub(super) fn run(options: &CheckpointOptions) -> Ended {
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
                return Err(LogFault { code: 20, text });
            }
            consistency_proof(&all, usize::try_from(since).unwrap_or(usize::MAX))
        }
    };
    if options.json {
        let mut json = Json::new();
        json.open();
        json.field("origin", &last.checkpoint.origin);
        json.number("size", last.checkpoint.size);
        json.field("root", base64(&last.checkpoint.root));
        json.field("note", last.note.to_string());
        if let (Some(since), Some(proof)) = (options.since, &proof) {
            json.number("since", since);
            json.open_array_key("consistency");
            proof.iter().for_each(|h| json.item(base64(h)));
            json.close_array();
        }
        json.close();
        println!("{}", String::from_utf8_lossy(json.bytes()));
        return Ok(0);
    }
    // The form that a witness takes (C2SP tlog-witness): old size, hashes, empty line, checkpoint.
    if let (Some(since), Some(proof)) = (options.since, &proof) {
        println!("old {since}");
        proof.iter().for_each(|h| println!("{}", base64(h)));
        println!();
    }
    print!("{}", last.note);
    Ok(0)
}
