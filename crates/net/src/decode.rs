//! The first stage, from frames to packets: it decodes headers and reassembles fragments.

use crate::account::Account;
use crate::engine::Engine;
use crate::exception::Exception;
use crate::frame_in::{FrameIn, SpareSets, fragment_of};
use gabion_flow::{DefragConfig, DefragCounters, Defragmenter, FragEvent};
use gabion_packet::{Decoded, DecoderEvent, Flags, Link, Network, PacketSet};
use gabion_record::budget::Budget;
use gabion_record::ledger::ShedReason;
use std::borrow::Cow;

/// Decoders and the defragmenter of a worker.
pub(crate) struct DecodeStage {
    set: Option<Box<PacketSet>>,
    spare: SpareSets,
    defrag: Defragmenter,
    /// Fragments of the frame at hand so far.
    fragments_seen: usize,
}

/// A datagram that a fragment has completed, decoded.
pub(crate) struct Datagram<'a> {
    /// Its packets, outermost first.
    pub(crate) set: Box<PacketSet>,
    pub(crate) bytes: Cow<'a, [u8]>,
}

/// The outcome of a fragment: the datagram it completes, or the exception it causes.
pub(crate) type Defragmented<'a> = (Option<Datagram<'a>>, Option<Exception>);

impl DecodeStage {
    /// A stage with this budget for fragments.
    pub(crate) fn new(config: DefragConfig, budget: Budget) -> DecodeStage {
        DecodeStage {
            set: Some(Box::new(PacketSet::new())),
            spare: SpareSets::default(),
            defrag: Defragmenter::new(config, budget),
            fragments_seen: 0,
        }
    }

    /// Decodes a frame: its packets, outermost first, for [`DecodeStage::give_back`].
    pub(crate) fn frame(
        &mut self,
        engine: &Engine,
        account: &mut Account,
        link: Link,
        f: &FrameIn<'_>,
    ) -> Option<Box<PacketSet>> {
        let len = f.data.len() as u64;
        account.counters.packets += 1;
        account.counters.bytes += len;
        account.ledgers.decode.receive(1, len);
        let mut set = self.set.take()?;
        self.fragments_seen = 0;
        gabion_packet::decode(&mut set, &mut account.decode, &engine.options.decode, link, f.data);
        if set.root().flags.has(Flags::INVALID) {
            account.ledgers.decode.shed(ShedReason::DecodeInvalid, 1, len)
        } else {
            account.ledgers.decode.pass(1, len)
        }
        Some(set)
    }

    /// The frame is done with.
    pub(crate) fn give_back(&mut self, set: Box<PacketSet>) {
        self.set = Some(set);
    }

    /// Takes a fragment with these bytes. The datagram that it completes is for
    /// [`DecodeStage::give_back_datagram`].
    pub(crate) fn fragment<'f>(
        &mut self,
        engine: &Engine,
        account: &mut Account,
        d: &mut Decoded,
        bytes: &[u8],
        f: &FrameIn<'f>,
    ) -> Defragmented<'f> {
        let (outcome, datagram) = match f.fragments {
            Some(outcomes) => {
                let outcome = outcomes.get(self.fragments_seen);
                self.fragments_seen += 1;
                outcome.map_or_else(Default::default, |o| (o.defrag, Cow::Borrowed(&*o.datagram)))
            }
            None => {
                let outcome = self.defrag.fragment(&fragment_of(d, bytes, f));
                let datagram =
                    if outcome.is_complete { self.defrag.datagram().to_vec() } else { Vec::new() };
                (outcome, Cow::Owned(datagram))
            }
        };
        if let Some(event) = outcome.event {
            d.events.push(decoder_event(event, d.network));
        }
        let len = d.payload(bytes).len() as u64;
        account.ledgers.defrag.receive(1, len);
        match outcome.exception {
            Some(_) => account.ledgers.defrag.shed(ShedReason::DefragMemcap, 1, len),
            None => account.ledgers.defrag.pass(1, len),
        }
        let whole = outcome.is_complete.then(|| self.whole(engine, account, d, datagram)).flatten();
        let exception =
            outcome.exception.map(|t| Exception::from_policies(&engine.options.policies, t));
        (whole, exception)
    }

    fn whole<'a>(
        &mut self,
        engine: &Engine,
        account: &mut Account,
        d: &Decoded,
        bytes: Cow<'a, [u8]>,
    ) -> Option<Datagram<'a>> {
        let mut set = self.spare.take_packets();
        let config = &engine.options.decode;
        let is_usable =
            gabion_packet::decode_ip_reassembled(&mut set, &mut account.decode, config, d, &bytes);
        if !is_usable {
            self.spare.give_back(set);
            return None;
        }
        Some(Datagram { set, bytes })
    }

    /// The datagram is done with.
    pub(crate) fn give_back_datagram(&mut self, datagram: Datagram<'_>) {
        self.spare.give_back(datagram.set);
    }

    /// Counters of defragmentation.
    pub(crate) fn defrag_counters(&self) -> DefragCounters {
        self.defrag.counters()
    }
}

/// The decoder event of an irregular fragment.
fn decoder_event(event: FragEvent, network: Network) -> DecoderEvent {
    match (event, network == Network::Ipv6) {
        (FragEvent::TooLarge, false) => DecoderEvent::Ipv4FragTooLarge,
        (FragEvent::Overlap, false) => DecoderEvent::Ipv4FragOverlap,
        (FragEvent::Ignored, false) => DecoderEvent::Ipv4FragIgnored,
        (FragEvent::TooLarge, true) => DecoderEvent::Ipv6FragTooLarge,
        (FragEvent::Overlap, true) => DecoderEvent::Ipv6FragOverlap,
        (FragEvent::Ignored, true) => DecoderEvent::Ipv6FragIgnored,
    }
}
