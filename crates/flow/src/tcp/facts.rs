//! A session as in EVE records: the numbers and flags of the type `stream`.

use super::segment::TcpState;
use super::session::TcpSession;
use crate::stream::Stream;
use gabion_record::Direction;
use smallvec::SmallVec;

/// Names of flags, in EVE's order.
pub type MarkNames = SmallVec<[&'static str; 8]>;

/// One side of a session, as EVE's `stream` type shows it.
#[derive(Clone, Debug, Default)]
pub struct SideFacts {
    /// Initial sequence number.
    pub isn: u32,
    /// Sequence number expected next.
    pub next_seq: u32,
    /// Highest acknowledgment of this side's data.
    pub last_ack: u32,
    /// Right edge of the receiver's window.
    pub next_win: u32,
    /// Sequence numbers of the first byte kept and after the last (0: there was none); `None` if
    /// the side is no longer reassembled.
    pub kept: Option<(u32, u32)>,
    /// The receiver's window, scaled.
    pub window: u32,
    /// Shift of that window.
    pub wscale: u8,
    /// Segments kept.
    pub segments: usize,
    /// Most bytes kept at once so far, rounded up to Suricata's buffer sizes.
    pub region: usize,
    /// Names of flags before and after EVE's own for finished protocol detection.
    pub marks: [MarkNames; 2],
}

/// Bytes by which Suricata's buffers grow.
const REGION_STEP: usize = 2048;

fn names_of_set<const N: usize>(marks: [(bool, &'static str); N]) -> MarkNames {
    marks.into_iter().filter(|(on, _)| *on).map(|(_, name)| name).collect()
}

impl Stream {
    fn facts(&self) -> SideFacts {
        let m = &self.marks;
        SideFacts {
            isn: self.isn,
            next_seq: self.next_seq,
            last_ack: self.last_ack,
            next_win: self.next_win,
            kept: (!self.keeps_nothing())
                .then(|| (self.base_seq(), if m.has_data { self.end_seq() } else { 0 })),
            window: self.window,
            wscale: self.wscale,
            segments: self.segments_kept(),
            region: if m.has_data {
                self.most_kept().max(1).next_multiple_of(REGION_STEP)
            } else {
                0
            },
            marks: [
                names_of_set([
                    (self.gaps().0 > 0, "has_gap"),
                    (self.keeps_nothing(), "noreassembly"),
                    (m.keepalive, "keepalive"),
                    (m.depth_reached, "depth_reached"),
                    (m.raw_due, "trigger_raw"),
                    (m.timestamps, "timestamp"),
                    (m.zero_timestamp, "zero_timestamp"),
                ]),
                names_of_set([
                    (self.is_raw_ended(), "new_raw_disabled"),
                    (m.no_raw, "disable_raw"),
                ]),
            ],
        }
    }
}

impl TcpSession {
    /// The state before the present one.
    pub fn previous_state(&self) -> TcpState {
        self.previous
    }

    /// The side whose data goes in this direction, as in EVE records.
    pub fn side_facts(&self, d: Direction) -> SideFacts {
        self.stream(d).facts()
    }

    /// Names of the session's flags.
    pub fn mark_names(&self) -> MarkNames {
        let m = &self.marks;
        names_of_set([
            (m.midstream, "midstream"),
            (m.midstream_established, "midstream_established"),
            (m.midstream_synack, "midstream_synack"),
            (m.timestamps, "timestamp"),
            (m.wscale_offered, "server_wscale"),
            (m.closed_by_reset, "closed_by_rst"),
            (m.four_way, "4whs"),
            (m.sack_offered, "client_sackok"),
            (m.sack || m.sack_offered && self.state() == TcpState::SynSent, "sackok"),
            (m.handshake_confirmed, "3whs_confirmed"),
            (m.app_disabled, "app_layer_disabled"),
            (m.fast_open, "tcp_fast_open"),
            (m.fast_open_data_ignored, "tfo_data_ignored"),
        ])
    }
}
