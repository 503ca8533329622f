//! Whether checkpoints that two auditors have seen can be of one log.

use super::Anchor;
use crate::error::Error;
use crate::format::tree::root;
use crate::leaves::leaves;
use crate::storage::Storage;

/// How two checkpoints relate to each other.
#[derive(Clone, Debug)]
pub enum Comparison {
    /// They have the same size and root.
    Same,
    /// Both are states of the log.
    Consistent,
    /// Two signed states that exclude each other.
    Fork(Box<(Anchor, Anchor)>),
    /// Their sizes differ, and without the log nothing is known.
    Unknown,
}

/// Why checkpoints can't be compared.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CompareError {
    /// One of the files has none.
    #[error("a file without checkpoints")]
    NoCheckpoint,
    /// They are of two logs.
    #[error("{one} and {other}: two logs")]
    TwoLogs {
        /// Origin of the one.
        one: String,
        /// Origin of the other.
        other: String,
    },
    /// The log can't be read.
    #[error("{0}")]
    Log(#[from] Error),
}

/// Compares checkpoints, those of different sizes by the log that both are of.
///
/// # Errors
/// When they can't be compared.
pub fn compare(
    one: &[Anchor],
    other: &[Anchor],
    log: Option<&dyn Storage>,
) -> Result<Comparison, CompareError> {
    let (Some(a), Some(b)) = (
        one.iter().max_by_key(|a| a.checkpoint.size),
        other.iter().max_by_key(|b| b.checkpoint.size),
    ) else {
        return Err(CompareError::NoCheckpoint);
    };
    if a.checkpoint.origin != b.checkpoint.origin {
        let (one, other) = (a.checkpoint.origin.clone(), b.checkpoint.origin.clone());
        return Err(CompareError::TwoLogs { one, other });
    }
    // Every size that both have must have one root.
    let fork = one.iter().find_map(|a| {
        let clash = other.iter().find(|b| {
            a.checkpoint.size == b.checkpoint.size && a.checkpoint.root != b.checkpoint.root
        });
        clash.map(|b| (a.clone(), b.clone()))
    });
    if let Some(pair) = fork {
        return Ok(Comparison::Fork(Box::new(pair)));
    }
    if a.checkpoint == b.checkpoint {
        return Ok(Comparison::Same);
    }
    let Some(log) = log else { return Ok(Comparison::Unknown) };
    let all = leaves(log, a.checkpoint.size.max(b.checkpoint.size))?;
    let agrees = |anchor: &Anchor| {
        let part = usize::try_from(anchor.checkpoint.size).ok().and_then(|n| all.get(..n));
        part.is_some_and(|p| root(p) == anchor.checkpoint.root)
    };
    Ok(if agrees(a) && agrees(b) {
        Comparison::Consistent
    } else {
        Comparison::Fork(Box::new((a.clone(), b.clone())))
    })
}
