//! What the program shows of itself: versions, fields, events, calls that are ignored.

use super::plan::is_ignored;
use gabion_record::fields::Field;
use gabion_record::json::Json;
use gabion_settings::falco::FalcoSettings;
use std::fmt::Write;

/// The form of a list.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ListFormat {
    /// For a terminal.
    #[default]
    Text,
    /// Markdown.
    Markdown,
    /// JSON.
    Json,
}

/// Names and values of all versions, in the order of Falco's text. The first is that of Falco whose rules are served.
const VERSIONS: &[(&str, &str)] = &[
    ("falco_version", "0.44.1"),
    ("libs_version", "0.25.4"),
    ("plugin_api_version", "3.12.0"),
    ("engine_version", "63"),
    ("engine_version_semver", "0.63.0"),
    ("driver_api_version", "10.1.0"),
    ("driver_schema_version", gabion_scap::table::SCHEMA),
    ("default_driver_version", "10.1.0+driver"),
];

/// One of the versions.
pub(super) fn version(key: &str) -> &'static str {
    VERSIONS.iter().find(|(name, _)| *name == key).map_or("", |(_, version)| version)
}

/// Versions as text, in Falco's form.
pub fn version_text() -> String {
    format!(
        "Falco version: {}\nLibs version:  {}\nPlugin API:    {}\nEngine:        {}\nDriver:\n  \
         API version:    {}\n  Schema version: {}\n  Default driver: {}\nServed by:     gabion {}\n",
        version("falco_version"),
        version("libs_version"),
        version("plugin_api_version"),
        version("engine_version_semver"),
        version("driver_api_version"),
        version("driver_schema_version"),
        version("default_driver_version"),
        env!("CARGO_PKG_VERSION"),
    )
}

/// Versions as JSON.
pub fn version_json() -> String {
    let mut json = Json::new();
    json.open();
    write_versions(&mut json);
    json.close();
    without_line_end(json)
}

fn write_versions(json: &mut Json) {
    let mut versions = VERSIONS.to_vec();
    versions.sort_unstable();
    versions.into_iter().for_each(|(name, version)| json.field(name, version));
    json.field("gabion_version", env!("CARGO_PKG_VERSION"));
}

/// Versions, machine and files, for people who report a problem.
pub fn support_json(settings: &FalcoSettings, command_line: &str) -> String {
    let mut json = Json::new();
    json.open();
    json.field("cmdline", command_line);
    json.open_key("config");
    json.open_array_key("rules_files");
    settings.rules_files.iter().for_each(|file| json.item(file));
    json.close_array();
    json.close();
    json.open_key("system_info");
    let uname = rustix::system::uname();
    json.field("machine", uname.machine().to_bytes());
    json.field("nodename", uname.nodename().to_bytes());
    json.field("release", uname.release().to_bytes());
    json.field("sysname", uname.sysname().to_bytes());
    json.field("version", uname.version().to_bytes());
    json.close();
    json.open_key("version");
    write_versions(&mut json);
    json.close();
    json.close();
    without_line_end(json)
}

fn without_line_end(json: Json) -> String {
    let mut line = json.into_line();
    line.truncate(line.trim_end_matches('\n').len());
    line
}

/// All fields with their descriptions, or their names alone.
pub fn field_list(format: ListFormat, names_only: bool) -> String {
    let mut out = String::new();
    if names_only {
        Field::all().for_each(|(_, field)| {
            let _ = writeln!(out, "{}", field.name);
        });
        return out;
    }
    let mut classes: Vec<&str> = Vec::new();
    Field::all().for_each(|(_, field)| {
        if !classes.contains(&field.class) {
            classes.push(field.class);
        }
    });
    let mut json = Json::new();
    json.open();
    json.open_array_key("fieldclasses");
    for class in classes {
        let fields = Field::all().map(|(_, field)| field).filter(|field| field.class == class);
        match format {
            ListFormat::Text => {
                let _ = write!(out, "-------------------------------\nField Class: {class}\n\n");
            }
            ListFormat::Markdown => {
                let _ = write!(
                    out,
                    "## Field Class: {class}\n\nName | Type | Description\n:----|:-----|:-----------\n"
                );
            }
            ListFormat::Json => {
                json.open();
                json.field("name", class);
                json.open_array_key("fields");
            }
        }
        for field in fields {
            let kind = field.kind.name();
            match format {
                ListFormat::Text => {
                    let _ =
                        writeln!(out, "{:<30} {} (Type: {kind})", field.name, field.description);
                }
                ListFormat::Markdown => {
                    let _ = writeln!(out, "`{}` | {kind} | {}", field.name, field.description);
                }
                ListFormat::Json => {
                    json.open();
                    json.field("desc", field.description);
                    json.field("name", field.name);
                    json.field("type", kind);
                    json.close();
                }
            }
        }
        if format == ListFormat::Json {
            json.close_array();
            json.close();
        } else {
            out.push('\n');
        }
    }
    json.close_array();
    json.close();
    if format == ListFormat::Json { json.into_line() } else { out }
}

/// All events of the table, with their parameters.
pub fn event_list(format: ListFormat) -> String {
    let mut out = format!(
        "The events below are valid for Falco *Schema Version*: {}\n",
        gabion_scap::table::SCHEMA
    );
    let mut json = Json::new();
    json.open();
    json.open_array_key("events");
    for row in gabion_scap::table::event_types() {
        let direction = if row.is_exit() { "<" } else { ">" };
        let parameters: Vec<String> = row
            .parameters
            .iter()
            .map(|parameter| format!("{:?} {}", parameter.kind, parameter.name))
            .collect();
        let parameters = parameters.join(", ");
        match format {
            ListFormat::Text => {
                let _ = writeln!(out, "{direction} {}({parameters})", row.name);
            }
            ListFormat::Markdown => {
                let _ = writeln!(out, "`{direction}` | `{}({parameters})`", row.name);
            }
            ListFormat::Json => {
                json.open();
                json.field("dir", direction);
                json.field("name", row.name);
                json.field("params", parameters);
                json.close();
            }
        }
    }
    json.close_array();
    json.close();
    if format == ListFormat::Json { json.into_line() } else { out }
}

/// Calls that are not watched unless a rule or `base_syscalls.all` asks for them: those that read and write.
pub fn ignored_calls() -> String {
    let mut out = String::from("Ignored syscall(s):\n");
    for call in gabion_scap::table::calls().iter().filter(|call| is_ignored(call)) {
        let _ = writeln!(out, "- {}", call.name);
    }
    out
}

/// The size of a page of memory, as the kernel reports it for this process.
pub fn page_size_text() -> String {
    let maps = std::fs::read_to_string("/proc/self/smaps").unwrap_or_default();
    let line = maps.lines().find_map(|line| line.strip_prefix("KernelPageSize:"));
    let kib: Option<u64> = line.and_then(|line| line.trim().trim_end_matches(" kB").parse().ok());
    match kib {
        Some(kib) => format!("Your system page size is: {} bytes\n", kib * 1024),
        None => "Your system page size is not known\n".to_string(),
    }
}

/// The options of the command line.
pub fn help_text() -> &'static str {
    include_str!("help.txt")
}
