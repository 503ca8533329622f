//! Keywords on the flow and its stream, and what a match does to them.

use super::{Setup, Value};
use crate::compiler::Compiler;
use crate::diagnostic::{Checked, Refusal};
use crate::draft::Draft;
use crate::integer::IntegerMatch;
use crate::packet::{FlowSide, FlowTest, PacketCondition, StreamSide, TcpPhases};
use crate::post::{ConfigAction, ConfigKind, ConfigScope, ConfigSubsystem, PostMatch};
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
    if d.flow.is_some() {
        let said = "A signature may have only one flow option.";
        return Err(Refusal::new(WHO, said));
    }
    let mut f = FlowTest::default();
    for word in v.text.split(',').map(str::trim) {
        set_word(&mut f, word).map_err(|said| Refusal::new(WHO, said))?;
    }
    if f.only_frag && f.no_frag {
        return Err(Refusal::new(WHO, "cannot set both only_frag and no_frag"));
    }
    if d.header.transactional && (f.to_server || f.to_client) {
        let said = format!(
            "rule {} means to use both directions, cannot specify a flow direction",
            d.sid.unwrap_or(0)
        );
        return Err(Refusal::new(WHO, said));
    }
    d.flow = Some(f);
    // direction and stream are facts of the header; only states are tested
    if f.has_state() {
        d.push_packet("flow", PacketCondition::Flow(f));
    }
    Ok(())
}

fn set_word(f: &mut FlowTest, word: &str) -> Result<(), String> {
    let once = |flag: &mut bool, name: &str| {
        if *flag {
            return Err(format!("DETECT_FLOW_FLAG_{name} flag is already set"));
        }
        *flag = true;
        Ok(())
    };
    let clash = |word: &str, name: &str| {
        Err(format!("cannot set {word}, DETECT_FLOW_FLAG_{name} already set"))
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
        _ => Err(format!("invalid flow option \"{word}\"")),
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
    let size = IntegerMatch::parse(&format!("{op}{n}"), IntegerWidth::U32, &[]).ok_or_else(bad)?;
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
    let bad = || Refusal::silent("a side (toserver, toclient, either, both) and a comparison");
    let (word, n) = v.text.split_once(',').ok_or_else(bad)?;
    let side = match word.trim() {
        "toserver" | "to_server" => FlowSide::ToServer,
        "toclient" | "to_client" => FlowSide::ToClient,
        "either" => FlowSide::Either,
        "both" => FlowSide::Both,
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
    let bad = || Refusal::new("detect-config", "config is rather picky at this time");
    let (mut subsystem, mut kind, mut scope) = (None, None, None);
    for part in v.text.split(',').map(str::trim) {
        let (key, value) = part.split_once(char::is_whitespace).ok_or_else(bad)?;
        match (key, value.trim()) {
            ("logging", "disable") => subsystem = Some(ConfigSubsystem::LoggingDisable),
            ("tracking", "disable") => subsystem = Some(ConfigSubsystem::TrackingDisable),
            ("type", "tx") => kind = Some(ConfigKind::Transaction),
            ("type", "flow") => kind = Some(ConfigKind::Flow),
            ("scope", "tx") => scope = Some(ConfigScope::Transaction),
            ("scope", "flow") => scope = Some(ConfigScope::Flow),
            _ => return Err(bad()),
        }
    }
    let (Some(subsystem), Some(kind), Some(scope)) = (subsystem, kind, scope) else {
        return Err(bad());
    };
    d.post.push(PostMatch::Config(ConfigAction { subsystem, kind, scope }));
    Ok(())
}
