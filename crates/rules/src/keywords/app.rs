//! Keywords that look at transactions and at protocol detection.

use crate::compiler::Compiler;
use crate::diagnostic::{Checked, Diagnostic, Refusal};
use crate::draft::{Choice, Draft, DraftTx, DraftTxTest};
use crate::integer::IntegerMatch;
use crate::keyword::{Setup, Value};
use crate::packet::{AppProtocolMode, AppProtocolTest, PacketCondition};
use crate::post::PostMatch;
use crate::rule_header::switched_off;
use gabion_record::Direction;
use gabion_record::applayer::{
    ConditionDef, DetectionEvent, Hook, Instances, IntegerDef, ProtoId, ProtoTable, Transport,
};

/// Keywords of this file.
pub(super) const KEYWORDS: &[(&str, Setup)] = &[
    ("app-layer-protocol", app_layer_protocol),
    ("app-layer-event", app_layer_event),
    ("app-layer-state", app_layer_state),
    ("tls_store", tls_store),
    ("ftpbounce", ftpbounce),
];

/// Binds the rule to one of these protocols, together with what it is bound to already.
///
/// Protocols that no name of a rule header covers together (files are carried by many) narrow a
/// binding but don't make one.
pub(super) fn restrict(c: &Compiler<'_>, d: &mut Draft<'_>, protos: &[ProtoId]) -> Checked<()> {
    bind_to(c, d, protos, "")
}

/// The same for a keyword of that name: a name that begins like a protocol's (`http.uri`) binds to
/// what rule headers mean by it.
pub(super) fn bind_to(
    c: &Compiler<'_>,
    d: &mut Draft<'_>,
    protos: &[ProtoId],
    keyword: &str,
) -> Checked<()> {
    match &mut d.apps {
        None => {
            let prefix = keyword.split('.').next().unwrap_or("");
            let named = c.catalog.protos_of_rule_name(prefix);
            let mut bound: Vec<ProtoId> =
                protos.iter().copied().filter(|p| named.contains(p)).collect();
            if bound.is_empty() && has_common_name(c, protos) {
                bound = protos.to_vec();
            }
            if bound.is_empty() {
                let is_files = keyword.starts_with("file.");
                d.choices.push(Choice { protos: protos.to_vec(), is_files });
                return Ok(());
            }
            // What carries the protocol of that very name in another one is no common protocol with the other one's
            // keywords: `dns.query` and `http.uri` are not asked together, though DNS over HTTP/2 has both.
            d.primary = c.catalog.proto(prefix).filter(|p| bound.contains(p));
            for choice in &d.choices {
                let name = bound.first().map_or("unknown", |p| c.proto_name(*p));
                bound.retain(|p| choice.protos.contains(p));
                if bound.is_empty() || d.primary.is_some_and(|p| !bound.contains(&p)) {
                    return Err(choice.refuse(name));
                }
            }
            if let Some(off) = c.disabled(&bound) {
                let said = format!("disabled alproto {off}, rule can never match");
                return Err(Refusal::new("detect-parse", said).because(switched_off(off)));
            }
            bound.sort_unstable();
            bound.dedup();
            d.apps = Some(bound);
            Ok(())
        }
        Some(_) if d.inert.is_some() => Ok(()),
        Some(bound) => {
            let both: Vec<ProtoId> = bound.iter().copied().filter(|p| protos.contains(p)).collect();
            let lacks_primary = d.primary.is_some_and(|p| !protos.contains(&p));
            if both.is_empty() || lacks_primary {
                let name = bound.first().map_or("unknown", |p| c.proto_name(*p));
                let said = format!("can't set rule app proto to failed: already set to {name}");
                return Err(Refusal::new("detect-parse", said)
                    .because("the rule is bound to another protocol"));
            }
            *bound = both;
            Ok(())
        }
    }
}

/// Whether some name that rule headers may use stands for all of these.
fn has_common_name(c: &Compiler<'_>, protos: &[ProtoId]) -> bool {
    let Some(first) = protos.first() else { return false };
    if protos.iter().all(|p| p == first) {
        return true;
    }
    let names = protos.iter().filter_map(|p| c.catalog.table(*p)).flat_map(|t| t.rule_names);
    names.into_iter().any(|name| {
        protos.iter().all(|p| c.catalog.table(*p).is_some_and(|t| t.rule_names.contains(name)))
    })
}

/// The hooks that protocols have by a keyword's name, each with its protocol.
fn hooks_of(
    c: &Compiler<'_>,
    of_table: impl Fn(&ProtoTable) -> Option<&'static [Hook]>,
) -> Vec<(ProtoId, Hook)> {
    let mut hooks = Vec::new();
    for (id, table) in c.catalog.tables() {
        hooks.extend(of_table(table).unwrap_or_default().iter().map(|hook| (id, *hook)));
    }
    hooks
}

/// Binds the rule to the protocols of a keyword's hooks.
fn bind(
    c: &Compiler<'_>,
    d: &mut Draft<'_>,
    keyword: &str,
    hooks: &[(ProtoId, Hook)],
) -> Checked<()> {
    let mut protos: Vec<ProtoId> = hooks.iter().map(|(p, _)| *p).collect();
    protos.sort_unstable();
    protos.dedup();
    bind_to(c, d, &protos, keyword)
}

/// An integer keyword of a protocol.
pub(super) fn integer(
    c: &mut Compiler<'_>,
    d: &mut Draft<'_>,
    def: &'static IntegerDef,
    v: Value<'_>,
) -> Checked<()> {
    // A name and the instance it stands for have no blanks between them and the comma.
    let begins = |text: &str| text.trim_start().starts_with(|c: char| c.is_ascii_alphabetic());
    let (text, instances) = match v.text.split_once(',') {
        Some((text, which)) if def.is_indexed => {
            let is_loose = which.starts_with(char::is_whitespace)
                || (text.ends_with(char::is_whitespace) && begins(text));
            (text, if is_loose { None } else { Instances::from_text(which) })
        }
        _ => (v.text, Some(Instances::Any)),
    };
    let parsed = match def.bits {
        [] => IntegerMatch::parse(text, def.width, def.names),
        bits => IntegerMatch::parse_flags(text, def.width, bits),
    };
    let (Some(test), Some(instances)) = (parsed, instances) else {
        return Err(Refusal::silent(format!(
            "`{}` takes a number or a comparison that some value can meet",
            def.name
        )));
    };
    let is_it = |i: &&'static IntegerDef| i.name == def.name;
    let hooks = hooks_of(c, |table| Some(table.integers.iter().find(is_it)?.hooks));
    bind(c, d, def.name, &hooks)?;
    d.last_was_packet = false;
    let test = DraftTxTest::Integer(test, instances);
    d.tx.push(DraftTx { keyword: def.name, test, hooks, after: d.buffers.len() });
    Ok(())
}

/// A keyword whose condition its protocol makes.
pub(super) fn condition(
    c: &mut Compiler<'_>,
    d: &mut Draft<'_>,
    def: &'static ConditionDef,
    v: Value<'_>,
) -> Checked<()> {
    let is_it = |i: &&'static ConditionDef| i.name == def.name;
    let hooks = hooks_of(c, |table| Some(table.conditions.iter().find(is_it)?.hooks));
    bind(c, d, def.name, &hooks)?;
    // the protocol reads the negation itself
    let negated = if v.negated { format!("!{}", v.text) } else { String::new() };
    let text = if v.negated { negated.as_str() } else { v.text };
    let made = (def.parse)(v.is_some.then_some(text))
        .map_err(|e| Refusal::new("detect", e.to_string()))?;
    if made.is_single() && d.tx.iter().any(|tx| tx.keyword == def.name) {
        let said = format!(
            "Can't use 2 or more {} declarations in the same sig. Invalidating signature.",
            def.name
        );
        return Err(Refusal::new("detect", said));
    }
    d.last_was_packet = false;
    let test = DraftTxTest::Condition(made);
    d.tx.push(DraftTx { keyword: def.name, test, hooks, after: d.buffers.len() });
    Ok(())
}

fn app_layer_event(c: &mut Compiler<'_>, d: &mut Draft<'_>, v: Value<'_>) -> Checked<()> {
    const WHO: &str = "detect-app-layer-event";
    let name = v.text;
    let Some((proto, event)) = name.split_once('.') else {
        let Some(event) = DetectionEvent::from_name(name) else {
            let said = format!("app-layer-event keyword supplied with unknown event \"{name}\"");
            return Err(Refusal::new(WHO, said));
        };
        d.push_packet("app-layer-event", PacketCondition::DetectionEvent(event));
        return Ok(());
    };
    let id =
        c.catalog.proto(proto).or_else(|| c.catalog.protos_of_rule_name(proto).first().copied());
    let Some((id, table)) = id
        .filter(|id| c.disabled(&[*id]).is_none())
        .and_then(|id| Some((id, c.catalog.table(id)?)))
    else {
        let said = format!("app-layer-event keyword supplied with unknown protocol \"{proto}\"");
        return Err(Refusal::new(WHO, said));
    };
    // Suricata 8.0.7 looks for the event over one transport: TCP, if the rule's header has it.
    let transport = [Transport::Tcp, Transport::Udp];
    let transport = transport.into_iter().find(|t| d.header.protos.contains(t.ip_proto()));
    let Some(transport) = transport else {
        return Err(Refusal::new(WHO, format!("protocol {proto} is disabled")));
    };
    let named = table.events.iter().find(|e| e.name.eq_ignore_ascii_case(event));
    let Some(def) = named.filter(|_| table.transports.contains(&transport)) else {
        let warning = Refusal::new(
            WHO,
            format!(
                "app-layer-event keyword's protocol \"{proto}\" doesn't have event \"{event}\" \
                 registered"
            ),
        );
        if !table.transports.contains(&transport) {
            let why =
                format!("the rule is for {}, over which it is not looked for", transport.name());
            return Err(warning.because(why).into_note().left_out());
        }
        c.warn(warning);
        let said = format!("event \"{event}\" not present in enum table.");
        return Err(Refusal::new(Diagnostic::APP_EVENTS, said).left_out());
    };
    let (code, from) = (def.code, table.events_from);
    restrict(c, d, &[id])?;
    d.tx.push(DraftTx {
        keyword: "app-layer-event",
        test: DraftTxTest::Event(code),
        hooks: Direction::BOTH.map(|dir| (id, Hook::new(dir, from[dir.index()], 0))).to_vec(),
        after: d.buffers.len(),
    });
    Ok(())
}

/// A `PORT` command that names another host, which its protocol decides.
fn ftpbounce(c: &mut Compiler<'_>, d: &mut Draft<'_>, v: Value<'_>) -> Checked<()> {
    match c.catalog.condition("ftpbounce") {
        Some(def) => condition(c, d, def, v),
        None => {
            d.inert.get_or_insert("ftpbounce");
            Ok(())
        }
    }
}

/// Restricts the rule to the protocols that have a keyword among their other ones; without them it can't match.
pub(super) fn restrict_to_owners(
    c: &Compiler<'_>,
    d: &mut Draft<'_>,
    keyword: &'static str,
) -> Checked<()> {
    let ids = c.catalog.protos_of_other_keyword(keyword);
    if ids.is_empty() {
        d.inert.get_or_insert(keyword);
        return Ok(());
    }
    restrict(c, d, &ids)
}

/// Marks the session's certificates for storing.
fn tls_store(c: &mut Compiler<'_>, d: &mut Draft<'_>, _: Value<'_>) -> Checked<()> {
    restrict_to_owners(c, d, "tls_store")?;
    d.post.push(PostMatch::TlsStore);
    Ok(())
}

fn app_layer_state(c: &mut Compiler<'_>, d: &mut Draft<'_>, v: Value<'_>) -> Checked<()> {
    let (greater, text) = match (v.text.strip_prefix('>'), v.text.strip_prefix('<')) {
        (Some(rest), _) => (Some(true), rest),
        (_, Some(rest)) => (Some(false), rest),
        _ => (None, v.text),
    };
    let text = &text.to_ascii_lowercase();
    let [id] = d.apps.as_deref().unwrap_or_default() else {
        return Err(Refusal::silent("`app-layer-state` needs a rule bound to one protocol"));
    };
    let id = *id;
    let found = c.catalog.table(id).and_then(|t| crate::rule_header::state_of(t, text));
    let Some((direction, progress)) = found else {
        return Err(Refusal::silent(format!("the protocol has no state \"{text}\"")));
    };
    let progress = u64::from(progress);
    let test = match greater {
        None => IntegerMatch::Equal(progress),
        Some(true) => IntegerMatch::Greater(progress),
        Some(false) => IntegerMatch::Less(progress),
    };
    d.tx.push(DraftTx {
        keyword: "app-layer-state",
        test: DraftTxTest::State(test),
        hooks: vec![(id, Hook::new(direction, 0, 0))],
        after: d.buffers.len(),
    });
    Ok(())
}

fn app_layer_protocol<'t>(c: &mut Compiler<'_>, d: &mut Draft<'t>, v: Value<'t>) -> Checked<()> {
    const WHO: &str = "detect-app-layer-protocol";
    let (name, mode) = match v.text.split_once(',') {
        Some((name, mode)) => (name.trim(), mode.trim()),
        None => (v.text.trim(), ""),
    };
    let (negated, name) = match name.strip_prefix('!') {
        Some(rest) if !v.negated => (true, rest.trim_start()),
        _ => (v.negated, name),
    };
    let mode = match mode {
        "" | "direction" => AppProtocolMode::Direction,
        "final" => AppProtocolMode::Final,
        "original" => AppProtocolMode::Original,
        "either" => AppProtocolMode::Either,
        "to_server" => AppProtocolMode::ToServer,
        "to_client" => AppProtocolMode::ToClient,
        other => {
            let said = format!(
                "app-layer-protocol keyword supplied with unknown qualifier \"{other}\" in \"{}\"",
                v.text
            );
            return Err(Refusal::new(WHO, said));
        }
    };
    let protocols: Vec<ProtoId> = match name {
        "failed" => vec![ProtoId::FAILED],
        "unknown" if negated => {
            let said = "app-layer-protocol keyword can't use negation with protocol 'unknown'";
            return Err(Refusal::new(WHO, said));
        }
        "unknown" => vec![ProtoId::UNKNOWN],
        _ => {
            let ids = c.catalog.protos_of_rule_name(name);
            if ids.is_empty() || c.disabled(&ids).is_some() {
                let said = format!(
                    "app-layer-protocol keyword supplied with unknown protocol \"{name}\" in \
                     \"{}\"; supported protocols: {}",
                    v.text,
                    supported(c)
                );
                return Err(Refusal::new(WHO, said));
            }
            ids
        }
    };
    if d.apps.is_some() && d.inert.is_none() {
        return Err(Refusal::new(
            WHO,
            "Either we already have the rule match on an app layer protocol set through other \
             keywords that match on this protocol, or have already seen a non-negated \
             app-layer-protocol.",
        ));
    }
    check_others(d, &protocols, negated, mode)?;
    let at = v.text.find(name).unwrap_or(0);
    let name = c.text(crate::lexer::Piece { text: name, at: v.at + at });
    let test = AppProtocolTest { protocols: protocols.into(), name, negated, mode };
    d.push_packet("app-layer-protocol", PacketCondition::AppProtocol(test));
    Ok(())
}

/// Several of these keywords under one mode must not contradict or repeat each other.
fn check_others(
    d: &Draft<'_>,
    protocols: &[ProtoId],
    negated: bool,
    mode: AppProtocolMode,
) -> Checked<()> {
    for p in &d.packet {
        let PacketCondition::AppProtocol(other) = &p.condition else { continue };
        if other.mode != mode {
            continue;
        }
        let overlap = other.protocols.iter().any(|x| protocols.contains(x));
        let said = match (other.negated, negated) {
            (false, false) => "multiple non-negated entries under the same mode",
            (true, true) if overlap => {
                "duplicate or overlapping negated entries under the same mode"
            }
            (true, true) => continue,
            _ => {
                "can't mix positive app-layer-protocol match with negated match or match for \
                 'failed'"
            }
        };
        return Err(Refusal::new(
            "detect-app-layer-protocol",
            format!("conflicting app-layer-protocol rules: {said}"),
        ));
    }
    Ok(())
}

fn supported(c: &Compiler<'_>) -> String {
    let mut names: Vec<&str> = Vec::new();
    for table in &c.catalog.protocols {
        for name in table.rule_names.iter().take(1) {
            if !names.contains(name) {
                names.push(name);
            }
        }
    }
    names.join(", ")
}
