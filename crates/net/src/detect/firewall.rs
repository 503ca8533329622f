//! The tables of firewall mode: where each firewall rule is evaluated, and what happens when no rule
//! decides.
//!
//! Tables, in the order a packet meets them (Suricata's names): `packet:pre_flow`,
//! `packet:pre_stream`, `packet:filter`, then for each transaction one table a state of its protocol,
//! `app:filter`. Threat detection (all other rules) follows the packet's table and each transaction.
//! Within a table rules keep the order of their files.

use crate::error::{ConfigError, scope_name};
use gabion_record::applayer::{Catalog, ProtoId, ProtoTable};
use gabion_record::{Direction, Tree};
use gabion_rules::compiled::{ActionScope, FirewallPart, RuleHook};
use gabion_rules::{Action, Ruleset, Signature, SignatureFlags};

/// What happens at the end of a table if no rule has decided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Policy {
    pub(crate) action: Action,
    pub(crate) part: FirewallPart,
}

impl Policy {
    const fn new(action: Action, scope: ActionScope) -> Policy {
        Policy { action, part: FirewallPart { scope, alerts: false, passes: None, order: 0 } }
    }

    const ACCEPT_HOOK: Policy = Policy::new(Action::Accept, ActionScope::Hook);
    const DROP_PACKET: Policy = Policy::new(Action::Drop, ActionScope::Packet);
    const DROP_FLOW: Policy = Policy::new(Action::Drop, ActionScope::Flow);
}

/// The policies of a configuration (`firewall.policies`).
#[derive(Clone, Debug)]
pub struct FirewallPolicies {
    pre_flow: Policy,
    pre_stream: Policy,
    packet: Policy,
    /// By protocol id, direction and state.
    app: Vec<[Vec<Policy>; 2]>,
    accept_arp: bool,
}

/// Where the configuration has the policies.
const POLICIES: &str = "firewall.policies";

impl FirewallPolicies {
    /// Reads them: `packet.pre-flow`, `packet.pre-stream`, `packet.filter` and for protocols
    /// `app.PROTOCOL.STATE`; each with a `default-policy` one and two levels up. A policy is a list:
    /// an action with its scope, then secondary actions.
    pub fn from_tree(config: &Tree, catalog: &Catalog) -> Result<FirewallPolicies, ConfigError> {
        use ActionScope::{Flow, Hook, Packet, Transaction};
        let packet = |name: &str, otherwise: Policy| {
            let paths = [format!("packet.{name}"), "packet.default-policy".to_string()];
            policy(config, &paths, &[Packet, Flow, Hook]).map(|p| p.unwrap_or(otherwise))
        };
        let mut app = vec![Default::default()];
        for table in &catalog.protocols {
            let name = table.name;
            let both = Direction::BOTH.map(|d| -> Result<Vec<Policy>, ConfigError> {
                let of = |state: &&str| {
                    let state = state.replace('_', "-");
                    let paths = [
                        format!("app.{name}.{state}"),
                        format!("app.{name}.default-policy"),
                        "app.default-policy".to_string(),
                    ];
                    policy(config, &paths, &[Flow, Transaction, Hook])
                        .map(|p| p.unwrap_or(Policy::DROP_FLOW))
                };
                table.states(d).iter().map(of).collect()
            });
            let [to_server, to_client] = both;
            app.push([to_server?, to_client?]);
        }
        Ok(FirewallPolicies {
            pre_flow: packet("pre-flow", Policy::ACCEPT_HOOK)?,
            pre_stream: packet("pre-stream", Policy::ACCEPT_HOOK)?,
            packet: packet("filter", Policy::DROP_PACKET)?,
            app,
            // Suricata reads the second spelling
            accept_arp: ["firewall.policies.accept-arp", "firewall.policiecies.accept-arp"]
                .iter()
                .any(|key| config.flag(key) == Some(true)),
        })
    }

    /// The policy of packets, as Suricata's reports show it.
    pub fn packet_text(&self) -> String {
        policy_text(self.packet.action, &self.packet.part, self.packet.part.alerts)
    }

    /// The policy of a state of a protocol.
    pub fn state_text(&self, proto: ProtoId, direction: Direction, state: usize) -> String {
        let of_proto = self.app.get(usize::from(proto.0));
        let policy = of_proto.and_then(|both| both[direction.index()].get(state));
        let policy = policy.copied().unwrap_or(Policy::DROP_FLOW);
        policy_text(policy.action, &policy.part, policy.part.alerts)
    }
}

/// The policy at the first of these paths that is set.
fn policy(
    config: &Tree,
    paths: &[String],
    scopes: &[ActionScope],
) -> Result<Option<Policy>, ConfigError> {
    for path in paths {
        let path = format!("{POLICIES}.{path}");
        let Some(node) = config.get(&path) else { continue };
        let items: Vec<&str> =
            node.children.iter().filter_map(|(_, item)| item.value.as_deref()).collect();
        if items.is_empty() {
            return Err(ConfigError::EmptyPolicy { path });
        }
        let (action, part) = gabion_rules::firewall_action(&items.join(","))?;
        if action == Action::Config {
            return Err(ConfigError::ConfigPolicy { path });
        }
        if !scopes.contains(&part.scope) {
            let (scope, valid) = (part.scope, scopes.to_vec());
            return Err(ConfigError::PolicyScope { path, scope, valid });
        }
        return Ok(Some(Policy { action, part }));
    }
    Ok(None)
}

fn action_name(action: Action) -> &'static str {
    match action {
        Action::Alert => "alert",
        Action::Pass => "pass",
        Action::Drop => "drop",
        Action::RejectSource => "rejectsrc",
        Action::RejectDestination => "rejectdst",
        Action::RejectBoth => "rejectboth",
        Action::Config => "config",
        Action::Accept => "accept",
    }
}

/// An action with everything that belongs to it, as records show it: `accept:flow,pass:flow,alert`.
pub(crate) fn policy_text(action: Action, part: &FirewallPart, alerts: bool) -> String {
    let mut text = format!("{}:{}", action_name(action), scope_name(part.scope));
    if let Some(scope) = part.passes {
        text.push_str(",pass:");
        text.push_str(scope_name(scope));
    }
    if alerts {
        text.push_str(",alert");
    }
    text
}

/// Whether a protocol's states have names of their own. Records leave out those that every protocol
/// has.
pub(crate) fn has_named_states(table: &ProtoTable) -> bool {
    let common = ["", "request_started", "request_complete"];
    table.states_to_server.iter().any(|name| !common.contains(name))
}

/// Name of the table that a hook belongs to. Protocols whose states have no names of their own have
/// none.
pub(crate) fn hook_name(hook: RuleHook, catalog: &Catalog) -> Option<String> {
    Some(match hook {
        RuleHook::PreFlow => "packet:pre_flow".to_string(),
        RuleHook::PreStream => "packet:pre_stream".to_string(),
        RuleHook::FlowStart | RuleHook::AllPackets => "packet:filter".to_string(),
        RuleHook::App { proto, direction, progress, .. } => {
            let table = catalog.table(proto)?;
            if !has_named_states(table) {
                return None;
            }
            let state = table.states(direction).get(usize::from(progress))?;
            format!("{}:{state}", table.eve_name)
        }
    })
}

/// The table of one state of a protocol.
#[derive(Debug)]
pub(crate) struct StateTable {
    pub(crate) rules: Vec<u32>,
    pub(crate) policy: Policy,
}

/// The tables of one direction of a protocol.
#[derive(Debug, Default)]
pub(crate) struct AppTables {
    pub(crate) states: Vec<StateTable>,
    /// Rules that accept all states before their own (`<`), with that one.
    pub(crate) up_to: Vec<(u8, u32)>,
}

/// All tables of a rule set.
#[derive(Debug)]
pub(crate) struct Firewall {
    pub(crate) pre_flow: Vec<u32>,
    pub(crate) pre_flow_policy: Policy,
    pub(crate) pre_stream: Vec<u32>,
    pub(crate) pre_stream_policy: Policy,
    pub(crate) packet: Vec<u32>,
    pub(crate) packet_policy: Policy,
    /// By protocol id and direction.
    pub(crate) app: Vec<[AppTables; 2]>,
    pub(crate) accept_arp: bool,
}

impl Firewall {
    /// Sorts the firewall rules of a set into their tables.
    pub(crate) fn new(set: &Ruleset, policies: FirewallPolicies) -> Firewall {
        let app = policies.app.into_iter().map(|both| {
            both.map(|states| AppTables {
                states: states
                    .into_iter()
                    .map(|policy| StateTable { rules: Vec::new(), policy })
                    .collect(),
                up_to: Vec::new(),
            })
        });
        let mut f = Firewall {
            pre_flow: Vec::new(),
            pre_flow_policy: policies.pre_flow,
            pre_stream: Vec::new(),
            pre_stream_policy: policies.pre_stream,
            packet: Vec::new(),
            packet_policy: policies.packet,
            app: app.collect(),
            accept_arp: policies.accept_arp,
        };
        for (at, s) in set.signatures.iter().enumerate() {
            if s.flags.has(SignatureFlags::FIREWALL) && s.inert.is_none() {
                f.add(at as u32, s);
            }
        }
        f
    }

    fn add(&mut self, at: u32, s: &Signature) {
        match s.hook {
            Some(RuleHook::PreFlow) => self.pre_flow.push(at),
            Some(RuleHook::PreStream) => self.pre_stream.push(at),
            Some(RuleHook::FlowStart | RuleHook::AllPackets) => self.packet.push(at),
            Some(RuleHook::App { proto, direction, progress, up_to }) => {
                let Some(tables) = self.app.get_mut(usize::from(proto.0)) else { return };
                let tables = &mut tables[direction.index()];
                if let Some(state) = tables.states.get_mut(usize::from(progress)) {
                    state.rules.push(at);
                }
                if up_to {
                    tables.up_to.push((progress, at));
                }
            }
            None => {}
        }
    }

    /// The tables of a protocol's direction.
    pub(crate) fn app(&self, proto: ProtoId, direction: Direction) -> Option<&AppTables> {
        self.app.get(usize::from(proto.0)).map(|t| &t[direction.index()])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tree(path: &str, items: &[&str]) -> Tree {
        let mut t = Tree::default();
        for (n, item) in items.iter().enumerate() {
            t.set(&format!("{POLICIES}.{path}.{n}"), item);
        }
        t
    }

    /// Refusals in the words of Suricata 8.0.7 for the same settings.
    #[test]
    fn policies_are_read_and_checked() {
        use ActionScope::{Flow, Hook, Transaction};
        let read = |items: &[&str]| {
            policy(
                &tree("app.http1.request-line", items),
                &["app.http1.request-line".into()],
                &[Flow, Transaction, Hook],
            )
        };
        let p = read(&["accept:flow", "pass:flow", "alert"]).unwrap().unwrap();
        assert_eq!(policy_text(p.action, &p.part, p.part.alerts), "accept:flow,pass:flow,alert");
        assert_eq!(
            read(&["drop:packet"]).unwrap_err().to_string(),
            "firewall.policies.app.http1.request-line: action scope (\"packet\") is not valid. \
             Valid scopes: flow/tx/hook"
        );
        assert_eq!(
            read(&["accept:hook", "pass:flow"]).unwrap_err().to_string(),
            "multi-action rules cannot use different action scopes"
        );
        assert_eq!(
            read(&["accept:foo"]).unwrap_err().to_string(),
            "invalid action scope 'foo' in action 'accept:foo': only 'packet', 'flow', 'tx' and \
             'hook' allowed"
        );
    }
}
