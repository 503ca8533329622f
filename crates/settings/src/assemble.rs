//! Makes an engine out of a configuration and rules.

use crate::countries::load_countries;
use crate::error::{Error, Result};
use gabion_flow::{DefragConfig, ExceptionPolicy, FlowConfig, StreamConfig};
use gabion_matcher::regex::Limits;
use gabion_net::script::ScriptSetup;
use gabion_net::{
    CaptureChecksums, Datasets, Detector, Engine, EngineOptions, Expressions, Policies, Protocols,
    RuleTexts,
};
use gabion_packet::DecodeConfig;
use gabion_proto::Requirements;
use gabion_record::Tree;
use gabion_record::applayer::{BufferDef, BufferNeed, Catalog};
use gabion_record::eve::Wants;
use gabion_rules::{Ruleset, SignatureFlags};
use gabion_runtime::jobs::run_at_once;
use gabion_runtime::memory::SmallPages;
use std::collections::HashSet;

/// Alerts in which a transaction is named by guess, where `detect.stream-tx-log-limit` says nothing (Suricata 8.0.7).
const TX_GUESSES: u8 = 4;

/// How checksums are treated (`-k`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Checksums {
    /// As configured.
    #[default]
    Configured,
    /// Looked at, all of them.
    All,
    /// Looked at, but for captures as configured: what Suricata does for `-k all`.
    Validated,
    /// Not looked at.
    None,
}

/// What is decided outside the configuration.
#[derive(Clone, Copy, Debug, Default)]
pub struct EngineMode {
    /// Packets are answered as if the engine stood in their way (`--simulate-ips`).
    pub inline: bool,
    /// Firewall mode.
    pub firewall: bool,
    /// How checksums are treated.
    pub checksums: Checksums,
    /// Whether the time of rules is measured: with `true` at every packet, else at one in 64.
    pub profile: Option<bool>,
    /// Faults to act out.
    pub simulate: SimulatedFaults,
}

/// Faults to act out, by packet number or stream offset.
#[derive(Clone, Copy, Debug, Default)]
pub struct SimulatedFaults {
    /// Offsets in streams to the server and to the client at which a parser fails.
    pub app_error: [Option<u64>; 2],
    /// The packet that is lost.
    pub packet_loss: Option<u64>,
    /// The packet at which there is no memory for a session.
    pub session_memcap: Option<u64>,
    /// The packet at which there is no memory for a segment.
    pub reassembly_memcap: Option<u64>,
    /// The packet at which there is no memory for a flow.
    pub flow_memcap: Option<u64>,
    /// The packet at which there is no memory for a fragment.
    pub defrag_memcap: Option<u64>,
}

/// The engine for this configuration: with these rules, for outputs that want these records.
/// While a run works with another engine, that one is `before`: what the rules of both need is shared with it, for memory
/// and time.
///
/// # Errors
/// When a value of the configuration, or a file that it names, can't be used.
pub fn build_engine(
    config: &Tree,
    (rules, before): (Option<(Ruleset, Datasets)>, Option<&Engine>),
    catalog: Catalog,
    wants: Wants,
    mode: EngineMode,
    scripts: ScriptSetup,
) -> Result<Engine> {
    let _small_pages = SmallPages::begin();
    let before = before.and_then(|engine| engine.detector.as_ref());
    let flow = FlowConfig::from_tree(config)?;
    let mut stream = StreamConfig::from_tree(config, mode.inline)?;
    let defrag = DefragConfig::from_tree(config)?;
    let checksums = match mode.checksums {
        Checksums::All | Checksums::Validated => true,
        Checksums::None => false,
        Checksums::Configured => stream.checksum_validation,
    };
    let captured = match (mode.checksums, config.flag("pcap-file.checksum-checks")) {
        (Checksums::All | Checksums::None, _) | (_, Some(true)) => CaptureChecksums::Checked,
        (_, Some(false)) => CaptureChecksums::Ignored,
        (_, None) => CaptureChecksums::Auto,
    };
    stream.checksum_validation = checksums;
    stream.simulate_ssn_memcap_at = mode.simulate.session_memcap.unwrap_or(0);
    stream.simulate_reassembly_memcap_at = mode.simulate.reassembly_memcap.unwrap_or(0);
    let policies = policies(config, &flow, &stream, &defrag, mode.inline)?;
    let rules_need = rules.as_ref().map(|(r, _)| needs(r, &catalog)).unwrap_or_default();
    let rules_look = rules.as_ref().is_some_and(|(r, _)| look_into_bodies(r, &catalog));
    let flag = |path: &str| config.flag(path);
    let file_store = config.get("outputs").and_then(|o| o.item("file-store"));
    let requirements = Requirements {
        ja3: rules_need.ja3,
        logs_ja3: wants.ja3,
        hassh: rules_need.hassh,
        md5: rules_need.md5 || wants.md5,
        sha1: rules_need.sha1 || wants.sha1,
        sha256: rules_need.sha256 || wants.sha256,
        magic: rules_need.magic || wants.magic,
        file_data: rules_need.file_data
            || wants.file_store
            || wants.file_data
            || wants.store_all_files,
        store_files: file_store.and_then(|f| f.flag("force-filestore")) == Some(true),
        store_depth: file_store
            .and_then(|f| f.size("stream-depth"))
            .or_else(|| config.size("stream.reassembly.depth"))
            .unwrap_or(1 << 20),
        bodies_unseen: !(rules_look
            || rules_need.file_data
            || wants.bodies
            || wants.files
            || wants.file_data
            || wants.file_store
            || wants.store_all_files
            || wants.anomaly_app
            || file_store.is_some()),
    };
    let mut protocols = Protocols::new(config, requirements)?;
    let mut rule_texts = RuleTexts::default();
    let detector = match rules {
        Some((set, datasets)) => {
            let limits = Limits {
                match_limit: config
                    .number("pcre.match-limit")
                    .and_then(|n| u32::try_from(n).ok())
                    .unwrap_or(3500),
                ..Limits::default()
            };
            let jit = flag("pcre.jit") != Some(false);
            rule_texts = RuleTexts::new(&set);
            let detector = match before {
                None => {
                    let compile = |set: &Ruleset| Expressions::compile(set, limits, jit).0;
                    Detector::with_expressions(set, &catalog, datasets, compile, run_at_once)
                }
                Some(before) => {
                    let known = before.expressions();
                    let (expressions, _failed) = known.compile_next(&set, limits, jit);
                    Detector::following(before, set, &catalog, expressions, datasets)
                }
            };
            Some(if mode.firewall {
                let policies = gabion_net::FirewallPolicies::from_tree(config, &catalog)?;
                detector.with_firewall(policies)
            } else {
                detector
            })
        }
        None => None,
    };
    let frames = detector.as_ref().map(Detector::frame_kinds).unwrap_or_default();
    protocols.want_frames(frames, wants.frames);
    let all = || vec![true; gabion_proto::registry().len() + 1];
    protocols.leave(detector.as_ref().map_or_else(all, Detector::unlooked), wants);
    let alerts_max = config
        .number("packet-alert-max")
        // Suricata keeps the default for a number that is none or above 255.
        .filter(|n| (1..=255).contains(n))
        .and_then(|n| usize::try_from(n).ok())
        .unwrap_or(gabion_net::limits::PACKET_ALERTS_MAX);
    let tx_guesses = match flag("detect.guess-applayer-tx") {
        Some(true) => {
            let number = config.number("detect.stream-tx-log-limit");
            number.and_then(|n| u8::try_from(n).ok()).unwrap_or(TX_GUESSES)
        }
        _ => 0,
    };
    let options = EngineOptions {
        decode: DecodeConfig::from_tree(config),
        defrag,
        flow,
        stream,
        app_memcap: config.size("app-layer.memcap"),
        policies,
        inline: mode.inline,
        firewall: mode.firewall,
        checksums,
        captured,
        alerts_max,
        tx_guesses,
        ranges: gabion_net::RangeOptions::from_tree(config),
        wants,
        counts_stream_events: flag("stats.stream-events").unwrap_or(false),
        profile: mode.profile.map(|exact| (gabion_runtime::clock::ticks as fn() -> u64, exact)),
        seed: std::hash::BuildHasher::hash_one(&std::hash::RandomState::new(), 0u8),
        pinned: pinned_rules(config)?,
        simulate_app_error: mode.simulate.app_error,
        simulate_packet_loss: mode.simulate.packet_loss,
        simulate_defrag_memcap: mode.simulate.defrag_memcap,
    };
    let reputation = std::sync::Arc::new(match &detector {
        Some(d) => crate::reputation::load(config, &d.set)?,
        None => gabion_net::Reputation::default(),
    });
    let countries = load_countries(config)?.map(std::sync::Arc::new);
    Ok(Engine {
        detector,
        countries,
        protocols,
        catalog,
        options: std::sync::Arc::new(options),
        scripts,
        reputation,
        rule_texts,
        generation: 0,
    })
}

/// The rules that are run while a ring runs full (`pinned-rules`): ids and ranges of ids, separated by commas.
fn pinned_rules(config: &Tree) -> Result<Vec<(u32, u32)>> {
    let Some(text) = config.text("pinned-rules") else { return Ok(Vec::new()) };
    let one = |part: &str| {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        Some((first.trim().parse().ok()?, last.trim().parse().ok()?))
    };
    let all: Option<Vec<_>> = text.split(',').map(one).collect();
    all.ok_or_else(|| Error::PinnedRules { text: text.to_owned() })
}

fn policies(
    config: &Tree,
    flow: &FlowConfig,
    stream: &StreamConfig,
    defrag: &DefragConfig,
    inline: bool,
) -> Result<Policies> {
    let named = |key: &'static str| -> Result<ExceptionPolicy> {
        match config.text(key).or_else(|| config.text("exception-policy")) {
            Some(t) => ExceptionPolicy::from_name(t)
                .ok_or_else(|| Error::NoPolicy { key, value: t.to_owned() }),
            None => Ok(ExceptionPolicy::Auto),
        }
    };
    Ok(Policies {
        defrag_memcap: defrag.memcap_policy.resolve(inline),
        flow_memcap: flow.memcap_policy.resolve(inline),
        stream_memcap: stream.memcap_policy.resolve(inline),
        reassembly_memcap: stream.reassembly_memcap_policy.resolve(inline),
        midstream: midstream(stream, inline, config.text("stream.midstream-policy").is_some())?,
        app_error: named("app-layer.error-policy")?.resolve(inline),
    })
}

/// Whole-flow policies only; with pickup of sessions in the middle only those that let them live.
/// One that comes from the master switch and does not fit is ignored.
fn midstream(stream: &StreamConfig, inline: bool, is_own: bool) -> Result<ExceptionPolicy> {
    let policy = stream.midstream_policy;
    let for_packets = matches!(policy, ExceptionPolicy::DropPacket | ExceptionPolicy::PassPacket);
    let against_pickup = matches!(
        policy,
        ExceptionPolicy::DropFlow | ExceptionPolicy::Reject | ExceptionPolicy::Bypass
    );
    if is_own && for_packets {
        return Err(Error::PacketPolicy { policy: policy.name() });
    }
    if is_own && stream.midstream && against_pickup {
        return Err(Error::MidstreamPolicy { policy: policy.name() });
    }
    Ok(policy.resolve_midstream(inline, stream.midstream).0)
}

/// Whether a rule looks into bodies of messages: at what they hold, at files in them, or at events
/// that are only known when they are unpacked.
fn look_into_bodies(rules: &Ruleset, catalog: &Catalog) -> bool {
    use gabion_rules::compiled::{BufferRef, TxTest};
    let is_body = |buffer: BufferRef| match buffer {
        BufferRef::App(id) => catalog.buffer(id).is_some_and(|found| found.def.need.is_of_bodies()),
        _ => false,
    };
    let tests_body = |test: &TxTest| match test {
        TxTest::Event(_) | TxTest::Files(_) | TxTest::Lua { .. } | TxTest::Condition(_) => true,
        TxTest::Integer(..) | TxTest::Reached | TxTest::State(_) => false,
    };
    !rules.scripts.is_empty()
        || rules.signatures.iter().filter(|s| s.inert.is_none()).any(|s| {
            s.flags.has(SignatureFlags::FILESTORE)
                || s.buffers.iter().any(|b| is_body(b.buffer))
                || s.tx.iter().any(|t| tests_body(&t.test))
        })
}

/// What the rules need parsers to do.
fn needs(rules: &Ruleset, catalog: &Catalog) -> Requirements {
    use gabion_rules::compiled::buffer::{FileCondition, HashKind};
    use gabion_rules::compiled::{BufferRef, TxTest};
    let mut r = Requirements::default();
    for s in &rules.scripts {
        r.ja3 |= s.facts.ja3;
        r.hassh |= s.facts.hassh;
    }
    let mut known = HashSet::new();
    for s in &rules.signatures {
        for b in s.buffers.iter() {
            let BufferRef::App(id) = b.buffer else { continue };
            let Some(def) = catalog.buffer(id).filter(|_| known.insert(id)) else { continue };
            // Each protocol that offers the buffer has a need of its own.
            let is_it = |b: &&BufferDef| b.name == def.def.name;
            for own in catalog.tables().filter_map(|(_, table)| table.buffers.iter().find(is_it)) {
                match own.need {
                    BufferNeed::Nothing | BufferNeed::Bodies => {}
                    BufferNeed::Ja3 => r.ja3 = true,
                    BufferNeed::Hassh => r.hassh = true,
                    BufferNeed::FileData => r.file_data = true,
                    BufferNeed::FileMagic => r.magic = true,
                }
            }
        }
        for t in &s.tx {
            let TxTest::Files(list) = &t.test else { continue };
            for c in list {
                if let FileCondition::Hash { list, .. } = c {
                    match rules.hash_lists.get(*list as usize).map(|l| l.kind) {
                        Some(HashKind::Md5) => r.md5 = true,
                        Some(HashKind::Sha1) => r.sha1 = true,
                        Some(HashKind::Sha256) => r.sha256 = true,
                        None => {}
                    }
                }
            }
        }
        r.file_data |= s.flags.has(SignatureFlags::FILESTORE);
    }
    r
}

#[cfg(test)]
mod tests {
    use super::*;
    use gabion_rules::{LoadOptions, RuleSource, RuleVars};

    /// What a rule needs, by its options.
    fn needs_of(options: &str) -> Requirements {
        let catalog = gabion_proto::registry::catalog();
        let text = format!("alert http any any -> any any ({options} sid:1;)");
        let source = RuleSource { name: "test.rules", text: &text, is_firewall: false };
        let options = LoadOptions::default();
        let (set, said) = Ruleset::load(&[source], &catalog, &RuleVars::default(), &options);
        assert_eq!(set.signatures.len(), 1, "{said:?}");
        needs(&set, &catalog)
    }

    /// HTTP/2 keeps bodies as files, HTTP/1 does not.
    #[test]
    fn a_rule_needs_what_any_protocol_needs_for_its_buffers() {
        for buffer in ["http.request_body", "http.response_body", "file.data"] {
            assert!(needs_of(&format!("{buffer}; content:\"x\";")).file_data, "{buffer}");
        }
        assert!(!needs_of("http.uri; content:\"x\";").file_data);
    }
}
