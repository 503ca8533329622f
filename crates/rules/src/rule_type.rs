//! Type of a rule, its flags and requirements, as Suricata decides them.

use crate::action::Action;
use crate::compiler::Compiler;
use crate::content::BufferCondition;
use crate::draft::{Draft, DraftPacket};
use crate::integer::IntegerMatch;
use crate::known::{KnownKeyword, known_keyword};
use crate::packet::PacketCondition;
use crate::post::{BitCommand, ConfigScope, PostMatch};
use crate::signature::{BufferRef, RuleHook, RuleType, SignatureFlags};
use gabion_record::IpProto;

fn has_asn1(d: &Draft<'_>) -> bool {
    d.buffers
        .iter()
        .flat_map(|b| &b.conditions)
        .any(|x| matches!(x.condition, BufferCondition::Asn1(_)))
}

/// Whether the rule must see single packets.
pub(crate) fn needs_packet(d: &Draft<'_>) -> bool {
    d.header.packets_only
        || d.needs_packet
        || d.flow.is_some_and(|f| f.no_stream)
        || d.packet.iter().any(|p| p.condition.facts().is_packet_bound)
        || d.has_header_buffer()
        || has_asn1(d)
}

/// Whether the rule asks for the reassembled stream alone.
pub(crate) fn asks_for_stream(d: &Draft<'_>) -> bool {
    d.header.stream_only || d.flow.is_some_and(|f| f.only_stream)
}

fn has_payload(d: &Draft<'_>) -> bool {
    d.buffers.iter().any(|b| b.buffer == Some(BufferRef::Payload) && !b.conditions.is_empty())
}

/// Whether transactions are inspected.
pub(crate) fn has_tx(d: &Draft<'_>) -> bool {
    !d.tx.is_empty()
        || !d.files.is_empty()
        || d.buffers
            .iter()
            .any(|b| matches!(b.buffer, Some(BufferRef::App(_) | BufferRef::Frame(_)) | None))
}

/// Packet conditions that say something about the packet: `l3_proto` is a fact of the header.
fn tests<'d>(d: &'d Draft<'_>) -> impl Iterator<Item = &'d DraftPacket> {
    d.packet.iter().filter(|p| !matches!(p.condition, PacketCondition::L3Proto(_)))
}

/// The type of the rule.
pub(crate) fn decide(d: &Draft<'_>) -> RuleType {
    match d.hook {
        Some(RuleHook::App { .. }) => return RuleType::AppTx,
        Some(_) if !has_payload(d) => return RuleType::Pkt,
        Some(_) | None => {}
    }
    if is_detection_only(d) {
        return RuleType::PdOnly;
    }
    if is_ip_only(d) {
        return if d.header.has_negated_address { RuleType::LikeIpOnly } else { RuleType::IpOnly };
    }
    if is_decoder_event_only(d) {
        return RuleType::DeOnly;
    }
    if d.has_packet_buffer() {
        return RuleType::Pkt;
    }
    if has_tx(d) {
        return RuleType::AppTx;
    }
    if has_payload(d) {
        let (packet, stream) = payload_kinds(d);
        return match (packet, stream) {
            (true, false) => RuleType::Pkt,
            (false, true) => RuleType::Stream,
            _ => RuleType::PktStream,
        };
    }
    if tests(d).next().is_some() {
        return RuleType::Pkt;
    }
    if d.apps.is_some() || is_config(d) {
        return RuleType::AppLayer;
    }
    RuleType::Pkt
}

fn is_config(d: &Draft<'_>) -> bool {
    d.post.iter().any(|p| matches!(p, PostMatch::Config(a) if a.scope == ConfigScope::Transaction))
}

/// Whether packets, and whether streams are inspected for the payload. Neither means either: over
/// UDP there is no stream to choose.
pub(crate) fn payload_kinds(d: &Draft<'_>) -> (bool, bool) {
    let packet = needs_packet(d);
    let asked = asks_for_stream(d);
    if packet || asked || !has_payload(d) || !d.header.protos.contains(IpProto::TCP) {
        return (packet, asked);
    }
    (has_payload_bounds(d) || has_stream_size(d), true)
}

fn is_detection_only(d: &Draft<'_>) -> bool {
    let mut tests = tests(d).peekable();
    tests.peek().is_some()
        && tests.all(|p| matches!(p.condition, PacketCondition::AppProtocol(_)))
        && !has_payload(d)
        && !has_tx(d)
        && d.buffers.is_empty()
        && d.apps.is_none()
        && d.flow.is_none_or(|f| !f.has_state())
        && !d.post.iter().any(|p| !is_quiet(p))
}

/// Post-match actions that leave a rule IP-only.
fn is_quiet(p: &PostMatch) -> bool {
    match p {
        PostMatch::Flowbits { command, .. } => *command == BitCommand::Set,
        PostMatch::Xbits { .. } | PostMatch::Hostbits { .. } | PostMatch::Tag(_) => true,
        PostMatch::Flowint { .. }
        | PostMatch::Filestore { .. }
        | PostMatch::TlsStore
        | PostMatch::Config(_)
        | PostMatch::Bypass
        | PostMatch::NfqSetMark { .. }
        | PostMatch::Replace { .. } => false,
    }
}

fn is_ip_only(d: &Draft<'_>) -> bool {
    let compatible = |p: &DraftPacket| {
        matches!(p.condition, PacketCondition::IpProto { .. })
            || (known_keyword(p.keyword).is_some_and(KnownKeyword::is_ip_only_compatible)
                && !matches!(p.condition, PacketCondition::Flowbits(_)))
    };
    d.apps.is_none()
        && d.buffers.is_empty()
        && !has_tx(d)
        && d.hook.is_none()
        && d.flow.is_none_or(|f| !f.to_server && !f.to_client && !f.has_state())
        && tests(d).all(compatible)
        && d.post.iter().all(is_quiet)
}

fn is_decoder_event_only(d: &Draft<'_>) -> bool {
    let mut tests = tests(d).peekable();
    tests.peek().is_some()
        && tests.all(|p| matches!(p.condition, PacketCondition::DecodeEvent(_)))
        && d.apps.is_none()
        && d.buffers.is_empty()
        && !has_tx(d)
        && d.flow.is_none_or(|f| !f.to_server && !f.to_client)
}

/// Facts and requirements.
pub(crate) fn flags(c: &Compiler<'_>, d: &Draft<'_>, directions: [bool; 2]) -> SignatureFlags {
    let mut f = SignatureFlags::default();
    let mut set = |on: bool, flag: SignatureFlags| {
        if on {
            f.set(flag);
        }
    };
    let (packet, stream) = payload_kinds(d);
    set(packet, SignatureFlags::NEED_PACKET);
    set(packet, SignatureFlags::REAL_PACKET);
    set(stream, SignatureFlags::NEED_STREAM);
    // both kinds of payload rules see pseudo packets too
    if packet && stream {
        f.clear(SignatureFlags::REAL_PACKET);
    }
    let mut set = |on: bool, flag: SignatureFlags| {
        if on {
            f.set(flag);
        }
    };
    set(directions[0], SignatureFlags::TO_SERVER);
    set(directions[1], SignatureFlags::TO_CLIENT);
    set(is_silent(d, c.firewall_rules), SignatureFlags::NOALERT);
    let is_app = d.apps.is_some() || d.is_app_layer || is_config(d);
    set(is_app, SignatureFlags::APP_LAYER);
    set(d.header.src_is_any, SignatureFlags::SRC_ANY);
    set(d.header.dst_is_any, SignatureFlags::DST_ANY);
    set(d.header.src_ports_any, SignatureFlags::SP_ANY);
    set(d.header.dst_ports_any, SignatureFlags::DP_ANY);
    set(d.bypass, SignatureFlags::BYPASS);
    set(has_payload(d), SignatureFlags::PAYLOAD);
    set(has_payload_bounds(d), SignatureFlags::PAYLOAD_OFFSET);
    let has_direction = d.flow.is_some_and(|f| f.to_server || f.to_client);
    let configures_flow =
        d.post.iter().any(|p| matches!(p, PostMatch::Config(a) if a.scope == ConfigScope::Flow));
    let starts_flow = d.hook == Some(RuleHook::FlowStart) && has_direction;
    set(is_app || starts_flow || configures_flow, SignatureFlags::FLOW);
    set(d.firewall.is_some() && c.firewall_rules, SignatureFlags::FIREWALL);
    for p in &d.packet {
        packet_requirements(&p.condition, &mut set);
    }
    for p in &d.post {
        set(matches!(p, PostMatch::Filestore { .. }), SignatureFlags::FILESTORE);
        set(matches!(p, PostMatch::TlsStore), SignatureFlags::TLS_STORE);
    }
    set(!d.files.is_empty(), SignatureFlags::FILES);
    f
}

fn packet_requirements(p: &PacketCondition, set: &mut impl FnMut(bool, SignatureFlags)) {
    if let PacketCondition::Dsize(size) = p {
        set(true, SignatureFlags::DSIZE);
        let zero_only = *size == IntegerMatch::Equal(0);
        set(zero_only, SignatureFlags::NO_PAYLOAD);
        let needs_payload = match size {
            IntegerMatch::Differs(_) => true,
            IntegerMatch::Mask { .. } | IntegerMatch::NotMask { .. } => false,
            IntegerMatch::Equal(_)
            | IntegerMatch::Less(_)
            | IntegerMatch::LessOrEqual(_)
            | IntegerMatch::Greater(_)
            | IntegerMatch::GreaterOrEqual(_)
            | IntegerMatch::Between(..)
            | IntegerMatch::Outside(..) => !zero_only && !size.matches(0),
        };
        set(needs_payload, SignatureFlags::PAYLOAD);
    }
    if let PacketCondition::TcpFlags(t) = p {
        // SYN, FIN, RST; URG, ECE, CWR
        set(t.flags & 0x07 != 0, SignatureFlags::TCP_INIT);
        set(t.flags & 0xe0 != 0, SignatureFlags::TCP_UNUSUAL);
    }
    let asks_flow = matches!(
        p,
        PacketCondition::Flow(_) | PacketCondition::Flowbits(_) | PacketCondition::Flowint(_)
    );
    set(asks_flow, SignatureFlags::FLOW);
    let is_event = matches!(
        p,
        PacketCondition::DecodeEvent(_)
            | PacketCondition::StreamEvent(_)
            | PacketCondition::DetectionEvent(_)
    );
    set(is_event, SignatureFlags::ENGINE_EVENT);
}

/// The prefilter keyword: the one asked for, or the first that can serve when the configuration
/// says that keywords serve without being asked.
pub(crate) fn prefilter(c: &Compiler<'_>, d: &Draft<'_>, has_pattern: bool) -> Option<u8> {
    if let Some(at) = d.prefilter {
        return u8::try_from(at).ok();
    }
    if has_pattern || !c.options.auto_prefilter {
        return None;
    }
    let at = d
        .packet
        .iter()
        .position(|p| known_keyword(p.keyword).is_some_and(KnownKeyword::supports_prefilter))?;
    u8::try_from(at).ok()
}

/// Whether a rule can alert at all.
fn is_silent(d: &Draft<'_>, is_firewall: bool) -> bool {
    if d.alert_keyword {
        return false;
    }
    if is_firewall {
        // firewall rules alert only when they say so
        return d.noalert || !d.firewall.is_some_and(|f| f.alerts);
    }
    d.noalert || matches!(d.header.action, Action::Config | Action::Pass)
}

/// Whether some content of the raw payload has an offset or a depth.
fn has_payload_bounds(d: &Draft<'_>) -> bool {
    d.buffers.iter().filter(|b| b.buffer == Some(BufferRef::Payload)).any(|b| {
        let mut contents = b.conditions.iter().filter_map(|x| x.condition.content());
        contents.any(|content| content.offset.is_some() || content.depth.is_some())
    })
}

/// Whether the rule compares the size of a stream.
fn has_stream_size(d: &Draft<'_>) -> bool {
    d.packet.iter().any(|p| matches!(p.condition, PacketCondition::StreamSize { .. }))
}
