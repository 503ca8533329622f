//! The state of system calls: events of any type with any parameters, lists of processes and gaps in numbers. All
//! fields are asked for after each event.

use crate::seeds::Seeds;
use gabion_record::budget::Budget;
use gabion_record::fields::{Argument, FieldId, Fields as _, Scratch, ids};
use gabion_scap::host::ProcessEntry;
use gabion_scap::table::{event_type, event_types};
use gabion_scap::{Event, Values};
use gabion_syscall::{Numbers, Options, State};

/// Small, so that inputs of a few kilobytes reach it.
const BUDGET: u64 = 48 * 1024;
/// Threads in the table; events are of twice as many.
const THREADS: usize = 8;

/// What a step of a script does.
enum Step {
    Event,
    NumberedEvent,
    Process,
    Exit,
}

/// Takes this many bytes, or those that are left.
fn take<'a>(rest: &mut &'a [u8], len: usize) -> &'a [u8] {
    let (taken, left) = rest.split_at(len.min(rest.len()));
    *rest = left;
    taken
}

/// The parameters of an event: those of fixed size have it unless the script says otherwise, others a length of one byte.
fn parameters(number: u16, rest: &mut &[u8]) -> (Vec<u8>, Vec<u8>) {
    let Some(kind) = event_type(number) else { return (Vec::new(), Vec::new()) };
    let (mut lengths, mut bytes) = (Vec::new(), Vec::new());
    for parameter in kind.parameters {
        let Some(len) = take(rest, 1).first().copied() else { break };
        let size = parameter.kind.size().filter(|_| len < 250).unwrap_or(usize::from(len % 64));
        // Small numbers are more useful than any: descriptors and threads that exist.
        let value = match size {
            8 if len < 200 => i64::from(len % 40).wrapping_sub(2).to_le_bytes().to_vec(),
            _ => take(rest, size).to_vec(),
        };
        if kind.is_large() {
            lengths.extend_from_slice(&(value.len() as u32).to_le_bytes())
        } else {
            lengths.extend_from_slice(&(value.len() as u16).to_le_bytes())
        }
        bytes.extend_from_slice(&value);
    }
    (lengths, bytes)
}

/// Asks for all fields, with and without arguments.
fn ask(state: &State, event: &Event<'_>, scratch: &mut Scratch) {
    let view = state.view(event);
    for name in ids::NAMES {
        let Some(field) = FieldId::by_name(name) else { continue };
        for argument in [Argument::None, Argument::Index(1), Argument::Key("name")] {
            let _ = view.field(field, argument, scratch);
        }
    }
}

/// Runs a script: each step begins with a byte of what it does and a byte of the thread.
pub fn state(data: &[u8]) {
    let mut rest = data;
    let options = Options { threads_max: THREADS, ..Options::default() };
    let mut state = State::new(options, Budget::standalone("threads", BUDGET));
    let mut scratch = Scratch::new();
    let mut numbers = Numbers::default();
    let mut ts_ns = 1_u64;
    while let [what, thread, ..] = *take(&mut rest, 2) {
        ts_ns = ts_ns.wrapping_add(u64::from(what) << 20);
        let tid = i64::from(thread % (2 * THREADS as u8));
        let step = match what % 8 {
            0 => Step::Process,
            1 => Step::NumberedEvent,
            2 => Step::Exit,
            _ => Step::Event,
        };
        if let Step::Process = step {
            let parts = take(&mut rest, 24).to_vec();
            let number = |at: usize| i64::from(parts.get(at).copied().unwrap_or(0) % 20) - 1;
            state.add_process(&ProcessEntry {
                tid,
                pid: number(0),
                ptid: number(1),
                sid: number(2),
                cwd: parts.clone(),
                args: parts,
                ..ProcessEntry::default()
            });
            continue;
        }
        let [low, high] = *take(&mut rest, 2) else { break };
        let number = match step {
            Step::Exit => gabion_scap::types::PROCEXIT_1_E,
            _ => u16::from_le_bytes([low, high]) % event_types().len() as u16,
        };
        let Some(kind) = event_type(number) else { continue };
        let (lengths, bytes) = parameters(number, &mut rest);
        let values = Values::new(kind, &lengths, &bytes);
        let event = Event {
            number: ts_ns,
            raw_number: ts_ns,
            ts_ns,
            tid,
            cpu: 0,
            flags: 0,
            values,
            enter: None,
            live: gabion_scap::LiveValues::default(),
        };
        if let Step::NumberedEvent = step {
            numbers.of_source += u64::from(high);
            numbers.of_thread += u64::from(low & 3);
            state.apply_numbered(&event, numbers);
        } else {
            state.apply(&event);
        }
        ask(&state, &event, &mut scratch);
        let (threads, counts) = (state.threads(), state.threads().counts);
        assert!(threads.len() <= THREADS, "the table has a size");
        assert!(threads.held() <= BUDGET || threads.len() <= 2, "{} bytes", threads.held());
        let gone = counts.ended + counts.replaced + counts.shed_dead + counts.shed_idle;
        assert_eq!(counts.added, gone + threads.len() as u64, "{counts:?}");
    }
    state.clear();
    assert_eq!(state.threads().len(), 0);
    // Gaps in numbers are only noticed, never a reason to refuse an event.
    gabion_record::limits::take_reached();
}

/// A script for each type of event, whose parameters are small numbers and short texts.
pub fn scripts(_: &Seeds) -> Vec<Vec<u8>> {
    let one = |number: u16| {
        let mut script = vec![0, 3, 4, 2, 1];
        script.extend([b'/'; 21]);
        for thread in [3, 4] {
            script.extend([3, thread]);
            script.extend(number.to_le_bytes());
            script.extend((0..40).flat_map(|_| [6, b'a', b'/', b'b', 0, 1, 2]));
        }
        script.extend([2, 3, 0, 0]);
        script
    };
    (0..event_types().len() as u16).map(one).collect()
}
