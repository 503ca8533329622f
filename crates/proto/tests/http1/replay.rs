//! Runs the HTTP/1 parser over a capture as an engine would, and collects its results.

use super::streams::{self, Event, Flow};
use gabion_proto::{
    Endpoints, Input, Inspect, LogOptions, Outcome, ParseContext, Parser, Requirements,
};
use gabion_proto::{Protocol, http1::PROTOCOL};
use gabion_record::applayer::Transport;
use gabion_record::json::Json;
use gabion_record::{Direction, Tree};
use std::collections::BTreeMap;
use std::path::Path;

/// Settings as Suricata's shipped configuration has them.
pub(crate) fn shipped() -> Tree {
    let mut t = Tree::default();
    for (key, value) in [
        ("personality", "IDS"),
        ("request-body-limit", "100 KiB"),
        ("response-body-limit", "100 KiB"),
        ("request-body-minimal-inspect-size", "32 KiB"),
        ("request-body-inspect-window", "4 KiB"),
        ("response-body-minimal-inspect-size", "40 KiB"),
        ("response-body-inspect-window", "16 KiB"),
        ("response-body-decompress-layer-limit", "2"),
        ("http-body-inline", "auto"),
    ] {
        t.set(&format!("libhtp.default-config.{key}"), value);
    }
    t
}

/// What was seen of a transaction.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Seen {
    pub(crate) flow: usize,
    pub(crate) id: u64,
    /// The EVE object.
    pub(crate) http: String,
    /// `name size state` of each file with its direction.
    pub(crate) files: Vec<(Direction, FileSeen)>,
    pub(crate) events: Vec<&'static str>,
    /// Every instance of every buffer at the end: (name, direction, index) → bytes.
    pub(crate) buffers: BTreeMap<(&'static str, u8, usize), Vec<u8>>,
    /// Windows of the streaming buffers, joined with a mark between them.
    pub(crate) windows: BTreeMap<(&'static str, u8), Vec<Vec<u8>>>,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct FileSeen {
    pub(crate) name: String,
    pub(crate) size: u64,
    pub(crate) state: &'static str,
    pub(crate) gaps: bool,
    pub(crate) range: Option<(u64, u64)>,
}

/// A flow being replayed.
struct Running {
    endpoints: Endpoints,
    parser: Option<Box<dyn Parser>>,
    held: [Vec<u8>; 2],
    failed: [bool; 2],
    detached: bool,
    inspected: BTreeMap<(u64, &'static str, u8), u64>,
    windows: BTreeMap<(u64, &'static str, u8), Vec<Vec<u8>>>,
}

/// Replays a capture. `piece` cuts every piece of data further (0: as the packets have it).
pub(crate) fn replay(path: &Path, settings: &Tree, piece: usize) -> Option<Vec<Seen>> {
    let (flows, events) = streams::read(path)?;
    let mut running: Vec<Running> = flows.iter().map(Running::new).collect();
    for event in events {
        match event {
            Event::Data { flow, direction, bytes } => {
                let step = if piece == 0 { bytes.len().max(1) } else { piece };
                for part in bytes.chunks(step) {
                    running[flow].data(settings, direction, part);
                }
            }
            Event::Gap { flow, direction, len } => running[flow].gap(direction, len),
            Event::End { flow, direction } => running[flow].end(direction),
        }
    }
    let mut seen = Vec::new();
    for (flow, r) in running.iter_mut().enumerate() {
        let Some(parser) = &mut r.parser else { continue };
        for direction in Direction::BOTH {
            parser.finish(direction);
        }
        r.inspect(true);
        r.collect(flow, &mut seen);
    }
    Some(seen)
}

impl Running {
    fn new(flow: &Flow) -> Running {
        Running {
            endpoints: Endpoints {
                ip_version: flow.version,
                client: flow.ends[0].0,
                client_port: flow.ends[0].1,
                server: flow.ends[1].0,
                server_port: flow.ends[1].1,
                is_tcp: true,
            },
            parser: None,
            held: Default::default(),
            failed: [false; 2],
            detached: false,
            inspected: BTreeMap::new(),
            windows: BTreeMap::new(),
        }
    }

    fn data(&mut self, settings: &Tree, direction: Direction, bytes: &[u8]) {
        if self.parser.is_none() {
            let held = &mut self.held[direction.index()];
            held.extend_from_slice(bytes);
            if !is_http(PROTOCOL, direction, held) {
                return;
            }
            let settings = (PROTOCOL.configure)(Some(settings)).expect("settings");
            self.parser = Some((PROTOCOL.open)(&settings, Transport::Tcp));
            let held = std::mem::take(&mut self.held);
            for d in Direction::BOTH {
                if !held[d.index()].is_empty() {
                    self.feed(d, &held[d.index()], false);
                }
            }
            return;
        }
        self.feed(direction, bytes, false);
    }

    fn end(&mut self, direction: Direction) {
        self.feed(direction, &[], true);
    }

    fn gap(&mut self, direction: Direction, len: u64) {
        self.give(direction, Input::Gap { len });
    }

    fn feed(&mut self, direction: Direction, bytes: &[u8], eof: bool) {
        self.give(direction, Input::Data { bytes, eof });
    }

    fn give(&mut self, direction: Direction, input: Input<'_>) {
        let Some(parser) = &mut self.parser else { return };
        if self.detached || self.failed.contains(&true) {
            return;
        }
        let mut cx = ParseContext::new(0, direction, &self.endpoints);
        cx.requirements = Requirements { file_data: true, ..Requirements::default() };
        let outcome = parser.parse(&mut cx, input);
        if outcome == Outcome::Error {
            self.failed[direction.index()] = true;
        }
        self.detached |= cx.change.is_some();
        self.inspect(false);
    }

    /// Asks for the windows of the streaming buffers that are due.
    fn inspect(&mut self, at_end: bool) {
        let Some(parser) = &self.parser else { return };
        for id in parser.first_tx_id()..parser.next_tx_id() {
            let Some(tx) = parser.tx(id) else { continue };
            for def in PROTOCOL.table.buffers.iter().filter(|d| d.streaming) {
                for hook in def.hooks {
                    let key = (id, def.name, hook.direction as u8);
                    let inspected = self.inspected.get(&key).copied().unwrap_or(0);
                    let how = Inspect { inspected, at_end, ..Inspect::default() };
                    if let Some(b) = tx.buffer(hook.local, hook.direction, 0, how) {
                        let end = b.start + b.data.len() as u64;
                        if end > inspected {
                            self.windows.entry(key).or_default().push(b.data.to_vec());
                            self.inspected.insert(key, end);
                        }
                    }
                }
            }
        }
    }

    fn collect(&self, flow: usize, out: &mut Vec<Seen>) {
        let Some(parser) = &self.parser else { return };
        for id in parser.first_tx_id()..parser.next_tx_id() {
            let Some(tx) = parser.tx(id) else { continue };
            let mut json = Json::new();
            json.open();
            tx.log(&mut json, LogOptions { in_alert: true, ..LogOptions::default() });
            json.close();
            let mut seen = Seen {
                flow,
                id,
                http: String::from_utf8_lossy(json.bytes()).into_owned(),
                ..Seen::default()
            };
            for code in tx.events() {
                let event = PROTOCOL.table.events.iter().find(|e| e.code == *code);
                seen.events.push(event.expect("a known event").name);
            }
            for direction in Direction::BOTH {
                for f in tx.files(direction).into_iter().flat_map(|l| &l.files) {
                    let file = FileSeen {
                        name: f.name.escape_ascii().to_string(),
                        size: f.size,
                        state: f.state.name(),
                        gaps: f.has_gaps,
                        range: f.range,
                    };
                    seen.files.push((direction, file));
                }
            }
            for def in PROTOCOL.table.buffers {
                for hook in def.hooks {
                    for index in 0..200 {
                        let how = Inspect { at_end: true, ..Inspect::default() };
                        let Some(b) = tx.buffer(hook.local, hook.direction, index, how) else {
                            break;
                        };
                        let key = (def.name, hook.direction as u8, index);
                        seen.buffers.insert(key, b.data.to_vec());
                    }
                }
            }
            for ((tx_id, name, direction), windows) in &self.windows {
                if *tx_id == id {
                    seen.windows.insert((name, *direction), windows.clone());
                }
            }
            out.push(seen);
        }
    }
}

fn is_http(protocol: &Protocol, direction: Direction, bytes: &[u8]) -> bool {
    protocol.patterns.iter().any(|p| {
        p.direction == direction
            && bytes.get(..p.bytes.len()).is_some_and(|b| b.eq_ignore_ascii_case(p.bytes))
    })
}
