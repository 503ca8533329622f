//! Leaf hashes of a log's chunks, read from their heads and from the stubs of pruned segments.

use crate::checkpoints::{self, Next};
use crate::error::{Error, Result};
use crate::format::retain::Stub;
use crate::format::segment::{Parsed, file_name, parse_file_name};
use crate::format::tree::Hash;
use crate::format::walk::{Item, Walk, read_header};
use crate::limits::STUB_MAX;
use crate::note::{Checkpoint, Note};
use crate::storage::Storage;

/// Leaves of the first `size` chunks; an error where one is missing. They are what the files say: a
/// root computed from them is compared with a signed one before anything rests on it.
pub fn leaves(log: &dyn Storage, size: u64) -> Result<Vec<Hash>> {
    let mut all = Vec::new();
    extend(log, &mut all, size)?;
    all.truncate(usize::try_from(size).unwrap_or(usize::MAX));
    Ok(all)
}

/// The same, where the first leaves are known from before: only what follows is read. There may be more
/// than `size` of them then.
pub(crate) fn extend(log: &dyn Storage, all: &mut Vec<Hash>, size: u64) -> Result<()> {
    let names = log.list().map_err(|e| Error::storage("log", e))?;
    let mut segments: Vec<(u64, bool)> = names
        .iter()
        .filter_map(|n| parse_file_name(n))
        .filter(|(_, e)| *e == "gsl" || *e == "pruned")
        .map(|(first, ending)| (first, ending == "gsl"))
        .collect();
    segments.sort_unstable();
    for (at, (first, is_whole)) in segments.iter().copied().enumerate() {
        if all.len() as u64 >= size {
            break;
        }
        // The next begins at what is known already. (A stub next to its segment, which a crash in the middle
        // of pruning leaves, has the same beginning.)
        let next = segments.get(at + 1).map_or(u64::MAX, |s| s.0);
        if next <= all.len() as u64 {
            continue;
        }
        if first > all.len() as u64 {
            return Err(Error::format(format!(
                "chunks {} to {} are missing",
                all.len(),
                first - 1
            )));
        }
        if is_whole { of_segment(log, first, size, all)? } else { of_stub(log, first, all)? }
    }
    if (all.len() as u64) < size {
        return Err(Error::format(format!("{size} chunks wanted, {} are there", all.len())));
    }
    Ok(())
}

fn of_stub(log: &dyn Storage, first: u64, all: &mut Vec<Hash>) -> Result<()> {
    let name = file_name(first, "pruned");
    let bytes =
        log.read_file(&name, STUB_MAX).map_err(|e| Error::storage(&name, e))?.unwrap_or_default();
    let stub = Stub::parse(&bytes)?;
    let known = usize::try_from((all.len() as u64).saturating_sub(first)).unwrap_or(usize::MAX);
    all.extend_from_slice(stub.leaves.get(known..).unwrap_or_default());
    Ok(())
}

fn of_segment(log: &dyn Storage, first: u64, size: u64, all: &mut Vec<Hash>) -> Result<()> {
    let name = file_name(first, "gsl");
    let (parsed, hash) = read_header(log, &name)?;
    if let Parsed::Unsupported(what) = parsed {
        return Err(Error::Unsupported { what: format!("{name}: {what}") });
    }
    let mut walk = Walk::new(log, &name)?;
    while let Some((at, item)) = walk.step()? {
        match item {
            Item::Chunk(chunk) if chunk.index == all.len() as u64 => all.push(chunk.leaf(&hash)),
            Item::Chunk(chunk) if chunk.index < all.len() as u64 && chunk.index >= first => {}
            Item::Chunk(_) => {
                return Err(Error::format(format!("{name} at byte {at}: a chunk out of place")));
            }
            Item::Damage(_) if all.len() as u64 >= size => return Ok(()),
            Item::Damage(e) => return Err(Error::format(format!("{name} at byte {at}: {e}"))),
            Item::Mark(_) | Item::Index(_) => {}
        }
    }
    Ok(())
}

/// All checkpoints for which `wanted` says so, in order.
pub(crate) fn checkpoints_where(
    log: &dyn Storage,
    mut wanted: impl FnMut(&Checkpoint) -> bool,
) -> Result<Vec<(Note, Checkpoint)>> {
    let Some(mut reader) = checkpoints::Reader::new(log)? else {
        return Err(Error::format("no checkpoints here"));
    };
    let mut found = Vec::new();
    loop {
        match reader.step()? {
            Next::Entry(entry) if wanted(&entry.checkpoint) => {
                found.push((entry.note, entry.checkpoint))
            }
            Next::Entry(_) | Next::Damaged { .. } => {}
            Next::End | Next::Torn { .. } => return Ok(found),
        }
    }
}
