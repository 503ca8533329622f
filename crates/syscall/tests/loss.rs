//! A live stream that loses events gives in each cell the value of the full run or none, never another.
//!
//! Captures are replayed as a probe would send them: merged, with the numbers of events that change state. Every k-th event is
//! left out.

mod replay;

use std::collections::HashMap;

use gabion_record::budget::Budget;
use gabion_record::fields::{Argument, FieldId, Fields as _, Scratch, ids};
use gabion_scap::{Event, Item, types};
use gabion_syscall::{LossCounts, Numbers, Options, State, changes_state};

/// Numbers events as a probe does.
#[derive(Default)]
struct Probe {
    of_source: u64,
    of_thread: HashMap<i64, u64>,
}

impl Probe {
    fn number(&mut self, event: &Event<'_>) -> Numbers {
        let changes = u64::from(changes_state(event.kind().number));
        self.of_source += changes;
        let of_thread = self.of_thread.entry(event.tid).or_default();
        *of_thread += changes;
        let numbers = Numbers { of_source: self.of_source, of_thread: *of_thread };
        if event.kind().number == types::PROCEXIT_1_E {
            self.of_thread.remove(&event.tid);
        }
        numbers
    }
}

/// What is compared: without the numbers, values after a loss are others.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Mode {
    Numbered,
    Plain,
}

/// All fields that depend on this event and the state alone, with a few arguments.
fn columns() -> Vec<(FieldId, Argument<'static>)> {
    let skipped = [
        // The event before may be lost.
        ids::EVT_DELTATIME,
        ids::EVT_DELTATIME_S,
        ids::EVT_DELTATIME_NS,
        // So may be the first event.
        ids::EVT_RELTIME,
        ids::EVT_RELTIME_S,
        ids::EVT_RELTIME_NS,
        // It names the difference that this test makes.
        ids::EVT_MISSING,
    ];
    let names = ids::NAMES.iter().map(|name| FieldId::by_name(name).unwrap());
    let mut all: Vec<_> = names
        .filter(|field| !skipped.contains(field) && !field.field().flags.argument_required)
        .map(|field| (field, Argument::None))
        .collect();
    for distance in 0..4 {
        all.extend([ids::PROC_ANAME, ids::PROC_APID].map(|f| (f, Argument::Index(distance))));
    }
    all.extend((0..8).map(|place| (ids::EVT_ARG, Argument::Index(place))));
    all.push((ids::PROC_ENV, Argument::Key("PATH")));
    all
}

type Row = Vec<Option<String>>;

fn row(state: &State, event: &Event<'_>, columns: &[(FieldId, Argument<'static>)]) -> Row {
    let (view, mut scratch) = (state.view(event), Scratch::new());
    let value = |(field, argument): &(FieldId, Argument<'static>)| {
        view.field(*field, *argument, &mut scratch).ok().map(|value| format!("{value:?}"))
    };
    columns.iter().map(value).collect()
}

/// The capture without every k-th event: the values that were given, the values of the full run, and those that differ.
fn replay_with_gaps(
    path: &std::path::Path,
    k: u64,
    mode: Mode,
    full: &HashMap<u64, Row>,
) -> (u64, u64, Vec<String>, LossCounts) {
    let columns = columns();
    let (mut probe, mut lossy) = (Probe::default(), state());
    let (mut n, mut given, mut of) = (0_u64, 0_u64, 0_u64);
    let mut wrong = Vec::new();
    replay::each_item(path, |item| match item {
        Item::Event(event) => {
            let numbers = probe.number(&event);
            n += 1;
            if n % k == 0 {
                return;
            }
            match mode {
                Mode::Numbered => lossy.apply_numbered(&event, numbers),
                Mode::Plain => lossy.apply(&event),
            }
            let got = row(&lossy, &event, &columns);
            let wanted = &full[&event.number];
            for ((got, wanted), (field, argument)) in got.iter().zip(wanted).zip(&columns) {
                of += u64::from(wanted.is_some());
                given += u64::from(got.is_some());
                if got.is_some() && got != wanted {
                    let kind = event.kind().constant;
                    let line = format!(
                        "{} {kind} {} {argument:?}: {got:?} for {wanted:?}",
                        event.number,
                        field.name()
                    );
                    wrong.push(line.chars().take(400).collect());
                }
            }
        }
        item => lossy.add(item),
    });
    (given, of, wrong, *lossy.loss())
}

fn state() -> State {
    State::new(Options::default(), Budget::standalone("threads", 256 << 20))
}

/// The values of all events of the whole capture.
fn full_run(path: &std::path::Path) -> HashMap<u64, Row> {
    let (columns, mut full) = (columns(), HashMap::new());
    assert!(columns.len() > 270);
    replay::run(path, &mut state(), |state, event| {
        full.insert(event.number, row(state, event, &columns));
    });
    full
}

#[test]
fn a_stream_with_gaps_gives_the_full_runs_values_or_none() {
    let Some(folder) = replay::corpus("a_stream_with_gaps_gives_the_full_runs_values_or_none")
    else {
        return;
    };
    for name in [
        "falco-psp-run_as_user_0_container",
        "libs-curl_google",
        "sysflow-client-server-tcp-client-server",
        "sysflow-files-filesat",
        "sysflow-namespaces-setns",
    ] {
        let path = folder.join("captures").join(format!("{name}.scap"));
        let full = full_run(&path);
        for k in [2, 3, 7, 50, 333] {
            let (given, of, wrong, loss) = replay_with_gaps(&path, k, Mode::Numbered, &full);
            eprintln!("{name} k={k}: {given} of {of} values, {loss:?}");
            assert!(wrong.is_empty(), "{} values are others: {:#?}", wrong.len(), &wrong[..1]);
            // A few captures have fewer events that change state than that.
            assert!((loss.is_any() || k > 50) && given * 4 > of, "{given} of {of} values");
        }
    }
}

#[test]
fn without_numbers_a_loss_gives_wrong_values() {
    let Some(folder) = replay::corpus("without_numbers_a_loss_gives_wrong_values") else { return };
    let path = folder.join("captures/falco-psp-run_as_user_0_container.scap");
    let (_, _, wrong, loss) = replay_with_gaps(&path, 3, Mode::Plain, &full_run(&path));
    assert!(!wrong.is_empty() && !loss.is_any());
}
