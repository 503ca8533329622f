//! `suricata.flow`: the flow at hand.

use super::{Library, member};
use crate::flow_state::NetFlow;
use crate::script::call::{Answer, Call, Held, Member};
use gabion_flow::Flow;
use gabion_record::Direction;
use gabion_record::IpProto;
use gabion_record::applayer::ProtoId;

pub(super) const LIBRARY: Library = Library {
    name: "flow",
    class: "suricata:flow",
    functions: &[member("get", get)],
    methods: METHODS,
};

const METHODS: &[Member] = &[
    member("id", |c| with(c, |c, f| c.give(f.id as i64))),
    member("app_layer_proto", app_layer_proto),
    member("has_alerts", |c| with(c, |c, f| c.give(f.ext.flags.alerted))),
    member("stats", stats),
    member("timestamps", timestamps),
    member("timestring_iso8601", |c| with(c, |c, f| c.give((c.setup.stamp)(f.start_ns, true)))),
    member("timestring_legacy", |c| with(c, |c, f| c.give((c.setup.stamp)(f.start_ns, false)))),
    member("tuple", tuple),
];

fn get(c: &mut Call<'_, '_>) -> Answer {
    match c.scene.flow() {
        Some(_) => c.give(c.object(Held::Nothing)?),
        None => c.nil("failed to get flow"),
    }
}

fn with(c: &mut Call<'_, '_>, f: impl FnOnce(&Call<'_, '_>, &Flow<NetFlow>) -> Answer) -> Answer {
    match c.scene.flow() {
        Some(flow) => f(c, flow),
        None => c.nil("failed to get flow"),
    }
}

fn app_layer_proto(c: &mut Call<'_, '_>) -> Answer {
    with(c, |c, f| {
        let app = &f.ext.app;
        let name = |p: ProtoId| match (c.scene.catalog, p) {
            (_, ProtoId::UNKNOWN) | (None, _) => "unknown",
            (Some(catalog), p) => catalog.eve_name(p),
        };
        c.give((
            name(app.proto),
            name(app.proto_in(Direction::ToServer)),
            name(app.proto_in(Direction::ToClient)),
            name(app.original),
            name(app.expected),
        ))
    })
}

fn stats(c: &mut Call<'_, '_>) -> Answer {
    with(c, |c, f| {
        let n = |v: u64| i64::try_from(v).unwrap_or(i64::MAX);
        let [to_server, to_client] = [&f.seen[0], &f.seen[1]];
        c.give((n(to_server.pkts), n(to_server.bytes), n(to_client.pkts), n(to_client.bytes)))
    })
}

/// Seconds and microseconds of an event time, as numbers of Lua's floating kind.
pub(super) fn seconds(ts_ns: u64) -> (f64, f64) {
    ((ts_ns / 1_000_000_000) as f64, (ts_ns / 1_000 % 1_000_000) as f64)
}

fn timestamps(c: &mut Call<'_, '_>) -> Answer {
    with(c, |c, f| {
        let ((start_s, start_us), (last_s, last_us)) = (seconds(f.start_ns), seconds(f.last_ns));
        c.give((start_s, last_s, start_us, last_us))
    })
}

fn tuple(c: &mut Call<'_, '_>) -> Answer {
    with(c, |c, f| {
        let v = f.ip_version;
        let (sp, dp) = match (f.proto, &f.icmp_request) {
            (IpProto::ICMP | IpProto::ICMPV6, Some(k)) => {
                (u16::from(k.icmp_type), u16::from(k.code))
            }
            _ => (f.client.port, f.server.port),
        };
        let (src, dst) = (f.client.addr.text(v), f.server.addr.text(v));
        c.give((v, src, dst, f.proto.0, sp, dp))
    })
}
