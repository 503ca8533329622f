//! Frames off the wire: an AF_PACKET socket with a TPACKET_V3 ring.
//!
//! The socket is opened by the caller, unbound, and bound after the ring is there; so the program may drop the right to
//! open it before. Frames are read where the kernel put them.

mod block;
mod ring;

pub use block::BlockFacts;
pub(crate) use ring::RingBlock;
pub use ring::{RingCounts, RingSize};

use crate::bytes::{CaptureBytes, FrameRef};
use crate::filter::ClassicInstruction;
use ring::Ring;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::sockopt::socket_error;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// What is wrong with the interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LinkFault {
    /// It is down or gone: frames come again when it is up, or when the socket is bound to its successor.
    Down,
    /// Another error of the socket, by its number.
    Other(i32),
}

/// What a wait for frames ended with.
#[derive(Debug)]
pub enum Step {
    /// Frames were appended, all of these bytes.
    Frames(Arc<CaptureBytes>),
    /// Nothing came.
    Quiet,
    /// The interface has a fault.
    Fault(LinkFault),
}

/// How long frames are waited for while blocks of a ring are still in use.
const IN_USE_WAIT: Duration = Duration::from_millis(1);

/// Waits until one of these has frames or a fault, no longer than this. While blocks of a ring are still in use the
/// kernel says at once that there is something to read: then for a moment, whatever comes.
pub fn await_any(all: &[&Live], wait: Duration) {
    let is_in_use = all.iter().any(|live| live.ring.is_in_use());
    let wait = if is_in_use { wait.min(IN_USE_WAIT) } else { wait };
    let sockets = all.iter().filter(|_| !is_in_use).map(|live| live.socket());
    let mut fds: Vec<PollFd<'_>> =
        sockets.map(|socket| PollFd::from_borrowed_fd(socket, PollFlags::IN)).collect();
    let wait = Timespec { tv_sec: wait.as_secs() as i64, tv_nsec: wait.subsec_nanos().into() };
    // A signal ends the wait early, which is as good as its end.
    let _ = poll(&mut fds, Some(&wait));
}

/// What the kernel counted at a socket, for somebody else than the thread that reads: it may be lost.
#[derive(Debug)]
pub struct LiveCounter(Arc<Totals>);

/// Sums of what the kernel counted, which begins at zero with each question.
#[derive(Debug, Default)]
struct Totals {
    offered: AtomicU64,
    dropped: AtomicU64,
    /// The socket, for who else counts: that of the newest ring, where one has followed another.
    socket: Mutex<Option<OwnedFd>>,
}

impl Totals {
    fn set_socket(&self, socket: Option<OwnedFd>) {
        *self.socket.lock().unwrap_or_else(PoisonError::into_inner) = socket;
    }

    fn add(&self, counts: RingCounts) {
        self.offered.fetch_add(counts.offered, Ordering::Relaxed);
        self.dropped.fetch_add(counts.dropped, Ordering::Relaxed);
    }
}

impl LiveCounter {
    /// All that was counted so far.
    pub fn counts(&self) -> RingCounts {
        let totals = &self.0;
        let socket = totals.socket.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(Ok(fresh)) = socket.as_ref().map(|socket| ring::take_counts(socket.as_fd())) {
            totals.add(fresh);
        }
        RingCounts {
            offered: totals.offered.load(Ordering::Relaxed),
            dropped: totals.dropped.load(Ordering::Relaxed),
        }
    }
}

/// An interface that frames are read from.
#[derive(Debug)]
pub struct Live {
    ring: Ring,
    link: u16,
    /// The block at hand, and its frames that were not handed out yet.
    at_hand: Option<Arc<CaptureBytes>>,
    frames: Vec<FrameRef>,
    handed_out: usize,
    facts: BlockFacts,
    counts: RingCounts,
    totals: Arc<Totals>,
}

impl Live {
    /// A ring on a socket of the family AF_PACKET that is not bound. `link` is the LINKTYPE number of its frames.
    ///
    /// # Errors
    /// The kernel refuses a ring of this size, or the socket is none of packets.
    pub fn new(socket: OwnedFd, size: RingSize, link: u16) -> io::Result<Live> {
        Ok(Live {
            ring: Ring::new(socket, size)?,
            link,
            at_hand: None,
            frames: Vec::new(),
            handed_out: 0,
            facts: BlockFacts::default(),
            counts: RingCounts::default(),
            totals: Arc::default(),
        })
    }

    /// The socket, to bind it.
    pub fn socket(&self) -> BorrowedFd<'_> {
        self.ring.socket()
    }

    /// The LINKTYPE number of its frames.
    pub fn link(&self) -> u16 {
        self.link
    }

    /// What was unusual about frames so far.
    pub fn facts(&self) -> BlockFacts {
        self.facts
    }

    /// Somebody else who counts.
    ///
    /// # Errors
    /// There are too many descriptors.
    pub fn counter(&self) -> io::Result<LiveCounter> {
        self.totals.set_socket(Some(self.ring.socket().try_clone_to_owned()?));
        Ok(LiveCounter(Arc::clone(&self.totals)))
    }

    /// Counts on from another ring of the same interface.
    pub(crate) fn continue_from(&mut self, before: &Live) {
        (self.facts, self.counts) = (before.facts, before.counts);
        self.totals = Arc::clone(&before.totals);
        // Without a descriptor for it the others see what its reader has counted.
        self.totals.set_socket(self.ring.socket().try_clone_to_owned().ok());
    }

    /// Asks the kernel what it counted; returns what was counted since the last question.
    ///
    /// # Errors
    /// The error of the system call.
    pub fn take_counts(&mut self) -> io::Result<RingCounts> {
        self.facts.is_losing = false;
        let fresh = ring::take_counts(self.ring.socket())?;
        self.totals.add(fresh);
        self.counts.offered += fresh.offered;
        self.counts.dropped += fresh.dropped;
        Ok(fresh)
    }

    /// What the kernel counted until the last question.
    pub fn counts(&self) -> RingCounts {
        self.counts
    }

    /// Whether frames are there without a wait.
    pub fn has_more_at_hand(&self) -> bool {
        self.handed_out < self.frames.len() || self.ring.has_next()
    }

    /// Whether frames are there or will be once the kernel hands them over: none of these is later than now.
    pub fn has_frames(&self) -> bool {
        self.has_more_at_hand() || self.ring.is_filling()
    }

    /// From now on no further frame enters the ring.
    ///
    /// # Errors
    /// The error of the system call.
    pub fn refuse_frames(&self) -> io::Result<()> {
        // The program of one instruction returns 0, which takes no byte of any frame.
        self.attach_filter(&[ClassicInstruction { code: 0x06, jt: 0, jf: 0, k: 0 }])
    }

    /// From now on only frames enter the ring that this program takes; others are not offered to it.
    ///
    /// # Errors
    /// The kernel refuses the program.
    pub fn attach_filter(&self, program: &[ClassicInstruction]) -> io::Result<()> {
        self.ring.attach_filter(program)
    }

    /// From now on every frame enters the ring again.
    ///
    /// # Errors
    /// The error of the system call.
    pub fn detach_filter(&self) -> io::Result<()> {
        self.ring.detach_filter()
    }

    /// Joins other rings of the interface, once it is bound: each frame enters the ring that the program names, in the
    /// order in which they joined. Without a group a new one is made; returns its number.
    ///
    /// # Errors
    /// The group is one of another interface or kind, or the kernel refuses the program.
    pub fn join_group(
        &self,
        group: Option<u16>,
        program: &[ClassicInstruction],
    ) -> io::Result<u16> {
        self.ring.join_group(group, program)
    }

    /// Bytes of the ring.
    pub fn ring_bytes(&self) -> u64 {
        self.ring.bytes()
    }

    /// How much of the ring waits to be read or is read, in percent.
    pub fn fill_percent(&self) -> u32 {
        self.ring.fill_percent()
    }

    /// Appends up to `frames_max` frames, and waits for them if none is there.
    pub fn next_frames(
        &mut self,
        frames_max: usize,
        wait: Duration,
        frames: &mut Vec<FrameRef>,
    ) -> Step {
        if self.handed_out == self.frames.len() && !self.open_block() {
            if let Some(fault) = self.await_block(wait) {
                return Step::Fault(fault);
            }
            if !self.open_block() {
                return Step::Quiet;
            }
        }
        let rest = self.frames.get(self.handed_out..).unwrap_or_default();
        let now = rest.get(..frames_max.min(rest.len())).unwrap_or_default();
        frames.extend_from_slice(now);
        self.handed_out += now.len();
        let is_last = self.handed_out == self.frames.len();
        // The last ones take the block with them: it returns to the kernel after them.
        match if is_last { self.at_hand.take() } else { self.at_hand.clone() } {
            Some(bytes) => Step::Frames(bytes),
            None => Step::Quiet,
        }
    }

    /// Opens the next block that has frames.
    fn open_block(&mut self) -> bool {
        while let Some(mut block) = self.ring.next_block() {
            self.frames.clear();
            self.handed_out = 0;
            let facts = block::read_packets(block.bytes_mut(), self.link, &mut self.frames);
            self.facts.tags += facts.tags;
            self.facts.broken += facts.broken;
            self.facts.is_losing |= facts.is_losing;
            self.facts.largest = self.facts.largest.max(facts.largest);
            self.facts.cut += facts.cut;
            self.facts.largest_cut = self.facts.largest_cut.max(facts.largest_cut);
            if !self.frames.is_empty() {
                self.at_hand = Some(Arc::new(CaptureBytes::from_ring(block)));
                return true;
            }
        }
        false
    }

    /// Waits for the next block.
    fn await_block(&self, wait: Duration) -> Option<LinkFault> {
        let mut one = [PollFd::from_borrowed_fd(self.ring.socket(), PollFlags::IN)];
        let wait = Timespec { tv_sec: wait.as_secs() as i64, tv_nsec: wait.subsec_nanos().into() };
        // A signal ends the wait early, which is as good as its end.
        poll(&mut one, Some(&wait)).ok()?;
        if !one.first()?.revents().contains(PollFlags::ERR) {
            return None;
        }
        match socket_error(self.ring.socket()) {
            Ok(Err(rustix::io::Errno::NETDOWN)) => Some(LinkFault::Down),
            Ok(Err(other)) => Some(LinkFault::Other(other.raw_os_error())),
            Ok(Ok(())) | Err(_) => None,
        }
    }
}
