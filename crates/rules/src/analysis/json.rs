//! `rules.json` and `patterns.json` as Suricata's engine analysis writes them: one object a rule
//! and line, in internal order, keys in Suricata's order.

use super::engine_names::engine_name;
use super::{Report, any_version, app_proto_name, buffer_name};
use crate::action::Action;
use crate::content::{
    BufferCondition, ByteJump, ByteOrder, ByteTest, Content, ContentFlags, Operand, TextBase,
};
use crate::integer::IntegerMatch;
use crate::packet::{AppProtocolMode, FlowbitsTest, PacketCondition};
use crate::post::{BitCommand, PostMatch, ThresholdKind};
use crate::signature::{
    ActionScope, BufferInspection, BufferRef, Engine, EngineRun, RuleType, Signature,
    SignatureFlags, TxTest,
};
use crate::transform::{ChainId, Transform};
use gabion_record::Direction;
use gabion_record::applayer::ProtoId;
use gabion_record::json::Json;
use std::collections::HashMap;

/// The object of one rule, without a line end.
pub fn rule_json(r: &Report<'_>, s: &Signature) -> Vec<u8> {
    let mut j = Json::with_capacity(2048);
    j.open();
    let class = if s.flags.has(SignatureFlags::FIREWALL) { "firewall" } else { "threat detection" };
    j.field("class", class);
    j.field("raw", r.set.text(s.raw));
    j.number("id", s.sid);
    j.number("gid", s.gid);
    j.number("rev", s.rev);
    if s.msg.is_some() {
        j.field("msg", r.set.msg(s));
    }
    j.field("app_proto", app_proto_name(r, s));
    texts(&mut j, "requirements", &requirements(s));
    j.open_key("match_policy");
    texts(&mut j, "actions", &actions(s));
    j.field("scope", scope(s.scope()));
    j.close();
    j.field("type", s.kind.name());
    let depends = dependencies(r, s, &mut j);
    texts(&mut j, "flags", &flags(r, s));
    let is_late = depends && s.kind != RuleType::AppTx;
    packet_engines(r, s, is_late, &mut j);
    frame_engines(r, s, &mut j);
    tx_engines(r, s, is_late, &mut j);
    lists(r, s, is_late, &mut j);
    fast_pattern(r, s, &mut j);
    let notes = notes(r, s);
    if !notes.is_empty() {
        texts(&mut j, "notes", &notes);
    }
    j.close();
    j.take_bytes()
}

fn texts<T: AsRef<str>>(j: &mut Json, key: &str, items: &[T]) {
    j.open_array_key(key);
    for item in items {
        j.item(item.as_ref());
    }
    j.close_array();
}

fn requirements(s: &Signature) -> Vec<&'static str> {
    let all = [
        (SignatureFlags::PAYLOAD, "payload"),
        (SignatureFlags::NO_PAYLOAD, "no_payload"),
        (SignatureFlags::FLOW, "flow"),
        (SignatureFlags::TCP_INIT, "tcp_flags_init_deinit"),
        (SignatureFlags::TCP_UNUSUAL, "tcp_flags_unusual"),
        (SignatureFlags::ENGINE_EVENT, "engine_event"),
        (SignatureFlags::REAL_PACKET, "real_pkt"),
    ];
    all.iter().filter(|(f, _)| s.flags.has(*f)).map(|(_, name)| *name).collect()
}

fn actions(s: &Signature) -> Vec<&'static str> {
    let silent = s.flags.has(SignatureFlags::NOALERT);
    let mut out = Vec::new();
    if !silent && s.action != Action::Config {
        out.push("alert");
    }
    match s.action {
        Action::Alert => {}
        Action::Pass => out.push("pass"),
        Action::Drop => out.push("drop"),
        Action::RejectSource => out.extend(["drop", "reject"]),
        Action::RejectDestination => out.extend(["drop", "reject_dst"]),
        Action::RejectBoth => out.extend(["drop", "reject_both"]),
        Action::Config => out.push("config"),
        Action::Accept => {
            if s.firewall.as_ref().is_some_and(|f| f.passes.is_some()) {
                out.push("pass");
            }
            out.push("accept");
        }
    }
    out
}

fn scope(scope: ActionScope) -> &'static str {
    match scope {
        ActionScope::Packet => "packet",
        ActionScope::Flow => "flow",
        ActionScope::FlowIfStateful => "flow_if_stateful",
        ActionScope::Hook => "hook",
        ActionScope::Transaction => "tx",
    }
}

fn dependencies(r: &Report<'_>, s: &Signature, j: &mut Json) -> bool {
    let (sids, names) = r.flowbits.dependencies(r.set, s);
    if sids.is_empty() {
        return false;
    }
    j.open_key("dependencies");
    j.open_key("flowbits");
    j.open_key("upstream");
    j.open_key("state_modifying_rules");
    j.open_array_key("sids");
    for sid in &sids {
        j.item_number(*sid);
    }
    j.close_array();
    texts(j, "names", &names);
    for _ in 0..4 {
        j.close();
    }
    true
}

fn flags(r: &Report<'_>, s: &Signature) -> Vec<&'static str> {
    let f = s.flags;
    let reads_flowbit = s
        .packet
        .iter()
        .any(|p| matches!(p, PacketCondition::Flowbits(FlowbitsTest { isset: true, .. })));
    let negated = s.fast_content().is_some_and(Content::is_negated);
    let all = [
        (f.has(SignatureFlags::SRC_ANY), "src_any"),
        (f.has(SignatureFlags::DST_ANY), "dst_any"),
        (f.has(SignatureFlags::SP_ANY), "sp_any"),
        (f.has(SignatureFlags::DP_ANY), "dp_any"),
        (f.has(SignatureFlags::NOALERT), "noalert"),
        (f.has(SignatureFlags::DSIZE), "dsize"),
        (f.has(SignatureFlags::APP_LAYER), "applayer"),
        (f.has(SignatureFlags::NEED_PACKET), "need_packet"),
        (f.has(SignatureFlags::NEED_STREAM), "need_stream"),
        (negated, "negated_mpm"),
        (is_flushing(r, s), "flush"),
        (reads_flowbit, "need_flowvar"),
        (f.has(SignatureFlags::FILESTORE), "filestore"),
        (f.has(SignatureFlags::TO_SERVER), "toserver"),
        (f.has(SignatureFlags::TO_CLIENT), "toclient"),
        (f.has(SignatureFlags::TLS_STORE), "tlsstore"),
        (f.has(SignatureFlags::BYPASS), "bypass"),
        (f.has(SignatureFlags::PREFILTER), "prefilter"),
        (s.target == Some(crate::post::Target::Source), "src_is_target"),
        (s.target == Some(crate::post::Target::Destination), "dst_is_target"),
    ];
    all.iter().filter(|(on, _)| *on).map(|(_, name)| *name).collect()
}

/// A rule on transactions whose payload part has to be seen together with a body: the stream is
/// brought up to date when the body grows.
fn is_flushing(r: &Report<'_>, s: &Signature) -> bool {
    payload_in_tx(s) && s.buffers.iter().any(|b| is_streaming(r, b))
}

fn is_streaming(r: &Report<'_>, b: &BufferInspection) -> bool {
    let buffer = b.buffer.app().and_then(|id| r.catalog.buffer(id));
    buffer.is_some_and(|b| b.def.streaming)
}

/// Whether the raw payload is a step of the transactions' inspection.
fn payload_in_tx(s: &Signature) -> bool {
    s.kind == RuleType::AppTx && s.payload().is_some()
}

fn packet_engines(r: &Report<'_>, s: &Signature, is_late: bool, j: &mut Json) {
    j.open_array_key("pkt_engines");
    let holds = |n: usize| s.fast_pattern.is_some_and(|f| usize::from(f.inspection) == n);
    let (first, rest): (Vec<_>, Vec<_>) =
        s.buffers.iter().enumerate().partition(|(n, _)| holds(*n));
    for (n, b) in first.into_iter().chain(rest) {
        let is_mpm = holds(n);
        match b.buffer {
            BufferRef::Payload if !payload_in_tx(s) && !is_late => {
                packet_engine(j, "payload", is_mpm, |_| {});
            }
            BufferRef::Packet(_) => packet_engine(j, buffer_name(r, b.buffer), is_mpm, |j| {
                transforms(r, b, j);
                matches(s, &b.conditions, j);
            }),
            BufferRef::Payload | BufferRef::App(_) | BufferRef::Frame(_) => {}
        }
    }
    if !s.packet.is_empty() && s.packet.iter().any(is_listed) {
        packet_engine(j, "packet", false, |_| {});
    }
    j.close_array();
}

fn packet_engine(j: &mut Json, name: &str, is_mpm: bool, rest: impl FnOnce(&mut Json)) {
    j.open();
    j.field("name", name);
    j.boolean("is_mpm", is_mpm);
    rest(j);
    j.close();
}

/// Conditions that Suricata keeps among those on the packet.
fn is_listed(p: &PacketCondition) -> bool {
    !matches!(p, PacketCondition::L3Proto(_) | PacketCondition::IpProto { .. })
}

fn frame_engines(r: &Report<'_>, s: &Signature, j: &mut Json) {
    j.open_array_key("frame_engines");
    for (n, b) in s.buffers.iter().enumerate() {
        if !matches!(b.buffer, BufferRef::Frame(_)) {
            continue;
        }
        let is_mpm = s.fast_pattern.is_some_and(|f| usize::from(f.inspection) == n);
        let sides = [SignatureFlags::TO_SERVER, SignatureFlags::TO_CLIENT];
        for _ in sides.iter().filter(|f| s.flags.has(**f)) {
            j.open();
            j.field("name", buffer_name(r, b.buffer));
            j.boolean("is_mpm", is_mpm);
            transforms(r, b, j);
            matches(s, &b.conditions, j);
            j.close();
        }
    }
    j.close_array();
}

fn transforms(r: &Report<'_>, b: &BufferInspection, j: &mut Json) {
    let Some(chain) = r.set.chains.get(usize::from(b.chain.0)).filter(|c| !c.is_empty()) else {
        return;
    };
    j.open_array_key("transforms");
    for t in chain.iter() {
        j.open();
        j.field("name", transform_name(t));
        j.close();
    }
    j.close_array();
}

/// The keyword of a transform.
pub(super) fn transform_name(t: &Transform) -> &'static str {
    match t {
        Transform::StripWhitespace => "strip_whitespace",
        Transform::CompressWhitespace => "compress_whitespace",
        Transform::ToLowercase => "to_lowercase",
        Transform::ToUppercase => "to_uppercase",
        Transform::ToMd5 => "to_md5",
        Transform::ToSha1 => "to_sha1",
        Transform::ToSha256 => "to_sha256",
        Transform::PcreXform { .. } => "pcrexform",
        Transform::UrlDecode => "url_decode",
        Transform::Xor(_) => "xor",
        Transform::DotPrefix => "dotprefix",
        Transform::HeaderLowercase => "header_lowercase",
        Transform::StripPseudoHeaders => "strip_pseudo_headers",
        Transform::Domain => "domain",
        Transform::Tld => "tld",
        Transform::FromBase64 { .. } => "from_base64",
        Transform::LuaXform { .. } => "luaxform",
        Transform::Gunzip { .. } => "gunzip",
        Transform::ZlibDeflate { .. } => "zlib_deflate",
    }
}

fn tx_engines(r: &Report<'_>, s: &Signature, is_late: bool, j: &mut Json) {
    let streams = if is_late && s.kind != RuleType::AppTx { late_streams(s) } else { Vec::new() };
    if s.engines.is_empty() && !is_late {
        return;
    }
    j.open_array_key("engines");
    for e in s.engines.iter().chain(&streams) {
        engine(r, s, e, j);
    }
    j.close_array();
}

/// A rule on the stream that waits for transactions is inspected with them.
fn late_streams(s: &Signature) -> Vec<Engine> {
    let Some(n) = s.buffers.iter().position(|b| b.buffer == BufferRef::Payload) else {
        return Vec::new();
    };
    let is_fast = s.fast_pattern.is_some_and(|f| usize::from(f.inspection) == n);
    let run = EngineRun::Buffer(u16::try_from(n).unwrap_or(u16::MAX));
    [Direction::ToClient, Direction::ToServer]
        .into_iter()
        .filter(|d| s.inspects(*d))
        .map(|direction| Engine {
            proto: ProtoId::UNKNOWN,
            direction,
            progress: 0,
            local: 0,
            run,
            is_fast_pattern: is_fast,
            is_hook: false,
        })
        .collect()
}

fn engine(r: &Report<'_>, s: &Signature, e: &Engine, j: &mut Json) {
    let table = r.catalog.table(e.proto);
    j.open();
    let (name, buffer) = match e.run {
        EngineRun::Buffer(n) => match s.buffers.get(usize::from(n)) {
            Some(b) if b.buffer == BufferRef::Payload => ("stream".to_string(), Some(b)),
            Some(b) => (buffer_name(r, b.buffer).to_string(), Some(b)),
            None => (String::new(), None),
        },
        EngineRun::Tx(n) => {
            let tx = s.tx.get(usize::from(n));
            let state = table.and_then(|t| {
                t.states(e.direction).get(usize::from(e.progress)).map(|state| (t.name, *state))
            });
            let generic = state.map_or_else(String::new, |(p, st)| format!("{p}:{st}:generic"));
            let name = match tx.map(|t| &t.test) {
                Some(TxTest::Event(_)) => "app-layer-events".to_string(),
                Some(TxTest::Files(_)) => "files".to_string(),
                Some(TxTest::Integer(..) | TxTest::Condition(_)) => {
                    let named = tx.and_then(|t| engine_name(t.keyword));
                    named.map_or(generic, str::to_string)
                }
                _ => generic,
            };
            (name, None)
        }
    };
    let is_event = matches!(e.run, EngineRun::Tx(n)
        if matches!(s.tx.get(usize::from(n)).map(|t| &t.test), Some(TxTest::Event(_))));
    j.field("name", &name);
    j.field(
        "direction",
        match e.direction {
            Direction::ToServer => "toserver",
            Direction::ToClient => "toclient",
        },
    );
    j.boolean("is_mpm", e.is_fast_pattern);
    let proto = match table {
        Some(t) if !is_event => t.eve_name,
        _ => "unknown",
    };
    j.field("app_proto", proto);
    // Suricata's report has 0, whatever the protocol waits for.
    j.number("progress", if is_event { 0 } else { e.progress });
    match (e.run, buffer) {
        (_, Some(b)) => {
            transforms(r, b, j);
            matches(s, &b.conditions, j);
        }
        (EngineRun::Tx(n), None) => tx_matches(s, usize::from(n), j),
        (EngineRun::Buffer(_), None) => {}
    }
    j.close();
}

fn tx_matches(s: &Signature, n: usize, j: &mut Json) {
    let Some(tx) = s.tx.get(n) else { return };
    if matches!(tx.test, TxTest::Reached) {
        return;
    }
    j.open_array_key("matches");
    match &tx.test {
        TxTest::Files(conditions) => {
            for condition in conditions.iter() {
                named(j, file_keyword(condition));
            }
        }
        TxTest::Integer(..)
        | TxTest::Condition(_)
        | TxTest::Event(_)
        | TxTest::Reached
        | TxTest::State(_)
        | TxTest::Lua { .. } => named(j, tx.keyword),
    }
    j.close_array();
}

fn file_keyword(condition: &crate::file::FileCondition) -> &'static str {
    use crate::file::{FileCondition, HashKind};
    match condition {
        FileCondition::Name { .. } => "filename",
        FileCondition::Extension { .. } => "fileext",
        FileCondition::Magic { .. } => "filemagic",
        FileCondition::Size(_) => "filesize",
        FileCondition::Hash { .. } => match HashKind::Md5 {
            HashKind::Md5 => "filemd5",
            HashKind::Sha1 => "filesha1",
            HashKind::Sha256 => "filesha256",
        },
        FileCondition::Store => "filestore",
    }
}

fn named(j: &mut Json, name: &str) {
    j.open();
    j.field("name", name);
    j.close();
}

fn lists(r: &Report<'_>, s: &Signature, is_late: bool, j: &mut Json) {
    j.open_key("lists");
    let listed: Vec<&PacketCondition> = s.packet.iter().filter(|p| is_listed(p)).collect();
    if !listed.is_empty() {
        j.open_key("packet");
        j.open_array_key("matches");
        for p in listed {
            packet_match(r, p, j);
        }
        j.close_array();
        j.close();
    }
    if let Some(b) = s.payload().filter(|_| !payload_in_tx(s) && !is_late) {
        j.open_key("payload");
        matches(s, &b.conditions, j);
        j.close();
    }
    if !s.base64_data.is_empty() {
        j.open_key("base64_data");
        matches(s, &s.base64_data, j);
        j.close();
    }
    post_lists(r, s, j);
    j.close();
}

fn post_lists(r: &Report<'_>, s: &Signature, j: &mut Json) {
    let (tags, post): (Vec<&PostMatch>, Vec<&PostMatch>) =
        s.post_match.iter().partition(|p| matches!(p, PostMatch::Tag(_)));
    let captures = captures(s);
    if !post.is_empty() || captures > 0 {
        j.open_key("postmatch");
        j.open_array_key("matches");
        for _ in 0..captures {
            named(j, "__flowvar__postmatch__");
        }
        for p in post {
            post_match(r, p, j);
        }
        j.close_array();
        j.close();
    }
    if !tags.is_empty() {
        j.open_key("tag");
        j.open_array_key("matches");
        for _ in tags {
            named(j, "tag");
        }
        j.close_array();
        j.close();
    }
    if s.threshold.is_some() || s.detection_filter.is_some() {
        j.open_key("threshold");
        j.open_array_key("matches");
        if let Some(t) = s.threshold {
            let is_rate = matches!(t.kind, ThresholdKind::Rate { .. });
            named(j, if is_rate { "rate_filter" } else { "threshold" });
        }
        if s.detection_filter.is_some() {
            named(j, "detection_filter");
        }
        j.close_array();
        j.close();
    }
}

fn captures(s: &Signature) -> usize {
    let all = s.buffers.iter().flat_map(|b| b.conditions.iter()).chain(s.base64_data.iter());
    all.map(|c| if let BufferCondition::Pcre(p) = c { p.captures.len() } else { 0 }).sum()
}

fn post_match(r: &Report<'_>, p: &PostMatch, j: &mut Json) {
    match p {
        PostMatch::Flowbits { bit, command } => {
            j.open();
            j.field("name", "flowbits");
            j.open_key("flowbits");
            j.field(
                "cmd",
                match command {
                    BitCommand::Set => "set",
                    BitCommand::Unset => "unset",
                    BitCommand::Toggle => "toggle",
                },
            );
            texts(j, "names", &[r.set.flowbits.get(*bit)]);
            j.close();
            j.close();
        }
        PostMatch::Flowint { .. } => named(j, "flowint"),
        PostMatch::Xbits { .. } => named(j, "xbits"),
        PostMatch::Hostbits { .. } => named(j, "hostbits"),
        PostMatch::Tag(_) => named(j, "tag"),
        PostMatch::Filestore { .. } => named(j, "__filestore__postmatch__"),
        PostMatch::TlsStore => named(j, "tls_store"),
        PostMatch::Config(_) => named(j, "config"),
        PostMatch::Bypass => named(j, "bypass"),
        PostMatch::NfqSetMark { .. } => named(j, "nfq_set_mark"),
        PostMatch::Replace { .. } => {}
    }
}

fn integer(j: &mut Json, key: &str, m: IntegerMatch) {
    j.open_key(key);
    let range = |j: &mut Json, key: &str, a: u64, b: u64| {
        j.open_key(key);
        j.number("min", a);
        j.number("max", b);
        j.close();
    };
    let bits = |j: &mut Json, key: &str, mask: u64, value: u64| {
        j.open_key(key);
        j.number("mask", mask);
        j.number("value", value);
        j.close();
    };
    match m {
        IntegerMatch::Equal(n) => j.number("equal", n),
        IntegerMatch::Differs(n) => j.number("diff", n),
        IntegerMatch::Less(n) => j.number("lt", n),
        IntegerMatch::LessOrEqual(n) => j.number("lte", n),
        IntegerMatch::Greater(n) => j.number("gt", n),
        IntegerMatch::GreaterOrEqual(n) => j.number("gte", n),
        IntegerMatch::Between(a, b) => range(j, "range", a, b),
        IntegerMatch::Outside(a, b) => range(j, "negated_range", a, b),
        IntegerMatch::Mask { mask, wanted } => bits(j, "bitmask", mask, wanted),
        IntegerMatch::NotMask { mask, unwanted } => bits(j, "negated_bitmask", mask, unwanted),
    }
    j.close();
}

fn packet_match(r: &Report<'_>, p: &PacketCondition, j: &mut Json) {
    j.open();
    j.field("name", p.keyword());
    let number = |j: &mut Json, key: &str, n: u32| {
        j.open_key(key);
        j.number("number", n);
        j.close();
    };
    match p {
        PacketCondition::Dsize(m) => integer(j, "dsize", *m),
        PacketCondition::FlowAge(m) => integer(j, "flow_age", *m),
        PacketCondition::TcpMss(m) => integer(j, "tcp_mss", *m),
        PacketCondition::IcmpCode(m) => integer(j, "code", *m),
        PacketCondition::TcpSeq(n) => number(j, "seq", *n),
        PacketCondition::TcpAck(n) => number(j, "ack", *n),
        PacketCondition::IcmpId(n) => number(j, "id", u32::from(*n)),
        PacketCondition::TcpWindow { size, negated } => {
            j.open_key("window");
            j.number("size", *size);
            j.boolean("negated", *negated);
            j.close();
        }
        PacketCondition::TcpSession(phases) => {
            let all = [
                (phases.setup, "setup"),
                (phases.established, "established"),
                (phases.closing, "closing"),
            ];
            let names: Vec<&str> = all.iter().filter(|(on, _)| *on).map(|(_, n)| *n).collect();
            j.open_key("tcp_session");
            texts(j, "phases", &names);
            j.close();
        }
        PacketCondition::IpOption(option) => {
            j.open_key("ipopts");
            j.field("option", option.name());
            j.close();
        }
        PacketCondition::Flowbits(test) => {
            j.open_key("flowbits");
            j.field("cmd", if test.isset { "isset" } else { "isnotset" });
            let names: Vec<&str> = test.bits.iter().map(|b| r.set.flowbits.get(*b)).collect();
            texts(j, "names", &names);
            if names.len() > 1 {
                j.field("operator", "or");
            }
            j.close();
        }
        PacketCondition::AppProtocol(a) => {
            j.open_key("app_layer_protocol");
            let mut names: Vec<&str> = a
                .protocols
                .iter()
                .map(|p| match r.catalog.table(*p) {
                    Some(t) => t.eve_name,
                    None if *p == ProtoId::FAILED => "failed",
                    None => "unknown",
                })
                .collect();
            names.extend(any_version(r, &a.protocols));
            texts(j, "protocols", &names);
            j.field(
                "mode",
                match a.mode {
                    AppProtocolMode::Direction => "direction",
                    AppProtocolMode::Final => "final",
                    AppProtocolMode::Original => "original",
                    AppProtocolMode::Either => "either",
                    AppProtocolMode::ToServer => "to_server",
                    AppProtocolMode::ToClient => "to_client",
                },
            );
            j.boolean("negated", a.negated);
            j.close();
        }
        // Suricata reports no more of these than their names.
        PacketCondition::Flow(..)
        | PacketCondition::TcpFlags(..)
        | PacketCondition::TcpWscale(..)
        | PacketCondition::Ttl(..)
        | PacketCondition::Tos { .. }
        | PacketCondition::IpId(..)
        | PacketCondition::FragBits(..)
        | PacketCondition::FragOffset { .. }
        | PacketCondition::SameIp
        | PacketCondition::IpProto { .. }
        | PacketCondition::L3Proto(..)
        | PacketCondition::IcmpType(..)
        | PacketCondition::IcmpSeq(..)
        | PacketCondition::Icmpv6Mtu(..)
        | PacketCondition::VlanId { .. }
        | PacketCondition::VlanLayers(..)
        | PacketCondition::StreamSize { .. }
        | PacketCondition::FlowPackets(..)
        | PacketCondition::FlowBytes(..)
        | PacketCondition::Flowint(..)
        | PacketCondition::Xbits(..)
        | PacketCondition::Hostbits(..)
        | PacketCondition::IpReputation(..)
        | PacketCondition::GeoIp(..)
        | PacketCondition::Variable(..)
        | PacketCondition::Rpc(..)
        | PacketCondition::DecodeEvent(..)
        | PacketCondition::StreamEvent(..)
        | PacketCondition::DetectionEvent(..)
        | PacketCondition::Checksum { .. }
        | PacketCondition::Lua { .. } => {}
    }
    j.close();
}

fn matches(s: &Signature, conditions: &[BufferCondition], j: &mut Json) {
    let _ = s;
    j.open_array_key("matches");
    for (n, c) in conditions.iter().enumerate() {
        j.open();
        j.field("name", c.keyword());
        match c {
            BufferCondition::Content(c) => {
                j.open_key("content");
                content(c, n == 0, j);
                j.close();
            }
            BufferCondition::Pcre(p) => {
                j.open_key("pcre");
                j.boolean("relative", p.relative);
                j.boolean("relative_next", p.relative_next);
                j.boolean("nocase", p.options.caseless);
                j.boolean("negated", p.negated);
                j.close();
            }
            BufferCondition::ByteTest(t) => byte_test(t, j),
            BufferCondition::ByteJump(t) => byte_jump(t, j),
            // Suricata reports no more of these than their names.
            BufferCondition::ByteExtract(_)
            | BufferCondition::ByteMath(_)
            | BufferCondition::IsDataAt(_)
            | BufferCondition::Bsize(_)
            | BufferCondition::Urilen(_)
            | BufferCondition::Dataset(_)
            | BufferCondition::Datarep(_)
            | BufferCondition::Absent { .. }
            | BufferCondition::Base64Decode(_)
            | BufferCondition::Entropy(_)
            | BufferCondition::Asn1(_)
            | BufferCondition::Lua { .. }
            | BufferCondition::Inert(_) => {}
        }
        j.close();
    }
    j.close_array();
}

fn number<T: Copy + Into<i64>>(o: Operand<T>) -> i64 {
    match o {
        Operand::Number(n) => n.into(),
        Operand::Variable(n) => i64::from(n),
    }
}

/// Offset, depth, distance and within as Suricata shows them: without a match before it, distance
/// and within are shown as offset and depth.
fn bounds(c: &Content, is_first: bool) -> [Option<i64>; 4] {
    let of = |o: Option<Operand<i32>>| o.map(number);
    let (offset, depth) = (of(c.offset), of(c.depth));
    let (distance, within) = (of(c.distance), of(c.within));
    let fixed = |o: Option<Operand<i32>>| !matches!(o, Some(Operand::Variable(_)));
    let converts = is_first
        && c.is_relative()
        && distance.unwrap_or(0) >= 0
        && fixed(c.distance)
        && fixed(c.within);
    if !converts {
        return [offset, depth, distance, within];
    }
    let start = distance.unwrap_or(0);
    [(start > 0).then_some(start), within.map(|w| w + start), None, None]
}

fn content(c: &Content, is_first: bool, j: &mut Json) {
    j.field("pattern", pretty(&c.bytes));
    j.number("length", c.bytes.len());
    j.boolean("nocase", c.is_nocase());
    j.boolean("negated", c.is_negated());
    j.boolean("starts_with", c.starts_with());
    j.boolean("ends_with", c.ends_with());
    j.boolean("is_mpm", c.flags.has(ContentFlags::IS_FAST_PATTERN));
    j.boolean("no_double_inspect", c.flags.has(ContentFlags::NO_DOUBLE_INSPECT));
    let names = ["offset", "depth", "distance", "within"];
    for (name, bound) in names.iter().zip(bounds(c, is_first)) {
        if let Some(n) = bound {
            j.number(name, n);
        }
    }
    j.boolean("fast_pattern", c.flags.has(ContentFlags::FAST_PATTERN));
    j.boolean("relative_next", c.has_relative_next());
}

/// A literal with what is not plain in hex between bars.
pub(super) fn pretty(bytes: &[u8]) -> String {
    let mut out = String::with_capacity(bytes.len());
    let mut in_hex = false;
    for b in bytes {
        let plain = b.is_ascii_graphic()
            && !matches!(b, b'"' | b'\'' | b'/' | b':' | b';' | b'\\' | b'`' | b'|');
        if plain {
            if in_hex {
                out.push('|');
            }
            out.push(*b as char);
        } else {
            out.push(if in_hex { ' ' } else { '|' });
            out.push_str(&format!("{b:02X}"));
        }
        in_hex = !plain;
    }
    if in_hex {
        out.push('|');
    }
    out
}

fn base(text: Option<TextBase>) -> &'static str {
    match text {
        Some(TextBase::Hex) => "hex",
        Some(TextBase::Dec) => "dec",
        Some(TextBase::Oct) => "oct",
        Some(TextBase::Unset) | None => "unset",
    }
}

fn byte_test(t: &ByteTest, j: &mut Json) {
    j.open_key("byte_test");
    j.number("nbytes", number(t.nbytes));
    j.number("offset", number(t.offset));
    j.field("base", base(t.text));
    let mut flags = Vec::new();
    let all = [
        (t.order == ByteOrder::Little, "little_endian"),
        (t.is_big_written, "big_endian"),
        (t.text.is_some(), "string"),
        (t.relative, "relative"),
        (t.order == ByteOrder::Dce, "dce"),
    ];
    flags.extend(all.iter().filter(|(on, _)| *on).map(|(_, n)| *n));
    texts(j, "flags", &flags);
    j.close();
}

fn byte_jump(t: &ByteJump, j: &mut Json) {
    j.open_key("byte_jump");
    j.number("nbytes", number(t.nbytes));
    j.number("offset", number(t.offset));
    j.number("multiplier", t.multiplier);
    j.number("post_offset", t.post_offset);
    j.field("base", base(t.text));
    let mut flags = Vec::new();
    let all = [
        (t.from == crate::content::JumpFrom::Beginning, "from_beginning"),
        (t.order == ByteOrder::Little, "little_endian"),
        (t.is_big_written, "big_endian"),
        (t.text.is_some(), "string"),
        (t.relative, "relative"),
        (t.align, "align"),
        (t.order == ByteOrder::Dce, "dce"),
        (t.from == crate::content::JumpFrom::End, "from_end"),
    ];
    flags.extend(all.iter().filter(|(on, _)| *on).map(|(_, n)| *n));
    texts(j, "flags", &flags);
    j.close();
}

fn fast_pattern(r: &Report<'_>, s: &Signature, j: &mut Json) {
    if let Some(f) = s.fast_pattern
        && let Some(b) = s.buffers.get(usize::from(f.inspection))
        && !matches!(b.buffer, BufferRef::Frame(_))
        && let Some(c) = s.fast_content()
    {
        let name = match b.buffer {
            BufferRef::Packet(_) | BufferRef::Payload => "payload",
            other => buffer_name(r, other),
        };
        j.open_key("mpm");
        j.field("buffer", name);
        content(c, f.condition == 0, j);
        j.close();
    }
    if let Some(p) = s.prefilter.and_then(|n| s.packet.get(usize::from(n))) {
        j.open_key("prefilter");
        j.field("buffer", "packet");
        j.field("name", p.keyword());
        j.close();
    }
}

/// What Suricata remarks on a rule.
fn notes(r: &Report<'_>, s: &Signature) -> Vec<String> {
    let mut out = Vec::new();
    for b in s.buffers.iter() {
        let times = match b.buffer {
            BufferRef::App(_) => s
                .engines
                .iter()
                .filter(|e| {
                    matches!(e.run, EngineRun::Buffer(n)
                    if s.buffers.get(usize::from(n)).is_some_and(|x| std::ptr::eq(x, b)))
                })
                .count()
                .min(2),
            BufferRef::Payload | BufferRef::Packet(_) | BufferRef::Frame(_) => 1,
        };
        for _ in 0..times.max(1) {
            buffer_notes(b, &mut out);
        }
    }
    if payload_in_tx(s)
        && let Some(b) = s.fast_buffer().filter(|b| is_streaming(r, b))
    {
        let name = buffer_name(r, b.buffer);
        out.push(format!("mpm in {name} combined with stream match leads to stream buffering"));
    }
    out
}

const LOOKS_LIKE_AGENT: &str = "pattern looks like it inspects HTTP, use http.user_agent or \
                                http.header for improved performance";
const LOOKS_LIKE_REQUEST: &str = "pattern looks like it inspects HTTP, use http.request_line or \
                                  http.method and http.uri instead for improved performance";

fn buffer_notes(b: &BufferInspection, out: &mut Vec<String>) {
    for (n, c) in b.conditions.iter().enumerate() {
        if matches!(c, BufferCondition::Pcre(p) if p.rawbytes) {
            out.push("'/B' (rawbytes) option is a no-op and is silently ignored".to_string());
        }
        let BufferCondition::Content(c) = c else { continue };
        if c.flags.has(ContentFlags::FAST_PATTERN_ONLY) {
            out.push(
                "'fast_pattern:only' option is silently ignored and is interpreted as regular \
                 'fast_pattern'"
                    .to_string(),
            );
        }
        if c.bytes.starts_with(b"User-Agent: ") {
            out.push(LOOKS_LIKE_AGENT.to_string());
        }
        let requests: [&[u8]; 4] = [b"GET /", b"POST /", b"PUT /", b"HEAD /"];
        if requests.iter().any(|r| c.bytes.starts_with(r)) {
            out.push(LOOKS_LIKE_REQUEST.to_string());
        }
        if n == 0 && c.is_relative() && number_or_zero(c.distance) >= 0 {
            let converted = |from: &str, to: &str| {
                format!("'{from}' option for pattern w/o previous content was converted to '{to}'")
            };
            if c.within.is_some() {
                out.push(converted("within", "depth"));
            }
            if c.distance.is_some() {
                out.push(converted("distance", "offset"));
            }
        }
    }
}

fn number_or_zero(o: Option<Operand<i32>>) -> i64 {
    o.map_or(0, number)
}

/// A literal with its yes/no properties.
type PatternKey = (Vec<u8>, [bool; 5]);

/// The literals of a buffer in order of first use.
struct Patterns {
    buffer: BufferRef,
    counted: Vec<(PatternKey, [u32; 2])>,
    at: HashMap<PatternKey, usize>,
}

impl Default for Patterns {
    fn default() -> Patterns {
        Patterns { buffer: BufferRef::Payload, counted: Vec::new(), at: HashMap::new() }
    }
}

impl Patterns {
    fn add(&mut self, c: &Content) {
        let flags =
            [c.is_nocase(), c.is_negated(), c.depth.is_some(), c.offset.is_some(), c.ends_with()];
        let key = (c.bytes.to_vec(), flags);
        let n = *self.at.entry(key.clone()).or_insert_with(|| {
            self.counted.push((key, [0, 0]));
            self.counted.len() - 1
        });
        if let Some((_, counts)) = self.counted.get_mut(n) {
            counts[0] += 1;
            counts[1] += u32::from(c.flags.has(ContentFlags::IS_FAST_PATTERN));
        }
    }
}

/// `patterns.json`: for each buffer the literals of all rules, with how often they occur and how
/// often they are the fast pattern.
pub fn patterns_json(r: &Report<'_>) -> Vec<u8> {
    let mut buffers: Vec<Patterns> = Vec::new();
    let mut at: HashMap<(BufferRef, ChainId), usize> = HashMap::new();
    for s in &r.set.signatures {
        for b in s.buffers.iter() {
            let place = *at.entry((b.buffer, b.chain)).or_insert_with(|| {
                buffers.push(Patterns { buffer: b.buffer, ..Patterns::default() });
                buffers.len() - 1
            });
            for c in &b.conditions {
                if let BufferCondition::Content(c) = c
                    && let Some(patterns) = buffers.get_mut(place)
                {
                    patterns.add(c);
                }
            }
        }
    }
    let mut j = Json::with_capacity(1 << 16);
    j.open();
    j.open_array_key("buffers");
    for (n, patterns) in (1u32..).zip(&buffers) {
        j.open();
        j.field("name", buffer_name(r, patterns.buffer));
        j.number("list_id", n);
        j.open_array_key("patterns");
        for ((bytes, flags), [count, mpm]) in &patterns.counted {
            j.open();
            j.field("pattern", pretty(bytes));
            j.number("patlen", bytes.len());
            j.number("cnt", *count);
            j.number("mpm", *mpm);
            j.open_key("flags");
            for (name, on) in ["nocase", "negated", "depth", "offset", "endswith"].iter().zip(flags)
            {
                j.boolean(name, *on);
            }
            j.close();
            j.close();
        }
        j.close_array();
        j.close();
    }
    j.close_array();
    j.close();
    j.take_bytes()
}
