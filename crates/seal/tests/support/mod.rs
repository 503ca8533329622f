//! Logs to attack: made in memory, taken apart and put together again as somebody would who can write
//! to the disk.
#![allow(dead_code, reason = "each test uses some of it")]

use gabion_seal::Stanza;
use gabion_seal::checkpoints::Checkpoint;
use gabion_seal::format::chunk::{self, Header, Mark};
use gabion_seal::format::segment::{self, Parsed};
use gabion_seal::format::walk::{Item, Walk};
use gabion_seal::storage::{Memory, Storage};
use gabion_seal::verify::{Anchor, Options, Report, verify};
use gabion_seal::{
    Flags, Init, Kind, Policy, Record, SecretKey, Source, Transport, Writer, checkpoints,
};

pub(crate) const SECOND: u64 = 1_000_000_000;
pub(crate) const NOW: u64 = 1_700_000_000 * SECOND;

/// A log, its signer's state and a reader's key.
pub(crate) struct Log {
    pub(crate) log: Memory,
    pub(crate) state: Memory,
    pub(crate) keys: [SecretKey; 1],
    pub(crate) now: u64,
    pub(crate) policy: Policy,
}

impl Log {
    /// An empty log.
    pub(crate) fn new() -> Log {
        Log::named("log.example/test")
    }

    pub(crate) fn named(origin: &str) -> Log {
        let (mut log, state) = (Memory::new(), Memory::new());
        Init::new(origin, NOW).create(&mut log, state.clone()).unwrap();
        let policy = Policy { chunk_plain: 4 << 10, ..Policy::default() };
        Log { log, state, keys: [SecretKey::generate().unwrap()], now: NOW, policy }
    }

    /// A closed log of two segments and two epochs, with many chunks in each, signed to its end.
    pub(crate) fn filled() -> Log {
        let mut log = Log::new();
        let mut writer = log.open();
        log.fill(&mut writer, 200);
        writer.switch_epoch_now(log.now).unwrap();
        log.fill(&mut writer, 200);
        writer.close(log.now).unwrap();
        let mut writer = log.open();
        log.fill(&mut writer, 200);
        writer.close(log.now).unwrap();
        log
    }

    pub(crate) fn open(&self) -> Writer<Memory> {
        self.try_open().unwrap()
    }

    pub(crate) fn try_open(&self) -> gabion_seal::Result<Writer<Memory>> {
        let recipients = vec![self.keys[0].recipient().clone()];
        Ok(Writer::open(
            self.log.clone(),
            self.state.clone(),
            recipients,
            self.policy.clone(),
            self.now,
        )?
        .0)
    }

    /// Appends records, a commit for every 50.
    pub(crate) fn fill(&mut self, writer: &mut Writer<Memory>, count: u64) {
        for n in 0..count {
            self.now += SECOND / 100;
            append(
                writer,
                self.now,
                &format!("<13>Nov 14 22:13:20 host app[{n}]: message number {n}"),
            );
            if n % 50 == 49 {
                writer.commit(self.now).unwrap();
            }
        }
        writer.commit(self.now).unwrap();
    }

    /// A copy with everything, as a backup is.
    pub(crate) fn copy(&self) -> Log {
        let key = SecretKey::parse_file(&self.keys[0].to_text().unwrap()).unwrap();
        Log {
            log: self.log.snapshot(),
            state: self.state.snapshot(),
            keys: [key],
            now: self.now,
            policy: self.policy.clone(),
        }
    }

    pub(crate) fn verify(&self) -> Report {
        self.verify_with(&Options::default())
    }

    /// With the reader's key.
    pub(crate) fn verify_open(&self) -> Report {
        self.verify_with(&Options { keys: &self.keys, ..Options::default() })
    }

    pub(crate) fn verify_with(&self, options: &Options<'_>) -> Report {
        let options = Options {
            vkey: options.vkey.clone(),
            anchors: options.anchors.clone(),
            witnesses: options.witnesses.clone(),
            keys: options.keys,
            max_age: options.max_age,
            is_deep: options.is_deep,
            jobs: 2,
        };
        verify(&self.log, &options, &mut |_, _| {}).unwrap()
    }

    /// Against the newest checkpoint of another state of the log.
    pub(crate) fn verify_anchored(&self, anchor: &Log) -> Report {
        self.verify_with(&Options { anchors: vec![anchor.anchor()], ..Options::default() })
    }

    /// The newest checkpoint, kept off the host.
    pub(crate) fn anchor(&self) -> Anchor {
        let last = checkpoints::tail(&self.log).unwrap().unwrap().last.unwrap();
        Anchor { from: "anchor".into(), note: last.note, checkpoint: last.checkpoint }
    }

    /// Names of segments in order.
    pub(crate) fn segments(&self) -> Vec<String> {
        self.log.list().unwrap().into_iter().filter(|n| n.ends_with(".gsl")).collect()
    }

    pub(crate) fn get(&self, name: &str) -> Vec<u8> {
        self.log.get(name).unwrap()
    }

    pub(crate) fn put(&self, name: &str, bytes: &[u8]) {
        self.log.put(name, bytes);
    }

    /// Items of a segment with their places.
    pub(crate) fn items(&self, name: &str) -> Vec<(usize, Item)> {
        let mut walk = Walk::new(&self.log, name).unwrap();
        let mut all = Vec::new();
        while let Some((at, item)) = walk.step().unwrap() {
            all.push((at as usize, item));
        }
        all
    }

    /// Chunks of a segment: where each begins and ends, and its head.
    pub(crate) fn chunks(&self, name: &str) -> Vec<(std::ops::Range<usize>, Header)> {
        let items = self.items(name).into_iter();
        items
            .filter_map(|(at, item)| match item {
                Item::Chunk(header) => {
                    Some((at..at + chunk::HEADER_LEN + header.body_len as usize, header))
                }
                _ => None,
            })
            .collect()
    }

    /// Commit marks of a segment.
    pub(crate) fn marks(&self, name: &str) -> Vec<(usize, Mark)> {
        let items = self.items(name).into_iter();
        items
            .filter_map(|(at, item)| match item {
                Item::Mark(mark) => Some((at, mark)),
                _ => None,
            })
            .collect()
    }

    pub(crate) fn header(&self, name: &str) -> segment::Header {
        match segment::Header::parse(&self.get(name)).unwrap() {
            Parsed::Known(header) => header,
            Parsed::Unsupported(what) => panic!("{what}"),
        }
    }

    /// The data key of a segment, as a reader has it.
    pub(crate) fn data_key(&self, name: &str) -> [u8; 32] {
        let stanzas = Stanza::parse_all(&self.get(&name.replace(".gsl", ".keys"))).unwrap();
        *stanzas[0].unwrap(&self.keys[0], &self.header(name)).unwrap()
    }

    /// Where each note of `checkpoints` begins and ends.
    pub(crate) fn notes(&self) -> Vec<(std::ops::Range<usize>, Checkpoint)> {
        let mut reader = checkpoints::Reader::new(&self.log).unwrap().unwrap();
        let mut all = Vec::new();
        while let checkpoints::Next::Entry(entry) = reader.step().unwrap() {
            let start = entry.offset as usize;
            let len = checkpoints::frame(&entry.note.to_string()).len();
            all.push((start..start + len, entry.checkpoint));
        }
        all
    }

    /// Cuts `checkpoints` after the last note of at most this size.
    pub(crate) fn cut_checkpoints(&self, size: u64) {
        let end = self
            .notes()
            .into_iter()
            .filter(|(_, c)| c.size <= size)
            .map(|(r, _)| r.end)
            .max()
            .unwrap();
        let bytes = self.get(checkpoints::FILE);
        self.put(checkpoints::FILE, &bytes[..end]);
    }

    /// Changes a file's bytes.
    pub(crate) fn change(&self, name: &str, f: impl FnOnce(&mut Vec<u8>)) {
        let mut bytes = self.get(name);
        f(&mut bytes);
        self.put(name, &bytes);
    }
}

pub(crate) fn append(writer: &mut Writer<Memory>, now: u64, text: &str) {
    append_to(writer, now, text);
}

pub(crate) fn append_to<S: Storage>(writer: &mut Writer<S>, now: u64, text: &str) {
    let source = Source::new(Transport::Tcp, 1, "192.0.2.1:514", "");
    let record = Record {
        time_ns: now,
        kind: Kind::Message,
        flags: Flags::default(),
        bytes: text.as_bytes(),
    };
    writer.append(&record, &source).unwrap();
}
