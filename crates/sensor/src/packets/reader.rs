//! The reader of a run by several workers: it cuts captures into batches of frames and gives each to every worker.
//!
//! It puts fragments together while they are in order, and decides which worker each frame belongs to. It is watched
//! like a worker: waiting for a file or for a worker is no stall.

use super::arrivals::Queue;
use super::board::Board;
use super::capture::{
    BATCH, Entry, FrameBlock, InputLedgers, InputState, OneInput, Quiet, frame_in,
};
use super::incidents::Position;
use super::input::InputDone;
use super::input_opener::InputOpener;
use super::reload::RunningEngine;
use crate::limits::FRAME_BATCHES_MAX;
use gabion_capture::filter::Filter;
use gabion_capture::{Agreed, AgreedClock, CaptureBytes, ClockCounts, FrameRef};
use gabion_flow::DefragCounters;
use gabion_net::{Dealer, Engine, FragmentOutcome};
use gabion_packet::worker_of_key;
use gabion_record::eve::InputName;
use gabion_record::ledger::Ledger;
use gabion_runtime::fanout::Losses;
use gabion_runtime::{Load, Pulse, Sender, StopFlag, clock};
use std::sync::Arc;
use std::time::Duration;

/// Batches after which workers hand their lines over: each time two threads are woken.
const BATCHES_A_WRITE: u64 = 8;

/// The reader's name.
pub(super) const NAME: &str = "reader";

/// Frames that were read together.
pub(super) struct Batch {
    pub(super) bytes: Arc<CaptureBytes>,
    pub(super) frames: Vec<FrameRef>,
    /// The worker of each frame; [`NOBODY`] where none is given it.
    pub(super) owners: Vec<u8>,
    /// Of frames with fragments, by their place: what happened to the fragments.
    pub(super) fragments: Vec<(usize, Box<[FragmentOutcome]>)>,
    /// The interface they came from; 0 for a capture.
    pub(super) device: u16,
    /// Frames that the kernel dropped before these.
    pub(super) kernel_dropped: u64,
    /// Number of the first frame.
    pub(super) first: u64,
    /// Number of the first frame of the run whose checksums are ignored.
    pub(super) ignored_from: u64,
    /// The clock at each frame.
    pub(super) agreed: Vec<Agreed>,
    /// The latest time of a frame that is no stray, in nanoseconds.
    pub(super) latest_ns: u64,
    /// The capture, when it is another than before.
    pub(super) capture: Option<InputName>,
    /// Lines are handed over after it.
    pub(super) is_written: bool,
    /// More must be waited for: what was found so far is to be seen meanwhile.
    pub(super) is_last_for_now: bool,
    /// Nothing came from an interface for a while: the clock without a frame.
    pub(super) quiet: Option<Quiet>,
    /// The engine from this batch on, where it is another than before.
    pub(super) engine: Option<Arc<Engine>>,
}

impl Batch {
    /// What happened to the fragments of the frame at this place.
    pub(super) fn fragments_of(&self, place: usize) -> Option<&[FragmentOutcome]> {
        let at = self.fragments.binary_search_by_key(&place, |(place, _)| *place).ok()?;
        self.fragments.get(at).map(|(_, outcomes)| &**outcomes)
    }
}

/// No worker's number.
pub(super) const NOBODY: u8 = u8::MAX;

/// A batch on its way to one worker: its own frames and their bytes count.
pub(super) struct Work {
    pub(super) batch: Arc<Batch>,
    pub(super) items: u64,
    pub(super) bytes: u64,
}

impl Load for Work {
    fn items(&self) -> u64 {
        self.items
    }
    fn bytes(&self) -> u64 {
        self.bytes
    }
}

/// Where the reader stands, and which workers it need not serve any more.
pub(super) struct Reading {
    pub(super) losses: Losses,
    pub(super) position: Position,
}

/// What the reader left behind.
#[derive(Default)]
pub(super) struct ReaderEnd {
    pub(super) cpu: Duration,
    pub(super) inputs: Vec<InputDone>,
    pub(super) reader: Ledger,
    pub(super) entry: Ledger,
    pub(super) clock: ClockCounts,
    pub(super) is_stopped: bool,
    pub(super) defrag: DefragCounters,
    pub(super) checksums_ignored_from: Option<u64>,
}

/// All that the reader's thread needs.
pub(super) struct Reader {
    pub(super) inputs: Queue,
    pub(super) dealer: Dealer,
    /// The ways to the workers.
    pub(super) workers: Vec<Sender<Work>>,
    pub(super) stop: StopFlag,
    pub(super) filter: Option<Arc<Filter>>,
    pub(super) opener: Arc<InputOpener>,
    pub(super) reading: Arc<Reading>,
    /// The engine of the run, and the generation of the one that workers have.
    pub(super) engine: Arc<RunningEngine>,
    pub(super) generation: u32,
    pub(super) board: Option<Arc<Board>>,
    #[cfg(test)]
    pub(super) fault: Option<super::acted_fault::ActedFault>,
}

impl Reader {
    /// Reads all inputs to their end, or until somebody asks to stop.
    pub(super) fn run(self, pulse: &Pulse) -> ReaderEnd {
        #[cfg(test)]
        let fault = self.fault;
        let Reader { mut inputs, mut dealer, workers, stop, filter, opener, reading, .. } = self;
        let (running, mut generation, board) = (self.engine, self.generation, self.board);
        let mut end = ReaderEnd::default();
        let (mut number, mut batches) = (0, 0);
        let mut agreed_clock = AgreedClock::default();
        let mut checksums = dealer.checksum_sample();
        while let Some((at, input)) = inputs.next(&stop, pulse, &mut || ()) {
            let mut capture = Some(input.name());
            let mut take =
                |block: FrameBlock<'_>, record_outcome: &mut dyn FnMut(&FrameRef, Entry)| {
                    #[cfg(test)]
                    super::acted_fault::act(fault, super::acted_fault::READER, block.first);
                    batches += 1;
                    let is_written = batches % BATCHES_A_WRITE == 0
                        || block.frames.len() < BATCH
                        || block.is_last_for_now;
                    let kernel = block.kernel;
                    let losses = &reading.losses;
                    let shares = Shares::compute_shares(
                        block,
                        &mut dealer,
                        (workers.len(), losses),
                        record_outcome,
                    );
                    if let (Some(board), Some(kernel)) = (&board, kernel) {
                        board.note_ring(&input.path.to_string_lossy(), 0, kernel);
                    }
                    let engine = running.other_than(generation);
                    generation = engine.as_ref().map_or(generation, |e| e.generation);
                    let more = (capture.take(), is_written, engine);
                    shares.hand_out(more, &workers, losses, pulse);
                };
            let mut see = |to, len| reading.position.set(at, to, len);
            let mut one = OneInput {
                state: InputState {
                    number: &mut number,
                    clock: &mut agreed_clock,
                    checksums: &mut checksums,
                },
                ledgers: InputLedgers {
                    reader: &mut end.reader,
                    entry: &mut end.entry,
                    note_counts: &|_, _| {},
                },
                stop: &stop,
                opener: &opener,
                filter: filter.as_deref(),
                position: &reading.position,
                pulse,
            };
            let (read, is_stopped) = one.read_frames(&input, &mut take, &mut see);
            end.is_stopped |= is_stopped;
            read.into_iter().for_each(|input| inputs.done(input, &mut end.inputs));
        }
        end.is_stopped |= inputs.is_cut(&stop);
        end.defrag = dealer.defrag_counters();
        end.clock = agreed_clock.counts();
        end.checksums_ignored_from = checksums.abandoned_at();
        end.cpu = clock::thread_cpu();
        end
    }
}

/// A batch, and which workers it is for.
struct Shares {
    batch: Batch,
    /// Frames and bytes of each worker.
    all: Vec<(u64, u64)>,
}

impl Shares {
    /// Decides which worker each frame of a block belongs to.
    fn compute_shares(
        block: FrameBlock<'_>,
        dealer: &mut Dealer,
        (workers, losses): (usize, &Losses),
        record_outcome: &mut dyn FnMut(&FrameRef, Entry),
    ) -> Shares {
        let mut owners = Vec::with_capacity(block.frames.len());
        let mut all = vec![(0, 0); workers];
        let mut latest_ns = 0;
        let mut fragments = Vec::new();
        for (place, (r, agreed)) in block.frames.iter().zip(block.agreed).enumerate() {
            let number = block.first + place as u64;
            let of = (block.device, block.ignored_from);
            let dealt = dealer.deal(&frame_in(r, block.bytes, (number, *agreed), of));
            let owner = dealt.map(|dealt| {
                fragments.extend(dealt.fragments.map(|outcomes| (place, outcomes)));
                worker_of_key(dealt.key, workers)
            });
            if owner.is_some() && r.ts_ns <= agreed.ns {
                latest_ns = latest_ns.max(r.ts_ns);
            }
            match owner.and_then(|n| Some((n, all.get_mut(n)?))) {
                Some((n, _)) if losses.is_lost(n) => record_outcome(r, Entry::Lost),
                Some((_, (items, bytes))) => {
                    *items += 1;
                    *bytes += u64::from(r.len);
                    record_outcome(r, Entry::Taken);
                }
                None => record_outcome(r, Entry::Unsupported),
            }
            owners.push(owner.and_then(|n| u8::try_from(n).ok()).unwrap_or(NOBODY));
        }
        let batch = Batch {
            bytes: Arc::clone(block.bytes),
            frames: std::mem::replace(block.frames, Vec::with_capacity(BATCH)),
            owners,
            fragments,
            device: block.device,
            kernel_dropped: block.kernel.map_or(0, |kernel| kernel.dropped),
            first: block.first,
            ignored_from: block.ignored_from,
            agreed: block.agreed.to_vec(),
            latest_ns,
            capture: None,
            is_written: false,
            is_last_for_now: block.is_last_for_now,
            quiet: block.quiet,
            engine: None,
        };
        Shares { batch, all }
    }

    /// Gives the batch to every worker, and waits for those that are some batches behind.
    fn hand_out(
        self,
        (capture, is_written, engine): (Option<InputName>, bool, Option<Arc<Engine>>),
        workers: &[Sender<Work>],
        losses: &Losses,
        pulse: &Pulse,
    ) {
        let batch = Arc::new(Batch { capture, is_written, engine, ..self.batch });
        for (n, (to, (items, bytes))) in workers.iter().zip(self.all).enumerate() {
            let has_room =
                pulse.rest(|| losses.await_room(n, to, (items, bytes), FRAME_BATCHES_MAX));
            if items > 0 || has_room {
                // What a lost worker does not take any more is shed in the edge's ledger.
                let _ = to.try_send(Work { batch: Arc::clone(&batch), items, bytes });
            }
        }
    }
}
