//! The sink of a listener: the sealed log, and what is done when its disk fails it.
//!
//! What was appended and not yet made durable is held here too, because a writer whose disk refused it
//! has no second try: a sync that failed once says yes the next time, whatever the disk holds. So it is
//! dropped, the log is opened anew, which finds out what is really there, and what is held is sealed
//! again. A record whose first copy had reached the disk after all then stands there twice.
//!
//! On a full disk the room kept in reserve is given back first: what is held is sealed in it, and that
//! the disk is full is stated. Behind that, by choice: senders wait (`block`), messages are counted and
//! given up (`drop`), or a second log elsewhere takes over (`--spill`), whose end is stated in the first
//! log when that goes on. Nothing that was acknowledged depends on any of this: it was durable before.

use super::account::now_ns;
use super::sealed::LogPlace;
use super::sealer::{Dropped, Sink, own_source};
use crate::exit::Fault;
use crate::limits::GIVEN_UP_SOURCES_MAX;
use crate::log::folders::guard_secrets;
use gabion_runtime::StopFlag;
use gabion_seal::record::{Flags, Kind, Record, Source};
use gabion_seal::statement::statement;
use gabion_seal::storage::Files;
use gabion_seal::text::base64;
use gabion_seal::writer::Writer;
use gabion_seal::{Error, checkpoints};
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// What is done while the log's disk is full.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum OnFull {
    /// Senders that can wait are made to; of the others the kernel drops, and is asked how many
    Block,
    /// Messages are taken, counted by source and given up; none of them is acknowledged
    Drop,
}

/// How often it is tried whether a disk has room again.
const TRY_EVERY: Duration = Duration::from_millis(500);

/// Messages that are in the writer and not durable yet.
#[derive(Default)]
struct Held {
    bytes: Vec<u8>,
    records: Vec<(u64, Kind, Flags, u32, usize)>,
    sources: Vec<Source>,
}

impl Held {
    fn push(&mut self, source: &Source, time_ns: u64, kind: Kind, flags: Flags, bytes: &[u8]) {
        // Messages come in runs of few sources.
        let recent = self.sources.iter().rev().take(8).position(|s| s == source);
        let at = match recent {
            Some(back) => self.sources.len() - 1 - back,
            None => {
                self.sources.push(source.clone());
                self.sources.len() - 1
            }
        };
        self.bytes.extend_from_slice(bytes);
        self.records.push((time_ns, kind, flags, at as u32, self.bytes.len()));
    }

    fn clear(&mut self) {
        self.bytes.clear();
        self.records.clear();
        self.sources.clear();
    }

    fn each<E>(&self, mut f: impl FnMut(&Source, Record<'_>) -> Result<(), E>) -> Result<(), E> {
        let mut start = 0;
        for &(time_ns, kind, flags, source, end) in &self.records {
            let (Some(source), Some(bytes)) =
                (self.sources.get(source as usize), self.bytes.get(start..end))
            else {
                continue;
            };
            f(source, Record { time_ns, kind, flags, bytes })?;
            start = end;
        }
        Ok(())
    }
}

/// Where messages go now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    /// Into the log.
    Log,
    /// Nowhere: its disk is full.
    Full,
    /// Into the log that was named for that.
    Aside,
}

/// The log with all that.
pub(crate) struct EnduringLog {
    place: LogPlace,
    aside: Option<LogPlace>,
    on_full: OnFull,
    stop: StopFlag,
    way: Way,
    writer: Option<Writer<Files>>,
    held: Held,
    /// Given up since the sealer asked last.
    dropped: Dropped,
    /// Given up since the disk was full, by peer: messages, first and last second.
    given_up: BTreeMap<String, (u64, u64, u64)>,
    full_since: u64,
    next_try: Instant,
}

impl EnduringLog {
    /// Opens the log, or makes it. A log to spill into is made too, so that it is known now whether it can.
    pub(crate) fn open(
        place: LogPlace,
        aside: Option<LogPlace>,
        on_full: OnFull,
        stop: StopFlag,
    ) -> Result<EnduringLog, Fault> {
        if let Some(text) = guard_secrets().complaint() {
            eprintln!("gabion: {text}");
        }
        // Both before anything is written to one: where one can't be, the other is not left behind.
        let made = place.make()?;
        if let Some(aside) = &aside {
            aside.make().inspect_err(|_| made.remove())?;
        }
        if !place.reserve() {
            eprintln!(
                "gabion: {}: no room for a reserve of 1 MiB: when the disk is full, what happened can't be stated",
                place.log.display()
            );
        }
        let writer = place.open()?;
        let mut log = EnduringLog {
            place,
            aside,
            on_full,
            stop,
            way: Way::Log,
            writer: Some(writer),
            held: Held::default(),
            dropped: Dropped::default(),
            given_up: BTreeMap::new(),
            full_since: 0,
            next_try: Instant::now(),
        };
        if let Some(aside) = &log.aside {
            // What an earlier run left there and could not state any more.
            if let (Some(spill), Some(writer)) = (told(aside), log.writer.as_mut()) {
                let wrong =
                    |e: Error| Fault::environment(format!("{}: {e}", log.place.log.display()));
                writer.state(&[spill], 0).and_then(|()| writer.commit(now_ns())).map_err(wrong)?;
            }
        }
        Ok(log)
    }

    fn fault(&self, e: &Error) -> Fault {
        let text = format!("{}: {e}: nothing more is acknowledged", self.place.log.display());
        Fault::environment(text)
    }

    /// The writer's disk refused. Whatever way is found, what was held is durable in it.
    fn endure(&mut self, e: Error) -> Result<(), Fault> {
        let Error::Storage { source, .. } = &e else { return Err(self.fault(&e)) };
        let is_full = is_full(source);
        self.writer = None;
        eprintln!("gabion: {}: {e}", self.place.log.display());
        if self.way == Way::Aside {
            self.way = Way::Full;
        }
        let had_reserve = self.place.release();
        if is_full && !had_reserve {
            // No last words: the disk was full before.
        } else if let Ok(mut writer) = self.begin_again(&self.place.clone()) {
            if !is_full {
                eprintln!("gabion: {}: goes on in a new segment", self.place.log.display());
                self.place.reserve();
                self.held.clear();
                self.writer = Some(writer);
                return Ok(());
            }
            let goes_on = match (&self.aside, self.on_full) {
                (Some(_), _) => "spill",
                (None, OnFull::Block) => "block",
                (None, OnFull::Drop) => "drop",
            };
            let full = statement("full", |json| json.field("policy", goes_on));
            let now = now_ns();
            let stated = writer
                .state(&[full], 0)
                .and_then(|()| writer.commit(now))
                .and_then(|()| writer.sign_checkpoint(now));
            self.writer = stated.is_ok().then_some(writer);
            self.held.clear();
        }
        if let Some(aside) = &self.aside
            && let Ok(writer) = self.begin_again(aside)
        {
            eprintln!("gabion: {}: goes on in {}", self.place.log.display(), aside.log.display());
            // The first log's end is stated where there is room for that.
            if let Some(first) = self.writer.replace(writer) {
                let _ = first.close(now_ns());
            }
            self.held.clear();
            self.full_since = now_ns();
            self.way = Way::Aside;
            return Ok(());
        }
        if !is_full {
            return Err(self.fault(&e));
        }
        let does = match self.on_full {
            OnFull::Block => "senders wait until it has room",
            OnFull::Drop => "messages are counted and given up until it has room",
        };
        eprintln!("gabion: {}: the disk is full: {does}", self.place.log.display());
        (self.way, self.full_since) = (Way::Full, now_ns());
        Ok(())
    }

    /// Opens a log and makes durable in it what is held.
    fn begin_again(&self, place: &LogPlace) -> Result<Writer<Files>, Error> {
        let mut writer = place.reopen()?;
        self.held.each(|source, record| writer.append(&record, source).map(|_| ()))?;
        writer.commit(now_ns())?;
        Ok(writer)
    }

    /// Whether there is room, after waiting for it where the policy is to wait.
    fn has_room(&mut self) -> Result<bool, Fault> {
        loop {
            if Instant::now() >= self.next_try {
                self.next_try = Instant::now() + TRY_EVERY;
                if self.try_again() {
                    return Ok(true);
                }
            }
            if self.on_full == OnFull::Drop {
                return Ok(false);
            }
            if self.stop.is_set() {
                let text = format!(
                    "{}: the disk is full: what could not be stored was not acknowledged; make room and start again",
                    self.place.log.display()
                );
                return Err(Fault::environment(text));
            }
            std::thread::sleep(TRY_EVERY / 5);
        }
    }

    /// Goes back to the log if its disk has room for a reserve again, and states what happened meanwhile.
    fn try_again(&mut self) -> bool {
        if !self.place.reserve() {
            return false;
        }
        let mut spilled = None;
        let again = match (self.way, self.writer.take()) {
            (Way::Aside, Some(mut aside)) => {
                // The first log has to be there before the other is left.
                let first = self.place.reopen();
                let is_durable = first.is_ok() && aside.commit(now_ns()).is_ok();
                let Some(first) = first.ok().filter(|_| is_durable) else {
                    self.writer = Some(aside);
                    return false;
                };
                let _ = aside.close(now_ns());
                spilled = self.aside.as_ref().and_then(told);
                Ok(first)
            }
            (_, Some(writer)) => Ok(writer),
            (_, None) => self.begin_again(&self.place),
        };
        let again = again.and_then(|mut writer| {
            self.held.clear();
            self.say(&mut writer, spilled)?;
            Ok(writer)
        });
        match again {
            Ok(writer) => {
                eprintln!("gabion: {}: has room again", self.place.log.display());
                self.writer = Some(writer);
                self.given_up.clear();
                self.way = Way::Log;
                true
            }
            Err(_) => {
                self.way = Way::Full;
                false
            }
        }
    }

    /// States what was given up or sealed elsewhere. Who sent it is for readers alone.
    fn say(&self, writer: &mut Writer<Files>, spilled: Option<Vec<u8>>) -> Result<(), Error> {
        let now = now_ns();
        let messages: u64 = self.given_up.values().map(|g| g.0).sum();
        let room = statement("room", |json| {
            json.number("full_since", self.full_since);
            json.number("given_up", messages);
        });
        writer.state(&[Some(room), spilled].into_iter().flatten().collect::<Vec<_>>(), 0)?;
        for (peer, (messages, first, last)) in &self.given_up {
            let loss = statement("loss", |json| {
                json.field("peer", peer);
                json.field("reason", "disk_full");
                json.number("second", *first);
                json.number("last_second", *last);
                json.number("messages", *messages);
            });
            let record =
                Record { time_ns: now, kind: Kind::System, flags: Flags::default(), bytes: &loss };
            writer.append(&record, &own_source())?;
        }
        writer.commit(now)
    }

    /// Counts a message that is given up. What the listener itself says is no message.
    fn give_up(&mut self, source: &Source, time_ns: u64, kind: Kind, bytes: &[u8]) {
        if kind != Kind::Message {
            return;
        }
        self.dropped.messages += 1;
        self.dropped.bytes += bytes.len() as u64;
        let peer = source.peer().rsplit_once(':').map_or_else(|| source.peer(), |(host, _)| host);
        let peer = if self.given_up.len() < GIVEN_UP_SOURCES_MAX || self.given_up.contains_key(peer)
        {
            peer
        } else {
            "others"
        };
        let second = time_ns / 1_000_000_000;
        let row = self.given_up.entry(peer.to_owned()).or_insert((0, second, second));
        row.0 += 1;
        row.2 = row.2.max(second);
    }

    /// Messages held by a writer that is no more, where nobody waits for room.
    fn give_up_held(&mut self) {
        let held = std::mem::take(&mut self.held);
        let done: Result<(), ()> = held.each(|source, record| {
            self.give_up(source, record.time_ns, record.kind, record.bytes);
            Ok(())
        });
        debug_assert!(done.is_ok());
    }
}

/// Whether the disk has no room, or not for this user.
fn is_full(e: &std::io::Error) -> bool {
    use std::io::ErrorKind::{FileTooLarge, QuotaExceeded, StorageFull};
    matches!(e.kind(), StorageFull | QuotaExceeded | FileTooLarge)
}

/// What a log that was spilled into holds: its name, and what its last checkpoint says.
fn told(aside: &LogPlace) -> Option<Vec<u8>> {
    let files = Files::open(&aside.log).ok()?;
    let last = checkpoints::tail(&files).ok()??.last?.checkpoint;
    (last.size > 0).then(|| {
        statement("spill", |json| {
            json.field("origin", &last.origin);
            json.number("size", last.size);
            json.field("root", base64(&last.root));
        })
    })
}

impl Sink for EnduringLog {
    fn append(
        &mut self,
        source: &Source,
        time_ns: u64,
        kind: Kind,
        flags: Flags,
        bytes: &[u8],
    ) -> Result<(), Fault> {
        if self.way == Way::Full && !self.has_room()? {
            self.give_up(source, time_ns, kind, bytes);
            return Ok(());
        }
        self.held.push(source, time_ns, kind, flags, bytes);
        let Some(writer) = &mut self.writer else {
            return Err(Fault::internal("the log is closed"));
        };
        match writer.append(&Record { time_ns, kind, flags, bytes }, source) {
            Ok(_) => Ok(()),
            Err(e) => self.endure(e),
        }
    }

    fn commit(&mut self) -> Result<(), Fault> {
        loop {
            let Some(writer) = &mut self.writer else {
                if self.held.records.is_empty() || self.has_room()? {
                    return Ok(());
                }
                self.give_up_held();
                return Ok(());
            };
            match writer.commit(now_ns()) {
                Ok(()) => {
                    self.held.clear();
                    return Ok(());
                }
                Err(e) => self.endure(e)?,
            }
            if self.held.records.is_empty() {
                return Ok(());
            }
        }
    }

    fn tick(&mut self) -> Result<(), Fault> {
        if self.way != Way::Log && Instant::now() >= self.next_try {
            self.next_try = Instant::now() + TRY_EVERY;
            self.try_again();
        }
        match self.writer.as_mut().map(|w| w.tick(now_ns())) {
            Some(Err(e)) => self.endure(e),
            _ => Ok(()),
        }
    }

    fn dropped(&mut self) -> Dropped {
        std::mem::take(&mut self.dropped)
    }

    fn is_full(&self) -> bool {
        self.way == Way::Full
    }

    fn close(&mut self) -> Result<(), Fault> {
        if self.way == Way::Full && !self.try_again() {
            let text =
                format!("{}: the disk is full: no closing statement", self.place.log.display());
            return Err(Fault::environment(text));
        }
        match self.writer.take() {
            Some(writer) => writer.close(now_ns()).map(|_| ()).map_err(|e| self.fault(&e)),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gabion_seal::SecretKey;
    use gabion_seal::reader::{Cursor, Found, Reader, Selection};
    use gabion_seal::record::Transport;
    use std::path::Path;

    fn place(folder: &Path, name: &str) -> LogPlace {
        LogPlace {
            log: folder.join(name),
            state: folder.join(format!("{name}.state")),
            recipients: vec![folder.join("recipient")],
            origin: format!("log.example/{name}"),
            new: crate::log::init::NewLog {
                checkpoint_chunks: 64,
                checkpoint_seconds: 10,
                allow_network_fs: false,
            },
            is_compressed: true,
        }
    }

    fn opened(folder: &Path, spills: bool) -> (EnduringLog, [SecretKey; 1]) {
        let key = SecretKey::generate().unwrap();
        std::fs::write(folder.join("recipient"), key.recipient().to_text()).unwrap();
        let aside = spills.then(|| place(folder, "aside"));
        let log =
            EnduringLog::open(place(folder, "log"), aside, OnFull::Block, StopFlag::new()).unwrap();
        (log, [key])
    }

    fn append(log: &mut EnduringLog, text: &str) {
        let source = Source::new(Transport::Udp, 0, "192.0.2.1:514", "");
        log.append(&source, now_ns(), Kind::Message, Flags::default(), text.as_bytes()).unwrap();
    }

    fn messages(path: &Path, keys: &[SecretKey]) -> Vec<String> {
        struct Texts(Vec<String>);
        impl gabion_seal::reader::Sink for Texts {
            fn record(&mut self, found: &Found<'_>) -> bool {
                if found.record.kind == Kind::Message {
                    self.0.push(String::from_utf8_lossy(found.record.bytes).into_owned());
                }
                true
            }
            fn unreadable(&mut self, what: &str) {
                panic!("{what}");
            }
        }
        let files = Files::open(path).unwrap();
        let mut texts = Texts(Vec::new());
        let mut reader = Reader::open(&files, keys).unwrap();
        reader.scan(Cursor::default(), &Selection::default(), &mut texts).unwrap();
        texts.0
    }

    fn input_output_error() -> Error {
        Error::Storage { name: "segment".into(), source: std::io::Error::from_raw_os_error(5) }
    }

    #[test]
    fn behind_a_failed_sync_what_was_not_durable_is_sealed_again() {
        let folder = tempfile::tempdir().unwrap();
        let (mut log, keys) = opened(folder.path(), false);
        append(&mut log, "durable");
        log.commit().unwrap();
        append(&mut log, "not yet");
        append(&mut log, "nor this");
        log.endure(input_output_error()).unwrap();
        assert_eq!(log.way, Way::Log);
        append(&mut log, "behind it");
        log.close().unwrap();
        let all = messages(&folder.path().join("log"), &keys);
        assert_eq!(all, ["durable", "not yet", "nor this", "behind it"]);
    }

    #[test]
    fn what_can_not_be_opened_again_ends_or_spills() {
        for spills in [false, true] {
            let folder = tempfile::tempdir().unwrap();
            let (mut log, keys) = opened(folder.path(), spills);
            append(&mut log, "durable");
            log.commit().unwrap();
            append(&mut log, "not yet");
            // As a disk that does not answer any more.
            std::fs::rename(folder.path().join("log"), folder.path().join("gone")).unwrap();
            let endured = log.endure(input_output_error());
            assert_eq!(endured.is_ok(), spills);
            assert_eq!(messages(&folder.path().join("gone"), &keys), ["durable"]);
            if spills {
                append(&mut log, "behind it");
                log.commit().unwrap();
                log.close().unwrap();
                let aside = messages(&folder.path().join("aside"), &keys);
                assert_eq!(aside, ["not yet", "behind it"]);
            }
        }
    }
}
