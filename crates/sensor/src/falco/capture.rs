//! Captures that alerts start: the last events are kept in a bounded ring, so that the file of an alert begins before it.

use crate::limits::{CAPTURE_FILE_BYTES_MAX, CAPTURE_RING_BYTES};
use gabion_record::files::{FileOpener, OpenMode};
use gabion_record::thousands::thousands;
use gabion_scap::{Event, Writer};
use gabion_settings::falco::CaptureSettings;
use gabion_syscall::State;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

/// The blocks of the last events, in two halves: the older one is emptied when the younger one is full.
#[derive(Default)]
struct Ring {
    older: Vec<u8>,
    younger: Vec<u8>,
    events: (u64, u64),
    /// Events that left the ring.
    left: u64,
    /// Bytes of the longest event until now.
    longest: usize,
}

impl Ring {
    /// An event comes. Its blocks (what a live source knew of it is in blocks of their own) stay in one half.
    fn begin_event(&mut self) {
        if self.younger.len() + self.longest > CAPTURE_RING_BYTES / 2 {
            std::mem::swap(&mut self.older, &mut self.younger);
            self.younger.clear();
            self.left += self.events.0;
            self.events = (self.events.1, 0);
        }
        self.events.1 += 1;
    }
}

impl Write for Ring {
    fn write(&mut self, block: &[u8]) -> io::Result<usize> {
        self.younger.extend_from_slice(block);
        Ok(block.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A file that is being written.
struct Open {
    path: PathBuf,
    to: BufWriter<File>,
    bytes: u64,
    /// Event time at which it ends.
    end_ns: u64,
}

/// The ring, and the file of the alert at hand.
pub(super) struct Captures {
    opener: FileOpener,
    settings: CaptureSettings,
    ring: Writer<Ring>,
    open: Option<Open>,
    files: u64,
    /// Events that a file has no place for: it reached its limit.
    cut: u64,
    faults: Vec<String>,
}

impl Captures {
    /// Files are made by `opener`.
    pub(super) fn new(opener: FileOpener, settings: CaptureSettings) -> Captures {
        Captures {
            opener,
            settings,
            ring: Writer::new(Ring::default()),
            open: None,
            files: 0,
            cut: 0,
            faults: Vec::new(),
        }
    }

    /// Keeps an event, also in the file that is being written.
    pub(super) fn keep(&mut self, event: &Event<'_>) {
        if self.open.as_ref().is_some_and(|open| event.ts_ns > open.end_ns) {
            self.close();
        }
        let ring = self.ring.get_mut();
        ring.begin_event();
        let before = ring.younger.len();
        // A ring refuses nothing.
        let _ = self.ring.event(event);
        let ring = self.ring.get_mut();
        ring.longest = ring.longest.max(ring.younger.len() - before);
        let Some(open) = &mut self.open else { return };
        let block = ring.younger.get(before..).unwrap_or_default();
        if open.bytes + block.len() as u64 > CAPTURE_FILE_BYTES_MAX {
            self.cut += 1;
            return;
        }
        open.bytes += block.len() as u64;
        if let Err(error) = open.to.write_all(block) {
            self.faults.push(format!("capture: {}: {error}", open.path.display()));
            self.open = None;
        }
    }

    /// Begins the file of an alert about the event that was kept last, or lets the one at hand last longer.
    /// `duration_ms`: what the rule says, 0 for the default.
    pub(super) fn begin(&mut self, state: &State, event: &Event<'_>, duration_ms: u64) {
        let duration_ms = if duration_ms > 0 { duration_ms } else { self.settings.duration_ms };
        let end_ns = event.ts_ns.saturating_add(duration_ms.saturating_mul(1_000_000));
        if let Some(open) = &mut self.open {
            open.end_ns = open.end_ns.max(end_ns);
            return;
        }
        let mut path = self.settings.path_prefix.clone().into_os_string();
        path.push(format!("_{:020}_{:020}.scap", event.ts_ns, event.number));
        let path = PathBuf::from(path);
        match self.write_beginning(&path, state) {
            Ok((to, bytes)) => {
                self.files += 1;
                self.open = Some(Open { path, to, bytes, end_ns });
            }
            Err(error) => self.faults.push(format!("capture: {}: {error}", path.display())),
        }
    }

    /// The list of what is known now, then the events of the ring.
    fn write_beginning(
        &mut self,
        path: &Path,
        state: &State,
    ) -> io::Result<(BufWriter<File>, u64)> {
        let file = self.opener.open(path, OpenMode::CreateNew)?;
        let mut writer = Writer::new(BufWriter::new(file));
        writer.section()?;
        let mut written = Ok(());
        state.list(&mut |item| {
            if written.is_ok() {
                written = writer.write(&item);
            }
        });
        written?;
        let mut to = writer.finish()?;
        let ring = self.ring.get_mut();
        to.write_all(&ring.older)?;
        to.write_all(&ring.younger)?;
        Ok((to, (ring.older.len() + ring.younger.len()) as u64))
    }

    fn close(&mut self) {
        if let Some(mut open) = self.open.take()
            && let Err(error) = open.to.flush()
        {
            self.faults.push(format!("capture: {}: {error}", open.path.display()));
        }
    }

    /// Whether every alert begins a file, not only those of rules with `capture`.
    pub(super) fn are_for_all(&self) -> bool {
        self.settings.all_rules
    }

    /// Ends the file at hand; what was wrong, and how many files there are.
    pub(super) fn finish(mut self) -> (Vec<String>, Option<String>) {
        self.close();
        let (files, left) = (thousands(self.files), thousands(self.ring.get_mut().left));
        let note = (self.files > 0).then(|| {
            format!(
                "capture: {files} files; {left} events left the ring before an alert, {} had no place in a file",
                thousands(self.cut)
            )
        });
        self.faults.truncate(crate::limits::OUTPUT_FAULTS_KEPT);
        (self.faults, note)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gabion_record::budget::Budget;
    use gabion_runtime::files::direct_opener;
    use gabion_scap::{Item, LiveValues, Merger, Reader, Toctou, Values, table, types};
    use gabion_syscall::Options;

    fn close_of(ts_ns: u64, keep: impl FnOnce(&Event<'_>)) {
        let kind = table::event_type(types::CLOSE_X).unwrap();
        let parameters = [0_i64.to_le_bytes(), 3_i64.to_le_bytes()].concat();
        let values = Values::new(kind, &[8, 0, 8, 0], &parameters);
        let (number, raw_number, tid, cpu, flags, enter) = (ts_ns, ts_ns, 7, 0, 0, None);
        let live = Default::default();
        keep(&Event { number, raw_number, ts_ns, tid, cpu, flags, values, enter, live });
    }

    /// Times of the events of a file.
    fn times(path: &std::path::Path) -> Vec<u64> {
        let mut reader = Reader::new(File::open(path).unwrap()).unwrap();
        let mut times = Vec::new();
        while let Some(item) = reader.next_item().unwrap() {
            if let Item::Event(event) = item {
                times.push(event.ts_ns);
            }
        }
        assert!(reader.counts().events.is_complete());
        times
    }

    #[test]
    fn a_file_begins_before_its_alert_and_ends_after_the_duration() {
        let folder = tempfile::tempdir().unwrap();
        let path_prefix = folder.path().join("falco");
        let settings = CaptureSettings { path_prefix, all_rules: false, duration_ms: 1 };
        let mut captures = Captures::new(direct_opener(), settings);
        let state = State::new(Options::default(), Budget::standalone("threads", 1 << 20));
        for ts_ns in [1, 2, 3] {
            close_of(ts_ns, |event| captures.keep(event));
        }
        close_of(4, |event| {
            captures.keep(event);
            captures.begin(&state, event, 0);
        });
        for ts_ns in [5, 1_000_004, 1_000_005] {
            close_of(ts_ns, |event| captures.keep(event));
        }
        let (faults, note) = captures.finish();
        assert_eq!(faults, [""; 0]);
        assert!(note.is_some_and(|note| note.starts_with("capture: 1 files; 0 events left")));
        let file = folder.path().join(format!("falco_{:020}_{:020}.scap", 4, 4));
        assert_eq!(times(&file), [1, 2, 3, 4, 5, 1_000_004]);
    }

    /// What a live source knew of an event is with it in the file, also where the halves of the ring change places.
    #[test]
    fn every_event_of_a_file_has_what_was_known_of_it() {
        let folder = tempfile::tempdir().unwrap();
        let path_prefix = folder.path().join("falco");
        let settings = CaptureSettings { path_prefix, all_rules: false, duration_ms: 1_000 };
        let mut captures = Captures::new(direct_opener(), settings);
        let state = State::new(Options::default(), Budget::standalone("threads", 1 << 20));
        let kind = table::event_type(types::OPENAT_2_X).unwrap();
        let word = |n: u32| n.to_le_bytes().to_vec();
        let long = |n: i64| n.to_le_bytes().to_vec();
        let values: Vec<Vec<u8>> =
            vec![long(3), long(-100), b"link\0".to_vec(), word(1), word(0), word(8), long(99)];
        let lengths: Vec<u8> =
            values.iter().flat_map(|value| (value.len() as u16).to_le_bytes()).collect();
        let (bytes, opened) = (values.concat(), b"/srv/".repeat(200));
        let mut total = 0_u64;
        while captures.ring.get_mut().older.is_empty() || !total.is_multiple_of(100) {
            total += 1;
            let values = Values::new(kind, &lengths, &bytes);
            let live = LiveValues { toctou: Some(Toctou::Linked), opened: &opened, netns: 0 };
            let (number, raw_number, ts_ns) = (total, total, total);
            let (tid, cpu, flags, enter) = (7, 0, 0, None);
            let event = Event { number, raw_number, ts_ns, tid, cpu, flags, values, enter, live };
            captures.keep(&event);
            if total == 1 {
                captures.begin(&state, &event, 0);
            }
        }
        assert_eq!(captures.finish().0, [""; 0]);
        let file = folder.path().join(format!("falco_{:020}_{:020}.scap", 1, 1));
        let mut reader = Reader::new(File::open(&file).unwrap()).unwrap();
        let (mut merger, mut whole) = (Merger::new(), 0);
        while let Some(item) = reader.next_item().unwrap() {
            if let Item::Event(event) = item
                && let Some(event) = merger.merge(&event)
            {
                assert_eq!(event.live.opened, opened, "event {}", whole + 1);
                whole += 1;
            }
        }
        assert_eq!(whole, total);
    }

    #[test]
    fn the_ring_is_bounded_and_what_leaves_it_is_counted() {
        let settings = CaptureSettings {
            path_prefix: PathBuf::from("/nonexistent/falco"),
            all_rules: true,
            duration_ms: 1,
        };
        let mut captures = Captures::new(direct_opener(), settings);
        let state = State::new(Options::default(), Budget::standalone("threads", 1 << 20));
        close_of(1, |event| captures.keep(event));
        let block = captures.ring.get_mut().younger.len();
        let total = (CAPTURE_RING_BYTES / block + 10) as u64;
        for ts_ns in 2..=total {
            close_of(ts_ns, |event| captures.keep(event));
        }
        let ring = captures.ring.get_mut();
        assert!(ring.older.len() + ring.younger.len() <= CAPTURE_RING_BYTES);
        assert_eq!(ring.left + ring.events.0 + ring.events.1, total);
        assert!(ring.left > 0);
        // A place that can't be written is a fault, and stops nothing.
        close_of(total + 1, |event| captures.begin(&state, event, 0));
        assert_eq!(captures.finish().0.len(), 1);
    }
}
