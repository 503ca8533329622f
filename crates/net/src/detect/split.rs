//! Fast patterns of payloads or streams, split by the packets whose headers their rules allow.
//!
//! Of the patterns of a rule set for UDP five in six are of rules for port 53 alone, many of those for
//! streams of rules for TLS or HTTP alone. A packet of another port or protocol meets none of these rules,
//! so it is not searched for their patterns: fewer positions look like a pattern then, and the bitmap that
//! finds them is smaller. The few ports and protocols that most rules name have a set of patterns each,
//! which also holds the patterns of the rules for all; all other packets use one set. A packet between two
//! such ports, or of such a port and such a protocol, uses the set of all patterns.

use super::hot::Hot;
use super::pattern_set::{Matchers, PatternSet};
use crate::limits::{SPLIT_APPS_MAX, SPLIT_PORTS_MAX};
use gabion_matcher::Pattern;
use gabion_record::applayer::ProtoId;
use gabion_rules::Ruleset;
use gabion_rules::compiled::{PortId, RuleNetwork};

/// Rules that must name a port or a protocol alone before it gets a set of its own: a set of patterns that
/// is hardly smaller than that of all gains nothing.
const RULES_MIN: usize = 96;

/// Ports in a rule's set of ports up to which it counts as naming them alone.
const FEW_PORTS: u32 = 4;

/// The facts about a packet that decide which set it uses.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Asked {
    /// Source and destination port; none if rules may not look at ports.
    pub(crate) ports: Option<(u16, u16)>,
    /// The protocol that rules see.
    pub(crate) app: ProtoId,
}

/// The sets of patterns of payloads or streams of one direction.
#[derive(Debug, Default)]
pub(crate) struct SplitSet {
    /// That of all patterns, then that for packets of other ports and protocols, then one for each of
    /// `ports`, then one for each of `apps`. Without `ports` and `apps` there is only the first.
    sets: Vec<PatternSet>,
    ports: Vec<u16>,
    apps: Vec<ProtoId>,
}

impl SplitSet {
    /// Builds the sets of these patterns, each with its rule. `by_app`: rules for other protocols than the
    /// packet's are not asked.
    pub(super) fn build(
        entries: Vec<(Pattern, u32)>,
        hot: &[Hot],
        rules: &Ruleset,
        by_app: bool,
        matchers: &mut Matchers,
    ) -> SplitSet {
        let headers = Headers { hot, rules };
        let ports = headers.frequent_ports(&entries);
        let apps = if by_app { headers.frequent_apps(&entries) } else { Vec::new() };
        if ports.is_empty() && apps.is_empty() {
            let sets = vec![PatternSet::build(entries, matchers)];
            return SplitSet { sets, ..SplitSet::default() };
        }
        let mut set_for = |allowed: &dyn Fn(u32) -> bool| {
            let kept = entries.iter().filter(|(_, sig)| allowed(*sig));
            PatternSet::build(kept.cloned().collect(), matchers)
        };
        let mut sets = Vec::with_capacity(2 + ports.len() + apps.len());
        let is_other = |sig| headers.allows_other_ports(sig, &ports);
        let is_for_others = |sig| headers.allows_other_apps(sig, &apps);
        sets.push(PatternSet::default());
        sets.push(set_for(&|sig| is_other(sig) && is_for_others(sig)));
        for port in &ports {
            sets.push(set_for(&|sig| {
                headers.allows_port(sig, *port, &ports) && is_for_others(sig)
            }));
        }
        for app in &apps {
            sets.push(set_for(&|sig| is_other(sig) && headers.allows_app(sig, *app)));
        }
        sets[0] = PatternSet::build(entries, matchers);
        SplitSet { sets, ports, apps }
    }

    /// The patterns of all rules that may match such a packet.
    #[inline]
    pub(crate) fn for_packet(&self, asked: Asked) -> Option<&PatternSet> {
        if self.sets.len() <= 1 {
            return self.sets.first();
        }
        let place = |port: u16| self.ports.iter().position(|p| *p == port);
        let port = match asked.ports {
            Some((source, destination)) => match (place(source), place(destination)) {
                (Some(one), Some(other)) if one != other => return self.sets.first(),
                (one, other) => one.or(other),
            },
            None => None,
        };
        let app = self.apps.iter().position(|a| *a == asked.app);
        match (port, app) {
            (None, None) => self.sets.get(1),
            (Some(port), None) => self.sets.get(2 + port),
            (None, Some(app)) => self.sets.get(2 + self.ports.len() + app),
            (Some(_), Some(_)) => self.sets.first(),
        }
    }

    /// All sets of patterns.
    pub(super) fn sets(&self) -> &[PatternSet] {
        &self.sets
    }
}

/// The headers of a rule set's rules.
struct Headers<'r> {
    hot: &'r [Hot],
    rules: &'r Ruleset,
}

impl Headers<'_> {
    /// The header of a rule whose ports and protocols decide whether it is asked.
    fn deciding(&self, sig: u32) -> Option<&Hot> {
        let is_deciding =
            |h: &&Hot| !h.pkthdr && !matches!(h.network, RuleNetwork::Ether | RuleNetwork::Arp);
        self.hot.get(sig as usize).filter(is_deciding)
    }

    /// The ports of a set that holds few.
    fn few_ports(&self, id: PortId) -> Option<impl Iterator<Item = u16>> {
        let ranges = &self.rules.ports.get(id.0 as usize)?.ranges;
        let count: u32 = ranges.iter().map(|(from, to)| u32::from(to - from) + 1).sum();
        (id != PortId::ANY && count <= FEW_PORTS)
            .then(|| ranges.iter().flat_map(|(from, to)| *from..=*to))
    }

    /// The ports that the most of these rules name alone, as source or as destination.
    fn frequent_ports(&self, entries: &[(Pattern, u32)]) -> Vec<u16> {
        let mut named: Vec<u16> = entries
            .iter()
            .filter_map(|(_, sig)| self.deciding(*sig))
            .flat_map(|h| [h.sp, h.dp])
            .filter_map(|id| self.few_ports(id))
            .flatten()
            .collect();
        named.sort_unstable();
        let runs = named.chunk_by(|a, b| a == b).filter(|run| run.len() >= RULES_MIN);
        let mut ranked: Vec<(usize, u16)> = runs.map(|run| (run.len(), run[0])).collect();
        ranked.sort_unstable_by(|a, b| b.cmp(a));
        ranked.into_iter().take(SPLIT_PORTS_MAX).map(|(_, port)| port).collect()
    }

    /// The protocols that the most of these rules name, of those that name any.
    fn frequent_apps(&self, entries: &[(Pattern, u32)]) -> Vec<ProtoId> {
        let mut counts = [0usize; 128];
        for hot in entries.iter().filter_map(|(_, sig)| self.deciding(*sig)) {
            for (bit, count) in counts.iter_mut().enumerate() {
                *count += usize::from(hot.apps >> bit & 1 == 1);
            }
        }
        let named = counts.iter().zip(0u8..).filter(|(count, _)| **count >= RULES_MIN);
        let mut ranked: Vec<(usize, u8)> = named.map(|(count, app)| (*count, app)).collect();
        ranked.sort_unstable_by(|a, b| b.cmp(a));
        ranked.into_iter().take(SPLIT_APPS_MAX).map(|(_, app)| ProtoId(app)).collect()
    }

    /// Whether all ports of the set are among these.
    fn is_within(&self, id: PortId, ports: &[u16]) -> bool {
        self.few_ports(id).is_some_and(|mut few| few.all(|port| ports.contains(&port)))
    }

    fn holds(&self, id: PortId, port: u16) -> bool {
        id == PortId::ANY || self.rules.ports.get(id.0 as usize).is_some_and(|p| p.contains(port))
    }

    /// Whether a packet between ports that are not among these meets the rule's ports.
    fn allows_other_ports(&self, sig: u32, ports: &[u16]) -> bool {
        self.deciding(sig)
            .is_none_or(|h| !self.is_within(h.sp, ports) && !self.is_within(h.dp, ports))
    }

    /// Whether a packet with this port on one or both sides, the other not among `ports`, meets them.
    fn allows_port(&self, sig: u32, port: u16, ports: &[u16]) -> bool {
        self.deciding(sig).is_none_or(|h| {
            let holds = [h.sp, h.dp].map(|id| self.holds(id, port));
            let has_others = [h.sp, h.dp].map(|id| !self.is_within(id, ports));
            match holds {
                [true, true] => true,
                [true, false] => has_others[1],
                [false, true] => has_others[0],
                [false, false] => false,
            }
        })
    }

    /// Whether a packet of this protocol meets the rule's protocols.
    fn allows_app(&self, sig: u32, app: ProtoId) -> bool {
        let bit = 1u128.checked_shl(app.0.into()).unwrap_or(0);
        self.deciding(sig).is_none_or(|h| h.apps == 0 || h.apps & bit != 0)
    }

    /// Whether a packet of a protocol that is not among these, or of none, meets them.
    fn allows_other_apps(&self, sig: u32, apps: &[ProtoId]) -> bool {
        let bits = apps.iter().fold(0, |bits, a| bits | 1u128.checked_shl(a.0.into()).unwrap_or(0));
        self.deciding(sig).is_none_or(|h| h.apps == 0 || h.apps & !bits != 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::datasets::Datasets;
    use crate::detect::{Detector, Expressions};
    use gabion_matcher::Scratch;
    use gabion_rules::{LoadOptions, RuleSource, RuleVars};

    /// Rules that find `x`, by what their headers say.
    fn rules(headers: &[(&str, usize)]) -> (Detector, Vec<(Pattern, u32)>) {
        let mut text = String::new();
        let mut sid = 0;
        for (header, count) in headers {
            for _ in 0..*count {
                sid += 1;
                text += &format!("alert {header} (content:\"xy{sid:04}z\"; sid:{sid};)\n");
            }
        }
        let catalog = gabion_proto::registry::catalog();
        let source = RuleSource { name: "x.rules", text: &text, is_firewall: false };
        let (set, said) =
            Ruleset::load(&[source], &catalog, &RuleVars::default(), &LoadOptions::default());
        assert!(said.is_empty(), "{said:?}");
        let pattern = |(s, at): (&gabion_rules::Signature, u32)| {
            (Pattern::new(0, format!("xy{:04}z", s.sid), false), at)
        };
        let entries = set.signatures.iter().zip(0..).map(pattern).collect();
        let rules = Detector::new(set, &catalog, Expressions::default(), Datasets::default());
        (rules, entries)
    }

    /// Numbers of the rules found in a payload that holds all patterns.
    fn found(sets: &SplitSet, set: &Ruleset, asked: Asked) -> Vec<u32> {
        let hay: Vec<u8> =
            (0..=set.signatures.len()).flat_map(|n| format!("xy{n:04}z ").into_bytes()).collect();
        let mut scratch = Scratch::new();
        let mut sids = Vec::new();
        if let Some(patterns) = sets.for_packet(asked) {
            patterns.scan(&hay, &mut scratch, |sig| sids.push(set.signatures[sig as usize].sid));
        }
        sids.sort_unstable();
        sids
    }

    /// Each packet is searched for the pattern of every rule whose ports and protocol fit it, and for none of
    /// the rules for frequent ports and protocols that do not.
    #[test]
    fn a_packet_meets_the_rules_that_fit_it() {
        const MANY: usize = RULES_MIN;
        let headers = [
            ("tcp any any -> any 53", MANY),
            ("tcp any [139,445] -> any any", MANY),
            ("tcp any any -> any any", 1),
            ("tcp any any -> any [53,80]", 1),
            ("tcp any 445 -> any 53", 1),
            ("tcp any !53 -> any any", 1),
            ("tls any any -> any any", MANY),
            ("ssh any any -> any any", 1),
            ("tls any any -> any 445", 1),
        ];
        let (Detector { set, hot, .. }, entries) = rules(&headers);
        let sets = SplitSet::build(entries, &hot, &set, true, &mut Matchers::default());
        assert_eq!(sets.sets.len(), 2 + sets.ports.len() + sets.apps.len());
        assert_eq!((sets.ports.len(), sets.apps.len()), (3, 1));
        let catalog = gabion_proto::registry::catalog();
        let proto = |name: &str| {
            let at = catalog.protocols.iter().position(|p| p.name == name);
            ProtoId(at.map_or(0, |at| at as u8 + 1))
        };
        let apps = [ProtoId::UNKNOWN, proto("tls"), proto("ssh"), proto("smtp")];
        let numbers = [1, 53, 80, 139, 445, 50_000];
        let pairs = numbers.iter().flat_map(|s| numbers.iter().map(|d| Some((*s, *d))));
        for ports in pairs.chain([None]) {
            for app in apps {
                let sids = found(&sets, &set, Asked { ports, app });
                for (signature, hot) in set.signatures.iter().zip(&hot) {
                    let holds = |id: PortId, port: u16| {
                        id == PortId::ANY || set.ports[id.0 as usize].contains(port)
                    };
                    let fits_ports = match ports {
                        Some((s, d)) => holds(hot.sp, s) && holds(hot.dp, d),
                        None => hot.sp == PortId::ANY && hot.dp == PortId::ANY,
                    };
                    let fits = fits_ports && (hot.apps == 0 || hot.apps >> app.0 & 1 == 1);
                    let is_found = sids.binary_search(&signature.sid).is_ok();
                    assert!(is_found || !fits, "{} {ports:?} {app:?}", signature.sid);
                }
                let is_frequent = |port| [53, 139, 445].contains(&port);
                if ports.is_none_or(|(s, d)| !is_frequent(s) && !is_frequent(d)) {
                    let most = if app == proto("tls") { MANY + 6 } else { 6 };
                    assert!(sids.len() < most, "{ports:?} {app:?}: {}", sids.len());
                }
            }
        }
    }

    /// Without a port or protocol that many rules name there is one set.
    #[test]
    fn few_rules_are_not_split() {
        let (Detector { set, hot, .. }, entries) =
            rules(&[("tcp any any -> any 53", RULES_MIN - 1)]);
        let sets = SplitSet::build(entries, &hot, &set, true, &mut Matchers::default());
        assert_eq!(sets.sets.len(), 1);
        let asked = Asked { ports: Some((1, 2)), app: ProtoId::UNKNOWN };
        assert_eq!(found(&sets, &set, asked).len(), RULES_MIN - 1);
    }
}
