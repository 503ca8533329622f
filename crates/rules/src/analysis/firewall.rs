//! `firewall.json`: the tables of the firewall with their policies and rules, as Suricata 8.0.7 writes it with
//! `--engine-analysis` (observed).

use super::Report;
use crate::action::Action;
use crate::signature::{RuleHook, RuleType, Signature, SignatureFlags};
use gabion_record::Direction;
use gabion_record::applayer::{ProtoId, ProtoTable};
use gabion_record::json::Json;

/// Protocols whose last state Suricata does not list.
const WITHOUT_END: [&str; 8] =
    ["imap", "jabber", "irc", "modbus", "enip", "dnp3", "pgsql", "template"];

const NONE_ACCEPTS: &str = "no accept rules for state, default policy will be applied";

/// The policies of the firewall's tables, as texts.
pub struct PolicyTexts<'a> {
    /// Of packets.
    pub packet: String,
    /// Of a state of a protocol.
    pub state: &'a dyn Fn(ProtoId, Direction, usize) -> String,
}

impl std::fmt::Debug for PolicyTexts<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PolicyTexts").field("packet", &self.packet).finish_non_exhaustive()
    }
}

/// The file's text, its end included.
pub fn firewall_json(r: &Report<'_>, policies: &PolicyTexts<'_>) -> Vec<u8> {
    let written = || r.set.signatures.iter().filter(|s| !s.header.swapped);
    let is_filter = |s: &&Signature| s.flags.has(SignatureFlags::FIREWALL);
    let is_of_app = |s: &&Signature| matches!(s.hook, Some(RuleHook::App { .. }));
    let of_detection =
        || written().filter(|s| !is_filter(s) && s.inert != Some("firewall.policies"));
    let mut j = Json::with_capacity(1 << 16);
    j.open();
    j.open_key("tables");
    table(&mut j, r, "packet:filter", &policies.packet, {
        let mut all: Vec<&Signature> =
            written().filter(|s| is_filter(s) && !is_of_app(s)).collect();
        all.sort_by_key(|s| (s.file, s.line));
        all
    });
    for protocol in r.catalog.tables() {
        write_protocol(&mut j, r, policies, protocol);
    }
    let is_tx = |s: &&Signature| s.kind == RuleType::AppTx;
    let accept = "accept:hook";
    table(&mut j, r, "packet:td", accept, of_detection().filter(|s| !is_tx(s)));
    table(&mut j, r, "app:td", accept, of_detection().filter(is_tx));
    j.close();
    j.open_key("lists");
    list(&mut j, r, "firewall", written().filter(is_filter));
    list(&mut j, r, "td", of_detection());
    list(&mut j, r, "all", written().filter(is_filter).chain(of_detection()));
    j.close();
    j.open_key("keyword_info");
    j.close();
    j.close();
    j.push(b"\n");
    j.take_bytes()
}

/// The tables of all states of a protocol, to the server and to the client.
fn write_protocol(
    j: &mut Json,
    r: &Report<'_>,
    policies: &PolicyTexts<'_>,
    (id, protocol): (ProtoId, &ProtoTable),
) {
    let common = ["", "request_started", "request_complete"];
    let is_named = protocol.states_to_server.iter().any(|name| !common.contains(name));
    j.open_key(protocol.eve_name);
    for direction in Direction::BOTH {
        let states = protocol.states(direction);
        for (number, state) in states.iter().enumerate() {
            let is_end = number > 0 && number + 1 == states.len();
            if !is_named && (state.is_empty() || is_end && WITHOUT_END.contains(&protocol.eve_name))
            {
                continue;
            }
            let shown = if is_named { (*state).to_owned() } else { state.replace('_', "-") };
            let name = format!("app:{}:{shown}", protocol.eve_name);
            let rules: Vec<&Signature> = r.set.signatures.iter().filter(|s| {
                matches!(s.hook, Some(RuleHook::App { proto, direction: of, progress, up_to })
                    if s.flags.has(SignatureFlags::FIREWALL)
                        && proto == id
                        && of == direction
                        && (usize::from(progress) == number || up_to && number < usize::from(progress)))
            }).collect();
            let accepts = rules.iter().any(|s| s.action == Action::Accept);
            let policy = (policies.state)(id, direction, number);
            open_table(j, r, &name, &policy, rules);
            if !accepts {
                j.open_array_key("warnings");
                j.item(NONE_ACCEPTS);
                j.close_array();
            }
            j.close();
        }
    }
    j.close();
}

fn table<'s>(
    j: &mut Json,
    r: &Report<'_>,
    name: &str,
    policy: &str,
    rules: impl IntoIterator<Item = &'s Signature>,
) {
    open_table(j, r, name, policy, rules);
    j.close();
}

fn open_table<'s>(
    j: &mut Json,
    r: &Report<'_>,
    name: &str,
    policy: &str,
    rules: impl IntoIterator<Item = &'s Signature>,
) {
    j.open_key(name);
    j.field("policy", policy);
    write_rules(j, r, rules);
}

fn list<'s>(
    j: &mut Json,
    r: &Report<'_>,
    name: &str,
    rules: impl IntoIterator<Item = &'s Signature>,
) {
    j.open_key(name);
    write_rules(j, r, rules);
    j.close();
}

fn write_rules<'s>(j: &mut Json, r: &Report<'_>, rules: impl IntoIterator<Item = &'s Signature>) {
    j.open_array_key("rules");
    for s in rules {
        j.item(r.set.text(s.raw));
    }
    j.close_array();
}
