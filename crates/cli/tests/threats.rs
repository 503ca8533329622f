//! The rows of the threat table that need the whole program: what comes over the wire, and a disk that
//! fails. Each is carried out against a listener that runs as a process of its own.
//!
//! The second part of `docs/threats.md` is written from this table (`UPDATE=1 cargo test -p gabion --test threats`).
#![allow(
    clippy::disallowed_methods,
    reason = "sockets live by the clock; this is the program's edge"
)]

#[path = "threats/disk.rs"]
mod disk;
#[path = "threats/host.rs"]
mod host;
#[path = "threats/wire.rs"]
mod wire;

/// A row of the table.
struct Threat {
    number: u32,
    /// The attack, and the attacker: N the network alone, C a failure, nobody.
    attack: &'static str,
    by: &'static str,
    verdict: &'static str,
    place: &'static str,
    exit: &'static str,
    residual: &'static str,
    /// Carries it out; why not, where something it needs is not here.
    run: fn() -> Result<(), &'static str>,
}

fn table() -> Vec<Threat> {
    let mut all = wire::rows();
    all.extend(disk::rows());
    all
}

#[test]
fn every_attack_gets_its_answer() {
    for threat in table() {
        eprintln!("threat {}: {}", threat.number, threat.attack);
        if let Err(why) = (threat.run)() {
            eprintln!("threat {}: skipped: {why}", threat.number);
        }
    }
}

/// Where this part of the page begins.
const PROGRAM: &str = "\n## On the program";

#[test]
fn the_page_says_what_is_tested() {
    let mut page = format!(
        "{PROGRAM}\n\nWhat came over the wire, and disks that failed, with a listener as a process of its own.\n\n\
         | # | attack or event | by | what happens | named | exit | what remains |\n|---|---|---|---|---|---|---|\n"
    );
    for t in table() {
        page.push_str(&format!(
            "| {} | {} | {} | {} | {} | {} | {} |\n",
            t.number, t.attack, t.by, t.verdict, t.place, t.exit, t.residual
        ));
    }
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/threats.md");
    let there = std::fs::read_to_string(&path).expect("the page");
    let (rest, mine) = there.split_at(there.find(PROGRAM).unwrap_or(there.len()));
    if std::env::var_os("UPDATE").is_some() {
        std::fs::write(&path, format!("{rest}{page}")).expect("written");
    } else {
        assert!(mine == page, "docs/threats.md is old: run this test with UPDATE=1");
    }
}
