//! `gabion log compare`: whether checkpoints seen by two auditors can be of one log.

use super::options::Compare;
use super::{Ended, LogFault, folders, verify};
use crate::standard_output;
use gabion_record::json::Json;
use gabion_seal::verify::{CompareError, Comparison, Verdict, compare};

pub(super) fn run(options: &Compare) -> Ended {
    let (one, other) = (
        verify::anchors(std::slice::from_ref(&options.one))?,
        verify::anchors(std::slice::from_ref(&options.other))?,
    );
    if let Some(log) = &options.log {
        folders::identity_of(log)?;
    }
    let compared = match compare(&one, &other, None) {
        // Only the log itself decides.
        Ok(Comparison::Unknown) => match &options.log {
            Some(log) => compare(&one, &other, Some(&folders::open(log)?)),
            None => Ok(Comparison::Unknown),
        },
        compared => compared,
    };
    let answer = compared.map_err(|e| match e {
        CompareError::Log(e) => LogFault::from(e),
        e => LogFault::input(&e),
    })?;
    let (code, text) = match &answer {
        Comparison::Same => (0, "the same size and root"),
        Comparison::Consistent => (0, "both are states of the log"),
        Comparison::Fork(_) => {
            (Verdict::Fork.code(), "FORK: two signed states that exclude each other")
        }
        Comparison::Unknown => {
            (Verdict::Unanchored.code(), "different sizes: give --log to compare them")
        }
    };
    if options.output.json {
        let mut json = Json::new();
        json.open();
        json.number("exit", code);
        json.field("answer", text);
        if let Comparison::Fork(pair) = &answer {
            json.open_array_key("evidence");
            json.item(pair.0.note.to_string());
            json.item(pair.1.note.to_string());
            json.close_array();
        }
        json.close();
        standard_output::line(String::from_utf8_lossy(json.bytes()));
    } else {
        standard_output::line(text);
        if let Comparison::Fork(pair) = &answer {
            standard_output::line(format_args!("{}\n{}", pair.0.note, pair.1.note));
        }
    }
    Ok(code)
}
