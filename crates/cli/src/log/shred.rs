//! `gabion log shred`: destroys keys, so that content can never be read again.

use super::options::Shred;
use super::times::now_ns;
use super::{Ended, LogFault, folders};
use crate::standard_output;
use gabion_record::json::Json;
use gabion_seal::files::segments;
use gabion_seal::reader::{Cursor, Found, Reader, Selection, Sink};
use gabion_seal::statement_class;
use gabion_seal::{Kind, storage::Files};

/// Finds the number of a class by its name, in the statements in clear.
struct ByName<'a> {
    name: &'a str,
    class: Option<u8>,
}

impl Sink for ByName<'_> {
    fn record(&mut self, found: &Found<'_>) -> bool {
        self.class = statement_class(found.record.bytes, self.name);
        self.class.is_none()
    }

    fn unreadable(&mut self, _: &str) {}
}

fn number_of_class(log: &Files, name: &str) -> Result<u8, LogFault> {
    let mut reader = Reader::open(log, &[])?;
    let mut by_name = ByName { name, class: None };
    let selection = Selection { kind: Some(Kind::System), ..Selection::default() };
    reader.scan(Cursor::default(), &selection, &mut by_name)?;
    by_name
        .class
        .ok_or_else(|| LogFault::input(format!("--class {name}: no segment has such a class")))
}

pub(super) fn run(options: &Shred) -> Ended {
    if options.segments.is_empty() && options.class.is_none() {
        return Err(LogFault::usage("name segments with --segment, or a class with --class"));
    }
    let log = folders::open(&options.folder.log)?;
    let class = options.class.as_deref().map(|c| number_of_class(&log, c)).transpose()?;
    let all: Vec<u64> = segments(&log)?.into_iter().map(|s| s.first_chunk).collect();
    if let Some(unknown) = options.segments.iter().find(|s| !all.contains(s)) {
        return Err(LogFault::input(format!("--segment {unknown}: no segment begins there")));
    }
    let chosen = if options.segments.is_empty() { all } else { options.segments.clone() };
    drop(log);
    let (mut writer, _) = folders::writer(&options.folder, None)?;
    writer.shred(&chosen, class, now_ns())?;
    writer.close(now_ns())?;
    if options.output.json {
        let mut json = Json::new();
        json.open();
        json.open_array_key("segments");
        chosen.iter().for_each(|s| json.item_number(*s));
        json.close_array();
        if let Some(class) = class {
            json.number("class", class);
        }
        json.close();
        standard_output::line(String::from_utf8_lossy(json.bytes()));
    } else {
        standard_output::line(format_args!("keys of {} segments destroyed", chosen.len()));
    }
    eprintln!(
        "gabion: copies of `.keys` files in backups can still decrypt the content: destroy them too"
    );
    Ok(0)
}
