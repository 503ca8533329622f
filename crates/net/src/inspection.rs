//! The stage of detection: the rules against a packet, its stream and its transactions.

use crate::context::PacketContext;
use crate::detect::{Detector, Filtered, Lent, Material, Resources, Run, Scratch, StreamData};
use crate::engine::Engine;
use crate::flow_state::NetFlow;
use crate::ordered::{Ordered, Turn};
use crate::script::Scripts;
use crate::state::{Bits, SharedState};
use gabion_flow::Flow;
use gabion_matcher::regex::RegexScratch;
use gabion_record::Direction;
use gabion_record::budget::Budget;
use smallvec::SmallVec;
use std::sync::Arc;

/// Detection of a worker.
pub(crate) struct InspectionStage {
    scratch: Scratch,
    regex: RegexScratch,
    scripts: Scripts,
    pub(crate) shared: SharedState,
    turn: Option<Turn>,
}

/// The scripts of an engine's rules.
fn scripts_of(engine: &Engine) -> Scripts {
    match &engine.detector {
        Some(d) if !d.set.scripts.is_empty() => Scripts::new(&d.set, &d.datasets, &engine.scripts),
        _ => Scripts::default(),
    }
}

/// The rules that ran on a packet.
pub(crate) enum Inspected {
    /// None.
    Skipped,
    /// The firewall only, before flow or stream: the packet goes no further.
    Early,
    /// All rules. Where they found something: the stream's bytes, for records.
    Rules { stream: Vec<u8> },
}

impl InspectionStage {
    /// A stage for the rules of an engine. `bits` are those of hosts and pairs.
    pub(crate) fn new(engine: &Engine, bits: Ordered<Bits>, turn: Option<Turn>) -> InspectionStage {
        InspectionStage {
            scratch: Scratch::default(),
            regex: RegexScratch::new(),
            scripts: scripts_of(engine),
            shared: SharedState::new(
                Arc::clone(&engine.reputation),
                engine.countries.clone(),
                bits,
            ),
            turn,
        }
    }

    /// Continues with the rules of another engine. Bits of hosts and pairs stay.
    pub(crate) fn adopt(&mut self, engine: &Engine) {
        let counters = self.scripts.counters;
        self.scripts = scripts_of(engine);
        self.scripts.counters = counters;
        self.scratch = Scratch::default();
        self.regex = RegexScratch::new();
        self.shared.adopt(Arc::clone(&engine.reputation), engine.countries.clone());
    }

    /// A run of rules on a packet.
    pub(crate) fn run<'r>(
        &'r mut self,
        cx: &'r mut PacketContext<'_>,
        det: &'r Detector,
        budget: &'r Budget,
        material: Material<'r>,
    ) -> Run<'r> {
        let lent = Lent {
            shared: &mut self.shared,
            budget,
            resources: Resources {
                expressions: &det.expressions,
                regex: &mut self.regex,
                datasets: &det.datasets,
                turn: self.turn.as_ref(),
                scripts: &mut self.scripts,
                catalog: &cx.engine.catalog,
            },
            scratch: &mut self.scratch,
            findings: cx.findings,
            costs: &mut cx.account.costs,
        };
        let inline = cx.engine.options.stream.inline;
        Run::new(det, (cx.view, cx.flow.as_deref_mut()), lent, material, inline)
    }

    /// Runs the rules on a packet; what they found is in the context.
    pub(crate) fn inspect(&mut self, cx: &mut PacketContext<'_>, budget: &Budget) -> Inspected {
        let engine = cx.engine;
        let Some(detector) = &engine.detector else {
            pass_stream(cx);
            return Inspected::Rules { stream: Vec::new() };
        };
        let is_firewall = detector.firewall.is_some();
        let is_end = cx.view.is_flow_end();
        cx.outcome.is_firewalled = is_firewall;
        if cx.outcome.skip_detection && (!is_firewall || cx.outcome.drop.is_some() || is_end) {
            if !is_firewall {
                pass_stream(cx);
                return Inspected::Skipped;
            }
            cx.findings.clear();
            cx.account.costs.begin_packet();
            cx.findings.hits.append(&mut cx.outcome.early);
            return Inspected::Early;
        }
        let (filtered, stream) = self.run_rules(cx, detector, budget, is_end);
        cx.account.settle_limits(cx.flow.as_deref_mut());
        let forgotten = std::mem::take(&mut self.scratch.forgotten);
        if let Some(f) = cx.flow.as_deref_mut() {
            let (texts, bytes) = f.ext.vars.settle(budget);
            cx.account.shed_app(f, forgotten + texts, bytes);
        }
        if is_firewall {
            crate::firewall::carry_out(filtered, cx.outcome, cx.flow.as_deref_mut());
            cx.findings.hits.splice(0..0, cx.outcome.early.drain(..));
        }
        Inspected::Rules { stream }
    }

    /// Runs the rules with the flow's session and parser, which are looked at while the flow's
    /// variables change. Returns what the firewall decided and, if there are hits, the stream's bytes.
    fn run_rules(
        &mut self,
        cx: &mut PacketContext<'_>,
        detector: &Detector,
        budget: &Budget,
        is_end: bool,
    ) -> (Filtered, Vec<u8>) {
        let (mut ssn, parser) = match cx.flow.as_deref_mut() {
            Some(f) => (f.tcp.take(), f.ext.app.parser.take()),
            None => (None, None),
        };
        let (engine, view, verdict) = (cx.engine, cx.view, cx.tcp);
        let inline = engine.options.stream.inline;
        let dir = view.direction.unwrap_or(Direction::ToServer);
        let config = &engine.options.stream;
        let chunk = match dir {
            Direction::ToServer => config.toserver_chunk,
            Direction::ToClient => config.toclient_chunk,
        };
        let is_looked_at = cx.flow.as_deref().is_some_and(|f| is_stream_looked_at(engine, f, dir));
        let added = verdict.filter(|v| v.is_stream_added);
        let counts_as_release = ssn.as_mut().filter(|_| !view.is_refused).is_some_and(|s| {
            let is_first_after_raw = s.stream_mut(dir).take_first_after_raw();
            is_first_after_raw || s.stream(dir).raw_waits()
        });
        let due = match &ssn {
            _ if view.is_refused || !is_looked_at => None,
            Some(s) if inline && !view.is_pseudo => added.and_then(|v| {
                s.stream(dir).raw_window(v.stream_offset, v.stream_len.into(), chunk.into())
            }),
            Some(s) => s.stream(dir).raw_views(chunk.into(), view.is_pseudo),
            None => None,
        };
        let advance = due.as_ref().map(|due| due.next);
        let pieces = due.into_iter().flat_map(|due| due.pieces);
        let stream: SmallVec<[StreamData<'_>; 1]> =
            pieces.map(|piece| StreamData { bytes: piece.data }).collect();
        let material = Material {
            tcp: ssn.as_deref(),
            parser: parser.as_deref().filter(|_| !view.is_refused),
            stream: &stream,
            counts_as_release,
            is_in_stream: added.is_some(),
            detects: true,
            fed: cx.outcome.fed[dir.index()],
        };
        let detects = !cx.outcome.skip_detection;
        let mut run = self.run(cx, detector, budget, material);
        match detector.firewall.as_deref().filter(|_| !is_end) {
            Some(firewall) => run.behind_firewall(firewall, detects),
            None => run.all(),
        }
        let filtered = run.filtered;
        drop(stream);
        if !detector.set.scripts.is_empty() {
            cx.account.counters.scripts = self.scripts.counters;
        }
        let mut bytes = Vec::new();
        if let Some(s) = &ssn
            && !cx.findings.hits.is_empty()
            && engine.options.wants.alerts
        {
            s.stream(dir).write_with_gaps(&mut bytes);
        }
        if let Some(s) = &mut ssn {
            let stream = s.stream_mut(dir);
            if is_looked_at {
                stream.read_raw();
            }
            match advance {
                Some(to) => stream.raw_advance(to),
                None if !is_looked_at => stream.pass_raw(),
                None => {}
            }
        }
        if let Some(f) = cx.flow.as_deref_mut() {
            f.tcp = ssn;
            f.ext.app.parser = parser;
        }
        (filtered, bytes)
    }
}

/// Whether some rule may look at what a side of a flow sends now: none does where detection is off or over for the flow, and
/// where no rule on streams is for its port.
#[inline]
pub(crate) fn is_stream_looked_at(engine: &Engine, flow: &Flow<NetFlow>, d: Direction) -> bool {
    engine.detector.as_ref().is_some_and(|detector| {
        let is_over = flow.ext.flags.skips_detection() && detector.firewall.is_none();
        !is_over && detector.stream_ports[d.index()].holds(flow.server.port)
    })
}

/// Where no rule looks at what the packet's side sends, nothing of it is kept for rules.
fn pass_stream(cx: &mut PacketContext<'_>) {
    let (Some(d), Some(flow)) = (cx.view.direction, cx.flow.as_deref_mut()) else { return };
    if !is_stream_looked_at(cx.engine, flow, d)
        && let Some(ssn) = &mut flow.tcp
    {
        ssn.stream_mut(d).pass_raw();
    }
}
