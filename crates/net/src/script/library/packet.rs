//! `suricata.packet`: the packet at hand.

use super::{Library, member};
use crate::script::call::{Answer, Call, Held, Member};
use crate::view::PacketView;
use gabion_record::IpProto;
use mlua::Value;

pub(super) const LIBRARY: Library = Library {
    name: "packet",
    class: "suricata:packet",
    functions: &[member("get", get)],
    methods: METHODS,
};

const METHODS: &[Member] = &[
    member("packet", |c| with(c, |c, p| c.text(Some(p.headers.bytes(p.frame))))),
    // Of a packet without one: an empty string (Suricata 8.0.7).
    member("payload", |c| with(c, |c, p| c.text(Some(p.payload)))),
    member("pcap_cnt", |c| with(c, |c, p| c.give(i64::try_from(p.frame_number).ok()))),
    member("sp", |c| port(c, "sp", |p| p.headers.sp)),
    member("dp", |c| port(c, "dp", |p| p.headers.dp)),
    member("timestamp", |c| with(c, |c, p| c.give(super::flow::seconds(p.ts_ns)))),
    member("timestring_iso8601", |c| with(c, |c, p| c.give((c.setup.stamp)(p.ts_ns, true)))),
    member("timestring_legacy", |c| with(c, |c, p| c.give((c.setup.stamp)(p.ts_ns, false)))),
    member("tuple", tuple),
];

fn get(c: &mut Call<'_, '_>) -> Answer {
    match c.scene.packet {
        Some(_) => c.give(c.object(Held::Nothing)?),
        None => c.nil("failed to get packet"),
    }
}

fn with(c: &mut Call<'_, '_>, f: impl FnOnce(&Call<'_, '_>, &PacketView<'_>) -> Answer) -> Answer {
    match c.scene.packet {
        Some(p) => f(c, p),
        None => c.nil("failed to get packet"),
    }
}

fn port(c: &mut Call<'_, '_>, name: &str, of: fn(&PacketView<'_>) -> u16) -> Answer {
    with(c, |c, p| match p.headers.proto {
        IpProto::TCP | IpProto::UDP | IpProto::SCTP => c.give(of(p)),
        _ => c.nil(&format!("{name} only available for tcp, udp and sctp")),
    })
}

/// IP version, addresses, protocol, ports (type and code of ICMP).
fn tuple(c: &mut Call<'_, '_>) -> Answer {
    with(c, |c, p| {
        let h = p.headers;
        let v = h.ip_version();
        if v == 0 {
            return c.nil("not ipv4 or ipv6");
        }
        let text = |a: gabion_record::Addr| c.lua.create_string(a.text(v)).map(Value::String);
        let (src, dst) = (text(h.src)?, text(h.dst)?);
        let icmp = h.transport.icmp().map(|i| (u16::from(i.kind), u16::from(i.code)));
        let (sp, dp) = icmp.unwrap_or((h.sp, h.dp));
        c.give((v, src, dst, h.proto.0, sp, dp))
    })
}
