//! `dataset` and `datarep`.

use crate::compiler::Compiler;
use crate::content::{BufferCondition, DatarepTest, DatasetCommand, DatasetTest};
use crate::diagnostic::{Checked, Refusal};
use crate::draft::{Draft, List};
use crate::integer::{IntegerMatch, number_with_unit};
use crate::keyword::{Setup, Value};
use crate::ruleset::{DatasetDef, DatasetFormat, DatasetType};
use gabion_record::applayer::IntegerWidth;

/// Keywords of this file.
pub(super) const KEYWORDS: &[(&str, Setup)] = &[("dataset", dataset), ("datarep", datarep)];

fn blank(name: &str, folder: &str) -> DatasetDef {
    DatasetDef { rule_folder: folder.to_string(), ..DatasetDef::new(name) }
}

fn dataset(c: &mut Compiler<'_>, d: &mut Draft<'_>, v: Value<'_>) -> Checked<()> {
    const WHO: &str = "detect-dataset";
    if matches!(d.list, List::NotSet) {
        return Err(Refusal::new(WHO, "datasets are only supported for sticky buffers"));
    }
    let bad = || Refusal::silent("`dataset:isset, name, type string, load file`");
    let mut parts = v.text.split(',').map(str::trim);
    let command = match parts.next() {
        Some("set") => DatasetCommand::Set,
        Some("unset") => DatasetCommand::Unset,
        Some("isset") => DatasetCommand::IsSet,
        Some("isnotset") => DatasetCommand::IsNotSet,
        _ => return Err(bad()),
    };
    let name = parts.next().filter(|n| is_name(n)).ok_or_else(bad)?;
    let mut def = blank(name, &c.folder);
    let rest: Vec<&str> = parts.collect();
    let has_type = settings(c, &mut def, &rest, WHO)?;
    if !has_type && !c.set.datasets.iter().any(|k| k.name == def.name) {
        let said = format!("failed to set up dataset '{name}'.");
        return Err(Refusal::new(WHO, said).because("no rule before gave its type"));
    }
    json_settings(&def, command)?;
    if matches!(command, DatasetCommand::Set | DatasetCommand::Unset)
        && !c.options.allow_dataset_write
    {
        let said = "dataset saves not allowed by configuration";
        return Err(Refusal::new(WHO, said));
    }
    let dataset = register(c, def, has_type, WHO)?;
    d.push(BufferCondition::Dataset(DatasetTest { dataset, command }))
}

/// JSON sets are read, never written, and name their keys.
fn json_settings(def: &DatasetDef, command: DatasetCommand) -> Checked<()> {
    if def.format == DatasetFormat::Csv {
        return Ok(());
    }
    let said = if command == DatasetCommand::Set {
        "json format is not supported for 'set' command"
    } else if def.save.is_some() {
        "json format is not supported with 'save' or 'state' option"
    } else if def.value_key.is_none() {
        "json format needs a 'value_key' parameter"
    } else if def.context_key.is_none() {
        "json format needs a 'context_key' parameter"
    } else {
        return Ok(());
    };
    Err(Refusal::new("detect-dataset", said))
}

fn is_name(text: &str) -> bool {
    !text.is_empty()
        && text.len() <= crate::limits::DATASET_NAME_MAX
        && !text.contains(char::is_whitespace)
}

fn datarep(c: &mut Compiler<'_>, d: &mut Draft<'_>, v: Value<'_>) -> Checked<()> {
    const WHO: &str = "detect-datarep";
    if matches!(d.list, List::NotSet) {
        return Err(Refusal::new(WHO, "datarep is only supported for sticky buffers"));
    }
    let bad = || Refusal::silent("`datarep:name, >, N, type string, load file`");
    let parts: Vec<&str> = v.text.split(',').map(str::trim).collect();
    let [name, op, value, rest @ ..] = parts.as_slice() else { return Err(bad()) };
    let op = match *op {
        "==" => "=",
        op @ ("<" | ">") => op,
        _ => return Err(bad()),
    };
    let condition = IntegerMatch::parse(&format!("{op}{value}"), IntegerWidth::U16, &[])
        .ok_or_else(|| Refusal::new(WHO, format!("invalid datarep value: {value}")))?;
    if !is_name(name) {
        return Err(bad());
    }
    let mut def = blank(name, &c.folder);
    def.has_reputation = true;
    let has_type = settings(c, &mut def, rest, WHO)?;
    let dataset = register(c, def, has_type, WHO)?;
    d.push(BufferCondition::Datarep(DatarepTest { dataset, condition }))
}

/// Reads `key value` settings; true when the type was among them.
fn settings(
    c: &mut Compiler<'_>,
    def: &mut DatasetDef,
    parts: &[&str],
    who: &'static str,
) -> Checked<bool> {
    let mut has_type = false;
    for part in parts {
        let (key, value) = part.split_once(char::is_whitespace).unwrap_or((part, ""));
        let value = value.trim();
        let bad = || Refusal::new(who, format!("bad value for {key}: '{value}'"));
        match key {
            "type" => {
                has_type = true;
                def.kind = DatasetType::from_name(value)
                    .ok_or_else(|| Refusal::new(who, format!("bad type {value}")))?;
            }
            "load" => def.load = Some(value.to_string()),
            "save" => def.save = Some(check_path(c, value, who)?),
            "state" => {
                def.load = Some(value.to_string());
                def.save = Some(check_path(c, value, who)?);
            }
            "memcap" => def.memcap = number_with_unit(value).ok_or_else(bad)?,
            "hashsize" => def.hashsize = value.parse().map_err(|_| bad())?,
            "format" => {
                def.format = match value {
                    "csv" => DatasetFormat::Csv,
                    "json" => DatasetFormat::Json,
                    "ndjson" | "jsonline" => DatasetFormat::NdJson,
                    _ => {
                        // reported, but the rule is loaded
                        c.warn(Refusal::new(who, format!("unknown format {value}")));
                        DatasetFormat::Csv
                    }
                };
            }
            "value_key" => def.value_key = Some(value.to_string()),
            "array_key" => def.array_key = Some(value.to_string()),
            "context_key" => def.context_key = Some(value.to_string()),
            "remove_key" => def.remove_key = true,
            // unknown keys are passed over, as Suricata does
            _ => {}
        }
    }
    if def.save.is_some() && !c.options.allow_dataset_write {
        return Err(Refusal::new(who, "Rules containing save/state datasets have been disabled"));
    }
    Ok(has_type)
}

/// Rules may not reach outside unless the configuration says so.
fn check_path(c: &mut Compiler<'_>, path: &str, who: &'static str) -> Checked<String> {
    if path.starts_with('/') {
        if c.options.allow_absolute_filenames {
            let said = format!("Allowing absolute filename for dataset rule: {path}");
            c.warn(Refusal::new(who, said).into_note());
            return Ok(path.to_string());
        }
        return Err(Refusal::new(who, format!("Absolute paths not allowed: {path}")));
    }
    if path.split('/').any(|part| part == "..") {
        let said = format!("Directory traversals not allowed: {path}");
        return Err(Refusal::new(who, said));
    }
    Ok(path.to_string())
}

/// The number of the dataset: that of an earlier rule which names it, or a new one.
fn register(
    c: &mut Compiler<'_>,
    def: DatasetDef,
    has_type: bool,
    who: &'static str,
) -> Checked<u32> {
    if let Some(at) = c.set.datasets.iter().position(|k| k.name == def.name) {
        let known = &c.set.datasets[at];
        if has_type && known.kind != def.kind {
            let said = format!("dataset {} already exists with a different type", def.name);
            return Err(Refusal::new(who, said));
        }
        return Ok(u32::try_from(at).unwrap_or(u32::MAX));
    }
    let at = u32::try_from(c.set.datasets.len()).unwrap_or(u32::MAX);
    if let Some(open) = c.options.open_dataset {
        open(at, &def).map_err(|e| {
            let what = if def.has_reputation { "datarep set" } else { "dataset" };
            Refusal::new(who, format!("failed to set up {what} '{}'.", def.name))
                .because(e.to_string())
        })?;
    }
    c.set.datasets.push(def);
    Ok(at)
}
