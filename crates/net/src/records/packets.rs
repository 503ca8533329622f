//! Records of packets: irregularities, drops, ARP, and the input of packet logs.

use super::RecordStage;
use super::header::{app_names, header, ip_facts, metadata, signature_members, verdict};
use crate::alert::named_transaction;
use crate::context::PacketContext;
use crate::flow_state::NetFlow;
use gabion_flow::Flow;
use gabion_packet::{Arp, TransportHeader};
use gabion_record::eve::*;
use gabion_record::json::Json;
use gabion_record::logs::{self, Body, Mac};
use gabion_record::{Addr, Direction, DropReason, Ip, TakeReport, Tree, TxReport};

impl RecordStage {
    /// Irregularities of the packet.
    #[inline]
    pub(crate) fn anomalies(&self, cx: &mut PacketContext<'_>) {
        let view = cx.view;
        let any = !view.headers.events.is_empty()
            || !view.stream_events.is_empty()
            || !view.detection_events.is_empty();
        if any {
            self.log_anomalies(cx);
        }
    }

    fn log_anomalies(&self, cx: &mut PacketContext<'_>) {
        let w = &cx.engine.options.wants;
        let (view, flow) = (cx.view, cx.flow.as_deref());
        let h = view.headers;
        let any = (w.anomaly_decode && !h.events.is_empty())
            || (w.anomaly_stream && !view.stream_events.is_empty())
            || (w.anomaly_app && !view.detection_events.is_empty());
        if !any {
            return;
        }
        let meta = flow.map(|f| metadata(cx.engine, f, &cx.findings.packet_variables));
        let head = header(view, flow, meta.as_ref().map(|m| m as &dyn WriteObject));

        let mut emit = |kind, event: &str, app_proto| {
            cx.sink.anomaly(&AnomalyRecord {
                header: head,
                kind,
                event,
                app_proto,
                tx_id: None,
                packet: h.bytes(view.frame),
                link: view.link,
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
            // A search without result is no protocol here, as it is in records of flows.
            let known = flow.filter(|f| f.ext.app.proto.is_known());
            let app = known.and_then(|f| app_names(&cx.engine.catalog, &f.ext.app).app_proto);
            for e in view.detection_events {
                emit(AnomalyKind::Detection, e.name(), app);
            }
        }
    }

    /// Notes what packet logs need about the frame: an inner packet's flow represents it.
    pub(crate) fn note_wire(&mut self, cx: &PacketContext<'_>) {
        let (w, view, flow, outcome) = (&mut self.wire, cx.view, cx.flow.as_deref(), &*cx.outcome);
        if let Some(f) = flow
            && w.flow.is_none()
        {
            w.flow = Some(f.id);
            w.flow_packets = f.seen[0].pkts + f.seen[1].pkts;
            let d = view.direction.unwrap_or(Direction::ToServer);
            let stream = f.tcp.as_ref().map(|t| t.stream(d));
            w.is_beyond_depth = stream.is_some_and(|s| s.is_depth_reached());
            w.has_segment = stream.is_some() && !view.payload.is_empty();
        }
        w.has_alert |= outcome.has_alert;
        w.is_tagged = outcome.is_tagged.unwrap_or(w.is_tagged);
        w.flow_has_alert |= flow.is_some_and(|f| f.ext.flags.alerted);
        w.is_passed |= outcome.passed || flow.is_some_and(|f| f.ext.flags.passed);
    }

    /// A dropped or rejected packet.
    pub(crate) fn log_drop(&self, cx: &mut PacketContext<'_>) {
        let (engine, view, outcome) = (cx.engine, cx.view, &*cx.outcome);
        let counters = &mut cx.account.counters;
        if view.is_pseudo {
            return;
        }
        if let Some(reason) = outcome.drop {
            counters.count_drop(reason);
        }
        if outcome.reject.is_some() {
            if outcome.drop.is_some_and(DropReason::is_of_firewall) {
                counters.firewall_rejected += 1
            } else {
                counters.ips_rejected += 1
            }
        }
        let Some(reason) = outcome.drop else { return };
        if !engine.options.wants.drops {
            return;
        }
        if !engine.options.wants.drops_all
            && let Some(f) = cx.flow.as_deref_mut()
            && !is_news(f, reason, view.direction)
        {
            return;
        }
        let flow = cx.flow.as_deref();
        let h = view.headers;
        let meta = flow.map(|f| metadata(engine, f, &cx.findings.packet_variables));
        let mut tx = None;
        let mut alerts: Vec<(AlertSignature<'_>, bool)> = Vec::new();
        if let Some(d) =
            engine.detector.as_ref().filter(|d| !outcome.skip_detection || d.firewall.is_some())
        {
            for hit in &cx.findings.hits {
                let s = &d.set.signatures[hit.sig as usize];
                if !hit.action.unwrap_or(s.action).drops() {
                    continue;
                }
                if alerts.is_empty() {
                    tx = named_transaction(s, hit, view, flow);
                }
                alerts.push((signature_members(d, s, hit), true));
            }
        }
        cx.sink.dropped(&DropRecord {
            header: header(view, flow, meta.as_ref().map(|m| m as &dyn WriteObject)),
            reason,
            ip: ip_facts(h),
            udp_len: if let TransportHeader::Udp(_) = &h.transport {
                u16::try_from(view.payload.len() + 8).ok()
            } else {
                None
            },
            // Suricata writes both in the byte order of the packet.
            icmp: h.transport.icmp().map(|i| (i.id.swap_bytes(), i.seq.swap_bytes())),
            direction: flow.and(view.direction),
            is_firewalled: outcome.is_firewalled,
            alerts: &alerts,
            tx,
            verdict: Some(verdict(outcome, view)),
        });
    }

    /// An ARP packet.
    pub(crate) fn log_arp(&self, cx: &mut PacketContext<'_>) {
        let view = cx.view;
        if !cx.engine.options.wants.arp {
            return;
        }
        if let Some(arp) = Arp::parse(view.headers, view.frame) {
            let mut h = header(view, None, None);
            h.ether = None;
            cx.sink.arp(&h, &ArpObject(arp));
        }
    }
}

/// Whether a dropped packet of a flow is written if not all are (`flows: start`). A packet that a rule
/// dropped is written; of a flow that is dropped as a whole, the first packet of each direction is
/// written; no other packet is.
fn is_news(flow: &mut Flow<NetFlow>, reason: DropReason, direction: Option<Direction>) -> bool {
    let flags = &mut flow.ext.flags;
    let mut is_first = false;
    if flags.dropped {
        let side = &mut flags.sides[direction.unwrap_or(Direction::ToServer).index()];
        is_first = !std::mem::replace(&mut side.is_drop_logged, true);
    }
    is_first || reason == DropReason::Rules
}

struct ArpObject(Arp);

impl WriteObject for ArpObject {
    fn write(&self, j: &mut Json, _config: Option<&Tree>, _in_alert: bool) -> bool {
        let a = &self.0;
        let mac = |m: &[u8; 6]| gabion_record::hex::to_hex_pairs(m, ':');
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

    fn report(&self, to: TakeReport<'_>) {
        let a = &self.0;
        let mut number = itoa::Buffer::new();
        let operation = match a.operation {
            1 => "request",
            2 => "reply",
            n => number.format(n),
        };
        let (sender, target) = (Some(Mac(a.sender_mac)), Some(Mac(a.target_mac)));
        let arp = logs::Arp {
            operation: operation.as_bytes(),
            src_mac: sender,
            dst_mac: None,
            src_hw: sender,
            dst_hw: target,
        };
        let ip = |bytes| Ip::v4(u32::from_be_bytes(bytes));
        let ends = Some((ip(a.sender_ip), ip(a.target_ip)));
        to(&TxReport { ends, ..TxReport::from_body(Body::Arp(arp)) });
    }
}
