//! Input to a flow's application layer, and its effects.

use super::counters::AppCounters;
use super::protocols::Protocols;
use gabion_proto::{Endpoints, Expectation, FilePiece};
use gabion_record::applayer::{DetectionEvent, Transport};
use smallvec::SmallVec;

/// What the application layer of a flow needs while it takes input.
pub(crate) struct AppInput<'a> {
    pub(crate) protocols: &'a Protocols,
    pub(crate) endpoints: &'a Endpoints,
    /// Event time of the packet.
    pub(crate) ts_ns: u64,
    pub(crate) transport: Transport,
    pub(crate) effects: &'a mut Effects,
    pub(crate) counters: &'a mut AppCounters,
}

/// The outcome for a piece of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Taken {
    /// Bytes that are parsed.
    pub(crate) used: usize,
    /// The parser wanted more bytes at once than are kept for it: these bytes are shed.
    pub(crate) is_overflowing: bool,
    /// Stream depth that the protocol asks for, which became known with this piece.
    pub(crate) depth: Option<u64>,
    pub(crate) then: Then,
}

impl Taken {
    /// `used` bytes are parsed, and the side continues.
    pub(crate) fn used(used: usize) -> Taken {
        Taken { used, is_overflowing: false, depth: None, then: Then::Continue }
    }
}

/// The data to parse next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Then {
    /// This side's.
    Continue,
    /// Nothing was used: earlier data of the other side is to be parsed first.
    OtherFirst,
    /// The sides turned out to be reversed.
    Reversed,
}

/// What input of one direction led to.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct SideEffects {
    /// Bytes were used, transactions were made or the end was met.
    pub(crate) fed: bool,
    /// Raw stream inspection is due.
    pub(crate) trigger_raw: bool,
}

/// What input led to in addition to advancing the parser: it is carried out after the input.
#[derive(Debug, Default)]
pub(crate) struct Effects {
    /// Events of protocol detection.
    pub(crate) events: SmallVec<[DetectionEvent; 2]>,
    /// Flows announced.
    pub(crate) expectations: Vec<Expectation>,
    /// Ranges of files that ended.
    pub(crate) pieces: Vec<FilePiece>,
    /// Nothing of this flow is needed any more.
    pub(crate) stop_reassembly: bool,
    /// Payload is not to be inspected any more.
    pub(crate) stop_payload: bool,
    /// Stream data that is there is inspected once more, later data never.
    pub(crate) stop_raw: bool,
    /// The remaining data of both directions is to be inspected at once.
    pub(crate) flush: bool,
    /// What concerns one direction only.
    pub(crate) sides: [SideEffects; 2],
    /// The parser failed in this direction.
    pub(crate) parser_error: bool,
    /// Gaps that the application layer has seen.
    pub(crate) gaps: u32,
}

impl Effects {
    /// Bytes may have been used, and nothing else happened.
    #[inline]
    pub(crate) fn is_only_input(&self) -> bool {
        self.events.is_empty()
            && self.expectations.is_empty()
            && self.pieces.is_empty()
            && !self.stop_payload
            && !self.parser_error
            && self.gaps == 0
    }
}
