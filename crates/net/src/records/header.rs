//! Members that records of several kinds have in common: the packet, the flow, the protocol, variables.

use crate::app::AppLayer;
use crate::context::PacketOutcome;
use crate::detect::{Detector, Hit};
use crate::engine::Engine;
use crate::firewall::is_of_firewall;
use crate::flow_state::{FlowVars, NetFlow};
use crate::view::PacketView;
use gabion_flow::Flow;
use gabion_packet::{Decoded, Flags, TransportHeader};
use gabion_record::alerted::Variable;
use gabion_record::applayer::{Catalog, ProtoId};
use gabion_record::eve::*;
use gabion_record::json::Json;
use gabion_record::{Direction, Tree};
use gabion_rules::{Action, Ruleset, Signature};

/// The common part of a record about a packet.
pub(crate) fn header<'a>(
    view: &PacketView<'a>,
    flow: Option<&'a Flow<NetFlow>>,
    metadata: Option<&'a dyn WriteObject>,
) -> Header<'a> {
    let h = view.headers;
    // Of fragments and headers that can't be read Suricata 8.0.7 writes the ports 0.
    let is_read = h.transport.is_some() || view.is_pseudo;
    let ports = if is_read { (h.sp, h.dp) } else { (0, 0) };
    Header {
        ts_ns: view.ts_ns,
        flow_id: flow.map(|f| f.id),
        parent_id: flow.and_then(|f| f.parent_id),
        pcap_cnt: view.pcap_cnt,
        device: flow.map_or(view.device, |f| f.device),
        vlan: h.vlan_ids(),
        ip_version: h.ip_version(),
        src: h.src,
        dst: h.dst,
        ports: h.proto.has_ports().then_some(ports),
        ip_proto: h.proto,
        icmp: h.transport.icmp().map(|i| (i.kind, i.code)),
        spi: if let TransportHeader::Esp(esp) = &h.transport { Some(esp.spi) } else { None },
        pkt_src: Some(view.pkt_src),
        metadata,
        ether: match (h.src_mac(view.frame), h.dst_mac(view.frame)) {
            (Some(src), Some(dst)) => Some(EtherHeader { ether_type: h.ethertype, src, dst }),
            _ => None,
        },
    }
}

/// The same part with the sides of a flow: `from` sends.
pub(crate) fn flow_header<'a>(
    view: &PacketView<'a>,
    flow: &'a Flow<NetFlow>,
    from: Direction,
) -> Header<'a> {
    let mut h = header(view, Some(flow), None);
    let (src, dst) = (flow.source(from), flow.source(from.opposite()));
    h.src = src.addr;
    h.dst = dst.addr;
    if flow.proto.has_ports() {
        h.ports = Some((src.port, dst.port));
    }
    h
}

pub(crate) fn summary(flow: &Flow<NetFlow>) -> FlowSummary {
    FlowSummary {
        pkts: [flow.seen[0].pkts, flow.seen[1].pkts],
        bytes: [flow.seen[0].bytes, flow.seen[1].bytes],
        start_ns: flow.start_ns,
        client: flow.client.addr,
        server: flow.server.addr,
        ports: flow.proto.has_ports().then_some((flow.client.port, flow.server.port)),
        ip_version: flow.ip_version,
    }
}

/// Names of a flow's protocols as records show them.
pub(crate) fn app_names(catalog: &Catalog, app: &AppLayer) -> AppProtoNames {
    let name = |p: ProtoId| (p != ProtoId::UNKNOWN).then(|| catalog.eve_name(p));
    let differs = |d: Direction| {
        let p = app.proto_in(d);
        (p != app.proto && p != ProtoId::UNKNOWN).then(|| catalog.eve_name(p))
    };
    AppProtoNames {
        app_proto: name(app.proto),
        to_server: differs(Direction::ToServer),
        to_client: differs(Direction::ToClient),
        original: name(app.original).filter(|_| app.original != app.proto),
        expected: Some(app.expected_next())
            .filter(|p| p.is_known() && *p != app.proto)
            .map(|p| catalog.eve_name(p)),
    }
}

/// The link type of the bytes that records show of a packet.
pub(crate) fn link_of(view: &PacketView<'_>) -> u16 {
    let h = view.headers;
    let is_bare = h.flags.has(Flags::REASSEMBLED) && view.prefix.is_empty() && view.link == 1;
    if h.depth > 0 || is_bare { 12 } else { view.link }
}

/// The headers of a packet.
pub(crate) fn ip_facts(h: &Decoded) -> IpFacts {
    IpFacts {
        len: u32::from(h.ip_len),
        tos: h.tos,
        ttl: h.ttl,
        id: h.ip_id,
        tcp: h.transport.tcp().map(|t| TcpFacts {
            seq: t.seq,
            ack: t.ack,
            window: t.window,
            flags: t.flags,
            urgent: t.urgent,
            header_len: t.header_len,
        }),
    }
}

/// Outer packet of a packet found in a tunnel.
pub(crate) fn tunnel(view: &PacketView<'_>) -> Option<Tunnel> {
    let o = view.outer?;
    if !o.is_ip() {
        return None;
    }
    Some(Tunnel {
        ip_version: o.ip_version(),
        src: o.src,
        dst: o.dst,
        ports: (o.sp, o.dp),
        ip_proto: o.proto,
        depth: view.headers.depth,
        pcap_cnt: Some(view.frame_number),
        pkt_src: view.root.source,
    })
}

/// The outcome of the packet, for `verdict`.
pub(crate) fn verdict(outcome: &PacketOutcome, view: &PacketView<'_>) -> VerdictRecord {
    let action = if outcome.drop.is_some() {
        Verdict::Drop
    } else if outcome.is_firewalled {
        Verdict::Accept
    } else if outcome.passed {
        Verdict::Pass
    } else {
        Verdict::Alert
    };
    let is_tcp = matches!(view.headers.transport, TransportHeader::Tcp(_));
    let reject_target = outcome.reject.map(|a| match a {
        Action::RejectDestination => "to_server",
        Action::RejectBoth => "both",
        Action::RejectSource
        | Action::Alert
        | Action::Pass
        | Action::Drop
        | Action::Config
        | Action::Accept => "to_client",
    });
    let reject: &'static [&'static str] = if is_tcp { &["tcp-reset"] } else { &["icmp-prohib"] };
    VerdictRecord { action, reject_target, reject }
}

/// The part of the engine that a hit belongs to, if there are two: `fw` and `td` (threat detection).
fn engine_name(detector: &Detector, hit: &Hit) -> Option<&'static str> {
    detector.firewall.as_ref()?;
    Some(if is_of_firewall(detector, hit) { "fw" } else { "td" })
}

/// Variables of a flow and of the current packet.
pub(crate) fn metadata<'a>(
    engine: &'a Engine,
    flow: &'a Flow<NetFlow>,
    packet: &'a [(u32, Vec<u8>)],
) -> MetadataObject<'a> {
    let set = engine.detector.as_ref().map(|d| &d.set);
    MetadataObject { set, vars: &flow.ext.vars, packet }
}

/// Flow bits, integers and variables.
pub(crate) struct MetadataObject<'a> {
    pub(crate) set: Option<&'a Ruleset>,
    pub(crate) vars: &'a FlowVars,
    pub(crate) packet: &'a [(u32, Vec<u8>)],
}

impl MetadataObject<'_> {
    /// Names each bit, integer and text.
    pub(crate) fn each(&self, to: &mut dyn FnMut(Variable<'_>)) {
        let Some(set) = self.set else { return };
        let bits = self.vars.bits().iter();
        bits.for_each(|bit| to(Variable::Bit(set.flowbits.get(*bit))));
        for (name, value) in self.vars.ints() {
            to(Variable::Integer(set.flowints.get(*name), *value));
        }
        for (name, value) in &self.vars.texts {
            to(Variable::FlowText(set.variables.get(*name), value));
        }
        let packet = self.packet.iter();
        packet.for_each(|(name, _)| to(Variable::PacketText(set.variables.get(*name))));
    }
}

impl WriteObject for MetadataObject<'_> {
    fn write(&self, json: &mut Json, _config: Option<&Tree>, _in_alert: bool) -> bool {
        let Some(set) = self.set else { return false };
        if self.vars.is_empty() && self.packet.is_empty() {
            return false;
        }
        // Bits named `traffic/id/…` and `traffic/label/…` have an object of their own.
        let names = || self.vars.bits().iter().map(|b| set.flowbits.get(*b));
        let ids = names().filter_map(|n| n.strip_prefix("traffic/id/"));
        let labels = names().filter_map(|n| n.strip_prefix("traffic/label/"));
        if ids.clone().next().is_some() || labels.clone().next().is_some() {
            json.open_key("traffic");
            list(json, "id", ids);
            list(json, "label", labels);
            json.close();
        }
        // It is there when it is empty, too: with bits of `traffic` alone, or if alerts are counted by flow.
        json.open_key("metadata");
        list(
            json,
            "flowbits",
            names().filter(|n| !n.starts_with("traffic/id/") && !n.starts_with("traffic/label/")),
        );
        if !self.vars.texts.is_empty() {
            variables(json, "flowvars", set, &self.vars.texts);
        }
        if !self.vars.ints().is_empty() {
            json.open_key("flowints");
            for (name, value) in self.vars.ints() {
                json.key_text(set.flowints.get(*name).as_bytes());
                json.push(itoa::Buffer::new().format(*value).as_bytes());
            }
            json.close();
        }
        if !self.vars.entropies.is_empty() {
            json.open_key("entropy");
            for (buffer, value) in &self.vars.entropies {
                json.float(buffer, *value);
            }
            json.close();
        }
        if !self.packet.is_empty() {
            variables(json, "pktvars", set, self.packet);
        }
        json.close();
        true
    }
}

/// An array of names under a key, left out when there is none.
fn list<'n>(json: &mut Json, key: &str, names: impl Iterator<Item = &'n str>) {
    let mut names = names.peekable();
    if names.peek().is_none() {
        return;
    }
    json.open_array_key(key);
    for n in names {
        json.item(n);
    }
    json.close_array();
}

/// A byte of a captured text in records: Suricata 8.0.7 shows a point for those that can't be printed.
fn shown(b: u8) -> u8 {
    match b {
        b'\r' | b'\n' | b' '..=b'~' => b,
        _ => b'.',
    }
}

fn variables(json: &mut Json, key: &str, set: &Ruleset, list: &[(u32, Vec<u8>)]) {
    json.open_array_key(key);
    for (name, value) in list {
        json.open();
        json.key_text(set.variables.get(*name).as_bytes());
        json.quoted(&value.iter().copied().map(shown).collect::<Vec<u8>>());
        json.close();
    }
    json.close_array();
}

/// Members of a signature, without its texts.
pub(crate) fn signature_members<'a>(
    detector: &'a Detector,
    s: &'a Signature,
    hit: &Hit,
) -> AlertSignature<'a> {
    AlertSignature {
        gid: s.gid,
        sid: s.sid,
        rev: s.rev,
        msg: detector.set.msg(s),
        has_msg: s.msg.is_some(),
        category: detector.set.category(s),
        severity: s.priority,
        metadata_json: &[],
        confidence: &[],
        references_json: &[],
        rule: "",
        engine: engine_name(detector, hit),
    }
}
