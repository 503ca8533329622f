//! Warm events that no rule matches allocate nothing, with all of the shipped rules.

mod replay;
mod shipped_rules;

use gabion_condition::rules::{Match, Matching, RuleMatcher};
use gabion_record::budget::Budget;
use gabion_record::fields::Fields;
use gabion_runtime::allocator::CountingAllocator;
use gabion_scap::{Event, Item, Values, Writer, host, table, types};
use gabion_syscall::{Options, State};

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;

/// Events before the loop is warm, and those that are counted.
const WARM: u64 = 2_000;
const COUNTED: u64 = 100_000;

/// One round of a server at work: calls that rules look at, none of which one forbids.
fn round() -> Vec<(u16, Vec<Vec<u8>>)> {
    let long = |n: i64| n.to_le_bytes().to_vec();
    let word = |n: u32| n.to_le_bytes().to_vec();
    let text = |t: &str| format!("{t}\0").into_bytes();
    let tuple = {
        let mut tuple = vec![2, 10, 0, 0, 1];
        tuple.extend(5000_u16.to_le_bytes());
        tuple.extend([10, 0, 0, 2, 80, 0]);
        tuple
    };
    let openat = vec![long(3), long(-100), text("index.html"), word(1), word(0), word(8), long(99)];
    vec![
        (types::OPENAT_2_X, openat),
        (types::READ_X, vec![long(4), b"data".to_vec(), long(3), word(4)]),
        (types::SOCKET_X, vec![long(4), word(2), word(1), word(0), word(0)]),
        (types::CONNECT_X, vec![long(0), tuple, long(4), vec![]]),
        (types::WRITE_X, vec![long(4), b"data".to_vec(), long(4), word(4)]),
        (types::MKDIR_2_X, vec![long(0), text("/srv/www/new"), word(0o755)]),
        (types::RENAME_X, vec![long(0), text("/srv/www/new"), text("/srv/www/old")]),
        (types::UNLINK_2_X, vec![long(0), text("/srv/www/old")]),
        (types::CLOSE_X, vec![long(0), long(4)]),
        (types::CLOSE_X, vec![long(0), long(3)]),
    ]
}

#[test]
fn warm_events_without_a_match_allocate_nothing_with_the_shipped_rules() {
    let name = "warm_events_without_a_match_allocate_nothing_with_the_shipped_rules";
    let Some(folder) = replay::corpus(name) else { return };
    let rules = shipped_rules::load(&folder);
    let mut writer = Writer::new(Vec::new());
    writer.section().unwrap();
    let process = host::ProcessEntry {
        tid: 7,
        pid: 7,
        ptid: 1,
        comm: b"httpd".to_vec(),
        exe: b"httpd".to_vec(),
        exepath: b"/usr/sbin/httpd".to_vec(),
        cwd: b"/srv/www/".to_vec(),
        ..Default::default()
    };
    writer.write(&Item::Process(Box::new(process))).unwrap();
    let round: Vec<(u16, Vec<u8>, Vec<u8>)> = round()
        .into_iter()
        .map(|(kind, values)| {
            let lengths =
                values.iter().flat_map(|v| u16::try_from(v.len()).unwrap().to_le_bytes()).collect();
            (kind, lengths, values.concat())
        })
        .collect();
    let path = tempfile_of(writer.finish().unwrap());
    let mut state = State::new(Options::default(), Budget::standalone("threads", 64 << 20));
    replay::run(&path, &mut state, |_, _| {});
    std::fs::remove_file(&path).unwrap();
    let (mut matcher, mut matched) = (RuleMatcher::new(&rules), Vec::<Match>::new());
    let (mut before, mut tried) = (0, 0);
    for n in 0..WARM + COUNTED {
        if n == WARM {
            before = CountingAllocator::count();
        }
        let (kind, lengths, bytes) = &round[n as usize % round.len()];
        let values = Values::new(table::event_type(*kind).unwrap(), lengths, bytes);
        let ts_ns = 1_700_000_000_000_000_000 + n;
        let (number, raw_number, tid, cpu, flags, enter) = (n, n, 7, 1, 0, None);
        let live = Default::default();
        let event = Event { number, raw_number, ts_ns, tid, cpu, flags, values, enter, live };
        state.apply(&event);
        let view = state.view(&event);
        let views = (&view as &dyn Fields, None);
        matcher.matches_either(&rules, views, Matching::All, &mut matched);
        tried += 1;
        assert!(matched.is_empty(), "{:?}", rules.rules()[matched[0].rule as usize].name);
    }
    let allocated = CountingAllocator::count() - before;
    assert_eq!(tried, WARM + COUNTED);
    assert!(before > 0, "the allocator counts");
    assert_eq!(allocated, 0, "in {COUNTED} events");
}

/// A file with these bytes.
fn tempfile_of(bytes: Vec<u8>) -> std::path::PathBuf {
    let path = std::env::temp_dir().join(format!("gabion-allocations-{}", std::process::id()));
    std::fs::write(&path, bytes).unwrap();
    path
}
