//! The compiler's state: what all rules of a load share while they are read.

use crate::address::{AddressId, AddressSet};
use crate::diagnostic::{Checked, Refusal};
use crate::keyword::{Keyword, Keywords};
use crate::lexer::Piece;
use crate::names::{NameMap, Shared};
use crate::options::{CarriedNames, LoadOptions};
use crate::packet::PacketCondition;
use crate::port::{PortId, PortSet};
use crate::ruleset::Ruleset;
use crate::signature::{Engine, Signature};
use crate::text::Text;
use crate::transform::{ChainId, Transform};
use crate::vars::RuleVars;
use gabion_record::applayer::{Catalog, ProtoId, ProtoTable};
use gabion_record::near::nearest;
use std::sync::Arc;

/// State of a load.
pub(crate) struct Compiler<'c> {
    pub(crate) catalog: &'c Catalog,
    pub(crate) vars: &'c RuleVars,
    pub(crate) options: &'c LoadOptions<'c>,
    /// The set as it grows.
    pub(crate) set: Ruleset,
    /// Where the rule at hand is in the arena.
    pub(crate) base: u32,
    /// Folder of the rule file at hand.
    pub(crate) folder: String,
    /// The rule file at hand is one of firewall rules.
    pub(crate) firewall_rules: bool,
    /// Warnings about the rule at hand.
    pub(crate) warnings: Vec<Refusal>,
    /// Unknown classes that were complained of already.
    unknown_classes: Vec<String>,
    keywords: Keywords,
    address_of_text: NameMap<String, AddressId>,
    address_of_set: NameMap<AddressSet, AddressId>,
    port_of_text: NameMap<String, PortId>,
    port_of_set: NameMap<PortSet, PortId>,
    chain_of: NameMap<Box<[Transform]>, ChainId>,
    /// Steps of inspection, of which there are few that differ.
    engines: Shared<Engine>,
    /// Conditions on packets, of which there are few that differ.
    packets: Shared<PacketCondition>,
}

impl<'c> Compiler<'c> {
    /// Adds the lists of a rule that was compiled before.
    pub(crate) fn add_shared(&mut self, signature: &Signature) {
        self.engines.add(&signature.engines);
        self.packets.add(&signature.packet);
    }

    /// These steps of inspection, or the same ones that were there before.
    pub(crate) fn share_engines(&mut self, engines: Arc<[Engine]>) -> Arc<[Engine]> {
        self.engines.share(engines)
    }

    /// These conditions, or the same ones that were there before.
    pub(crate) fn share_packet_conditions(
        &mut self,
        conditions: Arc<[PacketCondition]>,
    ) -> Arc<[PacketCondition]> {
        self.packets.share(conditions)
    }

    /// A compiler with an empty set. `keywords` are those of the language and of the catalog.
    pub(crate) fn new(
        catalog: &'c Catalog,
        vars: &'c RuleVars,
        options: &'c LoadOptions<'c>,
        keywords: Keywords,
    ) -> Compiler<'c> {
        let CarriedNames { flowbits, flowints, xbits, hostbits, variables } =
            options.carried.clone();
        let set = Ruleset {
            flowbits,
            flowints,
            xbits,
            hostbits,
            variables,
            addresses: vec![AddressSet::any()],
            ports: vec![PortSet::any()],
            chains: vec![Box::default()],
            classes: options.classes.clone(),
            reference_systems: options.references.clone(),
            ..Ruleset::default()
        };
        Compiler {
            catalog,
            vars,
            options,
            set,
            base: 0,
            folder: String::new(),
            firewall_rules: false,
            warnings: Vec::new(),
            unknown_classes: Vec::new(),
            keywords,
            address_of_text: NameMap::from_iter([("any".to_string(), AddressId::ANY)]),
            address_of_set: NameMap::from_iter([(AddressSet::any(), AddressId::ANY)]),
            port_of_text: NameMap::from_iter([("any".to_string(), PortId::ANY)]),
            port_of_set: NameMap::from_iter([(PortSet::any(), PortId::ANY)]),
            chain_of: NameMap::from_iter([(Box::default(), ChainId::NONE)]),
            engines: Shared::default(),
            packets: Shared::default(),
        }
    }

    /// The meaning of a name, in any case.
    pub(crate) fn keyword(&self, name: &str) -> Option<Keyword> {
        if let Some(k) = self.keywords.get(name) {
            return Some(*k);
        }
        if !name.bytes().any(|b| b.is_ascii_uppercase()) {
            return None;
        }
        self.keywords.get(name.to_ascii_lowercase().as_str()).copied()
    }

    /// The keyword whose name is most like this one.
    pub(crate) fn keyword_like(&self, name: &str) -> Option<&str> {
        let mut names: Vec<&str> = self.keywords.keys().map(|name| &**name).collect();
        names.sort_unstable();
        nearest(name, names)
    }

    /// A piece of the rule at hand as a text of the set.
    pub(crate) fn text(&self, piece: Piece<'_>) -> Text {
        let at = u32::try_from(piece.at).unwrap_or(0);
        let len = u32::try_from(piece.text.len()).unwrap_or(0);
        Text { start: self.base.saturating_add(at), len }
    }

    /// The set of an address text.
    pub(crate) fn address(&mut self, text: &str) -> Checked<AddressId> {
        if let Some(id) = self.address_of_text.get(text) {
            return Ok(*id);
        }
        let id = self.address_set(AddressSet::parse(text, self.vars)?);
        self.address_of_text.insert(text.to_string(), id);
        Ok(id)
    }

    /// The number of an address set.
    pub(crate) fn address_set(&mut self, set: AddressSet) -> AddressId {
        if let Some(id) = self.address_of_set.get(&set) {
            return *id;
        }
        let id = AddressId(u32::try_from(self.set.addresses.len()).unwrap_or(u32::MAX));
        self.set.addresses.push(set.clone());
        self.address_of_set.insert(set, id);
        id
    }

    /// The set of a port text.
    pub(crate) fn port(&mut self, text: &str) -> Checked<PortId> {
        if let Some(id) = self.port_of_text.get(text) {
            return Ok(*id);
        }
        let set = PortSet::parse(text, self.vars)?;
        let id = match self.port_of_set.get(&set) {
            Some(id) => *id,
            None => {
                let id = PortId(u32::try_from(self.set.ports.len()).unwrap_or(u32::MAX));
                self.set.ports.push(set.clone());
                self.port_of_set.insert(set, id);
                id
            }
        };
        self.port_of_text.insert(text.to_string(), id);
        Ok(id)
    }

    /// The number of a chain of transforms.
    pub(crate) fn chain(&mut self, transforms: &[Transform]) -> ChainId {
        if let Some(id) = self.chain_of.get(transforms) {
            return *id;
        }
        let id = ChainId(u16::try_from(self.set.chains.len()).unwrap_or(u16::MAX));
        let chain: Box<[Transform]> = transforms.into();
        self.set.chains.push(chain.clone());
        self.chain_of.insert(chain, id);
        id
    }

    /// Path of a file that a rule names: next to the rule file, unless it is absolute.
    pub(crate) fn path_of(&self, name: &str) -> String {
        if name.starts_with('/') {
            return name.to_string();
        }
        let folder = if self.options.rule_path.is_empty() {
            self.folder.as_str()
        } else {
            self.options.rule_path.as_str()
        };
        if folder.is_empty() { format!("./{name}") } else { format!("{folder}/{name}") }
    }

    /// Notes a class that is not known; whether it is the first rule with it.
    pub(crate) fn note_unknown_class(&mut self, name: &str) -> bool {
        let is_new = self.unknown_classes.iter().all(|known| known != name);
        if is_new {
            self.unknown_classes.push(name.to_owned());
        }
        is_new
    }

    /// Adds a warning about the rule at hand.
    pub(crate) fn warn(&mut self, warning: Refusal) {
        self.warnings.push(warning);
    }

    /// The name of the first of these protocols, if all are switched off, with their other versions.
    pub(crate) fn disabled(&self, protos: &[ProtoId]) -> Option<&'static str> {
        let is_off =
            |t: &ProtoTable| self.options.disabled_protocols.iter().any(|off| off == t.name);
        let mut versions = self.catalog.tables().filter(|(id, table)| {
            let is_version = |p: &ProtoId| {
                let other = self.catalog.table(*p).filter(|t| t.any_version.is_some());
                other.is_some_and(|t| t.rule_names.iter().any(|n| table.rule_names.contains(n)))
            };
            protos.contains(id) || protos.iter().any(is_version)
        });
        let first = self.catalog.table(*protos.first()?)?.name;
        versions.all(|(_, table)| is_off(table)).then_some(first)
    }

    /// The name Suricata's reports give a set of protocols.
    pub(crate) fn proto_name(&self, id: ProtoId) -> &'static str {
        self.catalog.table(id).map_or("unknown", |t| t.eve_name)
    }
}
