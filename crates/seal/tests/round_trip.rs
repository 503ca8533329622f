//! A log from its making to its verification, through the public interface.

use gabion_seal::format::Builder;
use gabion_seal::storage::Memory;
use gabion_seal::verify::{Anchor, Options, Verdict, verify};
use gabion_seal::{
    Flags, Init, Kind, Policy, Record, SecretKey, Source, Transport, Writer, checkpoints,
};

const SECOND: u64 = 1_000_000_000;
const NOW: u64 = 1_700_000_000 * SECOND;

struct Log {
    log: Memory,
    state: Memory,
    key: SecretKey,
    now: u64,
}

impl Log {
    fn new() -> Log {
        let mut log = Memory::new();
        let state = Memory::new();
        Init::new("log.example/test", NOW).create(&mut log, state.clone()).unwrap();
        Log { log, state, key: SecretKey::generate().unwrap(), now: NOW }
    }

    fn open(&self) -> Writer<Memory> {
        let recipients = vec![self.key.recipient().clone()];
        Writer::open(self.log.clone(), self.state.clone(), recipients, Policy::default(), self.now)
            .unwrap()
            .0
    }

    fn fill(&mut self, writer: &mut Writer<Memory>, from: u64, count: u64) {
        let source = Source::new(Transport::Tcp, 1, "192.0.2.1:514", "");
        for n in from..from + count {
            self.now += SECOND / 100;
            let text = format!("<13>Nov 14 22:13:20 host app[{n}]: message number {n}");
            let record = Record {
                time_ns: self.now,
                kind: Kind::Message,
                flags: Flags::default(),
                bytes: text.as_bytes(),
            };
            writer.append(&record, &source).unwrap();
        }
        writer.commit(self.now).unwrap();
    }
}

#[test]
fn a_log_verifies_with_and_without_key_and_anchor() {
    let mut log = Log::new();
    for session in 0..3 {
        let mut writer = log.open();
        log.fill(&mut writer, session * 5_000, 5_000);
        if session == 1 {
            writer.switch_epoch_now(log.now).unwrap();
            log.fill(&mut writer, 90_000, 10);
        }
        writer.close(log.now).unwrap();
    }
    let report =
        verify(&log.log, &Options { jobs: 2, ..Options::default() }, &mut |_, _| {}).unwrap();
    assert_eq!(report.verdicts, [Verdict::Unanchored], "{:?}", report.places);
    assert_eq!((report.epochs, report.unsigned_chunks, report.is_closed), (2, 0, true));
    let last = checkpoints::tail(&log.log).unwrap().unwrap().last.unwrap();
    let keys = [log.key];
    let options = Options {
        jobs: 2,
        is_deep: true,
        keys: &keys,
        anchors: Anchor::parse_file("anchor", last.note.to_string().as_bytes()).unwrap(),
        ..Options::default()
    };
    let report = verify(&log.log, &options, &mut |_, _| {}).unwrap();
    assert_eq!(report.verdict(), Verdict::Ok, "{:?}", report.places);
    assert_eq!(report.opened_records, report.records);
    assert!(report.records > 15_010 && report.warnings.is_empty(), "{report:?}");
    assert!(Builder::new().is_empty());
}
