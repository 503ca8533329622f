//! Every option of every command with wrong values, by the built program: each is refused in one line that names the
//! value and where it stands, what is wrong with it and what to write, with the right exit code, in bounded time, and
//! nothing is left behind.
//!
//! The list of options is the programs' own (`--help`, of each command): one that [`table::ROWS`] does not name fails
//! the first test.
#![allow(clippy::disallowed_methods)] // waits for another process, by the clock
#![allow(unreachable_pub, reason = "modules of a test")]
#![allow(clippy::print_stdout, reason = "a test prints what it found on standard output")]

#[path = "options/answers.rs"]
mod answers;
#[path = "options/ground.rs"]
mod ground;
mod program;
#[path = "options/table.rs"]
mod table;
#[path = "options/wrong.rs"]
mod wrong;

use program::gabion;
use std::collections::BTreeSet;

/// A command as it is written, and the name of one of its options or arguments.
type Place = (String, String);

/// All options with a value and all arguments of a command and of those below it.
fn places(command: &str, out: &mut BTreeSet<Place>) {
    let words: Vec<&str> = command.split_whitespace().chain(["--help"]).collect();
    let help = gabion(&words);
    assert_eq!(help.code, 0, "{command}: {}", help.err);
    let mut section = "";
    for line in help.out.lines() {
        if line.is_empty() {
            continue;
        }
        if !line.starts_with(' ') {
            section = line;
            continue;
        }
        let entry = line.trim_start();
        let depth = line.len() - entry.len();
        // Text further to the right continues a description.
        if depth > 6 {
            continue;
        }
        let first = entry.split_whitespace().next().unwrap_or_default();
        match section {
            "Commands:" if depth == 2 && !["help", "suricata"].contains(&first) => {
                places(&format!("{command} {first}"), out);
            }
            "Commands:" | "Examples:" | "Example:" | "" => {}
            "Arguments:" => {
                let name = first.trim_matches(|c| "[]<>.".contains(c));
                out.insert((command.trim().to_owned(), name.to_owned()));
            }
            _ if entry.starts_with('-') => {
                let names = entry.split("  ").next().unwrap_or_default();
                if let Some(at) = names.find("--")
                    && names.contains('<')
                {
                    let name = names[at..].split([' ', '=', '[']).next().unwrap_or_default();
                    out.insert((command.trim().to_owned(), name.to_owned()));
                }
            }
            _ => {}
        }
    }
}

/// An option of Suricata's own command line, as its help names it.
fn suricatas(out: &mut BTreeSet<Place>) {
    let help = gabion(&["suricata", "--help"]);
    for line in help.out.lines().filter(|line| line.starts_with('-')) {
        // Two spaces begin the description, or the next option.
        for part in line.split("  ").map(str::trim).filter(|part| part.starts_with('-')) {
            let mut words = part.split(' ');
            let (name, value) = (words.next().unwrap_or_default(), words.next());
            let is_value = value.is_some_and(|v| {
                v.starts_with(|c: char| c.is_ascii_uppercase()) || v.contains('|')
            });
            if is_value {
                out.insert(("suricata".to_owned(), name.trim_end_matches(',').to_owned()));
            }
        }
    }
}

#[test]
fn every_option_with_a_value_has_its_row() {
    let mut wanted = BTreeSet::new();
    places("", &mut wanted);
    suricatas(&mut wanted);
    assert!(wanted.len() > 150, "{} options: the help is not read any more", wanted.len());
    let rows: BTreeSet<Place> = table::ROWS
        .iter()
        .flat_map(|row| {
            row.names.split_whitespace().map(|name| (row.command.to_owned(), name.to_owned()))
        })
        .collect();
    let missing: Vec<&Place> = wanted.difference(&rows).collect();
    let stale: Vec<&Place> = rows.difference(&wanted).collect();
    assert!(missing.is_empty(), "no row in tests/options/table.rs, add one: {missing:#?}");
    assert!(stale.is_empty(), "rows of options that are not there: {stale:#?}");
}

#[test]
fn every_wrong_value_is_refused_well() {
    let ground = ground::Ground::new();
    let tries = wrong::tries(&ground);
    let weak = answers::weak(&ground, &tries);
    println!("{} wrong values tried, {} weak", tries.len(), weak.len());
    assert!(tries.len() > 600, "{} tries", tries.len());
    assert!(weak.is_empty(), "{} weak:\n{}", weak.len(), weak.join("\n"));
}
