//! Sticky buffers, legacy modifiers, packet buffers, frames.

use super::app;
use crate::compiler::Compiler;
use crate::diagnostic::{Checked, Refusal};
use crate::draft::{Draft, DraftBuffer, List, unmark_relative_next};
use crate::keyword::{Setup, Value};
use crate::ruleset::FrameRef;
use crate::signature::{BufferRef, PacketBuffer};
use gabion_record::Direction;
use gabion_record::applayer::{BufferId, ProtoId};

/// Keywords of this file.
pub(super) const KEYWORDS: &[(&str, Setup)] = &[
    ("pkt_data", pkt_data),
    ("base64_data", base64_data),
    ("frame", frame),
    ("ip.src", |c, d, _| packet_buffer(c, d, PacketBuffer::IpSource)),
    ("ip.dst", |c, d, _| packet_buffer(c, d, PacketBuffer::IpDestination)),
    ("ipv4.hdr", |c, d, _| packet_buffer(c, d, PacketBuffer::Ipv4Header)),
    ("ipv6.hdr", |c, d, _| packet_buffer(c, d, PacketBuffer::Ipv6Header)),
    ("tcp.hdr", |c, d, _| packet_buffer(c, d, PacketBuffer::TcpHeader)),
    ("udp.hdr", |c, d, _| packet_buffer(c, d, PacketBuffer::UdpHeader)),
    ("icmpv4.hdr", |c, d, _| packet_buffer(c, d, PacketBuffer::Icmpv4Header)),
    ("icmpv6.hdr", |c, d, _| packet_buffer(c, d, PacketBuffer::Icmpv6Header)),
];

/// A further sticky buffer ends the one before, which must have been used.
fn leave_buffer(d: &mut Draft<'_>) -> Checked<()> {
    if d.sticky().is_some_and(|b| b.conditions.is_empty()) {
        return Err(Refusal::new("detect", "previous sticky buffer has no matches")
            .because("nothing is asked of the sticky buffer named before this one"));
    }
    d.list = List::NotSet;
    Ok(())
}

/// A sticky keyword of a protocol.
pub(super) fn app_buffer(
    c: &mut Compiler<'_>,
    d: &mut Draft<'_>,
    id: BufferId,
    v: Value<'_>,
) -> Checked<()> {
    let only = match v.text {
        "" => None,
        "to_server" => Some(Direction::ToServer),
        "to_client" => Some(Direction::ToClient),
        _ => {
            let said = "unknown option: only accepts to_server or to_client";
            return Err(Refusal::new("detect-parse", said));
        }
    };
    let Some(buffer) = c.catalog.buffer(id) else {
        return Err(Refusal::silent("no such buffer"));
    };
    leave_buffer(d)?;
    let protos: Vec<ProtoId> = buffer.hooks.iter().map(|(p, _)| *p).collect();
    let (name, is_multi, sets_flow) = (buffer.def.name, buffer.def.multi, buffer.def.sets_flow);
    // Suricata 8.0.7 does not compare the types of files with the rule's protocol: such a rule matches nothing.
    if name == "file.magic" {
        d.is_app_layer = true;
    } else {
        restrict_to_buffer(c, d, name, &protos)?;
    }
    if let (Some(direction), false) = (sets_flow, d.header.transactional) {
        let flow = d.flow.get_or_insert_default();
        (flow.to_server, flow.to_client) =
            (direction == Direction::ToServer, direction == Direction::ToClient);
    }
    let at = match only {
        None => d.buffer_index(BufferRef::App(id), is_multi),
        // a direction of its own: not the same as the naming without one
        Some(direction) => {
            let at = d.buffer_index(BufferRef::App(id), true);
            if let Some(b) = d.buffers.get_mut(at) {
                b.only_to_server = direction == Direction::ToServer;
                b.only_to_client = direction == Direction::ToClient;
            }
            at
        }
    };
    d.list = List::Buffer(at);
    d.transforms_allowed = d.buffers.get(at).is_some_and(|b| b.conditions.is_empty());
    // naming a buffer again, perhaps for another chain of transforms
    if !d.transforms_allowed {
        d.transforms_allowed = true;
    }
    Ok(())
}

fn restrict_to_buffer(
    c: &mut Compiler<'_>,
    d: &mut Draft<'_>,
    name: &'static str,
    protos: &[ProtoId],
) -> Checked<()> {
    let before = d.apps.clone();
    app::bind_to(c, d, protos, name).map_err(|e| {
        let set = before.as_deref().and_then(|a| a.first().copied());
        match name {
            "file.data" => {
                let proto = set.map_or("unknown", |p| c.proto_name(p));
                let said = format!("The 'file_data' keyword cannot be used with protocol {proto}");
                Refusal::new("detect-file-data", said)
            }
            "ja3.hash" | "ja3.string" | "ja3s.hash" | "ja3s.string" | "ja4.hash" => {
                let who = match name {
                    "ja3.hash" => "detect-tls-ja3-hash",
                    "ja3.string" => "detect-tls-ja3-string",
                    "ja3s.hash" => "detect-tls-ja3s-hash",
                    "ja3s.string" => "detect-tls-ja3s-string",
                    _ => "detect-ja4-hash",
                };
                Refusal::new(who, "rule contains conflicting protocols.")
            }
            _ => e,
        }
    })
}

/// A legacy modifier: the last content moves from the payload to the buffer.
pub(super) fn modifier(
    c: &mut Compiler<'_>,
    d: &mut Draft<'_>,
    id: BufferId,
    name: &str,
) -> Checked<()> {
    if d.list != List::NotSet {
        let said = format!(
            "\"{name}\" keyword seen with a sticky buffer still set.  Reset sticky buffer with \
             pkt_data before using the modifier."
        );
        return Err(Refusal::new("detect-parse", said));
    }
    let place = last_payload_content(d).ok_or_else(|| {
        let said = format!(
            "\"{name}\" keyword found inside the rule without a content context.  Please use a \
             \"content\" keyword before using the \"{name}\" keyword"
        );
        Refusal::new("detect-parse", said)
    })?;
    let is_raw = place
        .content_mut(d)
        .is_some_and(|content| content.flags.has(crate::content::ContentFlags::RAWBYTES));
    if is_raw {
        let said = format!("{name} rule can not be used with the rawbytes rule keyword");
        return Err(Refusal::new("detect-parse", said));
    }
    let owners: Vec<ProtoId> = owners(c, id, |def| def.modifier.is_some());
    app::restrict(c, d, &owners)?;
    let at = d.buffer_index(BufferRef::App(id), false);
    move_content(d, place, at);
    Ok(())
}

/// A pcre with a buffer letter binds the rule to the protocol that owns the letter.
pub(super) fn restrict_to_letter(
    c: &mut Compiler<'_>,
    d: &mut Draft<'_>,
    id: BufferId,
    letter: u8,
) -> Checked<()> {
    let owners = owners(c, id, |def| def.pcre_flag == Some(letter));
    app::restrict(c, d, &owners)
}

/// The first protocol whose own table has such a definition of the buffer: the legacy keywords are
/// those of HTTP/1 even where a later protocol shares the buffer.
fn owners(
    c: &Compiler<'_>,
    id: BufferId,
    is_owner: impl Fn(&gabion_record::applayer::BufferDef) -> bool,
) -> Vec<ProtoId> {
    let Some(name) = c.catalog.buffer(id).map(|b| b.def.name) else { return Vec::new() };
    let found = (1u8..)
        .zip(&c.catalog.protocols)
        .find(|(_, p)| p.buffers.iter().any(|def| def.name == name && is_owner(def)));
    found.map(|(n, _)| ProtoId(n)).into_iter().collect()
}

/// The last content of the payload list.
fn last_payload_content(d: &Draft<'_>) -> Option<crate::draft::Place> {
    let buffer = d.buffers.iter().position(|b| b.buffer == Some(BufferRef::Payload))?;
    let list = &d.buffers.get(buffer)?.conditions;
    let at = list
        .iter()
        .rposition(|x| matches!(x.condition, crate::content::BufferCondition::Content(_)))?;
    Some(crate::draft::Place { buffer: Some(buffer), at })
}

/// Moves a content; what was relative to it or it to others is worked out again in both lists.
fn move_content(d: &mut Draft<'_>, place: crate::draft::Place, to: usize) {
    use crate::content::{BufferCondition, ContentFlags};
    let Some(from) = place.buffer else { return };
    let Some(source) = d.buffers.get_mut(from) else { return };
    if place.at >= source.conditions.len() {
        return;
    }
    let moved = source.conditions.remove(place.at);
    let is_relative =
        matches!(&moved.condition, BufferCondition::Content(content) if content.is_relative());
    if is_relative {
        unmark_relative_next(source.conditions.get_mut(..place.at).unwrap_or_default());
        if let Some(target) = d.buffers.get_mut(to) {
            crate::draft::mark_relative_next(&mut target.conditions);
        }
    }
    let Some(target) = d.buffers.get_mut(to) else { return };
    target.from_modifier = true;
    target.conditions.push(moved);
    if let Some(last) = target.conditions.last_mut()
        && let BufferCondition::Content(content) = &mut last.condition
    {
        content.flags.clear(ContentFlags::RELATIVE_NEXT);
    }
}

/// A buffer that this sensor does not have. As a modifier it swallows the last content.
pub(super) fn inert_buffer(d: &mut Draft<'_>, as_modifier: bool) {
    d.buffers.push(DraftBuffer {
        buffer: None,
        transforms: Vec::new(),
        is_multi: true,
        is_continued: false,
        only_to_server: false,
        only_to_client: false,
        conditions: Vec::new(),
        from_modifier: as_modifier,
    });
    let at = d.buffers.len() - 1;
    if as_modifier {
        if let Some(place) = last_payload_content(d) {
            move_content(d, place, at);
        }
    } else {
        d.list = List::Buffer(at);
        d.transforms_allowed = true;
    }
}

fn packet_buffer(_: &mut Compiler<'_>, d: &mut Draft<'_>, buffer: PacketBuffer) -> Checked<()> {
    leave_buffer(d)?;
    let at = d.buffer_index(BufferRef::Packet(buffer), false);
    d.list = List::Buffer(at);
    d.transforms_allowed = true;
    Ok(())
}

fn pkt_data(_: &mut Compiler<'_>, d: &mut Draft<'_>, _: Value<'_>) -> Checked<()> {
    leave_buffer(d)?;
    d.transforms_allowed = false;
    Ok(())
}

fn base64_data(_: &mut Compiler<'_>, d: &mut Draft<'_>, _: Value<'_>) -> Checked<()> {
    let decodes = d
        .buffers
        .iter()
        .flat_map(|b| &b.conditions)
        .any(|x| matches!(x.condition, crate::content::BufferCondition::Base64Decode(_)));
    if !decodes {
        let said = "\"base64_data\" keyword seen without preceding base64_decode.";
        return Err(Refusal::new("detect-base64-data", said));
    }
    d.list = List::Base64;
    d.transforms_allowed = false;
    Ok(())
}

/// `frame:proto.name`, or the name alone in a rule bound to one protocol.
fn frame(c: &mut Compiler<'_>, d: &mut Draft<'_>, v: Value<'_>) -> Checked<()> {
    const WHO: &str = "detect-frame";
    let text = v.text;
    let (proto, name) = match text.split_once('.') {
        Some((proto, rest)) if is_proto_name(c, proto) => (Some(proto.to_string()), rest),
        _ => (None, text),
    };
    let proto = match proto {
        Some(proto) => proto,
        None => match &d.apps {
            Some(_) => d.header.proto_name.clone(),
            None => {
                let said = format!(
                    "rule protocol unknown, can't use shorthand notation for frame '{text}'"
                );
                return Err(Refusal::new(WHO, said));
            }
        },
    };
    // A name for several versions is none's own.
    let is_several =
        c.catalog.tables().any(|(_, t)| t.any_version.is_some() && t.eve_name == proto);
    if is_several && c.catalog.proto(&proto).is_none() {
        let said = format!("unknown frame '{name}' for protocol '(null)'");
        return Err(Refusal::new(WHO, said));
    }
    leave_buffer(d)?;
    let id = c.catalog.proto(&proto);
    match id {
        // a rule bound to several versions of the protocol stays so
        Some(id) if d.apps.as_ref().is_some_and(|a| a.contains(&id)) => {}
        Some(id) => app::restrict(c, d, &[id])?,
        None => {
            d.inert.get_or_insert("frame");
        }
    }
    if let Some(table) = id.and_then(|id| c.catalog.table(id))
        && table.frame(name).is_none()
    {
        let said = format!("unknown frame '{name}' for protocol '{proto}'");
        return Err(Refusal::new(WHO, said));
    }
    let frame = FrameRef { proto: id, name: format!("{proto}.{name}") };
    let at = match c.set.frames.iter().position(|f| *f == frame) {
        Some(at) => at,
        None => {
            c.set.frames.push(frame);
            c.set.frames.len() - 1
        }
    };
    let frame = BufferRef::Frame(u16::try_from(at).unwrap_or(u16::MAX));
    let at = d.buffer_index(frame, false);
    d.list = List::Buffer(at);
    d.transforms_allowed = true;
    Ok(())
}

fn is_proto_name(c: &Compiler<'_>, name: &str) -> bool {
    c.catalog.proto(name).is_some() || !c.catalog.protos_of_rule_name(name).is_empty()
}
