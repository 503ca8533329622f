//! Which worker a frame belongs to, decided where frames are still in order.
//!
//! Fragments are the hard part: what a datagram carries (a tunnel, an ICMP error about another flow)
//! is known when it is whole, and a flow may have whole datagrams as well as fragmented ones.
//! So fragments are put together here, before frames are spread, by one defragmenter for all workers.
//! The frame that completes a datagram goes to the worker of what the datagram carries, and takes
//! with it the outcome of its fragments ([`FragmentOutcome`]): the worker then does all else as if it had
//! put them together itself. Datagrams, limits and losses are those of one worker.
//!
//! A frame without fragments, tunnels and unusual headers is not decoded here.

use crate::checksum_sample::ChecksumSample;
use crate::engine::{Engine, EngineOptions};
use crate::frame_in::{FragmentOutcome, FrameIn, SpareSets, fragment_of};
use gabion_flow::{DefragCounters, Defragmenter};
use gabion_packet::{
    DecodeCounters, Decoded, Flags, Link, PacketSet, decode_ip_reassembled, decoded_key,
    ordinary_key,
};
use gabion_record::budget::Budget;
use std::sync::Arc;

/// Where a frame goes.
#[derive(Debug)]
pub struct Dealt {
    /// Frames of one key must go to one worker.
    pub key: u32,
    /// Where the frame holds fragments: the outcome of each, for [`FrameIn::fragments`].
    pub fragments: Option<Box<[FragmentOutcome]>>,
}

/// Says of each frame, in order, which worker it belongs to.
#[derive(Debug)]
pub struct Dealer {
    options: Arc<EngineOptions>,
    defrag: Defragmenter,
    set: Box<PacketSet>,
    /// Sets for what datagrams carry: one for each datagram around another.
    spare: SpareSets,
    /// Counted again, and for all to see, by the worker that takes the frame.
    unread: DecodeCounters,
}

impl Dealer {
    /// A dealer for workers of this engine, with the budget of `defrag.memcap` for all of them.
    pub fn new(engine: &Engine, defrag: Budget) -> Dealer {
        Dealer {
            defrag: Defragmenter::new(engine.options.defrag.clone(), defrag),
            options: Arc::clone(&engine.options),
            set: Box::new(PacketSet::new()),
            spare: SpareSets::default(),
            unread: DecodeCounters::default(),
        }
    }

    /// Where this frame goes; none when its link type is not read.
    #[inline]
    pub fn deal(&mut self, f: &FrameIn<'_>) -> Option<Dealt> {
        let link = Link::from_linktype(f.link.into())?;
        match ordinary_key(&self.options.decode, link, f.data) {
            Some(key) => Some(Dealt { key, fragments: None }),
            None => Some(self.decode_key(link, f)),
        }
    }

    /// Decodes the frame and puts its fragments together.
    #[cold]
    fn decode_key(&mut self, link: Link, f: &FrameIn<'_>) -> Dealt {
        let Dealer { options, defrag, set, spare, unread } = self;
        let config = &options.decode;
        gabion_packet::decode(set, unread, config, link, f.data);
        if !set.iter().any(|p| p.flags.has(Flags::FRAGMENT)) {
            return Dealt { key: decoded_key(config, set), fragments: None };
        }
        let mut outcomes = Vec::new();
        let mut whole = Whole { options, defrag, spare, unread, f, outcomes: &mut outcomes };
        let key = whole.walk(set, f.data);
        Dealt { key, fragments: Some(outcomes.into_boxed_slice()) }
    }

    /// Where it is found out whether checksums are looked at.
    pub fn checksum_sample(&self) -> ChecksumSample {
        ChecksumSample::with_options(Arc::clone(&self.options))
    }

    /// Counters of putting fragments together.
    pub fn defrag_counters(&self) -> DefragCounters {
        self.defrag.counters()
    }
}

/// One frame's fragments on their way through the defragmenter.
struct Whole<'a> {
    options: &'a EngineOptions,
    defrag: &'a mut Defragmenter,
    spare: &'a mut SpareSets,
    unread: &'a mut DecodeCounters,
    f: &'a FrameIn<'a>,
    outcomes: &'a mut Vec<FragmentOutcome>,
}

impl Whole<'_> {
    /// Takes the fragments of a set in, in the order in which a worker meets them: from the innermost
    /// packet outwards, each datagram's own before what is around it. Answers with the key of all.
    fn walk(&mut self, set: &PacketSet, bytes: &[u8]) -> u32 {
        let mut key = decoded_key(&self.options.decode, set);
        for d in set.iter().rev().filter(|d| d.flags.has(Flags::FRAGMENT)) {
            let Some(inside) = self.take_in(d, bytes) else { continue };
            // What is in a tunnel goes where tunnels go, whatever it carries.
            if set.count() == 1 {
                key = inside;
            }
        }
        key
    }

    /// Takes one fragment in; the key of the datagram that it completes.
    fn take_in(&mut self, d: &Decoded, bytes: &[u8]) -> Option<u32> {
        let outcome = self.defrag.fragment(&fragment_of(d, bytes, self.f));
        let datagram: Box<[u8]> =
            if outcome.is_complete { self.defrag.datagram().into() } else { Box::default() };
        let place = self.outcomes.len();
        self.outcomes.push(FragmentOutcome { defrag: outcome, datagram: Box::default() });
        if !outcome.is_complete {
            return None;
        }
        let mut set = self.spare.take_packets();
        let config = &self.options.decode;
        let is_usable = decode_ip_reassembled(&mut set, self.unread, config, d, &datagram);
        let key = is_usable.then(|| self.walk(&set, &datagram));
        self.spare.give_back(set);
        if let Some(made) = self.outcomes.get_mut(place) {
            made.datagram = datagram;
        }
        key
    }
}
