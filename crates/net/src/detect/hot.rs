//! What is checked first of a rule's header, and what is known of rules at a glance.

use gabion_record::IpProto;
use gabion_rules::compiled::actions::{PostMatch, TagScope};
use gabion_rules::compiled::packet::PacketCondition;
use gabion_rules::compiled::{AddressId, PortId, RuleNetwork};
use gabion_rules::{Ruleset, Signature, SignatureFlags};

/// Header facts of a signature, close together.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Hot {
    pub(crate) src: AddressId,
    pub(crate) dst: AddressId,
    pub(crate) sp: PortId,
    pub(crate) dp: PortId,
    /// Index in [`super::compiled::Detector::protos`].
    pub(crate) protos: u16,
    pub(crate) network: RuleNetwork,
    pub(crate) flags: SignatureFlags,
    pub(crate) pkthdr: bool,
    /// Asks for an event of the decoder, of packets of any protocol and port.
    pub(crate) any_event: bool,
    /// Application protocols, one bit an id; 0: any.
    pub(crate) apps: u128,
    /// Never matches here.
    pub(crate) inert: bool,
    /// Has conditions on transactions, whatever its type.
    pub(crate) in_tx: bool,
}

/// Whether a rule on events of the decoder names no protocol and no port.
pub(super) fn asks_any_event(s: &Signature) -> bool {
    let h = &s.header;
    s.packet.iter().any(|p| matches!(p, PacketCondition::DecodeEvent(_)))
        && h.network == RuleNetwork::Any
        && (h.src_ports, h.dst_ports) == (PortId::ANY, PortId::ANY)
        && (0..=u8::MAX).all(|proto| h.protos.contains(IpProto(proto)))
}

/// Whether a rule tags hosts.
pub(super) fn tags_hosts(set: &Ruleset) -> bool {
    let mut all = set.signatures.iter().flat_map(|s| s.post_match.iter());
    all.any(|p| matches!(p, PostMatch::Tag(t) if t.scope != TagScope::Session))
}
