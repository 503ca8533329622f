//! `gabion log compare`: whether checkpoints seen by two auditors can be of one log.

use super::options::Compare;
use super::{Ended, LogFault, folders, verify};
use crate::standard_output;
use gabion_record::json::Json;
use gabion_seal::leaves::leaves;
use gabion_seal::tree::root;
use gabion_seal::verify::Anchor;

/// How two checkpoints relate to each other.
enum Answer {
    Same,
    Consistent,
    Fork(Box<(Anchor, Anchor)>),
    Unknown,
}

pub(super) fn run(options: &Compare) -> Ended {
    let (one, other) = (
        verify::anchors(std::slice::from_ref(&options.one))?,
        verify::anchors(std::slice::from_ref(&options.other))?,
    );
    if let Some(log) = &options.log {
        folders::identity_of(log)?;
    }
    let answer = answer(options, &one, &other)?;
    let (code, text) = match &answer {
        Answer::Same => (0, "the same size and root"),
        Answer::Consistent => (0, "both are states of the log"),
        Answer::Fork(_) => (22, "FORK: two signed states that exclude each other"),
        Answer::Unknown => (10, "different sizes: give --log to compare them"),
    };
    if options.output.json {
        let mut json = Json::new();
        json.open();
        json.number("exit", code);
        json.field("answer", text);
        if let Answer::Fork(pair) = &answer {
            json.open_array_key("evidence");
            json.item(pair.0.note.to_string());
            json.item(pair.1.note.to_string());
            json.close_array();
        }
        json.close();
        standard_output::line(String::from_utf8_lossy(json.bytes()));
    } else {
        standard_output::line(text);
        if let Answer::Fork(pair) = &answer {
            standard_output::line(format_args!("{}\n{}", pair.0.note, pair.1.note));
        }
    }
    Ok(code)
}

fn answer(options: &Compare, one: &[Anchor], other: &[Anchor]) -> Result<Answer, LogFault> {
    let (Some(a), Some(b)) = (
        one.iter().max_by_key(|a| a.checkpoint.size),
        other.iter().max_by_key(|b| b.checkpoint.size),
    ) else {
        return Err(LogFault::input("a file without checkpoints"));
    };
    if a.checkpoint.origin != b.checkpoint.origin {
        return Err(LogFault::input(format!(
            "{} and {}: two logs",
            a.checkpoint.origin, b.checkpoint.origin
        )));
    }
    // Every size that both have must have one root.
    let fork = one.iter().find_map(|a| {
        let clash = other.iter().find(|b| {
            a.checkpoint.size == b.checkpoint.size && a.checkpoint.root != b.checkpoint.root
        });
        clash.map(|b| (a.clone(), b.clone()))
    });
    if let Some(pair) = fork {
        return Ok(Answer::Fork(Box::new(pair)));
    }
    if a.checkpoint == b.checkpoint {
        return Ok(Answer::Same);
    }
    let Some(log) = &options.log else { return Ok(Answer::Unknown) };
    let log = folders::open(log)?;
    let all = leaves(&log, a.checkpoint.size.max(b.checkpoint.size))?;
    let agrees = |anchor: &Anchor| {
        let part = usize::try_from(anchor.checkpoint.size).ok().and_then(|n| all.get(..n));
        part.is_some_and(|p| root(p) == anchor.checkpoint.root)
    };
    Ok(if agrees(a) && agrees(b) {
        Answer::Consistent
    } else {
        Answer::Fork(Box::new((a.clone(), b.clone())))
    })
}
