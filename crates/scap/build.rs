//! Turns the tables of `src/table` into constants: rows of event types with their conversions, flags, calls, and one
//! constant for the number of each event type. A wrong table stops the build with the line that is wrong.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::path::Path;

fn main() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/table");
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed={}", folder.display());
    let read = |name: &str| {
        let path = folder.join(name);
        std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
    };
    let mut out = String::new();
    let flags = write_flags(&mut out, &read("flags.tsv"));
    let conversions = conversions(&read("conversion.tsv"));
    write_events(&mut out, &read("events.tsv"), &flags, &conversions);
    write_calls(&mut out, &read("calls.tsv"), &read("events.tsv"));
    write_ia32(&mut out, &read("ia32.tsv"));
    let to = Path::new(&std::env::var("OUT_DIR").expect("cargo sets OUT_DIR")).join("table.rs");
    std::fs::write(&to, out).expect("the folder for build output is writable");
}

/// The cells of each row; `columns` is their number.
fn rows(text: &str, columns: usize) -> Vec<Vec<&str>> {
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    let rows: Vec<Vec<&str>> = lines.map(|line| line.split('\t').collect()).collect();
    for row in &rows {
        assert_eq!(row.len(), columns, "the row has another number of cells: {row:?}");
    }
    rows
}

/// The parts of a cell; none if it is `-`.
fn parts(cell: &str, by: char) -> impl Iterator<Item = &str> {
    cell.split(by).filter(|part| !part.is_empty() && *part != "-")
}

/// Writes the tables of flags and returns their names with their places.
fn write_flags(out: &mut String, text: &str) -> HashMap<String, usize> {
    let mut places = HashMap::new();
    out.push_str("static FLAG_TABLES: &[FlagTable] = &[\n");
    for (place, row) in rows(text, 2).iter().enumerate() {
        places.insert(row[0].to_owned(), place);
        write!(out, "FlagTable {{ name: {:?}, values: &[", row[0]).expect("text");
        for pair in row[1].split(' ') {
            let (name, value) = pair.split_once('=').expect("NAME=VALUE");
            write!(out, "({name:?}, {value}),").expect("text");
        }
        out.push_str("] },\n");
    }
    out.push_str("];\n");
    places
}

/// The conversions of each event type as Rust text.
fn conversions(text: &str) -> HashMap<u16, String> {
    let mut of: HashMap<u16, String> = HashMap::new();
    for row in rows(text, 5) {
        let (from, parameters, action, to) = (row[0], row[1], row[2], row[3]);
        let sources: Vec<String> = parts(row[4], ' ').map(source).collect();
        let action = match action {
            "change_type" => format!("ChangeType({to})"),
            action => camel(action),
        };
        let list = of.entry(from.parse().expect("a type")).or_default();
        let is_add = row[2] == "add_params";
        let enter_from = sources.first().and_then(|first| {
            let from = enter_place(first).filter(|_| is_add)?;
            sources.iter().zip(from..).all(|(s, n)| enter_place(s) == Some(n)).then_some(from)
        });
        let is_empty = |source: &String| source == "Source::Empty";
        let is_empty_added = is_add && !sources.is_empty() && sources.iter().all(is_empty);
        let sources = sources.join(",");
        write!(
            list,
            "Conversion {{ parameters: {parameters}, action: Action::{action}, sources: &[{sources}], \
             enter_from: {enter_from:?}, is_empty_added: {is_empty_added} }},"
        )
        .expect("text");
    }
    of
}

/// The place of the parameter of the enter event that a source is.
fn enter_place(source: &str) -> Option<usize> {
    source.strip_prefix("Source::Enter(")?.split(',').next()?.parse().ok()
}

fn source(text: &str) -> String {
    let (from, fallback) = text.split_once('/').unwrap_or((text, ""));
    match from.split_once(':') {
        Some(("old", index)) => format!("Source::Old({index})"),
        Some(("enter", index)) => format!("Source::Enter({index}, {})", fallback == "default"),
        None if from == "default" => "Source::Default".into(),
        None if from == "empty" => "Source::Empty".into(),
        None if from == "callback" => "Source::ContainerJson".into(),
        _ => panic!("unknown source {text}"),
    }
}

fn write_events(
    out: &mut String,
    text: &str,
    flags: &HashMap<String, usize>,
    conversions: &HashMap<u16, String>,
) {
    let mut constants = String::new();
    out.push_str("static EVENT_TYPES: &[EventType] = &[\n");
    for (place, row) in rows(text, 7).iter().enumerate() {
        let number: u16 = row[0].parse().expect("a type");
        assert_eq!(usize::from(number), place, "rows are in the order of their numbers");
        let bits: Vec<String> =
            parts(row[5], ',').map(|flag| format!("TypeFlags::{flag}.0")).collect();
        let bits = if bits.is_empty() { "0".to_owned() } else { bits.join("|") };
        let source: Vec<String> =
            parts(row[4], ',').map(|name| format!("Sources::{}.0", name.to_uppercase())).collect();
        let source = if source.is_empty() { "0".to_owned() } else { source.join("|") };
        let parameters: Vec<String> = parts(row[6], ' ').map(|p| parameter(p, flags)).collect();
        let kinds: Vec<&str> = parts(row[6], ' ').filter_map(|p| p.split(':').nth(1)).collect();
        let sizes: Vec<String> = kinds
            .iter()
            .map(|kind| format!("size_or_max(ParameterKind::{})", camel(kind)))
            .collect();
        // The first one is what the call returned.
        let fd = kinds.iter().skip(1).position(|kind| matches!(*kind, "fd" | "fd32"));
        writeln!(
            out,
            "EventType {{ number: {number}, constant: {:?}, name: {:?}, category: Category::{}, \
             sources: Sources({source}), flags: TypeFlags({bits}), parameters: &[{}], sizes: &[{}], fd: {:?}, \
             conversions: &[{}] }},",
            row[1],
            row[2],
            camel(row[3]),
            parameters.join(","),
            sizes.join(","),
            fd.map(|place| place + 1),
            conversions.get(&number).map_or("", String::as_str),
        )
        .expect("text");
        let (call, direction) = (row[2], if number.is_multiple_of(2) { "enter" } else { "exit" });
        writeln!(
            constants,
            "/// The {direction} event `{call}`.\npub const {}: u16 = {number};",
            row[1]
        )
        .expect("text");
    }
    out.push_str("];\n");
    writeln!(out, "/// The number of each event type by its name in Falco's libs, without the prefix `PPME_SYSCALL_`.\npub mod types {{\n{constants}}}")
        .expect("text");
}

/// `NAME:TYPE:FORMAT`, then optionally a table of flags, `@` and the place of a directory's descriptor, alternatives.
fn parameter(text: &str, flags: &HashMap<String, usize>) -> String {
    let mut cells = text.split(':');
    let mut next = || cells.next().unwrap_or_else(|| panic!("a parameter is not whole: {text}"));
    let (name, kind, format) = (next(), camel(next()), camel(next()));
    let (mut table, mut directory, mut alternatives) =
        ("None".to_owned(), "None".to_owned(), String::new());
    for cell in cells {
        if let Some(place) = cell.strip_prefix('@') {
            directory = format!("Some({place})");
        } else if let Some(place) = flags.get(cell) {
            table = format!("Some(&FLAG_TABLES[{place}])");
        } else {
            for alternative in cell.split(',') {
                let (kind, format) = alternative.split_once('/').expect("TYPE/FORMAT");
                let (kind, format) = (camel(kind), camel(format));
                write!(alternatives, "(ParameterKind::{kind}, Format::{format}),").expect("text");
            }
        }
    }
    format!(
        "Parameter {{ name: {name:?}, kind: ParameterKind::{kind}, format: Format::{format}, flags: {table}, \
         directory: {directory}, alternatives: &[{alternatives}] }}"
    )
}

/// The newest exit type of each name, of the types that exist.
fn exits(events: &str) -> HashMap<&str, u16> {
    let all = rows(events, 7).into_iter().filter(|row| parts(row[5], ',').all(|f| f != "UNUSED"));
    let numbered = all.map(|row| (row[2], row[0].parse::<u16>().expect("a type")));
    numbered.filter(|(_, number)| !number.is_multiple_of(2)).collect()
}

/// A call without events of its own in its row takes the pair of its name in the table of events, if there is one: a new
/// call is its two rows there.
fn write_calls(out: &mut String, text: &str, events: &str) {
    let exits = exits(events);
    out.push_str("static CALLS: &[Call] = &[\n");
    for (place, row) in rows(text, 9).into_iter().enumerate() {
        assert_eq!(row[0], place.to_string(), "rows are in the order of their codes");
        let own = exits.get(row[1]).filter(|_| row[8] == "0,1");
        let own = own.map(|exit| [exit.to_string(), format!("{},{exit}", exit - 1)]);
        let mut row = row;
        if let Some([exit, events]) = &own {
            (row[6], row[7], row[8]) = ("1", exit, events);
        }
        let option = |cell: &str| match cell {
            "-" => "None".to_owned(),
            number => format!("Some({number})"),
        };
        let flags: u8 = row[6].parse().unwrap_or(0);
        writeln!(
            out,
            "Call {{ code: {}, name: {:?}, is_state: {}, is_simple: {}, x86_64: {}, aarch64: {}, is_used: {}, \
             is_never_dropped: {}, is_always_dropped: {}, exit: {}, events: &[{}] }},",
            row[0],
            row[1],
            row[2] == "yes",
            row[3] == "yes",
            option(row[4]),
            option(row[5]),
            flags & 1 != 0,
            flags & 2 != 0,
            flags & 4 != 0,
            option(row[7]),
            if row[8] == "-" { "" } else { row[8] },
        )
        .expect("text");
    }
    out.push_str("];\n");
}

fn write_ia32(out: &mut String, text: &str) {
    out.push_str("static IA32: &[(u16, Option<u16>)] = &[\n");
    for row in rows(text, 3) {
        let to = if row[1] == "-" { "None".to_owned() } else { format!("Some({})", row[1]) };
        writeln!(out, "({}, {to}),", row[0]).expect("text");
    }
    out.push_str("];\n");
}

/// `charbuf_pair_array` as `CharbufPairArray`.
fn camel(name: &str) -> String {
    name.split('_')
        .map(|word| {
            let mut letters = word.chars();
            letters
                .next()
                .map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
        })
        .collect()
}
