//! What all workers share, read-only: rules, protocols, settings.

use crate::app::Protocols;
use crate::checksum_sample::CaptureChecksums;
use crate::countries::Countries;
use crate::datasets::Datasets;
use crate::detect::{Detector, Expressions};
use crate::limits::PACKET_ALERTS_MAX;
use crate::ranges::RangeOptions;
use crate::state::Reputation;
use gabion_flow::{ConfigError, DefragConfig, ExceptionPolicy, FlowConfig, StreamConfig};
use gabion_matcher::regex::Limits;
use gabion_packet::DecodeConfig;
use gabion_record::Tree;
use gabion_record::applayer::Catalog;
use gabion_record::eve::Wants;
use gabion_rules::Ruleset;
use std::sync::{Arc, OnceLock};

/// Exception policies, resolved for the mode.
#[derive(Clone, Copy, Debug)]
pub struct Policies {
    /// No capacity for a fragment.
    pub defrag_memcap: ExceptionPolicy,
    /// No capacity for a flow.
    pub flow_memcap: ExceptionPolicy,
    /// No capacity for a TCP session.
    pub stream_memcap: ExceptionPolicy,
    /// No capacity for a segment.
    pub reassembly_memcap: ExceptionPolicy,
    /// A TCP packet without a session.
    pub midstream: ExceptionPolicy,
    /// A parser gave up.
    pub app_error: ExceptionPolicy,
}

/// How the engine runs.
#[derive(Clone, Debug)]
pub struct EngineOptions {
    /// Decoders.
    pub decode: DecodeConfig,
    /// Defragmentation.
    pub defrag: DefragConfig,
    /// Flow table.
    pub flow: FlowConfig,
    /// TCP.
    pub stream: StreamConfig,
    /// Most bytes that protocols keep of flows and transactions; none: what the process may use.
    pub app_memcap: Option<u64>,
    /// Policies.
    pub policies: Policies,
    /// Packets may be dropped (simulated).
    pub inline: bool,
    /// Firewall mode: what no rule accepts is dropped.
    pub firewall: bool,
    /// Checksums are looked at.
    pub checksums: bool,
    /// What is done with those of captures.
    pub captured: CaptureChecksums,
    /// Alerts written per packet.
    pub alerts_max: usize,
    /// Alerts of packets without a transaction get the flow's only one, each transaction at most so often.
    pub tx_guesses: u8,
    /// Files that come in ranges.
    pub ranges: RangeOptions,
    /// What the outputs want.
    pub wants: Wants,
    /// Statistics count stream events (`stats.stream-events`).
    pub counts_stream_events: bool,
    /// Rule costs: a tick counter, and whether every packet is timed.
    pub profile: Option<(fn() -> u64, bool)>,
    /// Seed of hash tables: random per process.
    pub seed: u64,
    /// Ids of rules that are run on all flows while a ring runs full: ranges, both ends included.
    pub pinned: Vec<(u32, u32)>,
    /// Simulated parser error at this offset to server, to client.
    pub simulate_app_error: [Option<u64>; 2],
    /// Simulated loss of this packet.
    pub simulate_packet_loss: Option<u64>,
    /// Simulated lack of capacity for a fragment at this packet.
    pub simulate_defrag_memcap: Option<u64>,
}

impl EngineOptions {
    /// The options of a sensor that only looks and has no outputs: the tree's settings of decoders, fragments, flows and
    /// TCP, every exception ignored, and for all else the value that asks for nothing.
    ///
    /// # Errors
    /// The key whose value cannot be used.
    pub fn from_tree(tree: &Tree) -> Result<EngineOptions, ConfigError> {
        let ignore = ExceptionPolicy::Ignore;
        Ok(EngineOptions {
            decode: DecodeConfig::from_tree(tree),
            defrag: DefragConfig::from_tree(tree)?,
            flow: FlowConfig::from_tree(tree)?,
            stream: StreamConfig::from_tree(tree, false)?,
            app_memcap: None,
            policies: Policies {
                defrag_memcap: ignore,
                flow_memcap: ignore,
                stream_memcap: ignore,
                reassembly_memcap: ignore,
                midstream: ignore,
                app_error: ignore,
            },
            inline: false,
            firewall: false,
            checksums: false,
            captured: CaptureChecksums::default(),
            alerts_max: PACKET_ALERTS_MAX,
            tx_guesses: 0,
            ranges: RangeOptions::default(),
            wants: Wants::default(),
            counts_stream_events: false,
            profile: None,
            seed: 1,
            pinned: Vec::new(),
            simulate_app_error: [None; 2],
            simulate_packet_loss: None,
            simulate_defrag_memcap: None,
        })
    }
}

/// The engine: shared by its workers.
#[derive(Debug)]
pub struct Engine {
    /// Rules; `None`: detection is off.
    pub detector: Option<Detector>,
    /// Protocols.
    pub protocols: Protocols,
    /// Their tables.
    pub catalog: Catalog,
    /// Settings. Those of a run stay when rules are loaded again.
    pub options: Arc<EngineOptions>,
    /// What scripts need.
    pub scripts: crate::script::ScriptSetup,
    /// Reputation of addresses.
    pub reputation: Arc<Reputation>,
    /// Countries of addresses, when a database is configured.
    pub countries: Option<Arc<Countries>>,
    /// Metadata and references of signatures as JSON.
    pub rule_texts: RuleTexts,
    /// How many engines the run had before: rules that are loaded while it lasts come with an engine of their own.
    pub generation: u32,
}

impl Engine {
    /// The engine of these rules, without scripts and without lists of addresses.
    pub fn with_rules(
        (set, datasets): (Ruleset, Datasets),
        catalog: Catalog,
        protocols: Protocols,
        options: EngineOptions,
    ) -> Engine {
        let (expressions, _) = Expressions::compile(&set, Limits::default(), true);
        let rule_texts = RuleTexts::new(&set);
        Engine {
            detector: Some(Detector::new(set, &catalog, expressions, datasets)),
            protocols,
            catalog,
            options: Arc::new(options),
            scripts: crate::script::ScriptSetup::default(),
            reputation: Arc::default(),
            countries: None,
            rule_texts,
            generation: 0,
        }
    }

    /// Makes this engine the next one of a run: it has the settings of the engine before, and continues with the
    /// datasets that rules or the operator have changed.
    pub fn follow(&mut self, before: &Engine) {
        self.generation = before.generation.wrapping_add(1);
        self.options = Arc::clone(&before.options);
        if let (Some(now), Some(before)) = (&mut self.detector, &before.detector) {
            now.datasets.continue_from(&before.datasets);
        }
    }
}

/// The JSON texts of all signatures, each made when an alert first asks for it: few rules of a large
/// set ever alert, and those that do so often.
#[derive(Debug, Default)]
pub struct RuleTexts {
    by_index: Vec<OnceLock<Box<RuleText>>>,
}

impl RuleTexts {
    /// For the signatures of a set, none made yet.
    pub fn new(set: &Ruleset) -> RuleTexts {
        RuleTexts { by_index: set.signatures.iter().map(|_| OnceLock::new()).collect() }
    }

    /// The texts of a signature of that set.
    pub fn get(
        &self,
        set: &gabion_rules::Ruleset,
        s: &gabion_rules::Signature,
    ) -> Option<&RuleText> {
        let slot = self.by_index.get(s.index as usize)?;
        Some(slot.get_or_init(|| Box::new(RuleText::from_signature(set, s))))
    }
}

/// JSON texts of a signature.
#[derive(Clone, Debug, Default)]
pub struct RuleText {
    /// `metadata` object, empty when there is none.
    pub metadata: Box<[u8]>,
    /// Values of the key `confidence`, separated by commas; empty when there are none.
    pub confidence: Box<[u8]>,
    /// `references` array, empty when there are none.
    pub references: Box<[u8]>,
}

impl RuleText {
    /// Writes the texts of a signature: keys in alphabetical order, values of one key in reverse
    /// order of the rule, as Suricata does.
    pub fn from_signature(set: &gabion_rules::Ruleset, s: &gabion_rules::Signature) -> RuleText {
        use gabion_record::json::Json;
        use std::collections::BTreeMap;
        let mut keys: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
        for (k, v) in set.metadata(s) {
            keys.entry(k).or_default().push(v);
        }
        let mut text = RuleText::default();
        if let Some(values) = keys.get("confidence") {
            text.confidence = values.join(",").into_bytes().into();
        }
        if !keys.is_empty() {
            let mut j = Json::new();
            j.open();
            for (k, values) in keys {
                j.key_text(k.as_bytes());
                j.push(b"[");
                for v in values.iter().rev() {
                    j.item(v);
                }
                j.close_array();
            }
            j.close();
            text.metadata = j.take_bytes().into();
        }
        if !s.references.is_empty() {
            let mut j = Json::new();
            j.open_array();
            for address in set.references(s) {
                j.item(address);
            }
            j.close_array();
            text.references = j.take_bytes().into();
        }
        text
    }
}
