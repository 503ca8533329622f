//! Keywords on the headers of a packet.

use super::ip_protocols::IP_PROTOCOLS;
use crate::compiler::Compiler;
use crate::diagnostic::{Checked, Refusal};
use crate::draft::Draft;
use crate::events;
use crate::integer::IntegerMatch;
use crate::keyword::{Setup, Value};
use crate::limits::COUNTRIES_PER_RULE_MAX;
use crate::packet::{
    BitsOp, ChecksumOf, FragBitsTest, FragOffsetOp, GeoIpTest, IpOption, IpProtoOp, L3Proto,
    PacketCondition, ReputationSide, RpcTest, TcpFlagsTest, VlanLayer,
};
use gabion_record::applayer::IntegerWidth;

/// Keywords of this file.
pub(super) const KEYWORDS: &[(&str, Setup)] = &[
    ("tcp.flags", tcp_flags),
    ("tcp.seq", |_, d, v| tcp_number(d, v, "tcp.seq", PacketCondition::TcpSeq)),
    ("tcp.ack", |_, d, v| tcp_number(d, v, "tcp.ack", PacketCondition::TcpAck)),
    ("tcp.window", tcp_window),
    ("tcp.mss", |_, d, v| integer(d, v, "tcp.mss", IntegerWidth::U16, PacketCondition::TcpMss)),
    ("tcp.wscale", |_, d, v| {
        integer(d, v, "tcp.wscale", IntegerWidth::U8, PacketCondition::TcpWscale)
    }),
    ("ttl", |_, d, v| integer(d, v, "ttl", IntegerWidth::U8, PacketCondition::Ttl)),
    ("tos", tos),
    ("id", ip_id),
    ("ipopts", ipopts),
    ("fragbits", fragbits),
    ("fragoffset", fragoffset),
    ("sameip", |_, d, _| {
        d.push_packet("sameip", PacketCondition::SameIp);
        Ok(())
    }),
    ("ip_proto", ip_proto),
    ("l3_proto", l3_proto),
    ("itype", |_, d, v| integer(d, v, "itype", IntegerWidth::U8, PacketCondition::IcmpType)),
    ("icode", |_, d, v| integer(d, v, "icode", IntegerWidth::U8, PacketCondition::IcmpCode)),
    ("icmp_id", |_, d, v| icmp_number(d, v, "icmp_id", "detect-icmp-id", PacketCondition::IcmpId)),
    ("icmp_seq", |_, d, v| {
        icmp_number(d, v, "icmp_seq", "detect-icmp-seq", PacketCondition::IcmpSeq)
    }),
    ("icmpv6.mtu", |_, d, v| {
        integer(d, v, "icmpv6.mtu", IntegerWidth::U32, PacketCondition::Icmpv6Mtu)
    }),
    ("dsize", dsize),
    ("vlan.id", vlan_id),
    ("vlan.layers", vlan_layers),
    ("rpc", rpc),
    ("geoip", geoip),
    ("decode-event", decode_event),
    ("engine-event", engine_event),
    ("stream-event", stream_event),
    ("ipv4-csum", |_, d, v| checksum(d, v, "ipv4-csum", ChecksumOf::Ipv4)),
    ("tcpv4-csum", |_, d, v| checksum(d, v, "tcpv4-csum", ChecksumOf::TcpV4)),
    ("tcpv6-csum", |_, d, v| checksum(d, v, "tcpv6-csum", ChecksumOf::TcpV6)),
    ("udpv4-csum", |_, d, v| checksum(d, v, "udpv4-csum", ChecksumOf::UdpV4)),
    ("udpv6-csum", |_, d, v| checksum(d, v, "udpv6-csum", ChecksumOf::UdpV6)),
    ("icmpv4-csum", |_, d, v| checksum(d, v, "icmpv4-csum", ChecksumOf::IcmpV4)),
    ("icmpv6-csum", |_, d, v| checksum(d, v, "icmpv6-csum", ChecksumOf::IcmpV6)),
    // Suricata's model of a keyword looks at the time to live.
    ("template2", |_, d, v| integer(d, v, "template2", IntegerWidth::U8, PacketCondition::Ttl)),
];

/// A decimal number without a sign.
fn unsigned<T: std::str::FromStr>(text: &str) -> Option<T> {
    text.parse().ok().filter(|_| !text.starts_with('+'))
}

fn integer(
    d: &mut Draft<'_>,
    v: Value<'_>,
    keyword: &'static str,
    width: IntegerWidth,
    make: fn(IntegerMatch) -> PacketCondition,
) -> Checked<()> {
    let Some(test) = IntegerMatch::parse(v.text, width, &[]) else {
        return Err(Refusal::silent(format!(
            "`{keyword}` takes a number or a comparison that some value can meet"
        )));
    };
    d.push_packet(keyword, make(test));
    Ok(())
}

fn dsize(_: &mut Compiler<'_>, d: &mut Draft<'_>, v: Value<'_>) -> Checked<()> {
    const WHO: &str = "detect-dsize";
    if d.packet.iter().any(|p| p.keyword == "dsize") {
        let said = "Can't use 2 or more dsizes in the same sig.  Invalidating signature.";
        return Err(Refusal::new(WHO, said));
    }
    let Some(size) = IntegerMatch::parse(v.text, IntegerWidth::U16, &[]) else {
        return Err(Refusal::new(WHO, format!("Parsing '{}' failed", v.text)));
    };
    d.push_packet("dsize", PacketCondition::Dsize(size));
    Ok(())
}

fn tcp_number(
    d: &mut Draft<'_>,
    v: Value<'_>,
    keyword: &'static str,
    make: fn(u32) -> PacketCondition,
) -> Checked<()> {
    let Ok(n) = v.text.parse() else {
        return Err(Refusal::silent(format!("`{keyword}` takes a number")));
    };
    d.push_packet(keyword, make(n));
    Ok(())
}

fn tcp_window(_: &mut Compiler<'_>, d: &mut Draft<'_>, v: Value<'_>) -> Checked<()> {
    let (negated, text) = match v.text.strip_prefix('!') {
        Some(rest) => (true, rest.trim()),
        None => (false, v.text),
    };
    let Some(size) = unsigned(text) else {
        let said = format!("pcre_exec parse error, ret -1, string {}", v.text);
        return Err(Refusal::new("detect-tcp-window", said)
            .because("`tcp.window:N` or `tcp.window:!N`, N from 0 to 65535"));
    };
    d.push_packet("tcp.window", PacketCondition::TcpWindow { size, negated });
    Ok(())
}

fn tcp_flags(_: &mut Compiler<'_>, d: &mut Draft<'_>, v: Value<'_>) -> Checked<()> {
    const WHO: &str = "detect-tcp-flags";
    let bad = || Refusal::new(WHO, "pcre match failed");
    let (flags, ignored) = match v.text.split_once(',') {
        Some((_, ignored)) if ignored.trim().is_empty() => return Err(bad()),
        Some((flags, ignored)) => (flags.trim(), ignored.trim()),
        None => (v.text, ""),
    };
    let mut op = BitsOp::Exactly;
    let mut bits = 0;
    for c in flags.chars() {
        match c {
            '+' => op = BitsOp::AtLeast,
            '*' => op = BitsOp::AnyOf,
            '!' => op = BitsOp::NotThese,
            c => bits |= tcp_flag(c).ok_or_else(bad)?,
        }
    }
    if !flags.bytes().any(|b| b.is_ascii_alphanumeric()) {
        return Err(Refusal::silent("`tcp.flags` names no flag"));
    }
    let mut mask = 0;
    for c in ignored.chars() {
        mask |= tcp_flag(c).ok_or_else(bad)?;
    }
    d.push_packet(
        "tcp.flags",
        PacketCondition::TcpFlags(TcpFlagsTest { flags: bits, op, ignored: mask }),
    );
    Ok(())
}

/// Bit of a TCP flag letter; `0` is no flag at all.
fn tcp_flag(c: char) -> Option<u8> {
    Some(match c {
        'F' => 0x01,
        'S' => 0x02,
        'R' => 0x04,
        'P' => 0x08,
        'A' => 0x10,
        'U' => 0x20,
        'E' | '2' => 0x40,
        'C' | '1' => 0x80,
        '0' => 0,
        _ => return None,
    })
}

fn tos(_: &mut Compiler<'_>, d: &mut Draft<'_>, v: Value<'_>) -> Checked<()> {
    let (negated, text) = match v.text.strip_prefix('!') {
        Some(rest) => (true, rest.trim()),
        None => (v.negated, v.text),
    };
    let value = match text.strip_prefix(['x', 'X']) {
        Some(hex) => u8::from_str_radix(hex, 16).ok(),
        None => unsigned(text),
    };
    let Some(value) = value else {
        let said = format!(
            "invalid tos option - {}. The tos option value must be in the range 0 - 255",
            v.text
        );
        return Err(Refusal::new("detect-tos", said));
    };
    d.push_packet("tos", PacketCondition::Tos { value, negated });
    Ok(())
}

fn ip_id(_: &mut Compiler<'_>, d: &mut Draft<'_>, v: Value<'_>) -> Checked<()> {
    let text = v.text.trim_matches('"');
    let Some(id) = unsigned(text) else {
        let said = format!(
            "invalid id option '{}'. The id option value must be in the range 0 - 65536",
            v.text
        );
        return Err(Refusal::new("detect-id", said));
    };
    d.push_packet("id", PacketCondition::IpId(id));
    Ok(())
}

fn ipopts(_: &mut Compiler<'_>, d: &mut Draft<'_>, v: Value<'_>) -> Checked<()> {
    let Some((option, _)) = IpOption::ALL.iter().find(|(_, n)| n.eq_ignore_ascii_case(v.text))
    else {
        let said = format!("unknown IP option specified \"{}\"", v.text);
        return Err(Refusal::new("detect-ipopts", said));
    };
    d.push_packet("ipopts", PacketCondition::IpOption(*option));
    Ok(())
}

fn fragbits(_: &mut Compiler<'_>, d: &mut Draft<'_>, v: Value<'_>) -> Checked<()> {
    let bad = || {
        let said = format!("pcre_exec parse error, ret -1, string {}", v.text);
        Refusal::new("detect-fragbits", said).because(
            "`fragbits:` and letters of M, D, R, before them + (at least), * (any) or ! (none)",
        )
    };
    let mut test = FragBitsTest { bits: 0, op: BitsOp::Exactly };
    for c in v.text.chars() {
        match c {
            '+' => test.op = BitsOp::AtLeast,
            '*' => test.op = BitsOp::AnyOf,
            '!' => test.op = BitsOp::NotThese,
            'M' => test.bits |= 1,
            'D' => test.bits |= 2,
            'R' => test.bits |= 4,
            c if c.is_whitespace() => {}
            _ => return Err(bad()),
        }
    }
    if test.bits == 0 {
        return Err(bad());
    }
    d.push_packet("fragbits", PacketCondition::FragBits(test));
    Ok(())
}

fn fragoffset(_: &mut Compiler<'_>, d: &mut Draft<'_>, v: Value<'_>) -> Checked<()> {
    let text = v.text.trim();
    let (op, rest) = match (text.strip_prefix('<'), text.strip_prefix('>')) {
        (Some(rest), _) => (FragOffsetOp::Less, rest),
        (_, Some(rest)) => (FragOffsetOp::Greater, rest),
        _ => (FragOffsetOp::Equal, text),
    };
    let Some(value) = unsigned(rest.trim()) else {
        return Err(Refusal::new("detect-fragoffset", format!("Parse error {}", v.text))
            .because("`fragoffset:N`, `fragoffset:<N` or `fragoffset:>N`, N from 0 to 65535"));
    };
    d.push_packet("fragoffset", PacketCondition::FragOffset { op, value });
    Ok(())
}

fn ip_proto(_: &mut Compiler<'_>, d: &mut Draft<'_>, v: Value<'_>) -> Checked<()> {
    const WHO: &str = "detect-ipproto";
    let text = v.text.trim();
    let (op, rest) = match text.chars().next() {
        Some('!') => (IpProtoOp::Differs, &text[1..]),
        Some('<') => (IpProtoOp::Less, &text[1..]),
        Some('>') => (IpProtoOp::Greater, &text[1..]),
        _ => (IpProtoOp::Equal, text),
    };
    let rest = rest.trim();
    let proto = if rest.starts_with(|c: char| c.is_ascii_digit()) {
        rest.parse::<u8>()
            .map_err(|_| Refusal::new(WHO, format!("Malformed protocol number: {rest}")))?
    } else {
        let upper = |name: &str| name.to_ascii_uppercase();
        let found = IP_PROTOCOLS.iter().find(|(n, _)| *n == rest || upper(n) == rest);
        match found {
            Some((_, proto)) => *proto,
            None => {
                return Err(Refusal::new(WHO, format!("Unknown protocol name: \"{rest}\"")));
            }
        }
    };
    check_ip_proto(d, op, proto)?;
    d.push_packet("ip_proto", PacketCondition::IpProto { op, proto });
    Ok(())
}

/// Combinations that can't hold or say nothing, which Suricata refuses.
fn check_ip_proto(d: &Draft<'_>, op: IpProtoOp, proto: u8) -> Checked<()> {
    const WHO: &str = "detect-ipproto";
    let others: Vec<(IpProtoOp, u8)> = d
        .packet
        .iter()
        .filter_map(|p| {
            let PacketCondition::IpProto { op, proto } = p.condition else { return None };
            Some((op, proto))
        })
        .collect();
    let refuse = |said: &str| Err(Refusal::new(WHO, said));
    match op {
        IpProtoOp::Equal if !others.is_empty() => {
            refuse("can't use a eq ipproto without any operators attached to them in the same sig")
        }
        _ if others.iter().any(|(o, _)| *o == IpProtoOp::Equal) => {
            refuse("can't use a eq ipproto along with other ipproto keywords in the same sig")
        }
        IpProtoOp::Less if proto == 0 => refuse("can't have < 0"),
        IpProtoOp::Greater if proto == u8::MAX => refuse("can't have > 255"),
        IpProtoOp::Greater if others.iter().any(|(o, _)| *o == IpProtoOp::Greater) => {
            refuse("can't use a eq or gt ipproto along with a greater than ipproto in the same sig")
        }
        IpProtoOp::Less if others.iter().any(|(o, _)| *o == IpProtoOp::Less) => {
            refuse("can't use a eq or lt ipproto along with a less than ipproto in the same sig")
        }
        IpProtoOp::Equal | IpProtoOp::Differs | IpProtoOp::Less | IpProtoOp::Greater => Ok(()),
    }
}

fn l3_proto(_: &mut Compiler<'_>, d: &mut Draft<'_>, v: Value<'_>) -> Checked<()> {
    let proto = match v.text.to_ascii_lowercase().as_str() {
        "ip4" | "ipv4" => L3Proto::Ipv4,
        "ip6" | "ipv6" => L3Proto::Ipv6,
        "ip" => L3Proto::Ip,
        _ => {
            let said = format!("Invalid l3 proto: \"{}\"", v.text);
            return Err(Refusal::new("detect-l3proto", said));
        }
    };
    d.push_packet("l3_proto", PacketCondition::L3Proto(proto));
    Ok(())
}

fn icmp_number(
    d: &mut Draft<'_>,
    v: Value<'_>,
    keyword: &'static str,
    who: &'static str,
    make: fn(u16) -> PacketCondition,
) -> Checked<()> {
    let Some(n) = unsigned(v.text.trim()) else {
        return Err(Refusal::new(who, format!("Parse error {}", v.text)));
    };
    d.push_packet(keyword, make(n));
    Ok(())
}

fn vlan_id(_: &mut Compiler<'_>, d: &mut Draft<'_>, v: Value<'_>) -> Checked<()> {
    let bad = || Refusal::new("detect-vlan", format!("vlan id invalid {}", v.text));
    let (id, layer) = match v.text.split_once(',') {
        // Blanks may stand before the comma, and nowhere else.
        Some((id, layer)) => (id.trim(), layer),
        None => (v.text, "any"),
    };
    let layer = match layer {
        "any" => VlanLayer::Any,
        "all" => VlanLayer::All,
        n => {
            let n = n.parse::<i8>().ok().filter(|n| (-3..=2).contains(n));
            VlanLayer::At(n.ok_or_else(bad)?)
        }
    };
    let id = IntegerMatch::parse(id, IntegerWidth::U16, &[]).ok_or_else(bad)?;
    if operands(id).iter().any(|n| *n > 0xfff) {
        return Err(bad());
    }
    d.push_packet("vlan.id", PacketCondition::VlanId { layer, id });
    Ok(())
}

fn operands(m: IntegerMatch) -> [u64; 2] {
    match m {
        IntegerMatch::Equal(a)
        | IntegerMatch::Differs(a)
        | IntegerMatch::Less(a)
        | IntegerMatch::LessOrEqual(a)
        | IntegerMatch::Greater(a)
        | IntegerMatch::GreaterOrEqual(a) => [a, 0],
        IntegerMatch::Between(a, b) | IntegerMatch::Outside(a, b) => [a, b],
        IntegerMatch::Mask { .. } | IntegerMatch::NotMask { .. } => [0, 0],
    }
}

fn vlan_layers(_: &mut Compiler<'_>, d: &mut Draft<'_>, v: Value<'_>) -> Checked<()> {
    let bad = || Refusal::new("detect-vlan", format!("vlan layers invalid {}", v.text));
    let layers = IntegerMatch::parse(v.text, IntegerWidth::U8, &[]).ok_or_else(bad)?;
    if let Some(n) = operands(layers).into_iter().find(|n| *n > 3) {
        let said = format!("number of layers out of range {n}");
        return Err(Refusal::new("detect-vlan", said));
    }
    d.push_packet("vlan.layers", PacketCondition::VlanLayers(layers));
    Ok(())
}

fn rpc(_: &mut Compiler<'_>, d: &mut Draft<'_>, v: Value<'_>) -> Checked<()> {
    let bad = || {
        let said = format!("parse error, ret -1, string {}", v.text);
        Refusal::new("detect-rpc", said)
    };
    let mut parts = v.text.split(',').map(str::trim);
    let mut next = || -> Checked<Option<u32>> {
        match parts.next() {
            None | Some("*") => Ok(None),
            Some(n) => unsigned(n).map(Some).ok_or_else(bad),
        }
    };
    let test = RpcTest { program: next()?, version: next()?, procedure: next()? };
    if test.program.is_none() {
        return Err(bad());
    }
    d.push_packet("rpc", PacketCondition::Rpc(test));
    Ok(())
}

/// `geoip:[src|dst|any|both,][!]CC,CC…`: codes are compared as they are written, with their white space.
fn geoip(c: &mut Compiler<'_>, d: &mut Draft<'_>, v: Value<'_>) -> Checked<()> {
    if let Some(missing) = &c.options.no_geoip {
        c.warn(Refusal::new("detect-geoip", missing.clone()));
        return Err(Refusal::silent("`geoip` needs a database: name one as `geoip-database`"));
    }
    let (side, list) = match v.text.split_once(',') {
        Some(("src", list)) => (ReputationSide::Source, list),
        Some(("dst", list)) => (ReputationSide::Destination, list),
        Some(("both", list)) => (ReputationSide::Both, list),
        Some(("any", list)) => (ReputationSide::Any, list),
        _ => (ReputationSide::Any, v.text),
    };
    let (negated, list) = match list.strip_prefix('!') {
        Some(list) => (true, list),
        None => (false, list),
    };
    if list.split(',').count() > COUNTRIES_PER_RULE_MAX {
        return Err(Refusal::silent("too many countries in one rule"));
    }
    let countries = list.split(',').map(Box::from).collect();
    d.push_packet("geoip", PacketCondition::GeoIp(GeoIpTest { side, negated, countries }));
    Ok(())
}

fn decode_event(c: &mut Compiler<'_>, d: &mut Draft<'_>, v: Value<'_>) -> Checked<()> {
    event(c, d, v.text, "decode-event")
}

fn stream_event(c: &mut Compiler<'_>, d: &mut Draft<'_>, v: Value<'_>) -> Checked<()> {
    event(c, d, &format!("stream.{}", v.text), "stream-event")
}

fn engine_event(c: &mut Compiler<'_>, d: &mut Draft<'_>, v: Value<'_>) -> Checked<()> {
    event(c, d, v.text, "engine-event")
}

fn event(
    c: &mut Compiler<'_>,
    d: &mut Draft<'_>,
    name: &str,
    keyword: &'static str,
) -> Checked<()> {
    if let Some(event) = name.strip_prefix("stream.") {
        return match events::stream_event(event) {
            Some(event) => {
                d.push_packet(keyword, PacketCondition::StreamEvent(event));
                Ok(())
            }
            None => Err(Refusal::new("detect", format!("unknown decode event \"{name}\""))),
        };
    }
    match events::decoder_event(name) {
        Some(events::RETIRED) => {
            let said = format!("decode-event keyword no longer supports event \"decoder.{name}\"");
            let refusal = Refusal::new("detect", said);
            if c.options.is_strict(keyword) {
                return Err(refusal);
            }
            c.warn(refusal);
            d.push_packet(keyword, PacketCondition::DecodeEvent(events::RETIRED));
            Ok(())
        }
        Some(event) => {
            d.push_packet(keyword, PacketCondition::DecodeEvent(event));
            Ok(())
        }
        None => Err(Refusal::new("detect", format!("unknown decode event \"decoder.{name}\""))),
    }
}

fn checksum(d: &mut Draft<'_>, v: Value<'_>, keyword: &'static str, of: ChecksumOf) -> Checked<()> {
    let valid = match v.text.to_ascii_lowercase().as_str() {
        "valid" => true,
        "invalid" => false,
        _ => return Err(Refusal::silent(format!("`{keyword}` is `valid` or `invalid`"))),
    };
    d.push_packet(keyword, PacketCondition::Checksum { of, valid });
    Ok(())
}
