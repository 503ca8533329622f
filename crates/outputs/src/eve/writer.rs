//! Records as lines of EVE, in Suricata's order of keys (8.0.x).
//!
//! The writer turns a record into a line in its own buffer and returns the line to the caller that gave it the
//! record; where lines go (file, folder of workers' buffers) is not its business.

use super::beginning::Beginnings;
use super::settings::{AlertSettings, EveSettings, Xff};
use crate::VERSION;
use crate::output::{Piece, PieceKind};
use crate::protocol_names::{TCP_FLAGS, ip_protocol, link_type};
use crate::timestamp::Stamp;
use gabion_record::eve::*;
use gabion_record::flow_state::{FlowState, TcpState};
use gabion_record::json::Json;
use gabion_record::{Addr, Direction, IpProto, Tree};
use std::net::IpAddr;

/// Bytes of a packet shown with an anomaly (`packethdr`), as many as Suricata shows.
const PACKET_HEADER_BYTES: usize = 32;

/// Writes EVE lines according to the settings of one output.
#[derive(Debug)]
pub struct EveWriter {
    pub(super) settings: EveSettings,
    pub(super) stamp: Stamp,
    pub(super) line: Json,
    pub(super) scratch: Vec<u8>,
    pcap_file: Option<String>,
    /// The interfaces that are read.
    pub(super) interfaces: Vec<String>,
    wants: Wants,
    pub(super) beginnings: Beginnings,
}

impl EveWriter {
    /// A writer for these settings.
    pub fn new(settings: EveSettings) -> EveWriter {
        EveWriter {
            wants: read_wants(&settings),
            settings,
            stamp: Stamp::new(),
            line: Json::with_capacity(4096),
            scratch: Vec::new(),
            pcap_file: None,
            interfaces: Vec::new(),
            beginnings: Beginnings::default(),
        }
    }

    /// The settings.
    pub fn settings(&self) -> &EveSettings {
        &self.settings
    }

    /// Names the capture that is read from now on, for `pcap-file: yes`, or the interfaces, for `in_iface`.
    pub fn set_input(&mut self, name: &InputName) {
        (self.pcap_file, self.interfaces) = match name.clone() {
            InputName::Capture(path) => (Some(path), Vec::new()),
            InputName::Interfaces(names) => (None, names),
        };
        self.beginnings = Beginnings::default();
    }

    /// Puts the capture's name into each record, unless the configuration says no.
    pub fn name_captures(&mut self) {
        self.settings.pcap_file.get_or_insert(true);
    }

    /// What these settings need from the engine.
    pub fn wants(&self) -> Wants {
        self.wants
    }

    /// What a flow's record may carry too: version, MAC addresses, metadata, community id.
    fn common(&mut self, h: &Header<'_>) {
        let j = &mut self.line;
        if self.settings.version {
            j.field_plain("suricata_version", VERSION);
        }
        if self.settings.ethernet
            && let Some(e) = &h.ether
        {
            ether(j, e);
        }
        if self.settings.metadata
            && let Some(m) = h.metadata
        {
            m.write(j, None, false);
        }
        self.community(h);
    }

    fn end(&mut self) -> Piece<'_> {
        if let Some(host) = &self.settings.sensor_name {
            self.line.field("host", host);
        }
        if self.settings.pcap_file == Some(true)
            && let Some(name) = &self.pcap_file
        {
            self.line.field("pcap_filename", name);
        }
        self.line.close();
        self.line.push(b"\n");
        let line = &self.line;
        Piece { kind: PieceKind::Line, bytes: line.bytes(), later: line.later() }
    }

    /// The line of an alert, when alerts are written.
    pub fn alert(&mut self, r: &AlertRecord<'_>) -> Option<Piece<'_>> {
        let a = self.settings.alert.clone()?;
        let direction = r.direction.unwrap_or(Direction::ToServer);
        let client = Client::find(a.xff.as_ref(), r.forwarded_for.map(|find| (direction, find)));
        let replaced = client.filter(|c| c.overwrites);
        self.begin_with(&r.header, "alert", replaced);
        let j = &mut self.line;
        if let Some(id) = r.tx_id {
            transaction(j, id, r.is_tx_guessed);
        }
        alert_object(j, &mut self.scratch, r, &a, client);
        if let Some(f) = &r.firewall {
            j.open_key("firewall");
            if let Some(hook) = f.hook {
                j.field("hook", hook);
            }
            j.field_plain("policy", f.policy);
            j.close();
        }
        if let Some(t) = &r.tunnel {
            tunnel(j, &mut self.scratch, t, self.interfaces.is_empty());
        }
        if a.app_layer {
            if let Some((ts, tc)) = r.progress {
                j.field_plain("ts_progress", ts);
                j.field_plain("tc_progress", tc);
            }
            if let Some(app) = &r.app {
                // What alerts show of a protocol is set at their own type, not at the protocol's.
                object(j, app.key, app.object, Some(&a.tree), true);
            }
            if let Some(files) = r.files {
                let mark = j.mark();
                j.open_array_key("files");
                if files.write(j, None, true) { j.close_array() } else { j.rewind(mark) }
            }
        }
        if r.header.flow_id.is_some() {
            app_proto(j, &r.app_proto);
        }
        if let Some(d) = r.direction {
            j.field_plain("direction", d.name());
        }
        if a.flow
            && let Some(f) = &r.flow
        {
            j.open_key("flow");
            counters(j, f);
            timestamp(j, &mut self.stamp, &mut self.scratch, "start", f.start_ns);
            flow_ends(j, &mut self.scratch, f, replaced.map(|c| c.ip));
            j.close();
        }
        payload(j, r, &a);
        if !r.frame_json.is_empty() {
            j.raw("frame", r.frame_json);
        }
        if a.packet && !r.packet.is_empty() {
            packet(j, r.packet, r.link);
        }
        if a.verdict
            && let Some(v) = &r.verdict
        {
            verdict(j, v);
        }
        Some(self.end())
    }

    /// The line of a transaction, when its type is written.
    pub fn app(&mut self, r: &AppRecord<'_>) -> Option<Piece<'_>> {
        self.settings.type_node(r.type_name)?;
        let client = Client::find(self.settings.type_xff(r.type_name), r.forwarded_for);
        self.begin_with(&r.header, r.event_type, client.filter(|c| c.overwrites));
        let j = &mut self.line;
        if r.tx_id_on_top {
            j.number("tx_id", r.tx_id);
        }
        let node = self.settings.type_settings(r.type_name);
        // A record its own settings leave nothing of is not written.
        let is_left = object(j, r.event_type, r.object, node, false);
        xff_member(j, client);
        is_left.then(|| self.end())
    }

    /// The line of a packet with captured variables, when they are written.
    pub fn metadata(&mut self, h: &Header<'_>) -> Option<Piece<'_>> {
        self.settings.type_node("metadata")?;
        self.begin(h, "metadata");
        Some(self.end())
    }

    /// The line of a frame, when frames are written.
    pub fn frame(&mut self, r: &FrameRecord<'_>) -> Option<Piece<'_>> {
        self.settings.type_node("frame")?;
        self.begin(&r.header, "frame");
        app_proto(&mut self.line, &r.app_proto);
        self.line.raw("frame", r.frame_json);
        Some(self.end())
    }

    /// The line of a file, when files are written.
    pub fn file(&mut self, r: &FileRecord<'_>) -> Option<Piece<'_>> {
        self.settings.type_node("files")?;
        let client = Client::find(self.settings.type_xff("files"), r.forwarded_for);
        self.begin_with(&r.header, "fileinfo", client.filter(|c| c.overwrites));
        let j = &mut self.line;
        if let Some(app) = &r.app {
            object(j, app.key, app.object, None, true);
        }
        if let Some(name) = r.app_proto.app_proto {
            j.field_plain("app_proto", name);
        }
        j.open_key("fileinfo");
        r.file.write(j);
        j.close();
        xff_member(j, client);
        Some(self.end())
    }

    /// The line of a flow, when flows are written.
    pub fn flow(&mut self, r: &FlowRecord<'_>) -> Option<Piece<'_>> {
        self.settings.type_node("flow")?;
        let h = &r.header;
        let j = &mut self.line;
        j.clear();
        j.open();
        timestamp(j, &mut self.stamp, &mut self.scratch, "timestamp", h.ts_ns);
        ids(j, h, &self.interfaces);
        j.field_plain("event_type", "flow");
        vlans(j, h);
        endpoints(j, &mut self.scratch, h, None);
        j.number("ip_v", h.ip_version);
        proto(j, h.ip_proto);
        if let Some((t, c)) = h.icmp {
            j.number("icmp_type", t);
            j.number("icmp_code", c);
            if let Some((t, c)) = r.icmp_response {
                j.number("response_icmp_type", t);
                j.number("response_icmp_code", c);
            }
        }
        spi(j, h);
        app_proto(j, &r.app_proto);
        self.flow_object(r);
        self.common(h);
        if let Some(t) = &r.tcp {
            let j = &mut self.line;
            j.open_key("tcp");
            tcp_members(j, t);
            j.close();
        }
        if !r.macs.0.is_empty() || !r.macs.1.is_empty() {
            macs(&mut self.line, r.macs, self.settings.ethernet);
        }
        Some(self.end())
    }

    fn flow_object(&mut self, r: &FlowRecord<'_>) {
        let j = &mut self.line;
        j.open_key("flow");
        counters(j, &r.summary);
        if r.state == FlowState::Bypassed {
            // What the capture has bypassed: it leaves bypassed flows to the program.
            j.open_key("bypassed");
            for name in ["pkts_toserver", "pkts_toclient", "bytes_toserver", "bytes_toclient"] {
                j.number(name, 0_u64);
            }
            j.close();
        }
        timestamp(j, &mut self.stamp, &mut self.scratch, "start", r.summary.start_ns);
        timestamp(j, &mut self.stamp, &mut self.scratch, "end", r.end_ns);
        j.number("age", age_seconds(r.summary.start_ns, r.end_ns));
        if r.state == FlowState::Bypassed {
            j.field_plain("bypass", "local");
        }
        j.field_plain("state", r.state.name());
        j.field_plain("reason", r.reason.name());
        j.boolean("alerted", r.is_alerted);
        if let Some(a) = r.action {
            j.field_plain("action", a.name());
        }
        if !r.exception_policies.is_empty() {
            j.open_array_key("exception_policy");
            for (target, policy) in r.exception_policies {
                j.open();
                j.field_plain("target", target.name());
                j.field_plain("policy", policy.eve_name());
                j.close();
            }
            j.close_array();
        }
        if let Some(n) = r.tx_count {
            j.number("tx_cnt", n);
        }
        j.close();
    }

    /// The line of one direction of a flow, when netflow records are written.
    pub fn netflow(&mut self, r: &FlowRecord<'_>, direction: Direction) -> Option<Piece<'_>> {
        self.settings.type_node("netflow")?;
        let d = direction.index();
        if d == 1 && r.summary.pkts[1] == 0 {
            return None;
        }
        let mut h = r.header;
        if direction == Direction::ToClient {
            (h.src, h.dst) = (h.dst, h.src);
            h.ports = h.ports.map(|(s, p)| (p, s));
            h.icmp = r.icmp_response.or(h.icmp);
        }
        let j = &mut self.line;
        j.clear();
        j.open();
        timestamp(j, &mut self.stamp, &mut self.scratch, "timestamp", h.ts_ns);
        ids(j, &h, &self.interfaces);
        j.field_plain("event_type", "netflow");
        vlans(j, &h);
        endpoints(j, &mut self.scratch, &h, None);
        proto(j, h.ip_proto);
        if let Some((t, c)) = h.icmp {
            j.number("icmp_type", t);
            j.number("icmp_code", c);
        }
        spi(j, &h);
        let names =
            AppProtoNames { app_proto: r.app_proto.app_proto.or(Some("unknown")), ..r.app_proto };
        app_proto(j, &names);
        j.open_key("netflow");
        j.number("pkts", r.summary.pkts[d]);
        j.number("bytes", r.summary.bytes[d]);
        timestamp(j, &mut self.stamp, &mut self.scratch, "start", r.summary.start_ns);
        timestamp(j, &mut self.stamp, &mut self.scratch, "end", r.end_ns);
        j.number("age", age_seconds(r.summary.start_ns, r.end_ns));
        j.number("min_ttl", r.ttl[d].0);
        j.number("max_ttl", r.ttl[d].1);
        if let Some(n) = r.tx_count {
            j.number("tx_cnt", n);
        }
        j.close();
        if let Some(t) = &r.tcp {
            j.open_key("tcp");
            hex_flags(j, "tcp_flags", t.flags_by_direction[d]);
            flag_members(j, t.flags_by_direction[d]);
            j.close();
        }
        let (from, to) = if d == 0 { r.macs } else { (r.macs.1, r.macs.0) };
        if !from.is_empty() || !to.is_empty() {
            macs(&mut self.line, (from, to), self.settings.ethernet);
        }
        self.common(&h);
        Some(self.end())
    }

    /// The line of an anomaly, when its kind is written.
    pub fn anomaly(&mut self, r: &AnomalyRecord<'_>) -> Option<Piece<'_>> {
        let w = self.wants;
        let (kind, on, layer) = match r.kind {
            AnomalyKind::Decode => ("decode", w.anomaly_decode, None),
            AnomalyKind::Stream => ("stream", w.anomaly_stream, None),
            AnomalyKind::AppLayer => ("applayer", w.anomaly_app, Some("proto_parser")),
            AnomalyKind::Detection => ("applayer", w.anomaly_app, Some("proto_detect")),
        };
        if !on {
            return None;
        }
        self.begin(&r.header, "anomaly");
        let packethdr =
            self.settings.type_node("anomaly").and_then(|t| t.flag("packethdr")).unwrap_or(false);
        let j = &mut self.line;
        if let Some(id) = r.tx_id {
            j.number("tx_id", id);
        }
        j.open_key("anomaly");
        if let Some(p) = r.app_proto {
            j.field_plain("app_proto", p);
        }
        j.field_plain("type", kind);
        if r.in_capitals {
            let upper = r.event.to_ascii_uppercase();
            j.field_plain("event", &upper);
        } else {
            j.field_plain("event", r.event);
        }
        if let Some(l) = layer {
            j.field_plain("layer", l);
        }
        j.close();
        if packethdr && !r.packet.is_empty() && layer.is_none() {
            packet(j, &r.packet[..r.packet.len().min(PACKET_HEADER_BYTES)], r.link);
        }
        Some(self.end())
    }

    /// The line of a dropped packet, when drops are written.
    pub fn dropped(&mut self, r: &DropRecord<'_>) -> Option<Piece<'_>> {
        let node = self.settings.type_node("drop")?;
        let with_alerts = node.flag("alerts").unwrap_or(false);
        let with_verdict = node.flag("verdict").unwrap_or(false);
        self.begin(&r.header, "drop");
        let j = &mut self.line;
        if let Some(d) = r.direction {
            j.field_plain("direction", d.name());
        }
        j.open_key("drop");
        ip_members(j, r.header.ip_version, &r.ip);
        if let Some(n) = r.udp_len {
            j.number("udplen", n);
        }
        if let Some((id, seq)) = r.icmp {
            j.number("icmp_id", id);
            j.number("icmp_seq", seq);
        }
        j.field_plain("reason", r.reason.name());
        j.close();
        if (with_verdict || r.is_firewalled)
            && let Some(v) = &r.verdict
        {
            verdict(j, v);
        }
        if with_alerts && let Some((s, blocked)) = r.alerts.first() {
            if let Some((id, is_guessed)) = r.tx {
                transaction(j, id, is_guessed);
            }
            j.open_key("alert");
            j.field_plain("action", if *blocked { "blocked" } else { "allowed" });
            signature_members(j, s);
            j.close();
        }
        Some(self.end())
    }

    /// The line of a tagged packet, when tagged packets are written.
    pub fn packet(&mut self, r: &PacketRecord<'_>) -> Option<Piece<'_>> {
        if !self.settings.alert.as_ref()?.tagged_packets {
            return None;
        }
        self.begin(&r.header, "packet");
        packet(&mut self.line, r.packet, r.link);
        Some(self.end())
    }

    /// The line of a TCP packet with its session, when such packets are written.
    pub fn stream(&mut self, r: &StreamRecord<'_>) -> Option<Piece<'_>> {
        let node = self.settings.type_node("stream")?;
        let is_chosen = |name: &&&str| {
            r.notes & packet_note(name) != 0 && node.flag(&name.replace('_', "-")) == Some(true)
        };
        if node.flag("all") != Some(true) && PACKET_NOTES_CHOSEN.iter().find(is_chosen).is_none() {
            return None;
        }
        self.begin(&r.header, "stream_tcp");
        let j = &mut self.line;
        j.field_plain("direction", r.direction.name());
        j.open_key("stream_tcp");
        j.open_key("packet");
        ip_members(j, r.header.ip_version, &r.ip);
        j.open_array_key("flags");
        for (at, name) in PACKET_NOTES.iter().enumerate() {
            if r.notes & (1 << at) != 0 {
                j.item(name);
            }
        }
        j.close_array();
        j.close();
        j.open_key("session");
        r.session.write(j, None, false);
        j.close();
        if !r.events.is_empty() {
            j.open_array_key("events");
            for e in r.events {
                j.item(e);
            }
            j.close_array();
        }
        j.close();
        Some(self.end())
    }

    /// The line of an ARP packet, when those are written.
    pub fn arp(&mut self, h: &Header<'_>, members: &dyn WriteObject) -> Option<Piece<'_>> {
        self.settings.type_node("arp")?;
        self.begin(h, "arp");
        object(&mut self.line, "arp", members, None, false);
        Some(self.end())
    }

    /// A line whose object was written elsewhere (statistics).
    pub fn whole(
        &mut self,
        ts_ns: u64,
        event_type: &str,
        json: impl FnOnce(&Tree) -> Vec<u8>,
    ) -> Option<Piece<'_>> {
        let json = json(self.settings.type_node(event_type)?);
        let j = &mut self.line;
        j.clear();
        j.open();
        timestamp(j, &mut self.stamp, &mut self.scratch, "timestamp", ts_ns);
        j.field_plain("event_type", event_type);
        j.raw(event_type, &json);
        Some(self.end())
    }
}

fn read_wants(settings: &EveSettings) -> Wants {
    let has = |name: &str| settings.type_node(name).is_some();
    let anomaly = settings.type_node("anomaly");
    let anomaly_kind = |kind: &str, default: bool| {
        anomaly.is_some_and(|t| {
            t.flag(&format!("types.{kind}")).unwrap_or(default) && t.flag("enabled") != Some(false)
        })
    };
    let hashes = settings.type_node("files");
    let hash = |name: &str| {
        hashes.and_then(|t| t.child("force-hash")).is_some_and(|t| {
            t.value.as_deref() == Some(name)
                || t.children.iter().any(|(_, c)| c.value.as_deref() == Some(name))
        })
    };
    // Only handshakes of TLS have such members.
    let asks_for = |key: &str| {
        settings.types.iter().map(|t| &t.node).any(|t| {
            t.flag(key) == Some(true)
                || t.child("custom").is_some_and(|c| {
                    c.children.iter().any(|(_, v)| v.value.as_deref() == Some(key))
                })
        })
    };
    const NOT_APP: [&str; 13] = [
        "alert", "anomaly", "files", "flow", "netflow", "drop", "stats", "metadata", "frame",
        "arp", "verdict", "packet", "stream",
    ];
    Wants {
        alerts: settings.alert.is_some(),
        app: settings.types.iter().any(|t| !NOT_APP.contains(&t.name.as_str())),
        files: hashes.is_some(),
        evidence: false,
        file_store: false,
        file_data: false,
        store_all_files: false,
        flows: has("flow") || has("netflow"),
        anomaly_decode: anomaly_kind("decode", false),
        anomaly_stream: anomaly_kind("stream", false),
        anomaly_app: anomaly_kind("applayer", true),
        drops: has("drop"),
        drops_all: settings.type_node("drop").and_then(|t| t.text("flows")) == Some("all"),
        packets: settings.alert.as_ref().is_some_and(|a| a.tagged_packets),
        arp: has("arp"),
        frames: has("frame"),
        wire: false,
        certificates: false,
        metadata: has("metadata"),
        streams: has("stream"),
        alerted_packets: false,
        stream_data: false,
        body_data: false,
        md5: hash("md5"),
        sha1: hash("sha1"),
        sha256: hash("sha256"),
        magic: hashes.and_then(|t| t.flag("force-magic")) == Some(true),
        ja3: asks_for("ja3") || asks_for("ja3s"),
        macs: settings.ethernet,
        bodies: settings.alert.as_ref().is_some_and(|a| a.app_layer),
    }
}

pub(super) fn timestamp(
    j: &mut Json,
    stamp: &mut Stamp,
    scratch: &mut Vec<u8>,
    key: &str,
    ts_ns: u64,
) {
    scratch.clear();
    stamp.iso(ts_ns, scratch);
    j.key(key);
    j.push(b"\"");
    j.push(scratch);
    j.push(b"\"");
}

fn address(j: &mut Json, scratch: &mut Vec<u8>, key: &str, a: Addr, version: u8) {
    scratch.clear();
    a.write(version, scratch);
    j.key(key);
    j.push(b"\"");
    j.push(scratch);
    j.push(b"\"");
}

/// The address of an end, or of the client that replaces it, in whose own version.
fn end_address(
    j: &mut Json,
    scratch: &mut Vec<u8>,
    key: &str,
    (end, version): (Addr, u8),
    client: Option<IpAddr>,
) {
    match client {
        Some(ip) => j.field_plain(key, &ip.to_string()),
        None => address(j, scratch, key, end, version),
    }
}

pub(super) fn ids(j: &mut Json, h: &Header<'_>, interfaces: &[String]) {
    if let Some(id) = h.flow_id {
        j.number("flow_id", id);
    }
    if let Some(id) = h.parent_id {
        j.number("parent_id", id);
    }
    if let Some(name) = interfaces.get(usize::from(h.device)) {
        j.field("in_iface", name);
    }
}

pub(super) fn spi(j: &mut Json, h: &Header<'_>) {
    if let Some(spi) = h.spi {
        j.number("spi", spi);
    }
}

pub(super) fn vlans(j: &mut Json, h: &Header<'_>) {
    if !h.vlan.is_empty() {
        j.open_array_key("vlan");
        for v in h.vlan {
            j.item_number(*v);
        }
        j.close_array();
    }
}

pub(super) fn endpoints(
    j: &mut Json,
    scratch: &mut Vec<u8>,
    h: &Header<'_>,
    client: Option<Client>,
) {
    if h.ip_version == 0 {
        return;
    }
    let replacing = |is_source| client.filter(|c| c.is_source == is_source).map(|c| c.ip);
    end_address(j, scratch, "src_ip", (h.src, h.ip_version), replacing(true));
    if let Some((p, _)) = h.ports {
        j.number("src_port", p);
    }
    end_address(j, scratch, "dest_ip", (h.dst, h.ip_version), replacing(false));
    if let Some((_, p)) = h.ports {
        j.number("dest_port", p);
    }
}

pub(super) fn proto(j: &mut Json, protocol: IpProto) {
    match ip_protocol(protocol) {
        Some(name) => j.field_plain("proto", name),
        None => j.field_plain("proto", &format!("{:03}", protocol.0)),
    }
}

fn object(
    j: &mut Json,
    key: &str,
    o: &dyn WriteObject,
    config: Option<&gabion_record::Tree>,
    in_alert: bool,
) -> bool {
    let mark = j.mark();
    j.open_key(key);
    let wrote = o.write(j, config, in_alert);
    if wrote {
        j.close()
    } else {
        j.rewind(mark)
    }
    wrote
}

pub(super) fn ether(j: &mut Json, e: &EtherHeader) {
    j.open_key("ether");
    j.number("ether_type", e.ether_type);
    mac(j, "src_mac", &e.src);
    mac(j, "dest_mac", &e.dst);
    j.close();
}

fn mac(j: &mut Json, key: &str, m: &[u8; 6]) {
    j.field_plain(key, &mac_text(m));
}

fn mac_text(m: &[u8; 6]) -> String {
    gabion_record::hex::to_hex_pairs(m, ':')
}

fn macs(j: &mut Json, (from, to): (&[[u8; 6]], &[[u8; 6]]), on: bool) {
    if !on {
        return;
    }
    j.open_key("ether");
    for (key, list) in [("dest_macs", to), ("src_macs", from)] {
        if !list.is_empty() {
            j.open_array_key(key);
            for m in list {
                j.item(mac_text(m));
            }
            j.close_array();
        }
    }
    j.close();
}

fn signature_members(j: &mut Json, s: &AlertSignature<'_>) {
    if let Some(engine) = s.engine {
        j.field_plain("engine", engine);
    }
    j.number("gid", s.gid);
    j.number("signature_id", s.sid);
    j.number("rev", s.rev);
    j.field("signature", s.msg);
    j.field("category", s.category);
    j.number("severity", s.severity);
}

/// The client behind a proxy.
#[derive(Clone, Copy, Debug)]
pub(super) struct Client {
    pub(super) ip: IpAddr,
    /// It replaces the source of a record, else the destination.
    is_source: bool,
    /// It replaces the address of the proxy.
    overwrites: bool,
}

impl Client {
    /// The client of a record of this direction, as these settings look for it.
    fn find(x: Option<&Xff>, of: Option<(Direction, ForwardedFor<'_>)>) -> Option<Client> {
        let (x, (direction, find)) = x.zip(of)?;
        Some(Client {
            ip: find(&x.header, x.takes_last)?,
            is_source: direction == Direction::ToServer,
            overwrites: x.overwrites,
        })
    }
}

/// The client, where it does not replace an address.
fn xff_member(j: &mut Json, client: Option<Client>) {
    if let Some(client) = client.filter(|c| !c.overwrites) {
        j.field_plain("xff", &client.ip.to_string());
    }
}

fn alert_object(
    j: &mut Json,
    scratch: &mut Vec<u8>,
    r: &AlertRecord<'_>,
    a: &AlertSettings,
    client: Option<Client>,
) {
    j.open_key("alert");
    j.field_plain("action", if r.is_blocked { "blocked" } else { "allowed" });
    signature_members(j, &r.signature);
    if let Some((source, target)) = &r.source_target {
        for (key, (ip, port)) in [("source", source), ("target", target)] {
            j.open_key(key);
            let client = client.filter(|c| c.overwrites).filter(|c| {
                let ends = (r.header.src, r.header.dst);
                *ip == if c.is_source { ends.0 } else { ends.1 }
            });
            end_address(j, scratch, "ip", (*ip, r.header.ip_version), client.map(|c| c.ip));
            if r.header.ports.is_some() {
                j.number("port", *port);
            }
            j.close();
        }
    }
    if a.references && !r.signature.references_json.is_empty() {
        j.raw("references", r.signature.references_json);
    }
    if a.rule_metadata && !r.signature.metadata_json.is_empty() {
        j.raw("metadata", r.signature.metadata_json);
    }
    if a.raw_rule {
        j.field("rule", r.signature.rule);
    }
    if let Some(client) = client {
        j.field_plain("xff", &client.ip.to_string());
    }
    let loss = r.loss.as_ref().filter(|l| !l.is_complete());
    if !r.context_json.is_empty() || loss.is_some() {
        j.open_key("context");
        j.members(r.context_json);
        // One of `own_members.tsv`; Suricata leaves this object to programs that have more to say.
        if let Some(loss) = loss {
            j.open_key("loss");
            scratch.clear();
            loss.write_json_fields(scratch);
            j.members(scratch);
            j.close();
        }
        j.close();
    }
    j.close();
}

/// The outer packet; it has a place where a capture is read.
fn tunnel(j: &mut Json, scratch: &mut Vec<u8>, t: &Tunnel, is_of_capture: bool) {
    j.open_key("tunnel");
    address(j, scratch, "src_ip", t.src, t.ip_version);
    j.number("src_port", t.ports.0);
    address(j, scratch, "dest_ip", t.dst, t.ip_version);
    j.number("dest_port", t.ports.1);
    proto(j, t.ip_proto);
    j.number("depth", t.depth);
    if let (Some(n), true) = (t.pcap_cnt, is_of_capture) {
        j.number("pcap_cnt", n);
    }
    j.field_plain("pkt_src", t.pkt_src.name());
    j.close();
}

fn app_proto(j: &mut Json, p: &AppProtoNames) {
    if let Some(name) = p.app_proto {
        j.field_plain("app_proto", name);
    }
    for (key, name) in [
        ("app_proto_ts", p.to_server),
        ("app_proto_tc", p.to_client),
        ("app_proto_orig", p.original),
        ("app_proto_expected", p.expected),
    ] {
        if let Some(name) = name {
            j.field_plain(key, name);
        }
    }
}

fn counters(j: &mut Json, f: &FlowSummary) {
    j.number("pkts_toserver", f.pkts[0]);
    j.number("pkts_toclient", f.pkts[1]);
    j.number("bytes_toserver", f.bytes[0]);
    j.number("bytes_toclient", f.bytes[1]);
}

fn flow_ends(j: &mut Json, scratch: &mut Vec<u8>, f: &FlowSummary, client: Option<IpAddr>) {
    end_address(j, scratch, "src_ip", (f.client, f.ip_version), client);
    address(j, scratch, "dest_ip", f.server, f.ip_version);
    if let Some((s, d)) = f.ports {
        j.number("src_port", s);
        j.number("dest_port", d);
    }
}

fn payload(j: &mut Json, r: &AlertRecord<'_>, a: &AlertSettings) {
    if !(a.payload || a.payload_printable || a.payload_length) {
        return;
    }
    // The buffer is for data of streams alone, and its last byte stays free, as in Suricata.
    let most = if r.is_stream { a.payload_buffer_size.saturating_sub(1) } else { usize::MAX };
    let bytes = r.payload.get(..most).unwrap_or(r.payload);
    if a.payload_length {
        j.number("payload_length", bytes.len());
    }
    if !bytes.is_empty() {
        if a.payload {
            j.base64("payload", bytes);
        }
        if a.payload_printable {
            j.printable("payload_printable", bytes);
        }
    }
    j.number("stream", u8::from(r.is_stream));
}

fn packet(j: &mut Json, bytes: &[u8], link: u16) {
    j.base64("packet", bytes);
    j.open_key("packet_info");
    j.number("linktype", link);
    if let Some(name) = link_type(link) {
        j.field_plain("linktype_name", name);
    }
    j.close();
}

/// The transaction of an alert.
fn transaction(j: &mut Json, id: u64, is_guessed: bool) {
    j.number("tx_id", id);
    if is_guessed {
        j.boolean("tx_guessed", true);
    }
}

fn verdict(j: &mut Json, v: &VerdictRecord) {
    j.open_key("verdict");
    j.field_plain(
        "action",
        match v.action {
            Verdict::Alert => "alert",
            Verdict::Pass => "pass",
            Verdict::Accept => "accept",
            Verdict::Drop => "drop",
        },
    );
    if let Some(target) = v.reject_target {
        j.field_plain("reject-target", target);
        j.open_array_key("reject");
        for r in v.reject {
            j.item(r);
        }
        j.close_array();
    }
    j.close();
}

/// The headers of a packet.
fn ip_members(j: &mut Json, ip_version: u8, ip: &IpFacts) {
    j.number("len", ip.len);
    let names =
        if ip_version == 6 { ["tc", "hoplimit", "flowlbl"] } else { ["tos", "ttl", "ipid"] };
    j.number(names[0], ip.tos);
    j.number(names[1], ip.ttl);
    j.number(names[2], ip.id);
    if let Some(t) = &ip.tcp {
        j.number("tcpseq", t.seq);
        j.number("tcpack", t.ack);
        j.number("tcpwin", t.window);
        for (bit, key) in [(2, "syn"), (16, "ack"), (8, "psh"), (4, "rst"), (32, "urg"), (1, "fin")]
        {
            j.boolean(key, t.flags & bit != 0);
        }
        j.number("tcpres", 0);
        j.number("tcpurgp", t.urgent);
    }
}

fn hex_flags(j: &mut Json, key: &str, flags: u8) {
    j.field_plain(key, &format!("{flags:02x}"));
}

fn flag_members(j: &mut Json, flags: u8) {
    for (bit, key) in TCP_FLAGS {
        if flags & bit != 0 {
            j.boolean(key, true);
        }
    }
}

fn tcp_members(j: &mut Json, t: &FlowTcp) {
    hex_flags(j, "tcp_flags", t.flags);
    hex_flags(j, "tcp_flags_ts", t.flags_by_direction[0]);
    hex_flags(j, "tcp_flags_tc", t.flags_by_direction[1]);
    flag_members(j, t.flags);
    if t.state != TcpState::None {
        j.field_plain("state", t.state.name());
        for (key, on) in [("ts_gap", t.has_gap[0]), ("tc_gap", t.has_gap[1])] {
            if on {
                j.boolean(key, true);
            }
        }
        j.number("ts_max_regions", t.regions_max[0]);
        j.number("tc_max_regions", t.regions_max[1]);
    }
}

fn age_seconds(start_ns: u64, end_ns: u64) -> u64 {
    // Whole seconds of the two stamps are subtracted, as Suricata does.
    (end_ns / 1_000_000_000).saturating_sub(start_ns / 1_000_000_000)
}
