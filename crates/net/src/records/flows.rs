//! Records of flows that have ended.

use super::RecordStage;
use super::header::{app_names, metadata, summary};
use crate::engine::Engine;
use crate::flow_state::NetFlow;
use gabion_flow::{EndReason, Flow, TcpState};
use gabion_record::eve::*;
use gabion_record::flow_state::FlowAction;
use gabion_record::{Direction, IpProto};

impl RecordStage {
    /// A flow that ended.
    pub(crate) fn log_flow(
        &self,
        engine: &Engine,
        flow: &Flow<NetFlow>,
        (reason, now_ns): (EndReason, u64),
        sink: &mut dyn NetSink,
    ) {
        if !engine.options.wants.flows || flow.ext.flags.no_flow_log {
            return;
        }
        if !self.outputs.is_empty() {
            self.script_flow(engine, flow);
        }
        let meta = metadata(engine, flow, &[]);
        let (vlans, vlan_count) = flow.vlan_ids();
        let tcp = (flow.proto == IpProto::TCP).then(|| match &flow.tcp {
            Some(t) => FlowTcp {
                flags: t.tcp_flags(),
                flags_by_direction: [
                    t.stream(Direction::ToServer).tcp_flags(),
                    t.stream(Direction::ToClient).tcp_flags(),
                ],
                state: t.state(),
                has_gap: [
                    t.stream(Direction::ToServer).gaps().0 > 0,
                    t.stream(Direction::ToClient).gaps().0 > 0,
                ],
                // Suricata counts from one, with or without data.
                regions_max: [
                    u32::from(t.stream(Direction::ToServer).max_regions()).max(1),
                    u32::from(t.stream(Direction::ToClient).max_regions()).max(1),
                ],
            },
            None => FlowTcp {
                flags: 0,
                flags_by_direction: [0; 2],
                state: TcpState::None,
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
                pcap_cnt: None,
                device: flow.device,
                vlan: vlans.get(..vlan_count).unwrap_or(&[]),
                ip_version: flow.ip_version,
                src: flow.client.addr,
                dst: flow.server.addr,
                ports: flow.proto.has_ports().then_some((flow.client.port, flow.server.port)),
                ip_proto: flow.proto,
                icmp: flow.icmp_request.map(|k| (k.icmp_type, k.code)),
                spi: flow.spi(),
                pkt_src: None,
                metadata: Some(&meta),
                ether: None,
            },
            app_proto: app_names(&engine.catalog, &flow.ext.app),
            summary: summary(flow),
            end_ns: flow.last_ns,
            state: flow.state,
            reason,
            is_alerted: flags.alerted,
            is_alert_asked: flags.alert_asked && !flags.alerted,
            action: if flags.dropped && engine.options.inline || flags.refused {
                Some(FlowAction::Drop)
            } else if flags.accepted {
                Some(FlowAction::Accept)
            } else if flags.passed {
                Some(FlowAction::Pass)
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
}
