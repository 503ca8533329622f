//! A capture as the rest of the program sees it: an open file or stream, read in batches of frames
//! that refer to shared bytes, with a ledger of all that could not be read.
//!
//! Hot path: [`Source::next_block`] over a capture in memory neither allocates (beyond the caller's list, which
//! it reuses) nor copies. A file is read in blocks, so that a large capture does not count as memory of the process.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::sync::Arc;
use std::time::Duration;

use gabion_record::ledger::{Ledger, ShedReason};

use crate::bytes::{CaptureBytes, FrameRef};
use crate::cursor::{Bad, Cursor, Next, Stop, Torn};
use crate::error::Error;
use crate::limits;
use crate::live::{LinkFault, Live, Step};
use crate::step::Format;
use crate::stream::Streamed;

/// How to open a capture.
#[derive(Clone, Copy, Debug)]
pub struct OpenOptions {
    /// Bytes of a block of a stream or of a file.
    pub block_len: usize,
}

impl Default for OpenOptions {
    fn default() -> Self {
        OpenOptions { block_len: limits::STREAM_BLOCK }
    }
}

/// A batch of frames: the references that were appended belong to these bytes.
#[derive(Clone, Debug)]
pub struct Block {
    /// The whole capture, a block of it, or of a ring.
    pub bytes: Arc<CaptureBytes>,
    /// Number of references that were appended; 0 only where nothing comes from an interface for a while.
    pub frames: usize,
}

/// How long one block of an interface is waited for.
const QUIET: Duration = Duration::from_millis(100);
/// Blocks after which the kernel is asked what it dropped.
const BLOCKS_A_COUNT: u32 = 64;

/// A one-line note about a capture for the operator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Note {
    /// Offset in the (unpacked) capture, in bytes.
    pub offset: u64,
    /// What is wrong, and what the reader did.
    pub text: String,
}

/// Why a fill ended.
pub(crate) enum Event {
    More,
    End,
    Torn(Torn),
    Bad(Bad),
    Broken(Torn, io::Error),
}

enum Feed {
    Whole(Whole),
    Stream(Box<Streamed>),
    Live(Box<Interface>),
}

/// An interface as a source.
struct Interface {
    live: Live,
    fault: Option<LinkFault>,
    /// Blocks since the kernel was asked what it dropped.
    blocks: u32,
    nothing: Arc<CaptureBytes>,
}

/// An open capture.
pub struct Source {
    feed: Feed,
    frames_total: u64,
    cut_total: u64,
    ledger: Ledger,
    notes: Vec<Note>,
    notes_total: u64,
    is_done: bool,
    is_packed: bool,
    /// Bytes of a file that is not packed.
    file_len: Option<u64>,
}

impl Source {
    /// A capture in a file that the caller has opened to read it; zstd and gzip are unpacked on the way.
    ///
    /// # Errors
    /// One line: empty file, not a capture, or unreadable.
    pub fn from_file(file: File) -> Result<Source, Error> {
        Source::from_file_with(file, OpenOptions::default())
    }

    /// The same with options.
    ///
    /// # Errors
    /// As [`Source::from_file`].
    pub fn from_file_with(mut file: File, options: OpenOptions) -> Result<Source, Error> {
        let kind = file.metadata()?;
        if kind.is_dir() {
            return Err(Error::NotACapture("it is a folder".to_owned()));
        }
        if !kind.is_file() {
            return Source::from_reader_with(Box::new(file), true, options);
        }
        let mut magic = [0; 4];
        let known = file.read(&mut magic)?;
        file.seek(SeekFrom::Start(0))?;
        if packing(magic.get(..known).unwrap_or_default()).is_some() {
            return Source::from_reader_with(Box::new(file), false, options);
        }
        if kind.len() == 0 {
            return Err(Error::Empty);
        }
        let mut source = Source::from_reader_with(Box::new(file), false, options)?;
        source.file_len = Some(kind.len());
        Ok(source)
    }

    /// A capture that is completely in memory, not packed.
    ///
    /// # Errors
    /// As [`Source::from_file`].
    pub fn from_bytes(bytes: CaptureBytes) -> Result<Source, Error> {
        let cursor = Cursor::new(&bytes)?;
        Ok(Source::new(Feed::Whole(Whole { bytes: Arc::new(bytes), cursor })))
    }

    /// A capture from a stream, perhaps packed.
    ///
    /// # Errors
    /// As [`Source::from_file`].
    pub fn from_reader(reader: Box<dyn Read + Send>) -> Result<Source, Error> {
        Source::from_reader_with(reader, false, OpenOptions::default())
    }

    /// A capture from a stream. With `is_live`, received data is returned at once, not in whole
    /// blocks.
    ///
    /// # Errors
    /// As [`Source::from_file`].
    pub fn from_reader_with(
        mut reader: Box<dyn Read + Send>,
        is_live: bool,
        options: OpenOptions,
    ) -> Result<Source, Error> {
        let mut magic = Vec::with_capacity(4);
        reader.by_ref().take(4).read_to_end(&mut magic)?;
        let packing = packing(&magic);
        let whole = io::Cursor::new(magic).chain(reader);
        let unpacked: Box<dyn Read + Send> = match packing {
            None => Box::new(whole),
            Some(Packing::Gzip) => Box::new(flate2::read::MultiGzDecoder::new(whole)),
            Some(Packing::Zstd) => {
                let mut decoder = zstd::stream::read::Decoder::new(whole)?;
                decoder.window_log_max(limits::ZSTD_WINDOW_LOG_MAX)?;
                Box::new(decoder)
            }
        };
        let streamed = Streamed::new(unpacked, is_live, options.block_len)?;
        let mut source = Source::new(Feed::Stream(Box::new(streamed)));
        source.is_packed = packing.is_some();
        Ok(source)
    }

    /// Whether it is unpacked on the way: what has not come out yet may have come in already.
    pub fn is_packed(&self) -> bool {
        self.is_packed
    }

    /// The frames of an interface, until the caller stops reading.
    pub fn from_live(live: Live) -> Source {
        let nothing = Arc::new(CaptureBytes::from_vec(Vec::new()));
        Source::new(Feed::Live(Box::new(Interface { live, fault: None, blocks: 0, nothing })))
    }

    /// The interface, if it is one.
    pub fn live(&self) -> Option<&Live> {
        match &self.feed {
            Feed::Live(interface) => Some(&interface.live),
            Feed::Whole(_) | Feed::Stream(_) => None,
        }
    }

    /// Reads this ring of the interface from now on; what was counted so far still counts.
    pub fn renew_live(&mut self, mut live: Live) {
        self.count_kernel_drops();
        if let Feed::Live(interface) = &mut self.feed {
            live.continue_from(&interface.live);
            interface.live = live;
        }
    }

    /// A fault of the interface since the last question.
    pub fn take_link_fault(&mut self) -> Option<LinkFault> {
        match &mut self.feed {
            Feed::Live(interface) => interface.fault.take(),
            Feed::Whole(_) | Feed::Stream(_) => None,
        }
    }

    /// Asks the kernel what it dropped of the frames of an interface, and enters it.
    pub fn count_kernel_drops(&mut self) {
        let Feed::Live(interface) = &mut self.feed else { return };
        interface.blocks = 0;
        // A socket that does not answer has nothing to add.
        let dropped = interface.live.take_counts().map_or(0, |counts| counts.dropped);
        if dropped > 0 {
            self.ledger.receive(dropped, 0);
            self.ledger.shed(ShedReason::KernelDrop, dropped, 0);
        }
    }

    /// The next frames of an interface; none if nothing comes for a while.
    fn next_live_block(
        &mut self,
        frames_max: usize,
        wait: Duration,
        frames: &mut Vec<FrameRef>,
    ) -> Option<Block> {
        let before = frames.len();
        let Feed::Live(interface) = &mut self.feed else { return None };
        let (bytes, is_quiet) = match interface.live.next_frames(frames_max, wait, frames) {
            Step::Frames(bytes) => (bytes, false),
            Step::Quiet => (Arc::clone(&interface.nothing), true),
            Step::Fault(fault) => {
                interface.fault = Some(fault);
                (Arc::clone(&interface.nothing), true)
            }
        };
        interface.blocks += 1;
        // What is found in these frames is to say what was lost just before.
        let is_losing = interface.live.facts().is_losing;
        if is_quiet || is_losing || interface.blocks >= BLOCKS_A_COUNT {
            self.count_kernel_drops();
        }
        self.count(before, frames);
        Some(Block { bytes, frames: frames.len() - before })
    }

    fn new(feed: Feed) -> Source {
        Source {
            feed,
            frames_total: 0,
            cut_total: 0,
            ledger: Ledger::new(),
            notes: Vec::new(),
            notes_total: 0,
            is_done: false,
            is_packed: false,
            file_len: None,
        }
    }

    /// Appends up to `frames_max` references, all into the bytes of the returned block. Returns
    /// `None` at the end of the capture. Bad records are noted, counted and skipped.
    pub fn next_block(&mut self, frames_max: usize, frames: &mut Vec<FrameRef>) -> Option<Block> {
        if let Feed::Live(_) = self.feed {
            return self.next_live_block(frames_max.max(1), QUIET, frames);
        }
        let before = frames.len();
        while !self.is_done {
            let (bytes, event) = match &mut self.feed {
                Feed::Whole(whole) => whole.next_block(frames_max.max(1), frames),
                Feed::Stream(stream) => stream.next_block(frames_max.max(1), frames),
                Feed::Live(_) => return None,
            };
            match event {
                Event::More => {}
                Event::End => self.finish(),
                Event::Torn(torn) => self.count_torn(torn, None),
                Event::Broken(torn, error) => self.count_torn(torn, Some(error)),
                Event::Bad(bad) => self.count_bad(bad),
            }
            let fresh = frames.get(before..).unwrap_or_default();
            if !fresh.is_empty() {
                self.count(before, frames);
                return Some(Block { bytes, frames: frames.len() - before });
            }
        }
        None
    }

    /// As [`Source::next_block`], waiting no longer than this where it is an interface.
    pub fn next_block_within(
        &mut self,
        frames_max: usize,
        wait: Duration,
        frames: &mut Vec<FrameRef>,
    ) -> Option<Block> {
        match self.feed {
            Feed::Live(_) => self.next_live_block(frames_max, wait, frames),
            Feed::Whole(_) | Feed::Stream(_) => self.next_block(frames_max, frames),
        }
    }

    /// Whether the next block is available without a read, which may block for long on a pipe.
    /// Always true for a file.
    pub fn has_more_at_hand(&self) -> bool {
        match &self.feed {
            Feed::Whole(_) => true,
            Feed::Stream(stream) => self.file_len.is_some() || stream.has_more_at_hand(),
            Feed::Live(interface) => interface.live.has_more_at_hand(),
        }
    }

    /// The format of the capture; none for an interface.
    pub fn format(&self) -> Option<Format> {
        Some(self.cursor()?.format())
    }

    /// The link type of the (first) interface, if already known; see [`Cursor::link`].
    pub fn link(&self) -> Option<u16> {
        match &self.feed {
            Feed::Live(interface) => Some(interface.live.link()),
            Feed::Whole(_) | Feed::Stream(_) => self.cursor()?.link(),
        }
    }

    /// The bytes if all are in memory at once, so that threads can walk them with their own
    /// cursors.
    pub fn shared_bytes(&self) -> Option<(&Arc<CaptureBytes>, &Cursor)> {
        match &self.feed {
            Feed::Whole(whole) => Some((&whole.bytes, &whole.cursor)),
            Feed::Stream(_) | Feed::Live(_) => None,
        }
    }

    /// Number of frames returned so far.
    pub fn frames_total(&self) -> u64 {
        self.frames_total
    }

    /// Number of returned frames that a snap length had cut.
    pub fn cut_total(&self) -> u64 {
        self.cut_total
    }

    /// Bytes of the (unpacked) capture read so far; of an interface, those of its frames.
    pub fn position(&self) -> u64 {
        match &self.feed {
            Feed::Whole(whole) => whole.cursor.position() as u64,
            Feed::Stream(stream) => stream.base().saturating_add(stream.cursor().position() as u64),
            Feed::Live(_) => self.ledger.passed().bytes,
        }
    }

    /// Length of the capture in bytes, if known in advance: of a file that is not packed, as it was when it was opened.
    pub fn len_bytes(&self) -> Option<u64> {
        self.file_len.or_else(|| self.shared_bytes().map(|(bytes, _)| bytes.len() as u64))
    }

    /// The stage's ledger. Items are records; bytes are those on the wire, or those in the file for
    /// records that are not frames.
    pub fn ledger(&self) -> &Ledger {
        &self.ledger
    }

    /// The first few notes; [`Source::notes_total`] counts all.
    pub fn notes(&self) -> &[Note] {
        &self.notes
    }

    /// Number of all notes.
    pub fn notes_total(&self) -> u64 {
        self.notes_total
    }

    fn cursor(&self) -> Option<&Cursor> {
        match &self.feed {
            Feed::Whole(whole) => Some(&whole.cursor),
            Feed::Stream(stream) => Some(stream.cursor()),
            Feed::Live(_) => None,
        }
    }

    /// Adds new references to the ledger.
    fn count(&mut self, before: usize, frames: &[FrameRef]) {
        let fresh = frames.get(before..).unwrap_or_default();
        let (mut wire, mut captured, mut missing, mut cut) = (0_u64, 0_u64, 0_u64, 0_u64);
        for frame in fresh {
            // A frame can't have had fewer bytes on the wire than were captured.
            wire += u64::from(frame.wire_len.max(frame.len));
            captured += u64::from(frame.len);
            missing += u64::from(frame.cut());
            cut += u64::from(frame.cut() > 0);
        }
        let items = fresh.len() as u64;
        self.frames_total += items;
        self.cut_total += cut;
        self.ledger.receive(items, wire);
        self.ledger.pass(items, captured);
        if missing > 0 {
            self.ledger.shed(ShedReason::SnapCut, 0, missing);
        }
    }

    fn count_torn(&mut self, torn: Torn, error: Option<io::Error>) {
        self.ledger.receive(1, torn.present);
        self.ledger.shed(ShedReason::TornFile, 1, torn.present);
        self.note(
            torn.offset,
            match error {
                Some(error) => format!("unreadable from this offset on: {error}"),
                None => format!(
                    "the capture ends inside a record, of which {} bytes are present",
                    torn.present
                ),
            },
        );
        self.finish();
    }

    fn count_bad(&mut self, bad: Bad) {
        self.ledger.receive(1, bad.skipped);
        self.ledger.shed(ShedReason::UnreadableRecord, 1, bad.skipped);
        let what = if bad.ends { "the rest is not read" } else { "it is skipped" };
        self.note(bad.offset, format!("bad record: {}; {what}", bad.why));
        if bad.ends {
            self.finish();
        }
    }

    fn finish(&mut self) {
        if !self.is_done {
            self.is_done = true;
            let drops = self.cursor().map_or(0, Cursor::reported_drops);
            if drops > 0 {
                self.ledger.receive(drops, 0);
                self.ledger.shed(ShedReason::KernelDrop, drops, 0);
                self.note(
                    0,
                    format!("its statistics report {drops} frames dropped while capturing"),
                );
            }
        }
    }

    fn note(&mut self, offset: u64, text: String) {
        self.notes_total += 1;
        if self.notes.len() < limits::NOTES_MAX {
            self.notes.push(Note { offset, text });
        }
    }
}

/// A capture whose bytes are all in memory.
struct Whole {
    bytes: Arc<CaptureBytes>,
    cursor: Cursor,
}

impl Whole {
    fn next_block(
        &mut self,
        frames_max: usize,
        frames: &mut Vec<FrameRef>,
    ) -> (Arc<CaptureBytes>, Event) {
        let event = match self.cursor.fill(&self.bytes, frames_max, frames) {
            Stop::Full => Event::More,
            Stop::Ended => Event::End,
            Stop::Bad(bad) => Event::Bad(bad),
            Stop::Need(_) => match self.cursor.end(&self.bytes) {
                Next::Torn(torn) => Event::Torn(torn),
                Next::End | Next::Frame(_) | Next::Bad(_) => Event::End,
            },
        };
        (Arc::clone(&self.bytes), event)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Packing {
    Zstd,
    Gzip,
}

pub(crate) fn packing(magic: &[u8]) -> Option<Packing> {
    match magic {
        [0x28, 0xb5, 0x2f, 0xfd] | [0x50..=0x5f, 0x2a, 0x4d, 0x18] => Some(Packing::Zstd),
        [0x1f, 0x8b, ..] => Some(Packing::Gzip),
        _ => None,
    }
}
