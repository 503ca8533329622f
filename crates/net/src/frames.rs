//! Frames of a flow's protocol: kept from where a parser notes them until rules have inspected them
//! and EVE has logged them.
//!
//! A flow has none unless its protocol's frames are named by a rule or logged. The bytes stay in the
//! stream, which is asked to hold them; a frame longer than [`HOLD_BYTES_MAX`] is inspected in pieces
//! and only what was not inspected is held.

use crate::limits::{FRAMES_PER_DIRECTION, HOLD_BYTES_MAX, reached};
use crate::view::PacketView;
use gabion_flow::{TcpSession, TcpState};
use gabion_proto::frames::{FrameNote, FrameNotes};
use gabion_record::Direction;
use gabion_record::applayer::STREAM_FRAME;
use smallvec::SmallVec;

/// New bytes of an unfinished frame after which it is inspected (Suricata's number).
pub(crate) const PIECE_BYTES: u64 = 2500;

/// A frame.
#[derive(Clone, Debug)]
pub(crate) struct Frame {
    pub(crate) kind: u8,
    /// Number among the flow's frames of that direction, from 1.
    pub(crate) id: u64,
    /// Stream offset of its first byte; 0 in datagrams.
    pub(crate) start: u64,
    pub(crate) len: Option<u64>,
    pub(crate) tx: Option<u64>,
    /// Bytes inspected.
    pub(crate) inspected: u64,
    pub(crate) is_inspected: bool,
    pub(crate) is_logged: bool,
    /// Rules that matched in it.
    pub(crate) matched: SmallVec<[u32; 2]>,
}

impl Frame {
    /// Its bytes that are available, if the stream is usable up to the offset `usable`.
    pub(crate) fn available(&self, usable: u64) -> u64 {
        let have = usable.saturating_sub(self.start);
        self.len.map_or(have, |len| have.min(len))
    }

    pub(crate) fn is_whole(&self, usable: u64) -> bool {
        self.len.is_some_and(|len| usable >= self.start.saturating_add(len))
    }

    /// Offset from which its bytes must stay.
    fn needed_from(&self, usable: u64) -> u64 {
        if self.available(usable) > HOLD_BYTES_MAX {
            self.start + self.inspected
        } else {
            self.start
        }
    }
}

#[derive(Debug, Default)]
struct Side {
    frames: Vec<Frame>,
    last_id: u64,
    has_stream: bool,
}

impl Side {
    fn begin(&mut self, kind: u8, start: u64, len: Option<u64>, tx: Option<u64>) -> bool {
        self.last_id += 1;
        if self.frames.len() >= FRAMES_PER_DIRECTION {
            reached::FRAMES_PER_DIRECTION.count();
            return false;
        }
        self.frames.push(Frame {
            kind,
            id: self.last_id,
            start,
            len,
            tx,
            inspected: 0,
            is_inspected: false,
            is_logged: false,
            matched: SmallVec::new(),
        });
        true
    }
}

/// Frames of a flow, by direction.
#[derive(Debug, Default)]
pub(crate) struct FlowFrames {
    sides: [Side; 2],
}

impl FlowFrames {
    /// The whole stream of a direction becomes a frame when its first byte is parsed.
    pub(crate) fn stream(&mut self, d: Direction, at: u64) {
        let side = &mut self.sides[d.index()];
        if !std::mem::replace(&mut side.has_stream, true) {
            side.begin(STREAM_FRAME, at, None, None);
        }
    }

    /// Takes over what a parser noted; returns the number of frames beyond the limit.
    pub(crate) fn take_notes(&mut self, notes: FrameNotes) -> u64 {
        let mut lost = 0;
        for note in notes.notes {
            match note {
                FrameNote::Begin { direction, kind, start, len, tx } => {
                    let side = &mut self.sides[direction.index()];
                    lost += u64::from(!side.begin(kind, start, len, tx));
                }
                FrameNote::End { direction, kind, end } => {
                    let side = &mut self.sides[direction.index()];
                    let last = side.frames.iter_mut().rev().find(|f| f.kind == kind);
                    if let Some(f) = last.filter(|f| f.len.is_none()) {
                        f.len = Some(end.saturating_sub(f.start));
                    }
                }
            }
        }
        lost
    }

    /// Frames of a datagram are freed with it.
    pub(crate) fn clear(&mut self) {
        for side in &mut self.sides {
            side.frames.clear();
        }
    }

    pub(crate) fn side_frames(&mut self, d: Direction) -> &mut Vec<Frame> {
        &mut self.sides[d.index()].frames
    }

    pub(crate) fn is_empty(&self, d: Direction) -> bool {
        self.sides[d.index()].frames.is_empty()
    }

    /// Frees the finished frames of a direction, and makes the stream hold what the others need. Frames of
    /// a datagram are freed with it.
    pub(crate) fn settle(
        &mut self,
        d: Direction,
        tcp: Option<&mut TcpSession>,
        detection: bool,
        logging: bool,
    ) {
        let Some(tcp) = tcp else {
            self.clear();
            return;
        };
        self.prune(d, detection, logging);
        let usable = tcp.stream(d).usable_end();
        let from = self.side_frames(d).iter().map(|f| f.needed_from(usable)).min();
        tcp.stream_mut(d).hold_data_from(from);
    }

    /// Frees the frames that are inspected and logged.
    fn prune(&mut self, d: Direction, detection: bool, logging: bool) {
        self.side_frames(d).retain(|f| (detection && !f.is_inspected) || (logging && !f.is_logged));
    }
}

/// Whether the packet's direction has ended.
pub(crate) fn is_over(view: &PacketView<'_>, tcp: Option<&TcpSession>) -> bool {
    view.is_pseudo || tcp.is_some_and(|t| t.state() == TcpState::Closed)
}

/// The bytes of a frame that are still there, and the offset in it of the first one.
pub(crate) fn bytes_of<'a>(
    f: &Frame,
    d: Direction,
    tcp: Option<&'a TcpSession>,
    datagram: &'a [u8],
) -> (&'a [u8], u64) {
    let Some(tcp) = tcp else {
        let from = usize::try_from(f.start).unwrap_or(usize::MAX);
        let bytes = datagram.get(from..).unwrap_or(&[]);
        return (cut(bytes, f.len), 0);
    };
    let stream = tcp.stream(d);
    let available = f.available(stream.usable_end());
    let whole = stream.bytes_from(f.start);
    if !whole.is_empty() || f.inspected == 0 {
        return (cut(whole, Some(available)), 0);
    }
    let rest = stream.bytes_from(f.start + f.inspected);
    (cut(rest, Some(available.saturating_sub(f.inspected))), f.inspected)
}

fn cut(bytes: &[u8], len: Option<u64>) -> &[u8] {
    let len = len.and_then(|n| usize::try_from(n).ok()).unwrap_or(usize::MAX);
    bytes.get(..len.min(bytes.len())).unwrap_or(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_begin_end_and_are_shed() {
        let mut all = FlowFrames::default();
        let d = Direction::ToServer;
        let mut notes = FrameNotes { wanted: 0b11, at: [100, 0], notes: Vec::new() };
        notes.add(d, 1, 3, 5, None);
        notes.add(d, 2, 3, 5, None);
        notes.begin(d, 0, 110, Some(4));
        assert_eq!(all.take_notes(notes), 0);
        let list = all.side_frames(d);
        assert_eq!((list[0].id, list[0].start, list[0].len), (1, 103, Some(5)));
        assert_eq!((list.len(), list[1].len, list[1].available(125)), (2, None, 15));
        let mut notes = FrameNotes { wanted: 1, at: [120, 0], notes: Vec::new() };
        notes.end(d, 0, 130);
        all.take_notes(notes);
        assert!(!all.side_frames(d)[1].is_whole(129) && all.side_frames(d)[1].is_whole(130));
        all.side_frames(d)[0].is_inspected = true;
        all.prune(d, true, false);
        assert_eq!(all.side_frames(d).len(), 1);
        all.prune(d, false, false);
        assert!(all.is_empty(d));
    }

    #[test]
    fn there_is_a_limit() {
        let mut all = FlowFrames::default();
        let mut notes = FrameNotes { wanted: 1, at: [0; 2], notes: Vec::new() };
        for n in 0..FRAMES_PER_DIRECTION + 7 {
            notes.add(Direction::ToClient, 0, n, 1, None);
        }
        assert_eq!(all.take_notes(notes), 7);
        assert_eq!(all.side_frames(Direction::ToClient).len(), FRAMES_PER_DIRECTION);
        let counts = gabion_record::limits::take_reached();
        assert_eq!(counts.times_reached(&reached::FRAMES_PER_DIRECTION), 7);
    }
}
