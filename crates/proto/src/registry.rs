//! The registry: all protocols by their ids. Their lines are those of `protocols!` in `lib.rs`.

use crate::protocol::Protocol;
use gabion_record::Tree;
use gabion_record::applayer::{Catalog, ProtoId, ProtoTable};

/// All protocols, in the order of their ids.
pub fn registry() -> &'static [&'static Protocol] {
    crate::PROTOCOLS
}

/// The tables of all protocols for the rule language.
pub fn catalog() -> Catalog {
    let tables: Vec<ProtoTable> = registry().iter().map(|p| p.table).collect();
    Catalog::new(&tables)
}

/// The protocol of an id.
pub fn protocol(id: ProtoId) -> Option<&'static Protocol> {
    registry().get(usize::from(id.0).checked_sub(1)?).copied()
}

/// The table of the protocol that EVE's `app_proto` calls by this name.
pub fn table_by_eve_name(name: &str) -> Option<&'static ProtoTable> {
    registry().iter().map(|p| &p.table).find(|t| t.eve_name == name)
}

/// Adds the types of protocols that are logged by default to those of the EVE output of a
/// configuration, after `alert` and `anomaly`.
pub fn log_by_default(config: &mut Tree) {
    let types = config.child_mut("outputs").and_then(|outputs| {
        let eve = outputs.children.iter_mut().find_map(|(_, item)| item.child_mut("eve-log"))?;
        eve.child_mut("types")
    });
    let Some(types) = types else { return };
    let all = std::mem::take(&mut types.children).into_iter().map(|(_, item)| item);
    let (first, last): (Vec<Tree>, Vec<Tree>) =
        all.partition(|item| item.child("alert").or(item.child("anomaly")).is_some());
    let ours = eve_defaults().into_iter().map(|(name, settings)| {
        if settings.is_empty() {
            return Tree::leaf(name);
        }
        let mut node = Tree::default();
        for (key, value) in settings {
            node.set(key, value);
        }
        Tree { children: vec![(name.to_owned(), node)], ..Tree::default() }
    });
    types.children = first
        .into_iter()
        .chain(ours)
        .chain(last)
        .enumerate()
        .map(|(at, item)| (at.to_string(), item))
        .collect();
}

/// Types of EVE records that the built-in configuration turns on for protocols, each with what it sets
/// for it; each type once.
fn eve_defaults() -> Vec<(&'static str, &'static [(&'static str, &'static str)])> {
    let mut types: Vec<(&str, &[(&str, &str)])> = Vec::new();
    for p in registry().iter().filter(|p| p.is_logged && !p.eve_type.is_empty()) {
        if types.iter().all(|(name, _)| *name != p.eve_type) {
            types.push((p.eve_type, p.eve_defaults));
        }
    }
    types
}

/// Types of EVE records that protocols have, by default or not.
pub fn eve_types() -> impl Iterator<Item = &'static str> {
    registry().iter().map(|p| p.eve_type).filter(|name| !name.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;
    use gabion_record::Direction;
    use std::collections::HashSet;

    #[test]
    fn types_of_protocols_come_after_alerts_and_anomalies() {
        let mut config = Tree::default();
        for (at, name) in ["alert", "anomaly", "files"].iter().enumerate() {
            let enabled = format!("outputs.0.eve-log.types.{at}.{name}.enabled");
            config.set(&enabled, "yes");
        }
        log_by_default(&mut config);
        let types = config.get("outputs.0.eve-log.types").unwrap();
        let place = |name| {
            types
                .children
                .iter()
                .position(|(_, t)| t.value.as_deref() == Some(name) || t.child(name).is_some())
        };
        let last = types.children.len() - 1;
        assert_eq!([place("anomaly"), place("files")], [Some(1), Some(last)]);
        for p in registry().iter().filter(|p| !p.eve_type.is_empty()) {
            assert_eq!(place(p.eve_type).is_some(), p.is_logged, "{}", p.table.name);
        }
        assert_eq!(types.item("dhcp").and_then(|t| t.text("extended")), Some("no"));
        assert_eq!(types.item("tls").and_then(|t| t.text("extended")), Some("yes"));
    }

    /// Names lead to one protocol, and a hook to a state that there is.
    #[test]
    fn names_are_unique_and_hooks_lead_to_states() {
        let (mut names, mut keywords) = (HashSet::new(), HashSet::new());
        for p in registry() {
            let t = p.table;
            assert!(names.insert(t.name), "{} stands twice", t.name);
            let hooks = t.buffers.iter().map(|b| (b.name, b.hooks));
            let hooks = hooks.chain(t.integers.iter().map(|i| (i.name, i.hooks)));
            let hooks = hooks.chain(t.conditions.iter().map(|c| (c.name, c.hooks)));
            for (keyword, hooks) in hooks {
                assert!(keywords.insert((t.name, keyword)), "{keyword} stands twice");
                // Conditions that Suricata calls obsolete hook nowhere.
                let is_condition = t.conditions.iter().any(|c| c.name == keyword);
                assert!(is_condition || !hooks.is_empty(), "{keyword} hooks nowhere");
                for hook in hooks {
                    let last = t.last_state(hook.direction);
                    assert!(hook.progress <= last, "{keyword}: {} of {last}", hook.progress);
                }
            }
            for d in Direction::BOTH {
                assert!(!t.states(d).is_empty(), "{} has no state", t.name);
            }
        }
    }
}
