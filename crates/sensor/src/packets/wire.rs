//! Reading interfaces, one or several, block by block, by the clock of the kernel.
//!
//! Hot path: blocks come from the rings of all interfaces in turn, without a copy. Where no frame comes, the clock
//! continues alone, so that flows time out and lines are written on a quiet wire.

use super::before_socket::BeforeSocket;
use super::board::Board;
use super::capture::{BATCH, Entry, FrameBlock, OnFrame, OneInput, Quiet};
use super::incidents::Position;
use super::input::{Input, InputDone, KernelCounts};
use super::interface::{InterfaceError, Opened};
use super::ring_group::RingGroup;
use crate::limits::{DROP_SECONDS_MAX, INTERFACE_NOTES_MAX};
use gabion_capture::filter::Filter;
use gabion_capture::live::{Live, LiveCounter, await_any};
use gabion_capture::{AgreedClock, CaptureBytes, FrameRef, Source};
use gabion_record::ledger::{Ledger, ShedReason};
use gabion_runtime::Pulse;
use gabion_runtime::clock::{self, epoch_ns};
use gabion_settings::InterfaceSettings;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How far the clock stays back where nothing comes: more than the kernel keeps a block to itself.
const QUIET_LAG_NS: u64 = 200_000_000;
/// How long frames are waited for at a time.
const QUIET: Duration = Duration::from_millis(100);
/// How often the kernel is asked what it counted, at least.
const COUNTED_EVERY: Duration = Duration::from_secs(1);

/// An interface that is read, and what happened to its frames.
struct Port {
    source: Source,
    opened: Opened,
    /// Which frames are read, where the kernel does not decide that.
    filter: Option<Filter>,
    checksums: Option<bool>,
    samples_checksums: bool,
    done: InputDone,
    unsupported: Option<(u16, u64)>,
    /// Notes so far.
    said: usize,
    /// Another ring of this interface says what happens to it.
    is_silent: bool,
    /// Up to which time its frames were handed out, and how far that stays behind the clock where none come.
    until_ns: u64,
    lag_ns: u64,
    /// What was lost before the socket until it was opened, and since.
    lost_before: BeforeSocket,
    lost: BeforeSocket,
}

impl Port {
    fn open(
        wanted: &InterfaceSettings,
        group: Option<RingGroup>,
        (position, is_silent): (&Position, bool),
    ) -> Result<Port, InterfaceError> {
        let done =
            InputDone { path: (&wanted.name).into(), is_named: true, ..InputDone::default() };
        let mut notes = Vec::new();
        let (source, opened, filter) = Opened::open(wanted, group, &mut notes)?;
        let (checksums, samples_checksums) = (wanted.checksums, wanted.samples_checksums);
        let mut port = Port {
            source,
            opened,
            filter,
            checksums,
            samples_checksums,
            done,
            unsupported: None,
            said: 0,
            is_silent,
            until_ns: 0,
            lost_before: BeforeSocket::of_interface(&wanted.name),
            lost: BeforeSocket::default(),
            // A block is open for two of its timeouts at most.
            lag_ns: (u64::from(wanted.block_timeout_ms) * 3 + 10) * 1_000_000,
        };
        notes.into_iter().for_each(|note| port.say(Some(note), position));
        Ok(port)
    }

    /// Leaves out what the filter does not take, and enters it.
    fn filter_out(&self, bytes: &CaptureBytes, frames: &mut Vec<FrameRef>, entry: &mut Ledger) {
        let Some(filter) = &self.filter else { return };
        frames.retain(|r| {
            let f = r.frame(bytes);
            let passes = filter.matches(f.link, f.wire_len, f.data);
            if !passes {
                entry.receive(1, u64::from(r.len));
                entry.shed(ShedReason::Filtered, 1, u64::from(r.len));
            }
            passes
        });
    }

    /// What the kernel counted.
    fn kernel_counts(&self) -> KernelCounts {
        let counts = self.source.live().map(Live::counts).unwrap_or_default();
        KernelCounts { offered: counts.offered, dropped: counts.dropped, before: self.lost }
    }

    /// Asks the kernel what it counted, and enters the second.
    fn count(&mut self) {
        let before = self.kernel_counts().dropped;
        self.source.count_kernel_drops();
        self.note_second(before);
        // One ring is enough to ask what the interface lost.
        if !self.is_silent {
            let now = BeforeSocket::of_interface(&self.done.path.to_string_lossy());
            self.lost = now.since(&self.lost_before);
        }
    }

    /// Enters in which second frames were dropped.
    fn note_second(&mut self, before: u64) {
        let dropped = self.kernel_counts().dropped.saturating_sub(before);
        if dropped == 0 {
            return;
        }
        enter_drops(&mut self.done.drops_by_second, epoch_ns() / 1_000_000_000, dropped);
    }

    /// Looks whether a fault waits where nothing comes, and whether an interface that was away is back.
    fn look_after(&mut self, nothing: &mut Vec<FrameRef>, position: &Position) {
        if !self.source.has_more_at_hand() {
            let dropped = self.kernel_counts().dropped;
            let _ = self.source.next_block_within(0, Duration::ZERO, nothing);
            self.note_second(dropped);
        }
        let note = self.opened.look_after(&mut self.source);
        self.say(note, position);
        self.say_size(position);
    }

    /// Says what is noteworthy about the size of frames, whichever ring of the interface they came to.
    fn say_size(&mut self, position: &Position) {
        if let Some(note) = self.source.live().and_then(|live| self.opened.size_note(live)) {
            position.add_note(format!("{}: {note}", self.done.path.display()));
        }
    }

    /// What of the frames' checksums counts.
    fn mark_checksums(&self, frames: &mut [FrameRef]) {
        if let Some(is_checked) = self.checksums {
            frames.iter_mut().for_each(|r| r.has_no_checksums = !is_checked);
        }
    }

    /// Says at once what a person should know; of an interface that changes all day the first changes.
    fn say(&mut self, note: Option<String>, position: &Position) {
        if let Some(note) = note
            && self.said < INTERFACE_NOTES_MAX
            && !self.is_silent
        {
            self.said += 1;
            position.add_note(format!("{}: {note}", self.done.path.display()));
        }
    }
}

/// Enters frames that were dropped in a second. Seconds stay in order, also where the machine's clock is set back.
fn enter_drops(all: &mut Vec<(u64, u64)>, second: u64, dropped: u64) {
    match all.binary_search_by_key(&second, |(at, _)| *at) {
        Ok(at) => all[at].1 += dropped,
        Err(at) if all.len() < DROP_SECONDS_MAX => all.insert(at, (second, dropped)),
        Err(_) => {
            if let Some((_, sum)) = all.last_mut() {
                *sum += dropped;
            }
        }
    }
}

/// What was pulled out of the rings.
pub(super) enum Pulled {
    /// Frames of this interface, by its number, and their bytes.
    Frames { port: usize, bytes: Arc<CaptureBytes> },
    /// None came.
    Nothing,
}

/// All interfaces of a run, or a ring of each.
pub(super) struct Wire {
    ports: Vec<Port>,
    /// The port whose turn it is.
    turn: usize,
    /// When the kernel was last asked about all of them.
    counted: Instant,
}

impl Wire {
    /// Opens all interfaces, or none: the first that can't be read.
    fn open(
        wanted: &[InterfaceSettings],
        position: &Position,
    ) -> Result<Wire, (usize, InterfaceError)> {
        let mut ports = Vec::with_capacity(wanted.len());
        for (n, wanted) in wanted.iter().enumerate() {
            ports.push(Port::open(wanted, None, (position, false)).map_err(|error| (n, error))?);
        }
        let wire = Wire { ports, turn: 0, counted: clock::now() };
        wire.admit()?;
        Ok(wire)
    }

    /// Opens as many rings of each interface as there are workers: a wire for each.
    pub(super) fn open_group(
        wanted: &[InterfaceSettings],
        workers: u16,
        position: &Position,
    ) -> Result<Vec<Wire>, (usize, InterfaceError)> {
        let groups: Vec<RingGroup> = wanted.iter().map(|_| RingGroup::new(workers)).collect();
        let mut wires = Vec::with_capacity(usize::from(workers));
        for worker in 0..workers {
            let mut ports = Vec::with_capacity(wanted.len());
            for (n, (wanted, group)) in wanted.iter().zip(&groups).enumerate() {
                let port = Port::open(wanted, Some(group.share(worker)), (position, worker > 0));
                ports.push(port.map_err(|error| (n, error))?);
            }
            wires.push(Wire { ports, turn: 0, counted: clock::now() });
        }
        // Only now, so that each frame finds the ring that it belongs to.
        wires.iter().try_for_each(Wire::admit)?;
        Ok(wires)
    }

    /// From now on frames come.
    fn admit(&self) -> Result<(), (usize, InterfaceError)> {
        for (n, port) in self.ports.iter().enumerate() {
            let done = port.source.live().map_or(Ok(()), |live| port.opened.admit(live));
            done.map_err(|error| (n, InterfaceError::Other(error)))?;
        }
        Ok(())
    }

    /// The next port with frames at hand.
    fn ready(&mut self) -> Option<usize> {
        let count = self.ports.len();
        let mut all = (0..count).map(|n| (self.turn + n) % count);
        let found = all.find(|n| self.ports[*n].source.has_more_at_hand())?;
        self.turn = (found + 1) % count;
        Some(found)
    }

    /// The next frames, waited for no longer than this; where none come, all interfaces are looked after. The wait is short, so
    /// that a thread that stays away is none that rests.
    pub(super) fn pull(
        &mut self,
        frames: &mut Vec<FrameRef>,
        wait: Duration,
        (position, pulse): (&Position, &Pulse),
    ) -> Pulled {
        pulse.beat();
        if self.counted.elapsed() >= COUNTED_EVERY {
            self.counted = clock::now();
            for port in &mut self.ports {
                port.count();
                let note = port.opened.check(&port.source);
                port.say(note, position);
            }
            // An interface must not wait for its turn until all others are quiet.
            pulse.rest(|| self.look_after(frames, position));
        }
        if let Some(pulled) = self.pull_ready(frames) {
            return pulled;
        }
        let lives: Vec<_> = self.ports.iter().filter_map(|p| p.source.live()).collect();
        await_any(&lives, wait);
        self.pull_ready(frames).unwrap_or_else(|| {
            // A large ring takes the kernel a while, also one for an interface that is back.
            pulse.rest(|| self.look_after(frames, position));
            Pulled::Nothing
        })
    }

    fn pull_ready(&mut self, frames: &mut Vec<FrameRef>) -> Option<Pulled> {
        let port = self.ready()?;
        let of = self.ports.get_mut(port)?;
        let dropped = of.kernel_counts().dropped;
        let block = of.source.next_block_within(BATCH, Duration::ZERO, frames)?;
        of.note_second(dropped);
        if let Some(last) = frames.last() {
            of.until_ns = last.ts_ns;
        }
        (block.frames > 0).then_some(Pulled::Frames { port, bytes: block.bytes })
    }

    /// Leaves out frames that are not wanted, and marks those whose checksums do not count.
    pub(super) fn prepare(
        &self,
        port: usize,
        bytes: &CaptureBytes,
        frames: &mut Vec<FrameRef>,
        entry: &mut Ledger,
    ) {
        let Some(port) = self.ports.get(port) else { return };
        port.filter_out(bytes, frames, entry);
        port.mark_checksums(frames);
    }

    /// A frame of this interface is read.
    pub(super) fn see(&mut self, port: usize, r: &FrameRef) {
        if let Some(port) = self.ports.get_mut(port) {
            port.done.see(r.ts_ns, u64::from(r.len));
        }
    }

    /// A frame of this interface has a link type that is not decoded.
    pub(super) fn see_unsupported(&mut self, port: usize, link: u16) {
        if let Some(port) = self.ports.get_mut(port) {
            let times = port.unsupported.map_or(0, |(_, times)| times);
            port.unsupported = Some((link, times + 1));
        }
    }

    /// Up to which time all frames were handed out, where the clock shows this.
    pub(super) fn dealt_until(&mut self, now_ns: u64) -> u64 {
        let until = self.ports.iter_mut().map(|port| {
            // Frames that the kernel still keeps are of times before now, however late it hands them over.
            if port.source.live().is_some_and(|live| !live.has_frames()) {
                port.until_ns = now_ns.saturating_sub(port.lag_ns);
            }
            port.until_ns
        });
        until.min().unwrap_or(u64::MAX)
    }

    /// How much of the fullest ring waits to be read, in percent.
    pub(super) fn fill_percent(&self) -> u32 {
        let lives = self.ports.iter().filter_map(|p| p.source.live());
        lives.map(|live| live.fill_percent()).max().unwrap_or(0)
    }

    /// Bytes of the smallest ring.
    pub(super) fn ring_bytes(&self) -> u64 {
        let lives = self.ports.iter().filter_map(|p| p.source.live());
        lives.map(|live| live.ring_bytes()).min().unwrap_or(u64::MAX)
    }

    /// Looks after all interfaces.
    fn look_after(&mut self, nothing: &mut Vec<FrameRef>, position: &Position) {
        self.ports.iter_mut().for_each(|port| port.look_after(nothing, position));
    }

    /// What happened to each interface, once all is read.
    pub(super) fn finish(self, reader: &mut Ledger, all: &mut Vec<InputDone>) {
        for mut port in self.ports {
            port.count();
            port.done.kernel = Some(port.kernel_counts());
            reader.merge(port.source.ledger());
            port.done.note(&port.source, port.unsupported);
            all.push(port.done);
        }
    }

    /// Somebody else who counts at all sockets: the thread that reads them may be lost.
    pub(super) fn counters(&self) -> Vec<LiveCounter> {
        let lives = self.ports.iter().filter_map(|port| port.source.live());
        lives.filter_map(|live| live.counter().ok()).collect()
    }

    /// What the kernel counted of each, by the interface's name.
    pub(super) fn note_counts(&self, board: &Board, ring: usize) {
        for port in &self.ports {
            board.note_ring(&port.done.path.to_string_lossy(), ring, port.kernel_counts());
        }
    }

    /// What the kernel counted of all.
    pub(super) fn kernel_counts(&self) -> KernelCounts {
        let mut sum = KernelCounts::default();
        self.ports.iter().for_each(|port| sum.add(&port.kernel_counts()));
        sum
    }

    fn has_more_at_hand(&self) -> bool {
        self.ports.iter().any(|p| p.source.has_more_at_hand())
    }

    /// Bytes read so far.
    fn position(&self) -> u64 {
        self.ports.iter().map(|p| p.source.position()).sum()
    }

    /// The names of the interfaces, in the order of their numbers.
    pub(super) fn names(&self) -> Vec<String> {
        self.ports.iter().map(|port| port.done.path.display().to_string()).collect()
    }

    /// A wire without interfaces.
    #[cfg(test)]
    pub(super) fn without_interfaces() -> Wire {
        Wire { ports: Vec::new(), turn: 0, counted: clock::now() }
    }

    /// Begins to close all; false: that was asked before.
    pub(super) fn close(&mut self) -> bool {
        self.ports.iter_mut().fold(false, |any, port| port.opened.close(&port.source) | any)
    }
}

/// Reports that the machine's clock was set since the last look, if so.
pub(super) fn report_step(clock: &mut AgreedClock, position: &Position) {
    let Some(step_ns) = clock.take_step() else { return };
    let seconds = step_ns / 1_000_000_000;
    position.add_note(format!(
        "the clock of this machine was set by {seconds:+} s: timers continue, records show its new time"
    ));
}

impl OneInput<'_> {
    /// Reads interfaces until it is asked to stop.
    pub(super) fn read_interfaces(
        &mut self,
        input: &Input,
        take: &mut dyn FnMut(FrameBlock<'_>, OnFrame<'_>),
        see: &mut dyn FnMut(u64, Option<u64>),
    ) -> (Vec<InputDone>, bool) {
        // A large ring takes the kernel a while.
        let mut wire = match self.pulse.rest(|| Wire::open(&input.interfaces, self.position)) {
            Ok(wire) => wire,
            Err((n, e)) => return (vec![InputDone::refused(&input.interfaces, n, &e)], false),
        };
        see(0, None);
        let began = clock::now();
        let nothing = Arc::new(CaptureBytes::from_vec(Vec::new()));
        let (mut frames, mut agreed) = (Vec::with_capacity(BATCH), Vec::with_capacity(BATCH));
        let samples = wire.ports.iter().any(|p| p.samples_checksums);
        loop {
            frames.clear();
            agreed.clear();
            let mut quiet = None;
            let pulled = wire.pull(&mut frames, QUIET, (self.position, self.pulse));
            self.state.clock.set_steady(began.elapsed().as_nanos() as u64);
            let (at, bytes) = match pulled {
                Pulled::Frames { port, bytes } => (port, bytes),
                Pulled::Nothing => {
                    // Frames of this moment may still be on their way through the ring.
                    quiet = Some(self.state.clock.at_live(epoch_ns().saturating_sub(QUIET_LAG_NS)));
                    (0, Arc::clone(&nothing))
                }
            };
            for port in &wire.ports {
                let name = port.done.path.to_string_lossy();
                (self.ledgers.note_counts)(&name, port.kernel_counts());
            }
            let (kernel, is_last) = (Some(wire.kernel_counts()), !wire.has_more_at_hand());
            let fill_percent = wire.fill_percent();
            let Some(port) = wire.ports.get_mut(at) else { break };
            port.filter_out(&bytes, &mut frames, self.ledgers.entry);
            port.mark_checksums(&mut frames);
            agreed.extend(frames.iter().map(|r| self.state.clock.at_live(r.ts_ns)));
            report_step(self.state.clock, self.position);
            let first = *self.state.number + 1;
            *self.state.number += frames.len() as u64;
            if samples && !self.state.checksums.is_decided() {
                for (number, r) in (first..).zip(frames.iter().filter(|r| !r.has_no_checksums)) {
                    let f = r.frame(&bytes);
                    self.state.checksums.check_frame(number, f.link, f.data);
                }
            }
            let ignored_from = if samples { self.state.checksums.ignored_from() } else { u64::MAX };
            let entry = &mut *self.ledgers.entry;
            let (mut taken, mut taken_bytes) = (0, 0);
            let Port { done, unsupported, .. } = port;
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
                        *unsupported = Some((r.link, times + 1));
                    }
                }
            };
            let block = FrameBlock {
                bytes: &bytes,
                frames: &mut frames,
                agreed: &agreed,
                device: at as u16,
                first,
                ignored_from,
                is_last_for_now: is_last,
                quiet: quiet.map(Quiet::Passed),
                fill_percent,
                kernel,
            };
            take(block, &mut record_outcome);
            entry.receive(taken, taken_bytes);
            entry.pass(taken, taken_bytes);
            drop(bytes);
            see(wire.position(), None);
            // What the rings hold when the request comes is not lost.
            if self.stop.is_set() && !wire.close() && quiet.is_some() {
                break;
            }
        }
        let mut all = Vec::with_capacity(wire.ports.len());
        wire.finish(self.ledgers.reader, &mut all);
        all.iter_mut().for_each(InputDone::note_drops);
        (all, true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::packets::Watch;

    /// Keeps the notes that are reported.
    #[derive(Default)]
    struct Notes(Vec<String>);

    impl Watch for Notes {
        fn note(&mut self, note: &str) {
            self.0.push(note.to_owned());
        }
    }

    /// Frames of before and after the machine's clock was set come in turn: it is reported once, by how much.
    #[test]
    fn a_clock_that_was_set_is_reported_once() {
        const SECOND: u64 = 1_000_000_000;
        for (set_ns, shown) in [(3_600_000_000_000, "+3600"), (-3_600_000_000_000, "-3600")] {
            let (mut clock, position) = (AgreedClock::default(), Position::default());
            for second in 0..10 {
                clock.set_steady(second * SECOND);
                let at = (1_700_000_000 + second) * SECOND;
                clock.at_live(at);
                if second >= 5 {
                    clock.at_live(at.saturating_add_signed(set_ns));
                }
                report_step(&mut clock, &position);
            }
            let mut notes = Notes::default();
            position.report_to(&mut notes);
            let wanted = format!(
                "the clock of this machine was set by {shown} s: timers continue, records show its new time"
            );
            assert_eq!(notes.0, [wanted]);
        }
    }

    #[test]
    fn drops_are_entered_by_second_also_where_the_clock_is_set_back() {
        let mut all = Vec::new();
        for (second, dropped) in [(100, 1), (100, 2), (102, 3), (40, 4), (102, 5), (41, 6)] {
            enter_drops(&mut all, second, dropped);
        }
        assert_eq!(all, [(40, 4), (41, 6), (100, 3), (102, 8)]);
    }

    #[test]
    fn no_drop_is_forgotten_where_seconds_are_too_many() {
        let mut all = Vec::new();
        let seconds = DROP_SECONDS_MAX as u64 + 10;
        (0..seconds).for_each(|second| enter_drops(&mut all, second, 1));
        assert_eq!(all.len(), DROP_SECONDS_MAX);
        assert_eq!(all.iter().map(|(_, dropped)| dropped).sum::<u64>(), seconds);
    }
}
