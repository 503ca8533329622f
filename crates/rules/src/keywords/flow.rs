//! Keywords on the flow and its stream, and what a match does to them.

use crate::compiler::Compiler;
use crate::diagnostic::{Checked, Refusal};
use crate::draft::Draft;
use crate::integer::IntegerMatch;
use crate::keyword::{Setup, Value};
use crate::packet::{FlowSide, FlowTest, PacketCondition, StreamSide, TcpPhases};
use crate::post::{ConfigAction, ConfigKind, ConfigScope, ConfigSubsystem, PostMatch};
use crate::signature::RuleHook;
use gabion_record::Direction;
use gabion_record::applayer::IntegerWidth;

/// Keywords of this file.
pub(super) const KEYWORDS: &[(&str, Setup)] = &[
    ("flow", flow),
    ("tcp.session", tcp_session),
    ("stream_size", stream_size),
    ("flow.age", flow_age),
    ("flow.pkts", |_, d, v| packets(d, v, None)),
    ("flow.pkts_toserver", |_, d, v| packets(d, v, Some(FlowSide::ToServer))),
    ("flow.pkts_toclient", |_, d, v| packets(d, v, Some(FlowSide::ToClient))),
    ("flow.bytes", |_, d, v| bytes(d, v, None)),
    ("flow.bytes_toserver", |_, d, v| bytes(d, v, Some(FlowSide::ToServer))),
    ("flow.bytes_toclient", |_, d, v| bytes(d, v, Some(FlowSide::ToClient))),
    ("bypass", bypass),
    ("config", config),
];

fn flow(_: &mut Compiler<'_>, d: &mut Draft<'_>, v: Value<'_>) -> Checked<()> {
    const WHO: &str = "detect-flow";
    let before = d.flow;
    if before.is_some_and(FlowTest::has_state) {
        let said = "A signature may have only one flow option.";
        return Err(Refusal::new(WHO, said));
    }
    let mut f = FlowTest::default();
    for word in v.text.split(',').map(str::trim) {
        set_word(&mut f, word)?;
    }
    if f.only_frag && f.no_frag {
        return Err(Refusal::new(WHO, "cannot set both only_frag and no_frag"));
    }
    if d.header.transactional && (f.to_server || f.to_client) {
        let said = format!(
            "rule {} means to use both directions, cannot specify a flow direction",
            d.sid_ahead()
        );
        return Err(Refusal::new(WHO, said));
    }
    if let Some(RuleHook::App { direction, .. }) = d.hook {
        let clash = match direction {
            Direction::ToServer => f.to_client.then_some(("to_client", "to_server")),
            Direction::ToClient => f.to_server.then_some(("to_server", "to_client")),
        };
        if let Some((flow, hook)) = clash {
            let said = format!("rule {} has flow {flow} but a hook {hook}", d.sid_ahead());
            return Err(Refusal::new(WHO, said));
        }
    }
    if let Some(before) = before {
        // A rule without a direction so far goes both ways, which any direction contradicts.
        let clash = (f.to_client && !before.to_client)
            .then_some(("to_client", "to_server"))
            .or((f.to_server && !before.to_server).then_some(("to_server", "to_client")));
        if let Some((flow, hook)) = clash {
            let said = format!("rule {} has flow {flow} but a hook {hook}", d.sid_ahead());
            return Err(Refusal::new(WHO, said));
        }
        f.to_server |= before.to_server;
        f.to_client |= before.to_client;
        f.only_stream |= before.only_stream;
        f.no_stream |= before.no_stream;
    }
    d.flow = Some(f);
    // direction and stream are facts of the header; only states are tested
    if f.has_state() {
        d.push_packet("flow", PacketCondition::Flow(f));
    }
    Ok(())
}

fn set_word(f: &mut FlowTest, word: &str) -> Checked<()> {
    let refuse = |said: String| Refusal::new("detect-flow", said);
    let once = |flag: &mut bool, name: &str| {
        if *flag {
            return Err(refuse(format!("DETECT_FLOW_FLAG_{name} flag is already set")));
        }
        *flag = true;
        Ok(())
    };
    let clash = |word: &str, name: &str| {
        Err(refuse(format!("cannot set {word}, DETECT_FLOW_FLAG_{name} already set")))
    };
    match word.to_ascii_lowercase().as_str() {
        "established" => {
            if f.not_established {
                return clash("DETECT_FLOW_FLAG_ESTABLISHED", "NOT_ESTABLISHED");
            }
            if f.stateless {
                return clash("DETECT_FLOW_FLAG_ESTABLISHED", "STATELESS");
            }
            once(&mut f.established, "ESTABLISHED")
        }
        "not_established" => {
            if f.established {
                return clash("DETECT_FLOW_FLAG_NOT_ESTABLISHED", "ESTABLISHED");
            }
            once(&mut f.not_established, "NOT_ESTABLISHED")
        }
        "stateless" => {
            if f.established {
                return clash("DETECT_FLOW_FLAG_STATELESS", "ESTABLISHED");
            }
            once(&mut f.stateless, "STATELESS")
        }
        word @ ("to_client" | "from_server") => {
            if f.to_server {
                return clash(word, "TOSERVER");
            }
            once(&mut f.to_client, "TOCLIENT")
        }
        word @ ("to_server" | "from_client") => {
            if f.to_client {
                return clash(word, "TOCLIENT");
            }
            once(&mut f.to_server, "TOSERVER")
        }
        "only_stream" => {
            if f.no_stream {
                return clash("only_stream", "NOSTREAM");
            }
            once(&mut f.only_stream, "ONLYSTREAM")
        }
        "no_stream" => {
            if f.only_stream {
                return clash("no_stream", "ONLYSTREAM");
            }
            once(&mut f.no_stream, "NOSTREAM")
        }
        "no_frag" => once(&mut f.no_frag, "NO_FRAG"),
        "only_frag" => once(&mut f.only_frag, "ONLY_FRAG"),
        _ => Err(refuse(format!("invalid flow option \"{word}\""))),
    }
}

fn tcp_session(_: &mut Compiler<'_>, d: &mut Draft<'_>, v: Value<'_>) -> Checked<()> {
    const WHO: &str = "detect-tcp-session";
    let mut phases = TcpPhases::default();
    for word in v.text.split(',').map(str::trim) {
        match word {
            "setup" => phases.setup = true,
            "established" => phases.established = true,
            "closing" => phases.closing = true,
            _ => {
                let said = format!(
                    "tcp.session: unknown token \"{word}\" in argument \"{}\"; accepted tokens \
                     are {{setup, established, closing}}",
                    v.text
                );
                return Err(Refusal::new(WHO, said));
            }
        }
    }
    d.push_packet("tcp.session", PacketCondition::TcpSession(phases));
    Ok(())
}

fn number(v: &str, width: IntegerWidth, keyword: &str) -> Checked<IntegerMatch> {
    IntegerMatch::parse(v, width, &[]).ok_or_else(|| {
        Refusal::silent(format!("`{keyword}` takes a comparison that some number can meet"))
    })
}

fn stream_size(_: &mut Compiler<'_>, d: &mut Draft<'_>, v: Value<'_>) -> Checked<()> {
    let bad = || Refusal::silent("`stream_size:server|client|both|either, OP, N`");
    let parts: Vec<&str> = v.text.split(',').map(str::trim).collect();
    let [side, op, n] = parts.as_slice() else { return Err(bad()) };
    let side = match *side {
        "server" => StreamSide::Server,
        "client" => StreamSide::Client,
        "both" => StreamSide::Both,
        "either" => StreamSide::Either,
        _ => return Err(bad()),
    };
    if !n.bytes().all(|b| b.is_ascii_digit()) {
        return Err(bad());
    }
    let size = match *op {
        // No size is below: Suricata 8.0.7 takes it.
        "<" if *n == "0" => Some(IntegerMatch::Less(0)),
        op => IntegerMatch::parse(&format!("{op}{n}"), IntegerWidth::U32, &[]),
    };
    let size = size.ok_or_else(bad)?;
    d.push_packet("stream_size", PacketCondition::StreamSize { side, size });
    Ok(())
}

fn flow_age(_: &mut Compiler<'_>, d: &mut Draft<'_>, v: Value<'_>) -> Checked<()> {
    let age = number(v.text, IntegerWidth::U32, "flow.age")?;
    d.push_packet("flow.age", PacketCondition::FlowAge(age));
    Ok(())
}

/// `flow.pkts:toserver,>5`, or with the side in the keyword.
fn sided(
    v: Value<'_>,
    side: Option<FlowSide>,
    width: IntegerWidth,
) -> Checked<(FlowSide, IntegerMatch)> {
    if let Some(side) = side {
        return Ok((side, number(v.text, width, "flow counter")?));
    }
    let bad = || Refusal::silent("a side (toserver, toclient, either) and a comparison");
    let (word, n) = v.text.split_once(',').ok_or_else(bad)?;
    let side = match word.trim() {
        "toserver" => FlowSide::ToServer,
        "toclient" => FlowSide::ToClient,
        "either" => FlowSide::Either,
        _ => return Err(bad()),
    };
    Ok((side, number(n, width, "flow counter")?))
}

fn packets(d: &mut Draft<'_>, v: Value<'_>, side: Option<FlowSide>) -> Checked<()> {
    let keyword = match side {
        None => "flow.pkts",
        Some(FlowSide::ToServer) => "flow.pkts_toserver",
        Some(_) => "flow.pkts_toclient",
    };
    let (side, n) = sided(v, side, IntegerWidth::U32)?;
    d.push_packet(keyword, PacketCondition::FlowPackets(side, n));
    Ok(())
}

fn bytes(d: &mut Draft<'_>, v: Value<'_>, side: Option<FlowSide>) -> Checked<()> {
    let keyword = match side {
        None => "flow.bytes",
        Some(FlowSide::ToServer) => "flow.bytes_toserver",
        Some(_) => "flow.bytes_toclient",
    };
    let (side, n) = sided(v, side, IntegerWidth::U64)?;
    d.push_packet(keyword, PacketCondition::FlowBytes(side, n));
    Ok(())
}

fn bypass(_: &mut Compiler<'_>, d: &mut Draft<'_>, _: Value<'_>) -> Checked<()> {
    if d.bypass {
        return Err(Refusal::new("detect-bypass", "can't use multiple bypass keywords"));
    }
    d.bypass = true;
    d.post.push(PostMatch::Bypass);
    Ok(())
}

fn config(_: &mut Compiler<'_>, d: &mut Draft<'_>, v: Value<'_>) -> Checked<()> {
    const WHO: &str = "detect-config";
    let bad = || {
        Refusal::new(WHO, "config is rather picky at this time")
            .because("`config:logging disable, type tx|flow, scope tx|flow|packet`")
    };
    let parts: Vec<&str> = v.text.split(',').map(str::trim).collect();
    let [subsystem, kind, scope] = parts.as_slice() else { return Err(bad()) };
    let pair = |part: &&str| -> Option<(String, String)> {
        let (key, value) = part.split_once(char::is_whitespace)?;
        Some((key.to_string(), value.trim().to_string()))
    };
    let (subsystem, state) = pair(subsystem).ok_or_else(bad)?;
    let subsystem = match subsystem.as_str() {
        "logging" => ConfigSubsystem::LoggingDisable,
        "tracking" => ConfigSubsystem::TrackingDisable,
        other => {
            let said = format!(
                "invalid subsys '{other}': only 'logging' and 'tracking' supported at this time"
            );
            return Err(Refusal::new(WHO, said));
        }
    };
    if state != "disable" {
        return Err(Refusal::new(WHO, "only 'disable' supported at this time"));
    }
    let word = |part: &&str, key: &str| pair(part).filter(|(k, _)| k == key).map(|(_, v)| v);
    let kind = match word(kind, "type").as_deref() {
        Some("tx") => ConfigKind::Transaction,
        Some("flow") => ConfigKind::Flow,
        _ => return Err(bad()),
    };
    let scope = match word(scope, "scope").as_deref() {
        Some("tx") => ConfigScope::Transaction,
        Some("flow") => ConfigScope::Flow,
        Some("packet") => ConfigScope::Packet,
        _ => return Err(bad()),
    };
    let on_packet = kind == ConfigKind::Flow && scope == ConfigScope::Packet;
    if subsystem == ConfigSubsystem::TrackingDisable
        && on_packet
        && d.hook != Some(RuleHook::PreFlow)
    {
        let said = "disabling flow tracking is only supported in 'pre_flow' hook";
        return Err(Refusal::new(WHO, said));
    }
    d.post.push(PostMatch::Config(ConfigAction { subsystem, kind, scope }));
    Ok(())
}
