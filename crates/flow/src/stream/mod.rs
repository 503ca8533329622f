//! One direction of a TCP session: its position in sequence space, the bytes kept, and the offsets
//! of the application layer and of raw inspection.
//!
//! Offsets are 64 bit and count the bytes after the SYN. Sequence numbers are converted to offsets
//! with a reference pair that moves along, so streams may be longer than 4 GiB. Urgent bytes taken
//! out of band have no offset; the bytes after them move up.
//!
//! Two readers share the bytes: the parsers (`app_*`) and payload rules (`raw_*`). Bytes are
//! dropped when both are past them and the receiver has acknowledged them; unacknowledged bytes are
//! kept because a retransmission is compared with the bytes that were sent first.

mod islands;
#[cfg(test)]
mod model;
mod overlap;
mod pool;
mod store;

use crate::limits::{HOLE_LOOKS_MAX, reached};
use crate::policy::OsPolicy;
use gabion_record::budget::Budget;
pub(crate) use pool::BufferPool;
use smallvec::SmallVec;
pub(crate) use store::Stored;
use store::{Store, StoreRules};

/// The next chunk for the application layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AppChunk<'a> {
    /// All bytes that are not yet consumed, more than in the chunk before.
    Data(&'a [u8]),
    /// The number of bytes that never arrived; they count as consumed.
    Gap(u64),
    /// Nothing will follow. Returned once.
    Eof,
    /// Nothing new has arrived.
    None,
}

/// Bytes for payload rules.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RawView<'a> {
    /// The bytes.
    pub data: &'a [u8],
    /// Stream offset of the first byte.
    pub offset: u64,
}

/// What is due for payload rules: the bytes around the holes of the stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RawViews<'a> {
    /// Bytes without a hole in them, in order.
    pub pieces: SmallVec<[RawView<'a>; 1]>,
    /// Where the next inspection begins: the argument for [`Stream::raw_advance`].
    pub next: u64,
}

/// The timestamps of a stream's sender.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct SenderClock {
    /// The last value.
    pub(crate) ts: u32,
    /// Event time of the packet with that timestamp, seconds.
    pub(crate) pkt_s: u32,
}

/// A direction of a TCP session.
#[derive(Debug, Default)]
pub struct Stream {
    /// Initial sequence number.
    pub(crate) isn: u32,
    /// Sequence number expected next from the sender.
    pub(crate) next_seq: u32,
    /// Highest acknowledgment of this stream by its receiver.
    pub(crate) last_ack: u32,
    /// Right edge of the receiver's window.
    pub(crate) next_win: u32,
    /// The receiver's window, scaled.
    pub(crate) window: u32,
    /// Shift of windows that the sender of this stream's acknowledgments announces.
    pub(crate) wscale: u8,
    /// TCP flags seen from the sender, or-ed.
    tcp_flags: u8,
    pub(crate) clock: SenderClock,
    /// Stack of the receiving host.
    policy: OsPolicy,
    pub(crate) marks: StreamMarks,

    ref_seq: u32,
    ref_offset: u64,
    /// Sequence numbers of removed urgent bytes, ascending, after the reference.
    oob: Vec<u32>,
    /// Number of urgent bytes removed so far.
    oob_total: u32,
    store: Store,
    /// Bytes that are reassembled; 0 = all.
    depth: u64,
    app: u64,
    /// End of the bytes that the application layer has received.
    shown: u64,
    /// Number of bytes that the application layer needs before it is called again.
    needs: u64,
    raw: u64,
    /// Inspections so far that left `raw` where it was, since the hole after it was not acknowledged to its end.
    hole_looks: u8,
    /// Data from this offset on is not inspected as a stream.
    raw_end: Option<u64>,
    /// Highest acknowledgment before a reset, which counts all that is kept as acknowledged.
    acked_before_reset: Option<u32>,
    /// Offset of the FIN.
    fin: Option<u64>,
    /// Data from this offset on is kept for a reader other than parsers and payload rules.
    hold: Option<u64>,
    gaps: u32,
    gap_bytes: u64,
    /// Sequence number of the first byte that was kept when the direction was abandoned.
    abandoned_at: u32,
}

/// Flags of a direction.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct StreamMarks {
    /// The sender uses timestamps.
    pub(crate) timestamps: bool,
    /// The sender began with timestamp 0.
    pub(crate) zero_timestamp: bool,
    /// A keep-alive is waiting for its answer.
    pub(crate) keepalive: bool,
    /// A zero window probe was sent.
    pub(crate) window_probe: bool,
    /// The sender of this stream has sent a reset that may be ignored.
    pub(crate) reset: bool,
    /// The stream is longer than the depth.
    pub(crate) depth_reached: bool,
    /// Nothing is kept any more.
    pub(crate) stopped: bool,
    pub(crate) no_app: bool,
    pub(crate) no_raw: bool,
    /// No rule looks at this direction now.
    pub(crate) unread: bool,
    /// Nothing is kept since neither a parser nor a rule looks at this direction: [`Stream::abandon`].
    pub(crate) abandoned: bool,
    /// Raw inspection is due, whatever the amount of data.
    pub(crate) raw_due: bool,
    /// Raw inspection was ended when nothing was left to inspect, and no data has come since.
    pub(crate) raw_asked: bool,
    /// Data is inspected at once, not when it is acknowledged.
    pub(crate) inline: bool,
    /// The flow has ended: all data is inspected.
    pub(crate) ended: bool,
    /// No more data is expected from the sender.
    pub(crate) eof_due: bool,
    pub(crate) eof_given: bool,
    /// Data was seen.
    pub(crate) has_data: bool,
}

impl Stream {
    /// Begins a stream whose first byte has this sequence number.
    pub(crate) fn start_at(&mut self, seq: u32) {
        self.ref_seq = seq;
        self.ref_offset = 0;
    }

    /// Resets all state.
    pub(crate) fn reset(&mut self, budget: &Budget, pool: &mut BufferPool) {
        self.store.reset(budget, pool);
        *self = Stream::default();
    }

    // ---- application layer

    /// The next chunk for the application layer. Call it until it returns `None`.
    pub fn app_next(&mut self) -> AppChunk<'_> {
        if self.marks.no_app || self.marks.stopped && !self.marks.eof_due {
            return AppChunk::None;
        }
        let end = self.app_available_end();
        let is_last = self.marks.eof_due || self.marks.ended;
        if end > self.app {
            let enough = end - self.app >= self.needs || is_last;
            if end > self.shown && enough {
                self.shown = end;
                self.needs = 0;
                let len = (end - self.app) as usize;
                let data = self.store.bytes_from(self.app);
                return AppChunk::Data(data.get(..len).unwrap_or(data));
            }
        }
        // An acknowledged hole directly after the available bytes, with later data behind it: it will not be
        // filled. Without later data it may be, as an acknowledgement can be captured before what it acknowledges.
        // Bytes that a parser has seen but not consumed are dropped only if it waits for a certain amount; a parser
        // that consumes nothing (a protocol not yet detected) may still do so.
        let acked = match self.acked_before_reset {
            Some(seq) => self.offset_of(seq).unwrap_or(0).min(self.acked()),
            None => self.acked(),
        };
        let passes = end == self.app || self.needs > 0;
        let later = self.store.next_data(end).filter(|next| *next > end);
        if let Some(later) = later
            && passes
            && self.marks.has_data
            && acked > end
        {
            let next = later.min(acked);
            let missing = next - end;
            self.app = next;
            self.shown = next;
            self.needs = self.needs.saturating_sub(missing);
            self.gaps = self.gaps.saturating_add(1);
            self.gap_bytes += missing;
            return AppChunk::Gap(missing);
        }
        if is_last && !self.marks.eof_given {
            self.marks.eof_given = true;
            return AppChunk::Eof;
        }
        AppChunk::None
    }

    /// Marks `n` bytes of the last [`AppChunk::Data`] as consumed. The rest is returned again as
    /// soon as more has arrived.
    pub fn app_consume(&mut self, n: usize) {
        self.app = self.shown.min(self.app.saturating_add(n as u64));
    }

    /// The application layer needs at least `n` bytes, counted from the first not consumed, before
    /// it is called again.
    pub fn app_needs(&mut self, n: u64) {
        self.needs = n;
    }

    /// Offset of the first byte not yet consumed.
    #[inline]
    pub fn app_offset(&self) -> u64 {
        self.app
    }

    /// All bytes for the application layer that are not yet consumed, whether it has seen them or
    /// not.
    pub fn app_peek(&self) -> &[u8] {
        let len = (self.app_available_end() - self.app) as usize;
        let data = self.store.bytes_from(self.app);
        data.get(..len).unwrap_or(data)
    }

    /// Makes the next [`AppChunk::Data`] begin at the first byte not consumed although nothing was
    /// added, because another parser takes over.
    pub fn app_again(&mut self) {
        self.shown = self.app;
        self.needs = 0;
    }

    /// The application layer takes no more data of this direction.
    pub fn disable_app(&mut self) {
        self.marks.no_app = true;
    }

    /// Whether the application layer takes part.
    pub fn is_app_enabled(&self) -> bool {
        !self.marks.no_app
    }

    fn app_available_end(&self) -> u64 {
        let stored = self.app + self.store.bytes_from(self.app).len() as u64;
        if self.marks.inline || self.marks.ended {
            stored
        } else {
            stored.min(self.acked().max(self.app))
        }
    }

    // ---- raw inspection

    /// Bytes for payload rules, if inspection is due: at least `chunk` new acknowledged bytes, or
    /// `force`, or it was triggered, or the flow has ended. Call [`Stream::raw_advance`] with
    /// [`RawViews::next`] afterwards.
    ///
    /// As many bytes as were acknowledged are looked at, those of a hole before them counted. What is after a hole is
    /// looked at once more the next time; a hole that is not acknowledged to its end stays (Suricata 8.0.7), for
    /// [`HOLE_LOOKS_MAX`] inspections: more would cost the square of what follows the hole.
    pub fn raw_views(&self, chunk: u64, force: bool) -> Option<RawViews<'_>> {
        if self.marks.no_raw {
            return None;
        }
        let limit = self.raw_limit();
        let left = limit.checked_sub(self.raw).filter(|left| *left > 0)?;
        let due = force
            || self.marks.raw_due
            || self.marks.ended
            || self.marks.depth_reached
            || self.marks.stopped
            || left >= chunk;
        if !due {
            return None;
        }
        let (mut pieces, mut next, mut at) = (SmallVec::new(), self.raw, self.raw);
        while let Some(offset) = self.store.next_data(at) {
            let bytes = self.store.bytes_from(offset);
            let left = limit.saturating_sub(next);
            let room = self.raw_end.map_or(left, |end| left.min(end.saturating_sub(offset)));
            let len = room.min(bytes.len() as u64);
            let Some(data) = bytes.get(..len as usize).filter(|data| !data.is_empty()) else {
                break;
            };
            pieces.push(RawView { data, offset });
            at = offset + bytes.len() as u64;
            if offset == next {
                next += len;
            } else if offset <= limit || self.hole_looks >= HOLE_LOOKS_MAX {
                next = offset;
            }
        }
        (!pieces.is_empty()).then_some(RawViews { pieces, next })
    }

    /// Inline: the window around a packet's own bytes. `offset` and `len` are the packet's position
    /// (see `TcpVerdict`). The window has up to `chunk` bytes: bytes after the packet are left out
    /// first, then bytes before it.
    pub fn raw_window(&self, offset: u64, len: u64, chunk: u64) -> Option<RawViews<'_>> {
        if self.marks.no_raw || len == 0 {
            return None;
        }
        let packet_end = offset + len;
        let start = self.store.run_start(offset, 0);
        let all = self.store.bytes_from(start);
        let end = start + all.len() as u64;
        let chunk = chunk.max(len);
        let mut excess = (end - start).saturating_sub(chunk);
        let after = excess.min(end.saturating_sub(packet_end));
        excess -= after;
        let from = start + excess.min(offset.saturating_sub(start));
        let until = end - after;
        let data = all.get((from - start) as usize..(until.checked_sub(start)?) as usize)?;
        let next = from + data.len() as u64;
        let pieces = SmallVec::from_buf([RawView { data, offset: from }]);
        (!data.is_empty()).then_some(RawViews { pieces, next })
    }

    /// Whether inspection is due and all that is left to inspect waits for its acknowledgment.
    pub fn raw_waits(&self) -> bool {
        let is_due = self.marks.raw_due && !self.marks.no_raw;
        let is_in_reach = |at: u64| self.raw_end.is_none_or(|end| at < end);
        let waits = |at: u64| at >= self.raw_limit() && is_in_reach(at);
        is_due && self.store.next_data(self.raw).is_some_and(waits)
    }

    /// Marks everything before `to` as inspected.
    pub fn raw_advance(&mut self, to: u64) {
        if to <= self.raw && self.hole_looks < HOLE_LOOKS_MAX {
            self.hole_looks += 1;
            if self.hole_looks == HOLE_LOOKS_MAX {
                reached::HOLE_LOOKS_MAX.count();
            }
        }
        self.move_raw(to);
        self.marks.raw_due = false;
    }

    fn move_raw(&mut self, to: u64) {
        self.raw = self.raw.max(to);
        self.marks.no_raw |= self.raw_end.is_some_and(|end| self.raw >= end);
    }

    /// No rule looks at this direction now: what could be inspected counts as inspected, and is not kept for rules.
    #[inline]
    pub fn pass_raw(&mut self) {
        // That it was due is recorded, whether or not a rule looks.
        self.move_raw(self.raw_limit());
        self.marks.unread = true;
    }

    /// Some rule looks at this direction from now on.
    #[inline]
    pub fn read_raw(&mut self) {
        self.marks.unread = false;
    }

    /// Whether no rule looks at this direction.
    #[inline]
    pub(crate) fn is_raw_over(&self) -> bool {
        self.marks.no_raw || self.marks.unread
    }

    /// Offset up to which raw inspection is done.
    pub fn raw_offset(&self) -> u64 {
        self.raw
    }

    /// Triggers raw inspection, whatever the amount: a parser has finished a request or response.
    pub fn trigger_raw(&mut self) {
        self.marks.raw_due = true;
    }

    /// Ends raw inspection of this direction.
    pub fn no_raw(&mut self) {
        self.marks.no_raw = true;
    }

    /// Ends raw inspection of this direction: what was acknowledged is inspected once more.
    pub fn end_raw(&mut self) {
        let end = self.raw_limit();
        self.marks.raw_due = true;
        if self.raw_end.is_none() {
            let is_over = self.raw >= end;
            self.marks.no_raw |= is_over;
            self.marks.raw_asked = is_over;
            self.raw_end = Some(end);
        }
    }

    /// Whether raw inspection has ended with nothing left, and this is the first data since. True once.
    #[inline]
    pub fn take_first_after_raw(&mut self) -> bool {
        let is_first = self.marks.raw_asked && self.store.end() > self.raw;
        self.marks.raw_asked &= !is_first;
        is_first
    }

    /// Offset after the last byte for inspection: acknowledged bytes, or all of them inline and at
    /// the flow's end.
    pub fn usable_end(&self) -> u64 {
        self.visible_end().min(self.store.end())
    }

    /// Offset after the last byte that was acknowledged, inline too; at the flow's end after all of them.
    pub fn sure_end(&self) -> u64 {
        let end = self.store.end();
        if self.marks.ended { end } else { self.acked().min(end) }
    }

    /// Keeps data from this offset on until the next call, even if parsers and raw inspection are
    /// past it.
    pub fn hold_data_from(&mut self, from: Option<u64>) {
        self.hold = from;
    }

    /// Offset after the last byte that readers may see.
    fn visible_end(&self) -> u64 {
        if self.marks.inline || self.marks.ended { self.store.end() } else { self.acked() }
    }

    fn raw_limit(&self) -> u64 {
        let end = self.visible_end();
        self.raw_end.map_or(end, |last| end.min(last))
    }

    // ---- both

    /// Sets how many bytes are reassembled; 0 = all.
    pub fn set_depth(&mut self, bytes: u64) {
        self.depth = bytes;
        if bytes == 0 || bytes > self.store.end() {
            self.marks.depth_reached = false;
        }
    }

    /// Stores no further data of this direction (encrypted, bypassed). Stored data can still be
    /// inspected.
    pub fn stop_reassembly(&mut self) {
        self.marks.stopped = true;
    }

    /// Whether nothing is kept any more.
    pub fn is_stopped(&self) -> bool {
        self.marks.stopped
    }

    /// Whether the stream was longer than its depth.
    pub fn is_depth_reached(&self) -> bool {
        self.marks.depth_reached
    }

    /// Bytes the sender sent beyond the depth.
    pub fn beyond_depth(&self) -> u64 {
        self.size().saturating_sub(self.depth)
    }

    /// Stored bytes from an offset on, as far as they are contiguous.
    pub fn bytes_from(&self, offset: u64) -> &[u8] {
        self.store.bytes_from(offset)
    }

    /// All bytes kept, with `[N bytes missing]` for gaps, one before them too, as Suricata prints a stream.
    pub fn write_with_gaps(&self, out: &mut Vec<u8>) {
        let from = self.store.base().saturating_sub(self.store.missing_before_base());
        self.write_range(from, self.store.end(), usize::MAX, out);
    }

    /// The bytes from one offset to another, with `[N bytes missing]` for gaps, at most `most` bytes of text.
    pub fn write_range(&self, from: u64, to: u64, most: usize, out: &mut Vec<u8>) {
        let mut at = from;
        while at < to && out.len() < most {
            let start = self.store.next_data(at).map_or(to, |start| start.min(to));
            if start > at {
                out.extend_from_slice(format!("[{} bytes missing]", start - at).as_bytes());
                at = start;
                continue;
            }
            let bytes = self.store.bytes_from(at);
            let len = usize::try_from(to - at).unwrap_or(usize::MAX).min(bytes.len());
            if len == 0 {
                break;
            }
            out.extend_from_slice(bytes.get(..len).unwrap_or_default());
            at += len as u64;
        }
        out.truncate(most);
    }

    /// Segments kept.
    pub(crate) fn segments_kept(&self) -> usize {
        self.store.segment_count()
    }

    /// Most bytes kept at once so far.
    pub(crate) fn most_kept(&self) -> usize {
        self.store.most_kept() as usize
    }

    /// Whether raw inspection ends with what was there when a parser asked for it.
    pub(crate) fn is_raw_ended(&self) -> bool {
        self.raw_end.is_some()
    }

    /// Number of gaps and the bytes missing in them.
    pub fn gaps(&self) -> (u32, u64) {
        (self.gaps, self.gap_bytes)
    }

    /// Most regions of data far apart that were kept at once (EVE's `*_max_regions`).
    pub fn max_regions(&self) -> u8 {
        self.store.regions_seen()
    }

    /// TCP flags seen from the sender, or-ed.
    pub fn tcp_flags(&self) -> u8 {
        self.tcp_flags
    }

    /// Adds the flags of a segment of the sender.
    #[inline]
    pub(crate) fn add_tcp_flags(&mut self, flags: u8) {
        self.tcp_flags |= flags;
    }

    /// Stack of the receiving host.
    #[inline]
    pub(crate) fn policy(&self) -> OsPolicy {
        self.policy
    }

    /// Sets the stack of the receiving host.
    #[inline]
    pub(crate) fn set_policy(&mut self, policy: OsPolicy) {
        self.policy = policy;
    }

    /// A reset counts all that is kept as acknowledged: keeps how far it was before.
    #[inline]
    pub(crate) fn keep_acked_before_reset(&mut self) {
        self.acked_before_reset = Some(self.last_ack);
    }

    /// Offset after the last byte that was acknowledged, whether it was seen or not.
    #[inline]
    pub fn acked(&self) -> u64 {
        // Nothing has arrived from the receiver yet.
        if self.last_ack == 0 && self.next_win == 0 && self.window == 0 {
            return self.store.base();
        }
        let acked = self.offset_of(self.last_ack).unwrap_or(0);
        self.fin.map_or(acked, |fin| acked.min(fin)).max(self.store.base())
    }

    /// Bytes sent, by the sender's sequence numbers.
    pub fn size(&self) -> u64 {
        u64::from(self.next_seq.wrapping_sub(self.isn.wrapping_add(1)))
    }

    /// Whether a segment with this sequence number begins where the last one ended.
    pub fn is_next(&self, seq: u32) -> bool {
        seq == self.next_seq
    }

    /// Sequence numbers used so far, that of the SYN too; 0 before the sender's first packet.
    pub fn used_numbers(&self) -> u64 {
        u64::from(self.next_seq.wrapping_sub(self.isn))
    }

    /// Whether parsers or raw inspection have not yet seen all data, including unacknowledged
    /// bytes.
    pub fn has_pending(&self) -> bool {
        let end = self.store.end();
        let app = !self.marks.no_app && !self.marks.stopped && self.app.max(self.shown) < end;
        let raw = !self.marks.no_raw && self.raw < self.raw_end.map_or(end, |last| end.min(last));
        app || raw
    }

    /// Whether data came of which rules could see some.
    pub fn has_raw(&self) -> bool {
        !self.marks.no_raw && self.store.end() > 0
    }

    /// The flow has ended: all data is inspected, acknowledged or not.
    pub(crate) fn finish(&mut self) {
        self.marks.ended = true;
    }

    /// The sender has sent a FIN here, or will send no more.
    pub(crate) fn note_fin(&mut self, seq: u32) {
        if self.fin.is_none() {
            self.fin = self.offset_of(seq);
        }
    }

    /// Stream offset of a sequence number; none when it lies before offset 0.
    pub(crate) fn offset_of(&self, seq: u32) -> Option<u64> {
        let from_ref = i64::from(seq.wrapping_sub(self.ref_seq) as i32);
        let skipped = if self.oob.is_empty() {
            0
        } else {
            self.oob.iter().filter(|o| (seq.wrapping_sub(**o) as i32) > 0).count() as i64
        };
        let offset = i64::try_from(self.ref_offset).ok()? + from_ref - skipped;
        u64::try_from(offset).ok()
    }

    /// Removes the byte with this sequence number from the stream. Returns false if no more can be
    /// removed.
    pub(crate) fn take_out_urgent(&mut self, seq: u32) -> bool {
        if self.oob_total >= u32::from(u16::MAX) {
            return false;
        }
        if self.oob.contains(&seq) {
            return true;
        }
        self.oob_total += 1;
        let at = self.oob.partition_point(|o| (seq.wrapping_sub(*o) as i32) > 0);
        self.oob.insert(at, seq);
        true
    }

    /// Number of bytes of a segment at `seq` that are within the depth; sets the mark if not all
    /// are.
    pub(crate) fn within_depth(&mut self, seq: u32, len: usize) -> usize {
        if self.depth == 0 {
            return len;
        }
        if self.marks.depth_reached {
            return 0;
        }
        let Some(start) = self.offset_of(seq) else { return len };
        if start + len as u64 <= self.depth {
            return len;
        }
        if start >= self.depth {
            self.marks.depth_reached = true;
            return 0;
        }
        self.marks.depth_reached = true;
        (self.depth - start) as usize
    }

    /// Stores bytes at a sequence number.
    #[inline]
    pub(crate) fn store(
        &mut self,
        seq: u32,
        bytes: &[u8],
        max_regions: u8,
        budget: &Budget,
        pool: &mut BufferPool,
    ) -> Stored {
        self.marks.has_data = true;
        if !self.oob.is_empty() {
            return self.store_around_urgent(seq, bytes, max_regions, budget, pool);
        }
        self.store_plain(seq, bytes, max_regions, budget, pool)
    }

    /// Stores bytes without those that were removed as urgent before.
    fn store_around_urgent(
        &mut self,
        seq: u32,
        bytes: &[u8],
        max_regions: u8,
        budget: &Budget,
        pool: &mut BufferPool,
    ) -> Stored {
        let mut stored = Stored::Before;
        let (mut at, mut rest) = (seq, bytes);
        let holes: smallvec::SmallVec<[u32; 4]> = self
            .oob
            .iter()
            .copied()
            .filter(|o| (o.wrapping_sub(seq) as usize) < bytes.len())
            .collect();
        for hole in holes {
            let Some((part, after)) = rest.split_at_checked(hole.wrapping_sub(at) as usize) else {
                break;
            };
            if !part.is_empty() {
                stored = stored.and(self.store_plain(at, part, max_regions, budget, pool));
            }
            rest = after.get(1..).unwrap_or_default();
            at = hole.wrapping_add(1);
        }
        if !rest.is_empty() {
            stored = stored.and(self.store_plain(at, rest, max_regions, budget, pool));
        }
        stored
    }

    #[inline]
    fn store_plain(
        &mut self,
        seq: u32,
        bytes: &[u8],
        max_regions: u8,
        budget: &Budget,
        pool: &mut BufferPool,
    ) -> Stored {
        let (start, bytes) = match self.offset_of(seq) {
            Some(start) => (start, bytes),
            None => {
                // Bytes before offset 0 are not stored.
                let Some(first) = self.first_placed(seq, bytes.len()) else {
                    return Stored::Before;
                };
                (0, bytes.get(first..).unwrap_or_default())
            }
        };
        if bytes.is_empty() {
            return Stored::Before;
        }
        let overlaps = if self.marks.inline { OsPolicy::First } else { self.policy };
        let rules = StoreRules { overlaps, regions_max: max_regions };
        self.store.insert(start, bytes, rules, budget, pool)
    }

    fn first_placed(&self, seq: u32, len: usize) -> Option<usize> {
        let before = self.ref_seq.wrapping_sub(seq).wrapping_sub(self.ref_offset as u32) as usize;
        (before < len).then_some(before)
    }

    /// Sequence number of the first byte that is kept, or the acknowledgment when nothing is kept
    /// any more. Of an abandoned direction it is the one of that moment.
    #[inline]
    pub(crate) fn base_seq(&self) -> u32 {
        if self.marks.stopped {
            self.last_ack
        } else if self.marks.abandoned {
            self.abandoned_at
        } else {
            self.seq_at(self.store.base())
        }
    }

    /// Whether nothing of this direction is kept or put in order any more.
    pub(crate) fn keeps_nothing(&self) -> bool {
        self.marks.stopped || self.marks.abandoned
    }

    /// Keeps nothing any more, as neither parsers nor rules look at this direction.
    pub(crate) fn abandon(&mut self, budget: &Budget, pool: &mut BufferPool) {
        if self.keeps_nothing() || self.hold.is_some() {
            return;
        }
        self.abandoned_at = self.base_seq();
        self.marks.abandoned = true;
        self.store.trim(self.store.end(), budget, pool);
    }

    /// Takes up an abandoned direction with the data at this sequence number: rules that were loaded later look at it.
    pub(crate) fn resume_at(&mut self, seq: u32, budget: &Budget, pool: &mut BufferPool) {
        self.marks.abandoned = false;
        let begin = self.store.base() + u64::from(seq.wrapping_sub(self.seq_at(self.store.base())));
        self.store.trim(begin, budget, pool);
        self.rebase(begin);
        self.raw = self.raw.max(begin);
    }

    /// Sequence number after the last byte kept.
    pub(crate) fn end_seq(&self) -> u32 {
        self.seq_at(self.store.end())
    }

    fn seq_at(&self, offset: u64) -> u32 {
        let mut seq = self.ref_seq.wrapping_add(offset.wrapping_sub(self.ref_offset) as u32);
        for o in &self.oob {
            if (seq.wrapping_sub(*o) as i32) >= 0 {
                seq = seq.wrapping_add(1);
            }
        }
        seq
    }

    /// Drops bytes that are no longer needed, except for the `window` bytes that were inspected
    /// last.
    #[inline]
    pub(crate) fn trim(&mut self, window: u64, budget: &Budget, pool: &mut BufferPool) {
        let app = if self.marks.no_app { u64::MAX } else { self.app };
        let raw = if self.marks.no_raw { u64::MAX } else { self.raw.saturating_sub(window) };
        // A gap after all data counts as consumed by the application layer.
        let end = self.store.end();
        let end = if self.marks.no_app { end } else { end.max(self.app) };
        let hold = self.hold.unwrap_or(u64::MAX);
        let edge = app.min(raw).min(self.acked()).min(end).min(hold);
        if edge <= self.store.base() {
            return;
        }
        self.store.trim(edge, budget, pool);
        if !self.oob.is_empty() || edge.wrapping_sub(self.ref_offset) > 1 << 28 {
            self.rebase(edge);
        }
    }

    /// Moves the reference pair to an offset and forgets urgent bytes before it.
    fn rebase(&mut self, offset: u64) {
        let seq = self.seq_at(offset);
        self.oob.retain(|o| (seq.wrapping_sub(*o) as i32) <= 0);
        self.ref_seq = seq;
        self.ref_offset = offset;
    }
}
