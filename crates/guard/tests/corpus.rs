//! The diagnosis on recorded floods: each series has the incidents, the cause and the judgement of the throttle that its
//! conditions of recording give.
//!
//! The series are 16 recordings of a flood in a laboratory, with `expected.jsonl` as their expected verdicts. Without
//! the corpus (environment variable `GABION_CORPUS`) these tests are skipped.

use gabion_guard::recording::{Column, Reader, Recording, XdpColumn};
use gabion_guard::{Cause, Diagnosis, Incident, Settings, Verdict, diagnose};
use std::path::Path;

/// What `expected.jsonl` says of a series.
#[derive(Debug)]
struct Expected {
    series: String,
    is_incident: bool,
    cause: String,
    begin_ms: Option<(u64, u64)>,
    end_ms: Option<(u64, u64)>,
    incidents: Option<usize>,
    is_effective: Option<bool>,
}

/// The value of a key in a line of JSON that has no nested objects.
fn value<'a>(line: &'a str, key: &str) -> Option<&'a str> {
    let (_, rest) = line.split_once(&format!("\"{key}\": "))?;
    let end = if rest.starts_with('[') { rest.find(']')? } else { rest.find([',', '}'])? };
    Some(rest[..end].trim_matches(['"', '[']))
}

fn expected(folder: &Path) -> Vec<Expected> {
    let text = std::fs::read_to_string(folder.join("expected.jsonl")).unwrap();
    let range = |line, key| {
        let (from, to) = value(line, key)?.split_once(", ")?;
        Some((from.parse().unwrap(), to.parse().unwrap()))
    };
    text.lines()
        .map(|line| Expected {
            series: value(line, "series").unwrap().to_owned(),
            is_incident: value(line, "share_incident") == Some("true"),
            cause: value(line, "cause").unwrap().to_owned(),
            begin_ms: range(line, "begin_ms"),
            end_ms: range(line, "end_ms"),
            incidents: value(line, "incidents").map(|n| n.parse().unwrap()),
            is_effective: value(line, "actuator_effective").map(|is| is == "true"),
        })
        .collect()
}

fn read(folder: &Path, series: &str) -> Recording {
    let mut reader = Reader::new();
    for name in [format!("{series}.csv.zst"), format!("{series}.xdp.csv.zst")] {
        let path = folder.join(name);
        if path.is_file() {
            reader.feed(&std::fs::read(path).unwrap()).unwrap();
            reader.end_file().unwrap();
        }
    }
    reader.finish().unwrap()
}

/// The names that `expected.jsonl` uses.
fn cause_of(found: &Diagnosis) -> String {
    let of = |verdict| found.incidents.iter().find(move |i| i.verdict() == verdict);
    match (of(Verdict::PacketWork), of(Verdict::Held)) {
        (Some(incident), _) => incident.cause.map_or("unknown", Cause::name).to_owned(),
        (None, Some(_)) => "held".to_owned(),
        (None, None) => "none".to_owned(),
    }
}

/// What differs from what is expected.
fn differences(found: &Diagnosis, expected: &Expected) -> Vec<String> {
    let mut all = Vec::new();
    let hot: Vec<&Incident> =
        found.incidents.iter().filter(|i| i.verdict() == Verdict::PacketWork).collect();
    if hot.is_empty() == expected.is_incident {
        all.push(format!("{} incidents of packet work", hot.len()));
    }
    let cause = cause_of(found);
    if cause != expected.cause {
        all.push(format!("cause {cause}"));
    }
    if expected.incidents.is_some_and(|n| n != found.incidents.len()) {
        let each = found.incidents.iter().map(|i| i.line("", None, 30));
        all.push(format!("{} incidents: {:?}", found.incidents.len(), each.collect::<Vec<_>>()));
    }
    if let (Some((from, to)), Some(incident)) = (expected.begin_ms, hot.first())
        && !(from..=to).contains(&incident.began_ms)
    {
        all.push(format!("begins at {} ms", incident.began_ms));
    }
    if let (Some((from, to)), Some(incident)) = (expected.end_ms, hot.last())
        && !(from..=to).contains(&incident.last_ms)
    {
        all.push(format!("ends at {} ms", incident.last_ms));
    }
    let effects: Vec<bool> = found.incidents.iter().filter_map(|i| i.is_effective).collect();
    let is_effective = (!effects.is_empty()).then(|| effects.iter().all(|is| *is));
    if is_effective != expected.is_effective {
        all.push(format!("effective {is_effective:?}"));
    }
    all
}

/// Judges all series after a change to each recording; fails with everything that differs.
fn judge(test: &str, change: impl Fn(&mut Recording, usize)) {
    let Some(folder) = gabion_corpus::find(test, "guard") else { return };
    let all = expected(&folder);
    assert_eq!(all.len(), 16);
    let mut wrong = Vec::new();
    for (n, expected) in all.iter().enumerate() {
        let mut recording = read(&folder, &expected.series);
        change(&mut recording, n);
        let found = diagnose(&recording, Settings::watch());
        let different = differences(&found, expected);
        if !different.is_empty() {
            wrong.push(format!("{}: {} ({expected:?})", expected.series, different.join(", ")));
        }
    }
    assert!(wrong.is_empty(), "{} of 16 verdicts are wrong:\n{}", wrong.len(), wrong.join("\n"));
}

/// Numbers that are the same in every run (xorshift64).
struct Numbers(u64);

impl Numbers {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }
}

#[test]
fn all_sixteen_series_have_their_verdict() {
    judge("all_sixteen_series_have_their_verdict", |_, _| ());
}

#[test]
fn the_verdicts_stay_with_one_row_in_a_hundred_missing() {
    for seed in 1..=5 {
        judge("the_verdicts_stay_with_one_row_in_a_hundred_missing", |recording, n| {
            let mut numbers = Numbers(seed * 1000 + n as u64);
            recording.buckets.retain(|_| !numbers.next().is_multiple_of(100));
            recording.xdp.retain(|_| !numbers.next().is_multiple_of(100));
        });
    }
}

#[test]
fn nothing_is_claimed_without_evidence() {
    let Some(folder) = gabion_corpus::find("nothing_is_claimed_without_evidence", "guard") else {
        return;
    };
    for expected in expected(&folder) {
        let whole = read(&folder, &expected.series);
        let mut recording = whole.clone();
        recording.xdp.clear();
        let found = diagnose(&recording, Settings::watch());
        let wanted = if expected.is_incident { "too-many-packets" } else { "none" };
        assert_eq!(cause_of(&found), wanted, "{} without XDP counters", expected.series);
        let mut recording = whole;
        for column in [Column::RxUs, Column::RxKsdUs, Column::NapiThreadUs] {
            recording.drop_column(column);
        }
        let found = diagnose(&recording, Settings::watch());
        let causes: Vec<Option<Cause>> = found.incidents.iter().map(|i| i.cause).collect();
        assert!(causes.iter().all(Option::is_none), "{}: {causes:?}", expected.series);
        assert_eq!(found.measured, 0);
    }
}

#[test]
fn incidents_are_declared_and_named_in_time() {
    let Some(folder) = gabion_corpus::find("incidents_are_declared_and_named_in_time", "guard")
    else {
        return;
    };
    for expected in expected(&folder).iter().filter(|e| e.is_incident) {
        let found = diagnose(&read(&folder, &expected.series), Settings::watch());
        for incident in &found.incidents {
            // The flood begins at 2,000 ms and later; the cause is named 2 s after the incident's begin at the latest.
            let named = incident.named_ms.unwrap();
            assert!(named <= incident.began_ms + 2000, "{}: {named}", expected.series);
        }
    }
}

#[test]
fn packet_work_in_gaps_is_that_of_the_published_table() {
    let Some(folder) =
        gabion_corpus::find("packet_work_in_gaps_is_that_of_the_published_table", "guard")
    else {
        return;
    };
    // The README of the series: largest packet work in one gap, in ms, and gaps with more than 5 ms of it.
    for (series, largest, many) in [
        ("flood", 24.0, 382),
        ("flood-guard30", 3.3, 0),
        ("burst", 35.5, 175),
        ("burst-guard30", 2.4, 0),
        ("lowweight-flood", 68.5, 154),
        ("lowweight-guard30", 4.8, 0),
        ("fast-guard30", 3.0, 0),
        ("generic-guard30", 8.8, 7),
    ] {
        let found = diagnose(&read(&folder, series), Settings::watch());
        let ms = f64::from(found.largest_packet_gap_us()) / 1000.0;
        let over = found.gaps.iter().filter(|gap| gap.packet_us > 5000).count();
        println!("{series}: {ms:.1} ms ({largest}), {over} gaps ({many})");
        assert!((ms - largest).abs() <= largest * 0.25, "{series}: {ms} ms");
    }
}

#[test]
fn counters_of_the_recordings_are_those_of_the_published_table() {
    let Some(folder) =
        gabion_corpus::find("counters_of_the_recordings_are_those_of_the_published_table", "guard")
    else {
        return;
    };
    let recording = read(&folder, "flood-guard30");
    let last = recording.xdp.last().unwrap();
    let of = |column| last.get(column);
    assert_eq!(of(XdpColumn::Pass), Some(794_038));
    assert_eq!(of(XdpColumn::DropCharge), Some(742_718));
    assert_eq!(recording.lines_skipped, 0);
    assert!(!recording.is_torn);
}
