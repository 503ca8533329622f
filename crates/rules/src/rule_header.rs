//! The part of a rule before its options: action, protocol, addresses, ports, direction.

use crate::action::Action;
use crate::address::AddressId;
use crate::compiler::Compiler;
use crate::diagnostic::{Checked, Refusal};
use crate::draft::{Draft, DraftHeader, List};
use crate::lexer::{Parts, Piece};
use crate::port::PortId;
use crate::signature::{ActionScope, FirewallPart, IpProtos, RuleHook, RuleNetwork};
use gabion_record::applayer::{ProtoId, ProtoTable};
use gabion_record::{Direction, IpProto};

/// Reads the header and opens a draft.
pub(crate) fn parse_header<'t>(
    c: &mut Compiler<'_>,
    rule: &'t str,
    parts: &Parts<'t>,
) -> Checked<Draft<'t>> {
    if !parts.has_options {
        return Err(Refusal::new("detect-parse", "no rule options.")
            .at(0, rule.len())
            .because("a rule is `action protocol source ports -> destination ports (options)`"));
    }
    let (bidirectional, transactional) = direction(parts.direction)?;
    let (action, firewall) = action(c, parts.action)?;
    let proto = protocol(c, parts.proto)?;
    let mut draft = open(rule, action, proto);
    draft.firewall = firewall;
    draft.header.transactional = transactional;
    check_firewall(c, &draft).map_err(|e| e.at(parts.proto.at, parts.proto.text.len()))?;
    let header = &mut draft.header;
    header.bidirectional = bidirectional;
    let place = |p: Piece<'_>| (p.at, p.text.len());
    let at = |e: Refusal, p: Piece<'_>| {
        let (start, len) = place(p);
        e.at(start, len)
    };
    header.src_is_any = parts.src.text.eq_ignore_ascii_case("any");
    header.dst_is_any = parts.dst.text.eq_ignore_ascii_case("any");
    header.src_ports_any = parts.src_ports.text.eq_ignore_ascii_case("any");
    header.dst_ports_any = parts.dst_ports.text.eq_ignore_ascii_case("any");
    header.src = c.address(parts.src.text).map_err(|e| at(e, parts.src))?;
    header.dst = c.address(parts.dst.text).map_err(|e| at(e, parts.dst))?;
    header.src_ports = c.port(parts.src_ports.text).map_err(|e| at(e, parts.src_ports))?;
    header.dst_ports = c.port(parts.dst_ports.text).map_err(|e| at(e, parts.dst_ports))?;
    header.has_negated_address = [header.src, header.dst]
        .iter()
        .any(|id| c.set.addresses.get(id.0 as usize).is_some_and(|s| s.has_negation));
    Ok(draft)
}

/// What firewall rules must have in addition to an action with a scope.
fn check_firewall(c: &Compiler<'_>, d: &Draft<'_>) -> Checked<()> {
    if !c.firewall_rules || d.inert.is_some() {
        return Ok(());
    }
    let Some(hook) = d.hook else {
        let said = format!(
            "rule {} is loaded as a firewall rule, but does not specify an explicit hook",
            d.sid_ahead()
        );
        return Err(Refusal::new("detect-parse", said));
    };
    let on_packet = d.firewall.is_some_and(|f| f.scope == ActionScope::Packet);
    let is_udp = d.header.protos.contains(IpProto::UDP);
    if matches!(hook, RuleHook::App { .. }) && on_packet && !is_udp {
        let said =
            format!("rule {} uses action scope \"packet\" for an non-UDP app hook", d.sid_ahead());
        return Err(Refusal::new("detect-parse", said));
    }
    let is_whole = d.header.action == Action::Accept && !on_packet;
    if matches!(hook, RuleHook::App { up_to: true, .. }) && !is_whole {
        let said = format!(
            "rule {}: auto-accept notation (<hook) can only be used with accept:flow, accept:tx \
             and accept:hook",
            d.sid_ahead()
        );
        return Err(Refusal::new("detect-parse", said));
    }
    if d.header.transactional {
        let said = "transactional bidirectional rules not supported for firewall rules";
        return Err(Refusal::new("detect-parse", said));
    }
    Ok(())
}

fn direction(p: Piece<'_>) -> Checked<(bool, bool)> {
    match p.text {
        "->" => Ok((false, false)),
        "<>" => Ok((true, false)),
        "=>" => Ok((false, true)),
        other => {
            let said = format!(
                "\"{other}\" is not a valid direction modifier, \"->\" and \"<>\" are supported."
            );
            Err(Refusal::new("detect-parse", said).at(p.at, p.text.len()))
        }
    }
}

/// The action word: `drop`, `drop:packet`, in firewall rules `accept:flow,alert,pass:flow`.
fn action(c: &Compiler<'_>, p: Piece<'_>) -> Checked<(Action, Option<FirewallPart>)> {
    let refuse = |said: String| Refusal::new("detect-parse", said).at(p.at, p.text.len());
    if c.firewall_rules {
        return firewall_action(p.text)
            .map(|(a, part)| (a, Some(part)))
            .map_err(|e| refuse(e.to_string()));
    }
    let (word, scope) = match p.text.split_once(':') {
        Some((word, scope)) => (word, Some(scope)),
        None => (p.text, None),
    };
    let Some(action) = action_of(word) else {
        let actions =
            ["alert", "pass", "drop", "reject", "rejectsrc", "rejectdst", "rejectboth", "config"];
        let near = gabion_record::near::nearest(word, actions);
        let near = near.map_or_else(
            || format!("it is one of {}", actions.join(", ")),
            |near| format!("did you mean `{near}`?"),
        );
        return Err(refuse(format!("An invalid action \"{word}\" was given")).because(near));
    };
    if action == Action::Accept {
        let said = "'accept' action only supported for firewall rules".to_string();
        return Err(refuse(said));
    }
    let Some(scope) = scope.filter(|s| !s.is_empty()) else { return Ok((action, None)) };
    let scope = scope_of(action, word, scope).map_err(|e| refuse(e.to_string()))?;
    Ok((action, Some(FirewallPart { scope, alerts: false, passes: None, order: 0 })))
}

/// What is wrong with the action of a firewall rule or policy, in Suricata's words.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FirewallActionError {
    /// No action has that name.
    #[error("An invalid action \"{word}\" was given")]
    NoAction {
        /// The name.
        word: String,
    },
    /// An action that may not come first.
    #[error(
        "only accept, config, drop and reject actions allowed as primary action firewall rules"
    )]
    NotFirst,
    /// An action that may only come first.
    #[error(
        "accept, config, drop and reject actions not allowed as secondary action firewall rules"
    )]
    NotSecond,
    /// The action has no scope.
    #[error("firewall rules require setting an explicit action scope")]
    NoScope,
    /// A scope that the action may not have.
    #[error("invalid action scope '{scope}' in action '{word}:{scope}': {allowed}")]
    Scope {
        /// The action.
        word: String,
        /// The scope.
        scope: String,
        /// Which scopes it may have.
        allowed: &'static str,
    },
    /// `pass` after another action than `accept`.
    #[error("'pass' is only supported as a secondary action for 'accept'")]
    PassWithoutAccept,
    /// Two actions of different scopes.
    #[error("multi-action rules cannot use different action scopes")]
    ScopesDiffer,
}

/// Action of a firewall rule or policy with its scope and secondary actions:
/// `accept:flow,alert,pass:flow`.
pub fn firewall_action(text: &str) -> Result<(Action, FirewallPart), FirewallActionError> {
    let (primary, others) = text.split_once(',').unwrap_or((text, ""));
    let (word, scope) = match primary.split_once(':') {
        Some((word, scope)) => (word, Some(scope)),
        None => (primary, None),
    };
    let Some(action) = action_of(word) else {
        return Err(FirewallActionError::NoAction { word: word.to_owned() });
    };
    if matches!(action, Action::Alert | Action::Pass) {
        return Err(FirewallActionError::NotFirst);
    }
    let Some(scope) = scope.filter(|s| !s.is_empty()) else {
        return Err(FirewallActionError::NoScope);
    };
    let scope = scope_of(action, word, scope)?;
    let mut part = FirewallPart { scope, alerts: false, passes: None, order: 0 };
    for secondary in others.split(',').map(str::trim).filter(|s| !s.is_empty()) {
        secondary_action(action, secondary, &mut part)?;
    }
    Ok((action, part))
}

fn secondary_action(
    primary: Action,
    text: &str,
    part: &mut FirewallPart,
) -> Result<(), FirewallActionError> {
    let (word, scope) = match text.split_once(':') {
        Some((word, scope)) => (word, Some(scope)),
        None => (text, None),
    };
    match word {
        "alert" => part.alerts = true,
        "pass" => {
            if primary != Action::Accept {
                return Err(FirewallActionError::PassWithoutAccept);
            }
            let scope = match scope {
                Some(scope) => scope_of(Action::Pass, word, scope)?,
                None => part.scope,
            };
            if scope != part.scope {
                return Err(FirewallActionError::ScopesDiffer);
            }
            part.passes = Some(scope);
        }
        _ if action_of(word).is_some() => {
            return Err(FirewallActionError::NotSecond);
        }
        _ => return Err(FirewallActionError::NoAction { word: word.to_owned() }),
    }
    Ok(())
}

fn action_of(word: &str) -> Option<Action> {
    Some(match word.to_ascii_lowercase().as_str() {
        "alert" => Action::Alert,
        "pass" => Action::Pass,
        "drop" => Action::Drop,
        "reject" | "rejectsrc" => Action::RejectSource,
        "rejectdst" => Action::RejectDestination,
        "rejectboth" => Action::RejectBoth,
        "config" => Action::Config,
        "accept" => Action::Accept,
        _ => return None,
    })
}

/// The scope, if the action may have it.
fn scope_of(action: Action, word: &str, scope: &str) -> Result<ActionScope, FirewallActionError> {
    let (scopes, allowed): (&[ActionScope], &'static str) = match action {
        Action::Accept => (
            &[ActionScope::Packet, ActionScope::Flow, ActionScope::Transaction, ActionScope::Hook],
            "only 'packet', 'flow', 'tx' and 'hook' allowed",
        ),
        Action::Config => (&[ActionScope::Packet], "only 'packet' allowed"),
        Action::Alert => (&[], "scope only supported for actions 'drop', 'pass' and 'reject'"),
        Action::Pass
        | Action::Drop
        | Action::RejectSource
        | Action::RejectDestination
        | Action::RejectBoth => {
            (&[ActionScope::Packet, ActionScope::Flow], "only 'packet' and 'flow' allowed")
        }
    };
    action_scope(scope).filter(|s| scopes.contains(s)).ok_or_else(|| FirewallActionError::Scope {
        word: word.to_owned(),
        scope: scope.to_owned(),
        allowed,
    })
}

fn action_scope(word: &str) -> Option<ActionScope> {
    Some(match word {
        "packet" => ActionScope::Packet,
        "flow" => ActionScope::Flow,
        "hook" => ActionScope::Hook,
        "tx" => ActionScope::Transaction,
        _ => return None,
    })
}

/// What the protocol word says.
struct ProtoPart {
    name: String,
    protos: IpProtos,
    network: RuleNetwork,
    pkthdr: bool,
    packets_only: bool,
    stream_only: bool,
    apps: Option<Vec<ProtoId>>,
    primary: Option<ProtoId>,
    hook: Option<RuleHook>,
    /// Why the rule can't match.
    inert: Option<&'static str>,
}

fn protocol(c: &Compiler<'_>, p: Piece<'_>) -> Checked<ProtoPart> {
    let (word, hook) = match p.text.split_once(':') {
        Some((word, hook)) => (word, Some(hook)),
        None => (p.text, None),
    };
    let name = word.to_ascii_lowercase();
    let mut part = ProtoPart {
        name: name.clone(),
        protos: IpProtos::default(),
        network: RuleNetwork::Any,
        pkthdr: false,
        packets_only: false,
        stream_only: false,
        apps: None,
        primary: None,
        hook: None,
        inert: None,
    };
    match name.as_str() {
        "tcp" => part.protos.insert(IpProto::TCP),
        "tcp-pkt" => {
            part.protos.insert(IpProto::TCP);
            part.packets_only = true;
        }
        "tcp-stream" => {
            part.protos.insert(IpProto::TCP);
            part.stream_only = true;
        }
        "udp" => part.protos.insert(IpProto::UDP),
        "sctp" => part.protos.insert(IpProto::SCTP),
        "icmp" => {
            part.protos.insert(IpProto::ICMP);
            part.protos.insert(IpProto::ICMPV6);
        }
        "icmpv4" => part.protos.insert(IpProto::ICMP),
        "icmpv6" => part.protos.insert(IpProto::ICMPV6),
        "ip" => part.protos = IpProtos::ALL,
        "ipv4" | "ip4" => {
            part.protos = IpProtos::ALL;
            part.network = RuleNetwork::Ipv4;
        }
        "ipv6" | "ip6" => {
            part.protos = IpProtos::ALL;
            part.network = RuleNetwork::Ipv6;
        }
        "pkthdr" => {
            part.protos = IpProtos::ALL;
            part.pkthdr = true;
        }
        _ => app_protocol(c, &mut part, word)
            .map_err(|e| e.at(p.at, word.len()).because(no_protocol(c, word)))?,
    }
    if let Some(hook) = hook {
        part.hook = read_hook(c, &part, word, hook).map_err(|e| e.at(p.at, p.text.len()))?;
        part.inert = part.hook.is_none().then_some("hook");
    }
    Ok(part)
}

/// That the protocol is switched off, or that there is none, and the one that is written most like it.
fn no_protocol(c: &Compiler<'_>, word: &str) -> String {
    if c.disabled(&c.catalog.protos_of_rule_name(word)).is_some() {
        return switched_off(word);
    }
    let plain =
        ["tcp", "udp", "icmp", "ip", "ipv4", "ipv6", "sctp", "tcp-pkt", "tcp-stream", "pkthdr"];
    let known = c.catalog.protocols.iter().flat_map(|p| p.rule_names.iter().copied());
    match gabion_record::near::nearest(word, plain.into_iter().chain(known)) {
        Some(near) if near != word => format!("no such protocol: did you mean `{near}`?"),
        _ => "no such protocol".to_owned(),
    }
}

/// Why no rule for a protocol of this name is loaded, and what to do.
pub(crate) fn switched_off(name: &str) -> String {
    format!("the configuration switches `{name}` off: see `enabled` in app-layer.protocols")
}

/// The registry's name of the one protocol that rules call by this name (`ikev2` is `ike`), else the name itself.
fn current_name<'a>(c: &'a Compiler<'_>, name: &'a str) -> &'a str {
    match c.catalog.protos_of_rule_name(name).as_slice() {
        [one] => c.catalog.table(*one).map_or(name, |t| t.name),
        _ => name,
    }
}

fn app_protocol(c: &Compiler<'_>, part: &mut ProtoPart, word: &str) -> Checked<()> {
    let name = current_name(c, &part.name);
    let refuse = || {
        let said = format!(
            "protocol \"{word}\" cannot be used in a signature.  Either detection for this \
             protocol is not yet supported OR detection has been disabled for protocol through \
             the yaml option app-layer.protocols.{word}.detection-enabled"
        );
        Refusal::new("detect-parse", said)
    };
    if c.options.disabled_protocols.iter().any(|d| d == name) {
        return Err(refuse());
    }
    let ids = c.catalog.protos_of_rule_name(name);
    if ids.is_empty() {
        return Err(refuse());
    }
    for table in ids.iter().filter_map(|id| c.catalog.table(*id)) {
        for transport in table.transports {
            part.protos.insert(transport.ip_proto());
        }
    }
    part.primary = c.catalog.proto(name).filter(|id| ids.contains(id));
    part.apps = Some(ids);
    Ok(())
}

/// The hook of a rule. None: one of a name for several protocols (`http:request_started`), on which Suricata 8.0.7 loads
/// the rule and never asks it.
fn read_hook(
    c: &Compiler<'_>,
    part: &ProtoPart,
    word: &str,
    hook: &str,
) -> Checked<Option<RuleHook>> {
    let unsupported = || {
        let said = format!("protocol \"{word}\" does not support hook \"{hook}\"");
        Refusal::new("detect-parse", said)
    };
    let Some(apps) = &part.apps else {
        return match hook {
            "pre_flow" => Ok(Some(RuleHook::PreFlow)),
            "pre_stream" => Ok(Some(RuleHook::PreStream)),
            "flow_start" => Ok(Some(RuleHook::FlowStart)),
            "all" => Ok(Some(RuleHook::AllPackets)),
            _ => Err(unsupported()),
        };
    };
    let (up_to, state) = match hook.strip_prefix('<') {
        Some(state) => (true, state),
        None => (false, hook),
    };
    // a name for several protocols (`http`) has no states of its own
    let [proto] = apps.as_slice() else {
        let own = apps.iter().find(|id| c.catalog.table(**id).is_some_and(|t| t.name == part.name));
        return match own {
            Some(proto) => app_hook(c, *proto, state, up_to).map(Some).ok_or_else(unsupported),
            None if STATES_OF_ALL.contains(&state) => Ok(None),
            None => Err(unsupported()),
        };
    };
    app_hook(c, *proto, state, up_to).map(Some).ok_or_else(unsupported)
}

/// States that every protocol has.
const STATES_OF_ALL: [&str; 4] =
    ["request_started", "request_complete", "response_started", "response_complete"];

fn app_hook(c: &Compiler<'_>, proto: ProtoId, state: &str, up_to: bool) -> Option<RuleHook> {
    let table = c.catalog.table(proto)?;
    let (direction, progress) = state_of(table, state)?;
    Some(RuleHook::App { proto, direction, progress, up_to })
}

/// Direction and progress of a state: one of the protocol's own, or one of the four that every
/// protocol has.
pub(crate) fn state_of(table: &ProtoTable, state: &str) -> Option<(Direction, u8)> {
    for direction in Direction::BOTH {
        if let Some(at) = table.states(direction).iter().position(|s| *s == state) {
            return Some((direction, u8::try_from(at).ok()?));
        }
    }
    let last = |d: Direction| table.last_state(d).max(1);
    Some(match state {
        "request_started" => (Direction::ToServer, 0),
        "request_complete" => (Direction::ToServer, last(Direction::ToServer)),
        "response_started" => (Direction::ToClient, 0),
        "response_complete" => (Direction::ToClient, last(Direction::ToClient)),
        _ => return None,
    })
}

fn open(rule: &str, action: Action, proto: ProtoPart) -> Draft<'_> {
    Draft {
        rule,
        header: DraftHeader {
            action,
            protos: proto.protos,
            network: proto.network,
            pkthdr: proto.pkthdr,
            packets_only: proto.packets_only,
            stream_only: proto.stream_only,
            proto_name: proto.name,
            src: AddressId::ANY,
            dst: AddressId::ANY,
            src_ports: PortId::ANY,
            dst_ports: PortId::ANY,
            src_is_any: true,
            dst_is_any: true,
            src_ports_any: true,
            dst_ports_any: true,
            bidirectional: false,
            transactional: false,
            has_negated_address: false,
        },
        hook: proto.hook,
        firewall: None,
        gid: 1,
        sid: None,
        rev: None,
        msg: None,
        class: None,
        priority: None,
        class_priority: None,
        references: Vec::new(),
        metadata: Vec::new(),
        target: None,
        flow: None,
        packet: Vec::new(),
        buffers: Vec::new(),
        base64: Vec::new(),
        files: Vec::new(),
        files_side: None,
        tx: Vec::new(),
        post: Vec::new(),
        threshold: None,
        detection_filter: None,
        list: List::NotSet,
        transforms_allowed: false,
        primary: proto.primary,
        apps: proto.apps,
        choices: Vec::new(),
        byte_variables: Vec::new(),
        noalert: false,
        alert_keyword: false,
        bypass: false,
        prefilter: None,
        needs_packet: false,
        is_app_layer: false,
        inert: proto.inert,
        last_was_packet: false,
        order: 0,
    }
}
