//! An engine that is saved and restored between any two records continues as if nothing had happened.
//!
//! The scripts of all detectors ([`crate::hostile`]) are cut somewhere: the state until then is saved, a new
//! engine loads it and continues. Evidence, alerts, counts, the ledger of sources, and every profile at the
//! end have to be those of one engine that was never cut. A field of a state that is not encoded, or is not
//! read back as it was, fails here, because its detector says something else or its profile looks
//! different.

use crate::engine::{Counts, Engine, Output, Section};
use crate::hostile::{SCRIPTS, Script, record, settings};
use crate::settings::Settings;
use crate::shard::Kept;
use crate::whitelist::Whitelist;
use gabion_record::Ip;
use gabion_record::ledger::Ledger;
use gabion_record::logs::{Record, TimeNs};
use std::collections::BTreeMap;
use std::sync::Arc;

const ROOM: usize = 16 << 20;

/// All that an engine reported.
#[derive(Debug, Default, PartialEq)]
struct RunOutput {
    said: Vec<String>,
    /// Profiles by address and window, as they were handed over last.
    kept: BTreeMap<(Ip, i64), Vec<u8>>,
    counts: Counts,
    ledger: Ledger,
}

impl RunOutput {
    fn keep(&mut self, kept: Vec<Kept>) {
        self.kept.extend(kept.into_iter().map(|k| ((k.ip, k.window), k.bytes)));
    }
}

fn engine(settings: &Settings, bytes: usize) -> Engine {
    let mut engine = Engine::with_budget(settings.clone(), None, bytes);
    engine.keep_windows();
    engine
}

/// Saves an engine, and gives another one that was restored from it.
fn moved(mut engine: Engine, settings: &Settings, bytes: usize, output: &mut RunOutput) -> Engine {
    let mut parts: Vec<(Section, Vec<u8>)> = Vec::new();
    engine.save(&mut |section, bytes| parts.push((section, bytes)));
    output.keep(engine.take_kept());
    let mut next = self::engine(settings, bytes);
    for (section, bytes) in &parts {
        next.restore(*section, bytes).unwrap();
    }
    next
}

/// Runs records through one engine, or through one more from each of those records on.
fn run(records: &[Vec<u8>], settings: &Settings, bytes: usize, cuts: &[usize]) -> RunOutput {
    let mut output = RunOutput::default();
    let mut engine = engine(settings, bytes);
    let mut latest: Option<TimeNs> = None;
    for (at, bytes_of) in records.iter().enumerate() {
        if cuts.contains(&at) {
            engine = moved(engine, settings, bytes, &mut output);
        }
        let mut r: Record<'_> = record(bytes_of);
        r.is_late = latest.is_some_and(|t| r.ts < t);
        if !r.is_late {
            latest = Some(r.ts);
        }
        engine.record(&r, &mut |f| said(f, &mut output.said));
        if engine.has_kept() {
            output.keep(engine.take_kept());
        }
    }
    engine.finish(&mut |f| said(f, &mut output.said));
    engine.keep_rest(&mut |kept| output.keep(kept));
    (output.counts, output.ledger) = (engine.counts(), engine.ledger());
    output
}

fn said(finding: Output<'_>, said: &mut Vec<String>) {
    said.push(match finding {
        Output::Evidence(e, sum) => format!("{sum} {e:?}"),
        Output::Report(e, sum) => format!("reported {sum} {e:?}"),
        Output::Alert(a) => format!("{a:?}"),
    });
}

/// Numbers below `below`, the same ones each time.
fn cuts(count: usize, below: usize, seed: u64) -> Vec<usize> {
    let next = |n: usize| crate::sketch::mix(seed ^ n as u64) as usize % below.max(1);
    (0..count).map(next).collect()
}

fn compare(name: &str, cut: &[usize], whole: &RunOutput, parts: &RunOutput) {
    let first = parts.said.iter().zip(&whole.said).find(|(a, b)| a != b);
    assert!(first.is_none(), "{name}: cut at {cut:?}: {first:#?}");
    assert_eq!(parts.said.len(), whole.said.len(), "{name}: cut at {cut:?}");
    assert_eq!(
        (parts.counts, &parts.ledger),
        (whole.counts, &whole.ledger),
        "{name}: cut at {cut:?}"
    );
    let keys = |t: &RunOutput| t.kept.keys().copied().collect::<Vec<_>>();
    assert_eq!(keys(parts), keys(whole), "{name}: cut at {cut:?}: profiles kept");
    for (key, bytes) in &whole.kept {
        assert!(
            parts.kept.get(key) == Some(bytes),
            "{name}: cut at {cut:?}: profile of {key:?} differs"
        );
    }
}

/// Each detector, cut in two anywhere.
#[test]
fn every_detector_continues_from_any_cut() {
    let settings = settings();
    for (module, kind, write) in SCRIPTS {
        let mut script = Script::default();
        write(&mut script);
        let records = script.0;
        let whole = run(&records, &settings, ROOM, &[]);
        assert!(whole.said.iter().any(|s| s.contains(kind)), "{module}: {kind} is not reported");
        let all: Vec<usize> = match records.len() {
            n @ ..=32 => (0..n).collect(),
            n => cuts(8, n, n as u64),
        };
        for cut in all {
            let parts = run(&records, &settings, ROOM, &[cut]);
            compare(&format!("{module}: {kind}"), &[cut], &whole, &parts);
        }
        // Cut before each of the last records as well, so that states are read back that were read back.
        let every: Vec<usize> = (records.len().saturating_sub(16)..records.len()).collect();
        compare(module, &every, &whole, &run(&records, &settings, ROOM, &every));
    }
}

/// All scripts at once in order of time, over many windows, with sources seen once, and with names and
/// addresses that a whitelist passes over.
fn all_together() -> Vec<Vec<u8>> {
    let mut all = Script::default();
    for (_, _, write) in SCRIPTS {
        write(&mut all);
    }
    for n in 0..2_000u32 {
        let mut flow = crate::trial::conn(i64::from(n) * 7, "10.0.0.1", "5.5.5.5", 443).refused();
        flow.src = Ip::v4(0x2000_0000 + n.wrapping_mul(2_654_435_761) % (1 << 28));
        all.0.push(crate::hostile::parcel_of(&flow.record()));
    }
    all.0.sort_by_cached_key(|bytes| record(bytes).ts);
    all.0
}

fn listed() -> Settings {
    let list = "\"IoCType\",\"IoCValue\",\"Direction\",\"IgnoreType\"\n\
        domain,a.example,both,alerts\nip,1.2.3.7,dst,both\n";
    let whitelist = Arc::new(Whitelist::parse(list, &|_| None).0);
    Settings { whitelist, ..settings() }
}

#[test]
fn all_detectors_together_continue_from_random_cuts() {
    let records = all_together();
    for (name, mut settings) in [("no list", settings()), ("whitelist", listed())] {
        settings.alert_threshold = 0.01;
        let whole = run(&records, &settings, ROOM, &[]);
        assert!(whole.counts.windows > 3 && whole.counts.alerts > 0, "{:?}", whole.counts);
        for round in 0..6 {
            let cut = cuts(5, records.len(), round);
            compare(name, &cut, &whole, &run(&records, &settings, ROOM, &cut));
        }
    }
}

/// A checkpoint of another budget: nobody is lost, and what there is room for no more is folded.
#[test]
fn another_number_of_shards_takes_all_profiles_in() {
    let records = all_together();
    let settings = settings();
    for other in [1 << 20, 64 << 20] {
        let mut first = engine(&settings, ROOM);
        let half = records.len() / 2;
        let mut output = RunOutput::default();
        records[..half].iter().for_each(|b| first.record(&record(b), &mut |_| {}));
        let held = first.ledger().in_flight().items;
        let mut parts = Vec::new();
        first.save(&mut |section, bytes| parts.push((section, bytes)));
        let mut next = engine(&settings, other);
        parts.iter().for_each(|(section, bytes)| next.restore(*section, bytes).unwrap());
        let ledger = next.ledger();
        ledger.balance().unwrap();
        let folded = next.counts().folded - first.counts().folded;
        assert_eq!(ledger.in_flight().items + folded, held, "{other}");
        records[half..]
            .iter()
            .for_each(|b| next.record(&record(b), &mut |f| said(f, &mut output.said)));
        next.finish(&mut |f| said(f, &mut output.said));
        next.ledger().balance().unwrap();
        assert!(!output.said.is_empty());
    }
}

/// What is damaged anywhere, cut off or of other settings is refused.
#[test]
fn what_is_none_is_refused() {
    let settings = settings();
    let mut first = engine(&settings, 1 << 20);
    let records = all_together();
    records[..500].iter().for_each(|b| first.record(&record(b), &mut |_| {}));
    let mut parts = Vec::new();
    first.save(&mut |section, bytes| parts.push((section, bytes)));
    for (section, bytes) in &parts {
        for len in cuts(50, bytes.len(), 3) {
            assert!(
                engine(&settings, 1 << 20).restore(*section, &bytes[..len]).is_err(),
                "{section:?}"
            );
        }
    }
    let wider = Settings { window_ns: settings.window_ns * 2, ..settings };
    let refused = engine(&wider, 1 << 20).restore(parts[0].0, &parts[0].1);
    assert_eq!(refused, Err(crate::error::RestoreError::OtherSettings));
}
