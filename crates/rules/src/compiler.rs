//! The compiler: what all rules of a load share while they are read, and the way of one rule from
//! text to signature.

use crate::address::{AddressId, AddressSet};
use crate::diagnostic::{Checked, Refusal};
use crate::draft::Draft;
use crate::keywords::{self, Keyword};
use crate::known::{known_keyword, known_keywords};
use crate::lexer::{self, Piece};
use crate::limits::{BUFFERS_PER_RULE_MAX, RULE_BYTES_MAX};
use crate::options::LoadOptions;
use crate::port::{PortId, PortSet};
use crate::ruleset::Ruleset;
use crate::signature::Signature;
use crate::text::Text;
use crate::transform::{ChainId, Transform};
use crate::vars::RuleVars;
use crate::{finish, rule_header};
use gabion_record::applayer::{Catalog, ProtoId};
use gabion_record::near::nearest;
use std::collections::HashMap;

/// What became of one rule.
pub(crate) enum Outcome {
    /// Signatures: one, or two for `<>`.
    Loaded(Vec<Signature>),
    /// `requires` is not met.
    Skipped,
    /// Left out without being counted as failed (an event the protocol does not have).
    LeftOut(Refusal),
    /// Refused.
    Refused(Refusal),
}

/// State of a load.
pub(crate) struct Compiler<'c> {
    pub(crate) catalog: &'c Catalog,
    pub(crate) vars: &'c RuleVars,
    pub(crate) options: &'c LoadOptions<'c>,
    /// The set as it grows.
    pub(crate) set: Ruleset,
    /// Where the rule at hand stands in the arena.
    base: u32,
    /// Folder of the rule file at hand.
    pub(crate) folder: String,
    /// The rule file at hand is one of firewall rules.
    pub(crate) firewall_rules: bool,
    /// Warnings about the rule at hand.
    pub(crate) warnings: Vec<Refusal>,
    /// Unknown classes that were complained of already.
    pub(crate) unknown_classes: Vec<String>,
    keywords: Keywords,
    address_of_text: HashMap<String, AddressId>,
    address_of_set: HashMap<AddressSet, AddressId>,
    port_of_text: HashMap<String, PortId>,
    port_of_set: HashMap<PortSet, PortId>,
    chain_of: HashMap<Box<[Transform]>, ChainId>,
}

impl<'c> Compiler<'c> {
    /// A compiler with an empty set.
    pub(crate) fn new(
        catalog: &'c Catalog,
        vars: &'c RuleVars,
        options: &'c LoadOptions<'c>,
    ) -> Compiler<'c> {
        let set = Ruleset {
            addresses: vec![AddressSet::any()],
            ports: vec![PortSet::any()],
            chains: vec![Box::default()],
            classes: options.classes.clone(),
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
            keywords: keyword_index(catalog),
            address_of_text: HashMap::from([("any".to_string(), AddressId::ANY)]),
            address_of_set: HashMap::from([(AddressSet::any(), AddressId::ANY)]),
            port_of_text: HashMap::from([("any".to_string(), PortId::ANY)]),
            port_of_set: HashMap::from([(PortSet::any(), PortId::ANY)]),
            chain_of: HashMap::from([(Box::default(), ChainId::NONE)]),
        }
    }

    /// Compiles one rule; what it says is added to the set's texts only when it loads.
    pub(crate) fn compile(&mut self, rule: &str, file: u16, line: u32) -> Outcome {
        self.warnings.clear();
        let before = self.set.texts.len();
        let outcome = self.compile_kept(rule, file, line);
        if !matches!(outcome, Outcome::Loaded(_)) {
            self.set.texts.truncate(before);
        }
        outcome
    }

    fn compile_kept(&mut self, rule: &str, file: u16, line: u32) -> Outcome {
        if rule.len() > RULE_BYTES_MAX {
            return Outcome::Refused(Refusal::silent("the rule is too long"));
        }
        let Some(raw) = self.set.texts.push(rule) else {
            return Outcome::Refused(Refusal::silent("all rules together are too long"));
        };
        self.base = raw.start;
        let parts = lexer::split(rule);
        // what the rule requires is looked at before anything else of it
        match keywords::requires(self, parts.options) {
            Ok(true) => {}
            Ok(false) => return Outcome::Skipped,
            Err(e) => return Outcome::Refused(e),
        }
        let mut draft = match rule_header::read(self, rule, &parts) {
            Ok(draft) => draft,
            Err(e) => return Outcome::Refused(e),
        };
        if let Err(e) = self.read_options(&mut draft, parts.options) {
            if e.is_left_out {
                return Outcome::LeftOut(e);
            }
            return Outcome::Refused(e);
        }
        match finish::finish(self, draft, finish::Place { raw, file, line }) {
            Ok(signatures) => Outcome::Loaded(signatures),
            Err(e) => Outcome::Refused(e),
        }
    }

    fn read_options<'t>(&mut self, draft: &mut Draft<'t>, all: Piece<'t>) -> Checked<()> {
        for option in lexer::options(all) {
            let option = option.map_err(|lost| {
                Refusal::new("detect-parse", "no terminating \";\" found")
                    .at(lost.at, lost.text.len())
                    .because("every option ends with `;`, the last one too")
            })?;
            let end = option
                .value
                .map_or(option.keyword.at + option.keyword.text.len(), |v| v.at + v.text.len());
            let start = option.keyword.at;
            keywords::apply(self, draft, option).map_err(|mut e| {
                e.span.get_or_insert((start, end.saturating_sub(start)));
                if e.reason.is_none() {
                    e.reason = self.described(option.keyword.text);
                }
                e
            })?;
            if draft.buffers.len() > BUFFERS_PER_RULE_MAX {
                return Err(Refusal::silent("too many buffers in one rule"));
            }
        }
        Ok(())
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

    /// What a keyword does and where that is described, where the fault itself says no more.
    fn described(&self, name: &str) -> Option<String> {
        let known = known_keyword(&name.to_ascii_lowercase())?;
        match (known.description, known.page.trim_end_matches(';')) {
            ("", _) => None,
            (what, "") => Some(format!("`{}`: {what}", known.name)),
            (what, page) => Some(format!(
                "`{}`: {what}: see https://docs.suricata.io/en/latest{page}",
                known.name
            )),
        }
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

    /// Path of a file that a rule names: beside the rule file, unless it is absolute.
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

    /// Adds a warning about the rule at hand.
    pub(crate) fn warn(&mut self, warning: Refusal) {
        self.warnings.push(warning);
    }

    /// The name the peer's reports give a set of protocols.
    pub(crate) fn proto_name(&self, id: ProtoId) -> &'static str {
        self.catalog.table(id).map_or("unknown", |t| report_name(t.name))
    }
}

/// The peer calls HTTP/1 `http` in its reports (and either version `http_any`).
pub(crate) fn report_name(registry_name: &'static str) -> &'static str {
    match registry_name {
        "http1" => "http",
        other => other,
    }
}

/// Each rule names dozens of keywords, so their hash is a quick one.
type Keywords = HashMap<&'static str, Keyword, foldhash::fast::RandomState>;

fn keyword_index(catalog: &Catalog) -> Keywords {
    let mut index = Keywords::with_capacity_and_hasher(600, Default::default());
    for known in known_keywords() {
        for name in names_of(known.name, known.aliases) {
            index.insert(name, Keyword::Inert(known));
        }
    }
    for (at, buffer) in (0u16..).zip(&catalog.buffers) {
        let id = gabion_record::applayer::BufferId(at);
        index.insert(buffer.def.name, Keyword::Sticky(id));
        for alias in buffer.def.aliases {
            index.insert(alias, Keyword::Sticky(id));
        }
        if let Some(known) = known_keyword(buffer.def.name) {
            for name in names_of(known.name, known.aliases) {
                index.insert(name, Keyword::Sticky(id));
            }
        }
        if let Some(modifier) = buffer.def.modifier {
            index.insert(modifier, Keyword::Modifier(id));
        }
    }
    for table in &catalog.protocols {
        for def in table.integers {
            for name in
                known_keyword(def.name).into_iter().flat_map(|k| names_of(k.name, k.aliases))
            {
                index.insert(name, Keyword::Integer(def));
            }
            index.insert(def.name, Keyword::Integer(def));
            for alias in def.aliases {
                index.insert(alias, Keyword::Integer(def));
            }
        }
        for def in table.conditions {
            for name in
                known_keyword(def.name).into_iter().flat_map(|k| names_of(k.name, k.aliases))
            {
                index.insert(name, Keyword::Condition(def));
            }
            index.insert(def.name, Keyword::Condition(def));
            for alias in def.aliases {
                index.insert(alias, Keyword::Condition(def));
            }
        }
    }
    for (name, setup) in keywords::own_keywords() {
        let Some(known) = known_keyword(name) else { continue };
        for name in names_of(known.name, known.aliases) {
            index.insert(name, Keyword::Own(known, *setup));
        }
    }
    index
}

fn names_of(name: &'static str, aliases: &'static str) -> impl Iterator<Item = &'static str> {
    std::iter::once(name).chain(aliases.split(',').filter(|a| !a.is_empty()))
}
