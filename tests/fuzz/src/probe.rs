//! Records of the rings that the kernel's programs fill: any bytes in several rings, in any order of time. What they give
//! is applied to a state, written to a file and read again.

use crate::seeds::Seeds;
use gabion_record::budget::Budget;
use gabion_record::fields::{Argument, Fields as _, Scratch, ids};
use gabion_scap::{Item, Merger, Reader, Writer};
use gabion_syscall::{Options, State};

/// Decodes a script of records; the file of the calls has the same calls.
pub fn records(data: &[u8]) {
    let options = Options { threads_max: 8, ..Options::default() };
    let mut state = State::new(options, Budget::standalone("threads", 64 * 1024));
    let mut writer = Writer::new(Vec::new());
    writer.section().expect("invariant: memory takes everything");
    let mut outcomes = Vec::new();
    let mut scratch = Scratch::new();
    let calls = gabion_probe::fuzz_records(data, &mut |call| {
        state.apply_numbered(&call.event, call.numbers);
        let given = state.view(&call.event);
        for view in [Some(given), given.by_opened()].into_iter().flatten() {
            for id in [ids::FD_NAME, ids::EVT_ARGS, ids::EVT_TOCTOU, ids::EVT_OPENED_PATH] {
                let _ = view.field(id, Argument::None, &mut scratch);
            }
        }
        writer.event(&call.event).expect("invariant: memory takes everything");
        outcomes.push((call.event.kind().number, call.event.live.toctou));
    });
    assert_eq!(outcomes.len() as u64, calls);
    let file = writer.finish().expect("invariant: memory takes everything");
    let mut reader = Reader::new(std::io::Cursor::new(file)).expect("invariant: it was written");
    let (mut merger, mut again) = (Merger::new(), Vec::new());
    while let Some(item) = reader.next_item().expect("invariant: it was written") {
        if let Item::Event(event) = item
            && let Some(event) = merger.merge(&event)
        {
            again.push((event.kind().number, event.live.toctou));
        }
    }
    merger.finish();
    assert_eq!(merger.counts().ledger.balance(), Ok(()), "invariant: raw = passed + merged + shed");
    let shed = merger.counts().ledger.shed_total().items;
    let lost = reader.counts().events.shed_total().items;
    assert!(again == outcomes || shed + lost > 0, "invariant: a file keeps each call");
}

/// A record of each type.
pub fn record_seeds(_: &Seeds) -> Vec<Vec<u8>> {
    gabion_probe::fuzz_seeds()
}
