//! TCP packets with the state of the session after each: records of EVE's `stream` type.

use super::RecordStage;
use super::header::{header, ip_facts, metadata};
use crate::app::AppLayer;
use crate::context::PacketContext;
use crate::detect::Detector;
use crate::tcp_segment::tcp_segment;
use gabion_flow::{StreamEvent, TcpSession, TcpState};
use gabion_packet::TransportHeader;
use gabion_record::eve::*;
use gabion_record::json::Json;
use gabion_record::{Direction, Tree};

/// No rule looks at the side's stream any more, or none ever did.
const NO_RAW: &str = "disable_raw";

/// `seq` lies after `than` (RFC 793 3.3: modulo 2^32).
fn is_behind(seq: u32, than: u32) -> bool {
    (seq.wrapping_sub(than) as i32) > 0
}

impl RecordStage {
    /// The record of a TCP packet of a flow.
    pub(crate) fn log_stream(&self, cx: &mut PacketContext<'_>) {
        let (view, verdict) = (cx.view, cx.tcp);
        let Some(flow) = cx.flow.as_deref() else { return };
        let (h, Some(direction)) = (view.headers, view.direction) else { return };
        if !matches!(h.transport, TransportHeader::Tcp(_)) {
            return;
        }
        let session = flow.tcp.as_deref();
        let mut ip = ip_facts(h);
        if let (true, Some(tcp), Some(s)) = (view.is_pseudo, &mut ip.tcp, session) {
            // Suricata makes these pseudo packets from the session, and acknowledges nothing with them.
            (ip.len, ip.ttl, tcp.window) = (40, 64, 2560);
            tcp.seq = s.side_facts(direction).next_seq;
            (tcp.ack, tcp.flags) = (0, 0);
        }
        let events: Vec<String> = h
            .events
            .as_slice()
            .iter()
            .map(|e| format!("decoder.{}", e.name()))
            .chain(view.stream_events.iter().map(|e| format!("stream.{}", e.name())))
            .collect();
        let is_updated = verdict.is_some_and(|v| v.is_state_changed);
        let looks = |d: Direction| {
            let asked = |det: &Detector| det.stream_ports[d.index()].holds(flow.server.port);
            cx.engine.detector.as_ref().is_some_and(asked)
        };
        let rules_look = Direction::BOTH.map(looks);
        let object = SessionObject { session, is_updated, app: &flow.ext.app, rules_look };
        let meta = metadata(cx.engine, flow, &cx.findings.packet_variables);
        cx.sink.stream(&StreamRecord {
            header: header(view, Some(flow), Some(&meta)),
            direction,
            ip,
            notes: notes(cx, session, !events.is_empty()),
            session: &object,
            events: &events,
        });
    }
}

/// What the record notes about a packet.
fn notes(cx: &PacketContext<'_>, session: Option<&TcpSession>, has_events: bool) -> u16 {
    let view = cx.view;
    let has = |e: StreamEvent| view.stream_events.contains(&e);
    let mut noted = vec![
        (has_events, "event_set"),
        (has(StreamEvent::PktRetransmission), "retransmission"),
        (has(StreamEvent::PktSpuriousRetransmission), "spurious_retransmission"),
        (cx.outcome.reuses_ports, "tcp_session_reuse"),
    ];
    if let (Some(v), TransportHeader::Tcp(t)) = (cx.tcp, &view.headers.transport) {
        let sack = tcp_segment(view, false).map_or(&[][..], |s| s.options.sack);
        let is_dsack = sack.get(4..8).is_some_and(|right| {
            let right = u32::from_be_bytes([right[0], right[1], right[2], right[3]]);
            !is_behind(right, t.ack)
        });
        let unseen = session.filter(|s| s.state() >= TcpState::Established).is_some_and(|s| {
            let d = view.direction.unwrap_or(Direction::ToServer).opposite();
            t.flags & 0x10 != 0 && is_behind(t.ack, s.side_facts(d).next_seq.wrapping_add(1))
        });
        noted.extend([
            (v.is_state_changed, "state_update"),
            (is_dsack, "dsack"),
            (v.is_keepalive, "keepalive"),
            (v.is_window_update, "window_update"),
            (v.is_dup_ack, "dup_ack"),
            (unseen, "ack_unseen_data"),
        ]);
    }
    noted.iter().filter(|(on, _)| *on).fold(0, |all, (_, name)| all | packet_note(name))
}

/// Members of `session`.
struct SessionObject<'a> {
    session: Option<&'a TcpSession>,
    is_updated: bool,
    app: &'a AppLayer,
    /// By direction: some rule looks at its stream.
    rules_look: [bool; 2],
}

impl WriteObject for SessionObject<'_> {
    fn write(&self, j: &mut Json, _config: Option<&Tree>, _in_alert: bool) -> bool {
        let Some(s) = self.session else { return false };
        j.field_plain("state", s.state().name());
        if self.is_updated {
            j.field_plain("pstate", s.previous_state().name());
        }
        j.open_key("flags");
        names(j, s.mark_names().iter());
        j.close();
        for d in Direction::BOTH {
            j.open_key(if d == Direction::ToServer { "client" } else { "server" });
            self.side(j, s, d);
            j.close();
        }
        true
    }
}

impl SessionObject<'_> {
    fn side(&self, j: &mut Json, s: &TcpSession, d: Direction) {
        let f = s.side_facts(d);
        j.number("isn", f.isn);
        j.number("next_seq", f.next_seq);
        j.number("last_ack", f.last_ack);
        j.number("next_win", f.next_win);
        if let Some((base, edge)) = f.kept {
            j.number("base_seq", base);
            j.number("segs_right_edge", edge);
        }
        j.number("window", f.window);
        j.number("wscale", f.wscale);
        let [before, behind] = &f.marks;
        // Suricata notes timestamps of the client only.
        let before = before.iter().filter(|n| d == Direction::ToServer || **n != "timestamp");
        let detected = self.app.is_detected(d).then_some(&"appproto_detection_completed");
        let is_idle = !self.rules_look[d.index()] && s.stream(d).tcp_flags() != 0;
        let unlooked = (is_idle && !behind.contains(&NO_RAW)).then_some(&NO_RAW);
        names(j, before.chain(detected).chain(behind).chain(unlooked));
        j.number("seg_cnt", f.segments);
        j.number("sb_region_size", f.region);
    }
}

fn names<'n>(j: &mut Json, list: impl Iterator<Item = &'n &'static str>) {
    j.open_array_key("flags");
    for name in list {
        j.item(name);
    }
    j.close_array();
}
