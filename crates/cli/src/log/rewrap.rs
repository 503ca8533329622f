//! `gabion log rewrap`: adds and removes readers.

use super::options::Rewrap;
use super::times::now_ns;
use super::{Ended, LogFault, folders, init};
use crate::{direct_opener, standard_output};
use gabion_record::hex::{from_hex, to_hex};
use gabion_record::json::Json;
use gabion_seal::files::segments;
use gabion_seal::store_recipients;

pub(super) fn run(options: &Rewrap) -> Ended {
    if options.add.is_empty() && options.remove.is_empty() {
        return Err(LogFault::usage(
            "name a public key with --add, or a reader's id with --remove",
        ));
    }
    let keys = folders::secret_keys(&options.keys)?;
    let add = folders::recipients(&options.add)?;
    let mut remove = Vec::new();
    for id in &options.remove {
        let id = from_hex(id.as_bytes()).and_then(|i| <[u8; 8]>::try_from(i).ok());
        remove.push(id.ok_or_else(|| LogFault::usage("--remove: give a reader's 16 hex digits"))?);
    }
    let state = folders::state_of(&options.folder.log, options.folder.state.as_deref());
    let mut readers = folders::stored_recipients(&state)?;
    readers.retain(|r| !remove.contains(&r.id()));
    readers.extend(add.iter().filter(|a| !readers.contains(a)).cloned().collect::<Vec<_>>());
    if readers.is_empty() {
        return Err(LogFault::usage("at least one reader must remain"));
    }
    let (mut writer, _) = folders::writer(&options.folder, None)?;
    let mut done = 0;
    if !options.future_only {
        let all: Vec<u64> = segments(writer.log())?.into_iter().map(|s| s.first_chunk).collect();
        done = all.len();
        writer.rewrap(&all, &keys, &add, &remove, now_ns())?;
    }
    writer.close(now_ns())?;
    store_recipients(&direct_opener(), &state, &readers).map_err(init::fault)?;
    if options.output.json {
        let mut json = Json::new();
        json.open();
        json.number("segments", done);
        json.open_array_key("readers");
        readers.iter().for_each(|r| json.item(to_hex(&r.id())));
        json.close_array();
        json.close();
        standard_output::line(String::from_utf8_lossy(json.bytes()));
    } else {
        standard_output::line(format_args!("{done} segments rewrapped; readers from now on:"));
        readers.iter().for_each(|r| standard_output::line(format_args!("  {}", to_hex(&r.id()))));
        if !remove.is_empty() {
            eprintln!("gabion: what a removed reader has read, or copied, is not taken back");
        }
    }
    Ok(0)
}
