//! Falco's rule language: from rule files to compiled conditions and output formats.
//!
//! The input is the text of rule files and, at run time, the fields of one event after the other through
//! `gabion_record`'s `Fields`. The output is the rules that match and the text of their alerts. The crate knows neither
//! events nor threads; it knows the names and types of fields.
#![forbid(unsafe_code)]

pub mod compile;
pub mod format;
pub mod lang;
pub mod limits;
pub mod rules;

/// What a JSON writer wrote, without the line end: the outputs put it.
fn without_line_end(json: gabion_record::json::Json) -> String {
    let mut line = json.into_line();
    line.truncate(line.trim_end_matches('\n').len());
    line
}
