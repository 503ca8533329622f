//! `gabion log stat`: how large a log is and who can read it.

use super::options::Stat;
use super::{Ended, LogFault, folders};
use crate::exit::about;
use crate::standard_output;
use gabion_intake::{LiveCounts, LiveCountsError};
use gabion_logs::view::rfc3339;
use gabion_outputs::table::thousands;
use gabion_record::hex::to_hex;
use gabion_record::json::Json;
use gabion_seal::files::{IDENTITY_FILE, Item, Walk, held, segment_file_name, segments};
use gabion_seal::limits::KEYS_FILE_MAX;
use gabion_seal::storage::Storage;
use gabion_seal::{Stanza, checkpoints};
use std::collections::BTreeMap;

/// What the heads of a log add up to.
#[derive(Default)]
struct Sums {
    chunks: u64,
    records: u64,
    plain: u64,
    stored: u64,
    marks: u64,
}

pub(super) fn run(options: &Stat) -> Ended {
    if let Some(address) = options.socket {
        let counts = LiveCounts::ask(address).map_err(|e| match e {
            LiveCountsError::NoAnswer { .. } => LogFault::environment(&e),
            e => LogFault::input(&e),
        })?;
        if options.output.json {
            standard_output::line(String::from_utf8_lossy(&counts.json()))
        } else {
            standard_output::text(counts.text())
        }
        return Ok(0);
    }
    let Some(path) = &options.log else {
        return Err(LogFault::usage("name a log's folder, or a running listener with --socket"));
    };
    let log = folders::open(path)?;
    folders::pinned(path, options.vkey.as_deref())?;
    if !path.join(IDENTITY_FILE).exists() {
        return Err(LogFault::input("no log here: log.id is missing: name the folder of a log, or make one with `gabion log init`").about(path));
    }
    let identity = folders::identity_of(path)?;
    let last = checkpoints::tail(&log)?;
    let all = segments(&log)?;
    let held = held(&log)?;
    let mut sums = Sums::default();
    let mut readers: BTreeMap<String, u64> = BTreeMap::new();
    for segment in &all {
        let name = segment_file_name(segment.first_chunk, "gsl");
        sums.stored += segment.bytes;
        let mut walk = Walk::new(&log, &name)?;
        while let Some((_, item)) = walk.step()? {
            match item {
                Item::Chunk(chunk) => {
                    sums.chunks += 1;
                    sums.records += u64::from(chunk.records);
                    sums.plain += u64::from(chunk.plain_len);
                }
                Item::Mark(_) => sums.marks += 1,
                Item::Index(_) | Item::Damage(_) => {}
            }
        }
        let keys = log.read_file(&segment_file_name(segment.first_chunk, "keys"), KEYS_FILE_MAX);
        let keys = keys.map_err(|e| LogFault::environment(about(name, &e)))?;
        let stanzas = keys.and_then(|k| Stanza::parse_all(&k).ok()).unwrap_or_default();
        for stanza in stanzas.iter().filter(|s| s.class == 0) {
            *readers.entry(to_hex(&stanza.id)).or_default() += 1;
        }
    }
    let signed = last.as_ref().and_then(|t| t.last.as_ref());
    let notes = last.as_ref().map_or(0, |t| t.count);
    if options.output.json {
        let mut json = Json::new();
        json.open();
        json.field("origin", &identity.origin);
        json.field("vkey", identity.vkey.to_string());
        json.field("created", rfc3339(identity.created_ns));
        json.number("segments", all.len());
        json.number("chunks", sums.chunks);
        json.number("records", sums.records);
        json.number("plain_bytes", sums.plain);
        json.number("stored_bytes", sums.stored);
        json.number("commits", sums.marks);
        json.number("checkpoints", notes);
        json.number("signed_size", signed.map_or(0, |e| e.checkpoint.size));
        json.open_array_key("readers");
        for (id, segments) in &readers {
            json.open();
            json.field("id", id);
            json.number("segments", *segments);
            json.close();
        }
        json.close_array();
        json.open_array_key("held");
        held.iter().for_each(|h| json.item_number(*h));
        json.close_array();
        json.close();
        standard_output::line(String::from_utf8_lossy(json.bytes()));
        return Ok(0);
    }
    standard_output::line(format_args!(
        "{} since {}",
        identity.origin,
        rfc3339(identity.created_ns)
    ));
    standard_output::line(format_args!(
        "{} records in {} chunks and {} segments, {} commits",
        thousands(sums.records),
        thousands(sums.chunks),
        thousands(all.len() as u64),
        thousands(sums.marks)
    ));
    standard_output::line(format_args!(
        "{} bytes stored, {} before compression",
        thousands(sums.stored),
        thousands(sums.plain)
    ));
    standard_output::line(format_args!(
        "{notes} checkpoints, the last of {} chunks",
        thousands(signed.map_or(0, |e| e.checkpoint.size))
    ));
    for (id, segments) in &readers {
        standard_output::line(format_args!("reader {id}: {} segments", thousands(*segments)));
    }
    for segment in &all {
        let held = if held.contains(&segment.first_chunk) { ", on hold" } else { "" };
        standard_output::line(format_args!(
            "segment {}: from record {}, {} bytes, begun {}{held}",
            segment.first_chunk,
            segment.first_record,
            thousands(segment.bytes),
            rfc3339(segment.created_ns)
        ));
    }
    Ok(0)
}
