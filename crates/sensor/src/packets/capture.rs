//! Reading one capture, block by block, with the clock that packets agree on.

use super::incidents::Position;
use super::input::{Input, InputDone, KernelCounts};
use super::input_opener::InputOpener;
use gabion_capture::filter::Filter;
use gabion_capture::{Agreed, AgreedClock, CaptureBytes, FrameRef, OpenOptions, Source};
use gabion_flowlog::source::is_read_once;
use gabion_net::{ChecksumSample, FrameIn};
use gabion_outputs::timestamp::Stamp;
use gabion_record::ledger::{Ledger, ShedReason};
use gabion_runtime::input::{Readiness, Stoppable};
use gabion_runtime::{Pulse, StopFlag};
use std::collections::VecDeque;
use std::io::Read;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// Frames taken from the reader at a time.
pub(crate) const BATCH: usize = 128;
/// How long nothing may come through a pipe before workers learn that they have all there is, and how often they then
/// get a moment to do what others ask of them.
const FIRST_WAIT: Duration = Duration::from_millis(20);
const WAIT: Duration = Duration::from_millis(100);

/// Opens a capture. What may not come for long is read so that a request to stop is heard.
fn open(
    path: &Path,
    opener: &InputOpener,
    stop: &StopFlag,
) -> Result<(Source, Option<Readiness>), gabion_capture::Error> {
    if !is_read_once(path) {
        return Ok((Source::from_file(opener.open_file(path)?)?, None));
    }
    let (from, readiness) = match opener.take_watched(path, stop) {
        Some(opened) => opened,
        None => {
            let file = opener.open_once(path)?;
            let readiness = Readiness::from_input(&file).ok();
            (Box::new(Stoppable::new(file, stop.clone())) as Box<dyn Read + Send>, readiness)
        }
    };
    let source = Source::from_reader_with(from, true, OpenOptions::default())?;
    // What has come may be held by what unpacks it.
    let readiness = readiness.filter(|_| !source.is_packed());
    Ok((source, readiness))
}

/// Reads one capture, block by block.
pub(crate) struct OneInput<'a> {
    pub(crate) state: InputState<'a>,
    pub(crate) ledgers: InputLedgers<'a>,
    pub(crate) stop: &'a StopFlag,
    pub(crate) opener: &'a InputOpener,
    pub(crate) filter: Option<&'a Filter>,
    /// Where what happens to an interface is reported at once.
    pub(crate) position: &'a Position,
    /// Of the thread that reads: waiting for input is no stall.
    pub(crate) pulse: &'a Pulse,
}

/// What one input of a run leaves to the next.
pub(crate) struct InputState<'a> {
    /// Number of the last frame of the run.
    pub(crate) number: &'a mut u64,
    /// The clock of the run.
    pub(crate) clock: &'a mut AgreedClock,
    /// Whether checksums are looked at.
    pub(crate) checksums: &'a mut ChecksumSample,
}

/// The ledgers of the stages that read frames, and what gets the counts of the kernel.
pub(crate) struct InputLedgers<'a> {
    pub(crate) reader: &'a mut Ledger,
    pub(crate) entry: &'a mut Ledger,
    /// Gets what the kernel counts of each interface, by its name.
    pub(crate) note_counts: &'a dyn Fn(&str, KernelCounts),
}

/// Frames that were read together.
pub(crate) struct FrameBlock<'a> {
    pub(crate) bytes: &'a Arc<CaptureBytes>,
    pub(crate) frames: &'a mut Vec<FrameRef>,
    /// The clock at each of them.
    pub(crate) agreed: &'a [Agreed],
    /// The interface they came from; 0 for a capture.
    pub(crate) device: u16,
    /// Number of the first frame.
    pub(crate) first: u64,
    /// Number of the first frame of the run whose checksums are ignored.
    pub(crate) ignored_from: u64,
    /// More must be waited for: what was found so far is to be seen meanwhile.
    pub(crate) is_last_for_now: bool,
    /// Nothing came from an interface or through a pipe for a while: the clock without a frame.
    pub(crate) quiet: Option<Quiet>,
    /// Of interfaces: how much of the fullest ring waits to be read, in percent.
    pub(crate) fill_percent: u32,
    /// Of interfaces: what the kernel counted.
    pub(crate) kernel: Option<KernelCounts>,
}

/// A moment without a frame.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Quiet {
    /// Time has passed on an interface.
    Passed(Agreed),
    /// More is waited for, and the clock of packets stands.
    Waiting(Agreed),
}

impl Quiet {
    /// As the engine takes it.
    pub(crate) fn moment(self, number: u64) -> FrameIn<'static> {
        match self {
            Quiet::Passed(agreed) => moment(agreed, number),
            // No event time is seen in it.
            Quiet::Waiting(agreed) => FrameIn { ts_ns: u64::MAX, ..moment(agreed, number) },
        }
    }
}

/// A moment without a frame, as the engine takes it.
pub(crate) fn moment(agreed: Agreed, number: u64) -> FrameIn<'static> {
    FrameIn {
        ts_ns: agreed.ns,
        clock_ns: agreed.ns,
        is_leap: false,
        number,
        link: 0,
        device: 0,
        ignores_checksums: false,
        wire_len: 0,
        data: &[],
        fragments: None,
    }
}

/// A frame as the engine takes it.
#[inline]
pub(crate) fn frame_in<'a>(
    r: &FrameRef,
    bytes: &'a CaptureBytes,
    (number, agreed): (u64, Agreed),
    (device, ignored_from): (u16, u64),
) -> FrameIn<'a> {
    let f = r.frame(bytes);
    FrameIn {
        ts_ns: f.ts_ns,
        clock_ns: agreed.ns,
        is_leap: agreed.is_leap,
        number,
        link: f.link,
        device,
        ignores_checksums: number >= ignored_from || r.has_no_checksums,
        wire_len: f.wire_len,
        data: f.data,
        fragments: None,
    }
}

/// What happened to one frame at the engine's entry.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Entry {
    Taken,
    Unsupported,
    /// Its worker is lost.
    Lost,
}

/// Takes what happened to each frame of a block.
pub(crate) type OnFrame<'t> = &'t mut dyn FnMut(&FrameRef, Entry);

impl OneInput<'_> {
    /// Reads one capture to its end, or interfaces, until it is asked to stop (then true). `take` is given each
    /// block and reports what happened to its frames by calling what it is given.
    pub(crate) fn read_frames(
        &mut self,
        input: &Input,
        take: &mut dyn FnMut(FrameBlock<'_>, OnFrame<'_>),
        see: &mut dyn FnMut(u64, Option<u64>),
    ) -> (Vec<InputDone>, bool) {
        if !input.interfaces.is_empty() {
            return self.read_interfaces(input, take, see);
        }
        let (done, is_stopped) = self.read_capture(input, take, see);
        (vec![done], is_stopped)
    }

    fn read_capture(
        &mut self,
        input: &Input,
        take: &mut dyn FnMut(FrameBlock<'_>, OnFrame<'_>),
        see: &mut dyn FnMut(u64, Option<u64>),
    ) -> (InputDone, bool) {
        let mut done = InputDone {
            path: input.path.clone(),
            is_named: input.is_named,
            ..InputDone::default()
        };
        let opened = self.pulse.rest(|| open(&input.path, self.opener, self.stop));
        let (mut source, readiness) = match opened {
            Ok(opened) => opened,
            Err(_) if self.stop.is_set() => return (done, true),
            Err(e) => {
                done.error = Some(e.to_string());
                done.advice = advice(&e);
                return (done, false);
            }
        };
        let mut unsupported: Option<(u16, u64)> = None;
        let mut is_stopped = false;
        // Blocks after the one at hand, read to see whether a time far off is agreed with.
        let mut ahead: VecDeque<(Arc<CaptureBytes>, Vec<FrameRef>)> = VecDeque::new();
        let (mut spare, mut agreed) = (Vec::with_capacity(BATCH), Vec::with_capacity(BATCH));
        let mut is_all = false;
        loop {
            let next = match ahead.pop_front() {
                Some(block) => Some(block),
                None => {
                    self.await_pipe(&source, readiness.as_ref(), take);
                    self.block(&mut source, &mut spare)
                }
            };
            let Some((bytes, mut frames)) = next else { break };
            agreed.clear();
            for (n, r) in frames.iter().enumerate() {
                let here = frames.get(n + 1..).unwrap_or_default();
                agreed.push(loop {
                    let later = here.iter().chain(ahead.iter().flat_map(|(_, frames)| frames));
                    if let Some(at) = self.state.clock.at(r.ts_ns, later.map(|r| r.ts_ns), is_all) {
                        break at;
                    }
                    let more = if self.stop.is_set() {
                        None
                    } else {
                        self.await_pipe(&source, readiness.as_ref(), take);
                        self.block(&mut source, &mut Vec::with_capacity(BATCH))
                    };
                    match more {
                        Some(block) => ahead.push_back(block),
                        None => is_all = true,
                    }
                });
            }
            let first = *self.state.number + 1;
            *self.state.number += frames.len() as u64;
            if !self.state.checksums.is_decided() {
                for (number, r) in (first..).zip(&frames) {
                    let f = r.frame(&bytes);
                    self.state.checksums.check_frame(number, f.link, f.data);
                }
            }
            let ignored_from = self.state.checksums.ignored_from();
            let entry = &mut *self.ledgers.entry;
            // Those that are taken, nearly all, enter the ledger together.
            let (mut taken, mut taken_bytes) = (0, 0);
            let mut record_outcome = |r: &FrameRef, what: Entry| {
                let len = u64::from(r.len);
                done.see(r.ts_ns, len);
                match what {
                    Entry::Taken => {
                        taken += 1;
                        taken_bytes += len;
                    }
                    Entry::Lost => {
                        entry.receive(1, len);
                        entry.shed(ShedReason::WorkerLost, 1, len);
                    }
                    Entry::Unsupported => {
                        entry.receive(1, len);
                        entry.shed(ShedReason::UnsupportedLink, 1, len);
                        let times = unsupported.map_or(0, |(_, times)| times);
                        unsupported = Some((r.link, times + 1));
                    }
                }
            };
            let block = FrameBlock {
                bytes: &bytes,
                frames: &mut frames,
                agreed: &agreed,
                device: 0,
                first,
                ignored_from,
                is_last_for_now: ahead.is_empty() && !source.has_more_at_hand(),
                quiet: None,
                fill_percent: 0,
                kernel: None,
            };
            take(block, &mut record_outcome);
            entry.receive(taken, taken_bytes);
            entry.pass(taken, taken_bytes);
            frames.clear();
            spare = frames;
            see(source.position(), source.len_bytes());
            if self.stop.is_set() {
                is_stopped = true;
                // What was read already is not lost.
                if ahead.is_empty() {
                    break;
                }
            }
        }
        // A pipe that nothing came through any more when the request came.
        is_stopped |= self.stop.is_set() && source.len_bytes().is_none();
        self.ledgers.reader.merge(source.ledger());
        done.note(&source, unsupported);
        (done, is_stopped)
    }

    /// Waits until something comes through a pipe. While nothing comes, workers get a moment without a frame again and
    /// again: they do what others have asked of them, and need not wait for each other.
    fn await_pipe(
        &self,
        source: &Source,
        readiness: Option<&Readiness>,
        take: &mut dyn FnMut(FrameBlock<'_>, OnFrame<'_>),
    ) {
        let Some(readiness) = readiness.filter(|_| !source.has_more_at_hand()) else { return };
        let nothing = Arc::new(CaptureBytes::from_vec(Vec::new()));
        let mut wait = FIRST_WAIT;
        while !self.stop.is_set() && !self.pulse.rest(|| readiness.is_ready(wait)) {
            wait = WAIT;
            let block = FrameBlock {
                bytes: &nothing,
                frames: &mut Vec::new(),
                agreed: &[],
                device: 0,
                first: *self.state.number + 1,
                ignored_from: self.state.checksums.ignored_from(),
                is_last_for_now: true,
                quiet: self.state.clock.latest().map(Quiet::Waiting),
                fill_percent: 0,
                kernel: None,
            };
            take(block, &mut |_, _| {});
        }
    }

    /// The next block of a capture, without the frames that the filter keeps out; `frames` is used for
    /// its list.
    fn block(
        &mut self,
        source: &mut Source,
        frames: &mut Vec<FrameRef>,
    ) -> Option<(Arc<CaptureBytes>, Vec<FrameRef>)> {
        let mut frames = std::mem::take(frames);
        let block = self.pulse.rest(|| source.next_block(BATCH, &mut frames))?;
        if let Some(filter) = self.filter {
            let entry = &mut *self.ledgers.entry;
            frames.retain(|r| {
                let f = r.frame(&block.bytes);
                let passes = filter.matches(f.link, f.wire_len, f.data);
                if !passes {
                    entry.receive(1, u64::from(r.len));
                    entry.shed(ShedReason::Filtered, 1, u64::from(r.len));
                }
                passes
            });
        }
        Some((block.bytes, frames))
    }
}

impl InputDone {
    pub(super) fn see(&mut self, ts_ns: u64, len: u64) {
        self.frames += 1;
        self.bytes += len;
        let (first, last) = self.span_ns.unwrap_or((ts_ns, ts_ns));
        self.span_ns = Some((first.min(ts_ns), last.max(ts_ns)));
    }

    /// Adds what another ring of the same interface brought.
    pub(super) fn join(&mut self, other: InputDone) {
        self.frames += other.frames;
        self.bytes += other.bytes;
        self.span_ns = match (self.span_ns, other.span_ns) {
            (Some((a, b)), Some((c, d))) => Some((a.min(c), b.max(d))),
            (one, None) | (None, one) => one,
        };
        self.notes.extend(other.notes);
        self.error = self.error.take().or(other.error);
        if let Some(more) = other.kernel {
            self.kernel.get_or_insert_default().add(&more);
        }
        for (second, dropped) in other.drops_by_second {
            match self.drops_by_second.binary_search_by_key(&second, |(at, _)| *at) {
                Ok(at) => self.drops_by_second[at].1 += dropped,
                Err(at) => self.drops_by_second.insert(at, (second, dropped)),
            }
        }
    }

    /// Notes what the kernel dropped.
    pub(super) fn note_drops(&mut self) {
        let Some(KernelCounts { offered, dropped, before }) = self.kernel else { return };
        for (lost, what) in [
            (dropped, format!("of {offered} frames, for which the ring had no room{}", times_of(&self.drops_by_second))),
            (before.backlog, "frames of this host before they reached a socket: queues of processors were full (softnet_stat)".to_owned()),
            (before.dropped, "frames by rx_dropped of the interface, which counts those, too, that no protocol of this host takes".to_owned()),
            (before.missed, "frames before they reached the socket (rx_missed_errors of the interface)".to_owned()),
        ] {
            if lost > 0 {
                self.notes.push(format!("the kernel dropped {lost} {what}"));
            }
        }
    }

    pub(super) fn note(&mut self, source: &Source, unsupported: Option<(u16, u64)>) {
        self.notes.extend(source.notes().iter().map(|n| n.text.clone()));
        if let Some(live) = source.live() {
            let facts = live.facts();
            if facts.broken > 0 {
                self.notes.push(format!("{} frames of the ring could not be found", facts.broken));
            }
            if facts.cut > 0 {
                let cut = facts.cut;
                self.notes.push(format!("{cut} frames did not fit into a block and were cut"));
            }
        }
        let more = source.notes_total().saturating_sub(source.notes().len() as u64);
        if more > 0 {
            self.notes.push(format!("{more} more like these"));
        }
        match unsupported {
            Some((link, times)) if times == self.frames => {
                self.error = Some(format!("frames of link type {link} are not decoded"));
                self.advice = "it is a capture, of a medium that is not known here: name one of Ethernet, raw IP or \
                               Linux's cooked frames";
            }
            Some((link, times)) => {
                self.notes.push(format!("{times} frames of link type {link} are not decoded"));
            }
            None => {}
        }
    }
}

/// When frames were dropped, for a person.
fn times_of(drops: &[(u64, u64)]) -> String {
    let (Some((first, _)), Some((last, _))) = (drops.first(), drops.last()) else {
        return String::new();
    };
    let (at, most) = drops.iter().max_by_key(|(_, dropped)| *dropped).copied().unwrap_or_default();
    let stamp = Stamp::new();
    let time = |second: u64| stamp.in_format(second * 1_000_000_000, "%Y-%m-%d %H:%M:%S");
    match drops.len() {
        1 => format!(", at {}", time(at)),
        seconds => format!(
            ", in {seconds} seconds from {} to {}, most ({most}) at {}",
            time(*first),
            time(*last),
            time(at)
        ),
    }
}

/// What to do about a file that is no capture.
pub(super) const NO_CAPTURE: &str = "name a pcap or pcapng file";

/// What to do about a capture that can't be opened.
fn advice(e: &gabion_capture::Error) -> &'static str {
    use gabion_capture::Error;
    use std::io::ErrorKind;
    match e {
        Error::Unreadable(e) => match e.kind() {
            ErrorKind::NotFound => "name a file that is there",
            ErrorKind::PermissionDenied => "run this as a user who may read it",
            _ => "name another file",
        },
        Error::Empty | Error::TornHeader(_) => "name a capture that was written to its end",
        Error::Unsupported(_) | Error::TooMany(_) => "name a pcap or pcapng file",
        Error::NotACapture(_) => NO_CAPTURE,
        _ => "name another file",
    }
}
