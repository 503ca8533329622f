//! A warm loop over events allocates nothing: reader, merger, state and a condition that never holds.

use gabion_condition::compile::Filter;
use gabion_record::budget::Budget;
use gabion_runtime::allocator::CountingAllocator;
use gabion_scap::{Event, Item, Merger, Reader, Values, Writer, host, table, types};
use gabion_syscall::{Options, State};

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;

/// Events before the loop is warm, and those that are counted.
const WARM: u64 = 2_000;
const COUNTED: u64 = 100_000;

/// A process that opens a file, reads and writes it with their enter events as old programs recorded them, and closes it,
/// again and again.
fn capture() -> Vec<u8> {
    let mut writer = Writer::new(Vec::new());
    writer.section().unwrap();
    let process = host::ProcessEntry {
        tid: 7,
        pid: 7,
        ptid: 1,
        comm: b"cat".to_vec(),
        exe: b"cat".to_vec(),
        ..Default::default()
    };
    writer.write(&Item::Process(Box::new(process))).unwrap();
    let fd = 3_i64.to_le_bytes();
    let size = 4_u32.to_le_bytes();
    let long = 9_u64.to_le_bytes();
    let zero = 0_i64.to_le_bytes();
    let events: [(u16, &[&[u8]]); 6] = [
        (types::OPEN_X, &[&fd, b"/tmp/x\0", &size, &size, &size, &long]),
        (types::READ_E, &[&fd, &size]),
        (types::READ_X, &[&zero, b"data"]),
        (types::WRITE_E, &[&fd, &size]),
        (types::WRITE_X, &[&zero, b"data"]),
        (types::CLOSE_X, &[&zero, &fd]),
    ];
    for n in 0..2 * (WARM + COUNTED) {
        let (kind, values) = events[n as usize % events.len()];
        let lengths: Vec<u8> =
            values.iter().flat_map(|v| u16::try_from(v.len()).unwrap().to_le_bytes()).collect();
        let bytes = values.concat();
        let values = Values::new(table::event_type(kind).unwrap(), &lengths, &bytes);
        let ts_ns = 1_700_000_000_000_000_000 + n;
        let (number, raw_number, tid, cpu, flags, enter) = (0, 0, 7, 1, 0, None);
        let live = Default::default();
        let event = Event { number, raw_number, ts_ns, tid, cpu, flags, values, enter, live };
        writer.event(&event).unwrap();
    }
    writer.finish().unwrap()
}

#[test]
fn warm_events_without_a_match_allocate_nothing() {
    let file = capture();
    let mut reader = Reader::new(std::io::Cursor::new(file)).unwrap();
    let mut merger = Merger::new();
    let mut state = State::new(Options::default(), Budget::standalone("threads", 64 << 20));
    let text =
        "proc.name=nobody or fd.name startswith /etc or (evt.type=write and evt.arg.res > 5)";
    let mut filter = Filter::new(text).unwrap();
    let (mut passed, mut matched, mut before) = (0, 0, 0);
    while let Some(item) = reader.next_item().unwrap() {
        let event = match item {
            Item::Event(ref event) => merger.merge(event),
            item => {
                state.add(item);
                continue;
            }
        };
        let Some(event) = event else { continue };
        state.apply(&event);
        matched += u64::from(filter.matches(&state.view(&event)));
        passed += 1;
        if passed == WARM {
            before = CountingAllocator::count();
        }
        if passed == WARM + COUNTED {
            break;
        }
    }
    let allocated = CountingAllocator::count() - before;
    assert_eq!((passed, matched), (WARM + COUNTED, 0));
    assert!(before > 0, "the allocator counts");
    assert_eq!(allocated, 0, "in {COUNTED} events");
}
