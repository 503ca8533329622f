//! Each system call that has an event type of its own is made with known arguments, and its record has them.

use gabion_kernel_tests::{Program, live, record};
use gabion_probe::syscalls::{Interest, Session, Settings};
use gabion_scap::{Address, Event, Param, Tuple};
use std::collections::{BTreeSet, HashMap};
use std::net::{Ipv4Addr, Ipv6Addr};

const NEEDED: &[&str] = &["programs", "btf", "sys_exit"];
/// Calls whose records hold every argument that the program knows. The count only rises.
const FLOOR: usize = 154;

/// A parameter as the program prints it.
fn shown(param: Param<'_>) -> String {
    if let Some(number) = param.as_i64() {
        return number.to_string();
    }
    if let Some(text) = param.as_text() {
        return String::from_utf8_lossy(text).into_owned();
    }
    let v4 = |(ip, port): ([u8; 4], u16)| format!("{}:{port}", Ipv4Addr::from(ip));
    let v6 = |(ip, port): ([u8; 16], u16)| format!("{}:{port}", Ipv6Addr::from(ip));
    match param {
        Param::Address(Address::V4(ip, port)) => v4((ip, port)),
        Param::Address(Address::Unix(path)) => String::from_utf8_lossy(path).into_owned(),
        Param::Tuple(Tuple::V4(source, destination)) => {
            format!("{}->{}", v4(source), v4(destination))
        }
        Param::Tuple(Tuple::V6(source, destination)) => {
            format!("{}->{}", v6(source), v6(destination))
        }
        other => format!("{other:?}"),
    }
}

/// The parameters of an event by name.
fn parameters(event: &Event<'_>) -> HashMap<String, String> {
    let names = event.kind().parameters.iter().map(|p| p.name);
    names.filter_map(|name| Some((name.to_owned(), shown(event.param_named(name)?)))).collect()
}

#[test]
fn calls_with_known_arguments_are_recorded_so() {
    let name = "calls_with_known_arguments_are_recorded_so";
    let Some(_guard) = live(name, NEEDED) else { return };
    let Some(program) = Program::built_of("typed", name) else { return };
    let mut session = Session::start(&Settings::new(Interest::all())).expect("it is here");
    let folder = tempfile::tempdir().expect("there is space");
    let path = std::fs::canonicalize(folder.path()).expect("it was made");
    let mut found = Vec::new();
    let mut command = program.command(&path.to_string_lossy());
    let printed = record(&mut session, &mut command, &mut |call| {
        found.push((call.event.kind().name, parameters(&call.event)));
    });
    let counts = session.counts();
    assert_eq!(counts.undecodable, 0);
    assert_eq!(counts.total().received, counts.total().passed, "nothing is shed: {counts:?}");
    let (mut right, mut wrong, mut from) = (BTreeSet::new(), BTreeSet::new(), 0);
    for line in printed.lines() {
        let (call, wanted) = line.split_once(' ').expect("a line has a call");
        let at = found.iter().skip(from).position(|(name, _)| *name == call);
        let Some(at) = at else {
            println!("{line}: no record");
            wrong.insert(call.to_owned());
            continue;
        };
        from += at;
        let has = &found[from].1;
        from += 1;
        let differs = wanted.split(' ').filter_map(|w| w.split_once('=')).find(|(name, value)| {
            // Calls without parameters in the table have nothing to compare; `-` is a value that is absent.
            match has.get(*name) {
                None => !has.is_empty() && *value != "-",
                Some(found) if *value == "-" => found != "Unknown",
                Some(found) => found != value,
            }
        });
        match differs {
            None => right.insert(call.to_owned()),
            Some((name, value)) => {
                println!("{call}: {name} is {:?} instead of {value:?}", has.get(name));
                wrong.insert(call.to_owned())
            }
        };
    }
    let right = right.difference(&wrong).count();
    println!("{right} calls are recorded with their arguments, {} are not", wrong.len());
    assert!(right >= FLOOR, "{right} of {}: {wrong:?}", right + wrong.len());
}
