//! Records that are no alerts: transactions, files, flows, anomalies, drops.

use crate::alert::{engine_name, verdict};
use crate::app::{AppLayer, RecordAllowance};
use crate::firewall::is_reason;
use crate::flow_state::{FlowVars, NetFlow};
use crate::limits::reached;
use crate::view::PacketView;
use crate::worker::{Core, Fate};
use gabion_flow::{EndReason, Flow};
use gabion_packet::{Arp, Decoded, Transport};
use gabion_proto::files::{File, FileList, FileState};
use gabion_proto::registry::protocol;
use gabion_proto::{LogOptions, Protocol, Transaction};
use gabion_record::applayer::{Catalog, ProtoId};
use gabion_record::eve::*;
use gabion_record::json::Json;
use gabion_record::{Addr, Direction, Tree};
use gabion_rules::Ruleset;
use smallvec::SmallVec;

/// A transaction's object.
pub(crate) struct TxObject<'a> {
    pub(crate) tx: &'a dyn Transaction,
}

impl WriteObject for TxObject<'_> {
    fn write(&self, json: &mut Json, config: Option<&Tree>, in_alert: bool) -> bool {
        write_objects(self.tx, json, LogOptions { config, in_alert, part: 0 })
    }
}

/// One of several records of a transaction.
struct TxPart<'a> {
    tx: &'a dyn Transaction,
    part: usize,
}

impl WriteObject for TxPart<'_> {
    fn write(&self, json: &mut Json, config: Option<&Tree>, in_alert: bool) -> bool {
        write_objects(self.tx, json, LogOptions { config, in_alert, part: self.part })
    }
}

/// Writes a transaction's object, which the caller has opened and closes, and its companion behind
/// it: closing the one and opening the other leaves one to be closed.
fn write_objects(tx: &dyn Transaction, json: &mut Json, how: LogOptions<'_>) -> bool {
    let wrote = tx.log(json, how);
    if wrote && let Some(key) = tx.companion() {
        let mark = json.mark();
        json.close();
        json.open_key(key);
        if !tx.log_companion(json, how) {
            json.rewind(mark);
        }
    }
    wrote
}

/// Flow bits, integers and variables.
pub(crate) struct MetadataObject<'a> {
    pub(crate) set: Option<&'a Ruleset>,
    pub(crate) vars: &'a FlowVars,
    pub(crate) packet: &'a [(u32, Vec<u8>)],
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
        let mark = json.mark();
        json.open_key("metadata");
        let inside = json.mark();
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
        if json.wrote_since(inside) {
            json.close()
        } else {
            json.rewind(mark)
        }
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

fn variables(json: &mut Json, key: &str, set: &Ruleset, list: &[(u32, Vec<u8>)]) {
    json.open_array_key(key);
    for (name, value) in list {
        json.open();
        json.key_text(set.variables.get(*name).as_bytes());
        json.quoted(value);
        json.close();
    }
    json.close_array();
}

/// The `files` array of an alert.
pub(crate) struct FilesObject<'a> {
    pub(crate) list: &'a [File],
    pub(crate) flow: u64,
    pub(crate) tx: u64,
}

impl WriteObject for FilesObject<'_> {
    fn write(&self, json: &mut Json, _config: Option<&Tree>, _in_alert: bool) -> bool {
        for f in self.list {
            json.open();
            facts(f, self.flow, self.tx).write(json);
            json.close();
        }
        !self.list.is_empty()
    }
}

/// Files of a transaction in the packet's direction.
pub(crate) fn files_of(tx: &dyn Transaction, d: Option<Direction>) -> Option<&[File]> {
    let list = tx.files(d.unwrap_or(Direction::ToServer))?;
    (!list.files.is_empty()).then_some(list.files.as_slice())
}

pub(crate) fn facts(f: &File, flow: u64, tx_id: u64) -> FileFacts<'_> {
    let d = f.digests();
    FileFacts {
        name: &f.name,
        sids: &f.sids,
        has_gaps: f.has_gaps,
        state: f.state.name(),
        md5: d.md5,
        sha1: d.sha1,
        sha256: d.sha256,
        is_stored: f.is_stored,
        is_storing: f.store && !f.is_stored && f.state == FileState::Open,
        file_id: f.is_stored.then(|| FileKey::new(flow, f.id)),
        size: f.size,
        range: f.range,
        tx_id,
        magic: f.magic(),
    }
}

/// The common part of a record about this packet.
pub(crate) fn header<'a>(
    view: &PacketView<'a>,
    flow: Option<&'a Flow<NetFlow>>,
    metadata: Option<&'a dyn WriteObject>,
) -> Header<'a> {
    let h = view.headers;
    let has_ports = matches!(h.proto, 6 | 17 | 132) && (h.transport.is_some() || view.is_pseudo);
    Header {
        ts_ns: view.ts_ns,
        flow_id: flow.map(|f| f.id),
        parent_id: flow.and_then(|f| f.parent_id),
        in_iface: None,
        pcap_cnt: view.pcap_cnt,
        vlan: h.vlan_ids(),
        ip_version: h.ip_version(),
        src: h.src,
        dst: h.dst,
        ports: has_ports.then_some((h.sp, h.dp)),
        ip_proto: h.proto,
        icmp: h.transport.icmp().map(|i| (i.kind, i.code)),
        spi: match &h.transport {
            Transport::Esp(esp) => Some(esp.spi),
            _ => None,
        },
        pkt_src: view.pkt_src,
        metadata,
        ether: match (h.src_mac(view.frame), h.dst_mac(view.frame)) {
            (Some(src), Some(dst)) => Some(EtherHeader { ether_type: h.ethertype, src, dst }),
            _ => None,
        },
    }
}

/// The same with the sides of a flow: `from` sends.
pub(crate) fn flow_header<'a>(
    view: &PacketView<'a>,
    flow: &'a Flow<NetFlow>,
    from: Direction,
) -> Header<'a> {
    let mut h = header(view, Some(flow), None);
    let (src, dst) = (flow.source(from), flow.source(from.opposite()));
    h.src = src.addr;
    h.dst = dst.addr;
    if matches!(flow.proto, 6 | 17 | 132) {
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
        ports: matches!(flow.proto, 6 | 17 | 132).then_some((flow.client.port, flow.server.port)),
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
        expected: (app.expected.is_known() && app.expected != app.proto)
            .then(|| catalog.eve_name(app.expected)),
    }
}

impl Core {
    /// Irregularities of the packet.
    pub(crate) fn anomalies(
        &mut self,
        view: &PacketView<'_>,
        flow: Option<&Flow<NetFlow>>,
        sink: &mut dyn NetSink,
    ) {
        let w = &self.engine.options.wants;
        let h = view.headers;
        let any = (w.anomaly_decode && !h.events.is_empty())
            || (w.anomaly_stream && !view.stream_events.is_empty())
            || (w.anomaly_app && !view.detection_events.is_empty());
        if !any {
            return;
        }
        let meta = flow.map(|f| self.metadata(f));
        let head = header(view, flow, meta.as_ref().map(|m| m as &dyn WriteObject));
        let link = self.link;
        let mut emit = |kind, event: &str, app_proto| {
            sink.anomaly(&AnomalyRecord {
                header: head,
                kind,
                event,
                app_proto,
                tx_id: None,
                packet: h.bytes(view.frame),
                link,
                in_capitals: kind == AnomalyKind::Detection,
            });
        };
        if w.anomaly_decode {
            for e in h.events.as_slice() {
                emit(AnomalyKind::Decode, &format!("decoder.{}", e.name()), None);
            }
        }
        if w.anomaly_stream {
            for e in view.stream_events {
                emit(AnomalyKind::Stream, &format!("stream.{}", e.name()), None);
            }
        }
        if w.anomaly_app {
            let app = flow.and_then(|f| app_names(&self.engine.catalog, &f.ext.app).app_proto);
            for e in view.detection_events {
                emit(AnomalyKind::Detection, e, app);
            }
        }
    }

    /// Records of transactions and files that are due with this packet.
    pub(crate) fn log_transactions(
        &mut self,
        view: &PacketView<'_>,
        flow: &mut Flow<NetFlow>,
        at_end: bool,
        sink: &mut dyn NetSink,
    ) {
        let w = self.engine.options.wants;
        if !(w.app || w.files || w.anomaly_app || w.file_store) {
            return;
        }
        let Some(mut parser) = flow.ext.app.parser.take() else { return };
        let news = flow.ext.app.news();
        let mut memories = flow.ext.app.take_txs();
        let mut allowance = flow.ext.app.records;
        let told = &*flow;
        let app = &told.ext.app;
        let silent = told.ext.flags.no_app_log;
        let last = [app.last_state(Direction::ToServer), app.last_state(Direction::ToClient)];
        // With both sides closed nothing more can come of any transaction.
        let at_eof = app.eof == [true; 2];
        let seen = told.tcp.as_ref().and_then(|t| t.only_direction());
        let meta = self.metadata(told);
        let mut told = Told {
            view,
            flow: told,
            protocol: protocol(app.proto),
            names: app_names(&self.engine.catalog, app),
            heads: [None; 2],
            meta: &meta,
            sent: told.seen[0].bytes + told.seen[1].bytes,
        };
        let wants_all = at_end || at_eof;
        let all: TxIds = match news {
            Some(_) if !wants_all => TxIds::new(),
            _ => memories.entries().map(|(id, _)| id).collect(),
        };
        for id in news.as_ref().filter(|_| !wants_all).map_or(all.as_slice(), Vec::as_slice) {
            let id = *id;
            let (Some(tx), Some(m)) = (parser.txs().at(id), memories.get_mut(id)) else { continue };
            let is = tx.standing();
            let told_of = m.events_logged as usize;
            if is.events > told_of {
                if w.anomaly_app {
                    let news = tx.events().get(told_of..).unwrap_or_default();
                    self.app_anomalies(&told, &mut allowance, tx, news, sink);
                }
                m.events_logged = u32::try_from(is.events).unwrap_or(u32::MAX);
            }
            let wanted = is.log_progress.map_or(last, |(ts, tc)| [ts, tc]);
            if !m.is_logged && (wants_all || is.has_reached(wanted, seen)) {
                m.is_logged = true;
                if w.app && !silent && !m.no_log && allowance.takes(told.sent) {
                    log_transaction(&mut told, tx, sink);
                    if !self.outputs.is_empty() {
                        self.script_tx(view, told.flow, parser.as_ref(), tx);
                    }
                }
            }
            if (w.files || w.file_store) && is.has_files && has_files_to_log(tx) {
                self.log_files(view, told.flow, parser.as_mut(), id, at_end, sink);
            }
        }
        flow.ext.app.records = allowance;
        flow.ext.app.put_back_txs(memories);
        if let Some(news) = news {
            flow.ext.app.put_back_news(news);
        }
        reached::FLOW_RECORDS_MAX.count_times(flow.ext.app.records.take_refused());
        flow.ext.app.parser = Some(parser);
        self.settle_limits(Some(flow));
    }

    fn app_anomalies(
        &self,
        told: &Told<'_>,
        allowance: &mut RecordAllowance,
        tx: &dyn Transaction,
        codes: &[u16],
        sink: &mut dyn NetSink,
    ) {
        let Some(p) = told.protocol else { return };
        let head = header(told.view, Some(told.flow), Some(told.meta));
        for code in codes {
            let Some(e) = p.table.events.iter().find(|e| e.code == *code) else { continue };
            if !allowance.takes(told.sent) {
                continue;
            }
            sink.anomaly(&AnomalyRecord {
                header: head,
                kind: AnomalyKind::AppLayer,
                event: e.name,
                app_proto: Some(p.table.eve_name),
                tx_id: Some(tx.id()),
                packet: &[],
                link: self.link,
                in_capitals: p.table.events_in_capitals,
            });
        }
    }

    fn log_files(
        &self,
        view: &PacketView<'_>,
        flow: &Flow<NetFlow>,
        parser: &mut dyn gabion_proto::Parser,
        id: u64,
        at_end: bool,
        sink: &mut dyn NetSink,
    ) {
        for d in Direction::BOTH {
            if !parser.tx(id).and_then(|t| t.files(d)).is_some_and(has_open_record) {
                continue;
            }
            // A file goes with the packets of its own direction.
            if !at_end && view.direction != Some(d) {
                continue;
            }
            if at_end && let Some(list) = parser.tx_mut(id).and_then(|t| t.files_mut(d)) {
                for f in &mut list.files {
                    f.close(FileState::Truncated);
                }
            }
            let Some(tx) = parser.tx(id) else { return };
            let Some(p) = protocol(flow.ext.app.proto) else { return };
            let key = tx.event_type().unwrap_or(p.event_type);
            let meta = self.metadata(flow);
            let mut head = flow_header(view, flow, d);
            head.metadata = Some(&meta);
            let object = TxObject { tx };
            let mut stored = Vec::new();
            if let Some(list) = tx.files(d) {
                for (n, f) in list.files.iter().enumerate() {
                    if f.is_logged || f.state == FileState::Open {
                        continue;
                    }
                    let store = f.store
                        || flow.ext.flags.store_files[d.index()]
                        || self.engine.options.wants.store_all_files;
                    let mut file = facts(f, flow.id, id);
                    if store {
                        file.is_stored = true;
                        file.file_id = Some(FileKey::new(flow.id, f.id));
                    }
                    let record = FileRecord {
                        header: head,
                        app: Some(AppObject { key, object: &object }),
                        app_proto: app_names(&self.engine.catalog, &flow.ext.app),
                        file,
                    };
                    let (bytes, start) = f.content();
                    if store && start == 0 {
                        let key = (flow.id, f.id);
                        sink.file_chunk(&FileChunk { record, key, bytes, is_last: true });
                    }
                    sink.file(&record);
                    stored.push((n, store));
                }
            }
            let mut logged = Vec::new();
            if let Some(list) = parser.tx_mut(id).and_then(|t| t.files_mut(d)) {
                for (n, store) in stored {
                    if let Some(f) = list.files.get_mut(n) {
                        f.is_logged = true;
                        f.is_stored |= store;
                        logged.push(n);
                    }
                }
            }
            if self.outputs.is_empty() {
                continue;
            }
            let Some(tx) = parser.tx(id) else { return };
            for f in logged.iter().filter_map(|n| tx.files(d)?.files.get(*n)) {
                self.script_file(view, flow, parser, tx, f);
            }
        }
    }

    /// A dropped or rejected packet.
    pub(crate) fn log_drop(
        &mut self,
        view: &PacketView<'_>,
        mut flow: Option<&mut Flow<NetFlow>>,
        fate: &Fate,
        sink: &mut dyn NetSink,
    ) {
        if view.is_pseudo {
            return;
        }
        if let Some(reason) = fate.drop {
            self.counters.count_drop(reason);
        }
        if fate.reject.is_some() {
            match fate.drop.is_some_and(is_reason) {
                true => self.counters.firewall_rejected += 1,
                false => self.counters.ips_rejected += 1,
            }
        }
        let Some(reason) = fate.drop else { return };
        if !self.engine.options.wants.drops {
            return;
        }
        if !self.engine.options.wants.drops_all
            && let Some(f) = flow.as_deref_mut()
            && !is_news(f, reason, view.direction)
        {
            return;
        }
        let flow = flow.as_deref();
        let h = view.headers;
        let meta = flow.map(|f| self.metadata(f));
        let alerts: Vec<(AlertSignature<'_>, bool)> = match &self.engine.detector {
            Some(d) => self
                .scratch
                .hits
                .iter()
                .filter(|_| !fate.skip_detection || d.firewall.is_some())
                .map(|hit| (hit, &d.set.signatures[hit.sig as usize]))
                .filter(|(hit, s)| hit.action.unwrap_or(s.action).drops())
                .map(|(hit, s)| {
                    let a = AlertSignature {
                        gid: s.gid,
                        sid: s.sid,
                        rev: s.rev,
                        msg: d.set.msg(s),
                        has_msg: s.msg.is_some(),
                        category: d.set.category(s),
                        severity: s.priority,
                        metadata_json: &[],
                        references_json: &[],
                        rule: "",
                        engine: engine_name(d, hit),
                    };
                    (a, true)
                })
                .collect(),
            None => Vec::new(),
        };
        sink.dropped(&DropRecord {
            header: header(view, flow, meta.as_ref().map(|m| m as &dyn WriteObject)),
            reason,
            ip: ip_facts(h),
            udp_len: match &h.transport {
                Transport::Udp(_) => u16::try_from(view.payload.len() + 8).ok(),
                _ => None,
            },
            // The peer writes both as they lie in the packet.
            icmp: h.transport.icmp().map(|i| (i.id.swap_bytes(), i.seq.swap_bytes())),
            direction: flow.and(view.direction),
            is_firewalled: fate.is_firewalled,
            alerts: &alerts,
            verdict: Some(verdict(fate, view)),
        });
    }

    /// A flow that ended.
    pub(crate) fn log_flow(
        &self,
        flow: &Flow<NetFlow>,
        reason: EndReason,
        now_ns: u64,
        sink: &mut dyn NetSink,
    ) {
        if !self.engine.options.wants.flows || flow.ext.flags.no_flow_log {
            return;
        }
        if !self.outputs.is_empty() {
            self.script_flow(flow);
        }
        let meta = MetadataObject {
            set: self.engine.detector.as_ref().map(|d| &d.set),
            vars: &flow.ext.vars,
            packet: &[],
        };
        let vlans: usize = flow.vlan.iter().filter(|v| **v != 0).count();
        let tcp = (flow.proto == 6).then(|| match &flow.tcp {
            Some(t) => FlowTcp {
                flags: t.tcp_flags(),
                flags_by_direction: [
                    t.stream(Direction::ToServer).tcp_flags(),
                    t.stream(Direction::ToClient).tcp_flags(),
                ],
                state: t.state().name(),
                has_gap: [
                    t.stream(Direction::ToServer).gaps().0 > 0,
                    t.stream(Direction::ToClient).gaps().0 > 0,
                ],
                // The peer counts from one, data or not.
                regions_max: [
                    u32::from(t.stream(Direction::ToServer).max_regions()).max(1),
                    u32::from(t.stream(Direction::ToClient).max_regions()).max(1),
                ],
            },
            None => FlowTcp {
                flags: 0,
                flags_by_direction: [0; 2],
                state: "none",
                has_gap: [false; 2],
                regions_max: [0; 2],
            },
        });
        let no_macs: &[[u8; 6]] = &[];
        let macs = match &flow.ext.macs {
            Some(m) => (m[0].as_slice(), m[1].as_slice()),
            None => (no_macs, no_macs),
        };
        let flags = &flow.ext.flags;
        sink.flow(&FlowRecord {
            header: Header {
                ts_ns: now_ns,
                flow_id: Some(flow.id),
                parent_id: flow.parent_id,
                in_iface: None,
                pcap_cnt: None,
                vlan: &flow.vlan[..vlans],
                ip_version: flow.ip_version,
                src: flow.client.addr,
                dst: flow.server.addr,
                ports: matches!(flow.proto, 6 | 17 | 132)
                    .then_some((flow.client.port, flow.server.port)),
                ip_proto: flow.proto,
                icmp: flow.icmp_request.map(|k| (k.icmp_type, k.code)),
                spi: flow.spi(),
                pkt_src: "",
                metadata: Some(&meta),
                ether: None,
            },
            app_proto: app_names(&self.engine.catalog, &flow.ext.app),
            summary: summary(flow),
            end_ns: flow.last_ns,
            state: flow.state.name(),
            reason: reason.name(),
            is_alerted: flags.alerted,
            is_alert_asked: flags.alert_asked && !flags.alerted,
            action: if flags.dropped && self.engine.options.inline {
                Some("drop")
            } else if flags.accepted {
                Some("accept")
            } else if flags.passed {
                Some("pass")
            } else {
                None
            },
            tx_count: flow.ext.app.tx_count(),
            exception_policies: &flow.ext.exceptions,
            tcp,
            icmp_response: flow.icmp_response.map(|k| (k.icmp_type, k.code)),
            ttl: [
                (flow.seen[0].min_ttl, flow.seen[0].max_ttl),
                (flow.seen[1].min_ttl, flow.seen[1].max_ttl),
            ],
            macs,
        });
    }

    /// An ARP packet.
    pub(crate) fn log_arp(&self, view: &PacketView<'_>, sink: &mut dyn NetSink) {
        if !self.engine.options.wants.arp {
            return;
        }
        if let Some(arp) = Arp::of(view.headers, view.frame) {
            let mut h = header(view, None, None);
            h.ether = None;
            sink.arp(&h, &ArpObject(arp));
        }
    }
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

/// Whether a dropped packet of a flow is written when not all are (`flows: start`): what a rule
/// dropped is, of a flow that is dropped as a whole the first packet of each direction, else none.
fn is_news(flow: &mut Flow<NetFlow>, reason: &str, direction: Option<Direction>) -> bool {
    let flags = &mut flow.ext.flags;
    let mut is_first = false;
    if flags.dropped {
        let told = &mut flags.drop_told[direction.unwrap_or(Direction::ToServer).index()];
        is_first = !std::mem::replace(told, true);
    }
    is_first || reason == "rules"
}

/// Ids of a packet's transactions, mostly few.
type TxIds = SmallVec<[u64; 16]>;

/// What all records of a flow's transactions with one packet have in common.
struct Told<'a> {
    view: &'a PacketView<'a>,
    flow: &'a Flow<NetFlow>,
    protocol: Option<&'static Protocol>,
    names: AppProtoNames,
    /// The common part by who sends, once it was wanted.
    heads: [Option<Header<'a>>; 2],
    meta: &'a MetadataObject<'a>,
    /// Bytes of the flow's packets so far.
    sent: u64,
}

/// Writes the records of a transaction.
fn log_transaction(told: &mut Told<'_>, tx: &dyn Transaction, sink: &mut dyn NetSink) {
    let Some(p) = told.protocol else { return };
    let event_type = tx.event_type().unwrap_or(p.event_type);
    let how = LogOptions { config: sink.type_config(event_type), in_alert: false, part: 0 };
    let (parts, from) = (tx.log_parts(how), tx.log_direction(how));
    let head = told.heads[from.index()].get_or_insert_with(|| Header {
        metadata: Some(told.meta),
        ..flow_header(told.view, told.flow, from)
    });
    for part in 0..parts {
        let object = TxPart { tx, part };
        sink.app(&AppRecord {
            header: *head,
            event_type,
            tx_id: tx.id(),
            tx_id_on_top: p.tx_id_on_top,
            object: &object,
            app_proto: told.names,
        });
    }
}

/// A file of the list is not logged.
fn has_open_record(list: &FileList) -> bool {
    list.files.iter().any(|f| !f.is_logged)
}

fn has_files_to_log(tx: &dyn Transaction) -> bool {
    Direction::BOTH.iter().any(|d| tx.files(*d).is_some_and(has_open_record))
}

struct ArpObject(Arp);

impl WriteObject for ArpObject {
    fn write(&self, j: &mut Json, _config: Option<&Tree>, _in_alert: bool) -> bool {
        let a = &self.0;
        let mac = |m: &[u8; 6]| m.iter().map(|b| format!("{b:02x}")).collect::<Vec<_>>().join(":");
        j.field_plain("hw_type", "ethernet");
        j.field_plain("proto_type", "ipv4");
        match a.operation {
            1 => j.field_plain("opcode", "request"),
            2 => j.field_plain("opcode", "reply"),
            n => j.number("opcode", n),
        }
        j.field_plain("src_mac", &mac(&a.sender_mac));
        j.field_plain("src_ip", &Addr::v4(a.sender_ip).text(4));
        j.field_plain("dest_mac", &mac(&a.target_mac));
        j.field_plain("dest_ip", &Addr::v4(a.target_ip).text(4));
        true
    }
}
