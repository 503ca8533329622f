//! `gabion log prune`: removes segments older than what is to be kept.

use super::options::Prune;
use super::times::now_ns;
use super::{Ended, folders};
use crate::standard_output;
use gabion_record::json::Json;
use gabion_seal::files::{held, segments};

pub(super) fn run(options: &Prune) -> Ended {
    let oldest = now_ns().saturating_sub(options.keep);
    let log = folders::open(&options.folder.log)?;
    folders::identity_of(&options.folder.log)?;
    // Whether it is the signer's must not depend on whether there is something to remove.
    if options.folder.state.is_some() {
        folders::check_writable(&options.folder.log, options.folder.state.as_deref())?;
    }
    let held = held(&log)?;
    let due: Vec<u64> = segments(&log)?
        .into_iter()
        .filter(|s| s.ended_ns.is_some_and(|e| e < oldest))
        .map(|s| s.first_chunk)
        .collect();
    let (kept, pruned): (Vec<u64>, Vec<u64>) = due.into_iter().partition(|s| held.contains(s));
    if !options.dry_run && !pruned.is_empty() {
        let (mut writer, _) = folders::writer(&options.folder, None)?;
        writer.prune(&pruned, now_ns())?;
        writer.close(now_ns())?;
    }
    if options.output.json {
        let mut json = Json::new();
        json.open();
        json.boolean("dry_run", options.dry_run);
        json.open_array_key("pruned");
        pruned.iter().for_each(|s| json.item_number(*s));
        json.close_array();
        json.open_array_key("held");
        kept.iter().for_each(|s| json.item_number(*s));
        json.close_array();
        json.close();
        standard_output::line(String::from_utf8_lossy(json.bytes()));
    } else {
        let what = if options.dry_run { "would be pruned" } else { "pruned" };
        standard_output::line(format_args!(
            "{} segments {what}, {} kept on hold",
            pruned.len(),
            kept.len()
        ));
    }
    Ok(0)
}
