//! `rule_group.json`: which rules are examined for packets of which ports, as Suricata groups them.
//!
//! The ports that rules of one IP protocol and direction name are cut where the set of rules
//! changes. What costs most comes first: groups with ports of high priority or with rules that
//! are tried often, then those with many rules. Ranges with the same rules share a number. This
//! sensor finds its rules in another way; the report is what Suricata's users compare.

use super::{Report, app_proto_name};
use crate::content::{BufferCondition, ContentFlags};
use crate::packet::PacketCondition;
use crate::port::PortSet;
use crate::signature::{BufferRef, RuleType, Signature, SignatureFlags};
use gabion_record::json::Json;
use gabion_record::{Direction, IpProto};

/// How groups are made and shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupOptions {
    /// Ports of TCP that have groups of their own first.
    pub tcp_ports: Vec<u16>,
    /// Ports of UDP.
    pub udp_ports: Vec<u16>,
    /// Groups at most: to servers, to clients. What is beyond them shares one.
    pub most: [usize; 2],
    /// The ids of the rules are in their groups.
    pub include_rules: bool,
}

impl Default for GroupOptions {
    /// As Suricata's (8.0) with its medium profile.
    fn default() -> GroupOptions {
        GroupOptions {
            tcp_ports: vec![53, 80, 139, 443, 445, 1433, 3306, 3389, 6666, 6667, 8080],
            udp_ports: vec![53, 135, 5060],
            most: [25, 3],
            include_rules: false,
        }
    }
}

/// Suricata's worth of a group with a port of high priority.
const PRIORITY: u32 = 111;

const ICMP: u8 = IpProto::ICMP.0;
const TCP: u8 = IpProto::TCP.0;
const UDP: u8 = IpProto::UDP.0;
const ICMPV6: u8 = IpProto::ICMPV6.0;

/// A range of ports and the rules (places in the set) examined for it.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Group {
    first: u16,
    last: u16,
    rules: Vec<usize>,
    score: u32,
}

/// Numbers of rule lists: the same list has the same number everywhere.
#[derive(Default)]
struct Numbers {
    lists: Vec<Vec<usize>>,
}

impl Numbers {
    fn number_of(&mut self, rules: &[usize]) -> usize {
        self.lists.iter().position(|l| l == rules).unwrap_or_else(|| {
            self.lists.push(rules.to_vec());
            self.lists.len() - 1
        })
    }
}

/// The report.
pub fn rule_groups(r: &Report<'_>, o: &GroupOptions) -> Vec<u8> {
    let mut j = Json::new();
    let mut numbers = Numbers::default();
    // Numbers are given in this order, which is not that of the report.
    let ports: Vec<[Vec<Group>; 2]> = [(TCP, &o.tcp_ports), (UDP, &o.udp_ports)]
        .into_iter()
        .map(|(proto, favoured)| {
            [Direction::ToServer, Direction::ToClient].map(|direction| {
                let groups = grouped(r, o, proto, direction, favoured);
                for g in &groups {
                    numbers.number_of(&g.rules);
                }
                groups
            })
        })
        .collect();
    j.open();
    for (n, (name, proto)) in [("icmpv4", ICMP), ("icmpv6", ICMPV6)].into_iter().enumerate() {
        whole(r, o, name, proto, &mut numbers, &mut j);
        if n > 0 {
            break;
        }
        for (name, sides) in ["tcp", "udp"].into_iter().zip(&ports) {
            j.open_key(name);
            for (side, groups) in ["toserver", "toclient"].into_iter().zip(sides) {
                j.open_array_key(side);
                for g in groups {
                    j.open();
                    j.number("port", g.first);
                    j.number("port2", g.last);
                    group(r, o, numbers.number_of(&g.rules), &g.rules, g.score, &mut j);
                    j.close();
                }
                j.close_array();
            }
            j.close();
        }
    }
    j.close();
    j.take_bytes()
}

/// Whether rules of that kind are found through groups at all.
fn is_grouped(s: &Signature, proto: u8, direction: Direction) -> bool {
    s.inert.is_none()
        && !matches!(s.kind, RuleType::IpOnly | RuleType::PdOnly)
        && s.header.protos.contains(IpProto(proto))
        && s.inspects(direction)
}

/// A protocol without ports.
fn whole(
    r: &Report<'_>,
    o: &GroupOptions,
    name: &str,
    proto: u8,
    numbers: &mut Numbers,
    j: &mut Json,
) {
    j.open_key(name);
    for (side, direction) in [("toserver", Direction::ToServer), ("toclient", Direction::ToClient)]
    {
        let rules: Vec<usize> = (0..)
            .zip(&r.set.signatures)
            .filter(|(_, s)| is_grouped(s, proto, direction))
            .map(|(at, _)| at)
            .collect();
        if rules.is_empty() {
            continue;
        }
        j.open_key(side);
        group(r, o, numbers.number_of(&rules), &rules, 0, j);
        j.close();
    }
    j.close();
}

/// The groups of a protocol and direction, dearest first.
fn grouped(
    r: &Report<'_>,
    o: &GroupOptions,
    proto: u8,
    direction: Direction,
    favoured: &[u16],
) -> Vec<Group> {
    let any = PortSet::any();
    let ports_of = |s: &Signature| {
        let id = match direction {
            Direction::ToServer => s.header.dst_ports,
            Direction::ToClient => s.header.src_ports,
        };
        r.set.ports.get(id.0 as usize).unwrap_or(&any)
    };
    let rules: Vec<(usize, &Signature)> =
        (0..).zip(&r.set.signatures).filter(|(_, s)| is_grouped(s, proto, direction)).collect();
    let mut cuts: Vec<u32> = Vec::new();
    for (_, s) in &rules {
        for (first, last) in &ports_of(s).ranges {
            cuts.extend([u32::from(*first), u32::from(*last) + 1]);
        }
    }
    cuts.sort_unstable();
    cuts.dedup();
    let mut groups: Vec<Group> = cuts
        .windows(2)
        .filter_map(|w| {
            let first = u16::try_from(*w.first()?).ok()?;
            let last = u16::try_from(w.last()? - 1).ok()?;
            let here = || rules.iter().filter(|(_, s)| ports_of(s).contains(first));
            let is_favoured = favoured.iter().any(|p| first <= *p && *p <= last) && first == last;
            let score = if is_favoured { PRIORITY } else { 0 };
            let worth = here().map(|(_, s)| worth(s, ports_of(s).is_any())).max()?;
            let rules = here().map(|(at, _)| *at).collect();
            Some(Group { first, last, rules, score: score.max(worth) })
        })
        .collect();
    groups.sort_by_key(|g| (std::cmp::Reverse(g.score), std::cmp::Reverse(g.rules.len()), g.first));
    let most = o.most[usize::from(direction == Direction::ToClient)];
    join(groups, most)
}

/// Lets the lists beyond this number of different ones share one group.
fn join(groups: Vec<Group>, most: usize) -> Vec<Group> {
    let mut lists: Vec<Vec<usize>> = Vec::new();
    let mut kept: Vec<Group> = Vec::new();
    let mut rest: Option<Group> = None;
    for g in groups {
        if lists.contains(&g.rules) {
            kept.push(g);
        } else if lists.len() < most.max(1) {
            lists.push(g.rules.clone());
            kept.push(g);
        } else if let Some(all) = &mut rest {
            all.score = all.score.max(g.score);
            all.rules.extend(g.rules);
            all.rules.sort_unstable();
            all.rules.dedup();
        } else {
            // It is for all ports, whichever its rules name.
            rest = Some(Group { first: 0, last: u16::MAX, ..g });
        }
    }
    kept.extend(rest);
    kept
}

/// How much a rule asks for a group of its own: those tried often do, unless they are for any port.
fn worth(s: &Signature, is_for_any_port: bool) -> u32 {
    if is_for_any_port {
        return 0;
    }
    let only_syn =
        |p: &PacketCondition| matches!(p, PacketCondition::TcpFlags(t) if t.flags & 0x02 != 0);
    match s.fast_content() {
        None if inspects_payload(s) => 99,
        Some(c) if c.flags.has(ContentFlags::NEGATED) => 77,
        Some(c) if c.bytes.len() == 1 && is_payload_pattern(s) => 55,
        _ if s.packet.iter().any(only_syn) => 33,
        _ => 0,
    }
}

fn inspects_payload(s: &Signature) -> bool {
    s.payload().is_some_and(|b| !b.conditions.is_empty())
}

fn is_payload_pattern(s: &Signature) -> bool {
    s.fast_buffer().is_some_and(|b| b.buffer == BufferRef::Payload)
}

fn group(r: &Report<'_>, o: &GroupOptions, id: usize, rules: &[usize], score: u32, j: &mut Json) {
    let all = || rules.iter().filter_map(|at| r.set.signatures.get(*at));
    j.open_key("rulegroup");
    j.number("id", id);
    if o.include_rules {
        j.open_array_key("rules");
        for s in all() {
            j.open();
            j.number("sig_id", s.sid);
            j.close();
        }
        j.close_array();
    }
    j.open_key("stats");
    j.number("total", rules.len());
    types(all(), j);
    protocols(r, all(), j);
    j.close();
    j.number("score", score);
    j.close();
}

/// How many rules of each kind there are.
fn types<'s>(rules: impl Iterator<Item = &'s Signature> + Clone, j: &mut Json) {
    let count = |f: &dyn Fn(&Signature) -> bool| rules.clone().filter(|s| f(s)).count();
    let fast =
        |f: ContentFlags| move |s: &Signature| s.fast_content().is_some_and(|c| c.flags.has(f));
    let has_depth = |s: &Signature| s.fast_content().is_some_and(|c| c.depth.is_some());
    j.open_key("types");
    j.number("mpm", count(&|s| s.fast_content().is_some()));
    j.number("non_mpm", count(&|s| s.fast_content().is_none()));
    j.number("mpm_depth", count(&has_depth));
    j.number("mpm_endswith", count(&fast(ContentFlags::ENDS_WITH)));
    j.number("negated_mpm", count(&fast(ContentFlags::NEGATED)));
    j.number("payload_but_no_mpm", count(&|s| s.fast_content().is_none() && inspects_payload(s)));
    j.number("prefilter", count(&|s| s.prefilter.is_some()));
    j.number(
        "syn",
        count(&|s| {
            s.packet
                .iter()
                .any(|p| matches!(p, PacketCondition::TcpFlags(t) if t.flags & 0x02 != 0))
        }),
    );
    let any = SignatureFlags::SRC_ANY.0
        | SignatureFlags::DST_ANY.0
        | SignatureFlags::SP_ANY.0
        | SignatureFlags::DP_ANY.0;
    let is_any =
        |s: &Signature| s.flags.0 & any == any && s.header.protos.contains(IpProto(u8::MAX));
    j.number("any5", count(&is_any));
    j.close();
}

/// How many rules of each application protocol there are; those without one are `payload`.
fn protocols<'s>(r: &Report<'_>, rules: impl Iterator<Item = &'s Signature> + Clone, j: &mut Json) {
    let name =
        |s: &Signature| if s.header.apps.is_empty() { "payload" } else { app_proto_name(r, s) };
    let mut names: Vec<&str> = Vec::new();
    for s in rules.clone() {
        if !names.contains(&name(s)) {
            names.push(name(s));
        }
    }
    names.sort_by_key(|n| *n != "payload");
    for n in names {
        let own = || rules.clone().filter(|s| name(s) == n);
        j.open_key(n);
        j.number("total", own().count());
        if n == "payload" {
            let looks = |s: &&Signature| {
                s.payload().is_some_and(|b| {
                    b.conditions.iter().any(|c| matches!(c, BufferCondition::Content(_)))
                })
            };
            let n = own().filter(looks).count();
            if n > 0 {
                j.number("payload", n);
            }
        }
        j.close();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_beyond_the_most_share_a_group_for_all_ports_and_equal_ones_a_number() {
        let of =
            |first, last, rules: &[usize]| Group { first, last, rules: rules.into(), score: 0 };
        let groups = vec![
            of(80, 80, &[1, 2]),
            of(0, 79, &[1]),
            of(81, 99, &[1]),
            of(100, 110, &[3]),
            of(120, 130, &[1, 4]),
        ];
        let joined = join(groups.clone(), 2);
        assert_eq!(joined.len(), 4);
        assert_eq!(joined.last(), Some(&of(0, 65535, &[1, 3, 4])));
        assert_eq!(join(groups.clone(), 25), groups);
        let mut numbers = Numbers::default();
        let seen: Vec<usize> = groups.iter().map(|g| numbers.number_of(&g.rules)).collect();
        assert_eq!(seen, [0, 1, 1, 2, 3]);
    }
}
