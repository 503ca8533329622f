//! What a run of Falco's rules reports of its worker: one that panics is named with what it had done, and one that stalls
//! is noticed, counted, and continues.

use gabion_runtime::Signals;
use gabion_scap::{Values, Writer, table, types};
use gabion_sensor::falco::{
    FalcoDone, FalcoEnd, FalcoFault, FalcoPlan, FalcoRun, load_falco_rules,
};
use gabion_sensor::packets::InputOpener;
use gabion_settings::falco::{apply_override, load_falco_configuration, read_falco_settings};
use std::fs;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Closes of descriptor 3, one a second.
fn capture(path: &Path, events: u64) {
    let mut writer = Writer::new(Vec::new());
    writer.section().unwrap();
    let kind = table::event_type(types::CLOSE_X).unwrap();
    let parameters = [0_i64.to_le_bytes(), 3_i64.to_le_bytes()].concat();
    for second in 0..events {
        let values = Values::new(kind, &[8, 0, 8, 0], &parameters);
        let ts_ns = (1_700_000_000 + second) * 1_000_000_001;
        let (number, raw_number, tid, cpu, flags, enter) = (0, 0, 7, 0, 0, None);
        let live = Default::default();
        let event =
            gabion_scap::Event { number, raw_number, ts_ns, tid, cpu, flags, values, enter, live };
        writer.event(&event).unwrap();
    }
    fs::write(path, writer.finish().unwrap()).unwrap();
}

/// A run over ten events, each of which alerts; `log` takes the lines of its log.
fn run(options: &[&str], log: &(dyn Fn(&str) + Sync)) -> FalcoDone {
    let folder = tempfile::tempdir().unwrap();
    let (file, rules) = (folder.path().join("ten.scap"), folder.path().join("rules.yaml"));
    capture(&file, 10);
    let rule = "- rule: closed\n  desc: d\n  condition: evt.type=close\n  output: closed\n  priority: NOTICE\n";
    fs::write(&rules, rule).unwrap();
    let mut config = load_falco_configuration(None).unwrap().tree;
    let replay = format!("engine.replay.capture_file={}", file.display());
    let all = ["engine.kind=replay", &replay, "log_stderr=false"];
    for option in all.iter().chain(options) {
        apply_override(&mut config, option).unwrap();
    }
    let settings = read_falco_settings(&config).unwrap();
    let rules = load_falco_rules(&[rules], &settings).unwrap().rules;
    let signals = Signals::install().unwrap();
    let plan = Arc::new(FalcoPlan { settings, rules });
    let (files, hostname) = (Vec::new(), String::new());
    let opener = InputOpener::new(gabion_runtime::files::direct_opener());
    let run = FalcoRun {
        opener: &opener,
        listen: &|_, _| Err(std::io::ErrorKind::Unsupported.into()),
        plan,
        files,
        hostname,
        seconds: None,
        recording: None,
        wants_statistics: false,
        container_stand_in: false,
        signals: &signals,
        reload: &mut || None,
        log,
    };
    run.run()
}

/// Every second one line is logged, by the worker itself.
const DROPS: [&str; 3] = [
    "syscall_event_drops.simulate_drops=true",
    "syscall_event_drops.actions[]=log",
    "syscall_event_drops.max_burst=100",
];

#[test]
fn a_worker_that_panics_is_named_and_what_it_lost_is_counted() {
    let done = run(&DROPS, &|line| assert!(!line.contains("dropped"), "the log is broken"));
    let FalcoEnd::Failed(why) = &done.end else { panic!("{:?}", done.end) };
    let FalcoFault::Panicked { message } = why else { panic!("{why}") };
    assert!(message.contains("the log is broken") && message.contains("falco_worker.rs"), "{why}");
    assert_eq!((done.events, done.alerts), (1, 2), "the second event's alert was written");
    assert!(done.ledgers.balance().is_ok());
    let stage = &done.ledgers.entries()[0];
    let lost = stage.ledger.shed_for(gabion_record::ledger::ShedReason::WorkerLost);
    assert_eq!((stage.stage.as_str(), lost.items), ("events>rules", 1));
    assert!(done.notes.iter().any(|note| note.contains("lost after 1 events")), "{:?}", done.notes);
}

#[test]
fn a_worker_that_stalls_is_noticed_and_counted_and_continues() {
    let lines = Mutex::new(Vec::new());
    let done = run(&DROPS, &|line| {
        let mut lines = lines.lock().unwrap();
        let is_first = lines.is_empty();
        lines.push(line.to_owned());
        drop(lines);
        if is_first {
            // An output that blocks is the usual cause.
            std::thread::sleep(Duration::from_secs(3));
        }
    });
    let lines = lines.into_inner().unwrap();
    assert!(matches!(done.end, FalcoEnd::Done), "{:?}", done.end);
    assert_eq!((done.events, done.alerts), (10, 10));
    assert!(lines.iter().any(|line| line.contains("did not beat")), "{lines:?}");
    assert!(done.notes.iter().any(|note| note.contains("stalled 1 times")), "{:?}", done.notes);
    assert!(done.ledgers.balance().is_ok());
}
