//! The threat table: every row an attack that is carried out on a real log, with the verdict it gets.
//!
//! The first part of `docs/threats.md` is written from this table (`UPDATE=1 cargo test -p gabion-seal --test threats`).

#[path = "threats/crashes.rs"]
mod crashes;
#[path = "threats/disk.rs"]
mod disk;
#[path = "threats/ends.rs"]
mod ends;
#[path = "threats/harmless.rs"]
mod harmless;
#[path = "threats/keys.rs"]
mod keys;
#[path = "threats/signers.rs"]
mod signers;
mod support;

use gabion_seal::verify::{Report, Verdict};

/// A row of the table.
struct Threat {
    number: u32,
    /// The attack and the attacker: D writes to the disk, P holds a reader's private key too, S is root on
    /// the logging host now, S0 has an old signer state, N the network, C a crash, O an operator's error.
    attack: &'static str,
    by: &'static str,
    verdict: &'static str,
    place: &'static str,
    exit: &'static str,
    residual: &'static str,
    run: fn(),
}

/// Checks verdict, exit code and that some place of that verdict names these.
fn judged(report: &Report, verdict: Verdict, exit: u8, names: &[&str]) {
    let all: Vec<String> =
        report.places.iter().map(|(v, p)| format!("{} {}", v.name(), p.describe())).collect();
    assert!(
        report.verdicts.contains(&verdict) || verdict == Verdict::Ok,
        "{verdict:?} wanted: {:?} {all:#?}",
        report.verdicts
    );
    assert_eq!(report.verdict().code(), exit, "{all:#?}");
    if !names.is_empty() {
        let fits = |text: &String| {
            text.starts_with(verdict.name()) && names.iter().all(|n| text.contains(n))
        };
        assert!(all.iter().any(fits), "no place names {names:?}: {all:#?}");
    }
}

fn table() -> Vec<Threat> {
    let mut all = disk::rows();
    all.extend(ends::rows());
    all.extend(signers::rows());
    all.extend(keys::rows());
    all.extend(crashes::rows());
    all.extend(harmless::rows());
    all.sort_by_key(|t| t.number);
    all
}

#[test]
fn every_attack_gets_its_verdict() {
    for threat in table() {
        eprintln!("threat {}: {}", threat.number, threat.attack);
        (threat.run)();
    }
}

#[test]
fn the_page_says_what_is_tested() {
    let mut page = String::from(
        "# Threats\n\n\
         What was done to real sealed logs, and what `gabion log verify` said. Each row is a test that carries the\n\
         attack out, in `crates/seal/tests/threats` or, where it needs the whole program, in `crates/cli/tests`;\n\
         this page is written from their tables.\n\n\
         By: D writes to the disk and has no keys · P also holds a reader's private key · S is root on the logging\n\
         host now · S0 has the signer's state of an earlier epoch · N the network alone · C a crash, no attacker · O an\n\
         operator's error. An arrow leads from the verdict without an anchor to the one with it; where the exit code is 0,\n\
         it is 10 without an anchor.\n\n\
         ## On the log\n\n\
         | # | attack or event | by | verdict | named | exit | what remains |\n|---|---|---|---|---|---|---|\n",
    );
    for t in table() {
        page.push_str(&format!(
            "| {} | {} | {} | {} | {} | {} | {} |\n",
            t.number, t.attack, t.by, t.verdict, t.place, t.exit, t.residual
        ));
    }
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/threats.md");
    let there = std::fs::read_to_string(&path).unwrap_or_default();
    // What follows is written from the program's table.
    let (mine, rest) = there.split_at(there.find(PROGRAM).unwrap_or(there.len()));
    if std::env::var_os("UPDATE").is_some() {
        std::fs::write(&path, format!("{page}{rest}")).unwrap();
    } else {
        assert!(mine == page, "docs/threats.md is old: run this test with UPDATE=1");
    }
}

/// Where the part of the page begins that `crates/cli/tests/threats.rs` writes.
const PROGRAM: &str = "\n## On the program";
