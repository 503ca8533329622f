//! Reads arbitrary bytes in two ways that must agree, merges and writes what they hold, and checks what must always
//! hold. It is the entry point of fuzzers and tests, and panics if a check fails; nothing else calls it.

use std::io::Cursor;

use crate::decoder::{Decoder, Item};
use crate::error::Error;
use crate::merger::Merger;
use crate::reader::Reader;
use crate::writer::Writer;

/// Everything that came out, to compare two ways.
#[derive(Debug, PartialEq, Eq)]
struct Reading {
    items: Vec<String>,
    counts: String,
}

fn line(item: &Item<'_>) -> String {
    match item {
        Item::Event(event) => {
            let mut text = Vec::new();
            for place in 0..event.values.len() {
                if let Some(param) = event.param(place) {
                    param.write_text(&mut text);
                    let _ = param.as_i64();
                }
            }
            format!("{event:?} {}", String::from_utf8_lossy(&text))
        }
        item => format!("{item:?}"),
    }
}

/// Reads in pieces whose lengths repeat.
fn read_in_pieces(data: &[u8], lengths: &[usize]) -> Result<Reading, Error> {
    let mut decoder = Decoder::new();
    let (mut at, mut turn) = (0, 0);
    let mut items = Vec::new();
    loop {
        while let Some(item) = decoder.next_item()? {
            items.push(line(&item));
        }
        if at == data.len() {
            break;
        }
        let len = lengths.get(turn % lengths.len().max(1)).copied().unwrap_or(1);
        let end = at.saturating_add(len.max(1)).min(data.len());
        decoder.push(data.get(at..end).unwrap_or_default());
        (at, turn) = (end, turn + 1);
    }
    decoder.finish();
    while let Some(item) = decoder.next_item()? {
        items.push(line(&item));
    }
    let counts = decoder.counts();
    assert_eq!(counts.events.balance(), Ok(()), "invariant: the ledger of events balances");
    assert_eq!(counts.lists.balance(), Ok(()), "invariant: the ledger of lists balances");
    let bytes = counts.events.received().bytes + counts.lists.received().bytes;
    assert_eq!(bytes, data.len() as u64, "invariant: every byte is counted once");
    Ok(Reading { items, counts: format!("{counts:?}") })
}

/// Reads whole and in pieces and checks that both agree. Returns the number of items.
///
/// # Errors
/// Why it is no scap file.
pub(crate) fn read_both_ways(data: &[u8]) -> Result<usize, Error> {
    let whole = read_in_pieces(data, &[data.len()]);
    let split = read_in_pieces(data, &[1, 5, 64, 3]);
    assert_eq!(whole, split, "invariant: splits do not matter");
    whole.map(|reading| reading.items.len())
}

/// Merges the events of a file and writes what is left, twice: the second file is the first one.
///
/// # Errors
/// Why it is no scap file.
pub(crate) fn rewrite_twice(data: &[u8]) -> Result<u64, Error> {
    let (first, count) = rewrite(data)?;
    let (second, again) = rewrite(&first)?;
    assert_eq!(count, again, "invariant: exit events stay as they are");
    assert!(first == second, "invariant: a second rewriting changes nothing");
    Ok(count)
}

fn rewrite(data: &[u8]) -> Result<(Vec<u8>, u64), Error> {
    let mut reader = Reader::new(Cursor::new(data.to_vec()))?;
    let mut merger = Merger::new();
    let mut writer = Writer::new(Vec::new());
    let done = match crate::convert::convert(&mut reader, &mut merger, &mut writer) {
        Ok(done) => done,
        Err(crate::ConvertError::Input(e)) => return Err(e),
        Err(e) => panic!("invariant: memory takes everything: {e}"),
    };
    let ledger = &merger.counts().ledger;
    assert_eq!(ledger.balance(), Ok(()), "invariant: raw = passed + merged + shed");
    assert_eq!(ledger.passed().items - merger.counts().merged, done.events);
    match writer.finish() {
        Ok(bytes) => Ok((bytes, done.events)),
        Err(e) => panic!("invariant: memory takes everything: {e}"),
    }
}
