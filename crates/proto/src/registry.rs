//! The registry: all protocols by their ids. Their lines are those of `protocols!` in `lib.rs`.

use crate::protocol::Protocol;
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

/// Types of EVE records that the built-in configuration turns on for protocols, each with what it sets
/// for it; each type once.
pub fn eve_defaults() -> Vec<(&'static str, &'static [(&'static str, &'static str)])> {
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
