//! `gabion log hold`: keeps segments from being pruned.

use super::options::Hold;
use super::times::now_ns;
use super::{Ended, LogFault, folders};
use crate::standard_output;
use gabion_record::json::Json;
use gabion_seal::files::{held, segments};

pub(super) fn run(options: &Hold) -> Ended {
    let all = segments(&folders::open(&options.folder.log)?)?;
    if let Some(unknown) =
        options.segments.iter().find(|s| !all.iter().any(|a| a.first_chunk == **s))
    {
        return Err(LogFault::input(format!("--segment {unknown}: no segment begins there")));
    }
    let (mut writer, _) = folders::writer(&options.folder, None)?;
    writer.hold_segments(&options.segments, !options.release, now_ns())?;
    let held = held(writer.log())?;
    writer.close(now_ns())?;
    if options.output.json {
        let mut json = Json::new();
        json.open();
        json.open_array_key("held");
        held.iter().for_each(|s| json.item_number(*s));
        json.close_array();
        json.close();
        standard_output::line(String::from_utf8_lossy(json.bytes()));
    } else {
        standard_output::line(format_args!("{} segments on hold", held.len()));
    }
    Ok(0)
}
