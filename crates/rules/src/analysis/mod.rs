//! Reports on a rule set: Suricata's engine analysis, flowbits that no rule sets, rules that cost
//! more than others, rules that can never match here.

mod engine_names;
mod explain;
mod firewall;
mod flowbits;
mod groups;
mod json;
mod text;

use crate::ruleset::Ruleset;
use crate::signature::{BufferRef, Engine, RuleType, Signature};
use gabion_record::applayer::{Catalog, ProtoId, ProtoTable};

pub use explain::explain_rule;
pub use firewall::{PolicyTexts, firewall_json};
pub use flowbits::{BitUse, Flowbits, NeverSet};
pub use groups::{GroupOptions, rule_groups};
pub use json::{patterns_json, rule_json};
pub use text::{fast_pattern_report, rule_report};

/// What reports need in addition to the rule.
#[derive(Clone, Copy, Debug)]
pub struct Report<'r> {
    /// The set.
    pub set: &'r Ruleset,
    /// The tables it was compiled with.
    pub catalog: &'r Catalog,
    /// The rules that write the flowbits that other rules read.
    pub flowbits: &'r flowbits::Flowbits,
}

/// Rules that have neither pattern nor prefilter: they are tried on every packet or transaction
/// that their header fits, so they are the ones to look at when the sensor is slow. IP-only rules
/// and rules on decoder events are looked up by other means and don't count.
pub fn costly(set: &Ruleset) -> impl Iterator<Item = &Signature> {
    set.signatures.iter().filter(|s| {
        let looked_up = matches!(
            s.kind,
            RuleType::IpOnly | RuleType::LikeIpOnly | RuleType::DeOnly | RuleType::PdOnly
        );
        s.inert.is_none() && !looked_up && s.fast_pattern.is_none() && s.prefilter.is_none()
    })
}

/// Rules that can never match here, with the keyword or protocol that is missing.
pub fn inert(set: &Ruleset) -> impl Iterator<Item = (&Signature, &'static str)> {
    set.signatures.iter().filter(|s| !s.header.swapped).filter_map(|s| Some((s, s.inert?)))
}

/// What is missing for rules that can never match here, and how many each, most frequent first.
pub fn missing(set: &Ruleset) -> Vec<(&'static str, usize)> {
    let mut by = std::collections::BTreeMap::new();
    for (_, what) in inert(set) {
        *by.entry(what).or_insert(0) += 1;
    }
    let mut all: Vec<_> = by.into_iter().collect();
    all.sort_by_key(|(what, rules)| (std::cmp::Reverse(*rules), *what));
    all
}

/// The report name of a buffer (`http_uri`).
pub(crate) fn buffer_name<'r>(r: &Report<'r>, buffer: BufferRef) -> &'r str {
    match buffer {
        BufferRef::Payload => "payload",
        BufferRef::Packet(p) => p.name(),
        BufferRef::App(id) => r
            .catalog
            .buffer(id)
            .map_or("", |b| if b.def.internal.is_empty() { b.def.name } else { b.def.internal }),
        BufferRef::Frame(n) => r.set.frames.get(usize::from(n)).map_or("", |f| f.name.as_str()),
    }
}

/// What Suricata calls all versions of a protocol together, if there are several of them among these.
pub(crate) fn any_version(r: &Report<'_>, protocols: &[ProtoId]) -> Option<&'static str> {
    let tables = || protocols.iter().filter_map(|p| r.catalog.table(*p));
    let one = tables().find(|t| t.any_version.is_some())?;
    let is_other = |t: &ProtoTable| t.name != one.name && t.rule_names.contains(&one.eve_name);
    one.any_version.filter(|_| tables().any(is_other))
}

/// The name Suricata's reports give the rule's application protocol.
pub(crate) fn app_proto_name(r: &Report<'_>, s: &Signature) -> &'static str {
    let apps = &s.header.apps;
    let table = |n: usize| apps.get(n).and_then(|p| r.catalog.table(*p));
    // Conditions that only one version has make the rule one of that version.
    let of_versions = |e: &Engine| r.catalog.table(e.proto).filter(|t| t.any_version.is_some());
    let is_alone =
        |e: &Engine| s.engines.iter().all(|o| o.run != e.run || of_versions(o).is_some());
    let alone = s.engines.iter().filter(|e| is_alone(e)).find_map(&of_versions);
    if let Some(one) = alone {
        return one.eve_name;
    }
    // What is written is meant for all versions, also where only one is parsed.
    let written = r.set.text(s.raw).split_whitespace().nth(1);
    let mut tables = r.catalog.tables().map(|(_, t)| t);
    let of_all = tables.find_map(|t| t.any_version.filter(|_| written == Some(t.eve_name)));
    if let Some(name) = of_all {
        return name;
    }
    match (table(0), table(1)) {
        (None, _) => "unknown",
        (Some(one), None) => one.eve_name,
        (Some(a), Some(b)) => {
            if let Some(name) = a.any_version.or(b.any_version) {
                return name;
            }
            // several versions under one name: the one that carries it
            let common = a.rule_names.iter().find(|n| b.rule_names.contains(n));
            let named = common.and_then(|n| [a, b].into_iter().find(|t| t.name == *n));
            named.map_or(a.name, |t| t.name)
        }
    }
}
