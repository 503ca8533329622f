//! The whole engine: a worker with the demonstration's rules turns frames into EVE lines.

use crate::script::{Script, put_text};
use crate::seeds::{Seeds, repository};
use gabion_net::{Datasets, Engine, EngineOptions, FrameIn, Protocols, Worker, WorkerBudgets};
use gabion_outputs::eve::{EveSettings, EveWriter};
use gabion_record::applayer::Catalog;
use gabion_record::eve::*;
use gabion_record::{Direction, Tree};
use gabion_rules::{LoadOptions, RuleSource, Ruleset};
use std::sync::{Arc, OnceLock};

/// Link types by the first byte of the input.
const LINKS: &[u16] = &[1, 1, 1, 12, 113, 0, 276, 9];

/// Frames with times between them; small tables, so that their limits are reached.
pub fn frames(data: &[u8]) {
    static ENGINE: OnceLock<Arc<Engine>> = OnceLock::new();
    let engine = ENGINE.get_or_init(|| Arc::new(engine()));
    let mut script = Script::new(data);
    let link = LINKS.get(usize::from(script.u8()) % LINKS.len()).copied().unwrap_or(1);
    let mut worker = Worker::new(Arc::clone(engine), WorkerBudgets::standalone(engine));
    let mut sink = Lines::new();
    let mut ts_ns = 1_700_000_000_000_000_000;
    let mut number = 0;
    while !script.is_done() {
        number += 1;
        ts_ns += u64::from(script.u8()).pow(4) * 1_000;
        let frame = FrameIn {
            ts_ns,
            clock_ns: ts_ns,
            is_leap: false,
            number,
            device: 0,
            link,
            ignores_checksums: false,
            wire_len: 0,
            data: script.text(),
            fragments: None,
        };
        worker.frame(&frame, &mut sink);
    }
    worker.finish(&mut sink);
}

/// The tables are small, so that the fuzzer reaches their limits and they are created quickly.
pub(crate) fn configuration() -> Tree {
    let mut config = Tree::default();
    for (key, value) in [
        ("flow.memcap", "1mb"),
        ("flow.hash-size", "256"),
        ("flow.prealloc", "16"),
        ("stream.memcap", "256kb"),
        ("stream.reassembly.memcap", "512kb"),
        ("stream.reassembly.depth", "64kb"),
        ("stream.midstream", "true"),
        ("defrag.memcap", "256kb"),
        ("app-layer.protocols.tls.ja3-fingerprints", "yes"),
        ("app-layer.protocols.tls.ja4-fingerprints", "yes"),
        ("app-layer.protocols.ssh.hassh", "yes"),
    ] {
        config.set(key, value);
    }
    config
}

fn engine() -> Engine {
    let config = configuration();
    let catalog = gabion_proto::registry::catalog();
    let rules = std::fs::read_to_string(repository().join("demo/gabion.rules")).unwrap_or_default();
    let rules = format!("{rules}\n{}", ANY_RULES);
    let source = RuleSource { name: "gabion.rules", text: &rules, is_firewall: false };
    let options = LoadOptions::default();
    let (set, _) = Ruleset::load(&[source], &catalog, &crate::rules::vars(), &options);
    assert!(!set.signatures.is_empty(), "the demonstration has rules");
    assemble(&config, set, catalog)
}

/// Assembles the engine as the program does, for a configuration that is known to be valid.
pub(crate) fn assemble(config: &Tree, set: Ruleset, catalog: Catalog) -> Engine {
    const GOOD: &str = "the configuration is valid";
    let mut datasets = Datasets::default();
    for def in &set.datasets {
        assert!(datasets.open(def, None, &mut Vec::new()), "{GOOD}");
    }
    let options = EngineOptions {
        tx_guesses: 4,
        wants: EveWriter::new(settings()).wants(),
        ..EngineOptions::from_tree(config).expect(GOOD)
    };
    let protocols = Protocols::new(config, crate::proto::everything()).expect(GOOD);
    Engine::with_rules((set, datasets), catalog, protocols, options)
}

/// Rules that inspect every buffer of a parser.
const ANY_RULES: &str = r#"
alert ip any any -> any any (msg:"payload"; content:"e"; pcre:"/e.{1,40}t/s"; sid:1;)
alert tcp any any -> any any (msg:"numbers"; byte_extract:2,0,n,relative; byte_test:1,<,n,1; isdataat:4; sid:2;)
alert http any any -> any any (msg:"uri"; http.uri; content:"/"; sid:3;)
alert http any any -> any any (msg:"body"; file.data; content:"a"; to_lowercase; sid:4;)
alert dns any any -> any any (msg:"name"; dns.query; content:"."; sid:5;)
"#;

/// Settings with every record of EVE.
fn settings() -> EveSettings {
    let mut node = Tree::default();
    for (at, name) in [
        "alert", "anomaly", "http", "dns", "tls", "files", "smtp", "ftp", "ssh", "flow", "netflow",
        "drop",
    ]
    .iter()
    .enumerate()
    {
        node.set(&format!("types.{at}.{name}.enabled"), "yes");
    }
    for key in ["payload", "payload-printable", "packet", "http-body", "http-body-printable"] {
        node.set(&format!("types.0.alert.{key}"), "yes");
    }
    node.set("community-id", "true");
    EveSettings::from_config(&node, None)
}

/// Writes each record as a line and checks that it is JSON.
pub(crate) struct Lines {
    eve: EveWriter,
    lines: u64,
}

impl Lines {
    pub(crate) fn new() -> Lines {
        Lines { eve: EveWriter::new(settings()), lines: 0 }
    }
}

fn check(line: Option<gabion_outputs::Piece<'_>>, lines: &mut u64) {
    let Some(line) = line.map(|piece| piece.bytes) else { return };
    *lines += 1;
    let parsed: Result<serde_json::Value, _> = serde_json::from_slice(line);
    assert!(parsed.is_ok(), "{parsed:?}: {}", line.escape_ascii());
}

impl NetSink for Lines {
    fn alert(&mut self, record: &AlertRecord<'_>) {
        check(self.eve.alert(record), &mut self.lines);
    }
    fn app(&mut self, record: &AppRecord<'_>) {
        check(self.eve.app(record), &mut self.lines);
    }
    fn file(&mut self, record: &FileRecord<'_>) {
        check(self.eve.file(record), &mut self.lines);
    }
    fn file_chunk(&mut self, _: &FileChunk<'_>) {}
    fn flow(&mut self, record: &FlowRecord<'_>) {
        check(self.eve.flow(record), &mut self.lines);
        for direction in Direction::BOTH {
            check(self.eve.netflow(record, direction), &mut self.lines);
        }
    }
    fn anomaly(&mut self, record: &AnomalyRecord<'_>) {
        check(self.eve.anomaly(record), &mut self.lines);
    }
    fn dropped(&mut self, record: &DropRecord<'_>) {
        check(self.eve.dropped(record), &mut self.lines);
    }
    fn packet(&mut self, record: &PacketRecord<'_>) {
        check(self.eve.packet(record), &mut self.lines);
    }
    fn arp(&mut self, header: &Header<'_>, object: &dyn WriteObject) {
        check(self.eve.arp(header, object), &mut self.lines);
    }
}

/// Captures as scripts, long ones in parts.
pub fn seeds(seeds: &Seeds) -> Vec<Vec<u8>> {
    let mut all = Vec::new();
    for frames in &seeds.frames {
        for part in frames.chunks(60).take(8) {
            let Some(first) = part.first() else { continue };
            let Some(link) = LINKS.iter().position(|link| *link == first.link) else { continue };
            let mut out = vec![link as u8];
            for frame in part.iter().filter(|frame| frame.link == first.link) {
                if out.len() + frame.data.len() > 30_000 {
                    break;
                }
                out.push(1);
                put_text(&mut out, &frame.data);
            }
            all.push(out);
        }
    }
    all
}
